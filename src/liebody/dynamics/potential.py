"""Potential energies on a group, and the forces that they make: minus their derivatives along the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..codegen import Function, jacobian, trace
from ..groups import LieGroup
from ..scalar import Array
from .forces import Force


def tangents(group: LieGroup) -> Function:
    """E(q, u) (nq, dim), d(q exp u)/du, to be taken at u = 0: no series of exp is differentiated beyond."""
    return jacobian(trace(group.integrate, {"q": group.nq, "u": group.dim}, "moved"), "u")


def gradient(U: Callable[[Array], Any], group: LieGroup) -> Callable[[Array], Array]:
    """q -> dU(q exp u)/du at u = 0, (dim,), on floats or symbols: U's graph, derived along the group.

    U  takes coordinates q (nq,) of the group; made of NumPy operators and `liebody.scalar`
    """
    plain = jacobian(trace(U, {"q": group.nq}, "U"), "q", "reverse")
    along, still = tangents(group), np.zeros(group.dim)
    return lambda q: plain(q) @ along(q, still)


@dataclass(frozen=True)
class Potential(Force):
    """The forces -dU/dq of a potential energy U(q), along the group of a mechanism.

        spring = Potential(lambda q: 50 * q[4:7] @ q[4:7], robot.group)   # of a floating base to the origin

    function  U(q) () of the coordinates (nq,), of NumPy operators and `liebody.scalar`               [J]
    group     the mechanism's configuration group. A floating base comes first in q, as (w, x, y, z, o):
              with R = SO3.element(q[:4]) any U(o, R, q) of Feurstein (2021), eq. (2.49), can be written
    """

    function: Callable[[Array], Any]
    group: LieGroup
    name = "potential"

    def efforts(self, t: Any, q: Array, v: Array) -> Array:
        return -gradient(self.function, self.group)(q)[: len(v)]

    def energy(self, *at: Any, **more: Any) -> Any:
        return self.function(*at)
