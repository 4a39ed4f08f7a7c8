"""Steps one at a time are the steps of `simulate`, and members of an ensemble begin anew one by one."""

import numpy as np
import pytest
from random_trees import random_inertia, random_tree

import liebody as lb
from liebody.base.errors import IntegrationError, LiebodyError, ShapeError
from liebody.compiler.native import build
from liebody.groups import Prismatic, Revolute, Spherical

STEPS, DT = 40, 2e-3
METHODS = ["rkmk4", "cf4", "half-explicit4", "radau5", "generalized-alpha", "variational"]


@pytest.fixture
def robot():
    return lb.Robot(random_tree(np.random.default_rng(4), ["spherical", "prismatic"]))


def efforts(n, *shape):
    return np.random.default_rng(1).normal(size=(*shape, STEPS, n))


def four_bar():
    """Three links of which the first is driven; it starts open and is closed by `assemble`."""
    builder = lb.SystemBuilder("four-bar")
    for name, length in (("crank", 0.3), ("coupler", 0.8), ("rocker", 0.7)):
        builder.body(name, lb.SpatialInertia(1.0, rotational=np.diag([0.01, 0.02, 0.02]) * length))
    joint = Revolute([0, 1, 0])
    builder.joint("a", joint, "world", "crank", [0, 0, 0], [-0.15, 0, 0], driven=True)
    builder.joint("b", joint, "crank", "coupler", [0.15, 0, 0], [-0.4, 0, 0])
    builder.joint("c", joint, "coupler", "rocker", [0.4, 0, 0], [0.35, 0, 0])
    builder.joint("d", joint, "rocker", "world", [-0.35, 0, 0], [0.6, 0, 0])
    return builder.build()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("members", [(), (2, 5)])
@pytest.mark.many
def test_steps_with_efforts_in_between_are_those_of_a_run_with_samples(robot, method, members):
    u = efforts(robot.nv, *members)
    sim = lb.stepper(robot, dt=DT, method=method, members=members)
    state = sim.start(robot.random(np.random.default_rng(2), members))
    times = DT * np.arange(STEPS)
    run = lb.simulate(robot, state.q, t_end=STEPS * DT, dt=DT, tau=(times, u), method=method)
    for k in range(STEPS):
        state = sim.step(state, u[..., k, :])
    assert state.t == pytest.approx(STEPS * DT)
    close = {"rtol": 1e-12, "atol": 1e-12}  # implicit methods solve to round-off
    np.testing.assert_allclose(state.q, run.q[..., -1, :], **close)
    np.testing.assert_allclose(state.v, run.v[..., -1, :], **close)


def test_several_steps_in_one_call_are_as_many_calls(robot):
    sim = lb.stepper(robot, dt=DT)
    one = many = sim.start()
    for _ in range(6):
        one = sim.step(one, 0.1 * np.ones(robot.nv))
    many = sim.step(many, [0.1] * robot.nv, steps=6)
    assert many.t == one.t
    assert (many.y == one.y).all()


def test_a_state_is_not_changed_by_later_steps(robot):
    sim = lb.stepper(robot, dt=DT, method="generalized-alpha")
    first = sim.step(sim.start(), np.ones(robot.nv))
    copy = first.y.copy()
    second = sim.step(first, -np.ones(robot.nv))
    sim.step(sim.step(second, 3 * np.ones(robot.nv)))
    assert (first.y == copy).all()
    assert (sim.step(first, -np.ones(robot.nv)).y == second.y).all()


def test_threads_change_nothing(robot):
    start = robot.random(np.random.default_rng(2), (20,))
    ends = []
    for threads in (1, 2):
        sim = lb.stepper(robot, dt=DT, members=20, threads=threads)
        ends.append(sim.step(sim.start(start), steps=10).y)
    assert (ends[0] == ends[1]).all()


@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha"])
@pytest.mark.many
def test_constrained_systems_keep_their_constraints(method):
    system = four_bar()
    sim = lb.stepper(system, dt=1e-3, method=method)
    state = sim.start()
    run = lb.simulate(system, t_end=0.05, dt=1e-3, method=method, tau=[0.4])
    for _ in range(50):
        state = sim.step(state, [0.4])
    np.testing.assert_allclose(state.q, run.q[-1], rtol=1e-10, atol=1e-10)
    assert np.abs(system.measure(state.q)[0]).max() < 1e-6


