"""Optimal control: derivatives against differences, plans against laws and other ways to find them."""

from __future__ import annotations

import pickle
import warnings

import cloudpickle
import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from scipy.optimize import minimize
from test_derivatives import along
from test_linearize import TREES, close, robot_of

import liebody as lb
from liebody.base.errors import ArgumentError, GraphError, IntegrationError, ModelError, ShapeError
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.control.optimal import BrokenConstraints
from liebody.control.optimal import knot as knot_module
from liebody.scalars import cos, sin, sqrt
from liebody.stepping.riccati import ShootingPasses

EULER = "semi-implicit-euler"
GOAL = np.array([1.0, -0.5])


def reach(**options):
    """A double pendulum goes to GOAL, by both joints unless `actuated` says less."""

    def stage(q, v, u):
        return np.concatenate([0.1 * v, 0.3 * u])

    def terminal(q, v):
        return np.concatenate([3 * (q - GOAL), v])

    options = {"dt": 0.05, "stage": stage, "terminal": terminal, "method": EULER, **options}
    return lb.optimal_control(lb.load("double_pendulum"), **options)


def total(problem, plan, u):
    """The cost of the motion that u makes, in NumPy operators on numbers of any kind."""
    q, v, cost, p = plan.q[0], plan.v[0], 0, np.zeros(1)
    for now in u:
        cost = cost + problem._stage(q, v, now, p)[0]
        q, v = problem._step.next(q, v, now)
    return cost + problem._terminal(q, v, p)[0]


def slopes(problem, plan):
    """d cost/du by complex steps, which lose no digits."""
    found = np.zeros_like(plan.u)
    for i in np.ndindex(plan.u.shape):
        u = plan.u.astype(complex)
        u[i] += 1e-30j
        found[i] = total(problem, plan, u).imag / 1e-30
    return found


def model(problem, q, v, u, q1, v1, *slope):
    """gap, cost, F, g, H of a knot, by its traced function as NumPy source."""
    row = compile_numpy(problem.knot.function)(
        np.concatenate([q, v]), u, np.concatenate([q1, v1]), np.zeros(1), *slope
    )
    w = problem.shooting.workspace(1, problem._knot[1])
    w.models[0] = row
    return w.gap[0], w.cost[0], *w.matrices(0)


def test_with_all_second_derivatives_the_end_of_a_search_is_short():
    """Newton's method: digits double, where those of Gauss and Newton come one after the other."""
    steps = {}
    for hessian in ("gauss-newton", "exact"):
        problem = reach(hessian=hessian, actuated=np.eye(2)[:, 1:])
        plan = problem.solve([0.2, 0.1], knots=30, iterations=300, tolerance=1e-13)
        assert plan.converged
        steps[hessian] = plan.iterations
    assert steps["exact"] < 0.7 * steps["gauss-newton"]
    again = problem.solve([0.2, 0.1], u=plan.u + 1e-3, tolerance=1e-13)
    assert again.converged and again.iterations <= 4


@pytest.mark.parametrize("hessian", ["gauss-newton", "exact"])
@pytest.mark.many
def test_the_cost_has_no_slope_at_the_optimum(hessian):
    problem = reach(hessian=hessian)
    start = problem.solve([0.2, 0.1], knots=20, iterations=0)
    plan = problem.solve([0.2, 0.1], knots=20, tolerance=1e-14)
    assert np.abs(slopes(problem, start)).max() > 0.1
    assert plan.converged and plan.gap == 0 and plan.gradient < 1e-6
    assert np.abs(slopes(problem, plan)).max() < 1e-6
    assert abs(total(problem, plan, plan.u) - plan.cost) < 1e-12 * plan.cost


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *((kind, EULER) for kind in TREES),
        ("hinges", "rkmk4"),
        ("floating", "rkmk-midpoint"),
        ("hinges", "cf4"),
    ],
)
def test_the_derivative_of_a_knot_is_that_of_its_step(kind, method):
    robot, q, v, u = robot_of(kind)
    n, made = robot.nv, {"dt": 0.05, "method": method, "actuated": np.eye(robot.nv)}
    problem = lb.optimal_control(robot, stage=lambda q, v, u: u, **made)
    step = problem._step

    def end(x):
        delta, nu, du = x.reshape(3, n)
        return step.next(robot.integrate(q, delta), v + nu, u + du)

    q1, v1 = end(np.zeros(3 * n))

    def moved(x):
        q2, v2 = end(x)
        return np.concatenate([robot.difference(q1, q2), v2 - v1])

    other = robot.integrate(q1, 0.1 * np.ones(n))
    gap, _, F, _, _ = model(problem, q, v, u, other, v1 - 1)
    close(F, along(moved, 3 * n), 1e-8)
    close(gap, np.concatenate([robot.difference(other, q1), np.ones(n)]), 1e-12)
    if method != EULER:
        run = lb.simulate(robot, q, v, tau=u, t_end=0.05, dt=0.05, method=method)
        close(np.concatenate([q1, v1]), np.concatenate([run.q[-1], run.v[-1]]), 1e-12)


