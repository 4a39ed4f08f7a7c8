"""Generated C: elementary functions, every operation in random programs, pieces, and the readable C99."""

import ctypes
import mmap
import os
import traceback
from itertools import product

import mpmath
import numpy as np
import precise
import pytest
from native import LANES, compiled, compiled_c99, compiled_run
from programs import OPERANDS, TABLES, assert_within, with_bounds

from liebody import scalars
from liebody.base.errors import GraphError
from liebody.compiler import Expr, Function, Graph, trace
from liebody.compiler.graph.graph import CONDITIONS, OPERATIONS
from liebody.compiler.native import build
from liebody.compiler.printers import c as printer
from liebody.compiler.printers.c import Guard, c99, identifier, literal
from liebody.scalars import Table

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")

FORMS = [(lanes, single) for single in (False, True) for lanes in (1, 4, 8)]
NAMES = [f"{'float32' if single else 'float64'} x {lanes}" for lanes, single in FORMS]
HARDEST = (
    6381956970095103 * 2.0**797
)  # the double closest to a multiple of pi/2, relative to its size (Kahan)


# -- sine and cosine ----------------------------------------------------------------------------------------


def arguments(real):
    """Every exponent, neighbours of multiples of pi/2 of every size, subnormals, zeros."""
    rng = np.random.default_rng(0)
    info = np.finfo(real)
    exponents = np.arange(int(np.log2(float(info.smallest_subnormal))), info.maxexp)
    sweep = [real(mantissa * 2.0**e) for e in exponents for mantissa in 1 + rng.random(2)]
    k = [*range(1, 100), *rng.integers(100, 4000, 100).tolist(), *rng.integers(100, 600_000, 300).tolist()]
    k += [int(rng.integers(2**52, 2**53)) << int(s) for s in rng.integers(0, info.maxexp - 60, 200)]
    k += [int(2**x) for x in rng.uniform(19, 53, 200)]
    with mpmath.workprec(1200):
        near = [real(float(n * mpmath.pi / 2)) for n in k]
    near += [np.nextafter(x, real(towards)) for x in near for towards in (0, np.inf)]
    known = [
        0,
        info.smallest_subnormal,
        info.tiny,
        info.max,
        *(edge for large in (6e3, 8e5) for edge in (large, np.nextafter(real(large), real(1e9)))),
        np.pi / 4,
    ]
    x = np.array([*sweep, *near, *known, *([HARDEST] if real is np.float64 else [])], real)
    return np.concatenate([x, -x])


@pytest.fixture(scope="module")
def sine_and_cosine():
    return trace(lambda x: (scalars.sin(x), scalars.cos(x)), {"x": ()})


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_sine_and_cosine_are_within_2_ulp_of_every_finite_argument_at_any_number_of_lanes(
    real, sine_and_cosine
):
    x = arguments(real)
    exact = [precise.values(name, x) for name in ("sin", "cos")]
    for lanes in LANES:
        status, found = compiled(sine_and_cosine, lanes, real is np.float32)(x)
        assert status == 0
        assert max(precise.units_off(y, e).max() for y, e in zip(found, exact, strict=True)) <= 2


