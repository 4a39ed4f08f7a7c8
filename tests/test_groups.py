"""Every group through one table: against 50 digits, against definitions, laws; joints; mistakes."""

import functools
import pickle
import re
from itertools import pairwise
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liebody.base.errors import (
    ArgumentError,
    ConfigurationError,
    LiebodyError,
    LogarithmError,
    ModelError,
    ShapeError,
)
from liebody.compiler import jacobian, trace
from liebody.groups import (
    SE2,
    SE3,
    SO2,
    SO3,
    AdjointGroup,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    LieGroup,
    MatrixGroup,
    MotionSubgroup,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Product,
    R,
    Revolute,
    Schoenflies,
    SEn3,
    SO3xR3,
    SpatialTranslation,
    Spherical,
)
from liebody.groups.base import TAKEN

AXIS, POINT = (1.0, -2.0, 0.5), (0.3, -0.2, 0.7)
X, Y, Z = np.eye(3)


class Affine(LieGroup):
    """x -> a x + b, the smallest group that is not commutative."""

    n, dim = 2, 2

    def hat(self, u):
        return np.array([[u[0], u[1]], [0, 0]])


JOINTS = [
    Fixed(),
    Prismatic(AXIS),
    Revolute(AXIS, POINT),
    Revolute(-Y),
    Helical(AXIS, 0.2, POINT),
    PlanarTranslation(AXIS),
    Cylindrical(AXIS, POINT),
    Planar(AXIS, POINT),
    Planar(-X),
    SpatialTranslation(),
    Spherical(),
    Spherical(POINT),
    Schoenflies(AXIS, POINT),
    PlanarHelical(AXIS, -0.3, POINT),
    Free(),
]


def unit(n, i, j):
    """The n x n matrix with a one at (i, j)."""
    return np.outer(np.eye(n)[i], np.eye(n)[j])


OWN = [
    Affine(),
    MatrixGroup([unit(3, 0, 1), unit(3, 1, 2), unit(3, 0, 2)], "Heisenberg"),
    MatrixGroup([[[1, 0], [0, -1]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]], "SL(2)"),
    MatrixGroup(np.eye(4).reshape(4, 2, 2), "GL(2)"),
    AdjointGroup(np.stack([SO3.ad(e) for e in np.eye(3)], axis=1), "so(3)"),
]
BUILT_IN = [SO2, SO3, SE2, SE3, SEn3(0), SEn3(2), SEn3(4), SO3xR3, R(0), R(3)]
BUILT_IN += [Product(SE3, R(2), SO2), Product(), *JOINTS]
GROUPS = BUILT_IN + OWN
SIZES = [1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0, 1.41, 1.42, 2.0, 3.0]

MOVING = [group for group in GROUPS if group.dim]

each_group = pytest.mark.parametrize("group", GROUPS, ids=repr)
each_joint = pytest.mark.parametrize("joint", JOINTS, ids=repr)
each_moving_group = pytest.mark.parametrize("group", MOVING, ids=repr)


def high(array):
    """A float array as a matrix of 50 digits; a vector becomes a column."""
    return mp.matrix(np.asarray(array, dtype=float).tolist())


def largest(matrix):
    return max(abs(x) for x in matrix)


def directions(dim, rng, count=1):
    """Algebra vectors of length one: the first coordinate direction and random ones."""
    random = rng.standard_normal((count, dim))
    return [np.eye(dim)[0], *(random / np.linalg.norm(random, axis=1)[:, None])]


def exact_quotient(A):
    """(exp(A) - 1)/A = sum of A^k/(k+1)!, until nothing is added."""
    total, term, k = mp.eye(A.rows), mp.eye(A.rows), 1
    while largest(term) > mp.mpf(10) ** -60:
        k += 1
        term = term * A / k
        total += term
    return total


def exact_exp(U):
    return mp.eye(U.rows) + U * exact_quotient(U)


@functools.cache
def exact_brackets(place):
    """ad of each vector of the basis of MOVING[place], from commutators, which are small integers."""
    group, found = MOVING[place], []
    for E in group.basis:
        columns = [LieGroup.vee(group, E @ F - F @ E) for F in group.basis]
        found.append(high(np.round(np.stack(columns, axis=-1))))
    return found


def exact_ad(group, u):
    """The matrix of the bracket in 50 digits."""
    place = next(k for k, other in enumerate(MOVING) if other is group)
    total = mp.zeros(group.dim)
    for x, ad in zip(u, exact_brackets(place), strict=True):
        total += mp.mpf(float(x)) * ad
    return total


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


# Against 50 digits


