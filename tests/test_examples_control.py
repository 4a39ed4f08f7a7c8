"""The examples of control show what their pages say: adaptation that converges, collisions that are felt."""

from __future__ import annotations

import ctypes
import re
import subprocess

import numpy as np
import pytest
from found import description, load_example

import liebody as lb
from liebody.compiler.native import build

pytestmark = pytest.mark.wide

# -- Slotine and Li ---------------------------------------------------------------------------------------

SETTLED = 12.0  # s


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory):
    """The example, its runs and its growth rates."""
    example, picture = load_example("slotine_li"), tmp_path_factory.mktemp("pictures") / "slotine_li.png"
    runs, exponents = example.main(str(picture), t_end=SETTLED)
    assert picture.read_bytes().startswith(b"\x89PNG")
    return example, runs, exponents


def first_and_last(adaptive, name):
    """The largest error in the first two seconds, and in the last two."""
    example, runs, _ = adaptive
    t, error = runs[name].t, example.largest_error(runs[name])
    assert t[-1] == SETTLED
    return error[t < 2].max(), error[t > SETTLED - 2].max()


def test_the_tracking_error_vanishes_though_no_parameter_is_known(adaptive):
    first, last = first_and_last(adaptive, "geared, skew C")
    assert last < first / 20
    first, last = first_and_last(adaptive, "geared, gains alone")
    assert last > first / 2


def test_v_falls_by_the_work_of_the_gains_if_c_is_skew(adaptive):
    """To the tolerance of the integrator, 1e-8 in each step; and then it never rises."""
    example, runs, _ = adaptive
    for name in ("geared, skew C", "direct, skew C"):
        run = runs[name]
        assert example.balance(run).max() < 1e-8 * len(run.t)
        assert np.diff(run.V).max() < 1e-8 * run.V[0]
        assert run.V[-1] < 1e-2 * run.V[0]


def test_v_does_not_if_c_is_not_skew(adaptive):
    """On the geared arm by some hundredths; on direct drives by more than a half, and it rises at times."""
    example, runs, _ = adaptive
    geared, direct = runs["geared, C not skew"], runs["direct, C not skew"]
    assert 1e-3 < example.balance(geared).max() < 2e-2
    assert example.balance(direct).max() > 0.5
    assert np.diff(direct.V).max() > 1e-4 * direct.V[0]


def test_on_direct_drives_the_form_of_c_decides_on_the_error(adaptive):
    skew, other = (first_and_last(adaptive, f"direct, {law}") for law in ("skew C", "C not skew"))
    assert other[0] > 2.5 * skew[0] and other[1] > 2.5 * skew[1]
    skew, other = (first_and_last(adaptive, f"geared, {law}") for law in ("skew C", "C not skew"))
    np.testing.assert_allclose(other, skew, rtol=0.15)


def test_with_a_skew_c_any_gain_is_stable_and_with_another_not(adaptive):
    example, _, exponents = adaptive
    for arm in ("geared", "direct"):
        skew = exponents[f"{arm}, skew C"]
        assert abs(skew[0]) < 1e-5  # s^T M s stays what it is
        assert np.all(np.diff(skew) < 0)
    stable_from = {arm: example.GAINS[exponents[f"{arm}, C not skew"] < 0][0] for arm in ("geared", "direct")}
    assert stable_from == {"geared": 0.25, "direct": 1.0}
    assert exponents["geared, C not skew"][0] == pytest.approx(0.045, abs=0.005)
    assert exponents["direct, C not skew"][0] == pytest.approx(0.69, abs=0.01)


def test_the_gain_that_is_needed_grows_with_the_speed(adaptive, monkeypatch):
    example, _, exponents = adaptive
    monkeypatch.setattr(example, "SPEED", 2 * example.SPEED)
    monkeypatch.setattr(example, "PERIOD", example.PERIOD / 2)
    twice = example.growth(example.DIRECT, example.NOT_SKEW, 2 * example.GAINS[[0, 4, 10]])
    np.testing.assert_allclose(twice, 2 * exponents["direct, C not skew"][[0, 4, 10]], atol=1e-4)


