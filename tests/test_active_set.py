"""Active sets: conditions of a minimum in exact arithmetic, warm starts, commands, exported C."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from controllers_in_c import ControllerInC
from legged import legged
from random_programs import KINDS, many_programs, random_programs
from test_quadratic_program import hostile_programs

import liebody as lb
from liebody.base.errors import ConfigurationError, GraphError, ShapeError
from liebody.compiler import Minimizer, trace
from liebody.control import ActiveSetCommand, MotionTask, QuadraticProgram, Support, WholeBody

N, M, K = 6, 4, 10
INFINITE = np.inf
POSE = np.array([0.1, 0.4, -0.8, -0.1, 0.4, -0.8])


@pytest.fixture(scope="module")
def solve():
    return QuadraticProgram(N, M, K, solver="active-set")


@pytest.fixture(scope="module")
def biped():
    return lb.Robot(legged("biped"))


def controller(biped, **options):
    """A sole of four coplanar points and a point; or with `legs` two points, whose legs are eliminated."""
    tasks = [
        MotionTask.pose(biped, "pelvis", kp=100.0, weight=10.0),
        MotionTask.posture(biped, kp=50.0, weight=0.5),
    ]
    left = Support("left_foot") if options.pop("legs", False) else Support.sole("left_foot", 0.2, 0.1)
    supports = [left, Support("right_foot", facets=8)]
    return WholeBody(biped, tasks, supports, **{"solver": "active-set", **options})


@pytest.fixture(scope="module")
def walking(biped):
    return controller(biped)


def states(robot, rng, count, size=0.2):
    q = robot.neutral()
    q[7:] = POSE
    moved = robot.integrate(np.tile(q, (count, 1)), size * rng.normal(size=(count, robot.nv)))
    return moved, size * rng.normal(size=(count, robot.nv))


def exactly(x):
    return [Fraction(float(y)) for y in x]


def product(rows, x):
    return [sum((a * b for a, b in zip(exactly(row), x, strict=True)), Fraction(0)) for row in rows]


def conditions(H, g, A, b, C, u, weight, s, j):
    """The largest errors in exact arithmetic, in units of their terms: stationarity, rows, products z t.

    A x = b exactly, and C x + z/w <= u.
    """
    x, y, z = (exactly(part[j]) for part in (s.x, s.y, s.z))
    gradient = [a + b for a, b in zip(product(H[j], x), exactly(g[j]), strict=True)]
    pull = [a + b for a, b in zip(product(A[j].T, y), product(C[j].T, z), strict=True)]
    terms = np.abs(H[j]) @ np.abs(s.x[j]) + np.abs(g[j]) + np.abs(A[j].T) @ np.abs(s.y[j])
    terms += np.abs(C[j].T) @ np.abs(s.z[j])
    stationary = max(abs(float(a - b)) for a, b in zip(gradient, pull, strict=True)) / terms.max()
    size = max(1.0, np.abs(s.x[j]).max())
    missed = [float(c - a) for c, a in zip(exactly(b[j]), product(A[j], x), strict=True)]
    rows = np.abs(missed) / np.abs(A[j]).max(axis=1) / size
    slack = [z_i / Fraction(w) if np.isfinite(w) else 0 for z_i, w in zip(z, weight[j], strict=True)]
    above = np.array(
        [float(c + s - t) for c, s, t in zip(product(C[j], x), slack, exactly(u[j]), strict=True)]
    )
    largest = np.abs(C[j]).max(axis=1)
    scaled = above / np.where(largest > 0, largest, 1.0) / size
    apart = np.abs(s.z[j]) @ np.maximum(-above, 0)
    cost = abs(s.x[j] @ H[j] @ s.x[j]) + abs(g[j] @ s.x[j]) + np.abs(b[j] * s.y[j]).sum()
    cost += np.abs(u[j] * s.z[j]).sum()
    return stationary, max(rows.max(), scaled.max()), apart / max(cost, 1e-300)


@pytest.mark.wide
def test_conditions_of_a_minimum_hold_in_exact_arithmetic_for_programs_of_all_kinds(solve):
    """2400 programs: all that have a solution are solved, to 1e-11 in the median and to the tolerance."""
    count = 2400
    kind, (H, g, A, b, C, u, weight) = many_programs(np.random.default_rng(11), count, N, M, K)
    s = solve(H, g, A, b, C, u=u, weight_c=weight)
    for x in s:
        assert np.isfinite(x).all()
    hopeless = kind == KINDS.index("infeasible")
    np.testing.assert_array_equal(s.solved, ~hopeless)
    assert (s.z <= 0).all()  # upper bounds alone
    errors = np.array([conditions(H, g, A, b, C, u, weight, s, j) for j in np.flatnonzero(~hopeless)])
    assert (np.median(errors, axis=0) < 1e-11).all() and errors.max() < 5e-9
    # what the solver says about itself
    assert (np.abs(s.dual - 0)[~hopeless] < 1e-9).all() and (s.primal[~hopeless] < 1e-9).all()
    assert (s.gap[~hopeless] < 1e-9).all() and s.iterations.max() < 60


def test_contradicting_rows_without_slack_end_near_their_least_squares(solve):
    """In units of the rows' largest entries; scipy finds the least by another method."""
    optimize = pytest.importorskip("scipy.optimize")
    kind, (H, g, A, b, C, u, weight) = many_programs(np.random.default_rng(12), 120, N, M, K)
    s = solve(H, g, A, b, C, u=u, weight_c=weight)
    for j in np.flatnonzero(kind == KINDS.index("infeasible")):
        assert not s.solved[j]
        size_a, size_c = (np.abs(rows[j]).max(axis=1) for rows in (A, C))
        rows = np.block([[A[j] / size_a[:, None], np.zeros((M, K))], [C[j] / size_c[:, None], np.eye(K)]])
        low = np.r_[np.full(N, -INFINITE), np.zeros(K)]
        right = np.r_[b[j] / size_a, u[j] / size_c]
        least = np.sqrt(2 * optimize.lsq_linear(rows, right, (low, INFINITE), tol=1e-12).cost)
        ours = np.linalg.norm(np.r_[s.slack_a[j] / size_a, s.slack_c[j] / size_c])
        assert least * (1 - 1e-6) < ours < least * 1.001