@each_moving_group
@pytest.mark.many
def test_operations_are_right_to_1e_14_at_every_size(group, rng):
    for size in SIZES:
        for direction in directions(group.dim, rng):
            u, w = size * direction, rng.standard_normal(group.dim)
            g, A = exact_exp(high(group.hat(u))), exact_ad(group, u)
            D = exact_quotient(A)
            D_inverse = D**-1
            for name, value, expected in [
                ("exp", group.exp(u), g),
                ("ad", group.ad(u), A),
                ("dexp", group.dexp(u), D),
                ("dexp_inverse", group.dexp_inverse(u), D_inverse),
                ("dexp_inverse_times", group.dexp_inverse_times(u, w), D_inverse * high(w)),
                ("Ad", group.Ad(group.exp(u)), mp.eye(group.dim) + A * D),
                ("inverse", group.inverse(group.exp(u)), g**-1),
            ]:
                error = largest(high(value) - expected)
                assert error <= 1e-14 * max(mp.mpf(1e-300), largest(expected)), (name, u)


@each_moving_group
@pytest.mark.many
def test_small_motions_keep_all_their_digits(group, rng):
    """exp(u) - 1 off the diagonal, and log, relative to |u| and not to one."""
    off_diagonal = 1 - np.eye(group.n)
    for size in SIZES:
        for direction in directions(group.dim, rng):
            u = size * direction
            change = high(group.hat(u)) * exact_quotient(high(group.hat(u)))
            q = group.integrate(group.neutral(), u)
            for g in group.exp(u), group.element(q):
                error = np.array((high(g - np.eye(group.n)) - change).tolist()) * off_diagonal
                assert np.abs(error).max() <= 1e-14 * largest(change)
            # a matrix with exp(u) = 1 + u on its diagonal has rounded a small u away
            tolerance = 1e-14 * (np.exp(size) if group in OWN else size)
            np.testing.assert_allclose(group.log(group.exp(u)), u, rtol=0, atol=tolerance)
            np.testing.assert_allclose(group.difference(group.neutral(), q), u, rtol=0, atol=tolerance)


@each_moving_group
@pytest.mark.many
def test_integrate_is_the_product_with_the_exponential(group, rng):
    for size in SIZES:
        q, u = group.random(rng), size * directions(group.dim, rng)[1]
        moved = group.integrate(q, u)
        expected = high(group.element(q)) * exact_exp(high(group.hat(u)))
        assert largest(high(group.element(moved)) - expected) <= 1e-14 * largest(expected)
        np.testing.assert_allclose(
            group.difference(q, moved), u, rtol=0, atol=2e-14 * (1 + np.exp(size) * (group in OWN))
        )


@each_joint
def test_poses_multiply_as_the_group_does(joint, rng):
    """pose(integrate(q, u)) = pose(q) exp(hat(S u)), which makes pose a homomorphism with derivative S."""
    assert joint.S.shape == (6, joint.dim)
    np.testing.assert_array_equal(joint.pose(joint.neutral()), np.eye(4))
    for size in SIZES:
        q, u = joint.random(rng), size * rng.standard_normal(joint.dim)
        expected = high(joint.pose(q)) * exact_exp(high(SE3.hat(joint.S @ u)))
        assert largest(high(joint.pose(joint.integrate(q, u))) - expected) <= 1e-14 * largest(expected)


# Closed forms against definitions


def algebra_vectors(dim):
    """Vectors of length 1e-12 to 3."""
    entries = st.lists(st.floats(-1, 1), min_size=dim, max_size=dim).map(np.array)
    sizes = st.floats(-12, np.log10(3)).map(lambda x: 10**x)
    return st.tuples(entries, sizes).map(lambda t: t[1] * t[0] / max(1e-3, np.linalg.norm(t[0])))


@each_group
@settings(max_examples=15)
@given(data=st.data())
@pytest.mark.many
def test_closed_forms_agree_with_their_definitions(group, data):
    u, w, p = (data.draw(algebra_vectors(group.dim)) for _ in range(3))
    g, h = group.exp(u), group.exp(w)
    scale = np.exp(2 * np.linalg.norm(u)) if group in OWN else 10

    def same(value, definition):
        np.testing.assert_allclose(value, definition, rtol=0, atol=2e-15 * scale)

    same(group.vee(group.hat(u)), u)
    same(g, LieGroup.exp(group, u))
    same(group.Ad(g), LieGroup.Ad(group, g))
    same(group.ad(u), LieGroup.ad(group, u))
    same(group.coad(p), LieGroup.coad(group, p))
    same(group.coad(p) @ w, -group.ad(w).T @ p)
    same(group.dexp(u), LieGroup.dexp(group, u))
    same(group.dexp_inverse(u), LieGroup.dexp_inverse(group, u))
    same(group.dexp_inverse_times(u, w), LieGroup.dexp_inverse_times(group, u, w))
    same(group.inverse(g), LieGroup.inverse(group, g))
    same(group.compose(g, h), g @ h)
    same(group.element(group.coordinates(g)), g)
    same(group.Ad(g) @ group.dexp(-u), group.dexp(u))


