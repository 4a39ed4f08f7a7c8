"""Ploen (1999), recomputed: recursive Newton-Euler in global matrices, and a Coriolis matrix that is skew.

Each of its equations is evaluated as it is printed, with dense matrices, and compared with something that
does not come from it: derivatives of graphs along the motion, Lagrange's equations, sums over points of mass,
power. The paper's chains have joints of one degree of freedom; what it says of other trees is checked too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import sympy
from matplotlib.figure import Figure

from liebody import dynamics, models
from liebody.dynamics import factorization
from liebody.scalars.linear import skew

from ..compare import Array, apart, skewness
from ..drawing import AMBER, BLUE, GREEN, INK, RED, bars, plain
from ..report import APART, EXACT, Report, Verdict, correction_rows
from . import algorithms
from .algorithms import FORMS, OF_BODIES, SKEW, Mechanism, block_diagonal, mass_matrix_rate
from .checks import checks, corrections
from .symbols import SymbolicArm, planar_arm, proposition_1, three_axes, vanishes


def study() -> Report:
    """Recompute the paper."""
    found, slips, arm = algorithms.mechanisms(), corrections(), planar_arm()
    values = {
        "equations": equation_rows(),
        "steps": {f"of_{key}": vanishes(x) for key, x in proposition_1().items()},
        "heat_maps": [heat_maps(found[0]), heat_maps(found[3])],
        "mechanisms": [row for x in found for row in mechanism_rows(x)],
        "corrections": correction_rows(slips),
        "bars": bars(slips, 1e-18, 1e7),
    }
    return Report.from_template(__package__, values | on_the_arm(arm) | purpose() | comparison(found[:2]))


def equation_rows() -> list[list[Any]]:
    rows = []
    for c in checks():
        number = f"({c.label})" if c.label[0].isdigit() else c.label
        verdict = Verdict(f"{number} {c.printed}", c.says, c.confirmed)
        rows.append([number, c.printed, c.against, c.off, verdict])
    return rows


def on_the_arm(arm: SymbolicArm) -> dict[str, Any]:
    """Proposition 2 on the planar arm of two links, in symbols."""
    rest = {form: arm.rest(form) for form in FORMS}
    symmetric = {form: rest[form] + rest[form].T for form in FORMS}
    velocity, half, tex = sympy.Matrix(arm.v), arm.factors.N, sympy.latex
    closed = [arm.C(form) - arm.equations.coriolis(form) for form in FORMS]
    return {
        "M": tex(arm.M),
        "rate": tex(arm.rate),
        "C": tex(arm.C("ploen")),
        "rest": tex(rest["ploen"]),
        "arm_forms": [[f"`{form}`", f"${tex(arm.C(form))}$", f"${tex(rest[form])}$"] for form in FORMS],
        "proposition_2": vanishes(symmetric["ploen"]),
        "fails_with_25": not vanishes(symmetric["newton-euler"]),
        "halves": vanishes(half + half.T - arm.rate),
        "no_power": vanishes(*(velocity.T * rest[form] * velocity for form in FORMS)),
        "closed_forms": vanishes(*closed, arm.M - arm.equations.M),
        "one_skew": all(arm.C(form) == arm.C("christoffel") for form in SKEW),
    }


class FormCheck(NamedTuple):
    """A form of C on a mechanism, every entry relative.

    product      C v from the quadratic terms of recursive Newton-Euler as printed
    skewness     of dM/dt - 2 C, with dM/dt from the graph of M
    identity     (29) with the form's matrices of the bodies; None for "hamel"
    christoffel  C from (2), (3), and their extension to joints that do not commute
    """

    product: float
    skewness: float
    identity: float | None
    christoffel: float


def form_checks(x: Mechanism) -> dict[str, FormCheck]:
    """Propositions 1 and 2 on a mechanism, for every form."""
    tree, q, v = x.tree, x.q, x.v
    still = np.zeros(6)
    bias = algorithms.recursion(tree, q, v, 0 * v, still, still)
    rate, symbols = mass_matrix_rate(tree, q, v), algorithms.christoffel_matrix(tree, q, v)
    f = factorization(tree, q, v)
    GS = f.G @ f.S
    found = {}
    for form in FORMS:
        C = dynamics.coriolis_matrix(tree, q, v, form)
        identity = None
        if form in OF_BODIES:
            pairs = zip(tree.bodies, bias.V, strict=True)
            blocks = [algorithms.body_matrix(form, b.inertia, V) for b, V in pairs]
            by_bodies = f.N - f.N.T - 2 * GS.T @ block_diagonal(blocks) @ GS
            identity = apart(by_bodies, rate - 2 * C)
        found[form] = FormCheck(apart(C @ v, bias.tau), skewness(rate - 2 * C), identity, apart(C, symbols))
    return found


def frame_dependence(form: str, seed: int = 7) -> float:
    """How much C of the same chain changes with the choice of its bodies' frames."""
    rng = np.random.default_rng(seed)
    chain = algorithms.Chain.random(rng)
    other, q, v = chain.reframed(rng), chain.tree.group.random(rng), rng.normal(size=6)
    return apart(*(dynamics.coriolis_matrix(x.tree, q, v, form) for x in (other, chain)))


