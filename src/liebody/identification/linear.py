"""Linear identification: parameters of bodies and joints from accelerations and efforts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import checked, floats, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import ModelError, ShapeError, known, positive
from ..robot import Robot
from ..scalars import Array
from .combinations import base_parameters
from .consistency import Barrier, Decomposition, least_squares
from .linear_model import LinearModel
from .results import EffortEstimates, robot_with

ROUNDING = 1e-12  # of the efforts: noise that is found is not smaller
PASSES = 4  # of weights from residuals
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Combination(NamedTuple):
    """A base parameter: what it is, its estimate, and the standard deviation of that."""

    name: str
    value: float
    deviation: float


class LinearFit(EffortEstimates):
    """Estimates by linear identification; made by `linear`.

    coordinates  of each body m, h = m c, and the inertia about its frame's origin; then of joints (n,)
    entries      their names: "link2.m", "link2.h_x", ..., "joint1.damping"
    values       {parameter: value}, as `robot.parameters` have them; a start for `fit`
    noise        standard deviations of the efforts (nv,), given or found
    bounded      whether the least squares belong to bodies that cannot exist. The estimates then describe the
                 nearest bodies that can, and deviations are computed without this bound
    """

    def __init__(self, model: LinearModel, solution: LinearSolution, seed: int) -> None:
        x = solution.x
        values, derivative = model.values(x)
        super().__init__(
            x, model.entries, model.sizes(), values, derivative, solution.information,
            {"samples": {"tau": solution.residuals}}, noise=solution.noise, bounded=solution.bounded,
        )  # fmt: skip
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


class LinearFits(Sequence[LinearFit]):
    """Estimates from a batch of recordings; made by `linear` of arrays with leading axes.

        fits[3]                                    # a `LinearFit`, in the order of the flat batch
        fits.values["link6.mass"]                  # (*shape, ...)

    shape        leading axes of the batch
    coordinates  (*shape, n)
    """

    def __init__(self, shape: tuple[int, ...], fits: Sequence[LinearFit]) -> None:
        self.shape = shape
        self._fits = list(fits)
        self.entries = self._fits[0].entries

    def __len__(self) -> int:
        return len(self._fits)

    def __getitem__(self, index: Any) -> Any:
        return self._fits[index]

    @property
    def coordinates(self) -> np.ndarray:
        """Estimates of all coordinates, (*shape, n)."""
        return self._stacked([fit.coordinates for fit in self._fits])

    @property
    def values(self) -> dict[str, np.ndarray]:
        """{parameter: values (*shape, ...)}."""
        return {
            name: self._stacked([fit.values[name] for fit in self._fits]) for name in self._fits[0].values
        }

    @property
    def deviations(self) -> dict[str, np.ndarray]:
        """{parameter: standard deviations (*shape, ...)}."""
        names = self._fits[0].values
        return {name: self._stacked([fit.deviations[name] for fit in self._fits]) for name in names}

    def deviations_of(self, D: Array) -> np.ndarray:
        """Standard deviations (*shape, m) of quantities with the derivative D (m, n) by the coordinates."""
        # Members that share their motion and noise share their information.
        deviations: dict[int, Array] = {}
        for fit in self._fits:
            if id(fit.information) not in deviations:
                deviations[id(fit.information)] = fit.deviations_of(D)
        return self._stacked([deviations[id(fit.information)] for fit in self._fits])

    def _stacked(self, rows: list[Any]) -> np.ndarray:
        stacked = np.array(rows)
        return stacked.reshape(*self.shape, *stacked.shape[1:])

    def __repr__(self) -> str:
        return f"{len(self)} fits of {', '.join(self._fits[0].values)}"


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
    contact_noise: Mapping[str, Any] = NOTHING,
    consistent: bool = True,
    v_s: float = 1e-2,
    seed: int = 0,
) -> Any:
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
    contact_noise  {frame: standard deviations} of these: a number, one for each entry, or (n, entries). A
                force enters the rows of all joints that carry its frame, so noise of these is correlated:
                the covariance of rows is  diag(noise^2) + sum J^T diag(contact_noise^2) J. Then `noise` has
                to be given, and may be zero, as in the rows of a floating base
    consistent  True: estimates are physically consistent, with positive definite pseudo-inertias and
                positive losses. If the least squares solution is, it is the result; otherwise a convex
                problem gives the nearest consistent one (`consistency`)
    v_s         transition speed of the friction, as in `JointFriction`                           [rad/s, m/s]
    seed        seed of the random states that determine `combinations`

    Combinations that the samples do not determine keep the robot's own values, or values close to these;
    `unseen` names the parameters.

    Arrays of samples may have leading axes, which broadcast: 1000 recordings tau (1000, n, nv) of one motion
    q, v, a, for instance. The result is then `LinearFits`, a sequence of `LinearFit`. Columns and their
    decomposition are computed once for all recordings that share motion and noise.

    Raises ModelError for unknown names and for efforts that are all NaN, ShapeError for arrays that do not
    fit together.

    Atkeson, An and Hollerbach (1986); Wensing, Kim and Slotine (2018), "Linear matrix inequalities for
    physically consistent inertial parameter identification"; Lee, Wensing and Park (2019), "Geometric robot
    dynamic identification: a convex programming approach".
    """
    model = LinearModel(robot, bodies, losses, positive("v_s", v_s))
    samples = EffortSamples(robot, q, v, a, tau, contacts)
    system = EffortSystem(model, samples, contacts, noise, contact_noise)
    # One after the other, so that the columns of one member are in memory at a time.
    solutions = system.solutions(model.own, model.sizes(), _barrier if consistent else None)
    fits = [LinearFit(model, solution, seed) for solution in solutions]
    return LinearFits(samples.shape, fits) if samples.shape else fits[0]