@pytest.mark.parametrize("method", [EULER, "cf4", "rkmk4"])
@pytest.mark.many(2)
def test_directions_of_a_knot_in_loops_are_those_of_its_straight_line(method, monkeypatch):
    """An odd number of them, which drive joints in combinations."""
    robot, q, v, u = robot_of("floating")
    S = np.eye(robot.nv)[:, -1:] - np.eye(robot.nv)[:, :1]
    options, found = {"dt": 0.05, "method": method, "actuated": S}, []
    for long in (0, 10**9):
        monkeypatch.setattr(knot_module, "LONG", long)
        problem = lb.optimal_control(robot, stage=lambda q, v, u: np.concatenate([u, q, v * v]), **options)
        assert isinstance(problem.knot.function, lb.compiler.Program) == (long == 0)
        found.append(model(problem, q, v, u[:1], robot.integrate(q, 0.1 * v), v + 1))
    for one, other in zip(*found, strict=True):
        close(one, other, 1e-13)


def test_rows_of_models_hold_no_known_entry_and_of_two_slopes_of_a_step_one():
    """Those of q, h^2 da/dx, are multiples of those of v: 12 numbers, beside gap, cost, and g by v and u."""
    problem, h = reach(), 0.05
    packing, weights = problem._knot[1], h * np.array([0.0, 0.1**2, 0.3**2])
    assert problem.knot.outputs["knot"] == (packing.numbers,) and packing.numbers == 5 + 12 + 4
    row = np.random.default_rng(0).normal(size=packing.numbers)
    F, g, H = np.split(packing.unpack(row).reshape(11, 6), [4, 5])
    np.testing.assert_allclose(F[:2] - np.eye(2, 6), h * F[2:], atol=1e-15)
    np.testing.assert_allclose(H, np.diag(np.repeat(weights, 2)), atol=1e-15)
    assert not g[0, :2].any() and g[0, 2:].all()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.many
def test_the_hessian_of_a_cost_is_its_own_along_the_group(exact):
    robot, q, v, u = robot_of("floating")
    n = robot.nv

    def residuals(q, v, u):
        return np.concatenate([robot.center_of_mass(q) * v[0], u[:2] * q[:2]])

    made = {"dt": 0.5, "method": EULER, "hessian": "exact" if exact else "gauss-newton"}
    problem = lb.optimal_control(robot, stage=residuals, actuated=np.eye(n), **made)

    def moved(x):
        delta, nu, du = x.reshape(3, n)
        return robot.integrate(q, delta), v + nu, u + du

    J = along(lambda x: residuals(*moved(x)), 3 * n)
    slope = [np.random.default_rng(1).normal(size=2 * n)] if exact else []
    _, cost, _, g, H = model(problem, q, v, u, q, v, *slope)
    r = residuals(q, v, u)
    close(cost, 0.25 * r @ r, 1e-12)
    close(g, 0.5 * J.T @ r, 1e-8)
    if exact:  # second derivatives along straight lines of the algebra, by which H is symmetric
        h, x, q1 = 1e-3, np.random.default_rng(0).normal(size=3 * n) / 3, problem._step.next(q, v, u)[0]

        def seen(t):
            q2, v2 = problem._step.next(*moved(t * x))
            d = np.concatenate([robot.difference(q1, q2), v2])
            return np.sum(residuals(*moved(t * x)) ** 2) / 4 + slope[0] @ d

        second = sum(w * seen(k * h) for k, w in zip(range(-2, 3), (-1, 16, -30, 16, -1))) / (12 * h**2)
        assert abs(second - x @ H @ x) < 1e-6 * abs(x @ H @ x)
        close(H, H.T, 1e-12)
    else:
        close(H, 0.5 * J.T @ J, 1e-8)


