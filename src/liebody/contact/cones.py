"""Impulses x that obey laws of contact and friction, with velocities w = A x + b, by block Gauss-Seidel.

A = J M^-1 J^T + diag(R) is the inverse inertia that the contacts show, with their compliance R. Every sweep
solves the law of one block after the other, exactly, with the impulses of the others as they are.

Castro, Permenter and Han (2022), "An unconstrained convex formulation of compliant contact"; Hwangbo, Lee and
Hutter (2018), "Per-contact iteration method for solving contact dynamics".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..compiler import repeated
from ..scalars import Array, absolute, clip, maximum, sqrt, where
from ..scalars.linear import dot, is_zero, product, symmetric

TINY = 1e-30  # of squares, so that roots and quotients of what is zero are finite
LARGEST = 1e9  # slip multiplier, in units of the block


class Cone(NamedTuple):
    """Coulomb's friction with unilateral contact: x = (x_n, x_t), w = (w_n, w_t), (3,) each.

        x_n >= 0, w_n >= 0, x_n w_n = 0,    |x_t| <= mu x_n,    mu x_n w_t = -|w_t| x_t

    Where the solution of A x + b = 0 is outside the cone, the point slips: (A + diag(0, c, c)) x = -b with
    the multiplier c > 0 for which |x_t| = mu x_n. mu x_n / |x_t| - 1 is nearly linear in c; Newton's method
    starts from its asymptote for large c.
    """

    mu: Any

    def solve(self, A: Array, b: Array, x: Array, newton: int) -> Array:
        """x of w = A x + b; A (3, 3). newton: iterations; 0: one projected step from x instead."""
        mu, a = self.mu, A[0, 0]
        if not newton:
            w = A @ x + b
            n = maximum(x[0] - w[0] / a, 0.0)
            t = x[1:] - (w[1:] - A[1:, 0] * (x[0] - n)) / maximum(A[1, 1], A[2, 2])
            return np.concatenate([[n], within(t, mu * n)])
        n, t, *_ = _slipping(A, b, 0)
        sticks = (n > 0) & (t @ t <= mu * mu * n * n)
        first = maximum(-b[0] / a, TINY)
        pull = b[1:] + A[1:, 0] * first
        size = sqrt(pull @ pull + TINY)
        e = pull / size
        coupled = A[0, 1:] @ e / a
        stiff = e @ (A[1:, 1:] @ e) - a * coupled * coupled
        most = LARGEST * (A[1, 1] + A[2, 2])
        rough = maximum(mu, TINY)
        c = clip(size * (1 / rough - coupled) / first - stiff, 0.0, most)
        for _ in range(newton):
            n_c, t_c, dn, dt = _slipping(A, b, c)
            square = t_c @ t_c + TINY
            slope = mu * (dn * square - n_c * (t_c @ dt))
            c = clip(c - square * (mu * n_c - sqrt(square)) / where(slope > 0, slope, TINY), 0.1 * c, most)
        t_c = _slipping(A, b, c)[1]
        t_c = t_c / sqrt(t_c @ t_c + TINY)  # with this direction, the rest of the law is exact
        n_c = -b[0] / maximum(a + mu * (A[0, 1:] @ t_c), 1e-6 * a)
        found = [where(sticks, x, y) for x, y in zip((n, *t), (n_c, *(mu * n_c * t_c)), strict=True)]
        return np.array([where(b[0] < 0, x, 0.0) for x in found])

    def defect(self, A: Array, w: Array, x: Array) -> Any:
        """|x - P(x - (w + mu |w_t| n) / a)|, P the projection onto the cone; zero where the law holds.

        De Saxce and Feng (1998), "The bipotential method".
        """
        mu, a = self.mu, A[0, 0]
        n = x[0] - (w[0] + mu * sqrt(w[1:] @ w[1:] + TINY)) / a
        t = x[1:] - w[1:] / a
        size = sqrt(t @ t + TINY)
        edge = (n + mu * size) / (1 + mu * mu)
        inside, polar = size <= mu * n, mu * size <= -n
        n_p = where(inside, n, where(polar, 0.0, edge))
        t_p = where(inside, 1.0, where(polar, 0.0, mu * edge / size)) * t
        off = np.concatenate([[x[0] - n_p], x[1:] - t_p])
        return sqrt(off @ off)


class Bounds(NamedTuple):
    """low <= x <= high, with w >= 0 at low, w <= 0 at high, w = 0 between them: limits, dry friction."""

    low: Any
    high: Any

    def solve(self, A: Array, b: Array, x: Array, newton: int) -> Array:
        """x of w = A x + b; A (1, 1)."""
        return np.array([clip(-b[0] / A[0, 0], self.low, self.high)])

    def defect(self, A: Array, w: Array, x: Array) -> Any:
        """|x - clip(x - w / a)|; zero where the law holds."""
        return absolute(x[0] - clip(x[0] - w[0] / A[0, 0], self.low, self.high))


class Saturation(NamedTuple):
    """What a drive at its limit gives up: |given + x| <= most, and x = 0 where less is given.

    given  offered - slope w, what the drive gives over the step, with w the velocity at the end of it
    """

    offered: Any
    slope: Any
    most: Any

    def solve(self, A: Array, b: Array, x: Array, newton: int) -> Array:
        """x of w = A x + b; A (1, 1)."""
        given = self.offered - self.slope * b[0]
        kept = clip(given, -self.most, self.most)
        return np.array([(kept - given) / (1 - self.slope * A[0, 0])])

    def defect(self, A: Array, w: Array, x: Array) -> Any:
        """How far x is from what the law asks for, where all others stay as they are."""
        return absolute(x[0] - self.solve(A, w - A[0] * x[0], x, 0)[0])


HELD = Bounds(-np.inf, np.inf)
"""Closed loops: w = 0, whatever it takes."""


class Block(NamedTuple):
    """The rows (m,) of one law in w = A x + b, A = X^T Y + diag(R), by their columns of X, Y (k, m)."""

    law: Any
    X: Array
    Y: Array
    R: Array
    b: Array

    @repeated
    def diagonal(self) -> Array:
        """A of these rows alone, (m, m)."""
        R = self.R
        return symmetric(len(R), lambda i, j: dot(self.X[:, i], self.Y[:, j]) + (R[i] if i == j else 0))


def formed(blocks: Sequence[Block]) -> list[Block]:
    """The same, with X^T Y in place of Y and X = 1: of few rows, sweeps are shorter then."""
    if not blocks:
        return []
    X, Y = (np.concatenate([getattr(block, k) for block in blocks], axis=1) for k in "XY")
    A = symmetric(X.shape[1], lambda i, j: dot(X[:, i], Y[:, j]))
    ends, one = np.cumsum([0, *(len(block.R) for block in blocks)]).tolist(), np.eye(len(A), dtype=int)
    return [
        block._replace(X=one[:, i:j], Y=A[:, i:j])
        for block, (i, j) in zip(blocks, pairwise(ends), strict=True)
    ]


def gauss_seidel(
    blocks: Sequence[Block], x: Sequence[Array], sweeps: int, newton: int
) -> tuple[list[Array], Array, Any]:
    """Impulses x of w = A x + b, of each block, starting from x; y = X x; and the largest defect of a law.

    Sweeps go forth and back in turn, and carry y along, so that A is not formed. Each step takes the entries
    of y that its block reaches: blocks of legs that are alike are of a kind.
    """
    y: Array = np.zeros(len(blocks[0].X) if blocks else 0, int)
    at = [reached(block.X, block.Y) for block in blocks]
    blocks = [block._replace(X=block.X[a], Y=block.Y[a]) for block, a in zip(blocks, at, strict=True)]
    found, own, order = list(x), [block.diagonal() for block in blocks], list(range(len(blocks)))
    for i in order:
        y = put(y, at[i], _moved(blocks[i].X, found[i], y[at[i]]))
    for k in range(sweeps):
        for i in order if k % 2 == 0 else reversed(order):
            found[i], part = _solved(blocks[i], own[i], range(newton), found[i], y[at[i]])
            y = put(y, at[i], part)
    worst: Any = 0.0
    for i in order:
        worst = maximum(worst, _defect(blocks[i], own[i], found[i], y[at[i]]))
    return found, y, worst


def reached(*columns: Array) -> list[int]:
    """The rows in which an entry is not known to be zero."""
    rows = np.concatenate(columns, axis=1)
    return [i for i, row in enumerate(rows.tolist()) if not all(map(is_zero, row))]


def put(y: Array, at: list[int], part: Array) -> Array:
    """y with a part in place of these rows."""
    whole = np.array(y, object)
    whole[at] = part
    return np.array(whole.tolist()).reshape(whole.shape)


@repeated
def _moved(X: Array, x: Array, y: Array) -> Array:
    return y + product(X, x)


@repeated
def _solved(block: Block, A: Array, iterations: range, x: Array, y: Array) -> tuple[Array, Array]:
    """x of one law, with the others as they are, and y with it."""
    others = y - product(block.X, x)
    x = block.law.solve(A, block.b + product(block.Y.T, others), x, len(iterations))
    return x, others + product(block.X, x)


@repeated
def _defect(block: Block, A: Array, x: Array, y: Array) -> Any:
    return block.law.defect(A, product(block.Y.T, y) + block.R * x + block.b, x)


SWEEPS = (Block.diagonal, _moved, _solved, _defect)
"""What is done to each block."""


def _slipping(A: Array, b: Array, c: Any) -> tuple[Any, Array, Any, Array]:
    """x_n and x_t of (A + diag(0, c, c)) x = -b, and their derivatives by c."""
    p, q, r = A[1, 1] + c, A[1, 2], A[2, 2] + c
    reciprocal = 1 / (p * r - q * q)

    def inverse(t: Array) -> Array:
        return np.array([r * t[0] - q * t[1], p * t[1] - q * t[0]]) * reciprocal

    side = A[0, 1:]
    y = inverse(side)
    freed = 1 / (A[0, 0] - side @ y)
    given = inverse(b[1:])
    n = (side @ given - b[0]) * freed
    t = -(given + y * n)
    z = inverse(t)
    dn = (side @ z) * freed
    return n, t, dn, -(z + y * dn)


def within(force: Array, most: Any) -> Array:
    """The force, cut to this size."""
    size = force @ force
    cut = size > most * most
    return where(cut, most / sqrt(where(cut, size, 1.0)), 1.0) * force
