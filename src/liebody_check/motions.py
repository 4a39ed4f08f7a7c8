"""Boxes of motions y' = f(y): at the end of a step, with derivatives by the start, and along the step.

Taylor's formula with the remainder of Lagrange, over a box Z that motions do not leave: if the formula, with
the remainder of motions from Z, gives a box in the interior of Z for all times of the step, then a motion
that left Z would be in the interior where it leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from flint import arb, arb_series

from .claims import Function, Guard, Phase, Refused
from .numbers import Ball, Jet, Known, value_of

Numbers = list[list[Ball]]  # of each state: its value, and its derivatives
FINE = arb(2) ** -48  # of a state behind a step from numbers
DEEPEST = 10  # halvings of a step, to decide the sign of a guard


@dataclass
class Signs:
    """Signs along steps one after the other.

    guards   of each guard, the signs of its value and of its rate over pieces; 0: not decided
    returns  for a phase without an event: whether a piece may meet the start of the phase, and the sign of
             the rate of the coordinate that is constant in its section
    """

    guards: list[list[tuple[int, int]]]
    returns: list[tuple[bool, int]]


class Steps(Protocol):
    """A program that computes steps, written in a language."""

    language: str

    def ends(
        self, phase: Phase, known: Known, starts: list[Numbers], times: list[Ball], fine: bool = False
    ) -> list[tuple[Numbers, list[Ball]]]:
        """The boxes at the ends of steps, and the rates there; fine: narrow ones, from numbers."""

    def signs(self, phase: Phase, known: Known, starts: list[list[Ball]], times: list[Ball]) -> Signs:
        """Signs along steps from boxes."""


@dataclass
class Step:
    """Coefficients of motions from a box, and of the remainder: of each state, its value and derivatives."""

    coefficients: list[list[list[Ball]]]
    remainder: Numbers
    order: int

    def at(self, time: Ball) -> Numbers:
        """The box at all times of a ball within the step."""
        return [
            [_polynomial(series, time) + rest * time ** (self.order + 1) for series, rest in zip(*state)]
            for state in zip(self.coefficients, self.remainder)
        ]


def _polynomial(coefficients: list[Ball], t: Ball) -> Ball:
    total = arb(0)
    for c in reversed(coefficients):
        total = total * t + c
    return total


def jets(values: Numbers) -> list[Jet]:
    """Numbers as series of one coefficient."""
    return [Jet(arb_series([x], prec=1), [arb_series([a], prec=1) for a in dx], 1) for x, *dx in values]


def series(field: Function, known: Known, start: Numbers, order: int) -> list[list[list[Ball]]]:
    """Coefficients 0 to `order` of the motions from a start: y = start + integral of f(y), once for each."""
    y = jets(start)
    for _ in range(order):
        rate = value_of(field, y, known)
        y = [
            Jet(f.x.integral() + x, [g.integral() + a for g, a in zip(f.dx, dx)], f.length + 1)
            for f, (x, *dx) in zip(rate, start)
        ]
    return [[[s[k] for k in range(order + 1)] for s in (state.x, *state.dx)] for state in y]


def step(field: Function, known: Known, start: Numbers, time: Ball, order: int) -> Step:
    """The motions from a box over [0, time]; Refused where no box contains them."""
    if not time >= 0:
        raise Refused("a step goes back in time")
    coefficients = series(field, known, start, order)
    whole = arb(0).union(time.upper())
    powers = [whole**k for k in range(order + 2)]
    path = [[_sum(c * p for c, p in zip(s, powers)) for s in state] for state in coefficients]
    box = [[_wider(x, 0.02) for x in state] for state in path]
    for tries in range(6):
        last = series(field, known, box, order + 1)
        remainder = [[s[order + 1] for s in state] for state in last]
        new = [[x + r * powers[order + 1] for x, r in zip(*rows)] for rows in zip(path, remainder)]
        pairs = [pair for rows in zip(box, new) for pair in zip(*rows)]
        if all(b.is_finite() and x.is_finite() and b.contains_interior(x) for b, x in pairs):
            return Step(coefficients, remainder, order)
        box = [[b.union(_wider(x, 0.2 * (tries + 1))) for b, x in zip(*rows)] for rows in zip(box, new)]
    raise Refused("no box contains the motion over a step")


def _sum(terms: Any) -> Ball:
    total = arb(0)
    for x in terms:
        total = total + x
    return total


def _wider(x: Ball, share: float) -> Ball:
    """A ball around x, wider by a share of its radius and by a little of its size."""
    more = x.rad() * share + x.abs_upper() * arb(2) ** -30 + arb(2) ** -60
    return x + arb(0, more)


def numbers_of(function: Function, known: Known, at: Numbers) -> Numbers:
    """A function at a box, with derivatives along the directions of the arguments."""
    results = value_of(function, jets(at), known)
    return [[y.x[0], *(a[0] for a in y.dx)] for y in results]


def sign_of(x: Ball) -> int:
    return 1 if bool(x > 0) else -1 if bool(x < 0) else 0


def guard_and_rate(phase: Phase, known: Known, guard: Function, x: list[Ball]) -> tuple[Ball, Ball]:
    """A guard at a box, and its rate along the motion."""
    rate = numbers_of(phase.field, known, [[a] for a in x])
    value, along = numbers_of(guard, known, [[a, r[0]] for a, r in zip(x, rate)])[0]
    return value, along


class StepsInPython:
    """Steps by series of Arb."""

    language = "Python"

    def __init__(self, order: int) -> None:
        self.order = order

    def ends(
        self, phase: Phase, known: Known, starts: list[Numbers], times: list[Ball], fine: bool = False
    ) -> list[tuple[Numbers, list[Ball]]]:
        """The boxes at the ends of steps, and the rates there; fine: narrow ones, from numbers."""
        found = []
        for start, time in zip(starts, times):
            end = _end_of(self._steps(phase.field, known, start, time, fine))
            rate = numbers_of(phase.field, known, [[x[0]] for x in end])
            found.append((end, [x[0] for x in rate]))
        return found

    def signs(self, phase: Phase, known: Known, starts: list[list[Ball]], times: list[Ball]) -> Signs:
        """Signs along steps from boxes."""
        steps = [
            pair
            for box, time in zip(starts, times)
            for pair in self._steps(phase.field, known, [[b] for b in box], time)
        ]
        guards = [
            [
                x
                for one, time in steps
                for x in _signs_over(phase, known, guard, one, arb(0), time.upper(), DEEPEST)
            ]
            for guard in phase.guards
        ]
        returns = []
        for one, time in steps if phase.coordinate is not None else []:
            for k in range(4):
                box = [state[0] for state in one.at((arb(k) / 4).union(arb(k + 1) / 4) * time.upper())]
                rate = numbers_of(phase.field, known, [[a] for a in box])[phase.coordinate or 0][0]
                returns.append((all(a.overlaps(b) for a, b in zip(box, starts[0])), sign_of(rate)))
        return Signs(guards, returns)

    def _steps(
        self, field: Function, known: Known, start: Numbers, time: Ball, fine: bool = False, depth: int = 5
    ) -> list[tuple[Step, Ball]]:
        """Steps one after the other, with their times: one, or halves of it where no box contains it.

        fine  also where its remainder makes the result wide, for steps from numbers
        """
        try:
            one = step(field, known, start, time, self.order)
            narrow = not fine or all(x[0].rad() < FINE * (1 + abs(x[0])) for x in one.at(time))
            if narrow or depth == 0:
                return [(one, time)]
        except Refused:
            if depth == 0:
                raise
        half = (time / 2).mid()
        first = self._steps(field, known, start, half, fine, depth - 1)
        return first + self._steps(field, known, _end_of(first), time - half, fine, depth - 1)


def _end_of(steps: list[tuple[Step, Ball]]) -> Numbers:
    """The box at the end of steps one after the other."""
    one, time = steps[-1]
    return one.at(time)


def is_quiet(guard: Guard, signs: tuple[int, int]) -> bool:
    """Whether the guard keeps its sign, or changes against its direction only; a condition: has it."""
    if guard.sign:
        return signs[0] == guard.sign
    return signs[0] != 0 or (guard.direction != 0 and signs[1] == -guard.direction)


def _signs_over(
    phase: Phase, known: Known, guard: Guard, one: Step, a: Ball, b: Ball, depth: int
) -> Iterator[tuple[int, int]]:
    """Signs of the guard and of its rate over pieces of [a, b], halved until one of them tells enough."""
    half = ((a + b) / 2).mid()
    signs = _signs_on(phase, known, guard, one, a.union(b), half)
    if depth == 0 or is_quiet(guard, signs) or (signs[1] != 0 and depth < DEEPEST - 3):
        yield signs
        return
    yield from _signs_over(phase, known, guard, one, a, half, depth - 1)
    yield from _signs_over(phase, known, guard, one, half, b, depth - 1)


def _signs_on(
    phase: Phase, known: Known, guard: Guard, one: Step, times: Ball, half: Ball
) -> tuple[int, int]:
    """The signs over a piece; 0 where there are no bounds."""
    try:
        box = [state[0] for state in one.at(times)]
        value, rate = guard_and_rate(phase, known, guard.function, box)
        if sign_of(value) == 0:  # by the mean value theorem, from the centre
            there = numbers_of(guard.function, known, [[state[0]] for state in one.at(half)])[0][0]
            value = there + rate * (times - half)
    except (ArithmeticError, ValueError):  # a root, a quotient or an angle is not defined there
        return 0, 0
    return sign_of(value), sign_of(rate)
