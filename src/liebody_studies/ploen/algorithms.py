"""The mechanisms of the study of Ploen (1999), his formulas as printed, and what these are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from liebody import dynamics, groups, models
from liebody.bodies import SpatialInertia, Tree, TreeBuilder
from liebody.compiler import jacobian, jvp, trace
from liebody.dynamics import Factorization
from liebody.groups import SE3
from liebody.scalars.linear import cross, skew

from .. import compare
from ..compare import Array, along, random_inertia, random_pose

SKEW = ("christoffel", "ploen", "coadjoint")
OF_BODIES = (*SKEW, "newton-euler")  # forms that are made of the bodies' matrices, as the paper's are
FORMS = (*OF_BODIES, "hamel")
FREE_FALL = np.array([0, 0, -9.81])


class Chain(compare.Chain):
    """The paper's chain: M_i is `home(i - 1, i)`, S_i in the body's frame `axis(i)`; i counts from 0."""

    @classmethod
    def random(cls, rng: np.random.Generator, kinds: str = "RPHRRR") -> Chain:
        """Revolute, prismatic and helical joints about axes that pass through no frame's origin."""
        screws = []
        for kind in kinds:
            axis = rng.normal(size=3)
            axis /= np.linalg.norm(axis)
            turn = np.concatenate([axis, cross(rng.normal(size=3), axis)])
            slide = np.concatenate([np.zeros(3), axis])
            screws.append({"R": turn, "P": slide, "H": turn + 0.3 * slide}[kind])
        homes = [random_pose(rng) for _ in kinds]
        return cls(np.array(screws), np.array(homes), tuple(random_inertia(rng) for _ in kinds))

    def reframed(self, rng: np.random.Generator) -> Chain:
        """The same bodies and joints, with other frames in the bodies."""
        moves = [random_pose(rng) for _ in self.homes]
        inertias = [I.shift(SE3.inverse(T)) for I, T in zip(self.inertias, moves, strict=True)]
        return Chain(self.screws, self.homes @ np.array(moves), tuple(inertias))


JOINTS: dict[str, Callable[[Array, Array], Any]] = {
    # about an axis through a point
    "revolute": groups.Revolute, "prismatic": lambda a, p: groups.Prismatic(a),
    "helical": lambda a, p: groups.Helical(a, 0.3, p), "cylindrical": groups.Cylindrical,
    "planar": groups.Planar, "spherical": lambda a, p: groups.Spherical(p),
    "planar translation": lambda a, p: groups.PlanarTranslation(a),
    "spatial translation": lambda a, p: groups.SpatialTranslation(), "schoenflies": groups.Schoenflies,
    "planar-helical": lambda a, p: groups.PlanarHelical(a, -0.2, p),
    "free": lambda a, p: groups.Free(), "fixed": lambda a, p: groups.Fixed(),
}  # fmt: skip


def random_tree(rng: np.random.Generator, kinds: Sequence[str]) -> Tree:
    """A tree of bodies with these joints, each on the last body or on a random one before it."""
    builder, names = TreeBuilder("random"), ["world"]
    for k, kind in enumerate(kinds):
        group = JOINTS[kind](rng.normal(size=3), rng.normal(size=3))
        parent = names[-1] if rng.random() < 0.6 or k == 1 else names[rng.integers(len(names))]
        builder.add(f"body{k}", group, random_inertia(rng), parent, random_pose(rng))
        names.append(f"body{k}")
    return builder.build()


class Mechanism(NamedTuple):
    """A mechanism of section 4, at a random state; `commuting` if its velocities are rates of coordinates."""

    name: str
    tree: Tree
    q: Array
    v: Array
    commuting: bool