def test_both_methods_find_the_same_minimum(solve):
    """Where the cost is strictly convex; an interior point has the square root of its gap as error."""
    H, g, A, b, C, u = random_programs(np.random.default_rng(13), 300, N, M, K)
    s = solve(H, g, A, b, C, u=u)
    t = QuadraticProgram(N, M, K, tolerance=1e-13)(H, g, A, b, C, u=u)
    size = np.abs(s.x).max(axis=1, keepdims=True)
    assert (np.abs(s.x - t.x) < 1e-6 * np.maximum(1, size)).all()
    low = u - 1.0
    low[::2, :5] = -INFINITE
    both = solve(H, g, A, b, C, low, u)
    t = QuadraticProgram(N, M, K, tolerance=1e-13)(H, g, A, b, C, low, u)
    assert both.solved.all() and (both.z > 0).any() and (both.z < 0).any()
    size = np.abs(t.x).max(axis=1, keepdims=True)
    assert (np.abs(both.x - t.x) < 1e-6 * np.maximum(1, size)).all()


def test_a_program_with_a_rational_solution():
    """min x^2 + y^2 + z^2 with x + 2 y + 3 z = 6 and z <= 1/2: x = 9/10, y = 9/5, z = 1/2."""
    solve = QuadraticProgram(3, 1, 1, solver="active-set")
    s = solve(2 * np.eye(3), np.zeros(3), [[1, 2, 3]], [6], [[0, 0, 1]], u=[0.5])
    np.testing.assert_allclose(s.x, [9 / 10, 9 / 5, 1 / 2], rtol=1e-14)
    np.testing.assert_allclose([*s.y, *s.z], [9 / 5, 1 - 27 / 5], rtol=1e-13)
    assert s.solved and s.slack_c == 0


def test_costs_without_curvature_and_bounds_that_meet_or_cross():
    solve = QuadraticProgram(2, 0, 3, solver="active-set")
    C = np.array([[1.0, 0], [0, 1], [1, 1]])
    low, high = np.array([0.25, 0.5, -INFINITE]), np.array([INFINITE, INFINITE, 2.0])
    s = solve(np.zeros((2, 2)), [1.0, 1.0], C=C, l=low, u=high)
    assert s.solved
    np.testing.assert_allclose(s.x, [0.25, 0.5], atol=1e-9)
    s = solve(np.zeros((2, 2)), [0.0, 0.0], C=C, l=low, u=high)
    assert s.solved and (C @ s.x >= low - 1e-9).all() and s.x.sum() <= 2 + 1e-9
    s = QuadraticProgram(2, 0, 1, solver="active-set")(
        np.eye(2), np.zeros(2), C=[[1.0, 1.0]], l=[2.0], u=[2.0]
    )
    assert s.solved
    np.testing.assert_allclose(s.x, [1, 1], rtol=1e-12)
    s = QuadraticProgram(1, 2, 0, solver="active-set")(np.eye(1), [0.0], [[1.0], [1.0]], [0.0, 1.0])
    assert not s.solved and abs(s.x[0] - 0.5) < 1e-6
    unbounded = QuadraticProgram(1, solver="active-set")(np.zeros((1, 1)), [1.0])
    assert not unbounded.solved and np.isfinite(unbounded.x).all()


