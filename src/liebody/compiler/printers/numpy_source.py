"""Prints traced functions as Python: one text that runs on Python's floats and on NumPy's arrays.

The text is straight-line code in single assignment over the components of the inputs, cut into functions
of about 500 operations (`PIECE`), so that Python compiles it in linear time and intermediate arrays are let
go. It names elementary functions by bare words, which `SCALAR` binds to the `math` module, for one state, and
`ARRAY` to NumPy's ufuncs, for batches; tables are bound to their names. The first is several times faster,
but raises where IEEE 754 has infinities and NaN; then the same text runs again on NumPy's floats.
"""

from __future__ import annotations

import builtins
import keyword
import math
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ...base.arguments import free_base, refuse_text, wrong_shape
from ...base.errors import ShapeError, pass_on_signals
from ...base.texts import message_of
from ...scalars import Table, lookup
from ..graph.graph import Expr, Function, tables_of
from ..programs.program import Program
from .c import identifier

PIECE = 500  # operations in one Python function
FLOAT = np.dtype(float)
NO_LABELS: Mapping[str, Sequence[str]] = {}
FEW = 8  # states up to which a loop over floats is faster than arrays
BLOCK = 1024  # states of a batch that are computed together, so that intermediate arrays stay in cache

OF_MATH = ("sin", "cos", "tan", "sqrt", "exp", "log", "sinh", "cosh", "tanh")  # called so in `math`
RULES: dict[str, str] = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "neg": "-{}",
    **{name: name + "({})" for name in (*OF_MATH, "arcsin", "arccos", "sign", "floor")},
    "absolute": "abs({})",
    **{name: name + "({}, {})" for name in ("arctan2", "hypot", "minimum", "maximum")},
    "lt": "{} < {}",
    "le": "{} <= {}",
    "eq": "{} == {}",
    "and": "{} & {}",
    "or": "{} | {}",
    "not": "{} ^ True",
    "where": "where({}, {}, {})",
    "lookup": "lookup({}, {})",
}
SCALAR: dict[str, Any] = {
    **{name: getattr(math, name) for name in OF_MATH},
    "arcsin": math.asin,
    "arccos": math.acos,
    "sign": lambda x: float((x > 0) - (x < 0)) if x == x else x,
    "floor": lambda x: math.copysign(math.floor(x), x),
    "hypot": math.hypot,
    "arctan2": math.atan2,
    "minimum": lambda a, b: a if a < b or a != a else b,
    "maximum": lambda a, b: a if a > b or a != a else b,
    "where": lambda condition, a, b: a if condition else b,
    "lookup": lambda table, i: float(lookup(table, i)),
    "inf": math.inf,
    "nan": math.nan,
}
ARRAY: dict[str, Any] = {name: lookup if name == "lookup" else getattr(np, name) for name in SCALAR}


def numpy_source(function: Function) -> str:
    """The text: a function of the components of all inputs, in order; it returns all outputs' components."""
    name = _function_name(function)
    values: dict[Expr, str] = {}
    parameters: dict[str, None] = {}
    for key, symbols in function.inputs.items():
        for position, symbol in np.ndenumerate(symbols):
            values[symbol] = _component(key, position, parameters)
            parameters[values[symbol]] = None
    nodes = [node for node in function.nodes if node.op != "input"]
    values.update((node, f"t{k}") for k, node in enumerate(nodes))
    results = [x for y in function.outputs.values() for x in y.flat]

    def operand(x: Any) -> str:
        if type(x) is Table:
            return x.name
        return values[x] if type(x) is Expr else repr(x)

    def statement(node: Expr) -> str:
        return f"    {values[node]} = {RULES[node.op].format(*map(operand, node.args))}\n"

    # Long functions are cut in pieces. A piece is a function of the values that it needs from outside, and it
    # returns the values that later pieces read; so Python can let go of all others.
    last_use = {x: sys.maxsize for x in results if type(x) is Expr}
    for k, node in reversed(list(enumerate(nodes))):
        for a in node.args:
            if type(a) is Expr:
                last_use.setdefault(a, k)
    returned = f"    return {_listed(map(operand, results))}\n"
    if len(nodes) <= PIECE:
        return f"def {name}({', '.join(parameters)}):\n{''.join(map(statement, nodes))}{returned}"

    pieces = []
    calls = []
    for k in range(0, len(nodes), PIECE):
        piece = nodes[k : k + PIECE]
        after = k + PIECE
        inside = set(piece)
        needed = dict.fromkeys(a for node in piece for a in node.args if type(a) is Expr and a not in inside)
        kept = [node for node in piece if last_use[node] >= after]
        call = f"_{name}_{k // PIECE}({', '.join(map(operand, needed))})"
        body = "".join(map(statement, piece))
        pieces.append(f"def {call}:\n{body}    return {_listed(map(operand, kept))}\n\n\n")
        calls.append(f"    {_listed(map(operand, kept))} = {call}\n")
    return f"{''.join(pieces)}def {name}({', '.join(parameters)}):\n{''.join(calls)}{returned}"


