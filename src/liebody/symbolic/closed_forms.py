"""The equations of motion as SymPy expressions, each part computed when it is first asked for."""

from __future__ import annotations

import functools
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import sympy

from .. import dynamics, models
from ..base.arguments import checked, floats, members, number, short
from ..base.concurrency import cached_property
from ..base.errors import ArgumentError, ModelError, ShapeError, known, warn
from ..bodies import Tree
from ..bodies.labels import labels
from ..compiler import Function, jacobian, trace
from ..compiler.printers.sympy_source import arranged, to_sympy
from ..dynamics.coriolis import coriolis_form
from ..models.loading import load
from ..robot import GRAVITY, Algorithm, Robot, kernels_of
from ..scalars import Array
from ..scalars.linear import solve
from . import floating, sources
from .numbers import exact, readable_numbers
from .parameters import (
    exact_numbers,
    free_parameters,
    model_with_symbols,
    parameters_of,
    replaced,
    with_symbols,
)
from .polynomials import Ring, TooLarge

PARTS = {  # what has a name here, and what stands before it in LaTeX
    "M": "M(q)",
    "C": "C(q, v)",
    "g": "g(q)",
    "kinetic": "T",
    "potential": "U",
    "equations": "",
    "tau": r"\tau",
    "energy": "T + U",
    "M_inverse": "M(q)^{-1}",
    "kinematics": "E(q)",
    "locked_inertia": "M_{bb}(q)",
    "connection": "m(q)",
    "curvature": "B(q)",
    "locked_angle": r"\theta_{bc}(q)",
}
SHOWN = ("M", "C", "g", "kinetic", "potential", "equations")
STATE = ("tree", "q", "v", "a", "tau", "gravity")  # arguments of algorithms that equations have themselves
ALGORITHMS = {name: algorithm for name, (algorithm, given) in kernels_of(Robot).items() if not given}
LARGEST_GRAPH = 40_000  # operations that become SymPy expressions within minutes
LARGEST_CONSTANT = 1000  # whole numbers up to this are exact in the floats of a trace, products of them too
WIDTH = 100  # of a page of text
NUMBERED = re.compile(r"([cIp])(\d+)([xyz]+)")  # symbols of a body, such as I1xx: SymPy sees no index in them
SYMMETRIC = sympy.Symbol("*")  # in the lower triangle of a symmetric matrix


class LongForm(UserWarning):
    """A closed form that is too long to be simplified, and is given as its algorithm makes it."""


class VelocityProducts(NamedTuple):
    """C(q, v) v by products of velocities: centrifugal [v_j^2] + coriolis [v_j v_k].

    centrifugal  (nv, nv): column j multiplies v_j^2
    coriolis     (nv, nv (nv - 1) / 2): a column for each of the pairs
    pairs        places (j, k), j < k, of the velocities that those columns multiply
    """

    centrifugal: Any
    coriolis: Any
    pairs: tuple[tuple[int, int], ...]


def _part(algorithm: str | Callable[..., Any], text: str) -> cached_property[Any]:
    """A part that is what an algorithm computes."""
    part = cached_property(lambda self: self.of(algorithm))
    part.__doc__ = text
    return part


