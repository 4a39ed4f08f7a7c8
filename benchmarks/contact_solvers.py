"""Solvers of contact problems beside each other: time against residual, from cold and from warm starts.

    python benchmarks/contact_solvers.py [robot ...]        (anymal talos)

The problems are those of the steps of ANYmal on its four feet, or Talos on four points under each foot
(`legs`), with noise on set-points, on a floor that gives way (2e4 N/m, 4e2 N s/m) and on a rigid one
(1e7 N/m, 1e5 N s/m), at steps of 1 ms: with A = J M^-1 J^T + R, (m, m), find impulses x and w = A x + b that
obey Coulomb's law. Solvers are traced and compiled over lanes, with a fixed number of iterations:

    gauss-seidel   projected, so many sweeps                                (contact.cones, ProjectedStep)
    exact          sweeps of an exact solution for each contact             (contact.cones, ConeNewton(3))
    admm           min x.A x/2 + (b + s).x over the cones; one factorisation of A + rho for all iterations
    newton         on the unconstrained dual of the same: with A - R = C C^T, x = P(y), y = -(b + s + C z)/R,
                   min |z|^2/2 + R |P(y)|^2/2; in each iteration a factorisation (m, m) and a line search

With s = 0 the last two solve the convex problem, in which feet that slide lift (Anitescu); the residual is
that of its own law, and then that of Coulomb's. "corrected" has s = mu |w_t| along the normals, renewed in
each iteration (de Saxce), and its solution obeys Coulomb's law.

Printed: operations, microseconds for a problem (one thread, least of many; none for code of more than 15,000
operations, which is not compiled here), and residuals as a fraction of the weight times h: median and 99 %
from warm starts (the last step's impulses), 99 % from cold ones; of convex problems also Coulomb's, in
brackets.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
from legs import CASES, DT, HOLD, loaded
from machine import describe, unless_quick

import liebody as lb
from liebody.compiler import Kernel, trace
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.contact import Contact, TimeStepping, impulses
from liebody.contact.cones import TINY, Block, Cone, ConeNewton, ConeSolver, ProjectedStep, gauss_seidel
from liebody.hybrid import JointPD
from liebody.scalars import Array, maximum, sqrt, where
from liebody.scalars.linear import factor, inward, product, solve, symmetric

MU, PROBLEMS, LONG = 0.8, unless_quick(4096, 64), 15_000
FLOORS = {"2e4 N/m": (2e4, 4e2), "1e7 N/m": (1e7, 1e5)}
STEPS = (1.0, 0.5, 0.2, 0.05)  # of a line search


def sampled(name: str, stiffness: float, damping: float) -> tuple[dict[str, np.ndarray], float]:
    """Problems {A, b, x, R} of a run, with the impulses x of the step before, and weight times h."""
    case, rng = CASES[name], np.random.default_rng(0)
    robot, q = loaded(case)
    robot = lb.Robot(robot.tree.with_joints("ideal"))
    floor = Contact(*robot.tree.frames, stiffness=stiffness, damping=damping, friction=MU, radius=case.radius)
    drives = JointPD(case.K, q[7:], case.D, gravity_compensation=False)
    system = TimeStepping(robot, drives, floor, ledger=False)
    times = HOLD * np.arange(26)
    targets = q[7:] + case.noise * rng.standard_normal((128, len(times), len(q) - 7))
    options: Any = {"dt": DT, "record_every": DT, "most_events": 0, "sampled": {"pd_q_des": (times, targets)}}
    run = system.simulate(np.tile(q, (128, 1)), t_end=times[-1], **options)

    found: dict[str, Any] = {}

    def note(blocks: list[Block], x: list[Array], *_: Any) -> tuple[list[Array], Array, float]:
        X, Y, R, b = (np.concatenate([getattr(k, name) for k in blocks], -1) for name in "XYRb")
        found.update(A=product(X.T, Y) + np.diag(R), b=b, x=np.concatenate(x))
        return x, product(X, found["x"]), 0.0

    def problem(t: Any, y: Array, u: Array) -> dict[str, Array]:
        solver, impulses.gauss_seidel = impulses.gauss_seidel, note  # type: ignore[attr-defined]
        try:
            system.motion(*system.read_flat(t, y, u))
        finally:
            impulses.gauss_seidel = solver  # type: ignore[attr-defined]
        return found

    nu = system.parameters.size + 1
    members, rows = rng.integers(128, size=PROBLEMS), rng.integers(200, len(run.t) - 1, PROBLEMS)
    memory = [run.memory[name][members, rows].reshape(PROBLEMS, -1) for name in system.memory.defaults]
    y = np.concatenate([run.q[members, rows], run.v[members, rows], *memory], axis=1)
    held = targets[members, np.floor(run.t[rows] / HOLD + 1e-6).astype(int)]
    u = system.parameters.values({"pd_q_des": held, "step": DT}, (PROBLEMS,), DT)
    kernel = Kernel(trace(problem, {"t": (), "y": y.shape[1], "u": nu}, "problem"))
    parts = dict(zip(kernel.function.outputs, kernel(run.t[rows], y, u), strict=True))
    R = np.full(PROBLEMS, 1 / (DT * (DT * stiffness + damping)))
    return {**parts, "R": R}, robot.tree.mass * 9.81 * DT


def blocks(m: int) -> list[slice]:
    """Those of the points, of so many rows."""
    return [slice(i, i + 3) for i in range(0, m, 3)]


# -- solvers: (A, b, x, R) -> x ------------------------------------------------------------------------------


def projected(y: Array, mu: float) -> tuple[Array, Array]:
    """The nearest point of the cone |y_t| <= mu y_n, and its derivative."""
    n, t = y[0], y[1:]
    size = sqrt(t @ t + TINY)
    e, edge = t / size, (n + mu * size) / (1 + mu * mu)
    inside, polar = size <= mu * n, mu * size <= -n
    along = np.array([1, mu * e[0], mu * e[1]]) / (1 + mu * mu)
    turned = mu * edge / size
    across = np.array([0, -e[1], e[0]])
    G = np.outer(along, along) * (1 + mu * mu) + turned * np.outer(across, across)
    P = np.concatenate([[edge], mu * edge * e])
    kept = np.array([where(inside, a, where(polar, 0.0, b)) for a, b in zip(y, P, strict=True)])
    slope = [[where(inside, 1.0 * (i == j), where(polar, 0.0, G[i, j])) for j in range(3)] for i in range(3)]
    return kept, np.array(slope)


def onto_cones(y: Array) -> Array:
    return np.concatenate([projected(y[own], MU)[0] for own in blocks(len(y))])


def lifted(w: Array) -> Array:
    """s = mu |w_t| along the normals, (m,)."""
    parts = [[MU * sqrt(w[own][1:] @ w[own][1:] + TINY), 0, 0] for own in blocks(len(w))]
    return np.concatenate(parts)


def sweeping(sweeps: int, solver: ConeSolver, A: Array, b: Array, x: Array, R: Any) -> Array:
    one, zero = np.eye(len(b), dtype=int), np.zeros(3, int)
    points = [Block(Cone(MU), one[:, own], A[:, own], zero, b[own]) for own in blocks(len(b))]
    found, *_ = gauss_seidel(points, [x[own] for own in blocks(len(b))], sweeps, solver)
    return np.concatenate(found)


def admm(iterations: int, corrected: bool, A: Array, b: Array, x: Array, R: Any) -> Array:
    m = len(b)
    rho = 0.6 * np.trace(A) / m  # about (least eigenvalue * largest)^(1/2), on both floors
    L, reciprocals = factor(A + rho * np.eye(m, dtype=int))
    inverse = inward((L, reciprocals), np.eye(m, dtype=int))  # A + rho = L^T d L
    inverse = product(inverse.T, np.array(reciprocals)[:, None] * inverse)
    z, dual = x, -(A @ x + b)
    for _ in range(iterations):
        s = lifted(dual) if corrected else 0
        y = inverse @ (rho * z - dual - b - s)
        z = onto_cones(y + dual / rho)
        dual = dual + rho * (y - z)
    return z


def newton(iterations: int, corrected: bool, A: Array, b: Array, x: Array, R: Any) -> Array:
    m = len(b)
    least = 1e-9 * np.trace(A) / m  # points of one body may be redundant, and A - R singular
    L, reciprocals = factor(A - (R - least) * np.eye(m, dtype=int))
    half = np.eye(m, dtype=object)
    for k, row in enumerate(L):
        half[k, :k] = row
    C = half.T / sqrt(np.array(reciprocals))
    z = C.T @ x

    def cost(z: Array, y: Array) -> Any:
        P = onto_cones(y)
        return z @ z + R * (P @ P)

    s: Any = lifted(A @ x + b) if corrected else 0
    for _ in range(iterations):
        y = -(b + s + C @ z) / R
        found = [projected(y[own], MU) for own in blocks(m)]
        GC = np.concatenate([G @ C[own] for (_, G), own in zip(found, blocks(m), strict=True)]) / R
        H = symmetric(m, lambda i, j, GC=GC: C[:, i] @ GC[:, j] + (i == j))
        dz = -solve(H, z - C.T @ np.concatenate([P for P, _ in found]))
        dy = -(C @ dz) / R
        best, step = cost(z + dz, y + dy), 1.0
        for a in STEPS[1:]:
            at = cost(z + a * dz, y + a * dy)
            step, best = where(at < best, a, step), where(at < best, at, best)
        z = z + step * dz
        if corrected:
            s = lifted(b + C @ z + R * onto_cones(y + step * dy))
    return onto_cones(-(b + s + C @ z) / R)


def defects(A: Array, b: Array, x: Array) -> Array:
    """By how much x fails Coulomb's law, and the law of the convex problem, (2,)."""
    w = A @ x + b
    coulomb = [Cone(MU).defect(A[own, own], w[own], x[own]) for own in blocks(len(b))]
    convex = x - onto_cones(
        x - w / np.array([A[own.start, own.start] for own in blocks(len(b)) for _ in range(3)])
    )
    off = [sqrt(convex[own] @ convex[own] + TINY) for own in blocks(len(b))]
    return np.array([reduce(maximum, coulomb), reduce(maximum, off)])


