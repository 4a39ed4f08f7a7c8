"""Whole-body control: joint efforts and contact forces at each instant, by a quadratic program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, floats, vectors
from ..base.concurrency import cached_property
from ..base.errors import ModelError, known, positive
from ..bodies import Body
from ..compiler import FlatLayout, Guard, Kernel, Measures, Minimizer, trace
from ..groups import Free
from ..io import About
from ..io.c_export import export_c
from ..robot import Robot
from ..scalars import Array, clip, maximum, minimum, sqrt
from ..scalars.linear import product, solve
from .task_programs import (
    bounded,
    check_plain,
    checked_limits,
    merged,
    packed,
    read_parameters,
    shapes_behind,
    stacked,
    verdict,
)
from .whole_body_tasks import NONE, MotionTask, SizedTask, Support

HARD = 1e6  # weight of a hard task in units of the largest weight of the others
TOLERANCE = 1e-9  # of the quadratic program
SPARE = 1e-3  # a hard task that misses by more has the status SLACK                            [rad/s2, m/s2]
LIMITS = ("effort", "velocity", "position")


class WholeBodyCommand(NamedTuple):
    """The command of a whole-body controller at one instant, or at many (...).

    tau         efforts (..., nv), zero where nothing drives; M a + h = tau + J^T f                [N m, N]
    a           the accelerations that they cause, dv/dt (..., nv)                          [rad/s2, m/s2]
    f           forces on the points of all supports, in the world (..., points, 3)                    [N]
    slack       by how much the rows of supports and hard tasks, then the limits of velocities and positions,
                are missed (..., rows), in the order of `WholeBody.rows`                     [rad/s2, m/s2]
    gap         products of multipliers and distances from limits, relative to the cost (...)
    status      0 solved; 1 solved, with slack above 1e-3; 2 not converged: the best point found (...)
    iterations  of the interior point method (...)
    """

    tau: Any
    a: Any
    f: Any
    slack: Any
    gap: Any
    status: Any
    iterations: Any


class WholeBody:
    """Efforts by which a robot does several tasks at once, within friction and limits.

        minimize    sum of weight |d2y/dt2 - desired|^2 over all tasks, and small costs of a and f
        subject to  M a + h = tau + J^T f                         equations of motion: exact
                    forces within friction pyramids               exact
                    |tau| <= effort_limit                         exact
                    J a + dJ/dt v = -damping J v of supports      hard: before all tasks that are not
                    limits of velocities and positions            hard

        feet = [Support(name) for name in ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")]
        tasks = [MotionTask.pose(robot, "base", kp=100.0, weight=10.0), MotionTask.posture(robot, kp=50.0)]
        wb = WholeBody(robot, tasks, feet)
        u = wb(q, v, {"base.target": T, "LF_FOOT.active": 0.0})         # u.tau, u.a, u.f, u.slack, u.status

    robot     a plain one, with a fixed or a floating base
    tasks     `MotionTask`s, hard ones among them
    supports  `Support`s, all that may ever carry; parameters switch them in each call
    limits    which limits are kept, of "effort", "velocity", "position". The joints' own are defaults
    actuated  names of driven joints; None: all but free ones. Others have no effort
    horizon   time over which velocities and positions are foreseen: a few control periods              [s]

    A call takes parameters by name, a value for all states or one for each: those of tasks and supports, and

        effort_limit, velocity_limit, low, high   of the driven coordinates (m,), in the order of `actuated`
        braking                                   deceleration by which joints can stop before low and high
        acceleration_weight, force_weight         small costs that make a and f unique

    Nothing is compiled anew for new values. `wb.pack` makes one array of them, which calls take faster.

    The unknowns are accelerations of the driven joints, and forces. Accelerations of the others, such as a
    free base, follow from their rows of the equations of motion, whose matrix is always regular; so nothing
    is divided by near straight legs. Efforts of zero and forces inside of the cones are always possible:
    equations of motion, cones and effort limits never contradict each other.

    Hard rows weigh a million times as much as the largest other weight. Where they contradict each other or
    the exact rows, `slack` and `status` tell what gives way, and other tasks are accurate to some 1e-3 of it.

    A limit of position is kept if after the horizon the joint can still stop before it, with the
    deceleration `braking`: Del Prete (2018), "Joint position and velocity bounds in discrete-time
    acceleration/torque control of robot arms", IEEE Robotics and Automation Letters 3.

    Errors: ModelError for unknown joints and names, for two tasks or supports of one name, for robots with
    free parameters; ShapeError, ConfigurationError for states that cannot be.
    """

    @checked
    def __init__(
        self,
        robot: Robot,
        tasks: Sequence[MotionTask],
        supports: Sequence[Support] = (),
        *,
        limits: Sequence[str] = LIMITS,
        actuated: Sequence[str] | None = None,
        horizon: float = 0.01,
        iterations: int = 40,
    ) -> None:
        self.robot = robot
        check_plain(robot, "a controller needs")
        self.horizon = positive("horizon", horizon)
        self.limits = checked_limits(limits, LIMITS)
        self.iterations = iterations
        joints = self._driven(actuated)
        self.actuated = [body.joint.name for body in joints]
        self.driven = np.array([i for body in joints for i in body.places], int)
        self.passive = np.setdiff1d(np.arange(robot.nv), self.driven)
        self.tasks: list[SizedTask] = [task.sized(robot) for task in tasks]
        self.supports = list(supports)
        for support in self.supports:
            robot.tree.frame(support.frame)
        self.points = sum(len(support.points) for support in self.supports)
        # Joints whose coordinate is their angle or length have limits of velocity and position.
        straight, self.bounded, self.coordinates = bounded(robot, joints)
        self.layout = self._layout(joints, straight)
        self.rows = [f"{support.name}[{i}]" for support in self.supports for i in range(support.rows)]
        self.rows += [f"{x.task.name}[{i}]" for x in self.tasks if x.task.hard for i in range(x.size)]
        if self._is_foreseen:
            self.rows += [f"limit[{i}]" for i in self.bounded.tolist()]

    def _driven(self, actuated: Sequence[str] | None) -> list[Body]:
        """The bodies whose joints are driven, in the order of the tree."""
        own = {body.joint.name: body for body in self.robot.tree.bodies if body.joint.mimic is None}
        own = {name: body for name, body in own.items() if body.joint.dim}
        if actuated is None:
            return [body for body in own.values() if not isinstance(body.joint.group, Free)]
        for name in actuated:
            if name not in own:
                raise ModelError(f"there is no joint {name!r} that can be driven; {known(own, name)}")
        return [body for name, body in own.items() if name in actuated]

    def _layout(self, joints: list[Body], straight: list[Body]) -> FlatLayout:
        """Names and defaults of all parameters."""

        def of_joints(bodies: list[Body], word: str) -> np.ndarray:
            values = [np.broadcast_to(getattr(b.joint, word), (b.joint.dim,)) for b in bodies]
            return np.concatenate([np.zeros(0), *values])

        defaults: dict[str, Any] = {
            "effort_limit": of_joints(joints, "effort_limit"),
            "velocity_limit": of_joints(straight, "velocity_limit"),
            "low": of_joints(straight, "lower"),
            "high": of_joints(straight, "upper"),
            "braking": np.full(len(self.bounded), 50.0),
            "acceleration_weight": 1e-4,
            "force_weight": 1e-4,
        }
        self._infinite = {"effort_limit", "velocity_limit", "low", "high"}
        self._infinite |= {f"{support.name}.largest" for support in self.supports}
        parts = [(task.task.name, task.defaults) for task in self.tasks]
        parts += [(support.name, support.defaults) for support in self.supports]
        defaults |= merged(parts, "tasks or supports")
        return FlatLayout("parameter", defaults, needed=self._infinite)

    @property
    def _is_foreseen(self) -> bool:
        """Whether velocities or positions are limited."""
        return bool({"velocity", "position"} & {*self.limits}) and len(self.bounded) > 0

    # -- the equations, on symbols ------------------------------------------------------------------------

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

    def _problem(self, q: Array, v: Array, p: Array) -> dict[str, Array]:
        """The quadratic program at a state; then passive accelerations and efforts by its unknowns."""
        robot = self.robot
        named = self.layout.named(p)
        A, U = self.driven, self.passive
        m, n = len(A), len(A) + 3 * self.points
        # M a + h = tau + J^T f, with forces J^T F x_f of the unknowns x = (a_A, x_f)
        M = robot.mass_matrix(q)
        h = robot.bias(q, v, damping=True)
        holds = [support.equation(robot, q, v, named) for support in self.supports]
        parts = [
            product(J.T, support.forces(named, float(robot.mass)))
            for support, (_, _, J) in zip(self.supports, holds, strict=True)
        ]
        F = np.hstack([np.zeros((robot.nv, 0), int).astype(object), *parts])
        # rows of passive joints give their accelerations a_U = B x + c; those of driven ones tau = T x + t
        right = np.hstack([-M[np.ix_(U, A)], F[U], -h[U, None]])
        solved = solve(M[np.ix_(U, U)], right) if len(U) else right
        B, c = solved[:, :n], solved[:, n]
        M_AU = M[np.ix_(A, U)]
        T = np.hstack([M[np.ix_(A, A)], -F[A]]) + product(M_AU, B)
        t = h[A] + product(M_AU, c)

        def in_unknowns(J: Array, b: Array) -> tuple[Array, Array]:
            """J a = b as rows of x."""
            straight = np.hstack([J[:, A], np.zeros((len(J), n - m), int)])
            return straight + product(J[:, U], B), b - product(J[:, U], c)

        # equalities: supports and hard tasks first, then the others. Their weights are those of their slack.
        soft = [named["acceleration_weight"], named["force_weight"]]
        equations = [task.equation(q, v, named) for task in self.tasks]
        for task, (_, _, weight) in zip(self.tasks, equations, strict=True):
            soft += [] if task.task.hard else [*weight]
        scale = soft[0]
        for x in soft[1:]:
            scale = maximum(scale, x)
        rows = []
        for support, (J, b, _) in zip(self.supports, holds, strict=True):
            active = HARD * scale * named[f"{support.name}.active"]
            rows.append((*in_unknowns(J, b), active * np.ones(len(b))))
        for hard in (True, False):
            for task, (J, b, weight) in zip(self.tasks, equations, strict=True):
                if task.task.hard == hard:
                    rows.append((*in_unknowns(J, b), HARD * scale * weight if hard else weight))
        E, b, weights = stacked(rows, n)
        # inequalities: foreseen limits (hard), then efforts and cones (exact), one-sided rows last
        C: list[Array] = []
        low: list[Any] = []
        high: list[Any] = []
        unit = np.eye(n, dtype=int)
        if self._is_foreseen:
            C += [unit[np.searchsorted(A, i)] for i in self.bounded]
            ends = self._accelerations_within(q, v, named)
            low += [*ends[0]]
            high += [*ends[1]]
        foreseen = len(C)
        if "effort" in self.limits:
            C += [*T]
            low += [*(-named["effort_limit"] - t)]
            high += [*(named["effort_limit"] - t)]
        pyramids = []
        k = m
        for support in self.supports:
            largest = named[f"{support.name}.largest"] / float(robot.mass)
            for _ in support.points:
                C.append(unit[k + 2])
                low.append(0.0)
                high.append(largest)
                pyramids += [row @ unit[k : k + 3] for row in support.cone()]
                k += 3
        C += pyramids
        low += [-NONE] * len(pyramids)
        high += [0.0] * len(pyramids)
        weight_c = np.array([HARD * scale] * foreseen + [np.inf] * (len(C) - foreseen), dtype=object)
        costs = [named["acceleration_weight"]] * m + [named["force_weight"]] * (n - m)
        return {
            "H": np.diag(np.array(costs, dtype=object)),
            "g": np.zeros(n, int),
            "A": E,
            "b": b,
            "weight_a": weights,
            "C": np.array(C, dtype=object).reshape(-1, n),
            "l": np.array(low, dtype=object),
            "u": np.array(high, dtype=object),
            "weight_c": weight_c,
            "scale": np.array([scale], dtype=object),
            "passive": np.hstack([B, c[:, None]]),
            "efforts": np.hstack([T, t[:, None]]),
        }

    def _command(self, *arrays: Array) -> dict[str, Array]:
        """The command, from inputs, what was kept, and the minimum."""
        _, _, p, passive, efforts, x, _, _, slack, slack_limits, measures = arrays
        named = self.layout.named(p)
        measures = Measures(*measures)
        m = len(self.driven)
        tau = np.zeros(self.robot.nv, int).astype(object)
        a = np.zeros(self.robot.nv, int).astype(object)
        tau[self.driven] = product(efforts[:, :-1], x) + efforts[:, -1]
        a[self.driven] = x[:m]
        a[self.passive] = product(passive[:, :-1], x) + passive[:, -1]
        f = [np.zeros(0, int)]
        for support in self.supports:
            n = 3 * len(support.points)
            f.append(product(support.forces(named, float(self.robot.mass)), x[m : m + n]))
            m += n
        foreseen = len(self.bounded) if self._is_foreseen else 0
        rows = np.concatenate([slack[: len(self.rows) - foreseen], slack_limits[:foreseen]])
        return {
            "tau": tau,
            "a": a,
            "f": np.concatenate(f).reshape(self.points, 3),
            **verdict(rows, measures, SPARE),
        }

    def _minimizer(self) -> Minimizer:
        shapes = {"q": self.robot.nq, "v": self.robot.nv, "p": self.layout.size}
        before = trace(self._problem, shapes, "whole_body_problem")
        behind = shapes_behind(before, shapes, ("passive", "efforts"))
        after = trace(self._command, behind, "whole_body_command")
        # Rows of supports and hard tasks stay rows; the others, with moderate weights, belong to the cost.
        hard = len(self.rows) - (len(self.bounded) if self._is_foreseen else 0)
        return Minimizer("whole_body", before, after, self.iterations, TOLERANCE, behind["y"] - hard)

    # -- calls --------------------------------------------------------------------------------------------

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled controller, (q, v, parameters) -> the parts of `WholeBodyCommand`."""
        quaternions = tuple(("q", i, 4) for i in self.robot.group.quaternions)
        guard = Guard(("q", "v"), quaternions, poses=self.robot.group.poses)
        return Kernel(self._minimizer, guard=guard, doc=WholeBodyCommand.__doc__ or "")

    def pack(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        """The parameters as one array (..., size): defaults, and the values that are given by name."""
        return packed(self.layout, parameters)

    def __call__(
        self, q: Array, v: Array, parameters: Mapping[str, Any] | Array | None = None, *, threads: int = 1
    ) -> WholeBodyCommand:
        """The command in a state, or in many at once.

        q, v        configurations (..., nq) and velocities (..., nv)
        parameters  {name: value}, or an array of `pack`; None: defaults
        threads     that share a batch
        """
        p = read_parameters(self.layout, parameters, self.pack)
        q = floats("q", q, finite=False)
        v = vectors("v", v, self.robot.nv, finite=False)
        return WholeBodyCommand(*self.kernel(q, v, p, threads=threads))

    def export_c(
        self,
        folder: str | Path,
        parameters: Mapping[str, Any] | None = None,
        *,
        dtype: Any = np.float64,
    ) -> list[Path]:
        """Write the controller as C99 source, with a header, a self-test and a file for CMake.

            wb.export_c("out", {"base.target": T})

        parameters  {name: value} of the states in the self-test; None: defaults
        dtype       float64: numbers are `double`; float32: `float`

        The function `<robot>_whole_body(q, v, p, tau, a, f, slack, gap, status, iterations, work)` takes the
        array of `wb.pack` as p, and `work`, memory of the caller: nothing is allocated. It needs math.h and
        string.h. Iterations end as they do here, after `iterations` at most. States and parameters are not
        checked. The self-test compares it with the NumPy version in states near the neutral one, to 1e-9.
        Returns the paths.

        Interior points need digits that float32 does not have: the header states by how much its results
        differ from those of float64 in 100 states, and an `io.InaccurateFloats` warning comes where efforts
        differ by more than 1e-3 of the largest. The self-test then allows ten times as much, and leaves out
        results of which no digit is kept.

        Forces that only the small costs decide, as those of a foot with more than three points, have as many
        digits as these costs let them have: some 1e-5 of the weight may differ between processors.
        """
        # With the small costs at 1 all results are determined to as many digits as accelerations always are.
        p = self.pack({**(parameters or {}), "acceleration_weight": 1.0, "force_weight": 1.0})

        def sample(argument: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
            if argument == "p":
                return p
            if argument == "q":
                return self.robot.integrate(self.robot.neutral(), 0.3 * rng.standard_normal(self.robot.nv))
            return 0.3 * rng.standard_normal(shape)

        places = [f"{name}: from {place.start}" for name, place in self.layout.places.items()]
        about = About(["Parameters in p:", *places], sample=sample)
        return export_c(folder, self.robot.name, [self.kernel], dtype=dtype, about=about)
