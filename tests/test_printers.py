"""Every printer against the interpreter, on random programs over every operation and on special values."""

import builtins
import inspect
import itertools
import sys

import mpmath
import numpy as np
import precise
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import INPUTS, OPERANDS, TABLES, assert_within, points, programs, traced, with_bounds

from liebody import scalars
from liebody.base.errors import GraphError, ShapeError
from liebody.compiler import jacobian, to_casadi, trace
from liebody.compiler.graph.graph import CONDITIONS, OPERATIONS
from liebody.compiler.printers import c, casadi_source, numpy_source, sympy_source
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.compiler.printers.sympy_source import to_sympy

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e300, -1e308, np.inf, -np.inf, np.nan)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


every_operation = pytest.mark.parametrize("op", OPERATIONS)


@pytest.mark.parametrize(
    ("table", "elsewhere"),
    [
        (numpy_source.RULES, set()),
        (sympy_source.RULES, set()),
        (casadi_source.RULES, set()),
        (c.LANES_RULES, {"sin", "cos"}),  # printed as a pair
        (c.C99_RULES, {"sin", "cos"}),
    ],
    ids=["numpy", "sympy", "casadi", "c lanes", "c99"],
)
def test_every_operation_has_a_rule(table, elsewhere):
    assert set(table) | elsewhere == set(OPERATIONS)


# -- values -----------------------------------------------------------------------------------------------


@every_operation
@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.many
def test_numpy_source_is_the_interpreter_on_states_and_batches(op, data):
    f = traced(data.draw(programs(op)))
    x = data.draw(points)
    expected, bound = with_bounds(f, x)
    call = compile_numpy(f)
    assert_within(call(x), expected, bound)
    assert_within(call([x]), expected[None], bound)
    assert_within(f(x), expected, bound)


@every_operation
@settings(max_examples=15)
@given(data=st.data())
@pytest.mark.many
def test_sympy_has_the_value_in_exact_arithmetic(op, data):
    f = traced(data.draw(programs(op, longest=4)))
    x = data.draw(points)
    expected, bound = with_bounds(f, x)
    sympy = pytest.importorskip("sympy")
    symbols = sympy.symbols(f"x:{INPUTS}", real=True)
    (matrix,) = to_sympy(f, {"x": symbols}).values()
    with mpmath.workdps(40):
        exact = sympy.lambdify(symbols, list(matrix), modules="mpmath")(*map(mpmath.mpf, x))
    assert_within([float(y) for y in exact], expected, bound)


@every_operation
@pytest.mark.parametrize("sx", [True, False], ids=["SX", "MX"])
@settings(max_examples=15)
@given(data=st.data())
@pytest.mark.many
def test_casadi_is_the_interpreter(sx, op, data):
    pytest.importorskip("casadi")
    f = traced(data.draw(programs(op)))
    x = data.draw(points)
    expected, bound = with_bounds(f, x)
    assert_within(to_casadi(f, sx)(x).full()[:, 0], expected, bound)


@every_operation
def test_numpy_source_follows_ieee_754_on_special_values(op):
    kinds = OPERANDS[op]

    def function(*x):
        given = {"c": lambda a: a < 0.5, "n": lambda a: a, "t": lambda a: TABLES[0]}
        return OPERATIONS[op](*(given[kind](a) for kind, a in zip(kinds, x, strict=True)))

    names = "abc"[: len(kinds)]
    call = compile_numpy(trace(function, dict.fromkeys(names, ()), name=op))
    states = np.array(list(itertools.product(SPECIAL, repeat=len(kinds))))
    for found in (call(*states.T), np.array([call(*state) for state in states])):
        if op in precise.FUNCTIONS:
            assert precise.units_off(found, precise.values(op, *states.T)).max() <= 4
        with np.errstate(all="ignore"):
            expected = np.asarray(function(*states.T), dtype=float)
        if op not in precise.FUNCTIONS:
            np.testing.assert_array_equal(found, expected)
        if op not in CONDITIONS and op not in ("minimum", "maximum"):  # either of the zeros 0.0 and -0.0
            zero = expected == 0
            np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


