"""Schedules programs: fuses passes into loops, keeps values in registers, and gives each cell its memory.

Consecutive passes become one loop where their dependences let them: in iteration k, part p has its place
k - first_p. Results of a place are then used while they are near. This is loop fusion with shifts (Allen and
Kennedy 2002, chapters 6 and 8); with reversals as well, loops over hinges took up to a sixth longer.

In the iterations in which every long part has a place, and no short one has, the functions of all parts are
one straight line, a `Segment`: values that the same iteration uses again need no cell. Cells whose lives lie
within one loop and end after a few iterations share a few rows, taken in turn; the other cells share memory
with cells that live in other loops. Cells of inputs and outputs are the arguments themselves, where this is
regular.
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
    """A part in a loop: its places run in the iterations first, first + 1, ..., stop - 1."""

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
        # Very long segments spill registers and compile slowly.
        if self.operations and self.operations + size > SEGMENT:
            return False
        # A segment loads everything first and stores everything last. So it cannot hold a part that touches a
        # cell which the segment stores under the name of another operand: the part would see the old value.
        if any(self._meets(column) for column in cells):
            return False
        self.operations += size
        # Inline the function: its arguments are values that the segment already has, or new loads.
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
        """The key of a column of cells, under which its range and step are kept for `_meets`."""
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
            # Columns with disjoint ranges never meet. Two different columns with one constant step are
            # parallel lines, and never meet in the same iteration.
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
        """Drop stores of cells that nothing loads, and loads that are not used; returns whether any was."""
        stores = {key: x for key, x in self.stores.items() if needed[x[0]].any()}
        fewer = len(stores) < len(self.stores)
        if fewer:
            self.stores = stores
            self.__dict__.pop("function", None)  # computed from the stores, and cached
        used = set(self.function.nodes)
        loads = {key: x for key, x in self.loads.items() if x[1] in used}
        fewer |= len(loads) < len(self.loads)
        self.loads = loads
        return fewer

    def accesses(self) -> Iterator[Access]:
        """The cells that the segment loads and stores, operand by operand."""
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
        # The last iterations in which each cell is written and read, -1 for none.
        self._written = np.full(size, -1)
        self._read = np.full(size, -1)
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
        # Only parts of about the same length share a loop, or short ones that ride along at its ends.
        longest = max(turns.part.places for turns in self.turns)
        if min(part.places, longest) > SLACK and abs(part.places - longest) > SLACK:
            return False
        parts = [*(turns.part for turns in self.turns), part]
        if sum(sum(p.function.operations.values()) for p in parts) > BODY:
            return False
        # Place i of the part runs in iteration first + i. It has to come after the last iteration that writes
        # a cell which the place reads (true dependence), and after the last one that writes or reads a cell
        # which it writes (output and anti-dependence). An equal iteration will do, because the parts of one
        # iteration run in the order in which they joined.
        turn = np.arange(part.places)[:, None]
        reads = part.reads
        writes = beside(part.results, part.places)
        after = [self._written[reads] - turn, self._written[writes] - turn, self._read[writes] - turn]
        first = max(int(x.max(initial=0)) for x in after)
        # A large shift leaves many iterations at both ends in which few parts have a place.
        if first + part.places > max(self.length, part.places) + SLACK:
            return False
        self._append(part, first)
        return True

    def _append(self, part: Application, first: int) -> None:
        self.turns.append(Turns(part, first))
        iterations = first + np.arange(part.places)[:, None]
        for last, cells in ((self._read, part.reads), (self._written, beside(part.results, part.places))):
            np.maximum.at(last, cells, np.broadcast_to(iterations, cells.shape))

    def _long(self, turns: Turns) -> bool:
        """Whether a part has a place in most iterations, so that segments include it."""
        return turns.part.places > self.length // 2

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Runs (start, stop) of iterations that segments compute, instead of the parts one by one.

        In them every long part has a place and no short one has.
        """
        if self.alternating or len(self.turns) < 2:
            return []
        # Begin with the intersection of the long parts, and take away the iterations of the short ones.
        long = [turns for turns in self.turns if self._long(turns)]
        busy = np.zeros(self.length + 1, bool)
        busy[max((t.first for t in long), default=0) : min((t.stop for t in long), default=0)] = True
        for turns in self.turns:
            if not self._long(turns):
                busy[turns.first : turns.stop] = False
        # `busy` ends with False, so its rises and falls come in pairs.
        edges = np.flatnonzero(np.diff(np.concatenate([[False], busy]).astype(int)))
        runs = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        if len(runs) == 1:
            runs = [self._trimmed(*runs[0])]
        return runs if sum(stop - start for start, stop in runs) > SLACK else []

    def _trimmed(self, start: int, stop: int) -> tuple[int, int]:
        """A run without the iterations at its ends that break the pattern of its indices.

        Near the root of a tree a place may read another cell than the formula a + b k says. Without these
        iterations, indices are printed as formulas and need no tables.
        """
        columns = [
            a[turns.places(np.arange(start, stop))].T
            for turns in self.turns
            if self._long(turns)
            for a in (*turns.part.arguments, *turns.part.results)
            if a.dtype.kind == "i"
        ]
        # A column is a line where its second difference is zero; entry j is about iteration start + 1 + j.
        second = np.diff(np.concatenate(columns), n=2, axis=1) != 0
        bends = np.flatnonzero(second.any(axis=0))
        low = bends[bends < SLACK]
        high = bends[bends >= second.shape[1] - SLACK]
        # Bends in the middle need tables anyway, and trimming would not help.
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
        """Make the segments, each of as many parts in a row as it can take."""
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
        """The cells that the loop reads and writes, operand by operand of its text."""
        if self.alternating:
            for number, part in enumerate(self.step.parts):
                yield from _columns(part, np.arange(part.places), self.step.turns(number))
        for turns in self.turns:
            iterations = self.alone(turns)
            # Iterations that are written one by one have operands of their own, so each of them is regular.
            for some in iterations[:, None] if self.unrolled else [iterations]:
                yield from _columns(turns.part, turns.places(some), some)
        for segment in self.segments:
            yield from segment.accesses()


