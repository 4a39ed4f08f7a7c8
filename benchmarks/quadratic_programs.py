"""Ten thousand random quadratic programs: both solvers of this library beside DAQP and ProxQP.

    pip install daqp proxsuite && python benchmarks/quadratic_programs.py

Six kinds in turn, of 6 unknowns, 4 equalities and 10 inequalities (tests/random_programs.py makes them):
plain ones; degenerate ones, with a cost of rank 1 and more active rows than unknowns; redundant rows; rows
and costs whose sizes cover twelve decades; rows that contradict each other; and such rows with weights, which
may be missed at a price. The fifth kind has no solution, all others have one.

Each line counts, for a solver and a kind,

right      programs with the right status: solved, or not solved where there is no solution
wrong      programs that are called solved although they have no solution, or although the answer misses a
           condition of the minimum by more than 1e-6
no number  answers with NaN or infinite entries

and has the largest and the median condition that answers miss which are called solved: stationarity with the
multipliers, rows, signs, and the gap between primal and dual cost, each in units of its terms. Times are
processor time of a program: of this library in one batch, of the peers call by call.

Where rows have weights the peers have an unknown for the slack of each. DAQP and ProxQP run with tolerances
of 1e-9, and else with their defaults.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import describe, installed, keep, unless_quick

from liebody.control import QuadraticProgram

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from random_programs import KINDS, many_programs

UNKNOWNS, EQUALITIES, INEQUALITIES = 6, 4, 10
COUNT = unless_quick(10_000, 60)
WRONG = 1e-6
Program = tuple[np.ndarray, ...]  # H, g, A, b, C, u, weights of C


class Answer(NamedTuple):
    """Of one program: x, multipliers of equalities and of inequalities, and whether it is called solved."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    solved: bool


def with_slack(program: Program) -> tuple[np.ndarray, ...]:
    """H, g, A, b, C, u with an unknown for the slack of each row that has a weight: C x + s <= u."""
    H, g, A, b, C, u, weight = program
    soft = np.flatnonzero(np.isfinite(weight))
    m, k, s = len(A), len(C), len(soft)
    larger = np.block([[H, np.zeros((len(H), s))], [np.zeros((s, len(H))), np.diag(weight[soft])]])
    of_slack = np.zeros((k, s))
    of_slack[soft, np.arange(s)] = 1.0
    return larger, np.r_[g, np.zeros(s)], np.hstack([A, np.zeros((m, s))]), b, np.hstack([C, of_slack]), u


def daqp(solver: Any, program: Program) -> Answer:
    """Equalities are rows whose bounds are equal (sense 5); their multipliers have the other sign."""
    H, g, A, b, C, u = with_slack(program)
    m = len(A)
    rows, low = np.vstack([A, C]), np.r_[b, np.full(len(C), -1e30)]
    sense = np.r_[np.full(m, 5), np.zeros(len(C))].astype(np.int32)
    x, _, flag, told = solver.solve(H, g, rows, np.r_[b, u], low, sense, primal_tol=1e-9, dual_tol=1e-9)
    multipliers = -np.asarray(told["lam"], float)
    return Answer(np.asarray(x)[:UNKNOWNS], multipliers[:m], multipliers[m:], flag > 0)


def proxsuite(solver: Any, program: Program) -> Answer:
    H, g, A, b, C, u = with_slack(program)
    dense = solver.proxqp.dense
    found = dense.solve(H, g, A, b, C, np.full(len(C), -1e20), u, eps_abs=1e-9, eps_rel=0.0)
    solved = found.info.status == solver.proxqp.QPSolverOutput.PROXQP_SOLVED
    return Answer(np.asarray(found.x)[:UNKNOWNS], -np.asarray(found.y), -np.asarray(found.z), solved)


PEERS: dict[str, Callable[[Any, Program], Answer]] = {"daqp": daqp, "proxsuite": proxsuite}


