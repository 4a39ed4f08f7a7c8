"""Implicit methods: order of attitude, velocity and multipliers, what they preserve, and what they refuse."""

from __future__ import annotations

import runpy
import textwrap
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import test_integrators as explicit

import liebody as lb
from liebody import scalars
from liebody.base.errors import IntegrationError, ShapeError
from liebody.compiler import trace
from liebody.compiler.native import build, libraries
from liebody.compiler.printers.numpy_source import compile_numpy
from liebody.groups import SE2, SE3, SO2, SO3, Free, Product, R, SO3xR3, Spherical
from liebody.integrators import (
    Collocation,
    CommutatorFree,
    Gauss,
    GeneralizedAlpha,
    HalfExplicit,
    ImplicitTableau,
    MechanicalEquations,
    RadauIIA,
    Tableau,
    Variational,
    is_mechanical,
    mechanical_method,
    retractions,
    solve_ivp,
)
from liebody.integrators.implicit_tableaux import DATA, Surd, implicit_tableau
from liebody.integrators.methods import MECHANICAL
from liebody.scalars.linear import cross
from liebody.stepping import ImplicitFlow, Phase, Samples, implicit
from liebody.stepping import banded as elimination
from liebody.stepping.banded import envelope, ordering, solve
from liebody.stepping.march import Ensemble, Settings
from liebody.stepping.newton import newton


