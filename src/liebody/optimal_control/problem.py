"""Optimal control of a tree: a cost in NumPy, a trajectory of least cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..codegen import Kernel, traced
from ..codegen.layout import FlatLayout
from ..codegen.shooting import Shooting, ShootingFunctions, Sizes, Workspace
from ..door import checked, count, floats
from ..dynamics import Force, OpenTree
from ..errors import SECONDS, GraphError, IntegrationError, ModelError, ShapeError, known, positive
from ..groups import Product, R
from ..integrators.methods import Method, method_named
from ..robot import Robot
from ..scalar import Array
from ..simulate import mechanism_of, states_of
from .fddp import Iteration, search
from .model import Cost, Step

EULER = "semi-implicit-euler"
HESSIANS = ("gauss-newton", "exact")


@dataclass(frozen=True)
class Plan:
    """A trajectory of least cost, or as far as the search for it came.

    t, q, v      times and states of the knots, (N + 1,), (N + 1, nq), (N + 1, nv)                 [s, ...]
    u            inputs between them, (N, m)
    cost         of all of it
    gains        K (N, m, 2 nv): near the states, the best inputs are u + K (difference(q_k, q), v - v_k)
    converged    whether the predicted decrease is below the tolerance
    reason       why the search ended
    gap          largest |gap| between the pieces of the trajectory; 0 where it is a motion
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
    gradient: float
    history: tuple[Iteration, ...]

    @property
    def iterations(self) -> int:
        """Number of steps that were taken."""
        return sum(x.step > 0 for x in self.history)

    def __repr__(self) -> str:
        return (
            f"Plan: cost {self.cost:.9g} after {self.iterations} iterations, "
            f"{'' if self.converged else 'not '}converged: {self.reason}; "
            f"gap {self.gap:.1e}, gradient {self.gradient:.1e}"
        )


