"""The heavy top with a constrained pivot: error and time of the methods for mechanical systems.

    python benchmarks/implicit_methods.py [bodies of a chain ...]

The benchmark of Brüls and Cardona: mass 15 kg, inertia diag(0.234375, 0.46875, 0.234375) kg m2 about the
centre of mass, which lies 1 m along the body's y axis from the pivot; angular velocity (0, 150, -4.61538)
rad/s. The body has six degrees of freedom and three constraints, on SE(3) and on SO(3) x R(3). Errors of
attitude (Frobenius norm) and multipliers (newtons) after 1 s, against Euler's equations about the pivot by a
Gauss method of order 6 with a step of 50 us; steps per second of one simulation on one thread, the best of
three; then the same of an ensemble of 256, all members together. Then the same top with a spring of 1e9 N/m
and a damper of 1e6 N s/m in place of the pivot, under error control: steps that implicit methods take, and
how many an explicit one would, from its steps in 0.5 ms. Then chains of bodies on ball joints, on
SO(3) x R(3), as they fall from the horizontal: the time of a step of 1 ms.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from machine import describe, keep, unless_quick

from liebody.groups import SE3, SO3, Product, R, SO3xR3
from liebody.integrators import Gauss, GeneralizedAlpha, HalfExplicit, RadauIIA, Variational, solve_ivp
from liebody.scalars.linear import cross, skew

MASS, THETA, ARM = 15.0, np.diag([0.234375, 0.46875, 0.234375]), np.array([0.0, 1.0, 0.0])
ABOUT_PIVOT = THETA - MASS * skew(ARM) @ skew(ARM)
WEIGHT, SPIN, END = MASS * np.array([0, 0, -9.81]), np.array([0.0, 150.0, -4.61538]), 1.0
INERTIA = np.diag([*np.diag(THETA), MASS, MASS, MASS])
START = np.concatenate([SO3.neutral(), ARM]), np.concatenate([SPIN, np.cross(SPIN, ARM)])
METHODS = [
    GeneralizedAlpha(0.9),
    Variational(),
    Variational("cay"),
    HalfExplicit(3),
    HalfExplicit(4),
    HalfExplicit(4, project=True),
    RadauIIA(3),
    RadauIIA(5),
]
MEMBERS, ROUNDS = unless_quick((256, 3), (8, 1))
STIFFNESS, DAMPING = 1e9, 1e6


def about_pivot(t, q, v, u):
    return cross(ARM, SO3.element(q).T @ WEIGHT)


def weight_se3(t, q, v, u):
    return np.concatenate([np.zeros(3, int), SO3.element(q[:4]).T @ WEIGHT])


def weight_space(t, q, v, u):
    return np.concatenate([np.zeros(3, int), WEIGHT])


def pivot(q):
    return q[4:] - SO3.element(q[:4]) @ ARM


def held(t, q, v, u):
    """Weight, and what the spring and the damper do in place of the pivot."""
    S = SO3.element(q[:4])
    force = -STIFFNESS * pivot(q) - DAMPING * (v[3:] - S @ cross(v[:3], ARM))
    return weight_space(t, q, v, u) + np.concatenate([cross(S.T @ force, ARM), force])


def held_field(t, y):
    """The same as a vector field on SO(3) x R(3) and its velocities."""
    v = y[7:]
    gyroscopic = np.concatenate([np.cross(THETA @ v[:3], v[:3]), np.zeros(3)])
    return np.concatenate([v, (held(t, y[:7], v, None) + gyroscopic) / np.diag(INERTIA)])


def stiff(R_end):
    """Steps under error control, and the error of attitude at the end against the top with a pivot."""
    whole, start, short = Product(SO3xR3, R(6)), np.concatenate(START), 5e-4
    print(f"{'stiff ball joint':36}{'rtol':>8}{'steps':>8}{'rejected':>10}{'attitude':>10}{'ms':>8}")
    for tolerance in (1e-4, 1e-6):
        options = {"rtol": tolerance, "atol": tolerance}
        for method in (RadauIIA(5), RadauIIA(3), GeneralizedAlpha(0.5)):
            flow, best = method.flow(SO3xR3, INERTIA, held), np.inf
            for _ in range(ROUNDS + 1):
                begin = time.perf_counter()
                motion = flow.run(*START, END, t_eval=[0, END], first_step=1e-5, **options)
                best = min(best, time.perf_counter() - begin)
            error = np.linalg.norm(SO3.element(motion.q[-1, :4]) - R_end)
            counts = f"{motion.steps:8}{motion.rejected:10}"
            print(f"{method!r:36}{tolerance:8g}{counts}{error:10.1e}{1e3 * best:8.1f}", flush=True)
        explicit = solve_ivp(held_field, (0, short), start, whole, **options).steps
        print(f"{'rkmk45, explicit':36}{tolerance:8g}{explicit * END / short:8.0f}", flush=True)


def reference():
    """Attitude at the end, and the multipliers: weight minus mass times acceleration of the centre."""
    flow = Gauss(6).flow(SO3, ABOUT_PIVOT, about_pivot)
    motion = flow.run(SO3.neutral(), SPIN, END, 5e-5, record_every=END)
    R, w = SO3.element(motion.q[-1]), motion.v[-1]
    moment = np.cross(ABOUT_PIVOT @ w, w) + np.cross(ARM, R.T @ WEIGHT)
    turning = np.linalg.solve(ABOUT_PIVOT, moment)
    return R, WEIGHT - MASS * R @ (np.cross(turning, ARM) + np.cross(w, np.cross(w, ARM)))


def rate(flow, h, members):
    """Steps per second, of all members together."""
    steps = max(200, 20000 // members)
    y = np.repeat(flow.start(*START, 0.0, h), members, axis=0)
    u, record, failed = np.zeros((1, 1, 0)), np.zeros((members, 1, flow.point)), np.zeros(members, np.int64)
    best = np.inf
    for _ in range(ROUNDS + 1):  # the first one compiles
        state, begin = y.copy(), time.perf_counter()
        flow.steps(state, u, 0.0, h, steps, steps, record, 0, failed)
        best = min(best, time.perf_counter() - begin)
    return steps * members / best


def chain(bodies):
    """Group, M, Q, g of bodies of 1 kg and 1 m, and their horizontal start."""
    half = np.array([0, 0, 0.5])

    def weight(t, q, v, u):
        return np.concatenate([np.array([0, 0, 0, 0, 0, -9.81])] * bodies)

    def joints(q):
        gaps, end = [], np.zeros(3, int)
        for x in np.reshape(q, (bodies, 7)):
            arm = SO3.element(x[:4]) @ half
            gaps.append(x[4:] + arm - end)
            end = x[4:] - arm
        return np.concatenate(gaps)

    turned = [np.cos(np.pi / 4), 0, np.sin(np.pi / 4), 0]
    start = np.concatenate([[*turned, -(i + 0.5), 0, 0] for i in range(bodies)])
    M = [(6 * i, 6 * i, np.diag([1 / 12, 1 / 12, 1e-3, 1, 1, 1])) for i in range(bodies)]
    return (Product(*[SO3xR3] * bodies), M, weight, joints), start


def main():
    print(describe())
    R_end, force = reference()
    print(
        f"{'method':36}{'group':8}{'h [ms]':>8}{'attitude':>10}{'force [N]':>11}{'steps/s':>12}{'of 256':>12}"
    )
    for group, weight in ((SE3, weight_se3), (SO3xR3, weight_space)):
        for method in unless_quick(METHODS, METHODS[::4]):
            flow = method.flow(group, INERTIA, weight, pivot)
            for h in (2e-3, 1e-3, 5e-4):
                motion = flow.run(*START, END, h, record_every=END)
                attitude = np.linalg.norm(SO3.element(motion.q[-1, :4]) - R_end)
                error = np.linalg.norm(motion.multipliers[-1] - force)
                speeds = [rate(flow, h, n) for n in (1, MEMBERS)]
                for members, speed in zip((1, MEMBERS), speeds, strict=True):
                    keep(f"{method!r}, {group!r}, {1e3 * h:g} ms, {members}", rate=speed)
                print(
                    f"{method!r:36}{group!r:8}{1e3 * h:8g}{attitude:10.1e}{error:11.1e}"
                    + "".join(f"{speed:12,.0f}" for speed in speeds),
                    flush=True,
                )

    stiff(R_end)
    for method in (GeneralizedAlpha(0.9), Variational()):
        for bodies in map(int, sys.argv[1:] or unless_quick((2, 4, 8, 16, 32, 100, 300, 1000), (2,))):
            system, start = chain(bodies)
            flow, begin = method.flow(*system), time.perf_counter()
            y = flow.start(start, np.zeros(6 * bodies), 0.0, 1e-3)
            record, failed = np.zeros((1, 1, flow.point)), np.zeros(1, np.int64)
            flow.steps(y.copy(), np.zeros((1, 1, 0)), 0.0, 1e-3, 1, 1, record, 0, failed)
            ready = time.perf_counter() - begin
            best = np.inf
            for _ in range(ROUNDS):
                state, begin = y.copy(), time.perf_counter()
                flow.steps(state, np.zeros((1, 1, 0)), 0.0, 1e-3, 200, 200, record, 0, failed)
                best = min(best, time.perf_counter() - begin)
            assert not failed.any()
            keep(f"{method!r}, {bodies} bodies", seconds=best / 200)
            took = f"{best / 200 * 1e6:8.1f} us per step, ready after {ready:.1f} s"
            print(f"{method!r:36}{bodies:3} bodies{took}", flush=True)


if __name__ == "__main__":
    main()
