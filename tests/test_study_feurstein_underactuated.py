"""Gaits without a polar torque: nothing acts on the base, they are fixed points, and feedback holds them."""

from __future__ import annotations

import numpy as np
import pytest

from liebody.errors import IntegrationError
from liebody_studies.feurstein_hopping import apexes
from liebody_studies.feurstein_hopping import underactuated as gaits

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def two():
    return gaits.known(2)


@pytest.fixture(scope="module")
def gain(two):
    return gaits.apex_gain(two)


def test_states_at_apexes_are_reduced_and_expanded():
    x = np.array([0.23, 0.6, -0.1, 0.3, -0.4, 1.1, 0.6, -0.9])
    q, v = apexes.expand(gaits.robot(2), x)
    np.testing.assert_allclose(apexes.reduce(gaits.robot(2), q, v), x, atol=1e-14)
    np.testing.assert_allclose(apexes.centre(gaits.robot(2), q, v)[1][1], 0, atol=1e-14)


def test_it_is_a_gait_and_unstable_with_one_posture(two):
    hops = gaits.hop(2, two.x[None], {k: [v] for k, v in two.parameters.items()})
    np.testing.assert_allclose(hops.x[0], two.x, atol=1e-7)
    assert hops.stride[0] / hops.period[0] == pytest.approx(two.speed) and two.speed == pytest.approx(
        0.632, abs=2e-3
    )
    assert two.radius == pytest.approx(3.03, abs=0.02) and abs(two.multipliers[0].imag) < 1e-9
    assert abs(two.multipliers[1]) < 0.9


def test_the_apex_fed_back_makes_it_stable(two, gain):
    """By the derivatives, and by the map itself with the gain in it."""
    assert two.radius_with(gain) < 0.7
    small, radius = gaits.attitude_gain(two)
    assert radius < 0.95 and np.count_nonzero(small) == 2
    for given in (gain, small):
        held = gaits.shoot(2, two.x, two.fed_back(given))
        np.testing.assert_allclose(held.x, two.x, atol=1e-6)
        assert held.radius == pytest.approx(two.radius_with(given), abs=2e-3)


def test_pushed_it_stands_only_with_feedback(two, gain):
    held, free = gaits.disturbed(two, gain, n=8, t_end=2.0), gaits.disturbed(two, None, n=8)
    assert np.mean(held.ends == "") > 0.8 and np.all(free.ends != "")
    assert 1 <= gaits.hops(free).max() < 9 < gaits.hops(held).max()


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
    assert low is not None and low.speed == pytest.approx(two.speed, abs=5e-3)


def test_the_sample_holds_gaits():
    found = gaits.search(2, 64, 4)
    assert len(found) >= 1 and all(g.radius > 1.5 and g.residual < 1e-7 for g in found)
    x, parameters = gaits.starts(2, 16)
    q, _ = apexes.expand(gaits.robot(2), x)
    length, _ = apexes.leg(gaits.robot(2), q)
    assert np.all(x[:, 0] > length) and np.all(parameters["K_r"] >= gaits.BOX["K_r"][0])
    again, _ = gaits.starts(2, 16)
    np.testing.assert_array_equal(x, again)


def test_improvement_lowers_the_objective(two):
    better = gaits.improve([two], lambda g: g.radius, generations=1, children=6)
    assert better[0].radius < two.radius and better[-1].radius >= better[0].radius
    assert gaits.clearance(better[0]) > gaits.CLEARANCE


def test_what_is_no_gait_is_refused(two):
    with pytest.raises(IntegrationError, match="no gait of the leg with 2 joints"):
        gaits.shoot(2, two.x + np.array([0, 0, 1.5, 0, 0, 0, 0, 0]), two.parameters, tries=2)


@pytest.mark.slow
def test_derivatives_carried_along_agree(two):
    values = gaits.carried_multipliers(two)
    assert np.abs(values - 1).min() < 1e-3
    assert abs(values[0]) == pytest.approx(two.radius, rel=0.02)


@pytest.mark.slow
def test_the_leg_with_three_joints_and_the_calmest_gaits():
    three = gaits.known(3)
    assert three.radius_with(gaits.apex_gain(three)) < 0.75 and three.speed == pytest.approx(0.65, abs=0.02)
    assert gaits.known(2, "calmest").radius == pytest.approx(2.6, abs=0.05)
    assert gaits.known(3, "calmest").radius == pytest.approx(1.98, abs=0.05)
