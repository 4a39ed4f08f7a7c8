"""Identify an arm: masses of links, friction of joints, and inertia of the load, from one noisy run.

    python examples/identify_arm.py [identify_arm.png]

A PUMA 560 with a load in its hand follows a motion under soft PD control. Its angles are recorded with
noise of 0.2 mrad. Its masses, friction and load differ from those of the model. The script simulates the
model with the same controller, and changes its parameters until it moves as the arm did: Gauss-Newton on
the angles, with the damping of Levenberg and Marquardt. Each iteration is one call of `simulate` for an
ensemble with two members for each number. Differences between these members are derivatives. Only the
first call compiles.

All iterations use physically possible bodies. Masses and friction are represented by their logarithms.
The ten numbers of the hand with its load are represented by log-Cholesky coordinates (a, d1, d2, d3, s12,
s23, s13, t1, t2, t3) of the moments of mass. This matrix is positive definite for any coordinates (Rucker
and Wensing, 2022):

    [Sigma h; h^T m] = U U^T,    U = e^a [e^d1 s12 s13 t1; 0 e^d2 s23 t2; 0 0 e^d3 t3; 0 0 0 1]
"""

from __future__ import annotations

import sys
import time

import numpy as np

import liebody as lb
from liebody.scalars import cos, sin

NOISE = 2e-4  # rad
STEP = 1e-3  # of the coordinates, in difference quotients
MASSES, HAND = ("link2", "link3"), "link6"  # the mass of link4, in the wrist, acts nearly as the hand's does
COORDINATES = ("a", "d1", "d2", "d3", "s12", "s23", "s13", "t1", "t2", "t3")
UPPER = ([0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2])  # of matrices of inertia
K, D = np.array([400, 600, 300, 30, 30, 30.0]), np.array([40, 60, 30, 3, 3, 3.0])
FREQUENCIES = 2 * np.pi * np.array([0.21, 0.17, 0.29, 0.37, 0.43, 0.53])  # rad/s
AMPLITUDES = np.array([0.9, 0.5, 0.5, 1.0, 0.9, 1.2])
ROUTINE = {"t_end": 8.0, "dt": 2e-3, "record_every": 0.02, "forces": [lb.mechanisms.JointFriction(v_s=0.05)]}


def tau(t, q, v):
    """PD control along a sum of sines."""
    reach = AMPLITUDES * (sin(FREQUENCIES * t) + 0.3 * sin(3.1 * FREQUENCIES * t))
    rate = AMPLITUDES * FREQUENCIES * (cos(FREQUENCIES * t) + 0.93 * cos(3.1 * FREQUENCIES * t))
    return K * (reach - q) + D * (rate - v)


