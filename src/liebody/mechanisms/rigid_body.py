"""One rigid body on any Lie group: M dv/dt + C(v) v = tau with C(v) = ad~_(M v).

The group enters by its bracket alone. `boltzmann_hamel` has the equations behind this closed form, for any
velocities.

From (2012), "An explicit formulation of singularity-free dynamic equations of mechanical systems in
Lagrangian form, part one"; its equation numbers are used here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.arguments import array_of, checked, quantities, quantity, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ModelError, ShapeError
from ..bodies import SpatialInertia
from ..dynamics import FREE_FALL
from ..groups import SE3, Free, LieGroup, MotionSubgroup, Product, R, group_named
from ..groups.along import gradient
from ..scalars import Array
from ..scalars.linear import back_substitute, cross, factor
from .algebra import ROUND_OFF, check_inertia, numbers, structure_constants

VARIABLES = ("body", "momenta", "spatial")


class RigidBody:
    """A body that moves on a Lie group, with constant inertia: M dv/dt + C(v) v = tau, C(v) = ad~_(M v).

    group       where it moves; anything with a bracket: SE3, a motion subgroup, AdjointGroup, one's own; or
                the name of a group that needs no arguments (`groups.group_named`)
    inertia     a SpatialInertia, or (6, 6) of any kind (angular first), for SE3 and its subgroups; then M is
                S^T I S with the columns of S the twists that the group allows. Or M itself, (dim, dim)
    added_mass  (6, 6), added to the inertia: of the fluid around a body, for example. It has no weight
    buoyancy    (displaced mass, its centre in the body frame (3,)): a weight that points upwards
    potential   U(q) of the coordinates (nq,), of NumPy operators and `liebody.scalars`, whose force acts in
                `vector_field`; none by default                                                         [J]

    Velocities v (dim,) are left-trivialised (body-fixed), tau (dim,) is collocated with v: power is tau . v.

    Raises ShapeError for wrong shapes; ModelError for an inertia that is not symmetric and positive definite,
    and for a group without a Lie bracket (`structure_constants`). From, eqs (58), (60), (75), (108).
    """

    @checked
    def __init__(
        self,
        group: LieGroup | str,
        inertia: SpatialInertia | Array,
        added_mass: Array | None = None,
        buoyancy: tuple[Any, Array] | None = None,
        potential: Callable[[Array], Any] | None = None,
    ) -> None:
        group = group_named(group) if isinstance(group, str) else group
        self.group = group
        self.potential = potential
        # the bracket is checked first, because C(v) = ad~_(M v) rests on it alone
        self.structure = structure_constants(group)
        self._weights: list[tuple[Any, Array]] = []
        self._weighs = isinstance(inertia, SpatialInertia)
        if isinstance(inertia, SpatialInertia):
            inertia.check(repr(group))
            self._weights.append((inertia.mass, inertia.com))
            inertia = inertia.matrix()
        if buoyancy is not None:
            if len(buoyancy) != 2:
                raise ShapeError(f"buoyancy is {buoyancy!r}, expected (displaced mass, its centre (3,))")
            displaced = quantity("displaced mass", buoyancy[0])
            # a weight that points upwards has a negative mass
            self._weights.append((-displaced, quantities("centre of buoyancy", buoyancy[1], (3,))))
        M = self._restricted(inertia)
        self.mass_matrix = M if added_mass is None else M + self._restricted(added_mass)
        check_inertia(self.mass_matrix, f"mass matrix of a body on {group}")

    def _restricted(self, inertia: Array) -> Array:
        """M = S^T I S of an inertia I (6, 6); a matrix (dim, dim) is M already."""
        inertia = array_of("inertia", inertia)
        n = self.group.dim
        if inertia.shape == (6, 6) and _embedded(self.group):
            return self.twists.T @ inertia @ self.twists
        if inertia.shape != (n, n):
            expected = f"({n}, {n})" + (" or (6, 6)" if _embedded(self.group) and n != 6 else "")
            raise wrong_shape(f"inertia on {self.group}", inertia.shape, expected)
        return inertia

    @property
    def twists(self) -> np.ndarray:
        """S (6, dim): the twist of the body is S v. The selection matrix H of From, definition 4.2."""
        return self._motions.S

    def pose(self, q: Array) -> Array:
        """T (4, 4) of the body at coordinates q (nq,), on SE3 and its subgroups."""
        return self._motions.pose(q)

    @property
    def _motions(self) -> MotionSubgroup:
        if not _embedded(self.group):
            raise ModelError(f"{self.group} is no subgroup of SE(3) that says how it moves a body (matrix S)")
        return self.group if isinstance(self.group, MotionSubgroup) else Free()

    # -- equations of motion ------------------------------------------------------------------------------

    def momentum(self, v: Array) -> Array:
        """p = M v, (dim,)."""
        return self.mass_matrix @ quantities("v", v, (self.group.dim,))

    def kinetic_energy(self, v: Array) -> Any:
        """v . M v / 2."""
        return 0.5 * (np.asarray(v) @ self.momentum(v))

    def coriolis(self, v: Array) -> Array:
        """C(v) = ad~_(M v), (dim, dim), skew: C_ij = <M v, [e_i, e_j]>. From, eqs (57), (108)."""
        return self.group.coad(self.momentum(v))

    def efforts(self, v: Array, a: Array) -> Array:
        """tau = M a + C(v) v = M a - ad_v^T M v, (dim,), of the acceleration a = dv/dt. From, eq. (107)."""
        return self.mass_matrix @ np.asarray(a) - self.group.ad(v).T @ self.momentum(v)

    def acceleration(self, v: Array, tau: Array | None = None) -> Array:
        """dv/dt = M^-1 (tau + ad_v^T M v), (dim,); tau is zero by default."""
        # Euler's term is the whole force of a free body
        force = self.group.ad(v).T @ self.momentum(v)
        return back_substitute(self._factors, force if tau is None else force + np.asarray(tau))

    def potential_wrench(self, q: Array) -> Array:
        """-dU/dq of the potential, along the group, (dim,): R^T applied to -dU/do, and so on."""
        if self.potential is None:
            return np.zeros(self.group.dim, int)
        return -self._gradient(q)

    @cached_property
    def _gradient(self) -> Callable[[Array], Array]:
        assert self.potential is not None
        return gradient(self.potential, self.group)

    def gravity_wrench(self, q: Array, gravity: Array = FREE_FALL) -> Array:
        """The weight as an effort, S^T (m c x R^T g, m R^T g), less the displaced fluid's, (dim,).

        q        coordinates, (nq,)
        gravity  acceleration of free fall in the world, (3,)                              [m/s2]

        Raises ModelError where the mass is not known: give a SpatialInertia, with other terms as added_mass.
        """
        if not self._weighs:
            raise ModelError(
                "gravity needs mass and centre of mass, which an inertia matrix does not tell;"
                " give a SpatialInertia as inertia, and what else there is as added_mass"
            )
        # the direction of gravity in the body's axes
        g = self.pose(q)[:3, :3].T @ np.asarray(gravity)
        # the weight, and the buoyancy as a negative mass, each at its own centre
        force = sum((m for m, _ in self._weights), 0.0) * g
        moment = cross(sum((m * c for m, c in self._weights), np.zeros(3, int)), g)
        return self.twists.T @ np.concatenate([moment, force])

    @cached_property
    def _factors(self) -> Any:
        return factor(self.mass_matrix)

    # -- motion -------------------------------------------------------------------------------------------

    @cached_property
    def state_group(self) -> Product:
        """The group of states (q, v): the group itself times R(dim)."""
        return Product(self.group, R(self.group.dim))

    def vector_field(
        self,
        tau: Callable[[float, Array, Array], Array] | None = None,
        gravity: Array | None = None,
        variables: str = "body",
    ) -> Callable[[float, Array], Array]:
        """F(t, x), the velocity of the state x = (q, w), for `solve_ivp` on `state_group`.

        tau        body-fixed efforts tau(t, q, v), (dim,); none by default
        gravity    acceleration of free fall, (3,), for a body with weight; none by default    [m/s2]
        variables  meaning of w (dim,): "body", the velocities v;
                   "momenta", p = M v: dp/dt = ad_v^T p - dU/dq + tau, Hamilton's equations;
                   "spatial", V = Ad(q) v, with the inertia of `spatial_mass_matrix`: dV/dt = Ad(q) dv/dt

        Raises ModelError for other words.
        """
        if variables not in VARIABLES:
            raise ModelError(f"variables are {variables!r}, expected one of {', '.join(VARIABLES)}")
        nq = self.group.nq

        def F(t: float, x: Array) -> Array:
            # back to body-fixed velocities, in which forces and accelerations are computed
            q, w = x[:nq], x[nq:]
            v = w
            if variables == "momenta":
                v = back_substitute(self._factors, w)
            elif variables == "spatial":
                v = self._to_body(q) @ w
            effort: Any = self.potential_wrench(q) if tau is None else self.potential_wrench(q) + tau(t, q, v)
            if gravity is not None:
                effort = effort + self.gravity_wrench(q, gravity)
            if variables == "momenta":
                # Hamilton's equations in body-fixed momenta need no Coriolis matrix
                return np.concatenate([v, self.group.ad(v).T @ w + effort])
            a = self.acceleration(v, effort)
            # dV/dt = Ad(q) dv/dt, because the other term of the derivative, Ad(q) ad_v v, is zero
            return np.concatenate(
                [v, self.group.Ad(self.group.element(q)) @ a if variables == "spatial" else a]
            )

        return F

    # -- in the spatial frame -----------------------------------------------------------------------------

    def spatial_mass_matrix(self, q: Array) -> Array:
        """M(q) = Ad(q^-1)^T M Ad(q^-1) (dim, dim), of the velocities V = Ad(q) v. From, eq. (61)."""
        inverse = self._to_body(q)
        return inverse.T @ self.mass_matrix @ inverse

    def _to_body(self, q: Array) -> Array:
        return self.group.Ad(self.group.inverse(self.group.element(q)))

    def spatial_coriolis(self, q: Array, V: Array) -> Array:
        """C(q, V) (dim, dim) with M(q) dV/dt + C V = Ad(q^-1)^T tau, and dM/dt - 2 C skew.

        C = ad~_(M V) - M ad_V,    dM/dt = -ad_V^T M - M ad_V
        """
        M = self.spatial_mass_matrix(q)
        return self.group.coad(M @ np.asarray(V)) - M @ self.group.ad(V)

    def __repr__(self) -> str:
        return f"RigidBody({self.group})"


def _embedded(group: LieGroup) -> bool:
    return isinstance(group, MotionSubgroup) or group == SE3


class SelectedMotions(MotionSubgroup):
    """The subgroup of SE(3) whose twists are spanned by the columns of H (6, dim), angular first.

    From, definition 4.2, with the condition that it leaves out: the columns must span a subalgebra. They may
    be any: helical motions are no selection of coordinates. Elements are poses T (4, 4).

    Raises ModelError where the bracket of two columns leaves their span, or where they are dependent.
    """

    def __init__(self, H: Array, name: str = "SelectedMotions") -> None:
        S = np.array(H, dtype=float)
        if S.ndim != 2 or len(S) != 6 or not S.shape[1]:
            raise wrong_shape("a selection matrix", S.shape, "(6, dim), angular first")
        if not np.isfinite(S).all():
            raise ModelError("a selection matrix must be finite")
        # elements are whole poses, because nothing smaller is known for an arbitrary span
        self.n = 4
        self.nq = 16
        self.dim = S.shape[1]
        self.name = name
        if np.linalg.matrix_rank(S) < self.dim:
            raise ModelError(f"the columns of the selection matrix of {name} are dependent; leave out some")
        self._inverse = np.linalg.pinv(S)
        self._set_twists(list(S.T))
        # a subalgebra: the bracket of two columns must stay in their span
        for i in range(self.dim):
            for j in range(i):
                bracket = SE3.ad(S[:, j]) @ S[:, i]
                beyond = bracket - S @ (self._inverse @ bracket)
                if np.abs(beyond).max() > ROUND_OFF * max(1.0, np.abs(bracket).max()):
                    raise ModelError(
                        f"columns {j} and {i} of the selection matrix of {name} have the bracket"
                        f" {numbers(bracket)}, {np.abs(beyond).max():.2g} beyond their span: no group moves"
                        " like that, and v does not determine the pose (a universal joint is such a case);"
                        " add the missing direction, or make a tree of two joints"
                    )

    def _value(self) -> Any:
        return self.name, self.S.tobytes()

    def hat(self, u: Array) -> Array:
        return SE3.hat(self.S @ np.asarray(u))

    def vee(self, U: Array) -> Array:
        return self._inverse @ SE3.vee(U)

    def exp(self, u: Array) -> Array:
        return SE3.exp(self.S @ np.asarray(u))

    def log(self, g: Array) -> Array:
        return self._inverse @ SE3.log(g)

    def inverse(self, g: Array) -> Array:
        return SE3.inverse(g)

    def ad(self, u: Array) -> Array:
        return self._inverse @ SE3.ad(self.S @ np.asarray(u)) @ self.S

    def pose(self, q: Array) -> Array:
        return self.element(q)
