"""Parameters: robots of one structure and many numbers, in calls, simulations, sweeps, equations and C."""

from __future__ import annotations

import pickle
from inspect import Parameter

import numpy as np
import pytest
import sympy as sp
from random_trees import close, random_inertia, random_tree

import liebody as lb
from liebody import contact, dynamics, hybrid
from liebody.base.errors import (
    ConfigurationError,
    IntegrationError,
    LiebodyError,
    ModelError,
    ShapeError,
    UnknownName,
)
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler import Program
from liebody.compiler.native import build
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.groups import SE3, SO3, Prismatic, Revolute
from liebody.robot import kernels_of
from liebody.simulation.simulate import CalledEfforts
from liebody.symbolic.parameters import with_symbols

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
    found = compile_numpy(function)(*arrays) if isinstance(function, Program) else function(*arrays)
    return found if isinstance(found, tuple) else (found,)


@pytest.fixture(scope="module")
def tree():
    return random_tree(np.random.default_rng(5), JOINTS, followers=1, rotors=False)


COMPLETE = [name for name, (algorithm, _) in kernels_of(lb.Robot).items() if algorithm.is_complete]


@pytest.mark.parametrize("name", [*COMPLETE, "pose", "jacobian", "acceleration"])
@pytest.mark.many
def test_a_function_with_parameters_is_that_of_the_tree_rebuilt_with_their_values(tree, name):
    rng = np.random.default_rng(7)
    robot = lb.Robot(tree)
    values = random_values(tree, rng)
    free = robot.with_parameters(*values)
    assert free.layout.defaults.keys() == values.keys()
    options = {} if name in COMPLETE else {"frame": "frame-1"}
    made = lb.Robot(rebuilt(tree, values), values["gravity"])
    kernel, plain = free.kernel(name, **options), made.kernel(name, **options)
    arrays = [made._sample(argument, shape, rng) for argument, shape in plain.inputs.items()]
    found = evaluated(kernel, *arrays, free.packed(values))
    for one, other in zip(found, evaluated(plain, *arrays), strict=True):
        close(one, other, 1e-13 * max(1, np.linalg.cond(made.mass_matrix(made.random(rng)))) ** 0.5)


@pytest.mark.parametrize("name", kernels_of(lb.Robot))
@pytest.mark.many
def test_symbols_of_a_tree_are_parameters_of_every_algorithm(name):
    robot = lb.models.revolute_hopper()
    tree, values = with_symbols(robot.tree)
    symbolic = lb.Robot(tree, robot.gravity_vector)
    values = {symbol.name: x for symbol, x in values.items()}
    assert symbolic.symbols.keys() == values.keys() == set(symbolic.parameters.free) and len(values) == 8
    algorithm, _ = kernels_of(lb.Robot)[name]
    said = {"frame": "foot", "task": dynamics.Task("foot", (3,))}
    options = {k: said[k] for k, x in algorithm.options.items() if x is Parameter.empty}
    kernel, plain = symbolic.kernel(name, **options), robot.kernel(name, **options)
    rng = np.random.default_rng(3)
    arrays = [robot._sample(argument, shape, rng) for argument, shape in plain.inputs.items()]
    found = evaluated(kernel, *arrays, symbolic.packed(values))
    for one, other in zip(found, evaluated(plain, *arrays), strict=True):
        close(one, other, 1e-12)


