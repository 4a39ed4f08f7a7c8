"""LaTeX formulas as MathML, which browsers draw without scripts or network: the subset that formulas here use.

Letters, numbers, scripts, fractions, roots, accents, fonts, stretched fences, matrices, cases and aligned
lines; what SymPy's printer writes is among it. A command that is not known is an error, not a gap.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ",
    "eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ",
    "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "ϕ", "varphi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
    "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "partial": "∂", "infty": "∞", "nabla": "∇",
    "top": "⊤", "ell": "ℓ", "ldots": "…", "cdots": "⋯", "dots": "…", "vdots": "⋮", "ddots": "⋱", "emptyset": "∅",
}  # fmt: skip
OPERATORS = {
    "cdot": "⋅", "times": "×", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠",
    "neq": "≠", "approx": "≈", "equiv": "≡", "sim": "∼", "cong": "≅", "to": "→", "mapsto": "↦", "in": "∈",
    "notin": "∉", "subset": "⊂", "oplus": "⊕", "otimes": "⊗", "ltimes": "⋉", "wedge": "∧", "vee": "∨", "circ": "∘",
    "sum": "∑", "prod": "∏", "int": "∫", "Rightarrow": "⇒", "Leftrightarrow": "⇔", "rightarrow": "→",
    "leftarrow": "←", "forall": "∀", "mid": "|", "langle": "⟨", "rangle": "⟩", "lVert": "‖", "rVert": "‖",
    "|": "‖", "{": "{", "}": "}", "%": "%", "colon": ":", "prime": "′", "setminus": "∖", "ast": "∗", "ll": "≪",
    "gg": "≫", "propto": "∝", "perp": "⊥",
}  # fmt: skip
FUNCTIONS = {
    "sin", "cos", "tan", "cot", "exp", "log", "ln", "det", "dim", "ker", "min", "max", "lim", "arctan", "sinh",
    "cosh", "sgn", "operatorname",
}  # fmt: skip
SPACES = {",": 0.17, ":": 0.22, ";": 0.28, " ": 0.33, "!": -0.17, "quad": 1.0, "qquad": 2.0, "enspace": 0.5}
ACCENTS = {
    "dot": "˙", "ddot": "¨", "hat": "^", "widehat": "^", "tilde": "~", "widetilde": "~", "bar": "¯",
    "overline": "¯", "vec": "→",
}  # fmt: skip
VARIANTS = {
    "mathrm": "normal", "text": "normal", "textrm": "normal", "mathbf": "bold", "boldsymbol": "bold-italic",
    "mathcal": "script", "mathbb": "double-struck", "mathfrak": "fraktur", "mathit": "italic",
    "mathsf": "sans-serif",
}  # fmt: skip
OFFSETS = {"bold": (0x1D400, 0x1D41A), "bold-italic": (0x1D468, 0x1D482), "sans-serif": (0x1D5A0, 0x1D5BA)}
SCRIPT = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "𝒜ℬ𝒞𝒟ℰℱ𝒢ℋℐ𝒥𝒦ℒℳ𝒩𝒪𝒫𝒬ℛ𝒮𝒯𝒰𝒱𝒲𝒳𝒴𝒵", strict=True))
DOUBLE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "𝔸𝔹ℂ𝔻𝔼𝔽𝔾ℍ𝕀𝕁𝕂𝕃𝕄ℕ𝕆ℙℚℝ𝕊𝕋𝕌𝕍𝕎𝕏𝕐ℤ", strict=True))
FRAKTUR = dict(zip("abcdefghijklmnopqrstuvwxyz", "𝔞𝔟𝔠𝔡𝔢𝔣𝔤𝔥𝔦𝔧𝔨𝔩𝔪𝔫𝔬𝔭𝔮𝔯𝔰𝔱𝔲𝔳𝔴𝔵𝔶𝔷", strict=True))
LIMITS = {"sum", "prod", "lim", "min", "max"}
FENCES = {
    "matrix": "",
    "smallmatrix": "",
    "array": "",
    "bmatrix": "square",
    "pmatrix": "round",
    "vmatrix": "bar",
}
SHAPES = {("[", "]"): "square", ("(", ")"): "round", ("|", "|"): "bar"}
IGNORED = {"displaystyle", "textstyle", "limits", "nolimits", "big", "Big", "bigl", "bigr", "Bigl", "Bigr",
           "bigg", "Bigg", "biggl", "biggr", "nonumber", "-"}  # fmt: skip

TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)


def mathml(latex: str, display: bool = False) -> str:
    """A formula in LaTeX, without dollars, as a `math` element.

    Raises ValueError for commands that are not in the tables above, and for braces that do not match.
    """
    parser = _Parser(latex)
    body = parser.row(end=None)
    kind = ' display="block"' if display else ""
    return f"<math{kind}><mrow>{body}</mrow></math>"


class _Parser:
    """Recursive descent over the tokens of one formula; every method returns MathML."""

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.tokens: list[str] = TOKEN.findall(latex)
        self.at = 0

    def peek(self, skip_space: bool = True) -> str | None:
        while skip_space and self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next(self) -> str:
        token = self.peek()
        if token is None:
            raise ValueError(f"the formula {self.latex!r} ends early; close its braces and environments")
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if (found := self.next()) != token:
            raise ValueError(f"expected {token!r}, not {found!r}, in the formula {self.latex!r}")

    def row(self, end: tuple[str, ...] | None) -> str:
        """Atoms with their scripts up to one of the tokens `end`, which stays; None: up to the last token."""
        atoms = []
        while (token := self.peek()) is not None and (end is None or token not in end):
            if end is None and token in ("}", "\\right", "\\end"):
                raise ValueError(f"{token!r} without its beginning in the formula {self.latex!r}")
            atoms.append(self.scripted())
        return "".join(atoms)

    def scripted(self) -> str:
        limits = (self.peek() or "").lstrip("\\") in LIMITS
        base = "<mrow></mrow>" if self.peek() in ("^", "_") else self.atom()
        below = above = ""
        while (token := self.peek()) in ("^", "_", "'"):
            self.at += 1
            if token == "'":
                above += "<mo>′</mo>"
            elif token == "^":
                above += self.argument()
            else:
                below += self.argument()
        tags = ("munder", "mover", "munderover") if limits else ("msub", "msup", "msubsup")
        if below and above:
            return f"<{tags[2]}>{base}{_one(below)}{_one(above)}</{tags[2]}>"
        if below:
            return f"<{tags[0]}>{base}{_one(below)}</{tags[0]}>"
        return f"<{tags[1]}>{base}{_one(above)}</{tags[1]}>" if above else base

    def argument(self) -> str:
        """A group in braces, or one atom."""
        if self.peek() == "{":
            return self.group()
        return self.atom()

    def group(self) -> str:
        self.expect("{")
        inner = self.row(("}",))
        self.expect("}")
        return f"<mrow>{inner}</mrow>"

    def raw(self) -> str:
        """The text of a group in braces, as it stands."""
        self.expect("{")
        start, depth = self.at, 1
        while depth:
            if self.at >= len(self.tokens):
                raise ValueError(f"a brace stays open in the formula {self.latex!r}")
            depth += {"{": 1, "}": -1}.get(self.tokens[self.at], 0)
            self.at += 1
        return "".join(self.tokens[start : self.at - 1])

    def atom(self) -> str:
        token = self.next()
        if token == "{":
            self.at -= 1
            return self.group()
        if not token.startswith("\\"):
            if token[0].isdigit():
                return f"<mn>{token}</mn>"
            if token.isalpha():
                return f"<mi>{escape(token)}</mi>"
            if token == "~":
                return _space(SPACES[" "])
            return f"<mo{_RIGID if token in '()[]|' else ''}>{escape('−' if token == '-' else token)}</mo>"
        return self.command(token[1:].rstrip("*"))

    def command(self, name: str) -> str:
        if name in LETTERS:
            upright = (
                ' mathvariant="normal"' if LETTERS[name].isupper() or not LETTERS[name].isalpha() else ""
            )
            return f"<mi{upright}>{LETTERS[name]}</mi>"
        if name in OPERATORS:
            return (
                f"<mo{_RIGID if name in ('langle', 'rangle', '|', '{', '}') else ''}>{OPERATORS[name]}</mo>"
            )
        if name in SPACES:
            return _space(SPACES[name])
        if name in FUNCTIONS:
            word = self.raw().strip() if name == "operatorname" else name
            word = re.sub(r"\\[a-z]+|[{}]", "", word)
            return f'<mi mathvariant="normal">{escape(word)}</mi><mo>&#x2061;</mo>'
        if name in ACCENTS:
            stretchy = "true" if name.startswith(("wide", "over")) else "false"
            accent = f'<mo stretchy="{stretchy}">{ACCENTS[name]}</mo>'
            return f'<mover accent="true">{_one(self.argument())}{accent}</mover>'
        if name in VARIANTS:
            return _styled(self.raw() if self.peek() == "{" else self.next(), name)
        if name in ("frac", "tfrac", "dfrac"):
            above, below = self.argument(), self.argument()
            style = (
                ' displaystyle="true"'
                if name == "dfrac"
                else ' displaystyle="false"'
                if name == "tfrac"
                else ""
            )
            return f"<mstyle{style}><mfrac>{_one(above)}{_one(below)}</mfrac></mstyle>"
        if name == "sqrt":
            return self.root()
        if name == "left":
            return self.fenced()
        if name == "begin":
            return self.environment()
        if name == "underbrace":
            return f"<munder>{_one(self.argument())}<mo>⏟</mo></munder>"
        if name in IGNORED:
            return ""
        raise ValueError(f"the formula {self.latex!r} uses \\{name}, which is not known here")

    def root(self) -> str:
        if self.peek() != "[":
            return f"<msqrt>{self.argument()}</msqrt>"
        self.expect("[")
        degree = self.row(("]",))
        self.expect("]")
        return f"<mroot>{_one(self.argument())}{_one(degree)}</mroot>"

    def fence(self) -> str:
        token = self.next()
        if token == ".":
            return ""
        return OPERATORS.get(token[1:], token[1:]) if token.startswith("\\") else token

    def fenced(self) -> str:
        left = self.fence()
        inner = self.row(("\\right",))
        self.expect("\\right")
        right = self.fence()
        shape = SHAPES.get((left, right))
        if shape and inner.startswith('<mtable class="grid">') and inner.count("<mtable") == 1:
            if inner.endswith("</mtable>"):
                return inner.replace('class="grid"', f'class="grid {shape}"')
        fences = [f'<mo stretchy="true" fence="true">{escape(f)}</mo>' if f else "" for f in (left, right)]
        return f"<mrow>{fences[0]}{inner}{fences[1]}</mrow>"

    def environment(self) -> str:
        name = self.raw()
        if name == "array":
            self.raw()
        rows: list[list[str]] = [[]]
        while True:
            rows[-1].append(self.row(("&", "\\\\", "\\end")))
            token = self.next()
            if token == "\\\\":
                rows.append([])
            elif token == "\\end":
                break
        if (ended := self.raw()) != name:
            raise ValueError(f"\\begin{{{name}}} ends as {ended!r} in the formula {self.latex!r}")
        if rows[-1] == [""]:
            rows.pop()
        if name not in KINDS:
            raise ValueError(
                f"the formula {self.latex!r} uses the environment {name}, which is not known here"
            )
        return KINDS[name](rows)


_RIGID = ' stretchy="false"'


def _one(inner: str) -> str:
    """`inner` as one element, where MathML counts its arguments."""
    return f"<mrow>{inner}</mrow>"


def _space(width: float) -> str:
    return f'<mspace width="{width}em"></mspace>'


def _styled(text: str, command: str) -> str:
    """Letters in a font: words as one upright identifier, letters of the other alphabets from Unicode."""
    variant = VARIANTS[command]
    if command in ("text", "textrm"):
        return f"<mtext>{escape(text).replace(' ', '&nbsp;')}</mtext>"
    if "\\" in text or "_" in text or "^" in text:
        return f"<mrow>{_Parser(text).row(None)}</mrow>"
    if variant in ("normal", "italic"):
        upright = ' mathvariant="normal"' if variant == "normal" else ""
        return f"<mi{upright}>{escape(text)}</mi>"
    letters = []
    for letter in text:
        if variant in OFFSETS and letter.isascii() and letter.isalpha():
            base = OFFSETS[variant][0 if letter.isupper() else 1]
            letters.append(chr(base + ord(letter.upper()) - ord("A")))
        else:
            table = {"script": SCRIPT, "double-struck": DOUBLE, "fraktur": FRAKTUR}.get(variant, {})
            letters.append(table.get(letter, letter))
    return f"<mi>{escape(''.join(letters))}</mi>"


def _table(rows: list[list[str]], attributes: str) -> str:
    body = "".join("<mtr>" + "".join(f"<mtd>{cell}</mtd>" for cell in row) + "</mtr>" for row in rows)
    return f"<mtable{attributes}>{body}</mtable>"


def _cases(rows: list[list[str]]) -> str:
    lines = _table(rows, ' class="cases"')
    brace = '<mo stretchy="true" fence="true">{</mo>'
    return f"<mrow>{brace}{lines}</mrow>"


def _aligned(rows: list[list[str]]) -> str:
    return _table(rows, ' class="aligned" displaystyle="true"')


def _grid(shape: str) -> Callable[[list[list[str]]], str]:
    names = f"grid {shape}".strip()
    return lambda rows: _table(rows, f' class="{names}"')


KINDS: dict[str, Callable[[list[list[str]]], str]] = {
    "cases": _cases,
    "aligned": _aligned,
    **{name: _grid(shape) for name, shape in FENCES.items()},
}