@pytest.fixture(autouse=True)
def cheap_code(request, monkeypatch):
    """Most flows here run for milliseconds: they are compiled with less effort, a few of `way` as usual."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if "way" not in request.fixturenames or name not in (None, "variational", "generalized-alpha"):
        monkeypatch.setattr(implicit, "LONG", 0)


# A heavy top: by the equations about its pivot, in matrices (the reference), and as a body with a constraint

MASS, THETA, ARM = (
    2.0,
    np.diag([0.4, 0.6, 0.3]),
    np.array([0.1, 0.2, 0.5]),
)  # ARM from the pivot to the centre
ABOUT_PIVOT = THETA - MASS * explicit.hat(ARM) @ explicit.hat(ARM)
GRAVITY = np.array([0, 0, -9.81])
SPIN = np.array([1.0, 2.0, 3.0])
TOP = np.concatenate([[1, 0, 0, 0], ARM])
VELOCITY = np.concatenate([SPIN, np.cross(SPIN, ARM)])  # of SE(3) and of SO(3) x R(3) alike, as R = 1
INERTIA = np.diag([*np.diag(THETA), MASS, MASS, MASS])
END = 0.8


def weight_about_pivot(t, q, v, u):
    return cross(MASS * ARM, SO3.element(q).T @ GRAVITY)


def weight_body(t, q, v, u):
    return np.concatenate([np.zeros(3, int), MASS * (SO3.element(q[:4]).T @ GRAVITY)])


def weight_space(t, q, v, u):
    return np.concatenate([np.zeros(3, int), MASS * GRAVITY])


def pivot(q):
    return q[4:] - SO3.element(q[:4]) @ ARM


TOPS = {"SE3": (SE3, weight_body), "SO3xR3": (SO3xR3, weight_space)}


def turning(R, w):
    """Angular acceleration about the pivot."""
    moment = np.cross(ABOUT_PIVOT @ w, w) + np.cross(ARM, MASS * R.T @ GRAVITY)
    return np.linalg.solve(ABOUT_PIVOT, moment)


def top(t, x):
    R, w = explicit.split(x)
    return np.concatenate([(R @ explicit.hat(w)).ravel(), turning(R, w)])


@cache
def top_reference():
    start = np.concatenate([np.eye(3).ravel(), SPIN])
    return scipy.integrate.solve_ivp(
        top, (0, END), start, method="DOP853", rtol=3e-14, atol=1e-15, dense_output=True
    ).sol


def pivot_force(x):
    """The multipliers of `pivot` from the acceleration of the centre: m a + lambda = m g."""
    R, w = explicit.split(x)
    return MASS * (GRAVITY - R @ (np.cross(turning(R, w), ARM) + np.cross(w, np.cross(w, ARM))))


def slopes(errors):
    errors = np.array(errors)
    return np.log2(errors[:-1] / errors[1:])


UNCONSTRAINED = {  # method, steps, order
    "implicit-midpoint": (40, 2),
    "gauss4": (12, 4),
    "gauss6": (5, 6),
    "radau1": (800, 1),
    "radau3": (24, 3),
    "radau5": (6, 5),
    "generalized-alpha": (80, 2),
    "variational": (40, 2),
    "variational-cay": (40, 2),
    "half-explicit3": (40, 3),
    "half-explicit4": (40, 4),
}


@pytest.mark.parametrize("name", UNCONSTRAINED)
@pytest.mark.many
def test_order_on_the_heavy_top_about_its_pivot(name):
    steps, order = UNCONSTRAINED[name]
    method = mechanical_method(name)
    assert method.order == order
    flow = method.flow(SO3, ABOUT_PIVOT, weight_about_pivot)
    exact, errors = top_reference()(END), []
    for n in (steps, 2 * steps, 4 * steps):
        motion = flow.run(SO3.neutral(), SPIN, END, END / n)
        attitude = SO3.element(motion.q[-1]).ravel() - exact[:9]
        errors.append([np.linalg.norm(attitude), np.linalg.norm(motion.v[-1] - exact[9:])])
    assert np.abs(slopes(errors)[-1] - order).max() < 0.1


CONSTRAINED = [  # method, group, steps
    (GeneralizedAlpha(0.8), "SE3", 40),
    (Variational(), "SO3xR3", 40),
    (Variational("cay"), "SE3", 40),
    (HalfExplicit(3), "SE3", 40),
    (HalfExplicit(4, project=True), "SO3xR3", 20),
    (RadauIIA(3), "SO3xR3", 40),
    (RadauIIA(5), "SO3xR3", 8),
]


@pytest.mark.parametrize(("method", "configuration", "steps"), CONSTRAINED, ids=str)
@pytest.mark.many
def test_order_on_the_heavy_top_with_a_constrained_pivot(method, configuration, steps):
    """Attitude and velocity at the end, multipliers at all times, against the equations about the pivot."""
    group, weight = TOPS[configuration]
    flow = method.flow(group, INERTIA, weight, pivot)
    exact, errors = top_reference(), []
    for n in (steps, 2 * steps, 4 * steps):
        motion = flow.run(TOP, VELOCITY, END, END / n)
        forces = np.array([pivot_force(x) for x in exact(motion.t).T])
        end = exact(END)
        errors.append(
            [
                np.linalg.norm(SO3.element(motion.q[-1, :4]).ravel() - end[:9]),
                np.linalg.norm(motion.v[-1, :3] - end[9:]),
                np.abs(motion.multipliers - forces).max(),
            ]
        )
        position = max(np.abs(pivot(q)).max() for q in motion.q)
        J = flow.mechanics.jacobian
        velocity = max(np.abs(J(q) @ v).max() for q, v in zip(motion.q, motion.v, strict=True))
        if isinstance(method, (GeneralizedAlpha, Variational)) or getattr(method, "project", False):
            assert position < 1e-14
        if not isinstance(method, GeneralizedAlpha):
            assert velocity < 2e-14
    assert np.abs(slopes(errors)[-1] - method.order).max() < 0.1


def test_multipliers_of_generalized_alpha_start_without_oscillations_of_lower_order():
    """The start as it is usually made, from dv/dt and the given v, leaves an error of first order."""
    flow = GeneralizedAlpha(0.8).flow(SO3xR3, INERTIA, weight_space, pivot)
    usual, made = [], []
    for n in (80, 160, 320):
        h = END / n
        y = flow.start(TOP, VELOCITY, 0.0, h)
        plain = y.copy()
        plain[:, flow.layout["v"]] = VELOCITY
        plain[:, flow.layout["a"]] = y[:, flow.layout["acceleration"]]
        for state, errors in ((y, made), (plain, usual)):
            record, failed = np.zeros((1, n + 1, flow.point)), np.zeros(1, np.int64)
            record[:, 0] = state
            flow.steps(state, np.zeros((1, 1, 0)), 0.0, h, n, 1, record, 1, failed)
            found = record[0, 1:, flow.layout["multipliers"]]
            times = h * np.arange(1, n + 1)
            exact = np.array([pivot_force(x) for x in top_reference()(times).T])
            errors.append(np.abs(found - exact).max())
    assert abs(slopes(made)[-1] - 2) < 0.1
    assert abs(slopes(usual)[-1] - 1) < 0.1


HINGE = np.array([0.0, 0.3, 0.0])  # half the distance of two points of a door's axis


def two_points(q):
    """Both points of the axis are held: six equations of rank five."""
    S = SO3.element(q[:4])
    ends = np.array([q[4:] - S @ (ARM + HINGE) + HINGE, q[4:] - S @ (ARM - HINGE) - HINGE])
    return ends.reshape(-1)


@pytest.mark.parametrize(
    "method",
    [GeneralizedAlpha(0.8), Variational(), HalfExplicit(3), HalfExplicit(3, project=True), RadauIIA(3)],
    ids=str,
)
@pytest.mark.many
def test_redundant_constraints_leave_the_motion_alone(method):
    """A spherical pendulum whose rod is written twice, with weights one and two: both carry half of it."""

    def rod(q):
        return np.array([0.5 * (q @ q - 1)])

    start, M = ([0.6, 0, -0.8], [0, 1.5, 0]), np.diag([1.0, 1.0, 1.0])
    once = method.flow(R(3), M, lambda t, q, v, u: GRAVITY, rod)
    twofold = [lambda t, q, v, u: GRAVITY, lambda q: np.concatenate([rod(q), 2 * rod(q)])]
    a, b = once.run(*start, 1.0, 0.01), method.flow(R(3), M, *twofold, redundant=True).run(*start, 1.0, 0.01)
    np.testing.assert_allclose(b.q, a.q, atol=1e-10)
    np.testing.assert_allclose(b.v, a.v, atol=1e-9)
    np.testing.assert_allclose(b.multipliers[1:], a.multipliers[1:] @ [[0.5, 0.25]], atol=1e-5)
    with pytest.raises(IntegrationError, match=r"rank 1; leave out 1 .* redundant=True"):
        method.flow(R(3), M, *twofold).start(*start, 0.0, 0.01)


def test_redundant_constraints_have_the_multipliers_of_least_norm():
    """A door on two ball joints, beside the same with one equation left out."""
    method = GeneralizedAlpha(0.8)
    q0, v0 = TOP, np.concatenate([[0, 2.0, 0], np.cross([0, 2.0, 0], ARM)])
    kept = [0, 1, 2, 3, 5]
    lean = method.flow(SO3xR3, INERTIA, weight_space, lambda q: two_points(q)[kept])
    full = method.flow(SO3xR3, INERTIA, weight_space, two_points, redundant=True)
    a, b = lean.run(q0, v0, 1.0, 0.01), full.run(q0, v0, 1.0, 0.01)
    np.testing.assert_allclose(b.q, a.q, atol=1e-10)
    np.testing.assert_allclose(b.v, a.v, atol=1e-9)
    J, inverse = full.mechanics.jacobian, np.linalg.inv(INERTIA)
    for i in (1, 50, 100):
        force = a.multipliers[i] @ J(a.q[i])[kept]
        scale = np.sqrt(np.diag(J(b.q[i]) @ inverse @ J(b.q[i]).T))
        least = np.linalg.lstsq((J(b.q[i]) / scale[:, None]).T, force, rcond=1e-9)[0] / scale
        np.testing.assert_allclose(b.multipliers[i], least, atol=1e-5)
    assert np.abs(least).max() > 1


@pytest.mark.parametrize("mass", [1e-12, 1.0, 1e12])
def test_accelerations_of_nearly_dependent_redundant_constraints_are_the_exact_ones_for_all_masses(mass):
    """Five rows of rank three, one a hundredth off the span of two others; in numbers, and traced."""
    rng = np.random.default_rng(0)
    rows = np.round(rng.standard_normal((3, 6)) * 2**20) / 2**20
    rows[2] = np.round((rows[0] + rows[1] + 0.01 * rows[2]) * 2**30) / 2**30
    J = np.concatenate([rows, [2 * rows[0], rows[0] - rows[1]]])  # exact: the rows are multiples of 2^-30
    masses, force = mass * 10 ** rng.uniform(-1, 1, 6), mass * rng.standard_normal(6)
    with mpmath.workdps(60):
        inverse = mpmath.diag([1 / mpmath.mpf(m) for m in masses])
        B, f = mpmath.matrix(rows.tolist()), mpmath.matrix(force.tolist())
        exact = inverse * (f - B.T * mpmath.lu_solve(B * inverse * B.T, B * inverse * f))
        exact = np.array(exact.tolist(), float)[:, 0]
    system = MechanicalEquations(
        R(6), np.diag(masses), lambda t, q, v, u: force, J=lambda q: J, b=lambda q, v: 0 * v, redundant=True
    )
    traced = trace(lambda t, q, v, u: system.acceleration(t, q, v, u), system.shapes, "accelerations")
    state = 0.0, np.zeros(6), np.zeros(6), np.zeros(0)
    for a, _ in (system.acceleration(*state), compile_numpy(traced)(*state)):
        np.testing.assert_allclose(a, exact, rtol=0, atol=1e-10 * np.abs(exact).max())


FIELDS = [
    (Gauss(2), "SE2", 40),
    (Gauss(4), "SE3", 40),
    (Gauss(6), "SO3", 20),
    (RadauIIA(1), "SO3 x velocity", 1000),
    (RadauIIA(3), "SO3xR3", 80),
    (RadauIIA(5), "SO3", 30),
]


@pytest.mark.parametrize(("method", "problem", "steps"), FIELDS, ids=str)
@pytest.mark.many
def test_order_for_any_vector_field_on_any_group(method, problem, steps):
    group, F, q0, _, flat = explicit.PROBLEMS[problem]
    flow = method.field_flow(group, lambda t, q, u: np.asarray(F(t, q)))
    errors = []
    for n in (steps, 2 * steps, 4 * steps):
        y, record, failed = q0[None].copy(), np.zeros((1, 1, group.nq)), np.zeros(1, np.int64)
        flow.steps(y, np.zeros((1, 1, 0)), 0.0, explicit.END / n, n, n, record, 0, failed)
        errors.append(np.linalg.norm((flat(y[0]) - explicit.reference(problem)).astype(float)))
    assert abs(slopes(errors)[-1] - method.order) < 0.1


# Mass matrices that depend on q, couplings, efforts: a cart with two links, torques at the joints

CART = Product(R(1), SO2, SO2)


def cart_mass(q):
    _, a, b = q
    c, s = scalars.cos(a), scalars.cos(a + b)
    rows = [
        [4.0, 2 * c + 0.5 * s, 0.5 * s],
        [2 * c + 0.5 * s, 2.5 + scalars.cos(b), 0.5 + 0.5 * scalars.cos(b)],
        [0.5 * s, 0.5 + 0.5 * scalars.cos(b), 0.5],
    ]
    return np.array(rows)


def cart_forces(t, q, v, u):
    x, a, b = q
    f = np.array([-3 * x, -9 * scalars.sin(a) - 3 * scalars.sin(a + b), -3 * scalars.sin(a + b)])
    return f - 0.1 * v + np.array([0, u[0], u[1]]) * scalars.cos(t)


CART_START = np.array([0.1, 0.4, -0.3]), np.array([0.5, -1.0, 2.0])
TORQUES = np.array([0.7, -0.4])


@cache
def cart_reference():
    """Lagrange's equations, with dM/dq by complex steps."""
    q0, v0 = CART_START

    def field(t, x):
        q, v = x[:3], x[3:]

        def mass(q):
            c, s, k = np.cos(q[1]), np.cos(q[1] + q[2]), np.cos(q[2])
            return np.array(
                [
                    [4.0, 2 * c + 0.5 * s, 0.5 * s],
                    [2 * c + 0.5 * s, 2.5 + k, 0.5 + 0.5 * k],
                    [0.5 * s, 0.5 + 0.5 * k, 0.5],
                ]
            )

        D = np.stack([mass(q + 1e-30j * e).imag / 1e-30 for e in np.eye(3)])
        bias = np.einsum("kij,k,j->i", D, v, v) - 0.5 * np.einsum("kij,i,j->k", D, v, v)
        force = np.array([-3 * q[0], -9 * np.sin(q[1]) - 3 * np.sin(q[1] + q[2]), -3 * np.sin(q[1] + q[2])])
        force += -0.1 * v + np.array([0, *TORQUES]) * np.cos(t)
        return np.concatenate([v, np.linalg.solve(mass(q), force - bias)])

    x0 = np.concatenate([q0, v0])
    return scipy.integrate.solve_ivp(field, (0, 1), x0, method="DOP853", rtol=3e-14, atol=1e-15).y[:, -1]


@pytest.mark.parametrize(
    ("name", "steps"),
    [("gauss4", 20), ("generalized-alpha", 80), ("variational", 80), ("half-explicit3", 80)],
)
@pytest.mark.many
def test_order_with_a_mass_matrix_that_depends_on_q_and_with_efforts(name, steps):
    method = mechanical_method(name)
    flow = method.flow(CART, cart_mass, cart_forces, efforts=2)
    errors = []
    for n in (steps, 2 * steps):
        motion = flow.run(*CART_START, 1.0, 1.0 / n, tau=TORQUES)
        errors.append(np.linalg.norm(np.concatenate([motion.q[-1], motion.v[-1]]) - cart_reference()))
    assert abs(slopes(errors)[-1] - method.order) < 0.1


