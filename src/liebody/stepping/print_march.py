"""C source of a march through time: macros, tables and functions that runtime/march.h includes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..compiler import Function, Program
from ..compiler.printers.c import DOUBLE, STACK, NumberType, constant_table, literal, prelude
from ..compiler.printers.cuda import BLOCK, cuda_prelude, device_functions
from ..compiler.printers.program import callable_over_lanes
from ..compiler.programs.passes import rolled
from ..compiler.runtime import runtime
from .records import Marching, Remembers


def opening(lanes: int, number: NumberType = DOUBLE, device: bool = False) -> list[str]:
    """The head of a translation unit; `device`: in CUDA C++, over one lane."""
    head = cuda_prelude(number is not DOUBLE) if device else prelude(lanes, number)
    return [head, runtime("rows.h"), runtime("subnormal.h")]


def functions_printer(
    number: NumberType = DOUBLE, device: bool = False
) -> Callable[[Function | Program, str], list[str]]:
    """(function, name) -> its text over lanes, for the CPU or for a device."""
    if device:
        return lambda function, name: device_functions(function, name, number)
    return lambda function, name: callable_over_lanes(function, name, number)


def with_kernel(loop: str) -> str:
    """The CUDA text of a loop of runtime/march.h, with the kernel of runtime/device_march.h."""
    return "\n".join([loop, f"#define BLOCK {BLOCK}", runtime("device_march.h")])


def remembering(remembers: Remembers | None, number: NumberType = DOUBLE) -> list[str]:
    """The functions `fit` and `restart`."""
    functions = remembers._asdict() if remembers else {}
    return [
        text for name, f in functions.items() if f for text in callable_over_lanes(rolled(f), name, number)
    ]


def settings(
    marching: Marching | None,
    nodes: Sequence[float],
    entries: int,
    lanes: int,
    remembers: Remembers | None = None,
    number: NumberType = DOUBLE,
    **more: int,
) -> list[str]:
    """Macros and tables of the march.

    nodes    times in units of a step at which efforts are taken
    entries  number of vectors in the arrays of a step: more than the stack holds are static, one per thread
    number   of states and efforts; times are double whatever it is
    more     further macros, of the step
    """
    way = marching or Marching()
    directions, terminal = (way.guards.directions, way.guards.terminal) if way.guards else ((), ())
    switches = {
        "NODES": len(nodes),
        "MARCH": marching is not None,
        "CONTROLLED": way.controlled,
        "DENSE": way.dense,
        "GUARDS": len(directions),
        "LOOKS": way.looks,
        "REMEMBERS": remembers is not None,
        "JUMPS": remembers is not None and remembers.restart is not None,
        "CALLS": 0,
        **more,
    }
    return [
        *(f"#define {name} {int(value)}" for name, value in switches.items()),
        f"#define LOCAL {'THREAD_STATIC' if number.size * lanes * entries > STACK else ''}",
        constant_table("double", "nodes", (literal(float(c)) for c in nodes)),
        *([constant_table("int", "direction", map(int, directions))] if marching else []),
        *([constant_table("int", "terminal", map(int, terminal))] if marching else []),
    ]
