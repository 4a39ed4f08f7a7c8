"""Steps of the equations of motion, costs and constraints of optimal control, with derivatives, on symbols.

Derivatives are along the group: by s = (delta, nu, mu) at (q exp(delta), v + nu, u + mu), s = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...base.arguments import short
from ...base.concurrency import Sendable, cached_property
from ...base.errors import GraphError, ModelError, ShapeError
from ...compiler import Expr, Function, Program, trace
from ...compiler.programs import Cells
from ...dynamics import acceleration_along, forward_dynamics_in_columns
from ...groups import LieGroup, Product, R, along_group
from ...integrators import Method, StageTangents, StateTangents, advance, coefficients
from ...mechanisms import OpenTree
from ...scalars import Array, absolute, maximum, minimum, sqrt
from ...scalars.linear import product

Shapes = Mapping[str, Any]


class _Point(NamedTuple):
    """A state, and how its tangent depends on s, (nv, s)."""

    q: Array
    v: Array
    delta: Array
    nu: Array


class SolvedRates(NamedTuple):
    """Cells of numbers, and a function (x, u, numbers) -> rates of the state, with their derivatives by s."""

    cells: Cells
    rates: Callable[[Array, Array, Array], Array]


def _rates(v: Array, a: Array, nu: Array, change: Array) -> Array:
    """Rates of the state, and how they change: (2 nv, 1 + columns)."""
    return np.hstack([np.concatenate([v, a])[:, None], np.concatenate([nu, change])])


class HeldStep(Sendable):
    """(q, v) at t + h of a tree whose joints have the efforts S u during the step.

    S       (nv, m)
    method  an explicit one; None: v+ = v + h dv/dt, q+ = q exp(h v+), the semi-implicit Euler method
    """

    def __init__(self, mechanism: OpenTree, S: Array, h: float, method: Method | None) -> None:
        self.mechanism = mechanism
        self.S = S
        self.h = h
        self.method = method
        self.group = mechanism.group
        n = mechanism.nv
        self.state = Product(self.group, R(n))

    def next(self, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """q and v at the end of the step."""
        tau = product(self.S, u)
        h = self.h
        mechanism = self.mechanism
        if self.method is None:
            v = v + h * mechanism.acceleration(0.0, q, v, tau)
            return self.group.normalize(self.group.integrate(q, h * v)), v

        def field(t: Any, y: Array) -> Array:
            return np.concatenate(mechanism.rates(t, y[: mechanism.nq], y[mechanism.nq :], tau))

        y = advance(self.state, self.method, field, 0.0, np.concatenate([q, v]), h).q
        return y[: mechanism.nq], y[mechanism.nq :]

    def derivative(
        self, q: Array, v: Array, u: Array, unit: Array | None = None, first: Array | None = None
    ) -> _Point:
        """q and v at the end of the step, and their derivatives by s, or along the columns of `unit`.

        first  the result of `rates` at the start, if it is known: (2 nv, 1 + columns)
        """
        n = self.mechanism.nv
        nq = self.mechanism.nq
        h = self.h
        tangents = self._tangents
        # without `unit` there is a column for each entry of s; ones and zeros vanish when traced
        unit = np.eye(2 * n + len(u), dtype=int) if unit is None else unit
        start = np.concatenate([q, v]), unit[: 2 * n]
        known = [] if first is None else [first]

        def velocity(t: Any, at: StateTangents) -> Array:
            # the acceleration at the start may have been solved for by columns, outside of this graph
            if known:  # only at the first stage
                return known.pop()
            a, change = self._acceleration(at, u, unit[2 * n :])
            return _rates(at[0][nq:], a, at[1][n:], change)

        if self.method is None:
            # semi-implicit Euler: v+ = v + h a first, then q+ = q exp(h v+)
            f = velocity(0.0, start)
            y, slope = tangents.advance(start, h * np.concatenate([f[:n] + h * f[n:], f[n:]]))
        else:
            y, slope = tangents.step(coefficients(self.method), velocity, 0.0, h, start)
        return _Point(y[:nq], y[nq:], slope[:n], slope[n:])

    def in_columns(self, program: Program, x: Cells, u: Cells) -> SolvedRates:
        """The rates at the start of a step; passes of a program solve for their derivatives by columns."""
        mechanism = self.mechanism
        S = self.S
        n = self.mechanism.nv
        m = self.S.shape[1]

        def acting(x: Array, u: Array) -> tuple[Array, ...]:
            q, v = np.split(x, [mechanism.nq])
            tau, (by_q, by_v, _) = self._acting(q, v, product(S, u))
            return q, v, tau, by_q, by_v

        gravity = tuple(mechanism.gravity)
        solved = forward_dynamics_in_columns(program, mechanism.tree, acting, {"x": x, "u": u}, gravity)

        def rates(x: Array, u: Array, numbers: Array) -> Array:
            q, v = np.split(x, [mechanism.nq])
            # numbers of the program's cells back into matrices; inputs act through efforts
            a, by_q, by_v, inverse = solved.read(numbers)
            by_u = product(inverse, product(self._acting(q, v, product(S, u))[1][2], S))
            return _rates(v, a, np.eye(n, 2 * n + m, n, dtype=int), np.hstack([by_q, by_v, by_u]))

        return SolvedRates(solved.cells, rates)

    @property
    def stage_count(self) -> int:
        """How often the step asks for the acceleration."""
        return 1 if self.method is None else len(self.method.paths) - 1

    @cached_property
    def _tangents(self) -> StageTangents:
        pulls = self.method is not None and self.method.pulls_back
        return StageTangents(self.state, self.mechanism.moves()[1]() if pulls else None)

    @cached_property
    def curvature(self) -> Function:
        """(q, v, u, slope) -> second derivative by s of slope^T d, d from the step's end to that at s."""
        mechanism = self.mechanism
        n = self.mechanism.nv
        m = self.S.shape[1]

        def seen(q: Array, v: Array, u: Array, slope: Array, q1: Array) -> Any:
            end, rate = self.next(q, v, u)
            return slope[:n] @ self.group.difference(q1, end) + slope[n:] @ rate

        shapes = {"q": mechanism.nq, "v": n, "u": m, "slope": 2 * n, "q1": mechanism.nq}
        # twice the derivative of the weighted distance from the end of the step, at s = 0
        moved = along_group(seen, shapes, {"q": self.group, "v": None, "u": None}, name="seen")
        _, hessian = moved.gradient_and_hessian()

        # the base point is the end of the step itself, which the derivative must not move
        def at_end(q: Array, v: Array, u: Array, slope: Array) -> Array:
            return hessian(q, v, u, slope, self.next(q, v, u)[0])

        del shapes["q1"]
        return trace(at_end, shapes, "curvature")

    def _acceleration(self, at: StateTangents, u: Array, du: Array) -> tuple[Array, Array]:
        """dv/dt, and its derivatives, (nv, columns)."""
        mechanism = self.mechanism
        n = self.mechanism.nv
        q, v, delta, nu = *np.split(at[0], [mechanism.nq]), *np.split(at[1], [n])
        # chain rule: efforts depend on the state and the input, the acceleration on all three
        tau, slopes = self._acting(q, v, product(self.S, u))
        along = delta, nu, product(self.S, du)
        by_u = sum(product(A, x) for A, x in zip(slopes, along, strict=True))
        a, change = acceleration_along(mechanism.tree, q, v, tau, tuple(mechanism.gravity))
        return a, change(delta, nu, by_u)

    def _acting(self, q: Array, v: Array, tau: Array) -> tuple[Array, list[Array]]:
        """Efforts with forces and limits applied, and their derivatives by q, v and tau, (nv, nv)."""
        mechanism = self.mechanism
        n = self.mechanism.nv
        none = np.zeros((n, n), int)
        # without forces and limits the efforts act as they are
        if not mechanism.forces and not mechanism.clipped:
            return tau, [none, none, np.eye(n, dtype=int)]
        # forces of the user have no derivatives by hand: their graph is differentiated
        moved = along_group(
            lambda q, v, tau: mechanism.efforts(0.0, q, v, tau),
            {"q": mechanism.nq, "v": n, "tau": n},
            {"q": self.group, "v": None, "tau": None},
            name="acting",
        )
        slopes = [moved.jacobian(x)(q, v, tau) for x in ("q", "v", "tau")]
        return mechanism.efforts(0.0, q, v, tau), slopes


