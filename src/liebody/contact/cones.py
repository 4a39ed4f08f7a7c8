"""Impulses x that obey laws of contact and friction, with velocities w = A x + b, by block Gauss-Seidel.

A = J M^-1 J^T + diag(R) is the inverse inertia that the contacts show, with their compliance R. Every sweep
solves the law of one block after the other, while the impulses of the other blocks are fixed. The law of a
contact is solved by one of two solvers: `ConeNewton`, which is exact, or `ProjectedStep`, which is cheaper.

Castro, Permenter and Han (2022), "An unconstrained convex formulation of compliant contact"; Hwangbo, Lee and
Hutter (2018), "Per-contact iteration method for solving contact dynamics".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..compiler import repeated
from ..scalars import Array, absolute, clip, maximum, sqrt, where
from ..scalars.linear import dot, is_zero, product, symmetric

TINY = 1e-30  # added to squares, so that the roots and quotients of zeros are finite
LARGEST = 1e9  # slip multiplier, in units of the block

# -- solvers of one contact ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProjectedStep:
    """One step of projected Gauss-Seidel from x: first the normal impulse, then the tangential ones.

    It does not solve the law, but converges to a solution over the sweeps; good on ground that gives way.
    """

    def solve_cone(self, mu: Any, A: Array, b: Array, x: Array) -> Array:
        """x (3,) of the law of `Cone` for w = A x + b, A (3, 3)."""
        w = A @ x + b
        n = maximum(x[0] - w[0] / A[0, 0], 0.0)
        # the tangential step uses the new normal impulse, and one step length for both directions
        t = x[1:] - (w[1:] - A[1:, 0] * (x[0] - n)) / maximum(A[1, 1], A[2, 2])
        return np.concatenate([[n], within(t, mu * n)])


@dataclass(frozen=True)
class ConeNewton:
    """Solves the law of a contact, by Newton's method for its slip multiplier; iterations: one or more.

    Where the solution of A x + b = 0 is outside the cone, the point slips: (A + diag(0, c, c)) x = -b with
    the multiplier c > 0 for which |x_t| = mu x_n. mu x_n / |x_t| - 1 is nearly linear in c; Newton's method
    starts from its asymptote for large c. The number of iterations is fixed, because lanes of vectors solve
    different contacts at once.
    """

    iterations: int

    def solve_cone(self, mu: Any, A: Array, b: Array, x: Array) -> Array:
        """x (3,) of the law of `Cone` for w = A x + b, A (3, 3); the start x is not needed."""
        a = A[0, 0]
        # sticking: c = 0
        n, t, *_ = _slipping(A, b, 0)
        sticks = (n > 0) & (t @ t <= mu * mu * n * n)
        # The start of the multiplier: for large c, x_n tends to -b_n / a and |x_t| to size / (c + stiff),
        # with the first correction `coupled`, so that mu x_n = |x_t| is linear in c.
        first = maximum(-b[0] / a, TINY)
        pull = b[1:] + A[1:, 0] * first
        size = sqrt(pull @ pull + TINY)
        e = pull / size
        coupled = A[0, 1:] @ e / a
        stiff = e @ (A[1:, 1:] @ e) - a * coupled * coupled
        most = LARGEST * (A[1, 1] + A[2, 2])
        rough = maximum(mu, TINY)
        c = clip(size * (1 / rough - coupled) / first - stiff, 0.0, most)
        # Newton's method for mu x_n / |x_t| = 1. A step divides c by ten at most, so that c stays positive.
        for _ in range(self.iterations):
            n_c, t_c, dn, dt = _slipping(A, b, c)
            square = t_c @ t_c + TINY
            slope = mu * (dn * square - n_c * (t_c @ dt))
            c = clip(c - square * (mu * n_c - sqrt(square)) / where(slope > 0, slope, TINY), 0.1 * c, most)
        # The iterations find the direction of slip. With this direction, the rest of the law is solved in
        # closed form, so that x is in the cone however many iterations there were.
        t_c = _slipping(A, b, c)[1]
        t_c = t_c / sqrt(t_c @ t_c + TINY)
        n_c = -b[0] / maximum(a + mu * (A[0, 1:] @ t_c), 1e-6 * a)
        x = [
            where(sticks, stuck, slipped)
            for stuck, slipped in zip((n, *t), (n_c, *(mu * n_c * t_c)), strict=True)
        ]
        return np.array([where(b[0] < 0, y, 0.0) for y in x])  # b_n >= 0: the point leaves the ground


ConeSolver = ProjectedStep | ConeNewton

# -- laws ---------------------------------------------------------------------------------------------------


class Cone(NamedTuple):
    """Coulomb's friction with unilateral contact: x = (x_n, x_t), w = (w_n, w_t), (3,) each.

    x_n >= 0, w_n >= 0, x_n w_n = 0,    |x_t| <= mu x_n,    mu x_n w_t = -|w_t| x_t
    """

    mu: Any

    def solve(self, A: Array, b: Array, x: Array, solver: ConeSolver) -> Array:
        """x of w = A x + b; A (3, 3)."""
        return solver.solve_cone(self.mu, A, b, x)

    def defect(self, A: Array, w: Array, x: Array) -> Any:
        """|x - P(x - (w + mu |w_t| n) / a)|, P the projection onto the cone; zero where the law holds.

        De Saxce and Feng (1998), "The bipotential method".
        """
        mu = self.mu
        a = A[0, 0]
        n = x[0] - (w[0] + mu * sqrt(w[1:] @ w[1:] + TINY)) / a
        t = x[1:] - w[1:] / a
        size = sqrt(t @ t + TINY)
        # The projection leaves points inside the cone, takes points of the polar cone to its apex, and all
        # others to the nearest point of its surface.
        edge = (n + mu * size) / (1 + mu * mu)
        inside = size <= mu * n
        polar = mu * size <= -n
        n_p = where(inside, n, where(polar, 0.0, edge))
        t_p = where(inside, 1.0, where(polar, 0.0, mu * edge / size)) * t
        off = np.concatenate([[x[0] - n_p], x[1:] - t_p])
        return sqrt(off @ off)


class Bounds(NamedTuple):
    """low <= x <= high, with w >= 0 at low, w <= 0 at high, w = 0 between them: limits, dry friction."""

    low: Any
    high: Any

    def solve(self, A: Array, b: Array, x: Array, solver: ConeSolver) -> Array:
        """x of w = A x + b; A (1, 1)."""
        return np.array([clip(-b[0] / A[0, 0], self.low, self.high)])

    def defect(self, A: Array, w: Array, x: Array) -> Any:
        """|x - clip(x - w / a)|; zero where the law holds."""
        return absolute(x[0] - clip(x[0] - w[0] / A[0, 0], self.low, self.high))


class Saturation(NamedTuple):
    """The impulse x that limits a drive: |given + x| <= most, and x = 0 where |given| <= most.

    given  impulse offered - slope w of the drive over the step, with the velocity w at the end of the step
    """

    offered: Any
    slope: Any
    most: Any

    def solve(self, A: Array, b: Array, x: Array, solver: ConeSolver) -> Array:
        """x of w = A x + b; A (1, 1)."""
        return self._solved(A, b)

    def _solved(self, A: Array, b: Array) -> Array:
        given = self.offered - self.slope * b[0]
        kept = clip(given, -self.most, self.most)
        return np.array([(kept - given) / (1 - self.slope * A[0, 0])])

    def defect(self, A: Array, w: Array, x: Array) -> Any:
        """Distance of x from the solution of the law, while all other impulses are fixed."""
        return absolute(x[0] - self._solved(A, w - A[0] * x[0])[0])


HELD = Bounds(-np.inf, np.inf)
"""Closed loops: w = 0, by an impulse of any size."""

# -- sweeps -------------------------------------------------------------------------------------------------


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
    """The same blocks with Y = X^T Y and X = 1. With few rows, sweeps over these are shorter."""
    if not blocks:
        return []
    X, Y = (np.concatenate([getattr(block, k) for block in blocks], axis=1) for k in "XY")
    A = symmetric(X.shape[1], lambda i, j: dot(X[:, i], Y[:, j]))
    ends = np.cumsum([0, *(len(block.R) for block in blocks)]).tolist()
    one = np.eye(len(A), dtype=int)
    return [
        block._replace(X=one[:, i:j], Y=A[:, i:j])
        for block, (i, j) in zip(blocks, pairwise(ends), strict=True)
    ]


def gauss_seidel(
    blocks: Sequence[Block], x: Sequence[Array], sweeps: int, solver: ConeSolver
) -> tuple[list[Array], Array, Any]:
    """Impulses x of w = A x + b, of each block, starting from x; y = X x; and the largest defect of a law.

    Sweeps go forth and back in turn, and carry y along, so that A is not formed. Each step takes only the
    entries of y that its block reaches, so that the blocks of equal legs are of one kind and become a loop.
    """
    y: Array = np.zeros(len(blocks[0].X) if blocks else 0, int)
    places = [reached(block.X, block.Y) for block in blocks]
    blocks = [block._replace(X=block.X[a], Y=block.Y[a]) for block, a in zip(blocks, places, strict=True)]
    impulses = list(x)
    diagonals = [block.diagonal() for block in blocks]
    order = list(range(len(blocks)))
    # y = X x of the impulses at the start
    for i in order:
        y = put(y, places[i], _moved(blocks[i].X, impulses[i], y[places[i]]))
    # The sweeps. Alternating directions carry information along chains of contacts both ways.
    for k in range(sweeps):
        for i in order if k % 2 == 0 else reversed(order):
            impulses[i], part = _solved(blocks[i], diagonals[i], solver, impulses[i], y[places[i]])
            y = put(y, places[i], part)
    # the defects, after the last change of any impulse
    worst: Any = 0.0
    for i in order:
        worst = maximum(worst, _defect(blocks[i], diagonals[i], impulses[i], y[places[i]]))
    return impulses, y, worst


def reached(*columns: Array) -> list[int]:
    """The rows in which an entry is not known to be zero."""
    rows = np.concatenate(columns, axis=1)
    return [i for i, row in enumerate(rows.tolist()) if not all(map(is_zero, row))]


def put(y: Array, at: list[int], part: Array) -> Array:
    """A copy of y with these rows replaced by a part."""
    whole = np.array(y, object)
    whole[at] = part
    return np.array(whole.tolist()).reshape(whole.shape)


@repeated
def _moved(X: Array, x: Array, y: Array) -> Array:
    """y with the impulses x of a block added."""
    return y + product(X, x)


@repeated
def _solved(block: Block, A: Array, solver: ConeSolver, x: Array, y: Array) -> tuple[Array, Array]:
    """The impulses x of one law, with the other impulses fixed, and y with the new x."""
    others = y - product(block.X, x)
    x = block.law.solve(A, block.b + product(block.Y.T, others), x, solver)
    return x, others + product(block.X, x)


@repeated
def _defect(block: Block, A: Array, x: Array, y: Array) -> Any:
    """The defect of the law of a block at x, with w = Y^T y + R x + b."""
    return block.law.defect(A, product(block.Y.T, y) + block.R * x + block.b, x)


REPEATED = (Block.diagonal, _moved, _solved, _defect)
"""Functions that are repeated for each block."""


def _slipping(A: Array, b: Array, c: Any) -> tuple[Any, Array, Any, Array]:
    """x_n and x_t of (A + diag(0, c, c)) x = -b, and their derivatives by c.

    The tangential part, the 2 x 2 block T = A_tt + c, is eliminated first: with s = A_nt,
    (A_nn - s T^-1 s) x_n = s T^-1 b_t - b_n and x_t = -T^-1 (b_t + s x_n).
    """
    p, q, r = A[1, 1] + c, A[1, 2], A[2, 2] + c
    reciprocal = 1 / (p * r - q * q)

    def inverse(t: Array) -> Array:
        return np.array([r * t[0] - q * t[1], p * t[1] - q * t[0]]) * reciprocal

    side = A[0, 1:]
    y = inverse(side)
    freed = 1 / (A[0, 0] - side @ y)
    t_0 = inverse(b[1:])
    n = (side @ t_0 - b[0]) * freed
    t = -(t_0 + y * n)
    # the derivative of T^-1 by c is -T^-2
    z = inverse(t)
    dn = (side @ z) * freed
    return n, t, dn, -(z + y * dn)


def within(force: Array, most: Any) -> Array:
    """The force, shortened to the length `most` if it is longer."""
    size = force @ force
    cut = size > most * most
    return where(cut, most / sqrt(where(cut, size, 1.0)), 1.0) * force
