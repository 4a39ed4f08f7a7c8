"""Regressors: what they multiply to, and which parameters they can tell."""

import mpmath
import numpy as np
import precise
import pytest
from random_trees import (
    FEWER_MECHANISMS,
    JOINTS,
    WEIGHT,
    close,
    random_inertia,
    random_mechanism,
    random_state,
)
from test_steps import repeated_tree

import liebody as lb
from liebody import dynamics as dyn
from liebody.base.errors import ModelError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.compiler import Program, trace
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.dynamics import regressor
from liebody.dynamics.coriolis import body_forms
from liebody.groups import SE3, Free, Prismatic, Revolute
from liebody.scalars.linear import skew


@pytest.fixture(params=FEWER_MECHANISMS, scope="module")
def mechanism(request):
    rng = np.random.default_rng(sum(map(ord, request.param)) + 6)
    tree = random_mechanism(rng, request.param, rotors=False)
    return tree, *random_state(rng, tree), rng.normal(size=tree.nv)


def test_times_the_parameters_they_are_the_efforts(mechanism):
    """Y pi = M a_r + C v_r + g, with C of the default form."""
    tree, q, v, a, v_r = mechanism
    pi = dyn.inertial_parameters(tree)
    M, C, g = dyn.mass_matrix(tree, q), dyn.coriolis_matrix(tree, q, v), dyn.gravity_forces(tree, q, WEIGHT)
    close(dyn.passive_regressor(tree, q, v, v_r, a, WEIGHT) @ pi, M @ a + C @ v_r + g)
    close(
        dyn.inverse_dynamics_regressor(tree, q, v, a, WEIGHT) @ pi,
        dyn.inverse_dynamics(tree, q, v, a, WEIGHT),
    )


@pytest.mark.parametrize("form", ["ploen", "coadjoint", "feurstein", "newton-euler"])
def test_other_forms_multiply_to_the_efforts_with_their_coriolis_matrix(mechanism, form):
    tree, q, v, a, v_r = mechanism
    M, C, g = (
        dyn.mass_matrix(tree, q),
        dyn.coriolis_matrix(tree, q, v, form),
        dyn.gravity_forces(tree, q, WEIGHT),
    )
    Y = dyn.passive_regressor(tree, q, v, v_r, a, WEIGHT, form)
    close(Y @ dyn.inertial_parameters(tree), M @ a + C @ v_r + g)


@pytest.mark.parametrize("form", ["hamel", "euler"])
def test_there_is_no_regressor_of_a_form_that_bodies_do_not_make(form):
    tree = lb.models.double_pendulum().tree
    with pytest.raises(ModelError, match=f"form '{form}' of a regressor .* use one of christoffel, ploen"):
        dyn.passive_regressor(tree, *np.ones((4, 2)), form=form)


def test_they_do_not_depend_on_the_inertias(mechanism):
    """Of two mechanisms that differ in the bodies' inertias only, either's regressor serves the other."""
    tree, q, v, a, v_r = mechanism
    rng, builder = np.random.default_rng(1), TreeBuilder()
    for body in tree.bodies:
        parent = tree.bodies[body.parent - 1].name if body.parent else "world"
        builder.add(body.name, body.joint, random_inertia(rng), parent, body.placement)
    other = builder.build()
    assert [b.name for b in other.bodies] == [b.name for b in tree.bodies]
    Y = dyn.passive_regressor(tree, q, v, v_r, a, WEIGHT)
    close(Y @ dyn.inertial_parameters(other), dyn.passive_inverse_dynamics(other, q, v, v_r, a, WEIGHT))


def test_the_parameters_are_in_the_documented_order():
    I, c = np.array([[1.0, 0.1, 0.2], [0.1, 1.1, 0.3], [0.2, 0.3, 1.2]]), np.array([0.3, 0.5, 0.7])
    tree = TreeBuilder().add("a", Revolute([0, 0, 1]), SpatialInertia(2.0, c, I)).build()
    about_origin = I - 2.0 * skew(c) @ skew(c)
    expected = [2.0, *(2.0 * c), *about_origin[np.triu_indices(3)]]
    np.testing.assert_allclose(dyn.inertial_parameters(tree), expected, atol=1e-15)


