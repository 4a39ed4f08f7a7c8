"""Steps of systems whose constraints can come to depend on each other: what is looked at, and done about it.

Accelerations follow from the factors of A = J M^-1 J^T. Its smallest pivot, over what it is where constraints
are far from dependent, is the squared sine of an angle between them, and falls with the square of the
distance from a singular position. At states off the constraints by d accelerations are wrong by d over that
distance, and stages of a step are a little off. So steps that begin or end within about two of their lengths
of such a place are taken *carefully*: each stage is put on the constraints first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

FAR, APPROACH, DROP = 1e3, 0.5, 4.0  # as in runtime/watch.h
UNKNOWN = np.array([np.inf, np.nan, np.inf, np.nan, 0.0, 0.0])  # a row of `nearest` before the state
HEAD = len(UNKNOWN)


def _column(number: int, text: str) -> property:
    """A column of the rows."""
    return property(lambda self: self.rows[:, number], doc=text)


@dataclass(frozen=True)
class Nearest:
    """Where the members of an ensemble came closest to dependent constraints; the views of one array."""

    rows: np.ndarray
    """(n, 6 + point): what follows, `worst` at the start of the next step and of the last, and a state"""

    @classmethod
    def of(cls, members: int, point: int) -> Nearest:
        """Nothing is known yet."""
        rows = np.empty((members, HEAD + point))
        rows[:, :HEAD], rows[:, HEAD:] = UNKNOWN, np.nan
        return cls(rows)

    pivot = _column(0, "The smallest relative pivot of all steps, (n,); infinite where nobody looked.")
    time = _column(1, "When the step began in which that was, (n,)  [s]")
    singular_pivot = _column(2, "The smallest pivot of steps next to singular positions, or infinite, (n,).")
    singular_time = _column(3, "When the step began in which that was, (n,)  [s]")

    @property
    def singular_state(self) -> np.ndarray:
        """The state with that pivot, (n, point)."""
        return self.rows[:, HEAD:]


class WatchedFunctions(NamedTuple):
    """The functions of a watched flow in NumPy, (t, y, u) -> ...; `after` may be None."""

    field: Callable[..., Any]
    after: Callable[..., Any] | None
    careful_field: Callable[..., Any]
    careful_after: Callable[..., Any] | None


class Watched:
    """runtime/watch.h in NumPy: steps of a whole ensemble, y (n, point), or of one state, y (point,)."""

    def __init__(self, parts: WatchedFunctions, nearest: Nearest) -> None:
        self.parts, self.nearest = parts, nearest
        self.length = 0.0

    def stages(
        self,
        take: Callable[[Callable[[float, Any], Any]], tuple[list[Any], Any]],
        h: float,
        y: Any,
        efforts: Callable[[float, Any], Any],
    ) -> tuple[list[Any], Any]:
        """The velocities and the end of a step of length h from y, in some members taken carefully.

        take     of a function (t, point) -> velocity
        efforts  (t, point) -> u
        """
        shape = (*y.shape[:-1], 1)
        self.start, self.before = (self.nearest.rows[:, k].reshape(shape).copy() for k in (4, 5))
        left = 1 + APPROACH * (self.length / h if self.length else 1)
        self.careful = _differ(self.start, self.before, left * left) & (self.before > 0)
        self.careful &= self.parts.after is not None
        self.most, self.state = self.start, y
        self.take, self.efforts = take, efforts
        return self._stages()

    def complete(self, t: float, h: float, stop: float, y: Any, end: Any) -> Any:
        """The state at the end of the step of length h from (t, y) by `stages`, which have led to `end`."""
        z, worst = self._finished(stop, end)
        near = (_differ(worst, self.start, DROP) | np.isnan(worst)) & ~self.careful & ~np.isnan(self.start)
        if self.parts.after is not None and near.any():
            self.careful, self.most, self.state = self.careful | near, self.start, y
            z, worst = self._finished(stop, self._stages()[1])
        self._keep(t, worst)
        self.length = h
        return z

    def _stages(self) -> tuple[list[Any], Any]:
        k, end = self.take(self._velocity)
        if self.careful.any():
            self.first = True
            careful_k, careful_end = self.take(self._careful_velocity)
            k = [np.where(self.careful, b, a) for a, b in zip(k, careful_k, strict=True)]
            end = np.where(self.careful, careful_end, end)
        return k, end

    def _velocity(self, t: float, y: Any) -> Any:
        f = self.parts.field(t, y, self.efforts(t, y))
        if self.parts.after is not None:
            return f
        if y is self.state:
            self.before, self.start = self.start, f[1]
        return f[0]

    def _careful_velocity(self, t: float, y: Any) -> Any:
        u = self.efforts(t, y)
        if not self.first:
            assert self.parts.careful_after is not None
            y, worst = self.parts.careful_after(t, y, u)
            self._note(y, worst)
        self.first = False
        return self.parts.careful_field(t, y, u)

    def _finished(self, t: float, y: Any) -> tuple[Any, Any]:
        if self.parts.after is None:
            return y, self.start
        u = self.efforts(t, y)
        z, worst = self.parts.after(t, y, u)
        if self.careful.any():
            assert self.parts.careful_after is not None
            on, careful = self.parts.careful_after(t, y, u)
            z, worst = np.where(self.careful, on, z), np.where(self.careful, careful, worst)
            self._note(z, worst)
        return z, worst

    def _note(self, y: Any, worst: Any) -> None:
        self.state = np.where(worst > self.most, y, self.state)
        self.most = np.fmax(worst, self.most)

    def _keep(self, t: float, worst: Any) -> None:
        rows, n = self.nearest.rows, len(self.nearest.rows)
        if self.parts.after is None:
            careful, most = _differ(self.start, self.before, (1 + APPROACH) ** 2), self.start
            rows[:, 4], rows[:, 5] = self.start.reshape(n), self.before.reshape(n)
        else:
            careful, most = self.careful, np.fmax(worst, self.most)
            rows[:, 4], rows[:, 5] = worst.reshape(n), self.start.reshape(n)
        with np.errstate(divide="ignore"):
            pivot = (1 / most).reshape(n)
        closer, singular = pivot < rows[:, 0], careful.reshape(n) & (pivot < rows[:, 2])
        singular &= self.start.reshape(n) > 0  # not at the first step, where it may be small everywhere
        rows[closer, 0], rows[closer, 1] = pivot[closer], t
        rows[singular, 2], rows[singular, 3] = pivot[singular], t
        rows[singular, HEAD:] = self.state.reshape(n, -1)[singular]


def _differ(a: Any, b: Any, times: float) -> Any:
    """Whether the larger one is FAR, and so many times the other."""
    return ((a > FAR) & (a > times * b)) | ((b > FAR) & (b > times * a))
