"""ANYmal trots in place: diagonal legs lift in turn, by a pattern of joint angles, without any feedback.

    python examples/anymal_trots.py [picture.png]

The set-points of the drives are samples with linear interpolation. To lift a foot, the thigh turns
forwards and the knee bends twice as much. Members trot at different paces, by time stepping with steps of
1 ms. Without feedback they drift by some centimetres a second.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.hybrid import JointPD

LEGS = ("LF", "RF", "LH", "RH")
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
LIFT = np.array([0, 0.35, -0.7] * 2 + [0, -0.35, 0.7] * 2)  # of the joints, at the top of a step, rad
PAIR = np.repeat([0, 1, 1, 0], 3)  # LF and RH, RF and LH
PACES = np.array([1.5, 2.0, 2.5, 3.0])  # of a whole cycle, Hz
START, END = 0.5, 4.5  # s


def pattern(t: np.ndarray) -> np.ndarray:
    """Set-points of the joints, (paces, times, 12): each pair lifts in half of the cycle."""
    phase = PACES[:, None, None] * (t - START)[:, None] + 0.5 * PAIR
    going = ((t > START) & (t < END))[:, None]
    return POSE + going * LIFT * np.maximum(np.sin(2 * np.pi * phase), 0)


def main(picture: str | None = None):
    warnings.simplefilter("ignore")
    robot = lb.load("anymal_c_simple", floating=True)
    feet = [f"{leg}_FOOT" for leg in LEGS]
    q0 = np.concatenate([robot.neutral()[:7], POSE])
    q0[6] = -min(lb.dynamics.frame_pose(robot.tree, q0, foot)[2, 3] for foot in feet)

    drives = JointPD(K=400.0, q_des=POSE, D=10.0)
    floor = Contact(*feet, stiffness=1e6, damping=1e4, friction=0.8)
    system = TimeStepping(robot, drives, floor, ledger=False)
    times = np.linspace(0, 5, 501)
    run = system.simulate(
        np.tile(q0, (len(PACES), 1)), t_end=5.0, dt=1e-3, record_every=0.005, hold="linear",
        sampled={"pd_q_des": (times, pattern(times))},
    )  # fmt: skip
    on = run.outputs["floor_force"][..., 2] > 0  # (members, rows, feet)
    trots = (run.t > START) & (run.t < END)
    both = np.mean(on[:, trots][..., [0, 3]].all(-1) & ~on[:, trots][..., [1, 2]].any(-1), axis=1)
    for pace, part, x in zip(PACES, both, run.q[:, -1, 4:6], strict=True):
        away = 100 * np.linalg.norm(x)
        print(f"{pace} Hz: on LF and RH alone {part:.0%} of the time; {away:.1f} cm away after the trot")
    if picture:
        draw(run, on, picture)
    return run, on


def draw(run, on, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    for k in range(4):
        left.fill_between(
            run.t, 3.6 - k, 4.4 - k, where=on[1, :, k], color=f"C{PAIR[3 * k]}", step="mid", lw=0
        )
    left.set(
        xlim=(0.3, 2.3),
        yticks=[4, 3, 2, 1],
        yticklabels=LEGS,
        xlabel="t in s",
        title=f"feet on the ground, {PACES[1]} Hz",
    )
    for pace, q in zip(PACES, run.q, strict=True):
        right.plot(run.t, q[:, 6], label=f"{pace} Hz")
    right.set(xlabel="t in s", ylabel="height of the base in m", title="four paces")
    right.legend(loc="lower right")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
