"""Control over a receding horizon: a plan for the next knots, made again at every step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import checked, count
from ...base.concurrency import lock_of
from ...base.errors import SECONDS, IntegrationError, ShapeError, positive, warn
from ...integrators import Method
from ...scalars import Array
from ...simulation.stepper import stepper
from ...stepping import Clock
from .c_export import export_controller
from .model import Violation
from .plan import OptimalPlan, Planner


class BrokenConstraints(UserWarning):
    """Plans of a controller, or the motion under it, break constraints."""


class UnfinishedPlan(UserWarning):
    """The first plan of a controller is not the one of least cost, because its search did not converge."""


class Closed(NamedTuple):
    """A motion under a controller: t (k + 1,), q (k + 1, nq), v (k + 1, nv), and u (k, m) between them.

    violations  by how much the motion breaks each stage constraint, at all times but the last: a `Violation`
    planned     largest violation of each plan, without constraints that have slack, (k,)
    iterations  linearisations that each plan took, (k,)
    statuses    how the search for each plan ended, as `OptimalPlan.status`, (k,)
    """

    t: Array
    q: Array
    v: Array
    u: Array
    violations: tuple[Violation, ...]
    planned: Array
    iterations: Array
    statuses: Array


class Controller:
    """u = controller(q, v): the first inputs of the best plan from (q, v), for steps of the problem's dt.

        controller = problem.mpc(knots=50)
        u = controller(q, v)  # and, dt later, again

    problem     an `OptimalControl`
    knots       how far a plan reaches
    iterations  steps of the search at each call after the first, at most, for a bound of the time. None: two;
                up to four while constraints are broken; and a search anew, of up to 100, where the model does
                not predict the first of them, for example after a goal has jumped
    tolerance   as in `OptimalControl.solve`
    feasibility  by which constraints may be broken, before a BrokenConstraints warning says so
    first_iterations  steps of the search for the first plan, at most

    `OptimalControl.solve` makes the first plan from inputs of zero, unless `reset` is given another plan.
    If its search does not converge, an UnfinishedPlan warning says so; it becomes an error by
    `warnings.simplefilter("error", UnfinishedPlan)`.

    `OptimalControl.improve` makes each later plan: it begins with the last plan, a step further on, with its
    multipliers and its penalty. If the state is still where the last plan begins, because the robot is held
    or calls come faster than dt, that plan is not moved on. The plan's states need not start at (q, v), and
    the gap closes as the plan is improved. `controller.plan` is the last `OptimalPlan`; its `violations` say
    by how much it breaks each constraint, also in (q, v) itself, where nothing can be done about it. A plan
    that breaks constraints by more than `feasibility` is followed all the same, with a warning. The next
    warning comes when the violation of a constraint is twice as large. Constraints with slack give no
    warning.

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
        first_iterations: int = 100,
    ) -> None:
        self.problem = problem
        self.knots = count("knots", knots)
        self.iterations = None if iterations is None else count("iterations", iterations)
        self.tolerance = positive("tolerance", tolerance)
        self.feasibility = positive("feasibility", feasibility)
        self.first_iterations = count("first_iterations", first_iterations)
        self.reset()

    def reset(self, plan: OptimalPlan | None = None) -> None:
        """Forget the plan: the next call begins anew, or with a plan from (q, v) by `solve`.

        Raises ShapeError for a plan with another number of knots.
        """
        if plan is not None and len(plan.u) != self.knots:
            raise ShapeError(
                f"the plan has {len(plan.u)} knots, and the controller {self.knots}; solve with "
                f"knots={self.knots}"
            )
        self.plan: OptimalPlan | None = plan
        self._shift: int | None = 0  # knots from the plan to the next one; None: as the state says
        self._warned: dict[str, float] = {}  # violation of each constraint that was last warned of

    def __call__(self, q: Array, v: Array = None, parameters: Mapping[str, Any] | None = None) -> Array:
        """The inputs (m,) for the next dt, in the state (q, v); parameters as in `OptimalControl.solve`."""
        plan = self._planned(q, v, parameters)
        # warn again only where a violation has doubled: a controller runs at every step
        worse = [
            x
            for x in plan.violations
            if not x.has_slack and x.amount > max(self.feasibility, 2 * self._warned.get(x.constraint, 0.0))
        ]
        if worse:
            self._warned |= {x.constraint: x.amount for x in worse}
            told = ", ".join(f"{x.constraint} by {x.amount:.3g} at knot {x.knot}" for x in worse)
            warn(f"the plan breaks {told}. {self._remedy}", BrokenConstraints)
        return plan.u[0]

    @property
    def _remedy(self) -> str:
        return (
            "Give bounds with a margin, slack, more iterations (now "
            f"{self.iterations or 'as many as needed'}), or as feasibility (now {self.feasibility:g}) the "
            "violation that is allowed"
        )

    def _planned(self, q: Array, v: Array, parameters: Mapping[str, Any] | None) -> OptimalPlan:
        """The plan from (q, v), which begins with the last one a step further on."""
        options: dict[str, Any] = {"parameters": parameters, "tolerance": self.tolerance}
        options["feasibility"] = self.feasibility
        with lock_of(self, "plan"):
            if self.plan is None:
                plan = self.problem.solve(q, v, knots=self.knots, iterations=self.first_iterations, **options)
                # broken constraints have a warning of their own
                if plan.status not in ("converged", "constraints", "start"):
                    warn(
                        f"the search for the first plan did not converge: {plan.reason}; "
                        f"{'a gap is left' if plan.gap else 'its gradient is'} "
                        f"{plan.gap or plan.gradient:.2g}. Let it begin with a plan of your own, "
                        "controller.reset(problem.solve(q, v, u=...)), or give more first_iterations (now "
                        f"{self.first_iterations})",
                        UnfinishedPlan,
                    )
            else:
                options |= {"iterations": self.iterations, "shift": self._shift}
                plan = self.problem.improve(self.plan, q, v, **options)
            self.plan = plan
            self._shift = None
        return plan

    @checked
    def export_c(
        self,
        folder: str | Path,
        q0: Any = None,
        v0: Any = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
        dtype: Any = np.float64,
    ) -> list[Path]:
        """Write the controller as C99 source, with a header, a self-test and a file for CMake.

            problem.mpc(20, iterations=2).export_c("out", q0=[3.0, 0.1])

        q0, v0      initial state of the self-test, as in `simulate`
        parameters  {name: value} in the self-test
        name        prefix of all names in C; None: the name of the mechanism
        dtype       float64: numbers are `double`; float32: `float`

        `<name>_mpc(memory, q, v, parameters, apart, u, result)` is a call of this controller. Its search,
        line search, multipliers and penalty are the same as in Python. The caller owns `memory`, a structure
        declared in the header. It holds the plan, its multipliers, penalty and gains, and all arrays of the
        search; nothing is allocated. `result` has the status, cost, gap, violation, and the numbers of
        iterations. `<name>_mpc_reset(memory)` discards the plan, so that the next call starts its search from
        inputs of zero. The header states the sizes, and the largest number of iterations of a call. Without
        `iterations` this number may be large if the model predicts steps badly. Arguments are not checked,
        and the status is the only warning.

        The self-test runs a closed loop near the plan, from (q0, v0) on, and compares inputs and costs.
        Returns the paths.
        """
        start = (q0, v0)
        return export_controller(self, folder, name or self.problem.mechanism.name, start, parameters, dtype)

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
        plan: OptimalPlan | None = None,
    ) -> Closed:
        """The motion of the mechanism under this controller, by `liebody.stepper`; it begins without a plan.

        plan      a plan from (q0, v0) to begin with, by `OptimalControl.solve`
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
        controller.reset(plan)
        state = motion.start(q0, v0)
        states = [state]
        plans: list[OptimalPlan] = []
        for _ in range(rounds):
            # plan from where the motion is now, and hold the first inputs until the next plan
            plans.append(controller._planned(state.q, state.v, parameters))
            state = motion.step(state, problem.efforts(plans[-1].u[0]), substeps)
            states.append(state)
        self.plan = controller.plan
        self._shift = None
        closed = Closed(
            t=problem.dt * np.arange(rounds + 1),
            q=np.array([x.q for x in states]),
            v=np.array([x.v for x in states]),
            u=np.array([x.u[0] for x in plans]),
            violations=_violations_of_motion(plans),
            planned=np.array([x.violation for x in plans]),
            iterations=np.array([len(x.history) for x in plans]),
            statuses=np.array([x.status for x in plans]),
        )
        self._warn_of(closed, plans)
        return closed

    def _warn_of(self, closed: Closed, plans: list[OptimalPlan]) -> None:
        """Say by how much the motion breaks constraints, and how many plans do."""
        told = [
            f"the motion breaks {x.constraint} by {x.amount:.3g} at t = {closed.t[x.knot]:.6g} s"
            for x in closed.violations
            if x.amount > self.feasibility and not x.has_slack
        ]
        # each constraint along all plans: how many break it, and the worst
        for along in zip(*(plan.violations for plan in plans), strict=True):
            number = sum(x.amount > self.feasibility and not x.has_slack for x in along)
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
        Violation(along[0].constraint, np.array([x.along[0] for x in along]), 0, along[0].has_slack)
        for along in zip(*(plan.violations for plan in plans), strict=True)
        if along[0].first == 0  # terminal constraints begin at the last knot, which the motion does not reach
    )
