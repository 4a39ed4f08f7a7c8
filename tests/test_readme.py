"""The documents are run: their Python as written, what they print compared, their commands looked up."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import sys
import tomllib
import warnings
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import liebody as lb
from liebody.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import robots

ROOT = Path(__file__).parent.parent

PAGES = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/guides").glob("*.md")]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(PAGES)]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?!\.\.)(?:[\w.-]+/)+$|[\w./-]*\w\.(?:py|h|md|toml)$")
NEEDS = {
    "frameworks.md": ("jax", "casadi"),
    "mujoco.md": ("mujoco",),
    "others.md": ("mujoco", "casadi"),
    "pinocchio.md": ("pinocchio",),
    "learn-to-walk.md": ("mujoco",),
    "proofs.md": ("flint",),
}  # packages of the test extra
OTHER_COMMANDS = {"pip", "pytest", "python", "make", "source"}


class Block(NamedTuple):
    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def run_blocks(text: str, name: str) -> list[str]:
    """Run the Python blocks of a document in order, in one namespace; what printed otherwise than stated."""
    namespace: dict[str, object] = {"__name__": "__document__"}
    wrong, printed = [], None
    for block in blocks(text):
        if block.language == "python":
            output = io.StringIO()
            padded = "\n" * block.line + block.text  # so that tracebacks name its lines
            code = compile(padded, name, "exec", dont_inherit=True)  # of the future features here
            with contextlib.redirect_stdout(output):
                exec(code, namespace)
            printed = output.getvalue()
        elif block.language == "text" and printed is not None:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            if not doctest.OutputChecker().check_output(block.text, printed, flags):
                wrong.append(f"{name}:{block.line} states\n{block.text}\nbut its code prints\n{printed}")
            printed = None
    return wrong


def problem_of(command: str) -> str | None:
    """What a shell command of a document names that is not there; None if all of it is."""
    words = shlex.split(command, comments=True)
    if not words:
        return None
    if words[0] == "liebody":
        return _problem_of_ours(words[1:])
    if words[0] not in OTHER_COMMANDS:
        return f"unknown command {words[0]!r}"
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\[(.*?)\]", " ".join(words)):
            missing = set(extra.split(",")) - set(project["optional-dependencies"])
            if missing:
                return f"no extra {missing}"
    if words[0] in ("python", "pytest"):
        absent = [word for word in words[1:] if word.endswith(".py") and not (ROOT / word).is_file()]
        return f"no file {', '.join(absent)}" if absent else None
    if words[0] == "make" and not re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
        return f"no target {words[1]}"
    return None


def _problem_of_ours(words: list[str]) -> str | None:
    command = main.get_command(click.Context(main), words[0])
    if command is None:
        return f"no command liebody {words[0]}"
    try:
        command.make_context(words[0], words[1:])
    except click.UsageError as error:
        return error.format_message()
    return None


def commands(text: str) -> list[str]:
    lines = [line for b in blocks(text) if b.language == "sh" for line in b.text.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
@pytest.mark.wide
@pytest.mark.filterwarnings("error::liebody.simulation.simulate.PassedLimits")
def test_code_of_documents_runs_and_prints_what_they_state(document, tmp_path, monkeypatch):
    for package in NEEDS.get(document.name, ()):
        pytest.importorskip(package, reason=f"the test extra `{package}` is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # pages are read in a checkout
    monkeypatch.chdir(tmp_path)
    assert run_blocks(document.read_text(), document.name) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_zero_that_documents_state_has_a_sign(document):
    """It is that of round-off, and another one on the next processor."""
    stated = "".join(block.text for block in blocks(document.read_text()) if block.language == "text")
    assert re.findall(r"(?<![\w.])-0(?:\.0*)?(?![\w.])", stated) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_of_documents_exist(document):
    found = {command: problem_of(command) for command in commands(document.read_text())}
    assert {command: problem for command, problem in found.items() if problem} == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_documents_lead_somewhere(document):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []


def missing_files(text: str) -> list[str]:
    """Files and folders in the code spans of a document that neither the repository nor src/liebody has."""
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    paths = [word for span in spans for word in span.split() if PATH.match(word)]
    return [
        path for path in paths if not any((root / path).exists() for root in (ROOT, ROOT / "src/liebody"))
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_documents_name_exist(document):
    assert missing_files(document.read_text()) == []


@pytest.mark.parametrize(
    "path", ["dynamics/rolled.py", "tests/rolled.py", "runtime/march.h", "flows/", "march.h"]
)
def test_files_that_do_not_exist_are_seen(path):
    assert missing_files(f"The step is printed by `stepping/flow.py`, and `{path}` knows it.") == [path]


def parts_of(group):
    """The commands of a group, and of the groups in it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield from parts_of(found) if isinstance(found, click.Group) else [found]


