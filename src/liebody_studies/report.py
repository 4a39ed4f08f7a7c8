"""Reports of the studies: text, formulas, tables, pictures in one HTML file without scripts or network.

What a page says is a template in Markdown (`page.md` beside the code of a study), what it shows is computed
in Python: `Report.from_template` puts values, tables, figures and verdicts where the template names them.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Any

from .formulas import Typesetter

FOLDED = "[folded] "  # before the caption of a table that is folded
EXACT = 1e-12  # what is called right, relative to the size of the terms
APART = 1e-2  # what is called different
WORDS = {
    # verdict -> (what the reader sees, colour)
    "holds": ("holds", "right"),
    "misprint": ("misprint", "slip"),
    "imprecise": ("imprecise", "slip"),
    "wrong": ("wrong", "wrong"),
    "reproduced": ("reproduced", "right"),
    "partly": ("partly reproduced", "slip"),
    "not": ("not reproduced", "wrong"),
    "cannot be": ("cannot be reproduced", "slip"),
}
BORNE_OUT = "Each verdict, such as that a claim is not reproduced, is confirmed by the numbers of this page."
STYLE = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Verdict:
    """What a study says of a claim, a key of WORDS, and whether the numbers of this run bear that out.

    If they do not, the page says so in red.
    """

    claim: str
    says: str
    confirmed: bool

    def __post_init__(self) -> None:
        if self.says not in WORDS:
            raise ValueError(f"verdict {self.says!r}: expected one of {', '.join(WORDS)}")

    @property
    def badge(self) -> str:
        if not self.confirmed:
            return f'<span class="badge broken">not confirmed: {WORDS[self.says][0]}</span>'
        word, colour = WORDS[self.says]
        return f'<span class="badge {colour}">{word}</span>'


# -- rows of checks -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A formula or statement of a source, what it is compared with, and how far it is off.

    number   of the equation or section; behind a # stands what tells apart checks of one number
    off      relative difference
    says     a verdict, a key of WORDS
    differs  whether `off` has to be large: of a misprint, and where the source says that two things differ
    limit    below which `off` counts as zero
    """

    number: str
    printed: str
    against: str
    off: float
    says: str = "holds"
    differs: bool = False
    limit: float = EXACT

    @property
    def confirmed(self) -> bool:
        return self.off > APART if self.differs else self.off < self.limit

    @property
    def label(self) -> str:
        return self.number.partition("#")[0]


@dataclass(frozen=True)
class Correction:
    """A slip of a source: what it prints, what is right, and how far each is from the truth.

    number  as in the list of errata
    before  relative discrepancy as printed; None where that cannot be evaluated: dimensions that do not fit,
            or a slip of words
    after   of the corrected one
    says    a verdict, a key of WORDS
    where   the place in the source, unless the number says it
    remark  why there is no number `before`
    """

    number: str
    printed: str
    correct: str
    before: float | None
    after: float
    says: str = "misprint"
    where: str = ""
    remark: str = ""

    @property
    def confirmed(self) -> bool:
        """Whether what is printed, or what the source calls wrong, is off, and what is right is not."""
        return (self.before is None or self.before > APART) and self.after < EXACT

    @property
    def label(self) -> str:
        return self.number.replace("-", "\u2011")

    def verdict(self, claim: str) -> Verdict:
        return Verdict(f"{self.number}: {claim}", self.says, self.confirmed)


def rows_of(package: str, name: str) -> list[dict[str, str]]:
    """The rows of the table in `name`.md of a study, each by the table's headings."""
    text = resources.files(package).joinpath(f"{name}.md").read_text(encoding="utf-8")
    header, _, *rows = (_cells(line) for line in text.splitlines() if line.startswith("|"))
    return [dict(zip(header, row, strict=True)) for row in rows]