def test_inertial_forces_of_a_mass_matrix_on_a_group_follow_from_lagrange():
    """Of a metric that is the same in space, M(q) = S^T M0 S, the momentum M(q) v is constant in the body."""
    M0 = np.diag([1.0, 2.0, 3.0])

    def fixed_in_space(q):
        return SO3.element(q).T @ M0 @ SO3.element(q)

    system = MechanicalEquations(SO3, fixed_in_space)
    q, v = SO3.random(np.random.default_rng(3)), np.array([0.4, -0.7, 0.5])
    dv, _ = system.acceleration(0.0, q, v, np.zeros(0))
    d = 1e-30j  # dM/dt v by a complex step along S exp(t v)
    S = SO3.element(q) @ (np.eye(3) + d * explicit.hat(v))
    rate = (S.T @ M0 @ S @ v).imag / d.imag
    np.testing.assert_allclose(fixed_in_space(q) @ dv + rate, 0, atol=1e-14)
    np.testing.assert_allclose(system.momentum_gradient(q, v) @ v, rate, atol=1e-14)
    assert np.abs(rate).max() > 0.1


# Error control, and states within a step


@pytest.mark.parametrize("name", ["gauss4", "gauss6", "radau3", "radau5", "generalized-alpha"])
@pytest.mark.many
def test_error_control_keeps_the_error_near_the_tolerance(name):
    """The top about its pivot, or with a constrained one: for a thousandth, 1000^(1/k) times the steps."""
    method = mechanical_method(name)
    if name in ("radau3", "generalized-alpha"):
        flow, q0, v0 = method.flow(SO3xR3, INERTIA, weight_space, pivot), TOP, VELOCITY
    else:
        flow, q0, v0 = method.flow(SO3, ABOUT_PIVOT, weight_about_pivot), SO3.neutral(), SPIN
    errors, steps, times = [], [], np.sort(np.random.default_rng(4).uniform(0, END, 50))
    times[0], times[-1] = 0, END
    for tolerance in (1e-6, 1e-9):
        motion = flow.run(q0, v0, END, rtol=tolerance, atol=tolerance, t_eval=times)
        exact = top_reference()(times)
        errors.append(np.abs([SO3.element(q[:4]).ravel() for q in motion.q] - exact[:9].T).max())
        steps.append(motion.steps)
        assert motion.rejected < 0.2 * motion.steps and np.isfinite(motion.multipliers).all()
    k = flow.control.order
    assert np.log(steps[1] / steps[0]) == pytest.approx(np.log(1e3) / k, rel=0.25)
    within = {"gauss4": 3, "gauss6": 4, "radau3": 3, "radau5": 4, "generalized-alpha": 2}[name]
    assert np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0]) > within - 0.2
    assert errors[1] < (1e-4 if name == "generalized-alpha" else 1e-6)


DENSE = {"gauss2": 2, "gauss4": 3, "gauss6": 4, "radau3": 3, "radau5": 4, "generalized-alpha": 2}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.many
def test_states_within_a_step_have_the_order_that_is_said(name):
    """One step of h: its error in the middle of it is h^(s+1), of velocities of generalized-alpha h^2."""
    flow, errors = mechanical_method(name).flow(SO3, ABOUT_PIVOT, weight_about_pivot), []
    for h in (0.01, 0.005):
        motion = flow.run(SO3.neutral(), SPIN, h, rtol=1e9, first_step=h, t_eval=[0, 0.37 * h, h])
        assert motion.steps == 1
        exact = top_reference()(0.37 * h)
        attitude = SO3.element(motion.q[1]).ravel() - exact[:9]
        errors.append([np.linalg.norm(attitude), np.linalg.norm(motion.v[1] - exact[9:])])
    found, stated = slopes(errors)[-1], DENSE[name]
    assert found[1] == pytest.approx(stated, abs=0.15)
    assert found[0] == pytest.approx(3 if name == "generalized-alpha" else stated, abs=0.15)


@pytest.mark.parametrize("method", [RadauIIA(3), Gauss(4)], ids=str)
@pytest.mark.many
def test_error_control_of_any_vector_field_on_any_group(method):
    group, F, q0, _, flat = explicit.PROBLEMS["SO3 x velocity"]
    flow = method.field_flow(group, lambda t, q, u: np.asarray(F(t, q)))
    times, errors, steps = np.array([0, 1.1, explicit.END]), [], []
    for tolerance in (1e-4, 1e-7):
        members = Ensemble(q0[None], times, 1e-3)
        flow.march(members, np.zeros((1, 1, 0)), 3, Settings(tolerance, tolerance))
        record = members.record
        errors.append(np.abs((flat(record[0, 2]) - explicit.reference("SO3 x velocity")).astype(float)).max())
        steps.append(members.counts[0, 2])
        np.testing.assert_array_equal(record[0, 2], members.y[0])
    assert errors[1] < 3e-6 and not members.ends.any()
    assert np.log(steps[1] / steps[0]) == pytest.approx(np.log(1e3) / flow.control.order, rel=0.15)
    middle = solve_ivp(F, (0, 1.1), q0, group, rtol=1e-9, atol=1e-10).q[-1]
    np.testing.assert_allclose(flat(record[0, 1]), flat(middle), atol=1e-5)


def test_multipliers_of_generalized_alpha_are_of_second_order_with_changing_steps():
    flow, errors, steps = GeneralizedAlpha(0.8).flow(SO3xR3, INERTIA, weight_space, pivot), [], []
    for tolerance in (1e-5, 1e-8):
        motion = flow.run(TOP, VELOCITY, END, rtol=tolerance, atol=tolerance)
        forces = np.array([pivot_force(x) for x in top_reference()(motion.t).T])
        errors.append(np.abs(motion.multipliers - forces).max())
        steps.append(motion.steps)
    assert np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0]) > 1.8


@pytest.mark.parametrize("name", ["radau3", "generalized-alpha"])
@pytest.mark.wide
def test_members_have_steps_of_their_own(way, name):
    flow, times = make(name), np.linspace(0, 0.2, 7)
    v = np.linspace(0.3, 2, 5)[:, None] * [1.0, 2.0, 0]
    options = {"rtol": 1e-3, "atol": 1e-3, "t_eval": times}
    together = flow.run(np.tile(SO3.neutral(), (5, 1)), v, 0.2, threads=2, **options)
    alone = [flow.run(SO3.neutral(), x, 0.2, **options) for x in v]
    assert together.steps == sum(motion.steps for motion in alone) and len({x.steps for x in alone}) > 1
    for i, motion in enumerate(alone):
        np.testing.assert_allclose(together.q[i], motion.q, atol=1e-9)
        np.testing.assert_allclose(together.v[i], motion.v, atol=1e-8)


def test_fewer_rows_leave_steps_and_states_as_they_are(way):
    flow, options = make("generalized-alpha"), {"rtol": 1e-5, "atol": 1e-5}
    few = flow.run(SO3.neutral(), [1.0, 2, 0], 0.4, t_eval=[0, 0.2, 0.4], **options)
    many = flow.run(SO3.neutral(), [1.0, 2, 0], 0.4, t_eval=np.linspace(0, 0.4, 101), **options)
    assert few.steps == many.steps < 100
    np.testing.assert_array_equal(few.q, many.q[::50])


def test_efforts_under_error_control_are_those_of_the_time(way):
    """dv/dt = u(t), piecewise linear: the velocity is its integral, also between the steps."""
    flow = RadauIIA(3).flow(R(1), np.eye(1), lambda t, q, v, u: u, efforts=1)
    table = np.random.default_rng(2).standard_normal((3, 5, 1))
    members = Ensemble(np.zeros((3, 2)), 0.1 * np.arange(5.0), 0.01)
    flow.march(members, Samples(table, interval=0.1, linear=True), 5, Settings(1e-6, 1e-6))
    exact = np.cumsum(0.05 * (table[:, 1:, 0] + table[:, :-1, 0]), axis=1)
    np.testing.assert_allclose(members.record[:, 1:, 1], exact, atol=2e-5)
    assert not members.ends.any() and (members.clock["t"] == members.times[-1]).all()


def test_a_member_that_cannot_go_on_under_error_control_says_why(way):
    """x'' = -sqrt(x) comes to x = 0."""
    flow = Gauss(2).flow(R(1), np.eye(1), lambda t, q, v, u: -scalars.sqrt(q))
    motion = flow.run([[4.0], [0.02], [9.0]], [[0.0], [0.0], [0.0]], 1.0, rtol=1e-4, atol=1e-6)
    assert motion.failed[0] == 0 == motion.failed[2] and motion.failed[1] > 1
    fall = np.sqrt(3) / 2 * 0.02**0.25 * scipy.special.beta(2 / 3, 1 / 2) * 2 / 3
    assert motion.losses[1, 0] == pytest.approx(fall, rel=1e-2)
    assert np.isfinite(motion.q[[0, 2]]).all() and np.isnan(motion.q[1, -1]).all()
    with pytest.raises(IntegrationError, match=r"the step at t = 0\.\d+ s cannot be taken"):
        flow.run([0.02], [0.0], 1.0, rtol=1e-4, atol=1e-6)
    with pytest.raises(IntegrationError, match="no error estimate"):
        Variational().flow(R(1), np.eye(1)).run([0.0], [1.0], 1.0)
    with pytest.raises(IntegrationError, match=r"from 0 to 0\.5 s, expected 0 to 1: add t_end, 1 s"):
        flow.run([4.0], [0.0], 1.0, t_eval=[0, 0.5])


