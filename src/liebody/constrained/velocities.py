"""Constraints of velocities: J(q) v = b(q, t), which need not be integrable; knife edges and rolling.

They enter the equations of motion by their derivative, J dv/dt = db/dt - (dJ/dt) v, as all constraints do,
and have no residual: what they forbid are velocities, and no place. Neimark and Fufaev (1972). Equations in
velocities that obey them are those of Boltzmann and Hamel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..codegen import Function, jacobian, trace
from ..door import check_arguments
from ..errors import ModelError
from ..groups import SE3
from ..linear import cross, skew
from ..scalar import Array, sqrt
from .constraints import ConstraintKind, Rows, States, at_center, own_frames, traced_function

DOWN = np.array([0, 0, -1])


class GeneralVelocity(ConstraintKind):
    """f(T_1, V_1, ...) = 0 or f(t, T_1, V_1, ...) = 0, affine in the twists, with derivatives of f's graph.

    function  takes pose (4, 4) in the world and twist (6,) in its own axes of each body's own frame, after
              the time if `timed`; returns a number or a vector (m,)

    With T(e) = T exp(e V), J = df/dV and bias = df/de at e = 0.
    """

    holonomic = False

    def __init__(self, function: Callable[..., Any], count: int, timed: bool, name: str) -> None:
        self.function, self.count, self.timed = function, count, timed
        given = ["t"] * timed + [f"{x}_{i + 1}" for i in range(count) for x in "TV"]
        check_arguments(f"constraint {name!r}", function, *given)

        def rate(t: Any, *parts: Array) -> Array:
            motions = []
            for R, p, w, v in zip(*(parts[i::4] for i in range(4)), strict=True):
                motions += [SE3.motion(R, p), np.concatenate([w, v])]
            return np.atleast_1d(np.asarray(function(*((t,) if timed else ()), *motions)))

        self.rate = traced_function(rate, {"t": (), **self._shapes}, f"constraint {name!r}", None)
        self.rows = next(iter(self.rate.outputs.values())).size
        self._check(name)

    @property
    def _shapes(self) -> dict[str, Any]:
        shapes: dict[str, Any] = {}
        for i in range(self.count):
            shapes |= {f"R{i}": (3, 3), f"p{i}": 3, f"w{i}": 3, f"v{i}": 3}
        return shapes

    def _check(self, name: str) -> None:
        """Raise ModelError for functions that do not depend on the velocities, or not in the first power."""
        rng = np.random.default_rng(0)

        def parts(size: float) -> list[Array]:
            found = []
            for p, w, v in rng.standard_normal((self.count, 3, 3)):
                found += [SE3.exp(np.concatenate([p, w]))[:3, :3], p, size * w, size * v]
            return found

        state = parts(1.0)
        still, double = ([x if k % 4 < 2 else f * x for k, x in enumerate(state)] for f in (0.0, 2.0))
        offset, once, twice = (np.asarray(self.rate(0.3, *x), float) for x in (still, state, double))
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
        still = [x for i in range(self.count) for x in (f"w{i}", f"v{i}")]

        def drift(t: Any, *parts: Array) -> Array:
            given = dict(zip(places, parts, strict=True))
            return self.rate(t, *(given.get(key, np.zeros(3, int)) for key in self._shapes))

        places = {key: shape for key, shape in self._shapes.items() if key not in still}
        made = next(iter(trace(drift, {"t": (), **places}, "drift").outputs.values()))
        return any(type(x) is not float or x != 0 for x in made.flat)

    @cached_property
    def _by_twists(self) -> list[tuple[Function, Function]]:
        return [(jacobian(self.rate, f"w{i}"), jacobian(self.rate, f"v{i}")) for i in range(self.count)]

    @cached_property
    def _along(self) -> Function:
        """df/de of f(t + e, T exp(e V), V) at e: (e, t, R, p, w, v, ...) -> (m,)."""

        def path(e: Any, t: Any, *parts: Array) -> Array:
            moved: list[Array] = []
            for R, p, w, v in zip(*(parts[i::4] for i in range(4)), strict=True):
                moved += [R + e * (R @ skew(w)), p + e * (R @ v), w, v]
            return self.rate(t + e, *moved)

        return jacobian(trace(path, {"e": (), "t": (), **self._shapes}, "path"), "e", "forward")

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        parts = [x for frame in own_frames(states, constants) for x in frame]
        pairs = zip(self._by_twists, constants[::2], constants[1::2], strict=True)
        jacobians = [at_center(by_w(t, *parts), by_v(t, *parts), Q, r) for (by_w, by_v), Q, r in pairs]
        bias = self._along(0.0, t, *parts)
        for body, J in zip(states, jacobians, strict=True):  # dv/dt = a - omega x v in the body's axes
            bias = bias - J[:, 3:] @ cross(body.w, body.v)
        drift = None
        if self.is_driven:
            drift = self.rate(t, *(x if k % 4 < 2 else np.zeros(3, int) for k, x in enumerate(parts)))
        return Rows(jacobians, bias, np.zeros(self.rows, int), drift)


# -- knife edges and wheels -----------------------------------------------------------------------------


def relative_pose(base: Array, frame: Array, *poses: Array) -> Array:
    """X, of `frame` on the last body in `base` on the first one, or on the ground if there is one body."""
    ground = base if len(poses) == 1 else poses[0] @ base
    return SE3.compose(SE3.inverse(ground), poses[-1] @ frame)


def relative_motion(base: Array, frame: Array, *motions: Array) -> tuple[Array, Array]:
    """X as `relative_pose`, and the twist V of the frame against the base, in the frame's axes."""
    X = relative_pose(base, frame, *motions[::2])
    V = SE3.Ad(SE3.inverse(frame)) @ motions[-1]
    if len(motions) > 2:
        V = V - SE3.Ad(SE3.inverse(base @ X)) @ motions[1]
    return X, V


def knife_edge(slip: Any) -> Callable[..., Any]:
    """f(t, X, V) of a blade along x: its velocity along y, less a given one, a number or a function of t."""
    return lambda t, X, V: V[4] - _at(slip, t)


def rolling(radius: float, axis: Array | None, slip: Any) -> Callable[..., Any]:
    """f(t, X, V) (2,) of a ball or disc on z = 0: the velocity of what touches the plane, less a given one.

    Of a ball along x and y; of a disc along its track, where it goes as it turns about its axis, and across.
    """

    def f(t: Any, X: Array, V: Array) -> Array:
        R, _ = SE3.parts(X)
        u = R @ (V[3:] + cross(V[:3], R.T @ (radius * foot(R, axis))))
        if axis is not None:
            x, y, _ = R @ axis
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

    R  its axes in those of the plane; the result is in these
    """
    if axis is None:
        return DOWN
    x, y, z = R @ axis
    return np.array([z * x, z * y, z * z - 1]) / sqrt(1 - z * z)


def _at(slip: Any, t: Any) -> Any:
    return np.asarray(slip(t)) if callable(slip) else slip
