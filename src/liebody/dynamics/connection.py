"""How joints turn a floating base without momentum: curvature of the connection, locked frame, holonomy.

Without momentum the base moves by nu_b = -m(q) q', with the mechanical connection m of `momentum`. A frame c
that moves with the locked velocity has a pose H_bc in the base with

    (dH_bc/dt) H_bc^-1 = (m(q) q')^                                        (Feurstein 2021, eq. 3.70)

and H_bc is a function of q exactly if the curvature

    B_ij = d_j m_i - d_i m_j + [m_i, m_j]                                  (eq. 3.72)

vanishes. If not, a closed loop of the joints leaves the base turned, as a falling cat does. Velocities of
joints that turn in space have no coordinates; d_i are then derivatives along the left-invariant fields of the
joints' groups, and m([e_i, e_j]) is added.

B takes one sum over the bodies. The points of the robot, seen from its base, have the velocities u_i when
velocity i is one and there is no momentum. Then

    Mbb B_ij = S^T (-2 int u_i x u_j dm, 0),

so only the angular part of B is free, its linear part is c x that, and bases that cannot turn have none. By
Schwarz's inequality |int u_i x u_j dm|^2 is at most the product of int u_i . u_i dm and int u_j . u_j dm, the
inertias that the joints have with the base free to move.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import count, floats, members, wrong_shape
from ..base.errors import ConfigurationError, IntegrationError, ModelError, ShapeError
from ..bodies import Moments, Tree
from ..groups import Product
from ..integrators import solve_ivp
from ..scalars import Array
from ..scalars.linear import cross, is_numeric, skew
from .coriolis import cross_moment, mass_matrix_derivative
from .momentum import (
    base_dofs,
    center_of_mass_frame,
    columns_in_base,
    divided,
    floating_base,
    locked_inertia,
    mechanical_connection,
)
from .recursions import HOME, composites, poses_after, transformations
from .spatial import REST, Pair, Transformation

Path = Array | Callable[[float], tuple[Array, Array]]


# -- curvature ----------------------------------------------------------------------------------------------


def connection_curvature(tree: Tree, q: Array) -> Array:
    """B(q) (k, n, n) of the mechanical connection, antisymmetric in its last two indices; O(n^2).

    q  configuration, (nq,); of the base nothing depends

    B[:, i, j] = d_j m_i - d_i m_j + [m_i, m_j] (+ m([e_i, e_j]) where joint motions do not commute), by the
    sum over the bodies above: nothing is differentiated. Feurstein, eq. (3.72). It is zero exactly if the
    locked frame is a function of q; otherwise closed paths of the joints turn the base. Raises ModelError for
    a tree without a floating base, and where Mbb is singular.
    """
    # Pairs i < j only, because B is antisymmetric. One division by Mbb serves all of them.
    fields = _InternalFields(tree, q)
    n = range(fields.n)
    pairs = [(i, j) for i in n for j in n if i < j]
    velocities = divided(tree, fields.composite, [(-2 * fields.cross_moment(i, j), REST) for i, j in pairs])
    columns = dict(zip(pairs, velocities.T, strict=True))
    zero = np.zeros(base_dofs(tree)[0].stop, int)
    rows = [[columns.get((i, j), zero) if i <= j else -columns[j, i] for j in n] for i in n]
    return np.moveaxis(np.array(rows), -1, 0) if rows else np.zeros((len(zero), 0, 0))


def locked_inertia_derivative(tree: Tree, q: Array) -> Array:
    """D_i Mbb = d_i Mbb + ad(m_i)^T Mbb + Mbb ad(m_i), (n, k, k): the locked inertia along the connection.

    q  configuration, (nq,); of the base nothing depends

    External and internal energy are exchanged by it: without forces d/dt (nu^T Mbb nu)/2 = -nu^T (sum of D_i
    Mbb q_i') nu/2 with the locked velocity nu, in any coordinates that decouple M (docs/symmetries.md).
    Raises ModelError for a tree without a floating base, and where Mbb is singular.
    """
    base = floating_base(tree)
    m = mechanical_connection(tree, q)
    k = base.joint.dim
    L = locked_inertia(tree, q)
    blocks = []
    for i, column in enumerate(m.T):
        along = mass_matrix_derivative(tree, q, np.eye(tree.nv, dtype=int)[k + i])[:k, :k]
        half = L @ base.joint.group.ad(column)
        blocks.append(along + half + half.T)
    return np.stack(blocks) if blocks else np.zeros((0, k, k), int)


class Integrability(NamedTuple):
    """Whether the locked frame is a function of the configuration.

    integrable  whether no curvature is above the tolerance
    worst       the largest |S^T int u_i x u_j dm| / sqrt(int u_i . u_i dm int u_j . u_j dm), from 0 to 1
    tolerance   up to which `worst` counts as zero
    velocities  places in v of the two joint velocities of `worst`; None with fewer than two
    q           configuration of `worst`, (nq,)
    states      number of configurations that were tried
    """

    integrable: bool
    worst: float
    tolerance: float
    velocities: tuple[int, int] | None
    q: Array
    states: int


def integrability(tree: Tree, states: int = 32, tolerance: float = 1e-9, seed: int = 0) -> Integrability:
    """Whether the connection has no curvature, at random configurations.

    states     number of configurations
    tolerance  of the curvature, made a number without unit: see `Integrability.worst`. Round-off is below
               1e-13, and generic robots are between 0.01 and 1

    A curvature that is analytic and not zero is missed with probability zero, so one state would do where
    round-off is none. `lb.equations(tree).integrable` decides for small robots without round-off. Saccon,
    Traversaro, Nori and Nijmeijer (2017), "On centroidal dynamics and integrability of average angular
    velocity". Raises ModelError for a tree with symbols.
    """
    k = base_dofs(tree)[0].stop
    rng = np.random.default_rng(seed)
    states = count("states", states)
    worst = Integrability(True, 0.0, tolerance, None, tree.group.neutral(), states)
    S = floating_base(tree).joint.S
    for _ in range(states):
        q = tree.group.random(rng)
        # Schwarz's inequality bounds the ratio of a pair by 1, whatever the units of its two joints.
        fields = _InternalFields(tree, q)
        if not is_numeric(fields.composite.m, fields.composite.Sigma):
            raise ModelError(f"tree {tree.name!r} has symbols; ask lb.equations(tree).integrable")
        sizes = np.sqrt([fields.inertia(i) for i in range(fields.n)])
        for j in range(fields.n):
            for i in range(j):
                # a number without unit: the moment of the two fields over the product of their sizes
                size = sizes[i] * sizes[j]
                moment = np.linalg.norm(S[:3].T @ np.asarray(fields.cross_moment(i, j), float))
                if size > 0 and (worst.velocities is None or moment / size > worst.worst):
                    ratio = float(moment / size)
                    worst = Integrability(ratio <= tolerance, ratio, tolerance, (k + i, k + j), q, states)
    return worst


class _InternalFields:
    """The velocities u_i of all points, seen from the base, for unit joint velocities without momentum.

    In the base's axes, u_i = (s_i on what joint i carries) - m_i. The twists s_i and m_i are about the base's
    frame, and so are the moments of what a joint carries.
    """

    def __init__(self, tree: Tree, q: Array) -> None:
        base = floating_base(tree)
        T = transformations(tree, q)
        composite = composites(tree, T)
        poses = poses_after(tree, T, [None, HOME])
        k, S = base.joint.dim, base.joint.S
        m = divided(tree, composite[1], columns_in_base(tree, T, composite)[k:])
        self.n = tree.nv - k
        self.composite = composite[1]
        self.locked = [(S[:3] @ x, S[3:] @ x) for x in m.T]
        self.carried: list[Any] = [None, composite[1]]
        # s_i: (body, twist); several if joints follow
        self.twists: list[list[tuple[int, Pair]]] = [[] for _ in m.T]
        for body in tree.bodies[1:]:
            R, p = poses[body.index]
            self.carried.append(composite[body.index].out(Transformation((R,), p)))
            for i, s in body.columns:
                w = R @ s[:3]
                self.twists[i - k].append((body.index, (w, R @ s[3:] + cross(p, w))))
        # A moment of u_i = s_i - m_i and another field needs s_i on what joint i carries, and m_i on
        # everything: `own` has the first part, `all` the difference, each as (p, K) of `_moment`.
        self.above = {b.index: {a.index for a in tree.ancestors(b.index)} for b in tree.bodies}
        self.own = [[_moment(self.carried[b], *s) for b, s in parts] for parts in self.twists]
        everywhere = [_moment(composite[1], *twist) for twist in self.locked]
        self.all = [_less(parts, x) for parts, x in zip(self.own, everywhere, strict=True)]

    def cross_moment(self, i: int, j: int) -> Array:
        """int u_i x u_j dm (3,)."""
        # (s_i - m_i) x (s_j - m_j) = s_i x s_j - (s_i - m_i) x m_j - m_i x s_j, and m_i x s_j = -s_j x m_i.
        w_i, v_i = self.locked[i]
        w_j, v_j = self.locked[j]
        p, K = self.all[i]
        total = -(cross(p, v_j) + K @ w_j)
        for p, K in self.own[j]:
            total = total + cross(p, v_i) + K @ w_i
        return total + self._between(i, j, cross_moment)

    def inertia(self, i: int) -> float:
        """int u_i . u_i dm: of the joint's inertia what is left when the base moves along; numbers only.

        Zero where that is round-off: a joint that moves no mass, or all of it as the base does.
        """
        w, v = self.locked[i]
        n, f = self.composite.times(w, v)
        carried = self._between(i, i, _inner)
        left = carried - (w @ n + v @ f)
        return float(left) if left > 1e-12 * carried else 0.0

    def _between(self, i: int, j: int, moment: Callable[[Moments, Pair, Pair], Any]) -> Any:
        """The moment of s_i and s_j on all that both carry."""
        # Both carry what the outer one of two joints on one path carries; joints of two branches share
        # nothing.
        total: Any = 0
        for a, s in self.twists[i]:
            for b, t in self.twists[j]:
                if a in self.above[b] or b in self.above[a]:
                    total = total + moment(self.carried[b if a in self.above[b] else a], s, t)
        return total


def _inner(moments: Moments, a: Pair, b: Pair) -> Any:
    n, f = moments.times(*b)
    return a[0] @ n + a[1] @ f


def _moment(moments: Moments, w: Array, u: Array) -> tuple[Array, Array]:
    """p and K with int (u + w x r) x (v' + w' x r) dm = p x v' + K w'."""
    m, h, Sigma = moments
    return m * u + cross(w, h), Sigma @ skew(w) - skew(u) @ skew(h)


def _less(parts: list[tuple[Array, Array]], other: tuple[Array, Array]) -> tuple[Array, Array]:
    p = -other[0]
    K = -other[1]
    for x, Y in parts:
        p = p + x
        K = K + Y
    return p, K


# -- along paths of the joints ------------------------------------------------------------------------------


class Holonomy(NamedTuple):
    """Where a closed loop of the joints leaves the base that started at the identity, without momentum.

    coordinates  of the base's group, (nq of the base,); angles about one axis are not wrapped
    turn         its rotation vector, in the base's axes, (3,)                        [rad]
    """

    coordinates: Array
    turn: Array


def joint_group(tree: Tree) -> Product:
    """The configuration group of the joints without the base: coordinates q[nq of the base:].

    Raises ModelError for a tree without a floating base.
    """
    floating_base(tree)
    return Product(*tree.group.factors[1:])


def motion_without_momentum(tree: Tree, path: Path, tolerance: float = 1e-12) -> Array:
    """The base's coordinates (nq of the base,) at the end of a path of the joints, from the identity.

    path       configurations of the joints (m, nq of the joints), joined by geodesics (straight lines, for
               angles and lengths); or a function of s from 0 to 1 that returns such a configuration, and the
               joints' velocity by s
    tolerance  of each step

    dg/ds = -g (m(q) q')^: the base moves by minus the connection, which does not depend on how fast the
    path is passed. Integrated on the base's group by a method of order 8.

    Raises ModelError for a tree without a floating base, ShapeError for paths of another shape, and
    IntegrationError where the tolerance cannot be kept.
    """
    base = floating_base(tree)
    return _integrated(tree, path, base.joint.group.neutral(), lambda g, u: -u, tolerance)


def holonomy(tree: Tree, loop: Path, tolerance: float = 1e-12) -> Holonomy:
    """The motion of the base by a closed loop of the joints, without momentum: how a falling cat turns.

    loop  as `path` in `motion_without_momentum`, with the same configuration at its start and end

    For a small loop it is the curvature times the area, g = 1 + B_ij^ da_ij, i before j along the loop (eq.
    3.72); it is the identity for all loops that can be contracted exactly if the curvature is zero.

    Raises ConfigurationError for a loop that is not closed, and as `motion_without_momentum`.
    """
    legs = _legs(tree, loop)
    first, _ = legs[0](0.0)
    last, _ = legs[-1](1.0)
    gap = np.abs(joint_group(tree).difference(first, last)).max(initial=0.0)
    if gap > 1e-9:
        raise ConfigurationError(
            f"the loop ends {gap:.3g} away from where it starts; close it, or ask for motion_without_momentum"
        )
    base = floating_base(tree)
    group = base.joint.group
    coordinates = motion_without_momentum(tree, loop, tolerance)
    return Holonomy(coordinates, base.joint.S[:3] @ group.difference(group.neutral(), coordinates))


def locked_frame(tree: Tree, q: Array, start: Array | None = None, tolerance: float = 1e-12) -> Array:
    """H_bc (nq of the base,): the frame at the centre of mass, moving with the locked velocity, in the base.

    q          configuration, (nq,); of the base nothing depends
    start      configuration of the joints where c has the base's axes; their neutral one if None
    tolerance  of each step

    (dH/ds) H^-1 = (m(q) q')^ along the geodesic from `start`. It is a function of q, whatever the path, where
    the connection has no curvature (`integrability`), as with one joint. Feurstein, eqs (3.70), (3.76).
    """
    # H starts at the centre of mass of the start, with the axes of the base.
    group = floating_base(tree).joint.group
    path = _way(tree, q, start)
    home = np.concatenate([group.neutral(), path[0]])
    c = center_of_mass_frame(tree, home, np.zeros(tree.nv)).g

    # (dH/ds) H^-1 = u^ is H^-1 dH/ds = (Ad(H^-1) u)^, as the integrator takes it.
    def velocity(g: Array, u: Array) -> Array:
        return group.Ad(group.inverse(group.element(g))) @ u

    return _integrated(tree, path, group.coordinates(c), velocity, tolerance)


def locked_angle(tree: Tree, q: Array, start: Array | None = None) -> float:
    """theta_bc = int m_w(q) q' ds, the angle of the locked frame in a base that turns about one axis.  [rad]

    q, start  as in `locked_frame`

    The line integral along the geodesic from `start`, by Gauss's quadrature with 16 nodes on twice as many
    intervals until it stays. It counts turns. Feurstein, eq. (3.76).

    Raises ModelError for a base that turns otherwise, IntegrationError where the integral does not settle.
    """
    base = floating_base(tree)
    joints = joint_group(tree)
    turning = [k for k, S in enumerate(base.joint.S.T) if np.any(S[:3])]
    if len(turning) != 1:
        raise ModelError(
            f"the base of tree {tree.name!r} moves by {base.joint.group!r}, which turns about "
            f"{len(turning)} axes, so its orientation is no angle; use locked_frame"
        )
    start, end = _way(tree, q, start)
    velocity = joints.difference(start, end)
    neutral = base.joint.group.neutral()
    nodes, weights = np.polynomial.legendre.leggauss(16)

    def rate(s: float) -> float:
        at = np.concatenate([neutral, joints.integrate(start, s * velocity)])
        return float(mechanical_connection(tree, at)[turning[0]] @ velocity)

    # twice as many intervals until two results agree to round-off
    last = np.inf
    for intervals in (1, 2, 4, 8, 16, 32):
        points = (np.arange(intervals)[:, None] + (nodes + 1) / 2).ravel() / intervals
        total = float(np.tile(weights, intervals) @ np.array([*map(rate, points)])) / (2 * intervals)
        if abs(total - last) <= 1e-13 * max(1.0, abs(total)):
            return total
        last = total
    raise IntegrationError(
        f"the angle of the locked frame of tree {tree.name!r} does not settle on the way to {end.tolist()}: "
        "the locked inertia nearly vanishes there; use locked_frame with a tolerance"
    )


def _way(tree: Tree, q: Array, start: Array | None) -> Array:
    """Configurations of the joints, (2, nq of the joints): `start` or the neutral one, and q's."""
    q = tree.group.check(q)
    start = joint_group(tree).neutral() if start is None else start
    if q.ndim != 1:
        raise wrong_shape("q", q.shape, f"a single configuration, ({tree.nq},)")
    return _points(tree, [start, q[floating_base(tree).coordinates.stop :]])


def _integrated(
    tree: Tree, path: Path, start: Array, velocity: Callable[[Array, Array], Array], tolerance: float
) -> Array:
    """Where g^-1 dg/ds = velocity(g, m(q) dq/ds) leads from `start`, leg by leg."""
    group = floating_base(tree).joint.group
    neutral = floating_base(tree).joint.group.neutral()
    # One integration for each leg: a corner of the path within a step would cost the order of the method.
    g = start
    for leg in _legs(tree, path):

        def F(s: float, g: Array, leg: Callable[[float], tuple[Array, Array]] = leg) -> Array:
            q, rate = leg(s)
            return velocity(g, mechanical_connection(tree, np.concatenate([neutral, q])) @ rate)

        solution = solve_ivp(F, (0.0, 1.0), g, group, "rkmk8", t_eval=[1.0], rtol=tolerance, atol=tolerance)
        if not solution.success:
            raise IntegrationError(f"the motion of the base: {solution.message}")
        g = solution.q[-1]
    return g


def _legs(tree: Tree, path: Path) -> list[Callable[[float], tuple[Array, Array]]]:
    """Functions s -> (q of the joints, dq/ds), s from 0 to 1, one after the other."""
    joints = joint_group(tree)
    if callable(path):
        _at(joints, path, 0.0)  # a path of a wrong shape is refused before the integration
        return [lambda s: _at(joints, path, s)]
    points = _points(tree, path)

    def geodesic(a: Array, b: Array) -> Callable[[float], tuple[Array, Array]]:
        u = joints.difference(a, b)
        return lambda s: (joints.integrate(a, s * u), u)

    return [geodesic(a, b) for a, b in pairwise(points)]


def _at(joints: Product, path: Callable[[float], tuple[Array, Array]], s: float) -> tuple[Array, Array]:
    """The configuration of the joints and their velocity that a function gives at s."""
    at_s = members("the path", path(s), "a configuration and a velocity")
    q, *rates = (floats("the path", x, finite=False) for x in at_s)
    if [q.shape, *(x.shape for x in rates)] != [(joints.nq,), (joints.dim,)]:
        raise ShapeError(
            f"the path gives arrays of shapes {', '.join(str(x.shape) for x in (q, *rates))}, expected a "
            f"configuration and a velocity; the joints have {(joints.nq,)} and {(joints.dim,)}"
        )
    return q, rates[0]


def _points(tree: Tree, path: Array) -> Array:
    joints = joint_group(tree)
    points = floats("path", path)
    if points.ndim != 2 or points.shape[1] != joints.nq or len(points) < 2:
        raise ShapeError(
            f"a path of shape {points.shape} is no list of two or more configurations of the joints; "
            f"expected (m, {joints.nq})"
        )
    return np.asarray(joints.check(points))
