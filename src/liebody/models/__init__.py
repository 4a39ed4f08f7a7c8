"""Mechanisms that need no file: each function returns a Robot (its tree is `.tree`).

    double_pendulum     planar, with point masses; or on ball joints
    spherical_pendulum  a ball on a ball joint
    planar_chain        n rods
    free_rigid_body     a body on nothing
    heavy_top           the benchmark of rotation integrators
    puma560             the arm of Armstrong, Khatib and Burdick
    space_robot         a satellite with an arm, without gravity
    prismatic_hopper    a monopod whose leg slides; revolute_hopper: one with a knee
    two_joint_hopper    a monopod with hip and knee; three_joint_hopper: with an ankle, too

Parameters may be numbers, or symbols of a trace. At their neutral configuration the pendulums hang straight
down. Planar mechanisms move in the plane of their base frame's x and y axes, and fall along -y: the base
frame stands upright in the world, with y along the world's z.
"""

from .hoppers import prismatic_hopper, revolute_hopper, three_joint_hopper, two_joint_hopper
from .pendulums import double_pendulum, planar_chain, spherical_pendulum
from .puma import puma560
from .single import free_rigid_body, heavy_top
from .space_robot import space_robot


def names() -> list[str]:
    """The names by which `liebody.load` knows these mechanisms."""
    return [name for name in __all__ if name != "names"]


__all__ = [
    "double_pendulum",
    "free_rigid_body",
    "heavy_top",
    "names",
    "planar_chain",
    "prismatic_hopper",
    "puma560",
    "revolute_hopper",
    "space_robot",
    "spherical_pendulum",
    "three_joint_hopper",
    "two_joint_hopper",
]
