"""Efforts or parameters over time, as samples at equal intervals, held or interpolated."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.errors import IntegrationError
from ..compiler.native.build import fields


class SamplesInC(ctypes.Structure):
    """`Samples` of runtime/samples.h."""

    _fields_ = fields("void_p table, int64 member_stride samples, double first interval, int linear")


def is_linear(hold: str) -> bool:
    """Whether values between samples are interpolated, by the option `hold`; raises IntegrationError."""
    if hold not in ("zero", "linear"):
        raise IntegrationError(f"hold is {hold!r}, expected 'zero' or 'linear'")
    return hold == "linear"


def equidistant(name: str, times: np.ndarray) -> tuple[float, float]:
    """First time and interval of the times (n,) of samples.

    Errors: IntegrationError for less than two times, and where intervals differ.
    """
    interval = float(times[-1] - times[0]) / (len(times) - 1) if times.ndim == 1 and len(times) > 1 else 0.0
    if not (interval > 0 and np.abs(np.diff(times) - interval).max() <= 1e-6 * interval):  # nor with NaN
        raise IntegrationError(
            f"the times of {name} must be two or more that increase in equal intervals; resample it, for "
            "instance with numpy.interp"
        )
    return float(times[0]), interval


@dataclass(frozen=True)
class Samples:
    """Values at equidistant times, held or interpolated; the reference for runtime/samples.h.

    table     (1 or n, samples, dim): one for all members of an ensemble, or one for each
    first     time of the first sample                                                                  [s]
    interval  between samples                                                                           [s]
    linear    whether values between samples are interpolated; otherwise a sample is held until the next one
    kept      tables whose addresses are among the values: they live as long as the samples

    Between two samples the values are smooth. At a sample they jump, or their slope does, so no step of an
    integrator goes across one: pieces are counted by the sample they begin with. Before the first sample
    (piece -1, where interpolated) and after the last one the values are constant.
    """

    table: np.ndarray
    first: float = 0.0
    interval: float = 1.0
    linear: bool = False
    kept: tuple[Any, ...] = ()

    @classmethod
    def of(cls, given: Any) -> Samples:
        """Samples, or constant values (1 or n, 1, dim) or (1 or n, dim)."""
        if isinstance(given, Samples):
            return given
        table = np.ascontiguousarray(given, dtype=float)
        return cls(table if table.ndim > 2 else table[:, None])

    @property
    def last(self) -> int:
        """The number of the last sample."""
        return int(self.table.shape[1]) - 1

    @property
    def constant(self) -> bool:
        """Whether the values never change: one sample."""
        return self.last == 0

    def together(self, t: float) -> float:
        """Tolerance of times near t: closer times count as equal, but for round-off."""
        return 1e-9 * self.interval + 1e-15 * abs(t)

    def piece(self, t: float) -> int:
        """Number of the piece in which a step from t lies."""
        if self.constant:
            return 0
        k = math.floor((t + self.together(t) - self.first) / self.interval)
        return min(max(k, -1 if self.linear else 0), self.last)

    def part_end(self, t: float, end: float) -> float:
        """Where a step from t to `end` has to stop: at the end of its piece, if that comes first."""
        k = self.piece(t) + 1
        change = self.first + k * self.interval if k <= self.last else math.inf
        return change if change < end - self.together(end) else end

    def jumps(self, t: float) -> bool:
        """Whether the values jump at t."""
        k = self.piece(t)
        begins = abs(self.first + k * self.interval - t) <= self.together(t)
        return not self.linear and k > 0 and begins

    def at(self, t: float, piece: int | None = None) -> np.ndarray:
        """The values at t, (1 or n, dim), as a step within `piece` has them; default: the piece from t on.

        At the end of its piece a step still has the values before a jump.
        """
        k = self.piece(t) if piece is None else piece
        low = self.table[:, max(k, 0)]
        high = self.table[:, min(max(k, 0) + 1, self.last)]
        if not self.linear or k < 0:
            return low
        return np.asarray(low + ((t - self.first) / self.interval - k) * (high - low))

    def along(self, times: np.ndarray) -> np.ndarray:
        """The values of member i at times[i] (rows,): (n, rows, dim); (1 or n, 1, dim) where constant."""
        if self.constant:
            return self.table
        # the same as `piece` and `at`, for all members and times at once
        position = (times - self.first) / self.interval
        k = np.floor(position + self.together(np.abs(times).max()) / self.interval).astype(int)
        k = np.clip(k, -1 if self.linear else 0, self.last)
        table = np.broadcast_to(self.table, (len(times), *self.table.shape[1:]))
        low, high = (
            np.take_along_axis(table, np.clip(i, 0, self.last)[..., None], axis=1) for i in (k, k + 1)
        )
        inside = self.linear & (k >= 0)
        return np.asarray(low + np.where(inside, position - k, 0.0)[..., None] * (high - low))

    def member(self, i: int) -> Samples:
        """The samples of one member."""
        row = i if len(self.table) > 1 else 0
        return replace(self, table=self.table[row : row + 1])

    def beside(self, constant: np.ndarray) -> Samples:
        """These samples, extended by constant values (1 or n, k)."""
        if not constant.shape[-1]:
            return self
        n = max(len(self.table), len(constant))
        parts = (self.table, constant[:, None])
        table = np.concatenate([np.broadcast_to(x, (n, self.last + 1, x.shape[-1])) for x in parts], axis=-1)
        return replace(self, table=np.ascontiguousarray(table))

    def in_c(self, start: int = 0) -> SamplesInC:
        """These samples for C, from member `start` on; the table must outlive the result."""
        n, samples, dim = self.table.shape
        of_members = self.table[start:] if n > 1 else self.table
        stride = samples * dim if n > 1 else 0
        return SamplesInC(
            of_members.ctypes.data,
            stride,
            samples,
            self.first,
            self.interval,
            int(self.linear and not self.constant),
        )
