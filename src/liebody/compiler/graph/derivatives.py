"""Derivatives of traced functions, as traced functions: forward mode, reverse mode, Jacobians, Hessians.

Derivatives are taken by `wrt`, an input or several of them. Each entry of an input is a direction, unless
`along` has an array (*shape, k) for it, whose columns are k directions along which the input changes. These
are symbols of the function's graph, such as the tangents of a group at the input itself, so that derivatives
may be differentiated again.

Both modes read one table, the partial derivatives of each operation. At a kink the derivative belongs to the
branch which is taken: +1 for absolute at 0, the second operand for minimum and maximum of equals, the
selected branch for `where`; conditions have derivative zero. In reverse mode the branch of a `where` that is
not taken gets the weight 0, which makes NaN of a partial derivative that is infinite there (1/x or sqrt(x) at
0): keep both branches smooth, or use forward mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ... import scalars
from ...base.errors import GraphError
from ...scalars.linear import is_zero
from .graph import CONDITIONS, Expr, Function, Graph, Scalar, graph_of, live, objects


def _slope_of_tanh(e: Any) -> Any:
    """1 - tanh(x)^2 of e = exp(-2 |x|), to its last digits where tanh(x) is nearly 1; nothing overflows."""
    return 4.0 * e / ((1.0 + e) * (1.0 + e))


Tangents = dict[Expr, dict[int, Scalar]]
Along = Mapping[str, Any]
PARTIALS: dict[str, Callable[..., tuple[Any, ...]]] = {
    # of y = op(operands), with respect to each operand: (y, *operands) -> tuple
    "add": lambda y, a, b: (1.0, 1.0),
    "sub": lambda y, a, b: (1.0, -1.0),
    "mul": lambda y, a, b: (b, a),
    "div": lambda y, a, b: (1.0 / b, -y / b),
    "neg": lambda y, a: (-1.0,),
    "sin": lambda y, a: (scalars.cos(a),),
    "cos": lambda y, a: (-scalars.sin(a),),
    "tan": lambda y, a: (1.0 + y * y,),
    "sqrt": lambda y, a: (0.5 / y,),
    "exp": lambda y, a: (y,),
    "log": lambda y, a: (1.0 / a,),
    "sinh": lambda y, a: (scalars.cosh(a),),
    "cosh": lambda y, a: (scalars.sinh(a),),
    "tanh": lambda y, a: (_slope_of_tanh(scalars.exp(-2.0 * scalars.absolute(a))),),
    "arcsin": lambda y, a: (1.0 / scalars.sqrt((1.0 - a) * (1.0 + a)),),
    "arccos": lambda y, a: (-1.0 / scalars.sqrt((1.0 - a) * (1.0 + a)),),
    "sign": lambda y, a: (0.0,),
    "floor": lambda y, a: (0.0,),
    "absolute": lambda y, a: (scalars.where(a < 0.0, -1.0, 1.0),),
    "arctan2": lambda y, a, b: (b / (a * a + b * b), -a / (a * a + b * b)),
    "hypot": lambda y, a, b: (a / y, b / y),
    "minimum": lambda y, a, b: (scalars.where(a < b, 1.0, 0.0), scalars.where(a < b, 0.0, 1.0)),
    "maximum": lambda y, a, b: (scalars.where(a > b, 1.0, 0.0), scalars.where(a > b, 0.0, 1.0)),
    "lookup": lambda y, table, i: (0.0, 0.0),
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
        # The chain rule, one direction at a time; structural zeros are dropped, so that directions which do
        # not reach a node cost nothing.
        derivatives: dict[int, Scalar] = {}
        if node.op == "where":
            _, a, b = along
            derivatives = {k: scalars.where(node.args[0], a.get(k, 0.0), b.get(k, 0.0)) for k in directions}
        else:
            partials = PARTIALS[node.op](node, *node.args)
            pairs = [(p, t) for p, t in zip(partials, along, strict=True) if t]
            for k in directions:
                derivatives[k] = sum((p * t[k] for p, t in pairs if k in t), 0.0)
        tangents[node] = {k: x for k, x in derivatives.items() if type(x) is Expr or x != 0.0}
    return tangents


def reverse(nodes: Iterable[Expr], seeds: Mapping[Expr, Scalar]) -> dict[Expr, Scalar]:
    """The derivative of sum(weight * output) with respect to every node (`seeds`: output -> its weight)."""
    # Users of a node come before it in reversed order, so its weight is complete when its turn comes.
    adjoint: dict[Expr, Scalar] = dict(seeds)
    for node in reversed(list(nodes)):
        weight = adjoint.get(node, 0.0)
        if node.op == "input" or node.op in CONDITIONS or (type(weight) is float and weight == 0.0):
            continue
        if node.op == "where":
            condition = node.args[0]
            shares = (0.0, scalars.where(condition, weight, 0.0), scalars.where(condition, 0.0, weight))
        else:
            shares = tuple(partial * weight for partial in PARTIALS[node.op](node, *node.args))
        for operand, share in zip(node.args, shares, strict=True):
            if type(operand) is Expr:
                adjoint[operand] = adjoint.get(operand, 0.0) + share
    return adjoint


def jvp(function: Function, wrt: str | Sequence[str], along: Along = MappingProxyType({})) -> Function:
    """The directional derivative: the inputs of `function` and directions `d_<wrt>`; outputs d(output)."""
    names = _names(function, wrt)
    graph = _graph(function)
    inputs = dict(function.inputs)
    seeds: dict[Expr, dict[int, Scalar]] = {}
    for name in names:
        _refuse_again(function, f"d_{name}")
        symbols = inputs[name]
        E = along.get(name)
        direction = graph.symbols(f"d_{name}", symbols.shape if E is None else E.shape[-1:])
        change = np.asarray(direction if E is None else E @ direction, dtype=object)
        seeds.update((x, {0: d}) for x, d in zip(symbols.flat, change.flat, strict=True) if not is_zero(d))
        inputs[f"d_{name}"] = direction
    tangents = forward(function.nodes, seeds)
    outputs = {f"d_{key}": _along(tangents, y, 1).reshape(y.shape) for key, y in function.outputs.items()}
    return Function(f"{function.name}_jvp", inputs, outputs)


def vjp(function: Function, wrt: str | Sequence[str], along: Along = MappingProxyType({})) -> Function:
    """The gradients of sum(w * outputs): the inputs of `function` and a weight `w_<output>` per output."""
    names = _names(function, wrt)
    graph = _graph(function)
    for key in function.outputs:
        _refuse_again(function, f"w_{key}")
    weights = {f"w_{key}": graph.symbols(f"w_{key}", y.shape) for key, y in function.outputs.items()}
    seeds: dict[Expr, Scalar] = {}
    for y, w in zip(function.outputs.values(), weights.values(), strict=True):
        for x, weight in zip(y.flat, np.asarray(w, dtype=object).flat, strict=True):
            if type(x) is Expr:
                seeds[x] = seeds.get(x, 0.0) + weight
    adjoint = reverse(function.nodes, seeds)
    gradients = {f"g_{name}": _gradient(adjoint, function.inputs[name], along.get(name)) for name in names}
    return Function(f"{function.name}_vjp", {**function.inputs, **weights}, gradients)


def jacobian(
    function: Function,
    wrt: str | Sequence[str],
    mode: str | None = None,
    along: Along = MappingProxyType({}),
) -> Function:
    """The Jacobians of every output with respect to the inputs `wrt`: arrays of shape (*output, *wrt).

    They are ordered by outputs, then by inputs; an input that has k directions counts as (k,).

    mode  "forward" (a sweep per direction), "reverse" (a sweep per entry of the outputs), or None: the one
          that needs fewer sweeps, forward when in doubt
    """
    names = _names(function, wrt)
    entries = sum(y.size for y in function.outputs.values())
    if mode not in (None, "forward", "reverse"):
        raise GraphError(f"mode {mode!r}: expected 'forward', 'reverse' or None")
    # Number the directions of all inputs in a row: the directions of `name` begin at first[name].
    shapes = {}
    seeds = {}
    first = {}
    count = 0
    for name in names:
        symbols = function.inputs[name]
        E = along.get(name)
        shapes[name] = symbols.shape if E is None else E.shape[-1:]
        first[name] = count
        rows = np.eye(symbols.size).astype(object) if E is None else E.reshape(symbols.size, -1)
        for x, row in zip(symbols.flat, rows, strict=True):
            seeds[x] = {count + k: d for k, d in enumerate(row) if not is_zero(d)}
        count += math.prod(shapes[name])
    # Forward sweeps go together and share partial derivatives, so they may be twice as many.
    blocks: dict[tuple[str, str], Any] = {}
    if mode == "forward" or (mode is None and count <= 2 * entries):
        tangents = forward(function.nodes, seeds)
        for key, y in function.outputs.items():
            columns = _along(tangents, y, count)
            for name, shape in shapes.items():
                directions = slice(first[name], first[name] + math.prod(shape))
                blocks[key, name] = columns[:, directions].reshape(y.shape + shape)
    else:
        for key, y in function.outputs.items():
            adjoints = [reverse(live([x]), {x: 1.0}) if type(x) is Expr else {} for x in y.flat]
            for name, shape in shapes.items():
                symbols = function.inputs[name]
                E = along.get(name)
                values = [_gradient(adjoint, symbols, E).reshape(-1) for adjoint in adjoints]
                blocks[key, name] = np.array(values, dtype=object).reshape(y.shape + shape)
    outputs = {f"d_{key}_d_{name}": y for (key, name), y in blocks.items()}
    return Function(f"{function.name}_jacobian", function.inputs, outputs)


def hessian(function: Function, wrt: str | Sequence[str], along: Along = MappingProxyType({})) -> Function:
    """The Jacobians of the Jacobians: arrays (*output, *x, *y), by x and then y, for y not before x in `wrt`.

    Directions E_i that are fields, such as on a group, need not commute: E_j (E_i f) stands at [i, j].
    """
    names = _names(function, wrt)
    outputs = {}
    first = jacobian(function, names, None, along)
    # The blocks of the first derivative are ordered by outputs, then by inputs x; block x is differentiated
    # by x and the inputs after it, the other blocks follow by symmetry.
    for number, (key, y) in enumerate(first.outputs.items()):
        block = Function(first.name, first.inputs, {key: y})
        outputs.update(jacobian(block, names[number % len(names) :], None, along).outputs)
    return Function(f"{function.name}_hessian", function.inputs, outputs)


def hvp(function: Function, wrt: str | Sequence[str], along: Along = MappingProxyType({})) -> Function:
    """Hessians times directions, d(gradients of `vjp`): its inputs and `d_<wrt>`; outputs d_g_<wrt>."""
    return jvp(vjp(function, wrt, along), wrt, along)


def _along(tangents: Tangents, array: Any, directions: int) -> Any:
    """The derivatives of the entries of `array`, (entries, directions); constants have none."""
    result = np.zeros((array.size, directions), float).astype(object)
    for row, x in zip(result, array.flat, strict=True):
        for k, derivative in tangents.get(x, {}).items() if type(x) is Expr else ():
            row[k] = derivative
    return result


def _gradient(adjoint: Mapping[Expr, Scalar], symbols: Any, E: Any) -> Any:
    """The derivatives by an input, or by the directions E along which it changes."""
    gradient = objects([adjoint.get(x, 0.0) for x in symbols.flat])  # symbols that do not occur have none
    return gradient.reshape(symbols.shape) if E is None else gradient @ E.reshape(symbols.size, -1)


def _graph(function: Function) -> Graph:
    graph = graph_of([*function.inputs.values()])
    if graph is None:
        raise GraphError(f"{function.name} has no inputs to differentiate with respect to")
    return graph


def _refuse_again(function: Function, name: str) -> None:
    if name in function.inputs:
        raise GraphError(f"{function.name} has an input {name!r} already; trace it under another name first")


def _names(function: Function, wrt: str | Sequence[str]) -> list[str]:
    """The inputs `wrt` as a list; raises GraphError for names that the function does not have."""
    _graph(function)
    names = [wrt] if isinstance(wrt, str) else list(dict.fromkeys(wrt))
    for name in names:
        if name not in function.inputs:
            known = ", ".join(function.inputs)
            raise GraphError(f"{function.name} has no input {name!r}; its inputs are {known}")
    return names
