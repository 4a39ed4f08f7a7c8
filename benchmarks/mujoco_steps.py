"""A step of a simulation beside MuJoCo: RK4 of 1 ms without contacts, one robot and members of an ensemble.

    python benchmarks/mujoco_steps.py [robot ...]       (ur5 panda anymal talos)

MuJoCo reads the URDF that `to_urdf` writes, in which bodies on fixed joints are one body; damping and all
constraints (limits, friction) are off. In the last two lines of a robot the joints' limits act, in each
library in its own way: contacts alone are off. Both integrate from the same states in this process,
alternately, each in a loop of its own in C (`simulate` and `mj_step`) on one thread; medians over the rounds
of the processor time per step, and of the ratio round by round with its quartiles. MuJoCo steps one member
after the other. Of one robot we take so many steps that the call of `simulate` (0.14 ms) is less than 2 % of
them.

Goals are ratios that were measured once, at commit 4d500ed, on a machine where MuJoCo took up to three times
as long. On one quiet machine (AVX-512) that commit takes, in ns per step of one robot and of each of 256, UR5
966 and 118, Panda 1990 and 219, ANYmal 4236 and 450, Talos 9100 and 1415; commit 133315e takes 680 and 115,
1260 and 215, 2210 and 445, 7750 and 1395. So lines miss goals where MuJoCo is faster, not we slower.

At first both fall for 20 steps, without limits, and must agree: ours is a Runge-Kutta-Munthe-Kaas method, so
that on a floating base the two differ by the error of a step.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from typing import Any

import numpy as np
from machine import absent, describe, keep, met, seconds, unless_quick
from robots import CHOSEN, path

import liebody as lb
from liebody.io import mujoco_layout

try:
    import mujoco
except ModuleNotFoundError as error:
    absent(error)

DT, CHECKED, AGREE = 1e-3, 20, 1e-7
ROUNDS, MEMBERS, ONE, STEPS = unless_quick(
    (9, 256, 20_000, 200), (1, 8, 200, 20)
)  # members; steps of one robot, and of each member
THEIRS = unless_quick(2000, 20)  # steps of MuJoCo in a round
GOALS = {"ur5": (12, 92), "panda": (18, 134), "anymal": (6, 59), "talos": (7, 47)}
NO = mujoco.mjtDisableBit


def mujoco_model(robot: lb.Robot, limits: bool) -> mujoco.MjModel:
    model = mujoco.MjModel.from_xml_string(robot.to_urdf())
    model.opt.timestep, model.opt.integrator = DT, mujoco.mjtIntegrator.mjINT_RK4
    model.opt.disableflags |= NO.mjDSBL_CONTACT | (0 if limits else NO.mjDSBL_CONSTRAINT)
    model.dof_damping[:] = 0
    return model


def measure(name: str, limits: bool) -> None:
    file, floating = path(name)
    robot = lb.load(file, floating=floating, mimic=False)
    model = mujoco_model(robot, limits)
    layout, data = mujoco_layout(robot.tree, model), mujoco.MjData(model)
    rng = np.random.default_rng(0)
    q, v = robot.random(rng, MEMBERS), 0.1 * rng.standard_normal((MEMBERS, robot.nv))
    _, columns, (*_, lower, upper) = robot.tree.limits
    q[:, columns] = np.clip(q[:, columns], 0.9 * lower, 0.9 * upper)
    q_theirs, v_theirs = layout.to_q(q), layout.to_v(q, v)

    def ours(members: Any, count: int) -> lb.Run:
        joints = {"limits"} if limits else "ideal"
        options: dict[str, Any] = {"t_end": count * DT, "record_every": count * DT}
        return lb.simulate(robot, q[members], v[members], dt=DT, joints=joints, progress=False, **options)

    def theirs(member: int, count: int) -> None:
        data.qpos[:], data.qvel[:] = q_theirs[member], v_theirs[member]
        mujoco.mj_step(model, data, nstep=count)

    moved = robot.difference(q[0], ours(0, CHECKED).q[-1])
    theirs(0, CHECKED)
    off = np.abs(robot.difference(q[0], layout.from_q(data.qpos)) - moved).max() / np.abs(moved).max()
    if not (limits or off < AGREE):
        raise SystemExit(f"{name}: after {CHECKED} steps the two differ by {off:.1e} of the way")

    all_members, shown = (
        slice(None),
        rng.permutation(MEMBERS)[:ROUNDS],
    )  # a step of theirs costs the same of all
    more = ", limits" if limits else ""
    of_one, of_many = GOALS[name]
    for label, members, count, goal in (
        ("one", 0, ONE, of_one),
        (f"of {MEMBERS}", all_members, STEPS, of_many),
    ):
        ours(members, count)
        total = count * (1 if members == 0 else MEMBERS)
        pairs = [
            (
                seconds(lambda m=members, n=count: ours(m, n)) / total,
                seconds(lambda i=i: theirs(i, THEIRS)) / THEIRS,
            )
            for i in shown
        ]
        own, others = zip(*pairs, strict=True)
        keep(f"{name}, {label}{more}", seconds=own, ratio=np.divide(others, own))
        a, b = (1e9 * statistics.median(x) for x in (own, others))
        low, ratio, high = np.percentile([theirs_ / ours_ for ours_, theirs_ in pairs], [25, 50, 75])
        print(
            f"{f'{name}, {label}{more}':28s} {a:10.1f} {b:10.1f} {ratio:8.1f}   [{low:.1f}, {high:.1f}]",
            end="",
        )
        print("" if limits else f"  >= {goal}: {met(ratio >= goal)}")


def main(chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(describe("mujoco", "numpy"))
    print(f"{'ns per step of a member':28s} {'liebody':>10s} {'mujoco':>10s} {'ratio':>8s}   [quartiles]")
    for name in chosen or CHOSEN:
        measure(name, limits=False)
        measure(name, limits=True)


if __name__ == "__main__":
    main(sys.argv[1:])
