"""Steps: the parts of an algorithm that it repeats, such as those of a recursion over bodies, as loops.

An algorithm is written once, in plain operators, and marks the functions that it applies again and again:

    @step
    def outward(T, moments, V, A, parent):
        ...

On numbers, and in an ordinary `trace`, the mark does nothing. `traced` keeps the steps apart: a step is
traced by itself, once for each *kind*, and the calls of a kind become places of a pass of a `Program`, whose
text does not grow with their number. Two calls are of a kind if the same entries of their arguments are 0, 1
or -1, so that the same terms vanish; their other numbers become a table. What is computed between steps
becomes passes as well, expressions of the same form being of a kind.

Arguments of steps are numbers, symbols, arrays of them, and tuples of such; anything else (groups, names,
functions) belongs to the kind.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..errors import GraphError
from .graph import CONDITIONS, OPERATIONS, Expr, Function, Graph, run_on_symbols, trace
from .program import Call, Cells, Program

Array = Any
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
LONG = 6_000  # work from which on loops are as fast as straight-line code, and compile sooner
FUNCTION = 25  # work of a sine, a logarithm, ...; that of an arithmetic operation or a store is 1
REPEATED = 4  # places of a kind, in the mean, below which a loop is hardly shorter
PHASES = 4  # levels of kinds that wait for each other, per kind, up to which each is a pass
FUNCTIONS = frozenset({"sin", "cos", "tan", "exp", "log", "arctan2"})
STRUCTURAL = {0.0: "0", 1.0: "1", -1.0: "-"}


def step(function: AnyFunction) -> AnyFunction:
    """Mark a function as a step of an algorithm: see this module."""

    @functools.wraps(function)
    def marked(*arguments: Any) -> Any:
        graph = _graph_of(arguments)
        return function(*arguments) if graph is None else graph.call(function, arguments)

    return marked  # type: ignore[return-value]


def traced(
    function: Callable[..., Any],
    shapes: Mapping[str, int | Sequence[int]],
    name: str | None = None,
    least: int | None = None,
    loops: bool | None = None,
) -> Function | Program:
    """As `trace`; where steps repeat and the work is large, a `Program` with loops over them.

    least  work (operations and stores) from which on it is large; `LONG` if None
    loops  whether steps become loops, where the caller has a measure of its own
    """
    if loops is False:
        return trace(function, shapes, name)
    steps = _Steps()
    plan = _Plan(run_on_symbols(steps, function, shapes, name), steps)
    if loops or (plan.repeats and plan.work > (LONG if least is None else least)):
        return plan.program()
    return trace(function, shapes, name)


# -- kinds of steps -----------------------------------------------------------------------------------------


class _Steps(Graph):
    """The graph of a trace in which steps are kept apart; `cell` nodes are what they return."""

    __slots__ = ("_forms", "_results", "calls", "kinds")

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Place] = []
        self.kinds: dict[Any, _StepKind] = {}
        self._results: dict[Any, list[Array]] = {}
        self._forms: dict[int, tuple[Array, _Form | None]] = {}  # of what steps have returned

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """What a step returns: numbers, and nodes that stand for the rest."""
        arrays: list[Array] = []
        structure = _taken_apart(arguments, arrays)
        forms: list[Any] = []
        numbers: list[float] = []
        nodes: list[Expr] = []
        seen: dict[int, int] = {}
        for array in arrays:
            if id(array) in seen:
                forms.append(seen[id(array)])
                continue
            seen[id(array)] = len(forms)
            form = self._form(array)
            forms.append(form.tokens)
            numbers += form.numbers
            nodes += form.nodes
        places: dict[int, int] = {}  # of nodes that several arrays hold
        pattern = [places.setdefault(node.index, len(places)) for node in nodes]
        if len(places) < len(nodes):
            nodes = list({node.index: node for node in nodes}.values())
        key = function, structure, tuple(forms), tuple(pattern) if len(nodes) < len(pattern) else None
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = _StepKind(function, structure, forms, pattern)
        same = kind, *numbers, *places
        made = self._results.get(same)
        if made is None:
            number = len(self.calls)
            cells = [self.new("cell", (number, k)) for k in range(len(kind.slots))]
            place = _Place(kind, number, numbers, nodes, cells)
            self.calls.append(place)
            made = self._results[same] = kind.results(place)
            for array in made:
                array.flags.writeable = False
                self._forms[id(array)] = array, None
        return _put_together(kind.structure, iter(made))

    def _form(self, array: Array) -> _Form:
        known, form = self._forms.get(id(array), (None, None))
        if form is None:
            form = _Form(array)
            if known is not None:
                self._forms[id(array)] = array, form
        return form


class _Form:
    """An array by its structure: which entries are structural, numbers, or nodes up to their sign.

    A number that stands at (i, j) and at (j, i) too, or there with the other sign, counts once, as does a
    node that stands in several entries.
    """

    __slots__ = ("nodes", "numbers", "tokens")

    def __init__(self, array: Array) -> None:
        self.numbers: list[float] = []
        self.nodes: list[Expr] = []
        seen: dict[Any, int] = {}
        tokens: list[Any] = [array.shape]
        width = array.shape[0] if array.ndim == 2 and array.shape[0] == array.shape[1] else 0
        for at, x in enumerate(array.ravel().tolist()):
            if type(x) is Expr:
                node = x.args[0] if x.op == "neg" else x
                k = seen.get(node)
                if k is None:
                    k = seen[node] = len(self.nodes)
                    self.nodes.append(node)
                tokens.append(k if node is x else ~k)
                continue
            x = float(x)
            token: Any = STRUCTURAL.get(x)
            if token is None:
                i, j = divmod(at, width) if width else (0, 0)
                mirrored: Any = tokens[1 + j * width + i] if j < i else None
                slot = mirrored[1] if type(mirrored) is tuple else -1
                if slot >= 0 and mirrored[0] == "n" and abs(self.numbers[slot]) == abs(x):
                    token = ("n" if self.numbers[slot] == x else "m", slot)
                else:
                    token = ("n", len(self.numbers))
                    self.numbers.append(x)
            tokens.append(token)
        self.tokens = tuple(tokens)


@dataclass(eq=False)
class _Place:
    """One call of a step: its kind, its number, the numbers and nodes that it takes, the nodes it returns."""

    kind: _Kind
    number: int
    numbers: list[float]
    nodes: list[Expr]
    cells: list[Expr]


class _Kind:
    """Calls that are one function of numbers c and nodes x.

    function  (c, x) -> y, the values that it computes
    slots     of each value, its first place in what a call returns
    """

    def __init__(self, function: Function, slots: list[int]) -> None:
        self.function, self.slots = function, slots
        self.work = sum(n * (FUNCTION if op in FUNCTIONS else 1) for op, n in function.operations.items())


class _StepKind(_Kind):
    """Calls of a step with arguments of this structure and these forms.

    pattern    of each node in the forms, its place among the different ones
    structure  of what it returns, as `_taken_apart`
    """

    def __init__(
        self, step: Callable[..., Any], structure: Any, forms: list[Any], pattern: list[int]
    ) -> None:
        graph = Graph()
        own = [tokens for tokens in forms if not isinstance(tokens, int)]
        c = graph.symbols("c", (sum(_count(tokens, "c") for tokens in own),))
        x = graph.symbols("x", (len(set(pattern)),))
        made: list[Array] = []
        numbers, nodes = c, x[pattern]
        for tokens in forms:
            if isinstance(tokens, int):
                made.append(made[tokens])
                continue
            made.append(_filled(tokens, numbers, nodes))
            numbers, nodes = numbers[_count(tokens, "c") :], nodes[_count(tokens, "x") :]
        self._arrays: list[Array] = []
        self.structure = _taken_apart(step(*_put_together(structure, iter(made))), self._arrays)
        name = step.__name__.lstrip("_")
        fresh: dict[Expr, int] = {}
        slots: list[int] = []
        self._entries: list[tuple[str, Any, bool]] = []  # source, place or number, whether negative
        for entry in (entry for array in self._arrays for entry in array.ravel().tolist()):
            node = entry.args[0] if type(entry) is Expr and entry.op == "neg" else entry
            if type(node) is not Expr:
                found: tuple[str, Any] = "number", float(entry)
            elif node.op == "input":
                found = node.args[0], node.args[1][0]
            elif node.op in CONDITIONS:
                raise GraphError(f"the step {name} returns a condition; return where(condition, a, b)")
            else:
                if node not in fresh:
                    slots.append(len(self._entries))
                found = "y", fresh.setdefault(node, len(fresh))
            self._entries.append((*found, node is not entry))
        super().__init__(Function(name, {"c": c, "x": x}, {"y": _objects(list(fresh))}), slots)

    def results(self, place: _Place) -> list[Array]:
        """The arrays that a step returns at a place."""
        sources: dict[str, Any] = {"c": place.numbers, "x": place.nodes, "y": place.cells}
        entries = iter(self._entries)
        arrays = []
        for array in self._arrays:
            values = [
                k if source == "number" else -sources[source][k] if negative else sources[source][k]
                for source, k, negative in itertools.islice(entries, array.size)
            ]
            symbolic = any(type(x) is Expr for x in values)
            arrays.append((_objects(values) if symbolic else np.array(values, float)).reshape(array.shape))
        return arrays


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _count(tokens: tuple[Any, ...], which: str) -> int:
    """How many numbers ("c") or nodes ("x") there are in a form."""
    if which == "c":
        return 1 + max((t[1] for t in tokens[1:] if type(t) is tuple), default=-1)
    return 1 + max((t if t >= 0 else ~t for t in tokens[1:] if type(t) is int), default=-1)


def _filled(tokens: tuple[Any, ...], c: Array, x: Array) -> Array:
    """An array of this form of numbers c and nodes x."""
    structural = {word: value for value, word in STRUCTURAL.items()}
    entries: list[Any] = []
    for token in tokens[1:]:
        if type(token) is str:
            entries.append(structural[token])
        elif type(token) is int:
            entries.append(x[token] if token >= 0 else -x[~token])
        else:
            entries.append(c[token[1]] if token[0] == "n" else -c[token[1]])
    symbolic = any(type(e) is Expr for e in entries)
    return (_objects(entries) if symbolic else np.array(entries, float)).reshape(tokens[0])


def _graph_of(value: Any) -> _Steps | None:
    """The graph in which steps are kept apart that a value belongs to, if any."""
    if type(value) is Expr:
        return value.graph if isinstance(value.graph, _Steps) else None
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            for x in value.flat:
                if type(x) is Expr:
                    return x.graph if isinstance(x.graph, _Steps) else None
    elif isinstance(value, (tuple, list)):
        for x in value:
            found = _graph_of(x)
            if found is not None:
                return found
    return None


def _taken_apart(value: Any, arrays: list[Array]) -> Any:
    """The structure of a value, without the arrays (and single numbers) in it, which are appended."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return np.ndarray
    if isinstance(value, (tuple, list)):
        return (type(value), *[_taken_apart(x, arrays) for x in value])
    if type(value) is Expr or (isinstance(value, (float, int, np.number)) and not isinstance(value, bool)):
        array = np.empty((), object)
        array[()] = value
        arrays.append(array)
        return float
    return _Same(value)


