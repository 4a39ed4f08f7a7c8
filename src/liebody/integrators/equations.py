"""Equations of motion of a mechanical system on a Lie group, as the implicit methods take them.

    dq/dt = v (left-trivialised),   M(q) dv/dt + b(q, v) + J(q)^T lambda = Q(t, q, v, u),   g(q) = 0

The user gives functions on flat coordinates that can be traced: nothing here knows of bodies. Default terms
(b from M, J from g, rates of constraints) follow from the derivatives of the graphs of these functions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import IntegrationError
from ..compiler import Function, Program, repeated, trace
from ..compiler.graph.derivatives import forward
from ..compiler.graph.graph import live
from ..compiler.printers.numpy_source import compile_numpy
from ..compiler.programs.passes import objects
from ..compiler.programs.sparse import derivative, traced_to_differentiate
from ..groups import LieGroup, along_group
from ..scalars import Array
from ..scalars.linear import is_numeric, is_zero, product, solve
from .blocks import (
    Blocks,
    Entries,
    check_shape,
    constant_inertia,
    entries_of,
    multiply,
)
from .saddle_point import (
    SOFTENING,
    DenseElimination,
    Regularization,
    sizes_of_rows,
    solve_bordered,
    with_floor,
)


class MechanicalEquations:
    """M(q) dv/dt + b(q, v) + J(q)^T lambda = Q(t, q, v, u), g(q) = 0, on a Lie group.

    group    configuration group; v (dim,) is left-trivialised
    M        inertia: a constant (dim, dim), or a list of (i, i, block) of its diagonal blocks, (k, k) from
             row i on; or a function M(q), (dim, dim); symmetric positive definite
    Q        applied forces Q(t, q, v, u), (dim,), potential forces among them, without the inertial forces
             b. None: zero
    g        holonomic constraints g(q), (m,), independent of each other; None if there are none
    J        J(q) (m, dim) with dg/dt = J v; beside g also a list of (row, column, block), with matrices
             (k, l) or numbers, of a J that is zero elsewhere. Default: from the derivatives of the graph of
             g. J without g stands for constraints J v = 0 which need not be integrable (half-explicit and
             Radau methods)
    drift    drift(t, q) (m,), with J alone: constraints J(q) v + drift(t, q) = 0. None: zero
    timed    whether J is a function J(t, q) of the time, too; with J alone
    b        inertial forces b(q, v), (dim,). By default they follow from M: for a constant M,
             b = -ad_v^T M v (Euler, Poincare; From, eq. (68)); for M(q), b = (dM/dt) v - grad(v^T M v)/2
             - ad_v^T M v, from the derivatives of the graph. Give b where a cheaper form exists, such as a
             recursive one. `Variational` ignores it: its inertial forces follow from M
    efforts  length of u
    at       u -> {"M", "b", "Q"} at the parameters among u, for equations with parameters. M, b and Q above
             are then the terms at some parameters, which are checked
    redundant  whether constraints may depend on each other, without contradiction. The multipliers are then
             the ones of least norm sqrt(lambda^T D lambda), D the diagonal of J M^-1 J^T (the proximal point
             method; Rockafellar 1976)

    Errors: ShapeError where a function returns an array of another shape, or M is not symmetric.
    """

    # The class has more than 300 lines because every term stands beside its default and its derivatives.

    def __init__(
        self,
        group: LieGroup,
        M: Any,
        Q: Callable[..., Any] | None = None,
        g: Callable[[Any], Any] | None = None,
        J: Callable[..., Any] | None = None,
        b: Callable[..., Any] | None = None,
        efforts: int = 0,
        redundant: bool = False,
        drift: Callable[..., Any] | None = None,
        at: Callable[[Any], dict[str, Any]] | None = None,
        timed: bool = False,
    ) -> None:
        if not isinstance(group, LieGroup):
            raise IntegrationError(f"group must be a group such as liebody.groups.SO3, not {group!r}")
        self.group = group
        self.dim = group.dim
        self.nq = group.nq
        self.efforts = efforts
        self.redundant = redundant
        self.timed = timed
        self.at = at
        self.constant = not callable(M)
        self._M = M
        self._Q = Q
        self._g = g
        self._J = J
        self._b = b
        self._drift = drift
        self._whole = self  # of which `with_parameters` makes copies: they share its traced functions
        self._u: tuple[Any, ...] = ()  # the parameters of such a copy
        self._last: tuple[Any, Blocks] = None, []  # t and q of the last call of `blocks`, and its result
        if self.constant:
            self._inertia, self._inverse = constant_inertia(M, self.dim, str(group))
        self._check_shapes()

    def _check_shapes(self) -> None:
        """Call each function once, at a neutral state, and compare the shapes of the results."""
        shape = partial(check_shape, str(self.group))
        q = self.group.neutral()
        v = np.zeros(self.dim)
        M = self._M
        Q = self._Q
        g = self._g
        b = self._b
        drift = self._drift
        shape("M", M(q) if callable(M) else None, (self.dim, self.dim))
        shape("b", b and b(q, v), (self.dim,))
        shape("Q", Q and Q(0.0, q, v, np.zeros(self.efforts)), (self.dim,))
        if self.timed and (g or not self._J):
            raise IntegrationError("timed is of constraints by J(t, q) alone; give J, and leave out g")
        # The number of constraints follows from g, or from the rows of J.
        J = self._user_jacobian(0.0, q)
        m = np.shape(g(q)) if g else np.shape(J)[:1] if self._J else (0,)
        if len(m) != 1:
            raise wrong_shape("g(q)", m, "(m,) for m constraints")
        self.m = m[0]
        self.holonomic = g is not None or self._J is None
        shape("J", None if isinstance(J, list) else J, (self.m, self.dim))
        shape("drift", drift and drift(0.0, q), (self.m,))

    def with_parameters(self, u: Any) -> MechanicalEquations:
        """The equations at the parameters among u (efforts,), numbers or symbols."""
        assert self.at is not None
        # a shallow copy: traced functions stay with `_whole`, and take the parameters as an argument
        other = copy.copy(self)
        terms = self.at(u)
        other._M = terms["M"]
        other._b = terms["b"]
        other._Q = terms["Q"]
        other._u = (u,)
        return other

    @property
    def shapes(self) -> dict[str, Any]:
        """Shapes of t, q, v, u, for tracing."""
        return {"t": (), "q": self.nq, "v": self.dim, "u": self.efforts}

    # -- the functions, with their defaults ---------------------------------------------------------------

    def mass(self, q: Array) -> Array:
        """M(q), (dim, dim), where it is not constant."""
        return self._M(q)

    def momentum(self, q: Array, v: Array) -> Array:
        """M(q) v, (dim,)."""
        return multiply(self._inertia, v, self.dim) if self.constant else product(self._M(q), v)

    def solve_mass(self, q: Array, p: Array) -> Array:
        """M(q)^-1 p for p (dim,) or (dim, k)."""
        return multiply(self._inverse, p, self.dim) if self.constant else solve(self._M(q), p)

    def applied(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        """Q(t, q, v, u), (dim,)."""
        return np.zeros(self.dim, int) if self._Q is None else self._Q(t, q, v, u)

    def inertial(self, q: Array, v: Array) -> Array:
        """b(q, v), (dim,)."""
        if self._b is not None:
            return self._b(q, v)
        # -ad_v^T M v, factor by factor of a product of groups
        euler = self.group.by_factors(_coadjoint, self.momentum(q, v), v)
        if self.constant:
            return euler
        # D = d(M v)/dq at fixed v: D v = (dM/dt) v, and D^T v = grad(v^T M v).
        D = self.momentum_gradient(q, v)
        return product(D, v) - 0.5 * product(D.T, v) + euler

    def momentum_gradient(self, q: Array, v: Array) -> Array:
        """d(M(q exp s) v)/ds at s = 0, (dim, dim), for a fixed v."""
        return self._whole._momentum(q, v, *self._u)

    @cached_property
    def _momentum(self) -> Callable[..., Array]:
        def momentum(q: Array, v: Array, *u: Array) -> Array:
            M = self.at(*u)["M"] if self.at else self._M
            return product(M(q), v)

        shapes = {"q": self.group.nq, "v": self.dim, **({"u": self.efforts} if self.at else {})}
        moved = along_group(momentum, shapes, {"q": self.group}, name="momentum")
        return moved.jacobian(mode="forward")

    def constraint(self, q: Array) -> Array:
        """g(q), (m,)."""
        return np.zeros(0) if self._g is None else self._g(q)

    def bracket(self, u: Array, w: Array) -> Array:
        """ad(u) w, (dim,)."""
        return self.group.by_factors(_bracket, u, w)

    def _user_jacobian(self, t: Any, q: Array) -> Any:
        """The value of the user's function J; None without one."""
        if self._J is None:
            return None
        return self._J(t, q) if self.timed else self._J(q)

    def jacobian(self, q: Array, t: Any = 0.0) -> Array:
        """J(q), or J(t, q), (m, dim)."""
        J = self._user_jacobian(t, q)
        if J is not None and not isinstance(J, list):
            return J
        # Integer zeros stay structural zeros of a trace; numbers become floats again at the end.
        entries = self.entries(q, t)
        full = np.zeros((self.m, self.dim), int).astype(object)
        for i, j, x in entries:
            full[i, j] = x
        return full.astype(float) if is_numeric(objects([x for _, _, x in entries])) else full

    def constraint_rate(self, q: Array, v: Array, t: Any = 0.0) -> Array:
        """J v, (m,)."""
        return multiply(self.blocks(q, t), v, self.m)

    def velocity_defect(self, t: Any, q: Array, v: Array) -> Array:
        """J v + drift(t, q), (m,): zero where velocities obey the constraints."""
        rate = self.constraint_rate(q, v, t)
        return rate if self._drift is None else rate + self._drift(t, q)

    def reaction(self, q: Array, multipliers: Array, t: Any = 0.0) -> Array:
        """J^T lambda, (dim,)."""
        return multiply(self.blocks(q, t), multipliers, self.dim, transposed=True)

    def entries(self, q: Array, t: Any = 0.0) -> Entries:
        """Row, column and value of the entries of J that are not known to be zero."""
        return entries_of(self.blocks(q, t))

    def blocks(self, q: Array, t: Any = 0.0) -> Blocks:
        """The blocks of J that the user's function returns, or its entries that are not known to be zero."""
        if not self.m:
            return []
        # One step asks for J several times at the same place. Symbols are not compared: they have no value.
        key = (float(t) if self.timed else 0.0, q.tobytes()) if is_numeric(q, t) else None
        last_key, blocks = self._last
        if key is None or key != last_key:
            if self._J is None:
                places, values = self._constraint_jacobian
                blocks = [(*place, x) for place, x in zip(places, values(q), strict=True) if not is_zero(x)]
            else:
                J = self._user_jacobian(t, q)
                blocks = J if isinstance(J, list) else entries_of([(0, 0, np.asarray(J))])
            self._last = key, blocks
        return blocks

    @cached_property
    def _constraint_jacobian(self) -> tuple[list[tuple[int, int]], Function]:
        """Places of the entries of J, from the derivatives of the graph of g, and (q) -> their values."""

        def motion(q: Array, v: Array) -> tuple[Array, Array]:
            return self._g(q), self.group.coordinate_rate(q, v)  # type: ignore[misc]

        # J v is the derivative of g along the coordinate rates dq/dt = T(q) v: first the columns of T, as
        # derivatives of the rates by each v_j, then g is differentiated forwards along all columns at once.
        # What stays at zero in that sweep is no entry of J.
        traced = trace(motion, {"q": self.nq, "v": self.dim})
        g, rates = traced.outputs.values()
        columns = forward(traced.nodes, {x: {j: 1.0} for j, x in enumerate(traced.inputs["v"])})
        seeds = {x: columns.get(dx, {}) for x, dx in zip(traced.inputs["q"], rates, strict=True)}
        tangents = forward(live(g), seeds)
        entries = [(i, j, x) for i, y in enumerate(g) for j, x in sorted(tangents.get(y, {}).items())]
        values = objects([x for _, _, x in entries])
        places = [(i, j) for i, j, _ in entries]
        return places, Function("rates", {"q": traced.inputs["q"]}, {"values": values})

    @cached_property
    def _rates(self) -> list[Function | Program]:
        """First and second derivative by s of J (v + s a) + drift at t + s and q exp(s v + s^2 a/2).

        They are functions of (s, t, q, v, a).
        """
        group = self.group

        # A curve with velocity v and acceleration a at s = 0. The constraints are differentiated along it, by
        # s alone: dJ/dt and d2J/dt2 are never formed as matrices.
        def rate(s: Any, t: Any, q: Array, v: Array, a: Array) -> Array:
            return self.velocity_defect(t + s, group.integrate(q, s * (v + 0.5 * s * a)), v + s * a)

        shapes: dict[str, Any] = {"s": (), "t": (), "q": self.nq, "v": self.dim, "a": self.dim}
        first = derivative(traced_to_differentiate(rate, shapes, "rate"), "s")
        return [first, derivative(first, "s")]

    @cached_property
    def _evaluated_rates(self) -> list[Callable[..., Any]]:
        """`_rates` as calls on numbers."""
        return [rate if isinstance(rate, Function) else compile_numpy(rate) for rate in self._rates]

    def _rate(self, order: int, *state: Any) -> Array:
        """The first or second of `_rates` at s = 0."""
        function = self._rates[order - 1]
        if isinstance(function, Program) and not is_numeric(*state):
            function = self._rates[order - 1] = function.unroll()  # a program takes numbers only
        call = function if isinstance(function, Function) else self._evaluated_rates[order - 1]
        return call(0.0, *state)

    def constraint_bias(self, t: Any, q: Array, v: Array) -> Array:
        """(dJ/dt) v and the rate of `drift`, (m,)."""
        return self._rate(1, t, q, v, np.zeros(self.dim, int))

    def constraint_jerk(self, q: Array, v: Array, dv: Array) -> Array:
        """J d2v/dt2, (m,), from the third derivative of the constraints, where v and dv/dt obey the others.

        J(q(s)) v(s) = 0 along the motion, which to second order in s is the curve of `_rates` with a = dv/dt.
        """
        return -self._rate(2, 0.0, q, v, dv)

    def acceleration(self, t: Any, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """(dv/dt, lambda) from the constraints at the level of acceleration, J dv/dt = -(dJ/dt) v.

        lambda (m,) are the exact multipliers of the state (q, v). Mueller, Terze, eq. (3).
        """
        forces = self.applied(t, q, v, u) - self.inertial(q, v)
        # Numbers: one sparse system with pivots. Symbols: the Schur complement J M^-1 J^T, without branches.
        if is_numeric(q, forces):
            return self._solved(q, forces, -self.constraint_bias(t, q, v) if self.m else np.zeros(0), t)
        free = self.solve_mass(q, forces)
        if not self.m:
            return free, np.zeros(0)
        # The acceleration without reactions misses the constraints by `needed`; the reactions make up for it.
        needed = self.constraint_rate(q, free, t) + self.constraint_bias(t, q, v)
        multipliers, change = self.react(q, needed, t)
        return free - change, multipliers

    def react(self, q: Array, rate: Array, t: Any = 0.0) -> tuple[Array, Array]:
        """(x, M^-1 J^T x) with J M^-1 J^T x = rate, (m,)."""
        # (change, x) of M change + J^T x = 0, J change = rate: the same with the other sign of x
        if is_numeric(q, rate):
            change, x = self._solved(q, np.zeros(self.dim), rate, t)
            return -x, change
        J = self.jacobian(q, t)
        inverse = self.solve_mass(q, J.T)
        if self.redundant:
            x = DenseElimination(J, inverse, None, Regularization.plain(True)).solve(rate)
        else:
            x = solve(product(J, inverse), rate)
        return x, product(inverse, x)

    def _solved(self, q: Array, force: Array, rate: Array, t: Any) -> tuple[np.ndarray, np.ndarray]:
        """(a, x) with  M a + J^T x = force,  J a = rate,  in numbers."""
        M = entries_of(self._inertia if self.constant else [(0, 0, self._M(q))])
        sizes = np.asarray(self._sizes(q, t, 1.0), float) if self.redundant else None
        return solve_bordered(M, self.entries(q, t), force, rate, sizes)

    def proximal(self, q: Array, t: Any = 0.0) -> Array:
        """-eps diag(J M^-1 J^T), (m,): regularises the equations of a step with redundant constraints.

        It is added to the Jacobian only, so that Newton's method converges to the same motion, with the ratio
        eps. Zero without redundant constraints.
        """
        return -self._sizes(q, t, SOFTENING) if self.redundant else np.zeros(self.m, int)

    def _sizes(self, q: Array, t: Any, eps: float) -> Array:
        """eps D (m,), D = diag(J M^-1 J^T), with a floor."""
        sizes = sizes_of_rows(self.blocks(q, t), self._inverse if self.constant else [], self.m, eps)
        if sizes is not None:
            return sizes
        # M^-1 has no blocks that match J: the diagonal of J M^-1 J^T from whole matrices
        J = self.jacobian(q, t)
        return eps * with_floor((J * self.solve_mass(q, J.T).T).sum(axis=1))

    def softening(self, others: int, times: int = 1) -> Callable[..., Array]:
        """A function for `Phase.soften`: zeros for `others` unknowns, then `proximal`, so many `times`."""

        def soften(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            return np.concatenate([np.zeros(others, int), *[self.proximal(y[: self.nq], t)] * times])

        return soften


@repeated
def _coadjoint(group: LieGroup, p: Array, v: Array) -> Array:
    return product(group.coad(p), v)


@repeated
def _bracket(group: LieGroup, u: Array, w: Array) -> Array:
    return product(group.ad(u), w)
