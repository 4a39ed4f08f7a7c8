"""Identify an arm: masses of links, friction of joints, and inertia of the load, from one noisy run.

    python examples/identify_arm.py [identify_arm.png]

A PUMA 560 with a load in its hand follows a motion under soft PD control. Its angles are recorded with
noise of 0.2 mrad. Its masses, friction and load differ from those of the model.
`liebody.identification.fit` simulates the model with the same controller, with exact derivatives, and
changes its parameters until it moves as the arm did. Masses and friction stay positive, and the hand is a
body that exists, in all iterations.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import liebody as lb
from liebody.identification import Recording, coordinates_of, fit
from liebody.mechanisms import JointFriction
from liebody.scalars import cos, sin

NOISE = 2e-4  # rad
MASSES, HAND = ("link2", "link3"), "link6"  # the mass of link4, in the wrist, acts nearly as the hand's does
K, D = np.array([400, 600, 300, 30, 30, 30.0]), np.array([40, 60, 30, 3, 3, 3.0])
FREQUENCIES = 2 * np.pi * np.array([0.21, 0.17, 0.29, 0.37, 0.43, 0.53])  # rad/s
AMPLITUDES = np.array([0.9, 0.5, 0.5, 1.0, 0.9, 1.2])
TIMES = np.linspace(0, 8, 401)
FORCES = [JointFriction(v_s=0.05)]


def tau(t, q, v):
    """PD control along a sum of sines."""
    reach = AMPLITUDES * (sin(FREQUENCIES * t) + 0.3 * sin(3.1 * FREQUENCIES * t))
    rate = AMPLITUDES * FREQUENCIES * (cos(FREQUENCIES * t) + 0.93 * cos(3.1 * FREQUENCIES * t))
    return K * (reach - q) + D * (rate - v)


def hand_with(robot, load):
    """Parameters of the hand with a load, by name."""
    body = robot.tree.bodies[-1].inertia + load
    inertia = np.asarray(body.rotational, float)[np.triu_indices(3)]
    return {f"{HAND}.mass": float(body.mass), f"{HAND}.center": body.com, f"{HAND}.inertia": inertia}


def main(path: str | None = None) -> dict[str, np.ndarray]:
    robot, rng = lb.models.puma560(), np.random.default_rng(1)
    names = [f"{link}.mass" for link in MASSES] + [f"{b.joint.name}.friction" for b in robot.tree.bodies]
    believed = {name: float(robot.parameters[name].value) for name in names}
    believed |= hand_with(robot, lb.SpatialInertia.sphere(1.5, 0.1, com=[0, 0, 0.1]))
    true = {name: believed[name] * float(np.exp(rng.uniform(-0.4, 0.4))) for name in names}
    true |= hand_with(robot, lb.SpatialInertia.box(2.0, [0.1, 0.15, 0.3], com=[0.02, -0.03, 0.15]))

    options = {"dt": 2e-3, "forces": FORCES}
    run = lb.simulate(robot, t_end=8.0, t_eval=TIMES, tau=tau, parameters=true, progress=False, **options)
    measured = run.q + NOISE * rng.standard_normal(run.q.shape)
    recording = Recording(TIMES, {"q": measured}, {"q": NOISE}, q0=run.q[0], tau=tau)

    begun = time.perf_counter()
    found = fit(robot, recording, [*names, HAND], start=believed, **options)
    seconds = time.perf_counter() - begun

    print(f"{'':22} {'believed':>10} {'true':>10} {'found':>10} {'deviation':>10}")
    rows = []
    for name in true:
        columns = [np.ravel(x[name]) for x in (believed, true, found.values, found.deviations)]
        for k, (guess, x, estimate, deviation) in enumerate(zip(*columns, strict=True)):
            label = f"{name}[{k}]" if len(columns[0]) > 1 else name
            print(f"{label:22} {guess:10.5f} {x:10.5f} {estimate:10.5f} {deviation:10.2g}")
            rows.append((guess - x, estimate - x, deviation))
    print(f"chi squared {found.chi_squared:.3f}, {found.iterations} simulations in {seconds:.1f} s")
    guesses, errors, deviations = np.array(rows).T
    if path:
        before = lb.simulate(robot, t_end=8.0, t_eval=TIMES, tau=tau, parameters=believed, **options).q
        draw(
            path,
            guesses,
            errors,
            deviations,
            1e3 * (measured - before)[:, 1],
            0.2 * found.residuals["recording"]["q"][:, 1],
        )
    hand = [
        coordinates_of(*(x[f"{HAND}.{kind}"] for kind in ("mass", "center", "inertia")))
        for x in (true, found.values)
    ]
    return {
        "guesses": guesses,
        "errors": errors,
        "deviations": deviations,
        "hand": hand[1] - hand[0],
        "chi": found.chi_squared,
    }


def draw(path, guesses, errors, deviations, before, after):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    at = np.arange(len(errors))
    left.semilogy(at, np.abs(guesses), "o", color="C7", label="believed")
    left.semilogy(at, np.abs(errors), "o", color="C0", label="found")
    left.semilogy(at, deviations, "_", color="C3", ms=12, label="deviation promised")
    left.set(xlabel="parameter", ylabel="error")
    left.legend(frameon=False)
    right.plot(TIMES, before, label="believed", lw=0.9)
    right.plot(TIMES, after, label="found", lw=0.9)
    right.set(xlabel="t [s]", ylabel="joint 2: measured less simulated [mrad]")
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
