"""C source of a march by an explicit Lie-group method: its stages, and the functions that they call."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiler import Function, Program, trace
from ..compiler.graph.graph import live
from ..compiler.printers.c import DOUBLE, NumberType, c_function, constant_table, enumeration
from ..compiler.printers.program import callable_over_lanes
from ..compiler.runtime import runtime
from .print_march import functions_printer, opening, settings
from .records import (
    CallFunctions,
    Careful,
    Coefficients,
    FlowFunctions,
    Guards,
    HybridFunctions,
    Marching,
    Retries,
)


def explicit_source(
    parts: FlowFunctions,
    methods: Coefficients | Sequence[Coefficients],
    lanes: int,
    rigid: int = 0,
    marching: Marching | None = None,
    careful: Careful | None = None,
    number: NumberType = DOUBLE,
    device: bool = False,
) -> str:
    """The translation unit of `fixed_steps` (runtime/march.h) over `lanes`, or of `march`.

    rigid    number of entries of the algebra that have size 1 in the error control
    careful  functions for careful steps, or () without them, where constraints are watched (runtime/watch.h):
             then `settle`, or without it `field`, has a second result. None: nothing is watched
    number   the type of states and efforts; times are double whatever it is. `march` takes floats without
             error control
    device   CUDA C++ over one lane, in which these loops are functions of the device

    Several methods share one unit, in loops `fixed_steps_0`, `fixed_steps_1`, ...
    """
    (f, *_), (_, y, u) = parts.field.outputs.values(), parts.field.inputs.values()
    printed = functions_printer(number, device)
    text = [*opening(lanes, number, device), _sizes(0, y.size, f.size, u.size, rigid), runtime("samples.h")]
    # the functions by their names in runtime/explicit.h or, where constraints are watched, in watch.h
    named: dict[str, Function | Program | None] = parts._asdict()
    if careful is not None:
        named |= {"settle": None, "after": parts.settle}
        named |= {f"careful_{name}": f for name, f in zip(("field", "after"), careful)}
    for name, function in named.items():
        text += printed(function, name) if function else []
    if marching and marching.guards:
        text += printed(marching.guards.function, "guards")
    # Each method includes the loop once more. Where several do, its names get a number, and its macros are
    # undefined behind it.
    alone = isinstance(methods, Coefficients)
    for k, method in enumerate([methods] if isinstance(methods, Coefficients) else methods):
        projected = parts.settle is not None
        body = _loop(method, marching, 5 * y.size, f.size, lanes, "u", careful, projected, number=number)
        if not alone:
            macros = [name for line in body for name in re.findall(r"^#define (\w+)", line)]
            body = [*(f"#define {name} {name}_{k}" for name in OF_A_METHOD), *body]
            body += [f"#undef {name}" for name in (*OF_A_METHOD, *macros)]
        text += body
    return "\n".join(text)


def hybrid_source(
    parts: HybridFunctions,
    method: Coefficients,
    lanes: int,
    retries: Retries | None = None,
    number: NumberType = DOUBLE,
    device: bool = False,
) -> str:
    """The translation unit of `march` (runtime/march.h) over `lanes`, for a `HybridFlow`.

    device  CUDA C++ over one lane, in which `march` is a function of the device
    """
    (f,), (_, y, u) = parts.field.outputs.values(), parts.field.inputs.values()
    (g,) = parts.guards.outputs.values()
    # In C a state is a moving part x and a memory m, which stages need not copy. The traced functions take
    # both joined, so they are traced again as functions of the two.
    memory = memory_of(parts.advance)
    x: dict[str, int | Sequence[int]] = {"x": y.size - memory}
    apart: dict[str, int | Sequence[int]] = {"t": (), **x, "m": memory, "u": u.size}

    def joined(function: Function) -> Callable[..., Any]:
        return lambda t, x, m, *others: function(t, np.concatenate([m, x]), *others)

    def advanced(x: Any, psi: Any) -> Any:
        return parts.advance(np.concatenate([np.zeros(memory), x]), psi)[memory:]

    def guards_and_after(t: Any, x: Any, m: Any, u: Any, e: Any) -> tuple[Any, ...]:
        return joined(parts.guards)(t, x, m, u), *joined(parts.after)(t, x, m, u, e)

    # The field may be a program, which cannot be traced again: its inputs are taken apart.
    t, state, parameters = parts.field.inputs.values()
    inputs = {"t": t, "x": state[memory:], "m": state[:memory], "u": parameters}
    field = parts.field.over(inputs, parts.field.outputs)
    functions = {
        "field": field,
        "advance": trace(advanced, {**x, "psi": f.size}, "advance"),
        "pull": parts.pull,
        "look": trace(joined(parts.look), apart, "look"),
        "after": trace(guards_and_after, {**apart, "e": g.size}, "after"),
    }
    printed = functions_printer(number, device)
    text = [*opening(lanes, number, device), _sizes(memory, y.size, f.size, u.size, 0), runtime("samples.h")]
    for name, function in functions.items():
        text += printed(function, name) if function else []
    text += calls_in_c(parts.calls, memory, y.size, u.size, g.size)
    marching = Marching(guards=Guards(parts.guards, parts.directions, parts.terminal), looks=True)
    points = (5 if retries is None else 7) * y.size
    loop = _loop(
        method,
        marching,
        points,
        f.size,
        lanes,
        "m, u",
        retries=retries,
        number=number,
        calls=len(parts.calls),
    )
    return "\n".join([*text, *loop])


def calls_in_c(
    calls: Sequence[CallFunctions], memory: int, point: int, efforts: int, guards: int
) -> list[str]:
    """The function `call` of runtime/march.h, which makes the calls that are due.

    memory, point, efforts, guards  sizes of the memory, of states, of u and of guards
    """
    if not calls:
        return []
    shapes: dict[str, int | Sequence[int]] = {"t": (), "x": point - memory, "m": memory, "u": efforts}
    ins = [[math.prod(shape) for shape in x.kernel.inputs.values()] for x in calls]
    outs = [[math.prod(shape) for shape in x.kernel.outputs.values()] for x in calls]
    largest = {
        "LARGEST_IN": max(map(sum, ins)),
        "LARGEST_OUT": max(map(sum, outs)),
        "MOST_ARRAYS": max(map(len, [*ins, *outs])),
    }
    text = [enumeration(largest), runtime("calls.h")]
    lines = ["I called = bits(splat(0));", "const T *m = y, *x = y + MEMORY;"]
    for k, (sizes_in, sizes_out) in enumerate(zip(ins, outs, strict=True)):
        results = {f"r{j}": (size,) for j, size in enumerate(sizes_out)}
        parts = {
            "due": trace(_apart(calls[k].due), shapes, "due"),
            "ask": trace(_apart(calls[k].ask), shapes, "ask"),
            "answer": trace(_memory_after(calls[k].answer, memory), {**shapes, **results}, "answer"),
        }
        for name, function in parts.items():
            text += callable_over_lanes(function, f"{name}{k}")
        text.append(constant_table("int", f"in_sizes{k}", map(str, sizes_in)))
        text.append(constant_table("int", f"out_sizes{k}", map(str, sizes_out)))
        asked = ", ".join(f"in + {sum(sizes_in[:j])}" for j in range(len(sizes_in)))
        answers = ", ".join(f"out + {sum(sizes_out[:j])}" for j in range(len(sizes_out)))
        counts = f"in, in_sizes{k}, {len(sizes_in)}, out, out_sizes{k}, {len(sizes_out)}"
        lines += [
            "{",
            "    T d[1];",
            f"    due{k}(t, x, m, u, d);",
            "    const I due = active & MASK(d[0] > 0);",
            "    if (any(due)) {",
            "        T in[LARGEST_IN + 1], out[LARGEST_OUT + 1];",
            f"        T z[{max(memory, 1)}], g[{guards + 1}], h[1];",
            f"        ask{k}(t, x, m, u, {asked});",
            f"        call_lanes((Run)functions[{k}], due, {counts});",
            f"        answer{k}(t, x, m, u, {answers}, z, g, h);",
            "        for (int j = 0; j < MEMORY; j++) y[j] = where(due, z[j], y[j]);",
            f"        for (int j = 0; j < {guards}; j++) guards[j] = where(due, g[j], guards[j]);",
            "        ahead[0] = where(due, h[0], ahead[0]);",
            "        called |= due;",
            "    }",
            "}",
        ]
    head = (
        "static I call(const void *const *functions, const T *t, T *y, const T *u, I active, T *guards, "
        "T *ahead)"
    )
    return [*text, c_function(head, [*lines, "return called;"])]


def _apart(function: Function) -> Callable[..., Any]:
    """A function of (t, y, u, ...) as one of (t, x, m, u, ...), whose further arguments are flat."""
    _, _, _, *others = function.inputs.values()

    def apart(t: Any, x: Any, m: Any, u: Any, *flat: Any) -> Any:
        arrays = (values.reshape(like.shape) for values, like in zip(flat, others, strict=True))
        return function(t, np.concatenate([m, x]), u, *arrays)

    return apart


def _memory_after(answer: Function, memory: int) -> Callable[..., Any]:
    """The answer to a call as a function of (t, x, m, u, ...), with the memory alone of the state."""

    def after(*arguments: Any) -> tuple[Any, ...]:
        y, *others = _apart(answer)(*arguments)
        return y[:memory], *others

    return after


OF_A_METHOD = (
    "Work", "open_work", "close_work", "stages", "error", "step", "complete", "nodes", "sample_nodes",
    "fixed_steps",
)  # fmt: skip
"""Names in runtime/explicit.h and runtime/march.h that depend on the method."""


def _sizes(memory: int, point: int, algebra: int, efforts: int, rigid: int) -> str:
    """The dimensions of runtime/explicit.h."""
    sizes = {"MEMORY": memory, "MOVING": point - memory, "POINT": point, "ALGEBRA": algebra}
    return enumeration(sizes | {"EFFORTS": efforts, "RIGID": rigid, "IDLE_STEP": 0, "IDLE": 0})


def _loop(
    method: Coefficients,
    marching: Marching | None,
    points: int,
    algebra: int,
    lanes: int,
    others: str,
    careful: Careful | None = None,
    projected: bool = False,
    retries: Retries | None = None,
    number: NumberType = DOUBLE,
    calls: int = 0,
) -> list[str]:
    """The loop of one method.

    points  number of vectors for points in the arrays of a step
    others  the arguments of the field behind time and point, in C
    """
    stages = len(method.c)
    entries = points + (stages + 2) * algebra
    macros = {"STAGES": stages, "ERROR_ORDER": method.error_order}
    macros |= {"WATCHED": careful is not None, "PROJECTED": projected}
    macros["RETRIES"] = retries.most if retries else 0
    macros["CALLS"] = calls
    which = [""]
    watch = []
    if retries is not None:
        macros["DEFECT"] = retries.defect
        watch = [
            constant_table("int", "guesses", retries.guesses),
            f"static const {number.name} tolerance = {number.literal(retries.tolerance)};",
        ]
    if careful is not None:
        # Stages are printed twice, for ordinary and for careful steps. Where a careful function is the
        # ordinary one, its name is a macro.
        macros |= {"CAREFUL": bool(careful)}
        which = ["ordinary_", "careful_"] if careful else ["ordinary_"]
        ordinary = [name for name, f in zip(("field", "after"), careful) if f is None]
        watch = [*(f"#define careful_{name} {name}" for name in ordinary), runtime("watch.h")]
    return [
        *settings(marching, [*method.c, 1.0], entries, lanes, None, number, ALL_NODES=0, **macros),
        *watch,
        error_in_c(method, number),
        *(stages_in_c(method, others, name, number) for name in which),
        runtime("explicit.h"),
        runtime("march.h"),
    ]


def error_in_c(method: Coefficients, number: NumberType = DOUBLE) -> str:
    """The estimated error of entry m of the algebra in units of the step, in C; NaN without an estimate."""
    terms = [f"{number.literal(float(x))} * k[{j} * ALGEBRA + m]" for j, x in method.error]
    return c_function("INLINE T error(const T *k, int m)", [f"return {' + '.join(terms) or 'k[m] * NAN'};"])


def stages_in_c(method: Coefficients, arguments: str, which: str = "", number: NumberType = DOUBLE) -> str:
    """Points x exp(psi) exp(psi') ... of the stages, their velocities k, and the end `next`, in C.

    The text calls field, advance and pull, as the head of runtime/explicit.h says.

    which  "ordinary_" or "careful_", where constraints are watched, or ""
    """
    first, others = (f"{which}velocity_at_start", f"{which}velocity") if which else ("field", "field")
    behind = ", watch" if which else ""
    paths = method.paths
    c = method.c
    # Only points from which a later stage starts are kept; all others share the array z.
    starts = {start for start, _ in paths if start}
    lines = ["T now = t;", "LOCAL T z[MOVING], here[MOVING], there[MOVING], f[ALGEBRA], psi[ALGEBRA];"]
    lines += [
        *(f"LOCAL T z{i}[MOVING];" for i in sorted(starts)),
        f"(void)here, (void)there, (void){'watch' if which else 'm'};",
        f"{first}(&now, x, {arguments}{behind}, k);",
    ]
    for i, (start, exponents) in enumerate(paths[1:], start=1):
        point = f"z{start}" if start else "x"
        last = i == len(c)
        end = "next" if last else f"z{i}" if i in starts else "z"
        # One exponential after the other; between them the point alternates between two arrays, because
        # `advance` must not read where it writes.
        for row in exponents:
            to = end if row is exponents[-1] else "there" if point == "here" else "here"
            terms = " + ".join(f"{number.literal(float(a))} * k[{j} * ALGEBRA + i]" for j, a in row)
            lines.append(f"for (int i = 0; i < ALGEBRA; i++) psi[i] = h * ({terms or 'splat(0)'});")
            lines.append(f"advance({point}, psi, {to});")
            point = to
        if not last:
            slope = f"k + {i} * ALGEBRA"
            efforts = f"{arguments} + {i} * apart"
            lines.append(f"now = t + {number.literal(float(c[i]))} * h;")
            lines += (
                [f"{others}(&now, {end}, {efforts}{behind}, f);", f"pull(psi, f, {slope});"]
                if method.pulled
                else [f"{others}(&now, {end}, {efforts}{behind}, {slope});"]
            )
    takes = "Watch *watch" if which else "const T *m"
    head = (
        f"static void {which}stages(T t, T h, const T *restrict x, {takes}, const T *u, int64_t apart, "
        "T *restrict k, T *restrict next)"
    )
    return c_function(head, lines)


def memory_of(advance: Function) -> int:
    """Number of entries at the head of a state that `advance` returns unchanged and uses nowhere else."""
    y, _ = advance.inputs.values()
    (z,) = advance.outputs.values()
    kept = next((i for i in range(y.size) if z[i] is not y[i]), y.size)
    moved = set(live(z[kept:]))
    return kept if moved.isdisjoint(y[:kept]) else 0
