"""What is misprinted or too strong in Mueller and Terze (2013), each with a number; its equations, checked.

Every function computes; the page of `mueller_terze` says what it means.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Any

import numpy as np

from ..groups import (
    SE3,
    SO3,
    Cylindrical,
    Helical,
    MotionSubgroup,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Product,
    R,
    Revolute,
    Schoenflies,
    SO3xR3,
    SpatialTranslation,
    Spherical,
)
from ..integrators import solve_ivp
from ..linear import skew
from .mueller_terze_runs import (
    ARM,
    FLOATING,
    GROUPS,
    HEAVY,
    PENDULUM,
    STEP,
    Setup,
    Trajectory,
    double_pendulum,
    floating_pair,
    printed_dexp_inverse,
    setup,
)

Array = Any

# -- equations, as printed ----------------------------------------------------------------------------------


def _solved(M: Array, J: Array, Q: Array, eta: Array) -> tuple[np.ndarray, np.ndarray]:
    """dV/dt and lambda of (3)."""
    n = len(M)
    K = np.block([[M, J.T], [J, np.zeros((len(J), len(J)))]])
    x = np.linalg.solve(K, np.concatenate([Q, eta]))
    return x[:n], x[n:]


def printed_accelerations(key: str, q: Array, v: Array) -> np.ndarray:
    """dV/dt by (40), (42), (50) with (53), or (61) with (64), with the masses that the weights need."""
    w, u = v.reshape(-1, 6)[:, :3], v.reshape(-1, 6)[:, 3:]
    Rs = [np.asarray(SO3.element(x[:4]), float) for x in q.reshape(-1, 7)]
    one, zero = np.eye(3), np.zeros((3, 3))

    def swing(i: int, r: Array) -> Array:
        return np.cross(w[i], np.cross(w[i], r))

    top = key in ("(40)", "(42)")
    Theta, m = (
        (np.diag([0.36, 0.306, 0.09]), 21.6) if top else (np.diag([0.0028125, 0.0095625, 0.01125]), 2.7)
    )
    turning = [-np.cross(x, Theta @ x) for x in w]
    M = np.kron(np.eye(len(w)), np.block([[Theta, zero], [zero, m * one]]))
    if key == "(40)":
        J, eta = np.hstack([skew(ARM), one]), -swing(0, ARM) + np.cross(w[0], u[0])
        return _solved(M, J, np.concatenate([turning[0], -m * np.cross(w[0], u[0])]), eta)[0]
    if key == "(42)":
        J, eta = np.hstack([Rs[0] @ skew(ARM), one]), Rs[0] @ swing(0, ARM)
        return _solved(M, J, np.concatenate([turning[0], np.zeros(3)]), eta)[0]
    r0, r10, r20, g = np.array([-0.1, 0, 0]), np.array([0.1, 0, 0]), np.array([-0.1, 0, 0]), [0, 0, -9.81]
    if key == "(50), (53)":
        J = np.block(
            [
                [skew(r0), -one, zero, zero],
                [Rs[0] @ skew(r10), -Rs[0], -Rs[1] @ skew(r20), Rs[1]],
            ]
        )
        first = np.cross(w[0], u[0]) + swing(0, r0)
        second = Rs[0] @ (swing(0, r10) + np.cross(w[0], u[0])) - Rs[1] @ (
            swing(1, r20) + np.cross(w[1], u[1])
        )
        forces = [m * Rs[i].T @ g - m * np.cross(w[i], u[i]) for i in range(2)]
    else:
        J = np.block(
            [[Rs[0] @ skew(r0), -one, zero, zero], [Rs[0] @ skew(r10), -one, -Rs[1] @ skew(r20), one]]
        )
        first = Rs[0] @ swing(0, r0)
        second = Rs[0] @ swing(0, r10) - Rs[1] @ swing(1, r20)
        forces = [m * np.asarray(g)] * 2
    Q = np.concatenate([turning[0], forces[0], turning[1], forces[1]])
    return _solved(M, J, Q, np.concatenate([first, second]))[0]


def equation_checks(seed: int = 0) -> list[tuple[str, str, float]]:
    """(number, what, largest deviation): the printed equations of motion beside the library's."""
    rng, found = np.random.default_rng(seed), []
    for key, example, group, what in (
        ("(40)", HEAVY, "SE3", r"heavy top on $SE(3)$"),
        ("(42)", HEAVY, "SO3xR3", r"heavy top on $SO(3)\times\mathbb{R}^3$"),
        ("(50), (53)", PENDULUM, "SE3", r"double pendulum on $SE(3)$, with $m_i$ in the weights"),
        ("(61), (64)", PENDULUM, "SO3xR3", r"double pendulum on $SO(3)\times\mathbb{R}^3$, the same"),
    ):
        system = setup(example, group).system
        q = system.moved(system.guess, rng.standard_normal(system.nv))
        q = system.assemble(q)
        v = system.consistent_velocities(q, 5 * rng.standard_normal(system.nv))
        exact = system.accelerations(q, v)[0]
        off = np.abs(printed_accelerations(key, q, v) - exact).max() / np.abs(exact).max()
        found.append((key, what, float(off)))
    return found


