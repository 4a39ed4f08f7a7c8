"""Monopods in a plane that stands in the world: they hop along x and fall along -y of the plane.

The base moves in the plane, q = (angle, x, y, joints ...), v = (angular velocity, velocity in the base's
axes, joint rates ...). The plane's x and y are the world's x and z. The frame "foot" is the point that
touches the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.arguments import quantities, quantity
from ..bodies import Joint, SpatialInertia, Tree, TreeBuilder
from ..groups import Planar, Prismatic, Revolute
from ..scalars import Array
from .model import model
from .pendulums import UPRIGHT

OUT_OF_PLANE = (0, 0, 1)


@model()
def prismatic_hopper(masses: Array = (0.957, 0.050)) -> Tree:
    """Two point masses, one sliding along x of the other: Feurstein's monopod with a prismatic leg.

    masses  of base and foot                                                             [kg]

    Joint "leg": its coordinate is the distance of the foot from the base. The leg stands where the base's
    angle is -pi/2. Feurstein (2021), section 4.2, table 4.5.
    """
    base, foot = quantities("prismatic_hopper: masses", masses, (2,)).tolist()
    return (
        _base("prismatic_hopper", SpatialInertia.point(base))
        .add("leg", Prismatic((1, 0, 0)), SpatialInertia.point(foot), "base")
        # the foot is the point mass at the origin of the sliding body
        .frame("foot", "leg")
        .build()
    )


@model()
def revolute_hopper(masses: Array = (0.835, 0.122, 0.050), length: Any = 0.12) -> Tree:
    """Base and thigh in one body, and a shank on a knee: Feurstein's monopod with a revolute leg.

    masses  of base, thigh and shank, points at the base's origin and in the middle of each link      [kg]
    length  of each link; the thigh lies along x of the base                                          [m]

    Joint "knee": zero with the leg stretched. The foot has no mass. Feurstein (2021), section 4.3, table
    4.10.
    """
    base, thigh, shank = quantities("revolute_hopper: masses", masses, (3,)).tolist()
    length = quantity("revolute_hopper: length", length)
    middle = np.array([length / 2, 0, 0])
    end = np.array([length, 0, 0])
    return (
        _base("revolute_hopper", SpatialInertia.point(base) + SpatialInertia.point(thigh, middle))
        .add("shank", Joint("knee", Revolute(OUT_OF_PLANE)), SpatialInertia.point(shank, middle), "base", end)
        .frame("foot", "shank", end)
        .build()
    )


@model()
def two_joint_hopper() -> Tree:
    """A trunk on a leg with hip and knee.

    The trunk is a disc of 0.8 kg and 5 cm radius about the hip, with its centre of mass 2 cm above it; thigh
    and shank are thin rods of 12 cm, 0.122 kg and 0.050 kg. At q = 0 the leg hangs straight down, the trunk
    upright. The numbers are plausible, close to `revolute_hopper`, and of no real robot.
    """
    return _legged("two_joint_hopper", (("hip", "thigh", 0.12, 0.122), ("knee", "shank", 0.12, 0.050)))


@model()
def three_joint_hopper() -> Tree:
    """A trunk on a leg with hip, knee and ankle.

    As `two_joint_hopper`, with thigh and shank of 10 cm, 0.110 kg and 0.050 kg, and a foot of 6 cm and
    0.020 kg, of which the tip touches the ground. The numbers are plausible, and of no real robot.
    """
    links = (("hip", "thigh", 0.10, 0.110), ("knee", "shank", 0.10, 0.050), ("ankle", "toe", 0.06, 0.020))
    return _legged("three_joint_hopper", links)


def _base(name: str, inertia: SpatialInertia) -> TreeBuilder:
    """A tree with a base that moves in the plane."""
    return TreeBuilder(name).add("base", Planar(OUT_OF_PLANE), inertia, placement=UPRIGHT)


def _legged(name: str, links: Sequence[tuple[str, str, float, float]]) -> Tree:
    """Rods along -y under a trunk."""
    mass = 0.8
    radius = 0.05
    height = 0.02
    # a disc: m r^2/2 about its axis, half of that about a diameter
    turning = mass * radius**2 / 2
    trunk = SpatialInertia(mass, np.array([0, height, 0]), np.diag([turning / 2, turning / 2, turning]))
    builder = _base(name, trunk)
    parent = "base"
    place = np.zeros(3)
    for joint, body, length, weight in links:
        end = np.array([0, -length, 0])
        rod = SpatialInertia.rod(weight, length, axis=1, com=end / 2)
        # each link hangs at the end of the link before it; the last end is the foot
        builder.add(body, Joint(joint, Revolute(OUT_OF_PLANE), lower=-2.6, upper=2.6), rod, parent, place)
        parent = body
        place = end
    return builder.frame("foot", parent, place).build()
