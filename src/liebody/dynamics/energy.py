"""Energies, and the centre of mass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Body, Moments, Tree
from ..linear import cross
from .inverse import FREE_FALL
from .spatial import Motion

Array = Any


def kinetic_energy(tree: Tree, q: Array, v: Array) -> Any:
    """T = v^T M(q) v / 2, summed over the bodies and the joints' armatures; a scalar.  [J]

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)
    """
    twists: list[Any] = [(np.zeros(3, int), np.zeros(3, int))]
    total: Any = 0
    for body in tree.bodies:
        twist, energies = kinetic_step(
            body, tree.base_moments[body.index], Motion(body, q), v, twists[body.parent]
        )
        twists.append(twist)
        for energy in energies:
            total = total + energy
    return total


def kinetic_step(
    body: Body, moments: Moments, T: Motion, v: Array, parent: tuple[Array, Array]
) -> tuple[tuple[Array, Array], tuple[Any, ...]]:
    """The twist (w, u) of a body from its parent's, and its kinetic energies: turning, moving, rotor."""
    m, h, _ = moments
    S, rates = body.joint.S, body.joint_rates(v)
    w, u = T.twist_into(*parent)
    w, u = w + S[:3] @ rates, u + S[3:] @ rates
    turning, moving = 0.5 * (w @ (moments.I @ w)), u @ (0.5 * m * u + cross(w, h))
    return (w, u), (turning, moving, 0.5 * (body.joint.armature @ (rates * rates)))


def potential_energy(tree: Tree, q: Array, gravity: Array = FREE_FALL) -> Any:
    """U = -gravity . (sum of m c), zero where the centre of mass lies in the world's origin; a scalar.  [J]

    q        configuration, (nq,)
    gravity  acceleration of free fall in the world, (3,)  [m/s2]
    """
    return -(np.asarray(gravity) @ _first_moment(tree, q))


def center_of_mass(tree: Tree, q: Array) -> Array:
    """The centre of mass of all bodies, in the world, (3,).  [m]"""
    return _first_moment(tree, q) / tree.mass


def center_of_mass_velocity(tree: Tree, q: Array, v: Array) -> Array:
    """The velocity of the centre of mass, in the world, (3,): total momentum by total mass.  [m/s]"""
    twists: list[Any] = [(np.zeros(3, int), np.zeros(3, int))]
    T: list[Any] = [None]
    for body in tree.bodies:
        V = body.joint.S @ body.joint_rates(v)
        T.append(Motion(body, q))
        w, u = T[-1].twist_into(*twists[body.parent])
        twists.append((w + V[:3], u + V[3:]))
    momentum = [
        body.inertia.mass * u + cross(w, body.inertia.moments.h)
        for body, (w, u) in zip(tree.bodies, twists[1:], strict=True)
    ]
    momentum = [np.zeros(3, int), *momentum]
    for body in reversed(tree.bodies):
        momentum[body.parent] = momentum[body.parent] + T[body.index].out(momentum[body.index])
    return momentum[0] / tree.mass


def center_of_mass_jacobian(tree: Tree, q: Array) -> Array:
    """J (3, nv) with center_of_mass_velocity = J v.

    Its columns are the momentum of all that a joint carries, moved by it as one rigid body, by total mass.
    """
    T: list[Any] = [None]
    R = [np.eye(3, dtype=int)]
    for body in tree.bodies:
        T.append(Motion(body, q))
        R.append(T[-1].rotation_after(R[body.parent]))
    m = [0, *(b.inertia.mass for b in tree.bodies)]
    h = [np.zeros(3, int), *(b.inertia.moments.h for b in tree.bodies)]
    columns = [np.zeros(3, int)] * tree.nv
    for body in reversed(tree.bodies):
        i, p = body.index, body.parent
        for k, S in zip(range(tree.nv)[body.dofs], body.twist.T, strict=True):
            columns[k] = columns[k] + R[i] @ (m[i] * S[3:] + cross(S[:3], h[i]))
        h[p] = h[p] + T[i].out(h[i]) + m[i] * T[i].p
        m[p] = m[p] + m[i]
    return np.stack(columns, axis=1) / tree.mass if columns else np.zeros((3, 0))


def _first_moment(tree: Tree, q: Array) -> Array:
    """The sum of m c over all bodies, in the world, (3,)."""
    m = [0, *(b.inertia.mass for b in tree.bodies)]
    h = [np.zeros(3, int), *(b.inertia.moments.h for b in tree.bodies)]
    for body in reversed(tree.bodies):
        i, p = body.index, body.parent
        h[p] = h[p] + moment_out(Motion(body, q), m[i], h[i])
        m[p] = m[p] + m[i]
    return h[0]


def moment_out(T: Motion, m: Any, h: Array) -> Array:
    """The first moment h of a mass m, about the parent's frame and in its axes."""
    return T.out(h) + m * T.p
