"""Talos stands on two feet, each of four points, and is pushed: when does a sole tip over its edge?

    python examples/talos_on_its_soles.py [picture.png]

The forces of four points under each sole give the centre of pressure: the mean of the points, weighted by
the normal forces. A push at the base moves the centre of pressure forwards. At the edge of the sole the
heel begins to lift. Under a rigid sole, many combinations of four forces carry the same load. The
compliance of the floor selects one.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np

import liebody as lb
from liebody.bodies import Frame
from liebody.contact import Contact, TimeStepping
from liebody.hybrid import Element, JointPD
from liebody.scalars import where

X, Y = (-0.09, 0.11), (-0.05, 0.05)  # of the points in a sole, m
BENT = {"leg_left": (-0.4, 0.8, -0.4), "leg_right": (-0.4, 0.8, -0.4)}  # hip, knee, ankle
PUSHES = np.linspace(0, 200, 41)  # N, forwards, for a quarter of a second
START, END = 1.5, 1.75  # s


class Push(Element):
    """A force forwards on the base between two times."""

    driven = False

    def __init__(self) -> None:
        super().__init__()
        self.name, self.parameters = "push", {"force": 0.0}

    def attach(self, tree):
        self.at = Frame("pushed", 1, np.eye(4))

    def forces(self, s, z, p):
        pushed = where((s.t >= START) & (s.t < END), p.force, 0.0)
        return [(self.at, np.array([pushed, 0.0, 0.0]))]


def on_points() -> tuple[lb.Robot, np.ndarray]:
    """The robot with a frame at each point under its soles, and the pose it stands in."""
    robot, frames = lb.load("talos_reduced", floating=True), {}
    for side in ("left", "right"):
        sole = robot.tree.frame(f"{side}_sole_link")
        for k, (x, y) in enumerate((x, y) for x in X for y in Y):
            T = np.array(sole.placement, float)
            T[:3, 3] += T[:3, :3] @ [x, y, 0]
            frames[f"{side}_{k}"] = Frame(f"{side}_{k}", sole.body, T)
    robot = lb.Robot(replace(robot.tree, frames=frames).with_joints("ideal"))
    q = robot.neutral()
    for leg, angles in BENT.items():
        for k, angle in enumerate(angles, start=3):
            (body,) = (b for b in robot.tree.bodies if b.joint.name == f"{leg}_{k}_joint")
            q[body.coordinates] = angle
    q[6] = -min(lb.dynamics.frame_pose(robot.tree, q, name)[2, 3] for name in frames)
    return robot, q


def main(picture: str | None = None):
    warnings.simplefilter("ignore")
    robot, q0 = on_points()
    drives = JointPD(K=2000.0, q_des=q0[7:], D=200.0)
    floor = Contact(*robot.tree.frames, stiffness=1e5, damping=1e3, friction=0.8)
    system = TimeStepping(robot, drives, floor, Push(), ledger=False)
    run = system.simulate(
        np.tile(q0, (len(PUSHES), 1)),
        t_end=3.5,
        dt=1e-3,
        record_every=0.01,
        parameters={"push_force": PUSHES},
    )
    normal = run.outputs["floor_force"][..., 2]  # (members, rows, points)
    along = np.tile(np.repeat(X, 2), 2)
    pressure = (normal @ along) / np.maximum(normal.sum(-1), 1e-9)
    pushed = run.t > START
    heels = normal[:, pushed][..., [0, 1, 4, 5]].max(-1).min(-1)  # the least that a heel carries from then on
    stands = run.q[:, -1, 6] > 0.9 * q0[6]
    print(f"the heels lift from {PUSHES[heels <= 0].min():.0f} N on")
    print(f"the robot falls from {PUSHES[~stands].min():.0f} N on" if not stands.all() else "it never falls")
    if picture:
        draw(run, pressure, normal, stands, picture)
    return run, normal, pressure, heels, stands


def draw(run, pressure, normal, stands, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    member = np.flatnonzero(stands)[-1]
    for name, points in (("heel", [0, 1, 4, 5]), ("toe", [2, 3, 6, 7])):
        left.plot(run.t, normal[member][:, points].sum(-1), label=name)
    left.axvspan(START, END, color="0.9")
    left.set(xlabel="t in s", ylabel="normal forces in N", title=f"a push of {PUSHES[member]:.0f} N")
    left.legend()
    for i in np.flatnonzero(stands)[::3]:
        right.plot(run.t, 100 * pressure[i], color=plt.cm.viridis(i / len(PUSHES)))
    right.axhline(100 * X[1], color="0.6", lw=1)
    right.axvspan(START, END, color="0.9")
    right.set(xlabel="t in s", ylabel="centre of pressure along x in cm", title="pushes that it withstands")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
