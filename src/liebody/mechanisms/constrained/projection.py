"""Projections: states that have drifted, put back on the constraints.

Both are least in the metric of M, with the factors of A = J M^-1 J^T that the equations of motion have, too:
coordinates  q <- q exp(-M^-1 J^T A^-1 g),  velocities  V <- V - M^-1 J^T A^-1 (J V + dg/dt).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiler import repeated
from ...groups import SE3, SO3xR3
from ...integrators.saddle_point import Regularization
from ...scalars import Array
from .constraints import BodyState, ConstraintKind
from .coordinates import AbsoluteCoordinates
from .equations import Bodies, blocks, bodies, factor, impulses, in_group, joined, moved, still

CORRECTIONS = 2  # of positions in a projection, with one factorisation


def residuals(system: AbsoluteCoordinates, state: Bodies, t: Any) -> tuple[list[Array], list[Array]]:
    """g of every constraint, and for curves the change of s that leads to the closest point."""
    violations = [
        _residual(c.kind, state.of(c.bodies), c.constants, t, state.slides[system.slides[k]])
        for k, c in enumerate(system.constraints)
    ]
    return [g for g, _ in violations], [closer for _, closer in violations if closer is not None]


@repeated
def _residual(
    kind: ConstraintKind, states: list[BodyState], constants: tuple[Array, ...], t: Any, slide: Array
) -> tuple[Array, Array | None]:
    rows = kind(states, constants, t, slide)
    return rows.residual, rows.closer


def corrected(
    system: AbsoluteCoordinates, t: Any, q: Array, V: Array, regularization: Regularization
) -> tuple[Array, Array]:
    """q on the constraints, and how close to dependence (`worse`).

    Twice q <- q exp(delta), delta = -M^-1 J^T A^-1 g, with J and A of the first q. The correction is least in
    the metric of M, along the group (simplified Newton).
    """
    state = bodies(system, q, V)
    slides = state.slides
    constraint_blocks = blocks(system, state, t, None, lambda rows, rate, driven: [rows.residual])
    factors = factor(system, constraint_blocks, regularization)  # kept for both corrections
    g = [right[0] for right in constraint_blocks.right]
    for iteration in range(CORRECTIONS):
        if iteration:  # the blocks hold g of the first q
            g, _ = residuals(system, state, t)
        multipliers = system.elimination.solve(factors, g, regularization)
        delta = impulses(system, constraint_blocks, multipliers, still(system))
        places = [
            _placed(state.q[i], delta[i], None if b.group == SE3 else state.states[i].R)
            for i, b in enumerate(system.bodies)
        ]
        q = joined(places)
        # the last state is needed for the closest points of curves only
        if iteration + 1 < CORRECTIONS or len(slides):
            state = bodies(system, np.concatenate([q, slides]), V)
        if len(slides):
            slides = slides + np.concatenate(residuals(system, state, t)[1])
            state = state._replace(slides=slides)
    return np.concatenate([q, slides]), factors.worst


@repeated
def _placed(q: Array, x: Array, R: Array | None) -> Array:
    group = SE3 if R is None else SO3xR3
    return group.normalize(group.integrate(q, in_group(x, R)))


def on_velocities(
    system: AbsoluteCoordinates, t: Any, q: Array, V: Array, regularization: Regularization
) -> Array:
    """V with J V = 0 (or -dg/dt for constraints that move), changed least in the metric of M."""
    state = bodies(system, q, V)
    constraint_blocks = blocks(system, state, t, None, lambda rows, rate, driven: [rate])
    factors = factor(system, constraint_blocks, regularization)
    multipliers = system.elimination.solve(
        factors, [right[0] for right in constraint_blocks.right], regularization
    )
    return moved(system, state, impulses(system, constraint_blocks, multipliers, still(system))).reshape(-1)


def projected(
    system: AbsoluteCoordinates, t: Any, y: Array, regularization: Regularization
) -> tuple[Array, Array]:
    """The state y = (q, V) on the constraints, positions first, then velocities; how close to dependence."""
    q, V = y[: system.nq], y[system.nq :]
    q, worst = corrected(system, t, q, V, regularization)
    unasked = regularization._replace(ordinary=None)  # the positions have told how close to dependence
    return np.concatenate([q, on_velocities(system, t, q, V, unasked)]), worst
