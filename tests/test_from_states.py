"""Runs of states that a loop of one's own has computed: like the run that `simulate` makes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from constrained_models import three_bar

import liebody as lb
from liebody.base.errors import ArgumentError, ConfigurationError, LiebodyError, ShapeError
from liebody.bodies import Joint, TreeBuilder
from liebody.groups import Revolute
from liebody.mechanisms import JointFriction
from liebody.runs import ConstrainedRun, Run

PENDULUM = lb.models.double_pendulum()


def loop(robot, q, v, tau, dt, steps):
    """The classical method of order four on a vector space, in Python: t, q, v, tau of all steps."""
    rows = []
    for k in range(steps + 1):
        u = tau(k * dt, q, v)
        rows.append((k * dt, q, v, u))

        def rate(x, k=k):
            return np.stack([x[1], robot.forward_dynamics(*x, tau(k * dt, *x))])

        x = np.stack([q, v])
        k1 = rate(x)
        k2 = rate(x + dt / 2 * k1)
        k3 = rate(x + dt / 2 * k2)
        k4 = rate(x + dt * k3)
        q, v = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return [np.array(x) for x in zip(*rows, strict=True)]


def damped():
    """A pendulum with a damper and limits in its joint."""
    joint = Joint("hinge", Revolute([0, 1, 0]), damping=0.3, lower=-0.5, upper=0.5)
    return lb.Robot(TreeBuilder("bob").add("bob", joint, lb.SpatialInertia.point(1.0, [0, 0, -1.0])).build())


def test_a_loop_of_ones_own_becomes_the_run_that_simulate_makes(tmp_path):
    def brake(t, q, v):
        return -0.8 * v + 0.1 * q

    t, q, v, tau = loop(PENDULUM, np.array([1.0, 0.3]), np.zeros(2), brake, 2e-3, 500)
    run = Run.from_states(PENDULUM, t, q, v, tau=tau, metadata={"method": "mine", "dt": 2e-3})
    same = lb.simulate(PENDULUM, [1.0, 0.3], t_end=1.0, dt=2e-3, tau=brake)
    np.testing.assert_allclose(run.q, same.q, atol=1e-12)
    for name in ("tau", "kinetic", "potential", "energy", "work_done"):
        np.testing.assert_allclose(getattr(run, name), getattr(same, name), atol=1e-8, err_msg=name)
    assert run.energy_drift < 1e-8 and abs(run.work_done[-1]) > 1
    assert run.metadata == {"model": "double_pendulum", "efforts": "given", "method": "mine", "dt": 2e-3}
    assert "balance kept" in run.summary() and run.coordinates == same.coordinates
    run.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(Run.load(tmp_path / "run.nc").work_done, run.work_done)
    np.testing.assert_array_equal(run.view().scene.poses[0, -1, 1:-1], PENDULUM.poses(q[-1]))
    assert len(run.plot().axes) == len(same.plot().axes) and len(run.to_dataframe()) == 501


def test_members_have_energies_efforts_and_parameters_of_their_own():
    robot = PENDULUM.with_parameters("link1.mass")
    masses = np.array([0.5, 2.0, 3.0])
    options = {"t_end": 0.4, "dt": 1e-3, "parameters": {"link1.mass": masses}}
    many = lb.simulate(robot, [[1.0, 0.3]] * 3, tau=[0.2, -0.1], **options)
    run = Run.from_states(robot, many.t, many.q, many.v, tau=[0.2, -0.1], parameters={"link1.mass": masses})
    assert run.batch == (3,) and run.tau.shape == (3, 401, 2)
    np.testing.assert_allclose(run.kinetic, many.kinetic, rtol=1e-12)
    np.testing.assert_allclose(run.energy_balance, 0, atol=1e-9)
    for i, mass in enumerate(masses):
        one = robot.energy(many.q[i], many.v[i], parameters={"link1.mass": mass})
        np.testing.assert_allclose(run.member(i).energy, one, rtol=1e-12)


def test_what_acts_in_joints_is_told_as_in_simulate():
    """A damper takes energy out: the balance holds with it, and misses its work without it."""
    robot = damped()
    simulated = lb.simulate(robot, [0.4], t_end=1.0, dt=1e-3)
    states = simulated.t, simulated.q, simulated.v
    run = Run.from_states(robot, *states)
    np.testing.assert_allclose(run.work_done, simulated.work_done, atol=1e-10)
    without = Run.from_states(robot, *states, joints="armature")
    assert without.work_done is None and without.metadata["joints"] == "armature"
    np.testing.assert_allclose(without.energy_change, simulated.work_done, atol=1e-9)
    friction = JointFriction(0.05)
    rubbed = lb.simulate(robot, [0.4], t_end=1.0, dt=1e-3, forces=[friction])
    again = Run.from_states(robot, rubbed.t, rubbed.q, rubbed.v, forces=[friction])
    assert set(again.forces) == set(rubbed.forces)
    for name, values in again.forces.items():
        np.testing.assert_allclose(values, rubbed.forces[name], atol=1e-14)
    beyond = Run.from_states(robot, [0.0, 0.1], [[0.0], [0.7]], np.zeros((2, 1)))
    assert beyond.metadata["passed_limits"] == "hinge at 0.1 s"


def test_states_of_a_system_give_a_run_with_constraints():
    system, v = three_bar("SE3")
    simulated = lb.simulate(system, v0=v, t_end=0.05, dt=1e-3)
    run = Run.from_states(system, simulated.t, simulated.q, simulated.v)
    assert type(run) is ConstrainedRun
    np.testing.assert_allclose(run.multipliers, simulated.multipliers, atol=1e-12)
    np.testing.assert_array_equal(run.residual, simulated.residual)


def test_states_of_a_stepper_become_a_run():
    robot = lb.models.space_robot()
    sim = lb.stepper(robot, dt=1e-3)
    state = sim.start(robot.neutral(), np.full(robot.nv, 0.1))
    rows = [state, *(state := sim.step(state, steps=10) for _ in range(20))]
    run = Run.from_states(robot, 0.01 * np.arange(21), [x.q for x in rows], [x.v for x in rows])
    assert run.energy_drift < 1e-9 and run.quaternion_error < 1e-12


def test_a_loop_that_diverged_is_shown_up_to_there():
    q = np.array([[0.1, 0.2], [0.3, 0.4], [np.nan, 1.0]])
    run = Run.from_states(PENDULUM, [0, 1, 2], q, np.zeros((3, 2)))
    assert np.isfinite(run.energy).tolist() == [True, True, False] and not run.finite


def test_the_run_keeps_what_a_loop_goes_on_to_overwrite():
    t, q, v = np.arange(3.0), np.zeros((3, 2)), np.ones((3, 2))
    run = Run.from_states(PENDULUM, t, q, v)
    q += 1
    v += 1
    t += 1
    assert run.t[0] == 0 and not run.q.any() and (run.v == 1).all()
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again.kinetic, run.kinetic)


NINE = np.zeros((9, 2))
QUATERNIONS = np.tile([2.0, 0, 0, 0], (9, 1))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"q": np.zeros((10, 2))}, ShapeError, r"q has shape \(10, 2\), expected .*9 times and q 10 rows"),
        ({"v": np.zeros((9, 3))}, ShapeError, r"v has shape \(9, 3\), expected \(\.\.\., 9, 2\)"),
        ({"q": np.zeros((9, 4, 2))}, ShapeError, r"numpy.moveaxis\(q, 0, -2\)"),
        ({"v": np.zeros((4, 9, 2))}, ShapeError, r"v has shape \(4, 9, 2\).*one velocity for each q"),
        ({"q": np.zeros(9)}, ShapeError, r"q has shape \(9,\)"),
        ({"tau": np.zeros((9, 3))}, ShapeError, r"tau has shape \(9, 3\), expected \(9, 2\)"),
        ({"t": np.zeros(9)}, ShapeError, r"t\[1\] = 0 s is not after t\[0\] = 0 s; give increasing"),
        ({"t": [[0.0]]}, ShapeError, r"t has shape \(1, 1\)"),
        ({"t": [*range(8), np.nan]}, ConfigurationError, r"t\[8\] is nan"),
        ({"q": np.full((9, 2), np.nan)}, ConfigurationError, "at the first time have to be finite"),
        ({"robot": lb.models.spherical_pendulum(), "q": QUATERNIONS, "v": np.zeros((9, 3))},
         ConfigurationError, "norm"),
        ({"robot": lb.hybrid.robot_system(PENDULUM, step=1e-3)}, ArgumentError, "give its robot"),
        ({"robot": 3}, LiebodyError, "3 is no mechanism; expected a Robot"),
        ({"joints": "loose"}, LiebodyError, "loose"),
        ({"metadata": {"source": 1}}, LiebodyError, "cannot be a name"),
        ({"parameters": {"link1.mass": [1.0, 2.0]}}, ShapeError, r"for members \(2,\), and q for .* \(\)"),
        ({"parameters": {"link9.mass": 1.0}}, LiebodyError, "link9"),
    ],
)  # fmt: skip
def test_states_that_are_no_motion_are_refused(changes, error, words):
    arguments = {"robot": PENDULUM, "t": np.arange(9.0), "q": NINE, "v": NINE} | changes
    with pytest.raises(error, match=words):
        Run.from_states(**arguments)
