"""Intervals in extended precision contain what Arb computes, and are as much narrower as 64 digits allow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from arb_digits import arb_digits

pytest.importorskip("flint", reason="Arb is what intervals are compared with")
import flint
import test_intervals as doubles

from liebody.base.errors import CompilerError
from liebody.compiler import Constants, IntervalLibrary, exactly, rounded_outward, tape_of, trace
from liebody.compiler.native import intervals as native

arb = flint.arb
FINER = 2.0**-11  # the last digit, over that of doubles
needs_80_bits = pytest.mark.skipif(
    not native.has_extended_precision(), reason="C's long double has not the 80 bits of x86 processors here"
)


def library(field, states, extended=True, directions=0):
    constants = Constants()
    tape = tape_of(trace(field, {"y": states}, "field"), {}, constants)
    return IntervalLibrary([tape], constants, directions, extended=extended)


@pytest.fixture(scope="module")
def plain():
    return library(lambda y: y, 1)


digits = arb_digits(250)


def exact(x):
    """A number of 80 bits as a ball of Arb without a radius."""
    number = native.exact_number(x)
    return arb(flint.fmpq(number.numerator, number.denominator))


def misses(bounds, value):
    minus, upper = bounds
    return bool(value < -exact(minus) or value > exact(upper))


def with_more_digits(x):
    """Numbers of 64 digits next to doubles."""
    return np.asarray(x, np.longdouble) * (1 + np.longdouble(2) ** -60)


def as_intervals(x):
    return np.stack([-x, x], axis=-1)


@needs_80_bits
@pytest.mark.parametrize("name", doubles.EXACT)
def test_elementary_functions_contain_arbs_and_are_narrow(plain, name):
    x = with_more_digits(doubles.DRAWN[name](np.random.default_rng(15), 3000))
    z = plain.combine(name, as_intervals(x)).reshape(len(x), -1, 2)
    values = [doubles.EXACT[name](exact(a)) for a in x]
    assert not any(misses(row, y) for rows, ys in zip(z, values) for row, y in zip(rows, ys))
    size = np.maximum(np.abs(z).max(axis=-1), {"log": 1.0, "sincos": 1e-3}.get(name, 1e-290))
    assert (z.sum(axis=-1) / size).max() < FINER * doubles.WIDEST.get(name, 2e-15)


@needs_80_bits
@pytest.mark.parametrize("name", doubles.EDGES)
def test_elementary_functions_contain_arbs_at_the_edges(plain, name):
    x = with_more_digits(doubles.EDGES[name])
    z = plain.combine(name, as_intervals(x)).reshape(len(x), -1, 2)
    values = [doubles.EXACT[name](exact(a)) for a in x]
    assert not any(misses(row, y) for rows, ys in zip(z, values) for row, y in zip(rows, ys))


@needs_80_bits
def test_angles_contain_arbs_in_all_quarters_and_are_narrow(plain):
    random = np.random.default_rng(16)
    y, x = (with_more_digits(doubles.decades(random, 1000, -9, 9)) for _ in range(2))
    z = plain.combine("arctan2", as_intervals(y), as_intervals(x))
    assert not any(misses(row, arb.atan2(exact(a), exact(b))) for row, a, b in zip(z, y, x))
    assert (z.sum(axis=-1) < FINER * 4e-15 * np.abs(z).max(axis=-1)).all()


@needs_80_bits
def test_operations_of_two_numbers_are_rounded_to_their_neighbours(plain):
    random = np.random.default_rng(17)
    x, y = (with_more_digits(doubles.decades(random, 500, -20, 20)) for _ in range(2))
    for name, operation in (
        ("add", Fraction.__add__),
        ("sub", Fraction.__sub__),
        ("mul", Fraction.__mul__),
        ("div", Fraction.__truediv__),
    ):
        z = plain.combine(name, as_intervals(x), as_intervals(y))
        for a, b, (minus, upper) in zip(x, y, z):
            value = operation(native.exact_number(a), native.exact_number(b))
            below, above = (
                np.nextafter(-minus, np.longdouble(np.inf)),
                np.nextafter(upper, -np.longdouble(np.inf)),
            )
            assert native.exact_number(-minus) <= value < native.exact_number(below)
            assert native.exact_number(above) < value <= native.exact_number(upper)


def spring(y):
    """x'' = -k ((x + c) - c), k = 1e8, c = 100: a force that is a difference of large numbers."""
    x, v = y
    return np.array([v, -1e8 * ((x + 100.0) - 100.0)])


@needs_80_bits
def test_ends_of_stiff_steps_contain_30_digits_and_are_a_thousand_times_as_narrow():
    """The closed form: x = x0 cos w t + v0/w sin w t for w = 1e4."""
    fine, coarse = library(spring, 2), library(spring, 2, extended=False)
    random = np.random.default_rng(18)
    time = 6e-5
    for x0, v0 in zip(random.uniform(-1e-2, 1e-2, 20).tolist(), random.uniform(-50, 50, 20).tolist()):
        angle = arb(10000) * exact(np.float64(time))
        cosine, sine = angle.cos(), angle.sin()
        values = arb(x0) * cosine + arb(v0) / 10000 * sine, arb(v0) * cosine - arb(x0) * 10000 * sine
        assert all(y.rad() < 1e-40 for y in values)
        end, _, _ = fine.move(exactly([x0, v0]), exactly(time), 24)
        rounded, _, _ = coarse.move(exactly([x0, v0]), exactly(time), 24)
        assert end.dtype == np.longdouble and not any(map(misses, end, values))
        # the remainder is known well enough in doubles
        rest = coarse.remainder(exactly([x0, v0]), exactly(time), 24)
        by_parts = fine.end(exactly([x0, v0]), exactly(time), 24, rest)
        assert by_parts.dtype == np.longdouble and not any(map(misses, by_parts, values))
        assert (by_parts.sum(axis=-1) <= 1.01 * end.sum(axis=-1)).all()
        assert not any(map(misses, rounded, values)) and not any(map(misses, rounded_outward(end), values))
        # doubles lose six digits of the velocity: 2^-53 100 k t
        assert rounded.sum(axis=-1).max() > 5e-11
        assert end.sum(axis=-1).max() < 1e-3 * rounded.sum(axis=-1).max()


@needs_80_bits
def test_differences_of_ends_and_doubles_are_rounded_outward():
    """As the equations of a step do: the end minus the following state."""
    x = with_more_digits([1.0, -3.0, 1e-5, 0.0])
    z = np.stack([-x, np.nextafter(x, np.longdouble(np.inf))], axis=-1)
    wide = rounded_outward(z)
    assert wide.dtype == np.float64
    for (minus, upper), (fine_minus, fine_upper) in zip(wide, z):
        assert native.exact_number(minus) >= native.exact_number(fine_minus)
        assert native.exact_number(upper) >= native.exact_number(fine_upper)
    same = exactly([0.1, 2.0])
    assert rounded_outward(same) is same


@needs_80_bits
def test_a_compiler_whose_long_doubles_are_shorter_is_refused(monkeypatch):
    monkeypatch.setattr(native, "FLAGS", [*native.FLAGS, "-mlong-double-64"])
    with pytest.raises(CompilerError, match="80 bits"):
        library(lambda y: 2.0 * y, 1)


@needs_80_bits
@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("x.minus + y.minus", "-(-x.minus - y.minus)", "sums"),
        ("negative / y.upper", "-(x.upper / y.upper)", "quotients"),
    ],
)
def test_the_probe_finds_an_operation_that_rounds_down_in_80_bits(monkeypatch, right, wrong, name):
    text = native.interval_source
    monkeypatch.setattr(native, "interval_source", lambda *a: text(*a).replace(right, wrong))
    with pytest.raises(CompilerError, match=f"does not round {name} upwards"):
        library(lambda y: 3.0 * y, 1)


def test_without_numbers_of_80_bits_doubles_take_their_place(monkeypatch):
    monkeypatch.setattr(native, "has_extended_precision", lambda: False)
    arithmetic = library(spring, 2)
    end, _, _ = arithmetic.move(exactly([0.01, 1.0]), exactly(1e-5), 18)
    assert arithmetic.type is np.float64 and end.dtype == np.float64
