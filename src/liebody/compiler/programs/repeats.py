"""Traces algorithms so that the functions they repeat, such as a recursion over bodies, become loops.

An algorithm is written once, in plain operators, and marks the functions that it applies again and again:

    @repeated
    def outward(T, moments, V, A, parent):
        ...

On numbers, and in an ordinary `trace`, the mark does nothing. `traced` keeps the repeats apart: a repeat is
traced by itself, once for each *kind*, and the calls of a kind become places of a pass of a `Program`, whose
text does not grow with their number. Two calls are of a kind if the same entries of their arguments are 0, 1
or -1, so that the same terms vanish; their other numbers become a table. Operations between repeats become
passes as well, expressions of the same form being of a kind.

Arguments of repeats are numbers, symbols, arrays of them, and tuples of such; anything else (groups, names,
functions) belongs to the kind.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from ...base.arguments import shape_of
from ...base.errors import GraphError
from ...scalars import Array
from ..graph.graph import (
    CONDITIONS,
    Expr,
    Function,
    Graph,
    graph_of,
    naming_the_line,
    objects,
    run_on_symbols,
    trace,
    undisturbed,
)
from . import passes
from .passes import STRUCTURAL, Kind, PassPlan, Place, work_of
from .program import Program

LONGEST = 20_000  # nodes of a straight line that are worth a try, before repeats are looked at
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
Made = TypeVar("Made")


def repeated(function: AnyFunction) -> AnyFunction:
    """Mark a function that an algorithm repeats: see this module."""

    @functools.wraps(function)
    def marked(*arguments: Any) -> Any:
        graph = graph_of(arguments)
        return function(*arguments) if graph is None else graph.call(function, arguments)

    return marked  # type: ignore[return-value]


def traced(
    function: Callable[..., Any],
    shapes: Mapping[str, int | Sequence[int]],
    name: str | None = None,
    least: int | None = None,
    loops: bool | Collection[Callable[..., Any]] | None = None,
) -> Function | Program:
    """As `trace`; if a repeat is called often and the work is large, a `Program` with loops over them.

    least  work (in operations) from which on it is large; `LONG` if None
    loops  None: decide by `least`. True or False: repeats become loops always or never. Some functions: these
           repeats become loops, and everything between them stays straight lines
    """
    if loops is False:
        return trace(function, shapes, name)
    apart = None if loops is None or loops is True else frozenset(inspect.unwrap(f) for f in loops)
    least = passes.LONG if least is None else least
    with naming_the_line(name or str(getattr(function, "__name__", "function"))), undisturbed():
        # Small algorithms are straight lines. Large ones are traced again with their repeats apart, because
        # the first trace has lost them; it is given up early where it becomes long.
        straight = _straight(function, shapes, name) if loops is None else None
        if straight is not None and work_of(straight) <= least:
            return straight
        graph = RepeatGraph(apart)
        plan = PassPlan(run_on_symbols(graph, function, shapes, name), graph, graph.calls, apart is not None)
        large = loops is not None or (plan.work > least and plan.repeats(passes.REPEATED))
        program = plan.program() if large else None
        graph.clear()
        return program or straight or run_on_symbols(Graph(), function, shapes, name)


def looped_where_long(
    program: Program, looped: Callable[[], Made], straight: Callable[[], Made], least: int
) -> Made:
    """One of two ways to the same results: the loops of a program where it is long, else a straight line.

    A short straight line runs faster, because nothing passes through the memory; a long one takes long to
    compile.

    program   the program, put together by hand
    looped    makes the result with the program's loops
    straight  makes the same result of a straight line
    least     number of operations of the program from which on it is long
    """
    return looped() if sum(program.operations.values()) > least else straight()


class _TooLong(Exception):
    """A straight line has more than `LONGEST` nodes."""


class _Bounded(Graph):
    """The graph of a straight line, which is given up at the first repeat after it became long.

    It is not given up between two nodes: NumPy's product of object arrays releases a number twice if an
    operator raises.
    """

    __slots__ = ()

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self.size > LONGEST:
            raise _TooLong
        return function(*arguments)


def _straight(
    function: Callable[..., Any], shapes: Mapping[str, int | Sequence[int]], name: str | None
) -> Function | None:
    """The straight line, None if it has more than `LONGEST` nodes."""
    if sum(math.prod(shape_of(key, x)) for key, x in shapes.items()) > LONGEST:
        return None
    graph = _Bounded()
    try:
        return run_on_symbols(graph, function, shapes, name)
    except _TooLong:
        graph.tables.clear()
        return None


# -- kinds of repeats ---------------------------------------------------------------------------------------


class RepeatGraph(Graph):
    """The graph of a trace in which repeats are kept apart; `cell` nodes stand for their results."""

    __slots__ = ("_apart", "_forms", "_numeric", "_results", "calls", "kinds")

    def __init__(self, apart: frozenset[Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self._apart = apart
        self.calls: list[Place] = []
        self.kinds: dict[Any, RepeatKind] = {}
        self._results: dict[Any, list[Array]] = {}
        self._numeric: dict[Any, _Form] = {}  # forms of arrays of numbers, by their bytes
        # Forms of arrays that repeats have returned, by identity; these are read-only, so a form stays right.
        self._forms: dict[int, tuple[Array, _Form | None]] = {}

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The results of a repeat: numbers, and `cell` nodes for what it computes."""
        if self._apart is not None and function not in self._apart:
            return function(*arguments)
        # The form of all arguments: which entries are structural, numbers or nodes. An array that is given
        # twice is named by its first place, so that the repeat is traced with one array there, too.
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
        # A node in several arrays is one input of the repeat. Where that happens, it belongs to the kind.
        places: dict[int, int] = {}
        pattern = [places.setdefault(node.index, len(places)) for node in nodes]
        if len(places) < len(nodes):
            nodes = list({node.index: node for node in nodes}.values())
        key = function, structure, tuple(forms), tuple(pattern) if len(nodes) < len(pattern) else None
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = RepeatKind(function, structure, forms, pattern)
        # A call with the same arguments was made before: its results serve again.
        same = kind, *numbers, *places
        results = self._results.get(same)
        if results is None:
            values = range(self.size, self.size + len(kind.slots))
            place = Place(kind, len(self.calls), numbers, nodes, list(places), values)
            self.calls.append(place)
            cells = [self.fresh("cell", (place.number, k)) for k in range(len(kind.slots))]
            results = self._results[same] = kind.results(place, cells)
            for array in results:
                array.flags.writeable = False
                self._forms[id(array)] = array, None
        return _put_together(kind.structure, iter(results))

    def clear(self) -> None:
        """Forget all nodes, so that they go with their last user, without a search for garbage."""
        self.tables.clear()
        for table in (self.calls, self.kinds, self._results, self._numeric, self._forms):
            table.clear()

    def _form(self, array: Array) -> _Form:
        """The form of an array, from earlier calls if it is a result of a repeat or has numbers only."""
        known, form = self._forms.get(id(array), (None, None))
        if form is None and array.dtype != object:
            key = array.shape, array.dtype, array.tobytes()
            form = self._numeric.get(key) or self._numeric.setdefault(key, _Form(array))
        if form is None:
            form = _Form(array)
            if known is not None:
                self._forms[id(array)] = array, form
        return form


