"""From (2012): his derivation step by step, and his slips with their size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from liebody.base.errors import ModelError
from liebody.bodies import SpatialInertia
from liebody.compiler import jacobian, trace
from liebody.groups import SE2, SE3, SO3, LieGroup, Planar
from liebody.mechanisms import BoltzmannHamel, RigidBody, SelectedMotions, exponential_transformation
from liebody.scalars import cos, sin
from liebody.scalars.linear import skew

from ..compare import Array
from ..report import EXACT, Check, Correction, checks_of, corrections_of
from .groups import ROWS, Z, affine, derivative_of_exp, hat_closure, hat_error, off, random_matrix

LIMITS = {"26": 1e-9, "39": 1e-9, "53, 54": 1e-9, "61": 1e-11}  # under which sums of many terms count as zero


def derivation_checks() -> list[Check]:
    """What holds of the derivation as it is printed."""
    rng = np.random.default_rng(46)
    inertia = _body(rng)
    J = inertia.matrix()
    V, A = rng.standard_normal((2, 6))
    w, u = V[:3], V[3:]
    p = J @ V
    body, top = RigidBody(SE3, J), RigidBody(SO3, inertia.moments.I)
    euler = top.mass_matrix @ A[:3] + np.cross(w, top.mass_matrix @ w)
    force = (J @ A)[3:] + skew(w) @ p[3:]
    moment = (J @ A)[:3] + skew(u) @ p[3:] + skew(w) @ p[:3]
    T = SE3.element(SE3.random(rng))
    Vs = SE3.Ad(T) @ V
    back = SE3.Ad(SE3.inverse(T))
    lagrange, product, form = lagrange_check(rng)
    phi = rng.standard_normal(6)
    S = exponential_transformation(SE3)(phi)
    lemma = RigidBody(SE3, J).structure  # d(ad_x)_ik/dx_j = c[i, j, k]
    swapped = np.einsum("ijk,k->ij", lemma, A)
    dS = jacobian(trace(exponential_transformation(SE3), {"x": (6,)}, name="S"), "x")(np.zeros(6))
    first, second = np.einsum("kij,k->ij", dS, p), np.einsum("kji,k->ij", dS, p)
    C = body.coriolis(V)
    diag = np.diag([1.0, 2.0, 3.0, 2.5, 2.5, 2.5])
    scalars = off(RigidBody(SE3, diag).efforts(V, A), _newton_euler(V, A, diag))
    deviations = {
        "1, 5, 70": off(top.efforts(w, A[:3]), euler),
        "7, 11, 76": off(body.efforts(V, A), J @ A + C @ V),
        "9, 10": off(body.efforts(V, A), np.r_[moment, force]),
        "26": lagrange,
        "39": product,
        "53, 54": form,
        "29, 72": off(S, derivative_of_exp(SE3, phi)),
        "61": abs(0.5 * Vs @ back.T @ J @ back @ Vs - body.kinetic_energy(V)),
        "66, 91": off(first, C / 2),
        "67, 92": off(second, -C / 2),
        "68": off(top.coriolis(w), -skew(top.mass_matrix @ w)),
        "76": scalars,
        "98": off(SE3.ad(V) @ A, swapped @ V),
        "101": off(first - second, 2 * first),
        "106": off(C @ V, -SE3.ad(V).T @ p),
    }
    return [replace(c, limit=LIMITS.get(c.number, EXACT)) for c in checks_of(__package__, deviations)]


def lagrange_check(rng: np.random.Generator) -> tuple[float, float, float]:
    """Deviations of (F-26), (F-39) and (F-53) for a random S(x), M, U(x) in four dimensions."""
    n = 4
    a, b = rng.standard_normal((2, n, n, n))
    M, tau = random_matrix(rng, n), rng.standard_normal(n)

    def S(x: Array) -> Array:
        return 2 * np.eye(n) + 0.3 * sin(a @ x) + 0.2 * cos(b @ x)

    def U(x: Array) -> Array:
        return sin(x[0] * x[1]) + x[2] ** 2 * cos(x[3])

    def lagrangian(z: Array) -> Array:
        x, rate = z[:n], z[n:]
        v = S(x) @ rate
        return 0.5 * (v @ M @ v) - U(x)

    x, rate = rng.standard_normal((2, n))
    slope = jacobian(trace(lagrangian, {"z": (2 * n,)}, name="L"), "z")
    curve = jacobian(slope, "z")
    z = np.r_[x, rate]
    g, H = slope(z), curve(z)
    # d/dt (dL/dx') - dL/dx = S^T tau, for x''
    acceleration = np.linalg.solve(H[n:, n:], S(x).T @ tau + g[:n] - H[n:, :n] @ rate)
    system = BoltzmannHamel(S, M, U)
    v, dS = S(x) @ rate, system.transformation_derivative(x)
    S_rate = dS @ rate
    dv = S_rate @ rate + S(x) @ acceleration
    gamma = system.hamel_coefficients(x)
    product = np.linalg.solve(S(x).T, S_rate.T - np.einsum("ijm,j->mi", dS, rate))
    forms = off(system.coriolis(x, v) @ v, system.coriolis(x, v, form="gamma") @ v)
    return off(system.acceleration(x, v, tau), dv), off(np.einsum("kij,k->ij", gamma, v), product), forms


def _body(rng: np.random.Generator) -> SpatialInertia:
    """A random rigid body, its frame away from its centre of mass."""
    points, masses = rng.standard_normal((8, 3)), rng.uniform(0.1, 1, 8)
    return sum((SpatialInertia.point(m, x) for m, x in zip(masses, points, strict=True)), SpatialInertia())


def _newton_euler(V: Array, A: Array, M: Array) -> Array:
    """The six scalar equations after (F-76), the sixth corrected."""
    (p, q, r, u, v, w), (dp, dq, dr, du, dv, dw) = V, A
    Ix, Iy, Iz, m = M[0, 0], M[1, 1], M[2, 2], M[3, 3]
    return np.array(
        [
            Ix * dp - Iy * r * q + Iz * q * r,
            Iy * dq + Ix * r * p - Iz * p * r,
            Iz * dr - Ix * q * p + Iy * p * q,
            m * du - m * r * v + m * q * w,
            m * dv + m * r * u - m * p * w,
            m * dw - m * q * u + m * p * v,
        ]
    )


Sizes = dict[str, tuple[Any, ...]]  # of a slip by its number: as printed, as corrected, why there is no first


def errata() -> list[Correction]:
    """Every slip of the paper that is known to us, recomputed."""
    rng = np.random.default_rng(54)
    M, (v, phi, e) = random_matrix(rng, 6), rng.standard_normal((3, 6))
    p_plane, M_line, v_line = rng.standard_normal(3), random_matrix(rng, 2), rng.standard_normal(2)
    sizes = _of_the_tables() | _of_coriolis(M, v, phi) | _of_the_plane(p_plane, (M @ v)[:3])
    return corrections_of(__package__, sizes | _of_scalars(v, e) | _of_statements(M, v, M_line, v_line))


def _of_the_tables() -> Sizes:
    """0-2 and 0-3: matrices V^ that are misprinted."""
    hats = {row.name: hat_error(row) for row in ROWS if row.hat_slip}
    closure = max(hat_closure(row) for row in ROWS if row.hat_slip)
    lines = min(hats[r"$\mathbb{R}$"], hats["$H(h)$"], hats["$SO(2)$"])
    return {"0-2": (hats[r"$\mathbb{R}^3$"], closure), "0-3": (lines, closure)}


def printed_50(dS: Array, inverse: Array, p: Array) -> Array:
    """(49), (50) as printed: dS_sj/dphi_l, with j free, in place of dS_sm/dphi_l."""
    left = np.einsum("li,slm,mj,s->ij", inverse, dS, inverse, p)
    return left - np.einsum("li,sjl,mj,s->ij", inverse, dS, inverse, p)


def formula_54(dS: Array, inverse: Array, p: Array) -> Array:
    return np.einsum("li,slm,mj,s->ij", inverse, dS - dS.transpose(0, 2, 1), inverse, p)


def _of_coriolis(M: Array, v: Array, phi: Array) -> Sizes:
    """Slips of C, from the tables to (57)."""
    system, p, ad, one = BoltzmannHamel(exponential_transformation(SE3), M), M @ v, SE3.ad, np.eye(6)
    dS0, dS = system.transformation_derivative(np.zeros(6)), system.transformation_derivative(phi)
    S = system.transformation(phi)
    inverse, truth, w = np.linalg.inv(S), SE3.coad(p), p[:3]
    constants = RigidBody(SE3, M).structure.transpose(2, 1, 0)
    gamma_1 = np.einsum("li,jlm,mk->kij", inverse, dS, inverse)
    gamma_2 = np.einsum("li,jml,mk->kij", inverse, dS, inverse)
    form_52 = system.coriolis(phi, v, form="gamma")
    wrong_33 = duindam_stramigioli_2008(SE3, M, v)
    curl = np.einsum("jik->ijk", dS0) - np.einsum("jki->ijk", dS0)
    at_zero = off(printed_50(dS0, one, p), truth)
    return {
        "0-1": (off(skew(w), SO3.coad(w)), off(-skew(w), SO3.coad(w))),
        "0-4": (off(ad(p), truth), off(formula_54(dS0, one, p), truth)),
        "0-8": (off(printed_50(dS, inverse, p), truth), max(off(formula_54(dS, inverse, p), truth), at_zero)),
        "0-9": (off(printed_50(dS0, one, M.sum(axis=1)), truth), at_zero),
        "0-10": (
            min(off(form_52, truth), off(form_52, -form_52.T)),
            max(off(form_52, -ad(v).T @ M), off(form_52 @ v, truth @ v)),
        ),
        "0-11": (
            off(np.einsum("ijk,k->ij", curl, M.sum(axis=1)), wrong_33),
            off(np.einsum("ijk,k->ij", curl, p), wrong_33),
        ),
        "0-12": (min(off(wrong_33 @ v, truth @ v), abs(v @ wrong_33 @ v)), off(wrong_33, -ad(p).T)),
        "0-13": (off(gamma_1 + gamma_2, constants), off(gamma_1 - gamma_2, constants)),
        "0-22": (None, off(system.hamel_coefficients(phi), constants), f"$S$ differs by {off(S, one):.1f}"),
    }


def _of_the_plane(p: Array, w: Array) -> Sizes:
    """0-5 to 0-7: planar motion in the paper's order (u, v, r), and the third column of (66)."""
    planar, order = Planar(Z), [1, 2, 0]
    half = planar.coad(p[[2, 0, 1]])[np.ix_(order, order)] / 2
    d_ad = np.stack([planar.ad(np.eye(3)[k])[np.ix_(order, order)] for k in order], axis=-1)
    d_hat = np.stack([np.asarray(SE2.hat(np.eye(3)[k]), float) for k in order], axis=-1)
    by_ad, by_hat = (0.5 * np.einsum("kij,k->ij", d, p) for d in (d_ad, d_hat))
    skews, row = np.stack([skew(a) for a in np.eye(3)], axis=-1), -0.5 * skew(w)[0]
    printed_66 = -0.5 * np.array([skews[:, 0, 0] @ w, skews[:, 0, 1] @ w, skews[:, 0, 1] @ w])
    return {
        "0-5": (off(by_ad, half), off(-by_ad, half)),
        "0-6": (off(-by_hat, half), off(-by_ad, half)),
        "0-7": (off(printed_66, row), off(-0.5 * np.einsum("kj,k->j", skews[:, 0], w), row)),
    }


