"""A function at many values of one of its inputs: what does not depend on it once, the rest in loops.

The text does not grow with the number of values. Each loop is a part of the rest, short enough that its code
and what it reads of the common part stay near the processor while the values pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .graph import CONDITIONS, OPERATIONS, Expr, Function, Graph
from .program import Cells, Program
from .schedule import BODY

PART = BODY // 2 + 1  # least operations in a loop of several: two are never joined


def apply_hoisted(program: Program, function: Function, by: str, values: Any, given: Sequence[Cells]) -> Any:
    """Apply a function at many values (places, *shape) of its input `by`; returns the cells of its results.

    given    the cells of the other inputs, in order
    returns  a list, first of the results that do not depend on `by`, which have no axis of places
    """
    late: set[Any] = set(function.inputs[by].flat)
    for node in function.nodes:
        if node.op != "input" and not late.isdisjoint(node.args):
            late.add(node)
    free = {key: y for key, y in function.outputs.items() if late.isdisjoint(y.flat)}
    rest = {key: y for key, y in function.outputs.items() if key not in free}
    moving = [x for x in function.nodes if x in late and x.op != "input" and x.op not in CONDITIONS]
    ends = np.linspace(0, len(moving), 1 + max(len(moving) // PART, 1)).astype(int)
    parts = [_with_conditions(moving[first:last]) for first, last in itertools.pairwise(ends)]
    needed = [_nodes(a for node in part for a in node.args) for part in parts]
    needed[-1] |= _nodes(x for y in rest.values() for x in y.flat)
    kept = [[a for a in x if a not in late and a.op not in CONDITIONS] for x in needed]

    others = {key: x for key, x in function.inputs.items() if key != by}
    shared = {f"kept{k}": _array(nodes) for k, nodes in enumerate(kept)}
    found = _applied(program, Function(function.name, others, free | shared), *given)
    handed: list[tuple[list[Expr], Cells]] = []  # what parts hand to later ones
    for k, part in enumerate(parts):
        graph, shape = Graph(), function.inputs[by].shape
        inputs = {"kept": graph.symbols("kept", (len(kept[k]),)), by: graph.symbols(by, shape)}
        inputs |= {f"from{j}": graph.symbols(f"from{j}", (len(x),)) for j, (x, _) in enumerate(handed)}
        sources = [kept[k], list(function.inputs[by].flat), *(nodes for nodes, _ in handed)]
        value: dict[Any, Any] = {
            node: x
            for nodes, symbols in zip(sources, inputs.values(), strict=True)
            for node, x in zip(nodes, np.ravel(symbols), strict=True)
        }
        for node in part:
            operands = (value[a] if type(a) is Expr else a for a in node.args)
            value[node] = OPERATIONS[node.op](*operands)
        mine = {node for node in part if node.op not in CONDITIONS}
        later = [a for a in dict.fromkeys(a for nodes in needed[k + 1 :] for a in nodes) if a in mine]
        results = {"later": _array(later)} if k + 1 < len(parts) else rest
        outputs = {
            key: _array([value[x] if type(x) is Expr else x for x in y.flat]).reshape(y.shape)
            for key, y in results.items()
        }
        made = Function(f"{function.name}_by_{by}", inputs, outputs)
        cells = _applied(program, made, found[len(free) + k], values, *(x for _, x in handed))
        handed.append((later, cells[0]))
    return [*found[: len(free)], *cells]


def _with_conditions(part: Sequence[Expr]) -> list[Expr]:
    """Conditions are no numbers, and no cells: each part computes those that it needs."""
    found, pending = set(part), list(part)
    while pending:
        new = [a for a in pending.pop().args if type(a) is Expr and a.op in CONDITIONS and a not in found]
        found.update(new)
        pending += new
    return sorted(found, key=lambda node: node.index)


def _nodes(entries: Iterable[Any]) -> dict[Expr, None]:
    """The nodes among them, each once, in order."""
    return dict.fromkeys(x for x in entries if type(x) is Expr)


def _array(entries: Sequence[Any]) -> Any:
    return np.array([*entries, None], object)[:-1]


def _applied(program: Program, function: Function, *arguments: Any) -> list[Cells]:
    found = program.apply(function, *arguments)
    return list(found) if isinstance(found, tuple) else [found]
