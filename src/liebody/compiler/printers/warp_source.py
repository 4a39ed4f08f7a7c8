"""Prints traced functions as native functions of NVIDIA Warp.

A native function of Warp is the body of one function of C++, which knows nothing of liebody's headers: so the
text is printed as C99, in one piece, with functions of math.h.
"""

from __future__ import annotations

import re
from dataclasses import replace
from keyword import kwlist

from ...base.errors import GraphError
from ..graph.graph import Function
from ..programs.program import Program
from .c import bindings, c99_dialect, c99_names, number_type, straight_line, tables_text

AXES = 4  # of arrays in Warp, at most
WHOLE = 1 << 62  # operations in one piece: all of them
LOCAL = "|".join([r"i|[xyt]\d+|wp|warp", *kwlist])  # names that the text uses itself, and words of Python


def warp_function(function: Function | Program, name: str | None = None, single: bool = False) -> str:
    """Python source of `@wp.func_native(...) def name(i, argument, ..., result, ...)`.

    i       the row of the state
    others  arrays of Warp, (n, *shape) each, whose rows have no gaps
    """
    straight = function.unroll()
    name = name or straight.name
    if re.fullmatch(LOCAL, name):
        name += "_"
    name, arguments, results = c99_names(straight, name, LOCAL)
    number = number_type(single)
    dialect = replace(c99_dialect(number), condition="bool")
    pointers = [f"x{k}" for k in range(len(arguments))], [f"y{k}" for k in range(len(results))]
    symbols, targets, fixed = bindings(straight, *pointers, dialect.constant)
    (body,) = straight_line(straight, dialect, symbols, targets, WHOLE).pieces
    shapes = [x.shape for x in [*straight.inputs.values(), *straight.outputs.values()]]
    lines = []
    takes = ["i: int"]
    kinds = [f"const {number.name}"] * len(arguments) + [number.name] * len(results)
    rows = zip([*arguments, *results], [*pointers[0], *pointers[1]], kinds, shapes, strict=True)
    for key, pointer, kind, shape in rows:
        axes = 1 + len(shape)
        if axes > AXES:
            raise GraphError(
                f"{name}: {key} has {len(shape)} axes, and arrays of Warp have {AXES} with the rows"
            )
        lines.append(f"{kind} *{pointer} = wp::address({', '.join([key, 'i', *['0'] * len(shape)])});")
        takes.append(f"{key}: wp.array(dtype=wp.float{32 if single else 64}, ndim={axes})")
    text = "\n".join(f"    {line}" for line in [*tables_text([straight], number), *lines, *fixed, *body])
    return f'@wp.func_native("""\n{text}\n""")\ndef {name}({", ".join(takes)}): ...\n'
