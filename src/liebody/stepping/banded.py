"""Sparse elimination with pivots: which entries can be nonzero, whatever the values, and in which order.

Loops in C over a sparse matrix have bounds that are known when the code is printed, but pivots are chosen by
values at run time. An envelope bounds the entries for every choice of pivots.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import IntegrationError

SMALLEST_PIVOT = 1e-14  # of rows scaled to largest entries of 1; as in runtime/newton.h


class Envelope(NamedTuple):
    """Bounds of the loops of Gauss's elimination with partial pivoting, for every choice of pivots.

    In step k the candidates for the pivot and the rows that change lie before row rows[k], and their entries
    before column columns[k]. In all steps together, row i is used in columns start[i] to stop[i] - 1.

    George, Ng, "Symbolic factorization for sparse Gaussian elimination with partial pivoting", SIAM J. Sci.
    Stat. Comput. 8 (1987), with intervals in place of sets.
    """

    start: list[int]
    stop: list[int]
    rows: list[int]
    columns: list[int]

    @property
    def size(self) -> int:
        """Entries within the bounds of all rows."""
        return sum(self.stop) - sum(self.start)

    @property
    def diagonals(self) -> Diagonals:
        """Storage by diagonals, or by whole rows where that takes less."""
        n = len(self.start)
        below = max(np.arange(n) - self.start, default=0)
        stride = below + max(np.subtract(self.stop, np.arange(n)), default=1) - 1
        stride = -(-stride // 8) * 8  # a column is at one place of the cache's lines, which is 10 % faster
        stride, origin = (int(stride), int(below)) if stride < n else (n, 0)  # (n, 0): whole rows
        return Diagonals(stride, origin, origin + stride * max(n - 1, 0) + n)


class Diagonals(NamedTuple):
    """Storage of a matrix: entry (i, j) at `origin` + `stride` i + j, below `size`."""

    stride: int
    origin: int
    size: int


Places = Sequence[Sequence[int]] | np.ndarray


def envelope(n: int, places: Places) -> Envelope:
    """The envelope of a matrix (n, n) with entries at these places (row, column)."""
    # the first column of each row, and the column behind its last one
    i, j = np.array(places, int).reshape(-1, 2).T
    first = np.full(n, n)
    end = np.zeros(n, int)
    np.minimum.at(first, i, j)
    np.maximum.at(end, i, j + 1)
    begins: list[list[int]] = [[] for _ in range(n + 1)]  # the rows whose first entry is in a column
    for row, column in enumerate(first.tolist()):
        begins[column].append(row)
    # The candidates for pivot k are rows that begin at column k or earlier. Any of them may be exchanged with
    # row k, and its multiples are subtracted from the others: from then on all of them may reach the last
    # column that one of them has. `below` is behind the last candidate, `last` behind its last column.
    rows: list[int] = []
    columns: list[int] = []
    below = 0
    last = 0
    for k, row_end in enumerate(ends := end.tolist()):
        candidates = [row for row in begins[k] if row > k]
        last = max(k + 1, row_end, last if below > k else 0, *(ends[row] for row in candidates))
        below = max(k + 1, below, *(row + 1 for row in candidates))
        rows.append(below)
        columns.append(last)
    reached = np.searchsorted(rows, np.arange(n), side="right")  # the first step that looks at a row
    start = np.minimum(np.minimum(first, np.arange(n)), reached)
    stop = np.maximum(np.maximum(end, np.arange(n) + 1), columns)
    return Envelope(start.tolist(), stop.tolist(), rows, columns)


def ordering(n: int, places: Places) -> list[int]:
    """An order of equations and unknowns, the same for both, in which the envelope is small.

    Cuthill and McKee's (1969), reversed, on the graph of the symmetrised pattern; or 0, 1, ..., n - 1 where
    this order is as good.
    """
    joined: list[set[int]] = [set() for _ in range(n)]
    for i, j in places:
        if i != j:
            joined[i].add(j)
            joined[j].add(i)
    neighbours = [sorted(x) for x in joined]
    # Each connected part is searched in breadth, from a node at its rim, neighbours of low degree first: so
    # nodes of neighbouring levels, and with them the entries of the matrix, stay close to the diagonal.
    order: list[int] = []
    left = set(range(n))
    seeds = iter(sorted(left, key=lambda i: (len(neighbours[i]), i)))
    while left:
        queue = [_far_end(next(i for i in seeds if i in left), neighbours)]
        left.discard(queue[0])
        for node in queue:
            order.append(node)
            following = sorted((i for i in neighbours[node] if i in left), key=lambda i: len(neighbours[i]))
            left.difference_update(following)
            queue.extend(following)
    order.reverse()
    if envelope(n, reordered(places, order)).size < envelope(n, places).size:
        return order
    return list(range(n))


def solve(n: int, places: Places, values: Any, b: Any, least: float = SMALLEST_PIVOT) -> np.ndarray:
    """x of A x = b (n,), where A has these values at these places and is zero elsewhere.

    Errors: IntegrationError where a pivot, of rows scaled to largest entries of 1, is not above `least`.
    """
    order, moved, bounds = _planned(n, np.array(places, int).tobytes())
    # A view of the diagonals as a matrix: entries outside the envelope overlap others, and are never used.
    stride, origin, size = bounds.diagonals
    A = np.lib.stride_tricks.as_strided(np.zeros(size)[origin:], (n, n), (8 * stride, 8))
    i, j = moved.T
    scale = np.zeros(n)
    np.maximum.at(scale, i, np.abs(values))
    with np.errstate(all="ignore"):
        A[i, j] = np.asarray(values, float) / scale[i]
        x = np.asarray(b, float)[order] / scale
    # elimination with partial pivoting, within the envelope
    for k in range(n):
        rows = slice(k + 1, bounds.rows[k])
        columns = slice(k + 1, bounds.columns[k])
        pivot = k + int(np.argmax(np.abs(A[k : bounds.rows[k], k])))
        if not abs(A[pivot, k]) > least:
            raise IntegrationError("the equations are singular")
        if pivot != k:
            A[[k, pivot], k : columns.stop] = A[[pivot, k], k : columns.stop]
            x[[k, pivot]] = x[[pivot, k]]
        multiples = A[rows, k] / A[k, k]
        A[rows, columns] -= multiples[:, None] * A[k, columns]
        x[rows] -= multiples * x[k]
    # back substitution
    for k in reversed(range(n)):
        columns = slice(k + 1, bounds.columns[k])
        x[k] = (x[k] - A[k, columns] @ x[columns]) / A[k, k]
    result = np.empty(n)
    result[order] = x
    return result


@lru_cache(maxsize=1)  # states nearby have entries at the same places
def _planned(n: int, places: bytes) -> tuple[list[int], np.ndarray, Envelope]:
    """An order, the places in it, (., 2), and their envelope."""
    pairs = np.frombuffer(places, int).reshape(-1, 2)
    order = ordering(n, pairs.tolist())
    moved = reordered(pairs, order)
    return order, moved, envelope(n, moved)


def reordered(places: Places, order: Sequence[int]) -> np.ndarray:
    """These places (., 2) after equations and unknowns are brought into this order."""
    rank: np.ndarray = np.argsort(order)
    return rank[np.array(places, int).reshape(-1, 2)]


def _far_end(node: int, neighbours: Sequence[Sequence[int]]) -> int:
    """A pseudo-peripheral node: repeat breadth-first searches from the farthest node of the last one."""
    for _ in range(3):
        reached = {node}
        queue = [node]
        for i in queue:
            new = [j for j in neighbours[i] if j not in reached]
            reached.update(new)
            queue.extend(new)
        node = queue[-1]
    return node
