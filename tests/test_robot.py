"""Robots: every call equals the algorithm it compiles, on single states and batches; bad input is refused."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from random_trees import JOINTS, random_tree

import liebody as lb
from liebody import dynamics
from liebody.base.arguments import OFF_UNIT
from liebody.base.errors import ArgumentError, ConfigurationError, GraphError
from liebody.bodies import Joint, Mimic, SpatialInertia, TreeBuilder
from liebody.compiler import Kernel, Program, jacobian, trace
from liebody.compiler.native import build
from liebody.groups import SE3, Free, Prismatic, R, Revolute
from liebody.robot import kernels_of
from liebody.simulation import PassedLimits

ALGORITHMS = {algorithm.name: algorithm for algorithm, _ in kernels_of(lb.Robot).values()}
needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def robot():
    """A robot with joints of every kind, branches, and joints that follow others."""
    return lb.Robot(random_tree(np.random.default_rng(5), list(JOINTS), followers=2))


def states(robot, shape, seed=0):
    rng = np.random.default_rng(seed)
    v, x = rng.standard_normal((2, *shape, robot.nv))
    return robot.random(rng, shape), v, x


CALLS = {
    "inverse_dynamics": ("q v a", dynamics.inverse_dynamics),
    "joint_wrenches": ("q v a", dynamics.joint_wrenches),
    "forward_dynamics": ("q v a", dynamics.forward_dynamics),
    "bias": ("q v", dynamics.bias_forces),
    "mass_matrix": ("q", dynamics.mass_matrix),
    "gravity": ("q", dynamics.gravity_forces),
    "kinetic_energy": ("q v", dynamics.kinetic_energy),
    "potential_energy": ("q", dynamics.potential_energy),
    "poses": ("q", dynamics.body_poses),
    "twists": ("q v", dynamics.body_twists),
    "center_of_mass": ("q", dynamics.center_of_mass),
    "center_of_mass_jacobian": ("q", dynamics.center_of_mass_jacobian),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.many
def test_a_call_is_its_algorithm_on_states_and_on_batches(robot, name):
    arguments, algorithm = CALLS[name]
    batch = dict(zip("qva", states(robot, (2, 7)), strict=True))
    arrays = [batch[x] for x in arguments.split()]
    expected = np.array(
        [[algorithm(robot.tree, *(x[i, j] for x in arrays)) for j in range(7)] for i in range(2)], float
    )
    call = getattr(robot, name)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(call(*arrays), expected, atol=1e-12 * scale, rtol=1e-10)
    np.testing.assert_allclose(
        call(*(x[1, 3] for x in arrays)), expected[1, 3], atol=1e-12 * scale, rtol=1e-10
    )
    out = np.empty_like(expected)
    assert getattr(robot, name)(*arrays, out=out, threads=2) is out
    np.testing.assert_array_equal(out, call(*arrays))


@pytest.mark.parametrize("representation", ["body", "world", "mixed"])
@pytest.mark.many
def test_frame_calls_are_their_algorithms(robot, representation):
    q, v, a = states(robot, (3,))
    name = robot.tree.bodies[-1].name
    options = {"frame": name, "representation": representation}
    for call, algorithm, arrays in (
        (robot.jacobian, dynamics.frame_jacobian, (q,)),
        (robot.jacobian_rate, dynamics.frame_jacobian_rate, (q, v)),
        (robot.twist, dynamics.frame_twist, (q, v)),
        (robot.acceleration, dynamics.frame_acceleration, (q, v, a)),
    ):
        expected = np.array(
            [algorithm(robot.tree, *(x[i] for x in arrays), **options) for i in range(3)], float
        )
        np.testing.assert_allclose(
            call(*arrays, **options), expected, atol=1e-11 * max(1, np.abs(expected).max())
        )
    np.testing.assert_allclose(robot.pose(q, name), robot.poses(q)[:, -1], atol=1e-13)


@pytest.mark.wide
def test_external_wrenches_enter_through_the_jacobians(robot):
    q, v, a = states(robot, ())
    n = len(robot.tree.bodies)
    wrenches = np.random.default_rng(1).standard_normal((n, 6))
    pull = sum(robot.jacobian(q, b.name).T @ w for b, w in zip(robot.tree.bodies, wrenches, strict=True))
    tau = robot.inverse_dynamics(q, v, a, wrenches)
    scale = np.abs(tau).max()
    np.testing.assert_allclose(tau, robot.inverse_dynamics(q, v, a) - pull, atol=1e-11 * scale)
    np.testing.assert_allclose(robot.forward_dynamics(q, v, tau, wrenches), a, rtol=1e-8, atol=1e-8)


@pytest.mark.wide
def test_motions_of_the_base_are_batches_too_and_gravity_is_one_of_them(robot):
    q, v, a = states(robot, (4,))
    wrenches = np.random.default_rng(2).standard_normal((len(robot.tree.bodies), 6))
    moving = np.random.default_rng(3).standard_normal((4, 2, 6))
    rising = np.zeros((2, 6))
    rising[1, 3:] = -robot.gravity_vector
    weightless = lb.Robot(robot.tree, gravity=(0, 0, 0))
    for call in ("inverse_dynamics", "forward_dynamics", "joint_wrenches"):
        found = getattr(weightless, call)(q, v, a, wrenches, base_motion=rising)
        expected = getattr(robot, call)(q, v, a, wrenches)
        np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())
        batch = getattr(robot, call)(q, v, a, wrenches, base_motion=moving)
        single = [getattr(robot, call)(q[i], v[i], a[i], wrenches, base_motion=moving[i]) for i in range(4)]
        np.testing.assert_allclose(batch, single, atol=1e-11 * np.abs(batch).max())
    tau = robot.inverse_dynamics(q, v, a, base_motion=moving)
    np.testing.assert_allclose(robot.forward_dynamics(q, v, tau, base_motion=moving), a, atol=1e-8)


@pytest.mark.wide
def test_group_operations_are_inverse_to_each_other(robot):
    q0, v, _ = states(robot, (5,))
    q1 = robot.integrate(q0, 0.3 * v)
    np.testing.assert_allclose(robot.difference(q0, q1), 0.3 * v, atol=1e-13)
    np.testing.assert_allclose(robot.interpolate(q0, q1, 1.0), q1, atol=1e-13)
    np.testing.assert_allclose(robot.interpolate(q0, q1, np.full(5, 0.0)), q0, atol=1e-13)
    np.testing.assert_allclose(robot.normalize(q1), q1, atol=1e-14)


def test_energy_is_the_sum_and_mass_the_total(robot):
    q, v, _ = states(robot, (4,))
    np.testing.assert_allclose(robot.energy(q, v), robot.kinetic_energy(q, v) + robot.potential_energy(q))
    assert robot.mass == pytest.approx(sum(b.inertia.mass for b in robot.tree.bodies))


def test_derivatives_of_inverse_dynamics_against_differences_along_the_group():
    robot = lb.Robot(random_tree(np.random.default_rng(11), ["free", "revolute", "spherical", "helical"]))
    q, v, a = states(robot, ())
    by_q, by_v, by_a = robot.inverse_dynamics_derivatives(q, v, a)
    h, scale = 1e-6, np.abs(by_q).max()

    def slope(f):
        return np.stack([(f(h * e) - f(-h * e)) / (2 * h) for e in np.eye(robot.nv)], axis=-1)

    np.testing.assert_allclose(
        by_q, slope(lambda u: robot.inverse_dynamics(robot.integrate(q, u), v, a)), atol=1e-7 * scale
    )
    np.testing.assert_allclose(by_v, slope(lambda u: robot.inverse_dynamics(q, v + u, a)), atol=1e-7 * scale)
    np.testing.assert_allclose(by_a, robot.mass_matrix(q), atol=1e-11 * scale)


def slopes(f, n, h=0.005):
    """df/du at u = 0 (n,), of f of a batch (..., n), by differences of eighth order."""
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    steps = h * np.eye(n)
    rises = [w * (f(k * steps) - f(-k * steps)) / h for k, w in weights.items()]
    return np.moveaxis(sum(rises), 0, -1)


def links(n):
    """A chain of n links in space."""
    chain = lb.TreeBuilder("chain")
    for k in range(n):
        joint = lb.Joint(f"joint{k}", Revolute([0, 1, 0] if k % 2 else [1, 0, 0]))
        place = SE3.motion(np.eye(3), np.array([0.1, 0, 0.02]))
        parent = f"link{k - 1}" if k else "world"
        chain.add(f"link{k}", joint, lb.SpatialInertia.sphere(1.0, 0.1), parent, place)
    return lb.Robot(chain.build())


DERIVED = {
    "every joint": lambda: lb.Robot(random_tree(np.random.default_rng(5), list(JOINTS), followers=2)),
    "floating": lambda: lb.Robot(random_tree(np.random.default_rng(6), ["free", *["revolute"] * 4])),
    "sliding": lambda: lb.Robot(random_tree(np.random.default_rng(7), ["prismatic"] * 3)),
    "hinge": lambda: links(1),
    "chain": lambda: links(18),
}


@pytest.mark.parametrize("kind", DERIVED)
@pytest.mark.wide
def test_derivatives_of_forward_dynamics_against_differences_along_the_group(kind):
    """Of a batch; the equations of small trees are a straight line, those of others loops over columns."""
    robot = DERIVED[kind]()
    long = isinstance(robot.kernel("forward_dynamics_derivatives").function, Program)
    assert long == (kind in ("every joint", "chain"))
    q, v, tau = states(robot, (2,))
    by_q, by_v, by_tau = robot.forward_dynamics_derivatives(q, v, tau)
    for k in range(2):
        expected = (
            slopes(lambda u, k=k: robot.forward_dynamics(robot.integrate(q[k], u), v[k], tau[k]), robot.nv),
            slopes(lambda u, k=k: robot.forward_dynamics(q[k], v[k] + u, tau[k]), robot.nv),
        )
        for found, one in zip((by_q, by_v), expected, strict=True):
            np.testing.assert_allclose(found[k], one, rtol=0, atol=1e-9 * max(1, np.abs(one).max()))
    M, unit = robot.mass_matrix(q), np.eye(robot.nv)
    np.testing.assert_allclose(by_tau @ M, np.broadcast_to(unit, M.shape), atol=1e-9)
    alone = robot.forward_dynamics_derivatives(q[1], v[1], tau[1])
    for found, one in zip((by_q, by_v, by_tau), alone, strict=True):
        np.testing.assert_allclose(found[1], one, rtol=1e-9, atol=1e-9 * np.abs(one).max())


@needs_compiler
def test_derivatives_of_forward_dynamics_are_one_call_of_the_library():
    """As every function's, from the second call on."""
    robot = lb.load("double_pendulum")
    q, v, tau = states(robot, ())
    first = robot.forward_dynamics_derivatives(q, v, tau)
    assert isinstance(robot.forward_dynamics_derivatives, types.BuiltinFunctionType)
    for x, y in zip(robot.forward_dynamics_derivatives(q, v, tau), first, strict=True):
        np.testing.assert_array_equal(x, y)


