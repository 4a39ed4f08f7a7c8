"""A whole-body controller of ANYmal on four feet, beside TSID, and solvers of the same quadratic programs.

    python benchmarks/whole_body.py [rounds]

A call of `liebody.control.WholeBody` is all from q and v to efforts and forces. So is one of TSID, with the
same tasks, weights and limits; its tasks have their own frames, so commands differ. quadprog and DAQP, dual
active set methods, and ProxQP, a proximal method, get the finished matrices only: their time is that of the
solver alone. They have to find the same accelerations of the base to 1e-3 of the largest one. Differences of
efforts are printed, as far as the small cost of forces decides them, by default and with the tolerance TIGHT,
and errors of the solution in its conditions of a minimum. What is not installed is left out (pip install
quadprog daqp proxsuite; TSID: pip install tsid==1.7.1 pin==3.4.0 "cmeel-urdfdom<5" "cmeel-tinyxml2<11").
Talos stands on two soles, and its centre of mass sways so far that many limits are active. A call of
`WholeBody` with each of its solvers takes turns with the same controller written by hand with Pinocchio,
NumPy and DAQP (by_hand.py), in consecutive states of the motion and in random ones near it. Active set
methods start from the call before in the motion, and without active rows in random states. In 99 of 100
states the program by hand has to have the same efforts to 1e-3 of the largest.

Calls take turns in one process, over the same random states; medians, 99th percentiles, and the median of the
rounds' ratios. Processor time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from by_hand import ByHand, Sway
from machine import describe, installed, keep, unless_quick
from robots import path

import liebody as lb
from liebody.compiler import Kernel
from liebody.control import (
    ActiveSetCommand,
    MotionTask,
    QuadraticProgram,
    Support,
    WholeBody,
    WholeBodyCommand,
)
from liebody.io import pinocchio_layout

FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)
STATES, MANY = 200, 1000
STATES_OF_MOTION = unless_quick(1000, 20)
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


def by_hand(wb: WholeBody) -> ByHand | None:
    """The controller of Talos with Pinocchio and DAQP; None where they are not installed."""
    try:
        return ByHand(wb, str(path("talos")[0]))
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed here; the controller by hand is left out")
        return None


def talos(rounds: int) -> None:
    """Print times of a call for Talos with both solvers, and of the controller by hand."""
    sway = Sway(str(path("talos")[0]))
    points, active_set = (sway.controller(solver) for solver in ("interior-point", "active-set"))
    hand = by_hand(active_set)
    motion = sway.states(active_set, STATES_OF_MOTION)
    rng = np.random.default_rng(0)
    chosen = motion[:: max(1, len(motion) // STATES)]
    scattered = [
        (
            active_set.robot.integrate(q, 0.03 * rng.normal(size=len(v))),
            v + 0.1 * rng.normal(size=len(v)),
            values,
        )
        for q, v, values in chosen
    ]
    # states where no limit has to give way: the program by hand has no slack
    held = [state for state in scattered if not active_set(*state).status and (not hand or hand.can(*state))]
    if not held:
        raise SystemExit("in no random state all limits can be kept")
    for label, states, warm in (("in motion", motion, True), ("random", held, False)):
        compared(f"Talos, {label}", points, active_set, hand, states, warm, rounds)


def compared(
    label: str,
    points: WholeBody,
    active_set: WholeBody,
    hand: ByHand | None,
    states: Sequence[tuple[Any, ...]],
    warm: bool,
    rounds: int,
) -> None:
    """Print times of calls in these states, and by how much their efforts differ.

    warm  whether an active set starts from that of the call before
    """
    given = [(q, v, active_set.pack(values)) for q, v, values in states]
    theirs = [hand.state(*state) for state in states] if hand else []
    nothing = np.zeros(active_set.kernel.inputs["start"][0])
    times: dict[str, list[float]] = {"active set": [], "interior point": []}
    if hand:
        times |= {"by hand": [], "by hand, Pinocchio and DAQP alone": []}
        hand.parts.clear()
    ratios: dict[str, list[float]] = {name: [] for name in times}
    apart: dict[str, list[float]] = {name: [] for name in ("interior point", "by hand")}
    changes, active, steps = [], [], []
    for _ in range(rounds):
        start = nothing
        for k, state in enumerate(given):
            begin = time.process_time()
            u = ActiveSetCommand(*active_set.kernel.call(*state, start))
            middle = time.process_time()
            other = points.kernel.call(*state)
            times["interior point"].append(time.process_time() - middle)
            times["active set"].append(middle - begin)
            start = u.active if warm else nothing
            if u.status:
                raise SystemExit(f"{label}: status {u.status} in the state {k}")
            changes.append(float(u.iterations))
            active.append(np.count_nonzero(u.active))
            largest = np.abs(u.tau).max()
            apart["interior point"].append(np.abs(other[0] - u.tau).max() / largest)
            if hand:
                tau = hand(*theirs[k], warm=warm)
                if hand.status != 1:
                    raise SystemExit(f"{label}: DAQP ends with the status {hand.status} in the state {k}")
                parts = hand.parts[-1]
                times["by hand"].append(sum(parts))
                times["by hand, Pinocchio and DAQP alone"].append(parts[0] + parts[2])
                apart["by hand"].append(np.abs(tau - hand.in_order(u.tau[6:])).max() / largest)
                steps.append(hand.steps)
        latest = {name: statistics.median(x[-len(given) :]) for name, x in times.items()}
        for name, x in latest.items():
            ratios[name].append(x / latest["active set"])
    print(f"\n{label}: {len(given)} states, {np.mean(active):.0f} limits active, at most {max(active)}")
    print(f"active set: {np.mean(changes):.1f} changes, at most {max(changes):.0f}")
    if steps:
        print(f"DAQP: {np.mean(steps):.1f} iterations, at most {max(steps)}")
    for name, x in apart.items():
        if x:
            print(f"{name}: efforts differ by {np.median(x):.0e} of the largest, at most {max(x):.0e}")
    if hand and not np.quantile(apart["by hand"], 0.99) < 1e-3:
        raise SystemExit("the controller by hand has other efforts")
    print("                                              median, us      99 %, us   times the active set")
    for name, x in times.items():
        keep(f"{label}, {name}", seconds=x, ratio=ratios[name])
        print(
            f"{label + ', ' + name:44s} {1e6 * statistics.median(x):11.1f} {1e6 * np.quantile(x, 0.99):13.1f}"
            f"{statistics.median(ratios[name]):15.2f}"
        )
    if hand:
        model, between, solver = 1e6 * np.median(hand.parts, axis=0)
        print(f"by hand: Pinocchio {model:.0f} us, NumPy {between:.0f} us, DAQP {solver:.0f} us")


def main(rounds: int = unless_quick(9, 1)) -> None:
    solvers = installed(PEERS)
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
    active_set = WholeBody(robot, tasks, controller.supports, limits=["effort"], solver="active-set")
    exact = active_set(Q[:STATES], V[:STATES], p)
    before = Kernel(kernel.function.before)
    results = [before(Q[k], V[k], p) for k in range(STATES)]
    programs = [result[:10] for result in results]
    peers = {name: [PEERS[name](solver, program) for program in programs] for name, solver in solvers.items()}
    conditions_of_a_minimum(programs)
    outputs = [*kernel.function.before.outputs]
    for name, calls in peers.items():
        compared = {
            "efforts": commands,
            f"efforts with the tolerance {TIGHT:g}": tight,
            "efforts of the active set": exact,
        }
        efforts: dict[str, list[float]] = {words: [] for words in compared}
        worst = 0.0
        for k, call in enumerate(calls):
            x = call()
            a, tau = (
                Y[:, :-1] @ x + Y[:, -1]
                for Y in (results[k][outputs.index(word)] for word in ("follow", "efforts"))
            )
            for words, u in compared.items():
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
    talos(rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
