"""Feurstein (2021), equation by equation: what is right as printed, and what to correct."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from liebody import dynamics
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.codegen import jacobian, jvp, trace
from liebody.groups import SE3, Prismatic, Revolute, Spherical
from liebody.linear import cross, skew, solve

from ..ploen.page import along, apart, random_inertia, random_pose
from ..report import APART, Correction
from .robots import (
    EXACT,
    WEIGHT,
    Floating,
    frames,
    hopper,
    hopper_angle,
    left,
    linear_first,
    mapped,
    split,
    turned,
)

Array = Any
S2 = np.array([[0, -1], [1, 0]])


# -- equation by equation -----------------------------------------------------------------------------------


class Check(NamedTuple):
    """An equation as printed, what it is compared with, and how far it is off for one robot.

    differs  whether `off` has to be large: where the thesis says that two things differ
    """

    number: str
    printed: str
    against: str
    off: float
    differs: bool = False

    @property
    def confirmed(self) -> bool:
        return self.off > APART if self.differs else self.off < EXACT


@cache
def checks(r: Floating) -> list[Check]:
    """Every equation of chapters 2 and 3 and appendix A that is right as printed, for one robot."""
    return [
        *_algebra(r),
        *_links(r),
        *_variations(r),
        *_motion(r),
        *_equivalence(r),
        *_conserved(r),
        *_decoupled(r),
        *_internal(r),
        *_appendix(r),
    ]


def _algebra(r: Floating) -> list[Check]:
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
    found = [
        Check(
            "2.2, 2.4",
            r"$\frac{d}{dt}(R^\top)\,R = -R^\top\dot R$, $\frac{d}{dt}(H^{-1})\,H = -H^{-1}\dot H$",
            "rates of graphs",
            max(
                apart(rate(lambda x, y: r.parts(x)[0].T) @ Rot, -Rot.T @ Rot_dot),
                apart(rate(lambda x, y: g.inverse(x)) @ H_xy, -H_yx @ rate(lambda x, y: x)),
            ),
        ),
        Check(
            "2.5–2.9",
            r"$\hat\nu = H^{-1}\dot H = [R^\top\dot R,\; R^\top\dot o;\; 0,\; 0]$",
            "the twist that the frame moves with",
            apart(body, g.hat(nu_xy)),
        ),
        Check(
            "2.10",
            r"$H\hat\nu H^{-1} = [R\hat\omega R^\top,\; Rv - R\hat\omega R^\top o;\; 0,\; 0]$",
            "the product of matrices",
            apart(hat, big),
        ),
        Check(
            "2.11",
            r"$[\hat\nu_2, \hat\nu_1] = [\hat\omega_2\hat\omega_1 - \hat\omega_1\hat\omega_2,\; "
            r"\hat\omega_2v_1 - \hat\omega_1v_2;\; 0,\; 0]$",
            "the commutator",
            apart(small, commutator),
        ),
        Check(
            "2.12, L 2.3",
            r"$\mathrm{Ad}_{xz} = \mathrm{Ad}_{xy}\mathrm{Ad}_{yz}$",
            r"$H\hat\nu H^{-1}$",
            apart(Ad(H_xy) @ Ad(H_yz) @ u, g.vee(H_xz @ g.hat(u) @ g.inverse(H_xz))),
        ),
        Check(
            "2.13, L 2.4",
            r"$\nu_{xz} = \mathrm{Ad}_{zy}\nu_{xy} + \nu_{yz}$",
            r"$H_{xz}^{-1}\dot H_{xz}$",
            apart(A_zy @ nu_xy + nu_yz, nu_xz),
        ),
        Check(
            "2.14, L 2.5",
            r"$\frac{d}{dt}\mathrm{Ad}_{xy} = \mathrm{Ad}_{xy}\,\mathrm{ad}_{\nu_{xy}}$",
            "the rate of the graph",
            apart(A_xy @ ad(nu_xy), rate(lambda x, y: Ad(x))),
        ),
        Check(
            "2.15, L 2.6",
            r"$\mathrm{Ad}_{xy}^{-1} = \mathrm{Ad}_{yx}$",
            "the inverse matrix",
            apart(Ad(H_yx), np.linalg.inv(A_xy)),
        ),
        Check(
            "2.17, L 2.8",
            r"$\mathrm{ad}_{\nu}\nu = 0$",
            "zero",
            left(ad(nu_xy) @ nu_xy, np.abs(ad(nu_xy)) @ np.abs(nu_xy)),
        ),
        Check(
            "2.18, L 2.9",
            r"$\mathrm{ad}_{\nu_{xz}} = \mathrm{Ad}_{zy}\mathrm{ad}_{\nu_{xy}}\mathrm{Ad}_{zy}"
            r"^{-1} + \mathrm{ad}_{\nu_{yz}}$",
            r"$\mathrm{ad}$ of (2.13)",
            apart(A_zy @ ad(nu_xy) @ np.linalg.inv(A_zy) + ad(nu_yz), ad(nu_xz)),
        ),
        Check(
            "2.31",
            r"$\dot H = H\hat\nu$ for $H = e^{t\hat\nu}$, at any t",
            "the rate of the graph",
            apart(jvp(flow, "s")(t, 1.0), g.exp(t * u) @ g.hat(u)),
        ),
        Check(
            "2.36, 2.37",
            r"$a_{xy}\nu_{zw} = -a_{zw}\nu_{xy}$ and (2.12)–(2.18) on twists",
            "each other",
            apart(ad(u) @ w, -ad(w) @ u),
        ),
    ]
    if r.space:
        v, omega = nu_xy[3:], nu_xy[:3]
        zero = np.zeros((3, 3))
        printed = np.block([[Rot, skew(o) @ Rot], [zero, Rot]])
        little = np.block([[skew(omega), skew(v)], [zero, skew(omega)]])
        skewed = np.array([[0, -omega[2], omega[1]], [omega[2], 0, -omega[0]], [-omega[1], omega[0], 0]])
        found += [
            Check(
                "2.33",
                r"$\hat\omega$ by its three components",
                r"$R^\top\dot R$",
                apart(skewed, Rot.T @ Rot_dot),
            ),
            Check(
                "2.34, L 2.10",
                r"$A_{xy} = [R,\; \hat oR;\; 0,\; R]$",
                r"$(H\hat\nu H^{-1})^\vee$",
                apart(printed @ linear_first(u), linear_first(g.vee(big))),
            ),
            Check(
                "2.35, L 2.11",
                r"$a_{xy} = [\hat\omega,\; \hat v;\; 0,\; \hat\omega]$",
                "the commutator",
                apart(
                    little @ linear_first(u),
                    linear_first(g.vee(g.hat(nu_xy) @ g.hat(u) - g.hat(u) @ g.hat(nu_xy))),
                ),
            ),
        ]
    return found


def _links(r: Floating) -> list[Check]:
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
        own = trace(
            lambda y, b=body: r._planar(b.placement @ b.joint.group.pose(y)), {"y": body.joint.group.nq}
        )
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
    blocks = np.block(
        [
            [r.sum(turned(r.A), r.Lam, r.A), r.sum(turned(r.A), r.Lam, r.J)],
            [r.sum(turned(r.J), r.Lam, r.A), r.sum(turned(r.J), r.Lam, r.J)],
        ]
    )
    return [
        Check(
            "2.19, 2.20",
            r"$\nu_j = A_{jb}\nu_b + \nu_{bj}$, $\hat\nu_{bj} = H_{bj}^{-1}\dot H_{bj}$",
            r"$H_{ij}^{-1}\dot H_{ij}$",
            apart(r.A @ r.nu + nu_bj, twists),
        ),
        Check(
            "2.21–2.24, 2.38–2.40",
            r"$\nu_j = A_{jb}\nu_b + J_{jq}\dot q$, $\hat J^i = H_{bj}^{-1}\partial_i "
            r"H_{bj}$",
            r"$H_{ij}^{-1}\dot H_{ij}$",
            apart(r.link_twists, twists),
        ),
        Check(
            "2.25, 2.28",
            r"$J^i_{jq} = A_{ji}(H_{i-1,i}^{-1}\partial_iH_{i-1,i})^\vee$",
            "(2.23), for the whole tree",
            apart(columns, r.J),
        ),
        Check(
            "2.26, 2.27, 2.30",
            r"hinges have $s = (0; \omega)$, sliders $(R^\top\partial_i o; 0)$",
            "zero, for axes through the frame's origin",
            max(shapes),
        ),
        Check(
            "2.41, 2.42",
            r"$T = \frac{1}{2}\sum\nu_{jc}^\top\mathrm{diag}(m, I)\,\nu_{jc}$",
            "`kinetic_energy`",
            apart(kinetic, dynamics.kinetic_energy(tree, r.q, r.v)),
        ),
        Check(
            "2.47–2.49",
            r"$\nu_j = [A_{jb}\; J_{jq}]\,(\nu_b; \dot q)$, $L = \frac{1}{2}V^\top M_bV - U$",
            "`kinetic_energy`",
            apart(r.v @ M @ r.v / 2, kinetic),
        ),
        Check(
            "2.51",
            r"$M_{bb} = \sum A^\top\Lambda A$, $M_{bq} = \sum A^\top\Lambda J$, $M_{qq} = \sum "
            r"J^\top\Lambda J$",
            "`mass_matrix`",
            apart(blocks, dynamics.mass_matrix(tree, r.q)),
        ),
    ]


def _variations(r: Floating) -> list[Check]:
    x = r.principle
    found = [
        Check(
            "3.16, 3.24, 3.25",
            r"$\delta\nu_b = \dot{\delta\Gamma} + \mathrm{ad}_{\nu_b}\delta\Gamma$: "
            r"$\delta\omega = \dot{\delta\eta} + \omega\times\delta\eta$, $\delta v = \dot{\delta\chi} + "
            r"\omega"
            r"\times\delta\chi + v\times\delta\eta$",
            "the derivative of the graph by ε",
            x.velocity,
        ),
        Check(
            "3.4–3.9, 3.20–3.32",
            r"$\delta A = -\int(\ldots)\,\delta\Gamma + (\ldots)\,\delta q\; dt$ with the "
            "Hamel equations in the brackets, weight included, on a path that is no motion",
            "the action's derivative by quadrature; brackets by recursive Newton-Euler",
            abs(x.change - x.hamel) / x.terms,
        ),
    ]
    momentum = r.along(lambda q, v: r.mass(q[r.start :])[: r.k] @ v)
    efforts = dynamics.inverse_dynamics(r.tree, r.q, r.v, r.a, gravity=(0, 0, 0))
    lagrangian = trace(lambda x, v: v @ r.mass(x) @ v / 2, {"x": r.n, "v": r.tree.nv})
    of_joints = r.along(lambda q, v: r.mass(q[r.start :])[r.k :] @ v)
    slope = np.asarray(jacobian(lagrangian, "x")(r.x, r.v), float)
    hamiltonian = trace(lambda x, h: h @ solve(r.mass(x), h) / 2, {"x": r.n, "h": r.tree.nv})
    h = r.M @ r.v
    free = dynamics.forward_dynamics(r.tree, r.q, r.v, np.zeros(r.tree.nv), WEIGHT)
    energy = along(
        r.tree,
        r.q,
        r.v,
        free,
        lambda q, v: v @ r.mass(q[r.start :]) @ v / 2 + dynamics.potential_energy(r.tree, q, WEIGHT),
    )
    power = float(np.abs(r.v) @ np.abs(r.M @ free))
    found += [
        Check(
            "3.30a, 3.33",
            r"$\frac{d}{dt}\frac{\partial L}{\partial\nu_b} - a_b^\top\frac{\partial L}{\partial"
            r"\nu_b} = F_b$",
            "recursive Newton-Euler",
            apart(momentum - r.a_b.T @ r.h_b, efforts[: r.k]),
        ),
        Check(
            "3.30b, 3.34",
            r"$\frac{d}{dt}\frac{\partial L}{\partial\dot q} - \frac{\partial L}{\partial q} = "
            r"\tau$",
            "recursive Newton-Euler",
            apart(of_joints - slope, efforts[r.k :]),
        ),
        Check(
            "3.35, 3.36",
            r"$\frac{\partial H}{\partial q} = -\frac{\partial L}{\partial q}$, $\frac{\partial "
            r"H}{\partial h} = (\nu_b; \dot q)$",
            "graphs of H(q, h) and of L",
            max(
                apart(jacobian(hamiltonian, "x")(r.x, h), -slope),
                apart(jacobian(hamiltonian, "h")(r.x, h), r.v),
            ),
        ),
        Check(
            "after 3.36",
            r"$\dot H = 0$ in free flight, with weight",
            "the rate along the motion",
            abs(float(energy)) / power,
        ),
    ]
    if r.space:
        body = SpatialInertia(2.0, (0.3, -0.2, 0.4), np.diag([0.5, 0.7, 0.9]))
        top = TreeBuilder("top").add("top", Spherical(), body).build()
        q, w, dw = top.group.random(r.rng), *r.rng.normal(size=(2, 3))
        rows = top.bodies[0].pose(q)[:3, :3]
        L_r = [
            -2.0 * 9.81 * np.asarray(body.com) if i == 1 else np.zeros(3) for i in range(3)
        ]  # L = -m g r_2.c
        I = body.matrix()[:3, :3]
        euler = I @ dw + cross(w, I @ w) + sum(cross(rows[i], L_r[i]) for i in range(3))
        eta = r.rng.normal(size=3)
        Rot = np.asarray(rows, float)
        found += [
            Check(
                "3.13, 3.15, 3.17",
                r"$\delta R = R\,\delta\hat\eta$, $\delta r_i = r_i\times\delta\eta$",
                "the rows of the product",
                apart((Rot @ skew(eta)), [cross(row, eta) for row in Rot]),
            ),
            Check(
                "3.12, 3.19",
                r"$I\dot\omega + \omega\times I\omega + \sum r_i\times\frac{\partial L}{\partial "
                r"r_i} = 0$",
                "recursive Newton-Euler of a heavy top",
                apart(euler, dynamics.inverse_dynamics(top, q, w, dw, gravity=WEIGHT)),
            ),
        ]
    return found


def _motion(r: Floating) -> list[Check]:
    k = r.k
    C, P = r.hamel, r.passive
    ours = dynamics.coriolis_matrix(r.tree, r.q, r.v, "hamel")
    library = dynamics.coriolis_matrix(r.tree, r.q, r.v, "feurstein")
    return [
        Check(
            "3.37–3.39",
            r"$C = [\dot M_{bb} - a_b^\top M_{bb},\; \dot M_{bq} - a_b^\top M_{bq};\; \dot M_{bq}^"
            r"\top - \frac{1}{2}M_{b,q},\; \dot M_{qq} - M_{bq,q} - \frac{1}{2}M_{q,q}]$: $CV$",
            "recursive Newton-Euler",
            apart(C @ r.v, r.bias),
        ),
        Check("3.39", "its first row", '`coriolis_matrix(..., "hamel")`', apart(C[:k], ours[:k])),
        Check(
            "before 3.82",
            r"it is not passive",
            r"$|\dot M - C - C^\top|/|C|$",
            left(r.M_rate - C - C.T, C),
            differs=True,
        ),
        Check(
            "3.41",
            r"$C^E = \sum J^\top\Psi J + J^\top\Lambda\dot J$, $\Psi = \Lambda a - a^\top\Lambda$: $C^EV$",
            "recursive Newton-Euler",
            apart(P @ r.v, r.bias),
        ),
        Check("3.41", "the matrix", '`coriolis_matrix(..., "feurstein")`', apart(P, library)),
        Check(
            "1.6, 3.82",
            r"$\dot M = C^p + C^{p\top}$",
            r"$\dot M$ of the graph of (2.50)",
            apart(P + P.T, r.M_rate),
        ),
    ]


def _equivalence(r: Floating) -> list[Check]:
    g, A, J, L, nu, x = r.group, r.A, r.J, r.Lam, r.nu, r.rates
    At, Jt = turned(A), turned(J)
    A_inv = np.linalg.inv(A)
    a_jb = -A_inv @ r.a_bj @ A
    twists = np.array([g.ad(-(i @ u)) for i, u in zip(A_inv, J @ x, strict=True)])  # of nu_jb = -A_bj nu_bj
    C, P = r.hamel, r.passive
    C_b, C_bq, _, _ = r.blocks(C)
    M_b_q, _, M_q_q = r.gradients
    Aq, Jq = turned(r.A_q), turned(r.J_q)
    lemma = max(
        apart(r.A_rate, A @ a_jb),
        apart(a_jb, twists),
        apart(r.A_inverse_rate, -a_jb @ A_inv),
        apart(A @ a_jb, -r.a_bj @ A),
        apart(a_jb @ A_inv, -A_inv @ r.a_bj),
        apart(r.a_j, A @ (r.a_b - a_jb) @ A_inv),
    )
    rows_b = r.sum(At, L, r.A_rate) @ nu + r.sum(At, L, r.J_rate) @ x
    with_a = (At @ turned(r.a_j) @ L @ r.link_twists[:, :, None]).sum(axis=0)[:, 0]
    Psi_off = r.sum(At, L, r.a_j, A) @ nu + r.sum(At, L, r.a_j, J) @ x
    rows_q = r.sum(Jt, L, r.A_rate) @ nu + r.sum(Jt, L, r.J_rate) @ x
    with_q = (Jt @ turned(r.a_j) @ L @ r.link_twists[:, :, None]).sum(axis=0)[:, 0]
    return [
        Check("Prop. 3.1.1", r"$CV = C^EV$ with (3.39) and (3.41)", "each other", apart(C @ r.v, P @ r.v)),
        Check(
            "3.42a–e, L 3.1",
            r"$\dot A_{jb} = A_{jb}a_{jb}$, $\frac{d}{dt}A_{jb}^{-1} = -a_{jb}A_{jb}^{-1}$, "
            r"$A_{jb}a_{jb} = -a_{bj}A_{jb}$, $a_j = A_{jb}(a_b - a_{jb})A_{jb}^{-1}$",
            "rates of graphs, twists of the links",
            lemma,
        ),
        Check(
            "3.43, 3.46",
            r"$C_b\nu_b + C_{bq}\dot q = \sum A^\top\Lambda\dot A\nu_b + A^\top\Lambda\dot J\dot q "
            r"- A^\top a_j^\top\Lambda\nu_j$",
            "recursive Newton-Euler",
            apart(rows_b - with_a, r.bias[: r.k]),
        ),
        Check(
            "3.44",
            r"$C_b = \sum A^\top\Lambda\dot A - A^\top a_j^\top\Lambda A$",
            "(3.39), as matrices",
            apart(r.sum(At, L, r.A_rate) - r.sum(At, turned(r.a_j), L, A), C_b),
        ),
        Check(
            "3.45",
            r"$C_{bq} = \sum A^\top\Lambda\dot J - A^\top a_j^\top\Lambda J$",
            "(3.39), as matrices",
            apart(r.sum(At, L, r.J_rate) - r.sum(At, turned(r.a_j), L, J), C_bq),
        ),
        Check(
            "3.48",
            r"$M_{b,q}\nu_b = 2\sum A_q^\top\Lambda A\nu_b$",
            "(3.37)",
            apart(2 * r.sum(Aq, L, A) @ nu, M_b_q @ nu),
        ),
        Check(
            "3.50",
            r"$M_{q,q}\dot q = 2\sum J_q^\top\Lambda J\dot q$",
            "(3.37)",
            apart(2 * r.sum(Jq, L, J) @ x, M_q_q @ x),
        ),
        Check(
            "3.55, L 3.2",
            r"$J_{q} - \dot J = a_{\nu_{bj}}J$",
            "derivatives of the graph of J",
            apart(r.J_q - r.J_rate, r.a_bj @ J),
        ),
        Check(
            "3.56, L 3.3",
            r"$A_{q} = a_{A_{jb}\nu_b}J$",
            "derivatives of the graph of A",
            apart(r.A_q, r.a_A @ J),
        ),
        Check(
            "3.59",
            r"$C_{qb}\nu_b + C_q\dot q = \sum J^\top\Lambda\dot A\nu_b + J^\top\Lambda\dot J\dot q - "
            r"J^\top a_j^\top\Lambda\nu_j$",
            "recursive Newton-Euler",
            apart(rows_q - with_q, r.bias[r.k :]),
        ),
        Check(
            "after 3.83",
            r"$\sum A^\top\Lambda a_jA\nu_b + A^\top\Lambda a_jJ\dot q = 0$",
            "zero",
            left(Psi_off, r.sum(At, L, r.a_j, A) @ nu),
        ),
    ]


def _conserved(r: Floating) -> list[Check]:
    g, k = r.group, r.k
    bb, bq, _, qq = r.blocks(r.M)
    inverse = np.linalg.inv(r.A_cb)
    efforts = dynamics.inverse_dynamics(r.tree, r.q, r.v, r.a, gravity=(0, 0, 0))
    F_b = efforts[:k]

    def momentum(q: Array, v: Array) -> Array:
        return r.mass(q[r.start :])[:k] @ v

    def inertial(q: Array, v: Array) -> Array:
        return g.Ad(g.inverse(r.base_pose(q))).T @ momentum(q, v)

    def central(q: Array, v: Array) -> Array:
        return g.Ad(g.inverse(r.H_cb(q))).T @ momentum(q, v)

    H_ib = np.asarray(r.base_pose(r.q), float)
    A_ib = g.Ad(H_ib)
    h_i = np.linalg.inv(A_ib).T @ r.h_b
    x, u = g.element(g.random(r.rng)), r.rng.normal(size=k)

    def any_frame(s: Any) -> Array:
        q = r.tree.group.integrate(r.q, s * r.v)
        H_xb = g.inverse(g.compose(x, g.exp(s * u))) @ r.base_pose(q)
        return g.Ad(g.inverse(H_xb)).T @ momentum(q, r.v + s * r.a)

    moving = np.asarray(jvp(trace(any_frame, {"s": ()}), "s")(0.0, 1.0), float)
    A_xb = g.Ad(g.inverse(x) @ H_ib)
    a_xb = g.ad(r.nu - np.linalg.solve(A_xb, u))
    expected = np.linalg.inv(A_xb).T @ (F_b + (r.a_b - a_xb).T @ r.h_b)
    center_rate = r.along(lambda q, v: r.base_pose(q)[:-1] @ np.append(r.center(q[r.start :]), 1))
    nu_c = np.concatenate([np.zeros(k - len(center_rate)), center_rate])
    H_ic = np.eye(g.n)
    H_ic[:-1, -1] = np.asarray(r.base_pose(r.q)[:-1] @ np.append(r.center(r.x), 1), float)
    nu_ci = -g.Ad(H_ic) @ nu_c  # i seen from c, in the axes of i
    h_c = inverse.T @ r.h_b
    sizes = np.abs(g.ad(nu_ci)).T @ np.abs(h_i)
    M_c = inverse.T @ bb @ inverse
    rotor = k - len(center_rate)
    coupling = max(
        left(M_c[:rotor, rotor:], M_c), left(M_c[rotor:, rotor:] - r.tree.mass * np.eye(k - rotor), M_c)
    )
    locked = r.nu + r.m @ r.rates
    energy = (locked @ bb @ locked + r.rates @ (qq - bq.T @ r.m) @ r.rates) / 2
    connection = trace(lambda x: solve(r.mass(x)[:k, :k], r.mass(x)[:k, k:]), {"x": r.n})
    dm = np.asarray(jacobian(connection, "x")(r.x), float)  # (k, n, n): d_j m_i
    B = np.array(
        [[dm[:, i, j] - dm[:, j, i] + g.ad(r.m[:, i]) @ r.m[:, j] for j in range(r.n)] for i in range(r.n)]
    )
    curvature = np.moveaxis(B, -1, 0)
    found = [
        Check(
            "3.60, Prop. 3.2.1",
            r"$\dot h_x = A_{xb}^{-\top}(F_b + (a_b - a_{xb})^\top h_b)$ in any frame, so that "
            r"$\dot h_x = A_{xb}^{-\top}F_b$ iff $a_{xb}^\top h_b = a_b^\top h_b$",
            "the rate of the graph",
            apart(moving, expected),
        ),
        Check(
            "3.61",
            r"$\dot h_i = A_{ib}^{-\top}F_b$",
            "the rate of the graph",
            apart(r.along(inertial), np.linalg.inv(A_ib).T @ F_b),
        ),
        Check(
            "3.62, 3.69",
            r"$\dot h_c = A_{cb}^{-\top}F_b$ at the centre of mass, $R_{ic} = 1$",
            "the rate of the graph",
            apart(r.along(central), inverse.T @ F_b),
        ),
        Check("3.62", r"there $a_{ci}^\top h_i = 0$", "zero", left(g.ad(nu_ci).T @ h_i, sizes)),
        Check(
            "3.62",
            r"but $a_{ci}^\top \neq 0$ as a matrix",
            r"$|a_{ci}|/|\nu_{ci}|$",
            left(g.ad(nu_ci), nu_ci),
            differs=True,
        ),
        Check(
            "3.64",
            r"$o_{ic} = o_{ib} + R_{ib}o_{bc}$, over the bodies' centres of mass",
            "`center_of_mass`",
            apart(H_ic[:-1, -1], dynamics.center_of_mass(r.tree, r.q)[: g.n - 1]),
        ),
        Check(
            "3.65",
            r"$h_b = M_{bb}\nu_b + M_{bq}\dot q$",
            "`base_momentum`",
            apart(r.h_b, dynamics.base_momentum(r.tree, r.q, r.v)),
        ),
        Check(
            "3.66",
            r"$\nu_b^{loc} = \nu_b + M_{bb}^{-1}M_{bq}\dot q$",
            "`locked_velocity`",
            apart(locked, dynamics.locked_velocity(r.tree, r.q, r.v)),
        ),
        Check(
            "3.67, 3.68",
            r"$h_i = A_{ib}^{-\top}h_b$, $\nu_i^{loc} = A_{ib}\nu_b^{loc}$: equal power",
            "`momentum_in_frame`; $h^\\top\\nu$",
            max(
                apart(dynamics.momentum_in_frame(r.tree, r.q, r.v, g.identity()), h_i),
                abs(h_i @ (A_ib @ locked) / (r.h_b @ locked) - 1),
            ),
        ),
        Check(
            "after 3.69",
            r"$H_{cb} = [R_{ib},\; o_{ib} - o_{ic};\; 0,\; 1]$; $h_c$ is the centroidal momentum",
            "`centroidal_momentum`",
            apart(
                h_c,
                dynamics.centroidal_momentum(r.tree, r.q, r.v)[:6]
                if r.space
                else dynamics.centroidal_momentum(r.tree, r.q, r.v)[2:5],
            ),
        ),
        Check("3.2.3", r"$A_{cb}^{-\top}M_{bb}A_{cb}^{-1} = \mathrm{diag}(I_c, m1)$", "the blocks", coupling),
        Check(
            "3.66",
            r"$T = \frac{1}{2}\nu^{loc\top}M_{bb}\nu^{loc} + \frac{1}{2}\dot q^\top(M_{qq} - M_{bq}^\top "
            r"M_{bb}^{-1}M_{bq})\dot q$",
            r"$\frac{1}{2}V^\top MV$",
            apart(energy, r.v @ r.M @ r.v / 2),
        ),
        Check(
            "3.72",
            r"$\partial_jT^i - \partial_iT^j + [T^i, T^j]$, zero iff the frame is a function of q",
            "`connection_curvature`, which differentiates nothing",
            left(curvature - dynamics.connection_curvature(r.tree, r.q), curvature, dm),
        ),
        Check(
            "3.72", "for this robot it is not zero", r"$|B|/|\partial T|$", left(curvature, dm), differs=True
        ),
    ]
    if not r.space:
        T_w, T_v = r.m[0], r.m[1:]
        worst = 0.0
        for i in range(r.n):
            for j in range(r.n):
                linear = dm[1:, i, j] - dm[1:, j, i] + T_w[i] * S2 @ T_v[:, j] - T_w[j] * S2 @ T_v[:, i]
                angular = dm[0, i, j] - dm[0, j, i]
                worst = max(
                    worst, left(np.append(linear, angular) - np.append(B[i, j][1:], B[i, j][0]), B, dm)
                )
        found.append(
            Check(
                "3.73, L 3.4",
                r"$\partial_jT^i_\omega - \partial_iT^j_\omega$, $\partial_jT^i_v - \partial_iT^j_v "
                r"+ T^i_\omega ST^j_v - T^j_\omega ST^i_v$",
                "(3.72) on SE(2)",
                worst,
            )
        )
    return found


def _decoupled(r: Floating) -> list[Check]:
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
    return [
        Check(
            "3.77",
            r"$M_y = T^{-\top}MT^{-1}$, $C_y = T^{-\top}CT^{-1} - M_y\dot TT^{-1}$: $M_y\dot v_y + C_yv_y = "
            r"T^{-\top}F$",
            r"$\dot v_y$ by $T$ and $\dot T$",
            apart(x.M @ rate + x.hamel @ w, F),
        ),
        Check(
            "3.78",
            r"$F_b = T_x^\top F_x$ alone, with $T_{yx} = 0$",
            "zero block",
            left(np.linalg.inv(x.T).T[:k, k:], x.T),
        ),
        Check(
            "3.80",
            r"$T^{-1} = [T_x^{-1},\; -M_{bb}^{-1}M_{bq}T_y^{-1};\; 0,\; T_y^{-1}]$",
            "the inverse matrix",
            apart(printed, np.linalg.inv(x.T)),
        ),
        Check("3.79", r"$T^{-\top}MT^{-1}$ is block-diagonal", "zero block", left(Mxy, x.M)),
        Check(
            "3.81, A.4b",
            r"$M_x = T_x^{-\top}M_{bb}T_x^{-1}$, $M_y = T_y^{-\top}(M_{qq} - M_{bq}^\top M_{bb}^{-1}"
            r"M_{bq})T_y^{-1}$",
            "(3.77)",
            max(apart(X.T @ bb @ X, Mx), apart(Y.T @ (qq - bq.T @ r.m) @ Y, My)),
        ),
        Check(
            "3.81",
            r"$C_x = T_x^{-\top}(\dot M_{bb} - a_b^\top M_{bb} - M_{bb}T_x^{-1}\dot T_x)T_x^{-1}$",
            "(3.77)",
            apart(X.T @ (rbb - r.a_b.T @ bb - bb @ X @ x.T_x_rate) @ X, Cx),
        ),
        Check(
            "3.81, Prop. 3.3.1",
            r"$C_{xy} = 0$ with (3.39), for any $T_x(q)$ and $T_y(q)$",
            "zero block",
            left(Cxy, X.T @ C_bq @ Y, X.T @ C_b @ r.m @ Y),
        ),
        Check(
            "3.81",
            r"$M_x$, $C_x$, $C_{xy}$ for $T_x = A_{cb}$",
            "`decoupled_dynamics`",
            max(
                apart(r.blocks(own.M)[0], lib.Mx),
                apart(r.blocks(own.hamel)[0], lib.Cx),
                left(lib.Cxy, lib.Cx),
            ),
        ),
        Check(
            "3.84",
            r"$C^p_x$ with $+\sum A^\top\Lambda a_jA$ in the brackets of (3.81)",
            "(3.77)",
            apart(X.T @ (rbb - r.a_b.T @ bb - bb @ X @ x.T_x_rate + AA) @ X, Px),
        ),
        Check(
            "3.84",
            r"$C^p_y = T_y^{-\top}(C_q^p - C_{qb}^pm - m^\top C_{bq}^p + m^\top C_b^pm)T_y^{-1} - M_y\dot "
            r"T_yT_y^{-1}$",
            "(3.77)",
            apart(Y.T @ inner @ Y - My @ x.T_y_rate @ Y, Py),
        ),
        Check(
            "3.86",
            r"$C^p_{xy} = T_x^{-\top}\sum(A^\top\Lambda a_jJ - A^\top\Lambda a_jA\,M_{bb}^{-1}M_{bq})"
            r"T_y^{-1}$",
            "(3.77)",
            apart(X.T @ (AJ - AA @ r.m) @ Y, Pxy),
        ),
        Check(
            "3.3.3",
            r"the passive form does not decouple: $C^p_{xy} \neq 0$",
            r"$|C^p_{xy}|/|C^p|$",
            left(Pxy, x.passive),
            differs=True,
        ),
        Check(
            "3.84",
            r"each part is passive: $\dot M_x = C^p_x + C_x^{p\top}$",
            r"the rate of $T_x^{-\top}M_{bb}"
            r"T_x^{-1}$",
            apart(Px + Px.T, Mx_rate),
        ),
        Check(
            "3.85, Prop. 3.3.2",
            r"$C^p_xv_x + C^p_{xy}v_y = 0$ for the momentum map $T_x = A_{cb}^{-\top}M_{bb}$",
            "zero",
            left(Qx @ v[:k] + Qxy @ v[k:], Qxy @ v[k:], np.abs(Qx) @ np.abs(v[:k])),
        ),
    ]


def _internal(r: Floating) -> list[Check]:
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
    return [
        Check(
            "3.88",
            r"the inverse of $[A,\; B;\; C,\; D]$ with $D^\sharp = D^{-1}$",
            "the inverse matrix",
            apart(printed, inv(whole)),
        ),
        Check(
            "3.91",
            r"$M_{ei}\dot\nu^{int} = A^{-\top}(M_{bq} - M_{bb}A^{-1}B)(\ddot q + D^\sharp\dot D\dot q)$, D "
            "square",
            "(3.89)",
            apart(by_print, direct),
        ),
        Check(
            "3.92, 3.93",
            r"$M_I = \mathrm{diag}(A^{-\top}M_{bb}A^{-1},\; D^{\sharp\top}(M_{qq} - M_{bq}^\top M_{bb}^{-1}"
            r"M_{bq})D^\sharp)$",
            "(3.77), D square",
            max(apart(D2.T @ (qq - bq.T @ r.m) @ D2, r.blocks(x.M)[3]), left(r.blocks(x.M)[1], x.M)),
        ),
        Check(
            "3.96",
            r"$\nu_j = A_{jb}A_{cb}^{-1}\nu_c^{ext} + J_j^{int}\dot q$, $J_j^{int} = J_{jq} - A_{jb}M_{bb}"
            r"^{-1}M_{bq}$",
            "(2.39)",
            apart(r.A[link] @ np.linalg.solve(r.A_cb, ext) + J_int @ r.rates, r.link_twists[link]),
        ),
        Check(
            "3.96",
            r"$J_j^{int}$",
            "`internal_jacobian`",
            apart(J_int, J_lib if r.space else np.asarray(J_lib)[2:5]),
        ),
    ]


def _appendix(r: Floating) -> list[Check]:
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
    by_graph = np.asarray(
        jvp(trace(lambda s: solve((W + s * dW).T @ (W + s * dW), (W + s * dW).T), {"s": ()}), "s")(0.0, 1.0),
        float,
    )
    return [
        Check(
            "A.3",
            r"$\dot T_{xy} = \dot T_xM_{bb}^{-1}M_{bq} + T_x(\frac{d}{dt}(M_{bb}^{-1})M_{bq} + "
            r"M_{bb}^{-1}\dot M_{bq})$",
            "the rate of the graph",
            apart(x.T_rate[: r.k, r.k :], x.T_x_rate @ r.m + x.T_x @ r.along(m)),
        ),
        Check(
            "A.5a",
            r"$C_x = T_x^{-\top}(C_b - M_{bb}T_x^{-1}\dot T_x)T_x^{-1}$",
            "(3.77)",
            apart(X.T @ (C_b - bb @ X @ x.T_x_rate) @ X, Cx),
        ),
        Check(
            "A.5b, 3.94",
            r"$C_{xy} = T_x^{-\top}(C_{bq} - C_bm - M_{bb}\frac{d}{dt}(M_{bb}^{-1})M_{bq} - \dot M_{bq})"
            r"T_y^{-1}$, and as $(\dot M_{bb} - C_b)m$ in (3.94)",
            "(3.77), with the passive C",
            max(
                apart(X.T @ (P_bq - P_b @ r.m - bb @ inverse_rate @ bq - rbq) @ Y, Pxy),
                apart(X.T @ (P_bq + (rbb - P_b) @ r.m - rbq) @ Y, Pxy),
            ),
        ),
        Check(
            "A.5c",
            r"$C_{yx} = T_y^{-\top}(C_{qb} - M_{bq}^\top M_{bb}^{-1}C_b)T_x^{-1}$",
            "(3.77)",
            apart(Y.T @ (C_qb - r.m.T @ C_b) @ X, Cyx),
        ),
        Check(
            "A.6",
            "the rules of the cross product, and $\\frac{d}{dt}(M^{-1})M = -M^{-1}\\dot M$",
            "each other",
            max(
                apart(skew(a) @ b, -skew(b) @ a),
                apart(skew(a) @ skew(b) - skew(b) @ skew(a), skew(cross(a, b))),
                abs(cross(a, b) @ c - a @ cross(b, c)),
                apart(Rot @ cross(a, b), cross(Rot @ a, Rot @ b)),
                apart(Rot @ skew(a) @ Rot.T, skew(Rot @ a)),
                apart(by_graph @ W, -np.linalg.inv(W) @ dW),
            ),
        ),
    ]


# -- what to correct ----------------------------------------------------------------------------------------


def corrections(pair: list[Floating]) -> list[Correction]:
    """Every slip, with the smallest of the printed errors and the largest of the corrected ones."""
    found: dict[str, Correction] = {}
    for r in pair:
        for c in _slips(r):
            other = found.get(c.number)
            if other is None:
                found[c.number] = c
                continue
            known = [x.before for x in (c, other) if x.before is not None]
            found[c.number] = Correction(
                c.number, c.printed, c.correct, min(known, default=None), max(c.after, other.after), c.says
            )
    return [*found.values(), *_slips_of_the_split()]


@cache
def _slips(r: Floating) -> list[Correction]:
    return [*_slips_of_algebra(r), *_slips_of_dynamics(r), *_slips_of_momentum(r), *_slips_of_maps(r)]


def _slips_of_algebra(r: Floating) -> list[Correction]:
    g = r.group
    H_xy, H_yz, nu_xy, _, rate = frames(r)
    Rot, _ = r.parts(H_xy)
    Rot_dot, o_dot = r.parts(rate(lambda x, y: x))
    v_xy = Rot.T @ o_dot
    A_xy, u = g.Ad(H_xy), r.rng.normal(size=g.dim)
    nu_yx = g.vee(H_xy @ rate(lambda x, y: g.inverse(x)))
    omega = Rot.T @ Rot_dot
    body = r.tree.bodies[0].inertia
    d = g.n - 1
    values, axes = np.linalg.eigh(np.asarray(body.rotational, float))
    axes = axes * np.sign(np.linalg.det(axes))
    kinetic = float(dynamics.kinetic_energy(r.tree, r.q, r.v))
    by_links = sum(u @ L @ u for u, L in zip(r.link_twists, r.Lam, strict=True)) / 2
    down = np.asarray(WEIGHT)[:d]
    com = np.asarray(body.com, float)
    if r.space:
        D = np.block([[np.diag(values), np.zeros((3, 3))], [np.zeros((3, 3)), body.mass * np.eye(3)]])
        H_jc = SE3.motion(axes, com)
    else:
        D, axes = np.diag([body.rotational[2, 2], body.mass, body.mass]), np.eye(2)
        H_jc = np.eye(3)
        H_jc[:2, 2] = com[:2]
    wrong, right = g.Ad(H_jc), g.Ad(g.inverse(H_jc))
    # (2.52) along y
    base = np.asarray(r.base_pose(r.q), float)
    rows, origin = base[:-1, :-1], base[:-1, -1]
    moment = r.tree.mass * np.asarray(r.center(r.x), float)
    U = r.tree.mass * 9.81 * origin[1] + 9.81 * rows[1] @ moment
    found = [
        Correction(
            "2.5, 2.6",
            "the velocities are “expressed in frame X”",
            "in frame Y, the body's: X sees $R_{xy}v_{xy}$",
            apart(v_xy, o_dot),
            apart(Rot @ v_xy, o_dot),
            "wrong",
        ),
        Correction(
            "after 2.6",
            r"$\dot R^\top R = -R^\top\dot R^\top$",
            r"$-R^\top\dot R$",
            apart(-Rot.T @ Rot_dot.T, Rot_dot.T @ Rot),
            apart(-Rot.T @ Rot_dot, omega.T),
        ),
        Correction(
            "L 2.3, proof",
            r"$\mathrm{Ad}_{yz}\hat\nu = H_{xy}(H_{yz}\hat\nu H_{yz}^{-1})H_{xy}^{-1}$",
            r"$\mathrm{Ad}_{xy}\mathrm{Ad}_{yz}\hat\nu$ on the left",
            apart(g.Ad(H_yz) @ u, g.Ad(H_xy @ H_yz) @ u),
            apart(A_xy @ g.Ad(H_yz) @ u, g.Ad(H_xy @ H_yz) @ u),
        ),
        Correction(
            "2.16, L 2.7",
            r"$\mathrm{ad}_{\nu_{xy}} = -\mathrm{ad}_{\nu_{yx}}$",
            r"$a_{yx} = -A_{xy}a_{xy}A_{xy}^{-1}$; antisymmetric is $\mathrm{ad}_xy = -\mathrm{ad}_yx$, "
            r"(2.36d)",
            apart(g.ad(nu_xy), -g.ad(nu_yx)),
            apart(g.ad(nu_yx), -A_xy @ g.ad(nu_xy) @ np.linalg.inv(A_xy)),
            "wrong",
        ),
        Correction(
            "2.22, 2.24",
            r"$\hat\nu_{bj} = H_{bj}^{-1}\partial_iH_{bj}\,\dot q_i$, $\hat J^i$",
            r"as a sum over i; columns are $J^i = (\hat J^i)^\vee$",
            None,
            apart(r.J @ r.rates, r.link_twists - r.A @ r.nu),
            "imprecise",
        ),
        Correction(
            "2.43",
            r"$\Lambda_j = \sum A_{j,jc}^\top\,\mathrm{diag}(m, I)\,A_{j,jc}$",
            r"$A_{jc,j}$",
            apart(wrong.T @ D @ wrong, r.Lam[0]),
            apart(right.T @ D @ right, r.Lam[0]),
        ),
        Correction(
            "2.46, 2.50", "sums over i from 0 to n of terms with j", "over j", None, apart(by_links, kinetic)
        ),
        Correction(
            "2.52",
            r"$m\,g\,o_{ib} + g\,r_2^\top\sum m_{jc}o_{b,jc}$: a vector plus a number",
            r"$m\,g\,o_{ib}^y + \ldots$",
            None,
            apart(U, dynamics.potential_energy(r.tree, r.q, WEIGHT)),
        ),
    ]
    if r.space:
        hinge = r.tree.bodies[1]
        s = np.asarray(hinge.joint.S[:3, 0], float)
        H = np.asarray(r.poses(r.x), float)
        R_ji, o_ji = SE3.parts(SE3.inverse(H[2]) @ H[1])
        column = np.concatenate([R_ji @ s, skew(o_ji) @ R_ji @ s])
        R_p, zero, one = axes, np.zeros((3, 3)), np.eye(3)
        D_first = linear_first(D)
        printed = np.block([[R_p, skew(com)], [zero, one]])
        mended = np.block([[R_p.T, -R_p.T @ skew(com)], [zero, R_p.T]])
        mass, c = body.mass, skew(com)
        I, central = np.diag(values), np.asarray(body.rotational, float)
        first = np.block([[mass * one, -mass * c], [-mass * c, I - mass * c @ c]])
        right_one = np.block([[mass * one, -mass * c], [mass * c, central - mass * c @ c]])
        Lam = linear_first(r.Lam[0])
        torque = sum(cross(row, 9.81 * moment * (i == 1)) for i, row in enumerate(rows))
        gravity = dynamics.gravity_forces(r.tree, r.q, WEIGHT)
        pull = rows.T @ (-r.tree.mass * down)
        found += [
            Correction(
                "2.29",
                r"upper part $\hat o_{ji}R_{ji}(R^\top\partial_iR)$, a 3 × 3 matrix",
                r"$\hat o_{ji}R_{ji}(R^\top\partial_iR)^\vee$",
                None,
                apart(column, r.J[2][:, 0]),
            ),
            Correction(
                "2.44",
                r"$A_{jc,j} = [R_{j,jc},\; \hat o_{j,jc};\; 0,\; 1]$",
                r"$[R^\top,\; -R^\top\hat o;\; 0,\; R^\top]$, $R = R_{j,jc}$",
                apart(printed.T @ D_first @ printed, Lam),
                apart(mended.T @ D_first @ mended, Lam),
            ),
            Correction(
                "2.45",
                r"$\Lambda_j = [m1,\; -m\hat o;\; -m\hat o,\; I - m\hat o\hat o]$",
                r"$[m1,\; -m\hat o;\; +m\hat o,\; RIR^\top - m\hat o\hat o]$",
                apart(first, Lam),
                apart(right_one, Lam),
            ),
            Correction(
                "2.53",
                r"$G_\omega = +\sum r_i\times\frac{\partial U}{\partial r_i}$, $\frac{\partial U}"
                r"{\partial o_{ib}} = [0; mg]$",
                r"$-\sum r_i\times\frac{\partial U}{\partial r_i}$, as $L = -U$ in "
                r"(3.32a); $[0; mg; 0]$",
                apart(np.concatenate([torque, pull]), gravity[:6]),
                apart(np.concatenate([-torque, pull]), gravity[:6]),
            ),
        ]
    return found


def _slips_of_dynamics(r: Floating) -> list[Correction]:
    A, J, L, a_j, nu, x = r.A, r.J, r.Lam, r.a_j, r.nu, r.rates
    Jt, Aq, Jq = turned(J), turned(r.A_q), turned(r.J_q)
    _, _, C_qb, C_q = r.blocks(r.hamel)
    M_b_q, M_bq_q, M_q_q = r.gradients
    _, _, rqb, rqq = r.blocks(r.M_rate)
    _, _, P_qb, P_q = r.blocks(r.passive)
    F = r.M @ r.a + r.bias
    A_inv = np.linalg.inv(A)
    a_jb = -A_inv @ r.a_bj @ A
    inverse_T_rate = turned(r.A_inverse_rate)
    wrench = (Jt @ turned(a_j) @ L @ r.link_twists[:, :, None]).sum(axis=0)[:, 0]
    printed_wrench = (Jt @ a_j @ r.link_twists[:, :, None]).sum(axis=0)[:, 0]
    wanted = r.sum(Jt, L, r.A_rate) @ nu + r.sum(Jt, L, r.J_rate) @ x - r.bias[r.k :]
    last = (
        r.sum(Jt, L, r.A_rate) @ nu - r.sum(Jt, turned(a_j), L, A) @ nu - r.sum(Jt, turned(r.a_A), L, J) @ x
    )
    split_qb = r.sum(Jt, L, r.A_rate) @ nu + r.sum(turned(r.J_rate), L, A) @ nu - r.sum(Aq, L, A) @ nu
    split_q = (
        r.sum(Jt, L, r.J_rate) @ x + r.sum(turned(r.J_rate), L, J) @ x - r.sum(Jq, L, J) @ x - M_bq_q @ x
    )
    half = r.sum(Aq, L, A)
    v = r.principle
    qb = rqb + r.sum(-Aq, L, A) + r.sum(-Jq, L, A) + r.sum(Jt, L, a_j, A)
    qq = rqq + r.sum(-Jq, L, J) + r.sum(-Aq, L, J) + r.sum(Jt, L, a_j, J)
    wrong_J = np.array([r.group.ad(u) for u in r.link_twists]) @ J
    momentum = r.along(lambda q, v: r.mass(q[r.start :])[r.k :] @ v)
    lagrangian = trace(lambda x, v: v @ r.mass(x) @ v / 2, {"x": r.n, "v": r.tree.nv})
    slope = np.asarray(jacobian(lagrangian, "x")(r.x, r.v), float)
    tau = F[r.k :]
    ends = r.M[r.k :] @ r.v
    by_products = (M_b_q @ nu) / 2 + M_bq_q @ x
    variation_size = abs(v.change - v.hamel) / v.terms
    w, eta_rate = r.rng.normal(size=(2, 3))
    bent = frames(r).rate(lambda x, y: x)  # dH of a variation
    Rot = np.asarray(random_pose(np.random.default_rng(5))[:3, :3], float)
    found = [
        Correction(
            "3.3",
            "variations of the velocities vanish at the ends, too; the number is the largest there, "
            r"with which $\delta A$ is right",
            "only those of the configuration do",
            v.ends,
            variation_size,
            "wrong",
        ),
        Correction(
            "3.18, before",
            r"no sign before $\sum(\frac{\partial L}{\partial r_i}\times r_i)\,\delta\eta$",
            "+",
            None,
            variation_size,
        ),
        Correction(
            "3.22, after",
            r"$\delta H_{ib} = [\delta R,\; \delta o;\; 0,\; 1]$",
            r"$[\delta R,\; \delta o;\; 0,\; 0]$",
            abs(1 - bent[-1, -1]),
            left(bent[-1], bent),
        ),
        Correction(
            "3.27",
            r"third line $-\int\frac{d}{dt}\frac{\partial L}{\partial\omega_b}\,\delta\eta\,dt$",
            r"$-\int\frac{d}{dt}\frac{\partial L}{\partial\dot q}\,\delta q\,dt$",
            None,
            variation_size,
        ),
        Correction(
            "3.30, before",
            r"$\frac{\partial L}{\partial\dot q} - \frac{\partial L}{\partial q} = \tau$",
            r"$\frac{d}{dt}\frac{\partial L}{\partial\dot q}$",
            apart(ends - slope, tau),
            apart(momentum - slope, tau),
        ),
        Correction(
            "3.37, before",
            r"$\frac{\partial L}{\partial q}$ with $\frac{1}{2}\nabla\,\dot q^\top M_{qq}\ddot q$",
            r"$\dot q^\top M_{qq}\dot q$",
            apart(by_products + (M_q_q @ r.a[r.k :]) / 2, slope),
            apart(by_products + (M_q_q @ x) / 2, slope),
        ),
        Correction(
            "3.40",
            "the velocities stand behind the wrench",
            r"$M\dot V + C^E(\nu_b; \dot q) = (F_b; \tau)$",
            None,
            apart(r.M @ r.a + r.passive @ r.v, F),
        ),
        Correction(
            "3.42b, right",
            r"$\frac{d}{dt}A_{jb}^{-1} = -A_{jb}^{-\top}a_{jb}^\top$",
            r"$\frac{d}{dt}A_{jb}^{-\top}$",
            apart(-turned(A_inv) @ turned(a_jb), turned(inverse_T_rate)),
            apart(-turned(A_inv) @ turned(a_jb), inverse_T_rate),
        ),
        Correction(
            "3.47, before",
            r"second row of $C^EV$ with $-J^\top a_j\nu_j$, which is zero",
            r"$-\sum J^\top a_j^\top\Lambda_j"
            r"\nu_j$",
            apart(-printed_wrench, -wrench),
            apart(-wrench, -wanted),
        ),
        Correction(
            "3.47",
            r"$A_{jb,q}$, $J_{jq,q}$ as stacked rows",
            r"as columns $(\partial_iA_{jb})\nu_b$, $(\partial_iJ_{jq})"
            r"\dot q$",
            None,
            apart(2 * half @ nu, M_b_q @ nu),
        ),
        Correction(
            "3.49",
            r"$M_{bq,q}^\top\nu_b = \ldots$: n × n times k",
            r"$M_{bq,q}\,\dot q = \sum J_q^\top\Lambda A\nu_b + A_q^\top\Lambda J\dot q$",
            None,
            apart(r.sum(Jq, L, A) @ nu + r.sum(Aq, L, J) @ x, M_bq_q @ x),
        ),
        Correction(
            "L 3.2, proof",
            r"$\mathrm{ad}_{\nu_j}$; $\partial_iJ^i$",
            r"$\mathrm{ad}_{\nu_{bj}}$, as in the lemma; "
            r"$\partial_iJ^k$",
            apart(wrong_J, r.J_q - r.J_rate),
            apart(r.a_bj @ J, r.J_q - r.J_rate),
        ),
        Correction(
            "3.57",
            r"$C_{qb}\nu_b$ with $-M_{bq,q}^\top\nu_b$, three terms",
            r"$\sum J^\top\Lambda\dot A\nu_b + \dot J^\top"
            r"\Lambda A\nu_b - A_q^\top\Lambda A\nu_b$, as in (3.39)",
            apart(last, C_qb @ nu),
            apart(split_qb, C_qb @ nu),
        ),
        Correction(
            "3.58",
            r"$C_q = \dot M_{qq} - \frac{1}{2}M_{q,q}$; the row's sum with (3.57) is right",
            r"$-M_{bq,q}$ belongs here, as in (3.39)",
            apart((rqq - M_q_q / 2) @ x, C_q @ x),
            apart(split_q, C_q @ x),
            "imprecise",
        ),
        Correction(
            "3.83c, d",
            r"first lines: matrix plus vector, and $\frac{1}{2}M_{b,q} = \sum A_q^\top\Lambda A$, "
            r"which holds times $\nu_b$ only",
            r"$C^p_{qb} = \dot M_{bq}^\top + \sum(J^\top\Lambda a - A_q^\top\Lambda - J_q^\top\Lambda)A$, "
            r"$C^p_q = \dot M_{qq} + \sum(J^\top\Lambda a - J_q^\top\Lambda - A_q^\top\Lambda)J$",
            apart(M_b_q / 2, half),
            max(apart(qb, P_qb), apart(qq, P_q)),
            "wrong",
        ),
    ]
    if r.space:
        family = trace(
            lambda s: r.group.vee(SE3.hat(np.concatenate([w + s * eta_rate, np.zeros(3)]))), {"s": ()}
        )
        rates = np.asarray(jvp(family, "s")(0.0, 1.0), float)[:3]
        found += [
            Correction(
                "3.11",
                r"$T = \omega^\top I\omega$",
                r"$\frac{1}{2}\omega^\top I\omega$",
                _energy(1.0),
                _energy(0.5),
            ),
            Correction(
                "3.14",
                r"$\delta\dot R = \dot R\,\delta\hat\eta + R\,\hat\eta$",
                r"$\dot R\,\delta\hat\eta + R\,\frac{d}{dt}"
                r"\delta\hat\eta$",
                apart(Rot @ skew(w), Rot @ skew(eta_rate)),
                apart(Rot @ skew(rates), Rot @ skew(eta_rate)),
            ),
            Correction(
                "3.24",
                r"third line $+\,R_{ib}\,\frac{d}{dt}\delta\hat\eta$ (3.16: without the dot)",
                r"$+\,\frac{d}{dt}\delta\hat\eta$",
                v.printed,
                v.velocity,
            ),
        ]
    return found


def _energy(factor: float) -> float:
    """How far factor w^T I w is from the kinetic energy of a body on a ball joint."""
    rng = np.random.default_rng(6)
    top = TreeBuilder("top").add("top", Spherical(), random_inertia(rng)).build()
    q, w = top.group.random(rng), rng.normal(size=3)
    I = top.bodies[0].inertia.matrix()[:3, :3]
    return apart(factor * w @ I @ w, dynamics.kinetic_energy(top, q, w))


def _slips_of_momentum(r: Floating) -> list[Correction]:
    g, d = r.group, r.group.n - 1
    A_ib = g.Ad(r.base_pose(r.q))
    h_i = np.asarray(np.linalg.inv(A_ib).T @ r.h_b, float)
    H_ic = np.eye(g.n)
    H_ic[:-1, -1] = np.asarray(r.base_pose(r.q)[:-1] @ np.append(r.center(r.x), 1), float)
    h_c = np.asarray(np.linalg.inv(r.A_cb).T @ r.h_b, float)
    center = H_ic[:-1, -1]
    frames_only = sum(
        body.inertia.mass * (r.base_pose(r.q) @ H)[:-1, -1]
        for body, H in zip(r.tree.bodies, r.poses(r.x), strict=True)
    )
    connection = dynamics.mechanical_connection(r.tree, r.q)
    found = [
        Correction(
            "3.63",
            r"$o_{ic} = \frac{1}{m}\sum m_jo_{ij}$, with the frames' origins",
            "with the centres of mass of the bodies",
            apart(frames_only / r.tree.mass, center),
            apart(dynamics.center_of_mass(r.tree, r.q)[:d], center),
            "imprecise",
        ),
        Correction(
            "3.70, before",
            r"$T(q) = M_b^{-1}M_{bq}$, with the whole mass matrix $M_b$",
            r"$M_{bb}^{-1}M_{bq}$",
            None,
            apart(r.m, connection),
        ),
        Correction(
            "3.96, after",
            r"$A_{cb}$ “transforms the total momentum” from b to c",
            r"$A_{cb}^{-\top}$",
            apart(r.A_cb @ r.h_b, h_c),
            apart(h_c, dynamics.momentum_in_frame(r.tree, r.q, r.v, H_ic)),
            "wrong",
        ),
    ]
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
        found += [
            Correction(
                "3.62, after",
                r"$\omega_{ic} = 0$ is necessary; the number is $|\omega|/|\nu|$ of a frame with $h_c$ "
                r"conserved",
                r"not in space: $\omega_{ci} = \lambda p$, $v_{ci} = \lambda l + \mu p$ has $a_{ci}^\top "
                r"h_i = 0$, too",
                left(u[:3], u),
                left(g.ad(u).T @ h_i, np.abs(g.ad(u)).T @ np.abs(h_i)),
                "wrong",
            ),
            Correction(
                "3.70, before section 3.2.4",
                r"$a_{ci}^\top = [0,\; 0;\; -\hat o_{ic},\; 0]$, applied to $(m\dot o_{ic}; l_c)$",
                r"$+\hat{\dot o}_{ic}$, applied to $(m\dot o_{ic}; l_i)$",
                left(printed @ np.concatenate([p, l]), np.linalg.norm(o) * p),
                max(apart(mended, a.T), left(skew(velocity) @ p, np.linalg.norm(velocity) * p)),
            ),
        ]
    else:
        flat = hopper()
        q = np.array([0.0, 0, 0, 1.7802])
        nodes, weights = np.polynomial.legendre.leggauss(20)
        total = sum(
            w
            / 2
            * dynamics.mechanical_connection(flat, np.array([0, 0, 0, 1.7802 * (s + 1) / 2]))[0, 0]
            * 1.7802
            for s, w in zip(nodes, weights, strict=True)
        )
        found.append(
            Correction(
                "3.76",
                r"$\int_{t_0}^{v_i, t_0}$, from $q(t_0) \neq 0$ on the line $q = vt$",
                r"$\theta_{bc}(q) - \theta_{bc}(0) = \int_0^1 T^i_\omega(sq)\,q_i\,ds$",
                None,
                apart(total, hopper_angle(q[3])),
            )
        )
    return found


def _slips_of_maps(r: Floating) -> list[Correction]:
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
    AA = turned(r.A) @ r.Lam @ r.a_j @ r.A
    prefix = inv(p.T_x).T
    printed_x = prefix @ (AA @ (r.link_twists + m @ r.rates)[:, :, None]).sum(axis=0)[:, 0]
    right_x = prefix @ AA.sum(axis=0) @ (r.nu + m @ r.rates)
    right_y = prefix @ (r.sum(turned(r.A), r.Lam, r.a_j, r.J) - AA.sum(axis=0) @ m) @ r.rates
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
    return [
        Correction(
            "3.81",
            "no sign between the terms, no dots on the first velocities",
            r"$M_v\dot v + Cv$",
            None,
            apart(x.M @ rate + x.hamel @ w, F),
        ),
        Correction(
            "3.81, C_yx",
            r"$T_y^{-\top}C_{qb} - M_{bq}^\top M_{bb}^{-1}C_b)\,T_x^{-1}$",
            r"$T_y^{-\top}(C_{qb} - \ldots)T_x^{-1}$, as in (A.5c)",
            apart((Y.T @ C_qb - m.T @ C_b) @ X, Cyx),
            apart(Y.T @ (C_qb - m.T @ C_b) @ X, Cyx),
        ),
        Correction(
            "3.81, C_y",
            r"$-M_y\dot T_y$ inside $T_y^{-\top}(\ldots)T_y^{-1}$",
            r"outside, $-M_y\dot T_yT_y^{-1}$, as in (A.5d)",
            apart(Y.T @ (inner - My @ x.T_y_rate) @ Y, Cy),
            apart(Y.T @ inner @ Y - My @ x.T_y_rate @ Y, Cy),
        ),
        Correction(
            "Prop. 3.3.1, second part",
            r"$C_x = 0$ for every momentum map, as $a_{cb} = a_{ib}$",
            "for $c = i$ only; for the frame at the centre of mass $C_xv_x = 0$, a vector: "
            r"$a_{cb}^\top h_b = a_{ib}^\top h_b$, not the matrices",
            left(Cx, size),
            invariant,
            "wrong",
        ),
        Correction(
            "3.84",
            r"lower left $C_{xy}^{p\top}$",
            r"$-C_{xy}^{p\top}$",
            apart(Pyx, Pxy.T),
            apart(Pyx, -Pxy.T),
        ),
        Correction(
            "3.85",
            r"$C_xv_x + C_xv_y$",
            r"$C^p_xv_x + C^p_{xy}v_y = 0$",
            same,
            left(Px @ v[:k] + Pxy_p @ v[k:], Pxy_p @ v[k:]),
        ),
        Correction(
            "3.85, proof",
            r"$\ldots A_{jb}(\nu_j + M_b^{-1}M_{bq}\dot q)$ and $\ldots A_{jb}(J\dot q - "
            r"M_b^{-1}M_{bq}\dot q)$",
            r"$A_{jb}(\nu_b + m\dot q)$ and $(J_j - A_{jb}m)\,\dot q$ behind $T_x^{-\top}\sum "
            r"A^\top\Lambda a_j$; they add up to $a_j\nu_j = 0$",
            apart(printed_x, Px @ v[:k]),
            proof,
        ),
        Correction(
            "3.95",
            r"$A = A_{cb}$ makes $C_e\nu^{ext} + C_{ei}\nu^{int} = 0$",
            r"it is $\dot M_e\nu^{ext} = (\dot I_c\omega; 0)$, with (3.39) and (3.41); zero for $A = "
            r"A_{cb}^{-\top}M_{bb}$ only",
            min(left(f, moved) for f in forces),
            max(apart(f, moved) for f in forces),
            "wrong",
        ),
        Correction(
            "A.4a",
            r"$M_x = T_x^{-1}M_{bb}T_x^{-\top}$",
            r"$T_x^{-\top}M_{bb}T_x^{-1}$",
            apart(X @ bb @ X.T, Mx),
            apart(X.T @ bb @ X, Mx),
        ),
        Correction(
            "A.3, A.5b",
            r"$\dot M_{bb}^{-1}$, which may be read as the inverse of $\dot M_{bb}$; that is singular, as "
            r"masses stay",
            r"$\frac{d}{dt}(M_{bb}^{-1})$",
            None,
            max(apart(right, off), float(sizes[-1] / sizes[0])),
            "imprecise",
        ),
        Correction(
            "A.5d",
            "a bracket is not closed",
            r"closed behind $C_{bq}$",
            None,
            apart(Y.T @ (C_q - C_qb @ m + m.T @ (C_b @ m - C_bq)) @ Y - My @ x.T_y_rate @ Y, Cy),
        ),
    ]


def _slips_of_the_split() -> list[Correction]:
    few, equal, many = (split(n) for n in (3, 6, 8))
    return [
        Correction(
            "3.88",
            "an inverse for any number n of joints",
            "for n = 6; for n < 6 neither side is one, for n > 6 the right side only",
            min(few.printed_left, few.printed_right, many.printed_left),
            max(equal.printed_left, equal.printed_right, many.printed_right),
            "wrong",
        ),
        Correction(
            "3.90–3.96",
            r"$DD^\sharp = 1$ is demanded (footnote 3), and $I^{-1}$ used for any n",
            r"$I^\sharp I = 1$ iff $D^\sharp D = 1$ (n ≤ 6), $II^\sharp = 1$ iff $DD^\sharp = 1$ (n ≥ 6)",
            min(few.right, many.left),
            max(few.left, equal.left, equal.right, many.right, few.diagonal, equal.diagonal, many.diagonal),
            "wrong",
        ),
        Correction(
            "3.89, 3.91, 3.94",
            r"$\ddot q + D^\sharp\dot D\dot q$, $\dot q$ and the equations of motion, for any n",
            r"they need $D^\sharp D = 1$, n ≤ 6: for n > 6 the joints' motions that leave $\nu^{int}$ "
            r"alone are missing",
            min(many.inertial, many.bracket, many.equations),
            max(x for s in (few, equal) for x in (s.inertial, s.bracket, s.equations)),
            "imprecise",
        ),
        Correction(
            "3.94",
            r"$C_{ii}\nu^{ext}$, $C_i\nu^{ext}$",
            r"$C_e\nu^{ext}$",
            None,
            max(few.equations, equal.equations),
        ),
    ]