def test_what_a_c_that_is_not_skew_takes_from_the_gains():
    """d/dt (s^T M s / 2) = -s^T (K + D) s, D = C_newton-euler - C; D v = 0, D proportional to v."""
    robot, rng = lb.models.puma560(), np.random.default_rng(7)
    K = rng.random(6)
    for q, v, v_r, a_r in rng.normal(size=(5, 4, 6)):
        M, rate, C = robot.mass_and_coriolis(q, v)
        other, s = robot.coriolis_matrix(q, v, "newton-euler"), v - v_r
        a = robot.forward_dynamics(q, v, M @ a_r + other @ v_r + robot.gravity(q) - K * s)
        D = other - C
        power = s @ M @ (a - a_r) + s @ rate @ s / 2
        assert power == pytest.approx(-s @ (K * s + D @ s), rel=1e-9)
        assert np.abs(D @ v).max() < 1e-12
        twice = robot.coriolis_matrix(q, 2 * v, "newton-euler") - robot.coriolis_matrix(q, 2 * v)
        np.testing.assert_allclose(twice, 2 * D, atol=1e-12)


# -- collisions -------------------------------------------------------------------------------------------

GAINS = (25.0, 50.0, 150.0)


@pytest.fixture(scope="module")
def collisions(tmp_path_factory):
    """The example and its result."""
    example = load_example("collision_detection")
    picture = tmp_path_factory.mktemp("pictures") / "collisions.png"
    result = example.main(str(picture), gains=GAINS)
    assert picture.read_bytes().startswith(b"\x89PNG")
    return example, result


def test_the_residual_is_the_filtered_external_effort(collisions):
    """To the error of the trapezoidal rule at 1 kHz."""
    _, result = collisions
    difference = np.abs(result.exact - result.filtered).max()
    assert np.abs(result.filtered).max() > 20
    assert difference < 5e-3


def test_with_samples_twice_as_often_it_is_four_times_closer(collisions):
    example, _ = collisions
    robot, hits, errors = lb.models.puma560(), example.HITS[:1], []
    for dt in (1e-3, 5e-4):
        x = example.simulate(robot, hits, 0.8, dt)
        r = example.residual(robot, x.q, x.v, x.tau, dt, example.OBSERVER)
        expected = example.low_pass(example.integrals(x.tau_ext, dt), dt, example.OBSERVER)
        errors.append(np.abs(r - expected).max())
    assert errors[0] / errors[1] > 3.5


def test_a_hit_is_felt_by_the_joints_before_the_link_only(collisions):
    example, result = collisions
    t, r = result.samples.t, np.abs(result.exact)
    assert r[t <= example.HITS[0].start].max() < 2e-3
    for hit in example.HITS:
        during = r[(t > hit.start) & (t < hit.end)].max(axis=0)
        assert during[hit.link - 1] > 0.4
        assert np.all(during[hit.link :] < 5e-3)


def test_every_hit_is_found_soon_and_its_link_named_despite_noise_and_wrong_masses(collisions):
    example, result = collisions
    for observed in result.observers.values():
        assert observed.false_alarms == 0
        assert [found.link for found in observed.detections] == [hit.link for hit in example.HITS]
        assert all(0 < found.delay < 0.02 for found in observed.detections)


def test_the_delay_is_that_of_the_filtered_effort(collisions):
    """With the exact model, for thresholds of any size, to the sample."""
    example, result = collisions
    t = result.samples.t
    for threshold in np.outer([0.1, 0.3], np.ones(6)):
        for hit in example.HITS:
            found = example.detect(t, result.exact, threshold, hit)
            assert found == example.detect(t, result.filtered, threshold, hit)
            assert found.link == hit.link


