"""Robots of the study of Feurstein (2021) in motion: propositions, free flights, momenta, closed loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from liebody import Robot, dynamics, models, simulate
from liebody.bodies import Tree
from liebody.compiler import Kernel, trace
from liebody.groups import Product, R
from liebody.integrators import solve_ivp
from liebody.scalars.linear import solve

from ..compare import Array, along, left
from .robots import EXACT, hopper, many_joints_tree, planar_2r, plane_tree, quadruped, space_tree


class Propositions(NamedTuple):
    """What the library's algorithms give for the propositions of chapter 3, relative errors.

    conserved     Prop. 3.2.1: dh_c/dt less the wrench from outside
    diagonal      (3.79)
    decoupled     Prop. 3.3.1: Cxy of Hamel's form, T_x = A_cb
    passive       Prop. 3.3.2: Cyx + Cxy^T, and dM/dt - C - C^T, of Feurstein's
    invariant     (3.85): C_x v_x + C_xy v_y for the momentum, both forms
    velocity_map  the same for (3.95), relative to its two terms: not zero
    difference    of that from (dMx/dt) v_x
    """

    conserved: float
    diagonal: float
    decoupled: float
    passive: float
    invariant: float
    velocity_map: float
    difference: float

    @property
    def confirmed(self) -> bool:
        return max(*self[:5], self.difference) < EXACT < self.velocity_map


def propositions(tree: Tree, seed: int = 0) -> Propositions:
    """Chapter 3 on a floating robot with joints of any kind, at a random state."""
    rng = np.random.default_rng(seed)
    q, v, a = tree.group.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    b, j = dynamics.base_dofs(tree)
    M, M_rate = dynamics.mass_matrix(tree, q), dynamics.mass_matrix_derivative(tree, q, v)
    F_b = dynamics.inverse_dynamics(tree, q, v, a, gravity=(0, 0, 0))[b]
    maps = {x: dynamics.decoupling_transform(tree, q, x) for x in ("centroidal", "momentum")}
    X = np.linalg.inv(maps["centroidal"][b, b])
    T_rate = dynamics.decoupling_transform_rate(tree, q, v, "momentum")
    h_rate = (maps["momentum"] @ a + T_rate @ v)[b]
    forms = ("hamel", "feurstein")
    central = {form: dynamics.decoupled_dynamics(tree, q, v, "centroidal", form=form) for form in forms}
    e = maps["centroidal"] @ v
    p = maps["momentum"] @ v
    invariance, sums = [], []
    for form in forms:
        parts = dynamics.decoupled_dynamics(tree, q, v, "momentum", form=form)
        terms = np.abs(parts.Cx) @ np.abs(p[b]) + np.abs(parts.Cxy) @ np.abs(p[j])
        invariance.append(left(parts.Cx @ p[b] + parts.Cxy @ p[j], terms))
        parts = central[form]
        sums.append((parts.Cx @ e[b] + parts.Cxy @ e[j], np.abs(parts.Cx) @ np.abs(e[b])))

    rate = np.asarray(along(tree, q, v, 0 * v, lambda q, v: _locked(tree, q)), float)
    moved = rate @ e[b]
    both = central["feurstein"]
    Mx_rate = both.Cx + both.Cx.T
    T = maps["centroidal"]
    T_rate = dynamics.decoupling_transform_rate(tree, q, v, "centroidal")
    W, C_w = dynamics.transform_equations(T, T_rate, M, dynamics.coriolis_matrix(tree, q, v, "feurstein"))
    return Propositions(
        left(h_rate - X.T @ F_b, X.T @ np.abs(F_b), h_rate),
        left(W[b, j], W),
        left(central["hamel"].Cxy, X.T @ M_rate[b, j]),
        max(left(C_w[j, b] + C_w[b, j].T, C_w), left(Mx_rate - rate, rate, both.Cx)),
        max(invariance),
        max(left(total, terms) for total, terms in sums),
        max(left(total - moved, terms) for total, terms in sums),
    )


def _locked(tree: Tree, q: Array) -> Array:
    """Mbb about the centre of mass in the inertial axes, diag(I_c, m 1) in the base's algebra."""
    S = dynamics.floating_base(tree).joint.S
    return S.T @ dynamics.centroidal_inertia(tree, q) @ S


def proposition_robots() -> list[Tree]:
    """Random ones in space and in the plane, with ball and planar joints, the hopper, and larger robots."""
    rng = np.random.default_rng(7)
    made = space_tree(rng), plane_tree(rng), many_joints_tree(rng)
    return [*made, hopper(), planar_2r(), quadruped(), models.space_robot().tree]