@pytest.mark.parametrize("angles", [2, 4, 5, 11])
def test_sines_and_cosines_of_several_angles_are_within_2_ulp_whichever_of_them_is_large(angles):
    several = trace(lambda x: (scalars.sin(x), scalars.cos(x)), {"x": angles})
    x = np.random.default_rng(1).permutation(arguments(np.float64))
    x = x[: x.size // angles * angles].reshape(-1, angles)
    status, found = compiled(several)(x)
    assert status == 0
    exact = [precise.values(name, x.ravel()) for name in ("sin", "cos")]
    assert max(precise.units_off(y.ravel(), e).max() for y, e in zip(found, exact, strict=True)) <= 2


@pytest.mark.parametrize(("lanes", "single"), FORMS, ids=NAMES)
def test_sine_and_cosine_follow_ieee_on_zeros_infinities_and_nan(lanes, single, sine_and_cosine):
    x = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    for shift in range(lanes):  # an exceptional lane leaves its neighbours alone
        _, (s, c) = compiled(sine_and_cosine, lanes, single)(np.roll(x, shift))
        s, c = np.roll(s, -shift), np.roll(c, -shift)
        assert s[0] == 0 and not np.signbit(s[0]) and s[1] == 0 and np.signbit(s[1])
        assert c[0] == c[1] == 1
        assert np.isnan([s[2:5], c[2:5]]).all()
        np.testing.assert_allclose([s[5], c[5]], [np.sin(1), np.cos(1)], rtol=1e-6)


# -- the angle of a point -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def angle():
    return trace(lambda y, x: scalars.arctan2(y, x), {"y": (), "x": ()})


def points(real):
    """Every octant and its borders, ratios of every size, sizes from subnormal to the largest."""
    rng = np.random.default_rng(0)
    info = np.finfo(real)
    low, high = int(np.log2(float(info.smallest_subnormal))), info.maxexp
    ratio = np.concatenate([2.0 ** rng.uniform(-3, 3, 600), rng.uniform(0.45, 0.55, 600)])
    close = np.array([1, 2, 0.5, 7 / 16], real)
    close = np.concatenate([close, np.nextafter(close, real(0)), np.nextafter(close, real(3))])
    size = np.ldexp(rng.uniform(1, 2, len(ratio)), rng.integers(-40, 40, len(ratio)))
    any_size = np.ldexp(rng.uniform(1, 2, (2, 1500)), rng.integers(low, high, (2, 1500)))
    edges = np.ldexp(1.0, [-501, -500, 500, 501, -61, -60, 60, 61, -901, -900, -91, -90])
    edges = edges[(edges > info.smallest_subnormal) & (edges < info.max)]
    with np.errstate(over="ignore", under="ignore"):
        y = np.concatenate([ratio * size, close, any_size[0], *np.meshgrid(edges, edges)[0]]).astype(real)
        x = np.concatenate([size, 0 * close + 1, any_size[1], *np.meshgrid(edges, edges)[1]]).astype(real)
    signs = rng.choice([-1, 1], (2, len(x)))
    return (signs[0] * y).astype(real), (signs[1] * x).astype(real)


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_angles_are_within_1_ulp_at_any_number_of_lanes(real, angle):
    y, x = points(real)
    exact = precise.values("arctan2", y, x)
    for lanes in LANES:
        status, (found,) = compiled(angle, lanes, real is np.float32)(y, x)
        assert status == 0 and precise.units_off(found, exact).max() < 0.9


@pytest.mark.parametrize(("lanes", "single"), FORMS, ids=NAMES)
def test_angles_follow_ieee_on_zeros_infinities_and_nan(lanes, single, angle):
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    y, x = (z.ravel() for z in np.meshgrid(special, special))
    exact = precise.values("arctan2", y, x)
    number = ~(np.isnan(x) | np.isnan(y))
    for shift in range(lanes):
        _, (found,) = compiled(angle, lanes, single)(np.roll(y, shift), np.roll(x, shift))
        found = np.roll(found, -shift)
        assert precise.units_off(found, exact).max() < 0.9
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(y)[number])


# -- hyperbolic functions, arcsines, lengths ----------------------------------------------------------------


def decades(op, real):
    """Arguments of every size for which the function is finite, of both signs; close to 1 where it ends."""
    rng, top = np.random.default_rng(0), {"sinh": 6.4, "cosh": 6.4, "arcsin": 0, "arccos": 0}.get(op, 60)
    x = np.concatenate([2.0 ** rng.uniform(-100, top, 3000), rng.uniform(0.5, 0.75, 500)])
    x = np.concatenate([x, 1 - 2.0 ** rng.uniform(-50, -1, 500)]).astype(real)
    return np.concatenate([x, -x])


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("op", ["sinh", "cosh", "tanh", "arcsin", "arccos", "hypot"])
def test_these_functions_are_within_2_ulp_and_the_same_at_any_number_of_lanes(op, real):
    x = (decades(op, real), np.roll(decades(op, real), 1))[: len(OPERANDS[op])]
    exact = precise.values(op, *x)
    f = trace(getattr(scalars, op), dict.fromkeys("xy"[: len(x)], ()), "f")
    found = [compiled(f, lanes, real is np.float32)(*x)[1][0] for lanes in LANES]
    assert precise.units_off(found[0], exact).max() <= 2
    for y in found[1:]:
        np.testing.assert_array_equal(y, found[0])


