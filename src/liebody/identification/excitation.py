"""Motions that show parameters well: Fourier series of least uncertainty, within limits.

Each joint moves by  q(t) = c + sum_k (A_k sin(k w t) + B_k cos(k w t)),  w = 2 pi / duration,  from rest
without acceleration. Efforts are linear in the parameters x, so that their information J^T J = sum A^T W A is
known before anything is measured. It depends on coefficients of the series only, and the motion of largest
information is a smooth problem with limits. An interior-point method solves it: logarithms of all slacks are
barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import OFF_UNIT, checked, count, floats, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import SECONDS, ModelError, positive
from ..bodies import PARAMETERS
from ..compiler import Kernel, trace
from ..groups import Free
from ..robot import Robot, derivatives
from ..scalars import Array
from .combinations import Combinations, combinations_of, random_states
from .linear import Combination
from .linear_model import LinearModel

CRITERIA = ("D", "A")
POINTS = 20  # of the grid for each harmonic
CHECKED = 16  # times at which the motion of a base is checked
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
    q, v, a      the motion there, (n, nq), (n, nv), (n, nv)
    tau          the efforts that the robot needs as it is believed to be (n, nv); in the rows of a floating
                 base the wrench that moves or holds it                                            [N m, N]
    combinations base parameters with their present values, and the deviations that `linear` will have
    criterion    log det of the covariance of base parameters, or of the sum of their relative variances
    """

    def __init__(self, problem: ExcitationProblem, x: Array) -> None:
        self._plan = problem.plan
        self._coefficients = x
        trial = problem.at(x)
        self.t = problem.plan.series.t
        self.q, self.v, self.a = trial.motion
        self.tau = problem.robot.inverse_dynamics(self.q, self.v, self.a)
        information = trial.information
        self.criterion = trial.criterion
        values = problem.shown.K @ problem.model.own
        deviations = np.sqrt(np.diag(np.linalg.inv(information)))
        self.combinations = [
            Combination(*numbers)
            for numbers in zip(problem.shown.names, values.tolist(), deviations.tolist(), strict=True)
        ]

    def motion(self, t: Array) -> tuple[Array, Array, Array]:
        """q (..., nq), v, a (..., nv) at times t (...): a reference for a controller; periodic."""
        return self._plan.at(self._coefficients, np.asarray(t, float))

    def __repr__(self) -> str:
        return f"Excitation of {len(self._plan.joints)} joints for {self._plan.series.duration:g} s"

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
    base: Any = None,
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
    noise       standard deviation of the efforts, a number or (nv,); infinite: not measured       [N m, N]
    position    (low, high), numbers or (joints,) each; None: the joints' limits                  [rad, m]
    velocity    largest speeds, a number or (joints,); None: the joints' limits               [rad/s, m/s]
    effort      largest efforts, in the same form                                                 [N m, N]
    workspace   a function of q (nq,), of NumPy operators, whose results are positive inside the workspace
    base        of a robot that floats: the pose (7,) in which its base is held, or a function t (n,) -> q (n,
                7), v (n, 6), a (n, 6) of its motion, v and a body-fixed, with period `duration`. In the rows
                of the base, `noise` belongs to the wrench that holds it, as a force plate measures it
    criterion   "D": least volume of the confidence ellipsoid; "A": least sum of relative variances
    harmonics   number of harmonics in the Fourier series of each joint
    seed        seed of the random series from which the search starts

    Efforts are sampled `20 harmonics` times in a period. Positions and speeds keep their limits at all times:
    the limits of the samples are cos(pi / 20) times as large, because a trigonometric polynomial of degree K
    exceeds its samples at N equal distances at most by 1 / cos(pi K / N) (Ehlich and Zeller 1964). Efforts
    and workspace are checked at 8 times as many points. The search is local. Deviations belong to the samples
    of one period; n times as many samples with independent noise divide them by sqrt(n).

    A floating base has no motor and no series, so `base` gives its motion. `combinations` lists the
    combinations that this motion and the measured rows determine: if the base is held and its wrench is not
    measured, the base's own parameters are in none of them.

    Raises ModelError for a robot that floats without `base`, or has joints that turn in space, for limits
    that are missing, and if no random motion keeps the limits.

    Swevers et al. (1997), "Optimal robot excitation and identification"; Gautier and Khalil (1992), "Exciting
    trajectories for the identification of base inertial parameters of robots".
    """
    if criterion not in CRITERIA:
        raise ModelError(f"criterion is {criterion!r}, expected one of {', '.join(map(repr, CRITERIA))}")
    series = Series(positive("duration", duration, SECONDS), count("harmonics", harmonics, least=2))
    plan = PlannedMotion(robot, series, base)
    model = LinearModel(robot, bodies, losses, positive("v_s", v_s))
    deviations = _noise(noise, robot.nv)
    rng = np.random.default_rng(seed)
    # Base parameters are found from the rank of regressors at random states, here in place of a rank by
    # formulas: it holds for any closed chain, mimic joint and set of measured rows
    q, v, a = random_states(model, rng)
    if plan.base is not None:
        # the base is not free to be anywhere: its states come from its own motion
        given = plan.base.at(rng.uniform(0, series.duration, len(q)))
        q, v, a = plan.whole((q[:, plan.coordinates], v[:, plan.joints], a[:, plan.joints]), given)
    shown = combinations_of(model, (q, v, a), np.isfinite(deviations))
    if not len(shown.columns):
        raise ModelError("the efforts that are measured depend on none of the parameters")
    limits = MotionLimits.of(plan, position, velocity, effort)
    problem = ExcitationProblem(model, shown, plan, deviations, limits, workspace, criterion)
    return Excitation(problem, problem.within(problem.minimum(problem.start(np.random.default_rng(seed)))))


def _noise(given: Any, nv: int) -> Array:
    """Standard deviations (nv,), infinite for efforts that are not measured."""
    values = floats("noise", given, finite=False)
    if values.shape not in ((), (nv,)):
        raise wrong_shape("noise", values.shape, f"a number or ({nv},)")
    if not (values > 0).all() or np.isinf(values).all():
        raise ModelError(
            f"noise is {values}, expected positive standard deviations, infinite for efforts that are not "
            "measured, and one at least that is"
        )
    return np.broadcast_to(values, (nv,))


class MotionLimits(NamedTuple):
    """Limits of the joints that are driven, (joints,) each."""

    low: Array
    high: Array
    velocity: Array
    effort: Array

    @classmethod
    def of(cls, plan: PlannedMotion, position: Any, velocity: Any, effort: Any) -> MotionLimits:
        """As given, or the joints' own."""
        tree = plan.robot.tree
        own = {
            name: np.concatenate(
                [getattr(b.joint, name) for b in tree.bodies if b.joint.dim and b.joint.mimic is None]
            )[plan.joints]
            for name in ("velocity_limit", "effort_limit")
        }
        own_range = [x[plan.coordinates] for x in tree.coordinate_limits]
        low, high = own_range if position is None else _pair(position)
        given = {
            "low position": low,
            "high position": high,
            "velocity": own["velocity_limit"] if velocity is None else velocity,
            "effort": own["effort_limit"] if effort is None else effort,
        }
        limits = cls(*(_of_joints(f"{name} limit", x, len(plan.joints)) for name, x in given.items()))
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
        """Whether a joint has limits on both sides."""
        return np.isfinite(self.low) & np.isfinite(self.high)

    @property
    def middle(self) -> Array:
        """The middle of the range of positions; zero for a joint without two limits."""
        return np.where(self.bounded, self.low, 0.0) / 2 + np.where(self.bounded, self.high, 0.0) / 2

    @property
    def half(self) -> Array:
        """Half the range of the positions; one without two limits."""
        return np.where(self.bounded, self.high, 1.0) / 2 - np.where(self.bounded, self.low, -1.0) / 2


