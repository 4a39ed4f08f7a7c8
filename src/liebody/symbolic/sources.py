"""SymPy expressions as complete functions and programs in Python, C99, MATLAB and Julia.

Common subexpressions are computed once, and a symmetric matrix by one triangle.
"""

from __future__ import annotations

import itertools
import keyword
import math
import operator
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import sympy
from sympy.printing.c import C99CodePrinter
from sympy.printing.codeprinter import CodePrinter
from sympy.printing.julia import JuliaCodePrinter
from sympy.printing.octave import OctaveCodePrinter
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.pycode import PythonCodePrinter

from ..scalars import Array

Assignments = list[tuple[Any, Any]]
OF_PROGRAMS = frozenset(  # words of the templates in programs/
    "field main start t y dy q v M force rate h k n i j k1 k2 k3 k4 x steps NQ NV N".split()
)
WORDS = {"g": "gravity"}  # names of outputs in code, where g may be a parameter
INDENT = "    "
WORDS_OF_C = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long"
    " register restrict return short signed sizeof static struct switch typedef union unsigned void volatile"
    " while main y0 y1 yn j0 j1 jn gamma signgam".split()
)
FUNCTIONS = frozenset("sin cos tan sqrt exp log abs min max".split())  # that every language has
WORDS_OF_MATLAB = frozenset(
    "break case catch classdef continue do else elseif end end_try_catch endfor endfunction endif endwhile"
    " for function global if otherwise parfor persistent return spmd switch try until unwind_protect while"
    " pi Inf NaN".split()
)
WORDS_OF_JULIA = frozenset(
    "baremodule begin break catch const continue do else elseif end export false finally for function global"
    " if import let local macro module quote return struct true try using while where in isa mutable type"
    " abstract primitive pi im NaN Inf".split()
)


@dataclass(frozen=True)
class InitialValueProblem:
    """The start and the steps of a program that integrates.

    q, v         where it starts, (nq,) and (nv,)
    t_end, steps  until when, in how many steps
    quaternions  where quaternions begin in q
    """

    q: Array
    v: Array
    t_end: float
    steps: int
    quaternions: Sequence[int]


def symbols_in(expressions: Iterable[Any]) -> set[Any]:
    """The symbols in expressions and matrices; shared subexpressions are looked at once."""
    seen: set[Any] = set()
    # a stack instead of recursion: expressions may be deep
    pending = [x for e in expressions for x in (sympy.flatten(e) if hasattr(e, "shape") else (e,))]
    while pending:
        x = pending.pop()
        if x not in seen:
            seen.add(x)
            pending.extend(x.args)
    return {x for x in seen if x.is_Symbol}


def common_subexpressions(
    expressions: Sequence[Any], prefix: str, taken: Iterable[str]
) -> tuple[Assignments, list[Any]]:
    """Definitions of repeated subexpressions, named `prefix` and a number; the expressions by them."""
    taken = set(taken)
    symbols = (s for s in sympy.numbered_symbols(prefix, real=True) if s.name not in taken)
    # in the order of their use; SymPy's canonical order is slow
    definitions, remaining = sympy.cse(list(expressions), symbols=symbols, order="none")
    used = {s for x in remaining for s in x.free_symbols}
    kept = []
    # from the last definition back, so that what only an unused one needs goes, too
    for symbol, x in reversed(definitions):  # SymPy leaves some that nobody needs
        if symbol in used:
            kept.append((symbol, x))
            used |= x.free_symbols
    return kept[::-1], remaining


@dataclass(frozen=True)
class Formulas:
    """Formulas for a function of a language.

    name        of the function, made a word of the language
    arguments   columns of symbols by the names of the arrays that hold them
    parameters  symbols that are scalar arguments
    outputs     expressions, matrices and arrays by name
    columns     which of them are vectors, of matrices (n, 1)
    """

    name: str
    arguments: Mapping[str, Any]
    parameters: Sequence[Any]
    outputs: Mapping[str, Any]
    columns: Container[str]


