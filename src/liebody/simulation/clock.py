"""The length of the steps of a motion, how many there are, and the times of its record."""

from __future__ import annotations

import math

import numpy as np

from ..base.errors import SECONDS, IntegrationError, positive
from ..integrators import MechanicalMethod, Method
from ..scalars import Array

DEFAULT_STEP = 1e-3  # [s]
MOST_STATES = 1000  # recorded by default
MOST_ROWS = 10**9
MOST_STEPS = 2**53  # beyond which t + dt is t


def step_of(
    method: Method | MechanicalMethod, t_end: float, dt: float | None, record_every: float | None
) -> float | None:
    """The length of the steps; None: under error control.

    A method that does not estimate its errors takes steps of at most DEFAULT_STEP where no dt is given, a
    whole number of them up to t_end, and from record to record.
    """
    if dt is not None:
        return positive("dt", dt, SECONDS)
    if method.error_weights if isinstance(method, Method) else method.estimates_errors:
        return None
    time = t_end if record_every is None else min(t_end, positive("record_every", record_every, SECONDS))
    return time / math.ceil(min(time / DEFAULT_STEP, MOST_STEPS) * (1 - 1e-9))


def check_fit(method: Method | MechanicalMethod, t_end: float, h: float | None) -> None:
    """Raise IntegrationError where a method cannot take steps of h to t_end; None: under error control."""
    if isinstance(method, Method) or h is None:
        return
    if abs(round(min(t_end / h, MOST_STEPS)) * h - t_end) > 1e-9 * t_end:
        raise IntegrationError(
            f"{method.name} takes steps of one length, and t_end = {t_end:g} s is no multiple of dt = {h:g} s"
        )


class Clock:
    """The steps of a run and the times of its record.

    h, first      length of the steps, None: under error control; and of the first one, in any case     [s]
    steps, every  how many whole ones there are, and after how many of them a state is recorded
    rows          of the record at such distances, after the first; `extra` steps and a `rest` [s] follow
    times         of the record, from 0 to t_end                                                        [s]
    """

    def __init__(self, t_end: float, h: float | None, record_every: float | None) -> None:
        asked = None if record_every is None else positive("record_every", record_every, SECONDS)
        self.t_end = t_end
        self.h = h
        self.steps = 0
        self.every = 1
        self.extra = 0
        if h is None:
            # Under error control steps fit themselves to the record, so only the record has a distance.
            interval = t_end / MOST_STATES if asked is None else asked
            self.first = min(interval, 1e-3)
            self.rows, self.rest = _whole(t_end, interval)
        else:
            # Steps of one length: the record is taken after whole numbers of them. Steps that are left over
            # after the last such number (`extra`), and a last step that is shorter (`rest`), get rows, too.
            self.first = h
            self.steps, self.rest = _whole(t_end, h)
            every = self.steps / MOST_STATES if asked is None else round(min(asked / h, MOST_STEPS))
            self.every = max(1, math.ceil(every))
            interval = h * self.every
            if asked is not None and abs(interval - asked) > 1e-6 * asked:
                raise IntegrationError(
                    f"record_every = {asked} s is no multiple of dt = {h} s; take {interval:g}, for instance"
                )
            self.rows, self.extra = divmod(self.steps, self.every)
        if self.rows > MOST_ROWS:
            raise IntegrationError(
                f"record_every = {interval} s makes {self.rows} records; take {t_end / MOST_STATES:g}, for "
                "instance"
            )
        # Products, not sums: round-off does not grow along the record.
        self.times = interval * np.arange(self.rows + 1.0)
        ends = [self.first * self.steps] * bool(self.extra) + [t_end] * bool(self.rest)
        if ends:
            self.times = np.append(self.times, ends)

    @property
    def lengths(self) -> Array:
        """The lengths of all steps of one length, and of the shorter last one (steps,)                 [s]"""
        assert self.h is not None
        return np.append(np.full(self.steps, self.h), [self.rest] if self.rest else [])

    @property
    def steps_of_rows(self) -> list[int]:
        """After how many steps each row of the record is taken."""
        whole = [*range(0, self.steps + 1, self.every), *([self.steps] if self.extra else [])]
        return [*whole, *([self.steps + 1] if self.rest else [])]


def _whole(time: float, h: float) -> tuple[int, float]:
    """How many times h goes into a time, and the rest, if that is more than round-off."""
    ratio = time / h
    if not ratio < MOST_STEPS:
        raise IntegrationError(
            f"dt = {h} s is lost in the round-off of t_end = {time} s; take longer steps, or a shorter time"
        )
    # A ratio that is whole but for round-off counts as whole.
    whole = math.floor(ratio * (1 + 1e-12))
    rest = time - whole * h
    return whole, rest if rest > 1e-9 * h else 0.0
