"""Shooting: the equations of a periodic orbit, with their derivatives through the hybrid flow.

An orbit is cut into segments i = 0 ... m-1 that start at nodes y_i = (q_i, v_i). With the flow phi, its
unknowns are the nodes, the period T, the shift s along symmetries, and parameters p:

    q: log((q_i+1)^-1 phi_q(y_i)) = 0,    v: phi_v(y_i) - v_i+1 = 0,     y_m = h(s) y_0,  h(s) = exp(s_j xi_j)

A segment ends at its part of the period, or where it returns to a section, whose time follows from the start.
The flow is differentiated with saltation at events (`hybrid.VariedSystem`), or by differences.
Newton's method takes the smallest change that solves the linear equations, so that no condition has to fix
the place along the orbit or along a symmetry (Deuflhard 1984).

Stoer, Bulirsch (2002), section 7.3.5; Marsden, Montgomery, Ratiu (1990), relative equilibria and orbits;
Leine, Nijmeijer (2004), chapter 7.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ..base.concurrency import cached_property
from ..compiler import FlatLayout, Kernel, trace
from ..groups import along_direction
from ..hybrid import with_changes
from ..scalars.linear import solve
from .segments import Arc, Array, GaitError, Point, Segments, named

RANK = 1e-9  # singular values below this share of the largest one count as zero
LONGEST = 2.0  # step, over the unit, next to a known orbit
PATIENCE = 3  # how often the residual may grow, as where an event comes or goes
TRIALS = (1.0, 0.5, 0.25, 0.1, 0.03)  # parts of Newton's step that are tried


@dataclass(frozen=True)
class Shot:
    """The equations at a point: residual r over the scale, Jacobian dr by the scaled unknowns, segments."""

    residual: Array
    jacobian: Array
    arcs: list[Arc]

    @property
    def size(self) -> float:
        return float(np.abs(self.residual).max(initial=0.0))


T = TypeVar("T")
Search = Generator[Point, Shot, T]


class Shooting(Segments):
    """The equations of a periodic orbit: its unknowns, the residuals with their Jacobian, Newton's method."""

    # The class is long because residuals, derivatives and steps share the layout of the unknowns.

    def with_unknowns(self, names: Sequence[str], **sizes: float) -> Shooting:
        """The same equations, with these parameters as unknowns; sizes: small changes of some of them."""
        return replace(self, unknowns=names, sizes={**self.sizes, **sizes})

    def doubled(self) -> Shooting:
        """The equations of orbits that close after twice the time."""
        period = self.known_period
        twice = None if period is None else lambda p: 2 * period(p)
        return replace(self, segments=2 * self.segments, known_period=twice)

    # -- unknowns -------------------------------------------------------------------------------------------

    @property
    def free_period(self) -> bool:
        return self.section is None and self.known_period is None

    @cached_property
    def layout(self) -> FlatLayout:
        """How the unknowns stand in a row: nodes, the period if it is free, the shift, parameters."""
        nv = self.system.nv
        shapes: dict[str, Any] = {"nodes": (self.segments, 2 * nv), "period": int(self.free_period)}
        shapes |= {"shift": len(self.symmetries), "parameters": self.columns - 2 * nv}
        return FlatLayout("unknown", {name: np.zeros(shape) for name, shape in shapes.items()})

    @property
    def size(self) -> int:
        """How many unknowns there are."""
        return self.layout.size

    def unit(self, at: Point) -> Array:
        """The scales of the unknowns: `scale`, the period, one, the sizes of the parameters."""
        T = [at.period] if self.free_period else []
        nodes = np.tile(self.scale, self.segments)
        return np.concatenate([nodes, T, np.ones(len(self.symmetries)), self._sizes(at)])

    def moved(self, at: Point, x: Array) -> Point:
        """The point, moved by x times the unit."""
        nv = self.system.nv
        group = self.system.group
        # unknowns are measured by their units: back to radians, metres, seconds
        change = x * self.unit(at)
        nodes, period, shift, p = (change[place] for place in self.layout.places.values())
        nodes = nodes.reshape(self.segments, 2 * nv)
        q = [np.asarray(group.integrate(*y), float) for y in zip(at.q, nodes[:, :nv], strict=True)]
        parameters = with_changes(at.parameters, self.unknowns, p)
        v = at.v + nodes[:, nv:]
        T = at.period + float(period.sum())
        return Point(np.stack(q), v, T, at.shift + shift, parameters)

    def between(self, a: Point, b: Point) -> Array:
        """The x with b = moved(a, x)."""
        eta = [np.asarray(self.system.group.difference(*y), float) for y in zip(a.q, b.q, strict=True)]
        T = [b.period - a.period] if self.free_period else []
        p = [np.subtract(b.parameters[name], a.parameters[name]) for name in self.unknowns]
        nodes = np.concatenate([eta, b.v - a.v], axis=1)
        return self.layout.write([nodes, T, b.shift - a.shift, *p]) / self.unit(a)

    def phases(self, at: Point, shot: Shot) -> Array:
        """Rows (n, size) of changes that only move an orbit along itself or its symmetries."""
        # unit vectors along the flow and the symmetries, at the first node
        moves = [self.along_symmetries(at.q[0])]
        if self.free_period:
            moves.append(shot.arcs[-1].rate[:, None])
        rows = (np.concatenate(moves, axis=1) / self.scale[:, None]).T
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.concatenate([rows, np.zeros((len(rows), self.size - rows.shape[1]))], axis=1)

    # -- the equations --------------------------------------------------------------------------------------

    def shifted(self, q: Array, s: Array) -> Array:
        """h(s) q = q exp(Ad(q^-1) xi s)."""
        group = self.system.group
        if not len(self.symmetries):
            return np.asarray(q)
        inverse = group.Ad(group.inverse(group.element(q)))
        return np.asarray(group.integrate(q, inverse @ (s @ self.symmetries)))

    def nearest_shift(self, q0: Array, q: Array) -> tuple[Array, Array]:
        """(s, log((h(s) q0)^-1 q)), with that logarithm orthogonal to the symmetries: q without its place."""
        s = np.zeros(len(self.symmetries))
        for _ in range(20):
            s, e, change = self._nearer(q0, q, s)
            if np.abs(change).max(initial=0.0) <= 1e-14 * (1 + np.abs(s).max(initial=0.0)):
                break
        return s, e

    def _nearer(self, q0: Array, q: Array, s: Array) -> tuple[Array, Array, Array]:
        """A step of Newton's method towards the nearest shift: s after it, the logarithm before it, ds."""
        # least squares: the logarithm becomes orthogonal to the symmetries
        group = self.system.group
        xi = self.symmetries.T
        e = np.asarray(group.difference(self.shifted(q0, s), q))
        if not len(s):
            return s, e, s
        inverse = group.Ad(group.inverse(group.element(q0)))
        A = inverse @ xi
        slope = A.T @ group.dexp_inverse(e) @ inverse @ group.dexp(-(s @ self.symmetries)) @ xi
        change = solve(slope.T @ slope, slope.T @ (A.T @ e))
        return s + change, e, change

    def off(self, q0: Array, v0: Array, q: Array, v: Array) -> Array:
        """How far a state is from another, (2 nv,), over the scale, symmetries left out."""
        return np.concatenate([self.nearest_shift(q0, q)[1], v - v0]) / self.scale

    def apart(self, q0: Array, v0: Array, q: Array, v: Array) -> float:
        """The largest entry of `off`."""
        return float(np.abs(self.off(q0, v0, q, v)).max())

    def away(self, q0: Array, v0: Array, q: Array, v: Array) -> Array:
        """How far a state is from another, (2 nv,), symmetries left out; also of symbols.

        Three steps of Newton's method: along a translation the first one is exact.
        """
        # a fixed number of steps without a test of convergence, so that symbols pass through
        s = np.zeros(len(self.symmetries), int)
        for _ in range(3 * (len(s) > 0)):
            s, _, _ = self._nearer(q0, q, s)
        return np.concatenate([self.system.group.difference(self.shifted(q0, s), q), v - v0])

    def along_symmetries(self, q: Array) -> Array:
        """How a state moves along each symmetry: Ad(q^-1) xi_j, (2 nv, k)."""
        group = self.system.group
        nv = self.system.nv
        eta = np.asarray(group.Ad(group.inverse(group.element(q))), float) @ self.symmetries.T
        return np.concatenate([eta, np.zeros((nv, len(self.symmetries)))])

    def shoot(self, at: Point) -> Shot:
        """The equations at a point."""
        return self.equations(at, self.simulate(at))

    def shoot_several(self, points: Sequence[Point]) -> list[Shot | GaitError]:
        """The equations at several points, simulated together; the error of each point without a segment."""
        several = zip(points, self.simulate_several(points), strict=True)
        return [arcs if isinstance(arcs, GaitError) else self.equations(at, arcs) for at, arcs in several]

    def equations(self, at: Point, arcs: list[Arc]) -> Shot:
        """The equations at a point whose segments have been simulated."""
        group = self.system.group
        nv = self.system.nv
        m = self.segments
        _, _, shift, p = self.layout.places.values()
        r = np.zeros((m, 2 * nv))
        J = np.zeros((m, 2 * nv, self.size))
        # a given period is shared by the segments; with a section, arcs have derivatives of their arrival
        by_time = self._given_period_by(at)
        targets = [*zip(at.q[1:], at.v[1:], strict=True), (self.shifted(at.q[0], at.shift), at.v[0])]
        # row i: the end of segment i against the next node, or for the last one the shifted first node
        for i, (arc, (q, v)) in enumerate(zip(arcs, targets, strict=True)):
            node, following = (slice(2 * nv * k, 2 * nv * (k + 1)) for k in (i, (i + 1) % m))
            e = np.asarray(group.difference(q, arc.end.q), float)
            r[i] = np.concatenate([e, arc.end.v - v])
            # d log(a^-1 b), by b and by a
            end = np.eye(2 * nv)
            target = np.eye(2 * nv)
            end[:nv, :nv] = group.dexp_inverse(-e)
            target[:nv, :nv] = group.dexp_inverse(e)
            # by the node, by the node that follows, by parameters, and by the time of the segment
            J[i, :, node] += end @ arc.D[:, : 2 * nv]
            J[i, :, following] -= target
            J[i, :, p] += end @ arc.D[:, 2 * nv :]
            J[i] += np.outer(end @ arc.rate / m, by_time)
        if len(self.symmetries):  # the shift moves the last target
            inverse = group.Ad(group.inverse(group.element(at.q[0])))
            turn = group.dexp(-(at.shift @ self.symmetries)) @ self.symmetries.T
            J[-1, :, shift] -= target[:, :nv] @ inverse @ turn
        # residuals and unknowns over their sizes, so that one tolerance fits all
        residual = (r / self.scale).ravel()
        J = (J / self.scale[:, None]).reshape(-1, self.size)
        if self.conditions is not None:
            more, slopes = self._conditions(at, arcs)
            residual = np.concatenate([residual, more])
            J = np.concatenate([J, slopes])
        return Shot(residual, J * self.unit(at), arcs)

    def _flat(self, at: Point) -> Array:
        return self.system.parameters.values(at.parameters, ())

    def _given_period_by(self, at: Point) -> Array:
        """The derivative of the period by the unknowns, (size,), where it does not follow from a section."""
        slope = np.zeros(self.size)
        _, period, _, p = self.layout.places.values()
        slope[period] = 1.0
        if self.known_period:
            directions = np.eye(self.columns)[2 * self.system.nv :]
            slope[p] = self._known_period_by(self._flat(at), directions).reshape(-1)
        return slope

    def _parameters(self, u: Array, x: Array) -> Any:
        """Flat parameters u, of which the unknown ones are changed by x, by their names."""
        p = self.system.parameters
        return with_changes(p.read(u), [p.fields[name] for name in self.unknowns], x)

    @cached_property
    def _known_period_by(self) -> Kernel:
        known = self.known_period
        nv = self.system.nv
        assert known is not None

        def period(u: Array, s: Array) -> Array:
            return np.asarray(known(self._parameters(u, s[2 * nv :])))[()]

        shapes = {"u": self.system.parameters.size, "s": self.columns}
        return Kernel(along_direction(trace(period, shapes, "period")))

    @cached_property
    def _condition_kernels(self) -> tuple[Kernel, Kernel]:
        """The user's conditions, and their derivatives along (q, v, T, s, p)."""
        system = self.system
        k = len(self.symmetries)
        conditions = self.conditions
        nv = system.nv
        size = self.columns + 1 + k
        assert conditions is not None
        shapes: dict[str, Any] = {"q": system.nq, "v": nv, "T": (), "shift": k, "u": system.parameters.size}

        # one seed s moves all arguments: one derivative along s gives the slopes by all of them
        def of(q: Array, v: Array, T: Any, shift: Array, u: Array, s: Array) -> Array:
            p = self._parameters(u, s[2 * nv + 1 + k :])
            q = system.group.integrate(q, s[:nv])
            v = v + s[nv : 2 * nv]
            residuals = conditions(q, v, T + s[2 * nv], shift + s[2 * nv + 1 : 2 * nv + 1 + k], p)
            return np.reshape(np.asarray(residuals), -1)

        # the value is the same graph at s = 0, where the seed vanishes
        moved = trace(of, {**shapes, "s": size}, "conditions")
        return Kernel(trace(lambda *at: moved(*at, np.zeros(size)), shapes, "conditions")), Kernel(
            along_direction(moved)
        )

    def _conditions(self, at: Point, arcs: list[Arc]) -> tuple[Array, Array]:
        """The conditions, and their derivatives by the unknowns."""
        value, slope = self._condition_kernels
        nv = self.system.nv
        directions = np.eye(self.columns + 1 + len(self.symmetries))
        arguments = at.q[0], at.v[0], np.array(sum(arc.end.time for arc in arcs)), at.shift, self._flat(at)
        r = np.atleast_1d(value(*arguments))
        # one call for all directions: a batch of equal arguments
        copies = (np.broadcast_to(x, (len(directions), *np.shape(x))) for x in arguments)
        by = slope(*copies, directions).reshape(-1, len(r)).T
        _, _, shift, p = self.layout.places.values()
        by_period = self._given_period_by(at)
        # the period is the sum of the times of the segments
        for i, arc in enumerate(arcs):
            by_period[2 * nv * i : 2 * nv * (i + 1)] += arc.late[: 2 * nv]
            by_period[p] += arc.late[2 * nv :]
        # the period depends on all nodes, through the time that each segment takes
        J = np.outer(by[:, 2 * nv], by_period)
        J[:, : 2 * nv] += by[:, : 2 * nv]
        J[:, shift.start :] += by[:, 2 * nv + 1 :]
        return r, J

    # -- Newton's method ------------------------------------------------------------------------------------

    def solve(
        self, at: Point, tolerance: float, tries: int, rows: Array | None = None
    ) -> tuple[Point, Shot, int]:
        """The solution next to a point, the equations there, and how many steps it took.

        rows   (n, size): changes, over the unit, are orthogonal to these; without them, they are the smallest
        """
        search = self.newton(at, tolerance, tries, rows)
        asked = next(search)
        while True:
            try:
                shot = self.shoot(asked)
            except GaitError as error:
                answer = partial(search.throw, error)
            else:
                answer = partial(search.send, shot)
            try:
                asked = answer()
            except StopIteration as end:
                solution: tuple[Point, Shot, int] = end.value
                return solution

    def solve_several(self, searches: Sequence[Search[T]]) -> list[T | GaitError]:
        """The results of several searches, such as `newton`, in step: their points are simulated together.

        A search yields points. It is sent the equations there, or a GaitError is thrown into it.
        """
        results: list[T | GaitError] = [GaitError("the search did not begin") for _ in searches]
        answers: dict[int, Callable[[], Point]] = {i: partial(next, x) for i, x in enumerate(searches)}
        while answers:
            # 1. each search takes its answer, and asks for the next point or ends
            asked: dict[int, Point] = {}
            for i, answer in answers.items():
                try:
                    asked[i] = answer()
                except StopIteration as end:
                    results[i] = end.value
                except GaitError as error:
                    results[i] = error
            # 2. all points that are asked for, in one simulation
            shots = self.shoot_several(list(asked.values()))
            answers = {
                i: partial(searches[i].throw, shot)
                if isinstance(shot, GaitError)
                else partial(searches[i].send, shot)
                for i, shot in zip(asked, shots, strict=True)
            }
        return results

    def newton(
        self, at: Point, tolerance: float, tries: int, rows: Array | None = None
    ) -> Search[tuple[Point, Shot, int]]:
        """Newton's method of `solve`, which yields points and is sent the equations there."""
        shot = first = yield at
        patience = PATIENCE
        for step in range(tries):
            # with a section the period is the time that the segments took
            at = self._with_period(at, shot)
            if shot.size < tolerance:
                return at, shot, step
            A = shot.jacobian
            b = -shot.residual
            if rows is not None:  # changes stay across the given rows
                A = np.concatenate([A, rows])
                b = np.concatenate([b, np.zeros(len(rows))])
            # the smallest change: free of moves along the orbit and its symmetries
            change = np.linalg.lstsq(A, b, rcond=RANK)[0]
            if rows is not None:  # next to a known orbit: also over corners, where residuals grow
                at = self.moved(at, change / max(1.0, np.abs(change).max() / LONGEST))
                shot = yield at
                continue
            new, next_shot = yield from self._tried(at, shot, change, tolerance)
            # a few steps may make it worse, as where an event comes or goes on the way
            if next_shot.size > shot.size and (patience := patience - 1) < 0:
                why = self._why(shot.arcs, next_shot.arcs)
                raise GaitError(f"no orbit: the residual stays at {shot.size:.1e}. {why}")
            at = new
            shot = next_shot
        if shot.size < tolerance:
            return self._with_period(at, shot), shot, tries
        raise GaitError(
            f"no orbit: after {tries} steps of Newton's method the residual is {shot.size:.1e}. "
            f"{self._why(first.arcs, shot.arcs)}"
        )

    def _tried(self, at: Point, shot: Shot, change: Array, tolerance: float) -> Search[tuple[Point, Shot]]:
        """The point after as much of a change as makes the residual smaller, or else the best one tried."""
        problem = None
        tried = []
        # shorter and shorter parts of the step, until the residual falls
        for part in TRIALS:
            new = self.moved(at, part * change)
            try:
                trial = yield new
            except GaitError as error:
                problem = error
                continue
            if trial.size < max((1 - part / 4) * shot.size, tolerance):
                return new, trial
            tried.append((new, trial))
        if not tried:
            raise GaitError(f"no orbit: {problem}")
        return min(tried, key=lambda x: x[1].size)

    def _why(self, before: list[Arc], after: list[Arc]) -> str:
        """Why Newton's method cannot go on."""
        # other events on the way are the usual reason: there the equations are not smooth
        for one, other in zip(before, after, strict=True):
            a = one.end.events
            b = other.end.events
            if a != b:
                return (
                    f"The events change: {named(a)} against {named(b)}. There the equations have a corner, "
                    "and an orbit may end: grazing, or events that change places"
                )
        return "Start nearer to an orbit, let a parameter be unknown, or give tolerance if this is small"

    def _with_period(self, at: Point, shot: Shot) -> Point:
        return at if self.free_period else replace(at, period=sum(arc.end.time for arc in shot.arcs))
