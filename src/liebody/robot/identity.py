"""What tells the equations of motion of one robot from those of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import Tree
from ..codegen.build import digest
from ..linear import is_numeric


def fingerprint(tree: Tree) -> str | None:
    """A digest of all that the equations of motion depend on; None if symbols or users' groups are in it."""
    parts = []
    for body in tree.bodies:
        joint, inertia = body.joint, body.inertia
        numbers: list[Any] = [body.placement, joint.S, inertia.mass, inertia.com, inertia.rotational]
        numbers += [body.ratio, body.offset, joint.armature, joint.damping]
        if not is_numeric(*numbers) or not type(joint.group).__module__.startswith("liebody."):
            return None
        parts += [type(joint.group).__name__, str((body.name, body.parent, body.coordinates, body.dofs))]
        parts += [np.asarray(x, float).tobytes().hex() for x in numbers]
    for frame in tree.frames.values():
        parts += [frame.name, str(frame.body), np.asarray(frame.placement, float).tobytes().hex()]
    return digest(*parts)
