"""A satellite with an arm: nothing holds it, and every motion of the arm moves the satellite."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..bodies import Joint, SpatialInertia, Tree, TreeBuilder
from ..groups import Free, Revolute
from .model import model

BUS_MASS = 80.0
BUS_SIZE = (0.7, 0.7, 0.8)
PANEL_MASS = 4.0
PANEL_SIZE = (0.5, 1.2, 0.02)
PANEL_AT = 0.95  # of its centre, along y of the bus [m]


class _Link(NamedTuple):
    """A tube from joint to joint, along z.

    axis           of its joint: 1 is y (bends the arm), 2 is z (turns it)
    length, radius [m]
    mass           of tube and drive [kg]
    armature       of the drive behind its gear [kg m2]
    effort         that the drive can give [N m]
    """

    axis: int
    length: float
    radius: float
    mass: float
    armature: float
    effort: float


LINKS = (
    _Link(2, 0.15, 0.07, 3.5, 0.30, 80.0),
    _Link(1, 0.25, 0.06, 3.0, 0.30, 80.0),
    _Link(2, 0.30, 0.06, 2.5, 0.20, 60.0),
    _Link(1, 0.25, 0.05, 2.5, 0.20, 60.0),
    _Link(2, 0.25, 0.05, 2.0, 0.10, 30.0),
    _Link(1, 0.10, 0.05, 1.5, 0.10, 30.0),
    _Link(2, 0.10, 0.05, 1.0, 0.05, 15.0),
)
"""Plausible numbers, for a small servicing satellite.

Its arm has the size, the weight and the order of joints of light industrial arms with seven hinges, the elbow
between a shoulder and a wrist.
"""


@model(gravity=(0, 0, 0))
def space_robot(payload: Any = 0.0) -> Tree:
    """A free-flying satellite of 88 kg with an arm of seven hinges and 16 kg, without gravity.

    payload  mass of a solid ball of 0.1 m radius in its hand                                       [kg]

    The satellite is a box with two solar panels along y; its frame lies at its centre of mass. The arm stands
    on its top, along z at q = 0, and reaches 1.4 m. Velocities: six of the satellite, "bus", then the rates
    of "joint1" to "joint7". The frame "hand" is at the tip, with z ahead. The drives' rotors (armature) carry
    no momentum, as everywhere. The numbers are plausible, and of no real robot.
    """
    bus = SpatialInertia.box(BUS_MASS, BUS_SIZE)
    # symmetric panels keep the centre of mass at the bus's centre, the origin of its frame
    for side in (-1, 1):
        bus = bus + SpatialInertia.box(PANEL_MASS, PANEL_SIZE, (0, side * PANEL_AT, 0))
    builder = TreeBuilder("space_robot").add("bus", Free(), bus)
    parent = "bus"
    start = BUS_SIZE[2] / 2
    for i, link in enumerate(LINKS, start=1):
        tube = SpatialInertia.cylinder(link.mass, link.radius, link.length, com=(0, 0, link.length / 2))
        if i == len(LINKS):
            # the payload is a ball that touches the hand's frame from ahead
            tube = tube + SpatialInertia.sphere(payload, 0.1, (0, 0, link.length + 0.1))
        # bending joints stop before the arm folds into itself; turning ones have half a turn either way
        bend = 2.1 if link.axis == 1 else np.pi
        joint = Joint(
            f"joint{i}",
            Revolute(np.eye(3)[link.axis]),
            lower=-bend,
            upper=bend,
            velocity_limit=1.0,
            effort_limit=link.effort,
            armature=link.armature,
        )
        builder.add(f"link{i}", joint, tube, parent, (0, 0, start))
        parent = f"link{i}"
        start = link.length
    return builder.frame("hand", parent, (0, 0, start)).build()
