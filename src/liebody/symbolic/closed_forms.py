"""The equations of motion as SymPy expressions, and as text: LaTeX, drawings for a terminal, code."""

from __future__ import annotations

import functools
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from ..base.arguments import checked, floats, members, number, wrong_shape
from ..base.errors import ModelError, ShapeError, known
from . import sources
from .derivation import STATE
from .numbers import readable_numbers
from .parameters import parameters_of
from .parts import ALGORITHMS, PARTS, EquationParts

SHOWN = ("M", "C", "g", "kinetic", "potential", "equations")
WIDTH = 100  # of a page of text
NUMBERED = re.compile(r"([cIp])(\d+)([xyz]+)")  # symbols of a body, such as I1xx: SymPy sees no index in them
SYMMETRIC = sympy.Symbol("*")  # in the lower triangle of a symmetric matrix


class Equations(EquationParts):
    """M(q) dv/dt + C(q, v) v + g(q) = tau of a mechanism, as SymPy expressions.

    q, v, a, tau  columns of symbols: coordinates, velocities, accelerations and efforts
    parameters    the other symbols, in natural order
    values        the numbers that parameters stand for, where they replaced numbers
    gravity       acceleration of free fall, (3,)
    form          of the Coriolis matrix C
    simplified    whether expressions are brought to a short form

    M, C, g, kinetic, potential, equations and all other parts are computed when they are first asked for.
    """

    def latex(self, *parts: str, **expressions: Any) -> str:
        r"""LaTeX of some parts (all, if none is named), each an equation, one a line: `M(q) = ...`.

        parts        M, C, g, kinetic, potential, equations, tau, energy, M_inverse, kinematics,
                     locked_inertia, connection, curvature, locked_angle, or a method of robots that needs no
                     options, such as "center_of_mass"
        expressions  others by name, as `rate`, `jacobian` and `of` make them:
                     foot=eq.of("pose", frame="foot")

        A symmetric matrix shows its upper triangle, and * below it. Where a part is not simplified,
        common subexpressions x_0, x_1, ... come first, each on its line.
        """
        definitions, contents = self._contents(parts, expressions)
        names = {**self.latex_names, SYMMETRIC: r"\ast"}

        def tex(x: Any) -> str:
            return sympy.latex(x, symbol_names=names)

        # definitions first, as later lines use them
        lines = [f"{tex(s)} = {tex(x)}" for s, x in definitions]
        for part, content in contents:
            if part == "equations":
                lines += [f"{tex(t)} = {tex(x)}" for t, x in zip(self.tau, content, strict=True)]
            else:
                left = PARTS.get(part) or rf"\mathrm{{{part}}}".replace("_", r"\_")
                lines.append(f"{left} = {tex(_upper(content))}")
        return "\n".join(lines) + "\n"

    @property
    def latex_names(self) -> dict[Any, str]:
        """LaTeX of symbols that SymPy would not guess; I1xx is written with two indices."""
        indexed = {s: NUMBERED.fullmatch(s.name) for s in (*self.values, *self.parameters)}
        names = {s: f"{match[1]}_{{{match[2]},{match[3]}}}" for s, match in indexed.items() if match}
        return names | dict(self.symbol_names)

    def _repr_latex_(self) -> str | None:
        """M, C and g, as notebooks show them; None of equations that are not simplified, or too long."""
        if not self.simplified or any(id(x) in self._long for x in (self.M, self.C, self.g)):
            return None
        lines = self.latex("M", "C", "g").splitlines()
        return (
            r"$$\begin{aligned}"
            + r"\\".join(line.replace(" = ", " &= ", 1) for line in lines)
            + (r"\end{aligned}$$")
        )

    def text(self, *parts: str, **expressions: Any) -> str:
        """The parts, as of `latex`, for a terminal: matrices drawn where they fit, else entries.

        A symmetric matrix shows its upper triangle.
        """
        definitions, contents = self._contents(parts, expressions)
        lines = [_wrapped(f"{s} = {x}") for s, x in definitions]
        for part, content in contents:
            if part == "equations":
                lines += [_wrapped(f"{t} = {_plain(x)}") for t, x in zip(self.tau, content, strict=True)]
            elif not hasattr(content, "shape"):
                lines.append(_wrapped(f"{part} = {_plain(content)}"))
            else:
                lines.append(_drawn(part, content) or _listed(part, content))
        return "\n\n".join(lines) + "\n"

    def python(self, *outputs: str, name: str | None = None, **expressions: Any) -> str:
        """A Python module with one function of floats, from q, v, a (as far as needed) and the parameters.

        outputs      parts to return, as of `latex`; M, C and g if none is named
        name         of the function; the robot's if None
        expressions  others by name, as of `latex`; their symbols become parameters

        Common subexpressions are computed once. Lists and tuples go in, NumPy arrays come out.
        """
        return self._source("python", outputs, name, expressions)

    def c(self, *outputs: str, name: str | None = None, **expressions: Any) -> str:
        """C99 with one function, as `python`; row-major arrays, results go into the last arguments."""
        return self._source("c", outputs, name, expressions)

    def matlab(self, *outputs: str, name: str | None = None, **expressions: Any) -> str:
        """A MATLAB or Octave function file, as `python`."""
        return self._source("matlab", outputs, name, expressions)

    def julia(self, *outputs: str, name: str | None = None, **expressions: Any) -> str:
        """A Julia function, as `python`."""
        return self._source("julia", outputs, name, expressions)

    @functools.partial(checked, but=("start", "tau"))
    def program(
        self,
        language: str,
        start: tuple[Sequence[float], Sequence[float]],
        t_end: float,
        dt: float,
        tau: Sequence[Any] | None = None,
        values: Mapping[Any, float] | None = None,
    ) -> str:
        """A program that integrates M dv/dt + C v + g = tau, dq/dt = E(q) v, and prints the end state.

        language  python, c, matlab or julia; MATLAB's is a function file NAME_program.m
        start     q (nq,) and v (nv,)
        t_end     until when, in steps of dt, of which a whole number is taken                        [s, s]
        tau       efforts, (nv,): numbers or expressions in q, v, parameters and the symbol t of time; none if
                  None
        values    numbers of the parameters, by symbol or name; `values` of these equations by default

        Classical Runge-Kutta steps of order 4; quaternions are brought to unit length after each. It prints q
        and v, one number a line, to 17 digits. Nothing of this library is needed to run it.

        Raises ModelError for a parameter without a number, ShapeError for a start of another shape.
        """
        _check_known(language, sources.PRINTERS, "language {}")
        # check the start, the steps and the efforts before anything is derived
        q0, v0 = (floats(f"{what} of the start", x) for what, x in zip("qv", start, strict=True))
        for x, symbols, what in zip((q0, v0), (self.q, self.v), "qv", strict=True):
            if x.shape != (len(symbols),):
                raise wrong_shape(f"{what} of the start", x.shape, (len(symbols),))
        if not (t_end > 0 and dt > 0 and math.isfinite(t_end / dt)):
            raise ModelError(f"a program needs t_end > 0 and dt > 0, got {t_end} and {dt}")
        entries = [0] * self.tree.nv if tau is None else members("tau", tau, "an effort for each velocity")
        efforts = sympy.Matrix(entries)
        if len(efforts) != self.tree.nv:
            raise ShapeError(f"{len(efforts)} efforts, expected {self.tree.nv}")
        # dq/dt = E(q) v, M dv/dt = tau - (C v + g): the program solves with M at each stage
        outputs = {
            "M": self.M,
            "force": (efforts - self.of("bias")).as_immutable(),
            "rate": (self.kinematics * self.v).as_immutable(),
        }
        # numbers of parameters: those of the robot, unless the user gives others
        used = sources.symbols_in(outputs.values()) - {*self.q, *self.v}
        chosen = {str(key): number(str(key), x) for key, x in (values or {}).items()}
        numbers = {str(key): x for key, x in self.values.items()} | chosen
        there = {symbol.name for symbol in (*self.parameters, *used)}
        for name in chosen.keys() - there:
            raise ModelError(f"there is no parameter {name!r}; {known(sorted(there), name)}")
        # each symbol but the state and the time needs a number
        parameters: dict[Any, float | None] = {}
        for symbol in parameters_of([*used]):
            if symbol.name not in numbers and symbol.name != "t":
                raise ModelError(f"the program needs a number for {symbol}: values={{'{symbol}': ...}}")
            parameters[symbol] = numbers.get(symbol.name)
        run = sources.InitialValueProblem(
            q0, v0, t_end, max(1, round(t_end / dt)), self.tree.group.quaternions
        )
        arguments = {"q": self.q, "v": self.v}
        columns = ("force", "rate")
        formulas = sources.Formulas(self.tree.name, arguments, [*parameters], outputs, columns)
        return sources.program(language, formulas, [*parameters.values()], run)

    def _source(
        self, language: str, outputs: Sequence[str], name: str | None, expressions: Mapping[str, Any]
    ) -> str:
        if not outputs and not expressions:
            outputs = ("M", "C", "g")
        if "equations" in outputs:
            raise ModelError("there is no output 'equations' in code; ask for tau, their right-hand sides")
        results, columns = self._parts(outputs, expressions)
        # an argument is declared where the results contain it, or always contain it in other robots
        used = sources.symbols_in(results.values())
        needed = {"v": {"C", "kinetic", "energy", "tau"}, "a": {"tau"}, "tau": set()}
        arguments = {"q": self.q}
        for key, by in needed.items():
            symbols = getattr(self, key)
            if by & set(outputs) or used & set(symbols):
                arguments[key] = symbols
        # all other symbols become parameters: the robot's in its order, then those of the user's expressions
        bound = {s for symbols in arguments.values() for s in symbols}
        bound |= set(self.parameters)
        parameters = [p for p in self.parameters if p in used]
        parameters += parameters_of([*(used - bound)])
        formulas = sources.Formulas(name or self.tree.name, arguments, parameters, results, columns)
        return sources.source(language, formulas)

    def _parts(self, names: Sequence[str], expressions: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """Parts and expressions by name, and which of them are columns."""
        parts: dict[str, Any] = {}
        columns = {"g", "tau"}
        for name in names:
            algorithm = ALGORITHMS.get(name)
            # parts that these equations derive themselves, then methods of robots by name
            if name in ("equations", "tau"):
                parts[name] = self.efforts
            elif name in PARTS:
                parts[name] = getattr(self, name)
            # methods of robots that need no options: named results of a tuple, or numbered ones
            elif algorithm and algorithm.is_complete and set(algorithm.arrays) <= set(STATE):
                results = self.results(name, algorithm.function)
                numbered = [name, *(f"{name}_{k}" for k in range(1, len(results)))]
                words = getattr(algorithm.tuple_of, "_fields", numbered)
                for word, (shape, x) in zip(words, results, strict=True):
                    parts[word] = x
                    columns |= {word} if len(shape) == 1 else set()
            else:
                raise ModelError(
                    f"there is no part {name!r}; there are {', '.join(PARTS)}, and the methods of robots "
                    f"that need no options; others as name=expression, with of({name!r}, ...)"
                )
        for name, x in expressions.items():
            parts[name] = x = sympy.sympify(x)
            columns |= {name} if getattr(x, "shape", ())[1:] == (1,) else set()
        return parts, columns

    def _contents(
        self, parts: Sequence[str], expressions: Mapping[str, Any]
    ) -> tuple[list[tuple[Any, Any]], list[tuple[str, Any]]]:
        """Definitions of common subexpressions of the parts that are not in short form; all parts by name."""
        shown, _ = self._parts(parts or (() if expressions else SHOWN), expressions)
        # parts in short form are printed as they are, the others share subexpressions
        long = {name: x for name, x in shown.items() if not self.simplified or id(x) in self._long}
        if not long:
            return [], list(shown.items())
        # definitions x0, x1, ... must not take the name of a symbol that is in use
        names = {s.name for s in (*self.q, *self.v, *self.a, *self.tau, *self.parameters)}
        definitions, rest = sources.common_subexpressions([*long.values()], "x", names)
        shown |= zip(long, map(readable_numbers, rest), strict=True)
        return [(s, readable_numbers(x)) for s, x in definitions], list(shown.items())

    def __repr__(self) -> str:
        kind = "simplified" if self.simplified else "not simplified"
        parameters = (
            f"parameters {', '.join(map(str, self.parameters))}" if self.parameters else "no parameters"
        )
        return (
            f"Equations of {self.tree.name!r}: nv = {self.tree.nv}, form {self.form!r}, {kind}, {parameters}"
        )


def _check_known(word: str, known: Iterable[str], what: str) -> None:
    if word not in known:
        raise ModelError(f"there is no {what.format(repr(word))}; there are {', '.join(known)}")


def _upper(x: Any) -> Any:
    """A symmetric matrix with a mark below the diagonal, where entries repeat."""
    if not isinstance(x, sympy.MatrixBase) or x.rows < 2 or not sources.is_symmetric(x):
        return x
    return sympy.Matrix(x.rows, x.cols, lambda i, j: SYMMETRIC if i > j and x[i, j] != 0 else x[i, j])


def _drawn(part: str, x: Any) -> str | None:
    """A matrix as it is drawn; None where it is too wide, and of arrays of more axes."""
    if not isinstance(x, sympy.MatrixBase):
        return None
    drawn = sympy.pretty(_upper(x), use_unicode=True, wrap_line=False, full_prec=False)
    if max(map(len, drawn.splitlines()), default=0) > WIDTH - len(part) - 3:
        return None
    return _beside(f"{part} = ", drawn)


def _listed(part: str, x: Any) -> str:
    """The entries of a matrix or an array, one a line."""
    lines = []
    column = x.shape[1:] == (1,)
    # a symmetric matrix is listed once, with a line that says so
    symmetric = len(x.shape) == 2 and sources.is_symmetric(x)
    for at in np.ndindex(*x.shape):
        if not (symmetric and at[0] > at[1]):
            places = ", ".join(str(k + 1) for k in (at[:1] if column else at))
            lines.append(_wrapped(f"{part}[{places}] = {_plain(x[at])}"))
    if symmetric:
        lines.append(f"{part}[j, i] = {part}[i, j]")
    return "\n".join(lines)


def _plain(x: Any) -> str:
    return sympy.sstr(x, full_prec=False)


def _wrapped(line: str) -> str:
    indent = " " * (line.index(" = ") + 3)
    return textwrap.fill(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _beside(word: str, drawn: str) -> str:
    lines = drawn.splitlines()
    middle = len(lines) // 2
    return "\n".join((word if k == middle else " " * len(word)) + line for k, line in enumerate(lines))
