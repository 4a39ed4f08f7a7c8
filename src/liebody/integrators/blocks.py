"""Matrices of mechanical systems by their blocks.

M and J of a chain of bodies have a few blocks per body, and zeros elsewhere. As lists of blocks they cost
time in proportion to the bodies, and a traced program can loop over blocks that are alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.arguments import wrong_shape
from ..base.errors import ShapeError
from ..compiler import repeated
from ..scalars import Array
from ..scalars.linear import is_zero, product

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
        # a list says its size by its blocks; a view of one zero stands for the whole matrix
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
