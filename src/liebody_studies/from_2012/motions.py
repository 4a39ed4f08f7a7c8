"""Motions of the study of From (2012): by a wrong formula, through the pole of three angles, in a fluid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from liebody import mechanisms, rigid_body_equations
from liebody.bodies import SpatialInertia
from liebody.groups import SE3, SO3, LieGroup, R
from liebody.integrators import solve_ivp
from liebody.mechanisms import BoltzmannHamel, RigidBody

from ..compare import Array
from .checks import duindam_stramigioli_2008
from .groups import off, random_matrix

FIXED_STEP, START = 0.02, -1.007  # of the top that passes the vertical at t = 0 [s]


def counter_example_symbols() -> tuple[Any, Any]:
    """-C omega of the formula of 2008 and of the right one on SO(3), principal axes, as SymPy columns."""
    e = rigid_body_equations(SO3)
    values = dict(zip(e.velocities, e.momentum, strict=True))
    wrong = -e.ad.subs(values, simultaneous=True).T  # (F-36)
    tidy = sympy.factor
    return (-wrong * e.v).applyfunc(tidy), (-e.C * e.v).applyfunc(tidy)


def counter_example_numbers() -> tuple[float, float, float]:
    """Deviation of its force, deviation from (F-36), and its power."""
    rng = np.random.default_rng(2008)
    force = claimed = power = 0.0
    for _ in range(20):
        M, v = random_matrix(rng, 6), rng.standard_normal(6)
        C = duindam_stramigioli_2008(SE3, M, v)
        force = max(force, off(C @ v, SE3.coad(M @ v) @ v))
        claimed = max(claimed, off(C, -SE3.ad(M @ v).T))
        power = max(power, abs(v @ C @ v))
    return force, claimed, power


def counter_example_motion() -> tuple[Array, dict[str, Array], dict[str, Array]]:
    """Energy of a free body on SE(3), and how far its angular momentum turns on SO(3), by both formulas."""
    J = SpatialInertia(1.0, np.array([0.1, -0.05, 0.2]), np.array([0.2, 0.5, 0.4])).matrix()
    top = RigidBody(SO3, np.diag([0.2, 0.5, 0.4]))
    bodies = {"SE3": RigidBody(SE3, J), "SO3": top}
    t = np.linspace(0, 4, 161)
    v0 = np.array([0.4, 0.9, 0.2, 0.6, -0.3, 0.5])
    start = np.r_[SO3.neutral(), v0[:3]]
    energy, momentum = {}, {}
    for key in ("right", "wrong"):

        def drift(body: RigidBody, v: Array, key: str = key) -> Array:
            M = body.mass_matrix
            C = body.coriolis(v) if key == "right" else duindam_closed(body.group, M, v)
            return -np.linalg.solve(M, C @ v)

        run = solve_ivp(lambda t, v, f=drift: f(bodies["SE3"], v), (0, 4), v0, R(6), t_eval=t, rtol=1e-8)
        energy[key] = np.einsum("ti,ij,tj->t", run.q, J, run.q) / (v0 @ J @ v0)
        turn = solve_ivp(
            lambda t, x, f=drift: np.r_[x[4:], f(bodies["SO3"], x[4:])],
            (0, 4), start, top.state_group, t_eval=t, rtol=1e-8,
        )  # fmt: skip
        L = np.array([SO3.element(x[:4]) @ top.mass_matrix @ x[4:] for x in turn.q])
        L = L / np.linalg.norm(L, axis=1, keepdims=True)
        momentum[key] = np.arctan2(np.linalg.norm(np.cross(L, L[0]), axis=1), L @ L[0])
    return t, energy, momentum


def duindam_closed(group: LieGroup, M: Array, v: Array) -> Array:
    """The formula of 2008 by its closed form (F-36), for integration."""
    return -group.ad(M @ v).T


def roll_pitch_yaw_accuracy() -> tuple[Array, dict[str, list[float]]]:
    """Errors of C at pitch pi/2 - delta from both transformations."""
    rng = np.random.default_rng(90)
    M, v = random_matrix(rng, 3), rng.standard_normal(3)
    truth = SO3.coad(M @ v)
    size = np.abs(truth).max()
    angles = BoltzmannHamel(mechanisms.roll_pitch_yaw_transformation, M)
    group = BoltzmannHamel(mechanisms.exponential_transformation(SO3), M)
    deltas = np.logspace(0, -9, 28)
    error: dict[str, list[float]] = {"angles": [], "group": []}
    for delta in deltas:
        x = np.array([0.4, math.pi / 2 - delta, 0.7])
        error["angles"].append(max(off(angles.coriolis(x, v), truth) / size, 1e-17))
        point = SO3.log(_attitude(x))
        error["group"].append(max(off(group.coriolis(point, v), truth) / size, 1e-17))
    return deltas, error


def roll_pitch_yaw_motion() -> tuple[Array, dict[str, list[int]], dict[str, list[float]], list[float]]:
    """A free top that passes the pole at a distance, in angles and on SO(3).

    Distances; steps under error control; final errors of the attitude with fixed steps; the greatest rate of
    an angle.
    """
    top = RigidBody(SO3, np.diag([0.2, 0.5, 0.4]))
    on_group = top.vector_field()
    angles = BoltzmannHamel(mechanisms.roll_pitch_yaw_transformation, top.mass_matrix)

    def in_angles(t: float, x: Array) -> Array:
        return np.r_[angles.rates(x[:3], x[3:]), top.acceleration(x[3:])]

    def attitude(key: str, x: Array) -> Array:
        return SO3.element(x[:4]) if key == "group" else _attitude(x[:3])

    misses = np.logspace(0, -6, 7)
    steps: dict[str, list[int]] = {"angles": [], "group": []}
    ends: dict[str, list[float]] = {"angles": [], "group": []}
    peak = []
    v0 = np.array([0.3, 0, 1.0])  # q = 0: the pitch is at rest
    for miss in misses:
        nearest = np.array([0, math.pi / 2 - miss, 0])  # at t = 0
        peak.append(float(np.abs(angles.rates(nearest, v0)).max()))
        x0 = np.r_[SO3.coordinates(_attitude(nearest)), v0]
        begin, end = (
            solve_ivp(on_group, (0, t), x0, top.state_group, rtol=1e-11, atol=1e-12).q[-1] for t in (START, 1)
        )
        start = np.r_[_angles_of(SO3.element(begin[:4])), begin[4:]]
        both = ("group", on_group, begin, top.state_group), ("angles", in_angles, start, R(6))
        for key, field, x, group in both:
            free = solve_ivp(field, (START, 1), x, group, rtol=1e-8, atol=1e-8)
            fixed = solve_ivp(field, (START, 1), x, group, method="rkmk4", dt=FIXED_STEP).q[-1]
            steps[key].append(free.steps + free.rejected)
            turn = SO3.log(SO3.element(end[:4]).T @ attitude(key, fixed))
            ends[key].append(float(np.linalg.norm(turn)))
    return misses, steps, ends, peak


def _attitude(x: Array) -> Array:
    """R = Rz(yaw) Ry(pitch) Rx(roll)."""
    roll, pitch, yaw = (SO3.exp(angle * e) for angle, e in zip(x, np.eye(3), strict=True))
    return yaw @ pitch @ roll


def _angles_of(rotation: Array) -> Array:
    """Roll, pitch and yaw of R."""
    (a, _, _), (b, _, _), (c, y, z) = rotation
    return np.array([math.atan2(y, z), math.atan2(-c, math.hypot(y, z)), math.atan2(b, a)])


@dataclass(frozen=True)
class Fluid:
    """The ellipsoid: moment over the angle of attack, beside Munk's formula; a motion and what it keeps."""

    attack: Array
    moment: Array
    munk: Array
    t: Array
    heading: Array
    impulse_drift: float
    energy_drift: float


