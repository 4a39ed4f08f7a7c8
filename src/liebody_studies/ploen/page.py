"""Ploen (1999), recomputed: recursive Newton-Euler in global matrices, and a Coriolis matrix that is skew.

Each of its equations is evaluated as it is printed, with dense matrices, and compared with something that
does not come from it: derivatives of graphs along the motion, Lagrange's equations, sums over points of mass,
power. The paper's chains have joints of one degree of freedom; what it says of other trees is checked too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy

from liebody import dynamics, models
from liebody.bodies import SpatialInertia, Tree, TreeBuilder
from liebody.codegen import jacobian, jvp, trace
from liebody.dynamics import Factorization, factorization
from liebody.equations import equations, shortest
from liebody.groups import (
    SE3,
    SO3,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)
from liebody.linear import cross, skew

from ..report import APART, EXACT, Correction, Report

Array = Any
SKEW = ("christoffel", "ploen", "coadjoint")
OF_BODIES = (*SKEW, "newton-euler")  # forms that are made of the bodies' matrices, as the paper's are
FORMS = (*OF_BODIES, "hamel")
BODY_MATRICES = {
    "christoffel": r"$\frac{1}{2}(-\mathrm{ad}_V^\top J + J\,\mathrm{ad}_V + \widetilde{\mathrm{ad}}_{JV})$",
    "ploen": r"Proposition 1",
    "coadjoint": r"$\widetilde{\mathrm{ad}}_{JV}$, From (2012)",
    "newton-euler": r"$-\mathrm{ad}_V^\top J$, (25)",
    "hamel": r"none: $\dot M - \mathrm{ad}_v^\top M - \frac{1}{2}v^\top (e_i M)$",
}
FREE_FALL = np.array([0, 0, -9.81])
TITLE = "A skew-symmetric form of recursive Newton-Euler, recomputed"
SOURCE = (
    "S. R. Ploen (1999), A skew-symmetric form of the recursive Newton-Euler algorithm for the control of "
    "multibody systems. American Control Conference. Numbers (n) are its equations."
)
BLUE, AMBER, GREEN, RED, GREY = "#1f5fa8", "#d9921a", "#14663a", "#b3261e", "#5b6470"


def apart(x: Any, y: Any) -> float:
    """The largest difference, relative to the size of y."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return float(np.max(np.abs(x - y)) / max(np.max(np.abs(y)), 1e-300))


def skewness(A: Array) -> float:
    """|A + A^T| / |A|: zero for a skew-symmetric matrix, 2 for a symmetric one."""
    return float(np.linalg.norm(A + A.T)) / max(float(np.linalg.norm(A)), 1e-300)


# -- mechanisms ---------------------------------------------------------------------------------------------


def random_inertia(rng: np.random.Generator) -> SpatialInertia:
    """A body whose frame is neither at its centre of mass nor along its principal axes."""
    shape = 0.3 * rng.normal(size=(3, 3))
    second = shape @ shape.T + 0.02 * np.eye(3)
    return SpatialInertia(
        rng.uniform(0.5, 2), 0.3 * rng.normal(size=3), np.trace(second) * np.eye(3) - second
    )


def random_pose(rng: np.random.Generator) -> Array:
    return SE3.motion(SO3.element(SO3.random(rng)), 0.5 * rng.normal(size=3))


@dataclass(frozen=True)
class Chain:
    """The paper's chain: joints of one degree of freedom in a row, by their screws and frames at home.

    screws    in space, at home, (n, 6);  homes  poses of the bodies' frames, (n, 4, 4);  inertias  in them
    """

    screws: Array
    homes: Array
    inertias: tuple[SpatialInertia, ...]

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

    @cached_property
    def tree(self) -> Tree:
        """The same mechanism for the algorithms of this library."""
        return Tree.from_screws(self.screws, self.homes, self.inertias)

    def M(self, i: int) -> Array:
        """M_i, the pose of body i in body i - 1 at home; i counts from 0, and body -1 is the base."""
        homes = [*self.homes, np.eye(4)]
        return SE3.inverse(homes[i - 1]) @ homes[i]

    def S(self, i: int) -> Array:
        """S_i in the body's frame."""
        return SE3.Ad(SE3.inverse(self.homes[i])) @ self.screws[i]

    def reframed(self, rng: np.random.Generator) -> Chain:
        """The same bodies and joints, with other frames in the bodies."""
        moves = [random_pose(rng) for _ in self.homes]
        inertias = [I.shift(SE3.inverse(T)) for I, T in zip(self.inertias, moves, strict=True)]
        return Chain(self.screws, self.homes @ np.array(moves), tuple(inertias))


JOINTS: dict[str, Callable[[Array, Array], Any]] = {
    "revolute": Revolute,
    "prismatic": lambda axis, point: Prismatic(axis),
    "helical": lambda axis, point: Helical(axis, 0.3, point),
    "cylindrical": Cylindrical,
    "planar": Planar,
    "spherical": lambda axis, point: Spherical(point),
    "planar translation": lambda axis, point: PlanarTranslation(axis),
    "spatial translation": lambda axis, point: SpatialTranslation(),
    "schoenflies": Schoenflies,
    "planar-helical": lambda axis, point: PlanarHelical(axis, -0.2, point),
    "free": lambda axis, point: Free(),
    "fixed": lambda axis, point: Fixed(),
}


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


# -- what the paper's formulas are compared with ------------------------------------------------------------


def along(tree: Tree, q: Array, v: Array, a: Array, function: Callable[[Array, Array], Any]) -> Any:
    """d/dt of function(q, v) while q moves with v, and v changes at the rate a: by its graph."""
    moving = trace(lambda s: function(tree.group.integrate(q, s * v), v + s * a), {"s": ()})
    return jvp(moving, "s")(0.0, 1.0)


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


# -- the paper's formulas, as printed -----------------------------------------------------------------------


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


# -- equation by equation -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """An equation or a statement of the paper: how far it is from what it should be.

    number   of the equations
    printed  the formula, as a text of the report
    against  what it was compared with
    off      relative difference
    says     a verdict of the report
    differs  whether `off` has to be large, not zero: for a misprint, and where the paper says that two differ
    """

    number: str
    printed: str
    against: str
    off: float
    says: str = "holds"
    differs: bool = False

    @property
    def confirmed(self) -> bool:
        return self.off > APART if self.differs else self.off < EXACT


def checks(seed: int = 0) -> list[Check]:
    """Every equation that can be checked, in the paper's order, on random data of order one."""
    rng = np.random.default_rng(seed)
    chain = Chain.random(rng)
    tree = chain.tree
    q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    return [*_introduction(tree, q, v), *_algebra(rng), *_recursive(rng, chain, q, v, a),
            *_global(rng, tree, q, v, a), *_proposition(rng, tree, q, v, a)]  # fmt: skip


