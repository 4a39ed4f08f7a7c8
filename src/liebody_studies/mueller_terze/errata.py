"""What is misprinted or too strong in Mueller and Terze (2013), each with a number; its equations, checked.

Every function computes; the page of `mueller_terze` says what it means.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Any

import numpy as np

from liebody import groups, simulate
from liebody.groups import SE3, SO3, Product, R, SO3xR3
from liebody.integrators import solve_ivp
from liebody.mechanisms.constrained import SystemBuilder, stabilization
from liebody.scalars.linear import skew

from ..compare import Array
from . import runs
from .golden import LONG, ROUND_OFF, SHORT, Runs, near

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
    moments, m = ([0.36, 0.306, 0.09], 21.6) if top else ([0.0028125, 0.0095625, 0.01125], 2.7)
    Theta = np.diag(moments)
    turning = [-np.cross(x, Theta @ x) for x in w]
    M = np.kron(np.eye(len(w)), np.block([[Theta, zero], [zero, m * one]]))
    if key == "(40)":
        J, eta = np.hstack([skew(runs.ARM), one]), -swing(0, runs.ARM) + np.cross(w[0], u[0])
        return _solved(M, J, np.concatenate([turning[0], -m * np.cross(w[0], u[0])]), eta)[0]
    if key == "(42)":
        J, eta = np.hstack([Rs[0] @ skew(runs.ARM), one]), Rs[0] @ swing(0, runs.ARM)
        return _solved(M, J, np.concatenate([turning[0], np.zeros(3)]), eta)[0]
    r0, r10, r20, g = np.array([-0.1, 0, 0]), np.array([0.1, 0, 0]), np.array([-0.1, 0, 0]), [0, 0, -9.81]
    if key == "(50), (53)":
        J = np.block([[skew(r0), -one, zero, zero], [Rs[0] @ skew(r10), -Rs[0], -Rs[1] @ skew(r20), Rs[1]]])
        first = np.cross(w[0], u[0]) + swing(0, r0)
        inner, outer = swing(0, r10) + np.cross(w[0], u[0]), swing(1, r20) + np.cross(w[1], u[1])
        second = Rs[0] @ inner - Rs[1] @ outer
        forces = [m * Rs[i].T @ g - m * np.cross(w[i], u[i]) for i in range(2)]
    else:
        lower = [Rs[0] @ skew(r10), -one, -Rs[1] @ skew(r20), one]
        J = np.block([[Rs[0] @ skew(r0), -one, zero, zero], lower])
        first = Rs[0] @ swing(0, r0)
        second = Rs[0] @ swing(0, r10) - Rs[1] @ swing(1, r20)
        forces = [m * np.asarray(g)] * 2
    Q = np.concatenate([turning[0], forces[0], turning[1], forces[1]])
    return _solved(M, J, Q, np.concatenate([first, second]))[0]


def equation_checks(seed: int = 0) -> list[tuple[str, str, float]]:
    """(number, what, largest deviation): the printed equations of motion beside the library's."""
    rng, found = np.random.default_rng(seed), []
    for key, example, group, what in (
        ("(40)", runs.HEAVY, "SE3", r"heavy top on $SE(3)$"),
        ("(42)", runs.HEAVY, "SO3xR3", r"heavy top on $SO(3)\times\mathbb{R}^3$"),
        ("(50), (53)", runs.PENDULUM, "SE3", r"double pendulum on $SE(3)$, with $m_i$ in the weights"),
        ("(61), (64)", runs.PENDULUM, "SO3xR3", r"double pendulum on $SO(3)\times\mathbb{R}^3$, the same"),
    ):
        system = runs.setup(example, group).system
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
    ad, b = np.asarray(SE3.ad(u), float), [1.0]  # b_k = B_k / k!
    for k in range(1, terms):
        b.append(-sum(b[j] / factorial(k + 1 - j) for j in range(k)))
    return np.asarray(sum(x * np.linalg.matrix_power(ad, k) for k, x in enumerate(b)))


