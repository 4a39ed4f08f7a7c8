"""Where a sparse matrix can have entries while it is factored with row exchanges, known before its values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import IntegrationError

SMALLEST_PIVOT = 1e-14  # of rows scaled to largest entries of 1; as in runtime/newton.h


class Envelope(NamedTuple):
    """Bounds of the loops of Gauss's elimination with partial pivoting, whichever pivots are chosen.

    In step k the candidates for the pivot, and the rows that are changed, lie before row rows[k], and their
    entries before column columns[k]. All that is ever used of row i lies in columns start[i] to stop[i] - 1.

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
        """Diagonals side by side, as many as there are; or whole rows, where these are fewer."""
        n = len(self.start)
        below = max(np.arange(n) - self.start, default=0)
        stride = below + max(np.subtract(self.stop, np.arange(n)), default=1) - 1
        stride = -(-stride // 8) * 8  # a column is at one place of the cache's lines, which is 10 % faster
        stride, origin = (int(stride), int(below)) if stride < n else (n, 0)
        return Diagonals(stride, origin, origin + stride * max(n - 1, 0) + n)


class Diagonals(NamedTuple):
    """Where a matrix is kept: entry (i, j) at `origin` + `stride` i + j, below `size`."""

    stride: int
    origin: int
    size: int


Places = Sequence[Sequence[int]] | np.ndarray


def envelope(n: int, places: Places) -> Envelope:
    """The envelope of a matrix (n, n) with entries at these places (row, column)."""
    i, j = np.array(places, int).reshape(-1, 2).T
    first, end = np.full(n, n), np.zeros(n, int)
    np.minimum.at(first, i, j)
    np.maximum.at(end, i, j + 1)
    begins: list[list[int]] = [[] for _ in range(n + 1)]  # the rows whose first entry is in a column
    for row, column in enumerate(first.tolist()):
        begins[column].append(row)
    rows, columns = [], []
    below, last = 0, 0  # of the rows that may be exchanged with row k, which then end alike
    for k, own in enumerate(ends := end.tolist()):
        found = [row for row in begins[k] if row > k]
        last = max(k + 1, own, last if below > k else 0, *(ends[row] for row in found))
        below = max(k + 1, below, *(row + 1 for row in found))
        rows.append(below)
        columns.append(last)
    reached = np.searchsorted(rows, np.arange(n), side="right")  # the first step that looks at a row
    start = np.minimum(np.minimum(first, np.arange(n)), reached)
    stop = np.maximum(np.maximum(end, np.arange(n) + 1), columns)
    return Envelope(start.tolist(), stop.tolist(), rows, columns)


def ordering(n: int, places: Places) -> list[int]:
    """An order of equations and unknowns, the same for both, in which the envelope is small.

    That of Cuthill and McKee (1969), reversed, on the graph of the symmetrised pattern; the given order where
    that is no worse.
    """
    joined: list[set[int]] = [set() for _ in range(n)]
    for i, j in places:
        if i != j:
            joined[i].add(j)
            joined[j].add(i)
    neighbours = [sorted(x) for x in joined]
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
    """x of A x = b (n,), where A has these values at these places, and zeros elsewhere.

    Errors: IntegrationError where a pivot, of rows scaled to largest entries of 1, is not above `least`.
    """
    order, moved, bounds = _planned(n, np.array(places, int).tobytes())
    stride, origin, size = bounds.diagonals
    A = np.lib.stride_tricks.as_strided(np.zeros(size)[origin:], (n, n), (8 * stride, 8))
    i, j = moved.T
    scale = np.zeros(n)
    np.maximum.at(scale, i, np.abs(values))
    with np.errstate(all="ignore"):
        A[i, j] = np.asarray(values, float) / scale[i]
        x = np.asarray(b, float)[order] / scale
    for k in range(n):
        rows, columns = slice(k + 1, bounds.rows[k]), slice(k + 1, bounds.columns[k])
        pivot = k + int(np.argmax(np.abs(A[k : bounds.rows[k], k])))
        if not abs(A[pivot, k]) > least:
            raise IntegrationError("the equations are singular")
        if pivot != k:
            A[[k, pivot], k : columns.stop] = A[[pivot, k], k : columns.stop]
            x[[k, pivot]] = x[[pivot, k]]
        multiples = A[rows, k] / A[k, k]
        A[rows, columns] -= multiples[:, None] * A[k, columns]
        x[rows] -= multiples * x[k]
    for k in reversed(range(n)):
        columns = slice(k + 1, bounds.columns[k])
        x[k] = (x[k] - A[k, columns] @ x[columns]) / A[k, k]
    result = np.empty(n)
    result[order] = x
    return result


@lru_cache(maxsize=1)  # states nearby have entries at the same places
def _planned(n: int, places: bytes) -> tuple[list[int], np.ndarray, Envelope]:
    """An order, the places in it, (., 2), and their envelope."""
    given = np.frombuffer(places, int).reshape(-1, 2)
    order = ordering(n, given.tolist())
    moved = reordered(given, order)
    return order, moved, envelope(n, moved)


def reordered(places: Places, order: Sequence[int]) -> np.ndarray:
    """These places (., 2) of a matrix when equations and unknowns are in this order."""
    rank: np.ndarray = np.argsort(order)
    return rank[np.array(places, int).reshape(-1, 2)]


def _far_end(node: int, neighbours: Sequence[Sequence[int]]) -> int:
    """A node at the rim of the graph: the last that searches, each from the end of the one before, find."""
    for _ in range(3):
        found, queue = {node}, [node]
        for i in queue:
            new = [j for j in neighbours[i] if j not in found]
            found.update(new)
            queue.extend(new)
        node = queue[-1]
    return node
