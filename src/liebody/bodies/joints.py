"""Joints: motion subgroups of SE(3) with a name, limits, losses and, for some, a leader they mimic."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.arguments import members, quantities, quantity, short
from ..base.errors import ModelError
from ..base.texts import check_name
from ..groups import MotionSubgroup
from ..scalars import Array
from ..scalars.linear import is_numeric

LIMITS = ("lower", "upper", "velocity_limit", "effort_limit")
NOT_NEGATIVE = ("damping", "friction", "armature", "stiffness")
SIGNED = ("lower", "upper", "rest")
NO_LIMIT = 1e9
"""Limits from this size on do not count: descriptions write them for none.  [rad, m]"""

JOINT_KINDS: dict[str, dict[str, float]] = {
    "armature": {"armature": 0.0},
    "damping": {"damping": 0.0},
    "friction": {"friction": 0.0},
    "springs": {"stiffness": 0.0, "rest": 0.0},
    "limits": {"lower": -np.inf, "upper": np.inf},
    "efforts": {"effort_limit": np.inf},
}
"""What a description may say about joints, by kind: fields of `Joint`, and what they are in an ideal one."""


IDEAL: dict[str, float] = {
    "velocity_limit": np.inf,
    **{field: number for kind in JOINT_KINDS.values() for field, number in kind.items()},
}
"""The numbers of an ideal joint: what those of `Joint` are by default."""


def joint_kinds(joints: str | Iterable[str]) -> frozenset[str]:
    """Kinds by name: "ideal" is none, "real" all of them, otherwise some of JOINT_KINDS.

    Raises ModelError for unknown ones.
    """
    words: dict[str, Iterable[str]] = {"ideal": (), "real": JOINT_KINDS}
    named: Any = words.get(joints, {joints}) if isinstance(joints, str) else joints
    kinds = frozenset(
        x if isinstance(x, str) else short(x) for x in members("joints", named, "kinds of joints")
    )
    if unknown := sorted(map(str, kinds - JOINT_KINDS.keys())):
        raise ModelError(
            f"joints cannot be {unknown[0]!r}; give 'ideal', 'real', or some of {', '.join(JOINT_KINDS)}"
        )
    return kinds


@lru_cache(maxsize=64)
def _constant(x: float, dim: int) -> np.ndarray:
    """(dim,) times the same number, read-only."""
    return np.broadcast_to(x, (dim,))


@dataclass(frozen=True)
class Mimic:
    """The coordinate of a joint as a linear map of another's: multiplier * q[joint] + offset."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for field in ("multiplier", "offset"):
            value = quantity(f"{field} of a mimic of {self.joint!r}", getattr(self, field))
            if is_numeric(value) and not np.isfinite(value):
                raise ModelError(f"{field} of a mimic of {self.joint!r} is {value}; give a finite number")


@dataclass(frozen=True, eq=False)
class Joint:
    """A motion subgroup of SE(3), with what a description says about it.

    name            unique in its tree
    group           the motions it allows, e.g. Revolute([0, 0, 1])
    lower, upper    limits of the coordinates; infinite for rotations in space     [rad, m]
    velocity_limit  [rad/s, m/s]
    effort_limit    [N m, N]
    damping         effort opposing motion, per velocity; acts where an algorithm is asked for it
    friction        dry friction; acts where `mechanisms.JointFriction` is among the forces       [N m, N]
    armature        inertia of a rotor behind a gear, added to the diagonal of M   [kg m2, kg]
    stiffness       of a spring; acts where `mechanisms.JointSpring` is among the forces   [N m/rad, N/m]
    rest            where that spring is relaxed                                   [rad, m]
    mimic           the joint this one follows; it then adds no coordinate

    Limits, losses, springs and armature are one number, or one per degree of freedom; they are stored as
    (dim,).
    """

    name: str
    group: MotionSubgroup
    lower: Array = IDEAL["lower"]
    upper: Array = IDEAL["upper"]
    velocity_limit: Array = IDEAL["velocity_limit"]
    effort_limit: Array = IDEAL["effort_limit"]
    damping: Array = IDEAL["damping"]
    friction: Array = IDEAL["friction"]
    armature: Array = IDEAL["armature"]
    stiffness: Array = IDEAL["stiffness"]
    rest: Array = IDEAL["rest"]
    mimic: Mimic | None = None

    def __post_init__(self) -> None:
        check_name("a joint", self.name)
        if not isinstance(self.group, MotionSubgroup):
            raise ModelError(
                f"joint {self.name!r}: its group is {self.group!r}, expected a motion subgroup such as "
                "Revolute([0, 0, 1]), Prismatic([1, 0, 0]), Spherical() or Free()"
            )
        if self.mimic is not None and (self.group.dim, self.group.nq) != (1, 1):
            raise ModelError(
                f"joint {self.name!r} mimics {self.mimic.joint!r}, which only a joint of one degree of "
                f"freedom can, and {self.group!r} has {self.group.dim}; drop the mimic or change the "
                "joint"
            )
        for field in (*LIMITS, *NOT_NEGATIVE, "rest"):
            # Most fields are ideal, and large descriptions have many joints: these are not checked.
            if getattr(self, field) is IDEAL[field]:
                object.__setattr__(self, field, _constant(IDEAL[field], self.dim))
                continue
            values = quantities(f"joint {self.name!r}: {field}", getattr(self, field), (), (self.dim,))
            object.__setattr__(self, field, np.broadcast_to(values, (self.dim,)))
            self._check(field)
        if is_numeric(self.lower, self.upper) and np.any(self.lower > self.upper):
            lower = self.lower.tolist()
            upper = self.upper.tolist()
            raise ModelError(f"joint {self.name!r}: lower is {lower}, above upper, {upper}; exchange them")

    def _check(self, field: str) -> None:
        """Raise ModelError for a number that no joint can have."""
        values = getattr(self, field)
        if not is_numeric(values):
            return
        # Limits may be infinite, which means none; losses may not.
        x = values.astype(float)
        limit = field in LIMITS
        allowed = ~np.isnan(x) if limit else np.isfinite(x)
        expected = "numbers" if limit else "finite numbers"
        if field not in SIGNED:
            allowed = allowed & (x >= 0)
            expected = f"zero or more{'' if limit else ', finite'}"
        if not allowed.all():
            raise ModelError(f"joint {self.name!r}: {field} is {values.tolist()}; give {expected}")

    @property
    def S(self) -> Array:
        """The constant (6, dim) selection matrix: V = S v in the frame that moves."""
        return self.group.S

    @property
    def dim(self) -> int:
        """Degrees of freedom."""
        return self.group.dim

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return self.group.nq

    def with_only(self, kinds: Collection[str]) -> Joint:
        """The joint with its data of these kinds (`JOINT_KINDS`); the other fields are ideal."""
        ideal: dict[str, Any] = {}
        for kind in JOINT_KINDS.keys() - set(kinds):
            ideal |= JOINT_KINDS[kind]
        return replace(self, **ideal)

    def pose(self, q: Array) -> Array:
        """Pose (4, 4) of the frame that moves in the frame that does not, at coordinates q (nq,)."""
        return self.group.pose(q)
