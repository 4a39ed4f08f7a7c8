"""Residuals of recordings as functions of coordinates, with exact derivatives through the simulations.

The coordinates x belong to the free parameters. Where starts are free, the changes (dq, dv) of q0 and v0
of each recording stand behind them: q0 exp(dq), v0 + dv.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import floats, wrong_shape
from ..base.concurrency import cached_property
from ..base.errors import IntegrationError, ModelError, ShapeError, known
from ..compiler import FlatLayout, Kernel, trace
from ..robot import Robot, derivatives
from ..scalars import Array
from ..simulation.sensitivities import sensitivities
from ..simulation.simulate import simulate
from .free import FreeParameters
from .recordings import Recording, Residual, Signals

HUBER = 1.345  # noise deviations from which on a residual counts linearly: 95 % efficient for normal noise
STATES = ("q", "v")  # signals that every robot has


def listed(recordings: Recording | Iterable[Recording]) -> list[Recording]:
    """The recordings as a list; raises ModelError for anything else."""
    given = [recordings] if isinstance(recordings, Recording) else list(recordings)
    if not given or not all(isinstance(x, Recording) for x in given):
        raise ModelError(f"recordings are {given!r}, expected a Recording, or some of them")
    return given


def keys_of(recordings: Sequence[Recording]) -> list[str]:
    """Names of recordings, with numbers where several share one."""
    names = [x.name for x in recordings]
    return [
        f"{name} {names[: i + 1].count(name)}" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


class Evaluation(NamedTuple):
    """A fit at some coordinates: the cost, rows r with their Jacobian J, so that its gradient is J^T r."""

    cost: float
    r: np.ndarray
    J: np.ndarray
    residuals: list[dict[str, Residual]]


class FitProblem:
    """The least-squares problem of a fit; see the head of this module, and `fit` for the arguments.

    options  of all simulations
    """

    def __init__(
        self,
        robot: Robot,
        free: FreeParameters,
        parameters: dict[str, Any],
        prior: dict[str, tuple[Any, Any]],
        signals: Signals | None,
        starts: bool,
        loss: str,
        options: dict[str, Any],
    ) -> None:
        self.robot = robot
        self.free = free
        self.parameters = parameters
        self.signals = signals
        self.starts = starts
        self.loss = loss
        self.options = {**options, "progress": False}
        both = [name for name in free.names if name in parameters]
        if both:
            raise ModelError(
                f"{both[0]!r} is free, and has a value in `parameters`; give its start in `start`"
            )
        self.prior = self._checked_prior(prior)

    def _checked_prior(self, prior: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Array, Array]]:
        """Flat values and deviations of what is known before."""
        shapes = {name: np.shape(value) for name, value in self.free.values(self.free.start).items()}
        checked = {}
        for name, pair in prior.items():
            if name not in shapes:
                raise ModelError(f"there is a prior of {name!r}, which is not free; {known(shapes, name)}")
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise ModelError(f"the prior of {name!r} is {pair!r}, expected (value, deviation)")
            value, deviation = (
                np.ravel(np.broadcast_to(floats(f"prior of {name}", x), shapes[name])) for x in pair
            )
            if not (deviation > 0).all():
                raise ModelError(
                    f"the prior of {name!r} has the deviation {deviation}, expected positive numbers"
                )
            checked[name] = value, deviation
        return checked

    # -- coordinates --------------------------------------------------------------------------------------

    def start(self, recordings: Sequence[Recording]) -> Array:
        """The coordinates at the start."""
        states = 2 * self.robot.nv * len(recordings) if self.starts else 0
        return np.concatenate([self.free.start, np.zeros(states)])

    def scales(self, recordings: Sequence[Recording]) -> Array:
        """Sizes of the coordinates."""
        # changes of q0 and v0 have the size 1 (rad, m, and these per second)
        sizes = np.ones(len(self.start(recordings)))
        sizes[: len(self.free.start)] = self.free.scales
        return sizes

    def entries(self, recordings: Sequence[Recording]) -> list[str]:
        """Names of the coordinates."""
        entries = [*self.free.entries]
        if self.starts:
            dofs = range(self.robot.nv)
            entries += [f"{key}: {x}0[{i}]" for key in keys_of(recordings) for x in STATES for i in dofs]
        return entries

    def _start_of(self, recording: Recording, x: Array, place: int) -> tuple[Array, Array, slice, slice]:
        """q0, v0 of a recording at coordinates x, and where their changes stand in x."""
        nv = self.robot.nv
        q0 = self.robot.neutral() if recording.q0 is None else floats("q0", recording.q0)
        v0 = np.zeros(nv) if recording.v0 is None else floats("v0", recording.v0)
        for name, given, size in (("q0", q0, self.robot.nq), ("v0", v0, nv)):
            if given.shape != (size,):
                raise wrong_shape(f"{recording.name}: {name}", given.shape, f"({size},)")
        first = len(self.free.start) + 2 * nv * place
        by_q, by_v = slice(first, first + nv), slice(first + nv, first + 2 * nv)
        if self.starts:
            q0, v0 = self.robot.integrate(q0, x[by_q]), v0 + x[by_v]
        return q0, v0, by_q, by_v

    # -- residuals ----------------------------------------------------------------------------------------

    def residuals(
        self, recordings: Sequence[Recording], x: Array, differentiated: bool = True
    ) -> list[dict[str, Residual]]:
        """The residuals of all recordings, by signal, with their derivatives by x.

        differentiated  False: derivatives have no columns, and no tangents are computed

        Raises IntegrationError if a motion does not reach its end.
        """
        n = len(self.free.start)
        values, D = self.free.values(x[:n]), self.free.derivative(x[:n])
        columns = len(x) if differentiated else 0
        residuals = []
        for place, recording in enumerate(recordings):
            q0, v0, by_q, by_v = self._start_of(recording, x, place)
            samples = len(recording.t)
            dq, dv = (np.zeros((samples, self.robot.nv, columns)) for _ in STATES)
            # One simulation for each recording, from its own start, sampled where it was measured
            options: dict[str, Any] = {
                "t_end": float(recording.t[-1]),
                "t_eval": recording.t,
                "tau": recording.tau,
                "hold": recording.hold,
                "parameters": {**self.parameters, **values},
                **self.options,
            }
            if differentiated:
                motion = sensitivities(self.robot, q0, v0, **options)
                run = motion.run
            else:
                run = simulate(self.robot, q0, v0, **options)
            if not (np.isfinite(run.q).all() and np.isfinite(run.v).all()):
                raise IntegrationError(f"{recording.name} cannot be simulated to its end")
            if differentiated:
                starts = {"q0": by_q, "v0": by_v} if self.starts else {}
                tangents = motion.tangents([*self.free.names, *starts])
                by_values = tangents[: len(self.free.names)]
                for change, which in ((dq, "q"), (dv, "v")):
                    # tangents are by the robot's parameters; D leads on to the coordinates x of the free
                    # ones
                    flat = [getattr(x, which).reshape(samples, self.robot.nv, -1) for x in by_values]
                    change[..., :n] = np.concatenate(flat, axis=-1) @ D
                for at, by_start in zip(starts.values(), tangents[len(self.free.names) :], strict=True):
                    dq[..., at], dv[..., at] = by_start.q, by_start.v
            residuals.append(self._of_signals(recording, run, values, D[:, :columns], dq, dv))
        return residuals

    def _of_signals(
        self, recording: Recording, run: Any, values: Mapping[str, Array], D: Array, dq: Array, dv: Array
    ) -> dict[str, Residual]:
        """Measured less modelled of each signal of a recording, over the noise."""
        others = [name for name in recording.measured if name not in STATES]
        modelled: dict[str, tuple[Array, Array]] = {"v": (run.v, dv), "q": (run.q, dq)}
        if others:
            modelled |= self._modelled(recording, run, values, D, dq, dv)
        residuals = {}
        for name, measured in recording.measured.items():
            if name not in modelled:
                raise ModelError(
                    f"{recording.name} measures {name!r}, which `signals` does not return; "
                    f"{known(modelled, name)}"
                )
            expected, change = modelled[name]
            if measured.shape != expected.shape:
                raise wrong_shape(f"{recording.name}: {name}", measured.shape, str(expected.shape))
            difference = measured - expected
            if name == "q":
                # coordinates of a group are not subtracted: the residual is a velocity that leads to the
                # measurement
                difference, change = self._along_group(run.q, measured, dq)
            entries = int(np.prod(difference.shape[1:], dtype=int))
            try:
                deviation = np.broadcast_to(np.ravel(floats(name, recording.noise[name])), (entries,))
            except ValueError:
                raise ShapeError(
                    f"{recording.name}: the noise of {name!r} has {np.size(recording.noise[name])} entries, "
                    f"a sample has {entries}"
                ) from None
            samples = len(recording.t)
            residuals[name] = Residual(
                difference.reshape(samples, entries) / deviation,
                -change.reshape(samples, entries, -1) / deviation[:, None],
            )
        return residuals

    def _along_group(self, q: Array, measured: Array, dq: Array) -> tuple[Array, Array]:
        """r = log(q^-1 measured), (n, nv), and -dr/dx where q changes to q exp(dq dx)."""
        if self.robot.nq == self.robot.nv:
            return measured - q, dq
        # A pose is measured as a whole or not at all: one missing number of a quaternion makes it unknown
        known_rows = np.isfinite(measured).all(axis=1)
        r = np.full((len(q), self.robot.nv), np.nan)
        r[known_rows] = self.robot.difference(q[known_rows], self.robot.normalize(measured[known_rows]))
        # exp(-dq) exp(r) = exp(r - dexp(r)^-1 dq)
        columns = np.moveaxis(dq, -1, 1)
        change = self._dexp_inverse(np.where(known_rows[:, None], r, 0)[:, None, :], columns)
        return r, np.moveaxis(change, 1, -1)

    @cached_property
    def _dexp_inverse(self) -> Kernel:
        """(r, d) -> dexp(r)^-1 d of the configuration group."""
        group = self.robot.group
        return Kernel(trace(group.dexp_inverse_times, {"u": group.dim, "w": group.dim}, "dexp_inverse"))

    def _modelled(
        self, recording: Recording, run: Any, values: Mapping[str, Array], D: Array, dq: Array, dv: Array
    ) -> dict[str, tuple[Array, Array]]:
        """The user's signals along a motion, and their derivatives by x."""
        value, jacobians, layout, names = self._signal_kernels
        p = layout.values({**self.parameters, **values}, ())
        arguments = recording.t, run.q, run.v, p
        results = value(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        changes = iter(jacobians(*arguments))
        # where the free parameters stand in p, in the order of D's rows
        places = np.concatenate([np.arange(layout.size)[layout.places[name]] for name in self.free.names])
        modelled = {}
        for name, result in zip(names, results, strict=True):
            by_q, by_v, by_p = (
                next(changes).reshape(len(run.q), -1, k) for k in (dq.shape[1], dv.shape[1], len(p))
            )
            change = by_q @ dq + by_v @ dv
            # signals depend on x through the motion, and directly through the parameters
            change[..., : D.shape[1]] += by_p[..., places] @ D
            modelled[name] = result, change
        return modelled

    @cached_property
    def _signal_kernels(self) -> tuple[Kernel, Kernel, FlatLayout, list[str]]:
        """The user's signals of (t, q, v, p), their Jacobians by q, v, p, the layout of p, their names."""
        user = self.signals
        if user is None:
            raise ModelError(
                "signals other than q and v are measured; give `signals`, a function (t, q, v, p) of them"
            )
        layout = FlatLayout("parameter", {**self.parameters, **self.free.values(self.free.start)})
        names: list[str] = []

        def signals(t: Any, q: Array, v: Array, p: Array) -> dict[str, Any]:
            results = user(t, q, v, layout.read(p))
            if not isinstance(results, Mapping):
                raise ModelError(f"signals returned {results!r}, expected a dictionary of names and signals")
            names[:] = results
            return {name: np.asarray(x) for name, x in results.items()}

        sizes: dict[str, int | Sequence[int]] = {"t": (), "q": self.robot.nq, "v": self.robot.nv}
        function = trace(signals, {**sizes, "p": layout.size}, "signals")
        jacobians = derivatives(function, ("q", "v", "p"), groups={"q": self.robot.group})
        return Kernel(function), jacobians, layout, names

    # -- the cost -----------------------------------------------------------------------------------------

    def evaluated(self, recordings: Sequence[Recording], x: Array) -> Evaluation:
        """Residuals and cost at coordinates x.

        Rows of signals that were not measured (NaN) are left out; priors add theirs. With Huber's loss the
        rows have weights.
        """
        rows, blocks = [], []
        residuals = self.residuals(recordings, x)
        for one in residuals:
            for residual in one.values():
                measured = np.isfinite(residual.values)
                rows.append(residual.values[measured])
                blocks.append(residual.derivative[measured])
        n = len(self.free.start)
        values, D = self.free.values(x[:n]), self.free.derivative(x[:n])
        first = 0
        for name, value in values.items():
            last = first + np.size(value)
            if name in self.prior:
                expected, deviation = self.prior[name]
                rows.append((expected - np.ravel(value)) / deviation)
                block = np.zeros((last - first, len(x)))
                block[:, :n] = -D[first:last] / deviation[:, None]
                blocks.append(block)
            first = last
        r, J = np.concatenate(rows), np.concatenate(blocks)
        if self.loss == "squares":
            return Evaluation(0.5 * float(r @ r), r, J, residuals)
        # Huber: squares up to a residual of HUBER deviations, lines beyond. Rows times sqrt(weight) have
        # the same gradient, so that Gauss-Newton steps need no other code (iteratively reweighted)
        size = np.abs(r)
        costs = np.where(size <= HUBER, 0.5 * r * r, HUBER * (size - 0.5 * HUBER))
        weights = np.sqrt(np.minimum(1, HUBER / np.maximum(size, np.finfo(float).tiny)))
        return Evaluation(float(costs.sum()), weights * r, weights[:, None] * J, residuals)
