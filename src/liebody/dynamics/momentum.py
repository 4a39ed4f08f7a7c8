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

from ..bodies import Body, Frame, Moments, Tree
from ..errors import ModelError, ShapeError
from ..groups import Free
from ..linear import cross, is_numeric, solve
from .coriolis import Pair, gather, momentum_of, sum_of
from .kinematics import frame_jacobian, frame_jacobian_rate
from .spatial import Motion

Array = Any
REST = np.zeros(3, int)
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
    of freedom, as motors have, where another joint follows it, or where it has a rotor.
    """
    roots = [body for body in tree.bodies if not body.parent]
    if len(roots) != 1:
        raise ModelError(
            f"tree {tree.name!r} has {len(roots)} bodies on the world ({_names(roots)}); a floating base is "
            "the one body that carries all others: hang them on one with a joint such as Free()"
        )
    (base,) = roots
    joint = base.joint
    if joint.dim < 2:
        advice = (
            ("merge_fixed() removes fixed joints; " if not joint.dim and len(tree.bodies) > 1 else "")
            + "give it a first joint such as Free() or Planar(normal), or load the description with floating=True"
        )
        raise ModelError(
            f"tree {tree.name!r} has no floating base: its first joint {joint.name!r} is {joint.group!r}, of "
            f"{joint.dim} degrees of freedom, and a base that floats has two or more; {advice}"
        )
    followers = [b for b in tree.bodies[1:] if b.joint.dim and b.dofs.start < base.dofs.stop]
    if followers:
        raise ModelError(
            f"joint {followers[0].joint.name!r} follows the first joint {joint.name!r} of tree "
            f"{tree.name!r}, so the robot does not move as one with its base; let it follow another joint"
        )
    if any(hasattr(x, "apply") or x != 0 for x in joint.armature):
        raise ModelError(
            f"the first joint {joint.name!r} of tree {tree.name!r} has armature {list(joint.armature)}: a "
            "rotor that ties the base to the world takes momentum; set it to zero"
        )
    return base


def base_dofs(tree: Tree) -> tuple[slice, slice]:
    """Where the velocities of the base and those of the joints stand in v: (slice(0, k), slice(k, nv)).

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
        raise ShapeError(
            f"a matrix of shape {A.shape} has no blocks of tree {tree.name!r}; expected {2 * (tree.nv,)}"
        )
    return BaseBlocks(A[b, b], A[b, q], A[q, b], A[q, q])


def link_jacobian(tree: Tree, q: Array, link: str | Frame) -> Array:
    """[A_jb S, J_j] (6, nv) of a body or frame j: its twist in its own axes is this times v.

    A_jb = Ad(H_bj^-1) moves twists of the base, S is the twist of its joint; J_j are the joints' columns
    (Feurstein, eq. 2.24). It is frame_jacobian(tree, q, link, "body").
    """
    return frame_jacobian(tree, q, link, "body")


def link_jacobian_derivative(tree: Tree, q: Array, v: Array, link: str | Frame) -> Array:
    """[dA_jb/dt S, dJ_j/dt] (6, nv), the time derivative of link_jacobian while q moves with v.

    dA_jb/dt = -ad(J_j q') A_jb. Feurstein, section 3.1.4.
    """
    return frame_jacobian_rate(tree, q, v, link, "body")


# -- momentum about the base --------------------------------------------------------------------------------


def base_momentum(tree: Tree, q: Array, v: Array) -> Array:
    """h_b = Mbb nu_b + Mbq q' (k,): the momentum at the base, in the dual of its algebra; O(n).

    q  configuration, (nq,)
    v  velocity, left-trivialised, (nv,)                                   [rad/s, m/s]

    S^T of the momentum of all bodies about the base, in its axes [N m s, N s]. Feurstein, eq. (2.48).
    """
    base = floating_base(tree)
    n, f = _total(tree, _motions(tree, q), v)[0]
    return _on(base, n, f)


def locked_inertia(tree: Tree, q: Array) -> Array:
    """Mbb(q) (k, k): the inertia about the base of all bodies, the joints locked; O(n). Feurstein, eq. (2.46)."""
    base = floating_base(tree)
    return _locked_inertia(base, _composites(tree, _motions(tree, q))[1])


def locked_velocity(tree: Tree, q: Array, v: Array) -> Array:
    """nu_b^loc = nu_b + Mbb^-1 Mbq q' (k,): how the base would move if the joints locked at once; O(n).

    Arguments as in `base_momentum`. The kinetic energy is (nu_loc^T Mbb nu_loc + q'^T (Mqq - Mbq^T Mbb^-1
    Mbq) q') / 2. Feurstein, eq. (3.65). Raises ModelError where Mbb is singular.
    """
    base = floating_base(tree)
    T = _motions(tree, q)
    (n, f), _ = _total(tree, T, v, base_at_rest=True)
    return v[base.dofs] + _divided(tree, base, _composites(tree, T)[1], [(n, f)])[:, 0]


def mechanical_connection(tree: Tree, q: Array) -> Array:
    """m(q) = Mbb^-1 Mbq (k, n): without momentum the joints' velocities q' move the base by nu_b = -m q'.

    q  configuration, (nq,); of the base nothing depends

    Column i is what all that joint i carries would give, as its momentum, to the locked robot. O(n).
    Feurstein, eq. (3.70). Raises ModelError where Mbb is singular.
    """
    base = floating_base(tree)
    T = _motions(tree, q)
    composite = _composites(tree, T)
    columns = _columns(tree, _poses_in_base(tree, T), composite)[base.joint.dim :]
    return _divided(tree, base, composite[1], columns)


# -- parts --------------------------------------------------------------------------------------------------


