"""Generated C: elementary functions, every operation in random programs, pieces, and the readable C99."""

import re

import mpmath
import numpy as np
import pytest
from native import LANES, compiled, compiled_c99

from liebody import scalar
from liebody.codegen import build
from liebody.codegen.graph import CONDITIONS, OPERATIONS, Expr, Function, Graph, trace
from liebody.codegen.printers import c as printer
from liebody.codegen.printers.c import Guard, c99, identifier, literal
from liebody.errors import GraphError
from programs import OPERANDS

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")

FORMS = [(lanes, single) for single in (False, True) for lanes in (1, 4, 8)]
NAMES = [f"{'float32' if single else 'float64'} x {lanes}" for lanes, single in FORMS]
HARDEST = 6381956970095103 * 2.0**797  # the double closest to a multiple of pi/2, relative to its size (Kahan)


# -- sine and cosine ----------------------------------------------------------------------------------------


def arguments(real):
    """Every exponent, neighbours of multiples of pi/2 of every size, subnormals, zeros."""
    rng = np.random.default_rng(0)
    info = np.finfo(real)
    exponents = np.arange(int(np.log2(float(info.smallest_subnormal))), info.maxexp)
    sweep = [real(mantissa * 2.0**e) for e in exponents for mantissa in 1 + rng.random(2)]
    k = np.concatenate([np.arange(1, 100), rng.integers(100, 600_000, 300)]).tolist()
    k += [int(rng.integers(2**52, 2**53)) << int(s) for s in rng.integers(0, info.maxexp - 60, 200)]
    k += [int(2**x) for x in rng.uniform(19, 53, 200)]
    with mpmath.workprec(1200):
        near = [real(float(n * mpmath.pi / 2)) for n in k]
    near += [np.nextafter(x, real(towards)) for x in near for towards in (0, np.inf)]
    known = [0, info.smallest_subnormal, info.tiny, info.max, 8e5, np.nextafter(real(8e5), real(1e9)), np.pi / 4]
    x = np.array([*sweep, *near, *known, *([HARDEST] if real is np.float64 else [])], real)
    return np.concatenate([x, -x])


def errors(x, y, exact):
    """| y - exact(x) | in units of the last place of exact(x)."""
    with mpmath.workprec(1200):
        values = [exact(mpmath.mpf(float(a))) for a in x]
        units = np.spacing(np.abs(np.array([float(v) for v in values], x.dtype))).astype(float)
        return np.array([float(abs(mpmath.mpf(float(b)) - v)) for b, v in zip(y, values)]) / units


@pytest.fixture(scope="module")
def sine_and_cosine():
    return trace(lambda x: (scalar.sin(x), scalar.cos(x)), {"x": ()})


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_sine_and_cosine_are_within_2_ulp_of_every_finite_argument(real, sine_and_cosine):
    x = arguments(real)
    status, (s, c) = compiled(sine_and_cosine, 1, real is np.float32)(x)
    assert status == 0
    assert errors(x, s, mpmath.sin).max() <= 2
    assert errors(x, c, mpmath.cos).max() <= 2


@pytest.mark.parametrize("single", [False, True])
def test_sine_and_cosine_are_the_same_at_any_number_of_lanes(single, sine_and_cosine):
    x = arguments(np.float32 if single else np.float64)
    _, one = compiled(sine_and_cosine, 1, single)(x)
    for lanes in LANES[1:]:
        _, many = compiled(sine_and_cosine, lanes, single)(x)
        np.testing.assert_array_equal(many, one)
        np.testing.assert_array_equal(np.signbit(many), np.signbit(one))


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


def test_compilers_without_shuffles_between_sizes_reduce_float32_the_same_way(sine_and_cosine, monkeypatch):
    x = arguments(np.float32)
    _, expected = compiled(sine_and_cosine, 8, True)(x)
    runtime = printer.runtime
    monkeypatch.setattr(printer, "runtime", lambda name: runtime(name).replace("#define RESIZING_SHUFFLE", ""))
    _, (s, c) = compiled(sine_and_cosine, 8, True)(x)
    np.testing.assert_array_equal([s, c], expected)


# -- every operation ----------------------------------------------------------------------------------------

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 1e300, -2.5e-8, 3.0, 710.0, 1e5)
CLOSE = frozenset({"sin", "cos", "tan", "exp", "log", "arctan2"})  # rounded by different libraries
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
        pools = {"n": numbers[-40:] + [*x], "c": conditions[-10:]}
        args = [pools[kind][rng.integers(len(pools[kind]))] for kind in OPERANDS[op]]
        if len(args) > 1 and OPERANDS[op][-1] == "n" and rng.random() < 0.25:
            args[-1] = CONSTANTS[rng.integers(len(CONSTANTS))]
        (conditions if op in CONDITIONS else numbers).append(graph.node(op, *args))
    nodes = np.array([*numbers[6:], *conditions], dtype=object)
    outputs = [graph.node("where", node, 1.0, 0.0) if node.op in CONDITIONS else node for node in nodes]
    return Function("random", {"x": x}, {"y": np.array(outputs, dtype=object)}), nodes


def assert_operations(function, nodes, x, y, real, contracted):
    """Every number in y (n, nodes) is the operation of the numbers in y that it is made of."""
    values = {node: column for node, column in zip(function.inputs["x"], x.T)}
    values.update((node, column != 0 if node.op in CONDITIONS else column) for node, column in zip(nodes, y.T))
    unit = np.finfo(real).eps
    seen = set()
    with np.errstate(all="ignore"):
        for node in nodes:
            args = [values[a] if type(a) is Expr else real(a) for a in node.args]
            expected = np.broadcast_to(OPERATIONS[node.op](*args), len(x)).astype(real)
            actual = values[node].astype(real)
            seen.add(node.op)
            same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
            if node.op in CLOSE:
                same |= np.abs(actual - expected) <= 4 * np.spacing(np.abs(expected))
            elif contracted and node.op in ("add", "sub"):  # of a product that was not rounded before
                same |= np.abs(actual - expected) <= unit * (np.abs(args[0]) + np.abs(args[1]))
                same |= ~np.isfinite(expected)  # inf - inf where the product alone overflows
            wrong = np.flatnonzero(~same)
            assert not len(wrong), (node, [a[wrong[:3]] if np.ndim(a) else a for a in args], actual[wrong[:3]])
    assert seen == set(OPERATIONS)


def states(real, n=300):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, 6)) * 10.0 ** rng.integers(-3, 3, (n, 6))
    special = rng.random((n, 6)) < 0.15
    with np.errstate(over="ignore"):
        return np.where(special, rng.choice(SPECIAL, (n, 6)), x).astype(real)


@pytest.mark.parametrize("piece", [printer.PIECE, 7])
@pytest.mark.parametrize(("lanes", "single"), FORMS, ids=NAMES)
def test_every_operation_over_lanes_is_that_of_the_graph(lanes, single, piece):
    real = np.float32 if single else np.float64
    function, nodes = random_nodes(lanes + piece, 20 * len(OPERATIONS))
    x = states(real)
    status, (y,) = compiled(function, lanes, single, piece)(x)
    assert status == 0
    assert_operations(function, nodes, x, y, real, contracted=True)


@pytest.mark.parametrize("piece", [printer.PIECE, 7])
def test_every_operation_in_c99_is_that_of_the_graph(piece, tmp_path):
    function, nodes = random_nodes(piece, 20 * len(OPERATIONS))
    x = states(np.float64)
    kernel = compiled_c99(function, tmp_path, piece=piece)
    y = np.array([kernel(row)[0] for row in x])
    assert_operations(function, nodes, x, y, np.float64, contracted=False)
