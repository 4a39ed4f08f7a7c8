"""C99 source of a controller over a receding horizon, whose working memory belongs to its caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compiler import Function, Program
from ..compiler.printers.c import NumberType, constant_table, number_type, plain_prelude, private
from ..compiler.printers.program import callable_c99
from ..compiler.programs import Packing
from ..compiler.runtime import runtime
from .print_descent import iterations
from .riccati import ShootingFunctions, ShootingSizes, passes_head, scratch_size

STATUSES = {  # words of `OptimalPlan.status`, and how runtime/plan.h calls them
    "converged": "CONVERGED",
    "limit": "LIMIT",
    "no minimum": "NO_MINIMUM_LEFT",
    "no descent": "NO_DESCENT_LEFT",
    "constraints": "CONSTRAINTS",
    "start": "START",
    "failed": "FAILED",
}


class PlanConstraints(NamedTuple):
    """Constraints at the knots, or at the end.

    values        (q, v, u at knots, p) -> distances to bounds, then the next multipliers; None without any
    hard          whether each entry has no slack
    uncontrolled  whether no input acts on it before the next knot
    """

    values: Function | Program | None
    hard: Any
    uncontrolled: Any


class PlanFunctions(NamedTuple):
    """The functions of a problem, and how their rows are read; see `ShootingPasses` and `Descent`.

    elapsed  (start of a plan, its next knot, state) -> knots between the plan and the next one, 0 or 1
    """

    passes: ShootingFunctions
    elapsed: Function | Program
    knot: Function | Program
    packing: Packing
    end: Function | Program
    constraints: Sequence[PlanConstraints]


class PlanShape(NamedTuple):
    """Sizes of a plan: of x, u, p; entries of q; parameters of the user's; knots; and bounds of u (2, m)."""

    sizes: ShootingSizes
    position: int
    own: int
    knots: int
    bounds: Any


def plan_memory(functions: PlanFunctions, shape: PlanShape) -> dict[str, int]:
    """How many numbers each array of the caller's memory holds, by its name."""
    x, n, m, p = shape.sizes
    N = shape.knots
    stage, terminal = (len(part.hard) for part in functions.constraints)
    return {
        "x": (N + 1) * x,
        "u": N * m,
        "k": N * m,
        "K": N * m * n,
        "p": (N + 1) * p,
        "slopes": N * n,
        "models": N * functions.packing.numbers,
        "end": 1 + n + n * n,
        "states": (N + 1) * x,
        "inputs": N * m,
        "stage": max(1, 2 * N * stage),
        "terminal": max(1, 2 * terminal),
        "scratch": scratch_size(shape.sizes, 1),
    }


def plan_c99(
    functions: PlanFunctions,
    shape: PlanShape,
    settings: Mapping[str, float],
    names: Sequence[str],
    single: bool,
) -> str:
    """The text that defines `forget` and `control` of runtime/plan.h.

    settings  PLAN_... of the header
    names     of the types of memory and of results
    """
    number = number_type(single)
    stage, terminal = (len(part.hard) for part in functions.constraints)
    text: list[str] = []

    def defined(function: Function | Program, name: str) -> None:
        text.append(private(callable_c99(function, name, single), name))

    for name, function in functions.passes._asdict().items():
        defined(function, name)
    defined(functions.elapsed, "elapsed")
    batches = {"knot": functions.knot, "last": functions.end}
    for name, part in zip(("stage", "terminal"), functions.constraints, strict=True):
        if part.values is not None:
            batches[name] = part.values
    for name, function in batches.items():
        defined(function, f"{name}_model")
    text.append(plain_prelude(number))
    text += [f"typedef {name} {word};" for name, word in zip(names, ("Memory", "Result"), strict=True)]
    text += ["#define SCOPE static", *passes_head(shape.sizes, number), runtime("shooting.h")]
    text += iterations(number)
    values = {
        "KNOTS": shape.knots,
        "POSITION": shape.position,
        "OWN": shape.own,
        "STAGE": stage,
        "TERMINAL": terminal,
        "WIDTH": functions.packing.numbers,
        "PIECES": len(functions.packing.at),
        "BOUNDED": int(np.isfinite(shape.bounds).any()),
    }
    values |= {word: k for k, word in enumerate(STATUSES.values())}
    text += [f"#define {name} {value}" for name, value in values.items()]
    # what Python writes as a whole number counts iterations
    for name, value in settings.items():
        written = value if isinstance(value, int) else number.literal(value)
        text.append(f"#define PLAN_{name} {written}")
    text.append("#define PLAN_LINEARISATIONS(iterations) (2 * (iterations) + 100)")
    text += [_loop(name, batches.get(name)) for name in ("knot", "last", "stage", "terminal")]
    text += _tables(functions, shape, number)
    return "\n".join([*text, runtime("plan.h")])


def linearisations(iterations: int) -> int:
    """The bound of linearisations in a search of so many steps; PLAN_LINEARISATIONS in C."""
    return 2 * iterations + 100


def _loop(name: str, function: Function | Program | None) -> str:
    """The batch loop `run_<name>` of runtime/descent.h."""
    lines = ["(void)kept;"]
    if function is None:
        lines.append("(void)rows, (void)in, (void)in_stride, (void)out, (void)out_stride;")
    else:
        rows = [f"&in[{k}][i * in_stride[{k}]]" for k in range(len(function.inputs))]
        lines.append("for (int64_t i = 0; i < rows; i++)")
        lines.append(f"    {name}_model({', '.join([*rows, '&out[0][i * out_stride[0]]'])});")
    takes = "int64_t rows, const real *const *in, const int64_t *in_stride,"
    rest = "real *const *out, const int64_t *out_stride, int kept"
    head = f"static int64_t run_{name}({takes}"
    body = "\n".join(f"    {line}" for line in [*lines, "return 0;"])
    return f"{head}\n    {rest}) {{\n{body}\n}}\n"


def _tables(functions: PlanFunctions, shape: PlanShape, number: NumberType) -> list[str]:
    """Constants that runtime/plan.h reads."""

    def real(name: str, values: Any) -> str:
        return constant_table("real", name, (_number(float(x), number) for x in np.ravel(values)))

    packing = functions.packing
    low, high = shape.bounds
    text = [real("low", low), real("high", high)]
    text += [real("constant", packing.constant), real("factors", packing.factor)]
    for name, values in (("at", packing.at), ("of", packing.of), ("length", packing.length)):
        text.append(constant_table("int64_t", name, map(int, values)))
    for name, part in zip(("stage", "terminal"), functions.constraints, strict=True):
        text.append(constant_table("int", f"hard_{name}", map(int, part.hard)))
        text.append(constant_table("int64_t", f"uncontrolled_{name}", map(int, part.uncontrolled)))
    return text


def _number(x: float, number: NumberType) -> str:
    return number.literal(x) if np.isfinite(x) else "-(real)INFINITY" if x < 0 else "(real)INFINITY"
