"""Functions of JAX: values, derivatives of any order, batches and simulations are those of the robot."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

import liebody as lb
from liebody.base.errors import ArgumentError, CompilerError, ModelError, ShapeError
from liebody.compiler import trace
from liebody.compiler.native import build
from liebody.scalars import sin

jax = pytest.importorskip("jax", reason="the test extra `jax` is not installed")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import liebody.interop.jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
STATES = np.random.default_rng(0).normal(size=(3, 7, 2))
q, v, tau = STATES[:, 0]


@pytest.fixture(scope="module")
def robot():
    return lb.models.double_pendulum()


@pytest.fixture(scope="module")
def arm(robot):
    return liebody.interop.jax.RobotFunctions(robot)


@pytest.mark.parametrize("leads", [((), (), ()), ((7,), (7,), (7,)), ((7,), (), (1,)), ((2, 7), (7,), ())])
def test_values_of_states_and_batches_are_those_of_the_robot(robot, arm, leads):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(*lead, 2)) for lead in leads]
    expected = robot.inverse_dynamics(*arrays)
    for f in (arm.inverse_dynamics, jax.jit(arm.inverse_dynamics)):
        found = f(*arrays)
        assert found.dtype == np.float64 and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=1e-13)


def test_float32_stays_float32_and_so_is_everything_without_x64(robot, arm):
    single = [x.astype(np.float32) for x in (q, v)]
    expected = robot.kinetic_energy(q, v)
    with jax.enable_x64(False):
        found = [arm.kinetic_energy(q, v), jax.jit(arm.kinetic_energy)(*single)]
    for x in [*found, arm.kinetic_energy(*single)]:
        assert x.dtype == np.float32 and abs(x - expected) < 1e-5 * expected
    assert arm.kinetic_energy([0, 0], [1, 0]).dtype == np.float64


@pytest.mark.wide
def test_jacobians_forward_and_reverse_are_those_of_the_robot(robot, arm):
    expected = robot.inverse_dynamics_derivatives(q, v, tau)
    for mode in (jax.jacfwd, jax.jacrev):
        found = mode(arm.inverse_dynamics, argnums=(0, 1, 2))(q, v, tau)
        np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(jax.hessian(arm.kinetic_energy, 1)(q, v), robot.mass_matrix(q), atol=1e-14)


def test_equal_robots_share_kernels_whatever_loops_each_has_asked_for(robot):
    first, second = (liebody.interop.jax.RobotFunctions(lb.models.double_pendulum()) for _ in range(2))
    Q = np.random.default_rng(3).normal(size=(100, 2))
    one, many = jax.jit(first.bias), jax.jit(second.bias)
    expected = robot.bias(Q, Q)
    for _ in range(2):
        np.testing.assert_allclose(many(Q, Q), expected, atol=1e-13)
        np.testing.assert_allclose(one(Q[0], Q[0]), expected[0], atol=1e-13)
    with jax.disable_jit():
        np.testing.assert_allclose(first.bias(Q, Q), expected, atol=1e-13)


def test_the_size_of_a_batch_alone_decides_its_digits(robot):
    """The same rows, jitted before a large batch has loaded the loop over lanes, and after."""
    Q = np.random.default_rng(4).normal(size=(100, 2))
    bias = jax.jit(liebody.interop.jax.RobotFunctions(lb.models.double_pendulum()).bias)
    sizes = [2, 7, 8, 40]
    before = {n: np.asarray(bias(Q[:n], Q[:n])) for n in sizes}
    bias(Q, Q)
    for n in sizes:
        np.testing.assert_array_equal(bias(Q[:n], Q[:n]), before[n])
        np.testing.assert_array_equal(bias(Q[:n], Q[:n]), robot.bias(Q[:n], Q[:n]))


@pytest.mark.wide
def test_gradients_pass_the_check_of_jax_to_second_order(arm):
    check_grads(arm.inverse_dynamics, (q, v, tau), order=2)


def test_maps_are_batches_in_which_shared_rows_are_not_copied(robot, arm):
    Q, V, T = STATES
    inner = jax.vmap(arm.inverse_dynamics, in_axes=(0, None, None))
    found = jax.vmap(inner, in_axes=(None, 0, 0))(Q[:3], V, T)
    np.testing.assert_allclose(found, robot.inverse_dynamics(Q[:3], V[:, None], T[:, None]), atol=1e-13)
    turned = jax.vmap(arm.inverse_dynamics, in_axes=(1, 0, None), out_axes=1)(Q.T, V, tau)
    np.testing.assert_allclose(turned, robot.inverse_dynamics(Q, V, tau).T, atol=1e-13)
    text = jax.jit(jax.vmap(arm.inverse_dynamics, in_axes=(0, None, None))).lower(Q, v, tau).as_text()
    assert text.count("custom_call @liebody") == 1 and "broadcast" not in text


def test_the_gradient_by_a_row_that_a_batch_shares_is_the_sum(robot, arm):
    def total(v):
        return jax.vmap(arm.inverse_dynamics, in_axes=(0, None, None))(STATES[0], v, tau).sum()

    by_v = robot.inverse_dynamics_derivatives(STATES[0], v, tau)[1]
    np.testing.assert_allclose(jax.grad(total)(v), by_v.sum(axis=(0, 1)), atol=1e-13)


def test_what_is_pulled_back_may_be_transposed_again(robot, arm):
    pull = jax.vjp(arm.inverse_dynamics, q, v, tau)[1]
    (along,) = jax.linear_transpose(pull, tau)((v, q, tau))
    by_q, by_v, M = robot.inverse_dynamics_derivatives(q, v, tau)
    np.testing.assert_allclose(along, by_q @ v + by_v @ q + M @ tau, atol=1e-13)


@pytest.mark.wide
def test_derivatives_along_the_group_are_those_of_exponentials(robot):
    ball = lb.models.spherical_pendulum()
    arm, at, u = (
        liebody.interop.jax.RobotFunctions(ball),
        ball.random(0),
        np.array([0.3, -0.2, 0.5])[: ball.nv],
    )
    found = jax.grad(lambda u: arm.potential_energy(arm.integrate(at, u)))(jnp.zeros(ball.nv))
    assert ball.nq == 4
    np.testing.assert_allclose(found, ball.gravity(at), atol=1e-13)
    check_grads(lambda q: arm.kinetic_energy(q, u), (at,), order=1)  # by coordinates, off the group as well
    square = jax.hessian(lambda u: jnp.sum(arm.difference(at, arm.integrate(at, u)) ** 2))
    np.testing.assert_allclose(square(jnp.zeros(ball.nv)), 2 * np.eye(ball.nv), atol=1e-13)


def test_parameters_have_derivatives(robot, arm):
    name = "link1.mass"

    def energy(m):
        return arm.kinetic_energy(q, v, parameters={name: m})

    slope = energy(2.0) - energy(1.0)  # it is linear in a mass
    assert abs(jax.grad(energy)(1.5) - slope) < 1e-14
    free = robot.with_parameters(name)
    packed = liebody.interop.jax.RobotFunctions(free)
    assert abs(jax.grad(lambda p: packed.kinetic_energy(q, v, parameters=p))(jnp.ones(1))[0] - slope) < 1e-14
    assert packed.kinetic_energy(q, v) == free.kinetic_energy(q, v)
    with pytest.raises(ModelError, match="no parameter"):
        packed.kinetic_energy(q, v, parameters={"link9.mass": 1.0})


@pytest.mark.wide
def test_named_results_options_and_users_functions_are_taken(robot, arm):
    found = arm.pose(q, frame="link2")
    np.testing.assert_allclose(found, robot.pose(q, frame="link2"), atol=1e-15)
    assert len(arm.inverse_dynamics_derivatives(q, v, tau)) == 3
    law = liebody.interop.jax.function(
        trace(lambda q, k: robot.gravity(q) - k * sin(q), {"q": 2, "k": ()}, "law")
    )
    np.testing.assert_allclose(jax.jacobian(law, 1)(q, 2.0), -np.sin(q), atol=1e-15)


@pytest.mark.wide
def test_steps_are_those_of_simulate_and_have_tangents_and_adjoints(robot):
    step = liebody.interop.jax.StepFunction(robot, dt=1e-2)
    run = lb.simulate(robot, q, v, t_end=0.2, dt=1e-2, method="rkmk4")
    Q, V = jax.jit(lambda q, v: step.simulate(q, v, steps=20))(q, v)
    np.testing.assert_allclose(np.hstack([Q, V]), np.hstack([run.q, run.v]), atol=1e-13)
    efforts = np.random.default_rng(2).normal(size=(20, 2))

    def end(q, v, efforts):
        return jnp.concatenate([x[-1] for x in step.simulate(q, v, efforts, steps=20)])

    at, along = (q, v, efforts), (v, q, efforts[::-1])
    tangent = jax.jvp(end, at, along)[1]
    weight = np.array([0.3, -1.0, 0.2, 0.5])
    adjoint = jax.vjp(end, *at)[1](weight)
    assert abs(weight @ tangent - sum(np.sum(x * y) for x, y in zip(adjoint, along, strict=True))) < 1e-12
    h = 1e-4  # differences of fourth order
    moved = {k: end(*(x + k * h * d for x, d in zip(at, along, strict=True))) for k in (-2, -1, 1, 2)}
    np.testing.assert_allclose(
        tangent, (8 * (moved[1] - moved[-1]) - moved[2] + moved[-2]) / (12 * h), atol=1e-9
    )
    braked = step.simulate(q, v, lambda t, q, v: -v, steps=20)
    by_hand = step(q, v, -v)
    np.testing.assert_array_equal(braked[0][1], by_hand[0])
    many = step.simulate(STATES[0], v, steps=3)
    assert many[0].shape == (4, 7, 2) and many[1].shape == (4, 7, 2)


TIMES = np.linspace(0, 0.2, 5)
RUN = {"t_end": 0.2, "dt": 1e-2, "record_every": 0.1}


@pytest.mark.wide
def test_a_simulation_is_one_call_with_tangents_and_adjoints(robot):
    """By the state, by each sample of efforts, by parameters; with the integral of a cost."""

    def end(q0, v0, efforts, mass):
        options = {"parameters": {"link2.mass": mass}, "running": lambda t, q, v, u: u @ v, **RUN}
        q, v, work = liebody.interop.jax.simulate(robot, q0, v0, (TIMES, efforts), **options)
        return jnp.concatenate([q[1:].ravel(), v[-1], work[-1:]])

    at = q, v, np.random.default_rng(2).normal(size=(5, 2)), 1.3
    check_grads(end, at, order=1, modes=("fwd", "rev"), rtol=1e-6)
    run = lb.simulate(robot, q, v, tau=(TIMES, at[2]), parameters={"link2.mass": 1.3}, **RUN)
    assert np.array_equal(jax.jit(end)(*at)[:6], np.concatenate([run.q[1:].ravel(), run.v[-1]]))
    rng = np.random.default_rng(3)
    along, weights = [rng.normal(size=np.shape(x)) for x in at], rng.normal(size=7)
    tangent, adjoint = jax.jvp(end, at, tuple(along))[1], jax.vjp(end, *at)[1](weights)
    dual = sum(np.sum(x * y) for x, y in zip(adjoint, along, strict=True))
    assert abs(dual - weights @ tangent) <= 1e-12 * abs(dual)
    for twice in (jax.hessian, lambda f: jax.jacfwd(jax.jacfwd(f)), lambda f: jax.jit(jax.grad(jax.grad(f)))):
        with pytest.raises(NotImplementedError, match="StepFunction"):
            twice(lambda m: end(*at[:3], m)[0])(1.3)


@pytest.mark.wide
def test_steps_have_second_derivatives_through_a_simulation(robot):
    """Of the end by the first state: symmetric, and as differences of gradients are."""
    step = liebody.interop.jax.StepFunction(robot, dt=1e-2, method="euler")

    def end(x):
        Q, V = step.simulate(x[:2], x[2:], steps=3)
        return Q[-1] @ V[-1]

    x = np.concatenate([q, v])
    H = jax.hessian(end)(x)
    np.testing.assert_allclose(H, H.T, atol=1e-12)
    check_grads(jax.grad(end), (x,), order=1, modes=("fwd",), rtol=1e-6)


@pytest.mark.wide
def test_simulations_are_mapped_and_share_what_members_share(robot):
    def height(q0, torque):
        return liebody.interop.jax.simulate(robot, q0, v, torque, **RUN)[0][-1, 1]

    one = jax.vmap(jax.grad(height, argnums=(0, 1)), in_axes=(0, None))(STATES[0], tau)
    for k in (0, 6):
        for x, y in zip(one, jax.grad(height, argnums=(0, 1))(STATES[0, k], tau), strict=True):
            np.testing.assert_allclose(x[k], y, rtol=1e-12)
    together = jax.grad(lambda torque: height_of_all(robot, torque).sum())(tau)
    np.testing.assert_allclose(together, one[1].sum(axis=0), rtol=1e-12)


def height_of_all(robot, torque):
    return liebody.interop.jax.simulate(robot, STATES[0], v, torque, **RUN)[0][:, -1, 1]


@pytest.mark.wide
def test_coordinates_of_simulations_that_are_quaternions_are_differentiated_as_unit_ones():
    ball = lb.load("spherical_pendulum")
    start, rate = ball.random(0), np.array([0.3, -0.2, 1.0])

    def end(q0, v0):
        options = {"t_end": 0.1, "dt": 0.02, "method": "cf4"}
        return liebody.interop.jax.simulate(ball, q0 / jnp.linalg.norm(q0), v0, **options)[0][-1]

    check_grads(end, (start, rate), order=1, modes=("fwd", "rev"), rtol=1e-5)


@pytest.mark.wide
def test_members_of_a_simulation_may_differ_in_parameters_alone(robot):
    step = liebody.interop.jax.StepFunction(robot.with_parameters("link2.mass"), dt=1e-2)
    masses, options = np.array([1.0, 2.0]), {"steps": 2}
    q, _ = step.simulate(np.ones(2), np.zeros(2), parameters={"link2.mass": masses}, **options)
    for k, mass in enumerate(masses):
        alone, _ = step.simulate(np.ones(2), np.zeros(2), parameters={"link2.mass": mass}, **options)
        np.testing.assert_allclose(q[:, k], alone, atol=1e-15)


@pytest.mark.wide
def test_members_of_a_simulation_may_differ_in_efforts_alone(robot):
    """As many motions as there are efforts, from one state; each is that of its efforts alone."""
    step, tau = (
        liebody.interop.jax.StepFunction(robot, dt=1e-2),
        np.random.default_rng(3).normal(size=(4, 3, 2)),
    )
    q, v = step.simulate(np.zeros(2), np.zeros(2), tau, steps=4)
    assert q.shape == v.shape == (5, 3, 2)
    for k in range(3):
        alone = step.simulate(np.zeros(2), np.zeros(2), tau[:, k], steps=4)
        np.testing.assert_allclose(q[:, k], alone[0], atol=1e-15)
    at_once = step.simulate(np.zeros(2), np.zeros(2), lambda t, q, v: jnp.asarray(tau[0]), steps=1)
    np.testing.assert_allclose(at_once[0][1], q[1], atol=1e-15)
    with pytest.raises(ShapeError, match=r"tau has shape \(4, 3, 2\), expected \(5, \.\.\., 2\)"):
        step.simulate(np.zeros(2), np.zeros(2), tau, steps=5)


def test_functions_of_a_robot_can_be_copied_and_pickled(arm):
    for again in (copy.deepcopy(arm), pickle.loads(pickle.dumps(arm))):
        np.testing.assert_array_equal(again.gravity(q), arm.gravity(q))


def test_what_cannot_be_taken_is_said(arm, monkeypatch):
    with pytest.raises(ArgumentError, match="robot is 'ur5', expected Robot"):
        liebody.interop.jax.RobotFunctions("ur5")
    with pytest.raises(ShapeError, match=r"q has shape \(3,\), expected \(2,\)"):
        arm.gravity(np.ones(3))
    with pytest.raises(ShapeError, match="do not broadcast"):
        arm.kinetic_energy(np.ones((3, 2)), np.ones((4, 2)))
    with pytest.raises(ShapeError, match="complex"):
        arm.gravity(np.ones(2) * 1j)
    with pytest.raises(AttributeError, match="no 'torque'; there are normalize"):
        arm.torque  # noqa: B018
    with pytest.raises(TypeError, match="missing"):
        arm.kinetic_energy(q)
    assert np.isnan(arm.kinetic_energy(q, np.array([np.nan, 0.0])))
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    with pytest.raises(CompilerError, match="no C compiler"):
        arm.center_of_mass(q)


@pytest.fixture
def header(tmp_path, monkeypatch):
    """A call that changes the header of XLA's interface, of a copy which is used from then on."""
    before = liebody.interop.jax._header()
    path = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    path.parent.mkdir(parents=True)
    path.write_text(before)
    monkeypatch.setattr(liebody.interop.jax.jax.ffi, "include_dir", lambda: str(tmp_path))

    def change(function):
        path.write_text(function(before))
        monkeypatch.setattr(liebody.interop.jax, "_header", lambda: path.read_text())

    return change


