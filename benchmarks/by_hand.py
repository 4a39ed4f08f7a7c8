"""A whole-body controller as a careful user writes it: Pinocchio, NumPy and DAQP; for whole_body.py.

Accelerations of the base and of the legs follow from the passive rows of the equations of motion and the
rows of the soles, one system of 18 equations. Left are accelerations of the other joints, and forces. The
quadratic program has the tasks, weights, limits and pyramids of a `liebody.control.WholeBody`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import liebody as lb
from liebody.control import MotionTask, Support, WholeBody
from liebody.io import pinocchio_layout

Array = np.ndarray
State = tuple[Array, Array, dict[str, Any]]  # q, v, parameters
NONE = 1e30  # a bound that is none
SOLES = "left_sole_link", "right_sole_link"
TRUNK, HAND = "torso_2_link", "arm_right_7_link"
LOCKED = "head_1_joint", "head_2_joint", "gripper_left_joint", "gripper_right_joint"
CORNERS = [[x, y, 0.0] for x in (-0.09, 0.11) for y in (-0.05, 0.05)]  # m
BENT = {3: -0.4, 4: 0.8, 5: -0.4}  # hip, knee and ankle, rad
ARMS = {"left": {1: 0.2, 2: 0.3, 4: -0.6}, "right": {1: -0.2, 2: -0.3, 4: -0.6}}  # shoulder and elbow, rad
AWAY = {"center_of_mass": np.array([0, 0.05, -0.05]), HAND: np.array([0.1, 0, 0.1])}  # half of the way, m
DT = 1e-3


class Sway:
    """Talos on two soles: its centre of mass and a hand go to and fro once a second."""

    def __init__(self, file: str) -> None:
        robot = lb.load(file, floating=True).locked(dict.fromkeys(LOCKED, 0.0))
        self.robot = robot = robot.with_joints(("limits", "efforts"))
        angles = {f"leg_{side}_{k}_joint": x for side in ARMS for k, x in BENT.items()}
        angles |= {f"arm_{side}_{k}_joint": x for side, arm in ARMS.items() for k, x in arm.items()}
        self.q = q = robot.neutral()
        for body in robot.tree.bodies:
            if body.joint.name in angles:
                q[body.coordinates] = angles[body.joint.name]
        q[6] = -robot.pose(q, SOLES[0])[2, 3]
        center = robot.center_of_mass(q)
        center[:2] = np.mean([robot.pose(q, sole)[:2, 3] for sole in SOLES], axis=0)
        self.rest = {"center_of_mass": center, HAND: robot.pose(q, HAND)[:3, 3]}
        self.constant = {"posture.target": q[7:], f"{TRUNK}.target": robot.pose(q, TRUNK)[:3, :3]}

    def controller(self, solver: str) -> WholeBody:
        robot = self.robot
        tasks = [
            MotionTask.center_of_mass(robot, kp=100.0, weight=10.0),
            MotionTask.orientation(robot, TRUNK, kp=100.0, weight=3.0),
            MotionTask.position(robot, HAND, kp=100.0, weight=1.0),
            MotionTask.posture(robot, kp=30.0, weight=1e-3),
        ]
        return WholeBody(
            robot, tasks, [Support(sole, CORNERS, friction=0.56) for sole in SOLES], solver=solver
        )

    def parameters(self, t: float) -> dict[str, Any]:
        w = 2 * np.pi
        way = 1 - np.cos(w * t), w * np.sin(w * t), w * w * np.cos(w * t)
        values = dict(self.constant)
        for name, away in AWAY.items():
            for word, x in zip(("target", "rate", "acceleration"), way, strict=True):
                values[f"{name}.{word}"] = x * away + (self.rest[name] if word == "target" else 0.0)
        return values

    def states(self, wb: WholeBody, count: int) -> list[State]:
        """Consecutive states of a plant that has the accelerations of the commands."""
        q, v, u = self.q, np.zeros(self.robot.nv), None
        states = []
        for k in range(count):
            values = self.parameters(k * DT)
            states.append((q, v, values))
            u = wb(q, v, values, start=u)
            q, v = self.robot.integrate(q, DT * (v + DT / 2 * u.a)), v + DT * u.a
        return states


class ByHand:
    """Efforts of driven joints, in Pinocchio's order, for the tasks of `Sway`.

    parts  processor time of each call: in Pinocchio, in NumPy, and in DAQP
    """

    def __init__(self, wb: WholeBody, file: str) -> None:
        import daqp
        import pinocchio as pin

        self.pin, self.daqp = pin, daqp
        whole = pin.buildModelFromUrdf(file, pin.JointModelFreeFlyer())
        joints = [whole.getJointId(name) for name in LOCKED]
        self.model = model = pin.buildReducedModel(whole, joints, pin.neutral(whole))
        self.data = model.createData()
        self.layout = pinocchio_layout(wb.robot.tree, model)
        self.soles = [model.getFrameId(support.frame) for support in wb.supports]
        self.trunk, self.hand = model.getFrameId(TRUNK), model.getFrameId(HAND)
        # of velocities of points in the axes of their sole, by its (linear, angular) velocity
        self.of_points = [
            np.vstack([np.hstack([np.eye(3), -pin.skew(r)]) for r in support.points])
            for support in wb.supports
        ]
        nv = model.nv
        # our velocities in Pinocchio's order
        rest = wb.robot.neutral()
        self.order = np.array([np.abs(self.layout.to_v(rest, unit)).argmax() for unit in np.eye(nv)[6:]]) - 6
        driven = wb.driven - 6
        self.p: dict[str, Any] = {}
        for name, place in wb.layout.places.items():
            self.p[name] = wb.pack()[place]
        for name in ("effort_limit", "velocity_limit", "low", "high", "braking"):
            self.p[name] = self.in_order(self.p[name][np.argsort(driven)])
        self.gains = {task.task.name: task.task.gains for task in wb.tasks}
        self.horizon = wb.horizon
        legs = [j for j in range(6, nv) if model.names[self.joint_of(j)].startswith("leg")]
        self.E = np.array([*range(6), *legs])
        self.K = np.setdiff1d(np.arange(nv), self.E)
        count = sum(len(support.points) for support in wb.supports)
        self.n = len(self.K) + 3 * count
        # unknowns: accelerations, normal forces, tangential forces
        k = len(self.K)
        self.normal = k + np.arange(count)
        self.tangential = k + count + np.arange(2 * count).reshape(count, 2)
        pyramids = np.zeros((4 * count, self.n))
        for i in range(count):
            rows = slice(4 * i, 4 * i + 4)
            cone = wb.supports[0].cone()
            pyramids[rows, self.tangential[i]] = cone[:, :2]
            pyramids[rows, self.normal[i]] = cone[:, 2]
        self.pyramids = pyramids
        self.mass = float(wb.robot.mass)
        self.friction = float(self.p[f"{wb.supports[0].name}.friction"][0])
        self.damping = float(self.p[f"{wb.supports[0].name}.damping"][0])
        self.cost = np.full(self.n, float(self.p["force_weight"][0]))
        self.cost[:k] = 0
        self.sense = np.zeros(k + count + len(legs) + (nv - 6) + len(pyramids), np.int32)
        self.multipliers: Array | None = None
        self.steps = self.status = 0
        self.parts: list[tuple[float, float, float]] = []

    def joint_of(self, velocity: int) -> int:
        return next(i for i in range(1, self.model.njoints) if self.model.joints[i].idx_v == velocity)

    def in_order(self, x: Array) -> Array:
        """Values of joints in our order, in Pinocchio's."""
        y = np.empty_like(x)
        y[self.order] = x
        return y

    def state(self, q: Array, v: Array, values: Mapping[str, Any]) -> tuple[Array, Array, dict[str, Any]]:
        """Arguments of a call, from ours."""
        given = {name.replace(".", " "): np.asarray(x, float) for name, x in values.items()}
        given["posture target"] = self.in_order(given["posture target"])
        return self.layout.to_q(q), self.layout.to_v(q, v), given

    def can(self, q: Array, v: Array, values: Mapping[str, Any]) -> bool:
        """Whether the program of one of our states has a solution."""
        self(*self.state(q, v, values))
        return self.status == 1

    def __call__(self, q: Array, v: Array, at: Mapping[str, Array], warm: bool = False) -> Array:
        """Efforts (nv - 6,); warm: from the active rows of the call before."""
        begin = time.process_time()
        pin, model, data, nv = self.pin, self.model, self.data, self.model.nv
        pin.computeAllTerms(model, data, q, v)
        zero = np.zeros(nv)
        pin.forwardKinematics(model, data, q, v, zero)
        pin.centerOfMass(model, data, q, v, zero)
        placements = [pin.updateFramePlacement(model, data, i) for i in (*self.soles, self.trunk, self.hand)]
        local, aligned = pin.LOCAL, pin.LOCAL_WORLD_ALIGNED
        holds = [
            (
                pin.getFrameJacobian(model, data, i, local),
                pin.getFrameVelocity(model, data, i, local).vector,
                pin.getFrameAcceleration(model, data, i, local).vector,
            )
            for i in self.soles
        ]
        J_trunk = pin.getFrameJacobian(model, data, self.trunk, local)[3:]
        w_trunk = pin.getFrameVelocity(model, data, self.trunk, local).angular
        a_trunk = pin.getFrameAcceleration(model, data, self.trunk, local).angular
        turned = at[f"{TRUNK} target"].T @ placements[-2].rotation
        y_trunk, by = pin.log3(turned), pin.Jlog3(turned)
        J_hand = pin.getFrameJacobian(model, data, self.hand, aligned)[:3]
        v_hand = pin.getFrameVelocity(model, data, self.hand, aligned).linear
        a_hand = pin.getFrameClassicalAcceleration(model, data, self.hand, aligned).linear
        M, h, J_com = data.M, data.nle, data.Jcom
        after_model = time.process_time()
        E, K, n = self.E, self.K, self.n
        k = len(K)
        # forces of the unknowns on velocities, J' f with f = mass diag(mu, mu, 1) z
        F = np.zeros((nv, n))
        first = 0
        for (J, _, _), T, of_points in zip(holds, placements, self.of_points, strict=False):
            count = len(of_points) // 3
            moved = T.rotation @ (of_points @ J).reshape(count, 3, nv)
            F[:, self.normal[first : first + count]] = self.mass * moved[:, 2].T
            sides = self.tangential[first : first + count].ravel()
            F[:, sides] = self.mass * self.friction * moved[:, :2].reshape(2 * count, nv).T
            first += count
        # accelerations of base and legs by the unknowns
        J = np.vstack([hold[0] for hold in holds])
        left = np.vstack([M[:6, E], J[:, E]])
        right = np.empty((18, n + 1))
        right[:6, :n] = F[:6]
        right[:6, :k] -= M[:6, K]
        right[:6, n] = -h[:6]
        right[6:, k:n] = 0
        right[6:, :k] = -J[:, K]
        right[6:, n] = np.concatenate([-a - self.damping * u for _, u, a in holds])
        Y = np.zeros((nv, n + 1))
        Y[E] = np.linalg.solve(left, right)
        Y[K, np.arange(k)] = 1
        efforts = M[6:] @ Y
        efforts[:, :n] -= F[6:]
        efforts[:, n] += h[6:]
        # tasks
        com, trunk, hand, posture = (self.gains[name] for name in ("center_of_mass", TRUNK, HAND, "posture"))
        rows = np.vstack([J_com, by @ J_trunk, J_hand]) @ Y
        aims = np.concatenate(
            [
                at["center_of_mass acceleration"]
                - com["kd"] * (data.vcom[0] - at["center_of_mass rate"])
                - com["kp"] * (data.com[0] - at["center_of_mass target"])
                - data.acom[0],
                -trunk["kd"] * (by @ w_trunk) - trunk["kp"] * y_trunk - by @ a_trunk,
                at[f"{HAND} acceleration"]
                - hand["kd"] * (v_hand - at[f"{HAND} rate"])
                - hand["kp"] * (placements[-1].translation - at[f"{HAND} target"])
                - a_hand,
            ]
        )
        weights = np.repeat([float(com["weight"]), float(trunk["weight"]), float(hand["weight"])], 3)
        small = float(self.p["acceleration_weight"][0])
        firm = float(posture["weight"])
        aim = -posture["kd"] * v[6:] - posture["kp"] * (q[7:] - at["posture target"])
        joints = Y[6:]
        weighted = rows[:, :n].T * weights
        H = weighted @ rows[:, :n] + (firm + small) * joints[:, :n].T @ joints[:, :n]
        H[np.arange(n), np.arange(n)] += self.cost
        g = weighted @ (rows[:, n] - aims)
        g += joints[:, :n].T @ ((firm + small) * joints[:, n] - firm * aim)
        # limits
        low, high = self._limits(q[7:], v[6:])
        legs = E[6:]
        A = np.vstack([Y[legs, :n], efforts[:, :n], self.pyramids])
        points = len(self.normal)
        most = self.p["effort_limit"]
        bounds = (
            np.concatenate(
                [high[K - 6], np.full(points, NONE), high[legs - 6] - Y[legs, n], most - efforts[:, n]]
                + [np.zeros(len(self.pyramids))]
            ),
            np.concatenate(
                [low[K - 6], np.zeros(points), low[legs - 6] - Y[legs, n], -most - efforts[:, n]]
                + [np.full(len(self.pyramids), -NONE)]
            ),
        )
        before_solver = time.process_time()
        dual = self.multipliers if warm else None
        x, _, self.status, about = self.daqp.solve(H, g, A, *bounds, self.sense, dual_start=dual)
        after_solver = time.process_time()
        self.multipliers = about["lam"]
        self.steps = about["iterations"]
        tau: Array = efforts[:, :n] @ x + efforts[:, n]
        end = time.process_time()
        numpy_time = before_solver - after_model + end - after_solver
        self.parts.append((after_model - begin, numpy_time, after_solver - before_solver))
        return tau

    def _limits(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Accelerations between which velocities and positions are kept, as `WholeBody` foresees them."""
        h, p = self.horizon, self.p
        d = p["braking"]
        ends = []
        for left, moving in ((p["high"] - q, v), (q - p["low"], -v)):
            rest = left - h * moving / 2
            w = d * (np.sqrt(h * h / 4 + 2 * np.maximum(rest, 0) / d) - h / 2)
            ends.append(np.minimum(p["velocity_limit"], w + 2 * np.minimum(rest, 0) / h))
        return (-ends[1] - v) / h, (ends[0] - v) / h
