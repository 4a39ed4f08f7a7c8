"""Optimal control beside crocoddyl 3.2.1, one thread, float64, on the same URDF files and the same costs.

    python -m venv crocoddyl && crocoddyl/bin/pip install crocoddyl==3.2.1 pin==4.0.0
    python benchmarks/optimal_control.py crocoddyl/bin/python [part ...]

crocoddyl needs an environment of its own: with pin 4.1 it crashes. It runs there as a process that is asked
to measure in turn with ours, a round for each; the tables show medians over the rounds, in processor time.

knots   per knot of 100: next state, its derivatives, cost of the tool's pose, of the state and of the inputs,
        with gradient and Gauss-Newton Hessian; by semi-implicit Euler steps (as crocoddyl's are) and RK4
solves  crocoddyl's example double_pendulum_fwddyn.py (its cost, written in Python, as it is), and its
        arm_manipulation_fwddyn.py for the Panda, from the same states, each to its own tolerance; per
        iteration and in all, with both costs
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from peer_process import Peer, serve

QUICK = bool(os.environ.get("BENCHMARK_QUICK"))  # as in machine.py, which crocoddyl's environment lacks
KNOTS, DT, ROUNDS = (10, 1e-2, 2) if QUICK else (100, 1e-2, 9)
TOOLS = {"ur5": "ee_link", "panda": "panda_hand_tcp", "anymal": "LF_FOOT", "talos": "gripper_left_base_link"}
PARTS = ["ur5", "solves"] if QUICK else [*TOOLS, "solves"]
METHODS = {"euler": "semi-implicit-euler", "rk4": "rkmk4"}
PANDA_START = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785, 0.02, 0.02]
GOAL = np.array([[1.0, 0, 0, 0.4], [0, -1, 0, 0.2], [0, 0, -1, 0.5], [0, 0, 0, 1]])
PENDULUM = "double_pendulum_description/urdf/double_pendulum.urdf"


# -- crocoddyl, in its environment -----------------------------------------------------------------------


class Theirs:
    """What is measured of crocoddyl, by name: seconds, and what was found."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}

    def arm(self, file: str, floating: bool, tool: str, method: str, weights: tuple[float, ...]) -> Any:
        import crocoddyl
        import pinocchio as pin

        model = pin.buildModelFromUrdf(file, *([pin.JointModelFreeFlyer()] if floating else []))
        state = crocoddyl.StateMultibody(model)
        actuation = (crocoddyl.ActuationModelFloatingBase if floating else crocoddyl.ActuationModelFull)(
            state
        )
        start = np.array(PANDA_START) if tool == TOOLS["panda"] else pin.neutral(model)
        x0 = np.concatenate([start, np.zeros(model.nv)])
        goal = crocoddyl.ResidualModelFramePlacement(
            state, model.getFrameId(tool), pin.SE3(GOAL), actuation.nu
        )
        residuals = {
            "goal": goal,
            "state": crocoddyl.ResidualModelState(state, x0, actuation.nu),
            "inputs": crocoddyl.ResidualModelControl(state, actuation.nu),
        }
        running, last = (crocoddyl.CostModelSum(state, actuation.nu) for _ in range(2))
        for (name, residual), weight in zip(residuals.items(), weights):
            running.addCost(name, crocoddyl.CostModelResidual(state, residual), weight)
        last.addCost("goal", crocoddyl.CostModelResidual(state, goal), weights[3])
        models = [
            crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, c) for c in (running, last)
        ]
        if method == "euler":
            knot = crocoddyl.IntegratedActionModelEuler(models[0], DT)
        else:
            knot = crocoddyl.IntegratedActionModelRK(models[0], crocoddyl.RKType.four, DT)
        end = crocoddyl.IntegratedActionModelEuler(models[1], 0.0)
        return crocoddyl.ShootingProblem(x0, [knot] * KNOTS, end)

    def pendulum(self, file: str) -> Any:
        import crocoddyl
        import pinocchio as pin
        from crocoddyl.utils.pendulum import ActuationModelDoublePendulum, CostModelDoublePendulum

        state = crocoddyl.StateMultibody(pin.buildModelFromUrdf(file))
        actuation = ActuationModelDoublePendulum(state, actLink=1)
        running, last = (crocoddyl.CostModelSum(state, 1) for _ in range(2))
        weighted = crocoddyl.ActivationModelWeightedQuad(np.array([1.0] * 4 + [0.1] * 2))
        up = CostModelDoublePendulum(state, weighted, 1)
        inputs = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, 1))
        running.addCost("inputs", inputs, 1e-4 / DT)
        running.addCost("up", up, 1e-5 / DT)
        last.addCost("up", up, 100.0)
        knot, end = (
            crocoddyl.IntegratedActionModelEuler(
                crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, c), DT
            )
            for c in (running, last)
        )
        return crocoddyl.ShootingProblem(np.array([3.14, 0.0, 0.0, 0.0]), [knot] * KNOTS, end)

    def prepare(self, name: str, kind: str, *arguments: Any) -> None:
        self.made[name] = getattr(self, kind)(*arguments)
        self.made[name].nthreads = 1  # it takes all cores, else, and they wait for work in processor time

    def knots(self, name: str, repeat: int) -> dict[str, Any]:
        import crocoddyl

        problem = self.made[name]
        solver = crocoddyl.SolverFDDP(problem)
        solver.setCandidate(
            [problem.x0] * (KNOTS + 1), [np.zeros(problem.runningModels[0].nu)] * KNOTS, False
        )
        xs, us = solver.xs, solver.us  # in C++: lists would be converted in each call
        start = time.process_time()
        for _ in range(repeat):
            problem.calc(xs, us)
            problem.calcDiff(xs, us)
        return {"seconds": (time.process_time() - start) / repeat / KNOTS}

    def solve(self, name: str, us: Any = None, xs: Any = None) -> dict[str, Any]:
        """From given inputs and states, or from none and the first state."""
        import crocoddyl

        problem = self.made[name]
        solver = crocoddyl.SolverFDDP(problem)
        xs = [problem.x0] * (KNOTS + 1) if xs is None else list(np.array(xs))
        us = [np.zeros(problem.runningModels[0].nu)] * KNOTS if us is None else list(np.array(us))
        start = time.process_time()
        done = solver.solve(xs, us, 1000)
        seconds = time.process_time() - start
        found = {"iterations": solver.iter, "cost": solver.cost, "converged": bool(done)}
        return {"seconds": seconds, **found}


