"""The equations of an orbit together with a change w of its states, and perhaps a parameter p.

    y' = f(y, p),    p' = 0,    w' = D_y f w,
    y+ = J(y, p),    w+ = D_y J (w - f (D g w) / (D g f)).

This module derives these functions from the functions of a file.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from .claims import BifurcationClaim, Bounds, Changes, Claim, Function, Phase, Symmetry
from .writing import FunctionWriter


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


class Writer(FunctionWriter):
    """Writes a function of (y, p, w).

    parameter  the place of p among the parameters; None: there is no p
    """

    def __init__(self, size: int, constants: list[Bounds], parameter: int | None) -> None:
        self.size = size
        self.first = size + (parameter is not None)  # of w
        super().__init__(self.first + size, constants, None if parameter is None else (parameter, size))

    @property
    def y(self) -> list[int]:
        return list(range(self.size))

    @property
    def p(self) -> list[int]:
        return list(range(self.size, self.first))

    @property
    def w(self) -> list[int]:
        return list(range(self.first, self.first + self.size))


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
