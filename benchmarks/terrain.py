"""Quadrupeds on height fields beside a plane: steps a second of 256 ANYmals, and the time of the compiler.

    python benchmarks/terrain.py

Each member stands at a place of its own, by joint PD, on feet of 2 cm, and takes steps of 1 ms on one thread:
on the plane, on 64 x 64 and on 1000 x 1000 heights that all members share, and on 64 x 64 heights of its own.
The grounds take turns in each round; medians of processor time, and of the ratio to the plane round by round.
The compiler is timed for the loop over members, from an empty cache.

What must hold: on any height field at least 0.7 of the steps on the plane.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from typing import Any

import numpy as np
from machine import describe, keep, unless_quick
from robots import path

CACHE = tempfile.TemporaryDirectory()
os.environ["LIEBODY_CACHE"] = CACHE.name  # before the import, so that each ground is compiled here

import liebody as lb  # noqa: E402
from liebody.contact import Contact, HeightField, TimeStepping  # noqa: E402
from liebody.hybrid import JointPD  # noqa: E402
from liebody.scalars import Table  # noqa: E402

MEMBERS, ROUNDS, T_END, DT = unless_quick((256, 9, 1.0, 1e-3), (16, 1, 0.05, 1e-3))
FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)
SPACING, HIGHEST, LEAST = 0.1, 0.05, 0.7


def system_on(robot: Any, ground: HeightField | None) -> TimeStepping:
    drives = JointPD(K=200.0, q_des=POSE, D=5.0, gravity_compensation=False)
    law = {"stiffness": 1e6, "damping": 1e4, "friction": 0.8, "radius": 0.02}
    return TimeStepping(robot, drives, Contact(*FEET, ground=ground, **law), ledger=False)


def main() -> None:
    warnings.simplefilter("ignore")
    file, floating = path("anymal")
    robot = lb.load(file, floating=floating)
    rng = np.random.default_rng(0)
    q0 = np.tile(np.concatenate([robot.neutral()[:7], POSE]), (MEMBERS, 1))
    q0[:, 4:6] = rng.uniform(0, 64 * SPACING, (MEMBERS, 2))
    q0[:, 6] = HIGHEST + 0.02 - min(lb.dynamics.frame_pose(robot.tree, q0[0], foot)[2, 3] for foot in FEET)
    small, large = (HIGHEST * rng.random((n, n)) for n in (64, unless_quick(1000, 200)))
    each = np.array([Table(HIGHEST * rng.random((64, 64))) for _ in range(MEMBERS)], object)
    grounds: dict[str, tuple[HeightField | None, dict[str, Any]]] = {
        "a plane": (None, {}),
        "64 x 64 heights": (HeightField(small, SPACING), {}),
        f"{len(large)} x {len(large)} heights": (HeightField(large, SPACING), {}),
        "64 x 64 of each member": (HeightField(small, SPACING), {"floor_heights": each}),
    }
    runs = {}
    compiling = {}
    for name, (ground, given) in grounds.items():
        system = system_on(robot, ground)
        options: Any = {"dt": DT, "record_every": T_END, "most_events": 0, "threads": 1, "parameters": given}
        begin = time.perf_counter()
        system.simulate(q0, t_end=DT, **options | {"record_every": DT})
        compiling[name] = time.perf_counter() - begin

        def run(system: TimeStepping = system, options: Any = options) -> float:
            begin = time.process_time()
            ends = system.simulate(q0, t_end=T_END, **options).ends
            seconds = time.process_time() - begin
            if (ends != "").any():
                raise SystemExit("members ended early")
            return MEMBERS * T_END / DT / seconds

        runs[name] = run

    print(describe("numpy"))
    print(
        f"{'steps a second of ' + str(MEMBERS):28s} {'steps/s':>10s} {'of a plane':>12s} {'compiled in':>14s}"
    )
    rounds = [{name: run() for name, run in runs.items()} for _ in range(ROUNDS)]
    for name in grounds:
        speed = statistics.median(x[name] for x in rounds)
        ratio = statistics.median(x[name] / x["a plane"] for x in rounds)
        keep(name, rate=[x[name] for x in rounds], ratio=[x[name] / x["a plane"] for x in rounds])
        print(f"{name:28s} {speed:10.0f} {ratio:12.2f} {compiling[name]:12.1f} s")
        if ROUNDS > 1 and ratio < LEAST:
            raise SystemExit(f"{name}: {ratio:.2f} of the plane, expected {LEAST} or more")


if __name__ == "__main__":
    main()
