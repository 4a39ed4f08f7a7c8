"""Exciting motions: they keep their limits, show more than random ones, and keep their promises."""

from __future__ import annotations

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ModelError, ShapeError
from liebody.identification import base_parameters, excite, linear
from liebody.identification.combinations import combinations_of
from liebody.identification.excitation import ExcitationProblem, MotionLimits, PlannedMotion, Series
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
    plan = PlannedMotion(arm, Series(8.0, 4), None)
    limits = MotionLimits.of(plan, None, 2.0, EFFORT)
    return ExcitationProblem(model, base, plan, NOISE, limits, lambda q: 1.0 - q[0] ** 2, criterion)


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
    costs = np.array([problem.at(x).criterion for x in series])
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

    expected = slope(lambda y: problem.at(y).criterion)
    assert abs(np.sum(problem.at(x).gradient * direction) / expected - 1) < 1e-6


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
    plan = PlannedMotion(robot, Series(4.0, 3), None)
    limits = MotionLimits.of(plan, None, 2.0, np.full(3, 50.0))
    noise = np.array([0.1, 0.2, 0.3])
    problem = ExcitationProblem(model, base, plan, noise, limits, None, "D")
    rng = np.random.default_rng(0)
    x = 0.1 * rng.normal(size=problem.start(rng).shape)
    direction = rng.normal(size=x.shape)
    h = 1e-6
    costs = [problem.at(y).criterion for y in (x + h * direction, x - h * direction)]
    expected = (costs[0] - costs[1]) / (2 * h)
    assert abs(np.sum(problem.at(x).gradient * direction) / expected - 1) < 1e-6


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
    for position in (1.0, (-1.0, 0.0, 1.0)):
        with pytest.raises(ModelError, match=r"position is .*, expected \(low, high\)"):
            excite(arm, position=position, **options)
    with pytest.raises(ShapeError, match="effort limit has shape"):
        excite(arm, effort=np.ones(5), **options)
    with pytest.raises(ModelError, match="effort limits are"):
        excite(arm, effort=-1.0, **options)
    with pytest.raises(ModelError, match="floats, and no motor drives its base: give `base`"):
        excite(hung(), **options)
    with pytest.raises(ModelError, match="does not float"):
        excite(arm, base=HELD, **options)
    with pytest.raises(ModelError, match=r"expected a pose \(7,\)"):
        excite(hung(), base=HELD[:3], **options)
    with pytest.raises(ModelError, match="hinges and slides"):
        excite(_pendulum_in_space(), **options)
    with pytest.raises(ModelError, match="one at least that is"):
        excite(arm, **{**options, "noise": np.full(6, np.inf)})
    with pytest.raises(ModelError, match="velocities of the base are not those of its poses"):
        excite(hung(), base=lambda t: (swung(t)[0], 2 * swung(t)[1], swung(t)[2]), **options)
    with pytest.raises(ModelError, match="accelerations of the base are not the rates"):
        excite(hung(), base=lambda t: (*swung(t)[:2], 2 * swung(t)[2]), **options)
    with pytest.raises(ShapeError, match=r"v of the base has shape"):
        excite(hung(), base=lambda t: (swung(t)[0], swung(t)[1][:, :3], swung(t)[2]), **options)


def _pendulum_in_space():
    tree = (
        lb.TreeBuilder("ball").add("ball", lb.groups.Spherical(), lb.SpatialInertia.sphere(1.0, 0.1)).build()
    )
    return lb.Robot(tree)


# -- floating bases -----------------------------------------------------------------------------------------

HELD = np.array([1.0, 0, 0, 0, 0, 0, 0.5])
PERIOD = 4.0


def hung():
    """A trunk that floats, with an arm of two hinges."""
    builder = lb.TreeBuilder("hung")
    builder.add("trunk", lb.groups.Free(), lb.SpatialInertia.box(5.0, [0.4, 0.3, 0.2], [0.02, 0.01, 0.03]))
    return lb.Robot(arm_of(builder, "trunk").build())


def arm_of(builder, parent):
    """With two links that hang on the parent."""
    link = lb.SpatialInertia.box(1.0, [0.1, 0.08, 0.3], [0.01, 0.02, -0.15])
    builder.add("upper", lb.groups.Revolute([0, 1, 0]), link, parent, [0.2, 0.1, 0])
    return builder.add("lower", lb.groups.Revolute([1, 0, 0]), link, "upper", [0, 0, -0.3])


def swung(t):
    """The base turns about its x axis and moves up and down, as on a platform."""
    w, angle = 2 * np.pi / PERIOD, 0.3
    turned, rate, rise = angle * np.sin(w * t), angle * w * np.cos(w * t), 0.1 * np.sin(2 * w * t)
    speed, gain = 0.2 * w * np.cos(2 * w * t), -0.4 * w * w * np.sin(2 * w * t)
    zero, c, s = np.zeros_like(t), np.cos(turned), np.sin(turned)
    q = np.stack([np.cos(turned / 2), np.sin(turned / 2), zero, zero, zero, zero, rise], axis=-1)
    # body-fixed velocity R^T (0, 0, speed), and its derivative
    v = np.stack([rate, zero, zero, zero, speed * s, speed * c], axis=-1)
    by_turn = np.stack([zero, c * speed * rate, -s * speed * rate], axis=-1)
    by_speed = np.stack([zero, s * gain, c * gain], axis=-1)
    turning = np.stack([-w * w * turned, zero, zero], axis=-1)
    return q, v, np.concatenate([turning, by_turn + by_speed], axis=-1)


