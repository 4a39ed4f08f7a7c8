"""The claim about relative states of an orbit up to shifts.

Shifts move a state y by s xi_m. In each phase xi_m moves the coordinate j_m by 1, and no other one of these
coordinates. Where no function changes along shifts (`symmetries`), the relative states

    w = y - sum_m y_(j_m) xi_m,        whose entries j_m are zero,

have their equations, too: f(y) = f(w) and J(y) = J(w) + sum_m y_(j_m) xi_m, so that

    w_i' = f_i(w) - sum_m xi_(m,i) f_(j_m)(w),        w+_i = J_i(w) - sum_m xi+_(m,i) J_(j_m)(w)

with the shifts xi+ of the next phase. All entries but j_m are kept. f_(j_m) and J_(j_m) must have bounds even
if no other result depends on them, because the coordinate j_m moves, too.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from .claims import Bounds, Claim, Function, Phase, Refused
from .writing import FunctionWriter

Rows = list[tuple[Fraction, ...]]  # the shifts in one phase


def relative_claim(claim: Claim) -> Claim:
    """The claim without symmetries; its radii are left out.

    Refused where a shift does not move its coordinate alone and by 1 in a phase, or a node has another value
    of it than zero.
    """
    coordinates = [x.coordinate for x in claim.symmetries]
    shifts = [[x.along[k] for x in claim.symmetries] for k in range(len(claim.phases))]
    for phase, rows in zip(claim.phases, shifts):
        unit = [[Fraction(a == b) for a in coordinates] for b in coordinates]
        if [[row[j] for j in coordinates] for row in rows] != unit:
            raise Refused("a shift does not move its coordinate alone in all phases")
        if any(node[j] != 0 for node in phase.nodes for j in coordinates):
            raise Refused("a node is no relative state")
    constants = [*claim.constants]
    functions = _Relative(coordinates, constants)
    parts = [
        _phase(phase, functions, rows, behind)
        for phase, rows, behind in zip(claim.phases, shifts, [*shifts[1:], shifts[0]])
    ]
    return replace(claim, constants=tuple(constants), phases=tuple(parts), symmetries=(), radii=())


def _phase(phase: Phase, functions: _Relative, rows: Rows, behind: Rows) -> Phase:
    kept = functions.kept(len(phase.states))
    section, coordinate = functions.value(phase.section), phase.coordinate
    if coordinate is not None:
        # y_j - c, as reading asks for it
        if coordinate not in kept:
            raise Refused("the orbit closes at a value of a coordinate that shifts move")
        N, coordinate = len(kept), kept.index(coordinate)
        constant = phase.section.nodes[len(phase.states)]
        nodes = (*(("input", k) for k in range(N)), constant, ("sub", coordinate, N))
        section = Function(N, nodes, (N + 1,))
    return replace(
        phase,
        states=tuple("relative " * any(row[i] for row in rows) + phase.states[i] for i in kept),
        field=functions.state(phase.field, rows),
        section=section,
        coordinate=coordinate,
        jump=None if phase.jump is None else functions.state(phase.jump, behind),
        guards=tuple(replace(x, function=functions.value(x.function)) for x in phase.guards),
        at_end=tuple(replace(x, function=functions.value(x.function)) for x in phase.at_end),
        nodes=tuple(tuple(node[i] for i in kept) for node in phase.nodes),
    )


class _Relative:
    """Functions of relative states; `constants` may grow, and get the constant 0.

    All functions have the same 0, so that those which were equal are still equal.
    """

    def __init__(self, coordinates: list[int], constants: list[Bounds]) -> None:
        self.coordinates = coordinates
        self.constants = constants
        self.zero = len(constants)
        constants.append((Fraction(0), Fraction(0)))

    def kept(self, size: int) -> list[int]:
        return [i for i in range(size) if i not in self.coordinates]

    def value(self, function: Function) -> Function:
        """A function that no shift changes."""
        write, results = self._at_relative_state(function)
        return write.function(results)

    def state(self, function: Function, rows: Rows) -> Function:
        """A function whose result is a state, or its rate, made relative."""
        write, results = self._at_relative_state(function)
        kept = self.kept(len(results))
        relative = []
        for i in kept:
            place = results[i]
            for j, row in zip(self.coordinates, rows):
                # with a coefficient 0, so that results without bounds are noticed
                if row[i] or i == kept[0]:
                    place = write("sub", place, write("mul", write.number(row[i]), results[j]))
            relative.append(place)
        return write.function(relative)

    def _at_relative_state(self, function: Function) -> tuple[FunctionWriter, list[int]]:
        """The function with zero for the coordinates of shifts, and the places of its results."""
        kept = self.kept(function.inputs)
        write = FunctionWriter(len(kept), self.constants)
        zero = write("constant", self.zero)
        arguments = [kept.index(i) if i in kept else zero for i in range(function.inputs)]
        return write, write.values(function, arguments)
