"""Control over a receding horizon: a plan for the next knots, made again at every step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import checked, count
from ...base.concurrency import lock_of
from ...base.errors import SECONDS, IntegrationError, positive, warn
from ...integrators import Method
from ...scalars import Array
from ...simulation.stepper import stepper
from ...stepping import Clock
from .model import Violation
from .plan import OptimalPlan, Planner


class BrokenConstraints(UserWarning):
    """Plans of a controller, or the motion under it, break constraints."""


class Closed(NamedTuple):
    """A motion under a controller: t (k + 1,), q (k + 1, nq), v (k + 1, nv), and u (k, m) between them.

    violations  by how much the motion breaks each stage constraint, at all times but the last: a `Violation`
    planned     largest violation of each plan, (k,)
    """

    t: Array
    q: Array
    v: Array
    u: Array
    violations: tuple[Violation, ...]
    planned: Array


class Controller:
    """u = controller(q, v): the first inputs of the best plan from (q, v), for steps of the problem's dt.

        controller = problem.mpc(knots=50)
        u = controller(q, v)  # and, dt later, again

    problem     an `OptimalControl`
    knots       how far a plan reaches
    iterations  steps of the search at each call after the first; 100 at the first
    tolerance   as in `OptimalControl.solve`
    feasibility  by which constraints may be broken, before a BrokenConstraints warning says so

    A search begins with the last plan, a step further on: its states need not start at (q, v), and the gap
    closes as the plan is improved. `controller.plan` is the last `OptimalPlan`; its `violations` say by how
    much it breaks each constraint, also in (q, v) itself. Constraints other than limits of u are soft: a plan
    that breaks them by more than `feasibility` is followed all the same, with a warning. The next warning
    comes when the violation of a constraint is twice as large.

    A controller follows one motion: calls of several threads take turns. Motions at the same time need a
    controller each; they may share the problem.
    """

    @partial(checked, but=("problem",))
    def __init__(
        self,
        problem: Planner,
        knots: int,
        iterations: int | None = None,
        tolerance: float = 1e-6,
        feasibility: float = 1e-6,
    ) -> None:
        self.problem = problem
        self.knots = count("knots", knots)
        self.iterations = None if iterations is None else count("iterations", iterations)
        self.tolerance = positive("tolerance", tolerance)
        self.feasibility = positive("feasibility", feasibility)
        self.reset()

    def reset(self) -> None:
        """Forget the plan: the next call begins anew."""
        self.plan: OptimalPlan | None = None
        self._warned: dict[str, float] = {}  # violation of each constraint that was last warned of

    def __call__(self, q: Array, v: Array = None, parameters: Mapping[str, Any] | None = None) -> Array:
        """The inputs (m,) for the next dt, in the state (q, v); parameters as in `OptimalControl.solve`."""
        plan = self._planned(q, v, parameters)
        # warn again only where a violation has doubled: a controller runs at every step
        worse = [
            x
            for x in plan.violations
            if x.amount > max(self.feasibility, 2 * self._warned.get(x.constraint, 0.0))
        ]
        if worse:
            self._warned |= {x.constraint: x.amount for x in worse}
            told = ", ".join(f"{x.constraint} by {x.amount:.3g} at knot {x.knot}" for x in worse)
            warn(f"the plan breaks {told}. {self._remedy}", BrokenConstraints)
        return plan.u[0]

    @property
    def _remedy(self) -> str:
        return (
            f"Constraints are soft here: give bounds with a margin, more iterations (now {self.iterations}), "
            f"or as feasibility (now {self.feasibility:g}) the violation that is allowed"
        )

    def _planned(self, q: Array, v: Array, parameters: Mapping[str, Any] | None) -> OptimalPlan:
        """The plan from (q, v), which begins with the last one a step further on."""
        options: dict[str, Any] = {"parameters": parameters, "tolerance": self.tolerance}
        options["feasibility"] = self.feasibility
        with lock_of(self, "plan"):
            if self.plan is None:
                plan = self.problem.solve(q, v, knots=self.knots, **options)
            else:
                options |= {"iterations": self.iterations}
                plan = self.problem.improve(self.plan, q, v, shift=1, **options)
            self.plan = plan
        return plan

    @checked
    def simulate(
        self,
        q0: Any = None,
        v0: Any = None,
        *,
        t_end: float,
        substeps: int = 1,
        method: str | Method = "rkmk4",
        parameters: Mapping[str, Any] | None = None,
    ) -> Closed:
        """The motion of the mechanism under this controller, by `liebody.stepper`; it begins without a plan.

        substeps  steps of the simulation in each dt, with the inputs held
        others    as in `simulate` and `OptimalControl.solve`

        A BrokenConstraints warning says by how much constraints are broken by the motion, and how many plans
        break them.
        """
        problem = self.problem
        # one plan for each dt of the problem, with the inputs of its first knot held
        rounds = Clock.whole_steps(positive("t_end", t_end, SECONDS), problem.dt)
        if rounds is None:
            raise IntegrationError(
                f"t_end = {t_end:g} s is no multiple of the problem's dt = {problem.dt:g} s"
            )
        motion = stepper(problem.mechanism, dt=problem.dt / count("substeps", substeps), method=method)
        # a copy plans from scratch, so that this controller keeps its plan until the motion has ended
        controller = copy.copy(self)
        controller.reset()
        state = motion.start(q0, v0)
        states = [state]
        plans: list[OptimalPlan] = []
        for _ in range(rounds):
            # plan from where the motion is now, and hold the first inputs until the next plan
            plan = controller._planned(state.q, state.v, parameters)
            plans.append(plan)
            state = motion.step(state, problem.efforts(plan.u[0]), substeps)
            states.append(state)
        self.plan = controller.plan
        closed = Closed(
            t=problem.dt * np.arange(rounds + 1),
            q=np.array([x.q for x in states]),
            v=np.array([x.v for x in states]),
            u=np.array([plan.u[0] for plan in plans]),
            violations=_violations_of_motion(plans),
            planned=np.array([plan.violation for plan in plans]),
        )
        self._warn_of(closed, plans)
        return closed

    def _warn_of(self, closed: Closed, plans: list[OptimalPlan]) -> None:
        """Say by how much the motion breaks constraints, and how many plans do."""
        told = [
            f"the motion breaks {x.constraint} by {x.amount:.3g} at t = {closed.t[x.knot]:.6g} s"
            for x in closed.violations
            if x.amount > self.feasibility
        ]
        # each constraint along all plans: how many break it, and the worst
        for along in zip(*(plan.violations for plan in plans), strict=True):
            number = sum(x.amount > self.feasibility for x in along)
            if number:
                most = max(x.amount for x in along)
                told.append(
                    f"{number} of {len(plans)} plans break {along[0].constraint}, by up to {most:.3g}"
                )
        if told:
            warn(f"{'; '.join(told)}. {self._remedy}", BrokenConstraints)


def _violations_of_motion(plans: list[OptimalPlan]) -> tuple[Violation, ...]:
    """By how much a motion breaks each stage constraint, from the plans that were made along it.

    The first knot of a plan is the motion itself: its state at that time, and the inputs that are applied.
    """
    return tuple(
        Violation(along[0].constraint, np.array([x.along[0] for x in along]))
        for along in zip(*(plan.violations for plan in plans), strict=True)
        if along[0].first == 0  # terminal constraints begin at the last knot, which the motion does not reach
    )
