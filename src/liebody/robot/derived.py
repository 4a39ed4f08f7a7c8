"""Differentiate algorithms and traced functions by their arrays, along groups where arrays are elements.

With left-invariant fields, (E_i f)(q) = d/de f(q exp(e e_i)) at e = 0. They do not commute on a group: second
derivatives H_ij = E_j E_i f obey

    H_ij - H_ji = -(ad_{e_i} e_j)^T grad f,    (H + H^T)/2 = the Hessian of u -> f(q exp u) at u = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..base.arguments import checked, names, wrong_shape
from ..base.errors import ModelError
from ..compiler import Function, Kernel, Program, hessian, hvp, jacobian, jvp, trace, vjp
from ..groups import LieGroup, coordinate_tangents
from ..scalars import Array

PRODUCTS: dict[str | None, Callable[..., Function]] = {
    None: lambda function, wrt, along: jacobian(function, wrt, None, along),
    "jvp": jvp,
    "vjp": vjp,
    "hessian": hessian,
    "hvp": hvp,
}
ANALYTIC = {  # shorter than derivatives of the graph: the algorithm whose results are the Jacobians by these
    "inverse_dynamics": ("inverse_dynamics_derivatives", ("q", "v", "a")),
    "forward_dynamics": ("forward_dynamics_derivatives", ("q", "v", "tau")),
}
PLACES = "integrate", "interpolate", "normalize"  # algorithms whose results are configurations
Groups = Mapping[str, LieGroup]


@checked
def derivatives(
    function: Function | Program | Kernel,
    wrt: str | Sequence[str],
    product: str | None = None,
    *,
    groups: Groups = MappingProxyType({}),
) -> Kernel:
    """The compiled derivative of a traced function or a kernel by one of its arrays, or by several.

        closed = mechanism.kernel("accelerations")                     # dv/dt and the multipliers
        A = lb.derivatives(closed, ("q", "v"), groups={"q": mechanism.group})

    wrt      names of inputs
    product  None: the Jacobians, arrays (*result, *input), for each result by each input of `wrt`
             "jvp": changes of the results along directions, one for each input of `wrt`, the last arguments
             "vjp": the gradients of the sum of the results times weights, the last arguments
             "hessian": second derivatives (*result, *x, *y) by x, then y, for x and each y not before it
             "hvp": changes of the gradients of "vjp" along directions; weights, then directions come last
    groups   of inputs and results that are elements of a group, by name: those have directions and changes
             u (dim,) along q exp(u); second derivatives of a result y differentiate log(y^-1 y')

    The kernel takes the inputs of the function, single states or batches, `out` and `threads`. It may be
    differentiated again. With the left-invariant fields E_i of a group, a second derivative by q is
    E_j (E_i f) at [..., i, j]: its antisymmetric part is half the derivative along -[e_i, e_j], its symmetric
    part the Hessian of f(q exp u) in u.

    Raises GraphError for unknown inputs, ModelError for other products, ShapeError for groups
    whose coordinates are not the input's.
    """
    if isinstance(function, Kernel):
        derived = derivative_graph(function.function, wrt, product, groups)
        return Kernel(derived, function.dtype, function.guard)
    return Kernel(derivative_graph(function, wrt, product, groups))


def derivative_graph(
    function: Function | Program, wrt: str | Sequence[str], product: str | None, groups: Groups
) -> Function:
    """The function that `derivatives` compiles.

    Coordinates of q exp(u) change by E(q) u at u = 0, so no series of exp is differentiated.
    """
    if product not in PRODUCTS:
        known = ", ".join(repr(x) for x in PRODUCTS if x)
        raise ModelError(f"product {product!r}: products are {known}, and None, the Jacobians")
    straight = function.unroll()
    for arrays in (straight.inputs, straight.outputs):
        for name in groups.keys() & arrays.keys():
            if arrays[name].shape != (groups[name].nq,):
                elements = f"elements of {groups[name]!r}, ({groups[name].nq},)"
                raise wrong_shape(name, arrays[name].shape, elements)
    # A result y on a group changes to y exp(u). Differentiate log(c^-1 y) with further inputs c instead, and
    # put c = y in afterwards: at c = y the logarithm is zero and its derivative is u.
    ends = {name: groups[name] for name in straight.outputs if name in groups}
    whole = straight
    if ends:
        straight = _from_ends(whole, ends)
    along = {
        name: coordinate_tangents(groups[name])(straight.inputs[name]).astype(object)
        for name in names(wrt)
        if name in groups and name in straight.inputs
    }
    derived = PRODUCTS[product](straight, wrt, along)
    return _at_ends(derived, whole, ends) if ends else derived


def _from_ends(function: Function, ends: Groups) -> Function:
    """log(c^-1 y) in place of results y on groups, with elements c as further inputs."""

    n = len(function.inputs)

    def logarithms(*arrays: Array) -> dict[str, Array]:
        places = iter(arrays[n:])
        results = zip(function.outputs, _listed(function(*arrays[:n])), strict=True)
        return {name: ends[name].difference(next(places), y) if name in ends else y for name, y in results}

    shapes = {name: x.shape for name, x in function.inputs.items()}
    shapes |= {f"at_{name}": (group.nq,) for name, group in ends.items()}
    return trace(logarithms, shapes, function.name)


def _at_ends(derived: Function, function: Function, ends: Groups) -> Function:
    """A derivative of `_from_ends` at c = y, the results of `function`: changes are y exp(u)."""
    n = len(function.inputs)

    def at_results(*arrays: Array) -> dict[str, Array]:
        results = zip(function.outputs, _listed(function(*arrays[:n])), strict=True)
        places = [y for name, y in results if name in ends]
        # inputs of the function come first, then c, then directions or weights
        changes = _listed(derived(*arrays[:n], *places, *arrays[n:]))
        return dict(zip(derived.outputs, changes, strict=True))

    shapes = {name: x.shape for name, x in derived.inputs.items() if name.removeprefix("at_") not in ends}
    return trace(at_results, shapes, derived.name)


def _listed(results: Any) -> tuple[Array, ...]:
    """The results of a function, several or one."""
    return results if isinstance(results, tuple) else (results,)


def chosen(
    function: Function | Program, name: str, given: Sequence[str], wrt: Sequence[str]
) -> Function | Program:
    """The Jacobians of algorithm `name` by `wrt`, selected from results that are Jacobians by `given`."""
    by = dict(zip(given, function.outputs.values(), strict=True))
    outputs = {f"d_{name}_d_{x}": by[x] for x in wrt}
    return function.over(function.inputs, outputs)
