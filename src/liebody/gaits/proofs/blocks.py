"""Elimination by blocks: bounds of solutions of the linear equations of an orbit, in linear time.

The equations of `system` have the derivatives

    D_i d_i + g_i s - d_(i+1) = e_i        steps of a phase, with its factor s
    h d_m = e                              its section
    J d_m - d_0' = e                       its jump into the next phase

in which the last phase leads to the first one. L steps one after the other are a long step: behind i of them

    d_i = W_i d_0 + U_i s + Q_i b_i,

with the recurrences W_(i+1) = D_i W_i, U_(i+1) = D_i U_i + g_i, and b_i what the right sides and the rounding
of W and U add, along the columns of Q_i = S O_i. There O_(i+1) is the orthogonal factor of S^-1 D_i Q_i, so
that boxes of b_i grow with the motion and not by turning (Lohner 1988). Its columns are not sorted: the first
one turns to what decays least, and |Q_(i+1)^-1 D_i Q_i| is triangular but for rounding.

S is diagonal, in powers of two. It makes S^-1 (D_i - 1) S as large above the diagonal as below it, because
velocities of a stiff robot change much more with places than places with velocities: lengths, and with them
right angles, mean little in units that do not fit. Without S, boxes of the biped of docs/gaits.md are
five to ten times as wide.

Long steps leave equations of the same form with a thousand unknowns or so, whose inverse is dense. For short
orbits L = 1, and nothing but this inverse is left.

Everything is computed in doubles, rounded to the nearest, with bounds of the errors: the error of a sum of
n products is at most n 2^-53 (1 - n 2^-53)^-1 times the sum of their absolute values, in any order (Higham
2002, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiler import NotProved, exactly, middle
from .equations import ProofError

Array = Any
ROUNDED = 1 + 2.0**-40  # covers sums and products of a few thousand numbers that are not negative
TINY = 2.0**-1000  # covers what is rounded to zero
TRIES = 12
SWEEPS = 8  # of the balance of rows and columns
MOST = 1000  # unknowns of long steps, about
OF_CHECKER = 240  # the same in liebody_check.blocks: its steps are longer, and its bounds wider


@dataclass
class PhaseBlocks:
    """Derivatives of the equations of a phase of m steps and N states, as intervals or as numbers.

    steps    D: of the state behind a step by the one before it, (m, N, N)
    factor   g: of that state by the factor, (m, N)
    section  h (N,)
    jump     J (states of the next phase, N)
    """

    steps: Array
    factor: Array
    section: Array
    jump: Array

    def apply(self, function: Any) -> PhaseBlocks:
        """The same blocks of other numbers."""
        return PhaseBlocks(*(function(x) for x in (self.steps, self.factor, self.section, self.jump)))


@dataclass
class Derivatives:
    """All derivatives of the equations of an orbit; as intervals with a last axis (-lower, upper).

    translations  symmetries in the first phase, (k, N)
    coordinates   states of the first node that are given: in their places the shift is unknown, by which
                  the last jump changes as J d_m - d_0' - s xi
    """

    phases: list[PhaseBlocks]
    translations: Array
    coordinates: list[int]

    def split(self, x: Array) -> list[tuple[Array, Array]]:
        """Changes of the states (m + 1, N, p) and of the factor (p,) of each phase, of unknowns (n, p)."""
        parts = []
        place = 0
        for phase in self.phases:
            m, N = phase.factor.shape[:2]
            end = place + (m + 1) * N
            parts.append((x[place:end].reshape(m + 1, N, -1), x[end]))
            place = end + 1
        if self.coordinates:
            parts[0] = parts[0][0].copy(), parts[0][1]
            parts[0][0][0, self.coordinates] = 0.0
        return parts

    def rows(self, e: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Those of rows (n, p) in each phase: of its steps (m, N, p), section (p,) and jump (N', p)."""
        place = 0
        for phase in self.phases:
            m, N = phase.factor.shape[:2]
            section = place + m * N
            end = section + 1 + len(phase.jump)
            yield e[place:section].reshape(m, N, -1), e[section], e[section + 1 : end]
            place = end

    def middles(self) -> Derivatives:
        """The middles of intervals."""
        return Derivatives(
            [x.apply(middle) for x in self.phases], middle(self.translations), self.coordinates
        )

    def times(self, x: Array, unit: float = 1.0) -> Array:
        """The rows (n, p) for unknowns x (n, p).

        unit  in place of the 1 of d_(i+1) and d_0': -1 for sums of absolute values, 0 for bounds of
              what differs from other derivatives
        """
        parts = self.split(x)
        rows = []
        for k, (phase, (d, s)) in enumerate(zip(self.phases, parts, strict=True)):
            p = x.shape[-1]
            steps = phase.steps @ d[:-1] + phase.factor[..., None] * s - unit * d[1:]
            start = parts[(k + 1) % len(parts)][0][0]
            jump = phase.jump @ d[-1] - unit * start
            if k == len(parts) - 1:
                jump = jump - (unit or -1.0) * (self.translations.T @ x[self.coordinates])
            rows += [steps.reshape(-1, p), (phase.section @ d[-1])[None], jump]
        return np.concatenate(rows)

    def away(self, other: Derivatives) -> Derivatives:
        """Bounds of how far these intervals reach from other numbers."""

        def distance(x: Array, y: Array) -> Array:
            return np.nextafter(np.maximum(x[..., 1] - y, x[..., 0] + y), np.inf)

        phases = [
            PhaseBlocks(
                distance(a.steps, b.steps),
                distance(a.factor, b.factor),
                distance(a.section, b.section),
                distance(a.jump, b.jump),
            )
            for a, b in zip(self.phases, other.phases, strict=True)
        ]
        return Derivatives(phases, distance(self.translations, other.translations), self.coordinates)

    def absolute(self) -> Derivatives:
        """Absolute values of numbers."""
        return Derivatives([x.apply(np.abs) for x in self.phases], abs(self.translations), self.coordinates)


