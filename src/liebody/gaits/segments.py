"""Segments of an orbit, simulated as one ensemble, with derivatives of their ends through the hybrid flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import count, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError, IntegrationError, ModelError, ShapeError, known, positive
from ..hybrid import HybridSystem, VariedSystem, with_changes
from ..runs import EventLog, HybridRun
from .section import QUIET, from_section, varied

Array = Any
Events = tuple[tuple[str, int], ...]
LATEST = 4.0  # returns that take this many times as long as the guess come too late
AT_START = 1e-2  # events of the section before this share of the time belong to the start


class GaitError(IntegrationError):
    """No periodic orbit is found: the message says where the motion goes instead."""


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


class _Starts(NamedTuple):
    """States q (n, nq), v (n, nv) from which segments are simulated for about one time.

    parameters  values by name, shared or with a leading axis (n,)
    """

    q: Array
    v: Array
    parameters: Mapping[str, Any]
    time: float


class Arc(NamedTuple):
    """Where a segment leads, and the derivatives of its end by its node and the unknown parameters.

    D     of (q, v), (2 nv, 2 nv + p): on the section, or at a fixed time
    late  of the time that it takes, (2 nv + p,); zero at a fixed time
    rate  of the state there, (2 nv,)
    """

    end: End
    D: Array
    late: Array
    rate: Array


@dataclass(eq=False)
class Segments:
    """The segments of a periodic orbit of a system; most fields are arguments of `periodic_orbit`.

    sizes       small changes of unknown parameters, by name, where a tenth of the value is not meant
    simulation  options of `HybridSystem.simulate`, such as dt and method
    """

    system: HybridSystem
    section: Any = None
    segments: int = 1
    symmetries: Any = ()
    unknowns: Sequence[str] = ()
    conditions: Callable[..., Any] | None = None
    known_period: Callable[..., Any] | None = None
    scale: Any = 1.0
    sizes: Mapping[str, float] = field(default_factory=dict)
    simulation: Mapping[str, Any] = field(default_factory=dict)
    difference: float | None = None

    def __post_init__(self) -> None:
        system = self.system
        nv = self.system.nv
        scale = self.scale
        self.segments = count("segments", self.segments)
        self.unknowns = tuple(self.unknowns)
        # names and vectors are checked once, so that shooting has arrays of known shapes
        self.section = _section(system, self.section)
        self.symmetries = _symmetries(system, self.symmetries)
        try:
            self.scale = np.broadcast_to(np.asarray(scale, float), (2 * nv,)).copy()
        except ValueError:
            raise ShapeError(f"scale is {scale!r}, expected a number or ({2 * nv},), for (q, v)") from None
        if not (self.scale > 0).all():
            raise ConfigurationError(f"scale is {scale!r}, expected positive numbers")
        if self.difference is not None:
            positive("difference", self.difference)
        # the period is given by the section, by a function, or is an unknown: one of the three
        if self.section and self.known_period:
            raise ConfigurationError("a section gives the period; leave the section or the function out")
        if self.segments > 1 and not self.section and system.memory.size:
            raise ConfigurationError(
                f"{system.name} has memory: what it remembers within a stride is not known to a segment that "
                "starts there. Give a section, at which segments end, or segments=1"
            )
        system.parameters.check(dict.fromkeys(self.unknowns))
        self.columns = 2 * nv + sum(system.parameters.defaults[name].size for name in self.unknowns)

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
        return self._varied if self.difference is None else self.motion

    def options(self, parameters: Mapping[str, Any], time: Any) -> dict[str, Any]:
        """Options of simulations of `motion` from the section, to which it returns after some time."""
        quiet = {QUIET: AT_START * time} if self.section else {}
        return {**self.simulation, "parameters": {**parameters, **quiet}}

    def simulate(self, at: Point) -> list[Arc]:
        """All segments, as one ensemble; GaitError where one does not get to its end."""
        (arcs,) = self.simulate_several([at])
        if isinstance(arcs, GaitError):
            raise arcs
        return arcs

    def simulate_several(self, points: Sequence[Point]) -> list[list[Arc] | GaitError]:
        """The segments of several points; the error of each one whose segments do not get to their ends.

        With a section, all segments of all points are members of one ensemble. Without, each point has its
        own ensemble, which ends at the point's own time.
        """
        times = [self.period_of(at) / self.segments for at in points]
        arcs: list[list[Arc] | GaitError] = [
            GaitError(f"the period becomes {self.segments * time:.3g} s; start nearer to the orbit")
            for time in times
        ]
        usable = [i for i, time in enumerate(times) if time > 0]
        together = [usable] if self.section else [[i] for i in usable]
        for which in filter(None, together):
            several = [points[i] for i in which]
            # rough motions have no useful derivatives: differences of whole segments
            by = self._by_variations if self.difference is None else self._by_differences
            for i, result in zip(which, by(several, [times[i] for i in which]), strict=True):
                arcs[i] = result
        return arcs

    def _by_variations(self, points: Sequence[Point], times: Sequence[float]) -> list[list[Arc] | GaitError]:
        """Segments with the derivatives of each end by the start of its segment and unknown parameters."""
        flow = self._varied
        m = self.segments
        starts = [_Starts(at.q, at.v, at.parameters, time) for at, time in zip(points, times, strict=True)]
        run, ends = self._reached(flow, starts)
        results: list[list[Arc] | GaitError] = []
        for k, at in enumerate(points):
            own = range(k * m, (k + 1) * m)
            lost = self._lost_one(ends[own.start : own.stop], 1)
            if lost is not None:
                results.append(lost)
                continue
            arcs = []
            for i in own:
                end = ends[i]
                if end.log is None:  # at a fixed time: the end of the run
                    D = flow.derivatives(run)[i, -1]
                    late = np.zeros(self.columns)
                    rate = flow.state_rates(run.final, at.parameters)[i]
                else:  # on the section: the time of the return depends on the start
                    D = flow.on_section(end.log, at.parameters)[0]
                    late = flow.delays(end.log)[0]
                    rate = flow.state_rates(end.log, at.parameters)[0]
                arcs.append(Arc(end, D, late, rate))
            results.append(arcs)
        return results

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
        self, system: HybridSystem, q: Array, v: Array, parameters: Mapping[str, Any], time: Any
    ) -> tuple[HybridRun, list[End]]:
        """The same, whether they get there or not.

        time  for all members, or (n,) of each: nobody returns who takes more than LATEST times as long

        Members that are late, and go on, are simulated once more, for longer.
        """
        defaults = system.parameters.defaults
        times = np.broadcast_to(np.asarray(time, float), (len(q),))

        def simulated(which: Any, factor: float) -> tuple[HybridRun, list[End]]:
            # parameters with a leading axis belong to members; the others are shared
            chosen = {
                name: np.asarray(x)[which] if np.ndim(x) > defaults[name].ndim else x
                for name, x in parameters.items()
            }
            t_end = factor * float(times[which].max())
            own = times[which] if np.ndim(time) else time
            options = {"t_end": t_end, "record_every": t_end, **self.options(chosen, own)}
            run = system.simulate(np.asarray(q)[which], np.asarray(v)[which], **options)
            return run, self._ends(run, t_end, times[which])

        # first for a little more than the guess; few starts are late, and only they are simulated for longer
        run, ends = simulated(slice(None), 1.3 if self.section else 1.0)
        late = [i for i, end in enumerate(ends) if self.section and not end.reached and not end.cause]
        for i, end in zip(late, simulated(late, LATEST)[1] if late else (), strict=True):
            ends[i] = end
        return run, ends

    def _ends(self, run: HybridRun, t_end: float, times: Array) -> list[End]:
        ends = []
        # a member has come back to the section, has ended early, or goes on at t_end
        for i, (log, time) in enumerate(zip(run.events, times, strict=True)):
            events, back = self._return(log, time)
            # members of one ensemble are simulated for as long as the slowest one needs
            if back is not None and back.t[0] > LATEST * time:
                back = None
            # returned, ended early, or neither until t_end
            cause = str(run.ends[i])
            if back is not None:  # it has returned
                ends.append(End(back.q[0], back.v[0], float(back.t[0]), events, back, True, ""))
                continue
            # without a section, the end of the time is the end of the segment
            reached = not self.section and not cause
            until = float(run.end_times[i]) if cause else t_end
            ends.append(End(run.final.q[i], run.final.v[i], until, events, None, reached, cause))
        return ends

    def _reached(self, system: HybridSystem, starts: Sequence[_Starts]) -> tuple[HybridRun, list[End]]:
        """`reach` of all starts as one ensemble."""
        if len(starts) == 1:
            (only,) = starts
            return self.reach(system, only.q, only.v, only.parameters, only.time)
        q = np.concatenate([x.q for x in starts])
        v = np.concatenate([x.v for x in starts])
        times = np.concatenate([np.full(len(x.q), x.time) for x in starts])
        defaults = system.parameters.defaults
        # every member gets its own values, also of parameters that only some of the points set
        parameters = {
            name: np.concatenate(
                [
                    np.broadcast_to(x.parameters.get(name, defaults[name]), (len(x.q), *defaults[name].shape))
                    for x in starts
                ]
            )
            for name in dict.fromkeys(name for x in starts for name in x.parameters)
        }
        return self.reach(system, q, v, parameters, times)

    def _lost_one(self, ends: Sequence[End], members: int) -> GaitError | None:
        """The error of the first member that did not get to its end; so many members are one segment."""
        for i, end in enumerate(ends):
            if not end.reached:
                return GaitError(self._lost(i // members, end))
        return None

    def _return(self, log: EventLog, time: float) -> tuple[Events, EventLog | None]:
        """Events until the section is met again; a start on the section is not a return."""
        places = self.returns(log, time)
        until, back = (places[0], log.where(slice(places[0], places[0] + 1))) if places else (len(log), None)
        names = zip(log.guard[:until], log.direction[:until].tolist(), log.t[:until], strict=True)
        # events of the section just after the start belong to the start: round-off decides about them
        start = AT_START * time
        return tuple((x, k) for x, k, t in names if t > start or not self.at_section(x, k)), back

    def returns(self, log: EventLog, time: float) -> list[int]:
        """Which events are returns to the section, each half of this time after the last one at least."""
        places = []
        last = 0.0
        for i, event in enumerate(zip(log.guard, log.direction.tolist(), strict=True)):
            # a guard may chatter: a return comes after half of the usual time at least
            if self.at_section(*event) and log.t[i] - last > time / 2:
                places.append(i)
                last = log.t[i]
        return places

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

    def _by_differences(self, points: Sequence[Point], times: Sequence[float]) -> list[list[Arc] | GaitError]:
        """Derivatives of segments as central differences, all starts in one run."""
        h = self.difference
        assert h is not None
        group = self.system.group
        nv = self.system.nv
        # for each node: the start itself first, then two starts beside each unknown
        starts: list[_Starts] = []
        sizes = []
        for at, time in zip(points, times, strict=True):
            steps = h * np.concatenate([self.scale, self._sizes(at)])
            moves = np.pad(np.kron(np.diag(steps), [[1], [-1]]), ((1, 0), (0, 0)))
            parameters = with_changes(at.parameters, self.unknowns, moves[:, 2 * nv :])
            sizes.append(steps)
            for q0, v0 in zip(at.q, at.v, strict=True):
                q = np.stack([np.asarray(group.integrate(q0, x[:nv]), float) for x in moves])
                starts.append(_Starts(q, v0 + moves[:, nv : 2 * nv], parameters, time))
        run, ends = self._reached(self.motion, starts)
        n = 2 * self.columns + 1  # members of each segment
        all_of_point = n * self.segments
        results: list[list[Arc] | GaitError] = []
        for k, (at, steps) in enumerate(zip(points, sizes, strict=True)):
            own = range(k * all_of_point, (k + 1) * all_of_point)
            lost = self._lost_one(ends[own.start : own.stop], n)
            if lost is not None:
                results.append(lost)
                continue
            arcs = []
            for first in own[::n]:
                end = ends[first]
                # the time of arrival is differentiated as a last row
                y = np.stack(
                    [
                        np.concatenate([group.difference(end.q, x.q), x.v - end.v, [x.time]])
                        for x in ends[first : first + n]
                    ]
                )
                # starts alternate: plus and minus a step for each unknown
                slopes = ((y[1::2] - y[2::2]) / (2 * steps[:, None])).T
                states, row = (run.final, first) if end.log is None else (end.log, 0)
                rate = varied(self.motion, ()).state_rates(states, at.parameters).reshape(-1, 2 * nv)[row]
                arcs.append(Arc(end, slopes[:-1], slopes[-1], rate))
            results.append(arcs)
        return results

    def period_of(self, at: Point) -> float:
        if self.known_period is None:
            return at.period
        p = self.system.parameters
        return float(self.known_period(p.read(p.values(at.parameters, ()))))

    def _sizes(self, at: Point) -> Array:
        """Sizes of the unknown parameters: as the user says, or a tenth of each, or 0.1 where it is zero."""
        sizes = [np.zeros(0)]
        for name in self.unknowns:
            p = np.abs(np.ravel(at.parameters[name]))
            usual = np.where(p > 0, p, 1) / 10
            sizes.append(np.full(p.shape, self.sizes[name]) if name in self.sizes else usual)
        return np.concatenate(sizes)


def named(events: Sequence[tuple[str, int]]) -> str:
    """Events in words: a sign says in which direction a guard changed."""
    signs = {1: "+", -1: "-", 0: ""}
    shown = [f"{name}{signs[sign]}" for name, sign in events]
    if len(shown) > 12:
        shown = [*shown[:6], f"... {len(shown) - 12} more ...", *shown[-6:]]
    return ", ".join(shown) or "none"


def _section(system: HybridSystem, section: Any) -> tuple[str, int] | None:
    if section is None:
        return None
    guard, direction = section if isinstance(section, tuple | list) and len(section) == 2 else (section, None)
    if guard not in system.guard_names:
        raise ModelError(f"section: there is no guard {guard!r}; {known(system.guard_names, guard)}")
    if direction is None:
        direction = system.directions[system.guard_names.index(guard)]
    return guard, int(direction)


def _symmetries(system: HybridSystem, given: Any) -> np.ndarray:
    """The algebra vectors (k, nv), which must span a subalgebra."""
    xi = np.asarray(given, float)
    nv = system.nv
    xi = xi.reshape(0, nv) if xi.size == 0 else np.atleast_2d(xi)
    if xi.ndim != 2 or xi.shape[1] != nv:
        raise wrong_shape("symmetries", xi.shape, f"algebra vectors (k, {nv})")
    rank = np.linalg.matrix_rank(xi) if len(xi) else 0
    if rank < len(xi):
        raise ModelError("symmetries: one follows from the others; leave it out")
    # a subalgebra contains the bracket of any two of its vectors
    for a in xi:
        for b in xi:
            bracket = np.asarray(system.group.ad(a) @ b, float)
            if np.linalg.matrix_rank(np.vstack([xi, bracket]), tol=1e-9) > rank:
                raise ModelError(
                    f"symmetries are no subgroup: the bracket of {a} and {b} is {bracket}; add it"
                )
    return xi
