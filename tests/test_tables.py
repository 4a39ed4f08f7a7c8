"""Tables in traced functions: `interp` and look-ups, in every printer, and tables that are parameters."""

import copy
import gc
import itertools
import pickle

import numpy as np
import pytest
from native import compiled_c99
from scipy.interpolate import CubicSpline

import liebody as lb
from liebody.base.errors import ArgumentError, ConfigurationError, GraphError, ModelError, ShapeError
from liebody.bodies import TreeBuilder
from liebody.bodies.inertia import SpatialInertia
from liebody.compiler import Kernel, Program, jacobian, to_casadi, to_sympy, trace
from liebody.compiler.native import libraries
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.compiler.programs.repeats import repeated, traced
from liebody.groups import R, Revolute
from liebody.hybrid import HybridSystem
from liebody.hybrid.variations import VariedSystem
from liebody.runs import Run
from liebody.scalars import Table, interp, lookup
from liebody.scalars.tables import table_at

EVEN = np.linspace(-1.0, 3.0, 9)
UNEVEN = np.array([-1.0, -0.25, 0.5, 0.75, 2.0, 3.0])
GRIDS = pytest.mark.parametrize(
    "x", [EVEN, UNEVEN, UNEVEN[:2], UNEVEN[2:5]], ids=["even", "uneven", "2", "3"]
)
QUERIES = np.concatenate([np.linspace(-3, 5, 161), EVEN, UNEVEN, [np.inf, -np.inf]])
MAP = np.random.default_rng(1).normal(size=(9, 6))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def polynomial(x, degree=3):
    return sum((k - 1.5) * x**k for k in range(degree + 1))


# -- values -------------------------------------------------------------------------------------------------


@GRIDS
def test_linear_is_numpy_interp(x, rng):
    y = rng.normal(size=len(x))
    np.testing.assert_allclose(interp(QUERIES, x, y), np.interp(QUERIES, x, y), rtol=0, atol=1e-15)


@GRIDS
@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_values_at_points_are_the_given_ones(x, kind, rng):
    y = rng.normal(size=len(x))
    np.testing.assert_allclose(interp(x, x, y, kind), y, rtol=0, atol=1e-14)
    table = rng.normal(size=(len(x), len(UNEVEN)))
    at = np.meshgrid(x, UNEVEN, indexing="ij")
    np.testing.assert_allclose(interp(at, (x, UNEVEN), table, kind), table, rtol=0, atol=1e-14)


