"""Derivatives along a group: of functions f of q, in the direction of q exp(u), at u = 0.

Derivatives by the entries of q would not do: the four entries of a quaternion have three directions. So f is
composed with q exp(u), traced, and differentiated by the entries of u. At u = 0 the series of exp are
constants, which vanish from the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..compiler import Function, jacobian, jvp, trace
from ..scalars import Array
from .base import LieGroup

Derivative = Callable[..., Any]


class AlongGroup:
    """Derivatives of a function f(..., x exp(u), ...) by u at u = 0. Made by `along_group`.

    moved   the graph of f(..., x exp(u), ...), whose last input is u
    blocks  for each input that moves, its entries of u

    Derivatives are functions of the inputs of f without u, on floats or on symbols.
    """

    def __init__(self, moved: Function, blocks: Mapping[str, slice] | None = None) -> None:
        self.moved = moved
        self.blocks = blocks or {}
        self._step = [*moved.inputs][-1]
        self._zero = np.zeros(moved.inputs[self._step].shape)

    def jacobian(self, by: str | None = None, mode: str | None = None) -> Derivative:
        """(*inputs) -> df/du at u = 0, (*result, entries of u).

        by    the input to whose entries of u the derivative is limited; None: all
        mode  as of `compiler.jacobian`
        """
        along = {} if by is None else {self._step: np.eye(self._zero.size)[:, self.blocks[by]].astype(object)}
        return self._at_zero(jacobian(self.moved, self._step, mode, along))

    def gradient_and_hessian(self) -> tuple[Derivative, Derivative]:
        """df/du and d^2 f/du^2 at u = 0, both (*inputs) -> array."""
        gradient = jacobian(self.moved, self._step)
        return self._at_zero(gradient), self._at_zero(jacobian(gradient, self._step))

    def jvp(self) -> Derivative:
        """(*inputs, d) -> df/du d at u = 0, for a direction d in the shape of u."""
        along = jvp(self.moved, self._step)
        return partial(_in_direction, along, self._zero)

    def _at_zero(self, derived: Function) -> Derivative:
        return partial(_at, self._zero, derived)


# Named functions, not lambdas: problems that hold derivatives are sent to other processes.


def _at(u: Array, derived: Function, *inputs: Any) -> Any:
    return derived(*inputs, u)


def _in_direction(along: Function, u: Array, *inputs: Any) -> Any:
    *others, direction = inputs
    return along(*others, u, direction)


def along_group(
    function: Callable[..., Any],
    shapes: Mapping[str, Any],
    groups: Mapping[str, LieGroup | None],
    *,
    ends: LieGroup | None = None,
    name: str | None = None,
) -> AlongGroup:
    """The derivatives of f(..., x exp(u), ...) by u at u = 0, for the inputs x that `groups` names.

        moved = along_group(U, {"q": group.nq}, {"q": group})
        slope = moved.jacobian()(q)                           # dU(q exp u)/du, (dim,)

    function  f, of arrays of these shapes; made of NumPy operators and `liebody.scalars`
    shapes    of its inputs, as `compiler.trace` takes them
    groups    {input: its group}, in the order of their entries of u; None for an array x of any shape, x + u
    ends      the group of f's value, where that is an element: then log(f(..., x, ...)^-1 f(..., x exp(u),
              ...)) is differentiated
    name      of the graph, for error messages
    """
    inputs = [*shapes]
    blocks: dict[str, slice] = {}
    size = 0
    for key, group in groups.items():
        dim = math.prod(np.atleast_1d(shapes[key]).tolist()) if group is None else group.dim
        blocks[key] = slice(size, size + dim)
        size += dim

    def moved(*arguments: Array) -> Any:
        *still, u = arguments
        at = dict(zip(inputs, still, strict=True))
        for key, group in groups.items():
            x = at[key]
            step = u[blocks[key]]
            at[key] = x + step.reshape(np.shape(x)) if group is None else group.integrate(x, step)
        value = function(*at.values())
        return value if ends is None else ends.difference(function(*still), value)

    return AlongGroup(trace(moved, {**shapes, "along": size}, name), blocks)


def along_direction(function: Function) -> Function:
    """The derivative of a traced f(..., s) at s = 0 along a direction d: a function (..., d) -> df/ds d.

    The last input of f is s; d has its shape. Take it for functions that move other inputs by s themselves,
    as to q exp(s); otherwise take `along_group`.
    """
    shapes = {key: x.shape for key, x in function.inputs.items()}
    return trace(AlongGroup(function).jvp(), shapes, f"{function.name}_along")


def coordinate_tangents(group: LieGroup) -> Derivative:
    """q -> E(q) = d(q exp u)/du at u = 0, (nq, dim), on floats or symbols: E(q) u is dq/dt for a velocity u.

    By the chain rule df(q exp u)/du = df/dq E(q) for every f, which differentiates no series of exp.
    """
    return along_group(lambda q: q, {"q": group.nq}, {"q": group}).jacobian()


def gradient(U: Callable[[Array], Any], group: LieGroup) -> Callable[[Array], Array]:
    """q -> dU(q exp u)/du at u = 0, (dim,), on floats or symbols.

    U  takes coordinates q (nq,) of the group; made of NumPy operators and `liebody.scalars`

    By the chain rule, with one reverse sweep for dU/dq. `along_group(U, ...)` has the same Jacobian up to
    round-off; take that for vectors U, for one of several inputs, and for second derivatives.
    """
    plain = jacobian(trace(U, {"q": group.nq}, "U"), "q", "reverse")
    tangents = coordinate_tangents(group)
    return lambda q: plain(q) @ tangents(q)
