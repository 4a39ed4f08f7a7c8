"""The invariant filter: how errors move, what legs do not see, whether P is right, and its calls.

`walking.py` has a robot whose walk is known in closed form, with its measurements.
"""

import ctypes
import pickle
import threading

import numpy as np
import pytest
from legged import legged
from scipy.stats import chi2
from walking import GRAVITY, HIPS, IMU, advanced, configuration, crab, gamma, skew, walk

import liebody as lb
from liebody.base.errors import ArgumentError, ConfigurationError, LiebodyError, ModelError, ShapeError
from liebody.compiler import jacobian, trace
from liebody.compiler.native import build
from liebody.control import FilterNoise, InvariantFilter
from liebody.control.estimation.equations import FilterEquations
from liebody.groups import SE3, SO3, LieGroup, SEn3, rotations

LEGS = 2
ROBOT = crab(LEGS)
FEET = ("foot0", "foot1")
NOISE = {
    "gyroscope": 0.01,
    "accelerometer": 0.05,
    "contact": 0.01,
    "encoder": 0.003,
    "gyroscope_bias": 0.003,
    "accelerometer_bias": 0.01,
}
DEVIATION = np.repeat([0.1, 0.2, 0.1, 0.02, 0.1], 3)
DT = 0.01
EQUATIONS = FilterEquations(ROBOT.tree, "imu", FEET, tuple(GRAVITY))
SHAPES = {"x": 16, "bias": 6, "gyroscope": 3, "accelerometer": 3, "dt": ()}


@pytest.fixture(scope="module")
def estimator():
    return InvariantFilter(ROBOT, FEET, noise=FilterNoise(**NOISE), imu="imu")


@pytest.fixture(scope="module")
def transition():
    return trace(EQUATIONS.transition, SHAPES)


def started(estimator, w, covariance=None, true=True):
    """The state at the start of a walk: the truth, or where the walk would start without deviations."""
    joints = np.broadcast_to(w.joints[0], (*w.q.shape[1:-1], w.joints.shape[-1]))
    q, twist, bias = w.q[0], w.twist[0], w.bias[0]
    if not true:
        R = IMU[:3, :3].T
        q = np.concatenate([lb.groups.quaternions(R), [1.0, -2.0, 0.5] - R @ IMU[:3, 3]])
        twist = np.concatenate([np.zeros(3), R.T @ [0.5, 0.1, 0.0]])
        bias = np.zeros(6)
    v = np.concatenate([twist, np.zeros((*twist.shape[:-1], estimator.joints))], axis=-1)
    q = np.broadcast_to(q, (*joints.shape[:-1], 7))
    P = np.diag(DEVIATION**2) if covariance is None else covariance
    return estimator.start(configuration(q, joints), v, P, bias)


def followed(estimator, state, w, steps=None, **options):
    """The states of all steps of a walk."""
    states = [state]
    for k in range(len(w.gyroscope) if steps is None else steps):
        samples = w.gyroscope[k], w.accelerometer[k], w.joints[k], w.touching[k]
        states.append(estimator.step(states[-1], *samples, DT, **options))
    return states


# The error


def random_state(rng, vectors=4):
    return SEn3(vectors).random(rng)


@pytest.mark.parametrize("size", [1e-6, 1e-2, 1.0, 2.5])
def test_errors_move_linearly_at_any_size_whatever_the_state_is(transition, size):
    """log(X_true' X'^-1) = F log(X_true X^-1), F = exp(A dt): exact, without a bias between the two."""
    rng = np.random.default_rng(1)
    X = EQUATIONS.group
    A = np.zeros((15, 15))
    A[3:6, :3], A[6:9, 3:6] = skew(GRAVITY), np.eye(3)
    for dt in (1e-3, 0.1):
        F = LieGroup.exp(Nilpotent(A), [dt])
        for _ in range(3):
            x, samples = random_state(rng), [*rng.normal(size=(2, 3)), dt]
            bias = rng.normal(size=6)
            xi = size * rng.normal(size=15) / np.sqrt(15)
            true = X.coordinates(X.exp(xi) @ X.element(x))
            (after, Phi), (true_after, _) = (transition(y, bias, *samples) for y in (x, true))
            np.testing.assert_allclose(Phi[:15, :15], F, rtol=0, atol=1e-15)
            eta = X.element(true_after) @ X.inverse(X.element(after))
            # the rotation alone does not change: its logarithm stays away from pi
            np.testing.assert_allclose(X.log(eta), F @ xi, rtol=0, atol=2e-13 * max(1, size))


class Nilpotent(LieGroup):
    """exp(t A) of a matrix, by the definition."""

    dim = 1

    def __init__(self, A):
        self.A, self.n, self.nq = A, len(A), A.size
        self.name = "exp(t A)"

    def hat(self, u):
        return u[0] * self.A


