"""Exciting motions: they keep their limits, show more than random ones, and keep their promises."""

from __future__ import annotations

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ModelError, ShapeError
from liebody.identification import base_parameters, excite, linear
from liebody.identification.excitation import ExcitationProblem, MotionLimits, Series
from liebody.identification.linear_model import LinearModel

EFFORT = np.array([100, 200, 100, 30, 30, 30.0])
NOISE = np.array([1, 2, 1, 0.3, 0.3, 0.3])
LOSSES = ["damping", "armature"]


@pytest.fixture(scope="module")
def arm():
    return lb.models.puma560()


@pytest.fixture(scope="module")
def best(arm):
    return excite(
        arm, ["link3", "link6"], duration=8.0, noise=NOISE, losses=LOSSES, velocity=2.0, effort=EFFORT,
        workspace=lambda q: 1.0 - q[0] ** 2, harmonics=4,
    )  # fmt: skip


def problem_of(arm, criterion, losses=()):
    model = LinearModel(arm, ["link3", "link6"], losses, 0.5)
    base = base_parameters(arm, ["link3", "link6"], losses=losses, v_s=0.5)
    limits = MotionLimits.of(arm, None, 2.0, EFFORT)
    series = Series(8.0, 4, 6)
    return ExcitationProblem(arm, model, base, series, NOISE, limits, lambda q: 1.0 - q[0] ** 2, criterion)


def test_the_motion_keeps_its_limits_between_samples(arm, best):
    t = np.linspace(0, 8, 4001)
    q, v, a = best.motion(t)
    low, high = arm.tree.coordinate_limits
    assert (q > low).all() and (q < high).all()
    assert (np.abs(v) < 2.0).all() and (np.abs(q[:, 0]) < 1).all()
    assert (np.abs(arm.inverse_dynamics(q, v, a)) < EFFORT).all()
    # and it uses them
    assert np.abs(v).max() > 1.8


def test_the_motion_is_a_motion_from_rest(best):
    t = np.linspace(0, 8, 1601)
    q, v, a = best.motion(t)
    np.testing.assert_allclose(best.motion(best.t)[0], best.q)
    h = t[1]
    np.testing.assert_allclose((q[2:] - q[:-2]) / (2 * h), v[1:-1], atol=1e-3)
    np.testing.assert_allclose((v[2:] - v[:-2]) / (2 * h), a[1:-1], atol=1e-2)
    for x in (v, a):
        np.testing.assert_allclose(x[[0, -1]], 0, atol=1e-12)
    np.testing.assert_allclose(q[0], q[-1], atol=1e-12)


def test_it_shows_much_more_than_random_motions(arm, best):
    """Deviations, in their geometric mean, are far below those of random series as large as limits allow."""
    problem = problem_of(arm, "D", LOSSES)
    rng = np.random.default_rng(1)
    series = [x for _ in range(100) if (x := problem.random(rng)) is not None]
    costs = np.array([problem.criterion_of(problem.information(x)) for x in series])
    assert len(series) > 20
    gains = np.exp((costs - best.criterion) / (2 * len(best.combinations)))
    assert gains.min() > 1.5 and np.median(gains) > 3


@pytest.mark.parametrize("criterion", ["D", "A"])
def test_gradients_are_those_of_differences(arm, criterion):
    problem = problem_of(arm, criterion, ["damping", "friction", "armature", "offset"])
    x = problem.start(np.random.default_rng(0))
    direction = np.random.default_rng(1).normal(size=x.shape)
    h = 1e-6

    def slope(function):
        return (function(x + h * direction) - function(x - h * direction)) / (2 * h)

    expected = slope(lambda y: problem.criterion_of(problem.information(y)))
    assert abs(np.sum(problem.gradient(x) * direction) / expected - 1) < 1e-6


