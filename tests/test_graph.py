"""Expression graphs: what folds, what is shared, what is refused; derivatives against complex steps."""

import itertools
import operator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import INPUTS, OPERANDS, assert_within, points, programs, traced, with_bounds

from liebody import compiler, scalars
from liebody.base.errors import ArgumentError, GraphError, ShapeError
from liebody.compiler import Expr, Function, Graph, jacobian, jvp, trace, vjp
from liebody.compiler.graph.derivatives import PARTIALS
from liebody.compiler.graph.graph import CONDITIONS, OPERATIONS
from liebody.scalars.linear import solve

NUMBERS = sorted(set(OPERATIONS) - CONDITIONS)


@pytest.fixture
def xyz():
    return Graph().symbols("x", 3)


def counts(function, shapes):
    return dict(trace(function, shapes).operations)


# -- folding -------------------------------------------------------------------------------------------------

FOLDS = {
    # what is written: what it is
    "x + 0": "x",
    "0 + x": "x",
    "x - 0": "x",
    "0 - x": "-x",
    "x * 0": "0.0",
    "0 * x": "0.0",
    "x * 1": "x",
    "x * -1": "-x",
    "x / 1": "x",
    "x / -1": "-x",
    "x / 4": "x * 0.25",
    "0 / x": "0.0",
    "x - x": "0.0",
    "x / x": "1.0",
    "-(-x)": "x",
    "+x": "x",
    "x + -y": "x - y",
    "-x + y": "y - x",
    "x - -y": "x + y",
    "-x - y": "-(x + y)",
    "-x - -y": "y - x",
    "2 - -x": "x + 2",
    "x - 2": "x + -2",
    "x * -2": "-(x * 2)",
    "-x * 2": "-(x * 2)",
    "-x * y": "-(x * y)",
    "x * -y": "-(x * y)",
    "-x * -y": "x * y",
    "-x / y": "-(x / y)",
    "x / -y": "-(x / y)",
    "-x / -y": "x / y",
    "2 / -x": "-(2 / x)",
    "2 * (3 * x)": "x * 6",
    "2 * x / 4": "x * 0.5",
    "x * y": "y * x",
    "x + y": "y + x",
    "x - y": "-(y - x)",
    "x ** 0": "1.0",
    "x ** 1": "x",
    "x ** 2": "x * x",
    "x ** 5": "x * ((x * x) * (x * x))",
    "x ** 0.5": "sqrt(x)",
    "x ** 1.5": "x * sqrt(x)",
    "x ** -2": "1 / (x * x)",
    "x ** -0.5": "1 / sqrt(x)",
    "x ** np.int64(2)": "x * x",
    "sin(-x)": "-sin(x)",
    "cos(-x)": "cos(x)",
    "tan(-x)": "-tan(x)",
    "absolute(-x)": "absolute(x)",
    "minimum(x, x)": "x",
    "maximum(x, x)": "x",
    "arctan2(0.0, x)": "arctan2(-0.0, x)",
    "where(x < y, z, z)": "z",
    "where(x < y, 2, 2.0)": "2.0",
    "where(True, x, y)": "x",
    "where(x < x, x, y)": "y",
    "x < x": "False",
    "x <= x": "True",
    "x == x": "True",
    "x != x": "False",
    "x > y": "y < x",
    "x >= y": "y <= x",
    "x == y": "y == x",
    "x == 2": "2 == x",
    "x != y": "~(x == y)",
    "~~(x < y)": "x < y",
    "(x < y) & True": "x < y",
    "False & (x < y)": "False",
    "(x < y) | False": "x < y",
    "True | (x < y)": "True",
    "(x < y) & (x < y)": "x < y",
    "(x < y) | (x < y)": "x < y",
    "(x < y) & (y < z)": "(y < z) & (x < y)",
    "(x < y) | (y < z)": "(y < z) | (x < y)",
    "(x < y) ^ True": "~(x < y)",
    "False ^ (x < y)": "x < y",
}


