"""Programs: what is printed and what NumPy runs, against the same program as one straight-line graph."""

import functools
import subprocess
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from liebody import scalars
from liebody.base.errors import ConfigurationError, GraphError, ShapeError
from liebody.compiler import Function, Guard, Kernel, Program, trace
from liebody.compiler.native import build, cache, libraries
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.compiler.printers.program import callable_c99, program_unit
from liebody.compiler.programs import hoisting
from liebody.compiler.programs.program import Call
from liebody.compiler.programs.schedule import Schedule
from liebody.groups import SO3, Product
from liebody.integrators import coefficients, tableau
from liebody.stepping import Flow, Samples
from liebody.stepping.march import Ensemble, Settings
from liebody.stepping.print_explicit import explicit_source
from liebody.stepping.records import FlowFunctions

ADD = trace(lambda a, b: a + b, {"a": (), "b": ()}, "add")
LINK = trace(  # pose and turning of a link, from those of the one before
    lambda R, w, q, v, axis: (R @ SO3.exp(q * axis), SO3.exp(q * axis).T @ w + v * axis),
    {"R": (3, 3), "w": 3, "q": (), "v": (), "axis": 3},
    "link",
)
ENERGY = trace(lambda w, J: (w @ (J * w)) / 2, {"w": 3, "J": 3}, "energy")


def chain(n, seed=0):
    """Links that hang on each other: a recurrence outwards, independent places, a sum."""
    rng = np.random.default_rng(seed)
    axes = np.eye(3)[rng.integers(3, size=n)]
    program = Program(f"chain{n}", {"q": n, "v": n})
    q, v = program.cells("q"), program.cells("v")
    world, rest = program.constants(np.eye(3)), program.zeros(3)
    R, w = program.empty((n, 3, 3)), program.empty((n, 3))
    R_before, w_before = np.concatenate([world[None], R[:-1]]), np.concatenate([rest[None], w[:-1]])
    program.apply(LINK, R_before, w_before, q, v, axes, into=(R, w))
    total = program.zeros()
    program.apply(ADD, total, program.apply(ENERGY, w, rng.uniform(1, 2, (n, 3))), into=total)
    program.output("energy", total)
    program.output("R", R[-1].T)
    program.output("w", w[::2])
    return program


def scattered(n=7, seed=1):
    """Gathered arguments, shared constants and cells, results into places of several orders, batch-free t."""
    rng = np.random.default_rng(seed)
    program = Program("scattered", {"t": (), "x": (n, 3), "s": 2})
    t, x, s = (program.cells(key) for key in "txs")
    mix = trace(
        lambda t, a, b, c, k: (scalars.sin(t) * a + k * b, c * (a @ b)),
        {"t": (), "a": 3, "b": 3, "c": (), "k": 3},
        "mix",
    )
    y, z = program.apply(mix, t, x[:, [2, 0, 1]], x[::-1], s[1], np.array([0.0, 2.0, -1.0]))
    program.apply(mix, t, y, x[rng.permutation(n)], z, rng.standard_normal((n, 3)), into=(y[:, ::-1], None))
    single = program.apply(ADD, s[0], 3.0)
    program.apply(ADD, z[[3, 1]], single, into=z[[1, 5]])
    program.output("y", y.reshape(3, n))
    program.output("z", np.append(z, single))
    return program


def in_turns(n=17, seed=4):
    """A recurrence over unlike places, of one and of two cells."""
    rng = np.random.default_rng(seed)
    order = rng.permutation([0] * n + [1] * (n - 5))
    program = Program("turns", {"x": n, "y": (n - 5, 2)})
    one = trace(lambda s, x, k: scalars.sin(s) + k * x, {"s": (), "x": (), "k": ()}, "one")
    two = trace(lambda s, y: (s * y[0] + y[1], y[::-1] * s), {"s": (), "y": 2}, "two")
    s = program.empty(len(order) + 1)
    program.apply(ADD, program.cells("x")[0], 1.0, into=s[0])
    at = [np.flatnonzero(order == k) for k in (0, 1)]
    calls = [
        Call(one, (s[at[0]], program.cells("x"), rng.standard_normal(n)), s[at[0] + 1]),
        Call(two, (s[at[1]], program.cells("y")), (s[at[1] + 1], None)),
    ]
    _, (_, z) = program.alternate(order, calls)
    program.output("s", s)
    program.output("z", z)
    return program