def cancellation(angles: Array) -> list[tuple[float, float, float]]:
    """(angle, error of (10) as printed, of `SE3.dexp_inverse`), for |v| = 1."""
    axis, v = np.array([2.0, -1.0, 2.0]) / 3, np.array([1.0, 2.0, 2.0]) / 3
    rows = []
    for angle in angles:
        u = np.concatenate([angle * axis, v])
        exact = series_of_dexp_inverse(u)
        ours = np.abs(np.asarray(SE3.dexp_inverse(u), float) - exact).max()
        rows.append((float(angle), float(np.abs(runs.printed_dexp_inverse(u) - exact).max()), float(ours)))
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
    system = runs.setup(runs.PENDULUM, "SO3xR3").system
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
    place = runs.setup(runs.PENDULUM, "SE3")
    literal, v = runs.double_pendulum(place.groups, 9.81 / 2.7)
    q, h = literal.guess, runs.STEP
    run = simulate(literal, q, v, t_end=1.0, dt=h, stabilization="none", record_every=h)
    found = runs.Trajectory(place.system, run.t, run.q, run.v)
    return float(np.abs(found.drift[-1])), float(np.abs(place.run().drift[-1]))


@cache
def weight_of_the_top() -> float:
    """Change of the top's kinetic energy over T(0) in 1 s, if gravity acted."""
    builder = SystemBuilder("top").body("top", runs.TOP, runs.ARM)
    builder.joint("pivot", groups.Spherical(), "world", "top", on_child=-runs.ARM)
    system = builder.build()
    v = runs.setup(runs.HEAVY, "SE3").v
    run = simulate(system, v0=v, t_end=1.0, dt=runs.STEP, stabilization="none", record_every=runs.STEP)
    return float(np.abs(run.kinetic - run.kinetic[0]).max() / run.kinetic[0])


@cache
def common_drift(
    speed: float, direction: tuple[float, float, float] = (1.0, 0.0, 0.0)
) -> dict[str, tuple[float, float]]:
    """For each group, violation [m] and energy change [J] in 1 s of the floating pair that drifts."""
    found = {}
    for group in runs.GROUPS:
        place = runs.Setup(runs.FLOATING, group)
        place.system, place.v = runs.floating_pair(place.groups, [speed * x for x in direction])
        run = place.run()
        found[group] = float(run.worst.max()), float(np.abs(run.energy - run.energy[0]).max())
    return found


Z, POINT, PITCH = (0.0, 0.0, 1.0), (0.3, -0.2, 0.1), 0.2
SUBGROUPS: dict[str, groups.MotionSubgroup] = {
    r"$SO(2)$, revolute": groups.Revolute(Z, POINT),
    r"$\mathbb{R}$, prismatic": groups.Prismatic(Z),
    r"$H(h)$, helical": groups.Helical(Z, PITCH, POINT),
    r"$C$, cylindrical": groups.Cylindrical(Z, POINT),
    r"$\mathbb{R}^2$": groups.PlanarTranslation(Z),
    r"$SO(3)$, spherical": groups.Spherical(POINT),
    r"$SE(2)$, planar": groups.Planar(Z, POINT),
    r"$\mathbb{R}^3$": groups.SpatialTranslation(),
    r"$Y(h)$, planar-helical": groups.PlanarHelical(Z, PITCH, POINT),
    r"$X$, Schoenflies": groups.Schoenflies(Z, POINT),
}
EXACT_ON_BOTH = {r"$\mathbb{R}$, prismatic", r"$\mathbb{R}^2$", r"$\mathbb{R}^3$", r"$SE(2)$, planar",
                 r"$Y(h)$, planar-helical", r"$X$, Schoenflies"}  # fmt: skip


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
    system = runs.setup(example, groups).system
    parts = system.parts(stabilization("none", runs.STEP))
    field, advance, pull = (sum(part().operations.values()) for part in parts[:3])
    return int(4 * field + 4 * advance + 3 * pull)


