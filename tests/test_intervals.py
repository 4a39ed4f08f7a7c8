"""Intervals contain what Arb computes: arithmetic and functions; and compilers are probed."""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction

import numpy as np
import pytest
from arb_bounds import balls_of, misses, outside
from arb_digits import arb_digits

from liebody import scalars
from liebody.base.errors import CompilerError, GraphError
from liebody.compiler import Constants, IntervalLibrary, NotProved, exactly, tape_of, trace
from liebody.compiler.native import build
from liebody.compiler.native import intervals as native
from liebody.compiler.printers.interval import KNOWN, outward
from liebody.compiler.runtime import runtime

flint = pytest.importorskip("flint", reason="Arb is what intervals are compared with")
arb = flint.arb
MOST = 1.7976931348623157e308
SUBNORMAL = 5e-324


def library(field, states, constants=None):
    constants = Constants() if constants is None else constants
    tape = tape_of(trace(field, {"y": states}, "field"), {}, constants)
    return IntervalLibrary([tape], constants, states)


@pytest.fixture(scope="module")
def plain():
    return library(lambda y: y, 1)


digits = arb_digits(200)


def decades(random, n, low, high):
    """Numbers of both signs, over decades."""
    return random.choice([-1.0, 1.0], n) * 10.0 ** random.uniform(low, high, n)


def near(points):
    """Numbers, and their neighbours."""
    return np.concatenate([[math.nextafter(x, -math.inf), x, math.nextafter(x, math.inf)] for x in points])


