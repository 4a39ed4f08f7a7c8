"""Simulations and steppers in float32: types of results, and their distance from float64."""

import pickle
from functools import partial

import numpy as np
import pytest

import liebody as lb
from liebody import scalars
from liebody.base.errors import ConfigurationError, IntegrationError, LiebodyError
from liebody.compiler.native import build, libraries
from liebody.mechanisms import JointFriction
from liebody.stepping import Flow

EPS = float(np.finfo(np.float32).eps)
STEPS, STEP = 100, 1e-3


def states(robot, *batch):
    """Configurations and velocities in float32."""
    rng = np.random.default_rng(0)
    q = robot.random(rng, batch).astype(np.float32)
    return q, rng.normal(size=(*batch, robot.nv)).astype(np.float32)


@pytest.fixture(scope="module", params=["puma560", "revolute_hopper"])
def robot(request):
    """An arm, and a robot that floats."""
    return lb.load(request.param)


def both(robot, *batch, **options):
    """Runs in float64 and float32 from the same states."""
    q, v = states(robot, *batch)
    simulate = partial(
        lb.simulate, robot, q, v, **{"t_end": STEPS * STEP, "dt": STEP, "joints": "ideal", **options}
    )
    return simulate(), simulate(dtype="float32")


def assert_close(run, exact):
    """States of float32 are those of float64 but for round-off.

    A step rounds the state, and the acceleration with some ten roundings in a row, to EPS / 2 of the largest
    value. Over 0.1 s differences grow by less than e: together less than EPS a step.
    """
    assert exact.q.dtype == exact.v.dtype == np.float64
    assert run.q.dtype == run.v.dtype == np.float32
    for x, y in ((run.q, exact.q), (run.v, exact.v)):
        bound = STEPS * EPS * max(np.abs(y).max(), 1)
        np.testing.assert_allclose(x, y, rtol=0, atol=bound)
        assert np.abs(x - y).max() > 1e-9  # floats, indeed


@pytest.mark.parametrize("batch", [(), (3,), (5, 8)])
def test_runs_in_float32_agree_with_float64(robot, batch):
    exact, run = both(robot, *batch)
    assert_close(run, exact)
    assert run.t.dtype == run.kinetic.dtype == run.potential.dtype == np.float64
    assert run.batch == batch and run.metadata["dtype"] == "float32"
    assert run.energy_drift < STEPS * EPS


def test_a_falling_body_moves_as_long_as_its_round_off_allows():
    """Steps of a parabola are exact, so that all errors are roundings, which closed formulas bound."""
    body = lb.Robot(lb.models.free_rigid_body().tree, (0, 0, -10.0))
    q0 = np.array([1, 0, 0, 0, 0.5, -0.25, 2])
    v0 = np.array([0, 0, 0, 1, 0.5, 3.0])
    run = lb.simulate(body, q0, v0, t_end=1.0, dt=2.0**-7, dtype="float32")
    t = run.t[:, None]
    v = v0[3:] + t * [0, 0, -10]
    p = q0[4:] + t * v0[3:] + t**2 * [0, 0, -5]
    # Each step rounds the increment and the sum, of velocities up to 7, and of heights up to 3 m.
    of_v = np.arange(len(t))[:, None] * EPS * 7
    assert np.all(np.abs(run.v[:, 3:] - v) <= of_v)
    assert np.all(np.abs(run.q[:, 4:] - p) <= of_v * (t + 3 / 7))
    np.testing.assert_array_equal(run.q[:, :4], np.tile(q0[:4], (len(t), 1)))


@pytest.mark.parametrize("method", ["cf4", "rkmk8", "midpoint"])
def test_explicit_methods_take_steps_in_float32(robot, method):
    assert_close(*reversed(both(robot, 4, method=method)))