# -- every operation ----------------------------------------------------------------------------------------

SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    np.inf,
    -np.inf,
    np.nan,
    5e-324,
    1e-310,
    1e300,
    -2.5e-8,
    3.0,
    710.0,
    1e5,
)
CONSTANTS = (0.3, -2.0, 1.0, 1e30, np.inf, 0.0)


def random_nodes(seed, length):
    """A graph of `length` nodes with every operation, drawn without simplification."""
    rng = np.random.default_rng(seed)
    graph = Graph()
    x = graph.symbols("x", 6)
    numbers, conditions = [*x], [graph.node("lt", x[0], x[1])]
    operations = sorted(OPERATIONS)
    for k in range(length):
        op = operations[k % len(operations)]
        pools = {"n": numbers[-60:] + [*x], "c": conditions[-10:], "t": TABLES}
        args = [pools[kind][rng.integers(len(pools[kind]))] for kind in OPERANDS[op]]
        if len(args) > 1 and OPERANDS[op][-1] == "n" and rng.random() < 0.25:
            args[-1] = CONSTANTS[rng.integers(len(CONSTANTS))]
        (conditions if op in CONDITIONS else numbers).append(graph.node(op, *args))
    nodes = np.array([*numbers[6:], *conditions], dtype=object)
    outputs = [graph.node("where", node, 1.0, 0.0) if node.op in CONDITIONS else node for node in nodes]
    return Function("random", {"x": x}, {"y": np.array(outputs, dtype=object)}), nodes


def assert_operations(function, nodes, x, y, real, contracted):
    """Every number in y (n, nodes) is the operation of the numbers in y that it is made of."""
    values = dict(zip(function.inputs["x"], x.T))
    values.update(
        (node, column != 0 if node.op in CONDITIONS else column) for node, column in zip(nodes, y.T)
    )
    unit = np.finfo(real).eps
    seen = set()
    with np.errstate(all="ignore"):
        for node in nodes:
            args = [a if type(a) is Table else values[a] if type(a) is Expr else real(a) for a in node.args]
            actual = values[node].astype(real)
            seen.add(node.op)
            if node.op in precise.FUNCTIONS:
                exact = precise.values(node.op, *(np.broadcast_to(a, len(x)) for a in args))
                same = precise.units_off(actual, exact) <= 2
            else:
                expected = np.broadcast_to(OPERATIONS[node.op](*args), len(x)).astype(real)
                same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
            if contracted and node.op in ("add", "sub"):  # of a product that was not rounded before
                same |= np.abs(actual - expected) <= unit * (np.abs(args[0]) + np.abs(args[1]))
                same |= ~np.isfinite(expected)  # inf - inf where the product alone overflows
            wrong = np.flatnonzero(~same)
            assert not len(wrong), (
                node,
                [a[wrong[:3]] if np.ndim(a) else a for a in args],
                actual[wrong[:3]],
            )
    assert seen == set(OPERATIONS)


def states(real, n=300):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, 6)) * 10.0 ** rng.integers(-3, 3, (n, 6))
    special = rng.random((n, 6)) < 0.15
    with np.errstate(over="ignore"):
        return np.where(special, rng.choice(SPECIAL, (n, 6)), x).astype(real)


@pytest.mark.parametrize("piece", [printer.PIECE, 7])
@pytest.mark.parametrize(("lanes", "single"), FORMS, ids=NAMES)
@pytest.mark.many
def test_every_operation_over_lanes_is_that_of_the_graph(lanes, single, piece):
    real = np.float32 if single else np.float64
    function, nodes = random_nodes(lanes + piece, 8 * len(OPERATIONS))
    x = states(real)
    status, (y,) = compiled(function, lanes, single, piece)(x)
    assert status == 0
    assert_operations(function, nodes, x, y, real, contracted=True)


