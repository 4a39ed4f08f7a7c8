"""Steps of a learning loop: 1024 ANYmals for 20 ms, by one thread and by two, beside the march alone.

    python benchmarks/learning.py [rounds]

Time stepping, steps of 4 ms, PD control of the joints with other set-points in each step, which are the
output of a network of the usual size, 64 x 64. Wall time of a step without the network, both numbers of
threads in alternation; the lowest and the median of all steps, because other work on the machine takes the
second core first. `outside` is the time of a step less the time that its longest call of C takes. All of it
with one thread of OpenBLAS, and with as many as it takes by itself: its threads wait busily after a product
of matrices. Goals: two threads are 1.7 times as fast as one, and a step takes 5 % more than the march.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from machine import describe, keep, met, unless_quick
from robots import path

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.hybrid import JointPD
from liebody.stepping.loop import CompiledLoop

MEMBERS, DT, STEP = 1024, 0.02, 4e-3
FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
FASTER, MORE = 1.7, 1.05  # goals
BLAS, MEASURE = "OPENBLAS_NUM_THREADS", "measure"


class Timed:
    """A library whose marches are timed."""

    calls: list[float] = []  # noqa: RUF012 - of all libraries

    def __init__(self, library: Any) -> None:
        self.library = library

    def march(self, *arguments: Any) -> Any:
        begin = time.perf_counter()
        result = self.library.march(*arguments)
        self.calls.append(time.perf_counter() - begin)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)


def main(rounds: int = unless_quick(10, 1)) -> None:
    print(describe("numpy"), flush=True)
    for threads in ("1", ""):  # the number is read when NumPy is imported
        print(f"\n{threads or 'all'} threads of OpenBLAS", flush=True)
        environment = {name: x for name, x in os.environ.items() if name != BLAS}
        environment |= {BLAS: threads} if threads else {}
        subprocess.run([sys.executable, __file__, str(rounds), MEASURE], env=environment, check=True)


def measure(rounds: int) -> None:
    warnings.simplefilter("ignore")
    file, floating = path("anymal")
    robot = lb.load(file, floating=floating)
    q0 = np.concatenate([robot.neutral()[:7], POSE])
    q0[6] = -min(robot.pose(q0, foot)[2, 3] for foot in FEET)
    drives = JointPD(K=80.0, q_des=POSE, D=2.0, gravity_compensation=False)
    floor = Contact(*FEET, stiffness=1e5, damping=1e3, friction=0.8)
    system = TimeStepping(robot, drives, floor, step=STEP, ledger=False)
    sims = {threads: lb.stepper(system, dt=DT, members=MEMBERS, threads=threads) for threads in (1, 2)}
    states = {threads: sim.step(sim.start(q0)) for threads, sim in sims.items()}

    library_for = CompiledLoop._for
    timed: dict[int, Timed] = {}  # one for each library, because calls of the same library are made again

    def timed_for(loop: CompiledLoop, members: int) -> Timed:
        library = library_for(loop, members)
        return timed.setdefault(id(library), Timed(library))

    CompiledLoop._for = timed_for  # type: ignore[method-assign]
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((unless_quick(50, 3), MEMBERS, 48))
    first, second, last = (
        rng.standard_normal((m, n)) / np.sqrt(m) for m, n in ((48, 64), (64, 64), (64, 12))
    )
    times: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads, sim in sims.items():
            for observation in observations:
                target = POSE + 0.2 * np.tanh(np.tanh(observation @ first) @ second) @ last
                Timed.calls.clear()
                begin = time.perf_counter()
                states[threads] = sim.step(states[threads], {"pd_q_des": target})
                whole = time.perf_counter() - begin
                times[threads].append((whole, max(Timed.calls)))
    CompiledLoop._for = library_for  # type: ignore[method-assign]

    print(" threads   lowest, ms   median, ms   outside: lowest, ms   median, ms   more than the march")
    lows, medians = {}, {}
    for threads, each in times.items():
        whole, march = np.array(each).T
        lows[threads], medians[threads] = whole.min(), np.median(whole)
        outside = whole - march
        blas = os.environ.get(BLAS, "all")
        keep(f"{threads} threads, {blas} of OpenBLAS", seconds=whole)
        row = (1e3 * x for x in (whole.min(), np.median(whole), outside.min(), np.median(outside)))
        print("{:8d} {:12.2f} {:12.2f} {:21.3f} {:12.3f}".format(threads, *row), end="")
        more = np.median(whole / march)
        print(f" {100 * (more - 1):17.1f} %" + (f"  <= 5: {met(more <= MORE)}" if threads == 1 else ""))
    faster = lows[1] / lows[2], medians[1] / medians[2]
    print(f"two threads are {faster[0]:.2f} times as fast (lowest), {faster[1]:.2f} (medians)", end="")
    print(f"  >= {FASTER}: {met(max(faster) >= FASTER)}")


if __name__ == "__main__":
    if sys.argv[2:] == [MEASURE]:
        measure(int(sys.argv[1]))
    else:
        main(*map(int, sys.argv[1:]))
