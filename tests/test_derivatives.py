"""Derivatives of inverse and forward dynamics: those of the graph, differences of high order, laws."""

import numpy as np
import pytest
from random_trees import FEWER_MECHANISMS, MECHANISMS, WEIGHT, random_mechanism, random_state, random_tree

import liebody as lb
from liebody import dynamics as dyn
from liebody.base.errors import ConfigurationError, ModelError
from liebody.bodies import Joint, SpatialInertia, TreeBuilder
from liebody.compiler import Program, jacobian, trace
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.dynamics import derivatives
from liebody.groups import Fixed, Free, Revolute
from liebody.robot.algorithm import shape
from liebody.scalars.linear import skew


def close(actual, expected, gate):
    """|actual - expected| <= gate * the largest of both, and of 1."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    size = max(1.0, np.abs(expected).max(initial=0), np.abs(actual).max(initial=0))
    assert np.abs(actual - expected).max(initial=0) <= gate * size


def state(name):
    """A random mechanism and all that may act on it."""
    rng = np.random.default_rng(sum(map(ord, name)) + 7)
    tree = random_mechanism(rng, name)
    return tree, *random_state(rng, tree), rng.normal(size=(len(tree.bodies), 6))


def along(function, n, h=0.02):
    """df/du (., n) at u = 0 by central differences of tenth order."""
    weights = {1: 5 / 6, 2: -5 / 21, 3: 5 / 84, 4: -5 / 504, 5: 1 / 1260}
    columns = [
        sum(w * (function(k * h * e) - function(-k * h * e)) for k, w in weights.items()) / h
        for e in np.eye(n)
    ]
    return np.stack(columns, axis=-1) if n else np.zeros((0, 0))


def of_the_graph(tree, q, v, a, *acting):
    """d tau/dq and d tau/dv in forward mode, of the graph of tau(q exp(u), v, a)."""

    def moved(q, v, a, u):
        return dyn.inverse_dynamics(tree, tree.group.integrate(q, u), v, a, *acting)

    function = trace(moved, {"q": tree.nq, "v": tree.nv, "a": tree.nv, "u": tree.nv})
    return [jacobian(function, x)(q, v, a, np.zeros(tree.nv)) for x in "uv"]


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "fixed"])
@pytest.mark.parametrize("acting", [False, True], ids=["weight", "wrenches and damping"])
@pytest.mark.many
def test_the_recursion_is_the_derivative_of_the_graph(name, acting):
    tree, q, v, a, wrenches = state(name)
    given = WEIGHT, wrenches if acting else None, acting
    by_q, by_v, M = dyn.inverse_dynamics_derivatives(tree, q, v, a, *given)
    for found, expected in zip((by_q, by_v), of_the_graph(tree, q, v, a, *given), strict=True):
        close(found, expected, 1e-14 * tree.nv)
    close(M, dyn.mass_matrix(tree, q), 1e-15 * tree.nv)


@pytest.mark.parametrize("name", FEWER_MECHANISMS)
@pytest.mark.many
def test_derivatives_are_those_of_differences_of_tenth_order(name):
    tree, q, v, x, wrenches = state(name)
    given = WEIGHT, wrenches, True
    for dynamics, found in (
        (dyn.inverse_dynamics, dyn.inverse_dynamics_derivatives(tree, q, v, x, *given)),
        (dyn.forward_dynamics, dyn.forward_dynamics_derivatives(tree, q, v, x, *given)),
    ):
        expected = (
            along(lambda u, f=dynamics: f(tree, tree.group.integrate(q, u), v, x, *given), tree.nv),
            along(lambda u, f=dynamics: f(tree, q, v + u, x, *given), tree.nv),
            along(lambda u, f=dynamics: f(tree, q, v, x + u, *given), tree.nv),
        )
        for one, other in zip(found, expected, strict=True):
            close(one, other, 1e-9)


@pytest.mark.parametrize("name", MECHANISMS)
def test_derivatives_of_accelerations_are_those_of_efforts_over_the_mass_matrix(name):
    """M da/dq = -d tau/dq, M da/dv = -d tau/dv, M da/dtau = 1, at the acceleration of these efforts."""
    tree, q, v, tau, wrenches = state(name)
    given = WEIGHT, wrenches, True
    a = dyn.forward_dynamics(tree, q, v, tau, *given)
    by_q, by_v, M = dyn.inverse_dynamics_derivatives(tree, q, v, a, *given)
    found = dyn.forward_dynamics_derivatives(tree, q, v, tau, *given)
    size = np.linalg.cond(M) if tree.nv else 1.0
    for one, other in zip(found, (-by_q, -by_v, np.eye(tree.nv)), strict=True):
        close(M @ one, other, 1e-14 * size)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("acting", [False, True], ids=["weight", "wrenches and damping"])
@pytest.mark.many
def test_loops_over_columns_give_what_the_definition_gives(name, acting, monkeypatch):
    monkeypatch.setattr(derivatives, "LONG", -1)
    tree, q, v, tau, wrenches = state(name)
    arrays = {"q": q, "v": v, "tau": tau} | ({"wrenches": wrenches} if acting else {})
    shapes = {key: shape(tree, key) for key in arrays}
    options = {"gravity": WEIGHT, "damping": acting}

    def given(function, *values):
        return function(tree, **dict(zip(shapes, values, strict=True)), **options)

    program = derivatives.derivatives_by_columns(tree, shapes, "solved", given)
    assert isinstance(program, Program)
    expected = dyn.forward_dynamics_derivatives(tree, **arrays, **options)
    for found in (compile_numpy(program)(*arrays.values()), program.unroll()(*arrays.values())):
        for one, other in zip(found, expected, strict=True):
            close(one, other, 1e-14 * (np.linalg.cond(dyn.mass_matrix(tree, q)) if tree.nv else 1.0))


def floating(**rotor):
    rng = np.random.default_rng(3)
    tree = TreeBuilder("floating").add(
        "base", Joint("base", Free(), **rotor), SpatialInertia.sphere(2.0, 0.3)
    )
    for k, parent in enumerate(("base", "base", "link0")):
        tree.add(
            f"link{k}", Revolute(rng.normal(size=3)), SpatialInertia.sphere(1.0, 0.2), parent, [0.3, 0, k]
        )
    return tree.build()


def test_nine_columns_of_a_free_base_are_known_exactly():
    """By its turning R^T g x of its linear acceleration, by its linear velocity -omega x; by its place 0."""
    tree, rng = floating(), np.random.default_rng(4)
    q, v, tau = random_state(rng, tree)
    by_q, by_v, _ = dyn.forward_dynamics_derivatives(tree, q, v, tau, WEIGHT)
    R = tree.bodies[0].pose(q)[:3, :3]
    zero = np.zeros((3, 3))
    close(by_q[:, :6], np.block([[zero, zero], [skew(R.T @ WEIGHT), zero], [zero, zero]]), 1e-15)
    close(by_v[:, 3:6], np.vstack([zero, -skew(v[:3]), zero]), 0)


@pytest.mark.parametrize("loss", ["armature", "damping"])
def test_a_rotor_or_damping_at_a_free_base_is_felt_by_all(loss):
    tree, rng = floating(**{loss: np.full(6, 0.4)}), np.random.default_rng(4)
    q, v, tau = random_state(rng, tree)
    by_v = dyn.forward_dynamics_derivatives(tree, q, v, tau, WEIGHT, damping=True)[1]
    expected = along(lambda u: dyn.forward_dynamics(tree, q, v + u, tau, WEIGHT, damping=True), tree.nv)
    close(by_v, expected, 1e-9)
    assert np.abs(by_v[6:, 3:6]).max() > 1e-3


@pytest.mark.parametrize("joints", [["revolute"] * 7, ["free", *["revolute"] * 8], ["spherical"] * 3])
def test_the_recursion_takes_fewer_operations_than_derivatives_of_the_graph(joints):
    tree = random_tree(np.random.default_rng(2), joints)
    shapes = {"q": tree.nq, "v": tree.nv, "a": tree.nv, "u": tree.nv}

    def moved(q, v, a, u):
        return dyn.inverse_dynamics(tree, tree.group.integrate(q, u), v, a, WEIGHT)

    function = trace(moved, shapes)
    found = trace(lambda q, v, a, u: dyn.inverse_dynamics_derivatives(tree, q, v, a, WEIGHT), shapes)
    old = trace(
        lambda *x: [jacobian(function, k)(*x[:3], np.zeros(tree.nv).astype(object)) for k in "uv"], shapes
    )
    assert sum(found.operations.values()) < 0.9 * sum(old.operations.values())


# -- derivatives of any algorithm ---------------------------------------------------------------------------


OF_ANY = [
    ("center_of_mass", "q", {}),
    ("kinetic_energy", "v", {}),
    ("momentum", "q", {}),
    ("pose", "q", {"frame": "frame-0"}),
    ("bias", "v", {"damping": True}),
    ("inverse_dynamics_wrenches", "wrenches", {}),
    ("mass_and_coriolis", "q", {}),
]


def flat(results):
    """All numbers of one result, or of several."""
    return np.concatenate([np.ravel(x) for x in (results if isinstance(results, tuple) else (results,))])


@pytest.mark.parametrize(("name", "wrt", "options"), OF_ANY)
@pytest.mark.many
def test_derivatives_of_any_algorithm_are_those_of_differences_of_tenth_order(name, wrt, options):
    rng = np.random.default_rng(8)
    robot = lb.Robot(random_tree(rng, ["free", "revolute", "spherical"], followers=1), WEIGHT)
    call = robot.kernel(name, **options)
    arrays = [robot.random(rng) if x == "q" else rng.normal(size=s) for x, s in call.inputs.items()]
    at = list(call.inputs).index(wrt)
    size = robot.nv if wrt == "q" else arrays[at].size

    def moved(u):
        here = robot.integrate(arrays[at], u) if wrt == "q" else arrays[at] + u.reshape(arrays[at].shape)
        return flat(call(*arrays[:at], here, *arrays[at + 1 :]))

    J = along(moved, size)
    by = robot.derivatives(name, wrt, **options)
    found = by(*arrays)
    rows = [np.reshape(x, (-1, size)) for x in (found if isinstance(found, tuple) else (found,))]
    close(np.concatenate(rows), J, 1e-9)

    direction = rng.normal(size=robot.nv if wrt == "q" else arrays[at].shape)
    forward = robot.derivatives(name, wrt, "jvp", **options)
    close(flat(forward(*arrays, direction)), J @ direction.ravel(), 1e-9)
    weights = [rng.normal(size=s) for s in call.outputs.values()]
    backward = robot.derivatives(name, wrt, "vjp", **options)
    close(np.ravel(backward(*arrays, *weights)), flat(tuple(weights)) @ J, 1e-9)
    assert flat(tuple(weights)) @ flat(forward(*arrays, direction)) == pytest.approx(
        np.ravel(backward(*arrays, *weights)) @ direction.ravel(), rel=1e-12
    )

    batches = [np.stack([x, x]) for x in arrays]
    for single, both in zip(rows, by(*batches) if isinstance(found, tuple) else (by(*batches),), strict=True):
        close(both.reshape(2, *single.shape)[1], single, 1e-13)


def test_derivatives_of_what_is_not_there_are_refused():
    robot = lb.load("double_pendulum")
    with pytest.raises(ModelError, match="by 'tau', product None: it has the arrays q, v, a;"):
        robot.derivatives("inverse_dynamics", "tau")
    with pytest.raises(ModelError, match="product 'curvature'"):
        robot.derivatives("inverse_dynamics", "q", "curvature")
    with pytest.raises(ConfigurationError, match=r"q\[1\] is nan"):
        robot.derivatives("mass_matrix")(np.array([0.0, np.nan]))


@pytest.mark.parametrize("batch", [(), (0,), (3,)])
def test_a_robot_without_joints_has_derivatives_without_entries(batch):
    tree = TreeBuilder("stone").add("a", Fixed(), SpatialInertia.sphere(1, 1)).build()
    robot, rest = lb.Robot(tree), np.zeros((*batch, 0))
    for of in (robot.forward_dynamics_derivatives, robot.inverse_dynamics_derivatives):
        assert [x.shape for x in of(rest, rest, rest)] == 3 * [(*batch, 0, 0)]