FORCE_PLATE = np.r_[np.full(6, 1.0), np.full(2, 0.1)]  # N m, N, and the motors
MOTORS = np.r_[np.full(6, np.inf), np.full(2, 0.1)]


def test_more_is_shown_of_a_base_whose_wrench_is_measured_or_that_moves():
    """A base that is held, without a force plate, shows what an arm on the ground shows."""
    robot, rng = hung(), np.random.default_rng(5)
    model = LinearModel(robot, None, (), 0.01)
    names = []
    for base, noise in ((HELD, MOTORS), (HELD, FORCE_PLATE), (swung, FORCE_PLATE)):
        plan = PlannedMotion(robot, Series(PERIOD, 3), base)
        names.append(combinations_of(model, states_of(plan, rng), np.isfinite(noise)).names)
    on_ground = lb.Robot(arm_of(lb.TreeBuilder("arm"), "world").build())
    assert names[0] == base_parameters(on_ground).names
    # the wrench on a trunk at rest tells its weight, with what hangs on it, and two moments of that
    assert {name.split(" ")[0] for name in names[1] if "trunk" in name} == {
        "trunk.m",
        "trunk.h_x",
        "trunk.h_y",
    }
    assert len(names[0]) < len(names[1]) < len(names[2]) <= len(base_parameters(robot).names) == 24


@pytest.mark.parametrize(("base", "noise"), [(HELD, MOTORS), (HELD, FORCE_PLATE), (swung, FORCE_PLATE)])
def test_a_base_that_is_held_or_moved_is_part_of_the_motion(base, noise):
    robot = hung()
    found = excite(
        robot, duration=PERIOD, noise=noise, velocity=3.0, position=(-2.0, 2.0), base=base, harmonics=3
    )
    t = np.linspace(0, PERIOD, 41)
    q, v, a = found.motion(t)
    assert q.shape == (41, 9) and v.shape == a.shape == (41, 8)
    given = swung(t) if base is swung else (np.tile(HELD, (41, 1)), np.zeros((41, 6)), np.zeros((41, 6)))
    for x, y in zip((q[:, :7], v[:, :6], a[:, :6]), given, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)
    assert (np.abs(v[:, 6:]) < 3.0).all() and (np.abs(q[:, 7:]) < 2.0).all()
    # what is promised are the deviations of estimates from such efforts
    sigma = np.where(np.isfinite(noise), noise, 1.0)
    efforts = found.tau + sigma * np.random.default_rng(0).normal(size=(300, *found.tau.shape))
    efforts[..., np.isinf(noise)] = np.nan
    fits = linear(robot, found.q, found.v, found.a, efforts, noise=sigma, consistent=False)
    plan, model = PlannedMotion(robot, Series(PERIOD, 3), base), LinearModel(robot, None, (), 0.01)
    shown = combinations_of(model, states_of(plan, np.random.default_rng(5)), np.isfinite(noise))
    assert [x.name for x in found.combinations] == list(shown.names)
    K = shown.K
    estimates = fits.coordinates @ K.T
    promised = np.array([x.deviation for x in found.combinations])
    assert (np.abs(np.std(estimates, axis=0, ddof=1) / promised - 1) < 5 / np.sqrt(600)).all()
    believed = np.array([x.value for x in found.combinations])
    assert (np.abs(estimates.mean(axis=0) - believed) < 5 * promised / np.sqrt(300)).all()


def states_of(plan, rng):
    """Random states of the joints, along the motion of the base."""
    joints = 2 * rng.normal(size=(3, 100, 2))
    return plan.whole(tuple(joints), plan.base.at(rng.uniform(0, PERIOD, 100)))


def test_gradients_with_a_moving_base_are_those_of_differences():
    robot = hung()
    model = LinearModel(robot, None, ("damping",), 0.5)
    plan = PlannedMotion(robot, Series(PERIOD, 3), swung)
    shown = combinations_of(model, states_of(plan, np.random.default_rng(5)))
    limits = MotionLimits.of(plan, (-2.0, 2.0), 3.0, 50.0)
    problem = ExcitationProblem(model, shown, plan, FORCE_PLATE, limits, lambda q: 2 - q[7] * q[6], "D")
    rng = np.random.default_rng(0)
    x = problem.start(rng)
    direction = rng.normal(size=x.shape)
    ends = [problem.at(x + h * direction) for h in (1e-6, -1e-6)]
    expected = (ends[0].criterion - ends[1].criterion) / 2e-6
    assert abs(np.sum(problem.at(x).gradient * direction) / expected - 1) < 1e-6
    expected = (ends[0].barrier - ends[1].barrier) / 2e-6
    by_barrier, _ = problem.barrier_derivatives(problem.at(x))
    assert abs(by_barrier @ direction.ravel() / expected - 1) < 1e-6
