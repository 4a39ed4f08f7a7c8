"""The examples do what their pages say."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
from found import description, load_example


def test_a_control_loop_in_plain_python_holds_the_pole(capsys):
    angles = load_example("control_loop").main()
    assert abs(angles[0]) > 8 and 1 < np.abs(angles[1000:2000]).max() < 10
    assert np.abs(angles[-500:]).max() < 1.0  # some counts of the encoder


@pytest.mark.wide
def test_the_hopper_learns_to_stay_up(capsys):
    pytest.importorskip("gymnasium", reason="the test extra `gymnasium` is not installed")
    history, _ = load_example("hopper_gym").main(generations=10)
    assert np.mean(history[-3:]) > 1.4 * history[0]


def test_computed_torque_converges_with_the_true_model_and_not_with_a_wrong_one(capsys):
    errors = load_example("computed_torque").main()
    assert errors["true model"][-1] < 1e-10
    assert 1e-4 < errors["hand 30 % lighter"][-1] < 1e-2
    assert capsys.readouterr().out.count("controller compiled") == 2


def test_a_rolling_disc_keeps_its_integrals_and_does_not_slip(tmp_path):
    found = load_example("rolling_disc").main(str(tmp_path / "disc.png"))
    assert found.slip.max() < 1e-12 and np.ptp(found.energy) < 1e-9
    assert np.abs(found.foot[:, 2]).max() < 1e-12
    order = np.argsort(found.tilt)  # several times to and fro: each rate is one curve over the tilt
    for rate in found.rates[:, 1:].T:
        curve = np.polynomial.Chebyshev.fit(found.tilt[order], rate[order], 12)
        assert np.abs(curve(found.tilt) - rate).max() < 1e-9
    assert found.tilt.min() < found.tilt[0] - 0.1


@pytest.mark.wide
def test_the_arm_and_its_load_are_identified_as_well_as_the_noise_allows(capsys):
    found = load_example("identify_arm").main()
    assert np.abs(found["guesses"]).max() > 1
    assert (np.abs(found["errors"]) < 4 * found["deviations"]).all()
    assert np.abs(found["hand"]).max() < 0.02 and 0.9 < found["chi"] < 1.1
    assert capsys.readouterr().out.count("friction") == 6


@pytest.mark.wide
def test_a_load_is_weighed_better_by_a_planned_motion(capsys):
    found, other = load_example("weigh_a_load").main()
    for load in (found, other):
        assert abs(load.mass - 2) < 4 * load.deviations["mass"]
        assert (np.abs(load.center - [0.02, -0.03, 0.15]) < 4 * load.deviations["center"]).all()
    assert found.deviations["mass"] < other.deviations["mass"]
    assert capsys.readouterr().out.count("+-") == 20


@pytest.mark.wide
def test_the_trunk_of_a_quadruped_is_weighed_in_a_trot(capsys):
    """Intervals of 500 measurements, each with its own noise, contain the truth as often as they say."""
    found, true, forces = load_example("trunk_of_a_quadruped").main()
    inside = []
    for name, values in true.items():
        estimates, deviations = (np.reshape(x[name], (500, -1)) for x in (found.values, found.deviations))
        assert np.isfinite(deviations).all()
        inside.append(np.abs(estimates - values) < 1.959964 * deviations)
    share = np.concatenate(inside, axis=1)
    assert 0.93 < share.mean() < 0.97
    assert (np.abs(share.mean(axis=0) - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 500)).all()
    assert (found.deviations["base.mass"] < 0.05).all()  # kg, of 32
    # the motion is rich in contacts: both pairs of feet stand and lift
    for force in forces.values():
        on = force[:, 2] > 1.0
        assert 0.2 < on.mean() < 0.9 and np.count_nonzero(np.diff(on.astype(int)) == 1) > 3
    assert "95 % contain the true value" in capsys.readouterr().out


@pytest.mark.wide
def test_an_arm_draws_a_circle_and_says_where_it_cannot(capsys):
    error, step, found = load_example("inverse_kinematics").main()
    assert error < 1e-9 and step < 0.1
    reached = found.converged.all(axis=1)
    assert reached[[2, 3, 4, 5]].all() and not reached[6:].any()
    away = found.residual.max(axis=1)[6:]
    assert (np.diff(away) > 0.05).all()
    assert capsys.readouterr().out.count("out of reach by") == np.count_nonzero(~reached)


@pytest.mark.wide
def test_an_arm_reaches_between_two_columns_and_touches_none(tmp_path):
    example = load_example("reach_around")
    picture = tmp_path / "reach.png"
    free, clear = example.main(str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    (_, _, without, *_), (_, q, distance, error, status) = free, clear
    assert without.min() < -0.05 and distance.min() > example.MARGIN - 1e-5
    assert (status == 0).all() and error.max() < 5e-3 and error[-1] < 5e-4
    assert (np.abs(q) <= 2.2).all() and (np.abs(np.diff(q, axis=0)) <= 2.0 * example.DT + 1e-9).all()


def test_an_acrobot_swings_up_and_a_simulation_ends_where_the_solver_says(capsys):
    pytest.importorskip("casadi", reason="the test extra `casadi` is not installed")
    found = load_example("casadi_swing_up").main()
    assert found["missed"] < 1e-6
    assert abs(found["cost"] - 69.1847) < 1e-3 and np.abs(found["states"][:, 1]).max() > 2
    assert "Solve_Succeeded" in capsys.readouterr().out


@pytest.mark.wide
def test_legs_hold_a_filter_that_an_imu_alone_would_lose(capsys):
    try:
        found = load_example("invariant_filter").main(runs=50)
    except PackageNotFoundError:
        pytest.skip("the test extra `example-robot-data` is not installed")
    legs, alone = found["with its legs"], found["IMU alone"]
    ends = {name: np.sqrt(np.mean(legs[name][-1] ** 2)) for name in ("tilt", "speed", "place")}
    assert np.degrees(ends["tilt"]) < 1 and ends["speed"] < 0.05 and ends["place"] < 0.1
    assert np.sqrt(np.mean(alone["place"][-1] ** 2)) > 5
    # of the IMU alone nothing is linearised but biases: chi-square, deviation sqrt(2/15/50); legs slip less
    assert abs(alone["nees"][-1].mean() - 1) < 4 * np.sqrt(2 / 15 / 50)
    assert 0.3 < legs["nees"][100:].mean() < 1.3


@pytest.mark.wide
def test_a_stone_is_thrown_far_by_the_gradient_of_where_it_lands(capsys):
    throw = load_example("throw")
    found = throw.main()
    assert found["thrown"]["at best"] > 5 * found["thrown"]["at first"]
    assert np.abs(found["tau"]).max() <= throw.LIMIT and found["costs"][-1] < found["costs"][0] - 1.5
    inside = np.abs(found["tau"].ravel()) < throw.LIMIT - 1e-6
    assert np.abs(found["slope"][inside]).max() < 0.02 * np.abs(found["slope"]).max()
    assert "simulations with gradients" in capsys.readouterr().out


@pytest.mark.slow
def test_pushed_feet_slip_before_they_lift_and_the_robot_comes_back(tmp_path, capsys):
    try:
        run = load_example("legs_on_the_ground").main(str(tmp_path / "legs.png"))
    except PackageNotFoundError:
        pytest.skip("the test extra `example-robot-data` is not installed")
    slips, lifts = (float(word) for word in re.findall(r"from ([\d.]+) N on", capsys.readouterr().out))
    assert 50 < slips < lifts
    assert run.memory["residual"].max() < 1e-2
    assert (
        np.abs(run.q[:, -1, 5]).max() < 0.1 and (run.q[:, -1, 6] > 0.4).all()
    )  # all stand, near where they were


@pytest.mark.wide
def test_robots_stand_on_terrain_and_lean_the_more_the_rougher_it_is(tmp_path):
    description("anymal_c_simple_description")
    picture = tmp_path / "terrain.png"
    run, rough, lean = load_example("anymals_on_random_terrain").main(str(picture), members=96)
    assert picture.stat().st_size > 1e4 and (run.ends == "").all()
    flat, steep = lean[rough < 0.05], lean[rough > 0.15]
    assert flat.max() < 5 < np.median(steep) < 30
    assert (run.q[rough < 0.1, -1, 6] > 0.4).all()


@pytest.mark.wide
def test_diagonal_feet_alternate_in_the_trot_and_the_robot_stays_upright():
    description("anymal_c_simple_description")
    example = load_example("anymal_trots")
    run, on = example.main()
    assert (run.ends == "").all() and run.q[..., 6].min() > 0.5
    trots = (run.t > 1) & (run.t < example.END)
    first, second = (on[:, trots][..., pair] for pair in ([0, 3], [1, 2]))
    assert (first.all(-1) & ~second.any(-1)).mean() > 0.3 < (second.all(-1) & ~first.any(-1)).mean()
    for pace, feet in zip(example.PACES, on[:, trots], strict=True):  # each foot lands once in a cycle
        landings = np.count_nonzero(np.diff(feet.astype(int), axis=0) == 1, axis=0)
        np.testing.assert_allclose(landings, pace * (example.END - 1), atol=1)
    x, y = run.q[..., 1], run.q[..., 2]
    assert (1 - 2 * (x * x + y * y)).min() > np.cos(np.radians(10))


@pytest.mark.wide
def test_robots_stand_on_the_steps_onto_which_they_fell(tmp_path):
    description("solo_description")
    picture = tmp_path / "steps.png"
    run, on, lean = load_example("solo12_on_steps").main(str(picture))
    assert picture.stat().st_size > 1e4 and (run.ends == "").all()
    assert on.mean() > 0.95 and lean.max() < 20
    assert np.abs(run.v[:, -1]).max() < 0.05  # they have come to rest


@pytest.mark.wide
def test_a_biped_tips_over_the_edge_of_its_soles_before_it_falls():
    description("talos_data")
    example = load_example("talos_on_its_soles")
    run, normal, pressure, heels, stands = example.main()
    lifts, falls = example.PUSHES[heels <= 0].min(), example.PUSHES[~stands].min()
    assert 50 < lifts < falls < 190
    loaded = normal.sum(-1) > 1
    assert (pressure[loaded] <= example.X[1] + 1e-9).all() and (pressure[loaded] >= example.X[0] - 1e-9).all()
    before = normal[0, run.t < example.START][-1]
    np.testing.assert_allclose(before[:4].sum(), before[4:].sum(), rtol=0.05)  # both feet carry as much


def test_a_network_learns_from_gradients_that_are_those_of_the_loss():
    """PPO's loss and its gradient by difference quotients, in float64, where some ratios are clipped."""
    example = load_example("quadruped_learns_to_trot")
    rng = np.random.default_rng(0)
    n = 400
    actor, critic = (
        [(W.astype(float), rng.standard_normal(b.shape)) for W, b in example.random_layers(rng, sizes, 1.0)]
        for sizes in ([5, 7, 3], [5, 6, 1])
    )
    log, old_log = 0.1 * rng.standard_normal((2, 3))
    observation = rng.standard_normal((n, 5))
    old_mean = example.output(actor, observation) + 0.3 * rng.standard_normal((n, 3))
    action = old_mean + np.exp(old_log) * rng.standard_normal((n, 3))
    old_probability = example.log_probability((action - old_mean) / np.exp(old_log), old_log)
    batch = example.Batch(
        observation,
        action,
        rng.standard_normal(n),
        rng.standard_normal(n),
        old_mean,
        old_log,
        old_probability,
    )

    def loss():
        mean = example.output(actor, observation)
        r = np.exp(example.log_probability((action - mean) / np.exp(log), log) - old_probability)
        clipped = np.clip(r, 1 - example.CLIP, 1 + example.CLIP)
        assert 0.2 < np.mean(r != clipped) < 0.8
        surrogate = np.minimum(r * batch.A, clipped * batch.A).mean()
        miss = example.output(critic, observation)[:, 0] - batch.returns
        return -surrogate - example.ENTROPY * log.sum() + 0.5 * np.square(miss).mean()

    gradient, by_log, divergence = example.policy_gradient(actor, log, batch)
    arrays = [*(x for layer in actor + critic for x in layer), log]
    for x, g in zip(arrays, [*gradient, *example.value_gradient(critic, batch), by_log], strict=True):
        for place in np.ndindex(x.shape):
            middle, differences = x[place], []
            for x[place] in (middle + 1e-6, middle - 1e-6):
                differences.append(loss())
            x[place] = middle
            # a ratio that passes 1 +- CLIP within the difference would show, of 400 none does
            np.testing.assert_allclose((differences[0] - differences[1]) / 2e-6, g[place], atol=1e-8)

    # the divergence of normal distributions from samples of the old one
    sample = old_mean[0] + np.exp(old_log) * rng.standard_normal((200_000, 3))
    one = batch._replace(**{name: getattr(batch, name)[:1] for name in ("observation", "action", "old_mean")})
    one = one._replace(A=batch.A[:1], old_probability=old_probability[:1])
    exact = example.policy_gradient(actor, log, one)[2]
    new_mean = example.output(actor, observation[:1])
    ratio = example.log_probability((sample - old_mean[0]) / np.exp(old_log), old_log)
    ratio = ratio - example.log_probability((sample - new_mean) / np.exp(log), log)
    assert abs(ratio.mean() - exact) < 5 * ratio.std() / np.sqrt(len(ratio))
    assert divergence > 0


