"""Control over a receding horizon: a plan for the next knots, made again at every step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..door import checked, count
from ..errors import SECONDS, IntegrationError, positive
from ..integrators.methods import Method
from ..scalar import Array
from ..shared import lock_of
from ..stepper import stepper

if TYPE_CHECKING:
    from .problem import OptimalControl, OptimalPlan


class Closed(NamedTuple):
    """A motion under a controller: t (k + 1,), q (k + 1, nq), v (k + 1, nv), and u (k, m) between them."""

    t: Array
    q: Array
    v: Array
    u: Array


class Controller:
    """u = controller(q, v): the first inputs of the best plan from (q, v), for steps of the problem's dt.

        controller = problem.mpc(knots=50)
        u = controller(q, v)  # and, dt later, again

    problem     an `OptimalControl`
    knots       how far a plan reaches
    iterations  steps of the search at each call after the first; 100 at the first
    tolerance   as in `OptimalControl.solve`

    A search begins with the last plan, a step further on: its states need not start at (q, v), and the gap
    closes as the plan is improved. `controller.plan` is the last `OptimalPlan`.

    A controller follows one motion: calls of several threads take turns. Motions at the same time need a
    controller each; they may share the problem.
    """

    @checked
    def __init__(
        self, problem: OptimalControl, knots: int, iterations: int = 2, tolerance: float = 1e-6
    ) -> None:
        self.problem, self.knots = problem, count("knots", knots)
        self.iterations, self.tolerance = count("iterations", iterations), positive("tolerance", tolerance)
        self.plan: OptimalPlan | None = None

    def reset(self) -> None:
        """Forget the plan: the next call begins anew."""
        self.plan = None

    def __call__(self, q: Array, v: Array = None, parameters: Mapping[str, Any] | None = None) -> Array:
        """The inputs (m,) for the next dt, in the state (q, v); parameters as in `OptimalControl.solve`."""
        options: dict[str, Any] = {"parameters": parameters, "tolerance": self.tolerance}
        with lock_of(self, "plan"):
            if self.plan is None:
                options |= {"knots": self.knots}
            else:
                last = {"q": self.plan.q, "v": self.plan.v, "u": self.plan.u}
                options |= {name: np.concatenate([x[1:], x[-1:]]) for name, x in last.items()}
                options["iterations"] = self.iterations
            plan = self.plan = self.problem.solve(q, v, **options)
        return plan.u[0]

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
        """
        problem = self.problem
        rounds = round(positive("t_end", t_end, SECONDS) / problem.dt)
        if abs(rounds * problem.dt - t_end) > 1e-9 * t_end:
            raise IntegrationError(
                f"t_end = {t_end:g} s is no multiple of the problem's dt = {problem.dt:g} s"
            )
        sim = stepper(problem.mechanism, dt=problem.dt / count("substeps", substeps), method=method)
        state, inputs = sim.start(q0, v0), []
        states, own = [state], copy.copy(self)
        own.reset()
        for _ in range(rounds):
            inputs.append(own(state.q, state.v, parameters))
            state = sim.step(state, problem.efforts(inputs[-1]), substeps)
            states.append(state)
        self.plan = own.plan
        q, v = (np.array([getattr(x, name) for x in states]) for name in ("q", "v"))
        return Closed(problem.dt * np.arange(rounds + 1), q, v, np.array(inputs))
