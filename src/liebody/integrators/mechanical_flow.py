"""Compiled steps of implicit methods for mechanical systems: the start, the steps, and a run of them.

flow = GeneralizedAlpha(rho_inf=0.9).flow(group, M, Q, g)  # or Variational(), RadauIIA(5), Gauss(4), ...
flow = mechanical_method("generalized-alpha").flow(...)    # the same by name
y = flow.start(q, v, t, h)                                 # (n, point): q, v, what the method remembers
flow.steps(y, u, t, h, steps, every, record, row, failed)  # as `Flow.steps`; record (n, rows, point)
record[..., flow.layout["v"]]                              # "q", "v"; also "multipliers" where remembered
flow.march(Ensemble(y, times, h), u, rows, Settings())     # under error control, where it has that
flow.run(q, v, t_end, dt)                                  # the same in one call: a Trajectory
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import SECONDS, IntegrationError, positive
from ..compiler import trace
from ..compiler.graph.graph import undisturbed
from ..compiler.printers.numpy_source import compile_numpy
from ..groups.product import slices
from ..scalars import Array
from ..stepping import Clock, Drive, ImplicitFlow, Samples
from ..stepping.march import Ensemble, Settings
from ..stepping.records import Phase
from .equations import MechanicalEquations
from .saddle_point import independent
from .trajectory import Trajectory, complaint, members_of

MANY = 100  # unknowns per member from which on states start in floats
CONSISTENT = 1e-6  # largest g and J v of a start, of J v relative to the sizes of J and v


class Stages(NamedTuple):
    """Quadrature of a method within a step, at its first nodes, for integrals of functions of the state.

    weights  b_i, of the integral h sum_i b_i l(t + c_i h, q_i, v_i)
    states   (z, t, h, y, u) -> q_i and v_i of all stages, joined
    """

    weights: Sequence[float]
    states: Callable[..., Any]


class MechanicalFlow(ImplicitFlow):
    """The compiled steps of an implicit method for a mechanical system; `MechanicalMethod.flow` makes it.

    mechanics  the system
    layout     slices of a state y (point,) by name: "q", "v", and the quantities that the method remembers
    remembers  name and length of the entries after q and v
    begin      (t, q, v, u, h) -> y at the start, which can be traced; None: q and v alone
    stages     stages of the method; None for methods of second order, which sum by the trapezoidal rule
    """

    def __init__(
        self,
        mechanics: MechanicalEquations,
        phases: Sequence[Phase],
        finish: Callable[..., Any],
        remembers: dict[str, int] | None = None,
        begin: Callable[..., Any] | None = None,
        stages: Stages | None = None,
        **options: Any,
    ) -> None:
        self.mechanics = mechanics
        self.begin = begin
        self.stages = stages
        sizes = {"q": mechanics.nq, "v": mechanics.dim, **(remembers or {})}
        self.layout = dict(zip(sizes, slices([*sizes.values()]), strict=True))
        super().__init__(phases, finish, sum(sizes.values()), mechanics.efforts, **options)

    def start(self, q: Any, v: Any, t: float, h: float, u: Any = None) -> np.ndarray:
        """States y (n, point) from q (n, nq) or (nq,), v (n, dim) or (dim,), at time t before steps of h.

        u is (efforts,) or (n, efforts). Quantities that a method remembers follow from (q, v), which must
        obey the constraints: g(q) = 0, J(q) v = 0, to 1e-6.

        Errors: ShapeError, ConfigurationError; IntegrationError where g or J v differ from zero, or
        constraints depend on each other.
        """
        system = self.mechanics
        shape = np.shape(v)
        q = np.atleast_2d(system.group.check(q))
        v = np.atleast_2d(np.asarray(v, float))
        if v.shape[-1] != system.dim or v.ndim != 2 or q.ndim != 2:
            raise wrong_shape("v", shape, f"({system.dim},) or (n, {system.dim})")
        n = max(len(q), len(v))
        q = np.broadcast_to(q, (n, system.nq))
        v = np.broadcast_to(v, (n, system.dim))
        if not np.isfinite(v).all():
            raise IntegrationError(f"the velocity at the start is not finite: {v[~np.isfinite(v).all(1)][0]}")
        plain = self._plainly(n)
        with undisturbed():
            self._consistent(t, q, v, plain)
        if self.begin is None:
            return np.concatenate([q, v], axis=-1)
        if not h > 0:
            raise IntegrationError(
                f"h is {h!r}, expected the length of the steps that will follow, in seconds"
            )
        u = np.broadcast_to(np.zeros(self.efforts) if u is None else np.asarray(u, float), (n, self.efforts))
        if plain:
            with undisturbed():
                return np.array([self.begin(t, *state, h) for state in zip(q, v, u, strict=True)], float)
        return np.asarray(self._beginning(np.full(n, t), q, v, u, np.full(n, h)))

    def _plainly(self, members: int) -> bool:
        """Whether states start in floats: for few members with many unknowns, tracing takes longer."""
        return MANY * members <= self.mechanics.dim + self.mechanics.m

    def _consistent(self, t: float, q: Any, v: Any, plain: bool) -> None:
        """Raise IntegrationError for a member whose constraints are dependent, or do not hold at (q, v)."""
        system = self.mechanics
        m = system.m
        if not m:
            return
        if plain:
            measured = [self._measured(t, *state) for state in zip(q, v, strict=True)]
            g, largest, rate, ranks = (np.array(x, float) for x in zip(*measured, strict=True))
        else:
            g, J, rate = self._constraints(np.full(len(q), t), q, v)
            largest, ranks = np.abs(J).max(axis=(-1, -2)), np.linalg.matrix_rank(J, rtol=1e-10)
        if (ranks < m).any() and not system.redundant:
            member = int(np.argmax(ranks < m))
            some = f"{m - ranks[member]:g}" if not plain else "some"
            raise IntegrationError(
                f"the {m} constraints depend on each other where member {member} starts"
                + (f": their Jacobian has rank {ranks[member]}" if not plain else "")
                + f"; leave out {some} of them, start at another place, or say redundant=True"
            )
        # J v is a sum of products, so its error grows with the sizes of J and of v
        size = 1 + np.abs(v).max(axis=-1) * largest
        for name, value, scale in (("g(q)", g, np.ones(len(q))), ("J(q) v", rate, size)):
            wrong = np.abs(value).max(axis=-1, initial=0.0) > CONSISTENT * scale
            if wrong.any():
                member = int(np.argmax(wrong))
                worst = int(np.abs(value[member]).argmax())
                raise IntegrationError(
                    f"constraint {worst} of member {member} does not hold at the start: {name} is "
                    f"{value[member, worst]:.3g}, expected 0; project the state onto the constraints first"
                )

    @cached_property
    def _constraints(self) -> Callable[..., Any]:
        """(t, q, v) -> g, J and J v + drift, over arrays of members."""
        system = self.mechanics

        def constraints(t: Any, q: Array, v: Array) -> tuple[Array, Array, Array]:
            return system.constraint(q), system.jacobian(q, t), system.velocity_defect(t, q, v)

        return compile_numpy(trace(constraints, {"t": (), "q": system.nq, "v": system.dim}, "constraints"))

    def _measured(self, t: float, q: Array, v: Array) -> tuple[Array, float, Array, int]:
        """g, the largest entry of J, J v, and a rank: m, or m - 1 where constraints depend on each other."""
        system = self.mechanics
        entries = system.entries(q, t)
        rank = system.m - (not system.redundant and not independent(entries, system.m, system.dim))
        defect = system.velocity_defect(t, q, v)
        return system.constraint(q), max(abs(x) for _, _, x in entries), defect, rank

    @cached_property
    def _beginning(self) -> Callable[..., Any]:
        """`begin`, over arrays of members."""
        system = self.mechanics
        assert self.begin is not None
        return compile_numpy(trace(self.begin, {**system.shapes, "h": ()}, "begin"))

    @cached_property
    def multipliers(self) -> Callable[..., Any]:
        """(t, q, v, u) -> lambda (..., m), the multipliers of the acceleration; over any leading axes."""
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
        tau: Any = None,
        record_every: float | None = None,
        t_eval: Any = None,
        rtol: float = 1e-8,
        atol: float = 1e-10,
        threads: int | None = None,
        first_step: float = 1e-3,
    ) -> Trajectory:
        """The motion from (q0, v0) over [0, t_end], by steps of dt, or, without dt, under error control.

        q0, v0        state at the start, (..., nq) and (..., dim)
        tau           efforts: constant, (efforts,) or (..., efforts); None: zero
        record_every  time between recorded states; default: every step, or so that there are at most 1000 [s]
        t_eval        times of the recorded states, increasing from 0 to t_end, in place of record_every.
                      Steps under error control do not depend on them                                      [s]
        rtol, atol    of the error control: the root mean square of error_i/(atol + rtol size_i) is kept below
                      1 in each step; of velocities size_i is |v_i|, elsewhere 1
        threads       threads that share an ensemble; default: all processors, where several are sooner done
        first_step    under error control; generalized-alpha makes its start fit it                        [s]

        Errors: IntegrationError where dt does not divide t_end or the times of the record, without dt for
        methods that estimate no errors, and for a single motion that cannot go on, with time and reason.
        Members of an ensemble that are lost are NaN from there on and named in `failed` and `losses`.
        """
        t_end = positive("t_end", t_end, SECONDS)
        if dt is not None:
            dt = positive("dt", dt, SECONDS)
            # a dt that is typed with some digits, such as 0.333333 / 10, divides the time nearly
            near = max(1, round(t_end / dt)) * dt
            t_end = near if abs(near - t_end) <= 1e-6 * dt else t_end
        clock = Clock(t_end, dt, record_every, t_eval)
        if not clock.is_even:
            raise IntegrationError(
                f"steps of dt = {dt} s do not make up the times up to {t_end} s; take a dt that divides them"
            )
        first = positive("first_step", first_step, SECONDS) if dt is None else dt
        sizes = (self.mechanics.nq, self.mechanics.dim, self.efforts)
        batch, q0, v0, table = members_of(q0, v0, tau, sizes)
        # under error control the first length is a guess; a method that remembers accelerations starts with
        # it
        members = Ensemble(self.start(q0, v0, 0.0, first, table[:, 0]), clock.times, first)
        members.record[:, 0, self.layout["v"]] = v0  # the user's: a method may start with another one
        settings = Settings(rtol, atol) if dt is None else None
        drive = Drive(self, members, Samples(table), clock, settings, threads)
        drive.go()
        if drive.interrupted:
            raise drive.interrupted
        t, record = drive.record()
        if not batch and drive.failed[0]:
            raise IntegrationError(complaint(t[drive.failed[0] - 2], members.ends[0]))
        shape = (*batch, len(t), -1)
        q, v, multipliers = (x.reshape(shape) for x in self._parts_of(record, t, table))
        taken, rejected = members.counts[:, 2:].sum(axis=0).tolist()
        steps = taken if dt is None else len(record) * len(clock.steps)
        return Trajectory(t, q, v, multipliers, drive.failed, members.ends, steps, rejected)

    def _parts_of(self, record: Any, t: Any, efforts: Any) -> tuple[Any, Any, Any]:
        """q, v and multipliers of a record; multipliers that the method does not remember are computed."""
        q, v = record[..., self.layout["q"]], record[..., self.layout["v"]]
        if "multipliers" in self.layout:
            return q, v, record[..., self.layout["multipliers"]]
        return q, v, self.multipliers(np.broadcast_to(t, q.shape[:-1]), q, v, efforts)


def with_parameters(flow: MechanicalFlow, at: Callable[[Any], MechanicalFlow]) -> MechanicalFlow:
    """The flow that takes its functions from the flow `at(u)`, u being the efforts and parameters of a call.

    The functions of `flow` know the equations at fixed parameters only. Each is replaced by one that makes
    the flow for the parameters it is called with, finds the same function in it, and calls that: so traced
    code has the parameters as symbols. `flow` itself says which functions there are.
    """

    def bound(*path: Any, place: int = -1) -> Any:
        """The function at the end of a path in a flow, u being its argument at this place; None: none."""

        def function(*arguments: Any) -> Any:
            u = np.asarray(arguments[place])
            return _reached(at(u[0] if u.ndim == 2 else u), path)(*arguments)  # u may be given at nodes

        return function if _reached(flow, path) else None

    def phases(*path: Any) -> tuple[Phase, ...]:
        names = ("predict", "residual", "keep", "soften")
        numbered = enumerate(_reached(flow, path))
        return tuple(replace(phase, **{x: bound(*path, k, x) for x in names}) for k, phase in numbered)

    other = copy.copy(flow)
    other.phases = phases("phases")
    other.finish = bound("finish")
    other.begin = bound("begin", place=-2)
    if flow.control:
        error, between = (bound("control", x, place=-2) for x in ("error", "between"))
        other.control = replace(
            flow.control, phases=phases("control", "phases"), error=error, between=between
        )
    if flow.memory:
        other.memory = replace(flow.memory, restart=bound("memory", "restart"))
    return other


def _reached(value: Any, path: Sequence[Any]) -> Any:
    """Follow a path of attribute names and positions from a value."""
    for key in path:
        value = value[key] if isinstance(key, int) else getattr(value, key)
    return value
