"""Runge-Kutta-Munthe-Kaas methods on any Lie group.

A curve g(t) with body velocity g^-1 dg/dt = F(t, g) is written near a point g0 as g = g0 exp(Psi). Then Psi,
in the algebra, which is a vector space, obeys

    dPsi/dt = dexp^-1_{-Psi} F(t, g0 exp Psi),    Psi = 0 at the start,

and any Runge-Kutta method may solve that for one step (Munthe-Kaas, Appl. Numer. Math. 29 (1999); in this
left-trivialised form Mueller, Terze, Mech. Mach. Theory 82 (2014), eqs (36), (37)). The result lies on the
group whatever the step, and the order is the tableau's. Without dexp^-1 the order falls to two, while
energy and constraints may show nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import IntegrationError
from ..groups import SO2, LieGroup, Product, RealGroup
from ..scalars import Array
from ..stepping.flow import combination, stages
from ..stepping.records import Coefficients
from .commutator_free import CommutatorFree
from .tableaux import Tableau, tableau

VectorField = Callable[[Any, Array], Array]


class NotConverged(IntegrationError):
    """The equations of an implicit step have no solution in reach; a shorter step may have one."""


class Step(NamedTuple):
    """One step of a Runge-Kutta-Munthe-Kaas method."""

    q: Array
    """Coordinates of the result, (nq,)."""
    stages: Array
    """dPsi/dt at each stage, (s, dim)."""
    error: Array | None
    """Estimate of the error of Psi, (dim,); None without embedded weights."""
    increment: Array
    """Psi at the end of the step, (dim,): q is integrate(q before, increment), normalised."""
    velocity: Array | None
    """F at the end of the step, (dim,), which the next step may take as `first`; None if it is not FSAL."""


@cache
def coefficients(method: Tableau | CommutatorFree) -> Coefficients:
    """The coefficients of a method, as compiled steps use them."""
    c = tuple(map(float, method.c))
    order = 1 + min(method.order, method.embedded_order or 0)
    return Coefficients(method.paths, c, method.pulls_back, method.error_weights, order)


def rkmk_step(
    group: LieGroup, method: Tableau | str, F: VectorField, t: Any, q: Array, h: Any
) -> tuple[Array, Array, Array | None]:
    """One step of the flow of F from g at t to t + h: (coordinates of the result, stages, error estimate).

        Psi_i = h sum_j A_ij k_j,    k_i = dexp^-1_{-Psi_i} F(t + c_i h, g exp Psi_i)
        result: g exp(h sum_i b_i k_i)

    group    the group of g
    method   the tableau, or its name
    F        vector field: F(t, q) is the body velocity, (dim,)
    t, h     time and step                                               [s]
    q        coordinates of g, (nq,)
    returns  coordinates (nq,), normalised; the stages k, (s, dim); the error estimate in the algebra, (dim,),
             h sum_i (b - embedded)_i k_i, or None without embedded weights

    It consists of array operations only, without branches on values: it runs on floats, and it can be traced.
    Mueller, Terze, eqs (36), (37).
    """
    return advance(group, tableau(method), F, t, q, h)[:3]


def advance(
    group: LieGroup,
    method: Tableau | CommutatorFree,
    F: VectorField,
    t: Any,
    q: Array,
    h: Any,
    first: Array | None = None,
) -> Step:
    """One step as by `rkmk_step`, of any explicit method: a tableau, or a commutator-free method.

    It takes the arguments of `rkmk_step`; the result has the increment in the algebra, and the last velocity.
    It runs on floats and on symbols.

    first  F(t, q), where it is known, as from the last step of a method whose last stage is the end (FSAL)
    """

    # Stage 0 is taken at q itself, the same object: there `first` saves an evaluation of F.
    def velocity(at: Any, point: Array) -> Array:
        return first if first is not None and point is q else F(at, point)

    def pull(psi: Array, f: Array) -> Array:
        return group.dexp_inverse_times(-psi, f)

    pulls = method.pulls_back
    k, end, psi, last = stages(
        coefficients(method), velocity, group.integrate, pull if pulls else None, t, h, q
    )
    end = group.normalize(end)
    weights = method.error_weights
    # Commutator-free methods have no Psi of the whole step; dense output needs one, the logarithm.
    return Step(
        q=end,
        stages=np.stack(k),
        error=h * combination(weights, k) if weights else None,
        increment=psi if pulls else group.difference(q, end),
        velocity=last if method.fsal else None,
    )


def vector_components(group: LieGroup) -> tuple[np.ndarray, np.ndarray]:
    """Where the components of the factors R(n) are, in the algebra and in the coordinates."""
    # SO(2) has the coordinates of R, but its angle has no size of its own: it is left out.
    if isinstance(group, RealGroup) and group != SO2:
        return np.arange(group.dim), np.arange(group.nq)
    dofs = [np.zeros(0, int)]
    coordinates = [np.zeros(0, int)]
    for factor, u, q in (
        zip(group.factors, group.dofs, group.coordinate_slices) if isinstance(group, Product) else ()
    ):
        inner = vector_components(factor)
        dofs.append(u.start + inner[0])
        coordinates.append(q.start + inner[1])
    return np.concatenate(dofs), np.concatenate(coordinates)


# Dense output: polynomials Psi(theta) = sum_m C_m theta^m, m = 1 .. d, over a step, theta in [0, 1]

BOOTSTRAP = ((0.2,), (0.15, 0.85))
"""Where within a step slopes are taken to raise the degree from 3 to 4, and then to 5.

