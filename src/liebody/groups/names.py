"""Groups by their names: groups of liebody, and groups that other packages add."""

from __future__ import annotations

from typing import Any

from ..base.extensions import GROUPS, named
from . import subgroups
from .base import LieGroup
from .product import SO3xR3
from .real import SO2, R
from .se2 import SE2
from .se3 import SE3
from .sen3 import SEn3
from .so3 import SO3

OURS: dict[str, Any] = {
    "SO2": SO2,
    "SO3": SO3,
    "SE2": SE2,
    "SE3": SE3,
    "SO3xR3": SO3xR3,
    "R": R,
    "SEn3": SEn3,
}
OURS |= {name: getattr(subgroups, name) for name in subgroups.__all__ if name != "MotionSubgroup"}


def group_named(name: str, *args: Any, **options: Any) -> LieGroup:
    """The group with this name, such as "SO3", "R" or "Helical".

        group_named("Helical", [0, 0, 1], pitch=0.01)

    Known are the names in `liebody.groups`, and the names that other packages add as entry points of the
    group `liebody.groups`: a `LieGroup`, or a call that makes one. No package replaces a name of liebody.

    args, options  what the group is made of; a group such as SO3 takes none

    Raises ModelError for unknown names, which lists the known ones, and for other arguments; LiebodyError for
    a package that cannot be imported, or whose group is none.
    """
    group: LieGroup = named(GROUPS, name, OURS, LieGroup, "a liebody.groups.LieGroup", *args, **options)
    return group
