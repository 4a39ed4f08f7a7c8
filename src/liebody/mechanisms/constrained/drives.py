"""Drives: joints of mechanisms with constraints that follow functions of time, as constraints that move.

The coordinate x of a joint obeys x = f(t), and so dx/dt = df/dt, d2x/dt2 = d2f/dt2. With the multiplier
lambda, -lambda is the effort that moves the joint, whose work is in the balance of energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import ModelError
from ...bodies import Joint
from ...compiler import Function
from ...groups import Prismatic, Revolute
from ...scalars import Array, arctan2, cos, sin
from ..prescribed import OfTime, PrescribedMotion, differentiated
from .constraints import ConstraintKind, LowerPair, Rows, States, lower_pair

SUFFIX = ".drive"  # constraint crank.drive moves joint crank


@dataclass(frozen=True, eq=False)
class AngleDrive(ConstraintKind):
    """A Revolute or Prismatic joint between two bodies in absolute coordinates: its coordinate is f(t).

    joint      its name
    turns      whether the coordinate is an angle, of which the difference to f counts the short way round
    axes       the pose (4, 4) of the frame with the axis z, in the joint's frame
    functions  f, df/dt and d2f/dt2, (1,) each, of t

    Its constants equal the joint's constants: frames with the axis z, in both bodies.
    """

    joint: str
    turns: bool
    axes: np.ndarray
    functions: tuple[Function, Function, Function]

    rows = 1
    timed = True

    @classmethod
    def of(cls, joint: Joint, function: OfTime) -> AngleDrive:
        """The drive of a joint. Raises ModelError for joints of other kinds, and functions without traces."""
        if not isinstance(joint.group, Revolute | Prismatic):
            raise ModelError(
                f"joint {joint.name!r} moves by {joint.group!r}, and drives of a System move Revolute and "
                "Prismatic joints; give others a `constraint` with timed=True, or take a ClosedTree"
            )
        turns = isinstance(joint.group, Revolute)
        return cls(joint.name, turns, lower_pair(joint.group)[1], differentiated({joint.name: (function, 1)}))

    def __call__(self, states: States, constants: Sequence[Array], t: Any, s: Array) -> Rows:
        x, rate, acceleration = (f(t) for f in self.functions)
        pair = LowerPair("locked", "free") if self.turns else LowerPair("free", "normal")
        along = pair(states, (*constants, 1), t, s)
        jacobians = [J[-1:] for J in along.jacobians]
        residual = along.residual[-1:] - x
        if self.turns:
            a, b = states
            Ra, _, Rb, _ = constants
            # the parent's joint frame in the child's, whose angle is the coordinate; then the angle less f
            E = Rb.T @ (b.R.T @ a.R) @ Ra
            sine = E[0, 1] - E[1, 0]
            cosine = E[0, 0] + E[1, 1]
            c, d = cos(x[0]), sin(x[0])
            residual = np.array([arctan2(sine * c - cosine * d, cosine * c + sine * d)])
        return Rows(jacobians, along.bias[-1:] - acceleration, residual, -rate)


@dataclass(frozen=True, eq=False)
class CoordinateDrive(ConstraintKind):
    """A joint of a tree: its coordinates are f(t) or f(t, p), rows of ones in J.

    motion  where the joint stands in q and v, and its functions
    """

    motion: PrescribedMotion

    timed = True

    @property
    def rows(self) -> int:  # type: ignore[override]
        return len(self.motion.places)

    def in_coordinates(
        self, q: Array, v: Array, t: Any, p: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """J (k, nv), bias, residual, its rate, and the part of the rate at rest, (k,) each."""
        x, rate, acceleration = self.motion.at(t, p)
        J = np.zeros((self.rows, len(v)), int)
        J[np.arange(self.rows), self.motion.dofs] = 1
        return J, -acceleration, q[self.motion.places] - x, v[self.motion.dofs] - rate, -rate
