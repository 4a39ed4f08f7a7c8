"""Shooting: the equations of a periodic orbit, with their derivatives through the hybrid flow.

An orbit is cut into segments i = 0 ... m-1 that start at nodes y_i = (q_i, v_i). With the flow phi, its
unknowns are the nodes, the period T, the shift s along symmetries, and parameters p:

    q: log((q_i+1)^-1 phi_q(y_i)) = 0,    v: phi_v(y_i) - v_i+1 = 0,     y_m = h(s) y_0,  h(s) = exp(s_j xi_j)

A segment ends at its part of the period, or where it returns to a section, whose time follows from the start.
Derivatives are those of the flow, saltation at events included (`systems.VariedSystem`), or differences.
Newton's method takes the smallest change that solves the linear equations, so that neither the place along
the orbit nor that along a symmetry has to be fixed by a condition (Deuflhard 1984).

Stoer, Bulirsch (2002), section 7.3.5; Marsden, Montgomery, Ratiu (1990), relative equilibria and orbits;
Leine, Nijmeijer (2004), chapter 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..codegen import Kernel, jvp, trace
from ..door import count
from ..errors import ConfigurationError, IntegrationError, ModelError, ShapeError, positive
from ..linear import solve
from ..systems import EventLog, HybridRun, HybridSystem, VariedSystem
from ..systems.in_place import changed
from .section import QUIET, from_section, varied

Array = Any
Events = tuple[tuple[str, int], ...]
RANK = 1e-9  # singular values below this share of the largest one count as zero
AT_START = 1e-2  # events of the section before this share of the time belong to the start
LONGEST = 2.0  # step, over the unit, next to a known orbit
PATIENCE = 3  # how often the residual may grow, as where an event comes or goes
TRIALS = (1.0, 0.5, 0.25, 0.1, 0.03)  # parts of Newton's step that are tried


class GaitError(IntegrationError):
    """A periodic orbit that is not found: the message says what happens instead."""


@dataclass(frozen=True)
class FlowOptions:
    """How segments are simulated: options of `HybridSystem.simulate`, such as dt and method.

    difference  None: derivatives through the flow; else the step of central differences, over the scale
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    difference: float | None = None


@dataclass(frozen=True)
class Point:
    """Values of the unknowns: nodes q (m, nq), v (m, nv), period, shift (k,), all parameters by name."""

    q: Array
    v: Array
    period: float
    shift: Array
    parameters: dict[str, Any]


class End(NamedTuple):
    """Where a motion ends: state, time, events on the way, the event of the section.

    cause   why it ended before; "" where it only did not return
    """

    q: Array
    v: Array
    time: float
    events: Events
    log: EventLog | None
    reached: bool
    cause: str


@dataclass(frozen=True)
class Arc:
    """Where a segment leads, and the derivatives by its node and the unknown parameters.

    q, v      its end
    D         of (q, v), (2 nv, 2 nv + p): on the section, or at a fixed time
    time      how long it takes [s]; late: its derivatives (2 nv + p,), zero at a fixed time
    rate      of the state at its end, (2 nv,)
    events    guards and directions, in their order
    """

    q: Array
    v: Array
    D: Array
    time: float
    late: Array
    rate: Array
    events: Events


@dataclass(frozen=True)
class Shot:
    """The equations at a point: residual r over the scale, Jacobian dr by the scaled unknowns, segments."""

    residual: Array
    jacobian: Array
    segments: list[Arc]

    @property
    def size(self) -> float:
        return float(np.abs(self.residual).max(initial=0.0))