PROGRAMS = [chain(1), chain(6), chain(23), scattered(), in_turns()]


def samples(program, *batch, seed=2):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*batch, *cells.shape)) for cells in program.inputs.values()]


def as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


def assert_equal(program, results, arrays, batch=(), rtol=1e-13):
    """`results` are those of the unrolled program, which is interpreted."""
    unrolled = program.unroll()
    for i in np.ndindex(*batch):
        expected = as_tuple(unrolled(*(a[i] for a in arrays)))
        for y, e in zip(results, expected, strict=True):
            np.testing.assert_allclose(y[i], e, rtol=rtol, atol=rtol)


@pytest.fixture(params=["compiled", "NumPy"])
def way(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_a_program_run_by_numpy_is_its_unrolled_graph(program, batch):
    arrays = samples(program, *batch)
    assert_equal(program, as_tuple(compile_numpy(program)(*arrays)), arrays, batch)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("batch", [(), (3,), (70,)])  # one lane; more states than FEW: all lanes
@pytest.mark.many
def test_a_kernel_of_a_program_computes_its_unrolled_graph(way, program, batch):
    arrays = samples(program, *batch)
    assert_equal(program, as_tuple(Kernel(program)(*arrays)), arrays, batch)


def test_kernels_of_programs_take_single_precision_guards_buffers_and_threads(way):
    program = chain(9)
    arrays = samples(program, 70)
    expected = Kernel(program.unroll())(*arrays)
    for y, e in zip(Kernel(program, np.float32)(*arrays), expected, strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-4, atol=1e-4)
    k = Kernel(program, guard=Guard(finite=("q",)))
    buffer = k.buffer(70)
    for results in (k(*arrays, threads=3), buffer(*arrays), buffer(*arrays)):
        for y, e in zip(results, expected, strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-13, atol=1e-13)
    arrays[0][41, 2] = np.nan
    with pytest.raises(ConfigurationError, match="41"):
        k(*arrays)


def test_a_kernel_of_a_program_is_found_by_its_recipe(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_chosen", tmp_path)
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    arrays = samples(chain(4))
    expected = Kernel(lambda: chain(4), recipe="chain of four")(*arrays)
    again = Kernel(lambda: 1 / 0, recipe="chain of four")(*arrays)
    for y, e in zip(again, expected, strict=True):
        np.testing.assert_array_equal(y, e)


def test_c99_text_of_a_program_compiles_without_warnings(tmp_path):
    compiler = build.find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    text = (
        "#include <math.h>\n"
        + callable_c99(scattered())
        + callable_c99(chain(5), "w")
        + callable_c99(in_turns())
    )
    (tmp_path / "program.c").write_text(text)
    command = [*compiler.command, "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "program.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_text_is_deterministic_whatever_programs_were_made_before():
    texts = []
    for _ in range(2):
        texts.append(program_unit(chain(8), 4) + callable_c99(scattered()) + callable_c99(in_turns()))
        Program("other", {"x": 5}).zeros(4)
    assert texts[0] == texts[1]


def test_text_does_not_grow_with_the_places_but_for_tables():
    def without_tables(n):
        lines = program_unit(chain(n), 8).splitlines()
        return [line for line in lines if not line.startswith("static const")]

    small, large = without_tables(30), without_tables(1000)
    assert abs(len(large) - len(small)) < 20  # stores of results, one by one where there are few
    assert sum(map(len, large)) < 1.05 * sum(map(len, small))


def test_constants_that_all_places_share_become_part_of_the_text():
    program = Program("turned", {"x": (4, 3)})
    turn = trace(lambda R, k, x: k * (R @ x), {"R": (3, 3), "k": (), "x": 3}, "turn")
    about_z = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    y = program.apply(turn, about_z, np.arange(1.0, 5.0), program.cells("x"))
    program.output("y", y)
    text = callable_c99(program)
    assert text.count("+") <= 4 + 3 * text.count("for (")  # R x needs no sum
    x = samples(program)
    np.testing.assert_array_equal(Kernel(program)(*x), np.arange(1, 5)[:, None] * (x[0] @ about_z.T))


def columns(n, order=None):
    """X of L X = B, a column of B and of X at each place: all share L; columns of X in another order."""
    program, m = Program("columns", {"L": (9, 9), "B": (9, n)}), 9

    def solve(L, k, b):
        x = []
        for i in range(m):
            x.append(k * b[i] - sum((L[i, j] * x[j] for j in range(i)), 0.0) / L[i, i])
        return x

    function = trace(solve, {"L": (m, m), "k": (), "b": m}, "solve")
    X = program.apply(function, program.cells("L"), 2.0, program.cells("B").T)
    program.output("X", X.T if order is None else X[order].T)
    return program


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.many
def test_places_of_one_state_that_do_not_wait_are_lanes(dtype):
    """However many they are beside 2 to 16 lanes, and wherever they come from and go."""
    rng = np.random.default_rng(3)
    programs = columns(4), columns(16), columns(21), columns(9, rng.permutation(9))
    for program in programs:
        L = rng.uniform(0.5, 1, (9, 9))
        B = rng.normal(size=program.inputs["B"].shape)
        assert "WIDE" in program_unit(program, 1).split("piece0", 1)[1]
        single = Kernel(program, dtype)(L, B)  # the loop over one lane
        tolerance = 1e-13 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(single, compile_numpy(program)(L, B), rtol=tolerance, atol=10 * tolerance)


def test_places_that_are_few_or_wait_for_each_other_or_take_turns_are_no_lanes():
    powers = Program("powers", {"x": 8})
    chained = trace(lambda a, b: (a + b) * (a - b) * (a + 2 * b) * (a * b + 3) * a * b, {"a": (), "b": ()})
    s = powers.empty(8)
    powers.apply(chained, np.append(powers.cells("x")[:1], s[:-1]), powers.cells("x"), into=s)
    powers.output("s", s)
    turns = Program("turns", {"x": 8, "y": 8})
    calls = [Call(chained, (turns.cells("x"), turns.cells("y"))), Call(ADD, (turns.cells("y"), 1.0))]
    turns.output("z", np.concatenate(turns.alternate([0, 1] * 8, calls)))
    for program in (powers, turns, columns(3)):
        assert "WIDE" not in program_unit(program, 1).split("piece0", 1)[1]


def test_places_read_what_earlier_places_of_the_pass_have_written(way):
    program = Program("powers", {"x": ()})
    double = trace(lambda a: 2 * a, {"a": ()}, "double")
    s = program.empty(40)
    program.apply(double, np.append(program.cells("x"), s[:-1]), into=s)
    program.output("s", s)
    np.testing.assert_array_equal(Kernel(program)(3.0), 3.0 * 2.0 ** np.arange(1, 41))
    assert len(program.passes[0].runs) == 40


def test_places_write_what_they_read(way):
    """Rows in turn: each place swaps two cells."""
    program = Program("shifted", {"x": 6})
    x = program.cells("x")
    swap = trace(lambda a, b: (b, a), {"a": (), "b": ()}, "swap")
    program.apply(swap, x[:-1], x[1:], into=(x[:-1], x[1:]))
    program.output("y", x)
    np.testing.assert_array_equal(Kernel(program)(np.arange(6.0)), [1, 2, 3, 4, 5, 0])


def test_each_run_starts_anew(way):
    k = Kernel(chain(5))
    arrays = samples(chain(5))
    first = k(*arrays)
    k(*samples(chain(5), seed=9))
    for y, e in zip(k(*arrays), first, strict=True):
        np.testing.assert_array_equal(y, e)


def test_places_that_do_not_wait_run_at_once():
    program = chain(23)
    recurrence, energies, _ = program.passes
    assert len(energies.runs) == 1 and len(recurrence.runs) == 23


def test_no_places_are_no_work(way):
    program = Program("empty", {"x": 3})
    y = program.apply(ADD, program.cells("x")[:0], 1.0)
    assert y.shape == (0,)
    program.output("x", program.cells("x"))
    np.testing.assert_array_equal(Kernel(program)(np.arange(3.0)), np.arange(3.0))


def test_programs_without_outputs_and_with_scalar_ones_are_as_functions_are(way):
    program = Program("silent", {"x": 2})
    assert Kernel(program)(np.ones(2)) == ()
    program.output("y", program.cells("x")[1])
    assert type(Kernel(program)(np.ones(2))) is type(compile_numpy(program)(np.ones(2))) is np.float64


def test_operations_are_counted_over_places():
    assert chain(10).operations == {op: 10 * n for op, n in chain(1).operations.items()}


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda p, x, s: p.apply(ADD, x[0], Program("q", {"a": ()}).cells("a")), GraphError, "no cell of"),
        (lambda p, x, s: p.apply(ADD, x[0], np.zeros((), int)), GraphError, "constants are floats"),
        (lambda p, x, s: p.apply(ADD, x[0], "a"), GraphError, "expected cells"),
        (lambda p, x, s: p.apply(ADD, x[0]), ShapeError, "takes 2 arrays"),
        (lambda p, x, s: p.apply(ADD, x[0], x[1], into=(x[0], x[1])), ShapeError, "returns 1 arrays"),
        (lambda p, x, s: p.apply(ADD, x[:2], x), ShapeError, "a: 2, b: 4"),
        (lambda p, x, s: p.apply(ENERGY, x, np.ones(3)), ShapeError, r"expected \(3,\) or \(places"),
        (lambda p, x, s: p.apply(ADD, x, x, into=np.zeros(4)), GraphError, "into for add holds constants"),
        (lambda p, x, s: p.apply(ADD, s, x[:3]), GraphError, "place 0 of add reads a cell before"),
        (lambda p, x, s: p.apply(ADD, x[:3], s[::-1], into=s), GraphError, "place 0 of add reads"),
        (lambda p, x, s: p.apply(lambda a: a, x), GraphError, r"use trace\("),
        (lambda p, x, s: p.apply(LINK, np.eye(3), x[:3], 1.0, 1.0, x[:3], into=(None, x[[0, 1, 0]])),
         GraphError, "writes a cell twice"),
        (lambda p, x, s: p.output("s", s), GraphError, "no pass has written"),
        (lambda p, x, s: p.output("s", np.zeros(3)), GraphError, "expected cells"),
        (lambda p, x, s: (p.output("x", x), p.output("x", x)), GraphError, "already"),
        (lambda p, x, s: p.alternate([0, 1, 1], [Call(ADD, (x[:2], 1.0)), Call(ADD, (x[0], 1.0))]),
         ShapeError, r"as often as they have places, \[2, 1\]"),
        (lambda p, x, s: p.alternate([1, 0], [Call(ADD, (x[0], 1.0), s[0]), Call(ADD, (s[0], 1.0))]),
         GraphError, "place 0 of add reads"),
        (lambda p, x, s: p.cells("y"), GraphError, "its inputs are x"),
        (lambda p, x, s: p.alternate(None, []), GraphError, "a pass without functions"),
    ],
)  # fmt: skip
def test_mistakes_are_named(wrong, error, words):
    program = Program("p", {"x": 4})
    x, s = program.cells("x"), program.empty(3)
    with pytest.raises(error, match=words):
        wrong(program, x, s)