def arguments_of(method):
    """The names of the arguments that a method needs, itself aside."""
    return [x.name for x in inspect.signature(method).parameters.values() if x.default is x.empty][1:]


def parts(result):
    """The entries of one array, or of several."""
    return np.concatenate([np.ravel(x) for x in (result if isinstance(result, tuple) else (result,))])


OF_STATES = [
    name
    for name, method in inspect.getmembers(lb.Robot, inspect.isfunction)
    if name[0] != "_" and arguments_of(method)[:1] in (["q"], ["q0"])
]


@pytest.fixture(scope="module")
def floating():
    return lb.Robot(random_tree(np.random.default_rng(6), ["free", "revolute", "prismatic"], rotors=False))


def reach(q):
    """The Jacobian of a task: the sum of the joints' coordinates."""
    return np.array([[0, 0, 0, 0, 0, 0, 1, 1]])


@pytest.mark.parametrize("name", sorted({*OF_STATES} - {"internal_rank"}))
@pytest.mark.many
def test_a_method_on_symbols_is_the_method_on_numbers(floating, name):
    """In a function that is traced; also when a built-in function has taken the method's place."""
    rng, method = np.random.default_rng(3), getattr(lb.Robot, name)
    given = {"frame": floating.tree.bodies[-1].name, "task": reach}
    sizes = {"s": ()}
    if "task" in arguments_of(method):
        sizes |= {"w": 7, "F": 7}
    arrays = {
        x: floating.random(rng) if x[0] == "q" else rng.standard_normal(sizes.get(x, floating.nv))
        for x in arguments_of(method)
        if x not in given
    }
    options = {x: given[x] for x in arguments_of(method) if x in given}
    expected = getattr(floating, name)(*map(np.asarray, arrays.values()), **options)
    traced = trace(
        lambda *symbols: parts(getattr(floating, name)(*symbols, **options)),
        {x: np.shape(value) for x, value in arrays.items()},
    )
    np.testing.assert_allclose(traced(*arrays.values()), parts(expected), rtol=1e-9, atol=1e-11)


