"""The connected subgroups of SE(3), about any axis: what joints are made of.

Each is a group H with its homomorphism into SE(3), q -> pose(q), and the derivative of that at the identity,
the constant matrix S:  pose(integrate(q, u)) = pose(q) exp(hat(S u)).  Up to conjugation and pitch these are
all there are: From, table 1, completed by the cylindrical and the planar-helical group.

An axis is a direction (3,), normalised here, and a point on it (3,), by default the origin. Where a group
moves along directions normal to its axis a, these are e1, e2 with e1 x e2 = a: (x, y) for a = z, (y, z) for
x, (z, x) for y; in general e1 is the next coordinate axis after the one closest to a, made normal to a.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from ..base.errors import ModelError, ShapeError, pass_on_signals
from ..scalars import Array, Coordinates, GroupElement, cos, sin
from ..scalars.linear import cross, is_numeric, skew
from .base import LieGroup, random_angles
from .product import Product
from .real import R, RealGroup
from .se2 import SE2, SE2CoverGroup, SE2Group
from .se3 import SE3, SE3Group
from .so3 import SO3, SO3Group

__all__ = [
    "Cylindrical",
    "Fixed",
    "Free",
    "Helical",
    "MotionSubgroup",
    "Planar",
    "PlanarHelical",
    "PlanarTranslation",
    "Prismatic",
    "Revolute",
    "Schoenflies",
    "SpatialTranslation",
    "Spherical",
]

_ONE = np.eye(3, dtype=int)
_ORIGIN = (0.0, 0.0, 0.0)


class MotionSubgroup(LieGroup):
    """A group with a homomorphism q -> pose(q) into SE(3), of derivative S (6, dim) at the identity.

    S has the angular part first. Velocities u are left-trivialised: S u is the twist of the moved frame in
    its own axes. A pose about a coordinate axis has exact zeros and ones, so that a trace keeps nothing of
    them.
    """

    S: np.ndarray

    def _value(self) -> Any:
        return self.name

    def pose(self, q: Coordinates) -> GroupElement:
        """Coordinates (nq,) to T (4, 4), of the moved frame in the fixed one."""
        raise NotImplementedError(f"{type(self).__name__} must define pose(q)")

    def _set_twists(self, columns: list[np.ndarray]) -> None:
        # + 0.0 turns -0.0 into 0.0, which names and digests of joints would tell apart.
        self.S = np.stack(columns, axis=1) + 0.0 if columns else np.zeros((6, 0))
        self.S.setflags(write=False)


class Fixed(MotionSubgroup, RealGroup):
    """No motion: dim 0."""

    def __init__(self) -> None:
        super().__init__(0)
        self.name = "Fixed()"
        self._set_twists([])

    def pose(self, q: Coordinates) -> GroupElement:
        return np.eye(4, dtype=int)


class _Turning(MotionSubgroup):
    """A turn by q[0] about an axis, climbing by a pitch per angle, then shifts by q[1:] along `slides`."""

    axis: np.ndarray
    point: np.ndarray

    def _turn_about(
        self, axis: np.ndarray, point: np.ndarray, pitch: float = 0.0, slides: tuple[np.ndarray, ...] = ()
    ) -> None:
        self.axis = axis
        self.point = point
        self._climb = pitch
        self._slides = slides
        climbing = f", pitch={pitch}" if pitch else ""
        at = f", point={_text(point)}" if point.any() else ""
        self.name = f"{type(self).__name__}({_text(axis)}{climbing}{at})"
        # the twist of a screw motion: (a, point x a + pitch a)
        turn = _about(axis, point) + pitch * _along(axis) if pitch else _about(axis, point)
        self._set_twists([turn, *map(_along, slides)])

    def pose(self, q: Coordinates) -> GroupElement:
        # Shifts and the climb are along axes of the fixed frame, which do not turn.
        rotation, shift = _rotation_about(self.axis, self.point, q[0])
        for x, direction in zip(q[1:], self._slides, strict=True):
            shift = shift + direction * x
        if self._climb:
            shift = shift + self.axis * (self._climb * q[0])
        return SE3.motion(rotation, shift)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        angles = random_angles(rng, shape)
        shifts = rng.standard_normal((*shape, self.nq - 1))
        return np.concatenate([angles, shifts], axis=-1)


class _OfAxis(MotionSubgroup, RealGroup):
    """One degree of freedom, about or along an axis."""

    axis: np.ndarray

    def along(self, axis: Array) -> Self:
        """The same motions about another axis (3,): symbols, of norm 1, or numbers."""
        other = copy.copy(self)
        other._set_axis(unit_vector(axis, "axis") if is_numeric(axis) else axis)
        return other

    def _set_axis(self, axis: Array) -> None:
        raise NotImplementedError


class Prismatic(_OfAxis):
    """Translation along an axis, q = (distance,)."""

    def __init__(self, axis: Any) -> None:
        super().__init__(1)
        self._set_axis(unit_vector(axis, "axis"))

    def _set_axis(self, axis: Array) -> None:
        self.axis = axis
        self.name = f"Prismatic({_text(axis)})"
        self._set_twists([_along(axis)])

    def pose(self, q: Coordinates) -> GroupElement:
        return SE3.motion(_ONE, self.axis * q[0])


class Revolute(_Turning, _OfAxis):
    """Rotation about an axis, q = (angle,), which counts turns."""

    def __init__(self, axis: Any, point: Any = _ORIGIN) -> None:
        super().__init__(1)
        self._turn_about(unit_vector(axis, "axis"), _point(point))

    def _set_axis(self, axis: Array) -> None:
        self._turn_about(axis, self.point)


class Helical(_Turning, RealGroup):
    """Screw motion: rotation about an axis by q = (angle,), advancing by pitch * angle; pitch in m/rad."""

    def __init__(self, axis: Any, pitch: float, point: Any = _ORIGIN) -> None:
        super().__init__(1)
        axis = unit_vector(axis, "axis")
        self.pitch = _pitch(pitch, "Revolute")
        self._turn_about(axis, _point(point), self.pitch)


class PlanarTranslation(MotionSubgroup, RealGroup):
    """Translation normal to a direction, q = (x, y) along e1, e2."""

    def __init__(self, normal: Any) -> None:
        super().__init__(2)
        self.normal = unit_vector(normal, "normal")
        self.name = f"PlanarTranslation({_text(self.normal)})"
        self._e1, self._e2 = _normal_directions(self.normal)
        self._set_twists([_along(self._e1), _along(self._e2)])

    def pose(self, q: Coordinates) -> GroupElement:
        return SE3.motion(_ONE, self._e1 * q[0] + self._e2 * q[1])


class SpatialTranslation(MotionSubgroup, RealGroup):
    """Translation, q = (x, y, z)."""

    def __init__(self) -> None:
        super().__init__(3)
        self.name = "SpatialTranslation()"
        self._set_twists([_along(e) for e in np.eye(3)])

    def pose(self, q: Coordinates) -> GroupElement:
        return SE3.motion(_ONE, q)


class Cylindrical(_Turning, RealGroup):
    """Rotation about and translation along an axis, q = (angle, distance); the angle counts turns."""

    def __init__(self, axis: Any, point: Any = _ORIGIN) -> None:
        super().__init__(2)
        axis = unit_vector(axis, "axis")
        self._turn_about(axis, _point(point), slides=(axis,))


class Planar(_Turning, SE2Group):
    """Motion in a plane, SE(2): q = (angle, x, y), rotation about the normal, then x, y along e1, e2.

    u = (omega, vx, vy) is body-fixed. Angles as in SE2: integrate does not wrap them, difference does.
    """

    def __init__(self, normal: Any, point: Any = _ORIGIN) -> None:
        self.normal = unit_vector(normal, "normal")
        self._turn_about(self.normal, _point(point), slides=_normal_directions(self.normal))


class PlanarHelical(_Turning, SE2CoverGroup):
    """Planar motion that climbs along its normal by pitch * angle: q = (angle, x, y), pitch in m/rad.

    Otherwise as Planar, but a full turn is not the identity, so nothing is periodic, and difference does not
    wrap.
    """

    def __init__(self, normal: Any, pitch: float, point: Any = _ORIGIN) -> None:
        self.normal = unit_vector(normal, "normal")
        self.pitch = _pitch(pitch, "Planar")
        self._turn_about(self.normal, _point(point), self.pitch, _normal_directions(self.normal))


class Spherical(MotionSubgroup, SO3Group):
    """Rotation about a point, q = (w, x, y, z) a unit quaternion, u = omega body-fixed."""

    def __init__(self, point: Any = _ORIGIN) -> None:
        self.point = _point(point)
        self.name = f"Spherical({_text(self.point) if self.point.any() else ''})"
        self._set_twists([_about(e, self.point) for e in np.eye(3)])

    def pose(self, q: Coordinates) -> GroupElement:
        rotation = SO3.element(q)
        # the point stays where it is: R point + p = point
        return SE3.motion(rotation, self.point - rotation @ self.point)


class Schoenflies(_Turning, Product):
    """Rotation about an axis and every translation, SE(2) x R: q = (angle, x, y, z), along e1, e2, axis.

    u = (omega, vx, vy, vz) is body-fixed. Angles as in SE2: integrate does not wrap them, difference does.
    """

    random = Product.random

    def __init__(self, axis: Any, point: Any = _ORIGIN) -> None:
        super().__init__(SE2, R(1))
        axis = unit_vector(axis, "axis")
        self._turn_about(axis, _point(point), slides=(*_normal_directions(axis), axis))


class Free(MotionSubgroup, SE3Group):
    """Every motion, q = (w, x, y, z, px, py, pz), u = (omega, v) body-fixed: SE(3) itself."""

    def __init__(self) -> None:
        self.name = "Free()"
        self._set_twists(list(np.eye(6)))

    def pose(self, q: Coordinates) -> GroupElement:
        return self.element(q)


def _rotation_about(axis: np.ndarray, point: np.ndarray, angle: Array) -> tuple[Array, Array]:
    """Rotation about an axis through a point: R = a a^T + cos (1 - a a^T) + sin [a], p = (1 - R) point."""
    c, s = cos(angle), sin(angle)
    onto = np.outer(axis, axis)
    rotation = onto + c * (np.eye(3) - onto) + s * skew(axis)
    arm = point - axis * (axis @ point)  # from the axis through the origin, which R leaves alone
    return rotation, arm - c * arm - s * cross(axis, arm)


def _normal_directions(axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e1, e2 with e1 x e2 = axis, exact for coordinate axes."""
    # Gram-Schmidt on a coordinate axis that is far from the normal, so that nothing cancels.
    e = np.eye(3)[(np.argmax(np.abs(axis)) + 1) % 3]
    e1 = e - axis * (axis @ e)
    e1 = e1 / np.sqrt(e1 @ e1) + 0.0
    return e1, cross(axis, e1) + 0.0


