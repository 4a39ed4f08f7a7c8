"""Parameters of constrained systems: bodies, joints, rods and springs; absolute and joint coordinates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from random_trees import close, random_inertia

import liebody as lb
from liebody.base.errors import ConfigurationError, IntegrationError, ModelError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler.native import build
from liebody.groups import Revolute, Spherical
from liebody.mechanisms.constrained import AbsoluteTree, ClosedTree, Closure, SystemBuilder

needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
SHORT = {"t_end": 0.1, "dt": 0.01}


@pytest.fixture(scope="module")
def pendulum():
    """A ball joint that carries an arm on a hinge, with damping."""
    tree = TreeBuilder("pendulum").add("ball", Spherical(), random_inertia(np.random.default_rng(0)))
    joint = Joint("elbow", Revolute([0, 1, 0]), damping=0.1)
    tree.add("arm", joint, random_inertia(np.random.default_rng(1)), "ball", [0, 0, -0.5])
    return lb.Robot(tree.build())


VALUES = {"arm.mass": [0.7, 1.9], "elbow.damping": [0.0, 0.3], "gravity": [[0.0, 3.0, -8.0], [0, 0, -9.0]],
          "arm.inertia": [[0.3, 0.01, 0, 0.35, 0, 0.4], [0.5, 0, 0.1, 0.7, 0, 0.6]]}  # fmt: skip
PLACES = {"arm.center": [[0.1, 0.2, -0.3], [0, 0.1, -0.2]], "elbow.position": [[0.1, 0, -0.4], [0, 0, -0.7]],
          "elbow.orientation": [[0.8, 0, 0.6, 0], [0.6, 0, 0, 0.8]]}  # fmt: skip
V0 = np.array([1.0, -0.5, 0.3, 2.0])


def member(values, i):
    return {name: x[i] for name, x in values.items()}


@pytest.mark.parametrize("method", ["rkmk8", "radau5", "half-explicit4", "generalized-alpha"])
@pytest.mark.many
def test_absolute_coordinates_move_as_joint_coordinates_at_the_same_values(pendulum, method):
    """Two formulations of the same members: with constraints, and without."""
    values = {**VALUES, **PLACES} if method == "rkmk8" else VALUES
    options = {"t_end": 0.05, "dt": 0.0025}
    trees = [AbsoluteTree(pendulum.with_parameters(member(values, i)).tree) for i in range(2)]
    q0, v0 = map(np.array, zip(*(tree.to_system(pendulum.neutral(), V0) for tree in trees), strict=True))
    system = AbsoluteTree(pendulum.tree).system
    run = lb.simulate(system, q0, v0, parameters=values, method=method, **options)
    expected = lb.simulate(pendulum, None, V0, parameters=values, method="rkmk8", **options)
    assert run.q.shape == (2, 21, 14) and run.parameters["gravity"].shape == (2, 3)
    bound = {"generalized-alpha": 1e-4}.get(method, 1e-9)  # of second order
    for i, tree in enumerate(trees):
        q, v = tree.to_system(expected.q[i, -1], expected.v[i, -1])
        assert np.abs(run.q[i, -1] - q).max() < bound and np.abs(run.v[i, -1] - v).max() < 50 * bound
        close(run.kinetic[i, 0], expected.kinetic[i, 0], 1e-10)
        assert np.abs(run.energy_change[i] - expected.energy_change[i]).max() < 500 * bound
    assert np.abs(run.q[0, -1] - run.q[1, -1]).max() > 1e-3 and run.energy_drift < 1e-3


def two_bodies(spring=30.0, rest=0.5, length=0.6, turning=3.0):
    """A body on a driven hinge with springs, and one that hangs on it by a rod."""
    builder = SystemBuilder("two")
    builder.body("a", SpatialInertia(1.5, [0.1, 0, -0.3], [0.1, 0.2, 0.15]))
    builder.body("b", SpatialInertia(2.0, rotational=[0.2, 0.3, 0.25]), pose=[0, 0, -1.2])
    builder.joint("hinge", Revolute([0, 1, 0]), "world", "a", driven=True)
    builder.joint_spring("coil", "hinge", turning, 0.2)
    builder.rod("rod", "a", "b", on_a=[0, 0, -0.5], on_b=[0, 0, 0.1], length=length)
    builder.spring("spring", "world", "b", on_a=[0.5, 0, -1], stiffness=spring, length=rest, damping=0.1)
    return builder.build()


@pytest.mark.wide
def test_springs_and_rods_are_those_of_a_system_built_with_the_values():
    given = {"spring.stiffness": [30.0, 80.0], "spring.rest": [0.5, 0.3], "coil.stiffness": [3.0, 9.0]}
    given["rod.length"] = [0.6, 0.8]
    system = two_bodies()
    run = lb.simulate(system, parameters=given, **SHORT)
    expected = lb.simulate(two_bodies(80.0, 0.3, 0.8, 9.0), run.q[1, 0], **SHORT)
    assert run.largest_violation < 1e-13
    close(run.q[1], expected.q, 1e-12)
    close(run.multipliers[1], expected.multipliers, 1e-9)
    close(run.energy[1], expected.energy, 1e-12)
    close(run.member(1).reactions("rod"), expected.reactions("rod"), 1e-9)
    close(run.reactions("rod")[1], expected.reactions("rod"), 1e-9)
    close(run.largest_energy_jump[1], expected.largest_energy_jump, 1e-9)
    assert run.energy_drift < 1e-6 and run.work_done is not None
    bound = pickle.loads(pickle.dumps(system.with_parameters(member(given, 1))))
    close(lb.simulate(bound, run.q[1, 0], **SHORT).q, run.q[1], 1e-14)


def four_bar(rod=1.5, crank=0.5, mass=1.0):
    tree, axis = TreeBuilder("four-bar"), Revolute([0, 1, 0])
    for name, parent, x, m in (("crank", "world", 0.0, 1.0), ("coupler", "crank", crank, mass)):
        tree.add(name, axis, SpatialInertia.box(m, [0.5, 0.1, 0.1], com=[0.25, 0, 0]), parent, [x, 0, 0])
    tree.frame("base", "world", [1.0, 0, 0]).frame("tip", "coupler", [0.8, 0, 0])
    return ClosedTree(tree.build(), [Closure("rod", rod, "base", "tip")])


@pytest.mark.parametrize("method", ["rkmk4", "radau5"])
@pytest.mark.many
def test_a_closed_tree_takes_those_of_its_tree_and_of_its_rods(method):
    tree = four_bar()
    inertia = tree.parameters["coupler.inertia"].value
    given = {"coupler.mass": [1.0, 2.5], "coupler.inertia": [inertia, 2.5 * inertia]}
    if method == "rkmk4":
        given |= {"rod.length": [1.5, 1.4], "coupler.position": [[0.5, 0, 0], [0.45, 0, 0]]}
    run = lb.simulate(tree, parameters=given, method=method, **SHORT)
    built = four_bar(*((1.4, 0.45) if method == "rkmk4" else ()), mass=2.5)
    expected = lb.simulate(built, run.q[1, 0], method=method, **SHORT)
    close(run.q[1], expected.q, 1e-12)
    close(run.energy[1], expected.energy, 1e-12)
    close(run.multipliers[1], expected.multipliers, 1e-9)
    assert run.largest_violation < 1e-11


def test_loops_of_each_member_close_where_nobody_says_how_it_starts():
    run = lb.simulate(two_bodies(), parameters={"rod.length": np.linspace(0.4, 0.9, 5)}, **SHORT)
    a, b = (run.system.poses(run.q[:, 0])[:, i] for i in range(2))
    ends = (T[:, :3, :3] @ x + T[:, :3, 3] for T, x in ((a, [0, 0, -0.5]), (b, [0, 0, 0.1])))
    close(np.linalg.norm(np.subtract(*ends), axis=-1), np.linspace(0.4, 0.9, 5), 1e-12)


def gains(t, q, v, p):
    return np.array([-p.K * v[1] + p.a_mass * t])


@needs_compiler
def test_new_values_of_a_system_compile_nothing(monkeypatch):
    system, compiled, library = two_bodies(), [], build.library

    def run(K, mass, stiffness):
        given = {"K": K, "a.mass": mass, "spring.stiffness": stiffness}
        return lb.simulate(system, tau=gains, parameters=given, **SHORT)

    first = run(1.0, 1.5, 30.0)
    monkeypatch.setattr(build, "library", lambda *given: compiled.append(1) or library(*given))
    second = run(2.0, 1.7, 40.0)
    assert not compiled and np.abs(first.q - second.q).max() > 1e-5
    close(second.tau[:, 0], -2.0 * second.v[:, 1] + 1.7 * second.t, 1e-13)


@pytest.mark.wide
def test_a_stepper_and_a_sweep_of_a_system_take_parameters(tmp_path):
    system, masses = two_bodies(), np.array([1.0, 2.0, 3.0])
    run = lb.simulate(system, parameters={"b.mass": masses}, **SHORT)
    sim = lb.stepper(system, dt=0.01, members=3, parameters={"b.mass": masses})
    assert np.array_equal(sim.step(sim.start(), steps=10).q, run.q[:, -1])
    store = lb.sweep(system, {"b.mass": masses}, tmp_path / "s", workers=0, **SHORT)
    close(store.q.values, run.q, 1e-14)


def test_values_that_no_system_can_have_are_refused_at_the_door():
    system, options = two_bodies(), SHORT
    for name, value, words in (
        ("a.mass", [1.0, -1.0], r"a\.mass of member 1 is -1\.0 kg"),
        ("a.inertia", [1, 0, 0, 1, 0, 3], "triangle inequality"),
        ("a.inertia", [1, 0, 0, 1, 0, 0], "no principal moment below"),
        ("rod.length", 0.0, "positive length"),
        ("spring.stiffness", -1.0, "zero or more"),
        ("a.mas", 1.0, r"did you mean a\.mass"),
    ):
        with pytest.raises(ModelError, match=words):
            lb.simulate(system, parameters={name: value}, **options)
    with pytest.raises(IntegrationError, match=r"rod\.length of two change its constraints"):
        lb.simulate(system, parameters={"rod.length": 0.7}, method="radau5", **options)
    with pytest.raises(ConfigurationError, match="with_parameters"):
        lb.simulate(system, system.assemble(), parameters={"rod.length": 0.7}, **options)
