"""The mass matrix, by the composite-rigid-body algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Moments, Tree
from ..linear import cross
from .spatial import Motion

Array = Any


def mass_matrix(tree: Tree, q: Array) -> Array:
    """M(q) (nv, nv), symmetric positive definite, with the joints' armature on its diagonal.

    q  configuration, (nq,)

    Composite-rigid-body algorithm: M_ij = S_j^T F_i, where F_i = I_i^c S_i is the wrench that moves all
    behind joint i as one rigid body, carried to the frame of j, an ancestor of i. Featherstone (2008), table
    6.2, with the ten moments of each composite body instead of a 6 x 6 inertia. Only one triangle is
    computed.
    """
    M: list[list[Any]] = [[0] * tree.nv for _ in range(tree.nv)]
    T: list[Any] = [None, *(Motion(body, q) for body in tree.bodies)]
    composite = list(tree.base_moments)

    def add(rows: slice, columns: slice, block: Array, same: bool) -> None:
        for k, i in enumerate(range(tree.nv)[rows]):
            for l, j in enumerate(range(tree.nv)[columns]):
                if same and k > l:
                    continue
                M[i][j] = M[i][j] + block[k, l]
                if not (same and k == l):
                    M[j][i] = M[j][i] + block[k, l]

    for body in reversed(tree.bodies):
        m, h, _ = composite[body.index]
        I, columns = composite[body.index].I, body.twist.T
        n = [I @ S[:3] + cross(h, S[3:]) for S in columns]
        f = [m * S[3:] - cross(h, S[:3]) for S in columns]
        ancestor = body
        while True:
            block = np.array(
                [[S[:3] @ x + S[3:] @ y for S in ancestor.twist.T] for x, y in zip(n, f, strict=True)]
            )
            if ancestor is body:
                block = block + np.diag(body.armature)
            add(body.dofs, ancestor.dofs, block, ancestor is body)
            if not ancestor.parent:
                break
            pairs = [T[ancestor.index].wrench_out(x, y) for x, y in zip(n, f, strict=True)]
            n, f = [x for x, _ in pairs], [y for _, y in pairs]
            ancestor = tree.bodies[ancestor.parent - 1]
        if body.parent:
            composite[body.parent] = _sum(
                composite[body.parent], T[body.index].moments_out(composite[body.index])
            )
    return np.array(M).reshape(tree.nv, tree.nv)


def _sum(a: Moments, b: Moments) -> Moments:
    return Moments(a.m + b.m, a.h + b.h, a.Sigma + b.Sigma)
