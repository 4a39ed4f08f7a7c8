"""Constraints of velocities: J(q) v = b(q, t), which need not be integrable; knife edges and rolling.

They enter the equations of motion by their derivative, J dv/dt = db/dt - (dJ/dt) v, as all constraints do,
and have no residual, because they forbid velocities and no place. Neimark and Fufaev (1972). In velocities
that obey them the equations of motion have the form of Boltzmann and Hamel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.concurrency import cached_property
from ...base.errors import ModelError
from ...compiler import trace
from ...groups import SE3
from ...scalars import Array, sqrt
from ...scalars.linear import cross
from .constraints import ZERO, OfFunction, Rows, States, at_center, own_frames

DOWN = np.array([0, 0, -1])


class GeneralVelocity(OfFunction):
    """f(T_1, V_1, ...) = 0 or f(t, T_1, V_1, ...) = 0, affine in the twists, with derivatives of f's graph.

    With T(e) = T exp(e V), J = df/dV and bias = df/de at e = 0.
    """

    holonomic = False
    parts = "Rpwv"

    def __init__(self, function: Callable[..., Any], count: int, timed: bool, name: str) -> None:
        super().__init__(function, count, timed, name)
        self._check(name)

    def _check(self, name: str) -> None:
        """Raise ModelError for functions that do not depend on the velocities, or not in the first power."""
        rng = np.random.default_rng(0)

        def parts(size: float) -> list[Array]:
            arrays = []
            for p, w, v in rng.standard_normal((self.count, 3, 3)):
                arrays += [SE3.exp(np.concatenate([p, w]))[:3, :3], p, size * w, size * v]
            return arrays

        # at one random place with the velocities 0, V and 2 V: an affine f has equal differences
        state = parts(1.0)
        still, double = ([x if k % 4 < 2 else f * x for k, x in enumerate(state)] for f in (0.0, 2.0))
        offset, once, twice = (np.asarray(self.value(0.3, *x), float) for x in (still, state, double))
        bent = np.abs(twice - 2 * once + offset) > 1e-9 * (1 + np.abs(twice))
        idle = np.abs(once - offset) == 0
        for wrong, what in (
            (bent, "is not affine in the velocities, J(q) v = b(q, t)"),
            (idle, "does not depend on the velocities; one of places is a `constraint`"),
        ):
            if wrong.any():
                entry = int(np.argmax(wrong))
                raise ModelError(f"constraint {name!r}: entry {entry} of what its function returns {what}")

    @cached_property
    def is_driven(self) -> bool:  # type: ignore[override]
        """Whether b(q, t) may differ from zero: whether the constraint does work."""

        def drift(t: Any, *places: Array) -> Array:
            return self._drift(t, places)

        values = next(iter(trace(drift, self._shapes("Rp"), "drift").outputs.values()))
        return any(type(x) is not float or x != 0 for x in values.flat)

    def _drift(self, t: Any, places: Sequence[Array]) -> Array:
        """f at R, p of each body, at rest."""
        pairs = zip(places[::2], places[1::2], strict=True)
        return self.value(t, *(x for pair in pairs for x in (*pair, ZERO, ZERO)))

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        frames = own_frames(states, constants)
        parts = [x for frame in frames for x in frame]
        pairs = zip(self._gradients, constants[::2], constants[1::2], strict=True)
        jacobians = [at_center(by_w(t, *parts), by_v(t, *parts), Q, r) for (by_w, by_v), Q, r in pairs]
        bias = self._along(0.0, t, *parts)
        for body, J in zip(states, jacobians, strict=True):  # dv/dt = a - omega x v in the body's axes
            bias = bias - J[:, 3:] @ cross(body.w, body.v)
        drift = self._drift(t, [x for R, p, _, _ in frames for x in (R, p)]) if self.is_driven else None
        return Rows(jacobians, bias, np.zeros(self.rows, int), drift)


# -- knife edges and wheels -----------------------------------------------------------------------------


def relative_pose(base: Array, frame: Array, *poses: Array) -> Array:
    """X, of `frame` on the last body in `base` on the first one, or on the ground if there is one body."""
    ground = base if len(poses) == 1 else poses[0] @ base
    return SE3.compose(SE3.inverse(ground), poses[-1] @ frame)


def relative_motion(base: Array, frame: Array, *motions: Array) -> tuple[Array, Array]:
    """X as `relative_pose`, and the twist V of the frame against the base, in the frame's axes."""
    X = relative_pose(base, frame, *motions[::2])
    # the frame's twist in its own axes, minus the twist of the moving base
    V = SE3.Ad(SE3.inverse(frame)) @ motions[-1]
    if len(motions) > 2:
        V = V - SE3.Ad(SE3.inverse(base @ X)) @ motions[1]
    return X, V


def knife_edge(slip: Any) -> Callable[..., Any]:
    """f(t, X, V) of a blade along x: its velocity along y, less a given one, a number or a function of t."""
    return lambda t, X, V: V[4] - _at(slip, t)


def rolling(radius: float, axis: Array | None, slip: Any) -> Callable[..., Any]:
    """f(t, X, V) (2,) of a ball or disc on z = 0: the velocity of its contact point, less a given one.

    A ball's velocity is taken along x and y; a disc's along its track, where it rolls, and across.
    """

    def f(t: Any, X: Array, V: Array) -> Array:
        R, _ = SE3.parts(X)
        # the velocity of the material point at the contact, in the axes of the plane
        u = R @ (V[3:] + cross(V[:3], R.T @ (radius * foot(R, axis))))
        if axis is not None:
            x, y, _ = R @ axis
            # the track is level and at right angles to the axis
            size = sqrt(x * x + y * y)
            u = np.array([y * u[0] - x * u[1], x * u[0] + y * u[1]]) / size
        return u[:2] - _at(slip, t)

    return f


def contact(radius: float, axis: Array | None) -> Callable[..., Any]:
    """g(X) of a ball or disc on z = 0: how high its lowest point is."""

    def g(X: Array) -> Any:
        R, p = SE3.parts(X)
        return p[2] + radius * foot(R, axis)[2]

    return g


def foot(R: Array, axis: Array | None) -> Array:
    """The direction (3,) from the centre of a ball, or of a disc with this axis, to its lowest point.

    R  attitude of the wheel in the plane's frame; the result is in the axes of the plane
    """
    if axis is None:
        return DOWN
    x, y, z = R @ axis
    # straight down without the part along the axis, at unit length
    return np.array([z * x, z * y, z * z - 1]) / sqrt(1 - z * z)


def _at(slip: Any, t: Any) -> Any:
    return np.asarray(slip(t)) if callable(slip) else slip
