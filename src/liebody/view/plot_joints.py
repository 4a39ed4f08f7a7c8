"""Pictures of single joints: over time between their limits, and their rates over their angles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..base.arguments import checked, count, names
from ..base.errors import LiebodyError, ModelError, known
from ..bodies import NO_LIMIT, UNIT_OF_QUATERNIONS, Joint, Labels, Tree
from ..scalars import Array
from .figures import MOST_MEMBERS, PALETTE, draw_path, headline, members_of, shortened, written
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


class Row(NamedTuple):
    """A joint's coordinates and velocities of one kind: their places in q and v."""

    joint: str
    coordinates: list[int]
    dofs: list[int]


@np.errstate(all="ignore")
def plot_joints(
    run: Run, path: Any, joints: str | Sequence[str], system: Any, members: int, title: str | None
) -> Figure:
    """A row for each joint: coordinate, rate, effort over time, between their limits; as `Run.plot` says."""
    rows = _rows(run, joints)
    chosen, of = members_of(run, members)
    columns = [("q", run.coordinates, of(run.q, 2)), ("v", run.dofs, of(run.v, 2))]
    if run.tau is not None and run.drives is None:
        efforts = Labels(run.dofs.names, tuple(EFFORTS.get(unit, "") for unit in run.dofs.units))
        columns.append(("tau", efforts, of(run.tau, 2)))
    limits = _joints_by_name(run, system)

    size = (0.8 + 3.6 * len(columns), 0.8 + 1.6 * len(rows))
    figure = Picture(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(columns), sharex=True, squeeze=False)
    for axes, row in zip(grid, rows, strict=True):
        axes[0].set_title(shortened(row.joint), **NAME)
        for axis, (kind, labels, values) in zip(axes, columns, strict=True):
            at = row.coordinates if kind == "q" else row.dofs
            _draw_entries(axis, run.t, labels, values, at)
            if len(at) == 1 and row.joint in limits:
                far = _draw_limits(axis, values[..., at[0]], *_limits_of(limits[row.joint], kind))
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
    rows = _rows(run, _joints(run) if joints is None else joints)
    pairs = [(row.joint, q, v) for row in rows for q, v in _pairs(run, row)]
    if not pairs:
        raise LiebodyError(
            "no coordinate of these joints has a rate of its own, as quaternions have none; choose hinges or "
            "slides, run.plot_phase(joints='elbow')"
        )
    if joints is None:
        pairs = pairs[:MOST_PHASES]
    chosen, of = members_of(run, members)
    q = of(run.q, 2)
    v = of(run.v, 2)
    limits = _joints_by_name(run, system)

    across = len(pairs) if len(pairs) <= 3 else min(4, int(np.ceil(np.sqrt(len(pairs)))))
    down = -(-len(pairs) // across)
    figure = Picture(figsize=(0.9 + 3.1 * across, 0.9 + 2.6 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    colors = ScalarMappable(Normalize(run.t[0], run.t[-1]), "viridis_r")
    for axis, (joint, i, j) in zip(grid.flat, pairs, strict=False):
        points = np.stack([q[..., i], v[..., j]], axis=-1)
        axis.set_title(shortened(run.coordinates.names[i]), **NAME)
        if chosen == 1:
            # one motion is coloured by its time
            draw_path(axis, points[0], linewidths=1.3, capstyle="round").set(color=colors.to_rgba(run.t[:-1]))
        else:
            style = {"linewidths": 0.6, "alpha": max(0.25, 0.9 / chosen**0.3)}
            axis.add_collection(LineCollection(list(points), colors=PALETTE[0], **style))
        axis.plot(*points[:, 0].T, "o", ms=4.5 if chosen == 1 else 2.5, color="black", mec="white", mew=0.5)
        axis.autoscale_view()
        if joint in limits and run.coordinates.names[i] == joint:
            far = {
                run.coordinates.units[i]: _draw_limits(
                    axis, q[..., i], *_limits_of(limits[joint], "q"), across=True
                ),
                run.dofs.units[j]: _draw_limits(axis, v[..., j], *_limits_of(limits[joint], "v")),
            }
            _name_limits(axis, far)
        _finish(axis)
        axis.set_xlabel(_titled(run.coordinates.units[i]), fontsize=9)
        axis.set_ylabel(_titled(run.dofs.units[j]), fontsize=9)
        axis.xaxis.set_major_locator(MaxNLocator(5))
    for axis in list(grid.flat)[len(pairs) :]:
        axis.set_axis_off()
    if chosen == 1 and len(run.t) > 1:
        bar = figure.colorbar(colors, ax=list(grid.flat), shrink=0.7, aspect=30, pad=0.02)
        bar.set_label(TIME, fontsize=9)
        bar.ax.tick_params(labelsize=8)
    words = headline(run, chosen)
    if joints is None and len(pairs) < len(run.dofs):
        words += f",  {len(pairs)} of {len(run.dofs)} velocities"
    figure.suptitle(words if title is None else title, x=0.02, ha="left", fontsize=11)
    return written(figure, path)


def _rows(run: Run, joints: str | Sequence[str]) -> list[Row]:
    """The rows of these joints: a hinge has one, a joint in space one for its turn and one for its shift."""
    rows = []
    for name in dict.fromkeys(names(joints)):
        places = [_places(labels, name) for labels in (run.coordinates, run.dofs)]
        if not any(places):
            raise ModelError(f"there is no joint {name!r} in this run; {known(_joints(run), name)}")
        coordinates, dofs = places
        # entries of a kind belong together: a quaternion and the angular velocity, a position and its rate
        for q_units, v_unit in (((UNIT_OF_QUATERNIONS, "rad"), "rad/s"), (("m",), "m/s"), (("",), "")):
            of_kind = (
                [i for i in coordinates if run.coordinates.units[i] in q_units],
                [j for j in dofs if run.dofs.units[j] == v_unit],
            )
            if any(of_kind):
                rows.append(Row(name, *of_kind))
    if not rows:
        raise LiebodyError("no joints are named; name some, joints=['elbow'], or leave `joints` out")
    return rows


def _places(labels: Labels, joint: str) -> list[int]:
    """Where the entries of a joint stand; also of one entry that is named itself, "base.x"."""
    if joint in labels.names:
        return [labels.names.index(joint)]
    return [i for i, label in enumerate(labels.names) if label.startswith(f"{joint}.")]


def _joints(run: Run) -> list[str]:
    """The names of all joints: a hinge's entry is called as the joint, "base.x" is one of several."""
    return list(dict.fromkeys(x if x in run.dofs.names else _joint_of(x) for x in run.coordinates.names))


def _joint_of(label: str) -> str:
    return label.rpartition(".")[0] or label


def _pairs(run: Run, row: Row) -> list[tuple[int, int]]:
    """Coordinates whose velocities are their rates, with these.

    Velocities are those of the body: where it turns, too, they are not the rates of its position x, y, z.
    """
    labels = run.coordinates
    if not row.coordinates or len(row.coordinates) != len(row.dofs) or not labels.units[row.coordinates[0]]:
        return []
    first = labels.names[row.coordinates[0]]
    units = {labels.units[i] for i in _places(labels, _joint_of(first))} | {labels.units[row.coordinates[0]]}
    in_space = UNIT_OF_QUATERNIONS in units or ("rad" in units and first.endswith((".x", ".y", ".z")))
    return [] if in_space else list(zip(row.coordinates, row.dofs, strict=True))


def _joints_by_name(run: Run, system: Any) -> dict[str, Joint]:
    """The joints of what moves, which know limits: of the system, or of the run's own tree."""
    tree = run.tree if system is None else getattr(system, "tree", system)
    if system is not None and not isinstance(tree, Tree):
        raise ModelError(f"system is {system!r}, which has no joints with limits; give the robot that moves")
    return (
        {} if tree is None else {body.joint.name: body.joint for body in tree.bodies if body.joint.dim == 1}
    )


def _limits_of(joint: Joint, kind: str) -> tuple[float, float]:
    """The limits of a joint's coordinate ("q"), velocity ("v") or effort ("tau"); infinite: none."""
    most = {"v": joint.velocity_limit, "tau": joint.effort_limit}.get(kind)
    lower, upper = (joint.lower, joint.upper) if most is None else (-most, most)
    try:
        ends = float(lower[0]), float(upper[0])
    except TypeError:  # a symbol
        return -np.inf, np.inf
    low, high = (x if abs(x) < NO_LIMIT else np.copysign(np.inf, x) for x in ends)
    return float(low), float(high)


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
