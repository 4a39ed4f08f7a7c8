"""Momentum of all bodies together, above all about their centre of mass. For any tree, fixed or floating.

The centroidal momentum h_G = (l, p) is taken about the centre of mass c, in the world's axes: p = m dc/dt,
and l does not depend on how fast c moves. It is linear in the velocities,

    h_G = A(q) v,      dh_G/dt = A dv/dt + (dA/dt) v,

and it changes by the wrenches that act from outside, taken about c. Column i of A is the momentum of all that
joint i carries, moved by it as one rigid body. Rotors (armature) have no part in it. Orin, Goswami and Lee
(2013), "Centroidal dynamics of a humanoid robot", Autonomous Robots 35.

Inside, a tree that does not hang on one freely moving body is put on such a body, which rests in the world:
then the first body's frame is where momenta are summed, and its own linear velocity needs no part in l.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.arguments import wrong_shape
from ..bodies import Body, Frame, Joint, Moments, SpatialInertia, Tree
from ..compiler import repeated
from ..groups import SE3, Free
from ..scalars import Array
from ..scalars.linear import cross, solve
from .coriolis import rate_of_inertia
from .energy import total_mass
from .inverse import inverse_dynamics
from .kinematics import frame_pose
from .recursions import composites, gather, operators, poses_after, summed, transformations, twists_of
from .spatial import REST, Pair, added_wrench, bracket, plus


def total_momentum(tree: Tree, q: Array, v: Array, frame: str | Frame | Array = "world") -> Array:
    """(l, p) (6,) of all bodies about the origin of a frame and in its axes; O(n).  [N m s, N s]

    q      configuration, (nq,)
    v      velocity, left-trivialised, (nv,)                               [rad/s, m/s]
    frame  a Frame, the name of a frame or body, or a pose (4, 4) in the world

    h_x = Ad(H_bx)^T h_b, with the frame's pose H_bx in the frame where h_b is summed. Feurstein (2021), eqs
    (3.65), (3.67), (3.69). In the world it changes by outer wrenches alone; in frames that move, see
    `momentum_rate_in_frame`.
    """
    if isinstance(frame, (str, Frame)):
        X = frame_pose(tree, q, frame)
    else:
        X = np.asarray(frame)
        if X.shape != (4, 4):
            raise wrong_shape("frame", X.shape, "a name or a pose (4, 4) in the world")
    tree, q, v = _afloat(tree, q, v)
    n, f = momentum_at_base(tree, transformations(tree, q), v)
    R, p = SE3.parts(SE3.compose(SE3.inverse(tree.bodies[0].pose(q)), X))
    return np.concatenate([R.T @ (n - cross(p, f)), R.T @ f])


def centroidal_momentum(tree: Tree, q: Array, v: Array) -> Array:
    """h_G = (l, p) (6,) about the centre of mass, in the world's axes; O(n), without A.  [N m s, N s]

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]

    Raises ModelError for a tree without mass.
    """
    # l about c does not depend on the linear velocity of the root: leave it out of the recursion, and add
    # m times it to p.
    tree, q, v = _afloat(tree, q, v)
    T = transformations(tree, q)
    return _about_mass(tree, T, *momentum_at_base(tree, T, _standing(v)), v[3:6])


def centroidal_momentum_matrix(tree: Tree, q: Array) -> Array:
    """A(q) (6, nv) with `centroidal_momentum` = A v; composite bodies inwards, poses outwards, O(n).

    q  configuration, (nq,)

    Orin, Goswami and Lee (2013). Its lower half is the mass times `center_of_mass_jacobian`. Raises
    ModelError for a tree without mass.
    """
    # Column k: the composite body of joint k moves with S, and its momentum is moved to c and turned into the
    # world's axes. nv is the number of velocities before a base is put under the tree.
    nv = tree.nv
    tree, q = _afloat(tree, q)
    T = transformations(tree, q)
    composite = composites(tree, T)
    poses = _from_center(tree, T, composite[1])
    columns = (
        (k, _column(poses[body.index], composite[body.index], S, None if body.parent else tree.mass))
        for body in tree.bodies
        for k, S in body.columns
    )
    return _as_matrix(summed(tree.nv, columns), nv)


@repeated
def _column(pose: Pair, moments: Moments, S: Array, mass: Any) -> Pair:
    """The momentum of all that a joint carries. The root carries the whole `mass`; others have None."""
    # A shift of the root moves c along: it gives linear momentum, and no angular one about c.
    R, p = pose
    n, f = moments.times(S[:3], S[3:] if mass is None else REST)
    f = R @ f
    return R @ n + cross(p, f), f if mass is None else f + mass * (R @ S[3:])


def centroidal_momentum_matrix_derivative(tree: Tree, q: Array, v: Array) -> Array:
    """dA/dt (6, nv) while q moves with v (nv,); O(n).

    With the composite inertias J and the twists V of the bodies, all seen from the world, a column J S
    changes by (J ad_V + dJ/dt) S; what is about the centre of mass moves with it.
    """
    nv = tree.nv
    tree, q, v = _afloat(tree, q, v)
    T = transformations(tree, q)
    v = _standing(v)
    twists = twists_of(tree, T, v)
    composite = composites(tree, T)
    rates = gather(tree, T, operators(rate_of_inertia, tree.base_moments, twists))
    poses = _from_center(tree, T, composite[1])
    # The rate of h of all bodies is l = int r' dm, so l/m is the velocity of c in the root's frame.
    slide = _turned(T) @ (rates[1].h / tree.mass)
    columns: list[tuple[int, Pair]] = []
    for body in tree.bodies:
        i = body.index
        mass = None if body.parent else tree.mass
        moving = poses[i], composite[i], rates[i], twists[i]
        columns += [(k, _column_rate(*moving, S, slide, mass)) for k, S in body.columns]
    return _as_matrix(summed(tree.nv, columns), nv)


@repeated
def _column_rate(pose: Pair, J: Moments, rate: Any, twist: Pair, S: Array, slide: Array, mass: Any) -> Pair:
    """How a `_column` changes, while the centre of mass moves with `slide` in the root's frame."""
    R, p = pose
    w = S[:3]
    u = S[3:] if mass is None else REST
    _, f = J.times(w, u)
    dn, df = plus(J.times(*bracket(twist, (w, u))), rate.times(w, u))
    df = R @ df
    dl = R @ dn + cross(p, df) - cross(slide, R @ f)
    return dl, df if mass is None else df + mass * (R @ cross(twist[0], S[3:]))


