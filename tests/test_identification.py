"""Identification: exact recordings give exact parameters, noisy ones the deviations that they promise."""

from __future__ import annotations

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ModelError, ShapeError
from liebody.identification import FailedFit, Recording, body_of, coordinates_of, fit
from liebody.mechanisms import JointFriction
from liebody.scalars import cos, sin

T = np.linspace(0, 2, 81)
START = np.array([0.5, 0.2])


def push(t, q, v):
    return np.array([5 * sin(3 * t), 2 * cos(2 * t)])


@pytest.fixture(scope="module")
def pendulum():
    return lb.load("double_pendulum")


def recorded(robot, parameters, noise=0.0, seed=0, tau=push, t=T, **options):
    """A recording of q of a robot with these parameters, from START."""
    run = lb.simulate(robot, START, t_end=t[-1], dt=0.01, t_eval=t, tau=tau, parameters=parameters, **options)
    q = run.q + noise * np.random.default_rng(seed).normal(size=run.q.shape)
    return Recording(t, {"q": q}, {"q": noise or 1e-3}, q0=START, tau=tau)


# -- bodies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_log_cholesky_coordinates_are_those_of_bodies_that_exist(seed):
    theta = np.random.default_rng(seed).normal(size=10)
    (mass, *center_and_inertia), derivative = body_of(theta)
    center, inertia = np.array(center_and_inertia[:3]), np.array(center_and_inertia[3:])
    np.testing.assert_allclose(coordinates_of(mass, center, inertia), theta, atol=1e-10)
    I = np.zeros((3, 3))
    I[np.triu_indices(3)] = inertia
    I = I + np.triu(I, 1).T
    central = np.trace(I) / 2 * np.eye(3) - I  # second moments of mass about the centre
    assert mass > 0 and (np.linalg.eigvalsh(central) > 0).all()
    h = 1e-6
    differences = [(body_of(theta + h * e)[0] - body_of(theta - h * e)[0]) / (2 * h) for e in np.eye(10)]
    np.testing.assert_allclose(derivative, np.array(differences).T, rtol=1e-7, atol=1e-7)


def test_bodies_without_extent_are_refused():
    with pytest.raises(ModelError, match="has no volume"):
        coordinates_of(1.0, [0, 0, 1], np.zeros(6))


# -- exact recordings ---------------------------------------------------------------------------------------

TRUE = {
    "link1.mass": 1.3,
    "link2.center": [0.05, -0.9, 0.0],
    "link1.damping": 0.4,
    "link2.position": [0.02, -0.95, 0.0],
    "gravity": [0.2, 0.0, -9.5],
}


@pytest.mark.parametrize("name", TRUE)
def test_exact_recordings_give_exact_parameters(pendulum, name):
    value = np.asarray(TRUE[name], float)
    recording = recorded(pendulum, {name: value})
    start = {name: 0.1} if name.endswith("damping") else {}
    found = fit(pendulum, recording, name, dt=0.01, start=start)
    assert found.converged
    seen = np.isfinite(found.deviations[name])  # planar: nothing moves across
    np.testing.assert_allclose(np.asarray(found.values[name])[seen], value[seen], rtol=1e-8, atol=1e-8)
    assert found.chi_squared < 1e-12


def test_axes_and_orientations_move_along_their_groups():
    arm = lb.load("puma560")
    axis = lb.groups.SO3.exp(np.array([0.03, -0.02, 0.0])) @ np.array([0, 0, 1.0])
    turned = lb.groups.SO3.integrate(
        np.asarray(arm.parameters["joint3.orientation"].value), [0.02, 0.01, -0.03]
    )
    t = np.linspace(0, 1, 51)
    q0 = np.array([0.1, -0.3, 0.4, 0.3, 0.5, 0.2])

    def tau(t, q, v):
        return -30 * q - 3 * v + 10 * sin(3 * t)

    for name, value in (("joint1.axis", axis), ("joint3.orientation", turned)):
        run = lb.simulate(arm, q0, t_end=1.0, dt=0.01, t_eval=t, tau=tau, parameters={name: value})
        found = fit(arm, Recording(t, {"q": run.q}, {"q": 1e-4}, q0=q0, tau=tau), name, dt=0.01)
        np.testing.assert_allclose(found.values[name], value, atol=1e-7)
        assert abs(np.linalg.norm(found.values[name]) - 1) < 1e-12


def test_gains_of_a_controller_and_friction_are_found_together(pendulum):
    def servo(t, q, v, p):
        return p.gain * (np.array([sin(t), cos(2 * t)]) - q) - v

    true = {"gain": 12.0, "link1.friction": 0.6}
    run = lb.simulate(
        pendulum, START, t_end=2.0, dt=0.01, t_eval=T, tau=servo, parameters=true,
        forces=[JointFriction(v_s=0.05)],
    )  # fmt: skip
    found = fit(
        pendulum, Recording(T, {"q": run.q, "v": run.v}, {"q": 1e-3, "v": 1e-2}, q0=START, tau=servo),
        ["gain", "link1.friction"], dt=0.01, start={"gain": 5.0, "link1.friction": 0.1},
        positive_words="gain", forces=[JointFriction(v_s=0.05)],
    )  # fmt: skip
    for name, value in true.items():
        assert abs(found.values[name] / value - 1) < 1e-7


