"""Trees in absolute coordinates, and back: every body free, every joint a constraint.

A tree with closures, joints between two of its frames, becomes one `System`; states go both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base.arguments import check_arguments, names, number, vector
from ...base.errors import ModelError
from ...bodies import WORLD, Tree
from ...dynamics import body_poses, body_twists
from ...groups import SE3, Fixed, Free, Helical, MotionSubgroup, PlanarHelical, Spherical
from ...scalars import Array
from .builder import SystemBuilder
from .system import System


def _place(tree: Tree, name: str) -> tuple[str, Array]:
    """The body that carries a frame, or the world, and where on it the frame lies."""
    frame = tree.frame(name)
    return tree.bodies[frame.body - 1].name if frame.body else WORLD, frame.placement


@dataclass(frozen=True, eq=False)
class Closure:
    """A constraint that closes a loop of a tree, between its frames (or bodies) a and b.

    what  the motions it leaves, a group such as Spherical() or Revolute([0, 0, 1]), whose frame lies on a and
          on b; or a number, the length of a massless rod between their origins [m]
    """

    name: str
    what: MotionSubgroup | float
    a: str
    b: str

    def add_to(self, builder: SystemBuilder, tree: Tree) -> None:
        """Add the constraint, between the bodies of a tree that carry the frames."""
        a, on_a = _place(tree, self.a)
        b, on_b = _place(tree, self.b)
        if isinstance(self.what, MotionSubgroup):
            builder.joint(self.name, self.what, a, b, on_a, on_b)
        else:
            builder.rod(self.name, a, b, on_a, on_b, number(f"length of {self.name!r}", self.what))


@dataclass(frozen=True, eq=False)
class _OfFrames:
    name: str
    function: Callable[..., Any]
    frames: str | tuple[str, ...]
    timed: bool = False

    of_velocities: ClassVar[bool] = False

    def add_to(self, builder: SystemBuilder, tree: Tree) -> None:
        """Add the constraint, between the bodies of a tree that carry the frames."""
        frames = [tree.frame(name) for name in names(self.frames)]
        taken = [f"{x}_{i + 1}" for i in range(len(frames)) for x in ("TV" if self.of_velocities else "T")]
        check_arguments(f"condition {self.name!r}", self.function, *["t"] * self.timed, *taken)

        def on_bodies(*arguments: Any) -> Any:
            # from motions of bodies to motions of frames: T P, and Ad(P^-1) V; the world stands still
            head = arguments[: self.timed]
            moving = iter(arguments[self.timed :])
            placed: list[Array] = []
            for f in frames:
                placed.append((next(moving) if f.body else np.eye(4, dtype=int)) @ f.placement)
                if self.of_velocities:
                    twist = next(moving) if f.body else np.zeros(6, int)
                    placed.append(SE3.Ad(SE3.inverse(f.placement)) @ twist)
            return self.function(*head, *placed)

        # the world is body 0: it has no place among the arguments of the builder
        bodies = [tree.bodies[f.body - 1].name for f in frames if f.body]
        if len(set(bodies)) < len(bodies):
            raise ModelError(f"condition {self.name!r} names two frames of one body; compute one of them")
        add = builder.velocity_constraint if self.of_velocities else builder.constraint
        add(self.name, on_bodies, bodies, self.timed)


class Condition(_OfFrames):
    """A constraint function(T_1, ...) = 0 of the poses (4, 4) of frames (or bodies) of a tree.

    timed  whether the time is the function's first argument
    """


class VelocityCondition(_OfFrames):
    """A constraint function(T_1, V_1, ...) = 0 of poses and twists (6,) of frames, affine in the twists.

    Twists are in the frames' own axes; arguments as of `SystemBuilder.velocity_constraint`.
    """

    of_velocities = True


@dataclass(frozen=True, eq=False)
class KnifeEdge:
    """A blade along x of a frame, whose origin does not move along y: `SystemBuilder.knife_edge`."""

    name: str
    frame: str
    slip: Any = 0.0

    def add_to(self, builder: SystemBuilder, tree: Tree) -> None:
        """Add the constraint, to the body of a tree that carries the frame."""
        builder.knife_edge(self.name, *_place(tree, self.frame), slip=self.slip)


@dataclass(frozen=True, eq=False)
class Rolling:
    """A ball or disc, its centre in a frame of a tree, that rolls on a plane: `SystemBuilder.rolling`.

    axis  of a disc, in the axes of its frame; None: a ball
    on    the frame whose x and y axes span the plane, on the world or on another body
    """

    name: str
    frame: str
    radius: float
    axis: Any = None
    on: str = WORLD
    slip: Any = 0.0
    held: bool = True

    def add_to(self, builder: SystemBuilder, tree: Tree) -> None:
        """Add the constraints, to the body of a tree that carries the frame."""
        body, T = _place(tree, self.frame)
        on, plane = _place(tree, self.on)
        # the ball's centre and the disc's axis, in the axes of the body
        R, center = SE3.parts(T)
        axis = None if self.axis is None else R @ np.asarray(self.axis, float)
        builder.rolling(self.name, body, self.radius, axis, center, on, plane, self.slip, self.held)


AnyClosure = Closure | Condition | VelocityCondition | KnifeEdge | Rolling


class AbsoluteTree:
    """A tree in absolute coordinates: the `system`, and the way of states there and back.

    tree           bodies without mass hang on by fixed joints only, and are merged; joints follow no others
                   and have no armature
    closures       constraints that close loops
    gravity        acceleration of free fall, (3,)                                                    [m/s2]
    configuration  "auto", "SE3" or "SO3xR3", of all bodies
    driven         whether efforts act on the joints: u is then tau (nv,) of the tree

    Raises ModelError for joints and bodies that absolute coordinates cannot represent.
    """

    def __init__(
        self,
        tree: Tree,
        closures: Sequence[AnyClosure] = (),
        gravity: Array = (0.0, 0.0, -9.81),
        configuration: str = "auto",
        driven: bool = True,
    ) -> None:
        # bodies on fixed joints are merged: each would add six coordinates and six equations
        self.tree = tree if all(b.joint.dim for b in tree.bodies) else tree.merge_fixed()
        builder = SystemBuilder(tree.name, gravity)
        neutral = body_poses(self.tree, self.tree.group.neutral()).astype(float)
        for body in self.tree.bodies:
            builder.body(body.name, body.inertia, neutral[body.index - 1], configuration)
        for body in self.tree.bodies:
            # a free joint constrains nothing; its drive is a wrench on the body
            if isinstance(body.joint.group, Free):
                if body.parent or np.any(body.joint.damping):
                    raise ModelError(f"joint {body.joint.name!r} is free and not at rest on the world")
                if driven:
                    builder.wrench(body.joint.name, _effort_of_free, body.name, efforts=6)
                continue
            builder.joint(
                body.joint.name,
                body.joint,
                self.tree.bodies[body.parent - 1].name if body.parent else WORLD,
                body.name,
                on_parent=body.placement,
                driven=driven,
            )
        for closure in closures:
            closure.add_to(builder, self.tree)
        self.system: System = builder.build()

    def to_system(self, q: Array, v: Array | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) of the system at a state of the tree; at rest without v."""
        q = vector("q", q, self.tree.nq)
        v = np.zeros(self.tree.nv) if v is None else vector("v", v, self.tree.nv)
        poses = body_poses(self.tree, q)
        twists = body_twists(self.tree, q, v)
        bodies = [b.name for b in self.tree.bodies]
        Q = self.system.configuration(dict(zip(bodies, poses, strict=True)))
        return Q, self.system.velocities(Q, dict(zip(bodies, twists, strict=True)))

    def to_tree(self, q: Array, v: Array | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) of the tree at a state of the system, whose joints' violations are left out.

        Angles lie between -pi and pi, except in helical joints, where the translation determines them.
        """
        q = vector("q", q, self.system.nq, finite=False)  # rows of lost members of a run are NaN
        v = np.zeros(self.system.nv) if v is None else vector("v", v, self.system.nv, finite=False)
        # the world comes first, at rest, so that the numbers are the tree's
        poses = np.concatenate([np.eye(4)[None], self.system.poses(q)])
        twists = np.concatenate([np.zeros((1, 6)), self.system.twists(q, v)])
        coordinates = [np.zeros(0)]
        rates = [np.zeros(0)]
        for body in self.tree.bodies:
            # the relative motion of the joint's frames; the part that violates the joint is projected away
            T = SE3.inverse(poses[body.parent] @ body.placement) @ poses[body.index]
            coordinates.append(joint_coordinates(body.joint.group, T))
            # the parent's motion, seen from the child, is taken off; S^+ keeps the part along the joint
            carried = SE3.Ad(SE3.inverse(poses[body.index]) @ poses[body.parent]) @ twists[body.parent]
            rates.append(np.linalg.pinv(body.joint.S) @ (twists[body.index] - carried))
        return np.concatenate(coordinates), np.concatenate(rates)


def _effort_of_free(t: Any, u: Array, T: Array, V: Array) -> Array:
    return u


def joint_coordinates(group: MotionSubgroup, T: Array) -> np.ndarray:
    """The coordinates whose group.pose is T (4, 4); motions that the group does not have are left out.

    Angles lie between -pi and pi; a screw takes the angle next to translation/pitch.
    """
    R, p = SE3.parts(np.asarray(T, float))
    if isinstance(group, Fixed):
        return np.zeros(0)
    if isinstance(group, Spherical):
        return np.asarray(SE3.coordinates(T)[:4], float)
    if isinstance(group, Free):
        return np.asarray(SE3.coordinates(T), float)
    # the translation of the point on the axis, which turning about the axis leaves in place
    point = getattr(group, "point", np.zeros(3))
    shift = p - (point - R @ point)
    coordinates = []
    for S in group.S.T:
        if not S[:3].any():
            coordinates.append(float(S[3:] @ shift))
            continue
        # R - R^T has twice the sine along the axis, and the trace is 1 + 2 cos
        axis = S[:3]
        sine = axis @ [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]
        angle = float(np.arctan2(sine, np.trace(R) - 1))
        if isinstance(group, (Helical, PlanarHelical)):  # the climb counts the turns
            angle += 2 * np.pi * np.round((axis @ shift / group.pitch - angle) / (2 * np.pi))
        coordinates.append(angle)
    return np.array(coordinates)