def test_symbols_in_a_list_are_symbols_and_results_have_no_place_for_them(floating):
    half = trace(lambda x: floating.gravity([1.0, 0, 0, 0, 0, 0, 0, x, 0.5]), {"x": ()})
    np.testing.assert_allclose(
        half(0.3), floating.gravity(np.array([1.0, 0, 0, 0, 0, 0, 0, 0.3, 0.5])), atol=1e-12
    )
    with pytest.raises(GraphError, match="gravity: symbols go into no array of numbers; leave `out` away"):
        trace(lambda q: floating.gravity(q, out=np.empty(8)), {"q": 9})
    with pytest.raises(lb.LiebodyError, match=r"gravity: q has shape \(3,\), expected \(9,\)"):
        trace(lambda q: floating.gravity(q[:3]), {"q": 9})


def test_long_trees_are_unrolled_for_symbols():
    robot = links(120)
    assert isinstance(robot.kernel("bias").function, Program)
    q, v = np.random.default_rng(0).standard_normal((2, robot.nv))
    traced = trace(lambda q, v: robot.bias(q, v), {"q": robot.nq, "v": robot.nv})
    np.testing.assert_allclose(traced(q, v), robot.bias(q, v), rtol=1e-9, atol=1e-9)


@needs_compiler
@pytest.mark.wide
def test_after_the_first_call_a_built_in_function_takes_the_place_of_the_method():
    robot = lb.load("double_pendulum")
    q, v, a = states(robot, ())
    assert isinstance(robot.inverse_dynamics, types.MethodType)
    first = robot.inverse_dynamics(q, v, a)
    assert isinstance(robot.inverse_dynamics, types.BuiltinFunctionType)
    np.testing.assert_array_equal(robot.inverse_dynamics(q, v, a), first)
    np.testing.assert_allclose(robot.inverse_dynamics(list(q), v, a), first)
    np.testing.assert_allclose(robot.inverse_dynamics(q, v, a, wrenches=np.zeros((2, 6))), first)
    np.testing.assert_allclose(robot.inverse_dynamics(q, v, a, np.zeros((2, 6))), first)
    np.testing.assert_allclose(robot.inverse_dynamics(q[None], v, a), first[None])
    assert "inverse" not in lb.Robot(robot.tree).__dict__, "each robot has its own"


