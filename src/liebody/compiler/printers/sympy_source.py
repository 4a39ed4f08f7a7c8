"""SymPy expressions of a traced function: closed forms for paper."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from ... import scalars
from ...base.errors import ModelError, ShapeError, require
from ...scalars import Table, lookup
from ..graph.graph import OPERATIONS, Expr, Function
from . import interpreted, on

LARGEST_DENOMINATOR = 10_000


def _selected(condition: Any, a: Any, b: Any) -> Any:
    import sympy

    return sympy.Piecewise((a, condition), (b, True))


@functools.cache
def _function_of(table: Table) -> Any:
    """A table as a function of its index, which prints as table(i), has values, and the derivative 0."""
    import sympy

    if type(table) is not Table:
        raise ModelError(
            "a table that is a parameter has no closed form; give its values as numbers while tracing"
        )
    values = table.flat

    def evaluated(cls: Any, index: Any) -> Any:
        return sympy.Float(lookup(table, float(index))) if index.is_number else None

    def numeric(index: Any) -> Any:
        return lookup(table, float(index)) if np.ndim(index) == 0 else lookup(table, index)

    members = {"eval": classmethod(evaluated), "fdiff": lambda self, argindex=1: sympy.S.Zero}
    members |= {"nargs": 1, "_imp_": staticmethod(numeric), "is_real": True, "values": values}
    return type(table.name, (sympy.Function,), members)


RULES: dict[str, str | Callable[..., Any]] = {
    # Python's operators, and names of functions of the module `sympy`
    **{op: OPERATIONS[op] for op in ("add", "sub", "mul", "div", "neg")},
    **{name: name for name in ("sin", "cos", "tan", "sqrt", "exp", "log", "sinh", "cosh", "tanh")},
    "absolute": "Abs",
    **{name: name for name in ("sign", "floor")},
    "arcsin": "asin",
    "arccos": "acos",
    "arctan2": "atan2",
    "hypot": lambda a, b: (a**2 + b**2) ** Fraction(1, 2),
    **{name: name.capitalize() for name in ("lt", "le", "eq", "and", "or", "not")},
    "minimum": "Min",
    "maximum": "Max",
    "where": _selected,
    "lookup": lambda table, index: _function_of(table)(index),
}


Evaluation = Callable[[Function, Mapping[Expr, Any]], Mapping[str, list[Any]]]
"""(function, expressions of its inputs) -> the entries of each output, flat"""


def sympy_rules() -> dict[str, Callable[..., Any]]:
    """For each operation of a graph, its function of SymPy expressions; for `interpreted`."""
    import sympy

    return on(sympy, RULES)


def to_sympy(
    function: Function, symbols: Mapping[str, Any] | None = None, evaluate: Evaluation | None = None
) -> dict[str, Any]:
    """The outputs of `function` as SymPy expressions, by name.

    symbols   for some inputs, an array (or nested list) of SymPy symbols or expressions in the shape of the
              input; the others get real symbols named after them: `q_0`, `q_1`, ... (`q` for shape ())
    evaluate  (function, {symbol of the graph: expression}) -> {name: entries of the output}, another way to
              evaluate the graph, such as one that keeps expressions short; None: SymPy's own operations

    An output of shape () becomes an expression, (n,) a column, (m, n) a Matrix, any other an Array. Constants
    which are the float nearest to a fraction with a denominator up to 10,000 become that fraction (0.1
    becomes 1/10), the others a Float. SymPy knows no NaN of IEEE 754: sqrt(-1) is its i, 1/0 its zoo.

    Raises ShapeError where `symbols` do not fit, MissingPackage without SymPy.
    """
    require("expressions of SymPy", "sympy", extra="sympy")
    import sympy

    given = dict(symbols or {})
    if unknown := set(given) - set(function.inputs):
        names = ", ".join(map(repr, sorted(unknown)))
        raise ShapeError(f"{function.name} has no input {names}; its inputs are {', '.join(function.inputs)}")
    values: dict[Expr, Any] = {}
    for key, inputs in function.inputs.items():
        entries = np.asarray(given[key], dtype=object) if key in given else _symbols(sympy, key, inputs.shape)
        if entries.shape != inputs.shape:
            raise ShapeError(
                f"{function.name}: symbols for {key}: shape {entries.shape}, expected {inputs.shape}"
            )
        values.update(zip(inputs.flat, map(sympy.sympify, entries.flat), strict=True))

    entries_of = evaluate or _by_rules
    results = entries_of(function, values)
    return {key: _arranged(results[key], y.shape) for key, y in function.outputs.items()}


def _by_rules(function: Function, values: Mapping[Expr, Any]) -> dict[str, list[Any]]:
    return interpreted(function, values, sympy_rules(), _number)


FUNCTIONS = {
    **{
        word: getattr(scalars, op)
        for op, word in RULES.items()
        if isinstance(word, str) and hasattr(scalars, op)
    },
    "Add": operator.add,
    "Mul": operator.mul,
    "atan": lambda x: scalars.arctan2(x, 1.0),
}


def from_sympy(expression: Any, values: Mapping[Any, Any]) -> Any:
    """The value of a SymPy expression, or of an array of them, at values of its symbols.

    values  floats, or symbols of a trace

    Raises ModelError for a function that has no counterpart here.
    """
    known = dict(values)  # and what is shared within the expression

    def value(x: Any) -> Any:
        if x not in known:
            known[x] = found(x) if x.args else float(x)
        return known[x]

    def found(x: Any) -> Any:
        kind = x.func.__name__
        if kind == "Pow" and x.exp.is_Number:
            return value(x.base) ** float(x.exp)
        if kind not in FUNCTIONS:
            raise ModelError(
                f"{x} of SymPy is no number here; there are powers by numbers, {', '.join(FUNCTIONS)}"
            )
        operands = map(value, x.args)
        return functools.reduce(FUNCTIONS[kind], operands) if len(x.args) > 1 else FUNCTIONS[kind](*operands)

    entries = np.asarray(expression, object)
    return np.reshape([value(x) for x in entries.flat], entries.shape)[()]


def _symbols(sympy: Any, name: str, shape: tuple[int, ...]) -> Any:
    array = np.empty(shape, dtype=object)
    for position in np.ndindex(shape):
        array[position] = sympy.Symbol("_".join([name, *map(str, position)]), real=True)
    return array


def _number(x: float) -> Any:
    import sympy

    if not math.isfinite(x):
        return sympy.nan if math.isnan(x) else sympy.oo if x > 0 else -sympy.oo
    near = Fraction(x).limit_denominator(LARGEST_DENOMINATOR)
    return sympy.Rational(near.numerator, near.denominator) if float(near) == x else sympy.Float(x)


def _arranged(entries: list[Any], shape: tuple[int, ...]) -> Any:
    """Entries as a scalar, a column, a matrix or an array."""
    import sympy

    if len(shape) == 0:
        return entries[0]
    if len(shape) <= 2:
        return sympy.Matrix(shape[0], shape[1] if len(shape) == 2 else 1, entries)
    return sympy.Array(entries, shape)
