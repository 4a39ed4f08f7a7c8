"""The proof of a flip or a fold: one value of a parameter p at which an orbit has the multiplier -1, or 1.

Beside the states y, p and a change w of the state are states of a larger system:

    y' = f(y, p),    p' = 0,    w' = D_y f w,
    y+ = J(y, p),    w+ = D_y J (w - f (D g w) / (D g f)),

with w_0 = s w+ behind the last phase, s = 1 for a fold and -1 for a flip, and p_0 = p + l . w_0 - 1. A closed
orbit of it is an orbit at p, an eigenvector w_0 of the return map's derivative with the eigenvalue s, and
l . w_0 = 1. Along symmetries, w+ is taken without its part xi w+_j.

F is affine in the w of all nodes. So F(z2) - F(z1) is a matrix of A times z2 - z1 also where the w of z2 are
anywhere: the matrix has derivatives by w at z2, and mean derivatives by the others with the w of z1. As all
matrices of A are regular, no other orbit with this multiplier has its nodes, factors and p in the box.

The functions of the larger system are derived here, from those of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from flint import arb

from .numbers import Ball
from .proof import (
    Equations,
    Found,
    enclosed,
    is_least,
    multipliers_of,
    no_other_events,
    precise_proof,
    sum_of,
)
from .reading import BifurcationClaim, Bounds, Claim, Function, Phase, Symmetry
from .symmetries import must_be_symmetries
from .words import theorem_of_bifurcation


@dataclass
class BifurcationProof:
    """What the certificate of a flip or a fold proves, in balls.

    value        of the parameter
    period       the time of the orbit there, and the times of its phases
    start        its first state
    direction    the eigenvector w_0
    multipliers  of the return map, as complex balls; None where they were not separated
    """

    claim: BifurcationClaim
    value: Ball
    period: Ball
    durations: list[Ball]
    shift: list[Ball]
    start: list[Ball]
    direction: list[Ball]
    multipliers: list[Any] | None
    least: bool
    theorem: str = field(default="", repr=False)

    @property
    def others(self) -> list[Any] | None:
        """The multipliers beside the one of the bifurcation; None where that one is not told from others."""
        if self.multipliers is None:
            return None
        sign = self.claim.sign
        here = [x for x in self.multipliers if x.overlaps(sign)]
        return [x for x in self.multipliers if not x.overlaps(sign)] if len(here) == 1 else None


def prove_bifurcation_again(claim: BifurcationClaim) -> BifurcationProof:
    """The proof of a claim; Refused where a step of it fails."""
    return precise_proof(lambda: _proof(claim))


def _proof(claim: BifurcationClaim) -> BifurcationProof:
    alone = claim.claim
    must_be_symmetries(alone)
    extended = extended_claim(claim)
    larger = Equations(extended)
    found = enclosed(larger)
    # the orbit alone, in the box that was found
    box: list[Ball] = []
    for phase, (_, x, factor) in zip(alone.phases, larger.split(found.box)):
        N = len(phase.states)
        box += [*(b for row in x for b in row[:N]), factor]
    shift = [found.box[symmetry.coordinate] for symmetry in alone.symmetries]
    for symmetry, s in zip(alone.symmetries, shift):
        box[symmetry.coordinate] = s
    N = len(alone.phases[0].states)
    _, x, _ = next(larger.split(found.box))
    value = x[0][N]
    equations = Equations(alone)
    parameters = list(equations.known.parameter)
    parameters[claim.parameter] = value
    equations.known = replace(equations.known, parameter=parameters)
    stretches = equations.stretches(box)
    no_other_events(equations, stretches)
    A = equations.derivatives(box, [arb(0)] * len(box))
    durations = [sum_of(one.times) for one in stretches]
    proof = BifurcationProof(
        claim,
        value,
        sum_of(durations),
        durations,
        shift,
        stretches[0].x[0],
        x[0][N + 1 :],
        multipliers_of(equations, Found(box, A))[0],
        is_least(equations, stretches),
    )
    proof.theorem = theorem_of_bifurcation(proof)
    return proof


# -- the larger system --------------------------------------------------------------------------------------


def extended_claim(claim: BifurcationClaim) -> Claim:
    """The claim that the larger system has a closed orbit next to the numbers of the file."""
    alone = claim.claim
    constants = list(alone.constants)
    value = list(alone.parameters.values())[claim.parameter][0]
    phases = []
    for k, phase in enumerate(alone.phases):
        closing = claim if k == len(alone.phases) - 1 else None
        nodes = tuple(
            (*row, value, *change) for row, change in zip(phase.nodes, claim.changes[k], strict=True)
        )
        phases.append(
            replace(
                phase,
                states=(*phase.states, "parameter", *(f"change of {x}" for x in phase.states)),
                field=_field(claim, phase, constants),
                section=_section(claim, phase, constants),
                jump=_jump(claim, phase, constants, closing),
                guards=(),
                at_end=(),
                nodes=nodes,
            )
        )
    symmetries = tuple(
        Symmetry(x.coordinate, tuple((*xi, *[Fraction(0)] * (len(xi) + 1)) for xi in x.along), x.shift)
        for x in alone.symmetries
    )
    return replace(alone, constants=tuple(constants), phases=tuple(phases), symmetries=symmetries)


class _Writer:
    """Writes operations of a function of (y, p, w); `constants` may grow."""

    def __init__(self, claim: BifurcationClaim, size: int, constants: list[Bounds]) -> None:
        self.claim = claim
        self.size = size
        self.constants = constants
        self.nodes: list[tuple[Any, ...]] = [("input", k) for k in range(2 * size + 1)]

    @property
    def y(self) -> list[int]:
        return list(range(self.size))

    @property
    def p(self) -> int:
        return self.size

    @property
    def w(self) -> list[int]:
        return list(range(self.size + 1, 2 * self.size + 1))

    def __call__(self, op: str, *operands: int) -> int:
        self.nodes.append((op, *operands))
        return len(self.nodes) - 1

    def number(self, x: Fraction | int) -> int:
        self.constants.append((Fraction(x), Fraction(x)))
        return self("constant", len(self.constants) - 1)

    def function(self, outputs: Sequence[int]) -> Function:
        return Function(2 * self.size + 1, tuple(self.nodes), tuple(outputs))

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
            elif op == "parameter" and operands[0] == self.claim.parameter:
                value = self.p
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


def _beside(write: _Writer, a: int) -> int:
    """sqrt(1 - a^2)"""
    return write("sqrt", write("sub", write.number(1), write("mul", a, a)))


SLOPES: dict[str, Callable[[_Writer, int, int, int], int]] = {
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


def _field(claim: BifurcationClaim, phase: Phase, constants: list[Bounds]) -> Function:
    write = _Writer(claim, len(phase.states), constants)
    rate, change = write.with_changes(phase.field, write.y, write.w)
    return write.function([*rate, write.number(0), *change])


def _section(claim: BifurcationClaim, phase: Phase, constants: list[Bounds]) -> Function:
    write = _Writer(claim, len(phase.states), constants)
    return write.function(write.values(phase.section, write.y))


def _jump(
    claim: BifurcationClaim, phase: Phase, constants: list[Bounds], closing: BifurcationClaim | None
) -> Function:
    """(y+, p, w+); behind the last phase also the closing equations of p and w."""
    write = _Writer(claim, len(phase.states), constants)
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
            w = [
                write("sub", a, write("mul", write.number(x), along))
                for a, x in zip(w, symmetry.along[0], strict=True)
            ]
        if closing.sign < 0:
            w = [write("neg", a) for a in w]
        inner = [write("mul", write.number(x), a) for x, a in zip(closing.normal, w, strict=True)]
        total = inner[0]
        for term in inner[1:]:
            total = write("add", total, term)
        p = write("add", p, write("sub", total, write.number(1)))
    return write.function([*y, p, *w])