@needs_compiler
@pytest.mark.parametrize(
    ("name", "option"), [("pose", "frame"), ("jacobian", "frame"), ("coriolis_matrix", "form")]
)
def test_calls_with_options_are_calls_of_the_library(name, option):
    """Of as many options as were asked for, by position or by name; anything else goes the long way."""
    robot = lb.models.puma560()
    q, v, _ = states(robot, ())
    arrays = (q, v)[: len(ALGORITHMS[name].arrays)]
    values = [body.name for body in robot.tree.bodies[:3]] if option == "frame" else ["ploen", "coadjoint"]
    first = [getattr(robot, name)(*arrays, x) for x in values]
    entry = getattr(robot, name)
    assert isinstance(entry, types.BuiltinFunctionType)
    in_python = []

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_name == name:
            in_python.append(name)

    def watched(*given, **options):
        sys.setprofile(watch)
        try:
            return entry(*given, **options)
        finally:
            sys.setprofile(None)

    for value, expected in zip(values, first, strict=True):
        np.testing.assert_array_equal(watched(*arrays, value), expected)
        np.testing.assert_array_equal(watched(*arrays, **{option: value}), expected)
        np.testing.assert_array_equal(watched(*arrays, value, threads=1), expected)
        out = np.empty_like(expected)
        assert watched(*arrays, out=out, **{option: value}) is out and (out == expected).all()
    assert not in_python
    other = "".join([*values[0]])  # equal, but another object
    np.testing.assert_array_equal(watched(*arrays, other), first[0])
    assert in_python == [name]


@needs_compiler
def test_calls_with_options_that_cannot_be_fail_as_those_of_a_method():
    robot = lb.models.puma560()
    q = robot.random(0)
    hand = robot.tree.bodies[-1].name
    expected = robot.pose(q, hand)
    assert (robot.pose(q, "".join([*hand])) == expected).all(), "an equal name that is another object"
    with pytest.raises(TypeError, match="frame"):
        robot.pose(q)
    with pytest.raises(TypeError, match="multiple values"):
        robot.pose(q, hand, frame=hand)
    with pytest.raises(TypeError, match="unexpected keyword"):
        robot.pose(q, hand, mass=1)
    with pytest.raises(TypeError, match="positional"):
        robot.pose(q, hand, hand)
    with pytest.raises(lb.LiebodyError, match="nowhere"):
        robot.pose(q, "nowhere")


