"""Motions that show parameters well: Fourier series of least uncertainty, within limits.

Each joint moves by  q(t) = c + sum_k (A_k sin(k w t) + B_k cos(k w t)),  w = 2 pi / duration,  from rest
without acceleration. Efforts are linear in the parameters x, so that their information J^T J = sum A^T W A is
known before anything is measured. It depends on coefficients of the series only, and the motion of largest
information is a smooth problem with limits. An interior-point method solves it: logarithms of all slacks are
barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, count, floats, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import SECONDS, ModelError, positive
from ..compiler import Kernel, trace
from ..robot import Robot, derivatives
from ..scalars import Array
from .combinations import Combinations, base_parameters
from .inertias import PARAMETERS
from .linear import Combination, broadcast
from .linear_model import LinearModel

CRITERIA = ("D", "A")
POINTS = 20  # of the grid for each harmonic
FINE = 8  # times as many points check the result
STARTS = 30  # random series, of which the best one is the start
SHARE = 0.95  # of the largest series of a random shape that keeps all limits
BARRIERS = (1.0, 0.1, 1e-2, 1e-3)  # weights of the logarithms of the slacks
STEPS = 40  # for each weight
SETTLED = 1e-4  # decrease of the criterion from step to step at which a weight is done
ARMIJO = 1e-4
SHORTEST = 1e-10  # step of a line search
DAMPED = 0.2  # Powell's bound of the curvature in quasi-Newton updates


class Excitation:
    """A motion that shows parameters; made by `excite`.

    t            times of samples (n,)                                                                 [s]
    q, v, a      the motion there, (n, nv) each
    tau          the efforts that the robot needs as it is believed to be (n, nv)                  [N m, N]
    combinations base parameters with their present values, and the deviations that `linear` will have
    criterion    log det of the covariance of base parameters, or of the sum of their relative variances
    """

    def __init__(self, problem: ExcitationProblem, x: Array) -> None:
        self._series = problem.series
        self._coefficients = x
        self.t = problem.series.t
        self.q, self.v, self.a = problem.series.motion(x)
        self.tau = problem.robot.inverse_dynamics(self.q, self.v, self.a)
        information = problem.information(x)
        self.criterion = problem.criterion_of(information)
        values = problem.base.K @ problem.model.own
        deviations = np.sqrt(np.diag(np.linalg.inv(information)))
        self.combinations = [
            Combination(*numbers)
            for numbers in zip(problem.base.names, values.tolist(), deviations.tolist(), strict=True)
        ]

    def motion(self, t: Array) -> tuple[Array, Array, Array]:
        """q, v, a (..., nv) at times t (...): a reference for a controller; periodic."""
        return self._series.at(self._coefficients, np.asarray(t, float))

    def __repr__(self) -> str:
        return f"Excitation of {self.q.shape[1]} joints for {self._series.duration:g} s"

    def __str__(self) -> str:
        rows = [f"{x.name:48} {x.value:13.6g} {x.deviation:11.2g}" for x in self.combinations]
        return "\n".join([f"{'combination':48} {'believed':>13} {'deviation':>11}", *rows])


@checked
def excite(
    robot: Robot,
    bodies: str | Iterable[str] | None = None,
    *,
    duration: float,
    noise: Any,
    losses: str | Iterable[str] = (),
    position: Any = None,
    velocity: Any = None,
    effort: Any = None,
    workspace: Callable[..., Any] | None = None,
    criterion: str = "D",
    harmonics: int = 5,
    v_s: float = 1e-2,
    seed: int = 0,
) -> Excitation:
    """Find the motion that determines inertial parameters best, and predict the deviations of estimates.

        motion = lb.identification.excite(robot, duration=10.0, noise=0.5, velocity=2.0, effort=80.0)
        print(motion)                                # base parameters, and their deviations
        q, v, a = motion.motion(t)                   # what a controller follows
        found = linear(robot, q, v, a, measured, noise=0.5)

    bodies, losses, v_s   parameters to estimate, as in `linear`
    duration    period of the motion                                                                   [s]
    noise       standard deviation of the efforts, a number or (nv,)                              [N m, N]
    position    (low, high), numbers or (nv,) each; None: the joints' limits                      [rad, m]
    velocity    largest speeds, a number or (nv,); None: the joints' limits                   [rad/s, m/s]
    effort      largest efforts, in the same form                                                 [N m, N]
    workspace   a function of q (nv,), of NumPy operators, whose results are positive inside the workspace
    criterion   "D": least volume of the confidence ellipsoid; "A": least sum of relative variances
    harmonics   number of harmonics in the Fourier series of each joint
    seed        seed of the random series from which the search starts

    Efforts are sampled `20 harmonics` times in a period. Positions and speeds keep their limits at all times:
    the limits of the samples are cos(pi / 20) times as large, because a trigonometric polynomial of degree K
    exceeds its samples at N equal distances at most by 1 / cos(pi K / N) (Ehlich and Zeller 1964). Efforts
    and workspace are checked at 8 times as many points. The search is local. Deviations are those of one
    period; n times as many samples with independent noise divide them by sqrt(n).

    Raises ModelError for a robot that floats or has joints that turn in space, for limits that are missing,
    and if no random motion keeps the limits.

    Swevers et al. (1997), "Optimal robot excitation and identification"; Gautier and Khalil (1992), "Exciting
    trajectories for the identification of base inertial parameters of robots".
    """
    if criterion not in CRITERIA:
        raise ModelError(f"criterion is {criterion!r}, expected one of {', '.join(map(repr, CRITERIA))}")
    if robot.nq != robot.nv:
        raise ModelError(
            f"{robot.name} floats, or has joints that turn in space; motions are found for hinges and slides"
        )
    model = LinearModel(robot, bodies, losses, positive("v_s", v_s))
    base = base_parameters(
        robot, [body.name for body in model.bodies], losses=model.losses, v_s=v_s, seed=seed
    )
    series = Series(positive("duration", duration, SECONDS), count("harmonics", harmonics, least=2), robot.nv)
    deviations = broadcast("noise", noise, (robot.nv,), robot.nv)
    limits = MotionLimits.of(robot, position, velocity, effort)
    problem = ExcitationProblem(robot, model, base, series, deviations, limits, workspace, criterion)
    return Excitation(problem, problem.within(problem.minimum(problem.start(np.random.default_rng(seed)))))


class MotionLimits(NamedTuple):
    """MotionLimits of joints (nv,) each."""

    low: Array
    high: Array
    velocity: Array
    effort: Array

    @classmethod
    def of(cls, robot: Robot, position: Any, velocity: Any, effort: Any) -> MotionLimits:
        """As given, or the joints' own."""
        own = {
            name: np.concatenate(
                [getattr(b.joint, name) for b in robot.tree.bodies if b.joint.dim and b.joint.mimic is None]
            )
            for name in ("velocity_limit", "effort_limit")
        }
        low, high = robot.tree.coordinate_limits if position is None else position
        given = {
            "low position": low,
            "high position": high,
            "velocity": own["velocity_limit"] if velocity is None else velocity,
            "effort": own["effort_limit"] if effort is None else effort,
        }
        limits = cls(*(_of_joints(f"{name} limit", x, robot.nv) for name, x in given.items()))
        if not (limits.low < limits.high).all():
            raise ModelError("position limits are empty; give (low, high) with low < high")
        if not (np.isfinite(limits.velocity).all() and (limits.velocity > 0).all()):
            raise ModelError(
                f"velocity limits are {limits.velocity}, expected finite positive numbers; give `velocity`, "
                "because the faster a motion, the more it shows"
            )
        if not (limits.effort > 0).all():
            raise ModelError(f"effort limits are {limits.effort}, expected positive numbers; give `effort`")
        return limits

    @property
    def bounded(self) -> Array:
        """Whether a joint has limits on both sides (nv,)."""
        return np.isfinite(self.low) & np.isfinite(self.high)

    @property
    def middle(self) -> Array:
        """Of the positions (nv,); zero without two limits."""
        return np.where(self.bounded, self.low, 0.0) / 2 + np.where(self.bounded, self.high, 0.0) / 2

    @property
    def half(self) -> Array:
        """Half the range of the positions (nv,); one without two limits."""
        return np.where(self.bounded, self.high, 1.0) / 2 - np.where(self.bounded, self.low, -1.0) / 2


