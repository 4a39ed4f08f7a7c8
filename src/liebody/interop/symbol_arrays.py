"""Arrays of symbols for functions that are written for arrays of numbers, such as those of learning tasks.

NumPy compares the symbols of a plain array by their truth values, and knows no maximum and no clip of them.
A `SymbolArray` maps such functions to `liebody.scalars`. A condition becomes 1.0 or 0.0 where it meets
numbers, as a truth value of NumPy does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .. import scalars
from ..base.errors import GraphError
from ..compiler import CONDITIONS, Expr

Entry = Callable[..., Any]  # a function of entries: symbols, numbers and conditions


def _number(x: Any) -> Any:
    """An entry as a number: conditions become 1.0 or 0.0."""
    if type(x) is Expr:
        return scalars.where(x, 1.0, 0.0) if x.op in CONDITIONS else x
    return float(x)


def _condition(x: Any) -> Any:
    """An entry as a condition: a number is true unless it is zero."""
    if type(x) is Expr:
        return x if x.op in CONDITIONS else x != 0.0
    return bool(x)


def _of_numbers(function: Entry) -> Entry:
    return lambda *entries: function(*map(_number, entries))


def _of_conditions(function: Entry) -> Entry:
    return lambda *entries: function(*map(_condition, entries))


def _choice(condition: Any, a: Any, b: Any) -> Any:
    return scalars.where(_condition(condition), _number(a), _number(b))


def _remainder(a: Any, b: Any) -> Any:
    return a - b * scalars.floor(a / b)


def _not(a: Any) -> Any:
    return not a if isinstance(a, bool) else ~a


NUMBERS: dict[str, Entry] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
    "positive": operator.pos,
    "power": operator.pow,
    "square": lambda a: a * a,
    "reciprocal": lambda a: 1.0 / a,
    "remainder": _remainder,
    "fabs": scalars.absolute,
    "fmax": scalars.maximum,
    "fmin": scalars.minimum,
    "clip": scalars.clip,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    **{
        name: getattr(scalars, name)
        for name in scalars.__all__
        if isinstance(getattr(np, name, None), np.ufunc)
    },
}
"""Functions of NumPy whose arguments are numbers, by their names."""
LOGIC: dict[str, Entry] = {"logical_and": operator.and_, "logical_or": operator.or_, "logical_not": _not}
FUNCTIONS: dict[str, Entry] = {
    **{name: _of_numbers(function) for name, function in NUMBERS.items()},
    **{name: _of_conditions(function) for name, function in LOGIC.items()},
    "bitwise_and": _of_conditions(operator.and_),
    "bitwise_or": _of_conditions(operator.or_),
    "bitwise_xor": _of_conditions(operator.xor),
    "invert": _of_conditions(_not),
}


class SymbolArray(np.ndarray):
    """An array of symbols, numbers and conditions; see the head of this module.

    Raises GraphError for functions that need values, such as all of numpy.linalg but for `norm`.
    """

    @classmethod
    def of(cls, given: Any) -> Self:
        """These entries as such an array."""
        return np.asarray(given, object).view(cls)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(x, object) for x in inputs]
        name = function.__name__
        if name == "matmul" and method == "__call__":
            return SymbolArray.of(np.matmul(*(_each(_number)(x) for x in plain)))
        if name.endswith(" (vectorized)") and method == "__call__":  # numpy.frompyfunc, as of liebody.scalars
            return SymbolArray.of(function(*plain))
        if name not in FUNCTIONS:
            raise GraphError(
                f"numpy.{name} has no rule for symbols; there are {', '.join(sorted(FUNCTIONS))}, and the "
                "functions of liebody.scalars"
            )
        results = options.pop("out", None)
        options.pop("dtype", None)
        applied = _each(FUNCTIONS[name], function.nin)
        if method == "reduce":
            # a sum of one entry would leave a condition as it is
            values = _each(_number if name in NUMBERS else _condition)(plain[0])
            y = _reduced(applied, values, identity=function.identity, **options)
        elif method == "__call__" and not options.keys() - {"where", "casting", "order", "subok"}:
            y = applied(*plain)
        else:
            raise GraphError(f"numpy.{name}.{method} has no rule for symbols")
        if results is not None:
            results[0][...] = y
            return results[0]
        return SymbolArray.of(y)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function is np.where:
            return SymbolArray.of(_each(_choice, 3)(*(np.asarray(x, object) for x in arguments)))
        if function is np.clip:
            x, low, high = (*arguments, *options.values())[:3]
            return SymbolArray.of(x).clip(low, high)
        if function is np.linalg.norm:
            return _norm(*arguments, **options)
        result = super().__array_function__(function, types, arguments, options)
        return SymbolArray.of(result) if isinstance(result, np.ndarray) and result.dtype == object else result

    def clip(self, low: Any = None, high: Any = None, **_: Any) -> Any:  # type: ignore[override]
        y = self if low is None else np.maximum(self, low)
        return y if high is None else np.minimum(y, high)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """Numbers, or for the type bool conditions: symbols have no size."""
        return SymbolArray.of(_each(_condition if np.dtype(dtype) == bool else _number)(np.asarray(self)))


def _each(function: Entry, arguments: int = 1) -> Entry:
    """A function of entries as one of plain arrays."""
    return np.frompyfunc(function, arguments, 1)


def _reduced(
    function: Any, values: np.ndarray, axis: Any = 0, keepdims: bool = False, identity: Any = None, **_: Any
) -> Any:
    """The reduction along an axis, several, or all (None), by the function of two entries."""
    # the last axis first, so that the numbers of the others stay right
    axes = range(values.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    wanted = sorted({a % values.ndim for a in axes}, reverse=True) if values.ndim else []
    for a in wanted:
        if values.shape[a]:
            values = np.asarray(function.reduce(values, axis=a, keepdims=keepdims), object)
        elif identity is None:
            raise GraphError("a reduction of no entries has no value")
        else:
            shape = tuple(n for k, n in enumerate(values.shape) if k != a or keepdims)
            values = np.full([1 if k == a and keepdims else n for k, n in enumerate(shape)], identity, object)
    return values


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """numpy.linalg.norm of vectors along an axis, or of all entries."""
    if ord not in (None, 2) or isinstance(axis, tuple):
        raise GraphError(f"numpy.linalg.norm of symbols is that of vectors, with ord=None or 2, not {ord!r}")
    squares: Any = np.square(x)
    return np.sqrt(squares.sum(axis=axis, keepdims=keepdims))
