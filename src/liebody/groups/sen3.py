"""SE_n(3): one rotation with n vectors, the group of attitude, velocity, position, and points of contact."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.arguments import count
from ..scalars import Array, Coordinates, GroupElement
from .base import LieGroup
from .se3 import SE3
from .so3 import (
    SO3,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_product,
    quaternion_rotate,
)


class SEn3(LieGroup):
    """A rotation with n vectors, X = [R x1 ... xn; 0 1] of size 3 + n: SEn3(1) is SE3.

    The rotation acts on each vector alike: X Y = (R S, x1 + R y1, ..., xn + R yn). Algebra vectors are
    u = (omega, v1, ..., vn), (3 + 3 n,), flat coordinates q = (w, x, y, z, x1, ..., xn), (4 + 3 n,), with a
    unit quaternion.

        X = SEn3(2)                     # attitude, velocity and position of an IMU
        x = X.integrate(X.neutral(), [0, 0, 0.1, 1, 0, 0, 0, 0, 0.5])

    vectors  n, zero or more

    Each pair of the rotation and one vector is an element of SE(3), and moves as one, so the closed forms of
    SE3 hold. Barrau and Bonnabel (2017), "The invariant extended Kalman filter as a stable observer", IEEE
    Transactions on Automatic Control 62, for n = 2; Hartley et al. (2020), "Contact-aided invariant extended
    Kalman filtering for robot state estimation", International Journal of Robotics Research 39, section 4.

    Raises ArgumentError for an n that is no whole number, or below zero.
    """

    quaternions = (0,)

    def __init__(self, vectors: int) -> None:
        self.vectors = count("the number of vectors of SEn3", vectors, 0)
        self.n = 3 + self.vectors
        self.dim = 3 + 3 * self.vectors
        self.nq = 4 + 3 * self.vectors
        self.name = f"SEn3({self.vectors})"

    def _value(self) -> Any:
        return self.vectors

    def element_of(self, R: Array, vectors: Any) -> GroupElement:
        """[R x1 ... xn; 0 1] of a rotation (3, 3) and vectors, (3,) each."""
        columns = [R, *(np.reshape(x, (3, 1)) for x in vectors)]
        bottom = np.concatenate([np.zeros((self.vectors, 3), int), np.eye(self.vectors, dtype=int)], axis=1)
        return np.concatenate([np.concatenate(columns, axis=1), bottom])

    def parts(self, X: GroupElement) -> tuple[Array, list[Array]]:
        """R (3, 3), and the vectors, (3,) each, of X."""
        return X[:3, :3], [X[:3, 3 + i] for i in range(self.vectors)]

    def compose(self, X: Array, Y: Array) -> GroupElement:
        """(R S, x1 + R y1, ..., xn + R yn)."""
        R, xs = self.parts(X)
        S, ys = self.parts(Y)
        return self.element_of(R @ S, [x + R @ y for x, y in zip(xs, ys, strict=True)])

    def inverse(self, X: GroupElement) -> GroupElement:
        R, xs = self.parts(X)
        return self.element_of(R.T, [-(R.T @ x) for x in xs])

    def hat(self, u: Array) -> Array:
        """[[omega] v1 ... vn; 0 0]."""
        u = np.asarray(u)
        columns = [SO3.hat(u[:3]), *(np.reshape(v, (3, 1)) for v in self._vectors(u))]
        return np.concatenate([np.concatenate(columns, axis=1), np.zeros((self.vectors, self.n), int)])

    def vee(self, U: Array) -> Array:
        return np.concatenate([SO3.vee(U[:3, :3]), *(U[:3, 3 + i] for i in range(self.vectors))])

    def exp(self, u: Array) -> GroupElement:
        """(exp(omega), dexp(omega) v1, ..., dexp(omega) vn)."""
        u = np.asarray(u)
        return self.element_of(SO3.exp(u[:3]), [SE3.exp(pair)[:3, 3] for pair in self._pairs(u)])

    def log(self, X: GroupElement) -> Array:
        # each vector is dexp(omega) v, solved for v
        R, xs = self.parts(X)
        omega = SO3.log(R)
        return np.concatenate([omega, *(SO3.dexp_inverse_times(omega, x) for x in xs)])

    def Ad(self, X: GroupElement) -> Array:
        """[[R, 0, 0], [[x1] R, R, 0], [[x2] R, 0, R]], and so on."""
        R, xs = self.parts(X)
        return self._arrow(R, [SO3.hat(x) @ R for x in xs])

    def ad(self, u: Array) -> Array:
        """[[[omega], 0, 0], [[v1], [omega], 0], [[v2], 0, [omega]]], and so on."""
        u = np.asarray(u)
        return self._arrow(SO3.hat(u[:3]), [SO3.hat(v) for v in self._vectors(u)])

    def coad(self, p: Array) -> Array:
        """[[-[p_omega], -[p1], -[p2]], [-[p1], 0, 0], [-[p2], 0, 0]], and so on."""
        p = np.asarray(p)
        blocks = np.zeros((1 + self.vectors, 1 + self.vectors, 3, 3), int).astype(p.dtype)
        for i, x in enumerate([p[:3], *self._vectors(p)]):
            blocks[0, i] = blocks[i, 0] = -SO3.hat(x)
        return _matrix(blocks)

    def dexp(self, u: Array) -> Array:
        """[[D, 0, 0], [Q1, D, 0], [Q2, 0, D]] and so on, with D and Qi of SE3.dexp at (omega, vi)."""
        u = np.asarray(u)
        return self._arrow(SO3.dexp(u[:3]), [SE3.dexp(pair)[3:, :3] for pair in self._pairs(u)])

    def dexp_inverse(self, u: Array) -> Array:
        """As dexp, with the blocks of SE3.dexp_inverse; for |omega| < 2 pi."""
        u = np.asarray(u)
        lower = [SE3.dexp_inverse(pair)[3:, :3] for pair in self._pairs(u)]
        return self._arrow(SO3.dexp_inverse(u[:3]), lower)

    def dexp_inverse_times(self, u: Array, w: Array) -> Array:
        u = np.asarray(u)
        w = np.asarray(w)
        parts = [SO3.dexp_inverse_times(u[:3], w[:3])]
        for pair, other in zip(self._pairs(u), self._pairs(w), strict=True):
            parts.append(SE3.dexp_inverse_times(pair, other)[3:])
        return np.concatenate(parts)

    def element(self, q: Coordinates) -> GroupElement:
        q = np.asarray(q)
        return self.element_of(SO3.element(q[:4]), self._vectors(q[1:]))

    def coordinates(self, X: GroupElement) -> Coordinates:
        R, xs = self.parts(X)
        return np.concatenate([SO3.coordinates(R), *xs])

    def integrate(self, q: Coordinates, u: Array) -> Coordinates:
        # in quaternions throughout, as SE3 does
        q = np.asarray(q)
        u = np.asarray(u)
        moved = [SE3.integrate(np.concatenate([q[:4], x]), pair)[4:] for x, pair in self._places(q, u)]
        return np.concatenate([quaternion_product(q[:4], quaternion_exp(u[:3])), *moved])

    def difference(self, q0: Coordinates, q1: Coordinates) -> Array:
        q0 = np.asarray(q0)
        q1 = np.asarray(q1)
        back = quaternion_conjugate(q0[:4])
        omega = quaternion_log(quaternion_product(back, q1[:4]))
        ends = zip(self._vectors(q0[1:]), self._vectors(q1[1:]), strict=True)
        vectors = [quaternion_rotate(back, x1 - x0) for x0, x1 in ends]
        return np.concatenate([omega, *(SO3.dexp_inverse_times(omega, x) for x in vectors)])

    def normalize(self, q: Coordinates) -> Coordinates:
        q = np.asarray(q)
        return np.concatenate([SO3.normalize(q[:4]), q[4:]])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        vectors = rng.standard_normal((*shape, 3 * self.vectors))
        return np.concatenate([SO3.random(rng, shape), vectors], axis=-1)

    def _vectors(self, u: Array) -> list[Array]:
        """The vectors behind the first three entries, (3,) each."""
        return [u[3 + 3 * i : 6 + 3 * i] for i in range(self.vectors)]

    def _pairs(self, u: Array) -> list[Array]:
        """(omega, vi) of each vector: twists of SE3, (6,)."""
        return [np.concatenate([u[:3], v]) for v in self._vectors(u)]

    def _places(self, q: Array, u: Array) -> list[tuple[Array, Array]]:
        """Each vector of q with the twist that moves it."""
        return list(zip(self._vectors(q[1:]), self._pairs(u), strict=True))

    def _arrow(self, diagonal: Array, lower: list[Array]) -> Array:
        """The matrix (dim, dim) with one block (3, 3) along the diagonal, and others below the first one."""
        kind = np.result_type(diagonal, *lower)
        blocks = np.zeros((1 + self.vectors, 1 + self.vectors, 3, 3), int).astype(kind)
        for i in range(1 + self.vectors):
            blocks[i, i] = diagonal
        for i, block in enumerate(lower, start=1):
            blocks[i, 0] = block
        return _matrix(blocks)


def _matrix(blocks: Array) -> Array:
    """The matrix (3 k, 3 k) of blocks (k, k, 3, 3)."""
    k = len(blocks)
    return np.reshape(np.moveaxis(blocks, 2, 1), (3 * k, 3 * k))