def _introduction(tree: Tree, q: Array, v: Array) -> list[Check]:
    rate, C = mass_matrix_rate(tree, q, v), christoffel_matrix(tree, q, v)
    quadratic = lagrange(tree, q, v, v).quadratic
    powers = []
    for form in FORMS:
        N = rate - 2 * dynamics.coriolis_matrix(tree, q, v, form)
        powers.append(abs(v @ N @ v) / (np.abs(v) @ np.abs(N) @ np.abs(v)))
    others = [apart(dynamics.coriolis_matrix(tree, q, v, form), C) for form in FORMS if form != "christoffel"]
    return [
        Check(
            "2, 3",
            r"$C_{kj} = \sum_i \Gamma_{ijk}\,\dot q_i$ with Christoffel's symbols of the first kind: $C\dot "
            r"q$ is right",
            r"$\dot M\dot q - \partial T/\partial q$ from graphs",
            apart(C @ v, quadratic),
        ),
        Check(
            "2, 3", r"with it, $\dot M - 2C$ is skew", r"$\dot M$ by the graph of M", skewness(rate - 2 * C)
        ),
        Check(
            "§ 1",
            r"$\dot q^\top(\dot M - 2C)\,\dot q = 0$ whether or not $\dot M - 2C$ is skew",
            "all five forms of C",
            max(powers),
        ),
        Check(
            "§ 1",
            r"C is not unique: forms with the same $C\dot q$ differ",
            "the least difference of the four other forms from (2)",
            min(others),
            differs=True,
        ),
    ]


def _algebra(rng: np.random.Generator) -> list[Check]:
    X, Y = random_pose(rng), random_pose(rng)
    x, y, z = rng.normal(size=(3, 6))
    commutator = SE3.vee(SE3.hat(x) @ SE3.hat(y) - SE3.hat(y) @ SE3.hat(x))
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
    return [
        Check(
            "4",
            r"$\mathrm{Ad}_X = \left[\begin{matrix}\Theta & 0\\ [b]\Theta & \Theta\end{matrix}\right]$",
            r"$X\hat x X^{-1}$",
            apart(Ad_printed(X) @ y, turning),
        ),
        Check(
            "§ 2.1",
            r"$\mathrm{Ad}_X^{-1} = \mathrm{Ad}_{X^{-1}}$, $\mathrm{Ad}_X\mathrm{Ad}_Y = \mathrm{Ad}_{XY}$",
            "the same",
            max(
                apart(np.linalg.inv(Ad_printed(X)), Ad_printed(inverse)),
                apart(Ad_printed(X) @ Ad_printed(Y), Ad_printed(X @ Y)),
            ),
        ),
        Check(
            "§ 2.1",
            r"$V_1 = \mathrm{Ad}_{X_{12}} V_2$",
            r"$T^{-1}\dot T$ of two frames in one body",
            apart(Ad_printed(X) @ y, twist_1),
        ),
        Check(
            "5",
            r"$\mathrm{Ad}^*_X = \left[\begin{matrix}\Theta^\top & \Theta^\top [b]^\top\\ 0 & "
            r"\Theta^\top\end{matrix}\right]$, $F_2 = \mathrm{Ad}^*_{X_{12}} F_1$",
            r"equal power, $F_2^\top V_2 = F_1^\top V_1$",
            apart(
                [(Ad_star_printed(X) @ z) @ e for e in np.eye(6)], [z @ (SE3.Ad(X) @ e) for e in np.eye(6)]
            ),
        ),
        Check(
            "6",
            r"$\mathrm{ad}_x = \left[\begin{matrix}[\omega] & 0\\ [v] & [\omega]\end{matrix}\right]$",
            "the commutator of 4 × 4 matrices",
            apart(ad_printed(x) @ y, commutator),
        ),
        Check(
            "7",
            r"$\mathrm{ad}^*_x = \left[\begin{matrix}-[\omega] & -[v]\\ 0 & -[\omega]\end{matrix}\right]$",
            r"$\langle \mathrm{ad}^*_x z, y\rangle = \langle z, [x, y]\rangle$",
            apart(
                [(ad_star_printed(x) @ z) @ e for e in np.eye(6)],
                [z @ SE3.vee(SE3.hat(x) @ SE3.hat(e) - SE3.hat(e) @ SE3.hat(x)) for e in np.eye(6)],
            ),
        ),
        Check(
            "9–11",
            r"$e^{[x]\phi}$, unit $\omega$: $e^{[\omega]\phi} = 1 + \sin\phi\,[\omega] + "
            r"(1-\cos\phi)[\omega]^2$, $b = (\phi 1 + (1-\cos\phi)[\omega] + (\phi-\sin\phi)[\omega]^2)\,v$; "
            r"and $\omega = 0$",
            "the exponential series",
            max(
                apart(exp_printed(unit, 1.3), _series(1.3 * SE3.hat(unit))),
                apart(exp_printed(slide, 1.3), _series(1.3 * SE3.hat(slide))),
            ),
        ),
        Check(
            "12",
            r"$J_i = \left[\begin{matrix}I_i - m_i[r_i]^2 & m_i[r_i]\\ -m_i[r_i] & m_i 1\end{matrix}\right]$",
            r"$\sum m\,B_r^\top B_r$ over nine points, $B_r = (-[r]\;\;1)$",
            apart(J_printed(SpatialInertia(masses.sum(), com, rotational)), by_points),
        ),
        Check(
            "§ 5",
            r"$[a][b]c + [b][c]a = -[c][a]b$",
            "the same",
            apart(cross(a, cross(b, c)) + cross(b, cross(c, a)), -cross(c, cross(a, b))),
        ),
    ]


def _series(A: Array) -> Array:
    """exp(A) by its series."""
    total = term = np.eye(len(A))
    for k in range(1, 60):
        term = term @ A / k
        total = total + term
    return total


def _recursive(rng: np.random.Generator, chain: Chain, q: Array, v: Array, a: Array) -> list[Check]:
    tree, none = chain.tree, np.zeros(6)
    n = len(tree.bodies)
    poses = [chain.M(i) @ exp_printed(chain.S(i), q[i]) for i in range(n)]
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

    weights = []
    for T, body in zip(true_poses, tree.bodies, strict=True):
        force = body.inertia.mass * FREE_FALL
        weights.append(np.concatenate([cross((T @ np.append(body.inertia.com, 1))[:3], force), force]))
    needed = along(tree, q, v, a, momenta) - np.array([sum(weights[i:]) for i in range(n)])
    given = np.array([SE3.Ad(SE3.inverse(T)).T @ F for T, F in zip(true_poses, found.F, strict=True)])
    energy = along(
        tree, q, v, a, lambda q, v: dynamics.kinetic_energy(tree, q, v) + dynamics.potential_energy(tree, q)
    )
    other = chain.reframed(rng)
    elsewhere = recursion(other.tree, q, v, a, none, A_0)
    branched = random_tree(rng, [kind for kind in JOINTS if kind not in ("free", "fixed")])
    bq, bv, ba = branched.group.random(rng), rng.normal(size=branched.nv), rng.normal(size=branched.nv)
    return [
        Check(
            "8, 14",
            r"$f = M_1 e^{P_1 q_1}\cdots M_n e^{P_n q_n}$",
            "the pose of the last body, by its joints' motions",
            apart(end, true_poses[-1]),
        ),
        Check(
            "15",
            r"$V_i = \mathrm{Ad}_{f_{i-1,i}^{-1}}(V_{i-1}) + S_i\dot q_i$",
            r"$T_i^{-1}\dot T_i$ of the bodies' poses",
            apart(still.V, twists),
        ),
        Check(
            "16",
            r"$\dot V_i = S_i\ddot q_i + \mathrm{Ad}_{f_{i-1,i}^{-1}}(\dot V_{i-1}) - \mathrm{ad}_{S_i\dot "
            r"q_i}\mathrm{Ad}_{f_{i-1,i}^{-1}}(V_{i-1})$",
            r"the rates of $V_i$ along the motion",
            apart(still.A, accelerations),
        ),
        Check(
            "17",
            r"$F_i = \mathrm{Ad}^*_{f_{i,i+1}^{-1}}(F_{i+1}) + J_i\dot V_i - \mathrm{ad}^*_{V_i}(J_i V_i)$",
            "rate of the momentum in the world of all that follows joint i, less its weight",
            apart(given, needed),
        ),
        Check(
            "18",
            r"$\tau_i = S_i^\top F_i$",
            r"power, $\tau^\top\dot q = \dot E$",
            apart(found.tau @ v, energy),
        ),
        Check(
            "13–18",
            "valid for trees and for joints of several degrees of freedom",
            "`inverse_dynamics`, a tree of ten joint types",
            apart(
                recursion(branched, bq, bv, ba, none, A_0).tau,
                dynamics.inverse_dynamics(branched, bq, bv, ba),
            ),
        ),
        Check(
            "§ 3.1",
            "independent of the bodies' frames",
            r"$\tau$ with other frames in all bodies",
            apart(elsewhere.tau, found.tau),
        ),
    ]


