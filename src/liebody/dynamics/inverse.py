"""Efforts from accelerations: recursive Newton-Euler, and what it gives with arguments at zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..bodies import Body, Moments, Tree
from ..linear import cross
from .spatial import Motion

Array = Any
FREE_FALL = (0.0, 0.0, -9.81)


class Rates(NamedTuple):
    """How a body moves, in its own axes; U r is the acceleration of its point r about its origin."""

    w: Array  # angular velocity (3,)
    alpha: Array  # its derivative (3,)
    acc: Array  # acceleration of the origin (3,), less that of free fall
    U: Array  # [alpha] + [omega]^2 (3, 3)


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
    T: list[Any] = [None]  # index 0: the world
    rates, n, f = [rates_of_world(gravity)], [np.zeros(3, int)], [np.zeros(3, int)]

    for body in tree.bodies:  # outward: parents come before children
        i = body.index
        T.append(Motion(body, q))
        moving, moment, force = outward(body, tree.base_moments[i], T[i], v, a, rates[body.parent])
        if wrenches is not None:
            moment, force = moment - wrenches[i - 1][:3], force - wrenches[i - 1][3:]
        rates.append(moving)
        n.append(moment)
        f.append(force)

    tau: list[Any] = [0] * tree.nv
    for body in reversed(tree.bodies):  # inward
        i, p = body.index, body.parent
        effort = joint_effort(body, n[i], f[i], v, a, damping)
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


def rates_of_world(gravity: Array) -> Rates:
    """Rates of the world: it accelerates upwards, which stands for the weight of the bodies."""
    rest = np.zeros(3, int)
    return Rates(rest, rest, np.negative(gravity), np.zeros((3, 3), int))


def outward(
    body: Body, moments: Moments, T: Motion, v: Array, a: Array, parent: Rates
) -> tuple[Rates, Array, Array]:
    """Rates of a body from its parent's, and the wrench (n, f) that its motion takes: the step outwards."""
    m, h, Sigma = moments
    V, A = body.joint.S @ body.joint_rates(v), body.joint.S @ body.joint_rates(a)
    carried = T.into(parent.w)
    w = carried + V[:3]
    alpha = T.into(parent.alpha) + A[:3] + cross(w, V[:3])
    acc = T.into(parent.acc + parent.U @ T.p) + A[3:] + cross(carried + w, V[3:])
    U = _rate_of_turning(w, alpha)
    f = m * acc + U @ h
    return Rates(w, alpha, acc, U), vector_of_skew_part(U @ Sigma) + cross(h, acc), f


def joint_effort(body: Body, n: Array, f: Array, v: Array, a: Array, damping: bool) -> Array:
    """What a joint bears of the wrench (n, f) on its body, with its rotor and its losses, (k,)."""
    S = body.twist
    effort = S[:3].T @ n + S[3:].T @ f + body.armature * a[body.dofs]
    return effort + body.damping * v[body.dofs] if damping else effort


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
