"""How an orbit closes whose states contain quaternions, or the time of a drive.

*Rotations.* A rotation is a unit quaternion q in the states, with the rate q (0, omega) / 2. Fields keep |q|
as it is, q . q' = 0, and jumps do, too. So the equations of an orbit would be singular: a q that is closed in
three directions is closed in the fourth one. Behind the last jump the state therefore closes as

    sign q / |q| = q_0.

Then |q_0| = 1, so |q| = 1 all along the orbit, and nothing was changed by the division. Beside the orbit on
|q| = 1 these equations have no other orbits with other lengths: it is isolated, as on the group. q and -q are
one rotation; with the sign -1 an orbit closes as a motion of rotations, if no equation tells q from -q.

*Drives.* Equations that contain the time t in sines and cosines alone, of arguments n omega t + ..., repeat
after T = 2 pi / omega. The time is a state with the rate 1; an orbit ends where t = T, and begins with t = 0.

All of this is verified here for the tapes: lengths by polynomials, the sign by parities of the results of
operations, the drive by slopes along the time. The checker does it once more, in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...base.exact import Bounds
from ...compiler import Constants, Tape
from ...groups import LieGroup
from ..orbit import PeriodicOrbit
from .equations import Closing, ExactEquations, OrbitPhase, PeriodicDrive, ProofError, Rotation
from .symmetries import Slopes

Array = Any
PI = tuple(Fraction(314159265358979323846264338327950288419 + k, 10**38) for k in (0, 1))  # below and above
EVEN, ODD = 1, -1
Term = tuple[Any, ...]  # of a polynomial: its factors, sorted
Polynomial = dict[Term, Fraction]


def rotations_of(orbit: PeriodicOrbit) -> list[Rotation]:
    """The quaternions of an orbit's group, each with the sign with which it returns."""
    system = orbit.system
    end = orbit.shot.arcs[-1].end.q
    found = []
    for k in system.group.quaternions:
        along = float(np.dot(orbit.q[k : k + 4], end[k : k + 4]))
        found.append(Rotation(k, 1 if along > 0 else -1))
    return found


def lifted(group: LieGroup, vector: Sequence[float]) -> list[float]:
    """A translation in the algebra (dim,) as one of the coordinates (nq,); ProofError where it rotates."""
    entries = iter(vector)
    found: list[float] = []
    while len(found) < group.nq:
        if len(found) not in group.quaternions:
            found.append(next(entries))
            continue
        if any(next(entries) for _ in range(3)):
            raise ProofError(
                "a symmetry of the orbit rotates in space; proofs are about symmetries that are translations"
            )
        found += [0.0] * 4
    return found


def closing_of(
    rotations: Sequence[Rotation], drive: PeriodicDrive | None, N: int, constants: Constants
) -> Closing | None:
    """The end of the last phase of N states; None where it closes by itself."""
    if not rotations and drive is None:
        return None
    nodes: list[tuple[Any, ...]] = [("input", k) for k in range(N)]
    outputs = list(range(N))

    def add(*node: Any) -> int:
        nodes.append(node)
        return len(nodes) - 1

    for one in rotations:
        places = range(one.place, one.place + 4)
        squares = [add("mul", k, k) for k in places]
        total = squares[0]
        for square in squares[1:]:
            total = add("add", total, square)
        length = add("sqrt", total)
        for k in places:
            unit = add("div", k, length)
            outputs[k] = unit if one.sign > 0 else add("neg", unit)
    if drive is not None:
        outputs[drive.place] = add("constant", constants.place((Fraction(0), Fraction(0))))
    return Closing(list(rotations), drive, Tape(N, tuple(nodes), tuple(outputs)))


# -- the drive ----------------------------------------------------------------------------------------------


def period_of(drive: PeriodicDrive) -> Bounds:
    """Bounds of 2 pi / rate."""
    return 2 * PI[0] / drive.rate, 2 * PI[1] / drive.rate


