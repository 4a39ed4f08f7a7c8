"""Compiled hybrid flows: flows with events and memory, for an ensemble whose members step on their own."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .flow import parts, stages
from .graph import Function
from .loop import CompiledLoop
from .printers.flow import Path
from .printers.hybrid import hybrid_source
from .samples import Samples

REASONS = {
    0: "",
    1: "stopped",
    2: "a value is not finite",
    3: "the step is not positive",
    4: "too many steps between two samples",
}
RAN, STOPPED, NOT_FINITE, NO_STEP, TOO_MANY = REASONS


LOG = np.dtype([("entries", np.uintp), ("room", np.int64), ("kept", np.int64)])  # a Log of runtime/hybrid.h


class _Control(ctypes.Structure):
    _fields_ = (
        ("interval", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("least", ctypes.c_double),
        ("limit", ctypes.c_long),
        ("most", ctypes.c_long),
    )


@dataclass(frozen=True)
class Events:
    """How events are found.

    tolerance  to which the time of an event is located, times max(1, t); None: events are taken at the ends
               of the steps in which they happen                                                          [s]
    least      an event sooner than this after the last one of its guard is taken then, and not located: a
               sequence of ever shorter bounces passes                                                    [s]
    limit      most steps of a member between two samples
    most       events of a member that its log keeps; more are counted only
    """

    tolerance: float | None = 1e-14
    least: float = 1e-7
    limit: int = 10_000_000
    most: int = 0


class Ensemble:
    """The members of an ensemble on their way: what `HybridFlow.steps` advances.

    y       (n, point), states at the last sample, or where a member ended
    record  (n, rows, point), samples; NaN where a member had ended before
    log     of each member (events, 2 + point): of each event its time, +-(1 + guard) for upwards and
            downwards, and the state after it
    counts  (n, 3): events, those that were not located, steps
    ends    (n, 2): time and reason (`REASONS`), for members that ended before the last sample
    """

    def __init__(self, y: Any, rows: int, guards: int) -> None:
        self.y = np.array(y, dtype=float)
        n, point = self.y.shape
        self.record = np.full((n, rows, point), np.nan)
        self.record[:, 0] = self.y
        self.log = [np.zeros((0, 2 + point)) for _ in range(n)]
        self.counts = np.zeros((n, 3), np.int64)
        self.last = np.full((n, guards), -np.inf)
        self.ends = np.zeros((n, 2))

    def keep(self, i: int, entries: Any) -> None:
        """Add entries (events, 2 + point) to the log of member i."""
        if len(entries):
            self.log[i] = np.concatenate([self.log[i], entries])


class HybridFlow(CompiledLoop):
    """The steps of an explicit method for a hybrid system, compiled into one loop.

    A state y is (memory, point): coordinates of a point on a group, behind numbers that change at the ends of
    steps only, which `advance` hands on as they are. u are parameters, constant or sampled (`Samples`), of
    each member. The parts are traced functions, given as calls without arguments that make them:

    field    (t, y, u) -> f, the velocity of the point in the algebra
    advance  (y, psi) -> (memory, point exp(psi))
    pull     (psi, f) -> dexp^-1_(-psi) f; None for methods that compose exponentials of velocities themselves
    guards   (t, y, u) -> g (guards,): an event is a change of the sign of a g_i, where 0 counts as negative,
             in its direction: +1 for upwards only, -1 for downwards only, 0 for both
    look     (t, y, u) -> (g, h, s): guards; the step to take from here; the member stops if s > 0
    after    (t, y, u, e) -> (z, g, h, s): the state z at the end of a step, where e_i is +1 or -1 if guard i
             has changed its sign, and otherwise 0; and g, h, s as `look` finds them there
    paths, c  the coefficients of the method, as in `Flow`

    Every member has a time and a step of its own, and what it does depends on nobody else: the result is the
    same in any company, bit for bit. Members are lanes of vectors; a lane that has finished takes the next
    member. An event within a step is located by the Illinois method on the length of the step, so that the
    steps before and after it are as accurate as any, if the parts are smooth between events. Two changes of
    the sign within one step cancel, and are not seen: let `look` choose steps that are short enough.

    Dowell, Jarratt, "A modified regula falsi method for computing the root of an equation", BIT 11 (1971).
    """

    kind = "hybrid"

    def __init__(
        self,
        field: Callable[[], Function],
        advance: Callable[[], Function],
        pull: Callable[[], Function] | None,
        guards: Callable[[], Function],
        look: Callable[[], Function],
        after: Callable[[], Function],
        paths: Sequence[Path],
        c: Sequence[float],
        directions: Sequence[int],
        recipe: str | None = None,
    ) -> None:
        super().__init__(recipe)
        self._parts = (field, advance, pull, guards, look, after)
        self.paths, self.c, self.directions = tuple(paths), tuple(c), tuple(map(int, directions))

    @cached_property
    def functions(self) -> tuple[Any, ...]:
        """field, advance, pull, guards, look and after, traced."""
        return tuple(part and part() for part in self._parts)

    def source(self, lanes: int = 1) -> str:
        """C source of the loop over `lanes`."""
        field, advance, pull, guards, look, after = self.functions
        return hybrid_source(
            field, advance, pull, guards, look, after, self.paths, self.c, self.directions, lanes
        )

    def _settings(self) -> tuple[Any, ...]:
        return self.paths, self.c, self.directions

    def _prepare(self, library: ctypes.CDLL) -> ctypes.CDLL:
        p, n, d = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
        library.hybrid_steps.restype = None
        library.hybrid_steps.argtypes = [n, p, p, p, d, n, p, p, n, n, p, p, p, p]
        library.hybrid_drain.restype = None
        library.hybrid_drain.argtypes = [n, p, p]
        return library

    def ensemble(self, y: Any, rows: int) -> Ensemble:
        """Members that start at y (n, point), with room for `rows` samples; the first one is the start."""
        (g,) = self.functions[3].outputs.values()
        return Ensemble(y, rows, g.size)

    def steps(
        self,
        members: Ensemble,
        u: Any,
        t: float,
        interval: float,
        rows: int,
        row: int,
        events: Events,
        threads: int = 1,
    ) -> None:
        """Advance the members from the sample `row`, at time t, by `rows` samples that are `interval` apart.

        u  parameters: Samples, whose times steps do not go across, or constant ones, (1 or n, dim)
        """
        u = u if isinstance(u, Samples) else Samples.of(np.asarray(u)[:, None])
        if self._compiler is None:
            self._steps_numpy(members, u, t, interval, rows, row, events)
            return
        m, n = members, len(members.y)
        library, _ = self._for(n)
        queue = ctypes.c_long(0)
        tolerance = -1.0 if events.tolerance is None else events.tolerance
        control = _Control(interval, tolerance, events.least, events.limit, events.most)
        logs = np.zeros(n, LOG)
        arguments = (
            n, ctypes.byref(queue), m.y.ctypes.data, ctypes.byref(u.in_c()), t, rows,
            ctypes.byref(control), m.record.ctypes.data, m.record.shape[1], row, logs.ctypes.data,
            m.counts.ctypes.data, m.last.ctypes.data, m.ends.ctypes.data,
        )  # fmt: skip
        try:
            if threads == 1:
                library.hybrid_steps(*arguments)
            else:
                with ThreadPoolExecutor(max_workers=threads) as pool:
                    list(pool.map(lambda _: library.hybrid_steps(*arguments), range(threads)))
        finally:
            entries = np.empty((logs["kept"].sum(), 2 + m.y.shape[1]))
            library.hybrid_drain(n, logs.ctypes.data, entries.ctypes.data)
        for i, new in enumerate(np.split(entries, np.cumsum(logs["kept"][:-1]))):
            m.keep(i, new)

    # -- without a compiler -------------------------------------------------------------------------------

    @cached_property
    def _numpy(self) -> tuple[Any, ...]:
        from .printers.numpy_source import compile_numpy

        return tuple(f and compile_numpy(f) for f in self.functions)

    def _steps_numpy(
        self, m: Ensemble, u: Samples, t0: float, interval: float, rows: int, first: int, events: Events
    ) -> None:
        """The function `hybrid_steps` of runtime/hybrid.h, one member after the other."""
        for i in np.flatnonzero(m.ends[:, 1] == RAN).tolist():
            with np.errstate(all="ignore"):
                self._member_numpy(m, i, u.member(i), t0, interval, rows, first, events)

    def _member_numpy(
        self, m: Ensemble, i: int, samples: Samples, t0: float, interval: float, rows: int, first: int,
        events: Events,
    ) -> None:  # fmt: skip
        field, advance, pull, guards, look, after = self._numpy
        t, now, row, taken = t0, m.y[i].copy(), first, 0
        entries = []
        _, limit, u = next(parts(samples, t0, t0 + interval, alone=True))
        g, h, stop = look(t, now, u(t))
        h = min(float(h), limit - t)
        reason = STOPPED if stop > 0 else RAN if h > 0 else NO_STEP

        def trial(length: float) -> tuple[Any, Any]:
            following = stages(
                self.paths, self.c, lambda at, y: field(at, y, u(at)), advance, pull, t, length, now
            )[1]
            return following, guards(t + length, following, u(t + length))

        while reason == RAN and row < first + rows:
            following, there = trial(h)
            if events.tolerance is not None and self._changed(g, there).any():
                soon, tolerance = m.last[i] + events.least - t, events.tolerance * max(1, abs(t))
                h, following, there, early = self._locate(trial, g, h, following, there, tolerance, soon)
                m.counts[i, 1] += early
            e = np.where(self._changed(g, there), np.where(there > 0, 1.0, -1.0), 0.0)
            following, g, ahead, stop = after(t + h, following, u(t + h), e)
            if not np.isfinite(following).all():
                reason = NOT_FINITE
                break
            sample = t0 + (row - first + 1) * interval
            reached = t + h >= limit - 1e-13 * max(1, abs(limit))
            sampled = reached and limit == sample
            t, now = limit if reached else t + h, following
            for j in np.flatnonzero(e):
                m.last[i, j] = t
                if m.counts[i, 0] < events.most:
                    entries.append([t, e[j] * (1 + j), *now])
                m.counts[i, 0] += 1
            m.counts[i, 2] += 1
            taken += 1
            if sampled:
                row, taken = row + 1, 0
                sample = t0 + (row - first + 1) * interval
                m.record[i, row] = now
            h = float(ahead)
            if stop > 0:
                reason = STOPPED
            elif not h > 0:
                reason = NO_STEP
            elif taken > events.limit:
                reason = TOO_MANY
            _, limit, u = next(parts(samples, t, sample, alone=True))
            left = limit - t
            h = left if h * 1.0000001 >= left else left / 2 if h * 2 > left else h
        if reason != RAN:
            m.ends[i] = t, reason
        m.y[i] = now
        m.keep(i, entries)

    def _changed(self, before: Any, after: Any) -> Any:
        """Which guards have changed their sign, in their direction."""
        up = np.where(after > 0, 1, -1)
        return ((before > 0) != (after > 0)) & (after == after) & (np.array(self.directions) * up >= 0)

    def _locate(
        self, trial: Callable[[float], tuple[Any, Any]], g: Any, high: float, following: Any, there: Any,
        tolerance: float, soon: Any,
    ) -> tuple[float, Any, Any, bool]:  # fmt: skip
        """The first event within a step of length `high` that ends at `following` with guards `there`."""
        low, below, above, side, tries = 0.0, g.copy(), there.copy(), 1, 0
        while True:
            early = bool((self._changed(g, there) & (high <= soon)).any())
            if side == 1 and (high - low <= tolerance or early):
                return high, following, there, early and high - low > tolerance
            with np.errstate(all="ignore"):
                roots = np.maximum(low + (high - low) * (below / (below - above)), np.minimum(soon, high))
            length = float(np.min(roots[self._changed(below, above)], initial=math.inf))
            tries += 1
            if tries > 40 or not length < math.inf:
                length = 0.5 * (low + high)
            if high - low <= tolerance:
                length = high
            else:
                length = min(max(length, low + 0.5 * tolerance), high - 0.5 * tolerance)
            state, found = trial(length)
            if self._changed(g, found).any():
                if side == 1:
                    below = below * 0.5
                high, above, side, following, there = length, found.copy(), 1, state, found
            else:
                if side == -1:
                    above = above * 0.5
                low, below, side = length, found.copy(), -1
