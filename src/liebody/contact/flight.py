"""Steps of joints that turn and translate, such as floating bases: turn by exp(h omega), translate by h v.

The exponential of SE(3) moves along a screw. A flying body moves along a straight line or a parabola instead,
while it turns; the functions here keep its velocity in the world.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..bodies import Body, Tree
from ..groups import SO3
from ..scalars import Array, minimum, sqrt, where
from ..scalars.linear import cross, is_zero, product, solve


def turning(tree: Tree, v: Array) -> Array:
    """omega x v of joints that turn and translate, (nv,): the part of their accelerations by turning axes."""
    accelerations: Array = np.zeros(tree.nv, int).astype(object)
    for body, S, inverse in _mixed(tree):
        V = S @ v[body.dofs]
        accelerations[body.dofs] = inverse[:, 3:] @ cross(V[:3], V[3:])
    return accelerations


def carried(tree: Tree, v: Array, h: Any, mean: Array) -> tuple[Array, Array]:
    """A velocity whose exponential over h is the motion of the step, and v in the axes after the step.

    mean  the mean velocity of the step, with the angular velocity of v

    A flying body goes straight, with the velocity that it had in the world.
    """
    moves = np.array(mean, object)
    turned = np.array(v, object)
    for body, S, inverse in _mixed(tree):
        V = S @ v[body.dofs]
        path = S @ mean[body.dofs]
        turn = h * V[:3]
        # exp(h (omega, u)) translates by dexp(h omega) h u: u is chosen so that this is the straight path
        moves[body.dofs] = inverse @ np.concatenate([V[:3], SO3.dexp_inverse(turn) @ path[3:]])
        R = SO3.exp(turn)
        turned[body.dofs] = inverse @ np.concatenate([R.T @ V[:3], R.T @ V[3:]])
    return moves, turned


def in_free_fall(tree: Tree, v: Array, after: Array, pushed: Sequence[tuple[Array, Array]]) -> Array:
    """The mean velocity of a step from v to after; for bases without impulses, by the law of free fall.

    pushed  rows J (m, nv) and their impulses (m,)

    A base is a joint on the world that translates. While no row acts on it, it translates by the mean of its
    velocities, so that its parabola, and its energy along it, are exact. All other joints move by their
    velocity at the end of the step: this is semi-implicit Euler, which is stable for stiff forces.
    """
    mean = np.array(after, object)
    for body in tree.bodies:
        S = body.joint.S
        if body.parent or body.joint.mimic is not None or not S[3:].any():
            continue
        # rows with an entry for the base act on it; whether their impulses are zero is known at run time only
        acting = [x for J, x in pushed if not all(map(is_zero, np.ravel(J[:, body.dofs])))]
        free = all_zero(np.concatenate([np.zeros(0), *acting]))
        inverse = np.round(np.linalg.pinv(S), 15)
        half = inverse[:, 3:] @ (S[3:] @ (0.5 * (v - after)[body.dofs]))
        mean[body.dofs] = mean[body.dofs] + where(free, 1.0, 0.0) * half
    return mean


def tumbling(tree: Tree, v: Array, M: Array, h: Any) -> Array:
    """Change of v (nv,) that keeps the energy of tumbling bodies, because inertial forces are explicit.

    A free rigid body has omega + h alpha after a step, I alpha = -omega x I omega about its centre of mass:
    h^2 alpha . I alpha / 2 too much energy. omega + h alpha is shortened to the energy of omega.

    M  mass matrix (nv, nv)
    """
    change: Array = np.zeros(tree.nv, int).astype(object)
    parents = {body.parent for body in tree.bodies}
    for body in tree.bodies:
        S = body.joint.S
        # single free bodies only: no parent, no child, six velocities in the standard order
        if body.parent or body.index in parents or S.shape != (6, 6) or not (S == np.eye(6)).all():
            continue
        at = range(body.dofs.start, body.dofs.stop)
        # the block of the body in M: its inertia, from the joint's origin to the centre of mass
        block = M[np.ix_(at, at)]
        mass = M[at[3], at[3]]
        coupling = block[:3, 3:]  # m [c], with the centre of mass c
        inertia = block[:3, :3] - product(coupling, coupling.T) / mass
        omega = v[body.dofs][:3]
        momentum = product(inertia, omega)
        turned = omega + h * solve(inertia, -cross(omega, momentum))
        before = omega @ momentum
        after = turned @ product(inertia, turned)
        share = sqrt(where(after > 0, before / where(after > 0, after, 1.0), 1.0))
        shortened = (minimum(share, 1.0) - 1) * turned
        # the velocity of the centre of mass stays: the joint's origin moves against it
        change[body.dofs] = np.concatenate([shortened, -product(coupling.T, shortened) / mass])
    return change


def all_zero(x: Array) -> Any:
    """Whether all entries are zero."""
    return functools.reduce(operator.and_, [(y <= 0) & (y >= 0) for y in x], True)


def _mixed(tree: Tree) -> list[tuple[Body, Array, Array]]:
    """Bodies whose joints turn and translate, with S (6, k) and its inverse from the left, (k, 6)."""
    bodies = [(body, body.joint.S) for body in tree.bodies if body.joint.mimic is None]
    return [
        (b, S, np.round(np.linalg.pinv(S), 15))  # rounded, so that zeros are exact and vanish from the code
        for b, S in bodies
        if S[:3].any() and S[3:].any() and b.joint.dim > 1
    ]
