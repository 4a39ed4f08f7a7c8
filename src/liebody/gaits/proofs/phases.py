"""The equations of an orbit of a hybrid system: its phases, found from the system itself.

A simulation of one period gives the order of events. What holds between them follows from the system's
functions, traced for each phase:

1. Memory that is the same number at each passage, such as a flag of contact, is a constant of the phase, if
   that is consistent: with the constants of phase k, the update at its event gives a constant again, and
   after the last phase those of the first. Traces fold such constants, so that `where` of a flag is decided.
2. Other memory is a state of the phase, if it matters: if the field, a guard, or a memory of the next phase
   that matters depends on it. An anchor in flight does not, because touch-down sets it anew.
3. Between events the update must leave q, v and this memory as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from ...compiler import Constants, Expr, Function, Tape, trace
from ...hybrid import HybridSystem
from ..orbit import PeriodicOrbit
from ..segments import AT_START
from .equations import (
    ExactEquations,
    Phase,
    ProofError,
    WatchedGuard,
    exact_parameters,
    exact_tape,
    where_it_is_fast,
)
from .symmetries import symmetries_of

Array = Any
STOP = "stop"
SHORTEST = 1e-9  # a phase, over the period


@dataclass
class Stretch:
    """What a simulation says about a phase.

    event     name and direction of the event at its end; None: the orbit closes there without one
    duration  [s]
    memory    in the phase, flat
    """

    event: tuple[str, int] | None
    duration: float
    memory: list[float]


@dataclass
class Course:
    """Where an orbit starts, all states of its first phase, and how long its phases take."""

    start: Array
    durations: list[float]


def equations_of(
    orbit: PeriodicOrbit, parameters: Mapping[str, Any], rounding: float
) -> tuple[ExactEquations, Course]:
    """The equations of an orbit; ProofError for kinds of systems that cannot be proved yet."""
    system = orbit.system
    _refuse(orbit)
    constants = Constants(exact_parameters(orbit, parameters), Fraction(rounding))
    stretches = _stretches(orbit)
    states = _memory_states(system, stretches)
    functions = [
        PhaseFunctions(system, stretch, chosen) for stretch, chosen in zip(stretches, states, strict=True)
    ]
    start = np.concatenate([orbit.q, orbit.v, [stretches[0].memory[i] for i in states[0]]])
    # an orbit without a section starts where its fastest coordinate has a given value
    closing = None
    if stretches[-1].event is None:
        # ... which no symmetry moves
        still = ~np.any(orbit.shooting.symmetries, axis=0)
        rate = orbit.shot.arcs[-1].rate * np.append(still, np.ones(system.nv))
        closing = where_it_is_fast(start, np.append(rate, np.zeros(len(states[0]))), constants)
    phases = [
        _phase(functions[k], functions[(k + 1) % len(functions)], constants, closing)
        for k in range(len(functions))
    ]
    # which guards are zero behind a jump
    for k, phase in enumerate(phases):
        before = functions[k - 1]
        for guard in phase.guards:
            known_end = before.stretch.event is not None
            guard.zero_at_start = known_end and _zero_again(before, functions[k], guard.name)
    durations = [stretch.duration for stretch in stretches]
    symmetries = symmetries_of(orbit.shooting.symmetries, phases, constants)
    equations = ExactEquations(system.name, constants, phases, 2 * system.nv, symmetries)
    return equations, Course(start, durations)


# -- the order of events ------------------------------------------------------------------------------------


def _stretches(orbit: PeriodicOrbit) -> list[Stretch]:
    """The phases of a simulated period."""
    system, shooting = orbit.system, orbit.shooting
    T = orbit.period
    if not orbit.events and not system.memory.size and shooting.segments == 1:
        section = shooting.section
        event = None if section is None else (section[0], section[1] or _direction_at(orbit))
        return [Stretch(event, T, [])]
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
    stretches = [Stretch(name, b - a, z) for name, (a, b), z in zip(names, pairwise(times), memories)]
    for stretch in stretches:
        if not stretch.duration > SHORTEST * T:
            raise ProofError(
                f"two events of {system.name} happen at one time, or almost: before {stretch.event} only "
                f"{stretch.duration:.1e} s pass; proofs are about events one after the other"
            )
    return stretches


def _direction_at(orbit: PeriodicOrbit) -> int:
    """The direction of the event at the end of a simulated orbit, for guards with events in both."""
    log = orbit.shot.arcs[-1].end.log
    assert log is not None  # the orbit has a section
    return int(log.direction[0])


# -- functions of a phase -----------------------------------------------------------------------------------


class PhaseFunctions:
    """The functions of a system in a phase, traced with the memory of the phase.

    memory  numbers of the stretch for all entries, but for those that are `states` here
    states  entries of the flat memory that are states, behind (q, v)
    """

    def __init__(self, system: HybridSystem, stretch: Stretch, states: Sequence[int]) -> None:
        self.system = system
        self.stretch = stretch
        self.states = list(states)
        n = system.nv
        shapes: dict[str, Any] = {"y": 2 * n + len(self.states), "u": system.parameters.size, "t": ()}
        self.watched = [*zip(system.guard_names, system.directions, strict=True)]
        if system.stop is not None:
            self.watched.append((STOP, 1))
        event = [0.0] * len(system.guard_names)
        if stretch.event is not None:
            event[system.guard_names.index(stretch.event[0])] = float(stretch.event[1])

        def functions(y: Array, u: Array, t: Any) -> dict[str, Array]:
            z = np.array(stretch.memory, object)
            z[self.states] = y[2 * n :]
            arguments = t, y[:n], y[n : 2 * n], system.memory.read(z), system.parameters.read(u)
            rates = system.rates(*arguments) if system.rates else {}
            guards = list(system.guard_values(arguments)) if system.guard_names else []
            if system.stop is not None:
                guards.append(system.stop(*arguments))
            return {
                "field": np.concatenate([arguments[2], np.asarray(system.vector_field(*arguments))]),
                "rates": system.flowing_memory.write([rates[x] for x in system.flowing_memory.defaults]),
                "guards": np.array(guards, object),
                "quiet": self._after(arguments, [0.0] * len(event)),
                "after": self._after(arguments, event),
            }

        self.traced = trace(functions, shapes, system.name)

    def _after(self, arguments: tuple[Any, ...], events: list[float]) -> Array:
        """q, v and the flat memory after the update."""
        q, v, z, _ = self.system.after_update(arguments, events)
        return np.concatenate([q, v, self.system.memory.write(z)])

    def only(self, name: str, outputs: Any) -> Function:
        """A function with these outputs."""
        traced = self.traced
        return Function(name, traced.inputs, {name: np.array(list(outputs), object)})

    @property
    def guards(self) -> Array:
        return self.traced.outputs["guards"]

    def guard(self, name: str) -> Any:
        return self.guards[[x for x, _ in self.watched].index(name)]

    def rates_of(self, entries: Sequence[int]) -> list[Any]:
        """Rates of entries of the memory: those of flows, and zero."""
        first = self.system.constant_memory.size
        rates = self.traced.outputs["rates"]
        return [rates[i - first] if i >= first else 0.0 for i in entries]

    def field(self) -> Function:
        return self.only("field", [*self.traced.outputs["field"], *self.rates_of(self.states)])

    def after(self, entries: Sequence[int]) -> Function:
        """(q, v) and these entries of the memory, behind the event."""
        return self.only("jump", self.chosen("after", entries))

    def chosen(self, name: str, entries: Sequence[int]) -> list[Any]:
        """(q, v) and these entries of the memory in an output "quiet" or "after"."""
        y = self.traced.outputs[name]
        n = 2 * self.system.nv
        return [*y[:n], *(y[n + i] for i in entries)]

    def must_be_quiet(self) -> None:
        """ProofError where the update may change a state without an event."""
        y = self.traced.inputs["y"]
        for symbol, x in zip(y, self.chosen("quiet", self.states), strict=True):
            if x is not symbol:
                raise ProofError(
                    f"the update of {self.system.name} may change q, v or memory at the end of a step "
                    "without an event; let it return where(events.name != 0, changed, q), or leave it alone"
                )


# -- memory -------------------------------------------------------------------------------------------------


def _memory_states(system: HybridSystem, stretches: Sequence[Stretch]) -> list[list[int]]:
    """The entries of the memory that are states, for each phase; constants go into the stretches."""
    size = system.memory.size
    if not size:
        return [[] for _ in stretches]
    known = _constants_of_phases(system, stretches)
    every = [
        PhaseFunctions(system, stretch, [i for i in range(size) if i not in constant])
        for stretch, constant in zip(stretches, known, strict=True)
    ]
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
                *functions.traced.outputs["field"],
                *functions.rates_of(sorted(needed[k])),
                *functions.guards,
                *functions.chosen("after", passed),
            ]
            symbols = dict(zip(functions.traced.inputs["y"][2 * system.nv :], functions.states, strict=True))
            found = {symbols[x] for x in functions.only("needed", outputs).nodes if x in symbols}
            growing = growing or not found <= needed[k]
            needed[k] |= found
    return [sorted(x) for x in needed]


def _constants_of_phases(system: HybridSystem, stretches: Sequence[Stretch]) -> list[set[int]]:
    """The entries of the memory that are constants of each phase, with their values in its stretch."""
    size = system.memory.size
    n = 2 * system.nv
    first = set(range(system.constant_memory.size))
    while True:
        known = [first]
        for k, stretch in enumerate(stretches):
            functions = PhaseFunctions(system, stretch, [i for i in range(size) if i not in known[k]])
            values = functions.traced.outputs["after"][n:]
            constant = {i for i in range(system.constant_memory.size) if type(values[i]) is float}
            if k + 1 < len(stretches):
                for i in constant:
                    stretches[k + 1].memory[i] = values[i]
            else:
                constant = {i for i in constant if values[i] == stretches[0].memory[i]}
            known.append(constant)
        # the last phase must lead to the constants of the first one
        if first <= known[-1]:
            return known[:-1]
        first = first & known[-1]


# -- tapes --------------------------------------------------------------------------------------------------


def _phase(
    functions: PhaseFunctions,
    following: PhaseFunctions,
    constants: Constants,
    closing: tuple[Tape, int] | None,
) -> Phase:
    """The equations of a phase; closing: the section of an orbit that closes without an event."""
    system = functions.system
    functions.must_be_quiet()
    symbols = functions.traced.inputs
    known = {symbol: k for k, symbol in enumerate(symbols["u"].flat)}
    time = symbols["t"][()]

    def tape(function: Function) -> Tape:
        if any(x is time for x in function.nodes):
            raise ProofError(
                f"{function.name} of {system.name} depends on the time t; proofs are about equations that "
                "do not: make the phase of the drive a coordinate"
            )
        return exact_tape(function, known, constants)

    field = tape(functions.field())
    guards = [
        WatchedGuard(name, direction, tape(functions.only(name, [value])))
        for (name, direction), value in zip(functions.watched, functions.guards, strict=True)
        if type(value) is Expr or (name, direction) == functions.stretch.event
    ]
    symbol_names = [f"{symbol}[{i}]" for symbol in "qv" for i in range(system.nv)]
    entries = [*system.memory.entries]
    names = [*symbol_names, *(entries[i] for i in functions.states)]
    event = functions.stretch.event
    if event is None:
        assert closing is not None
        section, j = closing
        return Phase(names, field, section, None, None, j, guards)
    jump = tape(functions.after(following.states))
    section = tape(functions.only(event[0], [functions.guard(event[0])]))
    return Phase(names, field, section, jump, event, None, guards)


def _zero_again(before: PhaseFunctions, phase: PhaseFunctions, name: str) -> bool:
    """Whether a guard is zero at the start of a phase, because the phase before it ended there."""
    assert before.stretch.event is not None
    guard = before.only("section", [before.guard(before.stretch.event[0])])
    after = phase.only("guard", [phase.guard(name)])
    jump = before.after(phase.states)
    shapes = {name: symbols.shape for name, symbols in before.traced.inputs.items()}

    def both(y: Array, u: Array, t: Any) -> Array:
        return np.concatenate([guard(y, u, t), after(jump(y, u, t), u, t)])

    first, second = trace(both, shapes, "both").outputs["both"]
    return first is second or (type(second) is float and second == 0.0)


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
        "its period is given by a function, as of a drive": shooting.known_period is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ProofError(f"the orbit of {system.name} cannot be proved yet: {reason}")