Any places will do that make the conditions independent: not 1/2 alone, nor the nodes of Lobatto's quadrature.
"""


def interpolant(
    group: LieGroup, method: Any, F: VectorField, t: float, q: Array, h: float, step: Step
) -> Array:
    """Coefficients C (d, dim) of g(t + theta h) = g exp Psi(theta) over a step made by `advance` from (t, q).

    With the interpolant of the tableau, if it has one; otherwise the cubic through both ends with their
    slopes, whose error is of order h^4. For methods of order 5 and more its degree is raised by slopes of F
    at points of the curve itself, one evaluation for order 5, three from order 6 on (Hairer, Norsett,
    Wanner, "Solving Ordinary Differential Equations I", section II.6: bootstrapping). So the error between
    the steps is of the order of the error at the steps, up to 6. `step.velocity` must be F at the end, of
    FSAL methods or not.
    """
    if method.interpolant is not None:
        return np.asarray(h * (method.interpolant.T @ step.stages))
    # dPsi/dtheta at both ends, in the coordinates Psi of the start: at the end dexp^-1 pulls F back.
    psi = step.increment
    start = h * step.stages[0]
    end = h * group.dexp_inverse_times(-psi, step.velocity)
    C = _hermite(psi, (0.0, 1.0), [start, end])
    # F at a point of the cubic, whose error is h^4, has a slope h F with an error of h^5: good enough for a
    # polynomial of degree 4. That one gives slopes for degree 5 in the same way.
    for places in BOOTSTRAP[: max(0, method.order - 4)]:
        slopes = []
        for theta in places:
            psi_theta = evaluate(C, theta)
            velocity = F(t + theta * h, group.integrate(q, psi_theta))
            slopes.append(h * group.dexp_inverse_times(-psi_theta, velocity))
        C = _hermite(psi, (0.0, 1.0, *places), [start, end, *slopes])
    return C


def evaluate(C: Array, theta: float) -> Array:
    """Psi(theta), (dim,)."""
    powers = theta ** np.arange(1, len(C) + 1)
    return np.asarray(powers @ C)


def _hermite(end: Array, places: Sequence[float], slopes: Sequence[Array]) -> Array:
    """The polynomial without constant term that is `end` at theta = 1, with these slopes at these places."""
    # As many coefficients as conditions: one value and a slope at each place.
    degrees = np.arange(1, len(places) + 2)
    conditions = np.vstack([np.ones(len(degrees)), *(degrees * theta ** (degrees - 1.0) for theta in places)])
    return np.asarray(np.linalg.solve(conditions, np.vstack([end, *slopes])))
