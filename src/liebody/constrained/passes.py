"""Algorithms as passes: one small function at many places of a memory, run at once or written as a program.

An algorithm over bodies and joints is written once, against a memory of scalars named by integers (cells):

    cells = memory.put(values)                       # an integer array of the shape of `values`
    R, p = memory.apply(function, q, r)              # function(q[i], r[i]) for every place i
    memory.apply(function, q, r, into=(A, b))        # the same, written to cells that exist; in order
    memory.get(cells)                                # what is in them

`Inline` runs each pass when it is written: on floats it computes, on the symbols of a trace it unrolls the
algorithm into one straight line, in which what is constant folds away. `Written` writes a
`codegen.Program`, whose length does not depend on the number of places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..codegen import Expr, Function, Program, trace

Array = Any
Cells = np.ndarray  # integers
Pass = Callable[..., Any]


class Inline:
    """The memory holds the values themselves: floats, or symbols of a trace."""

    def __init__(self) -> None:
        self.memory: list[Any] = []

    def put(self, values: Array) -> Cells:
        """New cells with these values."""
        values = np.asarray(values)
        start = len(self.memory)
        self.memory += values.reshape(-1).tolist()
        return np.arange(start, len(self.memory)).reshape(values.shape)

    variable = put  # cells that passes may write again

    def empty(self, shape: tuple[int, ...]) -> Cells:
        """New cells for passes to write."""
        return self.put(np.zeros(shape))

    def copy(self, cells: Cells) -> Cells:
        """New cells with the values of these, which passes may write again."""
        return self.put(self.get(cells))

    def get(self, cells: Cells) -> Array:
        """The values in cells: floats, where all are known; otherwise an object array."""
        values = [self.memory[i] for i in cells.reshape(-1)]
        if any(hasattr(x, "apply") for x in values):
            array = np.empty(len(values), object)
            array[:] = values
            return array.reshape(cells.shape)
        return np.array(values, float).reshape(cells.shape)

    def apply(self, function: Pass, *arguments: Cells, into: Sequence[Cells] | None = None) -> Any:
        """function at every place of `arguments`, whose first axis counts places; cells of its results.

        One integer array (places, *shape) where the function returns an array, a tuple of them where it
        returns a tuple. With `into`, results are written to those cells, place after place.
        """
        places = len(arguments[0])
        written: list[list[Cells]] = []
        single = False
        for i in range(places):
            results = function(*(self.get(cells[i]) for cells in arguments))
            single = not isinstance(results, tuple)
            results = (results,) if single else results
            if into is None:
                written.append([self.put(x) for x in results])
                continue
            for target, x in zip(into, results, strict=True):
                for cell, value in zip(target[i].reshape(-1), np.asarray(x).reshape(-1), strict=True):
                    self.memory[cell] = value
        if into is not None:
            return None
        stacked = tuple(np.stack(results) for results in zip(*written, strict=True))
        return stacked[0] if single else stacked


class Written:
    """The memory is that of a program, and passes are written down.

    What is known while writing stays known: cells with a constant need no memory, and passes are specialised
    to constants that are the same at all their places.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._cell = np.zeros(1024, np.int64)  # by our number: the program's cell, -1 for a constant
        self._value = np.zeros(1024)
        self._size = 0

    def put(self, values: Array) -> Cells:
        """Constants."""
        values = np.asarray(values, float)
        return self._new(np.full(values.shape, -1), values)

    def input(self, name: str) -> Cells:
        """The program's input of this name."""
        cells = self.program.cells(name)
        return self._new(cells, np.zeros(cells.shape))

    def variable(self, values: Array) -> Cells:
        """New cells with these values at the start, which passes may write again."""
        values = np.asarray(values, float)
        if values.ndim > 1 and len(values) > 1 and (values == values[0]).all():
            cells = self.program.empty(values.shape)  # by a pass, which may stand where they are read
            self.program.apply(trace(lambda: values[0], {}, "fill"), into=cells)
        else:
            cells = self.program.constants(values)
        return self._new(cells, np.zeros(cells.shape))

    def empty(self, shape: tuple[int, ...]) -> Cells:
        """New cells for passes to write."""
        return self._new(self.program.empty(shape), np.zeros(shape))

    def copy(self, cells: Cells) -> Cells:
        """New cells with the values of these, which passes may write again."""
        flat = cells.reshape(len(cells), -1)
        target = np.empty_like(flat)
        constant = (self._cell[flat] < 0).all(axis=0)
        if constant.any():
            target[:, constant] = self.variable(self._value[flat[:, constant]])
        if not constant.all():
            target[:, ~constant] = self.empty((len(flat), int((~constant).sum())))
            self.apply(lambda x: (x,), flat[:, ~constant], into=(target[:, ~constant],))
        return target.reshape(cells.shape)

    def get(self, cells: Cells) -> Cells:
        """The program's cells for these."""
        known = self._cell[cells]
        constant = known < 0
        if constant.any():
            known = known.copy()
            known[constant] = self.program.constants(self._value[cells][constant])
        return known

    def apply(self, function: Pass, *arguments: Cells, into: Sequence[Cells] | None = None) -> Any:
        """As `Inline.apply`."""
        places, shapes = len(arguments[0]), [cells.shape[1:] for cells in arguments]
        columns = np.concatenate([cells.reshape(places, -1) for cells in arguments], axis=1)
        entries, inputs, read = self._columns(columns)

        def specialised(*sources: Array) -> dict[str, Array]:
            by_name = dict(zip(inputs, sources, strict=True))
            flat = np.empty(len(entries), object)
            flat[:] = [e if isinstance(e, float) else by_name[e[0]][e[1]] for e in entries]
            ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
            parts = [part.reshape(s) for part, s in zip(np.split(flat, ends), shapes, strict=True)]
            results = function(*(x if x.ndim else x[()] for x in parts))
            self._single = not isinstance(results, tuple)
            results = (results,) if self._single else results
            return {f"y{i}": np.asarray(y) for i, y in enumerate(results)}

        name = getattr(function, "__name__", "step").replace("<lambda>", "step").lstrip("_")
        traced = trace(specialised, {key: x.shape[1] for key, x in inputs.items()}, name)
        single, outputs = self._single, list(traced.outputs.values())
        if into is not None:
            targets = np.concatenate([self._cell[cells.reshape(places, -1)] for cells in into], axis=1)
            values = np.concatenate([y.reshape(-1) for y in outputs])
            _, first = np.unique(targets[0], return_index=True)
            groups = _by_stride(targets[:, first])
            step = Function(name, traced.inputs, {f"y{i}": values[first[of]] for i, of in enumerate(groups)})
            self.program.apply(step, *inputs.values(), into=tuple(targets[:, first[of]] for of in groups))
            return None
        fresh: dict[Any, int] = {}
        for y in outputs:
            for x in y.flat:
                if isinstance(x, Expr) and x.op != "input":
                    fresh.setdefault(x, len(fresh))
        cells = np.zeros((places, 0), np.int64)
        if fresh:
            kept = np.empty(len(fresh), object)
            kept[:] = list(fresh)
            made = self.program.apply(Function(name, traced.inputs, {"y": kept}), *inputs.values())
            cells = self._new(made, np.zeros(made.shape))
        results = []
        for y in outputs:
            found = np.empty((places, y.size), np.int64)
            for k, x in enumerate(y.flat):
                if not isinstance(x, Expr):
                    found[:, k] = self.put(float(x))
                elif x.op == "input":
                    found[:, k] = read[x.args[0], x.args[1][0]]
                else:
                    found[:, k] = cells[:, fresh[x]]
            results.append(found.reshape(places, *y.shape))
        return results[0] if single else tuple(results)

    def _columns(self, columns: Cells) -> tuple[list[Any], dict[str, Array], dict[tuple[str, int], Cells]]:
        """What a pass reads, entry by entry of its arguments.

        For each entry a number, or (name of an input, position); the inputs, constants c (places, .) and
        cells x0, x1, ... (places, .), each in a row; which of our cells an input holds.
        """
        known, values = self._cell[columns], self._value[columns]
        places = len(columns)
        kinds: list[Any] = []  # of each column: a number, or its place among constants or among cells
        seen: dict[bytes, Any] = {}
        of: dict[str, list[Array]] = {"x": [], "c": []}
        ours: dict[str, list[Array]] = {"x": [], "c": []}
        for k in range(columns.shape[1]):
            constant = known[:, k] < 0
            if constant.all() and (values[:, k] == values[0, k]).all():
                kinds.append(float(values[0, k]))
                continue
            if constant.any() and not constant.all():
                columns[constant, k] = self.variable(values[constant, k])
                known[:, k] = self._cell[columns[:, k]]
            key = columns[:, k].tobytes()
            if key not in seen:
                kind = "c" if constant.all() else "x"
                seen[key] = kind, len(of[kind])
                of[kind].append(values[:, k] if kind == "c" else known[:, k])
                ours[kind].append(columns[:, k].copy())
            kinds.append(seen[key])
        cells = np.stack(of["x"], axis=1) if of["x"] else np.zeros((places, 0), np.int64)
        groups = _by_stride(cells)
        inputs = {f"x{g}": cells[:, members] for g, members in enumerate(groups)}
        if of["c"]:
            inputs["c"] = np.stack(of["c"], axis=1)
        named = {("c", k): ("c", k) for k in range(len(of["c"]))}
        named |= {("x", int(k)): (f"x{g}", i) for g, on in enumerate(groups) for i, k in enumerate(on)}
        read = {named[kind, k]: x for kind, found in ours.items() for k, x in enumerate(found)}
        return [e if isinstance(e, float) else named[e] for e in kinds], inputs, read

    def _new(self, cells: Array, values: Array) -> Cells:
        size = self._size + values.size
        while size > len(self._cell):
            self._cell = np.concatenate([self._cell, np.zeros_like(self._cell)])
            self._value = np.concatenate([self._value, np.zeros_like(self._value)])
        self._cell[self._size : size], self._value[self._size : size] = cells.reshape(-1), values.reshape(-1)
        numbers = np.arange(self._size, size).reshape(values.shape)
        self._size = size
        return numbers


def _by_stride(cells: Array) -> list[Array]:
    """The columns of cells (places, .) in runs: cells in a row that move on alike from place to place.

    Runs need no table of indices where their step is the same at all places.
    """
    order = np.argsort(cells[0], kind="stable")
    along = cells[:, order]
    together = (np.diff(along[0]) == 1) & (np.diff(np.diff(along, axis=0), axis=1) == 0).all(axis=0)
    return np.split(order, np.flatnonzero(~together) + 1) if len(order) else []


Memory = Inline | Written


def written(
    name: str, inputs: Mapping[str, Any], make: Callable[..., dict[str, Cells]], large: bool
) -> Function | Program:
    """make(memory, *cells of inputs) -> cells of named outputs, as a straight line, or as a program."""
    if large:
        program = Program(name, inputs)
        memory = Written(program)
        for key, cells in make(memory, *(memory.input(key) for key in inputs)).items():
            program.output(key, memory.get(cells))
        return program

    def run(*arrays: Array) -> dict[str, Array]:
        memory = Inline()
        found = make(memory, *(memory.put(x) for x in arrays))
        return {key: memory.get(cells) for key, cells in found.items()}

    return trace(run, inputs, name)
