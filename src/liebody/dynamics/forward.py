"""Accelerations from efforts: the articulated-body algorithm; M a = tau - bias where joints follow others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..bodies import Moments, Tree
from ..compiler import repeated
from ..scalars import Array
from ..scalars.linear import back_substitute, cross, factor, is_numeric, skew, solve, symmetric
from .inverse import FREE_FALL, bias_forces, world_rates
from .mass import mass_matrix
from .spatial import Pair, Transformation, on_joint, transformation


def forward_dynamics(
    tree: Tree,
    q: Array,
    v: Array,
    tau: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
    base_motion: Array | None = None,
) -> Array:
    """Accelerations a = M(q)^-1 (tau - C(q, v) v - g(q) + J^T F_ext), left-trivialised, O(n).

    q            configuration, (nq,)
    v            velocity, left-trivialised, (nv,)                         [rad/s, m/s]
    tau          joint efforts, (nv,)                                      [N m, N]
    gravity      acceleration of free fall in the world, (3,)              [m/s2]
    wrenches     external wrench on each body in its own frame, (n, 6)     [N m, N]; none if None
    damping      whether the joints' damping takes D v from the efforts; armature is always part of M
    base_motion  as in `inverse_dynamics`, (2, 6); at rest if None
    returns      (nv,)                                                     [rad/s2, m/s2]

    Articulated-body algorithm: Featherstone (2008), table 7.1, with articulated inertias [[A, B], [B^T, C]]
    by their 3 x 3 blocks. As in `inverse_dynamics` the linear acceleration belongs to a point, so linear
    velocities never enter. Trees with joints that follow others go by the mass matrix and its sparse L^T D L
    factors.
    """
    # Followers tie accelerations of different branches together: a body's articulated inertia would then
    # depend on joints outside of its subtree, which one inward pass cannot know.
    if tree.has_mimics:
        bias = bias_forces(tree, q, v, gravity, wrenches, damping, base_motion)
        return solve(mass_matrix(tree, q), tau - bias)
    world = world_rates(gravity, base_motion)
    T, c, bodies = _single_bodies(tree, q, v, world.w, wrenches)
    # Inward: articulated inertias and bias forces. Each joint solves for its own acceleration as a function
    # of its parent's (`solutions`), and the parent takes over the inertia and the force that remain.
    solutions: list[Any] = [None] * len(T)
    for body in reversed(tree.bodies):
        i = body.index
        p = body.parent
        losses = body.damping if damping else np.zeros(body.joint.dim, int)
        solutions[i], handed = _inward(
            T[i], body.twist, body.armature, bodies[i], c[i], tau[body.dofs], losses, v[body.dofs], bodies[p]
        )
        bodies[p] = handed if p else None

    # Outward: the parent's acceleration is known, so the joint's is. The world's, upwards, stands for weight.
    rates: list[Any] = [(world.alpha, world.acc)]
    a = [np.zeros(0, int)]
    for body in tree.bodies:
        i = body.index
        acceleration, moving = _acceleration(T[i], body.twist, c[i], solutions[i], rates[body.parent])
        a.append(acceleration)
        rates.append(moving)
    return np.concatenate(a)


def _single_bodies(
    tree: Tree, q: Array, v: Array, world: Array, wrenches: Array | None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Outward: motions in the parents, bias accelerations, inertias with the wrenches that velocities take.

    world  its angular velocity, (3,)

    Lists with an item for each body; the world's at 0 is None.
    """
    T: list[Any] = [None]
    w: list[Any] = [world]
    c: list[Any] = [None]
    bodies: list[Any] = [None]
    for body in tree.bodies:
        i = body.index
        moments = body.inertia.moments
        T.append(transformation(body, q))
        applied = np.zeros(6, int) if wrenches is None else wrenches[i - 1]
        turning, bias, wrench = _velocity_terms(
            T[i], body.twist, moments, v[body.dofs], w[body.parent], applied
        )
        w.append(turning)
        c.append(bias)
        bodies.append(Articulated(moments.I, skew(moments.h), moments.m * np.eye(3, dtype=int), *wrench))
    return T, c, bodies


class Articulated(NamedTuple):
    """A body with all that hangs on it: its inertia [[A, B], [B^T, C]], and its bias wrench (n, f)."""

    A: Array
    B: Array
    C: Array
    n: Array
    f: Array


