"""Vectors and matrices over the velocities of a tree, summed joint by joint.

Joints that follow others have their leader's places, so that several bodies may add to one entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Body, Tree
from ..scalars import Array
from ..scalars.linear import symmetric


class JointVector:
    """(nv,), summed joint by joint."""

    def __init__(self, nv: int) -> None:
        self.entries: list[Any] = [0] * nv

    def add(self, body: Body, values: Array) -> None:
        for k, x in zip(body.places, values, strict=True):
            self.entries[k] = self.entries[k] + x

    def array(self) -> Array:
        return np.array(self.entries)


class JointMatrix:
    """(nv, nv), summed block by block."""

    def __init__(self, nv: int) -> None:
        self.entries: list[list[Any]] = [[0] * nv for _ in range(nv)]

    def add(self, rows: Body, columns: Body, block: Array) -> None:
        for k, i in enumerate(rows.places):
            for l, j in enumerate(columns.places):
                self.entries[i][j] = self.entries[i][j] + block[k, l]

    def add_symmetric(self, rows: Body, columns: Body, block: Array) -> None:
        """A block and its mirror; of a body's own block the upper triangle."""
        if rows is columns:
            self.add(rows, rows, symmetric(len(block), lambda i, j: block[i, j]))
        else:
            self.add(rows, columns, block)
            self.add(columns, rows, block.T)

    def array(self) -> Array:
        return np.array(self.entries).reshape(len(self.entries), len(self.entries))


def armature(tree: Tree) -> Array:
    """The rotors' part of the diagonal of M (nv,)."""
    diagonal = JointVector(tree.nv)
    for body in tree.bodies:
        diagonal.add(body, body.armature)
    return diagonal.array()
