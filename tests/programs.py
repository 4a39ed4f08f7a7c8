"""Random straight-line programs over every operation of the graph, and how far rounding may carry them."""

from dataclasses import dataclass

import mpmath
import numpy as np
import precise
from hypothesis import assume
from hypothesis import strategies as st

from liebody.base.errors import GraphError
from liebody.compiler import Expr, trace
from liebody.compiler.graph.derivatives import PARTIALS
from liebody.compiler.graph.graph import CONDITIONS, OPERATIONS
from liebody.scalars import Table

INPUTS = 3
TINY = 1e-290  # numbers of smaller sizes, and of larger ones than its inverse, are set aside
CONSTANTS = (-2.0, -1.0, 0.0, 0.3, 0.5, 1.0, 3.0)
TABLES = (Table([0.5, -2.0, 3.0, 1.5]), Table(np.linspace(-1, 2, 9)))
OPERANDS = {  # what each operation takes: numbers, conditions or tables
    **dict.fromkeys(OPERATIONS, "nn"),
    **dict.fromkeys(("neg", "sin", "cos", "tan", "sqrt", "exp", "log", "absolute"), "n"),
    **dict.fromkeys(("sinh", "cosh", "tanh", "arcsin", "arccos", "sign", "floor"), "n"),
    **dict.fromkeys(("and", "or"), "cc"),
    "not": "c",
    "where": "cnn",
    "lookup": "tn",
}


@dataclass(frozen=True)
class Program:
    """Steps (operation, operands); an operand is a place among the numbers or the conditions so far."""

    steps: tuple[tuple[str, tuple[int, ...]], ...]

    def __call__(self, x, operations=OPERATIONS):
        """Every number that is computed on the way; conditions as 1 and 0."""
        pools = {"n": [*x, *CONSTANTS], "c": [], "t": TABLES}
        for op, operands in self.steps:
            args = (pools[kind][place] for kind, place in zip(OPERANDS[op], operands, strict=True))
            pools["c" if op in CONDITIONS else "n"].append(operations[op](*args))
        computed = pools["n"][INPUTS + len(CONSTANTS) :]
        return np.array([*computed, *(operations["where"](c, 1.0, 0.0) for c in pools["c"])], dtype=object)


@st.composite
def programs(draw, last=None, longest=8):
    """Programs that end with the operation `last`."""
    available = {"n": INPUTS + len(CONSTANTS), "c": 0, "t": len(TABLES)}
    steps = []

    def step(op):
        steps.append((op, tuple(draw(st.integers(0, available[kind] - 1)) for kind in OPERANDS[op])))
        available["c" if op in CONDITIONS else "n"] += 1

    step("lt")
    for _ in range(draw(st.integers(0, longest))):
        step(draw(st.sampled_from(sorted(OPERATIONS))))
    if last is not None:
        step(last)
    return Program(tuple(steps))


points = st.lists(
    st.floats(-4, 4).filter(lambda x: x == 0 or abs(x) > 1e-3), min_size=INPUTS, max_size=INPUTS
)


def traced(program, name="program"):
    """The traced program; examples that divide by a constant zero are set aside."""
    try:
        with np.errstate(all="ignore"):
            return trace(program, {"x": INPUTS}, name=name)
    except (GraphError, ZeroDivisionError) as error:
        assume("zero" not in str(error))
        raise


def with_bounds(function, x, require=assume):
    """The output at x in 60 digits, and a bound for the error of rounding, propagated to first order.

    require  called with conditions: that no value leaves the range of floats or has lost all its digits, and
             no comparison is undecided within rounding. Other examples are set aside.
    """
    unit = np.finfo(float).eps
    (symbols,) = function.inputs.values()
    values = dict(zip(symbols.flat, map(mpmath.mpf, np.ravel(x).tolist()), strict=True))
    bounds = dict.fromkeys(values, 0.0)

    def value(a):
        if type(a) is Table:
            return a
        return values[a] if type(a) is Expr else mpmath.mpf(a)

    def bound(a):
        if type(a) is Table:
            return 0.0
        return bounds[a] if type(a) is Expr else unit * abs(a)

    def operate(node):
        args, errors = [value(a) for a in node.args], [bound(a) for a in node.args]
        y = values[node] = precise.OPERATIONS[node.op](*args)
        if node.op in ("lt", "le", "eq", "minimum", "maximum", "absolute", "sign", "floor"):
            args = [args[0] - mpmath.nint(args[0])] if node.op == "floor" else args  # jumps at whole numbers
            margin = abs(args[0] - args[-1]) if len(args) == 2 else abs(args[0])
            require(margin > 100 * sum(errors) or sum(errors) == 0)
        if node.op == "lookup":  # it jumps at whole numbers within the table
            jump = min(max(mpmath.nint(args[1]), 1), args[0].size - 1)
            require(abs(args[1] - jump) > 100 * errors[1] or errors[1] == 0)
            return unit * abs(float(y))
        if node.op in ("arctan2", "absolute"):  # at 0 the signs count that folding drops
            require(args[0] != 0)
        if node.op in CONDITIONS:
            return 0.0
        require(y == 0 or TINY < abs(y) < 1 / TINY)
        if node.op == "where":
            return errors[1] if args[0] else errors[2]
        partials = PARTIALS[node.op](np.float64(y), *map(np.float64, args))
        propagated = sum(abs(p) * e for p, e in zip(partials, errors, strict=True) if e)
        require(propagated < 0.01 * (1 + abs(y)))
        return 4 * unit * abs(float(y)) + propagated

    with np.errstate(all="ignore"), mpmath.workdps(60):
        for node in function.nodes:
            if node.op != "input":
                bounds[node] = operate(node)
        (output,) = function.outputs.values()
        results = np.array([[value(a), bound(a)] for a in output.flat], dtype=float)
    require(np.isfinite(results).all() and np.isfinite([*bounds.values()]).all())
    return results[:, 0].reshape(output.shape), results[:, 1].reshape(output.shape)


def assert_within(actual, expected, bound):
    """Each entry within its bound; the factor is for elementary functions, not exact to the last place."""
    actual = np.asarray(actual, dtype=float)
    assert actual.shape == np.shape(expected)
    assert np.all(np.abs(actual - expected) <= 8 * bound + 1e-300), (actual, expected, bound)
