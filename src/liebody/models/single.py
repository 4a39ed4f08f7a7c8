"""One body: free in space, and the heavy top."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import SpatialInertia, Tree, TreeBuilder
from ..groups import Free, Spherical
from ..scalars import Array
from .model import model


@model()
def free_rigid_body(mass: Any = 1.0, inertia: Array = (1.0, 2.0, 3.0)) -> Tree:
    """A rigid body on nothing: Euler's equations, I omega' + omega x I omega = 0.

    mass     [kg]
    inertia  rotational inertia about the centre of mass, the origin of the body: (3,) or (3, 3)  [kg m2]

    The default body turns unstably about its second axis (Dzhanibekov's nut).
    """
    body = SpatialInertia(mass, np.zeros(3), np.asarray(inertia))
    return TreeBuilder("free_rigid_body").add("body", Free(), body).build()


@model()
def heavy_top(
    mass: Any = 15.0,
    com: Array = (0.0, 1.0, 0.0),
    inertia: Array = (0.234375, 0.46875, 0.234375),
) -> Tree:
    """A top on a ball joint at the origin of the world.

    mass     [kg]
    com      centre of mass in the body, (3,)                                            [m]
    inertia  rotational inertia about the centre of mass, (3,) or (3, 3)                 [kg m2]

    The benchmark starts at the neutral configuration, with omega = (0, 150, -4.61538) rad/s and gravity along
    -z: M. Geradin and A. Cardona, Flexible Multibody Dynamics (2001).
    """
    top = SpatialInertia(mass, np.asarray(com), np.asarray(inertia))
    return TreeBuilder("heavy_top").add("top", Spherical(), top).frame("tip", "top", np.asarray(com)).build()
