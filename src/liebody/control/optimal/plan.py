"""A planned trajectory, and the contract of those who plan it with those who follow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...compiler import FlatLayout
from ...mechanisms import OpenTree
from ...scalars import Array
from ...stepping import PlanFunctions, PlanShape
from .fddp import Iteration
from .lagrangian import NO_MULTIPLIERS, Multipliers
from .model import Violation, largest_violation


@dataclass(frozen=True)
class OptimalPlan:
    """A trajectory of least cost, or as far as the search for it came.

    t, q, v      times and states of the knots, (N + 1,), (N + 1, nq), (N + 1, nv)                 [s, ...]
    u            inputs between them, (N, m)
    cost         of all of it, and of slack
    gains        K (N, m, 2 nv): near the states, the best inputs are u + K (difference(q_k, q), v - v_k)
    converged    whether the predicted decrease is below the tolerance
    reason       why the search ended
    status       the same in a word: "converged"; "limit", more iterations were not allowed; "no minimum" or
                 "no descent", which the costs are to blame for; "constraints" that stay broken; "start", if
                 only the initial state breaks them
    gap          largest |gap| between the pieces of the trajectory; 0 where it is a motion
    violation    by which constraints without slack are broken, at most; 0 without constraints
    violations   a `Violation` for each constraint, stage constraints first
    gradient     largest slope of the cost by an input that its bounds leave
    history      an `Iteration` for each linearisation
    multipliers  `Multipliers` of constraints, with which another search may begin
    """

    t: Array
    q: Array
    v: Array
    u: Array
    cost: float
    gains: Array
    converged: bool
    reason: str
    gap: float
    violation: float
    gradient: float
    history: tuple[Iteration, ...]
    violations: tuple[Violation, ...] = ()
    status: str = ""
    multipliers: Multipliers = NO_MULTIPLIERS

    @property
    def iterations(self) -> int:
        """Number of steps that were taken."""
        return sum(x.step > 0 for x in self.history)

    def __repr__(self) -> str:
        # the constraint that is broken most, if any is
        worst = largest_violation(self.violations)
        where = f" of {worst.constraint} at knot {worst.knot}" if worst and worst.amount else ""
        return (
            f"OptimalPlan: cost {self.cost:.9g} after {self.iterations} iterations, "
            f"{'' if self.converged else 'not '}converged: {self.reason}; "
            f"gap {self.gap:.1e}, violation {self.violation:.1e}{where}, gradient {self.gradient:.1e}"
        )


class Planner(Protocol):
    """A problem of optimal control as a `Controller` uses it: it plans, and turns inputs into efforts."""

    mechanism: OpenTree
    dt: float

    @property
    def solve(self) -> Callable[..., OptimalPlan]:
        """(q0, v0, **options) -> the plan of least cost from this state, as `OptimalControl.solve`."""

    @property
    def improve(self) -> Callable[..., OptimalPlan]:
        """(plan, q0, v0, **options) -> a better plan than an earlier one, as `OptimalControl.improve`."""

    def efforts(self, u: Array) -> Array:
        """tau (..., nv) of inputs u (..., m)."""

    def in_c(self, knots: int) -> tuple[PlanFunctions, PlanShape]:
        """The functions and the shape of plans of so many knots, which `stepping.plan_c99` prints."""

    @property
    def layout(self) -> FlatLayout:
        """The parameters."""
