"""ANYmal stands on four feet and is pushed: 128 pushes in one compiled loop, by time stepping.

    python examples/legs_on_the_ground.py [picture.png]

The robot (from the package example-robot-data) holds a pose by PD control of the joints. After half a
second a force pushes its base sideways for a tenth of a second; each member has another force. Its feet
stick, slip or leave the ground. Each foot's force obeys Coulomb's law in every step of 1 ms, and the
residual measures how accurately.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.hybrid import Element, JointPD
from liebody.scalars import where

URDF = "cmeel.prefix/share/example-robot-data/robots/anymal_b_simple_description/robots/anymal.urdf"
FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
MU, START, END = 0.6, 0.5, 0.6  # friction; start and end of the push, s
MEMBERS = 128


class Push(Element):
    """A force on the origin of a frame between two times."""

    driven = False

    def __init__(self, frame: str) -> None:
        super().__init__()
        self.name, self.frame = "push", frame
        self.parameters = {"force": np.zeros(3)}

    def attach(self, tree):
        self.at = tree.frame(self.frame)

    def forces(self, s, z, p):
        return [(self.at, p.force * where((s.t >= START) & (s.t < END), 1.0, 0.0))]


def main(picture: str | None = None):
    robot = lb.load(Path(str(distribution("example-robot-data").locate_file(URDF))), floating=True)
    q0 = robot.neutral()
    q0[7:] = POSE
    q0[6] = -min(lb.dynamics.frame_pose(robot.tree, q0, foot)[2, 3] for foot in FEET)

    drives = JointPD(K=200.0, q_des=POSE, D=5.0, gravity_compensation=False)
    floor = Contact(*FEET, stiffness=1e6, damping=1e4, friction=MU)
    system = TimeStepping(robot, drives, floor, Push("base"))
    pushes = np.linspace(0, 380, MEMBERS)  # N
    force = np.stack([0 * pushes, pushes, 0 * pushes], axis=1)
    options = {"dt": 1e-3, "record_every": 1e-2, "parameters": {"push_force": force}}
    system.simulate(q0, t_end=0.1, **options)  # compiles
    begin = time.perf_counter()
    run = system.simulate(q0, t_end=2.0, **options)
    seconds = time.perf_counter() - begin

    pushed = run.t > START
    normal = run.outputs["floor_force"][..., 2][:, pushed]  # (members, rows, feet)
    slip = run.outputs["floor_slip"][:, pushed]  # (members, rows, feet, 2)
    lifts = pushes[normal.min(axis=(1, 2)) <= 0]
    slips = pushes[np.linalg.norm(slip * (normal > 0)[..., None], axis=-1).max(axis=(1, 2)) > 0.05]
    weight = robot.tree.mass * 9.81
    print(f"{MEMBERS} members, {MEMBERS * 2.0 / seconds:.0f} simulated seconds per second")
    print(f"feet slip from {slips.min():.0f} N on, and leave the ground from {lifts.min():.0f} N on")
    print(f"largest residual {run.memory['residual'].max() / weight:.1e} of the weight")
    print(system.ledger(run, member=3 * MEMBERS // 4))
    if picture:
        draw(run, pushes, picture)
    return run


def draw(run, pushes, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    member = 3 * MEMBERS // 4
    for k, name in enumerate(FEET):
        left.plot(run.t, run.outputs["floor_force"][member, :, k, 2], label=name[:2])
    left.axvspan(START, END, color="0.9")
    left.set(xlabel="t in s", ylabel="normal forces in N", title=f"a push of {pushes[member]:.0f} N")
    left.legend()
    for i in range(0, MEMBERS, 8):
        right.plot(run.t, run.q[i, :, 5], color=plt.cm.viridis(i / MEMBERS))
    right.axvspan(START, END, color="0.9")
    right.set(xlabel="t in s", ylabel="y of the base in m", title=f"pushes of 0 to {pushes[-1]:.0f} N")
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
