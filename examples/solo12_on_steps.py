"""Solo12 on steps: robots fall onto a staircase, each somewhere else, and stand where they fell.

    python examples/solo12_on_steps.py [picture.png]

The steps are boxes with exact distances and normals, and the feet are spheres. A foot may land on a step,
on the floor, or on an edge, and may slip off the edge.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import liebody as lb
from liebody.contact import Boxes, Contact, TimeStepping
from liebody.hybrid import JointPD

LEGS = ("FL", "FR", "HL", "HR")
FEET = [f"{leg}_FOOT" for leg in LEGS]
POSE = np.tile([0, 0.8, -1.6], 4)
RISE, RUN, FIRST, RADIUS = 0.04, 0.3, 0.0, 0.0125  # m
PLACES = np.linspace(-0.3, 0.9, 25)  # of the bases along x, m


def level(x: np.ndarray) -> np.ndarray:
    """Height of the staircase."""
    return RISE * np.clip(np.floor((x - FIRST) / RUN) + 1, 0, 3)


def main(picture: str | None = None):
    warnings.simplefilter("ignore")
    robot = lb.load("solo12", floating=True)
    q0 = np.tile(np.concatenate([robot.neutral()[:7], POSE]), (len(PLACES), 1))
    q0[:, 4] = PLACES
    feet = np.array([lb.dynamics.frame_pose(robot.tree, q0[0], foot)[:3, 3] for foot in FEET])
    x = PLACES[:, None] + feet[:, 0] - q0[0, 4]
    q0[:, 6] = level(x).max(axis=1) + 2 * RADIUS - feet[:, 2].min()
    stairs = Boxes.steps(rise=RISE, run=RUN, count=3, start=FIRST)
    floor = Contact(*FEET, stiffness=1e5, damping=1e3, friction=0.9, radius=RADIUS, ground=stairs)
    drives = JointPD(K=15.0, q_des=POSE, D=0.5)
    system = TimeStepping(robot, drives, floor, ledger=False)
    run = system.simulate(q0, t_end=3.0, dt=1e-3, record_every=0.02)

    at = np.array([[robot.pose(q, foot)[:3, 3] for foot in FEET] for q in run.q[:, -1]])
    on = np.abs(at[..., 2] - RADIUS - level(at[..., 0])) < 1e-3
    lean = np.degrees(np.arccos(1 - 2 * (run.q[:, -1, 1:3] ** 2).sum(-1)))
    print(f"{on.mean():.0%} of the feet stand on a step or the floor, the others at an edge")
    print(f"bases lean by {lean.min():.1f} to {lean.max():.1f} degrees")
    if picture:
        draw(robot, run, picture)
    return run, on, lean


def draw(robot, run, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
    edges = FIRST + RUN * np.arange(3)
    axes.fill_between(
        [-0.7, *np.repeat(edges, 2), 1.3], np.repeat(RISE * np.arange(4), 2), -0.02, color="0.8"
    )
    for member in (0, 8, 16, 24):
        q = run.q[member, -1]
        places = {}
        for leg in LEGS:
            links = [
                robot.pose(q, f"{leg}_{link}")[:3, 3]
                for link in ("SHOULDER", "UPPER_LEG", "LOWER_LEG", "FOOT")
            ]
            places[leg] = np.array(links)
            axes.plot(*places[leg][:, [0, 2]].T, color=f"C{member // 8}", lw=2 if leg[1] == "L" else 1)
        axes.plot(
            *np.array([places[leg][0] for leg in ("FL", "HL", "HR", "FR")])[:, [0, 2]].T,
            color=f"C{member // 8}",
            lw=4,
        )
    axes.set(aspect="equal", xlabel="x in m", ylabel="z in m", ylim=(-0.02, 0.42))
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
