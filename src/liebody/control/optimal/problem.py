"""Optimal control of a tree: a cost in NumPy, a trajectory of least cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.arguments import checked, count, floats, names, short, wrong_shape
from ...base.concurrency import Sendable, Spare, cached_property
from ...base.errors import SECONDS, GraphError, IntegrationError, ModelError, ShapeError, known, positive
from ...compiler import FlatLayout, Function, Kernel, Program, trace, traced
from ...compiler.programs import Packing
from ...groups import Product, R
from ...integrators import Method, method_named
from ...mechanisms import Forces, OpenTree, forces_of
from ...robot import Robot
from ...scalars import Array, where
from ...simulation import mechanism_of, states_of
from ...stepping import (
    Descent,
    MultiplierUpdate,
    PlanConstraints,
    PlanFunctions,
    PlanShape,
    ShootingFunctions,
    ShootingPasses,
    ShootingSizes,
    ShootingWorkspace,
)
from .knot import KnotModel
from .lagrangian import FAR, HELD, ConstrainedSearch, ConstraintTerms, Found, Multipliers
from .model import Constraints, Cost, HeldStep, bounds_of
from .mpc import Controller
from .plan import OptimalPlan

EULER = "semi-implicit-euler"
HESSIANS = ("gauss-newton", "exact")


class OptimalControl(Sendable):
    """A problem of optimal control, compiled; made by `optimal_control`, whose docstring says more."""

    def __init__(
        self,
        step: HeldStep,
        costs: Sequence[Cost],
        constraints: Sequence[Constraints],
        bounds: Array,
        layout: FlatLayout,
        width: int,
        exact: bool,
    ) -> None:
        self._is_exact = exact
        self.mechanism = step.mechanism
        self.layout = layout
        self.dt = step.h
        self._step = step
        self._stage, self._terminal = costs
        self._constraints = constraints
        self.nq = self.mechanism.nq
        self.nv = self.mechanism.nv
        self.nu = step.S.shape[1]
        self._sizes = ShootingSizes(self.nq + self.nv, 2 * self.nv, self.nu, width)
        self._bounds = bounds

    # -- compiled functions -------------------------------------------------------------------------------

    @cached_property
    def shooting(self) -> ShootingPasses:
        return ShootingPasses(self._functions, self._sizes, None, *self._bounds)

    def _functions(self) -> ShootingFunctions:
        state = Product(self.mechanism.group, R(self.nv))
        nq = self.nq
        x, d, u, p = self._sizes

        def advanced(x: Array, d: Array) -> Array:
            return state.normalize(state.integrate(x, d))

        # x = (q, v) on the group times R^nv; a step keeps quaternions at unit length
        def following(x: Array, u: Array, p: Array) -> tuple[Array, Array]:
            q = x[:nq]
            v = x[nq:]
            return np.concatenate(self._step.next(q, v, u)), self._stage(q, v, u, p)

        def end(x: Array, p: Array) -> Array:
            return self._terminal(x[:nq], x[nq:], p)

        return ShootingFunctions(
            traced(state.difference, {"a": x, "b": x}, "difference"),
            traced(advanced, {"x": x, "d": d}, "advance"),
            traced(following, {"x": x, "u": u, "p": p}, "next"),
            traced(end, {"x": x, "p": p}, "end"),
        )

    @cached_property
    def knot(self) -> Kernel:
        """(x, u, x_next, p), if exact slopes -> a row of `stepping.ShootingWorkspace.models`; compiled."""
        return Kernel(self._knot[0])

    @cached_property
    def _knot(self) -> tuple[Function | Program, Packing]:
        """The function, and how models are made of its rows."""
        return KnotModel(self._step, self._stage, self._sizes, self._is_exact).compact()

    @cached_property
    def last(self) -> Kernel:
        """(x, p) -> `stepping.ShootingWorkspace.end`, compiled."""
        nq = self.nq
        x, _, _, p = self._sizes

        def last(x: Array, p: Array) -> Array:
            cost, g, H = self._terminal.derivatives(x[:nq], x[nq:], p)
            return np.concatenate([cost, g, H.ravel()])

        return Kernel(partial(traced, last, {"x": x, "p": p}, "last"))

    @cached_property
    def elapsed(self) -> Kernel:
        """(start of a plan, its next knot, state) -> 0 if the state is still at the start, else 1; compiled.

        Distances are velocities: of positions by dt, so that units agree.
        """
        x = self._sizes.state
        state = Product(self.mechanism.group, R(self.nv))

        def apart(a: Array, b: Array) -> Any:
            d = state.difference(a, b)
            moved = d[: self.nv] / self.dt
            return moved @ moved + d[self.nv :] @ d[self.nv :]

        def elapsed(start: Array, following: Array, at: Array) -> Any:
            return where(apart(start, at) < HELD**2 * apart(following, at), 0.0, 1.0)

        return Kernel(partial(trace, elapsed, {"start": x, "following": x, "at": x}, "elapsed"))

    def in_c(self, knots: int) -> tuple[PlanFunctions, PlanShape]:
        """The functions and the shape of plans of so many knots, which `stepping.plan_c99` prints."""
        q, v, u, p = self.nq, self.nv, self.nu, self._sizes.parameters
        arguments = {"q": q, "v": v, "u": u, "p": p}, {"q": q, "v": v, "p": p}
        constraints = [
            PlanConstraints(
                trace(part.violations, shapes, "violations") if part.size else None,
                ~part.has_slack,
                part.uncontrolled,
            )
            for part, shapes in zip(self._constraints, arguments, strict=True)
        ]
        knot, packing = self._knot
        elapsed = self.elapsed.function
        passes = self.shooting.functions
        functions = PlanFunctions(passes, elapsed, knot, packing, self.last.function, constraints)
        return functions, PlanShape(self._sizes, q, self.layout.size, knots, self._bounds)

    # -- calls --------------------------------------------------------------------------------------------

    def efforts(self, u: Array) -> Array:
        """tau = S u (..., nv) of inputs (..., m)."""
        return np.asarray(u) @ self._step.S.T

    def mpc(self, knots: int, **options: Any) -> Controller:
        """A controller that plans so many steps ahead at each of its calls; options as of `Controller`."""
        return Controller(self, knots, **options)

    @checked
    def solve(
        self,
        q0: Any = None,
        v0: Any = None,
        *,
        knots: int | None = None,
        u: Array = None,
        q: Array = None,
        v: Array = None,
        parameters: Mapping[str, Any] | None = None,
        iterations: int = 100,
        tolerance: float = 1e-10,
        feasibility: float = 1e-6,
    ) -> OptimalPlan:
        """The trajectory from (q0, v0) of least cost, near where the search begins.

        q0, v0      initial state, as in `simulate`
        knots       number N of steps; None: as many as u or q have rows
        u           inputs to begin with, (N, m), or (m,) for all. None: zero; where their motion goes beyond
                    1e6 rad or m, the search begins with states that stay where they are, and closes gaps
        q, v        states to begin with, (N + 1, nq) and (N + 1, nv), or one for all; they need not be a
                    motion, and gaps close as the search goes on. None: the motion that u makes
        parameters  values that differ from the problem's, {name: value}, or {name: (N + 1, *shape)} for each
                    knot
        iterations  steps that are allowed
        tolerance   predicted decrease of the cost, in units of the cost, at which the search ends
        feasibility  by which constraints may be broken

        Raises ShapeError, ModelError for unknown parameters, IntegrationError where u makes a motion that
        is not finite.
        """
        # The method is long because it checks all guesses against each other.
        arrays = {"u": (u, self.nu, 0), "q": (q, self.nq, 1), "v": (v, self.nv, 1)}
        guesses = {name: floats(name, x) for name, (x, _, _) in arrays.items() if x is not None}
        for name, x in guesses.items():
            if x.ndim not in (1, 2) or x.shape[-1] != arrays[name][1]:
                raise wrong_shape(name, x.shape, f"({arrays[name][1]},) or a row per knot")
        # all arrays with a row per knot, and knots=, must agree on the number of steps
        rows = {name: len(x) - arrays[name][2] for name, x in guesses.items() if x.ndim == 2}
        if knots is not None:
            rows["knots"] = count("knots", knots)
        if len(set(rows.values())) != 1 or min(rows.values()) < 1:
            told = ", ".join(f"{name} says {n}" for name, n in rows.items()) or "nothing says it"
            raise ShapeError(f"the number of steps must be known, and be one: {told}; give knots=100")
        n = next(iter(rows.values()))
        workspace = self._workspace(n)
        w = workspace.w
        first, rate = self._state(q0, v0)
        self._set_parameters(w, parameters)
        start = np.concatenate([first, rate])
        w.u[:] = np.clip(guesses.get("u", 0.0), w.low, w.high)
        # guesses of states may leave gaps between knots; without them the inputs make a motion
        w.gapped = "q" in guesses or "v" in guesses
        w.x[:] = start
        if w.gapped:
            w.x[:, : self.nq], w.x[:, self.nq :], _ = states_of(
                self.mechanism, guesses.get("q", first), guesses.get("v")
            )
            w.x[0] = start
        elif not self._roll(w, FAR if u is None else np.inf):
            if u is not None:
                raise IntegrationError(
                    "the inputs u lead to a motion that is not finite; begin with others, with states q= and "
                    "v= instead, or take a smaller dt"
                )
            w.gapped = True
        limits = positive("tolerance", tolerance), positive("feasibility", feasibility)
        found = workspace.solve(count("iterations", iterations, 0), *limits)
        plan = self._plan(workspace, found, "give other u=, q= or v=")
        self._workspaces[n].append(workspace)
        return plan

    @checked
    def improve(
        self,
        plan: OptimalPlan,
        q0: Any = None,
        v0: Any = None,
        *,
        shift: int | None = 0,
        parameters: Mapping[str, Any] | None = None,
        iterations: int | None = None,
        tolerance: float = 1e-6,
        feasibility: float = 1e-6,
    ) -> OptimalPlan:
        """A plan from (q0, v0) that is better than an earlier one; it begins with all that this one knows.

        plan        an earlier plan of this problem: the search begins with its states, inputs, multipliers
                    and penalty
        q0, v0      initial state, as in `simulate`; it need not be on the plan, and the gap closes
        shift       knots by which the new plan begins later; the last knot fills the place of missing ones.
                    None: 0 if the state is still where the plan begins, twice as near as to the next knot,
                    for example because the robot is held; otherwise 1
        parameters  as in `solve`
        iterations  steps of the search at most; None: as many as the constraints need, 2 without constraints
        tolerance   as in `solve`
        feasibility by which constraints may be broken

        Multipliers are renewed after each step that went as the model predicts, and not only after a search
        has converged, as in `solve`. So a few iterations follow a state that moves on, with multipliers that
        are as good as the trajectory. The gains belong to the model before the last step.

        Raises ShapeError for a plan of another problem, or with fewer knots than `shift`; IntegrationError
        where costs, constraints or their slopes are not finite.
        """
        n = len(plan.u)
        stage, terminal = self._multiplier_shapes(n)
        for x, shape in (
            (plan.q, (n + 1, self.nq)),
            (plan.v, (n + 1, self.nv)),
            (plan.u, (n, self.nu)),
            (plan.multipliers.stage, stage),
            (plan.multipliers.terminal, terminal),
        ):
            if x.shape != shape:
                raise ShapeError(
                    f"the plan has an array of shape {x.shape}, expected {shape}: it belongs to another "
                    "problem"
                )
        first, rate = self._state(q0, v0)
        if shift is None:
            knots = (np.concatenate([plan.q[k], plan.v[k]]) for k in (0, 1))
            shift = int(self.elapsed(*knots, np.concatenate([first, rate])))
        if count("shift", shift, 0) > n:
            raise ShapeError(f"shift is {shift}, and the plan has {n} knots; give at most as many")
        limits = positive("tolerance", tolerance), positive("feasibility", feasibility)
        most = None if iterations is None else count("iterations", iterations)
        workspace = self._workspace(n)
        w = workspace.w
        self._set_parameters(w, parameters)
        # knots move towards the start, the last one fills the places that they leave
        for target, old in ((w.x[:, : self.nq], plan.q), (w.x[:, self.nq :], plan.v), (w.u, plan.u)):
            moved = old[shift:]
            target[: len(moved)] = moved
            target[len(moved) :] = old[-1]
        w.x[0, : self.nq] = first
        w.x[0, self.nq :] = rate
        w.gapped = True
        found = workspace.improve(plan.multipliers, shift, most, *limits)
        better = self._plan(
            workspace, found, "begin with another plan, or solve anew, as a controller does after its reset()"
        )
        self._workspaces[n].append(workspace)
        return better

    def _state(self, q0: Any, v0: Any) -> tuple[Array, Array]:
        """The initial state, checked."""
        q, v, batch = states_of(self.mechanism, q0, v0)
        if batch:
            raise ShapeError(f"q0 and v0 have the leading axes {batch}; a plan starts from one state")
        return q[0], v[0]

    def _set_parameters(self, w: ShootingWorkspace, parameters: Mapping[str, Any] | None) -> None:
        """The user's parameters at all knots; multipliers and penalties are zero."""
        w.p[:] = 0
        w.p[:, : self.layout.size] = self.layout.values(parameters or {}, (w.knots + 1,))

    def _multiplier_shapes(self, knots: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of multipliers of stages and of the end."""
        stage, terminal = self._constraints
        return (knots, stage.size), (terminal.size,)

    @cached_property
    def _workspaces(self) -> dict[int, Spare[ConstrainedSearch]]:
        """Workspaces that no solution uses now, by their number of knots."""
        return {}

    def _workspace(self, knots: int) -> ConstrainedSearch:
        """A workspace for one solution; other threads may search at the same time."""
        spare = self._workspaces.setdefault(knots, Spare())
        try:
            return spare.pop()
        except IndexError:  # all are in use
            return self._new_workspace(knots)

    def _new_workspace(self, knots: int) -> ConstrainedSearch:
        w = self.shooting.workspace(knots, self._knot[1])
        descent = Descent(self.shooting, w, self.knot, self.last, self._is_exact)
        q = w.x[:, : self.nq]
        v = w.x[:, self.nq :]
        first = self.layout.size
        multipliers = w.p[:, first + 1 :]
        stage, terminal = self._constraints
        terms = []
        # constraints of stages along all knots but the last, then those of the end
        if stage.size:
            kept = multipliers[:-1, : stage.size]
            arrays = [q[:-1], v[:-1], w.u, w.p[:-1]]
            update = MultiplierUpdate(self.shooting, self.violations[0], arrays, kept, stage.uncontrolled)
            terms.append(ConstraintTerms(stage, update, kept, self.dt, 0))
        if terminal.size:
            kept = multipliers[-1:, : terminal.size]
            arrays = [q[-1:], v[-1:], w.p[-1:]]
            update = MultiplierUpdate(self.shooting, self.violations[1], arrays, kept, None)
            terms.append(ConstraintTerms(terminal, update, kept, 1.0, knots))
        return ConstrainedSearch(descent, terms, w.p[:, first] if terms else np.zeros(0))

    def _roll(self, w: ShootingWorkspace, far: float) -> bool:
        """The motion from w.x[0] that w.u makes, if it is finite and stays within `far`; whether it does."""
        # without gains a forward pass of full length is the motion under the inputs
        w.k[:] = 0
        w.K[:] = 0
        self.shooting.forward(w, np.ones(self.shooting.lanes))
        x = w.states[:, :, 0]
        stays = bool(np.isfinite(x).all() and np.abs(x).max() <= far)
        if stays:
            w.x[:] = x
        return stays

    def _plan(self, workspace: ConstrainedSearch, found: Found, remedy: str) -> OptimalPlan:
        """The plan that a search leaves in its workspace; IntegrationError if no search could begin."""
        # the start itself is not finite, or has no minimum: steps lead to trajectories that are finite only
        if not found.outcome.history or not np.isfinite(found.cost):
            raise IntegrationError(
                "no search can begin with this trajectory, because costs, constraints or their slopes along "
                f"it are not finite or without a minimum ({found.outcome.reason}); {remedy}"
            )
        w = workspace.w
        x = w.x.copy()
        history = found.outcome.history
        kept = {x.knot: x.multipliers for x in workspace.terms}
        stage, terminal = self._multiplier_shapes(w.knots)
        return OptimalPlan(
            t=self.dt * np.arange(w.knots + 1),
            q=x[:, : self.nq],
            v=x[:, self.nq :],
            u=w.u.copy(),
            cost=found.cost,
            gains=w.K.copy(),
            converged=found.outcome.converged,
            reason=found.outcome.reason,
            gap=found.gap,
            violation=max((x.amount for x in found.violations if not x.has_slack), default=0.0),
            gradient=history[-1].gradient,
            history=tuple(history),
            violations=tuple(found.violations),
            status=found.outcome.status,
            multipliers=Multipliers(
                kept[0].copy() if 0 in kept else np.zeros(stage),
                kept[w.knots][0].copy() if w.knots in kept else np.zeros(terminal),
                workspace.kept_penalty,
                workspace.largest,
            ),
        )

    @cached_property
    def violations(self) -> tuple[Any, ...]:
        """Distances of constraints to their bounds, and the next multipliers; compiled."""
        sizes = {"q": self.nq, "v": self.nv, "u": self.nu, "p": self._sizes.parameters}
        last = {name: n for name, n in sizes.items() if name != "u"}
        return tuple(
            Kernel(partial(trace, kept.violations, shapes, "violations")) if kept.size else None
            for kept, shapes in zip(self._constraints, (sizes, last), strict=True)
        )


class _UserFunction:
    """A function of the user's as one of arrays, the last of which holds flat parameters."""

    def __init__(self, function: Any, layout: FlatLayout) -> None:
        if not callable(function):
            raise GraphError(f"{short(function)} is no function; give one of (q, v, u), at the end of (q, v)")
        self.function = function
        self.layout = layout
        self.__name__ = str(getattr(function, "__name__", "<>"))

    def __call__(self, *at: Any) -> Any:
        return self.function(*at[:-1], *([self.layout.read(at[-1])] if self.layout.size else []))


def _nothing(q: Array, v: Array, *p: Any) -> float:
    """The cost of the end by default."""
    return 0.0


def _actuation(mechanism: OpenTree, given: Any) -> Array:
    """S (nv, m)."""
    there = mechanism.labels[1].names
    nv = mechanism.nv
    # S: columns of the identity for joints by name, or the user's matrix
    if given is None:
        bodies = [body for body in mechanism.tree.bodies if body.joint.dim]
        # every joint but a free base, which has all six twists and no parent
        driven = [b for b in bodies if b.parent or not np.array_equal(b.joint.S, np.eye(6))]
        dofs = [i for body in driven for i in range(body.dofs.start, body.dofs.stop)]
        S = np.eye(nv)[:, sorted(set(dofs))]
    elif isinstance(given, str) or (isinstance(given, Iterable) and all(isinstance(x, str) for x in given)):
        for name in names(given):
            if name not in there:
                raise ModelError(f"actuated: there is no {name!r}; {known(there, name)}")
        S = np.eye(nv)[:, [there.index(name) for name in names(given)]]
    else:
        S = floats("actuated", given)
    if S.ndim != 2 or len(S) != nv or not S.shape[1]:
        raise wrong_shape("actuated", S.shape, f"({nv}, m), by which tau = S u, or names of joints")
    return S


@partial(checked, but=("mechanism", "stage", "terminal"))
def optimal_control(
    mechanism: Robot | OpenTree,
    *,
    dt: float,
    stage: Callable[..., Any],
    terminal: Callable[..., Any] | None = None,
    stage_constraints: Iterable[Any] = (),
    terminal_constraints: Iterable[Any] = (),
    actuated: Any = None,
    limits: Any = None,
    method: str | Method = "rkmk4",
    hessian: str = "gauss-newton",
    parameters: Mapping[str, Any] | None = None,
    forces: Forces = (),
    joints: str | Iterable[str] | None = None,
) -> OptimalControl:
    """The problem to find inputs u_k, held for dt each, and the motion under them, of least cost.

        sum_k dt l(q_k, v_k, u_k) + l_N(q_N, v_N),    (q, v)_(k+1) = f(q_k, v_k, u_k),    low <= u <= high

        def stage(q, v, u):
            return np.concatenate([0.1 * v, 0.01 * u])

        def terminal(q, v):
            return 100 * (robot.pose(q, "tool")[:3, 3] - target)

        plan = lb.optimal_control(robot, dt=0.01, stage=stage, terminal=terminal).solve(q0, knots=100)

    stage       l(q, v, u): a number, or an array of residuals r, which stands for r^T r / 2. It is traced:
                NumPy operators, `liebody.scalars`, calls of the robot; with parameters, l(q, v, u, p)
    terminal    l_N(q, v), or l_N(q, v, p), likewise; none if None
    stage_constraints     [(c, low, high), ...]: low <= c(q, v, u) <= high at every knot but the last, numbers
                          or arrays; equal bounds make equations
    terminal_constraints  the same of c(q, v) at the last knot. With slack, (c, low, high, price), bounds may
                          be broken by s: the cost has price |s| for each entry, times dt of stages. They are
                          kept exactly where multipliers are below the price
    actuated    S (nv, m), by which joints have the efforts tau = S u, or names of the joints that are driven;
                None: all but a free base
    limits      (low, high) of u, numbers or (m,), or one of them for -limits <= u <= limits
    method      explicit method of a step f, by its name, as in `simulate`, or "semi-implicit-euler":
                v+ = v + dt dv/dt, q+ = q exp(dt v+), which costs a quarter of "rkmk4"
    hessian     "gauss-newton": J^T J of residuals, and no second derivatives of f. "exact": all of them, by
                slopes of the cost to go: Newton's method, with fewer iterations where the end of a search
                is slow, and more work in each; for small mechanisms
    parameters  {name: value}, numbers that l and l_N read as p.name, and that each solution may be given anew
    forces, joints   as in `simulate`

    States are moved by exp, so nothing is singular: derivatives are by (delta, nu) at (q exp(delta), v + nu).
    Differential dynamic programming: with F the derivative of f, the cost to go V of the linear-quadratic
    model is found from the last knot to the first,

        Q = H + F^T V F,    q = g + F^T v,    k = -Q_uu^-1 q_u,    K = -Q_uu^-1 Q_ux,    u_k + alpha k + K d

    and followed forwards with several step lengths alpha at once. Constraints become costs, by an augmented
    Lagrangian (Hestenes 1969; Powell 1969; Rockafellar 1973). Slack has a linear price, as in Kerrigan and
    Maciejowski (2000), "Soft constraints and exact penalty functions in model predictive control".

    Mayne (1966), "A second-order gradient method for determining optimal trajectories of non-linear
    discrete-time systems"; Li and Todorov (2004), "Iterative linear quadratic regulator design"; Tassa,
    Mansard and Todorov (2014), "Control-limited differential dynamic programming", for limits; Mastalli et
    al. (2020), "Crocoddyl", for states that are no motion yet.

    Raises ModelError for mechanisms with constraints, GraphError for costs that cannot be traced,
    IntegrationError for methods that are not explicit, ShapeError.
    """
    # The function is long by its argument table and text; it only assembles the problem.

    # the mechanism, and the step that holds inputs for h
    h = positive("dt", dt, SECONDS)
    tree = mechanism_of(mechanism, forces_of(forces), joints, dt)
    if not isinstance(tree, OpenTree):
        raise ModelError(f"{tree.name} has constraints, and optimal_control takes a Robot or an OpenTree")
    if tree.layout.size:
        raise ModelError(
            f"{tree.name} has free parameters, and optimal_control takes parameters of costs only"
        )
    if hessian not in HESSIANS:
        raise ModelError(f"hessian is {hessian!r}, expected one of {', '.join(HESSIANS)}")
    step = HeldStep(tree, _actuation(tree, actuated), h, None if method == EULER else method_named(method))
    layout = FlatLayout("parameter", parameters or {})
    m = step.S.shape[1]
    functions = stage, terminal or _nothing
    sizes: Any = {"q": tree.nq, "v": tree.nv, "u": m}, {"q": tree.nq, "v": tree.nv}
    constraints = [
        Constraints(
            argument,
            [
                (_UserFunction(one[0], layout), *one[1:]) if isinstance(one, tuple) and one else one
                for one in listed
            ],
            {**shapes, "p": max(layout.size, 1)},
            layout.size,
        )
        for argument, listed, shapes in zip(
            ("stage_constraints", "terminal_constraints"),
            (stage_constraints, terminal_constraints),
            sizes,
            strict=True,
        )
    ]
    # parameters of a knot: the user's, then mu and the multipliers of its constraints
    most = max(x.size for x in constraints)
    width = max(layout.size + (1 + most if most else 0), 1)
    # residuals of the augmented Lagrangian join the cost of the stage, or of the end
    costs = []
    for function, kept, shapes, scale in zip(functions, constraints, sizes, (h, 1.0), strict=True):
        parts: dict[str, Any] = {
            str(getattr(function, "__name__", "cost")).strip("<>"): _UserFunction(function, layout)
        }
        parts |= {"constraints": kept.residuals} if kept.size else {}
        costs.append(Cost(parts, {**shapes, "p": width}, tree.group, hessian == "exact", scale))
    # one number or array for both sides, or a pair
    pair = isinstance(limits, tuple) and len(limits) == 2
    low, high = (-np.inf, np.inf) if limits is None else limits if pair else (None, limits)
    bounds = bounds_of("limits", low, high, (m,))
    return OptimalControl(step, costs, constraints, bounds, layout, width, hessian == "exact")
