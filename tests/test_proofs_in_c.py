"""The checker's steps in C: balls contain what Arb computes, and whole proofs are those in Python."""

from __future__ import annotations

import ast
import ctypes
import itertools
import json
import math
import subprocess
import sys
from array import array
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from arb_digits import arb_digits
from test_proofs import van_der_pol
from test_proofs_phases import HOPPING, RUNNING, hopper, runner

pytest.importorskip("flint", reason="the checker is built on Arb")
import flint

import liebody_check
from liebody.gaits import ProofError, periodic_orbit, prove
from liebody_check import compiled
from liebody_check.claims import Function, Guard, Phase, Refused
from liebody_check.compiled import StepsInC, Unavailable, ball_of, doubles_of
from liebody_check.motions import StepsInPython
from liebody_check.numbers import OPERATIONS, Jet, Known, ball, value_of
from liebody_check.proof import Equations, with_unit
from liebody_check.reading import OPERANDS, read

arb, arb_series = flint.arb, flint.arb_series
ROOT = Path(__file__).parents[1]
ORBITS = ["compass_walker", "roessler", "simplest_walker", "van_der_pol", "van_der_pol_3"]
GALLERY = [ROOT / "docs" / "certificates" / f"{name}.json" for name in ORBITS]
HALF_TURNS = [k * math.pi / 2 for k in (*range(-9, 10), 1000, 123456)]


digits = arb_digits(250, cap=64)


def decades(random, n, low, high):
    """Numbers of both signs, over decades."""
    return random.choice([-1.0, 1.0], n) * 10.0 ** random.uniform(low, high, n)


def doubled(random, x):
    """Balls (h, l, 0) of two doubles each."""
    return [(a, a * 2.0**-54 * t, 0.0) for a, t in zip(x, random.uniform(-1, 1, len(x)))]


def flat(rows):
    return array("d", [x for row in rows for x in row])


def pointer(numbers):
    return ctypes.c_void_p(numbers.buffer_info()[0])


def computed(which, xs, ys=None):
    """Balls (h, l, r) of an elementary function of balls."""
    x, y, z = flat(xs), flat(ys or xs), array("d", bytes(24 * len(xs)))
    problem = compiled.library().check_elementary(
        ctypes.c_int(which), ctypes.c_long(len(xs)), pointer(x), pointer(y), pointer(z)
    )
    assert problem == 0
    return [tuple(z[k : k + 3]) for k in range(0, len(z), 3)]


def misses(bounds, exact):
    """Whether a number, known as a narrow ball, is surely not within r of h + l."""
    h, l, r = bounds
    if not all(map(math.isfinite, bounds)):
        return True
    return not abs(exact - arb(h) - arb(l)) <= arb(r) * (1 + arb(2) ** -200)


# -- elementary functions -----------------------------------------------------------------------------------

FUNCTIONS = {
    "exp": (0, lambda x: x.exp(), lambda r, n: r.uniform(-600, 600, n)),
    "exp of small numbers": (0, lambda x: x.exp(), lambda r, n: decades(r, n, -12, 0.3)),
    "log": (1, lambda x: x.log(), lambda r, n: abs(decades(r, n, -250, 250))),
    "log near 1": (1, lambda x: x.log(), lambda r, n: 1 + decades(r, n, -12, -1)),
    "sin": (2, lambda x: x.sin(), lambda r, n: decades(r, n, -12, 2)),
    "cos": (3, lambda x: x.cos(), lambda r, n: decades(r, n, -12, 2)),
    "tan": (4, lambda x: x.tan(), lambda r, n: r.uniform(-1.5, 1.5, n)),
    "arcsin": (5, lambda x: x.asin(), lambda r, n: r.uniform(-0.999, 0.999, n)),
    "arccos": (6, lambda x: x.acos(), lambda r, n: r.uniform(-0.999, 0.999, n)),
    "inverse": (7, lambda x: 1 / x, lambda r, n: decades(r, n, -200, 200)),
    "root": (8, lambda x: x.sqrt(), lambda r, n: abs(decades(r, n, -200, 200))),
}
EDGES = {
    "exp": [0.0, 1.0, -1.0, math.log(2) / 2, -math.log(2) / 2, 690.0, -690.0],
    "log": [1.0, 2.0, 0.5, math.e, 1e-250, 1e250],
    "sin": [0.0, 1e-300, *HALF_TURNS, *(np.nextafter(x, 9) for x in HALF_TURNS), math.pi / 4, -math.pi / 4],
    "cos": [0.0, 1e-300, *HALF_TURNS, *(np.nextafter(x, 9) for x in HALF_TURNS), math.pi / 4, -math.pi / 4],
    "tan": [0.0, 1.57, -1.57, 1e-20],
    "arcsin": [0.0, 0.9999999, -0.9999999, 1e-20],
    "arccos": [0.0, 0.9999999, -0.9999999, 1e-20],
    "inverse": [1.0, -1.0, 3.0, 1e290],
    "root": [1.0, 4.0, 2.0, 1e-270, 1e290],
}


