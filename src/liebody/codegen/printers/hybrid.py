"""C source of a hybrid flow: field, guards and updates in one loop in which every lane has its own time."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Function
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
    sizes = {
        "POINT": y.size,
        "ALGEBRA": f.size,
        "PARAMETERS": u.size,
        "GUARDS": g.size,
        "STAGES": len(c),
    }
    functions = {
        "field": field, "advance": advance, "pull": pull, "guards": guards, "look": look, "after": after
    }  # fmt: skip
    text = [prelude(lanes), "#define KEPT"]
    for name, function in functions.items():
        text += over_lanes(function, name)[0] if function else []
    text.append("enum { " + ", ".join(f"{key} = {size}" for key, size in sizes.items()) + " };")
    text.append(f"static const int direction[] = {{{', '.join(map(str, directions))}}};")
    stages = _c_function(
        "/* The velocities k_1 ... k_STAGES of a step from (t, y), and its end. */\n"
        "static void stages(T t, T h, const T *y, const T *u, T *k, T *next)",
        ["T now = t;", *stage_lines(paths, c, pull is not None, lambda node: [f"now = t + {node} * h;"])],
    )
    text.append(runtime("hybrid.h").replace("/* STAGES */", stages))
    return "\n".join(text)
