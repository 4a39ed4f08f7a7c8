"""That the equations do not change under the translations that a certificate names.

Derivatives along a translation xi pass through each operation as exact numbers, where they are the same
number everywhere. Where the derivatives of the field, of all guards and conditions are zero, and the
derivative of the jump is the translation of the next phase, xi', integration along xi gives

    f(y + s xi) = f(y),    g(y + s xi) = g(y),    J(y + s xi) = J(y) + s xi'.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from .claims import Claim, Function, Refused

Slope = Fraction | None  # None: not the same number everywhere, or not known to be
SUMS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {  # of the first and the last operand
    "neg": lambda a, _: -a,
    "add": operator.add,
    "sub": operator.sub,
}


def must_be_symmetries(claim: Claim) -> None:
    """Refused unless the translations of a claim are symmetries of it."""
    for symmetry in claim.symmetries:
        behind = [*symmetry.along[1:], symmetry.along[0]]
        for k, (phase, xi, following) in enumerate(zip(claim.phases, symmetry.along, behind), 1):
            watched = [x.function for x in phase.guards] + [x.function for x in phase.at_end]
            for function in (phase.field, phase.section, *watched):
                if any(x != 0 for x in _slopes(claim, function, xi)):
                    raise Refused(f"a function of phase {k} is not seen to be unchanged under a symmetry")
            jumped = list(xi) if phase.jump is None else _slopes(claim, phase.jump, xi)
            if jumped != list(following):
                raise Refused(f"the jump of phase {k} is not seen to move along with a symmetry")


def _slopes(claim: Claim, function: Function, xi: tuple[Fraction, ...]) -> list[Slope]:
    """Derivatives of the results along xi."""
    return changes_along(claim, function, xi, slope_of)


def changes_along(
    claim: Claim,
    function: Function,
    inputs: Sequence[Any],
    rule: Callable[[str, list[Any], list[Slope]], Any],
) -> list[Any]:
    """How the results change, operation by operation, where the inputs change like this.

    rule  (operation, changes of the operands, operands that are exact numbers) -> change of the result
    """
    changes: list[Any] = []
    numbers: list[Slope] = []  # values of nodes that are one exact number
    known = {"constant": claim.constants, "parameter": tuple(claim.parameters.values())}
    for op, *operands in function.nodes:
        if op == "input":
            changes.append(inputs[operands[0]])
            numbers.append(None)
        elif op in known:
            low, high = known[op][operands[0]]
            changes.append(Fraction(0))
            numbers.append(low if low == high else None)
        else:
            values = [numbers[k] for k in operands]
            changes.append(rule(op, [changes[k] for k in operands], values))
            numbers.append(exact_number(op, values))
    return [changes[k] for k in function.outputs]


def slope_of(op: str, dx: list[Slope], numbers: list[Slope]) -> Slope:
    """The derivative of a result, from derivatives of the operands and from operands that are numbers."""
    if all(a == 0 for a in dx):
        return Fraction(0)
    first, last = dx[0], dx[-1]
    if first is None or last is None:
        return None
    if op in SUMS:
        return SUMS[op](first, last)
    if op == "mul" and numbers[0] is not None:
        return numbers[0] * last
    if op == "mul" and numbers[1] is not None:
        return numbers[1] * first
    if op == "div" and numbers[1]:
        return first / numbers[1]
    return None


def exact_number(op: str, numbers: list[Slope]) -> Slope:
    """The result of an operation on exact numbers, where it is one."""
    first, last = numbers[0], numbers[-1]
    if first is None or last is None:
        return None
    if op in SUMS:
        return SUMS[op](first, last)
    if op == "mul":
        return first * last
    return first / last if op == "div" and last else None
