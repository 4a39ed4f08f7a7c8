"""Direct products of groups; among them SO(3) x R^3."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import ShapeError
from ..compiler import repeated
from ..scalars import Array, Coordinates, GroupElement
from .base import LieGroup, block_diagonal
from .real import R, RealGroup
from .so3 import SO3


def slices(sizes: list[int]) -> tuple[slice, ...]:
    """Places of parts of these sizes, one after the other."""
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in pairwise(ends))


def _concatenate(parts: list[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


def _by_factors(
    operation: str, join: Callable[..., Array], *given: Callable[..., list[Array]], steps: bool = False
) -> Callable[..., Array]:
    """The operation of a product that is made of the same operation of each factor.

    join   joins the factors' results
    given  for each argument, how it is divided among the factors
    steps  whether each factor is a repeated step; only worth it for more than arithmetic on each entry
    """

    def method(self: Product, *arrays: Array) -> Array:
        parts = [part(self, x) for part, x in zip(given, arrays, strict=True)]
        # Operations of real factors are sums, and a product marks its own factors: neither is worth a repeat.
        calls = [
            _of_one if steps and not isinstance(f, (Product, RealGroup)) else _plainly for f in self.factors
        ]
        return join([call(f, operation, *x) for call, f, *x in zip(calls, self.factors, *parts, strict=True)])

    method.__name__ = operation
    method.__doc__ = getattr(LieGroup, operation).__doc__
    return method


def _plainly(factor: LieGroup, operation: str, *arrays: Array) -> Array:
    return getattr(factor, operation)(*arrays)


_of_one = repeated(_plainly)


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
        self.blocks = slices([f.n for f in factors])
        self.dofs = slices([f.dim for f in factors])
        self.coordinate_slices = slices([f.nq for f in factors])
        starts = [(f, s.start) for f, s in zip(factors, self.coordinate_slices, strict=True)]
        self.quaternions = tuple(start + k for f, start in starts for k in f.quaternions)
        self.poses = tuple(start + k for f, start in starts for k in f.poses)

    def _value(self) -> Any:
        return self.name, self.factors

    def _elements(self, g: GroupElement) -> list[Array]:
        return [g[s, s] for s in self.blocks]

    def _vectors(self, u: Array) -> list[Array]:
        return [u[s] for s in self.dofs]

    def _coordinates(self, q: Coordinates) -> list[Array]:
        return [q[s] for s in self.coordinate_slices]

    # elements of elements: blocks
    compose = _by_factors("compose", block_diagonal, _elements, _elements)
    inverse = _by_factors("inverse", block_diagonal, _elements)
    Ad = _by_factors("Ad", block_diagonal, _elements)
    # elements and matrices of vectors
    hat = _by_factors("hat", block_diagonal, _vectors)
    exp = _by_factors("exp", block_diagonal, _vectors)
    ad = _by_factors("ad", block_diagonal, _vectors)
    coad = _by_factors("coad", block_diagonal, _vectors)
    dexp = _by_factors("dexp", block_diagonal, _vectors)
    dexp_inverse = _by_factors("dexp_inverse", block_diagonal, _vectors)
    # vectors and coordinates
    vee = _by_factors("vee", _concatenate, _elements)
    log = _by_factors("log", _concatenate, _elements)
    element = _by_factors("element", block_diagonal, _coordinates)
    coordinates = _by_factors("coordinates", _concatenate, _elements)
    # steps of their own in long products
    dexp_inverse_times = _by_factors("dexp_inverse_times", _concatenate, _vectors, _vectors, steps=True)
    integrate = _by_factors("integrate", _concatenate, _coordinates, _vectors, steps=True)
    coordinate_rate = _by_factors("coordinate_rate", _concatenate, _coordinates, _vectors, steps=True)
    difference = _by_factors("difference", _concatenate, _coordinates, _coordinates, steps=True)
    normalize = _by_factors("normalize", _concatenate, _coordinates, steps=True)

    def by_factors(self, function: Callable[..., Array], *vectors: Array) -> Array:
        parts = zip(self.factors, *map(self._vectors, vectors), strict=True)
        return _concatenate([f.by_factors(function, *x) for f, *x in parts])

    @cached_property
    def _neutral(self) -> np.ndarray:
        return _concatenate([f.neutral() for f in self.factors])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.concatenate([np.zeros((*shape, 0)), *(f.random(rng, shape) for f in self.factors)], axis=-1)


SO3xR3 = Product(SO3, R(3), name="SO3xR3")