@pytest.mark.parametrize(("written", "folded"), FOLDS.items(), ids=FOLDS)
def test_expressions_fold(written, folded, xyz):
    names = {name: getattr(scalars, name) for name in ("sin", "cos", "tan", "sqrt", "absolute", "arctan2")}
    names |= {name: getattr(scalars, name) for name in ("minimum", "maximum", "where")}
    names |= dict(zip("xyz", xyz, strict=True), np=np)
    expected, actual = eval(folded, names), eval(written, names)
    assert type(actual) is type(expected)
    assert actual is expected if isinstance(actual, Expr) else actual == expected


def test_equal_operations_are_the_same_node(xyz):
    x, y, _ = xyz
    assert x * y + 1 is y * x + 1
    assert scalars.sin(xyz)[1] is np.sin(y)
    assert len({x * y, y * x, x + y}) == 2


def test_the_opposite_of_a_difference_is_not_computed_again(xyz):
    x, y, _ = xyz
    difference = x - y
    assert (y - x).args == (difference,)


def test_division_by_a_tiny_constant_does_not_overflow():
    tiny = 1e-310
    assert trace(lambda x: x / tiny, {"x": ()})(tiny) == 1.0


NUMBER_KINDS = [2, 2.0, True, np.float64(2), np.float32(2), np.int64(2), np.bool_(True)]


@pytest.mark.parametrize("number", NUMBER_KINDS, ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne"])
def test_numbers_of_any_kind_meet_symbols_on_either_side(name, number):
    op = getattr(operator, name)
    f = trace(lambda x: (op(x, number), op(number, x)), {"x": ()})
    assert f(3.0) == (op(3.0, float(number)), op(float(number), 3.0))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_arrays_of_floats_meet_symbols_entry_by_entry(name):
    op, array = getattr(operator, name), np.array([[2.0, 3.0]])
    f = trace(lambda x: (op(x, array), op(array, x)), {"x": ()})
    for actual, expected in zip(f(5.0), (op(5.0, array), op(array, 5.0)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-15)


# -- operation counts ----------------------------------------------------------------------------------------


def rotation_z(q):
    c, s = scalars.cos(q), scalars.sin(q)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (lambda x, y: x * y + x * y, {"x": (), "y": ()}, {"mul": 1, "add": 1}),
        (lambda x, y: x @ y, {"x": 3, "y": 3}, {"mul": 3, "add": 2}),
        (lambda x: np.zeros(3, int) @ x, {"x": 3}, {}),
        (lambda x: np.eye(3) @ x, {"x": 3}, {}),
        (lambda A, B: A @ B, {"A": (6, 6), "B": (6, 6)}, {"mul": 216, "add": 180}),
        (lambda A: A @ A.T, {"A": (3, 3)}, {"mul": 18, "add": 12}),
        (
            lambda q, p: rotation_z(q) @ p,
            {"q": (), "p": 3},
            {"sin": 1, "cos": 1, "mul": 4, "sub": 1, "add": 1},
        ),
        (lambda q: rotation_z(q) @ rotation_z(-q)[:, 2], {"q": ()}, {}),
        (lambda x, y: np.cross(x, y), {"x": 3, "y": 3}, {"mul": 6, "sub": 3}),
        (lambda x, y: np.cross(x, y) + np.cross(y, x), {"x": 3, "y": 3}, {}),
        (lambda x: x**8, {"x": ()}, {"mul": 3}),
        (lambda x: (scalars.exp(x), x + 1)[1], {"x": ()}, {"add": 1}),
    ],
)
def test_only_the_operations_that_are_needed_are_there(function, shapes, expected):
    assert counts(function, shapes) == expected


