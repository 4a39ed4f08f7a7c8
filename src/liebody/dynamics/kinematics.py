"""Where bodies and frames are, how they move, and the Jacobians of that.

Twists, Jacobians and accelerations of a frame are given in one of three representations:

    "body"   (omega, v) of the frame in its own axes, V^ = T^-1 dT/dt
    "world"  the spatial twist in the world's axes, V^ = dT/dt T^-1; v is that of the point which passes
             through the world's origin
    "mixed"  (omega, velocity of the frame's origin), both in the world's axes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..bodies import Frame, Tree
from ..errors import ModelError
from ..groups import SE3
from ..linear import cross
from .spatial import Motion

Array = Any
REPRESENTATIONS = ("body", "world", "mixed")


def body_poses(tree: Tree, q: Array) -> Array:
    """Poses T of all bodies in the world, (n, 4, 4), at the configuration q (nq,)."""
    poses = [np.eye(4, dtype=int)]
    for body in tree.bodies:
        poses.append(SE3.compose(poses[body.parent], body.pose(q)))
    return np.stack(poses[1:]) if tree.bodies else np.zeros((0, 4, 4))


def frame_pose(tree: Tree, q: Array, frame: str | Frame) -> Array:
    """Pose T (4, 4) of a frame in the world, at the configuration q (nq,).

    frame  a Frame, or the name of a frame or body
    """
    frame = _frame(tree, frame)
    T = np.asarray(frame.placement)
    for body in tree.ancestors(frame.body):
        T = SE3.compose(body.pose(q), T)
    return T


def body_twists(tree: Tree, q: Array, v: Array) -> Array:
    """Twists V = (omega, v) of all bodies in their own axes, (n, 6), at q (nq,) and v (nv,)."""
    twists = [(np.zeros(3, int), np.zeros(3, int))]
    for body in tree.bodies:
        w, u = Motion(body, q).twist_into(*twists[body.parent])
        V = body.twist @ v[body.dofs]
        twists.append((w + V[:3], u + V[3:]))
    return np.stack([np.concatenate(V) for V in twists[1:]]) if tree.bodies else np.zeros((0, 6))


def frame_twist(tree: Tree, q: Array, v: Array, frame: str | Frame, representation: str = "body") -> Array:
    """Twist (6,) of a frame, angular first: frame_jacobian(...) @ v.  [rad/s, m/s]"""
    frame = _frame(tree, frame)
    w, u = _along(tree, q, v, frame)[-1]
    return _representation(tree, q, frame, representation)(w, u)


def frame_acceleration(
    tree: Tree, q: Array, v: Array, a: Array, frame: str | Frame, representation: str = "body"
) -> Array:
    """Time derivative (6,) of frame_twist in the same representation: J a + (dJ/dt) v.  [rad/s2, m/s2]

    a  acceleration, dv/dt, (nv,)

    The linear part is the acceleration of the frame's origin as a point in "mixed" (Pinocchio's
    getFrameClassicalAcceleration), and that of the twist in "body" and "world".
    """
    frame = _frame(tree, frame)
    alpha, acc = np.zeros(3, int), np.zeros(3, int)
    twists = _along(tree, q, v, frame)
    for body, (w, u) in zip(reversed(tree.ancestors(frame.body)), twists, strict=False):
        alpha, acc = Motion(body, q).twist_into(alpha, acc)
        V, A = body.twist @ v[body.dofs], body.twist @ a[body.dofs]  # dV/dt = X dV_p/dt + S a + ad_V S v
        alpha = alpha + A[:3] + cross(w, V[:3])
        acc = acc + A[3:] + cross(w, V[3:]) + cross(u, V[:3])
    alpha, acc = _into(frame.placement, alpha, acc)
    if representation == "mixed":
        w, u = twists[-1]
        acc = acc + cross(w, u)
    return _representation(tree, q, frame, representation)(alpha, acc)


def frame_jacobian(tree: Tree, q: Array, frame: str | Frame, representation: str = "body") -> Array:
    """Jacobian J (6, nv) of a frame, angular first: frame_twist = J v.

    frame           a Frame, or the name of a frame or body
    representation  "body", "world" or "mixed", see above

    The column of joint i is Ad(T_fi) S_i in the frame's axes. Lynch and Park (2017), eq. (5.18).
    """
    frame = _frame(tree, frame)
    w, u = _columns(tree, q, frame)[:2]
    return _assemble(tree, q, frame, w, u, representation)


def frame_jacobian_rate(
    tree: Tree, q: Array, v: Array, frame: str | Frame, representation: str = "body"
) -> Array:
    """dJ/dt (6, nv), the time derivative of frame_jacobian in its representation while q moves with v (nv,).

    With the twist V_i of the body that joint i moves, d/dt Ad(T_fi) S_i = ad(Ad(T_fi) V_i - V_f) Ad(T_fi) S_i
    in the frame's axes; in the world's it is ad(V_i) of the column, and "mixed" adds omega_f x to both
    halves.
    """
    frame = _frame(tree, frame)
    twists = _along(tree, q, v, frame)
    (w_f, u_f), path = (
        twists[-1],
        dict(zip((b.index for b in reversed(tree.ancestors(frame.body))), twists, strict=False)),
    )
    w, u, motions = _columns(tree, q, frame)
    dw, du = [np.zeros(3, int)] * tree.nv, [np.zeros(3, int)] * tree.nv
    for body, (R, p), columns in motions:
        relative, slide = _into(SE3.motion(R, p), *path[body.index])
        relative, slide = relative - w_f, slide - u_f
        for k, (x, y) in columns:
            dw[k] = dw[k] + cross(relative, x)
            du[k] = du[k] + cross(relative, y) + cross(slide, x)
    if representation == "world":  # Ad(T) of (dJ/dt + ad(V_f) J)
        dw, du = (
            [a + cross(w_f, x) for a, x in zip(dw, w, strict=True)],
            [b + cross(w_f, y) + cross(u_f, x) for b, x, y in zip(du, w, u, strict=True)],
        )
    elif representation == "mixed":  # R of (dJ/dt + omega x J)
        dw = [a + cross(w_f, x) for a, x in zip(dw, w, strict=True)]
        du = [b + cross(w_f, y) for b, y in zip(du, u, strict=True)]
    return _assemble(tree, q, frame, dw, du, representation)


def _frame(tree: Tree, frame: str | Frame) -> Frame:
    return frame if isinstance(frame, Frame) else tree.frame(frame)


def _into(T: Array, w: Array, u: Array) -> tuple[Array, Array]:
    """Ad(T^-1) (w, u)."""
    R, p = SE3.parts(T)
    return R.T @ w, R.T @ (u + cross(w, p))


def _along(tree: Tree, q: Array, v: Array, frame: Frame) -> list[tuple[Array, Array]]:
    """Body twists of the bodies from the world to `frame`, and last the frame's own."""
    w, u, twists = np.zeros(3, int), np.zeros(3, int), []
    for body in reversed(tree.ancestors(frame.body)):
        V = body.twist @ v[body.dofs]
        w, u = Motion(body, q).twist_into(w, u)
        w, u = w + V[:3], u + V[3:]
        twists.append((w, u))
    return [*twists, _into(frame.placement, w, u)]


