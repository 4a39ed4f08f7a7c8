"""Whole-body controllers of robots with closed loops."""

import numpy as np
import pytest
from constrained_models import four_bar

import liebody as lb
from liebody.base.errors import ModelError
from liebody.contact import TimeStepping
from liebody.control import MotionTask, Support, WholeBody
from liebody.groups import Prismatic, Revolute
from liebody.hybrid import Feedback
from liebody.mechanisms.constrained import ClosedTree, Closure

SMALL = {"acceleration_weight": 1e-9, "force_weight": 1e-9}


@pytest.fixture(scope="module")
def closed():
    """A planar loop whose five equations are only two independent ones."""
    return ClosedTree(four_bar(), [Closure("C", Revolute([0, 1, 0]), "end", "tip")])


def state_of(closed, speed=1.0):
    q = closed.assemble(np.array([-0.3, 0.5, -1.0]))
    return q, closed.consistent_velocities(q, [speed, 0, 0])


def test_one_motor_gives_the_efforts_of_inverse_dynamics(closed):
    crank = MotionTask("crank", lambda q, v, p: q[:1] - p.angle, {"angle": 0.0}, kp=0.0)
    wb = WholeBody(closed, [crank], actuated=["A"], limits=())
    q, v = state_of(closed)
    for wanted in (-3.0, 0.0, 2.0):
        u = wb(q, v, {"crank.acceleration": [wanted], **SMALL})
        assert u.status == 0 and not u.tau[1:].any()
        np.testing.assert_allclose(u.a[0], wanted, atol=1e-7)
        # what these efforts do: the equations of the closed tree, solved by its own factors
        a, multipliers = closed.accelerations(q, v, u.tau)
        np.testing.assert_allclose(u.a, a, atol=1e-9)
        np.testing.assert_allclose(u.multipliers, multipliers, atol=1e-8)
        # virtual work: along the only motion w with J w = 0 the loop does none
        w = closed.consistent_velocities(q, [1.0, 0, 0])
        robot = lb.Robot(closed.tree)
        power = w @ (robot.mass_matrix(q) @ u.a + robot.bias(q, v))
        np.testing.assert_allclose(u.tau @ w, power, atol=1e-8)
    assert wb.rows == [f"closure[{i}]" for i in range(closed.nc)] and u.slack.shape == (closed.nc,)


def test_with_more_motors_than_motions_the_command_is_the_minimum_of_a_dense_program(closed):
    """The reference: equations of accelerations, efforts and multipliers, with a known active set."""
    robot = lb.Robot(closed.tree)
    wb = WholeBody(closed, [MotionTask.posture(robot, kp=0.0)], limits=["effort"])
    q, v = state_of(closed)
    wanted = np.array([3.0, -2.0, 1.0])
    weights = {"acceleration_weight": 1e-3, "force_weight": 0.5}
    M, h = robot.mass_matrix(q), robot.bias(q, v)
    rows = closed.loop_rows(q, v, 0.0)
    J, b = rows.J.astype(float), -rows.bias.astype(float)
    nv, nc, mass = 3, closed.nc, robot.mass

    def reference(limits):
        """a, tau, multipliers; `limits` fixes some efforts. And how the cost changes with these."""
        aw, fw = weights["acceleration_weight"], weights["force_weight"]
        H = np.diag(np.r_[np.full(nv, 1 + aw), np.zeros(nv), np.full(nc, fw / mass**2)])
        g = np.r_[-wanted, np.zeros(nv + nc)]
        fixed = np.zeros((len(limits), nv))
        fixed[np.arange(len(limits)), list(limits)] = 1
        equations = np.block(
            [
                [M, -np.eye(nv), J.T],
                [J, np.zeros((nc, nv + nc))],
                [np.zeros((len(limits), nv)), fixed, np.zeros((len(limits), nc))],
            ]
        )
        right = np.r_[-h, b, [*limits.values()]]
        m = len(equations)
        K = np.block([[H, equations.T], [equations, np.zeros((m, m))]])
        solution = np.linalg.lstsq(K, np.r_[-g, right], rcond=1e-13)[0]
        assert np.abs(K @ solution - np.r_[-g, right]).max() < 1e-9  # redundant, and consistent
        a, tau, multipliers = np.split(solution[: 2 * nv + nc], [nv, 2 * nv])
        return a, tau, multipliers, solution[len(solution) - len(limits) :]

    for largest in (1e3, 12.0):
        u = wb(q, v, {"posture.acceleration": wanted, "effort_limit": np.full(3, largest), **weights})
        active = {i: np.sign(u.tau[i]) * largest for i in range(3) if abs(u.tau[i]) > largest * (1 - 1e-6)}
        a, tau, multipliers, prices = reference(active)
        assert u.status == 0 and bool(active) == (largest < 1e3)
        # the active set is right: others are within their limits, and each limit costs something
        assert (np.abs(tau) <= largest * (1 + 1e-9)).all()
        assert (prices * [*active.values()] > 0).all()
        np.testing.assert_allclose(u.a, a, atol=1e-6)
        np.testing.assert_allclose(u.tau, tau, atol=1e-5)
        np.testing.assert_allclose(u.multipliers, multipliers, atol=1e-5)