def test_types_that_a_new_version_of_the_interface_renames_and_extends_are_followed(arm, header):
    def newer(text):
        members = ["extension_start", "metadata", "metadata_extension", "errc", "type", "api_version"]
        found = [re.findall(rf"(XLA_FFI_\w+)\*? {member};", text) for member in members]
        names = {name for types in found for name in types} - {"XLA_FFI_Api_Version"}
        assert len(names) >= 4
        for name in names:
            text = re.sub(rf"\b{name}\b", f"{name}_Renamed", text)
            text = text.replace(f"{name}_STRUCT_SIZE", f"{name}_Renamed_STRUCT_SIZE")
        added = re.sub(r"(const char\* message;)", r"\1 int added;", text)
        assert added != text
        return added

    header(newer)
    call = liebody.interop.jax.handler("newer", ((2,),), ((2,),))
    assert call.handle


def test_an_unknown_interface_is_named_and_not_taken_for_a_missing_compiler(header, monkeypatch):
    header(lambda text: text.replace("XLA_FFI_CallFrame", "XLA_FFI_Call"))
    with pytest.raises(
        CompilerError, match=r"headers of XLA in .* are not as .* pip install \"jax=="
    ) as caught:
        liebody.interop.jax.handler("unknown", ((2,),), ((2,),))
    assert "unknown type name" in str(caught.value) and "install a C compiler" not in str(caught.value)
    header(lambda text: "#include <xla/of_another_version.h>\n" + text)
    with pytest.raises(CompilerError, match=r"of_another_version.h[^$]*headers of XLA in"):
        liebody.interop.jax.handler("missing", ((2,),), ((2,),))


def test_a_missing_interface_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(liebody.interop.jax.jax.ffi, "include_dir", lambda: str(tmp_path))
    with pytest.raises(CompilerError, match=r"c_api.h cannot be read: .* jax [\d.]+ works"):
        liebody.interop.jax._header.__wrapped__()


def test_what_was_compiled_with_one_interface_is_not_used_with_another(robot, header):
    function = liebody.interop.jax.Compiled.of(robot.kernel("gravity"))
    first = function.target(np.dtype(float), 1)
    header(lambda text: text + "/* newer */")
    assert function.target(np.dtype(float), 1) != first
