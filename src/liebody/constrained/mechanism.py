"""What systems in absolute coordinates and trees with closed loops have in common: their constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..codegen import Function, Guard, Kernel, Program
from ..codegen.watch import Watch
from ..errors import ConfigurationError, ConstraintError, IntegrationError, ShapeError
from ..groups import Product
from . import assembly
from .assembly import Report
from .constraints import Constraint
from .elimination import PROXIMAL, Regularization
from .equations import Stabilization

Array = Any
Part = Callable[[], Function | Program]
TOLERANCE = 1e-6  # of initial states
NEARLY = 1e-3  # a smallest singular value, below which a place counts as singular
STABILIZATIONS = ("none", "baumgarte", "projection", "index-2")
TIME_CONSTANT = 5.0  # steps in which violations fall by e, unless a frequency is given


class Parts(NamedTuple):
    """field, advance, pull, after and watch of a `Flow` over y = (q, v), as calls that make them."""

    field: Part
    advance: Part
    pull: Part
    after: Part | None
    watch: Watch | None

    @classmethod
    def of(
        cls,
        field: Callable[[Regularization], Part],
        advance: Part,
        pull: Part,
        after: Callable[[Regularization], Part],
        projected: bool,
        redundant: bool,
        surplus: Sequence[np.ndarray] | None,
    ) -> Parts:
        """The parts, where field and after can be made with any regularisation.

        projected  whether states are put back on the constraints
        surplus    as in `Regularization`; None: the flow is not watched

        Steps next to a singular position are taken with A + eps D, for the constraints to have a say off it
        and the velocities there.
        """
        plain = Regularization.plain(redundant)
        watched = plain._replace(surplus=surplus)
        if not projected:
            watch = None if surplus is None else Watch()
            return cls(field(watched), advance, pull, None, watch)
        if surplus is None:
            return cls(field(plain), advance, pull, after(plain), None)
        shifted = Regularization(False, PROXIMAL)
        watch = Watch() if redundant else Watch(field(shifted), after(shifted._replace(surplus=surplus)))
        return cls(field(plain), advance, pull, after(watched), watch)


def stabilization(given: str | Stabilization, dt: float | None) -> Stabilization:
    """The stabilisation by name; Baumgarte's and index-2's frequencies are 1/(5 dt) by default."""
    if isinstance(given, Stabilization):
        return given
    if given not in STABILIZATIONS:
        raise IntegrationError(f"stabilization is {given!r}, expected one of {', '.join(STABILIZATIONS)}")
    if given in ("none", "projection"):
        return Stabilization(given, projected=given == "projection")
    if dt is None:
        raise IntegrationError(
            f"{given} needs a frequency, which follows from the step: give dt, or Stabilization("
            f"{given!r}, {'frequency' if given == 'baumgarte' else 'rate'}=...) in rad/s"
        )
    fast = 1 / (TIME_CONSTANT * dt)
    return Stabilization(given, frequency=fast) if given == "baumgarte" else Stabilization(given, rate=fast)


class Mechanism:
    """Bodies with constraints g(q) = 0; q are coordinates (nq,), v velocities (nv,) of a group of states.

    Subclasses say how g, J and M are measured (`measure`, `inverse_mass_root`, `moved`), and how the
    equations of motion are computed (`function`, `parts`).
    """

    name: str
    constraints: tuple[Constraint, ...]

    # -- what a subclass says -------------------------------------------------------------------------------

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        raise NotImplementedError

    @property
    def nv(self) -> int:
        """Number of velocities."""
        raise NotImplementedError

    @property
    def nu(self) -> int:
        """Number of efforts."""
        raise NotImplementedError

    @property
    def group(self) -> Product:
        """The configuration group."""
        raise NotImplementedError

    def measure(self, q: Array, v: Array | None = None, t: float = 0.0) -> tuple[Array, Array, Array]:
        """(g (nc,), J (nc, nv), rate of g (nc,)) at one state, J for changes as `moved` takes them."""
        raise NotImplementedError

    def inverse_mass_root(self, q: Array, hold: Sequence[str]) -> np.ndarray:
        """W with W W^T = M^-1 (nv, nv), for changes as `moved` takes them; zero for what is held."""
        raise NotImplementedError

    def moved(self, q: Array, step: Array) -> np.ndarray:
        """q after a small change (nv,)."""
        raise NotImplementedError

    def moved_with(self, q: Array, v: Array, time: float) -> np.ndarray:
        """q exp(time v): where the velocities of now lead in a time."""
        u = np.concatenate([time * np.asarray(v), np.zeros(self.group.dim - self.nv)])
        return np.array(self.group.normalize(self.group.integrate(q, u)), float)

    def changed(self, q: Array, v: Array, change: Array) -> np.ndarray:
        """v plus a change (nv,)."""
        raise NotImplementedError

    def loop(self, constraint: str) -> tuple[str, ...]:
        """The names of what makes up the shortest loop that a constraint closes."""
        raise NotImplementedError

    def function(self, name: str) -> Function | Program:
        """The traced function "accelerations" (t, q, v, u), "residuals" or "on_constraints" (t, q, v)."""
        raise NotImplementedError

    def parts(
        self,
        stabilized: Stabilization,
        redundant: bool,
        feedback: Callable[..., Any] | None = None,
        watched: bool = False,
    ) -> Parts:
        """The parts of a compiled loop.

        feedback  (t, q, v) -> u (nu,), which takes the place of the efforts
        watched   whether they are made for `Flow` to watch the pivots of A
        """
        raise NotImplementedError

    def row_sizes(self, q: Array, t: float = 0.0) -> np.ndarray:
        """D of the regularised A + eps D (nc,): what the diagonal of A = J M^-1 J^T is where rows matter."""
        raise NotImplementedError

    def relative_pivots(self, q: Array, t: float = 0.0) -> np.ndarray:
        """Pivots of A over D (nc,), as the equations of motion eliminate it."""
        raise NotImplementedError

    def mechanics(self) -> dict[str, Any]:
        """The system as the methods for mechanical systems of `liebody.integrators` take it."""
        raise NotImplementedError

    @property
    def is_large(self) -> bool:
        """Whether its functions are programs, whose code does not grow with it, not straight lines."""
        return False

    def dependence(self, q: Array, t: float) -> tuple[int, np.ndarray]:
        """How many equations are redundant, and the share (nc,) that each has in that; for large systems."""
        raise NotImplementedError

    @property
    def guess(self) -> np.ndarray:
        """A configuration from where loops are closed, (nq,)."""
        raise NotImplementedError

    # -- sizes ----------------------------------------------------------------------------------------------

    @cached_property
    def nc(self) -> int:
        """Number of constraint equations."""
        return sum(c.rows for c in self.constraints)

    @cached_property
    def rows(self) -> dict[str, slice]:
        """Where each constraint stands among the equations and multipliers, (nc,)."""
        ends = np.cumsum([0, *(c.rows for c in self.constraints)]).tolist()
        return {c.name: slice(*ends[k : k + 2]) for k, c in enumerate(self.constraints)}

    # -- equations of motion ------------------------------------------------------------------------------

    def accelerations(self, q: Array, v: Array, u: Array = None, t: Array = 0.0) -> tuple[Array, Array]:
        """dv/dt (..., nv) and the multipliers (..., nc) at a state, with efforts u (..., nu), at time t.

        Positions and velocities are taken as they are; multipliers of least norm where constraints are
        redundant.
        """
        u = np.zeros(self.nu) if u is None else u
        return self.kernel("accelerations")(t, q, v, u)

    def violation(self, q: Array, t: Array = 0.0) -> dict[str, np.ndarray]:
        """g of each constraint, (..., rows): zero where it holds                                 [m, rad]"""
        g, _ = self.kernel("residuals")(t, q, np.zeros(self.nv))
        return {name: g[..., rows] for name, rows in self.rows.items()}

    def velocity_violation(self, q: Array, v: Array, t: Array = 0.0) -> dict[str, np.ndarray]:
        """J v + dg/dt of each constraint, (..., rows)                                     [m/s, rad/s]"""
        _, rate = self.kernel("residuals")(t, q, v)
        return {name: rate[..., rows] for name, rows in self.rows.items()}

    def reactions(self, q: Array, v: Array, u: Array = None, t: float = 0.0) -> dict[str, np.ndarray]:
        """The wrench (moment, force) of each constraint on its last moving body                 [N m, N]

        At the constraint's frame on that body and in its axes (for conditions of the user's own: the body's
        frame). It does not contain efforts and damping along a joint's motions.
        """
        _, multipliers = self.accelerations(q, v, u, t)
        q = self.configurations(q)
        return {c.name: self.reaction_wrenches(c.name, q, multipliers, t) for c in self.constraints}

    def reaction_wrenches(self, constraint: str, q: Array, multipliers: Array, t: Array = 0.0) -> np.ndarray:
        """The wrench (..., 6) of one constraint on its last moving body, from multipliers (..., nc)."""
        raise NotImplementedError

    # -- states on the constraints ------------------------------------------------------------------------

    def assemble(
        self, q: Array = None, hold: Sequence[str] = (), t: float = 0.0, tolerance: float = 1e-12
    ) -> np.ndarray:
        """A configuration (nq,) in which all constraints hold, next to the guess q, by Gauss-Newton steps.

        q     a rough configuration; None: that of the builder
        hold  bodies that stay where they are

        Changes are least in the metric of M. Raises ConstraintError with the loop that cannot close and what
        is left over.
        """
        found = assembly.assemble(self, self.guess if q is None else q, hold, t, tolerance)
        self._remember(found)
        return found

    def consistent_velocities(
        self, q: Array, v: Array, hold: Sequence[str] = (), t: float = 0.0
    ) -> np.ndarray:
        """The velocities (nv,) next to v, in the metric of M, that keep the constraints at q.

        hold  bodies that keep their velocities

        Raises ConstraintError where there are none.
        """
        return assembly.consistent_velocities(self, np.asarray(q, float), np.asarray(v, float), hold, t)

    def project(self, q: Array, v: Array, t: Array = 0.0) -> tuple[Array, Array]:
        """States (..., nq), (..., nv) that have drifted, put back: positions, then velocities."""
        return self.kernel("on_constraints")(t, q, v)

    def report(self, q: Array = None, t: float = 0.0) -> Report:
        """Degrees of freedom, rank and redundancy at q (by default, where the guess closes)."""
        return assembly.report(self, self.assemble(t=t) if q is None else self.configurations(q), t)

    @cached_property
    def redundant(self) -> bool:
        """Whether equations depend on each other, at and around the first closed configuration that was seen.

        That is the one that was assembled or simulated first, or else where the guess closes.
        """
        try:
            return self.nc > 0 and self.report(self._places[0] if self._places else None).nearby < self.nc
        except ConstraintError:
            return True

    @cached_property
    def surplus(self) -> list[np.ndarray]:
        """For each constraint, which of its equations depend on those that are eliminated before them.

        Not at single places, but where `redundant` looked.
        """
        surplus = np.zeros(self.nc, bool)
        if self.redundant:
            place = self._places[0] if self._places else self.assemble()
            surplus[assembly.surplus(self, place)] = True
        return [surplus[self.rows[c.name]] for c in self.constraints]

    @property
    def independent(self) -> np.ndarray:
        """The numbers of as many equations as are independent, where `redundant` looked."""
        if not self.redundant:
            return np.arange(self.nc)
        return assembly.independent(self, self._places[0] if self._places else self.assemble())

    def check_state(self, q: Array, v: Array, t: float = 0.0) -> None:
        """Raise ConfigurationError for states (..., nq), (..., nv) off the constraints by 1e-6 or more."""
        if not self.nc:
            return
        g, rate = (np.abs(x) for x in self.kernel("residuals")(t, q, v))
        size = 1 + np.abs(np.asarray(v)).max()
        q = np.asarray(q, float)
        for values, bound, what, remedy in (
            (g, TOLERANCE, "q0 violates", "q0 = system.assemble(q0)"),
            (rate, TOLERANCE * size, "v0 breaks", "v0 = system.consistent_velocities(q0, v0)"),
        ):
            for name, rows in self.rows.items() if not values.max(initial=0.0) < bound else ():
                worst = values[..., rows].max(initial=0.0)
                if not worst < bound:
                    raise ConfigurationError(
                        f"{what} constraint {name!r} of {self.name} by {worst:.3g}, expected less than "
                        f"{bound:.1g}; start from {remedy}"
                    )
        self._remember(q.reshape(-1, self.nq)[0])

    def diagnosis(self, q: Array, v: Array, ahead: float = 0.0, t: float = 0.0) -> str:
        """In words, which constraints become dependent within a time ahead of (q, v); empty if none do."""
        if self.redundant or self.nc > assembly.DENSE:
            return ""
        (smallest, names), when = assembly.closest_to_dependent(self, q, v, ahead, t)
        if smallest > NEARLY:
            return ""
        return (
            f"the constraints {', '.join(map(repr, names))} become dependent at t = {when:.6g} s (smallest "
            f"singular value of their scaled Jacobian {smallest:.2g}): a singular configuration, where "
            "motions branch"
        )

    # -- kernels --------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """The definition without what is compiled, so that systems can be sent to other processes."""
        kind = type(self)
        return {
            n: x for n, x in vars(self).items() if not isinstance(getattr(kind, n, None), cached_property)
        }

    def kernel(self, name: str) -> Kernel:
        """The compiled kernel of a `function`."""
        if name not in self._kernels:
            function = self.function(name)
            self._kernels[name] = Kernel(function, guard=Guard(tuple(function.inputs)))
        return self._kernels[name]

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """The first closed configuration that was seen, if there was one."""
        return []

    def _remember(self, q: Array) -> None:
        if not self._places:
            self._places.append(q)

    @cached_property
    def _kernels(self) -> dict[str, Kernel]:
        return {}

    @cached_property
    def flows(self) -> dict[Any, Any]:
        """Compiled loops of simulations, by what determines them."""
        return {}

    def configurations(self, q: Array) -> np.ndarray:
        """q as floats (..., nq), checked."""
        q = np.asarray(q, float)
        if q.ndim < 1 or q.shape[-1] != self.nq:
            raise ShapeError(f"q has shape {q.shape}, expected (..., {self.nq})")
        return q