def test_armature_is_not_among_them():
    tree = (
        TreeBuilder()
        .add("a", Joint("a", Revolute([0, 0, 1]), armature=0.4), SpatialInertia(2.0, [0.3, 0, 0], np.ones(3)))
        .build()
    )
    q, v, a = np.array([[0.2], [0.5], [1.5]])
    rest = dyn.passive_inverse_dynamics(tree, q, v, v, a) - dyn.inverse_dynamics_regressor(
        tree, q, v, a
    ) @ dyn.inertial_parameters(tree)
    np.testing.assert_allclose(rest, 0.4 * a, atol=1e-14)


# -- base parameters -------------------------------------------------------------------------------------


def test_base_parameters_are_all_that_the_efforts_tell(mechanism):
    tree, q, v, a, v_r = mechanism
    base = dyn.base_parameters(tree, WEIGHT)
    Y, pi = dyn.passive_regressor(tree, q, v, v_r, a, WEIGHT), dyn.inertial_parameters(tree)
    close(Y[:, base.columns] @ (base.K @ pi), Y @ pi, 1e-7)  # the rank's tolerance, 1e-9, times sizes
    close(base.K[:, base.columns], np.eye(len(base.columns)))
    assert len(base.names) == len(base.columns) == np.linalg.matrix_rank(base.K)


@pytest.mark.parametrize(
    ("tree", "gravity", "expected"),
    [
        (lb.models.puma560().tree, (0, 0, -9.81), 36),  # Mayeda, Yoshida and Osuka (1990)
        (lb.models.double_pendulum().tree, (0, 0, -9.81), 6),
        (lb.models.double_pendulum().tree, (0, 0, 0), 4),
        (
            TreeBuilder().add("a", Free(), SpatialInertia(1, np.ones(3), np.ones(3))).build(),
            (0, 0, -9.81),
            10,
        ),
        (TreeBuilder().add("a", Prismatic([0, 0, 1]), SpatialInertia.point(1)).build(), (0, 0, -9.81), 1),
        (TreeBuilder().add("a", Revolute([0, 0, 1]), SpatialInertia.sphere(1, 1)).build(), (0, 0, -9.81), 1),
        (TreeBuilder().add("a", Revolute([1, 0, 0]), SpatialInertia.sphere(1, 1)).build(), (0, 0, -9.81), 3),
    ],
)
def test_their_number(tree, gravity, expected):
    """As known: 36 of the PUMA 560, two of an arm's link that the weight pulls, all ten of a free body."""
    assert len(dyn.base_parameters(tree, gravity).columns) == expected


def in_many_digits(function, *arrays):
    """The output of a traced function, in the digits that mpmath works with."""
    values = {}
    for symbols, array in zip(function.inputs.values(), arrays, strict=True):
        values.update(zip(symbols.flat, map(mpmath.mpf, array), strict=True))
    for node in function.nodes:
        if node.op != "input":
            values[node] = precise.OPERATIONS[node.op](*(values.get(x, x) for x in node.args))
    (y,) = function.outputs.values()
    return [[mpmath.mpf(values.get(x, x)) for x in row] for row in y]


