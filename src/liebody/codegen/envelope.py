"""Where a sparse matrix can have entries while it is factored with row exchanges, known before its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


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


def envelope(pattern: np.ndarray) -> Envelope:
    """The envelope of a square matrix with entries where `pattern` (n, n) is true."""
    n = len(pattern)
    first = [int(np.argmax(row)) if row.any() else n for row in pattern]
    end = [n - int(np.argmax(row[::-1])) if row.any() else 0 for row in pattern]
    start = [min(i, j) for i, j in enumerate(first)]
    stop = [max(i + 1, j) for i, j in enumerate(end)]
    rows, columns = [], []
    for k in range(n):
        members = [k, *(i for i in range(k + 1, n) if first[i] <= k)]
        last = max(k + 1, *(end[i] for i in members))
        for i in members:  # any of them may be exchanged with any other
            first[i], end[i] = k + 1, last
            stop[i] = max(stop[i], last)
        for i in range(k, members[-1] + 1):  # rows between are looked at in this column, too
            start[i] = min(start[i], k)
        rows.append(members[-1] + 1)
        columns.append(last)
    return Envelope(start, stop, rows, columns)


def ordering(pattern: np.ndarray) -> list[int]:
    """An order of equations and unknowns, the same for both, in which the envelope is small.

    That of Cuthill and McKee (1969), reversed, on the graph of the symmetrised pattern; the given order where
    that is no worse.
    """
    n = len(pattern)
    neighbours = [
        sorted(set(np.flatnonzero(row).tolist()) - {i}) for i, row in enumerate(pattern | pattern.T)
    ]
    order: list[int] = []
    left = set(range(n))
    while left:
        queue = [_far_end(min(left, key=lambda i: (len(neighbours[i]), i)), neighbours)]
        left.discard(queue[0])
        for node in queue:
            order.append(node)
            following = sorted((i for i in neighbours[node] if i in left), key=lambda i: len(neighbours[i]))
            left.difference_update(following)
            queue.extend(following)
    order.reverse()
    if envelope(pattern[np.ix_(order, order)]).size < envelope(pattern).size:
        return order
    return list(range(n))


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
