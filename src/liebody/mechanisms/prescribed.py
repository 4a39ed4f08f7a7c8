"""Joints that follow functions of time: q_p = f(t), v_p = df/dt, dv_p/dt = d2f/dt2, by derivatives of traces.

The rest of the tree moves by the equations of motion of its other joints (`OpenTree.hybrid_dynamics`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import check_arguments, takes_parameters
from ..base.errors import ConfigurationError, GraphError, ModelError, pass_on_signals
from ..base.texts import words_of
from ..bodies import Joint, Tree
from ..compiler import Function, jacobian, trace
from ..groups import RealGroup
from ..scalars import Array

OfTime = Callable[..., Any]  # f(t), or f(t, p) with parameters
INPUT = "parameters"
SAME = (
    1e-9  # how far a start may be from the functions of time, beside 1                             [rad, m]
)
TIMES = 513  # at which functions of time are looked at
HALVINGS = 30  # of an interval in which one may jump
JUMP = 1e-6  # what counts as a jump, beside the size of the function
KINKS = {"where", "absolute", "sign", "floor", "minimum", "maximum"}  # operations that may not be smooth


class Motion(NamedTuple):
    """Coordinates (..., k) of some joints at a time, their rates and their accelerations."""

    x: Array
    rate: Array
    acceleration: Array


def differentiated(
    drives: Mapping[str, tuple[OfTime, int]], read: Callable[..., Any] | None = None, size: int = 0
) -> tuple[Function, Function, Function]:
    """Functions of t, or of (t, p), to coordinates (k,), rates and accelerations.

    drives  {joint: (f(t) or f(t, p), number of its coordinates)}
    read    parameters by name from p (size,); None: none may be read

    Raises ModelError for functions that are none of t, that cannot be traced, or return another shape.
    """

    def positions(t: Any, *p: Array) -> Array:
        parts = []
        for joint, (f, count) in drives.items():
            values = np.asarray(f(t, *([read(*p)] if read and takes_parameters(f, 1) else [])))
            if values.size != count or values.ndim > 1:
                shape = "a number" if count == 1 else f"an array ({count},)"
                raise ModelError(
                    f"the function of joint {joint!r} returns an array of shape {values.shape}, expected "
                    f"{shape}: where the joint is at time t"
                )
            parts.append(values.reshape(count))
        return np.concatenate(parts)

    for joint, (f, _) in drives.items():
        what = f"the function of joint {joint!r}"
        if not callable(f):
            raise ModelError(f"{what} is {f!r}, expected a function of time, such as lambda t: 3.0 * t")
        taken = "tp" if read and takes_parameters(f, 1) else "t"
        check_arguments(what, f, *taken, more=", or of (t, p) with parameters" if read else "")
    try:
        inputs: dict[str, Any] = {"t": (), **({INPUT: size} if size else {})}
        first = trace(positions, inputs, "prescribed")
    except ModelError:
        raise
    except Exception as error:  # the user's code may raise anything on symbols
        pass_on_signals(error)
        why = str(error) if isinstance(error, GraphError) else words_of(error)
        raise ModelError(
            f"the function of {', '.join(map(repr, drives))} cannot be differentiated twice: {why}; write it "
            "with NumPy operators and liebody.scalars, which are traced"
        ) from error
    second = jacobian(first, "t", "forward")
    return first, second, jacobian(second, "t", "forward")


@dataclass(frozen=True, eq=False)
class PrescribedMotion:
    """Joints of a tree that follow functions of time.

    names      the joint of each coordinate, (k,)
    places     where the coordinates stand in q, (k,)
    dofs       where the velocities stand in v, (k,)
    functions  coordinates, rates and accelerations, (k,) each, of t or of (t, p)
    """

    names: tuple[str, ...]
    places: np.ndarray
    dofs: np.ndarray
    functions: tuple[Function, Function, Function]

    @classmethod
    def of(
        cls, tree: Tree, drives: Mapping[str, OfTime], read: Callable[..., Any] | None = None, size: int = 0
    ) -> PrescribedMotion:
        """From {joint: f}, with f(t) or f(t, p); read and size as in `differentiated`.

        Raises ModelError for unknown joints, joints that follow others, and joints whose velocities are not
        the derivatives of their coordinates, such as Spherical().
        """
        counted = {}
        names: list[str] = []
        places: list[int] = []
        dofs: list[int] = []
        for name, f in drives.items():
            check_joint(tree.joint(name))
            body = next(b for b in tree.bodies if b.joint.name == name)
            counted[name] = f, body.joint.dim
            names += [name] * body.joint.dim
            places += range(body.coordinates.start, body.coordinates.stop)
            dofs += body.places
        functions = differentiated(counted, read, size)
        return cls(tuple(names), np.array(places, int), np.array(dofs, int), functions)

    @property
    def form(self) -> tuple[Any, ...]:
        """A hashable value, equal for motions that compute the same."""
        return self.names, self.functions[0].form

    def at(self, t: Any, p: Array) -> Motion:
        """The motion at a time, with parameters p (np,)."""
        return Motion(*(f(t, *([p] if INPUT in f.inputs else [])) for f in self.functions))

    def check_start(self, q: Array, v: Array, start: Motion, t: float) -> None:
        """Raise ConfigurationError for states q (n, nq), v (n, nv) off the motion at time t, (n, k)."""
        for name, values, expected in (
            ("q0", q[:, self.places], start.x),
            ("v0", v[:, self.dofs], start.rate),
        ):
            off = ~(np.abs(values - expected) <= SAME * (1 + np.abs(expected)))
            if off.any():
                i, k = np.argwhere(off)[0]
                raise ConfigurationError(
                    f"{name} has {values[i, k]:.9g} for joint {self.names[k]!r}, which is prescribed: "
                    f"{expected[i, k]:.9g} at t = {t:.6g}; give that, leave {name} out, or name other joints"
                )

    def check_smooth(self, motion_at: Callable[[Array], Motion], t_end: float) -> None:
        """Raise ModelError where a coordinate or its rate is not finite, or jumps, between 0 and t_end.

        motion_at  the motion at times (n,): coordinates (n, k), rates, accelerations
        """
        t = np.linspace(0.0, t_end, TIMES)
        motion = motion_at(t)
        for values in motion:
            lost = ~np.isfinite(values)
            if lost.any():
                i, k = np.argwhere(lost)[0]
                raise ModelError(
                    f"the function of joint {self.names[k]!r}, or a derivative of it, is not finite at "
                    f"t = {t[i]:.6g} s; give one that has two derivatives from 0 to t_end"
                )
        # operations without kinks, of which the values are finite, have two derivatives
        if KINKS.isdisjoint(self.functions[0].operations):
            return
        for order, what in enumerate(("", "the rate of ")):
            jump = _jump(lambda t, k=order: motion_at(t)[k : k + 2], t)  # type: ignore[misc]
            if jump is not None:
                time, k, size = jump
                raise ModelError(
                    f"{what}the function of joint {self.names[k]!r} jumps by {size:.3g} at t = {time:.6g} s, "
                    "which no effort can do; give a function with two derivatives, such as a smooth step "
                    "s*s*s*(10 + s*(6*s - 15)) in place of a ramp s"
                )


def _jump(values_at: Callable[[Array], Sequence[Array]], t: Array) -> tuple[float, int, float] | None:
    """(time, column, size) of the largest jump of y (n, k), with its derivative, at times around t (n,).

    A smooth y has y(b) - y(a) - h (y'(a) + y'(b))/2 of order h^3, which vanishes where an interval is halved
    again and again; a jump remains.
    """

    def defects(t: Array) -> Array:
        y, slope = values_at(t)
        return np.abs(np.diff(y, axis=0) - np.diff(t)[:, None] * (slope[1:] + slope[:-1]) / 2)

    y, _ = values_at(t)
    first = defects(t)
    i, k = np.unravel_index(np.argmax(first), first.shape)
    a, b = t[i], t[i + 1]
    for _ in range(HALVINGS):
        middle = (a + b) / 2
        left, right = defects(np.array([a, middle, b]))[:, k]
        a, b = (a, middle) if left > right else (middle, b)
    left_over = float(defects(np.array([a, b]))[0, k])
    return (float(b), int(k), left_over) if left_over > JUMP * (1 + np.abs(y[:, k]).max()) else None


def check_joint(joint: Joint) -> None:
    """Raise ModelError for a joint that cannot follow a function of time."""
    if joint.mimic is not None:
        raise ModelError(
            f"joint {joint.name!r} follows {joint.mimic.joint!r}; prescribe {joint.mimic.joint!r} instead"
        )
    if not isinstance(joint.group, RealGroup) or not joint.dim:
        raise ModelError(
            f"joint {joint.name!r} moves by {joint.group!r}, and a function of time can only move a joint "
            "whose velocities are the derivatives of its coordinates: Revolute, Prismatic, Helical, "
            "Cylindrical, PlanarTranslation or SpatialTranslation"
        )
