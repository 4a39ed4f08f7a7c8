"""Weigh what an arm holds: plan the motion that shows it best, measure efforts, and estimate.

    python examples/weigh_a_load.py

A PUMA 560 holds an unknown box. `identification.excite` plans eight seconds of motion within limits of speed,
effort and a workspace, and promises how well the last link will be known. The efforts along the motion are
simulated with noise of 0.5 N m, and `identification.payload` finds mass, centre and inertia of the box. A
random motion of the same length and speed is measured for comparison.
"""

from __future__ import annotations

import numpy as np

import liebody as lb
from liebody.identification import Payload, excite, payload

BOX = lb.SpatialInertia.box(2.0, [0.1, 0.15, 0.3], com=[0.02, -0.03, 0.15])
NOISE = 0.5  # N m
LIMITS = {"velocity": 2.0, "effort": [100, 200, 100, 30, 30, 30]}


def ahead(q):
    """Positive where the arm does not turn to its back."""
    return 1.5**2 - q[0] ** 2


def main() -> tuple[Payload, Payload]:
    robot, rng = lb.models.puma560(), np.random.default_rng(1)
    holding = robot.with_payload("link6", BOX)

    motion = excite(robot, "link6", duration=8.0, noise=NOISE, workspace=ahead, harmonics=4, **LIMITS)
    tau = holding.inverse_dynamics(motion.q, motion.v, motion.a)
    found = payload(robot, "link6", motion.q, motion.v, motion.a, tau + NOISE * rng.normal(size=tau.shape))

    # Sines with random phases and the same speeds, one frequency for each joint
    w = 2 * np.pi / 8.0 * np.arange(1, 7)
    phase = rng.uniform(0, 2 * np.pi, 6)
    angles = w * motion.t[:, None] + phase
    q, v, a = 2 / w * np.sin(angles), 2 * np.cos(angles), -2 * w * np.sin(angles)
    tau = holding.inverse_dynamics(q, v, a)
    other = payload(robot, "link6", q, v, a, tau + NOISE * rng.normal(size=tau.shape))

    exact = {"mass": [2.0], "center": BOX.com, "inertia": np.asarray(BOX.rotational)[np.triu_indices(3)]}
    print(f"{'':12} {'true':>9} {'planned':>22} {'random':>22}")
    for name, values in exact.items():
        for k, x in enumerate(values):
            columns = [
                f"{np.ravel(load.values[name])[k]:10.4f} +- {np.ravel(load.deviations[name])[k]:8.4f}"
                for load in (found, other)
            ]
            print(f"{name:9}[{k}] {x:9.4f} {columns[0]} {columns[1]}")
    return found, other


if __name__ == "__main__":
    main()
