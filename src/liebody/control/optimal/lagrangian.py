"""The augmented Lagrangian: searches in turn with new multipliers and penalties of the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...scalars import Array
from ...stepping import Descent, Ended, MultiplierUpdate
from .fddp import Iteration, Outcome, iteration_of, outcome_of, search
from .model import Constraints, Violation

PENALTY = 10.0
STIFFER = 10.0
STIFFEST = 1e9
SLOW = 0.25  # of the residual before: penalties grow where more is left
LOOSE = 1e-2  # tolerance of the first search with constraints: its multipliers are far from right yet
TIGHTER = 0.1  # tolerance of a search, in units of that of the search before
FEW = 2
MOST = 10
LONG = 0.5


class Multipliers(NamedTuple):
    """Multipliers of the constraints at a trajectory, with the penalty of its search.

    stage     (N, c), of the entries of stage constraints, positive where c is at its upper bound
    terminal  (c,), of those of terminal constraints
    penalty   mu, by which the search weighs violations
    """

    stage: Array
    terminal: Array
    penalty: float


NO_MULTIPLIERS = Multipliers(np.zeros((0, 0)), np.zeros(0), 0.0)


class Found(NamedTuple):
    """What a search has found beside the trajectory, as in `OptimalPlan`."""

    outcome: Outcome
    cost: float
    gap: float
    violations: list[Violation]


class ConstraintTerms(NamedTuple):
    """The constraints of stages, or those of the end, along a trajectory.

    scale  of their residuals in the cost: dt, or 1 at the end
    knot   the first one that has them
    """

    constraints: Constraints
    update: MultiplierUpdate
    multipliers: Array
    scale: float
    knot: int


class ConstrainedSearch:
    """A search in one workspace; its trajectory is in `descent.w`, where it begins and where it ends.

    penalties  mu at each knot (N + 1,), in the parameters of the problem; empty without constraints
    """

    def __init__(self, descent: Descent, terms: Sequence[ConstraintTerms], penalties: Array) -> None:
        self.descent = descent
        self.w = descent.w
        self.terms = terms
        self._penalties = penalties
        self._penalty = PENALTY

    @property
    def penalty(self) -> float:
        return self._penalty

    @penalty.setter
    def penalty(self, mu: float) -> None:
        self._penalty = mu
        self._penalties[:] = mu

    def solve(self, iterations: int, tolerance: float, feasibility: float) -> Found:
        """The best trajectory near that in w; with constraints, by a search for each of their multipliers."""
        history: list[Iteration] = []
        self.penalty = PENALTY
        residual = np.inf
        enough = max(LOOSE, tolerance) if self.terms else tolerance
        while True:
            # a search for the trajectory at fixed multipliers; steps of all searches count together
            left = iterations - sum(x.step > 0 for x in history)
            outcome = search(self.descent, left, enough)
            history += outcome.history
            last_residual = residual
            residual, paid = self._assess(update=outcome.converged)
            if not outcome.converged or (residual <= feasibility and enough == tolerance):
                break
            # penalties grow where a search with new multipliers has not helped enough
            if residual > max(feasibility, SLOW * last_residual):
                self.penalty *= STIFFER
            if self.penalty > STIFFEST:
                outcome = Outcome("constraints", "constraints stay broken, however stiff", [])
                break
            enough = tolerance if residual <= feasibility else max(tolerance, enough * TIGHTER)
        cost = history[-1].cost - paid if history else np.nan
        gap = float(np.abs(self.w.gap).max()) if self.w.gapped else 0.0
        return self._found(outcome, history, cost, gap, feasibility)

    def improve(
        self, multipliers: Multipliers, shift: int, most: int | None, tolerance: float, feasibility: float
    ) -> Found:
        """A better trajectory than that in w, from multipliers on that belong `shift` knots before it."""
        self.penalty = multipliers.penalty or PENALTY
        for x in self.terms:
            # each term has the multipliers of stages, which move, or those of the end, which stay
            old = multipliers.stage if x.knot == 0 else multipliers.terminal[None]
            x.multipliers[:] = old[np.minimum(np.arange(shift, shift + len(old)), len(old) - 1)]
        history: list[Iteration] = []
        self.descent.restart()
        limit = most or (MOST if self.terms else FEW)
        residual = np.inf
        paid = 0.0
        while True:
            ended = self.descent.iterate(tolerance, may_step=True)
            if ended != Ended.NO_MINIMUM:
                history.append(iteration_of(self.descent))
            step = self.descent.state.step
            # multipliers of a trajectory that is far from the best one would be wrong by the penalty times that
            residual, paid = self._assess(update=step >= LONG or ended == Ended.WITHIN_TOLERANCE)
            if ended not in (Ended.STEPPED, Ended.REJECTED):
                if ended == Ended.WITHIN_TOLERANCE and residual > feasibility and len(history) < limit:
                    continue
                break
            if len(history) >= limit:
                ended = Ended.LIMITED
                break
        outcome = outcome_of(ended, history, limit)
        if outcome.converged and residual > feasibility:
            outcome = outcome_of(Ended.LIMITED, history, limit)
        state = self.descent.state
        gap = float(np.abs(self.w.gap).max()) * (1 - state.step) if self.w.gapped else 0.0
        cost = (state.reached if state.step else state.cost) - paid
        return self._found(outcome, history, cost, gap, feasibility)

    def _assess(self, update: bool) -> tuple[float, float]:
        """Residual of the constraints, and the cost of them all; multipliers are renewed if `update`."""
        residual = paid = 0.0
        for x in self.terms:
            x.update(self.penalty, update)
            residual = max(residual, x.update.residual)
            paid += x.scale * x.update.paid
        return residual, paid

    def _found(
        self, outcome: Outcome, history: list[Iteration], cost: float, gap: float, feasibility: float
    ) -> Found:
        violations = [y for x in self.terms for y in x.constraints.broken(x.update.distances, x.knot)]
        if outcome.converged and any(x.amount > feasibility for x in violations if not x.has_slack):
            outcome = Outcome("start", "the initial state breaks constraints, and no input acts on them", [])
        return Found(outcome._replace(history=history), cost, gap, violations)