def test_simulate_takes_implicit_methods_without_a_step():
    """Rows are states within the steps, the same however many there are."""
    robot, q0 = lb.models.double_pendulum(), np.array([1.0, 0.5])
    exact = lb.simulate(robot, q0, t_end=1, rtol=1e-10, atol=1e-11, method="rkmk45", record_every=0.25)
    for method in ("radau5", "generalized-alpha"):
        options = {"t_end": 1, "method": method, "rtol": 1e-6, "atol": 1e-6}
        few, many = (lb.simulate(robot, q0, record_every=every, **options) for every in (0.25, 0.01))
        np.testing.assert_array_equal(few.q, many.q[::25])
        np.testing.assert_allclose(few.q, exact.q, atol=1e-6 if method == "radau5" else 2e-3)
        assert few.metadata["rtol"] == 1e-6 and "dt" not in few.metadata


@pytest.mark.wide
def test_a_stiff_ball_joint_takes_steps_of_the_motion_not_of_the_spring():
    """The top on a spring of 1e8 N/m with a damper in place of the pivot, nearly the constrained top."""
    k, c = 1e8, 1e5

    def held(t, q, v, u):
        S = SO3.element(q[:4])
        gap = q[4:] - S @ ARM
        force = -k * gap - c * (v[3:] - S @ cross(v[:3], ARM))
        moment = -cross(ARM, S.T @ force)
        return weight_space(t, q, v, u) + np.concatenate([moment, force])

    flow = RadauIIA(5).flow(SO3xR3, INERTIA, held)
    motion = flow.run(TOP, VELOCITY, END, rtol=1e-6, atol=1e-6, t_eval=np.linspace(0, END, 9))
    exact = top_reference()(motion.t)
    attitudes = np.array([SO3.element(q[:4]).ravel() for q in motion.q])
    np.testing.assert_allclose(attitudes, exact[:9].T, atol=5e-6)
    assert motion.steps + motion.rejected < 150  # an explicit method needs END c (1/m + ...)/3.3, 40000

    def field(t, y):
        q, v = y[:7], y[7:]
        forces = held(t, q, v, None) + np.concatenate([np.cross(THETA @ v[:3], v[:3]), np.zeros(3)])
        return np.concatenate([v, forces / np.diag(INERTIA)])

    whole, start = Product(SO3xR3, R(6)), np.concatenate([TOP, VELOCITY])
    explicitly = solve_ivp(field, (0, 0.002), start, whole, rtol=1e-6, atol=1e-6)
    assert explicitly.steps > 0.002 / END * 100 * motion.steps
    implicitly = solve_ivp(field, (0, 0.02), start, whole, "radau5", rtol=1e-6, atol=1e-6)
    attitude = SO3.element(implicitly.q[-1, :4]).ravel()
    np.testing.assert_allclose(attitude, top_reference()(0.02)[:9], atol=5e-6)
    assert implicitly.steps < explicitly.steps / 2


# What methods preserve


def test_energy_of_a_spherical_pendulum_does_not_grow_over_a_million_steps():
    """RATTLE on R^3: position and velocity on the sphere to round-off, angular momentum constant."""
    flow = Variational().flow(R(3), np.eye(3), lambda t, q, v, u: GRAVITY, lambda x: np.array([x @ x - 1]))
    motion = flow.run([np.sin(1), 0, -np.cos(1)], [0, 1.5, 0], 10000.0, 0.01, record_every=0.1)
    q, v = motion.q, motion.v
    energy = 0.5 * (v**2).sum(1) + 9.81 * q[:, 2]
    error = energy - energy[0]
    parts = error[1:].reshape(10, -1)
    largest = np.abs(parts).max(1)
    assert 5e-4 < largest[0] < 5e-3  # h^2, and it stays so
    assert largest.max() < 1.0001 * largest[0]
    assert np.ptp(parts.mean(1)) < 1e-3 * largest[0]
    assert np.abs((q**2).sum(1) - 1).max() < 1e-15 * 4
    assert np.abs((q * v).sum(1)).max() < 1e-14
    momentum = q[:, 0] * v[:, 1] - q[:, 1] * v[:, 0]
    assert np.abs(momentum - momentum[0]).max() < 1e-11


@pytest.mark.parametrize("retraction", ["exp", "cay"])
@pytest.mark.parametrize("group", [SO3, SE3, SO3xR3], ids=repr)
@pytest.mark.many
def test_spatial_momentum_of_a_free_body_is_conserved_to_round_off(group, retraction):
    M = np.diag([1.0, 2.0, 2.5]) if group is SO3 else np.diag([1, 2, 2.5, 3, 3, 3])
    motion = (
        Variational(retraction)
        .flow(group, M)
        .run(
            group.random(np.random.default_rng(1)),
            [1, 2, 3, 0, 0, 0][: group.dim],
            1000.0,
            0.01,
            record_every=10.0,
        )
    )
    p = [np.linalg.inv(group.Ad(group.element(q))).T @ M @ v for q, v in zip(motion.q, motion.v, strict=True)]
    assert np.abs(np.array(p) - p[0]).max() < 1e-12 * np.abs(p[0]).max()
    energy = 0.5 * np.einsum("ti,ij,tj->t", motion.v, M, motion.v)
    assert np.ptp(energy) < (2e-4 if retraction == "exp" else 5e-4)


def two_bodies(group):
    """M, constraint, and start of two bodies joined by a ball at their ARMs, with a moving centre of mass."""
    rng, w = np.random.default_rng(0), np.array([[1.0, 2, 3], [-1, 0.5, 1]])
    quaternions = [SO3.random(rng) for _ in w]
    R1, R2 = map(SO3.element, quaternions)
    place, speed = np.array([1.0, 2, 3]), np.array([0.7, -0.3, 0.2])
    other = place + R1 @ ARM + R2 @ ARM
    speeds = [speed, speed + R1 @ np.cross(w[0], ARM) + R2 @ np.cross(w[1], ARM)]
    if group is SE3:
        speeds = [R1.T @ speeds[0], R2.T @ speeds[1]]
    q = np.concatenate([quaternions[0], place, quaternions[1], other])
    v = np.concatenate([w[0], speeds[0], w[1], speeds[1]])

    def ball(q):
        return q[4:7] + SO3.element(q[:4]) @ ARM - q[11:] + SO3.element(q[7:11]) @ ARM

    return np.diag([*np.diag(INERTIA), *np.diag(INERTIA)]), ball, q, v


def momenta(group, q, v):
    """Linear momentum, angular momentum about the origin of space, and about the centre of mass."""
    linear, angular, centre = np.zeros(3), np.zeros(3), 0.5 * (q[4:7] + q[11:])
    for x, u in zip(np.split(q, 2), np.split(v, 2), strict=True):
        S = SO3.element(x[:4])
        p = MASS * (S @ u[3:] if group is SE3 else u[3:])
        linear, angular = linear + p, angular + S @ THETA @ u[:3] + np.cross(x[4:], p)
    return np.concatenate([linear, angular, angular - np.cross(centre, linear)])


@pytest.mark.parametrize(("group", "retraction"), [(SE3, "exp"), (SE3, "cay"), (SO3xR3, "cay")], ids=str)
@pytest.mark.many
def test_momenta_of_free_bodies_whose_centre_of_mass_moves(group, retraction):
    """Those about the origin to round-off; about the centre of mass only where that moves by h P/m."""
    M, ball, q, v = two_bodies(group)
    flow, errors = Variational(retraction).flow(Product(group, group), M, None, ball), []
    for n in (100, 200):
        motion = flow.run(q, v, 2.0, 2.0 / n)
        found = np.array([momenta(group, *state) for state in zip(motion.q, motion.v, strict=True)])
        errors.append(np.abs(found - found[0]).max(axis=0))
    assert np.max(errors, axis=0)[:6].max() < 1e-12
    assert max(np.abs(ball(q)).max() for q in motion.q) < 1e-13
    if group is SO3xR3:
        assert np.max(errors) < 1e-12
    else:
        assert slopes(np.linalg.norm(np.array(errors)[:, 6:], axis=1))[0] == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("group", [SO3, SE3, SO3xR3, Product(Free(), Spherical(), R(2))], ids=repr)
