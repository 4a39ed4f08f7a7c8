"""Ploen (1999), equation by equation, and what to correct."""

from __future__ import annotations

from typing import Any

import numpy as np

from liebody import dynamics
from liebody.bodies import SpatialInertia, Tree
from liebody.dynamics import factorization
from liebody.groups import SE3
from liebody.scalars.linear import cross, skew

from ..compare import Array, along, apart, random_pose, skewness
from ..report import Check, Correction, checks_of, corrections_of
from . import algorithms
from .algorithms import FREE_FALL, Chain, J_printed, block_diagonal, lagrange, mass_matrix_rate, recursion

# -- equation by equation -----------------------------------------------------------------------------------


def checks(seed: int = 0) -> list[Check]:
    """Every equation that can be checked, in the paper's order, on random data of order one."""
    rng = np.random.default_rng(seed)
    chain = Chain.random(rng)
    tree = chain.tree
    q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    off = _introduction(tree, q, v) | _algebra(rng) | _recursive(rng, chain, q, v, a)
    return checks_of(__package__, off | _global(rng, tree, q, v, a) | _proposition(rng, tree, q, v, a))


def _introduction(tree: Tree, q: Array, v: Array) -> dict[str, float]:
    rate, C = mass_matrix_rate(tree, q, v), algorithms.christoffel_matrix(tree, q, v)
    quadratic = lagrange(tree, q, v, v).quadratic
    powers = []
    for form in algorithms.FORMS:
        N = rate - 2 * dynamics.coriolis_matrix(tree, q, v, form)
        powers.append(abs(v @ N @ v) / (np.abs(v) @ np.abs(N) @ np.abs(v)))
    forms = [form for form in algorithms.FORMS if form != "christoffel"]
    others = [apart(dynamics.coriolis_matrix(tree, q, v, form), C) for form in forms]
    return {
        "2, 3": apart(C @ v, quadratic),
        "2, 3#2": skewness(rate - 2 * C),
        "§ 1": max(powers),
        "§ 1#2": min(others),
    }


def _algebra(rng: np.random.Generator) -> dict[str, float]:
    X, Y, Ad, exp = random_pose(rng), random_pose(rng), algorithms.Ad_printed, algorithms.exp_printed
    x, y, z = rng.normal(size=(3, 6))
    turning = SE3.vee(X @ SE3.hat(y) @ SE3.inverse(X))
    inverse = SE3.inverse(X)
    # a body with two frames, M_2 in M_1 being X: the twist in M_2 is y, and T_1 = T_2 X^-1
    rate_1 = Y @ SE3.hat(y) @ inverse
    twist_1 = SE3.vee(SE3.inverse(Y @ inverse) @ rate_1)
    unit = np.concatenate([x[:3] / np.linalg.norm(x[:3]), x[3:]])
    slide = np.concatenate([np.zeros(3), x[3:]])
    points, masses = rng.normal(size=(9, 3)), rng.uniform(0.2, 1, 9)
    columns = [np.hstack([-skew(r), np.eye(3)]) for r in points]
    by_points = sum(m * B.T @ B for m, B in zip(masses, columns, strict=True))
    com = masses @ points / masses.sum()
    rotational = sum(-m * skew(r - com) @ skew(r - com) for m, r in zip(masses, points, strict=True))
    a, b, c = rng.normal(size=(3, 3))
    return {
        "4": apart(Ad(X) @ y, turning),
        "§ 2.1": max(apart(np.linalg.inv(Ad(X)), Ad(inverse)), apart(Ad(X) @ Ad(Y), Ad(X @ Y))),
        "§ 2.1#2": apart(Ad(X) @ y, twist_1),
        "5": apart(algorithms.Ad_star_printed(X) @ z, [z @ (SE3.Ad(X) @ e) for e in np.eye(6)]),
        "6": apart(algorithms.ad_printed(x) @ y, _bracket(x, y)),
        "7": apart(algorithms.ad_star_printed(x) @ z, [z @ _bracket(x, e) for e in np.eye(6)]),
        "9–11": max(apart(exp(u, 1.3), _series(1.3 * SE3.hat(u))) for u in (unit, slide)),
        "12": apart(J_printed(SpatialInertia(masses.sum(), com, rotational)), by_points),
        "§ 5": apart(cross(a, cross(b, c)) + cross(b, cross(c, a)), -cross(c, cross(a, b))),
    }


