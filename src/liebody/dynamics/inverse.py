"""Efforts from accelerations: recursive Newton-Euler, and what it gives with arguments at zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..bodies import Moments, Tree
from ..compiler import repeated
from ..scalars import Array
from ..scalars.linear import cross
from .joint_space import JointVector
from .recursions import gather
from .spatial import REST, Pair, Transformation, added_wrench, on_joint, transformation

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
    base_motion: Array | None = None,
) -> Array:
    """Joint efforts tau = M(q) a + C(q, v) v + g(q) - J^T F_ext, by recursive Newton-Euler, O(n).

    q            configuration, (nq,)
    v, a         velocity and acceleration, left-trivialised, (nv,)        [rad/s, m/s], [rad/s2, m/s2]
    gravity      acceleration of free fall in the world, (3,)              [m/s2]
    wrenches     external wrench on each body in its own frame, (n, 6)     [N m, N]; none if None
    damping      whether to add the joints' damping, D v; armature is always part of M
    base_motion  twist V_0 and its rate dV_0/dt of what the robot stands on, in its axes, (2, 6)
                 [rad/s, m/s; rad/s2, m/s2]; at rest if None. Gravity is in these axes, too: where they have
                 turned by R, dV_0/dt + (0, g - R^T g) is to be given
    returns      (nv,)                                                     [N m, N]

    Ploen (1999), eqs (13)-(18); Featherstone (2008), table 5.1. The linear acceleration is a point's: a
    + omega x v in terms of the twist (Luh, Walker and Paul 1980), so linear velocities never enter; the
    motion of a body's points about its origin is U = [alpha] + [omega]^2 (Khalil and Kleinfinger 1987), its
    wrench f = m a + U h, n = vec(U Sigma) + h x a. The bodies carry the tree's base moments, which give the
    same efforts.
    """
    T, _, F = motions(tree, q, v, a, world_rates(gravity, base_motion), wrenches)
    return joint_efforts(tree, T, F, a, v, damping)


def bias_forces(
    tree: Tree,
    q: Array,
    v: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
    base_motion: Array | None = None,
) -> Array:
    """C(q, v) v + g(q) - J^T F_ext (nv,): the efforts that make the acceleration zero.

    Arguments as in `inverse_dynamics`.
    """
    rest = np.zeros(tree.nv, int)
    return inverse_dynamics(tree, q, v, rest, gravity, wrenches, damping, base_motion)


def gravity_forces(tree: Tree, q: Array, gravity: Array = FREE_FALL) -> Array:
    """g(q) (nv,): the efforts that hold the tree at rest. Arguments as in `inverse_dynamics`."""
    rest = np.zeros(tree.nv, int)
    return inverse_dynamics(tree, q, rest, rest, gravity)


def joint_wrenches(
    tree: Tree,
    q: Array,
    v: Array,
    a: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    base_motion: Array | None = None,
) -> Array:
    """F (n, 6): what each joint transmits to its body, a wrench in the body's axes at its origin, O(n).

        F_i = J_i dV_i/dt - ad(V_i)^T J_i V_i - F_ext,i + sum over children c of Ad(T_c^-1)^T F_c

    Arguments as in `inverse_dynamics`, whose efforts are S^T F and what rotors and damping add. The rest of F
    is the reaction of what guides the joint: what its bearings carry.  [N m, N]

    Ploen (1999), eq. (17); Luh, Walker and Paul (1980).
    """
    moments = [body.inertia.moments for body in tree.bodies]
    T, _, F = motions(tree, q, v, a, world_rates(gravity, base_motion), wrenches, moments)
    F = gather(tree, T, F, added_wrench)
    return np.stack([np.concatenate(x) for x in F[1:]]) if tree.bodies else np.zeros((0, 6))


def world_rates(gravity: Array, base_motion: Array | None = None) -> Rates:
    """How the world moves, less free fall: upwards, which stands for the bodies' weight; or as it is told."""
    if base_motion is None:
        return Rates(REST, REST, np.negative(gravity), np.zeros((3, 3), int))
    (w, u), (alpha, acc) = ((x[:3], x[3:]) for x in base_motion)
    return Rates(w, alpha, acc + cross(w, u) - gravity, rate_of_turning(w, alpha))


