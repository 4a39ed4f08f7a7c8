"""Numbers of descriptions as exact numbers, and exact numbers as one writes them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from ..base.errors import ModelError
from ..scalars import Array

LARGEST_DENOMINATOR = 10_000  # of fractions that are recognised
READABLE = 100  # fractions of larger numbers are written as decimals
EXPONENTS = (sympy.Rational(1, 2), sympy.Rational(-1, 2))  # of square roots
ROUNDING = 4 * 2.0**-53  # relative, of the numbers that a trace has folded
SLACK = 8 * 2.0**-53  # of the entries of rotations


def recognized(x: Any, roots: bool = False) -> Any:
    """The SymPy number that is meant by a float: a fraction, a root of one, or the decimal it prints as.

    roots  whether x may be a root, as entries of rotations and directions are

    Raises ModelError for NaN and infinity.
    """
    x = float(x)
    if not math.isfinite(x):
        raise ModelError(f"{x} in a mechanism has no closed form; its numbers must be finite")
    if (fraction := _near(x, LARGEST_DENOMINATOR)) is not None:
        return _rational(fraction)
    if roots and (square := _near(x * x, READABLE)) is not None:
        root = sympy.sqrt(_rational(square))
        return root if x > 0 else -root
    return _rational(Fraction(repr(x)))


def _near(x: float, denominator: int) -> Fraction | None:
    """The fraction that x is up to rounding, if there is one."""
    fraction = Fraction(x).limit_denominator(denominator)
    return fraction if abs(float(fraction) - x) <= ROUNDING * abs(x) else None


def exact_rotation(R: Array) -> Array:
    """The rotation (3, 3) without round-off: numbers that are meant, or close fractions, with R^T R = 1.

    Decimal entries are not orthogonal, and leave noise wherever squares of them cancel. The rotation becomes
    Rz(y) Ry(p) Rx(r) with rational sines and cosines, after rows and columns have taken turns until the
    smallest entry is -sin p: zeros stay zero. A matrix that is no rotation to round-off, or holds symbols,
    stays unchanged.
    """
    if any(isinstance(x, sympy.Basic) for x in R.flat):
        return R
    meant = sympy.Matrix(3, 3, [recognized(x, roots=True) for x in R.flat])
    if sympy.expand(meant.T * meant) == sympy.eye(3):
        return np.array(meant.tolist())
    decimals = R.astype(float)
    row, column = np.unravel_index(np.argmin(np.abs(decimals)), R.shape)
    T = np.roll(decimals, (2 - row, -column), axis=(0, 1))
    cy, sy = _exact_turn(*T[:2, 0])
    cr, sr = _exact_turn(T[2, 2], T[2, 1])
    cp, sp = _exact_turn(math.hypot(*T[:2, 0]), -T[2, 0])
    turned = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    rotation = np.roll(np.array(turned), (row - 2, column), axis=(0, 1))
    same = np.abs(rotation.astype(float) - decimals) <= np.where(decimals == 0, 0, SLACK)
    return np.vectorize(_rational, otypes=[object])(rotation) if same.all() else R


def _exact_turn(c: float, s: float) -> tuple[Fraction, Fraction]:
    """The cosine and the sine of the direction of (c, s), rational, of squares that add to one."""
    small, large = sorted((abs(c), abs(s)))
    # rational t gives rational sine and cosine with squares that add to one
    half = small / (math.hypot(c, s) + large)  # the tangent of half the angle from the closer axis
    t = next(x for k in range(9, 20) if (x := _near(half, 10**k)) is not None)
    less = 2 * t / (1 + t * t)
    more = (1 - t * t) / (1 + t * t)
    cosine, sine = (less, more) if abs(c) < abs(s) else (more, less)
    return -cosine if c < 0 else cosine, -sine if s < 0 else sine


def _rational(x: Fraction) -> Any:
    return sympy.Rational(x.numerator, x.denominator)


def exact(x: Any, roots: bool = False) -> Any:
    """A number or a SymPy expression without floats."""
    if not isinstance(x, sympy.Basic):
        return recognized(x, roots)
    return x.xreplace({number: recognized(number) for number in x.atoms(sympy.Float)})


def readable(x: Any) -> Any:
    """A fraction as a SymPy number: as it is where it is short, as a decimal elsewhere."""
    x = Fraction(x)
    if x.denominator == 1 or max(abs(x.numerator), x.denominator) <= READABLE:
        return _rational(x)
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
