"""A traced function as a CasADi function: for optimal control and for CasADi's own code generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import ModelError, ShapeError, require
from ...scalars import Table
from ..graph.graph import OPERATIONS, Expr, Function
from . import interpreted, on
from .c import identifier

LONGEST = 4096  # entries of a table; CasADi's scalar expressions have no look-ups


def _entry(table: Any, index: Any) -> Any:
    """The entry of a table, by choices between halves: CasADi has no look-up of whole numbers."""
    import casadi

    if type(table) is not Table or table.size > LONGEST:
        size = f"one of {table.size} entries" if type(table) is Table else "one that is a parameter"
        raise ModelError(
            f"tables become choices in CasADi: {size} cannot, expected numbers, at most {LONGEST}; build a "
            "casadi.interpolant beside it"
        )
    values = table.flat.tolist()

    def among(first: int, end: int) -> Any:
        if end - first == 1:
            return values[first]
        middle = (first + end) // 2
        return casadi.if_else(index >= middle, among(middle, end), among(first, middle))

    return among(0, len(values))


RULES: dict[str, str | Callable[..., Any]] = {
    # Python's operators, and names of functions of the module `casadi`
    **{op: OPERATIONS[op] for op in ("add", "sub", "mul", "div", "neg", "lt", "le", "eq")},
    **{name: name for name in ("sin", "cos", "tan", "sqrt", "exp", "log", "sinh", "cosh", "tanh")},
    "absolute": "fabs",
    **{name: name for name in ("sign", "floor", "hypot")},
    "arcsin": "asin",
    "arccos": "acos",
    "arctan2": "atan2",
    "minimum": "fmin",
    "maximum": "fmax",
    "and": "logic_and",
    "or": "logic_or",
    "not": "logic_not",
    "where": "if_else",
    "lookup": lambda table, index: _entry(table, index),
}


def to_casadi(function: Function, sx: bool = True) -> Any:
    """`function` as a `casadi.Function` with the same names of inputs and outputs.

    sx  expressions over scalars (SX, the faster), or over matrices (MX) where the result is to be embedded

    A vector (n,) becomes an n x 1 column, a matrix (m, n) an m x n matrix with entry [i, j] at [i, j]: NumPy
    arrays go in, and `DM.full()` comes out, as they are, whatever the order in memory. Results are dense.
    minimum and maximum ignore NaN, as C's fmin does.

    Raises ShapeError for arrays of three and more axes, which CasADi does not have (reshape them to a matrix
    in the traced function); MissingPackage without CasADi.
    """
    require("functions of CasADi", "casadi", extra="casadi")
    import casadi

    kind: Any = casadi.SX if sx else casadi.MX
    values: dict[Expr, Any] = {}
    arguments: list[Any] = []
    for key, symbols in function.inputs.items():
        matrix = kind.sym(identifier(key), *rows_columns(function.name, key, symbols))
        arguments.append(matrix)
        for position, symbol in np.ndenumerate(symbols):
            values[symbol] = matrix[position] if position else matrix

    results: list[Any] = []
    for key, entries in interpreted(function, values, on(casadi, RULES), kind).items():
        y = function.outputs[key]
        rows, columns = rows_columns(function.name, key, y)
        by_columns = [entries[i] for i in np.arange(y.size).reshape(y.shape).T.flat]  # CasADi's order
        results.append(
            casadi.reshape(casadi.vertcat(*by_columns), rows, columns) if entries else kind(rows, columns)
        )
    return casadi.Function(
        identifier(function.name),
        arguments,
        results,
        [*function.inputs],
        [*map(identifier, function.outputs)],
        {"allow_duplicate_io_names": True},  # an input and an output may share a name
    )


def rows_columns(name: str, key: str, array: Any) -> tuple[int, int]:
    """The matrix of CasADi that an array is."""
    if array.ndim > 2:
        raise ShapeError(
            f"{name}: {key} has shape {array.shape}, but CasADi has no arrays of {array.ndim} axes; "
            "reshape it to a matrix in the traced function"
        )
    rows, columns = (*array.shape, 1, 1)[:2]
    return rows, columns