# -- ours ------------------------------------------------------------------------------------------------


def our_arm(file: str, floating: bool, tool: str, method: str, weights: tuple[float, ...]) -> tuple[Any, Any]:
    """The problem, and where it starts."""
    import liebody as lb
    from liebody.groups import SE3

    robot = lb.load(file, floating=floating, mimic=False)
    start = np.array(PANDA_START) if tool == TOOLS["panda"] else robot.neutral()
    root, back = np.sqrt(weights), SE3.inverse(GOAL)

    def to_goal(q: Any) -> Any:
        return SE3.log(back @ robot.pose(q, frame=tool))

    def stage(q: Any, v: Any, u: Any) -> Any:
        here = [root[1] * robot.difference(start, q), root[1] * v, root[2] * u]
        return np.concatenate([root[0] * to_goal(q), *here])

    def terminal(q: Any, v: Any) -> Any:
        return root[3] * to_goal(q)

    options: dict[str, Any] = {"joints": "ideal", "method": METHODS[method], "dt": DT}
    return lb.optimal_control(robot, stage=stage, terminal=terminal, **options), start


def our_pendulum(file: str) -> tuple[Any, Any]:
    import liebody as lb
    from liebody.scalars import cos, sin

    robot = lb.load(file)
    weights = np.sqrt([1.0] * 4 + [0.1] * 2)

    def up(q: Any, v: Any) -> Any:
        return weights * np.concatenate([sin(q), 1 - cos(q), v])

    def stage(q: Any, v: Any, u: Any) -> Any:
        return np.concatenate([np.sqrt(1e-4 / DT) * u, np.sqrt(1e-5 / DT) * up(q, v)])

    def terminal(q: Any, v: Any) -> Any:
        return 10 * up(q, v)

    options: dict[str, Any] = {"joints": "ideal", "method": METHODS["euler"], "dt": DT}
    made = lb.optimal_control(robot, stage=stage, terminal=terminal, actuated=np.eye(2)[:, :1], **options)
    return made, np.array([3.14, 0.0])