def test_symbols_of_a_tree_need_values():
    m, k, l, c = sp.symbols("m k l c", positive=True)
    joint = Joint("hinge", Revolute([0, 1, 0]), damping=c, armature=k * m * l**2)
    bob = SpatialInertia(m, [0, 0, -l / 2], sp.diag(1, 1, sp.Rational(1, 10)) * sp.sqrt(m * l) / 12)
    tree = TreeBuilder("rod").add("rod", joint, bob).frame("tip", "rod", [0, 0, -l * sp.cos(k)]).build()
    robot, values = lb.Robot(tree), {"m": 0.5, "k": 0.3, "l": 2.0, "c": 0.1}
    assert robot.mass == m and f"* {'m':9}" in repr(robot.parameters)[-200:]
    for call in (lambda: robot.gravity([0.1]), lambda: robot.gravity([0.1], parameters={"m": 1.0, "l": 1.0})):
        with pytest.raises(
            ModelError, match=r"rod has no value of its symbols (m, l, )?c, k; give parameters={'"
        ):
            call()
    known = robot.with_parameters(values)
    assert known.mass == 0.5 and known.tree.joint("hinge").damping == 0.1
    for found in (robot.pose([0.0], "tip", parameters=values), known.pose([0.0], "tip")):
        close(found[:3, 3], [0, 0, -2 * np.cos(0.3)], 1e-15)
    lengths = np.array([0.5, 1.0, 2.0])
    found = robot.mass_matrix([[0.0]] * 3, parameters={**values, "l": lengths})
    close(found[:, 0, 0], np.sqrt(lengths / 2) / 12 + 0.5 * lengths**2 * (1 / 4 + 0.3), 1e-15)
    one, other = (
        lb.simulate(r, [0.3], t_end=1.0, dt=1e-2, joints={"damping", "armature"}, **given)
        for r, given in ((robot, {"parameters": values}), (lb.Robot(known.tree), {}))
    )
    close(one.q, other.q, 1e-13)
    assert lb.equations(known).values == {m: 0.5, k: 0.3, l: 2.0, c: 0.1, sp.Symbol("g", positive=True): 9.81}


TOUCHING = {  # points at a length that is a symbol, and options of simulations
    "springs": (contact.Contact("foot", settling=0.05), {}),
    "one foot at a time": (contact.PointFeet("foot", "shank"), {}),
    "time stepping": (
        contact.Contact("foot", "shank", friction=0.8, stiffness=1e5, damping=1e2),
        {"method": "time-stepping", "dt": 1e-3},
    ),
}


@pytest.mark.parametrize("name", TOUCHING)
@pytest.mark.many
def test_points_touch_the_ground_where_the_lengths_of_the_member_have_them(name):
    ground, options = TOUCHING[name]
    spring = hybrid.RadialSpring("foot", K_r=2200, r_des=0.14)
    symbol = lb.models.revolute_hopper(length=sp.Symbol("l")).with_parameters({"l": 0.12})
    ends = []
    for robot, given in ((symbol, {"l": 0.13}), (lb.models.revolute_hopper(length=0.13), {})):
        system = hybrid.robot_system(robot, spring, ground, ledger=False)
        run = system.simulate(
            [-2.5, 0, 0.22, 1.8],
            [0.3, -0.2, 0.1, 0],
            t_end=0.15,
            parameters=given,
            record_every=0.15,
            **options,
        )
        ends.append((run.final.q, run.final.v))
    close(ends[0][0], ends[1][0], 1e-10)
    close(ends[0][1], ends[1][1], 1e-9)


@pytest.mark.parametrize("word", ["length", "mass", "inertia", "axis", "damping"])
def test_symbols_may_have_the_names_of_quantities(word):
    """They are numbers of the user: what a link's mass or a joint's axis may be does not hold for them."""
    hopper = lb.models.revolute_hopper(length=sp.Symbol(word)).with_parameters({word: 0.15})
    q = np.array([0.1, 0.2, 0.3, 0.4])
    close(hopper.mass_matrix(q), lb.models.revolute_hopper(length=0.15).mass_matrix(q), 1e-15)
    halves = hopper.mass_matrix(q, parameters={word: [0.15, 0.075]})
    close(halves[1], lb.models.revolute_hopper(length=0.075).mass_matrix(q), 1e-15)


