"""Feurstein (2021), equation by equation: what is right as printed, and what to correct."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from liebody import dynamics
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.compiler import jacobian, jvp, trace
from liebody.groups import SE3, Prismatic, Revolute, Spherical
from liebody.scalars.linear import cross, skew, solve

from ..compare import Array, along, apart, left, random_inertia, random_pose
from ..report import Check, Correction, checks_of, corrections_of
from .robots import EXACT, WEIGHT, Floating, frames, hopper, hopper_angle, linear_first, mapped, split, turned

S2 = np.array([[0, -1], [1, 0]])


def checks(r: Floating) -> list[Check]:
    """Every equation of chapters 2 and 3 and appendix A that is right as printed, for one robot."""
    return as_checks(_checks(r))


def as_checks(off: dict[str, float]) -> list[Check]:
    """Differences by the numbers of the equations, as rows of the table."""
    return checks_of(__package__, off, limit=EXACT)


@cache
def _checks(r: Floating) -> dict[str, float]:
    parts = _algebra, _links, _variations, _motion, _equivalence, _conserved, _decoupled, _internal, _appendix
    return {number: off for part in parts for number, off in part(r).items()}


def _algebra(r: Floating) -> dict[str, float]:
    g, f = r.group, frames(r)
    H_xy, H_yz, nu_xy, nu_yz, rate = f
    H_xz, H_zy, H_yx = H_xy @ H_yz, g.inverse(H_yz), g.inverse(H_xy)
    (Rot, o), (Rot_dot, o_dot) = r.parts(H_xy), r.parts(rate(lambda x, y: x))
    u, w = np.random.default_rng(2).normal(size=(2, g.dim))
    d = len(o)
    big = H_xy @ g.hat(u) @ H_yx
    U, hat = g.hat(u)[:d, :d], np.zeros((d + 1, d + 1))
    hat[:d, :d], hat[:d, d] = Rot @ U @ Rot.T, Rot @ g.hat(u)[:d, d] - Rot @ U @ Rot.T @ o
    commutator = g.hat(w) @ g.hat(u) - g.hat(u) @ g.hat(w)
    W, small = g.hat(w)[:d, :d], np.zeros((d + 1, d + 1))
    small[:d, :d], small[:d, d] = W @ U - U @ W, W @ g.hat(u)[:d, d] - U @ g.hat(w)[:d, d]
    nu_xz = g.vee(g.inverse(H_xz) @ rate(lambda x, y: x @ y))
    Ad, ad = g.Ad, g.ad
    A_xy, A_zy = Ad(H_xy), Ad(H_zy)
    body = np.zeros((d + 1, d + 1))
    body[:d, :d], body[:d, d] = Rot.T @ Rot_dot, Rot.T @ o_dot
    t = 0.7
    flow = trace(lambda s: g.exp(s * u), {"s": ()})
    found = {
        "2.2, 2.4": max(
            apart(rate(lambda x, y: r.parts(x)[0].T) @ Rot, -Rot.T @ Rot_dot),
            apart(rate(lambda x, y: g.inverse(x)) @ H_xy, -H_yx @ rate(lambda x, y: x)),
        ),
        "2.5–2.9": apart(body, g.hat(nu_xy)),
        "2.10": apart(hat, big),
        "2.11": apart(small, commutator),
        "2.12, L 2.3": apart(Ad(H_xy) @ Ad(H_yz) @ u, g.vee(H_xz @ g.hat(u) @ g.inverse(H_xz))),
        "2.13, L 2.4": apart(A_zy @ nu_xy + nu_yz, nu_xz),
        "2.14, L 2.5": apart(A_xy @ ad(nu_xy), rate(lambda x, y: Ad(x))),
        "2.15, L 2.6": apart(Ad(H_yx), np.linalg.inv(A_xy)),
        "2.17, L 2.8": left(ad(nu_xy) @ nu_xy, np.abs(ad(nu_xy)) @ np.abs(nu_xy)),
        "2.18, L 2.9": apart(A_zy @ ad(nu_xy) @ np.linalg.inv(A_zy) + ad(nu_yz), ad(nu_xz)),
        "2.31": apart(jvp(flow, "s")(t, 1.0), g.exp(t * u) @ g.hat(u)),
        "2.36, 2.37": apart(ad(u) @ w, -ad(w) @ u),
    }
    if r.space:
        v, omega = nu_xy[3:], nu_xy[:3]
        zero = np.zeros((3, 3))
        printed = np.block([[Rot, skew(o) @ Rot], [zero, Rot]])
        little = np.block([[skew(omega), skew(v)], [zero, skew(omega)]])
        bracket = g.hat(nu_xy) @ g.hat(u) - g.hat(u) @ g.hat(nu_xy)
        skewed = np.array([[0, -omega[2], omega[1]], [omega[2], 0, -omega[0]], [-omega[1], omega[0], 0]])
        found |= {
            "2.33": apart(skewed, Rot.T @ Rot_dot),
            "2.34, L 2.10": apart(printed @ linear_first(u), linear_first(g.vee(big))),
            "2.35, L 2.11": apart(little @ linear_first(u), linear_first(g.vee(bracket))),
        }
    return found


def _links(r: Floating) -> dict[str, float]:
    g, tree = r.group, r.tree
    H = np.asarray(r.poses(r.x), float)
    H_ib = np.asarray(r.base_pose(r.q), float)
    world = r.along(lambda q, v: np.stack([r.base_pose(q) @ T for T in r.poses(q[r.start :])]))
    twists = np.array([g.vee(g.inverse(H_ib @ T) @ dT) for T, dT in zip(H, world, strict=True)])
    relative = r.along(lambda q, v: r.poses(q[r.start :]))
    nu_bj = np.array([g.vee(g.inverse(T) @ dT) for T, dT in zip(H, relative, strict=True)])
    # columns by A_ji s_i
    columns = np.zeros_like(r.J)
    shapes: list[float] = []
    for body in tree.bodies[1:]:
        place, dofs = body.coordinates, range(tree.nv)[body.dofs]
        group, home = body.joint.group, body.placement
        own = trace(lambda y, h=home, g=group: r._planar(h @ g.pose(y)), {"y": group.nq})
        D, T = np.asarray(jacobian(own, "y")(r.q[place]), float), np.asarray(own(r.q[place]), float)
        for i, dof in enumerate(dofs):
            s = g.vee(g.inverse(T) @ D[..., i])
            if isinstance(body.joint.group, Revolute):
                shapes.append(left(s[-2:] if not r.space else s[3:], s))
            if isinstance(body.joint.group, Prismatic):
                shapes.append(left(s[:1] if not r.space else s[:3], s))
            for j, other in enumerate(tree.bodies):
                if any(x.index == body.index for x in tree.ancestors(other.index)):
                    columns[j, :, dof - r.k] = g.Ad(g.inverse(H[j]) @ H[body.index - 1]) @ s
    kinetic = 0.0
    for body, V in zip(tree.bodies, dynamics.body_twists(tree, r.q, r.v), strict=True):
        w, u = V[:3], V[3:] + cross(V[:3], body.inertia.com)
        kinetic += (body.inertia.mass * u @ u + w @ body.inertia.rotational @ w) / 2
    F = np.concatenate([r.A, r.J], axis=2)
    M = r.sum(turned(F), r.Lam, F)
    blocks = np.block([[r.sum(turned(left), r.Lam, right) for right in (r.A, r.J)] for left in (r.A, r.J)])
    return {
        "2.19, 2.20": apart(r.A @ r.nu + nu_bj, twists),
        "2.21–2.24, 2.38–2.40": apart(r.link_twists, twists),
        "2.25, 2.28": apart(columns, r.J),
        "2.26, 2.27, 2.30": max(shapes),
        "2.41, 2.42": apart(kinetic, dynamics.kinetic_energy(tree, r.q, r.v)),
        "2.47–2.49": apart(r.v @ M @ r.v / 2, kinetic),
        "2.51": apart(blocks, dynamics.mass_matrix(tree, r.q)),
    }


def _variations(r: Floating) -> dict[str, float]:
    x = r.principle
    found = {"3.16, 3.24, 3.25": x.velocity, "3.4–3.9, 3.20–3.32": abs(x.change - x.hamel) / x.terms}
    momentum, k = r.along(r.momentum), r.k
    efforts = dynamics.inverse_dynamics(r.tree, r.q, r.v, r.a, gravity=(0, 0, 0))
    hamiltonian = trace(lambda x, h: h @ solve(r.mass(x), h) / 2, {"x": r.n, "h": r.tree.nv})
    h = r.M @ r.v
    free = dynamics.forward_dynamics(r.tree, r.q, r.v, np.zeros(r.tree.nv), WEIGHT)

    def whole(q: Array, v: Array) -> Array:
        return v @ r.momentum(q, v) / 2 + dynamics.potential_energy(r.tree, q, WEIGHT)

    energy, power = along(r.tree, r.q, r.v, free, whole), float(np.abs(r.v) @ np.abs(r.M @ free))
    by_x, by_h = (jacobian(hamiltonian, y)(r.x, h) for y in "xh")
    found |= {
        "3.30a, 3.33": apart(momentum[:k] - r.a_b.T @ r.h_b, efforts[:k]),
        "3.30b, 3.34": apart(momentum[k:] - r.slope, efforts[k:]),
        "3.35, 3.36": max(apart(by_x, -r.slope), apart(by_h, r.v)),
        "after 3.36": abs(float(energy)) / power,
    }
    if r.space:
        body = SpatialInertia(2.0, (0.3, -0.2, 0.4), np.diag([0.5, 0.7, 0.9]))
        top = TreeBuilder("top").add("top", Spherical(), body).build()
        q, w, dw = top.group.random(r.rng), *r.rng.normal(size=(2, 3))
        rows = top.bodies[0].pose(q)[:3, :3]
        L_r = np.outer([0, -2.0 * 9.81, 0], body.com)  # L = -m g r_2.c
        I = body.matrix()[:3, :3]
        euler = I @ dw + cross(w, I @ w) + sum(cross(rows[i], L_r[i]) for i in range(3))
        eta = r.rng.normal(size=3)
        Rot = np.asarray(rows, float)
        found |= {
            "3.13, 3.15, 3.17": apart((Rot @ skew(eta)), [cross(row, eta) for row in Rot]),
            "3.12, 3.19": apart(euler, dynamics.inverse_dynamics(top, q, w, dw, gravity=WEIGHT)),
        }
    return found


def _motion(r: Floating) -> dict[str, float]:
    k = r.k
    C, P = r.hamel, r.passive
    ours = dynamics.coriolis_matrix(r.tree, r.q, r.v, "hamel")
    library = dynamics.coriolis_matrix(r.tree, r.q, r.v, "feurstein")
    return {
        "3.37–3.39": apart(C @ r.v, r.bias),
        "3.39": apart(C[:k], ours[:k]),
        "before 3.82": left(r.M_rate - C - C.T, C),
        "3.41": apart(P @ r.v, r.bias),
        "3.41#2": apart(P, library),
        "1.6, 3.82": apart(P + P.T, r.M_rate),
    }


def _equivalence(r: Floating) -> dict[str, float]:
    g, A, J, L, nu, x = r.group, r.A, r.J, r.Lam, r.nu, r.rates
    At, Jt = turned(A), turned(J)
    A_inv = np.linalg.inv(A)
    a_jb = -A_inv @ r.a_bj @ A
    twists = np.array([g.ad(-(i @ u)) for i, u in zip(A_inv, J @ x, strict=True)])  # of nu_jb = -A_bj nu_bj
    C, P = r.hamel, r.passive
    C_b, C_bq, _, _ = r.blocks(C)
    M_b_q, _, M_q_q = r.gradients
    Aq, Jq = turned(r.A_q), turned(r.J_q)
    sides: list[Any] = [(r.A_rate, A @ a_jb), (a_jb, twists), (r.A_inverse_rate, -a_jb @ A_inv)]
    sides += [(A @ a_jb, -r.a_bj @ A), (a_jb @ A_inv, -A_inv @ r.a_bj), (r.a_j, A @ (r.a_b - a_jb) @ A_inv)]
    lemma = max(apart(*pair) for pair in sides)
    rows_b = r.sum(At, L, r.A_rate) @ nu + r.sum(At, L, r.J_rate) @ x
    with_a, with_q = (r.sum(x, turned(r.a_j), L, r.link_twists[:, :, None])[:, 0] for x in (At, Jt))
    Psi_off = r.sum(At, L, r.a_j, A) @ nu + r.sum(At, L, r.a_j, J) @ x
    rows_q = r.sum(Jt, L, r.A_rate) @ nu + r.sum(Jt, L, r.J_rate) @ x
    return {
        "Prop. 3.1.1": apart(C @ r.v, P @ r.v),
        "3.42a–e, L 3.1": lemma,
        "3.43, 3.46": apart(rows_b - with_a, r.bias[: r.k]),
        "3.44": apart(r.sum(At, L, r.A_rate) - r.sum(At, turned(r.a_j), L, A), C_b),
        "3.45": apart(r.sum(At, L, r.J_rate) - r.sum(At, turned(r.a_j), L, J), C_bq),
        "3.48": apart(2 * r.sum(Aq, L, A) @ nu, M_b_q @ nu),
        "3.50": apart(2 * r.sum(Jq, L, J) @ x, M_q_q @ x),
        "3.55, L 3.2": apart(r.J_q - r.J_rate, r.a_bj @ J),
        "3.56, L 3.3": apart(r.A_q, r.a_A @ J),
        "3.59": apart(rows_q - with_q, r.bias[r.k :]),
        "after 3.83": left(Psi_off, r.sum(At, L, r.a_j, A) @ nu),
    }


def _conserved(r: Floating) -> dict[str, float]:
    g, k = r.group, r.k
    bb, bq, _, qq = r.blocks(r.M)
    inverse = np.linalg.inv(r.A_cb)
    efforts = dynamics.inverse_dynamics(r.tree, r.q, r.v, r.a, gravity=(0, 0, 0))
    F_b = efforts[:k]

    def inertial(q: Array, v: Array) -> Array:
        return g.Ad(g.inverse(r.base_pose(q))).T @ r.momentum(q, v)[:k]

    def central(q: Array, v: Array) -> Array:
        return g.Ad(g.inverse(r.H_cb(q))).T @ r.momentum(q, v)[:k]

    H_ib = np.asarray(r.base_pose(r.q), float)
    A_ib = g.Ad(H_ib)
    h_i = np.linalg.inv(A_ib).T @ r.h_b
    x, u = g.element(g.random(r.rng)), r.rng.normal(size=k)

    def any_frame(s: Any) -> Array:
        q = r.tree.group.integrate(r.q, s * r.v)
        H_xb = g.inverse(g.compose(x, g.exp(s * u))) @ r.base_pose(q)
        return g.Ad(g.inverse(H_xb)).T @ r.momentum(q, r.v + s * r.a)[:k]

    moving = np.asarray(jvp(trace(any_frame, {"s": ()}), "s")(0.0, 1.0), float)
    A_xb = g.Ad(g.inverse(x) @ H_ib)
    a_xb = g.ad(r.nu - np.linalg.solve(A_xb, u))
    expected = np.linalg.inv(A_xb).T @ (F_b + (r.a_b - a_xb).T @ r.h_b)
    center_rate = r.along(lambda q, v: r.base_pose(q)[:-1] @ np.append(r.center(q[r.start :]), 1))
    nu_c = np.concatenate([np.zeros(k - len(center_rate)), center_rate])
    nu_ci = -g.Ad(r.H_ic) @ nu_c  # i seen from c, in the axes of i
    h_c = inverse.T @ r.h_b
    sizes = np.abs(g.ad(nu_ci)).T @ np.abs(h_i)
    M_c = inverse.T @ bb @ inverse
    rotor = k - len(center_rate)
    coupling = max(
        left(M_c[:rotor, rotor:], M_c), left(M_c[rotor:, rotor:] - r.tree.mass * np.eye(k - rotor), M_c)
    )
    locked = r.nu + r.m @ r.rates
    energy = (locked @ bb @ locked + r.rates @ (qq - bq.T @ r.m) @ r.rates) / 2
    size = dynamics.centroidal_momentum(r.tree, r.q, r.v)
    return {
        "3.60, Prop. 3.2.1": apart(moving, expected),
        "3.61": apart(r.along(inertial), np.linalg.inv(A_ib).T @ F_b),
        "3.62, 3.69": apart(r.along(central), inverse.T @ F_b),
        "3.62": left(g.ad(nu_ci).T @ h_i, sizes),
        "3.62#2": left(g.ad(nu_ci), nu_ci),
        "3.64": apart(r.H_ic[:-1, -1], dynamics.center_of_mass(r.tree, r.q)[: g.n - 1]),
        "3.65": apart(r.h_b, dynamics.base_momentum(r.tree, r.q, r.v)),
        "3.66": apart(locked, dynamics.locked_velocity(r.tree, r.q, r.v)),
        "3.67, 3.68": max(
            apart(dynamics.momentum_in_frame(r.tree, r.q, r.v, g.identity()), h_i),
            abs(h_i @ (A_ib @ locked) / (r.h_b @ locked) - 1),
        ),
        "after 3.69": apart(h_c, size[:6] if r.space else size[2:5]),
        "3.2.3": coupling,
        "3.66#2": apart(energy, r.v @ r.M @ r.v / 2),
    } | _curvature(r)


def _curvature(r: Floating) -> dict[str, float]:
    """The curvature of the mechanical connection m, (3.72)."""
    k = r.k
    connection = trace(lambda x: solve(r.mass(x)[:k, :k], r.mass(x)[:k, k:]), {"x": r.n})
    dm = np.asarray(jacobian(connection, "x")(r.x), float)  # (k, n, n): d_j m_i
    turning = dm - np.swapaxes(dm, 1, 2)
    brackets = np.stack([r.group.ad(column) @ r.m for column in r.m.T], axis=1)  # (k, n, n): ad_(m_i) m_j
    curvature = turning + brackets
    found = {
        "3.72": left(curvature - dynamics.connection_curvature(r.tree, r.q), curvature, dm),
        "3.72#2": left(curvature, dm),
    }
    if not r.space:
        product = np.einsum("i,aj->aij", r.m[0], S2 @ r.m[1:])
        expected = turning.copy()
        expected[1:] += product - np.swapaxes(product, 1, 2)
        found["3.73, L 3.4"] = left(expected - curvature, curvature, dm)
    return found


def _decoupled(r: Floating) -> dict[str, float]:
    k, x = r.k, mapped(r)
    bb, bq, _, qq = r.blocks(r.M)
    rbb, _, _, _ = r.blocks(r.M_rate)
    C_b, C_bq, _, _ = r.blocks(r.hamel)
    X, Y = np.linalg.inv(x.T_x), np.linalg.inv(x.T_y)
    w = x.T @ r.v
    rate = x.T @ r.a + x.T_rate @ r.v
    F = np.linalg.inv(x.T).T @ (r.M @ r.a + r.bias)
    Mx, Mxy, _, My = r.blocks(x.M)
    Cx, Cxy, _, _ = r.blocks(x.hamel)
    Px, Pxy, _, Py = r.blocks(x.passive)
    printed = np.block([[X, -r.m @ Y], [np.zeros((r.n, k)), Y]])
    A, J, L, a_j = r.A, r.J, r.Lam, r.a_j
    At = turned(A)
    AA, AJ = r.sum(At, L, a_j, A), r.sum(At, L, a_j, J)
    Mx_rate = X.T @ (rbb - x.T_x_rate.T @ X.T @ bb - bb @ X @ x.T_x_rate) @ X
    P_b, P_bq, P_qb, P_q = r.blocks(r.passive)
    inner = P_q - P_qb @ r.m - r.m.T @ P_bq + r.m.T @ P_b @ r.m
    p = mapped(r, "momentum")
    v = p.T @ r.v
    Qx, Qxy, _, _ = r.blocks(p.passive)
    lib = dynamics.decoupled_dynamics(r.tree, r.q, r.v, "centroidal", form="hamel")
    own = mapped(r, "centroidal")
    return {
        "3.77": apart(x.M @ rate + x.hamel @ w, F),
        "3.78": left(np.linalg.inv(x.T).T[:k, k:], x.T),
        "3.80": apart(printed, np.linalg.inv(x.T)),
        "3.79": left(Mxy, x.M),
        "3.81, A.4b": max(apart(X.T @ bb @ X, Mx), apart(Y.T @ (qq - bq.T @ r.m) @ Y, My)),
        "3.81": apart(X.T @ (rbb - r.a_b.T @ bb - bb @ X @ x.T_x_rate) @ X, Cx),
        "3.81, Prop. 3.3.1": left(Cxy, X.T @ C_bq @ Y, X.T @ C_b @ r.m @ Y),
        "3.81#2": max(apart(own.M[:k, :k], lib.Mx), apart(own.hamel[:k, :k], lib.Cx), left(lib.Cxy, lib.Cx)),
        "3.84": apart(X.T @ (rbb - r.a_b.T @ bb - bb @ X @ x.T_x_rate + AA) @ X, Px),
        "3.84#2": apart(Y.T @ inner @ Y - My @ x.T_y_rate @ Y, Py),
        "3.86": apart(X.T @ (AJ - AA @ r.m) @ Y, Pxy),
        "3.3.3": left(Pxy, x.passive),
        "3.84#3": apart(Px + Px.T, Mx_rate),
        "3.85, Prop. 3.3.2": left(Qx @ v[:k] + Qxy @ v[k:], Qxy @ v[k:], np.abs(Qx) @ np.abs(v[:k])),
    }


def _internal(r: Floating) -> dict[str, float]:
    """(3.87)-(3.96) where D has as many rows as columns; section 3.3.4 for others is `Split`."""
    k, n = r.k, r.n
    rng = np.random.default_rng(21)
    A, B = np.eye(k) * 2 + 0.3 * rng.normal(size=(k, k)), rng.normal(size=(k, n))
    C, D = rng.normal(size=(n, k)), 3 * np.eye(n) + 0.3 * rng.normal(size=(n, n))
    whole = np.block([[A, B], [C, D]])
    inv = np.linalg.inv
    E = inv(A - B @ inv(D) @ C)
    G = inv(D - C @ inv(A) @ B)
    printed = np.block([[E, -inv(A) @ B @ G], [-inv(D) @ C @ E, G]])
    bb, bq, _, qq = r.blocks(r.M)
    # (3.91) with the rate of D, A B any
    D_rate = rng.normal(size=(n, n))
    I = np.block([[A, B], [np.zeros((n, k)), D]])
    M_I = inv(I).T @ r.M @ inv(I)
    x_rate = r.a[k:]
    direct = M_I[:k, k:] @ (D @ x_rate + D_rate @ r.rates)
    by_print = inv(A).T @ (bq - bb @ inv(A) @ B) @ (x_rate + inv(D) @ D_rate @ r.rates)
    x = mapped(r)
    D2 = inv(x.T_y)
    link = len(r.tree.bodies) - 1
    J_int = r.J[link] - r.A[link] @ r.m
    ext = r.A_cb @ (r.nu + r.m @ r.rates)
    names = r.tree.bodies[link].name
    J_lib = dynamics.internal_jacobian(r.tree, r.q, names)
    return {
        "3.88": apart(printed, inv(whole)),
        "3.91": apart(by_print, direct),
        "3.92, 3.93": max(apart(D2.T @ (qq - bq.T @ r.m) @ D2, x.M[k:, k:]), left(x.M[:k, k:], x.M)),
        "3.96": apart(r.A[link] @ np.linalg.solve(r.A_cb, ext) + J_int @ r.rates, r.link_twists[link]),
        "3.96#2": apart(J_int, J_lib if r.space else np.asarray(J_lib)[2:5]),
    }


def _appendix(r: Floating) -> dict[str, float]:
    x = mapped(r)
    bb, bq, _, _ = r.blocks(r.M)
    rbb, rbq, _, _ = r.blocks(r.M_rate)
    C_b, _, C_qb, _ = r.blocks(r.hamel)
    X, Y, inverse = np.linalg.inv(x.T_x), np.linalg.inv(x.T_y), np.linalg.inv(bb)
    inverse_rate = -inverse @ rbb @ inverse
    _, P_bq, _, _ = r.blocks(r.passive)
    P_b = r.passive[: r.k, : r.k]
    Cx, _, Cyx, _ = r.blocks(x.hamel)
    _, Pxy, _, _ = r.blocks(x.passive)

    def m(q: Array, v: Array) -> Array:
        M = r.mass(q[r.start :])
        return solve(M[: r.k, : r.k], M[: r.k, r.k :])

    rng = np.random.default_rng(31)
    a, b, c = rng.normal(size=(3, 3))
    Rot = np.asarray(random_pose(rng)[:3, :3], float)
    W = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    dW = rng.normal(size=(3, 3))

    def pseudo(s: Any) -> Array:
        moved = W + s * dW
        return solve(moved.T @ moved, moved.T)

    by_graph = np.asarray(jvp(trace(pseudo, {"s": ()}), "s")(0.0, 1.0), float)
    return {
        "A.3": apart(x.T_rate[: r.k, r.k :], x.T_x_rate @ r.m + x.T_x @ r.along(m)),
        "A.5a": apart(X.T @ (C_b - bb @ X @ x.T_x_rate) @ X, Cx),
        "A.5b, 3.94": max(
            apart(X.T @ (P_bq - P_b @ r.m - bb @ inverse_rate @ bq - rbq) @ Y, Pxy),
            apart(X.T @ (P_bq + (rbb - P_b) @ r.m - rbq) @ Y, Pxy),
        ),
        "A.5c": apart(Y.T @ (C_qb - r.m.T @ C_b) @ X, Cyx),
        "A.6": max(
            apart(skew(a) @ b, -skew(b) @ a),
            apart(skew(a) @ skew(b) - skew(b) @ skew(a), skew(cross(a, b))),
            abs(cross(a, b) @ c - a @ cross(b, c)),
            apart(Rot @ cross(a, b), cross(Rot @ a, Rot @ b)),
            apart(Rot @ skew(a) @ Rot.T, skew(Rot @ a)),
            apart(by_graph @ W, -np.linalg.inv(W) @ dW),
        ),
    }


Sizes = dict[str, tuple[Any, ...]]  # of a slip by its number: as printed, as corrected


def corrections(pair: list[Floating]) -> list[Correction]:
    """Every slip, with the smallest of the printed errors and the largest of the corrected ones."""
    found: Sizes = {}
    for r in pair:
        for number, (before, after) in _slips(r).items():
            least, most = found.get(number, (None, 0.0))
            known = [x for x in (before, least) if x is not None]
            found[number] = min(known, default=None), max(after, most)
    return corrections_of(__package__, found | _slips_of_the_split())


@cache
def _slips(r: Floating) -> Sizes:
    parts = (
        _slips_of_frames, _slips_of_inertia, _slips_of_weight, _slips_of_joints, _slips_of_dynamics,
        _slips_of_momentum, _slips_of_maps,
    )  # fmt: skip
    return {number: sizes for part in parts for number, sizes in part(r).items()}


def _slips_of_joints(r: Floating) -> Sizes:
    """Footnote 4 by the deepest link; the equations (1.5) of the transformed velocities."""
    tree = r.tree
    link = max(tree.bodies, key=lambda body: len(tree.ancestors(body.index)))
    joints = [body.dofs.start for body in reversed(tree.ancestors(link.index)) if body is not r.base]

    def at(x: Array) -> tuple[Array, Array]:
        """H_bj of the link and the joints' twists xi_i, in the axes of the base, at joint coordinates x."""
        q = np.concatenate([r.base.joint.group.neutral(), x])
        J = dynamics.frame_jacobian(tree, q, link.name, "world")
        return dynamics.frame_pose(tree, q, link.name), np.asarray(J[:, joints], float).T

    x = [r.x[i - r.k] for i in joints]
    (home, start), (H, twists) = at(0 * r.x), at(r.x)
    A_jb = SE3.Ad(SE3.inverse(H))
    product, moved = np.eye(4), []
    for xi, angle in zip(start, x, strict=True):
        moved.append(SE3.Ad(product) @ xi)
        product = product @ SE3.exp(xi * angle)
    columns = twists @ A_jb.T
    T = dynamics.decoupling_transform(tree, r.q)
    T_rate = dynamics.decoupling_transform_rate(tree, r.q, r.v)
    M, C, _ = dynamics.transformed_dynamics(tree, r.q, r.v, gravity=(0, 0, 0))
    F = dynamics.inverse_dynamics(tree, r.q, r.v, r.a, (0, 0, 0))
    transformed = M @ (T @ r.a + T_rate @ r.v) + C @ (T @ r.v)
    return {
        "1.5": (apart(M @ r.a + C @ r.v, F), apart(transformed, np.linalg.solve(T.T, F))),
        "2.1.3, footnote 4": (apart(SE3.exp(np.array(x) @ start) @ home, H), apart(product @ home, H)),
        "2.1.3, footnote 4: J": (apart(start @ A_jb.T, columns), apart(np.array(moved) @ A_jb.T, columns)),
    }


