"""Parameters: robots of one structure and many numbers, in calls, simulations, sweeps, equations and C."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from random_trees import close, random_inertia, random_tree

import liebody as lb
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.codegen import Program, build
from liebody.errors import ConfigurationError, ModelError, ShapeError
from liebody.groups import SE3, SO3, Prismatic, Revolute
from liebody.robot import kernels_of

needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
JOINTS = ["free", "revolute", "prismatic", "spherical", "helical", "revolute"]
LOSSES = ("damping", "friction", "armature", "stiffness", "rest")
UPPER = np.triu_indices(3)


def random_values(tree, rng):
    """New values of every parameter, as the documentation defines them."""
    values = {"gravity": rng.normal(size=3)}
    for b in tree.bodies:
        inertia, joint = random_inertia(rng), b.joint
        values[f"{b.name}.mass"] = inertia.mass
        values[f"{b.name}.center"] = inertia.com
        values[f"{b.name}.inertia"] = inertia.rotational[UPPER]
        values[f"{joint.name}.position"] = rng.normal(size=3)
        values[f"{joint.name}.orientation"] = SO3.random(rng)
        if isinstance(joint.group, Revolute | Prismatic):
            axis = rng.normal(size=3)
            values[f"{joint.name}.axis"] = axis / np.linalg.norm(axis)
        for loss in LOSSES if joint.dim < 6 else ():  # a floating base has no rotor
            values[f"{joint.name}.{loss}"] = rng.uniform(0.1, 1, () if joint.dim == 1 else joint.dim)
    return values


def rebuilt(tree, values):
    """The tree made anew of numbers, by the builder."""
    builder, names = TreeBuilder(tree.name), ["world", *(b.name for b in tree.bodies)]
    for b in tree.bodies:
        joint, group = b.joint, b.joint.group
        if isinstance(group, Revolute):
            group = Revolute(values[f"{joint.name}.axis"], group.point)
        elif isinstance(group, Prismatic):
            group = Prismatic(values[f"{joint.name}.axis"])
        xx, xy, xz, yy, yz, zz = values[f"{b.name}.inertia"]
        I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        inertia = SpatialInertia(values[f"{b.name}.mass"], values[f"{b.name}.center"], I)
        R = SO3.element(values[f"{joint.name}.orientation"])
        losses = {loss: values[f"{joint.name}.{loss}"] for loss in LOSSES} if joint.dim < 6 else {}
        place = SE3.motion(R, values[f"{joint.name}.position"])
        builder.add(
            b.name, Joint(joint.name, group, mimic=joint.mimic, **losses), inertia, names[b.parent], place
        )
    for f in tree.frames.values():
        builder.frame(f.name, names[f.body], f.placement)
    return builder.build()


def evaluated(kernel, *arrays):
    function = kernel.function
    found = function.evaluate(*arrays) if isinstance(function, Program) else function(*arrays)
    return found if isinstance(found, tuple) else (found,)


@pytest.fixture(scope="module")
def tree():
    return random_tree(np.random.default_rng(5), JOINTS, followers=1, rotors=False)


COMPLETE = [name for name, (algorithm, _) in kernels_of(lb.Robot).items() if algorithm.is_complete]


@pytest.mark.parametrize("name", [*COMPLETE, "pose", "jacobian", "acceleration"])
def test_a_function_with_parameters_is_that_of_the_tree_rebuilt_with_their_values(tree, name):
    rng = np.random.default_rng(7)
    robot = lb.Robot(tree)
    values = random_values(tree, rng)
    free = robot.with_parameters(*values)
    assert free.layout.defaults.keys() == values.keys()
    options = {} if name in COMPLETE else {"frame": "frame-1"}
    made = lb.Robot(rebuilt(tree, values), values["gravity"])
    kernel, plain = free.kernel(name, **options), made.kernel(name, **options)
    arrays = [made._sample(argument, rng) for argument in plain.inputs]
    found = evaluated(kernel, *arrays, free.packed(values))
    for one, other in zip(found, evaluated(plain, *arrays), strict=True):
        close(one, other, 1e-13 * max(1, np.linalg.cond(made.mass_matrix(made.random(rng)))) ** 0.5)


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "mass_matrix", "pose"])
def test_loops_over_steps_have_parameters_as_straight_lines_have(tree, name, monkeypatch):
    """Symbols of a joint's axis stand outside the steps that become loops."""
    rng = np.random.default_rng(8)
    joints = ["revolute", "prismatic"] * 8
    long = random_tree(rng, joints)
    robot, values = lb.Robot(long), random_values(long, rng)
    assert values.keys() == robot.parameters.keys()
    free = robot.with_parameters(*robot.parameters)
    options = {"frame": "frame-1"} if name == "pose" else {}
    monkeypatch.setattr("liebody.codegen.passes.LONG", 10**9)
    straight = free.kernel(name, **options).function
    monkeypatch.setattr("liebody.codegen.passes.LONG", 0)
    looped = (
        robot.with_parameters(*reversed([*robot.parameters]), {"own": 1.0}).kernel(name, **options).function
    )
    assert isinstance(looped, Program) or name == "pose"
    arrays = [robot._sample(argument, rng) for argument in looped.inputs if argument != "parameters"]
    expected = straight(*arrays, free.packed(values))
    flat = np.append(free.packed(values), 1.0)
    found = looped.evaluate(*arrays, flat) if isinstance(looped, Program) else looped(*arrays, flat)
    close(found, expected, 1e-11)