# -- what is printed, and what is right ---------------------------------------------------------------------


def growth_rate(t: Array, y: Array) -> float:
    """The exponential rate of y where it lies between 1e-10 and 1e-2 for the first time  [1/s]."""
    first = int(np.argmax(y > 1e-10))
    last = int(np.argmax(y > 1e-2))
    return float(np.polyfit(t[first:last], np.log(y[first:last]), 1)[0])


def slips(motions: Runs) -> dict[str, Any]:
    """The numbers by which each slip shows; e1 to e12: whether they bear it out."""
    return _of_exponentials() | _of_constraints() | _of_weights() | _of_statements(motions)


def _of_exponentials() -> dict[str, Any]:
    """1-1 to 1-4: (9), (10), the limits at zero, and (34)."""
    wrong, quartic, state = runs.top_motion(0.1, exponential="printed"), cancellation([1e-6])[0], state_dexp()
    with np.errstate(all="ignore"):
        at_rest = bool(np.isnan(runs.printed_dexp_inverse(np.array([0, 0, 0, 1.0, 0, 0]))).any())
    return {
        "orthogonality": wrong.orthogonality[-1],
        "off_sphere": 1e3 * abs(np.linalg.norm(wrong.r[-1]) - 0.5),
        "energy": runs.peak(wrong.drift),
        "e1": wrong.orthogonality[-1] > 0.5 and runs.peak(wrong.drift) < 1e-7,
        "quartic": quartic,
        "e2": quartic[1] > 1 and quartic[2] < 1e-15,
        "at_rest": "not a number" if at_rest else "finite",
        "e3": at_rest,
        "state": state,
        "e4": state[0] > 0.1 and state[1] < 1e-6,
    }


def _of_constraints() -> dict[str, Any]:
    """1-5 and 1-6: the acceleration constraint of the top."""
    literal, moving, right, mixed, legal = (
        runs.top_motion(LONG, constraint=c)
        for c in ("(39) literally", "R^T r in J and eta", "(40)", "J of (39), eta of (53)", "(53)")
    )
    away = int(np.argmax(~(mixed.pivot <= 1)))  # the first row beyond a metre; later ones may be no numbers
    rate = growth_rate(literal.t, literal.pivot)
    bounded = runs.peak(right.pivot) < ROUND_OFF and runs.peak(moving.pivot) < 1e-9
    return {
        "pivots": [runs.peak(literal.pivot[:rows]) for rows in (1001, 2001, None)],
        "growth": rate,
        "right": runs.peak(right.pivot),
        "moving": runs.peak(moving.pivot),
        "e5": runs.peak(literal.pivot) > 1 and 12 < rate < 24 and bounded,
        "legal": runs.peak(legal.pivot),
        "away": mixed.t[away],
        "e6": runs.peak(legal.pivot) < ROUND_OFF and away > 0,
    }


def _of_weights() -> dict[str, Any]:
    """1-7 to 1-10: weights without masses, velocities of (61), the space of (22), gravity in 5.1."""
    spaces = Product(SO3, R(3), R(3), R(3)), Product(SO3xR3, R(6))
    weights, velocities, gravity = weight_without_mass(), printed_velocity_constraint(), weight_of_the_top()
    return {
        "weights": weights,
        "e7": weights[0] > 0.01 and weights[1] < 1e-5,
        "velocities": velocities,
        "e8": velocities[0] > 0.1 and velocities[1] < 1e-12,
        "dimensions": [space.dim for space in spaces],
        "e9": spaces[0].dim == spaces[1].dim,
        "gravity": gravity,
        "times_drift": gravity / 2.8e-8,
        "e10": gravity > 1e-3,
    }