def _pair(position: Any) -> Any:
    """(low, high), numbers or (joints,) each."""
    if not isinstance(position, Sequence | np.ndarray) or len(position) != 2:
        raise ModelError(f"position is {position!r}, expected (low, high), numbers or (joints,) each")
    return position


def _of_joints(name: str, given: Any, joints: int) -> Array:
    """A number or (joints,), possibly infinite, as (joints,)."""
    values = floats(name, given, finite=False)
    if values.shape not in ((), (joints,)) or np.isnan(values).any():
        raise wrong_shape(name, values.shape, f"a number or ({joints},), none of them NaN")
    return np.broadcast_to(values, (joints,))


class Series:
    """Fourier series from rest: coefficients x (p, joints) times functions of time."""

    def __init__(self, duration: float, harmonics: int) -> None:
        self.duration = duration
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
        # The harmonics and their derivatives by time; the columns of _at_rest combine them so that speed
        # and acceleration vanish at t = 0
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


Motion = tuple[Array, Array, Array]
"""q, v, a"""


class BaseMotion:
    """The motion of a floating base, as the user gives it: a pose, or a function of time."""

    def __init__(self, given: Any, duration: float) -> None:
        self._function = given if callable(given) else None
        if self._function is None:
            pose = floats("base", given)
            if pose.shape != (7,) or abs(np.linalg.norm(pose[:4]) - 1) > OFF_UNIT:
                raise ModelError(
                    f"base is {pose}, expected a pose (7,), a unit quaternion (w, x, y, z) and a position, "
                    "or a function of time"
                )
            self._pose = pose
        else:
            self._check(np.linspace(0, duration, CHECKED, endpoint=False), 1e-4 * duration)

    def at(self, t: Array) -> Motion:
        """q (..., 7), v, a (..., 6) at times t (...)."""
        if self._function is None:
            q = np.broadcast_to(self._pose, (*t.shape, 7))
            return q, np.zeros((*t.shape, 6)), np.zeros((*t.shape, 6))
        results = self._function(np.ravel(t))
        if not (isinstance(results, Sequence) and len(results) == 3):
            raise ModelError(f"base returned {results!r}, expected q, v, a")
        parts = []
        for name, x, width in zip("qva", results, (7, 6, 6), strict=True):
            values = floats(f"{name} of the base", x)
            if values.shape != (t.size, width):
                raise wrong_shape(f"{name} of the base", values.shape, f"({t.size}, {width})")
            parts.append(values.reshape(*t.shape, width))
        return parts[0], parts[1], parts[2]

    def _check(self, t: Array, h: float) -> None:
        """Raise ModelError if v differs from the body-fixed rates of the poses, or a from the rates of v."""
        (before, v_before, _), (after, v_after, _) = self.at(t - h), self.at(t + h)
        q, v, a = self.at(t)
        if (np.abs(np.linalg.norm(q[:, :4], axis=1) - 1) > OFF_UNIT).any():
            raise ModelError("the base has quaternions without norm 1; divide them by their norm")
        rates = np.array([Free().difference(*x) for x in zip(before, after, strict=True)]) / (2 * h)
        if np.linalg.norm(rates - v) > 0.1 * np.linalg.norm(v) + 1e-6:
            raise ModelError(
                "velocities of the base are not those of its poses; v and a are body-fixed, rotation first"
            )
        if np.linalg.norm((v_after - v_before) / (2 * h) - a) > 0.1 * np.linalg.norm(a) + 1e-6:
            raise ModelError("accelerations of the base are not the rates of its velocities, a = dv/dt")


