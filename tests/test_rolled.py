"""Dynamics of long trees in loops, against straight-line code and against the algorithms on floats."""

import functools
import sys

import numpy as np
import pytest
from random_trees import JOINTS, random_inertia, random_placement, random_state, random_tree

import liebody as lb
from liebody import dynamics
from liebody.codegen import Kernel, Program, trace
from liebody.dynamics import rolled
from liebody.groups import SE3, Fixed, Free, Prismatic, Revolute, Spherical

PASSES = {
    "inverse_dynamics": (dynamics.inverse_dynamics, rolled.inverse_dynamics_passes, ("q", "v", "a")),
    "bias": (dynamics.bias_forces, rolled.inverse_dynamics_passes, ("q", "v")),
    "gravity": (dynamics.gravity_forces, rolled.inverse_dynamics_passes, ("q",)),
    "forward_dynamics": (dynamics.forward_dynamics, rolled.forward_dynamics_passes, ("q", "v", "tau")),
}
PASSES |= {
    "kinetic_energy": (dynamics.kinetic_energy, rolled.kinetic_energy_passes, ("q", "v")),
    "potential_energy": (dynamics.potential_energy, rolled.potential_energy_passes, ("q",)),
}
LOSSY = ("inverse_dynamics", "forward_dynamics", "bias")  # have the option `damping`
GRAVITY = (0.3, -1.0, -9.0)


def program_of(tree, name, wrenches=False, **options):
    _, passes, arguments = PASSES[name]
    shapes = {"q": tree.nq, "v": tree.nv, "a": tree.nv, "tau": tree.nv, "wrenches": (len(tree.bodies), 6)}
    taken = [*arguments, "wrenches"] if wrenches else arguments
    program = Program(name, {key: shapes[key] for key in taken})
    given = options if name == "kinetic_energy" else {**options, "gravity": GRAVITY}
    program.output(name, passes(program, tree, **program.inputs, **given))
    return program


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


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("damping", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_loops_compute_what_the_recursions_do(name, damping, seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, rng.permutation(list(JOINTS)), rotors=seed % 2 == 0)
    algorithm, _, arguments = PASSES[name]
    state = random_state(rng, tree)[: len(arguments)]
    options = {"damping": damping} if name in LOSSY else {}
    given = options if name == "kinetic_energy" else {**options, "gravity": GRAVITY}
    expected = algorithm(tree, *state, **given)
    found = program_of(tree, name, **options).evaluate(*state)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize("branching", [0.0, 0.5, 1.0])
def test_loops_over_branches_with_wrenches(name, branching):
    tree = repeated_tree(40, branching=branching)
    rng = np.random.default_rng(1)
    state, wrenches = random_state(rng, tree), rng.normal(size=(40, 6))
    expected = PASSES[name][0](tree, *state, gravity=GRAVITY, wrenches=wrenches)
    found = program_of(tree, name, wrenches=True).evaluate(*state, wrenches)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PASSES)
def test_compiled_loops_are_the_robots_straight_line_code(name, monkeypatch):
    tree = repeated_tree(32)
    rng = np.random.default_rng(2)
    states = [np.stack(x) for x in zip(*(random_state(rng, tree) for _ in range(70)), strict=True)]
    states = states[: len(PASSES[name][2])]
    monkeypatch.setattr(rolled, "LONG", 0)
    loop = lb.Robot(tree).kernel(name)
    assert isinstance(loop.function, Program)
    monkeypatch.setattr(rolled, "LONG", 10**9)
    straight = lb.Robot(tree).kernel(name)
    assert not isinstance(straight.function, Program)
    scale = np.abs(straight(*states)).max()
    for kernel in (loop, Kernel(loop.function)):  # by its recipe, which the other may have left; and anew
        np.testing.assert_allclose(kernel(*states), straight(*states), rtol=1e-9, atol=1e-11 * scale)
        one = [np.ascontiguousarray(x[0]) for x in states]
        np.testing.assert_allclose(kernel(*one), straight(*one), rtol=1e-9, atol=1e-11 * scale)


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
def test_text_does_not_grow_with_the_links(name):
    def lines(n):
        text = lb.Robot(repeated_tree(n)).kernel(name).source.splitlines()
        return [line for line in text if not line.startswith("static const")]

    short, long = lines(400), lines(2000)
    assert sum(map(len, long)) < 1.05 * sum(map(len, short)) < 500_000


def test_loops_spend_no_more_operations_than_straight_line_code():
    """Units of the placements and structural zeros fold as they do there."""
    tree = repeated_tree(80)
    for name in ("inverse_dynamics", "forward_dynamics"):
        algorithm, _, arguments = PASSES[name]
        shapes = {key: tree.nq if key == "q" else tree.nv for key in arguments}
        flat = trace(functools.partial(algorithm, tree), shapes, name)
        assert sum(program_of(tree, name).operations.values()) < 1.15 * sum(flat.operations.values())


def test_which_trees_become_loops():
    assert rolled.repeats(repeated_tree(120))
    assert not rolled.repeats(repeated_tree(12))
    rng = np.random.default_rng(5)
    assert not rolled.repeats(random_tree(rng, list(JOINTS)))  # no two alike
    assert not rolled.repeats(random_tree(rng, ["revolute"] * 3, followers=1))
    assert isinstance(lb.Robot(repeated_tree(120)).kernel("forward_dynamics").function, Program)
    small = lb.Robot(repeated_tree(25)).kernel("inverse_dynamics").function
    assert not isinstance(small, Program)  # few operations


def test_a_floating_root_and_fixed_bodies_take_part():
    rng = np.random.default_rng(6)
    builder = lb.TreeBuilder("floating").add("base", Free(), random_inertia(rng))
    parent = "base"
    for i in range(20):
        joint = Fixed() if i % 3 == 1 else Revolute([1, 0, 0])
        builder.add(f"b{i}", joint, random_inertia(rng), parent, random_placement(rng))
        parent = f"b{i}"
    tree = builder.build()
    q, v, a = random_state(rng, tree)
    for name in ("inverse_dynamics", "forward_dynamics"):
        expected = PASSES[name][0](tree, q, v, a, gravity=GRAVITY)
        np.testing.assert_allclose(program_of(tree, name).evaluate(q, v, a), expected, rtol=1e-9, atol=1e-9)


def test_simulations_take_loops(monkeypatch):
    simulate_module = sys.modules["liebody.simulate"]
    tree, runs = repeated_tree(32), []
    v = np.random.default_rng(7).normal(size=tree.nv)
    for least in (0, 10**9):
        monkeypatch.setattr(rolled, "LONG", least)
        monkeypatch.setattr(simulate_module, "LONG_POINT", least)
        monkeypatch.setattr(lb.Robot, "recipe", lambda *_: None)
        robot = lb.Robot(tree)
        runs.append(lb.simulate(robot, v0=v, t_end=0.02, dt=1e-3))
        (flow,) = robot.flows.values()
        assert [isinstance(part, Program) for part in flow.functions[:3]] == [least == 0] * 3
    np.testing.assert_allclose(runs[0].q, runs[1].q, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(runs[0].v, runs[1].v, rtol=1e-9, atol=1e-9)
