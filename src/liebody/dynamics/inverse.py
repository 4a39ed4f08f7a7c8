"""Efforts from accelerations: recursive Newton-Euler, and what it gives with arguments at zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Tree
from ..linear import cross
from .spatial import Motion

Array = Any
FREE_FALL = (0.0, 0.0, -9.81)


def inverse_dynamics(
    tree: Tree,
    q: Array,
    v: Array,
    a: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
) -> Array:
    """Joint efforts tau = M(q) a + C(q, v) v + g(q) - J^T F_ext, by recursive Newton-Euler, O(n).

    q         configuration, (nq,)
    v, a      velocity and acceleration, left-trivialised, (nv,)           [rad/s, m/s], [rad/s2, m/s2]
    gravity   acceleration of free fall in the world, (3,)                 [m/s2]
    wrenches  external wrench on each body in its own frame, (n, 6)        [N m, N]; none if None
    damping   whether to add the joints' damping, D v; armature is always part of M
    returns   (nv,)                                                        [N m, N]

    Ploen (1999), eqs (13)-(18); Featherstone (2008), table 5.1. The linear acceleration is that of a point, a
    + omega x v in terms of the twist (Luh, Walker and Paul 1980), so linear velocities never enter; the
    motion of a body's points about its origin is U = [alpha] + [omega]^2 (Khalil and Kleinfinger 1987), its
    wrench f = m a + U h, n = vec(U Sigma) + h x a. The bodies carry the tree's base moments, which give the
    same efforts.
    """
    rest = np.zeros(3, int)
    T: list[Any] = [None]  # index 0: the world, falling upwards
    w, U, acc = [rest], [np.zeros((3, 3), int)], [np.negative(gravity)]
    alpha, n, f = [rest], [rest], [rest]

    for body in tree.bodies:  # outward: parents come before children
        i, p, S = body.index, body.parent, body.joint.S
        m, h, Sigma = tree.base_moments[i]
        V, A = S @ body.joint_rates(v), S @ body.joint_rates(a)
        T.append(Motion(body, q))
        carried = T[i].into(w[p])
        w.append(carried + V[:3])
        alpha.append(T[i].into(alpha[p]) + A[:3] + cross(w[i], V[:3]))
        acc.append(T[i].into(acc[p] + U[p] @ T[i].p) + A[3:] + cross(carried + w[i], V[3:]))
        U.append(_rate_of_turning(w[i], alpha[i]))
        f.append(m * acc[i] + U[i] @ h)
        n.append(vector_of_skew_part(U[i] @ Sigma) + cross(h, acc[i]))
        if wrenches is not None:
            n[i], f[i] = n[i] - wrenches[i - 1][:3], f[i] - wrenches[i - 1][3:]

    tau: list[Any] = [0] * tree.nv
    for body in reversed(tree.bodies):  # inward
        i, p, S = body.index, body.parent, body.twist
        effort = S[:3].T @ n[i] + S[3:].T @ f[i] + body.armature * a[body.dofs]
        if damping:
            effort = effort + body.damping * v[body.dofs]
        for k, x in zip(range(tree.nv)[body.dofs], effort, strict=True):
            tau[k] = tau[k] + x
        if p:
            moment, force = T[i].wrench_out(n[i], f[i])
            n[p], f[p] = n[p] + moment, f[p] + force
    return np.array(tau)


def bias_forces(
    tree: Tree,
    q: Array,
    v: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
) -> Array:
    """C(q, v) v + g(q) - J^T F_ext (nv,): the efforts at no acceleration; arguments as above."""
    return inverse_dynamics(tree, q, v, np.zeros(tree.nv, int), gravity, wrenches, damping)


def gravity_forces(tree: Tree, q: Array, gravity: Array = FREE_FALL) -> Array:
    """g(q) (nv,): the efforts that hold the tree at rest. Arguments as in `inverse_dynamics`."""
    rest = np.zeros(tree.nv, int)
    return inverse_dynamics(tree, q, rest, rest, gravity)


def _rate_of_turning(w: Array, alpha: Array) -> Array:
    """U = [alpha] + [omega]^2 (3, 3): the acceleration of a body's point r about its origin is U r."""
    (x, y, z), (ax, ay, az) = w, alpha
    xx, yy, zz, xy, yz, zx = x * x, y * y, z * z, x * y, y * z, z * x
    return np.array(
        [[-(yy + zz), xy - az, zx + ay], [xy + az, -(zz + xx), yz - ax], [zx - ay, yz + ax, -(xx + yy)]]
    )


def vector_of_skew_part(Y: Array) -> Array:
    """vec(Y) (3,): the integral of r x (U r) dm is vec(U Sigma)."""
    return np.array([Y[2, 1] - Y[1, 2], Y[0, 2] - Y[2, 0], Y[1, 0] - Y[0, 1]])
