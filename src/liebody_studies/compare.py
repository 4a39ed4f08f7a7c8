"""What several studies compare formulas by: relative differences, rates along a motion, random bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from liebody.bodies import SpatialInertia, Tree
from liebody.codegen import jvp, trace
from liebody.groups import SE3, SO3

Array = Any


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
