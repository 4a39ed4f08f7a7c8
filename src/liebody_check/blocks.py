"""Solutions of the linear equations of an orbit, by elimination of most unknowns.

The derivatives of the equations of an orbit by its unknowns are blocks: for each phase

    D_i d_i + g_i s - d_(i+1) = e_i,        h d_m = e,        J d_m - d_0' = e.

Steps one after the other are combined to a long one, d_L = W d_0 + U s + w, where w depends on the right
sides. Few unknowns are left, whose matrix is inverted. A box of w is kept as Q b with a box of b, and Q turns
with the motion, so that boxes do not grow by turning, in units that fit it (`_units`). All numbers are balls,
which contain all errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, arb_mat

from .claims import Refused

MOST = 240  # unknowns whose matrix is inverted, about
SAMPLES = 60  # steps, at most, that choose the units in which boxes turn
SWEEPS = 8  # over rows and columns for these units


@dataclass
class Blocks:
    """The derivatives of the equations of a phase: D_i (N, N), g_i (N, 1), h (1, N) and J (N', N)."""

    steps: list[arb_mat]
    factor: list[arb_mat]
    section: arb_mat
    jump: arb_mat

    def each(self, function: Any) -> Blocks:
        """The same of other matrices."""
        return Blocks(
            [function(x) for x in self.steps],
            [function(x) for x in self.factor],
            function(self.section),
            function(self.jump),
        )


@dataclass
class Derivatives:
    """All derivatives of the equations of an orbit.

    along   translations xi in the first phase, (N, k)
    places  states of the first node that are given, k of them; in their places among the unknowns is the
            shift s, by which the last jump changes: J d_m - d_0' - s xi
    """

    phases: list[Blocks]
    along: arb_mat
    places: Sequence[int]

    @property
    def start(self) -> int:
        """The number of states at the start."""
        return int(self.phases[0].jump.ncols())

    @property
    def size(self) -> int:
        return sum((len(x.steps) + 1) * x.jump.ncols() + 1 for x in self.phases)

    def each(self, function: Any) -> Derivatives:
        return Derivatives([x.each(function) for x in self.phases], function(self.along), self.places)

    def unknowns(self, x: arb_mat) -> Iterator[tuple[list[arb_mat], arb_mat]]:
        """The changes of all states (N, p), and of the factor (1, p), of each phase."""
        place = 0
        for k, phase in enumerate(self.phases):
            N = phase.jump.ncols()
            end = place + (len(phase.steps) + 1) * N
            states = [_rows(x, i, i + N) for i in range(place, end, N)]
            if k == 0:
                for i in self.places:
                    for j in range(x.ncols()):
                        states[0][i, j] = 0
            yield states, _rows(x, end, end + 1)
            place = end + 1

    def right_sides(self, e: arb_mat) -> Iterator[tuple[list[arb_mat], arb_mat, arb_mat]]:
        """Right sides of the steps, of the section and of the jump of each phase."""
        place = 0
        for phase in self.phases:
            N = phase.jump.ncols()
            end = place + len(phase.steps) * N
            last = end + 1 + phase.jump.nrows()
            yield (
                [_rows(e, i, i + N) for i in range(place, end, N)],
                _rows(e, end, end + 1),
                _rows(e, end + 1, last),
            )
            place = last

    def times(self, x: arb_mat, unit: int = 1) -> arb_mat:
        """The left sides for unknowns x (n, p); unit: in place of the 1 of d_(i+1) and d_0'."""
        rows: list[Any] = []
        parts = [*self.unknowns(x)]
        for k, (phase, (d, s)) in enumerate(zip(self.phases, parts)):
            for i, (D, g) in enumerate(zip(phase.steps, phase.factor)):
                rows += (D * d[i] + g * s - unit * d[i + 1]).tolist()
            following = parts[(k + 1) % len(parts)][0][0]
            jump = phase.jump * d[-1] - unit * following
            if k == len(parts) - 1 and self.places:
                jump = jump - self.along * arb_mat([[x[i, j] for j in range(x.ncols())] for i in self.places])
            rows += (phase.section * d[-1]).tolist() + jump.tolist()
        return arb_mat(rows)


def _rows(x: arb_mat, first: int, last: int) -> arb_mat:
    return arb_mat([[x[i, j] for j in range(x.ncols())] for i in range(first, last)])


def _unit(n: int) -> arb_mat:
    return arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])


