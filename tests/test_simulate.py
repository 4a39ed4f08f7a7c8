"""Simulations: on the manifold to round-off, of the order of their method, equal however they are run."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import warnings
import weakref
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from constrained_models import three_bar
from random_trees import random_tree
from scipy.integrate import solve_ivp as scipy_solve_ivp

import liebody as lb
from liebody import scalars
from liebody.base.errors import GraphError, IntegrationError, ModelError
from liebody.bodies import Joint, TreeBuilder
from liebody.groups import SO3, Fixed, Revolute, Spherical
from liebody.integrators.methods import any_method
from liebody.io import pinocchio_layout
from liebody.simulation.simulate import CalledEfforts, DivergedMembers

STEPS = 100_000


def final_rotation(run):
    return SO3.element(run.q[-1, :4])


@pytest.mark.parametrize("method", ["rkmk4", "cf4", "variational", "half-explicit4"])
@pytest.mark.many
def test_without_a_step_or_an_estimate_of_errors_steps_are_of_a_millisecond(method):
    """They fit into the time, or from record to record; methods that estimate errors choose their steps."""
    robot, q0 = lb.models.double_pendulum(), [1.0, 0.5]
    for t_end, every, dt in (
        (1.0, None, 1e-3),
        (0.0625, None, 0.0625 / 63),
        (0.3, 0.15, 1e-3),
        (1e-4, None, 1e-4),
    ):
        run = lb.simulate(robot, q0, t_end=t_end, record_every=every, method=method)
        assert run.metadata["dt"] == pytest.approx(dt, rel=1e-14) and run.t[-1] == pytest.approx(
            t_end, rel=1e-14
        )
        same = lb.simulate(robot, q0, t_end=t_end, dt=run.metadata["dt"], record_every=every, method=method)
        np.testing.assert_array_equal(run.q, same.q)
    assert "dt" not in lb.simulate(robot, q0, t_end=0.1, method="rkmk45").metadata


def test_without_a_step_and_a_method_errors_are_controlled_by_the_default_of_solve_ivp():
    robot, q0 = lb.models.double_pendulum(), [2.0, 0.5]
    exact = lb.simulate(robot, q0, t_end=2.0, dt=2e-4, method="rkmk8").q[-1]
    run = lb.simulate(robot, q0, t_end=2.0, record_every=0.5)
    field = inspect.signature(inspect.unwrap(lb.solve_ivp)).parameters["method"].default
    assert run.metadata["method"] == any_method(field).name and "dt" not in run.metadata
    # The error follows the tolerances, which steps of one length would not know.
    errors = [
        np.abs(lb.simulate(robot, q0, t_end=2.0, record_every=2.0, rtol=x, atol=x).q[-1] - exact).max()
        for x in (1e-4, 1e-7, 1e-10)
    ]
    assert errors[0] > 10 * errors[1] > 100 * errors[2] and np.abs(run.q[-1] - exact).max() < 1e-7
    assert lb.simulate(robot, q0, t_end=0.1, dt=1e-2).metadata["method"] == any_method("rkmk4").name


def test_efforts_that_can_only_be_called_need_no_step_either():
    def brake(t, q, v):
        return -0.1 * np.array([float(x) for x in v])

    robot, q0 = lb.models.double_pendulum(), [1.0, 0.5]
    with pytest.warns(CalledEfforts, match="called at every stage"):
        run = lb.simulate(robot, q0, t_end=0.05, tau=brake)
    assert run.metadata["dt"] == 1e-3 and run.metadata["efforts"] == "called"
    controlled = lb.simulate(robot, q0, t_end=0.05, tau=lambda t, q, v: -0.1 * v)
    np.testing.assert_allclose(run.q[-1], controlled.q[-1], atol=1e-9)
    with pytest.raises(IntegrationError, match="or give a fixed step dt"):
        lb.simulate(robot, q0, t_end=0.05, tau=brake, rtol=1e-6)


def test_the_heavy_top_reaches_the_published_value():
    robot = lb.load("heavy_top")

    def omega_y(method, dt):
        run = lb.simulate(robot, v0=[0, 150, -4.61538], t_end=2.0, dt=dt, method=method, record_every=2.0)
        return (final_rotation(run) @ run.v[-1])[1]

    assert omega_y("rkmk4", 1e-3) == pytest.approx(-106.166519664, abs=1e-8)  # Exudyn's RK44 with this step
    converged = -106.16380414307  # Exudyn: RK67 with 1e-4, and DOPRI5 at 1e-14, agree to these digits
    assert omega_y("rkmk4", 1e-5) == pytest.approx(converged, abs=1e-9)
    assert omega_y("rkmk6", 1e-4) == pytest.approx(converged, abs=1e-9)
    run = lb.simulate(robot, v0=[0, 150, -4.61538], t_end=2.0, rtol=1e-12, atol=1e-13, method="rkmk45")
    assert (final_rotation(run) @ run.v[-1])[1] == pytest.approx(converged, abs=1e-8)


def test_attitude_of_the_heavy_top_against_scipy_on_quaternions():
    robot = lb.load("heavy_top")
    I = np.diag([15.234375, 0.46875, 15.234375])

    def rate(t, y):
        p, w = y[:4], y[4:]
        R = SO3.element(p / np.linalg.norm(p))
        dp = 0.5 * np.array([-p[1:] @ w, *(p[0] * w + np.cross(p[1:], w))])
        dw = np.linalg.solve(I, np.cross(I @ w, w) + 15 * np.cross([0, 1, 0], R.T @ [0, 0, -9.81]))
        return np.concatenate([dp, dw])

    reference = scipy_solve_ivp(
        rate, (0, 0.5), [1, 0, 0, 0, 0, 150, -4.61538], "DOP853", rtol=1e-13, atol=1e-13
    ).y[:, -1]
    R = SO3.element(reference[:4] / np.linalg.norm(reference[:4]))
    steps = np.array([1e-3, 5e-4, 2.5e-4])
    errors = [
        np.linalg.norm(final_rotation(lb.simulate(robot, v0=[0, 150, -4.61538], t_end=0.5, dt=h)) - R)
        for h in steps
    ]
    slopes = np.diff(np.log(errors)) / np.diff(np.log(steps))
    assert np.all(np.abs(slopes - 4) < 0.05), (slopes, errors)


@pytest.mark.parametrize(
    ("method", "order"), [("rkmk1", 1), ("rkmk2", 2), ("rkmk3", 3), ("rkmk4", 4), ("rkmk45", 5), ("rkmk6", 6)]
)
@pytest.mark.many
def test_compiled_steps_have_the_order_of_their_method(method, order):
    """On a tree with ball, planar and screw joints, against 50 times finer steps of order six."""
    robot = lb.Robot(random_tree(np.random.default_rng(2), ["spherical", "planar", "helical"], rotors=False))
    q0 = robot.random(3)
    v0 = np.random.default_rng(4).standard_normal(robot.nv)
    t_end = 0.2
    exact = lb.simulate(robot, q0, v0, t_end=t_end, dt=t_end / 2000, method="rkmk6", record_every=t_end)
    counts = {1: (400, 800), 2: (100, 200), 3: (40, 80), 4: (20, 40), 5: (12, 24), 6: (10, 20)}[order]
    errors = []
    for n in counts:
        run = lb.simulate(robot, q0, v0, t_end=t_end, dt=t_end / n, method=method, record_every=t_end)
        errors.append(
            np.linalg.norm(np.r_[robot.difference(exact.q[-1], run.q[-1]), exact.v[-1] - run.v[-1]])
        )
    slope = np.log2(errors[0] / errors[1])
    assert slope > order - 0.2, (slope, errors)
    if order < 5:
        assert abs(slope - order) < 0.2, (slope, errors)


@pytest.mark.parametrize("model", ["free_rigid_body", "spherical_pendulum"])
def test_many_steps_keep_quaternions_unit_and_energy_to_the_fourth_order(model):
    robot = lb.load(model)
    rng = np.random.default_rng(1)
    v0 = rng.standard_normal(robot.nv)
    drifts = []
    for h in (2e-3, 1e-3):
        run = lb.simulate(robot, None, v0, t_end=STEPS * 1e-3, dt=h)
        norm = np.linalg.norm(run.q[:, :4], axis=1)
        assert np.abs(norm - 1).max() < 1e-14
        energy = run.energy
        drifts.append(np.abs(energy - energy[0]).max() / run.kinetic.max())
    # Either at round-off already, or falling by 2^4 at least (RK4's drift of energy is of order 4, or 5 when
    # dissipative)
    assert drifts[1] < 1e-9
    assert drifts[1] < 5e-13 or drifts[0] / drifts[1] > 14, drifts


@pytest.mark.wide
def test_ensembles_are_what_their_members_are_alone():
    robot = lb.Robot(random_tree(np.random.default_rng(7), ["free", "revolute", "spherical"]))
    q0 = robot.random(0, (3, 5))
    v0 = np.random.default_rng(1).standard_normal((3, 5, robot.nv))
    options = {"t_end": 0.105, "dt": 1e-2, "record_every": 0.02}
    together = lb.simulate(robot, q0, v0, threads=2, **options)
    assert together.q.shape == (3, 5, 7, robot.nq)
    strided = lb.simulate(robot, np.asfortranarray(q0[0]), np.asfortranarray(v0[0]), **options)
    np.testing.assert_allclose(strided.q, together.q[0], atol=1e-11)
    np.testing.assert_allclose(together.t, [0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.105])
    for i, j in ((0, 0), (2, 4), (1, 2)):
        alone = lb.simulate(robot, q0[i, j], v0[i, j], **options)
        np.testing.assert_allclose(alone.q, together.q[i, j], atol=1e-11)
        np.testing.assert_allclose(alone.v, together.v[i, j], atol=1e-10)
        np.testing.assert_allclose(alone.energy, together.energy[i, j], rtol=1e-9)


def arm():
    return lb.load("puma560")


@pytest.mark.parametrize("method", ["rkmk45", "radau5"])
def test_a_record_with_longer_intervals_than_the_run_has_its_ends(method):
    run = lb.simulate(lb.load("double_pendulum"), t_end=0.5, method=method, record_every=2.0)
    np.testing.assert_array_equal(run.t, [0, 0.5])


def test_efforts_constant_sampled_traced_and_called_agree():
    robot = arm()
    constant = np.linspace(-1, 1, robot.nv)
    options = {"t_end": 0.05, "dt": 1e-3}
    expected = lb.simulate(robot, tau=constant, **options)
    times = np.linspace(0, 0.1, 11)
    for tau in ((times, np.tile(constant, (11, 1))), lambda t, q, v: constant):
        np.testing.assert_allclose(lb.simulate(robot, tau=tau, **options).q, expected.q, atol=1e-13)
    with pytest.warns(CalledEfforts):
        called = lb.simulate(robot, tau=lambda t, q, v: constant + 0 * np.asarray(v, float), **options)
    np.testing.assert_allclose(called.q, expected.q, atol=1e-13)


def test_feedback_that_traces_is_compiled_and_any_other_is_called():
    robot = arm()
    q0 = robot.random(0)

    def damper(t, q, v):
        return -3.0 * v - 10.0 * scalars.sin(q) * (1 + t)

    def opaque(t, q, v):
        return damper(float(t), np.array(q, float), np.array(v, float))

    compiled = lb.simulate(robot, q0, tau=damper, t_end=0.1, dt=1e-3)
    with pytest.warns(CalledEfforts, match=r"at `return damper\(float\(t\).*`.*cannot become a float"):
        called = lb.simulate(robot, q0, tau=opaque, t_end=0.1, dt=1e-3)
    assert compiled.metadata["efforts"] == "compiled"
    assert called.metadata["efforts"] == "called"
    np.testing.assert_allclose(compiled.q, called.q, atol=1e-11)
    with pytest.warns(CalledEfforts):
        ensemble = lb.simulate(robot, np.stack([q0, robot.neutral()]), tau=opaque, t_end=0.1, dt=1e-3)
    np.testing.assert_allclose(ensemble.q[0], called.q, atol=1e-11)


def test_a_controller_may_call_methods_of_its_robot_and_is_compiled():
    """A PD controller that holds the weight: from rest at its goal the arm stays, and next to it returns."""
    robot = arm()
    goal = robot.random(1)
    robot.gravity(goal)  # from now on a built-in function, which meets symbols below

    def controller(t, q, v):
        return 400 * (goal - q) - 40 * v + robot.gravity(q)

    run = lb.simulate(robot, goal, tau=controller, t_end=0.5, dt=1e-3)
    assert run.metadata["efforts"] == "compiled"
    np.testing.assert_allclose(run.q[-1], goal, atol=1e-12)
    np.testing.assert_allclose(run.tau[-1], robot.gravity(goal), rtol=1e-9, atol=1e-9)
    beside = lb.simulate(robot, goal + 0.1, tau=controller, t_end=5.0, dt=1e-3)
    np.testing.assert_allclose(beside.q[-1], goal, atol=1e-6)


def test_a_controller_that_calls_what_cannot_be_traced_is_called_and_says_what_it_was():
    """A pseudo-inverse takes singular values, which symbols have not."""
    robot = arm()
    q0, hand = robot.random(0), robot.tree.bodies[-1].name

    def tau(t, q, v):
        return np.linalg.pinv(robot.jacobian(q, hand)) @ np.ones(6)

    with pytest.warns(CalledEfforts, match=r"linalg.pinv\(robot.jacobian.*test_simulate.py, line \d+"):
        run = lb.simulate(robot, q0, tau=tau, t_end=0.01, dt=1e-3)
    np.testing.assert_array_equal(run.tau[3], tau(run.t[3], run.q[3], run.v[3]))
    with pytest.raises(lb.LiebodyError, match=r"cannot be traced at `.*linalg.pinv.*give a fixed step"):
        lb.simulate(robot, q0, tau=tau, t_end=0.01, method="rkmk45")
    with pytest.raises(lb.LiebodyError, match=r"variational differentiates efforts.*linalg.pinv"):
        lb.simulate(robot, q0, tau=tau, t_end=0.01, dt=1e-3, method="variational")


def test_a_rigid_body_is_refused_with_the_call_that_takes_it():
    body = lb.RigidBody(SO3, np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(lb.LiebodyError, match=r"RigidBody\(SO3\) is a field: lb.solve_ivp"):
        lb.simulate(body, t_end=1.0, dt=1e-3)


@pytest.mark.parametrize("tau", [lambda q, v: v, lambda t, q, v, *, gain: v, lambda: 0])
def test_efforts_of_other_arguments_are_refused_with_those_that_are_given(tau):
    with pytest.raises(
        lb.LiebodyError, match=r"tau has to be a function of \(t, q, v\), or of \(t, q, v, p\)"
    ):
        lb.simulate(arm(), tau=tau, t_end=0.01, dt=1e-3)


def test_efforts_that_fail_on_numbers_too_are_an_error_with_advice():
    """NumPy refuses -True, and its own advice, `~`, would mean something else; a mere slip stays one."""
    robot = lb.load("double_pendulum")
    options = {"t_end": 0.1, "dt": 1e-2}
    advice = r"numpy boolean negative.*at `.*`.*scalars\.where\(condition, 1\.0, 0\.0\)"
    with pytest.raises(GraphError, match=advice):
        lb.simulate(robot, tau=lambda t, q, v: np.array([-(q[0] > 0.1) * 1.0, 0.0]), **options)
    with pytest.raises(NameError, match="gains"):
        lb.simulate(robot, tau=lambda t, q, v: gains * v, **options)  # noqa: F821
    with pytest.raises(lb.LiebodyError, match=r"shape \(1,\), expected \(2,\)"):
        lb.simulate(robot, tau=lambda t, q, v: np.array([float(q[0])]), **options)


def test_a_member_that_is_lost_does_not_stop_efforts_that_are_called():
    """The robot's functions refuse the NaN of its state; the other members go on."""
    robot = lb.load("double_pendulum")

    def tau(t, q, v):
        return robot.gravity(np.asarray(q, float)) + (1e6 * v if q[0] > 0.2 else 0 * v)

    q0 = np.array([[0.0, 0.0], [1.0, 0.5]])
    with pytest.warns(DivergedMembers, match=r"1 of 2 members.*\(1,\)"), pytest.warns(CalledEfforts):
        run = lb.simulate(robot, q0, [[0.0, 0.0], [1.0, 1.0]], tau=tau, t_end=0.5, dt=1e-2)
    assert np.isnan(run.tau[1, -1]).all() and np.isfinite(run.tau[1, 0]).all()
    np.testing.assert_allclose(run.tau[0], robot.gravity(run.q[0]))


