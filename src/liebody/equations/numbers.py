"""Numbers of descriptions as exact numbers, and exact numbers as one writes them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import sympy

from ..errors import ModelError

LARGEST_DENOMINATOR = 10_000  # of fractions that are recognised
READABLE = 100  # fractions of larger numbers are written as decimals
EXPONENTS = (sympy.Rational(1, 2), sympy.Rational(-1, 2))  # of square roots
ROUNDING = 4 * 2.0**-53  # relative, of the numbers that a trace has folded


def recognized(x: Any, roots: bool = False) -> Any:
    """The SymPy number that is meant by a float: a fraction, a root of one, or the decimal it prints as.

    roots  whether x may be a root, as entries of rotations and directions are

    Raises ModelError for NaN and infinity.
    """
    x = float(x)
    if not math.isfinite(x):
        raise ModelError(f"{x} in a mechanism has no closed form; its numbers must be finite")
    if (fraction := _near(x, LARGEST_DENOMINATOR)) is not None:
        return sympy.Rational(*fraction.as_integer_ratio())
    if roots and (square := _near(x * x, READABLE)) is not None:
        root = sympy.sqrt(sympy.Rational(*square.as_integer_ratio()))
        return root if x > 0 else -root
    return sympy.Rational(*Fraction(repr(x)).as_integer_ratio())


def _near(x: float, denominator: int) -> Fraction | None:
    """The fraction that x is up to rounding, if there is one."""
    fraction = Fraction(x).limit_denominator(denominator)
    return fraction if abs(float(fraction) - x) <= ROUNDING * abs(x) else None


def exact(x: Any, roots: bool = False) -> Any:
    """A number or a SymPy expression without floats."""
    if not isinstance(x, sympy.Basic):
        return recognized(x, roots)
    return x.xreplace({number: recognized(number) for number in x.atoms(sympy.Float)})


def readable(x: Any) -> Any:
    """A fraction as a SymPy number: as it is where it is short, as a decimal elsewhere."""
    x = Fraction(x)
    if x.denominator == 1 or max(abs(x.numerator), x.denominator) <= READABLE:
        return sympy.Rational(x.numerator, x.denominator)
    return sympy.Float(float(x))


def is_long(x: Any) -> bool:
    """Whether a fraction is a decimal of more than ten digits."""
    return (
        readable(x).is_Float and len(f"{float(x):.15e}".partition("e")[0].strip("-0").replace(".", "")) > 10
    )


def readable_numbers(expression: Any) -> Any:
    """An expression or a matrix whose fractions are written as `readable` writes them."""
    fractions = [x for x in expression.atoms(sympy.Rational) if not x.is_Integer and x not in EXPONENTS]
    return expression.xreplace({x: readable(Fraction(int(x.p), int(x.q))) for x in fractions})