def test_the_mass_matrix_comes_packed_as_lapack_takes_it_or_by_its_non_zeros():
    robot = lb.Robot(random_tree(np.random.default_rng(6), ["free", "revolute", "prismatic", "spherical"]))
    n, q = robot.nv, robot.random(0, (3, 2))
    M = robot.mass_matrix(q)
    packed = robot.mass_matrix(q, layout="packed")
    assert packed.shape == (3, 2, n * (n + 1) // 2)
    columns = [M[..., : j + 1, j] for j in range(n)]  # of the upper triangle, one after the other
    np.testing.assert_array_equal(packed, np.concatenate(columns, axis=-1))
    lapack = pytest.importorskip("scipy.linalg").lapack
    factor, info = lapack.dpptrf(n, packed[0, 0])
    tau = np.arange(1.0, n + 1)
    a, _ = lapack.dpptrs(n, factor, tau)
    assert info == 0
    np.testing.assert_allclose(M[0, 0] @ a, tau, rtol=1e-9)
    rows, columns = robot.mass_matrix_pattern()
    found = robot.mass_matrix(q, layout="nonzeros")
    assert found.shape == (3, 2, len(rows)) and (rows <= columns).all()
    filled = np.zeros_like(M)
    filled[..., rows, columns] = found
    filled[..., columns, rows] = found
    np.testing.assert_array_equal(filled, M)
    with pytest.raises(lb.LiebodyError, match=r"'lower'.*'full', 'packed', 'nonzeros'"):
        robot.mass_matrix(q, layout="lower")


def test_the_non_zeros_of_a_star_are_its_blocks():
    """Of n arms on the world, no motion of one accelerates another."""
    tree = TreeBuilder("star")
    for k in range(5):
        tree.add(f"arm {k}", Revolute([0, 1, 0]), SpatialInertia.box(2.0, [0.5, 0.1, 0.2], com=[0.25, 0, 0]))
    robot = lb.Robot(tree.build())
    rows, columns = robot.mass_matrix_pattern()
    np.testing.assert_array_equal([rows, columns], [range(5), range(5)])
    assert robot.mass_matrix(robot.neutral(), layout="nonzeros").shape == (5,)


@needs_compiler
def test_a_second_process_finds_the_kernel_without_tracing(tmp_path):
    script = """
import sys, numpy as np, liebody as lb
from liebody.compiler.native import build
from liebody.robot import algorithm
if sys.argv[1] == "second":
    def forbidden(*args, **kwargs):
        raise AssertionError("traced or compiled")
    algorithm.traced, build._run = forbidden, forbidden
r = lb.load("double_pendulum")
print(r.inverse_dynamics(np.array([0.1, 0.2]), np.ones(2), np.ones(2)), r.mass_matrix(np.ones((100,
2))).sum())
"""
    runs = []
    for which in ("first", "second"):
        done = subprocess.run(
            [sys.executable, "-c", script, which], capture_output=True, text=True, check=True,
            env={**__import__("os").environ, "LIEBODY_CACHE": str(tmp_path)},
        )  # fmt: skip
        runs.append(done.stdout)
    assert runs[0] == runs[1]


@needs_compiler
def test_robots_that_differ_in_one_number_do_not_share_kernels():
    q = np.array([0.3, -0.2])
    first, second = lb.load("double_pendulum"), lb.load("double_pendulum", gravity=(0, 0, -1.62))
    assert not np.allclose(first.gravity(q), second.gravity(q))
    np.testing.assert_allclose(second.gravity(q), first.gravity(q) * 1.62 / 9.81)
    chain = lb.models.planar_chain(2, length=1.0)
    longer = lb.models.planar_chain(2, length=1.5)
    assert not np.allclose(chain.mass_matrix(q), longer.mass_matrix(q))


@needs_compiler
@pytest.mark.wide
def test_exported_c_compiles_without_warnings_and_passes_its_own_test(robot, tmp_path):
    names = [
        "inverse_dynamics",
        "forward_dynamics",
        "mass_matrix",
        "poses",
        "inverse_dynamics_wrenches",
        "integrate",
    ]
    paths = robot.export_c(tmp_path / "out", names)
    assert [p.suffix for p in paths] == [".c", ".h", ".c", ".txt"]
    program = tmp_path / "selftest"
    compiler = build.find_compiler()
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
    subprocess.run([*compiler.command, *flags, "-o", program, paths[0], paths[2], "-lm"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{3 * len(names)} comparisons" in done.stdout
    text = paths[0].read_text()
    broken = text.replace("9.81", "9.80")
    assert broken != text
    paths[0].write_text(broken)
    subprocess.run([*compiler.command, *flags, "-o", program, paths[0], paths[2], "-lm"], check=True)
    assert subprocess.run([program], capture_output=True, check=False).returncode == 1, (
        "the self-test can fail"
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.inverse_dynamics(np.zeros(3), np.zeros(2), np.zeros(2)), ["q", "(3,)", "(2,)"]),
        (lambda r: r.inverse_dynamics(np.zeros(2), np.zeros((4, 2)), np.zeros((3, 2))), ["(4, 2)", "(3, 2)"]),
        (
            lambda r: r.inverse_dynamics(np.zeros(2), np.array([np.nan, 0]), np.zeros(2)),
            ["v[0]", "nan", "finite"],
        ),
        (lambda r: r.mass_matrix(np.full((3, 2), np.inf)), ["q[0]", "inf"]),
        (lambda r: r.mass_matrix("hello"), ["q", "float64"]),
        (lambda r: r.kernel("mass_matrics"), ["mass_matrics", "mass_matrix"]),
        (lambda r: r.jacobian(np.zeros(2), "no such frame"), ["no such frame"]),
        (lambda r: r.jacobian(np.zeros(2), r.tree.bodies[0].name, "sideways"), ["sideways", "mixed"]),
        (lambda r: lb.Robot(r.tree, gravity=(0, 0)), ["gravity"]),
        (lambda r: r.mass_matrix(np.zeros(2), out=np.zeros((2, 3))), ["out", "(2, 3)", "(2, 2)"]),
        (lambda r: r.export_c("unused", []), ["inverse_dynamics"]),
        (lambda r: r.kernel("mass_matrix", dtype=np.int32), ["int32"]),
    ],
)
def test_what_cannot_be_is_refused_in_words(call, words):
    with pytest.raises(lb.LiebodyError) as error:
        call(lb.load("double_pendulum"))
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("sign", [-1, 1])
def test_all_doors_have_one_bound_for_the_norms_of_quaternions(sign):
    robot, still = lb.models.spherical_pendulum(), np.zeros(3)
    turned = robot.with_parameters("ball.orientation")

    def doors(norm):
        q, t_end = norm * robot.neutral(), {"t_end": 1e-3, "dt": 1e-3}
        yield lambda: robot.group.check(q)
        yield lambda: robot.forward_dynamics(q, still, still)
        yield lambda: robot.forward_dynamics([q, q], still, still)
        yield lambda: lb.simulate(robot, q, **t_end)
        yield lambda: lb.simulate(robot, np.tile(q, (9, 1)), **t_end)
        yield lambda: turned.gravity(robot.neutral(), parameters={"ball.orientation": q})

    for call in doors(1 + 0.99 * sign * OFF_UNIT):
        call()
    for call in doors(1 + 1.01 * sign * OFF_UNIT):
        with pytest.raises(lb.LiebodyError, match="norm"):
            call()


def test_quaternions_far_from_unit_are_refused_and_named():
    robot = lb.load("heavy_top")
    q = np.tile(robot.neutral(), (9, 1))
    q[4] *= 1.01
    for bad in (q, q[4]):
        with pytest.raises(lb.LiebodyError, match=r"norm 1\.01.*w, x, y, z"):
            robot.mass_matrix(bad)
    robot.mass_matrix(q[:4])


def test_single_precision_kernels_are_as_accurate_as_their_numbers(robot):
    q, v, a = states(robot, (33,))
    exact = robot.inverse_dynamics(q, v, a)
    single = robot.kernel("inverse_dynamics", dtype=np.float32)(q, v, a)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact, atol=2e-5 * np.abs(exact).max())