@pytest.mark.parametrize(
    ("mass", "message"),
    [
        (sp.Symbol("m") + sp.Symbol("m", positive=True), "'m' is one word, m, with another symbol"),
        (sp.Symbol("gravity"), "the gravity of robots; give it another name"),
        (sp.gamma(sp.Symbol("m")), r"gamma\(m\) of SymPy .* powers by numbers, sin, cos"),
    ],
)
def test_symbols_that_no_robot_can_take_are_refused(mass, message):
    tree = TreeBuilder().add("a", Revolute([0, 1, 0]), SpatialInertia(mass, [1, 0, 0])).build()
    with pytest.raises(ModelError, match=message):
        lb.Robot(tree).kernel("mass_matrix")


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
    monkeypatch.setattr("liebody.compiler.programs.passes.LONG", 10**9)
    straight = free.kernel(name, **options).function
    monkeypatch.setattr("liebody.compiler.programs.passes.LONG", 0)
    looped = (
        robot.with_parameters(*reversed([*robot.parameters]), {"own": 1.0}).kernel(name, **options).function
    )
    assert isinstance(looped, Program) or name == "pose"
    inputs = {argument: x.shape for argument, x in looped.inputs.items() if argument != "parameters"}
    arrays = [robot._sample(argument, shape, rng) for argument, shape in inputs.items()]
    expected = straight(*arrays, free.packed(values))
    flat = np.append(free.packed(values), 1.0)
    found = compile_numpy(looped)(*arrays, flat) if isinstance(looped, Program) else looped(*arrays, flat)
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
    library, on_symbols = build.library, lb.compiler.graph.graph.run_on_symbols
    monkeypatch.setattr(build, "library", lambda *given: compiled.append(1) or library(*given))
    for module in (lb.compiler.graph.graph, lb.compiler.programs.repeats):
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
    monkeypatch.setattr(lb.compiler.Kernel, "general", lambda *given, **options: pytest.fail("the long way"))
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
    "{joint}.position": ([0, np.inf, 0], ConfigurationError, "finite number"),
    "gravity": ([0, np.nan, 0], ConfigurationError, "finite number"),
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


@pytest.mark.parametrize("later", [False, True], ids=["first call", "later call"])
@pytest.mark.parametrize("form", ["one", "batch", "list", "float32", "threads", "derivative"])
def test_arrays_of_parameters_are_refused_by_name_as_values_by_name_are(form, later):
    robot = lb.load("double_pendulum").with_parameters("link2.mass", "link2.axis", "link2.damping", "gravity")
    good, q = robot.packed(), np.array([0.3, 0.4])
    assert np.array_equal(good, [1, 0, 0, 1, 0, 0, 0, -9.81])
    robot = lb.Robot(robot.tree).with_parameters(*robot.parameters.free)  # nothing is compiled yet

    def called(flat):
        if form == "derivative":
            return robot.derivatives("gravity", "parameters")(q, flat)
        given = np.tile(good, (100, 1))
        given[70] = flat
        options = {"threads": 2} if form == "threads" else {}
        of = {"one": flat, "list": flat.tolist(), "float32": flat.astype(np.float32)}
        return robot.gravity(q, parameters=of.get(form, given), **options)

    if later:
        called(good), called(good)
    for place, value, error, words in [
        (0, -1.0, ModelError, r"link2\.mass.* is -1\.0.*, expected a positive (number|mass)"),
        (0, 0.0, ModelError, r"link2\.mass.* is 0\.0.*, expected a positive (number|mass)"),
        (0, np.nan, ConfigurationError, r"link2\.mass.* is nan, expected a finite number"),
        (3, -2.0, LiebodyError, r"link2\.axis.* norm"),
        (4, -1e-3, ModelError, r"link2\.damping.* is -0\.001.*, expected zero or more"),
        (7, -np.inf, ConfigurationError, r"gravity.*2\].* is -inf, expected a finite number"),
    ]:
        wrong = good.copy()
        wrong[place] = value
        with pytest.raises(error, match=words):
            called(wrong)
    with pytest.raises(ShapeError, match=r"shape \(7,\), expected .*link2\.mass.*gravity"):
        robot.gravity(q, parameters=good[:-1])
    assert np.isfinite(called(good)).all()


def test_a_link_without_mass_of_its_own_may_stay_so_in_arrays_of_parameters():
    tree = TreeBuilder("weightless")
    tree.add("hinge", Revolute([0, 1, 0]), SpatialInertia(0.0, np.zeros(3), np.zeros((3, 3))))
    tree.add("bob", Revolute([0, 1, 0]), SpatialInertia.box(1.0, (0.1, 0.1, 0.1)), "hinge", [0.3, 0, 0])
    robot = lb.Robot(tree.build()).with_parameters("hinge.mass")
    for mass in (0.0, 1.0):
        assert robot.gravity(np.zeros(2), parameters=np.array([mass])).shape == (2,)
    with pytest.raises(ModelError, match=r"hinge\.mass.* expected zero or more"):
        robot.gravity(np.zeros(2), parameters=np.array([-1.0]))


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
    for call in (arm.gravity, lambda q, **given: arm.energy(q, q, **given)):  # also if it is the only name
        with pytest.raises(ModelError, match=rf"did you mean {body}.mass"):
            call(np.zeros(6), parameters={f"{body}.mas": 1.0})
    with pytest.raises(ModelError, match="no parameter 'K-p'"):
        arm.with_parameters({"K-p": 1.0})
    with pytest.raises(ShapeError, match=r"expected \(3,\)"):
        arm.with_parameters({"gravity": 9.81})
    with pytest.raises(ModelError, match="there is no parameter 'K_p'; known are gravity"):
        arm.with_parameters("gravity").packed({"K_p": 1.0})
    with pytest.raises(ShapeError, match=r"shape \(2,\), expected \(\.\.\., 3\)"):
        arm.with_parameters("gravity").gravity(np.zeros(6), parameters=[0, 0])
    with pytest.raises(ModelError, match="without names"):
        arm.gravity(np.zeros(6), parameters=[0, 0, 1])


