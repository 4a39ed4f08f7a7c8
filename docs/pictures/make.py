"""The films and pictures of README.md, docs/view.md and docs/runs.md, made anew: python docs/pictures/make.py

Needs the extras `view` and `studies`, and the robots of example-robot-data (extra `bench`).
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

import liebody as lb

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "benchmarks"), str(HERE.parent / "site")]
import robots  # noqa: E402
import views  # noqa: E402


def demo() -> None:
    """The double pendulum of `liebody demo`."""
    views.pendulum().save(HERE / "demo.gif")


def hopper() -> None:
    """A leg with a knee hops, shown at a third of its speed, with the force of the floor."""
    views.hopper().save(HERE / "hopper.gif", height=360, seconds=4.2)


def arms() -> None:
    """UR5, and ANYmal on its feet."""
    warnings.simplefilter("ignore", UserWarning)
    for name, q in (("ur5", [0, -1.2, 1.4, -0.6, 0.5, 0]), ("anymal", None)):
        file, floating = robots.path(name)
        robot = lb.load(file, floating=floating)
        if q is None:
            q = robot.neutral()
            q[7:] = [0.1, 0.4, -0.8, -0.1, 0.4, -0.8, 0.1, -0.4, 0.8, -0.1, -0.4, 0.8]  # hip, thigh, shank
            q[6] -= min(robot.pose(q, frame)[2, 3] for frame in robot.tree.frames if frame.endswith("_FOOT"))
        robot.view(q).save(HERE / f"{name}.png")


def joints() -> None:
    """Joints between their limits, phase plots and the path of the last link of a PUMA 560, for runs.md."""
    robot = lb.load("puma560")
    target = np.array([0.3, -0.8, 0.5, 0.0, 0.4, 0.0])
    hold = lambda t, q, v: robot.gravity(q) + 60 * (target - q) - 8 * v  # noqa: E731
    run = lb.simulate(robot, t_end=1.0, dt=1e-3, tau=hold, joints={"armature", "damping"})
    run.plot(HERE / "joints.png", joints=["joint2", "joint3"])
    run.plot_phase(HERE / "phase.png", joints=["joint1", "joint2", "joint3"])
    run.plot_frame("link6", HERE / "frame.png")


if __name__ == "__main__":
    made = {made.__name__: made for made in (demo, hopper, arms, joints)}
    for name in sys.argv[1:] or made:
        made[name]()
