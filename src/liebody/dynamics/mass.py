"""The mass matrix, by the composite-rigid-body algorithm."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..base.errors import ModelError
from ..bodies import Moments, Tree
from ..compiler import repeated
from ..scalars import Array
from .joint_space import JointMatrix
from .recursions import transformations
from .spatial import Pair, Transformation, added, halves, powers

LAYOUTS = ("full", "packed", "nonzeros")


def mass_matrix(tree: Tree, q: Array, layout: str = "full") -> Array:
    """M(q) (nv, nv), symmetric positive definite, with the joints' armature on its diagonal.

    q       configuration, (nq,)
    layout  "full"; "packed" (nv (nv+1)/2,): the columns of the upper triangle one after the other, LAPACK's
            packed storage, M_ij at i + j (j+1)/2; or "nonzeros": of those, what is not zero in every
            configuration, at `mass_matrix_pattern`

    Composite-rigid-body algorithm: M_ij = S_i^T F_j, where F_j = I_j^c S_j is the wrench that moves all
    behind joint j as one rigid body, carried to the frame of i, an ancestor of j. Featherstone (2008), table
    6.2, with the ten moments of each composite body instead of a 6 x 6 inertia. Only one triangle is
    computed.
    """
    if layout not in LAYOUTS:
        raise ModelError(f"layout is {layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
    M = JointMatrix(tree.nv)
    T = transformations(tree, q)
    # Inwards: children come after their parents, so a body's composite inertia is complete when its turn
    # comes. Base moments do: M is the same for all inertias with the same kinetic energy.
    composite = list(tree.base_moments)
    for body in reversed(tree.bodies):
        i = body.index
        p = body.parent
        wrenches, block = _own_block(composite[i], body.twist, body.armature)
        M.add_symmetric(body, body, block)
        # Only joints on the way to the root: for joints of different branches M has zeros.
        for below, ancestor in pairwise(tree.ancestors(i)):
            wrenches, block = _next_block(T[below.index], wrenches, ancestor.twist)
            M.add_symmetric(ancestor, body, block)
        if p:
            composite[p] = added(T[i], composite[p], composite[i])
    if layout == "full":
        return M.array()
    # Rows and columns of the lower triangle, swapped: the upper one, column by column.
    places = mass_matrix_pattern(tree) if layout == "nonzeros" else np.tril_indices(tree.nv)[::-1]
    return np.array([M.entries[i][j] for i, j in zip(*(x.tolist() for x in places), strict=True)])


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


@repeated
def _own_block(moments: Moments, S: Array, armature: Array) -> tuple[list[Pair], Array]:
    """The wrenches F that move a composite body along the columns of S, and S^T F with the rotors."""
    wrenches = [moments.times(*s) for s in halves(S)]
    return wrenches, powers(halves(S), wrenches) + np.diag(armature)


@repeated
def _next_block(T: Transformation, wrenches: list[Pair], S: Array) -> tuple[list[Pair], Array]:
    """The wrenches, carried to the parent's frame, and S^T F with its joint."""
    wrenches = [T.wrench_out(*F) for F in wrenches]
    return wrenches, powers(halves(S), wrenches)
