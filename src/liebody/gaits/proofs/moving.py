"""Families: for each value of a parameter in an interval one orbit, in a box that moves with the parameter.

The equations are F(z, p) = 0 in the unknowns z of `system`. On a part [a, b] of the interval the box of an
orbit has the centre

    c(p) = c + c' (p - p_0),        c near the orbit at p_0,        c' near its derivative by p,

and the radius r in each unknown. By Krawczyk (1969) F(., p) has exactly one zero in c(p) +- r for each p, if

    |Y F(c(p), p)| + |I - Y A| r < r,

where A contains the derivatives of F by z at all points of all these boxes, and Y is any matrix. By the mean
value theorem F(c(p), p) lies in F(c, p_0) + T [a - p_0, b - p_0], where T contains the derivatives of
F(c(p), p) by p. They are small, because c' follows the orbits; a box that stays would have to contain all of
them.

Where two parts meet, the zero of one lies in the box of the other, so it is the same one. As A is regular,
orbits depend smoothly on p: all of them are one curve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...compiler import IntervalLibrary, NotProved, Tape, exactly, middle, outward
from .blocks import BlockElimination
from .equations import ExactEquations, OrbitPhase, ProofError, appended
from .events import refuse_other_events
from .multipliers import discs, largest_modulus, return_map_slope
from .phases import Course
from .system import (
    MARGIN,
    RADII_TRIED,
    Enclosed,
    StepEquations,
    SteppedOrbit,
    fitting_radius,
    reach_of,
    upwards,
)

Array = Any
STABLE = 0.97  # a bound of multipliers that leaves the checker a margin


def with_parameter_as_argument(equations: ExactEquations, parameter: str) -> ExactEquations:
    """The equations with a parameter as last argument of all functions; fields have its rate, zero."""
    constants = equations.constants.copy()
    zero = constants.place((Fraction(0), Fraction(0)))
    index = list(constants.parameters).index(parameter)

    def tape(old: Tape, rate: bool = False) -> Tape:
        N = old.inputs
        nodes: list[tuple[Any, ...]] = [("input", k) for k in range(N + 1)]
        # operations move by one place, because the parameter is one input more
        outputs = appended(nodes, old, list(range(N)), {("parameter", index): N})
        if rate:
            outputs.append(len(nodes))
            nodes.append(("constant", zero))
        return Tape(N + 1, tuple(nodes), tuple(outputs))

    phases = [
        replace(
            phase,
            field=tape(phase.field, True),
            section=tape(phase.section),
            jump=None if phase.jump is None else tape(phase.jump),
            guards=[replace(x, tape=tape(x.tape)) for x in phase.guards],
            at_end=[replace(x, tape=tape(x.tape)) for x in phase.at_end],
        )
        for phase in equations.phases
    ]
    closing = equations.closing
    if closing is not None:
        closing = replace(closing, tape=tape(closing.tape))
    return ExactEquations(equations.name, constants, phases, equations.common, equations.symmetries, closing)


class FamilyEquations(StepEquations):
    """F(z, p) and its derivatives in intervals, for the values of `parameter` (2,).

    equations  with the parameter as one more argument (`with_parameter_as_argument`)
    """

    def __init__(self, equations: ExactEquations, order: int, exact: bool = True) -> None:
        super().__init__(equations, order, exact)
        self.parameter = np.zeros(2)

    def evaluate(
        self, tape: Tape, x: Array, along: Array = None, library: IntervalLibrary | None = None
    ) -> tuple[Array, Array]:
        seeds = None if along is None else _seeds(along, x.shape[-2])
        return super().evaluate(tape, self._with_parameter(x), seeds, library)

    def rate(self, phase: OrbitPhase, x: Array) -> Array:
        return super().rate(phase, x)[..., :-1, :]

    def jump(self, phase: OrbitPhase, x: Array, along: Array = None) -> tuple[Array, Array]:
        y, slopes = super().jump(phase, x, along)
        return y, slopes[: len(y)]

    def move(
        self,
        phase: OrbitPhase,
        x: Array,
        time: Array,
        derivatives: bool | Array = False,
        pieces: int = 0,
        order: int | None = None,
    ) -> tuple[Array, Array, Array]:
        N = x.shape[-2]
        if isinstance(derivatives, bool):
            derivatives = exactly(np.eye(N)[:, : N * derivatives])
        y, D, tube = super().move(phase, self._with_parameter(x), time, _seeds(derivatives, N), pieces, order)
        return y[..., :-1, :], D[..., :-1, :, :], tube[..., :-1, :]

    def extended_end(self, library: IntervalLibrary, phase: OrbitPhase, x: Array, time: Array) -> Array:
        return super().extended_end(library, phase, self._with_parameter(x), time)[..., :-1, :]

    def _with_parameter(self, x: Array) -> Array:
        return np.concatenate([x, np.broadcast_to(self.parameter, (*x.shape[:-2], 1, 2))], axis=-2)

    def along(self, at: SteppedOrbit, path: Array, slopes: Array) -> Array:
        """T (unknowns, 2): derivatives by p of F(c(p), p), where c(p) is in a path and has these slopes."""
        combine = self.library.combine
        rows = []
        parts = [*at.split(slopes)]
        following = [*parts[1:], parts[0]]
        for (phase, steps, _), (x, factor), (dx, ds), (after, _) in zip(
            self._in_turn(at), at.boxes(path), parts, following, strict=True
        ):
            # directions: of each node its slope, and of the parameter 1
            seeds = exactly(np.append(dx, np.ones((len(dx), 1)), axis=1))[:, :, None]
            end, D, _ = self.move(phase, x[:-1], self.time(steps.w, factor), seeds[:-1])
            faster = combine("mul", self.rate(phase, end), self.time(steps.w, exactly(ds))[:, None])
            moved = combine("add", D[:, :, 0], faster)
            rows.append(combine("sub", moved, exactly(dx[1:])).reshape(-1, 2))
            rows.append(self.section(phase, x[-1], seeds[-1])[1][:, 0])
            rows.append(combine("sub", self.jump(phase, x[-1], seeds[-1])[1][:, 0], exactly(after[0])))
        for xi, s in zip(self.translations, slopes[at.coordinates], strict=True):
            rows[-1] = combine("sub", rows[-1], combine("mul", xi, exactly(s)))
        return np.concatenate(rows)


def _seeds(along: Array, N: int) -> Array:
    """Directions of the states and the parameter: directions of N states do not change the parameter."""
    *many, n, d, _ = along.shape
    return np.concatenate([along, np.zeros((*many, N + 1 - n, d, 2))], axis=-3)


@dataclass
class NearOrbit:
    """An orbit of numbers next to that at a place p_0, and how orbits change with p.

    linear  the equations with the derivatives M of F there; Y is M^-1
    slopes  c' (unknowns,)
    """

    place: float
    orbit: SteppedOrbit
    linear: BlockElimination
    slopes: Array

    def moved(self, p: float) -> SteppedOrbit:
        """About the orbit at p."""
        return self.orbit.moved((p - self.place) * self.slopes)


@dataclass
class FamilyPart:
    """A part of the interval with its moving boxes.

    low, high  exact bounds of the parameter
    near       p_0, c and c'
    radius     r (unknowns,) of the box in which the orbit is alone
    reach      (unknowns,): the orbit lies in c(p) +- reach
    found      the box of all orbits of the part, and the derivatives A
    stable     all orbits are stable (True), or all unstable (False); None: not decided
    largest    an upper bound of the moduli of their multipliers
    """

    low: Fraction
    high: Fraction
    near: NearOrbit
    radius: Array
    reach: Array
    found: Enclosed
    stable: bool | None = None
    largest: float = np.inf

    @property
    def surely_decided(self) -> bool:
        """Whether the stability is decided with a margin, so that the checker decides it, too."""
        return self.stable is False or (self.stable is True and self.largest < STABLE)

    def centre(self, library: IntervalLibrary, p: Fraction) -> Array:
        """c(p) as an interval (unknowns, 2)."""
        away = interval(p - Fraction(self.near.place), p - Fraction(self.near.place))
        moved = library.combine("mul", exactly(self.near.slopes), away)
        return library.combine("add", exactly(self.near.orbit.flat), moved)


def interval(low: Fraction, high: Fraction) -> Array:
    """Two exact bounds as an interval."""
    a, b = outward((low, high))
    return np.array([-a, b])


class MovingBoxes:
    """Proves parts of a family."""

    def __init__(self, equations: ExactEquations, parameter: str, order: int) -> None:
        extended = with_parameter_as_argument(equations, parameter)
        self.problem = FamilyEquations(extended, order)
        self.guess = FamilyEquations(extended, order, exact=False)

    def first(self, course: Course, p: float, radius: float) -> NearOrbit:
        """The orbit at p, in steps that boxes of a radius allow."""
        self.guess.parameter = exactly(p)
        return self.near(self.guess.divided(course.start, course.durations, radius), p)

    def near(self, orbit: SteppedOrbit, p: float) -> NearOrbit:
        """The orbit at p to round-off, from one nearby."""
        # slopes by the implicit function theorem: c' = -M^-1 dF/dp
        guess = self.guess
        guess.parameter = exactly(p)
        orbit, linear = guess.refined(orbit)
        rates = guess.along(orbit, exactly(orbit.flat), np.zeros(len(orbit.flat)))
        slopes = -linear.solve(middle(rates)[:, None])[:, 0]
        return NearOrbit(p, orbit, linear.as_checked(), slopes)

    def part(self, low: Fraction, high: Fraction, near: NearOrbit, least: Array) -> FamilyPart | None:
        """The part [low, high] with a radius of at least `least`; None where it is not proved.

        Errors: ProofError where other events are not excluded.
        """
        problem = self.problem
        combine = problem.library.combine
        flat = near.orbit.flat
        linear = near.linear
        away = interval(low - Fraction(near.place), high - Fraction(near.place))
        try:
            # the image of the centre under Newton's operator, for all p: F(c, p_0) + T (p - p_0)
            problem.parameter = exactly(near.place)
            F = problem.residual(near.orbit)
            problem.parameter = interval(low, high)
            path = combine("add", exactly(flat), combine("mul", exactly(near.slopes), away))
            T = problem.along(near.orbit, path, near.slopes)
            moved = problem.newton_step(linear, combine("add", F, combine("mul", T, away)))
            moved = moved + 1e-14 * (1 + np.abs(flat))
            # boxes begin with twice this image, and become wider until Krawczyk's inequality holds
            radius = np.maximum(2 * moved, least)
            for _ in range(RADII_TRIED):
                A = problem.derivatives(near.orbit, upwards(path + radius[:, None]))
                apart = A.away(linear.M)
                reach = reach_of(linear, apart, moved, radius)
                if (reach < MARGIN * radius).all():
                    found = Enclosed(near.orbit, radius, upwards(path + reach[:, None]), A)
                    refuse_other_events(problem, found)
                    return FamilyPart(low, high, near, radius, reach, found)
                fitting = fitting_radius(linear, apart, moved, radius)
                if fitting is None:
                    return None
                radius = np.maximum(fitting, least)
        except NotProved:
            return None
        return None

    def decide_stability(self, part: FamilyPart) -> None:
        """Bound the multipliers of all orbits of a part."""
        self.problem.parameter = interval(part.low, part.high)
        try:
            slope = return_map_slope(self.problem, part.found)
        except ProofError:
            return
        centres, radius = discs(slope)
        sizes = np.abs(centres)
        by_discs = float(sizes.max(initial=0.0) + radius) * (1 + 1e-15)
        part.largest = min(by_discs, largest_modulus(self.problem, slope))
        if part.largest < 1 or not len(sizes):
            part.stable = True
        elif sizes.max() - radius > 1:
            part.stable = False

    def gap(self, one: FamilyPart, other: FamilyPart) -> Array:
        """How far the orbit of one part may be from the centre of the other, where they meet (unknowns,)."""
        library = self.problem.library
        meet = max(one.low, other.low)
        away = library.combine("sub", one.centre(library, meet), other.centre(library, meet))
        return upwards(away.max(axis=-1) + one.reach)

    def are_linked(self, one: FamilyPart, other: FamilyPart) -> bool:
        """Whether the orbits of two parts are the same one where the parts meet."""
        pairs = ((one, other), (other, one))
        return any(bool((self.gap(a, b) <= b.radius).all()) for a, b in pairs)
