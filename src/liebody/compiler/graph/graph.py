"""Expression graphs: the record of an algorithm that ran on symbols instead of floats.

A `Graph` belongs to one trace. Its nodes are `Expr` objects, hash-consed: the same operation on the same
operands is the same node. Constants are plain floats among the operands, never nodes, so that arithmetic
between them is done while tracing; a look-up has a table (`scalars.Table`) among its operands. `0 x = 0`,
`x + 0 = x`, `1 x = x` remove what is structurally zero (a product with a zero is zero whatever the other
factor will be, NaN and infinity included; so is `0 / x`, and `x - x`; and `x / x = 1`). A constant -0.0
counts as 0.0. Signs travel outwards, `(-a) b = -(a b)` and `a + (-b) = a - b`, where they cost nothing.

The graph knows operations (the table `OPERATIONS`), not algorithms, and no mechanics.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import linecache
import operator
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from ... import scalars
from ...base.arguments import array_of, shape_of, wrong_shape
from ...base.concurrency import cached_property
from ...base.errors import GraphError, ShapeError
from ...base.interrupts import outside_of

Scalar = Any  # an Expr or a float

ELEMENTARY = (
    *("sin", "cos", "tan", "sqrt", "exp", "log", "sinh", "cosh", "tanh", "arcsin", "arccos", "sign", "floor"),
    *("absolute", "arctan2", "hypot", "minimum", "maximum"),
)
OPERATIONS: dict[str, Callable[..., Any]] = {
    # the meaning of each operation, on floats, on symbols and on arrays of either
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    **{name: getattr(scalars, name) for name in ELEMENTARY},
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "and": operator.and_,
    "or": operator.or_,
    "not": lambda a: a ^ True,
    "where": scalars.where,
    "lookup": scalars.lookup,
}
CONDITIONS = frozenset({"lt", "le", "eq", "and", "or", "not"})
"""Operations whose results are true or false, which no other operation but these and `where` takes"""
FUNCTIONS = frozenset(  # expensive operations, for cost estimates
    ("sin", "cos", "tan", "exp", "log", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan2", "hypot")
)
EVEN = frozenset({"cos", "cosh", "absolute"})
ODD = frozenset({"sin", "tan", "sinh", "tanh", "arcsin", "sign"})
SMALLEST_NORMAL = np.finfo(float).smallest_normal.item()  # below it, 1 / x may overflow
NO_NUMBER = (
    "a condition is used as a number; write liebody.scalars.where(condition, 1.0, 0.0), "
    "and & | ~ between conditions"
)
NOT_PLAIN = CONDITIONS | {"neg"}  # the operands that sums and products look at twice


class Graph:
    """The hash-consing tables of one trace: for each operation, its nodes by their operands."""

    __slots__ = ("size", "tables")

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[Any, ...], Expr]] = {
            op: {} for op in ("input", "cell", *OPERATIONS)
        }
        self.size = 0

    def node(self, op: str, *args: Scalar) -> Expr:
        """The node `op(*args)`, made if it is new. No simplification happens here."""
        node = self.tables[op].get(args)
        return self.new(op, args) if node is None else node

    def new(self, op: str, args: tuple[Scalar, ...]) -> Expr:
        """The node `op(*args)`, known not to exist yet."""
        node = self.tables[op][args] = object.__new__(Expr)  # calling the class would cost a tenth of a trace
        node.graph = self
        node.op = op
        node.args = args
        node.index = self.size
        self.size += 1
        return node

    def fresh(self, op: str, args: tuple[Scalar, ...]) -> Expr:
        """A node outside of the tables: no other operation will be identified with it."""
        node = object.__new__(Expr)
        node.graph = self
        node.op = op
        node.args = args
        node.index = self.size
        self.size += 1
        return node

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The results of a repeated part of an algorithm for arguments of this graph (`programs.repeats`)."""
        return function(*arguments)

    def symbols(self, name: str, shape: int | Sequence[int] = ()) -> Any:
        """An object array of `shape` of new input symbols (a single `Expr` where the shape is ())."""
        array = np.empty(shape_of(name, shape), dtype=object)
        for position in itertools.product(*map(range, array.shape)):
            array[position] = self.node("input", name, position)
        return array[()]


def _unary(name: str) -> Callable[[Expr], Scalar]:
    """The method of expressions by which NumPy applies a function of one argument."""
    return lambda self: self.apply(name, (self,))


