"""SO(3): rotations of space."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.arguments import wrong_shape
from ..scalars import Array, Coordinates, GroupElement, absolute, sqrt, where
from ..scalars.linear import cross, skew
from . import coefficients
from .base import LieGroup


def quaternion_product(p: Array, q: Coordinates) -> Array:
    """Hamilton's product of (w, x, y, z)."""
    a, b, c, d = p
    w, x, y, z = q
    return np.array(
        [
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        ]
    )


def quaternion_conjugate(q: Coordinates) -> Array:
    """(w, -x, -y, -z), the inverse of a unit quaternion."""
    w, x, y, z = q
    return np.array([w, -x, -y, -z])


def quaternion_rotate(q: Coordinates, p: Array) -> Array:
    """R(q) p for a unit quaternion: p + w t + v x t with t = 2 v x p."""
    v = q[1:]
    t = 2 * cross(v, p)
    return p + q[0] * t + cross(v, t)


def quaternion_exp(u: Array) -> Array:
    """Unit quaternion of the rotation vector u: (cos(theta/2), sin(theta/2)/theta u)."""
    x = u @ u
    return np.concatenate([np.reshape(coefficients.half_cos(x), 1), coefficients.half_sinc(x) * u])


def quaternion_log(q: Coordinates) -> Array:
    """Rotation vector of a unit quaternion, the short way round (q and -q are one rotation): |u| <= pi.

    Continuous but for rotations by pi, where w = 0 and the sign follows (x, y, z).
    """
    w = q[0]
    v = q[1:]
    # q and -q are one rotation: the one with w >= 0 has the angle up to pi
    factor = coefficients.quaternion_angle(absolute(w), v @ v)
    return where(w < 0, -factor, factor) * v


def _matrix(q: Array) -> Array:
    """R (3, 3, ...) = 1 + 2 w [v] + 2 [v]^2 of the quaternions q = (w, v), (4, ...)."""
    w, v = q[0], q[1:]
    twice = v + v
    return _with_skew(v, w * twice, twice)


def rotations(q: Array) -> Array:
    """R (..., 3, 3) of the unit quaternions (..., 4)."""
    return np.moveaxis(_matrix(np.moveaxis(q, -1, 0)), (0, 1), (-2, -1))


def _quaternion(R: Array) -> Array:
    """q (4, ...) of the matrices (3, 3, ...)."""
    xx, yy, zz = R[0, 0], R[1, 1], R[2, 2]
    wx, wy, wz = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    xy, yz, zx = R[0, 1] + R[1, 0], R[1, 2] + R[2, 1], R[2, 0] + R[0, 2]
    # the diagonal entry of the chosen column is 4 times the largest square, at least 1: no cancellation
    column = np.array([1 + xx + yy + zz, wx, wy, wz])
    largest = column[0]
    for diagonal, candidate in (
        (1 + xx - yy - zz, [wx, 1 + xx - yy - zz, xy, zx]),
        (1 - xx + yy - zz, [wy, xy, 1 - xx + yy - zz, yz]),
        (1 - xx - yy + zz, [wz, zx, yz, 1 - xx - yy + zz]),
    ):
        better = diagonal > largest
        column = where(better, np.array(candidate), column)
        largest = where(better, diagonal, largest)
    # The column is 4 q_i q with 4 q_i^2 = `largest`, so q = column/(2 sqrt(largest)), up to the sign of q_i.
    return where(column[0] < 0, -0.5, 0.5) / sqrt(largest) * column


def quaternions(R: Array) -> Array:
    """Unit quaternions (..., 4), w >= 0, of the rotation matrices (..., 3, 3)."""
    return np.moveaxis(_quaternion(np.moveaxis(R, (-2, -1), (0, 1))), 0, -1)