SAMPLED = np.random.default_rng(8).standard_normal((2, 4, 2))  # for two members, 20 ms apart


@pytest.mark.parametrize("members", [(), (2,)])
@pytest.mark.parametrize("kind", ["constant", "zero", "linear", "compiled", "called"])
@pytest.mark.many
def test_a_run_knows_its_efforts_however_they_were_given(tmp_path, kind, members):
    """Constant, sampled or by a function, of one or of members; where samples jump, after the jump."""
    robot = lb.load("double_pendulum")
    q0 = np.broadcast_to([1.0, 0.5], (*members, 2))
    samples = SAMPLED if members else SAMPLED[0]
    times = 0.02 * np.arange(4)
    records = np.arange(9)  # every 10 ms, so that every other one is at a sample; the last two after them
    held = np.minimum(records // 2, 3)
    halves = (samples[..., held, :] + samples[..., np.minimum((records + 1) // 2, 3), :]) / 2
    tau, options = {
        "constant": (samples[..., 0, :], {}),
        "zero": ((times, samples), {"hold": "zero"}),
        "linear": ((times, samples), {"hold": "linear"}),
        "compiled": (lambda t, q, v: t - 2 * v, {}),
        "called": (lambda t, q, v: float(t) - 2 * np.asarray(v, float), {}),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalledEfforts)
        run = lb.simulate(robot, q0, tau=tau, t_end=0.08, dt=0.01, **options)
    np.testing.assert_allclose(run.t, 0.01 * records, atol=1e-15)
    expected = {
        "constant": np.repeat(samples[..., :1, :], 9, axis=-2),
        "zero": samples[..., held, :],
        "linear": halves,
    }.get(kind, run.t[:, None] - 2 * run.v)
    one = run.member(*(1,) * len(members))
    np.testing.assert_allclose(run.tau, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(one.tau, run.tau[1] if members else run.tau)
    run.save(tmp_path / "run.nc")
    for twin in (lb.Run.load(tmp_path / "run.nc"), pickle.loads(pickle.dumps(run)), copy.copy(run)):
        np.testing.assert_array_equal(twin.tau, run.tau)
    dataset = run.to_xarray()
    assert dataset.tau.dims[-2:] == ("time", "dof")
    np.testing.assert_array_equal(dataset.tau, run.tau)


def test_a_run_without_efforts_has_none():
    run = lb.simulate(lb.load("double_pendulum"), t_end=0.1, dt=1e-2)
    assert run.tau is None and "tau" not in run.to_xarray()


def test_efforts_are_computed_once_and_only_when_they_are_asked_for():
    calls = []

    def tau(t, q, v):
        calls.append(float(t))
        return -np.asarray(v, float)

    with pytest.warns(CalledEfforts):
        run = lb.simulate(lb.load("double_pendulum"), [1.0, 0.5], tau=tau, t_end=0.1, dt=1e-2)
    before = len(calls)
    one = run.member()
    assert len(calls) == before
    np.testing.assert_array_equal(one.tau, -run.v)
    np.testing.assert_array_equal(run.tau, -run.v)
    assert len(calls) == before + 11 and "tau" not in run.later


@pytest.mark.parametrize("dt", [0.0125, 0.07, 0.7])
@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_sampled_efforts_are_held_or_interpolated(hold, dt):
    """On a single hinge without gravity: the speed is the integral of the effort, whatever the step is."""
    tree = lb.TreeBuilder("wheel").add(
        "rim", lb.Joint("hub", Revolute([0, 0, 1])), lb.SpatialInertia.sphere(1.0, 1.0)
    )
    robot = lb.Robot(tree.build(), gravity=(0, 0, 0))
    inertia = 0.4
    times = np.linspace(0, 1, 5)
    values = np.array([1.0, -2.0, 3.0, 0.5, 4.0])
    run = lb.simulate(robot, tau=(times, values[:, None]), t_end=1.5, dt=dt, hold=hold)
    impulse = sum(values[:-1]) * 0.25 if hold == "zero" else np.trapezoid(values, times)
    assert run.v[-1, 0] == pytest.approx((impulse + values[-1] * 0.5) / inertia, rel=1e-12)


def test_error_control_keeps_its_tolerance_and_records_where_asked():
    robot = lb.load("double_pendulum")
    q0 = np.array([2.0, 1.0])
    exact = lb.simulate(robot, q0, t_end=2.0, dt=1e-5, method="rkmk6", record_every=0.25)
    errors = []
    for rtol in (1e-5, 1e-7, 1e-9):
        run = lb.simulate(robot, q0, t_end=2.0, method="rkmk45", rtol=rtol, atol=rtol, record_every=0.25)
        np.testing.assert_allclose(run.t, exact.t)
        errors.append(np.abs(run.q - exact.q).max())
    assert errors[0] < 1e-3 and errors[2] < 1e-7
    assert errors[0] > 20 * errors[1] > 400 * errors[2]


def test_damping_of_the_joints_acts_unless_it_is_switched_off():
    builder = lb.TreeBuilder("wheel")
    builder.add("rim", lb.Joint("hub", Revolute([0, 0, 1]), damping=0.8), lb.SpatialInertia.sphere(1.0, 1.0))
    robot = lb.Robot(builder.build())
    run = lb.simulate(robot, v0=[1.0], t_end=1.0, dt=1e-2)
    assert run.v[-1, 0] == pytest.approx(np.exp(-0.8 / 0.4), rel=1e-7)
    assert lb.simulate(robot, v0=[1.0], t_end=1.0, dt=1e-2, joints="ideal").v[-1, 0] == pytest.approx(1.0)


def test_a_single_simulation_that_diverges_says_when_and_keeps_what_it_reached():
    robot = lb.load("double_pendulum")
    with pytest.raises(lb.LiebodyError, match=r"not finite after t = .* smaller step") as error:
        lb.simulate(robot, [1.0, 0.5], t_end=1.0, dt=1e-2, tau=lambda t, q, v: 1e6 * v)
    run = error.value.run
    finite = np.isfinite(run.q).all(axis=1)
    assert finite[0] and not finite[-1] and np.all(np.diff(finite.astype(int)) <= 0)


def test_a_member_that_diverges_does_not_stop_the_others():
    robot = lb.load("double_pendulum")
    q0 = np.array([[0.0, 0.0], [1.0, 0.5], [0.0, 0.0]])
    with pytest.warns(DivergedMembers, match=r"1 of 3 members.*\(1,\)"):
        run = lb.simulate(
            robot, q0, t_end=0.5, dt=1e-2, tau=lambda t, q, v: 1e6 * v * scalars.where(q[0] > 0.2, 1.0, 0.0)
        )
    assert np.isnan(run.q[1, -1]).all()
    assert np.isfinite(run.q[[0, 2]]).all()


@pytest.mark.parametrize("options", [{"dt": 0.1}, {"method": "rkmk45"}])
def test_a_lost_member_is_not_a_number_from_the_first_row_on_that_is_not_finite(options):
    robot, v0 = lb.load("double_pendulum"), [[1e3, 5.0], [0.0, 0.0]]
    with pytest.warns(DivergedMembers):
        run = lb.simulate(
            robot, [[0.4, -0.9], [0, 0]], v0, t_end=1.5, tau=lambda t, q, v: 1e3 * v**3, **options
        )
    state = np.concatenate([run.q, run.v], axis=-1)
    np.testing.assert_array_equal(np.isnan(state).any(axis=-1), np.isnan(state).all(axis=-1))
    np.testing.assert_array_equal(run.finite, [False, True])
    assert np.isfinite(state[0, 0]).all() and np.isnan(state[0, 1:]).all()


def test_constant_efforts_may_be_a_pair_of_numbers():
    robot, options = lb.load("double_pendulum"), {"t_end": 0.1, "dt": 1e-2}
    runs = [lb.simulate(robot, [0.4, -0.9], tau=kind([1.5, -0.5]), **options) for kind in (tuple, list)]
    np.testing.assert_array_equal(runs[0].q, runs[1].q)
    np.testing.assert_array_equal(runs[0].tau, np.tile([1.5, -0.5], (11, 1)))


def test_anymal_falls_as_in_scipy_with_pinocchio():
    pin = pytest.importorskip("pinocchio", reason="Pinocchio comes with the extra 'test'")
    robots = metadata.distribution("example-robot-data").locate_file(
        "cmeel.prefix/share/example-robot-data/robots"
    )
    file = Path(str(robots)) / "anymal_b_simple_description/robots/anymal.urdf"
    robot = lb.load(file, floating=True)
    model = pin.buildModelFromUrdf(str(file), pin.JointModelFreeFlyer())
    layout = pinocchio_layout(robot.tree, model)
    data = model.createData()
    rng = np.random.default_rng(0)
    q0, v0 = robot.random(rng), rng.standard_normal(robot.nv)
    tau = np.zeros(robot.nv)

    def rate(t, y):
        q, v = y[: model.nq].copy(), y[model.nq :]
        q[3:7] /= np.linalg.norm(q[3:7])
        a = pin.aba(model, data, q, v, layout.to_effort(q0, tau))
        p, w = q[3:7], v[3:6]
        dp = 0.5 * np.array([*(p[3] * w + np.cross(p[:3], w)), -p[:3] @ w])
        R = pin.Quaternion(p[3], p[0], p[1], p[2]).toRotationMatrix()
        return np.concatenate([R @ v[:3], dp, v[6:], a])

    start = np.concatenate([layout.to_q(q0), layout.to_v(q0, v0)])
    theirs = scipy_solve_ivp(rate, (0, 0.2), start, "DOP853", rtol=1e-11, atol=1e-11).y[:, -1]
    run = lb.simulate(robot, q0, v0, t_end=0.2, dt=5e-4)
    q = theirs[: model.nq]
    q[3:7] /= np.linalg.norm(q[3:7])
    difference = robot.difference(run.q[-1], layout.from_q(q))
    np.testing.assert_allclose(difference, 0, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"q0": [1.0, 2.0, 3.0]}, ["q0", "(3,)", "(2,)"]),
        ({"q0": [np.nan, 0]}, ["q0[0]", "nan"]),
        ({"q0": "up"}, ["q0", "numbers"]),
        ({"q0": np.zeros((2, 2)), "v0": np.zeros((3, 2))}, ["(2, 2)", "(3, 2)"]),
        ({"q0": np.zeros((0, 2))}, ["empty"]),
        ({"t_end": -1.0}, ["t_end", "-1.0", "positive"]),
        ({"t_end": np.inf}, ["t_end", "inf"]),
        ({"dt": 0.0}, ["dt", "0.0"]),
        ({"method": "rkmk9"}, ["rkmk9", "rkmk45"]),
        ({"tau": np.zeros(3)}, ["tau", "(3,)", "(2,)"]),
        ({"tau": lambda t, q, v: np.zeros(5)}, ["(5,)", "(2,)"]),
        ({"tau": (np.array([0, 1, 3.0]), np.zeros((3, 2)))}, ["equal intervals"]),
        ({"tau": (np.array([0.0, 1.0]), np.zeros((3, 2)))}, ["(2,)", "(3, 2)"]),
        ({"hold": "cubic"}, ["hold", "cubic", "linear"]),
        ({"record_every": 0.0015}, ["record_every", "multiple"]),
        ({"dt": None, "method": "rkmk45", "rtol": -1.0}, ["rtol", "-1.0"]),
        (
            {"dt": None, "method": "rkmk45", "tau": lambda t, q, v: np.array([float(v[0]), 0.0])},
            ["dt", "float"],
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_words(options, words):
    with pytest.raises(lb.LiebodyError) as error:
        lb.simulate(lb.load("double_pendulum"), **{"t_end": 0.1, "dt": 1e-3, **options})
    for word in words:
        assert word in str(error.value)


def test_quaternions_far_from_unit_are_refused():
    with pytest.raises(lb.LiebodyError, match="normalize"):
        lb.simulate(lb.load("heavy_top"), [1.1, 0, 0, 0], t_end=0.1, dt=1e-2)


def test_no_warning_in_a_plain_simulation():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = lb.simulate(lb.load("spherical_pendulum"), v0=[1.0, 0, 0], t_end=0.1, dt=1e-2, progress=True)
    assert "spherical_pendulum" in repr(run)


class Counted(lb.Robot):
    """A robot that counts how often energies are computed."""

    calls = 0

    def kinetic_energy(self, q, v, **options):
        self.calls += 1
        return super().kinetic_energy(q, v, **options)


@pytest.mark.wide
def test_energies_are_computed_once_and_only_when_they_are_asked_for(tmp_path):
    robot = Counted(random_tree(np.random.default_rng(7), ["free", "revolute", "spherical"]))
    q0, v0 = robot.random(0, 3), np.random.default_rng(1).standard_normal((3, robot.nv))
    options = {"t_end": 0.1, "dt": 1e-2}
    run = lb.simulate(robot, q0, v0, **options)
    one = run.member(1)
    assert robot.calls == 0
    expected = lb.Robot.kinetic_energy(robot, run.q, run.v), robot.potential_energy(run.q)
    np.testing.assert_array_equal(run.potential, expected[1])
    np.testing.assert_array_equal(run.kinetic, expected[0])
    assert robot.calls == 1 and run.energy.shape == (3, 11) and robot.calls == 1
    np.testing.assert_array_equal(one.kinetic, expected[0][1])
    with pytest.raises(AttributeError, match="'Run' object has no attribute 'kinetik'"):
        _ = run.kinetik
    unasked = lb.simulate(robot, q0, v0, **options)
    unasked.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(lb.Run.load(tmp_path / "run.nc").kinetic, expected[0])
    for twin in (copy.copy, lambda run: pickle.loads(pickle.dumps(run))):
        again = twin(lb.simulate(robot, q0, v0, **options))
        assert again.mechanism is None
        np.testing.assert_array_equal(again.energy, run.energy)


def test_neither_runs_nor_the_door_keep_a_robot():
    robot = lb.Robot(lb.load("spherical_pendulum").tree)
    gone = weakref.ref(robot)
    run = lb.simulate(robot, v0=[1.0, 0, 0], t_end=0.1, dt=1e-2)
    assert run.energy_drift < 1e-6
    del robot
    gc.collect()
    assert gone() is None


def test_a_run_with_efforts_by_a_function_can_be_sent():
    system, v = three_bar("SE3")
    run = lb.simulate(system, v0=v, t_end=0.02, dt=1e-3, tau=lambda t, q, v: np.zeros(0))
    back = pickle.loads(pickle.dumps(run))
    for name in ("q", "kinetic", "residual", "multipliers"):
        np.testing.assert_array_equal(getattr(back, name), getattr(run, name))


class Upper(Spherical):
    """A ball joint whose quaternions have a positive real part."""

    def normalize(self, q):
        q = super().normalize(q)
        return scalars.where(q[0] < 0, -q, q)


def test_simulations_start_from_the_normal_form_of_users_groups():
    robot = lb.Robot(
        TreeBuilder("top").add("top", Joint("ball", Upper()), lb.SpatialInertia.box(1, [1, 2, 3])).build()
    )
    q0 = np.array([[-0.6, 0, 0.8, 0], [0.6, 0, 0.8, 0]])
    run = lb.simulate(robot, q0, t_end=0.1, dt=1e-2)
    np.testing.assert_array_equal(run.q[:, 0], [[0.6, 0, -0.8, 0], [0.6, 0, 0.8, 0]])


@pytest.mark.wide
def test_initial_states_are_given_by_the_names_of_joints():
    """Of robots, of systems with closed loops, of hybrid systems, of views and steppers; batches, too."""
    robot = lb.models.space_robot()
    named = {"joint3": 0.5, "bus.z": 1.0}
    q = robot.configuration(named)
    assert q[robot.tree.joint("joint3").nq - 1 + 9] == 0.5 and q[6] == 1 and np.count_nonzero(q) == 3
    options = {"t_end": 0.01, "dt": 1e-3}
    given = lb.simulate(robot, q, np.eye(robot.nv)[8], **options)
    run = lb.simulate(robot, named, {"joint3": 1.0}, **options)
    np.testing.assert_array_equal(run.q, given.q)
    np.testing.assert_array_equal(
        lb.stepper(robot, dt=1e-3).start(named, {"joint3": 1.0}).y, given_state(given)
    )
    np.testing.assert_array_equal(robot.view(named).scene.poses, robot.view(q).scene.poses)
    hybrid = lb.hybrid.robot_system(robot, step=1e-3)
    np.testing.assert_array_equal(hybrid.simulate(named, t_end=0.01).q, hybrid.simulate(q, t_end=0.01).q)
    many = robot.configuration({"joint3": [0.1, 0.2, 0.3], "bus": [1, 0, 0, 0, 5, 6, 7]})
    assert many.shape == (3, robot.nq)
    np.testing.assert_array_equal(many[:, 4:7], [[5, 6, 7]] * 3)
    np.testing.assert_array_equal(many[:, 9], [0.1, 0.2, 0.3])
    assert lb.simulate(robot, {"joint3": [0.1, 0.2]}, **options).q.shape[0] == 2


def given_state(run):
    return np.concatenate([run.q[0], run.v[0]])


@pytest.mark.parametrize(
    ("q0", "message"),
    [
        ({"joint33": 1.0}, r"q0: there is no 'joint33'.*did you mean 'joint3'"),
        ({"bus": [1.0, 2.0]}, r"q0: 'bus' has shape \(2,\), expected \(\.\.\., 7\)"),
        ({"joint3": "straight"}, r"q0: 'joint3' cannot be read as an array of numbers"),
        ({"joint3": [1.0, 2.0], "joint4": [1.0, 2.0, 3.0]}, r"q0: the leading axes do not broadcast"),
    ],
)
def test_names_of_joints_that_cannot_be_are_refused(q0, message):
    with pytest.raises(lb.LiebodyError, match=message):
        lb.simulate(lb.models.space_robot(), q0, t_end=0.01, dt=1e-3)


def test_what_cannot_move_is_refused():
    fixed = lb.Robot(TreeBuilder("shelf").add("board", Fixed(), lb.SpatialInertia.box(1, [1, 2, 3])).build())
    for call in (lb.simulate, lb.stepper, lb.linearize):
        options = {"q": np.zeros(0)} if call is lb.linearize else {"dt": 1e-2}
        with pytest.raises(ModelError, match="shelf has no degrees of freedom"):
            call(fixed, **options, **({"t_end": 1.0} if call is lb.simulate else {}))
