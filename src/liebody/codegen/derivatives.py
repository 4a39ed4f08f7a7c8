"""Derivatives of traced functions, as traced functions: forward mode, reverse mode, Jacobians.

Both modes read one table, the partial derivatives of each operation. At a kink the derivative is that of the
branch which is taken: +1 for absolute at 0, that of the second operand for minimum and maximum of equals,
that of the selected branch for `where`; conditions have derivative zero. In reverse mode the branch of a
`where` that is not taken gets the weight 0, which makes NaN of a partial derivative that is infinite there
(1/x or sqrt(x) at 0): keep both branches smooth, or use forward mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import scalar
from ..errors import GraphError
from .graph import CONDITIONS, Expr, Function, Graph, Scalar, live


def _slope_of_tanh(e: Any) -> Any:
    """1 - tanh(x)^2 of e = exp(-2 |x|), to its last digits where tanh(x) is nearly 1; nothing overflows."""
    return 4.0 * e / ((1.0 + e) * (1.0 + e))


Tangents = dict[Expr, dict[int, Scalar]]
PARTIALS: dict[str, Callable[..., tuple[Any, ...]]] = {
    # of y = op(operands), with respect to each operand: (y, *operands) -> tuple
    "add": lambda y, a, b: (1.0, 1.0),
    "sub": lambda y, a, b: (1.0, -1.0),
    "mul": lambda y, a, b: (b, a),
    "div": lambda y, a, b: (1.0 / b, -y / b),
    "neg": lambda y, a: (-1.0,),
    "sin": lambda y, a: (scalar.cos(a),),
    "cos": lambda y, a: (-scalar.sin(a),),
    "tan": lambda y, a: (1.0 + y * y,),
    "sqrt": lambda y, a: (0.5 / y,),
    "exp": lambda y, a: (y,),
    "log": lambda y, a: (1.0 / a,),
    "sinh": lambda y, a: (scalar.cosh(a),),
    "cosh": lambda y, a: (scalar.sinh(a),),
    "tanh": lambda y, a: (_slope_of_tanh(scalar.exp(-2.0 * scalar.absolute(a))),),
    "arcsin": lambda y, a: (1.0 / scalar.sqrt((1.0 - a) * (1.0 + a)),),
    "arccos": lambda y, a: (-1.0 / scalar.sqrt((1.0 - a) * (1.0 + a)),),
    "sign": lambda y, a: (0.0,),
    "floor": lambda y, a: (0.0,),
    "absolute": lambda y, a: (scalar.where(a < 0.0, -1.0, 1.0),),
    "arctan2": lambda y, a, b: (b / (a * a + b * b), -a / (a * a + b * b)),
    "hypot": lambda y, a, b: (a / y, b / y),
    "minimum": lambda y, a, b: (scalar.where(a < b, 1.0, 0.0), scalar.where(a < b, 0.0, 1.0)),
    "maximum": lambda y, a, b: (scalar.where(a > b, 1.0, 0.0), scalar.where(a > b, 0.0, 1.0)),
}  # and `where`, which selects among derivatives


def forward(nodes: Iterable[Expr], seeds: Mapping[Expr, Mapping[int, Scalar]]) -> Tangents:
    """The derivatives of every node along several directions at once, by their numbers; zeros are left out.

    seeds  input symbol -> its derivative along each direction
    """
    tangents = {node: dict(along) for node, along in seeds.items()}
    for node in nodes:
        if node.op == "input" or node.op in CONDITIONS:
            continue
        along = [tangents.get(a, {}) if type(a) is Expr else {} for a in node.args]
        directions = along[0].keys() if len(along) == 1 else dict.fromkeys(k for t in along for k in t)
        if not directions:
            continue
        found = {}
        if node.op == "where":
            _, a, b = along
            found = {k: scalar.where(node.args[0], a.get(k, 0.0), b.get(k, 0.0)) for k in directions}
        else:
            partials = PARTIALS[node.op](node, *node.args)
            pairs = [(p, t) for p, t in zip(partials, along, strict=True) if t]
            for k in directions:
                found[k] = sum((p * t[k] for p, t in pairs if k in t), 0.0)
        tangents[node] = {k: x for k, x in found.items() if type(x) is Expr or x != 0.0}
    return tangents


def reverse(nodes: Iterable[Expr], seeds: Mapping[Expr, Scalar]) -> dict[Expr, Scalar]:
    """The derivative of sum(weight * output) with respect to every node (`seeds`: output -> its weight)."""
    adjoint: dict[Expr, Scalar] = dict(seeds)
    for node in reversed(list(nodes)):
        weight = adjoint.get(node, 0.0)
        if node.op == "input" or node.op in CONDITIONS or (type(weight) is float and weight == 0.0):
            continue
        if node.op == "where":
            condition = node.args[0]
            shares = (0.0, scalar.where(condition, weight, 0.0), scalar.where(condition, 0.0, weight))
        else:
            shares = tuple(partial * weight for partial in PARTIALS[node.op](node, *node.args))
        for operand, share in zip(node.args, shares, strict=True):
            if type(operand) is Expr:
                adjoint[operand] = adjoint.get(operand, 0.0) + share
    return adjoint


def jvp(function: Function, wrt: str | Sequence[str]) -> Function:
    """The directional derivative: the inputs of `function` and a direction `d_<wrt>`; outputs d(output).

    wrt  an input, or several, each of which has a direction
    """
    graph, names = _graph(function), [wrt] if isinstance(wrt, str) else [*wrt]
    inputs, seeds = dict(function.inputs), {}
    for key in names:
        symbols = _input(function, key)
        direction = _further(graph, inputs, f"d_{key}", symbols.shape)
        seeds.update({x: {0: d} for x, d in zip(symbols.flat, direction.flat, strict=True)})
    tangents = forward(function.nodes, seeds)
    outputs = {f"d_{key}": _along(tangents, y, 1).reshape(y.shape) for key, y in function.outputs.items()}
    return Function(f"{function.name}_jvp", inputs, outputs)


def vjp(function: Function, wrt: str | Sequence[str]) -> Function:
    """The gradient of sum(w * outputs): the inputs of `function` and a weight `w_<output>` per output.

    wrt  an input, or several, each of which has a gradient `g_<wrt>`
    """
    graph, names = _graph(function), [wrt] if isinstance(wrt, str) else [*wrt]
    inputs = dict(function.inputs)
    seeds: dict[Expr, Scalar] = {}
    for key, y in function.outputs.items():
        weights = _further(graph, inputs, f"w_{key}", y.shape)
        for x, weight in zip(y.flat, weights.flat, strict=True):
            if type(x) is Expr:
                seeds[x] = seeds.get(x, 0.0) + weight
    wanted = {f"g_{key}": _input(function, key) for key in names}
    adjoint = reverse(function.nodes, seeds)
    gradients = {key: _values(adjoint, symbols) for key, symbols in wanted.items()}
    return Function(f"{function.name}_vjp", inputs, gradients)


def jacobian(function: Function, wrt: str, mode: str | None = None) -> Function:
    """The Jacobian of every output with respect to the input `wrt`: arrays of shape (*output, *wrt).

    mode  "forward" (a sweep per entry of `wrt`), "reverse" (a sweep per entry of the outputs), or None: the
          one that needs fewer sweeps, forward when in doubt
    """
    _graph(function)
    symbols = _input(function, wrt)
    entries = sum(y.size for y in function.outputs.values())
    if mode not in (None, "forward", "reverse"):
        raise GraphError(f"mode {mode!r}: expected 'forward', 'reverse' or None")
    outputs = {}
    if mode == "forward" or (mode is None and symbols.size <= 2 * entries):
        tangents = forward(function.nodes, {x: {k: 1.0} for k, x in enumerate(symbols.flat)})
        for key, y in function.outputs.items():
            outputs[key] = _along(tangents, y, symbols.size).reshape(y.shape + symbols.shape)
    else:
        for key, y in function.outputs.items():
            adjoints = [reverse(live([x]), {x: 1.0}) if type(x) is Expr else {} for x in y.flat]
            rows = [_values(adjoint, symbols).reshape(-1) for adjoint in adjoints]
            outputs[key] = np.array(rows, dtype=object).reshape(y.shape + symbols.shape)
    return Function(
        f"{function.name}_jacobian", function.inputs, {f"d_{key}_d_{wrt}": y for key, y in outputs.items()}
    )


def _along(tangents: Tangents, array: Any, directions: int) -> Any:
    """The derivatives of the entries of `array`, (entries, directions); constants have none."""
    result = np.zeros((array.size, directions), float).astype(object)
    for row, x in zip(result, array.flat, strict=True):
        for k, derivative in tangents.get(x, {}).items() if type(x) is Expr else ():
            row[k] = derivative
    return result


def _values(derivatives: Mapping[Expr, Scalar], array: Any) -> Any:
    """The derivatives of the entries of `array`; constants, and symbols that do not occur, have none."""
    result = np.empty(array.shape, dtype=object)
    for position, x in np.ndenumerate(array):
        result[position] = derivatives.get(x, 0.0)
    return result


def _graph(function: Function) -> Graph:
    for symbols in function.inputs.values():
        for x in symbols.flat:
            return x.graph
    raise GraphError(f"{function.name} has no inputs to differentiate with respect to")


def _further(graph: Graph, inputs: dict[str, Any], name: str, shape: tuple[int, ...]) -> Any:
    """Symbols for a further input: d_q, or dd_q where a derivative of a derivative has that already."""
    while name in inputs:
        name = name[0] + name
    inputs[name] = np.asarray(graph.symbols(name, shape), dtype=object)
    return inputs[name]


def _input(function: Function, wrt: str) -> Any:
    if wrt not in function.inputs:
        raise GraphError(f"{function.name} has no input {wrt!r}; its inputs are {', '.join(function.inputs)}")
    return function.inputs[wrt]