def test_numpy_source_gives_infinities_where_python_raises():
    def function(x):
        return np.array(
            [1 / x[0], scalars.sqrt(x[1]), scalars.exp(x[2]), scalars.log(x[0]), scalars.sin(x[3])]
        )

    f = trace(function, {"x": 4})
    x = [0.0, -1.0, 1e4, np.inf]
    expected = [np.inf, np.nan, np.inf, -np.inf, np.nan]
    for result in (compile_numpy(f)(x), compile_numpy(f)([x])[0], f(x)):
        np.testing.assert_array_equal(result, expected)


def test_a_branch_that_is_not_taken_may_be_infinite():
    f = trace(lambda x: scalars.where(x > 0, scalars.sqrt(x) / x, -1.0), {"x": ()})
    call = compile_numpy(f)
    np.testing.assert_array_equal([call(4.0), call(0.0), call(-1.0)], [0.5, -1.0, -1.0])
    np.testing.assert_array_equal(call([4.0, 0.0, -1.0]), [0.5, -1.0, -1.0])


# -- shapes -----------------------------------------------------------------------------------------------


def shapes(x, A, T):
    return {"y": A @ x, "A2": 2 * A.T, "s": x[0] * T[1, 0, 1], "one": np.array(1.0)}


@pytest.fixture
def shaped():
    return trace(shapes, {"x": 3, "A": (2, 3), "T": (2, 1, 2)}, name="shapes")


