"""SE(2): rigid motions of the plane; and its universal cover, in which turns are counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..scalars import Array, Coordinates, GroupElement, arctan2, cos, sin
from . import coefficients
from .base import LieGroup, random_angles


def rotate(angle: Array, p: Array) -> Array:
    """p (2,) turned by an angle."""
    c, s = cos(angle), sin(angle)
    x, y = p
    return np.array([c * x - s * y, s * x + c * y])


class SE2Group(LieGroup):
    """Rigid motions of the plane g = [R p; 0 1], with q = (angle, x, y), u = (omega, vx, vy).

    integrate adds to the angle without wrapping it, so that a trajectory counts its turns; difference
    compares configurations, and its angle lies in (-pi, pi].
    """

    n, dim, nq = 3, 3, 3
    name = "SE2"

    def _value(self) -> Any:
        return self.name

    def inverse(self, g: GroupElement) -> GroupElement:
        A = g[:2, :2].T
        return np.block([[A, -(A @ g[:2, 2:])], [np.array([[0, 0, 1]])]])

    def hat(self, u: Array) -> Array:
        w, x, y = u
        return np.array([[0, -w, x], [w, 0, y], [0, 0, 0]])

    def vee(self, U: Array) -> Array:
        return np.array([U[1, 0], U[0, 2], U[1, 2]])

    def exp(self, u: Array) -> GroupElement:
        """The chord: p = 2 sin(omega/2)/omega v, turned by omega/2."""
        return self.element(self.integrate(np.zeros(3, int), u))

    def log(self, g: GroupElement) -> Array:
        return self._chord(self._angle(g), g[:2, -1])

    def Ad(self, g: GroupElement) -> Array:
        R, (x, y) = g[:2, :2], g[:2, -1]
        return np.block([[np.array([[1, 0, 0]])], [np.array([[y], [-x]]), R]])

    def ad(self, u: Array) -> Array:
        """[[0, 0, 0], [vy, 0, -omega], [-vx, omega, 0]]; From, table 1."""
        w, x, y = u
        return np.array([[0, 0, 0], [y, 0, -w], [-x, w, 0]])

    def coad(self, p: Array) -> Array:
        """From, table 1."""
        _, x, y = p
        return np.array([[0, y, -x], [-y, 0, 0], [x, 0, 0]])

    def dexp(self, u: Array) -> Array:
        """1 + b ad + c ad^2, since ad^3 = -omega^2 ad."""
        x = u[0] * u[0]
        return self._quadratic(u, coefficients.b(x), coefficients.c(x))

    def dexp_inverse(self, u: Array) -> Array:
        """1 - ad/2 + g ad^2, for |omega| < 2 pi."""
        return self._quadratic(u, -0.5, coefficients.g(u[0] * u[0]))

    def dexp_inverse_times(self, u: Array, w: Array) -> Array:
        o, x, y = u
        # ad_u w and ad_u^2 w: their first components are zero.
        once = np.array([0, y * w[0] - o * w[2], o * w[1] - x * w[0]])
        twice = np.array([0, -o * once[2], o * once[1]])
        return np.asarray(w) - 0.5 * once + coefficients.g(o * o) * twice

    def element(self, q: Coordinates) -> GroupElement:
        c, s = cos(q[0]), sin(q[0])
        return np.array([[c, -s, q[1]], [s, c, q[2]], [0, 0, 1]])

    def coordinates(self, g: GroupElement) -> Coordinates:
        return np.concatenate([np.reshape(self._angle(g), 1), g[:2, 2]])

    def integrate(self, q: Coordinates, u: Array) -> Coordinates:
        # An arc of angle w with the tangent v at its start has the chord 2 sin(w/2)/w v, turned by w/2.
        angle, x, y = q
        w, vx, vy = u
        chord = 2 * coefficients.half_sinc(w * w)
        dx, dy = rotate(angle + 0.5 * w, (chord * vx, chord * vy))
        return np.array([angle + w, x + dx, y + dy])

    def difference(self, q0: Coordinates, q1: Coordinates) -> Array:
        return self._chord(self._turn(q1[0] - q0[0]), (q1[1] - q0[1], q1[2] - q0[2]), q0[0])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.concatenate([random_angles(rng, shape), rng.standard_normal((*shape, 2))], axis=-1)

    def _angle(self, g: GroupElement) -> Array:
        return arctan2(g[1, 0], g[0, 0])

    def _turn(self, angle: Array) -> Array:
        """The same rotation by an angle in (-pi, pi]."""
        return arctan2(sin(angle), cos(angle))

    def _chord(self, w: Array, p: Array, start: Array = 0) -> Array:
        """The u = (w, v) that leads from an angle `start` at the origin to the angle start + w at p."""
        x, y = rotate(-(start + 0.5 * w), p)
        chord = 2 * coefficients.half_sinc(w * w)
        return np.array([w, x / chord, y / chord])

    def _quadratic(self, u: Array, r: Array, s: Array) -> Array:
        """1 + r ad + s ad^2."""
        w, x, y = u
        d = 1 - s * w * w
        k = r * w
        sw = s * w
        return np.array([[1, 0, 0], [r * y + sw * x, d, -k], [sw * y - r * x, k, d]])


class SE2CoverGroup(SE2Group):
    """Universal cover of SE(2): g = (R, p, angle), with q and u as in SE2, but nothing is periodic.

    The matrix describes a planar motion that climbs by its angle: [Rz p; 0 1] with p = (x, y, angle).
    Nothing is wrapped.
    """

    n, dim, nq = 4, 3, 3
    name = "SE2Cover"

    def inverse(self, g: GroupElement) -> GroupElement:
        A = g[:3, :3].T
        return np.block([[A, -(A @ g[:3, 3:])], [np.array([[0, 0, 0, 1]])]])

    def hat(self, u: Array) -> Array:
        w, x, y = u
        return np.array([[0, -w, 0, x], [w, 0, 0, y], [0, 0, 0, w], [0, 0, 0, 0]])

    def vee(self, U: Array) -> Array:
        return np.array([U[2, 3], U[0, 3], U[1, 3]])

    def element(self, q: Coordinates) -> GroupElement:
        c, s = cos(q[0]), sin(q[0])
        return np.array([[c, -s, 0, q[1]], [s, c, 0, q[2]], [0, 0, 1, q[0]], [0, 0, 0, 1]])

    def coordinates(self, g: GroupElement) -> Coordinates:
        return np.array([g[2, 3], g[0, 3], g[1, 3]])

    def _angle(self, g: GroupElement) -> Array:
        return g[2, 3]

    def _turn(self, angle: Array) -> Array:
        return angle


SE2 = SE2Group()
