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
def test_an_arm_draws_a_circle_and_says_where_it_cannot(capsys):
    error, step, found = load_example("inverse_kinematics").main()
    assert error < 1e-9 and step < 0.1
    reached = found.converged.all(axis=1)
    assert reached[[2, 3, 4, 5]].all() and not reached[6:].any()
    away = found.residual.max(axis=1)[6:]
    assert (np.diff(away) > 0.05).all()
    assert capsys.readouterr().out.count("out of reach by") == np.count_nonzero(~reached)


def test_an_acrobot_swings_up_and_a_simulation_ends_where_the_solver_says(capsys):
    pytest.importorskip("casadi", reason="the test extra `casadi` is not installed")
    found = load_example("casadi_swing_up").main()
    assert found["missed"] < 1e-6
    assert abs(found["cost"] - 69.1847) < 1e-3 and np.abs(found["states"][:, 1]).max() > 2
    assert "Solve_Succeeded" in capsys.readouterr().out


@pytest.mark.wide
def test_the_invariant_filter_knows_how_wrong_it_is_and_the_other_one_does_not(capsys):
    found = load_example("invariant_filter").main(runs=100)
    consistent = {name: x["square"].mean(axis=1) / 12 for name, x in found.items()}
    assert abs(consistent["invariant"][100:] - 1).max() < 6 * np.sqrt(2 / 12 / 100)  # of 100 runs
    assert consistent["apart"][100:].min() > 3
    turns = {name: np.sqrt(np.mean(x["turn"][200] ** 2)) for name, x in found.items()}
    assert turns["invariant"] < np.radians(7) < turns["apart"]


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