@pytest.mark.parametrize("length", [0.0, 1e-200, 1e200])
def test_a_quaternion_without_a_direction_is_not_normalized(length):
    robot = lb.models.free_rigid_body()
    q = np.array([[0.6, 0, 0.8, 0, 1, 2, 3], [0.6 * length, 0, 0.8 * length, 0, 1, 2, 3]])
    for given in (q[1], q):
        with pytest.raises(ConfigurationError, match=r"normalize: .*q\[0:4\].* has norm"):
            robot.normalize(given)
    np.testing.assert_allclose(robot.normalize(1e-9 * q[0])[:4], q[0, :4], rtol=1e-15)
    np.testing.assert_allclose(robot.normalize(1e9 * q[:1])[0, :4], q[0, :4], rtol=1e-15)


def test_notebooks_show_robots_runs_and_equations():
    """Tables of names that are text, whatever they hold, and formulas that MathJax reads."""
    tree = TreeBuilder("arm & hand")
    elbow = Joint("elbow", Revolute([0, 1, 0]), lower=-1, upper=0.5)
    tree.add("fore[arm] & co", elbow, SpatialInertia.box(2.0, [0.5, 0.1, 0.2], com=[0.25, 0, 0]))
    robot = lb.Robot(tree.build())
    shown = ElementTree.fromstring(f"<div>{robot._repr_html_()}</div>")
    head, row = ([cell.text for cell in line] for line in shown.iter("tr"))
    assert head[0] == "body" and [cell.tag for cell in next(shown.iter("tr"))] == ["th"] * 6
    assert row == ["fore[arm] & co", "world", "elbow", repr(elbow.group), "-1 to 0.5", "2"]
    assert "arm & hand" in shown.find("p").text
    run = lb.simulate(robot, t_end=0.01, dt=1e-3)
    assert ElementTree.fromstring(run._repr_html_()).text.startswith(run.summary())
    formulas = lb.equations("double_pendulum")._repr_latex_()
    assert formulas.startswith("$$") and formulas.endswith("$$") and "M(q) &= " in formulas
    assert formulas.count(r"\begin") == formulas.count(r"\end") and formulas.count("{") == formulas.count("}")


