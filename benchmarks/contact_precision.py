"""Work and precision of legs on the ground: time stepping beside the hybrid contact of the same floor.

    python benchmarks/contact_precision.py [picture.png]

ANYmal falls 0.1 m onto its feet, by joint PD, on a soft floor (2e4 N/m, 4e2 N s/m) and a stiff one (1e6 N/m,
1e4 N s/m), and is followed for 1 s, 16 members at once. The error is that of the base's position, the largest
of those every 50 ms, against the hybrid contact with RK4 and the shortest steps on the ground, 10 us and 2.5
us; work is processor time for a second of one member.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from legs import CASES, loaded
from machine import describe, keep, unless_quick

from liebody.contact import Contact
from liebody.hybrid import JointPD, robot_system

MEMBERS, STEPS = unless_quick((16, (8e-3, 4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)), (2, (2e-3, 1e-3)))
FLOORS = {  # stiffness, damping, steps of the hybrid contact, the last of which is exact
    "2e4 N/m": (2e4, 4e2, (4e-4, 2e-4, 1e-4, 5e-5, 1e-5)),
    "1e6 N/m": (1e6, 1e4, (4e-5, 2e-5, 1e-5, 5e-6, 2.5e-6)),
}
HYBRID, STEPPED = "hybrid, rkmk4", "time stepping"


def measured(
    ground: str, stiffness: float, damping: float, stance: tuple[float, ...]
) -> dict[str, list[tuple[float, ...]]]:
    """(step, processor time, error) of each method."""
    case = CASES["anymal"]
    robot, q = loaded(case)
    q[6] += 0.1 - case.radius
    drives = JointPD(case.K, q[7:], case.D, gravity_compensation=False)
    floor = Contact(*robot.tree.frames, stiffness=stiffness, damping=damping, friction=0.8)
    system = robot_system(robot, drives, floor, ledger=False)
    t_end = unless_quick(1.0, 0.1)
    options: dict[str, Any] = {"t_end": t_end, "record_every": 0.05, "most_events": 0, "threads": 1}

    def run(**more: Any) -> tuple[float, np.ndarray]:
        q0 = np.tile(q, (MEMBERS, 1))
        best, found = np.inf, None
        for _ in range(2):
            begin = time.process_time()
            found = system.simulate(q0, **options, **more)
            best = min(best, time.process_time() - begin)
        assert found is not None
        return best / MEMBERS, found.q[0, :, 4:7]

    def fixed(step: float) -> dict[str, Any]:
        return {"parameters": dict.fromkeys(("step", "stance_step", "landing_step"), step)}

    _, exact = run(**fixed(stance[-1]))
    curves: dict[str, list[tuple[float, ...]]] = {HYBRID: [], STEPPED: []}
    for name, steps in ((HYBRID, stance[:-1]), (STEPPED, STEPS)):
        for step in steps:
            given = fixed(step) if name == HYBRID else {"method": "time-stepping", "dt": step}
            seconds, x = run(**given)
            error = float(np.abs(x - exact).max())
            curves[name].append((step, seconds, error))
            keep(f"{name}, {ground}, steps of {1e3 * step:g} ms", seconds=seconds)
            print(f"{name:14s} steps of {1e3 * step:6.3f} ms: {1e3 * seconds:9.3f} ms, error {error:.1e} m")
    return curves


def main(picture: str | None = None) -> None:
    warnings.simplefilter("ignore")
    print(describe("numpy"))
    found = {}
    for name, given in FLOORS.items():
        print(name)
        found[name] = measured(name, *given)
    if picture:
        draw(found, picture)


def draw(found: dict[str, Any], picture: str) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
    for axes, (floor, curves) in zip(panels, found.items(), strict=True):
        for name, points in curves.items():
            steps, seconds, error = np.array(points).T
            (line,) = axes.loglog(error, seconds, "o-", label=name)
            for k in (0, -1):
                near = {"xytext": (4, 5), "textcoords": "offset points", "color": line.get_color()}
                axes.annotate(f"{1e3 * steps[k]:g} ms", (error[k], seconds[k]), **near)
        axes.set(xlabel="error of the base in m", title=f"a floor of {floor}")
        axes.grid(alpha=0.3)
        axes.margins(x=0.2, y=0.12)
    panels[0].set(ylabel="processor time for a second, in s")
    panels[0].legend()
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
