"""Poses, twists and accelerations of bodies and frames, and their Jacobians.

Twists, Jacobians and accelerations of a frame are given in one of three representations:

    "body"   (omega, v) of the frame in its own axes, V^ = T^-1 dT/dt
    "world"  the spatial twist in the world's axes, V^ = dT/dt T^-1; v is the velocity of the point which
             passes through the world's origin
    "mixed"  (omega, velocity of the frame's origin), both in the world's axes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import ModelError
from ..bodies import Body, Frame, Tree
from ..compiler import repeated
from ..groups import SE3
from ..scalars import Array
from ..scalars.linear import cross
from .recursions import HOME, poses_after, summed, transformations, twists_of
from .spatial import REST, Pair, Transformation, next_rate, next_twist, transformation

REPRESENTATIONS = ("body", "world", "mixed")


def body_poses(tree: Tree, q: Array) -> Array:
    """Poses T of all bodies in the world, (n, 4, 4), at q (nq,), in the order of `tree.bodies`."""
    poses = poses_after(tree, transformations(tree, q), [HOME])
    return np.stack([SE3.motion(R, p) for R, p in poses[1:]]) if tree.bodies else np.zeros((0, 4, 4))


def frame_pose(tree: Tree, q: Array, frame: str | Frame) -> Array:
    """Pose T (4, 4) of a frame in the world, at the configuration q (nq,).

    frame  a Frame, or the name of a frame or body
    """
    # Inwards from the frame: only bodies on its path are needed, and the frame's constant placement comes
    # first, where its zeros save most.
    frame = _frame(tree, frame)
    pose = SE3.parts(np.asarray(frame.placement))
    for body in tree.ancestors(frame.body):
        pose = _pose_out(transformation(body, q), *pose)
    return SE3.motion(*pose)


@repeated
def _pose_out(T: Transformation, R: Array, p: Array) -> Pair:
    """(R, p) of a frame in the parent, from that in the body."""
    own, _ = HOME
    turn = T.rotation_after(own)
    return turn @ R, T.p + turn @ p


def body_twists(tree: Tree, q: Array, v: Array) -> Array:
    """Twists V = (omega, v) of all bodies in their own axes, (n, 6), at q (nq,) and v (nv,)."""
    twists = twists_of(tree, transformations(tree, q), v)
    return np.stack([np.concatenate(V) for V in twists[1:]]) if tree.bodies else np.zeros((0, 6))


def frame_twist(tree: Tree, q: Array, v: Array, frame: str | Frame, representation: str = "body") -> Array:
    """Twist (6,) of a frame, angular first: J v.  [rad/s, m/s]

    Arguments and J as in `frame_jacobian`.
    """
    frame = _frame(tree, frame)
    w, u = _along(tree, q, v, frame)[-1]
    return _representation(tree, q, frame, representation)((w, u))


def frame_acceleration(
    tree: Tree, q: Array, v: Array, a: Array, frame: str | Frame, representation: str = "body"
) -> Array:
    """Time derivative (6,) of `frame_twist` in its representation: J a + (dJ/dt) v.  [rad/s2, m/s2]

    a  acceleration, dv/dt, (nv,); other arguments as in `frame_jacobian`

    The linear part is the acceleration of the frame's origin as a point in "mixed" (Pinocchio's
    getFrameClassicalAcceleration), and the rate of the twist in "body" and "world".
    """
    # The world rests, without gravity: kinematics alone.
    frame = _frame(tree, frame)
    rates: Pair = REST, REST
    twists = _along(tree, q, v, frame)
    for body, twist in zip(reversed(tree.ancestors(frame.body)), twists, strict=False):
        rates = next_rate(transformation(body, q), body.twist, v[body.dofs], a[body.dofs], twist, rates)
    alpha, acc = _into(*SE3.parts(frame.placement), rates)
    # The rate of (omega, v) in body axes becomes the acceleration of a point by omega x v. "world" has no
    # such term: there d/dt (Ad(T) V) = Ad(T) dV/dt, because ad_V V = 0.
    if representation == "mixed":
        w, u = twists[-1]
        acc = acc + cross(w, u)
    return _representation(tree, q, frame, representation)((alpha, acc))


def frame_jacobian(tree: Tree, q: Array, frame: str | Frame, representation: str = "body") -> Array:
    """Jacobian J (6, nv) of a frame, angular first: its twist is J v.

    frame           a Frame, or the name of a frame or body
    representation  "body": in the frame's axes, at its origin; "world": in the world's axes, at the world's
                    origin; "mixed": in the world's axes, at the frame's origin

    The column of joint i is Ad(T_fi) S_i in the frame's axes. Lynch and Park (2017), eq. (5.18).
    """
    frame = _frame(tree, frame)
    columns = [column for _, _, own in _columns(tree, q, frame) for column in own]
    return _assemble(tree, q, frame, columns, representation)


def frame_jacobian_rate(
    tree: Tree, q: Array, v: Array, frame: str | Frame, representation: str = "body"
) -> Array:
    """dJ/dt (6, nv) while q moves with v (nv,); other arguments, and J, as in `frame_jacobian`.

    With the twist V_i of the body that joint i moves, d/dt Ad(T_fi) S_i = ad(Ad(T_fi) V_i - V_f) Ad(T_fi) S_i
    in the frame's axes; in the world's it is ad(V_i) of the column, and "mixed" adds omega_f x to both
    halves.
    """
    frame = _frame(tree, frame)
    # `_columns` goes inwards, twists come from an outward pass: `path` finds them by the body's number.
    twists = _along(tree, q, v, frame)
    path = dict(zip((b.index for b in reversed(tree.ancestors(frame.body))), twists, strict=False))
    rates: list[tuple[int, Pair]] = []
    for body, pose, columns in _columns(tree, q, frame):
        relative = _relative_twist(*pose, path[body.index], twists[-1])
        rates += [(k, _column_rate(relative, x, twists[-1], representation)) for k, x in columns]
    return _assemble(tree, q, frame, rates, representation)


@repeated
def _relative_twist(R: Array, p: Array, twist: Pair, frame: Pair) -> Pair:
    """Ad(T^-1) V_i - V_f."""
    w, u = _into(R, p, twist)
    return w - frame[0], u - frame[1]


@repeated
def _column_rate(relative: Pair, column: Pair, frame: Pair, representation: str) -> Pair:
    """The rate of a column, in the frame's axes, of what is represented."""
    w, u = relative
    x, y = column
    w_f, u_f = frame
    if representation == "world":  # Ad(T) of (dJ/dt + ad(V_f) J)
        w, u = w + w_f, u + u_f
    elif representation == "mixed":  # R of (dJ/dt + omega x J)
        w = w + w_f
    return cross(w, x), cross(w, y) + cross(u, x)


