"""Whether balls of Arb lie within bounds of doubles or of numbers of 80 bits: of many at a time.

Arb is the judge of each. Where the number next to a ball lies strictly between two bounds, so does the ball,
and one comparison of arrays tells it; the others are compared one by one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import flint
import numpy as np
from flint import arb

SMALL = 1e-290  # below, a number of 80 bits is not a sum of two doubles


def ball_of(x: Any) -> arb:
    """A number as a ball without a radius."""
    number = Fraction(*x.as_integer_ratio())
    return arb(flint.fmpq(number.numerator, number.denominator))


def balls_of(x: np.ndarray) -> list[arb]:
    """Numbers as balls without radii."""
    if x.dtype == np.float64:
        return [*map(arb, x.tolist())]
    high = x.astype(float)
    low = (x - high).astype(float)
    exact = (high + low.astype(x.dtype) == x) & (abs(high) > SMALL)
    pairs = zip(x, high.tolist(), low.tolist(), exact.tolist(), strict=True)
    return [arb(a) + arb(b) if is_sum else ball_of(number) for number, a, b, is_sum in pairs]


def nearest(balls: list[arb], kind: Any) -> np.ndarray:
    """Numbers next to the middles of balls: no number of this type lies between."""
    high = [float(x) for x in balls]
    if kind == np.float64:
        return np.array(high)
    low = [float(x - arb(a)) for x, a in zip(balls, high, strict=True)]
    return np.array(high, kind) + np.array(low, kind)


def misses(bounds: Any, exact: arb) -> bool:
    """Whether a number, known as a narrow ball, is surely not within (-lower, upper)."""
    minus, upper = map(ball_of, bounds)
    return bool(exact < -minus or exact > upper) or not exact.is_finite()


def outside(bounds: np.ndarray, balls: list[arb]) -> list[int]:
    """The places of balls that are surely not within their bounds (n, 2), of (-lower, upper)."""
    near = nearest(balls, bounds.dtype)
    narrow = np.array([x.rel_accuracy_bits() > 100 for x in balls]) & (abs(near) > SMALL)
    within = narrow & (-bounds[:, 0] < near) & (near < bounds[:, 1])
    return [k for k in np.nonzero(~within)[0].tolist() if misses(bounds[k], balls[k])]
