"""The augmented Lagrangian: searches in turn with new multipliers and penalties of the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...scalars import Array
from ...stepping import Descent, Ended, MultiplierUpdate
from .fddp import Iteration, Outcome, iteration_of, outcome_of, search
from .model import Constraints, Violation

PENALTY = 10.0
STIFFER = 10.0
PENALTIES = 9  # mu = 10, 100, ... 1e9
STIFFEST = PENALTY * STIFFER ** (PENALTIES - 1)
SLOW = 0.25  # of the residual before: penalties grow where more is left
LITTLE = 0.002  # of the largest residual: a penalty that leaves no more is stiff enough to be kept
LOOSE = 1e-2  # tolerance of the first search with constraints: its multipliers are far from right yet
TIGHTER = 0.1  # tolerance of a search, in units of that of the search before
# of a plan that is improved
FEW = 2  # steps, where they suffice
MOST = 4  # steps, where constraints are broken still
LONG = 0.5  # steps that went as the model predicts
SHORT = 0.1  # steps that a stiff penalty cuts
ANEW = 100  # steps of a search that begins anew, where the model does not predict its steps
HELD = 0.5  # a held state: largest ratio of its distances from a plan's start and from the next knot
FAR = 1e6  # a motion of zero inputs with larger states is no start of a search        [rad, m, rad/s, m/s]
CONVERGED = (Ended.WITHIN_TOLERANCE, Ended.WITHIN_ROUND_OFF)


class Multipliers(NamedTuple):
    """Multipliers of the constraints at a trajectory, with the penalty of its search.

    stage     (N, c), of the entries of stage constraints, positive where c is at its upper bound
    terminal  (c,), of the entries of terminal constraints
    penalty   mu, by which the search weighs violations
    largest   the largest residual of constraints so far, by which the penalty is judged
    """

    stage: Array
    terminal: Array
    penalty: float
    largest: float


NO_MULTIPLIERS = Multipliers(np.zeros((0, 0)), np.zeros(0), 0.0, 0.0)


class Found(NamedTuple):
    """Results of a search beside the trajectory, as in `OptimalPlan`."""

    outcome: Outcome
    cost: float
    gap: float
    violations: list[Violation]


class ConstraintTerms(NamedTuple):
    """The constraints of stages, or of the end, along a trajectory.

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
        self.kept_penalty = PENALTY
        """The penalty to begin with next time: the one of `solve` may be too stiff for a state with noise."""
        self.largest = 0.0

    @property
    def penalty(self) -> float:
        return self._penalty

    @penalty.setter
    def penalty(self, mu: float) -> None:
        self._penalty = mu
        self._penalties[:] = mu

    def solve(
        self, iterations: int, tolerance: float, feasibility: float, history: Sequence[Iteration] = ()
    ) -> Found:
        """The best trajectory near that in w; with constraints, by a search for each of their multipliers.

        history  iterations that belong to the plan already
        """
        steps = list(history)
        self.penalty = self.kept_penalty = PENALTY
        self.largest = 0.0
        left_by: dict[float, float] = {}  # residual of the last search with each penalty
        residual = np.inf
        enough = max(LOOSE, tolerance) if self.terms else tolerance
        while True:
            # a search for the trajectory at fixed multipliers; steps of all searches count together
            left = iterations - sum(x.step > 0 for x in steps[len(history) :])
            outcome = search(self.descent, left, enough)
            steps += outcome.history
            last_residual = residual
            # where a loose tolerance has let the trajectory stay, it is the tolerance that has to change
            has_moved = enough == tolerance or any(x.step > 0 for x in outcome.history)
            residual, paid = self._assess(update=outcome.converged and has_moved)
            self._note(residual)
            left_by[self.penalty] = residual
            if not outcome.converged or (residual <= feasibility and enough == tolerance):
                break
            # penalties grow where a search with new multipliers has not helped enough
            if has_moved and residual > max(feasibility, SLOW * last_residual):
                self.penalty *= STIFFER
            if self.penalty > STIFFEST:
                outcome = Outcome("constraints", "constraints stay broken, however stiff", [])
                break
            enough = tolerance if residual <= feasibility else max(tolerance, enough * TIGHTER)
        # the softest penalty that left little, or about as little as any if the constraints cannot be kept
        little = max(LITTLE * self.largest, 2 * min(left_by.values()))
        self.kept_penalty = min(mu for mu, left in left_by.items() if not left > little)
        cost = steps[-1].cost - paid if steps else np.nan
        gap = float(np.abs(self.w.gap).max()) if self.w.gapped else 0.0
        return self._found(outcome, steps, cost, gap, feasibility)

    def improve(
        self, multipliers: Multipliers, shift: int, most: int | None, tolerance: float, feasibility: float
    ) -> Found:
        """A better trajectory than that in w, from multipliers on that belong `shift` knots before it.

        most  steps; None: as many as are needed, and a search anew where the model does not predict them
        """
        self.penalty = multipliers.penalty or PENALTY
        self.largest = multipliers.largest
        for x in self.terms:
            # multipliers of stages move with their knots, those of the end stay there
            if x.knot:
                x.multipliers[:] = multipliers.terminal
            else:
                moved = multipliers.stage[shift:]
                x.multipliers[: len(moved)] = moved
                x.multipliers[len(moved) :] = multipliers.stage[-1]
        steps: list[Iteration] = []
        state = self.descent.state
        limit = most or (MOST if self.terms else FEW)
        self.descent.restart()
        residual = np.inf if self.terms else 0.0
        while True:
            # new multipliers change the trajectory little: no decrease is too small while they are wrong
            ended = self.descent.iterate(tolerance if residual <= feasibility else 0.0, may_step=True)
            if ended != Ended.NO_MINIMUM:
                steps.append(iteration_of(self.descent))
            # multipliers change by the penalty times the violation: of a trajectory that is still far from
            # the best one, they would be wrong by as much
            is_near = state.step >= LONG or ended in CONVERGED
            residual, paid = self._assess(update=is_near)
            self._note(residual)
            if is_near and residual > max(feasibility, LITTLE * self.largest):
                self.penalty = min(self.penalty * STIFFER, STIFFEST)
            elif not is_near and state.step < SHORT:
                self.penalty = max(self.penalty / STIFFER, PENALTY)
            is_kept = residual <= feasibility
            if ended in (Ended.NO_MINIMUM, Ended.NO_DESCENT) or (is_kept and ended in CONVERGED):
                break
            if len(steps) >= limit or (most is None and is_kept and is_near and len(steps) >= FEW):
                ended = Ended.LIMITED
                break
        self.kept_penalty = self.penalty
        if most is None and not is_near:
            for x in self.terms:
                x.multipliers[:] = 0
            return self.solve(ANEW, tolerance, feasibility, steps)
        gap = float(np.abs(self.w.gap).max()) * (1 - state.step) if self.w.gapped else 0.0
        cost = (state.reached if state.step else state.cost) - paid
        return self._found(outcome_of(ended, steps, limit), steps, cost, gap, feasibility)

    def _assess(self, update: bool) -> tuple[float, float]:
        """Residual of the constraints, and the cost of them all; multipliers are renewed if `update`."""
        residual = paid = 0.0
        for x in self.terms:
            x.update(self.penalty, update)
            residual = max(residual, x.update.residual)
            paid += x.scale * x.update.paid
        return residual, paid

    def _note(self, residual: float) -> None:
        if np.isfinite(residual):
            self.largest = max(self.largest, residual)

    def _found(
        self, outcome: Outcome, steps: list[Iteration], cost: float, gap: float, feasibility: float
    ) -> Found:
        violations = [y for x in self.terms for y in x.constraints.broken(x.update.distances, x.knot)]
        if outcome.converged and any(x.amount > feasibility for x in violations if not x.has_slack):
            outcome = Outcome("start", "the initial state breaks constraints, and no input acts on them", [])
        return Found(outcome._replace(history=steps), cost, gap, violations)