def _of_scalars(v: Array, e: Array) -> Sizes:
    """0-14 to 0-16: equations in components after (76), and (103)."""
    I, (p, q, r), a = np.array([1.0, 2.0, 3.5]), v[:3], e[:3]
    yaw = RigidBody(SO3, np.diag(I)).efforts(v[:3], a)[2]
    masses = np.array([1.0, 2.0, 4.0])
    munk = RigidBody(SE3, np.diag([*I, *masses])).efforts(v, e)[0]
    roll = I[0] * a[0] - (I[1] - I[2]) * q * r
    X, Y = v[[3, 4, 5, 0, 1, 2]], e[[3, 4, 5, 0, 1, 2]]  # linear first
    bracket = (SE3.ad(v) @ e)[3]
    printed_103 = -X[2] * Y[1] + Y[2] * X[1] - X[5] * Y[2] + Y[5] * X[4]
    right_103 = -X[5] * Y[1] + X[4] * Y[2] - X[2] * Y[4] + X[1] * Y[5]
    spin = I[2] * a[2] - I[0] * q * p
    return {
        "0-14": (abs(spin + I[1] * r * q - yaw), abs(spin + I[1] * p * q - yaw)),
        "0-15": (abs(roll - munk), abs(roll + (masses[2] - masses[1]) * v[4] * v[5] - munk)),
        "0-16": (abs(printed_103 - bracket), abs(right_103 - bracket)),
    }