def _inverse_mass_matrix(tree: Tree, q: Array) -> Array:
    return solve(dynamics.mass_matrix(tree, q), np.eye(tree.nv, dtype=int))


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

    M = _part("mass_matrix", "The mass matrix M(q), (nv, nv).")
    M_inverse = _part(_inverse_mass_matrix, "M(q)^-1, (nv, nv).")
    g = _part("gravity", "The efforts that hold the mechanism at rest, g(q), (nv, 1).")
    kinetic = _part("kinetic_energy", "The kinetic energy v^T M v / 2, a scalar.")
    potential = _part(
        "potential_energy", "The potential energy, zero where all mass is in the world's origin, a scalar."
    )
    locked_inertia = _part(
        "locked_inertia",
        "Mbb(q) of a floating base, (k, k): the inertia of the robot with its joints locked.",
    )
    connection = _part(
        "mechanical_connection",
        "m(q) = Mbb^-1 Mbq of a floating base, (k, n): without momentum, q' moves the base by -m q'.",
    )

    @cached_property
    def C(self) -> Any:
        """The Coriolis matrix C(q, v), (nv, nv), of the form `form`."""
        return self.coriolis(self.form)

    @cached_property
    def energy(self) -> Any:
        """The sum of both, a scalar."""
        return self.kinetic + self.potential

    @cached_property
    def kinematics(self) -> Any:
        """E(q) with dq/dt = E(q) v, (nq, nv); 1 where all joints have coordinates in R^n."""

        def moved(tree: Tree, q: Array, v: Array) -> Array:
            return tree.group.integrate(q, v)

        by_v = jacobian(self._traced(moved, "kinematics"), "v")
        still = np.zeros(self.tree.nv).astype(object)

        def rates(equations: Equations) -> list[Any]:
            return [equations._retraced("kinematics", lambda q, v, *others: by_v(q, still, *others))]

        return self._short_or_long(rates)[0]

    @cached_property
    def efforts(self) -> Any:
        """M a + C v + g, (nv, 1): the right-hand sides of `equations`.

        Simplified, each is a sum over accelerations, products of velocities, and gravity. Otherwise, and
        where one of these is too long, it comes from the recursive Newton-Euler algorithm.
        """
        return self._short_or_long(lambda equations: [equations._efforts()])[0]

    def _efforts(self) -> Any:
        """The efforts; raises TooLarge where the equations are simplified and a term is too long."""
        if not self.simplified:
            return self.of("inverse_dynamics")
        for part in ("M", "g"):
            if id(getattr(self, part)) in self._long:
                raise TooLarge(f"{self.tree.name}: the equations in short form would have a long {part}")
        products = self._velocity_products
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
        coriolis_form(form)
        return self.of("coriolis_matrix", form=form)

    def of(self, algorithm: str | Callable[..., Any], **options: Any) -> Any:
        """What an algorithm computes, in closed form: a scalar, column, matrix or array, or several of them.

        algorithm  the name of a method of robots, such as "pose", "jacobian", "centroidal_momentum_matrix",
                   or of a part, such as "connection"; or a function f(tree, ...) of NumPy operators and
                   `liebody.scalars`, whose arguments have some of the names q, v, a, tau, gravity
        options    of the algorithm, such as frame="foot"; other arrays of it, of numbers or symbols

            eq.of("decoupled_dynamics", x="centroidal").Mx

        What would become too long in short form comes as the algorithm makes it, with a LongForm warning:
        text(), c() and their like print it with common subexpressions.

        Raises ModelError for an unknown method or option.
        """
        if isinstance(algorithm, str):
            if algorithm in PARTS and algorithm not in ALGORITHMS and not options:
                return getattr(self, algorithm)
            if algorithm not in ALGORITHMS:
                raise ModelError(f"robots have no algorithm {algorithm!r}; there are {', '.join(ALGORITHMS)}")
            name, entry = algorithm, ALGORITHMS[algorithm]
        elif callable(algorithm):
            name, entry = getattr(algorithm, "__name__", "function"), Algorithm(algorithm)
        else:
            raise ArgumentError(f"algorithm is {short(algorithm)}, expected a name or a function")
        others = {k: x for k, x in entry.parameters.items() if k not in STATE}
        missing = {k for k, x in others.items() if x.default is x.empty} - set(options)
        if missing or not set(options) <= set(others):
            raise ModelError(f"{name} takes the options {list(others)}, got {list(options)}")
        found = [x for _, x in self._results(name, entry.function, **options)]
        if entry.tuple_of:
            return entry.tuple_of(*found)
        return found[0] if len(found) == 1 else tuple(found)

    def rate(self, x: Any) -> Any:
        """dx/dt of an expression, or a matrix or a list of expressions, in q and v, along the motion.

        (dx/dq) E(q) v + (dx/dv) a, with `kinematics` E(q).
        """
        x, moved = sympy.Matrix(x) if isinstance(x, list | tuple) else x, self.kinematics * self.v
        state = [*zip(self.q, moved, strict=True), *zip(self.v, self.a, strict=True)]
        return self._each(x, lambda y: sympy.Add(*(sympy.diff(y, s) * rate for s, rate in state)))

    def jacobian(self, x: Any) -> Any:
        """J(q), (n, nv), with dx/dt = J v, of an expression or a column (n, 1) of expressions in q.

        (dx/dq) E(q), with `kinematics` E(q): Jydot of the toolbox of Feurstein (2021), appendix A.2.
        """
        return self._each(sympy.Matrix([x]).jacobian(self.q) * self.kinematics, lambda y: y)

    def _each(self, x: Any, change: Callable[[Any], Any]) -> Any:
        """The changed entries of x; of simplified equations in short form, if it is not too long."""
        return self._short_or_long(lambda equations: [equations._changed(x, change)])[0]

    def _changed(self, x: Any, change: Callable[[Any], Any]) -> Any:
        """The same; raises TooLarge."""
        if hasattr(x, "applyfunc"):
            return x.applyfunc(lambda y: self._changed(y, change)).as_immutable()
        changed = change(sympy.sympify(x))
        if not self.simplified:
            return changed
        try:
            return self._ring.shortest(changed)
        except TooLarge as error:
            raise TooLarge(f"{self.tree.name}: a derivative in short form would be {error}") from error

    @cached_property
    def curvature(self) -> Any:
        """The angular part of the curvature of `connection`, (r, n, n), r the base's turning velocities.

        d_j w_i - d_i w_j + w_i x w_j; the linear part is c x that. Feurstein (2021), eq. (3.72).
        """
        return self._short_or_long(lambda equations: [floating.curvature(equations)])[0]

    @cached_property
    def integrable(self) -> bool:
        """Whether the curvature is zero, decided on its normal form: the locked frame is a function of q."""
        if not self.simplified:
            raise ModelError(
                f"{self.tree.name}: without simplification zero is not told from what cancels; ask for "
                "equations with simplify=True, or for dynamics.integrability, which is numerical"
            )
        curvature = self.curvature
        if id(curvature) in self._long:
            raise ModelError(
                f"{self.tree.name}: the curvature in short form would be too long, and without it zero is "
                "not told from what cancels; dynamics.integrability decides numerically"
            )
        return all(x == 0 for x in sympy.flatten(curvature))

    @cached_property
    def locked_angle(self) -> Any:
        """The angle of the frame that moves with the locked velocity, of a planar base with one joint.

        int m_omega(q) dq from 0, by its antiderivative, continuous for all q. Feurstein (2021), eq. (3.76).
        """
        return floating.locked_angle(self)

    def velocity_products(self) -> VelocityProducts:
        """C(q, v) v as the coefficients of v_j^2 (centrifugal terms) and of v_j v_k (Coriolis terms)."""
        centrifugal, coriolis = self._long_or_short_products
        return VelocityProducts(centrifugal, coriolis, self._pairs)

    @cached_property
    def _long_or_short_products(self) -> list[Any]:
        return self._short_or_long(lambda equations: [*equations._velocity_products[:2]])

    @cached_property
    def _pairs(self) -> tuple[tuple[int, int], ...]:
        n = self.tree.nv
        return tuple((j, k) for j in range(n) for k in range(j + 1, n))

    @cached_property
    def _velocity_products(self) -> VelocityProducts:
        """The products of velocities; raises TooLarge."""

        def products(tree: Tree, q: Array, v: Array) -> Array:
            return dynamics.bias_forces(tree, q, v, gravity=(0, 0, 0))

        n = self.tree.nv
        bias = self._traced(products, "velocity_products")
        twice = jacobian(jacobian(bias, "v"), "v")  # (n, n, n), without v: the products are quadratic
        still = np.zeros(n).astype(object)
        pairs = self._pairs

        def coefficients(q: Array, v: Array, *others: Array) -> Array:
            H = twice(q, still, *others)
            rows = [[0.5 * H[i, j, j] for j in range(n)] + [H[i, j, k] for j, k in pairs] for i in range(n)]
            return np.array(rows, dtype=object).reshape(n, n + len(pairs))

        table = self._retraced("velocity_products", coefficients)
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
        ring = Ring(parameters=frozenset().union(*(x.free_symbols for x in self._numbers[1])))
        for start in self.tree.group.quaternions:
            ring.quaternion(list(self.q[start : start + 4]))
        return ring

    @cached_property
    def _shapes(self) -> dict[str, int]:
        nq, nv = self.tree.nq, self.tree.nv
        return {"q": nq, "v": nv, "a": nv, "tau": nv, "parameter": len(self._numbers[1])}

    def _found(
        self, name: str, algorithm: Callable[..., Any], **options: Any
    ) -> list[tuple[tuple[int, ...], Any]]:
        """All results of an algorithm, of whose options some may hold symbols: shapes and closed forms."""
        arrays = {k: np.asarray(x, object) for k, x in options.items() if _holds_symbols(x)}
        rest = {k: x for k, x in options.items() if k not in arrays}
        return self._expressions(self._traced(functools.partial(algorithm, **rest), name, arrays), arrays)

    def _results(
        self, name: str, algorithm: Callable[..., Any], **options: Any
    ) -> list[tuple[tuple[int, ...], Any]]:
        """As `_found`; what is too large to be simplified comes as the algorithm makes it."""
        shapes: list[tuple[int, ...]] = []

        def compute(equations: Equations) -> list[Any]:
            results = equations._found(name, algorithm, **options)
            shapes.extend(shape for shape, _ in results)
            return [x for _, x in results]

        expressions = self._short_or_long(compute)
        return list(zip(shapes, expressions, strict=True))

    def _short_or_long(self, compute: Callable[[Equations], list[Any]]) -> list[Any]:
        """What `compute` makes of these equations; where that is too long, of those that are not simplified.

        Each part falls back by itself, with a warning, and is remembered as long.
        """
        try:
            return compute(self)
        except TooLarge as error:
            expressions = compute(self._not_simplified)
            self._long.update((id(x), x) for x in expressions)
            text = f"{error}; it comes as its algorithm makes it, printed with common subexpressions"
            warn(text, LongForm)
            return expressions

    @cached_property
    def _not_simplified(self) -> Equations:
        return replace(self, simplified=False)

    @cached_property
    def _long(self) -> dict[int, Any]:
        """Expressions that are not simplified, by their identities."""
        return {}

    def _traced(
        self, algorithm: Callable[..., Any], name: str, arrays: Mapping[str, Array] | None = None
    ) -> Function:
        """algorithm(tree, ...) of some of q, v, a, tau, gravity, traced with the tree's numbers as inputs."""
        exact_tree, numbers = self._numbers
        places = {x: k for k, x in enumerate(numbers)}
        wanted = [k for k in inspect.signature(algorithm).parameters if k in STATE]

        def run(q: Array, v: Array, a: Array, tau: Array, parameter: Array, *others: Array) -> Any:
            def value(x: Any, _: str = "") -> Any:
                return parameter[places[x]] if x in places else int(x)

            gravity = np.array([value(x) for x in self.gravity], dtype=object)
            tree = replaced(exact_tree, value)
            state = {"tree": tree, "q": q, "v": v, "a": a, "tau": tau, "gravity": gravity}
            given = dict(zip(arrays or {}, others, strict=True))
            return algorithm(**{k: state[k] for k in wanted}, **given)

        return self._trace(run, name, arrays)

    def _trace(self, run: Any, name: str, arrays: Mapping[str, Array] | None = None) -> Function:
        """A function of the state, the numbers and `arrays`, if it is not too long."""
        shapes = {k: x.shape for k, x in (arrays or {}).items()}
        function = trace(run, {**self._shapes, **shapes}, name)
        if len(function.nodes) > LARGEST_GRAPH:
            raise ModelError(
                f"{self.tree.name}: {function.name} takes {len(function.nodes)} operations, and SymPy would "
                f"need more than minutes for over {LARGEST_GRAPH}; Robot.kernel and Robot.export_c have no "
                "such limit"
            )
        return function

    def _retraced(self, name: str, function: Callable[..., Any]) -> Any:
        """The one result of a function of the state and the numbers, in closed form."""
        ((_, found),) = self._expressions(self._trace(function, name))
        return found

    def _expressions(
        self, function: Function, arrays: Mapping[str, Array] | None = None
    ) -> list[tuple[tuple[int, ...], Any]]:
        """The outputs of a traced function and their shapes, with values of inputs of its own."""
        values = {"q": list(self.q), "v": list(self.v), "a": list(self.a), "tau": list(self.tau)}
        values |= {"parameter": self._numbers[1], **(arrays or {})}
        shapes = {key: y.shape for key, y in function.outputs.items()}
        if self.simplified:
            found = {key: arranged(x, shapes[key]) for key, x in self._short(function, values).items()}
        else:
            with sympy.core.parameters.distribute(False):
                found = to_sympy(function, values)
        fixed = (x.as_immutable() if hasattr(x, "as_immutable") else x for x in found.values())
        return list(zip(shapes.values(), fixed, strict=True))

    def _short(self, function: Function, values: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The entries of the outputs in short form."""
        inputs = {
            s: sympy.sympify(x)
            for key, symbols in function.inputs.items()
            for s, x in zip(symbols.flat, np.ravel(values[key]), strict=True)
        }
        try:
            polynomials = self._ring.evaluate(function, inputs)
            return {key: list(map(self._ring.expression, x)) for key, x in polynomials.items()}
        except TooLarge as error:
            raise TooLarge(f"{self.tree.name}: {function.name} in short form would be {error}") from error

    # -- what comes out -----------------------------------------------------------------------------------

    def latex(self, *parts: str, **expressions: Any) -> str:
        r"""LaTeX of some parts (all, if none is named), each an equation, one a line: `M(q) = ...`.

        parts        M, C, g, kinetic, potential, equations, tau, energy, M_inverse, kinematics,
                     locked_inertia, connection, curvature, locked_angle, or a method of robots that needs no
                     options, such as "center_of_mass"
        expressions  others by name, as `rate`, `jacobian` and `of` make them:
                     foot=eq.of("pose", frame="foot")

        Of a symmetric matrix the upper triangle is written, and * below it. Where a part is not simplified,
        common subexpressions x_0, x_1, ... come first, each on its line.
        """
        definitions, contents = self._contents(parts, expressions)
        indexed = {s: NUMBERED.fullmatch(s.name) for s in self.values}
        names = {s: f"{found[1]}_{{{found[2]},{found[3]}}}" for s, found in indexed.items() if found}

        def tex(x: Any) -> str:
            return sympy.latex(x, symbol_names={**names, **self.symbol_names, SYMMETRIC: r"\ast"})

        lines = [f"{tex(s)} = {tex(x)}" for s, x in definitions]
        for part, content in contents:
            if part == "equations":
                lines += [f"{tex(t)} = {tex(x)}" for t, x in zip(self.tau, content, strict=True)]
            else:
                left = PARTS.get(part) or rf"\mathrm{{{part}}}".replace("_", r"\_")
                lines.append(f"{left} = {tex(_upper(content))}")
        return "\n".join(lines) + "\n"

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

        Of a symmetric matrix the upper triangle is printed.
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

        outputs      what it returns, parts as of `latex`; M, C and g if none is named
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
        q0, v0 = (floats(f"{what} of the start", x) for what, x in zip("qv", start, strict=True))
        for x, symbols, what in zip((q0, v0), (self.q, self.v), "qv", strict=True):
            if x.shape != (len(symbols),):
                raise ShapeError(f"the start has {what} of shape {x.shape}, expected ({len(symbols)},)")
        if not (t_end > 0 and dt > 0 and math.isfinite(t_end / dt)):
            raise ModelError(f"a program needs t_end > 0 and dt > 0, got {t_end} and {dt}")
        given = [0] * self.tree.nv if tau is None else members("tau", tau, "an effort for each velocity")
        efforts = sympy.Matrix(given)
        if len(efforts) != self.tree.nv:
            raise ShapeError(f"{len(efforts)} efforts, expected {self.tree.nv}")
        outputs = {
            "M": self.M,
            "force": (efforts - self.of("bias")).as_immutable(),
            "rate": (self.kinematics * self.v).as_immutable(),
        }
        used = sources.symbols_in(outputs.values()) - {*self.q, *self.v}
        own = {str(key): number(str(key), x) for key, x in (values or {}).items()}
        numbers = {str(key): x for key, x in self.values.items()} | own
        there = {symbol.name for symbol in (*self.parameters, *used)}
        for name in own.keys() - there:
            raise ModelError(f"there is no parameter {name!r}; {known(sorted(there), name)}")
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
        used = sources.symbols_in(results.values())
        needed = {"v": {"C", "kinetic", "energy", "tau"}, "a": {"tau"}, "tau": set()}
        arguments = {"q": self.q}
        for key, by in needed.items():
            symbols = getattr(self, key)
            if by & set(outputs) or used & set(symbols):
                arguments[key] = symbols
        own = {s for symbols in arguments.values() for s in symbols}
        own |= set(self.parameters)
        parameters = [p for p in self.parameters if p in used]
        parameters += parameters_of([*(used - own)])
        formulas = sources.Formulas(name or self.tree.name, arguments, parameters, results, columns)
        return sources.source(language, formulas)

    def _parts(self, names: Sequence[str], expressions: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """Parts and expressions by name, and which of them are columns."""
        found: dict[str, Any] = {}
        columns = {"g", "tau"}
        for name in names:
            algorithm = ALGORITHMS.get(name)
            if name in ("equations", "tau"):
                found[name] = self.efforts
            elif name in PARTS:
                found[name] = getattr(self, name)
            elif algorithm and algorithm.is_complete and set(algorithm.arrays) <= set(STATE):
                results = self._results(name, algorithm.function)
                numbered = [name, *(f"{name}_{k}" for k in range(1, len(results)))]
                words = getattr(algorithm.tuple_of, "_fields", numbered)
                for word, (shape, x) in zip(words, results, strict=True):
                    found[word] = x
                    columns |= {word} if len(shape) == 1 else set()
            else:
                raise ModelError(
                    f"there is no part {name!r}; there are {', '.join(PARTS)}, and the methods of robots "
                    f"that need no options; others as name=expression, with of({name!r}, ...)"
                )
        for name, x in expressions.items():
            found[name] = x = sympy.sympify(x)
            columns |= {name} if getattr(x, "shape", ())[1:] == (1,) else set()
        return found, columns

    def _contents(
        self, parts: Sequence[str], expressions: Mapping[str, Any]
    ) -> tuple[list[tuple[Any, Any]], list[tuple[str, Any]]]:
        """Definitions of common subexpressions of the parts that are not in short form; all parts by name."""
        shown, _ = self._parts(parts or (() if expressions else SHOWN), expressions)
        long = {name: x for name, x in shown.items() if not self.simplified or id(x) in self._long}
        if not long:
            return [], list(shown.items())
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


def _holds_symbols(x: Any) -> bool:
    return isinstance(x, (np.ndarray, list, tuple, sympy.Basic, sympy.MatrixBase)) and any(
        hasattr(y, "free_symbols") for y in np.ravel(np.asarray(x, dtype=object))
    )


def make(
    robot: Robot | Tree | str,
    form: str,
    simplify: bool,
    symbols: bool | Iterable[str],
    gravity: Sequence[Any] | None,
    names: tuple[Sequence[Any] | None, ...],
    floating: bool,
) -> Equations:
    """The `Equations` of what `liebody.symbolic` takes."""
    coriolis_form(form)
    values: dict[Any, float] = {}
    bundled = None
    if symbols is True and isinstance(robot, str) and robot in models.names():
        bundled = model_with_symbols(robot)
    if bundled:
        tree, values = bundled
        direction: Any = GRAVITY
    else:
        held = robot if isinstance(robot, Robot) else load(robot, floating=floating)
        tree, direction = held.tree, held.gravity_vector
        if held.layout.size:
            tree, fall, values = free_parameters(held)
            if gravity is None and (not held.symbols or "gravity" in held.layout.defaults):
                gravity = tuple(fall)
        if symbols:
            tree, values = with_symbols(tree, symbols)
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


def _check_known(word: str, known: Iterable[str], what: str) -> None:
    if word not in known:
        raise ModelError(f"there is no {what.format(repr(word))}; there are {', '.join(known)}")


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


def _upper(x: Any) -> Any:
    """A symmetric matrix with a mark in place of what stands above the diagonal already."""
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
    lines, column = [], x.shape[1:] == (1,)
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
