"""Programs: small traced functions, each applied at many places in turn, over a memory of cells.

Straight-line code for a thousand bodies compiles slowly and waits for its own instructions. A `Program` keeps
the loops: it is a sequence of *passes* over a memory of scalar cells, and each pass applies one `Function` at
many places, in their order. Apart from tables of indices and constants, its text does not grow with the
number of places. `unroll` makes a straight-line function of it.

    program = Program("total", {"q": (n, 3)})
    q, length, total = program.cells("q"), trace(norm, {"r": 3}), program.zeros(())
    program.apply(add, total, program.apply(length, q), into=total)
    program.output("total", total)

Cells are numbers in integer arrays, so slicing, `reshape`, `np.stack` and fancy indices arrange them. Each
program has a range of numbers to itself, so that cells of another one are noticed.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base.arguments import shape_of, wrong_shape
from ...base.concurrency import cached_property
from ...base.errors import GraphError, ShapeError
from ..graph.graph import Function, Graph, signature, trace

Cells = NDArray[np.int64]
"""Numbers of cells of the memory, in any shape."""
_RANGE = 1 << 40  # cell numbers of one program
_ranges = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Application:
    """A function at `places` places: arguments and results are arrays (places, size).

    Integers are positions in the memory, floats are constants. `written` says which results go to cells that
    existed before; the others go to new cells, in order.
    """

    function: Function
    places: int
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    written: tuple[bool, ...]

    @cached_property
    def reads(self) -> Any:
        """The cells that each place reads, (places, number)."""
        return beside([a for a in self.arguments if a.dtype.kind == "i"], self.places)

    @cached_property
    def writes(self) -> Any:
        """The older cells that each place writes, (places, number); new cells are left out."""
        return beside([y for y, old in zip(self.results, self.written, strict=True) if old], self.places)

    @cached_property
    def free(self) -> bool:
        """Whether the places may run in any order: none reads or writes a cell that another one writes."""
        # New cells are written once, and read by later passes only; so older cells decide.
        if not self.writes.size:
            return True
        writer = dict(zip(self.writes.ravel().tolist(), np.indices(self.writes.shape)[0].ravel().tolist()))
        return len(writer) == self.writes.size and all(
            writer.get(cell, place) == place for place, row in enumerate(self.reads.tolist()) for cell in row
        )


@dataclass(frozen=True, eq=False)
class Pass:
    """Parts that take turns: the next place is one of part order[0], then one of part order[1] ..."""

    parts: tuple[Application, ...]
    order: Any

    def turns(self, part: int) -> Any:
        """The turns of the pass that belong to a part, (places,)."""
        return np.flatnonzero(self.order == part)

    @cached_property
    def runs(self) -> list[tuple[Application, slice]]:
        """The pass as runs of places of one part, in which no place reads a cell that the run has written.

        NumPy computes the places of a run at once.
        """
        if len(self.parts) == 1 and self.parts[0].places and not self.parts[0].writes.size:
            return [(self.parts[0], slice(0, self.parts[0].places))]
        runs: list[tuple[Application, slice]] = []
        done = [0] * len(self.parts)
        # Greedily: a place joins the current run unless it reads a cell that this run wrote.
        last: dict[int, int] = {}  # the run that wrote a cell last
        for number in self.order.tolist():
            part = self.parts[number]
            place = done[number]
            done[number] += 1
            reads = part.reads[place].tolist()
            writes = part.writes[place].tolist()
            now = len(runs) - 1
            if runs and runs[-1][0] is part and all(last.get(cell) != now for cell in reads):
                runs[-1] = part, slice(runs[-1][1].start, place + 1)
            else:
                runs.append((part, slice(place, place + 1)))
            last.update(dict.fromkeys(writes, len(runs) - 1))
        return runs


class Call(NamedTuple):
    """A function and its arguments, as in `Program.apply`; `Program.alternate` takes several."""

    function: Function
    arguments: tuple[Any, ...]
    into: Any = None


class Program:
    """A function, named inputs to named outputs, made of passes over a memory of cells.

    name    as of a traced function
    inputs  the name and shape of each argument; `6` is `(6,)`, and `()` is a scalar

    `Kernel` and `Flow` take a program in the place of a `Function`. `inputs` and `outputs` map names to
    arrays of cells, which have the shapes of the inputs and outputs.
    """

    def __init__(self, name: str, inputs: Mapping[str, int | Sequence[int]]) -> None:
        self.name = name
        self.passes: list[Pass] = []
        self.outputs: dict[str, Cells] = {}
        self._base = next(_ranges) * _RANGE
        self.starts: list[tuple[int, Any]] = []  # positions from which on cells begin with values
        self.blocks: list[tuple[int, int, int]] = []  # first position, rows, width of cells made at once
        self._known = np.empty(0, bool)  # whether a cell has a value after the passes so far
        self.inputs: dict[str, Cells] = {key: self._new(shape, True) for key, shape in inputs.items()}
        self.blocks.clear()

    # -- cells --------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self._known)

    def cells(self, name: str) -> Cells:
        """The cells of the input `name`, an integer array of its shape."""
        if name not in self.inputs:
            raise GraphError(f"{self.name} has no input {name!r}; its inputs are {', '.join(self.inputs)}")
        return self.inputs[name]

    def zeros(self, shape: int | Sequence[int] = ()) -> Cells:
        """New cells that are 0 at the start of each run."""
        return self.constants(np.zeros(shape))

    def constants(self, values: Any) -> Cells:
        """New cells that have these values at the start of each run."""
        values = np.asarray(values, float)
        first = self.size
        cells = self._new(values.shape, True)
        if self.starts and self.starts[-1][0] + len(self.starts[-1][1]) == first:
            first, before = self.starts.pop()
            values = np.concatenate([before, values.ravel()])
        self.starts.append((first, values.ravel()))
        return cells

    def empty(self, shape: int | Sequence[int] = ()) -> Cells:
        """New cells without a value: for `into`, before anything reads them."""
        return self._new(shape, False)

    def positions(self, cells: Cells) -> Any:
        """Where in the memory cells are: numbers from 0 to `size`."""
        return np.asarray(cells) - self._base

    def _new(self, shape: int | Sequence[int], known: bool) -> Cells:
        shape = shape_of(f"cells of {self.name}", shape)
        count = math.prod(shape)
        rows = shape[0] if shape else 1
        if count:
            self.blocks.append((self.size, rows, count // rows))
        cells = self._base + self.size + np.arange(count).reshape(shape)
        self._known = np.concatenate([self._known, np.full(count, known)])
        return cells

    # -- passes -------------------------------------------------------------------------------------------

    def apply(self, function: Function, *arguments: Any, into: Any = None) -> Any:
        """Apply `function` at many places, in order; returns the cells of its results.

        arguments  for each input of the function, whose shape is `shape`: an integer array of cells, or a
                   float array of constants, (places, *shape), or one of `shape` alone, which all places share
        into       cells to write instead of new ones: an array (places, *shape) or `shape` for each output
                   (a tuple where there are several), None for new cells. A place may read what an earlier
                   place of the same pass has written, and write what it reads itself
        returns    integer arrays (places, *shape), one or a tuple, as `function` returns; without the axis of
                   places where no argument has one: a single place

        Raises ShapeError where shapes do not fit, GraphError for cells of another program, and for cells that
        are read before they have a value.
        """
        return self.alternate(None, [Call(function, arguments, into)])[0]

    def alternate(self, order: Any, calls: Sequence[Call]) -> list[Any]:
        """Apply several functions in one pass, whose places take turns: a recurrence over unlike places.

        order    (turns,): the next place is one of calls[order[0]], then one of calls[order[1]] ...; as often
                 for each call as it has places. A place may read what any earlier turn has written
        calls    functions with their arguments, as for `apply`
        returns  a list of what `apply` returns for each
        """
        if not calls:
            raise GraphError(f"{self.name}: a pass without functions; give one or more calls")
        # Check everything before the program changes.
        prepared = [self._prepared(*call) for call in calls]
        parts = tuple(part for part, _ in prepared)
        order = np.zeros(parts[0].places, int) if order is None else np.asarray(order)
        counts = [part.places for part in parts]
        if np.bincount(order, minlength=len(parts)).tolist() != counts:
            raise ShapeError(f"{self.name}: order must name the calls as often as they have places, {counts}")
        step = Pass(parts, order)
        self._check_order(step)
        self.passes.append(step)
        for part in parts:
            for cells in part.results:
                self._known[cells] = True
        return [results[0] if len(results) == 1 else tuple(results) for _, results in prepared]

    def _prepared(
        self, function: Function, arguments: Sequence[Any], into: Any
    ) -> tuple[Application, list[Cells]]:
        """Check a call of `apply`; returns the part, and the cells of its results in their shapes."""
        if not isinstance(function, Function):
            raise GraphError(
                f"{self.name}: a pass applies a traced Function, not {function!r}; use trace(...)"
            )
        targets = (
            into if isinstance(into, tuple) else [into] * (1 if into is not None else len(function.outputs))
        )
        for word, got, expected in (
            ("takes", arguments, function.inputs),
            ("returns", targets, function.outputs),
        ):
            if len(got) != len(expected):
                raise ShapeError(
                    f"{self.name}: {function.name} {word} {len(expected)} arrays ({', '.join(expected)}), "
                    f"got {len(got)}"
                )
        # Arguments and targets are arrays with an axis of places, or without one: then all places share them.
        names = [*function.inputs, *(f"into for {key}" for key in function.outputs)]
        shapes = [x.shape for x in (*function.inputs.values(), *function.outputs.values())]
        arrays: list[Any] = []
        counts: dict[str, int] = {}  # of places
        for name, x, shape in zip(names, [*arguments, *targets], shapes, strict=True):
            if x is not None:
                x = self._checked(f"{self.name}: {function.name}: {name}", x, shape)
                if len(arrays) >= len(arguments) and x.dtype.kind == "f":
                    raise GraphError(f"{self.name}: {function.name}: {name} holds constants, expected cells")
                if x.ndim > len(shape):
                    counts[name] = len(x)
            arrays.append(x)
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise ShapeError(f"{self.name}: {function.name} has different numbers of places ({listed})")
        lead = tuple(counts.values())[:1]
        places = math.prod(lead)
        count = len(arguments)
        written = tuple(x is not None for x in arrays[count:])
        # Flatten: each argument and result becomes (places, size), targets that are None get new cells.
        flat = []
        for k, shape in enumerate(shapes):
            if arrays[k] is None:
                arrays[k] = self._new((*lead, *shape), False)
            x = np.broadcast_to(arrays[k], (*lead, *shape)).reshape(places, math.prod(shape))
            flat.append(self.positions(x) if x.dtype.kind == "i" else x)
        part = Application(function, places, tuple(flat[:count]), tuple(flat[count:]), written)
        return part, arrays[count:]

    def output(self, name: str, cells: Cells) -> None:
        """Name an output of the program: the values of `cells` after the last pass."""
        if name in self.outputs:
            raise GraphError(f"{self.name}: there is an output {name!r} already")
        cells = np.asarray(cells)
        cells = self._checked(f"{self.name}: output {name}", cells, cells.shape)
        if cells.dtype.kind != "i":
            raise GraphError(f"{self.name}: output {name} holds constants, expected cells")
        if not self._known[self.positions(cells)].all():
            raise GraphError(f"{self.name}: output {name} holds cells that no pass has written")
        self.outputs[name] = cells

    def _checked(self, what: str, given: Any, shape: tuple[int, ...]) -> Any:
        """`given` as an array (places, *shape) or `shape`, of cells of this program or of constants."""
        array = np.asarray(given)
        if (array.shape != shape and array.shape[1:] != shape) or array.ndim > len(shape) + 1:
            raise wrong_shape(what, array.shape, f"{shape} or (places, *{shape})")
        if array.dtype.kind == "f":
            return array.astype(float)
        if array.dtype.kind not in "iu" and array.size:
            raise GraphError(f"{what} holds {array.dtype}, expected cells (integers) or constants (floats)")
        # Each program has its own range of numbers, so a cell of another program is out of range here.
        foreign = (array < self._base) | (array >= self._base + self.size)
        if foreign.any():
            raise GraphError(
                f"{what} holds {array[foreign][0]}, which is no cell of this program; constants are floats, "
                "and a cell belongs to the program that made it"
            )
        return array.astype(np.int64)

    def _check_order(self, step: Pass) -> None:
        """Raise GraphError if a place reads a cell without a value, or writes one cell twice."""
        turns = [step.turns(k)[:, None] for k in range(len(step.parts))]
        ready = np.where(self._known, -1, len(step.order))  # the turn after which a cell has a value
        for part, turn in zip(step.parts, turns, strict=True):
            np.minimum.at(ready, part.writes, turn)
        for part, turn in zip(step.parts, turns, strict=True):
            writes = np.sort(part.writes, axis=1)
            twice = np.argwhere(writes[:, 1:] == writes[:, :-1])
            if len(twice):
                raise GraphError(
                    f"{self.name}: place {twice[0][0]} of {part.function.name} writes a cell twice"
                )
            early = np.argwhere(ready[part.reads] >= turn)
            if len(early):
                raise GraphError(
                    f"{self.name}: place {early[0][0]} of {part.function.name} reads a cell before anything "
                    "has written it; order the places (parents first), or begin with zeros()"
                )

    def over(self, inputs: Mapping[str, Cells], outputs: Mapping[str, Cells]) -> Program:
        """The same passes with other arrays of its cells as inputs and outputs."""
        other = copy.copy(self)
        other.inputs = dict(inputs)
        other.outputs = dict(outputs)
        return other

    # -- evaluation ---------------------------------------------------------------------------------------

    @property
    def operations(self) -> Counter[str]:
        """The number of times that each operation occurs in one run."""
        total: Counter[str] = Counter()
        for part in (part for step in self.passes for part in step.parts):
            total.update({op: part.places * count for op, count in part.function.operations.items()})
        return total

    @property
    def length(self) -> int:
        """Number of operations in the printed text, in which a loop counts once."""
        return sum(form.length for form in {part.function for step in self.passes for part in step.parts})

    def unroll(self) -> Function:
        """The same as one straight-line graph, with every place inlined and constants folded."""
        return trace(self._on_symbols, {key: x.shape for key, x in self.inputs.items()}, self.name)

    def runs(self) -> Iterator[tuple[Application, slice]]:
        """The runs of all passes, in order: an application, and places that do not wait for each other."""
        return (run for step in self.passes for run in step.runs)

    def memory(self, *batch: int) -> Any:
        """The cells at the start, (*batch, size): their constants, and NaN for cells without a value."""
        memory = np.full((*batch, self.size), np.nan)
        for first, values in self.starts:
            memory[..., first : first + len(values)] = values
        return memory

    def _on_symbols(self, *arrays: Any) -> dict[str, Any]:
        """Run the program on symbols, place by place; for `unroll`."""
        memory = self.memory().astype(object)
        for cells, array in zip(self.inputs.values(), arrays, strict=True):
            memory[self.positions(cells)] = array
        for part, places in self.runs():
            inputs = [x.shape for x in part.function.inputs.values()]
            for i in range(places.start, places.stop):
                values = [memory[a[i]] if a.dtype.kind == "i" else a[i] for a in part.arguments]
                computed = part.function(*(x.reshape(s) for x, s in zip(values, inputs, strict=True)))
                computed = computed if isinstance(computed, tuple) else (computed,)
                for cells, value in zip(part.results, computed, strict=True):
                    memory[cells[i]] = np.reshape(value, -1)
        return {key: memory[self.positions(cells)] for key, cells in self.outputs.items()}

    def interface(self, cells: bool = True) -> Function:
        """A function with the same inputs and outputs, for loops around the program: its nodes are cells.

        cells  whether outputs have entries; each of them is a node
        """
        graph = Graph()
        inputs = {key: graph.symbols(key, x.shape) for key, x in self.inputs.items()}
        of_cell = np.frompyfunc(lambda cell: graph.node("cell", int(cell)), 1, 1)
        outputs = {key: of_cell(self.positions(x) if cells else []) for key, x in self.outputs.items()}
        return Function(self.name, inputs, outputs)

    def __repr__(self) -> str:
        places = sum(len(step.order) for step in self.passes)
        return f"{signature(self)} in {len(self.passes)} passes over {places} places"


def beside(arrays: Sequence[Any], places: int) -> Any:
    """Arrays (places, .) side by side, (places, number); places without any if there are no arrays."""
    return np.concatenate([np.empty((places, 0), np.int64), *arrays], axis=1)
