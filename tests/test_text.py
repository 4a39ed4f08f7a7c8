"""Text that a reader meets is well-formed: docstrings, comments, C in headers and in strings, Markdown.

Tools that wrap lines have broken it before: quotes of string literals inside docstrings, rules in two lines,
declarations inside comments, prose in shreds. Each rule below is tried on such a mistake.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
WIDTH = 110
C_WIDTH = 100
FOLDERS = ("src", "tests", "benchmarks", "examples")
PYTHON = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
PYTHON.remove(Path(__file__))  # whose samples are broken
HEADERS = sorted((ROOT / "src").rglob("*.h"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

CLOSED = re.compile(r"[.:;!?)\]}`\"|]$")  # how a line ends after which the next one may begin anew
PAUSE = re.compile(r"[.:;,!?)]$")
TYPE = "static|const|typedef|struct|enum|void|int|long|double|real|T"
DECLARATION = re.compile(rf"^\s*(?:INLINE|UNROLL|#\s*\w+|(?:{TYPE})\s.*[;,{{)]\s*$)|.*\)\s*\{{\s*$")


class Problem(NamedTuple):
    line: int
    what: str


# -- Python -------------------------------------------------------------------------------------------------


def of_python(source: str) -> Iterator[Problem]:
    """What is broken in the docstrings, comments and messages of a module."""
    lines = source.splitlines()
    yield from _too_wide(lines)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            yield from _of_docstring(node, lines)
        elif _is_text(node) and "/*" in node.value:
            yield from (Problem(node.lineno, what) for _, what in of_c(node.value))
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield from _of_comment(token)
    yield from _shreds(tokens, lines)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _too_wide(lines: list[str], width: int = WIDTH) -> Iterator[Problem]:
    for number, line in enumerate(lines, 1):
        line = re.sub(r"  # (?:type|noqa|fmt).*", "", line)
        if len(line) > width and len(line.split()) > 1:  # a single word cannot be wrapped
            yield Problem(number, f"{len(line)} columns, expected {width} at most")


def _of_docstring(node: ast.Expr, source: list[str]) -> Iterator[Problem]:
    """Of a docstring, or of the text below an attribute."""
    text = node.value.value
    lines = text.split("\n")
    for sign in '`"':
        if text.count(sign) % 2:
            yield Problem(node.lineno, f"an odd number of {sign}")
    if re.search(r""" (["'])\n\s*\1""", text):
        yield Problem(node.lineno, "quotes of a string literal at a line's end and the next one's start")
    if len(lines) == 1:
        return
    if lines[-1].strip():
        yield Problem(node.end_lineno or 0, "text before the quotes that close several lines")
    if lines[0].strip() and not CLOSED.search(lines[0].rstrip()):
        yield Problem(node.lineno, "the first line is no summary: it does not end a sentence")
    margin = " " * node.col_offset
    numbered = enumerate(source[node.lineno : node.end_lineno], node.lineno + 1)
    for (number, line), (_, following) in pairwise(numbered):
        depth = _depth(line, margin)
        if depth != _depth(following, margin):
            continue
        if (depth == 0 or depth > 8) and _stops_short(line, following):  # between are formulas and examples
            yield Problem(number, "prose that stops in the middle of a line")
        if depth > 0 and _opens(line) and _closes(following):
            yield Problem(number, "a formula or call cut in two")


def _depth(line: str, margin: str) -> int:
    """How far a line is indented beyond its docstring; -1 for one that is blank."""
    return len(line) - len(line.lstrip()) - len(margin) if line.strip() else -1


def _stops_short(line: str, following: str) -> bool:
    """Whether a line of prose ends long before the margin, without any reason to."""
    if "  " in line.strip() or "  " in following.strip() or re.match(r"([-*|>]|\d+[.)]) ", following.strip()):
        return False  # tables and lists
    if line.strip() == r"\b":
        return False  # what tells click to keep lines
    fits = len(line) < 0.8 * WIDTH and len(line) + 1 + len(following.split()[0]) <= WIDTH - 4
    return fits and not PAUSE.search(line.rstrip()) and following.strip() != '"""'


def _opens(line: str) -> bool:
    return line.count("(") > line.count(")") and line.rstrip().endswith(",")


def _closes(line: str) -> bool:
    return line.count(")") > line.count("(") and line.rstrip().endswith(")")


def _of_comment(token: tokenize.TokenInfo) -> Iterator[Problem]:
    text = token.string.lstrip("#").strip()
    if text and not text.strip("-"):
        yield Problem(token.start[0], "a comment that is nothing but dashes")
    elif text.startswith("-- ") and not text.endswith("---"):
        yield Problem(token.start[0], "the title of a section without its rule")


def _shreds(tokens: list[tokenize.TokenInfo], lines: list[str]) -> Iterator[Problem]:
    """Short pieces between long ones, where a sentence is made of string literals on lines of their own."""
    run: list[tokenize.TokenInfo] = []
    for token in [*tokens, tokens[-1]]:
        if token.type == tokenize.STRING:
            run.append(token)
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            for before, piece, after in zip(run, run[1:], run[2:]):
                words, previous = _words(piece), _words(before)
                wide = before.end[1] > 0.75 * WIDTH and not PAUSE.search(previous.rstrip())
                short = len(words) < 40 and not PAUSE.search(words.rstrip())
                blank = words.endswith(" ") or _words(after).startswith(" ")
                if wide and short and blank and piece.start[0] != before.start[0]:
                    yield Problem(piece.start[0], f"a shred of prose, {words!r}")
            run = []


def _words(token: tokenize.TokenInfo) -> str:
    return re.sub(r"^\w*[\"']|[\"']$", "", token.string)


# -- C ------------------------------------------------------------------------------------------------------


def of_c(text: str) -> Iterator[Problem]:
    """What is broken in C, in a header or in a string of Python."""
    for comment in re.finditer(r"/\*.*?\*/", text, re.DOTALL):
        inside = comment[0][2:-2].split("\n")
        first = text.count("\n", 0, comment.start()) + 1
        if len(inside) == 1:
            continue
        behind = text[comment.end() :].split("\n", 1)[0].strip()
        if behind:
            yield Problem(first + len(inside) - 1, f"code behind a comment of several lines: {behind}")
        for number, line in enumerate(inside, first):
            if DECLARATION.match(line):
                yield Problem(number, f"a declaration in a comment: {line.strip()}")


def c_in_strings(source: str) -> Iterator[Problem]:
    """Strings of Python with several lines of C, which belong in a header."""
    for node in ast.walk(ast.parse(source)):
        if _is_text(node) and len(re.findall(rf"^\s*(?:{TYPE})\b.*[;{{]$", node.value, re.MULTILINE)) > 1:
            yield Problem(node.lineno, f"C in a string: {node.value.splitlines()[:2]}")


# -- Markdown -----------------------------------------------------------------------------------------------


def of_markdown(text: str) -> Iterator[Problem]:
    """Fences that are not closed, rows of tables in pieces, items of lists in one line."""
    opened = 0
    for paragraph in re.split(r"\n{2,}", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        if paragraph.count("`") % 2:
            yield Problem(text.count("\n", 0, text.find(paragraph)) + 1, "an odd number of `")
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if opened and line != "```":
                yield Problem(number, f"a fence within the one of line {opened}")
            opened = 0 if opened else number
        elif not opened:
            if line.startswith("|") != line.rstrip().endswith("|"):
                yield Problem(number, "a row of a table in pieces")
            if re.search(r"[.:;] [-*] [A-Z`]", line):
                yield Problem(number, "items of a list in one line")
    if opened:
        yield Problem(opened, "a fence that is not closed")


# -- mistakes that were made ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('def f():\n    """all "\n    "children\'s."""\n', "quotes of a string literal"),
        ('"""Sum of `n numbers."""\n', "an odd number of `"),
        ('"""The "first number."""\n', 'an odd number of "'),
        ('def f():\n    """Translations of order 1\n    m."""\n', "text before the quotes"),
        ('def f():\n    """A batch loop over\n    lanes.\n\n    n  rows\n    """\n', "no summary"),
        (
            '"""Sums.\n\nWith v_r = v it is\n`inverse_dynamics`, as the book says.\n"""\n',
            "stops in the middle",
        ),
        ('"""Sums.\n\n    tau = f(model, to_a(q,\n    v, a))\n"""\n', "cut in two"),
        ("# -- afterwards\n", "without its rule"),
        ("# -----------------------------\n", "nothing but dashes"),
        (f"x = {'1 + ' * 30}1\n", "columns"),
        (f'x = ("{"long line " * 9}"\n    "leg stays "\n    "upright for ever")\n', "shred of prose"),
        ('x = """/* Where i >= 0,\nif `same`. */ INLINE void write(int i);"""\n', "code behind a comment"),
    ],
)
def test_broken_python_is_seen(text, what):
    assert any(what in problem.what for problem in of_python(text))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("/* Compares numbers. Prints the\n*/ #include <math.h>\n", "code behind a comment"),
        ("/* Stores a row.\nINLINE void store(real *row) {\n*/\n", "a declaration"),
        ("/* Stores a row, with\nint *at,\n   and so on */\n", "a declaration"),
        ("/* Stores a row.\nreal sum(real *row) {\n*/\n", "a declaration"),
    ],
)
def test_broken_c_is_seen(text, what):
    assert any(what in problem.what for problem in of_c(text))


