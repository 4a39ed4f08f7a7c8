"""The motion of a proved simulation: y' = f(y) in R^N, from a system and exact numbers.

The state is y = (q, v, w, t). Parameters w with several values are states that stay, and the time is one that
grows: so a step knows how its end depends on them, and a fast motion does not forget that a mass is the same
in all steps. Parameters with one value are exact constants.

Rotations in space are unit quaternions among q. Their equations are polynomials that keep |q| = 1, so four
entries are as good as a chart, and hold for all times. A box of numbers stands for the rotations q / |q|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..base.arguments import members, short, takes_parameters, vector, wrong_shape
from ..base.concurrency import Sendable, cached_property
from ..base.errors import ArgumentError, ConfigurationError, GraphError, ModelError, known
from ..base.exact import Bounds, exact_bounds
from ..compiler import Constants, FlatLayout, Function, IntervalLibrary, Tape, decided, tape_of, trace
from ..groups import LieGroup
from ..hybrid import HybridSystem
from ..mechanisms import Mechanism
from ..robot import Robot
from ..simulation import mechanism_of

Array = Any
Field = Callable[[Any, Array, Array, Array], Array]  # (t, q, v, p) -> (dq/dt, dv/dt)
NOTHING = FlatLayout("parameter", {})
OFF_UNIT = Fraction(1, 10**6)  # of the norm of a quaternion
ROOT = 1 << 200  # square roots are rounded to 1 / ROOT


class ExactMotion(Sendable):
    """y' = f(y) of a system in R^N, y = (q, v, w, t), over intervals.

    name, nq, nv  of the system; `names` of q and v
    layout        of its free parameters
    bounds        exact bounds of each entry of them
    rounding      constants with more than 24 binary digits stand for numbers within this share of them
    quaternions   where in q unit quaternions begin
    """

    def __init__(
        self,
        name: str,
        names: tuple[list[str], list[str]],
        field: Field,
        layout: FlatLayout,
        parameters: Mapping[str, Any],
        rounding: float,
        quaternions: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.quaternions = tuple(quaternions)
        self.names = [*names[0], *names[1]]
        self.nq, self.nv = map(len, names)
        self.layout = layout
        self.rounding = Fraction(rounding)
        self.bounds = _bounds_of(name, layout, parameters)
        self.wide = [k for k, (low, high) in enumerate(self.bounds.values()) if low != high]
        self.size = len(self.names) + len(self.wide) + 1
        constants = self.constants()
        self.tape = self.tape_of(lambda t, q, v, p: self._rate(field(t, q, v, p)), "field", constants)
        self._constants = constants

    def constants(self) -> Constants:
        """Exact constants of a proof, with the parameters that have one value."""
        thin = {name: bounds for name, bounds in self.bounds.items() if bounds[0] == bounds[1]}
        return Constants(thin, self.rounding)

    def _rate(self, rate: Array) -> Array:
        """The rate of y: parameters stay, and the time grows."""
        rate = np.asarray(rate)
        if rate.shape != (len(self.names),):
            raise wrong_shape("the rate of the state", rate.shape, f"({len(self.names)},)")
        return np.concatenate([rate, np.zeros(len(self.wide)), np.ones(1)])

    def function(self, part: Callable[..., Any], name: str) -> Function:
        """A function of (t, q, v, p), p flat, traced over y and the parameters with one value."""
        free = len(self.bounds) - len(self.wide)

        def of_state(y: Array, u: Array) -> Array:
            q, v, w = np.split(y[:-1], [self.nq, self.nq + self.nv])
            fixed = iter(u)
            varied = iter(w)
            flat = [next(varied if k in self.wide else fixed) for k in range(len(self.bounds))]
            return np.asarray(part(y[-1], q, v, np.array(flat, dtype=object if flat else float)))

        try:
            return trace(of_state, {"y": self.size, "u": free}, name)
        except (GraphError, TypeError, AttributeError) as error:
            raise GraphError(
                f"{name} of {self.name} cannot be traced: {error}; write it with NumPy operators, "
                "liebody.scalars and methods of a Robot"
            ) from None

    def tape_of(self, part: Callable[..., Any], name: str, constants: Constants) -> Tape:
        """The tape of a function of (t, q, v, p)."""
        return self._tape(self.function(part, name), constants)

    def _tape(self, function: Function, constants: Constants) -> Tape:
        return tape_of(function, {x: k for k, x in enumerate(function.inputs["u"].flat)}, constants)

    @cached_property
    def library(self) -> IntervalLibrary:
        """Interval arithmetic of the field."""
        return IntervalLibrary([self.tape], self._constants, self.size)

    def observing(self, part: Callable[..., Any]) -> tuple[IntervalLibrary, tuple[int, ...]]:
        """Interval arithmetic of the field and of a function (t, q, v) or (t, q, v, p), and its shape."""
        shape: list[tuple[int, ...]] = []
        named = takes_parameters(part)

        def flat(t: Any, q: Array, v: Array, p: Array) -> Array:
            value = np.asarray(part(t, q, v, *([self.layout.read(p)] if named else [])))
            shape.append(value.shape)
            return value.reshape(-1)

        constants = self._constants.copy()
        tape = self.tape_of(flat, "the function", constants)
        return IntervalLibrary([self.tape, tape], constants, self.size), shape[-1]

    def deciding(self, part: Callable[..., Any], name: str, y: Array) -> tuple[IntervalLibrary, list[int]]:
        """Interval arithmetic of the field and of a function (t, q, v, p), p flat, with conditions as at y.

        returns  the library, whose part 1 has the function's results, and behind them differences; signs of
                 these, for which the conditions are decided as at y
        """
        constants = self._constants.copy()
        free = [float(low) for low, _ in self._constants.parameters.values()]
        function = decided(self.function(part, name), [(y, np.array(free))])
        tape = self._tape(function.function, constants)
        return IntervalLibrary([self.tape, tape], constants, self.size), function.signs

    def start(self, q0: Any, v0: Any) -> list[Bounds]:
        """Exact bounds of each entry of y at t = 0."""
        q = entries_of("q0", q0, self.nq)
        for k in self.quaternions:
            q[k : k + 4] = _unit_quaternion(q[k : k + 4], k, self.name)
        states = [*q, *entries_of("v0", v0, self.nv)]
        bounds = list(self.bounds.values())
        return [*states, *(bounds[k] for k in self.wide), (Fraction(0), Fraction(0))]


def entries_of(name: str, given: Any, size: int) -> list[Bounds]:
    """Exact bounds of the entries of an argument."""
    entries = [] if given is None else [*given] if isinstance(given, Iterable) else [given]
    if len(entries) != size:
        raise wrong_shape(name, (len(entries),), f"({size},), each entry a number or a pair of bounds")
    return [exact_bounds(f"{name}[{k}]", x) for k, x in enumerate(entries)]


def _unit_quaternion(box: Sequence[Bounds], place: int, name: str) -> list[Bounds]:
    """Bounds of q / |q| for q in a box.

    The entry q_i / |q| grows with q_i; with other entries farther from zero it is nearer to zero.
    """
    nearest = [max(low, -high, Fraction(0)) for low, high in box]
    farthest = [max(abs(low), abs(high)) for low, high in box]
    least, most = (sum((x * x for x in sizes), Fraction(0)) for sizes in (nearest, farthest))
    if least > (1 + OFF_UNIT) ** 2 or most < (1 - OFF_UNIT) ** 2:
        raise ConfigurationError(
            f"the quaternion q0[{place}:{place + 4}] (w, x, y, z) of {name} has a norm from "
            f"{math.sqrt(least):.9g} to {math.sqrt(most):.9g}, not 1; divide it by its norm (group.normalize)"
        )
    if least == most == 1:
        return list(box)
    if not least:
        raise ArgumentError(f"q0[{place}:{place + 4}] contains zero, which is no quaternion of a rotation")

    def end(i: int, x: Fraction, upper: bool) -> Fraction:
        # the others near zero make the entry larger in size, and far from it smaller
        others = nearest if (x > 0) == upper else farthest
        rest = sum((y * y for j, y in enumerate(others) if j != i), Fraction(0))
        low, high = _square_root(x * x + rest)
        return x / (low if (x > 0) == upper else high)

    return [(end(i, low, False), end(i, high, True)) for i, (low, high) in enumerate(box)]


def _square_root(x: Fraction) -> Bounds:
    """Bounds of the square root of a number above zero."""
    low = Fraction(math.isqrt(x.numerator * ROOT**2 // x.denominator), ROOT)
    return low, low + Fraction(1, ROOT)


def _bounds_of(name: str, layout: FlatLayout, given: Mapping[str, Any]) -> dict[str, Bounds]:
    """Exact bounds of each entry of flat parameters: what is given, or the default value."""
    values = np.concatenate([np.zeros(0), *(np.ravel(x) for x in layout.defaults.values())])
    entries = dict(zip(layout.entries, values.tolist(), strict=True))
    for entry in given:
        if entry not in entries:
            raise ModelError(f"parameters: {name} has no parameter {entry!r}; {known(entries, entry)}")
    return {entry: exact_bounds(entry, given.get(entry, x)) for entry, x in entries.items()}


def motion_of(
    system: Any, q0: Any, tau: Any, joints: Any, parameters: Mapping[str, Any], rounding: float
) -> ExactMotion:
    """The motion of a robot, a hybrid system without events, or a vector field f(y)."""
    if isinstance(system, HybridSystem):
        if tau is not None or joints is not None:
            raise ModelError(f"{system.name} is a hybrid system, which takes neither tau nor joints")
        return _of_system(system, parameters, rounding)
    if isinstance(system, Robot):
        return _of_robot(system, tau, joints, parameters, rounding)
    if callable(system) and not isinstance(system, Mechanism):
        names = [f"y[{k}]" for k in range(len(members("q0", q0, "a number or a pair for each state")))]
        field = lambda t, y, v, p: system(y)  # noqa: E731
        return ExactMotion("field", (names, []), field, NOTHING, parameters, rounding)
    raise ArgumentError(
        f"{short(system)} cannot be enclosed; expected a Robot, a ClosedTree, a HybridSystem without events, "
        "or a vector field f(y)"
    )


def _of_system(system: HybridSystem, parameters: Mapping[str, Any], rounding: float) -> ExactMotion:
    reasons = {
        f"it has events: {', '.join(system.guard_names)}": len(system.guard_names) > 0,
        "it has memory or flows": system.memory.size > 0,
        "it has an update at the ends of steps": system.update is not None,
        "it has a condition at which motions stop": system.stop is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ModelError(f"motions of {system.name} cannot be enclosed yet: {reason}")
    group = system.group
    need_coordinates(system.name, group)

    def field(t: Any, q: Array, v: Array, p: Array) -> Array:
        rate = system.vector_field(t, q, v, system.memory.type(), system.parameters.read(p))
        return np.concatenate([group.coordinate_rate(q, v), np.asarray(rate)])

    names = [f"q[{i}]" for i in range(system.nq)], [f"v[{i}]" for i in range(system.nv)]
    return ExactMotion(system.name, names, field, system.parameters, parameters, rounding, group.quaternions)


def _of_robot(
    robot: Robot, tau: Any, joints: Any, parameters: Mapping[str, Any], rounding: float
) -> ExactMotion:
    moving: Any = mechanism_of(with_free(robot, parameters), (), joints)
    group = moving.group
    need_coordinates(moving.name, group)
    efforts = efforts_of(moving, tau)

    def field(t: Any, q: Array, v: Array, p: Array) -> Array:
        here, u, _ = moving.given(np.concatenate([efforts(t, q, v, p), p]))
        velocity, acceleration = here.rates(t, q, v, u)
        return np.concatenate([group.coordinate_rate(q, velocity), acceleration])

    labels = moving.labels
    names = list(labels[0].names), list(labels[1].names)
    return ExactMotion(moving.name, names, field, moving.layout, parameters, rounding, group.quaternions)


def with_free(system: Any, parameters: Mapping[str, Any]) -> Any:
    """A robot or closed tree whose parameters, of which entries have bounds, are inputs."""
    # entries such as gravity[2] belong to parameters such as gravity
    every = FlatLayout("parameter", {name: x.value for name, x in system.parameters.items()})
    for entry in parameters:
        if entry not in every.entries:
            raise ModelError(
                f"parameters: {system.name} has no parameter {entry!r}; {known(every.entries, entry)}"
            )
    free = dict.fromkeys(every.entries[entry] for entry in parameters)
    return system.with_parameters(*free) if free else system


def efforts_of(moving: Any, tau: Any) -> Callable[[Any, Array, Array, Array], Array]:
    """Efforts (nu,) of a mechanism at (t, q, v, p), from what `enclose` was given."""
    if tau is not None and not callable(tau):
        tau = vector("tau", tau, moving.nu)
    named = takes_parameters(tau)

    def efforts(t: Any, q: Array, v: Array, p: Array) -> Array:
        if tau is None:
            return np.zeros(moving.nu, int)
        if callable(tau):
            return np.asarray(tau(t, q, v, *([moving.layout.read(p)] if named else [])))
        return np.asarray(tau)

    return efforts


def need_coordinates(name: str, group: LieGroup) -> None:
    """Refuse groups whose coordinates are neither global nor unit quaternions."""
    if group.nq != group.dim + len(group.quaternions):
        raise ModelError(
            f"motions of {name} cannot be enclosed yet: its group is {group}; proved simulations are about "
            "R(n), motions in a plane and in space (SE2, SO3, SE3), and products of these"
        )
