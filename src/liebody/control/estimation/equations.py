"""The equations of the contact-aided invariant Kalman filter, as functions that can be traced.

Hartley, Ghaffari, Eustice and Grizzle (2020), "Contact-aided invariant extended Kalman filtering for robot
state estimation", International Journal of Robotics Research 39, 402-430 (arXiv:1904.09251).

The state is X = (R, v, p, d1, ..., dL) of SE_{2+L}(3), attitude, velocity and position of the IMU in the
world and the points of contact, with the biases b = (b_g, b_a). The error xi is right-invariant: the true
state is exp(xi) X. P is the covariance of (xi, b_true - b), (n, n), n = 15 + 3 L, in the order

    rotation, velocity, position, contacts, bias of the gyroscope, bias of the accelerometer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dynamics
from ...bodies import Tree
from ...compiler import jacobian, trace
from ...groups import SO3, SEn3
from ...scalars import Array, where
from ...scalars.linear import dot, factor, inward, product, symmetric

ROTATION, VELOCITY, POSITION = slice(0, 3), slice(3, 6), slice(6, 9)
NEUTRAL = (1, 0, 0, 0, 0, 0, 0)  # the base at the world's origin
_ONE = np.eye(3, dtype=int)


@dataclass(frozen=True)
class FilterEquations:
    """The filter's functions for one robot.

    tree     a floating base, and joints of one coordinate for each velocity
    imu      frame of the base to which the IMU is fixed
    feet     frames whose origins touch the ground
    gravity  acceleration of free fall, (3,)                                                          [m/s2]
    """

    tree: Tree
    imu: str
    feet: tuple[str, ...]
    gravity: tuple[float, float, float]

    @property
    def group(self) -> SEn3:
        return SEn3(2 + len(self.feet))

    @property
    def size(self) -> int:
        """n, the number of errors."""
        return 15 + 3 * len(self.feet)

    @property
    def biases(self) -> tuple[slice, slice]:
        """Places of the biases of gyroscope and accelerometer among the errors."""
        n = self.size
        return slice(n - 6, n - 3), slice(n - 3, n)

    def contact(self, i: int) -> slice:
        """Places of contact i among the errors."""
        return slice(9 + 3 * i, 12 + 3 * i)

    # -- the robot ----------------------------------------------------------------------------------------

    def kinematics(self, joints: Array) -> list[tuple[Array, Array]]:
        """h (3,), position of each foot in the axes of the IMU, and J = dh/d(joints) (3, nj)."""
        tree = self.tree
        # the base is at the origin: what is fixed to it does not depend on q
        q = np.concatenate([np.array(NEUTRAL), joints])
        R_imu, p_imu = _parts(np.asarray(dynamics.frame_pose(tree, np.array(tree.group.neutral()), self.imu)))
        places = []
        for foot in self.feet:
            _, p = _parts(dynamics.frame_pose(tree, q, foot))
            J = dynamics.frame_jacobian(tree, q, foot, representation="mixed")
            places.append((product(R_imu.T, p - p_imu), product(R_imu.T, J[3:, 6:])))
        return places

    # -- one step -----------------------------------------------------------------------------------------

    def step(
        self,
        x: Array,
        bias: Array,
        P: Array,
        standing: Array,
        gyroscope: Array,
        accelerometer: Array,
        joints: Array,
        touching: Array,
        dt: Array,
        noise: Array,
    ) -> dict[str, Array]:
        """The state after a step of length dt: propagation, correction by the legs, new contacts.

        x             coordinates of X in SE_{2+L}(3), (4 + 3 (2 + L),)
        bias, P       (6,) and (n, n), of which the upper triangle is read
        standing      1 for feet that touched at the end of the last step, else 0, (L,)
        gyroscope, accelerometer  measured over the step, (3,) each                          [rad/s, m/s2]
        joints        coordinates of the joints at the end of the step, (nj,)
        touching      1 for feet that touch at the end of the step, else 0, (L,)
        noise         in the order of `Noise`
        """
        of = Noise.of(noise, len(joints))
        P = _symmetric(P)
        x, P = self.propagate(x, bias, P, gyroscope, accelerometer, dt, of)
        places = self.kinematics(joints)
        x, bias, P = self.correct(x, bias, P, places, standing * touching, of)
        x, P = self.place(x, P, places, standing * touching, of)
        return {"x": x, "bias": bias, "P": P}

    def propagate(
        self, x: Array, bias: Array, P: Array, gyroscope: Array, accelerometer: Array, dt: Array, of: Noise
    ) -> tuple[Array, Array]:
        """State and covariance after dt of constant rates, in the axes of the IMU: exact, not Euler's rule.

        With u = (gyroscope - b_g) dt and a = accelerometer - b_a,

            R' = R exp(u),  v' = v + g dt + R Gamma1(u) a dt,  p' = p + v dt + g dt^2/2 + R Gamma2(u) a dt^2

        and P' = Phi P Phi^T + Q, see `transition`.
        """
        n, L = self.size, len(self.feet)
        m = n - 6
        x_next, Phi = self.transition(x, bias, gyroscope, accelerometer, dt)
        G = Phi[:m, m:]
        # White noise of one sample acts as a bias during one step: density^2/dt is its variance.
        densities = np.concatenate([of.gyroscope, of.accelerometer])
        noise = densities * densities / dt
        moved = product(Phi, P)
        shaken = np.concatenate([moved[:m, :m], moved[:m, m:] + G * noise], axis=1)
        # Contacts and biases drift as random walks.
        walk = np.zeros(n, int).astype(object)
        for i in range(L):
            walk[self.contact(i)] = of.contact * of.contact * dt
        walk[m:] = np.concatenate([of.gyroscope_bias, of.accelerometer_bias]) ** 2 * dt

        def entry(i: int, j: int) -> Any:
            if j >= m:
                value = moved[i, j]
            else:
                value = dot(shaken[i], Phi[j])
            return value + walk[i] if i == j else value

        return x_next, symmetric(n, entry)

    def transition(
        self, x: Array, bias: Array, gyroscope: Array, accelerometer: Array, dt: Array
    ) -> tuple[Array, Array]:
        """The state after dt, and Phi (n, n), the derivative of its error by the error before.

            Phi = [F G; 0 1],    F = exp(A dt)

        F does not depend on the state: xi' = F xi holds for errors of any size, the log-linear property of
        Barrau and Bonnabel. A has [g] in the row of v and 1 in the row of p, and A^3 = 0, so the series ends:
        F = 1 + A dt + A^2 dt^2/2. G is the exact derivative of the step by the biases. exp of the matrix with
        the biases, frozen at the start of the step, would agree with it up to terms of dt^2.
        """
        X = self.group
        R, (v, p, *contacts) = X.parts(X.element(x))
        g = np.array(self.gravity)
        u = (gyroscope - bias[:3]) * dt
        a = accelerometer - bias[3:]
        Gamma1, Gamma2 = SO3.dexp(u), SO3.gamma2(u)
        v_next = v + g * dt + R @ (Gamma1 @ a) * dt
        p_next = p + v * dt + g * (0.5 * dt * dt) + R @ (Gamma2 @ a) * (dt * dt)
        x_next = np.concatenate([SO3.integrate(x[:4], u), v_next, p_next, *contacts])

        fall = SO3.hat(g)
        Phi = np.eye(self.size, dtype=int).astype(object)
        Phi[VELOCITY, ROTATION] = fall * dt
        Phi[POSITION, ROTATION] = fall * (0.5 * dt * dt)
        Phi[POSITION, VELOCITY] = _ONE * dt
        # Errors of the biases are errors of u and a with the opposite sign. They turn R, change v' and p',
        by_u = _BY_ROTATION(u, a)
        turned = -(R @ Gamma1) * dt
        of_gyroscope, of_accelerometer = self.biases
        Phi[ROTATION, of_gyroscope] = turned
        # and xi of a vector y is its own change less the rotation's share, xi_y = dy + y x xi_R.
        Phi[VELOCITY, of_gyroscope] = -(R @ by_u[:3]) * (dt * dt) + SO3.hat(v_next) @ turned
        Phi[POSITION, of_gyroscope] = -(R @ by_u[3:]) * (dt * dt * dt) + SO3.hat(p_next) @ turned
        for i, d in enumerate(contacts):
            Phi[self.contact(i), of_gyroscope] = SO3.hat(d) @ turned
        Phi[VELOCITY, of_accelerometer] = turned
        Phi[POSITION, of_accelerometer] = -(R @ Gamma2) * (dt * dt)
        return x_next, Phi

    def correct(
        self, x: Array, bias: Array, P: Array, places: list[tuple[Array, Array]], held: Array, of: Noise
    ) -> tuple[Array, Array, Array]:
        """The state corrected by the legs that stand: h = R^T (d - p) + J w.

        The residual R h - (d - p) depends on xi alone, H xi = xi_d - xi_p; `held` (L,) is 1 for the legs that
        count, and the gain of the others is zero. The legs are taken one after the other, with one retraction
        at the end: their noises are independent, so that the gain equals the gain for all rows at once.
        """
        X = self.group
        R, (_, p, *contacts) = X.parts(X.element(x))
        delta = np.zeros(self.size, int)
        for i, (h, J) in enumerate(places):
            H = np.zeros((3, self.size), int)
            H[:, POSITION] = -_ONE
            H[:, self.contact(i)] = _ONE
            residual = R @ h - (contacts[i] - p) - product(H, delta)
            N = self.kinematic_noise(R, J, of)
            delta, P = update(delta, P, H, residual, N, held[i])
        return *self.moved(x, bias, delta), P

    def place(
        self, x: Array, P: Array, places: list[tuple[Array, Array]], held: Array, of: Noise
    ) -> tuple[Array, Array]:
        """The contacts that were not corrected, placed where the legs are: d = p + R h.

        The error of d is the error of p plus the noise of the leg: xi_d = xi_p + R J w. A foot in the air is
        placed at every step, and so at its touch-down.
        """
        X = self.group
        R, (_, p, *contacts) = X.parts(X.element(x))
        P = P.copy()
        for i, (h, J) in enumerate(places):
            at = self.contact(i)
            keep = held[i] > 0.5
            contacts[i] = where(keep, contacts[i], p + R @ h)
            N = self.kinematic_noise(R, J, of)
            # rows and columns of p, copied to d
            row = P[POSITION].copy()
            row[:, at] = P[POSITION, POSITION] + N
            P[at] = where(keep, P[at], row)
            P[:, at] = P[at].T
        return np.concatenate([x[:10], *contacts]), P

    def kinematic_noise(self, R: Array, J: Array, of: Noise) -> Array:
        """Covariance (3, 3) of R J w, w the noise of the encoders, and of errors of the kinematics."""
        turned = R @ J
        scaled = turned * (of.encoder * of.encoder)
        own = R * (of.kinematics * of.kinematics)
        return symmetric(3, lambda i, j: dot(scaled[i], turned[j]) + own[i] @ R[j])

    def moved(self, x: Array, bias: Array, delta: Array) -> tuple[Array, Array]:
        """exp(delta) X and b + delta."""
        X = self.group
        # exp(xi) X = X exp(Ad(X^-1) xi), which `integrate` computes in quaternions
        xi = product(X.Ad(X.inverse(X.element(x))), delta[:-6])
        return X.normalize(X.integrate(x, xi)), bias + delta[-6:]

    # -- the start, and other measurements ----------------------------------------------------------------

    def start(self, x: Array, errors: Array, joints: Array, noise: Array) -> dict[str, Array]:
        """The state at the start, with all feet in the air.

        x       coordinates of (R, v, p), (10,)
        errors  covariance (15, 15) of what `plain` says
        """
        L = len(self.feet)
        x = np.concatenate([x, np.zeros(3 * L, int)])
        T = self.plain(x, inverse=True)
        own = symmetric(15, lambda i, j: dot(product(T, _symmetric(errors))[i], T[j]))
        P = np.zeros((self.size, self.size), int).astype(object)
        places = [*range(9), *range(self.size - 6, self.size)]
        P[np.ix_(places, places)] = own
        none = np.zeros(L, int).astype(object)
        x, P = self.place(x, P, self.kinematics(joints), none, Noise.of(noise, len(joints)))
        return {"x": x, "P": P}

    def plain(self, x: Array, inverse: bool = False) -> Array:
        """T (15, 15): (theta, dv, dp, db_g, db_a) = T (xi_R, xi_v, xi_p, db_g, db_a), or the inverse of T.

        theta is the rotation vector in the world's axes, dv and dp are differences: dv = xi_v - [v] xi_R.
        """
        sign = 1 if inverse else -1
        T = np.eye(15, dtype=int).astype(np.asarray(x).dtype)
        T[VELOCITY, ROTATION] = sign * SO3.hat(x[4:7])
        T[POSITION, ROTATION] = sign * SO3.hat(x[7:10])
        return T

    def by_landmark(
        self,
        x: Array,
        bias: Array,
        P: Array,
        known: Array,
        seen: Array,
        at_infinity: Array,
        covariance: Array,
    ) -> dict[str, Array]:
        """The state corrected by a point m of the world that is seen in the axes of the IMU, y = R^T (m - p).

        Far away, where `at_infinity` is 1, m and y are directions, y = R^T m: a compass, the sun. The
        residual is right-invariant, R y - (m - p) = [m] xi_R - xi_p, and its rows do not depend on X.

        known, seen  m and y (3,); in metres, or directions
        covariance   of y, (3, 3)
        """
        X = self.group
        R, (_, p, *_) = X.parts(X.element(x))
        near = 1 - at_infinity
        H = np.zeros((3, self.size), int).astype(object)
        H[:, ROTATION] = SO3.hat(known)
        H[:, POSITION] = -_ONE * near
        turned = product(R, _symmetric(covariance))
        N = symmetric(3, lambda i, j: dot(turned[i], R[j]))
        residual = R @ seen - (known - near * p)
        delta, P = update(np.zeros(self.size, int), _symmetric(P), H, residual, N, 1)
        x, bias = self.moved(x, bias, delta)
        return {"x": x, "bias": bias, "P": P}

    def by_position(
        self, x: Array, bias: Array, P: Array, position: Array, covariance: Array
    ) -> dict[str, Array]:
        """The state corrected by the position of the IMU in the world, y = p: a measurement of left kind.

        Its residual R^T (y - p) depends on the left-invariant error Ad(X^-1) xi alone. The correction is the
        same in both errors. The covariance is reduced in the left one and goes back with the corrected X, so
        that it is turned by Ad(exp(delta)).
        """
        X = self.group
        p = x[7:10]
        H = np.zeros((3, self.size), int).astype(object)
        H[:, ROTATION] = -SO3.hat(p)
        H[:, POSITION] = _ONE
        delta, P = update(np.zeros(self.size, int), _symmetric(P), H, position - p, _symmetric(covariance), 1)
        D = np.eye(self.size, dtype=int).astype(object)
        D[:-6, :-6] = X.Ad(X.exp(delta[:-6]))
        turned = product(D, P)
        P = symmetric(self.size, lambda i, j: dot(turned[i], D[j]))
        x, bias = self.moved(x, bias, delta)
        return {"x": x, "bias": bias, "P": P}


@dataclass(frozen=True)
class Noise:
    """The parts of the flat array of noises, in its order; each (3,), but `encoder` (nj,)."""

    gyroscope: Array
    accelerometer: Array
    gyroscope_bias: Array
    accelerometer_bias: Array
    contact: Array
    kinematics: Array
    encoder: Array

    @classmethod
    def of(cls, noise: Array, joints: int) -> Noise:
        gyroscope, accelerometer, gyroscope_bias, accelerometer_bias, contact, kinematics = (
            noise[3 * i : 3 * i + 3] for i in range(6)
        )
        encoder = noise[18 : 18 + joints]
        return cls(gyroscope, accelerometer, gyroscope_bias, accelerometer_bias, contact, kinematics, encoder)


def update(delta: Array, P: Array, H: Array, residual: Array, N: Array, held: Array) -> tuple[Array, Array]:
    """Correction and covariance after a measurement H xi + noise of covariance N; unchanged at held = 0.

    With M = H P, S = M H^T + N = L^T D L and Y = L^-T M, the gain is K = M^T S^-1, and

        delta' = delta + Y^T D^-1 L^-T residual,    P' = P - Y^T D^-1 Y = (1 - K H) P.

    Squares are subtracted in one triangle: P' is symmetric, and K is not formed. docs/decisions/0032 compares
    this with Joseph's form.
    """
    M = product(H, P)
    S = symmetric(3, lambda i, j: dot(M[i], H[j]) + N[i, j])
    L, reciprocals = factor(S)
    Y = inward((L, reciprocals), M)
    weights = np.array(reciprocals) * held
    scaled = Y * weights[:, None]
    P = symmetric(len(P), lambda i, j: P[i, j] - Y[:, i] @ scaled[:, j])
    return delta + scaled.T @ inward((L, reciprocals), residual), P


def _strides(u: Array, a: Array) -> Array:
    """Gamma1(u) a and Gamma2(u) a, (6,)."""
    return np.concatenate([SO3.dexp(u) @ a, SO3.gamma2(u) @ a])


_BY_ROTATION = jacobian(trace(_strides, {"u": 3, "a": 3}), "u")


def _symmetric(P: Array) -> Array:
    """The symmetric matrix with this upper triangle."""
    return symmetric(len(P), lambda i, j: P[i, j])


def _parts(T: Array) -> tuple[Array, Array]:
    return T[:3, :3], T[:3, 3]
