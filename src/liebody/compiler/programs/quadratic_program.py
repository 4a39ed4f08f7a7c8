"""Convex quadratic programs by an interior point method, and functions that solve one on the way.

The method is written twice: here in NumPy, as the reference and for machines without a compiler, and in
runtime/quadratic_program.h over lanes. Both have the same steps in the same order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import GraphError, ShapeError
from ..graph.graph import Function, Graph
from . import active_set
from .quadratic_terms import Data, Measures, Minimum, scaled_rows

TOLERANCE = 1e-9  # of the errors of stationarity, of rows and of the gap, relative to their terms
ITERATIONS = 40
INTERIOR_POINT, ACTIVE_SET = METHODS = "interior-point", "active-set"
# The same settings in C, by name.
SETTINGS = {
    "UNBOUNDED": 1e20,  # a bound of this size is none
    "LARGEST_WEIGHT": 1e30,  # a larger one counts as infinite
    "SMALLEST": 1e-300,
    "SMALLEST_PIVOT": 1e-15,  # in units of the diagonal
    # The largest weights in the matrix, in units of the problem's scale: of rows without slack, and of others
    "HARD": 1e10,
    "SOFT": 1e11,
    "APART": 1e-9,  # least distance of two bounds, relative to them
    "WEAK": 0.1,  # springs of the first guess, in units of the scale
    "NEAR": 1e-2,  # least distance of the first guess from bounds, in units of its size
    "SHORTER": 0.995,  # of the step that reaches a bound
    "FAINT": 1e-8,  # terms of a gradient that are smaller, in units of the largest, count as so large
    "WORSE": 1e4,  # times the best error: no better one is to be expected
}
# The same in float32, where they differ: digits are fewer, and weights further apart than these are lost.
SETTINGS_FLOAT = {
    "SMALLEST": 1e-37,
    "SMALLEST_PIVOT": 1e-7,
    "HARD": 1e4,
    "SOFT": 1e5,
    "APART": 1e-5,
    "FAINT": 1e-4,
}
TOLERANCE_FLOAT = 1e-4  # at least
FLOOR = 0.03  # of the tolerance: products z t are not made smaller


class Otherwise(NamedTuple):
    """A second `Minimizer`, which replaces the results of a first one where these do not stand.

    minimizer  another function with the same inputs and outputs
    unless     the name of an output (): where the first function makes it greater than zero, all outputs come
               from the second function
    """

    minimizer: Minimizer
    unless: str


class Minimizer:
    """The function after(inputs, kept, minimum), where before(inputs) is a quadratic program and `kept`:

        minimize    x' H x / 2 + g' x + sum of w_i s_i^2 / 2
        subject to  A x + s_a = b,    l <= C x + s_c <= u

    Rows have weights w of their slack s. A row with the weight 0 is switched off; one with an infinite weight
    has no slack. Programs whose rows have finite weights are always feasible. Where rows without slack
    contradict each other, x tends to a point of least violation, and `solved` is 0.

    name    of the function, an identifier
    before  a traced function of the inputs with the outputs of `Data`, in this order, and kept ones.
            H is symmetric, not negative; `scale` (1,) is the size of the curvature that matters: of H, or of
            the rows' finite weights other than very large ones
    after   a traced function of the inputs, the kept outputs and the fields of `Minimum`: x, y and z, the
            multipliers of A and C, slack_a = b - A x, slack_c = what has to be added to C x to be within
            bounds, and the `Measures`
    iterations, tolerance  the largest number, and the largest error
    folded  how many of the last rows of A are counted into H and g before iterations. Their weights have to
            be finite, and may exceed the scale by some powers of ten at most
    otherwise  another function that takes over where this one fails; None: failed results are returned
    method  "interior-point", whose equations follow, over all lanes; or "active-set", one program at a time
            (`active_set` has its equations), where iterations are changes of the set
    start   name of an input (k,), multipliers of C: an active set method starts with the rows that have one;
            "": it starts without active rows

    With t_l = C x + s_c - l > 0, t_u = u - C x - s_c > 0, z = z_l - z_u and slacks y/w, z/w, the
    conditions of a minimum

        H x + g = A' y + C' z,    A x + y/w = b,    z_l t_l = 0,    z_u t_u = 0

    are solved by Newton's method for z t = m with m -> 0: predictor and corrector of Mehrotra (1992), "On the
    implementation of a primal-dual interior point method", SIAM J. Optim. 2, 575. Newton's equations have
    one symmetric matrix, H + A' w A + C' (D/(1 + D/w)) C with D = z_l/t_l + z_u/t_u. In it weights are at
    most HARD (infinite ones) or SOFT (others) times the scale, which keeps it within the reach of the digits;
    residuals have the true weights. So infinite weights are a proximal method of multipliers, which redundant
    rows do not hurt: Rockafellar (1976), Math. Oper. Res. 1, 97.
    """

    def __init__(
        self,
        name: str,
        before: Function,
        after: Function,
        iterations: int = ITERATIONS,
        tolerance: float = TOLERANCE,
        folded: int = 0,
        otherwise: Otherwise | None = None,
        method: str = INTERIOR_POINT,
        start: str = "",
    ) -> None:
        self.name = name
        self.before = before
        self.after = after
        self.iterations = iterations
        self.tolerance = tolerance
        self.folded = folded
        self.otherwise = otherwise
        self.method = method
        self.start = start
        self.inputs = before.inputs
        self.outputs = after.outputs
        count = len(Data._fields)
        data = [*before.outputs.values()]
        if len(data) < count:
            raise ShapeError(
                f"{name} has {len(data)} outputs before its quadratic program, expected {count} or more: "
                f"{', '.join(Data._fields)}, and what is kept"
            )
        self.kept = dict([*before.outputs.items()][count:])
        H, _, A, _, _, C, l, u, *_ = data
        self.unknowns = len(H)
        self.equalities = len(A)
        self.inequalities = len(C)
        n, m, k = self.unknowns, self.equalities, self.inequalities
        expected = Data((n, n), (n,), (m, n), (m,), (m,), (k, n), (k,), (k,), (k,), (1,))
        for key, x, shape in zip(Data._fields, data, expected):
            if x.shape != shape:
                raise ShapeError(f"{name}: {key} has shape {x.shape}, expected {shape}")
        if start and self.inputs[start].shape != (k,):
            raise ShapeError(f"{name}: {start} has shape {self.inputs[start].shape}, expected {(k,)}")
        solution = Minimum((n,), (m,), (k,), (m,), (k,), (len(Measures._fields),))
        shapes = [x.shape for x in (*self.inputs.values(), *self.kept.values())]
        given = [x.shape for x in after.inputs.values()]
        if given != [*shapes, *solution]:
            raise ShapeError(
                f"{name}: the function behind takes {given}, expected {[*shapes, *solution]}: inputs, "
                "what is kept, x, y, z, slack_a, slack_c, measures"
            )
        if otherwise and _shapes(otherwise.minimizer) != _shapes(self):
            found = f"{_shapes(self)}, and what takes over {_shapes(otherwise.minimizer)}"
            raise ShapeError(f"{name} has {found}, expected the same inputs and outputs")
        self.sizes = {key: math.prod(shape) for key, shape in zip(Minimum._fields, solution, strict=True)}
        self.entries_c = _entries(C)
        self.entries_f = _entries(A[self.equalities - folded :])
        # Rows from these numbers on have no lower, and no upper bounds, whatever the inputs are.
        self.lower = _count([not _is_constant(x) or x > -SETTINGS["UNBOUNDED"] for x in l])
        self.upper = _count([not _is_constant(x) or x < SETTINGS["UNBOUNDED"] for x in u])

    @property
    def settings(self) -> dict[str, float]:
        """The settings of the header, by name."""
        if self.method == ACTIVE_SET:
            return active_set.SETTINGS | {"TOLERANCE": self.tolerance}
        tolerances = {"TOLERANCE": self.tolerance, "FLOOR": FLOOR * self.tolerance}
        return SETTINGS | tolerances

    @property
    def settings_of_floats(self) -> dict[str, float]:
        """The same for an export in float32; GraphError for the active set method."""
        if self.method == ACTIVE_SET:
            raise GraphError(
                f"{self.name} is solved by an active set, which needs the digits of float64; export it with "
                'dtype=float64, or use the solver "interior-point"'
            )
        tolerance = max(self.tolerance, TOLERANCE_FLOAT)
        return SETTINGS | SETTINGS_FLOAT | {"TOLERANCE": tolerance, "FLOOR": FLOOR * tolerance}

    @property
    def operations(self) -> Counter[str]:
        """The number of operations before and behind the program.

        It excludes the iterations of the program, and the function that takes over where it fails.
        """
        return self.before.operations + self.after.operations

    @property
    def most_iterations(self) -> int:
        """The largest number of iterations, including the function that takes over."""
        return self.iterations + (self.otherwise.minimizer.most_iterations if self.otherwise else 0)

    @property
    def length(self) -> int:
        """Number of operations in the printed text."""
        own: int = self.before.length + self.after.length
        return own + (self.otherwise.minimizer.length if self.otherwise else 0)

    def unroll(self) -> Function:
        """Raises GraphError: iterations until convergence are no graph."""
        raise GraphError(
            f"{self.name} solves a quadratic program, which has no graph of symbols; call it with numbers"
        )

    def interface(self) -> Function:
        """A function with the same inputs and outputs, whose results are separate nodes of its graph."""
        graph = Graph()
        inputs = {key: graph.symbols(key, x.shape) for key, x in self.inputs.items()}
        outputs: dict[str, Any] = {}
        start = 0
        for key, x in self.outputs.items():
            cells = [graph.node("cell", start + j) for j in range(x.size)]
            outputs[key] = np.array(cells, dtype=object).reshape(x.shape)
            start += x.size
        return Function(self.name, inputs, outputs)

    def minimum(self, data: Sequence[Any], start: Any = None) -> Minimum:
        """The solution for these numbers, in NumPy; `start` is the value of the input of that name."""
        with np.errstate(all="ignore"):
            numbers = Data(*(np.array(x, float) for x in data))
            if self.method == ACTIVE_SET:
                return active_set.minimum(numbers, self.iterations, self.settings, self.folded, start)
            return minimum(numbers, self.iterations, self.settings, self.folded)

    def __repr__(self) -> str:
        return (
            f"{self.name}({', '.join(self.inputs)}) by a quadratic program of {self.unknowns} unknowns, "
            f"{self.equalities} equalities, {self.inequalities} inequalities"
        )


def _shapes(minimizer: Minimizer) -> list[dict[str, tuple[int, ...]]]:
    """Names and shapes of inputs, and of outputs."""
    return [{key: x.shape for key, x in side.items()} for side in (minimizer.inputs, minimizer.outputs)]


def _entries(rows: Any) -> list[list[int]]:
    """The columns of each row in which entries may differ from zero."""
    return [[j for j, x in enumerate(row) if not (_is_constant(x) and x == 0)] for row in rows]


def _is_constant(x: Any) -> bool:
    return isinstance(x, (int, float))


def _count(needed: Sequence[bool]) -> int:
    """The number of rows up to the last that is needed."""
    return max((i + 1 for i, x in enumerate(needed) if x), default=0)


def minimum(data: Data, iterations: int, settings: Mapping[str, float], folded: int = 0) -> Minimum:
    """The solution; `Minimizer` has the equations, runtime/quadratic_program.h is the same in C.

    The function is long because its five stages share nearly all of their variables.
    """
    c = settings
    scale = float(data.scale[0])
    # 0. The last rows become a part of the cost: H + A' w A, g - A' w b.
    held = len(data.A) - folded
    F, w, aim = data.A[held:], data.weight_a[held:], data.b[held:]
    H = data.H + (F.T * w) @ F
    g = data.g - F.T @ (w * aim)
    # 1. Scale rows; rows that are off, and bounds that are infinite, are masked. Bounds that meet are moved
    # apart, because the method needs an interior.
    A, size_a, weight_a = scaled_rows(data.A[:held], data.weight_a[:held])
    C, size_c, weight_c = scaled_rows(data.C, data.weight_c)
    soft_a, used_a = _softness(weight_a, scale, c)
    soft_c, used_c = _softness(weight_c, scale, c)
    b = data.b[:held] / size_a
    W = np.where(weight_a > 0, 1 / used_a, 0.0)
    is_l = (weight_c > 0) & (data.l > -c["UNBOUNDED"])
    is_u = (weight_c > 0) & (data.u < c["UNBOUNDED"])
    l = np.where(is_l, data.l / size_c, 0.0)
    u = np.where(is_u, data.u / size_c, 0.0)
    gap = np.maximum(c["APART"] * (1 + np.abs(l) + np.abs(u)) - (u - l), 0) * (is_l & is_u) / 2
    l = l - gap
    u = u + gap
    count = max(is_l.sum() + is_u.sum(), 1)
    K0 = H + (A.T * W) @ A
    # 2. Start: the minimum with weak springs in the place of inequalities.
    middle = is_l * np.maximum(l, 0) + is_u * np.minimum(u, 0)
    middle = np.where(is_l & is_u, (l + u) / 2, middle)
    D = np.where(is_l | is_u, c["WEAK"] * scale, 0.0)
    factor = _factorised(K0 + (C.T * D) @ C, c["SMALLEST_PIVOT"])
    x = _solve_with(factor, A.T @ (W * b) + C.T @ (D * middle) - g)
    y = np.where((soft_a > 0) & (soft_a >= used_a), W * (b - A @ x), 0.0)
    R = C @ x
    violation = max((is_l * (l - R)).max(initial=0.0), (is_u * (R - u)).max(initial=0.0))
    rd = H @ x + g - A.T @ y
    far = max(violation, c["NEAR"] * np.abs(x).max(initial=1.0))
    start = far * max(np.abs(rd).max(initial=0.0), c["NEAR"] * scale * far)
    t_l = np.where(is_l, np.maximum(R - l, far), 1.0)
    t_u = np.where(is_u, np.maximum(u - R, far), 1.0)
    z_l = is_l * start / t_l
    z_u = is_u * start / t_u
    # 3. Iterations; the best point is kept.
    best = (np.inf, np.inf, np.inf, np.inf)
    best_x, best_y, best_z = np.zeros_like(x), np.zeros_like(y), np.zeros_like(z_l)
    k = 0
    while True:
        # residuals of stationarity, of rows, and of products z t
        z = z_l - z_u
        hx = H @ x
        rd = hx + g - A.T @ y - C.T @ z
        rp = np.where(W > 0, b - A @ x - soft_a * y, 0.0)
        R = C @ x + soft_c * z
        r_l = is_l * (l - R + t_l)
        r_u = is_u * (R - u + t_u)
        products = z_l @ t_l + z_u @ t_u
        # Each component of the gradient is measured by the sizes of its own terms: next to hard rows that
        # contradict each other it may be much smaller than others.
        terms = np.abs(hx) + np.abs(g) + np.abs(A.T) @ np.abs(y) + np.abs(C.T) @ np.abs(z)
        size_gap = abs(hx @ x) + abs(g @ x) + np.abs(b * y).sum()
        size_gap = max(size_gap + np.abs(l * z_l).sum() + np.abs(u * z_u).sum(), scale)
        dual = (np.abs(rd) / np.maximum(terms, max(c["FAINT"] * terms.max(), c["SMALLEST"]))).max()
        primal = max(np.abs(r).max(initial=0.0) for r in (rp, r_l, r_u)) / np.abs(x).max(initial=1.0)
        error = float(np.max([dual, primal, products / size_gap]))  # NaN if one of them is
        if error < best[0]:
            best = (error, dual, primal, products / size_gap)
            best_x, best_y, best_z = x, y, z
        worse = c["WORSE"] * max(best[0], c["TOLERANCE"])
        if not c["TOLERANCE"] < error < np.inf or error > worse or k == iterations:
            break
        # the matrix of this iteration, and its factors
        D = z_l / t_l + z_u / t_u
        V = D / (1 + used_c * D)
        factor = _factorised(K0 + (C.T * V) @ C, c["SMALLEST_PIVOT"])

        point = _Point(A, C, W, used_c, rd, rp, r_l, r_u, is_l, is_u, t_l, t_u, z_l, z_u, D, V, factor)

        # predictor, then with the centering that it suggests the corrector
        c_l, c_u = -z_l * t_l, -z_u * t_u
        _, dt_l, dt_u, dz_l, dz_u, most = point.direction(c_l, c_u)
        length = min(1.0, 1 / max(most, c["SMALLEST"]))
        after = (z_l + length * dz_l) * is_l @ (t_l + length * dt_l)
        after += (z_u + length * dz_u) * is_u @ (t_u + length * dt_u)
        ratio = after / max(products, c["SMALLEST"])
        centre = max(ratio**3 * products, c["FLOOR"] * size_gap) / count
        c_l = is_l * (c_l + centre - dz_l * dt_l)
        c_u = is_u * (c_u + centre - dz_u * dt_u)
        dx, dt_l, dt_u, dz_l, dz_u, most = point.direction(c_l, c_u)
        length = min(1.0, c["SHORTER"] / max(most, c["SMALLEST"]))
        y = y + length * W * (rp - A @ dx)
        x = x + length * dx
        t_l = t_l + length * dt_l
        t_u = t_u + length * dt_u
        z_l = z_l + length * dz_l
        z_u = z_u + length * dz_u
        k += 1
    # 4. Results in the units of the rows that came in.
    R = C @ best_x
    below = np.maximum(is_l * (l - R), 0)
    above = np.maximum(is_u * (R - u), 0)
    slack = np.where(W > 0, b - A @ best_x, 0.0)
    measures = np.array([k, *best[1:], best[0] <= c["TOLERANCE"]], float)
    missed = np.where(w > 0, aim - F @ best_x, 0.0)
    return Minimum(
        best_x,
        np.concatenate([best_y / size_a, w * missed]),
        best_z / size_c,
        np.concatenate([slack * size_a, missed]),
        (below - above) * size_c,
        measures,
    )


class _Point(NamedTuple):
    """Residuals, distances, multipliers and factors at one iteration of `minimum`."""

    A: Any
    C: Any
    W: Any
    used_c: Any
    rd: Any
    rp: Any
    r_l: Any
    r_u: Any
    is_l: Any
    is_u: Any
    t_l: Any
    t_u: Any
    z_l: Any
    z_u: Any
    D: Any
    V: Any
    factor: Any

    def direction(self, c_l: Any, c_u: Any) -> tuple[Any, ...]:
        """Newton's step for products z t that change by c_l, c_u, and the reciprocal of the longest step."""
        p = self
        rho = (c_l + p.z_l * p.r_l) / p.t_l - (c_u + p.z_u * p.r_u) / p.t_u
        rho = rho / (1 + p.used_c * p.D)
        dx = _solve_with(p.factor, p.A.T @ (p.W * p.rp) + p.C.T @ rho - p.rd)
        dz = rho - p.V * (p.C @ dx)
        dR = p.C @ dx + p.used_c * dz
        dt_l = p.is_l * (dR - p.r_l)
        dt_u = p.is_u * (-dR - p.r_u)
        dz_l = p.is_l * (c_l - p.z_l * dt_l) / p.t_l
        dz_u = p.is_u * (c_u - p.z_u * dt_u) / p.t_u
        shares = [-dt_l / p.t_l, -dt_u / p.t_u]
        shares += [-dz_l / np.where(p.z_l > 0, p.z_l, 1), -dz_u / np.where(p.z_u > 0, p.z_u, 1)]
        return dx, dt_l, dt_u, dz_l, dz_u, max(share.max(initial=0.0) for share in shares)


