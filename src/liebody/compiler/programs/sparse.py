"""Sparse Jacobians of functions and of programs, without a matrix of zeros.

The passes of a program apply a small function at many places. Each function is differentiated once for each
pattern in which directions reach its arguments. So the text of the derivative grows with the number of
patterns, not with the number of places, and all places of a pattern are treated at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...scalars.linear import is_zero
from ..graph.derivatives import forward
from ..graph.graph import Expr, Function, objects, trace
from .program import Application, Program
from .repeats import traced


class SparseJacobian(NamedTuple):
    """A function with the Jacobian of its first output."""

    places: list[tuple[int, int]]
    """Row and column of the entries that are not known to be zero, row by row"""
    both: Function | Program
    """The same inputs -> r, values: that output and these entries; and the other outputs, by their names"""


def sparse_jacobian(function: Function | Program, wrt: str) -> SparseJacobian:
    """The entries of dr/d(wrt), r the first output, both of one axis; programs are `differentiable`."""
    (_, r), *others = function.outputs.items()
    if isinstance(function, Program):
        tangents_of = _Tangents(function, wrt)
        rows, columns, values = tangents_of.entries(r)
        both = tangents_of.program
        both.output("r", tangents_of.cells[function.positions(r)])
        both.output("values", values)
        for name, y in others:
            both.output(name, tangents_of.cells[function.positions(y)])
        return SparseJacobian(list(zip(rows.tolist(), columns.tolist(), strict=True)), both)
    # Of a straight line: forward mode with one direction for each entry of the input, where a node keeps the
    # directions only that reach it.
    symbols = function.inputs[wrt]
    tangents = forward(function.nodes, {x: {k: 1.0} for k, x in enumerate(symbols.flat)})
    along = [tangents.get(x, {}) if type(x) is Expr else {} for x in r.tolist()]
    places = [(i, k) for i, of in enumerate(along) for k in sorted(of)]
    outputs = {"r": r, "values": objects([along[i][k] for i, k in places]), **dict(others)}
    return SparseJacobian(places, Function("both", function.inputs, outputs))


def zeros(function: Function | Program) -> dict[str, Any]:
    """Which entries of each output are structurally zero, for all inputs."""
    if isinstance(function, Function):
        known = np.frompyfunc(is_zero, 1, 1)
        return {key: known(y).astype(bool) for key, y in function.outputs.items()}
    zero = zero_cells(function)
    return {key: zero[function.positions(cells)] for key, cells in function.outputs.items()}


def zero_cells(program: Program) -> Any:
    """Which cells are structurally zero, (size,)."""
    # A cell is zero unless an input, a constant or a pass puts something else there.
    zero = np.ones(program.size, bool)
    for cells in program.inputs.values():
        zero[program.positions(cells)] = False
    for first, values in program.starts:
        zero[first : first + len(values)] = values == 0
    for part in (part for step in program.passes for part in step.parts):
        of = zeros(part.function).values()
        for cells, known in zip(part.results, of, strict=True):
            zero[cells[:, ~known.ravel()]] = False
    return zero


def differentiable(program: Program) -> bool:
    """Whether no pass reads what it writes itself, so that each can be differentiated as a whole."""
    return all(len(step.parts) == 1 and not any(step.parts[0].written) for step in program.passes)


def traced_to_differentiate(
    function: Callable[..., Any], shapes: Mapping[str, int | Sequence[int]], name: str
) -> Function | Program:
    """As `traced`; a straight line where the program would not be `differentiable`."""
    graph = traced(function, shapes, name)
    if isinstance(graph, Program) and not differentiable(graph):
        return trace(function, shapes, name)
    return graph


def derivative(function: Function | Program, wrt: str) -> Function | Program:
    """d(output)/d(wrt) for a function with one output of one axis, by a scalar input; the output's shape."""
    ((name, y),) = function.outputs.items()
    places, both = sparse_jacobian(function, wrt)
    d = both.zeros(y.shape) if isinstance(both, Program) else np.zeros(y.shape).astype(object)
    d[[i for i, _ in places]] = both.outputs["values"]
    return both.over(both.inputs, {name: d})