def checks_of(package: str, off: Mapping[str, float], name: str = "checks", **more: Any) -> list[Check]:
    """The checks of the table `name`.md that have a difference `off`, by their numbers.

    Columns: number, printed, beside, verdict. A verdict "holds, large" is of an `off` that has to be large.
    """
    rows = rows_of(package, name)
    _same_keys(name, off, {row["number"] for row in rows})
    found = []
    for row in rows:
        if row["number"] in off:
            says, _, size = (row["verdict"] or "holds").partition(", ")
            words = row["number"], row["printed"], row["beside"], off[row["number"]], says
            found.append(Check(*words, size == "large", **more))
    return found


def corrections_of(
    package: str, sizes: Mapping[str, tuple[Any, ...]], name: str = "corrections"
) -> list[Correction]:
    """The corrections of the table `name`.md that have sizes by their numbers: before, after, and a remark.

    Columns: number, where (unless the number says it), printed, correct, verdict.
    """
    rows = rows_of(package, name)
    _same_keys(name, sizes, {row["number"] for row in rows})
    found = []
    for row in rows:
        if row["number"] in sizes:
            before, after, *remark = sizes[row["number"]]
            words = row["verdict"] or "misprint", row.get("where", ""), *remark
            found.append(Correction(row["number"], row["printed"], row["correct"], before, after, *words))
    return found


def _same_keys(name: str, computed: Iterable[str], rows: set[str]) -> None:
    if unknown := set(computed) - rows:
        raise ValueError(f"{name}.md has no rows {', '.join(sorted(unknown))}")


def correction_rows(found: Iterable[Correction], places: bool = True) -> list[list[Any]]:
    """Two rows for each, printed and correct, with the places where there are any."""
    rows: list[list[Any]] = []
    for c in found:
        verdict = c.verdict(c.where or c.printed)
        rows.append([c.label, *[c.where] * places, "printed", c.printed, c.before, verdict])
        rows.append(["", *[""] * places, "correct", c.correct, c.after, ""])
    return rows


# -- the page -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A template with its values: a page, or what a page repeats."""

    text: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, package: str, name: str, values: Mapping[str, Any]) -> Part:
        """The template `name`.md of a study."""
        return cls(resources.files(package).joinpath(f"{name}.md").read_text(encoding="utf-8"), values)


FIELD = re.compile(r"\{\{([a-z]\w*(?:\.\w+|\[\w+\])*)(:[^{}]*)?\}\}", re.IGNORECASE)
MARK = re.compile(r"\[([a-z ]+): ([\w.\[\]]+)\]")