def _of_statements(motions: Runs) -> dict[str, Any]:
    """1-11 and 1-12: energy by methods of order 1 to 4, and joint 2 of the pendulum."""
    factors = []
    for scheme in runs.BASIC[:4]:
        on_product, on_group = (
            runs.peak(runs.setup(runs.HEAVY, g).run(scheme).drift) for g in reversed(runs.GROUPS)
        )
        factors.append(on_product / on_group)
    second = [runs.peak(motions[runs.PENDULUM, g].until(SHORT).violation("j2")) for g in runs.GROUPS]
    return {
        "factors": ", ".join(f"{x:.1f}" for x in factors),
        "e11": max(factors) < 10,
        "second": second,
        "e12": second[0] > second[1],
    }


def statements(motions: Runs) -> dict[str, Any]:
    """The numbers of the statements of the paper, and whether they bear the verdicts out."""

    def joint(example: Any, group: str, name: str, t_end: float = SHORT) -> float:
        return runs.peak(motions[example, group].until(t_end).violation(name))

    def both(example: Any, name: str, t_end: float = SHORT) -> list[float]:
        return [joint(example, g, name, t_end) for g in runs.GROUPS]

    def ratio(example: Any, t_end: float = SHORT) -> float:
        a, b = (runs.peak(motions[example, g].until(t_end).drift) for g in reversed(runs.GROUPS))
        return a / b

    places = ((runs.HEAVY, "pivot"), (runs.PENDULUM, "j1"), (runs.THREE_BAR, "j1"), (runs.THREE_BAR, "j3"))
    exact, loose = zip(*(both(e, name, LONG) for e, name in places), strict=True)
    pivot, bars = both(runs.HEAVY, "pivot"), both(runs.THREE_BAR, "j2")
    second = [a / b for a, b in (both(runs.PENDULUM, "j2"), bars)]
    floats = [a / b for a, b in (both(runs.FLOATING, "j2", t) for t in (SHORT, LONG))]
    fast = [x[0] for x in common_drift(100.0).values()]
    costs = [cost(e, "SE3") / cost(e, "SO3xR3") for e in runs.EXAMPLES]
    T0, top = motions[runs.HEAVY, "SE3"].kinetic[0] / 1000, [ratio(runs.HEAVY), ratio(runs.HEAVY, LONG)]
    energies = [ratio(runs.PENDULUM), ratio(runs.FLOATING), ratio(runs.THREE_BAR)]
    still, *carried = (on_a_moving_body(w, "SE3") for w in (0.0, 0.01, 0.1))
    firsts, seconds = both(runs.PENDULUM, "j1"), both(runs.PENDULUM, "j2")
    return {
        "ground": max(exact),
        "loose": [min(loose), max(loose)],
        "ground_exact": max(exact) < ROUND_OFF and min(loose) > 1e-8,
        "pivot": pivot,
        "pivot_exact": pivot[0] < 1e-12 and pivot[1] > 5e-7,
        "T0": T0,
        "T0_right": near(T0, 13.972398951, 1e-9),
        "top": top,
        "no_magnitudes": top[0] < 5 and top[1] < 2,
        "second": second,
        "joint_1_only": firsts[0] < 1e-12 and second[0] > 1,
        "pendulum": [seconds[1], firsts[1]],
        "second_higher": all(b > a for a, b in zip(firsts, seconds, strict=True)),
        "energies": energies,
        "comparable": 0.5 < energies[0] < 2,
        "floats": floats,
        "similar": all(0.85 < x < 1.15 for x in floats) and 0.8 < energies[1] < 1.25,
        "fast": fast,
        "not_all": second[1] > 1.5 and fast[0] > 50 * fast[1],
        "base": [joint(runs.THREE_BAR, "SE3", j) for j in ("j1", "j3")],
        "base_exact": max(exact[2:]) < ROUND_OFF,
        "bars": bars,
        "twice": 1.5 < second[1] < 2.5 and 1.2 < energies[2] < 2.2,
        "costs": [min(costs), max(costs)],
        "dearer": 1 < min(costs) and max(costs) < 2,
        "carried": carried,
        "in_proportion": still < 1e-14 and near(carried[1] / carried[0], 10, 0.1),
    }
