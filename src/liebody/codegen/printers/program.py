"""C source of a program: each pass is a loop over its places, around the function that it applies.

The memory of cells is an array `w`. A function gets pointers into it where the cells of an argument follow
each other, and gathered copies elsewhere; its results go in place where it does not read them itself. Tables
of positions that are regular (base + stride * place) are printed so, others as `static const`. Constants that
are the same wherever a function is applied become part of its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..graph import Function, trace
from ..program import Part, Pass, Program
from .c import (
    C99,
    Body,
    Dialect,
    Guard,
    _c_function,
    _Plan,
    _table,
    c99,
    c99_names,
    identifier,
    lanes_dialect,
    literal,
    over_lanes,
    prelude,
)

SMALL = 100  # operations up to which a function may be copied into the loop that calls it


def callable_over_lanes(function: Function | Program, name: str) -> list[str]:
    """C functions over T, of which the last computes `function`; see `over_lanes`."""
    if isinstance(function, Function):
        return over_lanes(function, name)[0]
    arguments = [f"x{k}" for k in range(len(function.inputs))]
    results = [f"y{k}" for k in range(len(function.outputs))]
    text = _Text(function, name, arguments, dict(zip(results, _outputs(function), strict=True)))
    takes = [f"const T *restrict {key}" for key in arguments] + [f"T *restrict {key}" for key in results]
    # each thread keeps its cells, which may be too many for its stack
    memory = [f"static __thread T cells[{max(function.size, 1)}];", "T *const w = cells;"]
    head = f"static __attribute__((noinline)) void {name}({', '.join(takes)})"
    return [*text.functions, _c_function(head, [*memory, *text.lines])]


def program_unit(program: Program, lanes: int, single: bool = False, guard: Guard | None = None) -> str:
    """The translation unit that defines `run` over batches of states; see `batch_units`."""
    dialect = lanes_dialect(single)
    plan = _Plan(program.interface(), lanes, dialect)
    outputs = _outputs(program)
    if lanes > 1:  # each distinct cell once
        outputs = [np.array([cell.args[0] for cell in plan.place], int)]
    arguments = [f"x{k}" for k in range(len(program.inputs))]
    results = {f"y{k}": positions for k, positions in enumerate(outputs)}
    text = _Text(program, "step", arguments, results, dialect)
    takes = [*(f"const T *restrict {x}" for x in arguments), *(f"T *restrict {y}" for y in results), "T *w"]
    whole = _c_function(f"static void piece0({', '.join(takes)})", text.lines)
    loop = plan.loop(Body([[]], program.size), guard or Guard())
    return "\n".join([prelude(lanes, single), *text.functions, whole, loop])


def callable_c99(program: Function | Program, name: str | None = None) -> str:
    """C99 functions of plain doubles, of which the last computes `program`; see `c99`."""
    if isinstance(program, Function):
        return c99(program, name)
    name, arguments, results = c99_names(program, name, r"w|i|j|k|next|[ar]\d+")
    text = _Text(program, name, arguments, dict(zip(results, _outputs(program), strict=True)), C99)
    takes = [*(f"const double *{x}" for x in arguments), *(f"double *{y}" for y in results)]
    head = f"void {name}({', '.join(takes) or 'void'})"
    return "\n".join(
        [*text.functions, _c_function(head, [f"double w[{max(program.size, 1)}];", *text.lines])]
    )


def _outputs(program: Program) -> list[Any]:
    return [program.positions(cells).ravel() for cells in program.outputs.values()]


class _Text:
    """The statements of a program, from its arguments by the cells w to its results.

    arguments  names of arrays
    results    names of arrays, and the positions in w of what goes there
    """

    def __init__(
        self,
        program: Program,
        name: str,
        arguments: Sequence[str],
        results: dict[str, Any],
        dialect: Dialect | None = None,
    ) -> None:
        self.name, self.dialect = name, dialect or lanes_dialect(False)
        self.lines: list[str] = []
        self._tables: dict[tuple[str, ...], tuple[str, str]] = {}
        for key, cells in zip(arguments, program.inputs.values(), strict=True):
            if cells.size:
                first = program.positions(cells).flat[0]
                self._assign(cells.size, f"w[{first} + j]", f"{key}[j]")
        for first, values in program.starts:
            value = self._literal(values[0]) if (values == values[:1]).all() else f"{self._reals(values)}[j]"
            self._assign(len(values), f"w[{first} + j]", self.dialect.splat.format(value))
        uses: dict[tuple[Any, ...], list[Part]] = {}
        for part in (part for step in program.passes for part in step.parts):
            if part.places:
                uses.setdefault(_form(part), []).append(part)
        self._forms = {
            form: _Form(f"{name}_{k}_{identifier(form[0].name)}", parts)
            for k, (form, parts) in enumerate(uses.items())
        }
        for step in program.passes:
            if len(step.order):
                self.lines += self._loop(step)
        for key, positions in results.items():
            self._assign(len(positions), f"{key}[j]", f"w[{self._index(positions, 'j')}]")
        tables = [_table(kind, table, values) for values, (kind, table) in self._tables.items()]
        self.functions = [
            *tables,
            *(line for form in self._forms.values() for line in form.text(self.dialect)),
        ]

    def _loop(self, step: Pass) -> list[str]:
        if len(step.parts) == 1:
            body = [f"    {line}" for line in self._place(step.parts[0])]
            return [f"for (int i = 0; i < {len(step.order)}; i++) {{", *body, "}"]
        which = self._named("int", map(str, step.order))
        lines = [f"for (int k = 0, next[{len(step.parts)}] = {{0}}; k < {len(step.order)}; k++) {{"]
        lines += [f"    const int i = next[{which}[k]]++;", f"    switch ({which}[k]) {{"]
        for number, part in enumerate(step.parts):
            if part.places:
                lines += [
                    f"    case {number}: {{",
                    *(f"        {x}" for x in self._place(part)),
                    "    } break;",
                ]
        return [*lines, "    }", "}"]

    def _place(self, part: Part) -> list[str]:
        """The statements for place i."""
        T, form = self.dialect.value, self._forms[_form(part)]
        given, before, after = [], [], []
        for k, a in enumerate(part.arguments):
            if a.dtype.kind == "f":
                given.append(self._constants(a[:, form.free[k]]))
            elif not a.shape[1]:
                given.append("0")
            elif _follow(a):
                given.append(f"w + {self._index(a[:, 0], 'i')}")
            else:
                given.append(f"a{k}")
                before += [f"{T} a{k}[{a.shape[1]}];", _each(a.shape[1], f"a{k}[j]", self._cell(a))]
        apart = not any((part.reads == column[:, None]).any() for column in part.writes.T)
        for k, (y, old) in enumerate(zip(part.results, part.written, strict=True)):
            if not y.shape[1]:
                given.append("0")
            elif _follow(y) and (apart or not old):
                given.append(f"w + {self._index(y[:, 0], 'i')}")
            else:
                given.append(f"r{k}")
                before.append(f"{T} r{k}[{y.shape[1]}];")
                after.append(_each(y.shape[1], self._cell(y), f"r{k}[j]"))
        call = f"{form.name}({', '.join(given)});"
        return [*before, call, *after]

    def _constants(self, values: Any) -> str:
        """A pointer to the constants (places, size) of place i."""
        if not values.size:
            return "0"
        if (values == values[:1]).all():
            return self._reals(values[0])
        return f"{self._reals(values)} + {self._index(values.shape[1] * np.arange(len(values)), 'i')}"

    def _cell(self, positions: Any) -> str:
        """Cell j of place i, by positions (places, size)."""
        first = positions[:, :1]
        if (positions - first == positions[0] - first[0]).all():
            offsets = positions[0] - first[0]
            more = f" + {self._index(offsets, 'j')}" if offsets.any() else ""
            return f"w[{self._index(first[:, 0], 'i')}{more}]"
        return f"w[{self._named('int', map(str, positions.flat))}[{positions.shape[1]} * i + j]]"

    def _index(self, positions: Any, counter: str) -> str:
        """The entry of `positions` (n,) that a counter selects."""
        steps = np.diff(positions)
        if (steps != steps[:1]).any():
            return f"{self._named('int', map(str, positions))}[{counter}]"
        stride = int(steps[0]) if len(steps) else 0
        words = [str(positions[0])] if positions[0] or not stride else []
        words += [f"{stride} * {counter}" if stride != 1 else counter] if stride else []
        return " + ".join(words)

    def _literal(self, x: float) -> str:
        return literal(float(x), self.dialect.suffix)

    def _reals(self, values: Any) -> str:
        """The name of a table of constants."""
        return self._named(self.dialect.real, map(self._literal, values.flat))

    def _named(self, kind: str, values: Any) -> str:
        entry = (kind, f"{self.name}_table{len(self._tables)}")
        return self._tables.setdefault(tuple(values), entry)[1]

    def _assign(self, count: int, target: str, value: str) -> None:
        if count:
            self.lines.append(_each(count, target, value))


class _Form:
    """A function as some passes call it, with constants in certain arguments."""

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name, self.parts, self.function = name, parts, parts[0].function
        self.free = {}  # of each constant argument: the entries that differ from place to place
        self._fixed = {}
        for k, a in enumerate(parts[0].arguments):
            if a.dtype.kind == "f":
                rows = np.concatenate([part.arguments[k] for part in parts])
                self.free[k], self._fixed[k] = ~(rows == rows[0]).all(axis=0), rows[0]

    @cached_property
    def folded(self) -> Function:
        """The function of what differs from place to place."""
        shapes = [x.shape for x in self.function.inputs.values()]

        def folded(*arrays: Any) -> Any:
            given = list(arrays)
            for k, free in self.free.items():
                values = self._fixed[k].astype(object)
                values[free] = arrays[k]
                given[k] = values.reshape(shapes[k])
            return self.function(*given)

        counts = [int(self.free[k].sum()) if k in self.free else shape for k, shape in enumerate(shapes)]
        return trace(folded, {f"x{k}": shape for k, shape in enumerate(counts)})

    def text(self, dialect: Dialect) -> list[str]:
        function = self.folded if self.free else self.function
        small = sum(function.operations.values()) <= SMALL
        # `restrict` speaks of one place: what a place leaves to the next one is read after a call
        inline = small and not any(any(part.written) for part in self.parts)
        attribute = "" if inline or dialect is C99 else "__attribute__((noinline)) "
        return over_lanes(function, self.name, dialect, self.free, attribute)[0]


def _form(part: Part) -> tuple[Any, ...]:
    """What parts that call the same C function have in common."""
    return (part.function, *(a.dtype.kind for a in part.arguments))


def _follow(positions: Any) -> bool:
    """Whether the cells of each place follow each other."""
    return positions.shape[1] > 0 and bool((np.diff(positions, axis=1) == 1).all())


def _each(count: int, target: str, value: str) -> str:
    return f"for (int j = 0; j < {count}; j++) {target} = {value};"