class PlannedMotion:
    """The motion of a robot as a function of coefficients x (p, joints): series of joints, and of the base.

    joints       velocities that have series, in v
    coordinates  their places in q
    """

    def __init__(self, robot: Robot, series: Series, base: Any) -> None:
        self.robot = robot
        self.series = series
        floating = [body for body in robot.tree.bodies if isinstance(body.joint.group, Free)]
        if robot.nq - robot.nv != len(floating) or len(floating) > 1:
            raise ModelError(
                f"{robot.name} has joints that turn in space; motions are found for hinges and slides"
            )
        if floating and base is None:
            raise ModelError(
                f"{robot.name} floats, and no motor drives its base: give `base`, the pose (7,) in which it "
                "is held, or its motion"
            )
        if base is not None and not floating:
            raise ModelError(f"{robot.name} does not float, so that `base` has no meaning; leave it out")
        dofs, coordinates = np.arange(robot.nv), np.arange(robot.nq)
        self.base = BaseMotion(base, series.duration) if floating else None
        self._dofs = dofs[floating[0].dofs] if floating else dofs[:0]
        self._coordinates = coordinates[floating[0].coordinates] if floating else coordinates[:0]
        self.joints = np.setdiff1d(dofs, self._dofs)
        self.coordinates = np.setdiff1d(coordinates, self._coordinates)
        self._base_at_samples = None if self.base is None else self.base.at(series.t)

    def at_samples(self, x: Array) -> Motion:
        """The motion at the times of the series."""
        f, df, ddf = self.series.functions
        return self.whole((f @ x, df @ x, ddf @ x), self._base_at_samples)

    def at(self, x: Array, t: Array) -> Motion:
        """The motion at times t."""
        f, df, ddf = self.series.functions_at(t)
        return self.whole((f @ x, df @ x, ddf @ x), None if self.base is None else self.base.at(t))

    def whole(self, joints: Motion, base: Motion | None) -> Motion:
        """q, v, a of the robot, from q, v, a of the joints and of the base."""
        if base is None:
            return joints
        parts = []
        sizes = (self.robot.nq, self.robot.nv, self.robot.nv)
        own = (self.coordinates, self.joints, self.joints)
        others = (self._coordinates, self._dofs, self._dofs)
        for size, at_joints, at_base, x, y in zip(sizes, own, others, joints, base, strict=True):
            values = np.zeros((*x.shape[:-1], size))
            values[..., at_joints], values[..., at_base] = x, y
            parts.append(values)
        return parts[0], parts[1], parts[2]