class Flight(NamedTuple):
    """A free flight by the plain equations and by the decoupled ones.

    t, q, v      of the plain ones;  q_2, v_2  of the decoupled ones, in v
    momentum     v_x of the momentum map, velocity that of A_cb, both (times, k)
    invariance   |C_x v_x + C_xy v_y| of the momentum map over the size of its terms, at each time
    forces       the same sum for A_cb, (times, k), and (dM_x/dt) v_x beside it
    """

    t: Array
    q: Array
    v: Array
    q_2: Array
    v_2: Array
    momentum: Array
    velocity: Array
    invariance: Array
    forces: Array
    moved: Array

    @property
    def difference(self) -> float:
        """Of the decoupled motion from the plain one."""
        return float(max(np.abs(self.q - self.q_2).max(), np.abs(self.v - self.v_2).max()))

    @property
    def velocity_varies(self) -> bool:
        """Whether the average velocity changes, at the rate that (dM_x/dt) v_x says."""
        changes = np.ptp(self.velocity[:, :3], axis=0).max() > 0.01
        return bool(left(self.forces - self.moved, self.forces) < 1e-10 and changes)


def flight(tree: Tree, seed: int = 4, t_end: float = 1.0, points: int = 41) -> Flight:
    """Without forces, both to a tolerance of 1e-12 by an integrator of order eight."""
    rng = np.random.default_rng(seed)
    q0, v0 = tree.group.random(rng), rng.normal(size=tree.nv)
    group, n = Product(*tree.group.factors, R(tree.nv)), tree.nq
    b, j = dynamics.base_dofs(tree)
    x, y = "momentum", "normalized"
    still, zero = (0, 0, 0), np.zeros(tree.nv, int)

    def plain(s: Array) -> Array:
        q, v = s[:n], s[n:]
        return np.concatenate([v, dynamics.forward_dynamics(tree, q, v, zero, still)])

    def decoupled(s: Array) -> Array:
        q, w = s[:n], s[n:]
        v = dynamics.velocity_from_decoupled(tree, q, w, x, y)
        e = dynamics.decoupled_dynamics(tree, q, v, x, y, gravity=still)
        external = solve(e.Mx, -(e.Cx @ w[b] + e.Cxy @ w[j] + e.gx))
        return np.concatenate([v, external, solve(e.My, -(e.Cyx @ w[b] + e.Cy @ w[j] + e.gy))])

    t = np.linspace(0, t_end, points)
    runs = []
    for field, start in ((plain, v0), (decoupled, dynamics.decoupled_velocity(tree, q0, v0, x, y))):
        rate = Kernel(trace(field, {"s": n + tree.nv}))
        s0 = np.concatenate([q0, start])
        found = solve_ivp(
            lambda t, s, f=rate: f(s), (0.0, t_end), s0, group, "rkmk8", t_eval=t, rtol=1e-12, atol=1e-12
        )
        runs.append(np.asarray(found.q, float))
    q, v, q_2 = runs[0][:, :n], runs[0][:, n:], runs[1][:, :n]
    pairs, back = list(zip(q, v, strict=True)), dynamics.velocity_from_decoupled
    v_2 = np.array([back(tree, a, w, x, y) for a, w in zip(q_2, runs[1][:, n:], strict=True)])
    kinds = "momentum", "centroidal"
    parts = [[dynamics.decoupled_dynamics(tree, *state, kind) for state in pairs] for kind in kinds]
    momentum, velocity = (
        np.array([dynamics.decoupled_velocity(tree, *state, kind) for state in pairs]) for kind in kinds
    )
    invariance = [
        left(p.Cx @ w[b] + p.Cxy @ w[j], np.abs(p.Cx) @ np.abs(w[b]))
        for p, w in zip(parts[0], momentum, strict=True)
    ]
    forces = [p.Cx @ w[b] + p.Cxy @ w[j] for p, w in zip(parts[1], velocity, strict=True)]
    rates = [along(tree, a, u, 0 * u, lambda q, v: _locked(tree, q)) for a, u in pairs]
    moved = [np.asarray(rate, float) @ w[b] for rate, w in zip(rates, velocity, strict=True)]
    of_time = (np.array(x) for x in (invariance, forces, moved))
    return Flight(t, q, v, q_2, v_2, momentum[:, b], velocity[:, b], *of_time)


class Drift(NamedTuple):
    """Change of momentum over a flight, relative, by the step: of (l_i, p) and of (l_c, p)."""

    name: str
    steps: Array
    inertial: Array
    central: Array

    @property
    def slope(self) -> float:
        """Order by which the inertial one falls with the step."""
        return float(np.polyfit(np.log(self.steps), np.log(self.inertial), 1)[0])


