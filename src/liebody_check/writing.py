"""Writes functions of certificates: operations, functions of functions, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from .claims import Bounds, Function


class FunctionWriter:
    """Writes the operations of a function; `constants` may grow.

    inputs  how many arguments the function has
    held    the place of a parameter among the parameters, and among the arguments; None: there is none
    """

    def __init__(self, inputs: int, constants: list[Bounds], held: tuple[int, int] | None = None) -> None:
        self.inputs = inputs
        self.constants = constants
        self.held = held
        self.nodes: list[tuple[Any, ...]] = [("input", k) for k in range(inputs)]

    def __call__(self, op: str, *operands: int) -> int:
        self.nodes.append((op, *operands))
        return len(self.nodes) - 1

    def number(self, x: Fraction | int) -> int:
        self.constants.append((Fraction(x), Fraction(x)))
        return self("constant", len(self.constants) - 1)

    def function(self, outputs: Sequence[int]) -> Function:
        return Function(self.inputs, tuple(self.nodes), tuple(outputs))

    def values(self, function: Function, arguments: Sequence[int]) -> list[int]:
        """The places of the results of a function whose arguments have these places."""
        return self.with_changes(function, arguments, [])[0]

    def with_changes(
        self, function: Function, arguments: Sequence[int], changes: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """The same, and its derivatives along changes of the arguments."""
        values: list[int] = []
        slopes: list[int | None] = []  # None: zero
        for op, *operands in function.nodes:
            slope = None
            if op == "input":
                value = arguments[operands[0]]
                slope = changes[operands[0]] if changes else None
            elif op == "parameter" and self.held is not None and operands[0] == self.held[0]:
                value = self.held[1]
            elif op in ("constant", "parameter"):
                value = self(op, *operands)
            else:
                x = [values[k] for k in operands]
                dx = [slopes[k] for k in operands]
                value = self(op, *x)
                if any(a is not None for a in dx):
                    slope = self._slope(op, value, x, dx)
            values.append(value)
            slopes.append(slope)
        results = [slopes[k] for k in function.outputs] if changes else []
        return [values[k] for k in function.outputs], [self.number(0) if a is None else a for a in results]

    def _slope(self, op: str, value: int, x: list[int], dx: list[int | None]) -> int:
        """The chain rule: the sum of partial derivatives times the changes of operands."""
        terms = [self._times(op, k, value, x, change) for k, change in enumerate(dx) if change is not None]
        return terms[0] if len(terms) == 1 else self("add", *terms)

    def _times(self, op: str, k: int, y: int, x: list[int], d: int) -> int:
        """The partial derivative of y = op(x) by the operand k, times d."""
        if op == "add" or (op == "sub" and k == 0):
            return d
        if op == "neg" or op == "sub":
            return self("neg", d)
        if op == "mul":
            return self("mul", x[1 - k], d)
        if op == "div":
            return self("div", d if k == 0 else self("neg", self("mul", y, d)), x[1])
        if op == "hypot":
            return self("div", self("mul", x[k], d), y)
        if op == "arctan2":  # of (x_0, x_1): x_1 / r by the first, -x_0 / r by the second
            r = self("add", self("mul", x[0], x[0]), self("mul", x[1], x[1]))
            part = self("div", self("mul", x[1 - k], d), r)
            return part if k == 0 else self("neg", part)
        return SLOPES[op](self, y, x[0], d)


def _beside(write: FunctionWriter, a: int) -> int:
    """sqrt(1 - a^2)"""
    return write("sqrt", write("sub", write.number(1), write("mul", a, a)))


SLOPES: dict[str, Callable[[FunctionWriter, int, int, int], int]] = {
    # of y = op(a), times d
    "sqrt": lambda write, y, a, d: write("div", d, write("add", y, y)),
    "exp": lambda write, y, a, d: write("mul", y, d),
    "log": lambda write, y, a, d: write("div", d, a),
    "sin": lambda write, y, a, d: write("mul", write("cos", a), d),
    "cos": lambda write, y, a, d: write("neg", write("mul", write("sin", a), d)),
    "tan": lambda write, y, a, d: write("mul", write("add", write.number(1), write("mul", y, y)), d),
    "sinh": lambda write, y, a, d: write("mul", write("cosh", a), d),
    "cosh": lambda write, y, a, d: write("mul", write("sinh", a), d),
    "tanh": lambda write, y, a, d: write("mul", write("sub", write.number(1), write("mul", y, y)), d),
    "arcsin": lambda write, y, a, d: write("div", d, _beside(write, a)),
    "arccos": lambda write, y, a, d: write("neg", write("div", d, _beside(write, a))),
}
