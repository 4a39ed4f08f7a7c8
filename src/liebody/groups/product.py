"""Direct products of groups; among them SO(3) x R^3."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..codegen import step
from ..errors import ShapeError
from ..scalar import Array, Coordinates, GroupElement
from .base import LieGroup, block_diagonal
from .real import R, RealGroup
from .so3 import SO3


def _slices(sizes: list[int]) -> tuple[slice, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in pairwise(ends))


def _concatenate(parts: list[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


def _of_factor(factor: LieGroup, operation: str, *arrays: Array) -> Array:
    """An operation of a factor, as a step of its own where that is more than arithmetic on each entry."""
    if isinstance(factor, (Product, RealGroup)):
        return getattr(factor, operation)(*arrays)
    return _of_one(factor, operation, *arrays)


@step
def _of_one(factor: LieGroup, operation: str, *arrays: Array) -> Array:
    return getattr(factor, operation)(*arrays)


class Product(LieGroup):
    """Direct product of `factors`: elements are block-diagonal, coordinates and algebra vectors concatenate.

    `dofs[i]` and `coordinate_slices[i]` are the places of factor i in u and in q.
    """

    def __init__(self, *factors: LieGroup, name: str | None = None) -> None:
        for factor in factors:
            if not isinstance(factor, LieGroup):
                raise ShapeError(f"the factors of a Product are groups such as SO3 or R(2), not {factor!r}")
        self.factors = factors
        self.name = name or f"Product({', '.join(map(repr, factors))})"
        self.n, self.dim, self.nq = (sum(getattr(f, k) for f in factors) for k in ("n", "dim", "nq"))
        self.blocks = _slices([f.n for f in factors])
        self.dofs = _slices([f.dim for f in factors])
        self.coordinate_slices = _slices([f.nq for f in factors])

    def _value(self) -> Any:
        return self.name, self.factors

    def _elements(self, g: GroupElement) -> list[tuple[LieGroup, Array]]:
        return [(f, g[s, s]) for f, s in zip(self.factors, self.blocks, strict=True)]

    def _vectors(self, u: Array) -> list[tuple[LieGroup, Array]]:
        return [(f, u[s]) for f, s in zip(self.factors, self.dofs, strict=True)]

    def _coordinates(self, q: Coordinates) -> list[tuple[LieGroup, Array]]:
        return [(f, q[s]) for f, s in zip(self.factors, self.coordinate_slices, strict=True)]

    def compose(self, g: GroupElement, h: GroupElement) -> GroupElement:
        pairs = zip(self._elements(g), self._elements(h), strict=True)
        return block_diagonal([f.compose(a, b) for (f, a), (_, b) in pairs])

    def inverse(self, g: GroupElement) -> GroupElement:
        return block_diagonal([f.inverse(a) for f, a in self._elements(g)])

    def hat(self, u: Array) -> Array:
        return block_diagonal([f.hat(a) for f, a in self._vectors(u)])

    def vee(self, U: Array) -> Array:
        return _concatenate([f.vee(a) for f, a in self._elements(U)])

    def exp(self, u: Array) -> GroupElement:
        return block_diagonal([f.exp(a) for f, a in self._vectors(u)])

    def log(self, g: GroupElement) -> Array:
        return _concatenate([f.log(a) for f, a in self._elements(g)])

    def Ad(self, g: GroupElement) -> Array:
        return block_diagonal([f.Ad(a) for f, a in self._elements(g)])

    def ad(self, u: Array) -> Array:
        return block_diagonal([f.ad(a) for f, a in self._vectors(u)])

    def coad(self, p: Array) -> Array:
        return block_diagonal([f.coad(a) for f, a in self._vectors(p)])

    def dexp(self, u: Array) -> Array:
        return block_diagonal([f.dexp(a) for f, a in self._vectors(u)])

    def dexp_inverse(self, u: Array) -> Array:
        return block_diagonal([f.dexp_inverse(a) for f, a in self._vectors(u)])

    def dexp_inverse_times(self, u: Array, w: Array) -> Array:
        pairs = zip(self._vectors(u), self._vectors(w), strict=True)
        return _concatenate([_of_factor(f, "dexp_inverse_times", a, b) for (f, a), (_, b) in pairs])

    def neutral(self) -> np.ndarray:
        return _concatenate([f.neutral() for f in self.factors])

    def element(self, q: Coordinates) -> GroupElement:
        return block_diagonal([f.element(a) for f, a in self._coordinates(q)])

    def coordinates(self, g: GroupElement) -> Coordinates:
        return _concatenate([f.coordinates(a) for f, a in self._elements(g)])

    def integrate(self, q: Coordinates, u: Array) -> Coordinates:
        pairs = zip(self._coordinates(q), self._vectors(u), strict=True)
        return _concatenate([_of_factor(f, "integrate", a, b) for (f, a), (_, b) in pairs])

    def difference(self, q0: Coordinates, q1: Coordinates) -> Array:
        pairs = zip(self._coordinates(q0), self._coordinates(q1), strict=True)
        return _concatenate([_of_factor(f, "difference", a, b) for (f, a), (_, b) in pairs])

    def normalize(self, q: Coordinates) -> Coordinates:
        return _concatenate([_of_factor(f, "normalize", a) for f, a in self._coordinates(q)])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return _concatenate([f.random(rng) for f in self.factors])

    def _check_values(self, q: np.ndarray) -> None:
        for f, s in zip(self.factors, self.coordinate_slices, strict=True):
            f._check_values(q[..., s])


SO3xR3 = Product(SO3, R(3), name="SO3xR3")