@each_group
def test_logarithm_agrees_with_its_definition(group, rng):
    for size in (1e-12, 1e-6, 1e-2, 1.0, 3.0):
        u = size * rng.standard_normal(group.dim) / max(1, np.sqrt(group.dim))
        if np.linalg.norm(u) < 3:
            g = group.exp(u)
            np.testing.assert_allclose(group.log(g), LieGroup.log(group, g), rtol=0, atol=1e-13)


@each_group
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), s=st.floats(0, 1))
def test_group_axioms_hold_in_flat_coordinates(group, seed, s):
    rng = np.random.default_rng(seed)
    q0, q1 = group.random(rng), group.random(rng)
    g0, g1 = group.element(q0), group.element(q1)
    scale = max(1, np.abs(group.inverse(g0)).max(initial=0) * np.abs(g0).max(initial=0))
    np.testing.assert_allclose(group.compose(g0, group.inverse(g0)), group.identity(), atol=1e-13 * scale)
    np.testing.assert_array_equal(group.element(group.neutral()), group.identity())
    np.testing.assert_allclose(group.normalize(q0), q0, atol=1e-15)
    assert group.check(q0) is not None
    if group in OWN[2:4]:  # SL(2), GL(2): many pairs have no real logarithm between them
        q1 = group.integrate(q0, 0.3 * rng.standard_normal(group.dim))
        g1 = group.element(q1)
    reached = group.element(group.integrate(q0, group.difference(q0, q1)))
    np.testing.assert_allclose(reached, g1, rtol=0, atol=1e-12 * scale)
    middle = group.interpolate(q0, q1, s)
    u = group.difference(q0, q1)
    np.testing.assert_allclose(
        group.element(group.integrate(middle, (1 - s) * u)), g1, rtol=0, atol=1e-12 * scale
    )
    np.testing.assert_allclose(group.element(group.interpolate(q0, q1, 0.0)), g0, rtol=0, atol=1e-13 * scale)


# Rotations by pi and beyond


@pytest.mark.parametrize("axis", [X, -Y, Z, (1, -1, 0), (0.6, 0, -0.8), AXIS, (1, 1e-9, -1e-5)])
def test_log_reaches_the_angle_pi(axis):
    n = np.asarray(axis) / np.linalg.norm(axis)
    half_turn = 2 * np.outer(n, n) - np.eye(3)
    for log in SO3.log(half_turn), SO3.difference(SO3.neutral(), np.array([0, *n])):
        np.testing.assert_allclose(np.linalg.norm(log), np.pi, rtol=1e-15)
        np.testing.assert_allclose(np.outer(log, log), np.pi**2 * np.outer(n, n), atol=1e-14)
    T = SE3.motion(half_turn, np.array(POINT))
    np.testing.assert_allclose(SE3.exp(SE3.log(T)), T, atol=2e-15)
    for gap in (1e-15, 1e-12, 1e-8, 1e-4, 1e-1):
        with mp.workdps(50):
            beyond = mp.pi + mp.mpf(gap)
            q = np.array([float(mp.cos(beyond / 2)), *(float(mp.sin(beyond / 2)) * n)])
            short = float(2 * mp.pi - beyond)
        u = SO3.difference(SO3.neutral(), q)
        np.testing.assert_allclose(u, -short * n, atol=2e-15)
        np.testing.assert_allclose(SO3.log(SO3.element(q)), -short * n, atol=3e-15)
        np.testing.assert_allclose(SO3.log(SO3.exp((np.pi - gap) * n)), (np.pi - gap) * n, atol=3e-15)


def test_both_signs_of_a_quaternion_are_one_rotation(rng):
    for group in (SO3, SE3, Spherical(POINT), Free()):
        q0, q1 = group.random(rng), group.random(rng)
        other = np.concatenate([-q1[:4], q1[4:]])
        np.testing.assert_allclose(group.difference(q0, other), group.difference(q0, q1), atol=1e-15)
        np.testing.assert_array_equal(group.element(other), group.element(q1))
        np.testing.assert_allclose(group.difference(q1, other), 0, atol=1e-15)
        assert np.linalg.norm(group.difference(q0, q1)[:3]) <= np.pi