def parallelogram():
    """A slide that carries a loop, whose coupler may press on the ground."""
    box = lb.SpatialInertia.box(1.0, [0.5, 0.1, 0.1], com=[0.25, 0, 0])
    hinge = Revolute([0, 1, 0])
    tree = lb.TreeBuilder("press").add("slide", Prismatic([0, 0, 1]), box)
    tree.add("left", hinge, box, "slide").add("coupler", hinge, box, "left", [0.5, 0, 0])
    tree.add("right", hinge, box, "slide", [0.6, 0, 0]).frame("base", "right", [0.5, 0, 0])
    tree.frame("point", "coupler", [0.3, 0, -0.1]).frame("tip", "coupler", [0.6, 0, 0])
    return ClosedTree(tree.build(), [Closure("rod", 0.05, "base", "tip")])


def test_supports_and_free_parameters_go_with_loops():
    mechanism = parallelogram().with_parameters("coupler.mass", "rod.length")
    robot = lb.Robot(mechanism.tree).with_parameters("coupler.mass")
    q = np.array([0.0, 0.9, -0.9, 0.8])
    v = np.zeros(4)
    wb = WholeBody(
        mechanism,
        [MotionTask.position(robot, "coupler", weight=0.1)],
        [Support("point", friction=0.6)],
        actuated=["slide", "left", "right"],
        limits=(),
    )
    for given in ({}, {"coupler.mass": 4.0}, {"coupler.mass": 2.0, "rod.length": 0.08}):
        there = mechanism.plain.with_parameters({"coupler.mass": 1.0, "rod.length": 0.05, **given})
        at = there.at(there.packed())
        start = there.assemble(q)
        u = wb(start, v, given)
        rows = at.loop_rows(start, v, 0.0)
        J = np.asarray(rows.J, float)
        plain = lb.Robot(at.tree, at.gravity)
        point = plain.pose(start, "point")[:3, :3] @ plain.jacobian(start, "point")[3:]
        left = plain.mass_matrix(start) @ u.a + plain.bias(start, v, damping=True)
        np.testing.assert_allclose(left, u.tau + point.T @ u.f[0] - J.T @ u.multipliers, atol=1e-7)
        np.testing.assert_allclose(J @ u.a + np.asarray(rows.bias, float), 0, atol=1e-7)
        assert u.status < 2 and not u.tau[wb.passive].any()


def test_batches_have_the_numbers_of_single_calls(closed):
    wb = WholeBody(closed, [MotionTask.posture(lb.Robot(closed.tree), kp=10.0)])
    q, v = state_of(closed)
    speeds = np.linspace(-1, 1, 9)
    batch = wb(q, v * speeds[:, None])
    for k in (0, 4, 8):
        alone = wb(q, v * speeds[k])
        np.testing.assert_allclose(batch.tau[k], alone.tau, atol=1e-6)
        np.testing.assert_allclose(batch.multipliers[k], alone.multipliers, atol=1e-6)


@pytest.mark.wide
def test_time_stepping_of_a_loop_takes_the_controller_as_an_element(closed):
    crank = MotionTask("crank", lambda q, v, p: q[:1] - p.angle, {"angle": 0.0}, kp=400.0)
    wb = WholeBody(closed, [crank], actuated=["A"], limits=())
    q0, _ = state_of(closed)
    goal = q0[0] + 0.2
    system = TimeStepping(closed, wb.element(2e-3), step=1e-3)
    run = system.simulate(q0, t_end=0.5, record_every=2e-3, parameters={"wb_crank_angle": goal})
    assert abs(run.q[-1, 0] - goal) < 1e-3
    assert not run.memory["wb_unsolved"][-1]
    plant = TimeStepping(closed, Feedback(lambda s, p: p.tau, tau=np.zeros(3)), step=1e-3)
    sim = lb.stepper(plant, dt=2e-3)
    state = sim.start(q0)
    for k in range(250):
        u = wb(state.q, state.v, {"crank.angle": goal})
        state = sim.step(state, {"tau": u.tau})
        np.testing.assert_allclose(run.q[k + 1], state.q, atol=1e-12)
        # commands of closed trees have multipliers behind their status
        assert run.memory["wb_status"][k + 1] == u.status == 0


def test_an_active_set_has_the_command_of_the_interior_point_and_starts_from_it(closed):
    tasks = [MotionTask.posture(lb.Robot(closed.tree), kp=0.0)]
    points = WholeBody(closed, tasks, limits=["effort"], tolerance=1e-12)
    sets = WholeBody(closed, tasks, limits=["effort"], solver="active-set")
    q, v = state_of(closed)
    values = {"posture.acceleration": [3.0, -2.0, 1.0], "acceleration_weight": 1e-3, "force_weight": 0.5}
    for largest, active in ((1e3, [0, 0, 0]), (12.0, [1, 0, 1])):
        p = {**values, "effort_limit": np.full(3, largest)}
        u, expected = sets(q, v, p), points(q, v, p)
        assert u.status == expected.status == 0
        np.testing.assert_array_equal(u.active, active)
        for name in expected._fields:
            if name not in ("gap", "iterations"):
                np.testing.assert_allclose(getattr(u, name), getattr(expected, name), atol=1e-7)
        again = sets(q, v, p, start=u)
        assert again.iterations == 0
        np.testing.assert_allclose(again.tau, u.tau, atol=1e-10)
    # of redundant rows: closures hold to round-off
    assert np.abs(u.slack).max() < 1e-12


def test_moving_closures_are_refused(closed):
    moving = closed.with_prescribed({"A": lambda t: 0.1 * t})
    with pytest.raises(ModelError, match="constraints that move with time"):
        WholeBody(moving, [MotionTask.posture(lb.Robot(closed.tree))])
