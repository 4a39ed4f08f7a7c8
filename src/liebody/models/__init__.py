"""Mechanisms that need no file: each function returns a Robot (its tree is `.tree`).

    double_pendulum     planar, with point masses; or on ball joints
    spherical_pendulum  a ball on a ball joint
    planar_chain        n rods
    free_rigid_body     a body on nothing
    heavy_top           the benchmark of rotation integrators
    puma560             the arm of Armstrong, Khatib and Burdick
    space_robot         a satellite with an arm, without gravity

Parameters may be numbers, or symbols of a trace. At their neutral configuration the pendulums hang straight
down. Planar mechanisms move in the plane of their base frame's x and y axes, and fall along -y: the base
frame stands upright in the world, with y along the world's z.
"""

from .pendulums import double_pendulum, planar_chain, spherical_pendulum
from .puma import puma560
from .single import free_rigid_body, heavy_top
from .space_robot import space_robot

__all__ = [
    "double_pendulum",
    "free_rigid_body",
    "heavy_top",
    "planar_chain",
    "puma560",
    "space_robot",
    "spherical_pendulum",
]
