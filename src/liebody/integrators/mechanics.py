"""Mechanical systems on Lie groups as the implicit methods see them, and their flows.

    dq/dt = v (left-trivialised),   M(q) dv/dt + b(q, v) + J(q)^T lambda = Q(t, q, v, u),   g(q) = 0

Every method of this package for such systems is an object with one way in:

    flow = GeneralizedAlpha(rho_inf=0.9).flow(group, M, Q, g)  # or Variational(), RadauIIA(5), Gauss(4), ...
    flow = mechanical_method("generalized-alpha").flow(...)    # the same by name
    y = flow.start(q, v, t, h)                                 # (n, point): q, v, what the method remembers
    flow.steps(y, u, t, h, steps, every, record, row, failed)  # as `Flow.steps`; record (n, rows, point)
    record[..., flow.layout["v"]]                              # "q", "v"; also "multipliers" where remembered
    flow.march(Ensemble(y, times, h), u, rows, Settings())     # under error control, where it has that
    flow.run(q, v, t_end, dt)                                  # the same in one call: a Trajectory

The mechanics enter as functions on flat coordinates that can be traced: nothing here knows of bodies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..codegen.derivatives import jacobian, jvp
from ..codegen.graph import Function, trace
from ..codegen.implicit import ImplicitFlow, Phase
from ..codegen.march import REASONS, Ensemble, Settings
from ..codegen.printers.numpy_source import compile_numpy
from ..errors import IntegrationError, ShapeError
from ..groups import LieGroup
from ..linear import back_substitute, factor, product, solve
from ..scalar import Array

PROXIMAL = 1e-6
FLOOR = 1e-6  # of the mean of the diagonal of J M^-1 J^T


class MechanicalEquations:
    """M(q) dv/dt + b(q, v) + J(q)^T lambda = Q(t, q, v, u), g(q) = 0, on a Lie group.

    group    configuration group; v (dim,) is left-trivialised
    M        inertia: a constant (dim, dim), or a function M(q); symmetric positive definite
    Q        applied forces Q(t, q, v, u), (dim,), potential forces among them, without inertial forces: those
             are b. None if there are none
    g        holonomic constraints g(q), (m,), independent of each other; None if there are none
    J        J(q) (m, dim) with dg/dt = J v; default: from the derivatives of the graph of g. J without g
             stands for constraints J v = 0 which need not be integrable (half-explicit and Radau methods)
    b        inertial forces b(q, v), (dim,). Default: those of M. For a constant M, b = -ad_v^T M v (Euler,
             Poincare; From, eq. (68)); for M(q), b = (dM/dt) v - grad(v^T M v)/2 - ad_v^T M v, from the
             derivatives of the graph. Worth giving where there is a cheaper form, such as recursive ones;
             `Variational` has no use for it, its inertial forces follow from M
    efforts  length of u
    redundant  whether constraints may depend on each other, as long as they do not contradict each other. Of
             all multipliers then those are found whose norm sqrt(lambda^T D lambda) is least, D the diagonal
             of J M^-1 J^T (the proximal point method; Rockafellar 1976)

    Errors: ShapeError where a function returns an array of another shape, or M is not symmetric.
    """

    def __init__(
        self,
        group: LieGroup,
        M: Any,
        Q: Callable[..., Any] | None = None,
        g: Callable[[Any], Any] | None = None,
        J: Callable[[Any], Any] | None = None,
        b: Callable[..., Any] | None = None,
        efforts: int = 0,
        redundant: bool = False,
    ) -> None:
        if not isinstance(group, LieGroup):
            raise IntegrationError(f"group must be a group such as liebody.groups.SO3, not {group!r}")
        self.group, self.dim, self.nq, self.efforts = group, group.dim, group.nq, efforts
        self.constant = not callable(M)
        self._M, self._Q, self._g, self._J, self._b = M, Q, g, J, b
        self.redundant = redundant
        dim = self.dim
        if self.constant:
            self._M = np.array(M, dtype=float)
            self._shape("M", self._M, (dim, dim))
            if not np.allclose(self._M, self._M.T, rtol=1e-9, atol=0) or np.linalg.eigvalsh(self._M)[0] <= 0:
                raise ShapeError("M must be symmetric positive definite; check the inertias it is made of")
            self.inverse = np.linalg.inv(self._M)
            self.inverse[np.abs(self.inverse) < 1e-15 * np.abs(self.inverse).max()] = 0
        q, v = group.neutral(), np.zeros(dim)
        for name, value in (("M", M(q) if callable(M) else None), ("b", b(q, v) if b else None)):
            if value is not None:
                self._shape(name, value, (dim, dim) if name == "M" else (dim,))
        if Q is not None:
            self._shape("Q", Q(0.0, q, v, np.zeros(efforts)), (dim,))
        m = np.shape(g(q)) if g else np.shape(J(q))[:1] if J else (0,)
        if len(m) != 1:
            raise ShapeError(f"g(q) has shape {m}, expected (m,) for m constraints")
        self.m, self.holonomic = m[0], g is not None or J is None
        if J is not None:
            self._shape("J", J(q), (self.m, dim))

    def _shape(self, name: str, value: Any, expected: tuple[int, ...]) -> None:
        if np.shape(value) != expected:
            raise ShapeError(f"{name} on {self.group} has shape {np.shape(value)}, expected {expected}")

    @property
    def shapes(self) -> dict[str, Any]:
        """Of t, q, v, u."""
        return {"t": (), "q": self.nq, "v": self.dim, "u": self.efforts}

    # -- the functions, with their defaults ---------------------------------------------------------------

    def mass(self, q: Array) -> Array:
        """M(q), (dim, dim)."""
        return self._M if self.constant else self._M(q)

    def solve_mass(self, q: Array, p: Array) -> Array:
        """M(q)^-1 p for p (dim,) or (dim, k)."""
        return product(self.inverse, p) if self.constant else solve(self._M(q), p)

    def applied(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        """Q(t, q, v, u), (dim,)."""
        return np.zeros(self.dim, int) if self._Q is None else self._Q(t, q, v, u)

    def inertial(self, q: Array, v: Array) -> Array:
        """b(q, v), (dim,)."""
        if self._b is not None:
            return self._b(q, v)
        euler = product(self.group.coad(product(self.mass(q), v)), v)
        if self.constant:
            return euler
        D = self.momentum_gradient(q, v)
        return product(D, v) - 0.5 * product(D.T, v) + euler

    def momentum_gradient(self, q: Array, v: Array) -> Array:
        """d(M(q exp s) v)/ds at s = 0, (dim, dim), for a fixed v."""
        return self._momentum(q, np.zeros(self.dim, int), v)

    @cached_property
    def _momentum(self) -> Function:
        group, dim = self.group, self.dim

        def momentum(q: Array, s: Array, v: Array) -> Array:
            return product(self._M(group.integrate(q, s)), v)

        return jacobian(trace(momentum, {"q": group.nq, "s": dim, "v": dim}, "momentum"), "s", "forward")

    def constraint(self, q: Array) -> Array:
        """g(q), (m,)."""
        return np.zeros(0) if self._g is None else self._g(q)

    def jacobian(self, q: Array) -> Array:
        """J(q), (m, dim)."""
        if self._J is not None:
            return self._J(q)
        return self._constraint_jacobian(q, np.zeros(self.dim, int)) if self.m else np.zeros((0, self.dim))

    @cached_property
    def _constraint_jacobian(self) -> Function:
        group = self.group

        def moved(q: Array, s: Array) -> Array:
            return self._g(group.integrate(q, s))  # type: ignore[misc]

        return jacobian(trace(moved, {"q": group.nq, "s": self.dim}, "constraint"), "s", "forward")

    @cached_property
    def _constraint_bias(self) -> Function:
        group, dim = self.group, self.dim

        def rate(q: Array, s: Array, v: Array) -> Array:
            return product(self.jacobian(group.integrate(q, s)), v)

        return jvp(trace(rate, {"q": group.nq, "s": dim, "v": dim}, "rate"), "s")

    def constraint_jerk(self, q: Array, v: Array, dv: Array) -> Array:
        """J d2v/dt2, (m,), from the third derivative of the constraints, where v and dv/dt obey the others.

        With B(v, w) = (dJ/dt along w) v:  J d2v/dt2 = -(2 B(dv, v) + B(v, dv) + (dB/dt along v)(v, v)).
        """
        still, bias = np.zeros(self.dim, int), self._constraint_bias
        return -(2 * bias(q, still, dv, v) + bias(q, still, v, dv) + self._bias_rate(q, still, v, v))

    @cached_property
    def _bias_rate(self) -> Function:
        group, dim = self.group, self.dim

        def bias(q: Array, s: Array, v: Array) -> Array:
            return self._constraint_bias(group.integrate(q, s), np.zeros(dim, int), v, v)

        return jvp(trace(bias, {"q": group.nq, "s": dim, "v": dim}, "bias"), "s")

    def acceleration(self, t: Any, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """(dv/dt, lambda) from the constraints at the level of acceleration, J dv/dt = -(dJ/dt) v.

        lambda (m,) are the exact multipliers of the state (q, v). Mueller, Terze, eq. (3).
        """
        free = self.solve_mass(q, self.applied(t, q, v, u) - self.inertial(q, v))
        if not self.m:
            return free, np.zeros(0)
        J = self.jacobian(q)
        bias = self._constraint_bias(q, np.zeros(self.dim, int), v, v)
        multipliers, change = self.react(q, product(J, free) + bias)
        return free - change, multipliers

    def react(self, q: Array, rate: Array) -> tuple[Array, Array]:
        """(x, M^-1 J^T x) with J M^-1 J^T x = rate, (m,)."""
        J = self.jacobian(q)
        inverse = self.solve_mass(q, J.T)
        A = product(J, inverse)
        if not self.redundant:
            x = solve(A, rate)
            return x, product(inverse, x)
        factors = factor(A + np.diag(_shifts(np.diagonal(A))))
        x = back_substitute(factors, rate)
        for _ in range(2):
            x = x + back_substitute(factors, rate - product(A, x))
        return x, product(inverse, x)

    def proximal(self, q: Array) -> Array:
        """-eps diag(J M^-1 J^T), (m,): what keeps the equations of a step regular where it is redundant.

        It stands in the Jacobian only, so that Newton's method goes to the same motion, with the ratio eps.
        """
        if not self.redundant:
            return np.zeros(self.m, int)
        J = self.jacobian(q)
        return -_shifts((J * self.solve_mass(q, J.T).T).sum(axis=1))


def _shifts(d: Array) -> Array:
    """eps d for the diagonal d of J M^-1 J^T; equations that hold by themselves have none, and get some."""
    return PROXIMAL * (d + FLOOR * sum(d) / len(d))


class Trajectory(NamedTuple):
    """What `MechanicalFlow.run` returns; the first axes are those of q0 and v0, then time."""

    t: np.ndarray
    """Times, (rows,)                                                        [s]"""
    q: np.ndarray
    """Coordinates, (..., rows, nq)"""
    v: np.ndarray
    """Velocities, (..., rows, dim)"""
    multipliers: np.ndarray
    """Multipliers lambda, (..., rows, m); of the accelerations if the method keeps none"""
    failed: np.ndarray
    """For each member of an ensemble, 1 + the row from which on it is NaN, or 0"""
    losses: np.ndarray
    """For each member that was lost in a step: the time at its start, and the reason"""
    steps: int = 0
    """Steps taken, of all members together"""
    rejected: int = 0
    """Steps tried in vain, under error control"""


class MechanicalFlow(ImplicitFlow):
    """The compiled steps of an implicit method for a mechanical system; made by `flow` of a method.

    mechanics  the system
    layout     which entries of a state y (point,) are what: "q", "v", and what the method remembers
    remembers  name and length of the entries after q and v
    begin      (t, q, v, u, h) -> y at the start; default: q and v alone
    """

    def __init__(
        self,
        mechanics: MechanicalEquations,
        phases: Sequence[Phase],
        finish: Callable[..., Any],
        remembers: dict[str, int] | None = None,
        begin: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        self.mechanics, self._begin = mechanics, begin
        sizes = {"q": mechanics.nq, "v": mechanics.dim, **(remembers or {})}
        ends = np.cumsum([0, *sizes.values()]).tolist()
        self.layout = {key: slice(a, b) for key, a, b in zip(sizes, ends, ends[1:], strict=False)}
        super().__init__(phases, finish, ends[-1], mechanics.efforts, **options)

    def start(self, q: Any, v: Any, t: float, h: float, u: Any = None) -> np.ndarray:
        """States y (n, point) from q (n, nq) or (nq,), v (n, dim) or (dim,), at time t before steps of h.

        u is (efforts,) or (n, efforts). What a method remembers is made consistent with (q, v), which must
        themselves be so: g(q) = 0, J(q) v = 0, to 1e-6.

        Errors: ShapeError, ConfigurationError; IntegrationError where g or J v differ from zero, or
        constraints depend on each other.
        """
        system, given = self.mechanics, np.shape(v)
        q, v = np.atleast_2d(system.group.check(q)), np.atleast_2d(np.asarray(v, float))
        if v.shape[-1] != system.dim or v.ndim != 2 or q.ndim != 2:
            raise ShapeError(f"v has shape {given}, expected ({system.dim},) or (n, {system.dim})")
        n = max(len(q), len(v))
        q, v = np.broadcast_to(q, (n, system.nq)), np.broadcast_to(v, (n, system.dim))
        if not np.isfinite(v).all():
            raise IntegrationError(f"the velocity at the start is not finite: {v[~np.isfinite(v).all(1)][0]}")
        self._consistent(q, v)
        if self._begin is None:
            return np.concatenate([q, v], axis=-1)
        if not h > 0:
            raise IntegrationError(
                f"h is {h!r}, expected the length of the steps that will follow, in seconds"
            )
        u = np.broadcast_to(np.zeros(self.efforts) if u is None else np.asarray(u, float), (n, self.efforts))
        return np.asarray(self._beginning(np.full(n, t), q, v, u, np.full(n, h)))

    def _consistent(self, q: Any, v: Any) -> None:
        m = self.mechanics.m
        if not m:
            return
        g, J, rate = self._door(q, v)
        ranks = np.linalg.matrix_rank(J, rtol=1e-10)
        if (ranks < m).any() and not self.mechanics.redundant:
            member = int(np.argmax(ranks < m))
            raise IntegrationError(
                f"the {m} constraints depend on each other where member {member} starts: their Jacobian has "
                f"rank {ranks[member]}; leave out {m - ranks[member]} of them, start at another place, or "
                "say redundant=True"
            )
        size = 1 + np.abs(v).max(axis=-1) * np.abs(J).max(axis=(-1, -2))
        for name, value, scale in (("g(q)", g, np.ones(len(q))), ("J(q) v", rate, size)):
            wrong = np.abs(value).max(axis=-1, initial=0.0) > 1e-6 * scale
            if wrong.any():
                member = int(np.argmax(wrong))
                worst = int(np.abs(value[member]).argmax())
                raise IntegrationError(
                    f"constraint {worst} of member {member} does not hold at the start: {name} is "
                    f"{value[member, worst]:.3g}, expected 0; project the state onto the constraints first"
                )

    @cached_property
    def _door(self) -> Callable[..., Any]:
        system = self.mechanics

        def constraints(q: Array, v: Array) -> tuple[Array, Array, Array]:
            J = system.jacobian(q)
            return system.constraint(q), J, product(J, v)

        return compile_numpy(trace(constraints, {"q": system.nq, "v": system.dim}, "constraints"))

    @cached_property
    def _beginning(self) -> Callable[..., Any]:
        system = self.mechanics
        assert self._begin is not None
        return compile_numpy(trace(self._begin, {**system.shapes, "h": ()}, "begin"))

    @cached_property
    def multipliers(self) -> Callable[..., Any]:
        """(t, q, v, u) -> lambda (..., m), those of the acceleration at a state; over any leading axes."""
        system = self.mechanics
        return compile_numpy(
            trace(lambda *state: system.acceleration(*state)[1], system.shapes, "multipliers")
        )

    def run(
        self,
        q0: Any,
        v0: Any,
        t_end: float,
        dt: float | None = None,
        *,
        every: int = 1,
        u: Any = None,
        t0: float = 0.0,
        threads: int = 1,
        rtol: float = 1e-8,
        atol: float = 1e-10,
        times: Any = None,
        first_step: float = 1e-3,
    ) -> Trajectory:
        """The motion from (q0, v0) at t0 to t_end, by steps of dt, or, without dt, under error control.

        q0, v0      state at the start, (..., nq) and (..., dim)
        every       record every `every`-th step, where dt is given
        u           efforts: constant, (efforts,) or (..., efforts); None: zero
        rtol, atol  of the error control: the root mean square of error_i/(atol + rtol size_i) is kept below 1
                    in each step; of velocities size_i is |v_i|, elsewhere 1
        times       increasing, from t0 to t_end: where to record, under error control; default: 1001 of equal
                    distance. Steps do not depend on them
        first_step  under error control; generalized-alpha makes its start fit it

        Errors: IntegrationError where dt is no divisor of the time or `every` none of the steps, without dt
        for methods that estimate no errors, and for a single motion that cannot go on, with time and reason.
        Members of an ensemble that are lost are NaN from there on and named in `failed` and `losses`.
        """
        t = self._times(t0, t_end, dt, every, times)
        h = first_step if dt is None else dt
        q0, v0 = np.asarray(q0, float), np.asarray(v0, float)
        batch = np.broadcast_shapes(q0.shape[:-1], v0.shape[:-1])
        n, m, dim, nq = math.prod(batch), self.efforts, self.mechanics.dim, self.mechanics.nq
        if n > 1 or batch:
            q0 = np.broadcast_to(q0, (*batch, nq)).reshape(n, nq)
            v0 = np.broadcast_to(v0, (*batch, dim)).reshape(n, dim)
        u = np.zeros(m) if u is None else np.asarray(u, float)
        table = np.ascontiguousarray(np.broadcast_to(u, (*batch, m)).reshape(n, 1, m))
        y = self.start(q0, v0, t0, h, table[:, 0])
        record = np.full((n, len(t), self.point), np.nan)
        record[:, 0] = y
        record[:, 0, self.layout["v"]] = v0
        failed, losses = np.zeros(n, np.int64), np.zeros((n, 2))
        if dt is None:
            members = Ensemble(y, t, h)
            members.record[:, 0] = record[:, 0]
            self.march(members, table, len(t), Settings(rtol, atol), threads)
            record, losses, ended = members.record, members.ends, members.ends[:, 1] > 0
            failed[ended] = members.clock["row"][ended] + 1
            taken = int(members.counts[:, 2].sum()), int(members.counts[:, 3].sum())
        else:
            taken = (len(t) - 1) * every * n, 0
            self.steps(
                y, table, t0, dt, taken[0] // n, every, record, 1, failed, threads=threads, losses=losses
            )
        for i in np.flatnonzero(failed):
            record[i, failed[i] :] = np.nan
            if not batch:
                raise IntegrationError(self.complaint(t[failed[i] - 1], losses[i]))
        q, v = record[..., self.layout["q"]], record[..., self.layout["v"]]
        if "multipliers" in self.layout:
            found = record[..., self.layout["multipliers"]]
        else:
            found = self.multipliers(np.broadcast_to(t, q.shape[:-1]), q, v, table)
        shape = (*batch, len(t))
        return Trajectory(
            t,
            q.reshape(*shape, nq),
            v.reshape(*shape, dim),
            found.reshape(*shape, -1),
            failed,
            losses,
            *taken,
        )

    def _times(self, t0: float, t_end: float, dt: float | None, every: int, times: Any) -> np.ndarray:
        """The times of the record."""
        if dt is not None:
            steps = round((t_end - t0) / dt) if dt > 0 else 0
            if steps < 1 or abs(t0 + steps * dt - t_end) > 1e-6 * dt or steps % every:
                raise IntegrationError(
                    f"steps of {dt} s, every {every} of them recorded, do not make up the time from {t0} to "
                    f"{t_end} s; take dt and every such that they do"
                )
            return np.asarray(t0 + dt * every * np.arange(steps // every + 1))
        t = np.linspace(t0, t_end, 1001) if times is None else np.ascontiguousarray(times, float)
        if t.ndim != 1 or len(t) < 2 or not (np.diff(t) > 0).all() or t[0] != t0 or t[-1] != t_end:
            raise IntegrationError(
                f"times must increase from t0 = {t0} to t_end = {t_end} s, with these two among them"
            )
        return t

    def complaint(self, reached: float, loss: Any) -> str:
        """What to say of a motion known up to the time `reached`, from its row of `losses`."""
        at, reason = float(loss[0]), int(loss[1])
        if reason:
            return f"the step at t = {at:.9g} s cannot be taken: {REASONS[reason]}"
        return (
            f"the state is not finite after t = {reached:.9g} s; take a shorter step, and look at the forces"
        )


class MechanicalMethod:
    """A method for mechanical systems: `flow` makes its compiled steps, `_flow` says what they are."""

    name: str
    order: int
    takes_constraints = True
    takes_velocity_constraints = False
    estimates_errors = False

    def flow(
        self,
        group: LieGroup,
        M: Any,
        Q: Callable[..., Any] | None = None,
        g: Callable[[Any], Any] | None = None,
        J: Callable[[Any], Any] | None = None,
        *,
        b: Callable[..., Any] | None = None,
        efforts: int = 0,
        redundant: bool = False,
        tolerance: float = 1e-15,
        recipe: str | None = None,
    ) -> MechanicalFlow:
        """The compiled steps of this method for M dv/dt + b + J^T lambda = Q, g = 0: `MechanicalEquations`.

        tolerance  of Newton's method, relative; the default is round-off
        recipe     a text that determines all arguments, with which compiled code is found untraced
        """
        system = MechanicalEquations(group, M, Q, g, J, b, efforts, redundant)
        if system.m and not self.takes_constraints:
            raise IntegrationError(
                f"{self.name} takes no constraints; take 'generalized-alpha', 'variational' or "
                "'half-explicit4'"
            )
        if not system.holonomic and not self.takes_velocity_constraints:
            raise IntegrationError(
                f"{self.name} needs the constraints as g(q) = 0, not only J; half-explicit and Radau methods "
                "take J alone"
            )
        return self._flow(system, tolerance=tolerance, recipe=f"{recipe} {self!r}" if recipe else None)

    def _flow(self, system: MechanicalEquations, **options: Any) -> MechanicalFlow:
        raise NotImplementedError
