"""R^n, and the rotations of the plane, SO(2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import ShapeError
from ..scalars import Array, Coordinates, GroupElement, arctan2, cos, sin
from .base import LieGroup, random_angles


class RealGroup(LieGroup):
    """Vectors under addition: g = [1 x; 0 1], of size n + 1; q = u = x."""

    def __init__(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise ShapeError(f"R(n) takes a number of dimensions n >= 0, not {size!r}")
        self.n = int(size) + 1
        self.dim = int(size)
        self.nq = int(size)
        self.name = f"R({size})"

    def _value(self) -> Any:
        return self.name

    def inverse(self, g: GroupElement) -> GroupElement:
        return self.element(-self.coordinates(g))

    def hat(self, u: Array) -> Array:
        column = np.concatenate([u, [0]])
        return np.concatenate([np.zeros((self.n, self.dim), int), column[:, None]], axis=1)

    def vee(self, U: Array) -> Array:
        return U[:-1, -1]

    def exp(self, u: Array) -> GroupElement:
        return self.element(u)

    def log(self, g: GroupElement) -> Array:
        return self.coordinates(g)

    def Ad(self, g: GroupElement) -> Array:
        return np.eye(self.dim)

    def ad(self, u: Array) -> Array:
        return np.zeros((self.dim, self.dim))

    def coad(self, p: Array) -> Array:
        return np.zeros((self.dim, self.dim))

    def dexp(self, u: Array) -> Array:
        return np.eye(self.dim)

    def dexp_inverse(self, u: Array) -> Array:
        return np.eye(self.dim)

    def dexp_inverse_times(self, u: Array, w: Array) -> Array:
        return np.asarray(w)

    def element(self, q: Coordinates) -> GroupElement:
        return np.eye(self.n, dtype=int) + self.hat(q)

    def coordinates(self, g: GroupElement) -> Coordinates:
        return g[:-1, -1]

    def integrate(self, q: Coordinates, u: Array) -> Coordinates:
        return np.asarray(q) + np.asarray(u)

    def difference(self, q0: Coordinates, q1: Coordinates) -> Array:
        return np.asarray(q1) - np.asarray(q0)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return rng.standard_normal((*shape, self.nq))


class SO2Group(RealGroup):
    """Rotations of the plane, with q = u = (angle,).

    The coordinate is wound: it counts turns, integrate adds and difference subtracts. log, of the matrix,
    which has forgotten the turns, lies in (-pi, pi].
    """

    n, dim, nq = 2, 1, 1
    name = "SO2"

    def __init__(self) -> None:
        pass

    def inverse(self, g: GroupElement) -> GroupElement:
        return g.T

    def hat(self, u: Array) -> Array:
        (w,) = u
        return np.array([[0, -w], [w, 0]])

    def vee(self, U: Array) -> Array:
        return np.array([U[1, 0]])

    def element(self, q: Coordinates) -> GroupElement:
        c, s = cos(q[0]), sin(q[0])
        return np.array([[c, -s], [s, c]])

    def coordinates(self, g: GroupElement) -> Coordinates:
        return np.array([arctan2(g[1, 0], g[0, 0])])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return random_angles(rng, shape)


def R(size: int) -> RealGroup:
    """The vector group R^n."""
    return RealGroup(size)


SO2 = SO2Group()