def motions(
    tree: Tree,
    q: Array,
    v: Array,
    a: Array,
    world: Rates,
    wrenches: Array | None = None,
    moments: Sequence[Moments] | None = None,
) -> tuple[list[Any], list[Rates], list[Any]]:
    """Motions in their parents, rates, and wrenches taken less those applied, of the world and all bodies.

    moments  of the bodies; None: the tree's base moments, which take the same efforts. The world
             has neither motion nor wrench
    """
    T: list[Any] = [None]
    rates: list[Rates] = [world]
    F: list[Any] = [None]
    moments = tree.base_moments[1:] if moments is None else moments
    for body in tree.bodies:  # parents come before children
        i = body.index
        # Here, where it is used, and not for all bodies before: values that live for long cost loads.
        T.append(transformation(body, q))
        applied = np.zeros(6, int) if wrenches is None else wrenches[i - 1]
        moving, wrench = _outward(
            T[i], body.twist, moments[i - 1], v[body.dofs], a[body.dofs], rates[body.parent], applied
        )
        rates.append(moving)
        F.append(wrench)
    return T, rates, F


@repeated
def _outward(
    T: Transformation, S: Array, moments: Moments, v: Array, a: Array, parent: Rates, applied: Array
) -> tuple[Rates, Pair]:
    """Rates of a body from its parent's, and the wrench that its motion takes, less what is applied."""
    m, h, Sigma = moments
    V = S @ v
    A = S @ a
    # The joint's own motion is seen from axes that turn with the parent: omega x V_w, and Coriolis' term
    # 2 omega_parent x V_v + V_w x V_v = (carried + omega) x V_v.
    carried = T.into(parent.w)
    w = carried + V[:3]
    alpha = T.into(parent.alpha) + A[:3] + cross(w, V[:3])
    acc = T.into(parent.acc + parent.U @ T.p) + A[3:] + cross(carried + w, V[3:])
    # f = int (acc + U r) dm, and n = int r x (acc + U r) dm = h x acc + vec(U Sigma).
    U = rate_of_turning(w, alpha)
    f = m * acc + U @ h
    n = vector_of_skew_part(U @ Sigma) + cross(h, acc)
    return Rates(w, alpha, acc, U), (n - applied[:3], f - applied[3:])


def joint_efforts(tree: Tree, T: list[Any], F: list[Any], a: Array, v: Array, damping: bool = False) -> Array:
    """S^T of what each joint bears of the wrenches F on the bodies, handed inwards, and what M's rotors take.

    T        motion of each body in its parent, from 1 on
    damping  whether to add the joints' damping, D v
    """
    # Inwards: F[i] has the wrenches of all children when its joint is read. The world's share is not needed.
    tau = JointVector(tree.nv)
    for body in reversed(tree.bodies):
        i = body.index
        p = body.parent
        losses = body.damping if damping else np.zeros(body.joint.dim, int)
        tau.add(body, _joint_effort(body.twist, F[i], body.armature, a[body.dofs], losses, v[body.dofs]))
        if p:
            F[p] = added_wrench(T[i], F[p], F[i])
    return tau.array()


@repeated
def _joint_effort(S: Array, wrench: Pair, armature: Array, a: Array, damping: Array, v: Array) -> Array:
    """The effort of a joint under the wrench on its body, with its rotor and its losses, (k,)."""
    return on_joint(S, *wrench) + armature * a + damping * v


def rate_of_turning(w: Array, alpha: Array, w_r: Array | None = None) -> Array:
    """U = [alpha] + [omega_r] [omega] (3, 3), omega_r of a reference or omega itself.

    The acceleration of a body's point r about its origin is U r; and [a] [b] = b a^T - (a . b) 1.
    """
    x, y, z = w
    rx, ry, rz = w if w_r is None else w_r
    ax, ay, az = alpha
    xx, yy, zz = x * rx, y * ry, z * rz
    return np.array(
        [
            [-(yy + zz), x * ry - az, x * rz + ay],
            [y * rx + az, -(zz + xx), y * rz - ax],
            [z * rx - ay, z * ry + ax, -(xx + yy)],
        ]
    )


def vector_of_skew_part(Y: Array) -> Array:
    """vec(Y) (3,): the integral of r x (U r) dm is vec(U Sigma)."""
    return np.array([Y[2, 1] - Y[1, 2], Y[0, 2] - Y[2, 0], Y[1, 0] - Y[0, 1]])
