"""C source of a flow: a vector field and an explicit Lie-group method in one loop over steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..graph import Function
from ..program import Program
from .c import LOAD, ROWS_OF_ONE, STACK, _c_function, literal, prelude, runtime, save_text, transposes
from .program import callable_over_lanes

# where to start, and the exponents: pairs (stage, factor)
Path = tuple[int, Sequence[Sequence[tuple[int, float]]]]
SAMPLED = ("T u[EFFORTS + 1], now = splat(t);", "sample(e, piece, t, member, rows, u);")
OF_A_METHOD = ("fixed_steps", "controlled_steps", "stages", "error")  # functions that each method has


class Method(NamedTuple):
    """The coefficients of one method.

    paths, c  as in `Flow`
    pulled    whether its velocities are pulled back
    error     b minus the embedded weights, whose defect is of order `error_order` in the step; without them a
              step under error control is never accepted
    """

    paths: Sequence[Path]
    c: Sequence[float]
    pulled: bool
    error: Sequence[float] | None = None
    error_order: int = 1


def flow_source(
    field: Function | Program,
    advance: Function | Program,
    pull: Function | Program | None,
    after: Function | Program | None,
    method: Method,
    lanes: int,
    rigid: int = 0,
) -> str:
    """The translation unit of `fixed_steps` (runtime/flow.h) over `lanes`, and `controlled_steps` over one.

    field    (t, y, u) -> f;  advance  (y, psi) -> z;  pull  (psi, f) -> k, or None;  after  (t, y, u) -> z,
             or None
    rigid    how many entries of the algebra have size 1 in the error control
    """
    return "\n".join([*_parts(field, advance, pull, after, lanes, rigid), *_loops(method, field, lanes)])


def flows_source(
    field: Function | Program,
    advance: Function | Program,
    pull: Function | Program | None,
    after: Function | Program | None,
    methods: Sequence[Method],
    lanes: int,
    rigid: int = 0,
) -> str:
    """As `flow_source` for several methods, whose loops are called `fixed_steps_0`, `fixed_steps_1`, ..."""
    text = _parts(field, advance, pull, after, lanes, rigid)
    for k, method in enumerate(methods):
        text += [f"#define {name} {name}_{k}" for name in OF_A_METHOD]
        text += _loops(method, field, lanes)
        text += [f"#undef {name}" for name in (*OF_A_METHOD, "STAGES", "ERROR_ORDER", "KEPT")]
    return "\n".join(text)


def _parts(
    field: Function | Program,
    advance: Function | Program,
    pull: Function | Program | None,
    after: Function | Program | None,
    lanes: int,
    rigid: int,
) -> list[str]:
    """What does not depend on the method."""
    _, y, u = field.inputs.values()
    (f,) = field.outputs.values()
    sizes = {"POINT": y.size, "ALGEBRA": f.size, "EFFORTS": u.size, "RIGID": rigid}
    text = [prelude(lanes), *([ROWS_OF_ONE] if lanes == 1 else [transposes(lanes), LOAD, save_text(lanes)])]
    for name, function in {"field": field, "advance": advance, "pull": pull, "after": after}.items():
        text += callable_over_lanes(function, name) if function else []
    text.append("enum { " + ", ".join(f"{key} = {size}" for key, size in sizes.items()) + " };")
    headers = [runtime(name) for name in ("subnormal.h", "samples.h", "record.h")]
    return [*text, *headers, _finish(after is not None)]


def _loops(method: Method, field: Function | Program, lanes: int) -> list[str]:
    """The loops of one method."""
    _, y, _ = field.inputs.values()
    (f,) = field.outputs.values()
    stages = len(method.c)
    terms = [f"{literal(float(x))} * k[{j} * ALGEBRA + m]" for j, x in enumerate(method.error or ()) if x]
    large = 8 * lanes * (5 * y.size + (stages + 2) * f.size) > STACK
    return [
        f"#define STAGES {stages}",
        f"#define ERROR_ORDER {method.error_order}",
        f"#define KEPT {'static __thread' if large else ''}",
        _c_function("INLINE T error(const T *k, int m)", [f"return {' + '.join(terms) or 'k[m] * NAN'};"]),
        runtime("flow.h").replace("/* STAGES */", _stages(method.paths, method.c, method.pulled)),
    ]


def _finish(projected: bool) -> str:
    """What happens after a step that is kept."""
    lines = [*SAMPLED, "after(&now, y, u, z);"]
    head = (
        "/* The state z at time t, where a step within this piece of the samples has led to y. */\n"
        "INLINE void finish(double t, const T *y, const Samples *e, long piece, long member, long rows, T *z)"
    )
    return _c_function(head, lines if projected else ["memcpy(z, y, POINT * sizeof *z);"])


def _stages(paths: Sequence[Path], c: Sequence[float], pulled: bool) -> str:
    """The function `stages` of runtime/flow.h: all lanes at one time, in one piece of samples."""
    head = (
        "/* The velocities k_1 ... k_STAGES of a step from (t, y), and its end. */\n"
        "static void stages(double t, double h, const T *restrict y, const Samples *e, long piece, "
        "long member, long rows, T *restrict k, T *restrict next)"
    )

    def moment(node: str) -> list[str]:
        again = f"if (e->linear) sample(e, piece, t + {node} * h, member, rows, u);"
        return [f"now = splat(t + {node} * h);", again]

    return _c_function(head, [*SAMPLED, *stage_lines(paths, c, pulled, moment)])


def stage_lines(
    paths: Sequence[Path],
    c: Sequence[float],
    pulled: bool,
    moment: Callable[[str], list[str]],
    size: str = "POINT",
    given: str = "u",
) -> list[str]:
    """Points y exp(psi) exp(psi') ... of the stages, their velocities k, and the end `next`, in C.

    `moment` gives the lines which set the time `now` and the efforts u of a node. Variables y, k, h, next.
    `size` is that of a point, `given` what the field takes behind it.
    """
    starts = {start for start, _ in paths if start}
    lines = [f"KEPT T z[{size}], here[{size}], there[{size}], f[ALGEBRA], psi[ALGEBRA];"]
    lines += [*(f"KEPT T z{i}[{size}];" for i in sorted(starts)), f"field(&now, y, {given}, k);"]
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
            slope = f"k + {i} * ALGEBRA"
            lines += moment(literal(float(c[i])))
            lines += (
                [f"field(&now, {end}, {given}, f);", f"pull(psi, f, {slope});"]
                if pulled
                else [f"field(&now, {end}, {given}, {slope});"]
            )
    return lines