def source(language: str, formulas: Formulas) -> str:
    """The text of a file with one function."""
    printer = PRINTERS[language]()
    return printer.file(_function(printer, formulas)[0], _title(formulas.name))


def program(
    language: str, formulas: Formulas, values: Sequence[float | None], run: InitialValueProblem
) -> str:
    """The text of a program that integrates dq/dt = rate, M dv/dt = force from a start, and prints the end.

    formulas  of M, force and rate
    values    of the parameters; None for the time

    One classical Runge-Kutta step after another. The template in programs/ has @words@ in place of all that
    differs from one program to the next.
    """
    printer = PRINTERS[language]()
    text, function = _function(printer, formulas)
    numbers = ["t" if x is None else repr(float(x)) for x in values]
    # after each step every quaternion is brought to unit length
    rows = [printer.unit.replace("@k@", str(k + printer.first)) for k in run.quaternions]
    fields = {
        "nq": str(len(run.q)),
        "nv": str(len(run.v)),
        "start": ", ".join(repr(float(x)) for x in (*run.q, *run.v)),
        "end": repr(float(run.t_end)),
        "steps": str(run.steps),
        "unit": "".join(f"{2 * INDENT}{line}\n" for row in rows for line in row.splitlines()),
        "call": printer.call(function, [*formulas.arguments, *numbers], list(formulas.outputs)),
        "name": f"{function}_program",
        "NAME": f"{function}_program".upper(),
        "title": f"Motion of {_title(formulas.name)}, generated by liebody. SI units.",
    }
    # a MATLAB function file begins with the function that it is named after: the program
    template = (Path(__file__).parent / "programs" / printer.template).read_text(encoding="utf-8")
    main = re.sub(r"@(\w+)@", lambda word: fields[word[1]], template)
    return main + text if language == "matlab" else printer.file(text, _title(formulas.name)) + main


def _function(printer: Any, formulas: Formulas) -> tuple[str, str]:
    """The text of a function, and its name."""
    arguments = formulas.arguments
    parameters = formulas.parameters
    outputs = formulas.outputs
    function = printer.word(identifier(formulas.name), OF_PROGRAMS)
    # words that are neither taken nor reserved: function, results, arguments, then symbols
    results: dict[str, bool] = {}  # whether they are columns
    for key in outputs:
        word = printer.word(identifier(WORDS.get(key, key)), {function, *arguments, *results})
        results[word] = key in formulas.columns
    taken = {function, *arguments, *results, *printer.functions}
    words: dict[Any, str] = {}
    for symbol in (*parameters, *itertools.chain(*arguments.values())):
        words[symbol] = printer.word(identifier(symbol.name), taken)
        taken.add(words[symbol])
    printer.words = words
    definitions, remaining = common_subexpressions(list(outputs.values()), "t", taken)
    for symbol, _ in definitions:
        words[symbol] = symbol.name
    # which entries of arguments a formula reads: some languages declare only these
    used = symbols_in((*(x for _, x in definitions), *remaining))
    text = printer.function(
        function,
        {key: [(words[s], s in used) for s in symbols] for key, symbols in arguments.items()},
        [words[s] for s in parameters],
        [(words[s], printer.doprint(x)) for s, x in definitions],
        {
            key: _entries(x, column, printer)
            for (key, column), x in zip(results.items(), remaining, strict=True)
        },
        _title(formulas.name),
    )
    return text, function