# -- loops that passes share ---------------------------------------------------------------------------------

MIX = trace(
    lambda a, b, k: (np.array([a - k * b, a * b]), scalars.sin(a) + b), dict.fromkeys("abk", ()), "mix"
)
STEP = trace(lambda s, a: scalars.sin(s + a) - 0.3 * a, dict.fromkeys("sa", ()), "step")


def turned(x, rng):
    """Cells of a column as passes read them: along it, from behind, shifted, scattered."""
    ways = [x, x, x, x[::-1], x[1:], x[:-1], x[::2], np.roll(x, 1), rng.permutation(x), x[:1]]
    way = ways[rng.integers(len(ways))]
    return way if len(way) else x


def random_program(seed):
    """Passes that make columns of cells, go along them, write them again and take turns."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 21, 40]))
    program = Program(f"random{seed}", {"x": (n, 2), "y": n})
    known = [*program.cells("x").T, program.cells("y"), program.constants(rng.standard_normal(n))]
    for _ in range(rng.integers(2, 12)):
        a, b, target = (turned(known[rng.integers(len(known))], rng) for _ in range(3))
        m = min(map(len, (a, b, target)))
        a, b, target = a[:m], b[:m], target[:m]
        kind = rng.integers(6)
        if kind < 2:
            pairs, single = program.apply(MIX, a, b, rng.standard_normal(m) if kind else 0.5)
            known += [*pairs.T, single]
        elif kind < 4:
            s = program.empty(m + 1)[:: -1 if kind == 2 else 1]
            program.apply(ADD, b[0], 1.0, into=s[0])
            program.apply(STEP, s[:-1], a, into=s[1:])
            known.append(s)
        elif kind == 4:
            program.apply(STEP, target, a, into=target)
        else:
            s = program.empty(2 * m + 1)
            program.apply(ADD, b[0], 1.0, into=s[0])
            calls = [Call(STEP, (s[0:-1:2], a), s[1::2]), Call(STEP, (s[1::2], b), s[2::2])]
            program.alternate([0, 1] * m, calls)
            known.append(s)
    for k, column in enumerate(known[-3:]):
        program.output(f"o{k}", column)
    program.output("again", np.stack([known[-1], known[-1]]))
    return program


def scheduled(program, arrays):
    """What a program computes if it runs as it is printed: loop by loop, in shared places."""
    results = [program.positions(cells).ravel() for cells in program.outputs.values()]
    plan = Schedule(program, results)
    spaces = [np.full(plan.size, np.nan), *(np.array(x, float).ravel() for x in arrays)]
    spaces += [np.full(len(cells), np.nan) for cells in results]

    def load(cells):
        return np.array([spaces[plan.space[cell]][plan.spot[cell]] for cell in np.ravel(cells)])

    def store(cells, values):
        for cell, x in zip(np.ravel(cells), np.ravel(values), strict=True):
            if plan.space[cell] >= 0:
                spaces[plan.space[cell]][plan.spot[cell]] = x

    def run(part, place):
        given = [a[place] if a.dtype.kind == "f" else load(a[place]) for a in part.arguments]
        shapes = [x.shape for x in part.function.inputs.values()]
        computed = part.function(*(x.reshape(shape) for x, shape in zip(given, shapes, strict=True)))
        for cells, y in zip(part.results, as_tuple(computed), strict=True):
            store(cells[place], y)

    for cells, x in zip(program.inputs.values(), arrays, strict=True):
        if plan.space[program.positions(cells).flat[0]] == 0:
            store(program.positions(cells), x)
    for first, values in program.starts:
        store(first + np.arange(len(values)), values)
    for loop_ in plan.loops:
        if loop_.alternating:
            done = [0] * len(loop_.step.parts)
            for number in loop_.step.order:
                run(loop_.step.parts[number], done[number])
                done[number] += 1
            continue
        inside = {k for start, stop in loop_.runs for k in range(start, stop)}
        for k in range(loop_.length):
            if k not in inside:
                for turns in loop_.turns:
                    if turns.first <= k < turns.stop:
                        run(turns.part, int(turns.places(k)))
                continue
            for segment in loop_.segments:
                at = int(np.flatnonzero(segment.iterations == k)[0])
                symbols = np.array([x for _, x in segment.loads.values()], object)
                loads = [c[at] if c.dtype.kind == "f" else load(c[at])[0] for c, _ in segment.loads.values()]
                values = np.array([x for _, x in segment.stores.values()], object)
                line = Function("line", {"loads": symbols}, {"stores": values})
                store([c[at] for c, _ in segment.stores.values()], line(np.array(loads)))
    for j, (space, cells) in enumerate(zip(spaces[1 + len(arrays) :], results, strict=True)):
        away = plan.space[cells] != 1 + len(arrays) + j
        space[away] = load(cells[away])
    return [
        x.reshape(c.shape) for x, c in zip(spaces[1 + len(arrays) :], program.outputs.values(), strict=True)
    ]


@settings(max_examples=40)
@given(st.integers(0, 10**6))
@example(438)
def test_passes_that_share_loops_and_places_compute_what_they_do_one_by_one(seed):
    program = random_program(seed)
    arrays = samples(program)
    for y, e in zip(scheduled(program, arrays), compile_numpy(program)(*arrays), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-10, atol=1e-10)


# one loop; short loops and turns; straight lines between single iterations; two straight lines in a row
@pytest.mark.parametrize("seed", [0, 2, 16, 438])
@pytest.mark.many
def test_loops_of_several_passes_are_printed_as_they_are_scheduled(seed):
    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    program = random_program(seed)
    for batch in ((), (70,)):
        arrays = samples(program, *batch)
        for y, e in zip(Kernel(program)(*arrays), compile_numpy(program)(*arrays), strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-10, atol=1e-10)


def sweeps(n):
    """Values of each place, out to a sum along them, and back."""
    program = Program("sweeps", {"x": n})
    x = program.cells("x")
    pairs, single = program.apply(MIX, x, np.roll(x, 1), 0.5)
    again, _ = program.apply(MIX, pairs[:, 0], single, 0.25)
    s = program.zeros(n + 1)
    program.apply(STEP, s[:-1], again[:, 1], into=s[1:])
    back = program.empty(n + 1)
    program.apply(ADD, x[0], 1.0, into=back[0])
    program.apply(STEP, back[:-1], s[::-1][:-1], into=back[1:])
    program.output("back", back)
    return program


def test_passes_share_a_loop_where_their_order_lets_them():
    plan = Schedule(sweeps(50), [np.arange(0)])
    assert [[turns.part.places for turns in loop_.turns] for loop_ in plan.loops] == [[50, 50, 50, 1], [50]]
    assert [turns.first for turns in plan.loops[0].turns[:3]] == [0, 0, 0]


def test_values_that_do_not_outlive_a_loop_take_no_memory():
    def size(n):
        program = sweeps(n)
        return Schedule(program, [program.positions(program.outputs["back"])]).size

    assert size(200) - size(100) == 100  # s alone, of five values per place
    assert len(callable_c99(sweeps(100))) == pytest.approx(len(callable_c99(sweeps(400))), abs=60)


def test_a_function_without_arguments_fills_its_places(way):
    program = Program("filled", {"x": 3})
    cells = program.empty((3, 2))
    program.apply(trace(lambda: np.array([2.0, -1.0]), {}, "fill"), into=cells)
    program.output("y", program.apply(ADD, program.cells("x"), cells[:, 1]))
    program.output("cells", cells)
    x = np.random.default_rng(0).standard_normal((70, 3))
    y, filled = Kernel(program)(x)
    np.testing.assert_array_equal(y, x - 1)
    np.testing.assert_array_equal(filled, np.broadcast_to([2.0, -1.0], (70, 3, 2)))


def test_what_has_no_entries_is_printed(way):
    """Constants, inputs, places, arguments and outputs of size zero."""
    program = Program("nothing", {"x": 3, "none": 0})
    program.constants(np.zeros(0))
    total = trace(lambda a, e: np.concatenate([a, e]), {"a": 2, "e": 0}, "total")
    y = program.apply(total, program.cells("x")[:2], program.constants(np.zeros((0,))))
    empty = program.apply(total, np.zeros((0, 2), int), program.cells("none"))
    program.alternate(
        [0], [Call(ADD, (y[0], 1.0), y[0]), Call(ADD, (program.cells("x")[:0], program.cells("x")[:0]))]
    )
    program.output("y", y)
    program.output("nowhere", empty)
    x = np.arange(3.0)
    found = Kernel(program)(x, np.zeros(0))
    np.testing.assert_array_equal(found[0], [1, 1])
    assert found[1].shape == (0, 2)
    assert "void nothing(" in callable_c99(program)


# -- flows ---------------------------------------------------------------------------------------------------

BODIES = 12
GROUP = Product(*[SO3] * BODIES)
POINT = 4 * BODIES


def programs(springs=True):
    """A ring of bodies that turn: field, advance and pull of velocities (no state of momenta)."""
    joined = trace(
        lambda t, q, next_, u: u + scalars.sin(t) * next_[1:] * q[0] - 0.2 * q[1:],
        {"t": (), "q": 4, "next": 4, "u": 3},
        "joined",
    )
    field = Program("field", {"t": (1,), "y": POINT, "u": 3})
    q = field.cells("y").reshape(BODIES, 4)
    f = field.apply(joined, field.cells("t")[0], q, np.roll(q, 1, axis=0), field.cells("u"))
    field.output("f", f.ravel())
    advance = Program("advance", {"y": POINT, "psi": 3 * BODIES})
    moved = trace(lambda q, psi: SO3.normalize(SO3.integrate(q, psi)), {"q": 4, "psi": 3}, "moved")
    z = advance.apply(moved, advance.cells("y").reshape(-1, 4), advance.cells("psi").reshape(-1, 3))
    advance.output("z", z.ravel())
    pull = Program("pull", {"psi": 3 * BODIES, "f": 3 * BODIES})
    pulled = trace(lambda psi, f: SO3.dexp_inverse_times(-psi, f), {"psi": 3, "f": 3}, "pulled")
    k = pull.apply(pulled, pull.cells("psi").reshape(-1, 3), pull.cells("f").reshape(-1, 3))
    pull.output("k", k.ravel())
    after = Program("after", {"t": (1,), "y": POINT, "u": 3})
    held = trace(
        lambda t, q, u: SO3.normalize(np.array([q[0], q[1], q[2], q[3] * (1 - 0.1 * u[0] ** 2) + 0.01 * t])),
        {"t": (), "q": 4, "u": 3},
        "held",
    )
    y = after.apply(
        held, after.cells("t")[0], after.cells("y").reshape(-1, 4)[: BODIES // 2], after.cells("u")
    )
    after.output("y", np.concatenate([y.ravel(), after.cells("y")[POINT // 2 :]]))
    return field, advance, pull, after


def make(parts, after=False, method="rkmk45"):
    method = tableau(method)
    field, advance, pull, projection = (functools.partial(lambda x: x, part) for part in parts)
    return Flow(
        field, advance, pull, coefficients(method), rigid=3 * BODIES,
        after=projection if after else None,
    )  # fmt: skip


def integrate(f, n, controlled=False, threads=1):
    rng = np.random.default_rng(3)
    y = np.stack([GROUP.random(rng) for _ in range(n)])
    u = Samples(rng.standard_normal((n, 5, 3)), interval=0.2, linear=True)
    record, failed = np.full((n, 6, POINT), np.nan), np.zeros(n, np.int64)
    if controlled:
        members = Ensemble(y, 0.1 * np.arange(1, 8), 0.02)
        f.march(members, u, 7, Settings(1e-6, 1e-6), threads)
        assert not members.ends.any()
        y, record = members.y, members.record[:, 1:]
    else:
        f.steps(y, u, 0.1, 0.02, 12, 2, record, 0, failed, threads)
    assert not failed.any()
    np.testing.assert_array_equal(record[:, -1], y)
    return record


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("n", [1, 11])
@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.many
def test_a_flow_of_programs_is_the_flow_of_their_graphs(way, n, after, controlled):
    parts = programs()
    rolled = integrate(make(parts, after), n, controlled, threads=2)
    flat = integrate(make([part.unroll() for part in parts], after), n, controlled)
    np.testing.assert_allclose(rolled, flat, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("controlled", [False, True])
def test_what_follows_a_step_sees_its_end(way, n, controlled, linear):
    """y' = 0 and `after` takes the time and the efforts of the end of each step into the state.

    Efforts that are held are still those of the step.
    """
    from liebody.groups import R

    parts = (
        trace(lambda t, y, u: 0 * y, {"t": (), "y": 2, "u": 1}, "field"),
        trace(lambda y, psi: R(2).integrate(y, psi), {"y": 2, "psi": 2}, "advance"),
        trace(lambda psi, f: f, {"psi": 2, "f": 2}, "pull"),
        trace(lambda t, y, u: np.array([t, y[1] + u[0]]), {"t": (), "y": 2, "u": 1}, "after"),
    )
    field, advance, pull, after = (functools.partial(lambda x: x, part) for part in parts)
    f = Flow(field, advance, pull, coefficients(tableau("rkmk45")), after=after)
    y, u = np.zeros((n, 2)), Samples(np.arange(7.0).reshape(1, 7, 1), linear=linear)
    record, failed = np.full((n, 6, 2), np.nan), np.zeros(n, np.int64)
    if controlled:
        members = Ensemble(y, np.arange(7.0), 5.0)
        f.march(members, u, 7, Settings(1e-6, 1e-6))
        record = members.record[:, 1:]
    else:
        f.steps(y, u, 0.0, 1.0, 6, 1, record, 0, failed)
    expected = [[t, t * (t + 1) / 2 - (0 if linear else t)] for t in range(1, 7)]
    for member in record:
        np.testing.assert_allclose(member, expected, rtol=1e-15)


def test_a_state_lost_after_a_step_is_marked(way):
    parts = programs()
    lost = trace(
        lambda t, y, u: y * scalars.where(t > 0.31, np.nan, 1.0), {"t": (), "y": POINT, "u": 3}, "lost"
    )
    for controlled in (False, True):
        f = make([*parts[:3], lost], after=True)
        record, failed = np.full((2, 6, POINT), np.nan), np.zeros(2, np.int64)
        y = np.stack([GROUP.neutral()] * 2)
        u = np.zeros((1, 1, 3))
        if controlled:
            members = Ensemble(y, 0.1 * np.arange(5), 0.1)
            f.march(members, u, 5, Settings(1e-6, 1e-6))
            record, failed = members.record[:, 1:], members.clock["row"] * (members.ends[:, 1] > 0)
        else:
            f.steps(y, u, 0.0, 0.05, 8, 2, record, 0, failed)
        assert failed.tolist() == [4, 4]
        assert np.isfinite(record[:, :3]).all()


def test_text_of_a_flow_does_not_grow_with_the_bodies():
    def size(parts):
        method = coefficients(tableau("rk4"))
        return len(explicit_source(FlowFunctions(*parts), method, 4))

    parts = programs()
    assert size(parts) < size([part.unroll() for part in parts])


@pytest.mark.parametrize("n", [1, 11])
def test_numbers_below_the_normal_ones_are_zero_in_a_flow_and_nowhere_else(n):
    from liebody.groups import R

    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    parts = (
        trace(lambda t, y, u: 0 * y, {"t": (), "y": 2, "u": 0}, "field"),
        trace(lambda y, psi: R(2).integrate(y, psi), {"y": 2, "psi": 2}, "advance"),
        trace(lambda psi, f: f, {"psi": 2, "f": 2}, "pull"),
        trace(lambda t, y, u: y * np.array([1e-10, 2.0]), {"t": (), "y": 2, "u": 0}, "after"),
    )
    field, advance, pull, after = (functools.partial(lambda x: x, part) for part in parts)
    f = Flow(field, advance, pull, coefficients(tableau("rk4")), after=after)
    y, record, failed = np.full((n, 2), 1e-300), np.zeros((n, 1, 2)), np.zeros(n, np.int64)
    f.steps(y, np.zeros((1, 1, 0)), 0.0, 1.0, 1, 1, record, 0, failed)
    np.testing.assert_array_equal(y, np.broadcast_to([0, 2e-300], (n, 2)))
    assert np.float64(1e-300) * np.float64(1e-10) > 0


def test_what_is_hoisted_out_of_a_loop_changes_no_result():
    """Results of the loop that are constants, inputs, or common; a common condition."""

    def along(x, d):
        common = scalars.sin(x[0]) * x
        moved = scalars.where(x[1] > 0, common[:2] * d[0], d - common[0])
        for _ in range(3):
            moved = moved * moved + common[1]
        return {"common": common, "moved": np.concatenate([moved, d, [2.0, x[2], common[0]]])}

    program = Program("hoisted", {"x": 3})
    directions = np.random.default_rng(0).normal(size=(4, 2))
    function = trace(along, {"x": 3, "d": 2})
    for key, cells in zip(
        ("common", "moved"),
        hoisting.apply_hoisted(program, function, {"d": directions}, [program.cells("x")]),
        strict=True,
    ):
        program.output(key, cells)
    for x in np.random.default_rng(1).normal(size=(5, 3)):
        common, moved = compile_numpy(program)(x)
        for row, d in zip(moved, directions, strict=True):
            np.testing.assert_allclose(row, along(x, d)["moved"], rtol=1e-14)
        np.testing.assert_allclose(common, along(x, directions[0])["common"], rtol=1e-14)
        np.testing.assert_allclose(program.unroll()(x)[1], moved, rtol=1e-14)
    text = sum((part.function.operations for step in program.passes for part in step.parts), Counter())
    once = function.operations
    assert all(text[op] == once[op] for op in once if op != "lt")  # which is no number, and so no cell
