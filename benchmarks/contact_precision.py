"""Work and precision of legs on the ground: time stepping beside the hybrid contact of the same floor.

    python benchmarks/contact_precision.py [picture.png]

ANYmal falls 0.1 m onto its feet, by joint PD, on a floor of 2e4 N/m and 4e2 N s/m, and is followed for 1 s,
16 members at once. The error is that of the base's position, the largest of those every 50 ms, against the
hybrid contact with RK4 and steps of 10 us on the ground; work is processor time for a second of one member.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from liebody.systems import Contact, JointPD, robot_system

sys.path.insert(0, str(Path(__file__).parent))
from legs import CASES, loaded
from machine import describe

MEMBERS, STANCE, STEPS = 16, (4e-4, 2e-4, 1e-4, 5e-5), (8e-3, 4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)


def main(picture: str | None = None) -> None:
    warnings.simplefilter("ignore")
    print(describe("numpy"))
    case = CASES["anymal"]
    robot, q = loaded(case)
    q[6] += 0.1 - case.radius
    drives = JointPD(case.K, q[7:], case.D, gravity_compensation=False)
    floor = Contact(*robot.tree.frames, stiffness=2e4, damping=4e2, friction=0.8)
    system = robot_system(robot, drives, floor, ledger=False)
    options: dict[str, Any] = {"t_end": 1.0, "record_every": 0.05, "events": 0, "threads": 1}

    def run(**more: Any) -> tuple[float, np.ndarray]:
        q0 = np.tile(q, (MEMBERS, 1))
        best, found = np.inf, None
        for _ in range(3):
            begin = time.process_time()
            found = system.simulate(q0, **options, **more)
            best = min(best, time.process_time() - begin)
        assert found is not None
        return best / MEMBERS, found.q[0, :, 4:7]

    def fixed(step: float) -> dict[str, Any]:
        return {"parameters": dict.fromkeys(("step", "stance_step", "landing_step"), step)}

    _, exact = run(**fixed(1e-5))
    curves: dict[str, list[tuple[float, float, float]]] = {"hybrid, rkmk4": [], "time stepping": []}
    for name, steps in (("hybrid, rkmk4", STANCE), ("time stepping", STEPS)):
        for step in steps:
            given = fixed(step) if name != "time stepping" else {"method": "time-stepping", "dt": step}
            seconds, x = run(**given)
            error = float(np.abs(x - exact).max())
            curves[name].append((step, seconds, error))
            print(f"{name:14s} steps of {1e3 * step:6.3f} ms: {1e3 * seconds:9.3f} ms, error {error:.1e} m")
    if picture:
        draw(curves, picture)


def draw(curves: dict[str, list[tuple[float, float, float]]], picture: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for name, points in curves.items():
        _, seconds, error = np.array(points).T
        axes.loglog(error, seconds, "o-", label=name)
    axes.set(xlabel="error of the base in m", ylabel="processor time for a second, in s")
    axes.axhline(1, color="0.7", lw=1)
    axes.legend()
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
