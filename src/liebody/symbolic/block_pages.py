"""Pages on which matrices are written: LaTeX, and drawings for a terminal."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy

from .numbers import readable_numbers

LETTERS = {  # words of names, as LaTeX and as text
    "Gamma": (r"\Gamma", "Γ"),
    "Theta": (r"\Theta", "Θ"),
    "gamma": (r"\gamma", "γ"),
    "nu": (r"\nu", "ν"),
    "omega": (r"\omega", "ω"),
    "epsilon": (r"\epsilon", "ε"),
    "tau": (r"\tau", "τ"),
    "lambda": (r"\lambda", "λ"),
    "connection": (r"\mathcal{A}", "𝒜"),
}
SUBSCRIPTS = str.maketrans("0123456789i-", "₀₁₂₃₄₅₆₇₈₉ᵢ₋")
TILDE = "\u0303"
MARKS = {"hat": "\u0302", "dot": "\u0307", "": ""}
CAPITALS = string.ascii_uppercase
BOLD = str.maketrans(
    CAPITALS + CAPITALS.lower() + "Θ", "".join(chr(0x1D400 + k) for k in range(52)) + "\U0001d6af"
)


class Page:
    """How expressions are put down: words, rows, matrices.

    bold  letters of names with an index that are written in bold, as symbols have the same letter
    """

    def __init__(self, bold: Collection[str] = ()) -> None:
        self.bold = frozenset(bold)

    def put(self, latex: str, text: str) -> Any:
        """A word of either language."""
        raise NotImplementedError

    def scalar(self, x: Any) -> Any:
        """A SymPy expression."""
        raise NotImplementedError

    def name(self, letter: str, index: str, mark: str) -> Any:
        """A letter with a subscript, and a mark above it: hat or dot."""
        raise NotImplementedError

    def row(self, words: Sequence[Any]) -> Any:
        """Words side by side."""
        raise NotImplementedError

    def joined(self, factors: Sequence[Any]) -> Any:
        """Factors side by side."""
        return self.row([y for x in factors for y in (self.put(" ", " "), x)][1:])

    def sign(self, sign: str) -> Any:
        """A sign between terms."""
        return self.put(f" {sign} ", f" {sign} ")

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        """A matrix of entries."""
        raise NotImplementedError

    def parentheses(self, x: Any) -> Any:
        """x in parentheses."""
        raise NotImplementedError

    def raised(self, x: Any, latex: str, text: str) -> Any:
        """x with an exponent."""
        raise NotImplementedError

    def transposed(self, x: Any) -> Any:
        """The transpose of x."""
        return self.raised(x, r"\top", "ᵀ")

    def applied(self, latex: str, text: str, x: Any) -> Any:
        """An operator with the index x."""
        raise NotImplementedError


class LatexPage(Page):
    """LaTeX, with the matrices of amsmath.

    symbol_names  LaTeX of symbols that SymPy would not guess
    """

    def __init__(self, symbol_names: Mapping[Any, str] | None = None, bold: Collection[str] = ()) -> None:
        super().__init__(bold)
        self.symbol_names = dict(symbol_names or {})

    def put(self, latex: str, text: str) -> str:
        return latex

    def scalar(self, x: Any) -> str:
        return str(sympy.latex(readable_numbers(x), symbol_names=self.symbol_names))

    def name(self, letter: str, index: str, mark: str) -> str:
        bold = letter in self.bold and index
        letter = LETTERS.get(letter, (letter, ""))[0]
        letter = rf"\boldsymbol{{{letter}}}" if bold else letter
        letter = rf"\{mark}{{{letter}}}" if mark else letter
        index = LETTERS.get(index, (index, ""))[0]
        return letter + (f"_{index}" if len(index) == 1 else f"_{{{index}}}" if index else "")

    def row(self, words: Sequence[str]) -> str:
        return "".join(words)

    def matrix(self, rows: Sequence[Sequence[str]]) -> str:
        entries = r" \\ ".join(" & ".join(row) for row in rows)
        return rf"\begin{{bmatrix}}{entries}\end{{bmatrix}}"

    def parentheses(self, x: str) -> str:
        return f"({x})" if r"\begin" not in x and r"\frac" not in x else rf"\left({x}\right)"

    def raised(self, x: str, latex: str, text: str) -> str:
        # an exponent beside one that is there would be an error of LaTeX
        base = x if "^" not in x.rpartition("}")[2] and not x.endswith("}^\\perp") else f"{{{x}}}"
        return f"{base}^{latex}" if latex.startswith("\\") or len(latex) == 1 else f"{base}^{{{latex}}}"

    def applied(self, latex: str, text: str, x: str) -> str:
        return f"{latex}_{{{x}}}"


class _Drawing(NamedTuple):
    """Lines of text, and the number of the one that stands in the line of what is beside it."""

    lines: tuple[str, ...]
    middle: int = 0

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)


class TextPage(Page):
    """Drawings for a terminal."""

    def put(self, latex: str, text: str) -> _Drawing:
        return _Drawing((text,))

    def scalar(self, x: Any) -> _Drawing:
        drawn = sympy.pretty(readable_numbers(x), use_unicode=True, wrap_line=False, full_prec=False)
        lines = tuple(drawn.splitlines())
        return _Drawing(lines, len(lines) // 2)

    def name(self, letter: str, index: str, mark: str) -> _Drawing:
        bold = letter in self.bold and index
        letter = LETTERS.get(letter, ("", letter))[1]
        letter = (letter.translate(BOLD) if bold else letter) + MARKS[mark]
        index = LETTERS.get(index, ("", index))[1].translate(SUBSCRIPTS)
        drawn = index and all(c in "ᵢ₋₀₁₂₃₄₅₆₇₈₉" for c in index)
        return _Drawing((letter + (index if drawn else f"_{index}" if index else ""),))

    def row(self, words: Sequence[_Drawing]) -> _Drawing:
        above = max(x.middle for x in words)
        below = max(len(x.lines) - x.middle for x in words)
        lines = []
        for k in range(-above, below):
            line = ""
            for x in words:
                inside = 0 <= k + x.middle < len(x.lines)
                line += _padded(x.lines[k + x.middle] if inside else "", max(map(_width, x.lines)))
            lines.append(line)
        return _Drawing(tuple(lines), above)

    def matrix(self, rows: Sequence[Sequence[_Drawing]]) -> _Drawing:
        widths = [max(_width(line) for x in column for line in x.lines) for column in zip(*rows, strict=True)]
        lines: list[str] = []
        for row in rows:
            gap = _Drawing(("  ",))
            cells = [
                _Drawing(tuple(_centred(line, w) for line in x.lines), x.middle)
                for x, w in zip(row, widths, strict=True)
            ]
            lines += self.row([y for cell in cells for y in (gap, cell)][1:]).lines
        return _Drawing(tuple(_bracketed(lines)), len(lines) // 2)

    def parentheses(self, x: _Drawing) -> _Drawing:
        left, right = (_Drawing((sign,) * len(x.lines), x.middle) for sign in "()")
        return self.row([left, x, right])

    def raised(self, x: _Drawing, latex: str, text: str) -> _Drawing:
        # beside a single line, at the upper corner of several
        return self.row([x, _Drawing((text,), x.middle)])

    def applied(self, latex: str, text: str, x: _Drawing) -> _Drawing:
        return self.row([_Drawing((text,)), self.parentheses(x)])


def _width(line: str) -> int:
    """Columns of a line: marks above letters take none."""
    return sum(not unicodedata.combining(c) for c in line)


def _padded(line: str, width: int) -> str:
    return line + " " * (width - _width(line))


def _centred(line: str, width: int) -> str:
    return _padded(" " * ((width - _width(line)) // 2) + line, width)


def _bracketed(lines: Sequence[str]) -> Iterator[str]:
    """Square brackets around lines."""
    if len(lines) == 1:
        yield f"[{lines[0]}]"
        return
    inner = len(lines) - 2
    for line, left, right in zip(lines, "⎡" + "⎢" * inner + "⎣", "⎤" + "⎥" * inner + "⎦", strict=True):
        yield left + line + right
