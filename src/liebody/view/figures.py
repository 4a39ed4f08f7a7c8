"""Parts of figures: curves of members, paths, axes around points; chosen members, titles, files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from ..base.errors import LiebodyError, pass_on_signals
from ..base.texts import path_of
from ..bodies import Labels
from ..scalars import Array

if TYPE_CHECKING:
    from ..runs import Run

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f4fa0", "#4d4d4d")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
LONGEST_LEGEND = 12
LONGEST_NAME = 26
DOTS_PER_INCH = 150
MOST_MEMBERS = 40
THINNEST = 0.5  # edge of a box in space, in its longest edge


def members_of(run: Run, most: int) -> tuple[int, Callable[[Array, int], Array]]:
    """How many members are drawn; and a function that takes them out of values with `own` last axes."""
    count = int(np.prod(run.batch))
    chosen = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))

    def of(values: Array, own: int) -> Array:
        return values.reshape(count, *values.shape[values.ndim - own :])[chosen]

    return len(chosen), of


def headline(run: Run, drawn: int) -> str:
    """The model, the method, its step, and how many members are drawn."""
    count = int(np.prod(run.batch))
    words = [str(run.metadata.get("model", "")), str(run.metadata.get("method", ""))]
    if "dt" in run.metadata:
        words.append(f"dt = {run.metadata['dt']:g} s")
    if count > 1:
        words.append(f"{drawn} of {count} members" if drawn < count else f"{count} members")
    return ",  ".join(word for word in words if word)


def _styles(n: int) -> Sequence[tuple[Any, Any]]:
    """Colour and dashes of each of n curves: every colour in turn, solid, then dashed; many: a gradient."""
    # colours first, then dashes; beyond that a gradient, where single curves are not told apart anyway
    if n <= len(PALETTE) * len(DASHES):
        return [(PALETTE[i % len(PALETTE)], DASHES[i // len(PALETTE)]) for i in range(n)]
    from matplotlib import colormaps

    return [(color, "solid") for color in colormaps["viridis"](np.linspace(0.0, 0.93, n))]


def draw_curves(axis: Any, t: Array, labels: Labels, values: Array, legend: str = "right") -> None:
    """A curve for each label and member, values (members, nt, labels); at most LONGEST_LEGEND are named.

    legend  where the names stand: "right" of the panel, "above" it, "" nowhere
    """
    n = len(labels)
    members = len(values)
    style = {"lw": 1.2} if members == 1 else {"lw": 0.5, "alpha": max(0.25, 0.9 / members**0.3)}
    styles = _styles(n)
    for i in range(n):
        # one collection for all members of a label: thousands of lines draw fast
        curves = np.stack([np.broadcast_to(t, values.shape[:2]), values[..., i]], axis=-1)
        color, dashes = styles[i]
        axis.add_collection(LineCollection(list(curves), colors=[color], linestyles=[dashes], **style))
    axis.autoscale_view()
    axis.margins(x=0)
    # a long legend names some curves, evenly chosen
    named = range(n) if n <= LONGEST_LEGEND else np.linspace(0, n - 1, LONGEST_LEGEND - 1).round().astype(int)
    for i in named:
        color, dashes = styles[i]
        axis.plot([], [], color=color, ls=dashes, lw=1.6, label=shortened(labels.names[i]))
    if len(named) < n:
        axis.plot([], [], " ", label=f"{len(named)} of {n} named")
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02)}
    if legend == "above":
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": n}
    if legend:
        style = {"frameon": False, "borderaxespad": 0.4, "handlelength": 2.2, "labelspacing": 0.25}
        axis.legend(fontsize=7.5, **style, **place)
    axis.grid(alpha=0.25, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.set_major_locator(MaxNLocator(5))
    axis.ticklabel_format(axis="y", scilimits=(-3, 4), useOffset=False)


def shortened(name: str) -> str:
    """A long name with dots in its middle."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}...{name[-6:]}"


def draw_path(scene: Any, path: Array, **style: Any) -> Any:
    """A path (nt, 2 or 3) as pieces between neighbours."""
    kind = LineCollection if path.shape[1] == 2 else Line3DCollection
    return scene.add_collection(kind(list(np.stack([path[:-1], path[1:]], axis=1)), **style))


def fit_around(scene: Any, points: Array, labels: list[str]) -> None:
    """Equal scales, around all points."""
    # a margin around all points, and one scale for all axes
    low = points.min(axis=0)
    high = points.max(axis=0)
    longest = max(np.max(high - low), 1e-9)
    if points.shape[1] == 3:
        # a thin box has no room for the numbers at its short edges
        more = np.maximum(0, THINNEST * longest - (high - low)) / 2
        low, high = low - more, high + more
    pad = 0.04 * longest
    for i, name in enumerate("xyz"[: points.shape[1]]):
        getattr(scene, f"set_{name}lim")(low[i] - pad, high[i] + pad)
        getattr(scene, f"set_{name}label")(labels[i], fontsize=8)
    scene.tick_params(labelsize=8)
    if points.shape[1] == 2:
        scene.set_aspect("equal")
        scene.grid(alpha=0.25, lw=0.5)
        return
    # a tall box would push the labels below it out of the picture
    is_tall = high[2] - low[2] > np.max(high[:2] - low[:2])
    scene.set_box_aspect(high - low + 2 * pad, zoom=1.0 if is_tall else 1.18)
    scene.view_init(elev=18, azim=-60)
    for axis, length in zip((scene.xaxis, scene.yaxis, scene.zaxis), high - low, strict=True):
        axis.set_pane_color((1, 1, 1, 0))
        axis.set_major_locator(MaxNLocator(5 if length > 0.7 * longest else 3))
        axis.line.set_color("#999999")
        axis._axinfo["grid"].update(color="#e4e4e4", linewidth=0.5)  # mplot3d has no public way


def written(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """The figure, written to a file if one is named; raises LiebodyError."""
    if path is not None:
        path = path_of("the name of the picture", path)
        try:
            figure.savefig(path, dpi=DOTS_PER_INCH)
        except (OSError, ValueError) as error:
            pass_on_signals(error)
            raise LiebodyError(f"cannot write the picture {path}: {error}") from error
    return figure
