"""Boxes of motions, of their derivatives and of functions along them contain what is computed exactly."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from arb_bounds import misses
from arb_digits import arb_digits

pytest.importorskip("flint", reason="Arb is what intervals are compared with")
from flint import arb
from test_intervals import all_operations, decades, library

from liebody import scalars
from liebody.base.errors import ArgumentError
from liebody.compiler import Constants, IntervalLibrary, NotProved, exactly, tape_of, trace

digits = arb_digits(200)


def test_steps_contain_those_of_arb_with_their_derivatives():
    """From random starts, by all operations: the checker's steps, in 113 bits, lie within the prover's."""
    from liebody_check.claims import Function
    from liebody_check.motions import step
    from liebody_check.numbers import Known, ball, precisely
    from liebody_check.proof import with_unit

    constants = Constants()
    tape = tape_of(trace(all_operations, {"y": 2}, "field"), {}, constants)
    arithmetic = IntervalLibrary([tape], constants, 2)
    function = Function(2, tape.nodes, tape.outputs)
    random = np.random.default_rng(4)
    precisely()
    known = Known([ball(a) for a, _ in constants.bounds], [])
    for _ in range(12):
        y = random.uniform(-0.5, 0.5, 2)
        time = float(random.uniform(0.005, 0.03))
        end, D, tube = arithmetic.move(exactly(y), exactly(time), 16, True, pieces=3)
        exact = step(function, known, with_unit([arb(a) for a in y.tolist()]), arb(time), 26)
        for k, (value, *slopes) in enumerate(exact.at(arb(time))):
            assert not misses(end[k], value)
            assert not any(map(misses, D[k], slopes))
        for p in range(3):
            for part in (0.1, 0.5, 0.9):
                inside = exact.at(arb(time) * arb((p + part) / 3))
                assert not any(misses(box, x[0]) for box, x in zip(tube[p], inside))
        assert end.sum(axis=-1).max() < 1e-13 and D.sum(axis=-1).max() < 1e-11


def test_boxes_of_motions_contain_motions_from_points_of_a_box():
    """y' = -y^2 has the closed form y0 / (1 + y0 t)."""
    arithmetic = library(lambda y: -y * y, 1)
    box = np.array([[-0.9, 1.1]])
    end, D, _ = arithmetic.move(box, np.array([-0.2, 0.3]), 12, True)
    random = np.random.default_rng(2)
    for y0, t in zip(random.uniform(0.9, 1.1, 200), random.uniform(0.2, 0.3, 200)):
        exact = Fraction(y0) / (1 + Fraction(y0) * Fraction(t))
        slope = 1 / (1 + Fraction(y0) * Fraction(t)) ** 2
        assert -end[0, 0] <= exact <= end[0, 1] and -D[0, 0, 0] <= slope <= D[0, 0, 1]
    with pytest.raises(NotProved, match=r"no box|denominator|range"):
        arithmetic.move(np.array([[1.0, -1.0]]), exactly(1.5), 12)  # beyond the pole at t = 1


@pytest.mark.parametrize("sign", [1, -1])
def test_long_steps_of_low_order_are_refused_or_contain_the_motion(sign):
    """y' = +-y^2 up to its pole: a box for the remainder that the motion leaves would give wrong bounds."""
    arithmetic = library(lambda y: sign * y * y, 1)
    random = np.random.default_rng(11)
    found = 0
    for y0, part in zip(decades(random, 600, -1, 1), random.uniform(0.02, 0.98, 600)):
        time = float(part / abs(y0))
        try:
            end, D, _ = arithmetic.move(exactly([y0]), exactly(time), 4, True)
        except NotProved:
            continue
        found += 1
        factor = 1 - sign * Fraction(y0) * Fraction(time)
        assert -end[0, 0] <= Fraction(y0) / factor <= end[0, 1]
        assert -D[0, 0, 0] <= 1 / factor**2 <= D[0, 0, 1]
    assert 50 < found < 550
    # beyond the pole there is no motion, in whichever direction it leaves
    for y0, part in zip(sign * 10.0 ** random.uniform(-1, 1, 60), random.uniform(1.0, 1.6, 60)):
        for derivatives in (False, True):
            with pytest.raises(NotProved):
                arithmetic.move(exactly([y0]), exactly(part / abs(y0)), 4, derivatives)


