"""The way of an algorithm to its closed form: traced with symbols, brought to a short form as polynomials."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import sympy

from ..base.concurrency import cached_property
from ..base.errors import ModelError, warn
from ..bodies import Tree
from ..compiler import Expr, Function, to_sympy, trace
from ..scalars import Array
from .parameters import exact_numbers, replaced
from .polynomials import TooLarge
from .short_forms import Ring

STATE = ("tree", "q", "v", "a", "tau", "gravity")  # arguments of algorithms that equations have themselves
LARGEST_GRAPH = 40_000  # operations that become SymPy expressions within minutes
LARGEST_CONSTANT = 1000  # whole numbers up to this are exact in the floats of a trace, products of them too


class LongForm(UserWarning):
    """A closed form that is too long to be simplified, and is given as its algorithm makes it."""


@dataclass(frozen=True, eq=False, repr=False)
class Derivation:
    """A mechanism in symbols, and how results of algorithms on it become expressions.

    q, v, a, tau  columns of symbols: coordinates, velocities, accelerations and efforts
    parameters    the other symbols, in natural order
    values        the numbers that parameters stand for, where they replaced numbers
    gravity       acceleration of free fall, (3,)
    form          of the Coriolis matrix C
    simplified    whether expressions are brought to a short form
    symbol_names  LaTeX of symbols that SymPy would not guess

    An algorithm is traced once, with the numbers of the tree as inputs (`traced`). Its graph is evaluated
    over polynomials in sines, cosines and parameters, whose normal form is short, or node by node in SymPy.
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
    symbol_names: Mapping[Any, str] = field(default_factory=dict)

    @cached_property
    def numbers(self) -> tuple[Tree, list[Any]]:
        """The tree with exact numbers, and those that are inputs of its traces."""
        # small whole numbers stay constants of the trace, where zeros and ones vanish
        tree, numbers = exact_numbers(self.tree)
        numbers += [x for x in self.gravity if x not in numbers]
        return tree, [x for x in numbers if not _is_constant(x)]

    @cached_property
    def ring(self) -> Ring:
        """The polynomials in which expressions become short."""
        # sums of these symbols are taken out as factors, as m1 + m2; quaternions have length one
        ring = Ring(parameters=frozenset().union(*(x.free_symbols for x in self.numbers[1])))
        for start in self.tree.group.quaternions:
            ring.quaternion(list(self.q[start : start + 4]))
        return ring

    @cached_property
    def _shapes(self) -> dict[str, int]:
        nq = self.tree.nq
        nv = self.tree.nv
        return {"q": nq, "v": nv, "a": nv, "tau": nv, "parameter": len(self.numbers[1])}

    def closed_forms(
        self, name: str, algorithm: Callable[..., Any], **options: Any
    ) -> list[tuple[tuple[int, ...], Any]]:
        """All results of an algorithm, of whose options some may hold symbols: shapes and closed forms."""
        # options with symbols become inputs of the trace; all others belong to the algorithm
        arrays = {k: np.asarray(x, object) for k, x in options.items() if _holds_symbols(x)}
        rest = {k: x for k, x in options.items() if k not in arrays}
        return self._expressions(self.traced(functools.partial(algorithm, **rest), name, arrays), arrays)

    def results(
        self, name: str, algorithm: Callable[..., Any], **options: Any
    ) -> list[tuple[tuple[int, ...], Any]]:
        """As `closed_forms`; results too large to be simplified come as the algorithm makes them."""
        shapes: list[tuple[int, ...]] = []

        def compute(equations: Derivation) -> list[Any]:
            results = equations.closed_forms(name, algorithm, **options)
            shapes.extend(shape for shape, _ in results)
            return [x for _, x in results]

        expressions = self.short_or_long(compute)
        return list(zip(shapes, expressions, strict=True))

    def short_or_long(self, compute: Callable[[Self], list[Any]]) -> list[Any]:
        """The results of `compute` in short form; where these are too long, in the form of the algorithm.

        Each part falls back by itself, with a warning, and is remembered as long.
        """
        try:
            return compute(self)
        except TooLarge as error:
            # the identity of an expression remembers that it is long, for texts
            expressions = compute(self._not_simplified)
            self._long.update((id(x), x) for x in expressions)
            text = f"{error}; it comes as its algorithm makes it, printed with common subexpressions"
            warn(text, LongForm)
            return expressions

    @cached_property
    def _not_simplified(self) -> Self:
        return replace(self, simplified=False)

    @cached_property
    def _long(self) -> dict[int, Any]:
        """Expressions that are not simplified, by their identities."""
        return {}

    def traced(
        self, algorithm: Callable[..., Any], name: str, arrays: Mapping[str, Array] | None = None
    ) -> Function:
        """algorithm(tree, ...) of some of q, v, a, tau, gravity, traced with the tree's numbers as inputs."""
        # numbers enter as symbols, so that the graph keeps them exact; constants would become floats
        exact_tree, numbers = self.numbers
        places = {x: k for k, x in enumerate(numbers)}
        # the algorithm gets only the arguments that it names
        wanted = [k for k in inspect.signature(algorithm).parameters if k in STATE]

        def run(q: Array, v: Array, a: Array, tau: Array, parameter: Array, *others: Array) -> Any:
            def value(x: Any, _: str = "") -> Any:
                return parameter[places[x]] if x in places else int(x)

            gravity = np.array([value(x) for x in self.gravity], dtype=object)
            tree = replaced(exact_tree, value)
            state = {"tree": tree, "q": q, "v": v, "a": a, "tau": tau, "gravity": gravity}
            options = dict(zip(arrays or {}, others, strict=True))
            return algorithm(**{k: state[k] for k in wanted}, **options)

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

    def closed_form(self, name: str, function: Callable[..., Any]) -> Any:
        """The one result of a function of the state and the numbers, in closed form."""
        ((_, result),) = self._expressions(self._trace(function, name))
        return result

    def _expressions(
        self, function: Function, arrays: Mapping[str, Array] | None = None
    ) -> list[tuple[tuple[int, ...], Any]]:
        """The outputs of a traced function and their shapes; `arrays` are values of further inputs."""
        values = {"q": list(self.q), "v": list(self.v), "a": list(self.a), "tau": list(self.tau)}
        values |= {"parameter": self.numbers[1], **(arrays or {})}
        shapes = {key: y.shape for key, y in function.outputs.items()}
        if self.simplified:
            results = to_sympy(function, values, self._short)
        else:
            # SymPy would multiply numbers into sums by itself
            with sympy.core.parameters.distribute(False):
                results = to_sympy(function, values)
        fixed = (x.as_immutable() if hasattr(x, "as_immutable") else x for x in results.values())
        return list(zip(shapes.values(), fixed, strict=True))

    def _short(self, function: Function, inputs: Mapping[Expr, Any]) -> dict[str, list[Any]]:
        """The entries of the outputs in short form."""
        try:
            polynomials = self.ring.evaluate(function, inputs)
            return {key: list(map(self.ring.expression, x)) for key, x in polynomials.items()}
        except TooLarge as error:
            raise TooLarge(f"{self.tree.name}: {function.name} in short form would be {error}") from error


def _holds_symbols(x: Any) -> bool:
    return isinstance(x, (np.ndarray, list, tuple, sympy.Basic, sympy.MatrixBase)) and any(
        hasattr(y, "free_symbols") for y in np.ravel(np.asarray(x, dtype=object))
    )


def _is_constant(x: Any) -> bool:
    return bool(x.is_Integer) and abs(x) <= LARGEST_CONSTANT
