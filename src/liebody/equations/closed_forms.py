"""The equations of motion as SymPy expressions, each part computed when it is first asked for."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy

from .. import dynamics, models
from ..bodies import Tree
from ..codegen import Function, jacobian, trace
from ..codegen.printers.sympy_source import to_sympy
from ..dynamics.coriolis import FORMS, coriolis_matrix
from ..errors import ModelError, ShapeError
from ..labels import labels
from ..loading import load
from ..robot import GRAVITY, Robot, quaternions
from ..scalar import Array
from . import floating, sources
from .numbers import exact, readable_numbers
from .parameters import exact_numbers, model_with_symbols, parameters_of, replaced, with_symbols
from .polynomials import Ring, TooLarge

PARTS = ("M", "C", "g", "kinetic", "potential", "equations")
OUTPUTS = ("M", "C", "g", "kinetic", "potential", "tau")
LARGEST_GRAPH = 40_000  # operations that become SymPy expressions within minutes
LARGEST_CONSTANT = 1000  # whole numbers up to this are exact in the floats of a trace, products of them too
WIDTH = 100  # of a page of text


class VelocityProducts(NamedTuple):
    """C(q, v) v by products of velocities: centrifugal [v_j^2] + coriolis [v_j v_k].

    centrifugal  (nv, nv): column j multiplies v_j^2
    coriolis     (nv, nv (nv - 1) / 2): a column for each of the pairs
    pairs        places (j, k), j < k, of the velocities that those columns multiply
    """

    centrifugal: Any
    coriolis: Any
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Equations:
    """M(q) dv/dt + C(q, v) v + g(q) = tau of a mechanism, as SymPy expressions.

    q, v, a, tau  columns of symbols: coordinates, velocities, accelerations and efforts
    parameters    the other symbols, in natural order
    values        the numbers that parameters stand for, where they replaced numbers
    gravity       acceleration of free fall, (3,)
    form          of the Coriolis matrix C
    simplified    whether expressions are brought to a short form

    M, C, g, kinetic, potential, equations and what the methods need is computed when it is first asked for.
    """

    tree: Tree
    q: Any
    v: Any
    a: Any
    tau: Any
    parameters: tuple[Any, ...]
    gravity: tuple[Any, ...]
    form: str = "christoffel"
    simplified: bool = True
    values: Mapping[Any, float] = field(default_factory=dict)
    symbol_names: Mapping[Any, str] = field(
        default_factory=dict
    )  # LaTeX of symbols that SymPy would not guess

    # -- the parts ----------------------------------------------------------------------------------------

    @cached_property
    def M(self) -> Any:
        """The mass matrix M(q), (nv, nv)."""
        return self._part("M", lambda tree, q, v, a, gravity: dynamics.mass_matrix(tree, q))

    @cached_property
    def C(self) -> Any:
        """The Coriolis matrix C(q, v), (nv, nv), of the form `form`."""
        return self.coriolis(self.form)

    @cached_property
    def g(self) -> Any:
        """The efforts that hold the mechanism at rest, g(q), (nv, 1)."""
        return self._part("g", lambda tree, q, v, a, gravity: dynamics.gravity_forces(tree, q, gravity))

    @cached_property
    def kinetic(self) -> Any:
        """The kinetic energy v^T M v / 2, a scalar."""
        return self._part("kinetic", lambda tree, q, v, a, gravity: dynamics.kinetic_energy(tree, q, v))

    @cached_property
    def potential(self) -> Any:
        """The potential energy, zero where all mass is in the world's origin, a scalar."""
        return self._part(
            "potential", lambda tree, q, v, a, gravity: dynamics.potential_energy(tree, q, gravity)
        )

    @cached_property
    def efforts(self) -> Any:
        """M a + C v + g, (nv, 1): the right-hand sides of `equations`.

        Simplified, each is a sum over accelerations, products of velocities, and gravity; otherwise it comes
        from the recursive Newton-Euler algorithm.
        """
        if not self.simplified:
            return self._part("tau", dynamics_of("inverse_dynamics"))
        products = self.velocity_products()
        rows = []
        for i in range(self.tree.nv):
            terms = [_times(self.M[i, j], self.a[j]) for j in range(self.tree.nv)]
            terms += [_times(products.centrifugal[i, j], self.v[j] ** 2) for j in range(self.tree.nv)]
            terms += [
                _times(products.coriolis[i, k], self.v[j] * self.v[l])
                for k, (j, l) in enumerate(products.pairs)
            ]
            rows.append(sympy.Add(*terms, self.g[i]))
        return sympy.ImmutableMatrix(rows)

    @cached_property
    def equations(self) -> tuple[Any, ...]:
        """The equations of motion, tau_i = ..., one for each degree of freedom."""
        return tuple(sympy.Eq(t, x, evaluate=False) for t, x in zip(self.tau, self.efforts, strict=True))

    def coriolis(self, form: str) -> Any:
        """The Coriolis matrix C(q, v), (nv, nv), of any form; all have the same product with v."""
        _check_form(form)
        return self._part(
            f"C, form {form!r}", lambda tree, q, v, a, gravity: coriolis_matrix(tree, q, v, form)
        )

    @cached_property
    def connection(self) -> Any:
        """m(q) = Mbb^-1 Mbq of a floating base, (k, n): without momentum, q' moves the base by -m q'."""
        return floating.connection(self)

    @cached_property
    def curvature(self) -> Any:
        """The angular part of the curvature of `connection`, (r, n, n), r the base's turning velocities.

        d_j w_i - d_i w_j + w_i x w_j; the linear part is c x that. Feurstein (2021), eq. (3.72).
        """
        return floating.curvature(self)

    @cached_property
    def integrable(self) -> bool:
        """Whether the curvature is zero, decided on its normal form: the locked frame is a function of q."""
        if not self.simplified:
            raise ModelError(
                f"{self.tree.name}: without simplification zero is not told from what cancels; ask for "
                "equations with simplify=True, or for dynamics.integrability, which is numerical"
            )
        return all(x == 0 for x in sympy.flatten(self.curvature))

    @cached_property
    def locked_angle(self) -> Any:
        """The angle of the frame that moves with the locked velocity, of a planar base with one joint.

        int m_omega(q) dq from 0, by its antiderivative, continuous for all q. Feurstein (2021), eq. (3.76).
        """
        return floating.locked_angle(self)

    def velocity_products(self) -> VelocityProducts:
        """C(q, v) v as the coefficients of v_j^2 (centrifugal terms) and of v_j v_k (Coriolis terms)."""
        return self._velocity_products

    @cached_property
    def _velocity_products(self) -> VelocityProducts:
        def products(tree: Tree, q: Array, v: Array, a: Array, gravity: Array) -> Array:
            return dynamics.bias_forces(tree, q, v, gravity=(0, 0, 0))

        n = self.tree.nv
        bias = self._traced(products, "products")
        twice = jacobian(jacobian(bias, "v"), "v")  # (n, n, n), without v: the products are quadratic
        still = np.zeros(n).astype(object)
        pairs = tuple((j, k) for j in range(n) for k in range(j + 1, n))

        def coefficients(q: Array, v: Array, a: Array, parameter: Array) -> Array:
            H = twice(q, still, a, parameter)
            rows = [[0.5 * H[i, j, j] for j in range(n)] + [H[i, j, k] for j, k in pairs] for i in range(n)]
            return np.array(rows, dtype=object).reshape(n, n + len(pairs))

        shapes = {key: x.shape for key, x in bias.inputs.items()}
        table = self._expressions("velocity_products", trace(coefficients, shapes, "products"))
        return VelocityProducts(table[:, :n], table[:, n:], pairs)

    # -- how they come about ------------------------------------------------------------------------------

    @cached_property
    def _numbers(self) -> tuple[Tree, list[Any]]:
        """The tree with exact numbers, and those that are inputs of its traces."""
        tree, numbers = exact_numbers(self.tree)
        numbers += [x for x in self.gravity if x not in numbers]
        return tree, [x for x in numbers if not _is_constant(x)]

    @cached_property
    def _ring(self) -> Ring:
        ring = Ring()
        for start in quaternions(self.tree.group):
            ring.quaternion(list(self.q[start : start + 4]))
        return ring

    def _traced(self, algorithm: Callable[..., Any], name: str) -> Function:
        """algorithm(tree, q, v, a, gravity), traced with the tree's numbers as inputs."""
        exact_tree, numbers = self._numbers
        places = {x: k for k, x in enumerate(numbers)}

        def run(q: Array, v: Array, a: Array, parameter: Array) -> Array:
            def value(x: Any, _: str = "") -> Any:
                return parameter[places[x]] if x in places else int(x)

            gravity = np.array([value(x) for x in self.gravity], dtype=object)
            return algorithm(replaced(exact_tree, value), q, v, a, gravity)

        nq, nv = self.tree.nq, self.tree.nv
        function = trace(run, {"q": nq, "v": nv, "a": nv, "parameter": len(numbers)}, name)
        if len(function.nodes) > LARGEST_GRAPH:
            raise ModelError(
                f"{self.tree.name}: {name} takes {len(function.nodes)} operations, and SymPy would need more "
                f"than minutes for over {LARGEST_GRAPH}; Robot.kernel and Robot.export_c have no such limit"
            )
        return function

    def _part(self, part: str, algorithm: Callable[..., Any]) -> Any:
        return self._expressions(part, self._traced(algorithm, part.split(",")[0]))

    def _expressions(self, part: str, function: Function) -> Any:
        """The one output of a traced function: a scalar, a column or a matrix."""
        (output,) = function.outputs.values()
        values = {"q": list(self.q), "v": list(self.v), "a": list(self.a), "parameter": self._numbers[1]}
        if not self.simplified:
            with sympy.core.parameters.distribute(False):
                (found,) = to_sympy(function, values).values()
            return found.as_immutable() if output.shape else found
        inputs = {s: x for key, row in function.inputs.items() for s, x in zip(row, values[key], strict=True)}
        try:
            (polynomials,) = self._ring.evaluate(function, inputs).values()
            entries = [self._ring.expression(p) for p in polynomials]
        except TooLarge as error:
            raise ModelError(
                f"{self.tree.name}: {part} becomes {error}, and is not simplified; ask with simplify=False "
                "(liebody equations --no-simplify), and for code with common subexpressions "
                "(python(), c(), matlab()), or for compiled functions (Robot.kernel, Robot.export_c)"
            ) from error
        if not output.shape:
            return entries[0]
        return sympy.ImmutableMatrix(len(output), len(entries) // max(len(output), 1), entries)

    # -- what comes out -----------------------------------------------------------------------------------

    def latex(self, *parts: str) -> str:
        r"""LaTeX of some parts (all, if none is named), each an equation, one a line: `M(q) = ...`.

        Not simplified, common subexpressions x_0, x_1, ... come first, each on its line.
        """
        left = {
            "M": "M(q)", "C": "C(q, v)", "g": "g(q)", "kinetic": "T", "potential": "U",
        }  # fmt: skip
        definitions, contents = self._contents(parts)

        def tex(x: Any) -> str:
            return sympy.latex(x, symbol_names=dict(self.symbol_names))

        lines = [f"{tex(s)} = {tex(x)}" for s, x in definitions]
        for part, content in contents:
            if part == "equations":
                lines += [f"{tex(t)} = {tex(x)}" for t, x in zip(self.tau, content, strict=True)]
            else:
                lines.append(f"{left[part]} = {tex(content)}")
        return "\n".join(lines) + "\n"

    def _repr_latex_(self) -> str:
        """A notebook's cell: what `latex` writes, a line each."""
        lines = self.latex().splitlines()
        return "$$\\begin{gathered}\n" + " \\\\\n".join(lines) + "\n\\end{gathered}$$"

    def text(self, *parts: str) -> str:
        """The parts (all, if none is named) for a terminal: matrices drawn where they fit, else entries."""
        definitions, contents = self._contents(parts)
        lines = [_wrapped(f"{s} = {x}") for s, x in definitions]
        for part, content in contents:
            if part == "equations":
                lines += [_wrapped(f"{t} = {_plain(x)}") for t, x in zip(self.tau, content, strict=True)]
            elif not isinstance(content, sympy.MatrixBase):
                lines.append(_wrapped(f"{part} = {_plain(content)}"))
            else:
                drawn = sympy.pretty(content, use_unicode=True, wrap_line=False, full_prec=False)
                if max(map(len, drawn.splitlines())) <= WIDTH - len(part) - 3:
                    lines.append(_beside(f"{part} = ", drawn))
                else:
                    entries = [
                        ((i, j), content[i, j]) for i in range(content.rows) for j in range(content.cols)
                    ]
                    column = content.cols == 1
                    lines.append("\n".join(
                        _wrapped(f"{part}[{i + 1}{'' if column else f', {j + 1}'}] = {_plain(x)}")
                        for (i, j), x in entries
                    ))  # fmt: skip
        return "\n\n".join(lines) + "\n"

    def python(self, *outputs: str, name: str | None = None) -> str:
        """A Python module with one function of floats, from q, v, a (as far as needed) and the parameters.

        outputs  what it returns, of M, C, g, kinetic, potential and tau; M, C and g if none is named
        name     of the function; the robot's if None

        Common subexpressions are computed once. Lists and tuples go in, NumPy arrays come out.
        """
        return self._source("python", outputs, name)

    def c(self, *outputs: str, name: str | None = None) -> str:
        """C99 with one function, as `python`; row-major arrays, results go into the last arguments."""
        return self._source("c", outputs, name)

    def matlab(self, *outputs: str, name: str | None = None) -> str:
        """A MATLAB or Octave function file, as `python`."""
        return self._source("matlab", outputs, name)

    def _source(self, language: str, outputs: Sequence[str], name: str | None) -> str:
        outputs = tuple(outputs) or ("M", "C", "g")
        _check_known(outputs, OUTPUTS, "output")
        results = {x: self.efforts if x == "tau" else getattr(self, x) for x in outputs}
        arguments = {"q": self.q}
        if {"C", "kinetic", "tau"} & set(outputs):
            arguments["v"] = self.v
        if "tau" in outputs:
            arguments["a"] = self.a
        used = sources.symbols_in(results.values())
        parameters = [p for p in self.parameters if p in used]
        return sources.source(language, name or self.tree.name, arguments, parameters, results)

    def _contents(self, parts: Sequence[str]) -> tuple[list[tuple[Any, Any]], list[tuple[str, Any]]]:
        """Definitions of common subexpressions, and the parts by their names."""
        parts = tuple(parts) or PARTS
        _check_known(parts, PARTS, "part")
        contents = [self.efforts if part == "equations" else getattr(self, part) for part in parts]
        if self.simplified:
            return [], list(zip(parts, contents, strict=True))
        names = {s.name for s in (*self.q, *self.v, *self.a, *self.tau, *self.parameters)}
        definitions, contents = sources.common_subexpressions(contents, "x", names)
        shown = [(s, readable_numbers(x)) for s, x in definitions]
        return shown, list(zip(parts, map(readable_numbers, contents), strict=True))

    def __repr__(self) -> str:
        kind = "simplified" if self.simplified else "not simplified"
        parameters = (
            f"parameters {', '.join(map(str, self.parameters))}" if self.parameters else "no parameters"
        )
        return (
            f"Equations of {self.tree.name!r}: nv = {self.tree.nv}, form {self.form!r}, {kind}, {parameters}"
        )


def dynamics_of(name: str) -> Callable[..., Any]:
    algorithm = getattr(dynamics, name)
    return lambda tree, q, v, a, gravity: algorithm(tree, q, v, a, gravity)


def make(
    robot: Robot | Tree | str,
    form: str,
    simplify: bool,
    symbols: bool,
    gravity: Sequence[Any] | None,
    names: tuple[Sequence[Any] | None, ...],
    floating: bool,
) -> Equations:
    """The `Equations` of what `liebody.equations` takes."""
    _check_form(form)
    values: dict[Any, float] = {}
    bundled = (
        model_with_symbols(robot) if symbols and isinstance(robot, str) and robot in models.names() else None
    )
    if bundled:
        tree, values = bundled
        direction: Any = GRAVITY
    else:
        held = robot if isinstance(robot, Robot) else load(robot, floating=floating)
        tree, direction = held.tree, held.gravity_vector
        if symbols:
            tree, values = with_symbols(tree)
    if not tree.nv:
        raise ModelError(f"{tree.name} has no degrees of freedom, and so no equations of motion")
    _, numbers = exact_numbers(tree)
    if gravity is None:
        gravity = _gravity(direction, any(x.free_symbols for x in numbers))
        values.update(
            {s: float(np.linalg.norm(direction)) for x in gravity for s in x.free_symbols if values}
        )
    elif np.shape(gravity) != (3,):
        raise ShapeError(f"gravity is {gravity!r}, expected three numbers or symbols, such as (0, 0, -g)")
    gravity = tuple(map(exact, gravity))
    (q, v, a), tex = _symbols(tree, names)
    tau = [sympy.Symbol(f"tau{k}", real=True) for k in range(1, tree.nv + 1)]
    tex.update({t: rf"\tau_{{{k}}}" for k, t in enumerate(tau, start=1)})
    parameters = parameters_of([*numbers, *gravity])
    kinds = {
        "a coordinate": q,
        "a velocity": v,
        "an acceleration": a,
        "an effort": tau,
        "a parameter": parameters,
    }
    _check_distinct(tree.name, kinds)
    column = sympy.ImmutableMatrix
    return Equations(
        tree, column(q), column(v), column(a), column(tau), parameters, gravity, form, simplify, values, tex
    )


def _gravity(vector: Any, symbolic: bool) -> tuple[Any, ...]:
    """Free fall with exact numbers, or of size g."""
    if not symbolic or not np.any(vector):
        return tuple(exact(x) for x in vector)
    g = sympy.Symbol("g", positive=True)
    direction = np.asarray(vector, float) / np.linalg.norm(vector)
    return tuple(g * exact(x, roots=True) for x in direction)


def _symbols(tree: Tree, names: tuple[Sequence[Any] | None, ...]) -> tuple[list[list[Any]], dict[Any, str]]:
    """Symbols of q, v and a, and their LaTeX."""
    rows: tuple[list[tuple[str, str]], ...] = ([], [], [])
    coordinates, velocities = (iter(vector.names) for vector in labels(tree))
    several = sum(b.joint.dim > 1 and b.joint.mimic is None for b in tree.bodies) > 1
    for body in tree.bodies:
        joint = body.joint
        if joint.mimic is not None:
            continue
        if (joint.nq, joint.dim) == (1, 1):
            next(coordinates), next(velocities)
            k = body.dofs.start + 1
            for row, letter, tex in zip(rows, "qva", ("q", r"\dot{q}", r"\ddot{q}"), strict=True):
                row.append((f"{letter}{k}", f"{tex}_{{{k}}}"))
            continue
        prefix, of = (f"{sources.identifier(joint.name)}_", joint.name) if several else ("", "")
        for _ in range(joint.nq):
            component = next(coordinates).rpartition(".")[2]
            rows[0].append((f"{prefix}{component}", _tex(component, of)))
        for _ in range(joint.dim):
            component = next(velocities).rpartition(".")[2]
            rows[1].append((f"{prefix}{component}", _tex(component, of)))
            rows[2].append((f"{prefix}d{component}", _tex(component, of, dot=True)))
    found: list[list[Any]] = []
    latex: dict[Any, str] = {}
    for given, row, what in zip(names, rows, "qva", strict=True):
        if given is None:
            symbols = [sympy.Symbol(name, real=True) for name, _ in row]
            latex.update({s: words for s, (_, words) in zip(symbols, row, strict=True)})
        else:
            symbols = [x if isinstance(x, sympy.Symbol) else sympy.Symbol(str(x), real=True) for x in given]
        if len(symbols) != len(row):
            raise ShapeError(f"{len(symbols)} names for {what} of {tree.name}, expected {len(row)}")
        found.append(symbols)
    return found, latex


LETTERS = {"angle": r"\theta", "omega": r"\omega", "distance": "d", "v": "v"}


def _tex(component: str, joint: str, dot: bool = False) -> str:
    r"""`wx` of joint `base` as \omega_{x,\mathrm{base}}."""
    letter, index = LETTERS.get(component, ""), ""
    if not letter:
        pairs = {"q": "q", "w": r"\omega", "v": "v"}
        letter, index = (pairs[component[0]], component[1:]) if component[0] in pairs else (component, "")
    letter = rf"\dot{{{letter}}}" if dot else letter
    words = [index, rf"\mathrm{{{joint}}}".replace("_", r"\_") if joint else ""]
    subscript = ",".join(filter(None, words))
    return f"{letter}_{{{subscript}}}" if subscript else letter


def _check_form(form: str) -> None:
    if form not in FORMS:
        raise ModelError(f"there is no form {form!r} of the Coriolis matrix; there are {', '.join(FORMS)}")


def _check_known(given: Sequence[str], known: Sequence[str], what: str) -> None:
    for word in given:
        if word not in known:
            raise ModelError(f"there is no {what} {word!r}; there are {', '.join(known)}")


def _check_distinct(name: str, kinds: Mapping[str, Sequence[Any]]) -> None:
    """Refuse two symbols of one name: what they stand for could not be told apart on paper."""
    seen: dict[str, str] = {}
    for kind, symbols in kinds.items():
        for symbol in symbols:
            if symbol.name in seen:
                raise ModelError(
                    f"{name}: {symbol.name!r} names {seen[symbol.name]} and {kind}; give the "
                    "symbols of the robot other names, or name coordinates, velocities and accelerations by "
                    "q=[...], v=[...], a=[...]"
                )
            seen[symbol.name] = kind


def _is_constant(x: Any) -> bool:
    return bool(x.is_Integer) and abs(x) <= LARGEST_CONSTANT


def _times(coefficient: Any, x: Any) -> Any:
    """coefficient x, with the number and the sign that all terms of the coefficient share in front."""
    if not coefficient.is_Add:
        return coefficient * x
    number, rest = coefficient.primitive()
    if all(term.could_extract_minus_sign() for term in rest.args):
        number, rest = -number, -rest
    return number * x * rest


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
