"""Quadratic programs of all kinds, by a generator of random numbers; benchmarks have the same ones."""

import numpy as np

INFINITE = np.inf
KINDS = ("plain", "degenerate", "redundant", "badly scaled", "infeasible", "infeasible with weights")


def random_programs(rng, count, n, m, k, feasible=True):
    J = rng.normal(size=(count, n, n))
    H = J.swapaxes(-1, -2) @ J + 0.1 * np.eye(n)
    g = 3 * rng.normal(size=(count, n))
    A = rng.normal(size=(count, m, n))
    C = rng.normal(size=(count, k, n))
    x = rng.normal(size=(count, n, 1))
    b = (A @ x)[..., 0] if feasible else 10 * rng.normal(size=(count, m))
    u = (C @ x)[..., 0] + rng.uniform(0, 1, (count, k)) if feasible else 10 * rng.normal(size=(count, k))
    return H, g, A, b, C, u


def many_programs(rng, count, n, m, k):
    """Programs of all KINDS in turn: kind, and (H, g, A, b, C, u, weights of C).

    The first four kinds have a feasible point by construction. The others have rows c x <= u and
    -c x <= -u - d with d > 0, which no point obeys.
    """
    H, g, A, b, C, u = random_programs(rng, count, n, m, k)
    kind = np.arange(count) % len(KINDS)
    # as many rows active at the feasible point as there are, and a cost of rank 1
    point = rng.normal(size=(count, n, 1))
    degenerate = kind == 1
    b[degenerate] = (A @ point)[degenerate, :, 0]
    u[degenerate] = (C @ point)[degenerate, :, 0]
    one = rng.normal(size=(count, n, 1))
    H[degenerate] = (one * one.swapaxes(-1, -2))[degenerate]
    # g as a sum of rows, so that the cost is bounded
    z = rng.uniform(size=(count, k, 1)) * (rng.uniform(size=(count, k, 1)) < 0.5)
    g[degenerate] = -(C.swapaxes(-1, -2) @ z)[degenerate, :, 0]
    # multiples, sums, rows of zeros
    redundant = kind == 2
    A[redundant, 2] = 3 * A[redundant, 0]
    A[redundant, 3] = A[redundant, 0] - A[redundant, 1]
    b[redundant, 2] = 3 * b[redundant, 0]
    b[redundant, 3] = b[redundant, 0] - b[redundant, 1]
    C[redundant, 5:9] = C[redundant, :4]
    u[redundant, 5:9] = u[redundant, :4]
    C[redundant, 9] = 0.0
    u[redundant, 9] = 0.0
    # contradictions
    apart = 10.0 ** rng.uniform(-2, 1, count)
    contradicting = kind >= 4
    C[contradicting, 1] = -C[contradicting, 0]
    u[contradicting, 1] = (-u[:, 0] - apart)[contradicting]
    weight = np.full((count, k), INFINITE)
    weight[kind == 5] = 10.0 ** rng.uniform(-2, 6, (np.sum(kind == 5), k))
    # sizes over twelve decades
    scaled = kind == 3
    a, c, f = (np.where(scaled[:, None], 10.0 ** rng.uniform(-6, 6, (count, x)), 1.0) for x in (m, k, 1))
    return kind, (H * f[..., None], g * f, A * a[..., None], a * b, C * c[..., None], c * u, weight)
