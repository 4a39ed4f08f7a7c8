"""A group, a joint, a force and a method, which liebody finds by their names."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

import liebody as lb
from liebody.groups import Helical, MatrixGroup
from liebody.integrators import Tableau
from liebody.mechanisms import JointForce

HEISENBERG = MatrixGroup(
    [[[0, 1, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 1], [0, 0, 0]], [[0, 0, 1], [0, 0, 0], [0, 0, 0]]],
    "Heisenberg",
)
"""Upper triangular matrices (3, 3) with ones on the diagonal: [e1, e2] = e3."""

HEUN3 = Tableau("heun3", [[], ["1/3"], ["0", "2/3"]], ["1/4", "0", "3/4"], ["0", "1/3", "2/3"], 3)
"""Heun's method of order three. Heun (1900), Zeitschrift fuer Mathematik und Physik 45."""


def leadscrew(axis: Any = (0.0, 0.0, 1.0), lead: float = 0.005) -> lb.Joint:
    """A nut on a screw that advances by `lead` a turn, with the damping of its grease.  [m]"""
    return lb.Joint("leadscrew", Helical(axis, pitch=lead / (2 * pi)), damping=0.002)


@dataclass(frozen=True)
class Drag(JointForce):
    """tau = -c v |v| of each joint."""

    c: float = 0.1
    name = "drag"

    def effort(self, t: Any, x: Any, v: Any, *numbers: Any) -> Any:
        return -self.c * v * np.abs(v)