# -- simulations --------------------------------------------------------------------------------------------


METHODS = ["rkmk4", "cf4", "generalized-alpha", "variational", "half-explicit3", "radau5", "gauss4"]


@pytest.fixture(scope="module")
def pendulum():
    """A ball joint that carries an arm on a hinge, with damping."""
    tree = TreeBuilder("pendulum").add(
        "ball", lb.groups.Spherical(), random_inertia(np.random.default_rng(0))
    )
    joint = Joint("elbow", Revolute([0, 1, 0]), damping=0.1)
    tree.add("arm", joint, random_inertia(np.random.default_rng(1)), "ball", [0, 0, -0.5])
    return lb.Robot(tree.build())


VALUES = {"arm.mass": [0.7, 1.9, 1.2], "arm.center": [0.1, 0.2, -0.3], "elbow.position": [0.1, 0, -0.4],
          "elbow.damping": [0.0, 0.3, 0.2], "gravity": [0.0, 3.0, -8.0]}  # fmt: skip


def ordinary(robot, i):
    """The robot of member i as one without parameters."""
    single = {"arm.mass": VALUES["arm.mass"][i], "elbow.damping": VALUES["elbow.damping"][i]}
    bound = robot.with_parameters({**VALUES, **single})
    return lb.Robot(bound.tree, bound.gravity_vector)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.wide
def test_a_member_moves_as_the_robot_with_its_numbers(pendulum, method):
    options = {"t_end": 0.2, "dt": 0.01, "method": method}
    v0 = [1.0, -0.5, 0.3, 2.0]
    run = lb.simulate(pendulum, None, v0, parameters=VALUES, **options)
    assert run.q.shape == (3, 21, 5) and run.parameters["elbow.position"].shape == (3, 3)
    for i in range(3):
        expected = lb.simulate(ordinary(pendulum, i), None, v0, **options)
        close(run.q[i], expected.q, 1e-11)
        close(run.v[i], expected.v, 1e-11)
        close(run.energy[i], expected.energy, 1e-11)
        close(run.member(i).energy, expected.energy, 1e-11)


@pytest.mark.parametrize("method", ["rkmk45", "radau5"])
@pytest.mark.many
def test_error_control_sees_the_members_parameters(pendulum, method):
    v0 = [1.0, -0.5, 0.3, 2.0]
    run = lb.simulate(pendulum, None, v0, t_end=0.3, parameters=VALUES, method=method, rtol=1e-9)
    for i in range(3):
        exact = lb.simulate(ordinary(pendulum, i), None, v0, t_end=0.3, dt=1e-3, method="rkmk8")
        assert np.abs(run.q[i, -1] - exact.q[-1]).max() < 1e-7


def gains(t, q, v, p):
    return -p.K_p * q[1:] - p.K_d * v + p.arm_mass * np.array([0, 0, 0, 1.0]) * t


ORDERS = {"rkmk4": (4, 0.0075), "rkmk2": (2, 0.01), "radau5": (5, 0.06), "generalized-alpha": (2, 0.03)}


@pytest.mark.parametrize("method", ORDERS)
@pytest.mark.many
def test_methods_keep_their_order_with_parameters_and_gains(pendulum, method):
    given = {"arm.mass": [0.5, 2.0], "K_p": [3.0, 5.0], "K_d": 0.2}

    def end(method, dt):
        return lb.simulate(
            pendulum, None, [1.0, 0, 0, 1], t_end=0.48, dt=dt, method=method, tau=gains, parameters=given
        ).v[:, -1]

    exact = end("rkmk8", 2e-3)
    order, h = ORDERS[method]
    coarse, fine = (np.abs(end(method, dt) - exact).max(axis=-1) for dt in (h, h / 2))
    assert (abs(np.log2(coarse / fine) - order) < 0.15).all()