def compile_numpy(function: Function | Program) -> Callable[..., Any]:
    """`function` as a call on NumPy arrays: one state, or batches by leading axes that broadcast.

    Returns an array of shape (*batch, *shape), a tuple of them where the function has several outputs. NaN,
    infinity and division by zero follow IEEE 754.

    Raises ShapeError where an array does not end in the shape of its input, or batches do not broadcast.
    """
    if not isinstance(function, Function):
        return _compile_program(function)
    # Twice the same code: over Python's floats for one state, over arrays for batches and special values.
    code = compile(numpy_source(function), f"<{function.name}>", "exec")
    tables = {table.name: table for table in tables_of(function.nodes)}
    of_floats, of_arrays = (_run(code, names | tables)[_function_name(function)] for names in (SCALAR, ARRAY))
    shapes = {key: symbols.shape for key, symbols in function.inputs.items()}
    results = [y.shape for y in function.outputs.values()]
    ends = list(accumulate(map(math.prod, results), initial=0))
    places = [slice(start, end) for start, end in pairwise(ends)]

    def call(*arrays: Any) -> Any:
        rows, batch = rows_of(function.name, shapes, arrays)
        states = math.prod(batch)
        flat = np.empty((states, ends[-1]))
        if batch:
            rows = [_spread(row, batch).reshape(states, row.shape[-1]) for row in rows]
        # Few states one after the other, by floats; many block by block, as columns over the states.
        if states <= FEW:
            for k in range(states):
                state = [x for row in rows for x in (row[k] if batch else row).tolist()]
                try:
                    flat[k] = of_floats(*state)
                except (ArithmeticError, ValueError) as error:  # from `math` for 1/0, sqrt(-1), exp(1000)
                    pass_on_signals(error)
                    with np.errstate(all="ignore"):
                        flat[k] = of_arrays(*map(np.float64, state))
        else:
            columns = [row.T for row in rows]
            with np.errstate(all="ignore"):
                for start in range(0, len(flat), BLOCK):
                    block = slice(start, start + BLOCK)
                    computed = of_arrays(*(x for c in columns for x in np.ascontiguousarray(c[:, block])))
                    for k, y in enumerate(computed):
                        flat[block, k] = y
        outputs = [
            flat[:, place].reshape((*batch, *shape))[()] for place, shape in zip(places, results, strict=True)
        ]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    call.__name__ = call.__qualname__ = function.name
    return call


def _compile_program(program: Program) -> Callable[..., Any]:
    """`program` as a call on NumPy arrays, pass by pass: the reference for what is printed as C.

    Places that do not wait for each other are computed at once. Kernels use it where there is no compiler.
    """
    compiled: dict[Function, Callable[..., Any]] = {}  # the functions of passes, when they are first needed
    shapes = {key: cells.shape for key, cells in program.inputs.items()}

    def call(*arrays: Any) -> Any:
        rows, batch = rows_of(program.name, shapes, arrays)
        memory = program.memory(*batch)
        for cells, row in zip(program.inputs.values(), rows, strict=True):
            memory[..., program.positions(cells).ravel()] = row
        for part, places in program.runs():
            if part.function not in compiled:
                compiled[part.function] = compile_numpy(part.function)
            run = compiled[part.function]
            count = places.stop - places.start
            # Places become one more axis of the batch, the last one. A single place needs no axis, so that
            # its state may be computed by Python's floats, which is faster.
            lead = (count,) if count > 1 else ()
            arguments = []
            for a, symbols in zip(part.arguments, part.function.inputs.values(), strict=True):
                values = memory[..., a[places]] if a.dtype.kind == "i" else a[places]
                arguments.append(values.reshape((*values.shape[:-2], *lead, *symbols.shape)))
            results = run(*arguments)
            if len(part.function.outputs) == 1:
                results = (results,)
            for cells, value in zip(part.results, results, strict=True):
                shape = cells[places].shape
                if arguments:
                    memory[..., cells[places]] = np.reshape(value, (*batch, *shape))
                else:  # a function without arguments has the same value at all places
                    memory[..., cells[places]] = np.broadcast_to(np.reshape(value, -1), shape)
        outputs = [memory[..., program.positions(cells)][()] for cells in program.outputs.values()]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return call