def _global(rng: np.random.Generator, tree: Tree, q: Array, v: Array, a: Array) -> list[Check]:
    f = factorization(tree, q, v)
    n = len(tree.bodies)
    V_0, A_0 = rng.normal(size=(2, 6))
    moving = recursion(tree, q, v, a, V_0, A_0)
    V, A, F, tau = closed_form(f, v, a, V_0, A_0)
    one = np.eye(6 * n)
    powers = [np.linalg.matrix_power(f.Gamma, k) for k in range(n + 1)]
    T = dynamics.body_poses(tree, q)
    blocks = np.block(
        [
            [SE3.Ad(SE3.inverse(T[i]) @ T[j]) if j <= i else np.zeros((6, 6)) for j in range(n)]
            for i in range(n)
        ]
    )
    fall = np.concatenate([np.zeros(3), -FREE_FALL])
    M, phi = f.S.T @ f.G.T @ f.J @ f.G @ f.S, f.S.T @ f.G.T @ f.J @ f.G @ f.P_0 @ fall
    GS = f.G @ f.S
    C = GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + f.ad_V @ f.J) @ GS
    truth = lagrange(tree, q, v, a)
    total = truth.inertial + truth.quadratic + truth.weight
    G_rate = along(tree, q, v, 0 * v, lambda q, v: factorization(tree, q, v).G)
    M_rate = mass_matrix_rate(tree, q, v)
    half = f.S.T @ f.G.T @ f.Gamma.T @ f.ad_Sv.T @ f.G.T @ f.J @ f.G @ f.S
    return [
        Check(
            "19",
            r"$V = GS\dot q + GP_0V_0$",
            r"(15), base moving",
            apart(V, moving.V.ravel()),
        ),
        Check(
            "20",
            r"$\dot V = GS\ddot q + G\,\mathrm{ad}_{S\dot q}\Gamma V + G\,\mathrm{ad}_{S\dot q}P_0V_0 + "
            r"GP_0\dot V_0$",
            "(16), base moving",
            apart(A, moving.A.ravel()),
        ),
        Check(
            "21",
            r"$F = G^\top J\dot V + G^\top\mathrm{ad}^*_V JV$",
            "(17), base moving",
            apart(F, moving.F.ravel()),
        ),
        Check("22", r"$\tau = S^\top F$", "(18), base moving", apart(tau, moving.tau)),
        Check(
            "§ 3.2",
            r"$\Gamma^n = 0$, $G = (1-\Gamma)^{-1} = 1 + \Gamma + \dots + \Gamma^{n-1}$",
            r"$\Gamma^n$, and $(1-\Gamma)\sum\Gamma^k$",
            max(np.abs(powers[n]).max(), apart((one - f.Gamma) @ sum(powers[:n]), one)),
        ),
        Check(
            "§ 3.2",
            r"the blocks of G are $\mathrm{Ad}_{f_{j,i}^{-1}}$",
            "the bodies' poses",
            apart(sum(powers[:n]), blocks),
        ),
        Check(
            "23",
            r"$M\ddot q + C\dot q + \phi = \tau$",
            "Lagrange's equations from graphs of the energies",
            apart(M @ a + C @ v + phi, total),
        ),
        Check("24", r"$M = S^\top G^\top JGS$", r"`mass_matrix`", apart(M, dynamics.mass_matrix(tree, q))),
        Check(
            "25",
            r"$C = S^\top G^\top(JG\,\mathrm{ad}_{S\dot q}\Gamma + \mathrm{ad}^*_VJ)GS$: $C\dot q$",
            r"$\dot M\dot q - \partial T/\partial q$",
            apart(C @ v, truth.quadratic),
        ),
        Check(
            "26",
            r"$\phi = S^\top G^\top JGP_0\dot V_0$",
            r"$\partial U/\partial q$",
            apart(phi, truth.weight),
        ),
        Check(
            "27",
            r"$\dot G = G\,\mathrm{ad}_{S\dot q}\Gamma G$",
            "the rate of the graph of G",
            apart(f.G @ f.ad_Sv @ f.Gamma @ f.G, G_rate),
        ),
        Check(
            "28",
            r"$\dot M = S^\top G^\top\Gamma^\top\mathrm{ad}_{S\dot q}^\top G^\top JGS + S^\top G^\top "
            r"JG\,\mathrm{ad}_{S\dot q}\Gamma GS$",
            "the rate of the graph of M",
            apart(half + half.T, M_rate),
        ),
        Check(
            "29",
            r"$\dot M - 2C = N - N^\top - 2S^\top G^\top\mathrm{ad}^*_VJGS$",
            r"$\dot M$ of the graph less twice (25)",
            apart(half - half.T - 2 * GS.T @ f.ad_V @ f.J @ GS, M_rate - 2 * C),
        ),
        Check(
            "§ 5",
            r"with (25), $\dot M - 2C$ is not skew",
            r"$|A + A^\top|/|A|$ of it",
            skewness(M_rate - 2 * C),
            differs=True,
        ),
    ]


