"""Pictures of gaits: branches over a parameter, basins, designs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ..base.errors import ConfigurationError
from ..view.picture import Picture

MARKS = {"fold": "s", "branch point": "P", "flip": "D", "Neimark-Sacker": "o"}
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f4fa0", "#4d4d4d")


def branches(several: Sequence[Any], path: Any, of: Callable[[Any], Any], label: str) -> Figure:
    """Branches as curves, stable parts as solid lines, others dashed; bifurcations as marks."""
    figure = Picture(figsize=(7, 4.2), layout="constrained")
    axis = figure.subplots()
    for color, branch in zip(np.resize(COLORS, len(several)), several, strict=True):
        curve = [*branch.orbits]
        for bifurcation in branch.bifurcations:
            # the curve changes its stability at the bifurcation itself, not at an orbit beside it
            if bifurcation.sides[0] in curve:
                curve.insert(curve.index(bifurcation.sides[0]) + 1, bifurcation.orbit)
        marked = [bifurcation.orbit for bifurcation in branch.bifurcations]
        for a, b in pairwise(curve):
            # solid where both ends are stable; a bifurcation itself counts as either
            solid = all(orbit.stable or orbit in marked for orbit in (a, b))
            x = [o.parameters[branch.parameter] for o in (a, b)]
            y = [np.sort(np.ravel(of(o))) for o in (a, b)]
            axis.plot(x, y, "-" if solid else "--", color=color, lw=1.6 if solid else 1.0)
        for bifurcation in branch.bifurcations:
            mark = MARKS.get(bifurcation.kind, "x")
            for k, y in enumerate(np.ravel(of(bifurcation.orbit))):
                name = bifurcation.kind if k == 0 else "_"
                axis.plot(bifurcation.value, y, mark, color=color, ms=6, label=name, mfc="white")
    # one entry of the legend for each kind, however often it is marked
    shown = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    if shown:
        axis.legend(shown.values(), shown.keys(), frameon=False, fontsize=8)
    axis.set_xlabel(several[0].parameter)
    axis.set_ylabel(label)
    axis.spines[["top", "right"]].set_visible(False)
    return saved(figure, path)


def basin(found: Any, path: Any) -> Figure:
    """Outcomes over the first two axes, at the first values of further axes."""
    names = list(found.axes)
    if len(names) < 2:
        raise ConfigurationError(f"a basin over {names} has no picture; give it two axes")
    colors = ["#e8e8e8", "#ffffff", *np.resize(COLORS, len(found.attractors))]
    shown = found.outcome[(..., *[0] * (len(names) - 2))]
    figure = Picture(figsize=(6.4, 5), layout="constrained")
    axis = figure.subplots()
    x = found.axes[names[1]]
    y = found.axes[names[0]]
    axis.pcolormesh(
        x, y, shown, cmap=ListedColormap(colors), vmin=-0.5, vmax=len(colors) - 0.5, shading="nearest"
    )
    words = ["ended early", "not settled", *[f"period {a.period:.4g} s" for a in found.attractors]]
    for color, word, share in zip(colors, words, found.shares, strict=True):
        # empty curves stand for the colours in the legend
        if share > 0:
            axis.plot([], [], "s", color=color, mec="#999999", label=f"{word}: {100 * share:.1f} %")
    axis.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.1), ncols=2)
    axis.set_xlabel(names[1])
    axis.set_ylabel(names[0])
    return saved(figure, path)


def designs(found: Any, path: Any) -> Figure:
    """Two objectives of all designs, with the front; or one objective over the designs in their order."""
    figure = Picture(figsize=(7, 4.2), layout="constrained")
    axis = figure.subplots()
    names = found.objectives
    numbered = [(i, x) for i, x in enumerate(found.tried) if not x.failure]
    start = found.tried[0]
    for inside in (False, True):
        shown = [(i, x) for i, x in numbered if x.feasible == inside]
        if not shown:
            continue
        if len(names) > 1:
            x, y = ([design.objectives[name] for _, design in shown] for name in names[:2])
        else:
            x = [i for i, _ in shown]
            y = [design.objectives[names[0]] for _, design in shown]
        words = "within the limits" if inside else "beyond a limit"
        style = {"color": COLORS[0], "alpha": 0.6} if inside else {"color": "#b0b0b0"}
        axis.plot(x, y, "o" if inside else "x", ms=4, mew=0.8, lw=0, label=f"{words}: {len(shown)}", **style)
    if len(names) > 1:
        front = found.front
        x, y = ([design.objectives[name] for design in front] for name in names[:2])
        axis.plot(x, y, "o-", color=COLORS[1], ms=5, lw=1.2, label=f"front: {len(front)}")
        axis.plot(*(start.objectives[name] for name in names[:2]), "*", color="k", ms=11, label="start")
        axis.set_xlabel(names[0])
        axis.set_ylabel(names[1])
    else:
        feasible = [(i, x.objectives[names[0]]) for i, x in numbered if x.feasible]
        if feasible:
            places, values = zip(*feasible, strict=True)
            least = np.minimum.accumulate(values)
            axis.step(places, least, where="post", color=COLORS[1], lw=1.4, label="least so far")
        axis.plot(0, start.objectives[names[0]], "*", color="k", ms=11, label="start")
        axis.set_xlabel("designs tried")
        axis.set_ylabel(names[0])
    if found.failed:
        axis.plot([], [], " ", label=f"without a gait: {len(found.failed)}")
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    return saved(figure, path)


def saved(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