def _bracket(x: Array, y: Array) -> Array:
    return SE3.vee(SE3.hat(x) @ SE3.hat(y) - SE3.hat(y) @ SE3.hat(x))


def _series(A: Array) -> Array:
    """exp(A) by its series."""
    total = term = np.eye(len(A))
    for k in range(1, 60):
        term = term @ A / k
        total = total + term
    return total


def _recursive(rng: np.random.Generator, chain: Chain, q: Array, v: Array, a: Array) -> dict[str, float]:
    tree, none = chain.tree, np.zeros(6)
    n = len(tree.bodies)
    poses = [chain.home(i - 1, i) @ algorithms.exp_printed(chain.axis(i), q[i]) for i in range(n)]
    end = np.linalg.multi_dot(poses)
    A_0 = np.concatenate([np.zeros(3), -FREE_FALL])
    found = recursion(tree, q, v, a, none, A_0)

    rates = along(tree, q, v, a, lambda q, v: dynamics.body_poses(tree, q))
    true_poses = dynamics.body_poses(tree, q)
    twists = [SE3.vee(SE3.inverse(T) @ dT) for T, dT in zip(true_poses, rates, strict=True)]
    accelerations = along(tree, q, v, a, lambda q, v: dynamics.body_twists(tree, q, v))
    still = recursion(tree, q, v, a, none, none)

    def momenta(q: Array, v: Array) -> Array:
        """Of all bodies from i on, about the world's origin."""
        T, V = dynamics.body_poses(tree, q), dynamics.body_twists(tree, q, v)
        each = [SE3.Ad(SE3.inverse(T[k])).T @ b.inertia.matrix() @ V[k] for k, b in enumerate(tree.bodies)]
        return np.array([sum(each[i + 1 :], each[i]) for i in range(n)])

    forces = [b.inertia.mass * FREE_FALL for b in tree.bodies]
    points = [(T @ np.append(b.inertia.com, 1))[:3] for T, b in zip(true_poses, tree.bodies, strict=True)]
    weights = [np.concatenate([cross(r, f), f]) for r, f in zip(points, forces, strict=True)]
    needed = along(tree, q, v, a, momenta) - np.array([sum(weights[i:]) for i in range(n)])
    given = np.array([SE3.Ad(SE3.inverse(T)).T @ F for T, F in zip(true_poses, found.F, strict=True)])

    def energy(q: Array, v: Array) -> Any:
        return dynamics.kinetic_energy(tree, q, v) + dynamics.potential_energy(tree, q)

    other = chain.reframed(rng)
    elsewhere = recursion(other.tree, q, v, a, none, A_0)
    kinds = [kind for kind in algorithms.JOINTS if kind not in ("free", "fixed")]
    branched = algorithms.random_tree(rng, kinds)
    bq, bv, ba = branched.group.random(rng), rng.normal(size=branched.nv), rng.normal(size=branched.nv)
    by_library = dynamics.inverse_dynamics(branched, bq, bv, ba)
    return {
        "8, 14": apart(end, true_poses[-1]),
        "15": apart(still.V, twists),
        "16": apart(still.A, accelerations),
        "17": apart(given, needed),
        "18": apart(found.tau @ v, along(tree, q, v, a, energy)),
        "13–18": apart(recursion(branched, bq, bv, ba, none, A_0).tau, by_library),
        "§ 3.1": apart(elsewhere.tau, found.tau),
    }


