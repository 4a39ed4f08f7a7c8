"""Prints functions that solve a quadratic program: what is before it, its solver, and what is behind."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..graph.graph import Function
from ..programs import active_set
from ..programs.quadratic_program import ACTIVE_SET, Minimizer
from ..programs.quadratic_terms import Data, Minimum
from ..runtime import runtime
from .c import (
    DOUBLE,
    PIECE,
    Code,
    Guard,
    NumberType,
    Plan,
    c99,
    c99_names,
    c_function,
    constant_table,
    enumeration,
    lanes_dialect,
    number_type,
    over_lanes,
    plain_prelude,
    prelude,
    private,
)
from .numpy_source import compile_numpy

WIDEST = 8  # numbers in a vector of one lane, or rows in a block
LONG = 6  # a row of more columns counts as dense


def minimizer_unit(minimizer: Minimizer, lanes: int, guard: Guard | None = None, piece: int = PIECE) -> str:
    """The translation unit that defines `run` over batches of states; see `batch_units`."""
    dialect = lanes_dialect(DOUBLE)
    plan = Plan(minimizer.interface(), lanes, dialect)

    def straight(function: Function, name: str) -> list[str]:
        return over_lanes(function, name, dialect, piece=piece)

    # Over one lane each output has an array, over many all share y0, one behind the other.
    widths = [x.size for x in minimizer.outputs.values()]
    results = [f"y{k}" for k in range(len(widths))]
    inputs = [f"x{k}" for k in range(len(minimizer.inputs))]
    if lanes > 1:
        results = [f"y0 + {sum(widths[:k])}" for k in range(len(widths))]
    takes = [*(f"const T *restrict {x}" for x in inputs), *(f"T *restrict y{k}" for k in range(plan.results))]
    names = _Names("", inputs, results, [*takes, "T *restrict w"], "w")
    functions, size = _functions(minimizer, "piece0", names, straight, DOUBLE, alone=lanes == 1)
    loop = plan.loop(Code([[]], size), guard or Guard())
    return "\n".join([prelude(lanes), *functions, loop])


def minimizer_c99(minimizer: Minimizer, name: str, single: bool = False) -> tuple[str, int]:
    """C99 functions of doubles (or floats), of which the last computes the function; the size of its memory.

    The last argument is working memory: `work`, so many numbers, of any contents.
    """
    local = r"work|next|data_\w+|kept\d+|best_\w+|problem|solution"
    _, arguments, results = c99_names(minimizer.interface(), name, local)
    number = number_type(single)
    real = number.name
    takes = [*(f"const {real} *{x}" for x in arguments), *(f"{real} *{y}" for y in results), f"{real} *work"]
    names = _Names(f"{name}_", arguments, results, takes, "work")

    def straight(function: Function, name: str) -> list[str]:
        return [private(c99(function, name, single=single), name)]

    functions, size = _functions(minimizer, name, names, straight, number, alone=True, public=True)
    return "\n".join([plain_prelude(number), *functions]), size


class _Names(NamedTuple):
    """How the functions of a minimizer and their arguments are called."""

    prefix: str  # of the functions before and behind
    inputs: list[str]
    results: list[str]  # pointers, one for each output
    takes: list[str]  # declarations of all arguments
    work: str  # the argument that is working memory
    suffix: str = ""  # of the names that the solver defines


def _functions(
    minimizer: Minimizer,
    name: str,
    names: _Names,
    straight: Callable[[Function, str], list[str]],
    number: NumberType,
    alone: bool,
    public: bool = False,
) -> tuple[list[str], int]:
    """C functions, of which the last, `name`, computes the minimizer, and how much working memory it takes.

    straight  prints a traced function by its name
    number    of the solver
    alone     whether there is one lane, in which what takes over may write its results at once
    public    whether other files may call it
    """
    before, behind = f"{names.prefix}before", f"{names.prefix}behind"
    text = [
        _renamed(_solver(minimizer, number), names.suffix),
        *straight(minimizer.before, before),
        *straight(minimizer.after, behind),
    ]
    # Arrays of the program, of what is kept and of its solution lie in the working memory, one behind the
    # other; the solver's own memory is last.
    lines = [f"T *next = {names.work};"]

    def array(key: str, entries: int) -> str:
        lines.append(f"T *const {key} = next;")
        lines.append(f"next += {max(entries, 1)};")
        return key

    sizes = [x.size for x in minimizer.before.outputs.values()]
    start = ""
    if minimizer.method == ACTIVE_SET:
        given = dict(zip(minimizer.inputs, names.inputs, strict=True))
        start = f"{given.get(minimizer.start, 'NULL')}, "
    data = [array(f"data_{key}", n) for key, n in zip(Data._fields, sizes, strict=False)]
    kept = [array(f"kept{k}", n) for k, n in enumerate(sizes[len(data) :])]
    solution = [array(f"best_{key}", minimizer.sizes[key]) for key in Minimum._fields]
    size = sum(max(n, 1) for n in [*sizes, *minimizer.sizes.values()]) + _memory(minimizer)
    lines += [
        f"{before}({', '.join([*names.inputs, *data, *kept])});",
        f"const Problem{names.suffix} problem = {{{', '.join(data)}}};",
        f"const Solution{names.suffix} solution = {{{', '.join(solution)}}};",
        f"quadratic_program{names.suffix}(&problem, &solution, {start}next);",
        f"{behind}({', '.join([*names.inputs, *kept, *solution, *names.results])});",
    ]
    head = f"({', '.join(names.takes)})"
    visible = "" if public else "static "
    if minimizer.otherwise is None:
        return [*text, c_function(f"{visible}void {name}{head}", lines)], size
    # What takes over is printed in front, with names of its own, because both have all names of the header.
    other, unless = minimizer.otherwise
    takes_over = f"{name}_otherwise"
    others = names._replace(prefix=f"{takes_over}_", suffix="_otherwise")
    fallback, needed = _functions(other, takes_over, others, straight, number, alone)
    word = names.results[[*minimizer.outputs].index(unless)]
    lines.append(f"const I failed = MASK(({word})[0] > 0);")
    if alone:
        call = ", ".join([*names.inputs, *names.results, names.work])
        lines.append(f"if (any(failed)) {takes_over}({call});")
    else:
        count = sum(x.size for x in minimizer.outputs.values())
        needed += count
        call = ", ".join([*names.inputs, names.work, f"{names.work} + {count}"])
        lines += [
            "if (any(failed)) {",
            f"    {takes_over}({call});",
            f"    for (int i = 0; i < {count}; i++) y0[i] = where(failed, {names.work}[i], y0[i]);",
            "}",
        ]
    return [*fallback, *text, c_function(f"{visible}void {name}{head}", lines)], max(size, needed)


def _renamed(text: str, suffix: str) -> str:
    """C text in which the names that it defines for itself, of a solver, have a suffix."""
    kinds = [
        r"^enum \{([^}]*)\}",  # several names, each before =
        r"^#define (\w+)",
        r"^static const int (\w+)",
        r"^(?:static|INLINE) [\w ]+?\**(\w+)\(",
        r"^(?:typedef .* |\} )(\w+)(?: __attribute__.*)?;",
    ]
    if not suffix:
        return text
    names = [word for kind in kinds for word in re.findall(kind, text, re.MULTILINE)]
    words = {word for part in names for word in re.findall(r"(\w+)(?=\s*=|$)", part)}
    words -= {*re.findall(r"^#define (\w+)", runtime("plain.h"), re.MULTILINE)}  # one for all solvers
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda m: m[0] + suffix if m[0] in words else m[0], text)


def _solver(minimizer: Minimizer, number: NumberType = DOUBLE) -> str:
    """The header, with its sizes, settings and the ranges of rows."""
    sizes = {
        "N": minimizer.unknowns,
        "EQUALITIES": minimizer.equalities,
        "HELD": minimizer.equalities - minimizer.folded,
        "INEQUALITIES": minimizer.inequalities,
        "LOWER": minimizer.lower,
        "UPPER": minimizer.upper,
        "LONG": LONG,
        "ITERATIONS": minimizer.iterations,
    }
    text = [enumeration(sizes)]
    settings = minimizer.settings if number is DOUBLE else minimizer.settings_of_floats
    text += [f"#define {name} {number.literal(x)}" for name, x in settings.items()]

    def table(name: str, values: list[int]) -> None:
        text.append(constant_table("int", name, map(str, values or [0])))

    # Rows of many entries are multiplied in blocks, others entry by entry.
    rows = minimizer.entries_c
    for kind, chosen in (
        ("dense_c", [i for i, row in enumerate(rows) if len(row) > LONG]),
        ("sparse_c", [i for i, row in enumerate(rows) if len(row) <= LONG]),
        ("dense_f", [i for i, row in enumerate(minimizer.entries_f) if _width(row) > LONG]),
        ("sparse_f", [i for i, row in enumerate(minimizer.entries_f) if _width(row) <= LONG]),
    ):
        text.append(f"#define {kind.upper()} {len(chosen)}")
        table(kind, chosen)
    if minimizer.method == ACTIVE_SET:
        names = "PROXIMAL", "STALLED", "CORRECTIONS"
        text.append(enumeration({name: getattr(active_set, name) for name in names}))
        counts = {False: 0, True: 0}  # of other rows, and of dense ones
        places = []
        for row in rows:
            dense = len(row) > LONG
            places.append(counts[dense] if dense else -1 - counts[dense])
            counts[dense] += 1
        table("place_c", places)
    sparse = [row for row in rows if len(row) <= LONG]
    table("sparse_start", [sum(map(len, sparse[:k])) for k in range(len(sparse) + 1)])
    table("sparse_column", [j for row in sparse for j in row])
    narrow = [row for row in minimizer.entries_f if _width(row) <= LONG]
    table("first_f", [row[0] if row else 0 for row in narrow])
    table("stop_f", [row[-1] + 1 if row else 0 for row in narrow])
    method = "active_set.h" if minimizer.method == ACTIVE_SET else "quadratic_program.h"
    return "\n".join([*text, runtime("quadratic_rows.h"), runtime(method)])


def _width(row: list[int]) -> int:
    """From the first column that may differ from zero to the last."""
    return row[-1] + 1 - row[0] if row else 0


def _memory(minimizer: Minimizer) -> int:
    """At least QP_MEMORY or SET_MEMORY of the header, for vectors of up to WIDEST entries."""

    def rounded(n: int) -> int:
        return -(-max(n, 1) // WIDEST) * WIDEST

    n = rounded(minimizer.unknowns)
    m, k = max(minimizer.equalities, 1), minimizer.inequalities
    rows = rounded(minimizer.equalities - minimizer.folded + k)
    folded = rounded(minimizer.folded)
    if minimizer.method == ACTIVE_SET:
        most = rounded(minimizer.equalities - minimizer.folded + k)
        matrices = (2 * n + 2 * rows + folded + most + 13) * n
        return matrices + rows + 2 * folded + (most + 13) * most + k * LONG + 1
    matrices = (3 * n + 11 + 2 * rows + folded) * n
    bounds = 19 * rounded(k) + 5 * (rounded(minimizer.lower) + rounded(minimizer.upper))
    return matrices + rows + folded + 9 * m + bounds + k * LONG + 1


def minimizer_numpy(minimizer: Minimizer) -> Callable[..., Any]:
    """The function on NumPy arrays, as `compile_numpy` makes it of other functions."""
    before = compile_numpy(minimizer.before)
    behind = compile_numpy(minimizer.after)
    shapes = [x.shape for x in minimizer.inputs.values()]
    fields = len(Data._fields)
    if minimizer.otherwise is not None:
        place = [*minimizer.outputs].index(minimizer.otherwise.unless)
        takes_over = minimizer_numpy(minimizer.otherwise.minimizer)

    def one(*inputs: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            data = before(*inputs)
            found = minimizer.minimum(data[:fields], dict(zip(minimizer.inputs, inputs)).get(minimizer.start))
            values = behind(*inputs, *data[fields:], *found)
        values = values if isinstance(values, tuple) else (values,)
        if minimizer.otherwise is None or not values[place] > 0:
            return values
        others = takes_over(*inputs)
        return others if isinstance(others, tuple) else (others,)

    def call(*arrays: Any) -> Any:
        leads = [x.shape[: x.ndim - len(shape)] for x, shape in zip(arrays, shapes, strict=True)]
        batch = np.broadcast_shapes(*leads)
        count = math.prod(batch)
        wide = [
            np.broadcast_to(x, (*batch, *s)).reshape(count, *s) for x, s in zip(arrays, shapes, strict=True)
        ]
        rows = [one(*inputs) for inputs in zip(*wide, strict=True)]
        results = tuple(
            np.reshape([row[k] for row in rows], (*batch, *x.shape))
            for k, x in enumerate(minimizer.outputs.values())
        )
        return results if len(results) > 1 else results[0]

    return call
