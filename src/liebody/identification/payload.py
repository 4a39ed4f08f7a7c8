"""The payload that a robot holds, from efforts: mass, centre and inertia in one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..base.arguments import checked
from ..base.concurrency import cached_property
from ..base.errors import ModelError, known, positive
from ..bodies import SpatialInertia
from ..robot import Robot
from ..scalars import Array
from .consistency import Barrier, least_squares
from .inertias import PARAMETERS, parameters_of, pseudo_inertia, symmetric
from .linear import EffortSamples, broadcast, noise_of, weighted
from .linear_model import DIMENSIONS, LinearModel, of_body
from .results import Estimates

RADIUS = 0.1  # m: of a ball of 1 kg, near to which stays what the samples do not show


class Payload(Estimates):
    """A payload as it was estimated; made by `payload`.

    coordinates  m, h = m c, and the inertia about the frame's origin, in the axes of the frame (10,)
    values       {"mass", "center", "inertia"}: the inertia is about the centre: xx, xy, xz, yy, yz, zz
    deviations   likewise
    noise        standard deviations of the efforts (nv,), given or found
    bounded      whether the least squares belong to a body that cannot be; this is the nearest one that can
    """

    def __init__(
        self,
        robot: Robot,
        frame: str,
        x: Array,
        scales: Array,
        information: Array,
        residuals: Array,
        noise: Array,
        bounded: bool,
    ) -> None:
        numbers, D = of_body(x)
        values = {"mass": float(numbers[0]), "center": numbers[1:4], "inertia": numbers[4:]}
        super().__init__(x, PARAMETERS, scales, values, D, information, {"samples": {"tau": residuals}})
        self.noise = noise
        self.bounded = bounded
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
        return symmetric(self.values["inertia"])

    def _ended(self) -> str:
        return "; at the boundary of bodies that exist" if self.bounded else ""

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

    The parameters of the robot without the payload are known. The efforts beyond those of the robot are
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
    A = model.columns(samples.q, samples.v, samples.a)
    moved = np.array([parameters_of(placement @ pseudo_inertia(e) @ placement.T) for e in np.eye(10)])
    # Parameters in the frame are a linear function of those in the body's frame.
    A[..., : len(PARAMETERS)] = A[..., : len(PARAMETERS)] @ moved.T
    b = model.rest(samples.q, samples.v, samples.a, samples.tau, {})
    scales = np.array([RADIUS**k for k in DIMENSIONS] + [1.0] * (A.shape[-1] - len(PARAMETERS)))
    deviations = (
        noise_of(A, b, samples.tau, scales) if noise is None else broadcast("noise", noise, b.shape, robot.nv)
    )
    rows, y = weighted(A, b, deviations)
    ball = np.diag([RADIUS**2 / 5] * 3 + [1.0])[None]
    # Losses are not bounded here: they take what else is wrong with the robot, of either sign.
    x, bounded = least_squares(rows, y, scales, Barrier(ball, np.zeros(0, int), np.zeros(0)))
    count = len(PARAMETERS)
    # Losses are nuisance parameters: eliminate them from the information (Schur complement).
    rest, loads = rows[:, count:], rows[:, :count]
    if rest.shape[1]:
        loads = loads - rest @ np.linalg.lstsq(rest, loads, rcond=None)[0]
    return Payload(
        robot,
        frame,
        x[:count],
        scales[:count],
        loads.T @ loads,
        (b - A @ x) / deviations,
        np.mean(deviations, axis=0),
        bounded,
    )