def reduced(rows):
    """The columns of the pivots of a matrix, and its reduced row echelon form, by Gauss and Jordan."""
    rows, columns = [list(row) for row in rows], []
    for k in range(len(rows[0])):
        r = len(columns)
        best = max(range(r, len(rows)), key=lambda i: abs(rows[i][k]), default=r)
        if best >= len(rows) or abs(rows[best][k]) < mpmath.mpf(10) ** -40:
            continue
        rows[r], rows[best] = rows[best], rows[r]
        rows[r] = [x / rows[r][k] for x in rows[r]]
        for i, row in enumerate(rows):
            if i != r:
                rows[i] = [x - row[k] * y for x, y in zip(row, rows[r], strict=True)]
        columns.append(k)
    return columns, rows[: len(columns)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("follower", [None, Mimic("a", 2.0, 0.5)], ids=["free", "follower"])
def test_base_parameters_are_the_first_independent_columns(seed, follower):
    """Those of a branched tree in 60 digits; the states at which ranks are found do not matter."""
    body, turned = (
        SpatialInertia(1.0, [0.25, 0, 0.5], np.ones(3)),
        np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]),
    )
    tree = TreeBuilder().add("one", Joint("a", Revolute([0, 0, 1])), body)
    tree.add("two", Joint("b", Revolute([0, 0, 1])), body, "one", SE3.motion(turned, [0.5, 0.25, 0]))
    tree.add("end", Joint("c", Prismatic([0, 1, 0]), mimic=follower), body, "two", [0.5, 0, -0.25])
    tree.add("side", Joint("d", Revolute([0, 1, 0])), body, "one", [0, 0.5, 1.0])
    tree = tree.build()
    shapes = {"q": tree.nq, "v": tree.nv, "v_r": tree.nv, "a_r": tree.nv}
    Y = trace(lambda *state: dyn.passive_regressor(tree, *state, WEIGHT), shapes, "Y")
    rng = np.random.default_rng(7)
    with mpmath.workdps(60):
        rows = [row for state in rng.normal(size=(15, 4, tree.nv)) for row in in_many_digits(Y, *state)]
        columns, K = reduced(rows)
    base = dyn.base_parameters(tree, WEIGHT, seed=seed)
    assert base.columns.tolist() == columns
    np.testing.assert_allclose(base.K, np.array(K, float), rtol=1e-9, atol=1e-9)


def test_base_parameters_of_long_chains_follow_a_rule():
    """Of a chain of hinges that turn by right angles: one of the first link, seven of each other one."""
    builder, parent = TreeBuilder(), "world"
    for k in range(100):
        turned = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]) if k else np.eye(3)
        body = SpatialInertia(1.0, [0.1, 0, 0], np.ones(3))
        builder.add(f"l{k}", Revolute([0, 0, 1]), body, parent, SE3.motion(turned, [0.5, 0, 0.1]))
        parent = f"l{k}"
    tree = builder.build()
    upright, lying = (dyn.base_parameters(tree, gravity) for gravity in ((0, 0, -9.81), (0, -9.81, 0)))
    rule = ("h_x", "h_y", "I_xx", "I_xy", "I_xz", "I_yz", "I_zz")  # Khalil and Dombre: m, h_z, I_yy regroup
    assert upright.names == ("I_zz of l0", *(f"{x} of l{k}" for k in range(1, 100) for x in rule))
    assert len(lying.columns) == len(upright.columns) + 2  # the weight pulls the first link, too


def test_an_arm_is_identified_from_its_efforts():
    """Least squares from efforts at random states, without noise: the base parameters come out."""
    robot = lb.models.puma560(motors=False)
    base, rng = robot.base_parameters(), np.random.default_rng(2)
    q = robot.random(rng, 50)
    v, a = rng.normal(size=(2, 50, 6))
    Y = np.concatenate([dyn.inverse_dynamics_regressor(robot.tree, *x) for x in zip(q, v, a, strict=True)])
    tau = np.concatenate([dyn.inverse_dynamics(robot.tree, *x) for x in zip(q, v, a, strict=True)])
    found = np.linalg.lstsq(Y[:, base.columns], tau, rcond=None)[0]
    np.testing.assert_allclose(found, base.K @ robot.inertial_parameters, rtol=1e-9, atol=1e-9)


def test_rocks_have_none():
    tree = TreeBuilder().add("a", JOINTS["fixed"](None), SpatialInertia.sphere(1, 1)).build()
    with pytest.raises(ModelError, match="no degree of freedom"):
        dyn.base_parameters(tree)


