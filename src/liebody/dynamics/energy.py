"""Energies, and the centre of mass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Moments, Tree
from ..codegen import step
from ..errors import ModelError
from ..linear import cross, is_numeric
from ..scalar import Array
from .inverse import FREE_FALL
from .recursions import HOME, poses_after, transformations, twists_of
from .spatial import REST, Pair, Transformation


def kinetic_energy(tree: Tree, q: Array, v: Array) -> Any:
    """T = v^T M(q) v / 2, summed over the bodies and the joints' armatures; a scalar.  [J]

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)
    """
    total: Any = 0
    for body, V in zip(tree.bodies, twists_of(tree, transformations(tree, q), v)[1:], strict=True):
        rates = v[body.dofs]
        total = _with_energy(total, tree.base_moments[body.index], *V, body.armature, rates)
    return total


@step
def _with_energy(before: Any, moments: Moments, w: Array, u: Array, armature: Array, v: Array) -> Any:
    """The energy of a body at the twist (w, u) and its rotor, and of those before."""
    m, h, _ = moments
    turning, moving = 0.5 * (w @ (moments.I @ w)), u @ (0.5 * m * u + cross(w, h))
    return before + turning + moving + 0.5 * (armature @ (v * v))


def potential_energy(tree: Tree, q: Array, gravity: Array = FREE_FALL) -> Any:
    """U = -gravity . (sum of m c), zero where the centre of mass lies in the world's origin; a scalar.  [J]

    q        configuration, (nq,)
    gravity  acceleration of free fall in the world, (3,)  [m/s2]
    """
    return -(np.asarray(gravity) @ _first_moments(tree, transformations(tree, q))[1][0])


def center_of_mass(tree: Tree, q: Array) -> Array:
    """The centre of mass of all bodies, in the world, (3,).  [m]

    Raises ModelError for a tree without mass.
    """
    return _first_moments(tree, transformations(tree, q))[1][0] / total_mass(tree)


def center_of_mass_velocity(tree: Tree, q: Array, v: Array) -> Array:
    """The velocity of the centre of mass, in the world, (3,): total momentum by total mass.  [m/s]

    Raises ModelError for a tree without mass.
    """
    T = transformations(tree, q)
    twists = twists_of(tree, T, v)
    p = [REST, *(_linear_momentum(b.inertia.moments, twists[b.index]) for b in tree.bodies)]
    for body in reversed(tree.bodies):
        p[body.parent] = _turned_out(T[body.index], p[body.index], p[body.parent])
    return p[0] / total_mass(tree)


@step
def _linear_momentum(moments: Moments, twist: Pair) -> Array:
    """m u + w x h, in the body's axes."""
    return moments.m * twist[1] + cross(twist[0], moments.h)


@step
def _turned_out(T: Transformation, x: Array, parent: Array) -> Array:
    return parent + T.out(x)


def center_of_mass_jacobian(tree: Tree, q: Array) -> Array:
    """J (3, nv) with the velocity J v of the centre of mass.

    Its columns are the momentum of all that a joint carries, moved by it as one rigid body, by total mass.
    Raises ModelError for a tree without mass.
    """
    T = transformations(tree, q)
    (m, h), poses = _first_moments(tree, T), poses_after(tree, T, [HOME])
    columns = [REST] * tree.nv
    for body in tree.bodies:
        R, carried = poses[body.index][0], (m[body.index], h[body.index])
        for k, S in body.columns:
            columns[k] = columns[k] + _momentum_by(R, *carried, S)
    return np.stack(columns, axis=1) / total_mass(tree) if columns else np.zeros((3, 0))


def total_mass(tree: Tree) -> Any:
    """The mass of all bodies, to divide by.  [kg]"""
    if is_numeric(tree.mass) and not tree.mass > 0:
        raise ModelError(
            f"the bodies of tree {tree.name!r} have the mass {tree.mass} kg together, so there is no centre "
            "of mass; give them inertia"
        )
    return tree.mass


@step
def _momentum_by(R: Array, m: Any, h: Array, S: Array) -> Array:
    """The linear momentum, in the world, of what moves with the twist S as one rigid body."""
    return R @ (m * S[3:] + cross(S[:3], h))


def _first_moments(tree: Tree, T: list[Any]) -> tuple[list[Any], list[Array]]:
    """m and h of each body with all that it carries, in its frame; of all bodies, in the world, at 0."""
    m = [0, *(b.inertia.mass for b in tree.bodies)]
    h = [REST, *(b.inertia.moments.h for b in tree.bodies)]
    for body in reversed(tree.bodies):
        i, p = body.index, body.parent
        h[p] = _moment_out(T[i], m[i], h[i], h[p])
        m[p] = m[p] + m[i]
    return m, h


@step
def _moment_out(T: Transformation, m: Any, h: Array, parent: Array) -> Array:
    """The parent's first moment, with the h of a mass m about the parent's frame and in its axes."""
    return parent + (T.out(h) + m * T.p)
