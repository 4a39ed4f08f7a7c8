"""ANYmal shifts its body over three feet and lifts the fourth: whole-body control at 1 kHz in Python.

    python examples/anymal_whole_body.py [picture.png]

Each millisecond `liebody.control.WholeBody` computes efforts of the joints, and the forces that it counts on,
from the measured state. The robot (from the package example-robot-data) and its contacts are simulated by
time stepping. Which feet carry, and where the body and the foot should be, are parameters of the call.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.control import MotionTask, Support, WholeBody
from liebody.hybrid import Feedback

URDF = "cmeel.prefix/share/example-robot-data/robots/anymal_b_simple_description/robots/anymal.urdf"
FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
DT, MU = 1e-3, 0.7
SHIFT = np.array([-0.08, -0.06, 0.0])  # of the body, over the feet that stay, m
LIFT = 0.12  # m
PHASES = {"stand": 0.3, "shift": 1.0, "lift": 1.6, "hold": 2.0, "lower": 2.6, "stand again": 3.0}  # ends, s


def smooth(t: float, start: float, end: float) -> np.ndarray:
    """From 0 to 1 between two times, its rate and its acceleration."""
    length = end - start
    s = np.clip((t - start) / length, 0, 1)
    inside = 0 < s < 1
    return np.array([s * s * (3 - 2 * s), 6 * s * (1 - s) / length, inside * (6 - 12 * s) / length**2])


def main(picture: str | None = None, t_end: float = PHASES["stand again"]):
    robot = lb.load(Path(str(distribution("example-robot-data").locate_file(URDF))), floating=True)
    q0 = robot.neutral()
    q0[7:] = POSE
    q0[6] = -min(robot.pose(q0, foot)[2, 3] for foot in FEET)

    tasks = [
        MotionTask.pose(robot, "base", kp=100.0, weight=10.0),
        MotionTask.position(robot, "LF_FOOT", kp=400.0, weight=0.0),
        MotionTask.posture(robot, kp=50.0, weight=0.01),
    ]
    controller = WholeBody(robot, tasks, [Support(foot, friction=0.9 * MU) for foot in FEET])
    plant = TimeStepping(
        robot,
        Feedback(lambda s, p: p.tau, tau=np.zeros(12)),
        Contact(*FEET, stiffness=1e6, damping=1e4, friction=MU),
        ledger=False,
    )
    sim = lb.stepper(plant, dt=DT)
    state = sim.start(q0)

    base = robot.pose(q0, "base")
    foot = robot.pose(q0, "LF_FOOT")[:3, 3]
    values = {"posture.target": POSE, "base.target": base}
    controller(q0, np.zeros(robot.nv), values)  # compiles
    log = []
    seconds = []
    for k in range(round(t_end / DT)):
        t = k * DT
        over = smooth(t, PHASES["stand"], PHASES["shift"])
        up = smooth(t, PHASES["shift"], PHASES["lift"]) - smooth(t, PHASES["hold"], PHASES["lower"])
        swings = PHASES["shift"] <= t < PHASES["lower"]
        values["base.target"] = base.copy()
        values["base.target"][:3, 3] += over[0] * SHIFT
        values["base.rate"] = np.concatenate([np.zeros(3), over[1] * SHIFT])  # the base is not turned
        values["base.acceleration"] = np.concatenate([np.zeros(3), over[2] * SHIFT])
        values["LF_FOOT.target"] = foot + [0, 0, LIFT * up[0]]
        values["LF_FOOT.rate"] = np.array([0, 0, LIFT * up[1]])
        values["LF_FOOT.acceleration"] = np.array([0, 0, LIFT * up[2]])
        values["LF_FOOT.weight"] = float(swings)
        values["LF_FOOT.active"] = float(not swings)
        p = controller.pack(values)
        begin = time.perf_counter()
        u = controller(state.q, state.v, p)
        seconds.append(time.perf_counter() - begin)
        state = sim.step(state, parameters={"tau": u.tau[6:]})
        height = robot.pose(state.q, "LF_FOOT")[2, 3]
        log.append((t, *u.f[:, 2], *(state.q[4:7] - q0[4:7]), height, u.status, state.q.copy()))
    columns = [np.array(x) for x in zip(*log, strict=True)]
    forces, moved = np.stack(columns[1:5]), np.stack(columns[5:8])
    t, height, status, q = columns[0], *columns[8:]
    wanted = SHIFT[:, None] * [smooth(x + DT, PHASES["stand"], PHASES["shift"])[0] for x in t]
    error = np.abs(moved - wanted).max()
    print(
        f"the foot is lifted by {height.max() - height[0]:.3f} m, the body misses its place by {error:.4f} m"
    )
    print(f"of {len(t)} commands {np.count_nonzero(status == 2)} did not converge")
    median, worst = 1e6 * np.quantile(seconds, [0.5, 0.99])
    print(f"a command takes {median:.0f} us, and one of a hundred more than {worst:.0f} us")
    if picture:
        draw(robot, t, forces, moved, height, q, picture)
    return t, forces, moved, height, status, error


def draw(robot, t, forces, moved, height, q, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 4.2), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    top, bottom = (figure.add_subplot(grid[k, :2]) for k in range(2))
    for name, force in zip(FEET, forces, strict=True):
        top.plot(t, force, label=name[:2])
    top.set(ylabel="normal forces in N", xticklabels=[], xlim=(0, t[-1]))
    top.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 0.06))
    for k, axis in enumerate("xyz"):
        bottom.plot(t, 100 * moved[k], label=f"body, {axis}")
    bottom.plot(t, 100 * (height - height[0]), "k", label="left front foot, z")
    bottom.set(xlabel="t in s", ylabel="displacements in cm", xlim=(0, t[-1]))
    bottom.legend(ncols=2)
    for end in PHASES.values():
        for axes in (top, bottom):
            axes.axvline(end, color="0.9", zorder=0)
    side = figure.add_subplot(grid[:, 2])
    middle = int(np.argmax(height))
    for k, color in ((0, "0.75"), (middle, "C0")):
        for leg in ("LF", "RF", "LH", "RH"):
            links = [robot.pose(q[k], f"{leg}_{link}")[:3, 3] for link in ("HIP", "THIGH", "SHANK", "FOOT")]
            x, _, z = np.array([robot.pose(q[k], "base")[:3, 3], *links]).T
            side.plot(x, z, color=color, lw=3 if leg[0] == "L" else 1.5)
    side.axhline(0, color="k", lw=0.5)
    side.set(aspect="equal", xlabel="x in m", ylabel="z in m", title=f"at 0 s and {t[middle]:.1f} s")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