def _proposition(rng: np.random.Generator, tree: Tree, q: Array, v: Array, a: Array) -> list[Check]:
    fall = np.concatenate([np.zeros(3), -FREE_FALL])
    x = recursion(tree, q, v, a, np.zeros(6), fall)
    i = len(tree.bodies) - 2
    body, V, A = tree.bodies[i], x.V[i], x.A[i]
    J, m, r = J_printed(body.inertia), body.inertia.mass, body.inertia.com
    w, u = V[:3], V[3:]
    I = J[:3, :3]
    right = J @ A + body_matrix("newton-euler", body.inertia, V) @ V
    after = tree.bodies[i + 1].pose(q)
    eq_30 = x.F[i] - Ad_star_printed(after) @ x.F[i + 1]
    p = J @ V
    product = np.concatenate([cross(w, p[:3]) + cross(u, p[3:]), cross(w, p[3:])])
    eq_31 = np.block([[skew(w), skew(u)], [np.zeros((3, 3)), skew(w)]]) @ J @ V
    second = -m * cross(w, cross(r, w)) + m * cross(w, u)
    first = cross(w, I @ w) + m * cross(w, cross(r, u)) - m * cross(u, cross(r, w)) + m * cross(u, u)
    eq_32 = np.concatenate([first, second])
    eq_33 = np.concatenate([cross(w, I @ w) + m * cross(r, cross(w, u)) + I @ cross(w, w), second])
    C_bar = body_matrix("ploen", body.inertia, V)
    f = factorization(tree, q, v)
    GS = f.G @ f.S
    inertias = [b.inertia for b in tree.bodies]
    middle = block_diagonal([body_matrix("ploen", I, V) for I, V in zip(inertias, x.V, strict=True)])
    C = GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + middle) @ GS
    truth = lagrange(tree, q, v, a)
    phi = f.S.T @ f.G.T @ f.J @ f.G @ f.P_0 @ fall
    rate = mass_matrix_rate(tree, q, v)
    total = truth.inertial + truth.quadratic + truth.weight
    ad_J = f.ad_V @ f.J
    return [
        Check(
            "§ 5",
            r"$\mathrm{ad}^*_VJ$ is not skew",
            r"$|A + A^\top|/|A|$ of it",
            skewness(ad_J),
            differs=True,
        ),
        Check(
            "30",
            r"$F_i - \mathrm{Ad}^*_{f_{i,i+1}}(F_{i+1}) = J_i\dot V_i + C_iV_i$",
            "(17), where the inverse stands (2-1 below)",
            apart(eq_30, right),
            "misprint",
            differs=True,
        ),
        Check(
            "31",
            r"$C_iV_i = \left[\begin{matrix}[\omega] & [v]\\ 0 & [\omega]\end{matrix}\right] J_iV_i$",
            r"$(\omega\times p_\omega + v\times p_v,\; \omega\times p_v)$, $p = JV$",
            apart(eq_31, product),
        ),
        Check(
            "32",
            r"$\left[\begin{matrix}[\omega]\bar I\omega + m[\omega][r]v - m[v][r]\omega + m[v]v\\ "
            r"-m[\omega][r]\omega + m[\omega]v\end{matrix}\right]$",
            "the same",
            apart(eq_32, product),
        ),
        Check(
            "33",
            r"$\left[\begin{matrix}[\omega]\bar I\omega + m[r][\omega]v + \bar I[\omega]\omega\\ "
            r"-m[\omega][r]\omega + m[\omega]v\end{matrix}\right]$",
            "the same",
            apart(eq_33, product),
        ),
        Check(
            "34",
            r"$C_iV_i = \bar C_iV_i$, $\bar C_i = \left[\begin{matrix}[\omega]\bar I + \bar I[\omega] & "
            r"m[r][\omega]\\ -m[\omega][r] & m[\omega]\end{matrix}\right]$",
            "the same",
            apart(C_bar @ V, product),
        ),
        Check("Prop. 1", r"$\bar C_i$ is skew", "its skewness", skewness(C_bar)),
        Check(
            "35",
            r"$M\ddot q + C\dot q + \phi = \tau$, with (36)–(38)",
            "Lagrange's equations",
            apart(f.M @ a + C @ v + phi, total),
        ),
        Check(
            "36",
            r"$M = S^\top G^\top JGS$",
            r"$\sum J_b^\top I_b J_b$ of the bodies' Jacobians",
            apart(f.M, dynamics.jacobian_mass_matrix(tree, q)),
        ),
        Check(
            "37",
            r"$C = S^\top G^\top(JG\,\mathrm{ad}_{S\dot q}\Gamma + \bar C)GS$: $C\dot q$",
            r"$\dot M\dot q - \partial T/\partial q$",
            apart(C @ v, truth.quadratic),
        ),
        Check(
            "38", r"$\phi = S^\top G^\top JGP_0\dot V_0$", "`gravity_forces`",
            apart(phi, dynamics.gravity_forces(tree, q)),
        ),
        Check(
            "Prop. 2", r"with (37), $\dot M - 2C$ is skew", r"$\dot M$ of the graph", skewness(rate - 2 * C)
        ),
    ]  # fmt: skip


# -- what to correct ----------------------------------------------------------------------------------------


def corrections(seed: int = 0) -> list[Correction]:
    """Each slip with the size that it has for a random chain, and its correction."""
    rng = np.random.default_rng(seed)
    chain = Chain.random(rng)
    tree = chain.tree
    q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    none = np.zeros(6)
    fall, literal = (np.concatenate([np.zeros(3), s * FREE_FALL]) for s in (-1, 1))
    x = recursion(tree, q, v, a, none, fall)
    i = 3
    body, after = tree.bodies[i], tree.bodies[i + 1].pose(q)
    eq_30 = J_printed(body.inertia) @ x.A[i] + body_matrix("newton-euler", body.inertia, x.V[i]) @ x.V[i]
    C_bar = body_matrix("ploen", body.inertia, x.V[i])
    truth = dynamics.inverse_dynamics(tree, q, v, a)

    V_0, A_0 = rng.normal(size=(2, 6))
    f = factorization(tree, q, v)
    moving = recursion(tree, q, v, a, V_0, A_0)
    V = f.G @ (f.S @ v + f.P_0 @ V_0)
    own = f.S @ a + f.P_0 @ A_0
    rate = f.G @ (own + f.ad_Sv @ (f.Gamma @ V + f.P_0 @ V_0))
    negated = f.G @ (own - f.ad_Sv @ (f.Gamma @ V + f.P_0 @ V_0))
    C = f.C("newton-euler")
    phi = f.S.T @ f.G.T @ f.J @ f.G @ f.P_0 @ A_0
    ad_V = block_diagonal([-ad_star_printed(x) for x in V.reshape(-1, 6)])
    GS = f.G @ f.S
    carried = (f.J @ f.G @ f.ad_Sv @ f.G + ad_V @ f.J @ f.G) @ f.P_0 @ V_0
    quadratic = GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + ad_V @ f.J) @ GS @ v
    with_base = f.M @ a + quadratic + phi + GS.T @ carried

    poses = [chain.M(k) @ exp_printed(chain.S(k), q[k]) for k in range(len(q))]
    axes_only = [
        chain.M(k) @ exp_printed(np.concatenate([chain.S(k)[:3], np.zeros(3)]), q[k]) for k in range(len(q))
    ]
    end = dynamics.body_poses(tree, q)[-1]
    screw = rng.normal(size=6)
    series = _series(0.7 * SE3.hat(screw))
    return [
        Correction(
            "2-1",
            r"$F_i - \mathrm{Ad}^*_{f_{i,i+1}}(F_{i+1})$",
            r"$F_i - \mathrm{Ad}^*_{f^{-1}_{i,i+1}}(F_{i+1})$, as in (17)",
            apart(x.F[i] - Ad_star_printed(after) @ x.F[i + 1], eq_30),
            apart(x.F[i] - Ad_star_printed(SE3.inverse(after)) @ x.F[i + 1], eq_30),
            where="(30)",
        ),
        Correction(
            "2-2",
            r"“$\bar C_i$ as given in Proposition 2”",
            r"Proposition 1; the number is the skewness of its $\bar C_i$",
            None,
            skewness(C_bar),
            where="before (35)",
        ),
        Correction(
            "2-3",
            r"$\dot V_0 = (0, g)$, g “in appropriate units and direction”",
            r"$\dot V_0 = (0, -g)$ with the acceleration of free fall g: the base accelerates upwards",
            apart(recursion(tree, q, v, a, none, literal).tau, truth),
            apart(x.tau, truth),
            "imprecise",
            where="before (23)",
        ),
        Correction(
            "2-4",
            r"$\mathrm{ad}_{S\dot q}$ and $\mathrm{ad}^*_V$, names of $\mathrm{diag}[-\mathrm{ad}_{S_i\dot "
            r"q_i}]$ and $\mathrm{diag}[-\mathrm{ad}^*_{V_i}]$",
            "the minus signs are inside: who reads the names by (6) and (7) gets (20) and (21) wrong",
            apart(negated, moving.A.ravel()),
            apart(rate, moving.A.ravel()),
            "imprecise",
            where="after (22)",
        ),
        Correction(
            "2-5",
            r"$f = M_ie^{P_iq_i}$, then $S_i = (\omega_i, 0)$",
            r"$S_i = (\omega_i, v_i)$: $v_i = 0$ only for hinges whose axis meets the frame's origin",
            apart(np.linalg.multi_dot(axes_only), end),
            apart(np.linalg.multi_dot(poses), end),
            "imprecise",
            where="2.2, 3.1",
        ),
        Correction(
            "2-6",
            r"$\omega$ of unit length",
            r"any $\omega$, with $\theta = |\omega|\phi$: $e^{[\omega]\phi}$ and b by $\sin\theta/\theta$, "
            r"$(1-\cos\theta)/\theta^2$ and $(\theta-\sin\theta)/\theta^3$. As printed it is right for "
            r"$\omega = 0$, too",
            apart(exp_printed(screw, 0.7), series),
            apart(SE3.exp(0.7 * screw), series),
            "imprecise",
            where="(9)–(11)",
        ),
        Correction(
            "2-7",
            r"$\tau = M\ddot q + C\dot q + \phi$, where the base may move",
            r"derived for $V_0 = 0$; else $V = GS\dot q + GP_0V_0$ in $\mathrm{ad}^*_V$, and $S^\top "
            r"G^\top(JG\,\mathrm{ad}_{S\dot q} + \mathrm{ad}^*_VJ)\,GP_0V_0$ is added",
            apart(f.M @ a + C @ v + phi, moving.tau),
            apart(with_base, moving.tau),
            "imprecise",
            where="(24)–(26)",
        ),
    ]


