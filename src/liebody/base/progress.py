"""Progress bars of long computations: simulations, sweeps, films."""

from __future__ import annotations

import sys
from typing import Any

DELAY = 1.0  # time after which a bar is shown without being asked for [s]


class Progress:
    """A progress bar of tqdm, on standard error; where none is shown, tqdm is not imported.

    wanted  whether to show it; None: on a terminal, where the work takes longer than DELAY
    total   of the work
    style   of tqdm: unit, bar_format, initial
    """

    def __init__(self, wanted: bool | None, total: float, **style: Any) -> None:
        self.total = total
        self.bar = None
        terminal = sys.stderr is not None and sys.stderr.isatty()
        if terminal if wanted is None else wanted:
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