class Shooting:
    """The equations of a periodic orbit of a system; the arguments are those of `periodic_orbit`."""

    def __init__(
        self,
        system: HybridSystem,
        *,
        section: str | tuple[str, int] | None = None,
        segments: int = 1,
        symmetries: Any = (),
        unknowns: Sequence[str] = (),
        conditions: Callable[..., Any] | None = None,
        known_period: Callable[..., Any] | None = None,
        scale: Any = 1.0,
        sizes: Mapping[str, float] | None = None,
        simulation: FlowOptions | None = None,
    ) -> None:
        nv = system.nv
        self.system, self.segments, self.conditions = system, count("segments", segments), conditions
        self.section = _section(system, section)
        self.symmetries = _symmetries(system, symmetries)
        self.unknowns, self.known_period = tuple(unknowns), known_period
        self.sizes, self.simulation = dict(sizes or {}), simulation or FlowOptions()
        try:
            self.scale = np.broadcast_to(np.asarray(scale, float), (2 * nv,)).copy()
        except ValueError:
            raise ShapeError(f"scale is {scale!r}, expected a number or ({2 * nv},), for (q, v)") from None
        if not (self.scale > 0).all():
            raise ConfigurationError(f"scale is {scale!r}, expected positive numbers")
        if self.simulation.difference is not None:
            positive("difference", self.simulation.difference)
        if self.section and known_period:
            raise ConfigurationError("a section gives the period; leave the section or the function out")
        if segments > 1 and not self.section and system.memory.size:
            raise ConfigurationError(
                f"{system.name} has memory: what it remembers within a stride is not known to a segment that "
                "starts there. Give a section, at which segments end, or segments=1"
            )
        self.columns = 2 * nv + sum(self._layout(name).size for name in self.unknowns)

    def _layout(self, name: str) -> Any:
        defaults = self.system.parameters.defaults
        if name not in defaults:
            names = ", ".join(defaults) or "none"
            raise ModelError(f"there is no parameter {name!r}; there are {names}")
        return defaults[name]

    def with_unknowns(self, names: Sequence[str], **sizes: float) -> Shooting:
        """The same equations, with these parameters as unknowns; sizes: what is small, of some of them."""
        return self._changed(unknowns=tuple(names), sizes={**self.sizes, **sizes})

    def doubled(self) -> Shooting:
        """The equations of orbits that close after twice the time."""
        period = self.known_period
        twice = None if period is None else lambda p: 2 * period(p)
        return self._changed(segments=2 * self.segments, known_period=twice)

    def _changed(self, **changes: Any) -> Shooting:
        return type(self)(self.system, **{**self.arguments(), **changes})

    def arguments(self) -> dict[str, Any]:
        """What it was made of, but for the system."""
        return {
            "section": self.section, "segments": self.segments, "symmetries": self.symmetries,
            "unknowns": self.unknowns, "conditions": self.conditions, "known_period": self.known_period,
            "scale": self.scale, "sizes": self.sizes, "simulation": self.simulation,
        }  # fmt: skip

    # -- one simulation of all segments ---------------------------------------------------------------------

    @cached_property
    def motion(self) -> HybridSystem:
        """The system, in which events of the section do nothing just after the start."""
        return from_section(self.system, self.section[0]) if self.section else self.system

    @cached_property
    def _varied(self) -> VariedSystem:
        return varied(self.motion, self.unknowns)

    @property
    def flow(self) -> HybridSystem:
        """The system that shooting simulates: a motion of it needs nothing else to be compiled."""
        return self._varied if self.simulation.difference is None else self.motion

    def options(self, parameters: Mapping[str, Any], time: float) -> dict[str, Any]:
        """Of simulations of `motion` from the section, to which it returns after some time."""
        quiet = {QUIET: AT_START * time} if self.section else {}
        return {**self.simulation.options, "parameters": {**parameters, **quiet}}

    def simulate(self, at: Point) -> list[Arc]:
        """All segments, as one ensemble; GaitError where one does not get to its end."""
        time = self.period_of(at) / self.segments
        if not time > 0:
            raise GaitError(f"the period becomes {self.segments * time:.3g} s; start nearer to the orbit")
        if self.simulation.difference is not None:
            return self._by_differences(at, time)
        flow, segments = self._varied, []
        run, ends = self.arrive(flow, at.q, at.v, at.parameters, time)
        for i, end in enumerate(ends):
            if end.log is None:
                D, late = flow.derivatives(run)[i, -1], np.zeros(self.columns)
                rate = flow.state_rates(run.final, at.parameters)[i]
            else:
                D, late = flow.on_section(end.log, at.parameters)[0], flow.delays(end.log)[0]
                rate = flow.state_rates(end.log, at.parameters)[0]
            segments.append(Arc(end.q, end.v, D, end.time, late, rate, end.events))
        return segments

    def arrive(
        self, system: HybridSystem, q: Array, v: Array, parameters: Mapping[str, Any], time: float
    ) -> tuple[HybridRun, list[End]]:
        """Motions from several starts to where each returns to the section, or for this time.

        GaitError where one of them does not.
        """
        run, ends = self.reach(system, q, v, parameters, time)
        for i, end in enumerate(ends):
            if not end.reached:
                raise GaitError(self._lost(i, end))
        return run, ends

    def reach(
        self, system: HybridSystem, q: Array, v: Array, parameters: Mapping[str, Any], time: float
    ) -> tuple[HybridRun, list[End]]:
        """The same, whether they get there or not.

        Those that are late, and go on, are simulated once more, for longer.
        """
        t_end = (1.3 if self.section else 1.0) * time
        run = system.simulate(q, v, t_end=t_end, record_every=t_end, **self.options(parameters, time))
        ends = self._ends(run, t_end, time)
        late = [i for i, end in enumerate(ends) if self.section and not end.reached and not end.cause]
        if late:
            defaults, t_end = system.parameters.defaults, 4.0 * time
            given = {
                name: np.asarray(x)[late] if np.ndim(x) > defaults[name].ndim else x
                for name, x in parameters.items()
            }
            after = system.simulate(
                np.asarray(q)[late], np.asarray(v)[late], t_end=t_end, record_every=t_end,
                **self.options(given, time),
            )  # fmt: skip
            for i, end in zip(late, self._ends(after, t_end, time), strict=True):
                ends[i] = end
        return run, ends

    def _ends(self, run: HybridRun, t_end: float, time: float) -> list[End]:
        ends = []
        for i, log in enumerate(run.events):
            events, back = self._return(log, time)
            cause = str(run.ends[i])
            if back is not None:
                ends.append(End(back.q[0], back.v[0], float(back.t[0]), events, back, True, ""))
                continue
            reached, until = not self.section and not cause, float(run.end_times[i]) if cause else t_end
            ends.append(End(run.final.q[i], run.final.v[i], until, events, None, reached, cause))
        return ends

    def _return(self, log: EventLog, time: float) -> tuple[Events, EventLog | None]:
        """Events until the section is met again; a start on the section is not a return."""
        until, back = len(log), None
        for i, event in enumerate(zip(log.guard, log.direction.tolist(), strict=True)):
            if self.at_section(*event) and log.t[i] > time / 2:
                until, back = i, log.where(slice(i, i + 1))
                break
        names = zip(log.guard[:until], log.direction[:until].tolist(), log.t[:until], strict=True)
        start = AT_START * time
        return tuple((x, k) for x, k, t in names if t > start or not self.at_section(x, k)), back

    def at_section(self, guard: str, direction: int) -> bool:
        """Whether an event is one of the section."""
        return self.section is not None and guard == self.section[0] and self.section[1] in (0, direction)

    def _lost(self, i: int, end: End) -> str:
        where = f"segment {i + 1} of {self.segments}: " if self.segments > 1 else ""
        if end.cause:
            what = f"the motion ended at t = {end.time:.6g} s, before it closed: {end.cause}"
        else:
            section = named([self.section] if self.section else [])
            what = f"it does not return to {section} within {end.time:.4g} s"
        return f"{where}{what}; events on the way: {named(end.events)}. Start nearer to the orbit"

    def _by_differences(self, at: Point, time: float) -> list[Arc]:
        """Derivatives of segments as central differences, all starts in one run."""
        group, nv, h = self.system.group, self.system.nv, self.simulation.difference or 0.0
        steps = h * np.concatenate([self.scale, self._sizes(at)])
        n, moves = 1 + 2 * self.columns, np.kron(np.diag(steps), [[1], [-1]])
        segments = []
        for q0, v0 in zip(at.q, at.v, strict=True):
            q = [q0, *(np.asarray(group.integrate(q0, m[:nv]), float) for m in moves)]
            v = [v0, *(v0 + moves[:, nv : 2 * nv])]
            given, first = dict(at.parameters), 2 * nv
            for name in self.unknowns:
                value = np.asarray(given[name], float)
                change = moves[:, first : first + value.size].reshape(n - 1, *value.shape)
                given[name] = np.concatenate([value[None], value + change])
                first += value.size
            run, ends = self.arrive(self.motion, np.stack(q), np.stack(v), given, time)
            q1, v1, t1, events, log, *_ = ends[0]
            y = np.stack([np.concatenate([group.difference(q1, x.q), x.v - v1, [x.time]]) for x in ends])
            slopes = ((y[1::2] - y[2::2]) / (2 * steps[:, None])).T
            states = run.final if log is None else log
            rate = varied(self.motion, ()).state_rates(states, at.parameters).reshape(-1, 2 * nv)[0]
            segments.append(Arc(q1, v1, slopes[:-1], t1, slopes[-1], rate, events))
        return segments

    def period_of(self, at: Point) -> float:
        if self.known_period is None:
            return at.period
        p = self.system.parameters
        return float(self.known_period(p.read(p.values(at.parameters, ()))))

    # -- unknowns -------------------------------------------------------------------------------------------

    @property
    def free_period(self) -> bool:
        return self.section is None and self.known_period is None

    @property
    def size(self) -> int:
        """How many unknowns there are: nodes, period if it is free, shift, parameters."""
        nv = self.system.nv
        return self.segments * 2 * nv + self.free_period + len(self.symmetries) + self.columns - 2 * nv

    def unit(self, at: Point) -> Array:
        """By what unknowns are scaled: `scale`, the period, one, the sizes of the parameters."""
        T = [at.period] if self.free_period else []
        nodes = np.tile(self.scale, self.segments)
        return np.concatenate([nodes, T, np.ones(len(self.symmetries)), self._sizes(at)])

    def _sizes(self, at: Point) -> Array:
        """Of the unknown parameters: what is given, or a tenth of them, or of one for those that are zero."""
        found = [np.zeros(0)]
        for name in self.unknowns:
            p = np.abs(np.ravel(at.parameters[name]))
            usual = np.where(p > 0, p, 1) / 10
            found.append(np.full(p.shape, self.sizes[name]) if name in self.sizes else usual)
        return np.concatenate(found)

    def _split(self, x: Array) -> tuple[Array, float, Array, Array]:
        """Nodes (m, 2 nv), period, shift, parameters of a vector of unknowns."""
        nodes = self.segments * 2 * self.system.nv
        T = nodes + self.free_period
        s = T + len(self.symmetries)
        return x[:nodes].reshape(self.segments, -1), float(x[nodes:T].sum()), x[T:s], x[s:]

    def moved(self, at: Point, x: Array) -> Point:
        """The point, moved by x times the unit."""
        nv, group = self.system.nv, self.system.group
        nodes, T, s, p = self._split(x * self.unit(at))
        q = [np.asarray(group.integrate(a, b[:nv]), float) for a, b in zip(at.q, nodes, strict=True)]
        parameters, first = dict(at.parameters), 0
        for name in self.unknowns:
            value = np.asarray(parameters[name], float)
            parameters[name] = (value + p[first : first + value.size].reshape(value.shape))[()]
            first += value.size
        return Point(np.stack(q), at.v + nodes[:, nv:], at.period + T, at.shift + s, parameters)

    def between(self, a: Point, b: Point) -> Array:
        """The x with b = moved(a, x)."""
        group = self.system.group
        nodes = [
            np.concatenate([np.asarray(group.difference(q, r), float), w - v])
            for q, r, v, w in zip(a.q, b.q, a.v, b.v, strict=True)
        ]
        T = [b.period - a.period] if self.free_period else []
        p = [np.ravel(np.subtract(b.parameters[name], a.parameters[name])) for name in self.unknowns]
        return np.concatenate([*nodes, T, b.shift - a.shift, *p]) / self.unit(a)

    def phases(self, at: Point, shot: Shot) -> Array:
        """Rows (n, size) of changes that only move an orbit along itself or its symmetries."""
        moves = [self.along_symmetries(at.q[0])]
        if self.free_period:
            moves.append(shot.segments[-1].rate[:, None])
        rows = (np.concatenate(moves, axis=1) / self.scale[:, None]).T
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.concatenate([rows, np.zeros((len(rows), self.size - rows.shape[1]))], axis=1)

    # -- the equations --------------------------------------------------------------------------------------

    def shifted(self, q: Array, s: Array) -> Array:
        """h(s) q = q exp(Ad(q^-1) xi s)."""
        group = self.system.group
        if not len(self.symmetries):
            return np.asarray(q)
        inverse = group.Ad(group.inverse(group.element(q)))
        return np.asarray(group.integrate(q, inverse @ (s @ self.symmetries)))

    def nearest_shift(self, q0: Array, q: Array) -> tuple[Array, Array]:
        """(s, log((h(s) q0)^-1 q)), with that logarithm orthogonal to the symmetries: q without its place."""
        s = np.zeros(len(self.symmetries))
        for _ in range(20):
            s, e, change = self._nearer(q0, q, s)
            if np.abs(change).max(initial=0.0) <= 1e-14 * (1 + np.abs(s).max(initial=0.0)):
                break
        return s, e

    def _nearer(self, q0: Array, q: Array, s: Array) -> tuple[Array, Array, Array]:
        """A step of Newton's method towards the nearest shift: s after it, the logarithm before it, ds."""
        group, xi = self.system.group, self.symmetries.T
        e = np.asarray(group.difference(self.shifted(q0, s), q))
        if not len(s):
            return s, e, s
        inverse = group.Ad(group.inverse(group.element(q0)))
        A = inverse @ xi
        slope = A.T @ group.dexp_inverse(e) @ inverse @ group.dexp(-(s @ self.symmetries)) @ xi
        change = solve(slope.T @ slope, slope.T @ (A.T @ e))
        return s + change, e, change

    def away(self, q0: Array, v0: Array, q: Array, v: Array) -> Array:
        """How far a state is from another, (2 nv,), symmetries left out; also of symbols.

        Three steps of Newton's method: along a translation the first one is exact.
        """
        s = np.zeros(len(self.symmetries), int)
        for _ in range(3 * (len(s) > 0)):
            s, _, _ = self._nearer(q0, q, s)
        return np.concatenate([self.system.group.difference(self.shifted(q0, s), q), v - v0])

    def along_symmetries(self, q: Array) -> Array:
        """How a state moves along each symmetry: Ad(q^-1) xi_j, (2 nv, k)."""
        group, nv = self.system.group, self.system.nv
        eta = np.asarray(group.Ad(group.inverse(group.element(q))), float) @ self.symmetries.T
        return np.concatenate([eta, np.zeros((nv, len(self.symmetries)))])

    def shoot(self, at: Point) -> Shot:
        """The equations at a point."""
        return self._shot(at, self.simulate(at))

    def _shot(self, at: Point, segments: list[Arc]) -> Shot:
        group, nv, m = self.system.group, self.system.nv, self.segments
        nodes = m * 2 * nv
        T, s = nodes + self.free_period, nodes + self.free_period + len(self.symmetries)
        r, J = np.zeros(nodes), np.zeros((nodes, self.size))
        targets = [*zip(at.q[1:], at.v[1:], strict=True), (self.shifted(at.q[0], at.shift), at.v[0])]
        for i, (segment, (q, v)) in enumerate(zip(segments, targets, strict=True)):
            row, node = slice(2 * nv * i, 2 * nv * (i + 1)), 2 * nv * ((i + 1) % m)
            e = np.asarray(group.difference(q, segment.q), float)
            r[row] = np.concatenate([e, segment.v - v])
            end, target = np.eye(2 * nv), np.eye(2 * nv)  # d log(a^-1 b), by b and by a
            end[:nv, :nv], target[:nv, :nv] = group.dexp_inverse(-e), group.dexp_inverse(e)
            J[row, 2 * nv * i : 2 * nv * (i + 1)] += end @ segment.D[:, : 2 * nv]
            J[row, node : node + 2 * nv] -= target
            J[row, s:] += end @ segment.D[:, 2 * nv :]
            if self.free_period:
                J[row, nodes] += end @ segment.rate / m
            if self.known_period:
                J[row, s:] += np.outer(end @ segment.rate, self._period_by(at) / m)
            if i == m - 1 and len(self.symmetries):
                inverse = group.Ad(group.inverse(group.element(at.q[0])))
                turn = group.dexp(-(at.shift @ self.symmetries)) @ self.symmetries.T
                J[row, T:s] -= target[:, :nv] @ inverse @ turn
        r = r / np.tile(self.scale, m)
        J = J / np.tile(self.scale, m)[:, None]
        if self.conditions is not None:
            more, slopes = self._conditions(at, segments)
            r, J = np.concatenate([r, more]), np.concatenate([J, slopes])
        return Shot(r, J * self.unit(at), segments)

    def _flat(self, at: Point) -> Array:
        return self.system.parameters.values(at.parameters, ())

    def _period_by(self, at: Point) -> Array:
        """The derivative of the known period by the unknown parameters."""
        return self._known_period_by(self._flat(at), np.eye(self.columns)[2 * self.system.nv :]).reshape(-1)

    @property
    def _fields(self) -> list[str]:
        """The unknown parameters, as functions of the system call them."""
        return [self.system.parameters.fields[name] for name in self.unknowns]

    @cached_property
    def _known_period_by(self) -> Kernel:
        parameters, known, names = self.system.parameters, self.known_period, self._fields
        assert known is not None

        def period(u: Array, x: Array) -> Array:
            return np.asarray(known(changed(parameters.read(u), names, x[2 * self.system.nv :])))[()]

        return _derivative(period, {"u": parameters.size}, self.columns)

    @cached_property
    def _condition_kernels(self) -> tuple[Kernel, Kernel]:
        """The user's conditions, and their derivatives along (q, v, T, s, p)."""
        system, k = self.system, len(self.symmetries)
        nv, parameters, conditions = system.nv, system.parameters, self.conditions
        assert conditions is not None
        shapes: dict[str, Any] = {"q": system.nq, "v": nv, "T": (), "s": k, "u": parameters.size}

        def of(q: Array, v: Array, T: Any, s: Array, u: Array, x: Array) -> Array:
            p = changed(parameters.read(u), self._fields, x[2 * nv + 1 + k :])
            q, v = system.group.integrate(q, x[:nv]), v + x[nv : 2 * nv]
            found = conditions(q, v, T + x[2 * nv], s + x[2 * nv + 1 : 2 * nv + 1 + k], p)
            return np.reshape(np.asarray(found), -1)

        size = self.columns + 1 + k

        def plain(q: Array, v: Array, T: Any, s: Array, u: Array) -> Array:
            return of(q, v, T, s, u, np.zeros(size))

        return Kernel(trace(plain, shapes, "conditions")), _derivative(of, shapes, size)

    def _conditions(self, at: Point, segments: list[Arc]) -> tuple[Array, Array]:
        value, slope = self._condition_kernels
        nv, k, m = self.system.nv, len(self.symmetries), self.segments
        period = sum(segment.time for segment in segments)
        given = at.q[0], at.v[0], np.array(period), at.shift, self._flat(at)
        r = np.atleast_1d(value(*given))
        by = slope(*(np.broadcast_to(x, (self.columns + 1 + k, *np.shape(x))) for x in given),
                   np.eye(self.columns + 1 + k)).reshape(-1, len(r)).T  # fmt: skip
        J = np.zeros((len(r), self.size))
        first, p = m * 2 * nv + self.free_period, m * 2 * nv + self.free_period + k
        J[:, : 2 * nv], J[:, first:] = by[:, : 2 * nv], by[:, 2 * nv + 1 :]
        by_period = by[:, 2 * nv]
        if self.free_period:
            J[:, m * 2 * nv] += by_period
        for i, segment in enumerate(segments):
            J[:, 2 * nv * i : 2 * nv * (i + 1)] += np.outer(by_period, segment.late[: 2 * nv])
            J[:, p:] += np.outer(by_period, segment.late[2 * nv :])
        if self.known_period:
            J[:, p:] += np.outer(by_period, self._period_by(at))
        return r, J

    # -- Newton's method ------------------------------------------------------------------------------------

    def solve(
        self, at: Point, tolerance: float, tries: int, rows: Array | None = None
    ) -> tuple[Point, Shot, int]:
        """The solution next to a point, the equations there, and how many steps it took.

        rows   (n, size): changes, over the unit, are orthogonal to these; without them, they are the smallest
        """
        shot = first = self.shoot(at)
        patience = PATIENCE
        for step in range(tries):
            at = self._with_period(at, shot)
            if shot.size < tolerance:
                return at, shot, step
            A, b = shot.jacobian, -shot.residual
            if rows is not None:
                A, b = np.concatenate([A, rows]), np.concatenate([b, np.zeros(len(rows))])
            change = np.linalg.lstsq(A, b, rcond=RANK)[0]
            if rows is not None:  # next to a known orbit: also over corners, where residuals grow
                at = self.moved(at, change / max(1.0, np.abs(change).max() / LONGEST))
                shot = self.shoot(at)
                continue
            new, found = self._tried(at, shot, change, tolerance)
            if found.size > shot.size and (patience := patience - 1) < 0:
                why = self._why(shot.segments, found.segments)
                raise GaitError(f"no orbit: the residual stays at {shot.size:.1e}. {why}")
            at, shot = new, found
        if shot.size < tolerance:
            return self._with_period(at, shot), shot, tries
        raise GaitError(
            f"no orbit: after {tries} steps of Newton's method the residual is {shot.size:.1e}. "
            f"{self._why(first.segments, shot.segments)}"
        )

    def _tried(self, at: Point, shot: Shot, change: Array, tolerance: float) -> tuple[Point, Shot]:
        """The point after as much of a change as makes the residual smaller, or else the best one tried."""
        problem, tried = None, []
        for part in TRIALS:
            try:
                new = self.moved(at, part * change)
                found = self.shoot(new)
            except GaitError as error:
                problem = error
                continue
            if found.size < max((1 - part / 4) * shot.size, tolerance):
                return new, found
            tried.append((new, found))
        if not tried:
            raise GaitError(f"no orbit: {problem}")
        return min(tried, key=lambda x: x[1].size)

    def _why(self, before: list[Arc], after: list[Arc]) -> str:
        """Why Newton's method cannot go on."""
        for a, b in zip(before, after, strict=True):
            if a.events != b.events:
                return (
                    f"The events change: {named(a.events)} against {named(b.events)}. There the equations "
                    "have a corner, and an orbit may end: grazing, or events that change places"
                )
        return "Start nearer to an orbit, let a parameter be unknown, or give tolerance if this is small"

    def _with_period(self, at: Point, shot: Shot) -> Point:
        return at if self.free_period else replace(at, period=sum(segment.time for segment in shot.segments))