def test_large_rotation_vectors_turn_more_than_once():
    for turns in (1, 3, 10):
        u = np.array([0.1, -0.2, 0.3])
        n = u / np.linalg.norm(u)
        more = u + 2 * np.pi * turns * n
        np.testing.assert_allclose(SO3.exp(more), SO3.exp(u), atol=1e-14 * turns)
        np.testing.assert_allclose(
            SO3.element(SO3.integrate(SO3.neutral(), more)), SO3.exp(u), atol=1e-14 * turns
        )


def test_angles_of_joints_that_turn_are_wound():
    for group in (SO2, Revolute(Z), Helical(Z, 0.1), Cylindrical(Z)):
        q = group.neutral()
        u = np.eye(group.dim)[0] * 3.0
        for _ in range(5):
            q = group.integrate(q, u)
        np.testing.assert_allclose(q[0], 15.0)
        np.testing.assert_allclose(group.difference(group.neutral(), q), 5 * u)
    np.testing.assert_allclose(SO2.log(SO2.exp(np.array([15.0]))), [15.0 - 4 * np.pi])


def test_planar_angles_are_compared_modulo_turns_unless_they_climb():
    q0, q1 = np.array([0.1, 1, 2]), np.array([0.3 + 4 * np.pi, 1.5, 2.5])
    for group in (SE2, Planar(Z), Schoenflies(Z)):
        more = np.zeros(group.nq - 3)
        u = group.difference(np.concatenate([q0, more]), np.concatenate([q1, more]))
        np.testing.assert_allclose(u[0], 0.2, atol=1e-14)
    climb = PlanarHelical(Z, 0.1)
    np.testing.assert_allclose(climb.difference(q0, q1)[0], 0.2 + 4 * np.pi)
    np.testing.assert_allclose(climb.integrate(q0, climb.difference(q0, q1)), q1, atol=1e-13)
    np.testing.assert_allclose(SE2.integrate(q0, [4 * np.pi, 0, 0]), [0.1 + 4 * np.pi, 1, 2], atol=1e-14)


def test_quaternions_stay_unit_under_many_small_steps(rng):
    q, u = SO3.random(rng), np.array([1e-3, 2e-3, -1e-3])
    for _ in range(1000):
        q = SO3.integrate(q, u)
    np.testing.assert_allclose(q @ q, 1, atol=1e-13)
    np.testing.assert_allclose(SO3.normalize(2.5 * q), q, atol=1e-13)


def test_quaternion_turns_vectors_as_its_matrix(rng):
    """R(q) p is the vector part of q (0, p) q*."""
    for _ in range(5):
        q, p = SO3.random(rng), rng.standard_normal(3)
        w, v = q[0], q[1:]
        sandwich = (w * w - v @ v) * p + 2 * (v @ p) * v + 2 * w * np.cross(v, p)
        np.testing.assert_allclose(SO3.element(q) @ p, sandwich, atol=2e-15)


# Traces and derivatives


@each_group
def test_every_operation_can_be_traced(group, rng):
    q, q1 = group.random(rng), group.random(rng)
    u, w = rng.standard_normal(group.dim), rng.standard_normal(group.dim)
    g = group.element(q)
    calls = [
        *((name, [u]) for name in ("hat", "exp", "ad", "coad", "dexp", "dexp_inverse")),
        *((name, [g]) for name in ("Ad", "inverse", "vee", "coordinates")),
        *((name, [q]) for name in ("element", "normalize")),
        ("compose", [g, g]),
        ("dexp_inverse_times", [u, w]),
        ("integrate", [q, u]),
    ]
    if (
        group not in OWN[1:]
    ):  # logarithms by definition take many operations; one group is enough to trace them
        calls += [("log", [g]), ("difference", [q, q1]), ("interpolate", [q, q1, np.array(0.3)])]
    if isinstance(group, MotionSubgroup):
        calls += [("pose", [q])]
    for name, arguments in calls:
        method = getattr(group, name)
        traced = trace(method, {f"x{i}": x.shape for i, x in enumerate(arguments)})
        np.testing.assert_allclose(
            traced(*arguments), method(*arguments), rtol=1e-13, atol=1e-13, err_msg=name
        )