# -- in symbols ---------------------------------------------------------------------------------------------


def proposition_1() -> dict[str, Any]:
    """(31)-(34) in symbols, for any inertia and twist: what each differs from -ad_V^T J V by; all zero.

    "skew" is C_i + C_i^T of Proposition 1, and "printed" its matrix.
    """

    def vector(name: str) -> Array:
        return np.array(sympy.symbols([f"{name}_{k}" for k in "xyz"]), dtype=object)

    def names(key: str) -> Any:
        return sympy.Symbol(f"I_{key}")

    m, r, w, v = sympy.Symbol("m"), vector("r"), vector("omega"), vector("v")
    I = np.array([[names("".join(sorted(a + b))) for b in "xyz"] for a in "xyz"], dtype=object)
    inertia, V = SpatialInertia(m, r, I), np.concatenate([w, v])
    J, C_bar = J_printed(inertia), body_matrix("ploen", inertia, V)
    p = J @ V
    product = np.concatenate([cross(w, p[:3]) + cross(v, p[3:]), cross(w, p[3:])])
    whole = J[:3, :3]
    second = -m * cross(w, cross(r, w)) + m * cross(w, v)
    steps = {
        "31": body_matrix("newton-euler", inertia, V) @ V,
        "32": np.concatenate(
            [
                cross(w, whole @ w) + m * cross(w, cross(r, v)) - m * cross(v, cross(r, w)) + m * cross(v, v),
                second,
            ]
        ),
        "33": np.concatenate([cross(w, whole @ w) + m * cross(r, cross(w, v)) + whole @ cross(w, w), second]),
        "34": C_bar @ V,
    }
    rest = {key: sympy.Matrix(x - product).applyfunc(sympy.expand) for key, x in steps.items()}
    return {**rest, "skew": sympy.Matrix(C_bar + C_bar.T).applyfunc(sympy.expand)}


@dataclass(frozen=True, eq=False)
class SymbolicArm:
    """The paper's global matrices of the planar arm of two links, in symbols.

    factors   S, G, Gamma, J, ...
    q, v      angles and their rates
    inertias  of the two links
    equations of the same arm by `liebody.equations`
    """

    factors: Factorization
    q: Array
    v: Array
    inertias: tuple[SpatialInertia, ...]
    equations: Any

    @cached_property
    def M(self) -> Any:
        """(24)."""
        return shortest(sympy.Matrix(self.factors.M))

    @cached_property
    def rate(self) -> Any:
        """dM/dt, by differentiating M, not by (28)."""
        terms = (self.M.diff(q) * v for q, v in zip(self.q, self.v, strict=True))
        return shortest(sum(terms, sympy.zeros(2)))

    def C(self, form: str) -> Any:
        """(25), (37), or with the other forms' matrices of the bodies; "hamel" from its definition."""
        if form == "hamel":
            v = sympy.Matrix(self.v)
            return shortest(self.rate - sympy.Matrix([(v.T * self.M.diff(q)) / 2 for q in self.q]))
        f = self.factors
        twists = f.V.reshape(-1, 6)
        middle = block_diagonal([body_matrix(form, I, V) for I, V in zip(self.inertias, twists, strict=True)])
        GS = f.G @ f.S
        return shortest(sympy.Matrix(GS.T @ (f.J @ f.G @ f.ad_Sv @ f.Gamma + middle) @ GS))

    def rest(self, form: str) -> Any:
        """dM/dt - 2 C."""
        return shortest(self.rate - 2 * self.C(form))


def planar_arm() -> SymbolicArm:
    """Link i has the length l_i, its centre of mass at r_i beyond joint i, and the moment I_i about it."""
    m1, m2, l1, r1, r2, I1, I2, g = sympy.symbols("m1 m2 l1 r1 r2 I1 I2 g", positive=True)
    inertias = (
        SpatialInertia(m1, np.array([r1, 0, 0]), np.diag([0, 0, I1])),
        SpatialInertia(m2, np.array([r2, 0, 0]), np.diag([0, 0, I2])),
    )
    tree = (
        TreeBuilder("planar_arm")
        .add("link1", Revolute((0, 0, 1)), inertias[0])
        .add("link2", Revolute((0, 0, 1)), inertias[1], "link1", [l1, 0, 0])
        .build()
    )
    q, rates = sympy.symbols("q1 q2", real=True), []
    for dots in (r"\dot{q}_", r"\ddot{q}_"):
        rates.append([sympy.Symbol(f"{dots}{{{k}}}", real=True) for k in (1, 2)])
    v = rates[0]
    z = np.array([0, 0, 1, 0, 0, 0], dtype=object)
    X = []
    for angle, place in zip(q, (0, l1), strict=True):
        c, s = sympy.cos(angle), sympy.sin(angle)
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=object)
        X.append(SE3.Ad(SE3.inverse(SE3.motion(turn, np.array([place, 0, 0], dtype=object)))))
    V = [z * v[0]]
    V.append(X[1] @ V[0] + z * v[1])
    zero = np.zeros((6, 6), int)
    factors = Factorization(
        Gamma=np.block([[zero, zero], [X[1], zero]]),
        P_0=np.concatenate([X[0], zero]),
        S=np.array([[*z, *(0 * z)], [*(0 * z), *z]], dtype=object).T,
        J=block_diagonal([J_printed(I) for I in inertias]),
        V=np.concatenate(V),
        ad_Sv=block_diagonal([-ad_printed(z * x) for x in v]),
        ad_V=block_diagonal([-ad_star_printed(x) for x in V]),
        rotors=np.zeros(2, int),
    )
    closed = equations(tree, gravity=(0, -g, 0), q=q, v=v, a=rates[1])
    return SymbolicArm(factors, np.array(q), np.array(v), inertias, closed)


