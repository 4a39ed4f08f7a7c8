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
    Plan,
    c_function,
    constant_table,
    enumeration,
    lanes_dialect,
    over_lanes,
    prelude,
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


def _solver(minimizer: Minimizer) -> str:
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
    text += [f"#define {name} {DOUBLE.literal(x)}" for name, x in minimizer.settings.items()]
    for name, ranges in (("a", minimizer.ranges_a), ("c", minimizer.ranges_c)):
        for end, values in zip(("first", "stop"), zip(*ranges or [(0, 0)], strict=True), strict=True):
            text.append(constant_table("int", f"{end}_{name}", map(str, values)))
    # Rows with long ranges are multiplied in blocks.
    held = minimizer.equalities - minimizer.folded
    groups = {"held": minimizer.ranges_a[:held], "folded": minimizer.ranges_a[held:], "c": minimizer.ranges_c}
    for name, ranges in groups.items():
        dense = [i for i, (first, stop) in enumerate(ranges) if stop - first > LONG]
        text.append(f"#define DENSE_{name.upper()} {len(dense)}")
        text.append(constant_table("int", f"dense_{name}", map(str, dense or [0])))
    return "\n".join([*text, runtime("quadratic_program.h")])


def _memory(minimizer: Minimizer) -> int:
    """At least QP_MEMORY of the header, for vectors of up to WIDEST entries."""
    n = -(-minimizer.unknowns // WIDEST) * WIDEST
    m, k = max(minimizer.equalities, 1), max(minimizer.inequalities, 1)
    return (3 * n + 10 + m + k) * n + 9 * m + 36 * -(-k // WIDEST) * WIDEST


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