def test_nothing_that_is_zero_in_structure_survives_whatever_the_other_factor():
    f = trace(lambda x: np.array([0 * x, x - x, 0 / x]), {"x": ()})
    assert not f.operations
    np.testing.assert_array_equal(f(np.nan), [0, 0, 0])


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: x / y,
        lambda x, y: x < y,
        lambda x, y: x == y,
        lambda x, y: -x * y,
        lambda x, y: scalars.arctan2(x, y),
        lambda x, y: scalars.minimum(x, y),
        lambda x, y: scalars.where(x < 0, 1, y),
        lambda x, y: (x < 0) & (y < 0),
        lambda x, y: (x < 0) | (y < 0),
        lambda x, y: (x < 0) ^ (y < 0),
    ],
)
def test_symbols_of_two_traces_do_not_mix(mixed):
    x, y = Graph().symbols("x"), Graph().symbols("y")
    with pytest.raises(GraphError, match="two traces"):
        mixed(x, y)


def test_an_output_of_another_trace_is_refused():
    y = Graph().symbols("y")
    with pytest.raises(GraphError, match="output f holds a symbol of another trace"):
        trace(lambda x: np.array([x, y]), {"x": ()}, name="f")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (bool, "Python cannot branch on it.*where"),
        (lambda x: 1 if x < 0 else 2, "Python cannot branch on it.*where"),
        (lambda x: 1 if x == 0 else 2, "Python cannot branch on it.*where"),
        (lambda x: x in (1.0, 2.0), "Python cannot branch on it.*where"),
        (lambda x: max(x, 0), "Python cannot branch on it.*where"),
        (lambda x: np.array([x, x]) < 0, "Python cannot branch on it.*where"),
        (lambda x: np.array([x, x]) == 0, "Python cannot branch on it.*where"),
        (float, "cannot become a float.*without dtype"),
        (lambda x: np.array([x, 1], dtype=float), "cannot become a float.*without dtype"),
        (lambda x: x**0.3, "power 0.3.*exp"),
        (lambda x: x**x, "power.*exp"),
        (lambda x: x / 0, "divided by the constant zero"),
        (lambda x: x * "2", "a str .*meets the symbol"),
        (lambda x: x * 2j, "a complex .*meets the symbol"),
        (lambda x: x * np.complex128(2j), "a complex128 .*meets the symbol"),
        (lambda x: x + None, "a NoneType .*meets the symbol"),
        (lambda x: scalars.where(x, 1, 2), "number .* is used as a condition"),
        (lambda x: (x < 0) & x, "number .* is used as a condition"),
        (lambda x: x | (x < 0), "number .* is used as a condition"),
        (lambda x: ~x, "number .* is used as a condition"),
    ],
)
def test_what_cannot_be_traced_is_refused_with_advice(use, message):
    with pytest.raises(GraphError, match=message):
        trace(use, {"x": ()})


def steeply(x):
    return np.log1p(x)


@pytest.mark.parametrize(
    ("use", "line", "operation"),
    [
        (lambda x: 1 if x[0] < 0 else 2, "(lambda x: 1 if x[0] < 0 else 2,", "Python cannot branch on it"),
        (lambda x: np.clip(x, -1, 1), "np.clip(x, -1, 1)", "its minimum, maximum, clip, sign"),
        (lambda x: np.linalg.inv(np.diag(x)), "np.linalg.inv(np.diag(x))", "'inv'"),
        (
            lambda x: np.linalg.solve(np.diag(x), x),
            "np.linalg.solve(np.diag(x), x)",
            "liebody.scalars.linear.solve(A, b)",
        ),
        (lambda x: steeply(2 * x), "return np.log1p(x)", "log1p"),
        (lambda x: x[0].real, "x[0].real", "'real'"),
    ],
)
@pytest.mark.parametrize("by", [trace, compiler.traced], ids=["trace", "traced"])
def test_a_refusal_names_the_operation_and_the_users_line(use, line, operation, by):
    with pytest.raises(GraphError) as refusal:
        by(use, {"x": 2}, "mine")
    told = str(refusal.value)
    number = next(k for k, text in enumerate(Path(__file__).read_text().splitlines(), 1) if line in text)
    assert told.startswith("mine cannot be traced at `") and line in told and operation in told
    assert f"(test_graph.py, line {number})" in told


