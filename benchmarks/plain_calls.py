"""Batches as users write them, `y = robot.f(x)`, beside the same with `out=`, each pair in a fresh process.

    python benchmarks/plain_calls.py [robot ...]       (ur5 panda anymal talos)

A process that has just begun has no memory that it used before: the ratio is about 1 only where results of
earlier calls, which nobody holds any more, are used again. In each process the two run alternately, `ROUNDS`
times for about ten milliseconds each; the table has medians of the ratio of a plain call to one with `out=`.
Goal: 1.15 at most, for every size of results.

`out=` writes into one array, which may stay in the caches where the two that a plain call needs do not: `y`
holds the old result until the new one is there. So the last columns, "two", have `out=` into two arrays in
turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from machine import describe, met, seconds, unless_quick
from robots import FILES, path

BATCHES = unless_quick((64, 512, 4096, 32768), (64,))
FUNCTIONS = unless_quick(
    ("inverse_dynamics", "forward_dynamics", "mass_matrix", "poses", "inverse_dynamics_derivatives"),
    ("inverse_dynamics", "mass_matrix"),
)
ROUNDS = unless_quick(21, 2)
WORK = unless_quick(1e-2, 1e-4)  # seconds that a round takes at least, of each
LARGEST = 1 << 29  # bytes of results of a call above which it is left out: six such arrays are there
GOAL = 1.15


def measure(name: str, function: str, states: int) -> None:
    """Print, as JSON, bytes of the results, and medians: time of a plain call [s], ratios to `out=`."""
    import liebody as lb

    file, floating = path(name)
    robot = lb.load(file, floating=floating)
    rng = np.random.default_rng(0)
    kernel = robot.kernel(function)
    size = 8 * states * sum(int(np.prod(s)) for s in kernel.outputs.values())
    if size > LARGEST:
        print(json.dumps([size, 0.0, 0.0, 0.0]))
        return
    given = [rng.standard_normal((states, *shape)) for shape in kernel.inputs.values()]
    given[0] = robot.random(rng, states)
    getattr(robot, function)(*given)  # compiles
    call = getattr(robot, function)
    arrays = [tuple(np.full((states, *s), np.nan) for s in kernel.outputs.values()) for _ in range(2)]
    outs: list[Any] = [out if len(out) > 1 else out[0] for out in arrays]
    start = time.perf_counter()
    call(*given, out=outs[0])
    repeat = 1 + int(WORK / (time.perf_counter() - start))

    y = None  # what a program holds between its calls

    def plain() -> None:
        nonlocal y
        for _ in range(repeat):
            y = call(*given)

    def into_one() -> None:
        for _ in range(repeat):
            call(*given, out=outs[0])

    def into_two() -> None:
        for k in range(repeat):
            call(*given, out=outs[k % 2])

    times = np.array([[seconds(f) / repeat for f in (plain, into_one, into_two)] for _ in range(ROUNDS)])
    one, two = (float(np.median(times[:, 0] / times[:, k])) for k in (1, 2))
    print(json.dumps([size, float(np.median(times[:, 0])), one, two]))


def fresh(name: str, function: str, states: int) -> list[Any]:
    """What a process of its own measures."""
    command = [sys.executable, __file__, "--measure", name, function, str(states)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    numbers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("robots", nargs="*", default=list(FILES))
    parser.add_argument("--functions", nargs="*", default=FUNCTIONS)
    parser.add_argument("--batches", nargs="*", type=int, default=BATCHES)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        name, function, states = chosen.measure
        measure(name, function, int(states))
        return
    print(describe("numpy"))
    print(f"{'':44s} {'kB':>9s} {'ns/state':>9s} {'plain/out':>9s} {'two':>6s}")
    worst = 0.0
    for name in chosen.robots:
        for function in chosen.functions:
            for states in chosen.batches:
                size, each, one, two = fresh(name, function, states)
                if not each:
                    continue
                worst = max(worst, one)
                label = f"{name} {function}, {states}"
                print(
                    f"{label:44s} {size / 1e3:9.0f} {each / states * 1e9:9.1f} {one:9.2f} {two:6.2f}",
                    flush=True,
                )
    print(f"worst {worst:.2f}; <= {GOAL}: {met(worst <= GOAL)}")


if __name__ == "__main__":
    main()
