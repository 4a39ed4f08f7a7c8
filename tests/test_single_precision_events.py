"""Motions in float32 whose members have times of their own: events, hybrid systems, time stepping."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from test_hybrid_systems import ball
from test_time_stepping import cornered_block

import liebody as lb
from liebody import scalars
from liebody.base.errors import ConfigurationError, IntegrationError, ModelError
from liebody.bodies import SpatialInertia
from liebody.compiler.native import libraries
from liebody.contact import Contact, TimeStepping
from liebody.groups import R
from liebody.hybrid import HybridSystem, robot_system
from liebody.mechanisms.constrained import SystemBuilder
from liebody.scalars import Table

EPS = float(np.finfo(np.float32).eps)
MASS, G = 2.0, 9.81


@pytest.fixture(scope="module")
def arm():
    return lb.load("puma560")


def states(robot, n):
    rng = np.random.default_rng(0)
    return robot.random(rng, (n,)), rng.normal(size=(n, robot.nv))


@pytest.fixture(scope="module")
def block():
    """A block with a point in each lower corner, on a floor."""
    tree, corners = cornered_block(MASS)
    floor = Contact(*corners, stiffness=1e5, damping=1e3, friction=0.4)
    return TimeStepping(tree, floor)


AT_REST = np.array([1, 0, 0, 0, 0, 0, 0.05])


def turned(t, q, v):
    return q[0] - 0.5


turned.terminal = True


# -- events of simulations -----------------------------------------------------------------------------------


def test_events_are_those_of_float64(arm):
    q, v = states(arm, 20)
    events = {"first": lambda t, q, v: q[0] - 0.01, "second": lambda t, q, v: v[1]}
    simulate = partial(lb.simulate, arm, q, v, t_end=0.5, dt=1e-3, events=events, joints="ideal")
    exact, run = simulate(), simulate(dtype="float32")
    assert run.q.dtype == np.float32 and run.t.dtype == np.float64
    np.testing.assert_allclose(run.q, exact.q, rtol=0, atol=500 * EPS * np.abs(exact.q).max())
    some = 0
    for ours, theirs in zip(run.events, exact.events, strict=True):
        assert ours.guard == theirs.guard and ours.t.dtype == np.float64
        # Times differ by the error of the guard over its rate, which is not small in these motions.
        np.testing.assert_allclose(ours.t, theirs.t, rtol=0, atol=1e-5)
        some += len(ours.t)
    assert some > 5
    np.testing.assert_array_equal(simulate(dtype="float32", threads=3).q, run.q)


def test_a_terminal_event_ends_a_stepper_in_float32(arm):
    sim = lb.stepper(arm, dt=1e-2, members=2, events={"turned": turned}, joints="ideal", dtype="float32")
    state = sim.start(np.zeros(6), [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    for _ in range(100):
        state = sim.step(state, arm.gravity(state.q))
    assert state.y.dtype == np.float32 and list(state.ended) == [True, False]
    assert abs(state.q[0, 0] - 0.5) < 2 * EPS
    again, copied = pickle.loads(pickle.dumps((sim, state)))
    np.testing.assert_array_equal(again.step(copied).y, sim.step(state).y)


# -- hybrid systems ------------------------------------------------------------------------------------------


def test_a_bouncing_ball_in_float32():
    system = ball()
    heights = np.linspace(0.5, 1.5, 20)[:, None]
    simulate = partial(system.simulate, heights, t_end=3.0, record_every=0.1)
    exact, run = simulate(), simulate(dtype=np.float32)
    assert run.q.dtype == run.v.dtype == np.float32
    assert run.memory["hits"].dtype == run.work["drag"].dtype == np.float64
    np.testing.assert_array_equal(run.memory["hits"], exact.memory["hits"])
    assert run.metadata["dtype"] == "float32"
    # Each of at most 6500 steps rounds velocities of up to 6 m/s.
    steps = run.counts[:, 2].max()
    assert steps < 6500
    np.testing.assert_allclose(run.v, exact.v, rtol=0, atol=steps * EPS * 6)
    np.testing.assert_array_equal(simulate(dtype="float32", threads=3).q, run.q)
    np.testing.assert_array_equal(simulate().q, exact.q)


def test_hybrid_runs_in_float32_are_saved(tmp_path):
    run = ball().simulate([1.0], t_end=1.0, dtype="float32")
    run.save(tmp_path / "run.nc")
    for other in (lb.Run.load(tmp_path / "run.nc"), pickle.loads(pickle.dumps(run))):
        assert other.q.dtype == np.float32
        np.testing.assert_array_equal(other.q, run.q)
        np.testing.assert_array_equal(other.memory["hits"], run.memory["hits"])


def test_contacts_of_robots_in_float32():
    robot = lb.load("revolute_hopper")
    system = robot_system(robot, Contact("foot", stiffness=1e4, damping=100.0, friction=0.8))
    q = np.tile(robot.neutral(), (5, 1))
    q[:, 2] += np.linspace(0.2, 0.4, 5)
    exact, run = (system.simulate(q, t_end=0.3, dtype=x) for x in (np.float64, np.float32))
    assert run.q.dtype == np.float32
    np.testing.assert_allclose(run.q, exact.q, rtol=0, atol=1e-3)


# -- time stepping -------------------------------------------------------------------------------------------


def test_a_block_rests_and_slides_in_float32(block):
    pushed = np.zeros((2, 6))
    pushed[1, 3] = 2.0
    run = block.simulate(AT_REST, pushed, t_end=0.4, dt=2e-3, record_every=0.02, dtype="float32")
    assert run.q.dtype == np.float32
    # The rest of the block sinks by m g / (4 k), and its forces carry it.
    np.testing.assert_allclose(run.outputs["floor_force"][0, -1, :, 2].sum(), MASS * G, rtol=1e-4)
    assert np.abs(run.q[0, :, 4:6]).max() < 1e-5
    # Coulomb's law along x: v = v0 - mu g t, by the first order of the method in its start.
    np.testing.assert_allclose(run.v[1, 1:, 3], 2 - 0.4 * G * run.t[1:], atol=1e-2)


@pytest.mark.parametrize("step", [1e-3, 3e-3, 7e-4, 1e-4])
def test_steps_that_fit_between_records_are_as_many_as_in_float64(block, step):
    """A step that is rounded to float32 leaves no sliver at the end, after 7 to 1000 steps."""
    for rows, every in ((3, 7), (2, 1000)):
        simulate = partial(block.simulate, AT_REST, t_end=rows * every * step, record_every=every * step)
        exact, run = (simulate(dt=step, dtype=x) for x in ("float64", "float32"))
        assert run.counts[2] == exact.counts[2] == rows * every
        np.testing.assert_allclose(run.q, exact.q, rtol=0, atol=1e-5)


def test_steppers_of_time_stepping_in_float32(block):
    make = partial(lb.stepper, block, dt=0.02, members=11)
    sim, exact = make(dtype="float32"), make()
    v = np.random.default_rng(0).normal(size=(11, 6))
    v[:, 5] = 0
    ours, theirs = sim.start(AT_REST, v), exact.start(AT_REST, v)
    for _ in range(10):
        ours, theirs = sim.step(ours), exact.step(theirs)
    assert ours.q.dtype == ours.v.dtype == np.float32
    assert ours.contact_forces.dtype == np.float64
    np.testing.assert_allclose(ours.q, theirs.q, rtol=0, atol=1e-4)
    # 4 kN m between a tenth of a micrometre of the corners: forces are as accurate as heights allow.
    np.testing.assert_allclose(ours.contact_forces, theirs.contact_forces, rtol=0, atol=0.1)
    ours = sim.reset(ours, [2, 5], AT_REST)
    ours = sim.replace(ours, [3], v=np.ones(6))
    assert ours.v.dtype == np.float32
    np.testing.assert_array_equal(ours.v[[2, 3]], [np.zeros(6), np.ones(6)])
    again, copied = pickle.loads(pickle.dumps((sim, ours)))
    np.testing.assert_array_equal(again.step(copied).q, sim.step(ours).q)
    assert sim.takes(again) and not sim.takes(exact)


def test_steps_are_repeated_to_a_tolerance_in_float32(block):
    robot, elements = block._description
    system = TimeStepping(robot, *elements, tolerance=1e-2)
    v = np.array([0.1, 0.2, 0, 1.0, 0.5, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # UnsolvedSteps
        exact, run = (system.simulate(AT_REST, v, t_end=0.2, dt=2e-3, dtype=x) for x in ("f8", "f4"))
    assert run.memory["residual"].max() < 1e-2
    np.testing.assert_allclose(run.q, exact.q, rtol=0, atol=1e-4)


def test_members_of_time_stepping_depend_on_nobody_else(block):
    v = np.random.default_rng(1).normal(size=(40, 6))
    simulate = partial(block.simulate, AT_REST, t_end=0.1, dt=2e-3, dtype="float32")
    run = simulate(v)
    np.testing.assert_array_equal(simulate(v, threads=3).q, run.q)
    np.testing.assert_array_equal(simulate(v[7:]).q, run.q[7:])


def test_hybrid_systems_without_a_compiler_are_rounded_after_each_step(block, monkeypatch):
    simulate = partial(block.simulate, AT_REST, t_end=0.02, dt=2e-3, dtype="float32")
    run = simulate()
    monkeypatch.setattr(libraries.Libraries, "over", lambda self, many: None)
    slow = simulate()
    assert slow.q.dtype == np.float32
    np.testing.assert_allclose(slow.q, run.q, rtol=0, atol=1e-6)


# -- other callers, refusals ---------------------------------------------------------------------------------


def test_sweeps_are_sealed_in_float32(arm, tmp_path):
    pytest.importorskip("zarr", reason="the extra `sweep` is not installed")
    store = tmp_path / "sweep.zarr"
    options = {"q0": ["angle", 0, 0, 0, 0, 0], "t_end": 0.01, "dt": 1e-3, "workers": 0, "progress": False}
    sweep = partial(lb.sweep, arm, {"angle": np.linspace(0, 1, 20)}, store, **options)
    first = sweep(dtype="float32")
    assert first.q.dtype == first.v.dtype == np.float32 and first.kinetic.dtype == np.float64
    values = first.q.values.copy()
    lb.sweep.verify(store)
    np.testing.assert_array_equal(sweep(dtype="float32").q.values, values)
    with pytest.raises(lb.LiebodyError, match="dtype"):
        sweep()


def test_environments_are_stepped_in_float32():
    gym = pytest.importorskip("liebody.interop.gym", reason="gymnasium is not installed")
    task = gym.Hopper(horizon=25)
    envs, exact = (gym.VectorEnv(task, 6, dtype=x) for x in ("float32", "float64"))
    for each in (envs, exact):
        each.reset(seed=3)
    assert envs.state.q.dtype == np.float32 and exact.state.q.dtype == np.float64
    rng = np.random.default_rng(0)
    for _ in range(3):
        action = rng.uniform(-1, 1, (6, 2))
        ours, theirs = envs.step(action)[0], exact.step(action)[0]
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_what_float32_cannot_do_is_refused_with_a_remedy(arm):
    with pytest.raises(IntegrationError, match=r"error control is for tolerances .*; give dt"):
        lb.simulate(arm, t_end=0.1, dtype="float32")
    builder = SystemBuilder("swing").body("bob", SpatialInertia.box(1.0, (0.1, 0.1, 0.1)))
    swing = builder.rod("rod", "world", "bob", on_a=[0, 0, 1.0]).build()
    for make in (partial(lb.simulate, t_end=0.1), lb.stepper):
        with pytest.raises(IntegrationError, match=r"swing has constraints, .*; leave out dtype"):
            make(swing, dt=1e-3, dtype="float32")
    heights = HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([-scalars.lookup(p.map, q[0])]),
        parameters={"map": Table(np.arange(5.0))},
        step=lambda t, q, v, z, p: 0.1,
    )
    assert heights.simulate([1.0], t_end=0.1).q.dtype == np.float64
    for start in (
        lambda q: ball().simulate(q, t_end=0.1, dtype="float32"),
        lambda q: lb.stepper(ball(), dt=0.1, dtype="float32").start(q),
    ):
        with pytest.raises(ConfigurationError, match=r"q0 has the number 1e\+39, .*leave out dtype"):
            start([1e39])
    for make in (partial(heights.simulate, [1.0], t_end=0.1), partial(lb.stepper, heights, dt=0.1)):
        with pytest.raises(ModelError, match=r"parameter 'map' .* address does not fit"):
            make(dtype="float32")
