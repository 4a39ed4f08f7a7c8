"""The equations of motion in factors: Ploen's global matrices, for trees with any joints.

    M = S^T G^T J G S,    C = S^T G^T (J G ad_Sv Gamma + C_b) G S,    g = S^T G^T J G P_0 dV_0/dt
    V = G (S v + P_0 V_0),    dV/dt = G (S a + ad_Sv (Gamma V + P_0 V_0) + P_0 dV_0/dt)
    F = G^T (J dV/dt + ad_V J V),    tau = S^T F

with the stacked twists V of all bodies, and the wrenches F that their joints bear. The matrices are dense, of
size 6 n: this is for reading, proving and checking. The recursions that they stand for are fast:
`mass_matrix`, `coriolis_matrix`, `inverse_dynamics`, `joint_wrenches`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..bodies import Tree
from ..groups import SE3
from ..groups.base import block_diagonal
from ..scalars import Array
from .coriolis import coriolis_form
from .inverse import FREE_FALL
from .joint_space import armature
from .kinematics import frame_jacobian, frame_jacobian_rate


@dataclass(frozen=True, eq=False)
class Factorization:
    """Ploen (1999), eqs (19)-(29) and (35)-(38), at a state of a tree with n bodies.

    Gamma  (6n, 6n), the block (i, parent of i) is X_i = Ad(T_i^-1), T_i the pose of body i in its parent
    P_0    (6n, 6), X_i where the parent is the world
    S      (6n, nv), the joints' twists; a joint that follows another fills the column of that one
    J      (6n, 6n), block-diagonal: the bodies' spatial inertias
    V      (6n,), the bodies' twists
    ad_Sv  (6n, 6n), block-diagonal: -ad of the joints' own twists; the sign is part of the definition
    ad_V   (6n, 6n), block-diagonal: -ad_V^T; likewise (Ploen's ad*_V)
    rotors (nv,), what the joints' armature adds to the diagonal of M
    V_0    (6,), the twist of the world, or of what the tree stands on
    """

    Gamma: Array
    P_0: Array
    S: Array
    J: Array
    V: Array
    ad_Sv: Array
    ad_V: Array
    rotors: Array
    V_0: Array = field(default_factory=lambda: np.zeros(6, int))

    @cached_property
    def G(self) -> Array:
        """(1 - Gamma)^-1 = 1 + Gamma + Gamma^2 + ... (6n, 6n), as Gamma is nilpotent.

        Its block (i, j) is Ad of the pose of j in i, where j is i or one of its ancestors.
        """
        # Gamma^n = 0 for n bodies, since every power moves each block by one generation.
        total = term = np.eye(len(self.Gamma), dtype=int)
        for _ in range(len(self.Gamma) // 6 - 1):
            term = term @ self.Gamma
            total = total + term
        return total

    @property
    def M(self) -> Array:
        """S^T G^T J G S (nv, nv), eq. (24), with the rotors on its diagonal."""
        GS = self.G @ self.S
        return GS.T @ self.J @ GS + np.diag(self.rotors)

    @property
    def G_rate(self) -> Array:
        """dG/dt = G ad_Sv Gamma G (6n, 6n), eq. (27)."""
        return self.G @ self.ad_Sv @ self.Gamma @ self.G

    @property
    def N(self) -> Array:
        """S^T (dG/dt)^T J G S (nv, nv): dM/dt = N + N^T, eq. (28)."""
        return self.S.T @ self.G_rate.T @ self.J @ self.G @ self.S

    @property
    def M_rate(self) -> Array:
        """dM/dt (nv, nv), eq. (28)."""
        return self.N + self.N.T

    def body_coriolis(self, form: str = "christoffel") -> Array:
        """C_b (6n, 6n), block-diagonal: the bodies' Coriolis matrices, all with C_b V = -ad_V^T J V.

        "newton-euler"  -ad_V^T J, eq. (25); not skew
        "ploen"         [[[w] I + I [w], m [r] [w]], [-m [w] [r], m [w]]], Proposition 1
        "coadjoint"     ad~ of the momentum: [[-[p_w], -[p_v]], [-[p_v], 0]], From (2012), eq. (75)
        "feurstein"     J ad_V - ad_V^T J, Feurstein (2021), eq. (3.41)
        "christoffel"   (-ad_V^T J + J ad_V + ad~_JV) / 2, the mean of the last two

        Raises ModelError for another form.
        """
        kind = coriolis_form(form, "of the bodies' Coriolis matrices", of_bodies=True)
        return block_diagonal(
            [kind.body_matrix(J, V) for J, V in zip(self._inertias, self._twists, strict=True)]
        )

    def C(self, form: str = "christoffel") -> Array:
        """S^T G^T (J G ad_Sv Gamma + C_b) G S (nv, nv), eqs (25), (37)."""
        GS = self.G @ self.S
        return GS.T @ (self.J @ self.G @ self.ad_Sv @ self.Gamma + self.body_coriolis(form)) @ GS

    def g(self, gravity: Array = FREE_FALL) -> Array:
        """S^T G^T J G P_0 dV_0/dt (nv,), eq. (26), with the world's twist rate dV_0/dt = (0, -gravity)."""
        return self.S.T @ self.G.T @ self.J @ self.G @ self.P_0 @ upwards(gravity)

    def V_rate(self, a: Array, V_0_rate: Array | None = None) -> Array:
        """dV/dt = G (S a + ad_Sv (Gamma V + P_0 V_0) + P_0 dV_0/dt) (6n,), eq. (20).

        a         accelerations of the joints, (nv,)
        V_0_rate  dV_0/dt (6,) less free fall, (0, gravity); None: `upwards()`, of a base at rest
        """
        start = upwards() if V_0_rate is None else V_0_rate
        carried = self.ad_Sv @ (self.Gamma @ self.V + self.P_0 @ self.V_0)
        return self.G @ (self.S @ a + carried + self.P_0 @ start)

    def F(self, a: Array, V_0_rate: Array | None = None) -> Array:
        """G^T (J dV/dt + ad_V J V) (6n,), eq. (21): what the joints bear, as `joint_wrenches` in a stack.

        tau = S^T F, eq. (22), and what rotors take. Arguments as of `V_rate`.
        """
        return self.G.T @ (self.J @ self.V_rate(a, V_0_rate) + self.ad_V @ self.J @ self.V)

    @property
    def _inertias(self) -> list[Array]:
        return [self.J[k : k + 6, k : k + 6] for k in range(0, len(self.J), 6)]

    @property
    def _twists(self) -> list[Array]:
        return [self.V[k : k + 6] for k in range(0, len(self.V), 6)]


def upwards(gravity: Array = FREE_FALL) -> Array:
    """dV_0/dt = (0, -gravity) (6,), which stands for the bodies' weight."""
    return np.concatenate([np.zeros(3, int), np.negative(gravity)])


def factorization(tree: Tree, q: Array, v: Array, V_0: Array | None = None) -> Factorization:
    """The global factors at the configuration q (nq,) and the velocity v (nv,), of any scalars.

    V_0  twist (6,) of what the tree stands on, in its axes; at rest if None
    """
    V_0 = np.zeros(6, int) if V_0 is None else np.asarray(V_0)
    n = len(tree.bodies)
    Gamma = _blocks(n, n)
    P_0 = _blocks(n, 1)
    S = [[0] * tree.nv for _ in range(6 * n)]
    V: list[Any] = [V_0]
    for body in tree.bodies:
        i = body.index
        p = body.parent
        X = SE3.Ad(SE3.inverse(body.pose(q)))
        if p:
            Gamma[i - 1][p - 1] = X
        else:
            P_0[i - 1][0] = X
        # A follower's column is added to the column of its leader: q' of the leader moves both.
        for k, column in body.columns:
            for row, x in enumerate(column, start=6 * (i - 1)):
                S[row][k] = S[row][k] + x
        V.append(X @ V[p] + body.twist @ v[body.dofs])
    return Factorization(
        Gamma=_matrix(Gamma, 6 * n, 6 * n),
        P_0=_matrix(P_0, 6 * n, 6),
        S=np.array(S).reshape(6 * n, tree.nv),
        J=block_diagonal([body.inertia.matrix() for body in tree.bodies]),
        V=np.concatenate(V[1:]) if n else np.zeros(0),
        ad_Sv=block_diagonal([-SE3.ad(body.twist @ v[body.dofs]) for body in tree.bodies]),
        ad_V=block_diagonal([-SE3.ad(x).T for x in V[1:]]),
        rotors=armature(tree),
        V_0=V_0,
    )


def jacobian_mass_matrix(tree: Tree, q: Array) -> Array:
    """M = sum of J_i^T I_i J_i over the bodies' Jacobians (nv, nv), and the rotors: the definition."""
    M = np.diag(armature(tree))
    for body in tree.bodies:
        J = frame_jacobian(tree, q, body.name)
        M = M + J.T @ body.inertia.matrix() @ J
    return M


def jacobian_mass_matrix_derivative(tree: Tree, q: Array, v: Array) -> Array:
    """dM/dt = sum of dJ_i^T I_i J_i + J_i^T I_i dJ_i (nv, nv): the definition, for trees with any joints."""
    rate = np.zeros((tree.nv, tree.nv), int)
    for body in tree.bodies:
        J = frame_jacobian(tree, q, body.name)
        dJ = frame_jacobian_rate(tree, q, v, body.name)
        half = dJ.T @ body.inertia.matrix() @ J
        rate = rate + half + half.T
    return rate


def _blocks(rows: int, columns: int) -> list[list[Array]]:
    return [[np.zeros((6, 6), int) for _ in range(columns)] for _ in range(rows)]


def _matrix(blocks: list[list[Array]], rows: int, columns: int) -> Array:
    return np.block(blocks) if blocks else np.zeros((rows, columns))