def test_many_boxes_in_one_call_have_the_bounds_of_each():
    """Of functions, of motions with their derivatives and tubes, and of ends by a remainder."""
    arithmetic = library(all_operations, 2)
    random = np.random.default_rng(6)
    y = random.uniform(-0.5, 0.5, (2, 3, 2))
    boxes = np.stack([1e-6 - y, y + 1e-6], axis=-1)
    times = exactly(random.uniform(0.005, 0.02, (2, 3)))
    seeds = exactly(random.normal(size=(2, 3, 2, 1)))
    values, slopes = arithmetic.evaluate(0, boxes, seeds)
    moved = arithmetic.move(boxes, times, 12, True, pieces=2)
    along = arithmetic.move(boxes, times, 12, seeds)
    rest = arithmetic.remainder(boxes, times, 3)
    ends = arithmetic.end(boxes, times, 3, rest)
    for k in np.ndindex(2, 3):
        one = arithmetic.evaluate(0, boxes[k], seeds[k])
        assert np.array_equal(values[k], one[0]) and np.array_equal(slopes[k], one[1])
        for every, single in zip(moved, arithmetic.move(boxes[k], times[k], 12, True, pieces=2)):
            assert np.array_equal(every[k], single)
        assert np.array_equal(along[1][k], arithmetic.move(boxes[k], times[k], 12, seeds[k])[1])
        assert np.array_equal(ends[k], arithmetic.move(boxes[k], times[k], 3)[0])
    assert arithmetic.evaluate(0, boxes[:0])[0].shape == (0, 3, 2, 2)
    times[1, 2] = exactly(50.0)
    with pytest.raises(NotProved):
        arithmetic.move(boxes, times, 12)


def test_more_directions_and_higher_orders_than_c_has_room_for_are_refused():
    arithmetic = library(lambda y: y, 2)
    with pytest.raises(ArgumentError, match=r"3 directions of derivatives are given.* at most 2"):
        arithmetic.evaluate(0, exactly([1.0, 2.0]), exactly(np.ones((2, 3))))
    for order in (0, 31):
        with pytest.raises(ArgumentError, match=f"order of Taylor's formula is {order}, expected 1 to 30"):
            arithmetic.move(exactly([1.0, 2.0]), exactly(0.1), order)


# -- functions along motions, and remainders ----------------------------------------------------------------


def _pair(y):
    return np.array([-y[0] * y[0], y[0]])


def _seen(y):
    return np.array([scalars.sin(y[0]) * y[1], y[0] + y[1] * y[1], scalars.exp(y[1]) / 2])


def two_parts():
    """Part 0 is a function of the states, part 1 the field of y = y0 / (1 + y0 t), z = z0 + log(1 + y0 t)."""
    constants = Constants()
    tapes = [tape_of(trace(f, {"y": 2}, "field"), {}, constants) for f in (_seen, _pair)]
    return IntervalLibrary(tapes, constants, 2)


@pytest.fixture(scope="module")
def pair():
    return two_parts()


def _closed_form(y0, z0, t):
    """The states, and their derivatives (2, 2) by the start."""
    grown = 1 + y0 * t
    return [y0 / grown, z0 + grown.log()], [[1 / grown**2, arb(0)], [t / grown, arb(1)]]


def _closed_form_seen(y0, z0, t):
    """What is seen of the states, and its derivatives (3, 2) by the start."""
    (y, z), D = _closed_form(y0, z0, t)
    slopes = [[y.cos() * z, y.sin()], [arb(1), 2 * z], [arb(0), z.exp() / 2]]
    values = [y.sin() * z, y + z * z, z.exp() / 2]
    return values, [[a * D[0][k] + b * D[1][k] for k in range(2)] for a, b in slopes]


