"""The contact-aided invariant Kalman filter as a call on arrays: single states, batches, C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...base.arguments import array_of, checked, floats, names, vectors, wrong_shape
from ...base.concurrency import cached_property
from ...base.errors import ConfigurationError, ModelError
from ...compiler import Guard, Kernel, trace
from ...groups import SE3, Free, SEn3, quaternions, rotations
from ...io import About
from ...io.c_export import export_c
from ...robot import Robot
from ...scalars import Array
from .equations import FilterEquations
from .noise import FilterNoise

ERRORS = 15  # of rotation, velocity, position and biases
SYMMETRIC = 1e-9  # largest asymmetry of a covariance, relative to its largest entry
TOUCHING = 0.5  # share of touching feet in the self-test in C


@dataclass(frozen=True, eq=False)
class FilterState:
    """An estimate, or a batch of them (...), as `InvariantFilter` returns it. Later calls do not change it.

    of        the filter
    x         coordinates of (R, v, p, d1, ..., dL) of the IMU in the world, (..., 10 + 3 L)
    bias      of gyroscope and accelerometer (..., 6)                                      [rad/s, m/s2]
    P         covariance of the right-invariant error (..., 15 + 3 L, 15 + 3 L), in the order of rotation,
              velocity, position, contacts, biases
    standing  1 for the feet that touched at the end of the step, else 0, (..., L)
    joints    as measured last (..., nj)
    rate      angular velocity of the IMU in its own axes, without the bias (..., 3)       [rad/s]
    """

    of: InvariantFilter
    x: np.ndarray
    bias: np.ndarray
    P: np.ndarray
    standing: np.ndarray
    joints: np.ndarray
    rate: np.ndarray

    @property
    def pose(self) -> np.ndarray:
        """Pose of the base in the world (..., 4, 4)."""
        T = np.zeros((*self.x.shape[:-1], 4, 4))
        T[..., :3, :3] = rotations(self.x[..., :4])
        T[..., :3, 3] = self.x[..., 7:10]
        T[..., 3, 3] = 1
        pose: np.ndarray = T @ SE3.inverse(self.of.placement)
        return pose

    @property
    def q(self) -> np.ndarray:
        """Configuration of the robot (..., nq): the estimated base, and the joints as measured last."""
        T = SE3.inverse(self.of.robot.tree.bodies[0].placement) @ self.pose
        return np.concatenate([quaternions(T[..., :3, :3]), T[..., :3, 3], self.joints], axis=-1)

    @property
    def twist(self) -> np.ndarray:
        """(omega, v) of the base in its own axes (..., 6): the first six entries of the robot's v."""
        R_imu, r = SE3.parts(self.of.placement)
        omega = self.rate @ R_imu.T
        R = rotations(self.x[..., :4]) @ R_imu.T
        v = np.einsum("...ji,...j->...i", R, self.x[..., 4:7]) - np.cross(omega, r)
        return np.concatenate([omega, v], axis=-1)

    def v(self, joint_velocities: Array) -> np.ndarray:
        """Velocity of the robot (..., nv), with rates of its joints (..., nj), unused by the filter."""
        rates = vectors("joint_velocities", joint_velocities, self.of.joints)
        lanes = np.broadcast_shapes(self.x.shape[:-1], rates.shape[:-1])
        parts = [np.broadcast_to(y, (*lanes, y.shape[-1])) for y in (self.twist, rates)]
        return np.concatenate(parts, axis=-1)

    @property
    def feet(self) -> np.ndarray:
        """Positions of the feet in the world (..., L, 3)."""
        return self.x[..., 10:].reshape(*self.x.shape[:-1], -1, 3)

    @property
    def covariance(self) -> np.ndarray:
        """Covariance (..., 15, 15) of (theta, dv, dp, db_g, db_a), the truth less the estimate.

        Of first order: theta is the vector of the rotation from the estimate to the truth, in the axes of the
        world; dv and dp are differences of velocity and position of the IMU in the world. `start` takes the
        same.
        """
        T = np.broadcast_to(np.eye(ERRORS), (*self.x.shape[:-1], ERRORS, ERRORS)).copy()
        for at, y in ((3, self.x[..., 4:7]), (6, self.x[..., 7:10])):
            # dv = xi_v - [v] xi_R: column k of -[v] is e_k x v
            T[..., at : at + 3, :3] = np.moveaxis(np.cross(np.eye(3), y[..., None, :]), -1, -2)
        covariance: np.ndarray = T @ self.of_errors @ np.swapaxes(T, -1, -2)
        return covariance

    @property
    def of_errors(self) -> np.ndarray:
        """Covariance (..., 15, 15) of the right-invariant error without the contacts: part of P."""
        places = np.r_[:9, self.P.shape[-1] - 6 : self.P.shape[-1]]
        return self.P[..., places[:, None], places]

    def error(self, q: Array, twist: Array, bias: Array) -> np.ndarray:
        """The right-invariant error (..., 15) of this estimate, if this is the truth.

            (log(X_true X^-1), b_true - b)

        q      configuration (..., nq), of which the base counts
        twist  (omega, v) of the base in its own axes (..., 6)
        bias   of gyroscope and accelerometer (..., 6)
        """
        x = self.of.coordinates(q, twist)
        error: np.ndarray = self.of.kernel("error")(x, vectors("bias", bias, 6), self.x, self.bias)
        return error

    def nees(self, q: Array, twist: Array, bias: Array) -> np.ndarray:
        """e^T P^-1 e (...), the normalised error squared, if this is the truth; arguments as in `error`.

        Its mean over many runs is 15 for a consistent filter. Bar-Shalom, Li and Kirubarajan (2001),
        "Estimation with applications to tracking and navigation", section 5.4.2.
        """
        e = self.error(q, twist, bias)
        nees: np.ndarray = np.einsum(
            "...i,...i->...", e, np.linalg.solve(self.of_errors, e[..., None])[..., 0]
        )
        return nees