def test_higher_gains_are_faster_until_noise_sets_the_threshold(collisions):
    example, result = collisions
    exact, noisy = (
        [example.mean_delay(result.observers[noise, gain]) for gain in GAINS]
        for noise in (0.0, example.NOISE)
    )
    assert exact[0] > 1.5 * exact[-1]
    assert noisy[0] < 1.2 * noisy[-1]
    assert min(noisy) > max(exact)


def test_without_hits_nothing_is_felt(collisions):
    """With noise other than that of the thresholds."""
    example, result = collisions
    threshold = result.observers[example.NOISE, example.OBSERVER].threshold
    believed = lb.Robot(example.heavier(lb.models.puma560().tree, 1.02))
    x = example.simulate(lb.models.puma560(), (), result.samples.t[-1])
    v = x.v + example.NOISE * np.random.default_rng(9).standard_normal(x.v.shape)
    r = example.residual(believed, x.q, v, x.tau, example.DT, example.OBSERVER)
    assert [example.detect(x.t, r, threshold, hit) for hit in example.HITS] == 4 * [None]
    assert np.all(np.abs(r).max(axis=0) > threshold / 3)  # which are no larger than need be


def test_some_forces_name_a_link_before_and_none_a_link_behind(collisions):
    _, result = collisions
    np.testing.assert_allclose(result.named.sum(axis=1), 1)
    assert np.all(np.triu(result.named[:, 1:], 1) == 0)
    right = np.diag(result.named[:, 1:])
    assert 0.3 < right[0] < 0.5 and 0.6 < right[1] < 0.8 and np.all(right[3:] > 0.9)


# -- the acrobot -------------------------------------------------------------------------------------------


def test_the_acrobot_stands_with_the_gains_of_its_plan_and_not_without(tmp_path):
    plan, runs = load_example("acrobot_swing_up").main(str(tmp_path / "acrobot.png"))
    assert plan.converged and plan.gap == 0 and np.abs(plan.u).max() == 12.0
    away = {name: np.abs(run.q[-1] - [np.pi, 0]).max() for name, run in runs.items()}
    assert away["gains"] < 1e-5 and away["plan alone"] > 1


# -- a jump ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_anymal_jumps_and_lands_as_planned_in_other_simulations(tmp_path):
    """Newton's law over the flight and the whole jump; the plan beside RK4, and beside feet that stick."""
    description("anymal_b_simple_description/robots/anymal.urdf")
    jump = load_example("anymal_jump").main(str(tmp_path / "jump.png"))
    plan, t = jump.plan, jump.plan.t
    assert plan.converged and plan.gap == 0 and np.abs(plan.u).max() <= 80
    air = np.flatnonzero(jump.flies)
    assert np.all(np.diff(air) == 1) and t[air[-1]] - t[air[0]] > 0.2  # one flight
    touched = jump.force[..., 2] > 0
    for ends in (touched[:600][::-1], touched[600:]):  # all four legs together, to 2 ms
        assert np.ptp(ends.argmax(axis=0)) <= 2
    assert jump.feet[600].min() > 0.05 and plan.q[:, 6].max() - plan.q[0, 6] > 0.25
    assert np.abs(plan.q[-1, 4:7] - plan.q[0, 4:7]).max() < 0.02 and np.abs(plan.v[-1]).max() < 0.2
    carried = np.trapezoid(jump.force[..., 2].sum(axis=1), t)
    assert carried == pytest.approx(30.4754 * 9.81 * t[-1], rel=0.02)  # the impulse of the weight
    apart = [np.linalg.norm(q[:, 4:7] - plan.q[:, 4:7], axis=1) for q in (jump.played.q, jump.followed)]
    assert apart[0][:600].max() < 5e-3 and apart[1][:600].max() < 0.02 and apart[1].max() < 0.08
    lifted = jump.carried.max(axis=1) == 0
    assert lifted[500:700].all() and not lifted[1:380].any() and not lifted[900:].any()


# -- whole-body control ------------------------------------------------------------------------------------


