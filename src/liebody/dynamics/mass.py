"""The mass matrix, by the composite-rigid-body algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Moments, Tree
from ..codegen import step
from ..errors import ModelError
from ..linear import cross
from ..scalar import Array
from .spatial import Pair, Transformation, added_moments, transformations

LAYOUTS = ("full", "packed", "nonzeros")


def mass_matrix(tree: Tree, q: Array, layout: str = "full") -> Array:
    """M(q) (nv, nv), symmetric positive definite, with the joints' armature on its diagonal.

    q       configuration, (nq,)
    layout  "full"; "packed" (nv (nv+1)/2,): the columns of the upper triangle one after the other, LAPACK's
            packed storage, M_ij at i + j (j+1)/2; or "nonzeros": of those, what is not zero in every
            configuration, at `mass_matrix_pattern`

    Composite-rigid-body algorithm: M_ij = S_j^T F_i, where F_i = I_i^c S_i is the wrench that moves all
    behind joint i as one rigid body, carried to the frame of j, an ancestor of i. Featherstone (2008), table
    6.2, with the ten moments of each composite body instead of a 6 x 6 inertia. Only one triangle is
    computed.
    """
    if layout not in LAYOUTS:
        raise ModelError(f"layout is {layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
    n = range(tree.nv)
    M: list[list[Any]] = [[0] * tree.nv for _ in n]
    T = transformations(tree, q)
    composite = list(tree.base_moments)

    def add(rows: slice, columns: slice, block: Array, same: bool) -> None:
        for k, i in enumerate(n[rows]):
            for l, j in enumerate(n[columns]):
                if same and k > l:
                    continue
                M[i][j] = M[i][j] + block[k, l]
                if not (same and k == l):
                    M[j][i] = M[j][i] + block[k, l]

    for body in reversed(tree.bodies):
        i, p = body.index, body.parent
        wrenches, block = _own_block(composite[i], body.twist, body.armature)
        add(body.dofs, body.dofs, block, True)
        ancestor = body
        while ancestor.parent:
            below, ancestor = ancestor, tree.bodies[ancestor.parent - 1]
            wrenches, block = _next_block(T[below.index], wrenches, ancestor.twist)
            add(body.dofs, ancestor.dofs, block, False)
        if p:
            composite[p] = added_moments(T[i], composite[p], composite[i])
    if layout == "full":
        return np.array(M).reshape(tree.nv, tree.nv)
    places = mass_matrix_pattern(tree) if layout == "nonzeros" else np.tril_indices(tree.nv)[::-1]
    return np.array([M[i][j] for i, j in zip(*(x.tolist() for x in places), strict=True)])


def mass_matrix_pattern(tree: Tree) -> tuple[Array, Array]:
    """Rows i and columns j >= i of the entries of M that are not zero in every configuration, packed.

    Those of joints of which one carries the other: the branch-induced sparsity. Featherstone (2008), 6.4.
    """
    on_path = np.eye(tree.nv, dtype=bool)
    for body in tree.bodies:
        for carrier in tree.ancestors(body.index):
            on_path[carrier.dofs, body.dofs] = True
            on_path[body.dofs, carrier.dofs] = True
    columns, rows = np.nonzero(np.tril(on_path))
    return rows, columns


@step
def _own_block(moments: Moments, S: Array, armature: Array) -> tuple[list[Pair], Array]:
    """The wrenches F that move a composite body along the columns of S, and S^T F with the rotors."""
    m, h, _ = moments
    wrenches = [(moments.I @ s[:3] + cross(h, s[3:]), m * s[3:] - cross(h, s[:3])) for s in S.T]
    return wrenches, _products(wrenches, S) + np.diag(armature)


@step
def _next_block(T: Transformation, wrenches: list[Pair], S: Array) -> tuple[list[Pair], Array]:
    """The wrenches, carried to the parent's frame, and F^T S with its joint."""
    wrenches = [T.wrench_out(*F) for F in wrenches]
    return wrenches, _products(wrenches, S)


def _products(wrenches: list[Pair], S: Array) -> Array:
    """F^T S (len(wrenches), k)."""
    rows = [[s[:3] @ n + s[3:] @ f for s in S.T] for n, f in wrenches]
    return np.array(rows).reshape(len(wrenches), S.shape[1])