def drive_of(
    phases: Iterable[OrbitPhase], place: int, period: float, constants: Constants, name: str
) -> PeriodicDrive:
    """The drive of phases whose state at `place` is the time; ProofError where it does not repeat.

    period  about a multiple of the drive's period
    """
    rates = sorted({rate for phase in phases for rate in _rates(phase, place, constants, name)})
    if not rates:
        raise ProofError(
            f"the period of {name} is given by a function, but its equations do not contain the time; give "
            "a guess of the period instead"
        )
    turns = [float(rate) * period / (2 * math.pi) for rate in rates]
    counts = [round(x) for x in turns]
    base = rates[0] / max(counts[0], 1)
    for rate, count, turn in zip(rates, counts, turns, strict=True):
        if abs(count - turn) > 1e-6 or rate != count * base:
            raise ProofError(
                f"the drive of {name} has the rates {', '.join(str(float(x)) for x in rates)} 1/s, which are "
                f"not exact multiples of 2 pi / {period!r} s. Rates such as 3 * p.omega are, if omega is a "
                "parameter; a product of two floats is rounded"
            )
    return PeriodicDrive(place, base)


def _on_the_way(phase: OrbitPhase) -> list[Tape]:
    """All functions of a phase but a section y_j = c, which says where the orbit closes, not how it moves."""
    watched = [x.tape for x in phase.guards] + [x.tape for x in phase.at_end]
    event = [] if phase.event is None else [phase.section]
    return [phase.field, *([] if phase.jump is None else [phase.jump]), *event, *watched]


def _rates(phase: OrbitPhase, place: int, constants: Constants, name: str) -> set[Fraction]:
    """The rates of all arguments of sines and cosines of the time; ProofError for any other use of it."""
    jumps = [] if phase.jump is None else [phase.jump]
    found: set[Fraction] = set()
    for tape in _on_the_way(phase):
        along = _Repeating([Fraction(int(k == place)) for k in range(tape.inputs)], constants)
        results = along.of(tape)
        for k, slope in enumerate(results):
            wanted = Fraction(int(tape in jumps and k == place))
            if slope != wanted and not (wanted == 0 and slope is REPEATS):
                raise ProofError(
                    f"{name} depends on the time t in another way than by sin and cos of multiples of it, so "
                    "that it is not seen to repeat"
                )
        found |= along.rates
    return found


REPEATS = "repeats"  # of a result: it repeats with the drive


class _Repeating(Slopes):
    """Derivatives along the time where they are exact numbers, and which results repeat with it."""

    def __init__(self, along: list[Fraction], constants: Constants) -> None:
        super().__init__(along, constants)
        self.rates: set[Fraction] = set()

    def slope(self, op: str, dx: Sequence[Any], exact: Sequence[Fraction | None]) -> Any:
        known = [x for x in dx if x is not REPEATS]
        if None in known:
            return None
        if op in ("sin", "cos") and known and known[0] != 0:
            self.rates.add(abs(known[0]))
            return REPEATS
        if len(known) < len(dx):
            return REPEATS if all(x == 0 for x in known) else None
        return super().slope(op, dx, exact)


# -- rotations ----------------------------------------------------------------------------------------------


def must_be_rotations(equations: ExactEquations) -> None:
    """ProofError unless all functions treat the quaternions of the closing as rotations."""
    rotations = [] if equations.closing is None else equations.closing.rotations
    flipped = {one.place + k for one in rotations if one.sign < 0 for k in range(4)}
    for phase in equations.phases:
        for one in rotations:
            _must_keep_length(phase, one.place, equations)
        if flipped:
            _must_not_see_signs(phase, flipped, equations.name)