def body_of(theta):
    """Mass, centre and inertia about it, of log-Cholesky coordinates (..., 10)."""
    a, d1, d2, d3, s12, s23, s13, t1, t2, t3 = np.moveaxis(theta, -1, 0)
    zero, one = np.zeros_like(a), np.ones_like(a)
    rows = [
        np.exp(d1),
        s12,
        s13,
        t1,
        zero,
        np.exp(d2),
        s23,
        t2,
        zero,
        zero,
        np.exp(d3),
        t3,
        zero,
        zero,
        zero,
        one,
    ]
    U = np.exp(a)[..., None, None] * np.stack(rows, axis=-1).reshape(*a.shape, 4, 4)
    J = U @ np.swapaxes(U, -1, -2)
    m, h = J[..., 3, 3], J[..., :3, 3]
    Sigma = J[..., :3, :3] - h[..., :, None] * h[..., None, :] / m[..., None, None]
    I = np.trace(Sigma, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - Sigma
    return m, h / m[..., None], I[..., UPPER[0], UPPER[1]]


def coordinates_of(body):
    """The log-Cholesky coordinates (10,) of a `SpatialInertia`."""
    m, c, I = body.mass, body.com, body.rotational
    Sigma = np.trace(I) / 2 * np.eye(3) - I + m * np.outer(c, c)
    J = np.block([[Sigma, m * c[:, None]], [m * c, m]]).astype(float)
    U = np.linalg.cholesky(J[::-1, ::-1])[::-1, ::-1]
    scaled = U / U[3, 3]
    return np.concatenate(
        [[np.log(U[3, 3])], np.log(np.diag(scaled)[:3]), scaled[[0, 1, 0], [1, 2, 2]], scaled[:3, 3]]
    )


def moved(robot, names, x):
    """Angles (..., times, 6) of arms with coordinates (..., n): logarithms, then those of the hand."""
    parameters = dict(zip(names, np.moveaxis(np.exp(x[..., : len(names)]), -1, 0), strict=True))
    hand = zip(("mass", "center", "inertia"), body_of(x[..., len(names) :]), strict=True)
    parameters |= {f"{HAND}.{kind}": values for kind, values in hand}
    return lb.simulate(robot, tau=tau, parameters=parameters, progress=False, **ROUTINE).q


def identify(robot, names, start, measured, iterations=9):
    """Estimates after each iteration (iterations + 1, n), their deviations (n,), and seconds of each."""
    n, damping, least, found, seconds = len(start), 1e-2, np.inf, [start], []
    tried = start
    for _ in range(iterations):
        begun = time.perf_counter()
        nearby = tried + STEP * np.concatenate([np.zeros((1, n)), np.eye(n), -np.eye(n)])
        q = moved(robot, names, nearby)
        residual = (measured - q[0]).ravel()
        if residual @ residual < least:
            x, least, r, damping = tried, residual @ residual, residual, damping / 10
            J = ((q[1 : n + 1] - q[n + 1 :]) / (2 * STEP)).reshape(n, -1).T
        else:
            damping *= 10
        H = J.T @ J
        tried = x + np.linalg.solve(H + damping * np.diag(np.diag(H)), J.T @ r)
        found.append(x)
        seconds.append(time.perf_counter() - begun)
    return np.array(found), NOISE * np.sqrt(np.diag(np.linalg.inv(H))), np.array(seconds)


def main(path: str | None = None) -> dict[str, np.ndarray]:
    robot, rng = lb.models.puma560(), np.random.default_rng(1)
    joints = [body.joint.name for body in robot.tree.bodies]
    names = [*(f"{link}.mass" for link in MASSES), *(f"{joint}.friction" for joint in joints)]
    values = np.array([float(robot.parameters[name].value) for name in names])
    load = lb.SpatialInertia.box(2.0, [0.1, 0.15, 0.3], com=[0.02, -0.03, 0.15])
    ball = lb.SpatialInertia.sphere(1.5, 0.1, com=[0, 0, 0.1])
    hand = robot.tree.bodies[-1].inertia
    believed = np.concatenate([np.log(values), coordinates_of(hand + ball)])
    changes = np.exp(rng.uniform(-0.4, 0.4, len(names)))
    true = np.concatenate([np.log(values * changes), coordinates_of(hand + load)])
    exact = moved(robot, names, true)
    measured = exact + NOISE * rng.standard_normal(exact.shape)

    found, deviations, seconds = identify(robot, names, believed, measured)
    errors = np.abs(found - true)
    print(f"{'logarithm of':16} {'believed':>9} {'true':>9} {'found':>9} {'error':>9} {'expected':>9}")
    for k, name in enumerate([*names, *(f"hand {x}" for x in COORDINATES)]):
        row = believed[k], true[k], found[-1, k]
        print(f"{name:16}", *(f"{x:9.4f}" for x in row), f"{errors[-1, k]:9.5f} {deviations[k]:9.5f}")
    for word, x in (("believed", believed), ("true", true), ("found", found[-1])):
        m, c, I = body_of(x[len(names) :])
        print(f"hand, {word:9} {m:.4f} kg at {np.round(c, 4)} m, inertia {np.round(1e3 * I, 2)} g m2")
    print(f"an iteration of {2 * len(true) + 1} simulations: {np.median(seconds[1:]):.2f} s")
    if path:
        draw(path, names, errors, measured, moved(robot, names, believed), moved(robot, names, found[-1]))
    return {"errors": errors, "deviations": deviations, "seconds": seconds}


def draw(path, names, errors, measured, before, after):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    colors = ["C0" if name.endswith("mass") else "C1" for name in names] + ["C2"] * len(COORDINATES)
    for color, error in zip(colors, errors.T, strict=True):
        left.semilogy(error, color=color, alpha=0.8)
    for color, kind in (("C0", "masses"), ("C1", "friction"), ("C2", "hand and load")):
        left.plot([], [], color=color, label=kind)
    left.set(xlabel="iteration", ylabel="error of each coordinate")
    left.legend(frameon=False)
    times = ROUTINE["record_every"] * np.arange(len(measured))
    for q, label in ((before, "believed"), (after, "found")):
        right.plot(times, 1e3 * (measured - q)[:, 1], label=label, lw=0.9)
    right.set(xlabel="t [s]", ylabel="joint 2: measured less simulated [mrad]")
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
