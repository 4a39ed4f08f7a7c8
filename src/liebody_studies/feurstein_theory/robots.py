"""Robots of the study of Feurstein (2021), and what his formulas are made of, by his definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from liebody import dynamics
from liebody.bodies import SpatialInertia, Tree, TreeBuilder
from liebody.compiler import jacobian, jvp, trace
from liebody.dynamics import floating_base
from liebody.groups import SE2, SE3, Cylindrical, Free, Helical, Planar, Prismatic, Revolute, Spherical
from liebody.scalars.linear import solve

from ..compare import Array, along, apart, left, random_inertia, random_pose

EXACT = 1e-10  # what is called right of whole robots, relative to the size of the terms
WEIGHT = (0, -9.81, 0)  # the thesis falls along -y


def turned(A: Array) -> Array:
    """The transposes of a stack of matrices."""
    return np.swapaxes(A, -1, -2)


# -- robots -------------------------------------------------------------------------------------------------


def space_tree(rng: np.random.Generator) -> Tree:
    """A free base with two branches: hinges, a slider, a screw and a cylindrical joint, six velocities."""
    builder = TreeBuilder("random, SE(3)").add("base", Free(), random_inertia(rng))
    kinds: tuple[Any, ...] = Revolute, Prismatic, lambda axis: Helical(axis, 0.3), Cylindrical, Revolute
    parents = ["base", "link1", "link2", "base", "link4"]
    for k, (kind, parent) in enumerate(zip(kinds, parents, strict=True), start=1):
        builder.add(f"link{k}", kind(rng.normal(size=3)), random_inertia(rng), parent, random_pose(rng))
    return builder.build()


def plane_tree(rng: np.random.Generator) -> Tree:
    """A planar base with two branches: hinges and a slider, four velocities."""
    builder = TreeBuilder("random, SE(2)").add("base", Planar([0, 0, 1]), random_inertia(rng))
    parents = ["base", "link1", "base", "link3"]
    for k, parent in enumerate(parents, start=1):
        x, y, turn = rng.normal(size=3)
        place = SE3.motion(np.asarray(SE3.exp(np.array([0, 0, turn, 0, 0, 0]))[:3, :3], float), [x, y, 0])
        group = Prismatic([np.cos(turn), np.sin(turn), 0]) if k == 2 else Revolute([0, 0, 1])
        builder.add(f"link{k}", group, random_inertia(rng), parent, place)
    return builder.build()


def many_joints_tree(rng: np.random.Generator) -> Tree:
    """A free base that carries a ball joint, a planar joint, a slider and a hinge."""
    builder = TreeBuilder("random, ball and planar joints").add("base", Free(), random_inertia(rng))
    groups = [Spherical(), Planar(rng.normal(size=3)), Prismatic(rng.normal(size=3)), Revolute([1, 2, 3])]
    for k, (group, parent) in enumerate(zip(groups, ["base", "link1", "base", "link3"], strict=True), 1):
        builder.add(f"link{k}", group, random_inertia(rng), parent, random_pose(rng))
    return builder.build()


def hopper() -> Tree:
    """The thesis' hopper with a revolute leg, section 4.3: point masses in the plane."""
    l = 0.12
    thigh = SpatialInertia.point(0.835) + SpatialInertia.point(0.122, (l / 2, 0, 0))
    builder = TreeBuilder("revolute hopper").add("thigh", Planar([0, 0, 1]), thigh)
    shank = SpatialInertia.point(0.050, (l / 2, 0, 0))
    return builder.add("shank", Revolute([0, 0, 1]), shank, "thigh", (l, 0, 0)).build()


def planar_2r() -> Tree:
    """A box in the plane with an arm of two rods: the smallest robot that turns by closed loops."""
    body = SpatialInertia.box(2.0, (0.6, 0.4, 0.2))
    builder = TreeBuilder("planar 2R").add("base", Planar([0, 0, 1]), body)
    rod = SpatialInertia.rod(0.7, 0.6, axis=0, com=(0.3, 0, 0))
    builder.add("upper", Revolute([0, 0, 1]), rod, "base", (0.3, 0, 0))
    return builder.add("lower", Revolute([0, 0, 1]), rod, "upper", (0.6, 0, 0)).build()


