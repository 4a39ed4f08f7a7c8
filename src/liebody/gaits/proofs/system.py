"""The equations of a closed orbit over many short steps, and Krawczyk's operator for them.

In each phase k (`equations`) unknown are the states x_0, ..., x_m at the ends of m steps, and a factor s of
their durations w_i:

    phi(x_i, s w_i) - x_(i+1) = 0,  i < m,        g(x_m) = 0,        J(x_m) - x_0' = 0,

where phi is the motion and x_0' the start of the next phase. A phase takes the time s sum w_i. Nothing is
carried from one step to the next, so boxes do not grow along the orbit, and an event is an equation as any
other one.

Let A contain the derivatives of these equations F at all points of a box c + [-r, r], and Y be any matrix,
such as an approximate inverse. If |Y F(c)| + |I - Y A| r < r in each row, then the box has exactly one zero
of F, and it lies in c - Y F(c) +- |I - Y A| r; all matrices in A are regular (Krawczyk 1969; Moore, Kearfott,
Cloud 2009, theorem 8.2).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiler import IntervalLibrary, NotProved, Tape, exactly, middle, outward, rounded_outward
from .blocks import ROUNDED, BlockElimination, Derivatives, PhaseBlocks
from .closing import period_of
from .equations import ExactEquations, OrbitPhase, ProofError

Array = Any
MANY = 200  # steps of a phase, from which on threads share them
PART = 50  # steps that are computed by one call of C
MARGIN = 0.8  # the share of the radius that proofs need at most: bounds of the checker are somewhat wider
RADII_TRIED = 3  # boxes with a radius for each unknown, one after the other
TERMS = 60  # of a series for these radii
NARROW = 3e-14  # of the state at the end of a step from a number, over its size
STIFF = 1e-4  # of the duration of a phase: an orbit with shorter steps is stiff
SHORTEST = 1e-6  # of the period: steps of a stiff orbit
SLOPES = 14  # order of their derivatives
GUESS = 10  # the same for Newton's method
CLOSE = 1e-9  # the last change of Newton's method, behind which there are last digits only
FINE = 100  # units of the last digit: the width of the ends of its steps, over the size of the state


@dataclass
class SteppedPhase:
    """States x (m + 1, N) at the ends of the steps of a phase, durations w (m,), the factor s of these."""

    x: Array
    w: Array
    s: float

    @property
    def unknowns(self) -> int:
        return self.x.size + 1

    @property
    def flat(self) -> Array:
        return np.append(self.x.ravel(), self.s)


@dataclass
class SteppedOrbit:
    """An approximate orbit: its phases in short steps.

    shift        how far it moves in a period along each symmetry, (k,)
    coordinates  states of the first node that are given: their places among the unknowns are the shift's
    stiff        its steps are so many that their ends are computed in extended precision
    """

    phases: list[SteppedPhase]
    shift: Array
    coordinates: list[int]
    stiff: bool = False

    @property
    def flat(self) -> Array:
        """All unknowns: of each phase its states, then its factor."""
        flat = np.concatenate([phase.flat for phase in self.phases])
        flat[self.coordinates] = self.shift
        return flat

    def split(self, flat: Array, given: Any = 0.0) -> list[tuple[Array, Array]]:
        """The states (m + 1, N, ...) and the factor of each phase, in an array (unknowns, ...).

        given  in the places of the shift: of the coordinates of the first node that are given
        """
        flat = np.array(flat)
        flat[self.coordinates] = given
        ends = np.cumsum([phase.unknowns for phase in self.phases])[:-1]
        parts = np.split(flat, ends)
        return [
            (part[:-1].reshape(*phase.x.shape, *flat.shape[1:]), part[-1])
            for part, phase in zip(parts, self.phases, strict=True)
        ]

    def boxes(self, box: Array) -> list[tuple[Array, Array]]:
        """The boxes of states (m + 1, N, 2) and of the factor (2,) of each phase, in a box (unknowns, 2)."""
        return self.split(box, exactly(self.phases[0].x[0, self.coordinates]))

    def moved(self, change: Array) -> SteppedOrbit:
        return SteppedOrbit(
            [
                SteppedPhase(phase.x + dx, phase.w, float(phase.s + ds))
                for phase, (dx, ds) in zip(self.phases, self.split(change), strict=True)
            ],
            self.shift + change[self.coordinates],
            self.coordinates,
            self.stiff,
        )


@dataclass
class Enclosed:
    """Around an orbit c: the one zero in c + [-radius, radius] lies in `box` (unknowns, 2).

    A  derivatives of the equations in the box of the radius
    """

    orbit: SteppedOrbit
    radius: Array
    box: Array
    A: Derivatives

    @property
    def phases(self) -> list[tuple[Array, Array]]:
        """The boxes of states (m + 1, N, 2) and of the factor (2,) of each phase."""
        return self.orbit.boxes(self.box)

    @property
    def shift(self) -> Array:
        """The box (k, 2) of the shift along the symmetries."""
        return self.box[self.orbit.coordinates]


class StiffPhase(Exception):
    """The usual steps of a phase are very short, or none of them can be enclosed."""


def _too_short(x: Array, problem: Exception | None) -> ProofError:
    return ProofError(
        f"steps from the state {x} become shorter than a millionth of the period: {problem}; the field "
        "may not be smooth there, or grow too fast"
    )


class StepEquations:
    """F and its derivatives in intervals, for an orbit of given equations; see `ExactEquations.library`."""

    def __init__(self, equations: ExactEquations, order: int, exact: bool = True) -> None:
        self.equations = equations
        self.library: IntervalLibrary = equations.library(exact)
        self.order = order
        self.exact = exact

    @functools.cached_property
    def extended(self) -> IntervalLibrary:
        """The same arithmetic in extended precision, for points; doubles where the processor has none."""
        return self.equations.library(self.exact, extended=True)

    # -- functions of a phase -------------------------------------------------------------------------------

    def evaluate(
        self, tape: Tape, x: Array, along: Array = None, library: IntervalLibrary | None = None
    ) -> tuple[Array, Array]:
        """`IntervalLibrary.evaluate` with one of the tapes; of `self.library`, or of another one."""
        return (library or self.library).evaluate(self.equations.part(tape), x, along)

    def move(
        self,
        phase: OrbitPhase,
        x: Array,
        time: Array,
        derivatives: bool | Array = False,
        pieces: int = 0,
        order: int | None = None,
    ) -> tuple[Array, Array, Array]:
        """`IntervalLibrary.move` with the field of a phase; default: with `self.order`."""
        field = self.equations.part(phase.field)
        return self.library.move(x, time, order or self.order, derivatives, pieces, field)

    def end(self, library: IntervalLibrary, phase: OrbitPhase, x: Array, time: Array) -> Array:
        """Ends (..., N, 2) of steps from states, in doubles or in extended precision."""
        if library is self.library:
            return self.move(phase, x, time)[0]
        return self.extended_end(library, phase, x, time)

    def extended_end(self, library: IntervalLibrary, phase: OrbitPhase, x: Array, time: Array) -> Array:
        """Ends of steps in extended precision, with the remainders of Taylor's formula in doubles."""
        field = self.equations.part(phase.field)
        rest = self.library.remainder(x, rounded_outward(time), self.order, field)
        return library.end(x, time, self.order, rest, field)

    def rate(self, phase: OrbitPhase, x: Array) -> Array:
        """dy/dt (..., N, 2) in boxes of states."""
        return self.evaluate(phase.field, x)[0]

    def section(self, phase: OrbitPhase, x: Array, along: Array = None) -> tuple[Array, Array]:
        """The guard (1, 2) at the end of a phase, and its slopes along directions; default: along x."""
        return self.evaluate(phase.section, x, _unit(x) if along is None else along)

    def jump(self, phase: OrbitPhase, x: Array, along: Array = None) -> tuple[Array, Array]:
        """The states at the start of the next phase, and their slopes along directions; default: along x."""
        along = _unit(x) if along is None else along
        for tape in self._behind(phase):
            x, along = self.evaluate(tape, x, along)
        return x, along

    def _behind(self, phase: OrbitPhase) -> list[Tape]:
        """The functions at the end of a phase: its jump, and behind the last phase the closing."""
        closing = self.equations.closing if phase is self.equations.phases[-1] else None
        jumps = [] if phase.jump is None else [phase.jump]
        return jumps if closing is None else [*jumps, closing.tape]

    # -- steps ----------------------------------------------------------------------------------------------

    def divided(self, start: Array, durations: Sequence[float], radius: float) -> SteppedOrbit:
        """An orbit from a start, in steps that are as long as boxes of a radius allow.

        The steps of a stiff orbit are as long as thin ends in extended precision allow: what is rounded in
        doubles adds up over so many steps, the more so where a contact force is the difference of large
        numbers.
        """
        try:
            return self._stepped(start, durations, functools.partial(self._longest, radius))
        except StiffPhase:
            return self._stepped(start, durations, self._longest_fine, stiff=True)

    def _stepped(
        self, start: Array, durations: Sequence[float], longest: Callable[..., Any], stiff: bool = False
    ) -> SteppedOrbit:
        """An orbit in steps of `longest`: of a phase, a state, a step to try, and the shortest step."""
        stepped: list[SteppedPhase] = []
        period = sum(durations)
        x = start
        for phase, duration in zip(self.equations.phases, durations, strict=True):
            shortest = SHORTEST * period if stiff else STIFF * duration
            one = self._divided(phase, x, duration, min(period / 8, duration), shortest, longest)
            stepped.append(one)
            x = middle(self.jump(phase, exactly(one.x[-1]))[0])
        coordinates = [symmetry.coordinate for symmetry in self.equations.symmetries]
        return SteppedOrbit(stepped, (x - start)[coordinates], coordinates, stiff)

    def _divided(
        self,
        phase: OrbitPhase,
        x: Array,
        duration: float,
        step: float,
        shortest: float,
        longest: Callable[..., Any],
    ) -> SteppedPhase:
        states, durations = [x], []
        rest = duration
        while rest > 0:
            # the last two steps share what is left
            step = rest if step >= rest else min(step, rest / 2)
            x, step, following = longest(phase, x, step, min(shortest, step))
            states.append(x)
            durations.append(step)
            rest = 0.0 if step >= rest else rest - step
            step = following
        return SteppedPhase(np.stack(states), np.array(durations), 1.0)

    def _longest(
        self, radius: float, phase: OrbitPhase, x: Array, step: float, shortest: float
    ) -> tuple[Array, float, float]:
        """The longest part of a step that can be enclosed: its end and duration, and the next one to try.

        StiffPhase where that is a very short step, or none.
        """
        size = np.abs(x).max() + 1.0
        rounded = self.rate(phase, exactly(x)).sum(axis=-1).max()  # a step is as wide as its rate, or more
        while step >= shortest:
            try:
                end, _, _ = self.move(phase, exactly(x), exactly(step))
                if end.sum(axis=-1).max() < NARROW * size + 1.5 * step * rounded:
                    self.move(phase, around(x, np.full(len(x), radius)), exactly(step), True)
                    return middle(end), step, 1.5 * step
            except NotProved:
                pass
            step /= 2
        raise StiffPhase

    def _longest_fine(
        self, phase: OrbitPhase, x: Array, step: float, shortest: float
    ) -> tuple[Array, float, float]:
        """The same for a stiff orbit; its boxes are so small that steps from points decide."""
        problem: Exception | None = None
        while step >= shortest:
            try:
                end, fitting = self._fine_step(phase, x, step)
                if fitting >= step:
                    return end, step, 0.95 * fitting
                step = 0.9 * fitting
            except NotProved as error:
                problem = error
                step /= 2
        raise _too_short(x, problem)

    def _fine_step(self, phase: OrbitPhase, x: Array, step: float) -> tuple[Array, float]:
        """The state after a step in extended precision, and how long a step may be for an end that is `FINE`.

        The remainder of Taylor's formula grows with the power order + 1 of the step.
        """
        library = self.extended
        unit = float(np.finfo(library.type).eps)
        end = self.end(library, phase, exactly(x), exactly(step))
        rate, _ = self.evaluate(phase.field, exactly(x), library=library)
        size = np.abs(x).max() + 1.0
        allowed = FINE * unit * size + 1.5 * step * float(rate.sum(axis=-1).max())
        share = allowed / (float(end.sum(axis=-1).max()) + 1e-3 * unit)
        return np.asarray(middle(end), float), step * min(max(share ** (1 / (self.order + 1)), 0.5), 1.5)

    # -- equations ------------------------------------------------------------------------------------------

    def _in_turn(self, at: SteppedOrbit) -> Iterator[tuple[OrbitPhase, SteppedPhase, SteppedPhase]]:
        """Each phase with its steps, and the steps of the next one."""
        yield from zip(self.equations.phases, at.phases, [*at.phases[1:], at.phases[0]], strict=True)

    def residual(self, at: SteppedOrbit, events_only: bool = False) -> Array:
        """F at an orbit of numbers, (unknowns, 2); of a stiff one in extended precision.

        events_only  of sections and jumps, and 0 for steps: about F where nodes are the ends of the steps
        """
        library = self.extended if at.stiff else self.library
        rows = []
        for phase, steps, following in self._in_turn(at):
            if events_only:
                rows.append(np.zeros((steps.x[1:].size, 2)))
            else:
                missed = functools.partial(self._missed, library, phase, steps.s)
                rows.append(
                    np.concatenate(by_parts(missed, steps.w, steps.x[:-1], steps.x[1:])).reshape(-1, 2)
                )
            last = exactly(steps.x[-1])
            rows.append(rounded_outward(self.evaluate(phase.section, last, library=library)[0]))
            start = last
            for tape in self._behind(phase):
                start = self.evaluate(tape, start, library=library)[0]
            rows.append(rounded_outward(library.combine("sub", start, exactly(following.x[0]))))
        # the orbit closes up to the shift
        for xi, s in zip(self.translations, at.shift, strict=True):
            rows[-1] = self.library.combine("sub", rows[-1], self.library.combine("mul", xi, exactly(s)))
        return np.concatenate(rows)

    def _missed(
        self, library: IntervalLibrary, phase: OrbitPhase, s: float, w: Array, x: Array, following: Array
    ) -> Array:
        """The equations (steps, N, 2) of steps."""
        time = library.combine("mul", exactly(w), exactly(s))
        end = self.end(library, phase, exactly(x), time)
        return rounded_outward(library.combine("sub", end, exactly(following)))

    def _slopes(
        self, order: int, phase: OrbitPhase, factor: Array, w: Array, start: Array
    ) -> tuple[Array, Array]:
        """Derivatives of the ends of steps by the states at their starts, and by the factor."""
        end, D, _ = self.move(phase, start, self.time(w, factor), True, order=order)
        return D, self.library.combine("mul", self.rate(phase, end), exactly(w)[:, None])

    def order_of_slopes(self, at: SteppedOrbit) -> int:
        """The order of Taylor's formula for derivatives; boxes of stiff orbits are small and need less."""
        return min(self.order, SLOPES) if at.stiff else self.order

    @property
    def translations(self) -> list[Array]:
        """Bounds (N, 2) of each symmetry in the first phase."""
        vectors = [[outward((x, x)) for x in xi.along[0]] for xi in self.equations.symmetries]
        return [np.array(rows) * [-1, 1] for rows in vectors]

    def derivatives(self, at: SteppedOrbit, box: Array, order: int | None = None) -> Derivatives:
        """The derivatives of F in a box (unknowns, 2), as intervals; default: of `order_of_slopes`."""
        order = order or self.order_of_slopes(at)
        phases = []
        for phase, steps, (x, factor) in zip(self.equations.phases, at.phases, at.boxes(box), strict=True):
            slopes = functools.partial(self._slopes, order, phase, factor)
            D, rates = map(np.concatenate, zip(*by_parts(slopes, steps.w, x[:-1]), strict=True))
            section, jump = self.section(phase, x[-1])[1][0], self.jump(phase, x[-1])[1]
            phases.append(PhaseBlocks(D, rates, section, jump))
        N = self.equations.phases[0].size
        return Derivatives(phases, np.array(self.translations).reshape(-1, N, 2), at.coordinates)

    def time(self, w: float | Array, factor: Array) -> Array:
        return self.library.combine("mul", exactly(w), factor)

    def durations(self, found: Enclosed) -> Array:
        """Bounds (phases, 2) of the times of the phases, s sum w_i."""
        totals = []
        for steps, (_, factor) in zip(found.orbit.phases, found.phases, strict=True):
            total = np.zeros(2)
            for x in steps.w:
                total = self.library.combine("add", total, exactly(x))
            totals.append(self.library.combine("mul", total, factor))
        return np.stack(totals)

    def period(self, durations: Array) -> tuple[float, float]:
        """(lower, upper) of the sum of the times of all phases; of a drive the bounds are known."""
        closing = self.equations.closing
        if closing is not None and closing.drive is not None:
            return outward(period_of(closing.drive))
        total = functools.reduce(lambda a, b: self.library.combine("add", a, b), durations)
        return float(-total[0]), float(total[1])

    # -- zeros ----------------------------------------------------------------------------------------------

    def refined(self, at: SteppedOrbit, tries: int = 6) -> tuple[SteppedOrbit, BlockElimination]:
        """An orbit to round-off, by Newton's method with the middles, and its linear equations there."""
        if at.stiff:
            return self._refined_stiff(at, tries)
        least = np.inf
        for _ in range(tries):
            linear = BlockElimination(self.derivatives(at, exactly(at.flat)))
            change = linear.solve(middle(self.residual(at))[:, None])[:, 0]
            largest = np.abs(change).max()
            if not largest < 10 * least:
                raise ProofError(
                    f"Newton's method for the steps of the orbit does not converge: changes of {largest:.1e} "
                    f"after {least:.1e}; give a more exact orbit (tolerance of periodic_orbit)"
                )
            at = at.moved(-change)
            if largest < 1e-13 or largest > least / 4:
                break
            least = largest
        return at, linear

    def _refined_stiff(self, at: SteppedOrbit, tries: int) -> tuple[SteppedOrbit, BlockElimination]:
        """The same with derivatives at the first orbit only, whose nodes are about the ends of its steps."""
        linear = BlockElimination(self.derivatives(at, exactly(at.flat), min(self.order, GUESS)))
        for k in range(tries):
            residual = self.residual(at, events_only=k == 0)
            change = linear.solve(middle(residual)[:, None])[:, 0]
            at = at.moved(-change)
            largest = np.abs(change).max()
            if k and largest < CLOSE:
                return at, linear
        raise ProofError(
            f"Newton's method for the steps of the orbit does not converge: changes of {largest:.1e} after "
            f"{tries} steps; give a more exact orbit (tolerance of periodic_orbit)"
        )

    def newton_step(self, linear: BlockElimination, F: Array) -> Array:
        """Upper bounds (unknowns,) of |M^-1 F| for the matrix M of linear equations."""
        step, rest = self._step(linear, F)
        return np.abs(step) + linear.bound(rest)[:, 0]

    def _step(self, linear: BlockElimination, F: Array) -> tuple[Array, Array]:
        """A step x (unknowns,) of Newton's method, and bounds (unknowns, 1) of |F + M x|."""
        x = -linear.solve(middle(F)[:, None])
        return x[:, 0], linear.left(F[:, None, ::-1], x)

    def krawczyk(
        self, at: SteppedOrbit, linear: BlockElimination, radius: Array, F: Array
    ) -> Enclosed | None:
        """The zero in the box of a radius, with F at its middle; None where the inequality does not hold."""
        try:
            A = self.derivatives(at, around(at.flat, radius))
        except NotProved:
            return None
        return self._contracted(at, linear, radius, F, A)

    def with_own_radii(self, at: SteppedOrbit, linear: BlockElimination, F: Array) -> Enclosed | None:
        """The zero in a box with a radius for each unknown, or None: r = |Y F| + |I - Y A| r, and a margin.

        Unknowns differ in their sensitivity: velocities of a stiff contact are known worse than places by a
        factor of 100, so a box of one radius would be too wide for the places or too narrow for them. Y is
        the inverse of the middles of A, in long steps of the checker.
        """
        try:
            radius = 2 * (self.newton_step(linear, F) + _last_digits(at))
            for _ in range(RADII_TRIED):
                A = self.derivatives(at, around(at.flat, radius))
                linear = BlockElimination(A).as_checked()
                moved = self.newton_step(linear, F) + _last_digits(at)
                found = self._contracted(at, linear, radius, F, A)
                if found is not None:
                    return found
                fitting = fitting_radius(linear, A.away(linear.M), moved, radius)
                if fitting is None:
                    return None
                radius = fitting
        except NotProved:
            pass
        return None

    def _contracted(
        self, at: SteppedOrbit, linear: BlockElimination, radius: Array, F: Array, A: Derivatives
    ) -> Enclosed | None:
        """The zero in a box of radii, for derivatives A there."""
        try:
            step, rest = self._step(linear, F)
            varied = linear.varied(A.away(linear.M), radius[:, None])
            spread = linear.bound((rest + varied) * ROUNDED)[:, 0]
        except NotProved:
            return None
        total = upwards(np.abs(step) + spread)
        if not (total < MARGIN * radius).all():
            return None
        box = self.library.combine("add", exactly(at.flat), exactly(step))
        box = self.library.combine("add", box, np.stack([spread, spread], axis=-1))
        return Enclosed(at, radius, box, A)