def test_nothing_is_ever_nan_and_iterations_are_bounded():
    """Random programs of any rank, with contradictions, zeros and sizes over 12 decades."""
    rng = np.random.default_rng(14)
    H, g, A, b, C, low, high, weight = hostile_programs(rng, 1024, N, M, K)
    start = rng.normal(size=low.shape)
    most = 80
    s = QuadraticProgram(N, M, K, iterations=most, solver="active-set")(
        H, g, A, b, C, low, high, weight_c=weight, start=start
    )
    for x in s:
        assert np.isfinite(x).all()
    # a start may have all rows, which leave at once, and a partial step precedes each further one
    assert s.iterations.max() <= most + 2 * K and s.solved.any() and not s.solved.all()


def test_a_start_takes_fewer_iterations_to_the_same_solution(solve):
    rng = np.random.default_rng(15)
    H, g, A, b, C, u = random_programs(rng, 400, N, M, K)
    cold = solve(H, g, A, b, C, u=u)
    same = solve(H, g, A, b, C, u=u, start=cold)
    assert cold.iterations.mean() > 2 and not same.iterations.any()
    np.testing.assert_allclose(same.x, cold.x, atol=1e-11)
    moved = g + 0.02 * rng.normal(size=g.shape)
    again = solve(H, moved, A, b, C, u=u)
    warm = solve(H, moved, A, b, C, u=u, start=cold.z)
    assert warm.iterations.mean() < 0.6 * again.iterations.mean()
    np.testing.assert_allclose(warm.x, again.x, atol=1e-11)
    # whatever the start is; a lower bound that is none cannot be active
    wild = solve(H, g, A, b, C, u=u, start=rng.normal(size=(400, K)))
    assert wild.solved.all()
    np.testing.assert_allclose(wild.x, cold.x, atol=1e-11)


def test_numpy_takes_the_same_steps(solve, monkeypatch):
    kind, (H, g, A, b, C, u, weight) = many_programs(np.random.default_rng(16), 48, N, M, K)
    start = np.random.default_rng(17).normal(size=(48, K))
    compiled = solve(H, g, A, b, C, u=u, weight_c=weight, start=start)
    monkeypatch.setattr("liebody.compiler.native.libraries.find_compiler_or_warn", lambda: None)
    plain = QuadraticProgram(N, M, K, solver="active-set")(H, g, A, b, C, u=u, weight_c=weight, start=start)
    definite = kind != KINDS.index("infeasible")  # round-off decides when these stop
    np.testing.assert_array_equal(plain.solved, compiled.solved)
    np.testing.assert_allclose(plain.x[definite], compiled.x[definite], atol=1e-8)
    plainest = kind == KINDS.index("plain")
    np.testing.assert_array_equal(plain.iterations[plainest], compiled.iterations[plainest])


def test_threads_batches_and_single_calls_agree_and_solvers_can_be_pickled(solve):
    H, g, A, b, C, u = random_programs(np.random.default_rng(18), 64, N, M, K)
    many = solve(H, g, A, b, C, u=u)
    for other in (
        solve(H, g, A, b, C, u=u, threads=4),
        pickle.loads(pickle.dumps(solve))(H, g, A, b, C, u=u),
        copy.deepcopy(solve)(H, g, A, b, C, u=u),
    ):
        for x, y in zip(other, many, strict=True):
            np.testing.assert_array_equal(x, y)
    one = solve(H[3], g[3], A[3], b[3], C[3], u=u[3])
    for x, y in zip(one, many, strict=True):
        np.testing.assert_array_equal(x, y[3])


