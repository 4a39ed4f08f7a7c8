"""Decides the conditions of traced functions: which branch of a `where` holds at some states.

A condition compares two numbers, a < b; minimum, maximum, absolute value and sign do, too. Near these states
the difference b - a has one sign. Floats say which: so each `where` becomes one of its branches, and the
function smooth. Proofs then show that the differences have these signs wherever they use the function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import GraphError
from .graph import CONDITIONS, Expr, Function, evaluate, trace

Array = Any
COMPARED = ("lt", "le", "eq", "minimum", "maximum")  # of two operands
OF_ZERO = ("absolute", "sign")
OPEN = object()


class _Open(Exception):
    """A condition on which the samples do not agree."""


@dataclass
class Decided:
    """A function without conditions.

    function  its outputs, and "differences" (k,); its last input "open" has a symbol for each selection that
              is not the same at all samples
    signs     of the differences, for which the function equals the traced function
    """

    function: Function
    signs: list[int]

    @property
    def differences(self) -> Array:
        return self.function.outputs["differences"]

    @staticmethod
    def value(function: Function, *arguments: Any) -> Array:
        """A function of some of these outputs, which depends on no open selection."""
        return np.asarray(function(*arguments, np.zeros(function.inputs["open"].shape)))


def decided(
    function: Function, samples: Sequence[tuple[Any, ...]], known: Mapping[Any, int] | None = None
) -> Decided:
    """A function in which each condition is decided as at all samples of its arguments.

    known  signs of some expressions, for which the caller answers: they are not among the differences
    """
    compared = {node: _compared(node) for node in function.nodes if node.op in (*COMPARED, *OF_ZERO)}
    if not compared:
        nothing = np.zeros(0, object)
        outputs = {**function.outputs, "differences": nothing}
        return Decided(Function(function.name, {**function.inputs, "open": nothing}, outputs), [])
    pairs = Function("pairs", function.inputs, {"pairs": np.array([*compared.values()], object)})
    values = np.array([np.asarray(pairs(*sample), float) for sample in samples])
    signs = np.sign(values[..., 1] - values[..., 0])
    by_node = {node: set(signs[:, k].tolist()) for k, node in enumerate(compared)}
    given: set[Expr] = set()
    for node, (a, b) in compared.items():
        for x, y, way in ((a, b, 1), (b, a, -1)):
            if known and _is_zero(x) and y in known:
                by_node[node] = {float(way * known[y])}
                given.add(node)
    return _replayed(function, compared, by_node, given)


def _are_one(a: Any, b: Any) -> bool:
    """Whether two operands are the same node, or equal numbers."""
    return a is b or (type(a) is float and type(b) is float and a == b)


def _is_zero(x: Any) -> bool:
    return type(x) is float and x == 0.0


def _difference(a: Any, b: Any) -> Any:
    """b - a; of a and zero a, so that it is the same expression as a guard a."""
    return a if _is_zero(b) else b - a


def _compared(node: Expr) -> tuple[Any, Any]:
    """The numbers a and b of which a node takes the sign of b - a."""
    return (0.0, node.args[0]) if node.op in OF_ZERO else (node.args[0], node.args[1])


class _Choices:
    """Which nodes a function needs when its conditions are decided, and what stands for each of them."""

    def __init__(self, compared: Mapping[Expr, Any], signs: Mapping[Expr, set[float]]) -> None:
        self.compared = compared
        self.signs = signs
        self.used: dict[Expr, int] = {}

    def sign(self, node: Expr) -> int:
        """The sign of b - a at a node that compares."""
        if len(self.signs[node]) != 1 or not self.signs[node] <= {-1.0, 1.0}:
            raise _Open
        self.used[node] = int(min(self.signs[node]))
        return self.used[node]

    def holds(self, condition: Any) -> bool:
        if type(condition) is not Expr:
            return bool(condition)
        if condition.op == "not":
            return not self.holds(condition.args[0])
        if condition.op in ("and", "or"):
            return self._combined(condition)
        numbers = self._numbers(condition.args)
        if numbers is not None:
            a, b = numbers
            return {"lt": a < b, "le": a <= b, "eq": a == b}[condition.op]
        return self.sign(condition) > 0 and condition.op != "eq"

    def _combined(self, condition: Expr) -> bool:
        """Value of an "and" or "or": one argument that decides is enough; the others may be open."""
        deciding = condition.op == "or"
        before = dict(self.used)
        are_open = False
        for x in condition.args:
            used = dict(self.used)
            try:
                if self.holds(x) == deciding:
                    self.used = before | {node: self.used[node] for node in self.used if node not in used}
                    return deciding
            except _Open:
                self.used = used
                are_open = True
        if are_open:
            raise _Open
        return not deciding

    def operand(self, node: Expr) -> Any:
        """The operand that a selecting node equals, up to its sign; None: the node is no selection.

        OPEN where the samples do not agree.
        """
        if node.op == "where":  # both branches may be one number
            used = dict(self.used)
            branches = self._numbers(node.args[1:])
            if branches is not None and branches[0] == branches[1]:
                return branches[0]
            self.used = used
        used = dict(self.used)
        try:
            return self._operand(node)
        except _Open:
            self.used = used
            return OPEN

    def _numbers(self, operands: Sequence[Any]) -> list[float] | None:
        """The numbers that all operands are; None where one is none."""
        used = dict(self.used)
        numbers = [self._number(x) for x in operands]
        found = [x for x in numbers if x is not None]
        if len(found) == len(numbers):
            return found
        self.used = used
        return None

    def _number(self, x: Any) -> float | None:
        """The number that an operand is, behind decided selections."""
        while type(x) is Expr and x.op in ("where", "minimum", "maximum"):
            x = self.operand(x)
        return x if type(x) is float else None

    def _operand(self, node: Expr) -> Any:
        if node.op == "where" and (_are_one(*node.args[1:])):
            return node.args[1]
        if node.op == "where":
            return node.args[1] if self.holds(node.args[0]) else node.args[2]
        if node.op in ("minimum", "maximum"):
            return node.args[(self.sign(node) > 0) == (node.op == "maximum")]
        if node.op in OF_ZERO:
            self.sign(node)
        return node.args[0] if node.op == "absolute" else None


def _replayed(
    function: Function,
    compared: Mapping[Expr, Any],
    signs: Mapping[Expr, set[float]],
    given: set[Expr],
) -> Decided:
    """The function once more, without the branches that do not hold."""
    choices = _Choices(compared, signs)
    results = [x for y in function.outputs.values() for x in y.flat]
    # backwards: operands come before the nodes that need them
    chosen: dict[Expr, Any] = {}
    needed = _symbols(results)
    for node in reversed(function.nodes):
        if node not in needed or node.op == "input" or node.op in CONDITIONS:
            continue
        before = len(choices.used)
        operand = choices.operand(node)
        chosen[node] = operand
        without = node.op == "sign" or operand is OPEN  # no operand is left
        needed |= _symbols(node.args if operand is None and not without else [operand])
        for decided_now in [*choices.used][before:]:
            needed |= _symbols(compared[decided_now])
    order = [node for node in function.nodes if node in chosen]
    used = [node for node in choices.used if node not in given]

    places = {node: k for k, node in enumerate(node for node in order if chosen[node] is OPEN)}

    def run(*every: Array) -> dict[str, Array]:
        *arguments, symbols_of_open = every
        values: dict[Any, Any] = {}
        for symbols, argument in zip(function.inputs.values(), arguments, strict=True):
            values.update(zip(symbols.flat, np.asarray(argument, object).flat, strict=True))

        def value(x: Any) -> Any:
            return values[x] if type(x) is Expr else x

        for node in order:
            operand = chosen[node]
            if operand is OPEN:
                values[node] = symbols_of_open[places[node]]
            elif node.op == "sign":
                values[node] = float(choices.used[node])
            elif operand is None:
                evaluate([node], values)
            else:
                negative = node.op == "absolute" and choices.used[node] < 0
                values[node] = -value(operand) if negative else value(operand)
        outputs = {
            name: np.array([value(x) for x in y.flat], object).reshape(y.shape)
            for name, y in function.outputs.items()
        }
        outputs["differences"] = np.array([_difference(*map(value, compared[x])) for x in used], object)
        return outputs

    shapes: dict[str, Any] = {name: symbols.shape for name, symbols in function.inputs.items()}
    shapes["open"] = len(places)
    again = trace(run, shapes, function.name)
    # the same differences once, and none that is a number
    kept: dict[Any, int] = {}
    for x, node in zip(again.outputs["differences"], used, strict=True):
        sign = -choices.used[node] if _is_zero(compared[node][1]) else choices.used[node]
        if type(x) is Expr and kept.setdefault(x, sign) != sign:
            raise GraphError(f"{function.name} has a condition that is decided in two ways")
    outputs = {**again.outputs, "differences": np.array([*kept], object)}
    return Decided(Function(function.name, again.inputs, outputs), [*kept.values()])


def _symbols(values: Iterable[Any]) -> set[Expr]:
    return {x for x in values if type(x) is Expr}
