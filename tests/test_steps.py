"""Steps: algorithms as loops, against straight-line code and against the algorithms on floats."""

import inspect
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from random_trees import JOINTS, random_inertia, random_placement, random_state, random_tree

import liebody as lb
from liebody import dynamics
from liebody.base.errors import GraphError
from liebody.compiler import Function, Kernel, Program, repeated, trace, traced
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.compiler.programs import passes
from liebody.compiler.programs.schedule import Schedule
from liebody.groups import SE3, Fixed, Free, Prismatic, Revolute, Spherical
from liebody.mechanisms import contract
from liebody.scalars import where

GRAVITY = (0.3, -1.0, -9.0)


ALGORITHMS = {  # with their arguments
    "inverse_dynamics": "q v a",
    "joint_wrenches": "q v a",
    "bias_forces": "q v",
    "gravity_forces": "q",
    "forward_dynamics": "q v tau",
    "mass_matrix": "q",
    "kinetic_energy": "q v",
    "potential_energy": "q",
    "body_poses": "q",
    "body_twists": "q v",
    "center_of_mass": "q",
    "center_of_mass_velocity": "q v",
    "center_of_mass_jacobian": "q",
    "total_momentum": "q v",
    "centroidal_momentum": "q v",
    "centroidal_momentum_matrix": "q",
    "centroidal_momentum_matrix_derivative": "q v",
    "centroidal_momentum_rate": "q v a",
    "centroidal_inertia": "q",
    "centroidal_velocity": "q v",
    "coriolis_matrix": "q v",
    "mass_matrix_derivative": "q v",
    "christoffel_symbols": "q",
    "passive_inverse_dynamics": "q v v_r a",
    "coriolis_transpose_times": "q v",
    "inverse_dynamics_regressor": "q v a",
    "passive_regressor": "q v v_r a",
    "frame_pose": "q",
    "frame_twist": "q v",
    "frame_acceleration": "q v a",
    "frame_jacobian": "q",
    "frame_jacobian_rate": "q v",
}
OF_A_FRAME = [name for name in ALGORITHMS if name.startswith("frame")]
LOSSY = ("inverse_dynamics", "forward_dynamics", "bias_forces")  # have the option `damping`


def algorithm(tree, name, **options):
    """The function of arrays, and the shapes of these."""
    function, arguments = getattr(dynamics, name), ALGORITHMS[name].split()
    if "gravity" in inspect.signature(function).parameters:
        options["gravity"] = GRAVITY
    if name in OF_A_FRAME:
        options |= {
            "frame": max(tree.bodies, key=lambda b: len(tree.ancestors(b.index))).name,
            "representation": "mixed",
        }
        if name == "frame_pose":
            del options["representation"]
    sizes = {"q": tree.nq, "wrenches": (len(tree.bodies), 6)}
    shapes = {key: sizes.get(key, tree.nv) for key in arguments}

    def of_arrays(*arrays):
        return function(tree, *arrays, **options)

    return of_arrays, shapes


def state(rng, tree, shapes):
    q, *_ = random_state(rng, tree)
    return [q if key == "q" else rng.normal(size=size) for key, size in shapes.items()]


@pytest.fixture
def always(monkeypatch):
    """Everything that has steps becomes a program."""
    monkeypatch.setattr(passes, "LONG", -1)
    monkeypatch.setattr(passes, "REPEATED", 0)


def repeated_tree(n, seed=0, branching=0.0):
    """Bodies of few kinds: hinges, slides and balls in turn, one after the other or with branches."""
    rng = np.random.default_rng(seed)
    joints = [
        Revolute([0, 0, 1]), Prismatic([1, 0, 0]), Spherical(), Revolute([0, 0.6, 0.8], [0.1, 0, 0])
    ]  # fmt: skip
    builder, names = lb.TreeBuilder(f"tree{n}"), ["world"]
    for i in range(n):
        parent = names[-1] if rng.random() >= branching else names[rng.integers(len(names))]
        joint = lb.Joint(f"joint{i}", joints[i % len(joints)], armature=0.1 * (i % 2), damping=0.3)
        placement = SE3.motion(np.eye(3)[[1, 2, 0]], 0.2 * rng.normal(size=3))
        builder.add(f"body{i}", joint, random_inertia(rng), parent, placement)
        names.append(f"body{i}")
    return builder.build()


