"""One robot, a thousand variants: UR5s whose last links differ, and what new values of parameters cost.

    python benchmarks/parameters.py [thousand_arms.png]

The arms let go from a stretched pose, held by gains on velocities alone; masses and centres of their last
links differ. Reported: the first call, which compiles if no earlier process has; a second one with other
values, which does not; one arm whose controller has other gains, as parameters and as numbers in its source;
and a call of inverse dynamics with and without parameters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from machine import describe, keep, seconds, unless_quick
from robots import path

import liebody as lb

ARMS, STEPS, DT = *unless_quick((1000, 1000), (8, 100)), 1e-3
LINK = "wrist_3_link"
START = np.array([0.0, -0.4, 0.3, 0.0, 0.0, 0.0])


def brake(t: Any, q: Any, v: Any, p: Any) -> Any:
    return -p.D * v


def fall(robot: lb.Robot, low: float, high: float, D: float = 2.0) -> lb.Run:
    masses = np.linspace(low, high, ARMS)
    centers = np.stack([0 * masses, 0 * masses, np.linspace(-0.05, 0.15, ARMS)], axis=-1)
    given = {f"{LINK}.mass": masses, f"{LINK}.center": centers, "D": D}
    options = {"t_end": STEPS * DT, "dt": DT, "record_every": 0.02}
    return lb.simulate(robot, START, tau=brake, parameters=given, **options)


def single(robot: lb.Robot, D: float, as_parameter: bool) -> None:
    options: dict[str, Any] = {"t_end": STEPS * DT, "dt": DT, "record_every": 0.1}
    if as_parameter:
        lb.simulate(robot, START, tau=brake, parameters={"D": D}, **options)
    else:
        lb.simulate(robot, START, tau=lambda t, q, v: -D * v, **options)


def call(function: Callable[[], Any], calls: int = unless_quick(20_000, 20)) -> float:
    function()
    return 1e6 * min(seconds(function, calls) for _ in range(7))


def main(picture: str | None = None) -> None:
    print(describe("numpy"))
    robot = lb.load(path("ur5")[0])
    first = seconds(lambda: fall(robot, 0.1, 2.0), clock=time.perf_counter)
    others = [seconds(partial(fall, robot, 0.1 + 0.1 * k, 3.0 + k)) for k in range(7)]
    print(f"{ARMS} UR5s, {STEPS} steps each: first call {first:.2f} s, new values {min(others):.3f} s")
    keep("a thousand arms, new values", seconds=others)
    single(robot, 1.0, True)
    rng = np.random.default_rng()
    gains = rng.uniform(1, 2, (2, 5))
    for as_parameter, values in ((True, gains[0]), (False, gains[1])):
        clock = time.process_time if as_parameter else time.perf_counter
        each = min(seconds(partial(single, robot, D, as_parameter), clock=clock) for D in values)
        kind = "a parameter" if as_parameter else "a number in the controller"
        keep(f"a new gain as {kind}", seconds=each)
        print(f"one UR5, {STEPS} steps, a new gain as {kind}: {1e3 * each:.2f} ms")
    q, v, a = rng.normal(size=(3, 6))
    arm = robot.with_parameters(f"{LINK}.mass", f"{LINK}.center")
    p = arm.packed({f"{LINK}.mass": 1.0})
    plain = call(lambda: robot.inverse_dynamics(q, v, a))
    given = call(lambda: arm.inverse_dynamics(q, v, a, parameters=p))
    print(f"inverse dynamics: {plain:.2f} us, with 4 parameters {given:.2f} us a call")
    if picture:
        draw(robot, fall(robot, 0.1, 5.0, 0.3), picture)


def draw(robot: lb.Robot, run: lb.Run, picture: str) -> None:
    """The way of each hand, and where it is at the end."""
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection

    hand = robot.pose(run.q, "tool0")[..., :3, 3]
    masses = run.parameters[f"{LINK}.mass"]
    figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
    lines = LineCollection(hand[..., [0, 2]], array=masses, cmap="viridis", lw=0.5, alpha=0.6)
    axes.add_collection(lines)
    axes.plot(*hand[:, -1, [0, 2]].T, "k.", ms=1.5)
    axes.autoscale()
    axes.set(aspect="equal", xlabel="x [m]", ylabel="z [m]")
    axes.set_title("The hands of 1000 UR5s in their first second, and where it ends")
    figure.colorbar(lines, label="mass of the last link [kg]")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
