"""`State`: a robot in motion, as its elements see it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dynamics
from ..base.concurrency import cached_property
from ..base.errors import ModelError
from ..bodies import Frame, Tree
from ..scalars import Array, maximum, sqrt
from ..scalars.linear import cross, is_numeric


def once(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method: compute each result once and keep it in `_kept`."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        key = method.__name__, *arguments
        if key not in self._kept:
            self._kept[key] = method(self, *arguments)
        return self._kept[key]

    return call


class State:
    """A robot in motion, as its elements see it. Each quantity is computed at most once.

    tree, gravity  tree of bodies of the robot, and its acceleration of free fall (3,)
    t, q, v        time, configuration (nq,), velocity (nv,)
    mechanism      the robot with its forces and the closures of a `ClosedTree`; None outside a robot system
    drives         efforts, stiffness and damping of the drives, (nv,) each, in time stepping; else None
    given_up       effort that the drives do not give because of their limits, (nv,), in time stepping
    flags          1 or 0 for each point with a contact: whether it touches
    landed         time of the last touch-down                                                           [s]
    stored         functions that compute stored energies, by the names of their elements
    elements       each element with its memory and its parameters
    """

    mechanism: Any = None
    drives: Any = None
    given_up: Any = None

    def __init__(self, tree: Tree, gravity: Array, t: Any, q: Array, v: Array) -> None:
        self.tree = tree
        self.gravity = gravity
        self.t = t
        self.q = q
        self.v = v
        self._kept: dict[Any, Any] = {}
        self.flags: dict[str, Any] = {}
        self.landed: Any = -np.inf
        self.stored: dict[str, Callable[[], Any]] = {}
        self.elements: list[tuple[Any, Any, Any]] = []

    @cached_property
    def kinetic_energy(self) -> Any:
        """T  [J]"""
        return dynamics.kinetic_energy(self.tree, self.q, self.v)

    @cached_property
    def potential_energy(self) -> Any:
        """U of gravity, zero where the centre of mass is in the world's origin  [J]"""
        return dynamics.potential_energy(self.tree, self.q, self.gravity)

    @cached_property
    def com(self) -> Array:
        """Centre of mass in the world, (3,)  [m]"""
        return dynamics.center_of_mass(self.tree, self.q)

    @cached_property
    def com_velocity(self) -> Array:
        """Its velocity in the world, (3,)  [m/s]"""
        return dynamics.center_of_mass_velocity(self.tree, self.q, self.v)

    @once
    def pose(self, frame: str | Frame) -> Array:
        """Pose of a frame in the world, (4, 4)."""
        return dynamics.frame_pose(self.tree, self.q, frame)

    def position(self, point: str | Frame) -> Array:
        """Position of a frame's origin in the world, (3,)  [m]"""
        return self.pose(point)[:3, 3]

    @once
    def velocity(self, point: str | Frame) -> Array:
        """Velocity of a frame's origin, in the world's axes, (3,)  [m/s]"""
        # the twist has the frame's axes
        twist = dynamics.frame_twist(self.tree, self.q, self.v, point)
        return self.pose(point)[:3, :3] @ twist[3:]

    @once
    def jacobian(self, frame: str | Frame) -> Array:
        """The Jacobian of a frame, (6, nv): angular and linear velocity in the world's axes."""
        return dynamics.frame_jacobian(self.tree, self.q, frame, "mixed")

    def touching(self, point: str) -> Any:
        """1 where a point touches something, 0 where it does not.

        Raises ModelError for points without a contact.
        """
        if point not in self.flags:
            known = ", ".join(self.flags) or "none"
            raise ModelError(
                f"whether {point!r} touches something is asked for, and it has no contact (points that have "
                f"one: {known}); add Contact({point!r})"
            )
        return self.flags[point]

    @property
    def stance(self) -> Any:
        """1 where any point touches something, 0 in flight."""
        return functools.reduce(maximum, self.flags.values(), 0.0)

    def touches(self, point: str, flag: Any, since: Any) -> None:
        """Note whether a point touches something, 1 or 0, and its last touch-down; elements call this."""
        # a point may have contacts with several surfaces, and the robot several points: the latest counts
        self.landed = since if not self.flags else maximum(self.landed, since)
        self.flags[point] = maximum(self.flags[point], flag) if point in self.flags else flag

    # -- the leg: from the centre of mass to a point, in the axes of the base -------------------------------

    @cached_property
    def _base(self) -> Any:
        """The one body that carries all others and moves freely; None for robots without such a body."""
        roots = [body for body in self.tree.bodies if not body.parent]
        return roots[0] if len(roots) == 1 and roots[0].joint.dim > 1 else None

    @property
    def base_dofs(self) -> int:
        """Number of velocities of the floating base, which come first in v; 0 without a floating base."""
        return 0 if self._base is None else self._base.dofs.stop

    @cached_property
    def base_rotation(self) -> Array:
        """Axes of the floating base in the world, (3, 3); axes of the world without a floating base."""
        return np.eye(3, dtype=int) if self._base is None else self._base.pose(self.q)[:3, :3]

    @once
    def leg(self, point: str | Frame) -> tuple[Array, Array]:
        """r (3,) from the centre of mass to a point, and J (3, nv) of dr/dt = J v, in the base's axes.

        dr/dt is the rate in the world, turned into the base's axes. Neither r nor J depends on the pose of
        the base.
        """
        tree = self.tree
        base = self._base
        q = self.q
        # Compute with a base in its neutral pose, because then its entries are exact zeros and ones, which
        # vanish from the traced code.
        if base is not None:
            q = np.concatenate([base.joint.group.neutral(), q[base.coordinates.stop :]])
        # the base's axes are those of its placement now
        R = np.eye(3, dtype=int) if base is None else base.placement[:3, :3]
        r = R.T @ (dynamics.frame_pose(tree, q, point)[:3, 3] - dynamics.center_of_mass(tree, q))
        J = dynamics.frame_jacobian(tree, q, point, "mixed")[3:] - dynamics.center_of_mass_jacobian(tree, q)
        J = R.T @ J
        if base is not None:  # translations of the base do not move r, and its rotations turn it
            turned = np.stack([cross(S[:3], r) for S in base.joint.S.T], axis=1)
            J = np.concatenate([turned, J[:, self.base_dofs :]], axis=1)
        return r, J


def up(gravity: Array) -> np.ndarray:
    """The direction against gravity, (3,); z without gravity."""
    g: Array = np.asarray(gravity)
    if not is_numeric(g):
        return -g / sqrt(g @ g)
    size = np.linalg.norm(g.astype(float))
    return -g / size if size else np.array([0, 0, 1.0])
