"""The equations of an orbit of a hybrid system: its phases, found from the system itself.

A simulation of one period gives the order of events. The equations between them follow from the system's
functions, traced for each phase:

1. Memory that is the same number at each passage, such as a flag of contact, is a constant of the phase, if
   that is consistent: with the constants of phase k, the update at its event gives a constant again, and
   after the last phase the constants of the first. Traces fold them, so that `where` of a flag is decided.
2. Other memory is a state of the phase, if it matters: if the field, a guard, or a memory of the next phase
   that matters depends on it. An anchor in flight does not, because touch-down sets it anew.
3. Other conditions are decided as at sample states (`compiler.decided`). Their signs are proved along the
   phase, like the signs of guards, and at its end; a guard that ends the phase has the sign of its direction
   behind it.
4. Between events the update must leave q, v and this memory as they are.
5. Memory that is set to the time t, such as the time of the last lift-off, is a clock: its age, the time
   since then, is the state in its place, with the rate 1. That equations depend on ages alone is proved.
6. Functions that the theorem says are positive are traced for each phase, too, and their signs are proved.
7. Rotations in space are unit quaternions among the states. The time is the last state of a driven system.
   How these close is in `closing`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from ...compiler import Constants, Decided, Expr, Function, Tape, decided, trace
from ...hybrid import HybridSystem
from ..orbit import PeriodicOrbit
from ..segments import AT_START
from .closing import closing_of, drive_of, lifted, must_be_rotations, period_of, rotations_of
from .equations import (
    ExactEquations,
    OrbitPhase,
    ProofError,
    Rotation,
    SignAtEnd,
    WatchedGuard,
    exact_parameters,
    exact_tape,
    must_have_names_of_their_own,
    numbers_of,
    section_at,
    where_it_is_fast,
)
from .symmetries import slopes, symmetries_of

Array = Any
STOP = "stop"
SHORTEST = 1e-9  # a phase, over the period
PARTS = (0.1, 0.5, 0.9, 0.999)  # of a phase, where states are looked at


@dataclass
class SimulatedPhase:
    """A phase as a simulation shows it.

    event     name and direction of the event at its end; None: the orbit closes there without one
    duration  [s]
    memory    in the phase, flat
    samples   states on the way, (q, v), the last one next to the end; at these `times`
    constants entries of the memory that are constants of the phase
    """

    event: tuple[str, int] | None
    duration: float
    memory: list[float]
    samples: list[Array]
    times: list[float]
    constants: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PositiveFunctions:
    """The functions that a theorem says are positive, by name (`prove`).

    along      of (t, q, v, z, p): along the whole orbit
    at_events  of (t, q, v, z, p, events), as `update`: at each event, before the update
    """

    along: Mapping[str, Callable[..., Any]]
    at_events: Mapping[str, Callable[..., Any]]


NOTHING_POSITIVE = PositiveFunctions({}, {})


@dataclass
class Course:
    """Where an orbit starts, all states of its first phase, and how long its phases take."""

    start: Array
    durations: list[float]


def equations_of(
    orbit: PeriodicOrbit,
    parameters: Mapping[str, Any],
    rounding: float,
    positive: PositiveFunctions = NOTHING_POSITIVE,
) -> tuple[ExactEquations, Course]:
    """The equations of an orbit; ProofError for kinds of systems that cannot be proved yet."""
    system = orbit.system
    _refuse(orbit)
    constants = Constants(exact_parameters(orbit, parameters), Fraction(rounding))
    stretches, last_memory = _stretches(orbit)
    values = system.parameters.values(orbit.parameters, ())
    clocks = _clocks(system, stretches, values)
    driven = orbit.shooting.known_period is not None
    states = _memory_states(system, stretches, values, clocks, positive)
    functions = [
        TracedPhase(system, stretch, chosen, values, following, clocks, positive, driven=driven)
        for stretch, chosen, following in zip(stretches, states, [*states[1:], states[0]], strict=True)
    ]
    memory = list(stretches[0].memory)
    for i in clocks:
        memory[i] = orbit.period - last_memory[i]
    start = np.concatenate([orbit.q, orbit.v, [memory[i] for i in states[0]], [0.0] * driven])
    rotations = rotations_of(orbit)
    translations = [lifted(system.group, xi) for xi in orbit.shooting.symmetries]
    # an orbit without a section starts where its fastest coordinate has a given value
    closing = None
    if stretches[-1].event is None and not driven:
        closing = _section(orbit, start, translations, rotations, constants)
    phases = [
        _phase(functions[k], functions[(k + 1) % len(functions)], constants, closing)
        for k in range(len(functions))
    ]
    drive = None
    if driven:
        drive = drive_of(phases, len(start) - 1, orbit.period, constants, system.name)
        phases[-1].coordinate = drive.place
        phases[-1].section = section_at(len(start), drive.place, period_of(drive), constants)
    # which guards are zero behind a jump
    for k, phase in enumerate(phases):
        before = functions[k - 1]
        after = functions[k]
        values_at_start = [x for x in after.guards if type(x) is Expr] + [*after.within.differences]
        watched = [guard for guard in phase.guards if not guard.positive]
        for guard, value in zip(watched, values_at_start, strict=True):
            known_end = before.stretch.event is not None
            guard.zero_at_start = known_end and _zero_again(before, after, value)
    durations = [stretch.duration for stretch in stretches]
    if clocks:
        for one, following in zip(functions, [*states[1:], states[0]], strict=True):
            timed = TracedPhase(
                system, one.stretch, one.states, values, following, clocks, positive, timed=True
            )
            _must_ignore_the_time(timed, following, constants)
    names = [*positive.along, *positive.at_events]
    must_have_names_of_their_own(names, phases, constants)
    _must_be_named(names, phases, system.name)
    symmetries = symmetries_of(translations, phases, constants)
    behind = closing_of(rotations, drive, len(start), constants)
    equations = ExactEquations(
        system.name, constants, phases, system.nq + system.nv, symmetries, closing=behind
    )
    must_be_rotations(equations)
    return equations, Course(start, durations)


def _must_be_named(names: Sequence[str], phases: Sequence[OrbitPhase], system: str) -> None:
    """ProofError for positive functions that are constants in all phases: the theorem would not name them."""
    proved = {x.name for phase in phases for x in phase.guards if x.positive}
    proved |= {x.name for phase in phases for x in phase.at_end}
    for name in names:
        if name not in proved:
            raise ProofError(
                f"the positive function {name!r} is a constant, or a condition that does not change, in each "
                f"phase of the orbit of {system}: there is nothing to prove"
            )


def _must_be_closed(function: Function, system: str) -> None:
    """ProofError for a function that depends on a condition which changes between two events."""
    open_ones = set(function.inputs["open"].flat)
    if any(x in open_ones for x in function.nodes):
        raise ProofError(
            f"a condition in {function.name} of {system} is not the same at all times between two events: "
            "make its change an event, by a guard"
        )


def _section(
    orbit: PeriodicOrbit,
    start: Array,
    translations: Sequence[Sequence[float]],
    rotations: Sequence[Rotation],
    constants: Constants,
) -> tuple[Tape, int]:
    """The section of an orbit that closes without an event, across a state that no symmetry moves."""
    system = orbit.system
    still = ~np.any(np.reshape(translations, (-1, system.nq)), axis=0)
    velocities = np.asarray(system.group.coordinate_rate(orbit.q, orbit.v), float)
    accelerations = orbit.shot.arcs[-1].rate[system.nv :]
    rate = np.zeros(len(start))
    rate[: system.nq + system.nv] = np.concatenate([velocities * still, accelerations])
    # quaternions may come to this end with the other sign
    end = start.copy()
    for one in rotations:
        end[one.place : one.place + 4] *= one.sign
    return where_it_is_fast(end, rate, constants)


# -- the order of events ------------------------------------------------------------------------------------


def _stretches(orbit: PeriodicOrbit) -> tuple[list[SimulatedPhase], list[float]]:
    """The phases of a simulated period, and the memory at its end, flat."""
    system, shooting = orbit.system, orbit.shooting
    T = orbit.period
    # a little longer than a period, so that the return is not missed
    until = (1.05 if shooting.section else 1.0) * T
    options = {**shooting.options(orbit.parameters, T / shooting.segments), "record_every": until}
    run = shooting.flow.simulate(orbit.q, orbit.v, t_end=until, **options)
    log = run.events
    returns = shooting.returns(log, T / shooting.segments)
    if shooting.section and len(returns) < shooting.segments:
        raise ProofError(f"the orbit of {system.name} does not return in a simulation of one period")
    last = returns[shooting.segments - 1] + 1 if shooting.section else len(log)
    # events of the section just after the start belong to the start
    quiet = AT_START * T / shooting.segments
    events = [*zip(log.guard, log.direction.tolist(), log.t.tolist(), strict=True)][:last]
    kept = [i for i, (name, sign, t) in enumerate(events) if t > quiet or not shooting.at_section(name, sign)]

    def memory(values: Mapping[str, Array], i: int) -> list[float]:
        return system.memory.write([values[name][i] for name in system.memory.defaults]).tolist()

    times = [0.0, *(events[i][2] for i in kept)]
    memories = [memory(run.memory, 0), *(memory(log.memory, i) for i in kept)]
    names: list[tuple[str, int] | None] = [events[i][:2] for i in kept]
    if not shooting.section:
        times.append(T)
        names.append(None)
    for name, (a, b) in zip(names, pairwise(times), strict=True):
        if not b - a > SHORTEST * T:
            raise ProofError(
                f"two events of {system.name} happen at one time, or almost: before {name} only "
                f"{b - a:.1e} s pass; proofs are about events one after the other"
            )
    # once more, with states on the way
    places = np.array([[a + (b - a) * part for part in PARTS] for a, b in pairwise(times)])
    options["t_eval"] = np.concatenate([[0.0], places.ravel(), [until]])
    del options["record_every"]
    again = shooting.flow.simulate(orbit.q, orbit.v, t_end=until, **options)
    samples = np.concatenate([again.q, again.v], axis=-1)[1:-1].reshape(*places.shape, -1)
    parts = zip(names, pairwise(times), memories[: len(names)], samples, places.tolist(), strict=True)
    return [SimulatedPhase(name, b - a, z, [*y], t) for name, (a, b), z, y, t in parts], memories[-1]


# -- functions of a phase -----------------------------------------------------------------------------------


class TracedPhase:
    """The functions of a system in a phase, traced with the memory of the phase.

    The functions are `within` the phase, and the update `behind` its event, without conditions. Entries of
    the memory that are no states have the numbers of the stretch.

    states  entries of the flat memory that are states, behind (q, v)
    values  flat parameters, at which conditions are decided
    following  the states of the memory in the next phase; None: all entries of the memory matter
    clocks  entries of the memory that are times; their ages stand in their places, and the time is 0
    positive  functions to prove positive
    timed   the time is the last entry of y, behind the states
    driven  ... and is itself a state
    """

    def __init__(
        self,
        system: HybridSystem,
        stretch: SimulatedPhase,
        states: Sequence[int],
        values: Array,
        following: Sequence[int] | None = None,
        clocks: Collection[int] = (),
        positive: PositiveFunctions = NOTHING_POSITIVE,
        timed: bool = False,
        driven: bool = False,
    ) -> None:
        self.system = system
        self.stretch = stretch
        self.states = list(states)
        self.clocks = sorted(clocks)
        self.positive = positive
        self.driven = driven
        self.first = first = system.nq + system.nv  # of the memory
        timed = timed or driven
        size = first + len(self.states) + timed
        shapes: dict[str, Any] = {"y": size, "u": system.parameters.size, "t": ()}
        self.watched = [*zip(system.guard_names, system.directions, strict=True)]
        if system.stop is not None:
            self.watched.append((STOP, 1))
        event = [0.0] * len(system.guard_names)
        if stretch.event is not None:
            event[system.guard_names.index(stretch.event[0])] = float(stretch.event[1])

        def functions(y: Array, u: Array, t: Any) -> dict[str, Array]:
            now = y[-1] if timed else 0.0 if clocks else t
            z = np.array(stretch.memory, object)
            z[self.states] = y[first : first + len(self.states)]
            z[self.clocks] = now - z[self.clocks]
            q, v = y[: system.nq], y[system.nq : first]
            arguments = now, q, v, system.memory.read(z), system.parameters.read(u)
            rates = system.rates(*arguments) if system.rates else {}
            guards = list(system.guard_values(arguments)) if system.guard_names else []
            if system.stop is not None:
                guards.append(system.stop(*arguments))
            return {
                "field": np.concatenate(
                    [system.group.coordinate_rate(q, v), np.asarray(system.vector_field(*arguments))]
                ),
                "rates": system.flowing_memory.write([rates[x] for x in system.flowing_memory.defaults]),
                "guards": np.array(guards, object),
                "quiet": self._after(arguments, [0.0] * len(event)),
                "positive": numbers_of(positive.along, arguments),
                "after": self._after(arguments, event),
                "positive at event": self._positive_at_event(arguments, event),
            }

        traced = trace(functions, shapes, system.name)
        outputs = dict(traced.outputs)
        if following is not None:  # conditions of memory that does not matter are left out
            _without(outputs["quiet"], first, {*self.states, *stretch.constants})
            _without(outputs["after"], first, set(following))
        after = {name: outputs.pop(name) for name in ("after", "positive at event")}
        # the state at a sample; parameters have the values of the orbit
        at = []
        for x, t in zip(stretch.samples, stretch.times, strict=True):
            memory = [t - stretch.memory[i] if i in clocks else stretch.memory[i] for i in self.states]
            at.append((np.concatenate([x, memory, [t] * timed]), values, t))
        self._must_be_positive(traced, at)
        self.within = decided(Function(system.name, traced.inputs, outputs), at)
        sign = {} if stretch.event is None else {outputs["guards"][self.place]: stretch.event[1]}
        self.behind = decided(Function(system.name, traced.inputs, after), at[-1:], sign)

    @property
    def place(self) -> int:
        """The guard at the end."""
        assert self.stretch.event is not None
        return self.system.guard_names.index(self.stretch.event[0])

    def _after(self, arguments: tuple[Any, ...], events: list[float]) -> Array:
        """q, v and the flat memory after the update."""
        q, v, z, _ = self.system.after_update(arguments, events)
        memory = np.array(self.system.memory.write(z), object)
        memory[self.clocks] = arguments[0] - memory[self.clocks]
        return np.concatenate([q, v, memory])

    def _positive_at_event(self, arguments: tuple[Any, ...], events: list[float]) -> Array:
        if self.stretch.event is None:
            return np.zeros(0, object)
        return numbers_of(self.positive.at_events, (*arguments, self.system.events_type(*events)))

    def _must_be_positive(self, function: Function, samples: Sequence[tuple[Any, ...]]) -> None:
        """ProofError where a function is not positive at a sampled state."""
        positive = Function("positive", function.inputs, {"positive": function.outputs["positive"]})
        for sample in samples:
            values = np.asarray(positive(*sample), float).tolist()
            for name, x in zip(self.positive.along, values, strict=True):
                if not x > 0:
                    raise ProofError(
                        f"{name} is {x:.6g} at t = {sample[-1]:.6g} s of the orbit of {self.system.name}, "
                        "expected a positive number"
                    )

    def positive_functions(self) -> list[tuple[str, Expr]]:
        """The functions to prove positive in this phase, without positive constants."""
        outputs = self.within.function.outputs["positive"]
        return [(name, x) for name, x in zip(self.positive.along, outputs, strict=True) if type(x) is Expr]

    def positive_functions_at_event(self) -> list[tuple[str, Expr]]:
        """The functions to prove positive at the event that ends the phase, without positive constants."""
        functions = []
        outputs = self.behind.function.outputs["positive at event"]
        for name, x in zip(self.positive.at_events, outputs, strict=self.stretch.event is not None):
            if type(x) is Expr:
                functions.append((name, x))
            elif not x > 0:
                assert self.stretch.event is not None
                raise ProofError(
                    f"{name} is {x:.6g} at the event {self.stretch.event[0]} of {self.system.name}, expected "
                    "a positive number; let it return where(events.name != 0, number, 1.0)"
                )
        return functions

    def only(self, name: str, outputs: Any, part: Decided | None = None) -> Function:
        """A function with these outputs, of `within` or of another part."""
        inputs = (part or self.within).function.inputs
        return Function(name, inputs, {name: np.array(list(outputs), object)})

    @property
    def guards(self) -> Array:
        return self.within.function.outputs["guards"]

    def guard(self, name: str) -> Any:
        return self.guards[[x for x, _ in self.watched].index(name)]

    def rates_of(self, entries: Sequence[int]) -> list[Any]:
        """Rates of entries of the memory: as its flows give them, 1 for ages, and otherwise zero."""
        first = self.system.constant_memory.size
        rates = self.within.function.outputs["rates"]
        return [rates[i - first] if i >= first else float(i in self.clocks) for i in entries]

    def field(self) -> Function:
        rates = [*self.within.function.outputs["field"], *self.rates_of(self.states)]
        return self.only("field", [*rates, *[1.0] * self.driven])

    def after(self, entries: Sequence[int]) -> Function:
        """(q, v) and these entries of the memory, behind the event; of a drive also the time."""
        time = [self.behind.function.inputs["y"][-1]] * self.driven
        return self.only("jump", [*self.chosen_after(entries), *time], self.behind)

    def chosen_after(self, entries: Sequence[int]) -> list[Any]:
        y = self.behind.function.outputs["after"]
        n = self.first
        return [*y[:n], *(y[n + i] for i in entries)]

    def must_be_quiet(self) -> None:
        """ProofError where the update may change a state, or a constant of the phase, without an event."""
        n = self.first
        y = self.within.function.inputs["y"]
        memory = list(self.stretch.memory)
        wanted = {**dict(enumerate(y[:n])), **dict(zip([n + i for i in self.states], y[n:], strict=False))}
        wanted |= {n + i: memory[i] for i in self.stretch.constants}
        names = [*_names_of_motion(self.system), *self.system.memory.entries]
        for i, x in enumerate(self.within.function.outputs["quiet"]):
            if i in wanted and not (x is wanted[i] or (type(x) is float and x == wanted[i])):
                raise ProofError(
                    f"the update of {self.system.name} may change {names[i]} at the end of a step without an "
                    f"event, before {self.stretch.event}; let it return where(events.name != 0, changed, q), "
                    "or leave it alone"
                )


def _names_of_motion(system: HybridSystem) -> list[str]:
    """The names of the states (q, v)."""
    return [f"{x}[{i}]" for x, size in (("q", system.nq), ("v", system.nv)) for i in range(size)]


def _without(outputs: Array, first: int, kept: set[int]) -> None:
    """Set those entries of the memory to zero that are not kept; it begins at `first`."""
    for i in range(first, len(outputs)):
        if i - first not in kept:
            outputs[i] = 0.0


# -- memory -------------------------------------------------------------------------------------------------


def _clocks(system: HybridSystem, stretches: Sequence[SimulatedPhase], values: Array) -> list[int]:
    """The entries of the memory that an event sets to the time."""
    if not system.memory.size:
        return []
    found: set[int] = set()
    _, every = _constants_of_phases(system, stretches, values, [])
    for functions in every:
        time = functions.behind.function.inputs["t"][()]
        after = functions.behind.function.outputs["after"][functions.first :]
        found |= {i for i, x in enumerate(after) if x is time}
    return sorted(found)


def _must_ignore_the_time(functions: TracedPhase, following: Sequence[int], constants: Constants) -> None:
    """ProofError unless a timed phase depends on ages alone: derivatives by the time are zero everywhere."""
    parts = [
        functions.only(
            "within",
            [
                *functions.field().outputs["field"],
                *functions.guards,
                *functions.within.function.outputs["positive"],
            ],
        ),
        functions.only("conditions", functions.within.differences),
    ]
    if functions.stretch.event is not None:
        behind = [
            *functions.after(following).outputs["jump"],
            *functions.behind.differences,
            *functions.behind.function.outputs["positive at event"],
        ]
        parts.append(functions.only("behind", behind, functions.behind))
    for part in parts:
        known = {symbol: k for k, symbol in enumerate(part.inputs["u"].flat)}
        tape = exact_tape(part, known, constants)
        along = [Fraction(0)] * (tape.inputs - 1) + [Fraction(1)]
        if any(x != 0 for x in slopes(tape, along, constants)):
            raise ProofError(
                f"{functions.system.name} depends on the time t, and not only on how long ago the times of "
                "its memory are; give the period as a function, period=lambda p: ..., if it is driven in time"
            )


def _memory_states(
    system: HybridSystem,
    stretches: Sequence[SimulatedPhase],
    values: Array,
    clocks: Sequence[int],
    positive: PositiveFunctions,
) -> list[list[int]]:
    """The entries of the memory that are states, for each phase; constants go into the stretches."""
    size = system.memory.size
    if not size:
        return [[] for _ in stretches]
    known, every = _constants_of_phases(system, stretches, values, clocks, positive)
    for stretch, constant in zip(stretches, known, strict=True):
        stretch.constants = frozenset(constant)
    # backwards, until nothing is added: what a phase needs, and what the next one needs of it
    needed: list[set[int]] = [set() for _ in stretches]
    growing = True
    while growing:
        growing = False
        for k in reversed(range(len(every))):
            functions = every[k]
            following = (k + 1) % len(every)
            passed = [i for i in sorted(needed[following]) if i not in known[following]]
            outputs = [
                *functions.within.function.outputs["field"],
                *functions.rates_of(sorted(needed[k])),
                *functions.guards,
                *functions.within.differences,
                *functions.within.function.outputs["positive"],
            ]
            behind = [
                *functions.chosen_after(passed),
                *functions.behind.differences,
                *functions.behind.function.outputs["positive at event"],
            ]
            parts = [functions.only("within", outputs), functions.only("jump", behind, functions.behind)]
            found: set[int] = set()
            for part in parts:
                symbols = dict(zip(part.inputs["y"][functions.first :], functions.states, strict=True))
                found |= {symbols[x] for x in part.nodes if x in symbols}
            growing = growing or not found <= needed[k]
            needed[k] |= found
    return [sorted(x) for x in needed]


def _constants_of_phases(
    system: HybridSystem,
    stretches: Sequence[SimulatedPhase],
    parameters: Array,
    clocks: Sequence[int],
    positive: PositiveFunctions = NOTHING_POSITIVE,
) -> tuple[list[set[int]], list[TracedPhase]]:
    """The entries of the memory that are constants of each phase, with their values in its stretch.

    Also the functions of each phase, in which all other entries are states.
    """
    size = system.memory.size
    n = system.nq + system.nv
    first = set(range(system.constant_memory.size)) - set(clocks)
    while True:
        known = [first]
        every = []
        for k, stretch in enumerate(stretches):
            free = [i for i in range(size) if i not in known[k]]
            functions = TracedPhase(system, stretch, free, parameters, clocks=clocks, positive=positive)
            every.append(functions)
            values = functions.behind.function.outputs["after"][n:]
            constant = {
                i for i in range(system.constant_memory.size) if type(values[i]) is float and i not in clocks
            }
            if k + 1 < len(stretches):
                for i in constant:
                    stretches[k + 1].memory[i] = values[i]
            else:
                constant = {i for i in constant if values[i] == stretches[0].memory[i]}
            known.append(constant)
        # the last phase must lead to the constants of the first one
        if first <= known[-1]:
            return known[:-1], every
        first = first & known[-1]


# -- tapes --------------------------------------------------------------------------------------------------


def _phase(
    functions: TracedPhase,
    following: TracedPhase,
    constants: Constants,
    closing: tuple[Tape, int] | None,
) -> OrbitPhase:
    """The equations of a phase; closing: the section of an orbit that closes without an event."""
    system = functions.system
    functions.must_be_quiet()

    def tape(function: Function) -> Tape:
        _must_be_closed(function, system.name)
        if any(x is function.inputs["t"][()] for x in function.nodes):
            raise ProofError(
                f"{function.name} of {system.name} depends on the time t; if it is driven, give its period "
                "as a function: period=lambda p: 2 * np.pi / p.rate"
            )
        known = {symbol: k for k, symbol in enumerate(function.inputs["u"].flat)}
        return exact_tape(function, known, constants)

    field = tape(functions.field())
    guards = [
        WatchedGuard(name, direction, tape(functions.only(name, [value])))
        for (name, direction), value in zip(functions.watched, functions.guards, strict=True)
        if type(value) is Expr or (name, direction) == functions.stretch.event
    ]
    conditions = [
        WatchedGuard(f"condition {k}", 0, tape(functions.only(f"condition {k}", [value])), sign=sign)
        for k, (value, sign) in enumerate(
            zip(functions.within.differences, functions.within.signs, strict=True), 1
        )
    ]
    positive = [
        WatchedGuard(name, 0, tape(functions.only(name, [value])), sign=1, positive=True)
        for name, value in functions.positive_functions()
    ]
    watched = [*guards, *conditions, *positive]
    at_end = [
        SignAtEnd(tape(functions.only("condition at the event", [value], functions.behind)), sign)
        for value, sign in zip(functions.behind.differences, functions.behind.signs, strict=True)
    ]
    at_end += [
        SignAtEnd(tape(functions.only(name, [value], functions.behind)), 1, name)
        for name, value in functions.positive_functions_at_event()
    ]
    entries = [*system.memory.entries]
    clocks = functions.clocks
    memory = [f"since {entries[i]}" if i in clocks else entries[i] for i in functions.states]
    names = [*_names_of_motion(system), *memory, *["t"] * functions.driven]
    event = functions.stretch.event
    if event is None:
        # the section of a drive is set when the functions of all phases are known
        section, j = closing or (field, len(names) - 1)
        return OrbitPhase(names, field, section, None, None, j, watched, at_end)
    jump = tape(functions.after(following.states))
    section = tape(functions.only(event[0], [functions.guard(event[0])]))
    return OrbitPhase(names, field, section, jump, event, None, watched, at_end)


def _zero_again(before: TracedPhase, phase: TracedPhase, value: Any) -> bool:
    """Whether a guard is zero at the start of a phase, because the phase before it ended there."""
    assert before.stretch.event is not None
    guard = before.only("section", [before.guard(before.stretch.event[0])])
    after = phase.only("guard", [value])
    jump = before.after(phase.states)
    shapes = {name: before.within.function.inputs[name].shape for name in ("y", "u", "t")}

    def both(y: Array, u: Array, t: Any) -> Array:
        behind = Decided.value(jump, y, u, t)
        return np.concatenate([Decided.value(guard, y, u, t), Decided.value(after, behind, u, t)])

    first, second = trace(both, shapes, "both").outputs["both"]
    return first is second or (type(second) is float and second == 0.0)


def _refuse(orbit: PeriodicOrbit) -> None:
    """ProofError for groups that proofs do not cover yet."""
    system = orbit.system
    if system.nq != system.nv + len(system.group.quaternions):
        raise ProofError(
            f"the orbit of {system.name} cannot be proved yet: its group is {system.group}; proofs are about "
            "groups with global coordinates, such as R(n) and motions in a plane, or with unit quaternions, "
            "such as SO3 and SE3"
        )