def test_anymal_shifts_its_body_and_lifts_a_foot(tmp_path):
    """Forces carry the weight at rest, the lifted foot has none, and the body follows its reference."""
    description("anymal_b_simple_description/robots/anymal.urdf")
    example = load_example("anymal_whole_body")
    picture = tmp_path / "foot.png"
    t, forces, _, height, status, error = example.main(str(picture), t_end=1.5)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert not (status == 2).any() and error < 3e-3
    assert forces[:, (t > 0.1) & (t < 0.29)].sum(axis=0) == pytest.approx(30.4754 * 9.81, rel=1e-3)
    lifted = t >= 1.0
    assert not forces[0, lifted].any() and (forces[1:, lifted] > 20).all()
    up = example.LIFT * example.smooth(t[-1], 1.0, 1.6)[0]
    assert height[-1] - height[0] == pytest.approx(up, abs=5e-3)


@pytest.mark.parametrize("seed", [1, 2])
def test_anymal_trots_on_bumps_that_it_does_not_see(seed, tmp_path):
    """Trunk, speed, limits and estimate stay within bounds, on two terrains with sensors of their own."""
    description("anymal_c_simple_description")
    example = load_example("anymal_trots_on_bumps")
    walk, heights = example.walk(seed, t_end=2.2)
    assert walk.t[-1] == pytest.approx(2.2) and np.ptp(heights) > 0.9 * example.BUMPS
    assert walk.tilt.max() < 4 and np.ptp(walk.q[1000:, 6]) < 0.05
    late = walk.t > 1.2  # two cycles and a half, after it has got its speed
    assert np.abs(walk.velocity[late, :2].mean(axis=0) - [example.SPEED, 0]).max() < 0.08
    assert np.abs(walk.tau).max() <= 80 * (1 + 1e-9) and not (walk.status == 2).any()
    assert np.unique(walk.stands[late], axis=0).shape[0] > 2  # both pairs swing
    swings = np.diff(walk.stands.astype(int), axis=0)
    assert (np.sum(swings < 0, axis=0) >= 3).all()
    # the controller has seen the estimate alone: what it does not know has grown slowly
    assert walk.drift.max() < 0.04
    assert np.abs(walk.estimated_velocity - walk.velocity)[200:].max() < 0.15
    example.draw(walk, heights, str(tmp_path / "trot.png"))
    assert (tmp_path / "trot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_anymal_trots_on_after_a_push():
    description("anymal_c_simple_description")
    example = load_example("anymal_trots_on_bumps")
    for seed in range(3):
        walk, _ = example.walk(seed, t_end=4.5)
        pushed = walk.velocity[(walk.t > example.START) & (walk.t < example.END + 0.05), 1]
        assert np.ptp(pushed) > 0.3  # m/s, sideways
        assert walk.t[-1] == pytest.approx(4.5) and walk.tilt.max() < 10
        assert np.abs(walk.velocity[-500:, :2].mean(axis=0) - [example.SPEED, 0]).max() < 0.1


def test_talos_squats_and_lifts_an_arm_within_its_limits(tmp_path):
    """Centre of mass and hand follow their references; what presses on the soles presses within them."""
    description("talos_data")
    example = load_example("talos_squats")
    squat = example.main(str(tmp_path / "squat.png"), t_end=2.1)
    assert (tmp_path / "squat.png").read_bytes().startswith(b"\x89PNG")
    assert np.ptp(squat.center[:, 2]) > 0.19 and np.ptp(squat.hand[:, 2]) > 0.49
    assert np.abs(squat.center - squat.wanted_center).max() < 3e-3
    assert np.abs(squat.hand - squat.wanted_hand).max() < 8e-3
    assert np.abs(squat.share).max() <= 1 + 1e-9 and not squat.status.any()
    for k, (low, high) in enumerate((example.X, example.Y)):
        assert (squat.pressure[..., k] > low).all() and (squat.pressure[..., k] < high).all()


class Recorded:
    """A controller that keeps the states, parameters and commands of its calls."""

    def __init__(self, controller):
        self.controller = controller
        self.calls = []

    def __call__(self, q, v, values):
        u = self.controller(q, v, values)
        self.calls.append((q.copy(), v.copy(), self.controller.pack(values), u))
        return u


def controller_in_c(controller, folder):
    """The exported controller, compiled for this machine: (q, v, p) -> arrays like those of a command."""
    if (compiler := build.find_compiler()) is None:
        pytest.skip("there is no C compiler")
    source, header, *_ = controller.export_c(folder)
    library = folder / "controller.so"
    flags = "-std=c99 -O1 -fPIC -shared".split()
    subprocess.run([*compiler.command, *flags, "-o", library, source, "-lm"], check=True)
    function = ctypes.CDLL(str(library))[f"{source.stem}_whole_body"]
    work = np.zeros(int(re.search(r"WHOLE_BODY_WORK_SIZE (\d+)", header.read_text())[1]))

    def call(q, v, p, like):
        results = [np.full(np.shape(x), np.nan) for x in like]
        function(*(ctypes.c_void_p(x.ctypes.data) for x in (q, v, p, *results, work)))
        return type(like)(*results)

    return call


@pytest.mark.parametrize(
    ("name", "package", "run", "t_end"),
    [
        ("anymal_trots_on_bumps", "anymal_c_simple_description", "walk", 0.62),
        ("talos_squats", "talos_data", "main", 0.4),
    ],
)
def test_controllers_of_examples_compute_in_c_what_they_compute_in_python(
    name, package, run, t_end, tmp_path, monkeypatch
):
    """In the states of the example, beside each other.

    Torques agree to 1e-8 of the largest where the small costs are 1: a matrix with entries from 1 to 1e7
    loses seven of the sixteen digits, and the inverses of the legs, which eliminate their accelerations, lose
    one more. The example's own costs of 1e-4 leave four digits less to what they alone decide, such as the
    force by which two feet press against each other; accelerations do not depend on that.
    """
    description(package)
    example = load_example(name)
    make, made = example.controller_of, []
    monkeypatch.setattr(example, "controller_of", lambda robot: made.append(Recorded(make(robot))) or made[0])
    getattr(example, run)(t_end=t_end)
    controller, calls = made[0].controller, made[0].calls
    in_c = controller_in_c(controller, tmp_path)
    assert len(calls) == round(1000 * t_end)
    small = [controller.layout.places[word] for word in ("acceleration_weight", "force_weight")]
    for q, v, p, u in calls[::7]:
        result = in_c(q, v, p, u)
        assert result.status == u.status
        np.testing.assert_allclose(result.a, u.a, rtol=0, atol=1e-6 * max(1, np.abs(u.a).max()))
        for place in small:
            p[place] = 1.0
        exact = controller(q, v, p)
        result = in_c(q, v, p, exact)
        for word in ("tau", "a", "f"):
            expected = getattr(exact, word)
            size = max(10.0, np.abs(expected).max())  # N m, rad/s2, N; forces vanish in the air
            np.testing.assert_allclose(getattr(result, word), expected, rtol=0, atol=1e-8 * size)
        assert result.iterations == exact.iterations


# -- a Panda beside a wall ----------------------------------------------------------------------------------


def test_the_hand_stays_before_the_wall_while_its_goal_goes_behind_it(capsys):
    description("panda")
    example = load_example("panda_beside_a_wall")
    found = example.main(t_end=4.0)
    beyond = found["hand"][:, 0] - example.WALL
    assert example.goal(found["t"])[:, 0].max() - example.WALL > 0.09
    assert beyond.max() < 5e-4  # m
    along = (found["t"] > 1.5) & (found["t"] < 3.0)
    assert np.abs(beyond[along]).max() < 1e-3  # it touches the wall
    assert found["speed"].max() < example.SPEED + 0.05 and found["effort"].max() <= 1 + 1e-9
    assert "behind the wall" in capsys.readouterr().out
