"""The apex map of a hopper in the plane, whose base has the joints of a leg.

It takes the state at the top of a hop to that at the top of the next. Where it is along x does not matter,
and c_y' = 0 at an apex: a state is x = (c_y, c_x', theta, omega, q_j, q_j') with the angles of the joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from liebody import Robot
from liebody.runs import EventLog

from ..compare import Array


def centre(model: Robot, q: Array, v: Array) -> tuple[Array, Array]:
    """Place and velocity of the centre of mass, (..., 2)."""
    J = model.center_of_mass_jacobian(q)
    return model.center_of_mass(q)[..., [0, 2]], (J @ v[..., None])[..., [0, 2], 0]


def leg(model: Robot, q: Array) -> tuple[Array, Array]:
    """Length and angle from the centre of mass to the foot; the angle from straight down, ahead positive."""
    r = model.pose(q, "foot")[..., :3, 3] - model.center_of_mass(q)
    return np.hypot(r[..., 0], r[..., 2]), np.arctan2(r[..., 0], -r[..., 2])


def reduce(model: Robot, q: Array, v: Array) -> Array:
    """The coordinates x of states at apexes."""
    c, u = centre(model, q, v)
    return np.concatenate([c[..., 1:], u[..., :1], q[..., :1], v[..., :1], q[..., 3:], v[..., 3:]], axis=-1)


def expand(model: Robot, x: Array) -> tuple[Array, Array]:
    """The state (q, v) of an apex at c_x = 0."""
    x, joints = np.asarray(x, float), model.nv - 3
    zero, turning = np.zeros_like(x[..., :1]), x[..., 3:4]
    angles, rates = x[..., 4 : 4 + joints], x[..., 4 + joints :]
    q = np.concatenate([x[..., 2:3], zero, zero, angles], axis=-1)
    q[..., 1:3] = np.concatenate([zero, x[..., :1]], axis=-1) - model.center_of_mass(q)[..., [0, 2]]
    J = model.center_of_mass_jacobian(q)[..., [0, 2], :]
    rest = np.concatenate([x[..., 1:2], zero], axis=-1) - J[..., 0] * turning
    u = np.linalg.solve(J[..., 1:3], (rest - (J[..., 3:] @ rates[..., None])[..., 0])[..., None])
    return q, np.concatenate([turning, u[..., 0], rates], axis=-1)


def next_apex(log: EventLog) -> EventLog:
    """The first apex after the first touch-down, or none."""
    down, apex = log.of("floor_foot", -1), log.of("apex")
    return apex.where(np.flatnonzero(apex.t > down.t[0])[:1] if len(down) else [])


def eigenvalues(J: Array) -> Array:
    """Of derivatives of the map, the largest first: multipliers."""
    values = np.linalg.eigvals(J)
    return np.take_along_axis(values, np.argsort(-np.abs(values), axis=-1), axis=-1)


@dataclass(frozen=True)
class Hops:
    """Images of the apex map: x (n, d), periods [s], strides [m]; NaN where there was no second apex.

    touches: how often the foot touched down in between, bounces included
    """

    x: Array
    period: Array
    stride: Array
    touches: Array


def images(model: Robot, events: Sequence[EventLog], size: int) -> Hops:
    """What the hops of an ensemble lead to, by its events; `size` of x."""
    n = len(events)
    found = Hops(np.full((n, size), np.nan), np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, int))
    for k, log in enumerate(events):
        top = next_apex(log)
        if len(top):
            found.x[k], found.period[k] = reduce(model, top.q[0], top.v[0]), top.t[0]
            found.stride[k] = centre(model, top.q[0], top.v[0])[0][0]
            found.touches[k] = np.count_nonzero(log.of("floor_foot", -1).t < top.t[0])
    return found