def arrays_of(
    name: str,
    shapes: Mapping[str, tuple[int, ...]],
    given: Sequence[Any],
    dtype: Any = FLOAT,
    labels: Mapping[str, Sequence[str]] = NO_LABELS,
) -> tuple[list[Any], list[tuple[int, ...]], tuple[int, ...]]:
    """Arguments of the function `name` as arrays, the leading axes of each, and the axes of the batch.

    labels  names of the entries of some arrays, for messages
    """
    if len(given) != len(shapes):
        raise ShapeError(f"{name} takes {len(shapes)} arrays ({', '.join(shapes)}), got {len(given)}")
    arrays = []
    leading = []
    for (key, shape), x in zip(shapes.items(), given, strict=True):
        try:
            array = np.asarray(x)
            if array.dtype != dtype:
                if array.dtype.kind not in "fiubO":
                    raise TypeError(f"it holds {array.dtype}")
                refuse_text(array)
                with np.errstate(over="ignore"):
                    array = array.astype(dtype)
        except Exception as error:  # anything may be in the place of an array, with code of its own
            pass_on_signals(error)
            why = message_of(error)
            raise ShapeError(f"{name}: {key} cannot be read as an array of {dtype}: {why}") from None
        axes = array.ndim - len(shape)
        if axes < 0 or array.shape[axes:] != shape:
            entries = f" of {', '.join(labels[key])}" if key in labels else ""
            if len(shape) == 1 and array.ndim:
                entries += free_base(key, array.shape[-1], shape[0])
            expected = f"{shape} or a batch (..., {', '.join(map(str, shape))})"
            raise wrong_shape(f"{name}: {key}", array.shape, expected, entries)
        arrays.append(array)
        leading.append(array.shape[:axes])
    try:
        return arrays, leading, np.broadcast_shapes(*leading)
    except ValueError:
        pairs = ", ".join(f"{key} {array.shape}" for key, array in zip(shapes, arrays, strict=True))
        words = f"{name}: the leading axes do not broadcast against each other: {pairs}"
        raise ShapeError(words) from None


def rows_of(
    name: str, shapes: Mapping[str, tuple[int, ...]], given: Sequence[Any]
) -> tuple[list[Any], tuple[int, ...]]:
    """The arrays with their entries along one last axis, and the shape of the batch."""
    arrays, leading, batch = arrays_of(name, shapes, given)
    parts = zip(arrays, leading, shapes.values(), strict=True)
    return [array.reshape((*lead, math.prod(shape))) for array, lead, shape in parts], batch


def _spread(row: Any, batch: tuple[int, ...]) -> Any:
    """A row for each state of the batch."""
    shape = (*batch, row.shape[-1])
    return row if row.shape == shape else np.broadcast_to(row, shape)


def _run(code: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    namespace = {"__builtins__": {"abs": builtins.abs}, **names}
    exec(code, namespace)
    return namespace


def _function_name(function: Function) -> str:
    name = identifier(function.name)
    return f"{name}_" if keyword.iskeyword(name) or name in SCALAR or name == "abs" else name


def _component(name: str, position: tuple[int, ...], taken: Container[str]) -> str:
    """`q_3` for q[3]: a word that is no keyword, no temporary (t3) and no other component."""
    word = "_".join([identifier(name), *map(str, position)]) if position else f"{identifier(name)}_"
    while word in taken:
        word += "_"
    return word


def _listed(words: Iterable[str]) -> str:
    listed = list(words)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"
