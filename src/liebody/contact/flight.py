"""Steps of joints that turn and translate: they turn by exp(h omega) and move straight by h v."""

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
    """omega x v of joints that turn and translate, (nv,): what turning axes add to their accelerations."""
    found: Array = np.zeros(tree.nv, int).astype(object)
    for body, S, inverse in _mixed(tree):
        V = S @ v[body.dofs]
        found[body.dofs] = inverse[:, 3:] @ cross(V[:3], V[3:])
    return found


def carried(tree: Tree, v: Array, h: Any, mean: Array) -> tuple[Array, Array]:
    """The velocity whose exponential over h moves as `mean` says, and v in the axes after that.

    mean  the mean velocity of the step; it turns as v

    A body that flies on goes straight, with the velocity that it had in the world.
    """
    moves, seen = np.array(mean, object), np.array(v, object)
    for body, S, inverse in _mixed(tree):
        V, path = S @ v[body.dofs], S @ mean[body.dofs]
        turn = h * V[:3]
        moves[body.dofs] = inverse @ np.concatenate([V[:3], SO3.dexp_inverse(turn) @ path[3:]])
        R = SO3.exp(turn)
        seen[body.dofs] = inverse @ np.concatenate([R.T @ V[:3], R.T @ V[3:]])
    return moves, seen


def in_free_fall(tree: Tree, v: Array, after: Array, pushed: Sequence[tuple[Array, Array]]) -> Array:
    """The mean velocity of a step from v to after: of bases that nothing pushes, by the law of free fall.

    pushed  rows J (m, nv) and their impulses (m,)

    A base is a joint on the world that translates. While no row acts on it, it translates by the mean of its
    velocities, and so its parabola, and the energy on it, are exact. Everything else moves by its velocity
    at the end of the step, as semi-implicit Euler has it: that is stable for what is stiff.
    """
    mean = np.array(after, object)
    for body in tree.bodies:
        S = body.joint.S
        if body.parent or body.joint.mimic is not None or not S[3:].any():
            continue
        acting = [x for J, x in pushed if not all(map(is_zero, np.ravel(J[:, body.dofs])))]
        free = all_zero(np.concatenate([np.zeros(0), *acting]))
        inverse = np.round(np.linalg.pinv(S), 15)
        half = inverse[:, 3:] @ (S[3:] @ (0.5 * (v - after)[body.dofs]))
        mean[body.dofs] = mean[body.dofs] + where(free, 1.0, 0.0) * half
    return mean


def tumbling(tree: Tree, v: Array, M: Array, h: Any) -> Array:
    """Change of v (nv,) that keeps the energy of bodies that tumble, as inertial forces are explicit.

    A rigid body that flies on its own has omega + h alpha after a step, I alpha = -omega x I omega about its
    centre of mass: h^2 alpha . I alpha / 2 too much energy. It is shortened to the energy of omega.

    M  mass matrix (nv, nv)
    """
    found: Array = np.zeros(tree.nv, int).astype(object)
    parents = {body.parent for body in tree.bodies}
    for body in tree.bodies:
        S = body.joint.S
        if body.parent or body.index in parents or S.shape != (6, 6) or not (S == np.eye(6)).all():
            continue
        at = range(body.dofs.start, body.dofs.stop)
        own, mass = M[np.ix_(at, at)], M[at[3], at[3]]
        coupling = own[:3, 3:]  # m [c], with the centre of mass c
        inertia = own[:3, :3] - product(coupling, coupling.T) / mass
        omega = v[body.dofs][:3]
        momentum = product(inertia, omega)
        turned = omega + h * solve(inertia, -cross(omega, momentum))
        before, after = omega @ momentum, turned @ product(inertia, turned)
        share = sqrt(where(after > 0, before / where(after > 0, after, 1.0), 1.0))
        shortened = (minimum(share, 1.0) - 1) * turned
        found[body.dofs] = np.concatenate([shortened, -product(coupling.T, shortened) / mass])
    return found


def all_zero(x: Array) -> Any:
    """Whether all entries are zero."""
    return functools.reduce(operator.and_, [(y <= 0) & (y >= 0) for y in x], True)


def _mixed(tree: Tree) -> list[tuple[Body, Array, Array]]:
    """Bodies whose joints turn and translate, with S (6, k) and its inverse from the left, (k, 6)."""
    found = [(body, body.joint.S) for body in tree.bodies if body.joint.mimic is None]
    return [
        (b, S, np.round(np.linalg.pinv(S), 15))
        for b, S in found
        if S[:3].any() and S[3:].any() and b.joint.dim > 1
    ]