TURNS = near([k * math.pi / 2 for k in (*range(-9, 10), 1000, 123456, 166886)])
EDGES = {
    "exp": near([-745.1, -708.4, -693.1, 0.0, 1.0, 692.0, math.log(2) / 2, -math.log(2) / 2, 1e-300]),
    "log": near([1.0, 2.0, math.e, 0.5, 1e-290, 1e290, 2.0**-900, 2.0**900]),
    "arctan": np.append(near([0.0, 1.0, -1.0, 1e-300, 1e300, 2.0**-10]), [1e307, -1e307, 0.0, -0.0]),
    "sqrt": np.array([0.0, SUBNORMAL, 2.2e-308, 1.0, 2.0, 4.0, MOST]),
    "sincos": np.append(TURNS, [0.0, -0.0, SUBNORMAL, 1e-300, 2.0**18 - 1, 1e5]),
    "square": np.array([0.0, 1.0, -3.0, 1e-170, 1.3e154]),
}
DRAWN = {
    "exp": lambda r, n: np.concatenate([r.uniform(-640, 690, n // 2), decades(r, n - n // 2, -12, 2)]),
    "log": lambda r, n: np.concatenate(
        [abs(decades(r, n // 2, -290, 290)), 1 + decades(r, n - n // 2, -12, -1)]
    ),
    "arctan": lambda r, n: decades(r, n, -300, 300),
    "sqrt": lambda r, n: abs(decades(r, n, -300, 300)),
    "sincos": lambda r, n: decades(r, n, -12, 5),
    "square": lambda r, n: decades(r, n, -150, 150),
}
EXACT = {
    "exp": lambda x: [x.exp()],
    "log": lambda x: [x.log()],
    "arctan": lambda x: [x.atan()],
    "sqrt": lambda x: [x.sqrt()],
    "sincos": lambda x: list(x.sin_cos()),
    "square": lambda x: [x * x],
}
WIDEST = {"arctan": 3e-15, "sincos": 3e-15}


RANGES = {  # in which functions have bounds, and a little less than that
    "exp": (-800, 692.5),
    "log": (2.0**-999, 2.0**999),
    "arctan": (-1e308, 1e308),
    "sqrt": (0, MOST),
    "sincos": (1 - 2.0**18, 2.0**18 - 1),
    "square": (-1.3e154, 1.3e154),
}


def near_edges(name, random, n):
    """Numbers in a range, nearer and nearer to the edges of ranges."""
    edges = random.choice(EDGES[name], n)
    away = random.choice([-1.0, 1.0], n) * 10.0 ** random.uniform(-17, -1, n)
    with np.errstate(over="ignore"):
        return np.clip(edges + away * np.where(edges == 0, away**16, edges), *RANGES[name])


def rows_and_values(plain, name, x, balls):
    """Bounds (n results, 2) of a function at numbers, and Arb's values: of a sine the cosine, too."""
    z = plain.combine(name, np.stack([-x, x], axis=-1)).reshape(-1, 2)
    return z, [y for ball in balls for y in EXACT[name](ball)]


def assert_contain(plain, name, x):
    z, exact = rows_and_values(plain, name, x, balls_of(x))
    assert [(x[k * len(x) // len(z)], z[k]) for k in outside(z, exact)] == []
    # as narrow as a few last digits, for all numbers of a usual size
    size = np.maximum(np.abs(z).max(axis=-1), {"log": 1.0, "sincos": 1e-3}.get(name, 1e-290))
    digits = np.finfo(x.dtype).eps / np.finfo(float).eps
    assert (z.sum(axis=-1) / size).max() < digits * WIDEST.get(name, 2e-15)


def assert_contain_at_very_many_points(plain, name, points, random):
    """Half of them near the edges of ranges."""
    for first in range(0, points, 100_000):
        count = min(100_000, points - first)
        assert_contain(plain, name, points_of(plain, DRAWN[name](random, count // 2)))
        x = points_of(plain, near_edges(name, random, count - count // 2))
        z, exact = rows_and_values(plain, name, x, balls_of(x))
        assert [(x[k * len(x) // len(z)], z[k]) for k in outside(z, exact)] == []


def points_of(plain, x):
    """Numbers of the type of a library: those of 80 bits have more digits."""
    more = np.longdouble(2) ** -60 if plain.type is np.longdouble else 0
    return np.asarray(x, plain.type) * plain.type(1 + more)


@pytest.mark.parametrize("name", EXACT)
def test_elementary_functions_contain_arbs_at_100000_points_and_at_the_edges(plain, name):
    random = np.random.default_rng(5)
    assert_contain(plain, name, DRAWN[name](random, 100_000 // len(EXACT)))
    edges = EDGES[name]
    z = plain.combine(name, exactly(edges)).reshape(len(edges), -1, 2)
    exact = [EXACT[name](arb(a)) for a in edges.tolist()]
    assert [a for a, row, values in zip(edges, z, exact) if any(map(misses, row, values))] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_elementary_functions_contain_arbs_at_10000000_points(plain, name):
    """In all functions together."""
    random = np.random.default_rng(6)
    assert_contain_at_very_many_points(plain, name, 10_000_000 // len(EXACT), random)


def test_operations_of_two_numbers_are_rounded_to_the_neighbours_of_the_exact_result(plain):
    assert_numbers_are_rounded_to_neighbours(plain, 2000)


def assert_numbers_are_rounded_to_neighbours(plain, count):
    random = np.random.default_rng(7)
    x = decades(random, count, -20, 20)
    y = decades(random, count, -20, 20)
    exact = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
    }
    for name, operation in exact.items():
        z = plain.combine(name, exactly(x), exactly(y)).tolist()
        for a, b, (minus, upper) in zip(x.tolist(), y.tolist(), z):
            assert (-minus, upper) == outward((operation(Fraction(a), Fraction(b)),) * 2)


def test_operations_of_wide_intervals_contain_the_results_of_their_bounds_and_no_more(plain):
    assert_wide_operations_contain_corners(plain, 4000)


def assert_wide_operations_contain_corners(plain, count):
    """Of all signs: sums and products are as narrow as can be, quotients but for one more rounding."""
    random = np.random.default_rng(10)
    ends = [np.sort(decades(random, 2 * count, -9, 9).reshape(-1, 2), axis=1) for _ in range(2)]
    x, y = (np.stack([-low, high], axis=-1) for low, high in (e.T for e in ends))
    for name in ("add", "sub", "mul", "div"):
        operation = getattr(operator, {"div": "truediv"}.get(name, name))
        kept = np.ones(len(x), bool) if name != "div" else ends[1].prod(axis=1) > 0
        z = plain.combine(name, x[kept], y[kept])
        for a, b, (minus, upper) in zip(ends[0][kept].tolist(), ends[1][kept].tolist(), z.tolist()):
            corners = [operation(Fraction(p), Fraction(q)) for p in a for q in b]
            low, high = outward((min(corners), max(corners)))
            assert -minus <= low and high <= upper
            slack = 2 if name == "div" else 0
            assert low + minus <= slack * math.ulp(low) and upper - high <= slack * math.ulp(high)


def test_products_of_matrices_contain_the_exact_ones_and_no_more(plain):
    """Of numbers or intervals with intervals: as wide as the exact ones but for a rounding of each term."""
    random = np.random.default_rng(13)
    for _ in range(50):
        Y = decades(random, 6, -3, 3).reshape(2, 3)
        low, high = np.sort(decades(random, 24, -3, 3).reshape(2, 3, 4), axis=0)
        a, b = np.sort(decades(random, 12, -3, 3).reshape(2, 2, 3), axis=0)
        y = np.stack([-low, high], axis=-1)
        exact = {
            "numbers": (Y, Y, plain.multiplied(Y, y)),
            "intervals": (a, b, plain.product(np.stack([-a, b], axis=-1), y)),
        }
        for first, last, z in exact.values():
            for i, k in np.ndindex(2, 4):
                corners = [
                    [
                        Fraction(p) * Fraction(q)
                        for p in (first[i, j], last[i, j])
                        for q in (low[j, k], high[j, k])
                    ]
                    for j in range(3)
                ]
                least, most = sum(map(min, corners)), sum(map(max, corners))
                size = float(sum(max(map(abs, x)) for x in corners))
                assert -z[i, k, 0] <= least and most <= z[i, k, 1]
                assert least + Fraction(z[i, k, 0]) < 2.0**-49 * size
                assert Fraction(z[i, k, 1]) - most < 2.0**-49 * size


@pytest.mark.parametrize("name", ["sincos", "exp", "log", "arctan", "sqrt", "square"])
def test_functions_of_wide_intervals_contain_the_values_within_and_no_more(plain, name):
    """Of functions with turning points the bounds are compared with those of a thousand points."""
    random = np.random.default_rng(8)
    middle = (
        decades(random, 300, -2, 1)
        if name in ("sincos", "arctan", "square", "exp")
        else random.uniform(1, 9, 300)
    )
    half = 10.0 ** random.uniform(-3, 0.6, 300)
    low = np.maximum(middle - half, 0.1) if name in ("log", "sqrt") else middle - half
    high = np.maximum(middle + half, low)
    z = plain.combine(name, np.stack([-low, high], axis=-1)).reshape(300, -1, 2)
    function = {"sincos": lambda x: np.stack([np.sin(x), np.cos(x)]), "arctan": np.arctan}.get(name)
    grid = low + (high - low) * np.linspace(0, 1, 1001)[:, None]
    values = (
        (function or getattr(np, name))(grid).reshape(-1, 1001, 300) if name != "sincos" else function(grid)
    )
    for k, y in enumerate(values):
        least, most = y.min(axis=0), y.max(axis=0)
        scale = 1 + np.abs(most)
        assert (-z[:, k, 0] <= least + 1e-14 * scale).all() and (z[:, k, 1] >= most - 1e-14 * scale).all()
        step = (high - low) / 1000
        slack = (
            1 + np.abs(most)
        ) * step**2 * 40 + 1e-14 * scale  # a turning point between points of the grid
        assert (-z[:, k, 0] >= least - slack).all() and (z[:, k, 1] <= most + slack).all()


def test_angles_contain_arbs_in_all_quarters(plain):
    random = np.random.default_rng(9)
    y = decades(random, 3000, -9, 9)
    x = decades(random, 3000, -9, 9)
    z = plain.combine("arctan2", exactly(y), exactly(x))
    exact = [arb.atan2(arb(a), arb(b)) for a, b in zip(y.tolist(), x.tolist())]
    assert not any(map(misses, z, exact))
    assert (z.sum(axis=-1) < 4e-15 * np.abs(z).max(axis=-1)).all()


@pytest.mark.parametrize(
    ("name", "x", "y", "why"),
    [
        ("div", (-1.0, 1.0), (-1.0, 1.0), "denominator"),
        ("div", (1.0, 1.0), (-1e-9, 1e-9), "denominator"),
        ("div", (1.0, 1.0), (0.0, 1e-300), "denominator"),
        ("div", (1.0, 1.0), (-1e-300, 0.0), "denominator"),
        ("sqrt", (-1.0, 1.0), None, "root"),
        ("sqrt", (-1e-300, 1.0), None, "root"),
        ("log", (0.0, 1.0), None, "root"),
        ("arctan2", (-1.0, 1.0), (-1.0, 1.0), "angle"),
        ("arctan2", (-1.0, 1.0), (-2.0, -1.0), "angle"),
        ("arctan2", (-1e-9, 1e-9), (-1e-9, 1e-9), "angle"),
        ("exp", (1.0, 800.0), None, "root"),
        ("mul", (1e200, 1e300), (1e200, 1e300), "range"),
        ("add", (1e308, MOST), (1e308, MOST), "range"),
        ("mul", (-math.inf, 1.0), (0.0, 1.0), "range"),
        ("add", (math.nan, 1.0), (0.0, 1.0), "range"),
    ],
)
def test_what_has_no_bounds_is_refused(plain, name, x, y, why):
    boxes = [np.array([[-low, high]]) for low, high in (x, y or x)]
    with pytest.raises(NotProved, match=why):
        plain.combine(name, boxes[0], None if y is None else boxes[1])


def test_calls_leave_the_rounding_of_the_thread_as_it_was(plain):
    third = 1.0 / 3.0
    plain.combine("div", exactly([1.0]), exactly([3.0]))
    with pytest.raises(NotProved):
        plain.combine("div", exactly([1.0]), exactly([0.0]))
    assert np.array([1.0])[0] / np.array([3.0])[0] == third and 0.1 + 0.2 == 0.30000000000000004


@pytest.mark.parametrize("header", [runtime("interval.h")], ids=["interval.h"])
def test_constants_of_the_reductions_enclose_what_they_stand_for(header):
    """pi/2 = P1 + P2 + P3, ln 2 = L1 + L2 + L3: exact sums, and no wider than a double can tell."""
    words = re.findall(r"(\w+) = (\{[^}]*\}|0x[\w.+-]+)", header)
    parts = {name: [*map(float.fromhex, re.findall(r"-?0x[\w.+-]+", x))] for name, x in words}
    exact = {"P": arb.pi() / 2, "L": arb(2).log()}
    for letter, number in exact.items():
        (first,), (second,), (minus, upper) = (parts[f"{letter}{k}"] for k in (1, 2, 3))
        rest = number - arb(first) - arb(second)
        assert arb(-minus) < rest < arb(upper) and upper + minus <= math.ulp(upper)
        # products with the integers that occur are exact: 33 bits and 20 bits
        assert all(int(math.frexp(x)[0] * 2**53) % 2**20 == 0 for x in (first, second))
    minus, upper = parts["TWO_OVER_PI"]
    assert arb(-minus) < 1 / exact["P"] < arb(upper) and upper + minus <= math.ulp(upper)


def with_guesses(moved):
    """A library in which the C library's logarithms and arctangents are wrong by so much."""
    text = native.interval_source
    with pytest.MonkeyPatch.context() as patch:
        for name in ("log", "atan"):
            assert f"y0 = {name}(x);" in runtime("interval.h")
        patch.setattr(
            native,
            "interval_source",
            lambda *a: re.sub(r"y0 = (log|atan)\(x\);", rf"y0 = \1(x) + {moved!r};", text(*a)),
        )
        return library(lambda y: y, 1)


@pytest.mark.parametrize("moved", [2.0**-12, -(2.0**-12)])
def test_nothing_is_assumed_of_the_guesses_of_the_c_library(moved):
    arithmetic = with_guesses(moved)
    random = np.random.default_rng(12)
    for name in ("log", "arctan"):
        near_one = random.uniform(0.01, 100, 300)
        x = np.concatenate([near_one, DRAWN[name](random, 300), [1e300]])
        z = arithmetic.combine(name, exactly(x))
        exact = [EXACT[name](arb(a))[0] for a in x.tolist()]
        assert [a for a, row, y in zip(x, z, exact) if misses(row, y)] == []
        # as far from them as the square and the cube of the error
        assert z[:300].sum(axis=-1).max() < 2.1 * 2.0**-24
    if moved > 0:  # the last guess is beyond a quarter of a turn: within one is all that is known
        assert (z[-1] == math.nextafter(math.pi / 2, 2)).all()


def test_sines_stay_within_one_and_are_known_to_be_there_for_any_number(plain):
    x = np.concatenate([TURNS, [2.0**18, 1e6, -1e9, 1e300, 2.0**19 * math.pi / 2]])
    z = plain.combine("sincos", exactly(x))
    assert z.max() <= 1
    for a, pair in zip(x.tolist(), z):
        assert not any(map(misses, pair, arb(a).sin_cos()))
    assert (z[-4:] == 1).all()  # beyond the counted quarters of a turn
    assert (plain.combine("sqrt", exactly([0.0])) == 0).all()


# -- the probe ----------------------------------------------------------------------------------------------


def evaluated(method):
    """Options with which a compiler says that it evaluates numbers by this FLT_EVAL_METHOD."""
    return ("-U__FLT_EVAL_METHOD__", f"-D__FLT_EVAL_METHOD__={method}")


@pytest.mark.parametrize("method", [0, 1, 16])
def test_doubles_that_are_evaluated_as_doubles_are_enough(monkeypatch, method):
    """16 is what GCC says where a processor computes in half precision, as well."""
    monkeypatch.setattr(native, "FLAGS", [*native.FLAGS, *evaluated(method)])
    z = library(lambda y: y, 1).combine("sqrt", exactly([4.0]))
    assert (z[..., 0] <= 2).all() and (z[..., 1] >= 2).all()


@pytest.mark.parametrize(
    ("flags", "mode", "words"),
    [
        (("-ffast-math",), "FE_UPWARD", "IEEE 754"),
        (evaluated(2), "FE_UPWARD", "IEEE 754"),  # doubles as long doubles, like -mfpmath=387
        ((), "FE_TONEAREST", "the processor does not round upwards"),
        ((), "FE_DOWNWARD", "the processor does not round upwards"),
    ],
)
def test_a_compiler_or_processor_that_rounds_otherwise_is_refused(monkeypatch, flags, mode, words):
    """Algebra of real numbers, other modes: each is found before anything is proved."""
    text = native.interval_source
    monkeypatch.setattr(native, "interval_source", lambda *a: text(*a).replace("FE_UPWARD", mode))
    monkeypatch.setattr(native, "FLAGS", [*native.FLAGS, *flags])
    with pytest.raises((CompilerError, NotProved), match=words):
        library(lambda y: y, 1)


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("x.minus + y.minus", "-(-x.minus - y.minus)", "sums"),
        ("x.minus + y.upper", "-(-x.minus - y.upper)", "differences"),
        (
            "larger(x.minus * y.minus, x.upper * y.upper)",
            "larger(x.minus * y.minus, -(x.upper * -y.upper))",
            "products",
        ),
        (
            "larger(x.minus * y.upper, x.upper * y.minus)",
            "larger(-(x.minus * -y.upper), x.upper * y.minus)",
            "products",
        ),
        ("negative / y.upper", "-(x.upper / y.upper)", "quotients"),
        ("x.minus / s", "-s", "roots"),
        ("size * minus", "-(size * -minus)", "multiples"),
    ],
)
def test_the_probe_finds_one_operation_that_rounds_down(monkeypatch, right, wrong, name):
    """As a compiler would make it that moves a sign out of an operation."""
    text = native.interval_source
    assert right in runtime("interval.h") + runtime("interval_arrays.h")
    monkeypatch.setattr(native, "interval_source", lambda *a: text(*a).replace(right, wrong))
    with pytest.raises(CompilerError, match=f"does not round {name} upwards"):
        library(lambda y: y, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"X * Y, -X * turned": "-(-X * Y), -X * turned", "sum = plus(sum, times": "sum = less(sum, times"},
        {
            "-minus * Y, upper * Y": "-(minus * Y), upper * Y",
            "larger(lower * y[i].minus, x": "larger(-(-lower * y[i].minus), x",
        },
    ],
)
def test_the_probe_finds_sums_of_products_that_round_down(monkeypatch, changes):
    """In vectors, or one by one where the processor has none."""
    text = native.interval_source

    def changed(*a):
        source = text(*a)
        for right, wrong in changes.items():
            assert right in source
            source = source.replace(right, wrong)
        return source

    monkeypatch.setattr(native, "interval_source", changed)
    with pytest.raises(CompilerError, match="does not round products upwards"):
        library(lambda y: y, 1)


def test_without_a_compiler_nothing_is_proved(monkeypatch):
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    with pytest.raises(CompilerError, match="NumPy cannot round upwards"):
        library(lambda y: y, 1)


# -- functions ---------------------------------------------------------------------------------------------

ONE = {
    "sqrt": lambda x: scalars.sqrt(x + 2),
    "exp": scalars.exp,
    "log": lambda x: scalars.log(x + 2),
    "tan": scalars.tan,
    "sinh": scalars.sinh,
    "cosh": scalars.cosh,
    "tanh": scalars.tanh,
    "arcsin": lambda x: scalars.arcsin(x / 2),
    "arccos": lambda x: scalars.arccos(x / 2),
    "neg": lambda x: -(x * x),
    "sin": scalars.sin,
    "cos": scalars.cos,
}
TWO = {
    "arctan2": lambda x, y: scalars.arctan2(x, y + 2),
    "hypot": lambda x, y: scalars.hypot(x + 2, y),
    "add": lambda x, y: x + y + 0.3,
    "sub": lambda x, y: 0.7 - x - y,
    "mul": lambda x, y: x * y * 0.9,
    "div": lambda x, y: 3.0 / (x + 2) - y / (y + 3),
}


def test_every_operation_that_proofs_know_is_tested():
    assert {*ONE, *TWO} == KNOWN


def all_operations(y):
    x, z = y
    return np.array(
        [sum(f((x + z) / 2) for f in ONE.values()) / 8, sum(f(z, x) for f in TWO.values()) / 4 - z]
    )


def test_values_and_slopes_contain_those_of_arb():
    """Each operation in a sum of all; slopes by a difference of 60 digits."""
    from liebody_check.claims import Function
    from liebody_check.numbers import Jet, Known, value_of

    constants = Constants()
    tape = tape_of(trace(all_operations, {"y": 2}, "field"), {}, constants)
    arithmetic = IntervalLibrary([tape], constants, 2)
    function = Function(2, tape.nodes, tape.outputs)
    flint.ctx.prec = 400
    known = Known(
        [arb(flint.fmpq(a.numerator, a.denominator)) for a, _ in constants.bounds],
        [],
    )

    def exact(y):
        jets = [Jet(flint.arb_series([a], prec=1), [], 1) for a in y]
        return [z.x[0] for z in value_of(function, jets, known)]

    random = np.random.default_rng(3)
    h = arb(2) ** -120
    for _ in range(300):
        y = random.uniform(-0.9, 0.9, 2)
        at = [arb(a) for a in y.tolist()]
        values, slopes = arithmetic.evaluate(0, exactly(y), exactly(np.eye(2)))
        assert not any(map(misses, values, exact(at))) and values.sum(axis=-1).max() < 1e-13
        for k in range(2):
            sides = [exact([a + s * h * (j == k) for j, a in enumerate(at)]) for s in (1, -1)]
            difference = [(a - b) / (2 * h) for a, b in zip(*sides)]
            for bounds, slope in zip(slopes[:, k], difference):
                assert -bounds[0] - 1e-30 <= float(slope) <= bounds[1] + 1e-30 or not misses(bounds, slope)
            assert slopes[:, k].sum(axis=-1).max() < 1e-12


def test_constants_are_enclosed_by_the_nearest_doubles():
    third = Fraction(1, 3)
    low, high = outward((third, third))
    assert Fraction(low) < third < Fraction(high) and high == math.nextafter(low, 1)
    assert outward((Fraction(1, 4), Fraction(1, 4))) == (0.25, 0.25)
    constants = Constants(spread=Fraction(1, 2**50))
    short, long = constants.of(0.75), constants.of(9.81)
    assert constants.bounds[short] == (Fraction(3, 4),) * 2
    low, high = constants.bounds[long]
    assert low < Fraction(981, 100) < high


def test_operations_without_a_rule_are_named():
    with pytest.raises(GraphError, match="'absolute', for which proofs have no rule"):
        library(lambda y: abs(y), 1)
