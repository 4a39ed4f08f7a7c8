"""Pictures of runs: states and energies over time, and the mechanism in motion.

Figures are made without pyplot: no display is needed, and no state is left behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from ..base.arguments import checked, count
from ..base.errors import SECONDS, LiebodyError, pass_on_signals, positive
from ..base.texts import path_of
from ..bodies import UNIT_OF_QUATERNIONS, Labels, Tree
from ..scalars import Array
from .picture import Picture

if TYPE_CHECKING:
    from ..robot import Robot
    from ..runs import Run


PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f4fa0", "#4d4d4d")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
LONGEST_LEGEND = 12
LONGEST_NAME = 26
MOST_MEMBERS = 40
DOTS_PER_INCH = 150
TITLES = {"rad": "angle", "m": "position", "rad/s": "angular velocity", "m/s": "velocity", "N": "effort"}


@np.errstate(all="ignore")
@checked
def plot_run(
    run: Run,
    path: str | os.PathLike[str] | None = None,
    *,
    members: int = MOST_MEMBERS,
    title: str | None = None,
) -> Figure:
    """Coordinates, velocities, efforts and energies over time, a panel for each unit.

    path     file to write, its suffix says how: .png, .pdf, .svg
    members  how many of a batch are drawn, evenly chosen, as thin lines
    title    above the panels; the run's own words if None

    Raises LiebodyError for a file that cannot be written.
    """
    # members evenly chosen, the same ones in all panels
    chosen, of = _members(run, count("members", members))
    # a panel for each unit of coordinates and velocities, then efforts, energies and their change
    panels: list[tuple[str, Labels, Array]] = []
    for labels, values in run.shown:
        for unit in dict.fromkeys(labels.units):
            panels.append((_title(unit), *_of_unit(labels, of(values, 2), unit)))
    if run.shown_efforts is not None:
        panels.append(("effort [N m, N]", run.shown_efforts[0], of(run.shown_efforts[1], 2)))
    if run.has_energies:
        kinds = {"kinetic": run.kinetic, "potential": run.potential, "total": run.energy}
        if run.work_done is not None:
            kinds["work done"] = run.work_done
        energies = Labels(tuple(kinds), ("J",) * len(kinds))
        panels.append(("energy [J]", energies, np.stack([of(x, 1) for x in kinds.values()], axis=-1)))
        left = "E(t) - E(0)" if run.work_done is None else "E(t) - E(0) - W"
        panels.append(("energy change [J]", Labels((left,), ("J",)), of(run.energy_balance, 1)[..., None]))

    # panels below each other share the axis of time
    figure = Picture(figsize=(9.5, 0.7 + 1.75 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (label, labels, values) in zip(axes, panels, strict=True):
        _curves(axis, run.t, labels, values)
        axis.set_ylabel(label)
    axes[-1].set_xlabel("time [s]")
    figure.align_ylabels(axes)
    figure.suptitle(_headline(run, chosen) if title is None else title, x=0.02, ha="left", fontsize=11)
    return _written(figure, path)


@checked
def plot_motion(
    robot: Robot,
    run: Run,
    path: str | os.PathLike[str] | None = None,
    *,
    instants: int = 7,
    window: float | None = None,
) -> Figure:
    """The mechanism at several instants, the trace of its tip, and its energy.

    path      file to write: .png, .pdf, .svg
    instants  how many pictures of the mechanism
    window    time that they span, up to the end of the run; all of it if None                       [s]

    Links are drawn from joint to joint, and from the last joint of a branch to its named frame or its centre
    of mass; dots are centres of mass. The first member of a batch is drawn. The function is long because it
    lays out three panels one after the other.
    """
    instants = count("instants", instants)
    run = run.member(*(0,) * len(run.batch))
    # a member that diverged is drawn up to there
    good = np.isfinite(run.q).all(axis=-1)
    t = run.t[good]
    poses = robot.poses(run.q[good])
    first = 0 if window is None else int(np.searchsorted(t, t[-1] - positive("window", window, SECONDS)))
    shown = np.unique(np.linspace(first, len(t) - 1, instants).round().astype(int))
    segments, masses, tip = _skeleton(robot.tree, poses)

    figure = Picture(figsize=(10.5, 6.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.45, 1))
    # a motion in a coordinate plane is drawn flat, any other one in space
    points = np.concatenate([segments[shown].reshape(-1, 3), tip])
    flat = _plane_of(points)
    view = list(flat or (0, 1, 2))
    scene = figure.add_subplot(grid[:, 0], **({} if flat else {"projection": "3d", "computed_zorder": False}))
    colors = ScalarMappable(Normalize(t[first], t[-1]), "viridis_r")

    # the path before the window is grey, within it coloured by time
    _trace(scene, tip[: first + 1, view], color="#c8c8c8", linewidths=0.6)
    pieces = _trace(scene, tip[first:, view], linewidths=1.1)
    pieces.set(color=colors.to_rgba(t[first:-1]))
    size = 9 / (1 + 0.05 * len(masses)) * np.cbrt(masses / max(masses))
    for rank, k in enumerate(shown, start=1):
        # later pictures of the mechanism stand out from earlier ones
        style: dict[str, Any] = {
            "color": colors.to_rgba(t[k]),
            "alpha": 0.4 + 0.6 * (rank / len(shown)) ** 2,
            "zorder": 3 + rank,
        }
        for segment in segments[k][..., view]:
            scene.plot(*segment.T, lw=2.2, solid_capstyle="round", **style)
        for point, width in zip(_centers(robot.tree, poses[k])[:, view], size, strict=True):
            scene.plot(*point[:, None], "o", ms=width, mec="white", mew=0.4, **style)
    # the frame holds everything that is drawn; the bar tells the times of the colours
    _frame(scene, points[:, view], [f"{'xyz'[i]} [m]" for i in view])
    bar = figure.colorbar(colors, ax=scene, orientation="horizontal", shrink=0.5, aspect=40, pad=0.02)
    bar.set_label("time [s]", fontsize=8)
    bar.ax.tick_params(labelsize=8)

    energies = figure.add_subplot(grid[0, 1])
    change = figure.add_subplot(grid[1, 1])
    # energies in the upper panel, the change of their sum in the lower one
    table = np.stack([run.kinetic, run.potential, run.energy], axis=-1)[None]
    _curves(energies, run.t, Labels(("kinetic", "potential", "total"), ("J",) * 3), table, legend="above")
    energies.set_ylabel("energy [J]")
    drift = Labels(("E(t) - E(0)" if run.work_done is None else "E(t) - E(0) - W",), ("J",))
    _curves(change, run.t, drift, run.energy_balance[None, :, None], legend="above")
    change.set_ylabel("energy change [J]")
    change.set_xlabel("time [s]")
    figure.suptitle(_headline(run, 1), x=0.02, ha="left", fontsize=11)
    return _written(figure, path)


def _members(run: Run, most: int) -> tuple[int, Callable[[Array, int], Array]]:
    """How many members are drawn; and a function that takes them out of values with `own` last axes."""
    count = int(np.prod(run.batch))
    chosen = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))

    def of(values: Array, own: int) -> Array:
        return values.reshape(count, *values.shape[values.ndim - own :])[chosen]

    return len(chosen), of


def _of_unit(labels: Labels, values: Array, unit: str) -> tuple[Labels, Array]:
    at = [i for i, u in enumerate(labels.units) if u == unit]
    return Labels(tuple(labels.names[i] for i in at), (unit,) * len(at)), values[..., at]


def _title(unit: str) -> str:
    if unit == UNIT_OF_QUATERNIONS:
        return "quaternion"
    return f"{TITLES.get(unit, 'coordinate')} [{unit}]" if unit else "coordinate"


def _headline(run: Run, drawn: int) -> str:
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


def _curves(axis: Any, t: Array, labels: Labels, values: Array, legend: str = "right") -> None:
    """A curve for each label and member, values (members, nt, labels); at most LONGEST_LEGEND are named."""
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
        axis.plot([], [], color=color, ls=dashes, lw=1.6, label=_short(labels.names[i]))
    if len(named) < n:
        axis.plot([], [], " ", label=f"{len(named)} of {n} named")
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02)}
    if legend == "above":
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": n}
    axis.legend(fontsize=7.5, frameon=False, borderaxespad=0.4, handlelength=2.2, labelspacing=0.25, **place)
    axis.grid(alpha=0.25, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.set_major_locator(MaxNLocator(5))
    axis.ticklabel_format(axis="y", scilimits=(-3, 4), useOffset=False)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}...{name[-6:]}"


def _skeleton(tree: Tree, poses: Array) -> tuple[Array, Array, Array]:
    """Segments (nt, segments, 2, 3) of the links, masses of the bodies (n,), and path of the tip (nt, 3)."""
    origins = np.pad(poses[..., :3, 3], ((0, 0), (1, 0), (0, 0)))  # of the world and the bodies
    links = [body for body in tree.bodies if body.parent or body.joint.dim < 6]
    pairs = [(origins[:, body.parent], origins[:, body.index]) for body in links]
    parents = {body.parent for body in tree.bodies}
    # a body without children has a tip: its last frame, or else its centre of mass
    tips = {}
    for body in tree.bodies:
        if body.index not in parents:
            frames = [f for f in tree.frames.values() if f.body == body.index]
            local = np.asarray(frames[-1].placement[:3, 3] if frames else body.inertia.com, float)
            T = poses[:, body.index - 1]
            tips[body.index] = T[:, :3, :3] @ local + T[:, :3, 3]
            pairs.append((origins[:, body.index], tips[body.index]))
    segments = np.stack([np.stack(pair, axis=-2) for pair in pairs], axis=1)
    masses = np.array([float(body.inertia.mass) for body in tree.bodies])
    return segments, masses, tips[max(tips, key=lambda index: len(tree.ancestors(index)))]


def _centers(tree: Tree, poses: Array) -> Array:
    """Centres of mass in the world, (n, 3), of bodies at `poses` (n, 4, 4)."""
    com = np.array([np.asarray(body.inertia.com, float) for body in tree.bodies])
    return (poses[:, :3, :3] @ com[..., None])[..., 0] + poses[:, :3, 3]


def _plane_of(points: Array) -> tuple[int, int] | None:
    """The two axes of the coordinate plane that all points lie in, if there is one."""
    # points that do not leave a plane are drawn in it, others in space
    spread = np.ptp(points, axis=0)
    thin = int(np.argmin(spread))
    if spread[thin] > 1e-6 * spread.max():
        return None
    rest = [i for i in range(3) if i != thin]
    return rest[0], rest[1]


def _trace(scene: Any, path: Array, **style: Any) -> Any:
    """A path (nt, 2 or 3) as pieces between neighbours."""
    kind = LineCollection if path.shape[1] == 2 else Line3DCollection
    return scene.add_collection(kind(list(np.stack([path[:-1], path[1:]], axis=1)), **style))


def _frame(scene: Any, points: Array, labels: list[str]) -> None:
    """Equal scales, around all points."""
    # a margin around all points, and one scale for all axes
    low = points.min(axis=0)
    high = points.max(axis=0)
    pad = 0.04 * max(np.max(high - low), 1e-9)
    for i, name in enumerate("xyz"[: points.shape[1]]):
        getattr(scene, f"set_{name}lim")(low[i] - pad, high[i] + pad)
        getattr(scene, f"set_{name}label")(labels[i], fontsize=8)
    scene.tick_params(labelsize=8)
    if points.shape[1] == 2:
        scene.set_aspect("equal")
        scene.grid(alpha=0.25, lw=0.5)
        return
    scene.set_box_aspect(high - low + 2 * pad, zoom=1.18)
    scene.view_init(elev=18, azim=-60)
    for axis in (scene.xaxis, scene.yaxis, scene.zaxis):
        axis.set_pane_color((1, 1, 1, 0))
        axis.set_major_locator(MaxNLocator(5))
        axis.line.set_color("#999999")
        axis._axinfo["grid"].update(color="#e4e4e4", linewidth=0.5)  # mplot3d has no public way


def _written(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    if path is not None:
        path = path_of("the name of the picture", path)
        try:
            figure.savefig(path, dpi=DOTS_PER_INCH)
        except (OSError, ValueError) as error:
            pass_on_signals(error)
            raise LiebodyError(f"cannot write the picture {path}: {error}") from error
    return figure
