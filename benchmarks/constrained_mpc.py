"""A first plan with limits: this library, CSQP of mim-solvers, and fatrop, from a cold start.

    python -m venv peers && peers/bin/pip install crocoddyl==3.2.1 pin==4.0.0 mim-solvers==0.3.0
    python benchmarks/constrained_mpc.py peers/bin/python

The problems are those of `mpc.py`: UR5 and Panda reach for a goal behind a plane, over 50 knots of 20 ms,
with limits of torques, speeds and of the tool's position. All start from the same states (at rest) and inputs
(that hold the weight), and minimise the same cost with the same semi-implicit Euler steps. A plan is accurate
if it violates no constraint by more than 1e-4 and its cost is within 1e-4 of the least cost that any solver
finds. The script tries several settings of each solver and takes the fastest that is accurate. If none is, it
says so and takes the fastest whose cost is within 2 %. A simulation in NumPy judges cost and violation.

CSQP runs in a process of its own, which measures in turn with this one. Medians of processor time. The
environment variable BENCHMARK_PEERS may name that Python, too.

csqp     crocoddyl's models of Pinocchio; constraints by residuals. Its quadratic programs are solved by ADMM,
         whose dual residual falls slowly here: settings are tolerance, ADMM iterations, and `reset_rho`
fatrop   CasADi's interface, on this library's dynamics as CasADi expressions; its problem is built before
"""

from __future__ import annotations

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

ROUNDS = 2 if os.environ.get("BENCHMARK_QUICK") else 9
SETTINGS: dict[str, Any] = {
    "liebody": [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8],
    "csqp": [(x, n, reset) for x in (1e-2, 1e-3, 1e-4) for n in (1000, 5000) for reset in (False, True)],
    "fatrop": [1e-2, 1e-3, 1e-4, 1e-6, 1e-8],
}
VIOLATION = 1e-4
COST = 1e-4  # relative
LOOSE = 2e-2  # for a solver of which no setting reaches COST


# -- CSQP, in its environment ----------------------------------------------------------------------------


