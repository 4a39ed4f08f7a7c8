"""Least squares over bodies that exist: a small convex problem, by Newton's method with the log-det barrier.

A body with parameters x can exist if its pseudo-inertia P(x) = [Sigma h; h^T m], which is linear in x, is
positive definite (Traversaro et al. 2016; Wensing, Kim and Slotine 2018). So

    minimise  |A x - b|^2 / 2   subject to  P_k(x) > 0 of all bodies k,  x_i > 0 of losses i

is convex. The path of minima of

    |A x - b|^2 / 2 + mu sum_k (tr(P0_k^-1 P_k(x)) - log det P_k(x)) + mu sum_i (x_i / x0_i - log x_i)

leads there as mu falls. Up to constants the barrier is the divergence of Lee, Wensing and Park (2019) from
reference bodies P0: it is zero at P0 alone, and does not depend on frames and units. So combinations of x
that A does not see go to the bodies nearest to the references.
"""

from __future__ import annotations

import numpy as np

from ..bodies import Moments
from ..scalars import Array

UNITS = np.array([Moments.of_parameters(e).pseudo_inertia() for e in np.eye(10)])
"""Pseudo-inertias (10, 4, 4) of bodies with one parameter equal to one, and no other."""

GAP = 1e-6  # of the cost from its minimum, in units of the noise: 0.1 % of a standard deviation
REDUCTION = 10.0  # of mu from one point of the path to the next
CLOSE = 1e-2  # Newton decrement at which the path goes on
EXACT = 1e-10  # Newton decrement at the end
ROUNDING = 1e-14  # of a Hessian with ones on its diagonal
SHORTEST = 1e-9  # step inside, as a part of Newton's; only round-off makes shorter ones
MOST = 200  # Newton steps for one mu


class Barrier:
    """The divergence of bodies and losses from references, as a function of x (n,).

    references  P0 (bodies, 4, 4) of the first ten, the next ten, ... entries of x
    positive    which entries of x are positive, (m,)
    levels      references of these, (m,)
    """

    def __init__(self, references: Array, positive: Array, levels: Array) -> None:
        self.references = references
        self.positive = positive
        self.levels = levels
        # tr(P0^-1 P) is linear in x: its slopes (10,) for each body
        self._slopes = np.einsum("kij,bji->bk", UNITS, np.linalg.inv(references))

    @property
    def degree(self) -> int:
        """The parameter of the barrier: mu degree bounds the distance from the least cost."""
        return 4 * len(self.references) + len(self.positive)

    def start(self, n: int) -> Array:
        """x (n,) of the references."""
        x = np.zeros(n)
        for k, P in enumerate(self.references):
            x[10 * k : 10 * k + 10] = Moments.of_pseudo_inertia(P).parameters()
        x[self.positive] = self.levels
        return x

    def pseudo_inertias(self, x: Array) -> Array:
        """P (bodies, 4, 4)."""
        count = len(self.references)
        return np.einsum("bk,kij->bij", x[: 10 * count].reshape(count, 10), UNITS)

    def value(self, x: Array) -> float:
        """Infinite for what cannot be."""
        P, positive = self.pseudo_inertias(x), x[self.positive]
        if (positive <= 0).any():
            return np.inf
        try:
            diagonals = np.diagonal(np.linalg.cholesky(P), axis1=1, axis2=2)
        except np.linalg.LinAlgError:
            return np.inf
        traces = float(self._slopes.ravel() @ x[: self._slopes.size])
        ratios = positive / self.levels
        return float(traces - 2 * np.log(diagonals).sum() + (ratios - np.log(ratios)).sum())

    def derivatives(self, x: Array) -> tuple[Array, Array]:
        """Gradient (n,), and a factor G (rows, n) of the Hessian G^T G.

        With P = L L^T and E' = L^-1 E L^-T the second derivative of -log det P along E, F is <E', F'>.
        """
        count = len(self.references)
        gradient = np.zeros(len(x))
        factor = np.zeros((16 * count + len(self.positive), len(x)))
        roots = np.linalg.inv(np.linalg.cholesky(self.pseudo_inertias(x)))
        for k, root in enumerate(roots):
            at = slice(10 * k, 10 * k + 10)
            turned = root @ UNITS @ root.T
            gradient[at] = self._slopes[k] - np.einsum("kii->k", turned)
            factor[16 * k : 16 * k + 16, at] = turned.reshape(10, 16).T
        positive = x[self.positive]
        gradient[self.positive] = 1 / self.levels - 1 / positive
        factor[16 * count + np.arange(len(positive)), self.positive] = 1 / positive
        return gradient, factor


