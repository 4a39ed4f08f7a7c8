"""Momentum: of any tree about its centre of mass, and of floating bases in the algebra of their first joint.

A floating base is a first joint whose group H moves the whole robot: SE(3), the plane, a ball joint, or any
motion subgroup of two dimensions or more. Its velocity nu_b (k,) is body-fixed; n velocities q' of the other
joints follow it in v. Nothing depends on where the base is, so that

    M = [Mbb, Mbq; Mbq^T, Mqq],      h_b = Mbb nu_b + Mbq q',      h_x = Ad(H_bx)^T h_b

are the mass matrix by blocks, the momentum at the base, and that at a frame x, H_bx its pose in the base. h_b
is S^T of the momentum (l, p) of all bodies, and that in the fixed frame of the joint, h_i, changes by outer
wrenches only. With Mbb nu = h_b the base, all joints locked, would have the locked velocity

    nu_b^loc = nu_b + m q',          m = Mbb^-1 Mbq  (the mechanical connection).

Momenta are angular first, (l, p), as wrenches are. A rotor (armature) behind a joint is in M's diagonal
alone: it has no momentum here. One on the first joint would tie the base to the world, and is refused.

Feurstein (2021), chapters 2 and 3; Orin, Goswami and Lee (2013), "Centroidal dynamics of a humanoid robot".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import wrong_shape
from ..base.errors import ModelError, counted
from ..bodies import Body, Frame, Moments, Tree
from ..compiler import repeated
from ..groups import SE3, Free
from ..scalars import Array
from ..scalars.linear import cross, is_numeric, solve, symmetric
from .centroidal import about_center, momentum_at_base
from .energy import center_of_mass, center_of_mass_velocity
from .kinematics import frame_jacobian, frame_jacobian_rate
from .recursions import HOME, composites, poses_after, summed, transformations
from .spatial import REST, Pair, halves, on_joint

SMALLEST_RATIO = 1e-13  # of the extreme eigenvalues of a scaled Mbb that can be divided by


# -- the base, and matrices by its blocks -------------------------------------------------------------------


class BaseBlocks(NamedTuple):
    """A matrix (nv, nv) by the velocities of base (k) and joints (n): [bb, bq; qb, qq]."""

    bb: Array
    bq: Array
    qb: Array
    qq: Array


def floating_base(tree: Tree) -> Body:
    """The first body, if all others hang on it and its joint is a free group.

    Raises ModelError where several bodies hang on the world, where the first joint is fixed or has one degree
    of freedom, as motors have, or where it has a rotor.
    """
    roots = [body for body in tree.bodies if not body.parent]
    if len(roots) != 1:
        names = ", ".join(repr(b.name) for b in roots) or "none"
        raise ModelError(
            f"tree {tree.name!r} has {len(roots)} bodies on the world ({names}); a floating base is "
            "the one body that carries all others: hang them on one with a joint such as Free()"
        )
    (base,) = roots
    joint = base.joint
    if joint.dim < 2:
        advice = "give it a first joint such as Free() or Planar(normal), or load it with floating=True"
        if not joint.dim and len(tree.bodies) > 1:
            advice += "; merge_fixed() removes fixed joints"
        raise ModelError(
            f"tree {tree.name!r} has no floating base: its first joint {joint.name!r} is {joint.group!r}, of "
            f"{counted(joint.dim, 'degree')} of freedom, and a base that floats has two or more; {advice}"
        )
    if any(hasattr(x, "apply") or x != 0 for x in joint.armature):
        raise ModelError(
            f"the first joint {joint.name!r} of tree {tree.name!r} has armature {list(joint.armature)}: a "
            "rotor that ties the base to the world takes momentum; set it to zero"
        )
    return base


def base_dofs(tree: Tree) -> tuple[slice, slice]:
    """Places of the base's and of the joints' velocities in v: (slice(0, k), slice(k, nv)).

    Raises ModelError for a tree without a floating base, see `floating_base`.
    """
    k = floating_base(tree).joint.dim
    return slice(0, k), slice(k, tree.nv)


def base_blocks(tree: Tree, A: Array) -> BaseBlocks:
    """The blocks of a matrix (nv, nv): of M, dM/dt, or C in any form.

    In the form "hamel", C_b = dMbb/dt - ad_nu^T Mbb, C_bq = dMbq/dt - ad_nu^T Mbq (Feurstein, eq. 3.39);
    "feurstein" is the passive C of eq. (3.41), dM/dt = C + C^T.

    Raises ShapeError for another shape, ModelError for a tree without a floating base.
    """
    b, q = base_dofs(tree)
    A = np.asarray(A)
    if A.shape != (tree.nv, tree.nv):
        raise wrong_shape(f"a matrix on tree {tree.name!r}", A.shape, 2 * (tree.nv,))
    return BaseBlocks(A[b, b], A[b, q], A[q, b], A[q, q])


def link_jacobian(tree: Tree, q: Array, link: str | Frame) -> Array:
    """[A_jb S, J_j] (6, nv) of a body or frame j: its twist in its own axes is this times v.

    A_jb = Ad(H_bj^-1) moves twists of the base, S is the twist of its joint; J_j are the joints' columns
    (Feurstein, eqs 2.24, 2.47). It is frame_jacobian(tree, q, link, "body").
    """
    return frame_jacobian(tree, q, link, "body")


def link_jacobian_derivative(tree: Tree, q: Array, v: Array, link: str | Frame) -> Array:
    """[dA_jb/dt S, dJ_j/dt] (6, nv), the time derivative of link_jacobian while q moves with v.

    dA_jb/dt = -ad(J_j q') A_jb. Feurstein, eqs (3.42a), (3.42c).
    """
    return frame_jacobian_rate(tree, q, v, link, "body")


# -- momentum about the base --------------------------------------------------------------------------------


def base_momentum(tree: Tree, q: Array, v: Array) -> Array:
    """h_b = Mbb nu_b + Mbq q' (k,): the momentum at the base, in the dual of its algebra; O(n).

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]

    S^T of the momentum of all bodies about the base, in its axes [N m s, N s]. Feurstein, eq. (3.65). A
    floating base is a first joint of two degrees of freedom or more that carries all bodies; raises
    ModelError for other trees. See docs/floating-bases.md.
    """
    base = floating_base(tree)
    n, f = momentum_at_base(tree, transformations(tree, q), v)
    return on_joint(base.joint.S, n, f)


def base_momentum_matrix(tree: Tree, q: Array) -> Array:
    """A(q) (6, nv): the momentum (moment, force) of all bodies about the base and in its frame is A v.

    q  configuration, (nq,); of the base nothing depends

    Column k is the momentum that a unit of velocity k gives to all that its joint carries. The base's rows of
    the mass matrix are S^T A with the base's twists S (6, k). O(n).
    """
    base = floating_base(tree)
    T = transformations(tree, q)
    composite = composites(tree, T)
    columns = [composite[1].times(s[:3], s[3:]) for s in base.joint.S.T]
    columns += columns_in_base(tree, T, composite)[base.joint.dim :]
    return np.stack([np.concatenate(column) for column in columns], axis=1)


def locked_inertia(tree: Tree, q: Array) -> Array:
    """Mbb(q) (k, k): the inertia of all bodies about the base, the joints locked; O(n).

    Feurstein, eq. (2.51a); about the centre of mass it is `centroidal_inertia`.
    """
    base = floating_base(tree)
    return _locked_inertia(base, composites(tree, transformations(tree, q))[1])


def locked_velocity(tree: Tree, q: Array, v: Array) -> Array:
    """nu_b^loc = nu_b + Mbb^-1 Mbq q' (k,): how the base would move if the joints locked at once; O(n).

    Arguments as in `base_momentum`. The kinetic energy is (nu_loc^T Mbb nu_loc + q'^T (Mqq - Mbq^T Mbb^-1
    Mbq) q') / 2. Feurstein, eq. (3.66). Raises ModelError where Mbb is singular.
    """
    # Mbq q' is the momentum at the base while the base rests: one pass, without the matrix Mbq.
    base = floating_base(tree)
    T = transformations(tree, q)
    n, f = momentum_at_base(tree, T, np.concatenate([np.zeros(base.joint.dim, int), v[base.dofs.stop :]]))
    return v[base.dofs] + divided(tree, composites(tree, T)[1], [(n, f)])[:, 0]


def mechanical_connection(tree: Tree, q: Array) -> Array:
    """m(q) = Mbb^-1 Mbq (k, n): without momentum the joints' velocities q' move the base by nu_b = -m q'.

    q  configuration, (nq,); of the base nothing depends

    Column i is the velocity that the locked robot would have with the momentum of all bodies that joint i
    carries, moving at q'_i = 1. O(n).
    Feurstein, eq. (3.70). Raises ModelError where Mbb is singular.
    """
    base = floating_base(tree)
    T = transformations(tree, q)
    composite = composites(tree, T)
    columns = columns_in_base(tree, T, composite)[base.joint.dim :]
    return divided(tree, composite[1], columns)


# -- momentum in other frames -------------------------------------------------------------------------------


class MovingFrame(NamedTuple):
    """A frame x and its velocity, in the base's group.

    g  its pose in the inertial frame, which is the fixed frame of the first joint, an element (matrix)
    u  its velocity u^ = g^-1 dg/dt, in its own axes, (k,)
    """

    g: Array
    u: Array


def momentum_in_frame(tree: Tree, q: Array, v: Array, frame: MovingFrame | Array) -> Array:
    """h_x = Ad(H_bx)^T h_b (k,), H_bx = H_ib^-1 g: the momentum in a frame x of the base's group.

    q      configuration, (nq,)
    v      velocity, left-trivialised, (nv,)                               [rad/s, m/s]
    frame  its pose g in the inertial frame, an element of the base's group; or a MovingFrame

    With the identity it is h_i, in the inertial frame. Feurstein, eqs (3.67), (3.69). `total_momentum` has
    all six components, and frames of other motions.
    """
    g = _pose_of(tree, frame)
    return _carried(tree, q, g, base_momentum(tree, q, v))


def momentum_rate_in_frame(
    tree: Tree, q: Array, v: Array, frame: MovingFrame, wrench: Array | None = None
) -> Array:
    """dh_x/dt = ad(u)^T h_x + Ad(H_bx)^T F_b (k,).

    frame   with its velocity u
    wrench  F_b, what acts from outside on the base's motion, in its axes, (k,); none if None  [N m, N]

    Joint efforts have no part in it. Feurstein's proof of eq. (3.60), with ad(u) = Ad(H_bx)^-1 (a_b - a_xb)
    Ad(H_bx).
    """
    if not isinstance(frame, MovingFrame):
        raise ModelError(f"frame is {frame!r}, whose velocity is not known; give a MovingFrame(g, u)")
    base = floating_base(tree)
    rate = base.joint.group.ad(np.asarray(frame.u)).T @ momentum_in_frame(tree, q, v, frame)
    return rate if wrench is None else rate + _carried(tree, q, _pose_of(tree, frame), np.asarray(wrench))


def is_momentum_conserved(
    tree: Tree, q: Array, v: Array, frame: MovingFrame, tolerance: float = 1e-10
) -> bool:
    """Whether the momentum in a frame stays at this state while nothing acts from outside: ad(u)^T h_x = 0.

    tolerance  of |ad(u)^T h_x|, per |u| |h_x|

    So it is in the inertial frame, in a frame at the centre of mass that does not turn, and in space in any
    frame with the twist u = (a p, a l + b p) by its own momentum (l, p), though it turns: Feurstein's remark
    to eq. (3.62) excludes that wrongly. With the locked velocity it is not, in general.
    """
    h = np.asarray(momentum_in_frame(tree, q, v, frame), float)
    rate = np.asarray(momentum_rate_in_frame(tree, q, v, frame), float)
    size = np.linalg.norm(np.asarray(frame.u, float)) * np.linalg.norm(h)
    return bool(np.linalg.norm(rate) <= tolerance * size)


def center_of_mass_frame(tree: Tree, q: Array, v: Array, moving: str = "aligned") -> MovingFrame:
    """A frame c at the centre of mass with the axes of the inertial frame, and how it moves.

    q       configuration, (nq,)
    v       velocity, left-trivialised, (nv,)                              [rad/s, m/s]
    moving  "aligned": it keeps these axes; "locked": it turns with the locked velocity, u = Ad(H_cb) nu_loc

    The momentum in the aligned frame is the centroidal one, and is conserved. The locked one has a pose that
    depends on q alone only where the connection has no curvature, see `locked_frame`. A base that cannot
    translate in all directions has c as near the centre of mass as its group can bring it. Feurstein,
    sections 3.2.3 and 3.2.4.

    Raises ModelError for an unknown way to move.
    """
    if moving not in ("aligned", "locked"):
        raise ModelError(
            f"moving {moving!r} is unknown for a frame at the centre of mass; use aligned or locked"
        )
    base = floating_base(tree)
    group = base.joint.group
    R, p = SE3.parts(base.placement)
    translations = [k for k, S in enumerate(base.joint.S.T) if not np.any(S[:3])]

    # A vector of the inertial axes by the translations of the base's group, where it has some along it.
    def coordinates(x: Array) -> Array:
        x = R.T @ x
        return np.array([base.joint.S[3:, k] @ x if k in translations else 0 for k in range(group.dim)])

    origin = p + R @ getattr(group, "point", REST)  # of the group's coordinates
    g = group.exp(coordinates(center_of_mass(tree, q) - origin))
    if moving == "aligned":
        return MovingFrame(g, coordinates(center_of_mass_velocity(tree, q, v)))
    H_cb = group.compose(group.inverse(g), group.element(base.joint_coordinates(q)))
    return MovingFrame(g, group.Ad(H_cb) @ locked_velocity(tree, q, v))


# -- parts --------------------------------------------------------------------------------------------------


def columns_in_base(tree: Tree, T: list[Any], composite: list[Moments]) -> list[Pair]:
    """The momentum (n, f) about the base that each velocity gives to all that its joint carries."""
    poses = poses_after(tree, T, [None, HOME])
    columns = (
        (k, _momentum_in_base(poses[body.index], composite[body.index], S))
        for body in tree.bodies
        for k, S in body.columns
    )
    return summed(tree.nv, columns)


@repeated
def _momentum_in_base(pose: Pair, moments: Moments, S: Array) -> Pair:
    R, p = pose
    n, f = moments.times(S[:3], S[3:])
    f = R @ f
    return R @ n + cross(p, f), f


def _pose_of(tree: Tree, frame: MovingFrame | Array) -> Array:
    group = floating_base(tree).joint.group
    g = np.asarray(frame.g if isinstance(frame, MovingFrame) else frame)
    if g.shape != (group.n, group.n):
        raise wrong_shape(
            "a frame",
            g.shape,
            f"an element of {group!r}, {(group.n, group.n)}",
            "; group.element makes one of coordinates",
        )
    return g


def _carried(tree: Tree, q: Array, g: Array, h: Array) -> Array:
    """Ad(H_bx)^T h."""
    base = floating_base(tree)
    group = base.joint.group
    H = group.compose(group.inverse(group.element(base.joint_coordinates(q))), g)
    return group.Ad(H).T @ h


def _locked_inertia(base: Body, composite: Moments) -> Array:
    """S^T J S (k, k) of all bodies; its upper triangle, mirrored."""
    S = base.joint.S
    columns = [on_joint(S, *composite.times(*s)) for s in halves(S)]
    return symmetric(len(columns), lambda i, j: columns[j][i])


def divided(tree: Tree, composite: Moments, momenta: list[Pair]) -> Array:
    """Mbb^-1 of each of the momenta (n, f) at the base, (k, number).

    A base that moves freely turns by I_c^-1 of the moment about the centre of mass c, which goes with f / m.
    """
    base = floating_base(tree)
    _check_locked(tree, base, composite)
    if not momenta:
        return np.zeros((base.joint.dim, 0))
    # Fewer degrees of freedom: a small symmetric system. A free base needs a 3 x 3 system only, about c.
    if not isinstance(base.joint.group, Free):
        h = np.stack([on_joint(base.joint.S, n, f) for n, f in momenta], axis=1)
        return solve(_locked_inertia(base, composite), h)
    c, I_c = about_center(tree, composite)
    w = solve(I_c, np.stack([n - cross(c, f) for n, f in momenta], axis=1))
    u = [f / tree.mass + cross(c, x) for (_, f), x in zip(momenta, w.T, strict=True)]
    return np.concatenate([w, np.stack(u, axis=1)])


@lru_cache(maxsize=64)
def _somewhere(tree: Tree) -> Moments:
    """The moments of all bodies at a configuration as good as any."""
    return composites(tree, transformations(tree, tree.group.random(np.random.default_rng(0))))[1]


def _check_locked(tree: Tree, base: Body, composite: Moments) -> None:
    """Raise ModelError where Mbb cannot be divided by: here, or, for symbols, at any configuration.

    Nothing is known where the tree itself has symbols.
    """
    known = composite if is_numeric(*composite) else _somewhere(tree)
    if not is_numeric(*known):
        return
    # Scaled to a unit diagonal, so that the ratio of eigenvalues has no units: turns and shifts of a small or
    # a large robot count alike.
    M = _locked_inertia(base, known).astype(float)
    sizes = np.sqrt(np.where(np.diag(M) > 0, np.diag(M), 1.0))
    least, directions = np.linalg.eigh(M / np.outer(sizes, sizes))
    if not least[0] > SMALLEST_RATIO * max(least[-1], 0.0):
        lost = directions[:, 0] / sizes
        lost = lost / lost[np.argmax(np.abs(lost) > 0.999 * np.abs(lost).max())]  # its sign is LAPACK's
        raise ModelError(
            f"the locked inertia Mbb of tree {tree.name!r} (mass {float(tree.mass)} kg) is singular: moving "
            f"the base along {(np.round(lost, 6) + 0.0).tolist()} takes no momentum, so no "
            "momentum tells that velocity; give the bodies mass and rotational inertia, or the base a joint "
            "with fewer degrees of freedom"
        )