def free_body():
    inertia = lb.SpatialInertia(2.0, [0.01, 0.02, 0.03], [0.03, 0.02, 0.025])
    return lb.Robot(lb.TreeBuilder("stone").add("stone", lb.groups.Free(), inertia).build())


def throw(t, q, v):
    return np.array([0.2 * sin(5 * t), 0.1 * cos(3 * t), 0.1, 1.0, 2.0, 19.0])


def test_a_body_that_tumbles_with_its_start_and_a_marker():
    body, v0 = free_body(), np.array([1.0, 2, 3, 0, 0, 0])
    true = {"stone.inertia": [0.035, 0.001, 0.0, 0.022, 0.0, 0.028], "stone.mass": 2.2}
    t = np.linspace(0, 1, 41)
    run = lb.simulate(body, None, v0, t_end=1.0, dt=0.01, t_eval=t, tau=throw, parameters=true)
    marker = (body.pose(run.q, frame="stone") @ [0, 0, 0.2, 1])[:, :3]
    q = run.q.copy()
    q[10:20] = np.nan  # the camera lost it
    recording = Recording(
        t,
        {"q": q, "marker": marker},
        {"q": 1e-3, "marker": [1e-3] * 3},
        v0=v0 + [0.1, 0, 0, 0, -0.1, 0],
        tau=throw,
    )
    found = fit(
        body, recording, "stone", dt=0.01, starts=True,
        signals=lambda t, q, v, p: {"marker": (body.pose(q, frame="stone") @ [0, 0, 0.2, 1])[:3]},
    )  # fmt: skip
    np.testing.assert_allclose(found.values["stone.inertia"], true["stone.inertia"], atol=1e-8)
    assert abs(found.values["stone.mass"] - 2.2) < 1e-7
    start = found.coordinates[found.entries.index("recording: v0[0]")]
    assert abs(start + 0.1) < 1e-7
    assert len([x for x in found.channels if "q" in x.name]) == 6
    # the robot that comes back has the estimates, and is written as any other
    again = lb.load(found.robot.to_urdf())
    assert abs(again.mass - 2.2) < 1e-7


# -- noise --------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_deviations_have_the_coverage_that_they_promise(pendulum):
    true = {"link1.mass": 1.2, "link2.mass": 0.8}
    exact = recorded(pendulum, true)
    inside, count = 0, 60
    rng = np.random.default_rng(1)
    for _ in range(count):
        q = exact.measured["q"] + 2e-3 * rng.normal(size=exact.measured["q"].shape)
        found = fit(pendulum, Recording(T, {"q": q}, {"q": 2e-3}, q0=START, tau=push), [*true], dt=0.01)
        inside += sum(abs(found.values[name] - x) < 1.96 * found.deviations[name] for name, x in true.items())
    # of 120 intervals of 95 %, 114 are expected; fewer than 104 would happen once in 10,000 times
    assert 104 <= inside <= 120


def test_what_is_not_seen_is_named(pendulum):
    # at rest, hanging down, masses and centres act by m c alone; nothing is known of the mass of link 1
    t = np.linspace(0, 0.5, 21)
    recording = Recording(t, {"q": np.zeros((21, 2))}, {"q": 1e-3}, q0=[0, 0])
    found = fit(pendulum, recording, ["link1.mass", "link2.mass"], dt=0.01)
    assert len(found.unseen) == 2 and all(np.isinf(x) for x in found.deviations.values())
    assert found.values["link1.mass"] == 1.0  # it stays where it was
    assert "not seen" in str(found)


def test_a_wrong_model_is_seen_in_its_residuals(pendulum):
    recording = recorded(pendulum, {"link1.friction": 0.5}, 1e-3, forces=[JointFriction(v_s=0.05)])
    wrong = fit(pendulum, recording, "link1.mass", dt=0.01)
    assert wrong.chi_squared > 10 and not any(x.is_white for x in wrong.channels)
    assert "the model lacks something" in str(wrong)
    right = fit(
        pendulum, recording, ["link1.mass", "link1.friction"], dt=0.01, start={"link1.friction": 0.1},
        forces=[JointFriction(v_s=0.05)],
    )  # fmt: skip
    assert 0.7 < right.chi_squared < 1.4 and all(x.is_white for x in right.channels)
    other = recorded(
        pendulum, {"link1.friction": 0.5}, 1e-3, seed=7, forces=[JointFriction(v_s=0.05)],
        tau=lambda t, q, v: np.array([3 * cos(4 * t), sin(t)]),
    )  # fmt: skip
    assert all(0.5 < x.rms < 1.5 for x in right.validate(other))
    assert all(x.rms > 3 for x in wrong.validate(other))


