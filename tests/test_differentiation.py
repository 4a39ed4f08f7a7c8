"""Derivatives of every algorithm, and of any traced function, beside differences in forty digits."""

import types

import mpmath
import numpy as np
import pytest
from constrained_models import four_bar, heavy_top
from found import descriptions, tree_of
from precise import OPERATIONS
from random_trees import JOINTS, WEIGHT, close, random_state, random_tree

import liebody as lb
from liebody import dynamics as dyn
from liebody.base.errors import ArgumentError, GraphError, ModelError, ShapeError
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.compiler import Expr, Function, trace
from liebody.compiler.native import build
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.contact import Contact
from liebody.dynamics import derivatives
from liebody.groups import Free, Spherical
from liebody.hybrid import robot_system
from liebody.io import pinocchio_layout
from liebody.mechanisms.constrained import ClosedTree, Condition
from liebody.robot import kernels_of
from liebody.robot.algorithm import CONFIGURATIONS
from liebody.robot.derived import PLACES
from liebody.scalars.linear import skew

EPS = mpmath.mpf("1e-12")  # in 40 digits: differences of second order are right to about 1e-24


def precisely(function, *arrays):
    """The entries of the outputs of a traced function, in the digits of mpmath."""
    values = {}
    for symbols, array in zip(function.inputs.values(), arrays, strict=True):
        values.update(zip(symbols.flat, map(mpmath.mpf, np.ravel(array).tolist()), strict=True))
    for node in function.nodes:
        if node.op != "input":
            values[node] = OPERATIONS[node.op](
                *(values.get(x, x) if type(x) is Expr else x for x in node.args)
            )
    found = [x for y in function.outputs.values() for x in y.flat]
    return np.array([values[x] if type(x) is Expr else mpmath.mpf(x) for x in found])


def flat(results):
    """All numbers of one result, or of several."""
    return np.concatenate([np.ravel(x) for x in (results if isinstance(results, tuple) else (results,))])


def rows(results, count, size):
    """Jacobians of `count` arrays of these sizes, for results one after the other, as one matrix."""
    blocks = [np.reshape(x, (-1, n)) for x, n in zip(results, [*size] * count, strict=True)]
    k = len(size)
    return np.vstack([np.hstack(blocks[k * i : k * i + k]) for i in range(count)])


def robot_of(*kinds, followers=0, seed=8, rotors=True):
    """A robot whose first joint carries all others; gravity, mass and centre of its last body are free."""
    trees = (
        random_tree(np.random.default_rng(k), kinds, followers, rotors) for k in range(1000 * seed, 10**6)
    )
    tree = next(x for x in trees if [body.parent for body in x.bodies].count(0) == 1)
    name = tree.bodies[-1].name
    return lb.Robot(tree, WEIGHT).with_parameters("gravity", f"{name}.mass", f"{name}.center")


def moved(robot, names, arrays, directions, by):
    """Arrays along directions, configurations along the group, in the digits of mpmath."""
    along = trace(robot.group.integrate, {"q": robot.nq, "u": robot.nv}, "moved")
    result = []
    for name, x in zip(names, arrays, strict=True):
        u = directions.get(name)
        if u is None:
            result.append(x)
        elif name in CONFIGURATIONS:
            result.append(precisely(along, x, [by * mpmath.mpf(y) for y in u]))
        else:
            result.append([mpmath.mpf(y) + by * mpmath.mpf(d) for y, d in zip(x.flat, u.flat, strict=True)])
    return result


def precise_slope(function, ends):
    """(f(+EPS) - f(-EPS)) / (2 EPS) of arguments ends(s EPS)."""
    f = function if isinstance(function, Function) else function.unroll()
    with mpmath.workdps(40):
        change = np.subtract(*(precisely(f, *ends(s * EPS)) for s in (1, -1))) / (2 * EPS)
        return np.array([float(x) for x in change])