# -- dexp ---------------------------------------------------------------------------------------------------


def series_of_dexp_inverse(u: Array, terms: int = 30) -> np.ndarray:
    """sum of B_k ad^k/k!, for |omega| < 2 pi: the definition."""
    ad = np.asarray(SE3.ad(u), float)
    numbers = [1.0]
    for k in range(1, terms):
        numbers.append(
            -sum(numbers[j] / (factorial(j) * factorial(k + 1 - j)) for j in range(k)) * factorial(k)
        )
    result, power = np.zeros((6, 6)), np.eye(6)
    for k, B in enumerate(numbers):
        result += B / factorial(k) * power
        power = power @ ad
    return result


def cancellation(angles: Array) -> list[tuple[float, float, float]]:
    """(angle, error of (10) as printed, of `SE3.dexp_inverse`), for |v| = 1."""
    axis, v = np.array([2.0, -1.0, 2.0]) / 3, np.array([1.0, 2.0, 2.0]) / 3
    rows = []
    for angle in angles:
        u = np.concatenate([angle * axis, v])
        exact = series_of_dexp_inverse(u)
        ours = np.abs(np.asarray(SE3.dexp_inverse(u), float) - exact).max()
        rows.append((float(angle), float(np.abs(printed_dexp_inverse(u) - exact).max()), float(ours)))
    return rows


def state_dexp(seed: int = 4) -> tuple[float, float]:
    """Deviation of (34) from the derivative of exp on SO(3) x R^3 x R^6, as printed and with A''."""
    rng, group = np.random.default_rng(seed), Product(SO3xR3, R(6))
    x, y = rng.standard_normal((2, 12))
    h = 1e-4
    forward, back = (np.asarray(group.exp(x + s * h * y), float) for s in (1, -1))
    derivative = group.vee((forward - back) @ np.asarray(group.inverse(group.exp(x)), float)) / (2 * h)
    right = np.concatenate([np.asarray(SO3xR3.dexp(x[:6]), float) @ y[:6], y[6:]])
    printed = np.concatenate([right[:6], x[6:]])
    return float(np.abs(printed - derivative).max()), float(np.abs(right - derivative).max())


def printed_velocity_constraint(seed: int = 1) -> tuple[float, float]:
    """|J V| of (61) with the body-fixed v_i that it names, and with v_i^s  [m/s]."""
    rng = np.random.default_rng(seed)
    system = setup(PENDULUM, "SO3xR3").system
    q = system.assemble(system.moved(system.guess, rng.standard_normal(system.nv)))
    v = system.consistent_velocities(q, 5 * rng.standard_normal(system.nv))
    J = system.jacobian(q)
    literal = v.copy()
    for i, x in enumerate(q.reshape(-1, 7)):
        literal[6 * i + 3 : 6 * i + 6] = np.asarray(SO3.element(x[:4]), float).T @ v[6 * i + 3 : 6 * i + 6]
    return float(np.abs(J @ literal).max()), float(np.abs(J @ v).max())


# -- statements ---------------------------------------------------------------------------------------------


@cache
def weight_without_mass() -> tuple[float, float]:
    """Energy change over T(0) after 1 s of the double pendulum with F_i = R_i^T g, and with m_i R_i^T g."""
    place = setup(PENDULUM, "SE3")
    literal, v = double_pendulum(place.groups, 9.81 / 2.7)
    from ..simulate import simulate

    run = simulate(literal, literal.guess, v, t_end=1.0, dt=STEP, stabilization="none", record_every=STEP)
    found = Trajectory(place.system, run.t, run.q, run.v)
    return float(np.abs(found.drift[-1])), float(np.abs(place.run().drift[-1]))


@cache
def weight_of_the_top() -> float:
    """Change of the top's kinetic energy over T(0) in 1 s, if gravity acted."""
    from ..bodies import SpatialInertia
    from ..constrained import SystemBuilder
    from ..simulate import simulate

    builder = SystemBuilder("top").body("top", SpatialInertia(21.6, rotational=[0.36, 0.306, 0.09]), ARM)
    builder.joint("pivot", Spherical(), "world", "top", on_child=-ARM)
    system = builder.build()
    v = setup(HEAVY, "SE3").v
    run = simulate(system, v0=v, t_end=1.0, dt=STEP, stabilization="none", record_every=STEP)
    return float(np.abs(run.kinetic - run.kinetic[0]).max() / run.kinetic[0])


