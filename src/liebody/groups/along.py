"""Derivatives along a group: of functions of q, in the direction of q exp(u), at u = 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..compiler import Function, jacobian, trace
from ..scalars import Array
from .base import LieGroup


def tangents(group: LieGroup) -> Function:
    """E(q, u) (nq, dim), d(q exp u)/du, to be taken at u = 0: no series of exp is differentiated beyond."""
    return jacobian(trace(group.integrate, {"q": group.nq, "u": group.dim}, "moved"), "u")


def gradient(U: Callable[[Array], Any], group: LieGroup) -> Callable[[Array], Array]:
    """q -> dU(q exp u)/du at u = 0, (dim,), on floats or symbols: U's graph, derived along the group.

    U  takes coordinates q (nq,) of the group; made of NumPy operators and `liebody.scalars`
    """
    plain = jacobian(trace(U, {"q": group.nq}, "U"), "q", "reverse")
    along, still = tangents(group), np.zeros(group.dim)
    return lambda q: plain(q) @ along(q, still)
