"""Gaits without a polar torque: nothing acts on the base, they are fixed points, and feedback holds them."""

from __future__ import annotations

import numpy as np
import pytest

from liebody.gaits import GaitError
from liebody_studies.feurstein_hopping import apexes, least_leg
from liebody_studies.feurstein_hopping import underactuated as gaits

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def two():
    return gaits.known(2)


@pytest.fixture(scope="module")
def held(two):
    return gaits.regulated(two)


def test_states_at_apexes_are_reduced_and_expanded():
    x = np.array([0.23, 0.6, -0.1, 0.3, -0.4, 1.1, 0.6, -0.9])
    q, v = apexes.expand(gaits.robot(2), x)
    np.testing.assert_allclose(apexes.reduce(gaits.robot(2), q, v), x, atol=1e-14)
    np.testing.assert_allclose(apexes.centre(gaits.robot(2), q, v)[1][1], 0, atol=1e-14)


def test_it_is_a_gait_and_unstable_with_one_posture(two):
    top = two.simulate(1.5, record_every=1.5 * two.period).events.of("apex").where([0])
    x = apexes.reduce(gaits.robot(2), top.q[0], top.v[0])
    np.testing.assert_allclose(x, apexes.reduce(gaits.robot(2), two.q, two.v), atol=1e-7)
    assert top.t[0] == pytest.approx(two.period, abs=1e-8)
    assert gaits.speed(two) == pytest.approx(0.632, abs=2e-3)
    assert gaits.radius(two) == pytest.approx(3.03, abs=0.02) and abs(two.multipliers[0].imag) < 1e-9
    assert abs(two.multipliers[1]) < 0.9


def test_the_apex_fed_back_makes_it_stable(two, held):
    """By the derivatives, and by the closed loop itself."""
    assert abs(held.multipliers[0]) == pytest.approx(0.58, abs=0.01)
    small = gaits.tilted(two)
    assert abs(small.multipliers[0]) == pytest.approx(0.88, abs=0.01)
    assert np.count_nonzero(np.abs(small.gain) > 1e-9) == 2
    for found in (held, small):
        assert np.abs(found.measured[0]) == pytest.approx(np.abs(found.multipliers[0]), abs=5e-3)


def test_pushed_it_stands_only_with_feedback(held):
    fed_back, free = gaits.disturbed(held, n=8, t_end=2.0), gaits.disturbed(held, n=8, free=True)
    assert np.mean(fed_back.ends == "") > 0.8 and np.all(free.ends != "")
    assert 1 <= gaits.hops(free).max() < 9 < gaits.hops(fed_back).max()


def test_nothing_acts_on_the_base_and_the_knee_stays_up(two):
    books = gaits.books(two)
    assert books.base == 0 and books.closure < 1e-6
    assert books.lowest[0] > 0.15 and books.lowest[1] > 0.08
    assert sum(books.work.values()) == pytest.approx(books.floor, rel=1e-3)
    flight, hit, left = books.turning
    assert hit < flight - 5e-3 and left == pytest.approx(flight, abs=2e-4)
    assert books.pull < gaits.FRICTION and books.slip < 5e-3


def test_other_friction_is_nearly_the_same_gait(two):
    (low,) = gaits.over_friction(two, [0.6])
    assert low is not None and gaits.speed(low) == pytest.approx(gaits.speed(two), abs=5e-3)


def test_the_sample_holds_gaits():
    found = gaits.search(2, 64, 4)
    assert len(found) >= 1 and all(gaits.radius(g) > 1.5 and g.residual < 1e-7 for g in found)
    drawn = gaits.starts(2, 16)
    q, _ = apexes.expand(gaits.robot(2), drawn["x"])
    length, _ = apexes.leg(gaits.robot(2), q)
    assert np.all(drawn["x"][:, 0] > length) and np.all(drawn["K_r"] >= gaits.BOX["K_r"][0])
    np.testing.assert_array_equal(drawn["x"], gaits.starts(2, 16)["x"])


def test_improvement_lowers_the_objective(two):
    better = gaits.improve([two], generations=1, children=6)
    assert gaits.radius(better[0]) < gaits.radius(two) and gaits.radius(better[-1]) >= gaits.radius(better[0])
    assert gaits.clearance(better[0]) > gaits.CLEARANCE


def test_what_is_no_gait_is_refused(two):
    x = apexes.reduce(gaits.robot(2), two.q, two.v)
    with pytest.raises(GaitError, match=r"no orbit|the motion ended|does not return"):
        gaits.shoot(2, x + np.array([0, 0, 1.5, 0, 0, 0, 0, 0]), two.parameters, tries=2)


@pytest.mark.slow
def test_derivatives_carried_along_agree(two):
    assert gaits.radius(gaits.carried(two)) == pytest.approx(gaits.radius(two), rel=0.02)


@pytest.mark.slow
def test_the_leg_with_three_joints_and_the_calmest_gaits():
    three = gaits.known(3)
    assert abs(gaits.regulated(three).multipliers[0]) == pytest.approx(0.66, abs=0.01)
    assert gaits.speed(three) == pytest.approx(0.65, abs=0.02)
    assert gaits.radius(gaits.known(2, "calmest")) == pytest.approx(2.6, abs=0.05)
    assert gaits.radius(gaits.known(3, "calmest")) == pytest.approx(1.98, abs=0.05)


def test_the_designed_leg_starts_as_the_settled_gait(two):
    """Numbers of `two_joint_hopper` as symbols: the same masses, the same gait, the same multiplier."""
    q = np.array([0.1, 0.2, 0.3, -0.4, 0.9])
    np.testing.assert_allclose(least_leg.robot().mass_matrix(q), gaits.robot(2).mass_matrix(q), atol=1e-15)
    start = least_leg.start()
    assert gaits.radius(start) == pytest.approx(gaits.radius(two), rel=1e-6)
    assert least_leg.clearance(start) == pytest.approx(gaits.clearance(two), abs=1e-7)


def test_the_designed_leg_is_calmer_than_all_with_given_links():
    """By its gait, whose foot keeps the clearance, and which the next apex repeats."""
    found = least_leg.known()
    assert gaits.radius(found) == pytest.approx(least_leg.RADIUS, abs=0.02)
    assert gaits.radius(found) < gaits.radius(gaits.known(2, "calmest")) - 0.5
    assert least_leg.clearance(found) > gaits.CLEARANCE
    top = found.simulate(1.5, record_every=1.5 * found.period).events.of("apex").where([0])
    np.testing.assert_allclose(found.coordinates(top.q[0], top.v[0]), 0, atol=1e-5)
    assert top.t[0] == pytest.approx(found.period, abs=1e-7)


@pytest.mark.slow
def test_a_generation_of_legs_lowers_the_multiplier():
    designs = least_leg.search(generations=1, population=12)
    assert designs.best.objectives["largest_multiplier"] < 2.9 and len(designs.feasible) > 3