@pytest.mark.parametrize("group", [g for g in MOVING if g.dim < 7], ids=repr)
def test_derivative_of_exp_is_dexp_at_every_size(group, rng):
    """Derivatives go through both branches of the small-angle selections, at u = 0 too."""
    derivative = jacobian(trace(group.exp, {"u": group.dim}), "u")
    for size in (0.0, 1e-12, 1e-8, 1e-4, 1e-2, 1.0, 1.41, 1.42, 3.0):
        u = size * directions(group.dim, rng)[1]
        D, g = group.dexp(u), group.exp(u)
        expected = np.stack([group.hat(D[:, i]) @ g for i in range(group.dim)], axis=-1)
        np.testing.assert_allclose(
            derivative(u), expected, rtol=0, atol=1e-13 * max(1, np.abs(expected).max())
        )


@pytest.mark.parametrize("group", [SO2, SO3, SE2, SE3, SEn3(2), SO3xR3, *JOINTS[1:]], ids=repr)
def test_derivative_of_difference_is_dexp_inverse(group, rng):
    """difference(q, integrate(q, u)) = u and its derivative is the identity, from u = 0 on."""
    derivative = jacobian(
        trace(lambda q, u: group.difference(q, group.integrate(q, u)), {"q": group.nq, "u": group.dim}), "u"
    )
    q = group.random(rng)
    for size in (0.0, 1e-12, 1e-8, 1e-4, 1e-2, 0.19, 0.21, 1.0, 1.42, 3.0):
        u = size * directions(group.dim, rng)[1]
        np.testing.assert_allclose(derivative(q, u), np.eye(group.dim), rtol=0, atol=1e-12)


def test_poses_about_coordinate_axes_cost_one_sine_and_one_cosine():
    for axis in (X, -X, Y, -Y, Z, -Z):
        for joint in (Revolute(axis), Cylindrical(axis), Planar(axis), Schoenflies(axis)):
            operations = trace(joint.pose, {"q": joint.nq}).operations
            operations.pop("neg", 0)
            assert operations == {"sin": 1, "cos": 1}, joint
        assert not set(trace(Prismatic(axis).pose, {"q": 1}).operations) - {"neg"}
        assert set(np.abs(Revolute(axis).S.ravel())) == {0.0, 1.0}


def test_integration_of_rotations_stays_cheap():
    """Operation counts are speed here; raise these bounds only with a reason."""
    for group, integrate, inverse in ((SO3, 80, 80), (SE3, 170, 150), (SE2, 40, 60)):
        count = trace(group.integrate, {"q": group.nq, "u": group.dim}).operations
        assert sum(count.values()) <= integrate
        assert count["sin"] + count["cos"] <= 3
        count = trace(group.dexp_inverse_times, {"u": group.dim, "w": group.dim}).operations
        assert sum(count.values()) <= inverse


# Motion subgroups


@pytest.mark.parametrize("joint", [j for j in JOINTS if hasattr(j, "axis")], ids=repr)
def test_an_axis_stays_where_it_is(joint, rng):
    q = np.zeros(joint.nq)
    if isinstance(joint, Prismatic):
        return np.testing.assert_allclose(joint.pose(np.array([2.0]))[:3, 3], 2 * joint.axis)
    q[0] = 0.7
    rotation, shift = SE3.parts(joint.pose(q))
    advance = getattr(joint, "pitch", 0) * 0.7
    np.testing.assert_allclose(rotation @ joint.axis, joint.axis, atol=1e-15)
    np.testing.assert_allclose(rotation @ joint.point + shift, joint.point + advance * joint.axis, atol=1e-15)
    np.testing.assert_allclose(np.trace(rotation), 1 + 2 * np.cos(0.7))
    normal = np.cross(joint.axis, rng.standard_normal(3))
    assert np.cross(normal, rotation @ normal) @ joint.axis > 0  # right-handed


@pytest.mark.parametrize("axis", [X, -X, Y, -Y, Z, -Z, AXIS, (1, 1, 1), (0, 1, 1e-12)])
def test_directions_in_a_plane_are_a_right_handed_frame(axis):
    e1, e2 = PlanarTranslation(axis).S[3:].T
    normal = np.asarray(axis) / np.linalg.norm(axis)
    np.testing.assert_allclose([e1 @ e1, e1 @ e2, e1 @ normal], [1, 0, 0], atol=1e-15)
    np.testing.assert_allclose(np.cross(e1, e2), normal, atol=1e-15)


def test_directions_in_coordinate_planes_follow_the_alphabet():
    for axis, (e1, e2) in {0: (Y, Z), 1: (Z, X), 2: (X, Y)}.items():
        np.testing.assert_array_equal(PlanarTranslation(np.eye(3)[axis]).S[3:].T, [e1, e2])


