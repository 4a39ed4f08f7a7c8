"""Potential energies on a group, and the forces that they make: minus their derivatives along the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..groups import LieGroup
from ..groups.along import gradient
from ..scalars import Array
from .forces import Force


@dataclass(frozen=True)
class Potential(Force):
    """The forces -dU/dq of a potential energy U(q), along the group of a mechanism.

        spring = Potential(lambda q: 50 * q[4:7] @ q[4:7], robot.group)   # of a floating base to the origin

    function  U(q) () of the coordinates (nq,), of NumPy operators and `liebody.scalars`               [J]
    group     the mechanism's configuration group. A floating base comes first in q, as (w, x, y, z, o):
              with R = SO3.element(q[:4]) any U(o, R, q) of Feurstein (2021), eq. (2.49), can be written
    """

    function: Callable[[Array], Any]
    group: LieGroup
    name = "potential"

    def efforts(self, t: Any, q: Array, v: Array) -> Array:
        # a group may have coordinates without a velocity, such as parameters of curves, which take no effort
        return -gradient(self.function, self.group)(q)[: len(v)]

    def energy(self, *at: Any, **more: Any) -> Any:
        return self.function(*at)
