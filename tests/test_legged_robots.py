"""The formulations and closed forms on robots with legs, held to definitions: a biped, bolt and solo12."""

from __future__ import annotations

import numpy as np
import pytest
from legged import FEET, legged, small_state

import liebody as lb
from liebody import dynamics as dyn
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.compiler.printers.sympy_source import from_sympy
from liebody.dynamics import Task
from liebody.groups import SE3
from liebody.mechanisms import HamiltonianForm
from liebody.mechanisms.constrained import AbsoluteTree, ClosedTree, KnifeEdge, Rolling

WEIGHT = dyn.FREE_FALL
STEP = 1e-5  # of central differences, whose error is about 1e-10


@pytest.fixture(params=["biped", *(pytest.param(x, marks=pytest.mark.slow) for x in ("bolt", "solo12"))])
def name(request):
    return request.param


@pytest.fixture
def robot(name):
    return lb.Robot(legged(name))


def close(found, expected, gate):
    size = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=gate * size)


def rate(tree, function, q, v):
    """d/dt function(q) while q moves with v, by a central difference."""
    ahead, behind = (function(tree.group.integrate(q, s * v)) for s in (STEP, -STEP))
    return (ahead - behind) / (2 * STEP)


def momentum_in_base(tree, q, v):
    """The sum of I V of all bodies, carried to the base."""
    poses, twists = dyn.body_poses(tree, q), dyn.body_twists(tree, q, v)
    total = np.zeros(6)
    for body, T, V in zip(tree.bodies, poses, twists, strict=True):
        to_base = SE3.Ad(SE3.inverse(T) @ poses[0])
        total += to_base.T @ np.asarray(body.inertia.matrix(), float) @ V
    return total


# -- joint wrenches, moving bases, Hamilton's equations, global factors -------------------------------------


def test_joint_wrenches_are_the_reactions_of_the_constrained_bodies(name):
    tree = legged(name, floating=False).with_joints("ideal")
    absolute = AbsoluteTree(tree)
    q, v, _ = small_state(tree)
    a = dyn.forward_dynamics(tree, q, v, np.zeros(tree.nv))
    found = absolute.system.reactions(*absolute.to_system(q, v), np.zeros(tree.nv))
    for body, F in zip(tree.bodies, dyn.joint_wrenches(tree, q, v, a), strict=True):
        if body.joint.dim:
            close(found[body.joint.name], F, 1e-9)


def test_a_base_that_moves_is_a_free_base_with_its_acceleration(name):
    arms, whole = legged(name, floating=False), legged(name)
    q, v, a = small_state(whole)
    motion = np.array([v[:6], a[:6]])
    fall = dyn.body_poses(whole, q)[0][:3, :3].T @ WEIGHT
    tau = dyn.inverse_dynamics(whole, q, v, a, WEIGHT)
    moving = {"gravity": tuple(fall), "base_motion": motion}
    close(dyn.inverse_dynamics(arms, q[7:], v[6:], a[6:], **moving), tau[6:], 1e-12)
    close(dyn.forward_dynamics(arms, q[7:], v[6:], tau[6:], **moving), a[6:], 1e-9)
    wrenches = {b.name: F for b, F in zip(whole.bodies, dyn.joint_wrenches(whole, q, v, a), strict=True)}
    for body, F in zip(arms.bodies, dyn.joint_wrenches(arms, q[7:], v[6:], a[6:], **moving), strict=True):
        if body.joint.dim:
            close(F, wrenches[body.name], 1e-11)


@pytest.mark.slow
def test_motion_in_momenta_is_that_in_velocities(robot):
    q, v, tau = small_state(robot.tree)
    options = {"tau": 0.3 * tau, "t_end": 0.1, "dt": 1e-3, "method": "rkmk8"}
    first = lb.simulate(robot, q, 0.3 * v, joints="ideal", **options)
    form = HamiltonianForm(robot.tree, robot.gravity_vector)
    second = lb.simulate(form, q, robot.legendre_transform(q, 0.3 * v), **options)
    close(second.q, first.q, 1e-9)
    close(robot.inverse_legendre_transform(second.q, second.v), first.v, 1e-9)
    close(second.energy, first.energy, 1e-9)


def test_stacked_factors_give_the_twists_rates_and_wrenches_of_each_body(robot):
    tree = robot.tree
    q, v, a = small_state(tree)
    factors = dyn.factorization(tree, q, v)
    close(factors.V.reshape(-1, 6), dyn.body_twists(tree, q, v), 1e-13)
    close(
        factors.F(a, -np.array([0, 0, 0, *WEIGHT])).reshape(-1, 6), dyn.joint_wrenches(tree, q, v, a), 1e-11
    )
    differences = rate(tree, lambda x: dyn.body_twists(tree, x, v), q, v) + dyn.body_twists(tree, q, a)
    close(factors.V_rate(a, np.zeros(6)).reshape(-1, 6), differences, 1e-8)
    close(factors.M, dyn.mass_matrix(tree, q), 1e-13)