def our_knots(problem: Any, start: Any, repeat: int) -> float:
    workspace = problem._workspace(KNOTS)
    w = workspace.w
    w.x[:] = np.concatenate([start, np.zeros(problem.nv)])
    w.u[:] = 0
    workspace.descent.linearize()
    begun = time.process_time()
    for _ in range(repeat):
        workspace.descent.linearize()
    return (time.process_time() - begun) / repeat / KNOTS


def our_solve(problem: Any, start: Any) -> dict[str, Any]:
    begun = time.process_time()
    plan = problem.solve(start, knots=KNOTS, iterations=1000, q=start)
    seconds = time.process_time() - begun
    found = {"iterations": plan.iterations, "cost": plan.cost, "converged": plan.converged}
    return {"seconds": seconds, **found}


# -- tables ----------------------------------------------------------------------------------------------


def knots(peer: Peer, names: list[str]) -> None:
    from robots import path

    print(f"\n{'us per knot':24s} {'liebody':>10s} {'crocoddyl':>10s} {'ratio':>8s}   [quartiles]")
    for name in names:
        for method in METHODS:
            file, floating = path(name)
            arguments = (str(file), floating, TOOLS[name], method, (1.0, 0.1, 0.1, 1e3))
            problem, start = our_arm(*arguments)
            peer("prepare", name, "arm", *arguments)
            problem.solve(start, knots=KNOTS, iterations=0, q=start)
            rounds = [
                (our_knots(problem, start, 20), peer("knots", name, 10)["seconds"]) for _ in range(ROUNDS)
            ]
            report(f"{name}, {method}", rounds, 1e6)


def solves(peer: Peer) -> None:
    from robots import path

    print(f"\n{'ms':24s} {'liebody':>10s} {'crocoddyl':>10s} {'ratio':>8s}   [quartiles]")
    file, floating = path("panda")
    arm = (str(file), floating, TOOLS["panda"], "euler", (1.0, 0.1, 0.1, 1e3))
    pendulum = str(file.parents[2] / PENDULUM)
    for name, kind, arguments in (
        ("double pendulum", "pendulum", (pendulum,)),
        ("panda reaches", "arm", arm),
    ):
        problem, start = our_pendulum(*arguments) if kind == "pendulum" else our_arm(*arguments)
        peer("prepare", name, kind, *arguments)
        our_solve(problem, start)
        rounds = [(our_solve(problem, start), peer("solve", name)) for _ in range(ROUNDS)]
        report(name, [(a["seconds"], b["seconds"]) for a, b in rounds], 1e3)
        report(
            f"  {name}, an iteration",
            [(a["seconds"] / a["iterations"], b["seconds"] / b["iterations"]) for a, b in rounds],
            1e3,
        )
        for label, found in zip(("liebody", "crocoddyl"), rounds[-1], strict=True):
            print(f"  {label}: {found}")


def report(label: str, rounds: list[tuple[float, float]], scale: float) -> None:
    ours, theirs = (scale * statistics.median(x) for x in zip(*rounds, strict=True))
    from machine import keep

    keep(label.strip(), seconds=[a for a, _ in rounds], ratio=[b / a for a, b in rounds])
    keep(f"{label.strip()}, crocoddyl", seconds=[b for _, b in rounds])
    low, middle, high = statistics.quantiles([b / a for a, b in rounds], n=4)
    print(f"{label:24s} {ours:10.3f} {theirs:10.3f} {middle:8.1f}   [{low:.1f}, {high:.1f}]", flush=True)


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        serve(Theirs())
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", nargs="?", help="of the environment with crocoddyl")
    parser.add_argument("parts", nargs="*", default=PARTS, help="robots, or solves")
    chosen = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    from machine import describe

    command = [chosen.python, "-c", "import crocoddyl, pinocchio"]
    if chosen.python is None or not shutil.which(chosen.python) or subprocess.run(command).returncode:
        parser.error(
            f"crocoddyl needs an environment of its own, and {chosen.python or 'none'} was given:\n"
            "    python -m venv crocoddyl && crocoddyl/bin/pip install crocoddyl==3.2.1 pin==4.0.0\n"
            "    python benchmarks/optimal_control.py crocoddyl/bin/python"
        )
    print(describe("numpy"))
    peer = Peer(chosen.python, __file__)
    names = [name for name in chosen.parts if name in TOOLS]
    if names:
        knots(peer, names)
    if "solves" in chosen.parts:
        solves(peer)


if __name__ == "__main__":
    main()
