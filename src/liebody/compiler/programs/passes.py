"""Makes a program of the calls of repeats: groups them into passes, orders these, and places values in cells.

The stages: drop calls that no output needs (`_live`); make expressions of the nodes between repeats, or
straight lines (`_with_expressions`, `_with_lines`); group calls of a kind into passes (`_passes`); write the
passes (`_write`), where values that only the pass itself reads share rows of cells (`_rows`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...scalars import Array, Table
from ..graph.graph import (
    CONDITIONS,
    FUNCTIONS,
    OPERATIONS,
    Expr,
    Function,
    Graph,
    objects,
    trace,
    undisturbed,
)
from .program import Call, Program

LONG = 6_000  # work from which on loops are as fast as straight-line code, and compile sooner
REPEATED = 4  # places of a kind, in the mean, below which a loop is hardly shorter
FUNCTION = 25  # work of a sine, a logarithm, ...; that of an arithmetic operation is 1
PHASES = 4  # levels of kinds that wait for each other, per kind, up to which each is a pass
INDEX = attrgetter("index")
LEAVES = ("input", "cell")  # operations that expressions end at: inputs, and results of repeats
STRUCTURAL = {0.0: "0", 1.0: "1", -1.0: "-"}  # numbers that make terms vanish


# Printers over one lane and over many ask for the same function; it is rolled once.
_rolled: WeakKeyDictionary[Function, Function | Program] = WeakKeyDictionary()


def rolled(function: Function | Program) -> Function | Program:
    """A straight line as a program, where its expressions repeat and the work is large; else itself."""
    if isinstance(function, Program):
        return function
    if function not in _rolled:
        graphs = {x.graph for y in function.inputs.values() for x in y.flat}
        with undisturbed():
            plan = PassPlan(function, *graphs) if len(graphs) == 1 else None
            large = plan is not None and plan.work > LONG and plan.repeats(REPEATED)
            _rolled[function] = plan.program() if plan is not None and large else function
    return _rolled[function]


def work_of(function: Function) -> int:
    """The cost of a function: its operations, where elementary functions such as sin count `FUNCTION`."""
    return sum(n * (FUNCTION if op in FUNCTIONS else 1) for op, n in function.operations.items())


class Kind:
    """Calls that compute the same function of numbers c and nodes x.

    function  (c, x) -> y, the values that a call computes
    slots     for each value, the first entry of a call's results that holds it
    """

    def __init__(self, function: Function, slots: list[int]) -> None:
        self.function = function
        self.slots = slots
        self.work = work_of(function)


@dataclass(eq=False)
class Place:
    """One call: its kind, its number among the calls, the numbers and nodes that it takes.

    reads   indices of the nodes in the graph
    values  indices of the nodes that stand for the values it computes
    """

    kind: Kind
    number: int
    numbers: list[float]
    nodes: list[Expr]
    reads: list[int]
    values: Sequence[int]


class PassPlan:
    """The calls of a traced algorithm, grouped by kinds, in an order in which they can run.

    straight  whether nodes between repeats stay straight lines; otherwise expressions of the same form are a
              kind, as calls of the same repeat are

    The class is a little long, because its stages share the tables of places and cells.
    """

    def __init__(
        self, function: Function, graph: Graph, calls: Sequence[Place] = (), straight: bool = False
    ) -> None:
        self._function = function
        self._graph = graph
        self._calls = calls
        ends = [x for y in function.outputs.values() for x in y.ravel().tolist() if type(x) is Expr]
        between = self._live(ends)
        self._places = (self._with_lines if straight else self._with_expressions)(between, ends)
        self.kinds = Counter(place.kind for place in self._places)
        self.work = sum(n * kind.work for kind, n in self.kinds.items())

    def repeats(self, times: int) -> bool:
        """Whether a kind has so many places, in the mean."""
        return bool(self.kinds) and len(self._places) >= times * len(self.kinds)

    def _live(self, ends: list[Expr]) -> list[Expr]:
        """Drop calls that no output needs; returns the nodes between repeats that are needed, in order."""
        needed: set[int] = set()  # calls
        between: set[Expr] = set()

        def need(nodes: list[Expr]) -> None:
            pending = list(nodes)
            while pending:
                node = pending.pop()
                if node.op == "cell":
                    needed.add(node.args[0])
                elif node.op != "input" and node not in between:
                    between.add(node)
                    pending += [a for a in node.args if type(a) is Expr]

        # Backwards from the outputs: a call takes results of earlier calls only, so when its turn comes all
        # that could need it has been seen.
        need(ends)
        for place in reversed(self._calls):
            if place.number in needed:
                need(place.nodes)
        self._needed = needed
        return sorted(between, key=INDEX)

    def _with_expressions(self, between: list[Expr], ends: list[Expr]) -> list[Place]:
        """The places of repeats, and places of the expressions between them.

        A node is the root of an expression if a repeat, an output or several nodes take it. A condition is
        never a root, because the memory holds numbers: each expression that takes it computes it again.
        """
        repeats = [place for place in self._calls if place.number in self._needed]
        self._expressions: dict[Expr, Place] = {}  # by their roots
        if not between:
            return repeats
        users = Counter(a for node in between for a in node.args if type(a) is Expr)
        roots = {x for place in repeats for x in place.nodes} | set(ends)
        roots = {x for x in between if (x in roots or users[x] > 1) and x.op not in CONDITIONS}
        # Expressions run right after the last repeat that they wait for (-1: before all repeats). Nodes come
        # in order of their indices, so operands are known first.
        after: dict[Expr, int] = {}
        kinds: dict[Any, Kind] = {}
        order: list[tuple[int, int, Place]] = [(place.number, -1, place) for place in repeats]
        for node in between:
            last = -1
            for a in node.args:
                if type(a) is Expr:
                    repeat = a.args[0] if a.op == "cell" else after.get(a, -1)
                    if repeat > last:
                        last = repeat
            after[node] = last
            if node in roots:
                place = self._expressions[node] = self._expression(node, roots, kinds)
                order.append((last, node.index, place))
        return [place for *_, place in sorted(order, key=lambda x: x[:2])]

    def _with_lines(self, between: list[Expr], ends: list[Expr]) -> list[Place]:
        """The places of repeats, and one straight line before each level of repeats.

        The level of a repeat is the number of lines that have to run before it; line k has the nodes of level
        k.
        """
        level: dict[Expr, int] = {}
        of_repeat: dict[int, int] = {}

        def after(nodes: Iterable[Any], more: int) -> int:
            levels = (
                of_repeat[x.args[0]] + more if x.op == "cell" else level.get(x, 0)
                for x in nodes
                if type(x) is Expr
            )
            return max(levels, default=0)

        repeats = [place for place in self._calls if place.number in self._needed]
        both: list[Expr | Place] = [*between, *repeats]
        for x in sorted(both, key=_index):
            if isinstance(x, Place):
                of_repeat[x.number] = after(x.nodes, 0)
            else:
                level[x] = after(x.args, 1)
        # From the last line to the first: a line hands on the nodes that repeats, outputs and later lines
        # take.
        wanted = {x for place in repeats for x in place.nodes} | set(ends)
        order = [(of_repeat[place.number], 1, place.number, place) for place in repeats]
        for k in sorted(set(level.values()), reverse=True):
            line = _line([x for x in between if level[x] == k], wanted)
            order.append((k, 0, 0, line))
            wanted |= set(line.nodes)
        return [place for *_, place in sorted(order, key=lambda x: x[:3])]

    def _expression(self, root: Expr, roots: set[Expr], kinds: dict[Any, Kind]) -> Place:
        """The place of the expression that ends at `root`; adds its kind to `kinds` if it is new."""
        # Collect the nodes down to other roots and leaves; `order` grows while it is walked.
        inside = {root: 0}
        for node in (order := [root]):
            for a in node.args:
                if type(a) is Expr and a not in roots and a.op not in LEAVES and a not in inside:
                    inside[a] = 0
                    order.append(a)
        # Write the expression as lines of operations, in which operands are earlier lines, leaves by number,
        # or constants by number. 0, 1 and -1 stay, because terms vanish with them. Equal lines are one kind.
        order.sort(key=INDEX)
        leaves: dict[Expr, int] = {}
        constants: list[float] = []
        lines: list[Any] = []
        for node in order:
            words: list[Any] = [node.op]
            for a in node.args:
                if type(a) is Expr and a in inside:
                    words.append(("line", inside[a]))
                elif type(a) is Expr:
                    words.append(("x", leaves.setdefault(a, len(leaves)), self._origin(a)))
                elif type(a) is Table or a in STRUCTURAL:
                    words.append(a)
                else:
                    words.append(("c", len(constants)))
                    constants.append(a)
            inside[node] = len(lines)
            lines.append(tuple(words))
        key = tuple(lines)
        if key not in kinds:
            kinds[key] = _expression_kind(lines, len(constants), len(leaves))
        reads = [node.index for node in leaves]
        return Place(kinds[key], -1, constants, list(leaves), reads, [root.index])

    def _origin(self, node: Expr) -> Any:
        """Where an operand comes from: a kind of repeat, a kind of expression, or an input.

        Expressions of a kind agree in this, so that a pass waits for few others.
        """
        if node.op == "cell":
            return id(self._calls[node.args[0]].kind)
        return id(self._expressions[node].kind) if node in self._expressions else node.args[0]

    # -- passes ---------------------------------------------------------------------------------------------

    def program(self) -> Program:
        """The program: a pass for each kind; kinds that wait for each other take turns in one pass."""
        function = self._function
        size = self._graph.size
        program = Program(function.name, {key: x.shape for key, x in function.inputs.items()})
        self._cell = np.full(size, -1, np.int64)  # of each node
        for key, symbols in function.inputs.items():
            self._cell[[symbol.index for symbol in symbols.flat]] = program.cells(key).ravel()
        # Number the places within their kinds, and keep their reads and values as tables, row by row: the
        # stages below work on whole kinds.
        kinds = list(self.kinds)
        number = {kind: k for k, kind in enumerate(kinds)}
        self._of = np.array([number[place.kind] for place in self._places], np.int64)
        members = [np.flatnonzero(self._of == k) for k in range(len(kinds))]
        self._row = np.zeros(len(self._places), np.int64)  # of each place, its number among its kind
        for places in members:
            self._row[places] = np.arange(len(places))
        self._members = [
            _Members(kinds[k], [self._places[i] for i in places]) for k, places in enumerate(members)
        ]
        maker = np.full(size, -1)  # the place that computes a node
        self._readers = np.zeros(size, np.int64)
        for places, calls in zip(members, self._members, strict=True):
            maker[calls.values] = places[:, None]
            self._readers += np.bincount(calls.reads.ravel(), minlength=size)
        self._outputs = np.zeros(size, bool)
        ends = [x.index for y in function.outputs.values() for x in y.ravel().tolist() if type(x) is Expr]
        self._outputs[ends] = True
        for places in self._passes(members, maker):
            self._write(program, places)
        # Outputs are cells; equal constant entries share one, and are told apart by their bits.
        for key, y in function.outputs.items():
            entries = y.ravel().tolist()
            cells = np.array([self._cell[x.index] if type(x) is Expr else -1 for x in entries], np.int64)
            constant = [k for k, x in enumerate(entries) if type(x) is not Expr]
            if constant:
                bits = np.array([entries[k] for k in constant], float).view(np.int64)  # -0.0 is not 0.0
                different, which = np.unique(bits, return_inverse=True)
                cells[constant] = program.constants(different.view(float))[which]
            program.output(key, cells.reshape(y.shape))
        return program

    def _passes(self, members: list[Array], maker: Array) -> list[Array]:
        """The places of each pass.

        A kind is one pass, unless its places wait for places of another kind that waits for it. Such kinds
        are passes level by level, a level ending where a place waits for one of another kind; or, where that
        would be many, one pass in which they take turns.
        """
        # For each kind, the other kinds whose values it reads.
        waits = []
        for k, calls in enumerate(self._members):
            makers = maker[calls.reads]
            read = np.unique(self._of[makers[makers >= 0]])
            waits.append([int(kind) for kind in read if kind != k])
        passes: list[Array] = []
        for group in _components(waits):
            if len(group) == 1:
                passes.append(members[group[0]])
                continue
            # Kinds that wait for each other, such as the repeats of different joints along one chain. Places
            # are in an order in which they can run, so the levels of makers are known first.
            places = np.sort(np.concatenate([members[k] for k in group]))
            levels = dict.fromkeys(places.tolist(), 0)
            for place in levels:
                kind = self._of[place]
                for source in maker[self._places[place].reads].tolist():
                    if source in levels:
                        levels[place] = max(levels[place], levels[source] + int(self._of[source] != kind))
            parts: dict[tuple[int, int], list[int]] = {}
            for place, level in levels.items():
                parts.setdefault((level, int(self._of[place])), []).append(place)
            few = len(parts) <= PHASES * len(group)
            passes += [np.array(parts[key]) for key in sorted(parts)] if few else [places]
        return passes

    def _write(self, program: Program, places: Array) -> None:
        """Write a pass of one kind, or of several that take turns.

        Values are in three groups, column by column of a kind. New: only later passes read them, and `apply`
        makes their cells. Kept: the pass itself reads them, and each has its own cell. Passed on: only
        the pass itself reads them, or hardly anything else, in a pass of several kinds, which share rows of
        cells for them (`_rows`).
        """
        of, first = np.unique(self._of[places], return_index=True)
        parts = [
            self._members[k].some(self._row[places[self._of[places] == k]]) for k in of[np.argsort(first)]
        ]
        turns = [np.flatnonzero(self._of[places] == k) for k in of[np.argsort(first)]]
        # Count for each node how often this pass reads it, and note whether anything else reads it.
        within = np.zeros(self._graph.size, np.int64)
        for part in parts:
            within += np.bincount(part.reads.ravel(), minlength=len(within))
        wanted = (self._readers > 0) | self._outputs
        leaving = (self._readers > within) | self._outputs
        groups = []
        shared = []
        for part in parts:
            used, taken, left = (x[part.values] for x in (wanted, within > 0, leaving))
            passed = taken.any(axis=0) & (4 * left.sum(axis=0) <= len(left)) & (len(parts) > 1)
            kept = taken.any(axis=0) & ~passed
            groups.append([used.any(axis=0) & ~taken.any(axis=0), kept, passed])
            shared.append(np.array(part.kind.slots)[passed])
        # Kinds put a value at the same slot of their results into the same column of the shared rows: bodies
        # with different joints hand the same quantities on.
        slots = np.unique(np.concatenate(shared))
        rows = self._rows(parts, turns, [group[2] for group in groups], leaving)
        common = program.empty((max(int(x.max(initial=0)) for x in rows) + 1, len(slots)))
        for part, (_, kept, passed), at in zip(parts, groups, rows, strict=True):
            self._cell[part.values[:, kept]] = program.empty((len(part.values), int(kept.sum())))
            columns = np.searchsorted(slots, np.array(part.kind.slots)[passed])
            self._cell[part.values[:, passed]] = common[at][:, columns]
        calls = [self._call(part, group) for part, group in zip(parts, groups, strict=True)]
        order = np.zeros(len(places), int)
        for k, turn in enumerate(turns):
            order[turn] = k
        returned = program.alternate(order, calls)
        for part, (new, *_), results in zip(parts, groups, returned, strict=True):
            if new.any():
                self._cell[part.values[:, new]] = results[0] if isinstance(results, tuple) else results

    def _rows(
        self, parts: list[_Members], turns: list[Array], passed: list[Array], leaving: Array
    ) -> list[Array]:
        """A row of shared cells for each place; a row is used again after its last reader.

        This is register allocation along the turns of the pass. A value that something else reads, too, holds
        its row to the end.
        """
        last = np.full(self._graph.size, -1)
        for part, turn in zip(parts, turns, strict=True):
            np.maximum.at(last, part.reads, turn[:, None])
        rows = [np.zeros(len(part.values), int) for part in parts]
        ends: dict[int, tuple[int, int, int]] = {}  # turn -> kind, place, turn of the last reader (-1: never)
        for k, (part, turn, of) in enumerate(zip(parts, turns, passed, strict=True)):
            if of.any():
                values = part.values[:, of]
                end = np.where(leaving[values].any(axis=1), -1, last[values].max(axis=1))
                ends |= {t: (k, i, e) for i, (t, e) in enumerate(zip(turn.tolist(), end.tolist()))}
        free: list[int] = []
        ending: dict[int, list[int]] = {}
        count = 0
        for now in sorted(ends):
            k, i, last_use = ends[now]
            # A row that this very turn reads is not free yet: a call may write before it has read everything.
            for over in [n for n in ending if n < now]:
                free += ending.pop(over)
            row = free.pop() if free else count
            count = max(count, row + 1)
            rows[k][i] = row
            if last_use >= 0:
                ending.setdefault(last_use, []).append(row)
        return rows

    def _call(self, part: _Members, values: list[Array]) -> Call:
        """A call of a kind, whose function takes its cells in runs and returns them by groups.

        Arguments are rearranged so that each run of neighbouring cells is one argument, which the text can
        address by one pointer.
        """
        cells = self._cell[part.reads]
        numbers = part.numbers
        groups = _by_stride(cells)
        written = [np.flatnonzero(group) for group in values]
        arguments = [cells[:, of] for of in groups] + ([numbers] if numbers.size else [])
        shapes = {f"x{k}": array.shape[1] for k, array in enumerate(arguments)}

        def arranged(*arrays: Array) -> tuple[Array, ...]:
            x = np.empty(cells.shape[1], object)
            for of, array in zip(groups, arrays, strict=False):
                x[of] = array
            y = part.kind.function(arrays[-1] if numbers.size else np.zeros(0), x)
            return tuple(y[group] for group in written if len(group))

        function = trace(arranged, shapes, part.kind.function.name)
        new, *old = written
        into = ([None] if len(new) else []) + [self._cell[part.values[:, k]] for k in old if len(k)]
        return Call(function, tuple(arguments), tuple(into))


class _Members:
    """Places of a kind: the indices of the nodes that they read and compute, and their numbers, by rows."""

    def __init__(self, kind: Kind, places: list[Place]) -> None:
        n = len(places)
        self.kind = kind
        self.reads = np.array([place.reads for place in places], np.int64).reshape(n, -1)
        self.numbers = np.array([place.numbers for place in places], float).reshape(n, -1)
        self.values = np.array([place.values for place in places], np.int64).reshape(n, -1)

    def some(self, rows: Array) -> _Members:
        """The places in these rows."""
        other = object.__new__(_Members)
        other.kind = self.kind
        other.reads = self.reads[rows]
        other.numbers = self.numbers[rows]
        other.values = self.values[rows]
        return other


def _expression_kind(lines: list[Any], numbers: int, nodes: int) -> Kind:
    """The kind of expressions that are computed line by line, the last one being the result."""
    graph = Graph()
    c = graph.symbols("c", (numbers,))
    x = graph.symbols("x", (nodes,))
    values: list[Any] = []
    sources = {"line": values, "c": c, "x": x}
    for op, *words in lines:
        operands = [sources[w[0]][w[1]] if isinstance(w, tuple) else w for w in words]
        values.append(OPERATIONS[op](*operands))
    return Kind(Function("expression", {"c": c, "x": x}, {"y": objects(values[-1:])}), [0])


def _index(x: Expr | Place) -> int:
    """The position in the trace: the index of a node, or of the first value of a call."""
    return x.index if isinstance(x, Expr) else x.values[0]


def _line(nodes: list[Expr], wanted: set[Expr]) -> Place:
    """The only place of a straight line; its values are the nodes that others want.

    It computes conditions of earlier lines again, because the memory holds numbers only.
    """
    inside = set(nodes)
    pending = list(nodes)
    while pending:
        for a in pending.pop().args:
            if type(a) is Expr and a.op in CONDITIONS and a not in inside:
                inside.add(a)
                pending.append(a)
    leaves = sorted({a for x in inside for a in x.args if type(a) is Expr} - inside, key=INDEX)
    ends = [x for x in nodes if x in wanted and x.op not in CONDITIONS]
    graph = Graph()
    x = graph.symbols("x", (len(leaves),))
    c = graph.symbols("c", (0,))
    value: dict[Any, Any] = dict(zip(leaves, x, strict=True))
    for node in sorted(inside, key=INDEX):
        value[node] = OPERATIONS[node.op](*(value[a] if type(a) is Expr else a for a in node.args))
    function = Function("line", {"c": c, "x": x}, {"y": objects([value[e] for e in ends])})
    kind = Kind(function, [*range(len(ends))])
    return Place(kind, -1, [], leaves, [a.index for a in leaves], [e.index for e in ends])


def _components(waits: Sequence[Sequence[int]]) -> list[list[int]]:
    """Strongly connected components of the graph of waits, each after the ones it waits for (Tarjan 1972).

    The recursion of the paper is a list of work here, because chains of kinds may be long.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    groups: list[list[int]] = []
    for first in range(len(waits)):
        if first in index:
            continue
        work = [(first, iter(waits[first]))]
        index[first] = low[first] = len(index)
        stack.append(first)
        while work:
            kind, rest = work[-1]
            following = next(rest, None)
            if following is None:
                # All successors are done. A kind that reaches no earlier one is the root of its component,
                # which lies above it on the stack.
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[kind])
                if low[kind] == index[kind]:
                    groups.append([])
                    while not groups[-1] or groups[-1][-1] != kind:
                        groups[-1].append(stack.pop())
                        low[groups[-1][-1]] = len(waits)  # done: it lowers nobody any more
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(waits[following])))
            else:
                low[kind] = min(low[kind], low[following])
    return groups


def _by_stride(cells: Array) -> list[Array]:
    """The columns of cells (places, .), grouped in runs of neighbours that stay neighbours at all places.

    The text addresses a run by one pointer, and needs no table for it if it moves on evenly.
    """
    if not cells.shape[1]:
        return []
    order = np.argsort(cells[0], kind="stable")
    along = cells[:, order]
    together = (np.diff(along[0]) == 1) & (np.diff(np.diff(along, axis=0), axis=1) == 0).all(axis=0)
    return np.split(order, np.flatnonzero(~together) + 1)
