"""C source of an implicit flow: the phases of a step and Newton's method in one loop over steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..compiler import Function, Program
from ..compiler.printers.c import (
    DOUBLE,
    NumberType,
    c_function,
    constant_table,
    enumeration,
    lanes_dialect,
    over_lanes,
)
from ..compiler.printers.program import callable_over_lanes
from ..compiler.programs.passes import rolled
from ..compiler.runtime import runtime
from .print_march import opening, remembering, settings
from .records import ControlFunctions, Guards, Marching, PhaseFunctions, Remembers


def implicit_source(
    phases: Sequence[PhaseFunctions],
    finish: Function | Program,
    nodes: Sequence[float],
    tolerance: float,
    iterations: int,
    lanes: int,
    control: ControlFunctions | None = None,
    memory: Remembers | None = None,
    guards: Guards | None = None,
    number: NumberType = DOUBLE,
) -> str:
    """The translation unit of `fixed_steps` (runtime/march.h) over `lanes`, or with `control` of `march`.

    phases      the systems that a step solves, in order
    finish      (z, t, h, y, u) -> y at the end of the step
    nodes       at which parts of a step the efforts u (nodes, dim) are taken
    tolerance   of each unknown, relative
    iterations  of Newton's method, at most
    control     error estimate and states within a step, for steps under error control
    memory      how remembered quantities are adapted to the next step; None where they need no adapting
    guards      of a march, whose events are located; without `control` its steps have one length
    number      the type of states and efforts; `march` keeps a time for each lane, and takes doubles only

    The function is long because it lists the parts of the unit, in the order in which they stand there.
    """
    kept, _, _, y, u = finish.inputs.values()
    every = [*phases, *(control.phases if control else ())]
    # The functions of all phases, numbered through. Linear phases need no residual without the Jacobian.
    text = opening(lanes, number)
    for p, phase in enumerate(every):
        for name in ("predict", "both", "keep") if phase.linear else ("predict", "residual", "both", "keep"):
            text += callable_over_lanes(rolled(getattr(phase, name)), f"{name}_{p}", number)
    text += [*callable_over_lanes(rolled(finish), "finish", number), *remembering(memory, number)]
    if control:
        text += callable_over_lanes(rolled(control.error), "error", number)
        text += callable_over_lanes(rolled(control.between), "between", number)
        kept = control.error.inputs["z"]
    # Work arrays are shared by all phases, so they have the size of the largest one: of its factors with four
    # vectors (residual, scale, base, direction), and of the entries of its Jacobian.
    sizes = {
        "POINT": y.size,
        "EFFORTS": u.shape[1],
        "KEPT": kept.size,
        "LARGEST": max(_size(phase) for phase in every),
        "SYSTEM": max(p.bounds.diagonals.size + 4 * _size(p) + len(p.places) for p in every),
        "ITERATIONS": iterations,
        "MEMORY": 0,
        "IDLE_STEP": 1,
        "IDLE": 64,
    }
    if control:
        e, _ = control.error.outputs.values()
        sizes |= {"ERRORS": e.size, "ERROR_ORDER": control.order}
    text += [enumeration(sizes), f"#define TOLERANCE {number.literal(float(tolerance))}"]
    controlled = control is not None
    marching = None
    if controlled or guards:
        marching = Marching(controlled, dense=controlled, guards=guards)
    if guards:
        text += over_lanes(guards.function, "guards", lanes_dialect(number))
    text += [
        *settings(marching, nodes, 0, lanes, memory, number, ALL_NODES=1, WATCHED=0),
        runtime("samples.h"),
    ]
    text += [runtime("newton.h"), _phases("phases", phases, 0, 0)]
    if control:
        text.append(_phases("estimate", control.phases, len(phases), finish.inputs["z"].size))
    return "\n".join([*text, runtime("implicit.h"), runtime("march.h")])


def _size(phase: PhaseFunctions) -> int:
    """Number of unknowns."""
    (r,) = phase.residual.outputs.values()
    return int(r.size)


def _phases(name: str, phases: Sequence[PhaseFunctions], number: int, kept: int) -> str:
    """The function `name` in C, which solves these phases.

    number  number of the first phase
    kept    length of z in front of them
    """
    tables: list[str] = []
    lines = []
    for p, phase in enumerate(phases, start=number):
        stride, origin, size = phase.bounds.diagonals
        parts = {"place": [i * stride + j for i, j in phase.places], **phase.bounds._asdict()}
        tables += [constant_table("int", f"{key}_{p}", values) for key, values in parts.items()]
        sizes = f"{_size(phase)}, {len(phase.places)}, {stride}, {origin}, {size}"
        names = ", ".join(f"{key}_{p}" for key in parts)
        tables.append(f"static const Shape shape_{p} = {{{sizes}, {names}}};")
        (k,) = phase.keep.outputs.values()
        residual = "0" if phase.linear else f"residual_{p}"
        lines += [
            f"predict_{p}(z, t, h, y, u, x);",
            f"newton(&shape_{p}, {int(phase.linear)}, {residual}, both_{p}, x, z, t, h, y, u, work, "
            "pivot, lost);",
            f"keep_{p}(x, z, t, h, y, u, z + {kept});",
        ]
        kept += k.size
    head = (
        f"static void {name}(const T *t, const T *h, const T *y, const T *u, T *x, T *z, T *work, I *pivot, "
        "I *lost)"
    )
    return "\n".join([*tables, c_function(head, lines)])
