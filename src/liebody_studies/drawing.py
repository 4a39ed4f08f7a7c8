"""What the pictures of several studies have in common: colours, axes without frames, errors as bars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .report import EXACT, Correction

INK, GREY, LINE = "#1b1f24", "#5b6470", "#d8dde3"
BLUE, AMBER, GREEN, RED = "#1f5fa8", "#d9921a", "#14663a", "#b3261e"


def plain(*axes: Any) -> None:
    """Axes without the frame's upper and right sides."""
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)


def beside(axis: Any, size: float = 8) -> None:
    """A legend at the right of a picture."""
    axis.legend(frameon=False, fontsize=size, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def bars(found: Iterable[Correction], bottom: float, top: float) -> Figure:
    """The relative errors of corrections, as printed and as corrected; exact zeros stand at 1e-17."""
    shown = [(c.number, c.before, max(c.after, 1e-17)) for c in found if c.before is not None]
    numbers, before, after = zip(*shown, strict=True)
    figure, places = Figure(figsize=(8, 3)), np.arange(len(shown))
    axis = figure.subplots()
    axis.vlines(places, after, before, color=LINE, linewidth=2, zorder=1)
    axis.scatter(places, before, color=AMBER, label="as printed")
    axis.scatter(places, after, color=BLUE, label="corrected")
    axis.set(yscale="log", ylim=(bottom, top), ylabel="relative error")
    axis.set_xticks(places, numbers)
    axis.axhline(EXACT, color=GREY, linewidth=0.8, linestyle=":")
    axis.legend(frameon=False, loc="upper right", ncols=2)
    plain(axis)
    return figure
