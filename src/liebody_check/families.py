"""The proof of a family: Krawczyk's inequality for boxes that move with a parameter p.

On a part of the interval of p, the box of the unknowns z has the centre c(p) = c + c' (p - p_0) and the
radius r. Let A contain the derivatives of F by z at all points of all boxes of the part, and T the
derivatives of F(c(p), p) by p, with p_0 in the part. By the mean value theorem F(c(p), p) lies in F(c, p_0) +
T (p - p_0). So, if

    |M^-1 (F(c, p_0) + T (p - p_0) - (M - A) [-r, r])| <= e < r

for some regular matrix M, then F(., p) has exactly one zero in the box, it lies in c(p) +- e, and the
matrices in A are regular (Krawczyk 1969). The zero is then a smooth function of p. Where two parts meet, the
zero of one must lie in the box of the other one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from flint import arb, arb_mat

from .blocks import Elimination
from .claims import FamilyClaim, Part, Refused
from .closing import must_close
from .motions import Steps
from .numbers import Ball, around, ball
from .proof import (
    Equations,
    Found,
    is_least,
    multipliers_of,
    no_other_events,
    precise_proof,
    sum_of,
)
from .symmetries import must_be_symmetries
from .words import theorem_of_family


@dataclass
class ProvedPart:
    """The theorem on a part, with balls for all values of the parameter there.

    reach      the zero lies in c(p) +- reach
    period     the time of the orbit, and the times of its phases
    start      its first state
    stable     all orbits are stable, or all unstable; None: not decided
    modulus    an upper bound of the moduli of all multipliers; None: none is known
    """

    part: Part
    reach: list[Ball]
    period: Ball
    durations: list[Ball]
    start: list[Ball]
    stable: bool | None
    modulus: Ball | None
    least: bool

    def box(self, p: Fraction) -> list[Ball]:
        """Where the zero is at a value of the parameter."""
        away = ball(p - self.part.place)
        parts = zip(self.part.centre, self.part.slopes, self.reach)
        return [ball(c) + ball(s) * away + arb(0, e) for c, s, e in parts]


@dataclass
class FamilyProof:
    """The theorem about a family, part by part; by: the program of the steps, "Python" or "C"."""

    claim: FamilyClaim
    parts: list[ProvedPart]
    by: str
    theorem: str = field(default="", repr=False)

    @property
    def stable_parts(self) -> list[bool | None]:
        return [part.stable for part in self.parts]

    @property
    def stable(self) -> bool | None:
        """Whether all orbits are stable, or all unstable."""
        states = set(self.stable_parts)
        return states.pop() if len(states) == 1 else None


def prove_family_again(claim: FamilyClaim, steps: Steps) -> FamilyProof:
    """The proof of a claim, with its steps by a program; Refused where a part of it fails."""
    return precise_proof(lambda: _family(claim, steps))


def _family(claim: FamilyClaim, steps: Steps) -> FamilyProof:
    must_be_symmetries(claim.claim)
    must_close(claim.claim)
    parts: list[ProvedPart] = []
    for k, part in enumerate(claim.parts):
        try:
            parts.append(_part(claim, part, steps))
        except Refused as error:
            raise Refused(f"part {k + 1} of {len(claim.parts)}: {error}") from None
        if k:
            _must_be_linked(parts[-2], parts[-1], part.bounds[0])
    proof = FamilyProof(claim, parts, steps.language)
    proof.theorem = theorem_of_family(proof)
    return proof


def _part(claim: FamilyClaim, part: Part, steps: Steps) -> ProvedPart:
    """The proof on a part of the interval."""
    equations = _Moving(claim, part, steps)
    c = [ball(x) for x in part.centre]
    slopes = [ball(x) for x in part.slopes]
    radius = [ball(x) for x in part.radius]
    n = len(c)
    # p - p_0 and c(p) for all p of the part
    away = around((part.bounds[0] - part.place, part.bounds[1] - part.place))
    path = [a + s * away for a, s in zip(c, slopes)]
    # F at (c, p_0), its slope along c(p), and its derivatives by z in all boxes
    at_place = Equations(claim.at((part.place, part.place), part), steps)
    F = at_place.residual(c)
    T = equations.along(path, slopes)
    A = equations.derivatives(path, radius)
    linear = Elimination(A)
    # Krawczyk's inequality, as above; `reach` is e
    moved = arb_mat(n, 1, [a + b * away for a, b in zip(F, T)])
    image = linear.solve(linear.varied(A, arb_mat(n, 1, [arb(0, r) for r in radius])) - moved)
    reach = [image[k, 0].abs_upper() for k in range(n)]
    if not all(e < r for e, r in zip(reach, radius)):
        raise Refused("Krawczyk's inequality does not hold: no orbit is proved in the moving box")
    found = Found([x + arb(0, e) for x, e in zip(path, reach)], A)
    # events and multipliers, for the orbits of all p at once
    stretches = equations.stretches(found.box)
    no_other_events(equations, stretches)
    durations = [sum_of(one.times) for one in stretches]
    multipliers, modulus = multipliers_of(equations, found)
    bounds = [] if modulus is None else [modulus]
    if multipliers is not None:
        largest = arb(0)
        for x in multipliers:
            largest = largest.max(abs(x))
        bounds.append(largest.abs_upper())
        unstable = bool(largest > 1)
    else:
        unstable = False
    size = min(bounds, key=float) if bounds else None
    stable = True if size is not None and size < 1 else False if unstable else None
    return ProvedPart(
        part,
        reach,
        equations.period_of(durations),
        durations,
        stretches[0].x[0],
        stable,
        size,
        is_least(equations, stretches),
    )


def _must_be_linked(one: ProvedPart, other: ProvedPart, p: Fraction) -> None:
    """Refused unless the zero of one part is in the box of the other, at the value where they meet."""
    for a, b in ((one, other), (other, one)):
        away = ball(p - b.part.place)
        centre = [ball(c) + ball(s) * away for c, s in zip(b.part.centre, b.part.slopes)]
        if all(abs(z - c) <= ball(r) for z, c, r in zip(a.box(p), centre, b.part.radius)):
            return
    raise Refused("the orbits of two parts are not seen to be the same one where the parts meet")


class _Moving(Equations):
    """F for all values of the parameter in a part."""

    def __init__(self, claim: FamilyClaim, part: Part, steps: Steps) -> None:
        super().__init__(claim.at(part.bounds, part), steps)
        self.rates = replace(self.known, moving=claim.parameter)

    def along(self, path: list[Ball], slopes: list[Ball]) -> list[Ball]:
        """T: derivatives of F(c(p), p) by p, for c(p) in a path and its slopes."""
        T: list[Ball] = []
        still = self.known
        parts = [*self.split(path)]
        rates = [*self.split_slopes(slopes)]
        for k, ((phase, x, factor), (dx, ds)) in enumerate(zip(parts, rates)):
            after = rates[(k + 1) % len(rates)][0][0]
            starts = [[[a, d] for a, d in zip(*rows)] for rows in zip(x[:-1], dx[:-1])]
            times = [factor * ball(w) for w in phase.durations]
            # a step's end moves by dx, and by ds through its duration; the node behind it by `behind`
            ends = self.steps.ends(phase, self.rates, starts, times)
            for (end, rate), w, behind in zip(ends, phase.durations, dx[1:]):
                moved = [a[1] + f * ball(w) * ds for a, f in zip(end, rate)]
                T += [a - d for a, d in zip(moved, behind)]
            last = [[a, d] for a, d in zip(x[-1], dx[-1])]
            # sections and jumps depend on p, too: `rates` counts its change
            self.known = self.rates
            T.append(self.value(phase.section, last)[0][1])
            T += [a[1] - d for a, d in zip(self.jump(phase, last), after)]
            self.known = still
        N = len(rates[0][0][0])
        for symmetry in self.claim.symmetries:
            xi = [ball(x) * slopes[symmetry.coordinate] for x in symmetry.along[0]]
            T[-N:] = [a - b for a, b in zip(T[-N:], xi)]
        return T

    def split_slopes(self, slopes: list[Ball]) -> Any:
        """Slopes of the states and of the factor of each phase: a given coordinate stays."""
        flat = list(slopes)
        for symmetry in self.claim.symmetries:
            flat[symmetry.coordinate] = arb(0)
        place = 0
        for phase in self.claim.phases:
            N = len(phase.states)
            end = place + len(phase.nodes) * N
            yield [flat[k : k + N] for k in range(place, end, N)], flat[end]
            place = end + 1
