"""The table of algorithms: what a line of it makes, what the stub says of it, and entries of one's own."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import types
from pathlib import Path

import numpy as np
import pytest
from random_trees import random_tree

import liebody as lb
from liebody import dynamics
from liebody.base.errors import ModelError
from liebody.bodies import Frame
from liebody.compiler.native import build
from liebody.robot import Algorithm, kernels_of
from liebody.robot.reference import STUB, page, stub

needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
PAGE = Path(__file__).parents[1] / "docs" / "algorithms.md"
KEYWORDS = ("parameters", "out", "threads")
ALGORITHMS = {algorithm.name: algorithm for algorithm, _ in kernels_of(lb.Robot).values()}


@pytest.fixture
def robot():
    return lb.Robot(random_tree(np.random.default_rng(6), ["free", "revolute", "prismatic", "spherical"]))


def state(robot, shape=()):
    rng = np.random.default_rng(0)
    return robot.random(rng, shape), *rng.standard_normal((2, *shape, robot.nv))


# -- what editors and readers see ----------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "text"), [(STUB, stub), (PAGE, page)], ids=["stub", "page"])
def test_what_is_written_of_the_table_is_in_step_with_it(path, text):
    assert path.read_text(encoding="utf-8") == text(), "write it anew: python -m liebody.robot.reference"


def test_the_stub_has_the_methods_with_their_arguments_and_docstrings():
    (methods,) = (node.body for node in ast.parse(stub()).body if isinstance(node, ast.ClassDef))
    assert [method.name for method in methods] == list(ALGORITHMS)
    for method in methods:
        taken = method.args.args + method.args.kwonlyargs
        assert [x.arg for x in taken] == list(inspect.signature(getattr(lb.Robot, method.name)).parameters)
        assert ast.get_docstring(method) == inspect.getdoc(getattr(lb.Robot, method.name))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_a_function_of_dynamics_under_one_name(name):
    function = ALGORITHMS[name].function
    assert [x for x in dynamics.__all__ if getattr(dynamics, x) is function] == [function.__name__]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_method_takes_what_its_function_takes_but_for_what_the_robot_knows(name):
    method, function = getattr(lb.Robot, name), ALGORITHMS[name].function
    taken, given = inspect.signature(method).parameters, inspect.signature(function).parameters
    assert list(taken) == ["self", *(x for x in given if x not in ("tree", "gravity")), *KEYWORDS]
    assert all(taken[x].default == given[x].default for x in given if x in taken)
    assert (method.__name__, method.__qualname__) == (name, f"Algorithms.{name}")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_functions_call_an_array_is_one_by_its_name(name):
    """One with another name would be an option, compiled anew for every value."""
    annotated = {
        x for x, parameter in ALGORITHMS[name].parameters.items() if parameter.annotation.startswith("Array")
    }
    assert annotated == {*ALGORITHMS[name].arrays, *ALGORITHMS[name].optional}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_docstrings_explain_options_and_name_what_there_is(name):
    doc = inspect.getdoc(getattr(lb.Robot, name))
    for option in ALGORITHMS[name].options:
        assert re.search(rf"\b{option}\b|[Aa]rguments.*\sas in `", doc), option
    for word in re.findall(r"`(\w+)`", doc):
        known = inspect.signature(getattr(lb.Robot, name)).parameters
        assert hasattr(lb.Robot, word) or hasattr(dynamics, word) or word in [*known, "Robot"], word
    assert not re.search("^gravity  ", doc, re.MULTILINE), "it is the robot's own"


# -- arguments, options, entries of the library --------------------------------------------------------------


def test_arrays_that_may_be_left_out_have_kernels_of_their_own(robot):
    q, v, _ = state(robot, (3,))
    wrenches = np.random.default_rng(1).standard_normal((3, len(robot.tree.bodies), 6))
    tau = robot.inverse_dynamics(q, v, np.zeros_like(v), wrenches)
    np.testing.assert_allclose(robot.bias(q, v, wrenches), tau, atol=1e-11)
    np.testing.assert_allclose(robot.kernel("bias_wrenches")(q, v, wrenches), tau, atol=1e-11)
    assert robot.kernel("bias_wrenches").name == "bias_wrenches"


def test_damping_is_an_option_of_efforts_and_accelerations():
    builder = lb.TreeBuilder("arm")
    for k, parent in enumerate(("world", "link0")):
        joint = lb.Joint(f"joint{k}", lb.groups.Revolute([0, 1, 0]), damping=0.5 + k)
        builder.add(
            f"link{k}", joint, lb.SpatialInertia.sphere(1.0, 0.1), parent, lb.groups.SE3.exp(np.eye(6)[5])
        )
    robot = lb.Robot(builder.build())
    q, v, a = state(robot)
    tau = robot.inverse_dynamics(q, v, a, damping=True)
    np.testing.assert_allclose(tau - robot.inverse_dynamics(q, v, a), [0.5, 1.5] * v, rtol=1e-12)
    np.testing.assert_allclose(robot.forward_dynamics(q, v, tau, damping=True), a, rtol=1e-10, atol=1e-12)


@needs_compiler
def test_calls_with_the_options_by_default_become_the_librarys_own_entry(robot):
    q, v, _ = state(robot)
    name = robot.tree.bodies[-1].name
    elsewhere = robot.momentum(q, v, name)
    assert "frame" in robot.momentum.__self__[3:], "an entry for this option alone"
    first = robot.momentum(q, v)
    assert isinstance(robot.momentum, types.BuiltinFunctionType)
    np.testing.assert_array_equal(robot.momentum(q, v), first)
    np.testing.assert_array_equal(robot.momentum(q, v, name), elsewhere)
    np.testing.assert_array_equal(robot.momentum(q, v, frame="world"), first)
    again = pickle.loads(pickle.dumps(robot))
    assert isinstance(again.momentum, types.MethodType)
    np.testing.assert_array_equal(again.momentum(q, v), first)


@needs_compiler
def test_a_method_that_a_class_of_robots_has_anew_is_not_bypassed():
    class Heavier(lb.Robot):
        def mass_matrix(self, q):
            return 2 * super().mass_matrix(q)

    robot = Heavier(lb.load("double_pendulum").tree)
    q = np.array([0.3, -0.2])
    M = lb.load("double_pendulum").mass_matrix(q)
    for _ in range(3):
        np.testing.assert_array_equal(robot.mass_matrix(q), 2 * M)


@pytest.mark.wide
def test_results_of_several_outputs_have_their_names_and_take_places():
    robot = lb.models.space_robot()
    q, v, _ = state(robot, (4,))
    parts = robot.decoupled_dynamics(q, v)
    assert isinstance(parts, dynamics.Decoupled)
    places = tuple(map(np.empty_like, parts))
    again = robot.decoupled_dynamics(q, v, out=places)
    for one, place, part in zip(again, places, parts, strict=True):
        assert one is place
        np.testing.assert_array_equal(place, part)


def test_matrices_as_options_are_told_apart_by_their_numbers(robot):
    q, v, _ = state(robot)
    pose = np.eye(4)
    np.testing.assert_allclose(robot.momentum(q, v, pose), robot.momentum(q, v), atol=1e-12)
    pose[0, 3] = 0.5
    l, p = np.split(robot.momentum(q, v), 2)
    shifted = np.concatenate([l - np.cross([0.5, 0, 0], p), p])
    np.testing.assert_allclose(robot.momentum(q, v, pose), shifted, atol=1e-12)
    np.testing.assert_allclose(robot.momentum(q, v, pose.tolist()), shifted, atol=1e-12)


def test_frames_that_print_alike_have_kernels_of_their_own():
    """NumPy prints eight digits; a kernel in the cache must not be found by these."""
    robot, q = lb.load("double_pendulum"), np.array([0.3, -0.2])
    for x in (1.0, 1.0 + 1e-10):
        place = np.eye(4)
        place[0, 3] = x
        pose = robot.pose(q, Frame("tool", 1, place))
        np.testing.assert_array_equal(pose, robot.pose(q, robot.tree.bodies[0].name) @ place)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r, q: r.pose(q, {"tip": 1}), ["{'tip': 1}", "unhashable", "a name, a number"]),
        (lambda r, q: r.pose(q, ["tip"]), ["('tip',)", "world"]),
        (lambda r, q: r.kernel("pose"), ["pose", "['frame']", "[]"]),
        (lambda r, q: r.kernel("pose", frame="tip", form="body"), ["pose", "['frame']", "form"]),
        (lambda r, q: r.kernel("mass_matrix_wrenches"), ["mass_matrix_wrenches", "bias_wrenches"]),
    ],
)
def test_options_that_cannot_be_are_refused_in_words(call, words):
    with pytest.raises(ModelError) as error:
        call(lb.load("double_pendulum"), np.zeros(2))
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda r, q: r.mass_matrix(),
        lambda r, q: r.gravity(q, q),
        lambda r, q: r.mass_matrix(q, form="ploen"),
        lambda r, q: r.pose(q),
    ],
)
def test_arguments_that_a_method_does_not_have_are_pythons_own_error(call):
    with pytest.raises(TypeError, match=r"(mass_matrix|gravity|pose)\(\)"):
        call(lb.load("double_pendulum"), np.zeros(2))


# -- entries of one's own ------------------------------------------------------------------------------------


EVEN = np.ones(2)


def spread(tree, q, v, gravity=dynamics.FREE_FALL, factor=2.0, weights=EVEN):
    """`gravity_forces` times a factor, and weights."""
    return factor * np.asarray(weights) * dynamics.gravity_forces(tree, q, gravity)


def test_an_algorithm_of_ones_own_enters_by_a_line():
    class Mine(lb.Robot):
        spread = Algorithm(spread)

    robot = Mine(lb.load("double_pendulum").tree, (0, 0, -1.62))
    q, v, _ = state(robot, (5,))
    g = robot.gravity(q)
    np.testing.assert_allclose(robot.spread(q, v), 2 * g)
    np.testing.assert_allclose(robot.spread(q[0], v[0], factor=3.0), 3 * g[0])
    np.testing.assert_allclose(robot.spread(q, v, weights=[1.0, 5.0]), [2, 10] * g)
    np.testing.assert_allclose(robot.kernel("spread", factor=0.5)(q, v), g / 2)
    assert inspect.getdoc(robot.spread).startswith("`gravity` times a factor,"), "as the method is called"
    assert not hasattr(lb.Robot, "spread") and "spread" not in kernels_of(lb.Robot)


@needs_compiler
def test_what_users_change_in_their_algorithms_is_not_taken_from_the_cache():
    q = np.array([0.3, -0.2])
    M = lb.load("double_pendulum").mass_matrix(q)

    def class_of(scale):
        def scaled(tree, q):
            return scale * dynamics.mass_matrix(tree, q)

        class Mine(lb.Robot):
            mass_matrix = Algorithm(scaled)

        return Mine

    for scale in (2.0, 3.0):
        robot = class_of(scale)(lb.load("double_pendulum").tree)
        np.testing.assert_array_equal(lb.Robot.mass_matrix(robot, q), M)
        np.testing.assert_allclose(robot.mass_matrix(q), scale * M, rtol=1e-14)
        np.testing.assert_allclose(robot.kernel("mass_matrix")(q[None]), scale * M[None], rtol=1e-14)