def three_axes() -> tuple[Any, dict[str, Any], Any]:
    """A body on three hinges whose axes meet: its equations, C of the skew forms, and the factor lambda.

    The two bodies between have no mass. C of another form less that of (2) is -lambda [v], 0 or +lambda [v].
    """
    A, B, D = sympy.symbols("A B D", positive=True)
    quarter = SE3.motion(np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]]), np.zeros(3))  # z becomes x
    tree = (
        TreeBuilder("three_axes")
        .add("yaw", Revolute((0, 0, 1)))
        .add("pitch", Revolute((0, 1, 0)), parent="yaw")
        .add("roll", Revolute((0, 0, 1)), SpatialInertia(0, np.zeros(3), [A, B, D]), "pitch", quarter)
        .build(check=False)
    )
    rates = [sympy.Symbol(rf"\dot{{q}}_{{{k}}}", real=True) for k in (1, 2, 3)]
    eq = equations(tree, q=sympy.symbols("q1 q2 q3", real=True), v=rates)
    factor = (A + B + D) / 2 * sympy.cos(eq.q[1])
    return eq, {form: eq.coriolis(form) for form in SKEW}, factor


def vanishes(*matrices: Any) -> bool:
    """Whether all entries are the number zero, in normal form."""
    return all(x == 0 for matrix in matrices for x in shortest(sympy.Matrix(matrix)))


# -- propositions in numbers --------------------------------------------------------------------------------


class FormCheck(NamedTuple):
    """A form of C on a mechanism, every entry relative.

    product      C v from the quadratic terms of recursive Newton-Euler as printed
    skewness     of dM/dt - 2 C, with dM/dt from the graph of M
    identity     (29) with the form's matrices of the bodies; None for "hamel"
    christoffel  C from (2), (3), and their extension to joints that do not commute
    """

    product: float
    skewness: float
    identity: float | None
    christoffel: float


def form_checks(x: Mechanism) -> dict[str, FormCheck]:
    """Propositions 1 and 2 on a mechanism, for every form."""
    tree, q, v = x.tree, x.q, x.v
    still = np.zeros(6)
    bias = recursion(tree, q, v, 0 * v, still, still)
    rate, symbols = mass_matrix_rate(tree, q, v), christoffel_matrix(tree, q, v)
    f = factorization(tree, q, v)
    GS = f.G @ f.S
    found = {}
    for form in FORMS:
        C = dynamics.coriolis_matrix(tree, q, v, form)
        identity = None
        if form in OF_BODIES:
            blocks = [body_matrix(form, b.inertia, V) for b, V in zip(tree.bodies, bias.V, strict=True)]
            by_bodies = f.N - f.N.T - 2 * GS.T @ block_diagonal(blocks) @ GS
            identity = apart(by_bodies, rate - 2 * C)
        found[form] = FormCheck(apart(C @ v, bias.tau), skewness(rate - 2 * C), identity, apart(C, symbols))
    return found


def frame_dependence(form: str, seed: int = 7) -> float:
    """How much C of the same chain changes with the choice of its bodies' frames."""
    rng = np.random.default_rng(seed)
    chain = Chain.random(rng)
    other, q, v = chain.reframed(rng), chain.tree.group.random(rng), rng.normal(size=6)
    return apart(
        dynamics.coriolis_matrix(other.tree, q, v, form), dynamics.coriolis_matrix(chain.tree, q, v, form)
    )


def transported_energy(steps: int = 100, t_end: float = 2.0) -> tuple[Array, dict[str, Array]]:
    """Times, and s^T M s / 2 over its start, where M ds/dt + C(q, v) s = 0 along a motion of the PUMA 560.

    With its motors, by RK4. This is what is left of Slotine and Li's error s without feedback: a skew form
    keeps the energy.
    """
    tree, h = models.puma560().tree, t_end / steps
    t = np.linspace(0, t_end, 2 * steps + 1)
    speeds, phases = np.array([3.0, 4.0, 5.0, 6.0, 5.5, 4.5]), np.arange(6.0)
    angles = speeds * t[:, None] + phases
    q, v = np.sin(angles), speeds * np.cos(angles)
    states = list(zip(q, v, strict=True))
    factors = [factorization(tree, *x) for x in states]
    M = np.array([f.M for f in factors])
    energies = {}
    for form in FORMS:
        if form in OF_BODIES:
            C = np.array([f.C(form) for f in factors])
        else:
            C = np.array([dynamics.coriolis_matrix(tree, *x, form) for x in states])
        rate = -np.linalg.solve(M, C)
        s, energy = np.array([1.0, -0.5, 0.8, 1.0, -1.0, 0.5]), []
        for k in range(0, 2 * steps + 1, 2):
            energy.append(s @ M[k] @ s / 2)
            if k < 2 * steps:
                k1 = rate[k] @ s
                k2 = rate[k + 1] @ (s + h / 2 * k1)
                k3 = rate[k + 1] @ (s + h / 2 * k2)
                k4 = rate[k + 2] @ (s + h * k3)
                s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        energies[form] = np.array(energy) / energy[0]
    return t[::2], energies


# -- the page -----------------------------------------------------------------------------------------------


def study() -> Report:
    """Recompute the paper."""
    report = Report(TITLE, SOURCE)
    report.text(
        r"The equations of motion $M\ddot q + C\dot q + \phi = \tau$ determine $C\dot q$, and not C. Proofs "
        r"of stability in robot control need a C that makes $\dot M - 2C$ skew-symmetric. The paper writes "
        r"the recursive Newton-Euler algorithm in global matrices, differentiates M in that form, sees that "
        r"its own C fails because the matrices of the single bodies are not skew, and replaces these:"
    )
    report.formula(
        r"M = S^\top G^\top J G S, \qquad C = S^\top G^\top (J G\,\mathrm{ad}_{S\dot q}\,\Gamma + \bar C)\, "
        r"G S, \qquad \phi = S^\top G^\top J G P_0 \dot V_0",
        "(36)–(38)",
    )
    report.formula(
        r"\bar C_i = \left[\begin{matrix}[\omega_i]\bar I_i + \bar I_i[\omega_i] & m_i[r_i][\omega_i]\\ "
        r"-m_i[\omega_i][r_i] & m_i[\omega_i]\end{matrix}\right], \qquad \bar I_i = I_i - m_i[r_i]^2",
        "(Proposition 1)",
    )
    report.text(
        "All of this is right, for trees with joints of any kind and floating bases too, once one inverse is "
        "put back and a few words are made precise. What the paper does not say: with three degrees of "
        "freedom and more its C is in general not that of Christoffel's symbols, (2) and (3), and it depends "
        "on where the bodies' frames lie. A third choice of the bodies' matrices is skew, and gives (2) "
        "itself."
    )
    _equations(report)
    _symbols(report)
    _propositions(report)
    _purpose(report)
    _comparison(report)
    _errata(report)
    return report