class Csqp:
    """What the process of CSQP answers."""

    def prepare(self, arm: dict[str, Any], file: str, knots: int, dt: float, speed: float) -> None:
        import crocoddyl
        import pinocchio as pin

        model = pin.buildModelFromUrdf(file)
        locked = {model.getJointId(name): at for name, at in arm.get("locked", {}).items()}
        if locked:
            reference = pin.neutral(model)
            for joint, at in locked.items():
                reference[model.joints[joint].idx_q] = at
            model = pin.buildReducedModel(model, list(locked), reference)
        state = crocoddyl.StateMultibody(model)
        actuation = crocoddyl.ActuationModelFull(state)
        nu = actuation.nu
        nv = model.nv
        tool = model.getFrameId(arm["tool"])
        start = np.concatenate([arm["start"], np.zeros(nv)])
        position = crocoddyl.ResidualModelFrameTranslation(state, tool, np.array(arm["goal"]), nu)
        at_origin = crocoddyl.ResidualModelFrameTranslation(state, tool, np.zeros(3), nu)
        motion = crocoddyl.ResidualModelState(state, start, nu)
        posture, rates = np.repeat(np.eye(2), nv, axis=1)

        def weighted(residual: Any, weights: Any) -> Any:
            activation = crocoddyl.ActivationModelWeightedQuad(np.asarray(weights, float))
            return crocoddyl.CostModelResidual(state, activation, residual)

        running, last = (crocoddyl.CostModelSum(state, nu) for _ in range(2))
        running.addCost("position", crocoddyl.CostModelResidual(state, position), 3.0**2)
        running.addCost("motion", weighted(motion, 0.1**2 * posture + 0.3**2 * rates), 1.0)
        grav = crocoddyl.ResidualModelControlGrav(state, nu)
        running.addCost("inputs", crocoddyl.CostModelResidual(state, grav), 0.03**2)
        last.addCost("position", crocoddyl.CostModelResidual(state, position), 10.0**2)
        last.addCost("rates", weighted(motion, rates), 1.0)
        far = np.inf
        bounds: dict[str, tuple[Any, Any, Any]] = {
            "plane": (at_origin, [-far, -far, -far], [arm["wall"], far, far]),
            "speed": (
                crocoddyl.ResidualModelState(state, np.zeros(2 * nv), nu),
                [-far] * nv + [-speed] * nv,
                [far] * nv + [speed] * nv,
            ),
            "torque": (
                crocoddyl.ResidualModelControl(state, nu),
                [-x for x in arm["limits"]],
                arm["limits"],
            ),
        }
        models = []
        for costs, names in ((running, tuple(bounds)), (last, ("plane", "speed"))):
            manager = crocoddyl.ConstraintModelManager(state, nu)
            for name in names:
                residual, low, high = bounds[name]
                made = crocoddyl.ConstraintModelResidual(state, residual, np.array(low), np.array(high))
                manager.addConstraint(name, made)
            models.append(crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs, manager))
        knot = crocoddyl.IntegratedActionModelEuler(models[0], dt)
        end = crocoddyl.IntegratedActionModelEuler(models[1], 0.0)
        self.problem = crocoddyl.ShootingProblem(start, [knot] * knots, end)
        self.problem.nthreads = 1
        data = model.createData()
        self.hold = pin.computeGeneralizedGravity(model, data, np.array(arm["start"]))

    def solve(self, tolerance: float, of_qp: int, reset: bool) -> dict[str, Any]:
        """From rest and the weight's torques, with at most 30 quadratic programs of so many iterations."""
        import crocoddyl  # noqa: F401  # loads the libraries of mim_solvers
        import mim_solvers

        solver = mim_solvers.SolverCSQP(self.problem)
        solver.termination_tolerance = tolerance
        solver.eps_abs = min(1e-4, tolerance)
        solver.eps_rel = 0.0
        solver.max_qp_iters = of_qp
        solver.reset_rho = reset
        knots = len(self.problem.runningModels)
        begun = time.process_time()
        done = solver.solve([self.problem.x0] * (knots + 1), [self.hold] * knots, 30, False)
        seconds = time.process_time() - begun
        found = {"iterations": solver.iter, "converged": bool(done)}
        return {"seconds": seconds, "us": np.array(solver.us.tolist()).tolist(), **found}


# -- the problem in NumPy, which judges all plans --------------------------------------------------------


class Judge:
    """Cost and largest violation of the motion that inputs make, by formulas of its own in NumPy."""

    def __init__(self, robot: Any, arm: dict[str, Any], dt: float, speed: float) -> None:
        self.robot = robot
        self.arm = arm
        self.dt = dt
        self.speed = speed

    def __call__(self, us: Any) -> tuple[float, float]:
        robot = self.robot
        arm = self.arm
        q = np.array(arm["start"], float)
        v = np.zeros(robot.nv)
        cost = 0.0
        beyond = [0.0]
        for u in np.asarray(us):
            tip = self.limits(q, v, beyond)
            residual = np.concatenate(
                [
                    3 * (tip - arm["goal"]),
                    0.1 * (q - arm["start"]),
                    0.3 * v,
                    0.03 * (u - robot.gravity(q)),
                ]
            )
            cost += 0.5 * self.dt * residual @ residual
            beyond.append(float(np.max(np.abs(u) - arm["limits"])))
            v = v + self.dt * robot.forward_dynamics(q, v, u)
            q = q + self.dt * v
        tip = self.limits(q, v, beyond)
        residual = np.concatenate([10 * (tip - arm["goal"]), v])
        return float(cost + 0.5 * residual @ residual), max(beyond)

    def limits(self, q: Any, v: Any, beyond: list[float]) -> Any:
        """The tool's position; adds how far it is beyond the plane, and the speeds beyond theirs."""
        tip = self.robot.pose(q, frame=self.arm["tool"])[:3, 3]
        beyond.append(float(tip[0] - self.arm["wall"]))
        beyond.append(float(np.abs(v).max() - self.speed))
        return tip


