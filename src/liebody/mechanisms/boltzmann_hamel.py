"""The Boltzmann-Hamel equations of any velocities v = S(x) dx/dt: M dv/dt + S^-T dU/dx + C(x, v) v = tau.

The transformation S may come from anywhere: from exponential coordinates of a group, S = dexp(-x), from roll,
pitch and yaw, or from the user.

From (2012), "An explicit formulation of singularity-free dynamic equations of mechanical systems in
Lagrangian form, part one"; its equation numbers are used here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.arguments import wrong_shape
from ..base.errors import ConfigurationError, ModelError, ShapeError
from ..bodies import Tree
from ..compiler import Function, jacobian, trace
from ..dynamics import FREE_FALL, mass_matrix, potential_energy
from ..groups import LieGroup
from ..scalars import Array, cos, sin
from ..scalars.linear import inverse, is_numeric, solve
from .algebra import check_inertia, numbers, structure_constants

Transformation = Callable[[Array], Array]


class BoltzmannHamel:
    """M dv/dt + S^-T dU/dx + C(x, v) v = tau in velocities v = S(x) dx/dt.

    S          takes x (n,) and returns (n, n), in plain NumPy operators and the functions of
               `liebody.scalars`; its derivatives come from its graph, without differences
    inertia    M, (n, n), constant; or a function M(x) like S
    potential  U(x), likewise; zero by default
    n          number of coordinates, where the inertia is a function

    x may be floats, or symbols of a trace. Proposition 2.1 of From, eqs (26), (46), (54), is for constant M.
    Where M depends on x, C has Christoffel's symbols of M along the quasi-velocities, too. For a tree in
    the coordinates of Duindam and Stramigioli (2008), q = q0 exp(x): `of_tree`.

    Raises ConfigurationError where S(x) is singular: there the coordinates end.
    """

    def __init__(
        self,
        S: Transformation,
        inertia: Array | Transformation,
        potential: Callable[[Array], Any] | None = None,
        n: int | None = None,
    ):
        if callable(inertia) and n is None:
            raise ModelError("the inertia is a function M(x); say how many coordinates x has: n = ...")
        self.n: int = len(np.asarray(inertia)) if n is None else n
        self.S = self._square(S, "S")
        # the derivatives are traced once and serve at every x
        self._dS = jacobian(self.S, "x")
        self._dU = None if potential is None else jacobian(trace(potential, {"x": (self.n,)}, name="U"), "x")
        self._M = None
        self._dM = None
        if callable(inertia):
            self._M = self._square(inertia, "M")
            self._dM = jacobian(self._M, "x")
        else:
            self._inertia = np.asarray(inertia)
            check_inertia(self._inertia)

    def _square(self, function: Transformation, name: str) -> Function:
        """The trace of x -> (n, n)."""
        n = self.n

        def square(x: Array) -> Array:
            matrix = np.asarray(function(x), dtype=object)
            if matrix.shape != (n, n):
                raise wrong_shape(f"{name}(x)", matrix.shape, f"({n}, {n})")
            return matrix

        return trace(square, {"x": (n,)}, name=name)

    @classmethod
    def of_tree(
        cls,
        tree: Tree,
        q0: Array | None = None,
        S: Transformation | None = None,
        gravity: Array = FREE_FALL,
    ) -> BoltzmannHamel:
        """A tree in local coordinates x about q0, q = q0 exp(x), and velocities w = S(x) dx/dt.

        q0       configuration (nq,); the neutral one by default
        S        None: w are the tree's own velocities v = dexp(-x) dx/dt, as Duindam and Stramigioli (2008)
                 take them, eq. (23); the equations at x = 0 are then the tree's at q0
        gravity  acceleration of free fall in the world, (3,)                                      [m/s2]

        Raises ModelError for rotors in joints whose motions do not commute, such as balls.
        """
        group = tree.group
        for body in tree.bodies:
            joint = body.joint
            if np.any(body.armature) and structure_constants(joint.group).any():
                raise ModelError(
                    f"joint {joint.name!r} has a rotor and motions that do not commute; its armature is a "
                    "number in M, of no kinetic energy on the group: leave it out"
                )
        q0 = group.neutral() if q0 is None else np.asarray(q0, float)
        exponential = exponential_transformation(group)

        def M(x: Array) -> Array:
            M = mass_matrix(tree, group.integrate(q0, x))
            if S is None:
                return M
            # v = dexp(-x) dx/dt = P w with P = dexp(-x) S^-1: in velocities w the inertia is P^T M P
            per_velocity = np.asarray(exponential(x)) @ inverse(np.asarray(S(x)))
            return per_velocity.T @ M @ per_velocity

        def U(x: Array) -> Any:
            return potential_energy(tree, group.integrate(q0, x), gravity)

        return cls(exponential if S is None else S, M, U, n=tree.nv)

    def mass_matrix(self, x: Array) -> Array:
        """M, (n, n), at x."""
        return self._inertia if self._M is None else self._M(x)

    def transformation(self, x: Array) -> Array:
        """S(x), (n, n)."""
        return self.S(x)

    def transformation_derivative(self, x: Array) -> Array:
        """dS_ij/dx_m, (n, n, n), by the derivative of the graph of S."""
        return self._dS(x)

    def hamel_coefficients(self, x: Array) -> Array:
        """gamma[k, i, j] = (gamma_k)_ij at x, (n, n, n). From, eq. (46).

        For v the body velocity of a group they are its structure constants, c^j_ik, at every x and in any
        coordinates: the evaluation at x = 0 in From, eq. (47) on, is not needed.
        """
        inverse = self._inverse(x)
        # eq. (46) for each row j of S; the second index of the product is k, the first one i
        return np.stack([inverse.T @ curl @ inverse for curl in self._curl(x)], axis=-1).transpose(1, 0, 2)

    def coriolis(self, x: Array, v: Array, form: str = "skew") -> Array:
        """C(x, v), (n, n).

        form  "skew": eq. (54), which is (49) with its velocity and its index restored, and on a group
              ad~_(M v). "gamma": eq. (52), sum over k of gamma_k v_k M, on a group -ad_v^T M: not skew.
              Both have the same C v

        Where M depends on x, Christoffel's symbols (D_k M_ij + D_j M_ik - D_i M_jk) v_k / 2 come on top, with
        the derivatives D along the velocities: the skew form has dM/dt - 2 C skew.
        """
        M = self.mass_matrix(x)
        if form == "skew":
            inverse = self._inverse(x)
            # eq. (54): the curls of the rows of S, weighted by the momenta p = M v
            twisted = sum((p_s * curl for p_s, curl in zip(M @ np.asarray(v), self._curl(x), strict=True)), 0)
            return self._christoffel(x, v) + inverse.T @ twisted @ inverse
        if form == "gamma":
            gamma = self.hamel_coefficients(x)
            # eq. (52): sum over k of gamma_k v_k M
            return self._christoffel(x, v) + sum((v[k] * gamma[k] for k in range(self.n)), 0) @ M
        raise ModelError(f"there is no Coriolis matrix {form!r}; there are 'skew' and 'gamma'")

    def bias(self, x: Array, v: Array) -> Array:
        """C(x, v) v + S^-T dU/dx, (n,): the efforts that keep v constant."""
        force = self.coriolis(x, v) @ np.asarray(v)
        return force if self._dU is None else force + self._inverse(x).T @ self._dU(x)

    def acceleration(self, x: Array, v: Array, tau: Array | None = None) -> Array:
        """dv/dt, (n,), under the efforts tau (n,), which are zero by default."""
        force = -self.bias(x, v)
        return solve(self.mass_matrix(x), force if tau is None else force + np.asarray(tau))

    def rates(self, x: Array, v: Array) -> Array:
        """dx/dt = S(x)^-1 v, (n,)."""
        return self._inverse(x) @ np.asarray(v)

    def vector_field(
        self, tau: Callable[[float, Array, Array], Array] | None = None
    ) -> Callable[[float, Array], Array]:
        """F(t, y) = (dx/dt, dv/dt) at the state y = (x, v), for `solve_ivp` on R(2 n).

        tau  efforts tau(t, x, v), (n,), collocated with v; none by default
        """

        def F(t: float, y: Array) -> Array:
            x, v = y[: self.n], y[self.n :]
            return np.concatenate([self.rates(x, v), self.acceleration(x, v, tau and tau(t, x, v))])

        return F

    def _christoffel(self, x: Array, v: Array) -> Any:
        """Christoffel's symbols of M(x) along the velocities, times v, (n, n)."""
        if self._dM is None:
            return 0
        D = self._dM(x) @ self._inverse(x)  # [i, j, k]: D_k M_ij
        along = sum((v[k] * D[:, :, k] for k in range(self.n)), 0)
        across = sum((v[k] * D[:, k, :] for k in range(self.n)), 0)
        return 0.5 * (along + across - across.T)

    def _curl(self, x: Array) -> Array:
        """[j, l, m]: dS_jl/dx_m - dS_jm/dx_l."""
        d = self._dS(x)
        return d - d.transpose(0, 2, 1)

    def _inverse(self, x: Array) -> Array:
        S = self.S(x)
        # numbers are inverted with pivots, which symbols of a trace cannot choose
        if not is_numeric(S):
            return inverse(S)
        try:
            return np.linalg.inv(S)
        except np.linalg.LinAlgError:
            raise ConfigurationError(
                f"S(x) is singular at x = {numbers(x)}; no x reaches beyond. Take coordinates about another"
                " point, or the group itself (RigidBody), which has no such place"
            ) from None


