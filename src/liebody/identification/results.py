"""The results of a fit: estimates, their deviations, parameters that are not seen, and residuals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..robot import Robot
from ..scalars import Array
from .problem import FitProblem, keys_of, listed
from .recordings import Recording, Residual

UNSEEN = 1.0  # deviation of a combination of coordinates, in their sizes, from which on it is not seen
LAGS = 10  # of residuals, which have to be independent
LEVEL = 1e-3  # of the test of independence
HIDDEN = 1e-6  # part of a quantity along what is not seen, from which on it is not seen either
PART = 0.05  # of a combination: smaller parts are not shown


@dataclass(frozen=True)
class Channel:
    """The residuals of one entry of a signal over all samples, in units of the noise.

    name      recording, signal and entry: "throw: q[2]"
    count     samples
    rms       root mean square: 1 if model and noise are right
    lags      autocorrelation at lags 1, ..., LAGS: within 2 / sqrt(count) if nothing is left to explain
    is_white  whether the test of Ljung and Box takes the residuals for independent, at a level of 0.1 %
    """

    name: str
    count: int
    rms: float
    lags: np.ndarray
    is_white: bool


class Estimates:
    """Estimates of parameters, and what they are worth: what all results of identification have in common.

    coordinates  estimates of the coordinates that were free (n,)
    entries      their names
    values       {parameter: value} of all free parameters
    information  J^T J of the residuals over the noise (n, n)
    """

    def __init__(
        self,
        coordinates: Array,
        entries: Sequence[str],
        scales: Array,
        values: dict[str, Any],
        derivative: Array,
        information: Array,
        residuals: dict[str, dict[str, np.ndarray]],
    ) -> None:
        """scales: sizes of coordinates; derivative: of all values in one array by the first coordinates."""
        self.coordinates = np.asarray(coordinates)
        self.entries = tuple(entries)
        self.values = values
        self.information = information
        self._scales = scales
        self._derivative = derivative
        self._residuals = residuals

    # -- what the estimates are worth -----------------------------------------------------------------------

    @cached_property
    def _inverse(self) -> tuple[Array, Array]:
        """The covariance of what is seen (n, n), and unit directions, in sizes, that are not (n, k)."""
        scaled = self.information * np.outer(self._scales, self._scales)
        squares, vectors = np.linalg.eigh(scaled)
        seen = squares > len(scaled) * np.finfo(float).eps * squares.max(initial=0.0)
        inverse = (vectors[:, seen] / squares[seen]) @ vectors[:, seen].T
        return inverse * np.outer(self._scales, self._scales), vectors[:, ~seen]

    def deviations_of(self, D: Array) -> np.ndarray:
        """Standard deviations (m,) of quantities with the derivative D (m, n) by the coordinates.

        Infinite for quantities that change along a direction that is not seen.
        """
        covariance, unseen = self._inverse
        variances = np.einsum("ij,jk,ik->i", D, covariance, D)
        deviations = np.sqrt(np.maximum(variances, 0))
        scaled = D * self._scales
        size = np.linalg.norm(scaled, axis=1)
        deviations[np.linalg.norm(scaled @ unseen, axis=1) > HIDDEN * size] = np.inf
        return deviations

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the coordinates (n, n), by the noise: (J^T J)^-1; infinite where they are unseen."""
        covariance = self._inverse[0].copy()
        unseen = ~np.isfinite(self.deviations_of(np.eye(len(covariance))))
        covariance[unseen] = covariance[:, unseen] = 0
        covariance[unseen, unseen] = np.inf
        return covariance

    @property
    def correlation(self) -> np.ndarray:
        """Correlations of the coordinates (n, n); NaN for what is not seen."""
        covariance = self.covariance
        deviations = np.sqrt(np.diag(covariance))
        with np.errstate(invalid="ignore"):
            correlation: np.ndarray = covariance / np.outer(deviations, deviations)
        return correlation

    @cached_property
    def deviations(self) -> dict[str, Any]:
        """{parameter: standard deviation} of the estimates, of first order in the noise."""
        D = np.zeros((len(self._derivative), len(self.coordinates)))
        D[:, : self._derivative.shape[1]] = self._derivative
        deviations = self.deviations_of(D)
        of_parameters = {}
        for name, value in self.values.items():
            size = np.size(value)
            own, deviations = deviations[:size].reshape(np.shape(value)), deviations[size:]
            of_parameters[name] = own if own.ndim else float(own)
        return of_parameters

    @property
    def directions(self) -> list[tuple[float, dict[str, float]]]:
        """Combinations of coordinates from the least known on: (standard deviation, {coordinate: part}).

        Eigenvectors of the information, in units of the coordinates' sizes: 1 for logarithms, log-Cholesky
        coordinates and angles, the start for others. Parts below 0.05 are left out.
        """
        scaled = self.information * np.outer(self._scales, self._scales)
        combinations = []
        for square, vector in zip(*_eigenvectors(scaled), strict=True):
            pairs = zip(self.entries, map(float, vector), strict=True)
            parts = {name: part for name, part in pairs if abs(part) >= PART}
            combinations.append((1 / math.sqrt(square) if square > 0 else math.inf, parts))
        return combinations

    @property
    def unseen(self) -> list[dict[str, float]]:
        """Combinations that the recordings do not show: their deviation is their size, or more."""
        return [parts for deviation, parts in self.directions if deviation >= UNSEEN]

    # -- what is left ---------------------------------------------------------------------------------------

    @property
    def residuals(self) -> dict[str, dict[str, np.ndarray]]:
        """{recording: {signal: (n, entries)}}: measured less modelled, in units of the noise."""
        return self._residuals

    @property
    def channels(self) -> list[Channel]:
        """The residuals by entry of each signal, with a test whether anything is left in them."""
        return channels_of(self._residuals)

    @property
    def chi_squared(self) -> float:
        """Squared residuals per degree of freedom: 1 if model and noise are right."""
        signals = [x for one in self._residuals.values() for x in one.values()]
        flat = np.concatenate([x[np.isfinite(x)] for x in signals])
        seen = len(self.coordinates) - self._inverse[1].shape[1]
        return float(flat @ flat) / max(len(flat) - seen, 1)

    def plot(self, path: str | None = None) -> Any:
        """Residuals of each recording over time, in units of the noise; returns Matplotlib's figure."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(
            len(self._residuals),
            1,
            figsize=(8, 2.4 * len(self._residuals)),
            squeeze=False,
            layout="constrained",
        )
        for ax, (key, signals) in zip(axes[:, 0], self._residuals.items(), strict=True):
            for name, values in signals.items():
                ax.plot(values, lw=0.8, label=name)
            ax.axhspan(-2, 2, color="0.9", zorder=0)
            ax.set(title=key, xlabel="sample", ylabel="residual / noise")
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {', '.join(self.values)}"

    def __str__(self) -> str:
        lines = [f"{'parameter':28} {'estimate':>13} {'deviation':>11}"]
        for name, value in self.values.items():
            numbers = zip(
                np.ndindex(np.shape(value)), np.ravel(value), np.ravel(self.deviations[name]), strict=True
            )
            for place, x, deviation in numbers:
                label = f"{name}[{','.join(map(str, place))}]" if place else name
                lines.append(f"{label:28} {x:13.6g} {deviation:11.2g}")
        lines.append(f"chi squared {self.chi_squared:.3g} per degree of freedom{self._ended()}")
        if wrong := [x.name for x in self.channels if not x.is_white]:
            lines.append(f"residuals of {', '.join(wrong)} are no noise: the model lacks something")
        if count := len(self.unseen):
            lines.append(f"{count} of {len(self.entries)} combinations are not seen: `unseen` has them")
        return "\n".join(lines)

    def _ended(self) -> str:
        """How the search ended, for the table."""
        return ""


class EffortEstimates(Estimates):
    """Estimates from efforts, by weighted least squares over bodies that exist.

    noise    standard deviations of the efforts (nv,), given or found
    bounded  whether the least squares belong to bodies that cannot exist. The estimates then describe the
             nearest bodies that can, and deviations are computed without this bound
    """

    def __init__(self, *given: Any, noise: Array, bounded: bool) -> None:
        super().__init__(*given)
        self.noise = noise
        self.bounded = bounded

    def _ended(self) -> str:
        return "; at the boundary of bodies that exist" if self.bounded else ""


class Fit(Estimates):
    """Estimates, and what they are worth; made by `fit`.

    coordinates  estimates of the coordinates that were free (n,): logarithms, log-Cholesky coordinates, ...
    entries      their names
    values       {parameter: value} of all free parameters
    iterations   simulations of all recordings
    converged    whether the search ended by itself
    """

    def __init__(
        self, problem: FitProblem, recordings: list[Recording], x: Array, iterations: int, converged: bool
    ) -> None:
        free = len(problem.free.start)
        evaluation = problem.evaluated(recordings, x)
        values = problem.free.values(x[:free])
        super().__init__(
            x,
            problem.entries(recordings),
            problem.scales(recordings),
            {name: y if y.ndim else float(y) for name, y in values.items()},
            problem.free.derivative(x[:free]),
            evaluation.J.T @ evaluation.J,
            _by_key(recordings, evaluation.residuals),
        )
        self.iterations = iterations
        self.converged = converged
        self.cost = evaluation.cost
        self._free = free
        self._problem = problem

    def validate(self, recordings: Recording | Iterable[Recording]) -> list[Channel]:
        """The residuals of recordings that the fit has not seen, from their own q0 and v0."""
        given = listed(recordings)
        x = self._problem.start(given)
        x[: self._free] = self.coordinates[: self._free]
        return channels_of(_by_key(given, self._problem.residuals(given, x, differentiated=False)))

    @cached_property
    def robot(self) -> Robot:
        """The robot with the estimates."""
        return robot_with(self._problem.robot, {**self._problem.parameters, **self.values})

    def _ended(self) -> str:
        ended = "converged" if self.converged else "not converged"
        return f"; {ended} after {self.iterations} simulations"


def robot_with(robot: Robot, values: Mapping[str, Any]) -> Robot:
    """The robot with these values of its parameters; words of the user are left out."""
    own = {name: value for name, value in values.items() if name in robot.parameters}
    if not own:
        return robot
    varied = robot.freed(own)
    return Robot(*varied.at(varied.packed(own)))


def _eigenvectors(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues from the least on, and eigenvectors in rows."""
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors.T


