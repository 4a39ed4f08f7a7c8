"""The proof of a basin: starts around an orbit from which every motion converges to it.

*Starts* x = c + V a + s n, |a| <= rho, lie around the first node c in the section g = 0, where n is no change
within the section. Let G contain D g for all |s| <= Sigma. If G n is not zero, and

    sigma = (|g(c)| + |G V| rho) / |G n| <= Sigma,        tau_j = |G V_j| / |G n|,

then there is one start for each a, with |s| <= sigma and |ds/da_j| <= tau_j. Where an event is no section of
the starts, V spans all states and there is no n. Let (L, l) be the inverse of (V, n), so that a = L (x - c).

*Motions*. With the change w_0 = V_j + (ds/da_j) n, the larger system (`larger`) has the equations F = 0,
where the last rows say that the start is (x, w_0). Let A_i contain their derivatives in the box
c +- (i/K) r. By the mean value theorem F(c + d) = F(c) + A d, with A in the mean of A_1, ..., A_i if
|d| <= (i/K) r. If

    rho_i |(M^-1 V)_k| + |M^-1 (mean (M - A) (i/K) [-r, r] - F(c) + [start])| < (i/K) r     in each row k,

then they have a solution in this box for each |a| <= rho_i (Brouwer), which is c + M^-1 V a + e, with e
bounded by the second term; [start] is the box of s n and (ds/da_j) n. It is the only one in the largest box,
and smooth, if |M^-1 (M - A_K)| v < v for some v > 0, because all matrices in A_K are regular then.

*The return map* P is then defined for all x, and L DP(x) w_0 is in b_j + T_j a + [-e_ij, e_ij]. The straight
way in a from the start x* of the orbit to x is within rho_i = d + rho i / K up to its part i/K, where
d = |L (x* - c)|; its mean of a is the a in the middle. So

    |L (P(x) - x*)| <= kappa |L (x - x*)|,        kappa = |b| + |T| (rho + d) / 2 + mean |e_i|.

If kappa < 1 and kappa (rho + d) + d <= rho, the starts are mapped into themselves: P(x) is in the section,
since g is zero again behind the last jump. If there is no other event in the boxes, P is the return map of
the motion, and all motions converge.

For orbits up to shifts all of this is about relative states (`relative`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flint import arb, arb_mat

from .blocks import Derivatives, Elimination
from .claims import BasinClaim, Refused
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
from .symmetries import must_be_symmetries
from .words import theorem_of_basin

MOST = 600  # unknowns whose matrix is inverted: long steps would widen the terms of second order
TRIES = 24  # vectors v


@dataclass
class BasinProof:
    """The theorem about a basin, as bounds.

    orbit        the proof of the orbit
    contraction  an upper bound of kappa
    inside       all starts within this distance of the first node are among the set: a lower bound of the
                 lesser of rho / |L| and Sigma / |l|
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
    if claim.shifted is not None:
        must_be_symmetries(claim.shifted)
    alone = claim.claim
    orbit = proof_of_orbit(alone, steps)
    equations = Equations(alone, steps)
    starts = _Starts(claim, equations)
    d = starts.must_contain(orbit.nodes[0])
    motions = [_Motions(claim, j, starts, d, steps) for j in range(len(claim.columns))]
    for one in motions:
        one.must_contain(orbit)
    # events, in the boxes of the first column
    no_other_events(equations, equations.stretches(motions[0].states_alone()))
    starts.must_be_met_by(motions[0].returns())
    # the return map
    parts = [one.slope_of_return_map() for one in motions]
    k = len(parts)
    rho = ball(claim.size)
    b = arb_mat([[parts[j].b[i, 0] for j in range(k)] for i in range(k)])
    T = arb_mat([[parts[j].T[i, m] for j in range(k) for m in range(k)] for i in range(k)])
    e = [_length([x for part in parts for x in part.e[i]]) for i in range(claim.pieces)]
    kappa = (_norm(b) + _norm(T) * (rho + d) / 2 + sum_of(e) / claim.pieces).abs_upper()
    if not (kappa < 1 and kappa * (rho + d) + d <= rho):
        raise Refused("the return map is not seen to contract the starts to the orbit")
    proof = BasinProof(claim, orbit, kappa, starts.inside, starts.zero, steps.language)
    proof.theorem = theorem_of_basin(proof)
    return proof