def _equations(report: Report) -> None:
    report.section("Equation by equation")
    report.text(
        "A random chain of six joints, revolute, prismatic and helical, whose axes meet no frame's origin; "
        "state and inertias random. Each formula is evaluated as it is printed, with dense matrices, and "
        "compared with what does not come from it. Derivatives are those of graphs along the motion, not "
        "differences. “Off” is the largest difference relative to the size of the terms; where the paper "
        "says that something is not skew or not unique, it has to be large."
    )
    rows = []
    for c in checks():
        number = f"({c.number})" if c.number[0].isdigit() else c.number
        verdict = report.verdict(f"{number} {c.printed}", c.says, c.confirmed)
        rows.append([number, c.printed, c.against, c.off, verdict])
    report.table(rows, ["eq.", "as printed", "beside", "off", ""])
    report.text(
        "Not in the table: (1), which is (23); (10) and (11), part of (9); (13) and (14), part of the "
        "recursion."
    )


def _symbols(report: Report) -> None:
    report.section("Proposition 1, in symbols")
    steps = proposition_1()
    report.text(
        r"For a body with any mass m, centre r, moments and products of inertia $I_{xx}, \dots, I_{yz}$, and "
        r"any twist $(\omega, v)$: each line of the proof less $-\mathrm{ad}_V^\top JV$, expanded, in SymPy. "
        r"Every entry is the number zero."
    )
    report.claims(
        *(
            report.verdict(f"({key}) in symbols, for every body and twist", "holds", vanishes(steps[key]))
            for key in ("31", "32", "33", "34")
        ),
        report.verdict(r"$\bar C_i + \bar C_i^\top = 0$ in symbols", "holds", vanishes(steps["skew"])),
    )

    report.section("Proposition 2 on the planar arm of two links, in symbols")
    arm = planar_arm()
    report.text(
        r"Link i has the length $l_i$, its centre of mass at $r_i$ beyond joint i, the moment $I_i$ about "
        r"it. From (24), by multiplying out the 12 × 12 matrices, and $\dot M$ by differentiating:"
    )
    report.formula(f"M = {sympy.latex(arm.M)}", "(24)")
    report.formula(rf"\dot M = {sympy.latex(arm.rate)}")
    report.formula(rf"C = {sympy.latex(arm.C('ploen'))}", "(37)")
    report.formula(rf"\dot M - 2C = {sympy.latex(arm.rest('ploen'))}", "(Proposition 2)")
    report.text(
        "The same for the other forms of C. Those that are skew are one matrix here; the others are not:"
    )
    report.table(
        [
            [f"`{form}`", f"${sympy.latex(arm.C(form))}$", f"${sympy.latex(arm.rest(form))}$"]
            for form in FORMS
        ],
        ["form", "$C$", r"$\dot M - 2C$"],
    )
    rest = {form: arm.rest(form) for form in FORMS}
    symmetric = {form: rest[form] + rest[form].T for form in FORMS}
    velocity = sympy.Matrix(arm.v)
    powers = [velocity.T * rest[form] * velocity for form in FORMS]
    closed = [arm.C(form) - arm.equations.coriolis(form) for form in FORMS]
    half = arm.factors.N
    one_skew = all(arm.C(form) == arm.C("christoffel") for form in SKEW)
    report.claims(
        report.verdict(
            r"Proposition 2: $\dot M - 2C$ plus its transpose is exactly zero with (37)",
            "holds",
            vanishes(symmetric["ploen"]),
        ),
        report.verdict("with (25) it is not", "holds", not vanishes(symmetric["newton-euler"])),
        report.verdict(
            r"(28): $N + N^\top$ is $\dot M$, exactly",
            "holds",
            vanishes(half + half.T - arm.rate),
        ),
        report.verdict(
            r"$\dot q^\top(\dot M - 2C)\,\dot q$ is exactly zero for all five forms",
            "holds",
            vanishes(*powers),
        ),
        report.verdict(
            "the closed forms of `liebody.equations` are these matrices, for all five forms",
            "holds",
            vanishes(*closed, arm.M - arm.equations.M),
        ),
        report.verdict(
            "two degrees of freedom have one skew form: the difference of two is skew and takes $\\dot q$ to "
            "zero, so it is zero",
            "holds",
            one_skew,
        ),
    )


def _propositions(report: Report) -> None:
    report.section("Propositions 1 and 2, in numbers")
    report.text(
        r"On the PUMA 560, whose symbolic complexity the paper quotes, and on random trees. The bodies' "
        r"matrices are those below; “product” is $C\dot q$ beside the recursion as printed, “skewness” is "
        r"$|A + A^\top|/|A|$ of $\dot M - 2C$ with the derivative of the graph of M, “(29)” that identity "
        r"with the form's matrices of the bodies, and “from (2)” the relative distance to Christoffel's "
        r"matrix, where joints do not commute to the matrix of the Levi-Civita connection, by Koszul's "
        r"formula."
    )
    report.table(
        [[f"`{form}`", formula] for form, formula in BODY_MATRICES.items()], ["form", "matrix of a body"]
    )
    rows, found = [], mechanisms()
    for x in found:
        for form, c in form_checks(x).items():
            is_skew, is_first = form in SKEW, form == "christoffel"
            good = (
                c.product < EXACT
                and (c.skewness < EXACT if is_skew else c.skewness > APART)
                and (c.identity is None or c.identity < EXACT)
                and (c.christoffel < EXACT if is_first else c.christoffel > APART)
            )
            what = f"{'skew' if is_skew else 'not skew'}, {'equal' if is_first else 'not equal'} to (2)"
            verdict = report.verdict(f"{x.name}, `{form}`: {what}", "holds", good)
            rows.append([x.name if is_first else "", f"`{form}`", *c, what, verdict])
    report.table(rows, ["mechanism", "form", "product", "skewness", "(29)", "from (2)", "", ""])
    report.text(
        "The entries of that matrix side by side. The upper row of each pair is $\\dot M - 2C$, the lower "
        "one that plus its transpose, in the same colours: white everywhere if it is skew."
    )
    for x, words in ((found[0], "The PUMA 560"), (found[3], "A random tree with a floating base")):
        report.figure(
            _heat_maps(x),
            f"{words}: $\\dot M - 2C$ (above) and its symmetric part, twice (below), for the five forms. "
            f"Blue is positive, red negative, in units of the largest entry of each form; the numbers are "
            f"the skewness.",
        )


def _heat_maps(x: Mechanism) -> Any:
    from matplotlib.figure import Figure

    rate = mass_matrix_rate(x.tree, x.q, x.v)
    figure = Figure(figsize=(10.4, 4.5), layout="constrained")
    axes = figure.subplots(2, len(FORMS))
    for k, form in enumerate(FORMS):
        N = rate - 2 * dynamics.coriolis_matrix(x.tree, x.q, x.v, form)
        size = np.abs(N).max()
        for axis, A in ((axes[0, k], N), (axes[1, k], N + N.T)):
            axis.pcolormesh(A[::-1] / size, cmap="RdBu", vmin=-1, vmax=1, edgecolors="#e4e8ec", linewidth=0.3)
            axis.set_aspect("equal")
            axis.set(xticks=[], yticks=[])
        skew_or_not = "skew" if form in SKEW else "not skew"
        axes[0, k].set_title(f"{form}\n{skew_or_not}", fontsize=10, color=GREEN if form in SKEW else RED)
        axes[1, k].set_xlabel(f"{skewness(N):.1e}", fontsize=9)
    axes[0, 0].set_ylabel(r"$\dot{M} - 2C$")
    axes[1, 0].set_ylabel("plus its transpose")
    return figure