class Fatrop:
    """CasADi's interface to fatrop, which asks for states, inputs and constraints stage by stage."""

    def __init__(self, robot: Any, arm: dict[str, Any], knots: int, dt: float, speed: float) -> None:
        import casadi as ca

        n = robot.nv
        dynamics = robot.to_casadi("forward_dynamics", compiled=False)
        pose = robot.to_casadi("pose", frame=arm["tool"], compiled=False)
        gravity = robot.to_casadi("gravity", compiled=False)
        x = ca.SX.sym("x", 2 * n)
        u = ca.SX.sym("u", n)
        q, v = x[:n], x[n:]
        tip = pose(q)[:3, 3]
        goal = ca.DM(arm["goal"])
        away = q - ca.DM(arm["start"])
        effort = u - gravity(q)
        stage = 9 * ca.sumsqr(tip - goal) + 0.01 * ca.sumsqr(away) + 0.09 * ca.sumsqr(v)
        stage = 0.5 * dt * (stage + 0.0009 * ca.sumsqr(effort))
        last = 0.5 * (100 * ca.sumsqr(tip - goal) + ca.sumsqr(v))
        faster = v + dt * dynamics(q, v, u)
        step = ca.Function("step", [x, u], [ca.vertcat(q + dt * faster, faster)])
        cost = ca.Function("cost", [x, u], [stage])
        end = ca.Function("end", [x], [last])
        plane = ca.Function("plane", [x], [tip[0]])
        X = [ca.MX.sym(f"x{k}", 2 * n) for k in range(knots + 1)]
        U = [ca.MX.sym(f"u{k}", n) for k in range(knots)]
        far = np.inf
        low_x = [-far] * n + [-speed] * n
        unknowns: list[Any] = []
        lower: list[Any] = []
        upper: list[Any] = []
        rows: list[Any] = []
        least: list[float] = []
        most: list[float] = []
        equal: list[bool] = []
        fixed = np.concatenate([arm["start"], np.zeros(n)])
        for k in range(knots + 1):
            unknowns.append(X[k])
            lower += list(fixed) if k == 0 else low_x
            upper += list(fixed) if k == 0 else [-b for b in low_x]
            if k < knots:
                unknowns.append(U[k])
                lower += [-b for b in arm["limits"]]
                upper += list(arm["limits"])
                rows.append(X[k + 1] - step(X[k], U[k]))
                least += [0.0] * (2 * n)
                most += [0.0] * (2 * n)
                equal += [True] * (2 * n)
            if k:
                rows.append(plane(X[k]))
                least.append(-far)
                most.append(arm["wall"])
                equal.append(False)
        total = sum((cost(X[k], U[k]) for k in range(knots)), start=end(X[knots]))
        hold = robot.gravity(np.array(arm["start"]))
        guess = [fixed if x.shape[0] == 2 * n else hold for x in unknowns]
        self.problem = {"x": ca.vertcat(*unknowns), "f": total, "g": ca.vertcat(*rows)}
        self.given = {
            "x0": np.concatenate(guess),
            "lbx": lower,
            "ubx": upper,
            "lbg": least,
            "ubg": most,
        }
        self.equal = equal
        self.knots = knots
        self.n = n
        self.solvers: dict[float, Any] = {}

    def solve(self, tolerance: float) -> dict[str, Any]:
        import casadi as ca

        if tolerance not in self.solvers:
            options = {
                "structure_detection": "auto",
                "equality": self.equal,
                "expand": True,
                "print_time": False,
                "fatrop": {"print_level": 0, "tol": tolerance, "mu_init": 0.1},
            }
            self.solvers[tolerance] = ca.nlpsol("solver", "fatrop", self.problem, options)
        solver = self.solvers[tolerance]
        begun = time.process_time()
        found = solver(**self.given)
        seconds = time.process_time() - begun
        size = 3 * self.n
        us = np.array(found["x"]).ravel()[: size * self.knots].reshape(self.knots, size)[:, 2 * self.n :]
        done = solver.stats()
        return {
            "seconds": seconds,
            "us": us.tolist(),
            "iterations": done["iter_count"],
            "converged": bool(done["success"]),
        }


