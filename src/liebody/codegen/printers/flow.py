"""C source of a flow: a vector field and an explicit Lie-group method in one loop over steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Function
from .c import LOAD, ROWS_OF_ONE, _c_function, literal, over_lanes, prelude, runtime, save_text, transposes

Path = tuple[
    int, Sequence[Sequence[tuple[int, float]]]
]  # where to start, and exponents: pairs (stage, factor)


def flow_source(
    field: Function,
    advance: Function,
    pull: Function | None,
    paths: Sequence[Path],
    c: Sequence[float],
    lanes: int,
    error: Sequence[float] | None = None,
    error_order: int = 1,
    rigid: int = 0,
) -> str:
    """The translation unit of `fixed_steps` (runtime/flow.h) over `lanes`, and `controlled_steps` over one.

    field    (t, y, u) -> f;  advance  (y, psi) -> z;  pull  (psi, f) -> k, or None
    paths, c  the coefficients of the method, as in `Flow`
    error    b minus the embedded weights, whose defect is of order `error_order` in the step; without them a
             step under error control is never accepted
    rigid    how many entries of the algebra have size 1 in the error control
    """
    _, y, u = field.inputs.values()
    (f,) = field.outputs.values()
    sizes = {
        "POINT": y.size,
        "ALGEBRA": f.size,
        "EFFORTS": u.size,
        "STAGES": len(c),
        "ERROR_ORDER": error_order,
        "RIGID": rigid,
    }
    text = [prelude(lanes), *([ROWS_OF_ONE] if lanes == 1 else [transposes(lanes), LOAD, save_text(lanes)])]
    for function, name in ((field, "field"), (advance, "advance"), (pull, "pull")):
        text += over_lanes(function, name)[0] if function else []
    text.append("enum { " + ", ".join(f"{key} = {size}" for key, size in sizes.items()) + " };")
    terms = [f"{literal(float(x))} * k[{j} * ALGEBRA + m]" for j, x in enumerate(error or ()) if x]
    text.append(
        _c_function("INLINE T error(const T *k, int m)", [f"return {' + '.join(terms) or 'k[m] * NAN'};"])
    )
    text.append(runtime("flow.h").replace("/* STAGES */", _stages(paths, c, pull is not None)))
    return "\n".join(text)


def _stages(paths: Sequence[Path], c: Sequence[float], pulled: bool) -> str:
    """Points y exp(psi) exp(psi') ... of the stages, their velocities k, and the point of the end."""
    starts = {start for start, _ in paths if start}
    lines = [
        "T z[POINT], here[POINT], there[POINT], f[ALGEBRA], psi[ALGEBRA], u[EFFORTS + 1], now = splat(t);",
        *(f"T z{i}[POINT];" for i in sorted(starts)),
        "sample(e, t, member, rows, u);",
        "field(&now, y, u, k);",
    ]
    for i, (start, exponents) in enumerate(paths[1:], start=1):
        point, last = f"z{start}" if start else "y", i == len(c)
        end = "next" if last else f"z{i}" if i in starts else "z"
        for row in exponents:
            to = end if row is exponents[-1] else "there" if point == "here" else "here"
            terms = " + ".join(f"{literal(float(a))} * k[{j} * ALGEBRA + m]" for j, a in row)
            lines.append(f"for (int m = 0; m < ALGEBRA; m++) psi[m] = h * ({terms or 'splat(0)'});")
            lines.append(f"advance({point}, psi, {to});")
            point = to
        if not last:
            lines += [
                f"now = splat(t + {literal(float(c[i]))} * h);",
                f"if (e->samples > 1) sample(e, t + {literal(float(c[i]))} * h, member, rows, u);",
            ]
            slope = f"k + {i} * ALGEBRA"
            lines += (
                [f"field(&now, {end}, u, f);", f"pull(psi, f, {slope});"]
                if pulled
                else [f"field(&now, {end}, u, {slope});"]
            )
    head = (
        "/* The velocities k_1 ... k_STAGES of a step from (t, y), and its end. */\n"
        "static void stages(double t, double h, const T *y, const Efforts *e, long member, long rows, "
        "T *k, T *next)"
    )
    return _c_function(head, lines)