class _Form:
    """The structure of an array: which entries are structural, numbers, or nodes up to their sign.

    A number at (i, j) that stands at (j, i) as well, with either sign, counts once: symmetric and
    antisymmetric matrices keep their property in the traced repeat. A node in several entries counts once,
    too.

    tokens   the shape, then a word for each entry: "0", "1" or "-" for structural ones; ("n", k) for the k-th
             number, ("m", k) for its negative; k for the k-th node, ~k for its negative
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
            if not isinstance(x, Real):
                raise GraphError(f"a {type(x).__name__} ({x!r}) meets symbols of a trace in a repeat")
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


class RepeatKind(Kind):
    """Calls of a repeat with arguments of this structure and these forms.

    pattern    of each node in the forms, its place among the different ones
    structure  of what it returns, as `_taken_apart`
    """

    def __init__(
        self, repeat: Callable[..., Any], structure: Any, forms: list[Any], pattern: list[int]
    ) -> None:
        graph = Graph()
        # Symbols c for all numbers of the forms, and x for their different nodes; forms that are integers
        # repeat an earlier array.
        different = [tokens for tokens in forms if not isinstance(tokens, int)]
        c = graph.symbols("c", (sum(_count(tokens, "c") for tokens in different),))
        x = graph.symbols("x", (len(set(pattern)),))
        arguments: list[Array] = []
        numbers = c
        nodes = x[pattern]
        for tokens in forms:
            if isinstance(tokens, int):
                arguments.append(arguments[tokens])
                continue
            arguments.append(_filled(tokens, numbers, nodes))
            numbers = numbers[_count(tokens, "c") :]
            nodes = nodes[_count(tokens, "x") :]
        self._arrays: list[Array] = []
        self.structure = _taken_apart(repeat(*_put_together(structure, iter(arguments))), self._arrays)
        # Sort the entries that the repeat returns: numbers, arguments that it hands on, and values that it
        # computes, each once up to its sign. Only these last ones take cells.
        name = repeat.__name__.lstrip("_")
        fresh: dict[Expr, int] = {}
        slots: list[int] = []
        self._entries: list[tuple[str, Any, bool]] = []  # source, place or number, whether negative
        for entry in (entry for array in self._arrays for entry in array.ravel().tolist()):
            node = entry.args[0] if type(entry) is Expr and entry.op == "neg" else entry
            if type(node) is not Expr:
                source: tuple[str, Any] = "number", float(entry)
            elif node.op == "input":
                source = node.args[0], node.args[1][0]
            elif node.op in CONDITIONS:
                raise GraphError(f"the repeat {name} returns a condition; return where(condition, a, b)")
            else:
                if node not in fresh:
                    slots.append(len(self._entries))
                source = "y", fresh.setdefault(node, len(fresh))
            self._entries.append((*source, node is not entry))
        super().__init__(Function(name, {"c": c, "x": x}, {"y": objects(list(fresh))}), slots)

    def results(self, place: Place, cells: list[Expr]) -> list[Array]:
        """The arrays that the repeat returns at a place; `cells` are the values that it computes there."""
        sources: dict[str, Any] = {"c": place.numbers, "x": place.nodes, "y": cells}
        entries = iter(self._entries)
        arrays = []
        for array in self._arrays:
            values = [
                k if source == "number" else -sources[source][k] if negative else sources[source][k]
                for source, k, negative in itertools.islice(entries, array.size)
            ]
            symbolic = any(type(x) is Expr for x in values)
            arrays.append((objects(values) if symbolic else np.array(values, float)).reshape(array.shape))
        return arrays


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
    return (objects(entries) if symbolic else np.array(entries, float)).reshape(tokens[0])


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
    """An argument that belongs to the kind, compared by equality, or by identity if it has no hash."""

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
    """The value of this structure with these arrays in it: the inverse of `_taken_apart`."""
    if structure is np.ndarray:
        return next(arrays)
    if structure is float:
        return next(arrays)[()]
    if isinstance(structure, _Same):
        return structure.value
    parts = [_put_together(x, arrays) for x in structure[1:]]
    return structure[0](*parts) if hasattr(structure[0], "_fields") else structure[0](parts)
