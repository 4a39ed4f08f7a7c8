"""A whole-body controller of ANYmal on four feet, and quadprog on the same quadratic programs.

    python benchmarks/whole_body.py [rounds]

A call of `liebody.control.WholeBody` is everything from q and v to efforts and forces. quadprog, a dual
active set method, gets the finished matrices only: its time is that of the solver alone, and it has to find
the same accelerations to 1e-3 of the largest one. Calls take turns in one process, over the same random
states; medians, 99th percentiles, and the median of the rounds' ratios. Processor time.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
from machine import absent, describe, unless_quick
from robots import path

import liebody as lb
from liebody.compiler import Kernel
from liebody.control import MotionTask, Support, WholeBody

FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)
STATES, MANY = 200, 1000


def dense(data):
    """H, g and the rows C x >= b of quadprog: weighted equalities belong to the cost."""
    H, g, A, b, weight, C, low, high, *_ = data
    finite = low > -1e20, high < 1e20
    rows = np.concatenate([C[finite[0]], -C[finite[1]]])
    return (
        np.ascontiguousarray(H + (A.T * weight) @ A),
        A.T @ (weight * b) - g,
        np.ascontiguousarray(rows.T),
        np.concatenate([low[finite[0]], -high[finite[1]]]),
    )


def main(rounds: int = unless_quick(9, 1)) -> None:
    try:
        import quadprog
    except ModuleNotFoundError as error:
        absent(error)
    print(describe("numpy", "quadprog"))
    file, floating = path("anymal")
    robot = lb.load(file, floating=floating)
    q = robot.neutral()
    q[7:] = POSE
    tasks = [
        MotionTask.pose(robot, "base", kp=100.0, weight=10.0),
        MotionTask.posture(robot, kp=50.0, weight=0.1),
    ]
    controller = WholeBody(robot, tasks, [Support(foot) for foot in FEET], limits=["effort"])
    p = controller.pack({"base.target": robot.pose(q, "base"), "posture.target": POSE})
    rng = np.random.default_rng(0)
    Q = robot.integrate(np.tile(q, (MANY, 1)), 0.05 * rng.normal(size=(MANY, robot.nv)))
    V = 0.1 * rng.normal(size=(MANY, robot.nv))
    kernel = controller.kernel
    commands = controller(Q, V, p)
    before = Kernel(kernel.function.before)
    programs = [dense(before(Q[k], V[k], p)) for k in range(STATES)]
    for k in range(STATES):
        a = quadprog.solve_qp(*programs[k])[0][: len(controller.driven)]
        if np.abs(a - commands.a[k, controller.driven]).max() > 1e-3 * np.abs(commands.a[k]).max():
            raise SystemExit(f"state {k}: {a} by quadprog, {commands.a[k, controller.driven]} here")

    times: tuple[list[float], list[float]] = ([], [])
    batch = []
    ratios = []
    for _ in range(rounds):
        for k in range(STATES):
            begin = time.process_time()
            kernel.call(Q[k], V[k], p)
            middle = time.process_time()
            quadprog.solve_qp(*programs[k])
            times[0].append(middle - begin)
            times[1].append(time.process_time() - middle)
        ratios.append(statistics.median(times[1][-STATES:]) / statistics.median(times[0][-STATES:]))
        begin = time.process_time()
        kernel(Q, V, p)
        batch.append((time.process_time() - begin) / MANY)
    print(f"{commands.iterations.mean():.1f} iterations, at most {commands.iterations.max():.0f}")
    print("\n                           median, us      99 %, us")
    for name, x in zip(("liebody, whole call", "quadprog, solver"), times, strict=True):
        print(f"{name:22s} {1e6 * statistics.median(x):14.1f} {1e6 * np.quantile(x, 0.99):13.1f}")
    print(f"{'liebody, of 1000':22s} {1e6 * statistics.median(batch):14.2f}   each, one thread")
    print(f"quadprog takes {statistics.median(ratios):.2f} times as long as the whole call")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
