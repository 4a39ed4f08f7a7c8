"""The map of the source: its rooms, its words, and every place that its recipes and exercises name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_layers import FLOORS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "liebody"
MAP, EXERCISES = ROOT / "docs/architecture.md", ROOT / "docs/exercises.md"
# "`LANES_RULES`, `C99_RULES` in `compiler/printers/c.py`"
PLACES = re.compile(r"((?:`[\w.]+`(?:,? and |, |,\n *))*`[\w.]+`)\s+in\s+`([\w./]*(?:/|\.py|\.h))`")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def places(text: str) -> Iterator[tuple[str, str]]:
    """(symbol, path) of all that a page names as "`symbol` in `path`"."""
    for symbols, path in PLACES.findall(CODE.sub("", text)):
        yield from ((symbol, path) for symbol in re.findall(r"`([\w.]+)`", symbols))


def files_at(path: str) -> list[Path]:
    """The files that a path of a page stands for: one file, or all of a folder of the source."""
    start = next((root / path for root in (SOURCE, ROOT) if (root / path).exists()), None)
    if start is None or start.is_file():
        return [start] if start else []
    return [file for file in start.rglob("*") if file.suffix in (".py", ".h")]


def members(node: ast.AST) -> dict[str, ast.AST]:
    """What the body of a module or a class defines, by name; a class also has the attributes of self."""
    defined: dict[str, ast.AST] = {}
    for child in getattr(node, "body", []):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            defined[child.name] = child
        targets = child.targets if isinstance(child, ast.Assign) else [getattr(child, "target", None)]
        names = [n for target in targets if target for n in ast.walk(target) if isinstance(n, ast.Name)]
        defined |= {name.id: child for name in names}
    return defined


def defines(file: Path, symbol: str) -> bool:
    """Whether a file defines a symbol: a name at its top, or `Class.member`; in C text, a word."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".h":
        return re.search(rf"\b{symbol}\b", text) is not None
    node: ast.AST | None = ast.parse(text)
    for word in symbol.split("."):
        node = members(node).get(word) if node is not None else None
    return node is not None


def missing(text: str) -> list[tuple[str, str]]:
    """The places of a page that do not exist."""
    return [
        (symbol, path)
        for symbol, path in places(text)
        if not any(defines(file, symbol) for file in files_at(path))
    ]


@pytest.mark.parametrize(("page", "least"), [(MAP, 40), (EXERCISES, 40)], ids=["map", "exercises"])
def test_every_symbol_that_a_recipe_or_a_solution_names_is_where_it_says(page, least):
    text = page.read_text(encoding="utf-8")
    assert len(list(places(text))) >= least
    assert missing(text) == []


@pytest.mark.parametrize(
    ("sentence", "absent"),
    [
        ("`FORMS` in `dynamics/coriolis.py`", []),
        ("`HybridSystem.simulate` in `hybrid/`", []),
        ("`next_step` in `compiler/runtime/march.h`", []),
        ("`vector`, `vectors`,\n  and `number` in `base/arguments.py`", []),
        ("`SHAPES_OF_C` in `dynamics/coriolis.py`", [("SHAPES_OF_C", "dynamics/coriolis.py")]),
        ("`HybridSystem.dance` in `hybrid/`", [("HybridSystem.dance", "hybrid/")]),
        ("`FORMS`, `shape` in `dynamics/coriolis.py`", [("shape", "dynamics/coriolis.py")]),
        ("`FORMS` in `coriolis/forms.py`", [("FORMS", "coriolis/forms.py")]),
        ("`last_step` in `compiler/runtime/march.h`", [("last_step", "compiler/runtime/march.h")]),
    ],
)
def test_symbols_that_are_not_there_are_seen(sentence, absent):
    assert missing(sentence) == absent


def test_the_table_of_rooms_is_the_one_that_the_floors_are_tested_by():
    table = MAP.read_text(encoding="utf-8").partition("| floor | rooms |")[2].partition("\n\n")[0]
    listed: dict[str, set[str]] = {}
    for number, rooms in re.findall(r"^\| (\d\.\d) \| ([^|]*) \|", table, re.MULTILINE):
        listed.setdefault(number, set()).update(re.findall(r"`(\w+)`", rooms))
    floors = {
        f"{floor}.{line}": rooms
        for floor, lines in FLOORS.items()
        for line, rooms in enumerate(lines, start=1)
    }
    assert listed == floors


def test_every_room_has_a_place_in_the_table_of_rooms():
    rooms = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").is_file()}
    assert rooms <= {room for lines in FLOORS.values() for line in lines for room in line}


def test_the_words_of_the_glossary_name_classes_that_exist():
    section = MAP.read_text(encoding="utf-8").partition("## Words\n")[2].partition("\n## ")[0]
    named = {name.rpartition(".")[2] for name in re.findall(r"`((?:\w+\.)*[A-Z]\w+)`", section)}
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py")]
    classes = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    assert len(named) >= 40 and named - classes == set()


def test_there_are_twelve_exercises_each_with_a_solution():
    text = EXERCISES.read_text(encoding="utf-8")
    parts = re.split(r"^\*\*(?=\d+\. )", text, flags=re.MULTILINE)[1:]
    assert [int(part.partition(".")[0]) for part in parts] == [*range(1, 13)]
    assert all(
        part.count(":::{dropdown} Solution") == 1 and re.search(r"`[\w/]+\.py`|`\w+/`", part)
        for part in parts
    )
