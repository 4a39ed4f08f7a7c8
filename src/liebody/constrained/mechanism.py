"""What systems in absolute coordinates and trees with closed loops have in common: their constraints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..codegen.watch import Watch
from ..dynamics.mechanism import Feedback, Mechanism, Part, Parts
from ..errors import ConfigurationError, ConstraintError, IntegrationError, ModelError
from . import assembly
from .assembly import Report
from .constraints import Constraint
from .elimination import PROXIMAL, Regularization
from .equations import NOTHING, Stabilization

Array = Any
TOLERANCE = 1e-6  # of initial states
NEARLY = 1e-3  # a smallest singular value, below which a place counts as singular
STABILIZATIONS = ("none", "baumgarte", "projection", "index-2")
TIME_CONSTANT = 5.0  # steps in which violations fall by e, unless a frequency is given


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


class Constrained(Mechanism):
    """Bodies with constraints g(q) = 0.

    Subclasses say how g, J and M are measured (`measure`, `inverse_mass_root`, `moved`, `changed`), and how
    the equations of motion are computed: `function` has "accelerations" (t, q, v, u), "residuals" and
    "on_constraints" (t, q, v).
    """

    constraints: tuple[Constraint, ...]

    # -- what a subclass says -------------------------------------------------------------------------------

    @property
    def is_large(self) -> bool:
        """Whether its functions are programs, whose code does not grow with it, not straight lines."""
        return False

    @property
    def guess(self) -> np.ndarray:
        """A configuration from where loops are closed, (nq,)."""
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

    def changed(self, q: Array, v: Array, change: Array) -> np.ndarray:
        """v plus a change (nv,)."""
        raise NotImplementedError

    def loop(self, constraint: str) -> tuple[str, ...]:
        """The names of what makes up the shortest loop that a constraint closes."""
        raise NotImplementedError

    def row_sizes(self, q: Array, t: float = 0.0) -> np.ndarray:
        """D of the regularised A + eps D (nc,): what the diagonal of A = J M^-1 J^T is where rows matter."""
        raise NotImplementedError

    def relative_pivots(self, q: Array, t: float = 0.0) -> np.ndarray:
        """Pivots of A over D (nc,), as the equations of motion eliminate it."""
        raise NotImplementedError

    def dependence(self, q: Array, t: float) -> tuple[int, np.ndarray]:
        """How many equations are redundant, and the share (nc,) that each has in that; for large systems."""
        raise NotImplementedError

    def reaction_wrenches(self, constraint: str, q: Array, multipliers: Array, t: Array = 0.0) -> np.ndarray:
        """The wrench (..., 6) of one constraint on its last moving body, from multipliers (..., nc)."""
        raise NotImplementedError

    def field(self, stabilized: Stabilization, feedback: Feedback | None, by: Regularization) -> Part:
        """The velocity of the state, as a part of explicit methods."""
        raise NotImplementedError

    def after(self, by: Regularization) -> Part:
        """The state put back on the constraints, likewise."""
        raise NotImplementedError

    # -- sizes ----------------------------------------------------------------------------------------------

    @cached_property
    def nc(self) -> int:  # type: ignore[override]
        """Number of constraint equations."""
        return sum(c.rows for c in self.constraints)

    @cached_property
    def rows(self) -> dict[str, slice]:
        """Where each constraint stands among the equations and multipliers, (nc,)."""
        ends = np.cumsum([0, *(c.rows for c in self.constraints)]).tolist()
        return {c.name: slice(*ends[k : k + 2]) for k, c in enumerate(self.constraints)}

    # -- equations of motion ------------------------------------------------------------------------------

    def parts(
        self,
        stabilized: Stabilization = NOTHING,
        redundant: bool = False,
        feedback: Feedback | None = None,
        watched: bool = False,
    ) -> Parts:
        """As `Mechanism.parts`.

        Steps next to a singular position are taken with A + eps D, for the constraints to have a say off it
        and the velocities there.
        """
        field, moves = partial(self.field, stabilized, feedback), self.moves()
        plain, surplus = Regularization.plain(redundant), self.surplus if watched else None
        looking = plain._replace(surplus=surplus)
        if not stabilized.projected:
            return Parts(field(looking), *moves, None, Watch() if watched else None)
        if not watched:
            return Parts(field(plain), *moves, self.after(plain))
        shifted = Regularization(False, PROXIMAL)
        near = Watch(field(shifted), self.after(shifted._replace(surplus=surplus)))
        return Parts(field(plain), *moves, self.after(looking), Watch() if redundant else near)

    def mechanics(self) -> dict[str, Any]:
        """As `Mechanism.mechanics`: g and J are all equations, `redundant` whether they depend on each other.

        Raises ModelError for curves and for constraints that move, which methods for g(q) = 0 do not know.
        """
        for c in self.constraints:
            if c.kind.parameters or getattr(c.kind, "timed", False):
                raise ModelError(
                    f"constraint {c.name!r} has a coordinate of its own or depends on time, which methods "
                    "for g(q) = 0 do not take; use an explicit method, such as 'rkmk4'"
                )
        return {"redundant": self.redundant} if self.nc else {}

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

    def moved_with(self, q: Array, v: Array, time: float) -> np.ndarray:
        """q exp(time v): where the velocities of now lead in a time."""
        u = np.concatenate([time * np.asarray(v), np.zeros(self.group.dim - self.nv)])
        return np.array(self.group.normalize(self.group.integrate(q, u)), float)

    # -- states on the constraints ------------------------------------------------------------------------

    def start(self) -> np.ndarray:
        """As `Mechanism.start`: where the guess closes."""
        return self.assemble()

    def stabilization(self, given: str | Stabilization | None, dt: float | None) -> Stabilization:
        """As `Mechanism.stabilization`; by default projection after each step."""
        return stabilization("projection" if given is None else given, dt)

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
    def redundant(self) -> bool:  # type: ignore[override]
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

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """The first closed configuration that was seen, if there was one."""
        return []

    def _remember(self, q: Array) -> None:
        if not self._places:
            self._places.append(q)