class OptimalControl:
    """A problem of optimal control, compiled; made by `optimal_control`, whose docstring says more."""

    def __init__(
        self, mechanism: OpenTree, step: Step, costs: tuple[Cost, Cost | None], bounds: Array, layout: FlatLayout
    ) -> None:
        self.mechanism, self.layout, self.dt = mechanism, layout, step.h
        self._step, (self._stage, self._terminal) = step, costs
        self.nq, self.nv, self.nu = mechanism.nq, mechanism.nv, step.S.shape[1]
        sizes = Sizes(self.nq + self.nv, 2 * self.nv, self.nu, max(layout.size, 1))
        self.shooting = Shooting(self._functions, sizes, None, *bounds)
        self._workspaces: dict[int, Workspace] = {}

    # -- what is compiled ---------------------------------------------------------------------------------

    def _functions(self) -> ShootingFunctions:
        state, nq = Product(self.mechanism.group, R(self.nv)), self.nq
        x, d, u, p = self.shooting.sizes

        def advanced(x: Array, d: Array) -> Array:
            return state.normalize(state.integrate(x, d))

        def following(x: Array, u: Array, p: Array) -> tuple[Array, Array]:
            q, v = x[:nq], x[nq:]
            return np.concatenate(self._step.next(q, v, u)), self._stage(q, v, u, p)

        def end(x: Array, p: Array) -> Array:
            return self._terminal(x[:nq], x[nq:], p) if self._terminal else np.zeros(1)

        return ShootingFunctions(
            traced(state.difference, {"a": x, "b": x}, "difference"),
            traced(advanced, {"x": x, "d": d}, "advance"),
            traced(following, {"x": x, "u": u, "p": p}, "next"),
            traced(end, {"x": x, "p": p}, "end"),
        )

    @cached_property
    def knot(self) -> Kernel:
        """(x, u, x_next, p) -> a row of `codegen.shooting.Workspace.models`, compiled."""
        nq, (x, _, u, p) = self.nq, self.shooting.sizes
        group = self.mechanism.group

        def knot(x: Array, u: Array, following: Array, p: Array) -> Array:
            q, v = x[:nq], x[nq:]
            end = self._step.derivative(q, v, u)
            gap = group.difference(following[:nq], end.q), end.v - following[nq:]
            cost, g, H = self._stage.derivatives(q, v, u, p)
            return np.concatenate([*gap, cost, end.delta.ravel(), end.nu.ravel(), g, H.ravel()])

        return Kernel(partial(traced, knot, {"x": x, "u": u, "following": x, "p": p}, "knot"))

    @cached_property
    def last(self) -> Kernel:
        """(x, p) -> `codegen.shooting.Workspace.end`, compiled."""
        nq, n, (x, _, _, p) = self.nq, 2 * self.nv, self.shooting.sizes

        def last(x: Array, p: Array) -> Array:
            if self._terminal is None:
                return np.zeros(1 + n + n * n)
            cost, g, H = self._terminal.derivatives(x[:nq], x[nq:], p)
            return np.concatenate([cost, g, H.ravel()])

        return Kernel(partial(traced, last, {"x": x, "p": p}, "last"))

    def linearize(self, w: Workspace) -> None:
        """The models of all knots, into w."""
        self.knot(w.x[:-1], w.u, w.x[1:], w.p[:-1], out=w.models)
        self.last(w.x[-1], w.p[-1], out=w.end)

    # -- calls --------------------------------------------------------------------------------------------

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
    ) -> Plan:
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

        Raises ShapeError, ModelError for unknown parameters, IntegrationError where u makes a motion that
        is not finite.
        """
        arrays = {"u": (u, self.nu, 0), "q": (q, self.nq, 1), "v": (v, self.nv, 1)}
        given = {name: floats(name, x) for name, (x, _, _) in arrays.items() if x is not None}
        for name, x in given.items():
            if x.ndim not in (1, 2) or x.shape[-1] != arrays[name][1]:
                raise ShapeError(f"{name} has shape {x.shape}, expected ({arrays[name][1]},) or a row per knot")
        rows = {name: len(x) - arrays[name][2] for name, x in given.items() if x.ndim == 2}
        if knots is not None:
            rows["knots"] = count("knots", knots)
        if len(set(rows.values())) != 1 or min(rows.values()) < 1:
            told = ", ".join(f"{name} says {n}" for name, n in rows.items()) or "nothing says it"
            raise ShapeError(f"the number of steps must be known, and be one: {told}; give knots=100")
        w = self._workspace(next(iter(rows.values())))
        first, rate, batch = states_of(self.mechanism, q0, v0)
        if batch:
            raise ShapeError(f"q0 and v0 have the leading axes {batch}; a plan starts from one state")
        w.p[:, : self.layout.size] = self._parameters(parameters, w.knots)
        start = np.concatenate([first[0], rate[0]])
        w.u[:] = np.clip(given.get("u", 0.0), w.low, w.high)
        w.gapped = "q" in given or "v" in given
        w.x[:] = start
        if w.gapped:
            w.x[:, : self.nq] = self.mechanism.group.normalize(given.get("q", first[0]))
            w.x[:, self.nq :] = given.get("v", 0.0)
            w.x[0] = start
        else:
            self._roll(w)
        return self._found(w, count("iterations", iterations, 0), positive("tolerance", tolerance))

    def _workspace(self, knots: int) -> Workspace:
        if knots not in self._workspaces:
            self._workspaces[knots] = self.shooting.workspace(knots)
        return self._workspaces[knots]

    def _parameters(self, given: Mapping[str, Any] | None, knots: int) -> Array:
        """Values of all knots, (N + 1, np)."""
        return self.layout.values(given or {}, (knots + 1,))

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

    def _found(self, w: Workspace, iterations: int, tolerance: float) -> Plan:
        outcome = search(self.shooting, w, lambda: self.linearize(w), iterations, tolerance)
        final, x = outcome.history[-1], w.x.copy()
        return Plan(
            t=self.dt * np.arange(w.knots + 1),
            q=x[:, : self.nq],
            v=x[:, self.nq :],
            u=w.u.copy(),
            cost=final.cost,
            gains=w.K.copy(),
            converged=outcome.converged,
            reason=outcome.reason,
            gap=float(np.abs(w.gap).max()) if w.gapped else 0.0,
            gradient=final.gradient,
            history=tuple(outcome.history),
        )


def _actuation(mechanism: OpenTree, given: Any) -> Array:
    """S (nv, m)."""
    names, nv = mechanism.labels[1].names, mechanism.nv
    if given is None:
        driven = [body for body in mechanism.tree.bodies if body.joint.dim and not _is_free(body)]
        dofs = [i for body in driven for i in range(body.dofs.start, body.dofs.stop)]
        return np.eye(nv)[:, sorted(set(dofs))]
    if isinstance(given, str) or (isinstance(given, Iterable) and all(isinstance(x, str) for x in given)):
        chosen = [given] if isinstance(given, str) else list(given)
        for name in chosen:
            if name not in names:
                raise ModelError(f"actuated: there is no {name!r}; {known(names, name)}")
        return np.eye(nv)[:, [names.index(name) for name in chosen]]
    S = floats("actuated", given)
    if S.ndim != 2 or len(S) != nv or not S.shape[1]:
        raise ShapeError(f"actuated has shape {S.shape}, expected ({nv}, m), by which tau = S u, or names of joints")
    return S


def _is_free(body: Any) -> bool:
    return not body.parent and np.array_equal(body.joint.S, np.eye(6))


@partial(checked, but=("mechanism", "stage", "terminal"))
def optimal_control(
    mechanism: Robot | OpenTree,
    *,
    dt: float,
    stage: Callable[..., Any],
    terminal: Callable[..., Any] | None = None,
    actuated: Any = None,
    limits: Any = None,
    method: str | Method = "rkmk4",
    hessian: str = "gauss-newton",
    parameters: Mapping[str, Any] | None = None,
    forces: Iterable[Force] = (),
    joints: str | Iterable[str] | None = None,
) -> OptimalControl:
    """The problem to find inputs u_k, held for dt each, and the motion under them, of least cost

        sum_k dt l(q_k, v_k, u_k) + l_N(q_N, v_N),    (q_(k+1), v_(k+1)) = f(q_k, v_k, u_k),    low <= u <= high

        def stage(q, v, u):
            return np.concatenate([0.1 * v, 0.01 * u])

        def terminal(q, v):
            return 100 * (robot.pose(q, "tool")[:3, 3] - target)

        plan = lb.optimal_control(robot, dt=0.01, stage=stage, terminal=terminal).solve(q0, knots=100)

    stage       l(q, v, u): a number, or an array of residuals r, which stands for r^T r / 2. It is traced:
                NumPy operators, `liebody.scalar`, calls of the robot; with parameters, l(q, v, u, p)
    terminal    l_N(q, v), or l_N(q, v, p), likewise; none if None
    actuated    S (nv, m), by which joints have the efforts tau = S u, or names of the joints that are driven;
                None: all but a free base
    limits      (low, high) of u, numbers or (m,), or one of them for -limits <= u <= limits
    method      explicit method of a step f, by its name, as in `simulate`, or "semi-implicit-euler":
                v+ = v + dt dv/dt, q+ = q exp(dt v+), which costs a quarter of "rkmk4"
    hessian     of residuals: "gauss-newton" takes J^T J, "exact" their second derivatives, too
    parameters  {name: value}, numbers that l and l_N read as p.name, and that each solution may be given anew
    forces, joints   as in `simulate`

    States are moved by exp, so nothing is singular: derivatives are by (delta, nu) at (q exp(delta), v + nu).
    Differential dynamic programming: with F the derivative of f, the cost to go V of the linear-quadratic
    model is found from the last knot to the first,

        Q = H + F^T V F,    q = g + F^T v,    u = u_k + alpha k + K d,    k = -Q_uu^-1 q_u,    K = -Q_uu^-1 Q_ux

    and followed forwards with several step lengths alpha at once. The second derivatives of f are left out.

    Mayne (1966), "A second-order gradient method for determining optimal trajectories of non-linear
    discrete-time systems"; Li and Todorov (2004), "Iterative linear quadratic regulator design"; Tassa, Mansard
    and Todorov (2014), "Control-limited differential dynamic programming", for limits; Mastalli et al. (2020),
    "Crocoddyl", for states that are no motion yet.

    Raises ModelError for mechanisms with constraints, GraphError for costs that cannot be traced,
    IntegrationError for methods that are not explicit, ShapeError.
    """
    h = positive("dt", dt, SECONDS)
    made = mechanism_of(mechanism, tuple(forces), joints, dt)
    if not isinstance(made, OpenTree):
        raise ModelError(f"{made.name} has constraints, and optimal_control takes a Robot or an OpenTree")
    if made.layout.size:
        raise ModelError(f"{made.name} has free parameters, and optimal_control takes parameters of costs only")
    if hessian not in HESSIANS:
        raise ModelError(f"hessian is {hessian!r}, expected one of {', '.join(HESSIANS)}")
    step = Step(made, _actuation(made, actuated), h, None if method == EULER else method_named(method))
    layout, m = FlatLayout("parameter", parameters or {}), step.S.shape[1]

    def cost(function: Any, sizes: Mapping[str, int], scale: float) -> Cost:
        if not callable(function):
            raise GraphError(f"{function!r} is no cost; give a function of {', '.join(sizes)}")
        name = str(getattr(function, "__name__", "cost")).strip("<>")

        def of(*at: Array) -> Any:
            return function(*at[:-1], *([layout.read(at[-1])] if layout.size else []))

        shapes = {**sizes, "p": max(layout.size, 1)}
        return Cost(name, of, shapes, made.group, hessian == "exact", scale)

    sizes = {"q": made.nq, "v": made.nv}
    costs = cost(stage, {**sizes, "u": m}, h), None if terminal is None else cost(terminal, sizes, 1.0)
    return OptimalControl(made, step, costs, _bounds(limits, m), layout)


def _bounds(limits: Any, m: int) -> Array:
    """low and high, (2, m)."""
    low, high = (-np.inf, np.inf) if limits is None else limits if isinstance(limits, tuple) else (None, limits)
    try:
        high = np.broadcast_to(np.asarray(high, float), (m,))
        low = -high if low is None else np.broadcast_to(np.asarray(low, float), (m,))
    except (TypeError, ValueError):
        raise ShapeError(f"limits are {limits!r}, expected (low, high) of numbers or arrays ({m},)") from None
    if not (low <= high).all():
        raise ModelError(f"limits are {limits!r}: low must not be above high, and no number may be NaN")
    return np.array([low, high])
