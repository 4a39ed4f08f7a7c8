"""The C source of a model: its traced functions as C99, its dimensions, and the shared part, fmi.h."""

from __future__ import annotations

import re
from importlib.resources import files

from ...compiler import Function, Program
from ...compiler.printers import callable_c99, constant_table, enumeration, literal
from ...stepping import error_in_c, stages_in_c
from .model import Model

INCLUDES = ("float.h", "math.h", "stdbool.h", "stddef.h", "stdint.h", "stdlib.h", "string.h")
RTOL, ATOL = 1e-8, 1e-10  # of error control, where the importer gives no tolerance


def source_of(model: Model, token: str) -> str:
    """The translation unit of a model, for any compiler of C99."""
    method = model.method
    states = len(model.of_kind("state"))
    sizes = {
        "POINT": model.memory + states,
        "MEMORY": model.memory,
        "STATES": states,
        "ALGEBRA": len(model.size_of),
        "COORDINATES": model.coordinates,
        "VELOCITIES": model.velocities,
        "STEP": model.step_place,
    }
    macros = {
        "HAS_STATES": int(states > 0),
        "OUTPUTS": len(model.of_kind("output")),
        "GUARDS": len(model.of_kind("guard")),
        "REMEMBERED": model.remembered,
        "HYBRID": int(model.is_hybrid),
        "SETTLES": int("settle" in model.functions),
        "STARTS": int("start" in model.functions),
        "CONTROLLED": int(model.is_controlled),
        "STAGES": len(method.c) if method else 1,
        "ORDER": method.error_order if method else 1,
    }
    text = [
        f"/* {model.name.encode('ascii', 'replace').decode().replace('*/', '')}, by FMI 3.0. */",
        *(f"#include <{name}>" for name in INCLUDES),
        "",
        enumeration(sizes),
        *(f"#define {name} {value}" for name, value in macros.items()),
        f'#define TOKEN "{token}"',
        f"#define RTOL {literal(RTOL)}",
        f"#define ATOL {literal(ATOL)}",
        _table("double", "start_y", map(literal, [*model.starts("memory"), *model.starts("state")])),
        _table("double", "start_u", map(literal, model.starts("input", "parameter"))),
        *([_table("int", "size_of", model.size_of)] if model.is_controlled else []),
        _table("int", "direction", model.directions),
        _table("int", "terminal", map(int, model.terminal)),
        *(_static(name, function) for name, function in model.functions.items()),
    ]
    if method is not None:
        text += [_text("stages.h"), error_in_c(method), stages_in_c(method, "u")]
    return "\n".join([*text, _text("fmi.h")])


def _text(header: str) -> str:
    """A header of this folder."""
    return files(__package__).joinpath(header).read_text(encoding="utf-8")


def _table(kind: str, name: str, values: object) -> str:
    return constant_table(kind, name, values)  # type: ignore[arg-type]


def _static(name: str, function: Function | Program) -> str:
    """A function as static C."""
    text = callable_c99(function, f"model_{name}")
    return re.sub(rf"^void (model_{name}\()", r"static void \1", text, flags=re.MULTILINE)
