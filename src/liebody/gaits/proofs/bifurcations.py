"""Flips and folds: at exactly one value of a parameter an orbit has the multiplier -1, or 1.

The orbit, the parameter and the eigenvector are the closed orbit of a larger system (`extended`), which is
proved as any other orbit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.errors import known
from .blocks import BlockElimination
from .certificate import Checkable, data_of, with_phases
from .equations import ExactEquations, ProofError
from .extended import ExtendedEquations, changes_along
from .phases import Course
from .system import Enclosed, StepEquations, SteppedOrbit, SteppedPhase

Array = Any
FORMAT_OF_BIFURCATIONS = "liebody certificate 4"
KINDS = {"fold": 1, "flip": -1}  # the multiplier
BOXES = 1e-3  # steps are as long as boxes of this radius allow
TRIES = 12  # steps of Newton's method, from an orbit nearby
FAR = 0.5  # a multiplier further than this from 1 or -1 is another one


@dataclass(frozen=True, eq=False)
class ProvedBifurcation(Checkable):
    """A proved flip or fold: the one value of a parameter at which an orbit has the multiplier -1, or 1.

    kind       "flip" or "fold"
    parameter  its name
    value      (lower, upper) bounds of its value there
    period     (lower, upper) bounds of the orbit's period [s]
    start      bounds (2 n, 2) of the state (q, v) at its start
    direction  bounds (2 n, 2) of the eigenvector there
    radius     no other orbit with this multiplier has all its states, its factors of durations and its
               parameter within this distance of those in `data`
    data       the equations and numbers, as `save` writes them: no bounds

    The bounds are the prover's. `check` and `theorem` run the checker, which derives the equations of the
    eigenvector by itself from the equations of the orbit.
    """

    kind: str
    parameter: str
    value: tuple[float, float]
    period: tuple[float, float]
    start: Array
    direction: Array
    radius: float
    data: Mapping[str, Any]
    _checked: list[Any] = field(default_factory=list, repr=False)

    def __repr__(self) -> str:
        low, high = self.value
        return (
            f"ProvedBifurcation({self.data['name']!r}, {self.kind} at {self.parameter} in "
            f"[{low!r}, {high!r}]; "
            f"{'checked' if self._checked else 'not checked yet'})"
        )


@dataclass
class ExtendedOrbit:
    """An orbit near a bifurcation, with the parameter and the eigenvector, and the equations of all three.

    equations  of the orbit alone
    normal     l: the eigenvector w at the start has l . w = 1
    guess      the orbit in steps, not at the bifurcation yet
    """

    kind: str
    parameter: str
    equations: ExactEquations
    extended: ExactEquations
    normal: Array
    guess: SteppedOrbit


def extended_orbit(
    equations: ExactEquations, course: Course, parameter: str, kind: str, order: int
) -> ExtendedOrbit:
    """The larger system of an orbit near a bifurcation, with the orbit in its steps.

    Errors: ProofError where no multiplier is near 1 or -1, as `kind` needs, and for unknown parameters.
    """
    parameters = equations.constants.parameters
    if parameter not in parameters:
        raise ProofError(f"there is no parameter {parameter!r}; {known(parameters, parameter)}")
    wide = [name for name, (low, high) in parameters.items() if low != high]
    if wide:
        raise ProofError(f"parameters with bounds are {', '.join(wide)}, expected exact values")
    problem = StepEquations(equations, order, exact=False)
    w = _direction(problem, problem.divided(course.start, course.durations, BOXES), kind)
    normal = w / (w @ w)
    extended = ExtendedEquations(equations, parameter, KINDS[kind], normal).equations()
    value = float(parameters[parameter][0])
    start = np.concatenate([course.start, [value], w])
    guess = StepEquations(extended, order, exact=False).divided(start, course.durations, BOXES)
    return ExtendedOrbit(kind, parameter, equations, extended, normal, guess)


def _direction(problem: StepEquations, orbit: SteppedOrbit, kind: str) -> Array:
    """About the eigenvector of the multiplier nearest to 1 (fold) or -1 (flip), with largest entry 1."""
    _, P = changes_along(problem, orbit, np.eye(problem.equations.phases[0].size))
    values, vectors = np.linalg.eig(P)
    k = int(np.argmin(np.abs(values - KINDS[kind])))
    if abs(values[k] - KINDS[kind]) > FAR or abs(values[k].imag) > FAR / 10:
        raise ProofError(
            f"the orbit of {problem.equations.name} is not near a {kind}: its multiplier nearest to "
            f"{KINDS[kind]} is {values[k]:.4g}; give the orbit of a bifurcation that `continuation` found"
        )
    w = vectors[:, k].real
    return w / w[np.argmax(np.abs(w))]


def refined_bifurcation(near: ExtendedOrbit, order: int) -> tuple[SteppedOrbit, BlockElimination]:
    """The orbit at the bifurcation to round-off, and its linear equations there."""
    orbit, linear = StepEquations(near.extended, order, exact=False).refined(near.guess, TRIES)
    # the parameter does not change on the way: the same number at all nodes
    places = [phase.size for phase in near.equations.phases]
    value = orbit.phases[0].x[0, places[0]]
    phases = []
    for place, steps in zip(places, orbit.phases, strict=True):
        x = steps.x.copy()
        x[:, place] = value
        phases.append(SteppedPhase(x, steps.w, steps.s))
    return SteppedOrbit(phases, orbit.shift, orbit.coordinates, orbit.stiff), linear


def proved_bifurcation(
    near: ExtendedOrbit, problem: StepEquations, wide: Enclosed, tight: Enclosed
) -> ProvedBifurcation:
    """The result, from the larger system's orbit in the box of the claim and in a small one."""
    common = near.equations.common
    place = near.equations.phases[0].size
    first = tight.phases[0][0][0] * [-1, 1]  # (lower, upper)
    radius = float(wide.radius[0])
    return ProvedBifurcation(
        near.kind,
        near.parameter,
        (float(first[place, 0]), float(first[place, 1])),
        problem.period(problem.durations(tight)),
        first[:common],
        first[place + 1 : place + 1 + common],
        radius,
        _data(near, wide.orbit, radius, problem.order),
    )


def _data(near: ExtendedOrbit, orbit: SteppedOrbit, radius: float, order: int) -> dict[str, Any]:
    """The content of the file: the equations of the orbit alone, and numbers of the larger system's orbit."""
    value = float(orbit.phases[0].x[0, near.equations.phases[0].size])
    phases: list[SteppedPhase] = []
    changes = []
    for phase, steps in zip(near.equations.phases, orbit.phases, strict=True):
        N = phase.size
        phases.append(SteppedPhase(steps.x[:, :N], steps.w, steps.s))
        changes.append([[x.hex() for x in row] for row in steps.x[:, N + 1 :].tolist()])
    alone = SteppedOrbit(phases, orbit.shift, orbit.coordinates)
    data = with_phases(data_of(near.equations, alone, np.array([radius]), order))
    for row, change in zip(data["phases"], changes, strict=True):
        row["changes"] = change
    names = [name for name, _ in data["parameters"]]
    data["parameters"][names.index(near.parameter)][1] = value.hex()
    return data | {
        "format": FORMAT_OF_BIFURCATIONS,
        "kind": near.kind,
        "parameter": near.parameter,
        "normal": [x.hex() for x in near.normal.tolist()],
    }