def _slips_of_frames(r: Floating) -> Sizes:
    """Section 2.1: frames, adjoints, twists of the links."""
    g = r.group
    H_xy, H_yz, nu_xy, _, rate = frames(r)
    Rot, _ = r.parts(H_xy)
    Rot_dot, o_dot = r.parts(rate(lambda x, y: x))
    v_xy, omega = Rot.T @ o_dot, Rot.T @ Rot_dot
    A_xy, u = g.Ad(H_xy), r.rng.normal(size=g.dim)
    nu_yx = g.vee(H_xy @ rate(lambda x, y: g.inverse(x)))
    found = {
        "2.5, 2.6": (apart(v_xy, o_dot), apart(Rot @ v_xy, o_dot)),
        "after 2.6": (apart(-Rot.T @ Rot_dot.T, Rot_dot.T @ Rot), apart(-Rot.T @ Rot_dot, omega.T)),
        "L 2.3, proof": (
            apart(g.Ad(H_yz) @ u, g.Ad(H_xy @ H_yz) @ u),
            apart(A_xy @ g.Ad(H_yz) @ u, g.Ad(H_xy @ H_yz) @ u),
        ),
        "2.16, L 2.7": (
            apart(g.ad(nu_xy), -g.ad(nu_yx)),
            apart(g.ad(nu_yx), -A_xy @ g.ad(nu_xy) @ np.linalg.inv(A_xy)),
        ),
        "2.22, 2.24": (None, apart(r.J @ r.rates, r.link_twists - r.A @ r.nu)),
    }
    if r.space:
        s = np.asarray(r.tree.bodies[1].joint.S[:3, 0], float)
        H = np.asarray(r.poses(r.x), float)
        R_ji, o_ji = SE3.parts(SE3.inverse(H[2]) @ H[1])
        column = np.concatenate([R_ji @ s, skew(o_ji) @ R_ji @ s])
        found["2.29"] = None, apart(column, r.J[2][:, 0])
    return found