def _global(rng: np.random.Generator, tree: Tree, q: Array, v: Array, a: Array) -> dict[str, float]:
    f = factorization(tree, q, v)
    n = len(tree.bodies)
    V_0, A_0 = rng.normal(size=(2, 6))
    moving = recursion(tree, q, v, a, V_0, A_0)
    V, A, F, tau = algorithms.closed_form(f, v, a, V_0, A_0)
    one = np.eye(6 * n)
    powers = [np.linalg.matrix_power(f.Gamma, k) for k in range(n + 1)]
    T = dynamics.body_poses(tree, q)
    lower = np.kron(np.tril(np.ones((n, n))), np.ones((6, 6)))
    blocks = lower * np.block([[SE3.Ad(SE3.inverse(a) @ b) for b in T] for a in T])
    fall = np.concatenate([np.zeros(3), -FREE_FALL])
    M, phi = f.S.T @ f.G.T @ f.J @ f.G @ f.S, f.S.T @ f.G.T @ f.J @ f.G @ f.P_0 @ fall
    GS = f.G @ f.S
    C = GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + f.ad_V @ f.J) @ GS
    truth = lagrange(tree, q, v, a)
    total = truth.inertial + truth.quadratic + truth.weight
    G_rate = along(tree, q, v, 0 * v, lambda q, v: factorization(tree, q, v).G)
    M_rate = mass_matrix_rate(tree, q, v)
    half = f.S.T @ f.G.T @ f.Gamma.T @ f.ad_Sv.T @ f.G.T @ f.J @ f.G @ f.S
    return {
        "19": apart(V, moving.V.ravel()),
        "20": apart(A, moving.A.ravel()),
        "21": apart(F, moving.F.ravel()),
        "22": apart(tau, moving.tau),
        "§ 3.2": max(np.abs(powers[n]).max(), apart((one - f.Gamma) @ sum(powers[:n]), one)),
        "§ 3.2#2": apart(sum(powers[:n]), blocks),
        "23": apart(M @ a + C @ v + phi, total),
        "24": apart(M, dynamics.mass_matrix(tree, q)),
        "25": apart(C @ v, truth.quadratic),
        "26": apart(phi, truth.weight),
        "27": apart(f.G @ f.ad_Sv @ f.Gamma @ f.G, G_rate),
        "28": apart(half + half.T, M_rate),
        "29": apart(half - half.T - 2 * GS.T @ f.ad_V @ f.J @ GS, M_rate - 2 * C),
        "§ 5#2": skewness(M_rate - 2 * C),
    }


def _proposition(rng: np.random.Generator, tree: Tree, q: Array, v: Array, a: Array) -> dict[str, float]:
    fall = np.concatenate([np.zeros(3), -FREE_FALL])
    x = recursion(tree, q, v, a, np.zeros(6), fall)
    i = len(tree.bodies) - 2
    body, V, A = tree.bodies[i], x.V[i], x.A[i]
    J, m, r = J_printed(body.inertia), body.inertia.mass, body.inertia.com
    w, u = V[:3], V[3:]
    I = J[:3, :3]
    right = J @ A + algorithms.body_matrix("newton-euler", body.inertia, V) @ V
    after = tree.bodies[i + 1].pose(q)
    eq_30 = x.F[i] - algorithms.Ad_star_printed(after) @ x.F[i + 1]
    p = J @ V
    product = np.concatenate([cross(w, p[:3]) + cross(u, p[3:]), cross(w, p[3:])])
    eq_31 = np.block([[skew(w), skew(u)], [np.zeros((3, 3)), skew(w)]]) @ J @ V
    second = -m * cross(w, cross(r, w)) + m * cross(w, u)
    first = cross(w, I @ w) + m * cross(w, cross(r, u)) - m * cross(u, cross(r, w)) + m * cross(u, u)
    eq_32 = np.concatenate([first, second])
    eq_33 = np.concatenate([cross(w, I @ w) + m * cross(r, cross(w, u)) + I @ cross(w, w), second])
    C_bar = algorithms.body_matrix("ploen", body.inertia, V)
    f = factorization(tree, q, v)
    GS = f.G @ f.S
    inertias = [b.inertia for b in tree.bodies]
    own = [algorithms.body_matrix("ploen", I, V) for I, V in zip(inertias, x.V, strict=True)]
    middle = block_diagonal(own)
    C = GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + middle) @ GS
    truth = lagrange(tree, q, v, a)
    phi = f.S.T @ f.G.T @ f.J @ f.G @ f.P_0 @ fall
    rate = mass_matrix_rate(tree, q, v)
    total = truth.inertial + truth.quadratic + truth.weight
    ad_J = f.ad_V @ f.J
    return {
        "§ 5#3": skewness(ad_J),
        "30": apart(eq_30, right),
        "31": apart(eq_31, product),
        "32": apart(eq_32, product),
        "33": apart(eq_33, product),
        "34": apart(C_bar @ V, product),
        "Prop. 1": skewness(C_bar),
        "35": apart(f.M @ a + C @ v + phi, total),
        "36": apart(f.M, dynamics.jacobian_mass_matrix(tree, q)),
        "37": apart(C @ v, truth.quadratic),
        "38": apart(phi, dynamics.gravity_forces(tree, q)),
        "Prop. 2": skewness(rate - 2 * C),
    }  # fmt: skip


