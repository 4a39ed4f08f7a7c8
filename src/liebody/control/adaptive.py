"""Adaptive control of arms whose masses and inertias are unknown, after Slotine and Li."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, floats, vector, vectors, wrong_shape
from ..base.errors import ModelError
from ..robot import Robot
from ..scalars import Array

SYMMETRIC = 1e-9  # largest asymmetry of a gain, relative to its largest entry


class AdaptiveCommand(NamedTuple):
    """The command of the controller at one instant, or at many (...).

    tau   efforts of the joints (..., nv)                                                          [N m, N]
    rate  dp^/dt, the rate of the estimate (..., k), which the caller integrates
    s     v - v_r, which goes to zero (..., nv)                                               [rad/s, m/s]
    """

    tau: np.ndarray
    rate: np.ndarray
    s: np.ndarray


class Adaptive:
    """Follow a motion q_d(t) with a robot whose inertial parameters p are unknown.

    With e = q - q_d, v_r = v_d - L e, a_r = a_d - L (v - v_d) and s = v - v_r,

        tau = Y(q, v, v_r, a_r) p^ + A a_r - K s,    dp^/dt = -P Y^T s,

    where Y p + A a_r = M a_r + C v_r + g (and + D v_r, see `viscous`) with the C of `coriolis_matrix` whose
    dM/dt - 2 C is skew-symmetric; A, the armature of the rotors, is known. Then

        V = (s^T M s + (p^ - p)^T P^-1 (p^ - p)) / 2    falls at the rate    s^T (K + D) s,

    so s and e go to zero for every motion, every K, L, P > 0, and every estimate at the start. p^ itself goes
    to p only in directions that the motion shows. Slotine and Li (1987), "On the adaptive control of robot
    manipulators", International Journal of Robotics Research 6, equations 7 to 11.

        controller = Adaptive(robot, gain=20.0, slope=5.0, adaptation=1.0)
        estimate = controller.parameters                            # or zeros: nothing is known
        tau, rate, s = controller(q, v, q_d, v_d, a_d, estimate)    # at each step
        estimate = estimate + dt * rate

    gain        K, symmetric and positive definite: a number, (nv,) or (nv, nv)      [N m s/rad, N s/m]
    slope       L, at which e vanishes where s = 0: a positive number, or one for each joint (nv,)    [1/s]
    adaptation  P, symmetric and positive definite: a number, (k,) or (k, k). Parameters have different
                units, and a number serves all alike: weight by the squares of what you expect of each
    viscous     whether coefficients D of viscous friction are estimated, too: tau has D v_r more. Without it
                friction of the robot is unknown to the controller, and damps s

    parameters  the robot's own p (k,): 10 a body in the order of `Robot.inertial_parameters`, then with
                `viscous` D (nv,) of the joints' damping

    Robots are arms: each joint has one degree of freedom, because e is a difference of coordinates.

    Errors: ModelError for other robots and for gains that are not positive definite; ShapeError for wrong
    shapes.
    """

    @checked
    def __init__(
        self, robot: Robot, *, gain: Any, slope: Any, adaptation: Any, viscous: bool = False
    ) -> None:
        for body in robot.tree.bodies:
            if body.joint.dim > 1 or body.joint.dim != body.joint.nq:
                raise ModelError(
                    f"joint {body.joint.name!r} of {robot.name} has {body.joint.dim} degrees of freedom, and "
                    "q - q_d is no error of it; an adaptive controller is for hinges and slides: fix others "
                    "by robot.locked(...)"
                )
        self.robot = robot
        self.viscous = viscous
        nv = robot.nv
        inertial = robot.inertial_parameters
        damping = np.zeros(nv)
        for body in robot.tree.bodies:
            if body.joint.mimic is None:
                damping[body.dofs] = body.joint.damping
        self.parameters = np.concatenate([inertial, damping]) if viscous else inertial
        self.gain = _positive_definite("gain", gain, nv)
        self.slope = np.diag(_positive_definite("slope", slope, nv, matrix=False))
        self.adaptation = _positive_definite("adaptation", adaptation, len(self.parameters))
        # The armature is constant, and the only part of M that the inertial parameters do not have: column k
        # is the difference of passive inverse dynamics and Y p at rest, where a_r is e_k.
        still = np.zeros((nv, nv))
        q = np.broadcast_to(robot.neutral(), (nv, robot.nq))
        moved = robot.passive_inverse_dynamics(q, still, still, np.eye(nv))
        self.armature = (moved - robot.passive_regressor(q, still, still, np.eye(nv)) @ inertial).T

    def __call__(
        self, q: Array, v: Array, q_d: Array, v_d: Array, a_d: Array, estimate: Array
    ) -> AdaptiveCommand:
        """Efforts and the rate of the estimate.

        q, v           the state (..., nv)
        q_d, v_d, a_d  the desired motion (..., nv)
        estimate       p^ (..., k)
        """
        nv = self.robot.nv
        given = {"q": q, "v": v, "q_d": q_d, "v_d": v_d, "a_d": a_d}
        q, v, q_d, v_d, a_d = (vectors(name, x, nv) for name, x in given.items())
        estimate = vectors("estimate", estimate, len(self.parameters))
        v_r = v_d - self.slope * (q - q_d)
        a_r = a_d - self.slope * (v - v_d)
        s = v - v_r
        Y = self.robot.passive_regressor(q, v, v_r, a_r)
        if self.viscous:
            Y = np.concatenate([Y, v_r[..., None] * np.eye(nv)], axis=-1)
        tau = np.einsum("...ij,...j->...i", Y, estimate) + a_r @ self.armature.T - s @ self.gain
        rate = -np.einsum("...ij,...i->...j", Y, s) @ self.adaptation
        return AdaptiveCommand(tau, rate, s)

    def lyapunov(
        self, q: Array, v: Array, q_d: Array, v_d: Array, estimate: Array, parameters: Array = None
    ) -> np.ndarray:
        """V (...) of a robot whose true parameters are these, (k,); default: the robot's own.          [J]

        V falls along each motion of that robot: a measure for simulations, where the truth is known.
        """
        given = {"q": q, "v": v, "q_d": q_d, "v_d": v_d}
        q, v, q_d, v_d = (vectors(name, x, self.robot.nv) for name, x in given.items())
        size = len(self.parameters)
        truth = self.parameters if parameters is None else vector("parameters", parameters, size)
        wrong = vectors("estimate", estimate, size) - truth
        s = v - v_d + self.slope * (q - q_d)
        # M of the true parameters, a column for each a_r = e_k, less gravity
        zeros = np.zeros((*q.shape[:-1], self.robot.nv, self.robot.nv))
        at = np.broadcast_to(q[..., None, :], zeros.shape)
        units = np.broadcast_to(np.eye(self.robot.nv), zeros.shape)
        inertial = truth[: len(self.robot.inertial_parameters)]
        regressor = self.robot.passive_regressor
        columns = (regressor(at, zeros, zeros, units) - regressor(at, zeros, zeros, zeros)) @ inertial
        M = columns + self.armature.T
        by_adaptation = np.linalg.solve(self.adaptation, wrong[..., None])[..., 0]
        kinetic = np.einsum("...i,...ij,...j->...", s, M, s)
        V: np.ndarray = (kinetic + np.einsum("...i,...i->...", wrong, by_adaptation)) / 2
        return V


def _positive_definite(name: str, value: Any, size: int, matrix: bool = True) -> np.ndarray:
    """A gain as a matrix (size, size), from a number, a diagonal or a matrix."""
    gain = floats(name, value)
    shapes: list[tuple[int, ...]] = [(), (size,), *([(size, size)] if matrix else [])]
    if gain.shape not in shapes:
        raise wrong_shape(
            name, gain.shape, " or ".join(str(shape) if shape else "a number" for shape in shapes)
        )
    if gain.ndim < 2:
        gain = np.diag(np.broadcast_to(gain, size))
    if np.abs(gain - gain.T).max(initial=0) > SYMMETRIC * np.abs(gain).max(initial=0):
        raise ModelError(f"{name} is not symmetric; give (A + A.T) / 2")
    least = np.linalg.eigvalsh(gain).min(initial=np.inf)
    if not least > 0:
        raise ModelError(f"{name} must be positive definite, its least eigenvalue is {least:.3g}")
    return gain
