"""Linear identification: parameters of bodies and joints from accelerations and efforts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, floats, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ModelError, positive
from ..robot import Robot
from ..scalars import Array
from .combinations import base_parameters
from .consistency import Barrier, least_squares, seen
from .linear_model import LinearModel
from .results import Estimates, robot_with

ROUNDING = 1e-12  # of the efforts: noise that is found is not smaller
PASSES = 4  # of weights from residuals
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Combination(NamedTuple):
    """A base parameter: what it is, its estimate, and the standard deviation of that."""

    name: str
    value: float
    deviation: float


class LinearFit(Estimates):
    """Estimates by linear identification; made by `linear`.

    coordinates  of each body m, h = m c, and the inertia about its frame's origin; then of joints (n,)
    entries      their names: "link2.m", "link2.h_x", ..., "joint1.damping"
    values       {parameter: value}, as `robot.parameters` have them; a start for `fit`
    noise        standard deviations of the efforts (nv,), given or found
    bounded      whether the least squares belong to bodies that cannot be. The estimates are then the nearest
                 ones that can, and deviations are those without this bound
    """

    def __init__(
        self,
        model: LinearModel,
        x: Array,
        information: Array,
        residuals: Array,
        noise: Array,
        bounded: bool,
        seed: int,
    ) -> None:
        values, derivative = model.values(x)
        super().__init__(
            x, model.entries, model.sizes(), values, derivative, information, {"samples": {"tau": residuals}}
        )
        self.noise = noise
        self.bounded = bounded
        self._model = model
        self._seed = seed

    @cached_property
    def robot(self) -> Robot:
        """The robot with the estimates; offsets are no part of it."""
        return robot_with(self._model.robot, self.values)

    @cached_property
    def combinations(self) -> list[Combination]:
        """The base parameters of the robot, by name: what any recording can tell.

        An infinite deviation says that this one does not.
        """
        model = self._model
        base = base_parameters(
            model.robot,
            [body.name for body in model.bodies],
            losses=model.losses,
            v_s=model.v_s,
            seed=self._seed,
        )
        numbers = zip(base.names, base.K @ self.coordinates, self.deviations_of(base.K), strict=True)
        return [Combination(name, float(x), float(deviation)) for name, x, deviation in numbers]

    def _ended(self) -> str:
        return "; at the boundary of bodies that exist" if self.bounded else ""


@checked
def linear(
    robot: Robot,
    q: Array,
    v: Array,
    a: Array,
    tau: Array,
    bodies: str | Iterable[str] | None = None,
    *,
    losses: str | Iterable[str] = (),
    noise: Any = None,
    contacts: Mapping[str, Any] = NOTHING,
    consistent: bool = True,
    v_s: float = 1e-2,
    seed: int = 0,
) -> LinearFit:
    """Estimate inertial parameters and losses of joints from efforts, by weighted least squares.

        found = lb.identification.linear(robot, q, v, a, tau, losses=["damping", "friction"])
        print(found)
        found.combinations                         # base parameters by name, with deviations
        fit(robot, recordings, ["link6"], dt=1e-3, start=found.values)

    Efforts are linear in the parameters (`Robot.inverse_dynamics_regressor`), so there is one solution:

        tau + sum J^T F = Y(q, v, a) pi + D v + f tanh(v / v_s) + A a + c

    q, v, a     samples (n, nq), (n, nv), (n, nv), filtered such that accelerations have no bias
    tau         generalized forces (n, nv) of the motors, without gravity and contacts: zero in the rows of a
                floating base. NaN: not measured                                                      [N m, N]
    bodies      names of bodies whose mass, centre and inertia are free; None: all with mass. Others stay
    losses      terms to estimate for every joint: "damping", "friction", "armature", "offset" (of the effort
                sensor). Terms that are not named are zero, except the armature, which stays the robot's own
    noise       standard deviation of tau: a number, (nv,) or (n, nv). None: estimated for each joint from
                its residuals (Gautier 1997), so that chi squared is 1 by construction
    contacts    {frame: forces (n, 3), or moments and forces (n, 6)} that act on the robot there, in axes of
                the world at the origin of the frame                                                  [N m, N]
    consistent  True: estimates are physically consistent, with positive definite pseudo-inertias and
                positive losses. If the least squares solution is, it is the result; otherwise a convex
                problem gives the nearest consistent one (`consistency`)
    v_s         transition speed of the friction, as in `JointFriction`                           [rad/s, m/s]
    seed        seed of the random states that determine `combinations`

    Combinations that the samples do not determine keep the robot's own values, or values close to these;
    `unseen` names the parameters.

    Raises ModelError for unknown names and for efforts that are all NaN, ShapeError for arrays that do not
    fit together.

    Atkeson, An and Hollerbach (1986); Wensing, Kim and Slotine (2018), "Linear matrix inequalities for
    physically consistent inertial parameter identification"; Lee, Wensing and Park (2019), "Geometric robot
    dynamic identification: a convex programming approach".
    """
    model = LinearModel(robot, bodies, losses, positive("v_s", v_s))
    samples = EffortSamples(robot, q, v, a, tau)
    n = len(samples.q)
    own = model.own
    A = model.columns(samples.q, samples.v, samples.a)
    b = model.rest(samples.q, samples.v, samples.a, samples.tau, contacts) + A @ own
    scales = model.sizes()
    deviations = (
        noise_of(A, b, samples.tau, scales)
        if noise is None
        else broadcast("noise", noise, (n, robot.nv), robot.nv)
    )
    rows, y = weighted(A, b, deviations)
    bounded = False
    if consistent:
        x, bounded = least_squares(rows, y, scales, _barrier(model, rows, y, scales))
    else:
        x = own + nearest(rows, y - rows @ own, scales)[0]
    residuals = (b - A @ x) / deviations
    return LinearFit(model, x, rows.T @ rows, residuals, np.mean(deviations, axis=0), bounded, seed)


class EffortSamples:
    """Samples of a motion with the efforts that made it, (n, nq), (n, nv), (n, nv), (n, nv); checked."""

    def __init__(self, robot: Robot, q: Array, v: Array, a: Array, tau: Array) -> None:
        self.q = floats("q", q)
        self.v = floats("v", v)
        self.a = floats("a", a)
        self.tau = floats("tau", tau, finite=False)
        for name, width in (("q", robot.nq), ("v", robot.nv), ("a", robot.nv), ("tau", robot.nv)):
            shape = getattr(self, name).shape
            if shape != (len(np.atleast_1d(self.q)), width):
                raise wrong_shape(name, shape, f"(samples, {width}), with as many samples as q")
        if not np.isfinite(self.tau).any():
            raise ModelError("no effort is measured: all of tau is NaN")


def broadcast(name: str, given: Any, shape: tuple[int, ...], width: int) -> Array:
    """Positive numbers in this shape, given as a number, (width,) or all of them."""
    values = floats(name, given)
    if values.shape not in ((), (width,), shape):
        raise wrong_shape(name, values.shape, f"a number, ({width},) or {shape}")
    if not (values > 0).all():
        raise ModelError(f"{name} is {values.min()}, expected positive standard deviations")
    return np.broadcast_to(values, shape)


def weighted(A: Array, b: Array, deviations: Array) -> tuple[Array, Array]:
    """Rows (m, n) and (m,) of all efforts that are measured, in units of their noise."""
    measured = np.isfinite(b)
    return A[measured] / deviations[measured][:, None], b[measured] / deviations[measured]


def nearest(A: Array, b: Array, scales: Array) -> tuple[Array, int]:
    """The shortest x, in units of the scales, of least |A x - b|; how many directions of x the data sees."""
    singular, V, c = seen(A * scales, b)
    is_seen = singular > 0
    return scales * (V[:, is_seen] @ (c[is_seen] / singular[is_seen])), int(np.count_nonzero(is_seen))


def noise_of(A: Array, b: Array, tau: Array, scales: Array) -> Array:
    """Standard deviations (samples, nv) of the efforts of each joint, by residuals of weighted least squares.

    The weights of a pass are the deviations that the pass before it has found.
    """
    size = float(np.sqrt(np.nanmean(tau**2))) or 1.0
    deviations = np.full(b.shape[1], size)
    for _ in range(PASSES):
        rows, y = weighted(A, b, np.broadcast_to(deviations, b.shape))
        x, rank = nearest(rows, y, scales)
        r = b - A @ x
        measured = np.isfinite(r)
        # Degrees of freedom are shared by the joints in proportion to their samples.
        share = max(1 - rank / len(y), 1 / len(y))
        counts = np.maximum(measured.sum(axis=0) * share, 1)
        squares = np.where(measured, r, 0.0) ** 2
        deviations = np.maximum(np.sqrt(squares.sum(axis=0) / counts), ROUNDING * size)
    return np.broadcast_to(deviations, b.shape)


def _barrier(model: LinearModel, A: Array, b: Array, scales: Array) -> Barrier:
    """Around the robot's own bodies; around its own losses, or the plain estimates of these."""
    is_positive = [not name.partition("[")[0].endswith(".offset") for name in model.entries]
    losses = np.flatnonzero(is_positive)[model.inertial :]
    plain = np.abs(nearest(A, b, scales)[0])[losses]
    own = model.own[losses]
    levels = np.where(own > 0, own, np.where(plain > 0, plain, 1.0))
    return Barrier(model.references(), losses, levels)
