"""C source of a hybrid flow: field, guards and updates in one loop in which every lane has its own time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import Function, live, trace
from .c import _c_function, over_lanes, prelude, runtime
from .flow import Path, stage_lines


def hybrid_source(
    field: Function,
    advance: Function,
    pull: Function | None,
    guards: Function,
    look: Function,
    after: Function,
    paths: Sequence[Path],
    c: Sequence[float],
    directions: Sequence[int],
    lanes: int,
) -> str:
    """The translation unit of `hybrid_steps` (runtime/hybrid.h) over `lanes`, for a `HybridFlow`."""
    _, y, u = field.inputs.values()
    (f,), (g,) = field.outputs.values(), guards.outputs.values()
    memory = memory_of(advance)
    sizes = {
        "MEMORY": memory,
        "MOVING": y.size - memory,
        "POINT": y.size,
        "ALGEBRA": f.size,
        "EFFORTS": u.size,
        "GUARDS": g.size,
        "STAGES": len(c),
    }
    x: dict[str, int | Sequence[int]] = {"x": y.size - memory}
    apart: dict[str, int | Sequence[int]] = {"t": (), **x, "m": memory, "u": u.size}

    def joined(function: Function) -> Callable[..., Any]:
        return lambda t, x, m, *others: function(t, np.concatenate([m, x]), *others)

    def advanced(x: Any, psi: Any) -> Any:
        return advance(np.concatenate([np.zeros(memory), x]), psi)[memory:]

    def found_and_after(t: Any, x: Any, m: Any, u: Any, e: Any) -> tuple[Any, ...]:
        return joined(guards)(t, x, m, u), *joined(after)(t, x, m, u, e)

    functions = {
        "field": trace(joined(field), apart, "field"),
        "advance": trace(advanced, {**x, "psi": f.size}, "advance"),
        "pull": pull,
        "look": trace(joined(look), apart, "look"),
        "after": trace(found_and_after, {**apart, "e": g.size}, "after"),
    }
    text = [prelude(lanes), "#define KEPT"]
    for name, function in functions.items():
        text += over_lanes(function, name)[0] if function else []
    text.append("enum { " + ", ".join(f"{key} = {size}" for key, size in sizes.items()) + " };")
    text.append(f"static const int direction[] = {{{', '.join(map(str, directions))}}};")

    sampled = "if (e->linear) parameters(e, of, &now, u);"

    def moment(node: str) -> list[str]:
        return [f"now = t + {node} * h;", sampled]

    stages = _c_function(
        "/* The velocities k_1 ... k_STAGES of a step from (t, y), and its end. */\n"
        "static void stages(T t, T h, const T *y, const T *m, const Samples *e, const Lane *of, T *u, T *k, "
        "T *next)",
        ["T now = t;", sampled, *stage_lines(paths, c, pull is not None, moment, "MOVING", "m, u")],
    )
    text.append(runtime("samples.h"))
    text.append(runtime("hybrid.h").replace("/* STAGES */", stages))
    return "\n".join(text)


def memory_of(advance: Function) -> int:
    """How many entries at the head of a state stay as they are within steps, and have no part in them."""
    y, _ = advance.inputs.values()
    (z,) = advance.outputs.values()
    kept = next((i for i in range(y.size) if z[i] is not y[i]), y.size)
    moved = set(live(z[kept:]))
    return kept if moved.isdisjoint(y[:kept]) else 0
