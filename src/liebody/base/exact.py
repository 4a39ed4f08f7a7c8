"""Exact numbers that users give: fractions, decimals in quotes, binary numbers, and pairs of bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from .errors import ArgumentError

Bounds = tuple[Fraction, Fraction]


def exact_bounds(name: str, given: Any) -> Bounds:
    """Lower and upper bound of a number, or of all numbers between a pair.

    given  a number, which is the binary number that it is; a Fraction, a Decimal, a text such as "0.1" or
           "1/3"; or a pair (lower, upper) of these

    Errors: ArgumentError for what is none of these, and for bounds in the wrong order.
    """
    pair = (
        given if isinstance(given, tuple | list | np.ndarray) and np.shape(given) == (2,) else (given, given)
    )
    try:
        low, high = map(_exact, pair)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ArgumentError(
            f"{name} is {given!r}, expected a number, a fraction such as Fraction(1, 3) or '1/3', or a pair "
            "(lower, upper) of these"
        ) from None
    if low > high:
        raise ArgumentError(f"{name} is {given!r}, expected the lower bound first")
    return low, high


def _exact(x: Any) -> Fraction:
    if isinstance(x, np.floating | np.integer):
        x = x.item()
    if isinstance(x, float) and not math.isfinite(x):
        raise ValueError
    return Fraction(x)