@pytest.mark.parametrize("method", ["rkmk4", "radau5"])
@pytest.mark.many
def test_gains_act_as_numbers_in_the_controller_do(pendulum, method):
    options = {"t_end": 0.2, "dt": 0.01, "method": method}
    run = lb.simulate(
        pendulum, None, tau=gains, parameters={"K_p": [3, 5], "K_d": 0.2, "arm.mass": 1.5}, **options
    )
    bound = pendulum.with_parameters({"arm.mass": 1.5})
    mass = np.array([0, 0, 0, 1.0]) * 1.5
    for i, K in enumerate((3.0, 5.0)):
        expected = lb.simulate(bound, tau=lambda t, q, v, K=K: -K * q[1:] - 0.2 * v + mass * t, **options)
        close(run.q[i], expected.q, 1e-12)
        close(run.tau[i], expected.tau, 1e-12)
    assert run.parameters["K_p"].tolist() == [3, 5] and run.metadata["parameters"] == "arm.mass, K_p, K_d"


def test_efforts_that_can_only_be_called_take_the_members_parameters(pendulum):
    def called(t, q, v, p):
        return -float(p.K_p) * np.array(q[1:]) if float(q[0]) < 2 else None

    options = {"t_end": 0.1, "dt": 0.01, "parameters": {"arm.mass": [0.5, 1.0], "K_p": [1.0, 4.0]}}
    v0 = [1.0, 0, 0, 1]
    with pytest.warns(CalledEfforts):
        run = lb.simulate(pendulum, None, v0, tau=called, **options)
    expected = lb.simulate(pendulum, None, v0, tau=lambda t, q, v, p: -p.K_p * q[1:], **options)
    close(run.q, expected.q, 1e-12)
    close(run.tau, expected.tau, 1e-12)


def test_methods_of_a_robot_take_the_parameters_within_traced_efforts(pendulum):
    """tau = g(q) of the plant holds it at rest; g(q) of the nominal robot does not."""
    q0 = pendulum.random(0)
    robot = pendulum.with_parameters("arm.mass")
    options = {"t_end": 0.1, "dt": 0.01, "parameters": {"arm.mass": [0.5, 3.0]}}
    still = lb.simulate(robot, q0, tau=lambda t, q, v, p: robot.gravity(q, parameters=p), **options)
    assert np.abs(still.v).max() < 1e-13
    assert np.abs(lb.simulate(robot, q0, tau=lambda t, q, v: robot.gravity(q), **options).v).max() > 1e-2


@pytest.mark.wide
def test_sampled_efforts_and_events_go_with_parameters(pendulum):
    times = np.linspace(0, 0.3, 4)
    tau = times, np.random.default_rng(0).normal(size=(3, 4, 4))

    def passing(t, q, v, p):
        return v[3] - p.level

    given = {**VALUES, "level": [0.0, 0.1, 0.2]}
    options = {"t_end": 0.3, "dt": 0.01, "hold": "linear"}
    run = lb.simulate(pendulum, parameters=given, tau=tau, events={"passing": passing}, **options)
    for i, level in enumerate(given["level"]):
        expected = lb.simulate(
            ordinary(pendulum, i),
            tau=(times, tau[1][i]),
            events={"passing": lambda t, q, v, level=level: v[3] - level},
            **options,
        )
        close(run.q[i], expected.q, 1e-12)
        close(run.events[i].t, expected.events.t, 1e-12)
        assert len(run.events[i])


@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha"])
@pytest.mark.many
def test_a_stepper_takes_the_steps_of_the_simulation(pendulum, method):
    rng = np.random.default_rng(0)
    u, options = rng.normal(size=(5, 3, 4)), {"method": method, "parameters": VALUES}
    sim = lb.stepper(pendulum, dt=0.01, members=3, **options)
    state = sim.start()
    u[0] = 0  # of which generalized-alpha makes its memory at the start
    for efforts in u:
        state = sim.step(state, efforts)
    held = 0.01 * np.arange(5), u.transpose(1, 0, 2)
    run = lb.simulate(pendulum, t_end=0.05, dt=0.01, tau=held, **options)
    assert np.array_equal(state.q, run.q[:, -1]) and np.array_equal(state.v, run.v[:, -1])
    anew = sim.reset(sim.reset(state, np.zeros(3, bool)), [1], v0=[1.0, 0, 0, 0])
    alone = lb.stepper(ordinary(pendulum, 1), dt=0.01, method=method)
    close(sim.step(anew).q[1], alone.step(alone.start(v0=[1.0, 0, 0, 0])).q, 1e-12)
    assert lb.stepper(pendulum, dt=0.01, **options).start().q.shape == (3, 5)  # members as the parameters
    with pytest.raises(ShapeError, match=r"parameters have the leading axes \(3,\)"):
        lb.stepper(pendulum, dt=0.01, members=2, **options)