def drifts(t_end: float = 0.64) -> list[Drift]:
    """The quadruped by RK4; the satellite by RK4 and by the variational method."""
    found = []
    legs, satellite = Robot(quadruped(), gravity=(0, 0, 0)), models.space_robot()
    for robot, method, name in (
        (legs, "rkmk4", "quadruped, RK4"),
        (satellite, "rkmk4", "satellite with arm, RK4"),
        (satellite, "variational", "satellite with arm, variational"),
    ):
        rng = np.random.default_rng(2)
        v = np.concatenate([[0.3, -0.4, 0.5, 0.1, 0.2, -0.1], 2 * rng.uniform(-1, 1, robot.nv - 6)])
        steps, rows = np.array([0.016, 0.008, 0.004]), []
        for dt in steps:
            run = simulate(
                robot, robot.neutral(), v, t_end=t_end, dt=float(dt), method=method, joints={"armature"},
                record_every=t_end, progress=False,
            )  # fmt: skip
            h, c = (
                [f(run.q[k], run.v[k]) for k in (0, -1)] for f in (robot.momentum, robot.centroidal_momentum)
            )
            rows.append([left(x[1] - x[0], x[0]) for x in (h, c)])
        found.append(Drift(name, steps, *np.array(rows).T))
    return found


class Loops(NamedTuple):
    """Path dependence of the planar 2R arm.

    at, curvature        the angular curvature B_12 on a grid of both angles
    straight, corner     the base's angle along two paths from 0 to `end`, by s from 0 to 1
    radii, turned, area  of circles about `end`: the angle gained, and B times the area
    """

    at: Array
    curvature: Array
    s: Array
    end: Array
    straight: Array
    corner: Array
    radii: Array
    turned: Array
    area: Array

    @property
    def gap(self) -> float:
        """By which the base's angles at the ends of both paths differ [degrees]."""
        return abs(float(np.degrees(self.corner[-1] - self.straight[-1])))

    @property
    def by_holonomy(self) -> bool:
        """Whether that is the holonomy of the triangle between the paths."""
        triangle = [[0, 0], [self.end[0], 0], list(self.end), [0, 0]]
        turn = dynamics.holonomy(planar_2r(), triangle, 1e-11).turn[2]
        return self.gap > 0.1 and bool(abs(self.corner[-1] - self.straight[-1] - turn) < 1e-9)

    @property
    def off_area(self) -> float:
        """How far the smallest loop is from curvature times area [%]."""
        return 100 * abs(float(self.turned[0] / self.area[0]) - 1)


def loops() -> Loops:
    """Holonomy and curvature of `planar_2r`."""
    tree = planar_2r()
    robot = Robot(tree)
    at = np.linspace(-np.pi, np.pi, 41)
    grid = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)
    B = robot.connection_curvature(np.hstack([np.zeros((len(grid), 3)), grid]))[:, 0, 0, 1]
    end, s = np.array([1.2, 1.5]), np.linspace(0, 1, 81)
    nodes, weights = np.polynomial.legendre.leggauss(4)

    def angles(points: Array) -> Array:
        """theta_b = -int m_omega dq along a polygon, cell by cell."""
        rates = np.diff(points, axis=0)
        inner = points[:-1, None] + (nodes[:, None] + 1) / 2 * rates[:, None]
        q = np.concatenate([np.zeros((*inner.shape[:2], 3)), inner], axis=-1)
        m = robot.mechanical_connection(q.reshape(-1, 5))[:, 0].reshape(*inner.shape)
        cells = np.einsum("cgi,ci,g->c", m, rates, weights / 2)
        return -np.concatenate([[0], np.cumsum(cells)])

    corner = (
        np.where(s[:, None] < 0.5, np.stack([2 * s, 0 * s], 1), np.stack([1 + 0 * s, 2 * s - 1], 1)) * end
    )
    radii = np.geomspace(0.02, 1.0, 4)

    def circle(radius: float) -> Callable[[float], tuple[Array, Array]]:
        def path(s: float) -> tuple[Array, Array]:
            t = 2 * np.pi * s
            around = np.array([np.cos(t), np.sin(t)])
            return end + radius * around, 2 * np.pi * radius * np.array([-around[1], around[0]])

        return path

    gained = np.array([dynamics.holonomy(tree, circle(r), 1e-9).turn[2] for r in radii])
    here = float(dynamics.connection_curvature(tree, np.concatenate([np.zeros(3), end]))[0, 0, 1])
    base, grid_B = (angles(s[:, None] * end), angles(corner)), B.reshape(len(at), len(at))
    return Loops(at, grid_B, s, end, *base, radii, gained, np.pi * radii**2 * here)