def quadruped() -> Tree:
    """A trunk with four legs of three hinges each, of the layout and about the size of ANYmal."""
    builder = TreeBuilder("quadruped").add("trunk", Free(), SpatialInertia.box(17.0, (0.55, 0.3, 0.2)))
    for name, x, y in (("LF", 1, 1), ("RF", 1, -1), ("LH", -1, 1), ("RH", -1, -1)):
        hip = SpatialInertia.box(1.4, (0.1, 0.1, 0.1), com=(0.06 * x, 0, 0))
        thigh = SpatialInertia.rod(1.6, 0.25, axis=2, com=(0, 0, -0.125))
        shank = SpatialInertia.rod(0.4, 0.3, axis=2, com=(0, 0, -0.15))
        builder.add(f"{name}_hip", Revolute([1, 0, 0]), hip, "trunk", (0.28 * x, 0.12 * y, 0))
        builder.add(f"{name}_thigh", Revolute([0, 1, 0]), thigh, f"{name}_hip", (0.06 * x, 0.1 * y, 0))
        builder.add(f"{name}_shank", Revolute([0, 1, 0]), shank, f"{name}_thigh", (0, 0, -0.25))
    return builder.build()


def arm_on_a_base(n: int, seed: int = 0) -> Tree:
    """n hinges in a row on a free base."""
    rng = np.random.default_rng(seed)
    builder, parent = TreeBuilder(f"arm of {n}").add("base", Free(), random_inertia(rng)), "base"
    for k in range(1, n + 1):
        axis = rng.normal(size=3)
        builder.add(f"link{k}", Revolute(axis), random_inertia(rng), parent, random_pose(rng))
        parent = f"link{k}"
    return builder.build()


