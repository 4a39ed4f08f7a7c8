"""The results of a proof, and the file that another program checks."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from ...base.arguments import checked
from ...compiler import Tape
from .equations import ExactEquations, OrbitPhase, ProofError, Symmetry
from .system import SteppedOrbit, SteppedPhase

Array = Any
FORMAT = "liebody certificate 1"
FORMAT_OF_PHASES = "liebody certificate 2"
FORMAT_OF_CLOSINGS = "liebody certificate 6"
OF_PHASES = ("states", "field", "section", "guards", "at_end", "durations", "nodes", "factor")


class Checkable:
    """A theorem with the data from which another program proves it again: `Certificate`, `Family`.

    data  all that the file has, exact numbers
    """

    data: Mapping[str, Any]
    _checked: list[Any]  # the checker's results; empty before it has confirmed the data

    @checked
    def save(self, path: str | Path) -> None:
        """Write `data` as JSON, for `python -m liebody_check path`."""
        Path(path).write_text(json.dumps(self.data, indent=1), encoding="utf-8")

    def check(self, steps: str | None = None) -> Any:
        """The checker's results: its own bounds, and the theorem in words.

        steps  the checker's program for steps: "python" (None: the same, or the one that has checked `data`
               already), or "c" for orbits of thousands of steps, which is some forty times as fast

        Errors: ProofError where it refuses `data`, where python-flint is missing, and for "c" where there is
        no C compiler.
        """
        language = {"python": "Python", "c": "C"}.get(steps or "", steps)
        if not self._checked or (steps is not None and self._checked[0].by != language):
            self._checked[:] = [checked_by_another_program(self.data, steps or "python")]
        return self._checked[0]

    def theorem(self, steps: str | None = None) -> str:
        """The theorem in words, with the bounds of the checker, after it has confirmed it; as `check`."""
        return str(self.check(steps).theorem)


@dataclass(frozen=True, eq=False)
class Certificate(Checkable):
    """A proved periodic orbit: bounds of what it is, and all that another program needs to prove it again.

    period       (lower, upper) [s]
    nodes        bounds (m, nq + nv, 2) of its states (q, v) at the ends of steps: (lower, upper); before a
                 jump and behind it there is one each
    times        of the nodes over the period, (m,)
    durations    bounds (phases, 2) of the time from event to event [s]
    shift        bounds (k, 2) of how far it moves in a period along its symmetries: the change of that
                 coordinate of each which moves most
    radius       no other orbit has all its states within this distance, in each coordinate, of `data`'s
                 nodes. Where `data` has "radii", one for each unknown, it is the smallest of them
    multipliers  of the return map, the largest first (complex), and `multipliers_radius`, the radius of discs
                 around them which contain the exact ones
    modulus      an upper bound of the moduli of all multipliers, from powers of the derivative
    stable       True: all multipliers lie inside the unit circle. False: one lies outside. None: not decided
    data         the equations, constants, nodes and radius, as `save` writes them: no bounds

    The prover's own bounds are not a theorem yet. `check` and `theorem` run the checker (liebody_check, which
    needs the extra `prove`): a separate program, which reads `data` alone and computes everything again.
    """

    period: tuple[float, float]
    nodes: Array
    times: Array
    durations: Array
    shift: Array
    radius: float
    multipliers: Array
    multipliers_radius: float
    modulus: float
    data: Mapping[str, Any]
    _checked: list[Any] = field(default_factory=list, repr=False)

    @property
    def stable(self) -> bool | None:
        sizes = abs(self.multipliers)
        if not len(sizes) or self.largest_multiplier < 1:
            return True
        return False if sizes.max() - self.multipliers_radius > 1 else None

    @property
    def largest_multiplier(self) -> float:
        """An upper bound of the moduli of all multipliers."""
        by_discs = float(abs(self.multipliers).max(initial=0.0) + self.multipliers_radius) * (1 + 1e-15)
        return min(by_discs, self.modulus)

    def __repr__(self) -> str:
        low, high = self.period
        state = {True: "stable", False: "unstable", None: "stability not decided"}[self.stable]
        return (
            f"Certificate({self.data['name']!r}, period in [{low!r}, {high!r}], {state}, "
            f"largest multiplier below {self.largest_multiplier:.6g}, alone within {self.radius:.1e}; "
            f"{'checked' if self._checked else 'not checked yet'})"
        )


def checked_by_another_program(data: Mapping[str, Any], steps: str = "python") -> Any:
    """The proof to which the checker comes from a certificate's data; ProofError where it refuses it."""
    if importlib.util.find_spec("flint") is None:
        raise ProofError(
            "the checker needs python-flint: pip install python-flint. A certificate can also be "
            "saved, and checked elsewhere: python -m liebody_check orbit.json"
        )
    import liebody_check

    try:
        return liebody_check.check(data, steps=steps)
    except liebody_check.Refused as error:
        raise ProofError(f"the checker refuses the certificate: {error}") from None
    except liebody_check.Unavailable as error:
        raise ProofError(f"the checker cannot be run: {error}") from None