def test_wrong_arguments_are_refused(solve, biped, walking):
    given = np.eye(N), np.zeros(N), np.zeros((M, N)), np.zeros(M), np.zeros((K, N))
    with pytest.raises(ShapeError, match=r"start has shape \(3,\), expected \(..., 10\)"):
        solve(*given, start=np.zeros(3))
    with pytest.raises(ConfigurationError, match=r"start\[0\] is nan"):
        solve(*given, start=np.full(K, np.nan))
    with pytest.raises(ConfigurationError, match='has no start; use solver="active-set"'):
        QuadraticProgram(N, M, K)(*given, start=np.zeros(K))
    with pytest.raises(ConfigurationError, match="there is no solver 'simplex'"):
        QuadraticProgram(N, solver="simplex")
    with pytest.raises(ConfigurationError, match="there is no solver 'simplex'"):
        controller(biped, solver="simplex")
    q, v = biped.neutral(), np.zeros(biped.nv)
    with pytest.raises(ConfigurationError, match='has no start; use solver="active-set"'):
        controller(biped, solver="interior-point")(q, v, start=np.zeros(3))
    with pytest.raises(ShapeError, match=r"start has shape \(2,\)"):
        walking(q, v, start=np.zeros(2))
    found = solve.minimizer
    before = trace(
        lambda *x: dict(zip([*found.before.outputs], x, strict=False)),
        {**{key: x.shape for key, x in found.before.outputs.items()}, "start": 3},
        "numbers",
    )
    with pytest.raises(ShapeError, match=r"start has shape \(3,\), expected \(10,\)"):
        Minimizer("other", before, found.after, start="start")


@pytest.mark.parametrize("legs", [False, True])
def test_commands_are_those_of_the_interior_point_with_more_digits(biped, legs):
    rng = np.random.default_rng(19)
    wb = controller(biped, legs=legs)
    points = controller(biped, legs=legs, solver="interior-point", tolerance=1e-13)
    q, v = states(biped, rng, 60, 0.15)
    p = wb.pack({"acceleration_weight": 1e-2, "force_weight": 1e-2, "posture.target": POSE})
    for limit in (np.inf, 25.0):
        values = wb.pack(
            {"acceleration_weight": 1e-2, "force_weight": 1e-2, "effort_limit": np.full(6, limit)}
        )
        u, expected = wb(q, v, values), points(q, v, values)
        assert isinstance(u, ActiveSetCommand)
        solved = (expected.status == 0) & (u.status == 0)
        assert solved.sum() > 20 and (u.status <= expected.status).all()
        size = np.abs(expected.tau).max()
        assert np.abs(u.tau - expected.tau)[solved].max() < 1e-4 * size
        assert np.abs(u.a - expected.a)[solved].max() < 1e-4 * np.abs(expected.a).max()
    again = wb(q, v, p, start=wb(q, v, p))
    cold = wb(q, v, p)
    assert again.iterations.mean() < 0.5 * cold.iterations.mean()
    np.testing.assert_allclose(again.tau, cold.tau, atol=1e-6 * np.abs(cold.tau).max())
    again = pickle.loads(pickle.dumps(wb))(q, v, p, threads=3)
    for x, y in zip(again, cold, strict=True):
        np.testing.assert_array_equal(x, y)


def test_along_a_motion_a_command_starts_from_the_last_one(biped, walking):
    rng = np.random.default_rng(20)
    (q,), (v,) = states(biped, rng, 1, 0.05)
    u, changes, cold = None, [], []
    for _ in range(50):
        u = walking(q, v, start=u)
        alone = walking(q, v)
        np.testing.assert_allclose(u.tau, alone.tau, atol=1e-6 * max(1, np.abs(alone.tau).max()))
        changes.append(u.iterations)
        cold.append(alone.iterations)
        q, v = biped.integrate(q, 1e-3 * v), v + 1e-3 * u.a
    assert np.mean(changes[1:]) < 0.5 * np.mean(cold[1:])


@pytest.mark.wide
@pytest.mark.parametrize("legs", [False, True])
def test_the_controller_as_c99_takes_a_start_and_has_the_same_numbers(legs, biped, walking, tmp_path):
    wb = controller(biped, legs=True) if legs else walking
    in_c = ControllerInC(wb.export_c(tmp_path, {"posture.target": POSE}), tmp_path)
    assert "3 comparisons" in in_c.printed
    p = wb.pack({"acceleration_weight": 1.0, "force_weight": 1.0, "effort_limit": np.full(6, 20.0)})
    start = np.zeros(wb.kernel.inputs["start"])
    for q, v in zip(*states(biped, np.random.default_rng(21), 6), strict=True):
        expected = wb(q, v, p, start=start)
        results = in_c((q, v, p, start), expected)
        for name, x, y in zip(expected._fields, results, expected, strict=True):
            if name in ("tau", "a", "f", "slack", "status"):
                np.testing.assert_allclose(x, y, atol=1e-8 * max(1, np.abs(y).max()))
        start = results[-1]
    with pytest.raises(GraphError, match="needs the digits of float64"):
        wb.export_c(tmp_path, dtype=np.float32)
