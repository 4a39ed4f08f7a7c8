"""Steps of joints that turn and translate: they turn by exp(h omega) and move straight by h v."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Body, Tree
from ..groups import SO3
from ..linear import cross
from ..scalar import Array


def turning(tree: Tree, v: Array) -> Array:
    """omega x v of joints that turn and translate, (nv,): what turning axes add to their accelerations."""
    found: Array = np.zeros(tree.nv, int).astype(object)
    for body, S, inverse in _mixed(tree):
        V = S @ v[body.dofs]
        found[body.dofs] = inverse[:, 3:] @ cross(V[:3], V[3:])
    return found


def carried(tree: Tree, v: Array, h: Any) -> tuple[Array, Array]:
    """The velocity whose exponential over h turns and translates as v says, and v in the axes after that.

    A body that flies on goes straight, with the velocity that it had in the world.
    """
    moves, seen = (np.array(v, object) for _ in range(2))
    for body, S, inverse in _mixed(tree):
        V = S @ v[body.dofs]
        turn = h * V[:3]
        moves[body.dofs] = inverse @ np.concatenate([V[:3], SO3.dexp_inverse(turn) @ V[3:]])
        R = SO3.exp(turn)
        seen[body.dofs] = inverse @ np.concatenate([R.T @ V[:3], R.T @ V[3:]])
    return moves, seen


def _mixed(tree: Tree) -> list[tuple[Body, Array, Array]]:
    """Bodies whose joints turn and translate, with S (6, k) and its inverse from the left, (k, 6)."""
    found = [(body, body.joint.S) for body in tree.bodies if body.joint.mimic is None]
    return [
        (b, S, np.round(np.linalg.pinv(S), 15))
        for b, S in found
        if S[:3].any() and S[3:].any() and b.joint.dim > 1
    ]