@pytest.mark.parametrize("form", ["revolute", "prismatic"])
def test_axes_that_are_symbols_share_with_parents_only_what_every_axis_does(form):
    """Base moments of a joint about an unknown axis: an arm whose axis turns from z to any other."""
    rng = np.random.default_rng(1)
    inertia = random_inertia(rng)
    group = Revolute([0, 0, 1]) if form == "revolute" else Prismatic([0, 0, 1])
    tree = TreeBuilder().add("a", Revolute([0, 1, 0]), inertia).add("b", group, inertia, "a").build()
    robot = lb.Robot(tree).with_parameters("b.axis")
    axis = np.array([0.6, 0.0, 0.8])
    other = group.along(axis)
    assert other == (Revolute(axis) if form == "revolute" else Prismatic(axis))
    made = TreeBuilder().add("a", Revolute([0, 1, 0]), inertia).add("b", other, inertia, "a").build()
    q, v, a = rng.normal(size=(3, 2))
    found = robot.inverse_dynamics(q, v, a, parameters={"b.axis": axis})
    close(found, lb.Robot(made).inverse_dynamics(q, v, a), 1e-14)


@pytest.fixture
def arm():
    return lb.models.puma560()


def count_of_runs(monkeypatch):
    """How often the compiler is run, and functions are traced."""
    compiled, traced = [], []
    library, on_symbols = build.library, lb.codegen.graph.run_on_symbols
    monkeypatch.setattr(build, "library", lambda *given: compiled.append(1) or library(*given))
    for module in (lb.codegen.graph, lb.codegen.steps):
        monkeypatch.setattr(module, "run_on_symbols", lambda *given: traced.append(1) or on_symbols(*given))
    return compiled, traced