def _of_joints(name: str, given: Any, nv: int) -> Array:
    """A number or (nv,), possibly infinite, as (nv,)."""
    values = floats(name, given, finite=False)
    if values.shape not in ((), (nv,)) or np.isnan(values).any():
        raise wrong_shape(name, values.shape, f"a number or ({nv},), none of them NaN")
    return np.broadcast_to(values, (nv,))


class Series:
    """Fourier series from rest: coefficients x (p, nv) times functions of time."""

    def __init__(self, duration: float, harmonics: int, nv: int) -> None:
        self.duration = duration
        self.nv = nv
        self._rates = 2 * np.pi / duration * np.arange(1, harmonics + 1)
        # Coefficients (A, B) of sines and cosines with sum k A_k = 0 and sum k^2 B_k = 0: at rest at t = 0
        k = np.arange(1.0, harmonics + 1)
        none = np.zeros((harmonics, harmonics - 1))
        self._at_rest = np.block([[_null(k), none], [none, _null(k**2)]])
        self.size = 2 * harmonics - 1
        self.t = np.arange(POINTS * harmonics) * (duration / (POINTS * harmonics))
        self.functions = self.functions_at(self.t)

    def functions_at(self, t: Array) -> tuple[Array, Array, Array]:
        """The functions and their two derivatives at times t (...): (..., p) each."""
        w = self._rates
        phase = np.multiply.outer(t, w)
        sines, cosines = np.sin(phase), np.cos(phase)
        waves = (
            np.concatenate([sines, cosines], axis=-1),
            np.concatenate([w * cosines, -w * sines], axis=-1),
            np.concatenate([-w * w * sines, -w * w * cosines], axis=-1),
        )
        means = (np.ones((*t.shape, 1)), np.zeros((*t.shape, 1)), np.zeros((*t.shape, 1)))
        f, df, ddf = (
            np.concatenate([mean, x @ self._at_rest], axis=-1) for mean, x in zip(means, waves, strict=True)
        )
        return f, df, ddf

    def motion(self, x: Array) -> tuple[Array, Array, Array]:
        """q, v, a at the samples."""
        f, df, ddf = self.functions
        return f @ x, df @ x, ddf @ x

    def at(self, x: Array, t: Array) -> tuple[Array, Array, Array]:
        """q, v, a at times t."""
        f, df, ddf = self.functions_at(t)
        return f @ x, df @ x, ddf @ x


