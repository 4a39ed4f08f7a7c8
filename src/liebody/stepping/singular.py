"""Steps near singular positions, where constraints depend on each other: how they are found, and taken.

Accelerations follow from the factors of A = J M^-1 J^T. The smallest pivot of A, divided by its value where
constraints are far from dependent, is the squared sine of an angle between constraints. It falls with the
square of the distance from a singular position. A state that violates the constraints by d has accelerations
that are wrong by d over that distance, and stages of a step violate them slightly. So a step that begins or
ends within about two of its lengths of a singular position is taken *carefully*: each of its stages is
projected onto the constraints first.

Below, `worst` is one over the smallest relative pivot at a state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

# as in runtime/watch.h:
FAR = 1e3  # `worst` from which on a position counts as near a singular one
APPROACH = 0.5  # distance to a singular position, in lengths of a step, below which a step is careful
DROP = 4.0  # ratio of `worst` at both ends of a step from which on the step is taken again, carefully
UNKNOWN = np.array([np.inf, np.nan, np.inf, np.nan, 0.0, 0.0])  # a row of `nearest` before the state
HEAD = len(UNKNOWN)


def _column(number: int, text: str) -> property:
    """A column of the rows."""
    return property(lambda self: self.rows[:, number], doc=text)


@dataclass(frozen=True)
class Nearest:
    """Where the members of an ensemble came closest to dependent constraints, as views of one array."""

    rows: np.ndarray
    """(n, 6 + point): the columns below, `worst` at the start of the next step and the last one, a state"""

    @classmethod
    def of(cls, members: int, point: int) -> Nearest:
        """Of so many members, before any step; zero members where nothing is watched."""
        rows = np.empty((members, HEAD + point))
        rows[:, :HEAD] = UNKNOWN
        rows[:, HEAD:] = np.nan
        return cls(rows)

    pivot = _column(0, "The smallest relative pivot of all steps, (n,); infinite for unwatched steps.")
    time = _column(1, "Start of the step with that pivot, (n,)  [s]")
    singular_pivot = _column(2, "The smallest pivot of steps next to singular positions, or infinite, (n,).")
    singular_time = _column(3, "Start of the step with that pivot, (n,)  [s]")

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
        self.parts = parts
        self.nearest = nearest
        self.length = 0.0  # of the last step

    def stages(
        self,
        take: Callable[[Callable[[float, Any], Any]], tuple[list[Any], Any]],
        h: float,
        y: Any,
        efforts: Callable[[float, Any], Any],
    ) -> tuple[list[Any], Any]:
        """The velocities and the end of a step of length h from y, which some members take carefully.

        take     takes the step with a function (t, point) -> velocity
        efforts  (t, point) -> u
        """
        shape = (*y.shape[:-1], 1)
        self.start, self.before = (self.nearest.rows[:, k].reshape(shape).copy() for k in (4, 5))
        # A member takes this step carefully if `worst` changed so much in the last step that the next one,
        # at this rate, comes close to a singular position.
        left = 1 + APPROACH * (self.length / h if self.length else 1)
        self.careful = _differ(self.start, self.before, left * left) & (self.before > 0)
        self.careful &= self.parts.after is not None
        # the largest `worst` of this step so far, and the state that has it
        self.most = self.start
        self.state = y
        self.take = take
        self.efforts = efforts
        return self._stages()

    def complete(self, t: float, h: float, stop: float, y: Any, end: Any) -> Any:
        """The state after the step of length h from (t, y) by `stages` to `end`, at the time `stop`."""
        # A member that ends much closer to a singular position, or much farther from it, than it began has
        # taken an ordinary step where a careful one was due: it takes the step again.
        z, worst = self._finished(stop, end)
        near = (_differ(worst, self.start, DROP) | np.isnan(worst)) & ~self.careful & ~np.isnan(self.start)
        if self.parts.after is not None and near.any():
            self.careful = self.careful | near
            self.most = self.start
            self.state = y
            z, worst = self._finished(stop, self._stages()[1])
        self._keep(t, worst)
        self.length = h
        return z

    def _stages(self) -> tuple[list[Any], Any]:
        """An ordinary step of all members, with a careful one in its place for those that need it."""
        k, end = self.take(self._velocity)
        if self.careful.any():
            self.first = True
            careful_k, careful_end = self.take(self._careful_velocity)
            k = [np.where(self.careful, b, a) for a, b in zip(k, careful_k, strict=True)]
            end = np.where(self.careful, careful_end, end)
        return k, end

    def _velocity(self, t: float, y: Any) -> Any:
        """The field; where there is no `after`, its second result at the start is `worst`."""
        f = self.parts.field(t, y, self.efforts(t, y))
        if self.parts.after is not None:
            return f
        if y is self.state:
            self.before = self.start
            self.start = f[1]
        return f[0]

    def _careful_velocity(self, t: float, y: Any) -> Any:
        """The field at a stage, after projecting the stage; the start of a step is on the constraints."""
        u = self.efforts(t, y)
        if not self.first:
            assert self.parts.careful_after is not None
            y, worst = self.parts.careful_after(t, y, u)
            self._note(y, worst)
        self.first = False
        return self.parts.careful_field(t, y, u)

    def _finished(self, t: float, y: Any) -> tuple[Any, Any]:
        """The state after `after`, and `worst` there."""
        if self.parts.after is None:
            return y, self.start
        u = self.efforts(t, y)
        z, worst = self.parts.after(t, y, u)
        if self.careful.any():
            assert self.parts.careful_after is not None
            projected, careful_worst = self.parts.careful_after(t, y, u)
            z = np.where(self.careful, projected, z)
            worst = np.where(self.careful, careful_worst, worst)
            self._note(z, worst)
        return z, worst

    def _note(self, y: Any, worst: Any) -> None:
        """Remember the state y of members for which it is the closest one of this step."""
        self.state = np.where(worst > self.most, y, self.state)
        self.most = np.fmax(worst, self.most)

    def _keep(self, t: float, worst: Any) -> None:
        """Update the rows of `nearest` at the end of a step that began at t."""
        rows = self.nearest.rows
        n = len(rows)
        # columns 4 and 5: `worst` at the start of the next step and of this one. Without `after` it is known
        # at the start of a step only, so these columns are one step behind.
        if self.parts.after is None:
            careful = _differ(self.start, self.before, (1 + APPROACH) ** 2)
            most = self.start
            rows[:, 4] = self.start.reshape(n)
            rows[:, 5] = self.before.reshape(n)
        else:
            careful = self.careful
            most = np.fmax(worst, self.most)
            rows[:, 4] = worst.reshape(n)
            rows[:, 5] = self.start.reshape(n)
        with np.errstate(divide="ignore"):
            pivot = (1 / most).reshape(n)
        closer = pivot < rows[:, 0]
        singular = careful.reshape(n) & (pivot < rows[:, 2])
        singular &= self.start.reshape(n) > 0  # not at the first step, where it may be small everywhere
        rows[closer, 0] = pivot[closer]
        rows[closer, 1] = t
        rows[singular, 2] = pivot[singular]
        rows[singular, 3] = t
        rows[singular, HEAD:] = self.state.reshape(n, -1)[singular]


def _differ(a: Any, b: Any, times: float) -> Any:
    """Whether the larger one is above FAR, and more than so many times the other."""
    return ((a > FAR) & (a > times * b)) | ((b > FAR) & (b > times * a))
