"""What a user holds: a robot whose equations of motion are compiled at first use."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from . import dynamics
from .bodies import Tree
from .codegen import Function, Guard, Kernel, Program, traced
from .codegen.build import digest
from .dynamics.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives
from .errors import ModelError, ShapeError, counted
from .groups import SE3, SO3, LieGroup, Product, SO3xR3
from .io.c_export import write_c
from .linear import is_numeric

Array = Any
GRAVITY = (0.0, 0.0, -9.81)


class Robot:
    """A tree of bodies with its equations of motion as calls on NumPy arrays.

    tree     the mechanism
    gravity  acceleration of free fall in the world, (3,)                                     [m/s2]

    q are flat coordinates (nq,), v left-trivialised velocities (nv,); see docs/conventions.md. Every call
    takes single states or batches, (..., nq) and (..., nv) with leading axes that broadcast, and the keywords

        out      array to write the result into
        threads  number of threads that share a batch

    The first call of a function traces and compiles it (later processes find it in the cache); from then on a
    call with single states is a call of the generated library. Wrong shapes raise ShapeError; NaN, infinity
    and quaternions which are not unit raise ConfigurationError.

    Where a function is traced, such as the efforts of `simulate`, symbols of single states give symbols, so
    that `K * (q_d - q) - D * v + robot.gravity(q)` is compiled with the rest.
    """

    def __init__(self, tree: Tree, gravity: Array = GRAVITY) -> None:
        gravity = np.asarray(gravity, float)
        if gravity.shape != (3,) or not np.all(np.isfinite(gravity)):
            raise ShapeError(f"gravity is {gravity!r}, expected three finite numbers, such as (0, 0, -9.81)")
        self.tree, self.gravity_vector = tree, gravity
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self.flows: dict[tuple[Any, ...], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The definition without what is compiled, so that robots can be sent to other processes."""
        state = {**vars(self), "_kernels": {}, "flows": {}}
        return {name: value for name, value in state.items() if name not in _DIRECT}

    @property
    def name(self) -> str:
        """The name in the description."""
        return self.tree.name

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return self.tree.nq

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return self.tree.nv

    @property
    def group(self) -> Product:
        """The configuration group: the product of the joints' groups."""
        return self.tree.group

    def __repr__(self) -> str:
        bodies = counted(len(self.tree.bodies), "body", "bodies")
        return f"Robot {self.name!r}: {bodies}, nq = {self.nq}, nv = {self.nv}"

    # -- the configuration group --------------------------------------------------------------------------

    def neutral(self) -> Array:
        """The configuration of all joints at their identity, (nq,)."""
        return self.group.neutral()

    def random(self, rng: np.random.Generator | int | None = None, shape: int | Sequence[int] = ()) -> Array:
        """Random configurations (*shape, nq).

        Angles lie within a turn, rotations are uniform, translations are normal with deviation 1 m.
        """
        rng = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        draws = [self.group.random(rng) for _ in range(int(np.prod(shape)))]
        return np.reshape(draws, (*shape, self.nq)) if shape else draws[0]

    def normalize(self, q: Array) -> Array:
        """The configuration next to q whose quaternions are unit."""
        return self._call("normalize", q)

    def integrate(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """q exp(v): where constant velocities v lead from q in unit time, (..., nq)."""
        return self._call("integrate", q, v, out=out, threads=threads)

    def difference(self, q0: Array, q1: Array, *, out: Array = None, threads: int = 1) -> Array:
        """log(q0^-1 q1): the velocities that lead from q0 to q1 in unit time, (..., nv)."""
        return self._call("difference", q0, q1, out=out, threads=threads)

    def interpolate(self, q0: Array, q1: Array, s: Array, *, out: Array = None, threads: int = 1) -> Array:
        """q0 exp(s log(q0^-1 q1)), (..., nq): the path from q0 (s = 0) to q1 (s = 1); s is (...)."""
        return self._call("interpolate", q0, q1, s, out=out, threads=threads)

    # -- the equations of motion --------------------------------------------------------------------------

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Array = None, *, out: Array = None, threads: int = 1
    ) -> Array:
        """tau = M(q) a + C(q, v) v + g(q), (..., nv), by the recursive Newton-Euler algorithm.

        wrenches  external wrench on each body, in its own frame, (..., n, 6), moment first       [N m, N]
        """
        if wrenches is not None:
            return self._call("inverse_dynamics_wrenches", q, v, a, wrenches, out=out, threads=threads)
        return self._call("inverse_dynamics", q, v, a, out=out, threads=threads)

    def forward_dynamics(
        self, q: Array, v: Array, tau: Array, wrenches: Array = None, *, out: Array = None, threads: int = 1
    ) -> Array:
        """a = M(q)^-1 (tau - C(q, v) v - g(q)), (..., nv), by the articulated-body algorithm.

        wrenches  external wrench on each body, in its own frame, (..., n, 6), moment first       [N m, N]
        """
        if wrenches is not None:
            return self._call("forward_dynamics_wrenches", q, v, tau, wrenches, out=out, threads=threads)
        return self._call("forward_dynamics", q, v, tau, out=out, threads=threads)

    def mass_matrix(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """M(q), (..., nv, nv), symmetric positive definite, by the composite-rigid-body algorithm."""
        return self._call("mass_matrix", q, out=out, threads=threads)

    def bias(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """C(q, v) v + g(q), (..., nv): the efforts that make the acceleration zero."""
        return self._call("bias", q, v, out=out, threads=threads)

    def gravity(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """g(q), (..., nv): the efforts that hold the robot at rest."""
        return self._call("gravity", q, out=out, threads=threads)

    def kinetic_energy(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """v^T M(q) v / 2, (...)                                                                      [J]"""
        return self._call("kinetic_energy", q, v, out=out, threads=threads)

    def potential_energy(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """-sum m g . c, (...), zero where the bodies' mass is at the world's origin                  [J]"""
        return self._call("potential_energy", q, out=out, threads=threads)

    def energy(self, q: Array, v: Array) -> Array:
        """Kinetic plus potential energy, (...)                                                       [J]"""
        return self.kinetic_energy(q, v) + self.potential_energy(q)

    # -- Coriolis matrices, and what controllers build from them ----------------------------------------

    def coriolis_matrix(
        self, q: Array, v: Array, form: str = "christoffel", *, out: Array = None, threads: int = 1
    ) -> Array:
        """C(q, v), (..., nv, nv), with C v + g = bias.

        form  "christoffel": dM/dt - 2 C is skew, torsion-free; "ploen", "coadjoint", "feurstein": other
              skew ones; "newton-euler", "hamel": not skew. See docs/coriolis.md
        """
        if form != "christoffel":
            return self._call("coriolis_matrix_of_form", q, v, form=form, out=out, threads=threads)
        return self._call("coriolis_matrix", q, v, out=out, threads=threads)

    def mass_matrix_derivative(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """dM/dt while q moves with v, (..., nv, nv), symmetric."""
        return self._call("mass_matrix_derivative", q, v, out=out, threads=threads)

    def mass_and_coriolis(self, q: Array, v: Array, *, threads: int = 1) -> tuple[Array, ...]:
        """M, dM/dt and C of the form "christoffel" in one call, each (..., nv, nv)."""
        return self._call("mass_and_coriolis", q, v, threads=threads)

    def christoffel_symbols(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """Gamma, (..., nv, nv, nv), with coriolis_matrix = Gamma @ v, in the left-trivialised frame."""
        return self._call("christoffel_symbols", q, out=out, threads=threads)

    def passive_inverse_dynamics(
        self, q: Array, v: Array, v_r: Array, a_r: Array, *, out: Array = None, threads: int = 1
    ) -> Array:
        """M(q) a_r + C(q, v) v_r + g(q), (..., nv), with C of the form "christoffel", without forming it."""
        return self._call("passive_inverse_dynamics", q, v, v_r, a_r, out=out, threads=threads)

    def coriolis_transpose_times(
        self, q: Array, v: Array, w: Array = None, *, out: Array = None, threads: int = 1
    ) -> Array:
        """C(q, v)^T w, (..., nv), without forming C; w is v if None.

        Momentum observers need it: d(M v)/dt = tau + C^T v - g.
        """
        if w is not None:
            return self._call("coriolis_transpose_times_vector", q, v, w, out=out, threads=threads)
        return self._call("coriolis_transpose_times", q, v, out=out, threads=threads)

    def inverse_dynamics_regressor(
        self, q: Array, v: Array, a: Array, *, out: Array = None, threads: int = 1
    ) -> Array:
        """Y, (..., nv, 10 n), with Y pi = M(q) a + C(q, v) v + g(q) for the bodies' parameters pi.

        pi: (m, h, I_xx, I_xy, I_xz, I_yy, I_yz, I_zz) of each body about its frame's origin, without
        armature; those of this robot are `inertial_parameters`
        """
        return self._call("inverse_dynamics_regressor", q, v, a, out=out, threads=threads)

    def passive_regressor(
        self, q: Array, v: Array, v_r: Array, a_r: Array, *, out: Array = None, threads: int = 1
    ) -> Array:
        """Y, (..., nv, 10 n), with Y pi = M(q) a_r + C(q, v) v_r + g(q): the regressor of Slotine and Li."""
        return self._call("passive_regressor", q, v, v_r, a_r, out=out, threads=threads)

    @property
    def inertial_parameters(self) -> Array:
        """pi, (10 n,), the bodies' parameters in the order of the regressors            [kg, kg m, kg m2]"""
        return dynamics.inertial_parameters(self.tree).astype(float)

    def base_parameters(self) -> dynamics.BaseParameters:
        """The parameters that efforts identify: columns of the regressors, and combinations K pi."""
        return dynamics.base_parameters(self.tree, tuple(self.gravity_vector))

    # -- external and internal motion of floating robots --------------------------------------------------

    def decoupling_transform(
        self, q: Array, x: Any = "locked", y: Any = "identity", *, out: Array = None, threads: int = 1
    ) -> Array:
        """T(q), (..., nv, nv): the velocities (v_x, v_y) = T v in which M is block-diagonal.

        x  of the base: "locked", "centroidal", "momentum", a matrix, a function of q, or a pair of functions
           T_x(q), dT_x/dt(q, v)
        y  of the joints: "identity", "normalized", a `dynamics.Task`, a matrix, or functions likewise

        See docs/floating-bases.md. A function is compiled once for each function object: keep and reuse it.
        """
        return self._call("decoupling_transform", q, x=_option(x), y=_option(y), out=out, threads=threads)

    def decoupling_transform_inverse(
        self, q: Array, x: Any = "locked", y: Any = "identity", *, out: Array = None, threads: int = 1
    ) -> Array:
        """T(q)^-1, (..., nv, nv); `x`, `y` as in `decoupling_transform`."""
        return self._call(
            "decoupling_transform_inverse", q, x=_option(x), y=_option(y), out=out, threads=threads
        )

    def decoupling_transform_rate(
        self,
        q: Array,
        v: Array,
        x: Any = "locked",
        y: Any = "identity",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """dT/dt along v, (..., nv, nv); `x`, `y` as in `decoupling_transform`."""
        return self._call(
            "decoupling_transform_rate", q, v, x=_option(x), y=_option(y), out=out, threads=threads
        )

    def decoupled_velocity(
        self,
        q: Array,
        v: Array,
        x: Any = "locked",
        y: Any = "identity",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """(v_x, v_y) = T v, (..., nv); `x`, `y` as in `decoupling_transform`."""
        return self._call("decoupled_velocity", q, v, x=_option(x), y=_option(y), out=out, threads=threads)

    def velocity_from_decoupled(
        self,
        q: Array,
        w: Array,
        x: Any = "locked",
        y: Any = "identity",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """v = T^-1 w, (..., nv), of w = (v_x, v_y); `x`, `y` as in `decoupling_transform`."""
        return self._call(
            "velocity_from_decoupled", q, w, x=_option(x), y=_option(y), out=out, threads=threads
        )

    def decoupled_efforts(
        self,
        q: Array,
        tau: Array,
        x: Any = "locked",
        y: Any = "identity",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """(F_x, F_y) = T^-T tau, (..., nv); `x`, `y` as in `decoupling_transform`."""
        return self._call("decoupled_efforts", q, tau, x=_option(x), y=_option(y), out=out, threads=threads)

    def efforts_from_decoupled(
        self,
        q: Array,
        F: Array,
        x: Any = "locked",
        y: Any = "identity",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """tau = T^T F, (..., nv), of F = (F_x, F_y); `x`, `y` as in `decoupling_transform`."""
        return self._call(
            "efforts_from_decoupled", q, F, x=_option(x), y=_option(y), out=out, threads=threads
        )

    def transformed_dynamics(
        self,
        q: Array,
        v: Array,
        x: Any = "locked",
        y: Any = "identity",
        form: str = "christoffel",
        *,
        threads: int = 1,
    ) -> tuple[Array, ...]:
        """M, C (..., nv, nv) and g (..., nv) of the equations in the velocities w = T v.

        M_w = T^-T M T^-1, C_w = T^-T C T^-1 - M_w (dT/dt) T^-1, g_w = T^-T g.

        x, y  as in `decoupling_transform`
        form  of C, as in `coriolis_matrix`
        """
        return self._call(
            "transformed_dynamics", q, v, x=_option(x), y=_option(y), form=form, threads=threads
        )

    def decoupled_dynamics(
        self,
        q: Array,
        v: Array,
        x: Any = "locked",
        y: Any = "identity",
        form: str = "hamel",
        *,
        threads: int = 1,
    ) -> dynamics.Decoupled:
        """Mx, My, Cx, Cxy, Cyx, Cy, gx, gy: the same equations by blocks, of the base's size and the joints'.

        With the form "hamel" Cxy is zero, with a skew form each part is passive; with x = "momentum" the
        internal motion does not act on the external one, Cx v_x + Cxy v_y = 0.
        """
        parts = self._call("decoupled_dynamics", q, v, x=_option(x), y=_option(y), form=form, threads=threads)
        return dynamics.Decoupled(*parts)

    def internal_inertia(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """Mqq - Mbq^T Mbb^-1 Mbq, (..., n, n): the inertia of the joints' motion while the base gives way."""
        return self._call("internal_inertia", q, out=out, threads=threads)

    def internal_jacobian(self, q: Array, task: Any, *, out: Array = None, threads: int = 1) -> Array:
        """J_q - J_b Mbb^-1 Mbq, (..., r, n): the task's velocity by the joints, while the base gives way.

        task  name of a frame or body, a `dynamics.Task`, or a function q -> Jacobian (r, nv)
        """
        return self._call("internal_jacobian", q, task=task, out=out, threads=threads)

    def internal_jacobian_rate(
        self, q: Array, v: Array, task: Any, *, out: Array = None, threads: int = 1
    ) -> Array:
        """d/dt of `internal_jacobian` along v, (..., r, n)."""
        return self._call("internal_jacobian_rate", q, v, task=task, out=out, threads=threads)

    def external_jacobian(
        self, q: Array, task: Any, x: Any = "centroidal", *, out: Array = None, threads: int = 1
    ) -> Array:
        """J_b T_x^-1, (..., r, k): the task's velocity by the external one, v_x."""
        return self._call("external_jacobian", q, task=task, x=_option(x), out=out, threads=threads)

    def external_internal_velocity(
        self, q: Array, v: Array, task: Any, x: Any = "centroidal", *, out: Array = None, threads: int = 1
    ) -> Array:
        """(v_x, J_int q'), (..., k + r): the external velocity and the task's internal one."""
        return self._call(
            "external_internal_velocity", q, v, task=task, x=_option(x), out=out, threads=threads
        )

    def internal_inverse(
        self, q: Array, task: Any, inverse: str = "moore-penrose", *, threads: int = 1
    ) -> Array:
        """A generalized inverse of `internal_jacobian`, (..., n, r), by singular values, of any rank.

        inverse  "moore-penrose", or "dynamically-consistent": of least energy. `internal_rank` tells whether
                 it is a right inverse, a left one, both or neither
        """
        if inverse not in dynamics.INVERSES:
            names = ", ".join(dynamics.INVERSES)
            raise ModelError(f"{inverse!r} is not the name of an inverse; use one of {names}")
        weight = None if inverse == "moore-penrose" else self.internal_inertia(q, threads=threads)
        return dynamics.generalized_inverse(self.internal_jacobian(q, task, threads=threads), weight)

    def internal_rank(self, q: Array, task: Any) -> dynamics.InternalRank:
        """Rank of `internal_jacobian` at one q, (nq,), what its inverse is there, and its singular values."""
        return dynamics.rank_of(self.internal_jacobian(q, task))

    def velocity_from_external_internal(
        self,
        q: Array,
        w: Array,
        task: Any,
        x: Any = "centroidal",
        inverse: str = "moore-penrose",
        *,
        threads: int = 1,
    ) -> Array:
        """v, (..., nv), of w = (v_x, internal velocity) (..., k + r), by `internal_inverse`."""
        k = self.tree.bodies[0].joint.dim
        J_ = self.internal_inverse(q, task, inverse, threads=threads)
        X = self.decoupling_transform_inverse(q, x, threads=threads)
        w = np.asarray(w)
        return _times(X[..., :k], w[..., :k]) + _times(X[..., k:], _times(J_, w[..., k:]))

    def external_internal_efforts(
        self,
        q: Array,
        tau: Array,
        task: Any,
        x: Any = "centroidal",
        inverse: str = "moore-penrose",
        *,
        threads: int = 1,
    ) -> Array:
        """(F_x, internal force), (..., k + r), of efforts tau, by the transpose of `internal_inverse`."""
        k = self.tree.bodies[0].joint.dim
        J_ = self.internal_inverse(q, task, inverse, threads=threads)
        F = self.decoupled_efforts(q, tau, x, threads=threads)
        return np.concatenate([F[..., :k], _times(np.swapaxes(J_, -1, -2), F[..., k:])], axis=-1)

    def efforts_from_external_internal(
        self, q: Array, F: Array, task: Any, x: Any = "centroidal", *, threads: int = 1
    ) -> Array:
        """tau, (..., nv), of (F_x, internal force), (..., k + r); the latter needs no wrench at the base."""
        k, F = self.tree.bodies[0].joint.dim, np.asarray(F)
        J = self.internal_jacobian(q, task, threads=threads)
        joints = _times(np.swapaxes(J, -1, -2), F[..., k:])
        external = np.broadcast_to(F[..., :k], (*joints.shape[:-1], k))
        return self.efforts_from_decoupled(q, np.concatenate([external, joints], axis=-1), x, threads=threads)

    # -- momentum, and floating bases ---------------------------------------------------------------------

    def momentum(
        self, q: Array, v: Array, frame: str = "world", *, out: Array = None, threads: int = 1
    ) -> Array:
        """(l, p), (..., 6), of all bodies about the origin of a frame, in its axes              [N m s, N s]

        frame  "world", or the name of a body or frame
        """
        return self._call("momentum", q, v, frame=frame, out=out, threads=threads)

    def centroidal_momentum(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """h_G = (l, p), (..., 6), about the centre of mass, in the world's axes              [N m s, N s]"""
        return self._call("centroidal_momentum", q, v, out=out, threads=threads)

    def centroidal_momentum_matrix(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """A(q), (..., 6, nv), with centroidal_momentum = A v; O(n). Orin, Goswami and Lee (2013)."""
        return self._call("centroidal_momentum_matrix", q, out=out, threads=threads)

    def centroidal_momentum_matrix_derivative(
        self, q: Array, v: Array, *, out: Array = None, threads: int = 1
    ) -> Array:
        """dA/dt along v, (..., 6, nv)."""
        return self._call("centroidal_momentum_matrix_derivative", q, v, out=out, threads=threads)

    def centroidal_momentum_bias(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """(dA/dt) v, (..., 6), without dA/dt                                                      [N m, N]"""
        return self._call("centroidal_momentum_bias", q, v, out=out, threads=threads)

    def centroidal_momentum_rate(
        self, q: Array, v: Array, a: Array, *, out: Array = None, threads: int = 1
    ) -> Array:
        """A a + (dA/dt) v, (..., 6): the resultant of all wrenches from outside, about the centre of mass."""
        return self._call("centroidal_momentum_rate", q, v, a, out=out, threads=threads)

    def centroidal_inertia(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """diag(I_c, m 1), (..., 6, 6), of all bodies about their centre of mass, in the world's axes."""
        return self._call("centroidal_inertia", q, out=out, threads=threads)

    def centroidal_velocity(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """(I_c^-1 l, p / m), (..., 6): the average velocity of all bodies, in the world's axes."""
        return self._call("centroidal_velocity", q, v, out=out, threads=threads)

    def base_momentum(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """h_b = Mbb nu_b + Mbq q', (..., k): the momentum about the floating base, in its algebra's dual.

        A floating base is a first joint of two degrees of freedom or more that carries all bodies; this and
        the calls below raise ModelError for other robots. See docs/floating-bases.md
        """
        return self._call("base_momentum", q, v, out=out, threads=threads)

    def locked_inertia(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """Mbb(q), (..., k, k): the inertia of all bodies about the base, the joints locked."""
        return self._call("locked_inertia", q, out=out, threads=threads)

    def locked_velocity(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """nu_b + Mbb^-1 Mbq q', (..., k): how the base would move if the joints locked at once."""
        return self._call("locked_velocity", q, v, out=out, threads=threads)

    def mechanical_connection(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """m(q) = Mbb^-1 Mbq, (..., k, n): without momentum, joint velocities q' move the base by -m q'."""
        return self._call("mechanical_connection", q, out=out, threads=threads)

    def connection_curvature(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """B(q), (..., k, n, n), of the mechanical connection.

        It is zero exactly if the locked frame is a function of q; otherwise closed paths of the joints turn
        the base. Feurstein (2021), eq. (3.72).
        """
        return self._call("connection_curvature", q, out=out, threads=threads)

    # -- derivatives --------------------------------------------------------------------------------------

    def inverse_dynamics_derivatives(
        self, q: Array, v: Array, a: Array, *, threads: int = 1
    ) -> tuple[Array, ...]:
        """d tau/dq, d tau/dv and d tau/da = M, each (..., nv, nv).

        The derivative by q is along the group: d/de tau(q exp(e u), v, a) = (d tau/dq) u.
        """
        return self._call("inverse_dynamics_derivatives", q, v, a, threads=threads)

    def forward_dynamics_derivatives(
        self, q: Array, v: Array, tau: Array, *, threads: int = 1
    ) -> tuple[Array, ...]:
        """da/dq, da/dv and da/dtau = M^-1, each (..., nv, nv); by q along the group.

        With the derivatives of tau(q, v, a) at the acceleration a, da/dq = -M^-1 d tau/dq, and so by v.
        """
        return self._call("forward_dynamics_derivatives", q, v, tau, threads=threads)

    # -- kinematics ---------------------------------------------------------------------------------------

    def poses(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """Poses of all bodies in the world, (..., n, 4, 4), in the order of `tree.bodies`."""
        return self._call("poses", q, out=out, threads=threads)

    def twists(self, q: Array, v: Array, *, out: Array = None, threads: int = 1) -> Array:
        """Twists (omega, v) of all bodies in their own axes, (..., n, 6)."""
        return self._call("twists", q, v, out=out, threads=threads)

    def pose(self, q: Array, frame: str, *, out: Array = None, threads: int = 1) -> Array:
        """Pose of a body or a named frame in the world, (..., 4, 4)."""
        return self._call("pose", q, frame=frame, out=out, threads=threads)

    def twist(
        self,
        q: Array,
        v: Array,
        frame: str,
        representation: str = "body",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """Twist (omega, v) of a body or frame, (..., 6); `representation` as in `jacobian`."""
        return self._call("twist", q, v, frame=frame, representation=representation, out=out, threads=threads)

    def jacobian(
        self, q: Array, frame: str, representation: str = "body", *, out: Array = None, threads: int = 1
    ) -> Array:
        """J(q), (..., 6, nv), with twist = J v, angular first.

        representation  "body": in the frame's axes, at its origin; "world": in the world's axes, at the
                        world's origin; "mixed": in the world's axes, at the frame's origin
        """
        return self._call("jacobian", q, frame=frame, representation=representation, out=out, threads=threads)

    def jacobian_rate(
        self,
        q: Array,
        v: Array,
        frame: str,
        representation: str = "body",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """dJ/dt along v, (..., 6, nv); arguments as for `jacobian`."""
        return self._call(
            "jacobian_rate", q, v, frame=frame, representation=representation, out=out, threads=threads
        )

    def acceleration(
        self,
        q: Array,
        v: Array,
        a: Array,
        frame: str,
        representation: str = "body",
        *,
        out: Array = None,
        threads: int = 1,
    ) -> Array:
        """Time derivative of `twist`, J a + (dJ/dt) v, (..., 6); `representation` as in `jacobian`."""
        return self._call(
            "acceleration", q, v, a, frame=frame, representation=representation, out=out, threads=threads
        )

    def center_of_mass(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """Centre of mass in the world, (..., 3)                                                      [m]"""
        return self._call("center_of_mass", q, out=out, threads=threads)

    def center_of_mass_jacobian(self, q: Array, *, out: Array = None, threads: int = 1) -> Array:
        """Velocity of the centre of mass = J v, (..., 3, nv)."""
        return self._call("center_of_mass_jacobian", q, out=out, threads=threads)

    @property
    def mass(self) -> float:
        """Total mass of the moving bodies                                                            [kg]"""
        return float(sum(body.inertia.mass for body in self.tree.bodies))

    # -- kernels ------------------------------------------------------------------------------------------

    def kernel(self, name: str, dtype: Any = np.float64, **options: Any) -> Kernel:
        """The compiled kernel behind the call `name`; `options` are those of the call, as frame="tool"."""
        key = (name, np.dtype(dtype), *sorted(options.items()))
        if key not in self._kernels:
            arguments, make = self._algorithm(name)
            if set(options) != set(_OPTIONS.get(name, ())):
                raise ModelError(
                    f"{name} takes the options {list(_OPTIONS.get(name, ()))}, got {list(options)}"
                )
            shapes = {argument: self._shape(argument) for argument in arguments}
            function: Callable[[], Function | Program] = functools.partial(
                make, self, shapes, name, **options
            )
            guard = (
                Guard(tuple(arguments), self._quaternions(arguments))
                if name != "normalize"
                else Guard(arguments)
            )
            recipe = self.recipe(name, options)
            doc = inspect.getdoc(getattr(type(self), _VARIANTS.get(name, name), None)) or ""
            self._kernels[key] = Kernel(function, dtype=dtype, guard=guard, recipe=recipe, doc=doc)
        return self._kernels[key]

    def export_c(self, folder: str | Path, functions: Sequence[str]) -> list[Path]:
        """Write C99 source of `functions` (names of calls) to `folder`: source, header and self-test.

        The test compares the functions with numbers of this library at random states; it needs nothing but
        `cc -std=c99 source test -lm`. Returns the paths.
        """
        kernels = {name: self.kernel(name) for name in functions}
        return write_c(Path(folder), self.name, kernels, lambda argument, rng: self._sample(argument, rng))

    def _call(self, name: str, *arrays: Array, out: Array = None, threads: int = 1, **options: Any) -> Array:
        kernel = self.kernel(name, **options)
        if not options and name in _DIRECT and name not in self.__dict__ and kernel.is_single(arrays):
            # from now on the generated library's own entry replaces this method, and calls it where it cannot
            self.__dict__[name] = kernel.entry(functools.partial(getattr(type(self), name), self))
        return kernel.general(*arrays, out=out, threads=threads)

    def _algorithm(self, name: str) -> tuple[tuple[str, ...], Callable[..., Function | Program]]:
        if name not in _ALGORITHMS:
            raise ModelError(f"there is no function {name!r}; known are {', '.join(_ALGORITHMS)}")
        return _ALGORITHMS[name]

    def _shape(self, argument: str) -> tuple[int, ...]:
        n = len(self.tree.bodies)
        sizes = {"q": (self.nq,), "q0": (self.nq,), "q1": (self.nq,), "s": (), "wrenches": (n, 6)}
        return sizes.get(argument, (self.nv,))

    def _quaternions(self, arguments: Sequence[str]) -> tuple[tuple[str, int], ...]:
        starts = quaternions(self.group)
        return tuple((argument, start) for argument in arguments if argument[0] == "q" for start in starts)

    def _sample(self, argument: str, rng: np.random.Generator) -> Array:
        shape = self._shape(argument)
        return self.group.random(rng) if argument[0] == "q" else rng.standard_normal(shape)

    def recipe(self, name: str, options: Mapping[str, Any]) -> str | None:
        """A text that determines the traced function `name`; None if users' code or symbols are in it."""
        identity = fingerprint(self.tree)
        if identity is None or any(map(_holds_code, options.values())):
            return None
        return "|".join(
            [
                identity,
                self.gravity_vector.tobytes().hex(),
                name,
                repr(sorted(options.items())),
                library_digest(),
            ]
        )


def quaternions(group: LieGroup, start: int = 0) -> list[int]:
    """Where in the coordinates of a group its unit quaternions begin."""
    if isinstance(group, Product) and group != SO3xR3:
        found = []
        for factor in group.factors:
            found += quaternions(factor, start)
            start += factor.nq
        return found
    return [start] if isinstance(group, (type(SO3), type(SE3))) or group == SO3xR3 else []


def fingerprint(tree: Tree) -> str | None:
    """A digest of all that the equations of motion depend on; None if symbols or users' groups are in it."""
    parts = []
    for body in tree.bodies:
        group, inertia = body.joint.group, body.inertia
        numbers = [
            body.placement,
            group.S,
            inertia.mass,
            inertia.com,
            inertia.rotational,
            body.ratio,
            body.offset,
        ]
        numbers += [body.joint.armature, body.joint.damping]
        if not is_numeric(*numbers) or not type(group).__module__.startswith("liebody."):
            return None
        parts += [type(group).__name__, str((body.name, body.parent, body.coordinates, body.dofs))]
        parts += [np.asarray(x, float).tobytes().hex() for x in numbers]
    for frame in tree.frames.values():
        parts += [frame.name, str(frame.body), np.asarray(frame.placement, float).tobytes().hex()]
    return digest(*parts)


@functools.cache
def library_digest() -> str:
    """A digest of the source of this library: kernels of another version are not taken for this one's."""
    root = resources.files("liebody")
    texts = []
    pending = [root]
    while pending:
        for item in sorted(pending.pop().iterdir(), key=lambda x: x.name):
            if item.is_dir() and item.name != "__pycache__":
                pending.append(item)
            elif item.name.endswith((".py", ".h")):
                texts.append(item.read_text(encoding="utf-8"))
    return digest(*texts)


def _option(value: Any) -> Any:
    """A matrix among the options, as tuples, which a dictionary can look up."""
    return _tuples(np.asarray(value, float).tolist()) if isinstance(value, (list, np.ndarray)) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _holds_code(option: Any) -> bool:
    """Whether functions of users take part in an option."""
    return callable(option) or (isinstance(option, tuple) and any(map(_holds_code, option)))


def _times(A: Array, x: Array) -> Array:
    """A (..., r, n) times x (..., n)."""
    return (A @ x[..., None])[..., 0]


# -- the table of algorithms: name -> (arguments, how to trace) --------------------------------------------

Make = Callable[..., Function | Program]


def _of_tree(algorithm: Callable[..., Any], gravity: bool = False) -> Make:
    def make(robot: Robot, shapes: Mapping[str, Any], name: str, **options: Any) -> Function | Program:
        given = dict(options, gravity=tuple(robot.gravity_vector)) if gravity else options

        def of_tree(*arrays: Array) -> Any:
            return algorithm(robot.tree, **dict(zip(shapes, arrays, strict=True)), **given)

        return traced(of_tree, shapes, name)

    return make


def _of_group(operation: str) -> Make:
    def make(robot: Robot, shapes: Mapping[str, Any], name: str) -> Function | Program:
        return traced(getattr(robot.group, operation), shapes, name)

    return make


def _derivatives(of: Callable[..., Function | Program]) -> Make:
    def make(robot: Robot, shapes: Mapping[str, Any], name: str) -> Function | Program:
        return of(robot.tree, name, tuple(robot.gravity_vector))

    return make


_INVERSE = _of_tree(dynamics.inverse_dynamics, gravity=True)
_FORWARD = _of_tree(dynamics.forward_dynamics, gravity=True)
_ALGORITHMS: dict[str, tuple[tuple[str, ...], Make]] = {
    "inverse_dynamics": (("q", "v", "a"), _INVERSE),
    "inverse_dynamics_wrenches": (("q", "v", "a", "wrenches"), _INVERSE),
    "forward_dynamics": (("q", "v", "tau"), _FORWARD),
    "forward_dynamics_wrenches": (("q", "v", "tau", "wrenches"), _FORWARD),
    "mass_matrix": (("q",), _of_tree(dynamics.mass_matrix)),
    "bias": (("q", "v"), _of_tree(dynamics.bias_forces, gravity=True)),
    "gravity": (("q",), _of_tree(dynamics.gravity_forces, gravity=True)),
    "kinetic_energy": (("q", "v"), _of_tree(dynamics.kinetic_energy)),
    "potential_energy": (("q",), _of_tree(dynamics.potential_energy, gravity=True)),
    "inverse_dynamics_derivatives": (("q", "v", "a"), _derivatives(inverse_dynamics_derivatives)),
    "forward_dynamics_derivatives": (("q", "v", "tau"), _derivatives(forward_dynamics_derivatives)),
    "coriolis_matrix": (("q", "v"), _of_tree(dynamics.coriolis_matrix)),
    "coriolis_matrix_of_form": (("q", "v"), _of_tree(dynamics.coriolis_matrix)),
    "mass_matrix_derivative": (("q", "v"), _of_tree(dynamics.mass_matrix_derivative)),
    "mass_and_coriolis": (("q", "v"), _of_tree(dynamics.mass_and_coriolis)),
    "christoffel_symbols": (("q",), _of_tree(dynamics.christoffel_symbols)),
    "passive_inverse_dynamics": (
        ("q", "v", "v_r", "a_r"),
        _of_tree(dynamics.passive_inverse_dynamics, gravity=True),
    ),
    "coriolis_transpose_times": (("q", "v"), _of_tree(dynamics.coriolis_transpose_times)),
    "coriolis_transpose_times_vector": (("q", "v", "w"), _of_tree(dynamics.coriolis_transpose_times)),
    "inverse_dynamics_regressor": (
        ("q", "v", "a"),
        _of_tree(dynamics.inverse_dynamics_regressor, gravity=True),
    ),
    "passive_regressor": (("q", "v", "v_r", "a_r"), _of_tree(dynamics.passive_regressor, gravity=True)),
    "momentum": (("q", "v"), _of_tree(dynamics.total_momentum)),
    "centroidal_momentum": (("q", "v"), _of_tree(dynamics.centroidal_momentum)),
    "centroidal_momentum_matrix": (("q",), _of_tree(dynamics.centroidal_momentum_matrix)),
    "centroidal_momentum_matrix_derivative": (
        ("q", "v"),
        _of_tree(dynamics.centroidal_momentum_matrix_derivative),
    ),
    "centroidal_momentum_bias": (("q", "v"), _of_tree(dynamics.centroidal_momentum_bias)),
    "centroidal_momentum_rate": (("q", "v", "a"), _of_tree(dynamics.centroidal_momentum_rate)),
    "centroidal_inertia": (("q",), _of_tree(dynamics.centroidal_inertia)),
    "centroidal_velocity": (("q", "v"), _of_tree(dynamics.centroidal_velocity)),
    "base_momentum": (("q", "v"), _of_tree(dynamics.base_momentum)),
    "locked_inertia": (("q",), _of_tree(dynamics.locked_inertia)),
    "locked_velocity": (("q", "v"), _of_tree(dynamics.locked_velocity)),
    "mechanical_connection": (("q",), _of_tree(dynamics.mechanical_connection)),
    "connection_curvature": (("q",), _of_tree(dynamics.connection_curvature)),
    "decoupling_transform": (("q",), _of_tree(dynamics.decoupling_transform)),
    "decoupling_transform_inverse": (("q",), _of_tree(dynamics.decoupling_transform_inverse)),
    "decoupling_transform_rate": (("q", "v"), _of_tree(dynamics.decoupling_transform_rate)),
    "decoupled_velocity": (("q", "v"), _of_tree(dynamics.decoupled_velocity)),
    "velocity_from_decoupled": (("q", "w"), _of_tree(dynamics.velocity_from_decoupled)),
    "decoupled_efforts": (("q", "tau"), _of_tree(dynamics.decoupled_efforts)),
    "efforts_from_decoupled": (("q", "F"), _of_tree(dynamics.efforts_from_decoupled)),
    "transformed_dynamics": (("q", "v"), _of_tree(dynamics.transformed_dynamics, gravity=True)),
    "decoupled_dynamics": (("q", "v"), _of_tree(dynamics.decoupled_dynamics, gravity=True)),
    "internal_inertia": (("q",), _of_tree(dynamics.internal_inertia)),
    "internal_jacobian": (("q",), _of_tree(dynamics.internal_jacobian)),
    "internal_jacobian_rate": (("q", "v"), _of_tree(dynamics.internal_jacobian_rate)),
    "external_jacobian": (("q",), _of_tree(dynamics.external_jacobian)),
    "external_internal_velocity": (("q", "v"), _of_tree(dynamics.external_internal_velocity)),
    "poses": (("q",), _of_tree(dynamics.body_poses)),
    "twists": (("q", "v"), _of_tree(dynamics.body_twists)),
    "pose": (("q",), _of_tree(dynamics.frame_pose)),
    "twist": (("q", "v"), _of_tree(dynamics.frame_twist)),
    "jacobian": (("q",), _of_tree(dynamics.frame_jacobian)),
    "jacobian_rate": (("q", "v"), _of_tree(dynamics.frame_jacobian_rate)),
    "acceleration": (("q", "v", "a"), _of_tree(dynamics.frame_acceleration)),
    "center_of_mass": (("q",), _of_tree(dynamics.center_of_mass)),
    "center_of_mass_jacobian": (("q",), _of_tree(dynamics.center_of_mass_jacobian)),
    "normalize": (("q",), _of_group("normalize")),
    "integrate": (("q", "v"), _of_group("integrate")),
    "difference": (("q0", "q1"), _of_group("difference")),
    "interpolate": (("q0", "q1", "s"), _of_group("interpolate")),
}
_OPTIONS: dict[str, tuple[str, ...]] = {
    "coriolis_matrix_of_form": ("form",),
    "momentum": ("frame",),
    "decoupling_transform": ("x", "y"),
    "decoupling_transform_inverse": ("x", "y"),
    "decoupling_transform_rate": ("x", "y"),
    "decoupled_velocity": ("x", "y"),
    "velocity_from_decoupled": ("x", "y"),
    "decoupled_efforts": ("x", "y"),
    "efforts_from_decoupled": ("x", "y"),
    "transformed_dynamics": ("x", "y", "form"),
    "decoupled_dynamics": ("x", "y", "form"),
    "internal_jacobian": ("task",),
    "internal_jacobian_rate": ("task",),
    "external_jacobian": ("task", "x"),
    "external_internal_velocity": ("task", "x"),
    "pose": ("frame",),
    "twist": ("frame", "representation"),
    "jacobian": ("frame", "representation"),
    "jacobian_rate": ("frame", "representation"),
    "acceleration": ("frame", "representation"),
}
_VARIANTS = {  # of a call, with other arguments
    "inverse_dynamics_wrenches": "inverse_dynamics",
    "forward_dynamics_wrenches": "forward_dynamics",
    "coriolis_matrix_of_form": "coriolis_matrix",
    "coriolis_transpose_times_vector": "coriolis_transpose_times",
}
_DIRECT = frozenset(_ALGORITHMS) - frozenset(_OPTIONS) - frozenset(_VARIANTS)
