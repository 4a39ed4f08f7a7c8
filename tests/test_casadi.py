"""Compiled functions in CasADi: values, Jacobians with their sparsity, Hessians are those of expressions."""

from __future__ import annotations

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import CompilerError, GraphError, ModelError, ShapeError
from liebody.compiler import to_casadi, to_casadi_external, trace
from liebody.compiler.native import build
from liebody.scalars import cos, sin

casadi = pytest.importorskip("casadi", reason="the test extra `casadi` is not installed")


def mixed(A, x, s, unused):
    """Matrices, vectors, numbers; results that are constant, zero, inputs, and of one input alone."""
    B = A.T * s
    return {
        "y": A @ sin(x),
        "B": np.array([[B[0, 0], 0.0], [x[2], B[1, 1] * B[0, 1]], [cos(s), 2.0]]),
        "s_out": s,
        "none": np.zeros(2),
    }


@pytest.fixture(scope="module")
def function():
    return trace(mixed, {"A": (2, 3), "x": 3, "s": (), "unused": 2}, "mixed")


@pytest.fixture(scope="module")
def pair(function):
    return to_casadi_external(function), to_casadi(function)


@pytest.fixture
def point():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(), rng.normal(size=2)


def test_values_and_names_are_those_of_expressions(function, pair, point):
    compiled, expressions = pair
    assert (compiled.name_in(), compiled.name_out()) == (expressions.name_in(), expressions.name_out())
    for found, expected in zip(compiled(*point), function(*point), strict=True):
        np.testing.assert_allclose(found.full().ravel(), np.ravel(expected), atol=1e-15)
    np.testing.assert_allclose(compiled(*point)[1].full(), function(*point)[1], atol=1e-15)
    only = compiled(A=point[0], x=point[1])["y"]  # what is not given is zero
    np.testing.assert_allclose(only.full()[:, 0], point[0] @ np.sin(point[1]), atol=1e-15)


def test_jacobians_are_those_of_expressions_with_the_same_zeros(pair, point):
    compiled, expressions = (f.jacobian() for f in pair)
    given = [*point, *(f.full() for f in pair[1](*point))]
    for k, (found, expected) in enumerate(zip(compiled(*given), expressions(*given), strict=True)):
        np.testing.assert_allclose(found.full(), expected.full(), atol=1e-15)
        assert compiled.sparsity_out(k) == expressions.sparsity_out(k)


def test_hessians_of_products_are_those_of_expressions(pair, point):
    found = []
    for f in pair:
        x = [casadi.MX.sym(f.name_in(k), *f.size_in(k)) for k in range(f.n_in())]
        y = f(*x)
        total = casadi.sum1(casadi.sin(y[0])) + y[2] * casadi.sumsqr(y[1])
        H, gradient = casadi.hessian(total, casadi.veccat(*x))
        found.append([m.full() for m in casadi.Function("H", x, [H, gradient])(*point)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
    assert np.abs(found[0][0]).max() > 0.1


def test_maps_over_threads_are_columns(pair, point):
    compiled, rng = pair[0], np.random.default_rng(1)
    x = rng.normal(size=(3, 20))
    found = compiled.map(20, "thread", 2)(
        *(
            np.tile(np.reshape(p, (len(np.atleast_1d(p)), -1)), 20) if k != 1 else x
            for k, p in enumerate(point)
        )
    )[0]
    np.testing.assert_allclose(found.full(), point[0] @ np.sin(x), atol=1e-15)


def test_a_robot_gives_expressions_or_compiled_functions_by_their_size():
    robot, small = lb.models.puma560(), lb.models.double_pendulum()
    f, g = robot.to_casadi("forward_dynamics", order=0), small.to_casadi("inverse_dynamics")
    assert f.class_name() == "External" and g.class_name() == "SXFunction"
    q, v, tau = np.random.default_rng(2).normal(size=(3, 6))
    np.testing.assert_allclose(f(q, v, tau).full()[:, 0], robot.forward_dynamics(q, v, tau), rtol=1e-11)
    pose = small.to_casadi("pose", compiled=False, frame="link2")
    np.testing.assert_allclose(pose(q[:2]).full(), small.pose(q[:2], frame="link2"), atol=1e-15)
    free = small.with_parameters("link1.mass").to_casadi("kinetic_energy")
    assert abs(free(q[:2], v[:2], 1.0) - small.kinetic_energy(q[:2], v[:2])) < 1e-15


def test_functions_of_nothing_and_names_of_c_are_compiled():
    constant = to_casadi_external(trace(lambda: np.array([1.0, 2.0]), {}, "constant"))
    np.testing.assert_array_equal(constant()["constant"].full()[:, 0], [1.0, 2.0])
    assert to_casadi_external(trace(lambda x: x, {"x": 0}, "empty"))(np.zeros((0, 1))).shape == (0, 1)
    double = to_casadi_external(trace(lambda x: 2.0 * x, {"x": 1}, "double"))
    assert double.name() == "double_" and float(double(3.0)) == 6.0
    assert float(double.jacobian()(3.0, 6.0)) == 2.0


def test_what_casadi_cannot_take_is_said(function, monkeypatch):
    with pytest.raises(ModelError, match="no function 'torque'"):
        lb.models.double_pendulum().to_casadi("torque")
    with pytest.raises(ShapeError, match="no arrays of 3 axes"):
        to_casadi_external(trace(lambda x: np.ones((2, 2, 2)) * x, {"x": ()}, "cube"), order=0)
    with pytest.raises(GraphError, match="order 3, expected 0, 1 or 2"):
        to_casadi_external(function, order=3)
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    with pytest.raises(CompilerError, match="no C compiler"):
        to_casadi_external(function)
