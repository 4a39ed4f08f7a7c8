"""Pendulums and chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.arguments import count, quantities, quantity
from ..bodies import WORLD, SpatialInertia, Tree, TreeBuilder
from ..groups import Revolute, Spherical
from ..scalars import Array
from .model import model

UPRIGHT = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""Pose of a plane that stands in the world: its x along x, its y along z."""


@model()
def double_pendulum(masses: Array = (1.0, 1.0), lengths: Array = (1.0, 1.0), spherical: bool = False) -> Tree:
    """Two bobs on massless rods.

    masses     of the bobs, (2,)                                                         [kg]
    lengths    of the rods, (2,)                                                         [m]
    spherical  False: hinges and point masses, q = (angle, angle between the rods), both zero hanging down;
               with c = cos q2 the mass matrix is
                   [(m1 + m2) l1^2 + m2 l2^2 + 2 m2 l1 l2 c    m2 l2^2 + m2 l1 l2 c]
                   [m2 l2^2 + m2 l1 l2 c                       m2 l2^2             ]
               True: ball joints; the bobs are solid balls with a tenth of the rod's length as radius, since
               points would turn about their rods without inertia
    """
    masses = quantities("double_pendulum: masses", masses, (2,)).tolist()
    lengths = quantities("double_pendulum: lengths", lengths, (2,)).tolist()
    return _chain("double_pendulum", masses, lengths, _ball if spherical else _point, spherical)


@model()
def spherical_pendulum(mass: Any = 1.0, length: Any = 1.0, radius: Any = 0.1) -> Tree:
    """A solid ball on a massless rod on a ball joint.

    mass     of the ball                                                                 [kg]
    length   from the joint to the centre of the ball                                    [m]
    radius   of the ball                                                                 [m]

    Without damping, the energy and the vertical component of the angular momentum about the joint stay.
    """
    com = np.array([0, 0, -quantity("spherical_pendulum: length", length)])
    return (
        TreeBuilder("spherical_pendulum")
        .add("ball", Spherical(), SpatialInertia.sphere(mass, radius, com))
        .frame("tip", "ball", com)
        .build()
    )


@model()
def planar_chain(n: int = 10, length: Any = 1.0, mass: Any = 1.0) -> Tree:
    """n equal thin rods in a row on hinges, hanging down at q = 0; for n = 1 the compound pendulum.

    n        number of rods
    length   of each rod                                                                 [m]
    mass     of each rod                                                                 [kg]
    """
    n = count("planar_chain: n", n)
    length = quantity("planar_chain: length", length)
    # all links share the same length and mass, which may be symbols
    return _chain("planar_chain", [mass] * n, [length] * n, _rod, spherical=False)


def _chain(name: str, masses: Sequence[Any], lengths: Sequence[Any], inertia: Any, spherical: bool) -> Tree:
    """Rods in a row, along -y of their frames in a plane, along -z in space."""
    builder = TreeBuilder(name)
    parent = WORLD
    axis = 2 if spherical else 1
    placement = np.eye(4) if spherical else UPRIGHT
    for i, (mass, length) in enumerate(zip(masses, lengths, strict=True), start=1):
        # exact zeros beside a length that may be a symbol
        end = np.array([0 if k != axis else -length for k in range(3)])
        group = Spherical() if spherical else Revolute((0, 0, 1))
        builder.add(f"link{i}", group, inertia(mass, length, end), parent, placement)
        parent = f"link{i}"
        placement = end
    return builder.frame("tip", parent, placement).build()


def _point(mass: Any, length: Any, end: np.ndarray) -> SpatialInertia:
    return SpatialInertia.point(mass, end)


def _ball(mass: Any, length: Any, end: np.ndarray) -> SpatialInertia:
    return SpatialInertia.sphere(mass, length / 10, end)


def _rod(mass: Any, length: Any, end: np.ndarray) -> SpatialInertia:
    return SpatialInertia.rod(mass, length, axis=1, com=end / 2)
