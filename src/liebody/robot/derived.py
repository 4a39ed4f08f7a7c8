"""Derivatives of traced algorithms by one of their arrays, along the group where that is a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import Function, jacobian, jvp, trace, vjp
from ..dynamics import tangents
from ..errors import ModelError
from ..groups import LieGroup
from ..scalar import Array
from .algorithm import CONFIGURATIONS

PRODUCTS: dict[str | None, Callable[[Function, str], Function]] = {None: jacobian, "jvp": jvp, "vjp": vjp}


def derived(function: Function, wrt: str, product: str | None, group: LieGroup) -> Function:
    """The Jacobian of a function by its input `wrt`, or a product with it; as `Robot.derivatives` says.

    Coordinates q exp(u) change by E u, E = d(q exp u)/du at u = 0: so no series of exp is differentiated.
    """
    if wrt not in function.inputs or product not in PRODUCTS:
        raise ModelError(
            f"derivatives of {function.name} by {wrt!r}, product {product!r}: it has the arrays "
            f"{', '.join(function.inputs)}; products are 'jvp', 'vjp' and None, the Jacobian"
        )
    plain = PRODUCTS[product](function, wrt)
    if wrt not in CONFIGURATIONS:
        return plain
    moved = tangents(group)
    at = list(function.inputs).index(wrt)

    def along(*arrays: Array) -> Any:
        E = moved(arrays[at], np.zeros(group.dim).astype(object))
        if product == "jvp":
            return plain(*arrays[:-1], E @ arrays[-1])
        found = plain(*arrays)
        if product == "vjp":
            return E.T @ found
        return tuple(y @ E for y in found) if isinstance(found, tuple) else found @ E

    shapes = {key: x.shape for key, x in plain.inputs.items()}
    if product == "jvp":
        shapes[f"d_{wrt}"] = (group.dim,)
    return trace(along, shapes, plain.name)