def _slips_of_inertia(r: Floating) -> Sizes:
    """Section 2.2, kinetic energy: the inertia of the base in its frame."""
    g, body = r.group, r.tree.bodies[0].inertia
    com, central = np.asarray(body.com, float), np.asarray(body.rotational, float)
    values, axes = np.linalg.eigh(central)
    axes = axes * np.sign(np.linalg.det(axes))
    kinetic = float(dynamics.kinetic_energy(r.tree, r.q, r.v))
    by_links = sum(u @ L @ u for u, L in zip(r.link_twists, r.Lam, strict=True)) / 2
    zero, one, mass, c = np.zeros((3, 3)), np.eye(3), body.mass, skew(com)
    if r.space:
        D, H_jc = np.block([[np.diag(values), zero], [zero, mass * one]]), SE3.motion(axes, com)
    else:
        D, H_jc = np.diag([central[2, 2], mass, mass]), np.eye(3)
        H_jc[:2, 2] = com[:2]
    wrong, right = g.Ad(H_jc), g.Ad(g.inverse(H_jc))
    found = {
        "2.43": (apart(wrong.T @ D @ wrong, r.Lam[0]), apart(right.T @ D @ right, r.Lam[0])),
        "2.46, 2.50": (None, apart(by_links, kinetic)),
    }
    if r.space:
        D, Lam = linear_first(D), linear_first(r.Lam[0])
        printed = np.block([[axes, c], [zero, one]])
        mended = np.block([[axes.T, -axes.T @ c], [zero, axes.T]])
        first = np.block([[mass * one, -mass * c], [-mass * c, np.diag(values) - mass * c @ c]])
        right_one = np.block([[mass * one, -mass * c], [mass * c, central - mass * c @ c]])
        found |= {
            "2.44": (apart(printed.T @ D @ printed, Lam), apart(mended.T @ D @ mended, Lam)),
            "2.45": (apart(first, Lam), apart(right_one, Lam)),
        }
    return found


