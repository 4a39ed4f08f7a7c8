"""Derivatives of inverse and forward dynamics along the configuration group, by those of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bodies import Tree
from ..codegen import Function, Program, jacobian, trace
from ..linear import back_substitute, factor, is_zero
from ..scalar import Array
from .forward import forward_dynamics
from .inverse import FREE_FALL, inverse_dynamics
from .mass import mass_matrix

LONG = 10_000  # operations from which on columns are solved in a loop


def inverse_dynamics_derivatives(
    tree: Tree, q: Array, v: Array, a: Array, gravity: Array = FREE_FALL
) -> tuple[Array, Array, Array]:
    """d tau/dq, d tau/dv and d tau/da = M, each (nv, nv).

    The derivative by q is along the group: d/de tau(q exp(e u), v, a) = (d tau/dq) u. Arguments as in
    `inverse_dynamics`.

    Jacobians of the graph of tau(q exp(u), v, a), by u at u = 0 and by v.
    """

    def moved(q: Array, v: Array, a: Array, u: Array) -> Array:
        return inverse_dynamics(tree, tree.group.integrate(q, u), v, a, gravity)

    shifted = trace(moved, {"q": tree.nq, "v": tree.nv, "a": tree.nv, "u": tree.nv}, "moved")
    zero = np.zeros(tree.nv).astype(object)
    by_q, by_v = (jacobian(shifted, name)(q, v, a, zero) for name in ("u", "v"))
    return by_q, by_v, mass_matrix(tree, q)


def forward_dynamics_derivatives(
    tree: Tree, q: Array, v: Array, tau: Array, gravity: Array = FREE_FALL
) -> tuple[Array, Array, Array]:
    """da/dq, da/dv and da/dtau = M^-1, each (nv, nv); by q along the group.

    With the derivatives of tau(q, v, a) at the acceleration a of these efforts, M da/dq = -d tau/dq, and so
    by v; solved column by column with the factors of M, which are as sparse as the tree. Arguments as in
    `forward_dynamics`.
    """
    shapes = {"q": tree.nq, "v": tree.nv, "tau": tree.nv}
    found = derivatives_by_columns(tree, shapes, "derivatives", gravity)
    return (found.unroll() if isinstance(found, Program) else found)(q, v, tau)


def derivatives_in_line(tree: Tree, shapes: Mapping[str, Any], name: str, gravity: Array) -> Function:
    """`inverse_dynamics_derivatives` as a graph; it has no steps, which would only be looked for."""
    return trace(lambda q, v, a: inverse_dynamics_derivatives(tree, q, v, a, gravity), shapes, name)


def derivatives_by_columns(
    tree: Tree, shapes: Mapping[str, Any], name: str, gravity: Array
) -> Function | Program:
    """`forward_dynamics_derivatives` of arguments of these shapes; where it is long, a loop over columns."""
    n = tree.nv
    places: list[tuple[int, int]] = []  # of the entries of L that are not zero

    def prepared(q: Array, v: Array, tau: Array) -> tuple[Array, ...]:
        a = forward_dynamics(tree, q, v, tau, gravity)
        by_q, by_v, M = inverse_dynamics_derivatives(tree, q, v, a, gravity)
        L, reciprocals = factor(M)
        places.extend((k, i) for k, row in enumerate(L) for i, x in enumerate(row) if not is_zero(x))
        return by_q.T, by_v.T, np.array([L[k][i] for k, i in places]), np.array(reciprocals)

    def solved(entries: Array, reciprocals: Array, b: Array) -> Array:
        L: list[list[Any]] = [[0] * k for k in range(n)]
        for (k, i), x in zip(places, entries, strict=True):
            L[k][i] = x
        return -back_substitute((L, list(reciprocals)), b)

    program = Program(name, shapes)
    by_q, by_v, *factors = program.apply(trace(prepared, shapes, "prepared"), *program.inputs.values())
    column = trace(solved, {"entries": len(places), "reciprocals": n, "b": n}, "solved")
    columns = [program.apply(column, *factors, b) for b in (by_q, by_v, -np.eye(n))]
    i, j = np.indices((n, n))
    columns[2] = columns[2][np.maximum(i, j), np.minimum(i, j)]  # M^-1 is symmetric
    for k, cells in enumerate(columns):
        program.output(f"{name}_{k}", cells.T)
    return program if 3 * n * sum(column.operations.values()) > LONG else program.unroll()