class BlockElimination:
    """The solutions of the linear equations M d = e with the middles M of derivatives.

    from_start  the last equations are d_0 = e in place of the last jump's equations

    Errors: ProofError where M is singular, NotProved where bounds are not found.
    """

    def __init__(self, derivatives: Derivatives, from_start: bool = False, most: int = MOST) -> None:
        self.M = derivatives.middles()
        self.from_start = from_start
        self.start = self.M.phases[0].steps.shape[-1]  # the number of states there
        self.unknowns = sum(phase.factor.size + phase.factor.shape[1] + 1 for phase in self.M.phases)
        self.parts = [_LongSteps(phase, -(-self.unknowns // most)) for phase in self.M.phases]
        phases = [x.phase for x in self.parts]
        self.long = Derivatives(phases, self.M.translations, self.M.coordinates)
        self._invert()

    def as_checked(self, most: int | None = None) -> BlockElimination:
        """The same equations in steps as long as the checker's, so that bounds are about as wide.

        most  unknowns of the checker's long steps, about; default: its number for orbits

        A box is claimed only if its inequality holds with these. Van der Pol's orbit for mu = 10 has 701
        unknowns. |I - Y A| r is 0.5 r for the inverse of all of them, but 1.3 r in long steps of three.
        """
        most = OF_CHECKER if most is None else most
        if self.unknowns <= most:
            return self
        exact = Derivatives(
            [x.apply(exactly) for x in self.M.phases], exactly(self.M.translations), self.M.coordinates
        )
        return BlockElimination(exact, self.from_start, most)

    def _invert(self) -> None:
        """The inverse Y of the matrix A of long steps, and bounds of the rows of |I - A Y|."""
        n = sum((phase.steps.shape[0] + 1) * phase.steps.shape[1] + 1 for phase in self.long.phases)
        unit = np.eye(n)
        A = self._rows(self.long.times(unit), unit)
        try:
            Y = np.linalg.inv(A)
        except np.linalg.LinAlgError:
            Y = np.full(A.shape, np.nan)
        if not np.isfinite(Y).all():
            raise ProofError(
                "the equations of the orbit are singular: it is not isolated (a family of orbits, as with a "
                "conserved energy), or it lies at a bifurcation"
            )
        self.Y = Y
        self.off = _within(unit - A @ Y, unit + abs(A) @ abs(Y), n).sum(axis=-1) * ROUNDED

    def _rows(self, rows: Array, x: Array) -> Array:
        """Rows of equations for unknowns x; with `from_start` the last rows are the start's."""
        if self.from_start:
            rows[-self.start :] = x[: self.start]
        return rows

    # -- the solution in doubles ----------------------------------------------------------------------------

    def solve(self, e: Array) -> Array:
        """About the solution (n, p) for right sides (n, p)."""
        found, rows = [], []
        for part, (steps, section, jump) in zip(self.parts, self.M.rows(e), strict=True):
            found.append(part.particular(steps))
            ends = -found[-1][:, -1]
            rows += [ends.reshape(-1, e.shape[-1]), section[None], jump]
        x = self.Y @ np.concatenate(rows)
        return self._joined(
            x, [part.states(y, d, s) for part, y, (d, s) in zip(self.parts, found, self.long.split(x))]
        )

    def _joined(self, x: Array, states: list[Array]) -> Array:
        """All unknowns (n, p), from the unknowns x of long steps and states (m + 1, N, p) in all nodes."""
        p = x.shape[-1]
        factors = [s for _, s in self.long.split(x)]
        joined = np.concatenate(
            [row for d, s in zip(states, factors, strict=True) for row in (d.reshape(-1, p), s[None])]
        )
        joined[self.M.coordinates] = x[self.M.coordinates]  # the shift
        return joined

    # -- bounds ---------------------------------------------------------------------------------------------

    def bound(self, d: Array) -> Array:
        """Upper bounds u (n, p) of all solutions of M u = e with |e| <= d, (n, p); M is then regular.

        Unknowns y of long steps enter their own right sides, by what was rounded. Let t be the least number
        with |y| <= t r for a vector r > 0. If the equations give |y| < r for t = 1, then t >= 1 would lead
        to |y| < t r: so |y| < r. For e = 0 the same holds with each multiple of r, so that only 0 is a
        solution.
        """
        y, b, _ = self._bounds_of_long_steps(d)
        states = [part.reached(x, *z) for part, x, z in zip(self.parts, b, self.long.split(y), strict=True)]
        return self._joined(y, states)

    def bound_at_end(self, C: Array, d: Array) -> Array:
        """Upper bounds (k, p) of |C x| for the last nodes x of these solutions, with intervals C (k, M, 2).

        Terms that cancel in C M^-1 do not add to them.
        """
        _, _, e = self._bounds_of_long_steps(d)
        n, M = len(self.Y), C.shape[1]
        Y = self.Y[n - 1 - M : n - 1]
        centre = middle(C)
        off = np.maximum(C[..., 1] - centre, C[..., 0] + centre)
        size = _within(centre @ Y, abs(centre) @ abs(Y), M) + off @ abs(Y)
        return size @ e * ROUNDED**2

    def _bounds_of_long_steps(self, d: Array) -> tuple[Array, list[Array], Array]:
        """Bounds of the unknowns of long steps, of b in all nodes, and of what Y takes to the unknowns."""
        r = self._of_long_steps(d, np.zeros((len(self.Y), d.shape[-1])))[0]
        for _ in range(TRIES):
            r = 1.25 * r + TINY
            y, b, e = self._of_long_steps(d, r)
            if (y < r).all():
                return y, b, e
            r = np.maximum(r, y)
        raise NotProved("the equations of the orbit are nearly singular")

    def _of_long_steps(self, d: Array, r: Array) -> tuple[Array, list[Array], Array]:
        """Bounds of the unknowns of long steps, if r bounds them, too, and the two others."""
        rows, every = [], []
        parts = zip(self.parts, self.M.rows(d), self.long.split(r), strict=True)
        for part, (steps, section, jump), z in parts:
            b = part.added(steps, *z)
            every.append(b)
            rows += [part.at_end(b).reshape(-1, d.shape[-1]), section[None], jump]
        e = np.concatenate(rows)
        # A^-1 = Y (1 - E)^-1 with E = I - A Y, and |(1 - E)^-1 e| <= |e| + 2 |E| max |e| where |E| < 1/2
        if not self.off.max() < 0.5:
            raise NotProved("the equations of the orbit are nearly singular")
        e = e + 2 * self.off[:, None] * e.max(axis=0)
        return abs(self.Y) @ e * ROUNDED**2, every, e

    def left(self, e: Array, x: Array) -> Array:
        """Upper bounds (n, p) of |e - M x| for intervals e (n, p, 2) and numbers x."""
        value = self._rows(self.M.times(x), x)
        size = self._rows(self.M.absolute().times(abs(x), -1.0), abs(x))
        apart = np.maximum(e[..., 1] - value, e[..., 0] + value)
        return _within(apart, size + apart, self.start)

    def varied(self, away: Derivatives, radius: Array) -> Array:
        """Upper bounds (n, p) of |(A - M) x| for |A - M| within `away` and |x| within a radius."""
        return self._rows(away.times(radius, 0.0), np.zeros(radius.shape)) * ROUNDED + TINY


class _LongSteps:
    """The m steps of a phase as c long steps, each of L: what is known behind each of these.

    phase  the same equations with long steps
    W      (c, L + 1, N, N)
    U      (c, L + 1, N)
    S      (N,)
    Q      (c, L + 1, N, N); b is 0 at the start, and Q_1 = S
    T      upper bounds of |Q_(i+1)^-1 D_i Q_i|, (c, L, N, N)
    P      of |Q_(i+1)^-1|
    RW, RU of what is added to |b| by the rounding of W and U
    """

    def __init__(self, phase: PhaseBlocks, L: int) -> None:
        m, N = phase.factor.shape
        self.m = m
        self.L = min(L, m)
        self.c = -(-m // self.L)
        # steps that do nothing behind the last one
        idle = self.c * self.L - m
        steps = np.concatenate([phase.steps, np.broadcast_to(np.eye(N), (idle, N, N))])
        self.D = D = steps.reshape(self.c, self.L, N, N)
        self.g = g = self._cut(phase.factor[..., None])
        one = np.broadcast_to(np.eye(N), (self.c, N, N))
        self.S = _units(phase.steps)
        S = self.S[:, None]
        W, U, Q = [one], [np.zeros((self.c, N, 1))], [one * S]
        for i in range(self.L):
            W.append(D[:, i] @ W[-1])
            U.append(D[:, i] @ U[-1] + g[:, i])
            Q.append(np.linalg.qr(D[:, i] @ Q[-1] / S)[0] * S if i else one * S)
        self.W, self.U, self.Q = (np.stack(x, axis=1) for x in (W, U, Q))
        self.phase = PhaseBlocks(self.W[:, -1], self.U[:, -1, :, 0], phase.section, phase.jump)
        self._bound()

    def _cut(self, rows: Array) -> Array:
        """Rows (m, N, p) of steps for each long step, (c, L, N, p); zeros behind the last one."""
        idle = self.c * self.L - self.m
        full = np.concatenate([rows, np.zeros((idle, *rows.shape[1:]))])
        return full.reshape(self.c, self.L, *rows.shape[1:])

    def _nodes(self, inner: Array, last: Array) -> Array:
        """States (m + 1, N, p), of those at the starts of all steps (c, L, N, p), and the last one."""
        return np.concatenate([inner.reshape(-1, *inner.shape[2:])[: self.m], last[None]])

    def particular(self, e: Array) -> Array:
        """The states (c, L + 1, N, p) that begin with 0 for right sides e (m, N, p)."""
        e = self._cut(e)
        states = [np.zeros(e[:, 0].shape)]
        for i in range(self.L):
            states.append(self.D[:, i] @ states[-1] - e[:, i])
        return np.stack(states, axis=1)

    def states(self, particular: Array, d: Array, s: Array) -> Array:
        """All states (m + 1, N, p) for those d at the starts of long steps, and the factor s."""
        inner = particular[:, :-1] + self.W[:, :-1] @ d[:-1, None] + self.U[:, :-1] * s
        return self._nodes(inner, d[-1])

    # -- bounds ---------------------------------------------------------------------------------------------

    def _bound(self) -> None:
        D, W, U, Q = self.D, self.W, self.U, self.Q
        N = D.shape[-1]
        inverse = Q[:, 1:].swapaxes(-1, -2) / self.S**2
        # Q^-1 = (1 - E)^-1 Y with Y = O^T S^-1 and E = 1 - Y Q, and |(1 - E)^-1 x| <= |x| + 2 |E| max |x|
        # where |E| < 1/2
        unit = np.eye(N)
        E = _within(unit - inverse @ Q[:, 1:], unit + abs(inverse) @ abs(Q[:, 1:]), N)
        E = E.sum(axis=-1).max(axis=-1) * ROUNDED
        if not (E < 0.5).all():
            raise NotProved("the directions of steps are nearly dependent")

        def turned(x: Array) -> Array:
            return (x + 2 * E[..., None, None] * x.max(axis=-2, keepdims=True)) * ROUNDED

        size = abs(inverse) @ (abs(D) @ abs(Q[:, :-1]))
        self.T = turned(_within(inverse @ (D @ Q[:, :-1]), size, N))
        self.P = turned(abs(inverse))
        rest = D @ W[:, :-1] - W[:, 1:]
        self.RW = self.P @ _within(rest, abs(D) @ abs(W[:, :-1]) + abs(W[:, 1:]), N) * ROUNDED
        rest = D @ U[:, :-1] + self.g - U[:, 1:]
        size = abs(D) @ abs(U[:, :-1]) + abs(self.g) + abs(U[:, 1:])
        self.RU = self.P @ _within(rest, size, N) * ROUNDED
        # the first step is exact
        self.RW[:, 0] = 0.0
        self.RU[:, 0] = 0.0

    def added(self, d: Array, reach: Array, factor: Array) -> Array:
        """Bounds of b (c, L + 1, N, p) for right sides d (m, N, p), and bounds of d_0 and of the factor."""
        more = self.P @ self._cut(d) + self.RW @ reach[:-1, None] + self.RU * factor
        b = [np.zeros(more[:, 0].shape)]
        for i in range(self.L):
            b.append((self.T[:, i] @ b[-1] + more[:, i]) * ROUNDED)
        return np.stack(b, axis=1)

    def at_end(self, b: Array) -> Array:
        """Upper bounds (c, N, p) of what b adds to the state behind long steps."""
        return abs(self.Q[:, -1]) @ b[:, -1] * ROUNDED

    def reached(self, b: Array, d: Array, s: Array) -> Array:
        """Upper bounds of all states, from bounds of b, of the states d at the starts, and of the factor."""
        inner = abs(self.Q[:, :-1]) @ b[:, :-1] + abs(self.W[:, :-1]) @ d[:-1, None] + abs(self.U[:, :-1]) * s
        return self._nodes(inner * ROUNDED, d[-1])


def _units(steps: Array) -> Array:
    """Powers of two S (N,) for which rows and columns of the mean of |S^-1 (D - 1) S| have about equal sums.

    Each row is balanced with its column, one after the other (Osborne 1960).
    """
    N = steps.shape[-1]
    size = np.abs(steps - np.eye(N)).mean(axis=0) * (1 - np.eye(N))
    S = np.ones(N)
    for _ in range(SWEEPS):
        last = S.copy()
        for i in range(N):
            row, column = size[i] @ S / S[i], S[i] * (size[:, i] @ (1 / S))
            if row > 0 and column > 0:
                S[i] *= 2.0 ** np.round(np.log2(row / column) / 2)
        if (last == S).all():
            break
    return S


def _within(value: Array, size: Array, terms: int) -> Array:
    """Upper bounds of |x|, for x computed as `value` by at most three sums, one of the other's results.

    size  the same of absolute values; the sums have so many terms, and two more
    """
    return (abs(value) + (terms + 8) * 2.0**-51 * size) * ROUNDED + TINY
