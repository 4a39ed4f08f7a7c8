"""Configurations of trees as elements of their group: the product of the joints' groups."""

from __future__ import annotations

from ..bodies import Tree
from ..scalars import Array


def integrate(tree: Tree, q: Array, v: Array) -> Array:
    """q exp(v), (nq,): where the constant velocity v leads from q in unit time.

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]
    """
    return tree.group.integrate(q, v)


def difference(tree: Tree, q0: Array, q1: Array) -> Array:
    """log(q0^-1 q1), (nv,): the velocity that leads from q0 to q1 in unit time; configurations (nq,)."""
    return tree.group.difference(q0, q1)


def interpolate(tree: Tree, q0: Array, q1: Array, s: Array) -> Array:
    """q0 exp(s log(q0^-1 q1)), (nq,): the path from q0 (s = 0) to q1 (s = 1); s is a scalar."""
    return tree.group.interpolate(q0, q1, s)


def normalize(tree: Tree, q: Array) -> Array:
    """The configuration (nq,) next to q whose quaternions are unit."""
    return tree.group.normalize(q)