def _about(axis: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Twist (6,) of unit rotation about an axis through a point."""
    return np.concatenate([axis, cross(point, axis)])


def _along(direction: np.ndarray) -> np.ndarray:
    """Twist (6,) of unit translation."""
    return np.concatenate([np.zeros(3), direction])


def three_numbers(value: Any, what: str) -> np.ndarray:
    """Three finite numbers (3,); raises ShapeError and ModelError."""
    try:
        vector = np.array(value, dtype=float)
    except Exception as error:  # any object may be given, and its conversion may raise anything
        pass_on_signals(error)
        vector = np.empty(0)
    if vector.shape != (3,):
        raise ShapeError(f"{what} must be three numbers (x, y, z), not {value!r}")
    if not np.isfinite(vector).all():
        raise ModelError(f"{what} {value!r} is not finite; give three finite numbers (x, y, z)")
    return vector


def unit_vector(value: Any, what: str) -> np.ndarray:
    """The unit vector (3,) along this one; raises ShapeError and ModelError."""
    vector = three_numbers(value, what)
    if not vector.any():
        raise ModelError(
            f"{what} {value!r} has no direction; give a vector that is not zero, such as (0, 0, 1)"
        )
    # Scaled by a power of two, which is exact, so that the square neither overflows nor underflows.
    vector = np.ldexp(vector, -np.frexp(np.abs(vector).max())[1])
    vector = vector / np.sqrt(vector @ vector) + 0.0
    vector.setflags(write=False)
    return vector


def _point(value: Any) -> np.ndarray:
    vector = three_numbers(value, "point") + 0.0
    vector.setflags(write=False)
    return vector


def _pitch(value: Any, without: str) -> float:
    try:
        pitch = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ShapeError(f"pitch must be a number, in m/rad, not {value!r}") from None
    if not np.isfinite(pitch) or pitch == 0:
        raise ModelError(
            f"pitch {value!r} must be finite and not zero, in m/rad; without pitch use {without}"
        )
    return pitch


def _text(vector: np.ndarray) -> str:
    return f"({', '.join(repr(float(x)) if is_numeric(x) else str(x) for x in vector)})"
