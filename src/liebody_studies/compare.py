"""What several studies compare formulas by: relative differences, rates along a motion, bodies and chains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from liebody.bodies import SpatialInertia, Tree
from liebody.compiler import jvp, trace
from liebody.groups import SE3, SO3
from liebody.scalars import Array as Array  # also for the studies


def apart(x: Any, y: Any) -> float:
    """The largest difference, relative to the size of y."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return float(np.max(np.abs(x - y)) / max(np.max(np.abs(y)), 1e-300))


def left(x: Any, *terms: Any) -> float:
    """|x| relative to the largest of the terms that it is a sum of."""
    size = max((float(np.max(np.abs(np.asarray(t, float)), initial=0)) for t in terms), default=1.0)
    return float(np.max(np.abs(np.asarray(x, float)), initial=0)) / max(size, 1e-300)


def skewness(A: Array) -> float:
    """|A + A^T| / |A|: zero for a skew-symmetric matrix, 2 for a symmetric one."""
    return float(np.linalg.norm(A + A.T)) / max(float(np.linalg.norm(A)), 1e-300)


def along(tree: Tree, q: Array, v: Array, a: Array, function: Callable[[Array, Array], Any]) -> Any:
    """d/dt of function(q, v) while q moves with v, and v changes at the rate a: by its graph."""
    moving = trace(lambda s: function(tree.group.integrate(q, s * v), v + s * a), {"s": ()})
    return jvp(moving, "s")(0.0, 1.0)


def random_inertia(rng: np.random.Generator) -> SpatialInertia:
    """A body whose frame is neither at its centre of mass nor along its principal axes."""
    shape = 0.3 * rng.normal(size=(3, 3))
    second = shape @ shape.T + 0.02 * np.eye(3)
    inertia = np.trace(second) * np.eye(3) - second
    return SpatialInertia(rng.uniform(0.5, 2), 0.3 * rng.normal(size=3), inertia)


def random_pose(rng: np.random.Generator) -> Array:
    return SE3.motion(SO3.element(SO3.random(rng)), 0.5 * rng.normal(size=3))


@dataclass(frozen=True)
class Chain:
    """Joints of one degree of freedom in a row, by their screws and frames at home.

    screws    in space, at home, (n, 6);  homes  poses of the bodies' frames, (n, 4, 4);  inertias  in them
    """

    screws: Array
    homes: Array
    inertias: tuple[SpatialInertia, ...]

    @cached_property
    def tree(self) -> Tree:
        """The same mechanism for the algorithms of this library."""
        return Tree.from_screws(self.screws, self.homes, self.inertias)

    def home(self, i: int, j: int) -> Array:
        """M_ij, the pose of body j in body i at home; body -1 is the base."""
        M = [*self.homes, np.eye(4)]
        return SE3.inverse(M[i]) @ M[j]

    def axis(self, i: int) -> Array:
        """The screw of joint i in the frame of its body."""
        return SE3.Ad(SE3.inverse(self.homes[i])) @ self.screws[i]