class _Same:
    """Anything that belongs to the kind, by equality, or by identity where it has none."""

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            self._hash = hash(value)
        except TypeError:
            self._hash = id(value)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, _Same):
            return False
        return self.value is other.value or (
            self._hash == other._hash and type(self.value) is type(other.value) and self.value == other.value
        )

    def __hash__(self) -> int:
        return self._hash


def _put_together(structure: Any, arrays: Iterator[Array]) -> Any:
    if structure is np.ndarray:
        return next(arrays)
    if structure is float:
        return next(arrays)[()]
    if isinstance(structure, _Same):
        return structure.value
    parts = [_put_together(x, arrays) for x in structure[1:]]
    return structure[0](*parts) if hasattr(structure[0], "_fields") else structure[0](parts)


# -- from calls to passes -----------------------------------------------------------------------------------


class _Plan:
    """What a trace with steps computes, as places of kinds in an order in which they can run."""

    def __init__(self, function: Function, steps: _Steps) -> None:
        self._function, self._steps = function, steps
        ends = [x for y in function.outputs.values() for x in y.ravel().tolist() if type(x) is Expr]
        between = self._live(ends)
        self._places = self._with_expressions(between, ends)
        kinds = Counter(place.kind for place in self._places)
        self.repeats = bool(kinds) and len(self._places) >= REPEATED * len(kinds)
        stores = sum(y.size for y in function.outputs.values())
        self.work = stores + sum(n * kind.work for kind, n in kinds.items())

    def _live(self, ends: list[Expr]) -> list[Expr]:
        """Drop calls that nothing needs; the nodes between steps that are needed, in order."""
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

        need(ends)
        for place in reversed(self._steps.calls):
            if place.number in needed:
                need(place.nodes)
        self._needed = needed
        return sorted(between, key=lambda node: node.index)

    def _with_expressions(self, between: list[Expr], ends: list[Expr]) -> list[_Place]:
        """The places of steps, with those of the expressions between them.

        An expression ends where a step or an output takes it, or where two others do; conditions, which
        are no numbers that a memory could hold, belong to each that takes them.
        """
        steps = [place for place in self._steps.calls if place.number in self._needed]
        self._made: dict[Expr, tuple[_Place, int]] = {x: (p, k) for p in steps for k, x in enumerate(p.cells)}
        if not between:
            return steps
        users = Counter(a for node in between for a in node.args if type(a) is Expr)
        roots = {x for place in steps for x in place.nodes} | set(ends)
        roots = {x for x in between if (x in roots or users[x] > 1) and x.op not in CONDITIONS}
        after: dict[Expr, int] = {}  # the last step that an expression waits for
        kinds: dict[Any, _Kind] = {}
        order: list[tuple[int, int, _Place]] = [(place.number, -1, place) for place in steps]
        for node in between:
            operands = [a for a in node.args if type(a) is Expr]
            before = (a.args[0] if a.op == "cell" else after.get(a, -1) for a in operands)
            after[node] = max(before, default=-1)
            if node in roots:
                place = self._expression(node, roots, kinds)
                self._made[node] = place, 0
                order.append((after[node], node.index, place))
        return [place for *_, place in sorted(order, key=lambda x: x[:2])]

    def _expression(self, root: Expr, roots: set[Expr], kinds: dict[Any, _Kind]) -> _Place:
        inside, pending = {root}, [root]
        while pending:
            for a in pending.pop().args:
                if type(a) is Expr and a.op not in ("input", "cell") and a not in roots and a not in inside:
                    inside.add(a)
                    pending.append(a)
        number: dict[Expr, Any] = {}
        leaves: dict[Expr, int] = {}
        constants: list[float] = []
        lines: list[Any] = []
        for node in sorted(inside, key=lambda node: node.index):
            words: list[Any] = [node.op]
            for a in node.args:
                if type(a) is Expr and a in number:
                    words.append(("line", number[a]))
                elif type(a) is Expr:
                    words.append(("x", leaves.setdefault(a, len(leaves)), self._origin(a)))
                elif a in STRUCTURAL or isinstance(a, bool):
                    words.append(a)
                else:
                    words.append(("c", len(constants)))
                    constants.append(a)
            number[node] = len(lines)
            lines.append(tuple(words))
        key = tuple(lines)
        if key not in kinds:
            kinds[key] = _expression_kind(lines, len(constants), len(leaves))
        place = _Place(kinds[key], -1, constants, list(leaves), [root])
        return place

    def _origin(self, node: Expr) -> Any:
        """What expressions of a kind have in common: by which kind of step each operand was made."""
        made = self._made.get(node)
        return node.args[0] if made is None else id(made[0].kind)

    # -- passes ---------------------------------------------------------------------------------------------

    def program(self) -> Program:
        """The program, whose passes are kinds, or kinds that take turns where they wait for each other."""
        function = self._function
        program = Program(function.name, {key: x.shape for key, x in function.inputs.items()})
        self._cell = np.full(self._steps.size, -1, np.int64)
        for key, symbols in function.inputs.items():
            for symbol, cell in zip(symbols.flat, program.cells(key).ravel().tolist(), strict=True):
                self._cell[symbol.index] = cell
        self._users: dict[Expr, list[_Place]] = {}
        for place in self._places:
            for x in place.nodes:
                self._users.setdefault(x, []).append(place)
        outputs = {x for y in function.outputs.values() for x in y.ravel().tolist() if type(x) is Expr}
        used = self._users.keys() | outputs
        self._used: dict[_Kind, list[int]] = {}
        for place in self._places:
            kept = self._used.setdefault(place.kind, [])
            kept += [k for k, x in enumerate(place.cells) if x in used and k not in kept]
        for kept in self._used.values():
            kept.sort()
        for places in self._passes():
            self._write(program, places, outputs)
        for key, y in function.outputs.items():
            entries = y.ravel().tolist()
            cells = np.array([self._cell[x.index] if type(x) is Expr else -1 for x in entries], np.int64)
            constant = [k for k, x in enumerate(entries) if type(x) is not Expr]
            if constant:
                cells[constant] = program.constants(np.array([entries[k] for k in constant], float))
            program.output(key, cells.reshape(y.shape))
        return program

    def _passes(self) -> list[list[_Place]]:
        """The places of each pass.

        A kind is one pass, unless its places wait for those of a kind that waits for it. Such kinds are
        passes level by level, a level ending where a place waits for one of another kind; or, where that
        would be many, one pass in which they take turns.
        """
        waits: dict[_Kind, dict[_Kind, None]] = {place.kind: {} for place in self._places}
        for place in self._places:
            for x in place.nodes:
                if x in self._made and self._made[x][0].kind is not place.kind:
                    waits[place.kind][self._made[x][0].kind] = None
        groups = _components(waits)
        of = {kind: n for n, group in enumerate(groups) for kind in group}
        members: list[list[_Place]] = [[] for _ in groups]
        for place in self._places:
            members[of[place.kind]].append(place)
        passes: list[list[_Place]] = []
        for group, places in zip(groups, members, strict=True):
            if len(group) == 1:
                passes.append(places)
                continue
            levels: dict[_Place, int] = {}
            for place in places:
                made = (self._made[x][0] for x in place.nodes if x in self._made)
                levels[place] = max(
                    (levels[p] + (p.kind is not place.kind) for p in made if p in levels), default=0
                )
            parts: dict[tuple[int, int], list[_Place]] = {}
            for place in places:
                parts.setdefault((levels[place], id(place.kind)), []).append(place)
            few = len(parts) <= PHASES * len(group)
            passes += [parts[key] for key in sorted(parts, key=lambda x: x[0])] if few else [places]
        return passes

    def _write(self, program: Program, places: list[_Place], outputs: set[Expr]) -> None:
        """A pass: of one kind, or of several that take turns.

        What only later passes take gets new cells. Of what the pass itself takes, several kinds share rows.
        """
        kinds: dict[_Kind, list[_Place]] = {}
        for place in places:
            kinds.setdefault(place.kind, []).append(place)
        within = {x for place in places for x in place.nodes}
        taken = {
            kind: [k for k in self._used[kind] if any(place.cells[k] in within for place in own)]
            for kind, own in kinds.items()
        }
        passed = self._passed_on(kinds, taken, set(places), outputs) if len(kinds) > 1 else {}
        slots = sorted({kind.slots[k] for kind, values in passed.items() for k in values})
        rows = self._rows(places, passed)
        shared = program.empty((max(rows.values()) + 1, len(slots)))
        groups: dict[_Kind, list[list[int]]] = {}
        for kind, own in kinds.items():
            of_rows = passed.get(kind, [])
            kept = [k for k in taken[kind] if k not in of_rows]
            self._place_cells(own, kept, program.empty((len(own), len(kept))))
            columns = [slots.index(kind.slots[k]) for k in of_rows]
            self._place_cells(own, of_rows, shared[[rows[place] for place in own]][:, columns])
            groups[kind] = [[k for k in self._used[kind] if k not in taken[kind]], kept, of_rows]
        order = list(kinds)
        calls = [self._call(kind, own, groups[kind]) for kind, own in kinds.items()]
        found = program.alternate(np.array([order.index(place.kind) for place in places]), calls)
        for (kind, own), results in zip(kinds.items(), found, strict=True):
            new = groups[kind][0]
            if new:
                self._place_cells(own, new, results[0] if isinstance(results, tuple) else results)

    def _passed_on(
        self,
        kinds: Mapping[_Kind, list[_Place]],
        taken: Mapping[_Kind, list[int]],
        places: set[_Place],
        outputs: set[Expr],
    ) -> dict[_Kind, list[int]]:
        """Of what places of a pass take, by kinds: the values that others take at few places only."""
        self._leaving = {
            x
            for place in places
            for x in place.cells
            if x in outputs or not places.issuperset(self._users.get(x, ()))
        }
        return {
            kind: [
                k
                for k in taken[kind]
                if 4 * sum(place.cells[k] in self._leaving for place in own) <= len(own)
            ]
            for kind, own in kinds.items()
        }

    def _rows(self, places: list[_Place], passed: Mapping[_Kind, list[int]]) -> dict[_Place, int]:
        """Rows for what places pass on, each used again after its last use in the pass, if that is all."""
        turn = {place: n for n, place in enumerate(places)}
        rows = dict.fromkeys(places, 0)
        free: list[int] = []
        ending: dict[int, list[int]] = {}
        count = 0
        for n, place in enumerate(places):
            cells = [place.cells[k] for k in passed.get(place.kind, ())]
            if cells:
                rows[place] = free.pop() if free else count
                count = max(count, rows[place] + 1)
                users = [turn[user] for x in cells for user in self._users.get(x, ()) if user in turn]
                if self._leaving.isdisjoint(cells):
                    ending.setdefault(max(users, default=n), []).append(rows[place])
            free += ending.pop(n, [])
        return rows

    def _place_cells(self, places: list[_Place], values: list[int], cells: Cells) -> None:
        for place, row in zip(places, cells.tolist(), strict=True):
            for k, cell in zip(values, row, strict=True):
                self._cell[place.cells[k].index] = cell

    def _call(self, kind: _Kind, places: list[_Place], values: list[list[int]]) -> Call:
        """A call of a kind, with its cells in runs that follow each other."""
        n = len(places)
        cells = np.array([[self._cell[x.index] for x in p.nodes] for p in places], np.int64).reshape(n, -1)
        numbers = np.array([place.numbers for place in places], float).reshape(n, -1)
        groups = _by_stride(cells)
        written = [group for group in values if group]
        arguments = [cells[:, of] for of in groups] + ([numbers] if numbers.size else [])
        shapes = {f"x{k}": array.shape[1] for k, array in enumerate(arguments)}

        def arranged(*arrays: Array) -> tuple[Array, ...]:
            x = np.empty(cells.shape[1], object)
            for of, array in zip(groups, arrays, strict=False):
                x[of] = array
            y = kind.function(arrays[-1] if numbers.size else np.zeros(0), x)
            return tuple(y[group] for group in written)

        function = trace(arranged, shapes, kind.function.name)
        into = tuple(
            None
            if group is values[0]
            else np.array([[self._cell[place.cells[k].index] for k in group] for place in places], np.int64)
            for group in written
        )
        return Call(function, tuple(arguments), into)


