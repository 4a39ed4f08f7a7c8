"""A Panda follows a goal that goes behind a wall: predictive control with hard limits, 50 times a second.

    python examples/panda_beside_a_wall.py [panda_beside_a_wall.png]

The goal of the hand runs along a circle, a third of which lies behind a wall, where the hand may not go. The
controller plans one second ahead, with the torque limits of the arm, a limit of 1 rad/s for each joint, and
the wall as constraints. It gets the state with noise of encoders. Each call improves the plan of the last one
by two steps, and keeps its multipliers: so the hand stops at the wall, to parts of a millimetre, and slides
along it.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import liebody as lb
from liebody.control.optimal import BrokenConstraints

WALL = 0.5  # m, along x
SPEED = 1.0  # rad/s
TORQUE = np.array([87.0, 87, 87, 87, 12, 12, 12])  # N m
DT, KNOTS = 0.02, 50
HAND = "panda_hand_tcp"
POSTURE = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
CENTER, RADIUS, PERIOD = np.array([0.45, 0.0, 0.5]), 0.15, 8.0
NOISE_Q, NOISE_V = 1e-4, 1e-3  # rad, rad/s


def goal(t):
    """The place of the goal at times t (...), (..., 3): a circle in the plane of x and y."""
    angle = 2 * np.pi * np.asarray(t)[..., None] / PERIOD
    return CENTER + RADIUS * np.concatenate([np.sin(angle), np.cos(angle), 0 * angle], axis=-1)


def problem_of(robot):
    """The cost and constraints of the plans; the goal is a parameter."""

    def place(q):
        return robot.pose(q, frame=HAND)[:3, 3]

    def stage(q, v, u, p):
        return np.concatenate(
            [5 * (place(q) - p.goal), 0.1 * (q - POSTURE), 0.3 * v, 0.03 * (u - robot.gravity(q))]
        )

    def terminal(q, v, p):
        return np.concatenate([10 * (place(q) - p.goal), v])

    return lb.optimal_control(
        robot,
        dt=DT,
        stage=stage,
        terminal=terminal,
        method="semi-implicit-euler",
        limits=TORQUE,
        parameters={"goal": CENTER},
        stage_constraints=[
            (lambda q, v, u, p: place(q)[0], -np.inf, WALL),
            (lambda q, v, u, p: v, -SPEED, SPEED),
        ],
        terminal_constraints=[
            (lambda q, v, p: place(q)[0], -np.inf, WALL),
            (lambda q, v, p: v, -SPEED, SPEED),
        ],
        joints="ideal",
    )


def main(path: str | None = None, t_end: float = PERIOD) -> dict[str, np.ndarray]:
    full = lb.load("panda", mimic=False)
    robot = full.locked({"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02})
    problem = problem_of(robot)
    rng = np.random.default_rng(0)

    first = problem.solve(POSTURE, knots=KNOTS, u=robot.gravity(POSTURE), parameters={"goal": goal(0.0)})
    controller = problem.mpc(KNOTS, iterations=2)
    controller.reset(first)
    sim = lb.stepper(robot, dt=DT / 4, joints="ideal")
    state = sim.start(POSTURE)
    times, hands, speeds, efforts, seconds = [], [], [], [], []
    # the measured state breaks constraints by its noise, which no plan can mend
    warnings.simplefilter("ignore", BrokenConstraints)
    for _ in range(round(t_end / DT)):
        q = state.q + NOISE_Q * rng.standard_normal(robot.nq)
        v = state.v + NOISE_V * rng.standard_normal(robot.nv)
        begun = time.perf_counter()
        u = controller(q, v, {"goal": goal(state.t)})
        seconds.append(time.perf_counter() - begun)
        state = sim.step(state, problem.efforts(u), 4)
        times.append(state.t)
        hands.append(robot.pose(state.q, frame=HAND)[:3, 3])
        speeds.append(np.abs(state.v).max())
        efforts.append(np.abs(u / TORQUE).max())
    times, hands = np.array(times), np.array(hands)
    beyond = 1e3 * (hands[:, 0].max() - WALL)
    behind = 1e3 * (goal(times)[:, 0].max() - WALL)
    print(f"the goal is up to {behind:.0f} mm behind the wall, the hand {beyond:.2f} mm")
    print(f"fastest joint {max(speeds):.3f} rad/s, largest torque {100 * max(efforts):.0f} % of its limit")
    median, slow = 1e3 * np.median(seconds), 1e3 * np.quantile(seconds, 0.99)
    print(f"a call takes {median:.2f} ms (median), {slow:.2f} ms (99 %)")
    if path:
        draw(path, times, hands, np.array(speeds))
    return {"t": times, "hand": hands, "speed": np.array(speeds), "effort": np.array(efforts)}


def draw(path, times, hands, speeds):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    goals = goal(times)
    left.axvspan(WALL, WALL + 0.14, color="0.85")
    left.text(WALL + 0.12, CENTER[1], "wall", rotation=90, ha="center", color="0.4")
    left.plot(goals[:, 0], goals[:, 1], "--", color="C7", label="goal")
    left.plot(hands[:, 0], hands[:, 1], color="C0", label="hand")
    left.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
    left.legend(frameon=False)
    right.plot(times, 1e3 * (hands[:, 0] - WALL), color="C0", label="hand beyond the wall [mm]")
    right.axhline(0, color="0.6", lw=0.8)
    right.set(xlabel="t [s]", ylabel="x of the hand less that of the wall [mm]")
    other = right.twinx()
    other.plot(times, speeds, color="C1", lw=0.8)
    other.axhline(SPEED, color="C1", lw=0.8, ls=":")
    other.set_ylabel("fastest joint [rad/s]", color="C1")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