def test_a_linear_quadratic_problem_is_solved_in_one_step_as_by_the_riccati_equation():
    """A mass on a rail: far from the end the gains are those of the infinite horizon."""
    tree = lb.TreeBuilder("cart")
    tree.add("mass", lb.groups.Prismatic([1, 0, 0]), lb.SpatialInertia.box(2.0, [0.1, 0.1, 0.1]))
    cart, h = lb.Robot(tree.build()), 0.1
    problem = lb.optimal_control(
        cart, dt=h, stage=lambda q, v, u: np.concatenate([2 * q, v, 0.5 * u]), method=EULER
    )
    plan = problem.solve([1.0], [0.5], knots=300, u=[0.7], tolerance=1e-13)
    assert plan.converged and [x.step for x in plan.history] == [1.0, 0.0]
    A, B = np.array([[1, h], [0, 1]]), np.array([[h * h / 2], [h / 2]])
    R, P = h * np.array([[0.25]]), solve_discrete_are(A, B, h * np.diag([4, 1]), h * np.array([[0.25]]))
    close(plan.gains[0], -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A), 1e-12)
    x = np.array([1.0, 0.5])
    assert abs(plan.cost - x @ P @ x / 2) < 1e-12 * plan.cost


def test_inputs_at_their_limits_are_those_of_another_search():
    problem = reach(limits=1.5)
    plan = problem.solve([0.2, 0.1], knots=6, tolerance=1e-14)
    free = reach().solve([0.2, 0.1], knots=6)
    assert np.abs(free.u).max() > 3 and np.abs(plan.u).max() == 1.5 and (np.abs(plan.u) < 1.4).any()

    def cost(u):
        shaped = u.reshape(plan.u.shape)
        return total(problem, plan, shaped), slopes(
            problem, plan.__class__(**{**vars(plan), "u": shaped})
        ).ravel()

    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500}
    bounds = [(-1.5, 1.5)] * plan.u.size
    other = minimize(cost, np.zeros(plan.u.size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    assert plan.converged and abs(plan.cost - other.fun) < 1e-8 * other.fun
    close(plan.u.ravel(), other.x, 1e-4)


@pytest.mark.wide
def test_states_that_are_no_motion_become_one_with_the_same_optimum():
    """As many gaps as knots, on a floating base, closed on the group."""
    robot, q, v, _ = robot_of("floating")
    target = robot.integrate(q, 0.3 * np.ones(robot.nv))

    def stage(q, v, u):
        return np.concatenate([robot.difference(target, q), 0.3 * v, 0.1 * u])

    problem = lb.optimal_control(robot, dt=0.05, stage=stage, actuated=np.eye(robot.nv), method=EULER)
    begun = problem.solve(q, v, knots=8, q=target, iterations=0)
    assert begun.gap > 0.1 and not begun.converged
    shot, rolled = problem.solve(q, v, knots=8, q=target), problem.solve(q, v, knots=8)
    assert shot.converged and shot.gap == 0 and rolled.converged
    assert abs(shot.cost / rolled.cost - 1) < 1e-9
    for k in range(8):  # a motion it is
        end = problem._step.next(shot.q[k], shot.v[k], shot.u[k])
        close(robot.difference(shot.q[k + 1], end[0]), np.zeros(robot.nv), 1e-12)


@pytest.mark.parametrize("limits", [None, 2.0])
def test_compiled_passes_are_those_in_numpy(limits, monkeypatch):
    problem, start = reach(limits=limits), {"knots": 15, "q": [0.3, 0.0]}
    plan = problem.solve([0.2, 0.1], **start)
    monkeypatch.setattr(ShootingPasses, "_library", None)
    again = reach(limits=limits).solve([0.2, 0.1], **start)
    assert plan.converged and again.converged and len(plan.history) == len(again.history)
    for name in ("u", "q", "v", "gains"):
        close(getattr(plan, name), getattr(again, name), 1e-7)
    for a, b in zip(plan.history[:-2], again.history[:-2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.wide
def test_constraints_are_met_by_the_best_motion_that_meets_them():
    """Against SLSQP, which knows the same constraints as such."""
    at_rest = np.concatenate([GOAL, [0.0, 0.0]])

    def end(q, v):
        return np.concatenate([q, v])

    problem = reach(
        terminal=lambda q, v: 0.1 * v,
        stage_constraints=[(lambda q, v, u: v[1], -3.0, np.inf)],
        terminal_constraints=[(end, at_rest, at_rest)],
    )
    plan = problem.solve([0.2, 0.1], knots=6, iterations=300, feasibility=1e-7)
    assert plan.converged and plan.violation < 1e-7
    close(end(plan.q[-1], plan.v[-1]), at_rest, 1e-7)
    assert abs(plan.v[:-1, 1].min() + 3.0) < 1e-7

    free = reach(terminal=lambda q, v: 0.1 * v)

    def motion(u):
        found = free.solve([0.2, 0.1], u=u.reshape(6, 2), iterations=0)
        return found, total(free, found, found.u)

    kept = [
        {"type": "eq", "fun": lambda u: end(motion(u)[0].q[-1], motion(u)[0].v[-1]) - at_rest},
        {"type": "ineq", "fun": lambda u: motion(u)[0].v[1:-1, 1] + 3.0},
    ]
    options = {"ftol": 1e-12, "maxiter": 300}
    slope = {"jac": lambda u: slopes(free, motion(u)[0]).ravel()}
    other = minimize(
        lambda u: motion(u)[1], plan.u.ravel(), method="SLSQP", constraints=kept, options=options, **slope
    )
    assert other.success and abs(plan.cost - other.fun) < 1e-5 * other.fun


def test_a_controller_follows_a_goal_that_is_given_as_it_goes():
    """It starts at rest, holds itself up, and goes where the parameter says; u stays within the limits."""
    robot = lb.load("double_pendulum")

    def stage(q, v, u, p):
        return np.concatenate([3 * (q - p.goal), 0.3 * v, 0.1 * (u - robot.gravity(q))])

    def terminal(q, v, p):
        return np.concatenate([3 * (q - p.goal), v])

    options = {"dt": 0.04, "method": EULER, "limits": 40.0, "parameters": {"goal": [0.0, 0.0]}}
    problem = lb.optimal_control(robot, stage=stage, terminal=terminal, **options)
    controller = problem.mpc(20)
    run = controller.simulate([0.3, 0.2], t_end=2.0, substeps=4, parameters={"goal": GOAL})
    assert np.abs(run.q[-1] - GOAL).max() < 0.02 and np.abs(run.v[-1]).max() < 0.05
    assert run.q.shape == (51, 2) and run.u.shape == (50, 2) and np.abs(run.u).max() <= 40.0
    assert controller.plan.iterations <= 2
    again = problem.mpc(20)
    close(again([0.3, 0.2], parameters={"goal": GOAL}), run.u[0], 1e-12)
    assert again(run.q[-1], run.v[-1])[0] < 0 < run.u[-1][0]  # towards the default goal


LIMIT, LOW, HIGH = 0.9, np.array([-1.0, -0.2]), np.array([0.6, 0.2])


def wall(q, v, u, p):
    return sin(q[0]) + sin(q[0] + q[1]) - p.wall


def slow(q, v, u):
    return v


def walled(**options):
    """The double pendulum: a wall, bounds of v, and where it is to end; what is broken, in NumPy."""

    problem = reach(
        stage=lambda q, v, u, p: np.concatenate([q - GOAL, 0.1 * v, 0.03 * u]),
        terminal=lambda q, v, p: 3 * (q - GOAL),
        parameters={"wall": 0.2},
        stage_constraints=[(wall, -np.inf, 0.0), (lambda q, v, u, p: v, LOW, HIGH)],
        terminal_constraints=[(lambda q, v, p: q[1], LIMIT, LIMIT)],
        **options,
    )

    def broken(q, v, height):
        beyond = np.sin(q[:, 0]) + np.sin(q.sum(axis=1)) - height
        outside = np.maximum(v - HIGH, LOW - v).max(axis=1)
        return np.maximum(beyond[:-1], 0), np.maximum(outside[:-1], 0), np.abs(q[-1:, 1] - LIMIT)

    return problem, broken


NAMES = ["stage_constraints[0] (wall)", "stage_constraints[1]", "terminal_constraints[0]"]


@pytest.mark.parametrize("iterations", [0, 3, 300])
def test_a_plan_says_by_how_much_it_breaks_each_constraint(iterations):
    """Whether it was searched for to the end or not; also where it begins beyond the wall."""
    problem, broken = walled()
    for q0, height in ([0.1, 0.0], 0.2), ([0.4, 0.3], 0.1):
        plan = problem.solve(
            q0, [0.1, 0.0], knots=12, u=[1.0, 0.5], iterations=iterations, parameters={"wall": height}
        )
        assert [x.constraint for x in plan.violations] == NAMES
        for found, exact in zip(plan.violations, broken(plan.q, plan.v, height), strict=True):
            close(found.along, exact, 1e-12)
            assert found.amount == exact.max() or abs(found.amount - exact.max()) < 1e-12
        assert plan.violation == max(x.amount for x in plan.violations)
        assert plan.violations[2].knot == 12
        if height == 0.1:
            assert plan.violations[0].along[0] > 0.9 and not plan.converged
            assert f"of {max(plan.violations, key=lambda x: x.amount).constraint} at knot" in repr(plan)


def test_a_constraint_that_is_no_number_is_refused_where_a_search_begins():
    problem = reach(stage_constraints=[(lambda q, v, u: sqrt(q[0]), -1.0, 1.0)])
    with pytest.raises(IntegrationError, match="no search can begin with this trajectory"):
        problem.solve([-0.2, 0.0], knots=4)


def test_a_controller_says_by_how_much_constraints_are_broken():
    """From beyond the wall; with noise in a loop of one's own; and not where they are kept."""
    problem, broken = walled()
    controller = problem.mpc(12)
    with pytest.warns(BrokenConstraints, match="the motion breaks .* at t = 0 s; .*10 of 10 plans") as told:
        run = controller.simulate([0.4, 0.3], t_end=0.5)
    assert [x.constraint for x in run.violations] == NAMES[:2] and len(told) == 1
    for found, exact in zip(run.violations, broken(run.q, run.v, 0.2)[:2], strict=True):
        close(found.along, exact, 1e-12)
        assert f"breaks {found.constraint} by {found.amount:.3g}" in str(told[0].message)
    assert run.planned.shape == (10,) and run.planned[-1] == controller.plan.violation

    rng, controller = np.random.default_rng(0), problem.mpc(12)
    with pytest.warns(BrokenConstraints, match="the plan breaks") as told:
        amounts = []
        for k in range(20):  # the wall moves away from call to call
            controller([0.01 * rng.normal(), 0.1], [0.0, 0.0], {"wall": -0.5 * k})
            amounts.append(controller.plan.violations[0].amount)
    said = [str(x.message).split("(wall) by ")[1].split()[0] for x in told if "(wall)" in str(x.message)]
    assert amounts[-1] > 8 and 2 <= len(said) <= 8
    said = [float(x) for x in said]
    assert (np.diff(np.log2(said)) > 0.99).all() and said[-1] > amounts[-1] / 2.01
    controller.reset()
    with pytest.warns(BrokenConstraints, match=r"the plan breaks .*\(wall\)"):
        controller([0.4, 0.3])

    free, far = problem.mpc(12, feasibility=10.0), reach(stage_constraints=[(slow, -50.0, 50.0)]).mpc(12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free.simulate([0.4, 0.3], t_end=0.5)
        run = far.simulate([0.2, 0.1], t_end=0.5)
    assert run.violations[0].amount == 0 and not run.planned.any()
    with pytest.raises(IntegrationError, match="feasibility is -1"):
        problem.mpc(12, feasibility=-1)


def nearness(q, v, u, p):
    return np.concatenate([q - p.goal, 0.3 * v, 0.3 * u])


def height(q, v, p):
    return q[0] + q[1]


def test_problems_can_be_sent_to_other_processes_before_and_after_they_were_solved():
    options = {"dt": 0.05, "method": EULER, "parameters": {"goal": GOAL}, "hessian": "exact"}
    limited = {"terminal_constraints": [(height, -0.1, 0.1)]}
    problem = lb.optimal_control(lb.load("double_pendulum"), stage=nearness, **options, **limited)
    before = pickle.dumps(problem), cloudpickle.dumps(problem)
    plan = problem.solve([0.2, -0.1], knots=8)
    for sent in (*before, pickle.dumps(problem), cloudpickle.dumps(problem)):
        again = pickle.loads(sent).solve([0.2, -0.1], knots=8)
        assert again.cost == plan.cost and again.violation == plan.violation
        np.testing.assert_array_equal(again.u, plan.u)


def test_gains_make_of_a_plan_the_best_inputs_next_to_it():
    """From another start, what they cost beyond a new plan is a small part of what no feedback costs."""
    problem = reach()
    plan = problem.solve([0.2, 0.1], knots=20)
    moved = problem.solve([0.3, 0.05], knots=20)
    costs = []
    for feedback in (0.0, 1.0):
        q, v, u = moved.q[0], moved.v[0], []
        for k in range(20):
            x = np.concatenate([problem.mechanism.group.difference(plan.q[k], q), v - plan.v[k]])
            u.append(plan.u[k] + feedback * plan.gains[k] @ x)
            q, v = problem._step.next(q, v, u[-1])
        costs.append(total(problem, moved, u) - moved.cost)
    assert 0 < costs[1] < 0.05 * costs[0]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"hessian": "newton"}, ModelError, "gauss-newton, exact"),
        ({"method": "radau5"}, IntegrationError, "no method 'radau5'"),
        ({"actuated": "elbow"}, ModelError, "there is no 'elbow'"),
        ({"actuated": np.eye(3)}, ShapeError, r"shape \(3, 3\), expected \(2, m\)"),
        ({"actuated": []}, ShapeError, r"shape \(2, 0\), expected \(2, m\)"),
        ({"limits": (2.0, 1.0)}, ModelError, "low must not be above high"),
        ({"limits": [1.0, 2.0, 3.0]}, ShapeError, "limits"),
        ({"limits": (1.0, 2.0, 3.0)}, ShapeError, "limits are \\(1.0, 2.0, 3.0\\), expected"),
        ({"stage": 3.0}, GraphError, "3.0 is no function"),
        ({"stage": lambda q, v, u: np.outer(q, v)}, GraphError, "residuals"),
        ({"stage": lambda q, v, u: q if q[0] > 0 else v}, GraphError, "cannot be traced at"),
        ({"terminal_constraints": [lambda q, v: q]}, ModelError, "expected \\(function, low, high\\)"),
        ({"terminal_constraints": [(lambda q, v: q, 1, 0)]}, ModelError, "low must not be above high"),
        ({"terminal_constraints": [(lambda q, v: q, np.zeros(3), 1)]}, ShapeError, "constraint of shape"),
        ({"dt": "fast"}, ArgumentError, "dt is 'fast'"),
        ({"dt": -1.0}, IntegrationError, "positive number of seconds"),
    ],
)
def test_the_door_says_what_a_problem_needs(options, error, words):
    with pytest.raises(error, match=words):
        reach(**options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ShapeError, "nothing says it; give knots=100"),
        ({"knots": 4, "u": np.zeros((5, 2))}, ShapeError, "u says 5, knots says 4"),
        ({"knots": 4, "u": np.zeros(3)}, ShapeError, "u has shape"),
        ({"knots": 4, "parameters": {"goal": 1.0}}, ModelError, "there is no parameter 'goal'"),
        ({"knots": 4, "tolerance": 0.0}, IntegrationError, "tolerance is 0.0"),
        ({"knots": 0}, ArgumentError, "knots is 0"),
    ],
)
def test_the_door_says_what_a_solution_needs(options, error, words):
    with pytest.raises(error, match=words):
        reach().solve([0.2, 0.1], **options)


def test_a_search_goes_on_where_curved_steps_leave_the_model_without_a_minimum():
    """From hanging to standing with exact Hessians: the one at the first knots is not positive definite."""

    def stage(q, v, u):
        return np.concatenate([0.1 * u, 0.03 * sin(q)])

    def terminal(q, v):
        return 10 * np.concatenate([sin(q), 1 + cos(q[:1]), 1 - cos(q[1:]), 0.3 * v])

    made = {"actuated": np.eye(2)[:, 1:], "dt": 0.02, "hessian": "exact"}
    problem = reach(stage=stage, terminal=terminal, **made)
    plan = problem.solve([0.0, 0.01], knots=100, q=[0.0, 0.01], iterations=300)
    assert plan.converged and abs(np.cos(plan.q[-1]) @ [0.5, -0.5] + 1) < 1e-2
