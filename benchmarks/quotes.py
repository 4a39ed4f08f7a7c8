"""Figures of speed in README and docs, and the records that they are written from.

`benchmarks/records/NAME.json` has the runs of a benchmark, oldest first: what they ran on, and for each
label median and quartiles. `benchmarks/records/quotes.toml` has the places of pages that quote them: a
piece of text in which every figure is a field,

    UR5 takes {ur5 one inverse: us} us, {ur5 one inverse: ratio} x

A field is a label and its form: a median time in `ns`, `us`, `ms`, `s` or `minutes`, a `ratio` (how many
times as fast as the peer; `slower` is its inverse), a `rate` per second, or in units of a `million`. A
digit behind the form is the number of significant digits, 2 without one. `{commit}`, `{processor}`,
`{lanes}`, `{compiler}`, `{date}` and `{version of pin}` are of the run. A piece of text quotes the newest
run that has all of its fields. It is found in its page whatever its figures are, so that new ones can be
written.
"""

from __future__ import annotations

import functools
import json
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records"

FORMS = {  # quantity and unit of each form
    "ns": ("seconds", 1e-9),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "minutes": ("seconds", 60.0),
    "ratio": ("ratio", 1.0),
    "slower": ("ratio", 1.0),
    "rate": ("rate", 1.0),
    "million": ("rate", 1e6),
}
FIELD = re.compile(r"\{([^{}]+)\}")
NUMBER = r"\d+(?:[.,]\d+)*"
OF_RUN = {"commit": r"[0-9a-f]{7,40}(?:-dirty)?", "processor": r"\w[^.,;|]*?", "lanes": r"\d+",
          "compiler": r"\w+ [\d.]+", "date": r"\d{4}-\d\d-\d\d"}  # fmt: skip