class SO3Group(LieGroup):
    """Rotation matrices R, with u = omega; flat coordinates are unit quaternions (w, x, y, z)."""

    n, dim, nq = 3, 3, 4
    name = "SO3"
    quaternions = (0,)

    def _value(self) -> Any:
        return self.name

    def inverse(self, R: Array) -> GroupElement:
        return R.T

    def hat(self, u: Array) -> Array:
        """[u], with [u] w = u x w."""
        return skew(u)

    def vee(self, U: Array) -> Array:
        return np.array([U[2, 1], U[0, 2], U[1, 0]])

    def exp(self, u: Array) -> GroupElement:
        """1 + a [u] + b [u]^2 (Rodrigues); Mueller-Terze eq. (9), with its denominator squared."""
        u = np.asarray(u)
        x = u @ u
        return _quadratic(u, coefficients.a(x), coefficients.b(x))

    def log(self, R: Array) -> Array:
        """Rotation vector, |u| <= pi, by way of the quaternion, which keeps all digits up to pi."""
        return quaternion_log(self.coordinates(R))

    def Ad(self, R: Array) -> Array:
        return R

    def ad(self, u: Array) -> Array:
        return self.hat(u)

    def coad(self, p: Array) -> Array:
        """-[p]; From, eq. (68)."""
        return -self.hat(p)

    def dexp(self, u: Array) -> Array:
        """1 + b [u] + c [u]^2."""
        u = np.asarray(u)
        x = u @ u
        return _quadratic(u, coefficients.b(x), coefficients.c(x))

    def dexp_inverse(self, u: Array) -> Array:
        """1 - [u]/2 + g [u]^2, for |u| < 2 pi; Mueller-Terze eq. (11)."""
        u = np.asarray(u)
        x = u @ u
        return _quadratic(u, -0.5, coefficients.g(x))

    def dexp_inverse_times(self, u: Array, w: Array) -> Array:
        u, w = np.asarray(u), np.asarray(w)
        uw = cross(u, w)
        return w - 0.5 * uw + coefficients.g(u @ u) * cross(u, uw)

    def gamma2(self, u: Array) -> Array:
        """1/2 + c [u] + c4 [u]^2 = sum of [u]^k/(k+2)!, the integral of s dexp(s u) over s from 0 to 1.

        A body that turns by u in a time t, with a constant acceleration a in its own axes, moves by
        R gamma2(u) a t^2, while its velocity grows by R dexp(u) a t. Hartley et al. (2020), appendix A.
        """
        u = np.asarray(u)
        if u.shape != (3,):
            raise wrong_shape("SO3.gamma2: u", u.shape, (3,))
        x = u @ u
        return _quadratic(u, coefficients.c(x), coefficients.c4(x)) - 0.5 * np.eye(3)

    def element(self, q: Coordinates) -> GroupElement:
        """Rotation matrix of a unit quaternion; the norm is taken to be one."""
        return _matrix(q)

    def coordinates(self, R: Array) -> Coordinates:
        """Unit quaternion with w >= 0.

        It is a column of the matrix 4 q q^T, whose entries are linear in R: the column with the largest
        diagonal entry, normalised (Shepperd, 1978). No digit is lost at any angle.
        """
        return _quaternion(R)

    def integrate(self, q: Coordinates, u: Array) -> Coordinates:
        return quaternion_product(q, quaternion_exp(np.asarray(u)))

    def difference(self, q0: Coordinates, q1: Coordinates) -> Array:
        return quaternion_log(quaternion_product(quaternion_conjugate(q0), q1))

    def normalize(self, q: Coordinates) -> Coordinates:
        q = np.asarray(q)
        return q / sqrt(q @ q)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        # Normal numbers have no preferred direction, so their directions are uniform over the sphere.
        q = rng.standard_normal((*shape, 4))
        return q / np.linalg.norm(q, axis=-1, keepdims=True)


def _quadratic(u: Array, r: Array, s: Array) -> Array:
    """1 + r [u] + s [u]^2."""
    return _with_skew(u, r * u, s * u)


def _with_skew(u: Array, k: Array, p: Array) -> Array:
    """1 + [k] + s [u]^2 (3, 3, ...) of p = s u: [u]^2 = u u^T - |u|^2 1."""
    x, y, z = u
    px, py, pz = p
    k0, k1, k2 = k
    xx, yy, zz = px * x, py * y, pz * z
    xy, yz, zx = px * y, py * z, pz * x
    return np.array(
        [
            [1 - (yy + zz), xy - k2, zx + k1],
            [xy + k2, 1 - (xx + zz), yz - k0],
            [zx - k1, yz + k0, 1 - (xx + yy)],
        ]
    )


SO3 = SO3Group()