def test_examples_of_the_help_can_be_given():
    for command in parts_of(main):
        examples = re.findall(r"^ +(liebody .*)$", command.help, re.MULTILINE)
        assert examples, f"the help of {command.name} shows no example"
        assert {example: problem_of(example) for example in examples if problem_of(example)} == {}


def test_the_readme_is_short_and_has_eight_examples_that_are_checked_here():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 10_000
    languages = [block.language for block in blocks(text)]
    assert [x for x in languages if x != "sh"] == ["python", "text"] * 8 and languages.count("sh") >= 3
    assert {"liebody demo", "pytest -n logical", 'pip install ".[test]"', 'pip install ".[plot]"'} <= set(
        commands(text)
    )


def test_the_first_page_of_the_docs_leads_from_mathematics_to_code_papers_and_files():
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    section = page.partition("## Mathematics, code, source\n")[2]
    header, _, *rows = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    assert [cell.strip() for cell in header.split("|")] == ["mathematics", "code", "source", "file"]
    assert len(rows) >= 30 and all(len(row.split("|")) == 4 for row in rows)
    assert all(re.search(r"`.+`|\[page\]\(.+\)", row.rpartition("|")[2]) for row in rows)


@pytest.mark.parametrize(
    ("document", "sentence", "robot"),
    [
        ("README.md", r"(\d+) for UR5's inverse\s+dynamics", "ur5"),
        ("docs/coriolis.md", r"recursive Newton-Euler takes (\d+) operations for UR5", "ur5"),
        ("docs/coriolis.md", r"for UR5 and (\d+) for ANYmal", "anymal"),
    ],
)
def test_operations_of_inverse_dynamics_are_those_that_exported_headers_state(
    document, sentence, robot, tmp_path
):
    stated = re.findall(sentence, (ROOT / document).read_text())
    assert len(stated) == 1, f"{document} does not say {sentence!r} once"
    try:
        file, floating = robots.path(robot)
    except PackageNotFoundError:
        pytest.skip("the test extra `example-robot-data` is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = lb.load(file, floating=floating).export_c(tmp_path, ["inverse_dynamics"])
    (header,) = (path.read_text() for path in files if path.suffix == ".h")
    assert re.findall(r"^   (\d+) operations: ", header, re.MULTILINE) == stated


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```python\nprint(1)\n```\n\n```text\n1\n```\n", 0),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", 1),
        ("```python\nx = 3\n```\n```python\nprint(x, 'and more')\n```\n```text\n3 ...\n```\n", 0),
        ("```python\n```\n```text\nsomething\n```\n", 1),
    ],
)
def test_stated_output_is_compared(text, wrong):
    assert len(run_blocks(text, "page.md")) == wrong


def test_code_that_fails_is_seen():
    with pytest.raises(ZeroDivisionError):
        run_blocks("```python\n1 / 0\n```\n", "page.md")


@pytest.mark.parametrize(
    "command",
    [
        "liebody dance",
        "liebody simulate robot.urdf --speed 3",
        "liebody export robot.urdf --to fortran",
        'pip install ".[gold]"',
        "python benchmarks/missing.py",
        "pytest tests/test_readme.py tests/test_missing.py",
        "make coffee",
        "curl example.org",
    ],
)
def test_commands_that_do_not_exist_are_seen(command):
    assert problem_of(command)