@pytest.mark.wide
def test_methods_of_a_robot_are_traced_behind_every_door():
    """Each time what holds the weight, under a gravity of its own: joints at rest stay, and kernels agree."""
    robot = lb.load("double_pendulum", gravity=(0, 0, -1.62))
    q = np.array([0.7, -0.4])
    kernel = Kernel(trace(lambda q: robot.gravity(q) / 2, {"q": 2}))
    np.testing.assert_allclose(kernel(q), robot.gravity(q) / 2, rtol=1e-14)
    assert np.abs(robot.gravity(q)).max() < 0.2 * np.abs(lb.dynamics.gravity_forces(robot.tree, q)).max()
    slope = Kernel(jacobian(trace(robot.gravity, {"q": 2}, "g"), "q"))(q)
    np.testing.assert_allclose(slope, robot.derivatives("gravity")(q), rtol=1e-12)

    def hold(t, q, v):
        return robot.gravity(q) - 0.5 * v

    run = lb.simulate(robot, q, tau=hold, t_end=0.2, dt=1e-3)
    feedback = lb.hybrid.Feedback(lambda s, p: hold(s.t, s.q, s.v))
    hybrid = lb.hybrid.robot_system(robot, feedback, step=1e-3).simulate(q, t_end=0.2)
    implicit = lb.simulate(robot, q, tau=hold, t_end=0.2, dt=1e-2, method="radau5")
    for found in (run.q, hybrid.q, implicit.q):
        np.testing.assert_allclose(found, np.broadcast_to(q, found.shape), atol=1e-12)
    assert run.metadata["efforts"] == "compiled"

    def field(t, y):
        return np.concatenate([y[2:], robot.forward_dynamics(y[:2], y[2:], hold(t, y[:2], y[2:]))])

    solution = lb.solve_ivp(field, (0, 0.2), [*q, 0, 0], R(4))
    np.testing.assert_allclose(solution.q[-1], [*q, 0, 0], atol=1e-12)


def test_a_robot_of_a_builder_is_refused_by_both_names():
    with pytest.raises(ArgumentError, match="Robot: tree is TreeBuilder 'arm', not yet built, expected Tree"):
        lb.Robot(TreeBuilder("arm"))


# -- random configurations -----------------------------------------------------------------------------------


def place(robot, name):
    """Where the coordinate of a joint stands."""
    return next(body.coordinates.start for body in robot.tree.bodies if body.joint.name == name)