@each_joint
def test_twists_of_a_joint_are_a_subalgebra(joint, rng):
    """S ad_H(u) w = ad_SE3(S u) S w; From, definition 4.2."""
    u, w = rng.standard_normal((2, joint.dim))
    np.testing.assert_allclose(joint.S @ joint.ad(u) @ w, SE3.ad(joint.S @ u) @ joint.S @ w, atol=1e-14)
    assert not joint.S.flags.writeable


def test_axes_are_normalised_without_loss():
    for axis in ((0, 0, 2.0), (0, 0, 1e-300), (0, 0, 1e300), [0, 0, 1]):
        assert Revolute(axis) == Revolute(Z)
    np.testing.assert_array_equal(Revolute((0, 0.6, 0.8)).axis, (0, 0.6, 0.8))


def test_coadjoint_of_a_twist_gives_the_coriolis_force(rng):
    """ad~_p v = -ad(v)^T p, and the tables of From with the signs corrected."""
    p, v = rng.standard_normal((2, 6))
    np.testing.assert_allclose(SO3.coad(p[:3]) @ v[:3], np.cross(v[:3], p[:3]), atol=1e-15)
    force = np.concatenate([np.cross(v[:3], p[:3]) + np.cross(v[3:], p[3:]), np.cross(v[:3], p[3:])])
    np.testing.assert_allclose(SE3.coad(p) @ v, force, atol=2e-15)


# Names, and what users get wrong


def test_groups_are_equal_by_value_and_print_as_they_are_made():
    for group in (SO3xR3, R(2), SEn3(3), *JOINTS):
        if group is not SO3xR3:
            assert eval(repr(group)) == group
        assert hash(group) == hash(group)
    assert Product(SO3, R(3)) != Product(R(3), SO3)
    assert Product(SE3, R(2)) == Product(SE3, R(2)) and pickle.loads(pickle.dumps(SE3)) == SE3
    assert MatrixGroup([[[1]]]) == MatrixGroup([[[1]]]) != MatrixGroup([[[2]]])
    assert Affine() != Affine()  # it might have parameters
    assert Revolute(X) != Revolute(Y) and Revolute(X) != Prismatic(X) and R(1) != SO2


def test_slices_of_a_product_are_its_layout():
    group = Product(SE3, R(2), SO2)
    assert (group.n, group.dim, group.nq) == (9, 9, 10)
    assert group.dofs == (slice(0, 6), slice(6, 8), slice(8, 9))
    assert group.coordinate_slices == (slice(0, 7), slice(7, 9), slice(9, 10))
    assert all(a.stop == b.start for a, b in pairwise(group.blocks))


@pytest.mark.parametrize(
    ("make", "error", "hint"),
    [
        (lambda: Revolute((0, 0, 0)), ModelError, "no direction"),
        (lambda: Revolute((0, 0, np.nan)), ModelError, "not finite"),
        (lambda: Prismatic((0, np.inf, 0)), ModelError, "not finite"),
        (lambda: Revolute((0, 1)), ShapeError, "three numbers"),
        (lambda: Revolute("z"), ShapeError, "three numbers"),
        (lambda: Revolute(Z, point=(1, 2)), ShapeError, "point"),
        (lambda: Spherical((np.nan, 0, 0)), ModelError, "point"),
        (lambda: Planar((0, 0, 0)), ModelError, "normal"),
        (lambda: Helical(Z, 0), ModelError, "use Revolute"),
        (lambda: Helical(Z, np.inf), ModelError, "finite"),
        (lambda: Helical(Z, "steep"), ShapeError, "m/rad"),
        (lambda: PlanarHelical(Z, np.nan), ModelError, "use Planar"),
        (lambda: R(-1), ShapeError, "n >= 0"),
        (lambda: R(1.5), ShapeError, "n >= 0"),
        (lambda: SEn3(-1), ArgumentError, "a whole number, 0 or more"),
        (lambda: Product(SO3, "R3"), ShapeError, "groups such as"),
        (lambda: MatrixGroup(np.eye(2)), ShapeError, "(dim, n, n)"),
        (lambda: MatrixGroup(np.zeros((1, 2, 3))), ShapeError, "square"),
        (lambda: MatrixGroup([np.eye(2), 2 * np.eye(2)]), ModelError, "dependent"),
        (lambda: MatrixGroup([SE3.hat(e) for e in np.eye(6)[:2]]), ModelError, "not closed"),
        (lambda: MatrixGroup([[[np.nan]]]), ModelError, "finite"),
        (lambda: AdjointGroup(np.ones((2, 2, 2))), ModelError, "antisymmetric"),
        (lambda: AdjointGroup(np.zeros((2, 2, 3))), ShapeError, "(dim, dim, dim)"),
        (lambda: AdjointGroup(not_jacobi()), ModelError, "Jacobi"),
        (lambda: AdjointGroup(np.zeros((2, 2, 2)), "R2").exp(np.zeros(2)), ModelError, "centre"),
        (lambda: SO3.check([1, 0, 0]), ShapeError, "shape (..., 4), not (3,)"),
        (lambda: SO3.check("up"), ShapeError, "4 numbers"),
        (lambda: SO3.check([1, 0, np.nan, 0]), ConfigurationError, "coordinate 2 of SO3 is nan"),
        (lambda: SE3.check([2, 0, 0, 0, 1, 2, 3]), ConfigurationError, "norm 2, not 1"),
        (lambda: Product(R(1), SO3).check([1, 1, 1, 0, 0]), ConfigurationError, "quaternion"),
        (lambda: SE3.check(np.zeros((3, 7))), ConfigurationError, "norm 0, not 1"),
        (lambda: SE2.check([[0, 0, 0], [0, np.inf, 0]]), ConfigurationError, "(1, 1)"),
    ],
)
def test_mistakes_are_named_with_their_remedy(make, error, hint):
    with pytest.raises(error) as info:
        make()
    assert hint in str(info.value) and isinstance(info.value, LiebodyError)


