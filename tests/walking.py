"""A robot that walks on legs of three slides, and what its sensors measure: exact, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import liebody as lb
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.groups import SE3, Free, Prismatic, quaternions

GRAVITY = np.array([0, 0, -9.81])
HIPS = np.array([[0.3, 0.2, -0.1], [0.3, -0.2, -0.1], [-0.3, 0.2, -0.1], [-0.3, -0.2, -0.1]])
IMU = SE3.exp([0.3, -0.2, 0.5, 0.1, 0.05, -0.02])  # of the frame "imu" on the base


def crab(legs: int, placement=None) -> lb.Robot:
    """A base with legs of three slides: the joints of a leg are the place of its foot, seen from its hip."""
    tree = TreeBuilder("crab")
    tree.add("trunk", Free(), SpatialInertia.box(8.0, [0.6, 0.4, 0.1]), placement=placement)
    tree.frame("imu", "trunk", IMU)
    for leg, hip in enumerate(HIPS[:legs]):
        parent, place = "trunk", hip
        for axis, name in zip(np.eye(3), "xyz", strict=True):
            body = f"foot{leg}" if name == "z" else f"leg{leg}_{name}"
            tree.add(body, Prismatic(axis), SpatialInertia.point(0.2), parent=parent, placement=place)
            parent, place = body, np.zeros(3)
    return lb.Robot(tree.build())


def skew(u):
    """[u] (..., 3, 3)."""
    return np.moveaxis(np.cross(np.asarray(u)[..., None, :], np.eye(3)), -1, -2)


def gamma(m, u):
    """Sum of [u]^k/(k + m)! (..., 3, 3): the integrals of exp([u])."""
    U = skew(u)
    term = np.broadcast_to(np.eye(3), U.shape) / [1, 1, 2][m]
    total = term
    for k in range(1, 60):
        term = U @ term / (k + m)
        total = total + term
    return total


def advanced(R, v, p, omega, f, dt):
    """R, v, p after dt of a constant angular velocity and specific force, both in the axes of the body."""
    u = omega * dt
    v_next = v + GRAVITY * dt + times(R @ gamma(1, u), f) * dt
    p_next = p + v * dt + GRAVITY * dt**2 / 2 + times(R @ gamma(2, u), f) * dt**2
    return R @ gamma(0, u), v_next, p_next


def times(A, x):
    return np.einsum("...ij,...j->...i", A, x)


@dataclass
class Walk:
    """States at all times, (steps + 1, ...), and the measurements of the steps, (steps, ...)."""

    q: np.ndarray
    twist: np.ndarray
    bias: np.ndarray
    feet: np.ndarray
    gyroscope: np.ndarray
    accelerometer: np.ndarray
    joints: np.ndarray
    touching: np.ndarray


def walk(legs, steps, dt, rng, lanes=(), noise=None, start=None, imu=IMU):
    """A walk in the style of a trot. `noise`: densities as floats by name, or None for exact measurements.

    start  deviations (15,) of the true start from the nominal one, (theta, dv, dp, db_g, db_a)
    """
    of = dict.fromkeys(("gyroscope", "accelerometer", "gyroscope_bias", "accelerometer_bias"), 0.0)
    of |= {"contact": 0.0, "encoder": 0.0, **(noise or {})}

    def draw(deviation, *shape):
        return deviation * rng.standard_normal((*lanes, *shape))

    R = gamma(0, draw(0 if start is None else start[:3], 3))
    v, p = np.array([0.5, 0.1, 0.0]) + draw(0, 3), np.array([1.0, -2.0, 0.5]) + draw(0, 3)
    bias = np.zeros((*lanes, 6))
    if start is not None:
        v, p, bias = v + draw(start[3:6], 3), p + draw(start[6:9], 3), bias + draw(start[9:], 6)
    d = np.zeros((*lanes, legs, 3))
    standing = np.zeros(legs, bool)
    record = {name: [] for name in Walk.__annotations__}
    R_imu, r = imu[:3, :3], imu[:3, 3]
    phases = rng.uniform(0, 2 * np.pi, 6)

    def note(omega):
        """The state of the base, from that of the IMU."""
        R_base = R @ R_imu.T
        of_base = times(np.swapaxes(R_base, -1, -2), v) - np.cross(times(R_imu, omega), r)
        record["q"].append(np.concatenate([quaternions(R_base), p - times(R_base, r)], axis=-1))
        record["twist"].append(np.concatenate([times(R_imu, omega), of_base], axis=-1))
        record["bias"].append(bias)
        record["feet"].append(d)

    note(np.zeros((*lanes, 3)))
    for k in range(steps):
        t = k * dt
        omega = np.array([0.8, 0.6, 0.5]) * np.sin(np.array([9, 7, 3]) * t + phases[:3])
        wanted = np.array([1.5, 1.0, 2.0]) * np.sin(np.array([5, 4, 11]) * t + phases[3:])
        omega = np.broadcast_to(omega, (*lanes, 3))
        f = times(np.swapaxes(R, -1, -2), wanted - GRAVITY)
        record["gyroscope"].append(omega + bias[..., :3] + draw(of["gyroscope"] / np.sqrt(dt), 3))
        record["accelerometer"].append(f + bias[..., 3:] + draw(of["accelerometer"] / np.sqrt(dt), 3))
        R, v, p = advanced(R, v, p, omega, f, dt)
        walks = [draw(of[f"{name}_bias"] * np.sqrt(dt), 3) for name in ("gyroscope", "accelerometer")]
        bias = bias + np.concatenate(walks, axis=-1)
        # legs stand in turn; one that comes down is placed below its hip
        touching = np.array([(t * 2 + leg / 2) % 1 < 0.7 for leg in range(legs)])
        R_base = R @ R_imu.T
        base = p - times(R_base, r)
        below = base[..., None, :] + np.einsum("...ij,lj->...li", R_base, HIPS[:legs] + [0, 0, -0.4])
        slipped = d + draw(of["contact"] * np.sqrt(dt), legs, 3)
        d = np.where((standing & touching)[:, None], slipped, below)
        standing = touching
        seen = np.einsum("...ji,...lj->...li", R_base, d - base[..., None, :]) - HIPS[:legs]
        seen = seen.reshape(*lanes, 3 * legs)
        record["joints"].append(seen + draw(of["encoder"], 3 * legs))
        record["touching"].append(touching)
        note(omega)
    return Walk(**{name: np.array(rows) for name, rows in record.items()})


def configuration(state, joints):
    """q of the crab, from the place of its base and its joints."""
    return np.concatenate([state, joints], axis=-1)