def test_the_type_of_states_at_the_start_decides_nothing():
    robot = lb.load("puma560")
    q, v = states(robot, 3)
    simulate = partial(lb.simulate, robot, t_end=0.01, dt=STEP, joints="ideal")
    assert simulate(q, v).q.dtype == simulate(np.zeros(6, int)).q.dtype == np.float64
    run = simulate(q, v, dtype=np.float32)
    for others in ((q.astype(float), v), (q.tolist(), v.astype(float))):
        np.testing.assert_array_equal(simulate(*others, dtype=np.float32).q, run.q)
    np.testing.assert_array_equal(simulate(q, v, dtype="float64").q, simulate(q, v).q)
    # Runs in one type do not change those in the other one, which share the mechanism.
    assert simulate(q, v).q.dtype == np.float64


def test_members_and_threads_do_not_change_a_motion(robot):
    q, v = states(robot, 40)
    simulate = partial(lb.simulate, robot, t_end=0.02, dt=STEP, joints="ideal", dtype="float32")
    run = simulate(q, v)
    np.testing.assert_array_equal(simulate(q, v, threads=3).q, run.q)
    np.testing.assert_array_equal(simulate(q[7:], v[7:]).q, run.q[7:])


def test_efforts_forces_and_parameters():
    robot = lb.load("puma560")
    times = np.linspace(0, 0.1, 14)
    sampled = np.random.default_rng(1).normal(size=(14, 6))
    for options in (
        {"tau": np.arange(6)},
        {"tau": (times, sampled)},  # samples that lie within steps
        {"tau": (times, sampled), "hold": "linear"},
        {"tau": lambda t, q, v: robot.gravity(q) - 0.02 * v + scalars.sin(t)},
        {"tau": lambda t, q, v, p: -p.k * v, "parameters": {"k": np.linspace(0, 0.02, 5)}},
        {"forces": [JointFriction()], "joints": "armature"},
    ):
        exact, run = both(robot, 5, **options)
        assert_close(run, exact)
        if run.tau is not None:
            assert run.tau.dtype == np.float64
            np.testing.assert_allclose(run.tau, exact.tau, rtol=0, atol=1e-4)
        # Work is metered along with the motion: the same round-off, of the energies.
        bound = STEPS * EPS * max(np.abs(exact.energy).max(), np.abs(exact.work_done).max())
        np.testing.assert_allclose(run.work_done, exact.work_done, rtol=0, atol=bound)
        assert run.work_done.dtype == np.float64 and np.abs(run.energy_balance).max() < bound


def test_runs_are_saved_and_tabulated_in_their_type(robot, tmp_path):
    run = both(robot, 3)[1]
    run.save(tmp_path / "run.nc")
    loaded = lb.Run.load(tmp_path / "run.nc")
    copied = pickle.loads(pickle.dumps(run))
    for other in (loaded, copied):
        assert other.q.dtype == other.v.dtype == np.float32 and other.kinetic.dtype == np.float64
        for name in ("t", "q", "v", "kinetic", "potential"):
            np.testing.assert_array_equal(getattr(other, name), getattr(run, name))
    assert loaded.metadata["dtype"] == "float32"
    assert run.member(2).q.dtype == run.to_xarray().q.dtype == np.float32
    run.to_csv(tmp_path / "run.csv")
    assert "dtype float32" in run.summary()


def test_arrays_of_a_run_keep_float32_only_together():
    run = both(lb.load("puma560"))[1]
    fields = {name: getattr(run, name) for name in ("t", "kinetic", "potential", "coordinates", "dofs")}
    assert lb.Run(q=run.q, v=run.v, **fields).q.dtype == np.float32
    for q, v in ((run.q, run.v.astype(float)), (run.q.astype(float), run.v), (run.q.tolist(), run.v)):
        mixed = lb.Run(q=q, v=v, **fields)
        assert mixed.q.dtype == mixed.v.dtype == np.float64


