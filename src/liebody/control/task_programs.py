"""Quadratic programs of tasks: the parts that whole-body control and differential kinematics share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import count, vectors
from ..base.errors import ConfigurationError, ModelError, known
from ..bodies import Body
from ..compiler import INTERIOR_POINT, METHODS, FlatLayout, Function, Guard, Measures
from ..mechanisms.constrained import ClosedTree
from ..robot import Robot
from ..scalars import Array, maximum, where
from .whole_body_tasks import NONE

ITERATIONS = 40  # of an interior point method, at most, unless a number is given
SOLVED, SLACK, UNFINISHED = range(3)  # the status of a command
Rows = Iterable[tuple[Array, Array, Array]]


def layout_behind(free: FlatLayout, own: Mapping[str, Any], needed: Iterable[str], robot: str) -> FlatLayout:
    """Parameters of a controller behind the free ones of its robot, where the guard of a robot expects these.

    Raises ModelError for a name that both have.
    """
    for name in free.defaults:
        if name in own:
            raise ModelError(
                f"{robot} has a free parameter {name!r}, and so has its controller; give the task, the "
                "support, the clearance or the parameter another name"
            )
    return FlatLayout("parameter", {**free.defaults, **own}, free.checks, {*needed, *free.needed})


def guard_of(mechanism: Robot | ClosedTree, layout: FlatLayout, *states: str) -> Guard:
    """The guard of a controller: states are finite and within their group, free parameters are possible.

    layout  of the controller's parameters "p"
    """
    group = mechanism.tree.group
    quaternions = tuple(("q", i, 4) for i in group.quaternions)
    guard = Guard(states, quaternions, poses=group.poses)
    if not mechanism.layout.size:
        return guard
    return replace(mechanism.guarded(guard, "p"), labels={"p": tuple(layout.entries)})


def robot_of(closed: ClosedTree) -> Robot:
    """The tree of a robot with closed loops, with the free parameters that are the tree's.

    Raises ModelError for closures that move with time.
    """
    if closed.is_driven:
        raise ModelError(
            f"{closed.name} has constraints that move with time, and a controller does not know the time; "
            "make it without drives"
        )
    robot = Robot(closed.tree, closed.gravity)
    free = closed.layout.defaults.items()
    own = {name: x for name, x in free if name in robot.parameters or name.isidentifier()}
    return robot.with_parameters(own) if own else robot


class RobotAt:
    """A robot at values of its free parameters: its methods with these values, and its mass.

    flat  (np,), symbols of a trace
    """

    def __init__(self, robot: Robot, flat: Array) -> None:
        self._robot = robot
        self._flat = flat
        self.nv = robot.nv
        self.mass = robot.at(flat)[0].mass

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(self._robot, name), parameters=self._flat)


def robot_at(robot: Robot, named: Mapping[str, Any]) -> Any:
    """The robot at its parameters among all of a controller, by name; the robot itself if it has none."""
    if not robot.layout.size:
        return robot
    return RobotAt(robot, robot.layout.write([named[name] for name in robot.layout.defaults]))


def checked_limits(limits: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The limits to keep; raises ModelError for others than `names`."""
    for name in limits:
        if name not in names:
            raise ModelError(f"there is no limit {name!r}; {known(names, name)}")
    return tuple(limits)


def checked_solver(solver: str) -> str:
    """The solver of a quadratic program; raises ConfigurationError for others than METHODS."""
    if solver not in METHODS:
        raise ConfigurationError(f"there is no solver {solver!r}; {known(METHODS, solver)}")
    return solver


def most_iterations(iterations: int | None, solver: str, size: int) -> int:
    """The largest number of iterations for a program of so many unknowns and rows, if none is given."""
    if iterations is not None:
        return count("iterations", iterations)
    return ITERATIONS if solver == INTERIOR_POINT else 5 * size + 100