# -- steps by themselves -------------------------------------------------------------------------------------


@repeated
def turned(x, factor, c):
    return factor * x + c, x - c


def looped(function, shapes, *arrays):
    """The program of a function, whose compiled and evaluated results are those of the function on floats."""
    program = traced(function, shapes, "f", least=-1)
    assert isinstance(program, Program)
    expected = np.asarray(function(*arrays))
    np.testing.assert_allclose(compile_numpy(program)(*arrays), expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(Kernel(program)(*arrays), expected, rtol=1e-13, atol=1e-13)
    return program


def test_calls_that_differ_in_numbers_are_one_pass():
    def f(x):
        return np.concatenate([turned(x[k : k + 2], 2.0 + k, x[21])[0] for k in range(20)])

    program = looped(f, {"x": 22}, np.linspace(0.5, 1.5, 22))
    assert [[(part.function.name, part.places) for part in p.parts] for p in program.passes] == [
        [("turned", 20)]
    ]


def test_zeros_and_units_are_kinds_of_their_own():
    def f(x):
        return np.concatenate([turned(x[k : k + 1], float(k % 3), 0)[0] for k in range(12)])

    program = looped(f, {"x": 12}, np.linspace(0.5, 1.5, 12))
    # a factor of zero leaves a constant, one of one leaves x: neither needs a pass
    assert [part.places for p in program.passes for part in p.parts] == [4]


def test_expressions_between_steps_are_passes_too():
    def f(x):
        total, out = x[0], []
        for k in range(1, 30):
            a, b = turned(x[k : k + 1], 0.5, total)
            total = a[0] * b[0] - 3.0 * x[k]
            out.append(total)
        return np.array([*out, -total, 7.0, x[0]])

    program = looped(f, {"x": 30}, np.linspace(-0.5, 0.5, 30))
    assert len(program.passes) < 8


def test_what_nobody_needs_is_not_computed():
    def f(x):
        return np.array([turned(x[k : k + 1], 2.0, x[k + 1])[1][0] for k in range(10)])

    program = looped(f, {"x": 11}, np.arange(11.0))
    assert program.operations == {"sub": 10}


def test_steps_whose_kinds_wait_for_each_other_take_turns():
    def f(x):
        y = x[40:]
        for k in range(40):
            y = turned(y, 1.0 if k % 2 else 0.7, x[k])[k % 2]
        return y

    program = looped(f, {"x": 41}, np.linspace(0, 1, 41))
    assert [len(p.parts) for p in program.passes] == [2]
    assert len(np.unique(program.passes[0].parts[0].results[-1])) <= 2  # rows are used again


def test_a_step_on_numbers_and_in_a_trace_is_the_function():
    assert turned(2.0, 3.0, 1.0) == (7.0, 1.0)
    assert trace(lambda x: turned(x, 3.0, 1.0), {"x": ()}).operations == {"mul": 1, "add": 2}


def test_a_straight_line_that_is_given_up_leaves_memory_in_order():
    """At whatever length: NumPy's product of object arrays frees a number twice where an operator raises."""
    script = """
import gc
import numpy as np
from liebody.compiler.programs import passes, repeats
from liebody.compiler import repeated, traced

@repeated
def turned(R, x):
    return R @ x

def f(R, x):
    R = R.reshape(3, 3)
    for _ in range(20):
        x = turned(R, x)
    return x

passes.LONG = 100
gc.set_threshold(5, 1, 1)
for repeats.LONGEST in range(12, 112):
    traced(f, {"R": 9, "x": 3})
"""
    environment = os.environ | {"PYTHONMALLOC": "debug"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_a_step_that_returns_a_condition_is_refused():
    @repeated
    def compared(x):
        return x < 1

    with pytest.raises(GraphError, match="compared returns a condition"):
        traced(lambda x: where(compared(x), 1.0, 2.0), {"x": ()}, loops=True)


def test_conditions_between_steps_belong_to_what_takes_them(always):
    """One condition that several expressions take, of what steps return: it is no number to be kept."""

    def f(x):
        y = np.concatenate([turned(x[k : k + 2], 2.0, 1.0)[0] for k in range(0, 16, 2)])
        return np.array([where(a < 0, -a, a) + where(a < 0, 1.0, b) for a, b in zip(y, y[::-1])])

    program, x = traced(f, {"x": 16}), np.random.default_rng(3).normal(size=16)
    assert isinstance(program, Program)
    np.testing.assert_allclose(compile_numpy(program)(x), f(x), rtol=1e-14)


def test_steps_that_are_named_become_loops_with_straight_lines_between_them():
    """The other step is part of a line; a condition of the first line is computed again in the second."""

    @repeated
    def near(x, y):
        return x * y + 1

    @repeated
    def far(x):
        return np.sin(x) / 3

    def function(x, y):
        below = y[0] < 0.5
        first = [near(a, far(y)[0]) for a in x]
        second = [near(a, where(below, b, 2.0)) for a, b in itertools.pairwise(first)]
        return np.array([*second, *far(np.array(second)), -y[1]])

    shapes = {"x": 9, "y": 2}
    program = traced(function, shapes, loops=[near])
    names = [part.function.name for each in program.passes for part in each.parts]
    assert sorted(names) == ["line", "line", "line", "near", "near"]
    straight = compile_numpy(trace(function, shapes))
    for sign in (-1, 1):
        x, y = np.random.default_rng(0).standard_normal(9), np.array([sign, 0.3])
        np.testing.assert_array_equal(compile_numpy(program)(x, y), straight(x, y))
    assert isinstance(traced(function, shapes, loops=False), Function)


def test_results_of_steps_cannot_be_written():
    def f(x):
        y, _ = turned(x, 2.0, 1.0)
        y[0] = 0.0
        return y

    with pytest.raises(ValueError, match="read-only"):
        traced(f, {"x": 2}, loops=True)


# -- algorithms on trees -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.many
def test_loops_compute_what_the_recursions_do(name, seed, always):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, rng.permutation(list(JOINTS)), rotors=seed % 2 == 0)
    options = {"damping": seed % 2 == 1} if name in LOSSY else {}
    function, shapes = algorithm(tree, name, **options)
    arrays = state(rng, tree, shapes)
    program = traced(function, shapes, name)
    assert isinstance(program, Program)
    expected = function(*arrays)
    np.testing.assert_allclose(
        compile_numpy(program)(*arrays), expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize("branching", [0.0, 0.5, 1.0])
def test_loops_over_branches_with_wrenches(name, branching, always):
    tree = repeated_tree(40, branching=branching)
    rng = np.random.default_rng(1)
    arrays, wrenches = random_state(rng, tree), rng.normal(size=(40, 6))

    def function(q, v, a, wrenches):
        return getattr(dynamics, name)(tree, q, v, a, gravity=GRAVITY, wrenches=wrenches)

    shapes = {"q": tree.nq, "v": tree.nv, "a": tree.nv, "wrenches": (40, 6)}
    expected = function(*arrays, wrenches)
    found = compile_numpy(traced(function, shapes, name))(*arrays, wrenches)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("branching", [0.0, 0.5])
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.many
def test_compiled_loops_are_the_straight_line_code(name, branching, monkeypatch):
    # regressors have ten columns a body
    tree = repeated_tree(12 if "regressor" in name else 24, branching=branching)
    function, shapes = algorithm(tree, name)
    rng = np.random.default_rng(2)
    states = [np.stack(x) for x in zip(*(state(rng, tree, shapes) for _ in range(20)), strict=True)]
    monkeypatch.setattr(passes, "LONG", -1)
    monkeypatch.setattr(passes, "REPEATED", 0)
    loop = Kernel(traced(function, shapes, name))
    assert isinstance(loop.function, Program)
    expected = np.stack([function(*x) for x in zip(*states, strict=True)])
    scale = np.abs(expected).max()
    np.testing.assert_allclose(loop(*states), expected, rtol=1e-9, atol=1e-11 * scale)
    one = [np.ascontiguousarray(x[0]) for x in states]
    np.testing.assert_allclose(loop(*one), expected[0], rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.parametrize("name", ["passive_inverse_dynamics", "coriolis_transpose_times"])
def test_recursions_keep_as_little_from_the_way_out_to_the_way_in_as_newton_euler(name):
    def cells(name, n):
        function, shapes = algorithm(repeated_tree(n), name)
        program = traced(function, shapes, name, loops=True)
        return Schedule(program, [program.positions(x).ravel() for x in program.outputs.values()]).size

    of_a_body, least = ((cells(x, 60) - cells(x, 20)) / 40 for x in (name, "inverse_dynamics"))
    assert of_a_body < least + 2


@pytest.mark.wide
def test_a_thousand_links_agree_with_the_algorithms_on_floats():
    tree = repeated_tree(1000)
    q, v, a = random_state(np.random.default_rng(3), tree)
    robot = lb.Robot(tree)
    tau = robot.inverse_dynamics(q, v, a)
    expected = dynamics.inverse_dynamics(tree, q, v, a)
    np.testing.assert_allclose(tau, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    # accelerations of so long a chain are badly conditioned; what they take is not
    again = dynamics.inverse_dynamics(tree, q, v, robot.forward_dynamics(q, v, tau))
    np.testing.assert_allclose(again, tau, rtol=1e-9, atol=1e-9 * np.abs(tau).max())


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.wide
def test_text_does_not_grow_with_the_links(name):
    def lines(n):
        text = lb.Robot(repeated_tree(n)).kernel(name).source.splitlines()
        return [line for line in text if not line.startswith("static const")]

    short, long = lines(400), lines(2000)
    assert sum(map(len, long)) < 1.2 * sum(map(len, short)) < 500_000


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "kinetic_energy", "body_twists"])
def test_loops_spend_few_more_operations_than_straight_line_code(name, always):
    """Units of the placements and structural zeros fold as they do there."""
    function, shapes = algorithm(repeated_tree(80), name)
    flat = trace(function, shapes, name)
    assert sum(traced(function, shapes, name).operations.values()) < 1.15 * sum(flat.operations.values())


def test_which_trees_become_loops():
    def form(tree, name="forward_dynamics"):
        return type(lb.Robot(tree).kernel(name).function)

    assert form(repeated_tree(120)) is Program
    assert form(repeated_tree(12)) is Function
    rng = np.random.default_rng(5)
    assert form(random_tree(rng, list(JOINTS))) is Function  # no two alike
    assert form(random_tree(rng, ["revolute"] * 3, followers=1)) is Function
    assert form(repeated_tree(12), "inverse_dynamics") is Function  # little work


def test_a_floating_root_and_fixed_bodies_take_part(always):
    rng = np.random.default_rng(6)
    builder = lb.TreeBuilder("floating").add("base", Free(), random_inertia(rng))
    parent = "base"
    for i in range(20):
        joint = Fixed() if i % 3 == 1 else Revolute([1, 0, 0])
        builder.add(f"b{i}", joint, random_inertia(rng), parent, random_placement(rng))
        parent = f"b{i}"
    tree = builder.build()
    for name in ("inverse_dynamics", "forward_dynamics"):
        function, shapes = algorithm(tree, name)
        arrays = state(rng, tree, shapes)
        found = compile_numpy(traced(function, shapes, name))(*arrays)
        np.testing.assert_allclose(found, function(*arrays), rtol=1e-9, atol=1e-9)


@pytest.mark.wide
def test_simulations_take_loops(monkeypatch):
    tree, runs = repeated_tree(64), []
    v = np.random.default_rng(7).normal(size=tree.nv)
    for least in (0, 10**9):
        monkeypatch.setattr(passes, "LONG", least)
        monkeypatch.setattr(contract, "LONG_POINT", least)
        monkeypatch.setattr(lb.Robot, "recipe", lambda *_: None)
        robot = lb.Robot(tree)
        runs.append(lb.simulate(robot, v0=v, t_end=0.02, dt=1e-3))
        (made,) = robot.flows.values()
        (flow,) = made.flows.values()
        assert [isinstance(part, Program) for part in flow.functions[:3]] == [least == 0] * 3
    np.testing.assert_allclose(runs[0].q, runs[1].q, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(runs[0].v, runs[1].v, rtol=1e-9, atol=1e-9)
