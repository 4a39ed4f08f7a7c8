"""Feurstein (2021), chapters 2 and 3 and appendix A, recomputed: floating bases, momentum, decoupling.

Each equation is evaluated as it is printed, with dense matrices, on a random robot in SE(3) and one in SE(2),
and compared with what does not come from it: derivatives of graphs, recursive Newton-Euler, Hamilton's
principle by quadrature. What is misprinted or wrong is shown with its error as printed and as corrected.

The thesis writes velocities linear first, (v, omega). Here they are angular first; where it prints blocks,
they are evaluated in its order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from matplotlib.figure import Figure

from liebody import dynamics, equations

from ..compare import Array
from ..drawing import AMBER, BLUE, GREEN, GREY, INK, RED, plain
from ..report import Report, Verdict, correction_rows
from .equations import checks, corrections
from .motions import Drift, Flight, Loops, drifts, flight, loops, proposition_robots, propositions
from .robots import EXACT, Floating, Split, arm_on_a_base, hopper, hopper_angle, robots, split
from .symbols import symbolic_checks


def study() -> Report:
    """Recompute chapters 2 and 3 and appendix A."""
    pair = robots()
    return Report.from_template(
        __package__, tables(pair) | momentum() | orientation() | decoupling() | hands()
    )


def tables(pair: list[Floating]) -> dict[str, list[list[Any]]]:
    """Equations, statements in symbols, propositions on robots and corrections."""
    statements = [
        [c.number.partition("#")[0], c.claim, "zero" if c.zero else "not zero", c.verdict]
        for c in symbolic_checks()
    ]
    return {
        "equations": equation_rows(pair),
        "statements": statements,
        "propositions": [_propositions_on(tree) for tree in proposition_robots()],
        "corrections": correction_rows(corrections(pair), places=False),
    }


def equation_rows(pair: list[Floating]) -> list[list[Any]]:
    """An equation a row, with its differences for both robots."""
    by_number = [{c.number: c for c in checks(r)} for r in pair]
    rows = []
    for number in dict.fromkeys(number for found in by_number for number in found):
        both = [found.get(number) for found in by_number]
        c = next(x for x in both if x is not None)
        good = all(x is None or x.confirmed for x in both)
        off = [None if x is None else x.off for x in both]
        rows.append([c.label, c.printed, c.against, *off, Verdict(f"({c.label}) {c.printed}", c.says, good)])
    return rows


def _propositions_on(tree: Any) -> list[Any]:
    p = propositions(tree)
    claim = f"propositions 3.2.1, 3.3.1, 3.3.2 on {tree.name}"
    return [tree.name, tree.nv, *p, Verdict(claim, "holds", p.confirmed)]


def momentum() -> dict[str, Any]:
    """What is conserved, by the step."""
    found = drifts()
    return {
        "drifts": found,
        "drift_figure": drift_figure(found),
        "to_its_order": all(abs(d.slope - 4) < 0.3 for d in found[:2]),
        "round_off": found[2].inertial.max(),
        "to_round_off": found[2].inertial.max() < 1e-12,
    }


def drift_figure(found: list[Drift]) -> Figure:
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    axes = figure.subplots()
    for d, colour in zip(found, (BLUE, GREEN, AMBER), strict=True):
        axes.loglog(d.steps, d.inertial, "o-", color=colour, label=f"{d.name}: $h_i$")
        axes.loglog(d.steps, d.central, "s:", color=colour, label="the same: $h_c$", markersize=4)
    guide, first = found[0].steps, 0.3 * found[0].inertial
    axes.loglog(guide, first[0] * (guide / guide[0]) ** 4, color=GREY, linewidth=0.8)
    axes.annotate("order 4", (guide[1], first[1]), (6, -12), textcoords="offset points", color=GREY)
    axes.set(xlabel="step [s]", ylabel="change of momentum, relative")
    axes.set_xticks(guide, [f"{1000 * x:g} ms" for x in guide], minor=False)
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    plain(axes)
    return figure


def orientation() -> dict[str, Any]:
    """Path dependence of two hinges; the angle of the hopper by quadrature and by two closed forms."""
    x, tree, eq = loops(), hopper(), equations(hopper())
    few = np.linspace(-7.5, 7.5, 9)
    closed = sympy.lambdify(eq.q[3], eq.locked_angle, "numpy")
    quadrature = np.array([dynamics.locked_angle(tree, np.array([0, 0, 0, a])) for a in few])
    formula = np.array([hopper_angle(a) for a in few])
    off = np.abs(formula - quadrature), np.abs(closed(few) - quadrature)
    return {
        "loops": x,
        "loops_figure": loops_figure(x),
        "small_loops": x.off_area < 3,
        "angle_figure": angle_figure(closed, few, quadrature, off),
        "angle": dynamics.locked_angle(tree, np.array([0, 0, 0, 1.7802])),
        "angles_agree": np.max(off) < 1e-10,
    }


def loops_figure(x: Loops) -> Figure:
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
    third.loglog(x.radii, np.degrees(np.abs(x.turned)), "o", color=BLUE, label="holonomy")
    third.loglog(x.radii, np.degrees(np.abs(x.area)), color=GREY, label="curvature × area")
    third.set(xlabel="radius of the loop [rad]", title="gained by a closed loop [degrees]")
    for axes in (second, third):
        axes.legend(frameon=False)
    plain(second, third)
    return figure


def angle_figure(closed: Any, few: Array, quadrature: Array, off: tuple[Array, Array]) -> Figure:
    angle = np.linspace(-7.5, 7.5, 601)
    figure = Figure(figsize=(9.6, 3.1), layout="constrained")
    upper, lower = figure.subplots(1, 2)
    jumping = [hopper_angle(a, unwrapped=False) for a in angle]
    upper.plot(angle, jumping, color=AMBER, label="arc tangent not unwrapped")
    upper.plot(angle, closed(angle), color=BLUE, label="closed form")
    upper.plot(few, quadrature, "o", color=INK, markersize=3, label="line integral (3.76)")
    upper.set(xlabel="$q$ [rad]", title=r"$\theta_{bc}(q)$ [rad]")
    lower.semilogy(few, off[0] + 1e-17, "o", color=BLUE, markersize=4, label="thesis' formula")
    lower.semilogy(few, off[1] + 1e-17, "s", color=GREEN, markersize=3, label="SymPy's")
    lower.set(xlabel="$q$ [rad]", title="difference from the line integral [rad]", ylim=(1e-17, 1e-8))
    for axes in (upper, lower):
        axes.legend(frameon=False, fontsize=8)
    plain(upper, lower)
    return figure


def decoupling() -> dict[str, Any]:
    """An arm of three hinges in free flight, by the plain and by the decoupled equations."""
    x = flight(arm_on_a_base(3))
    return {
        "flight": x,
        "flight_figure": flight_figure(x),
        "one_trajectory": x.difference < 1e-9,
        "left_of_momentum": x.invariance.max(),
        "momentum_invariant": x.invariance.max() < 1e-12,
    }


def flight_figure(x: Flight) -> Figure:
    figure = Figure(figsize=(10.2, 5.4), layout="constrained")
    (a, b), (c, d) = figure.subplots(2, 2)
    for k, colour in enumerate((BLUE, AMBER, GREEN)):
        a.plot(x.t, x.v[:, 6 + k], color=colour, label=f"joint {k + 1}")
        a.plot(x.t[::3], x.v_2[::3, 6 + k], "o", color=colour, markersize=3)
        c.plot(x.t, x.momentum[:, k] / np.abs(x.momentum[0, :3]).max(), color=colour)
        c.plot(x.t, x.velocity[:, k] / np.abs(x.velocity[0, :3]).max(), color=colour, linestyle="--")
        d.plot(x.t, x.forces[:, k], color=colour)
        d.plot(x.t[::2], x.moved[::2, k], "o", color=colour, markersize=3)
    b.semilogy(x.t, np.abs(x.q - x.q_2).max(axis=1) + 1e-17, color=BLUE, label="$q$")
    b.semilogy(x.t, np.abs(x.v - x.v_2).max(axis=1) + 1e-17, color=AMBER, label=r"$\dot q$, $\nu_b$")
    b.semilogy(x.t, x.invariance + 1e-17, color=GREEN, label="$C_xv_x + C_{xy}v_y$, momentum")
    a.set(title="joints' velocities, plain (lines), decoupled (dots)")
    b.set(title="difference; what is left of the invariance", ylim=(1e-17, 1e-8))
    c.set(title=r"$l_c$ (lines) and $\omega_c$ (dashed), over their start", xlabel="t [s]")
    d.set(title=r"velocity map: $C_xv_x + C_{xy}v_y$, and $\dot M_xv_x$ (dots)", xlabel="t [s]")
    for axes in (a, b):
        axes.legend(frameon=False, fontsize=8, loc="best")
    for axes in (a, b, c, d):
        axes.title.set_fontsize(10)
    plain(a, b, c, d)
    return figure


def hands() -> dict[str, Any]:
    """Arms of two to eight hinges on a free base: which inverse their decomposition has."""
    found = [split(n) for n in (2, 3, 4, 6, 7, 8)]
    return {"hands": [_hand(s) for s in found], "hands_figure": hands_figure(found)}


def _hand(s: Split) -> list[Any]:
    few, many = s.n <= 6, s.n >= 6
    by_equations = (s.inertial, s.bracket, s.equations)
    good = (
        s.diagonal < EXACT
        and (s.left < EXACT) == few
        and (s.right < EXACT) == many
        and (s.printed_right < EXACT) == many
        and (s.printed_left < EXACT) == (s.n == 6)
        and all((e < EXACT) == few for e in by_equations)
    )
    kind = "both" if few and many else "left" if few else "right"
    inverses = (s.left, s.right, s.diagonal, s.printed_left, s.printed_right)
    return [s.n, *inverses, *by_equations, kind, Verdict(f"{s.n} joints: {kind} inverse", "holds", good)]


def hands_figure(found: list[Split]) -> Figure:
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
    plain(axes)
    return figure
