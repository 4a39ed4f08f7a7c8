"""Differential inverse kinematics: an arm of six links reaches between two columns, and touches none.

    python examples/reach_around.py [picture.png]

Each step of 10 ms solves one quadratic program: the tip follows the target, joints keep their limits, and
capsules about the links keep 1 cm from the columns. The same arm without these half spaces runs through them.
"""

from __future__ import annotations

import sys

import numpy as np

import liebody as lb
from liebody.bodies import Frame, Joint
from liebody.control import Clearance, DifferentialIK, MotionTask
from liebody.groups import Revolute

LINKS, LENGTH, RADIUS = 6, 0.2, 0.03  # of the links, and of capsules about them [m]
COLUMNS = {"left": (0.35, 0.12, 0.1), "right": (0.6, -0.3, 0.12)}  # x, y, radius [m]
MARGIN = 0.01
DT = 0.01
START = np.array([1.6, -0.6, -0.6, -0.5, -0.4, -0.3])
FROM, TO = np.array([0.75, 0.35, 0.0]), np.array([0.42, -0.3, 0.0])  # of the target
DURATION, END = 4.0, 5.0


def placed(x, y):
    T = np.eye(4)
    T[:2, 3] = x, y
    return T


def arm():
    """Links in the plane, turning by at most 2.2 rad against each other and at most 2 rad/s."""
    tree = lb.TreeBuilder("arm")
    for i in range(LINKS):
        joint = Joint(f"joint{i}", Revolute([0, 0, 1]), lower=-2.2, upper=2.2, velocity_limit=2.0)
        inertia = lb.SpatialInertia.point(1.0, [LENGTH / 2, 0, 0])
        parent = f"link{i - 1}" if i else "world"
        tree.add(f"link{i}", joint, inertia, parent, placed(LENGTH if i else 0.0, 0.0))
    return lb.Robot(tree.build()).with_frame("tip", f"link{LINKS - 1}", placed(LENGTH, 0.0))


def columns(robot):
    """Distances of all links from both columns: spheres in the plane."""
    axis = placed(LENGTH / 2, 0.0)
    axis[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]  # z along the link
    links = [Frame(body.name, body.index, axis) for body in robot.tree.bodies]
    pairs = []
    radii = []
    for name, (x, y, radius) in COLUMNS.items():
        at = Frame(name, 0, placed(x, y))
        pairs += [(link, at) for link in links]
        radii += [(RADIUS, radius) for _ in links]
    lengths = [(LENGTH, 0.0)] * len(pairs)
    return Clearance.spheres(robot, *pairs, radius=radii, length=lengths, margin=MARGIN, name="columns")


def target(t):
    """The target's position and velocity: from rest to rest on a straight line."""
    s = np.clip(t / DURATION, 0, 1)
    rate = 6 * s * (1 - s) / DURATION if s < 1 else 0.0
    return FROM + s * s * (3 - 2 * s) * (TO - FROM), rate * (TO - FROM)


def follow(ik, q, active):
    """Times, configurations, smallest distances and tracking errors."""
    rows = []
    for t in np.arange(0.0, END, DT):
        position, velocity = target(t)
        values = {"tip.target": position, "tip.rate": velocity, "columns.active": active}
        u = ik.step(q, values, DT)
        rows.append((t, u.q, u.distances.min(), np.linalg.norm(u.errors[:3]), u.status))
        q = u.q
    return [np.array(x) for x in zip(*rows, strict=True)]


def main(picture=None):
    robot = arm()
    tasks = [
        MotionTask.position(robot, "tip", gain=10.0),
        MotionTask.posture(robot, gain=1.0, weight=1e-3),
    ]
    ik = DifferentialIK(robot, tasks, [columns(robot)])
    q = ik.reach(START, {"tip.target": FROM}, DT, tasks=["tip"]).q
    free, clear = (follow(ik, q, active) for active in (0.0, 1.0))
    print(f"without half spaces: distance {1e3 * free[2].min():.1f} mm")
    print(f"with half spaces:    distance {1e3 * clear[2].min():.2f} mm, margin {1e3 * MARGIN:.0f} mm")
    print(
        f"the tip is away by {1e3 * clear[3].max():.2f} mm on the way, {1e6 * clear[3][-1]:.2f} um at the end"
    )
    if picture:
        draw(picture, robot, free, clear)
    return free, clear


def draw(picture, robot, free, clear):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    titles = ("without half spaces", "with half spaces")
    for ax, (_, q, *_), title in zip(axes, (free, clear), titles, strict=False):
        for x, y, radius in COLUMNS.values():
            ax.add_patch(plt.Circle((x, y), radius, color="0.75"))
        for share in np.linspace(0, 1, 6):
            at = q[int(share * (len(q) - 1))]
            frames = [*(f"link{i}" for i in range(LINKS)), "tip"]
            points = [robot.pose(at, frame)[:2, 3] for frame in frames]
            ax.plot(*np.transpose(points), "-o", ms=3, lw=3, color=plt.cm.viridis(0.9 * share))
        path = robot.pose(q, "tip")[:, :2, 3]
        ax.plot(*path.T, "k:", lw=1)
        ax.set(aspect="equal", title=title, xlabel="x, m", xlim=(-0.15, 0.95), ylim=(-0.65, 0.65))
    axes[0].set_ylabel("y, m")
    for (t, _, d, *_), name in zip((free, clear), ("without", "with"), strict=True):
        axes[2].plot(t, 1e3 * d, label=name)
    axes[2].axhline(1e3 * MARGIN, color="0.5", lw=1, ls="--", label="margin")
    axes[2].set(title="smallest distance", xlabel="t, s", ylabel="mm")
    axes[2].legend()
    figure.savefig(picture, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