def named(events: Sequence[tuple[str, int]]) -> str:
    """Events in words: a sign says in which direction a guard changed."""
    signs = {1: "+", -1: "-", 0: ""}
    shown = [f"{name}{signs[sign]}" for name, sign in events]
    if len(shown) > 12:
        shown = [*shown[:6], f"... {len(shown) - 12} more ...", *shown[-6:]]
    return ", ".join(shown) or "none"


def _derivative(function: Callable[..., Array], shapes: Mapping[str, Any], size: int) -> Kernel:
    """The derivative of function(..., x) at x = 0 along a direction of this size."""
    along = jvp(trace(function, {**shapes, "x": size}, "of"), "x")

    def derivative(*given: Any) -> Array:
        return along(*given[:-1], np.zeros(size), given[-1])

    return Kernel(trace(derivative, {**shapes, "x": size}, "derivative"))


def _section(system: HybridSystem, section: Any) -> tuple[str, int] | None:
    if section is None:
        return None
    guard, direction = section if isinstance(section, tuple | list) and len(section) == 2 else (section, None)
    if guard not in system.guard_names:
        names = ", ".join(system.guard_names) or "none"
        raise ModelError(f"section: there is no guard {guard!r}; there are {names}")
    if direction is None:
        direction = system.directions[system.guard_names.index(guard)]
    return guard, int(direction)


def _symmetries(system: HybridSystem, given: Any) -> np.ndarray:
    """The algebra vectors (k, nv), which must span a subalgebra."""
    xi, nv = np.asarray(given, float), system.nv
    xi = xi.reshape(0, nv) if xi.size == 0 else np.atleast_2d(xi)
    if xi.ndim != 2 or xi.shape[1] != nv:
        raise ShapeError(f"symmetries have shape {xi.shape}, expected algebra vectors (k, {nv})")
    rank = np.linalg.matrix_rank(xi) if len(xi) else 0
    if rank < len(xi):
        raise ModelError("symmetries: one follows from the others; leave it out")
    for a in xi:
        for b in xi:
            bracket = np.asarray(system.group.ad(a) @ b, float)
            if np.linalg.matrix_rank(np.vstack([xi, bracket]), tol=1e-9) > rank:
                raise ModelError(
                    f"symmetries are no subgroup: the bracket of {a} and {b} is {bracket}; add it"
                )
    return xi