def _frame(tree: Tree, frame: str | Frame) -> Frame:
    return frame if isinstance(frame, Frame) else tree.frame(frame)


@repeated
def _into(R: Array, p: Array, V: Pair) -> Pair:
    """Ad(T^-1) V."""
    w, u = V
    return R.T @ w, R.T @ (u + cross(w, p))


def _along(tree: Tree, q: Array, v: Array, frame: Frame) -> list[Pair]:
    """Body twists of the bodies from the world to `frame`, and last the frame's own."""
    twists: list[Any] = [(REST, REST)]
    for body in reversed(tree.ancestors(frame.body)):
        twists.append(next_twist(transformation(body, q), body.twist, v[body.dofs], twists[-1]))
    return [*twists[1:], _into(*SE3.parts(frame.placement), twists[-1])]


def _columns(tree: Tree, q: Array, frame: Frame) -> list[tuple[Body, Pair, list[tuple[int, Pair]]]]:
    """Each body on the way, the frame's pose in it, and its columns of the body Jacobian by their numbers."""
    # One inward pass: the frame's pose in each body, and the joint's twist moved into the frame by it.
    pose = SE3.parts(np.asarray(frame.placement))
    path = []
    for body in tree.ancestors(frame.body):
        columns = [(k, _into(*pose, (S[:3], S[3:]))) for k, S in body.columns]
        path.append((body, pose, columns))
        pose = _pose_out(transformation(body, q), *pose)
    return path


def _representation(tree: Tree, q: Array, frame: Frame, representation: str) -> Callable[[Pair], Array]:
    """The map from a vector (w, u) of the frame's axes to (6,) in the representation."""
    if representation not in REPRESENTATIONS:
        raise ModelError(
            f"representation {representation!r} is unknown; use one of {', '.join(REPRESENTATIONS)}"
        )
    if representation == "body":
        return np.concatenate
    T = frame_pose(tree, q, frame)
    return lambda V: _seen_from_the_world(T, V, representation)


@repeated
def _seen_from_the_world(T: Array, V: Pair, representation: str) -> Array:
    R, p = SE3.parts(T)
    w, u = V
    w, u = R @ w, R @ u
    return np.concatenate([w, u + cross(p, w) if representation == "world" else u])


def _assemble(
    tree: Tree, q: Array, frame: Frame, columns: list[tuple[int, Pair]], representation: str
) -> Array:
    """Numbered columns (w, u) of the frame's axes, as (6, nv) in the representation."""
    represent = _representation(tree, q, frame, representation)
    J = [represent(column) for column in summed(tree.nv, columns)]
    return np.stack(J, axis=1) if J else np.zeros((6, 0))