@pytest.mark.parametrize("members", [None, 20])
def test_steppers_in_float32(robot, members):
    batch = () if members is None else (members,)
    q, v = states(robot, *batch)
    make = partial(lb.stepper, robot, dt=STEP, members=members, joints="ideal")
    sim = make(dtype="float32")
    state = sim.start(q, v)
    for _ in range(10):
        state = sim.step(state)
    assert state.q.dtype == state.v.dtype == state.y.dtype == np.float32
    run = lb.simulate(robot, q, v, t_end=10 * STEP, dt=STEP, joints="ideal", dtype="float32")
    np.testing.assert_array_equal(state.q, run.q[..., -1, :])
    np.testing.assert_array_equal(sim.step(sim.start(q, v), steps=10).y, state.y)
    # Pickles hold a stepper with its states; steppers of the other type do not take them.
    again, copied = pickle.loads(pickle.dumps((sim, state)))
    np.testing.assert_array_equal(again.step(copied).y, sim.step(state).y)
    with pytest.raises(LiebodyError):
        make().step(state)


def test_members_of_a_stepper_are_reset_in_float32():
    robot = lb.load("puma560")
    q, v = states(robot, 6)
    sim = lb.stepper(robot, dt=STEP, members=6, dtype=np.float32)
    state = sim.reset(sim.step(sim.start(q, v)), [1, 4], q[:2].astype(float))
    assert state.y.dtype == np.float32
    np.testing.assert_array_equal(state.q[[1, 4]], q[:2])
    assert sim.step(state, np.ones(6)).y.dtype == np.float32


def test_a_member_that_is_lost_is_named():
    robot = lb.load("puma560")
    q, v = states(robot, 3)
    v[1] *= 1e30
    with pytest.warns(lb.simulation.DivergedMembers, match="1 of 3 members"):
        run = lb.simulate(robot, q, v, t_end=0.01, dt=STEP, joints="ideal", dtype="float32")
    assert list(run.finite) == [True, False, True]


def test_without_a_compiler_states_are_rounded_after_each_step(robot, monkeypatch):
    exact, run = both(robot, 3)
    monkeypatch.setattr(libraries.Libraries, "over", lambda self, many: None)
    slow = both(robot, 3)[1]
    assert_close(slow, exact)
    np.testing.assert_allclose(slow.q, run.q, rtol=0, atol=STEPS * EPS * np.abs(run.q).max())


def test_what_float32_cannot_do_is_refused_with_a_remedy():
    robot = lb.load("puma560")
    simulate = partial(lb.simulate, robot, t_end=0.1, dtype="float32")
    with pytest.raises(IntegrationError, match="generalized-alpha solves its equations to the round-off"):
        simulate(dt=STEP, method="generalized-alpha")
    with pytest.raises(LiebodyError, match="dtype is float16, expected float64 or float32"):
        lb.simulate(robot, t_end=0.1, dt=STEP, dtype="float16")
    with pytest.raises(IntegrationError, match="steps in float32 are compiled, and tau cannot be traced"):
        simulate(dt=STEP, tau=lambda t, q, v: np.array([float(x) for x in q]))
    with pytest.raises(IntegrationError, match="generalized-alpha"):
        lb.stepper(robot, dt=STEP, method="generalized-alpha", dtype="float32")
    sim = lb.stepper(robot, dt=STEP, dtype="float32")
    for start in (simulate, sim.start):
        options = {"dt": STEP} if start is simulate else {}
        with pytest.raises(ConfigurationError, match=r"q0 has the number -1e\+39, .* ends at 3.4e\+38"):
            start(q0=[-1e39, 0, 0, 0, 0, 0], **options)
        with pytest.raises(ConfigurationError, match=r"v0 has the number 1e\+40"):
            start(v0=[[0.0] * 6, [1e40, 0, 0, 0, 0, 0]] if start is simulate else [1e40] * 6, **options)


def test_recipes_of_the_types_differ(robot):
    flows = [make()._flow for make in (partial(lb.stepper, robot, dt=STEP, dtype=x) for x in ("f4", "f8"))]
    assert all(isinstance(flow, Flow) for flow in flows)
    assert flows[0].identity != flows[1].identity
    if build.find_compiler() is not None:
        assert "float" in flows[0].source() and flows[0].source() != flows[1].source()