def test_c_in_a_string_is_seen():
    assert any(c_in_strings('x = """\nint f(int x) {\n    int y = x;\n    return y;\n}\n"""'))
    assert not any(c_in_strings('x = f"int f(int x) {{ return {x}; }}\\n"'))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("```python\nx = 1\n", "not closed"),
        ("```python\n```text\n```\n", "within the one"),
        ("| a | b\n| c |\n", "a table in pieces"),
        ("- One thing. - Another thing\n", "items of a list"),
        ("Some `code and more.\n", "an odd number of `"),
    ],
)
def test_broken_pages_are_seen(text, what):
    assert any(what in problem.what for problem in of_markdown(text))


def test_no_file_outside_the_repository_is_cited():
    """Papers and the pages of docs/ are what a reader has."""
    absent = re.compile(r"\b(?:SPEC|DESIGN|STYLE|BENCH)(?:[\w-]*\.md\b| [a-z]\.\d)|(?<![\w/])shared/")
    assert absent.search("SPEC a.6") and absent.search("as DESIGN.md says") and not absent.search("SPECIAL")
    assert [named(path) for path in PYTHON + HEADERS + PAGES if absent.search(path.read_text())] == []


# -- what there is -------------------------------------------------------------------------------------------


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PYTHON, ids=named)
@pytest.mark.many
def test_docstrings_comments_and_messages_are_well_formed(path):
    assert list(of_python(path.read_text())) == []


@pytest.mark.parametrize("path", HEADERS, ids=named)
def test_headers_are_well_formed(path):
    text = path.read_text()
    assert [*_too_wide(text.splitlines(), C_WIDTH), *of_c(text)] == []


@pytest.mark.skipif(find_spec("clang_format") is None, reason="clang-format is not installed")
def test_headers_are_formatted():
    import clang_format

    command = [clang_format.get_executable("clang-format"), "--dry-run", "--Werror", *map(str, HEADERS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.wide
def test_c_text_lives_in_headers():
    found = {named(path): list(c_in_strings(path.read_text())) for path in (ROOT / "src").rglob("*.py")}
    assert not {path: problems for path, problems in found.items() if problems}


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_pages_are_well_formed(path):
    assert list(of_markdown(path.read_text())) == []


def test_the_changelog_is_short():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert list(_too_wide(text.splitlines())) == []
    _, *releases = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    lengths = {release.splitlines()[0]: len(release.splitlines()) for release in releases}
    assert lengths
    assert {release: lines for release, lines in lengths.items() if lines > 100} == {}
