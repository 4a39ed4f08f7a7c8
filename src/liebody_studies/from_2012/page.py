"""From (2012): the explicit equations of single rigid bodies, recomputed group by group.

Its tables in symbols, its formulas in numbers, its slips with their size, and the theorem of its section 5 on
groups that it does not treat. The paper writes velocities linear first, (u, v, w, p, q, r); so do the tables
here. Everything computed is angular first, as everywhere in this library.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import sympy
from matplotlib import pyplot

from liebody import boltzmann_hamel_equations, mechanisms, rigid_body_equations
from liebody.groups import SE3, Planar, Spherical
from liebody.mechanisms import BoltzmannHamel, RigidBody

from ..drawing import BLUE, GREEN, INK, RED, plain
from ..report import APART, EXACT, Report, Verdict
from . import groups, motions
from .checks import derivation_checks, errata
from .groups import ROWS, Row, Z, off, printed, random_matrix


def study() -> Report:
    """Recompute the paper."""
    rng = np.random.default_rng(2012)
    values = {
        "algebras": [algebra_row(row) for row in ROWS],
        "transformations": [transformation_row(row, rng) for row in ROWS],
        "scalars": [[row.name, f"${rigid_body_equations(row.group).latex()}$"] for row in ROWS],
        "any_body": [rigid_body_equations(group, "body").latex() for group in (Planar(Z), Spherical())],
        "kirchhoff": rigid_body_equations(SE3, "diagonal").latex(),
        "derivation": [
            [c.number, c.printed, c.off, Verdict(f"({c.number}) {c.printed}", c.says, c.confirmed)]
            for c in derivation_checks()
        ],
        "errata": [
            [c.label, c.where, c.printed, c.correct, c.remark or c.before, c.after, c.verdict(c.where)]
            for c in errata()
        ],
        "theorem": [
            [name, group.dim, *e, Verdict(f"theorem on {name}", "holds", max(e[1:]) < 1e-10)]
            for name, group in groups.theorem_groups()
            for e in [groups.theorem_errors(group)]
        ],
        "proofs": dict(zip(("planar", "heisenberg", "affine"), groups.symbolic_proofs().values())),
    }
    return Report.from_template(__package__, values | counter_example() | roll_pitch_yaw() | in_a_fluid())


def algebra_row(row: Row) -> list[Any]:
    """A row of table 1: V^, ad, ad~, and below them what the paper prints otherwise."""
    ours = groups.table_row(row)
    cells: list[Any] = [row.name]
    wrong, known = [], []
    for key, slip in (("hat", row.hat_slip), ("ad", ""), ("coad", row.coad_slip)):
        cell, text = f"${_matrix(ours[key])}$", getattr(row, key)
        if text is not None:
            known += [slip] if slip else []
            if printed(text) != ours[key]:
                cell += f"\nprinted:\n${_matrix(printed(text))}$"
                wrong.append(slip)
        cells.append(cell)
    if row.hat is None:
        return [*cells, "not in the paper"]
    says = "misprint" if wrong else "holds"
    return [*cells, Verdict(f"table 1, {row.name}", says, sorted(wrong) == sorted(known))]


def transformation_row(row: Row, rng: np.random.Generator) -> list[Any]:
    """A row of table 2: S and C at a random point, by closed forms and series."""
    group, n = row.group, row.group.dim
    phi, M, v = rng.standard_normal(n), random_matrix(rng, n), rng.standard_normal(n)
    S = mechanisms.exponential_transformation(group)(phi)
    exact = max(off(S, groups.derivative_of_exp(group, phi)), 0.0)
    series = off(mechanisms.exponential_transformation(group, terms=25)(phi), S)
    C = BoltzmannHamel(mechanisms.exponential_transformation(group), M).coriolis(phi, v)
    coriolis = off(C, group.coad(M @ v))
    tilde = row.name in ("$SE(3)$", r"$\mathcal{X}(z)$")
    verdict: Any = "not in the paper"
    if row.hat is not None:
        lost = off(group.ad(M @ v), group.coad(M @ v)) if tilde else 1.0
        good = max(exact, series, coriolis) < 1e-9 and lost > APART
        verdict = Verdict(f"table 2, {row.name}", "misprint" if tilde else "holds", good)
    closed = r"$1 - b\,\mathrm{ad}_\varphi + c\,\mathrm{ad}_\varphi^2$"
    closed = closed if group != SE3 else r"$\mathrm{dexp}_{-\varphi}$"
    name = r"$-\widehat{(Mv)}$" if row.name == "$SO(3)$" else r"$\widetilde{\mathrm{ad}}_{(Mv)}$"
    forms = [closed, name] if RigidBody(group, M).structure.any() else ["$1$", "$0$"]
    return [row.name, *forms, exact, series, coriolis, verdict]


def _matrix(matrix: Any) -> str:
    if matrix.shape == (1, 1):
        return str(sympy.latex(matrix[0]))
    text = str(sympy.latex(matrix, mat_str="matrix", fold_func_brackets=True))
    return re.sub(r"\\(sin|cos|tan) ", r"\\,\\\1\\,", text)


def _sides(column: Any) -> str:
    rates = (r"I_x\dot p", r"I_y\dot q", r"I_z\dot r")
    return r",\quad ".join(f"{rate} = {sympy.latex(x)}" for rate, x in zip(rates, column, strict=True))


def counter_example() -> dict[str, Any]:
    """The formula of 2008, in symbols, in numbers and in motion."""
    wrong, right = motions.counter_example_symbols()
    t, energy, momentum = motions.counter_example_motion()
    force, claimed, power = motions.counter_example_numbers()
    figure, axes = pyplot.subplots(1, 2, figsize=(9.2, 3.1), layout="constrained")
    for key, colour, width in (("right", GREEN, 2.2), ("wrong", RED, 1.6)):
        for axis, values in zip(axes, (energy, momentum), strict=True):
            axis.plot(t, values[key], color=colour, lw=width, label=f"{key} formula")
    axes[0].set(title="free body on SE(3)", xlabel="t [s]", ylabel="kinetic energy / at the start")
    axes[1].set(title="free body on SO(3)", xlabel="t [s]", ylabel="turn of L in space [rad]")
    axes[0].legend(frameon=False)
    _titled(*axes)
    return {
        "wrong_sides": _sides(wrong),
        "right_sides": _sides(right),
        "counter_figure": figure,
        "force": force,
        "power": power,
        "as_claimed": claimed < EXACT,
        "counter_example": force > APART and power > APART and np.ptp(energy["wrong"]) > 0.05,
    }


def roll_pitch_yaw() -> dict[str, Any]:
    """Three angles beside the group, towards their pole."""
    S, moments = mechanisms.roll_pitch_yaw_transformation, sympy.symbols("I_x I_y I_z", positive=True)
    angles, rates = ["phi", "theta", "psi"], ["p", "q", "r"]
    e = boltzmann_hamel_equations(S, sympy.diag(*moments), coordinates=angles, velocities=rates)
    delta, error = motions.roll_pitch_yaw_accuracy()
    miss, steps, ends, peak = motions.roll_pitch_yaw_motion()
    figure, axes = pyplot.subplots(1, 3, figsize=(10.6, 3.1), layout="constrained")
    for key, colour, label in (("angles", RED, "three angles"), ("group", GREEN, "exponential")):
        axes[0].loglog(delta, error[key], color=colour, label=label)
        axes[1].semilogx(miss, steps[key], "o-", color=colour, label=label.replace("exponential", "SO(3)"))
        axes[2].loglog(miss, ends[key], "o-", color=colour)
    axes[0].set(title="C from S and its derivatives", ylabel="relative error")
    axes[1].set(title="steps for the same motion", ylim=(0, None))
    axes[2].set(title=f"steps of {motions.FIXED_STEP} s: error of the attitude", ylabel="[rad]")
    for axis in axes:
        axis.set_xlabel(r"distance $\delta$ of the pitch from $\pi/2$")
        axis.invert_xaxis()
    for axis in axes[:2]:
        axis.legend(frameon=False, loc="upper left")
    _titled(*axes)
    return {
        "angle_rates": _matrix(sympy.Matrix(sympy.symbols("phidot thetadot psidot"))),
        "rates": _matrix(e.rates),
        "angle_C": _matrix(e.C),
        "angles_figure": figure,
        "miss": miss[-1],
        "more_steps": steps["angles"][-1] / steps["group"][-1],
        "peak": peak[-1],
        "fixed_step": motions.FIXED_STEP,
        "worst": {key: max(x) for key, x in ends.items()},
        "no_pole": (
            steps["angles"][-1] > 2 * steps["group"][-1]
            and np.ptp(steps["group"]) <= 0.2 * max(steps["group"])
            and max(error["group"]) < EXACT
            and error["angles"][-1] > 1e-9
            and max(ends["group"]) < 1e-6
            and max(ends["angles"]) > 1e6 * max(ends["group"])
        ),
    }


def in_a_fluid() -> dict[str, Any]:
    """An ellipsoid, its moment and its tumbling."""
    f = motions.fluid()
    moment = np.abs(f.moment).max()
    return {
        "fluid": f,
        "fluid_figure": fluid_figure(f),
        "moment": moment,
        "by_munk": moment > APART and off(f.moment, f.munk) < EXACT * moment,
        "kept": max(f.impulse_drift, f.energy_drift) < 1e-6,
    }


def fluid_figure(f: motions.Fluid) -> Any:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.2, 3.1), layout="constrained")
    degrees = np.degrees(f.attack)
    left.plot(degrees, f.moment, color=BLUE, lw=2.2, label="$-C(v)v$")
    left.plot(degrees, f.munk, "--", color=INK, lw=1.2, label=r"$(m_u - m_v)\,u\,v$")
    left.set(title="moment at 1 m/s", xlabel="angle of attack [deg]", ylabel="[N m]")
    left.legend(frameon=False)
    right.plot(f.t, np.degrees(f.heading), color=BLUE)
    right.set(title="neutrally buoyant, started ahead", xlabel="t [s]", ylabel="heading [deg]")
    _titled(left, right)
    return figure


def _titled(*axes: Any) -> None:
    """Pictures without frames, with small titles."""
    plain(*axes)
    for axis in axes:
        axis.title.set_fontsize(10.5)