def mechanisms(seed: int = 1999) -> list[Mechanism]:
    """The PUMA 560, a tree of one-degree-of-freedom joints, one of every joint, and a floating one."""
    rng = np.random.default_rng(seed)
    single = ["revolute", "prismatic", "revolute", "helical", "revolute", "revolute", "prismatic", "revolute"]
    every = [k for k in JOINTS if k != "free"]
    floating = ["free", "revolute", "revolute", "spherical", "prismatic", "revolute"]
    found = []
    for name, tree, commuting in (
        ("PUMA 560", models.puma560(motors=False).tree, True),
        ("tree, 8 R, P, H joints", random_tree(rng, single), True),
        ("tree, every joint type", random_tree(rng, every), False),
        ("tree, floating", random_tree(rng, floating), False),
    ):
        found.append(Mechanism(name, tree, tree.group.random(rng), rng.normal(size=tree.nv), commuting))
    return found


def mass_matrix_rate(tree: Tree, q: Array, v: Array) -> Array:
    """dM/dt, by differentiating the graph of the composite-body algorithm."""
    return along(tree, q, v, 0 * v, lambda q, v: dynamics.mass_matrix(tree, q))


def christoffel_matrix(tree: Tree, q: Array, v: Array) -> Array:
    """(2) with (3), from derivatives of M along the basis of velocities, by Koszul's formula:

    2 Gamma_kji = e_i M_kj + e_j M_ki - e_k M_ij + <[e_i, e_j], e_k> - <[e_j, e_k], e_i> + <[e_k, e_i], e_j>

    The brackets are those of the joints' groups; where these commute it is (3).
    """
    n = tree.nv
    moving = trace(lambda s, u: dynamics.mass_matrix(tree, tree.group.integrate(q, s * u)), {"s": (), "u": n})
    rate, e = jvp(moving, "s"), np.eye(n)
    dM = np.array([rate(0.0, x, 1.0) for x in e])  # [i, k, j]: e_i M_kj
    M = dynamics.mass_matrix(tree, q)
    B = np.array([M @ tree.group.ad(x) for x in e])  # [i, k, j]: <[e_i, e_j], e_k>
    symbols = np.einsum("ikj->kji", dM) + np.einsum("jki->kji", dM) - np.einsum("kij->kji", dM)
    symbols += np.einsum("ikj->kji", B) - np.einsum("jik->kji", B) + np.einsum("kji->kji", B)
    return symbols @ v / 2


class Lagrange(NamedTuple):
    """M a, dM/dt v - dT/dq, and dU/dq of Lagrange's equations, from graphs of M and of the energies."""

    inertial: Array
    quadratic: Array
    weight: Array


def lagrange(tree: Tree, q: Array, v: Array, a: Array) -> Lagrange:
    """For joints whose velocities are the rates of their coordinates."""
    kinetic = trace(lambda q: dynamics.kinetic_energy(tree, q, v), {"q": tree.nq})
    potential = trace(lambda q: dynamics.potential_energy(tree, q), {"q": tree.nq})
    return Lagrange(
        dynamics.jacobian_mass_matrix(tree, q) @ a,
        mass_matrix_rate(tree, q, v) @ v - jacobian(kinetic, "q")(q),
        jacobian(potential, "q")(q),
    )


def Ad_printed(X: Array) -> Array:
    """(4)."""
    R, b = SE3.parts(X)
    return np.block([[R, np.zeros((3, 3))], [skew(b) @ R, R]])


def Ad_star_printed(X: Array) -> Array:
    """(5)."""
    R, b = SE3.parts(X)
    return np.block([[R.T, R.T @ skew(b).T], [np.zeros((3, 3)), R.T]])


def ad_printed(x: Array) -> Array:
    """(6)."""
    return np.block([[skew(x[:3]), np.zeros((3, 3))], [skew(x[3:]), skew(x[:3])]])


def ad_star_printed(x: Array) -> Array:
    """(7)."""
    return np.block([[-skew(x[:3]), -skew(x[3:])], [np.zeros((3, 3)), -skew(x[:3])]])