def _motions(tree: Tree, q: Array) -> list[Any]:
    return [None, *(Motion(body, q) for body in tree.bodies)]


def _composites(tree: Tree, T: list[Any]) -> list[Moments]:
    """Of each body: the moments of it and of all it carries, in its frame. At 0 what the world carries alone."""
    return gather(tree, T, list(tree.base_moments), lambda x, T: T.moments_out(x), sum_of)


def _poses_in_base(tree: Tree, T: list[Any]) -> list[Any]:
    """(R, p) of each body in the first one's frame."""
    poses: list[Any] = [None, (np.eye(3, dtype=int), REST)]
    for body in tree.bodies[1:]:
        R, p = poses[body.parent]
        poses.append((T[body.index].rotation_after(R), p + R @ T[body.index].p))
    return poses


def _columns(tree: Tree, poses: list[Any], composite: list[Moments]) -> list[Pair]:
    """The momentum (n, f) that each velocity gives to all that its joint carries, where the poses lead."""
    columns = [(REST, REST)] * tree.nv
    for body in tree.bodies:
        R, p = poses[body.index]
        for k, S in zip(range(tree.nv)[body.dofs], body.twist.T, strict=True):
            n, f = momentum_of(composite[body.index], S[:3], S[3:])
            f = R @ f
            columns[k] = columns[k][0] + R @ n + cross(p, f), columns[k][1] + f
    return columns


def _total(tree: Tree, T: list[Any], v: Array, base_at_rest: bool = False) -> tuple[Pair, Pair]:
    """The momentum of all bodies about the first one's frame, in its axes; and the twist of that."""
    twists: list[Any] = [(REST, REST)]
    for body in tree.bodies:
        w, u = T[body.index].twist_into(*twists[body.parent])
        if body.parent or not base_at_rest:
            V = body.joint.S @ body.joint_rates(v)
            w, u = w + V[:3], u + V[3:]
        twists.append((w, u))
    momenta = [momentum_of(x, *V) for x, V in zip(tree.base_moments, twists, strict=True)]
    for body in reversed(tree.bodies[1:]):
        n, f = T[body.index].wrench_out(*momenta[body.index])
        momenta[body.parent] = momenta[body.parent][0] + n, momenta[body.parent][1] + f
    return momenta[1], twists[1]


def _on(base: Body, n: Array, f: Array) -> Array:
    """S^T (n, f) (k,)."""
    S = base.joint.S
    return S[:3].T @ n + S[3:].T @ f


def _locked_inertia(base: Body, composite: Moments) -> Array:
    """S^T J S (k, k) of all bodies; its upper triangle, mirrored."""
    columns = [_on(base, *momentum_of(composite, S[:3], S[3:])) for S in base.joint.S.T]
    k = range(len(columns))
    return np.array([[columns[max(i, j)][min(i, j)] for j in k] for i in k])


def _divided(tree: Tree, base: Body, composite: Moments, momenta: list[Pair]) -> Array:
    """Mbb^-1 of each of the momenta (n, f) at the base, (k, number).

    A base that moves freely turns by I_c^-1 of the moment about the centre of mass c, which goes with f / m.
    """
    _check_locked(tree, base, composite)
    if not momenta:
        return np.zeros((base.joint.dim, 0))
    if not isinstance(base.joint.group, Free):
        h = np.stack([_on(base, n, f) for n, f in momenta], axis=1)
        return solve(_locked_inertia(base, composite), h)
    c, I_c = _about_center(composite)
    w = solve(I_c, np.stack([n - cross(c, f) for n, f in momenta], axis=1))
    u = [f / composite.m + cross(c, x) for (_, f), x in zip(momenta, w.T, strict=True)]
    return np.concatenate([w, np.stack(u, axis=1)])


def _about_center(x: Moments) -> tuple[Array, Array]:
    """c = h / m, and the rotational inertia about it."""
    c = x.h / x.m
    return c, Moments(x.m, REST, x.Sigma - np.outer(x.h, c)).I


def _check_locked(tree: Tree, base: Body, composite: Moments) -> None:
    """Raise ModelError where Mbb cannot be divided by: here, or, for symbols, at any configuration."""
    if is_numeric(composite.m, composite.h, composite.Sigma):
        _check_regular(tree, base, composite)
    else:
        _check_somewhere(tree)


@lru_cache(maxsize=64)
def _check_somewhere(tree: Tree) -> None:
    """The same at a configuration as good as any; nothing is known where the tree itself has symbols."""
    composite = _composites(tree, _motions(tree, tree.group.random(np.random.default_rng(0))))[1]
    if is_numeric(composite.m, composite.h, composite.Sigma):
        _check_regular(tree, floating_base(tree), composite)


def _check_regular(tree: Tree, base: Body, composite: Moments) -> None:
    M = _locked_inertia(base, composite).astype(float)
    sizes = np.sqrt(np.where(np.diag(M) > 0, np.diag(M), 1.0))
    least, directions = np.linalg.eigh(M / np.outer(sizes, sizes))
    if not least[0] > SMALLEST_RATIO * max(least[-1], 0.0):
        lost = directions[:, 0] / sizes
        raise ModelError(
            f"the locked inertia Mbb of tree {tree.name!r} (mass {float(tree.mass)} kg) is singular: moving "
            f"the base along {np.round(lost / np.abs(lost).max(), 6).tolist()} takes no momentum, so no "
            "momentum tells that velocity; give the bodies mass and rotational inertia, or the base a joint "
            "with fewer degrees of freedom"
        )


def _names(bodies: list[Body]) -> str:
    return ", ".join(repr(b.name) for b in bodies) or "none"