class _Starts:
    """The set of starts; Refused unless it has one start for each a.

    L, l       take x - c to a and to s; l is None where there is no n
    inside     see `BasinProof`
    zero       the same
    thickness  an upper bound of |s|
    """

    def __init__(self, claim: BasinClaim, equations: Equations) -> None:
        first, last = claim.claim.phases[0], claim.claim.phases[-1]
        self.claim = claim
        self.centre = [ball(x) for x in first.nodes[0]]
        V = self.V = arb_mat([[ball(x) for x in row] for row in claim.axes])
        again = [x for x in first.guards if is_zero_again(claim.claim, last, x)]
        self.zero = [x.name for x in again]
        rho, most = ball(claim.size), ball(claim.thickness)
        if claim.normal is None:
            self.L, self.l = V.inv(), None
            self.inside = (rho / _norm(self.L)).abs_lower()
            return
        self.n = [ball(x) for x in claim.normal]
        inverse = arb_mat([[*row, x] for row, x in zip(V.tolist(), self.n)]).inv()
        self.L, self.l = arb_mat(inverse.tolist()[:-1]), arb_mat(inverse.tolist()[-1:])
        self.inside = (rho / _norm(self.L)).abs_lower().min((most / _norm(self.l)).abs_lower())
        if last.coordinate is None and not again:
            raise Refused("no guard is zero again behind the last jump: starts have no section")
        self.section = last.section if last.coordinate is not None else again[0].function
        self.equations = equations
        self.thickness = most
        s, _ = self._around(rho)
        if not s <= most:
            raise Refused("the section is not seen to be as thin as claimed")
        self.thickness = s

    def boxes(self, reach: Ball) -> list[list[Ball]]:
        """For each column j, the boxes of s n and (ds/da_j) n together, for |a| <= reach."""
        N, k = self.V.nrows(), self.V.ncols()
        if self.l is None:
            return [[arb(0)] * (2 * N)] * k
        s, slopes = self._around(reach)
        return [[arb(0, abs(x * r)) for r in (s.min(self.thickness), t) for x in self.n] for t in slopes]

    def _around(self, reach: Ball) -> tuple[Ball, list[Ball]]:
        """Bounds of |s| and of |ds/da_j| for |a| <= reach, where |s| is known to be at most `thickness`."""
        V, n = self.V, self.n
        N, k = V.nrows(), V.ncols()
        sizes = [reach * _length([V[i, j] for j in range(k)]) + self.thickness * abs(n[i]) for i in range(N)]
        box = [x + arb(0, r) for x, r in zip(self.centre, sizes)]
        value = self.equations.value(self.section, [[x] for x in self.centre])[0][0]
        slope = arb_mat([self.equations.value(self.section, with_unit(box))[0][1:]])
        across = (slope * arb_mat(N, 1, n))[0, 0]
        if across.overlaps(0):
            raise Refused("the normal of the section may lie in it")
        along = [(x / across).abs_upper() for x in (slope * V).entries()]
        return ((value / across).abs_upper() + _length(along) * reach).abs_upper(), along

    def must_contain(self, start: list[Ball]) -> Ball:
        """|L (x* - c)| for the start of the orbit."""
        self.must_be_met_by(start)
        return _length((self.L * self._from_centre(start)).entries())

    def must_be_met_by(self, x: list[Ball]) -> None:
        """Refused unless |s| <= Sigma for a box of states."""
        if self.l is not None:
            (s,) = (self.l * self._from_centre(x)).entries()
            if not s.abs_upper() <= ball(self.claim.thickness):
                raise Refused("motions are not seen to return as near to the section as claimed")

    def _from_centre(self, x: list[Ball]) -> arb_mat:
        return arb_mat([[a - b] for a, b in zip(x, self.centre)])


@dataclass
class _Slope:
    """L DP(x) w_0 is within b + T a +- e[i] for |a| <= rho_i."""

    b: arb_mat
    T: arb_mat
    e: list[list[Ball]]