def data_of(equations: ExactEquations, orbit: SteppedOrbit, radii: Array, order: int) -> dict[str, Any]:
    """The content of a certificate's file: exact numbers, and no bounds of the prover.

    A file of one phase without symmetries has its entries beside the others; else "phases" is a list.
    It has one "radius" of all unknowns, or "radii", one for each unknown: for each phase its states, then its
    factor; the radius of a shift has the place of its symmetry's coordinate. A file with quaternions or a
    drive (`closing_data`) has another format, so that no older checker reads it.
    """
    phases = [
        phase_data(phase, steps.w) | _nodes(steps)
        for phase, steps in zip(equations.phases, orbit.phases, strict=True)
    ]
    symmetries = [
        symmetry_data(symmetry) | {"shift": s.hex()}
        for symmetry, s in zip(equations.symmetries, orbit.shift.tolist(), strict=True)
    ]
    closing = closing_data(equations)
    several = len(phases) > 1 or bool(symmetries) or bool(closing)
    return {
        "format": FORMAT_OF_CLOSINGS if closing else FORMAT_OF_PHASES if several else FORMAT,
        **_constants(equations),
        **({"phases": phases, "symmetries": symmetries} if several else phases[0]),
        **closing,
        **_radii(radii),
        "order": order,
    }


def with_phases(data: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file with a list of phases, whether or not the file has several."""
    if "phases" in data:
        return dict(data)
    others = {name: x for name, x in data.items() if name not in OF_PHASES}
    row = {name: data[name] for name in OF_PHASES if name in data}
    return others | {"phases": [row], "symmetries": []}


def _radii(radii: Array) -> dict[str, Any]:
    numbers = [x.hex() for x in radii.tolist()]
    return {"radii": numbers} if len(set(numbers)) > 1 else {"radius": numbers[0]}


def equations_data(
    equations: ExactEquations, durations: Sequence[Array], starts: Sequence[float]
) -> dict[str, Any]:
    """The equations with durations of steps, and no orbit; starts: values of the symmetries' coordinates."""
    return {
        **_constants(equations),
        "phases": [phase_data(phase, w) for phase, w in zip(equations.phases, durations, strict=True)],
        "symmetries": [
            symmetry_data(symmetry) | {"start": x.hex()}
            for symmetry, x in zip(equations.symmetries, starts, strict=True)
        ],
        **closing_data(equations),
    }


def closing_data(equations: ExactEquations) -> dict[str, Any]:
    """Quaternions and drive: places among the states, signs, and the rate; empty without them.

    With a drive, the section of the last phase is t = c, and c is 2 pi / rate.
    """
    closing = equations.closing
    if closing is None:
        return {}
    drive = {}
    if closing.drive is not None:
        drive = {"drive": {"place": closing.drive.place, "rate": constant_of(closing.drive.rate)}}
    rotations = [{"place": one.place, "sign": one.sign} for one in closing.rotations]
    return {"rotations": rotations, **drive}


def _constants(equations: ExactEquations) -> dict[str, Any]:
    return {
        "name": equations.name,
        "constants": [_constant(*bounds) for bounds in equations.constants.bounds],
        "parameters": [[name, _constant(*x)] for name, x in equations.constants.parameters.items()],
    }


def symmetry_data(symmetry: Symmetry) -> dict[str, Any]:
    return {
        "coordinate": symmetry.coordinate,
        "along": [[constant_of(x) for x in row] for row in symmetry.along],
    }


def _nodes(steps: SteppedPhase) -> dict[str, Any]:
    return {"nodes": [[x.hex() for x in row] for row in steps.x.tolist()], "factor": steps.s.hex()}


def phase_data(phase: OrbitPhase, durations: Array) -> dict[str, Any]:
    section: dict[str, Any] = {"function": _tape(phase.section)}
    at_end = [
        {"function": _tape(x.tape), "sign": x.sign} | ({"name": x.name} if x.name else {})
        for x in phase.at_end
    ]
    if phase.event is not None and phase.jump is not None:
        section |= {"event": phase.event[0], "direction": phase.event[1], "jump": _tape(phase.jump)}
    else:
        section |= {"coordinate": phase.coordinate}
    return {
        "states": phase.names,
        "field": _tape(phase.field),
        "section": section,
        "guards": [
            {"name": guard.name, "direction": guard.direction, "function": _tape(guard.tape)}
            | ({"sign": guard.sign} if guard.sign else {})
            | ({"positive": True} if guard.positive else {})
            for guard in phase.guards
        ],
        **({"at_end": at_end} if at_end else {}),
        "durations": [x.hex() for x in durations.tolist()],
    }


def _tape(tape: Tape) -> dict[str, Any]:
    return {"nodes": [list(node) for node in tape.nodes], "outputs": list(tape.outputs)}


def _constant(low: Fraction, high: Fraction) -> Any:
    """An exact number; a pair for all numbers between two."""
    return constant_of(low) if low == high else [constant_of(low), constant_of(high)]


def constant_of(x: Fraction) -> str:
    """An exact number, in hexadecimal digits or as a fraction."""
    binary = x.denominator & (x.denominator - 1) == 0 and abs(x.numerator).bit_length() <= 53
    return float(x).hex() if binary else str(x)
