"""The proof of a basin: starts around an orbit from which every motion converges to it.

Starts x = c + V a, |a| <= rho, lie around the first node c. With w_0 = V_j, a column of V, the larger system
(`larger`) has the equations F = 0, where the last rows say that the start is (x, V_j). If

    rho |(M^-1 V)_k| + |M^-1 ((M - A) [-r, r] - F(c))| < r        in each row k,

with the derivatives A in the box c +- r, then they have one solution in it for each x, by Krawczyk (1969).
It is c + M^-1 V a + e, and e is bounded by the second term. The return map P is then defined for all x, and
V^-1 DP(x) V_j lies in b_j + T_j a + [-e_j, e_j]. From the start x* of the orbit to x, the mean of a is the a
in their middle, and the mean of |a| is at most the mean of its values at both ends, so that

    |V^-1 (P(x) - x*)| <= kappa |V^-1 (x - x*)|,     kappa = |b| + |T| (rho + d) / 2 + |e|,

with d = |V^-1 (x* - c)|. If kappa < 1 and kappa (rho + d) + d <= rho, the starts are mapped into themselves.
If there is no other event in the boxes, P is the return map of the motion, and all motions converge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flint import arb, arb_mat

from .blocks import Elimination
from .larger import larger_claim
from .motions import Steps
from .numbers import Ball, ball
from .proof import (
    Equations,
    Proof,
    by_powers,
    is_zero_again,
    no_other_events,
    precise_proof,
    proof_of_orbit,
    sum_of,
    with_unit,
)
from .reading import BasinClaim, Refused
from .words import theorem_of_basin

MOST = 600  # unknowns whose matrix is inverted: long steps would widen the terms of second order


@dataclass
class BasinProof:
    """The theorem about a basin, as bounds.

    orbit        the proof of the orbit
    contraction  an upper bound of kappa
    inside       all starts within this distance of the first node, in the section, are among the set: a lower
                 bound of rho over |V^-1|
    zero         names of the guards that are zero at the starts
    by           the program of the steps: "Python" or "C"
    """

    claim: BasinClaim
    orbit: Proof
    contraction: Ball
    inside: Ball
    zero: list[str]
    by: str
    theorem: str = field(default="", repr=False)


def prove_basin_again(claim: BasinClaim, steps: Steps) -> BasinProof:
    """The proof of a claim; Refused where a step of it fails."""
    return precise_proof(lambda: _proof(claim, steps))


def _proof(claim: BasinClaim, steps: Steps) -> BasinProof:
    alone = claim.claim
    orbit = proof_of_orbit(alone, steps)
    last = alone.phases[-1]
    N = len(alone.phases[0].states)
    kept = [k for k in range(N) if k != last.coordinate]
    inverse = arb_mat([[ball(x) for x in claim.axes[k]] for k in kept]).inv()
    motions = [_Motions(claim, j, steps) for j in range(len(kept))]
    for one in motions:
        one.must_contain(orbit)
    # events, in the boxes of the first column
    equations = Equations(alone, steps)
    no_other_events(equations, equations.stretches(motions[0].states_alone()))
    # the return map
    b, T, e = [], [], []
    for one in motions:
        behind, slopes = one.behind()
        rows = [N + k for k in kept]
        turned = inverse * arb_mat([slopes[i] for i in rows])
        b.append((inverse * arb_mat([[behind[i]] for i in rows])).entries())
        T.append(turned * one.moved_at_end())
        errors = one.errors_at_end()
        e.append([sum_of([abs(turned[i, m]) * r for m, r in enumerate(errors)]) for i in range(len(kept))])
    k = len(kept)
    rho = ball(claim.size)
    away = inverse * arb_mat([[orbit.nodes[0][i] - ball(alone.phases[0].nodes[0][i])] for i in kept])
    d = _length(away.entries())
    slope = arb_mat([[b[j][i] for j in range(k)] for i in range(k)])
    second = arb_mat([[T[j][i, m] for j in range(k) for m in range(k)] for i in range(k)])
    kappa = _norm(slope) + _norm(second) * (rho + d) / 2 + _length([x for row in e for x in row])
    kappa = kappa.abs_upper()
    if not (kappa < 1 and kappa * (rho + d) + d <= rho):
        raise Refused("the return map is not seen to contract the starts to the orbit")
    zero = [x.name for x in alone.phases[0].guards if is_zero_again(alone, last, x)]
    inside = (rho / _norm(inverse)).abs_lower()
    proof = BasinProof(claim, orbit, kappa, inside, zero, steps.language)
    proof.theorem = theorem_of_basin(proof)
    return proof


class _Motions:
    """Motions of the larger system from all starts, with w_0 = V_j; Refused where they are not proved."""

    def __init__(self, claim: BasinClaim, j: int, steps: Steps) -> None:
        self.claim = claim
        column = claim.columns[j]
        N = len(claim.axes)
        if any(column.changes[0][0][i] != claim.axes[i][j] for i in range(N)):
            raise Refused("the change at the start is no axis")
        self.larger = larger_claim(claim.claim, column.changes)
        equations = self.equations = Equations(self.larger, steps)
        c = [
            ball(x)
            for phase in self.larger.phases
            for x in [*(x for row in phase.nodes for x in row), phase.factor]
        ]
        reach = [ball(r) for r in column.reach]
        n, k = len(c), len(claim.axes[0])
        F = arb_mat(n, 1, [*equations.residual(c)[: n - 2 * N], *[0] * (2 * N)])
        A = equations.derivatives(c, reach)
        linear = Elimination(A, from_start=True, most=MOST)
        right = arb_mat(n, k)
        for i in range(N):
            for m in range(k):
                right[n - 2 * N + i, m] = ball(claim.axes[i][m])
        self.moved = linear.solve(right)
        varied = linear.varied(A, arb_mat(n, 1, [arb(0, r) for r in reach]))
        error = linear.solve(varied - F)
        self.error = [error[i, 0].abs_upper() for i in range(n)]
        rho = ball(claim.size)
        for i, r in enumerate(reach):
            least = rho * _length([self.moved[i, m] for m in range(k)])
            if not least + self.error[i] < r:
                raise Refused("motions from the starts are not seen to stay in their boxes")
        self.centre = c
        self.box = [x + arb(0, r) for x, r in zip(c, reach)]

    def must_contain(self, orbit: Proof) -> None:
        """Refused unless the orbit is in the boxes.

        Then the motions that each column proves are the same: from x* it is the orbit, and solutions that are
        the only ones in their boxes stay together while x moves.
        """
        nodes = iter(orbit.nodes)
        known: list[Ball] = []
        for phase, duration in zip(self.claim.claim.phases, orbit.durations):
            known += [x for _ in phase.nodes for x in next(nodes)]
            known.append(duration / sum_of([ball(w) for w in phase.durations]))
        if not all(a.contains(b) for a, b in zip(self.states_alone(), known)):
            raise Refused("the orbit is not in the boxes of the motions beside it")

    def states_alone(self) -> list[Ball]:
        """The boxes of the orbit's own unknowns."""
        box: list[Ball] = []
        for phase, (_, x, factor) in zip(self.claim.claim.phases, self.equations.split(self.box)):
            N = len(phase.states)
            box += [*(b for row in x for b in row[:N]), factor]
        return box

    def behind(self) -> tuple[list[Ball], list[list[Ball]]]:
        """The state behind the last jump from the last node, and derivatives by it in the box."""
        phase = self.larger.phases[-1]
        *_, (_, centre, _) = self.equations.split(self.centre)
        *_, (_, box, _) = self.equations.split(self.box)
        values = [row[0] for row in self.equations.jump(phase, [[x] for x in centre[-1]])]
        slopes = [row[1:] for row in self.equations.jump(phase, with_unit(box[-1]))]
        return values, slopes

    def _end(self) -> range:
        """The places of the last node, before the factor of its phase."""
        n = len(self.centre)
        return range(n - 1 - len(self.larger.phases[-1].states), n - 1)

    def moved_at_end(self) -> arb_mat:
        return arb_mat([[self.moved[i, m] for m in range(self.moved.ncols())] for i in self._end()])

    def errors_at_end(self) -> list[Any]:
        return [self.error[i] for i in self._end()]


def _length(x: list[Ball]) -> Ball:
    """An upper bound of the Euclidean length."""
    return sum_of([a.abs_upper() ** 2 for a in x]).sqrt().abs_upper()


def _norm(M: arb_mat) -> Ball:
    """An upper bound of the spectral norm: |M| <= |M_0| + |E|, and |M_0|^2 = |M_0 M_0'| of the middle."""
    middle = M.mid()
    square = by_powers(middle * middle.transpose())
    if square is None:
        raise Refused("a norm is not bounded")
    return (square.sqrt() + _length([x.rad() for x in M.entries()])).abs_upper()