def test_advantages_are_sums_of_temporal_differences_until_a_fall():
    example = load_example("quadruped_learns_to_trot")
    rng = np.random.default_rng(0)
    reward, value = rng.standard_normal((6, 3)), rng.standard_normal((7, 3))
    lost = np.zeros((6, 3), bool)
    lost[2, 1] = lost[5, 2] = True
    A = example.advantages(reward, value, lost)
    for member in range(3):
        for k in range(6):
            expected, weight = 0.0, 1.0
            for i in range(k, 6):
                after = 0.0 if lost[i, member] else value[i + 1, member]
                expected += weight * (reward[i, member] + example.GAMMA * after - value[i, member])
                weight *= example.GAMMA * example.LAMBDA
                if lost[i, member]:
                    break
            assert abs(A[k, member] - expected) < 1e-13


@pytest.mark.wide
def test_a_quadruped_begins_to_learn_and_its_policy_is_the_same_in_c(tmp_path, capsys):
    """The short form: everything runs, and C computes what Python computes."""
    description("anymal_c_simple_description")
    pytest.importorskip("mujoco", reason="the test extra `mujoco` is not installed")
    example = load_example("quadruped_learns_to_trot")
    learnt, walks, theirs, differs = example.main(tmp_path, updates=6, members=64, tested=8, seconds=0.4)
    assert learnt.history[-1, 1] == 6 * 24 * 64
    assert differs is None or differs < 1e-12
    with np.load(tmp_path / "trot.npz") as saved:
        np.testing.assert_array_equal(saved["W2"], learnt.layers[2][0])
    assert (tmp_path / "learning.png").stat().st_size > 1e4
    # a policy that has hardly learnt stands, here and in MuJoCo, whose contacts sink in by other amounts
    for x in (*walks.values(), theirs):
        assert x.up.all()
        np.testing.assert_allclose(x.q[-1, :, 6], 0.54, atol=0.05)
    example.film(learnt.snapshots, tmp_path / "trot.gif", seconds=0.2, width=160, height=80)
    assert (tmp_path / "trot.gif").stat().st_size > 1e3
    assert "stay up" in capsys.readouterr().out


@pytest.mark.slow
def test_a_quadruped_learns_to_trot_at_the_velocity_that_it_is_told(tmp_path):
    description("anymal_c_simple_description")
    pytest.importorskip("mujoco", reason="the test extra `mujoco` is not installed")
    example = load_example("quadruped_learns_to_trot")
    _, walks, theirs, differs = example.main(tmp_path)
    for speed, x in walks.items():
        errors, deviation = x.errors(speed)
        assert x.up.mean() > 0.98 and errors[x.up].max() < 0.1 and deviation < 0.1
    assert theirs.up.mean() > 0.9 and theirs.errors(0.5)[0][theirs.up].mean() < 0.1
    assert differs is None or differs < 1e-12
