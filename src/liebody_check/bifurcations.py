"""The proof of a flip or a fold: one value of a parameter p at which an orbit has the multiplier -1, or 1.

A larger system (`larger`) has the states y, the parameter p and a change w of y. It closes with w_0 = s w+
behind the last phase, s = 1 for a fold and -1 for a flip, and p_0 = p + l . w_0 - 1. A closed orbit of it is
an orbit at p, an eigenvector w_0 of the return map's derivative with the eigenvalue s, and l . w_0 = 1. Along
symmetries, w+ is taken without its part xi w+_j.

F is affine in the w of all nodes. So F(z2) - F(z1) is a matrix of A times z2 - z1 also where the w of z2 are
anywhere: the matrix has derivatives by w at z2, and mean derivatives by the others with the w of z1. As all
matrices of A are regular, no other orbit with this multiplier has its nodes, factors and p in the box.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flint import arb

from .claims import BifurcationClaim, Claim
from .larger import larger_claim
from .motions import Steps
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
from .symmetries import must_be_symmetries
from .words import theorem_of_bifurcation


@dataclass
class BifurcationProof:
    """The theorem about a flip or a fold, in balls.

    value        of the parameter
    period       the time of the orbit there, and the times of its phases
    start        its first state
    direction    the eigenvector w_0
    multipliers  of the return map, as complex balls; None where they were not separated
    by           the program of the steps: "Python" or "C"
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
    by: str
    theorem: str = field(default="", repr=False)

    @property
    def others(self) -> list[Any] | None:
        """The multipliers beside 1 or -1 of the bifurcation; None where several may have this value."""
        if self.multipliers is None:
            return None
        sign = self.claim.sign
        here = [x for x in self.multipliers if x.overlaps(sign)]
        return [x for x in self.multipliers if not x.overlaps(sign)] if len(here) == 1 else None


def prove_bifurcation_again(claim: BifurcationClaim, steps: Steps) -> BifurcationProof:
    """The proof of a claim; Refused where a step of it fails."""
    return precise_proof(lambda: _proof(claim, steps))


def for_all_values(claim: BifurcationClaim) -> Claim:
    """The claim about the orbit, with bounds of the parameter in place of its value in the certificate.

    The orbit exists at another value. A property that holds at the certificate's value alone, such as
    a symmetry of (p - value) y, must not count.
    """
    low, high = claim.value - claim.radius, claim.value + claim.radius
    return replace(claim.claim, parameters={**claim.claim.parameters, claim.name: (low, high)})


def _proof(claim: BifurcationClaim, steps: Steps) -> BifurcationProof:
    alone = for_all_values(claim)
    must_be_symmetries(alone)
    larger = Equations(larger_claim(alone, claim.changes, claim), steps)
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
    equations = Equations(alone, steps)
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
        steps.language,
    )
    proof.theorem = theorem_of_bifurcation(proof)
    return proof
