"""Names and units of the entries of coordinates and velocities."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import array_of, wrong_shape
from ..base.errors import ModelError, ShapeError, known
from ..base.texts import check_names
from ..groups import subgroups
from ..scalars import Array
from .tree import Tree

UNIT_OF_QUATERNIONS = "1"
"""The unit of the four entries of a quaternion in `Labels`"""


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
        check_names("an entry", self.names)
        check_names("a unit", self.units)

    @classmethod
    def of(cls, entries: Sequence[tuple[str, str]]) -> Labels:
        """From pairs (name, unit)."""
        return cls(tuple(name for name, _ in entries), tuple(unit for _, unit in entries))

    @property
    def quaternions(self) -> list[int]:
        """Places of the entries of quaternions: whole fours in a row whose unit is theirs."""
        places: list[int] = []
        for unit, row in itertools.groupby(range(len(self)), key=lambda i: self.units[i]):
            entries = list(row)
            if unit == UNIT_OF_QUATERNIONS and len(entries) % 4 == 0:
                places += entries
        return places

    def filled(self, given: Mapping[str, Any], values: Array, what: str = "q0") -> Array:
        """`values` (..., n), where entries that are given by name have what is given, as {"elbow": 1.2}.

        A joint with several entries is given one of them, {"base.z": 0.5}, or all, {"base": [1, 0, 0, ...]}.
        Values may be batches, with leading axes that broadcast.

        Raises ModelError for unknown names, ShapeError for values of another shape; `what` is their subject.
        """
        places = []
        parts = []
        for name, value in given.items():
            whole = [i for i, label in enumerate(self.names) if label.startswith(f"{name}.")]
            at = [self.names.index(name)] if name in self.names else whole
            if not at:
                raise ModelError(f"{what}: there is no {name!r}; {known(self.names, str(name))}")
            part = array_of(f"{what}: {name!r}", value, float)
            part = part if whole else part[..., None]
            if part.shape[-1:] != (len(at),):
                raise wrong_shape(f"{what}: {name!r}", part.shape, f"(..., {len(at)})")
            places.append(at)
            parts.append(part)
        # Members come from all values together: {"elbow": (5,)} makes five rows of everything else.
        try:
            batch = np.broadcast_shapes(np.shape(values)[:-1], *(part.shape[:-1] for part in parts))
        except ValueError as error:
            raise ShapeError(f"{what}: the leading axes do not broadcast: {error}") from None
        filled = np.array(np.broadcast_to(values, (*batch, len(self))))
        for at, part in zip(places, parts, strict=True):
            filled[..., at] = part
        return filled

    def __len__(self) -> int:
        return len(self.names)


# What the entries of q and of v of a joint are called, each with its unit; "" is the joint itself.
_QUATERNION = [(entry, UNIT_OF_QUATERNIONS) for entry in ("qw", "qx", "qy", "qz")]
_ANGLE = [("angle", "rad")]
_POSITION = [("x", "m"), ("y", "m"), ("z", "m")]
_RATE = [("omega", "rad/s")]
_VELOCITY = [("vx", "m/s"), ("vy", "m/s"), ("vz", "m/s")]
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

    Entries of a user's group are numbered, and have no unit.
    """
    columns: tuple[list[tuple[str, str]], list[tuple[str, str]]] = [], []
    for body in tree.bodies:
        joint = body.joint
        if joint.mimic is not None:
            continue
        numbered = [(str(i), "") for i in range(joint.nq)], [(str(i), "") for i in range(joint.dim)]
        for vector, entries in zip(columns, _ENTRIES.get(type(joint.group), numbered), strict=True):
            vector += [(f"{joint.name}.{entry}" if entry else joint.name, unit) for entry, unit in entries]
    return Labels.of(columns[0]), Labels.of(columns[1])


def labels_of(system: Any) -> tuple[Labels, Labels]:
    """Names and units of the entries of q and of v of a mechanism, a Robot, a Tree, or a system of one.

        labels_of(robot)[0].names        # ("shoulder", "elbow"): the entries of q
        labels_of(robot)[1].units        # ("rad/s", "rad/s"): the units of v

    Raises ModelError for a system whose coordinates have no names.
    """
    of_system = getattr(system, "labels", None)
    tree = getattr(system, "tree", system)
    if of_system is None and not isinstance(tree, Tree):
        raise ModelError(f"the coordinates of {system!r} have no names; give them as an array")
    return of_system or labels(tree)
