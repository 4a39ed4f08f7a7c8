"""Packs results whose entries are often constant, equal or multiples of others into the different numbers."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from ..graph.graph import Expr, Function, objects
from .program import Cells, Program
from .sparse import zeros


class Packing(NamedTuple):
    """An array y made of fewer numbers: y = constant, then y[at + j] += factor * numbers[of + j], j < length.

    constant   (size,)
    numbers    their count
    at, of, factor, length   arrays with an entry for each piece
    """

    constant: Any
    numbers: int
    at: Any
    of: Any
    factor: Any
    length: Any

    def unpack(self, numbers: Any) -> Any:
        """y (..., size) of numbers (..., count)."""
        numbers = np.asarray(numbers)
        y = np.broadcast_to(self.constant, (*numbers.shape[:-1], len(self.constant))).copy()
        within = np.arange(self.length.sum()) - np.repeat(np.cumsum(self.length) - self.length, self.length)
        at, of, factor = (np.repeat(x, self.length) for x in self[2:5])
        y[..., at + within] += factor * numbers[..., of + within]
        return y


def packed(function: Function | Program, width: int, first: int = 0) -> tuple[Function | Program, Packing]:
    """A function that returns only the different numbers of its output y, and how y is made of them.

    function  has one output y, of one axis
    width     length of rows of y; pieces do not reach over the end of a row
    first     so many entries of y stay at the front of the numbers; the packing is of the entries behind them

    Neighbours stay neighbours, so that unpacking copies runs: a piece is shared with an earlier one only if
    all of it stands there in the same order.
    """
    # Each entry as constant + factor * node; cells of programs are not looked into.
    ((name, y),) = function.outputs.items()
    if isinstance(function, Program):
        known = zeros(function)[name]
        terms = [(0.0, 1.0, None if zero else cell) for zero, cell in zip(known, y.tolist(), strict=True)]
    else:
        terms = [_affine(x) for x in y]
    terms = terms[first:]
    nodes = [*dict.fromkeys(node for *_, node in terms)]
    number = {node: k for k, node in enumerate(nodes)}  # comparing nodes would make a new node
    # Pieces: entries of one row with one factor. If the numbers of a piece are in `kept` already, behind its
    # first one, they serve again; otherwise all of them are appended.
    kept: list[int] = []
    begin: dict[int, int] = {}  # of the last piece that has this first entry
    pieces: list[tuple[int, int, float, int]] = []
    rows = itertools.groupby(range(len(terms)), lambda k: (k // width, terms[k][1], terms[k][2] is None))
    for (_, factor, known), group in rows:
        if known:
            continue
        places = [*group]
        entries = [number[terms[k][2]] for k in places]
        of = begin.get(entries[0], len(kept))
        if kept[of : of + len(places)] != entries:
            begin[entries[0]] = of = len(kept)
            kept += entries
        pieces.append((places[0], first + of, factor, len(places)))
    kinds = np.int64, np.int64, float, np.int64
    columns = (np.array(x, kind) for x, kind in zip(zip(*pieces) if pieces else [()] * 4, kinds, strict=True))
    packing = Packing(np.array([constant for constant, *_ in terms]), first + len(kept), *columns)
    numbers = [*y[:first], *(nodes[k] for k in kept)]
    output = objects(numbers) if isinstance(function, Function) else np.array(numbers)
    return function.over(function.inputs, {name: output}), packing


def _affine(x: Any) -> tuple[float, float, Any]:
    """a, b, node of x = a + b node, with floats a and b > 0; no node where x is known."""
    if type(x) is not Expr:
        return float(x), 0.0, None
    if x.op == "neg":
        a, b, node = _affine(x.args[0])
        return -a, b, -node
    if x.op == "sub" and type(x.args[0]) is float:
        a, b, node = _affine(x.args[1])
        return x.args[0] - a, b, -node
    if x.op in ("add", "mul") and type(x.args[1]) is float:
        a, b, node = _affine(x.args[0])
        return (a + x.args[1], b, node) if x.op == "add" else (a * x.args[1], b * x.args[1], node)
    return 0.0, 1.0, x


def apply_once(program: Program, function: Function, *arguments: Cells) -> Cells:
    """Apply a function at one place, as `Program.apply`; returns the cells of its only output, of one axis.

    Entries of the output that are inputs of the function keep their cells; only the others are computed.
    """
    ((name, y),) = function.outputs.items()
    cell: dict[Any, Any] = {}
    for symbols, cells in zip(function.inputs.values(), arguments, strict=True):
        cell.update(zip(symbols.flat, cells.flat, strict=True))
    new = [x for x in y if x not in cell]
    computed = program.apply(Function(function.name, function.inputs, {name: objects(new)}), *arguments)
    cell.update(zip(new, computed, strict=True))
    return np.array([cell[x] for x in y], np.int64)
