"""Mechanical systems on Lie groups as the implicit methods see them, and their flows.

    dq/dt = v (left-trivialised),   M(q) dv/dt + b(q, v) + J(q)^T lambda = Q(t, q, v, u),   g(q) = 0

Every method of this package for such systems is an object with one way in:

    flow = GeneralizedAlpha(rho_inf=0.9).flow(group, M, Q, g)  # or Variational(), RadauIIA(5), Gauss(4), ...
    flow = mechanical_method("generalized-alpha").flow(...)    # the same by name
    y = flow.start(q, v, t, h)                                 # (n, point): q, v, what the method remembers
    flow.steps(y, u, t, h, steps, every, record, row, failed)  # as `Flow.steps`; record (n, rows, point)
    record[..., flow.layout["v"]]                              # "q", "v"; also "multipliers" where remembered
    flow.march(Ensemble(y, times, h), u, rows, Settings())     # under error control, where it has that
    flow.run(q, v, t_end, dt)                                  # the same in one call: a Trajectory

The mechanics enter as functions on flat coordinates that can be traced: nothing here knows of bodies.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import IntegrationError, ShapeError
from ..compiler import Function, Program, repeated, trace
from ..compiler.graph.derivatives import forward
from ..compiler.graph.graph import live, undisturbed
from ..compiler.printers.numpy_source import compile_numpy
from ..compiler.programs.passes import objects
from ..compiler.programs.sparse import derivative, traced_to_differentiate
from ..groups import LieGroup, along_group
from ..groups.product import slices
from ..scalars import Array
from ..scalars.linear import back_substitute, factor, is_numeric, is_zero, product, solve
from ..stepping import ImplicitFlow, Phase
from ..stepping.banded import solve as solve_sparse
from ..stepping.march import REASONS, Ensemble, Settings

PROXIMAL = 1e-6
REFINEMENTS = 3  # of the proximal point method
FLOOR = 1e-6  # of the mean of the diagonal of J M^-1 J^T
MANY = 100  # unknowns per member from which on states start in floats
Blocks = list[tuple[int, int, Any]]  # of a matrix: first row, first column, and a number or a matrix
Entries = list[tuple[int, int, Any]]  # the same of numbers alone: row, column, value


class MechanicalEquations:
    """M(q) dv/dt + b(q, v) + J(q)^T lambda = Q(t, q, v, u), g(q) = 0, on a Lie group.

    group    configuration group; v (dim,) is left-trivialised
    M        inertia: a constant (dim, dim), or a list of (i, i, block) of its diagonal blocks, (k, k) from
             row i on; or a function M(q), (dim, dim); symmetric positive definite
    Q        applied forces Q(t, q, v, u), (dim,), potential forces among them, without inertial forces: those
             are b. None if there are none
    g        holonomic constraints g(q), (m,), independent of each other; None if there are none
    J        J(q) (m, dim) with dg/dt = J v; beside g also a list of (row, column, block), the matrices (k, l)
             from there on beside which it is zero, or numbers. Default: from the derivatives of the graph of
             g. J without g stands for constraints J v = 0 which need not be integrable (half-explicit and
             Radau methods)
    drift    drift(t, q) (m,), with J alone: constraints J(q) v + drift(t, q) = 0. None: zero
    timed    whether J is a function J(t, q) of the time, too; with J alone
    b        inertial forces b(q, v), (dim,). Default: those of M. For a constant M, b = -ad_v^T M v (Euler,
             Poincare; From, eq. (68)); for M(q), b = (dM/dt) v - grad(v^T M v)/2 - ad_v^T M v, from the
             derivatives of the graph. Worth giving where there is a cheaper form, such as recursive ones;
             `Variational` has no use for it, its inertial forces follow from M
    efforts  length of u
    at       u -> {"M", "b", "Q"} of the parameters among u, where equations have such; those above are then
             of some values, to be checked
    redundant  whether constraints may depend on each other, as long as they do not contradict each other. Of
             all multipliers then those are found whose norm sqrt(lambda^T D lambda) is least, D the diagonal
             of J M^-1 J^T (the proximal point method; Rockafellar 1976)

    Errors: ShapeError where a function returns an array of another shape, or M is not symmetric.
    """

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
        self.group, self.dim, self.nq, self.efforts = group, group.dim, group.nq, efforts
        self.constant = not callable(M)
        self._M, self._Q, self._g, self._J, self._b, self._drift = M, Q, g, J, b, drift
        self.redundant, self.at, self._whole = redundant, at, self
        self._u: tuple[Any, ...] = ()
        self.timed = timed
        self._last: tuple[Any, Blocks] = None, []  # blocks of J, at the last t and q
        dim = self.dim
        if self.constant:
            if isinstance(M, list):
                parts = [(np.arange(i, i + len(block)), np.array(block, float)) for i, _, block in M]
                rows = sum(len(part) for part, _ in parts)
                self._shape("M", np.broadcast_to(0.0, (rows, rows)), (dim, dim))
            else:
                M = np.array(M, dtype=float)
                self._shape("M", M, (dim, dim))
                parts = _diagonal_blocks(M)
            for _, block in parts:
                alike = (abs(block - block.T) <= 1e-9 * abs(block)).all()  # which NaN is not
                if not alike or np.linalg.eigvalsh(block).min() <= 0:
                    raise ShapeError(
                        "M must be symmetric positive definite; check the inertias it is made of"
                    )
            inverses = [(at, np.linalg.inv(block)) for at, block in parts]
            least = 1e-15 * max((np.abs(x).max() for _, x in inverses), default=0.0)
            self._inertia = _placed(parts)
            self._inverse = _placed([(at, np.where(np.abs(x) > least, x, 0)) for at, x in inverses])
        q, v = group.neutral(), np.zeros(dim)
        self._shape("M", M(q) if callable(M) else None, (dim, dim))
        self._shape("b", b and b(q, v), (dim,))
        self._shape("Q", Q and Q(0.0, q, v, np.zeros(efforts)), (dim,))
        if timed and (g or not J):
            raise IntegrationError("timed is of constraints by J(t, q) alone; give J, and leave out g")
        given = self._given_jacobian(0.0, q)
        m = np.shape(g(q)) if g else np.shape(given)[:1] if J else (0,)
        if len(m) != 1:
            raise ShapeError(f"g(q) has shape {m}, expected (m,) for m constraints")
        self.m, self.holonomic = m[0], g is not None or J is None
        self._shape("J", None if isinstance(given, list) else given, (self.m, dim))
        self._shape("drift", drift and drift(0.0, q), (self.m,))

    def with_parameters(self, u: Any) -> MechanicalEquations:
        """The equations at the parameters among u (efforts,), numbers or symbols."""
        assert self.at is not None
        other, laws = copy.copy(self), self.at(u)
        other._M, other._b, other._Q, other._u = laws["M"], laws["b"], laws["Q"], (u,)
        return other

    def _shape(self, name: str, value: Any, expected: tuple[int, ...]) -> None:
        if value is not None and np.shape(value) != expected:
            raise ShapeError(f"{name} on {self.group} has shape {np.shape(value)}, expected {expected}")

    @property
    def shapes(self) -> dict[str, Any]:
        """Of t, q, v, u."""
        return {"t": (), "q": self.nq, "v": self.dim, "u": self.efforts}

    # -- the functions, with their defaults ---------------------------------------------------------------

    def mass(self, q: Array) -> Array:
        """M(q), (dim, dim), which is not constant."""
        return self._M(q)

    def momentum(self, q: Array, v: Array) -> Array:
        """M(q) v, (dim,)."""
        return _product(self._inertia, v, self.dim) if self.constant else product(self._M(q), v)

    def solve_mass(self, q: Array, p: Array) -> Array:
        """M(q)^-1 p for p (dim,) or (dim, k)."""
        return _product(self._inverse, p, self.dim) if self.constant else solve(self._M(q), p)

    def applied(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        """Q(t, q, v, u), (dim,)."""
        return np.zeros(self.dim, int) if self._Q is None else self._Q(t, q, v, u)

    def inertial(self, q: Array, v: Array) -> Array:
        """b(q, v), (dim,)."""
        if self._b is not None:
            return self._b(q, v)
        euler = self.group.by_factors(_coadjoint, self.momentum(q, v), v)
        if self.constant:
            return euler
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

    def _given_jacobian(self, t: Any, q: Array) -> Any:
        """What J returns; None where it was not given."""
        if self._J is None:
            return None
        return self._J(t, q) if self.timed else self._J(q)

    def jacobian(self, q: Array, t: Any = 0.0) -> Array:
        """J(q), or J(t, q), (m, dim)."""
        given = self._given_jacobian(t, q)
        if given is not None and not isinstance(given, list):
            return given
        J = np.zeros((self.m, self.dim), int).astype(object)
        entries = self.entries(q, t)
        for i, j, x in entries:
            J[i, j] = x
        return J.astype(float) if is_numeric(objects([x for _, _, x in entries])) else J

    def constraint_rate(self, q: Array, v: Array, t: Any = 0.0) -> Array:
        """J v, (m,)."""
        return _product(self.blocks(q, t), v, self.m)

    def velocity_defect(self, t: Any, q: Array, v: Array) -> Array:
        """J v + drift(t, q), (m,): zero where velocities obey the constraints."""
        rate = self.constraint_rate(q, v, t)
        return rate if self._drift is None else rate + self._drift(t, q)

    def reaction(self, q: Array, multipliers: Array, t: Any = 0.0) -> Array:
        """J^T lambda, (dim,)."""
        return _product(self.blocks(q, t), multipliers, self.dim, transposed=True)

    def entries(self, q: Array, t: Any = 0.0) -> Entries:
        """Row, column and value of the entries of J that are not known to be zero."""
        return _entries(self.blocks(q, t))

    def blocks(self, q: Array, t: Any = 0.0) -> Blocks:
        """The blocks of J as they were given, or its entries that are not known to be zero."""
        if not self.m:
            return []
        key = (float(t) if self.timed else 0.0, q.tobytes()) if is_numeric(q, t) else None
        last, blocks = self._last
        if key is None or key != last:
            if self._J is None:
                places, values = self._constraint_jacobian
                blocks = [(*place, x) for place, x in zip(places, values(q), strict=True) if not is_zero(x)]
            else:
                given = self._given_jacobian(t, q)
                blocks = given if isinstance(given, list) else _entries([(0, 0, np.asarray(given))])
            self._last = key, blocks
        return blocks

    @cached_property
    def _constraint_jacobian(self) -> tuple[list[tuple[int, int]], Function]:
        """Places of the entries of J, from the derivatives of the graph of g, and (q) -> their values."""

        def motion(q: Array, v: Array) -> tuple[Array, Array]:
            return self._g(q), self.group.coordinate_rate(q, v)  # type: ignore[misc]

        made = trace(motion, {"q": self.nq, "v": self.dim})
        g, rates = made.outputs.values()
        along = forward(made.nodes, {x: {j: 1.0} for j, x in enumerate(made.inputs["v"])})
        seeds = {x: along.get(dx, {}) for x, dx in zip(made.inputs["q"], rates, strict=True)}
        tangents = forward(live(g), seeds)
        found = [(i, j, x) for i, y in enumerate(g) for j, x in sorted(tangents.get(y, {}).items())]
        values = objects([x for _, _, x in found])
        return [(i, j) for i, j, _ in found], Function("rates", {"q": made.inputs["q"]}, {"values": values})

    @cached_property
    def _rates(self) -> list[Function | Program]:
        """J (v + s a) + drift at t + s and q exp(s v + s^2 a/2), differentiated by s once and twice.

        From (s, t, q, v, a).
        """
        group = self.group

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
        """This derivative at s = 0."""
        made = self._rates[order - 1]
        if isinstance(made, Program) and not is_numeric(*state):
            made = self._rates[order - 1] = made.unroll()
        call = made if isinstance(made, Function) else self._evaluated_rates[order - 1]
        return call(0.0, *state)

    def constraint_bias(self, t: Any, q: Array, v: Array) -> Array:
        """(dJ/dt) v and the rate of `drift`, (m,)."""
        return self._rate(1, t, q, v, np.zeros(self.dim, int))

    def constraint_jerk(self, q: Array, v: Array, dv: Array) -> Array:
        """J d2v/dt2, (m,), from the third derivative of the constraints, where v and dv/dt obey the others.

        J(q(s)) v(s) = 0 along the motion, to second order in s that of `_rates` with a = dv/dt.
        """
        return -self._rate(2, 0.0, q, v, dv)

    def acceleration(self, t: Any, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """(dv/dt, lambda) from the constraints at the level of acceleration, J dv/dt = -(dJ/dt) v.

        lambda (m,) are the exact multipliers of the state (q, v). Mueller, Terze, eq. (3).
        """
        forces = self.applied(t, q, v, u) - self.inertial(q, v)
        if is_numeric(q, forces):
            return self._solved(q, forces, -self.constraint_bias(t, q, v) if self.m else np.zeros(0), t)
        free = self.solve_mass(q, forces)
        if not self.m:
            return free, np.zeros(0)
        needed = self.constraint_rate(q, free, t) + self.constraint_bias(t, q, v)
        multipliers, change = self.react(q, needed, t)
        return free - change, multipliers

    def react(self, q: Array, rate: Array, t: Any = 0.0) -> tuple[Array, Array]:
        """(x, M^-1 J^T x) with J M^-1 J^T x = rate, (m,)."""
        if is_numeric(q, rate):
            change, x = self._solved(q, np.zeros(self.dim), rate, t)
            return -x, change
        J = self.jacobian(q, t)
        inverse = self.solve_mass(q, J.T)
        A = product(J, inverse)
        if not self.redundant:
            x = solve(A, rate)
            return x, product(inverse, x)
        factors = factor(A + np.diag(_shifts(np.diagonal(A))))
        x = back_substitute(factors, rate)
        for _ in range(REFINEMENTS - 1):
            x = x + back_substitute(factors, rate - product(A, x))
        return x, product(inverse, x)

    def _solved(self, q: Array, force: Array, rate: Array, t: Any) -> tuple[np.ndarray, np.ndarray]:
        """(a, x) with  M a + J^T x = force,  J a = rate,  in numbers: sparse, with pivots."""
        n = self.dim
        M = _entries(self._inertia if self.constant else [(0, 0, self._M(q))])
        places, values = self._bordered(M, self.entries(q, t))
        x = np.zeros(n + self.m)
        if not self.redundant:
            x = solve_sparse(n + self.m, places, values, np.concatenate([force, rate]))
            return x[:n], x[n:]
        shifts = np.asarray(-self.proximal(q, t), float)
        places += [(i, i) for i in range(n, n + self.m)]
        values += (-shifts).tolist()
        for _ in range(REFINEMENTS):
            x = solve_sparse(n + self.m, places, values, np.concatenate([force, rate - shifts * x[n:]]))
        return x[:n], x[n:]

    def independent(self, entries: Entries) -> bool:
        """Whether the rows of J, with these entries, are independent: of pivots above 1e-12, where J is 1.

        They are those of [eps J^T; J 0], in which the diagonal eps gives pivots to the directions of no row.
        """
        n, largest = self.dim, max((abs(x) for _, _, x in entries), default=1.0)
        places, values = self._bordered([(i, i, 1e-5 * largest) for i in range(n)], entries)
        try:
            solve_sparse(n + self.m, places, values, np.zeros(n + self.m), least=1e-12)
        except IntegrationError:
            return False
        return True

    def _bordered(self, A: Entries, J: Entries) -> tuple[list[tuple[int, int]], list[float]]:
        """Places and values of [A J^T; J 0]."""
        below = [(i + self.dim, j) for i, j, _ in J]
        places = [(i, j) for i, j, _ in A] + below + [(j, i) for i, j in below]
        return places, [x for _, _, x in A] + 2 * [x for _, _, x in J]

    def proximal(self, q: Array, t: Any = 0.0) -> Array:
        """-eps diag(J M^-1 J^T), (m,): what keeps the equations of a step regular where it is redundant.

        It stands in the Jacobian only, so that Newton's method goes to the same motion, with the ratio eps.
        """
        if not self.redundant:
            return np.zeros(self.m, int)
        blocks, inverse = self.blocks(q, t), {}
        if self.constant:
            inverse = {i: (len(block), block) for i, _, block in self._inverse if np.ndim(block)}
        if all(np.ndim(J) and inverse.get(j, (0,))[0] == J.shape[1] for _, j, J in blocks):
            of: dict[tuple[int, int], list[tuple[Array, Array]]] = {}  # blocks of the same rows
            for i, j, J in blocks:
                of.setdefault((i, len(J)), []).append((J, inverse[j][1]))
            shifts = np.zeros(self.m, int).astype(object)
            for (i, k), pairs in of.items():
                shifts[i : i + k] = _own_shifts(pairs)
            return -shifts
        J = self.jacobian(q, t)
        return -_shifts((J * self.solve_mass(q, J.T).T).sum(axis=1))

    def softening(self, others: int, times: int = 1) -> Callable[..., Array]:
        """`Phase.soften`: nothing for some unknowns, then, so many times, `proximal`."""

        def soften(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            return np.concatenate([np.zeros(others, int), *[self.proximal(y[: self.nq], t)] * times])

        return soften


@repeated
def _own_shifts(pairs: list[tuple[Array, Array]]) -> Array:
    """eps d for rows of J with these blocks, each beside that of M^-1 for its columns."""
    return _shifts(sum((J * product(inverse, J.T).T).sum(axis=1) for J, inverse in pairs))


def _shifts(d: Array) -> Array:
    """eps d for entries d of the diagonal of J M^-1 J^T; equations that hold by themselves get some, too."""
    return PROXIMAL * (d + FLOOR * sum(d) / len(d))


@repeated
def _coadjoint(group: LieGroup, p: Array, v: Array) -> Array:
    return product(group.coad(p), v)


@repeated
def _bracket(group: LieGroup, u: Array, w: Array) -> Array:
    return product(group.ad(u), w)


def _product(A: Blocks, x: Array, rows: int, transposed: bool = False) -> Array:
    """A x, or A^T x, (rows, ...) of a matrix by its blocks, and a vector or a matrix."""
    sums: list[Any] = [np.zeros(np.shape(x)[1:], int)[()]] * rows
    for *place, a in A:
        i, j = place[::-1] if transposed else place
        if not getattr(a, "ndim", 0):
            sums[i] = sums[i] + a * x[j]
            continue
        k, l = a.shape[::-1] if transposed else a.shape
        sums[i : i + k] = _added(np.array(sums[i : i + k]), a, x[j : j + l], transposed)
    return np.array(sums)


@repeated
def _added(before: Array, A: Array, x: Array, transposed: bool) -> Array:
    return before + product(A.T if transposed else A, x)


def _entries(blocks: Blocks) -> Entries:
    """Those in the blocks of a matrix that are not known to be zero."""
    found = [
        (i + k, j + l, x) for i, j, block in blocks for (k, l), x in np.ndenumerate(np.atleast_2d(block))
    ]
    return [entry for entry in found if not is_zero(entry[2])]


def _diagonal_blocks(M: Array) -> list[tuple[np.ndarray, np.ndarray]]:
    """The blocks of a matrix beside which it is zero, each after its indices."""
    block = np.arange(len(M))
    for i, j in np.argwhere(M - np.diag(np.diag(M))).tolist():  # each entry joins two blocks
        if block[i] != block[j]:
            block[block == block[i]] = block[j]
    order = np.argsort(block, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(block[order])) + 1) if len(M) else []
    return [(part, M[np.ix_(part, part)]) for part in parts]


def _placed(parts: list[tuple[np.ndarray, np.ndarray]]) -> Blocks:
    """A matrix of blocks after their indices: as they are, or their entries where indices are apart."""
    found: Blocks = []
    for at, block in parts:
        if len(at) > 1 and np.ptp(at) == len(at) - 1:
            found.append((int(at[0]), int(at[0]), block))
        else:
            found += [(int(at[i]), int(at[j]), block[i, j].item()) for i, j in np.argwhere(block)]
    return sorted(found, key=lambda place: place[:2])


class Trajectory(NamedTuple):
    """What `MechanicalFlow.run` returns; the first axes are those of q0 and v0, then time."""

    t: np.ndarray
    """Times, (rows,)                                                        [s]"""
    q: np.ndarray
    """Coordinates, (..., rows, nq)"""
    v: np.ndarray
    """Velocities, (..., rows, dim)"""
    multipliers: np.ndarray
    """Multipliers lambda, (..., rows, m); of the accelerations if the method keeps none"""
    failed: np.ndarray
    """For each member of an ensemble, 1 + the row from which on it is NaN, or 0"""
    losses: np.ndarray
    """For each member that was lost in a step: the time at its start, and the reason"""
    steps: int = 0
    """Steps taken, of all members together"""
    rejected: int = 0
    """Steps tried in vain, under error control"""


class Stages(NamedTuple):
    """The points within a step by which its method sums what depends on the state, at its first nodes.

    weights  b_i, of the sum h sum_i b_i l(t + c_i h, q_i, v_i)
    states   (z, t, h, y, u) -> q_i and v_i of all stages, joined
    """

    weights: Sequence[float]
    states: Callable[..., Any]


class MechanicalFlow(ImplicitFlow):
    """The compiled steps of an implicit method for a mechanical system; made by `flow` of a method.

    mechanics  the system
    layout     which entries of a state y (point,) are what: "q", "v", and what the method remembers
    remembers  name and length of the entries after q and v
    begin      (t, q, v, u, h) -> y at the start, which can be traced; None: q and v alone
    stages     where the method has such; None for those of second order, whose sum is the trapezoidal rule
    """

    def __init__(
        self,
        mechanics: MechanicalEquations,
        phases: Sequence[Phase],
        finish: Callable[..., Any],
        remembers: dict[str, int] | None = None,
        begin: Callable[..., Any] | None = None,
        stages: Stages | None = None,
        **options: Any,
    ) -> None:
        self.mechanics, self.begin, self.stages = mechanics, begin, stages
        sizes = {"q": mechanics.nq, "v": mechanics.dim, **(remembers or {})}
        self.layout = dict(zip(sizes, slices([*sizes.values()]), strict=True))
        super().__init__(phases, finish, sum(sizes.values()), mechanics.efforts, **options)

    def start(self, q: Any, v: Any, t: float, h: float, u: Any = None) -> np.ndarray:
        """States y (n, point) from q (n, nq) or (nq,), v (n, dim) or (dim,), at time t before steps of h.

        u is (efforts,) or (n, efforts). What a method remembers is made consistent with (q, v), which must
        themselves be so: g(q) = 0, J(q) v = 0, to 1e-6.

        Errors: ShapeError, ConfigurationError; IntegrationError where g or J v differ from zero, or
        constraints depend on each other.
        """
        system, given = self.mechanics, np.shape(v)
        q, v = np.atleast_2d(system.group.check(q)), np.atleast_2d(np.asarray(v, float))
        if v.shape[-1] != system.dim or v.ndim != 2 or q.ndim != 2:
            raise ShapeError(f"v has shape {given}, expected ({system.dim},) or (n, {system.dim})")
        n = max(len(q), len(v))
        q, v = np.broadcast_to(q, (n, system.nq)), np.broadcast_to(v, (n, system.dim))
        if not np.isfinite(v).all():
            raise IntegrationError(f"the velocity at the start is not finite: {v[~np.isfinite(v).all(1)][0]}")
        plain = self._plainly(n)
        with undisturbed():
            self._consistent(t, q, v, plain)
        if self.begin is None:
            return np.concatenate([q, v], axis=-1)
        if not h > 0:
            raise IntegrationError(
                f"h is {h!r}, expected the length of the steps that will follow, in seconds"
            )
        u = np.broadcast_to(np.zeros(self.efforts) if u is None else np.asarray(u, float), (n, self.efforts))
        if plain:
            with undisturbed():
                return np.array([self.begin(t, *state, h) for state in zip(q, v, u, strict=True)], float)
        return np.asarray(self._beginning(np.full(n, t), q, v, u, np.full(n, h)))

    def _plainly(self, members: int) -> bool:
        """Whether states start in floats: few of many unknowns, for which tracing would take longer."""
        return MANY * members <= self.mechanics.dim + self.mechanics.m

    def _consistent(self, t: float, q: Any, v: Any, plain: bool) -> None:
        system = self.mechanics
        m = system.m
        if not m:
            return
        if plain:
            found = [self._measured(t, *state) for state in zip(q, v, strict=True)]
            g, largest, rate, ranks = (np.array(x, float) for x in zip(*found, strict=True))
        else:
            g, J, rate = self._door(np.full(len(q), t), q, v)
            largest, ranks = np.abs(J).max(axis=(-1, -2)), np.linalg.matrix_rank(J, rtol=1e-10)
        if (ranks < m).any() and not system.redundant:
            member = int(np.argmax(ranks < m))
            some = f"{m - ranks[member]:g}" if not plain else "some"
            raise IntegrationError(
                f"the {m} constraints depend on each other where member {member} starts"
                + (f": their Jacobian has rank {ranks[member]}" if not plain else "")
                + f"; leave out {some} of them, start at another place, or say redundant=True"
            )
        size = 1 + np.abs(v).max(axis=-1) * largest
        for name, value, scale in (("g(q)", g, np.ones(len(q))), ("J(q) v", rate, size)):
            wrong = np.abs(value).max(axis=-1, initial=0.0) > 1e-6 * scale
            if wrong.any():
                member = int(np.argmax(wrong))
                worst = int(np.abs(value[member]).argmax())
                raise IntegrationError(
                    f"constraint {worst} of member {member} does not hold at the start: {name} is "
                    f"{value[member, worst]:.3g}, expected 0; project the state onto the constraints first"
                )

    @cached_property
    def _door(self) -> Callable[..., Any]:
        system = self.mechanics

        def constraints(t: Any, q: Array, v: Array) -> tuple[Array, Array, Array]:
            return system.constraint(q), system.jacobian(q, t), system.velocity_defect(t, q, v)

        return compile_numpy(trace(constraints, {"t": (), "q": system.nq, "v": system.dim}, "constraints"))

    def _measured(self, t: float, q: Array, v: Array) -> tuple[Array, float, Array, int]:
        """g, the largest entry of J, J v, and m, or less where the constraints depend on each other."""
        system = self.mechanics
        entries = system.entries(q, t)
        rank = system.m - (not system.redundant and not system.independent(entries))
        defect = system.velocity_defect(t, q, v)
        return system.constraint(q), max(abs(x) for _, _, x in entries), defect, rank

    @cached_property
    def _beginning(self) -> Callable[..., Any]:
        system = self.mechanics
        assert self.begin is not None
        return compile_numpy(trace(self.begin, {**system.shapes, "h": ()}, "begin"))

    @cached_property
    def multipliers(self) -> Callable[..., Any]:
        """(t, q, v, u) -> lambda (..., m), those of the acceleration at a state; over any leading axes."""
        system = self.mechanics
        return compile_numpy(
            trace(lambda *state: system.acceleration(*state)[1], system.shapes, "multipliers")
        )

    def run(
        self,
        q0: Any,
        v0: Any,
        t_end: float,
        dt: float | None = None,
        *,
        every: int = 1,
        u: Any = None,
        t0: float = 0.0,
        threads: int = 1,
        rtol: float = 1e-8,
        atol: float = 1e-10,
        times: Any = None,
        first_step: float = 1e-3,
    ) -> Trajectory:
        """The motion from (q0, v0) at t0 to t_end, by steps of dt, or, without dt, under error control.

        q0, v0      state at the start, (..., nq) and (..., dim)
        every       record every `every`-th step, where dt is given
        u           efforts: constant, (efforts,) or (..., efforts); None: zero
        rtol, atol  of the error control: the root mean square of error_i/(atol + rtol size_i) is kept below 1
                    in each step; of velocities size_i is |v_i|, elsewhere 1
        times       increasing, from t0 to t_end: where to record, under error control; default: 1001 of equal
                    distance. Steps do not depend on them
        first_step  under error control; generalized-alpha makes its start fit it

        Errors: IntegrationError where dt is no divisor of the time or `every` none of the steps, without dt
        for methods that estimate no errors, and for a single motion that cannot go on, with time and reason.
        Members of an ensemble that are lost are NaN from there on and named in `failed` and `losses`.
        """
        t = self._times(t0, t_end, dt, every, times)
        h = first_step if dt is None else dt
        q0, v0 = np.asarray(q0, float), np.asarray(v0, float)
        batch = np.broadcast_shapes(q0.shape[:-1], v0.shape[:-1])
        n, m, dim, nq = math.prod(batch), self.efforts, self.mechanics.dim, self.mechanics.nq
        if n > 1 or batch:
            q0 = np.broadcast_to(q0, (*batch, nq)).reshape(n, nq)
            v0 = np.broadcast_to(v0, (*batch, dim)).reshape(n, dim)
        u = np.zeros(m) if u is None else np.asarray(u, float)
        table = np.ascontiguousarray(np.broadcast_to(u, (*batch, m)).reshape(n, 1, m))
        y = self.start(q0, v0, t0, h, table[:, 0])
        record = np.full((n, len(t), self.point), np.nan)
        record[:, 0] = y
        record[:, 0, self.layout["v"]] = v0
        failed, losses = np.zeros(n, np.int64), np.zeros((n, 2))
        if dt is None:
            members = Ensemble(y, t, h)
            members.record[:, 0] = record[:, 0]
            self.march(members, table, len(t), Settings(rtol, atol), threads)
            record, losses, ended = members.record, members.ends, members.ends[:, 1] > 0
            failed[ended] = members.clock["row"][ended] + 1
            taken = int(members.counts[:, 2].sum()), int(members.counts[:, 3].sum())
        else:
            taken = (len(t) - 1) * every * n, 0
            self.steps(
                y, table, t0, dt, taken[0] // n, every, record, 1, failed, threads=threads, losses=losses
            )
        for i in np.flatnonzero(failed):
            record[i, failed[i] - 1 :] = np.nan
            if not batch:
                raise IntegrationError(self.complaint(t[failed[i] - 2], losses[i]))
        q, v = record[..., self.layout["q"]], record[..., self.layout["v"]]
        if "multipliers" in self.layout:
            found = record[..., self.layout["multipliers"]]
        else:
            found = self.multipliers(np.broadcast_to(t, q.shape[:-1]), q, v, table)
        shape = (*batch, len(t))
        return Trajectory(
            t,
            q.reshape(*shape, nq),
            v.reshape(*shape, dim),
            found.reshape(*shape, -1),
            failed,
            losses,
            *taken,
        )

    def _times(self, t0: float, t_end: float, dt: float | None, every: int, times: Any) -> np.ndarray:
        """The times of the record."""
        if dt is not None:
            steps = round((t_end - t0) / dt) if dt > 0 else 0
            if steps < 1 or abs(t0 + steps * dt - t_end) > 1e-6 * dt or steps % every:
                raise IntegrationError(
                    f"steps of {dt} s, every {every} of them recorded, do not make up the time from {t0} to "
                    f"{t_end} s; take dt and every such that they do"
                )
            return np.asarray(t0 + dt * every * np.arange(steps // every + 1))
        t = np.linspace(t0, t_end, 1001) if times is None else np.ascontiguousarray(times, float)
        if t.ndim != 1 or len(t) < 2 or not (np.diff(t) > 0).all() or t[0] != t0 or t[-1] != t_end:
            raise IntegrationError(
                f"times must increase from t0 = {t0} to t_end = {t_end} s, with these two among them"
            )
        return t

    def complaint(self, reached: float, loss: Any) -> str:
        """What to say of a motion known up to the time `reached`, from its row of `losses`."""
        at, reason = float(loss[0]), int(loss[1])
        if reason:
            return f"the step at t = {at:.9g} s cannot be taken: {REASONS[reason]}"
        return (
            f"the state is not finite after t = {reached:.9g} s; take a shorter step, and look at the forces"
        )


def _with_parameters(flow: MechanicalFlow, at: Callable[[Any], MechanicalFlow]) -> MechanicalFlow:
    """The flow whose functions are those of `at(u)`, u being the efforts and parameters they are given."""

    def bound(*path: Any, place: int = -1) -> Any:
        """The function at the end of a path in a flow, u being its argument at this place; None: none."""

        def function(*arguments: Any) -> Any:
            u = np.asarray(arguments[place])
            return _reached(at(u[0] if u.ndim == 2 else u), path)(*arguments)

        return function if _reached(flow, path) else None

    def phases(*path: Any) -> tuple[Phase, ...]:
        names = ("predict", "residual", "keep", "soften")
        found = enumerate(_reached(flow, path))
        return tuple(replace(phase, **{x: bound(*path, k, x) for x in names}) for k, phase in found)

    made = copy.copy(flow)
    made.phases, made.finish, made.begin = phases("phases"), bound("finish"), bound("begin", place=-2)
    if flow.control:
        error, between = (bound("control", x, place=-2) for x in ("error", "between"))
        made.control = replace(flow.control, phases=phases("control", "phases"), error=error, between=between)
    if flow.memory:
        made.memory = replace(flow.memory, restart=bound("memory", "restart"))
    return made


def _reached(found: Any, path: Sequence[Any]) -> Any:
    """What attributes, and numbers of entries, lead to."""
    for key in path:
        found = found[key] if isinstance(key, int) else getattr(found, key)
    return found


class MechanicalMethod:
    """A method for mechanical systems: `flow` makes its compiled steps, `_flow` says what they are."""

    name: str
    order: int
    takes_constraints = True
    takes_velocity_constraints = False
    estimates_errors = False

    def flow(
        self,
        group: LieGroup,
        M: Any,
        *terms: Any,
        tolerance: float = 1e-15,
        recipe: str | None = None,
        **options: Any,
    ) -> MechanicalFlow:
        """The compiled steps of this method for M dv/dt + b + J^T lambda = Q, g = 0.

        terms      Q, g, J, and further `options`: those of `MechanicalEquations`
        tolerance  of Newton's method, relative; the default is round-off
        recipe     a text that determines all arguments, with which compiled code is found untraced
        """
        system = MechanicalEquations(group, M, *terms, **options)
        if system.m and not self.takes_constraints:
            raise IntegrationError(
                f"{self.name} takes no constraints; take 'generalized-alpha', 'variational' or "
                "'half-explicit4'"
            )
        if not system.holonomic and not self.takes_velocity_constraints:
            raise IntegrationError(
                f"{self.name} needs the constraints as g(q) = 0, not only J; half-explicit and Radau methods "
                "take J alone"
            )
        flow = self._flow(system, tolerance=tolerance, recipe=f"{recipe} {self!r}" if recipe else None)
        return (
            flow
            if system.at is None
            else _with_parameters(flow, lambda u: self._flow(system.with_parameters(u)))
        )

    def _flow(self, system: MechanicalEquations, **options: Any) -> MechanicalFlow:
        raise NotImplementedError
