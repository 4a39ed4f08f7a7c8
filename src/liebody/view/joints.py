"""The joints of a run: where their entries stand, which of them are rates of others, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.arguments import names
from ..base.errors import LiebodyError, ModelError, known
from ..bodies import NO_LIMIT, UNIT_OF_QUATERNIONS, Joint, Labels, Tree

if TYPE_CHECKING:
    from ..runs import Run


class JointEntries(NamedTuple):
    """A joint's coordinates and velocities of one kind: their places in q and v."""

    joint: str
    coordinates: list[int]
    dofs: list[int]


def rows_of(run: Run, joints: str | Sequence[str]) -> list[JointEntries]:
    """The rows of these joints: a hinge has one, a joint in space one for its turn and one for its shift."""
    q_labels, v_labels = (labels for labels, _ in run.shown)
    rows = []
    for name in dict.fromkeys(names(joints)):
        places = [_places(labels, name) for labels in (q_labels, v_labels)]
        if not any(places):
            raise ModelError(f"there is no joint {name!r} in this run; {known(joint_names(run), name)}")
        coordinates, dofs = places
        # entries of a kind belong together: a quaternion and the angular velocity, a position and its rate
        for q_units, v_unit in (((UNIT_OF_QUATERNIONS, "rad"), "rad/s"), (("m",), "m/s"), (("",), "")):
            of_kind = (
                [i for i in coordinates if q_labels.units[i] in q_units],
                [j for j in dofs if v_labels.units[j] == v_unit],
            )
            if any(of_kind):
                rows.append(JointEntries(name, *of_kind))
    if not rows:
        raise LiebodyError("no joints are named; name some, joints=['elbow'], or leave `joints` out")
    return rows


def _places(labels: Labels, joint: str) -> list[int]:
    """Where the entries of a joint stand; also of one entry that is named itself, "base.x"."""
    if joint in labels.names:
        return [labels.names.index(joint)]
    return [i for i, label in enumerate(labels.names) if label.startswith(f"{joint}.")]


def joint_names(run: Run) -> list[str]:
    """The names of all joints: a hinge's entry is called as the joint, "base.x" is one of several."""
    q_labels, v_labels = (labels for labels, _ in run.shown)
    return list(dict.fromkeys(x if x in v_labels.names else _joint_of(x) for x in q_labels.names))


def _joint_of(label: str) -> str:
    return label.rpartition(".")[0] or label


def pairs_of(run: Run, row: JointEntries) -> list[tuple[int, int]]:
    """Coordinates whose velocities are their rates, with these.

    Velocities are in the body's axes: where it turns, too, they are not the rates of its position x, y, z.
    """
    labels = run.shown[0][0]
    if not row.coordinates or len(row.coordinates) != len(row.dofs) or not labels.units[row.coordinates[0]]:
        return []
    first = labels.names[row.coordinates[0]]
    units = {labels.units[i] for i in _places(labels, _joint_of(first))} | {labels.units[row.coordinates[0]]}
    in_space = UNIT_OF_QUATERNIONS in units or ("rad" in units and first.endswith((".x", ".y", ".z")))
    return [] if in_space else list(zip(row.coordinates, row.dofs, strict=True))


def joints_by_name(run: Run, system: Any) -> dict[str, Joint]:
    """The joints of what moves, which know limits: of the system, or of the run's own tree."""
    tree = run.tree if system is None else getattr(system, "tree", system)
    if system is not None and not isinstance(tree, Tree):
        raise ModelError(f"system is {system!r}, which has no joints with limits; give the robot that moves")
    return (
        {} if tree is None else {body.joint.name: body.joint for body in tree.bodies if body.joint.dim == 1}
    )


def limits_of(joint: Joint, kind: str) -> tuple[float, float]:
    """The limits of a joint's coordinate ("q"), velocity ("v") or effort ("tau"); infinite: none."""
    most = {"v": joint.velocity_limit, "tau": joint.effort_limit}.get(kind)
    lower, upper = (joint.lower, joint.upper) if most is None else (-most, most)
    try:
        ends = float(lower[0]), float(upper[0])
    except TypeError:  # a symbol
        return -np.inf, np.inf
    low, high = (x if abs(x) < NO_LIMIT else np.copysign(np.inf, x) for x in ends)
    return float(low), float(high)
