"""The API reference: a page for every public name, made of docstrings when the site is built.

A docstring has paragraphs, tables of arguments (name, meaning, unit), indented formulas and indented code.
They become paragraphs, tables, displayed formulas and listings; formulas within sentences are found by
`formulas.pieces`, and names of the library in backticks become links to their pages. `tiers` says how long a
name may be relied on; pages of names that are not stable begin with that.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from formulas import formula, pieces
from tiers import PACKAGES, tier

from liebody.cli import main
from liebody.robot import kernels_of

# What is promised of the names of each tier. Stable is the rule, of which pages do not speak.
PROMISES = {
    "stable": "*Stable*: it changes only after one minor version in which the old form works, and warns.",
    "provisional": "*Provisional*: it is new, and may change in a minor version. The changelog says so then.",
    "internal": "*Internal*: for programs that extend liebody; it may change in any version.",
}
ROW = re.compile(r"(\S(?:.*?\S)??)  +(\S.*)")
NAMES = re.compile(r"\w+(, \w+)*")
_KEY = r"[\w<>]+(?: \([\w, ]*\))?"  # a name, as `anchor (n, k)` or `<element>_work`
KEYS = re.compile(rf'"[\w-]+"|{_KEY}(?:, {_KEY})*')
# Members of classes that serve the library itself: a page has them behind what users call.
BEHIND = {
    "Robot": "plain values guarded freed own_parameters varied at shape recipe prototype packed".split()
}
UNIT = re.compile(r" {2,}(\[[^\]]*\](?:, \[[^\]]*\])*)$")


@dataclass(frozen=True)
class Name:
    """A public name: the package that has it, and its value."""

    package: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.package}.{self.name}"

    @property
    def doc(self) -> str:
        """Its docstring; for a value, the docstring of its class if the class is liebody's."""
        described = inspect.isclass(self.value) or inspect.isroutine(self.value)
        ours = type(self.value).__module__.startswith("liebody")
        return (inspect.getdoc(self.value) or "") if described or ours else ""

    @property
    def promise(self) -> list[str]:
        """The paragraph about its tier; nothing if it is stable."""
        name = tier(self.path)
        return [] if name == "stable" else [PROMISES[name], ""]


def names_of(module: Any) -> list[str]:
    """The public names of a module: `__all__`, or what it defines itself."""
    own = {n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__}
    return getattr(module, "__all__", None) or sorted(n for n in own if n[0] != "_")


def public_names() -> list[Name]:
    """All public names, each in the first package that has it; modules do not count as names."""
    found, seen = [], set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in names_of(module):
            value = getattr(module, name)
            if inspect.ismodule(value) or id(value) in seen:
                continue
            seen.add(id(value))
            found.append(Name(package, name, value))
    return found


def members(cls: type) -> Iterator[tuple[str, str, Any]]:
    """(kind, name, value) of the public methods and properties of a class, its own and those of our bases."""
    known = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("liebody"):
            continue
        fields = getattr(base, "_fields", ()) or getattr(base, "__dataclass_fields__", ())
        for name, value in vars(base).items():
            if name.startswith("_") or name in known or name in fields:
                continue
            known.add(name)
            if isinstance(value, property) or type(value).__name__ == "cached_property":
                yield "property", name, value
            elif isinstance(value, classmethod | staticmethod):
                yield type(value).__name__, name, getattr(cls, name)
            elif callable(getattr(cls, name, None)):
                yield "method", name, getattr(cls, name)


def ordered(cls: type) -> list[tuple[str, str, Any]]:
    """The members of a class as they stand in the source; of a robot its algorithms first; `BEHIND` last."""
    algorithms = set(kernels_of(cls)) if cls.__name__ == "Robot" else set()
    behind = BEHIND.get(cls.__name__, [])
    return sorted(members(cls), key=lambda member: (member[1] in behind, member[1] not in algorithms))


def signature(value: Any, method: bool = False) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    arguments = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    if method and arguments and arguments[0].name in ("self", "cls"):
        arguments = arguments[1:]
    text = str(found.replace(parameters=arguments, return_annotation=inspect.Signature.empty))
    return re.sub(r"<[^<>]* at 0x[0-9a-f]+>|<(?:function|class|object)[^>]*>", "...", text)