@pytest.mark.parametrize("piece", [printer.PIECE, 7])
def test_every_operation_in_c99_is_that_of_the_graph(piece, tmp_path):
    function, nodes = random_nodes(piece, 8 * len(OPERATIONS))
    x = states(np.float64)
    kernel = compiled_c99(function, tmp_path, piece=piece)
    y = np.array([kernel(row)[0] for row in x])
    assert_operations(function, nodes, x, y, np.float64, contracted=False)


def test_units_compiled_apart_compute_what_one_unit_does():
    function, _ = random_nodes(3, 8 * len(OPERATIONS))
    x = states(np.float64)
    _, one = compiled(function, 4, piece=50)(x)
    _, three = compiled(function, 4, piece=50, units=3)(x)
    np.testing.assert_array_equal(three, one)


def certain(condition):
    """What `with_bounds` asks for."""
    assert condition


def selected(x):
    """Closed forms beside series: shared by two selections, nested, with a cosine that is needed always."""
    small, s = x[0] < 0.25, scalars.sqrt(scalars.absolute(x[0]) + 1)
    closed = scalars.sin(s) / s, scalars.exp(scalars.where(x[1] < 0, scalars.log(s) * s + scalars.tan(s), s))
    series = [scalars.where(small, polynomial, form) for polynomial, form in zip((x[1], x[2] * x[2]), closed)]
    long = scalars.where(x[2] < 0, scalars.arctan2(x[0], x[1]) * scalars.exp(x[1]), series[0])
    series += [
        scalars.where(small, x[1], scalars.cos(3 * s)),
        scalars.where(small, 0.5, scalars.sin(3 * s) / s),
    ]
    inner = scalars.where(small, scalars.exp(2 * x[1]), scalars.log(s) / 3)  # the same condition once more
    series.append(scalars.where(small, x[0], inner * scalars.exp(x[2]) + scalars.exp(2 * x[1])))
    return np.array(
        [*series, long, scalars.cos(s), scalars.cos(x[1]) * scalars.where(small, scalars.sin(x[1]), 0)]
    )


@pytest.mark.parametrize("piece", [printer.PIECE, 6])
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.many
def test_what_no_lane_selects_is_skipped(lanes, piece):
    function = trace(selected, {"x": 3})
    text = "".join(printer.batch_units(function, lanes, piece=printer.PIECE))
    assert text.count("if (any(~t") == 6 and text.count("if (any(t") == 1
    rng = np.random.default_rng(0)
    x = rng.choice([-2.0, 0.1, 0.26, 3.0], (400, 3))
    x[64:128] = np.sort(x[64:128], axis=0)  # all lanes alike, often
    lost = x.copy()
    lost[::7, 0] = np.nan  # not less than anything, like the 3 in its place
    x[::7, 0] = 3.0
    _, (y,) = compiled(function, lanes, piece=piece)(lost)
    for actual, row, given in zip(y, x, lost, strict=True):
        expected, bound = with_bounds(function, row, certain)
        kept = ~np.isnan(function(given))
        np.testing.assert_array_equal(np.isnan(actual), ~kept)
        assert_within(actual[kept], expected[kept], bound[kept])


def test_selections_by_one_condition_may_be_nested():
    def nested(x):
        inner = scalars.where(x[0] < 0, scalars.exp(scalars.sin(x[1])), x[2])
        return scalars.where(x[0] < 0, scalars.tan(inner) + scalars.log(x[1]), x[2])

    function = trace(nested, {"x": 3})
    x = np.random.default_rng(0).uniform(-1, 1, (40, 3)) + [0, 1.5, 0]
    _, (y,) = compiled(function, 4)(x)
    for actual, row in zip(y, x, strict=True):
        assert_within(actual, *with_bounds(function, row, certain))


# -- inputs and outputs -------------------------------------------------------------------------------------

