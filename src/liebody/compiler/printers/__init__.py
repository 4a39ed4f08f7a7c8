"""Printers of traced functions: each is a table of rules, from operations to text or calls."""

from collections.abc import Callable, Mapping
from typing import Any

from ...scalars import Table
from ..graph.graph import Expr, Function


def on(module: Any, rules: Mapping[str, str | Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Operations by name, where some rules name functions of a module."""
    return {op: getattr(module, rule) if isinstance(rule, str) else rule for op, rule in rules.items()}


def interpreted(
    function: Function,
    inputs: Mapping[Expr, Any],
    rules: Mapping[str, Callable[..., Any]],
    constant: Callable[[float], Any],
) -> dict[str, list[Any]]:
    """The outputs of `function`, flat, from values of its inputs, by a rule for each operation.

        rules = {"add": operator.add, "sin": mpmath.sin, ...}
        interpreted(function, dict(zip(function.inputs["q"].flat, numbers)), rules, mpmath.mpf)

    inputs    {symbol: value}, for all entries of all inputs
    rules     {operation: function of the values (or tables) of its operands}, as in `Function.operations`
    constant  makes a value of a float
    """
    values = dict(inputs)

    def value(x: Any) -> Any:
        if type(x) is Table:
            return x
        return values[x] if type(x) is Expr else constant(x)

    for node in function.nodes:
        if node.op != "input":
            values[node] = rules[node.op](*map(value, node.args))
    return {key: [value(x) for x in y.flat] for key, y in function.outputs.items()}


from .c import constant_table, enumeration, literal, number_type, plain_prelude, private  # noqa: E402
from .costs import BYTES_PER_STATEMENT, memory_of  # noqa: E402
from .program import callable_c99  # noqa: E402

__all__ = ["callable_c99", "constant_table", "enumeration", "interpreted", "literal", "on"]
__all__ += ["BYTES_PER_STATEMENT", "memory_of", "number_type", "plain_prelude", "private"]
