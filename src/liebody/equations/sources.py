"""SymPy expressions as complete functions in Python, C99 and MATLAB, with common subexpressions."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy
from sympy.printing.c import C99CodePrinter
from sympy.printing.codeprinter import CodePrinter
from sympy.printing.octave import OctaveCodePrinter
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.pycode import PythonCodePrinter

Assignments = list[tuple[Any, Any]]
WORDS = {"g": "gravity"}  # what an output is called in code where g may be a parameter
COLUMNS = ("gravity", "tau")
INDENT = "    "
WORDS_OF_C = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long"
    " register restrict return short signed sizeof static struct switch typedef union unsigned void volatile"
    " while main y0 y1 yn j0 j1 jn gamma signgam".split()
)
WORDS_OF_MATLAB = frozenset(
    "break case catch classdef continue do else elseif end end_try_catch endfor endfunction endif endwhile"
    " for function global if otherwise parfor persistent return spmd switch try until unwind_protect while"
    " pi Inf NaN".split()
)


def symbols_in(expressions: Iterable[Any]) -> set[Any]:
    """The symbols in expressions and matrices; what they share is looked at once, not wherever it occurs."""
    seen: set[Any] = set()
    pending = [x for e in expressions for x in (e if isinstance(e, sympy.MatrixBase) else (e,))]
    while pending:
        x = pending.pop()
        if x not in seen:
            seen.add(x)
            pending.extend(x.args)
    return {x for x in seen if x.is_Symbol}


def common_subexpressions(
    expressions: Sequence[Any], prefix: str, taken: Iterable[str]
) -> tuple[Assignments, list[Any]]:
    """Definitions of what occurs more than once, called by `prefix` and a number, and what remains."""
    taken = set(taken)
    symbols = (s for s in sympy.numbered_symbols(prefix, real=True) if s.name not in taken)
    definitions, remaining = sympy.cse(list(expressions), symbols=symbols, order="none")
    used = {s for x in remaining for s in x.free_symbols}
    kept = []
    for symbol, x in reversed(definitions):  # SymPy leaves some that nobody needs
        if symbol in used:
            kept.append((symbol, x))
            used |= x.free_symbols
    return kept[::-1], remaining


def source(
    language: str,
    name: str,
    arguments: Mapping[str, Any],
    parameters: Sequence[Any],
    outputs: Mapping[str, Any],
) -> str:
    """The text of a file with one function.

    name        of the function, made a word of the language
    arguments   columns of symbols by the names of the arrays that hold them
    parameters  symbols that are arguments of their own
    outputs     expressions and matrices by name
    """
    printer = PRINTERS[language]()
    results = {WORDS.get(key, key): x for key, x in outputs.items()}
    function = printer.word(identifier(name), ())
    taken = {function, *arguments, *results, *printer.functions}
    words: dict[Any, str] = {}
    for symbol in (*parameters, *itertools.chain(*arguments.values())):
        words[symbol] = printer.word(identifier(symbol.name), taken)
        taken.add(words[symbol])
    printer.words = words
    definitions, remaining = common_subexpressions(list(results.values()), "t", taken)
    for symbol, _ in definitions:
        words[symbol] = symbol.name
    used = symbols_in((*(x for _, x in definitions), *remaining))
    return printer.file(
        function,
        {key: [(words[s], s in used) for s in symbols] for key, symbols in arguments.items()},
        [words[s] for s in parameters],
        [(words[s], printer.doprint(x)) for s, x in definitions],
        {key: _entries(x, key in COLUMNS, printer) for key, x in zip(results, remaining, strict=True)},
        _title(name),
    )


def identifier(name: str) -> str:
    """A name as a word of letters, digits and _."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
    return word if word[0].isalpha() else f"x{word}"


class Entries:
    """The texts of a scalar (shape ()), a column (n,) or a matrix (m, n)."""

    def __init__(self, shape: tuple[int, ...], texts: list[str]) -> None:
        self.shape, self.texts = shape, texts


