"""Adaptive control: its function of Lyapunov falls as its work says; errors vanish without known masses."""

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import LiebodyError, ModelError, ShapeError
from liebody.control import Adaptive

ARM = lb.load("puma560")
PAYLOAD = ARM.with_payload("tool", 2.5, center=[0.0, 0.05, 0.1], inertia=np.diag([2e-3, 3e-3, 4e-3]))
SPEED = np.array([2.0, 3.0, 2.0, 4.0, 3.0, 5.0])
GAIN = 20.0 * np.diag(ARM.mass_matrix(ARM.neutral()))
DT = 1e-3


def desired(t):
    """q_d, v_d, a_d of sines."""
    x = SPEED * np.asarray(t)[..., None] + np.arange(6.0)
    return 0.8 * np.sin(x), 0.8 * SPEED * np.cos(x), -0.8 * SPEED**2 * np.sin(x)


def followed(controller, plant, estimate, t_end, start=0.0, dt=DT):
    """t, states (n, 12 + k + 1) of plant, estimate, and the work of the gain, by classical Runge-Kutta."""
    friction = 0.0 if not controller.viscous else plant_damping(plant)

    def rates(t, y):
        q, v, p = y[:6], y[6:12], y[12:-1]
        tau, rate, s = controller(q, v, *desired(t), p)
        a = plant.forward_dynamics(q, v, tau - friction * v)
        return np.concatenate([v, a, rate, [s @ controller.gain @ s + friction * s @ s]])

    q, v, _ = desired(0.0)
    y = np.concatenate([q + start, v, estimate, [0.0]])
    t = dt * np.arange(round(t_end / dt) + 1)
    states = [y]
    for now in t[:-1]:
        k1 = rates(now, y)
        k2 = rates(now + dt / 2, y + dt / 2 * k1)
        k3 = rates(now + dt / 2, y + dt / 2 * k2)
        k4 = rates(now + dt, y + dt * k3)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        states.append(y)
    return t, np.array(states)


def plant_damping(plant):
    return 3.0


def test_the_function_of_lyapunov_falls_by_the_work_of_the_gain():
    """V + work is constant, to the order 4 of the steps; the controller does not know of the payload."""
    controller = Adaptive(ARM, gain=GAIN, slope=5.0, adaptation=1.0)
    truth = PAYLOAD.inertial_parameters
    changes = []
    for dt in (2e-3, 1e-3):
        t, y = followed(controller, PAYLOAD, ARM.inertial_parameters, 1.0, start=0.2, dt=dt)
        q_d, v_d, _ = desired(t)
        V = controller.lyapunov(y[:, :6], y[:, 6:12], q_d, v_d, y[:, 12:-1], truth)
        assert V[-1] < 0.7 * V[0]
        changes.append(np.abs(V + y[:, -1] - V[0]).max() / V[0])
    assert changes[1] < 1e-7 and changes[0] > 12 * changes[1], changes


def test_with_viscous_friction_it_falls_faster_and_its_coefficients_are_estimated():
    controller = Adaptive(ARM, gain=GAIN, slope=5.0, adaptation=1.0, viscous=True)
    damping = np.full(6, plant_damping(PAYLOAD))
    t, y = followed(controller, PAYLOAD, np.concatenate([ARM.inertial_parameters, np.zeros(6)]), 1.0)
    q_d, v_d, _ = desired(t)
    truth = np.concatenate([PAYLOAD.inertial_parameters, damping])
    V = controller.lyapunov(y[:, :6], y[:, 6:12], q_d, v_d, y[:, 12:-1], truth)
    np.testing.assert_allclose(V + y[:, -1], V[0], rtol=1e-8)


def test_errors_vanish_though_a_payload_is_unknown():
    controller = Adaptive(ARM, gain=GAIN, slope=5.0, adaptation=50.0)
    t, y = followed(controller, PAYLOAD, ARM.inertial_parameters, 8.0)
    error = np.abs(y[:, :6] - desired(t)[0]).max(axis=1)
    fixed = Adaptive(ARM, gain=GAIN, slope=5.0, adaptation=1e-12)
    t, other = followed(fixed, PAYLOAD, ARM.inertial_parameters, 8.0)
    without = np.abs(other[:, :6] - desired(t)[0]).max(axis=1)
    assert error[t > 7].max() < 1e-3
    assert error[t > 7].max() < 0.1 * without[t > 7].max()


def test_the_true_parameters_follow_the_motion_exactly_and_keep():
    """From a start on the motion nothing is to be corrected; rotors are in the law, not in the parameters."""
    controller = Adaptive(ARM, gain=GAIN, slope=5.0, adaptation=1.0)
    q, v, a = desired(np.linspace(0, 3, 7))
    tau, rate, s = controller(q, v, q, v, a, ARM.inertial_parameters)
    np.testing.assert_allclose(tau, ARM.inverse_dynamics(q, v, a), rtol=1e-12, atol=1e-11)
    assert not rate.any() and not s.any()


def test_batches_are_single_calls():
    controller = Adaptive(ARM, gain=GAIN, slope=np.arange(1.0, 7.0), adaptation=np.linspace(1, 2, 60))
    rng = np.random.default_rng(0)
    states = rng.normal(size=(5, 4, 6))
    estimates = rng.normal(size=(4, 60))
    many = controller(*states, estimates)
    for k in range(4):
        one = controller(*states[:, k], estimates[k])
        for x, y in zip(one, many, strict=True):
            np.testing.assert_allclose(x, y[k], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"gain": -1.0}, ModelError, "gain must be positive definite, its least eigenvalue is -1"),
        ({"gain": np.triu(np.ones((6, 6)))}, ModelError, r"gain is not symmetric; give \(A \+ A.T\) / 2"),
        ({"gain": np.ones(5)}, ShapeError, r"gain has shape \(5,\), expected a number or \(6,\) or \(6, 6\)"),
        ({"slope": np.eye(6)}, ShapeError, r"slope has shape \(6, 6\), expected a number or \(6,\)"),
        ({"adaptation": 0.0}, ModelError, "adaptation must be positive definite"),
        ({"adaptation": np.nan}, LiebodyError, "adaptation"),
    ],
)
def test_gains_that_would_not_work_are_refused(changes, kind, message):
    with pytest.raises(kind, match=message):
        Adaptive(ARM, **{"gain": 1.0, "slope": 1.0, "adaptation": 1.0, **changes})


def test_robots_that_are_no_arms_are_refused_and_estimates_of_another_size():
    floating = lb.Robot(
        lb.TreeBuilder("box").add("box", lb.groups.Free(), lb.SpatialInertia.box(1, [1, 2, 3])).build()
    )
    with pytest.raises(ModelError, match="is for hinges and slides"):
        Adaptive(floating, gain=1.0, slope=1.0, adaptation=1.0)
    controller = Adaptive(ARM, gain=1.0, slope=1.0, adaptation=1.0)
    with pytest.raises(ShapeError, match=r"estimate has shape \(6,\)"):
        controller(*np.zeros((5, 6)), np.zeros(6))