def centroidal_momentum_bias(tree: Tree, q: Array, v: Array) -> Array:
    """(dA/dt) v (6,): the rate of the centroidal momentum at dv/dt = 0; O(n), without dA/dt.  [N m, N]

    Arguments as in `centroidal_momentum`. Wensing and Orin (2016), "Improved computation of the humanoid
    centroidal dynamics and application for whole-body control".
    """
    return centroidal_momentum_rate(tree, q, v, np.zeros(tree.nv, int))


def centroidal_momentum_rate(tree: Tree, q: Array, v: Array, a: Array) -> Array:
    """dh_G/dt = A a + (dA/dt) v (6,), by recursive Newton-Euler; O(n).  [N m, N]

    a  acceleration, dv/dt, (nv,)                                          [rad/s2, m/s2]

    It is the resultant of all wrenches from outside about the centre of mass, weight included. Raises
    ModelError for a tree without mass.
    """
    tree, q, v, a = _afloat(tree, q, v, a)
    T = transformations(tree, q)
    # The efforts at a free root are the wrench that keeps all bodies in this motion: the rate of momentum.
    # The linear acceleration of the root's origin, a_v + omega x v, adds m times itself to dp/dt alone.
    efforts = inverse_dynamics(tree, q, _standing(v), _standing(a), gravity=(0, 0, 0))
    return _about_mass(tree, T, efforts[:3], efforts[3:6], a[3:6] + cross(v[:3], v[3:6]))


def centroidal_inertia(tree: Tree, q: Array) -> Array:
    """diag(I_c, m 1) (6, 6): the inertia of all bodies, joints locked, about c in the world's axes; O(n).

    The same as A_cb^-T Mbb A_cb^-1 of a free base, Feurstein (2021), eq. (3.93). Raises ModelError for a tree
    without mass.
    """
    tree, q = _afloat(tree, q)
    T = transformations(tree, q)
    zero = np.zeros((3, 3), int)
    one = np.eye(3, dtype=int)
    I_c = T[1].turn_out(about_center(tree, composites(tree, T)[1])[1])
    return np.block([[I_c, zero], [zero, tree.mass * one]])