def test_what_is_named_in_place_of_numpys_solve_solves():
    f = trace(lambda x: solve(np.array([[x[0], x[1]], [x[1], 3.0]]), np.array([2.0, 1.0])), {"x": 2}, "mine")
    np.testing.assert_allclose(
        f([2.0, 0.5]), np.linalg.solve([[2.0, 0.5], [0.5, 3.0]], [2.0, 1.0]), rtol=1e-15
    )


def test_errors_of_ones_own_stay_what_they_are():
    def refuse(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        trace(refuse, {"x": ()})


COMPARED = {
    "<": lambda x: x < 0,
    "!=": lambda x: x != 1,
    "&": lambda x: (x < 0) & (x > -1),
    "~": lambda x: ~((x < 0) | (x == 2)),
}
AS_NUMBERS = {
    "-c": lambda c, x: -c,
    "+c": lambda c, x: +c,
    "abs(c)": lambda c, x: abs(c),
    "c + 1": lambda c, x: c + 1,
    "0.0 + c": lambda c, x: 0.0 + c,
    "c + x": lambda c, x: c + x,
    "c + c": lambda c, x: c + c,
    "c - 1": lambda c, x: c - 1,
    "x - c": lambda c, x: x - c,
    "c - c": lambda c, x: c - c,
    "c * 1.0": lambda c, x: c * 1.0,
    "0 * c": lambda c, x: 0 * c,
    "x * c": lambda c, x: x * c,
    "c / 2": lambda c, x: c / 2,
    "0.0 / c": lambda c, x: 0.0 / c,
    "c / c": lambda c, x: c / c,
    "c**0": lambda c, x: c**0,
    "c**2": lambda c, x: c**2,
    "c**0.5": lambda c, x: c**0.5,
    "c < 1": lambda c, x: c < 1,
    "x >= c": lambda c, x: x >= c,
    "c == True": lambda c, x: c == True,  # noqa: E712
    "c != x": lambda c, x: c != x,
    "float(c)": lambda c, x: float(c),
    "c and x": lambda c, x: c and x,
    "not c": lambda c, x: not c,
    "if c": lambda c, x: 1 if c else 2,
    "sin(c)": lambda c, x: scalars.sin(c),
    "minimum(c, x)": lambda c, x: scalars.minimum(c, x),
    "arctan2(1, c)": lambda c, x: scalars.arctan2(1, c),
    "where(c, c, x)": lambda c, x: scalars.where(c, c, x),
    "-[c]": lambda c, x: -np.array([c]),
    "[c] * [x]": lambda c, x: np.array([c]) * np.array([x]),
    "sum([x, c])": lambda c, x: np.array([x, c]).sum(),
    "[c] as floats": lambda c, x: np.array([c], dtype=float),
}


@pytest.mark.parametrize("use", AS_NUMBERS)
@pytest.mark.parametrize("condition", COMPARED)
def test_a_condition_is_no_number_and_the_error_says_what_to_write(condition, use):
    with pytest.raises(GraphError, match=r"liebody\.scalars\.where\(condition, .*& \| ~"):
        trace(lambda x: AS_NUMBERS[use](COMPARED[condition](x), x), {"x": ()})


@pytest.mark.parametrize("result", [None, "text", ["text"], object(), 1j])
def test_outputs_that_are_not_numbers_are_refused(result):
    with pytest.raises(GraphError, match="expected numbers or symbols"):
        trace(lambda x: result, {"x": ()})


# -- functions -----------------------------------------------------------------------------------------------


def test_inputs_and_outputs_have_names_and_shapes():
    def bias(q, A, s):
        return {"y": A @ q, "s": s + 1, "k": 3}

    f = trace(bias, {"q": 3, "A": (2, 3), "s": ()})
    assert repr(f) == "bias(q[3], A[2, 3], s[]) -> y[2], s[], k[]: 11 operations"
    assert repr(f.inputs["A"][1, 2]) == "A[1, 2]"
    A = np.arange(6.0).reshape(2, 3)
    y, s, k = f(np.ones(3), A, 2)
    np.testing.assert_array_equal(y, A.sum(axis=1))
    assert (s, k) == (3.0, 3.0)
    assert list(trace(lambda x: (x, 2 * x), {"x": 2}, name="pair").outputs) == ["pair_0", "pair_1"]
    assert trace(lambda x: x, {"x": 2}).name == "function"


@pytest.mark.parametrize("made", [trace, compiler.traced, lambda f, shapes: compiler.Program("f", shapes)])
def test_shapes_are_whole_numbers_of_any_type(made):
    f = made(lambda a: 2.0 * a, {"a": np.int64(3)})
    assert f.inputs["a"].shape == (3,)
    for shape in (-3, "3", 2.0, True, (2, -1), [None]):
        with pytest.raises(ArgumentError, match=r"the shape of .* is .*, expected whole numbers, 0 or more"):
            made(lambda a: a, {"a": shape})


def test_conditions_come_out_as_one_and_zero():
    f = trace(lambda x: np.array([x < 1, (x < 1) | (x > 2), True]), {"x": ()})
    np.testing.assert_array_equal([f(0.0), f(1.5), f(3.0)], [[1, 1, 1], [0, 0, 1], [0, 1, 1]])


@pytest.mark.parametrize(
    ("arguments", "message"), [(([1, 2],), "takes 2"), (([1, 2, 3], 1), r"\(3,\), expected \(2,\)")]
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ShapeError, match=message):
        trace(lambda x, y: x * y, {"x": 2, "y": ()}, name="f")(*arguments)


@pytest.mark.filterwarnings("error")
def test_symbols_meet_nan_without_a_warning_of_numpy():
    functions = [OPERATIONS[op] for op in NUMBERS if OPERANDS[op] == "nn"]

    def meet(x):
        pairs = (x, np.nan), (np.nan, x), (x, np.full(3, np.nan))
        chosen = [scalars.where(x[0] < y, y, 1.0) for y in (x[1], np.nan)]
        return np.concatenate([*(f(*pair) for f in functions for pair in pairs), chosen])

    for _ in range(20):  # Python compares otherwise after some calls
        assert trace(meet, {"x": 3}).operations


@settings(max_examples=100)
@given(programs(), points)
def test_a_trace_computes_what_the_function_computes(program, x):
    f = traced(program)
    expected, bound = with_bounds(f, x)
    with np.errstate(all="ignore"):
        direct = program([np.float64(a) for a in x]).astype(float)
    assume(np.isfinite(direct).all())  # x / x is 1 in a trace, also at 0
    assert_within(direct, expected, bound)


@settings(max_examples=50)
@given(programs(), points)
def test_calling_inlines_into_another_trace(program, x):
    f = traced(program)
    expected, bound = with_bounds(f, x)
    again = trace(lambda x: f(x), {"x": INPUTS})
    assert_within(again(x), expected, bound)
    assert again.operations == f.operations


def test_calling_with_numbers_for_some_inputs_folds_them():
    f = trace(lambda x, y: (x * y + scalars.where(y < 1, x, y), scalars.sin(y)), {"x": (), "y": ()})
    g = trace(lambda x: f(x, 0), {"x": ()})
    assert not g.operations
    assert g(5.0) == (5.0, 0.0)


def test_calling_with_expressions_substitutes_and_shares():
    norm = trace(lambda x: scalars.sqrt(x @ x), {"x": 2}, name="norm")
    f = trace(lambda x, y: norm(x - y) + 2 * norm(x - y), {"x": 2, "y": 2})
    assert dict(f.operations) == {"sub": 2, "mul": 3, "add": 2, "sqrt": 1}
    assert f([4.0, 1.0], [1.0, 5.0]) == 15.0


def test_selection_and_comparisons():
    def function(x, y):
        return scalars.where((x < y) & ~(y == 2), x, scalars.where((x >= 3) | (y != 2), y, -1))

    f = trace(function, {"x": (), "y": ()})
    for x, y in itertools.product([1.0, 2.0, 3.0], repeat=2):
        python = x if x < y and y != 2 else (y if x >= 3 or y != 2 else -1)
        assert f(x, y) == python


def test_the_interpreter_follows_ieee_754():
    f = trace(
        lambda x: np.array([1 / x, x / (x + x), scalars.sqrt(x - 1), scalars.log(x), scalars.minimum(x, 1)]),
        {"x": ()},
    )
    np.testing.assert_array_equal(f(0), [np.inf, np.nan, np.nan, -np.inf, 0])
    np.testing.assert_array_equal(f(np.nan), [np.nan] * 5)


def test_a_graph_may_be_deeper_than_the_recursion_limit():
    def function(x):
        for _ in range(20_000):
            x = 0.5 * x + 1
        return x

    f = trace(function, {"x": ()})
    assert f(1.0) == function(1.0)
    assert jacobian(f, "x", mode="reverse").nodes == []


# -- derivatives ---------------------------------------------------------------------------------------------


def complex_arctan2(y, x):
    if abs(x.real) > abs(y.real):
        return np.arctan(y / x) + (np.arctan2(y.real, x.real) - np.arctan(y.real / x.real))
    return -np.arctan(x / y) + (np.arctan2(y.real, x.real) + np.arctan(x.real / y.real))


COMPLEX = {  # each operation on x + i h: the imaginary part carries the derivative, exactly as h -> 0
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: np.complex128(a) / b,
    "neg": operator.neg,
    "sin": lambda z: np.sin(np.complex128(z)),
    "cos": lambda z: np.cos(np.complex128(z)),
    "tan": lambda z: np.tan(np.complex128(z)),
    "sqrt": lambda z: np.sqrt(np.complex128(z)),
    "exp": lambda z: np.exp(np.complex128(z)),
    "log": lambda z: np.log(np.complex128(z)),
    "sinh": lambda z: np.sinh(np.complex128(z)),
    "cosh": lambda z: np.cosh(np.complex128(z)),
    "tanh": lambda z: np.tanh(np.complex128(z)),
    "arcsin": lambda z: np.arcsin(np.complex128(z)) if abs(z.real) <= 1 else np.nan,
    "arccos": lambda z: np.arccos(np.complex128(z)) if abs(z.real) <= 1 else np.nan,
    "sign": lambda z: np.sign(z.real),
    "floor": lambda z: np.floor(z.real),
    "hypot": lambda a, b: np.sqrt(np.complex128(a * a + b * b)),
    "absolute": lambda z: -z if z.real < 0 else z,
    "arctan2": lambda y, x: complex_arctan2(np.complex128(y), np.complex128(x)),
    "minimum": lambda a, b: a if a.real < b.real else b,
    "maximum": lambda a, b: a if a.real > b.real else b,
    "lt": lambda a, b: a.real < b.real,
    "le": lambda a, b: a.real <= b.real,
    "eq": lambda a, b: a.real == b.real,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.not_,
    "where": lambda condition, a, b: a if condition else b,
    "lookup": lambda table, z: scalars.lookup(table, z.real),
}
STEP = 1e-30


def complex_step(program, x):
    """The Jacobian of a program, one column per input."""
    with np.errstate(all="ignore"):
        columns = [
            program([a + STEP * 1j * (i == k) for i, a in enumerate(x)], COMPLEX) for k in range(INPUTS)
        ]
    return np.array(columns, dtype=complex).T.imag / STEP


def test_every_operation_has_a_derivative():
    assert set(PARTIALS) | CONDITIONS | {"where"} == set(OPERATIONS) == set(COMPLEX)


@pytest.mark.parametrize("op", NUMBERS)
@settings(max_examples=50)
@given(data=st.data())
@pytest.mark.many
def test_both_modes_agree_with_complex_steps(op, data):
    program, x = data.draw(programs(op)), data.draw(points)
    f = traced(program)
    values, _ = with_bounds(f, x)
    expected = complex_step(program, x)
    assume(np.isfinite(expected).all())
    # Complex arithmetic rounds otherwise, so a comparison of equal numbers may choose another branch there.
    same = np.real(np.array(program([complex(a) for a in x], COMPLEX), dtype=complex))
    assume(np.allclose(values, same, rtol=1e-9, atol=1e-9))
    for mode in ("forward", "reverse"):
        J = jacobian(f, "x", mode)
        assert J.outputs["d_program_d_x"].shape == (len(expected), INPUTS)
        actual, bound = with_bounds(J, x)
        # where the trace folds, as x / x = 1, the complex step still has the rounding of what cancels
        assert_within(actual, expected, 10 * bound + 1e-12 * (1 + np.abs(expected).max()))


@settings(max_examples=50)
@given(programs(), points, points)
def test_directional_derivatives_and_gradients_are_products_with_the_jacobian(program, x, d):
    f = traced(program)
    J, bound = with_bounds(jacobian(f, "x"), x)
    w = np.cos(np.arange(len(J)))
    tolerance = 100 * bound.sum() * 8 + 1e-13 * np.abs(J).sum() * 8
    np.testing.assert_allclose(jvp(f, "x")(x, d), J @ d, rtol=0, atol=tolerance)
    gradient = vjp(f, "x")(x, w)
    assume(np.isfinite(gradient).all())
    np.testing.assert_allclose(gradient, w @ J, rtol=0, atol=tolerance)


def test_shapes_of_derivatives():
    f = trace(
        lambda A, x, s: {"y": s * A @ x, "s": s * s, "k": 1.0}, {"A": (2, 3), "x": 3, "s": ()}, name="f"
    )
    A, x, s = np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0, 2.0]), 2.0
    for mode in ("forward", "reverse", None):
        by_A = jacobian(f, "A", mode)
        assert list(by_A.outputs) == ["d_y_d_A", "d_s_d_A", "d_k_d_A"]
        dy, ds, dk = by_A(A, x, s)
        np.testing.assert_allclose(dy, s * np.einsum("ij,k->ijk", np.eye(2), x))
        np.testing.assert_array_equal(ds, np.zeros((2, 3)))
        np.testing.assert_array_equal(dk, np.zeros((2, 3)))
        dy, ds, dk = jacobian(f, "s", mode)(A, x, s)
        np.testing.assert_allclose(dy, A @ x)
        assert (ds, dk) == (4.0, 0.0)
    assert jvp(f, "A").outputs["d_y"].shape == (2,)
    assert vjp(f, "A").outputs["g_A"].shape == (2, 3)


