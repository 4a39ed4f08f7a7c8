"""LaTeX formulas as inline SVG: matplotlib's mathtext, with matrices, cases and aligned lines around it.

To draw MathML well a browser needs fonts that few machines have; outlines of glyphs look the same everywhere.
Each glyph is stored once in a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np

SIZE = 100.0  # units to the em, in which everything below is measured
AXIS, STROKE = 26.0, 4.2  # height of the fraction bar, width of brackets
COLUMN, ROW = 78.0, 34.0  # gaps in a matrix
ALIGNED_ROW = 52.0

REPLACED = {
    r"\tfrac": r"\frac", r"\lVert": r"\|", r"\rVert": r"\|", r"\mathsf": r"\mathrm",
    r"\displaystyle": "", r"\textstyle": "", r"\bigl": "", r"\bigr": "", r"\Bigl": "", r"\Bigr": "",
    r"\boldsymbol": r"\mathbf", r"\varpi": r"\pi",
}  # fmt: skip
FENCES = {
    "matrix": ("", ""), "smallmatrix": ("", ""), "array": ("", ""), "aligned": ("", ""), "cases": ("{", ""),
    "bmatrix": ("[", "]"), "pmatrix": ("(", ")"), "vmatrix": ("|", "|"),
}  # fmt: skip
BEGIN = re.compile(r"\\begin\{(\w+)\}")
OPENING = re.compile(r"\\left\s*(\[|\(|\||\\\{|\.)\s*$")
CLOSING = re.compile(r"^\s*\\right\s*(\]|\)|\||\\\}|\.)")
SCRIPT = re.compile(r"^\s*([\^_])\s*(\{[^{}]*\}|\\[a-zA-Z]+|.)")


class Box(NamedTuple):
    """A piece of a formula: its size about the baseline, and how to draw it with its left end at (x, y)."""

    width: float
    ascent: float
    descent: float
    draw: Callable[[float, float], list[str]]


class Typesetter:
    """Formulas of one page, which share their glyphs.

    svg(latex) draws a formula as an inline `svg` element; `glyphs` has to stand once in the page.
    Raises ValueError for what is not understood.
    """

    def __init__(self) -> None:
        self._outlines: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def svg(self, latex: str) -> str:
        """The formula, on the baseline of the text around it and in its size and colour."""
        box = self._formula(latex)
        height = box.ascent + box.descent
        em = [f"{x / SIZE:.4g}em" for x in (box.width, height, -box.descent)]
        return (
            f'<svg class="math" role="img" aria-label="{escape(latex, quote=True)}"'
            f' style="width:{em[0]};height:{em[1]};vertical-align:{em[2]}"'
            f' viewBox="0 {-box.ascent:.4g} {max(box.width, 1e-3):.5g} {max(height, 1e-3):.5g}"'
            f' fill="currentColor">{"".join(box.draw(0.0, 0.0))}</svg>'
        )

    @property
    def glyphs(self) -> str:
        """The outlines of all glyphs so far, as a hidden `svg` element."""
        paths = "".join(f'<path id="{name}" d="{d}"/>' for name, d in self._outlines.items())
        return f'<svg width="0" height="0" style="position:absolute"><defs>{paths}</defs></svg>'

    def _formula(self, latex: str) -> Box:
        """A row of runs of mathtext and of environments, which may nest."""
        text = " ".join(latex.split())
        for command, plain in REPLACED.items():
            text = re.sub(re.escape(command) + r"(?![a-zA-Z])", plain.replace("\\", r"\\"), text)
        boxes: list[Box] = []
        while found := BEGIN.search(text):
            before, name = text[: found.start()], found[1]
            if name not in FENCES:
                raise ValueError(f"the formula {latex!r} uses the unknown environment {name}")
            body, text = _environment(text[found.end() :], name, latex)
            left, right = FENCES[name]
            opening, closing = OPENING.search(before), CLOSING.search(text)
            if opening and closing:
                before, text = before[: opening.start()], text[closing.end() :]
                left, right = (m[1].strip("\\").replace(".", "") for m in (opening, closing))
            boxes.append(self._run(before, latex))
            table = self._fenced(self._table(body, name), left, right)
            while script := SCRIPT.search(text):
                table = self._scripted(table, script[1], script[2], latex)
                text = text[script.end() :]
            boxes.append(table)
        boxes.append(self._run(text, latex))
        return _row(boxes)

    def _run(self, latex: str, whole: str) -> Box:
        """Mathtext without environments."""
        if not latex.strip():
            space = SIZE if r"\qquad" in latex else SIZE / 6 if latex else 0.0
            return Box(space, 0.0, 0.0, lambda x, y: [])
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path

        properties = FontProperties(size=SIZE, math_fontfamily="stix")
        source = f"${latex.strip()}$"
        try:
            width, height, descent = text_to_path.get_text_width_height_descent(source, properties, True)
            glyphs, outlines, rectangles = text_to_path.get_glyphs_mathtext(properties, source)
        except ValueError as error:
            raise ValueError(f"the formula {whole!r} is not understood: {error}") from error
        scale = SIZE / text_to_path.FONT_SCALE
        for key, (vertices, codes) in outlines.items():
            if key not in self._names:
                self._names[key] = f"g{len(self._names)}"
                self._outlines[self._names[key]] = _path(np.asarray(vertices), codes)

        def draw(x: float, y: float) -> list[str]:
            parts = []
            for key, gx, gy, size in glyphs:
                at = f"{x + scale * gx:.4g} {y - scale * gy:.4g}"
                k = scale * size
                parts.append(f'<use href="#{self._names[key]}" transform="translate({at}) scale({k:.4g})"/>')
            for vertices, _ in rectangles:
                corners = scale * np.asarray(vertices)[:4]
                (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
                thick = max(y1 - y0, STROKE)
                at = f'x="{x + x0:.4g}" y="{y - y0 - thick:.4g}"'
                parts.append(f'<rect {at} width="{x1 - x0:.4g}" height="{thick:.3g}"/>')
            return parts

        return Box(width, max(height - descent, 0.0), max(descent, 0.0), draw)

    def _table(self, body: str, name: str) -> Box:
        rows = [[self._formula(cell) for cell in row] for row in _cells(body)]
        columns = max(map(len, rows), default=0)
        widths = [max((row[j].width for row in rows if j < len(row)), default=0.0) for j in range(columns)]
        ascents = [max([70.0, *(box.ascent for box in row)]) for row in rows]
        descents = [max([22.0, *(box.descent for box in row)]) for row in rows]
        gap = ALIGNED_ROW if name == "aligned" else ROW
        total = sum(ascents) + sum(descents) + gap * (len(rows) - 1)
        spaces = [0.0 if name == "aligned" and j % 2 else COLUMN for j in range(1, columns)]
        lefts = [sum(widths[:j]) + sum(spaces[:j]) for j in range(columns)]
        top = AXIS + total / 2

        def draw(x: float, y: float) -> list[str]:
            parts, at = [], y - top
            for row, ascent, descent in zip(rows, ascents, descents, strict=True):
                at += ascent
                for j, box in enumerate(row):
                    slack = widths[j] - box.width
                    shift = {"aligned": slack * (1 - j % 2), "cases": 0.0}.get(name, slack / 2)
                    parts += box.draw(x + lefts[j] + shift, at)
                at += descent + gap
            return parts

        return Box(sum(widths) + sum(spaces), top, total - top, draw)

    def _fenced(self, box: Box, left: str, right: str) -> Box:
        if not (left or right):
            return box
        pad, inset = 14.0, 34.0
        before, after = (inset if f else 6.0 for f in (left, right))
        top, bottom = box.ascent + pad, box.descent + pad

        def draw(x: float, y: float) -> list[str]:
            ends = [(left, x + STROKE, 1.0), (right, x + before + box.width + after - STROKE, -1.0)]
            marks = [_fence(f, at, y - top, y + bottom, to) for f, at, to in ends if f]
            return [*marks, *box.draw(x + before, y)]

        return Box(before + box.width + after, top, bottom, draw)

    def _scripted(self, box: Box, where: str, script: str, whole: str) -> Box:
        """A matrix with an exponent or an index at its right end."""
        small = self._run(f"{{}}{where}{script}", whole)
        lift = box.ascent - 60.0 if where == "^" else -(box.descent - 25.0)

        def draw(x: float, y: float) -> list[str]:
            return [*box.draw(x, y), *small.draw(x + box.width, y - lift)]

        above = max(box.ascent, small.ascent + lift)
        return Box(box.width + small.width, above, max(box.descent, small.descent - lift), draw)


def _row(boxes: list[Box]) -> Box:
    boxes = [box for box in boxes if box.width]

    def draw(x: float, y: float) -> list[str]:
        parts = []
        for box in boxes:
            parts += box.draw(x, y)
            x += box.width + SIZE / 8
        return parts

    width = sum(box.width for box in boxes) + SIZE / 8 * max(len(boxes) - 1, 0)
    return Box(width, max([0, *(b.ascent for b in boxes)]), max([0, *(b.descent for b in boxes)]), draw)


def _environment(text: str, name: str, whole: str) -> tuple[str, str]:
    """The body of an environment whose beginning has been read, and what follows it."""
    depth = 1
    for token in re.finditer(r"\\(begin|end)\{(\w+)\}", text):
        depth += 1 if token[1] == "begin" else -1
        if depth == 0:
            body = text[: token.start()]
            return re.sub(r"^\s*\{[^{}]*\}", "", body) if name == "array" else body, text[token.end() :]
    raise ValueError(f"\\begin{{{name}}} has no end in the formula {whole!r}")


def _cells(body: str) -> list[list[str]]:
    """Rows and cells of an environment, at its own depth."""
    rows, depth = [[""]], 0
    for token in re.findall(r"\\begin|\\end|\\\\|\\.|[&{}]|[^\\&{}]+", body):
        depth += {"{": 1, "}": -1, r"\begin": 1, r"\end": -1}.get(token, 0)
        if depth == 0 and token == "&":
            rows[-1].append("")
        elif depth == 0 and token == r"\\":
            rows.append([""])
        else:
            rows[-1][-1] += token
    return [row for row in rows if any(c.strip() for c in row)]


def _fence(kind: str, x: float, top: float, bottom: float, to: float) -> str:
    """A bracket at x from top to bottom, open towards `to` (1: right, -1: left)."""
    height = bottom - top
    arm, bow = 16 * to, min(26.0, height / 6) * to
    if kind in "[]":
        d = f"M{x + arm:.4g} {top:.4g}H{x:.4g}V{bottom:.4g}H{x + arm:.4g}"
    elif kind in "()":
        d = f"M{x + bow:.4g} {top:.4g}Q{x - 0.6 * bow:.4g} {top + height / 2:.4g} {x + bow:.4g} {bottom:.4g}"
    elif kind in "{}":
        middle, r = top + height / 2, min(14.0, height / 8)
        spine, tip = x + 9 * to, x - 3 * to
        d = (
            f"M{spine + 12 * to:.4g} {top:.4g}Q{spine:.4g} {top:.4g} {spine:.4g} {top + r:.4g}"
            f"V{middle - r:.4g}Q{spine:.4g} {middle:.4g} {tip:.4g} {middle:.4g}"
            f"Q{spine:.4g} {middle:.4g} {spine:.4g} {middle + r:.4g}V{bottom - r:.4g}"
            f"Q{spine:.4g} {bottom:.4g} {spine + 12 * to:.4g} {bottom:.4g}"
        )
    else:
        d = f"M{x:.4g} {top:.4g}V{bottom:.4g}"
    return f'<path d="{d}" fill="none" stroke="currentColor" stroke-width="{STROKE}"/>'


def _path(vertices: Any, codes: Any) -> str:
    """SVG path data of a glyph's outline, y pointing down."""
    letters = {1: ("M", 1), 2: ("L", 1), 3: ("Q", 2), 4: ("C", 3), 79: ("Z", 1)}
    parts, k = [], 0
    while k < len(codes):
        letter, points = letters[int(codes[k])]
        if letter != "Z":
            numbers = [f"{x:.4g} {-y:.4g}" for x, y in vertices[k : k + points]]
            letter += " ".join(numbers)
        parts.append(letter)
        k += points
    return "".join(parts)
