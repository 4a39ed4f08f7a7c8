"""The problem for impulses, w = A x + b, of rows in the velocities of a robot, with its loops eliminated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compiler import repeated
from ..scalars import Array
from ..scalars.linear import dot, factor, inward, is_zero, outward, product, square, symmetric
from .cones import HELD, Block, formed, put, reached

FORMED = 15  # rows up to which sweeps with J M^-1 J^T are shorter than those with its factors


class Row(NamedTuple):
    """Rows of one law: w = J v' + bias + R x. The search starts from x, the impulses of the last step."""

    J: Array
    bias: Array
    R: Array
    law: Any
    x: Array


class Push(NamedTuple):
    """Impulses x (m,) of rows, and the velocities J v along them before and after."""

    x: Array
    before: Array
    after: Array

    @property
    def work(self) -> Any:
        """Work of the impulses, by the mean of the velocities before and after.  [J]"""
        return self.x @ (0.5 * (self.before + self.after))


class Impulses(NamedTuple):
    """The push on each row, the largest defect of a law, the change of v (nv,)."""

    pushes: list[Push]
    residual: Any
    change: Array


class Problem(NamedTuple):
    """w = J v' + bias + R x of rows, with v' = v + M^-1 (L^T r + J^T x), made of M = L^T diag(d) L.

    With X = L^-T J^T and Y = X / d, J M^-1 J^T = X^T Y. Rows of closed loops are held, w = 0, and eliminated.
    The other rows see the inverse inertia that the loops leave: X^T Y - C^T B^-1 C, with the matrix
    B = L_B^T d_B L_B of the held rows and the coupling C. It is the product of longer columns: Z = L_B^-T C
    below X, and -Z / d_B below Y. So no sweep over contacts opens a loop.

    rows    all rows
    seen    each row in the factors of M; rows that are not held also with Z
    loops   the held rows together
    held    indices of held rows
    others  indices of all other rows
    blocks  the blocks of `others`
    few     whether blocks are `formed`
    """

    rows: Sequence[Row]
    seen: list[_Seen]
    loops: _Loops
    held: list[int]
    others: list[int]
    blocks: list[Block]
    few: bool

    @classmethod
    def of(cls, factors: Any, v: Array, r: Array, rows: Sequence[Row]) -> Problem:
        """factors: L and 1/d of M."""
        L = square(factors[0])
        scale = np.array(factors[1])
        # rows in the factors of M, each by itself
        seen = [_in_factors(L, scale, row, v, r) for row in rows]
        held, others = ([i for i, row in enumerate(rows) if (row.law is HELD) is x] for x in (True, False))
        loops = _Loops.of(len(v), [seen[i] for i in held], [rows[i].R for i in held])
        # eliminate the held rows: the columns of all others get longer
        for i in others if held else ():
            seen[i] = loops.beside(seen[i])
        blocks = [Block(rows[i].law, seen[i].X, seen[i].Y, rows[i].R, seen[i].b) for i in others]
        # With few rows the product X^T Y is formed once, with many the sweeps use the sparse factors.
        few = sum(len(block.R) for block in blocks) <= FORMED
        return cls(rows, seen, loops, held, others, formed(blocks) if few else blocks, few)

    def pushed(self, factors: Any, r: Array, x: Sequence[Array], y: Array) -> tuple[list[Push], Array]:
        """The push on each row by impulses x of the others and y = X x, and the change of v (nv,)."""
        rows = self.rows
        seen = self.seen
        loops = self.loops
        n = len(r)
        # y = X x is the effect on velocities (nv,), followed by the effect on the held rows. Formed blocks
        # have X = 1, so that their y is x.
        pushed = y
        if self.few:
            none = np.zeros((n + len(self.held), 0), int)
            pushed = product(np.concatenate([none, *(seen[i].X for i in self.others)], axis=1), y)
        # the impulses that hold the loops against all the others, by back substitution
        taken = -outward((loops.L, loops.scale), loops.z + pushed[n:])
        # velocities along each row after all impulses: by y for swept rows, by the law for held ones
        pushes = {}
        for i, block, impulse in zip(self.others, self.blocks, x, strict=True):
            at = reached(block.Y)
            pushes[i] = Push(impulse, seen[i].before, after_all(seen[i].free, block.Y[at], y[at]))
        for i, impulse in zip(self.held, taken[:, None], strict=True):
            # w = J v' + bias + R x = 0 tells J v'
            pushes[i] = Push(impulse, seen[i].before, -rows[i].bias - rows[i].R * impulse)
        # back to velocities: (M^-1 L^T) (r + X x), with the impulses of the loops
        change = outward(factors, r + pushed[:n] + product(loops.X, taken))
        return [pushes[i] for i in range(len(rows))], change


