"""Periodic orbits, also relative to symmetries, and their Floquet multipliers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import attrgetter
from typing import Any

import numpy as np

from ..base.arguments import floats, vector, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError, positive
from ..hybrid import HybridSystem
from ..runs import HybridRun
from .segments import Array, Events, GaitError, Point
from .shooting import Shooting, Shot

ENOUGH = 1e-9  # of the residual, over the scale


@dataclass(frozen=True, eq=False)
class PeriodicOrbit:
    """A motion with g(T) = h(s) g(0) and v(T) = v(0), where h(s) = exp(s_j xi_j) along the symmetries.

    q, v         its start, (nq,), (nv,): on the section, if it has one
    nodes        the starts of its segments, q (m, nq) and v (m, nv)
    period       T [s]; shift: s (k,)
    parameters   all that differ from the defaults of the system, by name
    events       guards and directions on the way, in their order, without the returns to the section
    residual     of the equations, over their scale
    derivative   of the state after a period by its start, (2 nv, 2 nv): of the return map, or at T
    family       number of further directions with orbits beside it, as with a conserved energy
    """

    shooting: Shooting
    point: Point
    shot: Shot

    system = property(attrgetter("shooting.system"))
    nodes = property(attrgetter("point.q", "point.v"))
    period = property(attrgetter("point.period"))
    shift = property(attrgetter("point.shift"))
    parameters = property(attrgetter("point.parameters"))
    residual = property(attrgetter("shot.size"))

    @property
    def q(self) -> Array:
        return self.point.q[0]

    @property
    def v(self) -> Array:
        return self.point.v[0]

    @property
    def events(self) -> Events:
        return tuple(event for arc in self.shot.arcs for event in arc.end.events)

    @cached_property
    def derivative(self) -> Array:
        n = 2 * self.system.nv
        return reduce(lambda D, arc: arc.D[:, :n] @ D, self.shot.arcs, np.eye(n))

    @cached_property
    def monodromy(self) -> Array:
        """The derivative of the state at the time T by the state at the start, (2 nv, 2 nv)."""
        n = 2 * self.system.nv
        # at fixed times: the time that a segment takes does not follow the start
        fixed = [arc.D[:, :n] - np.outer(arc.rate, arc.late[:n]) for arc in self.shot.arcs]
        return reduce(lambda M, D: D @ M, fixed, np.eye(n))

    @cached_property
    def trivial(self) -> dict[str, Array]:
        """Directions (2 nv,) in which the orbit only moves along itself: the flow, and each symmetry."""
        directions = {}
        if self.shooting.known_period is None:
            directions["orbit"] = self.shot.arcs[-1].rate
        along = self.shooting.along_symmetries(self.q)
        return {**directions, **{f"symmetry {j + 1}": x for j, x in enumerate(along.T)}}

    @cached_property
    def across(self) -> tuple[Array, Array]:
        """The trivial directions, and an orthonormal basis across them, in columns over the scale."""
        n = 2 * self.system.nv
        along = [x / self.shooting.scale for x in self.trivial.values()]
        U = np.stack(along, axis=1) if along else np.zeros((n, 0))
        return U, _across(U)

    @cached_property
    def across_symmetries(self) -> Array:
        """An orthonormal basis across the symmetries alone, in columns over the scale."""
        return _across(self.shooting.along_symmetries(self.q) / self.shooting.scale[:, None])

    @cached_property
    def family(self) -> int:
        """How many zero singular values the equations have beyond the trivial directions."""
        # moves along the orbit and its symmetries are null vectors of every orbit
        sizes = np.linalg.svd(self.shot.jacobian, compute_uv=False)
        rank = int(np.count_nonzero(sizes > 1e-6 * sizes[0]))
        moves = self.shooting.free_period + len(self.shift)
        return self.shooting.size - rank - moves

    @cached_property
    def across_trivial(self) -> Array:
        """The monodromy, over the scale, on the quotient by the trivial directions: W^T M W."""
        scale = self.shooting.scale
        _, W = self.across
        return W.T @ (self.monodromy * scale / scale[:, None]) @ W

    @cached_property
    def multipliers(self) -> Array:
        """Floquet multipliers without the trivial ones, the largest first."""
        return largest_first(np.linalg.eigvals(self.across_trivial))

    @property
    def stable(self) -> bool:
        return bool(np.all(np.abs(self.multipliers) < 1))

    def __repr__(self) -> str:
        moves = f", shift {np.array2string(self.shift, precision=6)}" if len(self.shift) else ""
        return (
            f"PeriodicOrbit({self.system.name!r}, period {self.period:.9g} s{moves}, largest multiplier "
            f"{largest_multiplier(self):.6g}, residual {self.residual:.1e})"
        )

    def simulate(self, periods: float = 1.0, **options: Any) -> HybridRun:
        """The motion from its start, over so many periods.

        options  of `HybridSystem.simulate`, where they differ from the orbit's, also some parameters
        """
        parameters = {**self.parameters, **options.pop("parameters", {})}
        defaults = self.shooting.options(parameters, self.period / self.shooting.segments)
        return self.shooting.motion.simulate(
            self.q, self.v, t_end=periods * self.period, **(defaults | options)
        )

    def coordinates(self, q: Array, v: Array) -> Array:
        """How far states (..., nq), (..., nv) are from the start, (..., 2 nv), symmetries left out.

        The symmetric state h(s) (q0, v0) nearest to each is found by Newton's method in s.
        """
        q = np.asarray(q, float)
        v = np.asarray(v, float)
        if q.ndim > 1:
            return np.stack([self.coordinates(a, b) for a, b in zip(q, v, strict=True)])
        return np.concatenate([self.shooting.nearest_shift(self.q, q)[1], v - self.v])

    def with_unknowns(self, *names: str) -> PeriodicOrbit:
        """The same orbit, with the derivatives by these parameters."""
        shooting = self.shooting.with_unknowns(names)
        point = replace(self.point, parameters=_values(self.system, self.parameters, names))
        return PeriodicOrbit(shooting, point, shooting.shoot(point))

    def with_parameters(self, tolerance: float = ENOUGH, tries: int = 20, **values: Any) -> PeriodicOrbit:
        """The orbit next to this one with other values of parameters, by Newton's method from this one.

        Errors: GaitError where there is none near.
        """
        self.system.parameters.values(values, ())  # refuses unknown names
        point = replace(self.point, parameters={**self.point.parameters, **values})
        point = replace(point, period=self.shooting.period_of(point))
        point, shot, _ = self.shooting.solve(point, tolerance, tries)
        return PeriodicOrbit(self.shooting, point, shot)

    @cached_property
    def by_unknowns(self) -> Array:
        """The derivative (2 nv, p) of the state after a period by the unknown parameters."""
        n = 2 * self.system.nv
        start = np.zeros((n, self.shooting.columns - n))
        return reduce(lambda B, arc: arc.D[:, :n] @ B + arc.D[:, n:], self.shot.arcs, start)


def largest_multiplier(of: Any) -> float:
    """The largest modulus of the Floquet multipliers of an orbit, with feedback or without."""
    return float(np.abs(of.multipliers).max(initial=0.0))


def largest_first(values: Array) -> Array:
    """Multipliers by their moduli."""
    return values[np.argsort(-np.abs(values), kind="stable")]


def _across(U: Array) -> Array:
    """An orthonormal basis of the complement of the columns of U (n, k)."""
    return np.linalg.qr(np.concatenate([U, np.eye(len(U))], axis=1))[0][:, U.shape[1] : len(U)]


def periodic_orbit(
    system: HybridSystem,
    q0: Any,
    v0: Any = None,
    *,
    period: float | Callable[..., Any],
    section: str | tuple[str, int] | None = None,
    symmetries: Any = (),
    shift: Any = None,
    segments: int = 1,
    parameters: Mapping[str, Any] | None = None,
    unknowns: Sequence[str] = (),
    conditions: Callable[..., Any] | None = None,
    scale: Any = 1.0,
    tolerance: float = ENOUGH,
    tries: int = 20,
    difference: float | None = None,
    **options: Any,
) -> PeriodicOrbit:
    """The periodic orbit of a hybrid system next to a guess, by Newton's method with exact derivatives.

    system      a HybridSystem, such as `hybrid.robot_system` makes of a robot, with or without events
    q0, v0      a guess of its start, (nq,), (nv,); v0: at rest
    period      a guess of the period [s]; or a function of the parameters that is the period, for systems
                that are driven in time: `lambda p: 2 * pi / p.frequency`
    section     name of a guard, or (name, direction): the orbit starts just after an event of it and closes
                at the next one, after half of the guessed period at least. None: the period is an unknown,
                and the orbit starts anywhere along itself
    symmetries  algebra vectors xi (k, nv) of rigid motions h = exp(s xi) of the whole, under which the
                equations do not change, as a robot's along the ground: g(T) = h g(0), s is unknown
    shift       a guess of s, (k,); default: the shift of the guess in one period
    segments      into how many segments it is cut: multiple shooting. With a section each ends at a return,
                so that segments=2 is an orbit that closes at its second return
    parameters  values that differ from the defaults
    unknowns    names of parameters that are unknown, too, as many as there are conditions
    conditions  (q, v, T, s, p) -> numbers that are to be zero, of the start, the period, the shift, the
                parameters: `lambda q, v, T, s, p: [s[0] / T - 0.5]`
    scale       small changes of (q, v), (2 nv,), or a number: residuals and steps are measured by it
    tolerance   of the residual over the scale; tries: most steps of Newton's method
    difference  None: derivatives through the flow. Else the step of central differences over the scale, for
                motions that are rough on a small scale, as with a foot that chatters
    options     of `HybridSystem.simulate`: dt, method, limit, least, ...

    The memory of the system at the start must follow from q and v, as its `start` gives it. Conserved
    quantities, as energy without dissipation, leave a family of orbits: the nearest one is found, unless
    conditions choose.

    Errors: GaitError where no orbit is found. It says why: the motion ends or does not return, the order of
    events changes, or Newton's method does not converge.
    """
    # The function is long by its arguments and their text.

    # the guess, and options that would contradict it
    q0 = vector("q0", q0, system.nq)
    v0 = vector("v0", np.zeros(system.nv) if v0 is None else v0, system.nv)
    for name in ("t_end", "record_every"):
        if name in options:
            raise ConfigurationError(f"{name} is not for orbits: give period, a guess")
    known = period if callable(period) else None
    if known and segments > 1:
        raise ConfigurationError(
            "an orbit that is driven in time is one segment; segments would start at other times"
        )
    # unknowns and equations; the period of a driven system is known
    shooting = Shooting(
        system, section=section, segments=segments, symmetries=symmetries, unknowns=unknowns,
        conditions=conditions, known_period=known, scale=scale, simulation=options, difference=difference,
    )  # fmt: skip
    values = _values(system, parameters or {}, unknowns)
    T = 1.0 if known else positive("period", period, " of seconds")
    first = Point(q0[None], v0[None], T, np.zeros(len(shooting.symmetries)), values)
    at = _guess(shooting, replace(first, period=shooting.period_of(first)), shift)
    # Newton's method from nodes along the simulated guess
    point, shot, _ = shooting.solve(at, tolerance, tries)
    orbit = PeriodicOrbit(shooting, point, shot)
    # equations hold for one period; memory that q and v do not tell shows in the second one
    _closes_again(orbit, max(1e3 * tolerance, 1e-5))
    return orbit


def _values(system: HybridSystem, given: Mapping[str, Any], unknowns: Sequence[str]) -> dict[str, Any]:
    system.parameters.values(given, ())  # refuses unknown names
    defaults = {name: x[()] for name, x in system.parameters.defaults.items() if name in unknowns}
    return {**defaults, **given}


def _guess(shooting: Shooting, first: Point, shift: Any) -> Point:
    """Nodes and shift along the motion from the first one."""
    time = first.period / shooting.segments
    at = (first.q[0], first.v[0])
    nodes = [at]
    # one segment after the other: each start is the end of the segment before
    for _ in range(shooting.segments):
        q, v = (x[None] for x in at)
        _, (end,) = shooting.arrive(shooting.flow, q, v, first.parameters, time)
        at = end.q, end.v
        nodes.append(at)
    # the shift by which the end is nearest to the start is the guess, unless the user gives one
    s = shooting.nearest_shift(first.q[0], at[0])[0] if shift is None else floats("shift", shift)
    if s.shape not in ((), first.shift.shape):
        raise wrong_shape("shift", s.shape, f"{first.shift.shape}, one for each symmetry")
    q, v = (np.stack(x) for x in zip(*nodes[:-1], strict=True))
    return replace(first, q=q, v=v, shift=np.broadcast_to(s, first.shift.shape))


def _closes_again(orbit: PeriodicOrbit, allowed: float) -> None:
    """Refuse orbits of a system that remembers more at the section than its start tells.

    The second period, simulated after the first without a break, must end where the first does.
    """
    shooting = orbit.shooting
    T = orbit.period
    m = orbit.shooting.segments
    # a little longer than two periods, so that the return is not missed
    periods = 2.3 if shooting.section else 2.0
    arguments = shooting.options(orbit.parameters, T / m)
    run = shooting.flow.simulate(
        orbit.q, orbit.v, t_end=periods * T, **{**arguments, "record_every": periods * T}
    )
    q = run.final.q
    v = run.final.v
    # with a section: the state at the last return of the second period
    returns = shooting.returns(run.events, T / m)
    if len(returns) >= 2 * m:
        last = returns[2 * m - 1]
        q = run.events.q[last]
        v = run.events.v[last]
    away = np.abs(orbit.coordinates(q, v) / shooting.scale).max()
    if not away < allowed * (1 + np.abs(orbit.derivative).max()) ** 2:
        raise GaitError(
            f"one period closes, but the next one ends {away:.1e} away from it: the system remembers "
            "something at the start of an orbit that does not follow from q and v. Let its `start` give it, "
            "or choose another section"
        )