class Cost:
    """A user's costs, summed: numbers, or residuals r (k,), which stand for r^T r / 2; times `scale`.

    functions  {name: function} of arrays of these shapes, the first of which are q and v; on symbols
    exact      whether residuals have their whole Hessian, not J^T J alone (Gauss-Newton)
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        shapes: Shapes,
        group: LieGroup,
        exact: bool,
        scale: float = 1.0,
    ) -> None:
        self._functions = list(functions.values())
        self._scale = scale
        self._size = 2 * shapes["v"] + shapes.get("u", 0)
        self._slopes: list[tuple[Callable[..., Array], ...]] = []
        # derivatives of the cost at (q exp(delta), v + nu, u + mu) by (delta, nu, mu), at 0
        groups = {"q": group, **{name: None for name in ("v", "u") if name in shapes}}
        for name, function in functions.items():
            traced = trace(function, shapes, name)
            # numbers are costs themselves, arrays are residuals
            results = list(traced.outputs.values())
            if len(results) != 1 or results[0].ndim > 1:
                shown = ", ".join(str(y.shape) for y in results)
                raise GraphError(
                    f"{name} returns arrays of shapes {shown}, expected a cost () or residuals (k,); join "
                    "residuals with numpy.concatenate"
                )
            # Gauss-Newton needs the Jacobian of residuals alone; otherwise gradient and Hessian of the cost
            if results[0].ndim and not exact:
                self._slopes.append((along_group(traced, shapes, groups, name=name).jacobian(),))
            else:
                moved = along_group(lambda *x, of=traced: _cost_of(of(*x)), shapes, groups, name=name)
                self._slopes.append(moved.gradient_and_hessian())

    def __call__(self, *at: Array) -> Array:
        """The cost, (1,)."""
        return np.reshape(self._scale * sum(_cost_of(f(*at)) for f in self._functions), 1)

    def derivatives(self, *at: Array) -> tuple[Array, Array, Array]:
        """The cost (1,), its gradient, and its Hessian."""
        gradient = np.zeros(self._size, int)
        hessian = np.zeros((self._size, self._size), int)
        for function, slopes in zip(self._functions, self._slopes, strict=True):
            g, *H = (f(*at) for f in slopes)
            if not H:  # g is the Jacobian of residuals r: the gradient is J^T r, the Hessian J^T J
                jacobian_of_residuals = g
                g = product(jacobian_of_residuals.T, np.asarray(function(*at)))
                H = [product(jacobian_of_residuals.T, jacobian_of_residuals)]
            # costs add up, and so do their derivatives
            gradient = gradient + self._scale * g
            hessian = hessian + self._scale * H[0]
        return self(*at), gradient, hessian


def _cost_of(found: Any) -> Any:
    r = np.asarray(found)
    return r @ r / 2 if r.ndim else r[()]


@dataclass(frozen=True)
class Violation:
    """The violation of a constraint low <= c <= high along a trajectory.

    constraint  its place in the problem and the name of its function: "stage_constraints[0] (wall)"
    along       largest violation of its entries at each knot, (N,), of a terminal constraint at the last one,
                (1,); 0 where it is kept, infinite where c is no number
    first       number of the knot of along[0]
    has_slack   whether the problem allows it, at a price
    """

    constraint: str
    along: Array
    first: int = 0
    has_slack: bool = False

    @property
    def amount(self) -> float:
        """The largest one."""
        return float(self.along.max(initial=0.0))

    @property
    def knot(self) -> int:
        """Where it is largest."""
        return self.first + int(np.argmax(self.along))

    def __repr__(self) -> str:
        where = f" at knot {self.knot}" if self.amount else ""
        return f"Violation({self.constraint} by {self.amount:.2g}{where})"


def largest_violation(of: Iterable[Violation]) -> Violation | None:
    """The one with the largest amount; None without constraints."""
    return max(of, key=lambda x: x.amount, default=None)


class Constraints:
    """low <= c <= high, [(c, low, high), ...], with functions c of arrays of these shapes, the last p.

    The residuals of the augmented Lagrangian keep them:

        mu/2 |z - clip(z, low, high)|^2,    z = c + lambda/mu,    then lambda = mu (z - clip(z, low, high))

    whose mu stands at `first` of p, followed by the multipliers lambda. Hestenes (1969), Powell (1969),
    Rockafellar (1973).

    With slack, (c, low, high, price), the cost is the least over s of price |s| + mu/2 (d - s)^2, where d is
    z - clip(z): a parabola up to |d| = price/mu and a line beyond, so multipliers are at most the price.
    """

    def __init__(self, argument: str, given: Iterable[Any], shapes: Shapes, first: int) -> None:
        self._parts = []
        self._first = first
        self._places: dict[str, slice] = {}
        self._slack: dict[str, bool] = {}
        bounds: list[tuple[float, float]] = []
        prices: list[float] = []
        controlled: list[bool] = []
        # constraints stand one after the other in a vector; `places` says where each is
        for i, one in enumerate(given):
            if not isinstance(one, tuple) or len(one) not in (3, 4) or not callable(one[0]):
                raise ModelError(
                    f"a constraint is {short(one)}, expected (function, low, high), or (function, low, high, "
                    "price) with slack"
                )
            # a trace tells the shape of c, and refuses functions that branch on values
            function = trace(one[0], shapes, "constraint")
            (c,) = function.outputs.values()
            self._parts.append(one[0])
            start = len(bounds)
            name = getattr(one[0], "__name__", "<>")
            bounds += zip(
                *bounds_of(f"the bounds of a constraint of shape {c.shape}", one[1], one[2], c.shape),
                strict=True,
            )
            prices += _prices(one[3] if len(one) == 4 else np.inf, c.shape)
            controlled += _depends_on(function, "u")
            shown = f"{argument}[{i}]" + ("" if name.startswith("<") else f" ({name})")
            self._places[shown] = slice(start, len(bounds))
            self._slack[shown] = len(one) == 4
        self._bounds = bounds
        self._prices = prices
        self.size = len(bounds)
        self.uncontrolled = ~np.array(controlled, bool) & np.isinf(prices)
        """Entries without slack that do not depend on u: the state alone says by how much they are broken."""
        self.has_slack = np.isfinite(prices)
        """Whether each entry may be broken at a price."""

    def residuals(self, *at: Array) -> Array:
        """Residuals of the augmented Lagrangian, (size,)."""
        mu, shift = self._shift(at)
        residuals = []
        for d, price in zip(self._outside(at, shift), self._prices, strict=True):
            if np.isfinite(price):
                # half of the square is mu/2 d^2 up to d = limit, and price |d| - price^2 / (2 mu) beyond
                limit = price / mu
                d = _clipped(d, -limit, limit) * sqrt(2 * maximum(absolute(d) / limit, 1) - 1)
            residuals.append(sqrt(mu) * d)
        return np.array(residuals)

    def violations(self, *at: Array) -> Array:
        """Distance of each entry to its bounds, and its next multiplier, (2 size,)."""
        mu, shift = self._shift(at)
        multipliers = [
            _clipped(mu * d, -price, price)
            for d, price in zip(self._outside(at, shift), self._prices, strict=True)
        ]
        return np.concatenate([self._outside(at, 0 * shift), multipliers])

    def broken(self, distances: Array, first: int) -> list[Violation]:
        """The violation of each constraint, from distances (N, size) to the bounds.

        first  number of the first knot
        """
        # a value that is no number breaks its constraint by any amount
        sizes = np.abs(distances)
        sizes[np.isnan(sizes)] = np.inf
        return [
            Violation(name, sizes[:, at].max(axis=1, initial=0.0), first, self._slack[name])
            for name, at in self._places.items()
        ]

    def _shift(self, at: tuple[Array, ...]) -> tuple[Any, Array]:
        mu = at[-1][self._first]
        multipliers = at[-1][self._first + 1 :][: self.size]
        return mu, multipliers / mu

    def _outside(self, at: tuple[Array, ...], shift: Array) -> Array:
        z = shift + np.concatenate([np.reshape(c(*at), -1) for c in self._parts])
        return z - np.array([_clipped(x, *pair) for x, pair in zip(z, self._bounds, strict=True)])


def _clipped(x: Any, low: Any, high: Any) -> Any:
    """x within its bounds; an infinite one leaves no operation in the graph."""
    if not isinstance(low, float) or np.isfinite(low):
        x = maximum(x, low)
    if not isinstance(high, float) or np.isfinite(high):
        x = minimum(x, high)
    return x


def _prices(price: Any, shape: tuple[int, ...]) -> list[float]:
    """The price of slack of each entry of a constraint of this shape. Raises ShapeError, ModelError."""
    try:
        each = np.broadcast_to(np.asarray(price, float), shape).ravel()
    except (TypeError, ValueError):
        raise ShapeError(
            f"the price of slack is {short(price)}, expected a number or an array {shape}"
        ) from None
    if not (each > 0).all():
        raise ModelError(
            f"the price of slack is {short(price)}: it must be positive; a constraint without "
            "slack is (function, low, high)"
        )
    return each.tolist()


def _depends_on(function: Function, name: str) -> list[bool]:
    """Whether each entry of the one output depends on the input of this name."""
    reached = set(function.inputs[name].flat) if name in function.inputs else set()
    for node in function.nodes:
        if any(type(x) is Expr and x in reached for x in node.args):
            reached.add(node)
    (output,) = function.outputs.values()
    return [type(x) is Expr and x in reached for x in output.flat]


def bounds_of(what: str, low: Any, high: Any, shape: tuple[int, ...]) -> Array:
    """Bounds of an array of this shape, (2, size); low None: -high. Raises ShapeError, ModelError."""
    # bounds broadcast to the array; one array stands for -high and high
    try:
        pair = -np.asarray(high, float) if low is None else low, high
        both = np.array([np.broadcast_to(np.asarray(x, float), shape).ravel() for x in pair])
    except (TypeError, ValueError):
        told = short(high if low is None else (low, high))
        raise ShapeError(f"{what} are {told}, expected (low, high) of numbers or arrays {shape}") from None
    if not (both[0] <= both[1]).all():
        raise ModelError(f"{what} are {short((low, high))}: low must not be above high, nor a number NaN")
    return both
