"""Linear models: against the motions themselves, closed forms, and what regulators promise."""

import numpy as np
import pytest
from random_trees import WEIGHT, random_state, random_tree
from test_derivatives import along

import liebody as lb
from liebody.dynamics import JointSpring
from liebody.errors import IntegrationError, ModelError, ShapeError
from liebody.groups import Prismatic, Revolute

TREES = {
    "hinges": ["revolute", "revolute", "prismatic"],
    "floating": ["free", "revolute", "spherical"],
    "groups that do not commute": ["planar", "schoenflies", "cylindrical"],
}


def robot_of(kind, followers=0):
    rng = np.random.default_rng(len(kind))
    tree = random_tree(rng, TREES[kind], followers)
    return lb.Robot(tree, WEIGHT), *random_state(rng, tree)


def close(actual, expected, gate):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= gate * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("kind", TREES)
def test_the_model_is_how_tangents_move_along_any_motion(kind):
    """delta(t) = log(q(t)^-1 q'(t)) of two motions that begin at (q, v) and next to it."""
    robot, q, v, tau = robot_of(kind)
    n = robot.nv

    def tangent_rate(x):
        delta, nu, du = x.reshape(3, n)
        other = robot.integrate(q, delta)

        def tangent(t):
            return robot.difference(robot.integrate(q, t[0] * v), robot.integrate(other, t[0] * (v + nu)))

        a = robot.forward_dynamics(other, v + nu, tau + du, damping=True)
        return np.concatenate([along(tangent, 1)[:, 0], a])

    A, B, dt = lb.linearize(robot, q, v, tau)
    expected = along(tangent_rate, 3 * n)
    close(np.hstack([A, B]), expected, 1e-9)
    assert dt is None


@pytest.mark.parametrize("method", ["rkmk4", "cf4", "rkmk45", "euler"])
@pytest.mark.parametrize("kind", TREES)
def test_the_model_of_a_step_is_the_derivative_of_that_step(kind, method):
    robot, q, v, tau = robot_of(kind, followers=2 if kind == "hinges" else 0)
    n, options = robot.nv, {"method": method, "forces": [JointSpring(30.0)] if kind == "hinges" else []}
    h = 0.05

    def end(x):
        delta, nu, du = x.reshape(3, n)
        start = robot.integrate(q, delta), v + nu
        run = lb.simulate(robot, *start, tau=tau + du, t_end=h, dt=h, **options)
        return run.q[-1], run.v[-1]

    q1, v1 = end(np.zeros(3 * n))

    def moved(x):
        q2, v2 = end(x)
        return np.concatenate([robot.difference(q1, q2), v2 - v1])

    A, B, dt = lb.linearize(robot, q, v, tau, h, **options)
    close(np.hstack([A, B]), along(moved, 3 * n), 1e-9)
    assert dt == h


@pytest.mark.parametrize("dt", [None, 0.01])
def test_batches_are_their_single_states(dt):
    robot, q, v, _ = robot_of("floating")
    states = np.stack([q, robot.integrate(q, 0.3 * v)])
    together = lb.linearize(robot, states, v, dt=dt)
    for k in range(2):
        for x, y in zip(together[:2], lb.linearize(robot, states[k], v, dt=dt)[:2], strict=True):
            close(x[k], y, 1e-13)


def test_a_pendulum_at_rest_is_that_of_the_textbook():
    """A point of mass m at the distance l: d2 delta/dt2 = -(g / l) delta + du / (m l^2)."""
    m, l, g = 2.0, 0.7, 9.81
    tree = lb.TreeBuilder("pendulum")
    tree.add("bob", Revolute([0, 1, 0]), lb.SpatialInertia(m, [0, 0, -l], np.zeros((3, 3))))
    pendulum = lb.Robot(tree.build(check=False), (0, 0, -g))
    for angle, sign in ((0.0, -1), (np.pi, 1)):
        A, B, _ = lb.linearize(pendulum, [angle])
        close(A, [[0, 1], [sign * g / l, 0]], 1e-15)
        close(B, [[0], [1 / (m * l * l)]], 1e-15)


def mass_on_a_slide():
    return lb.Robot(
        lb.TreeBuilder("mass").add("mass", Prismatic([1, 0, 0]), lb.SpatialInertia.sphere(1, 0.1)).build()
    )


def test_the_regulator_of_a_mass_is_that_of_the_textbook():
    """Of a double integrator with unit weights K = (1, sqrt 3), P = [sqrt 3, 1; 1, sqrt 3]."""
    root = np.sqrt(3)
    K, P = lb.lqr(lb.linearize(mass_on_a_slide(), [0.2]), np.eye(2), np.eye(1))
    close(K, [[1, root]], 1e-13)
    close(P, [[root, 1], [1, root]], 1e-13)


def test_the_regulator_of_steps_is_that_of_the_golden_ratio():
    """x' = x + u with unit weights: P = 1 + P - P^2 / (1 + P) is the golden ratio, and K = P / (1 + P)."""
    K, P = lb.lqr(lb.Linearization(np.eye(1), np.eye(1), 1.0), np.eye(1), np.eye(1))
    golden = (1 + np.sqrt(5)) / 2
    close(P, [[golden]], 1e-13)
    close(K, [[golden / (1 + golden)]], 1e-13)


@pytest.mark.parametrize("dt", [None, 0.02])
def test_the_cost_from_a_state_on_is_what_the_regulator_says(dt):
    """Along the closed loop x^T P x falls by just what is paid, x^T Q x + u^T R u + 2 x^T N u."""
    robot = lb.load("double_pendulum")
    rng = np.random.default_rng(1)
    linear = lb.linearize(robot, [np.pi, 0.0], dt=dt)
    linear = linear._replace(B=linear.B[:, [1]])
    G = rng.normal(size=(5, 5))
    W = G @ G.T  # [[Q, N], [N^T, R]]
    K, P = lb.lqr(linear, W[:4, :4], W[4:, 4:], W[:4, 4:])
    F, U = linear.A - linear.B @ K, np.vstack([np.eye(4), -K])
    paid = U.T @ W @ U
    fall = -(F.T @ P + P @ F) if dt is None else P - F.T @ P @ F
    close(fall, paid, 1e-8)
    poles = np.linalg.eigvals(F)
    assert (poles.real < 0).all() if dt is None else (np.abs(poles) < 1).all()


def test_what_cannot_be_linearised_or_regulated_is_refused():
    robot = lb.load("double_pendulum")
    with pytest.raises(ShapeError, match=r"v has shape \(3,\), expected \(\.\.\., 2\)"):
        lb.linearize(robot, [0.0, 0.0], np.zeros(3))
    with pytest.raises(IntegrationError, match=r"dt is -0\.1, expected a positive number"):
        lb.linearize(robot, [0.0, 0.0], dt=-0.1)
    with pytest.raises(IntegrationError, match="no method 'radau5'"):
        lb.linearize(robot, [0.0, 0.0], dt=0.1, method="radau5")
    with pytest.raises(ModelError, match="has constraints"):
        lb.linearize(lb.constrained.AbsoluteTree(robot.tree).system, np.zeros(14))
    linear = lb.linearize(robot, [np.pi, 0.0])
    with pytest.raises(ShapeError, match=r"Q has shape \(2, 2\), expected \(4, 4\)"):
        lb.lqr(linear, np.eye(2), np.eye(2))
    with pytest.raises(ModelError, match="no stabilising solution"):
        lb.lqr(linear._replace(B=0 * linear.B), np.eye(4), np.eye(2))
    with pytest.raises(ModelError, match="R must be positive definite"):
        lb.lqr(linear, np.eye(4), -np.eye(2))
