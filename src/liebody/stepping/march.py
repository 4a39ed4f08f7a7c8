"""The march through time: many steps of a method, for an ensemble, in one call.

A method is a step (`flow`, `implicit`, `hybrid`). This module carries the steps of every method through time,
in two loops: steps of one length, which all members take together, and a march in which each member has its
own time and step, with error control, events, memory and samples. Both exist in C (runtime/march.h, called by
`loop`). Without a compiler the same steps run as NumPy source, in `Steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..compiler.native import build, pool
from ..compiler.printers.numpy_source import compile_numpy
from .records import Guards
from .samples import Samples
from .singular import Nearest

REASONS = {
    0: "",
    1: "a value is not finite",
    2: "the equations of a step are singular: constraints that depend on each other, or a singular place",
    3: "Newton's method does not converge: take a shorter step",
    4: "its error exceeds the tolerances with any step above round-off",
    5: "stopped",
    6: "the step is not positive",
    7: "too many steps between two samples",
    8: "interrupted",
}
RAN, NOT_FINITE, SINGULAR, NOT_CONVERGED, TOLERANCE_EXCEEDED, STOPPED, NO_STEP, TOO_MANY, INTERRUPTED = (
    REASONS
)
LOCATED_IN_SINGLE = 1e-9  # tolerance of the times of events in float32: closer, states hardly differ      [s]
CLOCK = np.dtype([("t", float), ("step", float), ("made", float), ("last_defect", float), ("row", np.int64)])


@dataclass(frozen=True)
class Settings:
    """How members march.

    rtol, atol  of the error control: the root mean square of error_i/(atol + rtol size_i) is kept below 1
    controlled  whether there is error control, where the method estimates its error
    tolerance   to which the time of an event is located, times max(1, t); None: events are taken at the ends
                of the steps in which they happen                                                          [s]
    least       an event sooner than this after the last one of its guard is taken then, and not located: a
                sequence of ever shorter bounces passes                                                    [s]
    limit       largest number of steps of a member between two records
    most        largest number of events in the log of a member; further events are counted only
    """

    rtol: float = 1e-8
    atol: float = 1e-10
    controlled: bool = True
    tolerance: float | None = 1e-14
    least: float = 1e-7
    limit: int = 2**62
    most: int = 0


class Ensemble:
    """The members of an ensemble during a march.

    y       (n, point), states at the ends of the last steps: a copy of the start, unless copy=False
    times   (rows,), of the record: the last step ends at the last of them
    record  (n, rows, point); NaN in rows that a member has not reached
    clock   (n,) of CLOCK: time, next step, length and defect of the last step, next row of the record
    log     of each member (events, 2 + point): of each event its time, +-(1 + guard) for upwards and
            downwards, and the state after it
    counts  (n, 4): events, events that were not located, steps, rejected steps
    last    (n, guards): time of the last event of each guard
    nearest where members came closest to dependent constraints; without rows where these are not watched
    ends    (n, 2): time and reason (`REASONS`), for members that ended before the end of the run
    dtype   of y and record, as in the flow that moves the members; times are always double
    """

    def __init__(
        self,
        y: Any,
        times: Any,
        step: float,
        guards: int = 0,
        copy: bool = True,
        watched: bool = True,
        dtype: Any = np.float64,
    ) -> None:
        self.y = np.array(y, dtype=dtype, copy=copy or None)
        self.times = np.ascontiguousarray(times, dtype=float)
        n, point = self.y.shape
        self._step = step
        self._guards = guards
        self.record = pool.empty((n, len(self.times), point), dtype, build.find_compiler())
        self.record[:, 1:] = np.nan
        self.record[:, 0] = self.y
        self.nearest = Nearest.of(n if watched else 0, point)
        self.ends = np.zeros((n, 2))
        self.start: Any = None  # states that a restart was given, until y has them
        self.call: Any = None  # of C with these arrays, kept for the next one
        self._has_kept = False  # events in the log

    def restart(self, y: Any, t: float, end: float, step: float) -> None:
        """Begin a march from copies of the states y at t to `end` in these arrays, instead of in new ones.

        The march makes the copies, in a new array, which has arbitrary entries before. A record has two
        rows, and keeps what it held until the march writes it.
        """
        self.start = np.ascontiguousarray(y, self.y.dtype)
        self.y = pool.empty(y.shape, self.y.dtype, build.find_compiler())
        self.times[:] = t, end
        self.ends[:] = 0
        self.counts[:] = 0
        self.clock[:] = (t, step, step, 1.0, 1)
        if self._has_kept:
            self.log[:] = [np.zeros((0, 2 + y.shape[1]))] * len(y)
            self._has_kept = False

    # The following arrays belong to a march. Steps of one length do without, so they are made when asked for.

    @cached_property
    def clock(self) -> Any:
        return np.full(len(self.y), np.array((self.times[0], self._step, self._step, 1.0, 1), CLOCK))

    @cached_property
    def log(self) -> list[Any]:
        # Most members have no events. They share an empty log, which `keep` replaces.
        return [np.zeros((0, 2 + self.y.shape[1]))] * len(self.y)

    @cached_property
    def counts(self) -> Any:
        return np.zeros((len(self.y), 4), np.int64)

    @cached_property
    def last(self) -> Any:
        return np.full((len(self.y), self._guards), -np.inf)

    def copy_start(self) -> None:
        """Copy the states that a restart was given, as a march in C does by itself."""
        if self.start is not None:
            self.y[:] = self.start
            self.start = None

    def interrupt(self, until: int) -> None:
        """Mark members that have not reached row `until` as ended at their present times."""
        going = (self.ends[:, 1] == RAN) & (self.clock["row"] < until)
        self.ends[going] = np.stack([self.clock["t"][going], np.full(going.sum(), INTERRUPTED)], axis=-1)

    def reached(self) -> tuple[Any, Any]:
        """Times and states of the rows that some member has reached, and of a common end after them."""
        rows = 1 + int(np.flatnonzero(np.isfinite(self.record).all(axis=-1).any(axis=0))[-1])
        times = self.times[:rows]
        states = self.record[:, :rows]
        end = self.ends[0, 0]
        if (self.ends == [end, self.ends[0, 1]]).all() and end > times[-1]:
            times = np.append(times, end)
            states = np.concatenate([states, self.y[:, None]], axis=1)
        return times, states

    def keep(self, i: int, entries: Any) -> None:
        """Add entries (events, 2 + point) to the log of member i."""
        if len(entries):
            self._has_kept = True
            self.log[i] = np.concatenate([self.log[i], entries])


def parts(u: Samples, t: float, end: float) -> Iterator[tuple[float, float, Callable[[float], Any]]]:
    """The parts of a step from t to `end`, one for each piece of u: (begin, end, efforts of time)."""
    while True:
        stop, piece = u.part_end(t, end), u.piece(t)

        def efforts(at: float, piece: int = piece) -> Any:
            return u.at(at, piece)

        yield t, stop, efforts
        if stop >= end:
            return
        t = stop


class Steps:
    """A method's step over NumPy source, and the two loops of runtime/march.h over it, as their reference.

    A subclass overrides `_step`, and the others where its method or system has error control, memory or
    events. States are (n, point), efforts (1 or n, dim). `lost` (n,) changes in place: the reason why a
    member's step cannot be taken, or 0.
    """

    dense = False
    directions: Sequence[int] = ()
    terminal: Sequence[bool] = ()
    guards: Guards | None = None
    """Guards of the run; systems that choose their steps have guards of their own, with these directions."""

    def _watch(self, nearest: Nearest) -> Any:
        """The `Watched` that looks for dependent constraints in steps of these members; None: not watched."""
        return None

    def _step(
        self, t: float, h: float, y: Any, efforts: Callable[[float], Any], lost: Any, watched: Any
    ) -> tuple[Any, Any]:
        """The state at the end of a step, and values for `_defect` and `_within`, such as its stages."""
        raise NotImplementedError

    def _complete(
        self, t: float, h: float, y: Any, end: Any, efforts: Callable[[float], Any], watched: Any
    ) -> Any:
        """The state after an accepted step from (t, y) to `end`, such as `end` projected onto constraints."""
        return end

    def _fit(
        self, u: Samples, y: Any, made: float, t: float, h: float, efforts: Callable[[float], Any]
    ) -> Any:
        """y, with the memory of a step of length `made` adapted to a step from t of length h."""
        return y

    def _defect(
        self, t: float, h: float, y: Any, efforts: Any, after: Any, left: Any, settings: Settings, lost: Any
    ) -> float | None:
        """The error estimate of a member in units of the tolerances; None for methods that have none."""
        return None

    def _within(self, s: float, t: float, h: float, y: Any, efforts: Any, after: Any, left: Any) -> Any:
        """The state at t + s h."""
        raise NotImplementedError

    def _guards(self, t: float, y: Any, u: Any) -> Any:
        """The guards (guards,) of a member."""
        if self.guards is None:
            return np.zeros(0)
        function = self.guards.function
        arguments = (np.reshape(x, like.shape) for x, like in zip((t, y, u), function.inputs.values()))
        return compile_numpy(function)(*arguments)

    def _look(self, t: float, y: Any, u: Any) -> tuple[Any, float, bool] | None:
        """Guards, the step to take, and whether to stop; None where the system does not choose its steps."""
        return None

    def _called(self, t: float, y: Any, u: Any) -> tuple[Any, Any, float] | None:
        """The state after the calls that are due at t, guards and next step there; None: nothing is due."""
        return None

    def _update(self, t: float, y: Any, u: Any, e: Any) -> tuple[Any, Any, float, bool]:
        """The state after a step, and the results of `_look` at it."""
        raise NotImplementedError

    def _fixed_numpy(
        self, y: Any, u: Samples, t0: float, h: float, steps: int, every: int, record: Any, row: int,
        failed: Any, losses: Any, nearest: Nearest,
    ) -> None:  # fmt: skip
        """`fixed_steps` of runtime/march.h, over the whole ensemble at once."""
        state = y.copy()
        lost = np.zeros(len(y), int)
        watched = self._watch(nearest)
        with np.errstate(all="ignore"):
            for s in range(steps):
                step = (t0 + s * h, t0 + (s + 1) * h)
                made = h
                # A step across samples is taken in parts, so that each part sees smooth efforts. The length
                # of an undivided step is h itself: stop - t would add round-off.
                for t, stop, efforts in parts(u, *step):
                    length = h if (t, stop) == step else stop - t
                    lost_before = lost.copy()
                    state = self._fit(u, state, made, t, length, efforts)
                    end = self._step(t, length, state, efforts, lost, watched)[0]
                    end = self._complete(t, length, state, end, efforts, watched)
                    # lost members are NaN from here on, while the others go on; the first loss is noted
                    state = np.where(lost[:, None] != 0, np.nan, end).astype(y.dtype)
                    newly = (lost != 0) & (lost_before == 0) & (failed == 0)
                    losses[newly] = np.stack([np.full(newly.sum(), t), lost[newly]], axis=-1)
                    made = length
                # Records and the next step expect the memory of a step of length h. Constant efforts stand
                # for u here, because a jump at the end of the step belongs to the next one.
                if made != h:
                    state = self._fit(Samples.of(u.table[:, :1]), state, made, step[1], h, efforts)
                if (s + 1) % every == 0:
                    record[:, row] = state
                    row += 1
                    failed[~np.isfinite(state).all(axis=1) & (failed == 0)] = row
        y[...] = state

    def _march_numpy(self, m: Ensemble, u: Samples, until: int, settings: Settings) -> None:
        """`march` of runtime/march.h, one member after the other."""
        try:
            for i in np.flatnonzero(m.ends[:, 1] == RAN).tolist():
                with np.errstate(all="ignore"):
                    self._member_numpy(m, i, u.member(i), until, settings)
        except KeyboardInterrupt:
            m.interrupt(until)
            raise

    def _member_numpy(self, m: Ensemble, i: int, u: Samples, until: int, settings: Settings) -> None:
        """The march of one member, up to row `until` of its record or to its end.

        One loop over steps, longer than sixty lines because its stages share a dozen local variables, and
        because it is laid beside `march` of runtime/march.h, stage by stage.
        """
        t, step, made, last_defect, row = m.clock[i].tolist()
        now = m.y[i : i + 1].copy()
        reason = RAN
        taken = 0  # steps since the last record
        entries = []
        watched = self._watch(Nearest(m.nearest.rows[i : i + 1]))
        g = self._guards(t, now[0], u.at(t)[0])
        look = self._look(t, now[0], u.at(t)[0])
        if look is not None and row < until:
            g, step, stop = look
            reason = STOPPED if stop else RAN if step > 0 else NO_STEP
        while reason == RAN and row < until:
            # 1. The length of the step: up to the target or the next sample. Rather than leave a sliver
            #    behind, a step that nearly reaches its limit is stretched, and one of two that remain halved.
            target = float(m.times[-1 if self.dense else row])
            _, limit, efforts = next(parts(u, t, target))
            called = self._called(t, now[0], efforts(t)[0])
            if called is not None:
                state, g, step = called
                now = state[None]
            left = limit - t
            h = left if 1.0000001 * step >= left else left / 2 if 2 * step > left else step
            # 2. A trial of this step; guards are evaluated at its end.
            lost = np.zeros(1, int)
            begun = self._fit(u, now, made, t, h, efforts)

            def trial(length: float, t=t, begun=begun, efforts=efforts, lost=lost) -> tuple[Any, Any, Any]:
                following, left_behind = self._step(t, length, begun, efforts, lost, watched)
                there = self._guards(t + length, following[0], efforts(t + length)[0])
                return following, left_behind, there

            following, left_behind, there = trial(h)
            # 3. Error control: a rejected step is tried again, shorter, from the same state.
            defect = self._defect(t, h, begun, efforts, following, left_behind, settings, lost)
            if defect is not None and not (lost[0] == 0 and defect <= 1):
                step = shorter_step(h, math.inf if lost[0] else defect, self.error_order)
                m.counts[i, 3] += 1
                if step <= 1e-14 * abs(t):
                    reason = int(lost[0]) or TOLERANCE_EXCEEDED
                continue
            # 4. Events: where a guard has changed its sign, shorten the step to just past the first event.
            changed = self._changed(g, there)
            if changed.any() and settings.tolerance is not None:
                soon = m.last[i] + settings.least - t
                tolerance = settings.tolerance * max(1, abs(t))
                past = following, left_behind, there
                h, past, early = locate(trial, self._changed, g, 0.0, h, past, tolerance, soon)
                following, left_behind, there = past
                changed = self._changed(g, there)
                m.counts[i, 1] += early
            # 5. The state at the end. A system that chooses its steps updates its state and says the next
            #    step; otherwise error control does. A step cut short by a sample or an event must not make
            #    the next one shorter, unless its own error asks for that.
            e = changed * (2.0 * (there > 0) - 1.0)
            end = t + h
            stop = False
            if look is None:
                following = self._complete(t, h, begun, following, efforts, watched)
                g = there
                if defect is not None:
                    wanted, last_defect = next_step(h, defect, last_defect, self.error_order)
                    step = wanted if h >= step or wanted < h else step
            else:
                state, g, step, stop = self._update(end, following[0], efforts(end)[0], e)
                following = state[None]
            following = np.asarray(following, m.y.dtype)
            if not np.isfinite(following).all():
                reason = NOT_FINITE
                break
            # 6. Advance time; a limit that is reached but for round-off is taken as the time itself.
            reached = end >= limit - 1e-13 * abs(limit)
            began = t
            t = limit if reached else end
            start = begun
            now = following
            made = h
            taken += 1
            # 7. Log the events, of which some are terminal.
            for j in changed.nonzero()[0].tolist():
                m.last[i, j] = t
                if m.counts[i, 0] < settings.most:
                    entries.append([t, e[j] * (1 + j), *now[0]])
                m.counts[i, 0] += 1
                stop |= (self.guards or self).terminal[j]
            # 8. Records: within steps by interpolation, or at steps that end at the time of a row.
            while self.dense and row < len(m.times) and m.times[row] <= t:
                s = (m.times[row] - began) / h
                inside = s < 1 - 1e-12
                m.record[i, row] = (
                    self._within(s, began, h, start, efforts, now, left_behind) if inside else now
                )[0]
                row += 1
            if not self.dense and reached and limit == target:
                m.record[i, row] = now[0]
                m.counts[i, 2] += taken
                row += 1
                taken = 0
            # 9. Reasons to end.
            if stop:
                reason = STOPPED
            elif not step > 0:
                reason = NO_STEP
            elif taken > settings.limit:
                reason = TOO_MANY
        if reason != RAN:
            m.ends[i] = t, reason
        m.counts[i, 2] += taken
        m.y[i] = now[0]
        m.clock[i] = (t, step, made, last_defect, row)
        m.keep(i, entries)

    error_order = 1
    """The power of h that the error estimate goes with."""

    def _changed(self, before: Any, after: Any) -> Any:
        """Which guards have changed their sign, in their direction; from or to NaN is no change."""
        if not len(before):
            return np.zeros(0, bool)
        up = np.where(after > 0, 1, -1)
        directions = np.array((self.guards or self).directions, int)
        return ((before > 0) != (after > 0)) & (after == after) & (directions * up >= 0)


def locate(
    trial: Callable[[float], tuple[Any, Any, Any]], changed: Callable[[Any, Any], Any], g: Any, low: float,
    high: float, last: tuple[Any, Any, Any], tolerance: float, soon: Any = -math.inf,
) -> tuple[float, tuple[Any, Any, Any], bool]:  # fmt: skip
    """The first event of a step between lengths `low`, with guards g, and `high`, by the Illinois method.

    trial      of a length -> (state at the end of the step, its further results, guards there)
    last       the trial of `high`, which is past an event
    changed    of two arrays of guards -> which guards have an event between them
    tolerance  of the length
    soon       lengths up to which the events of guards are not located

    Returns the length just past the event, its trial, and whether location was given up because the event is
    sooner than `soon`.

    Dowell, Jarratt, "A modified regula falsi method for computing the root of an equation", BIT 11 (1971).
    """
    # The bracket: no event between g and `low`, an event between g and `high`. `below` and `above` are the
    # guards at its ends, as regula falsi uses them; `side` says which end moved last (1: high, -1: low).
    begin = g
    below = g.copy()
    above = last[2].copy()
    side = 1
    tries = 0
    while True:
        # The result is a trial past the event, so only a bracket whose upper end moved last may end it.
        early = bool((changed(begin, last[2]) & (high <= soon)).any())
        if side == 1 and (high - low <= tolerance or early):
            return high, last, early and high - low > tolerance
        # The root of the secant of each guard that has an event; the earliest of them is tried, no sooner
        # than `soon`. After many tries, or without a root, the bracket is halved.
        with np.errstate(all="ignore"):
            roots = np.maximum(low + (high - low) * (below / (below - above)), np.minimum(soon, high))
        length = float(np.min(roots[changed(below, above)], initial=math.inf))
        tries += 1
        if tries > 40 or not length < math.inf:
            length = 0.5 * (low + high)
        # Keep half a tolerance from both ends, so that the bracket shrinks below the tolerance.
        if high - low <= tolerance:
            length = high
        else:
            length = min(max(length, low + 0.5 * tolerance), high - 0.5 * tolerance)
        # Move the end on whose side the trial lies. When the same end moves twice, halve the guards of the
        # other end: this is the Illinois rule, without which that end might stay where it is.
        latest = trial(length)
        if changed(begin, latest[2]).any():
            if side == 1:
                below = below * 0.5
            high = length
            above = latest[2].copy()
            side = 1
            last = latest
        else:
            if side == -1:
                above = above * 0.5
            low = length
            below = latest[2].copy()
            side = -1


def next_step(
    length: float, defect: float, last_defect: float, order: int, safety: float = 0.9
) -> tuple[float, float]:
    """The step after one of `length` with this defect, by proportional-integral control; next last_defect.

    Gustafsson, ACM Trans. Math. Softw. 17 (1991).
    """
    factor = safety * max(defect, 1e-10) ** (-0.7 / order) * last_defect ** (0.4 / order)
    return length * min(max(factor, 0.2), 10), max(defect, 1e-4)


def shorter_step(length: float, defect: float, order: int) -> float:
    """The step to try after a rejected one, whose defect may be infinite or NaN."""
    return length * (max(0.9 * defect ** (-1 / order), 0.2) if defect < math.inf else 0.2)