class Reference:
    """Turns docstrings into reStructuredText, with links to the pages of `names`."""

    def __init__(self, names: list[Name]) -> None:
        self.names = names
        self.links: dict[str, str] = {}
        for name in names:
            for spelling in (name.name, name.path, name.path.removeprefix("liebody.")):
                self.links.setdefault(spelling, name.path)
            self.links.setdefault(f"lb.{name.name}", name.path)
            if inspect.isclass(name.value):
                for _, member, _ in members(name.value):
                    self.links.setdefault(f"{name.name}.{member}", f"{name.path}.{member}")

    def inline(self, sentence: str, within: str = "") -> str:
        """A sentence with its code and formulas as roles; `within`: the path of the class it belongs to."""
        found = []
        for kind, text in pieces(sentence):
            if kind == "formula":
                found.append(rf"\ :math:`{text}`\ ")
            elif kind == "code":
                member = f"{within.split('.')[-1]}.{text}"
                target = self.links.get(member) or self.links.get(text.split("(")[0])
                role = f":py:obj:`{text} <{target}>`" if target else f"``{text}``"
                found.append(rf"\ {role}\ ")
            else:
                found.append(re.sub(r"([\\*`|]|_(?!\w))", r"\\\1", text))
        return "".join(found).replace("\n", " ").strip()

    def convert(self, docstring: str, within: str = "") -> list[str]:
        lines: list[str] = []
        for paragraph in _whole_listings(_paragraphs(docstring)):
            indented = paragraph[0].startswith("    ")
            flush = textwrap.dedent("\n".join(paragraph)).splitlines()
            rows = _rows(flush)
            if indented and not rows:
                lines += _display([line[4:] for line in paragraph])
            elif rows:
                lines += [".. list-table::", "   :widths: 22 78", "   :class: arguments", ""]
                for key, text, unit in rows:
                    lines.append(f"   * - ``{key}``")
                    shown = f"  :unit:`{unit}`" if unit else ""
                    lines.append(f"     - {self.inline(text, within)}{shown}")
            else:
                text = " ".join(line.strip() for line in paragraph[:-1])
                unit = UNIT.search(paragraph[-1])
                last = paragraph[-1][: unit.start()] if unit else paragraph[-1]
                shown = f"  :unit:`{unit[1]}`" if unit else ""
                lines.append(self.inline(f"{text} {last.strip()}".strip(), within) + shown)
            lines.append("")
        return lines

    def summary(self, docstring: str) -> str:
        """The first sentence, for tables."""
        first = " ".join(_paragraphs(docstring)[0]) if docstring else ""
        return self.inline(UNIT.sub("", first))

    def page(self, name: Name) -> str:
        short, value = name.name, name.value
        lines = [short, "=" * len(short), "", f".. py:currentmodule:: {name.package}", ""]
        if inspect.isclass(value):
            kind = "exception" if issubclass(value, BaseException) else "class"
            shown = "" if kind == "exception" or getattr(value, "_is_protocol", False) else signature(value)
            lines += [f".. py:{kind}:: {short}{shown}", "", *_indented(name.promise)]
            lines += _indented(self.convert(name.doc, name.path))
            found = ordered(value)
            if len(found) > 8:
                lines += ["   .. list-table::", "      :widths: 30 70", "      :class: members", ""]
                for _, member, what in found:
                    lines.append(f"      * - :py:obj:`{member} <{name.path}.{member}>`")
                    lines.append(f"        - {self.summary(inspect.getdoc(what) or '')}")
                lines.append("")
            for kind, member, what in found:
                directive = "property" if kind == "property" else "method"
                shown = "" if kind == "property" else signature(what, kind == "method")
                lines += [f"   .. py:{directive}:: {member}{shown}"]
                if kind in ("classmethod", "staticmethod"):
                    lines.append(f"      :{kind}:")
                lines.append("")
                lines += _indented(self.convert(inspect.getdoc(what) or "", name.path), 6)
        elif callable(value) and inspect.isroutine(inspect.unwrap(value)):
            lines += [f".. py:function:: {short}{signature(value)}", "", *_indented(name.promise)]
            lines += _indented(self.convert(name.doc))
        else:
            shown = repr(value)
            lines += [f".. py:data:: {short}"]
            if len(shown) < 80 and " at 0x" not in shown:
                lines.append(f"   :value: {shown}")
            lines += ["", *_indented(name.promise), *_indented(self.convert(name.doc))]
        return "\n".join(lines) + "\n"

    def package(self, package: str) -> str:
        module = importlib.import_module(package)
        lines = [package, "=" * len(package), "", f".. py:module:: {package}", "   :no-index:", ""]
        lines += self.convert(inspect.getdoc(module) or "")
        lines += [".. list-table::", "   :widths: 26 60 14", "   :class: members", ""]
        own = []
        for short in names_of(module):
            value = getattr(module, short)
            if inspect.ismodule(value):
                continue
            name = next(n for n in self.names if n.value is value)
            lines.append(f"   * - :py:obj:`{short} <{name.path}>`")
            lines.append(f"     - {self.summary(name.doc)}")
            promised = tier(name.path)
            lines.append(f"     - {'' if promised == 'stable' else f'*{promised}*'}")
            own += [name] if name.package == package and name not in own else []
        lines += ["", ".. toctree::", "   :hidden:", ""] + [f"   {name.path}" for name in own]
        return "\n".join(lines) + "\n"


