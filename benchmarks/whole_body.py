"""A whole-body controller of ANYmal on four feet, and solvers of the same quadratic programs.

    python benchmarks/whole_body.py [rounds]

A call of `liebody.control.WholeBody` is all from q and v to efforts and forces. quadprog and DAQP, dual
active set methods, and ProxQP, a proximal method, get the finished matrices only: their time is that of the
solver alone. They have to find the same accelerations to 1e-3 of the largest one. A solver that is not
installed is left out (pip install quadprog daqp proxsuite). Calls take turns in one process, over the same
random states; medians, 99th percentiles, and the median of the rounds' ratios. Processor time.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from machine import describe, keep, unless_quick
from robots import path

import liebody as lb
from liebody.compiler import Kernel
from liebody.control import MotionTask, Support, WholeBody

FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)
STATES, MANY = 200, 1000


Call = Callable[[], np.ndarray]


def costs(data: Sequence[np.ndarray], rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """H and g to which weighted equalities belong."""
    H, g, A, b, weight, *_ = data
    w = weight * rows
    return H + (A.T * w) @ A, g - A.T @ (w * b)


def quadprog(solver: Any, data: Sequence[np.ndarray]) -> Call:
    """The rows that have a bound, as C x >= b."""
    H, g = costs(data, 1)
    C, low, high = data[5:8]
    finite = low > -1e20, high < 1e20
    rows = np.concatenate([C[finite[0]], -C[finite[1]]]).T.copy()
    bounds = np.concatenate([low[finite[0]], -high[finite[1]]])
    return lambda: solver.solve_qp(H, -g, rows, bounds)[0]


def daqp(solver: Any, data: Sequence[np.ndarray]) -> Call:
    H, g = costs(data, 1)
    C, low, high = data[5:8]
    sense = np.zeros(len(C), np.int32)
    return lambda: solver.solve(H, g, C, high, low, sense)[0]


def proxsuite(solver: Any, data: Sequence[np.ndarray]) -> Call:
    """Rows of supports are exact equalities: it does not converge with their weights in the cost."""
    hard = data[4] > 1e3
    H, g = costs(data, ~hard)
    A, b = data[2][hard], data[3][hard]
    C, low, high = data[5], np.maximum(data[6], -1e20), np.minimum(data[7], 1e20)
    solve = solver.proxqp.dense.solve
    return lambda: solve(H, g, A, b, C, low, high, eps_abs=1e-9, rho=1e-8).x


PEERS = {"quadprog": quadprog, "daqp": daqp, "proxsuite": proxsuite}


def installed() -> dict[str, Any]:
    """The modules of `PEERS` that are there."""
    found = {}
    for name in PEERS:
        try:
            found[name] = importlib.import_module(name)
        except ModuleNotFoundError:
            print(f"{name} is not installed here; it is left out")
    return found


def main(rounds: int = unless_quick(9, 1)) -> None:
    solvers = installed()
    print(describe("numpy", *solvers))
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
    programs = [before(Q[k], V[k], p) for k in range(STATES)]
    peers = {name: [PEERS[name](solver, program) for program in programs] for name, solver in solvers.items()}
    for name, calls in peers.items():
        worst = 0.0
        for k, call in enumerate(calls):
            a = commands.a[k, controller.driven]
            worst = max(worst, np.abs(call()[: len(a)] - a).max() / np.abs(commands.a[k]).max())
        print(f"{name} finds the same accelerations to {worst:.0e} of the largest one")
        if not worst < 1e-3:
            raise SystemExit(f"{name} has another solution")

    times: dict[str, list[float]] = {name: [] for name in ("liebody", *peers)}
    ratios: dict[str, list[float]] = {name: [] for name in peers}
    batch: list[float] = []
    model: list[float] = []
    for _ in range(rounds):
        for k in range(STATES):
            begin = time.process_time()
            kernel.call(Q[k], V[k], p)
            times["liebody"].append(time.process_time() - begin)
            for name, calls in peers.items():
                begin = time.process_time()
                calls[k]()
                times[name].append(time.process_time() - begin)
        latest = {name: statistics.median(x[-STATES:]) for name, x in times.items()}
        for name in peers:
            ratios[name].append(latest[name] / latest["liebody"])
        for f, durations in ((kernel, batch), (before, model)):
            begin = time.process_time()
            f(Q, V, p)
            durations.append((time.process_time() - begin) / MANY)
    print(f"{commands.iterations.mean():.1f} iterations, at most {commands.iterations.max():.0f}")
    print("\n                             median, us      99 %, us   times the whole call")
    for name, x in times.items():
        label = "liebody, whole call" if name == "liebody" else f"{name}, solver"
        keep(label, seconds=x, **({"ratio": ratios[name]} if name in ratios else {}))
        ratio = f"{statistics.median(ratios[name]):14.2f}" if name in ratios else ""
        print(f"{label:24s} {1e6 * statistics.median(x):14.1f} {1e6 * np.quantile(x, 0.99):13.1f} {ratio}")
    for label, durations in (("liebody, of 1000", batch), ("its program's matrices", model)):
        keep(label, seconds=durations)
        print(f"{label:24s} {1e6 * statistics.median(durations):14.2f}   each, one thread")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
