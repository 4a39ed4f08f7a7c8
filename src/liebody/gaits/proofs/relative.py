"""The equations of an orbit up to shifts, in relative states, which no shift changes.

Translations xi_m leave the equations as they are (`symmetries`), and each moves a coordinate j_m by 1 in all
phases. So y = w + sum_m y_(j_m) xi_m, where the entries j_m of w are zero. The relative states w obey

    w_i' = f_i(w) - sum_m xi_(m,i) f_(j_m)(w),        w+_i = J_i(w) - sum_m xi+_(m,i) J_(j_m)(w),

with the translations xi+ of the next phase. An orbit up to shifts is a closed orbit of w without its entries
j_m, which are zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...compiler import Constants, Tape
from .certificate import phase_data, symmetry_data, with_phases
from .equations import ExactEquations, OrbitPhase, ProofError, appended, section_of
from .symmetries import Vector

Array = Any


def relative_equations(equations: ExactEquations) -> ExactEquations:
    """The equations of the relative states; without symmetries, of an orbit that closes.

    Errors: ProofError where a shift moves its coordinate otherwise in another phase.
    """
    _must_move_alike(equations)
    constants = equations.constants.copy()
    removed = [symmetry.coordinate for symmetry in equations.symmetries]
    along = [[symmetry.along[k] for symmetry in equations.symmetries] for k in range(len(equations.phases))]
    phases = [
        _relative_phase(phase, _RelativeTapes(removed, constants), along[k], along[(k + 1) % len(along)])
        for k, phase in enumerate(equations.phases)
    ]
    return ExactEquations(equations.name, constants, phases, equations.common - len(removed))


def relative_state(equations: ExactEquations, y: Array) -> Array:
    """The relative state of a state y of the first phase."""
    removed = [symmetry.coordinate for symmetry in equations.symmetries]
    for symmetry in equations.symmetries:
        y = y - y[symmetry.coordinate] * np.array(symmetry.along[0], float)
    return np.delete(y, removed)


def data_with_shifts(data: Mapping[str, Any], equations: ExactEquations) -> dict[str, Any]:
    """The content of a file about relative states, with the functions of all states in their places.

    Nodes are states whose coordinates j_m are zero.
    """
    data = with_phases(data)
    phases = []
    for phase, row in zip(equations.phases, data["phases"], strict=True):
        nodes = []
        for node in row["nodes"]:
            node = list(node)
            for j in sorted(symmetry.coordinate for symmetry in equations.symmetries):
                node.insert(j, (0.0).hex())
            nodes.append(node)
        durations = np.array([float.fromhex(x) for x in row["durations"]])
        phases.append(phase_data(phase, durations) | {"nodes": nodes, "factor": row["factor"]})
    return data | {
        "phases": phases,
        "symmetries": [symmetry_data(symmetry) for symmetry in equations.symmetries],
    }


def _must_move_alike(equations: ExactEquations) -> None:
    for one in equations.symmetries:
        for k, phase in enumerate(equations.phases):
            for other in equations.symmetries:
                if other.along[k][one.coordinate] != int(other is one):
                    raise ProofError(
                        f"a shift of {equations.name} moves {phase.names[one.coordinate]} otherwise in phase "
                        f"{k + 1} than at the start, so there are no relative states"
                    )


def _relative_phase(
    phase: OrbitPhase, tapes: _RelativeTapes, along: list[Vector], behind: list[Vector]
) -> OrbitPhase:
    """A phase in relative states; behind: the translations in the next phase."""
    kept = [i for i in range(phase.size) if i not in tapes.removed]
    section, coordinate = tapes.of_arguments(phase.section), phase.coordinate
    if coordinate is not None:
        coordinate = kept.index(coordinate)
        _, constant = phase.section.nodes[phase.size]
        section = section_of(len(kept), coordinate, constant)
    names = [f"relative {phase.names[i]}" if any(xi[i] for xi in along) else phase.names[i] for i in kept]
    return replace(
        phase,
        names=names,
        field=tapes.of_states(phase.field, along),
        section=section,
        jump=None if phase.jump is None else tapes.of_states(phase.jump, behind),
        coordinate=coordinate,
        guards=[replace(x, tape=tapes.of_arguments(x.tape)) for x in phase.guards],
        at_end=[replace(x, tape=tapes.of_arguments(x.tape)) for x in phase.at_end],
    )


class _RelativeTapes:
    """Tapes of relative states.

    removed  the coordinates j_m, which are zero and no arguments any more
    """

    def __init__(self, removed: Sequence[int], constants: Constants) -> None:
        self.removed = list(removed)
        self.constants = constants

    def of_arguments(self, tape: Tape) -> Tape:
        """A function of the state, whose value no shift changes."""
        nodes, results = self._with_zeros(tape)
        return Tape(tape.inputs - len(self.removed), tuple(nodes), tuple(results))

    def of_states(self, tape: Tape, along: list[Vector]) -> Tape:
        """A function whose results are a state, or its rate: y_i - sum_m xi_(m,i) y_(j_m)."""
        nodes, results = self._with_zeros(tape)

        def new(*node: Any) -> int:
            nodes.append(node)
            return len(nodes) - 1

        relative = []
        for i, result in enumerate(results):
            if i in self.removed:
                continue
            for j, xi in zip(self.removed, along, strict=True):
                if xi[i]:
                    moved = results[j]
                    if xi[i] != 1:
                        moved = new("mul", self._constant(nodes, xi[i]), moved)
                    result = new("sub", result, moved)
            relative.append(result)
        return Tape(tape.inputs - len(self.removed), tuple(nodes), tuple(relative))

    def _with_zeros(self, tape: Tape) -> tuple[list[tuple[Any, ...]], list[int]]:
        """The operations with zeros for the removed arguments, and the places of the results."""
        kept = [i for i in range(tape.inputs) if i not in self.removed]
        nodes: list[tuple[Any, ...]] = [("input", k) for k in range(len(kept))]
        zero = self._constant(nodes, Fraction(0))
        inputs = [kept.index(i) if i in kept else zero for i in range(tape.inputs)]
        return nodes, appended(nodes, tape, inputs)

    def _constant(self, nodes: list[tuple[Any, ...]], value: Fraction) -> int:
        nodes.append(("constant", self.constants.place((value, value))))
        return len(nodes) - 1
