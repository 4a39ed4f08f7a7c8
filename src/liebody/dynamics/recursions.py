"""Parts of recursions over the bodies of a tree: lists with an item for each body, the world's at 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..bodies import Moments, Tree
from ..compiler import repeated
from ..scalars import Array
from .spatial import REST, Pair, added, next_pose, next_twist, plus, transformation

HOME = np.eye(3, dtype=int), REST  # (R, p) of the frame in which poses are told


def transformations(tree: Tree, q: Array) -> list[Any]:
    """The bodies' motions in their parents; None for the world."""
    return [None, *(transformation(body, q) for body in tree.bodies)]


def twists_of(tree: Tree, T: list[Any], v: Array, moving_origin: bool = False) -> list[Pair]:
    """Twists of the world and all bodies; `moving_origin`: without the linear velocities of roots."""
    twists: list[Any] = [(REST, REST)]
    for body in tree.bodies:
        w, u = next_twist(T[body.index], body.twist, v[body.dofs], twists[body.parent])
        twists.append((w, REST if moving_origin and not body.parent else u))
    return twists


def poses_after(tree: Tree, T: list[Any], known: list[Any]) -> list[Any]:
    """(R, p) of all bodies; the first ones are known, the world's at 0, and tell the frame."""
    for body in tree.bodies[len(known) - 1 :]:
        known.append(next_pose(T[body.index], *known[body.parent]))
    return known


def gather(tree: Tree, T: list[Any], items: list[Any], added: Callable[..., Any] = added) -> list[Any]:
    """For each body the sum of its item and the items of all that it carries.

    added  (T, parent, item) -> the parent's item plus the item of a body which it carries
    """
    # Inwards: a parent has a smaller number than its children, so every item is complete in its turn.
    for body in reversed(tree.bodies):
        if body.parent:
            items[body.parent] = added(T[body.index], items[body.parent], items[body.index])
    return items


def composites(tree: Tree, T: list[Any], moments: Sequence[Moments] | None = None) -> list[Moments]:
    """For each body the moments of it and of all it carries, in its frame; the world's at 0.

    moments  of the single bodies; the tree's base moments if None
    """
    return gather(tree, T, list(tree.base_moments if moments is None else moments))


@repeated
def _operator_of(operator: Callable[[Moments, Array, Array], Any], moments: Moments, V: Pair) -> Any:
    return operator(moments, *V)


def operators(
    operator: Callable[[Moments, Array, Array], Any], moments: Sequence[Moments], twists: list[Pair]
) -> list[Any]:
    """operator(moments, *V) of each body, from its moments and its twist."""
    return [_operator_of(operator, x, V) for x, V in zip(moments, twists, strict=True)]


def summed(nv: int, columns: Iterable[tuple[int, Pair]]) -> list[Pair]:
    """For each velocity of a tree, the sum of its columns; there are several where joints follow it."""
    total: list[Any] = [(REST, REST)] * nv
    for k, column in columns:
        total[k] = plus(total[k], column)
    return total