class _Seen(NamedTuple):
    """A row in factors of M.

    X, Y    L^-T J^T and X / d, (nv, m)
    before  J v before the step
    free    J v after the step without impulses x: J (v + M^-1 L^T r)
    b       of w = A x + b
    """

    X: Array
    Y: Array
    before: Array
    free: Array
    b: Array


def _in_factors(L: Array, scale: Array, row: Row, v: Array, r: Array) -> _Seen:
    """A row in the factors of M, computed with the velocities on its path to the base only.

    So rows of equal legs are of one kind, and become a loop.
    """
    # L has the pattern of the tree: an entry L[k, i] leads from velocity k to the velocity i that carries it
    at = set(reached(row.J.T))
    # from the tips to the base: children come after their parents
    for k in reversed(range(len(v))):
        at |= {i for i in range(k) if not is_zero(L[k, i])} if k in at else set()
    a = sorted(at)
    whole = np.zeros((len(v), len(row.bias)), int)
    X, Y, *others = _seen(L[np.ix_(a, a)], scale[a], row.J[:, a], row.bias, v[a], r[a])
    return _Seen(put(whole, a, X), put(whole, a, Y), *others)


@repeated
def _seen(L: Array, scale: Array, J: Array, bias: Array, v: Array, r: Array) -> tuple[Array, ...]:
    X = inward((L, scale), J.T)
    Y = X * scale[:, None]
    before = product(J, v)
    free = before + product(Y.T, r)
    return X, Y, before, free, free + bias


class _Loops(NamedTuple):
    """Held rows: their X, Y (nv, m), factors L and scale of B = X^T Y + R, and z = L^-T b of B x + b = 0."""

    X: Array
    Y: Array
    L: Array
    scale: Array
    z: Array

    @classmethod
    def of(cls, n: int, rows: Sequence[_Seen], shifts: Sequence[Array]) -> _Loops:
        none = np.zeros((n, 0), int)  # so that concatenations have a shape without held rows
        X, Y = (np.concatenate([none, *(getattr(row, k) for row in rows)], axis=1) for k in "XY")
        # R regularises redundant loops, whose rows of B are dependent
        R, b = (np.concatenate([none[0], *x]) for x in (shifts, [row.b for row in rows]))
        B = factor(symmetric(len(b), lambda i, j: dot(X[:, i], Y[:, j]) + (R[i] if i == j else 0)))
        return cls(X, Y, square(B[0]), np.array(B[1]), inward(B, b))

    def beside(self, row: _Seen) -> _Seen:
        """A row with longer columns, so that X^T Y is the inverse inertia that the held rows leave."""
        at = reached(row.X)
        Z, W, more = _beside(self.L, self.scale, self.z, self.Y[at], row.X[at])
        X = np.concatenate([row.X, Z])
        Y = np.concatenate([row.Y, W])
        return _Seen(X, Y, row.before, row.free + more, row.b + more)


@repeated
def _beside(L: Array, scale: Array, z: Array, held: Array, X: Array) -> tuple[Array, Array, Array]:
    """Z and W = -Z / d_B, which stand below X and Y of a row, and the change of its b by the held rows."""
    Z = inward((L, scale), product(held.T, X))
    W = -Z * scale[:, None]
    return Z, W, product(W.T, z)


@repeated
def after_all(free: Array, Y: Array, y: Array) -> Array:
    """Velocities along a row after all impulses, y = X x."""
    return free + product(Y.T, y)


REPEATED = (_seen, _beside, after_all)
"""Functions that are repeated for each row."""