def test_products_by_several_inputs_have_a_direction_or_a_gradient_for_each():
    f = trace(lambda x, y: x * x * y, {"x": (), "y": ()}, name="f")
    first = jvp(f, ["x", "y"])
    assert list(first.inputs) == ["x", "y", "d_x", "d_y"] and first(2.0, 3.0, 1.0, 10.0) == 12.0 + 40.0
    pull = vjp(first, ["x", "d_x"])
    assert list(pull.outputs) == ["g_x", "g_d_x"]
    assert pull(2.0, 3.0, 1.0, 10.0, 1.0) == (2 * 3 * 1 + 2 * 2 * 10, 2 * 2 * 3)


def test_derivatives_of_outputs_that_are_inputs_or_occur_twice():
    f = trace(lambda x: np.array([x[0], x[1] * x[0], x[1] * x[0], 1]), {"x": 2})
    for mode in ("forward", "reverse"):
        np.testing.assert_array_equal(jacobian(f, "x", mode)([2, 3]), [[1, 0], [3, 2], [3, 2], [0, 0]])
    np.testing.assert_array_equal(vjp(f, "x")([2, 3], [1, 10, 100, 1000]), [331, 220])


def test_second_derivatives():
    f = trace(lambda x: scalars.sin(x[0]) * x[1] ** 3, {"x": 2}, name="f")
    hessian = jacobian(jacobian(f, "x"), "x")
    x, y = 0.3, 1.7
    expected = [[-np.sin(x) * y**3, 3 * np.cos(x) * y**2], [3 * np.cos(x) * y**2, 6 * np.sin(x) * y]]
    np.testing.assert_allclose(hessian([x, y]), expected, rtol=1e-14)


