"""Identify an arm: masses of links and friction of joints, from one noisy recorded run.

    python examples/identify_arm.py [identify_arm.png]

A PUMA 560 follows a motion under soft PD control; its angles are recorded, with noise of 0.2 mrad. Its masses
and its friction are not what the model believes. The model is simulated with the same controller, and its
parameters are changed until it moves as the arm did: Gauss-Newton on the angles, in the logarithms of the
parameters, which are positive. Each iteration is one call of `simulate`: an ensemble, two members for each
parameter, whose differences are the derivatives. The first call compiles, and no other does.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import liebody as lb
from liebody.scalar import cos, sin

NOISE = 2e-4  # rad
STEP = 1e-3  # of the logarithms, in difference quotients
MASSES = ("link2", "link3", "link4")  # those of the wrist act alike: one of them stands for all
K, D = np.array([400, 600, 300, 30, 30, 30.0]), np.array([40, 60, 30, 3, 3, 3.0])
FREQUENCIES = 2 * np.pi * np.array([0.21, 0.17, 0.29, 0.37, 0.43, 0.53])  # rad/s
AMPLITUDES = np.array([0.9, 0.5, 0.7, 1.0, 0.9, 1.2])
ROUTINE = {"t_end": 8.0, "dt": 2e-3, "record_every": 0.02, "forces": [lb.dynamics.JointFriction(v_s=0.05)]}


def tau(t, q, v):
    """PD control along a sum of sines."""
    reach = AMPLITUDES * (sin(FREQUENCIES * t) + 0.3 * sin(3.1 * FREQUENCIES * t))
    rate = AMPLITUDES * FREQUENCIES * (cos(FREQUENCIES * t) + 0.93 * cos(3.1 * FREQUENCIES * t))
    return K * (reach - q) + D * (rate - v)


def moved(robot, names, values):
    """Angles (..., times, 6) of arms with these parameters (..., n)."""
    parameters = dict(zip(names, np.moveaxis(values, -1, 0), strict=True))
    return lb.simulate(robot, tau=tau, parameters=parameters, progress=False, **ROUTINE).q


def identify(robot, names, start, measured, iterations=6):
    """Estimates after each iteration (iterations + 1, n), their deviations (n,), and seconds of each."""
    x, n = np.log(start), len(names)
    found, seconds = [start], []
    for _ in range(iterations):
        begun = time.perf_counter()
        nearby = x + STEP * np.concatenate([np.zeros((1, n)), np.eye(n), -np.eye(n)])
        q = moved(robot, names, np.exp(nearby))
        J = ((q[1 : n + 1] - q[n + 1 :]) / (2 * STEP)).reshape(n, -1).T
        step, *_ = np.linalg.lstsq(J, (measured - q[0]).ravel(), rcond=None)
        x = x + step * min(1.0, 0.7 / np.abs(step).max())
        found.append(np.exp(x))
        seconds.append(time.perf_counter() - begun)
    return np.array(found), NOISE * np.sqrt(np.diag(np.linalg.inv(J.T @ J))), np.array(seconds)


def main(path: str | None = None) -> dict[str, np.ndarray]:
    robot, rng = lb.models.puma560(), np.random.default_rng(1)
    joints = [body.joint.name for body in robot.tree.bodies]
    names = [*(f"{link}.mass" for link in MASSES), *(f"{joint}.friction" for joint in joints)]
    believed = np.array([float(robot.parameters[name].value) for name in names])
    true = believed * np.exp(rng.uniform(-0.4, 0.4, len(names)))
    exact = moved(robot, names, true)
    measured = exact + NOISE * rng.standard_normal(exact.shape)

    found, deviations, seconds = identify(robot, names, believed, measured)
    errors = np.abs(np.log(found / true))
    print(f"{'parameter':16} {'believed':>9} {'true':>9} {'found':>9} {'error':>8} {'expected':>9}")
    for k, name in enumerate(names):
        print(
            f"{name:16} {believed[k]:9.4f} {true[k]:9.4f} {found[-1, k]:9.4f} {errors[-1, k]:8.2%} "
            f"{deviations[k]:9.2%}"
        )
    print(f"an iteration of {2 * len(names) + 1} simulations: {np.median(seconds[1:]):.2f} s")
    if path:
        draw(path, names, errors, measured, moved(robot, names, believed), moved(robot, names, found[-1]))
    return {"errors": errors, "deviations": deviations, "seconds": seconds}


def draw(path, names, errors, measured, before, after):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for k, name in enumerate(names):
        left.semilogy(errors[:, k], color="C0" if name.endswith("mass") else "C1", alpha=0.8)
    for color, kind in (("C0", "masses"), ("C1", "friction")):
        left.plot([], [], color=color, label=kind)
    left.set(xlabel="iteration", ylabel="relative error of each parameter")
    left.legend(frameon=False)
    times = ROUTINE["record_every"] * np.arange(len(measured))
    for q, label in ((before, "believed"), (after, "found")):
        right.plot(times, 1e3 * (measured - q)[:, 1], label=label, lw=0.9)
    right.set(xlabel="t [s]", ylabel="joint 2: measured less simulated [mrad]")
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