def errors(program: Program, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    """The largest condition of a minimum that is missed, in units of its terms; H x + g = A' y + C' z."""
    H, g, A, b, C, u, weight = program
    Hx = H @ x
    terms = np.abs(Hx) + np.abs(g) + np.abs(A.T) @ np.abs(y) + np.abs(C.T) @ np.abs(z)
    stationary = np.abs(Hx + g - A.T @ y - C.T @ z).max() / max(terms.max(), 1e-300)
    soft = np.isfinite(weight)
    slack = np.where(soft, z / np.where(soft, weight, 1.0), 0.0)
    size = max(1.0, np.abs(x).max())
    row_a, row_c = (np.abs(rows).max(axis=1) + 1e-300 for rows in (A, C))
    missed = max((np.abs(A @ x - b) / row_a).max(), ((C @ x + slack - u) / row_c).max()) / size
    primal = x @ (Hx / 2 + g) + (np.where(soft, weight, 0.0) * slack**2).sum() / 2
    dual = -(x @ Hx) / 2 + b @ y + u @ z - np.where(soft, z * slack, 0.0).sum() / 2
    cost = np.abs(x * Hx).sum() + np.abs(x * g).sum() + np.abs(b * y).sum() + np.abs(u * z).sum()
    signs = max(z.max(), 0.0) / max(np.abs(z).max(), 1e-300)
    return float(max(stationary, missed, abs(primal - dual) / max(cost, 1e-300), signs))


def report(label: str, kind: np.ndarray, programs: list[Program], answers: list[Answer], us: float) -> None:
    for k, name in enumerate(KINDS):
        chosen = np.flatnonzero(kind == k)
        solved = np.array([answers[j].solved for j in chosen])
        finite = [all(np.isfinite(part).all() for part in answers[j][:3]) for j in chosen]
        found = [
            errors(programs[j], *answers[j][:3])
            for j, is_solved, is_finite in zip(chosen, solved, finite, strict=True)
            if is_solved and is_finite
        ]
        apart = np.array(found)
        hopeless = name == "infeasible"
        right = np.count_nonzero(~solved if hopeless else solved)
        wrong = np.count_nonzero(solved) if hopeless else np.count_nonzero(~(apart <= WRONG))
        worst = f"{apart.max():9.1e} {np.median(apart):9.1e}" if found else f"{'':19s}"
        print(
            f"  {label:24s} {name:24s} {right:5d} of {len(chosen)} right {wrong:5d} wrong "
            f"{len(chosen) - sum(finite):3d} no number  {worst}",
            flush=True,
        )
    print(f"  {label:24s} {us:.1f} us a program")


def main() -> None:
    found = installed(PEERS)
    print(describe("numpy", *found))
    kind, arrays = many_programs(np.random.default_rng(8), COUNT, UNKNOWNS, EQUALITIES, INEQUALITIES)
    programs = list(zip(*arrays, strict=True))
    H, g, A, b, C, u, weight = arrays
    for method in ("interior-point", "active-set"):
        solve = QuadraticProgram(UNKNOWNS, EQUALITIES, INEQUALITIES, solver=method)
        solve(H, g, A, b, C, u=u, weight_c=weight)  # compiled
        begun = time.process_time()
        s = solve(H, g, A, b, C, u=u, weight_c=weight)
        us = 1e6 * (time.process_time() - begun) / COUNT
        answers = [Answer(*row) for row in zip(s.x, s.y, s.z, s.solved, strict=True)]
        keep(f"liebody, {method}", seconds=1e-6 * us)
        report(f"liebody, {method}", kind, programs, answers, us)
    for name, solver in found.items():
        begun = time.process_time()
        answers = [PEERS[name](solver, program) for program in programs]
        us = 1e6 * (time.process_time() - begun) / COUNT
        keep(name, seconds=1e-6 * us)
        report(name, kind, programs, answers, us)


if __name__ == "__main__":
    main()