class _Form(NamedTuple):
    """The derivatives of a function for one pattern in which directions reach its arguments.

    function  (its inputs, variable tangents) -> variable derivatives; None if all derivatives are constants
    slots     for each entry of its outputs a list of (direction, constant): the direction by its first place
              among the tangents, the constant None for a variable derivative
    """

    function: Function | None
    slots: list[list[tuple[int, float | None]]]


class _Tangents:
    """A program that also computes the derivative of each of its cells along unit vectors of an input.

    program  the new program, without outputs
    cells    for each cell of the original program, the cell of the new one with its value
    """

    def __init__(self, original: Program, wrt: str) -> None:
        self.program = Program("both", {key: x.shape for key, x in original.inputs.items()})
        self.cells = np.zeros(original.size, np.int64)
        self._original = original
        # Sparse rows: the derivatives of cell i are the entries _first[i] ... _first[i] + _count[i] - 1 of
        # the tables below. Each has a direction and a cell of the new program, or a known value.
        self._first = np.zeros(original.size, np.int64)
        self._count = np.zeros(original.size, np.int64)
        self._direction = np.zeros(0, np.int64)
        self._tangent = np.zeros(0, np.int64)
        self._known = np.zeros(0, bool)
        self._value = np.zeros(0)
        self._forms: dict[Any, _Form] = {}
        for key, cells in original.inputs.items():
            self.cells[original.positions(cells)] = self.program.cells(key)
        for first, values in original.starts:
            self.cells[first + np.arange(len(values))] = self.program.constants(values)
        # The input itself: the derivative of entry k is 1 along direction k.
        x = original.positions(original.cells(wrt)).ravel()
        unit = np.ones((len(x), 1))
        self._keep(x, np.arange(len(x))[:, None], np.zeros(unit.shape, np.int64), unit > 0, unit)
        for step in original.passes:
            self._differentiate(step.parts[0])

    def entries(self, cells: Any) -> tuple[Any, Any, Any]:
        """Rows, columns and values (cells) of the derivatives of cells of the original program, (n,)."""
        # Number the entries of all rows: the row's first one, and how far within the row. Then sort each row
        # by direction, as a Jacobian's columns are.
        positions = self._original.positions(cells)
        counts = self._count[positions]
        rows = np.repeat(np.arange(len(positions)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = np.repeat(self._first[positions], counts) + within
        entries = entries[np.lexsort((self._direction[entries], rows))]
        values = self._tangent[entries]
        known = self._known[entries]
        if known.any():
            values[known] = self.program.constants(self._value[entries[known]])
        return rows, self._direction[entries], values

    def _keep(self, cells: Any, direction: Any, tangent: Any, known: Any, value: Any) -> None:
        """Keep the derivatives (places, number) of cells (places,)."""
        width = direction.shape[1]
        self._first[cells] = len(self._direction) + width * np.arange(len(cells))
        self._count[cells] = width
        self._direction = np.concatenate([self._direction, direction.ravel()])
        self._tangent = np.concatenate([self._tangent, tangent.ravel()])
        self._known = np.concatenate([self._known, known.ravel()])
        self._value = np.concatenate([self._value, value.ravel()])

    def _differentiate(self, part: Application) -> None:
        """Apply a part in the new program, and then the derivatives of its function, pattern by pattern."""
        shapes = [x.shape for x in part.function.inputs.values()]
        arguments = [
            (self.cells[a] if a.dtype.kind == "i" else a).reshape(part.places, *shape)
            for a, shape in zip(part.arguments, shapes, strict=True)
        ]
        applied = self.program.apply(part.function, *arguments)
        applied = applied if isinstance(applied, tuple) else (applied,)
        for positions, cells in zip(part.results, applied, strict=True):
            self.cells[positions] = np.reshape(cells, positions.shape)
        # Places whose arguments have equally many tangents make rectangular tables. Within these, places are
        # alike if the tangents share directions in the same way and have the same known values.
        results = np.concatenate(part.results, axis=1)
        for places, count in _alike(self._count[part.reads]):
            if not count.any():
                continue
            entries = np.concatenate(
                [self._first[part.reads[places, j], None] + np.arange(c) for j, c in enumerate(count) if c], 1
            )
            direction = self._direction[entries]
            # A direction by the first tangent that has it: labels are equal where directions coincide alike.
            label = (direction[:, :, None] == direction[:, None, :]).argmax(axis=2)
            known = self._known[entries]
            value = self._value[entries]
            for alike, pattern in _alike(np.concatenate([label, known, np.where(known, value, 0)], axis=1)):
                form = self._form(part, count, *np.split(pattern, 3))
                free = self._tangent[entries[alike][:, ~known[alike[0]]]]
                at = places[alike]
                new = np.zeros((len(alike), 0), np.int64)
                if form.function is not None:
                    new = self.program.apply(form.function, *(x[at] for x in arguments), free)
                # Hand the columns of `new` to the outputs, in their order; constants need no cells.
                taken = 0
                for y, slots in enumerate(form.slots):
                    if not slots:
                        continue
                    constants = np.array([np.nan if x is None else x for _, x in slots])
                    fixed = np.broadcast_to(~np.isnan(constants), (len(alike), len(slots)))
                    tangent = np.zeros(fixed.shape, np.int64)
                    fresh = int((~fixed[0]).sum())
                    tangent[~fixed] = new[:, taken : taken + fresh].ravel()
                    taken += fresh
                    along = direction[alike][:, [k for k, _ in slots]]
                    self._keep(results[at, y], along, tangent, fixed, np.nan_to_num(fixed * constants))

    def _form(self, part: Application, count: Any, label: Any, known: Any, value: Any) -> _Form:
        """The derivatives of a part's function whose arguments have `count` tangents each."""
        key = part.function, *count, *label, *known, *value
        if key not in self._forms:
            self._forms[key] = _differentiated(part, count.tolist(), label.tolist(), known > 0, value)
        return self._forms[key]


def _differentiated(part: Application, count: Sequence[int], label: Any, known: Any, value: Any) -> _Form:
    """Differentiate the function of a part by forward mode, in its own graph, for one pattern of tangents."""
    function = part.function
    reads = [
        x
        for a, symbols in zip(part.arguments, function.inputs.values(), strict=True)
        if a.dtype.kind == "i"
        for x in symbols.flat
    ]
    # Tangents are numbers where they are known, new symbols of the function's graph elsewhere.
    graph = next(x.graph for symbols in function.inputs.values() for x in symbols.flat)
    name = f"tangents{len(function.inputs)}"
    free = graph.symbols(name, (int((~known).sum()),))
    values = iter(free)
    tangents = [float(x) if fixed else next(values) for x, fixed in zip(value, known, strict=True)]
    seeds: dict[Expr, dict[int, Any]] = {}
    at = 0
    for x, c in zip(reads, count, strict=True):
        seeds[x] = {int(label[k]): tangents[k] for k in range(at, at + c)}
        at += c
    derivatives = forward(function.nodes, seeds)
    slots = []
    new = []
    for y in (y for array in function.outputs.values() for y in array.flat):
        along = sorted(derivatives.get(y, {}).items()) if type(y) is Expr else []
        slots.append([(k, None if type(x) is Expr else float(x)) for k, x in along])
        new += [x for _, x in along if type(x) is Expr]
    if not new:
        return _Form(None, slots)
    inputs = {**function.inputs, name: free}
    return _Form(Function(f"{function.name}_tangents", inputs, {"d": objects(new)}), slots)


def _alike(rows: Any) -> list[tuple[Any, Any]]:
    """Groups of equal rows: their numbers, and the row."""
    groups: dict[bytes, list[int]] = {}
    for k, row in enumerate(rows):
        groups.setdefault(row.tobytes(), []).append(k)
    return [(np.array(numbers), rows[numbers[0]]) for numbers in groups.values()]
