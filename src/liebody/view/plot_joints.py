"""Pictures of single joints: over time between their limits, and their rates over their angles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..base.arguments import checked, count
from ..base.errors import LiebodyError
from ..bodies import UNIT_OF_QUATERNIONS, Labels
from ..scalars import Array
from .figures import MOST_MEMBERS, PALETTE, draw_path, headline, members_of, shortened, written
from .joints import joint_names, joints_by_name, limits_of, pairs_of, rows_of
from .picture import Picture

if TYPE_CHECKING:
    from ..runs import Run

BEYOND = "#d55e00"  # colour of what lies beyond a limit
EFFORTS = {"rad/s": "N m", "m/s": "N"}
QUANTITIES = {
    "rad": "angle",
    "m": "position",
    "rad/s": "rate",
    "m/s": "velocity",
    "N m": "effort",
    "N": "effort",
}
FAR = 1.5  # a limit that is farther away than this many ranges of the curve is named, and not drawn
MOST_PHASES = 16  # panels of a phase plot, where no joints are chosen
LONGEST_TITLE = 40  # above a panel, in letters of the joint's name
NAME: dict[str, Any] = {"loc": "left", "fontsize": 9, "fontweight": "bold"}
TIME = "time [s]"


@np.errstate(all="ignore")
def plot_joints(
    run: Run, path: Any, joints: str | Sequence[str], system: Any, members: int, title: str | None
) -> Figure:
    """A row for each joint: coordinate, rate, effort over time, between their limits; as `Run.plot` says."""
    rows = rows_of(run, joints)
    chosen, of = members_of(run, members)
    columns = [(kind, labels, of(values, 2)) for kind, (labels, values) in zip("qv", run.shown, strict=True)]
    if run.tau is not None and run.drives is None:
        labels = run.dofs
        efforts = Labels(labels.names, tuple(EFFORTS.get(unit, "") for unit in labels.units))
        columns.append(("tau", efforts, of(run.tau, 2)))
    limits = joints_by_name(run, system)

    size = (0.8 + 3.6 * len(columns), 0.8 + 1.6 * len(rows))
    figure = Picture(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(columns), sharex=True, squeeze=False)
    for axes, row in zip(grid, rows, strict=True):
        axes[0].set_title(shortened(row.joint), **NAME)
        for axis, (kind, labels, values) in zip(axes, columns, strict=True):
            at = row.coordinates if kind == "q" else row.dofs
            _draw_entries(axis, run.t, labels, values, at)
            if len(at) == 1 and row.joint in limits:
                far = _draw_limits(axis, values[..., at[0]], *limits_of(limits[row.joint], kind))
                _name_limits(axis, {labels.units[at[0]]: far})
            axis.xaxis.set_major_locator(MaxNLocator(5))
    for axis in grid[-1]:
        axis.set_xlabel(TIME, fontsize=9)
    figure.align_ylabels(grid)
    figure.suptitle(headline(run, chosen) if title is None else title, x=0.02, ha="left", fontsize=11)
    return written(figure, path)


@np.errstate(all="ignore")
@checked
def plot_phase(
    run: Run,
    path: str | os.PathLike[str] | None = None,
    *,
    joints: str | Sequence[str] | None = None,
    system: Any = None,
    members: int = MOST_MEMBERS,
    title: str | None = None,
) -> Figure:
    """Rates over angles of joints, a panel each; as `Run.plot_phase` says."""
    members = count("members", members)
    rows = rows_of(run, joint_names(run) if joints is None else joints)
    pairs = [(row.joint, q, v) for row in rows for q, v in pairs_of(run, row)]
    if not pairs:
        raise LiebodyError(
            "no coordinate of these joints has a rate of its own, as quaternions have none; choose hinges or "
            "slides, run.plot_phase(joints='elbow')"
        )
    if joints is None:
        pairs = pairs[:MOST_PHASES]
    chosen, of = members_of(run, members)
    (q_labels, q), (v_labels, v) = run.shown
    q, v = of(q, 2), of(v, 2)
    limits = joints_by_name(run, system)

    across = len(pairs) if len(pairs) <= 3 else min(4, int(np.ceil(np.sqrt(len(pairs)))))
    down = -(-len(pairs) // across)
    figure = Picture(figsize=(0.9 + 3.1 * across, 0.9 + 2.6 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    colors = ScalarMappable(Normalize(run.t[0], run.t[-1]), "viridis_r")
    for axis, (joint, i, j) in zip(grid.flat, pairs, strict=False):
        points = np.stack([q[..., i], v[..., j]], axis=-1)
        axis.set_title(shortened(q_labels.names[i]), **NAME)
        if chosen == 1:
            # one motion is coloured by its time
            draw_path(axis, points[0], linewidths=1.3, capstyle="round").set(color=colors.to_rgba(run.t[:-1]))
        else:
            style = {"linewidths": 0.6, "alpha": max(0.25, 0.9 / chosen**0.3)}
            axis.add_collection(LineCollection(list(points), colors=PALETTE[0], **style))
        axis.plot(*points[:, 0].T, "o", ms=4.5 if chosen == 1 else 2.5, color="black", mec="white", mew=0.5)
        axis.autoscale_view()
        if joint in limits and q_labels.names[i] == joint:
            far = {
                q_labels.units[i]: _draw_limits(axis, q[..., i], *limits_of(limits[joint], "q"), across=True),
                v_labels.units[j]: _draw_limits(axis, v[..., j], *limits_of(limits[joint], "v")),
            }
            _name_limits(axis, far)
        _finish(axis)
        axis.set_xlabel(_titled(q_labels.units[i]), fontsize=9)
        axis.set_ylabel(_titled(v_labels.units[j]), fontsize=9)
        axis.xaxis.set_major_locator(MaxNLocator(5))
    for axis in list(grid.flat)[len(pairs) :]:
        axis.set_axis_off()
    if chosen == 1 and len(run.t) > 1:
        bar = figure.colorbar(colors, ax=list(grid.flat), shrink=0.7, aspect=30, pad=0.02)
        bar.set_label(TIME, fontsize=9)
        bar.ax.tick_params(labelsize=8)
    words = headline(run, chosen)
    if joints is None and len(pairs) < len(v_labels):
        words += f",  {len(pairs)} of {len(v_labels)} velocities"
    figure.suptitle(words if title is None else title, x=0.02, ha="left", fontsize=11)
    return written(figure, path)


def _draw_entries(axis: Any, t: Array, labels: Labels, values: Array, at: list[int]) -> None:
    """A curve for each entry and member; values (members, nt, entries)."""
    members = len(values)
    style: dict[str, Any] = (
        {"lw": 1.3} if members == 1 else {"lw": 0.5, "alpha": max(0.25, 0.9 / members**0.3)}
    )
    for k, i in enumerate(at):
        curves = np.stack([np.broadcast_to(t, values.shape[:2]), values[..., i]], axis=-1)
        axis.add_collection(LineCollection(list(curves), colors=PALETTE[k % len(PALETTE)], **style))
        if len(at) > 1:
            axis.plot([], [], color=PALETTE[k % len(PALETTE)], label=labels.names[i].rpartition(".")[2])
    axis.autoscale_view()
    axis.margins(x=0)
    if len(at) > 1:
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": len(at)}
        axis.legend(fontsize=7, frameon=False, borderaxespad=0.2, handlelength=1.2, columnspacing=1, **place)
    axis.set_ylabel(_titled(labels.units[at[0]]) if at else "", fontsize=9)
    _finish(axis)


def _draw_limits(axis: Any, x: Array, low: float, high: float, across: bool = False) -> list[float]:
    """Shade what lies beyond the limits of values x, where these are near; the limits that are far away.

    across  whether the values are along the first axis of the picture, instead of the second
    """
    values = x[np.isfinite(x)]
    if not len(values) or not np.isfinite([low, high]).any():
        return []
    least = float(values.min())
    most = float(values.max())
    span = max(most - least, 0.02 * (high - low) if np.isfinite(high - low) else 0.0, 1e-9)
    # the panel holds the values and the limits that are near
    is_near = [least - low < FAR * span, high - most < FAR * span]
    bottom = min(least, low) if is_near[0] else least
    top = max(most, high) if is_near[1] else most
    pad = 0.07 * max(top - bottom, span)
    edge = (bottom - pad, top + pad)
    (axis.set_xlim if across else axis.set_ylim)(*edge)
    draw_span, draw_line = (axis.axvspan, axis.axvline) if across else (axis.axhspan, axis.axhline)
    for limit, near, outer in ((low, is_near[0], edge[0]), (high, is_near[1], edge[1])):
        if near:
            draw_span(limit, outer, color=BEYOND, alpha=0.14, lw=0, zorder=0)
            draw_line(limit, color=BEYOND, lw=0.9, ls=(0, (4, 2)), zorder=1)
    return [x for x, near in zip((low, high), is_near, strict=True) if np.isfinite(x) and not near]


def _name_limits(axis: Any, far: dict[str, list[float]]) -> None:
    """Name the limits beyond the panel above it, by their units."""
    words = []
    for unit, limits in far.items():
        both = len(limits) == 2 and limits[0] == -limits[1]
        numbers = f"\N{PLUS-MINUS SIGN}{limits[1]:.3g}" if both else " and ".join(f"{x:.3g}" for x in limits)
        words += [f"{numbers} {unit}".replace("-", "\N{MINUS SIGN}")] if limits else []
    if words:
        single = sum(map(len, far.values())) == 1
        text = f"{'limit' if single else 'limits'} {', '.join(words)}"
        name = axis.get_title("left")
        # where both do not fit beside each other, the name of the joint moves up
        if len(name) + 0.75 * len(text) > LONGEST_TITLE:
            axis.set_title(f"{name}\n", **NAME)
        axis.set_title(text, loc="right", fontsize=7, color=BEYOND)


def _titled(unit: str) -> str:
    if unit == UNIT_OF_QUATERNIONS:
        return "quaternion"
    return f"{QUANTITIES.get(unit, 'value')} [{unit}]" if unit else "value"


def _finish(axis: Any) -> None:
    axis.grid(alpha=0.25, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
    axis.yaxis.set_major_locator(MaxNLocator(5))
    axis.ticklabel_format(axis="y", scilimits=(-3, 4), useOffset=False)