class Floating:
    """A robot in SE(3) x R^n or SE(2) x R^n at a state, by the thesis' definitions.

    Poses H_bj of the links are the only input from the library's kinematics; J_j by (2.23), M by (2.51), and
    derivatives by the joints are those of their graphs. Stacks over the links: A (N, k, k), J (N, k, n),
    Lam (N, k, k).
    """

    def __init__(self, tree: Tree, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.tree, self.rng = tree, rng
        self.base = floating_base(tree)
        self.space = isinstance(self.base.joint.group, Free)
        self.group = SE3 if self.space else SE2
        self.k = self.group.dim
        self.q, self.v = np.asarray(tree.group.random(rng), float), rng.normal(size=tree.nv)
        self.a = rng.normal(size=tree.nv)
        self.start = self.base.coordinates.stop
        self.x, self.n = self.q[self.start :], tree.nv - self.k
        self.nu, self.rates = self.v[: self.k], self.v[self.k :]

    # -- functions of the joints, for traces ---------------------------------------------------------------

    def _planar(self, T: Array) -> Array:
        return T if self.space else T[..., [0, 1, 3], :][..., [0, 1, 3]]

    @cached_property
    def poses(self) -> Any:
        """H_bj of all links, (N, s, s), function of the joints."""
        home = self.base.joint.group.neutral()
        poses = dynamics.body_poses
        return trace(lambda x: self._planar(poses(self.tree, np.concatenate([home, x]))), {"x": self.n})

    @cached_property
    def adjoints(self) -> Any:
        """A_jb."""
        g = self.group
        return trace(lambda x: np.stack([g.Ad(g.inverse(H)) for H in self.poses(x)]), {"x": self.n})

    @cached_property
    def jacobians(self) -> Any:
        """J_j by (2.23): its columns are vee(H_bj^-1 dH_bj/dq_i)."""
        g, moved = self.group, jacobian(self.poses, "x")

        def columns(x: Array) -> Array:
            return np.stack([of_link(H, dH) for H, dH in zip(self.poses(x), moved(x), strict=True)])

        def of_link(H: Array, dH: Array) -> Array:
            return np.stack([g.vee(g.inverse(H) @ dH[..., i]) for i in range(self.n)], axis=1)

        return trace(columns, {"x": self.n})

    @cached_property
    def Lam(self) -> Array:
        inertias = [body.inertia.matrix().astype(float) for body in self.tree.bodies]
        return np.array(inertias if self.space else [I[2:5, 2:5] for I in inertias])

    @cached_property
    def mass(self) -> Any:
        """M by (2.50)."""

        def matrix(x: Array) -> Array:
            F = np.concatenate([self.adjoints(x), self.jacobians(x)], axis=2)
            return sum(f.T @ L @ f for f, L in zip(F, self.Lam, strict=True))

        return trace(matrix, {"x": self.n})

    def momentum(self, q: Array, v: Array) -> Array:
        """M v, the base's first."""
        return self.mass(q[self.start :]) @ v

    # -- at the state --------------------------------------------------------------------------------------

    A = cached_property(lambda self: np.asarray(self.adjoints(self.x), float))
    J = cached_property(lambda self: np.asarray(self.jacobians(self.x), float))
    # dA_jb/dq_i, (N, k, k, n).
    dA = cached_property(lambda self: np.asarray(jacobian(self.adjoints, "x")(self.x), float))
    # dJ_j/dq_i, (N, k, n, n).
    dJ = cached_property(lambda self: np.asarray(jacobian(self.jacobians, "x")(self.x), float))
    A_rate = cached_property(lambda self: np.asarray(jvp(self.adjoints, "x")(self.x, self.rates), float))

    @cached_property
    def A_inverse_rate(self) -> Array:
        """d/dt of A_jb^-1 = A_bj."""
        return self.along(lambda q, v: np.stack([self.group.Ad(H) for H in self.poses(q[self.start :])]))

    J_rate = cached_property(lambda self: np.asarray(jvp(self.jacobians, "x")(self.x, self.rates), float))
    # (3.47) by columns: (dA_jb/dq_i) nu_b, (N, k, n).
    A_q = cached_property(lambda self: np.einsum("jabi,b->jai", self.dA, self.nu))
    # (3.47) by columns: (dJ_j/dq_i) q'.
    J_q = cached_property(lambda self: np.einsum("jabi,b->jai", self.dJ, self.rates))
    M = cached_property(lambda self: np.asarray(self.mass(self.x), float))
    # dM/dq_i, (nv, nv, n).
    dM = cached_property(lambda self: np.asarray(jacobian(self.mass, "x")(self.x), float))
    # dT/dq by the joints.
    slope = cached_property(lambda self: np.einsum("abi,a,b->i", self.dM, self.v, self.v) / 2)
    M_rate = cached_property(lambda self: np.asarray(jvp(self.mass, "x")(self.x, self.rates), float))

    def blocks(self, X: Array) -> tuple[Array, Array, Array, Array]:
        k = self.k
        return X[:k, :k], X[:k, k:], X[k:, :k], X[k:, k:]

    @cached_property
    def gradients(self) -> tuple[Array, Array, Array]:
        """M_b,q, M_bq,q and M_q,q of (3.37)."""
        bb, bq, _, qq = (np.moveaxis(x, -1, 0) for x in self.blocks(self.dM))
        return self.nu @ bb, self.nu @ bq, self.rates @ qq

    @cached_property
    def m(self) -> Array:
        bb, bq, _, _ = self.blocks(self.M)
        return np.linalg.solve(bb, bq)

    link_twists = cached_property(lambda self: self.A @ self.nu + self.J @ self.rates)
    # Little adjoints of the links' twists.
    a_j = cached_property(lambda self: np.array([self.group.ad(u) for u in self.link_twists]))
    # Little adjoints of nu_bj = J_j q'.
    a_bj = cached_property(lambda self: np.array([self.group.ad(u) for u in self.J @ self.rates]))
    # Little adjoints of A_jb nu_b.
    a_A = cached_property(lambda self: np.array([self.group.ad(u) for u in self.A @ self.nu]))
    a_b = cached_property(lambda self: np.asarray(self.group.ad(self.nu), float))

    def sum(self, *factors: Array) -> Array:
        """The product of stacks, summed over the links."""
        product = factors[0]
        for factor in factors[1:]:
            product = product @ factor
        return product.sum(axis=0)

    @cached_property
    def hamel(self) -> Array:
        """C of (3.39)."""
        bb, bq, _, _ = self.blocks(self.M)
        rbb, rbq, rqb, rqq = self.blocks(self.M_rate)
        b, bq_q, q = self.gradients
        return np.block([[rbb - self.a_b.T @ bb, rbq - self.a_b.T @ bq], [rqb - b / 2, rqq - bq_q - q / 2]])

    @cached_property
    def passive(self) -> Array:
        """C of (3.41)."""
        F, F_rate = np.concatenate([self.A, self.J], axis=2), np.concatenate([self.A_rate, self.J_rate], 2)
        Psi = self.Lam @ self.a_j - turned(self.a_j) @ self.Lam
        return self.sum(turned(F), Psi, F) + self.sum(turned(F), self.Lam, F_rate)

    principle = cached_property(lambda self: varied(self))  # Hamilton's principle on a path that is no motion

    @cached_property
    def bias(self) -> Array:
        """What C V has to be: recursive Newton-Euler without acceleration and weight."""
        return np.asarray(dynamics.bias_forces(self.tree, self.q, self.v, gravity=(0, 0, 0)), float)

    def along(self, function: Callable[[Array, Array], Any]) -> Array:
        """d/dt of function(q, v) along the motion."""
        return np.asarray(along(self.tree, self.q, self.v, self.a, function), float)

    # -- the base and the centre of mass, functions of q ----------------------------------------------------

    def base_pose(self, q: Array) -> Array:
        return self.group.element(q[: self.start])

    def parts(self, H: Array) -> tuple[Array, Array]:
        d = self.group.n - 1
        return H[:d, :d], H[:d, d]

    def center(self, x: Array) -> Array:
        """o_bc by (3.64), with the centres of mass of the bodies."""
        total: Any = 0
        for H, body in zip(self.poses(x), self.tree.bodies, strict=True):
            rotation, o = self.parts(H)
            total = total + body.inertia.mass * (o + rotation @ body.inertia.com[: len(o)])
        return total / self.tree.mass

    def H_cb(self, q: Array) -> Array:
        """[R_ib, o_ib - o_ic; 0, 1], before section 3.2.4."""
        rotation, _ = self.parts(self.base_pose(q))
        shift = -(rotation @ self.center(q[self.start :]))
        d = len(shift)
        return np.concatenate([np.concatenate([rotation, shift[:, None]], axis=1), np.array([[0] * d + [1]])])

    @cached_property
    def H_ic(self) -> Array:
        """The frame at the centre of mass, along the axes of i."""
        H = np.eye(self.group.n)
        H[:-1, -1] = np.asarray(self.base_pose(self.q)[:-1] @ np.append(self.center(self.x), 1), float)
        return H

    A_cb = cached_property(lambda self: np.asarray(self.group.Ad(self.H_cb(self.q)), float))
    A_cb_rate = cached_property(lambda self: self.along(lambda q, v: self.group.Ad(self.H_cb(q))))
    h_b = cached_property(lambda self: self.M[: self.k] @ self.v)  # (3.65)

    # -- the transforms of section 3.3 ----------------------------------------------------------------------

    def chosen(self, size: int, seed: int) -> tuple[Array, Array]:
        """A regular matrix that depends on the joints, and its rate."""
        rng = np.random.default_rng(seed)
        X, Y, Z = np.eye(size) * 2, 0.4 * rng.normal(size=(size, size)), 0.4 * rng.normal(size=(size, size))
        T = X + np.sin(self.x[0]) * Y + np.cos(self.x[-1]) * Z
        return T, np.cos(self.x[0]) * self.rates[0] * Y - np.sin(self.x[-1]) * self.rates[-1] * Z

    def transform(self, T_x: Array, T_x_rate: Array, T_y: Array, T_y_rate: Array) -> tuple[Array, Array]:
        """T of (3.80), and its rate by (A.3)."""
        bb, bq, _, _ = self.blocks(self.M)
        rbb, rbq, _, _ = self.blocks(self.M_rate)
        inverse = np.linalg.inv(bb)
        moved = T_x_rate @ self.m + T_x @ (-inverse @ rbb @ inverse @ bq + inverse @ rbq)
        zero = np.zeros((self.n, self.k))
        return np.block([[T_x, T_x @ self.m], [zero, T_y]]), np.block([[T_x_rate, moved], [zero, T_y_rate]])


def transformed(T: Array, T_rate: Array, M: Array, C: Array) -> tuple[Array, Array]:
    """(3.77)."""
    X = np.linalg.inv(T)
    M_y = X.T @ M @ X
    return M_y, X.T @ C @ X - M_y @ T_rate @ X


def linear_first(A: Array) -> Array:
    """A matrix or vector of SE(3) in the thesis' order, (v, omega)."""
    order = [3, 4, 5, 0, 1, 2]
    return A[np.ix_(order, order)] if np.ndim(A) == 2 else A[order]


@cache
def robots(seed: int = 0) -> list[Floating]:
    """The two robots of the tables."""
    rng = np.random.default_rng(seed)
    return [Floating(space_tree(rng), seed), Floating(plane_tree(rng), seed)]


# -- frames, variations, transforms -----------------------------------------------------------------------


class Frames(NamedTuple):
    """Frames x, y, z that move, and the rate of functions of H_xy, H_yz."""

    H_xy: Array
    H_yz: Array
    nu_xy: Array
    nu_yz: Array
    rate: Callable[[Callable[[Array, Array], Any]], Array]


def frames(r: Floating) -> Frames:
    g, rng = r.group, np.random.default_rng(1)
    H_xy, H_yz = (np.asarray(g.element(g.random(rng)), float) for _ in range(2))
    nu_xy, nu_yz = rng.normal(size=(2, g.dim))

    def rate(function: Callable[[Array, Array], Any]) -> Array:
        moving = trace(lambda s: function(H_xy @ g.exp(s * nu_xy), H_yz @ g.exp(s * nu_yz)), {"s": ()})
        return np.asarray(jvp(moving, "s")(0.0, 1.0), float)

    return Frames(H_xy, H_yz, nu_xy, nu_yz, rate)


class Varied(NamedTuple):
    """A path that is no motion, and a variation of it that vanishes at its ends."""

    change: float  # dA/d epsilon of the action by its graph
    hamel: float  # minus the integral of the equations of motion times the variation
    terms: float
    ends: float  # the largest variation of the velocity at an end, relative to the velocity
    velocity: float  # (3.24), (3.25): the variation of the base's velocity is Gamma' + ad Gamma
    printed: float  # with R_ib before the rate, as (3.24) prints


def varied(r: Floating) -> Varied:
    """Hamilton's principle (3.1)-(3.5), (3.20)-(3.32) along an arbitrary path, by quadrature."""
    g, rng = r.group, np.random.default_rng(3)
    u1, u2, w1, w2 = rng.normal(size=(4, r.k))
    x1, x2, y1, y2 = rng.normal(size=(4, r.n))
    home = r.q[: r.start]

    def variation(t: Any) -> tuple[Array, Array]:
        return t * (1 - t) * (w1 + t * w2), t * (1 - t) * (y1 + t * y2)

    def configuration(t: Any, e: Any) -> Array:
        base = g.integrate(g.integrate(home, t * u1), t * t * u2)
        by_base, by_joints = variation(t)
        return np.concatenate([g.integrate(base, e * by_base), r.x + t * x1 + t * t * x2 + e * by_joints])

    inputs: dict[str, Any] = {"t": (), "e": ()}
    element = trace(lambda t, e: g.element(configuration(t, e)[: r.start]), inputs)
    joints = trace(lambda t, e: configuration(t, e)[r.start :], inputs)
    moved, bent = jvp(element, "t"), jvp(joints, "t")

    def velocity(t: Any, e: Any) -> Array:
        nu = g.vee(g.inverse(element(t, e)) @ moved(t, e, 1.0))
        return np.concatenate([nu, bent(t, e, 1.0)])

    def lagrangian(t: Any, e: Any) -> Any:
        V, potential = velocity(t, e), dynamics.potential_energy(r.tree, configuration(t, e), WEIGHT)
        return V @ r.mass(joints(t, e)) @ V / 2 - potential

    V = trace(velocity, inputs)
    by_e, by_t = jvp(trace(lagrangian, inputs), "e"), jvp(V, "t")
    change, hamel, terms = 0.0, 0.0, 0.0
    nodes, weights = np.polynomial.legendre.leggauss(24)
    for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        q, v, a = (np.asarray(x, float) for x in (configuration(t, 0.0), V(t, 0.0), by_t(t, 0.0, 1.0)))
        tau = dynamics.inverse_dynamics(r.tree, q, v, a, gravity=WEIGHT)
        change += weight * float(by_e(t, 0.0, 1.0))
        power = float(tau @ np.concatenate(variation(t)))
        hamel, terms = hamel - weight * power, terms + weight * abs(power)
    of_velocity = jvp(V, "e")
    ends = max(apart(of_velocity(t, 0.0, 1.0) + V(t, 0.0), V(t, 0.0)) for t in (0.0, 1.0))
    t = 0.3
    rate = (1 - 2 * t) * (w1 + t * w2) + t * (1 - t) * w2
    found, nu = np.asarray(of_velocity(t, 0.0, 1.0), float)[: r.k], np.asarray(V(t, 0.0), float)[: r.k]
    expected = rate + g.ad(nu) @ variation(t)[0]
    turn = r.parts(np.asarray(element(t, 0.0), float))[0]
    rotated = expected.copy()
    if r.space:
        rotated[:3] += turn @ rate[:3] - rate[:3]
    return Varied(change, hamel, terms, ends, apart(expected, found), apart(rotated, found))


class Mapped(NamedTuple):
    """A transform (3.80) of a robot and what it makes of M, of Hamel's C and of the passive one."""

    T_x: Array
    T_x_rate: Array
    T_y: Array
    T_y_rate: Array
    T: Array
    T_rate: Array
    M: Array
    hamel: Array
    passive: Array


def mapped(r: Floating, kind: str = "any") -> Mapped:
    """`kind`: any, "centroidal" (A_cb), "momentum" (A_cb^-T Mbb), or "inertial" (A_ib^-T Mbb)."""
    bb, rbb = r.M[: r.k, : r.k], r.M_rate[: r.k, : r.k]
    if kind == "any":
        T_x, T_x_rate = r.chosen(r.k, 11)
    elif kind == "centroidal":
        T_x, T_x_rate = r.A_cb, r.A_cb_rate
    else:
        if kind == "momentum":
            A, rate = r.A_cb, r.A_cb_rate
        else:
            A = np.asarray(r.group.Ad(r.base_pose(r.q)), float)
            rate = A @ r.a_b
        X = np.linalg.inv(A).T
        T_x, T_x_rate = X @ bb, X @ rbb - X @ rate.T @ X @ bb
    T_y, T_y_rate = r.chosen(r.n, 12)
    T, T_rate = r.transform(T_x, T_x_rate, T_y, T_y_rate)
    (M, hamel), (_, passive) = (transformed(T, T_rate, r.M, C) for C in (r.hamel, r.passive))
    return Mapped(T_x, T_x_rate, T_y, T_y_rate, T, T_rate, M, hamel, passive)


# -- internal and external velocity, with any number of joints -----------------------------------------------


class Split(NamedTuple):
    """(3.87)-(3.96) for the last body of an arm with n hinges on a free base, with J# of Moore and Penrose.

    left, right    how far I# I and I I# of (3.96) are from 1
    diagonal       the coupling blocks of M_I, which (3.93) says are zero
    printed_left, printed_right  the same as the first two for (3.88), with C not zero
    inertial       how far (3.91) is off, with a B that couples, and a rate of D
    bracket        how far the first line of (3.94) is off, with the passive C
    equations      how far M_I nu' + C_I nu = I#^T F of (3.89) is off
    """

    n: int
    left: float
    right: float
    diagonal: float
    printed_left: float
    printed_right: float
    inertial: float
    bracket: float
    equations: float


@cache
def split(n: int) -> Split:
    """The decomposition of section 3.3.4 with n joints."""
    r = Floating(arm_on_a_base(n), seed=n)
    rng, k, link = np.random.default_rng(n), 6, n
    inv, pinv = np.linalg.inv, np.linalg.pinv
    bb, bq, _, _ = r.blocks(r.M)
    rbb, rbq, _, _ = r.blocks(r.M_rate)

    def internal(q: Array, v: Array) -> Array:
        x = q[r.start :]
        M = r.mass(x)
        return r.jacobians(x)[link] - r.adjoints(x)[link] @ solve(M[:k, :k], M[:k, k:])

    D, D_rate = np.asarray(r.J[link] - r.A[link] @ r.m, float), r.along(internal)
    m_rate = np.linalg.solve(bb, rbq - rbb @ r.m)
    A, A_rate, E = r.A_cb, r.A_cb_rate, pinv(D)
    zero, back = np.zeros((6, k)), np.zeros((n, k))
    whole = np.block([[A, A @ r.m], [zero, D]])
    rate = np.block([[A_rate, A_rate @ r.m + A @ m_rate], [zero, D_rate]])
    inverse = np.block([[inv(A), -r.m @ E], [back, E]])
    M_I = inverse.T @ r.M @ inverse
    C_I = inverse.T @ r.passive @ inverse - M_I @ rate @ inverse
    nu, nu_rate = whole @ r.v, whole @ r.a + rate @ r.v
    F = inverse.T @ (r.M @ r.a + r.bias)

    C, B = rng.normal(size=(6, k)), rng.normal(size=(k, n))
    any_whole = np.block([[A, B], [C, D]])
    Schur, other = inv(A - B @ E @ C), pinv(D - C @ inv(A) @ B)
    any_inverse = np.block([[Schur, -inv(A) @ B @ other], [-E @ C @ Schur, other]])

    coupled = np.block([[inv(A), -inv(A) @ B @ E], [back, E]])
    M_c = coupled.T @ r.M @ coupled
    direct = M_c[:k, k:] @ (D @ r.a[k:] + D_rate @ r.rates)
    printed = inv(A).T @ (bq - bb @ inv(A) @ B) @ (r.a[k:] + E @ D_rate @ r.rates)
    P_b, P_bq, _, _ = r.blocks(r.passive)
    bracket = inv(A).T @ (P_bq + (rbb - P_b) @ r.m - rbq) @ r.rates
    one, both = np.eye(k + n), np.eye(k + 6)
    off = [apart(inverse @ whole, one), apart(whole @ inverse, both), left(M_I[:k, k:], M_I)]
    off += [apart(any_inverse @ any_whole, one), apart(any_whole @ any_inverse, both), apart(printed, direct)]
    off += [apart(bracket, C_I[:k, k:] @ nu[k:]), left(M_I @ nu_rate + C_I @ nu - F, M_I @ nu_rate, F)]
    return Split(n, *off)


def hopper_angle(q: float, unwrapped: bool = True) -> float:
    """theta_bc of the revolute hopper, by the thesis' formula; its arc tangent counts turns."""
    l, masses = 0.12, np.array([0.835, 0.122, 0.050])
    m = masses.sum()
    a = np.array([0, l / 2, l]) - (masses[1] * l / 2 + masses[2] * l) / m
    b = np.array([0, 0, l / 2]) - masses[2] * l / 2 / m
    P, Q, Rr = masses @ a**2, masses @ (a * b), masses @ b**2
    s, t = P + Rr, 2 * Q
    turns = np.round(q / (2 * np.pi)) if unwrapped else 0.0
    angle = np.arctan(np.sqrt((s - t) / (s + t)) * np.tan(q / 2)) + np.pi * turns
    return float(q / 2 + (Rr - P) / np.sqrt(s**2 - t**2) * angle)
