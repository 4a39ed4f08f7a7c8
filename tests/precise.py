"""The operations of the graph in many digits: what each library, on each processor, rounds in its own way."""

from __future__ import annotations

import math
import operator

import mpmath
import numpy as np


def _angle(y, x):
    """The angle of a point: one at infinity is seen in the direction of its signs, and so is the origin."""
    if mpmath.isnan(y) or mpmath.isnan(x):
        return mpmath.nan
    sign = math.copysign(1, y)
    if mpmath.isinf(y) or mpmath.isinf(x):
        y, x = (math.copysign(float(mpmath.isinf(z)), z) for z in (y, x))
    elif x == y == 0:
        x = math.copysign(1, x)
    return sign * mpmath.atan2(abs(y), x)


def _finite(function):
    return lambda x: function(x) if mpmath.isfinite(x) else mpmath.nan


def _of_size(function, x):
    """A function that grows as exp(|x|)."""
    return function(x) if not abs(x) > 1e4 else function(math.copysign(mpmath.inf, x))


# Elementary functions, which libraries round differently; at zeros, infinities and NaN as in IEEE 754
FUNCTIONS = {
    "sin": _finite(mpmath.sin),
    "cos": _finite(mpmath.cos),
    "tan": _finite(mpmath.tan),
    "exp": lambda x: mpmath.exp(x) if not abs(x) > 1e4 else mpmath.inf if x > 0 else mpmath.mpf(0),
    "log": lambda x: mpmath.log(x) if x > 0 else -mpmath.inf if x == 0 else mpmath.nan,
    "sinh": lambda x: _of_size(mpmath.sinh, x),
    "cosh": lambda x: _of_size(mpmath.cosh, x),
    "tanh": lambda x: mpmath.tanh(x) if abs(x) < 1e4 else mpmath.sign(x),
    "arcsin": lambda x: mpmath.asin(x) if abs(x) <= 1 else mpmath.nan,
    "arccos": lambda x: mpmath.acos(x) if abs(x) <= 1 else mpmath.nan,
    "arctan2": _angle,
    "hypot": lambda x, y: mpmath.inf if mpmath.isinf(x) or mpmath.isinf(y) else mpmath.hypot(x, y),
}
OPERATIONS = FUNCTIONS | {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: a / b if b else mpmath.nan,
    "neg": operator.neg,
    "sqrt": lambda x: mpmath.sqrt(x) if x >= 0 else mpmath.nan,
    "absolute": abs,
    "sign": mpmath.sign,
    "floor": mpmath.floor,
    "minimum": min,
    "maximum": max,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.not_,
    "where": lambda condition, a, b: a if condition else b,
    "lookup": lambda table, i: mpmath.mpf(table.flat[min(max(int(i), 0), table.size - 1)].item()),
}


def values(op, *arrays):
    """An elementary function of float arrays, in 60 digits behind the reduction of large arguments."""
    with mpmath.workdps(60):
        return [FUNCTIONS[op](*row) for row in zip(*(a.tolist() for a in arrays), strict=True)]


def units_off(found, exact):
    """How far floats are from numbers of many digits, in units of their last place; 0 where both are NaN."""
    rounded = np.array([float(x) for x in exact]).astype(found.dtype)
    off = np.zeros(len(found))
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    for i in np.flatnonzero(~same):
        unit = np.spacing(np.abs(rounded[i]))
        off[i] = abs(mpmath.mpf(float(found[i])) - exact[i]) / float(unit) if np.isfinite(unit) else np.inf
    return off