def _null(row: Array) -> Array:
    """Orthonormal columns (n, n - 1) whose products with the row are zero."""
    return np.linalg.svd(row[None, :])[2][1:].T


class ExcitationProblem:
    """The criterion and the slacks of the limits as functions of the coefficients x (p, joints).

    shown  the combinations of parameters to be estimated
    """

    def __init__(
        self,
        model: LinearModel,
        shown: Combinations,
        plan: PlannedMotion,
        noise: Array,
        limits: MotionLimits,
        workspace: Callable[..., Any] | None,
        criterion: str,
    ) -> None:
        self.robot = model.robot
        self.model = model
        self.shown = shown
        self.plan = plan
        self.noise = noise
        self.limits = limits
        self.workspace = workspace
        self.criterion = criterion
        # Sizes of base parameters, for relative variances
        self.sizes = np.linalg.norm(shown.K * model.sizes(), axis=1)

    def at(self, x: Array) -> Trial:
        """All that depends on the coefficients."""
        return Trial(self, x)

    # -- the criterion ------------------------------------------------------------------------------------

    def criterion_of(self, information: Array) -> float:
        """Smaller is better; infinite for a motion that does not show all."""
        try:
            # Information of parameters over their sizes, F = L L^T: then variances of masses [kg] and of
            # inertias [kg m^2] may be added
            L = np.linalg.cholesky(information * np.outer(self.sizes, self.sizes))
        except np.linalg.LinAlgError:
            return np.inf
        if self.criterion == "D":
            # log det F^-1 = -2 sum log L_ii
            return float(-2 * np.log(np.diag(L)).sum())
        # trace F^-1 = |L^-1|^2. Its logarithm, times the number of parameters, changes with amplitudes as
        # log det does, so that the same weights of barriers serve both criteria
        inverse = np.linalg.inv(L)
        return len(L) * float(np.log(np.sum(inverse**2)))

    def through_columns(self, motion: Motion, weights: Array) -> Motion:
        """Gradients of sum(weights * columns) by q, v, a of the joints."""
        q, v, a = motion
        size = len(PARAMETERS)
        # The regressor has ten columns for each body of the robot, weights for the model's bodies alone
        of_regressor = np.zeros((*v.shape, size * len(self.robot.tree.bodies)))
        for k, body in enumerate(self.model.bodies):
            at = slice(size * (body.index - 1), size * body.index)
            of_regressor[..., at] = weights[..., size * k : size * (k + 1)]
        pull = self.robot.derivatives("inverse_dynamics_regressor", ("q", "v", "a"), product="vjp")
        by_q, by_v, by_a = pull(q, v, a, of_regressor)
        more_v, more_a = self.model.slopes(v, weights)
        joints = self.plan.joints
        return by_q[:, joints], (by_v + more_v)[:, joints], (by_a + more_a)[:, joints]

    # -- the limits ---------------------------------------------------------------------------------------

    def slacks(self, motion: Motion, shrunk: float = 1.0) -> list[Array]:
        """Distance to each limit (samples, ...), over the limit's size; positive within all limits.

        shrunk  factor of half ranges and speeds
        """
        q, v, a = motion
        at, speed = q[:, self.plan.coordinates], v[:, self.plan.joints]
        low, high, velocity, effort = self.limits
        bounded, half, middle = self.limits.bounded, self.limits.half, self.limits.middle
        # Only a range with two ends has a middle to shrink towards; one end alone stays where it is
        from_low = at - np.where(bounded, middle - shrunk * half, low)
        from_high = np.where(bounded, middle + shrunk * half, high) - at
        slacks = [from_low / half, from_high / half, shrunk - speed / velocity, shrunk + speed / velocity]
        if np.isfinite(effort).any():
            tau = self.robot.inverse_dynamics(q, v, a)[:, self.plan.joints]
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
        return Kernel(function), derivatives(function, "q", groups={"q": self.robot.group})

    @property
    def shrunk(self) -> float:
        """Factor of limits of samples, so that they hold between samples."""
        return float(np.cos(np.pi / POINTS))

    def barrier_derivatives(self, trial: Trial) -> tuple[Array, Array]:
        """Gradient (p joints,) and Gauss-Newton Hessian of the barrier: sum of ds ds^T / s^2."""
        motion = trial.motion
        f, df, ddf = self.plan.series.functions
        velocity, effort, half = self.limits.velocity, self.limits.effort, self.limits.half
        joints, p = self.plan.joints, self.plan.series.size
        count = len(joints)
        one = np.eye(count)
        # Each limit by q, v, a of its sample: (samples, limits, joints) each, None: zero
        by_q, by_v = one / half[:, None], one / velocity[:, None]
        parts: list[tuple[Array | None, Array | None, Array | None]] = [
            (by_q, None, None), (-by_q, None, None), (None, -by_v, None), (None, by_v, None)
        ]  # fmt: skip
        if np.isfinite(effort).any():
            changes = self.robot.inverse_dynamics_derivatives(*motion)
            rates = [x[:, joints[:, None], joints] / effort[:, None] for x in changes]
            parts += [(-rates[0], -rates[1], -rates[2]), (rates[0], rates[1], rates[2])]
        if self._workspace:
            parts.append((np.asarray(self._workspace[1](motion[0]))[..., joints], None, None))
        gradient, hessian = np.zeros(p * count), np.zeros((p * count, p * count))
        for s, rows in zip(trial.slacks, parts, strict=True):
            # ds/dx = ds/dq f + ds/dv df + ds/da ddf, for each sample and limit; -log s has the gradient -ds
            # / s and the Gauss-Newton Hessian ds ds^T / s^2
            D = np.zeros((len(f), s.shape[1], p, count))
            for by, functions in zip(rows, (f, df, ddf), strict=True):
                if by is not None:
                    by = np.broadcast_to(by, (len(f), s.shape[1], count))
                    D += functions[:, None, :, None] * by[:, :, None, :]
            D = (D / s[..., None, None]).reshape(-1, p * count)
            gradient -= D.sum(axis=0)
            hessian += D.T @ D
        return gradient, hessian

    # -- the search ---------------------------------------------------------------------------------------

    def start(self, rng: np.random.Generator) -> Array:
        """The best of some random series, each as large as the limits allow."""
        best, least = None, np.inf
        for _ in range(STARTS):
            x = self.random(rng)
            if x is not None and (cost := self.at(x).criterion) < least:
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
        series, joints = self.plan.series, len(self.plan.joints)
        x = rng.normal(size=(series.size, joints))
        # Amplitudes in proportion to what each joint may do.
        x *= np.minimum(half, velocity * series.duration / (2 * np.pi))
        # the mean stays away from the ends of the range, where no wave would have room
        x[0] = middle + rng.uniform(-0.6, 0.6, joints) * half
        return self._scaled(x, lambda y: np.isfinite(self.at(y).barrier), SHARE)

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
        series = self.plan.series
        t = np.arange(FINE * len(series.t)) * (series.duration / (FINE * len(series.t)))
        functions = series.functions_at(t)
        base = None if self.plan.base is None else self.plan.base.at(t)

        def allowed(y: Array) -> bool:
            motion = self.plan.whole((functions[0] @ y, functions[1] @ y, functions[2] @ y), base)
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
        best = self.at(x)
        # The first approximation of the criterion's Hessian: a multiple of one whose first step is about as
        # long as x
        size = float(np.linalg.norm(best.gradient))
        B = np.eye(x.size) * size / max(float(np.linalg.norm(x)), 1e-6)
        for mu in BARRIERS:
            for _ in range(STEPS):
                g = best.gradient.ravel()
                by_barrier, hessian = self.barrier_derivatives(best)
                slope = g + mu * by_barrier
                step = -np.linalg.solve(B + mu * hessian, slope)
                descent = float(slope @ step)
                # Backtracking: the barrier is infinite outside the limits, so that no trial leaves them;
                # the step has to bring a part of the decrease that the slope promises (Armijo)
                length = 1.0
                while length > SHORTEST:
                    trial = self.at(best.x + length * step.reshape(x.shape))
                    if np.isfinite(trial.barrier):
                        decrease = best.criterion + mu * best.barrier
                        decrease -= trial.criterion + mu * trial.barrier
                        if decrease >= -ARMIJO * length * descent:
                            break
                    length *= 0.5
                else:
                    break
                # only the criterion is approximated, the barrier's Hessian is computed anew at each step
                B = _updated(B, length * step, trial.gradient.ravel() - g)
                best = trial
                if decrease < SETTLED:
                    break
        return best.x


