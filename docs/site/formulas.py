"""Formulas of docstrings, such as `M(q) dv/dt + C(q, v) v = tau`, found in sentences and turned into LaTeX.

A formula is what the grammar below can read and that has at least one sign which sentences do not have: a
relation, a power, an index, a function that is applied, a derivative.

    relation  sum ((= | < | > | <= | >=) sum)*
    sum       [+ | -] product ((+ | -) product)*
    product   power ((" " | " . " | * | / | " x ") power)*
    power     atom (^ exponent | _ index)*
    atom      number | name | name(sum, ...) | (sum) | [sum, ...] | [row; row] | |sum| | <sum, sum>
"""

from __future__ import annotations

import re
from collections.abc import Iterator

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
).split()
FUNCTIONS = (
    "exp log sin cos tan sinh cosh tanh sqrt det tr diag vec vee hat ad Ad dexp dlog cay min max rank arctan2"
).split()
MACROS = {"exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "det", "min", "max"}
SUMS = {"sum": r"\sum", "int": r"\int"}
RELATIONS = {"=": "=", "<=": r"\le", ">=": r"\ge", "<": "<", ">": ">"}

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
NAME = re.compile(r"([A-Za-z]+?)(dot)?(\d*)(~?)('*)(?![A-Za-z0-9])")
INDEX = re.compile(r"-?[A-Za-z0-9]+(?:_[A-Za-z0-9]+)?")
EXPONENT = re.compile(r"-?[A-Za-z0-9]+|\*")
BLOCK = re.compile(r"[A-Z][bqxy]{2}")
BEFORE, AFTER = re.compile(r"[(+*/,=-] ?$"), re.compile(r" ?[)+*/,^=-]")
KNOWN = "|".join([*GREEK, *FUNCTIONS, *SUMS, "d[a-zA-Z]"])
ENGLISH = re.compile(rf"(?:a|A|I)(?= (?!(?:{KNOWN})\b)[a-z]{{2,}})|(?:a|A|I)-")
GROUP = re.compile(r"(SO|SE|SU|R)\((\d|n|nv)\)")
UNIT = r"\[(?:(?:N|J|W|m|s|rad|kg|Hz|Pa|deg)\d*[ /,;()]*)+\]"
SHAPE = re.compile(rf"\((?:\.\.\.|\d+),|[(\[][^()\[\]]*,(?: |\))|\((?:rad|m)\b|{UNIT}")
MATRIX = re.compile(r"[^\[\]()]*;[^\[\]()]*\]")
SKIPPED = re.compile(rf"`[^`]*`|\"[^\"\n]*\"|{UNIT}")


class _NoFormulaError(Exception):
    pass


class _Reader:
    """Reads one formula from `at` on; `signs` counts the signs that prose does not have."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at, self.signs, self.depth = text, at, 0, 0

    def follows(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False

    def relation(self) -> str:
        found = self.sum()
        while m := re.compile(r" +(<=|>=|=|<|>) +").match(self.text, self.at):
            before, self.at = (self.at, self.signs), m.end()
            try:
                found += f" {RELATIONS[m[1]]} {self.sum()}"
                self.signs += 1
            except _NoFormulaError:
                self.at, self.signs = before
                break
        return found

    def sum(self) -> str:
        sign = ""
        if self.text[self.at : self.at + 1] in ("-", "+") and self.text[self.at + 1 : self.at + 2] != " ":
            sign, self.at = self.text[self.at], self.at + 1
        found = sign + self.product()
        while m := re.compile(r" ([+-]) (?! )").match(self.text, self.at):
            before, self.at = (self.at, self.signs), m.end()
            try:
                found += f" {m[1]} {self.product()}"
                self.signs += 1
            except _NoFormulaError:
                self.at, self.signs = before
                break
        return found

    def product(self) -> str:
        found = self.power()
        signs = r"( \. | ?\* ?| / |/| x | (?! )|(?=[\[(]))"
        while m := re.compile(signs).match(self.text, self.at):
            before, self.at = (self.at, self.signs), m.end()
            sign = m[1].strip()
            try:
                if not sign and not self.may_follow():
                    raise _NoFormulaError
                power = self.power()
            except _NoFormulaError:
                self.at, self.signs = before
                if sign != "x":
                    break
                self.at, sign, power = self.at + 2, "", "x"
            self.signs += sign in (".", "*")
            if sign == "/" and re.search(r"mathrm\{d\}", found.split(" ")[-1]) and "mathrm{d}" in power:
                self.signs += 1
            found += {"": r" \, ", ".": r" \cdot ", "*": r" \, ", "/": " / ", "x": r" \times "}[sign] + power
        return found

    def may_follow(self) -> bool:
        """Whether the token here can be a factor without a sign before it."""
        if self.text[self.at - 1] != " ":
            return self.text[self.at] == "["
        if self.text[self.at].isdigit():
            return self.depth > 0
        return not SHAPE.match(self.text, self.at)

    def power(self) -> str:
        found = self.atom()
        while self.text[self.at : self.at + 1] in ("^", "_") and self.at + 1 < len(self.text):
            sign = self.text[self.at]
            self.at += 1
            self.signs += 1
            if self.text[self.at] == "(":
                self.at += 1
                inner = self.inside(")")
            else:
                m = (INDEX if sign == "_" else EXPONENT).match(self.text, self.at)
                if not m:
                    raise _NoFormulaError
                self.at, inner = m.end(), "_".join(map(_index, m[0].split("_")))
            found += f"{sign}{{{inner}}}"
        return found

    def inside(self, end: str) -> str:
        self.depth += 1
        found = [self.relation()]
        while m := re.compile(r", ?").match(self.text, self.at):
            self.at = m.end()
            found.append(self.dots() or self.relation())
        if not self.follows(end):
            raise _NoFormulaError
        self.depth -= 1
        return ", ".join(found)

    def dots(self) -> str:
        return r"\dots" if self.follows("...") else ""

    def atom(self) -> str:
        if m := NUMBER.match(self.text, self.at):
            self.at = m.end()
            mantissa, _, exponent = m[0].partition("e")
            return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa
        for begin, end, left, right in (
            ("(", ")", r"\left(", r"\right)"),
            ("[", "]", r"\left[", r"\right]"),
            ("|", "|", r"\left|", r"\right|"),
            ("<", ">", r"\left\langle", r"\right\rangle"),
        ):
            if self.follows(begin):
                rows = MATRIX.match(self.text, self.at) if begin == "[" else None
                if rows:
                    self.at = rows.end()
                    return self.matrix(rows[0][:-1])
                return f"{left} {self.inside(end)} {right}"
        return self.name()

    def matrix(self, text: str) -> str:
        def entry(word: str) -> str:
            reader = _Reader(word, 0)
            found = reader.relation()
            if reader.at != len(word):
                raise _NoFormulaError
            return found

        rows = [" & ".join(entry(word) for word in row.split()) for row in text.split(";")]
        self.signs += 1
        return r"\begin{bmatrix} " + r" \\ ".join(rows) + r" \end{bmatrix}"

    def name(self) -> str:
        if m := GROUP.match(self.text, self.at):
            self.at = m.end()
            self.signs += 1
            return rf"\mathrm{{{m[1]}}}({m[2]})"
        if ENGLISH.match(self.text, self.at):
            raise _NoFormulaError
        if m := re.compile(rf"d (?=(?:{'|'.join(GREEK)})\b)").match(self.text, self.at):
            self.at = m.end()
            return rf"\mathrm{{d}}{self.name()}"
        m = NAME.match(self.text, self.at)
        if not m:
            raise _NoFormulaError
        word, dot, number, tilde, primes = m.groups()
        if dot and len(word) > 1 and word not in GREEK:
            raise _NoFormulaError
        if re.compile(r"_[a-z]{3,}").match(self.text, m.end()) and (word.islower() or len(word) > 1):
            raise _NoFormulaError  # an argument such as t_end
        if word == "d" and re.compile(r"/d[A-Za-z]").match(self.text, m.end()):
            self.at = m.end() + 1
            self.signs += 1
            return rf"\mathrm{{d}} / {self.name()}"
        alone = BEFORE.search(self.text[: self.at]) and AFTER.match(self.text, m.end())
        found = _word(word, bool(self.depth and alone))
        self.at = m.end()
        if dot:
            found = rf"\dot{{{found}}}"
            self.signs += 1
        if tilde:
            found = rf"\widetilde{{{found}}}"
        if number:
            found += f"_{{{number}}}"
            if self.text[self.at : self.at + 1] == "_":
                raise _NoFormulaError
        found += primes
        power = re.compile(r"(?:\^(?:-?\d|-?T))?(?=\()").match(self.text, self.at)
        if power and not re.compile(r"\(\)|\(\.\.\.|\(\d+,").match(self.text, power.end()):
            self.at = power.end() + 1
            self.signs += 1
            raised = f"^{{{power[0][1:]}}}" if power[0] else ""
            found += rf"{raised}\left( {self.inside(')')} \right)"
            if word == "sqrt" and not raised:
                found = r"\sqrt{" + found[len(r"\operatorname{sqrt}\left( ") : -len(r" \right)")] + "}"
        return found


def _word(word: str, inside: bool = False) -> str:
    if word in GREEK:
        return f"\\{word}"
    if len(word) == 1:
        return word
    if word in MACROS:
        return f"\\{word}"
    if word in FUNCTIONS:
        return rf"\operatorname{{{word}}}"
    if word in SUMS:
        return SUMS[word]
    if word[0] == "d" and word != "do" and (len(word) == 2 or word[1:] in GREEK):
        return rf"\mathrm{{d}}{_word(word[1:])}"
    if BLOCK.fullmatch(word):
        return f"{word[0]}_{{{word[1:]}}}"
    if inside and len(word) > 2:
        return rf"\mathrm{{{word}}}"
    raise _NoFormulaError


def _index(text: str) -> str:
    if text in GREEK:
        return f"\\{text}"
    if len(text) >= 3 and text.isalpha():
        return rf"\mathrm{{{text}}}"
    return text


def formula(text: str, at: int = 0) -> tuple[str, int] | None:
    """LaTeX of the formula that begins at `at`, and where it ends; None if none does."""
    reader = _Reader(text, at)
    try:
        found = reader.relation()
    except _NoFormulaError:
        return None
    end = reader.at
    if not reader.signs or re.compile(r"[A-Za-z0-9_`\"']|\(|-[a-z]|\.\w|/\w|=\S").match(text, end):
        return None
    return found, end


def pieces(sentence: str) -> Iterator[tuple[str, str]]:
    """A sentence as ("text" | "code" | "formula", what it says): code in backticks, formulas as LaTeX."""
    at = begin = 0
    while at < len(sentence):
        if m := SKIPPED.match(sentence, at):
            if m[0][0] == "`":
                if sentence[begin:at]:
                    yield "text", sentence[begin:at]
                yield "code", m[0][1:-1]
                begin = m.end()
            at = m.end()
            continue
        starts = at == 0 or not (sentence[at - 1].isalnum() or sentence[at - 1] in "_.^)]'/")
        found = formula(sentence, at) if starts and sentence[at] != " " else None
        if found:
            if sentence[begin:at]:
                yield "text", sentence[begin:at]
            yield "formula", found[0]
            at = begin = found[1]
        else:
            at += 1
    if sentence[begin:]:
        yield "text", sentence[begin:]