def middles(x: arb_mat) -> arb_mat:
    return x.mid()


class Elimination:
    """The linear equations with the middles M of derivatives.

    from_start  the last equations are d_0 = e instead of the equations of the last jump; in the places of
                given states then stand their changes, which change nothing else
    most        unknowns of long steps, about
    """

    def __init__(self, derivatives: Derivatives, from_start: bool = False, most: int | None = None) -> None:
        self.M = derivatives.each(middles)
        self.from_start = from_start
        length = -(-self.M.size // (MOST if most is None else most))
        self.parts = [_long_steps(x, length) for x in self.M.phases]
        self.long = Derivatives(
            [
                Blocks([x.W[-1] for x in part], [x.U[-1] for x in part], phase.section, phase.jump)
                for phase, part in zip(self.M.phases, self.parts)
            ],
            self.M.along,
            self.M.places,
        )
        # an inverse Y of the few equations that are left, with the bound |1 - A Y| < 1/2 of its error
        unit = _unit(self.long.size)
        A = self.starting(self.long.times(unit), unit)
        try:
            self.Y = A.mid().inv().mid()
        except ZeroDivisionError:
            raise Refused("the derivatives of the equations are singular") from None
        E = unit - A * self.Y
        self.off = [_total([abs(E[i, j]) for j in range(E.ncols())]) for i in range(E.nrows())]
        if not all(x < 0.5 for x in self.off):
            raise Refused("the derivatives of the equations are nearly singular")

    def starting(self, rows: arb_mat, x: arb_mat) -> arb_mat:
        """Rows of the equations; `from_start` replaces the last ones by rows of the start."""
        if self.from_start:
            N = self.M.start
            for i in range(N):
                for j in range(rows.ncols()):
                    rows[rows.nrows() - N + i, j] = x[i, j]
        return rows

    def varied(self, A: Derivatives, x: arb_mat) -> arb_mat:
        """(M - A) x, for derivatives A in balls."""
        pairs = zip(self.M.phases, A.phases)
        phases = [
            Blocks(
                [a - b for a, b in zip(m.steps, other.steps)],
                [a - b for a, b in zip(m.factor, other.factor)],
                m.section - other.section,
                m.jump - other.jump,
            )
            for m, other in pairs
        ]
        rows = Derivatives(phases, self.M.along - A.along, A.places).times(x, 0)
        return self.starting(rows, x * 0)

    def _at_long_steps(self, e: arb_mat) -> tuple[arb_mat, list[list[arb_mat]]]:
        """Right sides of the long steps, which Y takes to their unknowns; and what each of them adds."""
        added, rows = [], []
        for part, (steps, section, jump) in zip(self.parts, self.M.right_sides(e)):
            place = 0
            for one in part:
                added.append(one.added(steps[place : place + len(one.W) - 1]))
                rows += (-added[-1][-1]).tolist()
                place += len(one.W) - 1
            rows += section.tolist() + jump.tolist()
        # A^-1 = Y (1 - E)^-1 with E = 1 - A Y, and |(1 - E)^-1 e - e| <= 2 |E| max |e| where |E| < 1/2
        p = e.ncols()
        most = [_most([row[j] for row in rows]) for j in range(p)]
        right = [[x + arb(0, 2 * off * m) for x, m in zip(row, most)] for row, off in zip(rows, self.off)]
        return arb_mat(right), added

    def at_end(self, C: arb_mat, e: arb_mat) -> arb_mat:
        """C times the last node of the solutions; errors that cancel in the product do not widen it."""
        n, M = self.Y.nrows(), C.ncols()
        right, _ = self._at_long_steps(e)
        return C * _rows(self.Y, n - 1 - M, n - 1) * right

    def solve(self, e: arb_mat) -> arb_mat:
        """Balls (n, p) with the solution for each right side in balls (n, p)."""
        right, added = self._at_long_steps(e)
        p = e.ncols()
        y = self.Y * right
        # back from the ends of long steps to the states between
        found = []
        further = iter(added)
        for part, (d, s) in zip(self.parts, self.long.unknowns(y)):
            for k, one in enumerate(part):
                inner = [d[k], *one.states(d[k], s, next(further))]
                found += [row for x in inner for row in x.tolist()]
            found += d[-1].tolist() + s.tolist()
        for i in self.M.places:
            found[i] = [y[i, j] for j in range(p)]
        return arb_mat(found)


@dataclass
class _LongStep:
    """Steps one after the other: behind i of them d_i = W_i d_0 + U_i s + Q_i b_i.

    P, T  Q_i^-1, and Q_(i+1)^-1 D_i Q_i, where b_i is not zero
    """

    W: list[arb_mat]
    U: list[arb_mat]
    Q: list[arb_mat]
    P: list[arb_mat]
    T: list[arb_mat]

    def added(self, e: list[arb_mat]) -> list[arb_mat]:
        """Q_i b_i behind each step, for right sides of the steps."""
        b = -e[0]
        found = [b]
        for Q, P, T, right in zip(self.Q[1:], self.P[1:], self.T, e[1:]):
            b = T * b - P * right
            found.append(Q * b)
        return found

    def states(self, d: arb_mat, s: arb_mat, added: list[arb_mat]) -> list[arb_mat]:
        """All states between the start and the end."""
        return [W * d + U * s + w for W, U, w in zip(self.W[1:-1], self.U[1:-1], added)]


def _long_steps(phase: Blocks, length: int) -> list[_LongStep]:
    found = []
    S = _units(phase.steps)
    for first in range(0, len(phase.steps), length):
        D = phase.steps[first : first + length]
        g = phase.factor[first : first + length]
        unit = _unit(D[0].ncols())
        W, U, Q, P, T = [unit, D[0]], [g[0] * 0, g[0]], [unit], [unit], []
        for step, rate in zip(D[1:], g[1:]):
            # one step more: products of all steps so far, and axes Q that turn with them
            W.append(step * W[-1])
            U.append(step * U[-1] + rate)
            turned = step * Q[-1]
            Q.append(_directions(turned, S))
            P.append(Q[-1].inv())
            T.append(P[-1] * turned)
        found.append(_LongStep(W, U, Q, P, T))
    return found


def _directions(D: arb_mat, S: list[float]) -> arb_mat:
    """S times about the orthogonal factor of S^-1 D (Gram, Schmidt); S for dependent columns.

    S  powers of two, a diagonal matrix
    """
    columns: list[list[Any]] = []
    n = D.ncols()
    for j in range(n):
        x = [D[i, j].mid() / S[i] for i in range(n)]
        for _ in range(2):
            for y in columns:
                inner = _total([a * b for a, b in zip(x, y)]).mid()
                x = [(a - inner * b).mid() for a, b in zip(x, y)]
        size = _total([a * a for a in x]).sqrt().mid()
        if not size > arb(2) ** -90:
            return arb_mat([[S[i] if i == j else 0 for j in range(n)] for i in range(n)])
        columns.append([(a / size).mid() for a in x])
    return arb_mat([[columns[j][i] * S[i] for j in range(n)] for i in range(n)])


def _units(steps: list[arb_mat]) -> list[float]:
    """Powers of two S that make rows and columns of |S^-1 (D - 1) S| about equally large, for some steps D.

    Each row is balanced with its column (Osborne 1960). Velocities change much more with places than places
    with velocities, and right angles between axes mean little in units that do not fit.
    """
    n = steps[0].ncols()
    some = steps[:: -(-len(steps) // SAMPLES)]
    size = [[sum(abs(float(D[i, j].mid())) for D in some) for j in range(n)] for i in range(n)]
    S = [1.0] * n
    for _ in range(SWEEPS):
        for i in range(n):
            row = sum(size[i][j] * S[j] for j in range(n) if j != i) / S[i]
            column = sum(size[j][i] / S[j] for j in range(n) if j != i) * S[i]
            if row > 0 and column > 0:
                S[i] *= 2.0 ** round(math.log2(row / column) / 2)
    return S


def _total(terms: list[Any]) -> Any:
    return sum(terms, arb(0))


def _most(terms: list[Any]) -> Any:
    """An upper bound of absolute values."""
    most = arb(0)
    for x in terms:
        most = most.max(x.abs_upper())
    return most
