"""Families of orbits: parts of an interval of a parameter, one beside the other, and their certificate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ...base.exact import exact_bounds
from ...compiler import NotProved, outward
from .certificate import FORMAT_OF_CLOSINGS, Checkable, constant_of, equations_data
from .equations import ExactEquations, ProofError
from .moving import FamilyPart, MovingBoxes, NearOrbit
from .phases import Course

Array = Any
FORMAT_OF_FAMILIES = "liebody certificate 3"
NARROWEST = Fraction(1, 2**20)  # part, over the interval
FOR_STABILITY = 6  # halvings of a part to decide the stability of its orbits
BOXES = 1e-2  # steps are as long as boxes of this radius allow


@dataclass(frozen=True, eq=False)
class Family(Checkable):
    """A proved family of periodic orbits: exactly one in a moving box for each value of a parameter.

    parameter   its name
    bounds      (lower, upper) exact values of it: the theorem holds for all between them
    parts       how many parts the interval was cut into
    stable      True: all orbits are stable. False: all are unstable. None: some are not decided
    stabilities (lower, upper, stable) of the intervals in which it is the same: stable, unstable, undecided
    complete    whether the family reaches both ends that were asked for
    status      where it stops and what would help; "complete"
    data        the equations and boxes, as `save` writes them

    As with `Certificate`, `check` and `theorem` run the checker; before, the bounds come from the prover.
    After `load`, the checker decides stability.
    """

    parameter: str
    data: Mapping[str, Any]
    status: str = "complete"
    complete: bool = True
    _stable: tuple[bool | None, ...] | None = field(default=None, repr=False)
    _checked: list[Any] = field(default_factory=list, repr=False)

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        return self._bounds(0)[0], self._bounds(-1)[1]

    @property
    def parts(self) -> int:
        return len(self.data["parts"])

    def _bounds(self, k: int) -> tuple[Fraction, Fraction]:
        low, high = map(_number, self.data["parts"][k]["bounds"])
        return low, high

    @property
    def stabilities(self) -> list[tuple[Fraction, Fraction, bool | None]]:
        each = self._stable if self._stable is not None else self.check().stable_parts
        rows: list[tuple[Fraction, Fraction, bool | None]] = []
        for k, stable in enumerate(each):
            low, high = self._bounds(k)
            if rows and rows[-1][2] is stable:
                low = rows.pop()[0]
            rows.append((low, high, stable))
        return rows

    @property
    def stable(self) -> bool | None:
        rows = self.stabilities
        return rows[0][2] if len(rows) == 1 else None

    def at(self, value: Any) -> tuple[tuple[float, float], Array]:
        """Bounds of the period, and of the state (q, v) at the start (2 n, 2), for a value of the parameter.

        value  exact: a number, a Fraction, or a text such as "0.1"
        """
        p, upper = exact_bounds(f"the value of {self.parameter}", value)
        low, high = self.bounds
        if p != upper or not low <= p <= high:
            raise ProofError(
                f"the value of {self.parameter} is {value!r}, expected one number from {float(low):.9g} to "
                f"{float(high):.9g}"
            )
        k = next(k for k in range(self.parts) if p <= self._bounds(k)[1])
        boxes = _boxes(self.data["parts"][k], p)
        phases = self.data["phases"]
        given = {x["coordinate"]: _number(x["start"]) for x in self.data["symmetries"]}
        start = [(given[j], given[j]) if j in given else boxes[j] for j in range(self.data["common"])]
        period = [Fraction(0), Fraction(0)]
        last = -1
        for phase in phases:
            last += len(phase["states"]) * (len(phase["durations"]) + 1) + 1
            total = sum(map(_number, phase["durations"]))
            period = [a + total * b for a, b in zip(period, boxes[last], strict=True)]
        return outward((period[0], period[1])), np.array([outward(x) for x in start])

    @classmethod
    def load(cls, path: str | Path) -> Family:
        """A family from the file of `save`; nothing is proved until its `check`."""
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        known = isinstance(data, dict) and data.get("format") in (FORMAT_OF_FAMILIES, FORMAT_OF_CLOSINGS)
        if not known or "parts" not in data:
            raise ProofError(f"{path} is no family of orbits, a file of the format {FORMAT_OF_FAMILIES!r}")
        return cls(data["parameter"], data, data["status"], data["status"] == "complete")

    def __repr__(self) -> str:
        low, high = self.bounds
        state = "not checked yet" if not self._checked else "checked"
        end = "" if self.complete else f"; {self.status}"
        return (
            f"Family({self.data['name']!r}, {self.parameter} from {float(low):.9g} to {float(high):.9g} in "
            f"{self.parts} parts, {state}{end})"
        )


def _number(x: str) -> Fraction:
    """An exact number of a file."""
    return Fraction(float.fromhex(x)) if "0x" in x else Fraction(x)


def _boxes(part: Mapping[str, Any], p: Fraction) -> list[tuple[Fraction, Fraction]]:
    """The box of all unknowns at a value of the parameter, exactly."""
    away = p - _number(part["place"])
    numbers = [[_number(x) for x in part[name]] for name in ("centre", "slopes", "radius")]
    return [(c + s * away - r, c + s * away + r) for c, s, r in zip(*numbers, strict=True)]


# -- parts one after the other ------------------------------------------------------------------------------


@dataclass
class Side:
    """The parts to one side of a start, the nearest first.

    reason  why they end, in words; empty at the end of the interval
    """

    parts: list[FamilyPart]
    reason: str = ""


class Chain:
    """Parts one after the other, from a start to the ends of an interval.

    stability  make parts so narrow that the stability of their orbits is decided
    radius     the least one of all boxes
    most       parts
    """

    def __init__(
        self,
        equations: ExactEquations,
        parameter: str,
        order: int,
        bounds: tuple[Fraction, Fraction],
        stability: bool,
        radius: float = 0.0,
        most: int = 10000,
    ) -> None:
        self.boxes = MovingBoxes(equations, parameter, order)
        self.parameter = parameter
        self.bounds = bounds
        self.length = bounds[1] - bounds[0]
        self.stability = stability
        self.radius = radius
        self.most = most

    def both_sides(self, course: Course, start: float) -> tuple[list[FamilyPart], list[str]]:
        """All parts in their order, and why they end below and above."""
        first = self.boxes.first(course, start, BOXES)
        whole = self._whole(first)
        if whole is not None:
            return [whole], ["", ""]
        # else a chain to either side; the two first parts meet at the start, and must be linked there
        # the exact end of the interval where the start is beyond it
        place = min(max(Fraction(start), self.bounds[0]), self.bounds[1])
        up = self._side(first, place, 1)
        down = self._side(first, place, -1)
        if up.parts and down.parts and not self.boxes.are_linked(down.parts[0], up.parts[0]):
            down = Side([], f"the parts beside {float(place):.9g} are not proved to be linked")
        return [*reversed(down.parts), *up.parts], [down.reason, up.reason]

    def _whole(self, first: NearOrbit) -> FamilyPart | None:
        """The whole interval as one part."""
        try:
            part = self._part(first, *self.bounds, None)
        except ProofError:
            return None
        return None if part is None or (self.stability and not part.surely_decided) else part

    def _side(self, first: NearOrbit, start: Fraction, sign: int) -> Side:
        """The parts from a start to one end."""
        # parts grow by half from one to the next, until one fails and is halved (`_next`)
        side = Side([])
        end = self.bounds[sign > 0]
        near = first  # an orbit of the last part, from which Newton's method starts
        place = start
        width = self.length / 2
        while place != end:
            if len(side.parts) >= self.most:
                side.reason = self._stopped(place, f"{self.most} parts were made; a larger `most` goes on")
                break
            try:
                part = self._next(near, place, end, width, sign, side.parts[-1] if side.parts else None)
            except ProofError as error:
                side.reason = self._stopped(place, str(error))
                break
            side.parts.append(part)
            place = part.high if sign > 0 else part.low
            width = (part.high - part.low) * 3 / 2
            near = part.near
        return side

    def _stopped(self, place: Fraction, reason: str) -> str:
        return f"stops at {self.parameter} = {float(place):.9g}: {reason}"

    def _next(
        self,
        near: NearOrbit,
        place: Fraction,
        end: Fraction,
        width: Fraction,
        sign: int,
        last: FamilyPart | None,
    ) -> FamilyPart:
        """The part from a place on towards an end."""
        found: FamilyPart | None = None
        halvings = 0
        problem = (
            "Krawczyk's inequality fails in all boxes there. Near a fold, where orbits turn back over the "
            "parameter, and near a branch point another parameter is needed; elsewhere begin again from an "
            "orbit there, whose steps fit it, or give another order"
        )
        while width >= self.length * NARROWEST and halvings <= FOR_STABILITY:
            try:
                part = self._part(near, place, self._cut(place, end, width, sign), last)
            except ProofError as error:
                problem = str(error)
                part = None
            if part is not None:
                if not self.stability or part.surely_decided:
                    return part
                # the longest part, or the last one that is decided
                found = part if found is None or part.stable is not None else found
                halvings += 1
            width /= 2
        if found is None:
            raise ProofError(problem)
        return found

    def _cut(self, place: Fraction, end: Fraction, width: Fraction, sign: int) -> Fraction:
        """Where a part ends that has about this width; the last two share what is left."""
        left = abs(end - place)
        if width >= left:
            return end
        cut = Fraction(float(place + sign * min(width, left / 2)))
        return cut if min(place, end) < cut < max(place, end) else end

    def _part(
        self, near: NearOrbit, place: Fraction, cut: Fraction, last: FamilyPart | None
    ) -> FamilyPart | None:
        """The part between two values, linked to the last one; None where it is not proved."""
        low, high = min(place, cut), max(place, cut)
        middle = float((low + high) / 2)
        if not low <= Fraction(middle) <= high:
            return None
        try:
            near = self.boxes.near(near.moved(middle), middle)
        except NotProved:
            return None
        # if the boxes of two parts do not reach each other's orbit, the new boxes are made wider, once
        least = np.full(len(near.slopes), self.radius)
        part = self.boxes.part(low, high, near, least)
        if part is not None and last is not None and not self.boxes.are_linked(last, part):
            part = self.boxes.part(low, high, near, np.maximum(least, 1.1 * self.boxes.gap(last, part)))
            if part is not None and not self.boxes.are_linked(last, part):
                part = None
        if part is not None:
            self.boxes.decide_stability(part)
        return part


def family_of(
    equations: ExactEquations, parameter: str, parts: list[FamilyPart], order: int, reasons: list[str]
) -> Family:
    """The result of a chain that has parts."""
    status = "; ".join(x for x in reasons if x) or "complete"
    orbit = parts[0].near.orbit
    bounds = parts[0].low, parts[-1].high
    starts = orbit.phases[0].x[0][orbit.coordinates].tolist()
    data = equations_data(equations, [phase.w for phase in orbit.phases], starts)
    names = [name for name, _ in data["parameters"]]
    data["parameters"][names.index(parameter)][1] = [constant_of(x) for x in bounds]
    data |= {
        "format": FORMAT_OF_FAMILIES if equations.closing is None else FORMAT_OF_CLOSINGS,
        "order": order,
        "common": equations.common,
        "parameter": parameter,
        "status": status,
        "parts": [_part_data(part) for part in parts],
    }
    return Family(parameter, data, status, status == "complete", tuple(part.stable for part in parts))


def _part_data(part: FamilyPart) -> dict[str, Any]:
    return {
        "bounds": [constant_of(part.low), constant_of(part.high)],
        "place": part.near.place.hex(),
        "centre": [x.hex() for x in part.near.orbit.flat.tolist()],
        "slopes": [x.hex() for x in part.near.slopes.tolist()],
        "radius": [x.hex() for x in part.radius.tolist()],
    }