@needs_compiler
def test_new_values_compile_and_trace_nothing(arm, monkeypatch):
    q, v, a = np.random.default_rng(0).normal(size=(3, 6))
    name = f"{arm.tree.bodies[-1].name}.mass"
    found = [arm.inverse_dynamics(q, v, a, parameters={name: 0.1})]
    robot = arm.with_parameters(name)
    batch = np.tile(q, (100, 1))
    robot.inverse_dynamics(batch, v, a)
    compiled, traced = count_of_runs(monkeypatch)
    for mass in (0.2, 0.3):
        found.append(arm.inverse_dynamics(q, v, a, parameters={name: mass}))
        bound = arm.with_parameters({name: mass})
        assert np.array_equal(bound.inverse_dynamics(q, v, a), found[-1])
        assert np.array_equal(robot.inverse_dynamics(q, v, a, parameters=[mass]), found[-1])
    several = robot.inverse_dynamics(batch, v, a, parameters={name: np.linspace(0.2, 0.3, 100)}, threads=2)
    assert not compiled and not traced
    close(several[[0, -1]], found[1:], 1e-14)
    assert abs(found[0] - found[1]).max() > 1e-3


@needs_compiler
def test_single_calls_and_batches_of_a_robot_with_parameters_go_through_the_entry(arm, monkeypatch):
    robot = arm.with_parameters("gravity")
    q = np.zeros((3, 6))
    robot.gravity(q), robot.pose(q[0], arm.tree.bodies[-1].name)
    monkeypatch.setattr(lb.codegen.Kernel, "general", lambda *given, **options: pytest.fail("the long way"))
    robot.entries.clear()
    for kernel in robot.kernels.values():
        vars(kernel).pop("call", None)
    robot.gravity(q)
    weightless = np.zeros((3, 3))
    assert not robot.gravity(q, parameters=weightless).any() and robot.gravity(q).any()
    assert not robot.gravity(q[0], parameters={"gravity": weightless[0]}).any()


def test_values_are_read_by_name_and_by_place(arm):
    robot = arm.with_parameters("gravity", {"K_p": [1.0, 2.0]})
    assert robot.parameters.free == ("gravity", "K_p")
    assert np.array_equal(robot.packed(), [0, 0, -9.81, 1, 2])
    several = robot.packed({"K_p": [[3, 4], [5, 6]]})
    assert np.array_equal(several, [[0, 0, -9.81, 3, 4], [0, 0, -9.81, 5, 6]])
    assert np.array_equal(robot.packed(several), several)
    assert robot.with_parameters("K_p") is robot.with_parameters("gravity") is robot
    again = robot.with_parameters({"gravity": [0, 0, -1.6]})
    assert np.array_equal(again.values, [0, 0, -1.6, 1, 2]) and again.kernels is robot.kernels
    assert np.array_equal(again.gravity_vector, [0, 0, -1.6])


def test_the_table_of_parameters_has_names_shapes_units_and_values(arm):
    body = arm.tree.bodies[2]
    table = arm.with_parameters(f"{body.name}.mass").parameters
    mass = table[f"{body.name}.mass"]
    assert (mass.shape, mass.unit, mass.value) == ((), "kg", body.inertia.mass)
    assert table[f"{body.joint.name}.axis"].shape == (3,) and table[f"{body.joint.name}.damping"].unit
    assert f"* {body.name}.mass" in repr(table) and len(repr(table).splitlines()) == len(table)


def test_a_robot_with_parameters_is_sent_to_other_processes(arm):
    robot = arm.with_parameters({"gravity": [0, 0, -1.6]})
    sent = pickle.loads(pickle.dumps(robot))
    assert np.array_equal(sent.gravity(sent.neutral()), robot.gravity(robot.neutral()))
    assert sent.parameters.free == ("gravity",)


def test_derivatives_by_parameters_are_columns_of_the_regressor(arm):
    """tau is linear in masses times (1, c, ...): d tau/dm at fixed centre and inertia about it."""
    body = arm.tree.bodies[-1]
    robot = arm.with_parameters(f"{body.name}.mass")
    q, v, a = np.random.default_rng(0).normal(size=(3, 6))
    slope = robot.derivatives("inverse_dynamics", wrt="parameters")(q, v, a, robot.values)
    masses = {f"{body.name}.mass": [1.0, 2.0]}
    one, two = robot.inverse_dynamics(q, v, a, parameters=masses)
    assert slope.shape == (6, 1)
    close(slope[:, 0], two - one, 1e-13)


