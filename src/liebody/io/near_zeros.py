"""Round numbers of CAD that miss zeros and right angles by a few digits: 1.5708, -5.2e-08, 8.3e-17.

Taken literally, such numbers leave every entry of a rotation in the equations of motion. Rounded, most of the
entries are zeros and ones, which vanish.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import number
from ..base.errors import ModelError, counted, warn
from ..groups import SO3

STEP = math.pi / 12
"""Angles are rounded to multiples of this one.  [rad]"""

OFFSET = 1e-6
"""Offsets below this one are rounded to zero.  [m]"""

PROPOSED = 1e-4
"""The tolerance that reports propose, and count with where nothing is rounded.  [rad]"""

EXACT = 1e-10
"""Angles this near to a multiple of pi/2 give exact zeros and ones anyway.  [rad]"""


class RoundedNumbers(UserWarning):
    """Angles and offsets of a description were rounded, as `snap` asks."""


@dataclass(eq=False)
class NearZeros:
    """Angles and offsets of a description that are nearly multiples of pi/12, and nearly zero.

    tolerance       up to which angles are rounded; 0: nothing is rounded, `PROPOSED` counts             [rad]
    angles          how many angles and entries of axes
    largest_angle   the largest change of one of them                                                    [rad]
    offsets         how many offsets: entries of positions and centres of mass
    largest_offset  the largest change of one of them                                                      [m]
    """

    tolerance: float = 0.0
    angles: int = 0
    largest_angle: float = 0.0
    offsets: int = 0
    largest_offset: float = 0.0

    @classmethod
    def within(cls, snap: Any) -> NearZeros:
        """With the option `snap` of readers. Raises ModelError for a tolerance that cannot be."""
        tolerance = number("snap", snap)
        if not 0 <= tolerance < STEP / 2:
            raise ModelError(
                f"snap is {tolerance:g}, expected a tolerance in radians, from 0 (nothing is rounded) to "
                "below pi/24, such as 1e-4"
            )
        return cls(tolerance)

    def rounded(self, angles: np.ndarray) -> np.ndarray:
        """Angles at multiples of pi/12 where they are within the tolerance."""
        nearest = np.round(angles / STEP) * STEP
        change = np.abs(angles - nearest)
        near = change <= (self.tolerance or PROPOSED)
        self._count_angles(change[near & (change > EXACT)])
        return np.where(near, nearest, angles) if self.tolerance else angles

    def rotation(self, R: np.ndarray) -> np.ndarray:
        """A rotation (3, 3) whose roll, pitch and yaw are rounded."""
        angles = np.array(roll_pitch_yaw(R))
        rounded = self.rounded(angles)
        return R if np.array_equal(angles, rounded) else rotation_of(rounded)

    def axis(self, direction: np.ndarray) -> np.ndarray:
        """A direction (3,) without entries that turn it by less than the tolerance."""
        entries = np.abs(direction) / np.linalg.norm(direction)
        near = (entries <= (self.tolerance or PROPOSED)) & (entries > 0)
        self._count_angles(entries[near])
        return np.where(near, 0.0, direction) if self.tolerance else direction

    def position(self, p: np.ndarray) -> np.ndarray:
        """A position (3,) whose small entries are zero."""
        near = (np.abs(p) < OFFSET) & (p != 0)
        self.offsets += int(near.sum())
        self.largest_offset = max(self.largest_offset, float(np.abs(p[near]).max(initial=0.0)))
        return np.where(near, 0.0, p) if self.tolerance else p

    def _count_angles(self, changes: np.ndarray) -> None:
        self.angles += changes.size
        self.largest_angle = max(self.largest_angle, float(changes.max(initial=0.0)))

    @property
    def words(self) -> str:
        """The counts and largest changes; empty where there are none."""
        parts = []
        if self.angles:
            parts.append(
                f"{counted(self.angles, 'angle')} to multiples of pi/12, by at most "
                f"{self.largest_angle:.2g} rad"
            )
        if self.offsets:
            parts.append(f"{counted(self.offsets, 'offset')} to zero, by at most {self.largest_offset:.2g} m")
        return ", and ".join(parts)

    def warn(self, source: str) -> None:
        """Warn of the numbers that were rounded, if there are some."""
        if self.tolerance and self.words:
            warn(f"{source}: rounded {self.words}", RoundedNumbers)


def rotation_of(rpy: np.ndarray) -> np.ndarray:
    """R = Rz(yaw) Ry(pitch) Rx(roll), (3, 3)."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def roll_pitch_yaw(R: np.ndarray) -> list[float]:
    """Angles with R = Rz(yaw) Ry(pitch) Rx(roll), to round-off also where roll and yaw are about one axis."""
    # roll from the remaining rotation, since at pitch = pi/2 only roll - yaw is determined
    yaw = np.arctan2(R[1, 0], R[0, 0])
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    _, y, z = np.eye(3)
    rest = (SO3.exp(yaw * z) @ SO3.exp(pitch * y)).T @ R  # the remaining factor is Rx(roll)
    return [np.arctan2(rest[2, 1], rest[1, 1]), pitch, yaw]