def _columns(tree: Tree, q: Array, frame: Frame) -> tuple[list[Array], list[Array], list[Any]]:
    """The body Jacobian's columns (w, u); for each body on the way the frame's pose in it, its columns."""
    w, u = [np.zeros(3, int)] * tree.nv, [np.zeros(3, int)] * tree.nv
    T, motions = np.asarray(frame.placement), []
    for body in tree.ancestors(frame.body):
        columns = [
            (k, _into(T, S[:3], S[3:])) for k, S in zip(range(tree.nv)[body.dofs], body.twist.T, strict=True)
        ]
        for k, (x, y) in columns:
            w[k], u[k] = w[k] + x, u[k] + y
        motions.append((body, SE3.parts(T), columns))
        T = SE3.compose(body.pose(q), T)
    return w, u, motions


def _representation(
    tree: Tree, q: Array, frame: Frame, representation: str
) -> Callable[[Array, Array], Array]:
    """The map from a vector (w, u) of the frame's axes to (6,) in the representation."""
    if representation not in REPRESENTATIONS:
        raise ModelError(
            f"representation {representation!r} is unknown; use one of {', '.join(REPRESENTATIONS)}"
        )
    if representation == "body":
        return lambda w, u: np.concatenate([w, u])
    R, p = SE3.parts(frame_pose(tree, q, frame))
    if representation == "mixed":
        return lambda w, u: np.concatenate([R @ w, R @ u])

    def in_world(w: Array, u: Array) -> Array:
        w = R @ w
        return np.concatenate([w, R @ u + cross(p, w)])

    return in_world


def _assemble(
    tree: Tree, q: Array, frame: Frame, w: list[Array], u: list[Array], representation: str
) -> Array:
    """Columns (w, u) of the frame's axes, as (6, nv) in the representation."""
    represent = _representation(tree, q, frame, representation)
    return np.stack([represent(x, y) for x, y in zip(w, u, strict=True)], axis=1) if w else np.zeros((6, 0))