def exponential_transformation(group: LieGroup, terms: int | None = None) -> Transformation:
    """S(phi) with v = S(phi) dphi/dt, for exponential coordinates g = g0 exp(phi) of a group.

    terms  None for the closed form dexp(-phi), or how many terms of the series
           1 - ad_phi/2 + ad_phi^2/6 - ... = sum of (-ad_phi)^k/(k + 1)!. From, eqs (29), (55), (100)
    """
    if terms is None:
        return lambda phi: group.dexp(-phi)

    def series(phi: Array) -> Array:
        ad = group.ad(phi)
        # term is (-ad)^k, from one turn to the next
        term = total = np.eye(group.dim)
        for k in range(1, terms):
            term = -(term @ ad)
            total = total + term / math.factorial(k + 1)
        return total

    return series


def roll_pitch_yaw_transformation(x: Array) -> Array:
    """S(x) with v = S(x) dx/dt for R = Rz(yaw) Ry(pitch) Rx(roll), singular at pitch = pi/2.

    x  (roll, pitch, yaw): S is (3, 3) and v = omega; or (roll, pitch, yaw, position): S is (6, 6) and
       v = (omega, v). Both body-fixed.
    """
    if len(x) not in (3, 6):
        raise ShapeError(f"roll, pitch, yaw, without or with a position: 3 or 6 numbers, not {len(x)}")
    (sr, sp, sy), (cr, cp, cy) = ([f(x[k]) for k in range(3)] for f in (sin, cos))
    # the columns are the axes of roll, pitch and yaw, seen from the body
    T = np.array([[1, 0, -sp], [0, cr, sr * cp], [0, -sr, cr * cp]])
    if len(x) == 3:
        return T
    R = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    # R^T turns the velocity of the position into the body's axes
    zero = np.zeros((3, 3), int)
    return np.block([[T, zero], [zero, R.T]])