@cache
def common_drift(
    speed: float, direction: tuple[float, float, float] = (1.0, 0.0, 0.0)
) -> dict[str, tuple[float, float]]:
    """For each group, violation [m] and energy change [J] in 1 s of the floating pair that drifts."""
    found = {}
    for group in GROUPS:
        place = Setup(FLOATING, group)
        place.system, place.v = floating_pair(place.groups, [speed * x for x in direction])
        run = place.run()
        found[group] = float(run.worst.max()), float(np.abs(run.energy - run.energy[0]).max())
    return found


Z, POINT, PITCH = (0.0, 0.0, 1.0), (0.3, -0.2, 0.1), 0.2
SUBGROUPS: dict[str, MotionSubgroup] = {
    r"$SO(2)$, revolute": Revolute(Z, POINT),
    r"$\mathbb{R}$, prismatic": Prismatic(Z),
    r"$H(h)$, helical": Helical(Z, PITCH, POINT),
    r"$C$, cylindrical": Cylindrical(Z, POINT),
    r"$\mathbb{R}^2$": PlanarTranslation(Z),
    r"$SO(3)$, spherical": Spherical(POINT),
    r"$SE(2)$, planar": Planar(Z, POINT),
    r"$\mathbb{R}^3$": SpatialTranslation(),
    r"$Y(h)$, planar-helical": PlanarHelical(Z, PITCH, POINT),
    r"$X$, Schoenflies": Schoenflies(Z, POINT),
}


@cache
def leaves_the_subgroup(name: str, configuration: str, h: float = 0.01) -> float:
    """How far a motion V(t) in a subgroup's algebra leaves the subgroup in 1 s, by RKMK4 [rad, m].

    The part of log(C(0)^-1 C) outside of the algebra; V = S v(t) is smooth, of about 2 rad/s and m/s.
    """
    S = SUBGROUPS[name].S
    phases = np.arange(S.shape[1])
    group: Any = SE3 if configuration == "SE3" else SO3xR3

    def F(t: float, q: Array) -> Array:
        V = 2 * S @ np.cos((1 + 0.7 * phases) * t + phases)
        if configuration == "SE3":
            return V
        return np.concatenate([V[:3], np.asarray(SO3.element(q[:4]), float) @ V[3:]])

    q = solve_ivp(F, (0, 1), group.neutral(), group, "rkmk4", dt=h).q[-1]
    x = np.asarray(SE3.log(SE3.element(q)), float)
    return float(np.abs(x - S @ np.linalg.lstsq(S, x, rcond=None)[0]).max())


@cache
def on_a_moving_body(turn: float, configuration: str, h: float = 0.01) -> float:
    """Violation after 1 s of a ball joint on a body that turns with a speed given [rad/s], by RKMK4 [m].

    Both motions are prescribed by velocities that keep the joint; the second body spins at 5 rad/s.
    """
    group: Any = SE3 if configuration == "SE3" else SO3xR3
    space = Product(group, group)
    r1, r2 = np.array([0.1, 0, 0]), np.array([-0.1, 0, 0])
    w2 = np.array([3.0, 2.0, np.sqrt(12.0)])

    def F(t: float, q: Array) -> Array:
        R1, R2 = (np.asarray(SO3.element(x), float) for x in (q[:4], q[7:11]))
        w1 = turn * np.array([0.6, 0.48, 0.64]) * np.cos(t)
        along = np.array([0.2 * turn, 0, 0.1 * turn]) * np.sin(2 * t)
        speed = R1 @ (along + np.cross(w1, r1)) - R2 @ np.cross(w2, r2)
        v1, v2 = (along, R2.T @ speed) if configuration == "SE3" else (R1 @ along, speed)
        return np.concatenate([w1, v1, w2, v2])

    q0 = space.neutral()
    q0[11] = 0.2
    q = solve_ivp(F, (0, 1), q0, space, "rkmk4", dt=h).q[-1]
    R1, R2 = (np.asarray(SO3.element(x), float) for x in (q[:4], q[7:11]))
    return float(np.linalg.norm(q[4:7] + R1 @ r1 - q[11:14] - R2 @ r2))


@cache
def cost(example: Any, groups: str | tuple[str, ...]) -> int:
    """Operations of a step of RKMK4 without stabilisation."""
    from ..constrained import stabilization

    system = setup(example, groups).system
    parts = system.parts(stabilization("none", STEP))
    field, advance, pull = (sum(part().operations.values()) for part in parts[:3])
    return int(4 * field + 4 * advance + 3 * pull)
