"""What tells the equations of motion of one robot from those of others, and of other versions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..bodies import Tree
from ..codegen.build import digest
from ..groups import SE3, SO3, LieGroup, Product, SO3xR3
from ..linear import is_numeric


def quaternions(group: LieGroup, start: int = 0) -> list[int]:
    """Where in the coordinates of a group its unit quaternions begin."""
    if isinstance(group, Product) and group != SO3xR3:
        found = []
        for factor in group.factors:
            found += quaternions(factor, start)
            start += factor.nq
        return found
    return [start] if isinstance(group, (type(SO3), type(SE3))) or group == SO3xR3 else []


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


@functools.cache
def library_digest() -> str:
    """A digest of the source of this library: kernels of another version are not taken for this one's."""
    from importlib import resources  # needed only here, and slow to import

    root = resources.files("liebody")
    texts = []
    pending = [root]
    while pending:
        for item in sorted(pending.pop().iterdir(), key=lambda x: x.name):
            if item.is_dir() and item.name != "__pycache__":
                pending.append(item)
            elif item.name.endswith((".py", ".h")):
                texts.append(item.read_text(encoding="utf-8"))
    return digest(*texts)
