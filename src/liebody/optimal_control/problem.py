"""Optimal control of a tree: a cost in NumPy, a trajectory of least cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..codegen import Function, Kernel, Program, trace, traced
from ..codegen.hoisting import apply_hoisted
from ..codegen.layout import FlatLayout, Sendable
from ..codegen.packing import Packing, packed, passed
from ..codegen.shooting import ShootingFunctions, ShootingPasses, Sizes, Workspace
from ..door import checked, count, floats, names, short
from ..dynamics import Force, OpenTree
from ..errors import SECONDS, GraphError, IntegrationError, ModelError, ShapeError, known, positive
from ..groups import Product, R
from ..integrators.methods import Method, method_named
from ..prepare import mechanism_of, states_of
from ..robot import Robot
from ..scalar import Array
from ..shared import Spare, cached_property
from .fddp import Iteration, Outcome, search
from .model import Constraints, Cost, HeldStep, Violation, bounds_of, largest_violation
from .mpc import Controller

EULER = "semi-implicit-euler"
HESSIANS = ("gauss-newton", "exact")
LONG = 60_000  # operations of a knot from which on directions are a loop
BESIDE = 2  # directions in one turn of the loop, which share what they read
PENALTY, STIFFER, STIFFEST = 10.0, 10.0, 1e9  # of constraints
SLOW = 0.25  # of the violation before: penalties grow where more is left


@dataclass(frozen=True)
class OptimalPlan:
    """A trajectory of least cost, or as far as the search for it came.

    t, q, v      times and states of the knots, (N + 1,), (N + 1, nq), (N + 1, nv)                 [s, ...]
    u            inputs between them, (N, m)
    cost         of all of it
    gains        K (N, m, 2 nv): near the states, the best inputs are u + K (difference(q_k, q), v - v_k)
    converged    whether the predicted decrease is below the tolerance
    reason       why the search ended
    gap          largest |gap| between the pieces of the trajectory; 0 where it is a motion
    violation    by which constraints are broken, at most; 0 without constraints
    violations   of each constraint, a `Violation`, those of stages first
    gradient     largest slope of the cost by an input that its bounds leave
    history      an `Iteration` for each linearisation
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

    @property
    def iterations(self) -> int:
        """Number of steps that were taken."""
        return sum(x.step > 0 for x in self.history)

    def __repr__(self) -> str:
        worst = largest_violation(self.violations)
        where = f" of {worst.constraint} at knot {worst.knot}" if worst and worst.amount else ""
        return (
            f"OptimalPlan: cost {self.cost:.9g} after {self.iterations} iterations, "
            f"{'' if self.converged else 'not '}converged: {self.reason}; "
            f"gap {self.gap:.1e}, violation {self.violation:.1e}{where}, gradient {self.gradient:.1e}"
        )


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
        self.mechanism, self.layout, self.dt = step.mechanism, layout, step.h
        self._step, (self._stage, self._terminal), self._constraints = step, costs, constraints
        self.nq, self.nv, self.nu = self.mechanism.nq, self.mechanism.nv, step.S.shape[1]
        self._sizes, self._bounds = Sizes(self.nq + self.nv, 2 * self.nv, self.nu, width), bounds

    # -- what is compiled ---------------------------------------------------------------------------------

    @cached_property
    def shooting(self) -> ShootingPasses:
        return ShootingPasses(self._functions, self._sizes, None, *self._bounds)

    def _functions(self) -> ShootingFunctions:
        state, nq = Product(self.mechanism.group, R(self.nv)), self.nq
        x, d, u, p = self._sizes

        def advanced(x: Array, d: Array) -> Array:
            return state.normalize(state.integrate(x, d))

        def following(x: Array, u: Array, p: Array) -> tuple[Array, Array]:
            q, v = x[:nq], x[nq:]
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
        """(x, u, x_next, p), if exact slopes -> a row of `codegen.shooting.Workspace.models`; compiled."""
        return Kernel(self._knot[0])

    @cached_property
    def _knot(self) -> tuple[Function | Program, Packing]:
        """The function, and how models are made of its rows.

        Where it is long, the acceleration at the start is solved for column by column, in loops; directions
        of derivatives are a loop over later stages, in which what does not depend on them is computed once.
        """
        nq, n, (x, d, u, p) = self.nq, self.nv, self._sizes
        directions, step = d + self.nu, self._step

        def end(x: Array, u: Array, unit: Array, first: Array | None = None) -> tuple[Array, Array]:
            point = step.derivative(x[:nq], x[nq:], u, unit, first)
            return np.concatenate([point.q, point.v]), np.concatenate([point.delta, point.nu])

        def model(x: Array, u: Array, following: Array, p: Array, *rest: Array) -> tuple[Array, Array]:
            *slope, end = rest
            gap = self.mechanism.group.difference(following[:nq], end[:nq]), end[nq:] - following[nq:]
            cost, g, H = self._stage.derivatives(x[:nq], x[nq:], u, p)
            for weights in slope:
                H = H + step.curvature(x[:nq], x[nq:], u, weights)
            return np.concatenate([*gap, cost]), np.concatenate([g, H.ravel()])

        def knot(x: Array, u: Array, *rest: Array, first: Array | None = None) -> Array:
            reached, columns = end(x, u, np.eye(directions, dtype=int), first)
            begin, last = model(x, u, *rest, reached)
            return np.concatenate([begin, columns.ravel(), last])

        shapes = {"x": x, "u": u, "following": x, "p": p, **({"slope": d} if self._is_exact else {})}
        program = Program("knot", shapes)
        state, inputs, *_ = given = program.inputs.values()
        found = step.in_columns(program, state, inputs)
        if step.stage_count == 1:

            def ended(x: Array, u: Array, *rest: Array) -> Array:
                return knot(x, u, *rest[:-1], first=found.rates(x, u, rest[-1]))

            made = trace(ended, {**shapes, "found": len(found.cells)}, "knot")
            line, packing = packed(made, directions, d + 1)
            assert isinstance(line, Function)
            program.output("knot", passed(program, line, *given, found.cells))
            if sum(program.operations.values()) > LONG:
                return program, packing
        else:
            both = {"x": x, "u": u, "found": len(found.cells)}
            flat = trace(lambda x, u, numbers: found.rates(x, u, numbers).ravel(), both, "rates")
            first = passed(program, flat, state, inputs, found.cells).reshape(d, 1 + directions)

            def along(x: Array, u: Array, f: Array, unit: Array, change: Array) -> tuple[Array, Array]:
                return end(x, u, unit, np.hstack([f[:, None], np.vstack([unit[n:d], change])]))

            def in_turns(columns: Array, none: Array) -> Array:
                columns = np.hstack([columns, none])
                return columns.reshape(len(columns), -1, BESIDE).swapaxes(0, 1)

            left = -directions % BESIDE
            by = {
                "unit": in_turns(np.eye(directions), np.zeros((directions, left))),
                "change": in_turns(first[n:, 1:], program.zeros((n, left))),
            }
            sizes: Any = {"x": x, "u": u, "f": d, **{key: values.shape[1:] for key, values in by.items()}}
            rates = state, inputs, first[:, 0]
            reached, columns = apply_hoisted(program, trace(along, sizes, "end"), by, rates)
            columns = np.concatenate([*columns.swapaxes(1, 2)])[:directions].T
            begin, last = program.apply(trace(model, {**shapes, "end": x}, "model"), *given, reached)
            program.output("knot", np.concatenate([begin, columns.ravel(), last]))
            if sum(program.operations.values()) > LONG:
                return packed(program, directions, d + 1)
        return packed(traced(knot, shapes, "knot"), directions, d + 1)

    @cached_property
    def last(self) -> Kernel:
        """(x, p) -> `codegen.shooting.Workspace.end`, compiled."""
        nq, (x, _, _, p) = self.nq, self._sizes

        def last(x: Array, p: Array) -> Array:
            cost, g, H = self._terminal.derivatives(x[:nq], x[nq:], p)
            return np.concatenate([cost, g, H.ravel()])

        return Kernel(partial(traced, last, {"x": x, "p": p}, "last"))

    def linearize(self, w: Workspace) -> None:
        """The models of all knots, into w."""
        slopes = [w.slopes] if self._is_exact else []
        self.knot(w.x[:-1], w.u, w.x[1:], w.p[:-1], *slopes, out=w.models)
        self.last(w.x[-1], w.p[-1], out=w.end)

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
        knots       number N of steps; None: that of u or q
        u           inputs to begin with, (N, m), or (m,) for all; zero if None
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
        arrays = {"u": (u, self.nu, 0), "q": (q, self.nq, 1), "v": (v, self.nv, 1)}
        given = {name: floats(name, x) for name, (x, _, _) in arrays.items() if x is not None}
        for name, x in given.items():
            if x.ndim not in (1, 2) or x.shape[-1] != arrays[name][1]:
                raise ShapeError(
                    f"{name} has shape {x.shape}, expected ({arrays[name][1]},) or a row per knot"
                )
        rows = {name: len(x) - arrays[name][2] for name, x in given.items() if x.ndim == 2}
        if knots is not None:
            rows["knots"] = count("knots", knots)
        if len(set(rows.values())) != 1 or min(rows.values()) < 1:
            told = ", ".join(f"{name} says {n}" for name, n in rows.items()) or "nothing says it"
            raise ShapeError(f"the number of steps must be known, and be one: {told}; give knots=100")
        n = next(iter(rows.values()))
        w = self._workspace(n)
        first, rate, batch = states_of(self.mechanism, q0, v0)
        if batch:
            raise ShapeError(f"q0 and v0 have the leading axes {batch}; a plan starts from one state")
        w.p[:], w.slopes[:] = 0, 0
        w.p[:, : self.layout.size] = self.layout.values(parameters or {}, (w.knots + 1,))
        start = np.concatenate([first[0], rate[0]])
        w.u[:] = np.clip(given.get("u", 0.0), w.low, w.high)
        w.gapped = "q" in given or "v" in given
        w.x[:] = start
        if w.gapped:
            w.x[:, : self.nq], w.x[:, self.nq :], _ = states_of(
                self.mechanism, given.get("q", first[0]), given.get("v")
            )
            w.x[0] = start
        else:
            self._roll(w)
        limits = positive("tolerance", tolerance), positive("feasibility", feasibility)
        plan = self._found(w, count("iterations", iterations, 0), *limits)
        self._workspaces[n].append(w)
        return plan

    @cached_property
    def _workspaces(self) -> dict[int, Spare[Workspace]]:
        """Those that no solution uses now, by their number of knots."""
        return {}

    def _workspace(self, knots: int) -> Workspace:
        """One for one solution: others may be sought at the same time."""
        spare = self._workspaces.setdefault(knots, Spare())
        try:
            return spare.pop()
        except IndexError:  # all are in use
            return self.shooting.workspace(knots, self._knot[1])

    def _roll(self, w: Workspace) -> None:
        """The motion from w.x[0] that w.u makes."""
        w.k[:], w.K[:] = 0, 0
        self.shooting.forward(w, np.ones(self.shooting.lanes))
        if not np.isfinite(w.states[:, :, 0]).all():
            raise IntegrationError(
                "the inputs u lead to a motion that is not finite; begin with others, with states q= and v= "
                "instead, or take a smaller dt"
            )
        w.x[:] = w.states[:, :, 0]

    def _found(self, w: Workspace, iterations: int, tolerance: float, feasibility: float) -> OptimalPlan:
        """The best trajectory near that in w; with constraints, by a search for each of their multipliers."""
        history: list[Iteration] = []
        violation, mu = np.inf, w.p[:, self.layout.size :][:, :1]  # without constraints there may be none
        mu[:] = PENALTY
        while True:
            left = iterations - sum(x.step > 0 for x in history)
            outcome = search(self.shooting, w, lambda: self.linearize(w), left, tolerance)
            history += outcome.history
            before, (violations, paid) = violation, self._broken(w, update=outcome.converged)
            violation = max((x.amount for x in violations), default=0.0)
            if violation <= feasibility or not outcome.converged:
                break
            if violation > SLOW * before:
                mu *= STIFFER
            if mu.max() > STIFFEST:
                outcome = Outcome(False, "constraints stay broken, however stiff", [])
                break
        if not history:
            raise IntegrationError(
                "no search can begin with this trajectory, because costs, constraints or their slopes along "
                f"it are not finite or without a minimum ({outcome.reason}); give other u=, q= or v="
            )
        final, x = history[-1], w.x.copy()
        return OptimalPlan(
            t=self.dt * np.arange(w.knots + 1),
            q=x[:, : self.nq],
            v=x[:, self.nq :],
            u=w.u.copy(),
            cost=final.cost - paid,
            gains=w.K.copy(),
            converged=outcome.converged,
            reason=outcome.reason,
            gap=float(np.abs(w.gap).max()) if w.gapped else 0.0,
            violation=violation,
            gradient=final.gradient,
            history=tuple(history),
            violations=tuple(violations),
        )

    def _broken(self, w: Workspace, update: bool) -> tuple[list[Violation], float]:
        """By how much each constraint is broken, and their cost; multipliers are renewed if `update`."""
        q, v, first, paid = w.x[:, : self.nq], w.x[:, self.nq :], self.layout.size, 0.0
        found: list[Violation] = []
        at: Any = (q[:-1], v[:-1], w.u, w.p[:-1]), (q[-1:], v[-1:], w.p[-1:])
        for kept, kernel, arrays, scale, knot in zip(
            self._constraints, self.violations, at, (self.dt, 1.0), (0, w.knots), strict=True
        ):
            if kernel:
                broken, multipliers = np.split(kernel(*arrays), 2, axis=-1)
                found += kept.broken(broken, knot)
                paid += scale * float((multipliers**2).sum()) / (2 * w.p[0, first])
                if update:
                    arrays[-1][:, first + 1 :][:, : kept.size] = multipliers
        return found, paid

    @cached_property
    def violations(self) -> tuple[Any, ...]:
        """By how much constraints are broken, and their next multipliers; compiled."""
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
        self.function, self.layout = function, layout
        self.__name__ = str(getattr(function, "__name__", "<>"))

    def __call__(self, *at: Any) -> Any:
        return self.function(*at[:-1], *([self.layout.read(at[-1])] if self.layout.size else []))


