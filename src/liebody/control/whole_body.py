"""Whole-body control: joint efforts and contact forces at each instant, by a quadratic program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, count, floats, vectors
from ..base.concurrency import Sendable, cached_property
from ..base.errors import ConfigurationError, ModelError, known, positive
from ..bodies import Body
from ..compiler import ACTIVE_SET, INTERIOR_POINT, FlatLayout, Kernel, Minimizer, Otherwise, trace
from ..groups import Free
from ..io import About
from ..io.c_export import export_c
from ..mechanisms.constrained import ClosedTree
from ..robot import Robot
from ..scalars import Array, where
from .task_programs import (
    bounded,
    checked_limits,
    checked_solver,
    guard_of,
    layout_behind,
    merged,
    most_iterations,
    packed,
    read_parameters,
    robot_of,
    shapes_behind,
)
from .whole_body_element import ElementController, WholeBodyElement
from .whole_body_program import WholeBodyProgram, legs
from .whole_body_tasks import MotionTask, SizedTask, Support

TOLERANCE = 1e-9  # of the quadratic program; a command whose errors are within it has never the status 2
ITERATIONS_OF_LEGS = 20  # of the program without accelerations of legs; then the other one takes over
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


class ClosedBodyCommand(NamedTuple):
    """The command for a robot with closed loops: the parts of `WholeBodyCommand`, and multipliers.

    multipliers  of the closures (..., nc), in the order of `ClosedTree`: M a + h = tau + J^T f - J_c^T x
    """

    tau: Any
    a: Any
    f: Any
    slack: Any
    gap: Any
    status: Any
    iterations: Any
    multipliers: Any


class ActiveSetCommand(NamedTuple):
    """A `WholeBodyCommand` of the solver "active-set", and what the next call starts from.

    iterations  changes of the active set (...)
    active      limits, then cones (..., k): 1 at its lower bound, -1 at its upper one, 0 at none
    """

    tau: Any
    a: Any
    f: Any
    slack: Any
    gap: Any
    status: Any
    iterations: Any
    active: Any


class ClosedActiveSetCommand(NamedTuple):
    """An `ActiveSetCommand` for a robot with closed loops, with `multipliers` as of `ClosedBodyCommand`."""

    tau: Any
    a: Any
    f: Any
    slack: Any
    gap: Any
    status: Any
    iterations: Any
    multipliers: Any
    active: Any


Command = WholeBodyCommand | ClosedBodyCommand | ActiveSetCommand | ClosedActiveSetCommand


class WholeBody(Sendable, ElementController):
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

    robot     with a fixed or a floating base, or a `ClosedTree`; its free parameters are parameters of the
              controller. Tasks of a closed tree are made with `lb.Robot(closed.tree)`
    tasks     `MotionTask`s, hard ones among them
    supports  `Support`s, all that may ever carry; parameters switch them in each call
    limits    which limits are kept, of "effort", "velocity", "position". The joints' own are defaults
    actuated  names of driven joints; None: all but free ones. Others have no effort
    horizon   time over which velocities and positions are foreseen: a few control periods              [s]
    iterations  of the interior point method at most (None: 40), or of the active set's changes
    tolerance   of the solver's errors of stationarity, rows and gap, relative to their terms
    solver      "interior-point", or "active-set": fewer operations in single calls of large robots, above all
                from the command before. Errors are near round-off then, whatever the tolerance is

    A call takes parameters by name, a value for all states or one for each: those that tasks and supports
    declare, and

        effort_limit, velocity_limit, low, high   of the driven coordinates (m,), in the order of `actuated`
        braking                                   deceleration by which joints can stop before low and high
        acceleration_weight, force_weight         small costs that make a and f unique
        loop_damping                              of what velocity opens loops, of a closed tree         [1/s]

    Free parameters of the robot (`robot.with_parameters`) keep their names, such as "link6.mass", and act in
    all equations. Tasks made with the plain robot see its own values. Nothing is compiled anew for new
    values. `wb.pack` makes one array of them, which calls take faster.

    The unknowns are accelerations of the driven joints, and forces. Accelerations of the others, such as a
    free base, follow from their rows of the equations of motion, whose matrix is always regular; so nothing
    is divided by near straight legs. Efforts of zero and forces inside of the cones are always possible:
    equations of motion, cones and effort limits never contradict each other.

    Closed loops add their multipliers to the unknowns, at the cost of forces, and J a + dJ/dt v = 0, which is
    exact: there is no slack. Closures may depend on each other, as closures of planar loops in space do; that
    cost then chooses among the multipliers. The command has them, in a `ClosedBodyCommand`.

    Where each support has its own driven joints, as many as rows, and no task is hard, a program of forces
    alone is solved first: supports determine the accelerations of their legs, and are held exactly. If it has
    no solution, or a leg is nearly straight, the program of all unknowns follows in the same call.

    Hard rows weigh a million times as much as the largest other weight. Where they contradict each other or
    the exact rows, `slack` and `status` tell what gives way, and other tasks are accurate to some 1e-3 of it.

    The gap is at most `tolerance` times the terms of the cost. Efforts that only `force_weight` decides, such
    as those that press two feet together, have few digits if this weight is small: for ANYmal on four feet
    they differ from a dual active set method by 0.08 N m in the median with 1e-9, and by 2e-6 N m with 1e-13,
    which takes three iterations more. So small a tolerance is below round-off in some states. The best point
    found is the command then, solved if its errors are within 1e-9; `gap` tells how small it is.

        wb = WholeBody(robot, tasks, feet, tolerance=1e-13)             # efforts to more digits

    A limit of position is kept if after the horizon the joint can still stop before it, with the
    deceleration `braking`: Del Prete (2018), "Joint position and velocity bounds in discrete-time
    acceleration/torque control of robot arms", IEEE Robotics and Automation Letters 3.

    Errors: ModelError for unknown joints and names, for two tasks or supports of one name, for impossible
    values of free parameters, and for closures that move with time; IntegrationError for a horizon or a
    tolerance that is not positive; ConfigurationError for an unknown solver, and, as ShapeError, for states
    that cannot be.
    """

    @checked
    def __init__(
        self,
        robot: Robot | ClosedTree,
        tasks: Sequence[MotionTask],
        supports: Sequence[Support] = (),
        *,
        limits: Sequence[str] = LIMITS,
        actuated: Sequence[str] | None = None,
        horizon: float = 0.01,
        iterations: int | None = None,
        tolerance: float = TOLERANCE,
        solver: str = INTERIOR_POINT,
    ) -> None:
        self.loops = robot if isinstance(robot, ClosedTree) else None
        self.robot = robot_of(robot) if isinstance(robot, ClosedTree) else robot
        self.horizon = positive("horizon", horizon)
        self.limits = checked_limits(limits, LIMITS)
        self.solver = checked_solver(solver)
        self.iterations = None if iterations is None else count("iterations", iterations)
        self.tolerance = positive("tolerance", tolerance)
        joints = self._joints = self._driven(actuated)
        self.actuated = [body.joint.name for body in joints]
        self.driven = np.array([i for body in joints for i in body.places], int)
        self.passive = np.setdiff1d(np.arange(self.robot.nv), self.driven)
        self.tasks: list[SizedTask] = [task.sized(self.robot) for task in tasks]
        self.supports = list(supports)
        for support in self.supports:
            self.robot.tree.frame(support.frame)
        self.points = sum(len(support.points) for support in self.supports)
        # Joints whose coordinate is their angle or length have limits of velocity and position.
        straight, self.bounded, self.coordinates = bounded(self.robot, joints)
        self.layout = self._layout(joints, straight)
        self.rows = [] if self.loops is None else [f"closure[{i}]" for i in range(self.loops.nc)]
        self.rows += [f"{support.name}[{i}]" for support in self.supports for i in range(support.rows)]
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

        own: dict[str, Any] = {
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
        if self.loops is not None:
            own["loop_damping"] = 10.0
        parts = [(task.task.name, task.defaults) for task in self.tasks]
        parts += [(support.name, support.defaults) for support in self.supports]
        own |= merged(parts, "tasks or supports")
        return layout_behind((self.loops or self.robot).layout, own, self._infinite, self.robot.name)

    @property
    def _is_foreseen(self) -> bool:
        """Whether velocities or positions are limited."""
        return bool({"velocity", "position"} & {*self.limits}) and len(self.bounded) > 0

    def _program(self, of_legs: Mapping[int, np.ndarray]) -> WholeBodyProgram:
        parts = self.robot, self.tasks, self.supports, self.layout, self.horizon, self.limits
        places = self.driven, self.bounded, self.coordinates
        # A smaller tolerance may be below round-off; what would be solved by default is still solved then.
        accepted = TOLERANCE if self.tolerance < TOLERANCE else 0.0
        return WholeBodyProgram(*parts, *places, self._is_foreseen, of_legs, accepted, self.loops)

    def _minimizer(self, of_legs: Mapping[int, np.ndarray], **options: Any) -> Minimizer:
        program = self._program(of_legs)
        name = "legs" if of_legs else "body"
        shapes = {"q": self.robot.nq, "v": self.robot.nv, "p": self.layout.size}
        before = trace(program.problem, shapes, f"whole_{name}_problem")
        kept = "follow", "efforts", "regular"
        behind = shapes_behind(before, shapes, kept)
        command = program.command
        if self.solver == ACTIVE_SET:
            shapes["start"] = len(before.outputs["l"])
            before = trace(lambda q, v, p, start: program.problem(q, v, p), shapes, f"whole_{name}_problem")
            behind = shapes_behind(before, shapes, kept)
            options |= {"method": ACTIVE_SET, "start": "start"}

            def command(q: Array, v: Array, p: Array, start: Array, *rest: Array) -> dict[str, Array]:
                # multipliers of the limits have the sign of the side on which a limit is active: the start of
                # the next call
                z = rest[list(behind).index("z") - len(shapes)]
                sides = [where(x > 0, 1.0, where(x < 0, -1.0, 0.0)) for x in z]
                return {**program.command(q, v, p, *rest), "active": np.array(sides, dtype=object)}

        after = trace(command, behind, f"whole_{name}_command")
        if options.get("iterations") is None:
            size = program.unknowns + program.held + behind["z"]
            options["iterations"] = most_iterations(None, self.solver, size)
        # Rows of supports and hard tasks stay rows; the others, with moderate weights, belong to the cost.
        return Minimizer(
            "whole_body",
            before,
            after,
            tolerance=self.tolerance,
            folded=behind["y"] - program.held,
            **options,
        )

    def _minimizers(self) -> Minimizer:
        """The program of all unknowns, or of forces alone with that one behind it.

        Rows that keep a large weight lose digits to that elimination, so there may be no hard tasks.
        """
        whole = self._minimizer({}, iterations=self.iterations)
        # where the program of forces alone fails, or needs slack, `otherwise` solves that of all unknowns
        own = legs(self.robot, self._joints, self.supports)
        if not own or self.loops is not None or any(task.task.hard for task in self.tasks):
            return whole
        iterations = self.iterations
        if self.solver == INTERIOR_POINT:
            iterations = min(iterations or ITERATIONS_OF_LEGS, ITERATIONS_OF_LEGS)
        try:
            return self._minimizer(own, iterations=iterations, otherwise=Otherwise(whole, "status"))
        except ConfigurationError:  # a leg whose joints never move its support in all directions
            return whole

    # -- calls --------------------------------------------------------------------------------------------

    @property
    def _command(self) -> type[Command]:
        """The type of commands; its fields are the outputs of the kernel."""
        if self.solver == ACTIVE_SET:
            return ActiveSetCommand if self.loops is None else ClosedActiveSetCommand
        return WholeBodyCommand if self.loops is None else ClosedBodyCommand

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled controller, (q, v, parameters) -> the parts of a command; `start` behind parameters.

        Only controllers with the solver "active-set" have a start.
        """
        guard = guard_of(self.loops or self.robot, self.layout, "q", "v")
        return Kernel(self._minimizers, guard=guard, doc=self._command.__doc__ or "")

    def pack(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        """The parameters as one array (..., size): defaults, and the values that are given by name."""
        return packed(self.layout, parameters)

    def __call__(
        self,
        q: Array,
        v: Array,
        parameters: Mapping[str, Any] | Array | None = None,
        *,
        start: ActiveSetCommand | ClosedActiveSetCommand | Array | None = None,
        threads: int = 1,
    ) -> Command:
        """The command in a state, or in many at once.

        q, v        configurations (..., nq) and velocities (..., nv)
        parameters  {name: value}, or an array of `pack`; None: defaults
        start       for the active set: the command of a state nearby, or its `active`; None: without one
        threads     that share a batch

            wb = WholeBody(robot, tasks, feet, solver="active-set")
            u = None
            while True:
                u = wb(q, v, p, start=u)
        """
        p = read_parameters(self.layout, parameters, self.pack)
        q = floats("q", q, finite=False)
        v = vectors("v", v, self.robot.nv, finite=False)
        if self.solver == INTERIOR_POINT:
            if start is not None:
                raise ConfigurationError('an interior point method has no start; use solver="active-set"')
            return self._command(*self.kernel(q, v, p, threads=threads))
        size = self.kernel.inputs["start"][0]
        active = start.active if isinstance(start, ActiveSetCommand | ClosedActiveSetCommand) else start
        active = np.zeros(size) if active is None else vectors("start", active, size)
        return self._command(*self.kernel(q, v, p, active, threads=threads))

    def element(
        self,
        period: float = 1e-3,
        reference: Callable[..., Mapping[str, Any]] | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        name: str = "wb",
    ) -> WholeBodyElement:
        """The controller within a simulation: a command in each period, held until the next one.

            system = TimeStepping(robot, wb.element(2e-3), Contact(feet))

        Arguments as of `WholeBodyElement`.
        """
        return WholeBodyElement(self, period, reference, parameters, name=name)

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
        checked. With the solver "active-set" it takes `start` behind p, zeros or the last `active`, and gives
        `active` behind iterations. The self-test compares it with the NumPy version in states near the
        neutral one, to 1e-9. With closed loops `multipliers` come behind iterations. Returns the paths.

        An active set is exported in float64 only: GraphError. Interior points need digits that float32 does
        not have: the header states by how much its results differ from float64 results in 100 states, and an
        `io.InaccurateFloats` warning comes where efforts differ by more than 1e-3 of the largest. The
        self-test then allows ten times as much, and leaves out results of which no digit is kept.

        Results differ from a call in Python by as much as they change with the last digits of q and v,
        because sums have another order: by some 1e-14 of the largest entry in most states. Forces that only
        the small costs decide, such as forces at a foot with more than three points, have as many digits as
        these costs let them have: some 1e-5 of the weight may differ between processors.
        """
        # With the small costs at 1 all results are determined to as many digits as accelerations always are.
        p = self.pack({**(parameters or {}), "acceleration_weight": 1.0, "force_weight": 1.0})

        def sample(argument: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
            if argument == "p":
                return p
            if argument == "start":
                return np.zeros(shape)
            if argument == "q":
                return self.robot.integrate(self.robot.neutral(), 0.3 * rng.standard_normal(self.robot.nv))
            return 0.3 * rng.standard_normal(shape)

        places = [f"{name}: from {place.start}" for name, place in self.layout.places.items()]
        about = About(["Parameters in p:", *places], sample=sample)
        return export_c(folder, self.robot.name, [self.kernel], dtype=dtype, about=about)