def _of_statements(M: Array, v: Array, M_line: Array, v_line: Array) -> Sizes:
    """0-17 to 0-21: lemmas, definitions and statements on all groups."""
    c, p, ad, line = RigidBody(SE3, M).structure, M @ v, SE3.ad, affine()
    sums = np.einsum("ijk,k,j->i", c, p, v), np.einsum("kji,k,j->i", c, p, v)
    entries, signs = [abs(x) for x in np.unique(ad(v)[np.abs(ad(v)) > 0])], ad(np.ones(6))
    universal = ad(np.eye(6)[0]) @ np.eye(6)[1]
    coad = line.coad(M_line @ v_line)
    return {
        "0-17": (None, off(c, -c.transpose(0, 2, 1)), "says 0 = 0"),
        "0-18": (None, max(off(ad(v) @ p, sums[0]), off(ad(v).T @ p, sums[1])), "shapes differ"),
        "0-19": (
            None, max(min(abs(x - y) for y in np.abs(v)) for x in entries),
            f"{np.sum(signs < 0)} of {np.sum(signs != 0)} negative",
        ),
        "0-20": (float(np.abs(coad).max()), off(coad @ v_line, -line.ad(v_line).T @ M_line @ v_line)),
        "0-21": (off(universal, np.eye(6)[:, :2] @ universal[:2]), 0.0 if _universal_is_refused() else 1.0),
    }  # fmt: skip


def _universal_is_refused() -> bool:
    """Whether the twists of a universal joint are refused as those of a group."""
    try:
        SelectedMotions(np.eye(6)[:, :2])
    except ModelError:
        return True
    return False


def duindam_stramigioli_2008(group: LieGroup, inertia: Array, v: Array) -> Array:
    """WRONG on purpose: the Coriolis matrix of Duindam and Stramigioli (2008), eq. (26), as From quotes it.

    Eq. (33) at phi = 0 sums over the wrong index of the curl,

        C_ij = sum over k of (dS_ji/dphi_k - dS_jk/dphi_i) (M v)_k = -(ad_(M v)^T)_ij,

    and so treats a momentum as a velocity. On SO(3) its sign is wrong, on SE(3) it makes energy.
    """
    S = trace(exponential_transformation(group, terms=2), {"x": (group.dim,)}, name="S")
    dS = np.asarray(jacobian(S, "x")(np.zeros(group.dim)))
    p = np.asarray(inertia) @ np.asarray(v)
    return np.einsum("jik,k->ij", dS, p) - np.einsum("jki,k->ij", dS, p)