SOLVERS: dict[str, Callable[..., Array]] = {
    **{f"gauss-seidel, {n} sweeps": partial(sweeping, n, ProjectedStep()) for n in (5, 10, 20)},
    **{f"exact, {n} sweeps": partial(sweeping, n, ConeNewton(3)) for n in (1, 2, 3, 5, 10)},
    **{f"admm, {n}": partial(admm, n, False) for n in (20, 40)},
    **{f"admm corrected, {n}": partial(admm, n, True) for n in (10, 20, 40, 80)},
    **{f"newton, {n}": partial(newton, n, False) for n in (4, 8, 16)},
    **{f"newton corrected, {n}": partial(newton, n, True) for n in (4, 8, 16)},
}


def measure(robot: str) -> None:
    floors = {name: sampled(robot, *given) for name, given in FLOORS.items()}
    m = next(iter(floors.values()))[0]["b"].shape[1]
    shapes: dict[str, Any] = {"A": (m, m), "b": m, "x": m, "R": ()}
    judge = compile_numpy(trace(defects, {name: shapes[name] for name in "Abx"}, "defects"))
    print(
        f"{robot}: operations, us".ljust(42) + "".join(f"{x}: warm 50 %, 99 %, cold 99 %   " for x in FLOORS)
    )
    for name, solver in SOLVERS.items():
        function = trace(solver, shapes, "solved")
        count = sum(function.operations.values())
        call: Any = Kernel(function) if count < LONG else compile_numpy(function)
        law = int(name.startswith(("admm,", "newton,")))  # whose residual
        line, times = "", []
        for problems, unit in floors.values():
            A, b, x, R = (np.ascontiguousarray(problems[k]) for k in shapes)
            found = []
            for start in (x, 0 * x):
                for _ in range(20 if count < LONG else 1):
                    begin = time.perf_counter()
                    out = call(A, b, start, R)
                    times.append(time.perf_counter() - begin)
                found.append(np.nan_to_num(judge(A, b, out), nan=np.inf) / unit)
            low, high = np.quantile(found[0][:, law], [0.5, 0.99])
            line += f"{low:11.0e} {high:8.0e} {np.quantile(found[1][:, law], 0.99):8.0e}"
            line += f" ({np.quantile(found[0][:, 0], 0.99):5.0e})" if law else " " * 8
        took = f"{1e6 * min(times) / PROBLEMS:7.3f}" if count < LONG else " " * 7
        print(f"{name:24s} {count:8d} {took}{line}", flush=True)


def main(chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(describe("numpy"))
    for robot in chosen or unless_quick(("anymal", "talos"), ("anymal",)):
        measure(robot)


if __name__ == "__main__":
    main(sys.argv[1:])
