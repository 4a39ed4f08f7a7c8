"""Predictive control with constraints: UR5 and Panda reach for a goal behind a plane for the tool.

    python benchmarks/mpc.py

50 knots of 20 ms; torque limits, at most 1 rad/s in each joint, tool before the plane. The arm starts from
rest, and the controller is called every 20 ms for 4 s, with noise on the measured state (1e-4 rad,
1e-3 rad/s), in a simulation by RK4 with steps of 5 ms. Each line has the largest distance of the tool beyond
the plane and the largest speed in the motion, the distance from the goal's projection at the end, the time of
a call (median and 99th percentile over the loop, by the clock), and iterations of a call.

restarted   multipliers and penalty restarted at every call: a search of so many steps by `solve` from the
            last plan, shifted by a knot, as controllers did before they kept them
kept        `Controller`, which keeps and shifts them: 1 and 2 steps a call, and as many as are needed
after jump  the goal jumps by 0.6 m after 2 s
"""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

import numpy as np
from machine import describe, keep, met, unless_quick
from robots import path

import liebody as lb
from liebody.control.optimal import BrokenConstraints, UnfinishedPlan

KNOTS = 50
DT = 0.02
ROUNDS = unless_quick(200, 6)
SPEED = 1.0
NOISE = (1e-4, 1e-3)
TARGET_MS = 0.5
TARGET_MM = 0.5
ARMS: dict[str, dict[str, Any]] = {
    "ur5": {
        "tool": "ee_link",
        "start": [0.0, -1.2, 1.5, -0.5, 0.3, 0.0],
        "limits": [150.0, 150.0, 150.0, 28.0, 28.0, 28.0],
        "wall": 0.6,
        "goal": [0.75, -0.3, 0.4],
        "other": [0.5, 0.3, 0.4],
    },
    "panda": {
        "tool": "panda_hand_tcp",
        "locked": {"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02},
        "start": [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785],
        "limits": [87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0],
        "wall": 0.45,
        "goal": [0.6, -0.3, 0.5],
        "other": [0.35, 0.3, 0.5],
    },
}


class Restarted:
    """The controller up to 0.2.0: it keeps states and inputs of its plan, and restarts the multipliers."""

    def __init__(self, problem: Any, plan: Any, iterations: int) -> None:
        self.problem = problem
        self.plan = plan
        self.iterations = iterations

    def __call__(self, q: Any, v: Any, parameters: Any) -> Any:
        shifted = {
            name: np.concatenate([x[1:], x[-1:]])
            for name, x in (("q", self.plan.q), ("v", self.plan.v), ("u", self.plan.u))
        }
        options = {"iterations": self.iterations, "tolerance": 1e-6, "parameters": parameters}
        self.plan = self.problem.solve(q, v, **shifted, **options)
        return self.plan.u[0]


def problem_of(name: str) -> tuple[Any, Any, dict[str, Any]]:
    """Robot, problem, and the numbers of the arm."""
    arm = ARMS[name]
    file, floating = path(name)
    robot = lb.load(file, floating=floating, mimic=False)
    if "locked" in arm:
        robot = robot.locked(arm["locked"])

    def position(q: Any) -> Any:
        return robot.pose(q, frame=arm["tool"])[:3, 3]

    def stage(q: Any, v: Any, u: Any, p: Any) -> Any:
        posture = robot.difference(np.array(arm["start"]), q)
        hold = robot.gravity(q)
        return np.concatenate([3 * (position(q) - p.goal), 0.1 * posture, 0.3 * v, 0.03 * (u - hold)])

    def terminal(q: Any, v: Any, p: Any) -> Any:
        return np.concatenate([10 * (position(q) - p.goal), v])

    def plane(q: Any, v: Any, u: Any, p: Any) -> Any:
        return position(q)[0]

    def speed(q: Any, v: Any, u: Any, p: Any) -> Any:
        return v

    problem = lb.optimal_control(
        robot,
        dt=DT,
        stage=stage,
        terminal=terminal,
        method="semi-implicit-euler",
        limits=np.array(arm["limits"]),
        parameters={"goal": arm["goal"]},
        stage_constraints=[(plane, -np.inf, arm["wall"]), (speed, -SPEED, SPEED)],
        terminal_constraints=[
            (lambda q, v, p: position(q)[0], -np.inf, arm["wall"]),
            (lambda q, v, p: v, -SPEED, SPEED),
        ],
        joints="ideal",
    )
    return robot, problem, arm


def loop(robot: Any, problem: Any, arm: dict[str, Any], controller: Any, goals: list[Any]) -> dict[str, Any]:
    """The motion under a controller, whose goal changes after each share of the rounds."""
    rng = np.random.default_rng(0)
    motion = lb.stepper(robot, dt=DT / 4, joints="ideal")
    state = motion.start(arm["start"], np.zeros(robot.nv))
    tips: list[Any] = []
    speeds: list[float] = []
    seconds: list[float] = []
    steps: list[int] = []
    for k in range(ROUNDS):
        goal = goals[k * len(goals) // ROUNDS]
        q = state.q + NOISE[0] * rng.normal(size=robot.nq)
        v = state.v + NOISE[1] * rng.normal(size=robot.nv)
        begun = time.perf_counter()
        u = controller(q, v, {"goal": goal})
        seconds.append(time.perf_counter() - begun)
        steps.append(len(controller.plan.history))
        state = motion.step(state, problem.efforts(u), 4)
        tips.append(robot.pose(state.q, frame=arm["tool"])[:3, 3])
        speeds.append(np.abs(state.v).max())
    end = np.minimum(goals[-1], [arm["wall"], np.inf, np.inf])  # the nearest point that is allowed
    return {
        "beyond": 1e3 * (np.max(tips, axis=0)[0] - arm["wall"]),
        "speed": max(speeds),
        "end": 1e3 * np.abs(tips[-1] - end).max(),
        "ms": 1e3 * statistics.median(seconds[1:]),
        "slow": 1e3 * float(np.quantile(seconds[1:], 0.99)),
        "steps": statistics.mean(steps),
    }


def report(name: str, label: str, x: dict[str, Any]) -> None:
    keep(f"{name}, {label}", seconds=x["ms"] / 1e3)
    print(
        f"  {label:34s} {x['beyond']:9.2f} mm {x['speed']:8.4f} rad/s {x['end']:8.1f} mm {x['ms']:7.3f} ms "
        f"{x['slow']:8.2f} ms {x['steps']:6.1f}",
        flush=True,
    )


def main() -> None:
    print(describe("numpy"))
    warnings.simplefilter("ignore", BrokenConstraints)
    for name in unless_quick(list(ARMS), ["ur5"]):
        robot, problem, arm = problem_of(name)
        hold = robot.gravity(np.array(arm["start"]))
        goals = {"": [arm["goal"]], ", after jump": [arm["other"], arm["goal"]]}
        first = {
            key: problem.solve(arm["start"], knots=KNOTS, u=hold, parameters={"goal": goal[0]})
            for key, goal in goals.items()
        }
        begun = time.perf_counter()
        plan = problem.solve(arm["start"], knots=KNOTS, u=hold)
        cold = time.perf_counter() - begun
        print(
            f"\n{name}: first plan in {1e3 * cold:.1f} ms, {plan.iterations} steps, {plan.status}, violation "
            f"{plan.violation:.1e}"
        )
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            controller = problem.mpc(KNOTS, first_iterations=30)
            controller(arm["start"])
        said = [x.category.__name__ for x in told if x.category in (UnfinishedPlan, BrokenConstraints)]
        print(f"  from u = 0 with 30 steps: {controller.plan.status}; warnings: {', '.join(said) or 'none'}")
        print(f"  {'':34s} {'beyond':>12s} {'speed':>14s} {'end':>11s} {'call':>10s} {'99 %':>11s}  steps")
        for key, goal in goals.items():
            for iterations in (2, 10):
                old = Restarted(problem, first[key], iterations)
                report(name, f"restarted, {iterations} steps{key}", loop(robot, problem, arm, old, goal))
            # a bound of the time leaves no room for a search anew
            for bound in (1, 2, None) if not key else (None,):
                controller = problem.mpc(KNOTS, iterations=bound)
                controller.reset(first[key])
                found = loop(robot, problem, arm, controller, goal)
                report(name, f"kept, {bound or 'as many as needed'}{key}", found)
                if bound == 2:
                    fast, near = found["ms"] <= TARGET_MS, found["beyond"] <= TARGET_MM
                    print(f"    {TARGET_MS} ms: {met(fast)}; {TARGET_MM} mm: {met(near)}")


if __name__ == "__main__":
    main()
