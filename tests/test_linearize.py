"""Linear models: against the motions themselves, closed forms, and what regulators promise."""

import numpy as np
import pytest
from constrained_models import four_bar
from random_trees import WEIGHT, random_state, random_tree
from test_derivatives import along

import liebody as lb
from liebody.base.errors import ConfigurationError, IntegrationError, ModelError, ShapeError
from liebody.groups import Planar, Prismatic, Revolute, Spherical
from liebody.mechanisms import JointSpring
from liebody.mechanisms.constrained import ClosedTree, Condition, KnifeEdge, SystemBuilder

TREES = {
    "ball": ["spherical"],
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


@pytest.mark.parametrize("kind", list(TREES)[1:])
@pytest.mark.many
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


IMPLICIT = [pytest.param(kind, "gauss4", marks=pytest.mark.slow) for kind in list(TREES)[1:]]


@pytest.mark.parametrize(
    ("kind", "method"),
    [(kind, method) for kind in list(TREES)[1:] for method in ("rkmk4", "cf4", "rkmk45", "euler")]
    + [("ball", "gauss4"), pytest.param("ball", "radau3", marks=pytest.mark.slow)]
    + IMPLICIT,
)
@pytest.mark.wide
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


def closed_four_bar():
    """Three hinges and a rod, one freedom."""
    meet = Condition("C", lambda A, B: (A[:3, 3] - B[:3, 3])[[0, 2]], ("end", "tip"))
    closed = ClosedTree(four_bar(), [meet])
    q = closed.assemble([-1.0, 0.5, -2.0])
    return closed, q, closed.consistent_velocities(q, [3.0, 0, 0], hold=["A"])


def hanging_body():
    """In absolute coordinates, on a ball joint: three freedoms."""
    builder = SystemBuilder("top")
    builder.body("top", lb.SpatialInertia(2.0, [0.1, 0.2, -0.5], rotational=np.diag([0.1, 0.2, 0.3])))
    system = builder.joint("pivot", Spherical(), "world", "top").build()
    return system, system.guess, system.consistent_velocities(system.guess, [1.0, -2.0, 0.5, 0, 0, 0])


def sleigh():
    """A blade on ice, whose constraint is one of velocities alone: three places, two velocities."""
    tree = lb.TreeBuilder("sleigh")
    tree.add("sleigh", Planar([0, 0, 1]), lb.SpatialInertia(2.0, [0.4, 0, 0], rotational=0.3 * np.eye(3)))
    return (
        ClosedTree(tree.build(), [KnifeEdge("blade", "sleigh")]),
        np.array([0.3, 0.1, 0.2]),
        np.array([2.0, -0.5, 0]),
    )


@pytest.mark.parametrize(
    ("made", "freedoms", "method"),
    [
        (closed_four_bar, 2, None),
        (closed_four_bar, 2, "rkmk4"),
        (hanging_body, 6, None),
        (sleigh, 5, None),
        (sleigh, 5, "radau3"),
        *(
            pytest.param(*x, marks=pytest.mark.slow)
            for x in (
                (closed_four_bar, 2, "radau3"),
                (hanging_body, 6, "rkmk4"),
                (hanging_body, 6, "radau3"),
                (sleigh, 5, "rkmk4"),
            )
        ),
    ],
)
@pytest.mark.many
def test_the_model_of_constrained_motions_is_the_derivative_of_those_that_obey(made, freedoms, method):
    """By states that are put back on the constraints, next to (q, v), and the motions from them."""
    mechanism, q, v = made()
    n, nu, h = mechanism.nv, mechanism.nu, None if method is None else 0.05
    tau = 0.3 + np.arange(nu)

    def start(s):
        state = mechanism.group.integrate(q, s[:n]), v + s[n:]
        for _ in range(6):
            state = mechanism.project(*state)
        return state

    def tangent(a, b):
        return np.concatenate([mechanism.group.difference(a[0], b[0]), b[1] - a[1]])

    def after(state, u):
        if method is None:
            ahead = lambda t: mechanism.group.integrate(q, t[0] * v)  # noqa: E731
            other = lambda t: mechanism.group.integrate(state[0], t[0] * state[1])  # noqa: E731
            rate = along(lambda t: mechanism.group.difference(ahead(t), other(t)), 1)[:, 0]
            return np.concatenate([rate, mechanism.accelerations(*state, u)[0]])
        run = lb.simulate(mechanism, *state, tau=u if nu else None, t_end=h, dt=h, method=method)
        return run.q[-1], run.v[-1]

    base = after((q, v), tau)

    def change(state, u):
        found = after(state, u)
        return found - base if method is None else tangent(base, found)

    A, B, _, basis, measure = lb.linearize(mechanism, q, v, tau, h, method=method or "rkmk4")
    assert A.shape == (freedoms, freedoms) and B.shape == (freedoms, nu)
    close(measure @ basis, np.eye(freedoms), 1e-12)
    T = along(lambda s: tangent((q, v), start(s)), 2 * n)
    assert np.linalg.matrix_rank(T, 1e-8) == freedoms
    close(basis @ measure @ T, T, 1e-8)
    close(A @ measure @ T, measure @ along(lambda s: change(start(s), tau), 2 * n), 1e-8)
    if nu:
        close(B, measure @ along(lambda w: change((q, v), tau + w), nu), 1e-8)


def test_a_loop_is_regulated_in_its_one_freedom():
    """Weight is balanced by the drive A; the loop comes back from next to it, and P is what that costs."""
    closed, q, _ = closed_four_bar()
    freedom = lb.linearize(closed, q).basis[:3, 0]
    weight = closed.applied(0.0, q, np.zeros(3), np.zeros(3)) @ freedom / freedom[0]
    linear = lb.linearize(closed, q, tau=[-weight, 0, 0])
    close(closed.accelerations(q, np.zeros(3), [-weight, 0, 0])[0], np.zeros(3), 1e-12)
    one = linear._replace(B=linear.B[:, [0]])
    K, P = lb.lqr(one, np.eye(2), np.eye(1))

    def hold(t, x, v):
        u = -K @ linear.measure @ np.concatenate([x - q, v])
        return np.concatenate([u - weight, [0.0, 0.0]])

    q0 = closed.assemble(q + 1e-3 * freedom)
    run = lb.simulate(closed, q0, t_end=20.0, dt=2e-3, record_every=2e-3, tau=hold)
    x = np.concatenate([run.q - q, run.v], axis=1) @ linear.measure.T
    paid = np.trapezoid((x * x).sum(axis=1) + (x @ K.T)[:, 0] ** 2, run.t)
    assert np.abs(x[-1]).max() < 1e-6 and abs(paid / (x[0] @ P @ x[0]) - 1) < 0.02


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
    with pytest.raises(ShapeError, match=r"leading axes of q \(3,\) and v \(2,\) differ"):
        lb.linearize(robot, np.zeros((3, 2)), np.zeros((2, 2)))
    with pytest.raises(ConfigurationError, match=r"tau\[1\] is nan"):
        lb.linearize(robot, [0.0, 0.0], tau=[0.0, np.nan], dt=0.1)
    with pytest.raises(ShapeError, match="tau cannot be read as an array of numbers"):
        lb.linearize(robot, [0.0, 0.0], tau="much")
    with pytest.raises(IntegrationError, match=r"dt is -0\.1, expected a positive number"):
        lb.linearize(robot, [0.0, 0.0], dt=-0.1)
    with pytest.raises(IntegrationError, match="no method 'radau7'"):
        lb.linearize(robot, [0.0, 0.0], dt=0.1, method="radau7")
    with pytest.raises(ModelError, match="generalized-alpha remembers more than q and v"):
        lb.linearize(robot, [0.0, 0.0], dt=0.1, method="generalized-alpha")
    with pytest.raises(IntegrationError, match="variational keeps constraints in its own way; leave out"):
        lb.linearize(robot, [0.0, 0.0], dt=0.1, method="variational", stabilization="baumgarte")
    closed, q, v = closed_four_bar()
    with pytest.raises(ConfigurationError, match="q0 violates constraint 'C'"):
        lb.linearize(closed, q + 0.1, v)
    with pytest.raises(ShapeError, match="no states"):
        lb.linearize(closed, np.zeros((0, len(q))), np.zeros((0, len(v))))
    linear = lb.linearize(robot, [np.pi, 0.0])
    with pytest.raises(ShapeError, match=r"Q has shape \(2, 2\), expected \(4, 4\)"):
        lb.lqr(linear, np.eye(2), np.eye(2))
    with pytest.raises(ModelError, match="no stabilising solution"):
        lb.lqr(linear._replace(B=0 * linear.B), np.eye(4), np.eye(2))
    with pytest.raises(ModelError, match="R must be positive definite"):
        lb.lqr(linear, np.eye(4), -np.eye(2))
