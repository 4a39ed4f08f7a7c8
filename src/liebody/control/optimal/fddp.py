"""Differential dynamic programming with gaps (FDDP): a search of many iterations, at fixed multipliers."""

from __future__ import annotations

from typing import NamedTuple

from ...stepping import Descent, Ended

STATUS = {
    Ended.WITHIN_TOLERANCE: ("converged", "the predicted decrease is within the tolerance"),
    Ended.WITHIN_ROUND_OFF: ("converged", "the predicted decrease is within round-off"),
    Ended.NO_MINIMUM: ("no minimum", "the quadratic model has no minimum, however it is damped"),
    Ended.NO_DESCENT: ("no descent", "no step leads down"),
    Ended.LIMITED: ("limit", "{} iterations were allowed"),
}


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
    """How a search has ended: a word, a sentence, and its iterations."""

    status: str
    reason: str
    history: list[Iteration]

    @property
    def converged(self) -> bool:
        return self.status == "converged"


def outcome_of(ended: Ended, history: list[Iteration], iterations: int) -> Outcome:
    """The outcome of a search of so many iterations whose last one has ended so."""
    status, reason = STATUS[ended]
    return Outcome(status, reason.format(iterations), history)


def iteration_of(descent: Descent) -> Iteration:
    """The numbers of the last iteration."""
    x = descent.state
    return Iteration(x.cost, x.gaps, x.gradient, x.expected, x.tried, x.step)


def search(descent: Descent, iterations: int, tolerance: float) -> Outcome:
    """Improve the trajectory, until the predicted decrease is below `tolerance` times the cost.

    Each iteration is one call of C, so that signals and other threads have their turn between iterations.
    """
    history: list[Iteration] = []
    descent.restart()
    while True:
        # as many attempts as steps are allowed, those that are rejected included
        ended = descent.iterate(tolerance, may_step=len(history) < iterations)
        if ended != Ended.NO_MINIMUM:
            history.append(iteration_of(descent))
        if ended not in (Ended.STEPPED, Ended.REJECTED):
            return outcome_of(ended, history, iterations)