class InvariantFilter:
    """Estimate pose, velocity and biases of a robot on legs from its IMU, its encoders and its contacts.

    The contact-aided invariant extended Kalman filter: the state X = (R, v, p, d1, ..., dL) is an element of
    SE_{2+L}(3), of attitude, velocity and position of the IMU and the points that the feet stand on, and its
    error xi is right-invariant, X_true = exp(xi) X. Then

        xi' = exp(A dt) xi  between measurements, and  R h - (d - p) = xi_d - xi_p  of a leg h,

    where neither A nor the rows depend on the estimate: a wrong estimate makes no wrong covariance. Position
    and heading stay as uncertain as they are, because legs and IMU do not see them. Biases (b_g, b_a) stand
    beside the group. Hartley, Ghaffari, Eustice and Grizzle (2020), "Contact-aided invariant extended Kalman
    filtering for robot state estimation", International Journal of Robotics Research 39, 402-430.

        noise = FilterNoise(gyroscope=1e-3, accelerometer=1e-2, contact=0.02, encoder=1e-3)
        estimator = InvariantFilter(robot, ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"], noise=noise)
        state = estimator.start(q, v, np.diag(deviation**2))
        state = estimator.step(state, gyroscope, accelerometer, joints, touching, dt)     # each sample
        state.q, state.twist, state.bias, state.covariance

    robot  with a free base. Each other joint has one coordinate for each velocity: hinges and slides
    feet   names of frames or bodies whose origins are points of contact; which of them touch is said at each
           step, and nothing is compiled for it
    noise  a `FilterNoise`
    imu    name of a frame on the base: there the IMU is, with its axes; the base's own frame if None

    Calls take single states or batches, whose leading axes broadcast, and `threads`. Several threads may call
    one filter: states are values.

    The trap: an accelerometer measures a - g, (0, 0, 9.81) at rest with z upwards. And a foot that is said to
    touch while it slips pulls the estimate along; say so late rather than early.

    Errors: ModelError for robots without a free base, other joints, free parameters, feet on the base or
    named twice, and an IMU elsewhere; ShapeError, ConfigurationError for wrong arrays.
    """

    @checked
    def __init__(
        self, robot: Robot, feet: str | Sequence[str], *, noise: FilterNoise, imu: str | None = None
    ) -> None:
        tree = robot.tree
        self.feet = names(feet)
        base = _base_of(robot)
        frame = tree.frame(base if imu is None else imu)
        if frame.body != 1:
            raise ModelError(f"the IMU is to be fixed to the base {base!r}, and frame {imu!r} is not")
        if not self.feet or len(set(self.feet)) < len(self.feet):
            raise ModelError(f"feet are {list(self.feet)}, expected one name or more, and each once")
        for foot in self.feet:
            if tree.frame(foot).body < 2:
                raise ModelError(f"foot {foot!r} does not move in the base {base!r}: no joint lies between")
        self.robot = robot
        self.imu = frame.name
        self.placement = np.asarray(frame.placement, float)
        self.joints = robot.nq - 7
        gravity = tuple(float(x) for x in robot.gravity_vector)
        self.equations = FilterEquations(tree, frame.name, self.feet, (gravity[0], gravity[1], gravity[2]))
        self.noise = noise
        self._flat_noise = noise.flat(self.joints)

    @checked
    def with_noise(self, noise: FilterNoise) -> Self:
        """The same filter with other noise; it shares what is compiled."""
        flat = noise.flat(self.joints)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__ | {"_kernels": self._kernels})
        other.noise = noise
        other._flat_noise = flat
        return other

    # -- the calls ----------------------------------------------------------------------------------------

    def start(self, q: Array, v: Array, covariance: Array, bias: Array = None) -> FilterState:
        """The state at the start, with all feet in the air: the first step places those that touch.

        q           configuration (..., nq)
        v           velocity (..., nv)
        covariance  (..., 15, 15) of (theta, dv, dp, db_g, db_a), as `FilterState.covariance` has it: theta
                    turns the attitude about the axes of the world, dv and dp are differences in the world
        bias        of gyroscope and accelerometer (..., 6); zero if None

        Raises ModelError for a covariance that is not symmetric or not positive semidefinite.
        """
        q = vectors("q", q, self.robot.nq)
        v = vectors("v", v, self.robot.nv)
        bias = vectors("bias", np.zeros(6) if bias is None else bias, 6)
        covariance = _covariance("covariance", covariance, ERRORS)
        lanes = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], bias.shape[:-1], covariance.shape[:-2])
        q, v, bias = (np.broadcast_to(y, (*lanes, y.shape[-1])) for y in (q, v, bias))
        joints = q[..., 7:]
        # the kernel adds the places of the feet, where the legs are
        x, P = self.kernel("start")(self.coordinates(q, v[..., :6]), covariance, joints, self._flat_noise)
        # a batch of noises makes a batch of covariances, too
        lanes = x.shape[:-1]
        rate = v[..., :3] @ self.placement[:3, :3]
        standing = np.zeros((*lanes, len(self.feet)))
        # states are values: copies do not change with the caller's q
        rest = (_over(lanes, y) for y in (joints, rate))
        return FilterState(self, x, np.broadcast_to(bias, (*lanes, 6)).copy(), P, standing, *rest)

    @checked
    def step(
        self,
        state: FilterState,
        gyroscope: Array,
        accelerometer: Array,
        joints: Array,
        touching: Array,
        dt: Array,
        threads: int = 1,
    ) -> FilterState:
        """The state a time dt later.

        gyroscope      angular velocity (..., 3), constant over the step, in the axes of the IMU    [rad/s]
        accelerometer  acceleration less free fall (..., 3), likewise                               [m/s2]
        joints         coordinates of the joints at the end of the step (..., nj): q[7:]            [rad, m]
        touching       which feet touch at the end of the step (..., L): True or False, 1 or 0
        dt             (...), a positive number                                                     [s]

        A foot that touched at the end of the last step, too, corrects the state. Another one is placed where
        its leg is.
        """
        touching = _flags(touching)
        x, bias, P = self.kernel("step")(
            state.x,
            state.bias,
            state.P,
            state.standing,
            gyroscope,
            accelerometer,
            joints,
            touching,
            dt,
            self._flat_noise,
            threads=threads,
        )
        lanes = x.shape[:-1]
        # The state keeps the last samples: contacts say at the next step which feet still stand; joints and
        # rate make q and the twist.
        return FilterState(
            self,
            x,
            bias,
            P,
            _over(lanes, touching),
            _over(lanes, joints),
            gyroscope - bias[..., :3],
        )

    @checked
    def update_position(
        self, state: FilterState, position: Array, covariance: Array, threads: int = 1
    ) -> FilterState:
        """The state corrected by a measured position of the IMU in the world, as a satellite receiver's.

        position    (..., 3)                                                                        [m]
        covariance  (..., 3, 3), in the axes of the world                                           [m2]
        """
        covariance = _covariance("covariance", covariance, 3)
        call = self.kernel("by_position")
        return _corrected(state, call(state.x, state.bias, state.P, position, covariance, threads=threads))

    @checked
    def update_landmark(
        self, state: FilterState, known: Array, seen: Array, covariance: Array, threads: int = 1
    ) -> FilterState:
        """The state corrected by a point of known place in the world, that is seen from the IMU.

        known       place in the world (..., 3)                                                     [m]
        seen        place in the axes of the IMU, from its origin (..., 3)                          [m]
        covariance  of what is seen (..., 3, 3)                                                     [m2]
        """
        return self._by_landmark(state, known, seen, 0.0, covariance, threads)

    @checked
    def update_direction(
        self, state: FilterState, known: Array, seen: Array, covariance: Array, threads: int = 1
    ) -> FilterState:
        """The state corrected by a direction that is known in the world, and measured in the axes of the IMU.

        A compass or the sun gives the heading, which legs and IMU do not see.

        known       in the world (..., 3), such as the magnetic field's direction
        seen        in the axes of the IMU (..., 3), of the same length
        covariance  of what is seen (..., 3, 3)
        """
        return self._by_landmark(state, known, seen, 1.0, covariance, threads)

    def _by_landmark(
        self, state: FilterState, known: Array, seen: Array, far: float, covariance: Array, threads: int
    ) -> FilterState:
        covariance = _covariance("covariance", covariance, 3)
        call = self.kernel("by_landmark")
        return _corrected(
            state, call(state.x, state.bias, state.P, known, seen, far, covariance, threads=threads)
        )

    def coordinates(self, q: Array, twist: Array) -> np.ndarray:
        """Coordinates (..., 10) of (R, v, p) of the IMU in SE_2(3), from the base's place and twist.

        q      configuration (..., nq), of which the base counts
        twist  (omega, v) of the base in its own axes (..., 6)
        """
        q = vectors("q", q, self.robot.nq)
        twist = vectors("twist", twist, 6)
        lanes = np.broadcast_shapes(q.shape[:-1], twist.shape[:-1])
        q, twist = np.broadcast_to(q, (*lanes, q.shape[-1])), np.broadcast_to(twist, (*lanes, 6))
        # the base in the world, then the IMU: p = p_base + R r moves with R (v + omega x r)
        fixed = self.robot.tree.bodies[0].placement
        R_imu, r = SE3.parts(self.placement)
        R = fixed[:3, :3] @ rotations(q[..., :4])
        p = fixed[:3, 3] + q[..., 4:7] @ fixed[:3, :3].T
        of_imu = twist[..., 3:] + np.cross(twist[..., :3], r)
        vectors_in_world = [
            np.einsum("...ij,...j->...i", R, y) for y in (of_imu, np.broadcast_to(r, p.shape))
        ]
        return np.concatenate([quaternions(R @ R_imu), vectors_in_world[0], p + vectors_in_world[1]], axis=-1)

    # -- compiled functions -------------------------------------------------------------------------------

    def kernel(self, name: str) -> Kernel:
        """The compiled function "start", "step", "by_position", "by_landmark" or "error".

        `FilterEquations` in liebody.control.estimation.equations describes their arguments.
        """
        known = {**_DOCS, "error": ""}
        if name not in known:
            raise ModelError(f"there is no function {name!r} of a filter; expected one of {', '.join(known)}")
        if name not in self._kernels:
            shapes = self._shapes[name]
            function = _error if name == "error" else getattr(self.equations, name)
            guard = Guard(
                finite=tuple(shapes),
                unit=[(key, 0, 4) for key in shapes if key in ("x", "x_true")],
                signs=[(key, 0, ">") for key in shapes if key == "dt"],
            )
            recipe = self.robot.recipe(f"InvariantFilter.{name}", {"feet": self.feet, "imu": self.imu})
            self._kernels[name] = Kernel(
                partial(trace, function, shapes, name), guard=guard, recipe=recipe, doc=known[name]
            )
        kernel: Kernel = self._kernels[name]
        return kernel

    @cached_property
    def _kernels(self) -> dict[str, Kernel]:
        return {}

    @property
    def _shapes(self) -> Mapping[str, Mapping[str, int | tuple[int, ...]]]:
        """Names and shapes of the arguments of each function."""
        n, L, nj = self.equations.size, len(self.feet), self.joints
        state: dict[str, int | tuple[int, ...]] = {"x": 10 + 3 * L, "bias": 6, "P": (n, n)}
        samples: dict[str, int | tuple[int, ...]] = {"gyroscope": 3, "accelerometer": 3, "joints": nj}
        samples |= {"touching": L, "dt": (), "noise": 18 + nj}
        seen: dict[str, int | tuple[int, ...]] = {
            "known": 3,
            "seen": 3,
            "at_infinity": (),
            "covariance": (3, 3),
        }
        return {
            "start": {"x": 10, "errors": (ERRORS, ERRORS), "joints": nj, "noise": 18 + nj},
            "step": {**state, "standing": L, **samples},
            "by_position": {**state, "position": 3, "covariance": (3, 3)},
            "by_landmark": {**state, **seen},
            "error": {"x_true": 10, "bias_true": 6, "x": 10 + 3 * L, "bias": 6},
        }

    def export_c(self, folder: str | Path, *, dtype: Any = np.float64) -> list[Path]:
        """Write the filter as C99 to `folder`: start, step, and the updates by position and landmark.

        `step` has the state x, bias, P and `standing` as arguments, and returns the next x, bias and P; the
        caller keeps them, and the last `touching` as `standing`. `noise` has gyroscope, accelerometer, their
        biases, contact and kinematics, (3,) each, then the encoders, (nj,). Otherwise as `Robot.export_c`.
        """
        functions = {name: Kernel(self.kernel(name).function, doc=doc) for name, doc in _DOCS.items()}
        lines = [f"The invariant Kalman filter of {self.robot.name}.", f"Feet: {', '.join(self.feet)}."]
        lines += [f"The IMU is the frame {self.imu}."]
        order = [body.joint.name for body in self.robot.tree.bodies[1:] if body.joint.mimic is None]
        lines += [f"Joints, in their order: {', '.join(order)}."]
        sizes = {"FEET": len(self.feet), "ERRORS": self.equations.size, "JOINTS": self.joints}
        about = About(lines, sizes, self._sample)
        return export_c(folder, f"{self.robot.name}_filter", functions, dtype=dtype, about=about)

    def _sample(self, argument: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """A random value of an argument, for the self-test in C."""
        if argument == "x":
            return SEn3((shape[0] - 4) // 3).random(rng)
        if argument in ("P", "errors", "covariance"):
            root = rng.normal(size=shape)
            return 0.01 * (root @ root.T + np.eye(shape[0]))
        if argument in ("standing", "touching", "at_infinity"):
            return np.asarray(rng.random(shape) < TOUCHING, float)
        if argument in ("dt", "noise"):
            return rng.uniform(0.005, 0.02, shape)
        return rng.normal(size=shape)


_DOCS = {
    "start": """State at the start: all feet are in the air.

x       qw, qx, qy, qz, velocity, position of the IMU in the world
errors  covariance of (theta, dv, dp, db_g, db_a)
joints  their coordinates
noise   gyroscope, accelerometer, their biases, contact, kinematics, encoders
Results: x with the places of the feet behind, P""",
    "step": """State a time dt later.

x, bias, P  the state
standing    1 for feet that touched at the end of the last step, else 0
gyroscope, accelerometer  over the step, in the axes of the IMU
joints, touching  at the end of the step
noise       gyroscope, accelerometer, their biases, contact, kinematics, encoders
Results: the next x, bias, P; `touching` is the next `standing`""",
    "by_position": """State after a measurement of the position of the IMU in the world.""",
    "by_landmark": """State after a point `known` in the world is `seen` in the axes of the IMU.

at_infinity  0 for a point; 1 if `known` and `seen` are directions""",
}


def _error(x_true: Array, bias_true: Array, x: Array, bias: Array) -> Array:
    """(log(X_true X^-1), b_true - b), (15,), without the contacts."""
    X = SEn3(2)
    own = x[:10]
    # log(X_true X^-1) = Ad(X) log(X^-1 X_true)
    xi = X.Ad(X.element(own)) @ X.difference(own, x_true)
    return np.concatenate([xi, bias_true - bias])


def _base_of(robot: Robot) -> str:
    """The name of the robot's free base; raises ModelError for robots that the filter is not for."""
    bodies = robot.tree.bodies
    if robot.layout.size:
        raise ModelError(
            f"{robot.name} has free parameters, and a filter is made of numbers: robot.plain has them"
        )
    if not bodies or not isinstance(bodies[0].joint.group, Free):
        raise ModelError(
            f"the base of {robot.name} does not move freely; a filter is for floating bases: "
            "lb.load(..., floating=True)"
        )
    for body in bodies[1:]:
        joint = body.joint
        if joint.dim != joint.nq or body.parent == 0:
            raise ModelError(
                f"joint {joint.name!r} of {robot.name} has {joint.dim} velocities, "
                f"{joint.nq} coordinates, "
                f"and hangs on {bodies[body.parent - 1].name if body.parent else 'world'!r}; a filter is for "
                "hinges and slides on one free base: fix other joints by robot.locked(...)"
            )
    return bodies[0].name


def _covariance(name: str, value: Any, size: int) -> np.ndarray:
    """A covariance (..., size, size); raises ShapeError and ModelError."""
    covariance = floats(name, value)
    if covariance.shape[-2:] != (size, size):
        raise wrong_shape(name, covariance.shape, f"(..., {size}, {size})", ", as np.diag(deviation**2) is")
    largest = np.abs(covariance).max(initial=0)
    if np.abs(covariance - np.swapaxes(covariance, -1, -2)).max(initial=0) > SYMMETRIC * largest:
        raise ModelError(f"{name} is not symmetric; give (A + A.T) / 2")
    least = np.linalg.eigvalsh(covariance).min(initial=0)
    if least < -SYMMETRIC * largest:
        raise ModelError(f"{name} must be positive semidefinite, its least eigenvalue is {least:.3g}")
    return covariance


def _flags(touching: Any) -> np.ndarray:
    """Which feet touch, as numbers 1 and 0."""
    flags = array_of("touching", touching)
    if flags.dtype != bool and not ((flags == 0) | (flags == 1)).all():
        raise ConfigurationError(f"touching is {touching!r}, expected True or False, 1 or 0, for each foot")
    return flags.astype(float)


def _over(lanes: tuple[int, ...], y: Array) -> np.ndarray:
    """A copy of y with all leading axes."""
    y = np.asarray(y, float)
    return np.array(np.broadcast_to(y, (*lanes, y.shape[-1])))


def _corrected(state: FilterState, results: tuple[np.ndarray, ...]) -> FilterState:
    """The state after a measurement without legs."""
    x, bias, P = results
    # the sample of the gyroscope, less the corrected bias
    rate = state.rate + state.bias[..., :3] - bias[..., :3]
    lanes = x.shape[:-1]
    return replace(
        state,
        x=x,
        bias=bias,
        P=P,
        standing=_over(lanes, state.standing),
        joints=_over(lanes, state.joints),
        rate=rate,
    )
