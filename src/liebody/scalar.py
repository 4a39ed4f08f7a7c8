"""Elementary functions over arrays of any scalar: floats, or the symbols of a trace.

An algorithm written with these and with `+ - * / @` runs on float arrays as NumPy code, and on object
arrays of symbols (`liebody.codegen.graph.Expr`) as a trace. A scalar that is not a float takes part by a
method `apply(name, operands)`, which returns the named function of the operands (itself among them).
"""

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
        for scalar in scalars:
            if hasattr(scalar, "apply"):
                return scalar.apply(name, scalars)
        return of_floats(*(s if isinstance(s, (bool, np.bool_)) else float(s) for s in scalars)).item()

    of_objects = np.frompyfunc(of_scalars, operands, 1)

    def function(*arrays: Array) -> Array:
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
absolute = _function("absolute", np.absolute, 1)
arctan2 = _function("arctan2", np.arctan2, 2)
minimum = _function("minimum", np.minimum, 2)
maximum = _function("maximum", np.maximum, 2)
where = _function("where", np.where, 3)


def _tanh(x: Any) -> Any:
    """sign(x) (1 - e)/(1 + e), e = exp(-2 |x|), and near zero Lambert's continued fraction."""
    size = where(x < 0, -x, x)
    e, z = exp(-2 * size), x * x
    far = (1 - e) / (1 + e)
    near = x * (10395 + z * (1260 + 21 * z)) / (10395 + z * (4725 + z * (210 + z)))
    return where(size < 0.25, near, where(x < 0, -far, far))


_tanh_of_objects = np.frompyfunc(_tanh, 1, 1)


def tanh(x: Array) -> Array:
    """Elementwise tanh, of floats and of symbols; neither it nor its derivatives overflow."""
    return _tanh_of_objects(x) if np.asarray(x).dtype == object else np.tanh(x)
