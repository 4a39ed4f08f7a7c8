"""The scalar functions of rotation, of x = theta^2, to round-off from theta = 0 on: all small-angle care.

    a = sin(theta)/theta                 b = (1 - cos(theta))/theta^2      c = (theta - sin(theta))/theta^3
    c4 = (theta^2/2 - 1 + cos(theta))/theta^4
    g = (1 - theta/2 cot(theta/2))/theta^2
    db = b'/theta, dc = c'/theta, dg = g'/theta, where ' is the derivative by theta
    half_cos = cos(theta/2)              half_sinc = sin(theta/2)/theta
    quaternion_angle(w, n^2) = 2 atan2(n, w)/n

Everything but g rests on two sines and two series (Stumpff's functions c_4, c_5): closed forms above x = 2
and Taylor series below it, where each recursion c_k = 1/k! - x c_{k+2} is free of cancellation. Both branches
of each selection are finite, and so are their derivatives. g needs neither branch nor sine: it is a sum over
the poles of the cotangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, pi
from typing import Any

from ..scalars import Array, arctan2, cos, sin, sqrt, where

SWITCH = 2.0  # in theta^2, up to which the series below have converged to 1e-17


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Horner's rule, lowest coefficient first."""
    value: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def _stumpff(k: int, terms: int, argument: float = 1.0) -> list[float]:
    """Taylor coefficients in x of c_k(argument * x) = sum over j of (-argument * x)^j / (k + 2 j)!."""
    return [(-argument) ** j / factorial(k + 2 * j) for j in range(terms)]


_HALF_COS = _stumpff(0, 9, 0.25)
_HALF_SINC = [0.5 * t for t in _stumpff(1, 8, 0.25)]
_C4 = _stumpff(4, 9)
_C5 = _stumpff(5, 9)


def _away_from_zero(x: Array) -> Array:
    """x where the closed forms are selected, a harmless number where they are not."""
    # `where` evaluates and differentiates both of its branches: a division by zero in the branch that is not
    # selected would still make the derivative NaN.
    return where(x < SWITCH, SWITCH, x)


def half_cos(x: Array) -> Array:
    """cos(theta/2)."""
    return where(x < SWITCH, _polynomial(_HALF_COS, x), cos(0.5 * sqrt(_away_from_zero(x))))


def half_sinc(x: Array) -> Array:
    """sin(theta/2)/theta, which is 1/2 at 0."""
    theta = sqrt(_away_from_zero(x))
    return where(x < SWITCH, _polynomial(_HALF_SINC, x), sin(0.5 * theta) / theta)


def a(x: Array) -> Array:
    """sin(theta)/theta, accurate near pi too."""
    # By half angles, so that a, b and unit quaternions share one sine and one cosine.
    return 2 * half_cos(x) * half_sinc(x)


def b(x: Array) -> Array:
    """(1 - cos(theta))/theta^2 = 2 (sin(theta/2)/theta)^2."""
    return 2 * half_sinc(x) ** 2


def c(x: Array) -> Array:
    """(theta - sin(theta))/theta^3 = (1 - a)/x = 1/6 - x c_5."""
    return where(x < SWITCH, 1 / 6 - x * _polynomial(_C5, x), (1 - a(x)) / _away_from_zero(x))


def c4(x: Array) -> Array:
    """(theta^2/2 - 1 + cos(theta))/theta^4 = (1/2 - b)/x."""
    return where(x < SWITCH, _polynomial(_C4, x), (0.5 - b(x)) / _away_from_zero(x))


def _c5(x: Array) -> Array:
    """(1/6 - c)/x."""
    return where(x < SWITCH, _polynomial(_C5, x), (1 / 6 - c(x)) / _away_from_zero(x))


def db(x: Array) -> Array:
    """b'/theta = (a - 2b)/x = 2 c_4 - c_3, which is -1/12 at 0."""
    return 2 * c4(x) - c(x)


def dc(x: Array) -> Array:
    """c'/theta = (b - 3c)/x = 3 c_5 - c_4, which is -1/60 at 0."""
    return 3 * _c5(x) - c4(x)


# Poles of the cotangent beyond the second, as they enter _g1: 2 sum_{k>2} (2 pi k)^(-2j-4), j = 0, 1, ...
_FAR_POLES = (
    2.54381206886256216e-5,
    5.58456839049441513e-8,
    1.40882415747610469e-10,
    3.75671620021579781e-13,
    1.02801253753604611e-15,
    2.85002212921379124e-18,
    7.95557541071984498e-21,
    2.22893266455370116e-23,
    6.25747115080577224e-26,
    1.75867304929096799e-28,
    4.94584695005793874e-31,
    1.39138267890808799e-33,
    3.91504425264531424e-36,
    1.10172689146714188e-38,
    3.10054269177073748e-41,
    8.72602318121076432e-44,
)
_POLE = 4 * pi**2


def _g1(x: Array) -> Array:
    """(g - 1/12)/x = 2 sum over k of 1/((2 pi k)^2 ((2 pi k)^2 - x)), of which two poles are kept as such."""
    # The poles at 2 pi and 4 pi as fractions, put over one denominator; the sum of all others as a series in
    # x, which converges up to (6 pi)^2.
    near_poles = (8.5 - (2.5 / _POLE) * x) / ((_POLE - x) * (4 * _POLE - x))
    return near_poles + _polynomial(_FAR_POLES, x)


def g(x: Array) -> Array:
    """(1 - theta/2 cot(theta/2))/theta^2 = 1/12 + x/720 + ..., to round-off up to its pole at theta = 2 pi.

    Between 2 pi and 4 pi, where dexp is invertible again but log never leads, it is good to 1e-6.
    """
    return 1 / 12 + x * _g1(x)


def dg(x: Array) -> Array:
    """g'/theta = g^2 - 3 (g - 1/12)/x, from the differential equation of the cotangent; 1/360 at 0."""
    return g(x) ** 2 - 3 * _g1(x)


# 2 asin(n)/n in powers of n^2: near the identity |v| = sin(theta/2) is small, and atan2(n, w)/n would be 0/0.
_ARCSINE = [2 * factorial(2 * k) / (4**k * factorial(k) ** 2 * (2 * k + 1)) for k in range(9)]


def quaternion_angle(w: Array, n2: Array) -> Array:
    """Rotation angle over |v| of a unit quaternion (w, v), w >= 0:  2 atan2(|v|, w)/|v|, with n2 = |v|^2."""
    small = n2 < 0.01
    n = sqrt(where(small, 0.01, n2))
    return where(small, _polynomial(_ARCSINE, n2), 2 * arctan2(n, w) / n)