def _nothing(q: Array, v: Array, *p: Any) -> float:
    """What the end costs by default."""
    return 0.0


def _actuation(mechanism: OpenTree, given: Any) -> Array:
    """S (nv, m)."""
    there, nv = mechanism.labels[1].names, mechanism.nv
    if given is None:
        bodies = [body for body in mechanism.tree.bodies if body.joint.dim]
        # all but a free base
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
        raise ShapeError(
            f"actuated has shape {S.shape}, expected ({nv}, m), by which tau = S u, or names of joints"
        )
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
    forces: Iterable[Force] = (),
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
                NumPy operators, `liebody.scalar`, calls of the robot; with parameters, l(q, v, u, p)
    terminal    l_N(q, v), or l_N(q, v, p), likewise; none if None
    stage_constraints     [(c, low, high), ...]: low <= c(q, v, u) <= high at every knot but the last, numbers
                          or arrays; equal bounds make equations
    terminal_constraints  the same of c(q, v) at the last knot
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
    Lagrangian (Hestenes 1969; Powell 1969; Rockafellar 1973).

    Mayne (1966), "A second-order gradient method for determining optimal trajectories of non-linear
    discrete-time systems"; Li and Todorov (2004), "Iterative linear quadratic regulator design"; Tassa,
    Mansard and Todorov (2014), "Control-limited differential dynamic programming", for limits; Mastalli et
    al. (2020), "Crocoddyl", for states that are no motion yet.

    Raises ModelError for mechanisms with constraints, GraphError for costs that cannot be traced,
    IntegrationError for methods that are not explicit, ShapeError.
    """
    h = positive("dt", dt, SECONDS)
    made = mechanism_of(mechanism, tuple(forces), joints, dt)
    if not isinstance(made, OpenTree):
        raise ModelError(f"{made.name} has constraints, and optimal_control takes a Robot or an OpenTree")
    if made.layout.size:
        raise ModelError(
            f"{made.name} has free parameters, and optimal_control takes parameters of costs only"
        )
    if hessian not in HESSIANS:
        raise ModelError(f"hessian is {hessian!r}, expected one of {', '.join(HESSIANS)}")
    step = HeldStep(made, _actuation(made, actuated), h, None if method == EULER else method_named(method))
    layout, m = FlatLayout("parameter", parameters or {}), step.S.shape[1]
    functions = stage, terminal or _nothing
    sizes: Any = {"q": made.nq, "v": made.nv, "u": m}, {"q": made.nq, "v": made.nv}
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
    most = max(x.size for x in constraints)
    width = max(layout.size + (1 + most if most else 0), 1)
    costs = []
    for function, kept, shapes, scale in zip(functions, constraints, sizes, (h, 1.0), strict=True):
        parts: dict[str, Any] = {
            str(getattr(function, "__name__", "cost")).strip("<>"): _UserFunction(function, layout)
        }
        parts |= {"constraints": kept.residuals} if kept.size else {}
        costs.append(Cost(parts, {**shapes, "p": width}, made.group, hessian == "exact", scale))
    pair = isinstance(limits, tuple) and len(limits) == 2
    low, high = (-np.inf, np.inf) if limits is None else limits if pair else (None, limits)
    bounds = bounds_of("limits", low, high, (m,))
    return OptimalControl(step, costs, constraints, bounds, layout, width, hessian == "exact")