def test_outliers_count_linearly(pendulum):
    recording = recorded(pendulum, {"link1.mass": 1.2}, 1e-3)
    q = recording.measured["q"].copy()
    q[::9] += 0.05
    spoiled = Recording(T, {"q": q}, {"q": 1e-3}, q0=START, tau=push)
    errors = {
        loss: abs(fit(pendulum, spoiled, "link1.mass", dt=0.01, loss=loss).values["link1.mass"] - 1.2)
        for loss in ("squares", "huber")
    }
    assert errors["huber"] < errors["squares"] / 5


def test_several_recordings_and_a_prior(pendulum):
    both = [recorded(pendulum, {"link1.mass": 1.2}, 1e-3, seed) for seed in (0, 1)]
    one = fit(pendulum, both[0], "link1.mass", dt=0.01)
    two = fit(pendulum, both, "link1.mass", dt=0.01)
    assert list(two.residuals) == ["recording 1", "recording 2"]
    ratio = one.deviations["link1.mass"] / two.deviations["link1.mass"]
    assert abs(ratio - np.sqrt(2)) < 0.01
    # a prior of the same weight as one recording halves the variance, too, and draws the estimate
    d = one.deviations["link1.mass"]
    drawn = fit(pendulum, both[0], "link1.mass", dt=0.01, prior={"link1.mass": (1.2 + 4 * d, d)})
    assert abs(d / drawn.deviations["link1.mass"] - np.sqrt(2)) < 0.02
    assert abs(drawn.values["link1.mass"] - (one.values["link1.mass"] + 1.2 + 4 * d) / 2) < 0.02 * d


def test_validation_has_the_residuals_of_a_fit_to_the_same_recording(pendulum):
    recording = recorded(pendulum, {"link1.mass": 1.2}, 1e-3)
    found = fit(pendulum, recording, ["link1.mass", "link2.center"], dt=0.01)
    for channel, other in zip(found.channels, found.validate(recording), strict=True):
        assert channel.name == other.name
        np.testing.assert_allclose(channel.rms, other.rms, rtol=1e-12)


# -- errors -------------------------------------------------------------------------------------------------


def test_what_does_not_fit_together_is_refused(pendulum):
    good = recorded(pendulum, {})
    q = good.measured["q"]
    with pytest.raises(ShapeError, match="two times or more"):
        Recording([0.1, 0.2], {"q": q[:2]}, {"q": 1})
    with pytest.raises(ModelError, match="noise of 'q' is missing"):
        Recording(T, {"q": q}, {})
    with pytest.raises(ModelError, match="expected positive"):
        Recording(T, {"q": q}, {"q": 0.0})
    with pytest.raises(ShapeError, match="a row for each time"):
        Recording(T, {"q": q[:-1]}, {"q": 1.0})
    with pytest.raises(ModelError, match=r"no parameter 'link3.mass'"):
        fit(pendulum, good, "link3.mass", dt=0.01)
    with pytest.raises(ModelError, match=r"starts at 0\.0.*start="):
        fit(pendulum, good, "link1.damping", dt=0.01)
    with pytest.raises(ModelError, match="free the whole body 'link1'"):
        fit(pendulum, good, "link1.inertia", dt=0.01)
    with pytest.raises(ModelError, match="free twice"):
        fit(free_body(), good, ["stone", "stone.mass"], dt=0.01)
    with pytest.raises(ModelError, match="has a value in `parameters`"):
        fit(pendulum, good, "link1.mass", dt=0.01, parameters={"link1.mass": 2.0})
    with pytest.raises(ModelError, match="loss is 'cauchy'"):
        fit(pendulum, good, "link1.mass", dt=0.01, loss="cauchy")
    with pytest.raises(ModelError, match=r"prior of 'link2.mass', which is not free"):
        fit(pendulum, good, "link1.mass", dt=0.01, prior={"link2.mass": (1, 1)})
    with pytest.raises(ModelError, match="give `signals`"):
        fit(pendulum, Recording(T, {"tip": q}, {"tip": 1.0}), "link1.mass", dt=0.01)
    with pytest.raises(ModelError, match="'tap', which `signals` does not return"):
        fit(
            pendulum, Recording(T, {"tap": q}, {"tap": 1.0}), "link1.mass", dt=0.01,
            signals=lambda t, q, v, p: {"tip": q},
        )  # fmt: skip
    with pytest.raises(ShapeError, match="q has shape"):
        fit(pendulum, Recording(T, {"q": q[:, :1]}, {"q": 1.0}), "link1.mass", dt=0.01)
    with pytest.raises(ModelError, match="expected a Recording"):
        fit(pendulum, [], "link1.mass", dt=0.01)


def test_a_start_without_a_motion_is_an_error_of_its_own(pendulum):
    def explode(t, q, v, p):
        return p.gain * v

    recording = Recording(T, {"q": np.zeros((len(T), 2))}, {"q": 1.0}, q0=START, v0=[1, 1], tau=explode)
    with pytest.raises(FailedFit, match="the start cannot be simulated"):
        fit(pendulum, recording, "gain", dt=0.01, start={"gain": 1e6})