@repeated
def _velocity_terms(
    T: Transformation, S: Array, moments: Moments, v: Array, parent: Array, applied: Array
) -> tuple[Array, Pair, Pair]:
    """Velocity terms of a body: omega, its bias acceleration c, and the wrench that they take.

    parent  angular velocity of the parent (3,)
    """
    # The acceleration at zero joint acceleration, less the parts that the accelerations of the parent carry
    # along, and the wrench of the body alone, (omega x I omega, omega x (omega x h)).
    I = moments.I
    h = moments.h
    V = S @ v
    carried = T.into(parent)
    w = carried + V[:3]
    centripetal = cross(parent, cross(parent, T.p))
    c = cross(carried, V[:3]), T.into(centripetal) + cross(carried + w, V[3:])
    return w, c, (cross(w, I @ w) - applied[:3], cross(w, cross(w, h)) - applied[3:])


@repeated
def _inward(
    T: Transformation, S: Array, armature: Array, body: Articulated, c: Pair, tau: Array, damping: Array,
    v: Array, parent: Articulated | None,
) -> tuple[Pair, Articulated | None]:  # fmt: skip
    """D^-1 U^T (k, 6) and D^-1 u (k,) of a joint, and the parent with the body on it (None: the world)."""
    # U = I_A S, D = S^T U (and rotors): a = D^-1 (u - U^T (acceleration of the carrier + c)).
    A, B, C, n, f = body
    IA = np.block([[A, B], [B.T, C]])
    U = IA @ S
    selected = _selected(S, armature)
    factors = factor(S.T @ U + np.diag(armature))
    gain = _gain(selected, U, factors)
    drive = back_substitute(factors, tau - damping * v - on_joint(S, n, f))
    if parent is None:
        return (gain, drive), None
    # The inertia that the parent feels, which is less by the directions that the joint gives way in, and the
    # wrench when the parent does not accelerate.
    Ia = _minus(selected, IA, U, gain)
    ca, cl = c
    moment = n + Ia[:3, :3] @ ca + Ia[:3, 3:] @ cl + U[:3] @ drive
    force = f + Ia[3:, :3] @ ca + Ia[3:, 3:] @ cl + U[3:] @ drive
    wrench = T.wrench_out(moment, force)
    handed = *T.inertia_out(Ia[:3, :3], Ia[:3, 3:], Ia[3:, 3:]), *wrench
    return (gain, drive), Articulated(*(x + y for x, y in zip(parent, handed, strict=True)))


@repeated
def _acceleration(T: Transformation, S: Array, c: Pair, solution: Pair, parent: Pair) -> tuple[Array, Pair]:
    """The accelerations of the joint, (k,), and of the body, (alpha, acc), from its parent's."""
    gain, drive = solution
    angular, linear = T.twist_into(*parent)
    angular = angular + c[0]
    linear = linear + c[1]
    a = drive - gain @ np.concatenate([angular, linear])
    return a, (angular + S[:3] @ a, linear + S[3:] @ a)


def _selected(S: Array, armature: Array) -> list[int]:
    """The twist entries that are the joint's velocities themselves, where S selects such; else none.

    Then U D^-1 selects too, and the inertia left for the parent has exact zeros there, unless a rotor adds
    to D.
    """
    if not is_numeric(S, armature) or np.any(armature):
        return []
    selects = np.all((S == 0) | (S == 1)) and np.all(S.sum(axis=0) == 1)
    return [int(np.argmax(s)) for s in S.T] if selects else []


def _gain(selected: list[int], U: Array, factors: Any) -> Array:
    """D^-1 U^T (k, 6)."""
    # Columns that are known to be unit vectors are written as such: round-off would hide their zeros.
    solved = back_substitute(factors, U.T)
    one = np.eye(len(selected), dtype=int)
    columns = [one[selected.index(j)] if j in selected else solved[:, j] for j in range(6)]
    return np.stack(columns, axis=1)


def _minus(selected: list[int], IA: Array, U: Array, gain: Array) -> Array:
    """I_A - U D^-1 U^T (6, 6)."""
    return symmetric(6, lambda i, j: 0 if i in selected or j in selected else IA[i, j] - U[i] @ gain[:, j])