class Swelling(lb.mechanisms.JointForce):
    """tau = 1 + t in every joint."""

    def effort(self, t, x, v):
        return 1 + t + 0 * v


@pytest.mark.parametrize("method", ["rkmk4", "cf4", "rkmk-euler"])
def test_the_function_of_a_stepper_makes_its_steps(method):
    robot, rng = lb.load("heavy_top"), np.random.default_rng(0)
    sim = lb.stepper(robot, dt=1e-2, method=method, forces=[Swelling()])
    state, u = sim.step(sim.start(robot.random(rng), rng.normal(size=3)), steps=20), rng.normal(size=3)
    q, v = sim.function()(state.t, state.q, state.v, u)
    after = sim.step(state, u)
    np.testing.assert_allclose(q, after.q, atol=1e-14)
    np.testing.assert_allclose(v, after.v, rtol=1e-13, atol=1e-13)


def test_the_function_of_a_stepper_projects_onto_constraints():
    system = four_bar()
    sim = lb.stepper(system, dt=1e-2)
    state = sim.start()
    q, v = sim.function()(0.0, state.q, state.v, [0.4])
    after = sim.step(state, [0.4])
    np.testing.assert_allclose(q, after.q, atol=1e-13)
    np.testing.assert_allclose(v, after.v, rtol=1e-11, atol=1e-11)
    assert np.abs(system.measure(q)[0]).max() < 1e-9


def test_implicit_steps_are_no_functions():
    with pytest.raises(IntegrationError, match=r"iterates.*rkmk4"):
        lb.stepper(lb.load("double_pendulum"), dt=1e-2, method="radau5").function()


def test_forces_act_in_steps():
    tree = lb.TreeBuilder("slide")
    tree.add("body", lb.Joint("joint", Prismatic([1, 0, 0])), random_inertia(np.random.default_rng(0)))
    robot = lb.Robot(tree.build())
    force = lb.mechanisms.JointSpring(stiffness=30.0)
    sim = lb.stepper(robot, dt=DT, forces=[force])
    state = sim.step(sim.start([0.2]), steps=50)
    run = lb.simulate(robot, [0.2], t_end=50 * DT, dt=DT, forces=[force])
    assert (state.q == run.q[-1]).all()
    assert state.q[0] != 0.2


def test_single_members_begin_anew(robot):
    sim = lb.stepper(robot, dt=DT, members=5, method="generalized-alpha")
    q = robot.random(np.random.default_rng(3), (5,))
    fresh = sim.start(q)
    state = sim.step(fresh, np.ones(robot.nv), steps=7)
    again = sim.reset(state, [1, 3], q[[1, 3]])
    rest = [0, 2, 4]
    assert (again.y[rest] == state.y[rest]).all()
    assert (again.y[[1, 3]] == fresh.y[[1, 3]]).all()
    after, whole = sim.step(again, np.ones(robot.nv)), sim.step(fresh, np.ones(robot.nv))
    np.testing.assert_allclose(after.y[[1, 3]], whole.y[[1, 3]], rtol=1e-12, atol=1e-12)
    mask = np.array([True, False, False, False, False])
    assert (sim.reset(state, mask, q[0]).y[0] == fresh.y[0]).all()


def falling(terminal, members=()):
    """A mass that falls along z, g = 10 m/s2, and the event that it comes to z = 0."""
    tree = lb.TreeBuilder("mass")
    inertia = lb.SpatialInertia(2.0, rotational=np.eye(3))
    tree.add("mass", lb.Joint("z", Prismatic([0, 0, 1])), inertia)

    def floor(t, q, v):
        return q[0]

    floor.terminal = terminal
    robot = lb.Robot(tree.build(), gravity=(0, 0, -10.0))
    return lb.stepper(robot, dt=0.1, events={"floor": floor}, members=members)


def test_events_are_located_within_steps():
    sim = falling(False)
    state, seen = sim.start([1.8]), []  # t = 0.6 at z = 0
    for _ in range(9):
        state = sim.step(state)
        seen += list(state.events.t)
    assert seen == pytest.approx([0.6], abs=1e-12)
    assert state.t == pytest.approx(0.9)
    assert state.q[0] == pytest.approx(1.8 - 5 * 0.81)