class Report:
    """A page that grows from top to bottom.

    title   of the page
    source  the paper, as a line of text

    In texts, cells and captions `$...$` is a formula in LaTeX (what matplotlib's mathtext knows,
    and matrices, cases and aligned lines), and `...` between backticks is code.

        report = Report("Two plus two", "Anonymous (1900)")
        report.section("Sums")
        report.text("We look at $2 + 2$.")
        report.table([["2 + 2", 4, Verdict("2 + 2 = 4", "holds", 2 + 2 == 4)]], ["sum", "value", ""])
        report.save("sums.html")

    The same from a template, filled with {"total": 2 + 2, "four": 2 + 2 == 4, "rows": [["2 + 2", 4]]}:

        # Two plus two
        Anonymous (1900)

        ## Sums
        We look at $2 + 2$, which is {{total}}, or {{total:.3f}}.

        $$ 2 + 2 = 4 $$ (1)

        | sum | value |
        |---|---|
        | {{rows}} |
        : A caption.

        - [holds: four] $2 + 2$ is {{total}}

    A placeholder alone in a paragraph is a figure of matplotlib, a moving picture, a formula, a `Part` or a
    list of such; lines that begin with a colon are its caption, and that of a table to be folded begins with
    [folded]. A row of a table that is one placeholder stands for rows; a cell `[holds: name]` is a verdict.
    Lines of three backticks enclose code.
    """

    def __init__(self, title: str, source: str) -> None:
        self.title, self.source = title, source
        self.verdicts: list[Verdict] = []
        self._parts: list[str] = []
        self._sections: list[str] = []
        self._formulas = Typesetter()

    @classmethod
    def from_template(cls, package: str, values: Mapping[str, Any]) -> Report:
        """The page `page.md` of a study, filled with values by their names."""
        page = Part.of(package, "page", values)
        title, source, text = page.text.removeprefix("# ").split("\n", 2)
        report = cls(title.strip(), source.strip())
        report.part(Part(text, values))
        return report

    # -- what goes in -------------------------------------------------------------------------------------

    def part(self, part: Part) -> None:
        """Everything in a template, in its order."""
        for chunk in _chunks(part.text):
            self._chunk(chunk, part.values)

    def section(self, title: str, level: int = 2) -> None:
        """A heading; those of level 2 make the table of contents."""
        anchor = ""
        if level == 2:
            self._sections.append(title)
            anchor = f' id="s{len(self._sections)}"'
        self._parts.append(f"<h{level}{anchor}>{self._inline(title)}</h{level}>")

    def text(self, *paragraphs: str) -> None:
        """Paragraphs."""
        self._parts += [f"<p>{self._inline(' '.join(p.split()))}</p>" for p in paragraphs]

    def formula(self, latex: str, label: str = "") -> None:
        """A formula on a line of its own, with a label such as "(F-57)" at its right."""
        name = f'<span class="label">{self._inline(label)}</span>' if label else ""
        self._parts.append(f'<div class="formula"><div>{self._formulas.svg(latex)}</div>{name}</div>')

    def table(
        self, rows: Iterable[Sequence[Any]], header: Sequence[str], caption: str = "", folded: bool = False
    ) -> None:
        """A table. Cells are texts, numbers (set to two digits, integers as they are), verdicts or booleans.

        folded  whether the caption alone is seen until it is opened
        """
        rows = [list(row) for row in rows]
        if any(len(row) != len(header) for row in rows):
            raise ValueError(f"rows of {sorted({len(r) for r in rows})} cells under {len(header)} headings")
        numeric = [bool(rows) and all(_is_number(row[k]) for row in rows) for k in range(len(header))]
        head = "".join(f"<th{_class(n)}>{self._inline(h)}</th>" for h, n in zip(header, numeric, strict=True))
        cells = ((f"<td{_class(n)}>{self._cell(x)}</td>" for x, n in zip(row, numeric)) for row in rows)
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        words = self._inline(caption)
        title = f"<caption>{words}</caption>" if caption and not folded else ""
        table = (
            f'<div class="wide"><table class="rows">{title}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
        self._parts.append(f"<details><summary>{words}</summary>{table}</details>" if folded else table)

    def figure(self, figure: Any, caption: str = "") -> None:
        """A matplotlib figure, drawn into the page; it is closed here."""
        import matplotlib
        from matplotlib import pyplot

        buffer = io.StringIO()
        options: dict[str, Any] = {"bbox_inches": "tight"}
        if layout := figure.get_layout_engine():  # once, here: savefig would draw all to find it, and again
            layout.execute(figure)
            figure.set_layout_engine("none")
            options = {}
        with matplotlib.rc_context({"svg.hashsalt": self.title, "svg.fonttype": "path"}):
            figure.savefig(buffer, format="svg", metadata={"Date": None}, **options)
        pyplot.close(figure)
        svg = buffer.getvalue()
        prefix = f"f{len(self._parts)}-"  # names inside one picture must not meet those of another
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", svg[svg.index("<svg") :])
        self._captioned(svg, caption)

    def picture(self, data: bytes, caption: str = "", kind: str = "image/gif") -> None:
        """A picture made of pixels, still or moving, written into the page."""
        words = re.sub(r"[$`]", "", caption)
        source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        self._captioned(f'<img alt="{escape(words)}" src="{source}">', caption)

    def _captioned(self, picture: str, caption: str) -> None:
        note = f"<figcaption>{self._inline(caption)}</figcaption>" if caption else ""
        self._parts.append(f"<figure>{picture}{note}</figure>")

    def code(self, text: str) -> None:
        """Program text, as it stands."""
        self._parts.append(f"<pre><code>{escape(text.strip(chr(10)))}</code></pre>")

    def claims(self, *verdicts: Verdict) -> None:
        """Verdicts as lines of text: badge and claim."""
        self._parts += [f'<p class="claim">{self._badge(v)}{self._inline(v.claim)}</p>' for v in verdicts]

    # -- templates ----------------------------------------------------------------------------------------

    def _chunk(self, chunk: str, values: Mapping[str, Any]) -> None:
        """A paragraph of a template, by how it begins."""
        first, caption = chunk, ""
        if "\n: " in chunk:
            first, caption = chunk.split("\n: ", 1)
            caption = " ".join(caption.replace("\n: ", " ").split())
        caption = _filled(caption, values)
        if chunk.startswith("```"):
            self.code(chunk[chunk.index("\n") : -3])
        elif heading := re.match("(##+) ", chunk):
            self.section(_filled(chunk[heading.end() :], values), len(heading[1]))
        elif chunk.startswith("$$"):
            latex, label = chunk[2:].split("$$")
            self.formula(_filled(latex, values), label.strip())
        elif chunk.startswith("|"):
            header, _, *rows = (_cells(line) for line in first.splitlines())
            folded = caption.startswith(FOLDED)
            cells = _table_rows(rows, values)
            self.table(cells, [_filled(h, values) for h in header], caption.removeprefix(FOLDED), folded)
        elif chunk.startswith("- ["):
            self.claims(*(_claim(item, values) for item in re.split(r"\n(?=- \[)", chunk)))
        elif found := FIELD.fullmatch(first.strip()):
            self._value(_look_up(found[1], values), caption)
        else:
            self.text(_filled(chunk, values))

    def _value(self, value: Any, caption: str) -> None:
        """What a placeholder alone in a paragraph stands for."""
        if isinstance(value, list):
            for x in value:
                self._value(x, caption)
        elif isinstance(value, Part):
            self.part(value)
        elif isinstance(value, bytes):
            self.picture(value, caption)
        elif isinstance(value, str):
            self.formula(value, caption)
        else:
            self.figure(value, caption)

    def _badge(self, verdict: Verdict) -> str:
        """The badge of a verdict, which counts from now on."""
        self.verdicts.append(verdict)
        return verdict.badge

    # -- what comes out -----------------------------------------------------------------------------------

    @property
    def confirmed(self) -> bool:
        """Whether the numbers bear out every verdict."""
        return all(v.confirmed for v in self.verdicts)

    @property
    def html(self) -> str:
        """The page."""
        titles = enumerate(map(self._inline, self._sections), start=1)
        links = "".join(f'<a href="#s{k}">{title}</a>' for k, title in titles)
        contents = f"<nav>{links}</nav>" if len(self._sections) > 2 else ""
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{STYLE}</style></head><body><main>"
            f'<h1>{self._inline(self.title)}</h1><p class="source">{self._inline(self.source)}</p>'
            f"{self._summary()}{contents}\n"
            + "\n".join(self._parts)
            + f"\n{self._formulas.glyphs}</main></body></html>\n"
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, with the folders it needs; returns its path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _summary(self) -> str:
        if not self.verdicts:
            return ""
        counts = [(word, sum(v.says == word for v in self.verdicts)) for word in WORDS]
        tags = (f'<span class="badge {WORDS[w][1]}">{n} × {WORDS[w][0]}</span>' for w, n in counts if n)
        badges = " ".join(tags)
        bad = [v.claim for v in self.verdicts if not v.confirmed]
        words = f"NOT borne out by the numbers: {'; '.join(bad)}." if bad else BORNE_OUT
        words = f"{badges}<br>{self._inline(words)}"
        return f'<p class="summary">Claims looked at: {len(self.verdicts)}. {words}</p>'

    def _cell(self, x: Any) -> str:
        if isinstance(x, Verdict):
            return self._badge(x)
        if isinstance(x, bool):
            return "yes" if x else "no"
        if x is None:
            return ""
        if isinstance(x, str):
            return self._inline(x)
        return number(x)

    def _inline(self, text: str) -> str:
        """Text with `$...$` and backticks, as HTML."""
        parts = re.split(r"(\$[^$]+\$|`[^`]+`)", text)
        return "".join(
            self._formulas.svg(p[1:-1])
            if p.startswith("$") and len(p) > 2
            else f"<code>{escape(p[1:-1])}</code>"
            if p.startswith("`") and len(p) > 2
            else escape(p).replace("\n", "<br>")
            for p in parts
        )


def _chunks(text: str) -> Iterator[str]:
    """The paragraphs of a template: headings, code and what stands between blank lines."""
    for block in re.split(r"(?ms)^(```.*?^```|##.*?$)", text):
        yield from [block] if block.startswith("```") else filter(None, map(str.strip, block.split("\n\n")))


def _cells(line: str) -> list[str]:
    """The cells of a row of a table in Markdown; bars within a cell have no spaces about them."""
    return [cell.strip() for cell in re.split(r"(?<= )\|(?= )", f" {line.strip()[1:-1]} ")]


def _look_up(path: str, values: Mapping[str, Any]) -> Any:
    try:
        return Formatter().get_field(path, (), values)[0]
    except (KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"the template names {path!r}, which has no value: {error!r}") from error


def _filled(text: str, values: Mapping[str, Any]) -> str:
    """Text with its placeholders filled in, by `format` with what stands behind their colon."""

    def value(found: re.Match[str]) -> str:
        return format(_look_up(found[1], values), (found[2] or ":")[1:])

    return FIELD.sub(value, text)


def _claim(text: str, values: Mapping[str, Any]) -> Verdict:
    mark = MARK.match(text, 2)
    if mark is None:
        raise ValueError(f"the claim {text!r} has no verdict, such as [holds: name], at its beginning")
    words = " ".join(_filled(text[mark.end() :], values).split())
    return Verdict(words, mark[1], bool(_look_up(mark[2], values)))


def _table_rows(rows: Iterable[Sequence[str]], values: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    for row in rows:
        whole = FIELD.fullmatch(row[0]) if len(row) == 1 else None
        if whole:
            yield from _look_up(whole[1], values)
        else:
            yield [_table_cell(cell, row[0], values) for cell in row]


def _table_cell(cell: str, claim: str, values: Mapping[str, Any]) -> Any:
    if mark := MARK.fullmatch(cell):
        return Verdict(_filled(claim, values), mark[1], bool(_look_up(mark[2], values)))
    found = FIELD.fullmatch(cell)
    if found and not found[2]:
        return _look_up(found[1], values)
    return _filled(cell, values).replace("<br>", "\n")


def _is_number(x: Any) -> bool:
    return (not isinstance(x, bool) and isinstance(x, (int, float))) or x is None or hasattr(x, "dtype")


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def number(x: Any) -> str:
    """A number as HTML: integers as they are, others with two significant digits, 1.2·10^-15."""
    value = float(x)
    if not math.isfinite(value):
        return str(value)
    if value.is_integer() and abs(value) < 1e15:
        text = str(int(value))
    elif 1e-3 <= abs(value) < 1e5:
        text = f"{value:.{max(0, 1 - math.floor(math.log10(abs(value))))}f}"
    else:
        mantissa, exponent = f"{value:.1e}".split("e")
        text = f"{mantissa}·10<sup>{int(exponent)}</sup>"
    return text.replace("-", "−")
