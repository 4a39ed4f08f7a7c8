"""What a C compiler is worth: the same calls by compiled kernels, and by NumPy where there is no compiler.

    python benchmarks/without_compiler.py

A PUMA 560: one simulation by RK4, 64 at once, inverse dynamics of one state and of 10,000. Both run in
processes of their own, alternately; the one without a compiler finds none, as on a machine that has none.
Processor time of a second call, so that compiling is not counted; medians over the rounds, and of the
ratio round by round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from machine import describe, keep, unless_quick

ROUNDS = unless_quick(5, 1)
STEPS, MEMBERS, STATES = unless_quick((400, 64, 10_000), (20, 2, 20))

CHILD = """
import importlib.util, json, sys, warnings
folder, without, steps, members, states = sys.argv[1], *map(int, sys.argv[2:])
if without:
    find_spec = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: None if name == "ziglang" else find_spec(name, *rest)
sys.path.insert(0, folder)
warnings.simplefilter("ignore")
from machine import seconds
import numpy as np
import liebody as lb
robot = lb.load("puma560")
q, v, a = (np.tile(x, (states, 1)) for x in ([0, -0.3, 0.4, 0.3, 0.5, 0], np.ones(6), np.ones(6)))
end = steps * 1e-3


def simulate(q):
    return lb.simulate(robot, q, t_end=end, dt=1e-3, method="rkmk4", joints="ideal", record_every=end)


calls = {
    "a step of one simulation": (lambda: simulate(q[0]), steps, 1 if without else 20),
    "a step of each of 64": (lambda: simulate(q[:members]), steps * members, 1 if without else 20),
    "inverse dynamics of one state": (lambda: robot.inverse_dynamics(q[0], v[0], a[0]), 1, 200),
    "inverse dynamics, each of 10,000": (lambda: robot.inverse_dynamics(q, v, a), states, 5),
}
times = {}
for name, (call, count, repeat) in calls.items():
    call()
    times[name] = seconds(call, repeat) / count
print(json.dumps(times))
"""


def times(without: bool) -> dict[str, float]:
    """Seconds of each call, in a new process."""
    environment = {name: x for name, x in os.environ.items() if not (without and name == "CC")}
    if without:
        environment["PATH"] = os.devnull  # no cc, gcc or clang
    numbers = [str(int(without)), *map(str, (STEPS, MEMBERS, STATES))]
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), *numbers]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    print(describe("numpy"))
    rounds = [(times(without=False), times(without=True)) for _ in range(ROUNDS)]
    print(f"{'':34s} {'compiled, us':>14s} {'NumPy, us':>12s} {'ratio':>8s}")
    for name in rounds[0][0]:
        ours, theirs = np.array([(compiled[name], by_numpy[name]) for compiled, by_numpy in rounds]).T
        keep(name, seconds=ours, ratio=theirs / ours)
        keep(f"{name}, by NumPy", seconds=theirs)
        row = 1e6 * np.median(ours), 1e6 * np.median(theirs), np.median(theirs / ours)
        print("{:34s} {:14.3f} {:12.2f} {:8.1f}".format(name, *row))


if __name__ == "__main__":
    main()