def identifier(name: str) -> str:
    """A name as a word of letters, digits and _."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
    return word if word[0].isalpha() else f"x{word}"


class Entries:
    """The texts of a scalar (shape ()), a column (n,), a matrix (m, n) or an array of more axes.

    symmetric  whether it is a matrix that equals its transpose
    """

    def __init__(self, shape: tuple[int, ...], texts: list[str], symmetric: bool = False) -> None:
        self.shape = shape
        self.texts = texts
        self.symmetric = symmetric

    def places(self, first: int, word: Callable[[tuple[int, ...]], str]) -> Iterator[tuple[str, str]]:
        """Each place, counted from `first`, with its text, or with the place that it repeats."""
        for at, text in zip(itertools.product(*map(range, self.shape)), self.texts, strict=True):
            at = tuple(i + first for i in at)
            # below the diagonal a symmetric matrix repeats its entries, but for zeros
            repeats = self.symmetric and at[0] > at[1] and text != "0"
            yield word(at), word(at[::-1]) if repeats else text


def _entries(x: Any, column: bool, printer: Any) -> Entries:
    if not hasattr(x, "shape"):
        return Entries((), [printer.doprint(x)])
    shape = x.shape[:1] if column else x.shape
    symmetric = len(shape) == 2 and shape[0] > 1 and is_symmetric(x)
    return Entries(shape, [printer.doprint(entry) for entry in sympy.flatten(x)], symmetric)


def is_symmetric(x: Any) -> bool:
    """Whether a matrix equals its transpose as it is written."""
    return bool(x.shape[0] == x.shape[1] and x == x.T)


Arguments = Mapping[str, Sequence[tuple[str, bool]]]


class _Language(CodePrinter):
    """The common part of the languages: numbers as decimals, symbols by their words, the frame of a function.

    reserved    words that name nothing
    functions   that the printers of SymPy may write
    template    of a program, in programs/
    first       number of the first entry of an array
    unit        lines that bring the quaternion at place @k@ of y to unit length
    around      the text before and after the statements of a function
    assignment  the statement that gives a word its value

    A language adds taken(key, words) and given(key, entries), the statements that take the entries of an
    argument, of which some are used, and that make a result.
    """

    reserved: frozenset[str] = frozenset()
    functions = FUNCTIONS
    words: dict[Any, str]
    template: str
    first = 1
    unit: str
    around: tuple[str, str]
    assignment = "{} = {}"

    def function(
        self, function: str, arguments: Arguments, parameters: list[str], lines: Any, results: Any, title: str
    ) -> str:
        """The text of a function."""
        names = {
            "function": function,
            "capitals": function.upper(),
            "title": title,
            "summary": _summary(arguments, parameters, results),
            "arguments": ", ".join(self.declared(arguments, parameters, results)),
            "results": ", ".join(results),
            "sizes": ", ".join(f"{key} {' x '.join(map(str, e.shape)) or '1'}" for key, e in results.items()),
        }
        # entries of arguments, common subexpressions, results
        body = [line for key, words in arguments.items() for line in self.taken(key, words)]
        body += [self.assignment.format(word, text) for word, text in lines]
        body += [line for key, entries in results.items() for line in self.given(key, entries)]
        before, after = (text.format(**names) for text in self.around)
        return "".join([before, *(f"{INDENT}{line}\n" for line in body), after])

    def declared(
        self, arguments: Arguments, parameters: list[str], results: Mapping[str, Entries]
    ) -> list[str]:
        """The words in the parentheses of a function."""
        return [*arguments, *parameters]

    def word(self, name: str, taken: Iterable[str]) -> str:
        """`name`, with _ appended until it is neither taken nor a word of the language."""
        while name in self.reserved or name in taken:
            name += "_"
        return name

    def file(self, text: str, title: str) -> str:
        """A file with the text of a function."""
        return text

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
        # a decimal where it is exact, or where numerator or denominator is no integer of C
        decimal = repr(float(x))
        if Fraction(decimal) == Fraction(int(x.p), int(x.q)) or abs(x.p) > 2**31 or x.q > 2**31:
            return decimal
        return f"({x.p}.0/{x.q}.0)"

    _print_Half = _print_Rational


class _Python(_Language, PythonCodePrinter):
    reserved = frozenset({*keyword.kwlist, "np", "math"})
    template = "program.py.txt"
    first = 0
    unit = "y[@k@ : @k@ + 4] /= np.linalg.norm(y[@k@ : @k@ + 4])"
    around = (
        f'def {{function}}({{arguments}}):\n{INDENT}"""{{summary}}"""\n',
        f"{INDENT}return {{results}}\n",
    )

    def __init__(self) -> None:
        super().__init__({"fully_qualified_modules": True})

    def file(self, text: str, title: str) -> str:
        return (
            f'"""Equations of motion of {title}, generated by liebody. SI units."""\n\nimport math\n\n'
            f"import numpy as np\n\n\n{text}"
        )

    def taken(self, key: str, words: Sequence[tuple[str, bool]]) -> list[str]:
        # the array is unpacked whole, or not at all
        if not any(used for _, used in words):
            return []
        names = ", ".join(word for word, _ in words)
        return [f"({names},) = {key}" if len(words) == 1 else f"{names} = {key}"]

    def given(self, key: str, entries: Entries) -> list[str]:
        return [f"{key} = {_python_array(entries)}"]

    def call(self, function: str, arguments: list[str], results: list[str]) -> str:
        return f"{', '.join(results)} = {function}({', '.join(arguments)})"


def _python_array(entries: Entries) -> str:
    if not entries.shape:
        return entries.texts[0]
    if len(entries.shape) == 1:
        return f"np.array([{', '.join(entries.texts)}], dtype=float)"
    # nested rows of the last axis, reshaped where there are more axes
    n = entries.shape[-1]
    rows = [f"[{', '.join(entries.texts[k : k + n])}]" for k in range(0, len(entries.texts), n)]
    inside = f",\n{2 * INDENT}".join(rows)
    shape = f".reshape({entries.shape})" if len(entries.shape) > 2 else ""
    return f"np.array([\n{2 * INDENT}{inside},\n{INDENT}], dtype=float){shape}"


class _C(_Language, C99CodePrinter):
    reserved = WORDS_OF_C
    functions = FUNCTIONS | {"pow", "fabs", "atan2", "fmin", "fmax", "floor", "printf"}
    template = "program.c"
    first = 0
    unit = (
        "double size = sqrt(y[@k@] * y[@k@] + y[@k@ + 1] * y[@k@ + 1] + y[@k@ + 2] * y[@k@ + 2] + "
        "y[@k@ + 3] * y[@k@ + 3]);\nfor (int i = 0; i < 4; i++)\n    y[@k@ + i] /= size;"
    )

    around = (
        "/* Equations of motion of {title}, generated by liebody. SI units.\n   {summary}\n"
        "   Results are row-major: {sizes}. */\n#include <math.h>\n\n"
        "void {function}({arguments});\n\nvoid {function}({arguments})\n{{\n",
        "}}\n",
    )
    assignment = "const double {} = {};"

    def _print_Pow(self, x: Any) -> str:
        if x.exp.is_Integer and 2 <= x.exp <= 4:  # products are faster than pow
            base = self.parenthesize(x.base, PRECEDENCE["Mul"] + 1)
            return f"({'*'.join([base] * int(x.exp))})"
        return super()._print_Pow(x)

    def declared(
        self, arguments: Arguments, parameters: list[str], results: Mapping[str, Entries]
    ) -> list[str]:
        arrays = [f"const double {key}[{len(words)}]" for key, words in arguments.items()]
        numbers = [f"double {word}" for word in parameters]
        return [*arrays, *numbers, *(f"double {key}[{len(e.texts)}]" for key, e in results.items())]

    def taken(self, key: str, words: Sequence[tuple[str, bool]]) -> list[str]:
        lines = [f"const double {word} = {key}[{k}];" for k, (word, used) in enumerate(words) if used]
        return lines or [f"(void){key};"]  # compilers warn of unused arguments

    def given(self, key: str, entries: Entries) -> list[str]:
        # row-major: the last index runs fastest
        strides = [math.prod(entries.shape[k + 1 :]) for k in range(len(entries.shape))]

        def place(at: tuple[int, ...]) -> str:
            return f"{key}[{sum(map(operator.mul, at, strides))}]"

        return [f"{at} = {text};" for at, text in entries.places(0, place)]

    def call(self, function: str, arguments: list[str], results: list[str]) -> str:
        return f"{function}({', '.join([*arguments, *results])});"


class _Arrays(_Language):
    """Languages whose arrays begin at 1, and are filled entry by entry."""

    _print_Mul = CodePrinter._print_Mul
    brackets = "(", ")"

    def _print_Pow(self, x: Any) -> str:
        if x.exp == sympy.Rational(1, 2):
            return f"sqrt({self._print(x.base)})"
        if x.exp == -1:
            return f"1/{self.parenthesize(x.base, PRECEDENCE['Pow'])}"
        base, power = (self.parenthesize(y, PRECEDENCE["Pow"]) for y in x.args)
        return f"{base}^{power}"

    def taken(self, key: str, words: Sequence[tuple[str, bool]]) -> list[str]:
        entries = [(word, self.entry(key, (k,))) for k, (word, used) in enumerate(words, start=1) if used]
        return [self.assignment.format(*pair) for pair in entries]

    def given(self, key: str, entries: Entries) -> list[str]:
        if not entries.shape:
            return [self.assignment.format(key, entries.texts[0])]
        sizes = self.sizes(entries.shape)

        def place(at: tuple[int, ...]) -> str:
            return self.entry(key, (*at, 1)[: max(len(sizes), len(at))])

        # zeros are there already
        filled = [x for x in entries.places(1, place) if x[1] != "0"]
        pairs = [(key, f"zeros({', '.join(map(str, sizes))})"), *filled]
        return [self.assignment.format(*pair) for pair in pairs]

    def entry(self, key: str, at: tuple[int, ...]) -> str:
        opened, closed = self.brackets
        return f"{key}{opened}{', '.join(map(str, at))}{closed}"

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


class _Matlab(_Arrays, OctaveCodePrinter):
    reserved = WORDS_OF_MATLAB
    functions = FUNCTIONS | {"atan2", "zeros", "fprintf"}
    template = "program.m"
    unit = "y(@k@:@k@ + 3) = y(@k@:@k@ + 3)/norm(y(@k@:@k@ + 3));"
    assignment = "{} = {};"
    around = (
        "function [{results}] = {function}({arguments})\n"
        "%{capitals}  Equations of motion of {title},\n%  generated by liebody. SI units.\n%  {summary}\n",
        "end\n",
    )

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if len(shape) > 1 else (*shape, 1)

    def call(self, function: str, arguments: list[str], results: list[str]) -> str:
        return f"[{', '.join(results)}] = {function}({', '.join(arguments)});"


class _Julia(_Arrays, JuliaCodePrinter):
    reserved = WORDS_OF_JULIA
    functions = FUNCTIONS | {"atan", "zeros", "norm"}
    template = "program.jl"
    unit = "y[@k@:@k@ + 3] /= norm(y[@k@:@k@ + 3])"
    brackets = "[", "]"
    around = (
        '# Equations of motion of {title}, generated by liebody. SI units.\n"{summary}"\n'
        "function {function}({arguments})\n",
        INDENT + "return {results}\nend\n",
    )
    call = _Python.call


PRINTERS: dict[str, Any] = {"python": _Python, "c": _C, "matlab": _Matlab, "julia": _Julia}


def _summary(arguments: Arguments, parameters: Sequence[str], results: Mapping[str, Entries]) -> str:
    inputs = [f"{key} ({', '.join(word for word, _ in names)})" for key, names in arguments.items()]
    also = [f"parameters {', '.join(parameters)}"] if parameters else []
    return f"From {', '.join([*inputs, *also])}: {', '.join(results)}."


def _title(name: str) -> str:
    """A name without anything that could end a comment or a string."""
    return " ".join(re.sub(r"[^\w .+-]+", " ", name).split())
