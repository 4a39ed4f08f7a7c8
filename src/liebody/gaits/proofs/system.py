"""The equations of a closed orbit over many short steps, and Krawczyk's operator for them.

Unknown are the states x_0, ..., x_m at the ends of m steps, and a factor s of their durations w_i:

    phi(x_i, s w_i) - x_(i+1) = 0,  i < m,        g(x_m) = 0,        J(x_m) - x_0 = 0,

where phi is the motion. The period is s sum w_i. Nothing is carried from one step to the next, so boxes do
not grow along the orbit, and an event is an equation as any other one.

Let A contain the derivatives of these equations F at all points of a box c + [-r, r], and Y be any matrix,
such as an approximate inverse. If |Y F(c)| + |I - Y A| r < r in each row, then the box has exactly one zero
of F, and it lies in c - Y F(c) +- |I - Y A| r; all matrices in A are regular (Krawczyk 1969; Moore, Kearfott,
Cloud 2009, theorem 8.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiler import IntervalLibrary, NotProved, exactly
from .equations import ExactEquations, ProofError

Array = Any
Sparse = tuple[Array, Array, Array]
NARROW = 3e-14  # of the state at the end of a step from a number, over its size


@dataclass
class SteppedOrbit:
    """An approximate orbit: states x (m + 1, N), durations w (m,), and the factor s of these."""

    x: Array
    w: Array
    s: float

    @property
    def flat(self) -> Array:
        return np.append(self.x.ravel(), self.s)

    def moved(self, change: Array) -> SteppedOrbit:
        return SteppedOrbit(self.x + change[:-1].reshape(self.x.shape), self.w, float(self.s + change[-1]))


@dataclass
class Enclosed:
    """Around an orbit c: the one zero in c + [-radius, radius] lies in `box` (unknowns, 2).

    A      derivatives of the equations in the box of the radius
    slack  the least of what is left in the inequality above, over the radius
    """

    orbit: SteppedOrbit
    radius: Array
    box: Array
    A: Sparse
    slack: float


class StepEquations:
    """F and its derivatives in intervals, for an orbit of given equations; see `ExactEquations.library`."""

    def __init__(self, equations: ExactEquations, order: int, exact: bool = True) -> None:
        self.equations = equations
        self.library: IntervalLibrary = equations.library(exact)
        self.order = order

    # -- steps ----------------------------------------------------------------------------------------------

    def divided(self, x: Array, period: float, radius: float) -> SteppedOrbit:
        """An orbit from a start, in steps that are as long as boxes of a radius allow."""
        states, durations = [x], []
        rest = period
        step = period / 8
        while rest > 0:
            # the last two steps share what is left
            step = rest if step >= rest else min(step, rest / 2)
            x, step = self._longest(x, step, radius, period)
            states.append(x)
            durations.append(step)
            rest = 0.0 if step >= rest else rest - step
            step *= 1.5
        return SteppedOrbit(np.stack(states), np.array(durations), 1.0)

    def _longest(self, x: Array, step: float, radius: float, period: float) -> tuple[Array, float]:
        """The state after as much of a step as can be enclosed, and its duration."""
        size = np.abs(x).max() + 1.0
        problem: Exception | None = None
        while step > 1e-6 * period:
            try:
                end, _, _ = self.library.move(exactly(x), exactly(step), self.order)
                self.library.move(around(x, np.full(len(x), radius)), exactly(step), self.order, True)
                if end.sum(axis=-1).max() < NARROW * size:
                    return middle(end), step
            except NotProved as error:
                problem = error
            step /= 2
        raise ProofError(
            f"steps from the state {x} become shorter than a millionth of the period: {problem}; the field "
            "may not be smooth there, or grow too fast"
        )

    # -- equations ------------------------------------------------------------------------------------------

    def residual(self, at: SteppedOrbit) -> Array:
        """F at an orbit of numbers, (unknowns, 2)."""
        rows = []
        for i, w in enumerate(at.w):
            time = self.time(w, exactly(at.s))
            end, _, _ = self.library.move(exactly(at.x[i]), time, self.order)
            rows.append(self.library.combine("sub", end, exactly(at.x[i + 1])))
        last = exactly(at.x[-1])
        rows.append(self.library.evaluate(1, last)[0])
        rows.append(self.library.combine("sub", self._jump(last)[0], exactly(at.x[0])))
        return np.concatenate(rows)

    def derivatives(self, at: SteppedOrbit, radius: Array) -> Sparse:
        """The derivatives of F in the box of a radius, as a sparse matrix of intervals."""
        m, N = len(at.w), self.equations.size
        blocks = _Blocks((m + 1) * N + 1)
        r = radius[:-1].reshape(at.x.shape)
        factor = around(np.array([at.s]), radius[-1:])[0]
        minus = exactly(-np.eye(N))
        for i, w in enumerate(at.w):
            X = around(at.x[i], r[i])
            end, D, _ = self.library.move(X, self.time(w, factor), self.order, True)
            rate, _ = self.library.evaluate(0, end)
            blocks.add(i * N, i * N, D)
            blocks.add(i * N, (i + 1) * N, minus)
            blocks.add(i * N, (m + 1) * N, self.library.combine("mul", rate, exactly(w))[:, None])
        X = around(at.x[m], r[m])
        blocks.add(m * N, m * N, self.library.evaluate(1, X, exactly(np.eye(N)))[1])
        blocks.add(m * N + 1, m * N, self._jump(X)[1])
        blocks.add(m * N + 1, 0, minus)
        return blocks.sparse()

    def jump_slope(self, X: Array) -> Array:
        """The derivative (N, N, 2) of the jump in a box."""
        return self._jump(X)[1]

    def _jump(self, X: Array) -> tuple[Array, Array]:
        if self.equations.jump is None:
            return X, exactly(np.eye(len(X)))
        return self.library.evaluate(2, X, exactly(np.eye(len(X))))

    def time(self, w: float, factor: Array) -> Array:
        return self.library.combine("mul", exactly(w), factor)

    # -- zeros ----------------------------------------------------------------------------------------------

    def refined(self, at: SteppedOrbit, tries: int = 6) -> tuple[SteppedOrbit, Array]:
        """An orbit to round-off, by Newton's method with the middles, and the inverse there."""
        least = np.inf
        for _ in range(tries):
            A = dense_middle(self.derivatives(at, np.zeros(at.x.size + 1)), at.x.size + 1)
            Y = _inverse(A)
            change = Y @ middle(self.residual(at))
            size = np.abs(change).max()
            if not size < 10 * least:
                raise ProofError(
                    f"Newton's method for the steps of the orbit does not converge: changes of {size:.1e} "
                    f"after {least:.1e}; give a more exact orbit (tolerance of periodic_orbit)"
                )
            at = at.moved(-change)
            if size < 1e-13 or size > least / 4:
                break
            least = size
        return at, Y

    def krawczyk(self, at: SteppedOrbit, Y: Array, radius: Array, F: Array | None = None) -> Enclosed | None:
        """The zero in the box of a radius; None where the inequality does not hold."""
        F = self.residual(at) if F is None else F
        try:
            A = self.derivatives(at, radius)
            bound = self.library.deviation(Y, A)
            shift = self.library.multiplied(Y, F[:, None])[:, 0]
            spread = self.library.spread(bound, radius)
        except NotProved:
            return None
        moved = shift.max(axis=-1)  # |Y F(c)|
        total = upwards(moved + spread)
        if not (total < radius).all():
            return None
        box = self.library.combine("sub", exactly(at.flat), shift)
        box = self.library.combine("add", box, np.stack([spread, spread], axis=-1))
        return Enclosed(at, radius, box, A, float(((radius - total) / radius).min()))