def test_jacobians_share_what_the_function_computes():
    f = trace(lambda x: scalars.exp(scalars.sin(x)), {"x": ()})
    assert dict(jacobian(f, "x").operations) == {"sin": 1, "cos": 1, "exp": 1, "mul": 1}


KINKS = [
    # function, point, derivative of the branch that is taken
    (lambda x: abs(x), 0.0, 1.0),
    (lambda x: abs(x), -2.0, -1.0),
    (lambda x: scalars.minimum(2 * x, 3 * x), 0.0, 3.0),
    (lambda x: scalars.maximum(2 * x, 3 * x), 0.0, 3.0),
    (lambda x: scalars.minimum(2 * x, 3 * x), -1.0, 3.0),
    (lambda x: scalars.maximum(2 * x, 3 * x), -1.0, 2.0),
    (lambda x: scalars.minimum(x, 1), 1.0, 0.0),
    (lambda x: scalars.minimum(1, x), 1.0, 1.0),
    (lambda x: scalars.maximum(3 * x, 2 * x), 0.0, 2.0),
    (lambda x: scalars.clip(x, -1, 1), 0.5, 1.0),
    (lambda x: scalars.clip(x, -1, 1), 3.0, 0.0),
    (lambda x: scalars.sign(x) * x, -2.0, -1.0),
    (lambda x: scalars.sign(x) + scalars.floor(x), 0.0, 0.0),
    (lambda x: scalars.where(x < 0, 2 * x, 3 * x), 0.0, 3.0),
    (lambda x: scalars.where(x <= 0, 2 * x, 3 * x), 0.0, 2.0),
]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(("function", "x", "expected"), KINKS)
def test_at_a_kink_the_derivative_is_that_of_the_branch_taken(function, x, expected, mode):
    assert jacobian(trace(function, {"x": ()}), "x", mode)(x) == expected


def test_forward_mode_keeps_the_infinite_slope_of_a_branch_not_taken_out():
    f = trace(lambda x: scalars.where(x > 0, scalars.sqrt(x), x), {"x": ()})
    assert jacobian(f, "x", "forward")(0.0) == 1.0
    assert np.isnan(jacobian(f, "x", "reverse")(0.0))  # as documented


def test_derivatives_refuse_what_they_cannot_mean():
    f = trace(lambda x, d_x: x * d_x, {"x": (), "d_x": ()}, name="f")
    with pytest.raises(GraphError, match="no input 'y'; its inputs are x, d_x"):
        jacobian(f, "y")
    with pytest.raises(GraphError, match="an input 'd_x' already"):
        jvp(f, "x")
    with pytest.raises(GraphError, match="an input 'w_f' already"):
        vjp(Function("f", {"x": f.inputs["x"], "w_f": f.inputs["d_x"]}, f.outputs), "x")
    with pytest.raises(GraphError, match="'sideways'"):
        jacobian(f, "x", "sideways")
    with pytest.raises(GraphError, match="no inputs"):
        jacobian(trace(lambda: 1.0, {}), "x")


def test_the_program_generator_knows_every_operation():
    assert set(OPERANDS) == set(OPERATIONS)