def test_numpy_source_broadcasts_leading_axes(shaped, rng):
    x, A, T = rng.normal(size=(4, 1, 3)), rng.normal(size=(5, 2, 3)), rng.normal(size=(2, 1, 2))
    y, A2, s, one = compile_numpy(shaped)(x, A, T)
    np.testing.assert_allclose(y, np.einsum("bij,acj->abi", A, x), rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(A2, np.broadcast_to(2 * A.swapaxes(-1, -2), (4, 5, 3, 2)))
    np.testing.assert_array_equal(s, np.broadcast_to(x[..., 0] * T[1, 0, 1], (4, 5)))
    np.testing.assert_array_equal(one, np.ones((4, 5)))
    assert [r.shape for r in compile_numpy(shaped)(x[:0], A, T)] == [(0, 5, 2), (0, 5, 3, 2), (0, 5), (0, 5)]


def test_numpy_source_computes_long_batches_block_by_block(rng):
    n = 2 * numpy_source.BLOCK + 7
    x = rng.normal(size=(n, 2))[::-1]
    np.testing.assert_array_equal(compile_numpy(trace(lambda x: x[0] * x[1], {"x": 2}))(x), x[:, 0] * x[:, 1])


def test_numpy_source_is_cut_into_pieces_that_hand_values_on(rng):
    def function(x):
        early = scalars.sin(x)
        y = x
        for _ in range(400):
            y = scalars.cos(y + early)
        return np.concatenate([y, early])

    f = trace(function, {"x": 3})
    text = numpy_source.numpy_source(f)
    assert text.count("def ") == 1 + -(-sum(f.operations.values()) // numpy_source.PIECE) > 4
    x = rng.normal(size=(5, 3))
    expected = [f(row) for row in x]
    np.testing.assert_allclose(compile_numpy(f)(x), expected, rtol=1e-13)
    np.testing.assert_allclose([compile_numpy(f)(row) for row in x], expected, rtol=1e-13)


def test_numpy_source_of_a_deep_graph_needs_no_recursion():
    def function(x):
        for k in range(10 * sys.getrecursionlimit()):
            x = x * 0.5 + k
        return x

    f = trace(function, {"x": ()})
    assert compile_numpy(f)(1.0) == f(1.0) == function(1.0)


def test_numpy_source_text_is_deterministic_and_readable():
    def function(q, s):
        scalars.exp(q[1])  # not needed
        return np.array([scalars.sin(q[0]) * q[1] - s, 0, s / 2 + q[1]])

    expected = (
        "def bias(q_0, q_1, s_):\n"
        "    t0 = sin(q_0)\n"
        "    t1 = q_1 * t0\n"
        "    t2 = t1 - s_\n"
        "    t3 = s_ * 0.5\n"
        "    t4 = q_1 + t3\n"
        "    return (t2, 0.0, t4)\n"
    )
    for _ in range(2):
        assert numpy_source.numpy_source(trace(function, {"q": 2, "s": ()}, name="bias")) == expected


@pytest.mark.parametrize("name", ["sin", "where", "lambda", "abs", "inf", "t0", "q", "q_0"])
def test_names_of_functions_and_inputs_do_not_collide(name):
    inputs = {name: (2,), "t0": (), "t": (1,), "a": (1, 1), "a_0": (1,), "lambda": (), "inf": ()}

    def function(*x):
        y = sum(np.sum(a) * (k + 2) for k, a in enumerate(x))
        for _ in range(numpy_source.PIECE):
            y = scalars.sin(y) + 0.1
        return y

    f = trace(function, inputs, name=name)
    values = [np.full(shape, 0.3 + k) for k, shape in enumerate(inputs.values())]
    assert compile_numpy(f)(*values) == pytest.approx(f(*values), rel=1e-12)


@pytest.mark.parametrize("printer", [compile_numpy, to_casadi], ids=["numpy", "casadi"])
@pytest.mark.parametrize("name", ["f(", "a b", "x\n", "", "é", "__import__('os')"])
def test_names_that_are_not_identifiers_never_reach_generated_code(name, printer):
    with pytest.raises(GraphError, match="letters, digits and _"):
        printer(trace(lambda x: x + 1, {name: 2}, name="f"))


def test_generated_python_sees_no_builtins():
    call = compile_numpy(trace(lambda x: abs(x), {"x": ()}))
    of_floats = inspect.getclosurevars(call).nonlocals["of_floats"]
    assert set(of_floats.__globals__["__builtins__"]) == {"abs"}
    assert of_floats.__globals__["__builtins__"]["abs"] is builtins.abs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0],), "takes 2 arrays"),
        (([1.0, 2.0, 3.0], 1.0), r"x has shape \(3,\), expected \(2,\)"),
        ((1.0, 1.0), r"x has shape \(\), expected \(2,\)"),
        ((["a", "b"], 1.0), "x cannot be read as an array of float64: it holds <U1"),
        (([1j, 2], 1.0), "x cannot be read as an array of float64: it holds complex128"),
        ((np.ones((3, 2)), np.ones(4)), r"do not broadcast .*: x \(3, 2\), s \(4,\)"),
    ],
)
def test_wrong_arrays_are_refused_with_both_shapes(arguments, message):
    call = compile_numpy(trace(lambda x, s: x * s, {"x": 2, "s": ()}, name="scaled"))
    with pytest.raises(ShapeError, match=message):
        call(*arguments)


# -- SymPy and CasADi -------------------------------------------------------------------------------------


def test_sympy_gives_closed_forms():
    sympy = pytest.importorskip("sympy")

    def function(q, s):
        return {
            "p": np.array([scalars.cos(q[0]) * 0.5, q[1] / 3, 9.81 * s]),
            "A": np.array([[q[0], 0], [0, s**2]]),
            "s": scalars.where(s < 0.1, -s, np.pi),
        }

    f = trace(function, {"q": 2, "s": ()})
    q0, q1, s = sympy.symbols("q_0 q_1 s", real=True)
    got = to_sympy(f)
    assert got["p"] == sympy.Matrix([sympy.cos(q0) / 2, q1 / 3, sympy.Rational(981, 100) * s])
    assert got["A"] == sympy.Matrix([[q0, 0], [0, s**2]])
    assert got["s"] == sympy.Piecewise((-s, s < sympy.Rational(1, 10)), (sympy.Float(np.pi), True))
    alpha, beta = sympy.symbols("alpha beta")
    assert to_sympy(f, {"q": [alpha, beta + 1]})["p"][1] == (beta + 1) / 3


