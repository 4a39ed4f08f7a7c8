"""Calls of robots with arrays of float32: results stay float32, and are those of float64 to round-off."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ConfigurationError, ShapeError
from liebody.compiler import Kernel, trace
from liebody.compiler.native.kernel import InSingle

EPS = float(np.finfo(np.float32).eps)
CALLS = {
    "inverse_dynamics": ("q", "v", "a"),
    "forward_dynamics": ("q", "v", "tau"),
    "mass_matrix": ("q",),
    "coriolis_matrix": ("q", "v"),
    "gravity": ("q",),
    "kinetic_energy": ("q", "v"),
    "poses": ("q",),
    "integrate": ("q", "v"),
}


def states(robot, *batch):
    """Arrays of each kind, in float32."""
    rng = np.random.default_rng(0)
    velocities = rng.normal(size=(3, *batch, robot.nv)).astype(np.float32)
    q = robot.random(rng, batch).astype(np.float32)
    return {"q": q, **dict(zip(("v", "a", "tau"), velocities, strict=True))}


@pytest.fixture(scope="module", params=["puma560", "revolute_hopper"])
def robot(request):
    """An arm, and a robot that floats."""
    return lb.load(request.param)


@pytest.mark.parametrize("batch", [(), (3,), (5, 8)])
@pytest.mark.parametrize("name", CALLS)
def test_float32_stays_float32_and_agrees(robot, name, batch):
    given = states(robot, *batch)
    arrays = [given[key] for key in CALLS[name]]
    result = getattr(robot, name)(*arrays)
    exact = getattr(robot, name)(*(x.astype(float) for x in arrays))
    assert result.dtype == np.float32 and exact.dtype == np.float64
    assert np.shape(result) == np.shape(exact)
    # A few hundred operations, each with an error of EPS / 2 relative to the largest value on the way.
    np.testing.assert_allclose(result, exact, rtol=0, atol=200 * EPS * max(np.abs(exact).max(), 1))


@pytest.mark.parametrize("order", [(np.float32, np.float64), (np.float64, np.float32)])
def test_types_do_not_depend_on_which_was_called_first(order):
    robot = lb.load("puma560")
    given = states(robot, 16)
    for dtype in (*order, *order):
        arrays = [given[key].astype(dtype) for key in ("q", "v", "a")]
        for rows in (slice(None), 3):
            assert robot.inverse_dynamics(*(x[rows] for x in arrays)).dtype == dtype
            assert robot.poses(arrays[0][rows]).dtype == dtype
            assert robot.pose(arrays[0][rows], frame="tool").dtype == dtype


def test_other_types_do_not_lose_digits(robot):
    x = states(robot)
    q, v, a = x["q"], x["v"], x["a"]
    for others in [
        (q.astype(float), v, a),
        (q, v, a.astype(float)),
        (q, v, np.zeros(robot.nv, int)),
        (q, list(v), a),
        (list(q), list(v), list(a)),
        (q, v.astype(np.float16), a),
    ]:
        result = robot.inverse_dynamics(*others)
        assert result.dtype == np.float64
        wide = [np.asarray(y, float) for y in others]
        np.testing.assert_array_equal(result, robot.inverse_dynamics(*wide))


def test_arrays_for_results_take_either_type(robot):
    x = states(robot, 20)
    q, v, a = x["q"], x["v"], x["a"]
    expected = robot.inverse_dynamics(q, v, a)
    for dtype in (np.float32, np.float64):
        out = np.empty((20, robot.nv), dtype)
        assert robot.inverse_dynamics(q, v, a, out=out) is out
        np.testing.assert_array_equal(out, expected)
    a[:] = expected
    assert robot.inverse_dynamics(q, v, a, out=a) is a  # results over inputs
    np.testing.assert_array_equal(a, robot.inverse_dynamics(q, v, expected))


def test_strides_broadcasting_and_threads(robot):
    x = states(robot, 40)
    q, v, a = x["q"], x["v"], x["a"]
    expected = robot.inverse_dynamics(q, v, a)
    np.testing.assert_array_equal(robot.inverse_dynamics(q[::2], v[::2], a[::2]), expected[::2])
    np.testing.assert_array_equal(robot.inverse_dynamics(q, v, a, threads=3), expected)
    wide = np.repeat(v, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(robot.inverse_dynamics(q, wide, a), expected)
    one = robot.inverse_dynamics(q, v[0], a[0])
    np.testing.assert_array_equal(one[0], expected[0])
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: robot.inverse_dynamics(q, v, a), range(40)):
            np.testing.assert_array_equal(result, expected)


def test_options_and_optional_arrays(robot):
    x = states(robot, 9)
    wrenches = np.ones((len(robot.tree.bodies), 6), np.float32)
    result = robot.inverse_dynamics(x["q"], x["v"], x["a"], wrenches)
    assert result.dtype == np.float32
    assert robot.inverse_dynamics(x["q"], x["v"], x["a"], wrenches.astype(float)).dtype == np.float64
    for form in ("christoffel", "ploen"):
        C = robot.coriolis_matrix(x["q"], x["v"], form=form)
        np.testing.assert_allclose(
            C, robot.coriolis_matrix(x["q"].astype(float), x["v"].astype(float), form=form), atol=1e-4
        )
        assert C.dtype == np.float32


def test_values_of_parameters_are_converted():
    robot = lb.load("puma560").with_parameters("link6.mass")
    x = states(robot, 12)
    q, v, a = x["q"], x["v"], x["a"]
    masses = np.linspace(0.1, 1, 12)
    for values in (None, {"link6.mass": masses}, {"link6.mass": 0.5}):
        for _ in range(2):  # the second call takes the entry
            result = robot.inverse_dynamics(q, v, a, parameters=values)
            assert result.dtype == np.float32
            exact = robot.inverse_dynamics(*(y.astype(float) for y in (q, v, a)), parameters=values)
            np.testing.assert_allclose(result, exact, rtol=0, atol=200 * EPS * np.abs(exact).max())


def test_derivatives_and_several_results(robot):
    x = states(robot, 10)
    wide = [x[key].astype(float) for key in ("q", "v", "a")]
    jacobians = robot.derivatives("inverse_dynamics", ("q", "v"))
    for J, exact in zip(jacobians(x["q"], x["v"], x["a"]), jacobians(*wide), strict=True):
        assert (J.dtype, exact.dtype) == (np.float32, np.float64)
        np.testing.assert_allclose(J, exact, rtol=0, atol=500 * EPS * np.abs(exact).max())
    for result in robot.mass_and_coriolis(x["q"], x["v"]):
        assert result.dtype == np.float32
    chosen = robot.derivatives("inverse_dynamics", "q", dtype=np.float64)
    assert chosen(x["q"], x["v"], x["a"]).dtype == np.float64
    assert robot.kernel("gravity", np.float32)(wide[0]).dtype == np.float32
    assert robot.kernel("gravity", np.float64)(x["q"]).dtype == np.float64


def test_errors_name_what_was_given():
    robot = lb.models.free_rigid_body()
    q, v = robot.neutral().astype(np.float32), np.zeros(robot.nv, np.float32)
    q[0] = 1 + 8e-7  # round-off of float32
    assert robot.bias(q, v).dtype == np.float32
    q[0] = 1.5
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"norm 1\.5"):
            robot.bias(q, v)
    with pytest.raises(ShapeError, match="v has shape"):
        robot.bias(robot.neutral().astype(np.float32), v[1:])


def test_robots_and_kernels_of_both_types_are_pickled(robot):
    x = states(robot, 10)
    expected = robot.mass_matrix(x["q"])
    for thing in (robot, pickle.loads(pickle.dumps(robot))):
        np.testing.assert_array_equal(thing.mass_matrix(x["q"]), expected)
    kernel = pickle.loads(pickle.dumps(robot.kernel("mass_matrix")))
    np.testing.assert_array_equal(kernel(x["q"]), expected)


def test_plain_kernels_have_the_type_that_they_were_made_for():
    f = trace(lambda x: np.sin(x), {"x": 3})
    x = np.ones(3, np.float32)
    assert Kernel(f)(x).dtype == np.float64
    both = Kernel(f, single=InSingle(lambda: Kernel(f, np.float32)))
    assert [both(y).dtype for y in (x, x.astype(float))] == [np.float32, np.float64]


def test_scalars_and_lists_of_float32_kernels():
    f = trace(lambda s, x: (s * x.sum(), x), {"s": (), "x": 2}, "scaled")
    kernel = Kernel(f, np.float32)
    for s in (0.5, np.float32(0.5), np.float64(0.5), np.array(0.5, np.float32)):
        for x in ([1.0, 2.0], np.array([1, 2], np.float32), np.array([1.0, 2.0])):
            total, same = kernel(s, x)
            assert total == 1.5 and total.dtype == np.float32
            assert same.dtype == np.float32 and list(same) == [1, 2]
