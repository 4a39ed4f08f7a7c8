"""Print the lowest versions that pyproject.toml admits, as constraints for pip.

    python tests/lowest.py test > lowest.txt
    pip install ".[test]" --constraint lowest.txt

Arguments are extras; without one only what is always installed counts. Where a package has several bounds the
highest is printed. Packages that these need themselves come in their newest version.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?\s*(.*)").fullmatch


def requirements(project: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """What the project and its extras require, with what the extras that they name require."""
    wanted, seen = [*project["dependencies"]], set()
    waiting = [*extras]
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for text in project["optional-dependencies"][extra]:
            name, inner, _ = parts(text)
            if name == project["name"]:
                waiting += inner
            else:
                wanted.append(text)
    return wanted


def parts(text: str) -> tuple[str, list[str], str]:
    """Name, extras and versions of a requirement."""
    found = REQUIREMENT(text)
    if not found:
        raise ValueError(f"{text!r} is no requirement of the kind 'name[extra]>=1.2'")
    return re.sub(r"[-_.]+", "-", found[1]).lower(), (found[2] or "").split(","), found[3]


def lowest(texts: Iterable[str]) -> dict[str, str]:
    """The lowest version of each package: the highest of its bounds; nothing where one is fixed anyway."""
    bounds: dict[str, str] = {}
    for text in texts:
        name, _, versions = parts(text)
        if versions.startswith("=="):
            continue
        if not re.fullmatch(r">=\d+(\.\d+)*", versions):
            raise ValueError(f"{text!r} has no lower bound of the kind '>=1.2'")
        bounds[name] = max(bounds.get(name, "0"), versions[2:], key=_numbers)
    return bounds


def _numbers(version: str) -> list[int]:
    return [int(x) for x in version.split(".")]


def main(extras: Sequence[str]) -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    for name, version in sorted(lowest(requirements(project, extras)).items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main(sys.argv[1:])