# -- tables ----------------------------------------------------------------------------------------------


def compare(name: str, python: str) -> None:
    """One arm: the loosest tolerance of each solver that is accurate enough; then rounds in turn."""
    from machine import keep
    from mpc import DT, KNOTS, SPEED, problem_of
    from robots import path

    robot, problem, arm = problem_of(name)
    judge = Judge(robot, arm, DT, SPEED)
    hold = robot.gravity(np.array(arm["start"]))

    def ours(tolerance: float) -> dict[str, Any]:
        begun = time.process_time()
        plan = problem.solve(arm["start"], knots=KNOTS, u=hold, tolerance=tolerance, iterations=500)
        seconds = time.process_time() - begun
        told = {"iterations": plan.iterations, "converged": plan.converged}
        return {"seconds": seconds, "us": plan.u, **told}

    peer = Peer(python, __file__)
    peer("prepare", arm, str(path(name)[0]), KNOTS, DT, SPEED)
    solvers: dict[str, Any] = {
        "liebody": ours,
        "csqp": lambda setting: peer("solve", *setting),
        "fatrop": Fatrop(robot, arm, KNOTS, DT, SPEED).solve,
    }
    # (setting, seconds, cost, violation); the second call of ours finds everything compiled
    tried: dict[str, list[tuple[Any, float, float, float]]] = {}
    ours(SETTINGS["liebody"][-1])
    for label, solve in solvers.items():
        found = [(x, solve(x)) for x in SETTINGS[label]]
        tried[label] = [(x, y["seconds"], *judge(y["us"])) for x, y in found]
    allowed = [row for rows in tried.values() for row in rows if row[3] <= VIOLATION]
    best = min(row[2] for row in allowed)
    chosen: dict[str, Any] = {}
    for label, rows in tried.items():
        for limit in (COST, LOOSE):
            enough = [x for x in rows if x[3] <= VIOLATION and x[2] <= best * (1 + limit)]
            if enough:
                chosen[label] = min(enough, key=lambda row: row[1])[0]
                break
            print(f"  {name} {label}: no setting gives the cost to {limit:g} without a violation", flush=True)
    rounds = [{label: solvers[label](chosen[label]) for label in chosen} for _ in range(ROUNDS)]
    for label in chosen:
        last = rounds[-1][label]
        cost, beyond = judge(last["us"])
        middle = 1e3 * statistics.median(x[label]["seconds"] for x in rounds)
        line = f"  {name} {label:8s} {middle:8.1f} ms  {last['iterations']:4d} iterations"
        line += f"  cost {cost:.6f} ({100 * (cost / best - 1):+.3f} %)  violation {beyond:.1e}"
        line += f"  setting {chosen[label]}"
        seconds = [x[label]["seconds"] for x in rounds]
        ratios: list[float] = []
        if label != "liebody":
            ratios = [x[label]["seconds"] / x["liebody"]["seconds"] for x in rounds]
            low, half, high = statistics.quantiles(ratios, n=4)
            line += f"  ratio {half:.1f} [{low:.1f}, {high:.1f}]"
        keep(f"{name}, {label}", seconds=seconds, **({"ratio": ratios} if ratios else {}))
        print(line, flush=True)


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        serve(Csqp())
        return
    sys.path.insert(0, str(Path(__file__).parent))
    from machine import describe, unless_quick

    python = sys.argv[1] if len(sys.argv) == 2 else os.environ.get("BENCHMARK_PEERS", "")
    needed = "import crocoddyl, mim_solvers"
    if not shutil.which(python) or subprocess.run([python, "-c", needed], check=False).returncode:
        print(
            f"CSQP needs an environment of its own, and {python or 'none'} was given:\n{__doc__}",
            file=sys.stderr,
        )
        raise SystemExit(2)
    print(describe("numpy", "casadi"))
    for name in unless_quick(["ur5", "panda"], ["ur5"]):
        compare(name, python)


if __name__ == "__main__":
    main()
