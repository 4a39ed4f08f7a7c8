"""Multipliers, slack and plans of predictive control: against closed forms, and in loops with noise."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import IntegrationError, ModelError, ShapeError
from liebody.control.optimal import BrokenConstraints, UnfinishedPlan
from liebody.scalars import sin, sqrt
from liebody.stepping.riccati import ShootingPasses

EULER = "semi-implicit-euler"
MASS, H, N = 2.0, 0.1, 12
TARGETS = np.array([0.3, 1.0, 0.9, -2.0, 0.1, 0.6, 0.6, 0.2, -0.4, 0.8, 0.5, 1.4, 0.0])
BOUND = 0.5
EXACT = {"feasibility": 1e-9, "tolerance": 1e-14}


def cart(**options):
    """A mass on a rail; the cost is |u - target|^2 / 2, so each input has its own optimum."""
    tree = lb.TreeBuilder("cart")
    tree.add("mass", lb.groups.Prismatic([1, 0, 0]), lb.SpatialInertia.box(MASS, [0.1, 0.1, 0.1]))
    options = {
        "dt": H,
        "stage": lambda q, v, u, p: u - p.target,
        "method": EULER,
        "parameters": {"target": [0.0]},
        **options,
    }
    return lb.optimal_control(lb.Robot(tree.build()), **options)


def push(q, v, u, p):
    return u


def test_multipliers_of_a_bound_are_those_of_its_closed_form():
    """u <= b: u = min(target, b), and lambda = max(target - b, 0)."""
    problem = cart(stage_constraints=[(push, -np.inf, BOUND)])
    plan = problem.solve([0.0], knots=N, parameters={"target": TARGETS[:, None]}, **EXACT)
    expected = np.minimum(TARGETS[:-1], BOUND)
    assert plan.converged and plan.status == "converged"
    np.testing.assert_allclose(plan.u[:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(plan.multipliers.stage[:, 0], TARGETS[:-1] - expected, atol=1e-8)
    assert plan.cost == pytest.approx(H / 2 * ((expected - TARGETS[:-1]) ** 2).sum(), rel=1e-8)
    assert plan.multipliers.terminal.shape == (0,)


def test_multipliers_of_the_end_are_those_of_its_normal_equations():
    """|u|^2 is least where u = A^T (A A^T)^-1 b leads to the end b; -dt (A A^T)^-1 b are its multipliers."""
    there = np.array([0.7, -0.2])
    problem = cart(terminal_constraints=[(lambda q, v, p: np.concatenate([q, v]), there, there)])
    plan = problem.solve([0.0], knots=N, **EXACT)
    # v+ = v + h u / m and q+ = q + h v+: u_k moves v by h / m, and q by that for N - k steps of h
    A = H / MASS * np.array([H * np.arange(N, 0, -1), np.ones(N)])
    weights = np.linalg.solve(A @ A.T, there)
    assert plan.converged
    np.testing.assert_allclose(plan.u[:, 0], A.T @ weights, atol=1e-7)
    # the search ends where the decrease is 1e-14 of the cost: gradients are then some 1e-7, and A is stiff
    np.testing.assert_allclose(plan.multipliers.terminal, -H * weights, rtol=1e-4)


@pytest.mark.parametrize("price", [0.2, 0.6, 10.0])
def test_slack_is_used_where_its_price_is_below_the_multiplier(price):
    """u = target - min(max(target - b, 0), price); beyond the price u exceeds b, and the cost pays for it."""
    problem = cart(stage_constraints=[(push, -np.inf, BOUND, price)])
    plan = problem.solve([0.0], knots=N, parameters={"target": TARGETS[:, None]}, **EXACT)
    multipliers = np.clip(TARGETS[:-1] - BOUND, 0, price)
    u = TARGETS[:-1] - multipliers
    slack = np.maximum(u - BOUND, 0)
    assert plan.converged and (slack.max() > 0) == (price < 0.9)
    # beyond the price the cost is a line, to which a search of Gauss and Newton comes closer by a factor
    np.testing.assert_allclose(plan.u[:, 0], u, atol=1e-6)
    np.testing.assert_allclose(plan.multipliers.stage[:, 0], multipliers, atol=1e-6)
    np.testing.assert_allclose(plan.violations[0].along, slack, atol=1e-6)
    assert plan.violations[0].has_slack and plan.violation == 0
    assert plan.cost == pytest.approx(H * (multipliers**2 / 2 + price * slack).sum(), rel=1e-7)


def test_slack_has_a_price_for_each_entry_and_at_the_end():
    """One coordinate is bought, the other one kept."""
    problem = cart(
        stage_constraints=[(lambda q, v, u, p: np.concatenate([u, -u]), -np.inf, BOUND, [0.2, 5.0])],
        terminal_constraints=[(lambda q, v, p: v, 1.0, 1.0, 1e-3)],
    )
    plan = problem.solve([0.0], knots=N, parameters={"target": TARGETS[:, None]}, **EXACT)
    # the end pulls by its price: dt u + (multiplier of v) h / m
    pulled = TARGETS[:-1] + 1e-3 / MASS
    expected = np.where(pulled > BOUND, np.maximum(pulled - 0.2, BOUND), np.maximum(pulled, -BOUND))
    assert plan.converged
    np.testing.assert_allclose(plan.u[:, 0], expected, atol=1e-6)
    np.testing.assert_allclose(plan.multipliers.terminal, [-1e-3], atol=1e-12)


def test_multipliers_move_on_with_their_knots():
    """Three knots later the same targets are there: nothing is left to do, and no multiplier is lost."""
    problem = cart(stage_constraints=[(push, -np.inf, BOUND)])
    plan = problem.solve([0.0], knots=N, parameters={"target": TARGETS[:, None]}, **EXACT)
    later = np.minimum(np.arange(3, N + 4), N)
    later[later == N] = N - 1  # the last knot, which has an input, fills the places behind it
    options = {"shift": 3, "parameters": {"target": TARGETS[later][:, None]}}
    again = problem.improve(plan, plan.q[3], plan.v[3], iterations=1, **options)
    np.testing.assert_allclose(again.u, plan.u[later[:-1]], atol=1e-9)
    np.testing.assert_allclose(again.multipliers.stage, plan.multipliers.stage[later[:-1]], atol=1e-9)
    settled = problem.improve(again, again.q[0], again.v[0], parameters=options["parameters"])
    assert settled.converged and settled.violation < 1e-9
    np.testing.assert_allclose(settled.u, plan.u[later[:-1]], atol=1e-9)
    assert again.multipliers.penalty == plan.multipliers.penalty
    # from no multipliers on, one step leaves each bound broken by its share of the penalty
    none = plan.multipliers._replace(stage=0 * plan.multipliers.stage)
    anew = problem.improve(replace(plan, multipliers=none), plan.q[3], plan.v[3], iterations=1, **options)
    assert anew.violation > 1e-3


def test_a_search_with_a_plan_improves_it_as_the_closed_form_says():
    """New targets: each step divides the error of a multiplier by 1 + mu, the stiffness of its bound."""
    problem = cart(stage_constraints=[(push, -np.inf, BOUND)])
    plan = problem.solve([0.0], knots=N, parameters={"target": np.full((N + 1, 1), 1.0)}, **EXACT)
    mu = plan.multipliers.penalty
    moved = {"target": np.full((N + 1, 1), 1.5)}
    better = problem.improve(plan, [0.0], [0.0], parameters=moved, iterations=1)
    # least of (u - 1.5)^2 / 2 + mu/2 (u - b + 0.5 / mu)^2, then lambda = mu (u - b) + 0.5
    u = (1.5 + mu * BOUND - 0.5) / (1 + mu)
    np.testing.assert_allclose(better.u, u, rtol=1e-6)
    np.testing.assert_allclose(better.multipliers.stage, mu * (u - BOUND) + 0.5, rtol=1e-6)
    assert not better.converged and better.status == "limit" and better.iterations == 1
    for _ in range(8):
        better = problem.improve(better, [0.0], [0.0], parameters=moved)
    assert better.converged
    np.testing.assert_allclose(better.multipliers.stage, 1.0, atol=1e-4)


def wall(q, v, u, p):
    return sin(q[0]) + sin(q[0] + q[1])


def speed(q, v, u, p):
    return v


def arm(**options):
    """The double pendulum reaches for a goal beyond a wall, at a limited speed."""

    def stage(q, v, u, p):
        return np.concatenate([3 * (q - p.goal), 0.3 * v, 0.05 * u])

    options = {
        "dt": 0.04,
        "stage": stage,
        "method": "rkmk4",
        "terminal": lambda q, v, p: np.concatenate([3 * (q - p.goal), v]),
        "stage_constraints": [(wall, -np.inf, 0.7), (speed, -1.5, 1.5)],
        "terminal_constraints": [(lambda q, v, p: wall(q, v, None, p), -np.inf, 0.7)],
        "parameters": {"goal": [0.8, 0.3]},
        **options,
    }
    return lb.optimal_control(lb.load("double_pendulum"), **options)


@pytest.mark.parametrize("with_slack", [False, True])
def test_compiled_searches_with_constraints_are_those_in_numpy(with_slack, monkeypatch):
    more = {"stage_constraints": [(wall, -np.inf, 0.7, 2.0), (speed, -1.5, 1.5)]} if with_slack else {}
    plans = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(ShootingPasses, "_library", None)
        problem = arm(**more)
        plan = problem.solve([-0.2, 0.3], [0.1, 0.0], knots=12)
        better = problem.improve(plan, plan.q[1] + 1e-3, plan.v[1], shift=1, iterations=3)
        plans.append((plan, better))
    for one, other in zip(*plans, strict=True):
        assert one.status == other.status and len(one.history) == len(other.history)
        for name in ("u", "q", "v", "gains", "cost", "gap", "violation"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-7, atol=1e-7)
        for a, b in zip(one.multipliers, other.multipliers, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
        for a, b in zip(one.history, other.history, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("iterations", [1, 2, None])
def test_a_loop_with_noise_keeps_its_constraints(iterations):
    """The goal is 0.3 beyond the wall. Noise moves what is measured there by 4e-4, its standard deviation."""
    problem = arm()
    rng = np.random.default_rng(1)
    start = np.array([-0.2, 0.3])
    controller = problem.mpc(20, iterations=iterations, feasibility=1e-3)
    motion = lb.stepper(problem.mechanism, dt=problem.dt / 4)
    state = motion.start(start, [0.0, 0.0])
    beyond, fast = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenConstraints)  # the noise breaks the speed limit
        for _ in range(75):
            u = controller(state.q + 2e-4 * rng.normal(size=2), state.v + 2e-3 * rng.normal(size=2))
            state = motion.step(state, u, 4)
            beyond.append(np.sin(state.q[0]) + np.sin(state.q.sum()) - 0.7)
            fast.append(np.abs(state.v).max() - 1.5)
    assert -2e-3 < beyond[-1] and max(beyond) < 2e-3 and max(fast) < 0.02
    assert controller.plan.iterations <= (iterations or 4)


@pytest.mark.filterwarnings("ignore::liebody.control.optimal.BrokenConstraints")
def test_a_goal_that_jumps_is_searched_for_anew():
    """The default takes as many steps as the jump needs, and few before and after it."""
    problem = arm()
    controller = problem.mpc(20, feasibility=1e-3)
    motion = lb.stepper(problem.mechanism, dt=problem.dt / 4)
    state = motion.start([-0.2, 0.3], [0.0, 0.0])
    taken, beyond = [], []
    for k in range(120):
        u = controller(state.q, state.v, {"goal": [0.8, 0.3] if k < 60 else [-0.6, -1.5]})
        taken.append(len(controller.plan.history))
        state = motion.step(state, u, 4)
        beyond.append(np.sin(state.q[0]) + np.sin(state.q.sum()) - 0.7)
    assert max(beyond) < 1e-3
    assert np.abs(state.q - [-0.6, -1.5]).max() < 0.1 and np.abs(state.v).max() < 0.1
    assert np.median(taken) <= 4


@pytest.mark.filterwarnings("ignore::liebody.control.optimal.BrokenConstraints")
def test_a_first_plan_that_failed_says_so():
    problem = arm()
    with pytest.warns(UnfinishedPlan, match="1 iterations were allowed; .*first_iterations"):
        problem.mpc(12, first_iterations=1)([-0.2, 0.3])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnfinishedPlan)
        with pytest.raises(UnfinishedPlan, match="the search for the first plan did not converge"):
            problem.mpc(12, first_iterations=1)([-0.2, 0.3])
    plan = problem.solve([-0.2, 0.3], knots=12)
    controller = problem.mpc(12, first_iterations=1, feasibility=1e-3)
    controller.reset(plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnfinishedPlan)
        warnings.simplefilter("ignore", BrokenConstraints)
        np.testing.assert_allclose(controller([-0.2, 0.3]), plan.u[0], rtol=1e-3)
        run = controller.simulate([-0.2, 0.3], t_end=0.4, plan=plan)
    assert run.iterations.shape == run.statuses.shape == (10,) and set(run.statuses) <= {"converged", "limit"}
    assert run.violations[0].amount < 1e-3 and run.planned.shape == (10,)
    with pytest.raises(ShapeError, match="the plan has 12 knots, and the controller 20"):
        problem.mpc(20).reset(plan)


def test_a_start_that_breaks_constraints_makes_no_penalty_stiff():
    """The speed is 2 at the start, where 1.5 is allowed: one step later it is within."""
    problem = arm()
    plan = problem.solve([-0.2, 0.3], [2.0, 0.0], knots=12)
    assert plan.status == "start" and not plan.converged
    assert plan.violation == plan.violations[1].along[0] == 0.5 and plan.violations[1].along[1:].max() < 1e-6
    assert plan.multipliers.penalty <= 1e4 and not plan.multipliers.stage[0].any()
    controller = problem.mpc(12)
    with pytest.warns(BrokenConstraints, match=r"\(speed\) by 0.5 at knot 0"):
        controller([-0.2, 0.3], [2.0, 0.0])


def test_constraints_with_slack_give_no_warning():
    bought = [(wall, -np.inf, 0.2, 0.1), (speed, -1.5, 1.5)]
    problem = arm(stage_constraints=bought, terminal_constraints=())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = problem.mpc(12, feasibility=1e-2).simulate([-0.2, 0.3], t_end=1.0)
    assert run.violations[0].has_slack and run.violations[0].amount > 0.1 and run.planned.max() < 1e-2


@pytest.mark.parametrize(
    ("constraint", "error", "words"),
    [
        ((push, 0.0, 1.0, 0.0), ModelError, "the price of slack is 0.0: it must be positive"),
        ((push, 0.0, 1.0, np.nan), ModelError, "it must be positive"),
        ((push, 0.0, 1.0, [1.0, 2.0]), ShapeError, "the price of slack is .* an array \\(1,\\)"),
        ((push, 0.0, 1.0, "much"), ShapeError, "the price of slack is 'much'"),
        ((push, 0.0), ModelError, "or \\(function, low, high, price\\) with slack"),
    ],
)
def test_the_door_says_what_slack_needs(constraint, error, words):
    with pytest.raises(error, match=words):
        cart(stage_constraints=[constraint])


@pytest.mark.parametrize("iterations", [1, None])
def test_a_plan_whose_constraints_are_no_numbers_is_refused(iterations):
    problem = cart(stage_constraints=[(lambda q, v, u, p: sqrt(q[0]), -np.inf, 2.0)])
    plan = problem.solve([1.0], knots=4)
    with pytest.raises(IntegrationError, match=r"no search can begin .*; begin with another plan"):
        problem.improve(plan, [-1.0], iterations=iterations)
    assert problem.improve(plan, [1.0], iterations=iterations).u.shape == (4, 1)


def test_the_door_says_which_plans_can_be_improved():
    problem = cart(stage_constraints=[(push, -np.inf, BOUND)])
    plan = problem.solve([0.0], knots=4)
    with pytest.raises(ShapeError, match="it belongs to another problem"):
        cart().improve(plan, [0.0])
    with pytest.raises(ShapeError, match="it belongs to another problem"):
        arm().improve(plan, [0.0, 0.0])
    with pytest.raises(ShapeError, match="shift is 5, and the plan has 4 knots"):
        problem.improve(plan, [0.0], shift=5)
    with pytest.raises(ShapeError, match="leading axes"):
        problem.improve(plan, np.zeros((3, 1)))
