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

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..codegen import Function, trace

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


Memory = Inline


def written(
    name: str, inputs: Mapping[str, Any], make: Callable[..., dict[str, Cells]], large: bool
) -> Function:
    """make(memory, *cells of inputs) -> cells of named outputs, as a straight line."""

    def run(*arrays: Array) -> dict[str, Array]:
        memory = Inline()
        found = make(memory, *(memory.put(x) for x in arrays))
        return {key: memory.get(cells) for key, cells in found.items()}

    return trace(run, inputs, name)