def _entries(x: Any, column: bool, printer: Any) -> Entries:
    if not isinstance(x, sympy.MatrixBase):
        return Entries((), [printer.doprint(x)])
    shape = (x.rows,) if column else (x.rows, x.cols)
    return Entries(shape, [printer.doprint(entry) for entry in x])


Arguments = Mapping[str, Sequence[tuple[str, bool]]]


class _Numbers(CodePrinter):
    """What the languages have in common: numbers as decimals, symbols by their words."""

    reserved: frozenset[str] = frozenset()
    functions: tuple[str, ...] = ()
    words: dict[Any, str]

    def word(self, name: str, taken: Iterable[str]) -> str:
        """`name`, with _ appended until it is neither taken nor a word of the language."""
        while name in self.reserved or name in taken:
            name += "_"
        return name

    def parenthesize(self, item: Any, level: int, strict: bool = False) -> str:
        if item.is_Rational and not item.is_Integer and item > 0:  # a decimal, or in parentheses already
            return self._print(item)
        return super().parenthesize(item, level, strict)

    def _print_Symbol(self, symbol: Any) -> str:
        return self.words[symbol]

    def _print_Integer(self, x: Any) -> str:
        return str(int(x)) if abs(x) < 2**31 else repr(float(x))

    def _print_Float(self, x: Any) -> str:
        return repr(float(x))

    def _print_Rational(self, x: Any) -> str:
        decimal = repr(float(x))
        if Fraction(decimal) == Fraction(int(x.p), int(x.q)) or abs(x.p) > 2**31 or x.q > 2**31:
            return decimal
        return f"({x.p}.0/{x.q}.0)"

    _print_Half = _print_Rational


class _Python(_Numbers, PythonCodePrinter):
    reserved = frozenset({*keyword.kwlist, "np", "math"})
    functions = ("sin", "cos", "tan", "sqrt", "exp", "log", "abs", "min", "max")

    def __init__(self) -> None:
        super().__init__({"fully_qualified_modules": True})

    def file(
        self, function: str, arguments: Arguments, parameters: list[str], lines: Any, results: Any, title: str
    ) -> str:
        body = []
        for key, names in arguments.items():
            if any(used for _, used in names):
                words = ", ".join(word for word, _ in names)
                body.append(f"({words},) = {key}" if len(names) == 1 else f"{words} = {key}")
        body += [f"{word} = {text}" for word, text in lines]
        body += [f"{key} = {_python_array(entries)}" for key, entries in results.items()]
        body.append(f"return {', '.join(results)}")
        signature = ", ".join([*arguments, *parameters])
        return (
            f'"""Equations of motion of {title}, generated by liebody. SI units."""\n\nimport math\n\n'
            f"import numpy as np\n\n\ndef {function}({signature}):\n"
            f'{INDENT}"""{_summary(arguments, parameters, results)}"""\n'
            + "".join(f"{INDENT}{line}\n" for line in body)
        )


def _python_array(entries: Entries) -> str:
    if not entries.shape:
        return entries.texts[0]
    if len(entries.shape) == 1:
        return f"np.array([{', '.join(entries.texts)}], dtype=float)"
    rows = [f"[{', '.join(row)}]" for row in _rows(entries)]
    inside = f",\n{2 * INDENT}".join(rows)
    return f"np.array([\n{2 * INDENT}{inside},\n{INDENT}], dtype=float)"