def test_sympy_takes_arrays_of_any_rank(shaped):
    sympy = pytest.importorskip("sympy")
    cube = trace(lambda T: 2 * T, {"T": (2, 1, 2)})
    (T,) = to_sympy(cube).values()
    assert T.shape == (2, 1, 2)
    assert T[1, 0, 1] == 2 * sympy.Symbol("T_1_0_1", real=True)


def test_sympy_refuses_symbols_that_do_not_fit(shaped):
    with pytest.raises(ShapeError, match=r"shape \(2,\), expected \(3,\)"):
        to_sympy(shaped, {"x": ["a", "b"]})
    with pytest.raises(ShapeError, match="no input 'z'; its inputs are x, A, T"):
        to_sympy(shaped, {"z": ["a", "b"]})


@pytest.mark.parametrize("sx", [True, False], ids=["SX", "MX"])
def test_casadi_matrices_keep_rows_and_columns(sx, rng):
    pytest.importorskip("casadi")

    def function(A, x, s):
        return {
            "y": A @ x,
            "B": 2 * A.T,
            "s": s * A[1, 2],
            "zero": np.zeros((2, 2)),
            "none": np.zeros((0, 2)),
        }

    f = trace(function, {"A": (2, 3), "x": 3, "s": ()}, name="product")
    g = to_casadi(f, sx)
    assert (g.name(), g.name_in(), g.name_out()) == ("product", list(f.inputs), list(f.outputs))
    A, x = rng.normal(size=(2, 3)), rng.normal(size=3)
    y, B, s, zero, none = g(A, x, 0.5)
    np.testing.assert_allclose(y.full()[:, 0], A @ x, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(B.full(), 2 * A.T)
    np.testing.assert_array_equal(s.full(), [[0.5 * A[1, 2]]])
    assert (zero.shape, zero.nnz(), none.shape) == ((2, 2), 4, (0, 2))


def test_casadi_refuses_arrays_of_three_axes(shaped):
    pytest.importorskip("casadi")
    with pytest.raises(ShapeError, match=r"T has shape \(2, 1, 2\).*reshape it"):
        to_casadi(shaped)


def test_casadi_differentiates_to_the_same_jacobian(rng):
    casadi = pytest.importorskip("casadi")
    f = trace(
        lambda x: np.array([scalars.arctan2(x[0] * x[1], scalars.exp(x[2])), x[0] / x[1]]), {"x": 3}, name="f"
    )
    x = casadi.SX.sym("x", 3)
    theirs = casadi.Function("J", [x], [casadi.jacobian(to_casadi(f)(x), x)])
    point = rng.uniform(0.5, 2, size=3)
    np.testing.assert_allclose(jacobian(f, "x")(point), theirs(point).full(), rtol=1e-14)


@pytest.mark.parametrize(("printer", "module"), [(to_sympy, "sympy"), (to_casadi, "casadi")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(printer, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError,
        match=f"{module} is not installed; .* pip install {module}, or liebody with its extra '{module}'$",
    ):
        printer(trace(lambda x: x + 1, {"x": ()}))


@pytest.mark.parametrize("states", [(), (0,), (1,), (2, 4), (8,), (9,), (3, 5)])
def test_few_states_and_many_have_the_same_numbers_by_numpy(states):
    """Few run one after the other on floats, many as arrays; both follow IEEE 754 at singular arguments."""

    def results(x, y):
        return {"quotient": x[0] / x[1], "root": np.sqrt(y), "both": np.array([x[0] * y, x[1] - y])}

    call = compile_numpy(trace(results, {"x": 2, "y": ()}, "results"))
    x = np.random.default_rng(0).normal(size=(*states, 2))
    x.reshape(-1, 2)[:1, 1] = 0  # x / 0 is infinite
    y = np.linspace(-1, 1, int(np.prod(states))).reshape(states)
    with np.errstate(all="ignore"):
        expected = results(np.moveaxis(x, -1, 0), y)
    for found, (name, value) in zip(call(x, y), expected.items(), strict=True):
        value = np.moveaxis(value, 0, -1) if name == "both" else value
        np.testing.assert_allclose(found, value, rtol=1e-15, atol=0)
        assert np.shape(found) == np.shape(value)
