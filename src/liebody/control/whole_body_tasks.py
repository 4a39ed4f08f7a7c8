"""Tasks and supports of whole-body controllers, and tasks of differential inverse kinematics."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import checked, count, floats, wrong_shape
from ..base.errors import ModelError
from ..compiler import Expr, FlatLayout, trace
from ..groups import SE3, SO3, along_group
from ..robot import Robot
from ..scalars import Array
from ..scalars.linear import product

# Parameters that each task has, beside its own: in whole-body control, and in differential kinematics.
ACCELERATION = ("kp", "kd", "weight", "rate", "acceleration")
VELOCITY = ("gain", "weight", "rate", "levenberg")
LEVENBERG = 1e-3  # damping of velocities in units of weight times squared error, unless a call says otherwise
NONE = 1e30  # a limit that is none


class MotionTask:
    """A function y(q, v, p) of the state that a controller brings to zero.

    A function of q alone is a task of second order, one of v of first order. With the values that the
    parameters of the task have in a call, the controller looks for accelerations with

        d2y/dt2 = acceleration - kd (dy/dt - rate) - kp y      or      dy/dt = rate - kp y

    `DifferentialIK` looks for velocities with dy/dt = rate - gain y, and y = 0 for a function of v.

        MotionTask.pose(robot, "base", kp=100.0, weight=10.0)
        MotionTask("height", lambda q, v, p: robot.center_of_mass(q)[2:] - p.z, {"z": 0.5}, kp=50.0)

    name        of the task: its parameters are name.kp, name.kd, name.weight, name.rate, name.acceleration
    function    (q, v, p) -> y (k,), made of NumPy operators, `liebody.scalars` and methods of robots; p has
                the parameters of the task as attributes, and the free parameters of the robot, so that
                `robot.pose(q, frame, parameters=p)` is the pose at their values
    parameters  {name: value by default}, numbers or arrays of any shape; they become name.word
    kp          stiffness of the error, a number or (k,)                                         [1/s2 or 1/s]
    kd          damping of its rate, a number or (k,); None: 2 sqrt(kp), without overshoot               [1/s]
    gain        of the error in `DifferentialIK`, a number or (k,); None: sqrt(kp), by which errors vanish as
                fast as with kp and without overshoot, or 1 where kp is zero                             [1/s]
    weight      of the squared error of accelerations, a number or (k,); 0 switches the task off
    hard        whether the task comes before all that are not hard. Its weight counts among hard tasks

    `rate` and `acceleration` (k,) are zero by default: feed forward for references that move.
    """

    @checked
    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Mapping[str, Any] | None = None,
        *,
        kp: Any = 0.0,
        kd: Any = None,
        gain: Any = None,
        weight: Any = 1.0,
        hard: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.own = dict(parameters or {})
        self.hard = hard
        for word in self.own:
            if word in (*ACCELERATION, *VELOCITY):
                raise ModelError(f"task {name!r} has a parameter {word!r}, which each task has; rename it")
        kp = floats("kp", kp)
        if (kp < 0).any():
            raise ModelError(f"kp of task {name!r} is {kp.min():g}, expected zero or more")
        kd = 2 * np.sqrt(kp) if kd is None else floats("kd", kd)
        gain = np.where(kp > 0, np.sqrt(kp), 1.0) if gain is None else floats("gain", gain)
        if (gain < 0).any():
            raise ModelError(f"gain of task {name!r} is {gain.min():g}, expected zero or more")
        weight = floats("weight", weight)
        if (weight < 0).any():
            raise ModelError(f"weight of task {name!r} is {weight.min():g}, expected zero or more")
        self.gains = {"kp": kp, "kd": kd, "gain": gain, "weight": weight}

    def __repr__(self) -> str:
        return f"MotionTask({self.name!r}{', hard' if self.hard else ''})"

    def sized(self, robot: Robot) -> SizedTask:
        """The task of one robot, with its function traced."""
        return SizedTask(self, robot)

    @classmethod
    def pose(cls, robot: Robot, frame: str, **options: Any) -> MotionTask:
        """y = log(T_d^-1 T(q)), (6,), angular part first: the pose of a frame; parameter `target` (4, 4)."""
        return cls(
            frame,
            partial(_pose_error, robot, frame),
            {"target": robot.pose(robot.neutral(), frame)},
            **options,
        )

    @classmethod
    def orientation(cls, robot: Robot, frame: str, **options: Any) -> MotionTask:
        """y = log(R_d^T R(q)), (3,): the orientation of a frame; parameter `target` (3, 3)."""
        return cls(
            frame,
            partial(_orientation_error, robot, frame),
            {"target": robot.pose(robot.neutral(), frame)[:3, :3]},
            **options,
        )

    @classmethod
    def position(cls, robot: Robot, frame: str, **options: Any) -> MotionTask:
        """y = x(q) - x_d, (3,): the origin of a frame in the world; parameter `target` (3,)."""
        return cls(
            frame,
            partial(_position_error, robot, frame),
            {"target": robot.pose(robot.neutral(), frame)[:3, 3]},
            **options,
        )

    @classmethod
    def center_of_mass(cls, robot: Robot, **options: Any) -> MotionTask:
        """y = c(q) - c_d, (3,); parameter `target` (3,)."""
        return cls(
            "center_of_mass",
            partial(_center_of_mass_error, robot),
            {"target": robot.center_of_mass(robot.neutral())},
            **options,
        )

    @classmethod
    def momentum(cls, robot: Robot, **options: Any) -> MotionTask:
        """y = h(q, v) - h_d, (6,): the momentum about the centre of mass, of first order; `target` (6,)."""
        return cls(
            "momentum",
            partial(_momentum_error, robot),
            {"target": np.zeros(6)},
            **options,
        )

    @classmethod
    def posture(cls, robot: Robot, **options: Any) -> MotionTask:
        """y = coordinates of joints with one degree of freedom, less `target`, (k,), in their order."""
        joints = [b for b in robot.tree.bodies if b.joint.mimic is None and b.joint.dim == b.joint.nq == 1]
        places = [b.coordinates.start for b in joints]
        return cls(
            "posture",
            partial(_posture_error, places),
            {"target": robot.neutral()[places]},
            **options,
        )


# Functions of the ready-made tasks. They are no lambdas, so that controllers can be pickled.


def values_of(robot: Robot, p: Any) -> Any:
    """The argument `parameters` for the methods of a robot: p if the robot has free ones, otherwise None."""
    return p if robot.layout.size else None


def _pose_error(robot: Robot, frame: str, q: Array, v: Array, p: Any) -> Array:
    T = robot.pose(q, frame, parameters=values_of(robot, p))
    return SE3.log(SE3.compose(SE3.inverse(p.target), T))


def _orientation_error(robot: Robot, frame: str, q: Array, v: Array, p: Any) -> Array:
    return SO3.log(p.target.T @ robot.pose(q, frame, parameters=values_of(robot, p))[:3, :3])


def _position_error(robot: Robot, frame: str, q: Array, v: Array, p: Any) -> Array:
    return robot.pose(q, frame, parameters=values_of(robot, p))[:3, 3] - p.target


def _center_of_mass_error(robot: Robot, q: Array, v: Array, p: Any) -> Array:
    return robot.center_of_mass(q, parameters=values_of(robot, p)) - p.target


def _momentum_error(robot: Robot, q: Array, v: Array, p: Any) -> Array:
    return robot.centroidal_momentum(q, v, parameters=values_of(robot, p)) - p.target


def _posture_error(places: Sequence[int], q: Array, v: Array, p: Any) -> Array:
    return q[places] - p.target


def layout_of(
    what: str, function: Callable[..., Any], arguments: Sequence[str], own: Mapping[str, Any], robot: Robot
) -> FlatLayout:
    """The parameters p that a function reads: its own, and behind them the free ones of the robot.

    what       the function in messages, such as "task 'reach'"
    arguments  that it takes

    Raises ModelError for other arguments, and for a parameter of its own that the robot has, too.
    """
    for word in own:
        if word in robot.layout.defaults:
            raise ModelError(
                f"{what} has a parameter {word!r}, which is a free parameter of {robot.name}; rename it"
            )
    layout = FlatLayout("parameter", {**own, **robot.layout.defaults}, needed=robot.layout.needed)
    signature = inspect.signature(function)
    if len(signature.parameters) != len(arguments):
        raise ModelError(f"{what} takes {signature}, expected ({', '.join(arguments)})")
    return layout


class SizedTask:
    """A task of one robot: its size k, its order, and its rates on symbols."""

    def __init__(self, task: MotionTask, robot: Robot) -> None:
        self.task = task
        self.robot = robot
        self.layout = layout_of(f"task {task.name!r}", task.function, ("q", "v", "p"), task.own, robot)
        self.shapes = {"q": robot.nq, "v": robot.nv, "p": self.layout.size}
        traced = trace(self._value, self.shapes, "task")
        (y,) = traced.outputs.values()
        if y.ndim != 1 or not y.size:
            raise wrong_shape(f"task {task.name!r}", y.shape, "one axis, (k,)")
        self.size = y.size
        # A function without v is one of positions: its second derivative has the accelerations. A function of
        # v has them in its first derivative.
        moving = set(traced.inputs["v"].flat)
        self.second = not any(
            x in moving for node in traced.nodes for x in (node, *node.args) if _is_input(x)
        )
        for name, gain in task.gains.items():
            if gain.shape not in ((), (self.size,)):
                raise wrong_shape(f"{name} of task {task.name!r}", gain.shape, f"a number or ({self.size},)")
        zeros = np.zeros(self.size)
        gains = {**task.gains, "rate": zeros, "acceleration": zeros, "levenberg": LEVENBERG}
        self.defaults = self._named({**{word: gains[word] for word in ACCELERATION}, **task.own})
        # an equation of velocities is met at once: it has neither gain nor rate
        words = VELOCITY if self.second else ("weight",)
        self.velocity_defaults = self._named({**{word: gains[word] for word in words}, **task.own})

    def _named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{self.task.name}.{word}": x for word, x in values.items()}

    def _parameters(self, named: Mapping[str, Any]) -> Array:
        """The flat parameters of the function: first the task's own, then the robot's."""
        own = [named[f"{self.task.name}.{word}"] for word in self.task.own]
        return self.layout.write([*own, *(named[name] for name in self.robot.layout.defaults)])

    def _value(self, q: Array, v: Array, p: Array) -> Array:
        return np.atleast_1d(np.asarray(self.task.function(q, v, self.layout.read(p))))

    def equation(self, q: Array, v: Array, named: Mapping[str, Any]) -> tuple[Array, Array, Array]:
        """J (k, nv), b (k,) and weights (k,) of the task's J a = b, on symbols.

        named  all parameters by their names
        """
        own = {word: named[f"{self.task.name}.{word}"] for word in ACCELERATION}
        p = self._parameters(named)
        group = self.robot.group
        y = self._value(q, v, p)
        if self.second:
            # d2y/dt2 = J a + the second derivative along q exp(s v), on which the acceleration is zero
            moved = along_group(self._value, self.shapes, {"q": group}, name="task")
            along = moved.jvp()
            J = moved.jacobian()(q, v, p)
            first = along_group(lambda q, v, p: along(q, v, p, v), self.shapes, {"q": group}, name="rate")
            bias = first.jvp()(q, v, p, v)
            b = own["acceleration"] - own["kd"] * (product(J, v) - own["rate"]) - own["kp"] * y - bias
        else:
            # dy/dt = J a + the derivative along q exp(s v) with v held
            J = along_group(self._value, self.shapes, {"v": None}, name="task").jacobian()(q, v, p)
            bias = along_group(self._value, self.shapes, {"q": group}, name="task").jvp()(q, v, p, v)
            b = own["rate"] - own["kp"] * y - bias
        return J, b, own["weight"] * np.ones(self.size)

    def velocity_equation(self, q: Array, named: Mapping[str, Any]) -> tuple[Array, Array, Array, Array]:
        """y (k,) at rest, J (k, nv), b (k,) and weights (k,) of the task's J v = b, on symbols.

        named  all parameters by their names
        """
        name = self.task.name
        p = self._parameters(named)
        rest = np.zeros(self.robot.nv, int)
        y = self._value(q, rest, p)
        if self.second:
            moved = along_group(self._value, self.shapes, {"q": self.robot.group}, name="task")
            J = moved.jacobian()(q, rest, p)
            b = named[f"{name}.rate"] - named[f"{name}.gain"] * y
        else:
            # linear in v: y(v) = y + J v, which is to be zero
            J = along_group(self._value, self.shapes, {"v": None}, name="task").jacobian()(q, rest, p)
            b = -y
        return y, J, b, named[f"{name}.weight"] * np.ones(self.size)

    def check_linear(self) -> None:
        """Raises ModelError if the function is not linear in v."""
        if self.second:
            return
        # linear if the derivative by v does not depend on v
        by_v = along_group(self._value, self.shapes, {"v": None}, name="task").jacobian()
        slopes = trace(lambda q, v, p: by_v(q, v, p), self.shapes, "slopes")
        moving = set(slopes.inputs["v"].flat)
        if any(x in moving for node in slopes.nodes for x in (node, *node.args) if _is_input(x)):
            raise ModelError(
                f"task {self.task.name!r} is not linear in v; differential kinematics takes functions of q, "
                "and functions that are linear in v, such as a momentum"
            )


def _is_input(x: Any) -> bool:
    return type(x) is Expr and x.op == "input"


class Support:
    """Points of a frame that may press on the ground: a foot, the ends of an edge, the corners of a sole.

    While active, the points do not accelerate: the frame is held by six rows of three or more points, the
    points themselves by three rows each. Forces f act on the points. With the axes of the ground (t1, t2, n)
    they obey |(f_t1, f_t2)| <= friction f_n by a pyramid inside of the cone, and 0 <= f_n <= largest.

        Support("LF_FOOT")                                       # a point
        Support.sole("left_sole", 0.2, 0.1)                      # four corners

    frame   a frame or body of the robot
    points  (k, 3) in the frame's axes                                                                    [m]
    facets  of the pyramid, 3 or more
    name    of the support; None: the frame's

    Parameters of a call, by name: name.active, 1 or 0; name.friction; name.largest, of each point [N];
    name.ground (3, 3), whose columns are t1, t2, n in the world; name.damping of what velocity is left [1/s].
    Forces of an inactive support are exactly zero, and so are tangential ones without friction.
    """

    @checked
    def __init__(
        self,
        frame: str,
        points: Any = ((0.0, 0.0, 0.0),),
        *,
        friction: float = 0.7,
        facets: int = 4,
        damping: float = 10.0,
        name: str | None = None,
    ) -> None:
        self.frame = frame
        self.name = frame if name is None else name
        self.points = floats("points", points)
        if self.points.ndim != 2 or self.points.shape[1] != 3 or not len(self.points):
            raise wrong_shape("points", self.points.shape, "(k, 3)")
        self.facets = count("facets", facets, 3)
        self.defaults = {
            f"{self.name}.active": 1.0,
            f"{self.name}.friction": friction,
            f"{self.name}.largest": np.inf,
            f"{self.name}.ground": np.eye(3),
            f"{self.name}.damping": damping,
        }

    @classmethod
    def sole(cls, frame: str, length: float, width: float, **options: Any) -> Support:
        """A rectangle in the x-y plane of a frame, about its origin."""
        corners = [[x * length / 2, y * width / 2, 0.0] for x in (1, -1) for y in (1, -1)]
        return cls(frame, corners, **options)

    @classmethod
    def edge(cls, frame: str, first: Sequence[float], last: Sequence[float], **options: Any) -> Support:
        """The line between two points of a frame."""
        return cls(frame, [first, last], **options)

    def __repr__(self) -> str:
        return f"Support({self.name!r}, {len(self.points)} points)"

    @property
    def rows(self) -> int:
        """How many rows hold the support."""
        return 6 if len(self.points) > 2 else 3 * len(self.points)

    def equation(
        self, robot: Any, q: Array, v: Array, named: Mapping[str, Any]
    ) -> tuple[Array, Array, Array]:
        """J (rows, nv), b (rows,) with J a = b while it holds, and J (3 points, nv) of its points."""
        T = robot.pose(q, self.frame)
        J = robot.jacobian(q, self.frame)
        V = product(J, v)
        A = product(robot.jacobian_rate(q, v, self.frame), v)
        R = T[:3, :3]
        jacobians = []
        velocities = []
        accelerations = []
        for r in self.points:
            # x = p + R r moves with R (v + omega x r), of which the rate is taken with a = 0
            jacobians.append(product(R, J[3:] - product(SO3.hat(r), J[:3])))
            u = V[3:] + np.cross(V[:3], r)
            velocities.append(product(R, u))
            accelerations.append(product(R, A[3:] + np.cross(A[:3], r) + np.cross(V[:3], u)))
        of_points = np.concatenate(jacobians)
        damping = named[f"{self.name}.damping"]
        if len(self.points) > 2:
            return J, -A - damping * V, of_points
        b = -np.concatenate(accelerations) - damping * np.concatenate(velocities)
        return of_points, b, of_points

    def forces(self, named: Mapping[str, Any], mass: Any) -> Array:
        """(3 points, 3 points): forces in the world, of unknowns inside of the cone |(x, y)| <= z.

        Friction and activity scale the unknowns, so that the cone is the same for all of their values.
        """
        friction = named[f"{self.name}.friction"]
        unit = named[f"{self.name}.active"] * mass
        columns = named[f"{self.name}.ground"] * np.array([friction, friction, 1], dtype=object) * unit
        n = len(self.points)
        blocks = np.zeros((3 * n, 3 * n), int).astype(object)
        for k in range(0, 3 * n, 3):
            blocks[k : k + 3, k : k + 3] = columns
        return blocks

    def cone(self) -> Array:
        """(facets, 3): rows c of the pyramid c (x, y, z) <= 0 inside of the cone |(x, y)| <= z."""
        angles = 2 * math.pi * (np.arange(self.facets) + 0.5) / self.facets
        rows = np.stack(
            [np.cos(angles), np.sin(angles), np.full(self.facets, -math.cos(math.pi / self.facets))]
        )
        return np.where(np.abs(rows.T) < 1e-15, 0.0, rows.T)