def _purpose(report: Report) -> None:
    from matplotlib.figure import Figure

    report.section("What it is for")
    report.text(
        r"Slotine and Li's controller leaves $M\dot s + C(q, \dot q)\,s = -Ks$ plus the error of the "
        r"parameters, with $s \neq \dot q$. Then $\frac{d}{dt}\frac{1}{2}s^\top Ms = \frac{1}{2}s^\top(\dot "
        r"M - 2C)s - s^\top Ks$: for a skew form the first term is not there. Without K, along a fast motion "
        r"of the PUMA 560:"
    )
    t, energies = transported_energy()
    figure = Figure(figsize=(8.2, 3.2), layout="constrained")
    axis = figure.subplots()
    styles = {
        "christoffel": (GREEN, "-", 3.4), "ploen": (BLUE, "-", 2.0), "coadjoint": ("#1b1f24", ":", 1.6),
        "newton-euler": (RED, "-", 1.6), "hamel": (AMBER, "-", 1.6),
    }  # fmt: skip
    for form, (colour, line, width) in styles.items():
        axis.plot(t, energies[form], color=colour, linestyle=line, linewidth=width, label=form)
    axis.set(xlabel="t [s]", ylabel=r"$s^\top M s\,/\,2$, over its start".replace(r"^\top", "^T"))
    axis.legend(frameon=False, ncols=2)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    report.figure(figure, r"The energy of s, which $M\dot s + Cs = 0$ keeps only with a skew form.")
    kept = {form: float(np.ptp(energies[form])) for form in FORMS}
    report.claims(
        report.verdict(
            f"the skew forms keep the energy of s, to {max(kept[f] for f in SKEW):.0e} by RK4; "
            f"`newton-euler` lets it range over {kept['newton-euler']:.2g} and `hamel` over "
            f"{kept['hamel']:.2g} times its start",
            "holds",
            max(kept[f] for f in SKEW) < 1e-5 and min(kept["newton-euler"], kept["hamel"]) > 0.1,
        )
    )


def _comparison(report: Report) -> None:
    report.section("Which of them is Christoffel's")
    report.text(
        "The paper gives (2), (3) as one skew choice, and its own as another that needs no symbols of "
        "Christoffel. The two differ: each is skew and has the right product with $\\dot q$, so that their "
        "difference $\\Delta$ is skew with $\\Delta\\dot q = 0$. That leaves nothing for two degrees of "
        "freedom, and $\\Delta = \\lambda[\\dot q]$ for three. A body with the moments A, B, D on three "
        "hinges whose axes meet, yaw, pitch and roll, in symbols:"
    )
    eq, C, factor = three_axes()
    velocity = skew(np.array(list(eq.v), dtype=object))
    report.formula(
        rf"C_{{(37)}} - C_{{(2)}} = "
        rf"-{sympy.latex(sympy.factor(factor))}\;{sympy.latex(sympy.Matrix(velocity))}"
        r" = C_{(2)} - C_{\widetilde{\mathrm{ad}}}"
    )
    matrix = factor * sympy.Matrix(velocity)
    report.text(
        r"In general $C_{(37)} - C_{(2)} = \sum_i J_{\omega,i}^\top\,[\frac{1}{2}\mathrm{tr}(\bar "
        r"I_i)\,\omega_i]\,J_{\omega,i}$ over the bodies, with the rotational part of their Jacobians; zero "
        r"for mechanisms in a plane. $\bar I_i$ is taken about the origin of the body's frame: that C "
        r"changes with the frame, though the recursion's τ does not. The forms of (25), of From and of (2) "
        r"do not change. The body's matrix that leads to (2) is not in the paper:"
    )
    report.formula(
        r"C_i = \frac{1}{2}\left(-\mathrm{ad}_{V_i}^\top J_i + J_i\,\mathrm{ad}_{V_i} + "
        r"\widetilde{\mathrm{ad}}_{J_iV_i}\right), \qquad \widetilde{\mathrm{ad}}_p = "
        r"\left[\begin{matrix}-[p_\omega] & -[p_v]\\ -[p_v] & 0\end{matrix}\right]"
    )
    x, y = mechanisms()[:2]
    first, second = form_checks(x), form_checks(y)
    rows = []
    for form in FORMS:
        change = frame_dependence(form)
        depends = form == "ploen"
        is_first = form == "christoffel"
        distance = [c[form].christoffel for c in (first, second)]
        good = (change > APART if depends else change < EXACT) and (
            max(distance) < EXACT if is_first else min(distance) > APART
        )
        words = (
            f"{'' if is_first else 'not '}(2); {'depends' if depends else 'does not depend'} on the frames"
        )
        rows.append(
            [
                f"`{form}`",
                form in SKEW,
                *distance,
                change,
                words,
                report.verdict(f"`{form}`: {words}", "holds", good),
            ]
        )
    report.table(
        rows,
        ["form", "skew", "from (2), PUMA 560", "from (2), tree", "change with the frames", "", ""],
        "Distances relative to the size of C. The last column but two: a random chain with other frames in "
        "its bodies.",
    )
    report.claims(
        report.verdict(
            "three axes that meet: (37) is as far from (2) on one side as the coadjoint form is on the "
            "other, in symbols",
            "holds",
            vanishes(C["ploen"] - C["christoffel"] + matrix)
            and vanishes(C["coadjoint"] - C["christoffel"] - matrix),
        )
    )


def _errata(report: Report) -> None:
    report.section("What to correct")
    report.text(
        "One misprint, one wrong reference, and places where words leave room for a wrong program. “Off” is "
        "the largest difference from the truth, relative to its size, as printed (or as one would read it) "
        "and as corrected, for a random chain."
    )
    found = corrections()
    rows: list[list[Any]] = []
    for c in found:
        verdict = report.verdict(f"{c.number}: {c.where}", c.says, c.confirmed)
        rows.append([c.number.replace("-", "\u2011"), c.where, "printed", c.printed, c.before, verdict])
        rows.append(["", "", "correct", c.correct, c.after, ""])
    report.table(rows, ["", "where", "", "", "off", ""])
    report.figure(
        _bars(found), "The errors as printed (amber) and after correction (blue), and what is called exact."
    )
    report.text(
        "The signs of (12) and of (16) are right. Armature of motors has no place in the paper's J; it adds "
        "to the diagonal of M alone."
    )


def _bars(found: list[Correction]) -> Any:
    from matplotlib.figure import Figure

    shown = [(c.number, c.before, max(c.after, 1e-17)) for c in found if c.before is not None]
    figure = Figure(figsize=(8, 2.8))
    axes = figure.subplots()
    places = np.arange(len(shown))
    before, after = [x[1] for x in shown], [x[2] for x in shown]
    axes.vlines(places, after, before, color="#d8dde3", linewidth=2, zorder=1)
    axes.scatter(places, before, color=AMBER, label="as printed")
    axes.scatter(places, after, color=BLUE, label="corrected")
    axes.set_yscale("log")
    axes.set_ylim(1e-18, 1e7)
    axes.set_xticks(places, [x[0] for x in shown])
    axes.set_ylabel("relative error")
    axes.axhline(EXACT, color=GREY, linewidth=0.8, linestyle=":")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="upper right", ncols=2)
    return figure