@pytest.mark.parametrize("x", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_a_cubic_is_reproduced_and_goes_on_outside(x):
    inside = QUERIES[np.isfinite(QUERIES)]
    y = interp(inside, x, polynomial(x), "cubic", outside="extend")
    np.testing.assert_allclose(y, polynomial(inside), rtol=1e-13, atol=1e-12)
    held = interp(inside, x, polynomial(x), "cubic")
    np.testing.assert_allclose(held, polynomial(np.clip(inside, x[0], x[-1])), rtol=1e-13, atol=1e-12)


@GRIDS
def test_cubics_are_the_splines_of_scipy(x, rng):
    y = rng.normal(size=len(x))
    inside = QUERIES[np.isfinite(QUERIES)]
    kinds = (
        {"extend": CubicSpline(x, y)}
        if len(x) > 2
        else {"extend": lambda q: np.polyval(np.polyfit(x, y, 1), q)}
    )
    np.testing.assert_allclose(
        interp(inside, x, y, "cubic", outside="extend"), kinds["extend"](inside), rtol=1e-11, atol=1e-12
    )
    y[-1] = y[0]
    around = interp(inside, x, y, "cubic", periodic=True)
    np.testing.assert_allclose(around, CubicSpline(x, y, bc_type="periodic")(inside), rtol=1e-11, atol=1e-12)


def test_periodic_values_repeat(rng):
    y = rng.normal(size=6)
    y[-1] = y[0]
    for kind in ("linear", "cubic"):
        first = interp(QUERIES[:161], UNEVEN, y, kind, periodic=True)
        np.testing.assert_allclose(
            first, interp(QUERIES[:161] + 12, UNEVEN, y, kind, periodic=True), atol=1e-12
        )
    map_ = rng.normal(size=(9, 6))
    map_[-1] = map_[0]
    both = interp((EVEN + 0.3, UNEVEN[:1] + 0.1), (EVEN, UNEVEN), map_, periodic=(True, False))
    again = interp((EVEN + 4.3, UNEVEN[:1] + 0.1), (EVEN, UNEVEN), map_, periodic=(True, False))
    np.testing.assert_allclose(both, again, atol=1e-14)


def test_over_two_axes_products_are_reproduced():
    x, y = np.random.default_rng(3).uniform(-1, 3, (2, 200))
    A, B = np.meshgrid(EVEN, UNEVEN, indexing="ij")
    bilinear = interp((x, y), (EVEN, UNEVEN), 2 - A + 3 * B + 0.5 * A * B)
    np.testing.assert_allclose(bilinear, 2 - x + 3 * y + 0.5 * x * y, atol=1e-13)
    bicubic = interp((x, y), (EVEN, UNEVEN), polynomial(A) * polynomial(B, 2) + B**3, "cubic")
    np.testing.assert_allclose(bicubic, polynomial(x) * polynomial(y, 2) + y**3, atol=1e-11)


def test_nan_gives_nan_and_no_other_value():
    for kind, options in itertools.product(
        ("linear", "cubic"), ({}, {"outside": "extend"}, {"periodic": True})
    ):
        y = interp([0.5, np.nan, 1.0], UNEVEN, np.ones(6), kind, **options)
        np.testing.assert_array_equal(np.isnan(y), [False, True, False])
    assert np.isnan(interp((0.0, np.nan), (EVEN, UNEVEN), MAP))


# -- traced -------------------------------------------------------------------------------------------------


def maps(x):
    """One entry for each kind of table; the points are even and uneven."""
    y = np.array([1.0, 3.0, -1.0, 2.0, 0.5, 1.0])
    return np.array(
        [
            interp(x[0], UNEVEN, y),
            interp(x[0], UNEVEN, y, "cubic", outside="extend"),
            interp(x[0], UNEVEN, y, "cubic", periodic=True),
            interp((x[0], x[1]), (EVEN, UNEVEN), MAP),
            interp((x[0], x[1]), (EVEN, UNEVEN), MAP, "cubic"),
        ]
    )


@pytest.fixture(scope="module")
def traced_maps():
    return trace(maps, {"x": 2}, "maps")


@pytest.fixture(scope="module")
def states():
    x = np.random.default_rng(2).uniform(-2, 4, (101, 2))
    x[:9, 0] = EVEN
    x[9] = np.nan
    return x


def test_kernels_sources_and_files_have_the_values_of_floats(traced_maps, states, tmp_path):
    expected = np.array([maps(x) for x in states])
    np.testing.assert_allclose(Kernel(traced_maps)(states), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(Kernel(traced_maps)(states[3]), expected[3], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(compile_numpy(traced_maps)(states), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(compile_numpy(traced_maps)(states[11]), expected[11])
    restored = pickle.loads(pickle.dumps(traced_maps))
    np.testing.assert_array_equal(restored(states[11]), expected[11])
    assert restored.form == traced_maps.form
    single = Kernel(traced_maps, np.float32)(states.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=2e-4, atol=2e-4)
    in_c = compiled_c99(traced_maps, tmp_path, piece=40)
    np.testing.assert_allclose([in_c(x)[0] for x in states], expected, rtol=1e-13, atol=1e-13)


def test_casadi_and_jax_have_the_values_of_floats(traced_maps, states):
    pytest.importorskip("casadi")
    for sx in (True, False):
        call = to_casadi(traced_maps, sx)
        for x in states[10:14]:
            np.testing.assert_allclose(call(x).full()[:, 0], maps(x), rtol=1e-12)
    jax = pytest.importorskip("jax")
    import liebody.interop.jax as bridge

    with jax.enable_x64(True):
        function = bridge.function(traced_maps)
        np.testing.assert_allclose(function(states[10]), maps(states[10]), rtol=1e-12)
        J = Kernel(jacobian(traced_maps, "x"))(states[10])
        np.testing.assert_allclose(jax.jacfwd(function)(states[10]), J, rtol=1e-12)
        np.testing.assert_allclose(jax.jacrev(function)(states[10]), J, rtol=1e-12)


def test_closed_forms_of_sympy_have_the_values_of_floats():
    sympy = pytest.importorskip("sympy")

    def periodic(x):
        return interp(x, EVEN, np.cos(np.pi / 2 * EVEN), periodic=True)

    x = sympy.Symbol("x", real=True)
    f = trace(periodic, {"x": ()}, "f")
    (form,), (slope,) = (to_sympy(y, {"x": x}).values() for y in (f, jacobian(f, "x")))
    assert "table" in sympy.latex(form)
    call = sympy.lambdify(x, form)
    for at in (-2.3, 0.1, 0.5, 7.7):
        assert float(form.subs(x, at)) == pytest.approx(periodic(at), abs=1e-14)
        assert call(at) == pytest.approx(periodic(at), abs=1e-14)
    exact = np.diff(np.cos(np.pi / 2 * EVEN))[2] / 0.5
    assert float(slope.subs(x, 0.1)) == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_derivatives_are_those_of_the_pieces(mode):
    x = np.random.default_rng(4).uniform(-1, 3, 50)
    spline = CubicSpline(UNEVEN, polynomial(UNEVEN, 5))
    for kind, slope in {
        "cubic": spline(x, 1),
        "linear": (np.diff(polynomial(UNEVEN, 5)) / np.diff(UNEVEN))[np.searchsorted(UNEVEN, x) - 1],
    }.items():
        f = trace(lambda x, kind=kind: interp(x, UNEVEN, polynomial(UNEVEN, 5), kind), {"x": ()}, "f")
        first = jacobian(f, "x", mode)
        np.testing.assert_allclose(Kernel(first)(x), slope, rtol=1e-10, atol=1e-10)
    second = jacobian(jacobian(f, "x"), "x", mode)
    np.testing.assert_allclose(Kernel(second)(x), 0.0, atol=1e-12)
    A, B = np.meshgrid(EVEN, UNEVEN, indexing="ij")
    f = trace(lambda x: interp(x, (EVEN, UNEVEN), polynomial(A) * B**2, "cubic"), {"x": 2}, "f")
    a, b = np.random.default_rng(5).uniform(-1, 3, (2, 50))
    slopes = np.stack([(-0.5 + a + 4.5 * a**2) * b**2, polynomial(a) * 2 * b], axis=-1)
    np.testing.assert_allclose(
        Kernel(jacobian(f, "x", mode))(np.stack([a, b], -1)), slopes, rtol=1e-9, atol=1e-9
    )


def test_at_a_point_the_derivative_is_that_to_the_right_and_held_ends_have_none():
    f = trace(lambda x: interp(x, [0.0, 1.0, 3.0], [0.0, 2.0, 0.0]), {"x": ()}, "f")
    slopes = Kernel(jacobian(f, "x"))([-1.0, 0.0, 0.5, 1.0, 3.0, 4.0])
    np.testing.assert_array_equal(slopes, [0, 0, 2, -1, 0, 0])


def test_repeats_with_tables_become_loops():
    @repeated
    def element(x):
        return interp(x, UNEVEN, np.arange(6.0) ** 2) * x

    def function(x):
        return sum(element(y) for y in x)

    program = traced(function, {"x": 40}, "total", loops=True)
    assert isinstance(program, Program)
    x = np.random.default_rng(6).uniform(-2, 4, (30, 40))
    expected = (np.interp(x, UNEVEN, np.arange(6.0) ** 2) * x).sum(axis=1)
    np.testing.assert_allclose(Kernel(program)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(Kernel(program)(x[0]), expected[0], rtol=1e-12)
    np.testing.assert_allclose(compile_numpy(program)(x), expected, rtol=1e-12)
    plain = traced(
        lambda x: function(x) + 2 * interp(x[0], UNEVEN, np.arange(6.0)), {"x": 40}, "t", loops=True
    )
    np.testing.assert_allclose(
        Kernel(plain)(x), expected + 2 * np.interp(x[:, 0], UNEVEN, np.arange(6.0)), rtol=1e-12
    )


def test_even_points_cost_the_same_for_any_number():
    counts = []
    for n in (4, 4000):
        f = trace(lambda x, n=n: interp(x, np.linspace(0, 1, n), np.zeros(n) + 1), {"x": ()}, "f")
        counts.append(f.length)
    assert counts[0] == counts[1] < 20


def test_what_does_not_fit_is_refused_with_its_remedy():
    y = np.arange(6.0)
    for call, error, words in (
        (lambda: interp(0.0, UNEVEN, y, "spline"), ArgumentError, "kind is 'spline', expected 'linear' or"),
        (
            lambda: interp(0.0, UNEVEN, y, outside="nan"),
            ArgumentError,
            "outside is 'nan', expected 'hold' or",
        ),
        (lambda: interp(0.0, UNEVEN[::-1], y), ConfigurationError, "expected increasing numbers; sort them"),
        (
            lambda: interp(0.0, [1.0], [1.0]),
            ShapeError,
            r"points has shape \(1,\), expected \(n,\), two or more",
        ),
        (
            lambda: interp(0.0, UNEVEN, y[:5]),
            ShapeError,
            r"values has shape \(5,\), expected \(6,\), one for",
        ),
        (
            lambda: interp(0.0, UNEVEN, y, periodic=True),
            ConfigurationError,
            "begin with 0.0, but end with 5.0",
        ),
        (
            lambda: interp(0.0, UNEVEN, y * np.nan),
            ConfigurationError,
            r"values\[0\] is nan, expected a finite",
        ),
        (lambda: interp((0.0, 0.0, 0.0), (EVEN, UNEVEN), MAP), ShapeError, "x has 3 and periodic has 2 axes"),
        (lambda: trace(lambda p: interp(0.5, UNEVEN, p), {"p": 6}), GraphError, "make them a parameter"),
        (lambda: trace(lambda p: interp(0.5, UNEVEN, p, "cubic"), {"p": ()}), GraphError, "give numbers"),
        (lambda: Table([]), ModelError, r"a table of shape \(0,\) has no values"),
        (lambda: table_at(1.0), ModelError, "no table at the address 1.0"),
    ):
        with pytest.raises(error, match=words):
            call()


# -- parameters ---------------------------------------------------------------------------------------------

SPRING = np.linspace(-5.0, 5.0, 5)
SPEEDS = np.array([1.0, 2.0, 0.5])
MAPS = -(SPEEDS[:, None] ** 2) * SPRING  # forces of springs
OPTIONS = {"t_end": 2.0, "dt": 1e-2, "record_every": 1e-2, "method": "rkmk8"}


def force(t, q, v, z, p):
    return np.array([interp(q[0], SPRING, p.map)])


def signals(*arguments):
    return {"push": force(*arguments)[0]}


def oscillator():
    """d2q/dt2 is the value of a map at q, and the map a parameter."""
    parameters = {"map": Table(MAPS[0])}
    return HybridSystem(R(1), force, parameters=parameters, outputs=signals, name="oscillator")


@pytest.fixture(scope="module")
def system():
    return oscillator()


def swung(t, speed):
    return np.cos(speed * t) + np.sin(speed * t) / speed


def test_each_member_may_have_a_table_of_its_own(system):
    start = np.ones((3, 1)), np.ones((3, 1))
    run = system.simulate(*start, parameters={"map": MAPS}, **OPTIONS)
    np.testing.assert_allclose(run.q[..., 0], swung(run.t, SPEEDS[:, None]), atol=1e-12)
    np.testing.assert_array_equal(run.parameters["map"], MAPS)
    tables = np.array([Table(y) for y in MAPS], object)
    again = system.simulate(*start, parameters={"map": tables}, **OPTIONS)
    np.testing.assert_array_equal(again.q, run.q)
    shared = system.simulate(*start, parameters={"map": MAPS[1]}, **OPTIONS)
    np.testing.assert_array_equal(shared.q, np.broadcast_to(run.q[1], run.q.shape))
    assert shared.parameters["map"].shape == (3, 5)


def test_tables_live_as_long_as_the_signals_that_read_them():
    mine = oscillator()
    run = mine.simulate([1.0], [1.0], parameters={"map": MAPS[1]}, **OPTIONS)
    default = mine.simulate([1.0], [1.0], **OPTIONS)
    del mine
    gc.collect()
    noise = [Table(np.random.default_rng(k).normal(size=5)) for k in range(100)]
    for speed, motion in ((2.0, run), (1.0, default)):
        np.testing.assert_allclose(motion.outputs["push"], -(speed**2) * motion.q[:, 0], atol=1e-13)
    assert len(noise) == 100


def test_steppers_and_runs_without_a_compiler_do_the_same(system, monkeypatch):
    sim = lb.stepper(system, dt=1e-2, members=3, method="rkmk8")
    given = {"map": MAPS}
    state = sim.start([1.0], [1.0])
    for _ in range(200):
        state = sim.step(state, given)
    np.testing.assert_allclose(state.q[:, 0], swung(2.0, SPEEDS), atol=1e-12)
    monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    options = {**OPTIONS, "t_end": 0.5, "parameters": given}
    slow = oscillator().simulate(np.ones((3, 1)), np.ones((3, 1)), **options)
    np.testing.assert_allclose(slow.q[..., 0], swung(slow.t, SPEEDS[:, None]), atol=1e-12)
    np.testing.assert_allclose(slow.outputs["push"], -(SPEEDS[:, None] ** 2) * slow.q[..., 0], atol=1e-12)


def test_states_of_steppers_keep_their_tables_also_in_copies(system):
    sim = lb.stepper(system, dt=1e-2, members=3, method="rkmk8")
    state = sim.step(sim.start([1.0], [1.0], {"map": MAPS}), {"map": MAPS})
    state = sim.reset(state, [1], [2.0], parameters={"map": MAPS[0]})
    copies = [pickle.loads(pickle.dumps(state)), copy.deepcopy(state)]
    expected = {name: x.copy() for name, x in [*state.parameters.items(), *state.outputs.items()]}
    np.testing.assert_array_equal(expected["map"], MAPS[[0, 0, 2]])
    del state
    gc.collect()
    noise = [Table(np.random.default_rng(k).normal(size=5)) for k in range(100)]
    for another in copies:
        for name, x in [*another.parameters.items(), *another.outputs.items()]:
            np.testing.assert_array_equal(x, expected[name], err_msg=name)
    assert len(noise) == 100


def test_a_saved_run_has_the_values_of_its_tables(system, tmp_path):
    pytest.importorskip("h5netcdf")
    run = system.simulate([1.0], [1.0], parameters={"map": MAPS[1]}, **OPTIONS)
    run.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(Run.load(tmp_path / "run.nc").parameters["map"], MAPS[1])


def test_tables_are_values_of_their_own():
    table = Table(MAP)
    assert table == Table(MAP.copy()) and hash(table) == hash(Table(MAP)) and table != Table(SPRING)
    assert copy.deepcopy(table) is table and pickle.loads(pickle.dumps(table)) == table
    assert table.shape == (9, 6) and (table.values == MAP).all()
    with pytest.raises(ValueError, match="read-only"):
        table.values[0, 0] = 1.0
    np.testing.assert_array_equal(lookup(table, [-5, 0, 53.9, 1e300, np.nan]), MAP.flat[[0, 0, 53, 53, 0]])
    np.testing.assert_array_equal(lookup(np.array([table.address, 0.0]), 7.0), [MAP.flat[7], 0.0])


def test_parameters_that_cannot_be_tables_are_refused(system):
    for given, error, words in (
        (
            {"parameters": {"map": np.ones(4)}},
            ShapeError,
            r"map has shape \(4,\), expected \(5,\), or \(..., 5\)",
        ),
        (
            {"parameters": {"map": [Table(np.ones(4))]}},
            ShapeError,
            r"a table has shape \(4,\), expected \(5,\)",
        ),
        ({"parameters": {"map": np.full(5, np.inf)}}, ConfigurationError, "expected a finite number"),
        ({"sampled": {"map": ([0, 1], MAPS[:2])}}, ConfigurationError, "cannot be sampled over time"),
    ):
        with pytest.raises(error, match=words):
            system.simulate([1.0], **OPTIONS, **given)
    with pytest.raises(ModelError, match="'map' is a table in memory, by which nothing is differentiated"):
        VariedSystem(system, ["map"])
    with pytest.raises(ModelError, match=r"give a liebody.scalars.Table instead of ndarray"):
        system.parameters.values({"map": SPRING}, ())


def test_texts_for_other_programs_refuse_the_addresses_of_this_one():
    f = trace(lambda p, x: lookup(p, x), {"p": (), "x": ()}, "f")
    table = Table(MAP)
    assert Kernel(f)(table.address, 7.0) == MAP.flat[7]
    assert Kernel(f)([table.address, 0.0], 7.0).tolist() == [MAP.flat[7], 0.0]  # idle lanes have no table
    with pytest.raises(GraphError, match="give its values as numbers while tracing"):
        _ = Kernel(f).source
    with pytest.raises(GraphError, match="single precision"):
        Kernel(f, np.float32)(np.ones((8, 1))[:, 0], np.ones(8))
    pytest.importorskip("sympy")
    with pytest.raises(ModelError, match="no closed form"):
        to_sympy(f)
    pytest.importorskip("casadi")
    with pytest.raises(ModelError, match="one that is a parameter"):
        to_casadi(f)
    with pytest.raises(ModelError, match="one of 5000 entries cannot"):
        to_casadi(trace(lambda x: lookup(Table(np.ones(5000)), x), {"x": ()}, "f"))


def test_implicit_methods_take_motor_maps():
    """tau = map(speed) of a pendulum: the motion is that of the polynomial which the map contains."""
    tree = TreeBuilder("arm").add("arm", Revolute([0, 1, 0]), SpatialInertia.point(1.0, [0, 0, -0.5])).build()
    speeds = np.linspace(-20, 20, 9)

    def by_map(t, q, v):
        return np.array([interp(v[0], speeds, 0.4 - 0.02 * speeds - 1e-4 * speeds**3, "cubic")])

    def by_formula(t, q, v):
        return 0.4 - 0.02 * v - 1e-4 * v**3

    options = {"t_end": 0.5, "dt": 1e-2, "method": "radau5"}
    runs = [lb.simulate(lb.Robot(tree), [0.3], tau=tau, **options) for tau in (by_map, by_formula)]
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-12)