def _paragraphs(docstring: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in docstring.expandtabs().splitlines():
        if not line.strip():
            found.append([])
            continue
        indented = line.startswith("    ")
        if found[-1] and indented != found[-1][0].startswith("    ") and not _rows(found[-1]):
            found.append([line])
        else:
            found[-1].append(line)
    return [paragraph for paragraph in found if paragraph]


def _whole_listings(paragraphs: list[list[str]]) -> list[list[str]]:
    """The paragraphs; programs that only blank lines part are one."""
    found: list[list[str]] = []
    for paragraph in paragraphs:
        if found and _is_listing(found[-1]) and _is_listing(paragraph):
            found[-1] = [*found[-1], "", *paragraph]
        else:
            found.append(paragraph)
    return found


def _is_listing(paragraph: list[str]) -> bool:
    """Whether these lines are an indented program."""
    if not paragraph[0].startswith("    ") or _rows(textwrap.dedent("\n".join(paragraph)).splitlines()):
        return False
    return _is_python(paragraph) and not all(map(_formulas, paragraph))


def _rows(paragraph: list[str]) -> list[tuple[str, str, str]]:
    """(name, meaning, unit) of the lines of a table of arguments; none if the paragraph is something else.

    Meanings begin in one column, but for names that are too long for it, which two spaces part from theirs.
    Lines that begin with spaces go on with the meaning before; names may have a unit alone, or nothing.
    """
    if not ROW.fullmatch(paragraph[0]):
        return []
    column = min(row.start(2) for row in map(ROW.fullmatch, paragraph) if row)
    rows: list[tuple[str, str, str]] = []
    for line in paragraph:
        unit = UNIT.search(line)
        text = line[: unit.start()] if unit else line
        shown = unit[1] if unit else ""
        row = ROW.fullmatch(text)
        if rows and not line[: min(column, 4)].strip():
            key, before, known = rows[-1]
            rows[-1] = key, f"{before} {text.strip()}", known or shown
        elif row and (row.start(2) == column or row.start(2) == row.end(1) + 2 or NAMES.fullmatch(row[1])):
            rows.append((row[1], row[2], shown))
        elif NAMES.fullmatch(text[: column - 1]) and text[column - 1 : column] == " ":
            rows.append((text[: column - 1], text[column:], shown))
        elif NAMES.fullmatch(text):
            rows.append((text, "", shown))
        else:
            return []
    named = all(KEYS.fullmatch(key) for key, _, _ in rows)
    return rows if named and any(meaning for _, meaning, _ in rows) else []


def _display(lines: list[str]) -> list[str]:
    """Indented lines: formulas are set, everything else is a listing."""
    formulas = [_formulas(line) for line in lines]
    if all(formulas):
        rows = " \\\\\n   ".join(r" \qquad ".join(row or []) for row in formulas)
        return [".. math::", "", f"   {rows}"]
    return [f".. code-block:: {'python' if _is_python(lines) else 'text'}", "", *_indented(lines)]


def _is_python(lines: list[str]) -> bool:
    """Whether lines are a program, and not a formula with words, or text with columns."""
    try:
        ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:
        return False
    return any(re.search(r"\w\(|= |import |\bfor\b", line) for line in lines)


def _formulas(line: str) -> list[str] | None:
    """The formulas that make up a line, parted by commas or wide spaces; None if it has anything else."""
    found = []
    for part in re.split(r"[,;.]? {2,}|, (?=[a-zA-Z]+ [=<>])|[,.]$", line.strip()):
        if part:
            read = formula(part)
            if read is None or read[1] != len(part):
                return None
            found.append(read[0])
    return found


def _indented(lines: list[str], by: int = 3) -> list[str]:
    return [" " * by + line if line else "" for line in lines]


def commands() -> str:
    """The page of the command line: the output of `--help` of each command."""
    lines = ["The command line", "================", ""]

    def describe(command: click.Command, path: list[str]) -> None:
        context = click.Context(command, info_name=" ".join(path), max_content_width=96)
        if path[1:]:
            lines.extend([f"``{' '.join(path)}``", "-" * (len(" ".join(path)) + 4), ""])
        lines.extend([".. code-block:: text", "", *_indented(command.get_help(context).splitlines()), ""])
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                if found is not None:
                    describe(found, [*path, name])

    describe(main, ["liebody"])
    return "\n".join(lines) + "\n"


def pages() -> Mapping[str, str]:
    """File names and texts of the reference."""
    reference = Reference(public_names())
    found = {f"{name.path}.rst": reference.page(name) for name in reference.names}
    # Names of files differ by more than the case of their letters: some systems ignore case.
    found |= {f"package-{package}.rst": reference.package(package) for package in PACKAGES}
    index = ["Reference", "=========", "", "Every public name has a page; ``help()`` shows its text.", ""]
    index += ["Pages say how long a name may be relied on; where nothing is said, it is stable.", ""]
    index += [*(f"* {text}" for text in PROMISES.values()), ""]
    index += [".. toctree::", "   :maxdepth: 1", ""]
    index += [f"   {page}" for page in (*(f"package-{package}" for package in PACKAGES), "commands")]
    return found | {"index.rst": "\n".join(index) + "\n", "commands.rst": commands()}


def write(folder: Path) -> None:
    """Write the pages that changed, and remove the pages of names that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for old in folder.glob("*.rst"):
        if old.name not in texts:
            old.unlink()
    for file, text in texts.items():
        path = folder / file
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