def limited():
    """A free base that carries hinges and slides with limits of all kinds, and a joint that follows one."""
    inf = np.inf
    tree = TreeBuilder("limited").add("base", Free(), SpatialInertia.sphere(1.0, 0.1))
    for name, group, lower, upper in (
        ("near", Revolute([0, 0, 1]), -0.2, 0.9),
        ("turns", Revolute([0, 0, 1]), -2 * np.pi, 2 * np.pi),
        ("leads", Revolute([0, 1, 0]), -1.0, 1.0),
        ("above", Prismatic([0, 0, 1]), 0.7, inf),
        ("below", Prismatic([0, 0, 1]), -inf, -0.7),
        ("no limit", Prismatic([1, 0, 0]), -1e3, 1e3),
        ("far away", Prismatic([1, 0, 0]), 500.0, 1e3),
        ("held", Prismatic([1, 0, 0]), 0.3, 0.3),
        ("free", Revolute([1, 0, 0]), -inf, inf),
    ):
        joint = Joint(name, group, lower=lower, upper=upper)
        tree.add(name, joint, SpatialInertia.sphere(1.0, 0.1), parent="base")
    follower = Joint("follows", Revolute([0, 1, 0]), lower=0.0, upper=1.5, mimic=Mimic("leads", -2.0, 1.0))
    return lb.Robot(tree.add("follows", follower, SpatialInertia.sphere(1.0, 0.1), parent="base").build())


def test_random_configurations_lie_within_all_limits_and_fill_them():
    robot = limited()
    _, places, (ratio, offset, lower, upper) = robot.tree.limits
    q = robot.random(0, 4000)
    x = ratio * q[:, places] + offset
    assert ((x >= lower - 1e-12) & (x <= upper + 1e-12)).all()
    column = {name: q[:, place(robot, name)] for name in ("near", "turns", "leads")}
    # Uniform between the limits: least, largest value and mean of 4000 draws, each to some deviations of it.
    for name, low, high in (
        ("near", -0.2, 0.9),
        ("turns", -2 * np.pi, 2 * np.pi),
        ("leads", -0.25, 0.5),  # the follower 1 - 2 q stays between 0 and 1.5
    ):
        span = high - low
        assert abs(column[name].min() - low) < 0.005 * span and abs(column[name].max() - high) < 0.005 * span
        assert abs(column[name].mean() - (low + high) / 2) < 5 * span / np.sqrt(12 * 4000)
    # Limits that are far apart do not move a joint away from where it would be without them.
    assert np.abs(q[:, place(robot, "no limit")]).max() < 6
    assert q[:, place(robot, "far away")].max() < 506
    assert (q[:, place(robot, "held")] == 0.3).all()
    np.testing.assert_allclose(np.linalg.norm(q[:, :4], axis=1), 1, atol=1e-14)
    assert robot.random(0).shape == (robot.nq,) and robot.random(0, (2, 3)).shape == (2, 3, robot.nq)
    np.testing.assert_array_equal(robot.random(0, 4000), q)


def test_limits_are_left_alone_where_they_are_not_wanted_and_where_there_are_none(robot):
    inside, any_ = limited().random(3, 50), limited().random(3, 50, within_limits=False)
    np.testing.assert_array_equal(any_, limited().group.random(np.random.default_rng(3), (50,)))
    assert (any_ != inside).any(axis=0)[[7, 9]].all()  # near, leads
    np.testing.assert_array_equal(any_[:, :7], inside[:, :7])
    np.testing.assert_array_equal(robot.random(3, 50), robot.random(3, 50, within_limits=False))


def test_limits_that_no_configuration_keeps_are_refused_unless_they_are_not_asked_for():
    builder = TreeBuilder("stuck").add(
        "a", Joint("a", Revolute([0, 0, 1]), lower=0.0, upper=1.0), SpatialInertia.sphere(1.0, 0.1)
    )
    joint = Joint("b", Revolute([0, 0, 1]), lower=3.0, upper=4.0, mimic=Mimic("a", 1.0, 0.0))
    robot = lb.Robot(builder.add("b", joint, SpatialInertia.sphere(1.0, 0.1), parent="a").build())
    with pytest.raises(lb.LiebodyError, match="coordinate 0 has no value within the limits of all joints"):
        robot.random(0)
    assert robot.random(0, within_limits=False).shape == (1,)


def test_a_motion_from_a_random_configuration_starts_within_the_limits():
    """PUMA 560: more than half of the configurations without limits lie beyond some."""
    robot = lb.models.puma560()
    low, high = robot.tree.coordinate_limits
    beyond = [
        ((q < low) | (q > high)).any(axis=1).mean()
        for q in (robot.random(0, 2000, within_limits=False), robot.random(0, 2000))
    ]
    assert beyond[0] > 0.5 and beyond[1] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", PassedLimits)
        lb.simulate(robot, robot.random(0, 20), t_end=1e-3)
