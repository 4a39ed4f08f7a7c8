"""Accelerations from efforts: the articulated-body algorithm; M a = tau - bias where joints follow others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Body, Moments, Tree
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
        i, moments = body.index, body.inertia.moments
        T.append(Motion(body, q))
        turning, bias, moment, force = velocity_terms(body, moments, T[i], v, w[body.parent])
        if wrenches is not None:
            moment, force = moment - wrenches[i - 1][:3], force - wrenches[i - 1][3:]
        w.append(turning)
        c.append(bias)
        n.append(moment)
        f.append(force)
        inertia.append(inertia_blocks(moments))

    gain: list[Any] = [None] * len(T)
    drive: list[Any] = [None] * len(T)
    for body in reversed(tree.bodies):  # inward: articulated inertias and bias forces
        i, p = body.index, body.parent
        effort = tau[body.dofs] - body.damping * v[body.dofs] if damping else tau[body.dofs]
        gain[i], drive[i], handed = inward(body, T[i], inertia[i], n[i], f[i], c[i], effort)
        if p:
            moment, force, blocks = handed
            n[p], f[p] = n[p] + moment, f[p] + force
            inertia[p] = tuple(x + y for x, y in zip(inertia[p], blocks, strict=True))

    alpha, acc, a = [rest], [np.negative(gravity)], [np.zeros(0, int)]
    for body in tree.bodies:  # outward: accelerations
        i, p = body.index, body.parent
        own, angular, linear = acceleration(body, T[i], c[i], gain[i], drive[i], alpha[p], acc[p])
        a.append(own)
        alpha.append(angular)
        acc.append(linear)
    return np.concatenate(a)


def velocity_terms(
    body: Body, moments: Moments, T: Motion, v: Array, parent: Array
) -> tuple[Array, tuple[Array, Array], Array, Array]:
    """What velocities make of a body: omega, its bias acceleration c, and the wrench (n, f) that they take.

    parent  angular velocity of the parent (3,)
    """
    _, h, _ = moments
    I, V = moments.I, body.joint.S @ body.joint_rates(v)
    carried = T.into(parent)
    w = carried + V[:3]
    centripetal = cross(parent, cross(parent, T.p))
    c = cross(carried, V[:3]), T.into(centripetal) + cross(carried + w, V[3:])
    return w, c, cross(w, I @ w), cross(w, cross(w, h))


def inertia_blocks(moments: Moments) -> tuple[Array, Array, Array]:
    """A, B, C of a single body."""
    return moments.I, skew(moments.h), moments.m * np.eye(3, dtype=int)


def inward(
    body: Body, T: Motion, inertia: Any, n: Array, f: Array, c: tuple[Array, Array], effort: Array
) -> tuple[Array, Array, Any]:
    """D^-1 U^T (k, 6) and D^-1 u (k,) of a joint, and what its body hands to the parent: n, f, (A, B, C).

    inertia, n, f  of the body with all that hangs on it
    """
    S = body.joint.S
    A, B, C = inertia
    IA = np.block([[A, B], [B.T, C]])
    U = IA @ S
    factors = factor(S.T @ U + np.diag(body.armature))
    gain = _gain(body, U, factors)
    drive = back_substitute(factors, effort - (S[:3].T @ n + S[3:].T @ f))
    if not body.parent:
        return gain, drive, None
    Ia = _minus(body, IA, U, gain)
    ca, cl = c
    moment = n + Ia[:3, :3] @ ca + Ia[:3, 3:] @ cl + U[:3] @ drive
    force = f + Ia[3:, :3] @ ca + Ia[3:, 3:] @ cl + U[3:] @ drive
    return gain, drive, (*T.wrench_out(moment, force), T.inertia_out(Ia[:3, :3], Ia[:3, 3:], Ia[3:, 3:]))


def acceleration(
    body: Body, T: Motion, c: tuple[Array, Array], gain: Array, drive: Array, alpha: Array, acc: Array
) -> tuple[Array, Array, Array]:
    """The joint's acceleration (k,), and alpha, acc of the body from those of its parent."""
    S = body.joint.S
    angular, linear = T.twist_into(alpha, acc)
    angular, linear = angular + c[0], linear + c[1]
    a = drive - gain @ np.concatenate([angular, linear])
    return a, angular + S[:3] @ a, linear + S[3:] @ a


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
