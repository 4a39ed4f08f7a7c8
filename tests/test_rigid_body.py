"""One rigid body on any Lie group: laws, the Boltzmann-Hamel equations, equations in symbols, refusals."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import sympy

import liebody as lb
from liebody import SpatialInertia, TreeBuilder, rigid_body_equations
from liebody.base.errors import ConfigurationError, LiebodyError, ModelError, ShapeError
from liebody.compiler import Kernel, jacobian, trace
from liebody.dynamics import forward_dynamics, gravity_forces
from liebody.groups import (
    SE2,
    SE3,
    SO2,
    SO3,
    AdjointGroup,
    Cylindrical,
    Free,
    Helical,
    LieGroup,
    MatrixGroup,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Product,
    R,
    Revolute,
    Schoenflies,
    SO3xR3,
    SpatialTranslation,
    Spherical,
)
from liebody.mechanisms import (
    BoltzmannHamel,
    RigidBody,
    SelectedMotions,
    ellipsoid_added_mass,
    exponential_transformation,
    roll_pitch_yaw_transformation,
    structure_constants,
)
from liebody.scalars.linear import skew
from liebody.symbolic.rigid_body import boltzmann_hamel_equations

X, Z, SLANTED, POINT = (1, 0, 0), (0, 0, 1), (1, -2, 0.5), (0.3, -0.2, 0.5)


class Heisenberg(LieGroup):
    n, dim = 3, 3

    def hat(self, u):
        return np.array([[0, u[0], u[2]], [0, 0, u[1]], [0, 0, 0]])


class Affine(LieGroup):
    n, dim = 2, 2

    def hat(self, u):
        return np.array([[u[0], u[1]], [0, 0]])


GL2 = MatrixGroup(np.eye(4).reshape(4, 2, 2), "GL(2)")
SL2 = MatrixGroup([[[1, 0], [0, -1]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]], "SL(2)")
SL2_BY_CONSTANTS = AdjointGroup(structure_constants(SL2), "sl(2)")
JOINTS = [
    Prismatic(X),
    Revolute(SLANTED, POINT),
    Helical(Z, 0.3, POINT),
    PlanarTranslation(SLANTED),
    Cylindrical(Z, POINT),
    Planar(SLANTED, POINT),
    SpatialTranslation(),
    Spherical(POINT),
    Schoenflies(Z, POINT),
    PlanarHelical(SLANTED, -0.4),
    Free(),
]
GROUPS = [
    *JOINTS, SE3, SE2, SO3, SO2, R(3), SO3xR3, Product(SO3, SE2, R(1)),
    GL2, SL2, SL2_BY_CONSTANTS, Heisenberg(), Affine(),
]  # fmt: skip


def inertia(rng, n):
    """Symmetric, positive definite, of sizes over decades."""
    A = rng.standard_normal((n, n))
    scale = 10.0 ** rng.uniform(-2, 2, n)
    return (A @ A.T + np.eye(n)) * np.outer(scale, scale)


def body(rng):
    points = [SpatialInertia.point(m, x) for m, x in zip(rng.uniform(0.2, 1, 6), rng.standard_normal((6, 3)))]
    return sum(points, SpatialInertia())


def close(a, b, scale=None, rtol=1e-12):
    scale = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0)) if scale is None else scale
    np.testing.assert_allclose(
        np.asarray(a, float), np.asarray(b, float), atol=rtol * max(scale, 1e-300), rtol=0
    )


# -- the equations on a group -------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_coriolis_matrix_is_the_momentum_on_brackets(group):
    rng = np.random.default_rng(1)
    n = group.dim
    b = RigidBody(group, inertia(rng, n))
    v = 10.0 ** rng.uniform(-3, 2) * rng.standard_normal(n)
    p, C, one = b.momentum(v), b.coriolis(v), np.eye(n)
    close(C, [[p @ (group.ad(one[i]) @ one[j]) for j in range(n)] for i in range(n)])
    close(C, -C.T)
    close(C @ v, -group.ad(v).T @ b.mass_matrix @ v, np.abs(C).max() * np.abs(v).max())
    a, tau = rng.standard_normal((2, n))
    # accelerations through M: sizes over decades cost the digits of its condition
    scale = np.abs(b.efforts(v, a)).max()
    close(b.efforts(v, b.acceleration(v, tau)), tau, max(scale, 1) * np.linalg.cond(b.mass_matrix), 1e-14)


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_theorem_of_section_5(group):
    rng = np.random.default_rng(2)
    n = group.dim
    b = RigidBody(group, inertia(rng, n))
    v, phi = rng.standard_normal((2, n))
    truth = b.coriolis(v)
    closed = BoltzmannHamel(exponential_transformation(group), b.mass_matrix)
    size = np.abs(b.momentum(v)).max()
    close(closed.hamel_coefficients(phi), b.structure.transpose(2, 1, 0), 1.0, 1e-12)
    close(closed.coriolis(phi, v), truth, size)
    close(
        closed.coriolis(phi, v, form="gamma"), -group.ad(v).T @ b.mass_matrix, np.abs(b.mass_matrix).max() * 3
    )
    close(closed.bias(phi, v), truth @ v, size)
    series = BoltzmannHamel(exponential_transformation(group, terms=3), b.mass_matrix)
    terms = (np.abs(b.mass_matrix) @ np.abs(v)).max()  # of the momentum, which may cancel
    close(series.coriolis(np.zeros(n), v), truth, terms, n * 1e-15)  # (57): from the first two, exactly


@pytest.mark.parametrize("group", [SE3, SO3, Planar(Z), GL2, Heisenberg()], ids=repr)
def test_the_series_of_s_converges_to_its_closed_form(group):
    phi = 0.8 * np.random.default_rng(3).standard_normal(group.dim)
    closed = exponential_transformation(group)(phi)
    errors = [np.abs(exponential_transformation(group, k)(phi) - closed).max() for k in (2, 4, 8, 30)]
    assert errors[0] > errors[1] > errors[2] > 1e-9 or isinstance(group, Heisenberg)
    assert errors[3] < 1e-14


def test_three_closed_forms_are_proved():
    from liebody_studies.from_2012.groups import symbolic_proofs

    assert symbolic_proofs() == {"$SE(2)$": True, "Heisenberg": True, "Aff(1)": True}


@pytest.mark.parametrize("group", [SE3, SO3, SE2, GL2, SL2, Heisenberg(), Affine()], ids=repr)
def test_a_free_body_keeps_energy_and_momentum_in_space(group):
    """Ad(g^-1)^T M v is constant on every group: it is what the symmetry of the kinetic energy conserves."""
    rng = np.random.default_rng(4)
    n = group.dim
    A = rng.standard_normal((n, n))
    b = RigidBody(group, A @ A.T / n + np.eye(n))
    x0 = np.r_[group.neutral(), 0.7 * rng.standard_normal(n)]
    run = lb.solve_ivp(b.vector_field(), (0, 1.0), x0, b.state_group, rtol=1e-10, atol=1e-11)
    assert run.success
    q, v = run.q[:, : group.nq], run.q[:, group.nq :]
    p0 = b.momentum(v[0])
    p1 = group.Ad(group.inverse(group.element(q[-1]))).T @ b.momentum(v[-1])
    assert not np.allclose(b.momentum(v[-1]), p0, atol=1e-3)  # the body-fixed one does turn
    close(p1, p0, rtol=1e-8)
    close(b.kinetic_energy(v[-1]), b.kinetic_energy(v[0]), rtol=1e-9)


# -- bodies in space ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", JOINTS, ids=repr)
def test_restricted_to_a_subgroup(group):
    """M = S^T I S and C = S^T C_SE3(I S v) S, where S spans a subalgebra."""
    rng = np.random.default_rng(5)
    J, v = body(rng), rng.standard_normal(group.dim)
    b, S = RigidBody(group, J), group.S
    close(b.mass_matrix, S.T @ J.matrix() @ S)
    close(b.coriolis(v), S.T @ SE3.coad(J.matrix() @ S @ v) @ S, np.abs(J.matrix()).max() * 10)
    close(RigidBody(group, J.matrix()).mass_matrix, b.mass_matrix)


@pytest.mark.parametrize("group", JOINTS, ids=repr)
def test_like_a_tree_of_one_body(group):
    rng = np.random.default_rng(6)
    J = body(rng)
    tree = TreeBuilder().add("body", group, J).build()
    b = RigidBody(group, J)
    q, v, tau = group.random(rng), rng.standard_normal(group.dim), rng.standard_normal(group.dim)
    gravity = (0.5, -1, -9.81)
    close(b.gravity_wrench(q, gravity), -gravity_forces(tree, q, gravity=gravity), 100)
    force = tau + b.gravity_wrench(q, gravity)
    close(b.acceleration(v, force), forward_dynamics(tree, q, v, tau, gravity=gravity), rtol=1e-10)


@pytest.mark.parametrize("group", JOINTS, ids=repr)
def test_gravity_is_the_slope_of_the_potential(group):
    rng = np.random.default_rng(7)
    J, q, g = body(rng), group.random(rng), np.array([1.0, 2.0, -9.81])
    b = RigidBody(group, J)

    def potential(u):
        T = b.pose(group.integrate(q, u))
        return -J.mass * (g @ (T[:3, :3] @ J.com + T[:3, 3]))

    slope = jacobian(trace(potential, {"u": (group.dim,)}, name="U"), "u")(np.zeros(group.dim))
    close(b.gravity_wrench(q, g), -np.ravel(slope), 100)


def test_selected_motions_are_groups():
    H = np.zeros((6, 3))
    H[2, 0] = H[3, 1] = H[4, 2] = 1
    selected, planar = SelectedMotions(H, "planar"), Planar(Z)
    rng = np.random.default_rng(8)
    J, u, v = body(rng), rng.standard_normal(3), rng.standard_normal(3)
    close(selected.ad(u), planar.ad(u))
    close(selected.dexp(u), planar.dexp(u))
    close(selected.log(selected.exp(u)), u)
    T, q = selected.exp(u), planar.integrate(planar.neutral(), u)
    close(T, planar.pose(q))
    a, b = RigidBody(selected, J), RigidBody(planar, J)
    close(a.acceleration(v, u), b.acceleration(v, u))
    close(a.gravity_wrench(T.ravel()), b.gravity_wrench(q))
    screw = np.array([0.2, 0.3, -1, 0.4, 0, 2.0])
    assert RigidBody(SelectedMotions(screw[:, None]), J).mass_matrix == pytest.approx(
        screw @ J.matrix() @ screw
    )


def test_a_heavy_body_swings_on_its_group():
    """Energy of a body on a ball joint off its centre of mass, through whatever orientation."""
    b = RigidBody(Spherical(POINT), body(np.random.default_rng(9)))
    x0 = np.r_[b.group.neutral(), 1.0, -2.0, 3.0]
    run = lb.solve_ivp(b.vector_field(gravity=(0, 0, -9.81)), (0, 2), x0, b.state_group, rtol=1e-9)
    (m, c), *_ = b._weights

    def energy(x):
        T = b.pose(x[:4])
        return b.kinetic_energy(x[4:]) + 9.81 * m * (T[:3, :3] @ c + T[:3, 3])[2]

    close(energy(run.q[-1]), energy(x0), rtol=1e-7)


# -- fluid --------------------------------------------------------------------------------------------------


def test_added_mass_of_a_sphere_and_of_spheroids():
    displaced = 4 / 3 * math.pi * 1000.0
    close(ellipsoid_added_mass((1, 1, 1), 1000.0), np.diag([0, 0, 0, 0.5, 0.5, 0.5]) * displaced)
    for ratio in (1.2, 2.0, 10.0):  # Lamb (1932), art. 114: the prolate spheroid in closed form
        e = math.sqrt(1 - ratio**-2)
        alpha = 2 * (1 - e**2) / e**3 * (math.atanh(e) - e)
        beta = 1 / e**2 - (1 - e**2) / e**3 * math.atanh(e)
        along, across = alpha / (2 - alpha), beta / (2 - beta)
        turn = e**4 * (beta - alpha) / ((2 - e**2) * (2 * e**2 - (2 - e**2) * (beta - alpha)))
        I = displaced * ratio / 5 * (ratio**2 + 1)
        expected = [0, turn * I, turn * I, *(displaced * ratio * np.array([along, across, across]))]
        close(ellipsoid_added_mass((ratio, 1, 1), 1000.0), np.diag(expected), rtol=1e-11)


@pytest.mark.parametrize("axes", [(3, 2, 1), (1, 1 + 1e-9, 2), (1e-3, 5, 40)])
def test_added_mass_is_cyclic_and_positive(axes):
    A = np.diag(ellipsoid_added_mass(axes, 1.0))
    turned = np.diag(ellipsoid_added_mass(axes[1:] + axes[:1], 1.0))
    close(turned, np.r_[np.roll(A[:3], -1), np.roll(A[3:], -1)], rtol=1e-10)
    assert np.all(A[3:] > 0) and np.all(A[:3] >= 0)
    ratios = A[3:] / (4 / 3 * math.pi * np.prod(axes))
    assert sum(2 * k / (1 + k) for k in ratios) == pytest.approx(2, rel=1e-12)  # alpha + beta + gamma


def test_munk_moment_turns_a_slender_body_broadside():
    axes, density = (1.0, 0.3, 0.2), 1000.0
    mass = 4 / 3 * math.pi * density * np.prod(axes)
    J = SpatialInertia(mass, rotational=np.array([2.0, 5.0, 6.0]))
    b = RigidBody(Free(), J, added_mass=ellipsoid_added_mass(axes, density), buoyancy=(mass, (0, 0, 0.05)))
    m = np.diag(b.mass_matrix)[3:]
    u, w = 1.5, 0.2
    moment = -b.coriolis([0, 0, 0, u, 0, w]) @ [0, 0, 0, u, 0, w]
    close(moment[:3], [0, (m[2] - m[0]) * u * w, 0])
    assert moment[1] > 0  # with w > 0 the nose points above the path: the moment about y lifts it further
    # neutrally buoyant, with the centre of buoyancy above: no force, and a righting moment
    tilted = Free().integrate(Free().neutral(), np.array([0.1, 0, 0, 0, 0, 0]))
    wrench = b.gravity_wrench(tilted)
    close(wrench, [-mass * 9.81 * 0.05 * math.sin(0.1), 0, 0, 0, 0, 0], 1e3)


# -- Boltzmann-Hamel in other coordinates -------------------------------------------------------------------


@pytest.mark.parametrize(("group", "nx"), [(SO3, 3), (SE3, 6)])
def test_roll_pitch_yaw_has_the_same_equations(group, nx):
    rng = np.random.default_rng(10)
    M, x, v, tau = inertia(rng, nx), rng.standard_normal(nx), rng.standard_normal(nx), rng.standard_normal(nx)
    angles, b = BoltzmannHamel(roll_pitch_yaw_transformation, M), RigidBody(group, M)
    close(angles.coriolis(x, v), b.coriolis(v), np.abs(M @ v).max())
    close(angles.acceleration(x, v, tau), b.acceleration(v, tau), rtol=1e-9)


def test_roll_pitch_yaw_is_the_velocity_of_its_attitude():
    def pose(x):
        roll, pitch, yaw = (SO3.exp(x[k] * e) for k, e in enumerate(np.eye(3)))
        return SE3.motion(yaw @ pitch @ roll, x[3:])

    x, rate = np.random.default_rng(11).standard_normal((2, 6))
    T_rate = jacobian(trace(pose, {"x": (6,)}, name="T"), "x")(x) @ rate
    V = SE3.vee(SE3.inverse(pose(x)) @ T_rate)
    close(roll_pitch_yaw_transformation(x) @ rate, V)
    close(BoltzmannHamel(roll_pitch_yaw_transformation, np.eye(6)).rates(x, V), rate)


def test_angles_break_at_the_pole_where_the_group_does_not():
    M, v = np.diag([1.0, 2.0, 3.0]), np.array([0.3, 0.2, 1.0])
    angles, truth = BoltzmannHamel(roll_pitch_yaw_transformation, M), RigidBody(SO3, M).coriolis(v)
    group = BoltzmannHamel(exponential_transformation(SO3), M)
    rates, errors = [], []
    for delta in (1e-2, 1e-4, 1e-6, 1e-8):
        x = np.array([0.5, math.pi / 2 - delta, 0.7])
        rates.append(np.abs(angles.rates(x, v)).max() * delta)
        errors.append(np.abs(angles.coriolis(x, v) - truth).max())
        roll, pitch, yaw = (SO3.exp(angle * e) for angle, e in zip(x, np.eye(3)))
        close(group.coriolis(SO3.log(yaw @ pitch @ roll), v), truth, 3)
    np.testing.assert_allclose(rates, rates[-1], rtol=0.05)  # rates grow as 1/delta
    assert errors[-1] > 1e5 * errors[0] and errors[-1] > 1e-10


@pytest.mark.parametrize("decade", range(13))
def test_compiled_equations_lose_no_more_than_the_condition_next_to_a_pole(decade):
    """At 10^-decade rad from the pole: rates to round-off, by 50 digits, C to round-off over the distance.

    The columns of S are orthogonal there, so its condition says nothing of the rates.
    """
    M, v, distance = np.diag([1.0, 2.0, 3.0]), np.array([0.3, 0.2, 1.0]), 10.0**-decade
    M[0, 1] = M[1, 0] = 0.2
    angles = BoltzmannHamel(roll_pitch_yaw_transformation, M)
    shapes, x = {"x": (3,), "v": (3,)}, np.array([0.5, math.pi / 2 - distance, 0.7])
    with mpmath.workdps(50):
        (sr, sp), (cr, cp) = ([f(mpmath.mpf(a)) for a in x[:2]] for f in (mpmath.sin, mpmath.cos))
        S = mpmath.matrix([[1, 0, -sp], [0, cr, sr * cp], [0, -sr, cr * cp]])
        exact = np.array(mpmath.lu_solve(S, mpmath.matrix(v.tolist())).T.tolist()[0], float)
    rates = Kernel(trace(angles.rates, shapes, name="rates"))(x, v)
    np.testing.assert_allclose(rates, exact, rtol=1e-14, atol=1e-15 * np.abs(exact).max())
    C = Kernel(trace(angles.coriolis, shapes, name="coriolis"))(x, v)
    assert np.abs(C - RigidBody(SO3, M).coriolis(v)).max() < 2e-15 * np.abs(M @ v).max() / distance


@pytest.mark.parametrize("decade", range(10))
def test_compiled_rates_of_exponential_coordinates_next_to_their_end(decade):
    """At 2 pi - 10^-decade rad, where two singular values of dexp vanish at once: against 50 digits."""
    distance = 10.0**-decade
    axis = np.array([2.0, -1.0, 2.0]) / 3
    phi, v = (2 * math.pi - distance) * axis, np.array([0.3, 0.2, 1.0])
    with mpmath.workdps(50):
        p = mpmath.matrix(phi.tolist())
        angle = mpmath.sqrt(p[0] ** 2 + p[1] ** 2 + p[2] ** 2)
        W = mpmath.matrix([[0, -p[2], p[1]], [p[2], 0, -p[0]], [-p[1], p[0], 0]])
        bend, twist = (1 - mpmath.cos(angle)) / angle**2, (angle - mpmath.sin(angle)) / angle**3
        S = mpmath.eye(3) - bend * W + twist * W * W
        exact = np.array(mpmath.lu_solve(S, mpmath.matrix(v.tolist())).T.tolist()[0], float)
    made = BoltzmannHamel(exponential_transformation(SO3), np.eye(3))
    rates = Kernel(trace(made.rates, {"x": (3,), "v": (3,)}, name="rates"))(phi, v)
    assert np.abs(rates - exact).max() < 2e-14 / distance * np.abs(exact).max()


def test_a_potential_and_a_transformation_of_ones_own():
    """A bead on a plane in polar coordinates, by radial and transverse speed.

    Its C v has the centrifugal and the Coriolis term.
    """
    from liebody.scalars import cos

    def S(x):
        return np.array([[1, 0], [0, x[0]]])

    m, k = 2.0, 3.0
    polar = BoltzmannHamel(S, m * np.eye(2), potential=lambda x: k * x[0] * cos(x[1]))
    x, v = np.array([1.5, 0.4]), np.array([0.3, -0.7])
    force = -k * np.array([math.cos(0.4), -math.sin(0.4)])  # -dU/dr, -dU/(r dphi)
    expected = force / m + np.array([v[1] ** 2, -v[0] * v[1]]) / x[0]
    close(polar.acceleration(x, v), expected)
    gamma = polar.hamel_coefficients(x)
    assert np.count_nonzero(gamma) == 2 and gamma[0, 1, 1] == pytest.approx(1 / x[0])


def test_they_can_be_traced():
    M = inertia(np.random.default_rng(12), 3)
    angles, b = BoltzmannHamel(roll_pitch_yaw_transformation, M), RigidBody(SO3, M)
    x, v = np.random.default_rng(13).standard_normal((2, 3))
    traced = trace(lambda x, v: angles.coriolis(x, v) @ v, {"x": (3,), "v": (3,)}, name="force")
    close(traced(x, v), angles.coriolis(x, v) @ v, np.abs(M).max())
    kernel = Kernel(trace(b.acceleration, {"v": (3,), "tau": (3,)}, name="euler"))
    close(kernel(v, x), b.acceleration(v, x), rtol=1e-11)


def test_inertias_may_be_symbols_of_a_trace():
    """Masses as inputs of a kernel: identification and design ask for their derivatives."""

    def acceleration(m, I, v):
        return RigidBody(Free(), SpatialInertia(m, (0.1, 0.2, 0.3), I)).acceleration(v)

    traced = trace(acceleration, {"m": (), "I": (3,), "v": (6,)})
    I, v = np.array([2.0, 3.0, 4.0]), np.random.default_rng(20).standard_normal(6)
    close(traced(1.5, I, v), acceleration(1.5, I, v))
    slope = jacobian(traced, "m")(1.5, I, v)
    step = 1e-5
    close(slope, (acceleration(1.5 + step, I, v) - acceleration(1.5 - step, I, v)) / (2 * step), 1, 1e-8)


# -- equations in symbols -----------------------------------------------------------------------------------

PRINTED = {
    SE3: "I_x*pdot - (I_y - I_z)*q*r = tau_p\nI_y*qdot + (I_x - I_z)*p*r = tau_q\n"
    "I_z*rdot - (I_x - I_y)*p*q = tau_r\nm*udot + m*q*w - m*r*v = tau_u\nm*vdot - m*p*w + m*r*u = tau_v\n"
    "m*wdot + m*p*v - m*q*u = tau_w",
    Schoenflies(Z): "I_z*rdot = tau_r\nm*udot - m*r*v = tau_u\nm*vdot + m*r*u = tau_v\nm*wdot = tau_w",
    SpatialTranslation(): "m*udot = tau_u\nm*vdot = tau_v\nm*wdot = tau_w",
    SE2: "I_z*rdot = tau_r\nm*udot - m*r*v = tau_u\nm*vdot + m*r*u = tau_v",
    SO3: "I_x*pdot - (I_y - I_z)*q*r = tau_p\nI_y*qdot + (I_x - I_z)*p*r = tau_q\n"
    "I_z*rdot - (I_x - I_y)*p*q = tau_r",
    PlanarTranslation(Z): "m*udot = tau_u\nm*vdot = tau_v",
    Prismatic(X): "m*udot = tau_u",
    Helical(Z, 0.3): "(I_z + h**2*m)*rdot = tau_r",
    Revolute(Z): "I_z*rdot = tau_r",
    Cylindrical(Z): "I_z*rdot = tau_r\nm*wdot = tau_w",
    PlanarHelical(Z, 0.3): "(I_z + h**2*m)*rdot = tau_r\nm*udot - m*r*v = tau_u\nm*vdot + m*r*u = tau_v",
}


@pytest.mark.parametrize("group", PRINTED, ids=repr)
def test_equations_read_like_the_textbook(group):
    equations = rigid_body_equations(group)
    assert equations.text() == str(equations) == PRINTED[group]
    assert equations.latex().count("&=") == group.dim and "\\dot{" in equations.latex()
    assert type(equations.latex()) is type(equations.text()) is str


def test_texts_of_equations_are_called_as_those_of_closed_forms_and_read_as_before():
    equations = rigid_body_equations(SO3)
    assert f"{equations.latex}" == equations.latex() and equations.text == equations.text()
    assert equations.latex.count("&=") == 3 and equations._repr_latex_().count(equations.latex()) == 1


def numbers_of(equations, pitch, rng):
    """Random values of every symbol of the inertia, v and dv/dt, and the left sides there."""
    symbols = sorted(equations.M.free_symbols, key=str)
    while True:  # until the inertia is that of something
        values = {
            s: float(rng.uniform(1, 2)) if s.is_positive else float(0.1 * rng.standard_normal())
            for s in symbols
        }
        values |= {
            s: float(rng.uniform(1, 2)) for s in symbols if str(s)[:2] == "M_" and len({*str(s)[2:]}) == 1
        }
        values |= {s: pitch for s in symbols if str(s) == "h"}
        M = np.array(equations.M.subs(values), dtype=float).reshape(equations.M.shape)
        if np.all(np.linalg.eigvalsh(M) > 0):
            break
    v, a = rng.standard_normal((2, equations.group.dim))
    values |= dict(zip((*equations.velocities, *equations.rates), (*v, *a)))
    return M, v, a, values


@pytest.mark.parametrize("kind", ["principal", "diagonal", "body", "general"])
@pytest.mark.parametrize("group", [*JOINTS, SE3, SE2, SO3], ids=repr)
@pytest.mark.many
def test_printed_equations_have_the_numbers_of_the_library(group, kind):
    equations = rigid_body_equations(group, kind)
    M, v, a, values = numbers_of(equations, getattr(group, "pitch", 0.0), np.random.default_rng(15))
    expected = RigidBody(group, M).efforts(v, a)
    close([float(eq.lhs.subs(values)) for eq in equations.equations], expected)
    names = {str(s): x for s, x in values.items()}
    lines = [line.split(" = ") for line in equations.text().splitlines()]
    close([eval(left, {}, names) for left, _ in lines], expected)
    assert [right for _, right in lines] == [str(tau) for tau in equations.efforts]
    close(np.array(equations.C.subs(values), float), RigidBody(group, M).coriolis(v), np.abs(M @ v).max())


def test_symbols_of_a_body_are_those_of_its_spatial_inertia():
    equations = rigid_body_equations(SE3, "body")
    M, *_, values = numbers_of(equations, 0, np.random.default_rng(16))
    c = [values[sympy.Symbol(f"c_{a}", real=True)] for a in "xyz"]
    m = values[sympy.Symbol("m", positive=True)]
    close(M[:3, 3:], m * skew(np.array(c)))
    close(M[3:, 3:], m * np.eye(3))


@pytest.mark.parametrize("group", [GL2, SL2, Heisenberg(), Affine(), Product(SO3, R(2))], ids=repr)
def test_equations_of_groups_of_ones_own(group):
    equations = rigid_body_equations(group, "general")
    assert [str(s) for s in equations.velocities] == [f"v_{i + 1}" for i in range(group.dim)]
    M, v, a, values = numbers_of(equations, 0, np.random.default_rng(17))
    close(np.array(equations.left.subs(values), float).ravel(), RigidBody(group, M).efforts(v, a))


def test_boltzmann_hamel_in_symbols_has_the_numbers_of_the_library():
    def S(x):
        return np.array([[2 + x[1] ** 2, x[0], 0], [0, 1 + x[0] * x[2], x[1]], [0.25, 0, 3]])

    M = np.array([[2, 0.5, 0], [0.5, 1, 0.25], [0, 0.25, 4]])
    symbolic = boltzmann_hamel_equations(S, M, simplify=False)
    numeric = BoltzmannHamel(S, M)
    x, v = np.random.default_rng(18).standard_normal((2, 3))
    values = dict(zip((*symbolic.coordinates, *symbolic.velocities), (*x, *v)))
    close(np.array(symbolic.C.subs(values), float), numeric.coriolis(x, v), 10)
    close([np.array(g.subs(values), float) for g in symbolic.gamma], numeric.hamel_coefficients(x), 10)
    close(np.array(symbolic.rates.subs(values), float).ravel(), numeric.rates(x, v), 10)


def test_roll_pitch_yaw_in_symbols():
    e = boltzmann_hamel_equations(
        roll_pitch_yaw_transformation,
        sympy.diag(1, 2, 3),
        coordinates=["phi", "theta", "psi"],
        velocities="pqr",
    )
    p, q, r = e.velocities
    phi, theta, _ = e.coordinates
    assert e.C == sympy.Matrix([[0, 3 * r, -2 * q], [-3 * r, 0, p], [2 * q, -p, 0]])
    yaw = (q * sympy.sin(phi) + r * sympy.cos(phi)) / sympy.cos(theta)
    assert sympy.simplify(e.rates[2] - yaw) == 0


# -- refusals -----------------------------------------------------------------------------------------------


def by_ad(matrix, name="Broken", dimension=3):
    """A group whose ad is given as a function, and nothing else."""
    return type(
        name, (LieGroup,), {"n": dimension, "dim": dimension, "ad": lambda self, u: matrix(np.asarray(u))}
    )()


def no_jacobi(u):
    x, y, z = u  # [e1, e2] = e3, [e2, e3] = e1, [e3, e1] = e1
    return np.array([[z, -z, y - x], [0, 0, 0], [-y, x, 0]])


class NotClosed(LieGroup):
    n, dim = 3, 2

    def hat(self, u):
        return np.array([[0, u[0], 0], [0, 0, u[1]], [0, 0, 0]])


class WrongAd(Heisenberg):
    def ad(self, u):
        return np.zeros((3, 3))


class WrongCoad(Heisenberg):
    def coad(self, p):
        return skew(p)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (by_ad(no_jacobi), "Jacobi"),
        (by_ad(lambda u: np.diag(u)), "not antisymmetric"),
        (by_ad(lambda u: skew(u) * u[0]), r"not (linear|antisymmetric)"),
        (by_ad(lambda u: skew(u) + skew(u * u) - skew(u * np.abs(u))), "not linear"),
        (by_ad(lambda u: np.zeros((2, 3))), r"shape \(2, 3\)"),
        (by_ad(lambda u: np.nan * skew(u)), "not finite"),
        (NotClosed(), "not closed"),
        (WrongAd(), "ad is not theirs"),
        (WrongCoad(), "coad"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_wrong_bracket_is_refused(group, message):
    for ask in (
        lambda: RigidBody(group, np.eye(group.dim)),
        lambda: rigid_body_equations(group, "general"),
        lambda: structure_constants(group),
    ):
        with pytest.raises(ModelError, match=message):
            ask()


def test_a_right_bracket_without_matrices_is_taken():
    group = by_ad(skew, "OnlyAd")
    v = np.array([1.0, 2.0, 3.0])
    close(
        RigidBody(group, np.diag([1.0, 2.0, 4.0])).coriolis(v),
        RigidBody(SO3, np.diag([1.0, 2.0, 4.0])).coriolis(v),
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RigidBody(SO3, np.diag([1.0, 2.0, 0.0])), ModelError, r"not positive definite.*\(0, 0, 1\)"),
        (lambda: RigidBody(SO3, np.diag([1.0, 2.0, -1.0])), ModelError, "not positive definite"),
        (
            lambda: RigidBody(SO3, np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1.0]])),
            ModelError,
            r"not symmetric.*\(0, 1\)",
        ),
        (lambda: RigidBody(SO3, np.eye(2)), ShapeError, r"\(2, 2\), expected \(3, 3\)"),
        (lambda: RigidBody(Planar(Z), np.eye(4)), ShapeError, r"\(3, 3\) or \(6, 6\)"),
        (lambda: RigidBody(SO3, np.diag([1, np.nan, 1])), ModelError, "not finite"),
        (lambda: RigidBody(Free(), SpatialInertia.point(1.0)), ModelError, "not positive definite"),
        (lambda: RigidBody(Free(), SpatialInertia(-1.0)), ModelError, "negative"),
        (lambda: RigidBody(SE3, np.eye(6)).gravity_wrench(SE3.neutral()), ModelError, "SpatialInertia"),
        (lambda: RigidBody(SO3, np.eye(3)).pose(SO3.neutral()), ModelError, "no subgroup of SE"),
        (lambda: SelectedMotions(np.eye(6)[:, :2]), ModelError, "universal"),
        (lambda: SelectedMotions(np.ones((6, 2))), ModelError, "dependent"),
        (lambda: SelectedMotions(np.eye(5)), ShapeError, r"\(6, dim\)"),
        (lambda: BoltzmannHamel(lambda x: np.eye(3), np.eye(2)), ShapeError, r"\(3, 3\)"),
        (
            lambda: BoltzmannHamel(lambda x: np.eye(2), np.eye(2)).coriolis([0, 0], [0, 0], "newton"),
            ModelError,
            "gamma",
        ),
        (
            lambda: BoltzmannHamel(lambda x: np.array([[x[0], 0], [0, 1]]), np.eye(2)).rates([0, 0], [1, 1]),
            ConfigurationError,
            "singular at x",
        ),
        (lambda: roll_pitch_yaw_transformation(np.zeros(4)), ShapeError, "3 or 6"),
        (lambda: ellipsoid_added_mass((1, 2), 1), ModelError, "three positive lengths"),
        (lambda: ellipsoid_added_mass((1, 2, 0), 1), ModelError, "three positive lengths"),
    ],
)
def test_what_cannot_be_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_units_do_not_make_an_inertia_singular():
    light, heavy = 1e-12, 1e6
    assert RigidBody(SE2, np.diag([light, heavy, heavy])).acceleration(np.ones(3)) == pytest.approx(
        [0, 1, -1]
    )


s = sympy.symbols


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rigid_body_equations(3), LiebodyError, "group is 3, expected LieGroup"),
        (lambda: rigid_body_equations(SO3, 3), ShapeError, "inertia is 3, expected a matrix"),
        (lambda: rigid_body_equations(SO3, -np.eye(3)), ModelError, "is not positive definite"),
        (lambda: rigid_body_equations(SO3, velocities=[1, 2, 3]), LiebodyError, "has 1, expected texts"),
        (lambda: boltzmann_hamel_equations(3, np.eye(2)), ShapeError, "S is 3, expected a matrix"),
        (
            lambda: rigid_body_equations(SO3, velocities="pqq"),
            ModelError,
            "'q' is twice among the velocities",
        ),
        (
            lambda: rigid_body_equations(SE2, velocities=["r", "m", "v"]),
            ModelError,
            "'m' is among the velocities",
        ),
        (
            lambda: rigid_body_equations(SO3, efforts=["p", "b", "c"]),
            ModelError,
            "'p' is among the velocities",
        ),
        (lambda: rigid_body_equations(SE2, velocities=["r", "rdot", "v"]), ModelError, "'rdot'"),
        (lambda: rigid_body_equations(SO3, sympy.diag(*s("p a b"))), ModelError, "'p'.*among the inertia"),
        (lambda: rigid_body_equations(SO3, velocities="pq"), ShapeError, "2 names"),
        (lambda: rigid_body_equations(SO3, "round"), ModelError, "'principal'"),
        (lambda: rigid_body_equations(GL2), ModelError, "inertia='general'"),
        (lambda: rigid_body_equations(SO3, sympy.eye(2)), ShapeError, r"\(2, 2\)"),
        (
            lambda: rigid_body_equations(SE2, sympy.Matrix(3, 3, s("a:9"))),
            ModelError,
            r"not symmetric: entry \(0, 1\)",
        ),
        (lambda: rigid_body_equations(SE2, sympy.diag(s("a"), s("b"), 0)), ModelError, r"singular.*0, 0, 1"),
        (
            lambda: rigid_body_equations(SE2, sympy.ones(3, 1) * s("a") * sympy.ones(1, 3)),
            ModelError,
            "singular",
        ),
        (
            lambda: boltzmann_hamel_equations(
                lambda x: np.eye(2), sympy.eye(2), coordinates="xy", velocities="yz"
            ),
            ModelError,
            "'y' is among the coordinates",
        ),
        (
            lambda: boltzmann_hamel_equations(sympy.ones(2, 2), sympy.eye(2)),
            ModelError,
            "singular at every x",
        ),
        (lambda: boltzmann_hamel_equations(sympy.eye(3), sympy.eye(2)), ShapeError, r"\(3, 3\)"),
    ],
)
def test_symbols_that_cannot_be_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_names_that_only_look_alike_are_taken():
    equations = rigid_body_equations(SE2, velocities=["p_1", "p_2", "p_3"])
    assert "I_z*pdot_1 = tau_p1" in equations.text()
    assert not set(map(str, equations.momenta)) & {"p_1", "p_2", "p_3"}
