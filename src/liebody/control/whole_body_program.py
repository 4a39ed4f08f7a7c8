"""The quadratic programs of a whole-body controller, on symbols: with or without the legs' unknowns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bodies import Body
from ..compiler import FlatLayout, Measures
from ..mechanisms.constrained import ClosedTree
from ..robot import Robot
from ..scalars import Array, clip, maximum, minimum, sqrt, where
from ..scalars.linear import inverse, product, solve
from .task_programs import UNFINISHED, robot_at, stacked, verdict
from .whole_body_tasks import NONE, SizedTask, Support

HARD = 1e6  # weight of a hard task in units of the largest weight of the others
SPARE = 1e-3  # a hard task that misses by more has the status SLACK                            [rad/s2, m/s2]
Hold = tuple[Array, Array, Array]  # rows J a = b of a support, and J of its points
REGULAR = 1e4  # matrices of legs of a larger condition number are not inverted: legs are nearly straight


def legs(robot: Robot, driven: Sequence[Body], supports: Sequence[Support]) -> dict[int, np.ndarray]:
    """{number of a support: velocities of driven joints that move no other support}, of legs.

    Each support has to belong to a leg with as many such velocities as the support has rows: three joints
    and a point, or six joints and a sole. Otherwise there are none.
    """
    paths = [robot.tree.ancestors(robot.tree.frame(support.frame).body) for support in supports]
    names = {body.joint.name for body in driven}
    result = {}
    for k, path in enumerate(paths):
        shared = {body.joint.name for j, other in enumerate(paths) if j != k for body in other}
        own = [body for body in path if body.joint.name not in shared]
        places = [i for body in own if body.joint.name in names for i in body.places]
        if len(places) == supports[k].rows and not any(body.joint.mimic for body in own):
            result[k] = np.sort(places)
    return result if len(result) == len(supports) else {}


def condition(A: Array, inverted: Array) -> Any:
    """The condition number |A| |A^-1| of a matrix whose inverse is known, in the norm of Frobenius."""
    squares = [sum(x * x for x in matrix.flat) for matrix in (A, inverted)]
    return sqrt(squares[0] * squares[1])


@dataclass
class WholeBodyProgram:
    """The quadratic program of a controller in its unknowns x = (accelerations of driven joints, forces).

    Passive accelerations follow from their rows of M a + h = tau + J^T F z, with forces F z. Closures have
    multipliers among the unknowns, behind the forces, and rows J a + bias = 0 without slack.

    robot, tasks, supports, layout, horizon, limits  of the controller
    driven             velocities of driven joints
    bounded, coordinates  velocities and coordinates of joints with limits
    is_foreseen        whether velocities or positions are limited
    legs               {number of a support: velocities of its leg}, as `legs` finds them
    accepted           errors of the solver that count as converged, beside those within its tolerance
    loops              the closures of the robot; None: it has none

    With `legs`, the accelerations of these joints are no unknowns. The rows J a = b of such a support
    determine them exactly, by the inverse of its columns of the leg. So only forces are left for a robot on
    its legs, and the rows have no slack. The unknowns of a support that is not active have another meaning:
    its points accelerate by them, J a = b + z, and they have no cone. Programs with legs fail where slack is
    needed, and where a leg is nearly straight; `command` says so by the status UNFINISHED.
    """

    robot: Robot
    tasks: Sequence[SizedTask]
    supports: Sequence[Support]
    layout: FlatLayout
    horizon: float
    limits: Sequence[str]
    driven: np.ndarray
    bounded: np.ndarray
    coordinates: np.ndarray
    is_foreseen: bool
    legs: Mapping[int, np.ndarray]
    accepted: float = 0.0
    loops: ClosedTree | None = None

    def __post_init__(self) -> None:
        self.passive = np.setdiff1d(np.arange(self.robot.nv), self.driven)
        solved = np.concatenate([np.zeros(0, int), *self.legs.values()])
        self.kept = np.setdiff1d(self.driven, solved)  # accelerations that are unknowns
        self.followers = np.concatenate([self.passive, solved])  # the others, by x
        self.points = sum(len(support.points) for support in self.supports)
        self.closing = 0 if self.loops is None else self.loops.nc
        self.unknowns = len(self.kept) + 3 * self.points + self.closing
        # rows of A that stay rows, in front of those that belong to the cost
        self.held = sum(support.rows for k, support in enumerate(self.supports) if k not in self.legs)
        self.held += self.closing
        self.held += sum(task.size for task in self.tasks if task.task.hard)

    def columns(self, k: int) -> slice:
        """The places in x of the forces on support number k."""
        start = len(self.kept) + 3 * sum(len(support.points) for support in self.supports[:k])
        return slice(start, start + 3 * len(self.supports[k].points))

    def _accelerations_within(self, q: Array, v: Array, named: Mapping[str, Any]) -> tuple[Array, Array]:
        """Least and largest accelerations of joints by their limits of velocity and position."""
        h = self.horizon
        x = q[self.coordinates]
        u = v[self.bounded]
        most = named["velocity_limit"] + 0 * u if "velocity" in self.limits else np.full(len(u), NONE)
        ends = [most, most]
        if "position" in self.limits:
            # The largest velocity w after the horizon from which the way h (u + w)/2 + w^2/(2 d) until rest,
            # with the deceleration d, fits into what is left.
            d = named["braking"]
            for k, left in enumerate((named["high"] - x, x - named["low"])):
                moving = u if k == 0 else -u
                rest = clip(left, -1e6, 1e6) - h * moving / 2
                w = d * (sqrt(h * h / 4 + 2 * maximum(rest, 0.0) / d) - h / 2)
                # too near to stop before the horizon: to be at the limit then, or back there, if beyond it
                ends[k] = minimum(ends[k], w + 2 * minimum(rest, 0.0) / h)
        return (-ends[1] - u) / h, (ends[0] - u) / h

    def _of_legs(self, holds: Sequence[Hold], named: Mapping[str, Any]) -> tuple[Array, Any]:
        """Rows (P, Q, r) with a_E = P a_U + Q x + r of legs, and the largest condition number."""
        U, K, n = self.passive, self.kept, self.unknowns
        rows = [np.zeros((0, len(U) + n + 1), int).astype(object)]
        worst: Any = 0.0
        for k, own in self.legs.items():
            J, b, _ = holds[k]
            of_x = np.zeros((len(b), n), int).astype(object)
            of_x[:, : len(K)] = -J[:, K]
            # points that carry nothing accelerate by their unknowns
            swinging = where(named[f"{self.supports[k].name}.active"] > 0, 0.0, 1.0)
            start = self.columns(k).start
            of_x[np.arange(len(b)), start + np.arange(len(b))] = swinging
            inverted = inverse(J[:, own])
            worst = maximum(worst, condition(J[:, own], inverted))
            rows.append(product(inverted, np.hstack([-J[:, U], of_x, b[:, None]])))
        return np.vstack(rows), worst

    def _accelerations(
        self,
        M: Array,
        h: Array,
        F: Array,
        holds: Sequence[Hold],
        named: Mapping[str, Any],
    ) -> tuple[Array, Array]:
        """Y (nv, n + 1) with a = Y (x, 1), and whether the matrices of this elimination are regular (1,)."""
        U, K, n = self.passive, self.kept, self.unknowns
        E = self.followers[len(U) :]
        leg, worst = self._of_legs(holds, named)
        P, rest = leg[:, : len(U)], leg[:, len(U) :]
        Y = np.zeros((self.robot.nv, n + 1), int).astype(object)
        Y[K, np.arange(len(K))] = 1
        # passive rows: (M_UU + M_UE P) a_U = F z - M_UK a_K - M_UE (Q x + r) - h
        right = np.hstack([F[U], -h[U, None]]) - product(M[np.ix_(U, E)], rest)
        right[:, : len(K)] = right[:, : len(K)] - M[np.ix_(U, K)]
        if len(U) and len(E):
            matrix = M[np.ix_(U, U)] + product(M[np.ix_(U, E)], P)
            inverted = inverse(matrix)
            Y[U] = product(inverted, right)
            worst = maximum(worst, condition(matrix, inverted))
        elif len(U):
            Y[U] = solve(M[np.ix_(U, U)], right)
        Y[E] = product(P, Y[U]) + rest
        return Y, np.array([where(worst < REGULAR, 1.0, 0.0)], dtype=object)

    def _closures(self, q: Array, v: Array, named: Mapping[str, Any]) -> tuple[Array, Array] | None:
        """J (nc, nv) and b (nc,) with J a = b of the closures; None for a robot without."""
        if self.loops is None:
            return None
        layout = self.loops.layout
        values = layout.write([named[name] for name in layout.defaults])
        rows = (self.loops.at(values) if layout.size else self.loops).loop_rows(q, v, 0.0)
        return rows.J, -rows.bias - named["loop_damping"] * rows.rate

    def problem(self, q: Array, v: Array, p: Array) -> dict[str, Array]:
        """The quadratic program at a state; then accelerations of followers, and efforts, by its unknowns."""
        named = self.layout.named(p)
        robot = robot_at(self.robot, named)
        A, n = self.driven, self.unknowns
        # M a + h = tau + J^T f, with forces J^T F z of the unknowns x = (a_K, z)
        M = robot.mass_matrix(q)
        h = robot.bias(q, v, damping=True)
        holds = [support.equation(robot, q, v, named) for support in self.supports]
        F = np.zeros((robot.nv, n), int).astype(object)
        for k, (support, (_, _, J)) in enumerate(zip(self.supports, holds, strict=True)):
            F[:, self.columns(k)] = product(J.T, support.forces(named, robot.mass))
        closures = self._closures(q, v, named)
        if closures is not None:
            F[:, n - self.closing :] = -robot.mass * closures[0].T
        Y, regular = self._accelerations(M, h, F, holds, named)
        # efforts tau = T x + t of driven joints
        efforts = product(M[A], Y)
        efforts[:, :n] = efforts[:, :n] - F[A]
        efforts[:, n] = efforts[:, n] + h[A]
        # equalities: supports and hard tasks first, then the others. Their weights are those of their slack.
        equations = [task.equation(q, v, named) for task in self.tasks]
        scale = maximum(named["acceleration_weight"], named["force_weight"])
        for task, (_, _, weight) in zip(self.tasks, equations, strict=True):
            for x in () if task.task.hard else weight:
                scale = maximum(scale, x)
        rows = []
        if closures is not None:
            rows.append((*closures, np.full(self.closing, np.inf)))
        for k, (support, (J, b, _)) in enumerate(zip(self.supports, holds, strict=True)):
            if k not in self.legs:
                active = HARD * scale * named[f"{support.name}.active"]
                rows.append((J, b, active * np.ones(len(b))))
        for hard in (True, False):
            for task, (J, b, weight) in zip(self.tasks, equations, strict=True):
                if task.task.hard == hard:
                    rows.append((J, b, HARD * scale * weight if hard else weight))
        # the small cost of accelerations that are no unknowns
        solved = self.followers[len(self.passive) :]
        unit = np.eye(robot.nv, dtype=int)[solved]
        rows.append((unit, np.zeros(len(solved), int), named["acceleration_weight"] * np.ones(len(solved))))
        J, b, weights = stacked(rows, robot.nv)
        E = product(J, Y)
        C, low, high, weight_c = self._inequalities(q, v, named, Y, efforts, HARD * scale)
        costs = [named["acceleration_weight"]] * len(self.kept)
        for k, support in enumerate(self.supports):
            # unknowns that are accelerations of points cost nothing by themselves
            on = where(named[f"{support.name}.active"] > 0, 1.0, 0.0) if k in self.legs else 1.0
            costs += [named["force_weight"] * on] * (3 * len(support.points))
        costs += [named["force_weight"]] * self.closing
        return {
            "H": np.diag(np.array(costs, dtype=object)),
            "g": np.zeros(n, int),
            "A": E[:, :n],
            "b": b - E[:, n],
            "weight_a": weights,
            "C": C,
            "l": low,
            "u": high,
            "weight_c": weight_c,
            "scale": np.array([scale], dtype=object),
            "follow": Y[self.followers],
            "efforts": efforts,
            "regular": regular,
        }

    def _inequalities(
        self, q: Array, v: Array, named: Mapping[str, Any], Y: Array, efforts: Array, hard: Any
    ) -> tuple[Array, Array, Array, Array]:
        """C, l, u, weights: foreseen limits (hard), then efforts and cones (exact), one-sided rows last."""
        n = self.unknowns
        mass = robot_at(self.robot, named).mass
        C: list[Array] = []
        low: list[Any] = []
        high: list[Any] = []
        weights: list[Any] = []
        if self.is_foreseen:
            rest = Y[self.bounded, n]
            ends = self._accelerations_within(q, v, named)
            C += [*Y[self.bounded, :n]]
            low += [*(ends[0] - rest)]
            high += [*(ends[1] - rest)]
            weights += [hard] * len(rest)
        if "effort" in self.limits:
            C += [*efforts[:, :n]]
            low += [*(-named["effort_limit"] - efforts[:, n])]
            high += [*(named["effort_limit"] - efforts[:, n])]
            weights += [np.inf] * len(efforts)
        pyramids = []
        weights_of_pyramids: list[Any] = []
        unit = np.eye(n, dtype=int)
        for k, support in enumerate(self.supports):
            largest = named[f"{support.name}.largest"] / mass
            on = where(named[f"{support.name}.active"] > 0, np.inf, 0.0) if k in self.legs else np.inf
            first = self.columns(k).start
            for j in range(first, first + 3 * len(support.points), 3):
                C.append(unit[j + 2])
                low.append(0.0)
                high.append(largest)
                weights.append(on)
                pyramids += [row @ unit[j : j + 3] for row in support.cone()]
                weights_of_pyramids += [on] * support.facets
        count = len(pyramids)
        rows = np.array([*C, *pyramids], dtype=object).reshape(-1, n)
        low += [-NONE] * count
        high += [0.0] * count
        weights += weights_of_pyramids
        l, u, weight = (np.array(x, dtype=object) for x in (low, high, weights))
        return rows, l, u, weight

    def command(self, *arrays: Array) -> dict[str, Array]:
        """The parts of `WholeBodyCommand`, from inputs, what was kept, and the minimum."""
        _, _, p, follow, efforts, regular, x, _, _, slack, slack_limits, measures = arrays
        named = self.layout.named(p)
        tau = np.zeros(self.robot.nv, int).astype(object)
        a = np.zeros(self.robot.nv, int).astype(object)
        tau[self.driven] = product(efforts[:, :-1], x) + efforts[:, -1]
        a[self.kept] = x[: len(self.kept)]
        a[self.followers] = product(follow[:, :-1], x) + follow[:, -1]
        mass = robot_at(self.robot, named).mass
        f = [np.zeros(0, int)]
        # the rows of closures come first
        rows = [slack[: self.closing]]
        first = self.closing
        for k, support in enumerate(self.supports):
            f.append(product(support.forces(named, mass), x[self.columns(k)]))
            if k in self.legs:
                rows.append(np.zeros(support.rows, int))
            else:
                rows.append(slack[first : first + support.rows])
                first += support.rows
        rows.append(slack[first : self.held])
        rows.append(slack_limits[: len(self.bounded) if self.is_foreseen else 0])
        verdicts = verdict(np.concatenate(rows), Measures(*measures), SPARE, self.accepted)
        if self.legs:
            verdicts["status"] = np.asarray(where(regular[0] > 0, verdicts["status"], float(UNFINISHED)))
        results = {"tau": tau, "a": a, "f": np.concatenate(f).reshape(self.points, 3), **verdicts}
        if self.closing:
            results["multipliers"] = mass * x[self.unknowns - self.closing :]
        return results