def test_the_columns_of_biases_are_the_derivative_of_the_step(transition):
    """G of Phi = [F G; 0 1], by differentiating log(X' X'(bias)^-1) itself."""
    rng = np.random.default_rng(2)
    X = EQUATIONS.group

    def error(x, bias, gyroscope, accelerometer, dt, change):
        (after, _), (moved, _) = (
            EQUATIONS.transition(x, b, gyroscope, accelerometer, dt) for b in (bias, bias + change)
        )
        # log(Y X^-1) = Ad(X) log(X^-1 Y)
        return X.Ad(X.element(after)) @ X.difference(after, moved)

    derivative = jacobian(trace(error, {**SHAPES, "change": 6}), "change")
    for size in (1e-9, 1e-2, 1.0, 30.0):  # rad/s: the angle of a step is up to 3 rad
        x, bias = random_state(rng), 0.1 * rng.normal(size=6)
        gyroscope = size * rng.normal(size=3) / np.sqrt(3)
        samples = gyroscope, 9.81 * rng.normal(size=3), 0.1
        G = derivative(x, bias, *samples, np.zeros(6))
        _, Phi = transition(x, bias, *samples)
        np.testing.assert_allclose(Phi[:15, 15:], G, rtol=0, atol=1e-13)
        np.testing.assert_array_equal(Phi[15:], np.eye(21)[15:])


def test_steps_of_the_mean_are_exact_and_add_up(transition):
    """Constant rates: a step of 0.3 s is thirty steps of 10 ms, and the sum of the series in walking.py."""
    rng = np.random.default_rng(3)
    x, bias, omega, f = random_state(rng), rng.normal(size=6), *3 * rng.normal(size=(2, 3))
    whole, _ = transition(x, bias, omega, f, 0.3)
    parts = x
    for _ in range(30):
        parts, _ = transition(parts, bias, omega, f, 0.01)
    np.testing.assert_allclose(whole, parts, rtol=0, atol=5e-14)
    X = EQUATIONS.group
    R, v, p = advanced(SO3.element(x[:4]), x[4:7], x[7:10], omega - bias[:3], f - bias[3:], 0.3)
    np.testing.assert_allclose(X.element(whole)[:3, :5], np.column_stack([R, v, p]), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(whole[10:], x[10:])


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, 1.0, 1.41, 1.42, 3.1, 7.0])
def test_gamma2_is_the_series_and_the_integral_of_dexp(size):
    u = size * np.array([0.6, -0.48, 0.64])
    np.testing.assert_allclose(SO3.gamma2(u), gamma(2, u), rtol=0, atol=1e-14)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    s = (nodes + 1) / 2
    integral = sum(w / 2 * x * SO3.dexp(x * u) for x, w in zip(s, weights, strict=True))
    np.testing.assert_allclose(SO3.gamma2(u), integral, rtol=0, atol=1e-14)


def test_one_vector_more_is_se3():
    """SEn3(1) is SE3, and each vector of SEn3(3) moves as that of SE3 does."""
    rng = np.random.default_rng(4)
    one, three = SEn3(1), SEn3(3)
    u, w, p = rng.normal(size=(3, 6))
    q = SE3.random(rng)
    for name, arguments in {
        "exp": (u,),
        "dexp": (u,),
        "dexp_inverse": (u,),
        "coad": (p,),
        "ad": (u,),
    }.items():
        np.testing.assert_allclose(getattr(one, name)(*arguments), getattr(SE3, name)(*arguments), atol=1e-15)
    np.testing.assert_array_equal(one.integrate(q, u), SE3.integrate(q, u))
    np.testing.assert_array_equal(one.dexp_inverse_times(u, w), SE3.dexp_inverse_times(u, w))
    x, y = three.random(rng), three.random(rng)
    for i in range(3):
        pair = [0, 1, 2, 3, *range(4 + 3 * i, 7 + 3 * i)]
        own = [0, 1, 2, *range(3 + 3 * i, 6 + 3 * i)]
        np.testing.assert_allclose(three.difference(x, y)[own], SE3.difference(x[pair], y[pair]), atol=1e-15)


# What is seen, and what is not


def unseen(feet):
    """Directions of xi that IMU and legs do not see: heading about gravity, and place; (15 + 3 L, 4)."""
    N = np.zeros((15 + 3 * feet, 4))
    N[2, 0] = 1
    for k in range(3):
        N[6 + k : 9 + 3 * feet : 3, 1 + k] = 1
    return N