def test_a_terminal_event_ends_a_member_until_it_is_reset():
    sim = falling(True, members=3)
    state = sim.start([[0.2], [5.0], [3.2]])
    for _ in range(5):
        state = sim.step(state)
    assert state.ended.tolist() == [True, False, False]
    assert state.q[:, 0] == pytest.approx([0, 5 - 5 * 0.25, 3.2 - 5 * 0.25], abs=1e-12)
    state = sim.step(sim.reset(state, [0], [5.0]))
    assert state.ended.tolist() == [False, False, False]
    assert state.q[0, 0] == pytest.approx(5 - 5 * 0.01)
    assert [len(log) for log in state.events] == [0, 0, 0]


def test_what_does_not_fit_is_refused(robot):
    sim = lb.stepper(robot, dt=DT, members=3)
    with pytest.raises(ShapeError, match=r"u has shape \(2,\)"):
        sim.step(sim.start(), [1.0, 2.0])
    with pytest.raises(ShapeError, match=r"leading axes \(2,\), those of the members to start are \(3,\)"):
        sim.start(robot.random(np.random.default_rng(0), (2,)))
    with pytest.raises(LiebodyError, match="steps is -1"):
        sim.step(sim.start(), steps=-1)
    with pytest.raises(LiebodyError, match="one of another stepper"):
        sim.step(lb.stepper(robot, dt=DT).start())
    with pytest.raises(LiebodyError, match="expected what start, step or reset returned"):
        sim.step(None)
    with pytest.raises(ShapeError, match=r"members are \[3\], expected a mask \(3,\) or indices"):
        sim.reset(sim.start(), [3])
    with pytest.raises(LiebodyError, match="members is 0"):
        lb.stepper(robot, dt=DT, members=0)
    with pytest.raises(IntegrationError, match="dt"):
        lb.stepper(robot, dt=-1.0)


def test_a_lost_step_is_an_error_and_a_lost_member_is_nan(robot):
    huge = np.full(robot.nv, 1e300)
    sim = lb.stepper(robot, dt=DT)
    with pytest.raises(IntegrationError, match=r"the step at t = 0\.002 s cannot be taken"):
        sim.step(sim.step(sim.start()), huge, steps=3)
    assert np.isfinite(sim.step(sim.start()).y).all()  # and the stepper goes on
    with pytest.raises(IntegrationError, match=r"u is \[nan, .*expected finite efforts"):
        sim.step(sim.start(), np.full(robot.nv, np.nan))
    assert repr(sim) == f"Stepper of {robot.name}: dt={DT}"
    sim = lb.stepper(robot, dt=DT, members=2)
    state = sim.step(sim.start(), [huge, 0 * huge], steps=3)
    assert np.isnan(state.y[0]).any()
    assert np.isfinite(state.y[1]).all()


def test_without_a_compiler_steps_are_the_same(robot, monkeypatch):
    u = np.ones(robot.nv)
    sim = lb.stepper(robot, dt=DT)
    expected = sim.step(sim.start(), u, steps=3)
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    monkeypatch.setattr(
        "liebody.compiler.native.libraries._warned", False
    )  # another test may have been warned
    other = lb.Robot(robot.tree)
    with pytest.warns(UserWarning, match="compiler"):
        sim = lb.stepper(other, dt=DT)
        state = sim.step(sim.start(), u, steps=3)
    np.testing.assert_allclose(state.y, expected.y, rtol=1e-12, atol=1e-12)


def test_a_ball_under_a_controller_comes_to_rest_upright():
    """A loop of one's own: an inverted pendulum on a ball joint, held upright by proportional control."""
    tree = lb.TreeBuilder("pendulum")
    inertia = lb.SpatialInertia(1.0, [0, 0, 0.5], rotational=0.01 * np.eye(3))
    tree.add("rod", lb.Joint("ball", Spherical()), inertia)
    robot = lb.Robot(tree.build())
    sim = lb.stepper(robot, dt=1e-3)
    state = sim.start(robot.integrate(robot.neutral(), np.array([0.3, -0.2, 0.0])))
    for _ in range(8000):
        state = sim.step(state, 20 * robot.difference(state.q, robot.neutral()) - 4 * state.v)
    np.testing.assert_allclose(state.q, robot.neutral(), atol=1e-6)
