"""Expression graphs: what an algorithm becomes when it runs on symbols instead of floats.

A `Graph` belongs to one trace. Its nodes are `Expr` objects, hash-consed: the same operation on the same
operands is the same node. Constants are plain floats among the operands, never nodes, so that arithmetic
between them is done while tracing; `0 x = 0`, `x + 0 = x`, `1 x = x` remove what is structurally zero (a product
with a zero is zero whatever the other factor will be, NaN and infinity included). Signs travel outwards,
`(-a) b = -(a b)` and `a + (-b) = a - b`, where they cost nothing.

The graph knows operations (the table `OPERATIONS`), not algorithms, and no mechanics.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from .. import scalar
from ..errors import GraphError, ShapeError

Scalar = Any  # an Expr or a float

OPERATIONS: dict[str, Callable[..., Any]] = {
    # what each operation means, on floats, on symbols and on arrays of either
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "sin": scalar.sin,
    "cos": scalar.cos,
    "tan": scalar.tan,
    "sqrt": scalar.sqrt,
    "exp": scalar.exp,
    "log": scalar.log,
    "absolute": scalar.absolute,
    "arctan2": scalar.arctan2,
    "minimum": scalar.minimum,
    "maximum": scalar.maximum,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "and": operator.and_,
    "or": operator.or_,
    "not": lambda a: a ^ True,
    "where": scalar.where,
}
CONDITIONS = frozenset({"lt", "le", "eq", "and", "or", "not"})
COMMUTATIVE = frozenset({"add", "mul", "minimum", "maximum", "eq", "and", "or"})
EVEN, ODD = frozenset({"cos", "absolute"}), frozenset({"sin", "tan"})


class Graph:
    """The hash-consing table of one trace."""

    __slots__ = ("inputs", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[tuple[Any, ...], Expr] = {}
        self.inputs: list[Expr] = []

    def node(self, op: str, *args: Scalar) -> Expr:
        """The node `op(*args)`, made if it is new. No simplification happens here."""
        key = (op, *args)
        found = self.nodes.get(key)
        if found is None:
            found = self.nodes[key] = Expr(self, op, args, len(self.nodes))
        return found

    def symbols(self, name: str, shape: int | Sequence[int] = ()) -> Any:
        """An object array of `shape` of new input symbols (a single `Expr` where the shape is ())."""
        array = np.empty(shape, dtype=object)
        for position in np.ndindex(array.shape):
            array[position] = self.node("input", name, position)
            self.inputs.append(array[position])
        return array[()]


class Expr:
    """One node: an operation and its operands, which are nodes of the same graph or floats."""

    __slots__ = ("args", "graph", "index", "op")

    def __init__(self, graph: Graph, op: str, args: tuple[Scalar, ...], index: int) -> None:
        self.graph, self.op, self.args, self.index = graph, op, args, index

    def _operand(self, other: Any) -> Scalar:
        """`other` as an operand: a node of this graph, or a float."""
        if type(other) is Expr:
            if other.graph is not self.graph:
                raise GraphError(
                    "symbols of two traces meet in one expression; a symbol lives only inside the function "
                    "that is traced: pass values in as arguments of that function"
                )
            return other
        if type(other) is float:
            return other
        if isinstance(other, (Real, np.number, np.bool_)):
            return float(other)
        raise GraphError(
            f"a {type(other).__name__} ({other!r}) meets the symbol {self!r} in an expression; "
            "symbols combine with numbers and with symbols of the same trace"
        )

    # -- sums and products ----------------------------------------------------------------------------

    def __add__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a, b = self, self._operand(other)
        if type(b) is float:
            return a if b == 0.0 else a.graph.node("add", a, b)
        if b.op == "neg":
            return a - b.args[0]
        if a.op == "neg":
            return b - a.args[0]
        return a.graph.node("add", a, b) if a.index <= b.index else a.graph.node("add", b, a)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a, b = self, self._operand(other)
        if type(b) is float:
            return a if b == 0.0 else a.graph.node("add", a, -b)
        if a is b:
            return 0.0
        if b.op == "neg":
            return a + b.args[0]
        if a.op == "neg":
            return -(a.args[0] + b)
        opposite = a.graph.nodes.get(("sub", b, a))
        return a.graph.node("sub", a, b) if opposite is None else -opposite

    def __rsub__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a = self._operand(other)
        if a == 0.0:
            return -self
        return self.args[0] + a if self.op == "neg" else self.graph.node("sub", a, self)

    def __mul__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a, b = self, self._operand(other)
        if type(b) is float:
            if b == 0.0:
                return 0.0
            if b == 1.0:
                return a
            if b < 0.0:
                return -(a * -b)
            if a.op == "neg":
                return -(a.args[0] * b)
            if a.op == "mul" and type(a.args[1]) is float:  # k (k' a) = (k k') a
                return a.args[0] * (a.args[1] * b)
            return a.graph.node("mul", a, b)
        if a.op == "neg":
            return -(a.args[0] * b)
        if b.op == "neg":
            return -(a * b.args[0])
        return a.graph.node("mul", a, b) if a.index <= b.index else a.graph.node("mul", b, a)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        a, b = self, self._operand(other)
        if type(b) is float:
            if b == 0.0:
                raise GraphError(f"the symbol {self!r} is divided by the constant zero")
            return a * (1.0 / b)
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
        a = self._operand(other)
        if a == 0.0:
            return 0.0
        return -(a / self.args[0]) if self.op == "neg" else self.graph.node("div", a, self)

    def __neg__(self) -> Scalar:
        return self.args[0] if self.op == "neg" else self.graph.node("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __pow__(self, exponent: Any) -> Scalar:
        if exponent == 0.5:
            return self.sqrt()
        if not isinstance(exponent, (int, np.integer)) and not float(exponent).is_integer():
            raise GraphError(f"power {exponent!r}: only whole numbers and 0.5 are known; write exp(p log(x))")
        n = int(exponent)
        if n < 0:
            return 1.0 / self**-n
        square, power = self, 1.0
        while n:  # binary powers
            power = square * power if n & 1 else power
            square, n = square * square if n > 1 else square, n >> 1
        return power

    # -- functions, so that both numpy.sin and liebody.scalar.sin find them -----------------------------

    def apply(self, name: str, operands: Sequence[Any]) -> Scalar:
        """The function `name` of `operands`, this symbol among them."""
        args = [self._operand(x) if type(x) is not bool and type(x) is not np.bool_ else x for x in operands]
        first = args[0]
        if name == "where":
            if type(first) is not Expr:
                return args[1] if first else args[2]
            if args[1] is args[2] or (type(args[1]) is float and args[1] == args[2]):
                return args[1]
        if type(first) is Expr and first.op == "neg" and len(args) == 1:
            if name in EVEN:
                return first.args[0].apply(name, first.args)
            if name in ODD:
                return -first.args[0].apply(name, first.args)
        if name in COMMUTATIVE and type(args[0]) is Expr and type(args[1]) is Expr:
            if args[0] is args[1]:
                return args[0]
            args.sort(key=lambda node: node.index)
        return self.graph.node(name, *args)

    def sin(self) -> Scalar:
        return self.apply("sin", (self,))

    def cos(self) -> Scalar:
        return self.apply("cos", (self,))

    def tan(self) -> Scalar:
        return self.apply("tan", (self,))

    def sqrt(self) -> Scalar:
        return self.apply("sqrt", (self,))

    def exp(self) -> Scalar:
        return self.apply("exp", (self,))

    def log(self) -> Scalar:
        return self.apply("log", (self,))

    def arctan2(self, other: Any) -> Scalar:
        return self.apply("arctan2", (self, other))

    def __abs__(self) -> Scalar:
        return self.apply("absolute", (self,))

    # -- comparisons ------------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Scalar:
        return self._compare("lt", self, other)

    def __le__(self, other: Any) -> Scalar:
        return self._compare("le", self, other)

    def __gt__(self, other: Any) -> Scalar:
        return self._compare("lt", other, self)

    def __ge__(self, other: Any) -> Scalar:
        return self._compare("le", other, self)

    def equals(self, other: Any) -> Scalar:
        """The condition `self == other` (the operator itself compares nodes, as hash-consing needs)."""
        return self._compare("eq", self, other)

    def _compare(self, op: str, a: Any, b: Any) -> Scalar:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return NotImplemented
        a, b = self._operand(a), self._operand(b)
        return op != "lt" if a is b else self.graph.node(op, a, b)

    def __and__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self.graph.node("and", self, other) if type(other) is Expr else (self if other else False)

    def __or__(self, other: Any) -> Scalar:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self.graph.node("or", self, other) if type(other) is Expr else (True if other else self)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Scalar:
        return self.args[0] if self.op == "not" else self.graph.node("not", self)

    def __xor__(self, other: Any) -> Scalar:
        return ~self if other else self

    def __bool__(self) -> bool:
        raise GraphError(
            f"the value of {self!r} is not known while tracing, so Python cannot branch on it; "
            "use liebody.scalar.where(condition, a, b)"
        )

    def __float__(self) -> float:
        raise GraphError(
            f"the value of {self!r} is not known while tracing, so it cannot become a float; build arrays with "
            "np.array([...]) without dtype, and use the functions of liebody.scalar"
        )

    def __repr__(self) -> str:
        if self.op == "input":
            name, position = self.args
            return f"{name}{list(position)}" if position else str(name)
        return f"<{self.op} #{self.index}>"


class Function:
    """A traced function: named input arrays of symbols, named output arrays over one graph.

    Calling it runs the graph on other arguments: floats give floats, symbols of another trace inline it there.
    """

    def __init__(self, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        self.name = name
        self.inputs = {key: np.asarray(x, dtype=object) for key, x in inputs.items()}
        self.outputs = {key: np.asarray(x, dtype=object) for key, x in outputs.items()}
        self.nodes = live(x for y in self.outputs.values() for x in y.flat)

    @property
    def operations(self) -> Counter[str]:
        """How often each operation occurs."""
        return Counter(node.op for node in self.nodes if node.op != "input")

    def __call__(self, *arguments: Any) -> Any:
        values: dict[Any, Any] = {}
        if len(arguments) != len(self.inputs):
            raise ShapeError(
                f"{self.name} takes {len(self.inputs)} arguments ({', '.join(self.inputs)}), got {len(arguments)}"
            )
        for (key, symbols), argument in zip(self.inputs.items(), arguments, strict=True):
            array = np.asarray(argument)
            if array.shape != symbols.shape:
                raise ShapeError(f"{self.name}: {key} has shape {array.shape}, expected {symbols.shape}")
            entries = array.flat if array.dtype == object else map(float, array.flat)
            values.update(zip(symbols.flat, entries, strict=True))
        results = [self._run(values, y) for y in self.outputs.values()]
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, values: dict[Any, Any], output: Any) -> Any:
        for node in self.nodes:
            if node not in values:
                values[node] = OPERATIONS[node.op](*(values[a] if type(a) is Expr else a for a in node.args))
        array = np.empty(output.shape, dtype=object)
        for position, x in np.ndenumerate(output):
            array[position] = values[x] if type(x) is Expr else x
        if any(hasattr(x, "apply") for x in array.flat):
            return array[()]
        return array.astype(float)[()]

    evaluate = __call__

    def __repr__(self) -> str:
        inputs = ", ".join(f"{key}{list(x.shape)}" for key, x in self.inputs.items())
        outputs = ", ".join(f"{key}{list(x.shape)}" for key, x in self.outputs.items())
        return f"{self.name}({inputs}) -> {outputs}: {sum(self.operations.values())} operations"


def live(outputs: Iterable[Scalar]) -> list[Expr]:
    """The nodes that `outputs` need, operands before the operations on them."""
    seen: set[Expr] = set()
    pending = [x for x in outputs if type(x) is Expr]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            if node.op != "input":
                pending.extend(a for a in node.args if type(a) is Expr and a not in seen)
    return sorted(seen, key=lambda node: node.index)


def trace(
    function: Callable[..., Any], shapes: Mapping[str, int | Sequence[int]], name: str | None = None
) -> Function:
    """Run `function` on symbols and return what it computes as a `Function`.

    function  takes one array per entry of `shapes`, in that order; returns an array, a tuple of arrays, or a
              dict of named arrays
    shapes    the name and shape of each argument; `6` is `(6,)`, and `()` is a scalar

    Raises GraphError where the function branches on a symbol or needs its value.
    """
    graph = Graph()
    inputs = {key: graph.symbols(key, shape) for key, shape in shapes.items()}
    result = function(*inputs.values())
    name = name or getattr(function, "__name__", "function")
    if isinstance(result, Mapping):
        outputs = dict(result)
    elif isinstance(result, tuple):
        outputs = {f"{name}_{k}": y for k, y in enumerate(result)}
    else:
        outputs = {name: result}
    for key, y in outputs.items():
        for x in np.asarray(y, dtype=object).flat:
            if type(x) is Expr:
                if x.graph is not graph:
                    raise GraphError(f"{name}: output {key} holds a symbol of another trace")
            elif not isinstance(x, (Real, np.number, np.bool_)):
                raise GraphError(f"{name}: output {key} holds a {type(x).__name__} ({x!r}), expected numbers or symbols")
    numbers = {
        key: np.frompyfunc(lambda x: x if type(x) is Expr else float(x), 1, 1)(np.asarray(y, dtype=object))
        for key, y in outputs.items()
    }
    return Function(name, inputs, numbers)

