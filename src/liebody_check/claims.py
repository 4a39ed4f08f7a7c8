"""The claims of certificates: equations, numbers near an orbit, and boxes, as exact numbers.

`reading` makes these of a file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

Bounds = tuple[Fraction, Fraction]
Changes = tuple[tuple[tuple[Fraction, ...], ...], ...]  # of each phase, a row for each node
SIGNS = {"fold": 1, "flip": -1}


class Refused(ValueError):
    """A certificate that proves nothing: the message says why."""


@dataclass(frozen=True)
class Function:
    """Operations on numbers of earlier ones; the first `inputs` nodes are the arguments."""

    inputs: int
    nodes: tuple[tuple[Any, ...], ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Guard:
    """A guard without an event on the way; or, with a `sign` that is not 0, a condition that keeps it.

    positive  the theorem says that it is positive, at both ends of the phase, too
    """

    name: str
    direction: int
    function: Function
    sign: int
    positive: bool = False


@dataclass(frozen=True)
class SignAtEnd:
    """A function with a sign at the end of a phase.

    name  of a function that the theorem says is positive; "": a condition of the jump
    """

    function: Function
    sign: int
    name: str = ""


@dataclass(frozen=True)
class Phase:
    """The equations between two events, and numbers near the orbit there.

    section     the function that is zero at the end of the phase
    event       name and direction of the guard that it is; or else `coordinate`, the index of a state
    jump        the state at the start of the next phase; None: it stays
    at_end      functions with a sign at the end of the phase
    closing     takes the state behind the last jump to the state at the start; None: the state stays
    """

    states: tuple[str, ...]
    field: Function
    section: Function
    event: tuple[str, int] | None
    coordinate: int | None
    jump: Function | None
    guards: tuple[Guard, ...]
    at_end: tuple[SignAtEnd, ...]
    nodes: tuple[tuple[Fraction, ...], ...]
    durations: tuple[Fraction, ...]
    factor: Fraction
    closing: Function | None = None


@dataclass(frozen=True)
class Rotation:
    """Four states of all phases, from `place` on, that are a unit quaternion; it returns with this sign."""

    place: int
    sign: int


@dataclass(frozen=True)
class Drive:
    """The time as a state of all phases, at `place`; the drive repeats after 2 pi / rate.

    period  the number of the constant that is 2 pi / rate
    """

    place: int
    rate: Fraction
    period: int


@dataclass(frozen=True)
class Symmetry:
    """A translation under which the equations are said not to change.

    coordinate  a state of the first phase that it moves by 1, and that no other symmetry moves
    along       the translation in the states of each phase
    shift       about how far the orbit moves along it in a period
    """

    coordinate: int
    along: tuple[tuple[Fraction, ...], ...]
    shift: Fraction


@dataclass(frozen=True)
class Claim:
    """The content of a certificate of an orbit, with exact numbers.

    radii  of the box in which the orbit is alone, one for each unknown: for each phase its states, then its
           factor; the radius of a shift has the place of its symmetry's coordinate
    """

    name: str
    constants: tuple[Bounds, ...]
    parameters: dict[str, Bounds]
    phases: tuple[Phase, ...]
    symmetries: tuple[Symmetry, ...]
    radii: tuple[Fraction, ...]
    order: int
    rotations: tuple[Rotation, ...] = ()
    drive: Drive | None = None

    @property
    def flipped(self) -> frozenset[int]:
        """States that are quaternions which return with the other sign."""
        return frozenset(x.place + k for x in self.rotations if x.sign < 0 for k in range(4))

    @property
    def events(self) -> list[tuple[str, int]]:
        """The events of a period in their order."""
        return [phase.event for phase in self.phases if phase.event is not None]

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(len(phase.nodes) for phase in self.phases)


@dataclass(frozen=True)
class Part:
    """A part of the interval of a parameter, and a box for each value p there: c + c' (p - p_0) +- r.

    The unknowns are for each phase its states, then its factor, as in `proof`; a shift has the place of its
    symmetry's coordinate.
    """

    bounds: Bounds
    place: Fraction
    centre: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    radius: tuple[Fraction, ...]


@dataclass(frozen=True)
class FamilyClaim:
    """The content of a certificate of a family.

    claim      the equations, with nodes of the first part; the parameter has the bounds of all parts
    parameter  its place among the parameters
    """

    claim: Claim
    parameter: int
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return list(self.claim.parameters)[self.parameter]

    def at(self, bounds: Bounds, part: Part) -> Claim:
        """The claim with other bounds of the parameter, and numbers near the orbit of a part."""
        claim = self.claim
        starts = {x.coordinate: claim.phases[0].nodes[0][x.coordinate] for x in claim.symmetries}
        flat = [starts.get(k, x) for k, x in enumerate(part.centre)]
        phases = []
        for phase in claim.phases:
            N = len(phase.states)
            end = len(phase.nodes) * N
            nodes = tuple(tuple(flat[k : k + N]) for k in range(0, end, N))
            phases.append(replace(phase, nodes=nodes, factor=flat[end]))
            flat = flat[end + 1 :]
        symmetries = tuple(replace(x, shift=part.centre[x.coordinate]) for x in claim.symmetries)
        parameters = dict(claim.parameters) | {self.name: bounds}
        return replace(claim, parameters=parameters, phases=tuple(phases), symmetries=symmetries)


@dataclass(frozen=True)
class BifurcationClaim:
    """The content of a certificate of a flip or a fold.

    claim      the equations, with numbers near the orbit; the parameter has about its value there
    parameter  its place among the parameters
    kind       "flip" or "fold"; sign: its multiplier
    normal     l, by which the eigenvector w at the start is scaled: l . w = 1
    radius     of the box, for all unknowns
    changes    of each phase, how w moves: a row for each node
    """

    claim: Claim
    parameter: int
    kind: str
    normal: tuple[Fraction, ...]
    radius: Fraction
    changes: Changes

    @property
    def sign(self) -> int:
        return SIGNS[self.kind]

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return list(self.claim.parameters)[self.parameter]

    @property
    def value(self) -> Fraction:
        """About the value of the parameter."""
        return self.claim.parameters[self.name][0]


@dataclass(frozen=True)
class Column:
    """Numbers of motions beside an orbit whose change w_0 is one of the axes of a basin.

    changes  w at the nodes
    reach    half the widths of boxes around all unknowns of the larger system
    """

    changes: Changes
    reach: tuple[Fraction, ...]


@dataclass(frozen=True)
class BasinClaim:
    """The content of a certificate of a basin.

    claim      the content about the orbit; up to shifts, about relative states
    axes       V: starts are c + V a + s n around the first node c, with |a| <= size; a row for each state
    normal     n, across the section of the starts; None: there is none, and starts are c + V a
    thickness  an upper bound of |s|
    pieces     of the segments over which derivatives are averaged
    columns    one for each axis
    shifted    the content about all states, if there are shifts
    """

    claim: Claim
    axes: tuple[tuple[Fraction, ...], ...]
    normal: tuple[Fraction, ...] | None
    size: Fraction
    thickness: Fraction
    pieces: int
    columns: tuple[Column, ...]
    shifted: Claim | None = None


AnyClaim = Claim | FamilyClaim | BifurcationClaim | BasinClaim
