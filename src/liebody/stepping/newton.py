"""Newton's method in NumPy: the reference for runtime/newton.h, and a plain one with difference quotients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import IntegrationError
from .banded import SMALLEST_PIVOT
from .march import NOT_CONVERGED, NOT_FINITE, REASONS, SINGULAR
from .records import PhaseFunctions

# as in runtime/newton.h:
LOOSE = 1e-8  # relative correction that ends it where corrections no longer shrink, with a fresh Jacobian
ROUND_OFF = 1e-13  # the same with an older Jacobian
SLOW = 0.1  # ratio of corrections from which on the Jacobian is made again
SMALL_PART = 0.1  # part of a correction below which it is taken even if the next one is not shorter
SMALLEST_PART = 1e-6  # part of a correction below which the search is given up


def newton(
    phase: PhaseFunctions, functions: tuple[Callable[..., Any], ...], x: Any, z: Any,
    arguments: tuple[Any, ...], lost: Any, tolerance: float, iterations: int,
) -> None:  # fmt: skip
    """The function `newton` of runtime/newton.h, for members x (n, unknowns); x and lost change in place.

    phase       places of the entries of the Jacobian, and whether the equations are linear
    functions   residual, and residual with Jacobian, of the phase
    tolerance   relative, of each unknown
    iterations  at most

    Corrections have the norm max |correction_i| / (1 + |x_i|). Longer than sixty lines, because it is laid
    beside the C code, stage by stage.

    Deuflhard, "Newton Methods for Nonlinear Problems", section 3.3: the natural monotonicity test.
    """
    residual, both = functions
    if not x.shape[-1]:
        return
    rows, columns = np.array(phase.places).T
    linear = phase.linear
    active = lost == 0
    fresh = True
    # x is base - part * direction: the last accepted iterate, and a part of the correction there
    last_norm = np.full(len(x), np.inf)
    part = np.ones(len(x))
    inverse = np.zeros((*x.shape, x.shape[-1]))
    base = x.copy()
    direction = np.zeros_like(x)
    for k in range(1 if linear else iterations):
        if not active.any():
            return
        # 1. The residual, and a new Jacobian if one is due. Members that have none are lost.
        fresh_now = fresh
        if fresh:
            r, values = both(x, z, *arguments)
            D = np.zeros_like(inverse)
            D[:, rows, columns] = values
            bad = active & ~(np.isfinite(r).all(axis=-1) & np.isfinite(D).all(axis=(-1, -2)))
            lost[bad] = NOT_FINITE
            active = active & ~bad
            inverse, regular = _inverses(D, active)
            lost[active & ~regular] = SINGULAR
            active = active & regular
        else:
            r = residual(x, z, *arguments)
        # 2. The correction, its relative size, and how it compares with the last one.
        correction = (inverse @ r[..., None])[..., 0]
        size = np.abs(x)
        norm = (np.abs(correction) / (1 + size)).max(axis=-1)
        with np.errstate(invalid="ignore"):  # 0 / 0 of members that are there
            rate = norm / last_norm
        # 3. The end: corrections within the tolerance that still shrink, so that the next one would be
        #    smaller still, or small ones that no longer shrink, which is round-off.
        done = (norm == 0) | linear
        worse = np.zeros(len(x), bool)
        if k:
            bound = tolerance * (size + size.max(axis=-1, keepdims=True) / 1024)
            done |= (rate < 0.5) & (rate[:, None] * np.abs(correction) <= bound).all(axis=-1)
            done |= (rate > 0.25) & (norm <= (LOOSE if fresh_now else ROUND_OFF))
            # 4. Damping: where the next correction, with the same Jacobian, is not shorter, half the last
            #    one is tried from the same place. A small part is enough: a kink of the equations, such as
            #    the edge of a contact, is then passed, and the search goes on behind it.
            if not fresh_now:
                shorter = (norm <= (1 - 0.25 * part) * last_norm) | (norm <= LOOSE)
                worse = active & ~(done | shorter | ((part < SMALL_PART) & np.isfinite(norm)))
        part = np.where(worse, 0.5 * part, 1.0)
        stuck = worse & (part < SMALLEST_PART)
        lost[stuck] = NOT_FINITE
        active = active & ~stuck
        # 5. The next iterate: a shorter part of the old correction, or all of the new one.
        base = np.where(worse[:, None], base, x)
        direction = np.where(worse[:, None], direction, correction)
        x[active] = (base - part[:, None] * direction)[active]
        last_norm = np.where(worse, last_norm, norm)
        active &= ~done
        # 6. A Jacobian is kept while it makes corrections shrink fast, and while any member is damped.
        fresh = k > 0 and not (active & worse).any() and bool((active & (rate > SLOW)).any())
    lost[active] = NOT_CONVERGED


def _inverses(D: Any, wanted: Any) -> tuple[Any, Any]:
    """Inverses of the matrices that are wanted, zero for others, and which of them are regular."""
    inverse = np.zeros_like(D)
    regular = np.zeros(len(D), bool)
    for i in np.flatnonzero(wanted):
        scale = np.abs(D[i]).max(axis=-1, initial=0.0)
        scaled = D[i] / scale[:, None]
        if np.isfinite(scaled).all() and np.linalg.cond(scaled) < 1 / SMALLEST_PIVOT:
            inverse[i] = np.linalg.inv(scaled) / scale
            regular[i] = True
    return inverse, regular


def solve_by_differences(
    residual: Callable[..., Any], x: Any, rest: tuple[Any, ...], iterations: int
) -> np.ndarray:
    """x with residual(x, *rest) = 0, by Newton's method, until corrections no longer shrink.

    Derivatives are central differences.

    Errors: IntegrationError where it does not converge.
    """
    last_norm = np.inf
    if not x.size:
        return np.asarray(x)
    for _ in range(iterations):
        d = 1e-5 * (1 + np.abs(x))
        columns = [(residual(x + e, *rest) - residual(x - e, *rest)) / (2 * e.max()) for e in np.diag(d)]
        r = residual(x, *rest)
        try:
            dx = np.linalg.solve(np.stack(columns, axis=-1), r)
        except np.linalg.LinAlgError:
            raise IntegrationError(REASONS[SINGULAR]) from None
        norm = np.max(np.abs(dx) / (1 + np.abs(x)))
        if not np.isfinite(norm):
            raise IntegrationError(f"{REASONS[NOT_FINITE]}: in the equations of a step")
        x = x - dx
        # differences give a Jacobian to half the digits, so corrections shrink until round-off stops them
        if norm == 0 or (norm <= LOOSE and norm > 0.25 * last_norm):
            return x
        last_norm = norm
    raise IntegrationError(REASONS[NOT_CONVERGED])