# -- what to correct ----------------------------------------------------------------------------------------


Sizes = dict[str, tuple[float | None, float]]  # of a slip by its number: as printed, as corrected


def corrections(seed: int = 0) -> list[Correction]:
    """Each slip with the size that it has for a random chain, and its correction."""
    rng = np.random.default_rng(seed)
    chain = Chain.random(rng)
    tree = chain.tree
    q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    sizes = _of_the_recursion(tree, q, v, a) | _of_a_moving_base(rng, tree, q, v, a)
    return corrections_of(__package__, sizes | _of_exponentials(rng, chain, q))


def _of_the_recursion(tree: Tree, q: Array, v: Array, a: Array) -> Sizes:
    """2-1 to 2-3."""
    fall, literal = (np.concatenate([np.zeros(3), s * FREE_FALL]) for s in (-1, 1))
    none, i, truth = np.zeros(6), 3, dynamics.inverse_dynamics(tree, q, v, a)
    x = recursion(tree, q, v, a, none, fall)
    body, after = tree.bodies[i], tree.bodies[i + 1].pose(q)
    C_i = algorithms.body_matrix("newton-euler", body.inertia, x.V[i])
    eq_30 = J_printed(body.inertia) @ x.A[i] + C_i @ x.V[i]
    back = [algorithms.Ad_star_printed(X) @ x.F[i + 1] for X in (after, SE3.inverse(after))]
    printed, mended = (x.F[i] - force for force in back)
    return {
        "2-1": (apart(printed, eq_30), apart(mended, eq_30)),
        "2-2": (None, skewness(algorithms.body_matrix("ploen", body.inertia, x.V[i]))),
        "2-3": (apart(recursion(tree, q, v, a, none, literal).tau, truth), apart(x.tau, truth)),
    }


def _of_a_moving_base(rng: np.random.Generator, tree: Tree, q: Array, v: Array, a: Array) -> Sizes:
    """2-4 and 2-7."""
    V_0, A_0 = rng.normal(size=(2, 6))
    f = factorization(tree, q, v)
    moving = recursion(tree, q, v, a, V_0, A_0)
    V = f.G @ (f.S @ v + f.P_0 @ V_0)
    own, turning = f.S @ a + f.P_0 @ A_0, f.ad_Sv @ (f.Gamma @ V + f.P_0 @ V_0)
    rate, negated = f.G @ (own + turning), f.G @ (own - turning)
    phi = f.S.T @ f.G.T @ f.J @ f.G @ f.P_0 @ A_0
    ad_V = block_diagonal([-algorithms.ad_star_printed(x) for x in V.reshape(-1, 6)])
    GS = f.G @ f.S
    carried = (f.J @ f.G @ f.ad_Sv @ f.G + ad_V @ f.J @ f.G) @ f.P_0 @ V_0
    quadratic = GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + ad_V @ f.J) @ GS @ v
    with_base = f.M @ a + quadratic + phi + GS.T @ carried
    return {
        "2-4": (apart(negated, moving.A.ravel()), apart(rate, moving.A.ravel())),
        "2-7": (apart(f.M @ a + f.C("newton-euler") @ v + phi, moving.tau), apart(with_base, moving.tau)),
    }


def _of_exponentials(rng: np.random.Generator, chain: Chain, q: Array) -> Sizes:
    """2-5 and 2-6."""
    n, end = len(q), dynamics.body_poses(chain.tree, q)[-1]
    turns = [np.concatenate([chain.axis(k)[:3], np.zeros(3)]) for k in range(n)]
    whole = np.linalg.multi_dot(
        [chain.home(k - 1, k) @ algorithms.exp_printed(chain.axis(k), q[k]) for k in range(n)]
    )
    axes_only = np.linalg.multi_dot(
        [chain.home(k - 1, k) @ algorithms.exp_printed(turns[k], q[k]) for k in range(n)]
    )
    screw = rng.normal(size=6)
    series = _series(0.7 * SE3.hat(screw))
    return {
        "2-5": (apart(axes_only, end), apart(whole, end)),
        "2-6": (apart(algorithms.exp_printed(screw, 0.7), series), apart(SE3.exp(0.7 * screw), series)),
    }
