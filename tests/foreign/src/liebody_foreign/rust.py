"""A printer of Rust: each straight function becomes a function of slices, without allocation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from liebody.compiler import Expr, Function

RULES = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}"}
RULES |= {name: f"{{}}.{name}()" for name in ("sin", "cos", "tan", "exp", "sqrt", "sinh", "cosh", "tanh")}
RULES |= {"log": "{}.ln()", "absolute": "{}.abs()", "arcsin": "{}.asin()", "arccos": "{}.acos()"}
RULES |= {
    "arctan2": "{}.atan2({})",
    "hypot": "{}.hypot({})",
    "maximum": "{}.max({})",
    "minimum": "{}.min({})",
}


def write(folder: Path, name: str, functions: Mapping[str, Function]) -> list[Path]:
    """Write `<name>.rs` with a function for each one, and return its path in a list."""
    path = folder / f"{name}.rs"
    path.write_text("\n".join(printed(key, function) for key, function in functions.items()), "utf-8")
    return [path]


def printed(name: str, function: Function) -> str:
    """Source of `pub fn name(inputs: &[f64], outputs: &mut [f64])`; arrays stand row by row."""
    words: dict[Expr, str] = {}
    for key, array in function.inputs.items():
        words |= {x: f"{key}[{i}]" for i, x in enumerate(np.ravel(array))}

    def word(x: Any) -> str:
        return words[x] if type(x) is Expr else f"({float(x)!r}_f64)"  # "-1.0.max(x)" is -(1.0.max(x))

    lines = []
    for node in function.nodes:
        if node.op == "input":
            continue
        if node.op not in RULES:
            raise NotImplementedError(f"{name}: this printer has no rule for {node.op}")
        words[node] = f"t{node.index}"
        lines.append(f"    let {words[node]} = {RULES[node.op].format(*map(word, node.args))};")
    for key, values in function.outputs.items():
        lines += [f"    {key}[{i}] = {word(x)};" for i, x in enumerate(np.ravel(values))]
    arguments = [f"{key}: &[f64]" for key in function.inputs]
    arguments += [f"{key}: &mut [f64]" for key in function.outputs]
    return "\n".join([f"pub fn {name}({', '.join(arguments)}) {{", *lines, "}", ""])
