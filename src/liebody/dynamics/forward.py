"""Accelerations from efforts: the articulated-body algorithm; M a = tau - bias where joints follow others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Body, Tree
from ..linear import back_substitute, cross, factor, skew, solve, symmetric
from .inverse import FREE_FALL, bias_forces
from .mass import mass_matrix
from .spatial import Motion

Array = Any


def forward_dynamics(
    tree: Tree,
    q: Array,
    v: Array,
    tau: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
) -> Array:
    """Accelerations a = M(q)^-1 (tau - C(q, v) v - g(q) + J^T F_ext), left-trivialised, O(n).

    q         configuration, (nq,)
    v         velocity, left-trivialised, (nv,)                            [rad/s, m/s]
    tau       joint efforts, (nv,)                                         [N m, N]
    gravity   acceleration of free fall in the world, (3,)                 [m/s2]
    wrenches  external wrench on each body in its own frame, (n, 6)        [N m, N]; none if None
    damping   whether the joints' damping takes D v from the efforts; armature is always part of M
    returns   (nv,)                                                        [rad/s2, m/s2]

    Articulated-body algorithm; trees with joints that follow others go by the mass matrix and its sparse L^T
    D L factors.
    """
    if tree.has_mimics:
        return solve(mass_matrix(tree, q), tau - bias_forces(tree, q, v, gravity, wrenches, damping))
    return articulated_body(tree, q, v, tau, gravity, wrenches, damping)


def articulated_body(
    tree: Tree,
    q: Array,
    v: Array,
    tau: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
) -> Array:
    """Forward dynamics of a tree without mimics; arguments as in `forward_dynamics`.

    Featherstone (2008), table 7.1, with articulated inertias [[A, B], [B^T, C]] by their 3 x 3 blocks. As in
    `inverse_dynamics` the linear acceleration is that of a point, so linear velocities never enter.
    """
    rest = np.zeros(3, int)
    w, n, f = [rest], [rest], [rest]  # index 0: the world
    T: list[Any] = [None]
    c: list[Any] = [None]
    inertia: list[Any] = [None]

    for body in tree.bodies:  # outward: velocities, and the forces and accelerations that they alone cause
        i, p = body.index, body.parent
        m, h, _ = body.inertia.moments
        I, V = body.inertia.moments.I, body.joint.S @ body.joint_rates(v)
        T.append(Motion(body, q))
        carried = T[i].into(w[p])
        w.append(carried + V[:3])
        centripetal = cross(w[p], cross(w[p], T[i].p))
        c.append((cross(carried, V[:3]), T[i].into(centripetal) + cross(carried + w[i], V[3:])))
        n.append(cross(w[i], I @ w[i]))
        f.append(cross(w[i], cross(w[i], h)))
        if wrenches is not None:
            n[i], f[i] = n[i] - wrenches[i - 1][:3], f[i] - wrenches[i - 1][3:]
        inertia.append((I, skew(h), m * np.eye(3, dtype=int)))

    gain: list[Any] = [None] * len(T)
    drive: list[Any] = [None] * len(T)
    for body in reversed(tree.bodies):  # inward: articulated inertias and bias forces
        i, p, S = body.index, body.parent, body.joint.S
        A, B, C = inertia[i]
        IA = np.block([[A, B], [B.T, C]])
        effort = tau[body.dofs] - (S[:3].T @ n[i] + S[3:].T @ f[i])
        if damping:
            effort = effort - body.damping * v[body.dofs]
        U = IA @ S
        D = S.T @ U + np.diag(body.armature)
        factors = factor(D)
        gain[i] = _gain(body, U, factors)  # D^-1 U^T
        drive[i] = back_substitute(factors, effort)  # D^-1 u
        if p:
            Ia = _minus(body, IA, U, gain[i])
            ca, cl = c[i]
            moment = n[i] + Ia[:3, :3] @ ca + Ia[:3, 3:] @ cl + U[:3] @ drive[i]
            force = f[i] + Ia[3:, :3] @ ca + Ia[3:, 3:] @ cl + U[3:] @ drive[i]
            moment, force = T[i].wrench_out(moment, force)
            n[p], f[p] = n[p] + moment, f[p] + force
            blocks = T[i].inertia_out(Ia[:3, :3], Ia[:3, 3:], Ia[3:, 3:])
            inertia[p] = tuple(x + y for x, y in zip(inertia[p], blocks, strict=True))

    alpha, acc, a = [rest], [np.negative(gravity)], [np.zeros(0, int)]
    for body in tree.bodies:  # outward: accelerations
        i, p, S = body.index, body.parent, body.joint.S
        angular, linear = T[i].twist_into(alpha[p], acc[p])
        angular, linear = angular + c[i][0], linear + c[i][1]
        a.append(drive[i] - gain[i] @ np.concatenate([angular, linear]))
        alpha.append(angular + S[:3] @ a[i])
        acc.append(linear + S[3:] @ a[i])
    return np.concatenate(a)


def _selected(body: Body) -> list[int]:
    """The twist entries that are the joint's velocities themselves, where S selects such; else none.

    Then U D^-1 selects too, and the inertia left for the parent has exact zeros there, unless a rotor adds
    to D.
    """
    S = body.joint.S
    selects = np.all((S == 0) | (S == 1)) and np.all(S.sum(axis=0) == 1)
    rotor = any(hasattr(x, "apply") or x != 0 for x in body.armature)
    return [int(np.argmax(s)) for s in S.T] if selects and not rotor else []


def _gain(body: Body, U: Array, factors: Any) -> Array:
    """D^-1 U^T (k, 6)."""
    selected = _selected(body)
    solved = back_substitute(factors, U.T)
    one = np.eye(len(selected), dtype=int)
    columns = [one[selected.index(j)] if j in selected else solved[:, j] for j in range(6)]
    return np.stack(columns, axis=1)


def _minus(body: Body, IA: Array, U: Array, gain: Array) -> Array:
    """I_A - U D^-1 U^T (6, 6)."""
    selected = _selected(body)
    return symmetric(6, lambda i, j: 0 if i in selected or j in selected else IA[i, j] - U[i] @ gain[:, j])