def bounded(robot: Robot, bodies: Iterable[Body]) -> tuple[list[Body], np.ndarray, np.ndarray]:
    """Bodies whose joints have angles or lengths as coordinates, and so limits; their places in v, in q."""
    straight = [body for body in bodies if body.joint.dim == body.joint.nq]
    places = np.array([i for body in straight for i in body.places], int)
    coordinates = np.array([i for body in straight for i in range(robot.nq)[body.coordinates]], int)
    return straight, places, coordinates


def merged(parts: Iterable[tuple[str, Mapping[str, Any]]], kinds: str) -> dict[str, Any]:
    """The defaults of all parts (name, defaults); `kinds` says what the parts are.

    Raises ModelError for two parts of one name.
    """
    defaults: dict[str, Any] = {}
    for name, own in parts:
        if defaults.keys() & own.keys():
            raise ModelError(f"there are two {kinds} {name!r}; give one of them another name")
        defaults |= own
    return defaults


def packed(layout: FlatLayout, parameters: Mapping[str, Any] | None) -> np.ndarray:
    """The parameters as one array (..., size): defaults, and the values that are given by name.

    Infinite limits become large numbers. Raises ModelError for unknown names and NaN.
    """
    given = dict(parameters or {})
    layout.check(given)
    batch = np.broadcast_shapes(*layout.batches(given).values())
    flat = layout.values(given, batch)
    for name in layout.defaults:
        if np.isnan(flat[..., layout.places[name]]).any():
            raise ModelError(f"parameter {name} is nan, expected numbers")
    return np.clip(flat, -NONE, NONE)


def read_parameters(
    layout: FlatLayout,
    parameters: Mapping[str, Any] | Array | None,
    pack: Callable[[Mapping[str, Any] | None], np.ndarray],
) -> np.ndarray:
    """The parameters of a call as one array: packed from names, or checked if they are an array."""
    if parameters is None or isinstance(parameters, Mapping):
        return pack(parameters)
    flat: np.ndarray = vectors("parameters", parameters, layout.size)
    return flat


def stacked(rows: Rows, unknowns: int) -> tuple[Array, Array, Array]:
    """Equalities (J, b, weight) one below the other, of `unknowns` columns; there may be none."""
    parts = list(zip(*rows, strict=True)) or [(), (), ()]
    J, b, weight = (
        np.concatenate([np.zeros((0, *empty), int), *part])
        for empty, part in zip(((unknowns,), (), ()), parts, strict=True)
    )
    return J, b, weight


def verdict(rows: Array, measures: Measures, spare: float, accepted: float = 0.0) -> dict[str, Array]:
    """Slack, gap, status and iterations of a command: SLACK if a row misses by more than `spare`.

    accepted  errors of the solver that count as converged, also where they are above its own tolerance
    """
    converged = measures.solved
    if accepted:
        error = maximum(maximum(measures.dual, measures.primal), measures.gap)
        converged = where(error <= accepted, 1.0, converged)
    worst: Any = 0.0
    for x in rows:
        worst = maximum(worst, abs(x))
    status = where(worst > spare, float(SLACK), float(SOLVED)) if len(rows) else float(SOLVED)
    return {
        "slack": rows,
        "gap": np.asarray(measures.gap, dtype=object),
        "status": np.asarray(where(converged > 0, status, float(UNFINISHED)), dtype=object),
        "iterations": np.asarray(measures.iterations, dtype=object),
    }


def shapes_behind(problem: Function, shapes: Mapping[str, Any], kept: Iterable[str]) -> dict[str, Any]:
    """Shapes of what a command is computed from: inputs, results of `problem` that are kept, the minimum."""
    sizes = [len(problem.outputs[x]) for x in ("g", "b", "l", "b", "l")]
    solution = dict(zip(("x", "y", "z", "slack_a", "slack_c"), sizes, strict=True))
    own = {key: problem.outputs[key].shape for key in kept}
    return {**shapes, **own, **solution, "measures": len(Measures._fields)}
