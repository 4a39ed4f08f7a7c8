"""Energies, and the centre of mass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base.errors import ModelError
from ..bodies import Moments, Tree
from ..compiler import repeated
from ..scalars import Array
from ..scalars.linear import cross, is_numeric
from .inverse import FREE_FALL
from .recursions import HOME, poses_after, transformations, twists_of
from .spatial import REST, Pair, Transformation, next_twist, transformation


def kinetic_energy(tree: Tree, q: Array, v: Array) -> Any:
    """T = v^T M(q) v / 2, summed over the bodies and the joints' armatures; a scalar.  [J]

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)
    """
    # One pass: the sum goes along with the twists, so that long trees need one loop only.
    twists = [(REST, REST)]
    total = 0
    for body in tree.bodies:
        T = transformation(body, q)
        moments = tree.base_moments[body.index]
        twist, total = _kinetic_energy(
            T, body.twist, moments, body.armature, v[body.dofs], twists[body.parent], total
        )
        twists.append(twist)
    return total


@repeated
def _kinetic_energy(
    T: Transformation, S: Array, moments: Moments, armature: Array, v: Array, parent: Pair, before: Any
) -> tuple[Pair, Any]:
    """The twist (w, u) of a body from its parent's; the energy of it and its rotor, and of those before."""
    m, h, _ = moments
    w, u = next_twist(T, S, v, parent)
    turning = 0.5 * (w @ (moments.I @ w))
    moving = u @ (0.5 * m * u + cross(w, h))
    return (w, u), before + turning + moving + 0.5 * (armature @ (v * v))


def potential_energy(tree: Tree, q: Array, gravity: Array = FREE_FALL) -> Any:
    """U = -gravity . (sum of m c), zero where the centre of mass lies in the world's origin; a scalar.  [J]

    q        configuration, (nq,)
    gravity  acceleration of free fall in the world, (3,)  [m/s2]
    """
    # The last item is the world's: h of all bodies about the origin.
    *_, (_, _, h) = _first_moments(tree, transformations(tree, q))
    return -(np.asarray(gravity) @ h)


def center_of_mass(tree: Tree, q: Array) -> Array:
    """The centre of mass of all bodies, in the world, (3,).  [m]

    Raises ModelError for a tree without mass.
    """
    *_, (_, _, h) = _first_moments(tree, transformations(tree, q))
    return h / total_mass(tree)


def center_of_mass_velocity(tree: Tree, q: Array, v: Array) -> Array:
    """The velocity of the centre of mass, in the world, (3,): total momentum by total mass.  [m/s]

    Raises ModelError for a tree without mass.
    """
    T = transformations(tree, q)
    twists = twists_of(tree, T, v)
    # Inertias as they are, not base moments: these keep the kinetic energy, not the mass.
    p = [REST, *(_linear_momentum(b.inertia.moments, twists[b.index]) for b in tree.bodies)]
    for body in reversed(tree.bodies):
        p[body.parent] = _turned_out(T[body.index], p[body.index], p[body.parent])
    return p[0] / total_mass(tree)


@repeated
def _linear_momentum(moments: Moments, twist: Pair) -> Array:
    """m u + w x h, in the body's axes."""
    return moments.m * twist[1] + cross(twist[0], moments.h)


@repeated
def _turned_out(T: Transformation, x: Array, parent: Array) -> Array:
    return parent + T.out(x)


def center_of_mass_jacobian(tree: Tree, q: Array) -> Array:
    """J (3, nv) with the velocity J v of the centre of mass.

    Its columns are the momentum of all that a joint carries, moved by it as one rigid body, by total mass.
    Raises ModelError for a tree without mass.
    """
    T = transformations(tree, q)
    poses = poses_after(tree, T, [HOME])
    columns = [REST] * tree.nv
    for i, m, h in _first_moments(tree, T):
        for k, S in tree.bodies[i - 1].columns if i else ():
            columns[k] = columns[k] + _momentum_by(poses[i][0], m, h, S)
    return np.stack(columns, axis=1) / total_mass(tree) if columns else np.zeros((3, 0))


def total_mass(tree: Tree) -> Any:
    """The mass of all bodies, to divide by.  [kg]"""
    if is_numeric(tree.mass) and not tree.mass > 0:
        raise ModelError(
            f"the bodies of tree {tree.name!r} have the mass {tree.mass} kg together, so there is no centre "
            "of mass; give them inertia"
        )
    return tree.mass


@repeated
def _momentum_by(R: Array, m: Any, h: Array, S: Array) -> Array:
    """The linear momentum, in the world, of what moves with the twist S as one rigid body."""
    return R @ (m * S[3:] + cross(S[:3], h))


def _first_moments(tree: Tree, T: list[Any]) -> Iterator[tuple[int, Any, Array]]:
    """From the last body to the world: number, and m and h of it with all that it carries, in its frame."""
    m = [0, *(b.inertia.mass for b in tree.bodies)]
    h = [REST, *(b.inertia.moments.h for b in tree.bodies)]
    for body in reversed(tree.bodies):
        i = body.index
        p = body.parent
        yield i, m[i], h[i]
        h[p] = _moment_out(T[i], m[i], h[i], h[p])
        m[p] = m[p] + m[i]
    yield 0, m[0], h[0]


@repeated
def _moment_out(T: Transformation, m: Any, h: Array, parent: Array) -> Array:
    """The parent's first moment, with the h of a mass m about the parent's frame and in its axes."""
    return parent + (T.out(h) + m * T.p)
