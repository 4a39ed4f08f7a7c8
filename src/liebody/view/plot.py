"""Pictures of runs: states and energies over time, and the mechanism in motion.

Figures are made without pyplot: no display is needed, and no state is left behind.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..base.arguments import checked, count
from ..base.errors import SECONDS, positive
from ..bodies import UNIT_OF_QUATERNIONS, Labels
from ..scalars import Array
from .figures import MOST_MEMBERS, draw_curves, draw_path, fit_around, headline, members_of, written
from .picture import Picture
from .plot_joints import plot_joints
from .skeleton import centers, plane_of, skeleton

if TYPE_CHECKING:
    from ..robot import Robot
    from ..runs import Run


TITLES = {"rad": "angle", "m": "position", "rad/s": "angular velocity", "m/s": "velocity", "N": "effort"}


@np.errstate(all="ignore")
@checked
def plot_run(
    run: Run,
    path: str | os.PathLike[str] | None = None,
    *,
    joints: str | Sequence[str] | None = None,
    system: Any = None,
    members: int = MOST_MEMBERS,
    title: str | None = None,
) -> Figure:
    """Coordinates, velocities, efforts and energies over time, a panel for each unit; as `Run.plot` says."""
    members = count("members", members)
    if joints is not None:
        return plot_joints(run, path, joints, system, members, title)
    # members evenly chosen, the same ones in all panels
    chosen, of = members_of(run, members)
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
        draw_curves(axis, run.t, labels, values)
        axis.set_ylabel(label)
    axes[-1].set_xlabel("time [s]")
    figure.align_ylabels(axes)
    figure.suptitle(headline(run, chosen) if title is None else title, x=0.02, ha="left", fontsize=11)
    return written(figure, path)


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
    of mass; dots are centres of mass. The first member of a batch is drawn.
    """
    # The function is long because it lays out three panels one after the other.
    instants = count("instants", instants)
    run = run.member(*(0,) * len(run.batch))
    # a member that diverged is drawn up to there
    good = np.isfinite(run.q).all(axis=-1)
    t = run.t[good]
    poses = robot.poses(run.q[good])
    first = 0 if window is None else int(np.searchsorted(t, t[-1] - positive("window", window, SECONDS)))
    shown = np.unique(np.linspace(first, len(t) - 1, instants).round().astype(int))
    segments, masses, tip = skeleton(robot.tree, poses)

    figure = Picture(figsize=(10.5, 6.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.45, 1))
    # a motion in a coordinate plane is drawn flat, any other one in space
    points = np.concatenate([segments[shown].reshape(-1, 3), tip])
    flat = plane_of(points)
    view = list(flat or (0, 1, 2))
    scene = figure.add_subplot(grid[:, 0], **({} if flat else {"projection": "3d", "computed_zorder": False}))
    colors = ScalarMappable(Normalize(t[first], t[-1]), "viridis_r")

    # the path before the window is grey, within it coloured by time
    draw_path(scene, tip[: first + 1, view], color="#c8c8c8", linewidths=0.6)
    pieces = draw_path(scene, tip[first:, view], linewidths=1.1)
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
        for point, width in zip(centers(robot.tree, poses[k])[:, view], size, strict=True):
            scene.plot(*point[:, None], "o", ms=width, mec="white", mew=0.4, **style)
    # the frame holds everything that is drawn; the bar tells the times of the colours
    fit_around(scene, points[:, view], [f"{'xyz'[i]} [m]" for i in view])
    bar = figure.colorbar(colors, ax=scene, orientation="horizontal", shrink=0.5, aspect=40, pad=0.02)
    bar.set_label("time [s]", fontsize=8)
    bar.ax.tick_params(labelsize=8)

    energies = figure.add_subplot(grid[0, 1])
    change = figure.add_subplot(grid[1, 1])
    # energies in the upper panel, the change of their sum in the lower one
    table = np.stack([run.kinetic, run.potential, run.energy], axis=-1)[None]
    draw_curves(energies, run.t, Labels(("kinetic", "potential", "total"), ("J",) * 3), table, legend="above")
    energies.set_ylabel("energy [J]")
    drift = Labels(("E(t) - E(0)" if run.work_done is None else "E(t) - E(0) - W",), ("J",))
    draw_curves(change, run.t, drift, run.energy_balance[None, :, None], legend="above")
    change.set_ylabel("energy change [J]")
    change.set_xlabel("time [s]")
    figure.suptitle(headline(run, 1), x=0.02, ha="left", fontsize=11)
    return written(figure, path)


def _of_unit(labels: Labels, values: Array, unit: str) -> tuple[Labels, Array]:
    at = [i for i, u in enumerate(labels.units) if u == unit]
    return Labels(tuple(labels.names[i] for i in at), (unit,) * len(at)), values[..., at]


def _title(unit: str) -> str:
    if unit == UNIT_OF_QUATERNIONS:
        return "quaternion"
    return f"{TITLES.get(unit, 'coordinate')} [{unit}]" if unit else "coordinate"