def _slips_of_weight(r: Floating) -> Sizes:
    """Section 2.2, potential energy, (2.52) along y, and its derivative."""
    base = np.asarray(r.base_pose(r.q), float)
    rows, origin = base[:-1, :-1], base[:-1, -1]
    moment = r.tree.mass * np.asarray(r.center(r.x), float)
    U = r.tree.mass * 9.81 * origin[1] + 9.81 * rows[1] @ moment
    found: Sizes = {"2.52": (None, apart(U, dynamics.potential_energy(r.tree, r.q, WEIGHT)))}
    if r.space:
        torque = sum(cross(row, 9.81 * moment * (i == 1)) for i, row in enumerate(rows))
        pull = rows.T @ (-r.tree.mass * np.asarray(WEIGHT))
        gravity = dynamics.gravity_forces(r.tree, r.q, WEIGHT)[:6]
        found["2.53"] = tuple(apart(np.concatenate([sign * torque, pull]), gravity) for sign in (1, -1))
    return found


def _slips_of_dynamics(r: Floating) -> Sizes:
    A, J, L, a_j, nu, x = r.A, r.J, r.Lam, r.a_j, r.nu, r.rates
    Jt, Aq, Jq = turned(J), turned(r.A_q), turned(r.J_q)
    _, _, C_qb, C_q = r.blocks(r.hamel)
    M_b_q, M_bq_q, M_q_q = r.gradients
    _, _, rqb, rqq = r.blocks(r.M_rate)
    _, _, P_qb, P_q = r.blocks(r.passive)
    F = r.M @ r.a + r.bias
    A_inv = np.linalg.inv(A)
    a_jb = -A_inv @ r.a_bj @ A
    inverse_T_rate, by_lemma = turned(r.A_inverse_rate), -turned(A_inv) @ turned(a_jb)
    wrench = r.sum(Jt, turned(a_j), L, r.link_twists[:, :, None])[:, 0]
    printed_wrench = r.sum(Jt, a_j, r.link_twists[:, :, None])[:, 0]
    wanted = r.sum(Jt, L, r.A_rate) @ nu + r.sum(Jt, L, r.J_rate) @ x - r.bias[r.k :]
    J_rate_t, half = turned(r.J_rate), r.sum(Aq, L, A)
    last = (r.sum(Jt, L, r.A_rate) - r.sum(Jt, turned(a_j), L, A)) @ nu - r.sum(Jt, turned(r.a_A), L, J) @ x
    split_qb = (r.sum(Jt, L, r.A_rate) + r.sum(J_rate_t, L, A) - half) @ nu
    split_q = (r.sum(Jt, L, r.J_rate) + r.sum(J_rate_t, L, J) - r.sum(Jq, L, J) - M_bq_q) @ x
    v = r.principle
    qb = rqb + r.sum(-Aq, L, A) + r.sum(-Jq, L, A) + r.sum(Jt, L, a_j, A)
    qq = rqq + r.sum(-Jq, L, J) + r.sum(-Aq, L, J) + r.sum(Jt, L, a_j, J)
    wrong_J = np.array([r.group.ad(u) for u in r.link_twists]) @ J
    momentum, slope, tau = r.along(r.momentum)[r.k :], r.slope, F[r.k :]
    ends = r.M[r.k :] @ r.v
    by_products = (M_b_q @ nu) / 2 + M_bq_q @ x
    variation_size = abs(v.change - v.hamel) / v.terms
    w, eta_rate = r.rng.normal(size=(2, 3))
    bent = frames(r).rate(lambda x, y: x)  # dH of a variation
    Rot = np.asarray(random_pose(np.random.default_rng(5))[:3, :3], float)
    found = {
        "3.3": (v.ends, variation_size),
        "3.18, before": (None, variation_size),
        "3.22, after": (abs(1 - bent[-1, -1]), left(bent[-1], bent)),
        "3.27": (None, variation_size),
        "3.30, before": (apart(ends - slope, tau), apart(momentum - slope, tau)),
        "3.37, before": tuple(apart(by_products + M_q_q @ y / 2, slope) for y in (r.a[r.k :], x)),
        "3.40": (None, apart(r.M @ r.a + r.passive @ r.v, F)),
        "3.42b, right": tuple(apart(by_lemma, y) for y in (turned(inverse_T_rate), inverse_T_rate)),
        "3.47, before": (apart(-printed_wrench, -wrench), apart(-wrench, -wanted)),
        "3.47": (None, apart(2 * half @ nu, M_b_q @ nu)),
        "3.49": (None, apart(r.sum(Jq, L, A) @ nu + r.sum(Aq, L, J) @ x, M_bq_q @ x)),
        "L 3.2, proof": (apart(wrong_J, r.J_q - r.J_rate), apart(r.a_bj @ J, r.J_q - r.J_rate)),
        "3.57": (apart(last, C_qb @ nu), apart(split_qb, C_qb @ nu)),
        "3.58": (apart((rqq - M_q_q / 2) @ x, C_q @ x), apart(split_q, C_q @ x)),
        "3.83c, d": (apart(M_b_q / 2, half), max(apart(qb, P_qb), apart(qq, P_q))),
    }
    if r.space:
        zero = np.zeros(3)
        family = trace(lambda s: SE3.vee(SE3.hat(np.concatenate([w + s * eta_rate, zero]))), {"s": ()})
        rates = np.asarray(jvp(family, "s")(0.0, 1.0), float)[:3]
        found |= {
            "3.11": (_energy(1.0), _energy(0.5)),
            "3.14": tuple(apart(Rot @ skew(y), Rot @ skew(eta_rate)) for y in (w, rates)),
            "3.24": (v.printed, v.velocity),
        }
    return found


