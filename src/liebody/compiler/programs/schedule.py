"""How a program runs: passes that share a loop, values that stay in registers, and where cells are kept.

Consecutive passes become one loop where their dependences let them: in iteration k, part p has its place
k - first_p. What a place computes is then used while it is near. This is loop fusion with shifts (Allen and
Kennedy 2002, chapters 6 and 8); with reversals as well, loops over hinges took up to a sixth longer.

In the iterations in which every long part has a place, and no short one has, the functions of all parts are
one straight line, a `Segment`: values that the same iteration uses again need no cell. Of the other cells,
those whose lives lie within one loop and end after a few iterations share a few rows, taken in turn; the
others share memory with those that live in other loops. Cells of inputs and outputs are the arguments
themselves, where this is regular.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...base.concurrency import cached_property
from ..graph.graph import Expr, Function, Graph, objects
from .program import Application, Pass, Program, beside

SLACK = 8  # iterations by which shifts may prolong a loop
SEGMENT = 1500  # operations of one segment
BODY = 4000  # operations of the parts that share a loop
ROWS = (1, 2, 4, 8, 16)  # how many rows cells may share in turn


@dataclass(frozen=True, eq=False)
class Turns:
    """A part in a loop: when its places have their turn."""

    part: Application
    first: int

    @property
    def stop(self) -> int:
        return self.first + self.part.places

    def places(self, iterations: Any) -> Any:
        """The places of iterations."""
        return iterations - self.first


class Access(NamedTuple):
    """Cells (n,) that are read or written in iterations (n,), in order, by one operand of the text."""

    cells: Any
    iterations: Any
    writes: bool


class Segment:
    """The functions of several parts as one straight line, for iterations in which all have a place.

    loads   columns of cells (n,), or of constants, and the symbols that stand for them
    stores  columns of cells (n,) and their values: nodes or numbers
    """

    def __init__(self, iterations: Any) -> None:
        self.iterations = iterations
        self.operations = 0
        self.loads: dict[bytes, tuple[Any, Expr]] = {}
        self.stores: dict[bytes, tuple[Any, Any]] = {}
        self._graph = Graph()
        self._spans: dict[bytes, tuple[Any, int | None, int, int]] = {}

    def take(self, turns: Turns) -> bool:
        """Append a part; False where it must come after what the segment has stored."""
        part = turns.part
        places = turns.places(self.iterations)
        cells = [
            column for a in (*part.arguments, *part.results) if a.dtype.kind == "i" for column in a[places].T
        ]
        size = sum(part.function.operations.values())
        if self.operations and self.operations + size > SEGMENT:
            return False
        if any(self._meets(column) for column in cells):
            return False
        self.operations += size
        shapes = [x.shape for x in part.function.inputs.values()]
        arguments = []
        for a, shape in zip(part.arguments, shapes, strict=True):
            arguments.append(objects([self._value(column) for column in a[places].T]).reshape(shape))
        computed = part.function(*arguments)
        computed = (computed,) if len(part.results) == 1 else computed
        for columns, y in zip(part.results, computed, strict=True):
            for column, x in zip(columns[places].T, np.reshape(y, -1), strict=True):
                self.stores[self._key(column)] = column, x
        return True

    def _key(self, column: Any) -> bytes:
        key = column.tobytes()
        if key not in self._spans:
            steps = np.diff(column)
            even = int(steps[0]) if len(steps) and (steps == steps[0]).all() else None
            self._spans[key] = column, even, int(column.min()), int(column.max())
        return key

    def _meets(self, column: Any) -> bool:
        """Whether a column shares a cell with another one that is stored, in the same iteration."""
        key = self._key(column)
        _, step, low, high = self._spans[key]
        for other in self.stores:
            if other == key:
                continue
            cells, even, least, most = self._spans[other]
            if high < least or most < low or (step is not None and step == even):
                continue
            if (cells == column).any():
                return True
        return False

    def _value(self, column: Any) -> Any:
        """A number, the value that was stored last, or a symbol for what is loaded."""
        constant = column.dtype.kind == "f"
        if constant and (column == column[0]).all():
            return float(column[0])
        key = column.tobytes() + (b"f" if constant else b"")
        if not constant and self._key(column) in self.stores:
            return self.stores[key][1]
        if key not in self.loads:
            self.loads[key] = column, self._graph.node("input", "l", (len(self.loads),))
        return self.loads[key][1]

    @cached_property
    def function(self) -> Function:
        """The straight line to what is stored."""
        return Function("segment", {}, {"stored": objects([x for _, x in self.stores.values()])})

    def keep(self, needed: Any) -> bool:
        """Drop stores of cells that nothing loads, and loads that are left without use; whether any was."""
        stores = {key: x for key, x in self.stores.items() if needed[x[0]].any()}
        fewer = len(stores) < len(self.stores)
        if fewer:
            self.stores = stores
            self.__dict__.pop("function", None)
        used = set(self.function.nodes)
        loads = {key: x for key, x in self.loads.items() if x[1] in used}
        fewer |= len(loads) < len(self.loads)
        self.loads = loads
        return fewer

    def accesses(self) -> Iterator[Access]:
        for column, _ in self.loads.values():
            if column.dtype.kind == "i":
                yield Access(column, self.iterations, False)
        for column, _ in self.stores.values():
            yield Access(column, self.iterations, True)


class Loop:
    """Parts that share a loop, or one pass of parts that take turns (`alternating`).

    closed  whether no other part joins
    """

    def __init__(self, size: int, step: Pass, closed: bool = False) -> None:
        self.step = step
        self.closed = closed
        self.alternating = len(step.parts) > 1
        self.turns: list[Turns] = []
        self._written, self._read = np.full(size, -1), np.full(size, -1)  # when each cell was, last
        if not self.alternating:
            self._append(step.parts[0], 0)
        self.segments: list[Segment] = []

    @property
    def length(self) -> int:
        """Number of iterations."""
        return len(self.step.order) if self.alternating else max(turns.stop for turns in self.turns)

    def joined(self, part: Application) -> bool:
        """Take a part into the loop, if this keeps the order of what depends on each other."""
        if self.alternating or self.closed:
            return False
        longest = max(turns.part.places for turns in self.turns)
        if min(part.places, longest) > SLACK and abs(part.places - longest) > SLACK:
            return False
        parts = [*(turns.part for turns in self.turns), part]
        if sum(sum(p.function.operations.values()) for p in parts) > BODY:
            return False
        turn = np.arange(part.places)[:, None]
        reads = part.reads
        writes = beside(part.results, part.places)
        after = [self._written[reads] - turn, self._written[writes] - turn, self._read[writes] - turn]
        first = max(int(x.max(initial=0)) for x in after)  # after all that it depends on
        if first + part.places > max(self.length, part.places) + SLACK:
            return False
        self._append(part, first)
        return True

    def _append(self, part: Application, first: int) -> None:
        self.turns.append(Turns(part, first))
        at = first + np.arange(part.places)[:, None]
        for known, cells in ((self._read, part.reads), (self._written, beside(part.results, part.places))):
            np.maximum.at(known, cells, np.broadcast_to(at, cells.shape))

    def _long(self, turns: Turns) -> bool:
        return turns.part.places > self.length // 2

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """From where to where segments take the place of single parts."""
        if self.alternating or len(self.turns) < 2:
            return []
        long = [turns for turns in self.turns if self._long(turns)]
        busy = np.zeros(self.length + 1, bool)
        busy[max((t.first for t in long), default=0) : min((t.stop for t in long), default=0)] = True
        for turns in self.turns:
            if not self._long(turns):
                busy[turns.first : turns.stop] = False
        edges = np.flatnonzero(np.diff(np.concatenate([[False], busy]).astype(int)))
        runs = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        if len(runs) == 1:
            runs = [self._trimmed(*runs[0])]
        return runs if sum(stop - start for start, stop in runs) > SLACK else []

    def _trimmed(self, start: int, stop: int) -> tuple[int, int]:
        """A run without iterations at its ends in which a place reads elsewhere than all others do."""
        columns = [
            a[turns.places(np.arange(start, stop))].T
            for turns in self.turns
            if self._long(turns)
            for a in (*turns.part.arguments, *turns.part.results)
            if a.dtype.kind == "i"
        ]
        second = np.diff(np.concatenate(columns), n=2, axis=1) != 0  # about iterations start + 1 ...
        bends = np.flatnonzero(second.any(axis=0))
        low = bends[bends < SLACK]
        high = bends[bends >= second.shape[1] - SLACK]
        if len(low) + len(high) < len(bends) or second.shape[1] < 4 * SLACK:
            return start, stop
        before = int(low.max()) + 1 if len(low) else 0
        after = second.shape[1] - int(high.min()) if len(high) else 0
        return start + before, stop - after

    @property
    def unrolled(self) -> bool:
        """Whether the iterations beside a single run are few, and are written one by one."""
        return len(self.runs) == 1 and self.length - (self.runs[0][1] - self.runs[0][0]) <= 2 * SLACK

    def merge(self) -> None:
        """Make the segments."""
        if not self.runs:
            return
        iterations = np.concatenate([np.arange(*run) for run in self.runs])
        for turns in self.turns:
            if self._long(turns) and not (self.segments and self.segments[-1].take(turns)):
                self.segments.append(Segment(iterations))
                self.segments[-1].take(turns)

    def alone(self, turns: Turns) -> Any:
        """The iterations in which a part runs by itself, outside of segments."""
        single = np.ones(self.length, bool)
        for start, stop in self.runs:
            single[start:stop] = False
        return turns.first + np.flatnonzero(single[turns.first : turns.stop])

    def accesses(self) -> Iterator[Access]:
        """What is read and written, operand by operand."""
        if self.alternating:
            for number, part in enumerate(self.step.parts):
                yield from _columns(part, np.arange(part.places), self.step.turns(number))
        for turns in self.turns:
            iterations = self.alone(turns)
            for some in iterations[:, None] if self.unrolled else [iterations]:
                yield from _columns(turns.part, turns.places(some), some)
        for segment in self.segments:
            yield from segment.accesses()


def _columns(part: Application, places: Any, iterations: Any) -> Iterator[Access]:
    if not len(places):
        return
    for arrays, writes in ((part.arguments, False), (part.results, True)):
        for a in arrays:
            if a.dtype.kind == "i":
                yield from (Access(column, iterations, writes) for column in a[places].T)


class Schedule:
    """The loops of a program, and where each cell is.

    results  for each array of results, the cells whose values it takes
    apart    parts that have loops of their own
    space    of each cell: 0 memory, 1 + k the k-th input, 1 + (number of inputs) + j the j-th result;
             -1 for cells that are never needed
    spot     its place there
    turns    how many rows of its block share their places in turn, 0 if each row has its own: then `spot` is
             `origin` + `stride` (`row` mod `turns`)
    constant  of each cell: whether it keeps the value that it has at the start, `start`
    size     of the memory
    """

    def __init__(
        self, program: Program, results: list[Any], apart: Collection[Application] = frozenset()
    ) -> None:
        self.program = program
        self.results = results
        self.inputs = [program.positions(cells).ravel() for cells in program.inputs.values()]
        self.loops: list[Loop] = []
        for step in program.passes:
            closed = step.parts[0] in apart
            may_join = self.loops and len(step.parts) == 1 and not closed
            if len(step.order) and not (may_join and self.loops[-1].joined(step.parts[0])):
                self.loops.append(Loop(program.size, step, closed))
        for loop in self.loops:
            loop.merge()
        self._drop()
        self._accesses = [(k, access) for k, loop in enumerate(self.loops) for access in loop.accesses()]
        size = program.size
        self.space = np.full(size, -1)
        self.spot = np.zeros(size, int)
        self.turns = np.zeros(size, int)
        self.row = np.zeros(size, int)
        self.origin = np.zeros(size, int)
        self.stride = np.zeros(size, int)
        self._column = np.full(size, -1)  # of each cell: the number of the column of its block
        columns = 0
        for first, rows, width in program.blocks:
            cells = np.arange(rows * width)
            self._column[first + cells] = columns + cells % width
            self.row[first + cells] = cells // width
            columns += width
        self.start = np.zeros(size)
        self.constant = np.zeros(size, bool)
        for first, values in program.starts:
            self.start[first : first + len(values)] = values
            self.constant[first : first + len(values)] = True
        for part in (part for step in program.passes for part in step.parts):
            self.constant[part.writes] = False
        self._live()
        copied = self._share_inputs()
        self._share_results()
        self._share_memory(copied)
        del self._accesses

    def _drop(self) -> None:
        """Drop what no result needs from the segments."""
        fewer = True
        while fewer:
            needed = np.zeros(self.program.size, bool)
            for cells in self.results:
                needed[cells] = True
            for loop in self.loops:
                for access in loop.accesses():
                    if not access.writes:
                        needed[access.cells] = True
            dropped = [segment.keep(needed) for loop in self.loops for segment in loop.segments]
            fewer = any(dropped)

    def _live(self) -> None:
        """In which loops cells are used first and last, and, where that is one loop, in which iterations.

        Cells that have values at the start are used before all loops, results after.
        """
        size = self.program.size
        end = len(self.loops)
        self._born = np.full(size, end)
        self._dead = np.full(size, -1)
        self._begin = np.full(size, np.iinfo(np.int64).max)
        self._last = np.full(size, -1)
        for number, access in self._accesses:
            np.minimum.at(self._born, access.cells, number)
            np.maximum.at(self._dead, access.cells, number)
            np.minimum.at(self._begin, access.cells, access.iterations)
            np.maximum.at(self._last, access.cells, access.iterations)
        for cells in self.results:
            self._dead[cells] = end
        for cells in (*self.inputs, *self._starts()):
            self._born[cells] = -1

    def _starts(self) -> list[Any]:
        return [first + np.arange(len(values)) for first, values in self.program.starts]

    def _share_inputs(self) -> set[int]:
        """Read inputs where they are; the numbers of those that have to be copied to the memory instead.

        These are written, or read by one operand together with other cells.
        """
        source = np.full(self.program.size, -1)
        copied = set()
        for k, cells in enumerate(self.inputs):
            source[cells] = k
        for _, access in self._accesses:
            of = source[access.cells]
            if access.writes or (of != of[0]).any():
                copied |= set(of[of >= 0].tolist())
        for cells in self.results:
            of = source[cells]
            if np.count_nonzero(np.diff(of)) > SLACK:  # what is copied would be in too many pieces
                copied |= set(of[of >= 0].tolist())
        for k, cells in enumerate(self.inputs):
            if k not in copied:
                self.space[cells] = 1 + k
                self.spot[cells] = np.arange(len(cells))
        return copied

    def _share_results(self) -> None:
        """Keep in the results' own arrays what are columns of these, and of nothing else."""
        size = self.program.size
        count = np.bincount(np.concatenate([np.zeros(0, int), *self.results]), minlength=size)
        for cells in (*self.inputs, *self._starts()):
            count[cells] = 0
        for j, cells in enumerate(self.results):
            at = np.full(size, -1)
            owner = np.full(size, -1)
            at[cells] = np.arange(len(cells))
            found: list[Any] = []
            for first, rows, width in self.program.blocks:
                block = (first + np.arange(rows * width)).reshape(rows, width)
                in_rows = width > 1 and (np.diff(at[block], axis=1) == 1).all()  # which follow each other
                for mine in [block.ravel()] if in_rows else block.T:
                    single = (count[mine] == 1).all() and (at[mine] >= 0).all()
                    if single and (in_rows or line(np.arange(rows), at[mine]) is not None):
                        owner[mine] = len(found)
                        found.append(mine)
            mixed = {-1}
            while mixed:  # operands that read results and other cells
                mixed = set()
                for _, access in self._accesses:
                    of = owner[access.cells]
                    if of.min() < 0 <= of.max():
                        mixed |= set(of.tolist()) - {-1}
                for k in mixed:
                    owner[found[k]] = -1
            rest = (owner[cells] < 0) & ~self.constant[cells]
            if np.count_nonzero(np.diff(rest)) <= SLACK:  # else the rest would be many pieces
                mine = cells[owner[cells] >= 0]
                self.space[mine] = 1 + len(self.inputs) + j
                self.spot[mine] = at[mine]

    def _share_memory(self, copied: set[int]) -> None:
        """Places in the memory for all other cells, one after the other in the order of their lives."""
        regions: list[tuple[int, int, Any, int]] = []  # born, dead, cells (rows, width), rows in turn
        for k in copied:
            regions.append((-1, int(self._dead[self.inputs[k]].max()), self.inputs[k][None], 0))
        irregular = self._irregular()
        for first, rows, width in self.program.blocks:
            cells = first + np.arange(rows * width).reshape(rows, width)
            alive = (self._dead[cells] >= 0) & (self.space[cells] < 0)
            groups: dict[int, list[int]] = {}
            for c in np.flatnonzero(alive.any(axis=0)).tolist():
                column = cells[alive[:, c], c]
                groups.setdefault(self._in_turn(column, rows, irregular), []).append(c)
            for turns, members in groups.items():
                used = cells[:, members][alive[:, members]]
                ends = int(self._born[used].min()), int(self._dead[used].max())
                regions.append((*ends, cells[:, members], turns))
        self.size = 0
        free: list[tuple[int, int]] = []  # first, size
        ending: list[tuple[int, int, int]] = []  # dead, first, size
        for born, dead, region, turns in sorted(regions, key=lambda x: x[0]):
            for over in [x for x in ending if x[0] < born]:
                ending.remove(over)
                free = _united(free, over[1:])
            rows, width = region.shape
            count = width * (turns or rows)
            fits = [x for x in free if x[1] >= count]
            if fits:
                base, room = min(fits, key=lambda x: x[1])
                free.remove((base, room))
                free += [(base + count, room - count)] if room > count else []
            else:
                base = self.size
                self.size += count
            ending.append((dead, base, count))
            row = np.arange(rows)[:, None]
            offset = np.arange(width)
            self.space[region] = 0
            self.turns[region] = turns
            self.row[region] = row
            self.origin[region] = base + offset
            self.stride[region] = width
            self.spot[region] = base + offset + width * (row % turns if turns else row)

    def _irregular(self) -> Any:
        """Which columns are read or written otherwise than row by row."""
        irregular = np.zeros(self._column.max(initial=-1) + 2, bool)  # the last one for cells of no column
        for _, access in self._accesses:
            columns = self._column[access.cells]
            if (columns != columns[0]).any() or line(access.iterations, self.row[access.cells]) is None:
                irregular[columns] = True
        return irregular

    def _in_turn(self, cells: Any, rows: int, irregular: Any) -> int:
        """How many rows these cells of a column of so many may share in turn, 0 if each needs its own."""
        loop = self._born[cells[0]]
        within = (self._born[cells] == loop).all() and (self._dead[cells] == loop).all()
        if loop < 0 or not within or irregular[self._column[cells[0]]]:
            return 0
        begin = self._begin[cells]
        last = self._last[cells]
        row = self.row[cells]
        for turns in ROWS:
            if 2 * turns > rows:
                break
            order = np.lexsort((row, row % turns))
            a, b = order[:-1], order[1:]  # neighbours among those that share a row
            a, b = a[row[a] % turns == row[b] % turns], b[row[a] % turns == row[b] % turns]
            if (last[a] < begin[b]).all() or (last[b] < begin[a]).all():
                return turns
        return 0


def line(x: Any, y: Any) -> tuple[int, int] | None:
    """(a, b) of y = a + b x, if whole numbers a and b are such."""
    if len(x) < 2:
        return int(y[0]), 0
    b, rest = divmod(int(y[1] - y[0]), int(x[1] - x[0]))
    a = int(y[0]) - b * int(x[0])
    return (a, b) if not rest and (y == a + b * x).all() else None


def _united(free: list[tuple[int, int]], more: tuple[int, int]) -> list[tuple[int, int]]:
    """Free places and more of them, with neighbours joined."""
    joined: list[tuple[int, int]] = []
    for first, size in sorted([*free, more]):
        if joined and sum(joined[-1]) == first:
            joined[-1] = joined[-1][0], joined[-1][1] + size
        else:
            joined.append((first, size))
    return joined