def _expression_kind(lines: list[Any], numbers: int, nodes: int) -> _Kind:
    """The kind of expressions that are computed line by line, the last one being the result."""
    graph = Graph()
    c, x = graph.symbols("c", (numbers,)), graph.symbols("x", (nodes,))
    values: list[Any] = []
    sources = {"line": values, "c": c, "x": x}
    for op, *words in lines:
        operands = [sources[w[0]][w[1]] if isinstance(w, tuple) else w for w in words]
        values.append(OPERATIONS[op](*operands))
    return _Kind(Function("expression", {"c": c, "x": x}, {"y": _objects(values[-1:])}), [0])


def _components(waits: Mapping[_Kind, Iterable[_Kind]]) -> list[list[_Kind]]:
    """Kinds that wait for each other together, each group after those that it waits for (Tarjan 1972)."""
    index: dict[_Kind, int] = {}
    low: dict[_Kind, int] = {}
    stack: list[_Kind] = []
    groups: list[list[_Kind]] = []
    for first in waits:
        if first in index:
            continue
        work = [(first, iter(waits[first]))]
        index[first] = low[first] = len(index)
        stack.append(first)
        while work:
            kind, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[kind])
                if low[kind] == index[kind]:
                    groups.append([])
                    while True:
                        member = stack.pop()
                        low[member] = len(waits)
                        groups[-1].append(member)
                        if member is kind:
                            break
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(waits[following])))
            else:
                low[kind] = min(low[kind], low[following])
    return groups


def _by_stride(cells: Array) -> list[Array]:
    """The columns of cells (places, .) in runs: cells in a row that move on alike from place to place.

    Runs need no table of indices where their step is the same at all places.
    """
    if not cells.shape[1]:
        return []
    order = np.argsort(cells[0], kind="stable")
    along = cells[:, order]
    together = (np.diff(along[0]) == 1) & (np.diff(np.diff(along, axis=0), axis=1) == 0).all(axis=0)
    return np.split(order, np.flatnonzero(~together) + 1)