def transported_energy(steps: int = 100, t_end: float = 2.0) -> tuple[Array, dict[str, Array]]:
    """Times, and s^T M s / 2 over its start, where M ds/dt + C(q, v) s = 0 along a motion of the PUMA 560.

    With its motors, by RK4. This is what is left of Slotine and Li's error s without feedback: a skew form
    keeps the energy.
    """
    tree, h = models.puma560().tree, t_end / steps
    t = np.linspace(0, t_end, 2 * steps + 1)
    speeds, phases = np.array([3.0, 4.0, 5.0, 6.0, 5.5, 4.5]), np.arange(6.0)
    angles = speeds * t[:, None] + phases
    q, v = np.sin(angles), speeds * np.cos(angles)
    states = list(zip(q, v, strict=True))
    M = np.array([dynamics.mass_matrix(tree, x) for x in q])
    energies = {}
    for form in FORMS:
        C = np.array([dynamics.coriolis_matrix(tree, *x, form) for x in states])
        rate = -np.linalg.solve(M, C)
        s, energy = np.array([1.0, -0.5, 0.8, 1.0, -1.0, 0.5]), []
        for k in range(0, 2 * steps + 1, 2):
            energy.append(s @ M[k] @ s / 2)
            if k < 2 * steps:
                k1 = rate[k] @ s
                k2 = rate[k + 1] @ (s + h / 2 * k1)
                k3 = rate[k + 1] @ (s + h / 2 * k2)
                k4 = rate[k + 2] @ (s + h * k3)
                s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        energies[form] = np.array(energy) / energy[0]
    return t[::2], energies


def mechanism_rows(x: Mechanism) -> list[list[Any]]:
    """The forms of C on a mechanism: which are skew, and which is Christoffel's."""
    rows = []
    for form, c in form_checks(x).items():
        is_skew, is_first = form in SKEW, form == "christoffel"
        good = (
            c.product < EXACT
            and (c.skewness < EXACT if is_skew else c.skewness > APART)
            and (c.identity is None or c.identity < EXACT)
            and (c.christoffel < EXACT if is_first else c.christoffel > APART)
        )
        what = f"{'skew' if is_skew else 'not skew'}, {'equal' if is_first else 'not equal'} to (2)"
        verdict = Verdict(f"{x.name}, `{form}`: {what}", "holds", good)
        rows.append([x.name if is_first else "", f"`{form}`", *c, what, verdict])
    return rows


def heat_maps(x: Mechanism) -> Figure:
    rate = mass_matrix_rate(x.tree, x.q, x.v)
    figure = Figure(figsize=(10.4, 4.5), layout="constrained")
    axes = figure.subplots(2, len(FORMS))
    for k, form in enumerate(FORMS):
        N = rate - 2 * dynamics.coriolis_matrix(x.tree, x.q, x.v, form)
        size = np.abs(N).max()
        for axis, A in ((axes[0, k], N), (axes[1, k], N + N.T)):
            axis.pcolormesh(A[::-1] / size, cmap="RdBu", vmin=-1, vmax=1, edgecolors="#e4e8ec", linewidth=0.3)
            axis.set_aspect("equal")
            axis.set(xticks=[], yticks=[])
        skew_or_not = "skew" if form in SKEW else "not skew"
        axes[0, k].set_title(f"{form}\n{skew_or_not}", fontsize=10, color=GREEN if form in SKEW else RED)
        axes[1, k].set_xlabel(f"{skewness(N):.1e}", fontsize=9)
    axes[0, 0].set_ylabel(r"$\dot{M} - 2C$")
    axes[1, 0].set_ylabel("plus its transpose")
    return figure


def purpose() -> dict[str, Any]:
    """The energy of Slotine and Li's error by every form."""
    t, energies = transported_energy()
    kept = {form: float(np.ptp(energies[form])) for form in FORMS}
    by_skew, lost = max(kept[f] for f in SKEW), {"newton_euler": kept["newton-euler"], "hamel": kept["hamel"]}
    return {
        "energy_figure": energy_figure(t, energies),
        "kept": by_skew,
        "lost": lost,
        "skew_keeps": by_skew < 1e-5 and min(lost.values()) > 0.1,
    }


def energy_figure(t: Array, energies: dict[str, Array]) -> Figure:
    figure = Figure(figsize=(8.2, 3.2), layout="constrained")
    axis = figure.subplots()
    styles = {
        "christoffel": (GREEN, "-", 3.4), "ploen": (BLUE, "-", 2.0), "coadjoint": (INK, ":", 1.6),
        "newton-euler": (RED, "-", 1.6), "hamel": (AMBER, "-", 1.6),
    }  # fmt: skip
    for form, (colour, line, width) in styles.items():
        axis.plot(t, energies[form], color=colour, linestyle=line, linewidth=width, label=form)
    axis.set(xlabel="t [s]", ylabel="$s^T M s\\,/\\,2$, over its start")
    axis.legend(frameon=False, ncols=2)
    plain(axis)
    return figure


def comparison(pair: list[Mechanism]) -> dict[str, Any]:
    """Which form is Christoffel's: on three axes that meet in symbols, and on two mechanisms in numbers."""
    eq, C, factor = three_axes()
    velocity = sympy.Matrix(skew(np.array(list(eq.v), dtype=object)))
    matrix, found = factor * velocity, [form_checks(x) for x in pair]
    return {
        "factor": sympy.latex(sympy.factor(factor)),
        "velocity": sympy.latex(velocity),
        "forms": [_compared(form, [c[form].christoffel for c in found]) for form in FORMS],
        "either_side": vanishes(
            C["ploen"] - C["christoffel"] + matrix, C["coadjoint"] - C["christoffel"] - matrix
        ),
    }


def _compared(form: str, distance: list[float]) -> list[Any]:
    """A form, its distances from (2), and how it changes with the bodies' frames."""
    change, depends, is_first = frame_dependence(form), form == "ploen", form == "christoffel"
    good = (change > APART if depends else change < EXACT) and (
        max(distance) < EXACT if is_first else min(distance) > APART
    )
    words = f"{'' if is_first else 'not '}(2); {'depends' if depends else 'does not depend'} on the frames"
    return [f"`{form}`", form in SKEW, *distance, change, words, Verdict(f"`{form}`: {words}", "holds", good)]
