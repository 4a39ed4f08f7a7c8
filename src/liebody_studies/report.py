"""Reports of the studies: text, formulas, tables, pictures in one HTML file without scripts or network."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from .formulas import Typesetter

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
STYLE = """
:root { color-scheme: light; --ink: #1b1f24; --soft: #5b6470; --line: #d8dde3; --tint: #f5f7f9;
        --blue: #1f5fa8; }
body { margin: 0; color: var(--ink); background: #fff; font: 16px/1.55 "Source Serif 4", "Charter", Georgia,
       "DejaVu Serif", serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .6rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin: 1.9rem 0 .3rem; }
p { margin: .6rem 0; max-width: 50rem; }
a { color: var(--blue); text-decoration: none; } a:hover { text-decoration: underline; }
.source, figcaption, caption { color: var(--soft); }
nav { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: .88rem; columns: 2; margin: 1.3rem 0; }
nav a { display: block; padding: .1rem 0; }
.formula { display: grid; grid-template-columns: 1fr auto; align-items: center; gap: 1.5rem;
           margin: .9rem 0; padding-left: 2rem; overflow-x: auto; }
.formula .label { color: var(--soft); font-size: .92rem; }
sup { line-height: 0; } svg.math { overflow: visible; font-size: 1.1em; }
.wide { overflow-x: auto; margin: 1rem 0; }
table.rows { border-collapse: collapse; font-size: .93rem; }
table.rows caption { text-align: left; padding-bottom: .4rem; caption-side: top; }
table.rows th { text-align: left; font-weight: 600; border-bottom: 2px solid var(--ink); padding: .35rem
  .8rem .35rem 0;
                vertical-align: bottom; font-family: system-ui, "DejaVu Sans", sans-serif; font-size:
  .84rem; }
table.rows td { border-bottom: 1px solid var(--line); padding: .42rem .8rem .42rem 0; vertical-align: top; }
table.rows td.number { font-variant-numeric: tabular-nums; white-space: nowrap; text-align: right; }
table.rows th.number { text-align: right; }
code, pre { font-family: "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size:
  .86em; }
code { background: var(--tint); padding: .08em .3em; border-radius: 3px; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem;
  overflow-x: auto;
      line-height: 1.45; } pre code { background: none; padding: 0; }
figure { margin: 1.4rem 0; } figure svg,
figure img { max-width: 100%; height: auto; }
figcaption { font-size: .92rem; max-width: 50rem; }
.badge { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: .78rem; font-weight: 600;
  white-space: nowrap;
         padding: .1rem .5rem; border-radius: 1rem; }
.right { background: #dff3e4; color: #14663a; } .slip { background: #fdf0d2; color: #7a5200; }
.wrong { background: #fbe0de; color: #96221b; } .broken { background: #96221b; color: #fff; }
.claim { margin: .5rem 0; max-width: 50rem; } .claim .badge { margin-right: .5rem; }
.summary { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .7rem 1rem;
  }
@media (max-width: 40rem) { nav { columns: 1; } } @media print { nav { display: none; } h2 { break-after:
  avoid; } }
"""


@dataclass(frozen=True)
class Correction:
    """A slip of a source: what it prints, what is right, and how far each is from the truth.

    number  as in the list of errata
    before  relative discrepancy as printed; None where that cannot be evaluated: dimensions that do not fit,
            or a slip of words
    after   of the corrected one
    says    a verdict, a key of WORDS
    where   the place in the source, unless the number says it
    """

    number: str
    printed: str
    correct: str
    before: float | None
    after: float
    says: str = "misprint"
    where: str = ""

    @property
    def confirmed(self) -> bool:
        """Whether what is printed is off, or holds if that is said of it, and the correction is right."""
        wrong = self.before is None or (self.before < EXACT if self.says == "holds" else self.before > APART)
        return wrong and self.after < EXACT


@dataclass(frozen=True)
class Verdict:
    """What a study says of a claim (a key of WORDS), and whether the numbers bear that out."""

    claim: str
    says: str
    confirmed: bool

    @property
    def badge(self) -> str:
        if not self.confirmed:
            return f'<span class="badge broken">not confirmed: {WORDS[self.says][0]}</span>'
        word, colour = WORDS[self.says]
        return f'<span class="badge {colour}">{word}</span>'


class Report:
    """A page that grows from top to bottom.

    title   of the page
    source  the paper, as a line of text

    In texts, cells and captions `$...$` is a formula in LaTeX (what matplotlib's mathtext knows,
    and matrices, cases and aligned lines), and `...` between backticks is code.

        report = Report("Two plus two", "Anonymous (1900)")
        report.section("Sums")
        report.text("We look at $2 + 2$.")
        report.table([["2 + 2", 4, report.verdict("2 + 2 = 4", "holds", 2 + 2 == 4)]], ["sum", "value", ""])
        report.save("sums.html")
    """

    def __init__(self, title: str, source: str) -> None:
        self.title, self.source = title, source
        self.verdicts: list[Verdict] = []
        self._parts: list[str] = []
        self._sections: list[str] = []
        self._formulas = Typesetter()

    # -- what goes in -------------------------------------------------------------------------------------

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

    def table(self, rows: Iterable[Sequence[Any]], header: Sequence[str], caption: str = "") -> None:
        """A table. Cells are texts, numbers (set to three digits), verdicts or booleans."""
        rows = [list(row) for row in rows]
        if any(len(row) != len(header) for row in rows):
            raise ValueError(f"rows of {sorted({len(r) for r in rows})} cells under {len(header)} headings")
        numeric = [bool(rows) and all(_is_number(row[k]) for row in rows) for k in range(len(header))]
        head = "".join(f"<th{_class(n)}>{self._inline(h)}</th>" for h, n in zip(header, numeric, strict=True))
        cells = [
            [f"<td{_class(n)}>{self._cell(x)}</td>" for x, n in zip(r, numeric, strict=True)] for r in rows
        ]
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        words = f"<caption>{self._inline(caption)}</caption>" if caption else ""
        self._parts.append(
            f'<div class="wide"><table class="rows">{words}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def figure(self, figure: Any, caption: str = "") -> None:
        """A matplotlib figure, drawn into the page; it is closed here."""
        import matplotlib
        from matplotlib import pyplot

        buffer = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": self.title, "svg.fonttype": "path"}):
            figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
        svg = buffer.getvalue()
        prefix = f"f{len(self._parts)}-"  # names inside one picture must not meet those of another
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", svg[svg.index("<svg") :])
        note = f"<figcaption>{self._inline(caption)}</figcaption>" if caption else ""
        self._parts.append(f"<figure>{svg}{note}</figure>")

    def picture(self, data: bytes, caption: str = "", kind: str = "image/gif") -> None:
        """A picture made of pixels, still or moving, written into the page."""
        words = re.sub(r"[$`]", "", caption)
        note = f"<figcaption>{self._inline(caption)}</figcaption>" if caption else ""
        source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        self._parts.append(f'<figure><img alt="{escape(words)}" src="{source}">{note}</figure>')

    def code(self, text: str) -> None:
        """Program text, as it stands."""
        self._parts.append(f"<pre><code>{escape(text.strip(chr(10)))}</code></pre>")

    def verdict(self, claim: str, says: str, confirmed: Any) -> Verdict:
        """Record what the study says of a claim of the paper, for a cell of a table or `claims`.

        claim      the claim, in words
        says       a key of WORDS: "holds", "misprint", "imprecise", "wrong"; of numbers "reproduced",
                   "partly", "not", "cannot be"
        confirmed  whether the numbers of this run bear that out; if not, the page says so in red
        """
        if says not in WORDS:
            raise ValueError(f"verdict {says!r}: expected one of {', '.join(WORDS)}")
        verdict = Verdict(claim, says, bool(confirmed))
        self.verdicts.append(verdict)
        return verdict

    def claims(self, *verdicts: Verdict) -> None:
        """Verdicts as lines of text: badge and claim."""
        self._parts += [f'<p class="claim">{v.badge}{self._inline(v.claim)}</p>' for v in verdicts]

    # -- what comes out -----------------------------------------------------------------------------------

    @property
    def confirmed(self) -> bool:
        """Whether the numbers bear out every verdict."""
        return all(v.confirmed for v in self.verdicts)

    @property
    def html(self) -> str:
        """The page."""
        links = "".join(
            f'<a href="#s{k}">{self._inline(s)}</a>' for k, s in enumerate(self._sections, start=1)
        )
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
        badges = " ".join(
            f'<span class="badge {WORDS[w][1]}">{n} × {WORDS[w][0]}</span>' for w, n in counts if n
        )
        bad = [v.claim for v in self.verdicts if not v.confirmed]
        words = (
            "the numbers of this page bear out all of them."
            if not bad
            else f"NOT borne out by the numbers: {'; '.join(bad)}."
        )
        words = f"{badges}<br>{self._inline(words)}"
        return f'<p class="summary">Claims looked at: {len(self.verdicts)}. {words}</p>'

    def _cell(self, x: Any) -> str:
        if isinstance(x, Verdict):
            return x.badge
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


def _is_number(x: Any) -> bool:
    return (not isinstance(x, bool) and isinstance(x, (int, float))) or x is None or hasattr(x, "dtype")


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def number(x: Any, digits: int = 2) -> str:
    """A number as HTML: integers as they are, others with `digits` significant digits, 1.2·10^-15."""
    value = float(x)
    if not math.isfinite(value):
        return str(value)
    if value.is_integer() and abs(value) < 1e15:
        text = str(int(value))
    elif 1e-3 <= abs(value) < 1e5:
        text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    else:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{mantissa}·10<sup>{int(exponent)}</sup>"
    return text.replace("-", "−")