SHAPES = {
    "scalar": lambda a, m: a * 2.0,
    "input": lambda a, m: m,
    "constants": lambda a, m: np.array([1.5, -0.0, np.inf, -np.inf, np.nan, 1e-320, 0.1]),
    "mixed with constants": lambda a, m: np.concatenate(
        [np.zeros(9, int), [a, a, a], np.ones(9), m[0], [-0.0], m[1] * a]
    ),
    "transposed and repeated": lambda a, m: np.stack([m.T @ m, m.T @ m * a]),
    "rank 3": lambda a, m: m[None] * np.array([a, 2 * a, 0])[:, None, None],
    "empty": lambda a, m: m[:0],
    "wide": lambda a, m: np.concatenate([np.array([m[0, 0] * (a + k), 0, 0]) for k in range(700)]),
    "several": lambda a, m: (m, a, m[0] @ m[1], np.array([]), np.array([3.0]), m[:, 1:2] * a),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("lanes", "single"), FORMS, ids=NAMES)
@pytest.mark.many
def test_outputs_of_every_kind_are_stored(name, lanes, single):
    function = trace(SHAPES[name], {"a": (), "m": (2, 3)}, "f")
    real = np.float32 if single else np.float64
    rng = np.random.default_rng(2)
    a, m = rng.standard_normal(11).astype(real), rng.standard_normal((11, 2, 3)).astype(real)
    status, results = compiled(function, lanes, single)(a, m)
    assert status == 0
    for i in range(11):
        expected, sizes = function(a[i], m[i]), function(abs(a[i]), abs(m[i]))  # of the terms of its sums
        if not isinstance(expected, tuple):
            expected, sizes = (expected,), (sizes,)
        for y, e, size in zip(results, expected, sizes, strict=True):
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                e = np.asarray(e).astype(real)
                near = np.abs(y[i] - e) <= 2 * np.finfo(real).eps * np.abs(size)
            assert np.all(near | (y[i] == e) | (np.isnan(y[i]) & np.isnan(e)))
            np.testing.assert_array_equal(np.signbit(y[i]), np.signbit(e))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.many
def test_c99_stores_outputs_of_every_kind(name, tmp_path):
    function = trace(SHAPES[name], {"a": (), "m": (2, 3)}, "f")
    a, m = np.array(0.7), np.arange(6.0).reshape(2, 3) - 2.5
    expected = function(a, m)
    results = compiled_c99(function, tmp_path)(a, m)
    for y, e in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-15)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(e))


@pytest.mark.parametrize(("lanes", "single"), [*FORMS, (16, False)], ids=[*NAMES, "float64 x 16"])
@pytest.mark.many
def test_results_past_the_caches_are_those_within(lanes, single, monkeypatch):
    """Rows of any width, at any distance from a line of memory, with constants in blocks and between."""

    def rows(x):
        wide = np.concatenate([x, np.arange(70), x * 2.0, [-0.0], x, np.zeros(40, int), -x[:3]])
        return tuple(wide[:n] for n in (5, 129, 64, 150, 17, 264, 200, 1))

    function = trace(rows, {"x": 50}, "f")
    x = np.random.default_rng(0).standard_normal((3 * lanes + 1, 50))
    expected = [np.array(y, np.float32 if single else float) for y in zip(*map(rows, x), strict=True)]
    for cached in (1 << 21, 0):
        monkeypatch.setattr(printer, "CACHED", cached)
        status, results = compiled(function, lanes, single)(x)
        assert status == 0
        for y, e in zip(results, expected, strict=True):
            np.testing.assert_array_equal(y, e)
            np.testing.assert_array_equal(np.signbit(y), np.signbit(e))