@needs_compiler
@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha"])
def test_a_simulation_with_new_values_compiles_nothing_and_traces_its_efforts_alone(
    pendulum, method, monkeypatch
):
    options = {"t_end": 0.1, "dt": 0.01, "method": method}

    def run(K, mass):
        given = {"K_p": K, "K_d": 0.1, "arm.mass": mass}
        return lb.simulate(pendulum, tau=gains, parameters=given, **options).q[..., -1, :]

    first = run(1.0, 1.0)
    compiled, traced = count_of_runs(monkeypatch)
    second = run(2.0, 0.5)
    bound = pendulum.with_parameters({"arm.mass": 0.5})
    third = lb.simulate(bound, tau=gains, parameters={"K_p": 2.0, "K_d": 0.1}, **options).q[-1]
    assert not compiled and len(traced) <= 4
    assert np.array_equal(second, third) and np.abs(first - second).max() > 1e-4


def test_an_ensemble_has_the_axes_of_states_and_parameters(pendulum):
    v0 = np.random.default_rng(0).normal(size=(4, 4))
    options = {"t_end": 0.02, "dt": 0.01}
    run = lb.simulate(pendulum, None, v0, parameters={"arm.mass": [[0.5], [1.0]]}, **options)
    assert run.q.shape == (2, 4, 3, 5) and run.parameters["arm.mass"].shape == (2, 4)
    one = lb.simulate(pendulum.with_parameters({"arm.mass": 1.0}), None, v0[3], **options)
    close(run.q[1, 3], one.q, 1e-14)
    with pytest.raises(ShapeError, match=r"parameters \(3,\) differ in their leading axes"):
        lb.simulate(pendulum, None, v0, parameters={"arm.mass": [1, 2, 3]}, **options)
    with pytest.raises(
        ShapeError, match=r"axes of arm\.mass \(3,\) and K \(4, 4\) differ; .* with_parameters"
    ):
        given = {"arm.mass": [1, 2, 3], "K": np.eye(4)}
        lb.simulate(pendulum, parameters=given, tau=lambda t, q, v, p: -p.K @ v, **options)


def test_names_of_simulations_that_nobody_knows_are_refused(pendulum):
    options = {"t_end": 0.02, "dt": 0.01}
    with pytest.raises(ModelError, match=r"did you mean arm\.mass"):
        lb.simulate(pendulum, parameters={"arm.mas": 1.0}, **options)
    with pytest.raises(ModelError, match=r"no parameter .K_p"):
        lb.simulate(pendulum, parameters={"K_p": 1.0}, tau=lambda t, q, v, K_p=2.0: -K_p * v, **options)
    with pytest.raises(IntegrationError, match="takes parameters, and there are none"):
        lb.simulate(pendulum, tau=gains, **options)
    with pytest.raises(UnknownName, match="no parameter 'K_d' that has a value; known are K_p"):
        lb.simulate(pendulum, parameters={"K_p": 1.0}, tau=gains, **options)
    with pytest.raises(ModelError, match=r"of member 1 is -1\.0 kg"):
        lb.simulate(pendulum, parameters={"arm.mass": [1.0, -1.0]}, **options)
    with pytest.raises(IntegrationError, match="has no parameters"):
        lb.simulate(lb.mechanisms.OpenTree(pendulum.tree), parameters={"arm.mass": 1.0}, **options)


# -- hybrid systems, sweeps, equations, C -------------------------------------------------------------------


def dropped(robot, **options):
    """A monopod that is dropped on its leg, which a spring holds."""
    elements = lb.contact.Contact("foot"), lb.hybrid.JointPD(K=[500.0], q_des=[0.3], D=[2.0])
    return lb.hybrid.robot_system(robot, *elements, **options)


