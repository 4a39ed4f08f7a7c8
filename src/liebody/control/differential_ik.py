"""Differential inverse kinematics: the velocity that does several tasks at once, by a quadratic program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, count, floats
from ..base.concurrency import Sendable, cached_property
from ..base.errors import ModelError, known, positive
from ..compiler import FlatLayout, Kernel, Measures, Minimizer, trace
from ..robot import Robot
from ..scalars import Array, clip, maximum, minimum, where
from .clearances import Clearance, SizedClearance
from .task_programs import (
    bounded,
    checked_limits,
    guard_of,
    layout_behind,
    merged,
    packed,
    read_parameters,
    shapes_behind,
    stacked,
    verdict,
)
from .whole_body_tasks import NONE, MotionTask, SizedTask

HARD = 1e5  # weight of a hard task in units of the largest weight
LEAST_DAMPING = 1e-12  # likewise
RETURN = 1e7  # likewise, of limits and margins that are passed already
EXACT = 1e100  # a weight without slack
TOLERANCE = 1e-9  # of the quadratic program
SPARE = 1e-4  # a row that misses by more has the status SLACK                                  [rad/s, m/s]
FAINT = 1e-6  # a limit needs no way back that is slower                                        [rad/s, m/s]
LIMITS = ("velocity", "position")
MET, STALLED, GOING = "met", "stalled", "not finished"
# `reach` has stalled if in so many steps the error has not fallen by this part.
STEPS, PROGRESS = 30, 1e-4


class VelocityCommand(NamedTuple):
    """The result of differential inverse kinematics at one configuration, or at many (...).

    v           velocities (..., nv)                                                          [rad/s, m/s]
    q           configurations after the step, q exp(dt v) (..., nq)
    errors      y(q) of all tasks before the step (..., k), in the order of `DifferentialIK.entries`
    distances   of all clearances before the step (..., m), in the order of `DifferentialIK.distances`    [m]
    slack       by how much the rows of hard tasks, limits, ways back from limits that are passed, and
                clearances are missed (..., rows), in the order of `DifferentialIK.rows`      [rad/s, m/s]
    gap         products of multipliers and distances from limits, relative to the cost (...)
    status      0 solved; 1 solved, with slack above 1e-4; 2 not converged: the best point found (...)
    iterations  of the interior point method (...)
    """

    v: Any
    q: Any
    errors: Any
    distances: Any
    slack: Any
    gap: Any
    status: Any
    iterations: Any


class Reached(NamedTuple):
    """The result of `DifferentialIK.reach` for one start, or for many (...).

    q        configurations (..., nq)
    error    the largest |y| of the watched tasks there (...)
    reason   "met", "stalled" or "not finished" (...)
    steps    how many were made (...)
    """

    q: Any
    error: Any
    reason: Any
    steps: Any


class DifferentialIK(Sendable):
    """Velocities by which a robot does several tasks at once, within limits and clear of obstacles.

        minimize    sum of weight |dy/dt - (rate - gain y)|^2 over all tasks, and damping |v|^2
        subject to  |v| <= velocity_limit                                    exact
                    low <= q + dt v / limit_gain <= high                     exact within the limits
                    dd/dt >= -gain (d - margin) / dt of clearances           exact above the margin
                    dy/dt = rate - gain y of hard tasks                      before all tasks that are not

        tasks = [MotionTask.pose(robot, "tool", gain=5.0), MotionTask.posture(robot, weight=1e-3)]
        ik = DifferentialIK(robot, tasks, [Clearance.of_collisions(robot, ("forearm", "torso"))])
        u = ik.step(q, {"tool.target": T}, dt=0.01)               # u.v, u.q, u.distances, u.slack, u.status
        end = ik.reach(q, {"tool.target": T})                     # end.q, end.reason

    robot       with a fixed or a floating base; its free parameters are parameters of each call
    tasks       `MotionTask`s as of `WholeBody`, hard ones among them. Functions of q alone, or linear in v,
                such as a momentum, for which y = 0 is asked at once. A closed loop is a hard task
    clearances  `Clearance`s: distances that stay above their margins
    limits      which limits are kept, of "velocity", "position". The joints' own are defaults
    iterations  of the quadratic program at most

    A call takes parameters by name, a value for all configurations or one for each: parameters of tasks
    (gain, weight, rate, levenberg and their own, such as target) and clearances, and

        dt                         length of a step (0.01)                                              [s]
        velocity_limit, low, high  of the coordinates of `bounded` (m,)
        limit_gain                 the part of the way to a limit of position that a step may cover (0.5)
        damping                    of velocities in units of weights (1e-6): makes them unique

    Nothing is compiled anew for new values. `ik.pack` makes one array of them, which calls take faster.

    Each task adds `levenberg` (1e-3) times weight |y|^2 to the damping, which so vanishes with the errors:
    near singular configurations velocities stay small while a target is far, and steps are exact near it.
    Hard tasks have none.

    A row that v = 0 fulfils is exact; all of these agree with each other. Others, of limits and margins that
    are passed already, weigh 1e7 times the largest weight, hard tasks 1e5 times. So there is a solution for
    all numbers, and `slack` and `status` tell what gives way. Steps are short: this finds no way around an
    obstacle that stands between two postures, and a robot may rest in front of it. For whole poses from
    anywhere there is `inverse_kinematics`.

    Damping: Sugihara (2011), "Solvability-unconcerned inverse kinematics by the Levenberg-Marquardt method",
    IEEE Trans. Robotics 27. Half spaces: Faverjon and Tournassoud (1987), see `Clearance`.

    Errors: ModelError for unknown limits and names, for two tasks or clearances of one name, for tasks that
    are not linear in v, for impossible values of free parameters; ShapeError, ConfigurationError for
    configurations that cannot be.
    """

    @checked
    def __init__(
        self,
        robot: Robot,
        tasks: Sequence[MotionTask],
        clearances: Sequence[Clearance] = (),
        *,
        limits: Sequence[str] = LIMITS,
        iterations: int = 40,
    ) -> None:
        self.robot = robot
        self.limits = checked_limits(limits, LIMITS)
        self.iterations = count("iterations", iterations)
        self.tasks: list[SizedTask] = [task.sized(robot) for task in tasks]
        for task in self.tasks:
            task.check_linear()
        self.clearances: list[SizedClearance] = [clearance.sized(robot) for clearance in clearances]
        # Joints whose coordinate is their angle or length have limits.
        moving = [body for body in robot.tree.bodies if body.joint.mimic is None and body.joint.dim]
        _, self.bounded, self.coordinates = bounded(robot, moving)
        self.layout = self._layout()
        self.entries = [f"{x.task.name}[{i}]" for x in self.tasks for i in range(x.size)]
        self.distances = [f"{x.clearance.name}[{i}]" for x in self.clearances for i in range(x.size)]
        self.rows = [f"{x.task.name}[{i}]" for x in self.tasks if x.task.hard for i in range(x.size)]
        if self.limits:
            self.rows += [f"limit[{i}]" for i in self.bounded.tolist()]
        if "position" in self.limits:
            self.rows += [f"back[{i}]" for i in self.bounded.tolist()]
        self.rows += self.distances

    def _layout(self) -> FlatLayout:
        """Names and defaults of all parameters."""
        low, high = self.robot.tree.coordinate_limits
        fastest = np.full(self.robot.nv, np.inf)
        for body in self.robot.tree.bodies:
            # the limit of a joint that follows is one of its leader, too
            limit = np.broadcast_to(body.joint.velocity_limit, (len(body.places),))
            if body.ratio:
                np.minimum.at(fastest, body.places, limit / abs(body.ratio))
        defaults: dict[str, Any] = {
            "dt": 0.01,
            "velocity_limit": fastest[self.bounded],
            "low": low[self.coordinates],
            "high": high[self.coordinates],
            "limit_gain": 0.5,
            "damping": 1e-6,
        }
        parts = [(task.task.name, task.velocity_defaults) for task in self.tasks]
        parts += [(x.clearance.name, x.defaults) for x in self.clearances]
        defaults |= merged(parts, "tasks or clearances")
        needed = {"velocity_limit", "low", "high"}
        return layout_behind(self.robot.layout, defaults, needed, self.robot.name)

    # -- the equations, on symbols ------------------------------------------------------------------------

    def _limits(self, q: Array, named: Mapping[str, Any], back: Any) -> list[tuple[Any, Any, Any]]:
        """(low, high, weight) of the velocities of all bounded joints: exact ones, then ways back.

        A limit of position that is kept tightens the exact interval of velocities, in which 0 is; one that is
        passed asks for the way back, not faster than the joint may move, by a row of the weight `back`.
        Where it is passed by round-off, the joint does not go further.
        """
        x = q[self.coordinates]
        most = named["velocity_limit"] if "velocity" in self.limits else np.full(len(x), NONE)
        if "position" not in self.limits:
            return [(-end, end, EXACT) for end in most]
        share = named["limit_gain"] / named["dt"]
        exact, ways = [], []
        for end, low, high in zip(most, share * (named["low"] - x), share * (named["high"] - x), strict=True):
            least = where(low > FAINT, -end, minimum(maximum(low, -end), 0.0))
            largest = where(high < -FAINT, end, maximum(minimum(high, end), 0.0))
            exact.append((least, largest, EXACT))
            passed = maximum(low, -high) > FAINT
            ways.append((minimum(low, end), maximum(high, -end), where(passed, back, 0.0)))
        return exact + ways

    def _problem(self, q: Array, p: Array) -> dict[str, Array]:
        """The quadratic program at a configuration; then errors and distances."""
        n = self.robot.nv
        named = self.layout.named(p)
        # tasks are equalities, hard ones first; their weights are those of their slack
        damping = named["damping"]
        scale = damping
        equations = [task.velocity_equation(q, named) for task in self.tasks]
        for task, (y, _, _, weight) in zip(self.tasks, equations, strict=True):
            for w in weight:
                scale = maximum(scale, w)
            if task.second and not task.task.hard:
                damping = damping + named[f"{task.task.name}.levenberg"] * (weight @ (y * y))
        damping = maximum(damping, LEAST_DAMPING * scale)
        rows = []
        for hard in (True, False):
            for task, (_, J, b, weight) in zip(self.tasks, equations, strict=True):
                if task.task.hard == hard:
                    rows.append((J, b, HARD * scale * weight if hard else weight))
        A, b, weights = stacked(rows, n)
        # limits and half spaces are exact where v = 0 fulfils them
        back = RETURN * scale
        C: list[Array] = []
        low: list[Any] = []
        high: list[Any] = []
        weight_c: list[Any] = []
        if self.limits:
            of_limits = self._limits(q, named, back)
            units = np.eye(n, dtype=int)[self.bounded]
            C += [*units] * (len(of_limits) // max(len(units), 1))
            for bounds, x in zip((low, high, weight_c), zip(*of_limits, strict=True), strict=False):
                bounds += x
        distances: list[Any] = []
        for clearance in self.clearances:
            d, J, least, active = clearance.half_spaces(q, named)
            distances += [*d]
            C += [*J]
            least = [where(x > FAINT, x, minimum(x, 0.0)) for x in least]
            low += least
            high += [NONE] * clearance.size
            weight_c += [where(active > 0, where(x > 0, back, EXACT), 0.0) for x in least]
        errors = [y for y, *_ in equations]
        return {
            "H": np.diag(np.array([damping] * n, dtype=object)),
            "g": np.zeros(n, int),
            "A": A,
            "b": b,
            "weight_a": weights,
            "C": np.array(C, dtype=object).reshape(-1, n),
            "l": np.array(low, dtype=object),
            "u": np.array(high, dtype=object),
            "weight_c": np.array(weight_c, dtype=object),
            "scale": np.array([scale], dtype=object),
            "errors": np.concatenate([np.zeros(0, int), *errors]),
            "distances": np.array(distances, dtype=object),
        }

    def _command(self, *arrays: Array) -> dict[str, Array]:
        """The command, from inputs, what was kept, and the minimum."""
        q, p, errors, distances, v, _, _, slack, slack_c, measures = arrays
        named = self.layout.named(p)
        if "velocity" in self.limits:
            # also where the method has not converged
            most = named["velocity_limit"]
            v = v.copy()
            v[self.bounded] = clip(v[self.bounded], -most, most)
        measures = Measures(*measures)
        rows = np.concatenate([slack[: len(self.rows) - len(slack_c)], slack_c])
        return {
            "v": v,
            "q": self.robot.integrate(q, named["dt"] * v),
            "errors": errors,
            "distances": distances,
            **verdict(rows, measures, SPARE),
        }

    def _minimizer(self) -> Minimizer:
        shapes = {"q": self.robot.nq, "p": self.layout.size}
        before = trace(self._problem, shapes, "differential_ik_problem")
        behind = shapes_behind(before, shapes, ("errors", "distances"))
        after = trace(self._command, behind, "differential_ik_command")
        return Minimizer("differential_ik", before, after, self.iterations, TOLERANCE)

    # -- calls --------------------------------------------------------------------------------------------

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled function, (q, parameters) -> the parts of `VelocityCommand`."""
        guard = guard_of(self.robot, self.layout, "q")
        return Kernel(self._minimizer, guard=guard, doc=VelocityCommand.__doc__ or "")

    def pack(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        """The parameters as one array (..., size): defaults, and the values that are given by name.

        Raises ModelError for unknown names, NaN, and a dt that is not positive.
        """
        p = packed(self.layout, parameters)
        dt = p[..., self.layout.places["dt"]]
        if not (dt > 0).all():
            raise ModelError(f"parameter dt is {dt.min():g}, expected more than zero")
        return p

    def __call__(
        self, q: Array, parameters: Mapping[str, Any] | Array | None = None, *, threads: int = 1
    ) -> VelocityCommand:
        """The command at a configuration, or at many at once.

        q           configurations (..., nq)
        parameters  {name: value}, or an array of `pack`; None: defaults
        threads     that share a batch
        """
        q = floats("q", q, finite=False)
        return VelocityCommand(*self.kernel(q, self._packed(parameters), threads=threads))

    def step(
        self,
        q: Array,
        parameters: Mapping[str, Any] | Array | None = None,
        dt: float | None = None,
        *,
        threads: int = 1,
    ) -> VelocityCommand:
        """As a call, with the length dt of the step; `q` of the result is the configuration after it.

        dt  None: the parameter's value                                                                  [s]
        """
        return self(q, self._packed(parameters, dt), threads=threads)

    def _packed(self, parameters: Mapping[str, Any] | Array | None, dt: float | None = None) -> np.ndarray:
        p = read_parameters(self.layout, parameters, self.pack)
        if dt is not None:
            p = p.copy()
            p[..., self.layout.places["dt"]] = positive("dt", dt)
        return p

    def reach(
        self,
        q: Array,
        parameters: Mapping[str, Any] | Array | None = None,
        dt: float | None = None,
        *,
        tasks: Sequence[str] | None = None,
        tolerance: float = 1e-6,
        steps: int = 2000,
        threads: int = 1,
    ) -> Reached:
        """Steps until tasks are met, or until no more progress is made.

        q, parameters, dt  as of `step`
        tasks      names of those that shall be met; None: all functions of q whose weight is not zero
        tolerance  of the largest |y| of these tasks                                             [rad and m]
        steps      at most so many

        "stalled": in 30 steps, the length of y of these tasks has not fallen by 1e-4 of it.
        """
        named = {x.task.name: x for x in self.tasks}
        for name in tasks or ():
            if name not in named:
                raise ModelError(f"there is no task {name!r}; {known(named, name)}")
        tolerance = positive("tolerance", tolerance)
        steps = count("steps", steps, 0)
        q = self.robot.group.check(floats("q", q, finite=False))
        p = self._packed(parameters, dt)
        batch = np.broadcast_shapes(q.shape[:-1], p.shape[:-1])
        # all members are rows; those that have ended keep still
        q = np.broadcast_to(q, (*batch, self.robot.nq)).reshape(-1, self.robot.nq).copy()
        p = np.broadcast_to(p, (*batch, self.layout.size)).reshape(-1, self.layout.size)
        watched = self._watched(p, tasks)
        reason = np.full(len(q), GOING, dtype=object)
        error = np.zeros(len(q))
        made = np.zeros(len(q), int)
        least: list[np.ndarray] = []  # the least length of y so far, after each step
        for k in range(steps + 1):
            going = np.flatnonzero(reason == GOING)
            if not len(going):
                break
            command = self(q[going], p[going], threads=threads)
            y = np.where(watched[going], command.errors, 0.0)
            error[going] = np.abs(y).max(axis=-1, initial=0.0)
            length = np.full(len(q), np.inf)
            length[going] = np.linalg.norm(y, axis=-1)
            least.append(np.minimum(length, least[-1]) if least else length)
            if k >= STEPS:
                reason[going[least[-1][going] > (1 - PROGRESS) * least[-1 - STEPS][going]]] = STALLED
            reason[going[error[going] <= tolerance]] = MET
            if k == steps:
                break
            still = reason[going] == GOING
            q[going[still]] = command.q[still]
            made[going[still]] += 1
        q = q.reshape(*batch, self.robot.nq)
        return Reached(q, *(x.reshape(batch)[()] for x in (error, reason, made)))

    def _watched(self, p: np.ndarray, tasks: Sequence[str] | None) -> np.ndarray:
        """Which errors of each row of parameters count, (rows, k)."""
        parts = [np.zeros((len(p), 0), bool)]
        for task in self.tasks:
            name = task.task.name
            weight = p[:, self.layout.places[f"{name}.weight"]] > 0
            counts = task.second & weight if tasks is None else np.full_like(weight, name in tasks)
            parts.append(np.broadcast_to(counts, (len(p), task.size)))
        return np.concatenate(parts, axis=1)