class Decomposition:
    """The singular value decomposition of A (m, n) in units of the sizes of x: A x = Q S V^T (x / scales).

    scales    sizes of x (n,)
    singular  S (n,), zero for what A does not see
    """

    def __init__(self, A: Array, scales: Array) -> None:
        n = A.shape[1]
        self.scales = scales
        self._rows = len(A)
        padding = np.zeros((max(n - len(A), 0), n))
        Q, R = np.linalg.qr(np.concatenate([A * scales, padding]))
        U, singular, Vt = np.linalg.svd(R)
        least = np.sqrt(n * np.finfo(float).eps) * singular.max(initial=0.0)
        self.singular = np.where(singular > least, singular, 0.0)
        self.V = Vt.T
        self._Q = Q[: len(A)] @ U

    @property
    def is_seen(self) -> Array:
        """Which directions of V are seen, (n,)."""
        return self.singular > 0

    @property
    def rank(self) -> int:
        """How many directions are seen."""
        return int(np.count_nonzero(self.singular))

    def components(self, b: Array) -> Array:
        """Q^T b (n,)."""
        c: Array = self._Q.T @ b
        return c

    def nearest(self, b: Array) -> Array:
        """The shortest x, in units of the scales, of least |A x - b|."""
        seen = self.is_seen
        return self.scales * (self.V[:, seen] @ (self.components(b)[seen] / self.singular[seen]))


def least_squares(A: Decomposition, b: Array, barrier: Barrier) -> tuple[Array, bool]:
    """x (n,) of least |A x - b|^2 among bodies that exist, and whether they are at the boundary of these."""
    # In coordinates x = x0 + V y of the right singular vectors the sum of squares is diagonal, so that large
    # numbers of combinations that are seen do not swamp those of combinations that are not seen.
    singular, is_seen = A.singular, A.is_seen
    x0 = barrier.start(len(A.scales))
    V = A.scales[:, None] * A.V
    c = A.components(b) - singular * (A.V.T @ (x0 / A.scales))
    c = np.where(is_seen, c, 0.0)
    best = np.where(is_seen, c / np.where(is_seen, singular, 1), 0.0)

    def newton(y: Array, mu: float, moving: Array, close: float) -> Array:
        """Minimise |S y - c|^2 / (2 mu) + barrier over the entries `moving` of y."""
        for _ in range(MOST):
            x = x0 + V @ y
            gradient, factor = barrier.derivatives(x)
            turned = factor @ V[:, moving]
            misfit = singular * (singular * y - c) / mu
            g = (misfit + V.T @ gradient)[moving]
            H = np.diag(singular[moving] ** 2 / mu) + turned.T @ turned
            weights = 1 / np.sqrt(np.diag(H))
            step = np.zeros(len(y))
            # At the boundary the Hessian of the barrier is singular to round-off.
            scaled = H * np.outer(weights, weights) + ROUNDING * np.eye(len(g))
            step[moving] = -weights * np.linalg.solve(scaled, weights * g)
            decrement = float(np.sqrt(max(-(step[moving] @ g), 0.0)))
            if decrement <= close:
                return y
            # The function is self-concordant: a step of 1 / (1 + decrement) stays inside and decreases it, if
            # not for round-off. Longer ones are tried first.
            length, least = 1.0, 1 / (1 + decrement)
            cost = 0.5 * float(np.sum((singular * y - c) ** 2)) / mu + barrier.value(x)
            while True:
                trial = y + length * step
                value = barrier.value(x0 + V @ trial)
                misfits = 0.5 * float(np.sum((singular * trial - c) ** 2)) / mu
                if misfits + value < cost or (length <= least and np.isfinite(value)):
                    break
                if length < SHORTEST:
                    return y
                length = max(0.5 * length, least) if length > least else 0.5 * length
            y = trial
        return y

    y = np.zeros(len(best))
    everything = np.ones(len(best), bool)
    mu = max(0.5 * float(c @ c), GAP) / barrier.degree
    while True:
        # The least squares are a solution if bodies exist that have them.
        free = np.where(is_seen, best, y)
        if np.isfinite(barrier.value(x0 + V @ free)):
            return x0 + V @ (newton(free, 1.0, ~is_seen, EXACT) if (~is_seen).any() else free), False
        if mu * barrier.degree < GAP:
            return x0 + V @ newton(y, mu, everything, EXACT), True
        y = newton(y, mu, everything, CLOSE)
        mu /= REDUCTION
