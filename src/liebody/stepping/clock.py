"""The times of a motion: the lengths of its steps, and when states are recorded."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..base.arguments import floats
from ..base.errors import SECONDS, IntegrationError, positive

Array = np.ndarray

MOST_STATES = 1000  # recorded by default
MOST_ROWS = 10**9
MOST_STEPS = 2**53  # beyond which t + dt is t
FIRST = 1e-3  # longest first step of members that choose their steps [s]
ROUND_OFF = 1e-9  # of an interval: times closer than that are the same


class Stretch(NamedTuple):
    """Steps of one length h from time t on; every `every`-th state is recorded, from row `row` on."""

    t: float
    h: float
    steps: int
    every: int
    row: int


class Clock:
    """The steps of a motion over [0, t_end], and the times of its record.

    t_end         duration of the motion                                                                 [s]
    h             length of the steps; None: members choose their steps, and only the record is known    [s]
    record_every  time between rows of the record, with h a multiple of it. Default: every step, or so that
                  there are at most 1000; without h a thousandth of t_end                                [s]
    t_eval        times of the record, increasing from 0 to t_end, in place of record_every; steps of length
                  h go from one of these times to the next, where the last one may be shorter            [s]

    times         (rows,): of the record. The last row lies at the end of the motion, after a shorter interval
                  if record_every does not divide t_end                                                  [s]
    first         length of the first step                                                               [s]
    stretches     with h: the steps of the motion in order, as few stretches of one length as possible

    Errors: IntegrationError for times that do not increase from the start to the end, a record_every that is
    no multiple of h, and more steps or rows than can be counted.
    """

    def __init__(
        self,
        t_end: float,
        h: float | None = None,
        record_every: float | None = None,
        t_eval: Array | None = None,
    ) -> None:
        self.t_end = t_end
        self.h = h
        self.stretches: list[Stretch] = []
        self._distance = math.inf  # between the rows of the record up to the row `_regular`
        self._regular = 0
        if t_eval is not None:
            if record_every is not None:
                raise IntegrationError(
                    "record_every and t_eval both say when states are recorded; leave one of them out"
                )
            self.times = _increasing(t_eval, t_end)
            self.first = min(self.interval, FIRST) if h is None else h
            if h is not None:
                self._stretch_between_times(h)
            return
        asked = None if record_every is None else positive("record_every", record_every, SECONDS)
        if h is None:
            # Steps fit themselves to the record, so only the record has a distance.
            distance = t_end / MOST_STATES if asked is None else asked
            self.first = min(distance, FIRST)
            rows, rest = whole(t_end, distance)
            self._check(rows, distance)
            ends = [t_end] * bool(rest)
        else:
            # The record is taken after whole numbers of steps. Steps that are left over after the last such
            # number (`extra`), and a last step that is shorter (`rest`), get rows, too.
            self.first = h
            steps, rest = whole(t_end, h)
            every = _steps_between_rows(steps, h, asked)
            distance = h * every
            rows, extra = divmod(steps, every)
            self._check(rows, distance)
            ends = [h * steps] * bool(extra) + [t_end] * bool(rest)
            if rows:
                self.stretches.append(Stretch(0.0, h, rows * every, every, 1))
            if extra:
                self.stretches.append(Stretch(rows * every * h, h, extra, extra, rows + 1))
            if rest:
                self.stretches.append(Stretch(steps * h, rest, 1, 1, rows + 1 + bool(extra)))
        # Products, not sums: round-off does not grow along the record.
        self.times = distance * np.arange(rows + 1.0)
        if ends:
            self.times = np.append(self.times, ends)
        self._distance = distance if rows else math.inf
        self._regular = rows

    @staticmethod
    def whole_steps(t_end: float, h: float) -> int | None:
        """The number of steps of length h that make up t_end; None if no whole number of them does."""
        steps = round(min(t_end / h, MOST_STEPS))
        return steps if abs(steps * h - t_end) <= ROUND_OFF * t_end else None

    @property
    def interval(self) -> float:
        """The shortest time between rows                                                              [s]"""
        return min(self._distance, np.diff(self.times[self._regular :]).min(initial=math.inf).item())

    def _check(self, rows: int, interval: float) -> None:
        """Raise IntegrationError for a record that no memory holds."""
        if rows > MOST_ROWS:
            raise IntegrationError(
                f"record_every = {interval} s makes {rows} records; take {self.t_end / MOST_STATES:g}, for "
                "instance"
            )

    def _stretch_between_times(self, h: float) -> None:
        """Steps of h from one time of the record to the next; where they do not fit, a shorter one ends."""
        begin = 0.0
        was_on_grid = False
        for row, end in enumerate(self.times[1:].tolist(), start=1):
            # Times that are multiples of h are reached by the same steps as in a run without these times.
            first, last = round(begin / h), round(end / h)
            on_grid = max(abs(first * h - begin), abs(last * h - end)) <= ROUND_OFF * h
            start = first * h if on_grid else begin
            steps, rest = (last - first, 0.0) if on_grid else whole(end - begin, h)
            if on_grid and was_on_grid and steps == self.stretches[-1].every:
                # Equal intervals are one stretch, because a stretch is one call.
                longer = self.stretches[-1].steps + steps
                self.stretches[-1] = self.stretches[-1]._replace(steps=longer)
            elif steps:
                self.stretches.append(Stretch(start, h, steps, steps, row))
            if rest:
                # It ends at the same row, and its state takes the place of the state before it.
                self.stretches.append(Stretch(start + steps * h, rest, 1, 1, row))
            begin, was_on_grid = end, on_grid

    @property
    def is_even(self) -> bool:
        """Whether all steps have the length h."""
        return all(stretch.h == self.h for stretch in self.stretches)

    @property
    def steps(self) -> Array:
        """Start and length of each step, (steps, 2); with h                                            [s]"""
        parts = [
            np.stack([s.t + s.h * np.arange(s.steps), np.full(s.steps, s.h)], axis=-1) for s in self.stretches
        ]
        return np.concatenate(parts)

    @property
    def steps_of_rows(self) -> list[int]:
        """After how many steps each row of the record is taken; with h."""
        after = [0] * len(self.times)
        done = 0
        for s in self.stretches:
            for k in range(s.steps // s.every):
                after[s.row + k] = done + (k + 1) * s.every
            done += s.steps
        return after


def _steps_between_rows(steps: int, h: float, asked: float | None) -> int:
    """The number of steps of h from one row of the record to the next, `asked` seconds apart."""
    every = steps / MOST_STATES if asked is None else round(min(asked / h, MOST_STEPS))
    every = max(1, math.ceil(every))
    if asked is not None and abs(h * every - asked) > 1e-6 * asked:
        raise IntegrationError(
            f"record_every = {asked} s is no multiple of dt = {h} s; take {h * every:g}, for instance"
        )
    return every


def _increasing(t_eval: Array, t_end: float) -> Array:
    """t_eval as an array (rows,); raises IntegrationError unless it increases from 0 to t_end."""
    times = floats("t_eval", t_eval)
    if times.ndim != 1 or len(times) < 2 or not (np.diff(times) > 0).all():
        raise IntegrationError(
            f"t_eval has shape {times.shape}, expected at least two increasing times (rows,)"
        )
    # The record of a motion has its start and its end, for energies, works and the last state.
    for name, time, given in (("the start", 0.0, times[0]), ("t_end", t_end, times[-1])):
        if not abs(given - time) <= ROUND_OFF * t_end:
            raise IntegrationError(
                f"t_eval goes from {times[0]:.9g} to {times[-1]:.9g} s, expected 0 to {t_end:.9g}: add "
                f"{name}, {time:.9g} s, because a run begins and ends with a recorded state"
            )
    return np.concatenate([[0.0], times[1:-1], [t_end]])


def whole(time: float, h: float) -> tuple[int, float]:
    """How many times h goes into a time, and the rest, if that is more than round-off."""
    ratio = time / h
    if not ratio < MOST_STEPS:
        raise IntegrationError(
            f"dt = {h} s is lost in the round-off of t_end = {time} s; take longer steps, or a shorter time"
        )
    # A ratio that is whole but for round-off counts as whole.
    number = math.floor(ratio * (1 + 1e-12))
    rest = time - number * h
    # A time without a whole step is all rest, however short it is beside h.
    return number, rest if rest > ROUND_OFF * h or not number else 0.0