def centroidal_velocity(tree: Tree, q: Array, v: Array) -> Array:
    """(I_c^-1 l, p / m) (6,): the average velocity of all bodies, h_G by the centroidal inertia; O(n).

    In the world's axes, at the centre of mass. For a floating robot it is the locked velocity, moved there.
    Orin, Goswami and Lee (2013). Raises ModelError for a tree without mass.
    """
    lifted, q_, v_ = _afloat(tree, q, v)
    T = transformations(lifted, q_)
    n, f = momentum_at_base(lifted, T, _standing(v_))
    c, I_c = about_center(lifted, composites(lifted, T)[1])
    R = _turned(T)
    w = solve(I_c, n - cross(c, f))
    return np.concatenate([R @ w, R @ (f / tree.mass + v_[3:6])])


# -- parts --------------------------------------------------------------------------------------------------


def momentum_at_base(tree: Tree, T: list[Any], v: Array) -> Pair:
    """The momentum of all bodies about the first one's frame, in its axes; they all hang on it."""
    twists = twists_of(tree, T, v)
    momenta: list[Pair] = gather(tree, T, operators(Moments.times, tree.base_moments, twists), added_wrench)
    return momenta[1]


def _about_mass(tree: Tree, T: list[Any], n: Array, f: Array, moved: Array) -> Array:
    """(n, f) about the first frame as (6,) about the centre of mass in the world's axes, with m `moved`."""
    R = _turned(T)
    c = composites(tree, T)[1].h / total_mass(tree)
    return np.concatenate([R @ (n - cross(c, f)), R @ (f + tree.mass * moved)])


def about_center(tree: Tree, composite: Moments) -> tuple[Array, Array]:
    """The centre of mass c of a floating tree in its first frame, and the rotational inertia about it."""
    c = composite.h / total_mass(tree)
    return c, Moments(composite.m, REST, composite.Sigma - np.outer(composite.h, c)).I


def _from_center(tree: Tree, T: list[Any], composite: Moments) -> list[Any]:
    """(R, p) of each body in the world's axes, from the centre of mass."""
    R = _turned(T)
    return poses_after(tree, T, [None, (R, -(R @ (composite.h / total_mass(tree))))])


def _turned(T: list[Any]) -> Array:
    """R of the first body in the world."""
    return T[1].rotation_after(np.eye(3, dtype=int))


def _standing(v: Array) -> Array:
    """v without the linear velocity of the free first body, which does not change what is about c."""
    return np.concatenate([v[:3], REST, v[6:]])


def _as_matrix(columns: list[Pair], nv: int) -> Array:
    """(6, nv) of columns (l, p), without the columns of a base that was put under the tree."""
    columns = columns[len(columns) - nv :]
    return np.stack([np.concatenate(x) for x in columns], axis=1) if columns else np.zeros((6, 0))


def _afloat(tree: Tree, q: Array, *velocities: Array) -> tuple[Any, ...]:
    """The tree on a freely moving first body, and q, v, ... with that; itself if it has one."""
    lifted = _lifted(tree)
    if lifted is tree:
        return tree, q, *velocities
    still = np.zeros(6, int)
    free = np.array([1, 0, 0, 0, 0, 0, 0])
    return lifted, np.concatenate([free, q]), *(np.concatenate([still, v]) for v in velocities)


@lru_cache(maxsize=64)
def _lifted(tree: Tree) -> Tree:
    # A rotor at the first joint ties it to the world, so that such a root does not count as free. Symbols may
    # be a rotor.
    roots = [body for body in tree.bodies if not body.parent]
    if len(roots) == 1 and isinstance(roots[0].joint.group, Free):
        if not any(hasattr(x, "apply") or x != 0 for x in roots[0].joint.armature):
            return tree
    # The new root has no mass and rests in the world. All bodies move up by one, all places by 7 and 6.
    ground = Body("", 1, 0, np.eye(4), Joint("", Free()), SpatialInertia(), slice(0, 7), slice(0, 6))
    moved = [
        replace(
            body,
            index=body.index + 1,
            parent=body.parent + 1,
            coordinates=_after(body.coordinates, 7),
            dofs=_after(body.dofs, 6),
        )
        for body in tree.bodies
    ]
    return Tree(tree.name, (ground, *moved))


def _after(place: slice, size: int) -> slice:
    return slice(place.start + size, place.stop + size)