def test_cayleys_map_and_its_differential_are_what_they_say(group):
    rng, tau = np.random.default_rng(5), retractions.RETRACTIONS["cay"](group)
    q, u, one = group.random(rng), rng.standard_normal(group.dim), np.eye(group.n)
    tau_of_u = group.element(tau.integrate(group.neutral(), u))
    Ad, dtau_inverse = (
        np.stack([tau.dual(operation, u, e) for e in np.eye(group.dim)])
        for operation in ("Ad", "dtau_inverse")
    )
    if group in (SO3, SE3):
        U = group.hat(u)
        np.testing.assert_allclose(tau_of_u, np.linalg.solve(one - U / 2, one + U / 2), atol=1e-15)
        w = rng.standard_normal(group.dim)
        W = (one - U / 2) @ group.hat(w) @ (one + U / 2)
        np.testing.assert_allclose(dtau_inverse @ w, group.vee(W), atol=1e-14)
    np.testing.assert_allclose(Ad, group.Ad(tau_of_u), atol=1e-14)
    np.testing.assert_allclose(group.element(tau.integrate(q, u)), group.element(q) @ tau_of_u, atol=1e-14)
    back = tau.integrate(tau.integrate(q, u), -u)
    np.testing.assert_allclose(group.element(back), group.element(q), atol=1e-14)
    ends = [
        [group.element(tau.integrate(group.neutral(), u + s * e)) for s in (1e-5, -1e-5)]
        for e in np.eye(group.dim)
    ]
    dtau = np.stack([group.vee((a - b) / 2e-5 @ np.linalg.inv(tau_of_u)) for a, b in ends], axis=-1)
    np.testing.assert_allclose(dtau_inverse @ dtau, np.eye(group.dim), atol=1e-8)
    with pytest.raises(IntegrationError, match="retraction is 'log', expected 'exp' or 'cay'"):
        Variational("log")


@pytest.mark.parametrize("retraction", ["exp", "cay"])
def test_the_variational_step_is_symplectic(retraction):
    """d(p . g^-1 dg) = pi_1 . eta_2 - pi_2 . eta_1 - p . [eta_1, eta_2] is invariant."""
    flow = Variational(retraction).flow(SO3, THETA, weight_about_pivot)
    q0, p0 = SO3.random(np.random.default_rng(0)), np.array([1.0, -2.0, 3.0])

    def step(q, p):
        motion = flow.run(q, np.linalg.solve(THETA, p), 0.2, 0.1)
        return motion.q[-1], THETA @ motion.v[-1]

    def form(p):
        W = np.block([[np.zeros((3, 3)), -np.eye(3)], [np.eye(3), np.zeros((3, 3))]])
        W[:3, :3] = [[-p @ np.cross(a, b) for b in np.eye(3)] for a in np.eye(3)]
        return W

    q1, p1 = step(q0, p0)
    columns, s = [], 1e-5
    for e in np.eye(6):
        ends = [step(SO3.integrate(q0, d * e[:3]), p0 + d * e[3:]) for d in (s, -s)]
        turn = SO3.difference(q1, ends[0][0]) - SO3.difference(q1, ends[1][0])
        columns.append(np.concatenate([turn, ends[0][1] - ends[1][1]]) / (2 * s))
    D = np.stack(columns, axis=-1)
    np.testing.assert_allclose(D.T @ form(p1) @ D, form(p0), atol=1e-8)


@pytest.mark.parametrize("name", ["gauss2", "variational", "variational-cay"])
def test_symmetric_methods_come_back(name):
    flow = mechanical_method(name).flow(SO3, THETA, weight_about_pivot)
    there = flow.run(SO3.neutral(), SPIN, 0.5, 0.1)
    back = flow.run(there.q[-1], -there.v[-1], 0.5, 0.1)
    np.testing.assert_allclose(np.abs(back.q[-1]), SO3.neutral(), atol=1e-13)
    np.testing.assert_allclose(back.v[-1], -SPIN, atol=1e-12)


def test_constraints_that_cannot_be_integrated():
    """Chaplygin's sleigh on SE(2), its blade at the origin: dv/dt = a w^2, (I + m a^2) dw/dt = -m a v w."""
    m, inertia, a = 2.0, 0.7, 0.3  # the centre lies a ahead of the blade
    M = np.array([[inertia + m * a * a, 0, m * a], [0, m, 0], [m * a, 0, m]])

    def sleigh(t, x):
        angle, _, _, w, v = x
        return [w, v * np.cos(angle), v * np.sin(angle), -m * a * v * w / (inertia + m * a * a), a * w * w]

    exact = scipy.integrate.solve_ivp(
        sleigh, (0, 2), [0.2, 0, 0, 1.5, 0.4], method="DOP853", rtol=1e-13, atol=1e-14
    )
    for method in (HalfExplicit(3), HalfExplicit(4), RadauIIA(3)):
        flow = method.flow(SE2, M, J=lambda q: np.array([[0, 0, 1]]))
        errors = []
        for n in (40, 80):
            motion = flow.run([0.2, 0, 0], [1.5, 0.4, 0], 2.0, 2.0 / n)
            errors.append(np.linalg.norm(motion.q[-1] - exact.y[:3, -1]))
            assert np.abs(motion.v[:, 2]).max() < 1e-14
        assert abs(slopes(errors)[0] - method.order) < 0.15


# Stiffness


@pytest.mark.parametrize(("name", "left"), [("radau1", 1.0), ("radau3", 2.0), ("radau5", 3.0)])
@pytest.mark.parametrize("rate", [1e6, 1e10])
@pytest.mark.many
def test_radau_methods_end_a_stiff_decay_in_one_step(name, left, rate):
    flow = mechanical_method(name).flow(R(1), np.eye(1), lambda t, q, v, u: -rate * v)
    motion = flow.run([0.0], [1.0], 0.1, 0.1)
    assert abs(motion.v[-1, 0]) == pytest.approx(left / (0.1 * rate), rel=1e-3)
    assert (
        abs(Gauss(4).flow(R(1), np.eye(1), lambda t, q, v, u: -rate * v).run([0.0], [1.0], 0.1, 0.1).v[-1, 0])
        > 0.99
    )


