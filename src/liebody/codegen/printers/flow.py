"""C source of a flow: a vector field and a Runge-Kutta-Munthe-Kaas method in one loop over steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Function
from .c import LOAD, ROWS_OF_ONE, _c_function, literal, over_lanes, prelude, runtime, save_text, transposes


def flow_source(
    field: Function,
    advance: Function,
    pull: Function,
    A: Sequence[Sequence[float]],
    b: Sequence[float],
    c: Sequence[float],
    lanes: int,
    error: Sequence[float] | None = None,
    error_order: int = 1,
    rigid: int = 0,
) -> str:
    """The translation unit of `fixed_steps` (runtime/flow.h) over `lanes`, and `controlled_steps` over one.

    field    (t, y, u) -> f;  advance  (y, psi) -> z;  pull  (psi, f) -> k
    A, b, c  an explicit Butcher tableau
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
        "STAGES": len(b),
        "ERROR_ORDER": error_order,
        "RIGID": rigid,
    }
    text = [prelude(lanes), *([ROWS_OF_ONE] if lanes == 1 else [transposes(lanes), LOAD, save_text(lanes)])]
    for function, name in ((field, "field"), (advance, "advance"), (pull, "pull")):
        text += over_lanes(function, name)[0]
    text.append("enum { " + ", ".join(f"{key} = {size}" for key, size in sizes.items()) + " };")
    terms = [f"{literal(float(x))} * k[{j} * ALGEBRA + m]" for j, x in enumerate(error or ()) if x]
    text.append(
        _c_function("INLINE T error(const T *k, int m)", [f"return {' + '.join(terms) or 'k[m] * NAN'};"])
    )
    text.append(runtime("flow.h").replace("/* STAGES */", _stages(A, b, c)))
    return "\n".join(text)


def _stages(A: Sequence[Sequence[float]], b: Sequence[float], c: Sequence[float]) -> str:
    """k_i = pull(psi_i, field(t + c_i h, y exp psi_i)), psi_i = h sum_j A_ij k_j, and psi of the end."""

    def combine(row: Sequence[float]) -> str:
        terms = [f"{literal(float(x))} * k[{j} * ALGEBRA + m]" for j, x in enumerate(row) if x]
        return f"for (int m = 0; m < ALGEBRA; m++) psi[m] = h * ({' + '.join(terms) or 'splat(0)'});"

    lines = [
        "T z[POINT], f[ALGEBRA], u[EFFORTS + 1], now = splat(t);",
        "sample(e, t, member, rows, u);",
        "field(&now, y, u, k);",
    ]
    for i in range(1, len(b)):
        lines += [
            combine(list(A[i])[:i]),
            "advance(y, psi, z);",
            f"now = splat(t + {literal(float(c[i]))} * h);",
            f"if (e->samples > 1) sample(e, t + {literal(float(c[i]))} * h, member, rows, u);",
            "field(&now, z, u, f);",
            f"pull(psi, f, k + {i} * ALGEBRA);",
        ]
    lines.append(combine(b))
    head = (
        "/* The stages k_1 ... k_STAGES of a step from (t, y), and psi of its end. */\n"
        "static void stages(double t, double h, const T *y, const Efforts *e, long member, long rows, "
        "T *k, T *psi)"
    )
    return _c_function(head, lines)
