"""The contract between mechanisms and integrators, and its first implementation: the joints of a tree.

    dq/dt = v (left-trivialised),    M(q) dv/dt + b(q, v) + J(q)^T lambda = Q(t, q, v, u),    g(q) = 0

Explicit methods take the velocity of the state y = (q, v) and moves on its group (`Mechanism.parts`), methods
for mechanical systems the functions M, b, Q, g, J (`Mechanism.mechanics`). Forces are in both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from ..base.arguments import floats, vectors
from ..base.concurrency import Sendable, cached_property
from ..base.errors import IntegrationError, ModelError, ShapeError
from ..bodies import Parameter, Tree
from ..bodies.labels import Labels, labels
from ..bodies.tree import OfTree
from ..compiler import Function, Graph, Guard, Kernel, Program, traced
from ..compiler.programs.layout import FlatLayout
from ..dynamics import (
    FREE_FALL,
    bias_forces,
    forward_dynamics,
    gravity_forces,
    inverse_dynamics,
    kinetic_energy,
    mass_matrix,
    potential_energy,
)
from ..groups import Product, R, along_group
from ..scalars import Array, maximum, minimum
from ..scalars.linear import product, solve
from ..stepping.records import Part, Watch
from .forces import Force, JointForce, JointLimits, Limits, forces_of
from .prescribed import Motion, OfTime, PrescribedMotion

Feedback = Callable[..., Array]
Functions = dict[str, tuple[Callable[..., Any], Mapping[str, Any]]]
MOST_PRESCRIBED = 8  # motions of prescribed joints whose compiled loops are kept with a mechanism
LONG_POINT = 500  # operations from which on y exp(psi) of a long tree is a loop


class Parts(NamedTuple):
    """field, advance, pull, after and watch of a `stepping.Flow` over y = (q, v), as calls that make them."""

    field: Part
    advance: Part
    pull: Part
    after: Part | None = None
    watch: Watch | None = None


class Mechanism(Sendable):
    """A mechanism with coordinates q (nq,) on `group`, velocities v (nv,) in its algebra, efforts u (nu,).

    name    for messages and records
    labels  names and units of q and of v
    drives  names and units of u; None if there is one effort for each velocity
    layout  its free parameters, if it has some; flows take them behind the efforts, (u, p)
    values  default values of the parameters
    parameters  {name: Parameter} of what may be free, with units; empty if nothing may be

    Subclasses say how the equations of motion are computed: `parts` for explicit methods, `mechanics` for
    implicit ones, `functions` for kernels.
    """

    name: str
    nc = 0  # number of constraint equations
    redundant = False  # whether they depend on each other
    drives: Labels | None = None
    layout = FlatLayout("parameter", {})
    values: Array = np.zeros(0)

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The possible parameters, by name."""
        return {}

    @property
    def loops(self) -> bool | None:
        """Whether steps of its functions become loops, as `traced` has it."""
        return None

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return self.group.nq

    @property
    def nv(self) -> int:
        """Number of velocities."""
        raise NotImplementedError

    @property
    def nu(self) -> int:
        """Number of efforts."""
        return self.nv

    @property
    def group(self) -> Product:
        """The configuration group."""
        raise NotImplementedError

    @property
    def labels(self) -> tuple[Labels, Labels]:
        """Names and units of the entries of q and of v."""
        raise NotImplementedError

    @property
    def joints(self) -> Collection[str]:
        """The names of the joints, in which a `JointForce` may act."""
        raise NotImplementedError

    # -- equations of motion --------------------------------------------------------------------------------

    def parts(
        self, stabilized: Any = None, *, feedback: Feedback | None = None, watched: bool = False
    ) -> Parts:
        """The parts of a compiled loop of an explicit method.

        stabilized  stabilisation of the constraints, as `stabilization` gives it
        feedback    (t, q, v) -> u (nu,), which takes the place of the efforts; (t, q, v, p) where there are
                    parameters
        watched     whether they are made for `Flow` to watch the pivots of the constraints
        """
        raise NotImplementedError

    def moves(self, more: int = 0) -> tuple[Part, Part]:
        """advance and pull of these parts: y exp(psi), normalised, and dexp^-1_(-psi) f, on G x R^nv.

        more  how many numbers stand in y after v
        """
        # states lie on G x R^(nv + more): velocities and meters simply add
        state = Product(self.group, R(self.nv + more))
        algebra = self.group.dim + self.nv + more

        def advance(y: Array, psi: Array) -> Array:
            # round-off would let quaternions drift away from unit length
            return state.normalize(state.integrate(y, psi))

        def pull(psi: Array, f: Array) -> Array:
            # at -psi, because velocities are left-trivialised
            return state.dexp_inverse_times(-psi, f)

        point = {"y": self.nq + self.nv + more, "psi": algebra}
        rates = {"psi": algebra, "f": algebra}
        return (
            partial(traced, advance, point, least=LONG_POINT),
            partial(traced, pull, rates, least=LONG_POINT),
        )

    def mechanics(self) -> dict[str, Any]:
        """group, M, b, Q(t, q, v, u), g, J, drift, redundant, efforts, at, for `liebody.integrators`:

        flow = integrators.GeneralizedAlpha(rho_inf=0.9).flow(**mechanism.mechanics())
        """
        raise NotImplementedError

    def at(self, p: Array) -> Self:
        """This mechanism with these values of its parameters (np,), numbers or symbols."""
        if not self.layout.size:
            return self
        here = self._at(p)
        vars(here)["nominal"] = self, p  # for derivatives, which trace from the nominal mechanism
        return here

    def _at(self, p: Array) -> Self:
        """A copy with these values of its parameters."""
        raise NotImplementedError

    def given(self, u: Array) -> tuple[Self, Array, Array]:
        """The mechanism at the parameters behind efforts u, the efforts alone, and the parameters."""
        # parameters stand behind the efforts in one argument u, so that flows have the same signature without
        # any
        k = len(u) - self.layout.size
        return self.at(u[k:]), u[:k], u[k:]

    def laws(self) -> dict[str, Any]:
        """M, b and Q of `mechanics`, as functions: the laws that may depend on parameters."""
        raise NotImplementedError

    def parametric_laws(self) -> dict[str, Any]:
        """`laws`, the length of u, and `at` for mechanisms with free parameters."""
        at = {"at": lambda u: self.given(u)[0].laws()} if self.layout.size else {}
        return {"efforts": self.nu + self.layout.size, **self.laws(), **at}

    def acting(self, u: Array) -> Array:
        """The efforts that act if u (..., nu) are asked for, as drives have limits."""
        return u

    def applied(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        """Q(t, q, v, u): efforts, forces and weight, (nv,)."""
        raise NotImplementedError

    def potential(self, q: Array) -> Any:
        """Potential energy at one configuration, ()."""
        raise NotImplementedError

    def power(self, t: Any, q: Array, v: Array, u: Array) -> Any:
        """Power of efforts and forces plus the rate of the potential energy, (): the rate of the energy.

        dE/dt = Q . v + dV/dq v, where constraints do no work.                                           [W]
        """
        # at other parameters (`at`) the potential is traced from the nominal mechanism, with p as inputs
        nominal, *p = vars(self).get("nominal", (self,))

        def potential(q: Array, *p: Array) -> Any:
            return (nominal.at(*p) if p else self).potential(q)

        shapes = {"q": self.nq, **({"parameters": nominal.layout.size} if p else {})}
        stored = along_group(potential, shapes, {"q": self.group}, name="potential").jvp()
        slides = np.zeros(self.group.dim - self.nv, int)  # coordinates without a velocity, as of curves
        return self.applied(t, q, v, u) @ v + stored(q, *p, np.concatenate([v, slides]))

    @property
    def works(self) -> bool:
        """Whether anything but efforts may do work."""
        return True

    def functions(self) -> Functions:
        """{name of a kernel: (function on floats or symbols, shapes of its arguments)}."""
        raise NotImplementedError

    def function(self, name: str) -> Function | Program:
        """The traced one of `functions`; free parameters (np,) come last."""
        function, shapes = self.functions()[name]
        if not self.layout.size:
            return traced(function, shapes, name, loops=self.loops)

        def at_parameters(*arguments: Array) -> Any:
            return self.at(arguments[-1]).functions()[name][0](*arguments[:-1])

        return traced(at_parameters, {**shapes, "parameters": self.layout.size}, name, loops=self.loops)

    def kinetic_energy(self, q: Array, v: Array) -> Array:
        """v^T M(q) v / 2, (...)                                                                        [J]"""
        raise NotImplementedError

    def potential_energy(self, q: Array) -> Array:
        """Potential energy of weight and of forces, (...)                                              [J]"""
        raise NotImplementedError

    def recipe(self) -> str | None:
        """A text that determines the parts of explicit methods; None where only tracing does."""
        return None

    # -- joints ---------------------------------------------------------------------------------------------

    @cached_property
    def idle_limits(self) -> Limits | None:
        """The limits of joints, where they do not act; None where there are none."""
        return None

    def limited(self, q: Array, p: Array = None) -> Array:
        """The coordinates (..., n) that have these limits, at q (..., nq) and parameters p (..., np)."""
        raise NotImplementedError

    # -- forces ---------------------------------------------------------------------------------------------

    def with_forces(self, *forces: Force | str) -> Self:
        """This mechanism with further forces; made once for the same ones.

        forces  objects, or names of forces that need no arguments (`force_named`)

        Raises ModelError for objects that are no `Force`, and for unknown joints.
        """
        acting = forces_of(forces)
        for force in acting:
            check_force(force, self.joints)
        key = ("forces", *acting)
        if acting and key not in self.flows:
            mechanism = self._anew()
            mechanism.take(acting)
            self.flows[key] = mechanism
        return self.flows[key] if acting else self

    def _anew(self) -> Self:
        """A copy that shares the numbers, not the functions that were compiled for this mechanism."""
        mechanism = copy.copy(self)
        for compiled in ("flows", "_kernels", "works", "idle_limits"):
            vars(mechanism).pop(compiled, None)
        return mechanism

    def take(self, forces: tuple[Force, ...]) -> None:
        """Add forces, to a copy of a mechanism that is not in use yet."""
        raise NotImplementedError

    def with_prescribed(self, drives: Mapping[str, OfTime]) -> Self:
        """This mechanism, in which joints follow functions of time: {joint: f(t)}.

        f is made of NumPy operators and `liebody.scalars`, and is differentiated twice. Of joints with k
        coordinates it returns (k,). With free parameters it may be f(t, p).

        Raises ModelError for unknown joints, for joints that are prescribed already, and for other functions.
        """
        raise ModelError(
            f"{self.name} has no joints that can be prescribed; a Robot, a ClosedTree and a System have some"
        )

    def check_prescribed(self, t_end: float, p: Array = None) -> None:
        """Raise ModelError where prescribed joints would jump in 0 to t_end, at parameters p (..., np)."""

    def completed(self, t: Array, q: Array, v: Array, u: Array, p: Array = None) -> Array:
        """Efforts u (n, nu) at states of a motion, completed by the efforts of prescribed joints."""
        return u

    # -- states ---------------------------------------------------------------------------------------------

    @property
    def is_bound(self) -> bool:
        """Whether its states are not free: there are constraints, or joints that follow functions of time."""
        return self.nc > 0

    def start(self, p: Array = None, t: float = 0.0) -> np.ndarray:
        """The configuration in which motions start by default at time t, (nq,); of parameters p (..., np)."""
        return self.group.neutral()

    def rest(self, p: Array = None, t: float = 0.0) -> Array:
        """The velocities (..., nv) that complete named ones at time t, at parameters p (..., np)."""
        return np.zeros(self.nv)

    def start_velocities(self, q: Array, p: Array = None, t: float = 0.0) -> Array:
        """The velocities (n, nv) with which simulations start by default at q (n, nq), parameters p (n, np).

        Rest, where constraints do not prescribe others.
        """
        return np.zeros((len(q), self.nv))

    def check_state(self, q: Array, v: Array, t: float = 0.0, p: Array = None) -> None:
        """Raise ConfigurationError for states (..., nq), (..., nv) that it cannot be in, at parameters p."""

    def configurations(self, q: Array) -> np.ndarray:
        """q as floats (..., nq), checked."""
        return vectors("q", q, self.nq, finite=False)

    def stabilization(self, given: Any, dt: float | None) -> Any:
        """The stabilisation of constraints, by name; without constraints there is none."""
        if given is not None:
            raise IntegrationError(
                f"stabilization is {given!r}, and {self.name} has no constraints to stabilise; leave it out"
            )
        return None

    def diagnosis(self, q: Array, v: Array, ahead: float = 0.0, t: float = 0.0) -> str:
        """The cause of a failure within a time ahead of (q, v), in words; empty if none is known."""
        return ""

    # -- compiled functions ---------------------------------------------------------------------------------

    def kernel(self, name: str) -> Kernel:
        """The compiled kernel of a `function`."""
        if name not in self._kernels:
            function = self.function(name)
            self._kernels[name] = Kernel(function, guard=Guard(tuple(function.inputs)))
        return self._kernels[name]

    def evaluated(self, name: str, *state: Array, p: Array = None) -> Any:
        """A `function` of states (..., n), at parameters p (..., np); None: its own."""
        more = [self.values if p is None else p] if self.layout.size else []
        return self.kernel(name)(*state, *more)

    @cached_property
    def _kernels(self) -> dict[str, Kernel]:
        return {}

    def sharing(self, other: Self | None) -> Self:
        """This mechanism with the compiled functions of another one that differs in its numbers alone."""
        if other is not None:
            vars(self)["_kernels"] = other._kernels
        return self

    @cached_property
    def flows(self) -> dict[Any, Any]:
        """Compiled loops of simulations, and mechanisms with more forces, by the arguments that make them."""
        return {}


def check_force(force: Any, joints: Collection[str]) -> None:
    """Raise ModelError for an object that is no `Force`, or that names joints other than these."""
    if not isinstance(force, Force):
        raise ModelError(f"{force!r} is no force, such as JointFriction(), or an object of your own Force")
    # a force is part of the key under which compiled flows are found
    try:
        hash(force)
    except TypeError:
        raise ModelError(
            f"{force!r} has no hash, by which what is compiled is found; make it a frozen dataclass, of "
            "numbers and tuples"
        ) from None
    force.check(joints)


class OpenTree(OfTree, Mechanism):
    """The joint coordinates of a tree: M(q) dv/dt + C(q, v) v + g(q) = u + forces, with efforts u (nv,).

    tree     bodies on joints
    gravity  acceleration of free fall, (3,)                                                          [m/s2]
    forces   `Force`s that act beside the efforts
    clipped  whether efforts u are kept within the joints' effort limits
    robot    a Robot of this tree, whose free parameters are the mechanism's

    Joints that are `prescribed` follow functions of time; their entries of u are not read.
    """

    prescribed: PrescribedMotion | None = None

    def __init__(
        self,
        tree: Tree,
        gravity: Array = FREE_FALL,
        forces: tuple[Force, ...] = (),
        clipped: bool = False,
        robot: Any = None,
    ) -> None:
        self.tree = tree
        self.name = tree.name
        self.forces = tuple(forces)
        self.clipped = clipped
        self.gravity = floats("gravity", gravity, finite=False)
        if self.gravity.shape != (3,) or not np.isfinite(self.gravity).all():
            raise ShapeError(f"gravity is {gravity!r}, expected three finite numbers, such as (0, 0, -9.81)")
        if robot is not None:
            self.layout = robot.layout
            self.values = robot.values
            self._source = robot
        for force in self.forces:
            check_force(force, self.joints)

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """Those of the robot, if it has free ones."""
        return self._source.parameters if self.layout.size else {}

    @cached_property
    def labels(self) -> tuple[Labels, Labels]:
        return labels(self.tree)

    @property
    def joints(self) -> Collection[str]:
        return [body.joint.name for body in self.tree.bodies]

    def take(self, forces: tuple[Force, ...]) -> None:
        self.forces += forces

    # -- joints that follow functions of time -------------------------------------------------------------

    def with_prescribed(self, drives: Mapping[str, OfTime]) -> Self:
        if self.prescribed is not None:
            already = ", ".join(dict.fromkeys(self.prescribed.names))
            raise ModelError(f"{already} of {self.name}: prescribed already; give all functions at once")
        size = self.layout.size
        prescribed = PrescribedMotion.of(self.tree, drives, self.layout.read if size else None, size)
        # kept, so that functions that compute the same are compiled once
        key = ("prescribed", prescribed.form)
        if key not in self.flows:
            mechanism = self._anew()
            mechanism.prescribed = prescribed
            kept = [k for k in self.flows if k[0] == "prescribed"]
            for old in kept[: 1 - MOST_PRESCRIBED]:
                del self.flows[old]
            self.flows[key] = mechanism
        return self.flows[key]

    def motion_at(self, t: Any) -> Motion:
        """The motion of the prescribed joints at a time, at the parameters of this mechanism."""
        assert self.prescribed is not None
        _, p = vars(self).get("nominal", (self, self.values))
        return self.prescribed.at(t, p)

    def led(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        """The state in which prescribed joints are where their functions of time say."""
        if self.prescribed is None:
            return q, v
        x, rate, _ = self.motion_at(t)
        return _replaced(q, self.prescribed.places, x), _replaced(v, self.prescribed.dofs, rate)

    def hybrid_dynamics(self, t: Any, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """dv/dt (nv,), and efforts (nv,): u, and of prescribed joints the efforts that move them.

        With f the free and p the prescribed velocities, h = C v + g and forces F,

            M_ff a_f = u_f + F_f - h_f - M_fp a_p,    u_p = M_pf a_f + M_pp a_p + h_p - F_p

        Featherstone (2008), section 9.2.
        """
        if self.prescribed is None:
            return forward_dynamics(self.tree, q, v, self.efforts(t, q, v, u), tuple(self.gravity)), u
        at = self.prescribed.dofs
        free = np.setdiff1d(np.arange(self.nv), at)
        u = _replaced(u, at, np.zeros(len(at), int))
        a = _replaced(np.zeros(self.nv, int), at, self.motion_at(t).acceleration)
        # the efforts that all joints would need if the free ones did not accelerate
        needed = inverse_dynamics(self.tree, q, v, a, tuple(self.gravity)) - self.efforts(t, q, v, u)
        if len(free):
            M = mass_matrix(self.tree, q)
            free_accelerations = solve(M[np.ix_(free, free)], -needed[free])
            a = _replaced(a, free, free_accelerations)
            needed = needed + product(M[:, free], free_accelerations)
        return a, _replaced(u, at, needed[at])

    def check_prescribed(self, t_end: float, p: Array = None) -> None:
        if self.prescribed is None:
            return
        for row in (
            [None]
            if p is None or not self.layout.size
            else np.unique(p.reshape(-1, self.layout.size), axis=0)
        ):
            self.prescribed.check_smooth(
                lambda t, row=row: Motion(*self.evaluated("prescribed", t, p=row)),  # type: ignore[misc]
                t_end,
            )

    def completed(self, t: Array, q: Array, v: Array, u: Array, p: Array = None) -> Array:
        return u if self.prescribed is None else self.evaluated("completed", t, q, v, u, p=p)

    @property
    def is_bound(self) -> bool:
        return self.prescribed is not None or super().is_bound

    def start(self, p: Array = None, t: float = 0.0) -> np.ndarray:
        q = super().start(p, t)
        if self.prescribed is None:
            return q
        return _replaced(q, self.prescribed.places, self._motion_of(p, t).x)

    def rest(self, p: Array = None, t: float = 0.0) -> Array:
        v = super().rest(p, t)
        if self.prescribed is None:
            return v
        return _replaced(v, self.prescribed.dofs, self._motion_of(p, t).rate)

    def start_velocities(self, q: Array, p: Array = None, t: float = 0.0) -> Array:
        return np.broadcast_to(self.rest(p, t), (len(q), self.nv))

    def check_state(self, q: Array, v: Array, t: float = 0.0, p: Array = None) -> None:
        super().check_state(q, v, t, p)
        if self.prescribed is not None:
            start = self._motion_of(p, t)
            n = q.size // self.nq
            rows = (np.broadcast_to(x, (*q.shape[:-1], x.shape[-1])).reshape(n, -1) for x in start)
            self.prescribed.check_start(q.reshape(n, -1), v.reshape(n, -1), Motion(*rows), t)

    def _motion_of(self, p: Array, t: float) -> Motion:
        """The motion of the prescribed joints at a time, (..., k), at parameters p (..., np)."""
        return Motion(*self.evaluated("prescribed", t, p=p))

    @cached_property
    def idle_limits(self) -> Limits | None:
        names, _, numbers = self.tree.limits
        # limits that act as forces are not idle; joints with neither bound have none to pass
        acting = any(isinstance(force, JointLimits) for force in self.forces)
        return None if acting or not names else Limits(names, *numbers[2:])

    def limited(self, q: Array, p: Array = None) -> Array:
        coordinates = q[..., self._columns]
        _, _, (ratio, offset, *_) = self.tree.limits
        return ratio * coordinates + offset if self._followers else coordinates

    @cached_property
    def _columns(self) -> Any:
        """Where the coordinates with limits stand, as a slice where they are neighbours."""
        _, columns, _ = self.tree.limits
        # neighbouring columns become a slice, which copies nothing
        first = columns[0]
        end = columns[-1] + 1
        return slice(first, end) if np.array_equal(columns, np.arange(first, end)) else columns

    @cached_property
    def _followers(self) -> bool:
        """Whether some of the limits belong to joints that follow others."""
        _, _, (ratio, offset, *_) = self.tree.limits
        return bool((ratio != 1).any() or offset.any())

    # -- equations, on floats or symbols ------------------------------------------------------------------

    def velocity(self, q: Array, v: Array) -> Array:
        """The velocity (nv,) at a state (q, v): v itself, where no subclass has another state."""
        return v

    def acting(self, u: Array) -> Array:
        """Efforts u (..., nv), clipped to the effort limits if the mechanism is `clipped`."""
        if not self.clipped:
            return u
        # infinite limits cost no operation: only joints with a finite one are clipped
        limits = np.full(self.nv, np.inf)
        for body in self.tree.bodies:
            if body.joint.mimic is None:  # joints that follow have no effort of their own
                limits[body.dofs] = body.joint.effort_limit
        if self.prescribed is not None:
            limits[self.prescribed.dofs] = np.inf  # they get the effort that their motion needs
        return np.stack(
            [u[..., i] if np.isinf(x) else minimum(maximum(u[..., i], -x), x) for i, x in enumerate(limits)],
            axis=-1,
        )

    def _at(self, p: Array) -> Self:
        here = copy.copy(self)
        here.tree, here.gravity = self._source.at(p)
        return here

    def efforts(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        """Efforts u with all forces but weight, (nv,)."""
        return self._with_forces(t, q, v, self.acting(u))

    def _with_forces(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        for force in self.forces:
            u = u + force.on_tree(self.tree, t, q, v)
        return u

    def applied(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        # weight belongs to Q here, because b of `laws` is taken without gravity
        weight = gravity_forces(self.tree, q, tuple(self.gravity))
        return self._with_forces(t, q, v, self.acting(u) - weight)

    def acceleration(self, t: Any, q: Array, v: Array, u: Array, wrenches: Array | None = None) -> Array:
        """dv/dt (nv,), with further wrenches on the bodies as in `forward_dynamics`."""
        return forward_dynamics(self.tree, q, v, self.efforts(t, q, v, u), tuple(self.gravity), wrenches)

    def rates(self, t: Any, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """The velocity of the state (q, v): dq/dt in the algebra, and dv/dt, (nv,) each."""
        return v, self.acceleration(t, q, v, u)

    def stored(self, q: Array) -> Any:
        """Potential energy of the forces, ()."""
        return sum((f.energy_in_tree(self.tree, q) for f in self.forces if f.stores), start=0.0)

    def potential(self, q: Array) -> Any:
        return potential_energy(self.tree, q, tuple(self.gravity)) + self.stored(q)

    # -- parts, laws and kernels -----------------------------------------------------------------------------

    def mechanics(self) -> dict[str, Any]:
        if self.prescribed is not None:
            names = ", ".join(dict.fromkeys(self.prescribed.names))
            raise IntegrationError(
                f"{names} of {self.name} follow functions of time, which methods for mechanical systems do "
                "not take; use an explicit method, such as 'rkmk4'"
            )
        return {"group": self.group, **self.parametric_laws()}

    def laws(self) -> dict[str, Any]:
        tree = self.tree
        nu = self.nu
        return {
            "M": lambda q: mass_matrix(tree, q),
            # b is C(q, v) v alone: `applied` has the weight in Q
            "b": lambda q, v: bias_forces(tree, q, v, (0.0, 0.0, 0.0)),
            "Q": lambda t, q, v, u: self.applied(t, q, v, u[:nu]),
        }

    def parts(
        self, stabilized: Any = None, *, feedback: Feedback | None = None, watched: bool = False
    ) -> Parts:
        return self._parts(feedback, 0)

    def metered(self, feedback: Feedback | None = None) -> Parts:
        """As `parts`, of y = (q, v, W) with the work W of the efforts and of all forces but weight."""
        return self._parts(feedback, 1)

    def _parts(self, feedback: Feedback | None, meters: int) -> Parts:
        nq = self.nq
        end = self.nq + self.nv

        def field(t: Any, y: Array, u: Array) -> Array:
            here, u, p = self.given(u)
            q, v = here.led(t, y[:nq], y[nq:end])
            if feedback is not None:
                u = np.asarray(feedback(t, q, v, *([p] if len(p) else [])))
            w = here.velocity(q, v)
            if here.prescribed is None:
                rates = here.rates(t, q, v, u)
            else:
                a, u = here.hybrid_dynamics(t, q, v, u)
                # `after` puts prescribed joints in their place; here they stand still, without errors
                at = here.prescribed.dofs
                rest = np.zeros(len(at), int)
                rates = _replaced(w, at, rest), _replaced(a, at, rest)
            # metered: one more state variable, the work, whose rate is the power of efforts
            power = [np.reshape(here.efforts(t, q, w, u) @ w, 1)] * meters
            return np.concatenate([*rates, *power])

        def after(t: Any, y: Array, u: Array) -> dict[str, Array]:
            q, v = self.given(u)[0].led(t, y[:nq], y[nq:end])
            return {"z": np.concatenate([q, v, y[end:]])}

        shapes: Mapping[str, Any] = {"t": (), "y": end + meters, "u": self.nv + self.layout.size}
        leading = None if self.prescribed is None else partial(traced, after, shapes)
        return Parts(partial(traced, field, shapes), *self.moves(meters), leading)

    @cached_property
    def works(self) -> bool:
        """Whether forces do work, where no efforts are given, at some values of the parameters."""
        # with symbols for the parameters, so that damping that is zero by default counts, too
        free = Graph().symbols("parameters", self.layout.size)

        def acts(force: Force) -> bool:
            joints = (body.joint for body in self.at(free).tree.bodies)
            return not isinstance(force, JointForce) or any(force.numbers_in(x) is not None for x in joints)

        return self.prescribed is not None or any(map(acts, self.forces))

    def functions(self) -> Functions:
        """As `Mechanism.functions`.

        "energies" (q, v); "stored" (q), the potential energy of forces; "forces" (t, q, v), a row (nv,) each;
        "prescribed" (t), motions of joints that follow functions of time; "completed" (t, q, v, u), efforts
        with the ones of these joints.
        """

        def forces(t: Any, q: Array, v: Array) -> Array:
            w = self.velocity(q, v)
            return np.stack([force.on_tree(self.tree, t, q, w) for force in self.forces])

        def energies(q: Array, v: Array) -> dict[str, Array]:
            kinetic = kinetic_energy(self.tree, q, self.velocity(q, v))
            return {"kinetic": kinetic, "potential": self.potential(q)}

        def power(t: Any, q: Array, v: Array, u: Array) -> Any:
            return self.power(t, q, self.velocity(q, v), u)

        def prescribed(t: Any) -> dict[str, Array]:
            return self.motion_at(t)._asdict()

        def completed(t: Any, q: Array, v: Array, u: Array) -> Array:
            return self.hybrid_dynamics(t, q, v, self.acting(u))[1]

        state = {"q": self.nq, "v": self.nv}
        of_time: Functions = {
            "prescribed": (prescribed, {"t": ()}),
            "completed": (completed, {"t": (), **state, "u": self.nu}),
        }
        return {
            **(of_time if self.prescribed is not None else {}),
            "energies": (energies, state),
            "stored": (self.stored, {"q": self.nq}),
            "forces": (forces, {"t": (), **state}),
            "power": (power, {"t": (), **state, "u": self.nu}),
        }

    def kinetic_energy(self, q: Array, v: Array) -> Array:
        return self.kernel("energies")(q, v)[0]

    def potential_energy(self, q: Array) -> Array:
        return self.kernel("energies")(q, np.zeros(self.nv))[1]


def _replaced(x: Array, places: Array, values: Array) -> Array:
    """A copy of x with other values at some places of its last axis, and with their leading axes."""
    x, values = np.asarray(x), np.asarray(values)
    y = np.array(np.broadcast_to(x, (*values.shape[:-1], x.shape[-1])), np.result_type(x, values))
    y[..., places] = values
    return y
