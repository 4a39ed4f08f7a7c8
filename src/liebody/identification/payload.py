"""The payload that a robot holds, from efforts: mass, centre and inertia in one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..base.arguments import checked
from ..base.concurrency import cached_property
from ..base.errors import ModelError, ShapeError, known, positive
from ..bodies import PARAMETERS, SpatialInertia, matrix_of, moved_parameters
from ..robot import Robot
from ..scalars import Array
from .consistency import Barrier
from .inertias import body_of_parameters
from .linear import EffortSamples, EffortSystem, LinearSolution
from .linear_model import DIMENSIONS, LinearModel
from .results import EffortEstimates

RADIUS = 0.1  # m: of a ball of 1 kg, near to which stays what the samples do not show


class Payload(EffortEstimates):
    """A payload as it was estimated; made by `payload`.

    coordinates  m, h = m c, and the inertia about the frame's origin, in the axes of the frame (10,)
    values       {"mass", "center", "inertia"}: the inertia is about the centre: xx, xy, xz, yy, yz, zz
    deviations   likewise
    noise        standard deviations of the efforts (nv,), given or found
    bounded      whether the least squares belong to a body that cannot be; this is the nearest one that can
    """

    def __init__(self, robot: Robot, frame: str, scales: Array, solution: LinearSolution) -> None:
        numbers, D = body_of_parameters(solution.x)
        values = {"mass": float(numbers[0]), "center": numbers[1:4], "inertia": numbers[4:]}
        super().__init__(
            solution.x, PARAMETERS, scales, values, D, solution.information,
            {"samples": {"tau": solution.residuals}}, noise=solution.noise, bounded=solution.bounded,
        )  # fmt: skip
        self._robot = robot
        self._frame = frame

    @property
    def mass(self) -> float:
        """[kg]"""
        return float(self.values["mass"])

    @property
    def center(self) -> np.ndarray:
        """In the frame, (3,)                                                                          [m]"""
        return np.asarray(self.values["center"])

    @property
    def inertia(self) -> np.ndarray:
        """About the centre, in the axes of the frame, (3, 3)                                      [kg m2]"""
        return matrix_of(self.values["inertia"])

    @cached_property
    def robot(self) -> Robot:
        """The robot with the payload, as `Robot.with_payload` makes it."""
        return self._robot.with_payload(self._frame, SpatialInertia(self.mass, self.center, self.inertia))


@checked
def payload(
    robot: Robot,
    frame: str,
    q: Array,
    v: Array,
    a: Array,
    tau: Array,
    *,
    losses: str | Iterable[str] = (),
    noise: Any = None,
    v_s: float = 1e-2,
) -> Payload:
    """Estimate mass, centre and inertia of the payload that a robot holds at a frame, or a body.

        load = lb.identification.payload(robot, "tool0", q, v, a, tau)
        print(load)                                # with standard deviations
        load.mass, load.center, load.robot

    The parameters of the robot without the payload are known. The efforts beyond the robot's efforts are
    linear in the payload's ten parameters. The estimate is physically consistent. Parameters that the samples
    do not determine have infinite deviations: samples at rest determine mass and centre only in part, and
    the inertia not at all.

    q, v, a, tau, noise, v_s   as in `linear`
    losses                     terms of all joints to estimate as well, as in `linear`

    Raises ModelError for an unknown frame, and what `linear` raises.

    Atkeson, An and Hollerbach (1986), "Estimation of inertial parameters of manipulator loads and links".
    """
    tree = robot.tree
    bodies = {body.name: body for body in tree.bodies}
    if frame in tree.frames and tree.frames[frame].body:
        body = tree.bodies[tree.frames[frame].body - 1]
        placement = np.asarray(tree.frames[frame].placement, float)
    elif frame in bodies:
        body, placement = bodies[frame], np.eye(4)
    else:
        raise ModelError(
            f"robot {robot.name!r} has no moving frame {frame!r}; {known([*tree.frames, *bodies], frame)}"
        )
    model = LinearModel(robot, body.name, losses, positive("v_s", v_s))
    samples = EffortSamples(robot, q, v, a, tau)
    if samples.shape:
        raise ShapeError(f"q, v, a and tau have leading axes {samples.shape}, expected one recording")
    count = len(PARAMETERS)
    # Parameters in the body's frame are a linear function of those in the frame that holds the payload.
    moved = moved_parameters(placement)

    def placed(columns: Array) -> Array:
        return np.concatenate([columns[..., :count] @ moved, columns[..., count:]], axis=-1)

    scales = np.array([RADIUS**k for k in DIMENSIONS] + [1.0] * len(model.terms))
    system = EffortSystem(model, samples, {}, noise, placed=placed)
    ball = np.diag([RADIUS**2 / 5] * 3 + [1.0])[None]
    # Losses are not bounded here: they take what else is wrong with the robot, of either sign.
    unbounded = Barrier(ball, np.zeros(0, int), np.zeros(0))
    (solution,) = system.solutions(np.zeros(len(scales)), scales, lambda *_: unbounded)
    return Payload(robot, frame, scales[:count], _of_load(solution, count))


def _of_load(solution: LinearSolution, count: int) -> LinearSolution:
    """Without the losses, which come after the first `count` unknowns: they are nuisance parameters.

    They are eliminated from the information (Schur complement).
    """
    loads, losses = solution.rows[:, :count], solution.rows[:, count:]
    if losses.shape[1]:
        loads = loads - losses @ np.linalg.lstsq(losses, loads, rcond=None)[0]
    return solution._replace(x=solution.x[:count], information=loads.T @ loads)