def _must_keep_length(phase: OrbitPhase, place: int, equations: ExactEquations) -> None:
    """q . q' = 0, and |J_q| = |q|."""
    places = range(place, place + 4)
    rate = _polynomials(phase.field, places, equations.constants)
    change: Polynomial = {}
    for k, row in zip(places, rate, strict=True):
        _add_product(change, {(("input", k),): Fraction(1)}, row)
    if any(change.values()):
        raise ProofError(
            f"the field of {equations.name} is not seen to keep the length of the quaternion "
            f"{', '.join(phase.names[k] for k in places)}"
        )
    if phase.jump is None:
        return
    longer: Polynomial = {}
    for k, row in zip(places, _polynomials(phase.jump, places, equations.constants), strict=True):
        _add_product(longer, row, row)
        square = (("input", k), ("input", k))
        longer[square] = longer.get(square, Fraction(0)) - 1
    if any(longer.values()):
        raise ProofError(
            f"the jump of {equations.name} at {phase.event} is not seen to keep the length of the quaternion "
            f"{', '.join(phase.names[k] for k in places)}; proofs are about updates that leave rotations as "
            "they are, or multiply quaternions"
        )


def _polynomials(tape: Tape, rows: Iterable[int], constants: Constants) -> list[Polynomial]:
    """Results of a tape as polynomials in its arguments, and in results of operations other than products."""
    numbers = {"constant": constants.bounds, "parameter": list(constants.parameters.values())}
    found: dict[int, Polynomial] = {}

    def polynomial(k: int) -> Polynomial:
        if k not in found:
            found[k] = expanded(k)
        return found[k]

    def expanded(k: int) -> Polynomial:
        op, *operands = tape.nodes[k]
        if op in numbers:
            low, high = numbers[op][operands[0]]
            return {(): low} if low == high else {((op, *operands),): Fraction(1)}
        if op == "input":
            return {(("input", k),): Fraction(1)}
        if op not in ("add", "sub", "neg", "mul"):
            return {(("node", k),): Fraction(1)}
        parts = [polynomial(x) for x in operands]
        total: Polynomial = {}
        if op == "mul":
            _add_product(total, *parts)
        else:
            _add_product(total, {(): Fraction(-1 if op == "neg" else 1)}, parts[0])
            if op != "neg":
                _add_product(total, {(): Fraction(1 if op == "add" else -1)}, parts[1])
        return total

    return [polynomial(tape.outputs[row]) for row in rows]


def _add_product(total: Polynomial, a: Polynomial, b: Polynomial) -> None:
    """Add a b to a polynomial."""
    for x, m in a.items():
        for y, n in b.items():
            term = tuple(sorted((*x, *y)))
            total[term] = total.get(term, Fraction(0)) + m * n


def _must_not_see_signs(phase: OrbitPhase, flipped: set[int], name: str) -> None:
    """Where the entries `flipped` change their sign, theirs of the results do so, and others stay."""
    moved = [phase.field] if phase.jump is None else [phase.field, phase.jump]
    for tape in _on_the_way(phase):
        for k, parity in enumerate(_parities(tape, flipped)):
            wanted = ODD if tape in moved and k in flipped else EVEN
            if parity != wanted:
                raise ProofError(
                    f"the orbit of {name} closes with a quaternion that has changed its sign, and a function "
                    "is not seen to be the same for both signs: q and -q are one rotation"
                )


def _parities(tape: Tape, flipped: set[int]) -> list[int | None]:
    """EVEN or ODD of each result, where entries of the arguments change their sign; None: neither is seen."""
    found: list[int | None] = []
    for op, *operands in tape.nodes:
        if op == "input":
            found.append(ODD if operands[0] in flipped else EVEN)
            continue
        if op in ("constant", "parameter"):
            found.append(EVEN)
            continue
        found.append(_parity(op, [found[k] for k in operands]))
    return [found[k] for k in tape.outputs]


def _parity(op: str, of: list[int | None]) -> int | None:
    """The parity of a result, from the parities of its operands."""
    if None in of:
        return None
    if all(x == EVEN for x in of):
        return EVEN
    if op in ("mul", "div"):
        return EVEN if of[0] == of[1] else ODD
    if op in ("add", "sub"):
        return of[0] if of[0] == of[1] else None
    if op in ("neg", "sin", "tan", "sinh", "tanh", "arcsin"):
        return ODD
    if op in ("cos", "cosh", "hypot"):
        return EVEN
    return None