class EffortSamples:
    """Samples of motions with the efforts that made them, checked: (..., n, nq), (..., n, nv) of v, a, tau.

    shape    leading axes of all of them together
    is_one   whether there is one motion, and only efforts differ
    """

    def __init__(
        self, robot: Robot, q: Array, v: Array, a: Array, tau: Array, contacts: Mapping[str, Any] = NOTHING
    ) -> None:
        self.q = floats("q", q)
        self.v = floats("v", v)
        self.a = floats("a", a)
        self.tau = floats("tau", tau, finite=False)
        samples = np.atleast_2d(self.q).shape[-2]
        for name, width in (("q", robot.nq), ("v", robot.nv), ("a", robot.nv), ("tau", robot.nv)):
            shape = getattr(self, name).shape
            if shape[-2:] != (samples, width):
                raise wrong_shape(name, shape, f"(samples, {width}), with as many samples as q")
        # Leading axes of the motion and of what was measured along it: a batch broadcasts both
        moving = [x.shape[:-2] for x in (self.q, self.v, self.a)]
        others = [self.tau.shape[:-2], *(np.shape(x)[:-2] for x in contacts.values())]
        try:
            self.shape = np.broadcast_shapes(*moving, *others)
        except ValueError:
            raise ShapeError(
                f"leading axes of q, v, a, tau and contacts are {moving + others}, expected axes that "
                "broadcast"
            ) from None
        if 0 in self.shape:
            raise ShapeError(f"leading axes of the batch are {self.shape}, expected one recording at least")
        self.is_one = not any(moving)
        if not np.isfinite(self.tau).any(axis=(-2, -1)).all():
            raise ModelError("no effort is measured: all of tau is NaN")

    def motions(self) -> Iterator[tuple[Array, Array, Array]]:
        """q, v, a of each member of the batch, in its flat order."""
        arrays = [np.broadcast_to(x, (*self.shape, *x.shape[-2:])) for x in (self.q, self.v, self.a)]
        for index in np.ndindex(self.shape):
            yield arrays[0][index], arrays[1][index], arrays[2][index]


class LinearSolution(NamedTuple):
    """Estimates x (n,), rows (m, n) of the columns over the noise, and what else a result tells.

    information  rows^T rows (n, n)
    residuals    (samples, nv), in units of the noise
    noise        standard deviations (nv,)
    """

    x: Array
    rows: Array
    information: Array
    residuals: Array
    noise: Array
    bounded: bool


