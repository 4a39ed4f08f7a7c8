"""Progress on a terminal: bars of simulations, sweeps and films, and a line while code is compiled.

`$LIEBODY_PROGRESS` set to 0, off, no or false silences whatever a call does not ask for by `progress=True`.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any

from .errors import pass_on_signals

DELAY = 1.0  # time after which a bar or a line is shown without being asked for [s]
TICK = 0.25  # time between two looks at what is awaited [s]
SILENCE = ("0", "off", "no", "false")  # values of $LIEBODY_PROGRESS


def is_terminal() -> bool:
    """Whether a person may read standard error: a terminal, of a process that is no worker of another."""
    if os.environ.get("LIEBODY_PROGRESS", "").strip().lower() in SILENCE:
        return False
    # a worker process has imported this module; others need not
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return False
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except Exception as error:  # a closed stream, or one of the user's without `isatty`
        pass_on_signals(error)
        return False


class Progress:
    """A progress bar of tqdm, on standard error; where none is shown, tqdm is not imported.

    wanted  whether to show it; None: on a terminal, where the work takes longer than DELAY
    total   of the work
    style   of tqdm: unit, bar_format, initial
    """

    def __init__(self, wanted: bool | None, total: float, **style: Any) -> None:
        self.total = total
        self.bar = None
        if is_terminal() if wanted is None else wanted:
            from tqdm import tqdm

            delay = DELAY if wanted is None else 0.0
            self.bar = tqdm(total=total, delay=delay, file=sys.stderr, **style)

    def __enter__(self) -> Progress:
        return self

    @property
    def shown(self) -> bool:
        """Whether there is a bar, for which the work has to be done in parts."""
        return self.bar is not None

    def at(self, done: float) -> None:
        """Show that so much of the work is done."""
        if self.bar is not None:
            self.bar.update(min(done, self.total) - self.bar.n)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


_waiting: dict[int, Waiting] = {}  # the lines of threads that wait now; the oldest is shown
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_waiting.clear)  # these threads do not exist in the child


class Waiting:
    """A line on a terminal that says what is awaited, from DELAY on; it is removed at the end.

        with Waiting("compiling steps") as waiting:
            while not ready(timeout=waiting.tick):
                waiting.show("2 of 5 parts")

    The thread that waits writes the line itself: no other thread is needed, which forks would have to beware
    of. Threads need no lock either. Only the oldest of those that wait writes, each removes what it has
    written, and the next one writes within a TICK.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.tick = TICK if is_terminal() else None
        self._start = time.monotonic()
        self._width = 0  # columns that the line takes

    def __enter__(self) -> Waiting:
        if self.tick is not None:
            _waiting[id(self)] = self
        return self

    def show(self, how_far: str = "") -> None:
        """Write the line again."""
        seconds = time.monotonic() - self._start
        oldest = next(iter(list(_waiting.values())), None)
        if self.tick is None or seconds < DELAY or oldest is not self:
            return
        others = f" (and {len(_waiting) - 1} more)" if len(_waiting) > 1 else ""
        line = f"{self.what}{others}: {f'{how_far}, ' if how_far else ''}{seconds:.0f} s"
        # a line that is wrapped could not be removed
        line = line[: max(shutil.get_terminal_size().columns - 1, 0)]
        width, self._width = self._width, max(len(line), self._width)
        self._write(f"\r{line:{width}}")

    def __exit__(self, *_: object) -> None:
        _waiting.pop(id(self), None)
        if self._width:
            self._write(f"\r{'':{self._width}}\r")

    def _write(self, text: str) -> None:
        """Write to the terminal; if it is gone, nothing is shown any more."""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except Exception as error:
            pass_on_signals(error)
            self.tick = None
            self._width = 0
