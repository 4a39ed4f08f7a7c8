"""The subject of a proof: the equations of an orbit's system, without the program that wrote them.

An orbit passes K phases in their order, and begins again. In phase k the state moves by a field until a guard
is zero, and then jumps into the next phase:

    y' = f_k(y),    g_k(y) = 0 at the end of the phase,    y+ = J_k(y) in phase k + 1.

The states of a phase are (q, v) and the parts of the memory that matter there, so that phases may differ in
their numbers of states. An orbit without a section starts where a coordinate has a given value: its last
phase ends with g(y) = y_j - c, and J(y) = y. Up to a symmetry xi the orbit closes as J_K(y) = y_0 + s xi.

Constants are exact: a float of the traced functions is the binary number that it is, or all numbers near it
(`rounding` of `prove`); a parameter is a binary number, a fraction, or all numbers of an interval.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...base.arguments import wrong_shape
from ...base.errors import ArgumentError, GraphError, known
from ...base.exact import Bounds, exact_bounds
from ...compiler import Constants, Expr, Function, IntervalLibrary, Tape, tape_of, trace
from ..orbit import PeriodicOrbit
from ..segments import GaitError

Array = Any


class ProofError(GaitError):
    """A theorem that could not be proved: the message says at which step, and what would help."""


@dataclass
class WatchedGuard:
    """A guard in a phase: its tape, and the direction of its events, 0 for both.

    zero_at_start  whether it is zero at the start of the phase because the last phase ended with it: it is
                   the same expression behind the jump as before it, or the constant zero
    sign           of a condition: it must have this sign, and not only keep the one that it has; else 0
    positive       a function that the theorem says is positive, at both ends of the phase, too
    """

    name: str
    direction: int
    tape: Tape
    zero_at_start: bool = False
    sign: int = 0
    positive: bool = False


@dataclass
class SignAtEnd:
    """A function that has this sign at the end of a phase.

    name  of a function that the theorem says is positive; "": a condition of the jump
    """

    tape: Tape
    sign: int
    name: str = ""


@dataclass
class OrbitPhase:
    """The equations between two events.

    names       of the states
    field       f
    section     g; its event ends the phase
    jump        J; None: the state does not change
    event       name and direction of that guard; None: the section is y_j = c
    coordinate  the j of a section y_j = c; None: the section is a guard
    guards      all guards that are watched in this phase, the section's among them, conditions, and
                functions that the theorem says are positive
    at_end      functions with a sign at the end of the phase: conditions of the jump, and such functions
    """

    names: list[str]
    field: Tape
    section: Tape
    jump: Tape | None
    event: tuple[str, int] | None
    coordinate: int | None
    guards: list[WatchedGuard]
    at_end: list[SignAtEnd] = dataclasses.field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self.names)

    @property
    def tapes(self) -> list[Tape]:
        jumps = [] if self.jump is None else [self.jump]
        watched = [x.tape for x in self.guards] + [x.tape for x in self.at_end]
        return [self.field, self.section, *jumps, *watched]


@dataclass
class Symmetry:
    """A translation under which the equations do not change (`symmetries`).

    coordinate  a state of the first phase that it moves by 1, and that no other symmetry moves
    along       the translation in the states of each phase
    """

    coordinate: int
    along: list[list[Fraction]]


@dataclass(frozen=True)
class Rotation:
    """Four states of all phases, from `place` on, that are a unit quaternion q; it returns as sign * q."""

    place: int
    sign: int


@dataclass(frozen=True)
class PeriodicDrive:
    """The time as a state, at `place` in all phases; everything repeats after 2 pi / rate."""

    place: int
    rate: Fraction


@dataclass
class Closing:
    """How an orbit closes behind the last jump, where that is not only by y = y_0 (`closing`).

    tape  takes the state behind the last jump to that at the start
    """

    rotations: list[Rotation]
    drive: PeriodicDrive | None
    tape: Tape


@dataclass
class ExactEquations:
    """The equations of an orbit, as tapes with exact constants: its phases in their order.

    name        of the system
    common      how many states, the first ones, all phases share: the entries of (q, v)
    symmetries  under which it closes; its start has a given value of their coordinates
    closing     of quaternions and of a drive; None: there are none
    """

    name: str
    constants: Constants
    phases: list[OrbitPhase]
    common: int
    symmetries: list[Symmetry] = dataclasses.field(default_factory=list)
    closing: Closing | None = None
    _parts: dict[Tape, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        tapes = [tape for phase in self.phases for tape in phase.tapes]
        if self.closing is not None:
            tapes.append(self.closing.tape)
        for tape in tapes:
            self._parts.setdefault(tape, len(self._parts))

    def part(self, tape: Tape) -> int:
        """The number of a tape in `library`: phases with the same functions share them."""
        return self._parts[tape]

    def library(self, exact: bool, extended: bool = False) -> IntervalLibrary:
        """Interval arithmetic of all tapes.

        exact     False: with the middles of constants that have bounds, to compute an orbit and prove nothing
        extended  in extended precision, where there is one, and without derivatives
        """
        most = 0 if extended else max(phase.size for phase in self.phases)
        return IntervalLibrary(list(self._parts), self.constants, most, not exact, extended)

    @property
    def events(self) -> list[tuple[str, int]]:
        """The events of a period in their order, without a section y_j = c."""
        return [phase.event for phase in self.phases if phase.event is not None]


def equations_of_field(
    field: Callable[[Array], Any],
    start: Array,
    names: Sequence[str],
    name: str,
    rounding: float,
    positive: Mapping[str, Callable[[Array], Any]],
) -> ExactEquations:
    """The equations of an orbit of y' = f(y) in R^N, which starts where its fastest state has its value.

    positive  functions of y to prove positive along it, by name
    """
    N = len(start)
    function = trace(lambda y: np.asarray(field(y)), {"y": N}, "field")
    shape = function.outputs["field"].shape
    if shape != (N,):
        raise wrong_shape("the result of the field", shape, f"dy/dt, ({N},)")
    constants = Constants(spread=Fraction(rounding))
    tape = exact_tape(function, {}, constants)
    section, j = where_it_is_fast(start, function(start), constants)
    numbers = trace(lambda y: numbers_of(positive, (y,)), {"y": N}, "positive")
    watched = []
    for title, number in zip(positive, numbers.outputs["positive"], strict=True):
        one = exact_tape(Function(title, numbers.inputs, {title: np.array([number], object)}), {}, constants)
        watched.append(WatchedGuard(title, 0, one, sign=1, positive=True))
    phase = OrbitPhase(list(names), tape, section, None, None, j, watched)
    must_have_names_of_their_own(positive, [phase], constants)
    return ExactEquations(name, constants, [phase], N)


def numbers_of(functions: Mapping[str, Callable[..., Any]], arguments: tuple[Any, ...]) -> Array:
    """The values of functions; ProofError where one is no number."""
    numbers = np.zeros(len(functions), object)
    for k, (name, function) in enumerate(functions.items()):
        x = function(*arguments)
        if np.shape(x) != ():
            raise ProofError(f"{name} is an array of shape {np.shape(x)}, expected a number")
        numbers[k] = np.asarray(x)[()]
    return numbers


def must_have_names_of_their_own(
    positive: Iterable[str], phases: Sequence[OrbitPhase], constants: Constants
) -> None:
    """ProofError for positive functions that the theorem would call by the name of something else."""
    others = {*constants.parameters}
    for phase in phases:
        others |= {*phase.names, *(x.name for x in phase.guards if not x.positive)}
    for name in positive:
        if name in others:
            raise ProofError(
                f"the positive function {name!r} has the name of a state, a parameter or a guard; give it "
                "one of its own"
            )


def exact_tape(function: Function, known: Mapping[Expr, int], constants: Constants) -> Tape:
    """The tape of a function; ProofError for operations without a rule."""
    try:
        return tape_of(function, known, constants)
    except GraphError as error:
        raise ProofError(f"nothing can be proved yet: {error}") from None


def where_it_is_fast(start: Array, rate: Array, constants: Constants) -> tuple[Tape, int]:
    """The section y_j = c through a start, across the fastest state."""
    N = len(start)
    j = int(np.argmax(np.abs(rate)))
    value = Fraction(float(start[j]))
    return section_at(N, j, (value, value), constants), j


def section_at(N: int, j: int, value: Bounds, constants: Constants) -> Tape:
    """The section y_j = c of N states."""
    return section_of(N, j, constants.place(value))


def section_of(N: int, j: int, constant: int) -> Tape:
    """The section y_j = c of N states, where c is the constant with this number."""
    rows = [("input", k) for k in range(N)] + [("constant", constant), ("sub", j, N)]
    return Tape(N, tuple(rows), (N + 1,))


def appended(
    nodes: list[tuple[Any, ...]],
    tape: Tape,
    inputs: Sequence[int],
    known: Mapping[tuple[Any, ...], int] | None = None,
) -> list[int]:
    """Append the operations of a tape to nodes; the places of its results.

    inputs  the places of its arguments among the nodes
    known   places of operations that are not appended
    """
    places = list(inputs)
    for node in tape.nodes[tape.inputs :]:
        if known and node in known:
            places.append(known[node])
            continue
        op, *operands = node
        is_number = op in ("constant", "parameter")
        places.append(len(nodes))
        nodes.append(node if is_number else (op, *(places[k] for k in operands)))
    return [places[k] for k in tape.outputs]


def exact_parameters(orbit: PeriodicOrbit, given: Mapping[str, Any]) -> dict[str, Bounds]:
    """Exact bounds of each flat parameter, by name: the orbit's, or what is given."""
    layout = orbit.system.parameters
    flat = dict(zip(layout.entries, layout.values(orbit.parameters, ()).tolist(), strict=True))
    bounds = {name: (Fraction(x), Fraction(x)) for name, x in flat.items()}
    for name, value in given.items():
        if name not in bounds:
            raise ProofError(f"parameters: there is no parameter {name!r}; {known(bounds, name)}")
        low, high = bounds[name] = _bounds(name, value)
        middle = float(low + high) / 2
        away = max(float(low) - flat[name], flat[name] - float(high))
        if away > 1e-3 * max(1.0, abs(middle)):
            raise ProofError(
                f"parameters: {name} is about {middle:g}, and {flat[name]:g} in the orbit; find the orbit "
                "there first, by orbit.with_parameters"
            )
    return bounds


def _bounds(name: str, value: Any) -> Bounds:
    """A user's value of a parameter, as exact bounds."""
    try:
        return exact_bounds(f"parameters: {name}", value)
    except ArgumentError as error:
        raise ProofError(str(error)) from None