class _Blocks:
    """A sparse matrix made of dense blocks."""

    def __init__(self, size: int) -> None:
        self.columns: list[list[tuple[Any, Any]]] = [[] for _ in range(size)]

    def add(self, row: int, column: int, block: Array) -> None:
        rows = np.arange(row, row + len(block))
        for j in range(block.shape[1]):
            self.columns[column + j].append((rows, block[:, j]))

    def sparse(self) -> Sparse:
        counts = [sum(len(rows) for rows, _ in column) for column in self.columns]
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = np.concatenate([rows for column in self.columns for rows, _ in column]).astype(np.int64)
        values = np.concatenate([values for column in self.columns for _, values in column])
        return start, rows, np.ascontiguousarray(values)


def dense_middle(A: Sparse, size: int) -> Array:
    """The middles of a sparse matrix of intervals, dense."""
    start, rows, values = A
    M = np.zeros((size, size))
    columns = np.repeat(np.arange(size), np.diff(start))
    M[rows, columns] = middle(values)
    return M


def _inverse(A: Array) -> Array:
    try:
        Y = np.linalg.inv(A)
    except np.linalg.LinAlgError:
        Y = np.full(A.shape, np.nan)
    if not np.isfinite(Y).all():
        raise ProofError(
            "the equations of the orbit are singular: it is not isolated (a family of orbits, as with a "
            "conserved energy), or it lies at a bifurcation"
        )
    return Y


def middle(x: Array) -> Array:
    """A number within each interval, near its middle."""
    return (x[..., 1] - x[..., 0]) / 2


def around(x: Array, radius: Array) -> Array:
    """Boxes that contain x +- radius, (..., 2)."""
    return upwards(np.stack([radius - x, x + radius], axis=-1)) if np.any(radius) else exactly(x)


def upwards(x: Array) -> Array:
    """The next doubles: upper bounds of what was rounded to the nearest once."""
    return np.nextafter(x, np.inf)