def fluid(semi_axes: Sequence[float] = (1.0, 0.35, 0.35), density: float = 1000.0) -> Fluid:
    """A neutrally buoyant ellipsoid in an ideal fluid."""
    a = np.asarray(semi_axes, dtype=float)
    mass = 4 / 3 * math.pi * density * a.prod()
    I = mass / 5 * np.array([a[1] ** 2 + a[2] ** 2, a[2] ** 2 + a[0] ** 2, a[0] ** 2 + a[1] ** 2])
    water = mechanisms.ellipsoid_added_mass(semi_axes, density)
    dry, lift = SpatialInertia(mass, rotational=I), (mass, np.zeros(3))
    body = RigidBody(SE3, dry, added_mass=water, buoyancy=lift)
    M = body.mass_matrix
    attack = np.linspace(0, math.pi / 2, 91)
    velocities = [np.array([0, 0, 0, math.cos(x), math.sin(x), 0]) for x in attack]
    moment = np.array([-(body.coriolis(v) @ v)[2] for v in velocities])
    munk = np.array([(M[3, 3] - M[4, 4]) * v[3] * v[4] for v in velocities])

    start = np.r_[SE3.neutral(), 0, 0, 0.01, 1, 0, 0]
    t = np.linspace(0, 60, 301)
    field = body.vector_field(gravity=(0, 0, -9.81))
    run = solve_ivp(field, (0, 60), start, body.state_group, t_eval=t, rtol=1e-8, atol=1e-9)
    T = [SE3.element(x[:7]) for x in run.q]
    heading = np.unwrap([math.atan2(g[1, 0], g[0, 0]) for g in T])
    impulse = np.array([SE3.Ad(SE3.inverse(g)).T @ M @ x[7:] for g, x in zip(T, run.q, strict=True)])
    energy = np.array([body.kinetic_energy(x[7:]) for x in run.q])
    return Fluid(
        attack, moment, munk, t, heading,
        float(np.abs(impulse - impulse[0]).max() / np.abs(impulse[0]).max()),
        float(np.abs(energy / energy[0] - 1).max()),
    )  # fmt: skip