# -- loops over blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [*body_forms(), None])
@pytest.mark.many
def test_loops_over_blocks_are_the_definition(mechanism, form, monkeypatch):
    """On trees of all joints, one state and several: the entries of the straight line, and Y pi = tau."""
    tree, q, v, a, v_r = mechanism
    monkeypatch.setattr(regressor, "LONG", 0)
    monkeypatch.setattr(lb.Robot, "recipe", lambda *_: None)
    robot = lb.Robot(tree, WEIGHT)
    name, options = ("passive_regressor", {"form": form}) if form else ("inverse_dynamics_regressor", {})
    v_r = v_r if form else v
    kernel, arrays = robot.kernel(name, **options), (q, v, v_r, a) if form else (q, v, a)
    assert isinstance(kernel.function, Program) != tree.has_mimics
    compiled = form in ("coadjoint", None)
    Y = (kernel if compiled else compile_numpy(kernel.function))(*arrays)
    expected = getattr(dyn, name)(tree, *arrays, WEIGHT, **options)
    close(Y, expected)
    M, C = dyn.mass_matrix(tree, q), dyn.coriolis_matrix(tree, q, v, form or "christoffel")
    close(Y @ dyn.inertial_parameters(tree), M @ a + C @ v_r + dyn.gravity_forces(tree, q, WEIGHT))


@pytest.mark.wide
def test_the_regressor_of_a_long_tree_is_text_of_bounded_length():
    """A chain of 200 and one of 400 joints, with branches: tables apart, their text is as long."""

    def lines(n):
        source = lb.Robot(repeated_tree(n, branching=0.05)).kernel("inverse_dynamics_regressor").source
        return sum(len(line) for line in source.splitlines() if not line.startswith("static const"))

    short, long = lines(200), lines(400)
    assert long < 1.2 * short < 500_000


@pytest.mark.wide
def test_the_regressor_of_a_long_tree_multiplies_to_its_efforts():
    robot = lb.Robot(repeated_tree(150, branching=0.1))
    rng = np.random.default_rng(8)
    q, (v, a) = robot.random(rng, 3), rng.normal(size=(2, 3, robot.nv))
    Y = robot.inverse_dynamics_regressor(q, v, a)
    efforts = dyn.inverse_dynamics(robot.tree, q[0], v[0], a[0])
    armature = np.concatenate([b.armature * a[0, b.dofs] for b in robot.tree.bodies])
    close(Y[0] @ robot.inertial_parameters, efforts - armature, 1e-9)
    close(Y[0], dyn.inverse_dynamics_regressor(robot.tree, q[0], v[0], a[0]), 1e-9)


# -- traces and robots -----------------------------------------------------------------------------------


def test_a_trace_computes_what_the_floats_do(mechanism):
    tree, q, v, a, v_r = mechanism
    shapes = {"q": tree.nq, "v": tree.nv, "v_r": tree.nv, "a_r": tree.nv}
    f = trace(lambda q, v, v_r, a_r: dyn.passive_regressor(tree, q, v, v_r, a_r, WEIGHT), shapes)
    close(f(q, v, v_r, a), dyn.passive_regressor(tree, q, v, v_r, a, WEIGHT))


def test_a_robots_regressors():
    robot = lb.models.double_pendulum(spherical=True)
    rng = np.random.default_rng(4)
    q = robot.random(rng, 9)
    v, v_r, a_r = rng.normal(size=(3, 9, robot.nv))
    Y = robot.passive_regressor(q, v, v_r, a_r)
    assert Y.shape == (9, robot.nv, 20)
    close(Y @ robot.inertial_parameters, robot.passive_inverse_dynamics(q, v, v_r, a_r))
    close(
        robot.inverse_dynamics_regressor(q, v, a_r) @ robot.inertial_parameters,
        robot.inverse_dynamics(q, v, a_r),
    )
