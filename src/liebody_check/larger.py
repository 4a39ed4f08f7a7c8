"""The equations of an orbit together with a change w of its states, and perhaps a parameter p.

    y' = f(y, p),    p' = 0,    w' = D_y f w,
    y+ = J(y, p),    w+ = D_y J (w - f (D g w) / (D g f)).

This module derives these functions from the functions of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .claims import BifurcationClaim, Bounds, Changes, Claim, Function, Phase, Symmetry


def larger_claim(alone: Claim, changes: Changes, closing: BifurcationClaim | None = None) -> Claim:
    """The claim of the larger system, with numbers near its orbit.

    changes  w at the nodes of each phase
    closing  a bifurcation, whose parameter is p; None: there is no p, and w need not close
    """
    constants = list(alone.constants)
    parameter = None if closing is None else closing.parameter
    held = () if closing is None else (closing.value,)
    phases = []
    for k, phase in enumerate(alone.phases):
        last = closing if k == len(alone.phases) - 1 else None
        size = len(phase.states)

        def write(size: int = size) -> Writer:
            return Writer(size, constants, parameter)

        phases.append(
            replace(
                phase,
                states=(
                    *phase.states,
                    *("parameter" for _ in held),
                    *(f"change of {x}" for x in phase.states),
                ),
                field=_field(write(), phase),
                section=_section(write(), phase),
                jump=_jump(write(), phase, last),
                guards=(),
                at_end=(),
                nodes=tuple((*row, *held, *change) for row, change in zip(phase.nodes, changes[k])),
            )
        )
    symmetries = tuple(
        Symmetry(
            x.coordinate,
            tuple((*xi, *(Fraction(0) for _ in held), *(Fraction(0) for _ in xi)) for xi in x.along),
            x.shift,
        )
        for x in alone.symmetries
    )
    # a basin claims no box
    unknowns = sum(len(phase.states) * len(phase.nodes) + 1 for phase in phases)
    radii = () if closing is None else (closing.radius,) * unknowns
    return replace(
        alone, constants=tuple(constants), phases=tuple(phases), symmetries=symmetries, radii=radii
    )


class Writer:
    """Writes operations of a function of (y, p, w); `constants` may grow.

    parameter  the place of p among the parameters; None: there is no p
    """

    def __init__(self, size: int, constants: list[Bounds], parameter: int | None) -> None:
        self.parameter = parameter
        self.size = size
        self.constants = constants
        self.first = size + (parameter is not None)  # of w
        self.nodes: list[tuple[Any, ...]] = [("input", k) for k in range(self.first + size)]

    @property
    def y(self) -> list[int]:
        return list(range(self.size))

    @property
    def p(self) -> list[int]:
        return list(range(self.size, self.first))

    @property
    def w(self) -> list[int]:
        return list(range(self.first, self.first + self.size))

    def __call__(self, op: str, *operands: int) -> int:
        self.nodes.append((op, *operands))
        return len(self.nodes) - 1

    def number(self, x: Fraction | int) -> int:
        self.constants.append((Fraction(x), Fraction(x)))
        return self("constant", len(self.constants) - 1)

    def function(self, outputs: Sequence[int]) -> Function:
        return Function(self.first + self.size, tuple(self.nodes), tuple(outputs))

    def values(self, function: Function, arguments: Sequence[int]) -> list[int]:
        """The results of a function of y; its parameter is p."""
        return self.with_changes(function, arguments, [])[0]

    def with_changes(
        self, function: Function, arguments: Sequence[int], changes: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """The results of a function of y, and its derivatives along changes of y."""
        values: list[int] = []
        slopes: list[int | None] = []  # None: zero
        for op, *operands in function.nodes:
            slope = None
            if op == "input":
                value = arguments[operands[0]]
                slope = changes[operands[0]] if changes else None
            elif op == "parameter" and operands[0] == self.parameter:
                value = self.size
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


def _beside(write: Writer, a: int) -> int:
    """sqrt(1 - a^2)"""
    return write("sqrt", write("sub", write.number(1), write("mul", a, a)))


SLOPES: dict[str, Callable[[Writer, int, int, int], int]] = {
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


def _field(write: Writer, phase: Phase) -> Function:
    rate, change = write.with_changes(phase.field, write.y, write.w)
    return write.function([*rate, *(write.number(0) for _ in write.p), *change])


def _section(write: Writer, phase: Phase) -> Function:
    return write.function(write.values(phase.section, write.y))


def _jump(write: Writer, phase: Phase, closing: BifurcationClaim | None) -> Function:
    """(y+, p, w+); at a bifurcation, behind the last phase, also the closing equations of p and w."""
    rate = write.values(phase.field, write.y)
    _, (moved,) = write.with_changes(phase.section, write.y, write.w)
    _, (passed,) = write.with_changes(phase.section, write.y, rate)
    later = write("div", moved, passed)
    w = [write("sub", a, write("mul", f, later)) for a, f in zip(write.w, rate)]
    y, p = write.y, write.p
    if phase.jump is not None:
        y, w = write.with_changes(phase.jump, y, w)
    if closing is not None:
        for symmetry in closing.claim.symmetries:
            along = w[symmetry.coordinate]
            w = [write("sub", a, write("mul", write.number(x), along)) for a, x in zip(w, symmetry.along[0])]
        if closing.sign < 0:
            w = [write("neg", a) for a in w]
        total = write.number(-1)
        for x, a in zip(closing.normal, w):
            total = write("add", total, write("mul", write.number(x), a))
        p = [write("add", p[0], total)]
    return write.function([*y, *p, *w])
