"""Prints programs as C: loops over places, which passes share according to the `Schedule`.

If several passes share a loop, most iterations are one straight line that loads cells, computes and stores
cells. Elsewhere functions are called: with pointers where the cells of an argument follow each other, and
gathered copies otherwise. A function writes its results in place if it does not read these cells itself.
Cells are in the array `w`, or in arguments and results of the program. Positions that are regular (base +
stride * place) are formulas in the text, others tables. Constants that are the same wherever a function is
applied become part of its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.concurrency import cached_property
from ..graph.graph import Expr, Function, trace
from ..programs.program import Application, Pass, Program
from ..programs.schedule import Loop, Schedule, Segment, line
from .c import (
    ARITHMETIC,
    DOUBLE,
    PIECE,
    Code,
    Dialect,
    Guard,
    NumberType,
    Plan,
    c99,
    c99_dialect,
    c99_names,
    c_function,
    constant_table,
    identifier,
    lanes_dialect,
    number_type,
    over_lanes,
    prelude,
    straight_line,
    tables_text,
    wide_dialect,
)

SMALL = 100  # operations up to which a function may be copied into the loop that calls it
FEW = 4  # places from which on they may be lanes
WORTH = 4  # operations for each number that is moved, from which on lanes pay


def callable_over_lanes(
    function: Function | Program, name: str, number: NumberType = DOUBLE, dialect: Dialect | None = None
) -> list[str]:
    """C functions over T, of which the last computes `function`; see `over_lanes`."""
    dialect = dialect or lanes_dialect(number)
    if isinstance(function, Function):
        return over_lanes(function, name, dialect)
    arguments = [f"x{k}" for k in range(len(function.inputs))]
    results = [f"y{k}" for k in range(len(function.outputs))]
    targets = dict(zip(results, _outputs(function), strict=True))
    text = _Text(function, name, arguments, targets, dialect)
    takes = [f"const T *restrict {key}" for key in arguments] + [f"T *restrict {key}" for key in results]
    # The cells may be too many for a stack, so each thread keeps them.
    memory = [f"THREAD_STATIC T cells[{max(text.size, 1)}];", "T *w = cells;", "ASK_ONCE(w);"]
    head = f"static __attribute__((noinline)) void {name}({', '.join(takes)})"
    return [*text.functions, c_function(head, [*memory, *text.lines])]


def program_unit(
    program: Program, lanes: int, single: bool = False, guard: Guard | None = None, piece: int = PIECE
) -> str:
    """The translation unit that defines `run` over batches of states; see `batch_units`."""
    dialect = lanes_dialect(number_type(single))
    # Over one lane the program writes results directly; over many they go through one array, each distinct
    # cell once, and from there into rows.
    plan = Plan(program.interface(lanes > 1), lanes, dialect)
    outputs = _outputs(program)
    if lanes > 1:
        outputs = [np.array([cell.args[0] for cell in plan.place], int)]
    arguments = [f"x{k}" for k in range(len(program.inputs))]
    results = {f"y{k}": positions for k, positions in enumerate(outputs)}
    text = _Text(program, "step", arguments, results, dialect, piece, wide=lanes == 1)
    takes = [*(f"const T *restrict {x}" for x in arguments), *(f"T *restrict {y}" for y in results), "T *w"]
    whole = c_function(f"static void piece0({', '.join(takes)})", text.lines)
    loop = plan.loop(Code([[]], text.size), guard or Guard())
    return "\n".join([prelude(lanes, dialect.number), *text.functions, whole, loop])


def callable_c99(program: Function | Program, name: str | None = None, single: bool = False) -> str:
    """C99 functions of plain doubles (or floats), of which the last computes `program`; see `c99`."""
    if isinstance(program, Function):
        return c99(program, name, single=single)
    name, arguments, results = c99_names(program, name, r"w|i|j|k|next|part|run|[alort]\d+")
    dialect = c99_dialect(number_type(single))
    text = _Text(program, name, arguments, dict(zip(results, _outputs(program), strict=True)), dialect)
    takes = [*(f"const {dialect.real} *{x}" for x in arguments), *(f"{dialect.real} *{y}" for y in results)]
    head = f"void {name}({', '.join(takes) or 'void'})"
    memory = [f"{dialect.real} w[{text.size}];"] if text.size else []
    return "\n".join([*text.functions, c_function(head, [*memory, *text.lines])])


def _outputs(program: Program) -> list[Any]:
    """The positions of the cells of each output, flat."""
    return [program.positions(cells).ravel() for cells in program.outputs.values()]


class _Text:
    """The statements of a program, from its arguments through the cells w to its results.

    arguments  names of arrays
    results    names of arrays, and the positions of the cells that go there
    piece      operations in one C function
    wide       whether places may be lanes, as they may in a loop over one state
    size       length of w

    It is one class, though long, because every statement needs the schedule, the tables and the forms.
    """

    def __init__(
        self,
        program: Program,
        name: str,
        arguments: Sequence[str],
        results: dict[str, Any],
        dialect: Dialect,
        piece: int = PIECE,
        wide: bool = False,
    ) -> None:
        self.name = name
        self.dialect = dialect
        single = [step.parts[0] for step in program.passes if wide and len(step.parts) == 1]
        self._over_lanes = {part for part in single if _is_wide(part)}
        self.lines: list[str] = []
        self._tables: dict[tuple[str, ...], tuple[str, str]] = {}
        self._schedule = schedule = Schedule(program, list(results.values()), self._over_lanes)
        self._arrays = ["w", *arguments, *results]
        self.size = schedule.size
        # Passed for an argument without entries; MISRA C forbids the number 0 as a pointer.
        self._nothing = "w" if self.size and dialect.value == dialect.real else "0"
        # Start: copy inputs that are not read in place, and give cells their initial values.
        for key, cells in zip(arguments, program.inputs.values(), strict=True):
            positions = program.positions(cells).ravel()
            if cells.size and schedule.space[positions[0]] == 0:
                order = np.argsort(schedule.spot[positions])
                self._copy("w", schedule.spot[positions][order], key, order)
        for first, values in program.starts:
            self._begin(first + np.arange(len(values)), values)
        # Applications of one form call the same C function. Its text knows all of them, to fold constants.
        uses: dict[tuple[Any, ...], list[tuple[Application, bool]]] = {}
        for loop in schedule.loops:
            for part in loop.step.parts if loop.alternating else (turns.part for turns in loop.turns):
                if part.places:
                    uses.setdefault(self._form(part), []).append((part, bool(loop.runs)))
        self._forms = {
            form: _Form(f"{name}_{k}_{identifier(form[0].name)}", form[1], *zip(*parts, strict=True))
            for k, (form, parts) in enumerate(uses.items())
        }
        for loop in schedule.loops:
            self.lines += self._turns(loop.step) if loop.alternating else self._loop(loop)
        # End: constants of results, and results that are not in their own array yet, run by run of equal
        # source arrays.
        for j, (key, positions) in enumerate(results.items()):
            space = schedule.space[positions]
            if (space == 1 + len(arguments) + j).any():
                self._fill(key, np.flatnonzero(schedule.constant[positions]), positions)
                space[schedule.constant[positions]] = 1 + len(arguments) + j
            edges = np.flatnonzero(np.diff(space)) + 1
            for entries in np.split(np.arange(len(positions)), edges):
                if len(entries) and space[entries[0]] != 1 + len(arguments) + j:
                    source = self._arrays[space[entries[0]]]
                    self._copy(key, entries, source, schedule.spot[positions[entries]])
        tables = [constant_table(kind, table, values) for values, (kind, table) in self._tables.items()]
        functions = dict.fromkeys(part.function for step in program.passes for part in step.parts)
        tables += tables_text(functions, dialect.number)
        forms = list(self._forms.values())
        lines = "\n".join(self.lines)
        if self.dialect.value != "T":  # compilers warn of functions that are nowhere called
            forms = [form for form in forms if f"{form.name}(" in lines]
        self.functions = [*tables, *(text for form in forms for text in form.text(self.dialect, piece))]

    def _copy(self, target: str, to: Any, source: str, of: Any) -> None:
        """Append statements for target[to] = source[of], where `to` are consecutive entries."""
        entry = self._regular(of, np.arange(len(of)), "j")
        self.lines.append(_each(len(to), f"{target}[{_after(to[0], 'j')}]", f"{source}[{entry}]"))

    def _fill(self, target: str, to: Any, positions: Any) -> None:
        """Append statements that write the entries `to` of a result, which are constant."""
        # For each value the entries come in runs: one loop over runs, with their beginnings and lengths as
        # formulas or tables, writes them.
        values = self._schedule.start[positions[to]]
        for value in np.unique(values):
            entries = to[values == value]
            edges = np.flatnonzero(np.diff(entries) != 1) + 1
            first, counts = (
                np.array(x, int) for x in zip(*((run[0], len(run)) for run in np.split(entries, edges)))
            )
            each = np.arange(len(first))
            begin, count = (self._regular(x, each, "k") for x in (first, counts))
            word = self.dialect.splat.format(self._literal(value))
            self.lines.append(
                f"for (int k = 0; k < {len(first)}; k++) {{ {_each(count, f'{target}[{begin} + j]', word)} }}"
            )

    def _begin(self, cells: Any, values: Any) -> None:
        """Append statements that give cells of w their values at the start."""
        needed = self._schedule.space[cells] == 0
        spots = self._schedule.spot[cells[needed]]
        values = values[needed]
        order = np.argsort(spots)
        spots = spots[order]
        values = values[order]
        for run in np.split(np.arange(len(spots)), np.flatnonzero(np.diff(spots) != 1) + 1):
            if not len(run):
                continue
            # Few different values: a loop for each. Many: one loop that reads a table.
            edges = np.flatnonzero(np.diff(values[run]) != 0) + 1
            for part in np.split(run, edges) if len(edges) < 8 else [run]:
                x = values[part]
                value = self._literal(x[0]) if (x == x[0]).all() else f"{self._reals(x)}[j]"
                target = f"w[{_after(spots[part[0]], 'j')}]"
                self.lines.append(_each(len(part), target, self.dialect.splat.format(value)))

    def _loop(self, loop: Loop) -> list[str]:
        """The loop over iterations k of the parts that share it."""
        if len(loop.turns) == 1:
            (turns,) = loop.turns
            if turns.part in self._over_lanes:
                return self._lanes(turns.part)
            body = self._place(turns.part, np.arange(turns.part.places))
            return [f"for (int i = 0; i < {turns.part.places}; i++) {{", *_indented(body), "}"]
        # Several parts. If the iterations outside of the one run of segments are few, they are written out
        # before and behind it.
        body = [x for segment in loop.segments for x in ("{", *_indented(self._segment(segment)), "}")]
        if loop.unrolled:
            ((start, stop),) = loop.runs
            head = f"for (int k = {start}; k < {stop}; k++) {{"
            before = self._singly(loop, range(start))
            after = self._singly(loop, range(stop, loop.length))
            return [*before, head, *_indented(body), "}", *after]
        # Otherwise one loop counts k. Runs of segments are entered from a table of their bounds; in all other
        # iterations each part checks whether it has a place.
        lines = []
        if loop.runs:
            table = self._named("int", [*(str(x) for run in loop.runs for x in run), "-1"])
            lines = [
                f"if (k == {table}[run]) {{",
                f"    while (k < {table}[run + 1]) {{",
                *_indented(body, 2),
                "        k++;",
                "    }",
                "    run += 2;",
                f"    if (k == {loop.length}) {{ break; }}",
                "}",
            ]
        single = loop.length - sum(stop - start for start, stop in loop.runs)
        for turns in loop.turns:
            iterations = loop.alone(turns)
            if not len(iterations):
                continue
            guard = f"if ((k >= {turns.first}) && (k < {turns.stop})) " if len(iterations) < single else ""
            body = self._place(turns.part, turns.places(iterations))
            if any(re.search(r"\bi\b", x) for x in body):
                i = f"k - {turns.first}" if turns.first else "k"
                body = [f"const int i = {i};", *body]
            lines += [f"{guard}{{", *_indented(body), "}"]
        if not loop.runs:
            return [f"for (int k = 0; k < {loop.length}; k++) {{", *_indented(lines), "}"]
        lines = [
            "int run = 0;",
            "int k = 0;",
            f"while (k < {loop.length}) {{",
            *_indented([*lines, "k++;"]),
            "}",
        ]
        return ["{", *_indented(lines), "}"]

    def _singly(self, loop: Loop, iterations: range) -> list[str]:
        """Some iterations of a loop, written out part by part."""
        lines = []
        for k in iterations:
            for turns in loop.turns:
                if turns.first <= k < turns.stop:
                    body = self._place(turns.part, turns.places(np.array([k])))
                    lines += body if len(body) == 1 else ["{", *_indented(body), "}"]
        return lines

    def _segment(self, segment: Segment) -> list[str]:
        """The statements of a segment for iteration k: load everything, compute, store everything."""
        T = self.dialect.value
        iterations = segment.iterations
        symbols: dict[Expr, str] = {}
        targets: dict[Expr, list[str]] = {}
        loads: list[str] = []
        stores: list[str] = []
        for column, symbol in segment.loads.values():
            symbols[symbol] = f"l{symbol.args[1][0]}"
            if column.dtype.kind == "f":
                table = self._regular(np.arange(len(column)), iterations, "k")
                value = self.dialect.splat.format(f"{self._reals(column)}[{table}]")
            else:
                value = self._cell(column, iterations, "k")
            loads.append(f"const {T} {symbols[symbol]} = {value};")
        for column, x in segment.stores.values():
            if type(x) is not Expr:
                value = self.dialect.constant(float(x))
            elif x.op == "input":
                value = symbols[x]
            else:
                value = f"o{len(stores)}"
                targets.setdefault(x, []).append(f"const {T} {value}")
            stores.append(f"{self._cell(column, iterations, 'k')} = {value};")
        body = straight_line(segment.function, self.dialect, symbols, targets, piece=1 << 30)
        return [*loads, *body.pieces[0], *stores]

    def _turns(self, step: Pass) -> list[str]:
        """A loop over places of parts that take turns."""
        which = self._named("int", map(str, step.order))
        lines = [f"const int part = {which}[k];", "const int i = next[part];", "next[part] = i + 1;"]
        lines.append("switch (part) {")
        for number, part in enumerate(step.parts):
            if part.places:
                body = self._place(part, np.arange(part.places))
                lines += [f"case {number}: {{", *_indented(body), "} break;"]
        lines += ["default: /* all parts have a case */ break;", "}"]
        loop = [f"for (int k = 0; k < {len(step.order)}; k++) {{", *_indented(lines), "}"]
        return ["{", *_indented([f"int next[{len(step.parts)}] = {{0}};", *loop]), "}"]

    def _place(self, part: Application, places: Any) -> list[str]:
        """The statements for place i, one of `places`: gather arguments, call, scatter results."""
        T = self.dialect.value
        form = self._forms[self._form(part)]
        passed = []
        gather = []
        scatter = []
        for k, a in enumerate(part.arguments):
            if a.dtype.kind == "f":
                passed.append(self._constants(a[:, form.free[k]], places))
            elif not a.shape[1]:
                passed.append(self._nothing)
            elif self._follow(a[places]):
                passed.append(self._pointer(a[places], places))
            else:
                passed.append(f"a{k}")
                gather += [f"{T} a{k}[{a.shape[1]}];"]
                gather += [f"{x} = {y};" for x, y in self._entries(f"a{k}", a[places], places)]
        apart = not any((part.reads == column[:, None]).any() for column in part.writes.T)
        for k, (y, old) in enumerate(zip(part.results, part.written, strict=True)):
            if not y.shape[1]:
                passed.append(self._nothing)
            elif self._follow(y[places]) and (apart or not old):
                passed.append(self._pointer(y[places], places))
            else:
                passed.append(f"r{k}")
                gather.append(f"{T} r{k}[{y.shape[1]}];")
                scatter += [f"{y} = {x};" for x, y in self._entries(f"r{k}", y[places], places)]
        call = f"{form.name}({', '.join(passed)});"
        return [*gather, call, *scatter]

    def _form(self, part: Application) -> tuple[Any, ...]:
        """The key of the C function that a part calls; over lanes it includes which arguments lanes share."""
        shared = tuple(map(_is_shared, part.arguments)) if part in self._over_lanes else None
        return (part.function, shared, *(a.dtype.kind for a in part.arguments))

    def _lanes(self, part: Application) -> list[str]:
        """A loop over places as lanes, WIDE at a time.

        The last round begins earlier, so that all of its lanes have places: some places are computed twice.
        """
        form = self._forms[self._form(part)]
        places = np.arange(part.places)
        n = part.places
        passed = []
        declared = []
        take = []
        give = []
        for k, a in enumerate(part.arguments):
            passed.append(f"a{k}")
            if a.dtype.kind == "f":
                passed[-1] = self._constants(a[:, form.free[k]], places)
            elif not a.shape[1]:
                passed[-1] = "0"
            elif not _is_shared(a):
                declared.append(f"W a{k}[{a.shape[1]}];")
                take += self._each_lane("take", f"a{k}", a)
            elif self._follow(a[:1]):
                passed[-1] = self._pointer(a[:1], places[:1])
            else:
                declared.append(f"{self.dialect.real} a{k}[{a.shape[1]}];")
                declared += [f"{x} = {y};" for x, y in self._entries(f"a{k}", a[:1], places[:1])]
        for k, y in enumerate(part.results):
            passed.append(f"r{k}")
            declared.append(f"W r{k}[{y.shape[1]}];")
            give += self._each_lane("give", f"r{k}", y)
        call = f"{form.name}({', '.join(passed)});"
        begin = f"const int k = {n} - first < WIDE && {n} >= WIDE ? {n} - WIDE : first, left = {n} - k;"
        body = [begin, *declared, *take, call, *give]
        return [f"for (int first = 0; first < {n}; first += WIDE) {{", *_indented(body), "}"]

    def _each_lane(self, move: str, name: str, cells: Any) -> list[str]:
        """Statements that take vectors name[j] from the cells (places, size), or give them to those."""
        lines = []
        plan = self._schedule
        places = np.arange(len(cells))
        for j, column in enumerate(cells.T):
            regular = line(places, plan.spot[column])
            if regular is None:
                here = self._cell(column, places, "i")
                lane = f"{name}[{j}][l]"
                lines.append(f"EACH_PLACE({f'{lane} = {here}' if move == 'take' else f'{here} = {lane}'});")
            else:
                start = f"{self._arrays[plan.space[column[0]]]} + {regular[0]}"
                lines.append(f"{move}_lanes({name} + {j}, {start}, {regular[1]}, k, left);")
        return lines

    def _constants(self, values: Any, places: Any) -> str:
        """A pointer to the constants (., size) of place i, one of `places`."""
        if not values.size:
            return self._nothing
        if (values == values[:1]).all():
            return self._reals(values[0])
        return f"&{self._reals(values)}[{self._regular(values.shape[1] * places, places, 'i')}]"

    def _follow(self, cells: Any) -> bool:
        """Whether the cells of each place, (places, size), follow each other."""
        space = self._schedule.space[cells]
        spot = self._schedule.spot[cells]
        return bool((space == space[0, 0]).all() and (np.diff(spot, axis=1) == 1).all())

    def _pointer(self, cells: Any, places: Any) -> str:
        """A pointer to the cells of place i, which follow each other."""
        return f"&{self._arrays[self._schedule.space[cells[0, 0]]]}[{self._index(cells[:, 0], places, 'i')}]"

    def _entries(self, name: str, cells: Any, places: Any) -> list[tuple[str, str]]:
        """Entries of an array, and the cells (places, size) of place i that belong there."""
        return [(f"{name}[{j}]", self._cell(column, places, "i")) for j, column in enumerate(cells.T)]

    def _cell(self, cells: Any, x: Any, counter: str) -> str:
        """The cell of `cells` (n,) that a counter selects, which has the values x (n,)."""
        return f"{self._arrays[self._schedule.space[cells[0]]]}[{self._index(cells, x, counter)}]"

    def _index(self, cells: Any, x: Any, counter: str) -> str:
        """The index of a cell in its array, as a text that contains the counter."""
        # Rows that share places in turn: origin + stride * (row mod turns), and turns is a power of two.
        plan = self._schedule
        turn = plan.turns[cells[0]]
        origin = plan.origin[cells[0]]
        if turn > 1 and (plan.origin[cells] == origin).all() and line(x, plan.spot[cells]) is None:
            regular = line(x, plan.row[cells])
            if regular is not None:
                start, step = regular
                stride = plan.stride[cells[0]]
                row = _after(start % turn, counter) if step > 0 else f"{start % turn} - {counter}"
                if abs(step) == 1:
                    turning = f"(({row}) & {turn - 1})"
                    return _after(origin, turning if stride == 1 else f"({stride} * {turning})")
        return self._regular(plan.spot[cells], x, counter)

    def _regular(self, values: Any, x: Any, counter: str) -> str:
        """A text for whole numbers (n,) as a function of a counter, which has the values x (n,)."""
        regular = line(x, values)
        if regular is None:
            # A table without offset and common factor, so that other columns of the same pattern share it.
            start = int(values.min())
            step = int(np.gcd.reduce(values - values.min()))
            entries = np.zeros(int(x.max()) + 1, int)
            entries[x] = (values - start) // step
            counter = f"{self._named('int', map(str, entries.tolist()))}[{counter}]"
        else:
            start, step = regular
        if not step:
            return str(start)
        multiple = counter if abs(step) == 1 else f"({abs(step)} * {counter})"
        return _after(start, multiple) if step > 0 else f"{start} - {multiple}"

    def _literal(self, x: float) -> str:
        return self.dialect.literal(float(x))

    def _reals(self, values: Any) -> str:
        """The name of a table of constants."""
        return self._named(self.dialect.real, map(self._literal, values.flat))

    def _named(self, kind: str, values: Any) -> str:
        """The name of a table of these values; equal tables are printed once."""
        entry = (kind, f"{self.name}_table{len(self._tables)}")
        return self._tables.setdefault(tuple(values), entry)[1]


class _Form:
    """A C function for applications of one traced function with constants in the same arguments.

    shared  which arguments all lanes share, if lanes are places; else None
    rare    whether segments compute most places, so that calls are rare
    """

    def __init__(
        self, name: str, shared: Sequence[bool] | None, parts: Sequence[Application], rare: Sequence[bool]
    ) -> None:
        self.shared = shared
        self.rare = all(rare)
        self.name = name
        self.parts = parts
        self.function = parts[0].function
        # Split the entries of each constant argument: entries that differ from place to place are free, and
        # the values of the others become part of the text.
        self.free = {}
        self._fixed = {}
        for k, a in enumerate(parts[0].arguments):
            if a.dtype.kind == "f":
                rows = np.concatenate([part.arguments[k] for part in parts])
                self.free[k] = ~(rows == rows[0]).all(axis=0)
                self._fixed[k] = rows[0]

    @cached_property
    def folded(self) -> Function:
        """The function of the entries that differ from place to place, with all others folded in."""
        shapes = [x.shape for x in self.function.inputs.values()]

        def folded(*arrays: Any) -> Any:
            arguments = list(arrays)
            for k, free in self.free.items():
                values = self._fixed[k].astype(object)
                values[free] = arrays[k]
                arguments[k] = values.reshape(shapes[k])
            return self.function(*arguments)

        counts = [int(self.free[k].sum()) if k in self.free else shape for k, shape in enumerate(shapes)]
        return trace(folded, {f"x{k}": shape for k, shape in enumerate(counts)})

    def text(self, dialect: Dialect, piece: int) -> list[str]:
        """The C function, behind the functions that it calls."""
        function = self.folded if self.free else self.function
        if self.shared is not None:
            constants = [k for k, shared in enumerate(self.shared) if shared]
            return over_lanes(function, self.name, wide_dialect(dialect.number), constants, piece=piece)
        small = sum(function.operations.values()) <= SMALL
        # `restrict` holds for one place only. A function that is copied into the loop must not write cells
        # that the next place reads, because the compiler could move that read before the write.
        inline = small and not any(any(part.written) for part in self.parts)
        attribute = "" if (inline and not self.rare) or dialect.value != "T" else "__attribute__((noinline)) "
        return over_lanes(function, self.name, dialect, self.free, attribute, piece)


def _is_wide(part: Application) -> bool:
    """Whether the places of a part may be lanes: enough of them, in any order, with enough arithmetic."""
    operations = part.function.operations
    arrays = (*part.arguments, *part.results)
    return (
        part.places >= FEW
        and sum(operations.values()) >= WORTH * sum(x.shape[1] for x in arrays if not _is_shared(x))
        and ARITHMETIC.issuperset(operations)
        and all(_is_shared(x) for x in arrays if x.dtype.kind == "f")
        and not np.isin(part.writes, part.reads).any()
        and part.free
    )


def _is_shared(cells: Any) -> bool:
    """Whether all places have the same cells, or constants, (places, size)."""
    return bool((cells == cells[:1]).all())


def _indented(lines: Sequence[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]


def _after(start: int, text: str) -> str:
    """The text of start + text."""
    return f"{start} + {text}" if start else text


def _each(count: int | str, target: str, value: str) -> str:
    return f"for (int j = 0; j < {count}; j++) {{ {target} = {value}; }}"
