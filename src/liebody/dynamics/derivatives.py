"""Derivatives of inverse and forward dynamics along the configuration group, by those of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Tree
from ..codegen import Function, Program, jacobian, trace
from ..linear import back_substitute, factor, is_zero
from .forward import forward_dynamics
from .inverse import inverse_dynamics
from .mass import mass_matrix

Array = Any
LONG = 10_000  # operations from which on columns are solved in a loop


def inverse_dynamics_derivatives(tree: Tree, name: str, gravity: Array) -> Function:
    """d tau/dq, d tau/dv and d tau/da = M (nv, nv) as a function of q, v, a.

    Jacobians of the graph of tau(q exp(u), v, a), by u at u = 0 and by v.
    """
    states = {"q": tree.nq, "v": tree.nv, "a": tree.nv}

    def moved(q: Array, v: Array, a: Array, u: Array) -> Array:
        return inverse_dynamics(tree, tree.group.integrate(q, u), v, a, gravity)

    shifted = trace(moved, {**states, "u": tree.nv}, name)
    by_q, by_v = jacobian(shifted, "u"), jacobian(shifted, "v")

    def derivatives(q: Array, v: Array, a: Array) -> tuple[Array, ...]:
        zero = np.zeros(tree.nv).astype(object)
        return by_q(q, v, a, zero), by_v(q, v, a, zero), mass_matrix(tree, q)

    return trace(derivatives, states, name)


def forward_dynamics_derivatives(tree: Tree, name: str, gravity: Array) -> Function | Program:
    """da/dq, da/dv and da/dtau = M^-1 (nv, nv) as a function of q, v, tau.

    M da/dq = -d tau/dq at the acceleration a of these efforts, and so by v; solved column by column with the
    factors of M, which are as sparse as the tree. Where that is long, the columns are a loop.
    """
    n = tree.nv
    of_efforts = inverse_dynamics_derivatives(tree, name, gravity)
    places: list[tuple[int, int]] = []  # of the entries of L that are not zero

    def prepared(q: Array, v: Array, tau: Array) -> tuple[Array, ...]:
        a = forward_dynamics(tree, q, v, tau, gravity)
        by_q, by_v, M = of_efforts(q, v, a)
        L, reciprocals = factor(M)
        places.extend((k, i) for k, row in enumerate(L) for i, x in enumerate(row) if not is_zero(x))
        return by_q.T, by_v.T, np.array([L[k][i] for k, i in places]), np.array(reciprocals)

    def solved(entries: Array, reciprocals: Array, b: Array) -> Array:
        L: list[list[Any]] = [[0] * k for k in range(n)]
        for (k, i), x in zip(places, entries, strict=True):
            L[k][i] = x
        return -back_substitute((L, list(reciprocals)), b)

    program = Program(name, {"q": tree.nq, "v": n, "tau": n})
    first = trace(prepared, {"q": tree.nq, "v": n, "tau": n}, "prepared")
    by_q, by_v, *factors = program.apply(first, *program.inputs.values())
    column = trace(solved, {"entries": len(places), "reciprocals": n, "b": n}, "solved")
    columns = [program.apply(column, *factors, b) for b in (by_q, by_v, -np.eye(n))]
    i, j = np.indices((n, n))
    columns[2] = columns[2][np.maximum(i, j), np.minimum(i, j)]  # M^-1 is symmetric
    for k, cells in enumerate(columns):
        program.output(f"{name}_{k}", cells.T)
    return program if 3 * n * sum(column.operations.values()) > LONG else program.unroll()
