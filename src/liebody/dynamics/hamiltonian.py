"""Hamilton's equations of a tree, with momenta p = M(q) v as state; on the group, without coordinates.

    H(q, p) = p^T M(q)^-1 p / 2 + U(q),    dq/dt = v = dH/dp,    dp/dt = ad_v^T p - dH/dq + tau

where dH/dq is the derivative along the group, and ad the bracket of it. With a Coriolis matrix C for which
dM/dt = C + C^T the latter is dp/dt = C(q, v)^T v - g(q) + tau, which needs no derivative of M. Feurstein
(2021), eqs (3.33)-(3.36), for a floating base and joints; Marsden and Ratiu (1999), section 13.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..bodies import Tree
from ..scalars import Array
from .coriolis import coriolis_transpose_times
from .energy import potential_energy
from .forward import forward_dynamics
from .inverse import FREE_FALL, gravity_forces, inverse_dynamics

WEIGHTLESS = (0.0, 0.0, 0.0)


def legendre_transform(tree: Tree, q: Array, v: Array) -> Array:
    """p = dL/dv = M(q) v (nv,): the conjugate momenta, rotors included. O(n).  [kg m2/s, kg m/s]

    q, v  configuration (nq,) and velocity, left-trivialised, (nv,)

    The base's part is its momentum h_b, the joints' h_q. Feurstein (2021), eqs (3.33), (3.34).
    """
    return inverse_dynamics(tree, q, np.zeros(tree.nv, int), v, WEIGHTLESS)


def inverse_legendre_transform(tree: Tree, q: Array, p: Array) -> Array:
    """v = dH/dp = M(q)^-1 p (nv,), of the momenta p (nv,) of `legendre_transform`; O(n).  [rad/s, m/s]"""
    return forward_dynamics(tree, q, np.zeros(tree.nv, int), p, WEIGHTLESS)


def hamiltonian(tree: Tree, q: Array, p: Array, gravity: Array = FREE_FALL) -> Array:
    """H(q, p) = p^T M(q)^-1 p / 2 + U(q), the energy; a scalar. Feurstein (2021), eq. (3.35).  [J]

    q, p     configuration (nq,) and momenta (nv,)
    gravity  acceleration of free fall in the world, (3,)                  [m/s2]
    """
    v = inverse_legendre_transform(tree, q, p)
    return 0.5 * (p @ v) + potential_energy(tree, q, gravity)


class HamiltonianRates(NamedTuple):
    """Hamilton's equations at a state."""

    v: Array  # dH/dp, with dq/dt = v left-trivialised, (nv,)
    p_rate: Array  # dp/dt, (nv,)


def hamiltonian_dynamics(
    tree: Tree, q: Array, p: Array, tau: Array, gravity: Array = FREE_FALL
) -> HamiltonianRates:
    """v = M(q)^-1 p and dp/dt = ad_v^T p - dH/dq + tau = C(q, v)^T v - g(q) + tau, each (nv,), O(n).

    q, p     configuration (nq,) and momenta, as `legendre_transform` gives them, (nv,)
    tau      joint efforts, (nv,)                                          [N m, N]
    gravity  acceleration of free fall in the world, (3,)                  [m/s2]

    dH/dq is taken along the group, at fixed p. Rotors, numbers on the diagonal of M, have no part in
    ad_v^T p. Feurstein (2021), eq. (3.36).
    """
    v = inverse_legendre_transform(tree, q, p)
    return HamiltonianRates(v, tau + coriolis_transpose_times(tree, q, v) - gravity_forces(tree, q, gravity))