# -- closed forms -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_closed_forms_are_their_definitions_and_what_is_compiled(robot, name):
    """Momenta, internal Jacobian, connection, locked inertia, decoupled dynamics, energy."""
    tree, foot = robot.tree, FEET[name]
    q, v, _ = small_state(tree)
    eq = lb.equations(robot, simplify=False)
    task = Task(foot, (3, 4, 5))
    parts = {
        "h": eq.of("base_momentum"),
        "hc": eq.of("centroidal_momentum"),
        "J": eq.of("internal_jacobian", task=task),
        "m": eq.connection,
        "locked": eq.locked_inertia,
        **eq.of("decoupled_dynamics")._asdict(),
        "T": eq.kinetic,
    }
    values = dict(zip([*eq.q, *eq.v], [*q, *v], strict=True))
    found = {k: np.array(from_sympy(x, values), float) for k, x in parts.items()}
    compiled = {
        "h": robot.base_momentum(q, v),
        "hc": robot.centroidal_momentum(q, v),
        "J": robot.internal_jacobian(q, task),
        "m": robot.mechanical_connection(q),
        **robot.decoupled_dynamics(q, v)._asdict(),
    }
    for key, expected in compiled.items():
        close(np.reshape(found[key], np.shape(expected)), expected, 1e-11)
    M = dyn.mass_matrix(tree, q)
    close(found["locked"], M[:6, :6], 1e-12)
    close(found["m"], np.linalg.solve(M[:6, :6], M[:6, 6:]), 1e-10)
    close(found["T"], v @ M @ v / 2, 1e-12)
    close(found["h"][:, 0], momentum_in_base(tree, q, v), 1e-12)
    speed = rate(tree, lambda x: dyn.center_of_mass(tree, x), q, v)
    turn = dyn.body_poses(tree, q)[0][:3, :3]
    close(turn @ found["h"][3:, 0], tree.mass * speed, 1e-8)
    # M_x, M_y and C of w = A(q) v are A^-T M A^-1 and A^-T (C A^-1 + M d/dt A^-1)
    B = dyn.decoupling_transform_inverse(tree, q)
    changed = B.T @ M @ B
    close(changed[:6, :6], found["Mx"], 1e-10)
    close(changed[6:, 6:], found["My"], 1e-10)
    close(changed[:6, 6:], np.zeros((6, tree.nv - 6)), 1e-10)
    B_rate = rate(tree, lambda x: dyn.decoupling_transform_inverse(tree, x), q, v)
    C = np.block([[found["Cx"], found["Cxy"]], [found["Cyx"], found["Cy"]]])
    w = np.linalg.solve(B, v)
    bias = dyn.bias_forces(tree, q, v, (0, 0, 0))
    close(C @ w, B.T @ (bias + M @ B_rate @ w), 1e-7)


# -- constraints of velocities ------------------------------------------------------------------------------


def test_a_foot_on_a_blade_and_one_that_rolls_obey_the_multiplier_rule(robot, name):
    """M a + b = tau + J^T lambda with J v = 0 on the way; J by differences of the foot's velocity."""
    tree, foot = robot.tree.with_joints("ideal"), FEET[name]
    q, _, tau = small_state(tree)
    body = tree.bodies[-1].name
    closed = ClosedTree(tree, [KnifeEdge("blade", foot), Rolling("roll", body, 0.03, held=False)])
    v = closed.consistent_velocities(q, 0.1 * np.ones(tree.nv))

    def slip(v):
        blade = dyn.frame_twist(tree, q, v, foot)[4]
        T, V = dyn.frame_pose(tree, q, body), dyn.frame_twist(tree, q, v, body)
        touching = V[3:] + np.cross(V[:3], T[:3, :3].T @ np.array([0, 0, -0.03]))
        return np.array([blade, *(T[:3, :3] @ touching)[:2]])

    J = np.stack([slip(e) for e in np.eye(tree.nv)], axis=1)
    close(slip(v), 0, 1e-12)
    a = np.asarray(compile_numpy(closed.function("accelerations"))(0.0, q, v, tau)[0])
    rest = dyn.mass_matrix(tree, q) @ a + dyn.bias_forces(tree, q, v, WEIGHT) - tau
    multipliers, *_ = np.linalg.lstsq(J.T, rest, rcond=None)
    close(J.T @ multipliers, rest, 1e-9)
    h = 1e-4  # along the motion q'' = a the slip stays zero: of second order in h
    ahead = tree.group.integrate(q, h * v + h * h / 2 * a)
    moved = closed.velocity_violation(ahead, v + h * a)
    assert max(np.abs(x).max() for x in moved.values()) < 1e-6 * (1 + np.abs(a).max())