def _by_key(
    recordings: list[Recording], residuals: list[dict[str, Residual]]
) -> dict[str, dict[str, np.ndarray]]:
    """Values of residuals by the recordings' names."""
    keys = keys_of(recordings)
    return {
        key: {name: x.values for name, x in one.items()} for key, one in zip(keys, residuals, strict=True)
    }


def channels_of(residuals: Mapping[str, Mapping[str, Array]]) -> list[Channel]:
    """Channels of {recording: {signal: (n, entries)}}."""
    channels = []
    for key, signals in residuals.items():
        for name, values in signals.items():
            for i, column in enumerate(values.T):
                measured = column[np.isfinite(column)]
                label = f"{key}: {name}[{i}]" if values.shape[1] > 1 else f"{key}: {name}"
                if len(measured):
                    channels.append(_channel(label, measured))
    return channels


def _channel(name: str, r: Array) -> Channel:
    n = len(r)
    power = float(r @ r)
    lags = np.arange(1, min(LAGS, n - 1) + 1)
    rho = np.array([float(r[k:] @ r[:-k]) / power if power else 0.0 for k in lags])
    # Ljung and Box (1978): for independent residuals Q is chi squared with a degree for each lag
    Q = n * (n + 2) * float(np.sum(rho**2 / (n - lags)))
    return Channel(name, n, math.sqrt(power / n), rho, _tail(Q, len(lags)) > LEVEL)


def _tail(Q: float, degrees: int) -> float:
    """P(chi squared > Q): its cube root is nearly normal (Wilson and Hilferty, 1931)."""
    if not degrees:
        return 1.0
    spread = 2 / (9 * degrees)
    z = ((Q / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))
