"""Convex quadratic programs by a dual active set method, which can start from the last solution.

The method is written twice: here in NumPy, as the reference and for machines without a compiler, and in
runtime/active_set.h over one lane. Both have the same steps in the same order.

A program as `Minimizer` has it becomes strictly convex, with rows that always have some slack:

    minimize    x' H x / 2 + g' x + (x - x0)' R (x - x0) / 2 + sum of s_i^2 / (2 r_i)
    subject to  A x + s = b,    l <= C x + s <= u,    where s + (1/w - r) y0 is the slack y/w of a row at last

R is zero unless H has a pivot of round-off, r = 1/w unless the weight w is very large. With x0 and
multipliers y0 of the solution before, a few such programs have the solution of the given one as their limit:
a proximal method of multipliers, Rockafellar (1976), Math. Oper. Res. 1, 97. Each of them is feasible, with
one minimum and multipliers, however many rows are redundant or contradict each other.

A set of active rows a with multipliers z of the right signs determines x. The row that is violated most joins
it; its multiplier grows, until the row is met or the multiplier of another row has come to zero, which then
leaves: Goldfarb and Idnani (1983), "A numerically stable dual method for solving strictly convex quadratic
programs", Math. Programming 27, 1. The cost of the dual program grows in each step, so no set comes twice.
With H = U' D^-1 U, and rows s' of S with U' s = a for each active row a, the multipliers solve
(S D S' + r) z = rest. Factors L d L' of this matrix follow the set, with a rank-one update (Gill, Golub,
Murray and Saunders 1974, Math. Comp. 28, 505) where a row leaves. Any set may be the first: rows whose
multipliers have the wrong sign leave at once. Where multipliers are so large that x by them moves active rows
by round-off, a step of Newton's method for both brings the rows back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .quadratic_terms import Data, Minimum, scaled_rows

PROXIMAL = 20  # programs that are solved in turn, at most
STALLED = 5  # of them without progress, at most
CORRECTIONS = 3  # of round-off in active rows, at most
# Settings in C, by name, beside those of `quadratic_program.SETTINGS` that both methods have.
SETTINGS = {
    "UNBOUNDED": 1e20,  # a bound of this size is none
    "LARGEST_WEIGHT": 1e30,  # a larger one counts as infinite
    "SMALLEST": 1e-300,
    "SMALLEST_PIVOT": 1e-12,  # in units of the diagonal, and of the scale
    "RAISED_PIVOT": 1e-3,  # what a smaller pivot is raised to, in the same units
    "GIVEN_WAY": 1e-11,  # r of rows without slack, in units of the largest 1/D
    "HARDER": 1e-3,  # but at most so much of the smallest 1/w of the others
    "FIRMEST": 1e-16,  # and at least so much of the largest 1/D
    "DEPENDENT": 1e-14,  # r is larger where a pivot of multipliers is smaller, in units of its diagonal
    "MET": 1e-2,  # a row is met within this share of the tolerance
    "FAINT": 1e-8,  # terms of a gradient that are smaller, in units of the largest, count as so large
    "REFINED": 1e-2,  # of the tolerance: a smaller error needs no further program
    # An error that shrinks less ends the method: within the tolerance at once, else after STALLED programs.
    "SLOW": 0.5,
}


def minimum(
    data: Data, iterations: int, settings: Mapping[str, float], folded: int = 0, start: Any = None
) -> Minimum:
    """The solution; runtime/active_set.h is the same in C.

    start  multipliers of C (k,): the method starts with those rows active that have one, at the bound of its
           sign; None: with none
    """
    return _Program(data, iterations, settings, folded).solution(start)


class _Program:
    """The numbers of one program, with rows scaled to largest entries of 1: rows of A first, then of C."""

    def __init__(self, data: Data, iterations: int, settings: Mapping[str, float], folded: int) -> None:
        self.settings = c = settings
        self.iterations = iterations
        self.held = held = len(data.A) - folded
        self.F, self.w, self.aim = data.A[held:], data.weight_a[held:], data.b[held:]
        self.H = data.H + (self.F.T * self.w) @ self.F
        self.g = data.g - self.F.T @ (self.w * self.aim)
        self.scale = float(data.scale[0])
        rows, self.size, weight = scaled_rows(
            np.concatenate([data.A[:held], data.C]), np.concatenate([data.weight_a[:held], data.weight_c])
        )
        self.rows = rows
        self.on = weight > 0
        hard = weight > c["LARGEST_WEIGHT"]
        self.soft = np.where(self.on & ~hard, 1 / np.where(self.on, weight, 1.0), 0.0)
        low = np.concatenate([data.b[:held], data.l])
        high = np.concatenate([data.b[:held], data.u])
        self.is_low = self.on & (low > -c["UNBOUNDED"])
        self.is_high = self.on & (high < c["UNBOUNDED"])
        low = np.where(self.is_low, low / self.size, 0.0)
        high = np.where(self.is_high, high / self.size, 0.0)
        crossed = self.is_low & self.is_high & (low > high)
        self.low = np.where(crossed, (low + high) / 2, low)
        self.high = np.where(crossed, (low + high) / 2, high)
        self._factorise()
        reach = float(self.inverse.max())
        harder = c["HARDER"] * self.soft[self.soft > 0].min(initial=np.inf)
        self.firm = min(c["GIVEN_WAY"] * reach, max(harder, c["FIRMEST"] * reach))
        self.used = np.maximum(self.soft, self.firm)

    def _factorise(self) -> None:
        """U, upper triangular with the diagonal D, and what was added to the diagonal of H."""
        c, n = self.settings, len(self.H)
        U = self.H.copy()
        units = np.maximum(np.diag(U), self.scale)
        self.inverse = np.zeros(n)
        self.raised = np.zeros(n)
        for k in range(n):
            if not U[k, k] > c["SMALLEST_PIVOT"] * units[k]:
                self.raised[k] = c["RAISED_PIVOT"] * units[k] - U[k, k]
                U[k, k] = c["RAISED_PIVOT"] * units[k]
            self.inverse[k] = 1 / U[k, k]
            U[k + 1 :, k + 1 :] -= np.outer(self.inverse[k] * U[k, k + 1 :], U[k, k + 1 :])
        self.U = U

    def forward(self, r: Any) -> Any:
        """U'^-1 r, so that backward(forward(r)) = H^-1 r."""
        s = r.copy()
        for i in range(len(s)):
            s[i] *= self.inverse[i]
            s[i + 1 :] -= self.U[i, i + 1 :] * s[i]
        return s

    def backward(self, s: Any) -> Any:
        x = s.copy()
        for i in reversed(range(len(x))):
            x[i] -= self.U[i, i + 1 :] @ x[i + 1 :] * self.inverse[i]
        return x

    def solution(self, start: Any) -> Minimum:
        c, held = self.settings, self.held
        total = len(self.rows)
        self.z = np.zeros(total)
        self.before = np.zeros(total)  # multipliers of the program before
        self.place = np.zeros(len(self.H))  # x of the program before
        self.active: list[int] = []
        self.signs: list[int] = []  # 0: equality; 1: lower, -1: upper bound
        self.S: list[Any] = []
        self.L = np.zeros((total, total))
        self.d = np.zeros(total)
        self.changes = 0
        self.x = np.zeros(len(self.H))
        for i in range(held):
            if self.on[i]:
                self._join(i, 0, *self._seen(i))
        for i in range(held, total):
            side = np.sign(start[i - held]) if start is not None else 0
            if (side > 0 and self.is_low[i]) or (side < 0 and self.is_high[i]):
                self._join(i, int(side), *self._seen(i))
        best: tuple[float, ...] = (1 / c["SMALLEST"],) * 4
        best_x, best_z = np.zeros(len(self.H)), np.zeros(total)
        before, stalled = np.inf, 0
        for _ in range(PROXIMAL):
            self._solve()
            errors = self._errors()
            error = float(np.max(errors))  # NaN if one of them is
            previous = best[0]
            if error < best[0]:
                best = (error, *errors)
                best_x, best_z = self.x, self.z.copy()
            if not error < np.inf or error <= c["REFINED"] * c["TOLERANCE"]:
                break
            if previous <= c["TOLERANCE"] and error > c["SLOW"] * previous:
                break
            stalled = stalled + 1 if error > c["SLOW"] * before else 0
            if not stalled:
                before = error
            if self.changes >= self.iterations or stalled == STALLED:
                break
            self.before = self.z.copy()
            self.place = self.x
        R = self.rows[held:] @ best_x
        below = np.where(self.is_low[held:], np.maximum(self.low[held:] - R, 0), 0.0)
        above = np.where(self.is_high[held:], np.maximum(R - self.high[held:], 0), 0.0)
        slack = np.where(self.on[:held], self.low[:held] - self.rows[:held] @ best_x, 0.0)
        missed = np.where(self.w > 0, self.aim - self.F @ best_x, 0.0)
        return Minimum(
            best_x,
            np.concatenate([best_z[:held] / self.size[:held], self.w * missed]),
            best_z[held:] / self.size[held:],
            np.concatenate([slack * self.size[:held], missed]),
            (below - above) * self.size[held:],
            np.array([self.changes, *best[1:], best[0] <= c["TOLERANCE"]], float),
        )

    # -- one strictly convex program -----------------------------------------------------------------------

    def _seen(self, i: int) -> tuple[Any, Any, float]:
        """A row that is not active: returns its s, w = L^-1 S D s with the active rows, and its pivot."""
        s = self.forward(self.rows[i])
        q = len(self.active)
        y = s / self.inverse
        w = np.array([other @ y for other in self.S])
        for k in range(q):
            w[k] -= self.L[k, :k] @ w[:k]
        self.used[i] = max(self.soft[i], self.firm)
        own = s @ y + self.used[i]
        pivot = own - (w * w / self.d[:q]).sum()
        least = self.settings["DEPENDENT"] * own
        if pivot < least:
            self.used[i] += least - pivot
        return s, w, max(pivot, least)

    def _join(self, i: int, sign: int, s: Any, w: Any, pivot: float) -> None:
        q = len(self.active)
        self.L[q, :q] = w / self.d[:q]
        self.d[q] = pivot
        self.active.append(i)
        self.signs.append(sign)
        self.S.append(s)

    def _leave(self, k: int) -> None:
        """The row at place k of the active ones leaves: L d L' of those behind it gets a rank-one update."""
        q = len(self.active)
        L, d = self.L, self.d
        w = L[k + 1 : q, k].copy()
        alpha = d[k]
        L[k : q - 1, :k] = L[k + 1 : q, :k]
        L[k : q - 1, k : q - 1] = L[k + 1 : q, k + 1 : q]
        d[k : q - 1] = d[k + 1 : q]
        for i in range(q - 1 - k):
            p, old = w[i], d[k + i]
            d[k + i] = old + alpha * p * p
            beta = alpha * p / d[k + i]
            alpha *= old / d[k + i]
            column = L[k + i + 1 : q - 1, k + i]
            w[i + 1 :] -= p * column
            column += beta * w[i + 1 :]
        self.z[self.active[k]] = 0.0
        del self.active[k], self.signs[k], self.S[k]

    def _back(self, w: Any) -> Any:
        """L'^-1 d^-1 w."""
        q = len(w)
        r = w / self.d[:q]
        for k in reversed(range(q)):
            r[:k] -= self.L[k, :k] * r[k]
        return r

    def _multipliers(self, rest: Any) -> Any:
        """Multipliers of the active rows by which these move by `rest`."""
        w = rest.copy()
        for k in range(len(w)):
            w[k] -= self.L[k, :k] @ w[:k]
        return self._back(w)

    def _move_by(self, s: Any, multipliers: Any) -> Any:
        """The unknowns that belong to s and to multipliers of the active rows."""
        for m, row in zip(multipliers, self.S, strict=True):
            s = s + m * row
        return self.backward(s)

    def _rest(self) -> Any:
        """Residuals of the active rows at x."""
        a = self.active
        bounds = np.where(np.array(self.signs) < 0, self.high[a], self.low[a])
        return bounds - self.shift[a] - self.used[a] * self.z[a] - self.rows[a] @ self.x

    def _met(self) -> float:
        """The largest residual of a row that counts as met."""
        size = float(np.abs(self.x).max(initial=1.0))
        return self.settings["MET"] * self.settings["TOLERANCE"] * size

    def _move(self) -> None:
        """x by the multipliers; where these are so large that round-off moves active rows, both follow."""
        a = self.active
        self.x = self._move_by(self.s0, self.z[a])
        for _ in range(CORRECTIONS):
            rest = self._rest()
            if not np.abs(rest).max(initial=0.0) > self._met():
                break
            more = self._multipliers(rest)
            self.z[a] += more
            self.x = self.x + self._move_by(np.zeros(len(self.x)), more)

    def _settle(self) -> None:
        """Multipliers of the active rows; rows with a wrong sign leave, until all signs are right."""
        while True:
            a = self.active
            self.x = self._move_by(self.s0, self.z[a])
            self.z[a] += self._multipliers(self._rest())
            wrong = [k for k, (i, sign) in enumerate(zip(a, self.signs, strict=True)) if sign * self.z[i] < 0]
            if not wrong:
                break
            for k in reversed(wrong):
                self._leave(k)
                self.changes += 1
        self._move()

    def _solve(self) -> None:
        self.shift = (self.soft - self.used) * self.before
        self.s0 = self.forward(self.raised * self.place - self.g)
        self._settle()
        inequalities = np.arange(len(self.rows)) >= self.held
        while self.changes < self.iterations:
            value = self.rows @ self.x + self.shift
            free = inequalities.copy()
            free[self.active] = False
            below = np.where(free & self.is_low, self.low - value, -np.inf)
            above = np.where(free & self.is_high, value - self.high, -np.inf)
            missed = np.maximum(below, above)
            if not len(missed) or not missed.max() > self._met():
                break
            i = int(missed.argmax())
            sign = 1 if below[i] >= above[i] else -1
            rest = missed[i]
            while True:
                s, w, pivot = self._seen(i)
                r = self._back(w)
                length, leaves = rest / pivot, -1
                for k, (j, other) in enumerate(zip(self.active, self.signs, strict=True)):
                    slope = sign * other * r[k]
                    left = max(other * self.z[j], 0.0)
                    if slope > 0 and left < length * slope:
                        length, leaves = left / slope, k
                self.z[self.active] -= sign * length * r
                self.z[i] += sign * length
                self.changes += 1
                if leaves < 0:
                    self._join(i, sign, s, w, pivot)
                    break
                rest -= length * pivot
                self._leave(leaves)
            self._move()

    def _errors(self) -> tuple[float, float, float]:
        """Of stationarity, rows, and gap, as the interior point method has them."""
        c, z, held = self.settings, self.z, self.held
        hx = self.H @ self.x
        rd = hx + self.g - self.rows.T @ z
        terms = np.abs(hx) + np.abs(self.g) + np.abs(self.rows.T) @ np.abs(z)
        dual = (np.abs(rd) / np.maximum(terms, max(c["FAINT"] * terms.max(), c["SMALLEST"]))).max()
        R = self.rows @ self.x + self.soft * z
        below = np.where(self.is_low, self.low - R, 0.0)
        above = np.where(self.is_high, R - self.high, 0.0)
        primal = np.maximum(below, above).max(initial=0.0) / np.abs(self.x).max(initial=1.0)
        distance = np.where(z > 0, np.maximum(-below, 0), np.maximum(-above, 0))
        gap = (np.abs(z) * distance)[held:].sum()
        bounds = np.abs(np.where(z > 0, self.low, self.high) * z).sum()
        size = abs(hx @ self.x) + abs(self.g @ self.x) + bounds
        return dual, primal, gap / max(size, self.scale)
