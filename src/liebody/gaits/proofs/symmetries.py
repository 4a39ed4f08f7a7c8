"""Translations under which the equations of an orbit do not change, in the states of each phase.

With a translation xi of the states, f(y + s xi) = f(y) and g(y + s xi) = g(y) for all s, and a jump takes
the translation to one of the next phase, J(y + s xi) = J(y) + s xi'. So a memory that holds a place, such as
the foot of a leg, moves along. These identities are exact: derivatives along xi are computed as fractions,
through each operation of a tape, where they are constant.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from ...compiler import Constants, Tape
from .equations import OrbitPhase, ProofError, Symmetry

Vector = list[Fraction]
SUMS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {  # of the first and the last operand
    "neg": lambda a, _: -a,
    "add": operator.add,
    "sub": operator.sub,
}


def symmetries_of(
    rows: Sequence[Sequence[float]], phases: Sequence[OrbitPhase], constants: Constants
) -> list[Symmetry]:
    """The symmetries of the phases that start as translations of q (k, n); ProofError where they are none."""
    return [_symmetry(j, xi, phases, constants) for j, xi in _reduced(rows)]


def _reduced(rows: Sequence[Sequence[float]]) -> list[tuple[int, Vector]]:
    """The same translations, each with a coordinate that it alone moves, by 1 (Gauss, Jordan)."""
    found: list[tuple[int, Vector]] = []
    for row in rows:
        xi = [Fraction(float(x)) for x in row]
        for j, other in found:
            xi = [a - xi[j] * b for a, b in zip(xi, other)]
        pivot = max(range(len(xi)), key=lambda j: abs(xi[j]))
        xi = [a / xi[pivot] for a in xi]
        found = [(j, [a - other[pivot] * b for a, b in zip(other, xi)]) for j, other in found]
        found.append((pivot, xi))
    return found


def _symmetry(coordinate: int, xi: Vector, phases: Sequence[OrbitPhase], constants: Constants) -> Symmetry:
    n = len(xi)
    # memory at the start moves as the jump at its end says: known after one round
    start = [*xi, *[Fraction(0)] * (phases[0].size - n)]
    for _ in range(2):
        along = [start]
        for phase in phases:
            along.append(_behind(phase, along[-1], constants))
        start = along[-1]
    if along[-1] != along[0]:
        raise ProofError(
            f"the symmetry along {phases[0].names[coordinate]} is none of the memory: after a period it "
            "moves otherwise than at the start"
        )
    return Symmetry(coordinate, along[:-1])


def _behind(phase: OrbitPhase, along: Vector, constants: Constants) -> Vector:
    """The translation in the next phase."""
    functions = [("the field", phase.field), ("its end", phase.section)]
    functions += [(f"the guard {guard.name}", guard.tape) for guard in phase.guards]
    functions += [(x.name or f"condition {k} of the jump", x.tape) for k, x in enumerate(phase.at_end, 1)]
    for name, tape in functions:
        if any(x != 0 for x in slopes(tape, along, constants)):
            raise ProofError(
                f"a symmetry of the orbit is not one of the equations: {name} changes where "
                f"{_named(phase, along)} moves, or its terms do not cancel one by one"
            )
    if phase.jump is None:
        return along
    behind = [x for x in slopes(phase.jump, along, constants) if x is not None]
    if len(behind) != len(phase.jump.outputs):
        raise ProofError(
            f"a symmetry of the orbit is not one of the equations: the jump at {phase.event} does not move "
            f"along with {_named(phase, along)}"
        )
    return behind


def _named(phase: OrbitPhase, along: Vector) -> str:
    return ", ".join(name for name, x in zip(phase.names, along, strict=True) if x)


def slopes(tape: Tape, along: Vector, constants: Constants) -> list[Fraction | None]:
    """Derivatives of the results along a direction, where they are the same number everywhere; or None."""
    return Slopes(along, constants).of(tape)


class Slopes:
    """Derivatives of the results of tapes along a direction, where they are one exact number everywhere."""

    def __init__(self, along: Vector, constants: Constants) -> None:
        self.along = along
        self.numbers = {"constant": constants.bounds, "parameter": list(constants.parameters.values())}

    def of(self, tape: Tape) -> list[Any]:
        """The derivative of each result; None where it is not one number."""
        found: list[Any] = []
        exact: list[Fraction | None] = []  # of nodes that are one number
        for op, *operands in tape.nodes:
            value = None
            if op == "input":
                slope = self.along[operands[0]]
            elif op in self.numbers:
                low, high = self.numbers[op][operands[0]]
                value = low if low == high else None
                slope = Fraction(0)
            else:
                numbers = [exact[k] for k in operands]
                value = exact_result(op, numbers)
                slope = self.slope(op, [found[k] for k in operands], numbers)
            found.append(slope)
            exact.append(value)
        return [found[k] for k in tape.outputs]

    def slope(self, op: str, dx: Sequence[Any], exact: Sequence[Fraction | None]) -> Any:
        """The derivative, from derivatives of the operands and from operands that are exact numbers."""
        if all(x == 0 for x in dx):
            return Fraction(0)
        if None in dx:
            return None
        if op in SUMS:
            return SUMS[op](dx[0], dx[-1])
        if op == "mul":
            a, b = exact
            return a * dx[1] if a is not None else b * dx[0] if b is not None else None
        if op == "div" and exact[1]:
            return dx[0] / exact[1]
        return None


def exact_result(op: str, numbers: Sequence[Fraction | None]) -> Fraction | None:
    """The exact number that an operation makes of exact numbers; None: it makes none."""
    first, last = numbers[0], numbers[-1]
    if first is None or last is None:
        return None
    if op in SUMS:
        return SUMS[op](first, last)
    if op == "mul":
        return first * last
    if op == "div" and last:
        return first / last
    return None