def _energy(factor: float) -> float:
    """How far factor w^T I w is from the kinetic energy of a body on a ball joint."""
    rng = np.random.default_rng(6)
    top = TreeBuilder("top").add("top", Spherical(), random_inertia(rng)).build()
    q, w = top.group.random(rng), rng.normal(size=3)
    I = top.bodies[0].inertia.matrix()[:3, :3]
    return apart(factor * w @ I @ w, dynamics.kinetic_energy(top, q, w))


def _slips_of_momentum(r: Floating) -> Sizes:
    g, d = r.group, r.group.n - 1
    A_ib = g.Ad(r.base_pose(r.q))
    h_i = np.asarray(np.linalg.inv(A_ib).T @ r.h_b, float)
    h_c, center = np.asarray(np.linalg.inv(r.A_cb).T @ r.h_b, float), r.H_ic[:-1, -1]
    masses = [body.inertia.mass for body in r.tree.bodies]
    frames_only = sum(m * (r.base_pose(r.q) @ H)[:-1, -1] for m, H in zip(masses, r.poses(r.x), strict=True))
    connection = dynamics.mechanical_connection(r.tree, r.q)
    by_frame = dynamics.momentum_in_frame(r.tree, r.q, r.v, r.H_ic)
    found = {
        "3.63": (
            apart(frames_only / r.tree.mass, center),
            apart(dynamics.center_of_mass(r.tree, r.q)[:d], center),
        ),
        "3.70, before": (None, apart(r.m, connection)),
        "3.96, after": (apart(r.A_cb @ r.h_b, h_c), apart(h_c, by_frame)),
    }
    if r.space:
        l, p = h_i[:3], h_i[3:]
        u = np.concatenate([0.7 * p, 0.7 * l - 0.4 * p])  # of i seen from c, in the axes of i
        velocity = p / r.tree.mass
        o = center
        nu_ci = np.concatenate([-velocity, np.zeros(3)])
        zero = np.zeros((3, 3))
        a = np.block([[zero, skew(nu_ci[:3])], [zero, zero]])  # (2.35), linear first
        printed = np.block([[zero, zero], [-skew(o), zero]])
        mended = np.block([[zero, zero], [skew(velocity), zero]])
        found |= {
            "3.62, after": (left(u[:3], u), left(g.ad(u).T @ h_i, np.abs(g.ad(u)).T @ np.abs(h_i))),
            "3.70, before section 3.2.4": (
                left(printed @ np.concatenate([p, l]), np.linalg.norm(o) * p),
                max(apart(mended, a.T), left(skew(velocity) @ p, np.linalg.norm(velocity) * p)),
            ),
        }
    else:
        flat, end = hopper(), 1.7802
        nodes, weights = np.polynomial.legendre.leggauss(20)
        points = [np.array([0, 0, 0, end * (s + 1) / 2]) for s in nodes]
        slopes = [dynamics.mechanical_connection(flat, q)[0, 0] for q in points]
        found["3.76"] = (None, apart(end / 2 * weights @ slopes, hopper_angle(end)))
    return found


