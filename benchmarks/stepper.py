"""A step from Python beside a step inside the compiled loop: one UR5, and ensembles.

    python benchmarks/stepper.py [rounds]

RKMK4, 1 ms, no efforts. Processor time, both in alternation; medians over the rounds, and medians of their
ratios. Goals: 3 us for one robot, and twice the loop's time for 256.
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from machine import describe, keep, met, seconds, unless_quick
from robots import path

import liebody as lb

ONE, MANY = 3, 2  # goals: microseconds, and times the loop's


def compare(robot: lb.Robot, members: int, steps: int, rounds: int) -> None:
    batch = (members,) if members > 1 else ()
    sim = lb.stepper(robot, dt=1e-3, members=batch)
    q, u = robot.random(np.random.default_rng(0), batch), np.zeros((*batch, robot.nv))

    def stepped() -> None:
        state = sim.start(q)
        for _ in range(steps):
            state = sim.step(state, u)

    def simulated() -> None:
        end = steps * 1e-3
        lb.simulate(robot, q, t_end=end, dt=1e-3, tau=u, record_every=end, joints="ideal")

    stepped(), simulated()
    times = [(seconds(stepped), seconds(simulated)) for _ in range(rounds)]
    ours, loop = (1e6 * statistics.median(x) / steps / members for x in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    stepper, march = (np.array(x) / steps / members for x in zip(*times, strict=True))
    keep(f"{members}, stepper", seconds=stepper)
    keep(f"{members}, loop", seconds=march)
    goals = {1: f"  <= {ONE} us: {met(ours <= ONE)}", 256: f"  <= {MANY}: {met(ratio <= MANY)}"}
    print(f"{members:8d} {ours:18.3f} {loop:18.3f} {ratio:8.2f}{goals.get(members, '')}")


def main(rounds: int = unless_quick(7, 1)) -> None:
    print(describe("numpy"))
    robot = lb.load(path("ur5")[0])
    print("\n members  stepper, us/step     loop, us/step    ratio   (per member)")
    for members, steps in ((1, 20_000), (8, 5000), (64, 1000), (256, 500)):
        compare(robot, members, steps, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
