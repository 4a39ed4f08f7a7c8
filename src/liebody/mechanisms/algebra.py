"""Checks behind the equations of one body: whether a group has a Lie bracket, and whether M is an inertia."""

from __future__ import annotations

import numpy as np

from ..base.arguments import wrong_shape
from ..base.errors import ModelError
from ..groups import LieGroup
from ..scalars import Array
from ..scalars.linear import is_numeric

ROUND_OFF = 1e-10  # of the largest entry, up to which a law of algebra may fail


def structure_constants(group: LieGroup) -> np.ndarray:
    """c (dim, dim, dim) with [e_i, e_j] = sum over k of c[k, i, j] e_k, checked.

    Raises ModelError if `ad` is not linear, if [u, u] is not zero, if Jacobi's identity is broken, if `coad`
    is not the dual of `ad`, or if `hat` has another bracket than `ad` or none: on such a group the
    equations would describe no motion.
    """
    n = group.dim
    one = np.eye(n)
    c = np.zeros((n, n, n))
    # column j of ad(e_i) is [e_i, e_j]
    for i in range(n):
        column = np.asarray(group.ad(one[i]), dtype=float)
        if column.shape != (n, n):
            raise ModelError(f"ad(u) of {group} has shape {column.shape}, expected ({n}, {n})")
        c[:, i, :] = column
    if not np.isfinite(c).all():
        raise ModelError(f"ad(u) of {group} is not finite")
    scale = max(1.0, np.abs(c).max(initial=0.0))
    # linearity and duality are checked at two fixed vectors without structure
    probe = np.cos(np.arange(n) + 0.3)
    other = np.sin(2.0 * np.arange(n) + 0.7)
    linear = np.einsum("kij,i->kj", c, probe)
    if _apart(group.ad(probe), linear) > ROUND_OFF * scale * max(n, 1):
        raise ModelError(
            f"ad(u) of {group} is not linear in u; a bracket is: ad(a u + b w) = a ad(u) + b ad(w)"
        )
    # for a bilinear bracket, antisymmetry on the basis is the same as [u, u] = 0 for all u
    worst = np.abs(c + c.transpose(0, 2, 1))
    if worst.max(initial=0.0) > ROUND_OFF * scale:
        _, i, j = (int(x) for x in np.unravel_index(np.argmax(worst), worst.shape))
        raise ModelError(
            f"the bracket of {group} is not antisymmetric: [e_{i}, e_{j}] + [e_{j}, e_{i}] ="
            f" {numbers(c[:, i, j] + c[:, j, i])}, expected 0; column j of ad(e_i) is [e_i, e_j]"
        )
    twice = np.einsum("lim,mjk->lijk", c, c)  # [e_i, [e_j, e_k]]
    cyclic = twice + twice.transpose(0, 3, 1, 2) + twice.transpose(0, 2, 3, 1)
    if np.abs(cyclic).max(initial=0.0) > ROUND_OFF * scale**2:
        _, i, j, k = (int(x) for x in np.unravel_index(np.argmax(np.abs(cyclic)), cyclic.shape))
        raise ModelError(
            f"the bracket of {group} breaks Jacobi's identity: [e_{i}, [e_{j}, e_{k}]] + cyclic ="
            f" {numbers(cyclic[:, i, j, k])}, expected 0; it belongs to no group: check the signs in ad(u)"
        )
    # the definition of coad, tried at the two fixed vectors
    if n and _apart(group.coad(other) @ probe, -(linear.T @ other)) > ROUND_OFF * scale * n:
        raise ModelError(f"coad(p) of {group} is not that of its ad: coad(p) v = -ad(v)^T p")
    _check_matrices(group, c, scale)
    return c


def _check_matrices(group: LieGroup, c: np.ndarray, scale: float) -> None:
    """Raise ModelError if the matrices hat(e_i), where there are any, have other brackets than c."""
    try:
        E = [np.asarray(group.hat(e), dtype=float) for e in np.eye(group.dim)]
    except (NotImplementedError, ModelError):
        return  # known by its bracket alone
    # pairs j < i suffice: both brackets are antisymmetric
    for i in range(group.dim):
        for j in range(i):
            bracket = E[j] @ E[i] - E[i] @ E[j]
            rest = _apart(bracket, sum((c[k, j, i] * E[k] for k in range(group.dim)), np.zeros_like(bracket)))
            if rest > ROUND_OFF * scale * max(1.0, np.abs(bracket).max(initial=0.0)):
                raise ModelError(
                    f"the bracket of the matrices hat(e_{j}), hat(e_{i}) of {group} is {rest:.2g} away from"
                    f" the matrix of ad(e_{j}) e_{i}; either the matrices are not closed and a direction is"
                    " missing, or ad is not theirs"
                )


def check_inertia(M: Array, what: str = "inertia") -> None:
    """Raise ModelError unless M (n, n), where its values are known, is symmetric and positive definite."""
    M = np.asarray(M)
    if M.ndim != 2 or len(M) != M.shape[1]:
        raise wrong_shape(f"the {what}", M.shape, "a square one")
    if not is_numeric(M) or not len(M):
        return
    try:
        M = M.astype(float)
    except (TypeError, ValueError):
        return  # symbols of another kind
    if not np.isfinite(M).all():
        raise ModelError(f"the {what} is not finite")
    rest = np.abs(M - M.T)
    if rest.max() > 1e-9 * np.abs(M).max():
        i, j = (int(k) for k in np.unravel_index(np.argmax(rest), rest.shape))
        raise ModelError(
            f"the {what} is not symmetric: entry ({i}, {j}) is {M[i, j]:.6g}, entry ({j}, {i}) is"
            f" {M[j, i]:.6g}; take the mean of both, (M + M^T)/2, if one is not a slip"
        )
    size = np.sqrt(np.abs(np.diag(M)))
    # rows and columns are scaled by the diagonal, so that units do not matter
    size = np.where(size == 0, 1.0, size)
    values, vectors = np.linalg.eigh((M + M.T) / 2 / np.outer(size, size))
    if values[0] <= 1e-13 * abs(values[-1]):
        v = vectors[:, 0] / size
        raise ModelError(
            f"the {what} is not positive definite: at the velocity {numbers(v)} the kinetic energy is"
            f" {v @ M @ v / 2:.2g}; every motion of the group needs inertia, or leave that motion out"
        )


def _apart(A: Array, B: Array) -> float:
    """The largest difference of two entries."""
    difference = np.abs(np.asarray(A, dtype=float) - np.asarray(B, dtype=float))
    return float(difference.max(initial=0.0))


def numbers(vector: Array) -> str:
    """A vector as text for messages."""
    return f"({', '.join(f'{float(x):.4g}' for x in np.ravel(vector))})"
