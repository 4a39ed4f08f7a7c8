"""What the entries of coordinates and velocities are called, and in which units they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bodies import Tree
from .errors import ShapeError
from .groups import subgroups

UNIT_OF_QUATERNIONS = "1"


@dataclass(frozen=True)
class Labels:
    """Names and units of the entries of a vector, in order."""

    names: tuple[str, ...]
    units: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        object.__setattr__(self, "units", tuple(map(str, self.units)))
        if len(self.names) != len(self.units):
            raise ShapeError(f"{len(self.names)} names need as many units, not {len(self.units)}")

    @classmethod
    def of(cls, entries: Sequence[tuple[str, str]]) -> Labels:
        """From pairs (name, unit)."""
        return cls(tuple(name for name, _ in entries), tuple(unit for _, unit in entries))

    def __len__(self) -> int:
        return len(self.names)


# What the entries of q and of v of a joint are called, each with its unit; "" is the joint itself.
_QUATERNION = [(entry, UNIT_OF_QUATERNIONS) for entry in ("qw", "qx", "qy", "qz")]
_ANGLE, _POSITION = [("angle", "rad")], [("x", "m"), ("y", "m"), ("z", "m")]
_RATE, _VELOCITY = [("omega", "rad/s")], [("vx", "m/s"), ("vy", "m/s"), ("vz", "m/s")]
_ROTATION = [("wx", "rad/s"), ("wy", "rad/s"), ("wz", "rad/s")]
_ENTRIES: dict[type, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    subgroups.Fixed: ([], []),
    subgroups.Revolute: ([("", "rad")], [("", "rad/s")]),
    subgroups.Helical: ([("", "rad")], [("", "rad/s")]),
    subgroups.Prismatic: ([("", "m")], [("", "m/s")]),
    subgroups.Cylindrical: ([*_ANGLE, ("distance", "m")], [*_RATE, ("v", "m/s")]),
    subgroups.PlanarTranslation: (_POSITION[:2], _VELOCITY[:2]),
    subgroups.Planar: (_ANGLE + _POSITION[:2], _RATE + _VELOCITY[:2]),
    subgroups.PlanarHelical: (_ANGLE + _POSITION[:2], _RATE + _VELOCITY[:2]),
    subgroups.SpatialTranslation: (_POSITION, _VELOCITY),
    subgroups.Spherical: (_QUATERNION, _ROTATION),
    subgroups.Schoenflies: (_ANGLE + _POSITION, _RATE + _VELOCITY),
    subgroups.Free: (_QUATERNION + _POSITION, _ROTATION + _VELOCITY),
}


def labels(tree: Tree) -> tuple[Labels, Labels]:
    """Names and units of the coordinates q and of the velocities v of a tree: `arm`, `base.qw`, `base.wx`.

    Entries of a group of the user's own are numbered, and have no unit.
    """
    found: tuple[list[tuple[str, str]], list[tuple[str, str]]] = [], []
    for body in tree.bodies:
        joint = body.joint
        if joint.mimic is not None:
            continue
        numbered = [(str(i), "") for i in range(joint.nq)], [(str(i), "") for i in range(joint.dim)]
        for vector, entries in zip(found, _ENTRIES.get(type(joint.group), numbered), strict=True):
            vector += [(f"{joint.name}.{entry}" if entry else joint.name, unit) for entry, unit in entries]
    return Labels.of(found[0]), Labels.of(found[1])