class Weights:
    """The noise of the efforts of samples: deviations (samples, nv), or a covariance (samples, nv, nv)."""

    def __init__(self, deviations: Array, covariance: Array | None, measured: Array) -> None:
        self.deviations = deviations
        self.measured = measured
        self._root = None
        if covariance is not None:
            # The efforts that are measured have the covariance without the rows and columns of others.
            pairs = measured[:, :, None] & measured[:, None, :]
            S = np.where(pairs, covariance, np.eye(covariance.shape[-1]))
            try:
                self._root = np.linalg.inv(np.linalg.cholesky(S))
            except np.linalg.LinAlgError:
                raise ModelError(
                    "noise and contact_noise leave some effort without noise; give positive numbers to "
                    "`noise` in its row"
                ) from None

    def over(self, rows: Array) -> Array:
        """Rows (samples, nv, ...) in units of the noise; zero for efforts that are not measured."""
        shape = (*self.measured.shape, *[1] * (rows.ndim - 2))
        # rows of efforts that were not measured hold NaN, which no product may reach
        present = np.where(self.measured.reshape(shape), rows, 0.0)
        if self._root is None:
            return present / self.deviations.reshape(shape)
        # S = L L^T: the rows L^-1 (A x - b) have noise of deviation one, and are independent
        weighted: Array = np.einsum("sij,sj...->si...", self._root, present)
        return weighted


class EffortSystem:
    """The equations  A x = b + noise  of all recordings of a batch.

    placed  (columns (..., nv, n)) -> the columns of other parameters, linear in the model's
    """

    def __init__(
        self,
        model: LinearModel,
        samples: EffortSamples,
        contacts: Mapping[str, Any],
        noise: Any,
        contact_noise: Mapping[str, Any] = NOTHING,
        placed: Callable[[Array], Array] = lambda columns: columns,
    ) -> None:
        self.model = model
        self.samples = samples
        self.placed = placed
        nv = model.robot.nv
        self.rest = model.rest(samples.q, samples.v, samples.a, samples.tau, contacts)
        shape = (samples.tau.shape[-2], nv)
        self.rest = np.broadcast_to(self.rest, (*samples.shape, *shape))
        self.tau = np.broadcast_to(samples.tau, (*samples.shape, *shape))
        if noise is None and contact_noise:
            raise ModelError(
                "contact_noise is given, but no noise of the efforts; give `noise`, zero in the rows of a "
                "floating base"
            )
        self.deviations = (
            None if noise is None else broadcast("noise", noise, shape, nv, zero=bool(contact_noise))
        )
        self._contact_noise = {
            frame: self._of_contact(frame, given, contacts) for frame, given in contact_noise.items()
        }

    def _of_contact(self, frame: str, given: Any, contacts: Mapping[str, Any]) -> Array:
        """Standard deviations (samples, k) of the forces at a frame."""
        if frame not in contacts:
            raise ModelError(
                f"there is noise of the contact {frame!r}, which has no forces; {known(contacts, frame)}"
            )
        values = floats(f"contact_noise[{frame!r}]", given)
        shape = np.shape(contacts[frame])[-2:]
        if not (values >= 0).all():
            raise ModelError(f"contact_noise[{frame!r}] is {values.min()}, expected standard deviations")
        try:
            return np.broadcast_to(values, shape)
        except ValueError:
            raise wrong_shape(
                f"contact_noise[{frame!r}]", values.shape, f"a number, ({shape[-1]},) or {shape}"
            ) from None

    def _covariance(self, q: Array) -> Array | None:
        """Covariance of the efforts in each sample (samples, nv, nv); None if it is diagonal."""
        if not self._contact_noise or self.deviations is None:
            return None
        S = self.deviations[:, :, None] ** 2 * np.eye(self.model.robot.nv)
        for frame, deviations in self._contact_noise.items():
            # a force F with noise s enters the efforts as J^T F: their covariance grows by J^T diag(s^2) J
            J = deviations[:, :, None] * self.model.contact_rows(q, frame, deviations)
            S = S + J.swapaxes(1, 2) @ J
        return S

    def solutions(
        self,
        own: Array,
        scales: Array,
        barrier: Callable[[LinearModel, Decomposition, Array], Barrier] | None,
    ) -> Iterator[LinearSolution]:
        """The estimates of each member: least squares nearest to `own`, or those inside the barrier."""
        # Members of one motion share its columns, and, if they measure the same efforts with the same noise,
        # the decomposition of these.
        A: Array | None = None
        decomposed: dict[bytes, tuple[Weights, Array, Decomposition, Array]] = {}
        members = zip(self.samples.motions(), _members(self.tau), _members(self.rest), strict=True)
        for motion, tau, rest in members:
            if A is None or not self.samples.is_one:
                A, decomposed = self.placed(self.model.columns(*motion)), {}
            # tau less all that is known = rest + A own, so that the unknown is x itself and not a change
            b = rest + A @ own
            measured = np.isfinite(b)
            # without given noise the weights follow from the residuals of each member, and nothing is
            # shared
            key = measured.tobytes()
            if self.deviations is None or key not in decomposed:
                deviations = noise_of(A, b, tau, scales) if self.deviations is None else self.deviations
                weights = Weights(deviations, self._covariance(motion[0]), measured)
                rows = weights.over(A)[measured]
                decomposed[key] = weights, rows, Decomposition(rows, scales), rows.T @ rows
            weights, rows, decomposition, information = decomposed[key]
            y = weights.over(b)[measured]
            bounded = False
            if barrier is not None:
                x, bounded = least_squares(decomposition, y, barrier(self.model, decomposition, y))
            else:
                x = own + decomposition.nearest(weights.over(rest)[measured])
            residuals = np.where(measured, weights.over(b - A @ x), np.nan)
            noise = np.mean(weights.deviations, axis=0)
            yield LinearSolution(x, rows, information, residuals, noise, bounded)


