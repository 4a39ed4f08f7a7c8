"""Designs of gaits: optima in closed form of a wheel without a rim and of a ball; hoppers; what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import liebody as lb
from liebody import scalars
from liebody.base.errors import ConfigurationError, LiebodyError, ModelError, ShapeError
from liebody.gaits import Designs, GaitError, cost_of_transport, design, largest_multiplier, periodic_orbit
from liebody.gaits.evolution import Steps, fronts, loneliness, order
from liebody.groups import R
from liebody.hybrid import HybridSystem

G = 9.81
SLOPE = 0.08  # rad
STEPS = {"dt": 0.01, "method": "rkmk8"}

# -- a wheel without a rim: McGeer (1990), Passive dynamic walking, section 3 --------------------------------


def wheel():
    """Spokes of length l, 2 alpha apart, roll down a slope: l q'' = g sin q, and w+ = w- cos(2 alpha)."""

    def update(t, q, v, z, p, events):
        hit = events.strike > 0
        angle = scalars.where(hit, p.slope - p.alpha, q[0])
        rate = scalars.where(hit, scalars.cos(2 * p.alpha) * v[0], v[0])
        return np.array([angle]), np.array([rate]), z

    return HybridSystem(
        R(1),
        lambda t, q, v, z, p: np.array([G / p.length * scalars.sin(q[0])]),
        parameters={"alpha": 0.3, "length": 1.0, "slope": SLOPE},
        guards=lambda t, q, v, z, p: {"strike": q[0] - p.slope - p.alpha},
        directions={"strike": 1},
        update=update,
        name="rimless wheel",
    )


def rate_after_strike(alpha, length):
    """w+ of the gait, from the energy that the slope gives and the share cos(2 alpha)^2 that strikes leave."""
    kept = np.cos(2 * alpha) ** 2
    return np.sqrt(kept / (1 - kept) * 4 * G / length * np.sin(SLOPE) * np.sin(alpha))


def has_gait(alpha, length):
    """Whether the wheel gets over the upright spoke."""
    return rate_after_strike(alpha, length) ** 2 > 2 * G / length * (1 - np.cos(alpha - SLOPE))


def exact_speed(alpha, length):
    """2 l sin(alpha) over the time of a step, by quadrature."""
    start = rate_after_strike(alpha, length) ** 2

    def inverse_rate(angle):
        return 1 / np.sqrt(start + 2 * G / length * (np.cos(alpha - SLOPE) - np.cos(angle)))

    return 2 * length * np.sin(alpha) / quad(inverse_rate, SLOPE - alpha, SLOPE + alpha, epsabs=1e-12)[0]


def speed(orbit):
    p = orbit.parameters
    return 2 * p["length"] * np.sin(p["alpha"]) / orbit.period


def slowness(orbit):
    return -speed(orbit)


@pytest.fixture(scope="module")
def rolling():
    start = {"alpha": 0.3, "length": 0.7}
    rate = 1.02 * rate_after_strike(0.3, 0.7)
    return periodic_orbit(
        wheel(), [SLOPE - 0.3], [rate], period=0.3, section="strike", parameters=start, **STEPS
    )


BOX = {"alpha": (0.25, 0.5), "length": (0.5, 1.0)}
STABLE = {"multiplier": (largest_multiplier, None, 0.5)}


@pytest.fixture(scope="module")
def fast(rolling):
    return design(rolling, BOX, slowness, limits=STABLE, generations=30, population=8, seed=1)


def test_the_wheel_has_the_gait_of_the_closed_form(rolling):
    assert rolling.v[0] == pytest.approx(rate_after_strike(0.3, 0.7), rel=1e-9)
    assert rolling.multipliers[0].real == pytest.approx(np.cos(0.6) ** 2, rel=1e-7)
    assert speed(rolling) == pytest.approx(exact_speed(0.3, 0.7), rel=1e-8)


def test_the_fastest_wheel_lies_where_the_limit_and_a_bound_meet(fast, rolling):
    """The multiplier cos(2 alpha)^2 is 0.5 at alpha = pi / 8; the speed falls with alpha, and grows with l."""
    assert largest_multiplier(rolling) > 0.5 and not fast.tried[0].feasible
    best = fast.best
    assert best.feasible and best.limited["multiplier"] <= 0.5
    assert best.values["alpha"] == pytest.approx(np.pi / 8, abs=1e-4)
    assert best.values["length"] == pytest.approx(1.0, abs=1e-9)
    assert -best.objectives["slowness"] == pytest.approx(exact_speed(np.pi / 8, 1.0), rel=1e-4)
    assert best.orbit.residual < 1e-9 and best.orbit.parameters["alpha"] == best.values["alpha"]
