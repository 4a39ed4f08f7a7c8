"""SE(3): rigid motions of space."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..scalars import Array, Coordinates, GroupElement
from ..scalars.linear import cross
from . import coefficients
from .base import LieGroup
from .so3 import (
    SO3,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_product,
    quaternion_rotate,
)

_ZERO = np.zeros((3, 3), int)
_LAST_ROW = np.array([[0, 0, 0, 1]])


class SE3Group(LieGroup):
    """Rigid motions T = [R p; 0 1], u = (omega, v), q = (w, x, y, z, px, py, pz) with a unit quaternion."""

    n, dim, nq = 4, 6, 7
    name = "SE3"
    quaternions = (0,)
    poses = (0,)

    def _value(self) -> Any:
        return self.name

    def motion(self, R: Array, p: Array) -> GroupElement:
        """[R p; 0 1], (4, 4)."""
        return np.concatenate([np.concatenate([R, np.reshape(p, (3, 1))], axis=1), _LAST_ROW])

    def parts(self, T: GroupElement) -> tuple[Array, Array]:
        """R (3, 3) and p (3,) of T."""
        return T[:3, :3], T[:3, 3]

    def compose(self, T1: Array, T2: Array) -> GroupElement:
        """(R1 R2, p1 + R1 p2); Mueller-Terze eq. (5)."""
        R1, p1 = self.parts(T1)
        R2, p2 = self.parts(T2)
        return self.motion(R1 @ R2, p1 + R1 @ p2)

    def inverse(self, T: GroupElement) -> GroupElement:
        R, p = self.parts(T)
        return self.motion(R.T, -(R.T @ p))

    def hat(self, u: Array) -> Array:
        """[[omega] v; 0 0]."""
        x, y, z, vx, vy, vz = u
        return np.array([[0, -z, y, vx], [z, 0, -x, vy], [-y, x, 0, vz], [0, 0, 0, 0]])

    def vee(self, U: Array) -> Array:
        return np.array([U[2, 1], U[0, 2], U[1, 0], U[0, 3], U[1, 3], U[2, 3]])

    def exp(self, u: Array) -> GroupElement:
        """(exp(omega), dexp(omega) v), without a case for omega = 0."""
        u = np.asarray(u)
        return self.motion(SO3.exp(u[:3]), _dexp_times(u[:3], u[3:]))

    def log(self, T: GroupElement) -> Array:
        # p = dexp(omega) v, solved for v.
        R, p = self.parts(T)
        omega = SO3.log(R)
        return np.concatenate([omega, SO3.dexp_inverse_times(omega, p)])

    def Ad(self, T: GroupElement) -> Array:
        """[[R, 0], [[p] R, R]]; Ploen eq. (4)."""
        R, p = self.parts(T)
        return np.block([[R, _ZERO], [SO3.hat(p) @ R, R]])

    def ad(self, u: Array) -> Array:
        """[[[omega], 0], [[v], [omega]]]; Mueller-Terze eq. (7)."""
        W = SO3.hat(u[:3])
        return np.block([[W, _ZERO], [SO3.hat(u[3:]), W]])

    def coad(self, p: Array) -> Array:
        """[[-[p_omega], -[p_v]], [-[p_v], 0]]; From, table 1."""
        P = -SO3.hat(p[3:])
        return np.block([[-SO3.hat(p[:3]), P], [P, _ZERO]])

    def dexp(self, u: Array) -> Array:
        """[[D, 0], [Q, D]], D = dexp(omega), Q = b [v] + c (W V + V W) + (omega . v) (db W + dc W^2).

        Q is the derivative of D along v, with W = [omega], V = [v].
        """
        u = np.asarray(u)
        omega, v = u[:3], u[3:]
        x = omega @ omega
        along = omega @ v
        W, V = SO3.hat(omega), SO3.hat(v)
        D = SO3.dexp(omega)
        Q = (
            coefficients.b(x) * V
            + coefficients.c(x) * _anticommutator(omega, v)
            + along * (coefficients.db(x) * W + coefficients.dc(x) * (W @ W))
        )
        return np.block([[D, _ZERO], [Q, D]])

    def dexp_inverse(self, u: Array) -> Array:
        """[[A, 0], [B, A]], A = dexp_inverse(omega), B = -V/2 + g (W V + V W) + (omega . v) dg W^2.

        For |omega| < 2 pi. B is the derivative of A along v, as in dexp; unlike the quartic of Selig it loses
        nothing at small angles.
        """
        u = np.asarray(u)
        omega, v = u[:3], u[3:]
        x = omega @ omega
        W = SO3.hat(omega)
        A = SO3.dexp_inverse(omega)
        B = (
            -0.5 * SO3.hat(v)
            + coefficients.g(x) * _anticommutator(omega, v)
            + (omega @ v) * coefficients.dg(x) * (W @ W)
        )
        return np.block([[A, _ZERO], [B, A]])

    def dexp_inverse_times(self, u: Array, w: Array) -> Array:
        """w - ad w/2 + g ad^2 w + (0, (omega . v) dg W^2 w_omega), in five cross products."""
        # ad_u w = (omega x w_omega, omega x w_v + v x w_omega), applied twice; no matrix is formed.
        u = np.asarray(u)
        w = np.asarray(w)
        omega = u[:3]
        v = u[3:]
        x = omega @ omega
        g = coefficients.g(x)
        upper = cross(omega, w[:3])
        lower = cross(omega, w[3:]) + cross(v, w[:3])
        upper2 = cross(omega, upper)
        lower2 = cross(omega, lower) + cross(v, upper)
        return np.concatenate(
            [
                w[:3] - 0.5 * upper + g * upper2,
                w[3:] - 0.5 * lower + g * lower2 + (omega @ v) * coefficients.dg(x) * upper2,
            ]
        )

    def element(self, q: Coordinates) -> GroupElement:
        return self.motion(SO3.element(q[:4]), q[4:])

    def coordinates(self, T: GroupElement) -> Coordinates:
        R, p = self.parts(T)
        return np.concatenate([SO3.coordinates(R), p])

    def integrate(self, q: Coordinates, u: Array) -> Coordinates:
        # In quaternions throughout: no rotation matrix is formed and taken apart again.
        q = np.asarray(q)
        u = np.asarray(u)
        Q = q[:4]
        omega = u[:3]
        moved = q[4:] + quaternion_rotate(Q, _dexp_times(omega, u[3:]))
        return np.concatenate([quaternion_product(Q, quaternion_exp(omega)), moved])

    def difference(self, q0: Coordinates, q1: Coordinates) -> Array:
        # g0^-1 g1 = (R0^-1 R1, R0^-1 (p1 - p0)), and its logarithm.
        q0 = np.asarray(q0)
        q1 = np.asarray(q1)
        back = quaternion_conjugate(q0[:4])
        omega = quaternion_log(quaternion_product(back, q1[:4]))
        p = quaternion_rotate(back, q1[4:] - q0[4:])
        return np.concatenate([omega, SO3.dexp_inverse_times(omega, p)])

    def normalize(self, q: Coordinates) -> Coordinates:
        q = np.asarray(q)
        return np.concatenate([SO3.normalize(q[:4]), q[4:]])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.concatenate([SO3.random(rng, shape), rng.standard_normal((*shape, 3))], axis=-1)


def _dexp_times(omega: Array, v: Array) -> Array:
    """dexp(omega) v = v + b omega x v + c omega x (omega x v)."""
    x = omega @ omega
    turned = cross(omega, v)
    return v + coefficients.b(x) * turned + coefficients.c(x) * cross(omega, turned)


def _anticommutator(w: Array, v: Array) -> Array:
    """[w][v] + [v][w] = w v^T + v w^T - 2 (w . v) 1."""
    xx, yy, zz = 2 * w * v
    xy, yz, zx = w[0] * v[1] + w[1] * v[0], w[1] * v[2] + w[2] * v[1], w[2] * v[0] + w[0] * v[2]
    return np.array([[-(yy + zz), xy, zx], [xy, -(zz + xx), yz], [zx, yz, -(xx + yy)]])


SE3 = SE3Group()
