"""Write table.pyi for editors and type checkers, and docs/algorithms.md for people, from the table.

    python -m liebody.robot.reference

A test holds both in step with the table.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from .algorithm import Algorithm
from .table import Algorithms

STUB = Path(__file__).with_name("table.pyi")
PAGE = Path(__file__).parents[3] / "docs" / "algorithms.md"
WRITTEN = "Written by `python -m liebody.robot.reference` from the table of algorithms; do not edit."
HEAD = f"""\
# What a robot computes

{WRITTEN}

The methods of a `Robot`, of which `help(lb.Robot.jacobian)` says more. All take single states or batches,
with leading axes that broadcast, and the keywords `out` and `threads`.

| method | result | source |
|---|---|---|
"""
TYPES = {"Array": "ArrayLike", "Array | None": "ArrayLike | None", "Choice": "Any"}
TABLE = [entry for entry in vars(Algorithms).values() if isinstance(entry, Algorithm)]


def stub() -> str:
    """The text of table.pyi."""
    # imports are collected from the types of results, since a stub has none of the module's names
    imports = {
        "from typing import Any",
        "from numpy import ndarray as Array",
        "from numpy.typing import ArrayLike",
    }
    methods = []
    for algorithm in TABLE:
        head = _head(algorithm)
        for name in re.findall(r"[A-Z]\w+", head):
            kind = algorithm.function.__globals__.get(name)
            if getattr(kind, "__name__", "") == name:
                imports.add(f"from {kind.__module__} import {name}")
        doc = textwrap.indent(f'"""{algorithm.doc}"""', " " * 8)
        methods += [f"    {head}", doc, ""]
    return "\n".join([f'"""{WRITTEN}"""', "", *sorted(imports), "", "class Algorithms:", *methods])


def _head(algorithm: Algorithm) -> str:
    """The line that defines the method, with the types that callers see."""
    taken = []
    for name, x in algorithm.parameters.items():
        default = "" if x.default is x.empty else f" = {x.default!r}"
        taken.append(f"{name}: {TYPES.get(x.annotation, x.annotation)}{default}")
    returned = algorithm.function.__annotations__["return"]
    keywords = "*, parameters: Any = None, out: Any = None, threads: int = 1"
    return f"def {algorithm.name}(self, {', '.join(taken)}, {keywords}) -> {returned}:"


def page() -> str:
    """The text of docs/algorithms.md."""
    rows = []
    for algorithm in TABLE:
        taken = ", ".join(str(x.replace(annotation=x.empty)) for x in algorithm.parameters.values())
        summary = algorithm.doc.split("\n", 1)[0]
        file = algorithm.function.__module__.removeprefix("liebody.").replace(".", "/") + ".py"
        rows.append(f"| `{algorithm.name}({taken})` | {summary} | [{file}](../src/liebody/{file}) |\n")
    return f"{HEAD}{''.join(rows)}"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
