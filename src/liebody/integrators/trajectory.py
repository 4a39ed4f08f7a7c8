"""Trajectories of mechanical systems that consist of functions alone, by the steps of an implicit method.

`simulate` runs mechanisms, with names, efforts over time, energies and files. Equations without bodies (a
group, M, Q and g) have none of these: `MechanicalFlow.run` takes the same compiled steps and returns arrays.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..stepping.march import REASONS


class Trajectory(NamedTuple):
    """Result of `MechanicalFlow.run`; the first axes are the leading axes of q0 and v0, then time."""

    t: np.ndarray
    """Times, (rows,)                                                        [s]"""
    q: np.ndarray
    """Coordinates, (..., rows, nq)"""
    v: np.ndarray
    """Velocities, (..., rows, dim)"""
    multipliers: np.ndarray
    """Multipliers lambda, (..., rows, m); of the accelerations if the method keeps none"""
    failed: np.ndarray
    """For each member of an ensemble, 1 + the row from which on it is NaN, or 0"""
    losses: np.ndarray
    """For each member that was lost in a step: the time at its start, and the reason"""
    steps: int = 0
    """Steps taken, of all members together"""
    rejected: int = 0
    """Steps tried in vain, under error control"""


def members_of(
    q0: Any, v0: Any, u: Any, sizes: tuple[int, int, int]
) -> tuple[tuple[int, ...], Any, Any, Any]:
    """The leading axes of q0 (..., nq) and v0 (..., dim), and q0, v0 and efforts of their n members.

    u      (efforts,) or (..., efforts); None: zero. The result is (n, 1, efforts): constant samples
    sizes  nq, dim, efforts
    """
    nq, dim, efforts = sizes
    q0 = np.asarray(q0, float)
    v0 = np.asarray(v0, float)
    batch = np.broadcast_shapes(q0.shape[:-1], v0.shape[:-1])
    n = math.prod(batch)
    if batch:
        q0 = np.broadcast_to(q0, (*batch, nq)).reshape(n, nq)
        v0 = np.broadcast_to(v0, (*batch, dim)).reshape(n, dim)
    u = np.zeros(efforts) if u is None else np.asarray(u, float)
    return batch, q0, v0, np.ascontiguousarray(np.broadcast_to(u, (*batch, efforts)).reshape(n, 1, efforts))


def complaint(reached: float, loss: Any) -> str:
    """Message for a single motion that is lost after the time `reached`, from its row of `losses`."""
    t, reason = float(loss[0]), int(loss[1])
    if reason:
        return f"the step at t = {t:.9g} s cannot be taken: {REASONS[reason]}"
    return f"the state is not finite after t = {reached:.9g} s; take a shorter step, and look at the forces"