def _commuting(op: str, reduced: Callable[[Expr, Scalar], Scalar]) -> Callable[[Expr, Any], Any]:
    """The method of a sum or product. Two plain nodes, the common case, come first; others are `reduced`."""

    def method(self: Expr, other: Any) -> Scalar:
        a = self
        b = other
        graph = self.graph
        if type(b) is Expr and b.graph is graph and a.op not in NOT_PLAIN and b.op not in NOT_PLAIN:
            # Operands in the order of their indices, so that a + b and b + a are the same node.
            args = (a, b) if a.index <= b.index else (b, a)
            node = graph.tables[op].get(args)
            return graph.new(op, args) if node is None else node
        if type(b) is not float or a.op in CONDITIONS:
            if isinstance(b, np.ndarray):
                return NotImplemented
            a, b = a._number(a), a._number(b)
        return reduced(a, b)

    return method


class Expr:
    """One node, made by its `Graph`: an operation and its operands (nodes of that graph, floats, tables)."""

    __slots__ = ("args", "graph", "index", "op")
    __array_priority__ = -1.0  # NumPy's numbers (-1e6) leave operators to symbols, its arrays (0) take them
    graph: Graph
    op: str
    args: tuple[Scalar, ...]
    index: int

    def _number(self, other: Any) -> Scalar:
        """`other` as a number in an expression with this symbol: a node of the same graph, or a float."""
        if type(other) is Expr:
            if other.op in CONDITIONS:
                raise GraphError(NO_NUMBER)
            return self._same_graph(other)
        if isinstance(other, (float, int, Real, np.bool_)):
            return float(other) + 0.0
        raise GraphError(
            f"a {type(other).__name__} ({other!r}) meets the symbol {self!r} in an expression; "
            "symbols combine with numbers and with symbols of the same trace"
        )

    def _condition(self, other: Any) -> Any:
        """`other` as a condition beside this symbol: a node of the same graph, True or False."""
        if type(other) is not Expr:
            return bool(other)
        if other.op not in CONDITIONS:
            raise GraphError(f"the number {other!r} is used as a condition; compare it, as in x > 0")
        return self._same_graph(other)

    def _same_graph(self, other: Expr) -> Expr:
        """`other`, which must belong to the graph of this symbol."""
        if other.graph is not self.graph:
            raise GraphError(
                "symbols of two traces meet in one expression; a symbol lives only inside the function "
                "that is traced: pass values in as arguments of that function"
            )
        return other

    # -- sums and products --------------------------------------------------------------------------------

    def _plus(self, b: Scalar) -> Scalar:
        """self + b, where b is a constant, or one of the two is a negation: a + (-b) = a - b."""
        if type(b) is float:
            return self if b == 0.0 else self.graph.node("add", self, b)
        return self - b.args[0] if b.op == "neg" else b - self.args[0]

    __add__ = _commuting("add", _plus)
    __radd__ = __add__

    def __sub__(self, other: Any) -> Scalar:
        a = self
        b = other
        graph = self.graph
        if type(b) is Expr and b.graph is graph and a.op not in NOT_PLAIN and b.op not in NOT_PLAIN:
            if a is b:
                return 0.0
            # If b - a exists, a - b is its negative, which costs no operation.
            opposite = graph.tables["sub"].get((b, a))
            return graph.node("sub", a, b) if opposite is None else -opposite
        if isinstance(b, np.ndarray):
            return NotImplemented
        a, b = a._number(a), a._number(b)
        if type(b) is float:
            return a if b == 0.0 else graph.node("add", a, -b)
        return a + b.args[0] if b.op == "neg" else -(a.args[0] + b)

    def __rsub__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a = self._number(other)
        b = self._number(self)
        if a == 0.0:
            return -b
        return b.args[0] + a if b.op == "neg" else self.graph.node("sub", a, b)

    def _times(self, b: Scalar) -> Scalar:
        """self * b, where b is a constant, or one of the two is a negation: signs travel outwards."""
        if type(b) is not float:
            return -(self.args[0] * b) if self.op == "neg" else -(self * b.args[0])
        if b == 0.0:
            return 0.0
        if b == 1.0:
            return self
        if b < 0.0:
            return -(self * -b)
        if self.op == "neg":
            return -(self.args[0] * b)
        if self.op == "mul" and type(self.args[1]) is float:  # k (k' a) = (k k') a
            return self.args[0] * (self.args[1] * b)
        return self.graph.node("mul", self, b)

    __mul__ = _commuting("mul", _times)
    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a = self._number(self)
        b = self._number(other)
        if type(b) is float:
            if b == 0.0:
                raise GraphError(f"the symbol {self!r} is divided by the constant zero")
            return a * (1.0 / b) if abs(b) >= SMALLEST_NORMAL else a.graph.node("div", a, b)
        if a is b:
            return 1.0
        if a.op == "neg":
            return -(a.args[0] / b)
        if b.op == "neg":
            return -(a / b.args[0])
        return a.graph.node("div", a, b)

    def __rtruediv__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a = self._number(other)
        b = self._number(self)
        if a == 0.0:
            return 0.0
        return -(a / b.args[0]) if b.op == "neg" else self.graph.node("div", a, b)

    def __neg__(self) -> Scalar:
        return self.args[0] if self.op == "neg" else self.graph.node("neg", self._number(self))

    def __pos__(self) -> Scalar:
        return self._number(self)

    def __pow__(self, exponent: Any) -> Scalar:
        if isinstance(exponent, np.ndarray):
            return NotImplemented
        self._number(self)
        if type(exponent) is Expr or not float(2 * exponent).is_integer():
            raise GraphError(f"power {exponent!r}: only multiples of 0.5 are known; write exp(p log(x))")
        if exponent < 0:
            return 1.0 / self**-exponent
        n, half = divmod(exponent, 1)
        square = self
        power = self.sqrt() if half else 1.0
        n = int(n)
        # Binary powers: `square` is x^1, x^2, x^4, ..., and the bits of n select factors.
        while n:
            power = square * power if n & 1 else power
            square = square * square if n > 1 else square
            n >>= 1
        return power

    # -- functions, so that both numpy.sin and liebody.scalars.sin find them ------------------------------

    def apply(self, name: str, operands: Sequence[Any]) -> Scalar:
        """The function `name` of `operands`, this symbol among them."""
        if name == "where":
            condition = self._condition(operands[0])
            a = self._number(operands[1])
            b = self._number(operands[2])
            if type(condition) is not Expr:
                return a if condition else b
            same = a is b or (type(a) is type(b) is float and a == b)
            return a if same else self.graph.node(name, condition, a, b)
        if name == "lookup":
            table, index = operands
            known = table if type(table) is scalars.Table else self._number(table)
            return self.graph.node(name, known, self._number(index))
        # Even and odd functions let a sign pass outwards, or drop it.
        args = [self._number(x) for x in operands]
        first = args[0]
        if len(args) == 1 and first.op == "neg":
            if name in EVEN:
                return first.args[0].apply(name, first.args)
            if name in ODD:
                return -first.args[0].apply(name, first.args)
        if name in ("minimum", "maximum") and first is args[1]:
            return first
        return self.graph.node(name, *args)

    sin, cos, tan, sqrt, exp, log = map(_unary, ("sin", "cos", "tan", "sqrt", "exp", "log"))
    sinh, cosh, tanh, arcsin, arccos = map(_unary, ("sinh", "cosh", "tanh", "arcsin", "arccos"))
    __floor__ = _unary("floor")

    def arctan(self) -> Scalar:
        return self.apply("arctan2", (self, 1.0))

    def arctan2(self, other: Any) -> Scalar:
        return self.apply("arctan2", (self, other))

    def hypot(self, other: Any) -> Scalar:
        return self.apply("hypot", (self, other))

    def __abs__(self) -> Scalar:
        return self.apply("absolute", (self,))

    # -- comparisons --------------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Scalar:
        return self._compare("lt", self, other)

    def __le__(self, other: Any) -> Scalar:
        return self._compare("le", self, other)

    def __gt__(self, other: Any) -> Scalar:
        return self._compare("lt", other, self)

    def __ge__(self, other: Any) -> Scalar:
        return self._compare("le", other, self)

    def __eq__(self, other: Any) -> Any:
        # Hashing stays by identity, and tables find the same object without asking for equality (they would
        # ask only where two hashes agree in every bit). So this is what a traced `==` gets, and nobody else.
        return self._compare("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        equal = self._compare("eq", self, other)
        return ~equal if type(equal) is Expr else not equal

    __hash__ = object.__hash__

    def _compare(self, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return NotImplemented
        a = self._number(a)
        b = self._number(b)
        # Equal nodes count as equal numbers; NaN is not considered while tracing.
        if a is b:
            return op != "lt"
        return self.graph.node(op, *(sorted((a, b), key=_position) if op == "eq" else (a, b)))

    def __and__(self, other: Any) -> Any:
        return self._joined("and", other, False)

    def __or__(self, other: Any) -> Any:
        return self._joined("or", other, True)

    def _joined(self, op: str, other: Any, decisive: bool) -> Any:
        """This condition `op` another one, which decides alone where it is known to be `decisive`."""
        if isinstance(other, np.ndarray):
            return NotImplemented
        a = self._condition(self)
        b = self._condition(other)
        if type(b) is bool or a is b:
            return b if b is decisive else a
        return self.graph.node(op, *sorted((a, b), key=_position))

    def __xor__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a = self._condition(self)
        b = self._condition(other)
        return (a & ~b) | (~a & b) if type(b) is Expr else (~a if b else a)

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return self.args[0] if self.op == "not" else self.graph.node("not", self._condition(self))

    def __bool__(self) -> bool:
        raise GraphError(
            f"the value of {self!r} is not known while tracing, so Python cannot branch on it; "
            "use liebody.scalars.where(condition, a, b), its minimum, maximum, clip, sign, and & | ~ for "
            "and, or, not; compare arrays entry by entry"
        )

    def __float__(self) -> float:
        if self.op in CONDITIONS:
            raise GraphError(NO_NUMBER)
        raise GraphError(
            f"the value of {self!r} is not known while tracing, so it cannot become a float; "
            "build arrays with np.array([...]) without dtype, and use the functions of liebody.scalars"
        )

    def __repr__(self) -> str:
        if self.op == "input":
            name, position = self.args
            return f"{name}{list(position)}" if position else str(name)
        return f"<{self.op} #{self.index}>"


class Function:
    """A traced function: named input arrays of symbols, named output arrays over one graph.

    Calling it runs the graph on other arguments: floats give floats (slowly, one state at a time; this is the
    reference for everything that is generated), symbols of another trace inline it there.
    """

    def __init__(self, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        self.name = name
        self.inputs = {key: np.asarray(x, dtype=object) for key, x in inputs.items()}
        self.outputs = {key: np.asarray(x, dtype=object) for key, x in outputs.items()}

    @cached_property
    def nodes(self) -> list[Expr]:
        """The nodes that its outputs need, operands before the operations on them."""
        return live(x for y in self.outputs.values() for x in y.flat)

    @property
    def operations(self) -> Counter[str]:
        """The number of times that each operation occurs."""
        return Counter(node.op for node in self.nodes if node.op != "input")

    @cached_property
    def form(self) -> tuple[Any, ...]:
        """Its operations as a hashable value, which is equal for functions that compute the same."""
        place = {node: k for k, node in enumerate(self.nodes)}

        def known(x: Any) -> Any:
            return place[x] if type(x) is Expr else repr(x)

        rows = [repr(x) if x.op == "input" else (x.op, *map(known, x.args)) for x in self.nodes]
        results = [(key, y.shape, *map(known, y.flat)) for key, y in self.outputs.items()]
        return tuple((key, x.shape) for key, x in self.inputs.items()), *rows, *results

    def __call__(self, *arguments: Any) -> Any:
        values: dict[Any, Any] = {}
        if len(arguments) != len(self.inputs):
            expected = f"{len(self.inputs)} arguments ({', '.join(self.inputs)})"
            raise ShapeError(f"{self.name} takes {expected}, got {len(arguments)}")
        for (key, symbols), argument in zip(self.inputs.items(), arguments, strict=True):
            array = array_of(f"{self.name}: {key}", argument, object)
            if array.shape != symbols.shape:
                raise wrong_shape(f"{self.name}: {key}", array.shape, symbols.shape)
            values.update(zip(symbols.flat, array.flat, strict=True))
        symbolic = any(type(x) is Expr for x in values.values())
        kind = float if symbolic else np.float64  # NumPy's floats divide by zero as IEEE says
        values = {symbol: x if type(x) is Expr else kind(x) for symbol, x in values.items()}
        with np.errstate(all="ignore"):
            evaluate(self.nodes, values)
        results = [_values(values, y) for y in self.outputs.values()]
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def length(self) -> int:
        """Number of operations in the printed text."""
        return sum(self.operations.values())

    def unroll(self) -> Function:
        """The function itself, which is a straight line already; see `Program.unroll`."""
        return self

    def over(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Function:
        """The same graph with other arrays of its symbols as inputs and outputs."""
        return Function(self.name, inputs, outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a list of nodes, whose operands are numbers of earlier ones: graphs are too deep to nest."""
        symbols = {x for array in self.inputs.values() for x in array.flat}
        nodes = sorted(symbols.union(self.nodes), key=lambda node: node.index)
        place = {node: k for k, node in enumerate(nodes)}

        def placed(array: Any) -> Any:
            return objects([place.get(x, x) for x in array.flat]).reshape(array.shape)

        listed = [(node.op, tuple(place[a] if type(a) is Expr else a for a in node.args)) for node in nodes]
        arrays = ({key: placed(x) for key, x in part.items()} for part in (self.inputs, self.outputs))
        return _restored, (self.name, listed, *arrays)

    def __repr__(self) -> str:
        return signature(self)


def signature(function: Any) -> str:
    """Name, inputs, outputs and operations of a function or program, in a line."""
    inputs, outputs = (
        ", ".join(f"{key}{list(x.shape)}" for key, x in arrays.items())
        for arrays in (function.inputs, function.outputs)
    )
    return f"{function.name}({inputs}) -> {outputs}: {sum(function.operations.values())} operations"


def _restored(
    name: str,
    listed: Sequence[tuple[str, tuple[Any, ...]]],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> Function:
    """The function that `Function.__reduce__` took apart, over a new graph."""
    graph = Graph()
    nodes: list[Expr] = []
    for op, args in listed:
        nodes.append(graph.new(op, tuple(nodes[a] if type(a) is int else a for a in args)))

    def restored(array: Any) -> Any:
        return objects([nodes[x] if type(x) is int else x for x in array.flat]).reshape(array.shape)

    parts = ({key: restored(x) for key, x in part.items()} for part in (inputs, outputs))
    return Function(name, *parts)


def _values(values: Mapping[Expr, Any], output: Any) -> Any:
    """An output with values in the place of its nodes: floats, or objects if symbols are among them."""
    array = np.empty(output.shape, dtype=object)
    for position, x in np.ndenumerate(output):
        value = values[x] if type(x) is Expr else x
        array[position] = value if type(value) is Expr else float(value)
    return array[()] if any(type(x) is Expr for x in array.flat) else array.astype(float)[()]


def tables_of(nodes: Iterable[Expr]) -> list[scalars.Table]:
    """The tables that look-ups among nodes read, each once."""
    tables = (node.args[0] for node in nodes if node.op == "lookup")
    return list(dict.fromkeys(x for x in tables if type(x) is scalars.Table))


def evaluate(nodes: Iterable[Expr], values: dict[Any, Any]) -> None:
    """Compute the values of nodes from `values` of their operands, and add them there."""
    for node in nodes:
        if node.op != "input":
            values[node] = OPERATIONS[node.op](*(values[a] if type(a) is Expr else a for a in node.args))


def objects(values: list[Any]) -> Any:
    """A list as an array of objects."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def graph_of(given: Any) -> Graph | None:
    """The graph of the first symbol in an array, or in nested tuples or lists of arrays; else None."""
    if type(given) is Expr:
        return given.graph
    if isinstance(given, (list, tuple)):
        return next(filter(None, map(graph_of, given)), None)
    if isinstance(given, np.ndarray) and given.dtype == object:
        return next((x.graph for x in given.flat if type(x) is Expr), None)
    return None


def _position(x: Scalar) -> int:
    """The key by which operands of symmetric operations are sorted."""
    return x.index if type(x) is Expr else sys.maxsize  # constants come last


def live(outputs: Iterable[Scalar]) -> list[Expr]:
    """The nodes that `outputs` need, operands before the operations on them."""
    # A node's index is larger than the indices of its operands, so sorting by it is a topological order.
    seen = {x for x in outputs if type(x) is Expr}
    pending = list(seen)
    while pending:
        node = pending.pop()
        if node.op != "input":
            for a in node.args:
                if type(a) is Expr and a not in seen:
                    seen.add(a)
                    pending.append(a)
    return sorted(seen, key=operator.attrgetter("index"))


def trace(
    function: Callable[..., Any], shapes: Mapping[str, int | Sequence[int]], name: str | None = None
) -> Function:
    """Run `function` on symbols and return its computation as a `Function`.

    function  takes one array per entry of `shapes`, in that order; returns an array, a tuple of arrays, or a
              dict of named arrays; an entry that is a condition becomes 1.0 or 0.0
    shapes    the name and shape of each argument; `6` is `(6,)`, and `()` is a scalar

    Raises GraphError where the function branches on a symbol or needs its value; it names the line.
    """
    with naming_the_line(name or str(getattr(function, "__name__", "function"))):
        return run_on_symbols(Graph(), function, shapes, name)


SOLVE = (
    "numpy.linalg needs numbers; liebody.scalars.linear.solve(A, b), A symmetric and positive definite, and "
    "liebody.scalars.linear.inverse(A) take symbols"
)


@contextmanager
def naming_the_line(name: str) -> Iterator[None]:
    """Turn errors from symbols in a user's function into a GraphError that names the line and the error."""
    try:
        yield
    except (GraphError, TypeError, AttributeError) as error:
        # The innermost frame of the user's own code; without one the error is the library's.
        frames = [
            (frame.f_code.co_filename, number, frame.f_globals)
            for frame, number in traceback.walk_tb(error.__traceback__)
            if frame.f_globals.get("__name__", "").partition(".")[0] not in ("liebody", "numpy")
            and frame.f_code.co_filename != contextlib.__file__
        ]
        if not frames or getattr(error, "has_line", False):
            raise
        file, number, scope = frames[-1]
        line = linecache.getline(file, number, scope).strip() or name
        *_, (last, _) = traceback.walk_tb(error.__traceback__)
        numeric = last.f_globals.get("__name__", "").startswith("numpy.linalg")
        told = GraphError(
            f"{name} cannot be traced at `{line}` ({Path(file).name}, line {number}), "
            f"{type(error).__name__}: {error}" + (f"; {SOLVE}" if numeric else "")
        )
        told.has_line = True
        raise told from error


def run_on_symbols(
    graph: Graph,
    function: Callable[..., Any],
    shapes: Mapping[str, int | Sequence[int]],
    name: str | None,
) -> Function:
    """Trace a function on symbols of this graph; see `trace`."""
    inputs = {key: graph.symbols(key, shape) for key, shape in shapes.items()}
    # Methods of symbols compare constants. A comparison with NaN sets the processor's flag "invalid", and
    # NumPy then warns of the operation, though nothing was computed.
    with undisturbed(), np.errstate(invalid="ignore"):
        result = function(*inputs.values())
    name = name or getattr(function, "__name__", "function").replace("<lambda>", "function")
    if isinstance(result, Mapping):
        outputs = dict(result)
    elif isinstance(result, tuple):
        outputs = {f"{name}_{k}": y for k, y in enumerate(result)}
    else:
        outputs = {name: result}

    def number(x: Any, key: str) -> Scalar:
        if type(x) is not Expr:
            if isinstance(x, (Real, np.bool_)):
                return float(x)
            kind = type(x).__name__
            raise GraphError(f"{name}: output {key} holds a {kind} ({x!r}), expected numbers or symbols")
        if x.graph is not graph:
            raise GraphError(f"{name}: output {key} holds a symbol of another trace")
        return scalars.where(x, 1.0, 0.0) if x.op in CONDITIONS else x

    numbers = np.frompyfunc(number, 2, 1)
    outputs = {key: numbers(np.asarray(y, dtype=object), key) for key, y in outputs.items()}
    return Function(name, inputs, outputs)


_OPERATORS = frozenset(x.__code__ for x in vars(Expr).values() if isinstance(x, FunctionType))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Trace without garbage collections, which take longer the more nodes there are, and collect nothing.

    Handlers of signals run between operators of symbols only (`outside_of`).
    """
    collecting = gc.isenabled()
    thread = threading.get_ident()
    try:
        if collecting:
            _undisturbed.add(thread)
        gc.disable()
        with outside_of(_OPERATORS):
            yield
    finally:
        if collecting:
            gc.enable()  # before anything else, which a signal may break off
            _undisturbed.discard(thread)


_undisturbed: set[int] = set()  # threads that have switched the search for garbage off


def _search_again() -> None:
    """In a forked process: switch the collector on again if a thread that does not exist here had it off."""
    if _undisturbed - {threading.get_ident()}:
        _undisturbed.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_search_again)
