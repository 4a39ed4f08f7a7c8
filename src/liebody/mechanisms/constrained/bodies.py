"""Bodies in absolute coordinates: constant inertia at the centre of mass, on SE(3) or on SO(3) x R^3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.concurrency import cached_property
from ...base.errors import ModelError
from ...bodies import SpatialInertia
from ...groups import SE3, LieGroup, SO3xR3
from ...scalars.linear import is_numeric, solve

SLIGHT = 1e-7  # of a body's inertia, where it has none about an axis
GROUPS: dict[str, LieGroup] = {"SE3": SE3, "SO3xR3": SO3xR3}


@dataclass(frozen=True, eq=False)
class MovingBody:
    """A rigid body with six degrees of freedom; its coordinates describe its centre of mass.

    group   SE3: velocity (omega, v), both body-fixed; SO3xR3: (omega body-fixed, dp/dt in the world).
            The coordinates are the same, (w, x, y, z, px, py, pz)
    offset  pose (4, 4), in the body's own frame, of the frame at its centre of mass (same axes)
    guess   pose (4, 4) of the body's own frame in the world, from where loops are closed
    lever   the farthest point from the centre of mass where something acts on the body               [m]

    A thin rod has no inertia about its axis, a point mass none at all. Equations of free bodies need some:
    they get SLIGHT times the body's inertia about its farthest joint, which changes motions by as little.
    """

    name: str
    inertia: SpatialInertia
    group: LieGroup
    reason: str
    guess: np.ndarray
    lever: float = 0.0

    @cached_property
    def mass(self) -> Any:
        mass = self.inertia.mass
        return float(mass) if is_numeric(mass) else mass

    @cached_property
    def Theta(self) -> np.ndarray:
        """Rotational inertia about the centre of mass (3, 3), positive definite."""
        if not is_numeric(self.inertia.rotational):
            return self.inertia.rotational
        Theta = np.asarray(self.inertia.rotational, float)
        largest = float(np.abs(Theta).max())
        arm = self.mass * self.lever**2 if self.lever else 0.0
        # relative to the inertia felt at the farthest joint, so that the change of motions is as small
        least = SLIGHT * (arm + largest or self.mass)
        # diagonal inertias stay diagonal: their zeros vanish from traced equations
        if _is_diagonal(Theta):
            return np.diag(np.maximum(np.diag(Theta), least))
        moments, axes = np.linalg.eigh(Theta)
        return Theta if moments[0] >= least else (axes * np.maximum(moments, least)) @ axes.T

    @cached_property
    def inverse(self) -> np.ndarray:
        """Theta^-1."""
        if not is_numeric(self.Theta):
            return solve(self.Theta, np.eye(3, dtype=int))
        inverse = np.linalg.inv(self.Theta)
        # symmetric to the last bit, as the blocks of A are formed from one triangle
        return np.diag(1 / np.diag(self.Theta)) if _is_diagonal(self.Theta) else (inverse + inverse.T) / 2

    @cached_property
    def offset(self) -> np.ndarray:
        com = self.inertia.com
        return SE3.motion(np.eye(3), np.asarray(com, float) if is_numeric(com) else com)

    @property
    def whole(self) -> SpatialInertia:
        """The inertia as it enters the equations of motion."""
        return SpatialInertia(self.mass, self.inertia.com, self.Theta)


def _is_diagonal(A: np.ndarray) -> bool:
    return not np.any(A - np.diag(np.diag(A)))


def check_mass(name: str, inertia: SpatialInertia) -> None:
    """Raise ModelError unless the body has mass, and an inertia that a body can have."""
    inertia.check(name)
    if float(inertia.mass) <= 0:
        raise ModelError(
            f"body {name!r} has mass {float(inertia.mass):g} kg; in absolute coordinates every body moves "
            "freely before its joints act, so it needs positive mass: give it some, or weld it to another"
        )