def _softness(weight: Any, scale: float, c: Mapping[str, float]) -> tuple[Any, Any]:
    """1/w of rows, 0 without slack, and what the matrix has in its place."""
    hard = weight > c["LARGEST_WEIGHT"]
    on = weight > 0
    soft = np.where(on & ~hard, 1 / np.where(on, weight, 1.0), 0.0)
    return soft, np.maximum(soft, 1 / (scale * np.where(hard, c["HARD"], c["SOFT"])))


def _factorised(K: Any, smallest: float) -> tuple[Any, Any]:
    """U with U' D^-1 U = K, upper triangular, and D^-1, where D is the diagonal of U.

    A pivot that is round-off of its diagonal entry is raised to that; an unknown that nothing asks for stays.
    """
    U = K.copy()
    n = len(U)
    least = smallest * np.diag(K)
    inverse = np.zeros(n)
    for k in range(n):
        pivot = max(U[k, k], least[k])
        inverse[k] = 1 / pivot if pivot > 0 else 0.0
        U[k + 1 :, k + 1 :] -= np.outer(inverse[k] * U[k, k + 1 :], U[k, k + 1 :])
    return U, inverse


def _solve_with(factor: tuple[Any, Any], r: Any) -> Any:
    """K^-1 r."""
    U, inverse = factor
    x = r.copy()
    n = len(x)
    for i in range(n):
        x[i] *= inverse[i]
        x[i + 1 :] -= U[i, i + 1 :] * x[i]
    for i in reversed(range(n)):
        x[i] -= U[i, i + 1 :] @ x[i + 1 :] * inverse[i]
    return x