class Trial:
    """A motion with coefficients x; what depends on them is computed once, when it is asked for."""

    def __init__(self, problem: ExcitationProblem, x: Array) -> None:
        self.x = x
        self._problem = problem

    @cached_property
    def motion(self) -> Motion:
        """q, v, a at the samples."""
        return self._problem.plan.at_samples(self.x)

    @cached_property
    def _rows(self) -> Array:
        """Columns of base parameters over the noise, (samples, nv, r)."""
        problem = self._problem
        A: Array = problem.model.columns(*self.motion)[..., problem.shown.columns] / problem.noise[:, None]
        return A

    @cached_property
    def information(self) -> Array:
        """J^T J of the base parameters (r, r)."""
        A = self._rows.reshape(-1, self._rows.shape[-1])
        return A.T @ A

    @cached_property
    def criterion(self) -> float:
        """The value of `criterion` for this motion's information."""
        return self._problem.criterion_of(self.information)

    @cached_property
    def gradient(self) -> Array:
        """Derivative of the criterion by x: one product of the regressor's transposed derivative."""
        problem = self._problem
        # d log det F^-1 = -2 tr(F^-1 A^T dA);  d tr(W F^-1) = -2 tr(F^-1 W F^-1 A^T dA), A the rows over
        # noise
        M = np.linalg.inv(self.information)
        if problem.criterion == "D":
            by_rows = -2 * self._rows @ M
        else:
            weighted = M / problem.sizes**2
            by_rows = -2 * len(M) / np.trace(weighted) * self._rows @ (weighted @ M)
        # From rows to columns of all parameters: those that are combined into others have no weight
        weights = np.zeros((*by_rows.shape[:2], len(problem.model.entries)))
        weights[..., problem.shown.columns] = by_rows / problem.noise[:, None]
        by_q, by_v, by_a = problem.through_columns(self.motion, weights)
        f, df, ddf = problem.plan.series.functions
        return f.T @ by_q + df.T @ by_v + ddf.T @ by_a

    @cached_property
    def slacks(self) -> list[Array]:
        """Of limits that are tightened such that they hold between samples."""
        return self._problem.slacks(self.motion, self._problem.shrunk)

    @cached_property
    def barrier(self) -> float:
        """-sum log of all slacks; infinite outside."""
        if min(float(s.min()) for s in self.slacks) <= 0:
            return np.inf
        return -float(sum(np.log(s[np.isfinite(s)]).sum() for s in self.slacks))


def _updated(B: Array, s: Array, y: Array) -> Array:
    """BFGS update of B for a step s with the change y of the gradient, damped: B stays positive definite."""
    Bs = B @ s
    curvature = float(s @ Bs)
    if curvature <= 0:
        return B
    # Powell's damping: y is moved towards B s until s^T y is DAMPED times the curvature that B has
    if s @ y < DAMPED * curvature:
        theta = (1 - DAMPED) * curvature / (curvature - float(s @ y))
        y = theta * y + (1 - theta) * Bs
    return B - np.outer(Bs, Bs) / curvature + np.outer(y, y) / float(s @ y)