def not_jacobi():
    c = np.zeros((3, 3, 3))
    c[0, 0, 1], c[0, 1, 0], c[1, 1, 2], c[1, 2, 1] = 1, -1, 1, -1  # [e0, e1] = e0, [e1, e2] = e1
    return c


@each_group
def test_valid_configurations_pass_in_batches(group, rng):
    batch = np.stack([group.random(rng) for _ in range(3)])
    np.testing.assert_array_equal(group.check(batch), batch)
    assert group.is_valid(batch) and group.is_valid(batch[0].tolist())
    assert not group.is_valid(np.full(group.nq + 1, 0.5))


SL2, GL2 = OWN[2:4]
SPIRAL = MatrixGroup([[[0.1, -1], [1, 0.1]]], "spiral")  # exp(t) turns by t and grows by exp(t/10)


@pytest.mark.parametrize(
    ("group", "g", "words"),
    [
        (
            SL2,
            [[-2, 0], [0, -0.5]],
            ["SL(2)", "[-2, 0; 0, -0.5]", "-2 lies", "once", "no real logarithm at all"],
        ),
        (SL2, [[-3, 1], [2, -1]], ["[-3, 1; 2, -1]", "no real logarithm at all"]),
        (SL2, [[-1, 1], [0, -1]], ["eigenvalue -1 ", "2 times", "not unique, if there is one"]),
        (SL2, [[-1, 0], [0, -1]], ["eigenvalue -1 ", "2 times", "not unique, if there is one"]),
        (GL2, [[1, 0], [0, -3]], ["GL(2)", "eigenvalue -3", "once"]),
        (GL2, [[1, 2], [2, 4]], ["singular"]),
        (SL2, [[2, 0], [0, 2]], ["no matrix of the algebra"]),
        (SPIRAL, SPIRAL.exp(np.array([4.0])), ["spiral", "no matrix of the algebra"]),
        (MatrixGroup(np.eye(9).reshape(9, 3, 3), "GL(3)"), -np.eye(3), ["3 times, an odd number"]),
    ],
)
def test_elements_without_a_logarithm_are_refused_in_words(group, g, words):
    g = np.array(g, float)
    with pytest.raises(LogarithmError) as error:
        group.log(g)
    for word in (*words, "elements in between"):
        assert word in str(error.value)
    with pytest.raises(LogarithmError):
        group.difference(group.neutral(), group.coordinates(g))


@pytest.mark.parametrize("group", [SL2, GL2], ids=repr)
def test_what_the_logarithm_does_not_refuse_it_reaches(group, rng):
    """And of random elements it refuses none whose eigenvalues are away from the negative real axis."""
    refused = 0
    for _ in range(300):
        g = rng.uniform(-2, 2) * group.exp(3 * rng.standard_normal(group.dim))
        g = g if group is GL2 else g / np.sqrt(abs(np.linalg.det(g))) * np.sign(g[0, 0])
        angle = np.abs(np.angle(np.linalg.eigvals(g))).max()
        try:
            reached = group.exp(group.log(g))
        except LogarithmError:
            refused += 1
            assert angle > np.pi - 0.05, g
        else:
            assert angle < np.pi
            np.testing.assert_allclose(reached, g, rtol=0, atol=1e-8 * np.abs(g).max())
    assert 20 < refused < 280


