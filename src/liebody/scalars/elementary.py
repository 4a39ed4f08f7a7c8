"""Elementary functions over arrays of any scalar, each a line; see `liebody.scalars`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
"""A NumPy array of floats, or of objects that behave like floats; as an argument, also what becomes one."""
Coordinates = Array
"""Coordinates q (nq,) of an element of a group; `Product` and trees put those of their factors in a row."""
GroupElement = Array
"""An element of a group as a matrix, (n, n)."""


def _function(name: str, of_floats: Callable[..., Any], operands: int) -> Callable[..., Array]:
    """`of_floats` extended to object arrays, whose symbols apply the function `name` themselves."""

    def of_scalars(*scalars: Any) -> Any:
        # one symbol among the operands makes the whole application symbolic
        for scalar in scalars:
            if hasattr(scalar, "apply"):
                return scalar.apply(name, scalars)
        # object arrays may hold plain numbers too, whose result is a scalar of Python
        return of_floats(*(s if isinstance(s, (bool, np.bool_)) else float(s) for s in scalars)).item()

    of_objects = np.frompyfunc(of_scalars, operands, 1)

    def function(*arrays: Array) -> Array:
        # the dtype object marks symbols; arrays of floats go to NumPy as a whole
        if "O" in [np.asarray(a).dtype.kind for a in arrays]:
            return of_objects(*arrays)
        return of_floats(*arrays)[()]  # where makes arrays of its scalars

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Elementwise {name}, of floats and of symbols."
    return function


sin = _function("sin", np.sin, 1)
cos = _function("cos", np.cos, 1)
tan = _function("tan", np.tan, 1)
sqrt = _function("sqrt", np.sqrt, 1)
exp = _function("exp", np.exp, 1)
log = _function("log", np.log, 1)
sinh = _function("sinh", np.sinh, 1)
cosh = _function("cosh", np.cosh, 1)
tanh = _function("tanh", np.tanh, 1)
arcsin = _function("arcsin", np.arcsin, 1)
arccos = _function("arccos", np.arccos, 1)
sign = _function("sign", np.sign, 1)
floor = _function("floor", np.floor, 1)
absolute = _function("absolute", np.absolute, 1)
arctan2 = _function("arctan2", np.arctan2, 2)
hypot = _function("hypot", np.hypot, 2)
minimum = _function("minimum", np.minimum, 2)
maximum = _function("maximum", np.maximum, 2)
where = _function("where", np.where, 3)


def clip(x: Array, low: Array, high: Array) -> Array:
    """Elementwise min(max(x, low), high), of floats and of symbols."""
    return minimum(maximum(x, low), high)