def fenced(real, size, at_end):
    """An array between pages that nobody may touch: it ends, or begins, at one of them."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    inside = max(-(-size * np.dtype(real).itemsize // page), 1) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (start, start + page + inside):
        assert libc.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0) == 0
    whole = np.frombuffer(memory, real, inside // np.dtype(real).itemsize, page)
    return whole[len(whole) - size :] if at_end else whole[:size]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a crash is caught in a child process")
@pytest.mark.parametrize("replaced", ["", "#define RESIZING_SHUFFLE"], ids=["", "no resizing shuffles"])
@pytest.mark.parametrize(("lanes", "single"), [*FORMS, (2, False), (16, True)])
@pytest.mark.many(3)
def test_rows_of_every_width_come_in_and_go_out_and_nothing_beside_them(lanes, single, replaced, monkeypatch):
    """Rows with and without gaps, backwards, one that all share; nothing else is read or written."""
    runtime, real = printer.runtime, np.float32 if single else np.float64
    monkeypatch.setattr(printer, "runtime", lambda name: runtime(name).replace(replaced or "\0", ""))
    widths = [*range(1, 10), 15, 17]
    function = trace(
        lambda *x: tuple(y[::-1] * 2 for y in x), {f"x{k}": width for k, width in enumerate(widths)}, "f"
    )
    run = compiled_run(function, lanes, single)
    rng = np.random.default_rng(0)

    def check(n, gap_in, gap_out, at_end):
        starts, strides, arrays, results, expected = [], [], [], [], []
        for width in widths:
            step = {"shared": 0, "backwards": -width}.get(gap_in, width + (gap_in == "gaps") * 3)
            array = fenced(real, (n - 1) * abs(step) + width, at_end)
            array[:] = rng.integers(-1000, 1000, array.size)
            begin = (n - 1) * max(-step, 0)
            rows = np.stack([array[begin + i * step :][:width] for i in range(n)])
            arrays.append(array)
            starts.append(array.ctypes.data + begin * array.itemsize)
            strides.append(step)
            expected.append(2 * rows[:, ::-1])
            results.append(fenced(real, (n - 1) * (width + gap_out) + width, at_end))
            results[-1][:] = np.nan
        steps = [width + gap_out for width in widths]
        assert run(n, starts, strides, [y.ctypes.data for y in results], steps) == 0
        for y, e, step in zip(results, expected, steps, strict=True):
            for i in range(n):
                assert (y[i * step :][: e.shape[1]] == e[i]).all()
                assert np.isnan(y[i * step + e.shape[1] : (i + 1) * step]).all()

    def everything():
        gaps = [("", 0), ("gaps", 2), ("shared", 0), ("backwards", 0), ("", 2)]
        for (gap_in, gap_out), n, at_end in product(gaps, (1, lanes, 2 * lanes + 1), (True, False)):
            check(n, gap_in, gap_out, at_end)

    child = os.fork()
    if not child:
        status = 1
        try:
            everything()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_more_results_than_a_stack_holds(lanes=8):
    n = 300
    function = trace(
        lambda x: np.array([[x[max(i, j) % 7] * (1 + min(i, j)) for i in range(n)] for j in range(n)]),
        {"x": 7},
    )
    x = np.random.default_rng(0).standard_normal((lanes + 1, 7))
    _, (y,) = compiled(function, lanes)(x)
    i = np.arange(n)
    expected = x[:, np.maximum.outer(i, i) % 7] * (1 + np.minimum.outer(i, i))
    np.testing.assert_allclose(y, expected, rtol=1e-15)


# -- the guard ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lanes", "single"), FORMS, ids=NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_guard_finds_an_entry_that_is_not_finite_wherever_it_is(lanes, single, bad):
    function = trace(lambda x, y: x[:1] + y, {"x": 11, "y": 1}, "f")
    call = compiled(function, lanes, single, guard=Guard(("x",)))
    for row, place in [(0, 0), (0, 10), (5, 3), (12, 7)]:
        x, y = np.ones((13, 11)), np.full((13, 1), bad)  # y is not guarded
        assert call(x, y)[0] == 0
        x[row, place] = bad
        status, _ = call(x, y)
        assert 0 < status <= row + 1 < status + lanes


@pytest.mark.parametrize(("lanes", "single"), FORMS, ids=NAMES)
def test_the_guard_finds_quaternions_off_unit(lanes, single):
    function = trace(lambda q: q[:1], {"q": 9}, "f")
    call = compiled(function, lanes, single, guard=Guard((), (("q", 1, 4), ("q", 5, 4)), 1e-4))
    q = np.tile([7.0, 0.5, 0.5, -0.5, 0.5, 0.0, 0.0, 0.6, 0.8], (9, 1))
    assert call(q)[0] == 0
    for row, scale in [(0, 1.001), (3, 0.999), (8, np.nan), (8, np.inf), (2, 0)]:
        off = q.copy()
        off[row, 7:] *= scale
        assert 0 < call(off)[0] <= row + 1
        off[row, 5:] = q[row, 5:] * (1 + 1e-5)
        assert call(off)[0] == 0


# -- names and text -----------------------------------------------------------------------------------------

HOSTILE = ['q"', "q\n", "q; system(0)", "", "1q", "q-1", "ä", "_q", "q\x00", "q/*"]


@pytest.mark.parametrize("name", HOSTILE)
def test_text_from_outside_never_becomes_code(name):
    with pytest.raises(GraphError, match="use letters, digits and _"):
        identifier(name)
    with pytest.raises(GraphError):
        c99(trace(lambda q: q, {name: 2}, "f"))
    with pytest.raises(GraphError):
        c99(trace(lambda q: q, {"q": 2}, name or "\n"))
    with pytest.raises(GraphError):
        c99(trace(lambda q: {name: q}, {"q": 2}, "f"))


WORDS = [
    "int",
    "t1",
    "t2",
    "w",
    "y0",
    "in",
    "out",
    "sin",
    "NAN",
    "f",
    "f_0",
    "main",
    "M_PI",
    "sin_",
    "n",
    "linux",
]


@pytest.mark.parametrize("piece", [printer.PIECE, 2])
def test_arguments_may_have_names_that_mean_something_in_c(piece, tmp_path):
    def function(*x):
        return {name: scalars.sin(a) * b + c for name, a, b, c in zip(WORDS, x, x[1:], x[2:])}

    traced = trace(function, dict.fromkeys(WORDS, 2), "f")
    x = np.random.default_rng(0).standard_normal((len(WORDS), 2))
    found = dict(zip(traced.outputs, compiled_c99(traced, tmp_path, piece=piece)(*x), strict=True))
    for name, a, b, c in zip(WORDS, x, x[1:], x[2:]):
        bound = 4 * np.finfo(float).eps * (np.abs(np.sin(a) * b) + np.abs(c))
        assert np.all(np.abs(found[name] - (np.sin(a) * b + c)) <= bound)


def test_a_function_may_have_the_name_of_one_in_math_h(tmp_path):
    traced = trace(lambda x: scalars.exp(x), {"x": 2}, "exp")
    assert c99(traced).startswith("void exp_(const double *x, double *exp_out)\n")
    np.testing.assert_allclose(compiled_c99(traced, tmp_path, "exp_")(np.ones(2)), [np.exp([1.0, 1.0])])


def test_literals_read_back_as_the_same_number():
    rng = np.random.default_rng(0)
    for x in [
        *rng.standard_normal(50) * 10.0 ** rng.integers(-320, 308, 50),
        5e-324,
        1.7976931348623157e308,
        -0.0,
    ]:
        back = float(literal(float(x)).strip("()"))
        assert back == x and np.signbit(back) == np.signbit(x)
    assert [literal(x) for x in (np.nan, np.inf, -np.inf, 2.0)] == ["NAN", "INFINITY", "(-INFINITY)", "2.0"]


def test_the_c99_text_is_what_a_reader_expects():
    def spring(x, v, k):
        return {"force": -k * x - 0.5 * v, "energy": 0.5 * (k * x) @ x}

    assert (
        c99(trace(spring, {"x": 2, "v": 2, "k": ()}, "spring"))
        == """\
void spring(const double *x, const double *v, const double *k, double *force, double *energy)
{
    const double t6 = x[0] * k[0];
    const double t8 = x[1] * k[0];
    const double t10 = v[0] * 0.5;
    const double t11 = v[1] * 0.5;
    const double t12 = t6 + t10;
    const double t13 = -t12;
    force[0] = t13;
    const double t14 = t8 + t11;
    const double t15 = -t14;
    force[1] = t15;
    const double t16 = t6 * 0.5;
    const double t17 = t8 * 0.5;
    const double t18 = x[0] * t16;
    const double t19 = x[1] * t17;
    const double t20 = t18 + t19;
    energy[0] = t20;
}
"""
    )