class _Motions:
    """Motions of the larger system from all starts, with w_0 of a column; Refused where they are not proved.

    errors  right sides whose solution bounds e, for each rho_i
    total   bounds of |d| for each rho_i
    """

    def __init__(self, claim: BasinClaim, j: int, starts: _Starts, d: Ball, steps: Steps) -> None:
        self.claim = claim
        self.L = starts.L
        column = claim.columns[j]
        N, k, K = len(claim.axes), len(claim.axes[0]), claim.pieces
        if any(column.changes[0][0][i] != claim.axes[i][j] for i in range(N)):
            raise Refused("the change at the start is no axis")
        self.larger = larger_claim(claim.claim, column.changes)
        equations = self.equations = Equations(self.larger, steps)
        c = self.centre = [
            ball(x)
            for phase in self.larger.phases
            for x in [*(x for row in phase.nodes for x in row), phase.factor]
        ]
        n = len(c)
        self.radii = [[ball(r * i / K) for r in column.reach] for i in range(1, K + 1)]
        missed = [-x for x in equations.residual(c)[: n - 2 * N]]
        A = [equations.derivatives(c, r) for r in self.radii]
        self.linear = Elimination(A[0], from_start=True, most=MOST)
        _must_be_regular(self.linear, A[-1], self.radii[-1])
        right = arb_mat(n, k)
        for i in range(N):
            for m in range(k):
                right[n - 2 * N + i, m] = ball(claim.axes[i][m])
        self.moved = self.linear.solve(right)
        rows = [_length([self.moved[i, m] for m in range(k)]) for i in range(n)]
        self.errors: list[arb_mat] = []
        self.total: list[list[Ball]] = []
        rho = ball(claim.size)
        for i, radii in enumerate(self.radii, 1):
            away = arb_mat(n, 1, [arb(0, r) for r in radii])
            varied = [self.linear.varied(x, away) for x in A[:i]]
            reach = rho.min(d + rho * i / K)
            fixed = arb_mat(n, 1, [*missed, *starts.boxes(reach)[j]])
            right = sum(varied[1:], varied[0]) * (arb(1) / i) + fixed
            total = [(reach * x + e.abs_upper()).abs_upper() for x, e in zip(rows, self._solved(right))]
            if not all(x < r for x, r in zip(total, radii)):
                raise Refused("motions from the starts are not seen to stay in their boxes")
            self.errors.append(right)
            self.total.append(total)
        self.box = [x + arb(0, r) for x, r in zip(c, self.radii[-1])]

    def _solved(self, right: arb_mat) -> list[Ball]:
        return list(self.linear.solve(right).entries())

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

    def returns(self) -> list[Ball]:
        """The box of states behind the last jump."""
        return self._behind(self.box)[0][: len(self.claim.axes)]

    def slope_of_return_map(self) -> _Slope:
        N = len(self.claim.axes)
        values, at_centre = self._behind(self.centre)
        C = self.L * at_centre
        T = C * arb_mat([[self.moved[i, m] for m in range(self.moved.ncols())] for i in self._end()])
        # how far L times the jump's derivatives are from those at c, in each box
        apart = []
        for radii in self.radii:
            box = [x + arb(0, r) for x, r in zip(self.centre, radii)]
            apart.append(self.L * (self._behind(box)[1] - at_centre))
        e = []
        for i, (right, total) in enumerate(zip(self.errors, self.total), 1):
            at_end = [total[m] for m in self._end()]
            row = [x.abs_upper() for x in self.linear.at_end(C, right).entries()]
            for D in apart[:i]:
                more = [sum_of([abs(D[m, q]) * r for q, r in enumerate(at_end)]) for m in range(len(row))]
                row = [x + y / i for x, y in zip(row, more)]
            e.append(row)
        return _Slope(self.L * arb_mat([[x] for x in values[N:]]), T, e)

    def _behind(self, z: list[Ball]) -> tuple[list[Ball], arb_mat]:
        """The state and change behind the last jump, and derivatives of the change by the last node."""
        phase = self.larger.phases[-1]
        *_, (_, x, _) = self.equations.split(z)
        rows = self.equations.jump(phase, with_unit(x[-1]))
        return [row[0] for row in rows], arb_mat([row[1:] for row in rows[len(self.claim.axes) :]])

    def _end(self) -> range:
        """The places of the last node, before the factor of its phase."""
        n = len(self.centre)
        return range(n - 1 - len(self.larger.phases[-1].states), n - 1)


def _must_be_regular(linear: Elimination, A: Derivatives, v: list[Ball]) -> None:
    """Refused unless |M^-1 (M - A)| v < v for some v > 0, so that all matrices in A are regular.

    Vectors v are sums of a geometric series of |M^-1 (M - A)|.
    """
    first, n = v, len(v)
    for _ in range(TRIES):
        image = linear.solve(linear.varied(A, arb_mat(n, 1, [arb(0, r) for r in v])))
        sizes = [x.abs_upper() for x in image.entries()]
        if all(x < r for x, r in zip(sizes, v)):
            return
        v = [(a + x / 0.97).abs_upper() for a, x in zip(first, sizes)]
    raise Refused("motions from the starts are not seen to be the only ones in their boxes")


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
