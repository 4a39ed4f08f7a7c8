"""Matrices of mechanical systems by their blocks, and linear systems with such matrices.

M and J of a chain of bodies have a few blocks per body, and zeros elsewhere. As lists of blocks they cost
time in proportion to the bodies, and a traced program can loop over blocks that are alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.arguments import wrong_shape
from ..base.errors import IntegrationError, ShapeError
from ..compiler import repeated
from ..scalars import Array
from ..scalars.linear import back_substitute, factor, is_zero, product
from ..stepping.banded import solve as solve_sparse

REGULARIZATION = 1e-6
"""eps of the proximal point method for the equations of a step.

`elimination.PROXIMAL` is 1e-8: it shifts the factors of A = J M^-1 J^T, this one the Jacobian of a step.
Results depend on both to the last bit.
"""
REFINEMENTS = 3  # iterations of the proximal point method, in which errors fall by the ratio eps
FLOOR = 1e-6  # part of the mean of the diagonal of J M^-1 J^T that every row gets at least
INDEPENDENT = 1e-12  # smallest pivot of independent rows, where the largest entry of J is 1
BORDER = 1e-5  # diagonal in place of M in that test, relative to the largest entry of J

Blocks = list[tuple[int, int, Any]]
"""A matrix: first row, first column, and a number or a matrix for each block"""
Entries = list[tuple[int, int, Any]]
"""A matrix by numbers alone: row, column, value"""


def multiply(A: Blocks, x: Array, rows: int, transposed: bool = False) -> Array:
    """A x, or A^T x, (rows, ...) of a matrix by its blocks, and a vector or a matrix x."""
    # Integer zeros: in a trace a row without a block stays zero, and costs no addition.
    sums: list[Any] = [np.zeros(np.shape(x)[1:], int)[()]] * rows
    for *place, a in A:
        i, j = place[::-1] if transposed else place
        if not getattr(a, "ndim", 0):
            sums[i] = sums[i] + a * x[j]
            continue
        k, l = a.shape[::-1] if transposed else a.shape
        sums[i : i + k] = _added(np.array(sums[i : i + k]), a, x[j : j + l], transposed)
    return np.array(sums)


@repeated
def _added(before: Array, A: Array, x: Array, transposed: bool) -> Array:
    return before + product(A.T if transposed else A, x)


def entries_of(blocks: Blocks) -> Entries:
    """The entries in these blocks that are not known to be zero."""
    entries = [
        (i + k, j + l, x) for i, j, block in blocks for (k, l), x in np.ndenumerate(np.atleast_2d(block))
    ]
    return [entry for entry in entries if not is_zero(entry[2])]


# Constant inertia matrices


def constant_inertia(M: Any, dim: int, group: str) -> tuple[Blocks, Blocks]:
    """The blocks of a constant M and of its inverse.

    M      (dim, dim), or a list of its diagonal blocks (i, i, block)
    group  its name, for messages

    Errors: ShapeError where M has another size, or is not symmetric positive definite.
    """
    # A dense M is parted into blocks first, so that its inverse has no more entries than it needs.
    if isinstance(M, list):
        parts = [(np.arange(i, i + len(block)), np.array(block, float)) for i, _, block in M]
        rows = sum(len(part) for part, _ in parts)
        check_shape(group, "M", np.broadcast_to(0.0, (rows, rows)), (dim, dim))
    else:
        M = np.array(M, dtype=float)
        check_shape(group, "M", M, (dim, dim))
        parts = _diagonal_blocks(M)
    for _, block in parts:
        alike = (abs(block - block.T) <= 1e-9 * abs(block)).all()  # which NaN is not
        if not alike or np.linalg.eigvalsh(block).min() <= 0:
            raise ShapeError("M must be symmetric positive definite; check the inertias it is made of")
    inverses = [(places, np.linalg.inv(block)) for places, block in parts]
    # round-off of the inversion would stand in traced code as if it were an entry
    least = 1e-15 * max((np.abs(x).max() for _, x in inverses), default=0.0)
    rounded = [(places, np.where(np.abs(x) > least, x, 0)) for places, x in inverses]
    return _placed(parts), _placed(rounded)


def check_shape(group: str, name: str, value: Any, expected: tuple[int, ...]) -> None:
    """Raise ShapeError where a value, unless it is None, has another shape than expected."""
    if value is not None and np.shape(value) != expected:
        raise wrong_shape(f"{name} on {group}", np.shape(value), expected)


def _diagonal_blocks(M: Array) -> list[tuple[np.ndarray, np.ndarray]]:
    """The diagonal blocks of a matrix outside which it is zero: indices, and the matrix at them."""
    # each row begins as a block; each entry beside the diagonal joins the blocks of its row and its column
    block = np.arange(len(M))
    for i, j in np.argwhere(M - np.diag(np.diag(M))).tolist():
        if block[i] != block[j]:
            block[block == block[i]] = block[j]
    order = np.argsort(block, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(block[order])) + 1) if len(M) else []
    return [(part, M[np.ix_(part, part)]) for part in parts]


def _placed(parts: list[tuple[np.ndarray, np.ndarray]]) -> Blocks:
    """A matrix from blocks with their indices: blocks where indices follow each other, otherwise entries."""
    placed: Blocks = []
    for indices, block in parts:
        if len(indices) > 1 and np.ptp(indices) == len(indices) - 1:
            placed.append((int(indices[0]), int(indices[0]), block))
        else:
            placed += [(int(indices[i]), int(indices[j]), block[i, j].item()) for i, j in np.argwhere(block)]
    return sorted(placed, key=lambda place: place[:2])


# Linear systems with a border:  M a + J^T x = force,  J a = rate


def solve_bordered(
    M: Entries, J: Entries, force: Array, rate: Array, shifts: Array | None
) -> tuple[np.ndarray, np.ndarray]:
    """(a, x) with  M a + J^T x = force,  J a = rate,  in numbers: sparse, with pivots.

    shifts  eps D, (m,), where rows of J may depend on each other: x has the least norm in the metric D, by
            the proximal point method,  J a - eps D x <- rate - eps D x.  None: independent rows
    """
    n, m = len(force), len(rate)
    places, values = _bordered(M, J, n)
    if shifts is None:
        x = solve_sparse(n + m, places, values, np.concatenate([force, rate]))
        return x[:n], x[n:]
    # Solve J a - eps D x = rate - eps D (last x): where x no longer changes, J a = rate. From x = 0, no
    # correction has a component without effect, hence the least norm.
    places += [(i, i) for i in range(n, n + m)]
    values += (-shifts).tolist()
    x = np.zeros(n + m)
    for _ in range(REFINEMENTS):
        x = solve_sparse(n + m, places, values, np.concatenate([force, rate - shifts * x[n:]]))
    return x[:n], x[n:]


def independent(J: Entries, rows: int, columns: int) -> bool:
    """Whether the rows of J are independent, by the pivots of [eps J^T; J 0].

    The diagonal eps gives pivots to the directions in which no row acts.
    """
    # Elimination of the first rows leaves -J J^T/eps: dependent rows give a pivot of round-off.
    size = columns + rows
    largest = max((abs(x) for _, _, x in J), default=1.0)
    places, values = _bordered([(i, i, BORDER * largest) for i in range(columns)], J, columns)
    try:
        solve_sparse(size, places, values, np.zeros(size), least=INDEPENDENT)
    except IntegrationError:
        return False
    return True


def _bordered(A: Entries, J: Entries, columns: int) -> tuple[list[tuple[int, int]], list[float]]:
    """Places and values of [A J^T; J 0]."""
    below = [(i + columns, j) for i, j, _ in J]
    places = [(i, j) for i, j, _ in A] + below + [(j, i) for i, j in below]
    return places, [x for _, _, x in A] + 2 * [x for _, _, x in J]


# The same in symbols:  J M^-1 J^T x = rate


def least_norm(A: Array, rate: Array) -> Array:
    """x of A x = rate for a singular A, of least norm in the metric of its diagonal; can be traced."""
    # Iterative refinement with the factors of the shifted matrix, which is regular: a fixed number of
    # corrections, because traced code has no loop that ends by a condition.
    factors = factor(A + np.diag(shifts_of(np.diagonal(A))))
    x = back_substitute(factors, rate)
    for _ in range(REFINEMENTS - 1):
        x = x + back_substitute(factors, rate - product(A, x))
    return x


def shifts_of_rows(J: Blocks, inverse: Blocks, rows: int) -> Array | None:
    """eps diag(J M^-1 J^T), (rows,), block by block; None where blocks of J and M^-1 do not match."""
    # the blocks of M^-1 by their first index: each block of J needs the one of its columns, of its width
    blocks = {i: (len(block), block) for i, _, block in inverse if np.ndim(block)}
    if not all(np.ndim(block) and blocks.get(j, (0,))[0] == block.shape[1] for _, j, block in J):
        return None
    same_rows: dict[tuple[int, int], list[tuple[Array, Array]]] = {}
    for i, j, block in J:
        same_rows.setdefault((i, len(block)), []).append((block, blocks[j][1]))
    shifts = np.zeros(rows, int).astype(object)
    for (i, k), pairs in same_rows.items():
        shifts[i : i + k] = _own_shifts(pairs)
    return shifts


@repeated
def _own_shifts(pairs: list[tuple[Array, Array]]) -> Array:
    """eps d for rows of J with these blocks, each beside the block of M^-1 for its columns."""
    return shifts_of(sum((J * product(inverse, J.T).T).sum(axis=1) for J, inverse in pairs))


def shifts_of(d: Array) -> Array:
    """eps d for entries d of the diagonal of J M^-1 J^T, with a floor for rows of zeros."""
    return REGULARIZATION * (d + FLOOR * sum(d) / len(d))