def _slips_of_maps(r: Floating) -> Sizes:
    k, x = r.k, mapped(r)
    bb, bq, _, _ = r.blocks(r.M)
    rbb, rbq, _, _ = r.blocks(r.M_rate)
    C_b, C_bq, C_qb, C_q = r.blocks(r.hamel)
    inv = np.linalg.inv
    X, Y = inv(x.T_x), inv(x.T_y)
    _, _, Cyx, Cy = r.blocks(x.hamel)
    _, Pxy, Pyx, _ = r.blocks(x.passive)
    Mx, _, _, My = r.blocks(x.M)
    m = r.m
    inner = C_q - C_qb @ m - m.T @ C_bq + m.T @ C_b @ m
    w, rate = x.T @ r.v, x.T @ r.a + x.T_rate @ r.v
    F = inv(x.T).T @ (r.M @ r.a + r.bias)
    p, i, c = mapped(r, "momentum"), mapped(r, "inertial"), mapped(r, "centroidal")
    v = p.T @ r.v
    Cx = r.blocks(p.hamel)[0]
    Px, Pxy_p, _, _ = r.blocks(p.passive)
    # every invariance, relative to the products that cancel
    invariant = max(
        left(Cx @ v[:k], np.abs(Cx) @ np.abs(v[:k])),
        left(r.blocks(i.hamel)[0], inv(i.T_x).T @ rbb @ inv(i.T_x)),
    )
    size = inv(p.T_x).T @ rbb @ inv(p.T_x)
    At_L_a, prefix = turned(r.A) @ r.Lam @ r.a_j, inv(p.T_x).T
    AA, AJ = r.sum(At_L_a, r.A), r.sum(At_L_a, r.J)
    printed_x = prefix @ r.sum(At_L_a, r.A, (r.link_twists + m @ r.rates)[:, :, None])[:, 0]
    right_x, right_y = prefix @ AA @ (r.nu + m @ r.rates), prefix @ (AJ - AA @ m) @ r.rates
    proof = max(apart(right_x, Px @ v[:k]), apart(right_y, Pxy_p @ v[k:]), left(right_x + right_y, right_x))
    same = left(Px @ v[:k] + Px @ v[k:], Px @ v[:k]) if k == r.n else None
    e = c.T @ r.v
    forces = [r.blocks(C)[0] @ e[:k] + r.blocks(C)[1] @ e[k:] for C in (c.hamel, c.passive)]

    def inertia(q: Array, v: Array) -> Array:
        A = r.group.Ad(r.group.inverse(r.H_cb(q)))
        return A.T @ r.mass(q[r.start :])[:k, :k] @ A

    moved = r.along(inertia) @ e[:k]
    off = x.T_rate[:k, k:]
    sizes = np.linalg.svd(rbb, compute_uv=False)
    right = x.T_x_rate @ m + x.T_x @ (-inv(bb) @ rbb @ inv(bb) @ bq + inv(bb) @ rbq)
    return {
        "3.81": (None, apart(x.M @ rate + x.hamel @ w, F)),
        "3.81, C_yx": (apart((Y.T @ C_qb - m.T @ C_b) @ X, Cyx), apart(Y.T @ (C_qb - m.T @ C_b) @ X, Cyx)),
        "3.81, C_y": (
            apart(Y.T @ (inner - My @ x.T_y_rate) @ Y, Cy),
            apart(Y.T @ inner @ Y - My @ x.T_y_rate @ Y, Cy),
        ),
        "Prop. 3.3.1, second part": (left(Cx, size), invariant),
        "3.84": (apart(Pyx, Pxy.T), apart(Pyx, -Pxy.T)),
        "3.85": (same, left(Px @ v[:k] + Pxy_p @ v[k:], Pxy_p @ v[k:])),
        "3.85, proof": (apart(printed_x, Px @ v[:k]), proof),
        "3.95": (min(left(f, moved) for f in forces), max(apart(f, moved) for f in forces)),
        "A.4a": (apart(X @ bb @ X.T, Mx), apart(X.T @ bb @ X, Mx)),
        "A.3, A.5b": (None, max(apart(right, off), float(sizes[-1] / sizes[0]))),
        "A.5d": (None, apart(Y.T @ (C_q - C_qb @ m + m.T @ (C_b @ m - C_bq)) @ Y - My @ x.T_y_rate @ Y, Cy)),
    }


def _slips_of_the_split() -> Sizes:
    few, equal, many = (split(n) for n in (3, 6, 8))
    wrong = min(few.printed_left, few.printed_right, many.printed_left)
    right = max(equal.printed_left, equal.printed_right, many.printed_right)
    one = max(few.left, equal.left, equal.right, many.right)
    worst = max(x for s in (few, equal) for x in (s.inertial, s.bracket, s.equations))
    return {
        "3.88": (wrong, right),
        "3.90–3.96": (min(few.right, many.left), max(one, *(s.diagonal for s in (few, equal, many)))),
        "3.89, 3.91, 3.94": (min(many.inertial, many.bracket, many.equations), worst),
        "3.94": (None, max(few.equations, equal.equations)),
    }
