"""Pictures of a frame in the world: its path, its position over time, its speed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..base.arguments import checked, count, wrong_shape
from ..base.errors import LiebodyError, ModelError, known
from ..bodies import Labels, Tree
from ..groups import SE3
from ..mechanisms.constrained import System
from ..robot import Robot
from ..scalars import Array
from .figures import (
    MOST_MEMBERS,
    PALETTE,
    draw_curves,
    draw_path,
    fit_around,
    headline,
    members_of,
    written,
)
from .picture import Picture
from .skeleton import plane_of

if TYPE_CHECKING:
    from ..runs import Run


@np.errstate(all="ignore")
@checked
def plot_frame(
    run: Run,
    path: str | os.PathLike[str] | None = None,
    *,
    frame: str,
    system: Any = None,
    members: int = MOST_MEMBERS,
    title: str | None = None,
) -> Figure:
    """The path of a frame, its position over time and its speed; as `Run.plot_frame` says."""
    chosen, of = members_of(run, count("members", members))
    p, velocity = frame_motion(run, of, frame, system)
    speed = np.linalg.norm(velocity, axis=-1)

    points = p.reshape(-1, 3)
    points = points[np.isfinite(points).all(axis=-1)]
    flat = plane_of(points)
    view = list(flat or (0, 1, 2))
    figure = Picture(figsize=(10.5, 5.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.05, 1))
    scene = figure.add_subplot(grid[:, 0], **({} if flat else {"projection": "3d", "computed_zorder": False}))
    colors = ScalarMappable(Normalize(run.t[0], run.t[-1]), "viridis_r")
    for k, curve in enumerate(p[..., view]):
        if chosen == 1:
            draw_path(scene, curve, linewidths=1.6, capstyle="round").set(color=colors.to_rgba(run.t[:-1]))
        else:
            style = {"linewidths": 0.7, "alpha": max(0.25, 0.9 / chosen**0.3)}
            draw_path(scene, curve, color=PALETTE[k % len(PALETTE)], **style)
        scene.plot(
            *curve[:1].T, "o", ms=5 if chosen == 1 else 2.5, color="black", mec="white", mew=0.4, zorder=9
        )
    fit_around(scene, points[:, view], [f"{'xyz'[i]} [m]" for i in view])
    if chosen == 1 and len(run.t) > 1:
        bar = figure.colorbar(colors, ax=scene, location="left", shrink=0.6, aspect=40, pad=0.02)
        bar.set_label("time [s]", fontsize=8)
        bar.ax.tick_params(labelsize=8)

    over_time = [figure.add_subplot(grid[0, 1])]
    over_time.append(figure.add_subplot(grid[1, 1], sharex=over_time[0]))
    draw_curves(over_time[0], run.t, Labels(("x", "y", "z"), ("m",) * 3), p, legend="above")
    over_time[0].set_ylabel("position [m]")
    over_time[0].tick_params(labelbottom=False)
    draw_curves(over_time[1], run.t, Labels(("speed",), ("m/s",)), speed[..., None], legend="")
    over_time[1].set_ylim(bottom=0)
    over_time[1].set_ylabel("speed [m/s]")
    over_time[1].set_xlabel("time [s]")
    figure.align_ylabels(over_time)
    words = ",  ".join(x for x in (frame, headline(run, chosen)) if x)
    figure.suptitle(words if title is None else title, x=0.02, ha="left", fontsize=11)
    return written(figure, path)


def frame_motion(run: Run, of: Any, frame: str, system: Any) -> tuple[Array, Array]:
    """Positions and velocities (members, nt, 3) of a frame in the world; NaN where states are not finite.

    of  takes the chosen members out of values with so many last axes, as of `members_of`
    """
    of_run = (vars(run).get("system"), run.tree)
    system = next((x for x in (system, *of_run) if x is not None), None)
    if system is None:
        raise LiebodyError("this run does not know its system; give it, system=robot")
    tree = system if isinstance(system, Tree) else getattr(system, "tree", None)
    group = tree if isinstance(tree, Tree) else getattr(system, "group", None)
    q = of(run.q, 2)
    v = of(run.v, 2)
    if group is None or q.shape[-1] != group.nq:
        raise wrong_shape("q", run.q.shape, f"(..., {getattr(group, 'nq', 'nq')}) of {system!r}")
    finite = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    motion = np.full((2, *finite.shape, 3), np.nan)
    if isinstance(tree, Tree):
        robot = system if isinstance(system, Robot) else Robot(tree)
        rows = _parameters(run, robot, of, finite)
        if rows:
            robot = robot.with_parameters(*rows)
        more: dict[str, Any] = {"parameters": rows} if rows else {}
        motion[0, finite] = robot.pose(q[finite], frame, **more)[..., :3, 3]
        motion[1, finite] = robot.twist(q[finite], v[finite], frame, "mixed", **more)[..., 3:]
    elif isinstance(system, System):
        bodies = [body.name for body in system.bodies]
        if frame not in bodies:
            raise ModelError(f"there is no body {frame!r}; {known(bodies, frame)}")
        i = bodies.index(frame)
        T = system.poses(q[finite])[..., i, :3, :]
        motion[0, finite] = T[..., 3]
        moved = v[finite][:, 6 * i + 3 : 6 * i + 6]
        motion[1, finite] = (
            (T[..., :3] @ moved[..., None])[..., 0] if system.bodies[i].group == SE3 else moved
        )
    else:
        raise ModelError(f"{system!r} has no frames; give a Robot, a Tree, a ClosedTree or a System")
    return motion[0], motion[1]


def _parameters(run: Run, robot: Robot, of: Any, finite: Array) -> dict[str, Array]:
    """The parameters of the robot that the run has values of, for each finite state."""
    values = {}
    for name, x in (run.parameters or {}).items():
        if name in robot.parameters:
            own = np.ndim(x) - len(run.batch)
            rows = np.expand_dims(of(x, own), 1)
            values[name] = np.broadcast_to(rows, (*finite.shape, *rows.shape[2:]))[finite]
    return values