def test_nothing_is_checked_of_symbols_and_of_what_is_not_finite():
    g = np.array([[-2, 0], [0, -0.5]])
    assert trace(SL2.log, {"g": (2, 2)})(g).shape == (3,)
    assert np.isnan(SL2.log(np.full((2, 2), np.nan))).all()


def test_a_group_without_hat_says_what_is_missing():
    class Nothing(LieGroup):
        n, dim = 1, 1

    with pytest.raises(NotImplementedError, match="hat"):
        Nothing().exp(np.zeros(1))


def test_structure_constants_are_enough_for_the_equations_of_motion(rng):
    """The Heisenberg algebra has a centre: no elements, but ad, coad, dexp are those of the matrices."""
    heisenberg = OWN[1]
    known = AdjointGroup(np.stack([heisenberg.ad(e) for e in np.eye(3)], axis=1))
    u, p = rng.standard_normal((2, 3))
    for name in ("ad", "dexp", "dexp_inverse"):
        np.testing.assert_allclose(getattr(known, name)(u), getattr(heisenberg, name)(u), atol=1e-15)
    np.testing.assert_allclose(known.coad(p), heisenberg.coad(p), atol=1e-15)


def test_the_page_about_groups_runs():
    page = (Path(__file__).parents[1] / "docs" / "groups.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    exec("".join(blocks), {})


@pytest.fixture
def rng(request):
    return np.random.default_rng(sum(map(ord, request.node.name)))


@pytest.mark.parametrize("group", [Product(SE3, Planar([0, 0, 1]), Revolute([0, 0, 1]), R(2)), SO3])
def test_many_random_elements_are_drawn_at_once(group):
    """Rotations uniform: R has mean zero and E[R_ij^2] = 1/3; translations of deviation 1."""
    one = group.random(np.random.default_rng(3))
    np.testing.assert_array_equal(group.random(np.random.default_rng(3), ()), one)
    q = group.random(np.random.default_rng(3), (50, 400))
    assert q.shape == (50, 400, group.nq)
    group.check(q)
    rotations = np.array([SO3.element(x) for x in q.reshape(-1, group.nq)[:5000, :4]])
    assert np.abs(rotations.mean(axis=0)).max() < 0.05
    np.testing.assert_allclose((rotations**2).mean(axis=0), 1 / 3, atol=0.03)
    if group.nq > 4:
        np.testing.assert_allclose(q[..., 4:7].std(axis=(0, 1)), 1, atol=0.03)


@pytest.mark.parametrize("group", [*JOINTS, SO2, SO3, SE2, SE3, SEn3(2), SO3xR3, R(3), Affine()], ids=repr)
def test_methods_take_lists_and_refuse_what_has_another_shape(group):
    """Every argument of every method, among right ones."""
    q = group.neutral()
    right = {"g": group.identity(), "u": np.zeros(group.dim), "q": q, "s": 0.5}
    for name, letters in TAKEN.items():
        if not hasattr(group, name):
            continue
        method, arguments = getattr(group, name), [right[letter] for letter in letters]
        np.testing.assert_array_equal(method(*[np.array(x).tolist() for x in arguments]), method(*arguments))
        for i in range(len(letters)):
            for wrong in (None, "x", np.zeros(group.dim + group.nq + 1), np.zeros((2, 3, 4)), {}, object()):
                with pytest.raises(ShapeError, match=f"{name}: .*expected"):
                    method(*arguments[:i], wrong, *arguments[i + 1 :])


@pytest.mark.parametrize("short", [np.int8, np.uint8, np.int16])
def test_short_integers_of_numpy_are_taken_for_what_they_are(short):
    u, w = np.array([100, 20, 3]), np.array([1, 2, 3])
    for method in (SO3.exp, SO3.hat, SO3.dexp, SE2.exp, SE2.ad, R(3).element):
        np.testing.assert_array_equal(method(u.astype(short)), method(u.astype(float)))
    for method in (SO3.dexp_inverse_times, R(3).difference, SE2.integrate):
        np.testing.assert_array_equal(method(u.astype(short), w.astype(short)), method(u * 1.0, w * 1.0))


def test_named_arguments_and_methods_of_ones_own_are_checked():
    with pytest.raises(ShapeError, match=re.escape("SO3.log: R has shape (2, 2), expected (3, 3)")):
        SO3.log(R=np.eye(2))
    with pytest.raises(ShapeError, match=re.escape("Affine.hat: u has shape (3,), expected (2,)")):
        Affine().hat(u=[1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match=r"SE3.integrate: q has shape \(2, 7\), expected \(7,\)"):
        SE3.integrate(np.zeros((2, 7)), u=np.zeros(6))
