"""What a proof is about: the equations of an orbit's system, without the program that wrote them.

    y' = f(y),  y = (q, v) in R^(2n),    g(y) = 0 at the end of a period,    y+ = J(y) after it.

An orbit with a section has its guard for g, and its update for J. An orbit without one starts where a
coordinate has a given value: g(y) = y_j - c, and J(y) = y. So both are one kind of orbit.

Constants are exact: a float of the traced functions is the binary number that it is, or all numbers near it
(`rounding` of `prove`); a parameter is a binary number, a fraction, or all numbers of an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...base.arguments import wrong_shape
from ...base.errors import GraphError, known
from ...compiler import Constants, Expr, Function, IntervalLibrary, Tape, tape_of, trace
from ..orbit import PeriodicOrbit
from ..segments import GaitError, named

Array = Any
Bounds = tuple[Fraction, Fraction]


class ProofError(GaitError):
    """A theorem that could not be proved: the message says at which step, and what would help."""


@dataclass
class WatchedGuard:
    """A guard of the system: its tape, and the direction of its events, 0 for both."""

    name: str
    direction: int
    tape: Tape


@dataclass
class ExactEquations:
    """Vector field, guards and jump of an orbit, as tapes with exact constants.

    names       of the states
    field       f
    section     g; its events end the period
    jump        J; None: the state does not change
    event       name and direction of the section's guard; None: the section is y_j = c
    coordinate  the j of a section y_j = c; None: the section is a guard
    guards      all guards of the system, the section's among them
    returns     whether g(J(y)) and g(y) are one expression, so that a period starts where g = 0
    """

    name: str
    names: list[str]
    constants: Constants
    field: Tape
    section: Tape
    jump: Tape | None
    event: tuple[str, int] | None
    coordinate: int | None
    guards: list[WatchedGuard]
    returns: bool

    @property
    def size(self) -> int:
        """The number of states, 2 n."""
        return self.field.inputs

    def library(self, exact: bool) -> IntervalLibrary:
        """Interval arithmetic of all parts: field, section, then jump if there is one, then guards.

        exact  False: with the middles of constants that have bounds, to compute an orbit and prove nothing
        """
        jumps = [] if self.jump is None else [self.jump]
        tapes = [self.field, self.section, *jumps, *(guard.tape for guard in self.guards)]
        return IntervalLibrary(tapes, self.constants, self.size, middles=not exact)

    @property
    def first_guard(self) -> int:
        """The part of the library that is the first guard."""
        return 2 if self.jump is None else 3


def equations_of(
    orbit: PeriodicOrbit, parameters: Mapping[str, Any], rounding: float, toward: Array
) -> ExactEquations:
    """The equations of an orbit; ProofError for kinds of systems that cannot be proved yet.

    toward  the rate of the state at the start, by which the section of an orbit without one is chosen
    """
    system = orbit.system
    _refuse(orbit)
    n = system.nv
    constants = Constants(_parameters(orbit, parameters), Fraction(rounding))
    shapes: dict[str, Any] = {"y": 2 * n, "u": system.parameters.size, "t": ()}

    def arguments(y: Array, u: Array, t: Any) -> tuple[Any, ...]:
        return t, y[:n], y[n:], system.memory.type(), system.parameters.read(u)

    def field(y: Array, u: Array, t: Any) -> Array:
        return np.concatenate([y[n:], np.asarray(system.vector_field(*arguments(y, u, t)))])

    def guards(y: Array, u: Array, t: Any) -> Array:
        return system.guard_values(arguments(y, u, t))

    def jump_at(events: list[float], y: Array, u: Array, t: Any) -> Array:
        q, v, _, _ = system.after_update(arguments(y, u, t), events)
        return np.concatenate([q, v])

    def tape(function: Function) -> Tape:
        symbols = function.inputs
        known = {symbol: k for k, symbol in enumerate(symbols["u"].flat)}
        if any(x is symbols["t"][()] for x in function.nodes):
            raise ProofError(
                f"{function.name} of {system.name} depends on the time t; proofs are about equations that "
                "do not: make the phase of the drive a coordinate"
            )
        return _tape(function, known, constants)

    # the state must not change where no event happens
    none = [0.0] * len(system.guard_names)
    quiet = trace(lambda *at: jump_at(none, *at), shapes, "update")
    if any(a is not b for a, b in zip(quiet.outputs["update"], quiet.inputs["y"], strict=True)):
        raise ProofError(
            f"the update of {system.name} may change q or v at the end of a step without an event; let it "
            "return where(events.name != 0, changed, q), or leave q and v alone"
        )
    traced_field = trace(field, shapes, "field")
    field_tape = tape(traced_field)
    every = [
        WatchedGuard(name, direction, tape(trace(lambda *at, k=k: guards(*at)[k], shapes, name)))
        for k, (name, direction) in enumerate(zip(system.guard_names, system.directions, strict=True))
    ]
    names = [f"{symbol}[{i}]" for symbol in "qv" for i in range(n)]
    common = system.name, names, constants, field_tape
    # an orbit without a section starts where its fastest coordinate has a given value
    if not orbit.shooting.section:
        start = np.concatenate([orbit.q, orbit.v])
        section, j = _where_it_is_fast(start, toward, constants)
        return ExactEquations(*common, section, None, None, j, every, True)
    # with one, the update at its event is the jump
    name, direction = orbit.shooting.section
    place = system.guard_names.index(name)
    sign = direction or _direction_at(orbit)
    events = [float(sign) if k == place else 0.0 for k in range(len(none))]
    jump = trace(lambda *at: jump_at(events, *at), shapes, "jump")

    def before_and_after(y: Array, u: Array, t: Any) -> Array:
        return np.stack([guards(y, u, t)[place], guards(jump_at(events, y, u, t), u, t)[place]])

    before, after = trace(before_and_after, shapes, "both").outputs["both"]
    again = before is after or (type(after) is float and after == 0.0)
    return ExactEquations(*common, every[place].tape, tape(jump), (name, sign), None, every, again)


def equations_of_field(
    field: Callable[[Array], Any], start: Array, names: Sequence[str], name: str, rounding: float
) -> ExactEquations:
    """The equations of an orbit of y' = f(y) in R^N, which starts where its fastest state has its value."""
    N = len(start)
    function = trace(lambda y: np.asarray(field(y)), {"y": N}, "field")
    shape = function.outputs["field"].shape
    if shape != (N,):
        raise wrong_shape("the result of the field", shape, f"dy/dt, ({N},)")
    constants = Constants(spread=Fraction(rounding))
    tape = _tape(function, {}, constants)
    section, j = _where_it_is_fast(start, function(start), constants)
    return ExactEquations(name, list(names), constants, tape, section, None, None, j, [], True)


