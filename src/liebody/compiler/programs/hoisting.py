"""Hoisting: a function at many values of some inputs, whose common part is computed once, before the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph.graph import CONDITIONS, Expr, Function, Graph, evaluate, objects
from .program import Cells, Program


def apply_hoisted(
    program: Program, function: Function, by: Mapping[str, Any], given: Sequence[Cells]
) -> list[Cells]:
    """Apply a function at many values of some of its inputs; returns the cells of its results.

    by       constants or cells (places, *shape) of those inputs
    given    the cells of the other inputs, in order
    returns  first the results that do not depend on inputs of `by`, which have no axis of places; then the
             others
    """
    # Split the graph: `late` are the nodes that depend on an input of `by`.
    late: set[Any] = {x for key in by for x in function.inputs[key].flat}
    for node in function.nodes:
        if node.op != "input" and not late.isdisjoint(node.args):
            late.add(node)
    free = {key: y for key, y in function.outputs.items() if late.isdisjoint(y.flat)}
    rest = {key: y for key, y in function.outputs.items() if key not in free}
    # The early part hands values on through the memory, which holds numbers only. So the loop computes again
    # the conditions that its nodes need, and the conditions that these need.
    for node in reversed(function.nodes):
        if node in late:
            late.update(a for a in node.args if type(a) is Expr and a.op in CONDITIONS)
    moving = [node for node in function.nodes if node in late and node.op != "input"]
    needed = [*(a for node in moving for a in node.args), *(x for y in rest.values() for x in y.flat)]
    kept = list(dict.fromkeys(a for a in needed if type(a) is Expr and a not in late))

    # The early part, applied once: outputs that do not change, and the values that the loop needs.
    others = {key: x for key, x in function.inputs.items() if key not in by}
    *fixed, common = _applied(
        program, Function(function.name, others, {**free, "kept": objects(kept)}), *given
    )
    # The loop's function, over a new graph, in which those values are inputs that all places share.
    graph = Graph()
    moved = {key: function.inputs[key] for key in by}
    inputs = {key: graph.symbols(key, x.shape) for key, x in {"kept": objects(kept), **moved}.items()}
    symbols = (x for array in inputs.values() for x in np.ravel(array))
    sources = [*kept, *(x for array in moved.values() for x in array.flat)]
    value: dict[Any, Any] = dict(zip(sources, symbols, strict=True))
    evaluate(moving, value)
    outputs = {
        key: objects([value[x] if type(x) is Expr else x for x in y.flat]).reshape(y.shape)
        for key, y in rest.items()
    }
    rest_of_it = Function(f"{function.name}_by_{'_'.join(by)}", inputs, outputs)
    return [*fixed, *_applied(program, rest_of_it, common, *by.values())]


def _applied(program: Program, function: Function, *arguments: Any) -> list[Cells]:
    """The cells of all results of one application, as a list."""
    results = program.apply(function, *arguments)
    return list(results) if isinstance(results, tuple) else [results]