def test_radau_lands_on_a_stiff_damped_contact():
    """1 kg falls on ground of 1e8 N/m (Hunt, Crossley), at steps ten times as long as the contact is fast.

    Under error control it bounces as it should, a dozen times and more.
    """

    def contact(t, q, v, u):
        depth = -q[2]
        force = scalars.where(depth > 0, 1e8 * depth * scalars.maximum(1 - 0.5 * v[2], 0.0), 0.0)
        return np.array([0, 0, force - 9.81])

    def falling(t, x):
        return [x[1], 1e8 * max(-x[0], 0.0) * max(1 - 0.5 * x[1], 0.0) - 9.81]

    flow = RadauIIA(3).flow(R(3), np.eye(3), contact)
    exact = scipy.integrate.solve_ivp(
        falling, (0, 1), [0.01, 0], method="RK45", rtol=1e-7, atol=1e-11, max_step=0.01
    )
    bounces = np.sum(np.diff(np.sign(exact.y[0])) < 0)
    motion = flow.run([0, 0, 0.01], [1.0, 0, 0], 1.0, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose([motion.q[-1, 2], motion.v[-1, 2]], exact.y[:, -1], atol=5e-7, rtol=3e-3)
    assert bounces > 12

    motion = flow.run([0, 0, 0.01], [1.0, 0, 0], 1.0, 0.001)
    assert motion.q[:, 2].min() < -1e-7  # it did touch
    np.testing.assert_allclose(motion.q[-1], [1.0, 0, -9.81e-8], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(motion.v[-1], [1.0, 0, 0], atol=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_generalized_alpha_damps_high_frequencies_as_chosen(rho):
    """The spectral radius of a step of a spring with h omega = 1e5 is rho_inf."""
    flow = GeneralizedAlpha(rho).flow(R(1), np.eye(1), lambda t, q, v, u: -1e12 * q)
    columns = []
    for e in np.eye(3):  # on (q, v, a) in units of h; dv/dt follows from q
        y = np.array([[e[0], e[1] / 0.1, -1e12 * e[0], e[2] / 0.01]])
        flow.steps(y, np.zeros((1, 1, 0)), 0.0, 0.1, 1, 1, np.zeros((1, 1, 4)), 0, np.zeros(1, np.int64))
        columns.append(y[0, [0, 1, 3]] * [1, 0.1, 0.01])
    step = np.stack(columns, axis=-1)
    assert np.abs(np.linalg.eigvals(step)).max() == pytest.approx(rho, abs=0.02)


# The compiled loop


def across(q):
    """A body axis, y at the start, that stays in the plane x = 0 of space."""
    return np.array([SO3.element(q)[0, 1]])


def make(name):
    """A top about its pivot, with a constraint if the method takes any."""
    method = mechanical_method(name)
    constraint = across if method.takes_constraints else None
    return method.flow(SO3, ABOUT_PIVOT, weight_about_pivot, constraint)


def begin(flow, n, h):
    speeds = np.linspace(0.5, 1.5, n)[:, None]
    return flow.start(np.tile(SO3.neutral(), (n, 1)), speeds * [1.0, 2.0, 0], 0.0, h)


def advance(flow, y, u=None, steps=8, every=4, h=0.02, t=0.0, **options):
    y, u = y.copy(), np.zeros((1, 1, flow.efforts)) if u is None else u
    record, failed = np.full((len(y), 1 + steps // every, flow.point), np.nan), np.zeros(len(y), np.int64)
    losses = np.zeros((len(y), 2))
    record[:, 0] = y
    flow.steps(y, u, t, h, steps, every, record, 1, failed, losses=losses, **options)
    return record, y, failed, losses


@pytest.fixture(params=["compiled", "NumPy source"])
def way(request, monkeypatch):
    if request.param == "NumPy source":
        monkeypatch.setattr(libraries, "find_compiler_or_warn", lambda: None)
    elif build.find_compiler() is None:
        pytest.skip("there is no C compiler")


def test_a_phase_of_no_unknowns_has_nothing_to_solve(way):
    phase = Phase(lambda z, t, h, y, u: y[:0], lambda x, z, t, h, y, u: x)
    flow = ImplicitFlow([phase], lambda z, t, h, y, u: y + h, 2)
    y, record, failed = np.ones((3, 2)), np.empty((3, 3, 2)), np.zeros(3, np.int64)
    flow.steps(y, np.zeros((1, 1, 0)), 0.0, 0.25, 2, 1, record, 1, failed)
    assert (y == 1.5).all() and not failed.any()
    np.testing.assert_array_equal(flow.step(0.0, 0.25, np.ones(2)), [1.25, 1.25])


@pytest.mark.parametrize("name", ["radau3", "generalized-alpha", "variational", "half-explicit3"])
@pytest.mark.many
def test_compiled_steps_are_those_of_the_reference(way, name):
    flow = make(name)
    for n in (1, 3):
        y = begin(flow, n, 0.02)
        record, last, failed, _ = advance(flow, y, steps=2, every=1)
        for i in {0, n - 1}:
            once = flow.step(0.0, 0.02, y[i])
            twice = flow.step(0.02, 0.02, once)
            slack = 1e-9 if name == "generalized-alpha" else 1e-12  # its accelerations are quotients by h^2
            np.testing.assert_allclose(record[i, 1], once, rtol=slack, atol=slack)
            np.testing.assert_allclose(record[i, 2], twice, rtol=slack, atol=slack)
        np.testing.assert_array_equal(last, record[:, -1])
        assert not failed.any()


@pytest.mark.many
def test_members_of_an_ensemble_do_not_notice_each_other_nor_threads(way):
    flow = make("variational")
    y = begin(flow, 13, 0.02)
    together = advance(flow, y)[0]
    alone = np.concatenate([advance(flow, y[i : i + 1])[0] for i in range(13)])
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(advance(flow, y, threads=3)[0], together, rtol=1e-13, atol=1e-13)


def test_efforts_are_sampled_at_the_nodes_of_a_step(way):
    """dv/dt = u(t), piecewise linear, by Gauss: the velocity is the exact integral."""
    flow = Gauss(4).flow(R(2), np.eye(2), lambda t, q, v, u: u, efforts=2)
    times = 0.1 * np.arange(5)
    table = np.random.default_rng(2).standard_normal((3, 5, 2))
    record, _, _, _ = advance(
        flow, np.zeros((3, 4)), Samples(table, interval=0.1, linear=True), steps=8, every=2, h=0.05
    )
    exact = np.concatenate(
        [np.zeros((3, 1, 2)), np.cumsum(0.05 * (table[:, 1:] + table[:, :-1]), axis=1)], axis=1
    )
    np.testing.assert_allclose(record[:, :, 2:], exact, atol=1e-14)
    assert len(times) == record.shape[1]


def test_a_run_may_be_cut_in_two(way):
    flow = make("generalized-alpha")
    y = begin(flow, 2, 0.02)
    whole, last, _, _ = advance(flow, y, steps=6, every=2)
    first, middle, _, _ = advance(flow, y, steps=2, every=2)
    second, end, _, _ = advance(flow, middle, steps=4, every=2, t=0.04)
    np.testing.assert_allclose(np.concatenate([first, second[:, 1:]], axis=1), whole, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(end, last, rtol=1e-12, atol=1e-12)


def test_with_a_recipe_the_compiled_code_is_found_untraced(monkeypatch):
    def make():
        return Variational().flow(SO3, THETA, recipe="a recipe of test_implicit, 1")

    if build.find_compiler() is None:
        pytest.skip("there is no C compiler")
    first = make().run(SO3.neutral(), SPIN, 0.1, 0.01)
    monkeypatch.setattr(ImplicitFlow, "source", lambda *_: pytest.fail("it was traced again"))
    np.testing.assert_array_equal(make().run(SO3.neutral(), SPIN, 0.1, 0.01).q, first.q)


# Sparse Jacobians


def eliminate(A, bounds, choose):
    """x -> A^-1 x as runtime/implicit.h does it, with any choice among nonzero candidates for the pivot."""
    n, A, exchanged = len(A), A.copy(), []
    inside = np.zeros((n, n), bool)
    for i in range(n):
        inside[i, bounds.start[i] : bounds.stop[i]] = True
    A[~inside] = np.nan  # what must never be looked at
    for k in range(n):
        rows, columns = bounds.rows[k], bounds.columns[k]
        p = choose(k + np.flatnonzero(A[k:rows, k]), A[:, k])
        A[[k, p], k:columns] = A[[p, k], k:columns]
        exchanged.append(p)
        A[k + 1 : rows, k] /= A[k, k]
        A[k + 1 : rows, k + 1 : columns] -= np.outer(A[k + 1 : rows, k], A[k, k + 1 : columns])

    def solve(b):
        b = b.copy()
        for k in range(n):
            b[[k, exchanged[k]]] = b[[exchanged[k], k]]
            b[k + 1 : bounds.rows[k]] -= A[k + 1 : bounds.rows[k], k] * b[k]
        for i in reversed(range(n)):
            b[i] = (b[i] - A[i, i + 1 : bounds.columns[i]] @ b[i + 1 : bounds.columns[i]]) / A[i, i]
        return b

    return solve


def sparse(rng, n, density):
    """A pattern that allows a regular matrix, and such a matrix, with no diagonal to speak of."""
    pattern = rng.random((n, n)) < density
    pattern[np.arange(n), rng.permutation(n)] = True
    return pattern, np.where(pattern, rng.standard_normal((n, n)), 0)


def places(pattern):
    return np.argwhere(pattern).tolist()


def test_envelopes_hold_for_whatever_pivots():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 25))
        pattern, A = sparse(rng, n, rng.uniform(0, 0.4))
        order = ordering(n, places(pattern))
        assert sorted(order) == list(range(n))
        pattern, A = pattern[np.ix_(order, order)], A[np.ix_(order, order)]
        largest = lambda rows, column: rows[np.argmax(np.abs(column[rows]))]  # noqa: E731
        random = lambda rows, column: rng.choice(rows)  # noqa: E731
        b = rng.standard_normal(n)
        for choose in (largest, random):
            x = eliminate(A, envelope(n, places(pattern)), choose)(b)
            assert np.isfinite(x).all()
            if choose is largest:
                np.testing.assert_allclose(A @ x, b, atol=1e-8 * np.linalg.cond(A))


def test_a_chain_is_brought_into_a_band():
    """Bodies of three unknowns each, joined by two constraints to the next, numbered at random."""
    bodies, rng = 40, np.random.default_rng(1)
    n = 5 * bodies
    pattern = np.zeros((n, n), bool)
    for i in range(bodies):
        body = slice(3 * i, 3 * i + 3)
        pattern[body, body] = True
        for j in (i, i + 1):
            if j < bodies:
                joint = slice(3 * bodies + 2 * j, 3 * bodies + 2 * j + 2)
                pattern[body, joint] = pattern[joint, body] = True
    shuffled = rng.permutation(n)
    pattern = pattern[np.ix_(shuffled, shuffled)]
    order = ordering(n, places(pattern))
    assert envelope(n, places(pattern[np.ix_(order, order)])).size < 40 * n
    assert envelope(n, places(pattern)).size > 120 * n


def test_sparse_equations_are_solved_in_floats():
    rng = np.random.default_rng(2)
    for _ in range(100):
        n = int(rng.integers(0, 25))
        pattern, A = sparse(rng, n, rng.uniform(0, 0.4))
        b = rng.standard_normal(n)
        x = solve(n, places(pattern), A[pattern], b)
        np.testing.assert_allclose(A @ x, b, atol=1e-8 * np.linalg.cond(A) if n else 0)
    with pytest.raises(IntegrationError, match="singular"):
        solve(2, places(np.ones((2, 2))), [1.0, 2.0, 2.0, 4.0], [1.0, 1.0])


def test_equations_with_entries_at_the_same_places_are_ordered_once(monkeypatch):
    calls = []
    monkeypatch.setattr(elimination, "ordering", lambda *given: calls.append(given) or ordering(*given))
    rng = np.random.default_rng(3)
    pattern = np.eye(7, dtype=bool) | (rng.random((7, 7)) < 0.3)
    for A in np.where(pattern, rng.uniform(1, 2, (3, 7, 7)), 0):
        b = rng.standard_normal(7)
        np.testing.assert_allclose(
            A @ solve(7, places(pattern), A[pattern], b), b, atol=1e-9 * np.linalg.cond(A)
        )
    assert len(calls) == 1


@pytest.mark.parametrize("members", [1, 37])
def test_sparse_systems_are_solved_with_pivots_of_their_own(way, members):
    """A(y) x = b with random entries, zeros on the diagonal, in one linear phase."""
    rng, n = np.random.default_rng(members), 12
    pattern, _ = sparse(rng, n, 0.2)
    rows, columns = np.nonzero(pattern)
    size = len(rows)

    def residual(x, z, t, h, y, u):
        sums = [0] * n
        for k, (i, j) in enumerate(zip(rows, columns, strict=True)):
            sums[i] = sums[i] + y[k] * x[j]
        return np.array(sums) - y[size:]

    phase = Phase(lambda z, t, h, y, u: np.zeros(n), residual, linear=True)
    flow = ImplicitFlow([phase], lambda z, t, h, y, u: np.concatenate([y[:size], z]), size + n)
    y = rng.standard_normal((members, size + n))
    if members > 1:
        y[5, :size][rows == 3] = 0.0  # singular
    _, last, failed, losses = advance(flow, y, steps=1, every=1)
    for i in range(members):
        A = np.zeros((n, n))
        A[rows, columns] = y[i, :size]
        if members > 1 and i == 5:
            assert failed[i] == 2 and losses[i, 1] in (1, 2)
        else:
            assert failed[i] == 0
            np.testing.assert_allclose(A @ last[i, size:], y[i, size:], atol=1e-12 * np.linalg.cond(A))


# Failure


def test_a_member_whose_step_cannot_be_solved_is_marked_and_the_others_go_on(way):
    """x'' = -sqrt(x) ends at x = 0, and another member spins too fast for its step."""
    flow = Gauss(2).flow(R(1), np.eye(1), lambda t, q, v, u: -scalars.sqrt(q))
    y = np.array([[1.0, 0], [4.0, 0], [0.001, 0], [9.0, 0], [5.0, 0]])
    record, last, failed, losses = advance(flow, y, steps=6, every=2, h=0.1)
    lost = round(losses[2, 0] / 0.1)  # the step that could not be taken
    assert 0 < lost < 5 and losses[2, 1] in (1, 3)
    assert failed.tolist() == [0, 0, 2 + lost // 2, 0, 0] and not np.delete(losses, 2, axis=0).any()
    assert np.isnan(last[2]).all() and np.isnan(record[2, failed[2] - 1 :]).all()
    assert np.isfinite(record[2, : failed[2] - 1]).all() and np.isfinite(np.delete(record, 2, axis=0)).all()
    alone = advance(flow, y[:1], steps=6, every=2, h=0.1)[0]
    np.testing.assert_allclose(record[0], alone[0], atol=1e-13)

    spinning = RadauIIA(3).flow(SO3, np.diag([1.0, 2.0, 3.0]))
    y = np.array([[1, 0, 0, 0, 1, 2, 3], [1, 0, 0, 0, 1e4, 2e4, 3e4], [1, 0, 0, 0, 3, 2, 1]], float)
    _, last, failed, losses = advance(spinning, y, steps=2, every=1, h=0.1)
    assert failed.tolist() == [0, 2, 0] and losses[1, 1] == 3 and losses[1, 0] == 0
    assert np.isfinite(last[[0, 2]]).all()


def test_constraints_that_become_singular_on_the_way_are_reported_with_time_and_reason(way):
    """A bead on the pair of lines x y = 0 runs into their crossing, where the constraint has no gradient."""
    flow = Variational().flow(R(2), np.eye(2), g=lambda q: np.array([q[0] * q[1]]))
    y = flow.start([1.0, 0.0], [-0.5, 0.0], 0.0, 0.125)
    record, _, failed, losses = advance(flow, y, steps=20, every=1, h=0.125)
    assert losses[0, 1] == 2 and losses[0, 0] == pytest.approx(2.0, abs=0.13)
    assert failed[0] == round(losses[0, 0] / 0.125) + 2
    np.testing.assert_allclose(record[0, failed[0] - 2, :2], [1 - 0.5 * losses[0, 0], 0], atol=1e-12)
    with pytest.raises(IntegrationError, match=r"the step at t = 1\.\d+ s|the step at t = 2 s.* singular"):
        flow.run([1.0, 0.0], [-0.5, 0.0], 2.5, 0.125)


def test_a_lost_motion_says_when_and_why():
    flow = Gauss(2).flow(R(1), np.eye(1), lambda t, q, v, u: -scalars.sqrt(q))
    with pytest.raises(IntegrationError, match=r"the step at t = 0\.\d+ s cannot be taken: "):
        flow.run([0.02], [0.0], 1.0, 0.1)
    flow = RadauIIA(3).flow(SO3, np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(IntegrationError, match=r"t = 0 s cannot be taken: Newton's method .* shorter step"):
        flow.run(SO3.neutral(), [1e4, 2e4, 3e4], 1.0, 0.1)
    motion = flow.run(SO3.neutral(), [[1, 2, 3], [1e4, 2e4, 3e4]], 1.0, 0.1)
    assert motion.failed.tolist() == [0, 2]
    assert np.isnan(motion.q[1, 1:]).all() and np.isfinite(motion.q[0]).all()
    with pytest.raises(IntegrationError, match=r"singular|converge|finite"):
        RadauIIA(3).flow(SO3, THETA).step(0.0, 1.0, np.array([1, 0, 0, 0, 1e4, 2e4, 3e4]))


def test_starts_off_the_constraints_are_refused():
    flow = GeneralizedAlpha().flow(SO3xR3, INERTIA, weight_space, pivot)
    with pytest.raises(
        IntegrationError, match=r"constraint 2 of member 1 does not hold at the start: g\(q\) is 0.1"
    ):
        flow.start(np.array([TOP, TOP + [0, 0, 0, 0, 0, 0, 0.1]]), VELOCITY, 0.0, 0.01)
    with pytest.raises(IntegrationError, match=r"J\(q\) v is .* project"):
        flow.start(TOP, VELOCITY + 0.1, 0.0, 0.01)
    with pytest.raises(IntegrationError, match="h is 0"):
        flow.start(TOP, VELOCITY, 0.0, 0)
    with pytest.raises(IntegrationError, match="not finite"):
        flow.start(TOP, VELOCITY * np.nan, 0.0, 0.01)
    with pytest.raises(ShapeError, match=r"v has shape \(5,\)"):
        flow.start(TOP, np.zeros(5), 0.0, 0.01)
    twice = Variational().flow(R(2), np.eye(2), g=lambda q: np.array([q[0], 2 * q[0]]))
    with pytest.raises(IntegrationError, match=r"2 constraints depend on each other .* rank 1; leave out 1"):
        twice.start([0.0, 0], [0.0, 1], 0.0, 0.1)
    with pytest.raises(IntegrationError, match="do not make up the time"):
        flow.run(TOP, VELOCITY, 1.0, 0.3)
    with pytest.raises(IntegrationError, match="do not make up the time"):
        flow.run(TOP, VELOCITY, 1.0, 0.1, t_eval=[0, 0.25, 1.0])
    with pytest.raises(IntegrationError, match="no multiple of dt"):
        flow.run(TOP, VELOCITY, 1.0, 0.1, record_every=0.25)


def test_what_cannot_be_a_system_is_refused():
    M = np.eye(3)
    with pytest.raises(ShapeError, match=r"M on SO3 has shape \(2, 2\), expected \(3, 3\)"):
        Variational().flow(SO3, np.eye(2))
    for wrong in (np.diag([1.0, -1, 1]), np.diag([1.0, np.nan, 1]), np.eye(3) + np.eye(3, k=1) / 2):
        with pytest.raises(ShapeError, match="symmetric positive definite"):
            Variational().flow(SO3, wrong)
    with pytest.raises(ShapeError, match=r"Q on SO3 has shape \(2,\)"):
        Variational().flow(SO3, M, lambda t, q, v, u: np.zeros(2))
    with pytest.raises(ShapeError, match=r"g\(q\) has shape \(\), expected \(m,\)"):
        Variational().flow(SO3, M, g=lambda q: q[0])
    with pytest.raises(ShapeError, match=r"J on SO3 has shape \(1, 2\)"):
        HalfExplicit().flow(SO3, M, J=lambda q: np.zeros((1, 2)))
    with pytest.raises(IntegrationError, match="group must be a group"):
        Variational().flow(3, M)
    with pytest.raises(IntegrationError, match="gauss4 takes no constraints; take"):
        Gauss(4).flow(R(1), np.eye(1), g=lambda q: q)
    with pytest.raises(IntegrationError, match="needs the constraints as g"):
        Variational().flow(R(1), np.eye(1), J=lambda q: np.eye(1))
    with pytest.raises(IntegrationError, match="rho_inf = 1 does not damp"):
        GeneralizedAlpha(1.0).flow(R(1), np.eye(1), g=lambda q: q)
    with pytest.raises(IntegrationError, match=r"rho_inf is 1\.5"):
        GeneralizedAlpha(1.5)
    for kind, orders in ((Gauss, 3), (RadauIIA, 4), (HalfExplicit, 2)):
        with pytest.raises(IntegrationError, match=f"not {orders}"):
            kind(orders)
    two = Phase(lambda z, t, h, y, u: np.zeros(2), lambda x, z, t, h, y, u: x[:1])
    with pytest.raises(IntegrationError, match="1 equations for 2 unknowns"):
        ImplicitFlow([two], lambda z, t, h, y, u: y, 1).source()


def test_methods_by_name():
    for name in MECHANICAL:
        assert is_mechanical(name) and repr(mechanical_method(name)) == repr(
            eval(repr(mechanical_method(name)))
        )
    own = GeneralizedAlpha(0.7)
    assert mechanical_method(own) is own and is_mechanical(own) and not is_mechanical("rkmk4")
    with pytest.raises(
        IntegrationError, match=r"no method 'generalised-alpha' .* did you mean 'generalized-alpha'\?"
    ):
        mechanical_method("generalised-alpha")


def test_multipliers_and_biases_of_mechanics_agree_with_the_pivot_force():
    for group, weight in TOPS.values():
        system = MechanicalEquations(group, INERTIA, weight, pivot)
        dv, multipliers = system.acceleration(0.0, TOP, VELOCITY, np.zeros(0))
        x = np.concatenate([np.eye(3).ravel(), SPIN])
        np.testing.assert_allclose(multipliers, pivot_force(x), rtol=1e-12)
        np.testing.assert_allclose(dv[:3], turning(np.eye(3), SPIN), rtol=1e-12)
        given = MechanicalEquations(group, INERTIA, weight, pivot, system.jacobian, system.inertial)
        np.testing.assert_allclose(given.acceleration(0.0, TOP, VELOCITY, np.zeros(0))[0], dv, rtol=1e-13)


# Tableaux


def test_surds_compute_exactly():
    a, b = Surd.read("1/2-1/6r", 3), Surd.read("2+r", 3)
    assert (a * b, a + 1, 2 * a - b) == (
        Surd.read("1/2+1/6r", 3),
        Surd.read("3/2-1/6r", 3),
        Surd.read("-1-4/3r", 3),
    )
    assert float(Surd.read("-r", 2)) == -(2**0.5) and not Surd.read("0", 2)
    assert Surd.read("r", 5) * Surd.read("r", 5) - 5 == Surd.read("0", 5)
    with pytest.raises(IntegrationError, match="no entry of a tableau"):
        Surd.read("1/2 sqrt", 3)


@pytest.mark.parametrize("name", DATA)
def test_a_mistyped_entry_of_an_implicit_tableau_is_refused(name):
    data = DATA[name]
    implicit_tableau(name)
    for field, table in {"b": [data["b"]], "c": [data["c"]], "A": data["A"]}.items():
        for i, row in enumerate(table):
            for j, entry in enumerate(row):
                wrong = [[*r] for r in table]
                wrong[i][j] = f"{entry}+1/1000000"
                changed = wrong if field == "A" else wrong[0]
                with pytest.raises(
                    IntegrationError, match=r"sums to|order condition|differs|polynomials|half-explicit"
                ):
                    ImplicitTableau(name=name, **{**data, field: changed})


@pytest.mark.parametrize("name", [key for key in DATA if DATA[key].get("collocation")])
def test_collocation_methods_are_a_stable_and_radau_also_l_stable(name):
    method = implicit_tableau(name)
    A, b, one = method.A, method.b, np.ones(method.stages)

    def stability(z):
        return 1 + z * b @ np.linalg.solve(np.eye(method.stages) - z * A, one)

    on_axis = [abs(stability(1j * y)) for y in np.logspace(-3, 6, 100)]
    assert max(on_axis) < 1 + 1e-12
    assert all(np.linalg.eigvals(A).real > 0)  # the poles lie on the right: so |R| <= 1 on the left
    at_infinity = 1 - b @ np.linalg.solve(A, one)
    assert abs(at_infinity) == pytest.approx(1.0 if name.startswith("gauss") else 0.0, abs=1e-13)


def test_a_tableau_that_claims_too_much_is_refused():
    data = {**DATA["gauss4"], "order": 5}
    with pytest.raises(IntegrationError, match="order 5, but miss the order condition"):
        ImplicitTableau("own", **data)
    with pytest.raises(IntegrationError, match="last row of A differs"):
        ImplicitTableau("own", **{**DATA["gauss4"], "stiffly_accurate": True})
    with pytest.raises(IntegrationError, match="polynomials of degree 1"):
        ImplicitTableau(
            "own",
            A=[["1/2", "0"], ["1/2", "1/2"]],
            b=["1/2", "1/2"],
            c=["1/2", "1"],
            order=1,
            collocation=True,
        )
    with pytest.raises(IntegrationError, match="not half-explicit"):
        ImplicitTableau("own", **{**DATA["gauss2"], "collocation": False, "half_explicit": True})
    kutta = {"A": [[], ["1/2"], ["-1", "2"]], "b": ["1/6", "2/3", "1/6"], "c": ["0", "1/2", "1"], "order": 3}
    with pytest.raises(IntegrationError, match="in index 2 it has"):
        ImplicitTableau("kutta", **kutta, half_explicit=True)
    assert Fraction(1, 3) == Surd.read("1/3", 7).a


def test_the_example_of_the_pendulum_prints_what_it_says(capsys):
    path = Path(__file__).parents[1] / "examples" / "spherical_pendulum.py"
    example = runpy.run_path(str(path))
    errors = example["main"](steps=100_000)
    printed = capsys.readouterr().out.splitlines()
    stated = textwrap.dedent(example["__doc__"].split("prints, round-off aside,\n")[1]).strip().splitlines()
    assert [line.split()[0] for line in printed] == [line.split()[0] for line in stated]
    assert printed[-1] == stated[-1]
    variational, half_explicit, _ = errors.values()
    assert variational.max() == pytest.approx(1.19e-3, rel=0.01)
    assert half_explicit[-1000:].max() > 5 * half_explicit[:1001].max()  # it drifts


def test_a_member_that_begins_at_its_solution_waits_for_the_others_without_a_warning():
    """x + x^3 = y at y = 0 and 2, from x = 0: corrections of the first are zero, one after the other."""
    cubic = SimpleNamespace(places=[(0, 0)], linear=False)

    def residual(x, z, y):
        return x + x**3 - y

    def both(x, z, y):
        return residual(x, z, y), 1 + 3 * x**2

    x, lost = np.zeros((2, 1)), np.zeros(2, int)
    y = np.array([[0.0], [2.0]])
    with np.errstate(all="raise"):
        newton(cubic, (residual, both), x, np.zeros((2, 0)), (y,), lost, 1e-12, 50)
    np.testing.assert_allclose(x, [[0.0], [1.0]], atol=1e-12)
    assert not lost.any()


@pytest.mark.parametrize(
    "method",
    [GeneralizedAlpha(1 / 3), RadauIIA(3), Gauss(6), Variational("cay"), HalfExplicit(3, True)],
    ids=repr,
)
def test_the_text_of_a_method_determines_it(method):
    """Libraries are found by it (`recipe` of `MechanicalMethod.flow`)."""
    again = eval(repr(method))
    kinds = (bool, int, float, str)
    assert {k: x for k, x in vars(again).items() if isinstance(x, kinds)} == {
        k: x for k, x in vars(method).items() if isinstance(x, kinds)
    }


def test_collocation_takes_collocation_methods_alone():
    with pytest.raises(IntegrationError, match=r"'hem3', .* is not said to be a collocation method"):
        Collocation(implicit_tableau("hem3"))


@pytest.mark.parametrize("entry", ["a third", None, float("nan"), "1/0"])
def test_entries_of_methods_that_are_no_numbers_are_refused(entry):
    for make in (
        lambda: Tableau("own", A=[[], [entry]], b=[0, 1], c=[0, "1/2"], order=2),
        lambda: CommutatorFree("own", stages=[[], [[entry]]], weights=[[0, 1]], order=2),
    ):
        with pytest.raises(IntegrationError, match="is no entry of a tableau, such as 9/40"):
            make()
