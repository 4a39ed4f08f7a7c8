"""The examples of floating robots do what their pages say."""

from __future__ import annotations

import numpy as np
import pytest
from found import load_example

from liebody import dynamics
from liebody.groups import SO3

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def space_robot():
    return load_example("space_robot")


@pytest.fixture(scope="module")
def flights(space_robot, tmp_path_factory):
    picture = tmp_path_factory.mktemp("space") / "robot.png"
    flights = space_robot.main(str(picture))
    assert picture.stat().st_size > 1e4
    return flights


def test_the_decoupled_controller_keeps_the_path_and_the_momentum(flights):
    flight = flights["decoupled"]
    assert flight.miss.max() < 1e-8
    assert np.abs(flight.momentum).max() < 1e-7
    assert np.degrees(flight.turn).max() > 5  # the satellite did give way


def test_naive_controllers_miss_the_path_or_spend_momentum(flights):
    assert flights["naive"].miss.max() > 0.1
    assert flights["held"].miss.max() > 0.01
    assert np.abs(flights["held"].momentum).max() > 0.5


def test_what_is_left_of_momentum_is_the_integrators_error(space_robot, flights):
    """Order four: half the step, a sixteenth of the error."""
    finer = space_robot.fly(space_robot.decoupled, dt=space_robot.STEP / 2)
    ratio = np.abs(flights["decoupled"].momentum).max() / np.abs(finer.momentum).max()
    assert 12 < ratio < 20


def test_a_satellite_that_drifts_and_tumbles_goes_on_doing_so(space_robot):
    """The hand is pushed at the start, and comes back to its path; the momentum stays what it was."""
    flight = space_robot.fly(space_robot.decoupled, np.array([2, -3, 4, 3, 2, -1, *[0] * 7]) * 1e-3)
    assert np.linalg.norm(flight.momentum[0]) > 0.3
    np.testing.assert_allclose(flight.momentum, np.tile(flight.momentum[0], (len(flight.t), 1)), atol=1e-7)
    assert flight.miss.max() > 1e-4
    assert flight.miss[-1] < 1e-8


@pytest.fixture(scope="module")
def cat():
    return load_example("falling_cat")


def test_the_cat_turns_over_and_three_ways_agree(cat, capsys):
    fall = cat.main()
    assert cat.turn_of(cat.BEND / 2) == pytest.approx(np.pi, abs=1e-14)
    for other, gate in ((fall.connection, 1e-10), (fall.simulation, 1e-6)):
        np.testing.assert_allclose(SO3.log(fall.formula.T @ other), 0, atol=gate)
    assert fall.l.max() < 1e-7
    np.testing.assert_allclose(fall.run.q[-1, 7:], fall.run.q[0, 7:], atol=1e-8)
    assert "belly up +1.000 at the start, -1.000 at the end" in capsys.readouterr().out


@pytest.mark.parametrize("bend", [0.3, 1.0, 2.2])
def test_kane_and_schers_formula_holds_for_any_bend(cat, bend, monkeypatch):
    monkeypatch.setattr(cat, "BEND", bend)
    loop = dynamics.holonomy(cat.ROBOT.tree, lambda s: cat.spine(2 * np.pi * s, 2 * np.pi)[:2])
    axis = np.array([np.cos(bend / 2), 0, -np.sin(bend / 2)])
    np.testing.assert_allclose(
        SO3.element(loop.coordinates[:4]), SO3.exp(cat.turn_of(bend / 2) * axis), atol=1e-10
    )


@pytest.mark.slow
def test_the_cat_is_filmed(cat, tmp_path):
    cat.main(str(tmp_path / "cat.gif"))
    assert (tmp_path / "cat.gif").stat().st_size > 5e4
