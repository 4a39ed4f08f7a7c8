"""A whole-body controller of ANYmal on four feet, beside TSID, and solvers of the same quadratic programs.

    python benchmarks/whole_body.py [rounds]

A call of `liebody.control.WholeBody` is all from q and v to efforts and forces. So is one of TSID, with the
same tasks, weights and limits; its tasks have their own frames, so commands differ. quadprog and DAQP, dual
active set methods, and ProxQP, a proximal method, get the finished matrices only: their time is that of the
solver alone. They have to find the same accelerations of the base to 1e-3 of the largest one. Differences of
efforts are printed, as far as the small cost of forces decides them, by default and with the tolerance TIGHT,
and errors of the solution in its conditions of a minimum. What is not installed is left out (pip install
quadprog daqp proxsuite; TSID: pip install tsid==1.7.1 pin==3.4.0 "cmeel-urdfdom<5" "cmeel-tinyxml2<11").
Calls take turns in one process, over the same random states; medians, 99th percentiles, and the median of the
rounds' ratios. Processor time.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from machine import describe, keep, unless_quick
from robots import path

import liebody as lb
from liebody.compiler import Kernel
from liebody.control import MotionTask, QuadraticProgram, Support, WholeBody, WholeBodyCommand
from liebody.io import pinocchio_layout

FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)
STATES, MANY = 200, 1000
TIGHT = 1e-13  # tolerance of the controller whose efforts are compared, too


Call = Callable[[], np.ndarray]


def standing() -> tuple[lb.Robot, np.ndarray, list[MotionTask], WholeBody]:
    """ANYmal, where it stands, its tasks, and the controller that keeps it there on four feet."""
    file, floating = path("anymal")
    robot = lb.load(file, floating=floating)
    q = robot.neutral()
    q[7:] = POSE
    tasks = [
        MotionTask.pose(robot, "base", kp=100.0, weight=10.0),
        MotionTask.posture(robot, kp=50.0, weight=0.1),
    ]
    return robot, q, tasks, WholeBody(robot, tasks, [Support(foot) for foot in FEET], limits=["effort"])


def costs(data: Sequence[np.ndarray], rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """H and g to which weighted equalities belong."""
    H, g, A, b, weight, *_ = data
    w = weight * rows
    return H + (A.T * w) @ A, g - A.T @ (w * b)


def quadprog(solver: Any, data: Sequence[np.ndarray]) -> Call:
    """The rows that have a bound, as C x >= b."""
    H, g = costs(data, 1)
    C, low, high = data[5:8]
    finite = low > -1e20, high < 1e20
    rows = np.concatenate([C[finite[0]], -C[finite[1]]]).T.copy()
    bounds = np.concatenate([low[finite[0]], -high[finite[1]]])
    return lambda: solver.solve_qp(H, -g, rows, bounds)[0]


def daqp(solver: Any, data: Sequence[np.ndarray]) -> Call:
    H, g = costs(data, 1)
    C, low, high = data[5:8]
    sense = np.zeros(len(C), np.int32)
    return lambda: solver.solve(H, g, C, high, low, sense)[0]


def proxsuite(solver: Any, data: Sequence[np.ndarray]) -> Call:
    """Rows of supports are exact equalities: it does not converge with their weights in the cost."""
    hard = data[4] > 1e3
    H, g = costs(data, ~hard)
    A, b = data[2][hard], data[3][hard]
    C, low, high = data[5], np.maximum(data[6], -1e20), np.minimum(data[7], 1e20)
    solve = solver.proxqp.dense.solve
    return lambda: solve(H, g, A, b, C, low, high, eps_abs=1e-9, rho=1e-8).x


PEERS = {"quadprog": quadprog, "daqp": daqp, "proxsuite": proxsuite}


def tsid_calls(ours: lb.Robot, Q: np.ndarray, V: np.ndarray, target: np.ndarray) -> list[Call]:
    """A call of TSID in each state, for its efforts; none where it is not installed.

    The body is held at `target` (4, 4).
    """
    try:
        import pinocchio as pin
        from tsid import tsid_pywrap as tsid
    except ImportError:
        print("tsid is not installed here; it is left out")
        return []
    file, _ = path("anymal")
    robot = tsid.RobotWrapper(str(file), [], pin.JointModelFreeFlyer(), False)
    model = robot.model()
    layout = pinocchio_layout(ours.tree, model)
    states = [(layout.to_q(q), layout.to_v(q, v)) for q, v in zip(Q, V, strict=True)]
    formulation = tsid.InverseDynamicsFormulationAccForce("tsid", robot, False)
    formulation.computeProblemData(0.0, *states[0])
    data = formulation.data()
    contacts = []
    for foot in FEET:
        contact = tsid.ContactPoint(foot, robot, foot, np.array([0, 0, 1.0]), 0.7, 0.0, 1e4)
        contact.setKp(np.zeros(3))
        contact.setKd(10 * np.ones(3))
        contact.setReference(robot.framePosition(data, model.getFrameId(foot)))
        contact.useLocalFrame(False)
        formulation.addRigidContact(contact, 1e-4)
        contacts.append(contact)
    base = tsid.TaskSE3Equality("base", robot, "base")
    base.setKp(100 * np.ones(6))
    base.setKd(20 * np.ones(6))
    sample = tsid.TrajectorySample(12, 6)
    sample.value(np.concatenate([target[:3, 3], target[:3, :3].T.ravel()]))
    base.setReference(sample)
    formulation.addMotionTask(base, 10.0, 1, 0.0)
    posture = tsid.TaskJointPosture("posture", robot)
    posture.setKp(50 * np.ones(12))
    posture.setKd(2 * np.sqrt(50) * np.ones(12))
    rest = np.zeros(ours.nq)
    rest[0] = 1
    rest[7:] = POSE
    sample = tsid.TrajectorySample(12)
    sample.value(layout.to_q(rest)[7:])
    posture.setReference(sample)
    formulation.addMotionTask(posture, 0.1, 1, 0.0)
    bounds = tsid.TaskActuationBounds("efforts", robot)
    most = model.effortLimit[6:]
    bounds.setBounds(-most, most)
    formulation.addActuationTask(bounds, 1.0, 0, 0.0)
    solver = tsid.SolverHQuadProgFast("solver")
    solver.resize(formulation.nVar, formulation.nEq, formulation.nIn)

    def call(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        solution = solver.solve(formulation.computeProblemData(0.0, q, v))
        if solution.status:
            raise SystemExit(f"TSID ends with the status {solution.status}")
        return formulation.getActuatorForces(solution)

    call.alive = robot, contacts, base, posture, bounds  # TSID itself does not keep them
    return [partial(call, *state) for state in states]


def conditions_of_a_minimum(programs: Sequence[Sequence[np.ndarray]]) -> None:
    """Print the errors of the solver in the conditions of a minimum, relative to their terms."""
    H, g, A, b, weight, C, low, high, weight_c, scale = (np.array(x) for x in zip(*programs, strict=True))
    m, n = A.shape[1:]
    solve = QuadraticProgram(n, m, C.shape[1])
    weight_c[weight_c > 1e30] = np.inf
    low, high = np.where(low < -1e20, -np.inf, low), np.where(high > 1e20, np.inf, high)
    s = solve(H, g, A, b, C, low, high, weight_a=weight, weight_c=weight_c, scale=scale[:, 0])
    Hx = np.einsum("kij,kj->ki", H, s.x)
    pull = np.einsum("kji,kj->ki", A, s.y) + np.einsum("kji,kj->ki", C, s.z)
    terms = np.abs(Hx) + np.abs(g) + np.einsum("kji,kj->ki", np.abs(A), np.abs(s.y))
    terms += np.einsum("kji,kj->ki", np.abs(C), np.abs(s.z))
    stationary = np.abs(Hx + g - pull).max(axis=1) / terms.max(axis=1)
    outside = np.abs(s.slack_c).max(axis=1) / np.abs(s.x).max(axis=1)
    for name, error in (("stationarity", stationary), ("rows", outside), ("gap", s.gap)):
        print(f"{name}: error of its conditions {np.median(error):.0e}, at most {error.max():.0e}")


def check_tight(u: WholeBodyCommand) -> None:
    """Print how all states end with the tolerance TIGHT, or end the script where one has no solution."""
    if not all(np.isfinite(x).all() for x in u) or u.status.any():
        raise SystemExit(f"with the tolerance {TIGHT:g} there are states without a solution")
    others = np.count_nonzero(u.slack.any(axis=1))
    print(
        f"tolerance {TIGHT:g}: {len(u.status)} states solved, {others} by the program of all unknowns, "
        f"{u.iterations.mean():.1f} iterations, at most {u.iterations.max():.0f}"
    )


def installed() -> dict[str, Any]:
    """The modules of `PEERS` that are there."""
    found = {}
    for name in PEERS:
        try:
            found[name] = importlib.import_module(name)
        except ModuleNotFoundError:
            print(f"{name} is not installed here; it is left out")
    return found


def main(rounds: int = unless_quick(9, 1)) -> None:
    solvers = installed()
    print(describe("numpy", *solvers))
    robot, q, tasks, controller = standing()
    p = controller.pack({"base.target": robot.pose(q, "base"), "posture.target": POSE})
    rng = np.random.default_rng(0)
    Q = robot.integrate(np.tile(q, (MANY, 1)), 0.05 * rng.normal(size=(MANY, robot.nv)))
    V = 0.1 * rng.normal(size=(MANY, robot.nv))
    kernel = controller.kernel
    commands = controller(Q, V, p)
    tight = WholeBody(robot, tasks, controller.supports, limits=["effort"], tolerance=TIGHT)(Q, V, p)
    check_tight(tight)
    before = Kernel(kernel.function.before)
    results = [before(Q[k], V[k], p) for k in range(STATES)]
    programs = [result[:10] for result in results]
    peers = {name: [PEERS[name](solver, program) for program in programs] for name, solver in solvers.items()}
    conditions_of_a_minimum(programs)
    outputs = [*kernel.function.before.outputs]
    for name, calls in peers.items():
        efforts: dict[str, list[float]] = {"efforts": [], f"efforts with the tolerance {TIGHT:g}": []}
        worst = 0.0
        for k, call in enumerate(calls):
            x = call()
            a, tau = (
                Y[:, :-1] @ x + Y[:, -1]
                for Y in (results[k][outputs.index(word)] for word in ("follow", "efforts"))
            )
            for words, u in zip(efforts, (commands, tight), strict=True):
                efforts[words].append(np.abs(tau - u.tau[k, controller.driven]).max())
            worst = max(worst, np.abs(a[:6] - commands.a[k, :6]).max() / np.abs(commands.a[k]).max())
        print(f"{name}: base accelerations differ by {worst:.0e} at most")
        for words, apart in efforts.items():
            print(f"{name}: {words} differ by {np.median(apart):.0e} N m, at most {max(apart):.0e}")
        if not worst < 1e-3:
            raise SystemExit(f"{name} has another solution")
    labels = {"liebody": "liebody, whole call", **{name: f"{name}, solver" for name in peers}}
    if whole := tsid_calls(robot, Q[:STATES], V[:STATES], robot.pose(q, "base")):
        peers["tsid"], labels["tsid"] = whole, "TSID, whole call"
        most = max(np.abs(call()).max() for call in whole)
        print(f"largest effort {np.abs(commands.tau).max():.1f} N m, of TSID {most:.1f}")

    times: dict[str, list[float]] = {name: [] for name in ("liebody", *peers)}
    ratios: dict[str, list[float]] = {name: [] for name in peers}
    batch: list[float] = []
    model: list[float] = []
    members: list[float] = []  # times that TSID takes, in those of a member of a batch
    for _ in range(rounds):
        for k in range(STATES):
            begin = time.process_time()
            kernel.call(Q[k], V[k], p)
            times["liebody"].append(time.process_time() - begin)
            for name, calls in peers.items():
                begin = time.process_time()
                calls[k]()
                times[name].append(time.process_time() - begin)
        latest = {name: statistics.median(x[-STATES:]) for name, x in times.items()}
        for name in peers:
            ratios[name].append(latest[name] / latest["liebody"])
        for f, durations in ((kernel, batch), (before, model)):
            begin = time.process_time()
            f(Q, V, p)
            durations.append((time.process_time() - begin) / MANY)
        if "tsid" in peers:
            members.append(latest["tsid"] / batch[-1])
    print(f"{commands.iterations.mean():.1f} iterations, at most {commands.iterations.max():.0f}")
    print("\n                             median, us      99 %, us   times the whole call")
    for name, x in times.items():
        keep(labels[name], seconds=x, **({"ratio": ratios[name]} if name in ratios else {}))
        ratio = f"{statistics.median(ratios[name]):14.2f}" if name in ratios else ""
        print(
            f"{labels[name]:24s} {1e6 * statistics.median(x):14.1f} {1e6 * np.quantile(x, 0.99):13.1f}", ratio
        )
    for label, durations in (("liebody, of 1000", batch), ("its program's matrices", model)):
        of_tsid = {"ratio": members} if members and durations is batch else {}
        keep(label, seconds=durations, **of_tsid)
        print(f"{label:24s} {1e6 * statistics.median(durations):14.2f}   each, one thread")
    if members:
        print(f"TSID takes {statistics.median(members):.1f} times as long as one of 1000")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
