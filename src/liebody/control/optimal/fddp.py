"""Differential dynamic programming with gaps (FDDP): its iterations, over a problem's compiled passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...stepping import ShootingPasses, ShootingWorkspace

STEPS = 16  # lengths 1, 1/2, 1/4, ... that are tried
ACCEPTED = 0.1  # of the decrease that is predicted
CLOSED = 1e-10  # gaps below are round-off
# of the damping, in units of Q_uu
LEAST = 1e-9
MOST = 1e9
FACTOR = 10.0
NEAR = 1e-2  # predicted decrease, in units of the cost, from which on steps are seen as curved
ROUND_OFF = 1e-9  # in units of the cost: predictions below it may be lost in it


class Iteration(NamedTuple):
    """Numbers of the search at one linearisation.

    cost       of the trajectory
    gaps       sum of |gap| between its pieces
    gradient   largest slope of the cost by an input that its bounds leave
    expected   decrease that the quadratic model predicts
    damping    on Q_uu
    step       length of the step that was taken from here; 0 if none
    """

    cost: float
    gaps: float
    gradient: float
    expected: float
    damping: float
    step: float


class Outcome(NamedTuple):
    """How a search has ended."""

    converged: bool
    reason: str
    history: list[Iteration]


def search(
    shooting: ShootingPasses,
    w: ShootingWorkspace,
    linearize: Callable[[], None],
    iterations: int,
    tolerance: float,
) -> Outcome:
    """Improve the trajectory in w, until the predicted decrease is below `tolerance` times the cost.

    A step of length alpha leaves 1 - alpha of each gap, and is taken where the merit cost + weight * gaps
    falls by a tenth of what is predicted; the weight is such that the prediction is a decrease (Nocedal and
    Wright 2006, eq. 18.36). Otherwise Q_uu is damped. Second derivatives of steps, along the slopes of the
    cost to go, are taken near the end only, and where the model has a minimum with them. The six stages of
    an iteration share their variables and stand in one function.
    """
    history: list[Iteration] = []
    damping = 0.0
    weight = 0.0
    scale = 0.0
    curved = False

    def ended(converged: bool, reason: str) -> Outcome:
        return Outcome(converged, reason, history)

    while True:
        # 1. quadratic models of all knots at the present trajectory
        linearize()
        cost = float(w.cost.sum() + w.end_cost)
        w.gapped = w.gapped and bool(np.abs(w.gap).max() > CLOSED)
        if not history:
            # the damping is measured by the inputs' own second derivatives
            diagonals = np.diagonal(w.matrices()[2], axis1=1, axis2=2)[:, -w.u.shape[1] :]
            scale = float(np.abs(diagonals).mean()) or 1.0
        # 2. backward pass; without a minimum, second derivatives are left out or Q_uu is damped
        while (model := shooting.backward(w, damping * scale)) is None:
            if curved:  # which may have made it concave
                curved = False
                w.slopes[:] = 0
                linearize()
                continue
            damping = max(damping * FACTOR, LEAST)
            if damping > MOST:
                return ended(False, "the quadratic model has no minimum, however it is damped")
        # 3. the merit weighs gaps so much that the step must lower it, also where the cost rises
        if model.change > 0:
            weight = max(weight, 2 * model.change / max(model.gaps, CLOSED))
        expected = weight * model.gaps - model.change
        iteration = Iteration(cost, model.gaps, model.gradient, expected, damping, 0.0)
        history.append(iteration)
        if not w.gapped and expected <= tolerance * max(abs(cost), tolerance):
            return ended(True, "the predicted decrease is within the tolerance")
        if len(history) > iterations:
            return ended(False, f"{iterations} iterations were allowed")
        merit = cost + weight * model.gaps
        alpha = 1.0
        best = None
        # 4. forward passes with halved lengths, as many at once as there are lanes; the longest good one wins
        for first in range(0, STEPS, shooting.lanes):
            steps = 0.5 ** np.arange(first, first + shooting.lanes)
            shooting.forward(w, steps)
            drop = merit - w.costs - weight * (1 - steps) * model.gaps
            good = np.flatnonzero(drop >= ACCEPTED * steps * expected)
            if len(good):
                best = int(good[0])
                alpha = float(steps[good[0]])
                break
        # 5. near the end full steps succeed: second derivatives of the steps then give Newton's method
        curved = best is not None and alpha == 1 and expected <= NEAR * abs(cost)
        if not curved:
            w.slopes[:] = 0
        if best is None:
            if not w.gapped and expected <= ROUND_OFF * abs(cost):
                return ended(True, "the predicted decrease is within round-off")
            damping = max(damping * FACTOR, LEAST)
            if damping > MOST:
                return ended(False, "no step leads down")
            continue
        # 6. take the step; long steps lower the damping, very short ones raise it
        history[-1] = iteration._replace(step=alpha)
        w.x[:] = w.states[:, :, best]
        w.u[:] = w.inputs[:, :, best]
        w.gapped = w.gapped and alpha < 1
        if alpha > 0.5:
            damping = damping / FACTOR if damping > LEAST else 0.0
        elif alpha < 0.02:
            damping = max(damping * FACTOR, LEAST)