def test_heading_and_place_are_the_nullspace_of_what_is_observed(transition):
    """H Phi_k ... Phi_1 without biases: rank 15 - 4, and exactly these four directions, at any estimates."""
    rng = np.random.default_rng(5)
    H = np.zeros((6, 21))
    for i in range(2):
        H[3 * i : 3 * i + 3, 6:9] = -np.eye(3)
        H[3 * i : 3 * i + 3, 9 + 3 * i : 12 + 3 * i] = np.eye(3)
    rows, product = [], np.eye(21)
    for _ in range(5):
        rows.append(H @ product)
        _, Phi = transition(random_state(rng), np.zeros(6), *rng.normal(size=(2, 3)), 0.1)
        product = Phi @ product
    O, N = np.concatenate(rows), unseen(2)
    np.testing.assert_array_equal(O @ N, 0)  # not only small
    assert np.linalg.matrix_rank(O[:, :15]) == 15 - 4


def test_the_filter_never_learns_heading_and_place():
    """n^T P^-1 n of an unseen direction n stays constant if nothing shakes the state: no information enters.

    Phi n = n and H n = 0, so that P'^-1 = Phi^-T P^-1 Phi^-1 and P^-1 + H^T N^-1 H change nothing along n.
    """
    small = FilterNoise(gyroscope=1e-9, accelerometer=1e-9, contact=1e-9, encoder=1e-2, kinematics=0.01)
    estimator = InvariantFilter(ROBOT, FEET, noise=small, imu="imu")
    w = walk(LEGS, 30, DT, np.random.default_rng(6))
    still = np.ones(LEGS, bool)
    state = estimator.step(started(estimator, w), w.gyroscope[0], w.accelerometer[0], w.joints[0], still, DT)
    N = unseen(LEGS)
    # placed contacts have the place's error with that of the leg: known from the first step on
    before = N.T @ np.linalg.solve(state.P, N)
    for k in range(1, 30):
        samples = w.gyroscope[k], w.accelerometer[k], w.joints[k], still
        state = estimator.step(state, *samples, DT)
    after = N.T @ np.linalg.solve(state.P, N)
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)
    # Legs show the tilt. The velocity in the world, known at the start, shows a little of the heading.
    tilt = np.sqrt(np.diag(state.covariance)[:2])
    assert tilt.max() < 0.6 * DEVIATION[0] and np.sqrt(state.covariance[2, 2]) > 0.95 * DEVIATION[0]