SIZES = {  # of which 82 bits are known, for arguments x and results y
    "exp": lambda x, y: (1 + abs(x)) * abs(y),
    "log": lambda x, y: 1 + abs(y),
    "sin": lambda x, y: 1 + abs(x),
    "cos": lambda x, y: 1 + abs(x),
    "tan": lambda x, y: 1 + y * y,
    "arcsin": lambda x, y: 1 / (1 - x * x),
    "arccos": lambda x, y: 1 / (1 - x * x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions_of_numbers_contain_arbs_within_82_bits(name):
    which, exact, draw = FUNCTIONS[name]
    random = np.random.default_rng(1)
    xs = doubled(random, [*draw(random, 400).tolist(), *EDGES.get(name, [])])
    for x, z in zip(xs, computed(which, xs)):
        assert not misses(z, exact(arb(x[0]) + arb(x[1]))), x
        assert z[2] <= 2.0**-82 * SIZES.get(name.split()[0], lambda x, y: abs(y))(x[0], z[0]) + 1e-290, x


RANGES = {  # in which functions have bounds
    "exp": (-699, 699),
    "log": (1e-300, 1e300),
    "sin": (1 - 2.0**20, 2.0**20 - 1),
    "cos": (1 - 2.0**20, 2.0**20 - 1),
    "tan": (-1.57, 1.57),
    "arcsin": (-0.9999999, 0.9999999),
    "arccos": (-0.9999999, 0.9999999),
    "inverse": (-1e295, 1e295),
    "root": (1e-295, 1e295),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FUNCTIONS, "angle"])
def test_elementary_functions_contain_arbs_at_10000000_points(name):
    """In all functions together; half of the points are near edges of ranges."""
    random = np.random.default_rng(14)
    which, exact, draw = FUNCTIONS.get(name, (9, None, None))
    for _ in range(10_000_000 // (len(FUNCTIONS) + 1) // 100_000 + 1):
        if exact is None:
            x, y = decades(random, 100_000, -9, 9), decades(random, 100_000, -9, 9)
            x[:50_000] = y[:50_000] * random.choice([1.0, 1e-9, 1e9], 50_000) * random.uniform(-1, 1, 50_000)
        else:
            edges = random.choice(EDGES.get(name, [1.0]), 50_000)
            away = random.choice([-1.0, 1.0], 50_000) * 10.0 ** random.uniform(-17, -1, 50_000)
            near = np.clip(edges + away * np.where(edges == 0, away**16, edges), *RANGES[name.split()[0]])
            x = y = np.concatenate([draw(random, 50_000), near])
        x, y = (np.stack([v, v * 2.0**-54 * random.uniform(-1, 1, len(v)), 0 * v], axis=1) for v in (x, y))
        z = np.zeros(x.shape)
        addresses = (ctypes.c_void_p(v.ctypes.data) for v in (x, y, z))
        assert compiled.library().check_elementary(which, ctypes.c_long(len(x)), *addresses) == 0
        of_x, of_y = ([arb(h) + arb(l) for h, l, _ in v.tolist()] for v in (x, y))
        values = [*map(arb.atan2, of_y, of_x)] if exact is None else [*map(exact, of_x)]
        apart = [v - arb(h) - arb(l) for v, (h, l, _) in zip(values, z.tolist())]
        # the double next to the distance, where that is known to 100 bits; the others one by one
        narrow = np.array([d.rel_accuracy_bits() > 100 for d in apart])
        within = narrow & (np.abs([float(d) for d in apart]) * (1 + 2.0**-50) + 1e-320 < z[:, 2])
        assert [x[k] for k in np.nonzero(~within)[0].tolist() if misses(z[k].tolist(), values[k])] == []


NARROW = {"exp of small numbers", "log near 1", "tan", "arcsin", "arccos", "inverse", "root"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions_of_balls_contain_the_values_of_their_ends(name):
    """And are hardly wider, where they are narrow."""
    which, exact, draw = FUNCTIONS[name]
    random = np.random.default_rng(2)
    x = draw(random, 400)
    width = 10.0 ** random.uniform(-12, -0.05, 400) * {"exp": 1, "sin": 1, "cos": 1}.get(name, abs(x))
    limit = {"tan": 1.55, "arcsin": 0.9995, "arccos": 0.9995}.get(name)
    if limit:
        width = np.minimum(width, limit - abs(x))
    xs = [(a, a * 2.0**-54, w) for a, w in zip(x.tolist(), width.tolist())]
    narrow = 0
    for (h, l, r), z in zip(xs, computed(which, xs)):
        ends = [exact(arb(h) + arb(l) + s * arb(r)) for s in (-1, 1)]
        if name == "tan" and abs(h) + r > 1.5:
            continue
        for end in ends:
            assert not misses(z, end), (h, r)
        away = max(float(abs(end - arb(z[0])).upper()) for end in ends)
        edge = {"tan": 1.2, "arcsin": 0.9, "arccos": 0.9}.get(name, 600)
        if r < 1e-5 * min(1, abs(h)) and name in NARROW and abs(h) < edge:
            narrow += 1
            assert z[2] <= 1.01 * away + 2.0**-80
    assert narrow > 50 or name not in NARROW


def test_functions_of_balls_with_radii_near_the_roundings_of_radii_contain_their_ends():
    """Radii are computed within 2^-40 of themselves, which the squares of radii pay where they are larger."""
    for name, (which, exact, draw) in FUNCTIONS.items():
        x = [*draw(np.random.default_rng(11), 20), *EDGES.get(name, [])]
        xs = [
            (float(a), 0.0, 2.0**-k)
            for a in x
            for k in range(36, 47)
            if abs(a) > 1e-3 or name in TURNING_AT_0
        ]
        for (h, _, r), z in zip(xs, computed(which, xs)):
            for end in (exact(arb(h) + r), exact(arb(h) - r)):
                assert not is_finite(z) or not misses(z, end), (name, h, r)


TURNING_AT_0 = {"exp", "sin", "cos"}  # or with a slope there that is neither zero nor without bounds


def test_exponentials_of_very_wide_balls_contain_their_ends():
    xs = [(h, 0.0, r) for h in (-3.0, 0.0, 2.0) for r in (0.4, 0.6, 0.9, 1.2, 2.0, 3.0, 10.0, 40.0)]
    for (h, _, r), z in zip(xs, computed(0, xs)):
        assert not misses(z, arb(h + r).exp()) and not misses(z, arb(h - r).exp())


def test_sines_of_wide_balls_contain_their_turning_points():
    random = np.random.default_rng(3)
    x, r = random.uniform(-9, 9, 300), 10.0 ** random.uniform(-3, 1, 300)
    xs = [*zip(x.tolist(), [0.0] * 300, r.tolist())]
    for which, function in ((2, np.sin), (3, np.cos)):
        for (h, _, w), (a, _, bound) in zip(xs, computed(which, xs)):
            values = function(h + w * np.linspace(-1, 1, 401))
            assert (abs(values - a) <= bound + 1e-14).all()
            assert bound <= w * (1 + 1e-10)


def test_angles_contain_arbs_in_all_quarters():
    random = np.random.default_rng(4)
    x, y = decades(random, 800, -9, 9), decades(random, 800, -9, 9)
    x[:4], y[:4] = [1, 2, 0, 0], [0, 1e-300, 1, -1]
    xs, ys = ([(float(a), float(a) * 2.0**-54, 0.0) for a in v] for v in (x, y))
    for p, q, z in zip(xs, ys, computed(9, xs, ys)):
        assert not misses(z, arb.atan2(arb(q[0]) + arb(q[1]), arb(p[0]) + arb(p[1])))
        assert z[2] <= 2.0**-82 * 4
    wide = [[(a, b, abs(a) * w) for (a, b, _), w in zip(v, random.uniform(0, 0.5, 800))] for v in (xs, ys)]
    for p, q, z in zip(*wide, computed(9, *wide)):
        corners = [
            arb.atan2(arb(q[0]) + arb(q[1]) + s * arb(q[2]), arb(p[0]) + arb(p[1]) + t * arb(p[2]))
            for s in (-1, 1)
            for t in (-1, 1)
        ]
        assert not any(misses(z, corner) for corner in corners)


def test_angles_of_balls_across_an_axis_contain_those_of_their_corners():
    """And so do those of wide balls beside it."""
    random = np.random.default_rng(12)
    size = 10.0 ** random.uniform(-6, 3, 600)
    away = np.where(np.arange(600) < 300, random.uniform(0.1, 1, 600), random.uniform(-1, 1, 600)) * size
    xs = [(a, 0.0, 0.9 * abs(a) * w) for a, w in zip(away.tolist(), random.uniform(0, 1, 600))]
    ys = [(a * c, 0.0, a * w) for a, c, w in zip(size.tolist(), *random.uniform(-1, 1, (2, 600)))]
    for turned in (False, True):
        pairs = [(x, (y[0], y[1], abs(y[2]))) for x, y in zip(xs, ys)]
        balls = [(y, x) if turned else (x, y) for x, y in pairs]
        found = computed(9, [x for x, _ in balls], [y for _, y in balls])
        known = 0
        for (x, y), z in zip(balls, found):
            if not is_finite(z):
                continue
            known += 1
            for s, t in itertools.product((-1, 1), repeat=2):
                assert not misses(z, arb.atan2(arb(y[0]) + s * arb(y[2]), arb(x[0]) + t * arb(x[2])))
        assert known > 200


REFUSED = [
    (7, (0.0, 0.0, 0.0)), (7, (1.0, 0.0, 1.0)), (7, (1.0, 0.0, 1.5)), (7, (-1.0, 0.0, 1.5)),
    (8, (0.0, 0.0, 0.0)), (8, (-1.0, 0.0, 0.0)), (8, (1.0, 0.0, 1.0)), (8, (1.0, 0.0, 1.5)),
    (1, (0.0, 0.0, 0.0)), (1, (-1.0, 0.0, 0.0)), (1, (1.0, 0.0, 1.0)), (1, (1.0, 0.0, 1.5)),
    (0, (701.0, 0.0, 0.0)), (0, (-701.0, 0.0, 0.0)), (0, (1.0, 0.0, 700.0)), (0, (math.nan, 0.0, 0.0)),
    (2, (math.inf, 0.0, 0.0)), (2, (1e9, 0.0, 0.0)), (3, (math.nan, 0.0, 0.0)), (3, (1e300, 0.0, 0.0)),
    (2, (-1e9, 0.0, 0.0)), (3, (-1e12, 0.0, 0.0)), (2, (-1e300, 0.0, 0.0)),
    (4, (1.5, 0.0, 0.1)), (4, (1.5707963267948966, 6.123233995736766e-17, 0.0)), (4, (4.0, 0.0, 1.0)),
    (5, (1.0, 0.0, 0.0)), (5, (0.5, 0.0, 0.5)), (5, (-2.0, 0.0, 0.0)), (5, (0.5, 0.0, 0.6)),
    (6, (1.0, 0.0, 0.0)), (6, (0.5, 0.0, 0.5)), (6, (-2.0, 0.0, 0.0)), (6, (0.5, 0.0, 0.6)),
    (1, (1.0, 0.0, math.inf)), (2, (1.0, 0.0, math.nan)), (7, (1.0, 0.0, math.nan)),
]  # fmt: skip
NO_ANGLE = [
    ((-1.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ((-1.0, 0.0, 0.0), (0.5, 0.0, 0.5)),
    ((1.0, 0.0, 1.0), (0.5, 0.0, 0.5)),
    ((-1.0, 0.0, 0.1), (0.5, 0.0, 0.6)),
]


def is_finite(z):
    return all(map(math.isfinite, z))


def test_what_has_no_bounds_is_not_finite():
    for which, x in REFUSED:
        assert not is_finite(computed(which, [x])[0]), (which, x)
    for x, y in NO_ANGLE:
        assert not is_finite(computed(9, [x], [y])[0]), (x, y)


@pytest.mark.parametrize("moved", [2.0**-26.3, -(2.0**-26.3), 2.0**-24, 2.0**-10])
def test_nothing_is_assumed_of_the_guesses_of_the_c_library(monkeypatch, moved):
    """Bad guesses lead to balls that contain the logarithm or the angle, or to none."""
    text = compiled.SOURCE.read_text(encoding="utf-8")
    for guess in ("log(x.h)", "atan2(y.h, x.h)"):
        text = with_guess(text, guess, moved)
    library = compiled.compiled(text, ["-O0"])
    monkeypatch.setattr(compiled, "library", lambda: library)
    assert_guesses_do_not_matter(abs(moved) < 2.0**-26)


def with_guess(text, guess, moved):
    """steps.c with a guess of the C library that is wrong by so much."""
    assert text.count(guess) == 1
    return text.replace(guess, f"({guess} + {moved!r})")


@pytest.mark.parametrize("turn", [1, -1])
def test_angles_that_are_off_by_a_turn_are_refused(monkeypatch, turn):
    text = compiled.SOURCE.read_text(encoding="utf-8")
    library = compiled.compiled(with_guess(text, "atan2(y.h, x.h)", turn * 2 * math.pi), ["-O0"])
    monkeypatch.setattr(compiled, "library", lambda: library)
    assert_no_angle_is_finite()


def assert_no_angle_is_finite():
    angles = np.linspace(-3, 3, 31).tolist()
    balls = ([(function(a), 0.0, 0.0) for a in angles] for function in (math.cos, math.sin))
    assert not any(map(is_finite, computed(9, *balls)))


def assert_guesses_do_not_matter(finite):
    random = np.random.default_rng(10)
    xs = doubled(random, random.uniform(0.1, 0.9, 50).tolist())
    for which, exact in ((1, lambda x: x.log()), (5, lambda x: x.asin()), (6, lambda x: x.acos())):
        for x, z in zip(xs, computed(which, xs)):
            assert is_finite(z) is finite
            assert not finite or not misses(z, exact(arb(x[0]) + arb(x[1])))


# -- functions as series ------------------------------------------------------------------------------------


def function_of(op):
    """One operation of arguments, and of products with constants before it and behind."""
    if OPERANDS[op] == 1:
        nodes = (("input", 0), ("input", 1), (op, 0), ("constant", 0), ("mul", 3, 2), ("mul", 4, 1))
        return Function(2, nodes, (2, 5))
    nodes = (("input", 0), ("input", 1), (op, 0, 1), ("constant", 0), (op, 3, 1), (op, 0, 3), (op, 1, 1))
    return Function(2, nodes, (2, 4, 5, 6))


def series_in_c(function, known, arguments, order, directions):
    """Balls [output][k][number] for arguments [input][k][number]."""
    program = compiled.instructions_of(function, known)
    constants = compiled.constants_of(known)
    start = compiled._flat(x for series in arguments for row in series for x in row)
    n = 1 + directions
    results = array("d", bytes(24 * len(function.outputs) * (order + 1) * n))
    problem = compiled.library().check_function(
        ctypes.byref(program),
        pointer(constants),
        ctypes.c_int(directions),
        ctypes.c_int(order),
        pointer(start),
        pointer(results),
    )
    assert problem == 0
    balls = iter(tuple(results[k : k + 3]) for k in range(0, len(results), 3))
    return [[[next(balls) for _ in range(n)] for _ in range(order + 1)] for _ in function.outputs]


def series_in_arb(function, known, arguments, order, directions):
    length = order + 1
    jets = [
        Jet(
            arb_series([row[0] for row in series], prec=length),
            [arb_series([row[1 + d] for row in series], prec=length) for d in range(directions)],
            length,
        )
        for series in arguments
    ]
    results = value_of(function, jets, known)
    return [[[s[k] for s in (y.x, *y.dx)] for k in range(length)] for y in results]


def drawn_arguments(random, order, directions, width):
    """Series of two arguments near 0.5, and of their derivatives; numbers of more than 53 bits, or balls."""

    def one(k):
        x = random.uniform(0.3, 0.7) if k == 0 else random.uniform(-1, 1) * 0.5**k
        number = arb(x) + arb(x * 2.0**-54) * random.uniform(-1, 1)
        return number + arb(0, width * abs(x)) if width else number

    return [[[one(k), *(one(1 + k) for _ in range(directions))] for k in range(order + 1)] for _ in range(2)]


@pytest.mark.parametrize("op", OPERATIONS)
def test_series_of_each_operation_contain_arbs(op):
    """Of numbers within 70 bits. Coefficients up to the sixth of balls are at most twice as wide as Arb's.

    Those behind are up to eight times as wide, where inverses of wide series stand in them: Arb bounds these
    otherwise. Whole steps, whose balls are narrow against their numbers, are as narrow as with Arb.
    """
    random = np.random.default_rng(5)
    known = Known([arb(3) / 7], [])
    function = function_of(op)
    for order, directions in ((0, 1), (1, 4), (9, 5)):
        numbers = drawn_arguments(random, order, directions, 0)
        exact = series_in_arb(function, known, numbers, order, directions)
        for y, z in zip(exact, series_in_c(function, known, numbers, order, directions)):
            for a, b in zip(y, z):
                assert not any(misses(q, p) for p, q in zip(a, b))
                assert all(q[2] < 2.0**-70 * (1 + abs(float(p))) for p, q in zip(a, b))
        for width in (1e-3, 1e-8):
            balls = drawn_arguments(random, order, directions, width)
            inner = [
                [[x.mid() + x.rad() * arb(random.uniform(-1, 1)) for x in row] for row in series]
                for series in balls
            ]
            exact = series_in_arb(function, known, inner, order, directions)
            wide = series_in_arb(function, known, balls, order, directions)
            for y, w, z in zip(exact, wide, series_in_c(function, known, balls, order, directions)):
                for k, (a, c, b) in enumerate(zip(y, w, z)):
                    assert not any(misses(q, p) for p, q in zip(a, b))
                    times = 2 if k <= 6 else 8
                    assert all(q[2] <= times * float(p.rad()) + 2.0**-70 for p, q in zip(c, b)), op


def test_sums_and_products_of_balls_contain_their_corners():
    """Rounded by less than a last digit: wide balls, and numbers that cancel."""
    random = np.random.default_rng(6)
    for op in ("add", "sub", "mul"):
        function = Function(2, (("input", 0), ("input", 1), (op, 0, 1)), (2,))
        for _ in range(400):
            h = decades(random, 2, -6, 6) if random.random() < 0.5 else 1 + decades(random, 2, -16, -9)
            radius = abs(h) * 10.0 ** random.uniform(-20, 1, 2)
            x, y = ([a, a * 2.0**-54, b] for a, b in zip(h.tolist(), radius.tolist()))
            arguments = [[[arb(0)]], [[arb(0)]]]
            program = compiled.instructions_of(function, Known([], []))
            z = array("d", bytes(24))
            start, constants = flat([x, y]), flat([(1.0, 0.0, 0.0)])
            compiled.library().check_function(
                ctypes.byref(program), pointer(constants), 0, 0, pointer(start), pointer(z)
            )
            corners = []
            for s in (-1, 1):
                for t in (-1, 1):
                    a, b = (arb(v[0]) + arb(v[1]) + q * arb(v[2]) for v, q in ((x, s), (y, t)))
                    corners.append(a + b if op == "add" else a - b if op == "sub" else a * b)
            assert not any(misses(z, corner) for corner in corners)
            most = max(float(abs(c - arb(z[0]) - arb(z[1])).upper()) for c in corners)
            assert z[2] <= most * (1 + 2.0**-38) + 2.0**-84 * max(1, *abs(h)) ** 2
            assert arguments


def test_derivatives_of_products_contain_their_ends():
    """d(x y^6) = y^6 dx of numbers y and balls dx, along five directions, which are not narrower by 2^-40."""
    random = np.random.default_rng(13)
    nodes = [("input", 0), ("input", 1), ("mul", 0, 1)] + [("mul", k, 1) for k in range(2, 7)]
    function, known = Function(2, tuple(nodes), (7,)), Known([], [])
    for _ in range(60):
        h, y, *middles = map(arb, decades(random, 7, -3, 3).tolist())
        rates = [x + arb(0, abs(float(x)) * 10.0 ** random.uniform(-10, 1)) for x in middles]
        arguments = [[[h, *rates]], [[y, *[arb(0)] * 5]]]
        (((_, *slopes),),) = series_in_c(function, known, arguments, 0, 5)
        for rate, z in zip(rates, slopes):
            for sign in (-1, 1):
                assert not misses(z, y**6 * (rate.mid() + sign * rate.rad()))
            assert z[2] <= float((y**6 * (rate.rad() + abs(rate) * arb(2) ** -80)).upper()) * (1 + 2.0**-36)


@pytest.mark.parametrize("power", [-480, -500, -530, -560, -700])
def test_products_below_the_normal_numbers_are_contained(power):
    random = np.random.default_rng(9)
    function = Function(2, (("input", 0), ("input", 1), ("mul", 0, 1), ("add", 2, 2)), (2, 3))
    known = Known([], [])
    small = [
        [[x * arb(2) ** power for x in row] for row in series] for series in drawn_arguments(random, 3, 4, 0)
    ]
    exact = series_in_arb(function, known, small, 3, 4)
    for y, z in zip(exact, series_in_c(function, known, small, 3, 4)):
        for a, b in zip(y, z):
            assert not any(misses(q, p) for p, q in zip(a, b))
            assert all(q[2] < 2.0**-80 * float(abs(p)) + 1e-299 for p, q in zip(a, b))


def test_constants_and_parameters_keep_their_digits_and_radii():
    """Of numbers that are no doubles, and of balls, each at its place."""
    nodes = [("input", 0), ("constant", 0), ("constant", 1), ("parameter", 0), ("parameter", 1)]
    function = Function(1, (*nodes, *(("mul", k, 0) for k in (1, 2, 3, 4))), (5, 6, 7, 8))
    numbers = [arb(k) / 7 for k in (1, 2, 3, 4)]
    for radii in ([0, 0, 0, 0], [0.1, 0, 1e-3, 1e-6], [0, 1e-9, 0, 2.0]):
        balls = [x + arb(0, r) for x, r in zip(numbers, radii)]
        found = series_in_c(function, Known(balls[:2], balls[2:]), [[[arb(2)]]], 0, 0)
        for x, r, (((h, l, radius),),) in zip(numbers, radii, found):
            assert not any(misses((h, l, radius), 2 * (x + sign * arb(r))) for sign in (-1, 0, 1))
            assert radius < 2 * r * (1 + 1e-8) + 2.0**-82


def test_numbers_go_to_c_and_back_within_their_balls():
    random = np.random.default_rng(7)
    for x in decades(random, 300, -30, 30).tolist():
        exact = arb(x) + arb(random.uniform(-1, 1)) * arb(x) * arb(2) ** -60
        wide = exact + arb(0, abs(x) * 10.0 ** random.uniform(-40, 1))
        again = ball_of(*doubles_of(wide))
        assert again.contains(wide)
        assert float(again.rad()) <= float(wide.rad()) * (1 + 1e-8) + 2.0**-100 * abs(x)


# -- steps --------------------------------------------------------------------------------------------------


def phase_of(field, states, guards=(), coordinate=None):
    section = Function(states, tuple(("input", k) for k in range(states)), (0,))
    return Phase(
        tuple(f"y{k}" for k in range(states)), field, section, None, coordinate, None, tuple(guards),
        (), (), (), Fraction(1),
    )  # fmt: skip


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_steps_are_those_in_python_and_no_wider(path):
    flint.ctx.prec = 113
    claim = read(json.loads(path.read_text(encoding="utf-8")))
    python, c = StepsInPython(claim.order), StepsInC(claim.order)
    equations = Equations(claim, c)
    z = [ball(x) for phase in claim.phases for x in [*(x for row in phase.nodes for x in row), phase.factor]]
    for radius in (claim.radii[0], Fraction(1, 10**12)):
        (phase, x, factor), *_ = equations.split([a + arb(0, ball(radius)) for a in z])
        some = range(0, len(phase.durations), max(1, len(phase.durations) // 4))
        times = [factor * ball(phase.durations[k]) for k in some]
        starts = [with_unit(x[k]) for k in some]
        both = zip(
            python.ends(phase, equations.known, starts, times), c.ends(phase, equations.known, starts, times)
        )
        for (a, f), (b, g) in both:
            pairs = [(p, q) for rows in zip([*a, f], [*b, g]) for p, q in zip(*rows)]
            assert all(p.overlaps(q) for p, q in pairs)
            assert all(float(q.rad()) <= 1.1 * float(p.rad()) + 1e-18 for p, q in pairs)
    numbers = [[[ball(v)] for v in phase.nodes[k]] for k in some]
    times = [ball(phase.durations[k]) for k in some]
    ends = c.ends(phase, equations.known, numbers, times, fine=True)
    exact = python.ends(phase, equations.known, numbers, times, fine=True)
    for (a, _), (b, _) in zip(exact, ends):
        assert all(p[0].overlaps(q[0]) for p, q in zip(a, b))
        assert all(float(q[0].rad()) < 2.0**-60 * (1 + abs(float(q[0]))) for q in b)


@pytest.mark.parametrize(("steps", "radius"), [(StepsInPython, 2.0**-48), (StepsInC, 2.0**-62)])
def test_fine_steps_are_halved_until_their_ends_are_narrow(steps, radius):
    """y' = y: the remainder of order 11 after half a unit of time is 5e-13."""
    growth = Function(1, (("input", 0),), (0,))
    phase, known = phase_of(growth, 1), Known([], [])
    starts, time = [[[arb(1)]], [[arb(-3)]]], arb(0.5) + arb(2) ** -57  # more digits than a double has
    wide, narrow = (steps(11).ends(phase, known, starts, [time, time], fine=fine) for fine in (False, True))
    for ((start,),), (((coarse,),), _), (((fine,),), _) in zip(starts, wide, narrow):
        exact = start * time.exp()
        assert coarse.overlaps(exact) and fine.overlaps(exact)
        assert float(coarse.rad()) > 1e-13
        assert float(fine.rad()) < radius * (1 + abs(float(fine)))


@pytest.mark.parametrize("sign", [1, -1])
def test_steps_contain_closed_forms_and_never_pass_a_pole(sign):
    """y' = +-y^2: y = y0 / (1 -+ y0 t), from numbers and from boxes."""
    square = Function(1, (("input", 0), ("mul", 0, 0), ("neg", 1)), (1 if sign > 0 else 2,))
    phase, known = phase_of(square, 1), Known([], [])
    random = np.random.default_rng(8)
    succeeded = 0
    for order in (3, 4, 12):
        steps = StepsInC(order)
        for y0, part in zip(decades(random, 60, -1, 1).tolist(), random.uniform(0.02, 0.98, 60).tolist()):
            time = part / abs(y0)
            for radius in (0.0, 1e-3):
                box = arb(y0) + arb(0, radius * abs(y0))
                duration = arb(time) + arb(0, radius * time)
                try:
                    (((value, slope),), (rate,)) = steps.ends(phase, known, [[[box, arb(1)]]], [duration])[0]
                except Refused:
                    continue
                succeeded += 1
                for s, t in ((0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)):
                    start = arb(y0) + s * arb(radius * abs(y0))
                    factor = 1 - sign * start * (arb(time) + t * arb(radius * time))
                    assert value.overlaps(start / factor) and slope.overlaps(1 / factor**2)
                    assert rate.overlaps(sign * (start / factor) ** 2)
        for y0, part in zip(10.0 ** random.uniform(-1, 1, 20), random.uniform(1.0, 1.6, 20)):
            with pytest.raises(Refused):
                steps.ends(phase, known, [[[arb(sign * y0), arb(1)]]], [arb(part / y0)])
            # of order 1 boxes grow slowly enough to be numbers at the last try
            with pytest.raises(Refused):
                StepsInC(1).signs(phase, known, [[arb(sign * y0)]], [arb(part / y0)])
    assert succeeded > 150
    for time in (arb(0), arb(-0.1), arb(0.1, 0.2), arb("nan"), arb("inf")):
        with pytest.raises(Refused):
            StepsInC(6).ends(phase, known, [[[arb(1), arb(1)]]], [time])


def test_the_box_of_a_remainder_must_contain_the_motion():
    """y' = y + t-like terms of low order: wide steps, for which a first box is not enough."""
    growth = Function(1, (("input", 0),), (0,))
    phase, known = phase_of(growth, 1), Known([], [])
    for order in (2, 3, 5):
        for time in (0.1, 0.5, 0.9, 1.5):
            (((value, slope),), _) = StepsInC(order).ends(phase, known, [[[arb(1), arb(1)]]], [arb(time)])[0]
            assert value.overlaps(arb(time).exp()) and slope.overlaps(arb(time).exp())
            assert value.contains(arb(time).exp().mid())


@pytest.mark.parametrize("n", [2, 3, 4])
def test_boxes_of_remainders_reach_to_the_end_of_the_time(n):
    """y = K (t/T)^n at times up to T, and z' = e^y: most of z comes from the end of the time.

    The first coefficients of y that are not zero are the last one of Taylor's formula, or its remainder. So z
    is within its bounds only if these were counted in full, over all of the time, when boxes were found.
    """
    nodes = [("input", 0), ("input", 1), ("input", 2), ("constant", 0), ("constant", 1)]
    nodes += [("mul", 3, 0)] + [("mul", 5 + k, 0) for k in range(n - 2)]  # K n t^(n - 1) / T^n
    nodes.append(("exp", 1))
    field = Function(3, tuple(nodes), (4, 3 + n, 4 + n))
    phase = phase_of(field, 3)
    for order in (n - 1, n, n + 1):
        for K, T in itertools.product((4, 9, 40, 100, 300), (0.5, 2.0)):
            for spread in (0.0, 0.5):
                known = Known([arb(K * n) / (arb(T) * (1 + spread)) ** n, arb(1)], [])
                starts = [[[arb(0)], [arb(0)], [arb(0)]]]
                end, _ = StepsInC(order).ends(phase, known, starts, [arb(T, spread * T)])[0]
                for share in {(1 - spread) / (1 + spread), 1.0}:
                    time, part = T * (1 + spread) * share, arb(K) * arb(share) ** n
                    # e^y integrated term by term
                    term, z = arb(time), arb(0)
                    for j in range(40 + 8 * int(float(part))):
                        z += term / (j * n + 1)
                        term *= part / (j + 1)
                    assert end[1][0].overlaps(part)
                    assert end[2][0].overlaps(z), (order, K, T, time)


def test_a_parameter_that_moves_has_its_derivative():
    """y' = p y + p: dy/dp from y0 with the rate w."""
    nodes = (("input", 0), ("parameter", 0), ("mul", 0, 1), ("add", 2, 1))
    phase = phase_of(Function(1, nodes, (3,)), 1)
    known = Known([], [arb(0.75)], moving=0)
    starts, times = [[[arb(0.5), arb(0.25)]]], [arb(0.5)]
    for steps in (StepsInPython(16), StepsInC(16)):
        (((value, slope),), _) = steps.ends(phase, known, starts, times)[0]
        p, t, y0, w = arb(0.75), arb(0.5), arb(0.5), arb(0.25)
        e = (p * t).exp()
        assert value.overlaps((y0 + 1) * e - 1) and slope.overlaps(w * e + (y0 + 1) * t * e)
        assert float(slope.rad()) < 1e-13


def test_a_function_is_told_from_the_same_one_with_other_constants():
    """The larger system of a basin has more constants than its orbit, so that parameters stand elsewhere."""
    phase = phase_of(Function(1, (("input", 0), ("parameter", 0), ("mul", 0, 1)), (2,)), 1)
    steps = StepsInC(16)
    for constants in ([], [arb(5)], [arb(5), arb(7)]):
        ((((value,),), _),) = steps.ends(phase, Known(constants, [arb(1)]), [[[arb(1)]]], [arb(0.5)])
        assert value.overlaps(arb(0.5).exp())


def test_steps_without_memory_have_no_results(monkeypatch):
    text = compiled.SOURCE.read_text(encoding="utf-8")
    wrong = text.replace("ball *x = malloc((count + 1) * sizeof(ball));", "ball *x = NULL;")
    assert wrong != text
    library = compiled.compiled(wrong)
    monkeypatch.setattr(compiled, "library", lambda: library)
    phase, known = phase_of(TURNING, 2), Known([], [])
    with pytest.raises(Unavailable, match="not enough memory"):
        StepsInC(10).ends(phase, known, [[[arb(1)], [arb(0)]]], [arb(0.1)])
    with pytest.raises(Unavailable, match="not enough memory"):
        StepsInC(10).signs(phase, known, [[arb(1), arb(0)]], [arb(0.1)])


# -- signs along steps --------------------------------------------------------------------------------------

TURNING = Function(2, (("input", 0), ("input", 1), ("neg", 0)), (1, 2))


def height(c):
    """The guard y_0 - c on the circle y_0' = y_1, y_1' = -y_0."""
    return Function(2, (("input", 0), ("input", 1), ("constant", 0), ("sub", 0, 2)), (3,)), arb(c)


@pytest.mark.parametrize(("c", "direction", "quiet"), [
    (0.9, 1, False), (0.9, -1, False), (0.9, 0, False), (1.001, 0, True), (1.0 + 1e-7, 0, True),
    (-1.0 - 1e-7, 0, True), (0.0, 1, False), (-0.9999999, 0, False),
])  # fmt: skip
def test_signs_along_steps_are_those_of_the_circle(c, direction, quiet):
    """The two programs decide the same; where a guard comes near zero, too."""
    from liebody_check.motions import is_quiet

    function, constant = height(c)
    guard = Guard("height", direction, function, 0)
    phase, known = phase_of(TURNING, 2, [guard], coordinate=1), Known([constant], [])
    count = 40
    angles = [2 * arb.pi() * k / count for k in range(count)]
    starts = [[a.cos(), a.sin()] for a in ((-angle).mid() for angle in angles)]
    times = [2 * arb.pi() / count] * count
    runs = []
    for steps in (StepsInPython(12), StepsInC(12)):
        signs = steps.signs(phase, known, [[x.mid() for x in row] for row in starts], times)
        (pieces,) = signs.guards
        runs.append([[x for x, _ in itertools.groupby(list_)] for list_ in (pieces, signs.returns)])
        assert runs[0] == runs[-1]
        assert all(is_quiet(guard, x) for x in pieces) is quiet
        assert len(pieces) >= count
        values = [a for a, _ in pieces if a]
        changes = sum(a != b for a, b in itertools.pairwise(values))
        assert changes == (0 if quiet else 2 if c > -0.99 else changes)
        rates = [b for _, b in pieces if b]
        assert rates[0] == -1 and 1 in rates
        meets = [k for k, (a, _) in enumerate(signs.returns) if a]
        assert 0 in meets and set(meets) <= {0, len(signs.returns) - 1}
        kinds = [b for _, b in signs.returns]
        assert kinds[0] == -1 and 1 in kinds


def test_signs_hold_for_all_durations_of_a_ball():
    """Times of 0.3 +- 0.1 from the top of the circle, of two steps that are the same."""
    known = Known([arb(0.35).cos().mid()], [])
    function, _ = height(0.0)
    for steps in (StepsInPython(20), StepsInC(20)):
        for time, quiet in ((0.35, False), (0.39, False), (0.41, True), (0.45, True)):
            known.constant[0] = arb(time).cos().mid()
            phase = phase_of(TURNING, 2, [Guard("height", 0, function, 0)])
            signs = steps.signs(phase, known, [[arb(1), arb(0)]] * 2, [arb(0.3, 0.1)] * 2)
            assert all(a == 1 for a, _ in signs.guards[0]) is quiet


def test_runs_that_do_not_fit_are_unknown(monkeypatch):
    """Signs of pieces beyond the last run are undecided, and they may meet the start."""
    function, constant = height(0.9)
    phase = phase_of(TURNING, 2, [Guard("height", 0, function, 0)], coordinate=1)
    known = Known([constant], [])
    start, time = [[arb(1), arb(0)]], [arb(1.2)]
    long = StepsInC(20).signs(phase, known, start, time)
    assert len(long.guards[0]) >= 4 and len(long.returns) > 1 and not long.returns[-1][0]
    for most in (1, 2, 3):
        monkeypatch.setattr(compiled, "RUNS", most)
        short = StepsInC(20).signs(phase, known, start, time)
        assert short.guards[0] == [*long.guards[0][: most - 1], (0, 0)]
        assert len(long.returns) <= most or short.returns == [*long.returns[: most - 1], (True, 0)]


@pytest.mark.parametrize("coordinate", [0, 1])
def test_runs_of_several_guards_along_long_steps_are_those_in_python(coordinate):
    """Over the top of the circle, where a guard changes twice, and rates once.

    The circle is y_0' = c y_1, y_1' = -c y_0 with c = 1, so that values and derivatives have other places.
    """
    constants = [arb(1), arb(0.9), arb(0.5), arb(-0.3)]
    nodes = (("input", 0), ("input", 1), ("constant", 0), ("mul", 1, 2), ("mul", 0, 2), ("neg", 4))
    guards = []
    for k in range(3):
        difference = (("input", 0), ("input", 1), ("constant", 1 + k), ("sub", k % 2, 2))
        guards.append(Guard(f"guard {k}", (0, 1, -1)[k], Function(2, difference, (3,)), 0))
    phase, known = (
        phase_of(Function(2, nodes, (3, 5)), 2, guards, coordinate=coordinate),
        Known(constants, []),
    )
    angles = [arb(0.8), arb(-0.7), arb(-2.2)]
    starts = [[a.cos().mid(), a.sin().mid()] for a in angles]
    runs = []
    for steps in (StepsInPython(24), StepsInC(24)):
        signs = steps.signs(phase, known, starts, [arb(1.5)] * 3)
        runs.append([[x for x, _ in itertools.groupby(pieces)] for pieces in (*signs.guards, signs.returns)])
    assert runs[0] == runs[1]
    assert len(runs[0][0]) >= 7 and len({str(x) for x in runs[0]}) == 4


def test_returns_meet_the_whole_box_of_the_start():
    """Boxes of radius 0.1 meet where their middles are less than 0.2 apart."""
    still = Function(2, (("input", 0), ("input", 1), ("constant", 0), ("constant", 1)), (2, 3))
    phase, known = phase_of(still, 2, coordinate=1), Known([arb(0), arb(1)], [])
    for apart, meets in ((0.15, True), (0.19, True), (0.21, False), (-0.19, True), (-0.21, False)):
        starts = [[arb(1, 0.1), arb(0, 0.1)], [arb(1 + apart, 0.1), arb(0, 0.1)]]
        for steps in (StepsInPython(8), StepsInC(8)):
            signs = steps.signs(phase, known, starts, [arb(2.0**-20)] * 2)
            of_each = len(signs.returns) // 2
            assert {*signs.returns[:of_each]} == {(True, 1)} and {*signs.returns[of_each:]} == {(meets, 1)}


def test_passes_through_the_start_are_seen_at_all_times_of_a_step():
    """y' = 1 from -time: the start, 0, lies on the way."""
    moving = Function(1, (("input", 0), ("constant", 0)), (1,))
    phase, known = phase_of(moving, 1, coordinate=0), Known([arb(1)], [])
    moments = [k / 40 for k in range(1, 40)]
    starts = [[arb(0)], *([arb(-x)] for x in moments), [arb(-1.1)], [arb(0.1)]]
    for steps in (StepsInPython(6), StepsInC(6)):
        of_first = 4 if steps.language == "Python" else 1  # pieces, or runs of pieces
        for start in starts[1:]:
            signs = steps.signs(phase, known, [starts[0], start], [arb(2.0**-20), arb(1)])
            passes = any(meets for meets, _ in signs.returns[of_first:])
            assert passes is bool(-1 < start[0] < 0)


def test_conditions_need_their_sign():
    function, constant = height(0.5)
    known = Known([constant], [])
    starts, times = [[arb(1), arb(0)]], [arb(1.2)]
    for sign in (1, -1):
        phase = phase_of(TURNING, 2, [Guard("condition 1", 0, function, sign)])
        for steps in (StepsInPython(20), StepsInC(20)):
            signs = steps.signs(phase, known, starts, times)
            values = [a for a, _ in signs.guards[0]]
            assert {*values} == {1, 0, -1} and signs.returns == []


# -- whole proofs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_certificates_of_the_gallery_are_accepted_with_the_same_results(path):
    data = json.loads(path.read_text(encoding="utf-8"))
    proof = liebody_check.check(data, steps="c")
    other = liebody_check.check(data)
    assert proof.period.overlaps(other.period) and float(proof.period.rad()) < 2 * float(other.period.rad())
    assert (proof.stable, proof.least) == (other.stable, other.least)
    assert all(a.overlaps(b) for x, y in zip(proof.nodes, other.nodes) for a, b in zip(x, y))
    assert "its steps.c" in proof.theorem and "steps.c" not in other.theorem
    assert proof.by == "C" and other.by == "Python"


@pytest.mark.parametrize(
    "orbit", [lambda: periodic_orbit(hopper(), [1.2], [0.0], **HOPPING),
              lambda: periodic_orbit(runner(), [0.0, 1.0], [5.0, 0.0], **RUNNING)],
    ids=["hopper", "runner"],
)  # fmt: skip
@pytest.mark.many(1)
def test_orbits_of_several_phases_and_up_to_a_stride_have_the_same_results(orbit):
    certificate = prove(orbit())
    assert not certificate._checked
    proof, other = certificate.check(), certificate.check("c")
    assert proof.by == "Python" and other.by == "C" and certificate.check() is other
    assert certificate.check("python").by == "Python"
    pairs = [*zip(proof.durations, other.durations), *zip(proof.shift, other.shift)]
    pairs += [pair for rows in zip(proof.nodes, other.nodes) for pair in zip(*rows)]
    assert all(a.overlaps(b) and b.rad() < 2 * a.rad() + arb(2) ** -60 for a, b in pairs)
    assert (proof.stable, proof.least) == (other.stable, other.least)


def test_families_have_the_same_results():
    orbit = periodic_orbit(van_der_pol(), [2.0], [0.1], period=6.5, dt=0.01, method="rkmk8")
    family = prove(orbit, parameters={"mu": ("0.999", "1.001")})
    proof, other = family.check(), family.check("c")
    assert "its steps.c" in other.theorem and proof.stable == other.stable
    for one, two in zip(proof.parts, other.parts, strict=True):
        assert one.period.overlaps(two.period) and one.least == two.least
        assert all(b <= 2 * a for a, b in zip(one.reach, two.reach))


def test_certificates_that_were_changed_are_refused():
    data = json.loads((ROOT / "docs" / "certificates" / "simplest_walker.json").read_text(encoding="utf-8"))
    liebody_check.check(data, steps="c")
    double = [[name, (2 * float.fromhex(x)).hex()] for name, x in data["parameters"]]
    longer = [(1.5 * float.fromhex(x)).hex() for x in data["durations"]]
    for change in ({"parameters": double}, {"durations": longer}, {"radius": (0.3).hex()}):
        with pytest.raises(Refused):
            liebody_check.check(data | change, steps="c")


def test_the_command_takes_the_program_of_the_steps(tmp_path):
    path = ROOT / "docs" / "certificates" / "simplest_walker.json"
    command = [sys.executable, "-m", "liebody_check", "--steps", "c"]
    paths = {"PYTHONPATH": ":".join(sys.path)}
    said = subprocess.run(
        [*command, path], capture_output=True, text=True, env={**paths, "PATH": "/usr/bin:/bin"}
    )
    assert said.returncode == 0 and "its steps.c" in said.stdout
    said = subprocess.run(
        [*command, path], capture_output=True, text=True, env={**paths, "PATH": str(tmp_path)}
    )
    assert said.returncode == 2 and "C compiler" in said.stderr and not said.stdout


# -- compilers and processors -------------------------------------------------------------------------------


def test_without_a_compiler_there_are_no_steps_in_c(monkeypatch):
    monkeypatch.setattr(compiled.shutil, "which", lambda name: None)
    with pytest.raises(Unavailable, match="need a C compiler"):
        compiled.compiled("")


def test_an_unknown_program_of_steps_is_named():
    with pytest.raises(ValueError, match="expected 'python' or 'c'"):
        liebody_check.check({}, steps="fortran")


@pytest.mark.parametrize("flags", [["-ffast-math"], ["-U__FLT_EVAL_METHOD__", "-D__FLT_EVAL_METHOD__=2"]])
def test_compilers_that_round_otherwise_are_refused(flags):
    with pytest.raises(Unavailable, match=r"IEEE 754|does not compile"):
        compiled.compiled(compiled.SOURCE.read_text(encoding="utf-8"), flags)


def test_another_direction_of_rounding_is_refused():
    libm = ctypes.CDLL(None)
    library = compiled.library()
    before = libm.fegetround()
    directions = {0x400, 0x800, 0xC00, 0x400000, 0x800000, 0xC00000}
    tried = 0
    for direction in directions:
        try:
            if libm.fesetround(direction) == 0 and libm.fegetround() != before:
                tried += 1
                assert library.check_rounding() == 3
        finally:
            libm.fesetround(before)
    assert tried and library.check_rounding() == 0


def test_a_product_that_is_contracted_is_found():
    """Where a compiler fuses p p - q, the difference is not zero."""
    text = compiled.SOURCE.read_text(encoding="utf-8")
    wrong = text.replace("p * p - (1.0 + 0x1p-29) != 0.0", "__builtin_fma(p, p, -(1.0 + 0x1p-29)) != 0.0")
    assert wrong != text
    with pytest.raises(Unavailable, match="round"):
        compiled.compiled(wrong)


def test_the_prover_says_where_the_checker_has_no_compiler(monkeypatch):
    from liebody.gaits.proofs.certificate import checked_by_another_program

    def missing(data, steps):
        raise Unavailable("steps in C need a C compiler")

    monkeypatch.setattr(liebody_check, "check", missing)
    with pytest.raises(ProofError, match="need a C compiler"):
        checked_by_another_program({}, "c")


def test_the_program_in_c_is_no_part_of_the_prover():
    """It includes the C library alone, and Python calls no other one."""
    text = compiled.SOURCE.read_text(encoding="utf-8")
    includes = [line for line in text.splitlines() if line.startswith("#include")]
    assert all(line.endswith(".h>") and "liebody" not in line for line in includes)
    names = {node.module for node in ast.walk(ast.parse(Path(compiled.__file__).read_text())) if
             isinstance(node, ast.ImportFrom)}  # fmt: skip
    assert not any(name and name.startswith("liebody") for name in names)
