"""Writes table.pyi, by which editors and type checkers know the methods that the table makes.

    python -m liebody.robot.stub

A test holds it in step with the table.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from .algorithm import Algorithm
from .table import Algorithms

PATH = Path(__file__).with_name("table.pyi")


def stub() -> str:
    """The text of table.pyi."""
    algorithms = [entry for entry in vars(Algorithms).values() if isinstance(entry, Algorithm)]
    imports = {
        "from typing import Any",
        "from numpy import ndarray as Array",
        "from numpy.typing import ArrayLike",
    }
    methods = []
    for algorithm in algorithms:
        head = re.sub(r"(?<!out): Array\b", ": ArrayLike", algorithm.head).replace("Choice", "Any")
        for name in re.findall(r"[A-Z]\w+", head):
            kind = algorithm.function.__globals__.get(name)
            if getattr(kind, "__name__", "") == name:
                imports.add(f"from {kind.__module__} import {name}")
        doc = textwrap.indent(f'"""{algorithm.doc}"""', " " * 8, lambda line: bool(line.strip()))
        methods += [f"    {head}:", doc, ""]
    first = '"""Written by `python -m liebody.robot.stub`; do not edit."""'
    return "\n".join([first, "", *sorted(imports), "", "class Algorithms:", *methods])


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
