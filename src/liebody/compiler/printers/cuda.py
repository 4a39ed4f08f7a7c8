"""Prints traced functions as CUDA C++: a kernel that evaluates one state in each thread.

The text is `c.py`'s text for one lane, with runtime/device.h in front of runtime/lanes.h. Sines and cosines
are the library's own, so device and host agree to the bit where neither fuses products and sums. A thread
keeps its values in registers, of which it has 255 at most; long functions are cut into pieces that do with
them, and pass values on in memory of the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from ...base.errors import ArgumentError
from ..graph.graph import Function
from ..programs.program import Program
from ..runtime import runtime
from .c import NumberType, c99_names, c_function, device_dialect, literal, number_type, over_lanes, prelude
from .program import callable_over_lanes

PIECE = 1500
"""Operations in one function of the device. Longer ones spill registers (docs/decisions/0046)."""
LOOPS_ABOVE = 30_000
"""Operations from which on a program stays in loops over like bodies: caches of instructions hold no more."""
INLINED = 100
"""Operations up to which functions that a march calls at several places become parts of it."""
BLOCK = 160
"""Threads in a block, at most: each may have 255 registers. Of 96 to 256, ptxas spilled least with this."""

Layout = Literal["rows", "columns"]


def cuda_prelude(single: bool = False) -> str:
    """The text before the kernels of a translation unit, in doubles or floats."""
    return f"{runtime('device.h')}\n{prelude(1, number_type(single))}"


def cuda_names(function: Function | Program, name: str | None = None) -> tuple[str, list[str], list[str]]:
    """The names of a kernel, of its arguments and of its results in CUDA C++."""
    words = r"[nw]|[txy]\d+|first|apart|now|time|steps?\d*|state|real|whole|natural"
    local = rf"{words}|[TIUW]|\w+(Dim|Idx)|warpSize|assert"
    return c99_names(function, name, local)


def device_functions(function: Function | Program, name: str, number: NumberType) -> list[str]:
    """Device functions over T, of which the last computes `function`; as `callable_over_lanes` on the CPU."""
    dialect = device_dialect(number)
    if isinstance(function, Program) and sum(function.operations.values()) > LOOPS_ABOVE:
        return callable_over_lanes(function, name, dialect=dialect)
    straight = function.unroll()
    attribute = "__noinline__ " if straight.length > INLINED else "__forceinline__ "
    return over_lanes(straight, name, dialect, attribute=attribute, piece=PIECE)


def cuda_kernel(
    function: Function | Program,
    name: str | None = None,
    single: bool = False,
    layout: Layout = "rows",
    strided: bool = False,
) -> str:
    """CUDA C++ of `extern "C" __global__ void name(int64_t n, const real *argument, ..., real *result, ...)`.

    n        number of states; the threads of a grid of any size take them in turns
    layout   of arguments and results: "rows", (n, size), or "columns", (size, n), in which neighbouring
             threads read neighbouring numbers
    strided  for rows: the last arguments are `int64_t step0, ...`, how many numbers lie between the rows of
             each argument; 0 for one row that all states share

    The device functions that it calls stand before it, and `cuda_prelude` before all kernels of a unit.
    """
    if layout not in get_args(Layout):
        raise ArgumentError(f"layout is {layout!r}, expected 'rows', (n, size), or 'columns', (size, n)")
    name, arguments, results = cuda_names(function, name)
    number = number_type(single)
    lines, functions = (
        _by_loops(function, name, layout, strided, number)
        if isinstance(function, Program) and sum(function.operations.values()) > LOOPS_ABOVE
        else _by_straight_line(function.unroll(), name, layout, strided, number)
    )
    takes = ["int64_t n", *(f"const real *restrict {x}" for x in arguments)]
    takes += [f"real *restrict {y}" for y in results]
    takes += [f"int64_t step{k}" for k in range(len(arguments))] if strided else []
    return _kernel(name, takes, lines, functions)


def cuda_march(function: Function, dt: float, name: str | None = None, single: bool = False) -> str:
    """CUDA C++ of a kernel that takes steps: it evaluates a function again and again, from its own results.

        name(int64_t n, const real *state, ..., const real *held, ..., real *end, ..., int64_t step0, ...,
             double time, int64_t steps)

    function  a step (t (), state, ..., held, ...) -> end, ...: as many states come first as there are ends
    dt        length of a step: step k starts at the time t = time + k dt, a sum of doubles

    Arrays are rows; step0, ... are the numbers between the rows of each argument but the time.
    """
    straight = function.unroll()
    name, (_, *arguments), results = cuda_names(straight, name)
    number = number_type(single)
    _, functions = _by_straight_line(straight, name, "rows", False, number)
    sizes = [array.size for array in straight.outputs.values()]
    takes = ["int64_t n", *(f"const real *restrict {x}" for x in arguments)]
    takes += [f"real *restrict {y}" for y in results]
    takes += [f"int64_t step{k}" for k in range(len(arguments))]
    takes += ["double time", "int64_t steps"]
    lines = []
    for k, (x, size) in enumerate(zip(arguments, sizes, strict=False)):
        lines += [f"real x{k}[{size}], y{k}[{size}];", _copied(f"x{k}", f"({x} + state * step{k})", size)]
    held = [f"{x} + state * step{k}" for k, x in enumerate(arguments)][len(sizes) :]
    starts, ends = ([f"{letter}{k}" for k in range(len(sizes))] for letter in "xy")
    lines += [
        "for (int64_t step = 0; step < steps; step++) {",
        f"    const real now = (real)(time + (double)step * {literal(dt)});",
        f"    {name}_state({', '.join(['&now', *starts, *held, *ends])});",
        *(f"    {_copied(x, y, size)}" for x, y, size in zip(starts, ends, sizes, strict=True)),
        "}",
    ]
    for x, y, size in zip(starts, results, sizes, strict=True):
        lines.append(_copied(f"({y} + state * {size})", x, size))
    return _kernel(name, takes, lines, functions)


def _copied(to: str, start: str, size: int) -> str:
    return f"for (int j = 0; j < {size}; j++) {to}[j] = {start}[j];"


def _kernel(name: str, takes: Sequence[str], lines: Sequence[str], functions: Sequence[str]) -> str:
    """A kernel that runs these statements for every state, behind the device functions that they call."""
    lines = [
        "const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;",
        "const int64_t apart = (int64_t)gridDim.x * blockDim.x;",
        "for (int64_t state = first; state < n; state += apart) {",
        *(f"    {line}" for line in lines),
        "}",
    ]
    head = f'extern "C" __global__ void __launch_bounds__({BLOCK}) {name}({", ".join(takes)})'
    return "\n".join([*functions, c_function(head, lines)])


def _by_straight_line(
    function: Function, name: str, layout: Layout, strided: bool, number: NumberType
) -> tuple[list[str], list[str]]:
    """Statements that evaluate a state, and the functions they call: these read and write the arrays."""
    # one piece becomes a part of the kernel; several stay apart, with registers of their own
    attribute = "__noinline__ " if function.length > PIECE else "__forceinline__ "
    apart = "n" if layout == "columns" else ""
    functions = over_lanes(
        function, f"{name}_state", device_dialect(number), attribute=attribute, piece=PIECE, apart=apart
    )
    passed = [f"{key} + state" if apart else row for key, _, row in _arrays(function, name, strided)]
    return [f"{name}_state({', '.join([*passed, *([apart] if apart else [])])});"], functions


def _by_loops(
    program: Program, name: str, layout: Layout, strided: bool, number: NumberType
) -> tuple[list[str], list[str]]:
    """The same for a program that stays in loops: in columns, states are copied to arrays of the thread."""
    functions = callable_over_lanes(program, f"{name}_state", dialect=device_dialect(number))
    passed = []
    before = []
    behind = []
    for k, (key, size, row) in enumerate(_arrays(program, name, strided)):
        if layout == "rows":
            passed.append(row)
            continue
        passed.append(f"x{k}")
        before.append(f"real x{k}[{max(size, 1)}];")
        each = f"for (int j = 0; j < {size}; j++)"
        if k < len(program.inputs):
            before.append(f"{each} x{k}[j] = {key}[state + j * n];")
        else:
            behind.append(f"{each} {key}[state + j * n] = x{k}[j];")
    return [*before, f"{name}_state({', '.join(passed)});", *behind], functions


def _arrays(function: Function | Program, name: str, strided: bool) -> list[tuple[str, int, str]]:
    """Name of each argument and result, the number of its entries, and the pointer to the row of a state."""
    _, arguments, results = cuda_names(function, name)
    sizes = [array.size for array in [*function.inputs.values(), *function.outputs.values()]]
    found = []
    for k, (key, size) in enumerate(zip([*arguments, *results], sizes, strict=True)):
        step = f"step{k}" if strided and k < len(arguments) else str(size)
        found.append((key, size, f"{key} + state * {step}"))
    return found
