"""Joints by their names: joints of liebody, and joints that other packages add."""

from __future__ import annotations

from typing import Any

from ..base.extensions import GROUPS, JOINTS, added, extension, extensions, named
from ..groups import (
    Cylindrical,
    Fixed,
    Free,
    Helical,
    MotionSubgroup,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)
from .joints import Joint

OURS: dict[str, type[MotionSubgroup]] = {
    "fixed": Fixed,
    "revolute": Revolute,
    "continuous": Revolute,
    "prismatic": Prismatic,
    "helical": Helical,
    "cylindrical": Cylindrical,
    "planar": Planar,
    "planar-helical": PlanarHelical,
    "planar-translation": PlanarTranslation,
    "spherical": Spherical,
    "spatial-translation": SpatialTranslation,
    "schoenflies": Schoenflies,
    "floating": Free,
    "free": Free,
}
KINDS = (Joint, MotionSubgroup)
EXPECTED = "a liebody.Joint or a liebody.groups.MotionSubgroup"


def joint_named(name: str, *args: Any, **options: Any) -> Joint | MotionSubgroup:
    """The joint with this name, such as "revolute" or "spherical".

        builder.add("nut", joint_named("helical", [0, 0, 1], pitch=0.01))

    Names are the types of joints that a URDF has, the motion subgroups of `liebody.groups` in small letters
    ("planar-helical"), and those that other packages add as entry points of the group `liebody.joints`: a
    `Joint`, a `MotionSubgroup`, or what makes one; or of `liebody.groups`, if that is a `MotionSubgroup`.
    No package replaces a name of liebody.

    args, options  what the joint is made of, such as its axis

    Raises ModelError for unknown names, which lists the known ones, and for other arguments; LiebodyError for
    a package that cannot be imported, or whose joint is none.
    """
    joint: Joint | MotionSubgroup
    if name not in OURS and name not in extensions(JOINTS) and name in extensions(GROUPS):
        joint = added(GROUPS, name, MotionSubgroup, "a liebody.groups.MotionSubgroup", *args, **options)
    else:
        joint = named(JOINTS, name, OURS, KINDS, EXPECTED, *args, **options)
    return joint


def joint_along(kind: str, axis: Any) -> Joint | MotionSubgroup | None:
    """The joint that another package adds by this name; None if there is none, or if the name is ours.

    axis  (3,), with which a function that makes the joint is called; a joint that is made already stays as
          it is
    """
    if kind in OURS:
        return None
    loaded = extension(JOINTS, kind)
    arguments = () if isinstance(loaded, KINDS) else (axis,)
    joint: Joint | MotionSubgroup | None = added(JOINTS, kind, KINDS, EXPECTED, *arguments)
    return joint
