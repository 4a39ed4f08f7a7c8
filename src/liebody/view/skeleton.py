"""A tree as lines from joint to joint, for pictures: its links, masses, tip, and the plane it moves in."""

from __future__ import annotations

import numpy as np

from ..bodies import Tree
from ..scalars import Array


def skeleton(tree: Tree, poses: Array) -> tuple[Array, Array, Array]:
    """Segments (nt, segments, 2, 3) of the links, masses of the bodies (n,), and path of the tip (nt, 3)."""
    origins = np.pad(poses[..., :3, 3], ((0, 0), (1, 0), (0, 0)))  # of the world and the bodies
    links = [body for body in tree.bodies if body.parent or body.joint.dim < 6]
    pairs = [(origins[:, body.parent], origins[:, body.index]) for body in links]
    parents = {body.parent for body in tree.bodies}
    # a body without children has a tip: its last frame, or else its centre of mass
    tips = {}
    for body in tree.bodies:
        if body.index not in parents:
            frames = [f for f in tree.frames.values() if f.body == body.index]
            local = np.asarray(frames[-1].placement[:3, 3] if frames else body.inertia.com, float)
            T = poses[:, body.index - 1]
            tips[body.index] = T[:, :3, :3] @ local + T[:, :3, 3]
            pairs.append((origins[:, body.index], tips[body.index]))
    segments = np.stack([np.stack(pair, axis=-2) for pair in pairs], axis=1)
    masses = np.array([float(body.inertia.mass) for body in tree.bodies])
    return segments, masses, tips[max(tips, key=lambda index: len(tree.ancestors(index)))]


def centers(tree: Tree, poses: Array) -> Array:
    """Centres of mass in the world, (n, 3), of bodies at `poses` (n, 4, 4)."""
    com = np.array([np.asarray(body.inertia.com, float) for body in tree.bodies])
    return (poses[:, :3, :3] @ com[..., None])[..., 0] + poses[:, :3, 3]


def plane_of(points: Array) -> tuple[int, int] | None:
    """The two axes of the coordinate plane that all points lie in, if there is one."""
    # points that do not leave a plane are drawn in it, others in space
    spread = np.ptp(points, axis=0)
    thin = int(np.argmin(spread))
    if spread[thin] > 1e-6 * spread.max():
        return None
    rest = [i for i in range(3) if i != thin]
    return rest[0], rest[1]