@pytest.fixture(scope="module")
def hopper():
    return lb.models.prismatic_hopper()


@pytest.mark.wide
def test_a_hybrid_system_takes_the_parameters_of_its_robot(hopper):
    given = {"base.mass": [0.5, 1.5], "gravity": [[0, 0, -9.81], [0, 0, -5.0]]}
    q0, options = [-np.pi / 2, 0, 0.33, 0.3], {"t_end": 0.3, "record_every": 0.1}
    system = dropped(hopper.with_parameters(*given))
    run = system.simulate(q0, parameters=given, **options)
    assert run.parameters["gravity"].shape == (2, 3) and min(map(len, run.events))
    bound = hopper.with_parameters({name: x[1] for name, x in given.items()})
    expected = dropped(lb.Robot(bound.tree, bound.gravity_vector)).simulate(q0, **options)
    close(run.q[1], expected.q, 1e-8)
    close(run.outputs["kinetic_energy"][1], expected.outputs["kinetic_energy"], 1e-7)
    for ledger in (system.ledger(run, i) for i in range(2)):
        assert abs(ledger.residual) < 1e-5 * ledger.throughput
    with pytest.raises(ModelError, match=r"base.mass of member .* is -1.0 kg"):
        system.simulate(q0, parameters={"base.mass": [1.0, -1.0]}, **options)
    with pytest.raises(ShapeError, match=r"axes of base\.mass \(2,\) and gravity \(3,\) differ"):
        system.simulate(q0, parameters={"base.mass": [1.0, 2.0], "gravity": np.zeros((3, 3))}, **options)
    with pytest.raises(ModelError, match="leave out gravity"):
        dropped(hopper.with_parameters(*given), gravity=(0, 0, -1))


def test_a_sweep_takes_parameters_of_a_robot_and_gains(pendulum, tmp_path):
    options = {"v0": [1.0, 0, 0, 1], "t_end": 0.1, "dt": 0.01, "tau": gains}
    axes = {"arm.mass": [0.5, 1.0, 2.0], "K_p": [1.0, 3.0]}
    store = lb.sweep(pendulum, axes, tmp_path / "s", workers=0, parameters={"K_d": 0.1}, **options)
    assert store.q.shape[:2] == (3, 2) and store.q.dims[:2] == ("arm.mass", "K_p")
    given = {"arm.mass": 2.0, "K_p": 3.0, "K_d": 0.1}
    close(store.q[2, 1], lb.simulate(pendulum, None, parameters=given, **options).q, 1e-12)
    with pytest.raises(lb.base.errors.SweepError, match="nothing depends on 'K_p'"):
        lb.sweep(pendulum, axes, tmp_path / "t", workers=0, t_end=0.1, dt=0.01)


def test_free_parameters_are_symbols_of_the_closed_forms():
    import sympy

    robot = lb.models.double_pendulum()
    second = robot.tree.bodies[1].name
    free = robot.with_parameters({f"{second}.mass": 3.0}, "gravity")
    eq = lb.equations(free)
    names = {str(s): s for s in eq.parameters}
    assert set(names) == {f"{second}_mass", "gravity_x", "gravity_y", "gravity_z"}
    assert eq.values[names[f"{second}_mass"]] == 3.0 and eq.values[names["gravity_z"]] == -9.81
    values = dict(eq.values) | dict(zip(eq.q, (0.3, -0.7), strict=True))
    M = np.array(sympy.Matrix(eq.M).subs(values), float)
    close(M, free.mass_matrix(np.array([0.3, -0.7])), 1e-14)
    assert eq.M.free_symbols >= {names[f"{second}_mass"]}


@needs_compiler
def test_exported_c_takes_parameters_as_its_last_argument(pendulum, tmp_path):
    import subprocess

    robot = pendulum.with_parameters("arm.mass", "gravity")
    source, header, test, _ = robot.export_c(tmp_path, ["inverse_dynamics", "gravity"])
    text = header.read_text()
    assert "parameters[0] arm_mass, parameters[1..3] gravity" in " ".join(text.split())
    assert text.count("const double *parameters") == 2
    program = tmp_path / "run"
    command = build.find_compiler().command
    subprocess.run([*command, "-std=c99", str(source), str(test), "-lm", "-o", str(program)], check=True)
    assert subprocess.run([str(program)], check=False).returncode == 0
