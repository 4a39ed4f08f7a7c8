"""Quadratic programs: exact minima by enumeration, slack, redundant rows, bad scales; never NaN."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from random_programs import INFINITE, many_programs, random_programs

from liebody.base.errors import ConfigurationError, GraphError, ShapeError
from liebody.compiler import Kernel, Minimizer, Otherwise, trace
from liebody.control import QuadraticProgram


def exact(H, g, A, b, C, u):
    """The minimum of a strictly convex program with C x <= u, by trying all sets of active rows."""
    n, m = len(g), len(b)
    best = None
    for size in range(min(len(C), n - m) + 1):
        for active in map(list, combinations(range(len(C)), size)):
            rows = np.concatenate([A, C[active]])
            K = np.block([[H, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
            if abs(np.linalg.det(K)) < 1e-9:
                continue
            x, multipliers = np.split(np.linalg.solve(K, np.concatenate([-g, b, u[active]])), [n])
            if (C @ x <= u + 1e-9).all() and (multipliers[m:] >= -1e-9).all():
                cost = x @ H @ x / 2 + g @ x
                best = (cost, x) if best is None or cost < best[0] else best
    return best[1]


@pytest.fixture(scope="module")
def small():
    return QuadraticProgram(4, 1, 6)


def test_the_minimum_is_the_exact_one_of_all_active_sets(small):
    H, g, A, b, C, u = random_programs(np.random.default_rng(0), 40, 4, 1, 6)
    solution = small(H, g, A, b, C, u=u)
    assert solution.solved.all()
    for k in range(40):
        np.testing.assert_allclose(solution.x[k], exact(H[k], g[k], A[k], b[k], C[k], u[k]), atol=2e-7)
    assert solution.iterations.max() < 20
    assert (np.abs(solution.slack_c) < 1e-8).all() and (np.abs(solution.slack_a) < 1e-7).all()


def test_lanes_single_calls_and_numpy_agree(small):
    """One algorithm in C, over one lane and over many, and in NumPy: iteration by iteration."""
    H, g, A, b, C, u = random_programs(np.random.default_rng(1), 21, 4, 1, 6)
    many = small(H, g, A, b, C, u=u)
    for k in range(21):
        one = small(H[k], g[k], A[k], b[k], C[k], u=u[k])
        scale = QuadraticProgram._scale(H[k], g[k], [])
        w = np.full(1, INFINITE), np.full(6, INFINITE)
        data = (H[k], g[k], A[k], b[k], w[0], C[k], np.full(6, -INFINITE), u[k], w[1], scale[None])
        reference = small.minimizer.minimum(data)
        assert one.iterations == many.iterations[k] == reference.measures[0]
        for x, y, z in zip(one[:5], many[:5], reference[:5], strict=True):
            np.testing.assert_allclose(x, y[k], atol=1e-6 * max(1, np.abs(x).max()))
            np.testing.assert_allclose(x, z, atol=1e-6 * max(1, np.abs(x).max()))
        np.testing.assert_allclose(one.x, reference.x, atol=1e-9)


def test_a_program_with_a_rational_solution():
    """min x^2 + y^2 + z^2 with x + 2 y + 3 z = 6 and z <= 1/2: x = 9/10, y = 9/5, z = 1/2."""
    solve = QuadraticProgram(3, 1, 1)
    s = solve(2 * np.eye(3), np.zeros(3), [[1, 2, 3]], [6], [[0, 0, 1]], u=[0.5])
    x, y, z = (Fraction(9, 10), Fraction(9, 5), Fraction(1, 2))
    assert x + 2 * y + 3 * z == 6
    np.testing.assert_allclose(s.x, [float(x), float(y), float(z)], atol=1e-8)
    # 2 x = y_1 and 2 z = 3 y_1 + z_1: multipliers 9/5 and 1 - 27/5
    np.testing.assert_allclose([*s.y, *s.z], [9 / 5, 1 - 27 / 5], atol=1e-7)


@pytest.mark.parametrize("feasible", [True, False])
def test_with_finite_weights_rows_that_contradict_each_other_are_missed_by_weighted_least_squares(feasible):
    """The conditions of a minimum, with slack: w s = multiplier."""
    n, m, k, count = 7, 3, 9, 32
    rng = np.random.default_rng(2)
    H, g, A, b, C, u = random_programs(rng, count, n, m, k, feasible)
    weight_a = 10.0 ** rng.uniform(0, 4, (count, m))
    weight_c = 10.0 ** rng.uniform(0, 4, (count, k))
    s = QuadraticProgram(n, m, k)(H, g, A, b, C, u - 1.0, u, weight_a=weight_a, weight_c=weight_c)
    assert s.solved.all()
    Hx = np.einsum("...ij,...j->...i", H, s.x)
    pull = np.einsum("...ji,...j->...i", A, s.y) + np.einsum("...ji,...j->...i", C, s.z)
    size = np.abs(Hx).max(axis=1, keepdims=True) + np.abs(g).max(axis=1, keepdims=True)
    assert (np.abs(Hx + g - pull) < 1e-6 * size).all()
    largest = np.maximum(1, np.abs(s.x).max(axis=1, keepdims=True))
    np.testing.assert_allclose(s.y, weight_a * s.slack_a, atol=1e-4 * np.abs(s.y).max())
    # with s = z/w rows are within their bounds, and multipliers are zero away from them
    slack = s.z / weight_c
    row = np.einsum("...ij,...j->...i", C, s.x) + slack
    size = np.abs(C).max(axis=2) * largest
    assert (row > u - 1 - 1e-7 * size).all() and (row < u + 1e-7 * size).all()
    cost = np.abs(np.einsum("...i,...i->...", Hx, s.x)) + np.abs(np.einsum("...i,...i->...", g, s.x))
    cost += np.abs(b * s.y).sum(axis=1) + np.abs(u * s.z).sum(axis=1)
    distance = np.where(s.z > 0, row - (u - 1), u - row)
    # distances are known to 1e-9 of x, so products are known to that times the multipliers
    allowed = 1e-7 * cost + 1e-8 * (np.abs(s.z) * size).sum(axis=1)
    assert (np.abs((np.abs(s.z) * distance).sum(axis=1)) < allowed).all()
    assert (np.abs(slack) > 1e-3 * size).any() and (np.abs(s.slack_c) > 1e-3 * size).any()


def test_redundant_and_switched_off_rows_change_nothing():
    """Equal rows, multiples of rows, rows of zeros; rows of weight 0 with absurd numbers."""
    rng = np.random.default_rng(3)
    (H,), (g,), (A,), (b,), (C,), (u,) = random_programs(rng, 1, 5, 2, 4)
    plain = QuadraticProgram(5, 2, 4)(H, g, A, b, C, u=u)
    A_more = np.concatenate([A, 3 * A, A[:1] - A[1:], np.zeros((1, 5)), rng.normal(size=(1, 5))])
    b_more = np.concatenate([b, 3 * b, b[:1] - b[1:], [0.0], [1e6]])
    C_more = np.concatenate([C, C, np.zeros((1, 5)), rng.normal(size=(1, 5))])
    u_more = np.concatenate([u, u, [0.0], [-1e6]])
    weight_a = np.array([INFINITE] * 6 + [0.0])
    weight_c = np.array([INFINITE] * 9 + [0.0])
    more = QuadraticProgram(5, 7, 10)(
        H, g, A_more, b_more, C_more, u=u_more, weight_a=weight_a, weight_c=weight_c
    )
    assert plain.solved and more.solved
    np.testing.assert_allclose(more.x, plain.x, atol=1e-7)


def test_badly_scaled_rows_and_costs_leave_the_solution():
    rng = np.random.default_rng(4)
    H, g, A, b, C, u = random_programs(rng, 16, 6, 2, 8)
    solve = QuadraticProgram(6, 2, 8)
    plain = solve(H, g, A, b, C, u=u)
    a = 10.0 ** rng.uniform(-6, 6, (16, 2))
    c = 10.0 ** rng.uniform(-6, 6, (16, 8))
    f = 10.0 ** rng.uniform(-6, 6, (16, 1))
    scaled = solve(H * f[..., None], g * f, A * a[..., None], a * b, C * c[..., None], u=c * u)
    assert plain.solved.all() and scaled.solved.all()
    np.testing.assert_allclose(scaled.x, plain.x, atol=1e-6)


def test_a_linear_program_and_one_without_any_cost_are_solved():
    """min x + y in a triangle: the corner; and any point that obeys the rows."""
    solve = QuadraticProgram(2, 0, 3)
    C = np.array([[1.0, 0], [0, 1], [1, 1]])
    low = np.array([0.25, 0.5, -INFINITE])
    s = solve(np.zeros((2, 2)), [1.0, 1.0], C=C, l=low, u=[INFINITE, INFINITE, 2.0])
    assert s.solved
    np.testing.assert_allclose(s.x, [0.25, 0.5], atol=1e-7)
    s = solve(np.zeros((2, 2)), [0.0, 0.0], C=C, l=low, u=[INFINITE, INFINITE, 2.0])
    assert s.solved and (C @ s.x >= low - 1e-7).all() and s.x.sum() <= 2 + 1e-7


def test_bounds_that_meet_are_equalities():
    s = QuadraticProgram(2, 0, 1)(np.eye(2), np.zeros(2), C=[[1.0, 1.0]], l=[2.0], u=[2.0])
    assert s.solved
    np.testing.assert_allclose(s.x, [1, 1], atol=1e-7)


def test_contradictions_without_slack_end_finite_and_say_so():
    """x = 0 and x = 1 at once; x >= 1 and x <= -1: the middle, and unsolved."""
    s = QuadraticProgram(1, 2, 0)(np.eye(1), [0.0], [[1.0], [1.0]], [0.0, 1.0])
    assert not s.solved and abs(s.x[0] - 0.5) < 1e-3
    s = QuadraticProgram(1, 0, 2)(np.eye(1), [0.3], C=[[1.0], [1.0]], l=[1.0, -INFINITE], u=[INFINITE, -1.0])
    assert not s.solved and np.isfinite(s.x).all() and abs(s.x[0]) <= 1.1


def hostile_programs(rng, count, n, m, k):
    """Random programs of any rank, with contradictions, zeros and sizes over 12 decades.

    returns  H, g, A, b, C, l, u and weights of C; every other program has no slack
    """
    rank = rng.integers(0, n + 1, count)
    J = rng.normal(size=(count, n, n)) * (np.arange(n) < rank[:, None])[:, :, None]
    sizes = 10.0 ** rng.uniform(-6, 6, (5, count, 1, 1))
    H = J.swapaxes(-1, -2) @ J * sizes[0]
    g = rng.normal(size=(count, n)) * sizes[1, :, 0]
    A = rng.normal(size=(count, m, n)) * sizes[2] * (rng.uniform(size=(count, m, n)) < 0.5)
    C = rng.normal(size=(count, k, n)) * sizes[3] * (rng.uniform(size=(count, k, n)) < 0.5)
    b = rng.normal(size=(count, m)) * sizes[4, :, 0]
    low = rng.normal(size=(count, k))
    high = low + rng.uniform(-0.2, 1, (count, k))  # some above the others: contradictions
    weight = 10.0 ** rng.uniform(-3, 9, (count, k))
    weight[::2] = INFINITE
    return (H + H.swapaxes(-1, -2)) / 2, g, A, b, C, low, high, weight


def test_nothing_is_ever_nan():
    n, m, k = 6, 4, 10
    H, g, A, b, C, low, high, weight = hostile_programs(np.random.default_rng(5), 512, n, m, k)
    s = QuadraticProgram(n, m, k)(H, g, A, b, C, low, high, weight_c=weight)
    for x in s:
        assert np.isfinite(x).all()
    assert s.iterations.max() <= 40 and s.solved.any() and not s.solved.all()


@pytest.mark.parametrize("peer", ["quadprog", "daqp", "proxsuite"])
def test_other_solvers_find_the_same(peer):
    solver = pytest.importorskip(peer)
    n, m, k = 12, 4, 20
    H, g, A, b, C, u = random_programs(np.random.default_rng(6), 20, n, m, k)
    ours = QuadraticProgram(n, m, k)(H, g, A, b, C, u=u)
    for i in range(20):
        if peer == "quadprog":
            rows = np.concatenate([A[i], -C[i]])
            x = solver.solve_qp(H[i], -g[i], rows.T.copy(), np.concatenate([b[i], -u[i]]), m)[0]
        elif peer == "daqp":
            rows, low = np.concatenate([A[i], C[i]]), np.concatenate([b[i], np.full(k, -1e30)])
            sense = np.array([5] * m + [0] * k, dtype=np.int32)
            x = solver.solve(H[i], g[i], rows, np.concatenate([b[i], u[i]]), low, sense)[0]
        else:
            low = np.full(k, -1e20)
            x = solver.proxqp.dense.solve(H[i], g[i], A[i], b[i], C[i], low, u[i], eps_abs=1e-10).x
        np.testing.assert_allclose(ours.x[i], x, atol=1e-6)


def test_without_a_compiler_numpy_solves_the_same(small, monkeypatch):
    H, g, A, b, C, u = random_programs(np.random.default_rng(7), 3, 4, 1, 6)
    compiled = small(H, g, A, b, C, u=u)
    monkeypatch.setattr("liebody.compiler.native.libraries.find_compiler_or_warn", lambda: None)
    plain = QuadraticProgram(4, 1, 6)(H, g, A, b, C, u=u)
    np.testing.assert_allclose(plain.x, compiled.x, atol=1e-8)
    assert plain.x.shape == (3, 4) and plain.solved.all()


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"H": [[1.0, 2.0], [0.0, 1.0]]}, ConfigurationError, r"H is not symmetric; give \(H \+ H.T\) / 2"),
        ({"H": np.eye(3)}, ShapeError, r"H has shape \(3, 3\), expected \(..., 2, 2\)"),
        ({"g": [0.0, np.nan]}, ConfigurationError, r"g\[1\] is nan"),
        ({"C": None}, ShapeError, r"C is missing, expected \(1, 2\)"),
        ({"u": [np.nan]}, ConfigurationError, "u has nan"),
        ({"weight_c": -1.0}, ConfigurationError, "weight_c is -1, expected zero or more"),
    ],
)
def test_wrong_arrays_are_refused(changes, kind, message):
    given = {"H": np.eye(2), "g": np.zeros(2), "C": [[1.0, 1.0]], "u": [1.0], **changes}
    with pytest.raises(kind, match=message):
        QuadraticProgram(2, 0, 1)(**given)


@pytest.mark.parametrize("compiled", [True, False])
def test_where_a_program_is_not_solved_another_one_takes_over(monkeypatch, compiled):
    """The first one has two iterations, and without its bound none is needed: lanes differ."""
    if not compiled:
        monkeypatch.setattr("liebody.compiler.native.libraries.find_compiler_or_warn", lambda: None)
    given = QuadraticProgram(2, 0, 1).minimizer
    shapes = {key: x.shape for key, x in given.after.inputs.items()}

    def behind(*arrays):
        return {"x": arrays[-6], "iterations": arrays[-1][0], "failed": 1 - arrays[-1][4]}

    after = trace(behind, shapes, "behind")
    careful = Minimizer("careful", given.before, after)
    quick = Minimizer("quick", given.before, after, 2, otherwise=Otherwise(careful, "failed"))
    H, g, C = np.eye(2), -np.ones(2), np.ones((1, 2))
    u = np.where(np.arange(11) % 3 == 0, INFINITE, 1.0)[:, None]
    data = (H, g, np.zeros((0, 2)), np.zeros(0), np.zeros(0), C, np.full(1, -INFINITE), u, [INFINITE], [1.0])
    x, iterations, failed = Kernel(quick)(*data)
    bounded = np.isfinite(u[:, 0])
    assert not failed.any() and (iterations[bounded] > 2).all() and (iterations[~bounded] <= 2).all()
    np.testing.assert_allclose(x, np.where(bounded[:, None], 0.5, 1.0) * np.ones((11, 2)), atol=1e-7)
    for k in (0, 1):
        one = Kernel(quick)(*data[:7], u[k], *data[8:])
        np.testing.assert_allclose(one[0], x[k], atol=1e-9)
        assert one[1] == iterations[k]
    other = Minimizer("other", given.before, given.after)
    with pytest.raises(ShapeError, match="expected the same inputs and outputs"):
        Minimizer("quick", given.before, after, otherwise=Otherwise(other, "failed"))
    assert quick.most_iterations == 42 and quick.length > careful.length


def test_a_program_has_neither_symbols_nor_single_precision(small):
    with pytest.raises(GraphError, match="has no graph of symbols"):
        small.minimizer.unroll()
    with pytest.raises(GraphError, match="needs the digits of float64"):
        Kernel(small.minimizer, dtype=np.float32)


@pytest.mark.wide
def test_ten_thousand_programs_have_the_right_status_and_the_least_slack():
    """Multipliers prove a solution: primal and dual cost bound the least cost from both sides."""
    optimize = pytest.importorskip("scipy.optimize")
    n, m, k, count = 6, 4, 10, 10_000
    kind, (H, g, A, b, C, u, weight) = many_programs(np.random.default_rng(8), count, n, m, k)
    s = QuadraticProgram(n, m, k)(H, g, A, b, C, u=u, weight_c=weight)
    for x in s:
        assert np.isfinite(x).all()
    hopeless = kind == 4
    assert not s.solved[hopeless].any()
    # of the others, one in two thousand at most is not solved within 40 iterations, and says so
    assert s.solved[~hopeless].mean() > 1 - 1 / 2000
    # stationarity
    Hx = np.einsum("...ij,...j->...i", H, s.x)
    pull = np.einsum("...ji,...j->...i", A, s.y) + np.einsum("...ji,...j->...i", C, s.z)
    terms = np.abs(Hx) + np.abs(g) + np.einsum("...ji,...j->...i", np.abs(A), np.abs(s.y))
    terms += np.einsum("...ji,...j->...i", np.abs(C), np.abs(s.z))
    stationary = (np.abs(Hx + g - pull) / terms.max(axis=1, keepdims=True)).max(axis=1)
    # rows, with the slack z/w of those with weights
    soft = np.isfinite(weight)
    slack = np.where(soft, s.z / np.where(soft, weight, 1.0), 0.0)
    size = np.maximum(1, np.abs(s.x).max(axis=1, keepdims=True))
    row_a, row_c = (np.abs(x).max(axis=2) + 1e-300 for x in (A, C))
    missed_a = (np.abs(np.einsum("...ij,...j->...i", A, s.x) - b) / row_a / size).max(axis=1)
    beyond = np.einsum("...ij,...j->...i", C, s.x) + slack - u
    missed_c = (beyond / row_c / size).max(axis=1)
    # primal less dual cost
    primal = (s.x * (Hx / 2 + g)).sum(axis=1) + (np.where(soft, weight, 0.0) * slack**2).sum(axis=1) / 2
    dual = -(s.x * Hx).sum(axis=1) / 2 + (b * s.y).sum(axis=1) + (u * s.z).sum(axis=1)
    dual -= np.where(soft, s.z * slack, 0.0).sum(axis=1) / 2
    cost = np.abs(s.x * Hx).sum(axis=1) + np.abs(s.x * g).sum(axis=1)
    cost += np.abs(b * s.y).sum(axis=1) + np.abs(u * s.z).sum(axis=1)
    gap = np.abs(primal - dual) / cost
    # the tolerance is 1e-9, of terms that the solver sums up by other ways
    for error in (stationary, missed_a, missed_c, gap):
        assert error[s.solved].max() < 5e-9
    assert (s.z <= 0).all()  # upper bounds alone
    # Rows without slack that contradict each other end near the least squares of violations, in units of the
    # rows' largest entries: half of them at it, the worst one at 1.79 times.
    ratios = []
    for j in np.flatnonzero(hopeless)[:200]:
        rows_a, rows_c = A[j] / row_a[j][:, None], C[j] / row_c[j][:, None]
        M = np.block([[rows_a, np.zeros((m, k))], [rows_c, np.eye(k)]])
        low = np.r_[np.full(n, -INFINITE), np.zeros(k)]
        best = optimize.lsq_linear(M, np.r_[b[j] / row_a[j], u[j] / row_c[j]], (low, INFINITE), tol=1e-12)
        ours = np.linalg.norm(np.r_[s.slack_a[j] / row_a[j], s.slack_c[j] / row_c[j]])
        ratios.append(ours / np.sqrt(2 * best.cost))
    ratios = np.array(ratios)
    assert ratios.min() > 1 - 1e-6 and np.median(ratios) < 1.001 and ratios.max() < 1.9