def _tape(function: Function, known: Mapping[Expr, int], constants: Constants) -> Tape:
    """The tape of a function; ProofError for operations without a rule."""
    try:
        return tape_of(function, known, constants)
    except GraphError as error:
        raise ProofError(f"nothing can be proved yet: {error}") from None


def _where_it_is_fast(start: Array, rate: Array, constants: Constants) -> tuple[Tape, int]:
    """The section y_j = c through a start, across the fastest state."""
    N = len(start)
    j = int(np.argmax(np.abs(rate)))
    value = Fraction(float(start[j]))
    c = constants.place((value, value))
    rows = [("input", k) for k in range(N)] + [("constant", c), ("sub", j, N)]
    return Tape(N, tuple(rows), (N + 1,)), j


def _refuse(orbit: PeriodicOrbit) -> None:
    """ProofError for what proofs do not cover yet."""
    system, shooting = orbit.system, orbit.shooting
    n = system.nv
    shape = trace(lambda q, v: system.group.integrate(q, v), {"q": system.nq, "v": n}, "integrate")
    plain = [
        type(x) is Expr and x.op == "add" and set(x.args) == {a, b}
        for x, a, b in zip(*shape.outputs.values(), *shape.inputs.values())
    ]
    reasons = {
        f"its group is {system.group}; proofs are about R(n) so far": system.nq != n or not all(plain),
        "it has memory or flows": system.memory.size > 0,
        "it has a condition at which motions stop": system.stop is not None,
        "it is closed up to a symmetry": len(orbit.shift) > 0,
        "its period is given by a function, as of a drive": shooting.known_period is not None,
        f"other events happen on its way: {named(orbit.events)}": len(orbit.events) > 0,
        "it closes at a later return than the first": bool(shooting.section) and shooting.segments > 1,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ProofError(f"the orbit of {system.name} cannot be proved yet: {reason}")


def _direction_at(orbit: PeriodicOrbit) -> int:
    """The direction of the event at the end of a simulated orbit, for guards with events in both."""
    log = orbit.shot.arcs[-1].end.log
    assert log is not None  # the orbit has a section
    return int(log.direction[0])


def _names(layout: Any) -> list[str]:
    """Names of flat parameters: "mass", "gains[2]"."""
    return [
        f"{name}{list(index)}" if index else name
        for name, default in layout.defaults.items()
        for index in np.ndindex(default.shape)
    ]


def _parameters(orbit: PeriodicOrbit, given: Mapping[str, Any]) -> dict[str, Bounds]:
    """Exact bounds of each flat parameter, by name: the orbit's, or what is given."""
    layout = orbit.system.parameters
    flat = dict(zip(_names(layout), layout.values(orbit.parameters, ()).tolist()))
    bounds = {name: (Fraction(x), Fraction(x)) for name, x in flat.items()}
    for name, value in given.items():
        if name not in bounds:
            raise ProofError(f"parameters: there is no parameter {name!r}; {known(bounds, name)}")
        low, high = bounds[name] = _bounds(name, value)
        middle = float(low + high) / 2
        if abs(middle - flat[name]) > 1e-3 * max(1.0, abs(middle)):
            raise ProofError(
                f"parameters: {name} is about {middle:g}, and {flat[name]:g} in the orbit; find the orbit "
                "there first, by orbit.with_parameters"
            )
    return bounds


def _bounds(name: str, value: Any) -> Bounds:
    """A number, fraction, decimal, text of one of these, or a pair of them, as exact bounds."""
    pair = value if isinstance(value, tuple | list) and len(value) == 2 else (value, value)
    try:
        low, high = (Fraction(x if isinstance(x, str | int | Fraction) else _exact(x)) for x in pair)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ProofError(
            f"parameters: {name} is {value!r}, expected a number, a fraction such as Fraction(1, 3) "
            "or '1/3', or a pair (lower, upper) of these"
        ) from None
    if low > high:
        raise ProofError(f"parameters: {name} is {value!r}, expected the lower bound first")
    return low, high


def _exact(x: Any) -> Fraction:
    if isinstance(x, float | np.floating) and not math.isfinite(x):
        raise ValueError
    return Fraction(float(x)) if isinstance(x, np.floating | np.integer) else Fraction(x)