@pytest.mark.parametrize("part", [None, 0])
@pytest.mark.parametrize("order", [1, 3, 12, 30])
def test_bounds_along_motions_contain_closed_forms_and_little_more(pair, order, part):
    random = np.random.default_rng(order)
    exact = _closed_form if part is None else _closed_form_seen
    pieces = 3
    for radius, spread in ((0.0, 0.0), (0.0, 0.2), (1e-3, 0.2)):
        for y0, z0 in zip(random.uniform(0.5, 1.0, 4), random.uniform(-1, 1, 4)):
            latest = 0.15
            start = np.array([[radius - y0, y0 + radius], [radius - z0, z0 + radius]])
            time = np.array([-latest * (1 - spread), latest])
            end, tube = pair.follow(start, time, order, True, pieces, part, field=1)
            assert np.array_equal(
                tube[..., :1, :], pair.follow(start, time, order, False, pieces, part, 1)[1]
            )
            along = pair.follow(start, time, order, exactly(np.eye(2)[:, 1:]), pieces, part, 1)[1]
            assert along.shape == (pieces, len(tube[0]), 2, 2)
            corners = [(arb(y0 + a * radius), arb(z0 + b * radius)) for a in (-1, 1) for b in (-1, 1)]
            for corner in corners:
                for t in (1 - spread, 1 - spread / 2, 1.0):
                    values, slopes = _closed_form(*corner, arb(latest * t))
                    for bounds, value, row in zip(end, values, slopes):
                        assert not any(map(misses, bounds, [value, *row]))
            for p in range(pieces):
                samples = []
                for part_of_it in np.linspace(0, 1, 9).tolist():
                    t = arb(latest) * (p + part_of_it) / pieces
                    for corner in corners:
                        values, slopes = exact(*corner, t)
                        samples.append([[value, *row] for value, row in zip(values, slopes)])
                        for bounds, one, row in zip(tube[p], along[p], samples[-1]):
                            assert not any(map(misses, bounds, row))
                            assert not misses(one[0], row[0]) and not misses(one[1], row[2])
                x = np.array(samples, float)
                if order > 1 and radius == 0.0:
                    room = 5e-2 if part is not None else 1e-3 if order == 3 else 1e-9
                    assert (tube[p].sum(axis=-1) < 2 * (x.max(axis=0) - x.min(axis=0)) + room).all()


@pytest.mark.parametrize("order_of_states", ["yztK", "Ktyz", "zKyt"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_boxes_of_remainders_reach_to_the_end_of_the_time(n, order_of_states):
    """y = y0 + K t^n and z' = e^y: most of z comes from the end of the time.

    The first coefficients of y that are not zero are the last one of Taylor's formula, or its remainder. So z
    and its derivatives are within their bounds only if these were counted in full, over all of the time, when
    boxes were found.
    """
    y, z, t, K = map(order_of_states.index, "yztK")

    def field(x):
        rates = np.zeros(4, object)
        rates[y], rates[z], rates[t] = x[K] * n * x[t] ** (n - 1), scalars.exp(x[y]), 1.0
        return rates

    arithmetic = library(field, 4)
    found = 0
    for order in (n - 1, n, n + 1):
        for y_end, T in itertools.product((0.1, 0.3, 1.0, 2.0, 4.0, 9.0, 20.0, 40.0), (0.5, 1.0, 2.0)):
            start = np.zeros(4)
            start[K] = y_end / T**n
            try:
                end, D, tube = arithmetic.move(exactly(start), exactly(T), order, True, pieces=1)
            except NotProved:
                continue
            found += 1
            # integrals of e^y, and of e^y t^n, term by term
            term, z_end, by_K = arb(T), arb(0), arb(0)
            for j in range(200):
                z_end += term / (j * n + 1)
                by_K += term * arb(T) ** n / ((j + 1) * n + 1)
                term *= arb(y_end) / (j + 1)
            assert not misses(end[y], arb(y_end)) and not misses(end[z], z_end) and not misses(end[t], arb(T))
            assert not any(map(misses, D[y, [y, z, t, K]], [arb(1), arb(0), arb(n * y_end / T), arb(T) ** n]))
            assert not any(map(misses, D[z, [y, z, t, K]], [z_end, arb(1), arb(y_end).exp() - 1, by_K]))
            assert not misses(tube[0, z], z_end)
    assert found > 10


def test_a_time_before_the_start_is_refused(pair):
    for time in ([0.1, 0.2], [1.0, -0.5], [2.0**-60, 0.1]):
        with pytest.raises(NotProved):
            pair.move(exactly([0.5, 0.5]), np.array(time), 6, field=1)
        with pytest.raises(NotProved):
            pair.remainder(exactly([0.5, 0.5]), np.array(time), 6, field=1)
    at_once = pair.move(exactly([0.5, 0.25]), np.array([0.0, 0.0]), 6, True, field=1)
    assert np.array_equal(at_once[0], exactly([0.5, 0.25])) and np.array_equal(at_once[1], exactly(np.eye(2)))