def sample(robot, kernel, rng):
    arrays = [robot._sample(name, shape, rng) for name, shape in kernel.inputs.items()]
    directions = {
        name: rng.normal(size=robot.nv if name in CONFIGURATIONS else x.shape)
        for name, x in zip(kernel.inputs, arrays, strict=True)
    }
    return arrays, directions


TABLE = kernels_of(lb.Robot)
LARGE = {
    "hamiltonian_dynamics",
    "decoupled_dynamics",
    "inverse_legendre_transform",
    "forward_dynamics_wrenches",
}
LARGE |= {"connection_curvature", *(name for name in TABLE if "dynamics_derivatives" in name)}
WITH_ROTORS = ("inverse_dynamics", "forward_dynamics", "mass", "bias", "kinetic", "hamiltonian")


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] * (x in LARGE)) for x in TABLE])
@pytest.mark.many
def test_derivatives_of_every_algorithm_are_those_of_differences_in_forty_digits(name):
    """By all its arrays at once: Jacobians, products with them; of random trees, in turn of all joints."""
    algorithm, _ = TABLE[name]
    at = [*TABLE].index(name)
    kinds = "free", [*JOINTS][at % len(JOINTS)], [*JOINTS][1:][at // 3 % 11], "revolute"
    robot = robot_of(*kinds, followers=at % 2, seed=at, rotors=name.startswith(WITH_ROTORS))
    words = {"frame": "frame-0", "task": lambda q: np.array([[0] * 6 + [1] * (robot.nv - 6)])}
    options = {key: words[key] for key in algorithm.options if key in words}
    if "damping" in algorithm.options:
        options["damping"] = True
    rng = np.random.default_rng(at)
    kernel = robot.kernel(name, **options)
    arrays, directions = sample(robot, kernel, rng)
    by = tuple(directions)
    expected = precise_slope(kernel.function, lambda s: moved(robot, by, arrays, directions, s))
    pushed = robot.derivatives(name, by, "jvp", **options).function
    u, weights = [*directions.values()], [rng.normal(size=y.shape) for y in pushed.outputs.values()]
    along = flat(pushed(*arrays, *u))
    if name in PLACES:  # results change along the group, y exp(u), and their coordinates by E(y) u
        y = kernel.function(*arrays)
        E = np.stack([robot.group.coordinate_rate(y, e) for e in np.eye(robot.nv)], axis=-1)
        close(E @ along, expected, 1e-9)
        expected = np.linalg.lstsq(E, expected)[0]
    close(along, expected, 1e-9)
    back = robot.derivatives(name, by, "vjp", **options).function(*arrays, *weights)
    size = np.linalg.norm(flat(tuple(weights))) * np.linalg.norm(along)
    assert abs(flat(tuple(weights)) @ along - flat(back) @ flat(tuple(u))) <= 1e-12 * max(1, size)
    if sum(np.prod(s, dtype=int) for s in kernel.outputs.values()) <= 400:
        J = robot.derivatives(name, by, **options).function(*arrays)
        J = rows(J if isinstance(J, tuple) else (J,), len(kernel.outputs), [x.size for x in u])
        close(J @ flat(tuple(u)), expected, 1e-9)
        close(flat(tuple(weights)) @ J, flat(back), 1e-12)


@pytest.mark.parametrize(
    ("name", "wrt"), [("inverse_dynamics_wrenches", ("q", "v", "a")), ("forward_dynamics", ("tau", "q"))]
)
def test_recursions_take_the_place_of_derivatives_of_the_graph(name, wrt):
    """Where they have the Jacobians that are asked for, in their order; also with parameters."""
    robot = robot_of("free", "spherical", "revolute", "revolute")
    kernel = robot.derivatives(name, wrt, damping=True)
    arrays, directions = sample(robot, kernel, np.random.default_rng(1))
    u = {key: directions[key] for key in wrt}
    call = robot.kernel(name, damping=True)
    expected = precise_slope(call.function, lambda s: moved(robot, call.inputs, arrays, u, s))
    J = kernel.function(*arrays)
    close(np.hstack(J) @ flat(tuple(u.values())), expected, 1e-9)
    plain = lb.derivatives(call, wrt, groups={"q": robot.group}).function
    assert sum(kernel.function.operations.values()) < sum(plain.operations.values())


# -- second derivatives -----------------------------------------------------------------------------------


SECOND = [
    ("kinetic_energy", ("q", "v"), {}),
    ("center_of_mass", ("q",), {}),
    ("pose", ("q",), {"frame": "frame-0"}),
]


@pytest.mark.parametrize(("name", "wrt", "options"), SECOND, ids=[name for name, *_ in SECOND])
def test_second_derivatives_are_those_of_first_derivatives_and_their_products(name, wrt, options):
    robot = robot_of("free", "spherical", "planar")
    by, n, k = robot.derivatives(name, wrt, **options), robot.nv, len(wrt)
    arrays, directions = sample(robot, by, np.random.default_rng(2))
    u = {key: directions[key] for key in wrt}
    expected = precise_slope(by.function, lambda s: moved(robot, by.inputs, arrays, u, s)).reshape(k, -1, n)
    blocks = robot.derivatives(name, wrt, "hessian", **options).function(*arrays)
    blocks = [np.reshape(x, (-1, n, n)) for x in (blocks if isinstance(blocks, tuple) else (blocks,))]
    of = dict(zip([(x, y) for x in wrt for y in wrt[wrt.index(x) :]], blocks, strict=True))
    whole = {(x, y): of.get((x, y), of.get((y, x))) for x in wrt for y in wrt}
    changes = {}
    for x, change in zip(wrt, expected, strict=True):
        turned = {y: whole[x, y] if (x, y) in of else whole[x, y].swapaxes(1, 2) for y in wrt}
        changes[x] = sum(turned[y] @ u[y] for y in wrt)
        close(changes[x], change, 1e-9)
    (shape,) = robot.kernel(name, **options).outputs.values()
    w = np.random.default_rng(3).normal(size=shape)
    product = robot.derivatives(name, wrt, "hvp", **options).function(*arrays, w, *u.values())
    for x, one in zip(wrt, product if k > 1 else (product,), strict=True):
        close(one, np.ravel(w) @ changes[x], 1e-12)


@pytest.mark.parametrize(("name", "options"), [(name, options) for name, _, options in SECOND])
def test_second_derivatives_on_a_group_are_symmetric_but_for_the_commutator(name, options):
    """H_ij - H_ji = [E_j, E_i] f = -(ad_{e_i} e_j)^T grad f; (H + H^T)/2 is the Hessian of f(q exp u)."""
    robot = robot_of("free", "spherical", "planar")
    arrays, directions = sample(robot, robot.kernel(name, **options), np.random.default_rng(4))
    n, group, u = robot.nv, robot.group, {"q": directions["q"]}
    H = robot.derivatives(name, "q", "hessian", **options).function(*arrays).reshape(-1, n, n)
    gradient = robot.derivatives(name, "q", **options).function(*arrays).reshape(-1, n)
    ad = np.stack([group.ad(e) for e in np.eye(n)])  # ad[i][:, j] = ad_{e_i} e_j
    commutator = np.einsum("ikj,mk->mij", ad, gradient)
    assert np.abs(commutator).max() > 0.1
    close(H - H.swapaxes(1, 2), -commutator, 1e-13)
    kernel = robot.kernel(name, **options)
    with mpmath.workdps(40):
        before, here, behind = (
            precisely(kernel.function, *moved(robot, kernel.inputs, arrays, u, s * EPS)) for s in (-1, 0, 1)
        )
        bend = [float(x) for x in (before - 2 * here + behind) / EPS**2]
    close(np.einsum("mij,i,j->m", H, u["q"], u["q"]), bend, 1e-9)


def test_second_derivatives_of_coordinates_that_commute_are_symmetric():
    robot = robot_of("prismatic", "revolute", "helical")
    arrays, _ = sample(robot, robot.kernel("forward_dynamics"), np.random.default_rng(5))
    qq, qv, vv = robot.derivatives("forward_dynamics", ("q", "v"), "hessian").function(*arrays)
    for H in (qq, vv):
        close(H, H.swapaxes(1, 2), 1e-12)
    swapped = robot.derivatives("forward_dynamics", ("v", "q"), "hessian").function(*arrays)[1]
    close(qv, swapped.swapaxes(1, 2), 1e-12)


def test_derivatives_are_differentiated_again():
    """The Hessian of a weighted sum is the Jacobian of its gradient."""
    robot = robot_of("free", "spherical")
    rng = np.random.default_rng(6)
    q, w = robot.random(rng), rng.normal(size=3)
    free = robot.values
    gradient = robot.derivatives("center_of_mass", "q", "vjp")
    weighted = lb.derivatives(gradient, "q", groups={"q": robot.group}).function(q, free, w)
    H = robot.derivatives("center_of_mass", "q", "hessian").function(q, free)
    close(weighted, np.einsum("m,mij->ij", w, H), 1e-13)


def test_second_derivatives_of_configurations_are_those_of_their_logarithms():
    """u -> log(y^-1 y(v + u)) of y = q exp(v), whose first derivative is dexp_-v."""
    ball = lb.Robot(TreeBuilder("ball").add("ball", Spherical(), SpatialInertia.sphere(1.0, 0.1)).build())
    q, v = ball.random(1), np.array([0.4, -0.7, 0.2])
    close(ball.derivatives("integrate", "v")(q, v), ball.group.dexp(-v), 1e-14)
    H, e = ball.derivatives("integrate", "v", "hessian")(q, v), 1e-3 * np.eye(3)

    def seen(u):
        return ball.difference(ball.integrate(q, v), ball.integrate(q, v + u))

    for i, j in ((0, 0), (0, 1), (2, 1)):
        mixed = (seen(e[i] + e[j]) - seen(e[i] - e[j]) - seen(e[j] - e[i]) + seen(-e[i] - e[j])) / 4e-6
        close(H[:, i, j], mixed, 1e-6)


# -- of anything else ---------------------------------------------------------------------------------------


def close_to_slopes(function, group, wrt, arrays):
    """Jacobians of a traced function along the group of q, beside differences in forty digits."""
    rng = np.random.default_rng(9)
    sizes = [group.dim if x == "q" else np.size(arrays[x]) for x in wrt]
    u = [rng.normal(size=n) for n in sizes]
    along = trace(group.integrate, {"q": group.nq, "u": group.dim}, "moved")

    def ends(by):
        steps = {x: [by * mpmath.mpf(y) for y in d] for x, d in zip(wrt, u, strict=True)}
        for name, x in arrays.items():
            if name == "q" and name in steps:
                yield precisely(along, x, steps[name])
            else:
                yield [
                    mpmath.mpf(float(y)) + d for y, d in zip(np.ravel(x), steps.get(name, [0] * np.size(x)))
                ]

    found = lb.derivatives(function, wrt, groups={"q": group}).function(*arrays.values())
    J = rows(found if isinstance(found, tuple) else (found,), len(function.outputs), sizes)
    close(J @ np.concatenate(u), precise_slope(getattr(function, "function", function), ends), 1e-9)
    return J


def test_accelerations_and_reactions_of_closed_loops_and_systems_are_differentiated():
    tree = ClosedTree(
        four_bar(), [Condition("C", lambda A, B: (A[:3, 3] - B[:3, 3])[[0, 2]], ("end", "tip"))]
    )
    q = tree.assemble(np.array([-1.0, 0.5, -2.0]))
    v = np.linalg.svd(tree.jacobian(q))[2][-1]
    arrays = {"t": 0.0, "q": q, "v": v, "u": np.array([0.3, 0.0, -0.2])}
    close_to_slopes(tree.kernel("accelerations"), tree.group, ("q", "v", "u"), arrays)
    system, v = heavy_top("SE3")
    arrays = {"t": 0.0, "q": system.guess, "v": v, "u": np.zeros(system.nu)}
    close_to_slopes(system.kernel("accelerations"), system.group, ("q", "v"), arrays)


def test_contacts_are_differentiated_while_they_act():
    """A block pressed into the ground with one of its corners: by its state and by its parameters."""
    tree = TreeBuilder("block").add("body", Free(), SpatialInertia.box(2.0, (0.2, 0.3, 0.1)))
    tree = tree.frame("corner", "body", [0.1, 0.15, -0.05]).build()
    system = robot_system(tree, Contact("corner", stiffness=2e3, damping=150.0, name="floor"))
    touching = system.memory.defaults | {
        "floor_contact": np.ones(1),
        "floor_anchor": np.array([[0.11, 0.12]]),
    }
    z = system.memory.read(system.memory.write(touching.values()))

    def field(q, v, p):
        return system.vector_field(0.0, q, v, z, system.parameters.read(p))

    p = system.parameters.write(system.parameters.defaults.values()).astype(float)
    q = np.concatenate([tree.group.neutral()[:4], [0.0, 0.01, 0.045]])
    arrays = {"q": q, "v": np.array([0.1, -0.2, 0.3, 0.1, 0.2, -0.1]), "p": p}
    traced = trace(field, {name: len(x) for name, x in arrays.items()})
    J = close_to_slopes(traced, tree.group, ("q", "v", "p"), arrays)
    close(J[3:, 3:6], -1e3 * np.eye(3), 1e-12)  # K / m, where the block is not turned
    close(J[3:, 9:12], -75 * np.eye(3) - skew(arrays["v"][:3]), 1e-12)


def test_controllers_are_differentiated_with_what_they_ask_of_the_robot():
    robot = lb.Robot(random_tree(np.random.default_rng(1), ["spherical", "revolute"]), WEIGHT)

    def law(q, v, gains):
        return robot.gravity(q) - gains[0] * robot.difference(robot.neutral(), q) - gains[1] * v

    traced = trace(law, {"q": robot.nq, "v": robot.nv, "gains": 2})
    arrays = {"q": robot.random(3), "v": np.arange(4.0), "gains": np.array([3.0, 0.2])}
    J = close_to_slopes(traced, robot.group, ("q", "v", "gains"), arrays)
    close(J[:, 4:8], -0.2 * np.eye(4), 1e-15)


# -- kernels ------------------------------------------------------------------------------------------------


def test_derivatives_are_kernels_for_batches_results_of_ones_own_and_calls_of_the_library():
    robot = lb.Robot(random_tree(np.random.default_rng(1), ["spherical", "revolute"]), WEIGHT)
    q, v = robot.random(0, 5), np.random.default_rng(0).normal(size=(5, robot.nv))
    kernel = robot.derivatives("kinetic_energy", ("q", "v"))
    by_q, by_v = kernel(q, v)
    assert by_q.shape == by_v.shape == (5, robot.nv)
    out = np.empty_like(by_q), np.empty_like(by_v)
    assert kernel(q, v, out=out)[0] is out[0]
    close(out[1], np.einsum("nij,nj->ni", robot.mass_matrix(q), v), 1e-13)
    close(kernel(q[2], v[2])[0], by_q[2], 1e-14)
    single = robot.derivatives("kinetic_energy", "q", dtype=np.float32)(q, v)
    assert single.dtype == np.float32
    close(single, by_q, 1e-5)


@pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
def test_derivatives_of_a_robot_are_found_again_without_tracing(monkeypatch):
    tree = random_tree(np.random.default_rng(1), ["spherical", "revolute"])
    q, v = lb.Robot(tree).random(0), np.ones(4)
    expected = lb.Robot(tree).derivatives("twists", ("q", "v"), "jvp")(q, v, v, v)
    monkeypatch.setattr(lb.Robot, "_derived", lambda *given: pytest.fail("it is traced again"))
    kernel = lb.Robot(tree).derivatives("twists", ("q", "v"), "jvp")
    close(kernel(q, v, v, v), expected, 0)
    assert isinstance(kernel.call, types.BuiltinFunctionType)
    plain = lb.Robot(tree, (0, 0, -1)).recipe("x", {})
    assert plain != lb.Robot(tree).recipe("x", {})


@pytest.mark.parametrize("long", [10**9, -1], ids=["straight", "loops"])
def test_results_without_their_zeros_are_the_others(long, monkeypatch):
    """Of two arms, neither of which notices the other, and of a base that moves freely."""
    monkeypatch.setattr(derivatives, "LONG", long)
    tree = random_tree(np.random.default_rng(4), ["free", "revolute", "revolute", "spherical"], rotors=False)
    robot = lb.Robot(tree)
    full = robot.derivatives("forward_dynamics", ("q", "v", "tau"))
    arrays, _ = sample(robot, full, np.random.default_rng(7))
    values, places = full.nonzeros()
    run = compile_numpy(values.function)(*arrays)
    for one, at, whole in zip(run, places, compile_numpy(full.function)(*arrays), strict=True):
        filled = np.zeros(whole.shape)
        filled[at] = one
        np.testing.assert_array_equal(filled, whole)
        assert np.count_nonzero(whole) <= len(one)
    assert len(places[0][0]) < robot.nv**2 - 18  # columns of the place, rows of the turning


def test_a_group_has_the_coordinates_of_its_input():
    robot = lb.load("double_pendulum")
    with pytest.raises(ShapeError, match=r"v has shape \(2,\), expected elements of"):
        lb.derivatives(robot.kernel("kinetic_energy"), "v", groups={"v": lb.groups.SO3})
    with pytest.raises(GraphError, match="has no input 'x'; its inputs are q, v"):
        lb.derivatives(robot.kernel("kinetic_energy"), "x")
    with pytest.raises(ArgumentError, match="function is"):
        lb.derivatives(lambda q: q, "q")
    with pytest.raises(ModelError, match="by \\(\\), product None: it has the arrays q, v"):
        robot.derivatives("kinetic_energy", ())


# -- beside another library ---------------------------------------------------------------------------------


FEW = "ur5_robot.urdf", "solo12.urdf"  # of which one is on a floating base below
EVERY = [
    pytest.param(file, file.name != "ur5_robot.urdf", marks=[pytest.mark.slow] * (file.name not in FEW))
    for file in descriptions()
]


@pytest.mark.parametrize(("file", "floating"), EVERY, ids=[x.values[0].stem for x in EVERY])
def test_pinocchio_agrees_on_derivatives_of_robots(file, floating):
    pin = pytest.importorskip("pinocchio")
    tree = tree_of(file, floating=floating, check=False, mimic=False)
    model = pin.buildModelFromUrdf(str(file), *[pin.JointModelFreeFlyer()] * floating)
    data, layout, rng = model.createData(), pinocchio_layout(tree, model), np.random.default_rng(2)
    q, v, x = random_state(rng, tree)
    where = model, data, layout.to_q(q), layout.to_v(q, v), layout.to_v(q, x)
    order = np.round(np.stack([layout.to_v(q, e) for e in np.eye(tree.nv)], axis=1)).astype(int)
    pin.computeRNEADerivatives(*where)
    theirs = [data.dtau_dq.copy(), data.dtau_dv.copy()]
    ours = list(dyn.inverse_dynamics_derivatives(tree, q, v, x)[:2])
    if np.linalg.cond(dyn.mass_matrix(tree, q)) < 1e12:  # Romeo has bodies without inertia at the ends
        theirs += pin.computeABADerivatives(*where)[:2]
        ours += dyn.forward_dynamics_derivatives(tree, q, v, x)[:2]
    for one, other in zip(ours, theirs, strict=True):
        close(order @ one @ order.T, other, 1e-9)
    pin.centerOfMass(*where[:4])
    along = lb.Robot(tree).derivatives("center_of_mass", "q", "jvp").function(q, v)
    close(along, data.vcom[0], 1e-11)  # sums over 60 bodies
