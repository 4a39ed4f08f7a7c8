"""Pictures of gaits: branches over a parameter, basins."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

MARKS = {"fold": "s", "branch point": "P", "flip": "D", "Neimark-Sacker": "o"}
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f4fa0", "#4d4d4d")


def branches(several: Sequence[Any], path: Any, of: Callable[[Any], Any], label: str) -> Figure:
    """Branches as curves, stable parts as solid lines, others dashed; bifurcations as marks."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axis = figure.subplots()
    for color, branch in zip(np.resize(COLORS, len(several)), several, strict=True):
        curve = [*branch.orbits]
        for found in branch.bifurcations:
            if found.sides[0] in curve:  # the curve changes at the bifurcation itself
                curve.insert(curve.index(found.sides[0]) + 1, found.orbit)
        marked = [found.orbit for found in branch.bifurcations]
        for a, b in pairwise(curve):
            solid = all(orbit.stable or orbit in marked for orbit in (a, b))
            x, y = (
                [o.parameters[branch.parameter] for o in (a, b)],
                [np.sort(np.ravel(of(o))) for o in (a, b)],
            )
            axis.plot(x, y, "-" if solid else "--", color=color, lw=1.6 if solid else 1.0)
        for found in branch.bifurcations:
            mark = MARKS.get(found.kind, "x")
            for k, y in enumerate(np.ravel(of(found.orbit))):
                name = found.kind if k == 0 else "_"
                axis.plot(found.value, y, mark, color=color, ms=6, label=name, mfc="white")
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
