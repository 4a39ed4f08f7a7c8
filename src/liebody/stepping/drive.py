"""The driver of all motions: it carries the members of an ensemble along the rows of their record.

`simulate`, hybrid systems, time stepping and the trajectories of implicit methods have different states,
efforts and results. The drive is the same: steps of one length, or a march in which members choose their
steps; a progress bar; an end by Ctrl-C, after which the record holds what was reached.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base.arguments import count
from ..base.progress import Progress
from .clock import Clock, Stretch
from .loop import CompiledSteps
from .march import STOPPED, Ensemble, Settings
from .samples import Samples

MOST_EVENTS = 100_000  # of a member that are kept, by default
MANY = 2**62  # steps of members that choose their steps: nobody knows how many there will be
WORTH_THREADS = 20_000  # steps of all members from which on several threads are sooner done than one
FEW_STEPS = 1000  # of all members, which take less than CHUNK
CHUNK = 0.25  # seconds between two looks at the progress bar
BAR = "{l_bar}{bar}| {n:.3g}/{total:.3g} s simulated [{elapsed}<{remaining}]"


class Drive:
    """The members of an ensemble on their way through time.

    flow         whose steps they take
    members      their states, times, records, events and ends
    samples      efforts and parameters over time
    clock        the times of the record, and the stretches of steps of one length
    settings     how members march, each with its own steps; None: they take steps of one length together
    threads      threads that share the members; None: all processors where that is sooner
    failed       1 + the row from which on a member is lost, or 0, (n,)
    interrupted  the KeyboardInterrupt that ended the drive early, or None
    """

    def __init__(
        self,
        flow: CompiledSteps,
        members: Ensemble,
        samples: Samples,
        clock: Clock,
        settings: Settings | None = None,
        threads: int | None = 1,
    ) -> None:
        self.flow = flow
        self.members = members
        self.samples = samples
        self.clock = clock
        self.settings = settings
        steps = sum(stretch.steps for stretch in clock.stretches) if settings is None else MANY
        self.threads = threads_of(threads, len(members.y), steps)
        self.failed = np.zeros(len(members.y), np.int64)
        self.interrupted: KeyboardInterrupt | None = None

    def go(self, progress: bool | None = False) -> None:
        """Advance the members to their ends, or to where Ctrl-C stops them; `progress` as in `simulate`."""
        try:
            with Progress(progress, self.clock.t_end, bar_format=BAR) as bar:
                if self.settings is None:
                    self._take_steps_of_one_length(bar)
                else:
                    self._march(bar, self.settings)
        except KeyboardInterrupt as stop:
            # The record up to here becomes a run, which goes with the exception.
            self.interrupted = stop
            self.failed[:] = 0

    def record(self, whole: bool = True) -> tuple[Any, Any]:
        """Times, and states (n, rows, point); NaN of members from where they are lost.

        whole  False: without the rows after the end of a single motion that a terminal event ends

        After an interruption only rows that some member has reached are returned.
        """
        members = self.members
        for i in self.failed.nonzero()[0]:
            members.record[i, self.failed[i] - 1 :] = np.nan
        ended = not whole and members.ends[0, 1] == STOPPED
        return members.reached() if self.interrupted or ended else (members.times, members.record)

    def _take_steps_of_one_length(self, bar: Progress) -> None:
        """The stretches of the clock, which all members take together."""
        members = self.members
        for stretch in self.clock.stretches:
            for t, h, steps, every, row in self._pieces(stretch, bar):
                try:
                    self.flow.steps(
                        members.y, self.samples, t, h, steps, every, members.record, row, self.failed,
                        self.threads, members.ends, members.nearest,
                    )  # fmt: skip
                except KeyboardInterrupt as stop:
                    # Where the steps can tell, the record goes on to the time at which the signal came.
                    reached = getattr(stop, "reached", None)
                    if reached is not None:
                        members.clock["t"] = reached
                        members.interrupt(len(members.times))
                    raise

    def _pieces(self, stretch: Stretch, bar: Progress) -> Iterator[Stretch]:
        """A stretch in pieces, each of which brings the bar up to date; without a bar, the whole stretch."""
        if not bar.shown:
            yield stretch
            return
        t, h, _, every, row = stretch
        some = max(1, FEW_STEPS // (every * len(self.members.y)))
        for done, rows in _chunks(stretch.steps // every, some):
            yield Stretch(t + done * every * h, h, rows * every, every, row + done)
            bar.at(t + (done + rows) * every * h)

    def _march(self, bar: Progress, settings: Settings) -> None:
        """Steps that each member chooses for itself, from row to row of the record."""
        members = self.members
        rows = len(members.times) - 1
        for done, some in _chunks(rows) if bar.shown else [(0, rows)]:
            self.flow.march(members, self.samples, 1 + done + some, settings, self.threads)
            bar.at(members.times[done + some])
        # A member that ended without a terminal event is lost, from the row on that it did not reach.
        lost = (members.ends[:, 1] > 0) & (members.ends[:, 1] != STOPPED)
        self.failed[lost] = members.clock["row"][lost] + 1


def threads_of(threads: int | None, members: int, steps: int) -> int:
    """The number of threads that share so many members for so many steps; None: as many as are worth it.

    Results do not depend on it. Raises ArgumentError for a number that is no positive integer.
    """
    if threads is not None:
        return count("threads", threads)
    worth = members > 1 and members * steps >= WORTH_THREADS
    return (os.cpu_count() or 1) if worth else 1


def _chunks(rows: int, some: int = 1) -> Iterator[tuple[int, int]]:
    """(rows done, rows to do next) until so many are done, each time for about a quarter of a second.

    some  rows that take less than that, to begin with
    """
    # The first chunk is small; from the time that it took follows how large the next one may be. Growth is
    # limited, because the time of a small chunk is uncertain.
    done = 0
    while done < rows:
        some = min(some, rows - done)
        start = time.perf_counter()
        yield done, some
        done += some
        some = max(1, int(some * min(100.0, CHUNK / max(time.perf_counter() - start, 1e-9))))
