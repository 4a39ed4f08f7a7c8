"""One rigid body on any Lie group: M dv/dt + C(v) v = tau, and the Boltzmann-Hamel equations behind it.

The group enters by its bracket alone. `RigidBody` has the closed form C(v) = ad~_(M v); `BoltzmannHamel`
derives C from a velocity transformation v = S(x) dx/dt that may come from anywhere: from exponential
coordinates of a group, S = dexp(-x), from roll, pitch and yaw, or from the user.

From (2012), "An explicit formulation of singularity-free dynamic equations of mechanical systems in
Lagrangian form, part one"; numbers of equations are those of that paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import array_of, checked, floats, number, quantities, quantity
from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError, ModelError, ShapeError
from ..bodies import SpatialInertia, Tree
from ..compiler import Function, jacobian, trace
from ..dynamics import FREE_FALL, mass_matrix, potential_energy
from ..groups import SE3, Free, LieGroup, MotionSubgroup, Product, R
from ..groups.along import gradient
from ..scalars import Array, cos, sin
from ..scalars.linear import back_substitute, cross, factor, inverse, is_numeric, solve

Transformation = Callable[[Array], Array]

VARIABLES = ("body", "momenta", "spatial")
ROUND_OFF = 1e-10  # of the largest entry, up to which a law of algebra may fail


# -- the body -----------------------------------------------------------------------------------------------


class RigidBody:
    """A body that moves on a Lie group, with constant inertia: M dv/dt + C(v) v = tau, C(v) = ad~_(M v).

    group       where it moves; anything with a bracket: SE3, a motion subgroup, AdjointGroup, one's own
    inertia     a SpatialInertia, or (6, 6) of any kind (angular first), for SE3 and its subgroups; then M is
                S^T I S with the columns of S the twists that the group allows. Or M itself, (dim, dim)
    added_mass  (6, 6), added to the inertia: of the fluid around a body, for example. It has no weight
    buoyancy    (displaced mass, its centre in the body frame (3,)): a weight that points upwards
    potential   U(q) of the coordinates (nq,), of NumPy operators and `liebody.scalars`, whose force acts in
                `vector_field`; none by default                                                         [J]

    Velocities v (dim,) are left-trivialised (body-fixed), tau (dim,) is collocated with v: power is tau . v.

    Raises ShapeError for wrong shapes; ModelError for an inertia that is not symmetric and positive definite,
    and for a group whose bracket is none (`structure_constants`). From, eqs (58), (60), (75), (108).
    """

    @checked
    def __init__(
        self,
        group: LieGroup,
        inertia: SpatialInertia | Array,
        added_mass: Array | None = None,
        buoyancy: tuple[Any, Array] | None = None,
        potential: Callable[[Array], Any] | None = None,
    ) -> None:
        self.group = group
        self.potential = potential
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
            self._weights.append((-displaced, quantities("centre of buoyancy", buoyancy[1], (3,))))
        M = self._restricted(inertia)
        self.mass_matrix = M if added_mass is None else M + self._restricted(added_mass)
        check_inertia(self.mass_matrix, f"mass matrix of a body on {group}")

    def _restricted(self, inertia: Array) -> Array:
        """M = S^T I S, or what is M already."""
        inertia, n = array_of("inertia", inertia), self.group.dim
        if inertia.shape == (6, 6) and _embedded(self.group):
            return self.twists.T @ inertia @ self.twists
        if inertia.shape != (n, n):
            expected = f"({n}, {n})" + (" or (6, 6)" if _embedded(self.group) and n != 6 else "")
            raise ShapeError(f"inertia on {self.group} has shape {inertia.shape}, expected {expected}")
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
        """The weight as an effort, S^T (m c x R^T g, m R^T g), less that of the displaced fluid, (dim,).

        q        coordinates, (nq,)
        gravity  acceleration of free fall in the world, (3,)                              [m/s2]

        Raises ModelError where the mass is not known: give a SpatialInertia, with other terms as added_mass.
        """
        if not self._weighs:
            raise ModelError(
                "gravity needs mass and centre of mass, which an inertia matrix does not tell;"
                " give a SpatialInertia as inertia, and what else there is as added_mass"
            )
        g = self.pose(q)[:3, :3].T @ np.asarray(gravity)
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
        variables  what w (dim,) is: "body", the velocities v;
                   "momenta", p = M v: dp/dt = ad_v^T p - dU/dq + tau, Hamilton's equations;
                   "spatial", V = Ad(q) v, with the inertia of `spatial_mass_matrix`: dV/dt = Ad(q) dv/dt

        Raises ModelError for other words.
        """
        if variables not in VARIABLES:
            raise ModelError(f"variables are {variables!r}, expected one of {', '.join(VARIABLES)}")
        nq = self.group.nq

        def F(t: float, x: Array) -> Array:
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
                return np.concatenate([v, self.group.ad(v).T @ w + effort])
            a = self.acceleration(v, effort)
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
            raise ShapeError(f"a selection matrix has shape (6, dim), angular first, not {S.shape}")
        if not np.isfinite(S).all():
            raise ModelError("a selection matrix must be finite")
        self.n, self.nq, self.dim, self.name = 4, 16, S.shape[1], name
        if np.linalg.matrix_rank(S) < self.dim:
            raise ModelError(f"the columns of the selection matrix of {name} are dependent; leave out some")
        self._inverse = np.linalg.pinv(S)
        self._set_twists(list(S.T))
        for i in range(self.dim):
            for j in range(i):
                bracket = SE3.ad(S[:, j]) @ S[:, i]
                beyond = bracket - S @ (self._inverse @ bracket)
                if np.abs(beyond).max() > ROUND_OFF * max(1.0, np.abs(bracket).max()):
                    raise ModelError(
                        f"columns {j} and {i} of the selection matrix of {name} have the bracket"
                        f" {_numbers(bracket)}, {np.abs(beyond).max():.2g} beyond their span: no group moves"
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


# -- what makes a group -------------------------------------------------------------------------------------


def structure_constants(group: LieGroup) -> np.ndarray:
    """c (dim, dim, dim) with [e_i, e_j] = sum over k of c[k, i, j] e_k, checked.

    Raises ModelError if `ad` is not linear, if [u, u] is not zero, if Jacobi's identity is broken, if `coad`
    is not that of `ad`, or if `hat` has another bracket than `ad` or none: the equations of motion of such a
    group would be those of nothing.
    """
    n = group.dim
    one = np.eye(n)
    c = np.zeros((n, n, n))
    for i in range(n):
        column = np.asarray(group.ad(one[i]), dtype=float)
        if column.shape != (n, n):
            raise ModelError(f"ad(u) of {group} has shape {column.shape}, expected ({n}, {n})")
        c[:, i, :] = column
    if not np.isfinite(c).all():
        raise ModelError(f"ad(u) of {group} is not finite")
    scale = max(1.0, np.abs(c).max(initial=0.0))
    probe, other = np.cos(np.arange(n) + 0.3), np.sin(2.0 * np.arange(n) + 0.7)
    linear = np.einsum("kij,i->kj", c, probe)
    if _apart(group.ad(probe), linear) > ROUND_OFF * scale * max(n, 1):
        raise ModelError(
            f"ad(u) of {group} is not linear in u; a bracket is: ad(a u + b w) = a ad(u) + b ad(w)"
        )
    worst = np.abs(c + c.transpose(0, 2, 1))
    if worst.max(initial=0.0) > ROUND_OFF * scale:
        _, i, j = (int(x) for x in np.unravel_index(np.argmax(worst), worst.shape))
        raise ModelError(
            f"the bracket of {group} is not antisymmetric: [e_{i}, e_{j}] + [e_{j}, e_{i}] ="
            f" {_numbers(c[:, i, j] + c[:, j, i])}, expected 0; column j of ad(e_i) is [e_i, e_j]"
        )
    twice = np.einsum("lim,mjk->lijk", c, c)  # [e_i, [e_j, e_k]]
    cyclic = twice + twice.transpose(0, 3, 1, 2) + twice.transpose(0, 2, 3, 1)
    if np.abs(cyclic).max(initial=0.0) > ROUND_OFF * scale**2:
        _, i, j, k = (int(x) for x in np.unravel_index(np.argmax(np.abs(cyclic)), cyclic.shape))
        raise ModelError(
            f"the bracket of {group} breaks Jacobi's identity: [e_{i}, [e_{j}, e_{k}]] + cyclic ="
            f" {_numbers(cyclic[:, i, j, k])}, expected 0; it belongs to no group: check the signs in ad(u)"
        )
    if n and _apart(group.coad(other) @ probe, -(linear.T @ other)) > ROUND_OFF * scale * n:
        raise ModelError(f"coad(p) of {group} is not that of its ad: coad(p) v = -ad(v)^T p")
    _check_matrices(group, c, scale)
    return c


def _check_matrices(group: LieGroup, c: np.ndarray, scale: float) -> None:
    """Raise ModelError if the matrices hat(e_i), where there are any, have other brackets than c."""
    try:
        E = [np.asarray(group.hat(e), dtype=float) for e in np.eye(group.dim)]
    except (NotImplementedError, ModelError):
        return  # known by its bracket alone
    for i in range(group.dim):
        for j in range(i):
            bracket = E[j] @ E[i] - E[i] @ E[j]
            rest = _apart(bracket, sum((c[k, j, i] * E[k] for k in range(group.dim)), np.zeros_like(bracket)))
            if rest > ROUND_OFF * scale * max(1.0, np.abs(bracket).max(initial=0.0)):
                raise ModelError(
                    f"the bracket of the matrices hat(e_{j}), hat(e_{i}) of {group} is {rest:.2g} away from"
                    f" the matrix of ad(e_{j}) e_{i}; either the matrices are not closed and a direction is"
                    " missing, or ad is not theirs"
                )


def check_inertia(M: Array, what: str = "inertia") -> None:
    """Raise ModelError unless M (n, n), where its values are known, is symmetric and positive definite."""
    M = np.asarray(M)
    if M.ndim != 2 or len(M) != M.shape[1]:
        raise ShapeError(f"the {what} has shape {M.shape}, expected a square one")
    if not is_numeric(M) or not len(M):
        return
    try:
        M = M.astype(float)
    except (TypeError, ValueError):
        return  # symbols of another kind
    if not np.isfinite(M).all():
        raise ModelError(f"the {what} is not finite")
    rest = np.abs(M - M.T)
    if rest.max() > 1e-9 * np.abs(M).max():
        i, j = (int(k) for k in np.unravel_index(np.argmax(rest), rest.shape))
        raise ModelError(
            f"the {what} is not symmetric: entry ({i}, {j}) is {M[i, j]:.6g}, entry ({j}, {i}) is"
            f" {M[j, i]:.6g}; take the mean of both, (M + M^T)/2, if one is not a slip"
        )
    size = np.sqrt(np.abs(np.diag(M)))
    size = np.where(size == 0, 1.0, size)  # so that units do not matter
    values, vectors = np.linalg.eigh((M + M.T) / 2 / np.outer(size, size))
    if values[0] <= 1e-13 * abs(values[-1]):
        v = vectors[:, 0] / size
        raise ModelError(
            f"the {what} is not positive definite: at the velocity {_numbers(v)} the kinetic energy is"
            f" {v @ M @ v / 2:.2g}; every motion of the group needs inertia, or leave that motion out"
        )


# -- the Boltzmann-Hamel equations --------------------------------------------------------------------------


class BoltzmannHamel:
    """M dv/dt + S^-T dU/dx + C(x, v) v = tau in velocities v = S(x) dx/dt.

    S          takes x (n,) and returns (n, n), in plain NumPy operators and the functions of
               `liebody.scalars`; its derivatives are those of its graph, without differences
    inertia    M, (n, n), constant; or a function M(x) like S
    potential  U(x), likewise; zero by default
    n          number of coordinates, where the inertia is a function

    x may be floats, or symbols of a trace. Proposition 2.1 of From, eqs (26), (46), (54), is that of constant
    M. Where M depends on x, C has Christoffel's symbols of M along the quasi-velocities, too. For a tree in
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
        self._dS = jacobian(self.S, "x")
        self._dU = None if potential is None else jacobian(trace(potential, {"x": (self.n,)}, name="U"), "x")
        self._M, self._dM = None, None
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
                raise ShapeError(f"{name}(x) has shape {matrix.shape}, expected ({n}, {n})")
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
                 take them, eq. (23); the equations at x = 0 are then those of the tree at q0
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
        own = exponential_transformation(group)

        def M(x: Array) -> Array:
            M = mass_matrix(tree, group.integrate(q0, x))
            if S is None:
                return M
            per_velocity = np.asarray(own(x)) @ inverse(np.asarray(S(x)))
            return per_velocity.T @ M @ per_velocity

        def U(x: Array) -> Any:
            return potential_energy(tree, group.integrate(q0, x), gravity)

        return cls(own if S is None else S, M, U, n=tree.nv)

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
            twisted = sum((p_s * curl for p_s, curl in zip(M @ np.asarray(v), self._curl(x), strict=True)), 0)
            return self._christoffel(x, v) + inverse.T @ twisted @ inverse
        if form == "gamma":
            gamma = self.hamel_coefficients(x)
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
        if not is_numeric(S):
            return inverse(S)
        try:
            return np.linalg.inv(S)
        except np.linalg.LinAlgError:
            raise ConfigurationError(
                f"S(x) is singular at x = {_numbers(x)}; no x reaches beyond. Take coordinates about another"
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
    zero = np.zeros((3, 3), int)
    return np.block([[T, zero], [zero, R.T]])


# -- fluid --------------------------------------------------------------------------------------------------


def ellipsoid_added_mass(semi_axes: Sequence[float], density: float) -> np.ndarray:
    """Added mass (6, 6) of an ellipsoid in an ideal fluid at rest, about its centre, angular first; diagonal.

    semi_axes  along x, y, z                                                              [m]
    density    of the fluid                                                               [kg/m3]

    Kirchhoff (1869); Lamb, Hydrodynamics (1932), art. 114 and 115, with Green's integrals alpha, beta, gamma.
    """
    a, density = floats("semi_axes", semi_axes, finite=False), number("density", density)
    if a.shape != (3,) or not np.all(a > 0) or not np.all(np.isfinite(a)):
        raise ModelError(f"semi-axes {semi_axes!r} of an ellipsoid are three positive lengths")
    if density < 0:
        raise ModelError(f"density is {density}; give that of the fluid, zero or more")
    displaced = 4 / 3 * math.pi * density * a.prod()
    s = a**2
    # alpha_i = abc int_0^inf dt/((a_i^2 + t) Delta), which sum to 2
    alpha = [2 / 3 * a.prod() * _carlson_rd(s[(i + 1) % 3], s[(i + 2) % 3], s[i]) for i in range(3)]
    translation = [displaced * alpha_i / (2 - alpha_i) for alpha_i in alpha]
    rotation = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        d, total, e = s[j] - s[k], s[j] + s[k], alpha[k] - alpha[j]
        rotation.append(0.0 if d == 0 else displaced / 5 * d**2 * e / (2 * d - total * e))
    return np.diag([*rotation, *translation])


def _carlson_rd(x: float, y: float, z: float) -> float:
    """3/2 int_0^inf dt/(sqrt((x + t)(y + t)) (z + t)^(3/2)), by duplication. Carlson (1995)."""
    total, power = 0.0, 1.0
    for _ in range(40):
        rx, ry, rz = math.sqrt(x), math.sqrt(y), math.sqrt(z)
        shift = rx * (ry + rz) + ry * rz
        total += power / (rz * (z + shift))
        power /= 4
        x, y, z = (x + shift) / 4, (y + shift) / 4, (z + shift) / 4
        if max(abs(x - z), abs(y - z)) < 1e-9 * z:
            break
    return 3 * total + power * ((x + y + 3 * z) / 5) ** -1.5


def _apart(A: Array, B: Array) -> float:
    difference = np.abs(np.asarray(A, dtype=float) - np.asarray(B, dtype=float))
    return float(difference.max(initial=0.0))


def _numbers(vector: Array) -> str:
    return f"({', '.join(f'{float(x):.4g}' for x in np.ravel(vector))})"
