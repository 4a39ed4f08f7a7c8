"""The scalar functions of rotation against 50 digits, at every angle and in their derivatives."""

import mpmath as mp
import numpy as np
import pytest

from liebody.compiler import jacobian, trace
from liebody.groups import coefficients


def half_cos(t):
    return mp.cos(t / 2)


def half_sinc(t):
    return mp.sin(t / 2) / t


def a(t):
    return mp.sin(t) / t


def b(t):
    return (1 - mp.cos(t)) / t**2


def c(t):
    return (t - mp.sin(t)) / t**3


def c4(t):
    return (t**2 / 2 - 1 + mp.cos(t)) / t**4


def g(t):
    return (1 - t / 2 * mp.cot(t / 2)) / t**2


def db(t):
    return (t * mp.sin(t) + 2 * mp.cos(t) - 2) / t**4


def dc(t):
    return (3 * mp.sin(t) - t * mp.cos(t) - 2 * t) / t**5


def dg(t):
    return ((t / 4 / mp.sin(t / 2) ** 2 - mp.cot(t / 2) / 2) / t**2 - 2 * g(t) / t) / t


OF_ANGLE = (half_cos, half_sinc, a, b, c, c4, g, db, dc, dg)
ANGLES = [
    *np.geomspace(1e-12, 1e-1, 12),
    *np.linspace(0.15, 3.0, 20),
    np.sqrt(coefficients.SWITCH) * (1 - 1e-15),
    np.sqrt(coefficients.SWITCH),
    np.pi,
]
AT_ZERO = {
    "half_cos": 1,
    "half_sinc": 1 / 2,
    "a": 1,
    "b": 1 / 2,
    "c": 1 / 6,
    "c4": 1 / 24,
    "g": 1 / 12,
    "db": -1 / 12,
    "dc": -1 / 60,
    "dg": 1 / 360,
}


def exact(function, theta, derivative=0):
    """Value, or derivative by x = theta^2, of a function of theta, in 50 digits left after cancellation."""
    with mp.workdps(200):
        x = mp.mpf(float(theta) ** 2)
        value = mp.diff(lambda s: function(mp.sqrt(s)), x, derivative) if derivative else function(mp.sqrt(x))
        return value


@pytest.mark.parametrize("function", OF_ANGLE, ids=lambda f: f.__name__)
def test_coefficients_are_right_to_1e_14_at_every_angle_up_to_pi(function):
    for theta in ANGLES:
        expected = exact(function, theta)
        error = getattr(coefficients, function.__name__)(float(theta) ** 2) - expected
        scale = max(abs(expected), mp.mpf(0.05)) if function in (half_cos, a) else abs(expected)  # zero at pi
        assert abs(error) <= 1e-14 * scale, theta


@pytest.mark.parametrize("function", OF_ANGLE, ids=lambda f: f.__name__)
def test_coefficients_are_right_up_to_two_pi(function):
    for theta in (3.3, 4.0, 5.0, 6.0, 6.2, 6.28):
        with mp.workdps(50):
            expected = exact(function, theta)
            condition = abs(2 * theta**2 * exact(function, theta, 1) / expected)  # of its argument x
            error = getattr(coefficients, function.__name__)(theta**2) / expected - 1
        assert abs(error) <= 1e-14 * max(1, condition), theta


@pytest.mark.parametrize("name", AT_ZERO)
def test_coefficients_have_their_limits_at_zero(name):
    np.testing.assert_allclose(getattr(coefficients, name)(0.0), AT_ZERO[name], rtol=1e-15)


@pytest.mark.parametrize("function", OF_ANGLE, ids=lambda f: f.__name__)
def test_derivatives_through_the_branches_are_right(function):
    """Automatic differentiation passes both branches of every selection; none may be 0/0, none may cancel."""
    traced = trace(getattr(coefficients, function.__name__), {"x": ()})
    derivative = jacobian(traced, "x")
    assert np.isfinite(derivative(0.0)).all()
    for theta in (1e-9, 1e-4, 1e-2, 0.5, 1.0, 1.41, 1.42, 2.0, 3.0):
        np.testing.assert_allclose(derivative(theta**2), float(exact(function, theta, 1)), rtol=1e-12)


def test_angle_of_a_quaternion_is_right_from_zero_to_pi():
    for half in (0.0, 1e-300, 1e-12, 1e-6, 0.01, 0.0999, 0.1001, 0.1002, 0.5, 1.0, 1.5, 1.57):
        with mp.workdps(50):
            n = mp.sin(mp.mpf(half))
            expected = 2 * mp.mpf(half) / n if half else mp.mpf(2)
            w, n2 = float(mp.cos(mp.mpf(half))), float(n**2)
        np.testing.assert_allclose(coefficients.quaternion_angle(w, n2), float(expected), rtol=1e-15)
    np.testing.assert_allclose(coefficients.quaternion_angle(0.0, 1.0), np.pi, rtol=3e-16)


def test_not_a_number_stays_not_a_number():
    for name in AT_ZERO:
        assert np.isnan(getattr(coefficients, name)(np.nan))