def reach_of(linear: BlockElimination, apart: Derivatives, moved: Array, radius: Array) -> Array:
    """|Y F| + |I - Y A| r, with |I - Y A| <= |M^-1| |A - M|."""
    return upwards(moved + linear.bound(linear.varied(apart, radius[:, None]))[:, 0])


def fitting_radius(linear: BlockElimination, apart: Derivatives, moved: Array, radius: Array) -> Array | None:
    """About the least radius r with |Y F| + |I - Y A| r <= MARGIN^2 r; None where there is none.

    It is the sum of a geometric series of the matrix |I - Y A|.
    """
    r = moved / MARGIN**2
    for _ in range(TERMS):
        last, r = r, reach_of(linear, apart, moved, r) / MARGIN**2
        if (r <= 1.02 * last).all():
            return 1.05 * r
    return None


def _last_digits(at: SteppedOrbit) -> Array:
    """A few units of the last digit of each unknown."""
    return 1e-15 * (1 + np.abs(at.flat))


def _unit(x: Array) -> Array:
    """The directions of all states, as seeds of derivatives (N, N, 2)."""
    return exactly(np.eye(len(x)))


def by_parts(function: Callable[..., Any], *arrays: Array) -> list[Any]:
    """The results of a function of parts of arrays over steps; where there are many steps, in threads."""
    steps = len(arrays[0])
    parts = [[x[k : k + PART] for x in arrays] for k in range(0, steps, PART)]
    if steps < MANY:
        return [function(*part) for part in parts]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [*pool.map(lambda part: function(*part), parts)]


def around(x: Array, radius: Array) -> Array:
    """Boxes that contain x +- radius, (..., 2)."""
    return upwards(np.stack([radius - x, x + radius], axis=-1)) if np.any(radius) else exactly(x)


def upwards(x: Array) -> Array:
    """The next doubles: upper bounds of what was rounded to the nearest once."""
    return np.nextafter(x, np.inf)
