"""Boxes of motions y' = f(y): at the end of a step, with derivatives by the start, and along the step.

Taylor's formula with the remainder of Lagrange, over a box Z that motions do not leave: if the formula, with
the remainder of motions from Z, gives a box in the interior of Z for all times of the step, then a motion
that left Z would be in the interior where it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flint import arb, arb_series

from .numbers import Ball, Jet, Known, value_of
from .reading import Function, Refused

Numbers = list[list[Ball]]  # of each state: its value, and its derivatives


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