BAD = {
    "{body}.mass": (-0.2, ModelError, "of member 1 is -0.2 kg, expected a positive mass"),
    "{body}.inertia": ([1, 0, 0, 1, 0, 3], ModelError, "of member 1 is .* triangle inequality"),
    "{joint}.axis": ([0, 0, 2], ModelError, "of member 1 is .* norm 1; divide it by its norm"),
    "{joint}.orientation": ([1, 0, 0, 0.1], ModelError, "of member 1 is .* norm 1"),
    "{joint}.damping": (-1, ModelError, "of member 1 is -1.0 N m s/rad, expected zero or more"),
    "{joint}.friction": (-1, ModelError, "of member 1 is -1.0 N m, expected zero or more"),
    "{joint}.position": ([0, np.inf, 0], ConfigurationError, "finite numbers"),
    "gravity": ([0, np.nan, 0], ConfigurationError, "finite numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_values_that_no_mechanism_can_have_are_refused_at_the_door(arm, name):
    body = arm.tree.bodies[-1]
    bad, error, words = BAD[name]
    name = name.format(body=body.name, joint=body.joint.name)
    robot = arm.with_parameters(name)
    values = np.stack([robot.parameters[name].value, bad])
    q = np.zeros(6)
    with pytest.raises(error, match=words):
        robot.gravity(q, parameters={name: values})
    with pytest.raises(error):
        arm.with_parameters({name: bad})


def test_an_inertia_that_is_not_positive_definite_is_refused(arm):
    name = f"{arm.tree.bodies[0].name}.inertia"
    with pytest.raises(ModelError, match="negative principal moment"):
        arm.with_parameters({name: [1, 2, 0, 1, 0, 2]})
    assert arm.with_parameters({name: [1, 0, 0, 1, 0, 2]})  # a disc, at the limit


def test_what_a_robot_has_itself_is_taken_as_it_is(arm):
    """Of PUMA's first link the inertia about its axis alone is known: no body has this inertia."""
    name = f"{arm.tree.bodies[0].name}.inertia"
    robot = arm.with_parameters(name)
    assert not np.any(arm.gravity(np.zeros(6), parameters={name: robot.values}) - arm.gravity(np.zeros(6)))
    with pytest.raises(ModelError, match="triangle inequality"):
        robot.packed(2 * robot.values)


def test_axes_and_quaternions_have_norm_one_to_round_off(arm):
    joint = arm.tree.bodies[0].joint.name
    robot = arm.with_parameters(f"{joint}.axis", f"{joint}.orientation")
    flat = robot.packed({f"{joint}.axis": [0, 1e-7, 1], f"{joint}.orientation": [1, 0, 0, 1e-7]})
    parts = robot.layout.named(flat).values()
    assert all(abs(np.linalg.norm(x) - 1) < 1e-15 for x in parts)


def test_wrong_names_and_shapes_are_named(arm):
    body = arm.tree.bodies[0].name
    with pytest.raises(ModelError, match=rf"did you mean {body}.mass"):
        arm.with_parameters(f"{body}.mas")
    with pytest.raises(ModelError, match="no parameter 'K-p'"):
        arm.with_parameters({"K-p": 1.0})
    with pytest.raises(ShapeError, match=r"expected \(3,\)"):
        arm.with_parameters({"gravity": 9.81})
    with pytest.raises(ModelError, match="there is no parameter 'K_p'; there are gravity"):
        arm.with_parameters("gravity").packed({"K_p": 1.0})
    with pytest.raises(ShapeError, match=r"shape \(2,\), expected \(\.\.\., 3\)"):
        arm.with_parameters("gravity").gravity(np.zeros(6), parameters=[0, 0])
    with pytest.raises(ModelError, match="without names"):
        arm.gravity(np.zeros(6), parameters=[0, 0, 1])
