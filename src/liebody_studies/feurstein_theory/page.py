"""Feurstein (2021), chapters 2 and 3 and appendix A, recomputed: floating bases, momentum, decoupling.

Each equation is evaluated as it is printed, with dense matrices, on a random robot in SE(3) and one in SE(2),
and compared with what does not come from it: derivatives of graphs, recursive Newton-Euler, Hamilton's
principle by quadrature. What is misprinted or wrong is shown with its error as printed and as corrected.

The thesis writes velocities linear first, (v, omega). Here they are angular first; where it prints blocks,
they are evaluated in its order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sympy

from liebody import Robot, dynamics, equations, models, simulate
from liebody.bodies import Tree
from liebody.codegen import Kernel, trace
from liebody.dynamics import floating_base
from liebody.groups import Product, R
from liebody.integrators import solve_ivp
from liebody.linear import solve

from ..ploen.page import along
from ..report import Report
from .equations import checks, corrections
from .robots import (
    EXACT,
    Floating,
    arm_on_a_base,
    hopper,
    hopper_angle,
    left,
    many_joints_tree,
    planar_2r,
    plane_tree,
    quadruped,
    robots,
    space_tree,
    split,
)
from .symbols import symbolic_checks

Array = Any
TITLE = "Decoupled dynamics of floating bases, recomputed"
SOURCE = (
    "M. Feurstein (2021), Formulation of decoupled dynamics for efficient control of floating base robots. "
    "Master's thesis, Technical University of Munich. Chapters 2 and 3 and appendix A; numbers (n) are its "
    "equations."
)
BLUE, AMBER, GREEN, RED, GREY = "#1f5fa8", "#d9921a", "#14663a", "#b3261e", "#5b6470"


# -- propositions on robots ---------------------------------------------------------------------------------


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

    def inertia(q: Array, v: Array) -> Array:
        return dynamics.decoupled_dynamics(tree, q, v, "centroidal").Mx

    rate = np.asarray(along(tree, q, v, 0 * v, lambda q, v: _locked(tree, q)), float)
    moved = rate @ e[b]
    both = central["feurstein"]
    Mx_rate = both.Cx + both.Cx.T
    T = maps["centroidal"]
    W, C_w = dynamics.transform_equations(
        T,
        dynamics.decoupling_transform_rate(tree, q, v, "centroidal"),
        M,
        dynamics.coriolis_matrix(tree, q, v, "feurstein"),
    )
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
    S = floating_base(tree).joint.S
    return S.T @ dynamics.centroidal_inertia(tree, q) @ S


def proposition_robots() -> list[Tree]:
    """Random ones in space and in the plane, with ball and planar joints, the hopper, and larger robots."""
    rng = np.random.default_rng(7)
    return [
        space_tree(rng),
        plane_tree(rng),
        many_joints_tree(rng),
        hopper(),
        planar_2r(),
        quadruped(),
        models.space_robot().tree,
    ]


# -- motions ------------------------------------------------------------------------------------------------


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
        found = solve_ivp(
            lambda t, s, f=rate: f(s),
            (0.0, t_end),
            np.concatenate([q0, start]),
            group,
            "rkmk8",
            t_eval=t,
            rtol=1e-12,
            atol=1e-12,
        )
        runs.append(np.asarray(found.q, float))
    q, v, q_2 = runs[0][:, :n], runs[0][:, n:], runs[1][:, :n]
    v_2 = np.array(
        [dynamics.velocity_from_decoupled(tree, a, w, x, y) for a, w in zip(q_2, runs[1][:, n:], strict=True)]
    )
    parts = [
        [dynamics.decoupled_dynamics(tree, a, u, kind) for a, u in zip(q, v, strict=True)]
        for kind in ("momentum", "centroidal")
    ]
    momentum, velocity = (
        np.array([dynamics.decoupled_velocity(tree, a, u, kind) for a, u in zip(q, v, strict=True)])
        for kind in ("momentum", "centroidal")
    )
    invariance = [
        left(p.Cx @ w[b] + p.Cxy @ w[j], np.abs(p.Cx) @ np.abs(w[b]))
        for p, w in zip(parts[0], momentum, strict=True)
    ]
    forces = [p.Cx @ w[b] + p.Cxy @ w[j] for p, w in zip(parts[1], velocity, strict=True)]
    rates = [along(tree, a, u, 0 * u, lambda q, v: _locked(tree, q)) for a, u in zip(q, v, strict=True)]
    moved = [np.asarray(rate, float) @ w[b] for rate, w in zip(rates, velocity, strict=True)]
    return Flight(
        t,
        q,
        v,
        q_2,
        v_2,
        momentum[:, b],
        velocity[:, b],
        np.array(invariance),
        np.array(forces),
        np.array(moved),
    )


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
                robot,
                robot.neutral(),
                v,
                t_end=t_end,
                dt=float(dt),
                method=method,
                damping=False,
                record_every=t_end,
                progress=False,
            )
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
    return Loops(
        at,
        B.reshape(len(at), len(at)),
        s,
        end,
        angles(s[:, None] * end),
        angles(corner),
        radii,
        gained,
        np.pi * radii**2 * here,
    )


# -- the report ---------------------------------------------------------------------------------------------


def study() -> Report:
    """Recompute chapters 2 and 3 and appendix A."""
    report = Report(TITLE, SOURCE)
    report.text(
        "The thesis derives the equations of robots whose base floats, on $SE(3) \\times R^n$ and "
        "$SE(2) \\times R^n$, from Hamilton's principle, asks which momenta stay, and looks for "
        "velocities in which external and internal motion fall apart:"
    )
    report.formula(
        r"M = \left[\begin{matrix}M_{bb} & M_{bq}\\ M_{bq}^\top & M_{qq}\end{matrix}\right], \qquad "
        r"\left[\begin{matrix}v_x\\ v_y\end{matrix}\right] = \left[\begin{matrix}T_x & "
        r"T_xM_{bb}^{-1}M_{bq}\\ 0 & T_y"
        r"\end{matrix}\right]\left[\begin{matrix}\nu_b\\ \dot q\end{matrix}\right]",
        "(2.50), (3.80)",
    )
    report.text(
        "Its main results hold: the equivalence of Hamel's and the Newton-Euler equations, decoupling "
        "by any such transform, the invariance of the momentum about the centre of mass, "
        "integrability. Four statements are wrong and matter: that little adjoints of inverse motions "
        "differ by their sign (2.16), that $C_x$ vanishes as a matrix (Prop. 3.3.1), that the average "
        "velocity is invariant as the momentum is (3.95), and that the internal velocity can be "
        "inverted for any number of joints (3.88). There are many misprints; all are listed with their "
        "size.",
        "Velocities in this library are angular first, in the thesis linear first; where it prints "
        "blocks, they are taken in its order. $S$ turns by 90°, $m = M_{bb}^{-1}M_{bq}$. Its text was "
        "read from a conversion of the printed page, so that a lost dot or sign may be the "
        "conversion's. Chapter 4, on hoppers, is another study's.",
    )
    pair = robots()
    _equations(report, pair)
    _symbols(report)
    _on_robots(report)
    path = flight(arm_on_a_base(3))
    _momentum(report)
    _orientation(report)
    _decoupling(report, path)
    _internal_external(report)
    _errata(report, pair)
    return report


def _equations(report: Report, pair: list[Floating]) -> None:
    report.section("Equation by equation")
    report.text(
        "A robot in space with two branches, hinges, a slider, a screw and a cylindrical joint, and "
        "one in the plane, hinges and a slider; states and inertias random. Only the poses $H_{bj}$ of "
        "the links are taken from the library. “Off” is the largest difference relative to the size of "
        "the terms; where things are said to differ, it has to be large."
    )
    found: dict[tuple[str, str], list[Any]] = {}
    for k, r in enumerate(pair):
        for c in checks(r):
            row = found.setdefault((c.number, c.printed), [c.number, c.printed, c.against, None, None, True])
            row[3 + k], row[5] = c.off, row[5] and c.confirmed
    rows = []
    for (number, printed), row in found.items():
        rows.append([*row[:5], report.verdict(f"({number}) {printed}", "holds", row[5])])
    report.table(rows, ["eq.", "as printed", "beside", "SE(3)", "SE(2)", ""])
    report.text(
        "Empty cells: formulas of SE(3), or of SE(2), alone. Not in the table: definitions, "
        "(3.1)–(3.3), (3.10), which is (3.35), and what stands under “What to correct”."
    )


def _symbols(report: Report) -> None:
    report.section("In symbols")
    report.text(
        "SymPy, for every pose, twist, mass, length and state: sines and cosines are variables with "
        "$s^2 + c^2 = 1$, and an expression is zero if nothing is left of its polynomial. “Not zero” "
        "is what the statements as printed leave."
    )
    rows = []
    for c in symbolic_checks():
        verdict = report.verdict(
            f"{c.number}, {c.claim}", "holds" if c.wanted else "wrong", c.zero == c.wanted
        )
        rows.append([c.number, c.claim, "zero" if c.zero else "not zero", verdict])
    report.table(rows, ["", "statement", "", ""])


def _on_robots(report: Report) -> None:
    report.section("The propositions on robots")
    report.text(
        r"The library's own algorithms, with joints of any kind: $\dot h_c$ less the outer wrench "
        "(Prop. 3.2.1), the coupling block of M (3.79), Hamel's $C_{xy}$ (Prop. 3.3.1), passivity of "
        r"each part and $C_{yx} = -C_{xy}^\top$ (Prop. 3.3.2), $C_xv_x + C_{xy}v_y$ of the momentum "
        "map (3.85), all zero; the same sum of the velocity map (3.95), not zero, and its difference "
        r"from $\dot M_xv_x$, zero."
    )
    rows = []
    for tree in proposition_robots():
        p = propositions(tree)
        verdict = report.verdict(f"propositions 3.2.1, 3.3.1, 3.3.2 on {tree.name}", "holds", p.confirmed)
        rows.append([tree.name, tree.nv, *p, verdict])
    header = ["robot", "velocities", "3.2.1", "(3.79)", "3.3.1", "3.3.2", "(3.85)", "(3.95)", "less rate", ""]
    report.table(rows, header)


def _axes(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _momentum(report: Report) -> None:
    from matplotlib.figure import Figure

    report.section("Momentum that stays")
    report.text(
        "A quadruped of the layout of ANYmal, legs at 2 rad/s, and a satellite with an arm, both "
        "without weight, for 0.64 s. What is conserved by (3.61) is conserved by a method to its "
        "order, and by the variational method to round-off: the momentum about the inertial origin. "
        "About the centre of mass it is then off as far as the centre of mass strays from its straight "
        "line, to second order; not at all, if the centre of mass rests."
    )
    found = drifts()
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    axes = figure.subplots()
    for d, colour in zip(found, (BLUE, GREEN, AMBER), strict=True):
        axes.loglog(d.steps, d.inertial, "o-", color=colour, label=f"{d.name}: $h_i$")
        axes.loglog(d.steps, d.central, "s:", color=colour, label="the same: $h_c$", markersize=4)
    guide = found[0].steps
    axes.loglog(guide, 0.3 * found[0].inertial[0] * (guide / guide[0]) ** 4, color=GREY, linewidth=0.8)
    axes.annotate(
        "order 4", (guide[1], 0.3 * found[0].inertial[1]), (6, -12), textcoords="offset points", color=GREY
    )
    axes.set(xlabel="step [s]", ylabel="change of momentum, relative")
    axes.set_xticks(guide, [f"{1000 * x:g} ms" for x in guide], minor=False)
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    _axes(axes)
    report.figure(figure, "Relative change of momentum over a free flight, by the step.")
    report.claims(
        report.verdict(
            f"RK4 keeps the momentum to its order: slopes {found[0].slope:.2f} and {found[1].slope:.2f}",
            "holds",
            all(abs(d.slope - 4) < 0.3 for d in found[:2]),
        ),
        report.verdict(
            f"the variational method keeps it to round-off: {found[2].inertial.max():.0e}",
            "holds",
            found[2].inertial.max() < 1e-12,
        ),
    )


def _orientation(report: Report) -> None:
    from matplotlib.figure import Figure

    report.section("The orientation of the frame at the centre of mass")
    report.text(
        "A frame that moves with the locked velocity has a pose in the base that depends on the joints "
        "alone if the curvature (3.72) is zero. Of the planar base with two hinges it is not:"
    )
    x = loops()
    figure = Figure(figsize=(10.2, 3.2), layout="constrained")
    first, second, third = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
    size = np.abs(x.curvature).max()
    levels = np.linspace(-size, size, 22)
    picture = first.contourf(x.at, x.at, x.curvature.T, levels, cmap="RdBu")
    first.plot([0, x.end[0]], [0, x.end[1]], color=BLUE, linewidth=1.6)
    first.plot([0, x.end[0], x.end[0]], [0, 0, x.end[1]], color=AMBER, linewidth=1.6)
    first.set(xlabel="$q_1$ [rad]", ylabel="$q_2$ [rad]", title="curvature $B_{12}$")
    figure.colorbar(picture, ax=first, shrink=0.85, format="%.1f")
    for angle, colour, label in ((x.straight, BLUE, "straight"), (x.corner, AMBER, "round the corner")):
        second.plot(x.s, np.degrees(angle), color=colour, label=label)
    second.set(xlabel="along the path", title=r"base angle [degrees]")
    second.legend(frameon=False)
    third.loglog(x.radii, np.degrees(np.abs(x.turned)), "o", color=BLUE, label="holonomy")
    third.loglog(x.radii, np.degrees(np.abs(x.area)), color=GREY, label="curvature × area")
    third.set(xlabel="radius of the loop [rad]", title="gained by a closed loop [degrees]")
    third.legend(frameon=False)
    for axes in (second, third):
        _axes(axes)
    gap = float(np.degrees(x.corner[-1] - x.straight[-1]))
    report.figure(
        figure,
        "The planar 2R arm on a free base, without momentum. Two paths of the joints to the same end "
        f"leave the base at angles that differ by {abs(gap):.2f} degrees; a closed circle turns it by "
        "the curvature times its area, if it is small.",
    )
    small = abs(x.turned[0] / x.area[0] - 1)
    triangle = dynamics.holonomy(planar_2r(), [[0, 0], [x.end[0], 0], list(x.end), [0, 0]], 1e-11).turn[2]
    report.claims(
        report.verdict(
            f"two hinges: the angle depends on the path, by {abs(gap):.3f} degrees, which is the holonomy "
            f"of the triangle between them",
            "holds",
            abs(gap) > 0.1 and abs(x.corner[-1] - x.straight[-1] - triangle) < 1e-9,
        ),
        report.verdict(
            f"small loops: curvature times area, {100 * small:.1f} % off at a radius of {x.radii[0]:.2g} rad",
            "holds",
            small < 0.03,
        ),
    )
    eq = equations(hopper())
    report.text(
        "With one joint the frame is always a function of q. For the thesis' hopper with a revolute leg "
        "(3.76) becomes"
    )
    report.formula(
        r"\theta_{bc}(q) = \frac{q}{2} + \frac{R - P}{\sqrt{a^2 - "
        r"b^2}}\,\mathrm{arctan}\left(\sqrt{\frac{a - b}{a + b}}\,\mathrm{tan}"
        r"\frac{q}{2}\right), \qquad a = P + R, \quad b = 2Q",
        "(A.2.1)",
    )
    report.text(
        "with $P$, $Q$, $R$ the sums of $m\\,a^2$, $m\\,ab$, $m\\,b^2$ over its point masses at "
        "$a\\,e_1 + b\\,e_2$ from the centre of mass. The program of the appendix has this formula, "
        "and its arc tangent has to count turns beyond half a turn."
    )
    closed = sympy.lambdify(eq.q[3], eq.locked_angle, "numpy")
    angle = np.linspace(-7.5, 7.5, 601)
    few = np.linspace(-7.5, 7.5, 9)
    tree = hopper()
    quadrature = np.array([dynamics.locked_angle(tree, np.array([0, 0, 0, a])) for a in few])
    formula = np.array([hopper_angle(a) for a in few])
    figure = Figure(figsize=(9.6, 3.1), layout="constrained")
    upper, lower = figure.subplots(1, 2)
    upper.plot(
        angle,
        [hopper_angle(a, unwrapped=False) for a in angle],
        color=AMBER,
        label="arc tangent not unwrapped",
    )
    upper.plot(angle, closed(angle), color=BLUE, label="closed form")
    upper.plot(few, quadrature, "o", color="#1b1f24", markersize=3, label="line integral (3.76)")
    upper.set(xlabel="$q$ [rad]", title=r"$\theta_{bc}(q)$ [rad]")
    upper.legend(frameon=False, fontsize=8)
    lower.semilogy(
        few, np.abs(formula - quadrature) + 1e-17, "o", color=BLUE, markersize=4, label="thesis' formula"
    )
    lower.semilogy(
        few, np.abs(closed(few) - quadrature) + 1e-17, "s", color=GREEN, markersize=3, label="SymPy's"
    )
    lower.set(xlabel="$q$ [rad]", title="difference from the line integral [rad]", ylim=(1e-17, 1e-8))
    lower.legend(frameon=False, fontsize=8)
    for axes in (upper, lower):
        _axes(axes)
    report.figure(figure, "The frame that moves with the locked velocity of the revolute hopper.")
    value = dynamics.locked_angle(tree, np.array([0, 0, 0, 1.7802]))
    report.claims(
        report.verdict(
            f"$\\theta_{{bc}}(1.7802) = {value:.10f}$ rad by quadrature, and the thesis' formula everywhere",
            "holds",
            max(np.abs(formula - quadrature).max(), np.abs(closed(few) - quadrature).max()) < 1e-10,
        )
    )


def _decoupling(report: Report, x: Flight) -> None:
    from matplotlib.figure import Figure

    report.section("Decoupled motion, and what is invariant")
    report.text(
        r"An arm of three hinges on a free base, without forces. Once by $M\dot v + Cv = 0$, once by "
        "(3.81) in $v_x = h_c$ and a $v_y$ in which $M_y = 1$: the same motion. Along it $C_xv_x + "
        "C_{xy}v_y$ is zero for the momentum map. For the velocity map $T_x = A_{cb}$, of which (3.95) "
        r"says the same, it is $\dot M_xv_x = (\dot I_c\omega, 0)$: the average velocity changes "
        "though nothing acts."
    )
    figure = Figure(figsize=(10.2, 5.4), layout="constrained")
    (a, b), (c, d) = figure.subplots(2, 2)
    for k, colour in enumerate((BLUE, AMBER, GREEN)):
        a.plot(x.t, x.v[:, 6 + k], color=colour, label=f"joint {k + 1}")
        a.plot(x.t[::3], x.v_2[::3, 6 + k], "o", color=colour, markersize=3)
        c.plot(x.t, x.momentum[:, k] / np.abs(x.momentum[0, :3]).max(), color=colour)
        c.plot(x.t, x.velocity[:, k] / np.abs(x.velocity[0, :3]).max(), color=colour, linestyle="--")
        d.plot(x.t, x.forces[:, k], color=colour)
        d.plot(x.t[::2], x.moved[::2, k], "o", color=colour, markersize=3)
    apart_q, apart_v = np.abs(x.q - x.q_2).max(axis=1), np.abs(x.v - x.v_2).max(axis=1)
    b.semilogy(x.t, apart_q + 1e-17, color=BLUE, label="$q$")
    b.semilogy(x.t, apart_v + 1e-17, color=AMBER, label=r"$\dot q$, $\nu_b$")
    b.semilogy(x.t, x.invariance + 1e-17, color=GREEN, label="$C_xv_x + C_{xy}v_y$, momentum")
    a.set(title="joints' velocities, plain (lines), decoupled (dots)")
    b.set(title="difference; what is left of the invariance", ylim=(1e-17, 1e-8))
    c.set(title=r"$l_c$ (lines) and $\omega_c$ (dashed), over their start", xlabel="t [s]")
    d.set(title=r"velocity map: $C_xv_x + C_{xy}v_y$, and $\dot M_xv_x$ (dots)", xlabel="t [s]")
    for axes in (a, b):
        axes.legend(frameon=False, fontsize=8, loc="best")
    for axes in (a, b, c, d):
        axes.title.set_fontsize(10)
        _axes(axes)
    report.figure(figure, "Free flight of an arm on a free base.")
    worst = max(apart_q.max(), apart_v.max())
    report.claims(
        report.verdict(
            f"decoupled and plain equations lead along the same trajectory: {worst:.0e} over a second",
            "holds",
            worst < 1e-9,
        ),
        report.verdict(
            f"invariance of the momentum along the motion: {x.invariance.max():.0e}",
            "holds",
            x.invariance.max() < 1e-12,
        ),
        report.verdict(
            "invariance of the velocity map, as (3.95) has it",
            "wrong",
            left(x.forces - x.moved, x.forces) < 1e-10 and np.ptp(x.velocity[:, :3], axis=0).max() > 0.01,
        ),
    )


def _internal_external(report: Report) -> None:
    from matplotlib.figure import Figure

    report.section("Internal and external velocity")
    report.text(
        r"With $I = [A_{cb},\; A_{cb}m;\; 0,\; J^{int}]$ a hand has six internal velocities, and n joints "
        r"move it. Its generalized inverse is"
    )
    report.formula(
        r"I^\sharp = \left[\begin{matrix}A_{cb}^{-1} & -mJ^\sharp\\ 0 & J^\sharp\end{matrix}\right], "
        r"\qquad I^\sharp I = 1 \Leftrightarrow J^\sharp J^{int} = 1 "
        r"\;(n \leq 6), \qquad II^\sharp = 1 \Leftrightarrow J^{int}J^\sharp = 1 \;(n \geq 6)",
        "(3.96)",
    )
    report.text(
        r"The thesis demands $DD^\sharp = 1$, which fewer than six joints cannot meet, and uses "
        "$I^{-1}$ for all. $M_I$ is block-diagonal in any case. The equations of motion (3.89), (3.91) "
        r"and (3.94) in external and internal velocity need $I^\sharp I = 1$: with more than six "
        "joints, motions of the joints that leave the hand alone are missing from them."
    )
    found = [split(n) for n in (2, 3, 4, 6, 7, 8)]
    columns = {
        r"$I^\sharp I = 1$": "left",
        r"$II^\sharp = 1$": "right",
        "$M_I$ diagonal": "diagonal",
        "(3.88) left": "printed_left",
        "(3.88) right": "printed_right",
        "(3.91)": "inertial",
        "(3.94)": "bracket",
        "(3.89)": "equations",
    }
    figure = Figure(figsize=(8.6, 3.4), layout="constrained")
    axes = figure.subplots()
    shown = (
        ("left", BLUE, "o", r"$I^{\sharp}I - 1$"),
        ("right", AMBER, "s", r"$II^{\sharp} - 1$"),
        ("diagonal", GREEN, "^", "coupling in $M_I$"),
        ("equations", RED, "D", "(3.89), equations of motion"),
    )
    for offset, (name, colour, marker, label) in zip((-0.18, -0.06, 0.06, 0.18), shown, strict=True):
        values = [max(getattr(s, name), 1e-17) for s in found]
        axes.semilogy([s.n + offset for s in found], values, marker, color=colour, label=label)
    axes.axhline(EXACT, color=GREY, linewidth=0.8, linestyle=":")
    axes.axvspan(5.5, 6.5, color="#f5f7f9", zorder=0)
    axes.set(xlabel="joints", ylabel="relative error", xticks=[s.n for s in found])
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    _axes(axes)
    report.figure(
        figure,
        "Errors of the decomposition for arms of two to eight hinges on a free base; dotted: what is "
        "called exact.",
    )
    rows = []
    for s in found:
        few, many = s.n <= 6, s.n >= 6
        good = (
            s.diagonal < EXACT
            and (s.left < EXACT) == few
            and (s.right < EXACT) == many
            and (s.printed_right < EXACT) == many
            and (s.printed_left < EXACT) == (s.n == 6)
            and all((e < EXACT) == few for e in (s.inertial, s.bracket, s.equations))
        )
        kind = "both" if few and many else "left" if few else "right"
        rows.append(
            [
                s.n,
                *(getattr(s, name) for name in columns.values()),
                kind,
                report.verdict(f"{s.n} joints: {kind} inverse", "holds", good),
            ]
        )
    report.table(
        rows,
        ["joints", *columns, "inverse", ""],
        "(3.88) with a matrix C that is not zero; (3.91) with a B that couples.",
    )


def _errata(report: Report, pair: list[Floating]) -> None:
    report.section("What to correct")
    report.text(
        "“Off” is the relative error as printed, the smaller one of the two robots, and as corrected, "
        "the larger one. It is empty where the printed formula cannot be evaluated, because dimensions "
        "do not fit or words are meant; the correction is checked all the same."
    )
    rows: list[list[Any]] = []
    for c in corrections(pair):
        verdict = report.verdict(f"({c.number})", c.says, c.confirmed)
        rows.append([c.number, "printed", c.printed, c.before, verdict])
        rows.append(["", "correct", c.correct, c.after, ""])
    report.table(rows, ["where", "", "", "off", ""])