@dataclass(frozen=True)
class Quote:
    """A piece of text of a page, whose figures are of a record."""

    page: str
    record: str
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds the text with any figures, and any line breaks, one group a field."""
        parts = FIELD.split(self.text.strip())
        return re.compile(
            "".join(f"({_shape(part)})" if i % 2 else _words(part) for i, part in enumerate(parts))
        )

    def figures(self, runs: list[dict[str, Any]]) -> list[str]:
        """What its fields print by the newest run that has all of them."""
        fields = FIELD.findall(self.text)
        missing: list[str] = []
        for run in reversed(runs):
            try:
                return [printed(field, run) for field in fields]
            except KeyError as error:
                missing.append(str(error))
        raise KeyError(f"no run of {self.record} has all fields of {self.text!r}: {', '.join(missing)}")


def printed(field: str, run: dict[str, Any]) -> str:
    """A field by a run; KeyError where the run lacks it."""
    if field.startswith("version of "):
        return str(run["versions"][field.removeprefix("version of ")])
    if field in OF_RUN:
        return str(run[field])
    label, _, form = field.rpartition(": ")
    shape = re.fullmatch(r"([a-z]+)(\d?)", form)
    if not label or shape is None or shape[1] not in FORMS:
        raise ValueError(f"field {field!r}: expected 'label: form' with one of {', '.join(FORMS)} as form")
    quantity, unit = FORMS[shape[1]]
    value = run["figures"][label][quantity]["median"] / unit
    return number(1 / value if shape[1] == "slower" else value, int(shape[2] or 2), shape[1] == "rate")


def number(value: float, digits: int = 2, rounded: bool = False) -> str:
    """With so many significant digits; whole above them, unless `rounded`: 451, 97, 7.9, 430,000."""
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    if decimals < 0 and rounded:
        value = round(value, decimals)
    text = f"{value:,.{max(decimals, 0)}f}"
    more = len(text.replace(".", "").replace(",", "").lstrip("0")) > digits and decimals > 0
    return f"{value:,.{max(decimals - 1, 0)}f}" if more else text  # 0.999 became 1.00


def _shape(field: str) -> str:
    return OF_RUN.get(field, NUMBER)


def _words(text: str) -> str:
    return "".join(
        r"\s+" if piece.isspace() else re.escape(piece) for piece in re.split(r"(\s+)", text) if piece
    )


@functools.cache
def _read(path: Path, _: int) -> dict[str, Any]:
    """A file of records, read once for each time at which it was changed (in ns)."""
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def _table(name: str) -> dict[str, Any]:
    path = RECORDS / name
    return _read(path, path.stat().st_mtime_ns)


def quotes() -> list[Quote]:
    """All of quotes.toml."""
    table = _table("quotes.toml")
    return [
        Quote(entry["page"], entry["record"], text) for entry in table["quotes"] for text in entry["texts"]
    ]


def runs_of(record: str) -> list[dict[str, Any]]:
    """The runs of a record, oldest first; none if there is no such file."""
    name = f"{record}.json"
    return list(_table(name)["runs"]) if (RECORDS / name).exists() else []


def places(text: str, quote: Quote) -> re.Match[str]:
    """Where a page has a quote; ValueError unless it is there once."""
    found = list(quote.pattern.finditer(text))
    if len(found) != 1:
        raise ValueError(
            f"{quote.page} has {len(found)} places of {quote.text!r}, expected one: change the text in "
            "benchmarks/records/quotes.toml as the page was changed"
        )
    return found[0]


def written(text: str, quote: Quote, runs: list[dict[str, Any]]) -> str:
    """The page with the figures of the record in place of those that it has."""
    found = places(text, quote)
    for group, figure in reversed(list(enumerate(quote.figures(runs), 1))):
        start, end = found.span(group)
        text = text[:start] + figure + text[end:]
    return text


# -- figures that no record has written ----------------------------------------------------------------------

TIME = rf"{NUMBER}\s(?:ns|us|µs|ms|s|seconds?|minutes?|microseconds|milliseconds)\b"
ALWAYS = re.compile(
    rf"""{NUMBER}\s(?:ns|us|µs|microseconds)\b      # shorter than what mechanics are about
    | {NUMBER}\s+times\s+(?:as\s+(?:fast|long|slow)|faster|slower|longer|the\s+time)
    | {NUMBER}\s?x(?!\s?\d)(?=[\s|,.;)])            # 30 x, but not 3 x 3
    | {NUMBER}\s(?:million|M)?\s?(?:steps|states|members|samples)?(?:\s?/\s?s\b|\s(?:per|a)\ssecond)
    """,
    re.VERBOSE,
)
SPENDING = re.compile(
    r"\b(?:compil\w+|processor time|on one core|takes? some|the (?:whole )?search|a call|a step takes"
    r"|calls? takes?|per iteration|tak(?:es|e|ing) (?:\d|about|less|up)|took)\b"
)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def speeds(text: str) -> list[tuple[int, int]]:
    """Where a page states a speed: by its unit, or as a time in a sentence that says what takes it."""
    text = FENCE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    found = {match.span() for match in ALWAYS.finditer(text)}
    for sentence in re.finditer(r"(?:[^.|\n]|\.(?=\d|\w)|\n(?!\n))+", text):
        if SPENDING.search(sentence[0]):
            found |= {
                (sentence.start() + match.start(), sentence.start() + match.end())
                for match in re.finditer(TIME, sentence[0])
            }
    return sorted(found)


def unquoted(text: str, of_page: list[Quote], other: list[str]) -> list[str]:
    """Speeds of a page that stand in none of its quotes, and in none of the fragments `other`."""
    covered = [places(text, quote).span() for quote in of_page]
    for fragment in other:
        matches = list(re.finditer(_words(fragment), text))
        if not matches:
            raise ValueError(f"no page text {fragment!r}: take it out of `other` in quotes.toml")
        covered += [match.span() for match in matches]
    return [
        " ".join(text[max(0, start - 60) : end + 30].split())
        for start, end in speeds(text)
        if not any(a <= start and end <= b for a, b in covered)
    ]


def others() -> dict[str, list[str]]:
    """Figures that look like speeds and are none, by page: durations of motions, periods of controllers."""
    return dict(_table("quotes.toml")["other"])


def pages() -> list[Path]:
    """README and the pages of docs/, without decisions, which keep their figures, and docs/speed.md."""
    folders = (ROOT / "docs", ROOT / "docs" / "guides", ROOT / "docs" / "tutorials")
    found = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    return [ROOT / "README.md", *(path for path in found if path.name != "speed.md")]