def test_a_world_that_is_turned_and_moved_gives_the_same_estimate(estimator):
    """A start that is turned about gravity and moved gives the other estimates, turned and moved."""
    rng = np.random.default_rng(7)
    w = walk(LEGS, 40, DT, rng, noise=NOISE)
    turn, shift = gamma(0, np.array([0, 0, 2.0])), np.array([3.0, -2.0, 0.7])
    state = started(estimator, w)
    # the motion of the world as an element of the group, which multiplies X from the left
    X = estimator.equations.group
    world = X.element_of(turn, [np.zeros(3), shift, shift, shift])
    Ad = np.eye(21)
    Ad[:15, :15] = X.Ad(world)
    x = X.coordinates(world @ X.element(state.x))
    other = estimator.start(state.q, state.v(np.zeros(6)), np.eye(15))
    other = type(state)(
        estimator,
        x,
        state.bias,
        Ad @ state.P @ Ad.T,
        *[getattr(other, k) for k in ("standing", "joints", "rate")],
    )
    a, b = followed(estimator, state, w)[-1], followed(estimator, other, w)[-1]
    expected = world @ X.element(a.x)
    # P adds lever arms of metres to variances of 1e-5 m2, which amplifies rounding
    np.testing.assert_allclose(X.element(b.x), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(b.bias, a.bias, rtol=0, atol=1e-10)
    np.testing.assert_allclose(b.P, Ad @ a.P @ Ad.T, rtol=0, atol=1e-9 * np.abs(b.P).max())


# The filter


def test_without_noise_the_filter_stays_on_the_exact_walk(estimator):
    """Feet land and lift on the way; the estimate starts at the truth, and measurements are exact."""
    w = walk(LEGS, 120, DT, np.random.default_rng(8))
    assert 0 < np.count_nonzero(np.diff(w.touching, axis=0)) and w.touching.any(axis=1).all()
    for k, state in enumerate(followed(estimator, started(estimator, w), w)[1:], start=1):
        np.testing.assert_allclose(rotations(state.q[:4]), rotations(w.q[k, :4]), rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.q[4:7], w.q[k, 4:], rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.twist, w.twist[k], rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.feet, w.feet[k], rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.bias, 0, atol=1e-12)
        np.testing.assert_array_equal(state.q[7:], w.joints[k - 1])


class Textbook:
    """The filter with contacts that are added and removed, all rows at once, in dense matrices."""

    def __init__(self, state, transition):
        X = state.of.equations.group.element(state.x)
        self.R, self.v, self.p = X[:3, :3], X[:3, 3], X[:3, 4]
        self.d, self.bias = {}, state.bias
        self.P = state.of_errors
        self.transition = transition

    def step(self, gyroscope, accelerometer, joints, touching):
        feet = sorted(self.d)
        # the transition of all contacts, of which those that exist are kept
        q = SO3.coordinates(self.R)
        places = [self.d.get(i, np.zeros(3)) for i in range(LEGS)]
        x, Phi = self.transition(
            np.concatenate([q, self.v, self.p, *places]), self.bias, gyroscope, accelerometer, DT
        )
        kept = [*range(9), *(9 + 3 * i + k for i in feet for k in range(3)), *range(15, 21)]
        Phi = Phi[np.ix_(kept, kept)]
        G = Phi[:, -6:] - np.eye(len(kept))[:, -6:]
        own = np.repeat([NOISE["gyroscope"], NOISE["accelerometer"]], 3) ** 2 / DT
        walks = [NOISE["contact"]] * len(feet) + [NOISE["gyroscope_bias"], NOISE["accelerometer_bias"]]
        walk_ = np.concatenate([np.zeros(9), np.repeat(walks, 3) ** 2 * DT])
        self.P = Phi @ self.P @ Phi.T + G @ np.diag(own) @ G.T + np.diag(walk_)
        self.R, self.v, self.p = SO3.element(x[:4]), x[4:7], x[7:10]
        # lift-off: rows and columns go
        for i in [i for i in feet if not touching[i]]:
            at = 9 + 3 * sorted(self.d).index(i)
            self.P = np.delete(np.delete(self.P, range(at, at + 3), 0), range(at, at + 3), 1)
            del self.d[i]
        self.correct(joints)
        # touch-down: rows and columns of the place, and the noise of the leg
        for i in np.flatnonzero(touching).tolist():
            if i not in self.d:
                self.d[i] = self.p + self.R @ leg(joints, i)
                at = 9 + 3 * sorted(self.d).index(i)
                n = len(self.P)
                F = np.zeros((n + 3, n))
                F[[*range(at), *range(at + 3, n + 3)]] = np.eye(n)
                F[at : at + 3, 6:9] = np.eye(3)
                self.P = F @ self.P @ F.T
                self.P[at : at + 3, at : at + 3] += NOISE["encoder"] ** 2 * np.eye(3)

    def correct(self, joints):
        feet = sorted(self.d)
        if not feet:
            return
        n, m = len(self.P), 3 * len(feet)
        H, N = np.zeros((m, n)), NOISE["encoder"] ** 2 * np.eye(m)
        H[:, 6:9] = np.tile(-np.eye(3), (len(feet), 1))
        H[:, 9 : 9 + m] = np.eye(m)
        residual = np.concatenate([self.R @ leg(joints, i) + self.p - self.d[i] for i in feet])
        K = self.P @ H.T @ np.linalg.inv(H @ self.P @ H.T + N)
        rest = np.eye(n) - K @ H
        self.P = rest @ self.P @ rest.T + K @ N @ K.T
        delta = K @ residual
        X = SEn3(2 + len(feet))
        Y = X.exp(delta[:-6]) @ X.element_of(self.R, [self.v, self.p, *(self.d[i] for i in feet)])
        self.R, (self.v, self.p, *places) = X.parts(Y)
        self.d = dict(zip(feet, places, strict=True))
        self.bias = self.bias + delta[-6:]


def leg(joints, i):
    """The place of a foot in the axes of the IMU."""
    return IMU[:3, :3].T @ (HIPS[i] + joints[3 * i : 3 * i + 3] - IMU[:3, 3])


def test_the_filter_is_the_textbooks_with_contacts_added_and_removed(estimator, transition):
    """Masks, placing, one leg after the other: as rows and columns that come and go, and all legs at once."""
    w = walk(LEGS, 100, DT, np.random.default_rng(9), noise=NOISE, start=DEVIATION)
    state = started(estimator, w, true=False)
    book = Textbook(state, transition)
    seen = set()
    for k in range(100):
        samples = w.gyroscope[k], w.accelerometer[k], w.joints[k], w.touching[k]
        state = estimator.step(state, *samples, DT)
        book.step(*samples)
        seen.add(tuple(sorted(book.d)))
        X = estimator.equations.group.element(state.x)
        np.testing.assert_allclose(X[:3, :5], np.column_stack([book.R, book.v, book.p]), rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.bias, book.bias, rtol=0, atol=1e-11)
        feet = sorted(book.d)
        kept = [*range(9), *(9 + 3 * i + j for i in feet for j in range(3)), *range(15, 21)]
        np.testing.assert_allclose(state.P[np.ix_(kept, kept)], book.P, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(state.P, state.P.T)
        assert np.linalg.eigvalsh(state.P).min() > 0
    assert seen == {(0,), (1,), (0, 1)}


def test_a_foot_that_never_touches_is_a_foot_that_the_filter_has_not(estimator):
    w = walk(LEGS, 60, DT, np.random.default_rng(10), noise=NOISE)
    alone = InvariantFilter(ROBOT, "foot0", noise=estimator.noise, imu="imu")
    w.touching[:, 1] = False
    a = followed(estimator, started(estimator, w), w)[-1]
    w.touching = w.touching[:, :1]
    b = followed(alone, started(alone, w), w)[-1]
    kept = [*range(12), *range(15, 21)]
    np.testing.assert_allclose(a.x[:13], b.x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(a.bias, b.bias, rtol=0, atol=1e-13)
    np.testing.assert_allclose(a.P[np.ix_(kept, kept)], b.P, rtol=0, atol=1e-13)


def test_the_mean_of_the_normalised_errors_is_their_number(estimator):
    """e^T P^-1 e of 128 runs from unknown starts: their sum is chi-square with 15 x 128 degrees of freedom.

    It lies between the bounds with a probability of 1 - 2e-4.
    """
    runs = 128
    low, high = chi2.ppf([1e-4, 1 - 1e-4], 15 * runs)
    w = walk(LEGS, 150, DT, np.random.default_rng(11), (runs,), NOISE, 0.5 * DEVIATION)
    state = started(estimator, w, np.diag((0.5 * DEVIATION) ** 2), true=False)
    states = followed(estimator, state, w)
    for k in (0, 20, 75, 150):
        nees = states[k].nees(full(w, k), w.twist[k], w.bias[k])
        assert low < nees.sum() < high, k
    # plain errors are those of `error`, of first order
    plain = np.diagonal(states[-1].covariance, axis1=-2, axis2=-1)
    away = np.linalg.norm(states[-1].q[:, 4:7] - w.q[-1, :, 4:], axis=-1)
    assert 0.5 < np.sqrt(np.mean(away**2)) / np.sqrt(plain[:, 6:9].sum(axis=1).mean()) < 2


def full(w, k):
    """q (..., nq) of the truth; joints do not matter."""
    return configuration(w.q[k], np.zeros((*w.q.shape[1:-1], 3 * LEGS)))


def test_the_noise_of_hinged_legs_goes_through_their_jacobian():
    """N = R J Cov J^T R^T of a biped, from differences of its forward kinematics."""
    robot = lb.Robot(legged("biped"))
    feet = ("left_foot", "right_foot")
    equations = FilterEquations(robot.tree, "pelvis", feet, (0.0, 0.0, -9.81))
    places = trace(lambda joints: tuple(x for y in equations.kinematics(joints) for x in y), {"joints": 6})
    rng = np.random.default_rng(12)
    joints = rng.uniform(-1, 1, 6)
    q = np.concatenate([SE3.random(rng), joints])
    base = robot.pose(q, frame="pelvis")
    for i, foot in enumerate(feet):
        h, J = places(joints)[2 * i : 2 * i + 2]
        T = robot.pose(q, frame=foot)
        np.testing.assert_allclose(base[:3, :3] @ h + base[:3, 3], T[:3, 3], rtol=0, atol=1e-14)
        for k in range(6):
            step = 1e-6 * np.eye(6)[k]
            slope = (places(joints + step)[2 * i] - places(joints - step)[2 * i]) / 2e-6
            np.testing.assert_allclose(J[:, k], slope, rtol=0, atol=1e-9)


# Other measurements


@pytest.fixture
def walked(estimator):
    w = walk(LEGS, 30, DT, np.random.default_rng(13), noise=NOISE, start=DEVIATION)
    return followed(estimator, started(estimator, w, true=False), w)[-1], w


def test_a_position_corrects_as_in_the_left_invariant_filter(estimator, walked):
    """X exp(K e), with the covariance of the left-invariant error eta = Ad(X^-1) xi, and rows [0 0 R]."""
    state, _ = walked
    X = estimator.equations.group
    y, N = state.x[7:10] + [0.2, -0.1, 0.3], np.diag([0.01, 0.02, 0.03])
    after = estimator.update_position(state, y, N)
    E = X.element(state.x)
    R = E[:3, :3]
    to_left = np.eye(21)
    to_left[:15, :15] = X.Ad(X.inverse(E))
    P = to_left @ state.P @ to_left.T
    H = np.zeros((3, 21))
    H[:, 6:9] = R
    K = P @ H.T @ np.linalg.inv(H @ P @ H.T + N)
    e = K @ (y - state.x[7:10])
    E = E @ X.exp(e[:15])
    P = (np.eye(21) - K @ H) @ P
    to_right = np.eye(21)
    to_right[:15, :15] = X.Ad(E)
    np.testing.assert_allclose(X.element(after.x), E, rtol=0, atol=1e-12)
    np.testing.assert_allclose(after.bias, state.bias + e[15:], rtol=0, atol=1e-13)
    np.testing.assert_allclose(after.P, to_right @ P @ to_right.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(after.rate, state.rate + state.bias[:3] - after.bias[:3], atol=1e-15)


@pytest.mark.parametrize("far", [False, True])
def test_landmarks_and_directions_correct_by_rows_that_do_not_depend_on_the_state(estimator, walked, far):
    state, _ = walked
    X = estimator.equations.group
    rng = np.random.default_rng(14)
    known, N = rng.normal(size=3), np.diag([0.01, 0.02, 0.03])
    R, p = SO3.element(state.x[:4]), state.x[7:10]
    true_R, true_p = R @ gamma(0, 0.1 * rng.normal(size=3)), p + 0.1 * rng.normal(size=3)
    seen = true_R.T @ (known if far else known - true_p)
    call = estimator.update_direction if far else estimator.update_landmark
    after = call(state, known, seen, N)
    H = np.zeros((3, 21))
    H[:, :3] = skew(known)
    H[:, 6:9] = 0 if far else -np.eye(3)
    N = R @ N @ R.T
    K = state.P @ H.T @ np.linalg.inv(H @ state.P @ H.T + N)
    delta = K @ (R @ seen - (known if far else known - p))
    rest = np.eye(21) - K @ H
    np.testing.assert_allclose(X.element(after.x), X.exp(delta[:15]) @ X.element(state.x), atol=1e-12)
    np.testing.assert_allclose(after.P, rest @ state.P @ rest.T + K @ N @ K.T, rtol=0, atol=1e-12)


def test_a_compass_shows_the_heading_that_legs_do_not(estimator):
    """From 90 degrees off: one direction, measured again and again, turns the estimate to the truth."""
    w = walk(LEGS, 30, DT, np.random.default_rng(15))
    C = np.diag(np.concatenate([[0.01, 0.01, 1.5], DEVIATION[3:]]) ** 2)
    state = started(estimator, w, C)
    turned = SO3.coordinates(gamma(0, np.array([0, 0, np.pi / 2])) @ rotations(state.q[:4]))
    state = estimator.start(np.concatenate([turned, state.q[4:]]), state.v(np.zeros(6)), C, state.bias)
    north = np.array([1.0, 0.0, 0.0])
    for k in range(30):
        state = estimator.step(state, w.gyroscope[k], w.accelerometer[k], w.joints[k], w.touching[k], DT)
        R_true = rotations(w.q[k + 1, :4]) @ IMU[:3, :3]
        state = estimator.update_direction(state, north, R_true.T @ north, 1e-4 * np.eye(3))
    off = SO3.log(rotations(w.q[30, :4]) @ rotations(state.q[:4]).T)
    assert np.abs(off).max() < 0.01 and np.sqrt(state.covariance[2, 2]) < 0.01


# The calls


def test_the_start_has_the_covariance_that_it_was_given(estimator):
    rng = np.random.default_rng(16)
    root = rng.normal(size=(15, 15))
    C = root @ root.T
    q = ROBOT.group.random(rng)
    v = rng.normal(size=ROBOT.nv)
    bias = rng.normal(size=6)
    state = estimator.start(q, v, C, bias)
    np.testing.assert_allclose(state.covariance, C, rtol=0, atol=1e-12 * np.abs(C).max())
    np.testing.assert_allclose(rotations(state.q[:4]), rotations(q[:4]), atol=1e-15)
    np.testing.assert_allclose(state.q[4:], q[4:], atol=1e-15)
    np.testing.assert_allclose(state.v(v[6:]), v, atol=1e-14)
    np.testing.assert_array_equal(state.bias, bias)
    np.testing.assert_allclose(state.pose, ROBOT.pose(q, frame="trunk"), atol=1e-15)
    for i, foot in enumerate(FEET):
        np.testing.assert_allclose(state.feet[i], ROBOT.pose(q, frame=foot)[:3, 3], atol=1e-14)
    np.testing.assert_allclose(state.error(q, v[:6], bias), 0, atol=1e-15)
    # the error is the group's: log(X_true X^-1)
    q2, v2 = ROBOT.group.random(rng), rng.normal(size=ROBOT.nv)
    X = SEn3(2)
    x, y = estimator.coordinates(q, v[:6]), estimator.coordinates(q2, v2[:6])
    expected = X.log(X.element(y) @ X.inverse(X.element(x)))
    np.testing.assert_allclose(state.error(q2, v2[:6], bias + 1), [*expected, *np.ones(6)], atol=1e-12)


def test_a_state_is_a_value_that_does_not_change_with_the_array_it_began_with(estimator):
    q = ROBOT.group.random(np.random.default_rng(21))
    state = estimator.start(q, np.zeros(ROBOT.nv), np.eye(15))
    joints = state.joints.copy()
    q += 1.0
    np.testing.assert_array_equal(state.joints, joints)


def test_a_base_that_is_placed_elsewhere_keeps_its_configuration():
    """q counts from the placement of the base, and poses from the world."""
    robot = crab(1, SE3.exp([0.4, -1.0, 0.3, 1.0, 2.0, -0.5]))
    estimator = InvariantFilter(robot, "foot0", noise=MADE, imu="imu")
    rng = np.random.default_rng(20)
    q, v = robot.group.random(rng), rng.normal(size=robot.nv)
    state = estimator.start(q, v, np.eye(15))
    np.testing.assert_allclose(rotations(state.q[:4]), rotations(q[:4]), atol=1e-15)
    np.testing.assert_allclose(state.q[4:], q[4:], atol=1e-14)
    np.testing.assert_allclose(state.v(v[6:]), v, atol=1e-14)
    np.testing.assert_allclose(state.pose, robot.pose(q, frame="trunk"), atol=1e-14)
    np.testing.assert_allclose(state.feet[0], robot.pose(q, frame="foot0")[:3, 3], atol=1e-14)


def test_batches_threads_and_lanes_of_noise_are_single_calls(estimator):
    lanes = 9
    w = walk(LEGS, 12, DT, np.random.default_rng(17), (lanes,), NOISE, DEVIATION)
    scale = np.linspace(0.5, 2, lanes)
    noises = {name: x * scale[:, None] * np.ones(3) for name, x in NOISE.items() if name != "encoder"}
    many = estimator.with_noise(FilterNoise(**noises, encoder=NOISE["encoder"]))
    states = followed(many, started(many, w, true=False), w, threads=2)[-1]
    assert states.P.shape == (lanes, 21, 21) and states.q.shape == (lanes, ROBOT.nq)
    for k in range(lanes):
        noise = FilterNoise(**{name: x[k] for name, x in noises.items()}, encoder=NOISE["encoder"])
        one = estimator.with_noise(noise)
        own = type(w)(**{n: x if n == "touching" else x[:, k] for n, x in vars(w).items()})
        state = followed(one, started(one, own, true=False), own)[-1]
        for name in ("x", "bias", "P", "rate", "q", "twist", "covariance", "feet"):
            np.testing.assert_allclose(
                getattr(states, name)[k], getattr(state, name), rtol=0, atol=1e-12, err_msg=name
            )


def test_threads_share_a_filter_and_pickled_filters_go_on(estimator):
    w = walk(LEGS, 20, DT, np.random.default_rng(18), noise=NOISE)
    expected = followed(estimator, started(estimator, w), w)[-1]
    results = [None] * 4

    def run(i):
        fresh = InvariantFilter(ROBOT, FEET, noise=estimator.noise, imu="imu") if i == 3 else estimator
        results[i] = followed(fresh, started(fresh, w), w)[-1]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    half = followed(estimator, started(estimator, w), w, steps=10)[-1]
    again = pickle.loads(pickle.dumps(half))
    for k in range(10, 20):
        again = again.of.step(again, w.gyroscope[k], w.accelerometer[k], w.joints[k], w.touching[k], DT)
    for state in (*results, again):
        np.testing.assert_array_equal(state.x, expected.x)
        np.testing.assert_array_equal(state.P, expected.P)


@pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
def test_exported_c_passes_its_own_test_and_follows_python(estimator, tmp_path):
    from test_c_export import loaded, self_test

    estimator = InvariantFilter(ROBOT, "foot1", noise=estimator.noise, imu="imu")
    paths = estimator.export_c(tmp_path)
    done = self_test(paths, tmp_path, "-O0")
    assert done.returncode == 0, done.stdout + done.stderr
    library = loaded(paths, tmp_path, "-O0")
    w = walk(LEGS, 40, DT, np.random.default_rng(19), noise=NOISE, start=DEVIATION)
    state = started(estimator, w, true=False)
    x, bias, P = (np.ascontiguousarray(y) for y in (state.x, state.bias, state.P))
    w.touching = w.touching[:, 1:]
    standing = np.zeros(1)
    noise = estimator.noise.flat(estimator.joints)
    for k in range(40):
        touching = w.touching[k].astype(float)
        given = [x, bias, P, standing, w.gyroscope[k], w.accelerometer[k], w.joints[k], touching]
        given += [np.array(DT), noise]
        results = [np.empty_like(y) for y in (x, bias, P)]
        library.crab_filter_step(*(ctypes.c_void_p(y.ctypes.data) for y in (*given, *results)))
        x, bias, P = results
        standing = touching
        state = estimator.step(state, *given[4:7], w.touching[k], DT)
    for ours, theirs in zip((state.x, state.bias, state.P), (x, bias, P), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-12)


def box():
    return lb.TreeBuilder("box").add("box", lb.groups.Free(), lb.SpatialInertia.box(1, [1, 2, 3]))


def ball_joint():
    tree = box().add("arm", lb.groups.Spherical(), lb.SpatialInertia.box(1, [1, 2, 3]), parent="box")
    return lb.Robot(tree.build())


MADE = FilterNoise(**NOISE)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: InvariantFilter(lb.load("puma560"), ["link6"], noise=MADE), ModelError, "floating=True"),
        (
            lambda: InvariantFilter(ball_joint(), ["arm"], noise=MADE),
            ModelError,
            "3 velocities, 4 coordinates",
        ),
        (lambda: InvariantFilter(ROBOT, [], noise=MADE), ModelError, "one name or more"),
        (lambda: InvariantFilter(ROBOT, ["foot0", "foot0"], noise=MADE), ModelError, "each once"),
        (lambda: InvariantFilter(ROBOT, ["trunk"], noise=MADE), ModelError, "no joint lies between"),
        (lambda: InvariantFilter(ROBOT, ["toe"], noise=MADE), LiebodyError, "toe"),
        (
            lambda: InvariantFilter(ROBOT, FEET, noise=MADE, imu="foot0"),
            ModelError,
            "fixed to the base 'trunk'",
        ),
        (lambda: FilterNoise(**{**NOISE, "contact": 0.0}), ModelError, "contact is 0, expected a positive"),
        (
            lambda: FilterNoise(**{**NOISE, "kinematics": -1.0}),
            ModelError,
            "kinematics is -1, expected zero or",
        ),
        (lambda: FilterNoise(**{**NOISE, "encoder": np.nan}), ConfigurationError, "encoder is nan"),
        (
            lambda: InvariantFilter(ROBOT, FEET, noise=FilterNoise(**{**NOISE, "encoder": np.ones(5)})),
            ShapeError,
            r"encoder has shape \(5,\), expected a number or \(..., 6\)",
        ),
        (
            lambda: InvariantFilter(ROBOT.with_parameters("trunk.mass"), FEET, noise=MADE),
            ModelError,
            "free parameters",
        ),
    ],
)
def test_robots_and_noises_that_would_not_work_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_wrong_arrays_are_refused_by_name(estimator):
    q, v, C = ROBOT.neutral(), np.zeros(ROBOT.nv), np.eye(15)
    state = estimator.start(q, v, C)
    right = {
        "gyroscope": np.zeros(3),
        "accelerometer": np.zeros(3),
        "joints": np.zeros(6),
        "touching": [True, False],
        "dt": DT,
    }
    estimator.step(state, **right)
    for name, wrong, error, words in [
        ("gyroscope", np.zeros(2), ShapeError, "gyroscope"),
        ("accelerometer", [0, np.nan, 0], ConfigurationError, "accelerometer.*nan"),
        ("joints", np.zeros(7), ShapeError, "joints"),
        ("touching", [0.5, 1], ConfigurationError, "touching is .*expected True or False"),
        ("touching", [True], ShapeError, "touching"),
        ("dt", 0.0, LiebodyError, "dt"),
        ("dt", -DT, LiebodyError, "dt"),
    ]:
        with pytest.raises(error, match=words):
            estimator.step(state, **{**right, name: wrong})
    with pytest.raises(ModelError, match="covariance is not symmetric"):
        estimator.start(q, v, np.triu(np.ones((15, 15))))
    with pytest.raises(ModelError, match="positive semidefinite, its least eigenvalue is -1"):
        estimator.start(q, v, -C)
    with pytest.raises(ShapeError, match=r"covariance has shape \(15,\), expected \(..., 15, 15\)"):
        estimator.start(q, v, np.ones(15))
    with pytest.raises(ShapeError, match=r"covariance has shape \(2, 2\)"):
        estimator.update_position(state, np.zeros(3), np.eye(2))
    with pytest.raises(ArgumentError, match="state is None, expected FilterState"):
        estimator.step(None, **right)
    with pytest.raises(ModelError, match="no function 'stop'"):
        estimator.kernel("stop")
