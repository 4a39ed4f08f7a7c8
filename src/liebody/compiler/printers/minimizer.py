"""Prints functions that solve a quadratic program: what is before it, its solver, and what is behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..programs.quadratic_program import Data, Minimizer, Minimum
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
    text = [prelude(lanes), _solver(minimizer)]
    text += over_lanes(minimizer.before, "before", dialect, piece=piece)
    text += over_lanes(minimizer.after, "behind", dialect, piece=piece)

    # Arrays of the program, of what is kept and of its solution lie in the working memory w, one behind the
    # other; the solver's own memory is last.
    lines = ["T *next = w;"]

    def array(name: str, size: int) -> str:
        lines.append(f"T *const {name} = next; next += {max(size, 1)};")
        return name

    inputs = [f"x{k}" for k in range(len(minimizer.inputs))]
    sizes = [x.size for x in minimizer.before.outputs.values()]
    data = [array(name, size) for name, size in zip(Data._fields, sizes, strict=False)]
    kept = [array(f"kept{k}", size) for k, size in enumerate(sizes[len(data) :])]
    solution = [array(f"best_{name}", minimizer.sizes[name]) for name in Minimum._fields]
    size = sum(max(n, 1) for n in [*sizes, *minimizer.sizes.values()])
    # Over one lane each output has an array, over many all share y0, one behind the other.
    widths = [x.size for x in minimizer.outputs.values()]
    results = [f"y{k}" for k in range(len(widths))]
    if lanes > 1:
        results = [f"y0 + {sum(widths[:k])}" for k in range(len(widths))]
    lines += [
        f"before({', '.join([*inputs, *data, *kept])});",
        f"const Problem problem = {{{', '.join(data)}}};",
        f"const Solution solution = {{{', '.join(solution)}}};",
        "quadratic_program(&problem, &solution, next);",
        f"behind({', '.join([*inputs, *kept, *solution, *results])});",
    ]
    takes = [*(f"const T *restrict {x}" for x in inputs), *(f"T *restrict y{k}" for k in range(plan.results))]
    head = f"static void piece0({', '.join([*takes, 'T *restrict w'])})"
    loop = plan.loop(Code([[]], size + _memory(minimizer)), guard or Guard())
    return "\n".join([*text, c_function(head, lines), loop])


def minimizer_c99(minimizer: Minimizer, name: str, single: bool = False) -> tuple[str, int]:
    """C99 functions of doubles (or floats), of which the last computes the function; the size of its memory.

    The last argument is working memory: `work`, so many numbers, of any contents.
    """
    _, arguments, results = c99_names(minimizer.interface(), name, r"work|next|data_\w+|kept\d+|best_\w+")
    before = private(c99(minimizer.before, f"{name}_before", single=single), f"{name}_before")
    behind = private(c99(minimizer.after, f"{name}_behind", single=single), f"{name}_behind")
    lines = ["T *next = work;"]
    size = 0

    def array(key: str, entries: int) -> str:
        nonlocal size
        lines.append(f"T *const {key} = next;")
        lines.append(f"next += {max(entries, 1)};")
        size += max(entries, 1)
        return key

    sizes = [x.size for x in minimizer.before.outputs.values()]
    data = [array(f"data_{key}", n) for key, n in zip(Data._fields, sizes, strict=False)]
    kept = [array(f"kept{k}", n) for k, n in enumerate(sizes[len(data) :])]
    solution = [array(f"best_{key}", minimizer.sizes[key]) for key in Minimum._fields]
    lines += [
        f"{name}_before({', '.join([*arguments, *data, *kept])});",
        f"const Problem problem = {{{', '.join(data)}}};",
        f"const Solution solution = {{{', '.join(solution)}}};",
        "quadratic_program(&problem, &solution, next);",
        f"{name}_behind({', '.join([*arguments, *kept, *solution, *results])});",
    ]
    number = number_type(single)
    real = number.name
    takes = [*(f"const {real} *{x}" for x in arguments), *(f"{real} *{y}" for y in results), f"{real} *work"]
    text = [before, behind, plain_prelude(number), _solver(minimizer, number)]
    text.append(c_function(f"void {name}({', '.join(takes)})", lines))
    return "\n".join(text), size + _memory(minimizer)


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
    sparse = [row for row in rows if len(row) <= LONG]
    table("sparse_start", [sum(map(len, sparse[:k])) for k in range(len(sparse) + 1)])
    table("sparse_column", [j for row in sparse for j in row])
    narrow = [row for row in minimizer.entries_f if _width(row) <= LONG]
    table("first_f", [row[0] if row else 0 for row in narrow])
    table("stop_f", [row[-1] + 1 if row else 0 for row in narrow])
    return "\n".join([*text, runtime("quadratic_program.h")])


def _width(row: list[int]) -> int:
    """From the first column that may differ from zero to the last."""
    return row[-1] + 1 - row[0] if row else 0


def _memory(minimizer: Minimizer) -> int:
    """At least QP_MEMORY of the header, for vectors of up to WIDEST entries."""

    def rounded(n: int) -> int:
        return -(-max(n, 1) // WIDEST) * WIDEST

    n = rounded(minimizer.unknowns)
    m, k = max(minimizer.equalities, 1), minimizer.inequalities
    rows = rounded(minimizer.equalities - minimizer.folded + k)
    folded = rounded(minimizer.folded)
    matrices = (3 * n + 11 + 2 * rows + folded) * n
    return matrices + rows + folded + 9 * m + 36 * rounded(k) + k * LONG + 1


def minimizer_numpy(minimizer: Minimizer) -> Callable[..., Any]:
    """The function on NumPy arrays, as `compile_numpy` makes it of other functions."""
    before = compile_numpy(minimizer.before)
    behind = compile_numpy(minimizer.after)
    shapes = [x.shape for x in minimizer.inputs.values()]
    count = len(Data._fields)

    def one(*inputs: Any) -> tuple[Any, ...]:
        data = before(*inputs)
        values = behind(*inputs, *data[count:], *minimizer.minimum(data[:count]))
        return values if isinstance(values, tuple) else (values,)

    def call(*arrays: Any) -> Any:
        leads = [x.shape[: x.ndim - len(shape)] for x, shape in zip(arrays, shapes, strict=True)]
        batch = np.broadcast_shapes(*leads)
        wide = [np.broadcast_to(x, (*batch, *s)).reshape(-1, *s) for x, s in zip(arrays, shapes, strict=True)]
        rows = [one(*inputs) for inputs in zip(*wide, strict=True)]
        results = tuple(
            np.reshape([row[k] for row in rows], (*batch, *x.shape))
            for k, x in enumerate(minimizer.outputs.values())
        )
        return results if len(results) > 1 else results[0]

    return call
