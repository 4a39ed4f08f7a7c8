"""Mechanisms with constraints, in absolute or in joint coordinates: field, projection, reactions, start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import vector
from ...base.errors import ConfigurationError, IntegrationError, ModelError, known
from ...bodies import Parametric
from ...bodies.labels import Labels
from ...compiler import trace, traced
from ...compiler.graph.graph import live
from ...integrators.saddle_point import PROXIMAL, Regularization
from ...scalars import Array
from ...stepping.records import Part, Watch
from ..contract import Feedback, Functions, Parts
from .constraints import Constraint
from .redundancy import Redundancy
from .stabilization import NOTHING, Stabilization, stabilization

TOLERANCE = 1e-6  # of initial states
CLOSED = 1e-12  # violation up to which loops count as closed [m, rad]
NEWTON = 8  # projections towards it


class StateRate(NamedTuple):
    """The velocity of a state by the equations of motion, with the multipliers."""

    field: Array  # (dq, dV) in the algebra
    multipliers: Array  # (m,)
    worst: Array  # how close to dependence, `saddle_point.worse`, (1,); (0,) where it was not asked for


class Constrained(Parametric, Redundancy):
    """Bodies with constraints g(q) = 0; long, as it completes the whole contract of `Mechanism` with them.

    Subclasses say how g, J and M are measured, and, on floats or symbols, how the equations are solved.
    """

    def motion(self, t: Any, y: Array, u: Array, stabilized: Stabilization, by: Regularization) -> StateRate:
        """The velocity of the state y = (q, v), and the multipliers."""
        raise NotImplementedError

    def projected(self, t: Any, y: Array, by: Regularization) -> tuple[Array, Array]:
        """The state put back on the constraints, positions, then velocities; how close to dependence."""
        raise NotImplementedError

    def residuals(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        """g and its rate, (nc,)."""
        raise NotImplementedError

    def constraints_at(self, q: Array, t: Any = 0.0) -> tuple[Array, Array]:
        """g (nc,) and J (nc, nv), for left-trivialised velocities."""
        raise NotImplementedError

    @property
    def is_driven(self) -> bool:
        """Whether constraints move with time, or give velocities: drives, which may do work."""
        return any(c.kind.timed or c.kind.is_driven for c in self.constraints)

    @property
    def works(self) -> bool:
        return self.is_driven or bool(super().works)

    @property
    def joint_labels(self) -> tuple[Labels, Labels] | None:
        """Names and units of coordinates and velocities of joints; None where q and v have them already."""
        return None

    @property
    def all_joined(self) -> bool:
        """Whether these coordinates tell where all bodies are."""
        return False

    def joint_motions(self, q: Array, v: Array) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and velocities of joints (..., n), as `joint_labels` names them."""
        raise NotImplementedError

    def drift(self, t: Any, q: Array) -> Array:
        """The rate of the constraints (nc,) at rest: J v = -drift of all velocities that obey them."""
        return self.residuals(t, q, np.zeros(self.nv, int))[1]

    def power(self, t: Any, q: Array, v: Array, u: Array) -> Any:
        """As `Mechanism.power`, plus the power of the drives, -(J^T lambda) . v = lambda . drift.

        The multipliers are the exact ones of the state.                                                 [W]
        """
        power = super().power(t, q, v, u)
        if not self.is_driven:
            return power
        by = Regularization.plain(self.redundant)
        # stabilising terms would do work of their own, so they are left out
        multipliers = self.motion(t, np.concatenate([q, v]), u, NOTHING, by).multipliers
        return power + multipliers @ self.drift(t, q)

    def reaction_rows(self, c: Constraint, q: Array, t: float) -> np.ndarray:
        """J (rows, 6) of a constraint for twists of its frame on its last moving body."""
        raise NotImplementedError

    @property
    def loops(self) -> bool | None:
        return self.is_large

    # -- equations of motion ------------------------------------------------------------------------------

    def parts(
        self, stabilized: Stabilization = NOTHING, *, feedback: Feedback | None = None, watched: bool = False
    ) -> Parts:
        """As `Mechanism.parts`.

        Steps next to a singular position are taken with A + eps D, for the constraints to have a say off it
        and the velocities there.
        """
        nq = self.nq
        ordinary = self.ordinary_pivots if watched else None
        plain = Regularization.plain(self.redundant)
        looking = plain._replace(ordinary=ordinary)
        shifted = Regularization(False, PROXIMAL)
        shapes: dict[str, Any] = {"t": (), "y": nq + self.nv, "u": self.nu + self.layout.size}

        def field(by: Regularization, t: Any, y: Array, u: Array) -> dict[str, Array]:
            # the mechanism at the parameters that stand behind the efforts in u
            here, u, p = self.given(u)
            if feedback is not None:
                u = np.asarray(feedback(t, y[:nq], y[nq:], *([p] if len(p) else [])))
            rate = here.motion(t, y, u, stabilized, by)
            return {"f": rate.field, **({} if by.ordinary is None else {"worst": rate.worst})}

        def after(by: Regularization, t: Any, y: Array, u: Array) -> dict[str, Array]:
            z, worst = self.given(u)[0].projected(t, y, by)
            return {"z": z, **({} if by.ordinary is None else {"worst": worst})}

        def part(function: Callable[..., Any], by: Regularization) -> Part:
            return partial(traced, partial(function, by), shapes, function.__name__, loops=self.loops)

        # how close equations are to dependence is told by the field, or, where a projection follows, by the
        # projection, whose factors belong to the end of the step
        moves = self.moves()
        if not stabilized.projected:
            return Parts(part(field, looking), *moves, None, Watch() if watched else None)
        if not watched:
            return Parts(part(field, plain), *moves, part(after, plain))
        # regular equations: next to a singular position, steps are repeated with the shifted parts
        near = Watch(part(field, shifted), part(after, shifted._replace(ordinary=ordinary)))
        return Parts(part(field, plain), *moves, part(after, looking), Watch() if self.redundant else near)

    def functions(self) -> Functions:
        """As `Mechanism.functions`.

        "towards_constraints" does not ask whether equations are redundant.
        """
        shapes: dict[str, Any] = {"t": (), "q": self.nq, "v": self.nv}

        def accelerations(t: Any, q: Array, v: Array, u: Array) -> dict[str, Array]:
            plain = Regularization.plain(self.redundant)
            rate = self.motion(t, np.concatenate([q, v]), u, NOTHING, plain)
            return {"a": rate.field[-self.nv :], "multipliers": rate.multipliers}

        def residuals(t: Any, q: Array, v: Array) -> dict[str, Array]:
            return dict(zip(("residual", "rate"), self.residuals(t, q, v), strict=True))

        def put_back(redundant: Callable[[], bool], t: Any, q: Array, v: Array) -> dict[str, Array]:
            y, _ = self.projected(t, np.concatenate([q, v]), Regularization.plain(redundant()))
            return {"q": y[: self.nq], "v": y[self.nq :]}

        return {
            "accelerations": (accelerations, {**shapes, "u": self.nu}),
            "residuals": (residuals, shapes),
            "power": (self.power, {**shapes, "u": self.nu}),
            "on_constraints": (partial(put_back, lambda: self.redundant), shapes),
            "towards_constraints": (partial(put_back, lambda: True), shapes),
        }

    def mechanics(self) -> dict[str, Any]:
        """As `Mechanism.mechanics`: g and J are all equations, `redundant` whether they depend on each other.

        J alone, without g, where some of them are of velocities only; and drift(t, q) where some move, with
        J(t, q) where that depends on time.

        Raises ModelError for curves.
        """
        if not self.nc:
            return {}
        g, J = (lambda q: self.constraints_at(q)[0]), (lambda q: self.constraints_at(q)[1])
        laws: dict[str, Any] = {"J": J, "redundant": self.redundant}
        moved = self._moved_by_parameters()
        if moved:
            raise IntegrationError(
                f"{', '.join(moved)} of {self.name} change its constraints, and methods for mechanical "
                "systems take parameters of masses and forces alone; use an explicit method, such as 'rkmk4'"
            )
        for c in self.constraints:
            if c.kind.parameters:
                raise ModelError(
                    f"constraint {c.name!r} has a coordinate of its own, which methods for mechanical "
                    "systems do not take; use an explicit method, such as 'rkmk4'"
                )
        if self.is_driven:
            if any(self._changes_with_time(self.rows[c.name]) for c in self.constraints if c.kind.timed):
                laws |= {"J": lambda t, q: self.constraints_at(q, t)[1], "timed": True}
            return {**laws, "drift": self.drift}
        return {"g": g, **laws} if self.of_places.all() else laws

    def _moved_by_parameters(self) -> list[str]:
        """The free parameters on which g or J depend."""
        if not self.layout.size:
            return []

        def rows(q: Array, p: Array) -> dict[str, Array]:
            return dict(zip(("g", "J"), self.at(p).constraints_at(q), strict=True))

        graph = trace(rows, {"q": self.nq, "p": self.layout.size}, "rows")
        # a parameter matters if one of its symbols is among the operands of g or J
        used = set(live([x for rows in graph.outputs.values() for x in rows.flat]))
        parts = self.layout.named(graph.inputs["p"])
        return [name for name, x in parts.items() if not used.isdisjoint(np.asarray(x).flat)]

    def _changes_with_time(self, rows: slice) -> bool:
        """Whether these rows of J depend on time."""
        graph = trace(lambda t, q: self.constraints_at(q, t)[1][rows], {"t": (), "q": self.nq}, "J")
        (J,) = graph.outputs.values()
        return any(x.op == "input" and x is graph.inputs["t"].flat[0] for x in live(J.flat))

    def jacobian(self, q: Array, t: float = 0.0) -> np.ndarray:
        """J (nc, nv) with J v = the rate of the constraints, as left-trivialised velocities enter it."""
        return np.asarray(self.constraints_at(vector("q", q, self.nq), t)[1], float)

    def accelerations(
        self, q: Array, v: Array, u: Array = None, t: Array = 0.0, parameters: Any = None
    ) -> tuple[Array, Array]:
        """dv/dt (..., nv) and the multipliers (..., nc) at a state, with efforts u (..., nu), at time t.

        Positions and velocities are taken as they are; multipliers of least norm where constraints are
        redundant.
        """
        u = np.zeros(self.nu) if u is None else u
        results: tuple[Array, Array] = self.evaluated("accelerations", t, q, v, u, p=self.packed(parameters))
        return results

    def violation(self, q: Array, t: Array = 0.0) -> dict[str, np.ndarray]:
        """g of each constraint, (..., rows): zero where it holds                                 [m, rad]"""
        g, _ = self.evaluated("residuals", t, q, np.zeros(self.nv))
        return {name: g[..., rows] for name, rows in self.rows.items()}

    def velocity_violation(self, q: Array, v: Array, t: Array = 0.0) -> dict[str, np.ndarray]:
        """J v + dg/dt of each constraint, (..., rows)                                     [m/s, rad/s]"""
        _, rate = self.evaluated("residuals", t, q, v)
        return {name: rate[..., rows] for name, rows in self.rows.items()}

    def reactions(
        self, q: Array, v: Array, u: Array = None, t: Array = 0.0, passive: bool = False
    ) -> dict[str, np.ndarray]:
        """The wrench (moment, force) of each constraint on its last moving body                 [N m, N]

        At the constraint's frame on that body and in its axes; for conditions that a user wrote, at the
        body's frame.

        passive  whether it contains the efforts of springs, dampers and other laws in a joint of a System
                 along the joint's motions; efforts u along them are never in it
        """
        _, multipliers = self.accelerations(q, v, u, t)
        q = self.configurations(q)
        wrenches = {c.name: self.reaction_wrenches(c.name, q, multipliers, t) for c in self.constraints}
        return {name: F + self.carried(name, q, v, t) if passive else F for name, F in wrenches.items()}

    def carried(self, constraint: str, q: Array, v: Array, t: Array = 0.0) -> np.ndarray:
        """The wrench (..., 6) of springs, dampers and other laws in a joint, as `reactions` has it."""
        raise ModelError(f"{self.name} has its joints in its tree; those of a System know what they carry")

    def reaction_wrenches(self, constraint: str, q: Array, multipliers: Array, t: Array = 0.0) -> np.ndarray:
        """The wrench (..., 6) of one constraint on its last moving body, from multipliers (..., nc)."""
        if constraint not in self.rows:
            raise ModelError(f"{self.name} has no constraint {constraint!r}; {known(self.rows, constraint)}")
        c = next(c for c in self.constraints if c.name == constraint)
        rows = self.rows[constraint]
        q = self.configurations(q)
        multipliers = np.asarray(multipliers)
        F = np.zeros((*q.shape[:-1], 6))
        times = np.broadcast_to(t, q.shape[:-1])
        for at in np.ndindex(q.shape[:-1]):
            # the equations of motion have J^T lambda on the left: the body feels -J^T lambda
            F[at] = -multipliers[at][rows] @ self.reaction_rows(c, q[at], float(times[at]))
        return F

    # -- states on the constraints ------------------------------------------------------------------------

    def start(self, p: Array = None, t: float = 0.0) -> np.ndarray:
        """As `Mechanism.start`: where the guess closes; next to that, where constraints depend on p."""
        q = self.assemble(t=t)
        if p is None or not self.layout.size:
            return q
        closed = np.broadcast_to(q, (*p.shape[:-1], self.nq)).copy()
        rest = np.zeros(self.nv)
        # all members at once by projections from the nominal configuration; each that has not arrived in the
        # end is assembled by itself, with damping and restarts
        for iteration in range(1 + NEWTON):
            off = np.abs(self.evaluated("residuals", t, closed, rest, p=p)[0]).max(axis=-1, initial=0.0)
            apart = off > CLOSED
            if not apart.any():
                return closed
            if iteration < NEWTON:
                closed[apart] = self.evaluated("on_constraints", t, closed[apart], rest, p=p[apart])[0]
        for at in map(tuple, np.argwhere(~(off <= CLOSED))):
            closed[at] = self.at(p[at]).assemble(q, t=t)
        return closed

    def start_velocities(self, q: Array, p: Array = None, t: float = 0.0) -> np.ndarray:
        """As `Mechanism.start_velocities`: of drives the least ones, in the metric of M, that obey them."""
        rest = np.zeros((len(q), self.nv))
        if not self.is_driven:
            return rest
        velocities = rest.copy()
        off = np.ones(len(q), bool)
        if len(q) > 1:  # all at once; where constraints are dependent one by one, by singular values
            velocities = np.array(self.evaluated("on_constraints", t, q, rest, p=p)[1])
            left = np.abs(self.evaluated("residuals", t, q, velocities, p=p)[1]).max(axis=-1, initial=0.0)
            off = ~(left <= CLOSED * (1 + np.abs(velocities).max(axis=-1, initial=0.0)))
        for i in np.flatnonzero(off):
            velocities[i] = (self if p is None else self.at(p[i])).consistent_velocities(q[i], rest[i], t=t)
        return velocities

    def stabilization(self, given: str | Stabilization | None, dt: float | None) -> Stabilization:
        """As `Mechanism.stabilization`; by default projection after each step."""
        return stabilization("projection" if given is None else given, dt)

    def project(self, q: Array, v: Array, t: Array = 0.0) -> tuple[Array, Array]:
        """States (..., nq), (..., nv) that have drifted, put back: positions, then velocities."""
        state: tuple[Array, Array] = self.evaluated("on_constraints", t, q, v)
        return state

    def check_state(self, q: Array, v: Array, t: float = 0.0, p: Array = None) -> None:
        """Raise ConfigurationError for states (..., nq), (..., nv) off the constraints by 1e-6 or more."""
        if not self.nc:
            return
        g, rate = self.evaluated("residuals", t, q, v, p=p)
        small = np.abs(np.concatenate((g, rate), axis=-1)) < TOLERANCE
        if np.count_nonzero(small) < small.size:  # sooner than `all`
            self._refuse(np.abs(g), np.abs(rate), 1 + np.abs(v).max())
        self.remember(q)

    def _refuse(self, g: Array, rate: Array, size: float) -> None:
        """Raise ConfigurationError that names the violated constraint, for velocities of this size."""
        # positions first: velocities off the constraints may follow from them
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
                        + (", of system.with_parameters(values)" if self.layout.size else "")
                    )
