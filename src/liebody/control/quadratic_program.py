"""Convex quadratic programs with slack, as a compiled call on single problems and on batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, count, floats, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ConfigurationError, ShapeError, positive
from ..compiler import ACTIVE_SET, INTERIOR_POINT, Kernel, Measures, Minimizer, trace
from ..scalars import Array
from .task_programs import checked_solver, most_iterations

ASYMMETRY = 1e-9  # of H, relative to its largest entry


class QuadraticSolution(NamedTuple):
    """The solution of a quadratic program, or of many (...).

    x           unknowns (..., n)
    y, z        multipliers of A (..., m) and of C (..., k): H x + g = A^T y + C^T z; z > 0 at lower bounds
    slack_a     b - A x (..., m)
    slack_c     what has to be added to C x to be within its bounds (..., k)
    iterations  how many were made (...)
    dual        error of stationarity, relative to its terms (...)
    primal      largest error of a row that is scaled to a largest entry of 1, relative to |x| (...)
    gap         sum of products of multipliers and distances from bounds, relative to the cost's terms (...)
    solved      whether these three are within the tolerance (...); where not, x is the best point found
    """

    x: Any
    y: Any
    z: Any
    slack_a: Any
    slack_c: Any
    iterations: Any
    dual: Any
    primal: Any
    gap: Any
    solved: Any


class QuadraticProgram:
    """The solver of all convex quadratic programs of one size.

        minimize    x^T H x / 2 + g^T x + sum of w_i s_i^2 / 2
        subject to  A x + s_a = b,    l <= C x + s_c <= u

        solve = QuadraticProgram(unknowns=2, inequalities=1)
        solution = solve(np.eye(2), [-1.0, -1.0], C=[[1.0, 1.0]], u=[1.0])      # x = (1/2, 1/2)

    unknowns, equalities, inequalities  n, m and k
    iterations  of Mehrotra's predictor and corrector at most (None: 40); or changes of the active set
                (None: five for each unknown and each row, and 100)
    tolerance   of the errors of stationarity, rows and gap, relative to their terms
    solver      "interior-point", or "active-set": one program at a time, from the active rows of an earlier
                solution if one is given

        solve = QuadraticProgram(unknowns=2, inequalities=1, solver="active-set")
        solution = solve(H, g, C=C, u=u, start=solution)

    Rows have weights w of their slack: infinite ones (the default) have none, rows with the weight 0 are left
    out. With finite weights a program is always feasible, and its solution breaks contradicting rows by a
    weighted least squares. Infinite weights that contradict each other end with `solved` False, at a point of
    nearly least violation; redundant rows do no harm. For finite input nothing is NaN unless products of its
    numbers overflow.

    Matrices are dense. The method is compiled, for single problems and with a problem in each lane of the
    processor's vectors; `liebody.compiler.Minimizer` has its equations. An active set method takes fewer
    operations for single programs of many unknowns, above all where it starts from the solution of a similar
    program. Its errors are near round-off.

    Errors: ShapeError, ConfigurationError for arrays that do not fit, are not finite or not symmetric.
    """

    @checked
    def __init__(
        self,
        unknowns: int,
        equalities: int = 0,
        inequalities: int = 0,
        *,
        iterations: int | None = None,
        tolerance: float = 1e-9,
        solver: str = INTERIOR_POINT,
    ) -> None:
        self.unknowns = count("unknowns", unknowns)
        self.equalities = count("equalities", equalities, 0)
        self.inequalities = count("inequalities", inequalities, 0)
        self.solver = checked_solver(solver)
        most = unknowns + equalities + inequalities
        self.iterations = most_iterations(iterations, self.solver, most)
        self.tolerance = positive("tolerance", tolerance)

    @cached_property
    def minimizer(self) -> Minimizer:
        """The function that is compiled: its inputs are the numbers of the program."""
        n, m, k = self.unknowns, self.equalities, self.inequalities
        data: dict[str, Any] = {"H": (n, n), "g": n, "A": (m, n), "b": m, "weight_a": m}
        data |= {"C": (k, n), "l": k, "u": k, "weight_c": k, "scale": 1}
        start = {"start": k} if self.solver == ACTIVE_SET else {}
        solution: dict[str, Any] = {"x": n, "y": m, "z": k, "slack_a": m, "slack_c": k}
        solution["measures"] = len(Measures._fields)
        given = {**data, **start}
        before = trace(lambda *arrays: dict(zip(data, arrays)), given, "numbers")
        after = trace(
            lambda *arrays: dict(zip(solution, arrays[len(given) :], strict=True)),
            {**given, **solution},
            "found",
        )
        return Minimizer(
            "quadratic_program",
            before,
            after,
            self.iterations,
            self.tolerance,
            method=self.solver,
            start="".join(start),
        )

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled function, from the numbers of a program to x, y, z, slacks and measures."""
        return Kernel(self.minimizer)

    def __call__(
        self,
        H: Array,
        g: Array,
        A: Array = None,
        b: Array = None,
        C: Array = None,
        l: Array = None,
        u: Array = None,
        *,
        weight_a: Any = np.inf,
        weight_c: Any = np.inf,
        scale: Any = None,
        start: QuadraticSolution | Array | None = None,
        threads: int = 1,
    ) -> QuadraticSolution:
        """The solution of one program, or of many whose leading axes (...) broadcast.

        H, g      (..., n, n), symmetric without negative eigenvalues, and (..., n)
        A, b      (..., m, n) and (..., m); left out without equalities
        C, l, u   (..., k, n) and (..., k); a bound that is left out, or infinite, is none
        weight_a, weight_c  of slack, (..., m) and (..., k), or numbers
        scale     (...), the size of the curvature that matters; None: the largest diagonal entry of H, or
                  the smallest finite weight of a row if that is larger
        start     for the active set: the solution of a similar program, or its z (..., k)
        threads   that share a batch
        """
        n, m, k = self.unknowns, self.equalities, self.inequalities
        H = self._array("H", H, (n, n))
        if np.abs(H - np.swapaxes(H, -1, -2)).max(initial=0) > ASYMMETRY * np.abs(H).max(initial=0):
            raise ConfigurationError("H is not symmetric; give (H + H.T) / 2")
        g = self._array("g", g, (n,))
        A = self._array("A", np.zeros((m, n)) if A is None and not m else A, (m, n))
        b = self._array("b", np.zeros(m) if b is None and not m else b, (m,))
        C = self._array("C", np.zeros((k, n)) if C is None and not k else C, (k, n))
        low = self._array("l", np.full(k, -np.inf) if l is None else l, (k,), infinite=True)
        high = self._array("u", np.full(k, np.inf) if u is None else u, (k,), infinite=True)
        weights = [
            self._array(name, np.broadcast_to(x, (*np.shape(x)[:-1], size)), (size,), infinite=True)
            for name, x, size in (("weight_a", weight_a, m), ("weight_c", weight_c, k))
        ]
        for name, weight in zip(("weight_a", "weight_c"), weights, strict=True):
            if (weight < 0).any():
                raise ConfigurationError(f"{name} is {weight.min():g}, expected zero or more")
        if scale is None:
            scale = self._scale(H, g, [(A, weights[0]), (C, weights[1])])
        size = floats("scale", scale)[..., None]
        arrays = [H, g, A, b, weights[0], C, low, high, weights[1], size]
        if self.solver == ACTIVE_SET:
            z = start.z if isinstance(start, QuadraticSolution) else start
            arrays.append(self._array("start", np.zeros(k) if z is None else z, (k,)))
        elif start is not None:
            raise ConfigurationError('an interior point method has no start; use solver="active-set"')
        *parts, measures = self.kernel(*arrays, threads=threads)
        iterations, dual, primal, gap, solved = np.moveaxis(measures, -1, 0)
        x, y, z, slack_a, slack_c = parts
        ends = iterations.astype(int), dual, primal, gap, solved > 0
        return QuadraticSolution(x, y, z, slack_a, slack_c, *ends)

    def _array(self, name: str, given: Any, shape: tuple[int, ...], infinite: bool = False) -> np.ndarray:
        """The argument as floats (..., *shape)."""
        if given is None:
            raise ShapeError(f"{name} is missing, expected {shape}")
        array = floats(name, given, finite=not infinite)
        if array.shape[array.ndim - len(shape) :] != shape or array.ndim < len(shape):
            raise wrong_shape(name, array.shape, f"(..., {', '.join(map(str, shape))})")
        if infinite and np.isnan(array).any():
            raise ConfigurationError(f"{name} has nan, expected numbers or infinity")
        return array

    @staticmethod
    def _scale(H: np.ndarray, g: np.ndarray, rows: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The size of the curvature that matters (...)."""
        scale = np.diagonal(H, axis1=-2, axis2=-1).max(axis=-1)
        for matrix, weight in rows:
            # weights of rows that are scaled to largest entries of 1
            size = np.abs(matrix).max(axis=-1, initial=0) ** 2
            soft = np.isfinite(weight) & (weight > 0) & (size > 0)
            curvature = np.where(soft, np.where(soft, weight, 1) * size, np.inf)
            least = curvature.min(axis=-1, initial=np.inf)
            scale = np.maximum(scale, np.where(np.isfinite(least), least, 0))
        steep = np.abs(g).max(axis=-1)
        return np.where(scale > 0, scale, np.where(steep > 0, steep, 1.0))