def _null(row: Array) -> Array:
    """Orthonormal columns (n, n - 1) whose products with the row are zero."""
    return np.linalg.svd(row[None, :])[2][1:].T


class ExcitationProblem:
    """The criterion and the slacks of the limits as functions of the coefficients x (p, nv)."""

    def __init__(
        self,
        robot: Robot,
        model: LinearModel,
        base: Combinations,
        series: Series,
        noise: Array,
        limits: MotionLimits,
        workspace: Callable[..., Any] | None,
        criterion: str,
    ) -> None:
        self.robot = robot
        self.model = model
        self.base = base
        self.series = series
        self.noise = noise
        self.limits = limits
        self.workspace = workspace
        self.criterion = criterion
        # Sizes of base parameters, for relative variances
        self.sizes = np.linalg.norm(base.K * model.sizes(), axis=1)

    # -- the criterion ------------------------------------------------------------------------------------

    def information(self, x: Array) -> Array:
        """J^T J of the base parameters (r, r)."""
        A = self._rows(x)
        return A.T @ A

    def _rows(self, x: Array) -> Array:
        A = self.model.columns(*self.series.motion(x))[..., self.base.columns]
        return (A / self.noise[:, None]).reshape(-1, len(self.base.columns))

    def criterion_of(self, information: Array) -> float:
        """Smaller is better; infinite for a motion that does not show all."""
        try:
            L = np.linalg.cholesky(information * np.outer(self.sizes, self.sizes))
        except np.linalg.LinAlgError:
            return np.inf
        if self.criterion == "D":
            return float(-2 * np.log(np.diag(L)).sum())
        inverse = np.linalg.inv(L)
        return len(L) * float(np.log(np.sum(inverse**2)))

    def gradient(self, x: Array) -> Array:
        """Derivative of the criterion by x (p, nv): one product of the regressor's transposed derivative."""
        q, v, a = self.series.motion(x)
        A = self.model.columns(q, v, a)[..., self.base.columns] / self.noise[:, None]
        rows = A.reshape(-1, len(self.base.columns))
        M = np.linalg.inv(rows.T @ rows)
        if self.criterion == "D":
            by_rows = -2 * rows @ M
        else:
            weighted = M / self.sizes**2
            by_rows = -2 * len(M) / np.trace(weighted) * rows @ (weighted @ M)
        weights = np.zeros((*v.shape, len(self.model.entries)))
        weights[..., self.base.columns] = by_rows.reshape(A.shape) / self.noise[:, None]
        by_q, by_v, by_a = self._through_columns(q, v, a, weights)
        f, df, ddf = self.series.functions
        return f.T @ by_q + df.T @ by_v + ddf.T @ by_a

    def _through_columns(self, q: Array, v: Array, a: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Gradients of sum(weights * columns) by q, v, a."""
        size = len(PARAMETERS)
        of_regressor = np.zeros((*v.shape, size * len(self.robot.tree.bodies)))
        for k, body in enumerate(self.model.bodies):
            at = slice(size * (body.index - 1), size * body.index)
            of_regressor[..., at] = weights[..., size * k : size * (k + 1)]
        pull = self.robot.derivatives("inverse_dynamics_regressor", ("q", "v", "a"), product="vjp")
        by_q, by_v, by_a = (np.array(x) for x in pull(q, v, a, of_regressor))
        column = self.model.inertial
        slopes = {"damping": 1.0, "friction": (1 - np.tanh(v / self.model.v_s) ** 2) / self.model.v_s}
        for kind in self.model.losses:
            for body in self.model.joints:
                for row in range(self.robot.nv)[body.dofs]:
                    own = weights[:, row, column]
                    column += 1
                    if kind == "armature":
                        by_a[:, row] += own
                    elif kind in slopes:
                        by_v[:, row] += own * np.broadcast_to(slopes[kind], v.shape)[:, row]
        return by_q, by_v, by_a

    # -- the limits ---------------------------------------------------------------------------------------

    def slacks(self, motion: tuple[Array, Array, Array], shrunk: float = 1.0) -> list[Array]:
        """What is left to each limit (samples, ...), over its size; positive within all.

        shrunk  factor of half ranges and speeds
        """
        q, v, a = motion
        low, high, velocity, effort = self.limits
        bounded, half, middle = self.limits.bounded, self.limits.half, self.limits.middle
        from_low = q - np.where(bounded, middle - shrunk * half, low)
        from_high = np.where(bounded, middle + shrunk * half, high) - q
        slacks = [from_low / half, from_high / half, shrunk - v / velocity, shrunk + v / velocity]
        if np.isfinite(effort).any():
            tau = self.robot.inverse_dynamics(q, v, a)
            slacks += [1 - tau / effort, 1 + tau / effort]
        if self._workspace:
            slacks.append(np.asarray(self._workspace[0](q)))
        return slacks

    @cached_property
    def _workspace(self) -> tuple[Kernel, Kernel] | None:
        """The user's function of q, and its derivative."""
        if self.workspace is None:
            return None
        user = self.workspace
        function = trace(lambda q: np.atleast_1d(user(q)), {"q": self.robot.nq}, "workspace")
        return Kernel(function), derivatives(function, "q")

    @property
    def _shrunk(self) -> float:
        return float(np.cos(np.pi / POINTS))

    def _barrier(self, x: Array) -> float:
        """-sum log of all slacks; infinite outside."""
        slacks = self.slacks(self.series.motion(x), self._shrunk)
        if min(float(s.min()) for s in slacks) <= 0:
            return np.inf
        return -float(sum(np.log(s[np.isfinite(s)]).sum() for s in slacks))

    def _barrier_derivatives(self, x: Array) -> tuple[Array, Array]:
        """Gradient (p nv,) and Gauss-Newton Hessian of the barrier: sum of ds ds^T / s^2."""
        motion = self.series.motion(x)
        slacks = self.slacks(motion, self._shrunk)
        f, df, ddf = self.series.functions
        velocity, effort, half = self.limits.velocity, self.limits.effort, self.limits.half
        nv, p = self.robot.nv, self.series.size
        one = np.eye(nv)
        # Each limit by q, v, a of its sample: (samples, limits, nv) each, None: zero
        by_q, by_v = one / half[:, None], one / velocity[:, None]
        parts: list[tuple[Array | None, Array | None, Array | None]] = [
            (by_q, None, None), (-by_q, None, None), (None, -by_v, None), (None, by_v, None)
        ]  # fmt: skip
        if np.isfinite(effort).any():
            rates = [x / effort[:, None] for x in self.robot.inverse_dynamics_derivatives(*motion)]
            parts += [(-rates[0], -rates[1], -rates[2]), (rates[0], rates[1], rates[2])]
        if self._workspace:
            parts.append((np.asarray(self._workspace[1](motion[0])), None, None))
        gradient, hessian = np.zeros(p * nv), np.zeros((p * nv, p * nv))
        for s, rows in zip(slacks, parts, strict=True):
            D = np.zeros((len(f), s.shape[1], p, nv))
            for by, functions in zip(rows, (f, df, ddf), strict=True):
                if by is not None:
                    by = np.broadcast_to(by, (len(f), s.shape[1], nv))
                    D += functions[:, None, :, None] * by[:, :, None, :]
            D = (D / s[..., None, None]).reshape(-1, p * nv)
            gradient -= D.sum(axis=0)
            hessian += D.T @ D
        return gradient, hessian

    # -- the search ---------------------------------------------------------------------------------------

    def start(self, rng: np.random.Generator) -> Array:
        """The best of some random series, each as large as the limits allow."""
        best, least = None, np.inf
        for _ in range(STARTS):
            x = self.random(rng)
            if x is not None and (cost := self.criterion_of(self.information(x))) < least:
                best, least = x, cost
        if best is None:
            raise ModelError(
                "no random motion keeps all limits and shows all parameters; widen limits of efforts or of "
                "the workspace, or take more harmonics"
            )
        return best

    def random(self, rng: np.random.Generator) -> Array | None:
        """A random series within the limits, or None if its mean does not keep them."""
        velocity, middle, half = self.limits.velocity, self.limits.middle, self.limits.half
        x = rng.normal(size=(self.series.size, self.robot.nv))
        # Amplitudes in proportion to what each joint may do.
        x *= np.minimum(half, velocity * self.series.duration / (2 * np.pi))
        x[0] = middle + rng.uniform(-0.6, 0.6, self.robot.nv) * half
        return self._scaled(x, lambda y: np.isfinite(self._barrier(y)), SHARE)

    def _scaled(self, x: Array, allowed: Callable[[Array], bool], share: float) -> Array | None:
        """x with its waves as large as allowed, at most as they are, by bisection; times a share."""

        def at(scale: float) -> Array:
            return np.concatenate([x[:1], scale * x[1:]])

        if not allowed(at(0.0)):
            return None
        least, most = 0.0, 1.0
        for _ in range(40):
            middle = 0.5 * (least + most)
            least, most = (middle, most) if allowed(at(middle)) else (least, middle)
        return at(share * least)

    def within(self, x: Array) -> Array:
        """x, with waves as much smaller as efforts and workspace need between the samples."""
        series = self.series
        t = np.arange(FINE * len(series.t)) * (series.duration / (FINE * len(series.t)))
        functions = series.functions_at(t)

        def allowed(y: Array) -> bool:
            motion = functions[0] @ y, functions[1] @ y, functions[2] @ y
            return min(float(s.min()) for s in self.slacks(motion)) > 0

        if allowed(x):
            return x
        scaled = self._scaled(x, allowed, 1.0)
        if scaled is None:
            raise ModelError("the mean of the best motion does not keep the limits between samples")
        return scaled

    def minimum(self, x: Array) -> Array:
        """A local minimum of the criterion within the limits, by an interior-point method.

        Newton steps have the Gauss-Newton Hessian of the barrier, and a quasi-Newton one (BFGS, damped as by
        Powell) of the criterion.
        """
        shape = x.shape
        cost = self.criterion_of(self.information(x))
        g = self.gradient(x).ravel()
        B = np.eye(x.size) * float(np.linalg.norm(g)) / max(float(np.linalg.norm(x)), 1e-6)
        for mu in BARRIERS:
            barrier = self._barrier(x)
            for _ in range(STEPS):
                by_barrier, hessian = self._barrier_derivatives(x)
                slope = g + mu * by_barrier
                step = -np.linalg.solve(B + mu * hessian, slope)
                descent = float(slope @ step)
                length = 1.0
                while length > SHORTEST:
                    trial = x + length * step.reshape(shape)
                    trial_barrier = self._barrier(trial)
                    if np.isfinite(trial_barrier):
                        trial_cost = self.criterion_of(self.information(trial))
                        decrease = cost + mu * barrier - trial_cost - mu * trial_barrier
                        if decrease >= -ARMIJO * length * descent:
                            break
                    length *= 0.5
                else:
                    break
                trial_g = self.gradient(trial).ravel()
                B = _updated(B, length * step, trial_g - g)
                x, cost, g, barrier = trial, trial_cost, trial_g, trial_barrier
                if decrease < SETTLED:
                    break
        return x


def _updated(B: Array, s: Array, y: Array) -> Array:
    """BFGS update of B for a step s with the change y of the gradient, damped: B stays positive definite."""
    Bs = B @ s
    curvature = float(s @ Bs)
    if curvature <= 0:
        return B
    if s @ y < DAMPED * curvature:
        theta = (1 - DAMPED) * curvature / (curvature - float(s @ y))
        y = theta * y + (1 - theta) * Bs
    return B - np.outer(Bs, Bs) / curvature + np.outer(y, y) / float(s @ y)
