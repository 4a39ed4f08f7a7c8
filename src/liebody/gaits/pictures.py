"""Pictures of gaits: branches over a parameter, basins."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.figure import Figure

MARKS = {"fold": "s", "branch point": "P", "flip": "D", "Neimark-Sacker": "o"}
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f4fa0", "#4d4d4d")


def branches(several: Sequence[Any], path: Any, of: Callable[[Any], float], label: str) -> Figure:
    """Branches as curves, stable parts as solid lines, others dashed; bifurcations as marks."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axis = figure.subplots()
    for color, branch in zip(np.resize(COLORS, len(several)), several, strict=True):
        x, y, stable = branch.values, np.array([of(orbit) for orbit in branch.orbits]), branch.stable
        for solid, part in groupby(range(len(x)), key=lambda i: bool(stable[i])):
            i = [*part]
            i = [*i, i[-1] + 1] if i[-1] + 1 < len(x) else i
            axis.plot(x[i], y[i], "-" if solid else "--", color=color, lw=1.6 if solid else 1.0)
        for found in branch.bifurcations:
            mark = MARKS.get(found.kind, "x")
            axis.plot(found.value, of(found.orbit), mark, color=color, ms=6, label=found.kind, mfc="white")
    shown = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    if shown:
        axis.legend(shown.values(), shown.keys(), frameon=False, fontsize=8)
    axis.set_xlabel(several[0].parameter)
    axis.set_ylabel(label)
    axis.spines[["top", "right"]].set_visible(False)
    return saved(figure, path)


def saved(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