def _members(batch: Array) -> Array:
    """The members of a batch (..., samples, k) along one axis."""
    return batch.reshape(-1, *batch.shape[-2:])


def broadcast(name: str, given: Any, shape: tuple[int, ...], width: int, zero: bool = False) -> Array:
    """Positive numbers in this shape, given as a number, (width,) or all of them; zeros as well if `zero`."""
    values = floats(name, given)
    if values.shape not in ((), (width,), shape):
        raise wrong_shape(name, values.shape, f"a number, ({width},) or {shape}")
    if not (values >= 0 if zero else values > 0).all():
        raise ModelError(f"{name} is {values.min()}, expected positive standard deviations")
    return np.broadcast_to(values, shape)


def noise_of(A: Array, b: Array, tau: Array, scales: Array) -> Array:
    """Standard deviations (samples, nv) of the efforts of each joint, by residuals of weighted least squares.

    The weights of a pass are the deviations that the pass before it has found.
    """
    measured = np.isfinite(b)
    size = float(np.sqrt(np.nanmean(tau**2))) or 1.0
    deviations = np.full(b.shape[1], size)
    for _ in range(PASSES):
        weights = Weights(np.broadcast_to(deviations, b.shape), None, measured)
        y = weights.over(b)[measured]
        decomposition = Decomposition(weights.over(A)[measured], scales)
        r = b - A @ decomposition.nearest(y)
        # Degrees of freedom are shared by the joints in proportion to their samples.
        share = max(1 - decomposition.rank / len(y), 1 / len(y))
        counts = np.maximum(measured.sum(axis=0) * share, 1)
        squares = np.where(measured, r, 0.0) ** 2
        deviations = np.maximum(np.sqrt(squares.sum(axis=0) / counts), ROUNDING * size)
    return np.broadcast_to(deviations, b.shape)


def _barrier(model: LinearModel, A: Decomposition, b: Array) -> Barrier:
    """Around the robot's own bodies; around its own losses, or the plain estimates of these."""
    losses = model.inertial + np.flatnonzero([term.kind != "offset" for term in model.terms])
    plain = np.abs(A.nearest(b))[losses]
    own = model.own[losses]
    levels = np.where(own > 0, own, np.where(plain > 0, plain, 1.0))
    return Barrier(model.references(), losses, levels)
