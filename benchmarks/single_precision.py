"""Calls and simulations in float32 beside the same ones in float64: time, and the error of float32.

    python benchmarks/single_precision.py [robot ...]          (ur5 panda anymal talos)

Both run alternately in this process, with the same 512 random states, one thread; medians over the rounds of
the time per state (of simulations: per state and step) and of the ratio. The error is the largest of all
states and entries, relative to the largest entry of the result; of simulations, of q and v after 100 steps of
1 ms of RKMK4 from the same states. ANYmals also stand and turn on their feet by time stepping, 25 actions of
five steps of 4 ms each. Goal: float32 is 1.7 times as fast.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from typing import Any

import numpy as np
from machine import describe, keep, met, seconds, unless_quick
from robots import FILES, path

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.hybrid import JointPD

BATCH, ROUNDS, REPEAT = unless_quick((512, 40, 20), (16, 2, 2))
STEPS, STEP, SIMULATIONS = 100, 1e-3, unless_quick(12, 2)  # steps, their length [s], and rounds
ACTIONS = unless_quick(25, 2)  # of time stepping
FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # of ANYmal's joints on its feet
GOAL = 1.7


def measure(name: str) -> None:
    """The table's rows of one robot."""
    file, floating = path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = lb.load(file, floating=floating)
    rng = np.random.default_rng(0)
    q = robot.random(rng, BATCH)
    v, a = rng.standard_normal((2, BATCH, robot.nv))
    calls: dict[str, tuple[Any, Any]] = {
        "inverse dynamics": (robot.inverse_dynamics, (q, v, a)),
        "forward dynamics": (robot.forward_dynamics, (q, v, a)),
        "mass matrix": (robot.mass_matrix, (q,)),
        "derivatives of inverse dynamics": (
            robot.derivatives("inverse_dynamics", ("q", "v")),
            (q, v, a),
        ),
        "derivatives of forward dynamics": (
            robot.derivatives("forward_dynamics", ("q", "v")),
            (q, v, a),
        ),
    }
    for label, (call, arrays) in calls.items():
        narrow = [x.astype(np.float32) for x in arrays]
        exact = np.concatenate([np.ravel(x) for x in call(*(x.astype(float) for x in narrow))])
        error = np.abs(np.concatenate([np.ravel(x) for x in call(*narrow)]) - exact).max()
        report(
            f"{name} {label}",
            [
                [seconds(partial(call, *given), REPEAT) / BATCH for given in (arrays, narrow)]
                for _ in range(ROUNDS)
            ],
            error / np.abs(exact).max(),
        )
    simulation(name, robot, q, 0.1 * v)
    if name == "anymal":
        standing(robot)


def simulation(name: str, robot: lb.Robot, q: Any, v: Any) -> None:
    """The row of the simulation of an ensemble from these states."""
    q, v = (x.astype(np.float32) for x in (q, v))
    simulate = partial(
        lb.simulate, robot, q, v, t_end=STEPS * STEP, dt=STEP, record_every=STEPS * STEP, threads=1,
        joints="ideal", progress=False,
    )  # fmt: skip
    exact, run = (simulate(dtype=dtype) for dtype in (np.float64, np.float32))
    errors = [np.abs(x - y).max() / np.abs(y).max() for x, y in ((run.q, exact.q), (run.v, exact.v))]
    calls = [partial(simulate, dtype=dtype) for dtype in (np.float64, np.float32)]
    rounds = [[seconds(call, 1) / (BATCH * STEPS) for call in calls] for _ in range(SIMULATIONS)]
    report(f"{name} simulation", rounds, max(errors))


def standing(robot: lb.Robot) -> None:
    """The row of ANYmals on their feet, whose joints follow other set-points in each action."""
    q0 = np.concatenate([robot.neutral()[:7], POSE])
    q0[6] = -min(robot.pose(q0, foot)[2, 3] for foot in FEET)
    drives = JointPD(K=80.0, q_des=POSE, D=2.0, gravity_compensation=False)
    floor = Contact(*FEET, stiffness=1e5, damping=1e3, friction=0.8)
    system = TimeStepping(robot, drives, floor, step=0.004, ledger=False)
    sims = [lb.stepper(system, dt=0.02, members=BATCH, threads=1, dtype=x) for x in (np.float64, np.float32)]
    targets = POSE + 0.2 * np.tanh(np.random.default_rng(0).normal(size=(ACTIONS, BATCH, 12)))
    states = [sim.start(q0) for sim in sims]
    rounds = []
    for target in targets:
        times = []
        for i, sim in enumerate(sims):
            step = partial(sim.step, states[i], {"pd_q_des": target})
            times.append(seconds(step, 4) / (5 * BATCH))
            states[i] = step()
        rounds.append(times)
    exact, state = states
    errors = [np.abs(x - y).max() / np.abs(y).max() for x, y in ((state.q, exact.q), (state.v, exact.v))]
    report("anymal time stepping", rounds, max(errors))


def report(label: str, rounds: list[list[float]], error: float) -> None:
    """Print a row, and keep it: rounds of seconds in float64 and float32, and the relative error."""
    wide, single = np.array(rounds).T
    ratio = float(np.median(wide / single))
    keep(label, seconds=single, ratio=wide / single)
    print(
        f"{label:40s} {np.median(wide) * 1e9:9.1f} {np.median(single) * 1e9:9.1f} "
        f"{ratio:7.2f}  {met(ratio >= GOAL):4s} {error:9.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("robots", nargs="*", default=unless_quick(tuple(FILES), tuple(FILES)[:1]))
    print(describe("numpy"))
    print(f"{'ns per state':40s} {'float64':>9s} {'float32':>9s} {'ratio':>7s}  >={GOAL} {'error':>8s}")
    for name in parser.parse_args().robots:
        measure(name)


if __name__ == "__main__":
    main()