class _C(_Numbers, C99CodePrinter):
    reserved = WORDS_OF_C
    functions = (
        "sin",
        "cos",
        "tan",
        "sqrt",
        "exp",
        "log",
        "pow",
        "fabs",
        "atan2",
        "fmin",
        "fmax",
        "floor",
        "abs",
    )

    def _print_Pow(self, x: Any) -> str:
        if x.exp.is_Integer and 2 <= x.exp <= 4:
            base = self.parenthesize(x.base, PRECEDENCE["Mul"] + 1)
            return f"({'*'.join([base] * int(x.exp))})"
        return super()._print_Pow(x)

    def file(
        self, function: str, arguments: Arguments, parameters: list[str], lines: Any, results: Any, title: str
    ) -> str:
        head = [f"const double {key}[{len(names)}]" for key, names in arguments.items()]
        head += [f"double {word}" for word in parameters]
        head += [f"double {key}[{len(entries.texts)}]" for key, entries in results.items()]
        body = []
        for key, names in arguments.items():
            if not any(used for _, used in names):
                body.append(f"(void){key};")
            body += [f"const double {word} = {key}[{k}];" for k, (word, used) in enumerate(names) if used]
        body += [f"const double {word} = {text};" for word, text in lines]
        for key, entries in results.items():
            body += [f"{key}[{k}] = {text};" for k, text in enumerate(entries.texts)]
        sizes = [f"{key} {' x '.join(map(str, e.shape)) or '1'}" for key, e in results.items()]
        return (
            f"/* Equations of motion of {title}, generated by liebody. SI units.\n"
            f"   {_summary(arguments, parameters, results)}\n"
            f"   Results are row-major: {', '.join(sizes)}. */\n#include <math.h>\n\n"
            f"void {function}({', '.join(head)});\n\n"
            f"void {function}({', '.join(head)})\n{{\n"
            + "".join(f"{INDENT}{line}\n" for line in body)
            + "}\n"
        )


class _Matlab(_Numbers, OctaveCodePrinter):
    reserved = WORDS_OF_MATLAB
    functions = ("sin", "cos", "tan", "sqrt", "exp", "log", "abs", "min", "max", "atan2", "zeros")

    _print_Mul = CodePrinter._print_Mul

    def _print_Pow(self, x: Any) -> str:
        if x.exp == sympy.Rational(1, 2):
            return f"sqrt({self._print(x.base)})"
        if x.exp == -1:
            return f"1/{self.parenthesize(x.base, PRECEDENCE['Pow'])}"
        base, power = (self.parenthesize(y, PRECEDENCE["Pow"]) for y in x.args)
        return f"{base}^{power}"

    def file(
        self, function: str, arguments: Arguments, parameters: list[str], lines: Any, results: Any, title: str
    ) -> str:
        body = []
        for key, names in arguments.items():
            body += [f"{word} = {key}({k});" for k, (word, used) in enumerate(names, start=1) if used]
        body += [f"{word} = {text};" for word, text in lines]
        for key, entries in results.items():
            if not entries.shape:
                body.append(f"{key} = {entries.texts[0]};")
                continue
            rows, columns = (*entries.shape, 1)[:2]
            body.append(f"{key} = zeros({rows}, {columns});")
            for (i, j), text in zip(
                itertools.product(range(rows), range(columns)), entries.texts, strict=True
            ):
                if text != "0":
                    body.append(f"{key}({i + 1}, {j + 1}) = {text};")
        signature = ", ".join([*arguments, *parameters])
        return (
            f"function [{', '.join(results)}] = {function}({signature})\n"
            f"%{function.upper()}  Equations of motion of {title},\n"
            "%  generated by liebody. SI units.\n"
            f"%  {_summary(arguments, parameters, results)}\n"
            + "".join(f"{INDENT}{line}\n" for line in body)
            + "end\n"
        )


PRINTERS: dict[str, Any] = {"python": _Python, "c": _C, "matlab": _Matlab}


def _summary(arguments: Arguments, parameters: Sequence[str], results: Mapping[str, Entries]) -> str:
    inputs = [f"{key} ({', '.join(word for word, _ in names)})" for key, names in arguments.items()]
    also = [f"parameters {', '.join(parameters)}"] if parameters else []
    return f"From {', '.join([*inputs, *also])}: {', '.join(results)}."


def _title(name: str) -> str:
    """A name without anything that could end a comment or a string."""
    return " ".join(re.sub(r"[^\w .+-]+", " ", name).split())


def _rows(entries: Entries) -> list[list[str]]:
    columns = entries.shape[1]
    return [entries.texts[k : k + columns] for k in range(0, len(entries.texts), columns)]
