"""Orbits that close as rotations, or with a drive: what must hold of the equations, and the closing function.

*Rotations.* Four states q are a unit quaternion. The state at the start is q_0 = sign q / |q|, with the q
behind the last jump, so |q_0| = 1. If every field keeps |q| (q . q' = 0), and every jump does (|J_q| = |q|),
then |q| = 1 all along, and the state has closed as q_0 = sign q. q and -q are one rotation: if no function
tells them from each other, the motion of rotations repeats also where the sign is -1.

*A drive.* The time t is a state with the rate 1 that jumps keep. If all functions contain it in sines and
cosines of n omega t + (what does not depend on t) only, with integers n, they repeat after 2 pi / omega. The
orbit ends there, and begins with t = 0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from .claims import Claim, Function, Phase, Refused
from .symmetries import Slope, changes_along, slope_of

Polynomial = dict[tuple[Any, ...], Fraction]  # numbers by their terms, which are sorted factors
AGAIN = "again"  # instead of a slope: the number repeats with the drive


def must_close(claim: Claim) -> None:
    """Refused unless the functions of a claim treat quaternions as rotations, and repeat with the drive."""
    for phase in claim.phases:
        for rotation in claim.rotations:
            places = range(rotation.place, rotation.place + 4)
            _must_keep_length(claim, phase, places)
        if claim.flipped:
            _must_not_see_signs(phase, claim.flipped)
        if claim.drive is not None:
            _must_repeat(claim, phase)


def _of_the_motion(phase: Phase) -> list[Function]:
    """All functions of a phase but a section y_j = c, which says where the orbit closes."""
    return [
        phase.field,
        *([] if phase.jump is None else [phase.jump]),
        *([] if phase.event is None else [phase.section]),
        *(x.function for x in phase.guards),
        *(x.function for x in phase.at_end),
    ]


# -- lengths ------------------------------------------------------------------------------------------------


def _must_keep_length(claim: Claim, phase: Phase, places: range) -> None:
    inputs: list[Polynomial] = [{(("input", k),): Fraction(1)} for k in places]
    change = _inner_product(inputs, _polynomials(claim, phase.field, places))
    if any(change.values()):
        raise Refused("a field is not seen to keep the length of a quaternion")
    if phase.jump is not None:
        behind = _polynomials(claim, phase.jump, places)
        longer = _inner_product(behind, behind)
        for term, number in _inner_product(inputs, inputs).items():
            longer[term] = longer.get(term, Fraction(0)) - number
        if any(longer.values()):
            raise Refused("a jump is not seen to keep the length of a quaternion")


def _inner_product(x: list[Polynomial], y: list[Polynomial]) -> Polynomial:
    total: Polynomial = {}
    for a, b in zip(x, y):
        for term, number in _product(a, b).items():
            total[term] = total.get(term, Fraction(0)) + number
    return total


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for x, m in a.items():
        for y, n in b.items():
            term = tuple(sorted(x + y))
            total[term] = total.get(term, Fraction(0)) + m * n
    return total


def _polynomials(claim: Claim, function: Function, rows: Iterable[int]) -> list[Polynomial]:
    """Results as polynomials in the arguments, and in all that is no sum or product, whatever its value."""
    wanted = [function.outputs[row] for row in rows]
    needed = set(wanted)
    for k in reversed(range(len(function.nodes))):
        op, *operands = function.nodes[k]
        if k in needed and op in ("add", "sub", "neg", "mul"):
            needed |= set(operands)
    known = {"constant": claim.constants, "parameter": tuple(claim.parameters.values())}
    found: dict[int, Polynomial] = {}
    for k in sorted(needed):
        op, *operands = function.nodes[k]
        if op in known:
            low, high = known[op][operands[0]]
            found[k] = {(): low} if low == high else {((op, operands[0]),): Fraction(1)}
        elif op in ("add", "sub", "neg", "mul"):
            parts = [found[x] for x in operands]
            found[k] = _product(*parts) if op == "mul" else _combined(op, parts)
        else:
            found[k] = {(("input", k) if op == "input" else ("node", k),): Fraction(1)}
    return [found[k] for k in wanted]


def _combined(op: str, parts: list[Polynomial]) -> Polynomial:
    """The polynomial of a sum, a difference or a negative number."""
    signs = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}[op]
    total: Polynomial = {}
    for sign, part in zip(signs, parts):
        for term, number in part.items():
            total[term] = total.get(term, Fraction(0)) + sign * number
    return total


# -- signs --------------------------------------------------------------------------------------------------


def _must_not_see_signs(phase: Phase, flipped: frozenset[int]) -> None:
    """Refused unless the results stay where quaternions change their sign; their own entries change it."""
    for function in _of_the_motion(phase):
        moves = function is phase.field or function is phase.jump
        for k, sign in enumerate(_signs(function, flipped)):
            if sign != (-1 if moves and k in flipped else 1):
                raise Refused("a function is not seen to be the same for a quaternion and its negative")


def _signs(function: Function, flipped: frozenset[int]) -> list[int]:
    """By which sign results change where those entries of the arguments change theirs; 0: not seen."""
    signs: list[int] = []
    for op, *operands in function.nodes:
        if op == "input":
            signs.append(-1 if operands[0] in flipped else 1)
        elif op in ("constant", "parameter"):
            signs.append(1)
        else:
            signs.append(_sign(op, [signs[k] for k in operands]))
    return [signs[k] for k in function.outputs]


def _sign(op: str, of: list[int]) -> int:
    first, last = of[0], of[-1]
    if 0 in of:
        return 0
    if op in ("mul", "div"):
        return first * last
    if first == last == 1:
        return 1
    if op in ("add", "sub"):
        return first if first == last else 0
    if op in ("neg", "sin", "tan", "sinh", "tanh", "arcsin"):
        return -1
    return 1 if op in ("cos", "cosh", "hypot") else 0


# -- the drive ----------------------------------------------------------------------------------------------


def _must_repeat(claim: Claim, phase: Phase) -> None:
    """Refused unless the functions of a phase repeat with the drive, and the time is the time."""
    assert claim.drive is not None
    t = claim.drive.place
    rate = phase.field.nodes[phase.field.outputs[t]]
    if rate[0] != "constant" or claim.constants[rate[1]] != (1, 1):
        raise Refused("the time does not grow by 1 in each second")
    if phase.jump is not None and phase.jump.nodes[phase.jump.outputs[t]] != ("input", t):
        raise Refused("a jump changes the time")
    for function in _of_the_motion(phase):
        for k, change in enumerate(_changes(claim, function, t, claim.drive.rate)):
            kept = function is phase.jump and k == t
            if not (change == 0 or change == AGAIN or kept):
                raise Refused("a function is not seen to repeat with the drive")


def _changes(claim: Claim, function: Function, t: int, rate: Fraction) -> list[Any]:
    """The slope of each result along the time, if it is one number, or AGAIN; None: neither is proved."""
    inputs = [Fraction(int(k == t)) for k in range(function.inputs)]
    return changes_along(claim, function, inputs, functools.partial(_change, rate))


def _change(rate: Fraction, op: str, of: list[Any], numbers: list[Slope]) -> Any:
    if None in of:
        return None
    if AGAIN in of:
        return AGAIN if all(x == AGAIN or x == 0 for x in of) else None
    if op in ("sin", "cos") and of[0] != 0:
        return AGAIN if (of[0] / rate).denominator == 1 else None
    return slope_of(op, of, numbers)