def _columns(part: Application, places: Any, iterations: Any) -> Iterator[Access]:
    """The accesses of a part at some places: one for each entry of its arguments and results."""
    if not len(places):
        return
    for arrays, writes in ((part.arguments, False), (part.results, True)):
        for a in arrays:
            if a.dtype.kind == "i":
                yield from (Access(column, iterations, writes) for column in a[places].T)


class Schedule:
    """The loops of a program, and the place of each cell: first fuse, then drop dead stores, then allocate.

    results  for each array of results, the cells whose values it takes
    apart    parts that share their loop with no other part

    These arrays have an entry for each cell:

    space     the array that holds it: 0 memory, 1 + k the k-th input, 1 + (number of inputs) + j the j-th
              result; -1 for cells that are never needed
    spot      its index in that array
    turns     how many rows of its block share their places in turn, 0 if no rows do; in turn, `spot` is
              `origin` + `stride` (`row` mod `turns`)
    constant  whether it keeps its value at the start, `start`

    size      length of the memory
    """

    def __init__(
        self, program: Program, results: list[Any], apart: Collection[Application] = frozenset()
    ) -> None:
        self.program = program
        self.results = results
        self.inputs = [program.positions(cells).ravel() for cells in program.inputs.values()]
        # Fuse greedily: each pass joins the last loop, if it may, or begins the next one.
        self.loops: list[Loop] = []
        for step in program.passes:
            closed = step.parts[0] in apart
            may_join = self.loops and len(step.parts) == 1 and not closed
            if len(step.order) and not (may_join and self.loops[-1].joined(step.parts[0])):
                self.loops.append(Loop(program.size, step, closed))
        for loop in self.loops:
            loop.merge()
        # Segments pass values on in registers, which leaves stores that nobody loads.
        self._drop()
        self._accesses = [(k, access) for k, loop in enumerate(self.loops) for access in loop.accesses()]
        size = program.size
        self.space = np.full(size, -1)
        self.spot = np.zeros(size, int)
        self.turns = np.zeros(size, int)
        self.row = np.zeros(size, int)
        self.origin = np.zeros(size, int)
        self.stride = np.zeros(size, int)
        # Cells that were made together form a block of rows, one for each place, and of columns.
        self._column = np.full(size, -1)  # of each cell: the number of its column, among those of all blocks
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
        # Inputs and results first: cells that live in the caller's arrays need no memory.
        self._live()
        copied = self._share_inputs()
        self._share_results()
        self._share_memory(copied)
        del self._accesses

    def _drop(self) -> None:
        """Drop stores and loads that no result needs from the segments.

        A store that is dropped may leave loads without use, and these were the only readers of other stores.
        So this repeats until nothing changes.
        """
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
        """Find the loops that use each cell first and last, and, if it is one loop, the iterations.

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
        # Results are copied out after all loops; inputs and initial values are there before the first.
        for cells in self.results:
            self._dead[cells] = end
        for cells in (*self.inputs, *self._starts()):
            self._born[cells] = -1

    def _starts(self) -> list[Any]:
        """The cells that have values at the start, in runs."""
        return [first + np.arange(len(values)) for first, values in self.program.starts]

    def _share_inputs(self) -> set[int]:
        """Read inputs in place; returns the numbers of the inputs that are copied to the memory instead.

        An input is copied if the program writes to it (the caller's array must not change), or if one operand
        reads it together with other cells (an operand addresses one array).
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
            # A result that mixes many pieces of inputs and other cells would need a copy loop for each piece.
            if np.count_nonzero(np.diff(of)) > SLACK:
                copied |= set(of[of >= 0].tolist())
        for k, cells in enumerate(self.inputs):
            if k not in copied:
                self.space[cells] = 1 + k
                self.spot[cells] = np.arange(len(cells))
        return copied

    def _share_results(self) -> None:
        """Keep cells in the result's array, where whole columns of a block go there and nowhere else."""
        size = self.program.size
        # How many entries of results take each cell. Cells that have values at the start are excluded.
        count = np.bincount(np.concatenate([np.zeros(0, int), *self.results]), minlength=size)
        for cells in (*self.inputs, *self._starts()):
            count[cells] = 0
        for j, cells in enumerate(self.results):
            entry = np.full(size, -1)  # of each cell: its index in this result
            entry[cells] = np.arange(len(cells))
            owner = np.full(size, -1)  # of each cell: the candidate that it belongs to
            # Candidates are whole blocks whose rows follow each other in the result, or else columns that are
            # a line in it, so that text addresses them by a formula.
            candidates: list[Any] = []
            for first, rows, width in self.program.blocks:
                block = (first + np.arange(rows * width)).reshape(rows, width)
                in_rows = width > 1 and (np.diff(entry[block], axis=1) == 1).all()
                for mine in [block.ravel()] if in_rows else block.T:
                    single = (count[mine] == 1).all() and (entry[mine] >= 0).all()
                    if single and (in_rows or line(np.arange(rows), entry[mine]) is not None):
                        owner[mine] = len(candidates)
                        candidates.append(mine)
            # An operand addresses one array. Give up candidates that an operand mixes with other cells; this
            # may make further operands mixed, so repeat.
            mixed = {-1}
            while mixed:
                mixed = set()
                for _, access in self._accesses:
                    of = owner[access.cells]
                    if of.min() < 0 <= of.max():
                        mixed |= set(of.tolist()) - {-1}
                for k in mixed:
                    owner[candidates[k]] = -1
            rest = (owner[cells] < 0) & ~self.constant[cells]
            # The rest is copied piece by piece at the end; with many pieces, copying everything is shorter.
            if np.count_nonzero(np.diff(rest)) <= SLACK:
                mine = cells[owner[cells] >= 0]
                self.space[mine] = 1 + len(self.inputs) + j
                self.spot[mine] = entry[mine]

    def _share_memory(self, copied: set[int]) -> None:
        """Give all other cells places in the memory, where regions whose lives do not overlap share places.

        Regions are taken in the order of their births. Each goes to the smallest free gap that fits (best
        fit), or else to the end of the memory.
        """
        regions: list[tuple[int, int, Any, int]] = []  # born, dead, cells (rows, width), rows in turn
        for k in copied:
            regions.append((-1, int(self._dead[self.inputs[k]].max()), self.inputs[k][None], 0))
        # One region holds the columns of a block that share rows alike, so that their cells stay neighbours.
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
            # Free the places of regions that died in an earlier loop. Within a loop lives overlap.
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
        """Which columns an operand reads or writes in another way than one row further each iteration."""
        irregular = np.zeros(self._column.max(initial=-1) + 2, bool)  # the last one for cells of no column
        for _, access in self._accesses:
            columns = self._column[access.cells]
            if (columns != columns[0]).any() or line(access.iterations, self.row[access.cells]) is None:
                irregular[columns] = True
        return irregular

    def _in_turn(self, cells: Any, rows: int, irregular: Any) -> int:
        """How many places these cells of a column (of so many rows) may share in turn; 0 if none.

        With n turns, row i uses place i mod n. That is right if the lives of rows that share a place do not
        overlap: row i is read for the last time before row i + n is written.
        """
        # The cells live in one loop only, and operands address them by a formula, which becomes i mod n.
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
            # Sort by place and row: neighbours in this order with the same place follow each other there.
            order = np.lexsort((row, row % turns))
            same = row[order[:-1]] % turns == row[order[1:]] % turns
            a = order[:-1][same]
            b = order[1:][same]
            # The recurrence runs upwards or downwards over the rows.
            if (last[a] < begin[b]).all() or (last[b] < begin[a]).all():
                return turns
        return 0


def line(x: Any, y: Any) -> tuple[int, int] | None:
    """Whole numbers (a, b) with y = a + b x, None if there are none."""
    if len(x) < 2:
        return int(y[0]), 0
    b, rest = divmod(int(y[1] - y[0]), int(x[1] - x[0]))
    a = int(y[0]) - b * int(x[0])
    return (a, b) if not rest and (y == a + b * x).all() else None


def _united(free: list[tuple[int, int]], more: tuple[int, int]) -> list[tuple[int, int]]:
    """The free places (first, size) and one more, where adjacent ones become one."""
    joined: list[tuple[int, int]] = []
    for first, size in sorted([*free, more]):
        if joined and sum(joined[-1]) == first:
            joined[-1] = joined[-1][0], joined[-1][1] + size
        else:
            joined.append((first, size))
    return joined