def exp_printed(x: Array, angle: float) -> Array:
    """(9)-(11): exp of x = (omega, v) times an angle; right for a unit omega, or none."""
    W, s, c = skew(x[:3]), np.sin(angle), np.cos(angle)
    R = np.eye(3) + s * W + (1 - c) * W @ W
    b = (angle * np.eye(3) + (1 - c) * W + (angle - s) * W @ W) @ x[3:]
    return SE3.motion(R, b)


def J_printed(inertia: SpatialInertia) -> Array:
    """(12)."""
    m, r, I = inertia.mass, skew(inertia.com), inertia.rotational
    return np.block([[I - m * r @ r, m * r], [-m * r, m * np.eye(3, dtype=int)]])


def body_matrix(form: str, inertia: SpatialInertia, V: Array) -> Array:
    """A body's Coriolis matrix (6, 6), numbers or symbols: those of (30) and Proposition 1, and two more.

    "newton-euler"  -ad_V^T J, of (30)
    "ploen"         Proposition 1
    "coadjoint"     ad~ of the momentum, From (2012)
    "christoffel"   (-ad_V^T J + J ad_V + ad~_JV) / 2
    """
    J = J_printed(inertia)
    if form == "newton-euler":
        return -ad_star_printed(V) @ J
    if form == "ploen":
        W, r, m = skew(V[:3]), skew(inertia.com), inertia.mass
        I = inertia.rotational - m * r @ r
        return np.block([[W @ I + I @ W, m * r @ W], [-m * W @ r, m * W]])
    p = J @ V
    coad = -np.block([[skew(p[:3]), skew(p[3:])], [skew(p[3:]), np.zeros((3, 3), int)]])
    if form == "coadjoint":
        return coad
    return (-ad_star_printed(V) @ J + J @ ad_printed(V) + coad) / 2


class Recursion(NamedTuple):
    """V_i, dV_i/dt and F_i, (n, 6), and tau (nv,)."""

    V: Array
    A: Array
    F: Array
    tau: Array


def recursion(tree: Tree, q: Array, v: Array, a: Array, V_0: Array, A_0: Array) -> Recursion:
    """(13)-(18) as printed, with dense matrices.

    On a tree, the parent stands for body i - 1, and the sum over the children for F_{i+1}.
    """
    V, A, F, X = [V_0], [A_0], [np.zeros(6)], [np.zeros((6, 6))]
    for body in tree.bodies:
        p, S = body.parent, body.joint.S
        X.append(Ad_printed(SE3.inverse(body.pose(q))))
        Sv = S @ v[body.dofs]
        V.append(X[-1] @ V[p] + Sv)
        A.append(S @ a[body.dofs] + X[-1] @ A[p] - ad_printed(Sv) @ X[-1] @ V[p])
        J = J_printed(body.inertia)
        F.append(J @ A[-1] - ad_star_printed(V[-1]) @ J @ V[-1])
    tau = np.zeros(tree.nv)
    for body in reversed(tree.bodies):
        i = body.index
        tau[body.dofs] = body.joint.S.T @ F[i]
        F[body.parent] = F[body.parent] + X[i].T @ F[i]
    return Recursion(np.array(V[1:]), np.array(A[1:]), np.array(F[1:]), tau)


def closed_form(
    f: Factorization, v: Array, a: Array, V_0: Array, A_0: Array
) -> tuple[Array, Array, Array, Array]:
    """V, dV/dt, F and tau by (19)-(22)."""
    V = f.G @ f.S @ v + f.G @ f.P_0 @ V_0
    A = f.G @ (f.S @ a + f.ad_Sv @ (f.Gamma @ V + f.P_0 @ V_0) + f.P_0 @ A_0)
    ad_V = block_diagonal([-ad_star_printed(x) for x in V.reshape(-1, 6)])
    F = f.G.T @ (f.J @ A + ad_V @ f.J @ V)
    return V, A, F, f.S.T @ F


def block_diagonal(blocks: Sequence[Array]) -> Array:
    n = len(blocks)
    zero = np.zeros((6, 6), int)
    return np.block([[blocks[i] if i == j else zero for j in range(n)] for i in range(n)])