def test_gradients_count_each_axis_of_a_joint_with_two():
    """A table that slides along x and y has two columns of each loss."""
    table = (
        lb.TreeBuilder("table")
        .add("slab", lb.groups.PlanarTranslation([0, 0, 1]), lb.SpatialInertia.sphere(2.0, 0.2))
        .add("arm", lb.groups.Revolute([0, 0, 1]), lb.SpatialInertia.sphere(1.0, 0.1), "slab")
        .build()
    )
    robot = lb.Robot(table)
    losses = ["damping", "friction", "armature"]
    base = base_parameters(robot, ["arm"], losses=losses, v_s=0.5)
    model = LinearModel(robot, ["arm"], losses, 0.5)
    limits = MotionLimits.of(robot, None, 2.0, np.full(3, 50.0))
    noise = np.array([0.1, 0.2, 0.3])
    problem = ExcitationProblem(robot, model, base, Series(4.0, 3, 3), noise, limits, None, "D")
    rng = np.random.default_rng(0)
    x = 0.1 * rng.normal(size=problem.start(rng).shape)
    direction = rng.normal(size=x.shape)
    h = 1e-6
    costs = [problem.criterion_of(problem.information(y)) for y in (x + h * direction, x - h * direction)]
    expected = (costs[0] - costs[1]) / (2 * h)
    assert abs(np.sum(problem.gradient(x) * direction) / expected - 1) < 1e-6


def test_each_criterion_is_best_at_its_own(arm):
    options = {"duration": 8.0, "noise": NOISE, "velocity": 2.0, "effort": EFFORT, "harmonics": 4}
    motions = {c: excite(arm, "link6", criterion=c, **options) for c in "DA"}
    base = base_parameters(arm, "link6")
    model = LinearModel(arm, "link6", (), 0.01)
    sizes = np.linalg.norm(base.K * model.sizes(), axis=1)

    def relative(motion):
        return np.array([x.deviation for x in motion.combinations]) / sizes

    assert np.sum(relative(motions["A"]) ** 2) < np.sum(relative(motions["D"]) ** 2)


def test_promised_deviations_are_those_of_fits_to_simulated_data(arm, best):
    """200 synthetic measurements of the motion, each with its own noise."""
    base = base_parameters(arm, ["link3", "link6"], losses=LOSSES)
    rng = np.random.default_rng(2)
    estimates = []
    for _ in range(200):
        tau = best.tau + NOISE * rng.normal(size=best.tau.shape)
        found = linear(
            arm, best.q, best.v, best.a, tau, ["link3", "link6"], losses=LOSSES, noise=NOISE, consistent=False
        )
        estimates.append(base.K @ found.coordinates)
    promised = np.array([x.deviation for x in best.combinations])
    assert [x.name for x in best.combinations] == list(base.names)
    # standard deviations of 200 normal numbers scatter by 5 %
    assert (np.abs(np.std(estimates, axis=0, ddof=1) / promised - 1) < 5 * 0.05).all()
    values = np.array([x.value for x in best.combinations])
    assert (np.abs(np.mean(estimates, axis=0) - values) < 5 * promised / np.sqrt(200)).all()


def test_what_cannot_be_is_refused(arm):
    options = {"duration": 5.0, "noise": 1.0, "velocity": 1.0}
    with pytest.raises(ModelError, match="give `velocity`"):
        excite(arm, duration=5.0, noise=1.0)
    with pytest.raises(ModelError, match="criterion is 'E'"):
        excite(arm, criterion="E", **options)
    with pytest.raises(ModelError, match="no random motion keeps all limits"):
        excite(arm, effort=1.0, **options)
    with pytest.raises(ModelError, match="low < high"):
        excite(arm, position=(1.0, -1.0), **options)
    with pytest.raises(ShapeError, match="effort limit has shape"):
        excite(arm, effort=np.ones(5), **options)
    with pytest.raises(ModelError, match="effort limits are"):
        excite(arm, effort=-1.0, **options)
    with pytest.raises(ModelError, match="hinges and slides"):
        excite(_floating(), **options)


def _floating():
    tree = lb.TreeBuilder("stone").add("stone", lb.groups.Free(), lb.SpatialInertia.sphere(1.0, 0.1)).build()
    return lb.Robot(tree)
