"""Small linear algebra over any scalar: floats, or the symbols of a trace.

`numpy.linalg` works on floats only. These are plain formulas in + - * /; an entry that is known to
be zero while tracing costs nothing, and symmetric matrices are computed in their upper triangle alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from ..base.errors import ConfigurationError, ShapeError
from . import Array, sqrt, where


def is_numeric(*arrays: Any) -> bool:
    """Whether the values are known: False as soon as one array holds symbols, of a trace or of SymPy."""
    objects = (a for a in map(np.asarray, arrays) if a.dtype == object)
    return all(isinstance(x, Real) for a in objects for x in a.flat)


def cross(a: Array, b: Array) -> Array:
    """a x b of two 3-vectors."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def skew(a: Array) -> Array:
    """[a] (3, 3):  [a] b = a x b."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def symmetric(n: int, entry: Callable[[int, int], Any]) -> Array:
    """The symmetric (n, n) matrix whose upper triangle is entry(i, j), i <= j; the rest is mirrored."""
    # each entry of the upper triangle is computed once, so that a trace holds it once
    upper = {(i, j): entry(i, j) for i in range(n) for j in range(i, n)}
    return np.array([[upper[min(i, j), max(i, j)] for j in range(n)] for i in range(n)]).reshape(n, n)


def product(A: Array, B: Array) -> Array:
    """A B of a matrix with a matrix or a vector, without the terms in which a factor is known to be zero."""
    A, B = np.asarray(A), np.asarray(B)
    if A.dtype != object and B.dtype != object:
        return A @ B
    columns = B.reshape(len(B), math.prod(B.shape[1:]))
    # only pairs of entries that are both not known to be zero become terms
    entries = [[(k, x) for k, x in enumerate(row) if not is_zero(x)] for row in columns]
    result = np.zeros((len(A), columns.shape[1]), int).astype(object)
    known = A if A.dtype != object else np.reshape([not is_zero(x) for x in A.flat], A.shape)
    for i, j in np.argwhere(known).tolist():
        for k, y in entries[j]:
            result[i, k] = result[i, k] + A[i, j] * y
    return result.reshape(len(A), *B.shape[1:])


def dot(a: Array, b: Array) -> Any:
    """a . b without the terms that are known to be zero."""
    return product(np.reshape(a, (1, -1)), b)[0]


def square(rows: list[list[Any]]) -> Array:
    """The rows of a strict lower triangle as a matrix (n, n)."""
    n = len(rows)
    return np.array([[*row, *[0] * (n - len(row))] for row in rows]).reshape(n, n)


def matvec(A: Any, x: Any) -> Any:
    """A x over leading axes, of numbers: matrices (..., k, m), vectors (..., m)."""
    return np.einsum("...km,...m->...k", A, x)


def factor(
    A: Array, regular: Callable[[int, Any], Any] = lambda k, d: d
) -> tuple[list[list[Any]], list[Any]]:
    """L and 1/d of A = L^T diag(d) L, with L unit lower triangular and A symmetric positive definite.

    Returns L as a list of its strict rows and the reciprocals of d; regular(k, d_k) takes the place of d_k.
    The last row is eliminated first. Where A is the mass matrix of a tree whose parents come before their
    children, entries of A that are zero because two bodies lie on different branches stay zero in L, so the
    factorisation is as sparse as the tree.

    Featherstone (2005), "Efficient factorization of the joint-space inertia matrix for branched kinematic
    trees".
    """
    A = np.asarray(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"a matrix of shape {A.shape} cannot be factored; expected a square one, (n, n)")
    n = len(A)
    rest = [[A[i, j] for j in range(i + 1)] for i in range(n)]  # lower triangle, overwritten by elimination
    L: list[list[Any]] = [[] for _ in range(n)]
    reciprocals: list[Any] = [None] * n
    for k in reversed(range(n)):
        reciprocals[k] = 1 / regular(k, rest[k][k])
        # row k of L, then its outer product out of the rows before it; zeros on other branches stay zeros
        L[k] = [0 if is_zero(x) else x * reciprocals[k] for x in rest[k][:k]]
        for i, l_ki in enumerate(L[k]):
            if not is_zero(l_ki):
                for j in range(i + 1):
                    if not is_zero(rest[k][j]):
                        rest[i][j] = rest[i][j] - l_ki * rest[k][j]
    return L, reciprocals


def solve(A: Array, b: Array) -> Array:
    """x of A x = b, with A (n, n) symmetric positive definite and b (n,) or (n, m), by `factor`."""
    return back_substitute(factor(A), b)


def back_substitute(factors: tuple[list[list[Any]], list[Any]], b: Array) -> Array:
    """x of L^T diag(d) L x = b, with (L, 1/d) from `factor` and b (n,) or (n, m)."""
    return outward(factors, inward(factors, b))


def inward(factors: tuple[list[list[Any]], list[Any]], b: Array) -> Array:
    """y of L^T y = b: the first half of `back_substitute`, from the leaves of a tree to its root."""
    x = list(np.asarray(b))
    # from the last row up: descendants give their part to ancestors
    for k in reversed(range(len(x))):
        for i, l_ki in enumerate(factors[0][k]):
            if not is_zero(l_ki):
                x[i] = x[i] - l_ki * x[k]
    return np.array(x).reshape(np.shape(b))


def outward(factors: tuple[list[list[Any]], list[Any]], y: Array) -> Array:
    """x of diag(d) L x = y: the second half of `back_substitute`, from the root of a tree to its leaves."""
    L, reciprocals = factors
    x = list(np.asarray(y))
    # divided by d, then from the first row down: ancestors are known before their descendants
    for k, reciprocal in enumerate(reciprocals):
        x[k] = x[k] * reciprocal
        for i, l_ki in enumerate(L[k]):
            if not is_zero(l_ki):
                x[k] = x[k] - l_ki * x[i]
    return np.array(x).reshape(np.shape(y))


def inverse(A: Array) -> Array:
    """A^-1 (n, n) of a regular matrix, by Householder's reflections: Q A = R, A^-1 = R^-1 Q.

    No pivots are chosen, so symbols of a trace will do, and nothing is squared: errors are of the order of
    round-off times the condition number of A, as with pivots. Columns that are known to be zero below the
    diagonal take no reflection; blocks on the diagonal stay apart.

    Raises ConfigurationError for a matrix that is singular whatever its symbols are.

    Golub and Van Loan (2013), Matrix Computations, algorithm 5.2.1.
    """
    A = np.asarray(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"a matrix of shape {A.shape} has no inverse; expected a square one, (n, n)")
    n = len(A)
    rows = [[*A[i], *(int(i == j) for j in range(n))] for i in range(n)]  # [A, 1], which becomes [R, Q]
    for k in range(n):
        _reflect(rows, k)
        if is_zero(rows[k][k]):
            raise ConfigurationError(
                f"the matrix is singular: column {k} depends on the ones before it, whatever its symbols are"
            )
    # back substitution R X = Q, from the last row up
    X: list[Any] = [None] * n
    for k in reversed(range(n)):
        X[k] = [x / rows[k][k] for x in _less(rows[k][n:], [(rows[k][j], X[j]) for j in range(k + 1, n)])]
    return np.array(X).reshape(n, n)


def _reflect(rows: list[list[Any]], k: int) -> None:
    """Rows k, k + 1, ... by the reflection that leaves zeros below the diagonal in column k.

    With x the column from the diagonal on and s = sign(x_0) |x|, it is 1 - u u^T / (s u_0), u = x + s e_0:
    the sign keeps u_0 from cancelling, so that |u| is never small against |x|.
    """
    below = [i for i in range(k + 1, len(rows)) if not is_zero(rows[i][k])]
    if not below:  # nothing to make zero: no reflection, so that blocks stay apart
        return
    first = rows[k][k]
    diagonal = not is_zero(rows[k][k])
    # |x|, without the diagonal entry where that is known to be zero
    size = sqrt(sum(rows[i][k] * rows[i][k] for i in ([k, *below] if diagonal else below)))
    signed = where(first < 0, -size, size) if diagonal else size
    u = {k: first + signed, **{i: rows[i][k] for i in below}}
    scale = 1 / (signed * u[k])
    for j in range(k + 1, len(rows[k])):
        along = [u[i] * rows[i][j] for i in u if not is_zero(rows[i][j])]
        if along:
            share = scale * sum(along)
            for i in u:
                rows[i][j] = rows[i][j] - share * u[i]
    # the column is known: -s on the diagonal and exact zeros below
    rows[k][k] = -signed
    for i in below:
        rows[i][k] = 0


def _less(row: list[Any], terms: list[tuple[Any, list[Any]]]) -> list[Any]:
    """The row less the sum of weight times others, without the terms that are known to be zero."""
    for weight, others in terms:
        if not is_zero(weight):
            row = [x if is_zero(y) else x - weight * y for x, y in zip(row, others, strict=True)]
    return row


def is_zero(x: Any) -> bool:
    """Whether x is known to be zero."""
    return not hasattr(x, "apply") and bool(x == 0)
