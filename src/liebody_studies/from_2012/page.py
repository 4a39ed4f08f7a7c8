"""From (2012): the explicit equations of single rigid bodies, recomputed group by group.

Its tables in symbols, its formulas in numbers, its slips with their size, and the theorem of its section 5 on
groups that it does not treat. The paper writes velocities linear first, (u, v, w, p, q, r); so do the tables
here. Everything computed is angular first, as everywhere in this library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from liebody import boltzmann_hamel_equations, rigid_body_equations
from liebody.bodies import SpatialInertia
from liebody.codegen import jacobian, jvp, trace
from liebody.dynamics import (
    BoltzmannHamel,
    RigidBody,
    SelectedMotions,
    ellipsoid_added_mass,
    exponential_transformation,
    roll_pitch_yaw_transformation,
)
from liebody.errors import ModelError
from liebody.groups import (
    SE2,
    SE3,
    SO3,
    AdjointGroup,
    Cylindrical,
    Helical,
    LieGroup,
    MatrixGroup,
    Planar,
    PlanarHelical,
    PlanarTranslation,
    Prismatic,
    R,
    Revolute,
    Schoenflies,
    SpatialTranslation,
    Spherical,
)
from liebody.integrators import solve_ivp
from liebody.linear import skew
from liebody.scalar import cos, sin

from ..report import Report

Array = Any

X, Z = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
PITCH = 0.3
EXACT = 1e-12  # what is called right, of numbers of order one
APART = 1e-2  # what is called different
FIXED_STEP, START = 0.02, -1.007  # of the top that passes the vertical at t = 0 [s]
TITLE = "Singularity-free dynamics of single rigid bodies, recomputed"
SOURCE = (
    "P. J. From (2012), An explicit formulation of singularity-free dynamic equations of mechanical "
    "systems in Lagrangian form, part one: single rigid bodies. Modeling, Identification and Control "
    "33(2). Numbers (F-n) are its equations."
)


# -- the tables as printed ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of tables 1 and 2: the group, the paper's order of its velocities, and what is printed.

    shown   the rows and columns of the 4 x 4 matrix that make the paper's V^
    hat, ad, coad  as printed: rows separated by semicolons; None where the paper has no such row
    """

    name: str
    group: LieGroup
    order: tuple[int, ...]
    shown: tuple[int, ...]
    hat: str | None = None
    ad: str | None = None
    coad: str | None = None
    hat_slip: str = ""
    coad_slip: str = ""


ROWS = (
    Row(
        "$SE(3)$", SE3, (3, 4, 5, 0, 1, 2), (0, 1, 2, 3),
        "0 -r q u; r 0 -p v; -q p 0 w; 0 0 0 0",
        "0 -r q 0 -w v; r 0 -p w 0 -u; -q p 0 -v u 0; 0 0 0 0 -r q; 0 0 0 r 0 -p; 0 0 0 -q p 0",
        "0 0 0 0 p3 -p2; 0 0 0 -p3 0 p1; 0 0 0 p2 -p1 0; 0 p3 -p2 0 p6 -p5; -p3 0 p1 -p6 0 p4;"
        " p2 -p1 0 p5 -p4 0",
    ),
    Row(
        r"$\mathcal{X}(z)$", Schoenflies(Z), (1, 2, 3, 0), (0, 1, 2, 3),
        "0 -r 0 u; r 0 0 v; 0 0 0 w; 0 0 0 0",
        "0 -r 0 v; r 0 0 -u; 0 0 0 0; 0 0 0 0",
        "0 0 0 -p2; 0 0 0 p1; 0 0 0 0; p2 -p1 0 0",
    ),
    Row(
        r"$\mathbb{R}^3$", SpatialTranslation(), (0, 1, 2), (0, 1, 2, 3),
        "0 -r 0 u; r 0 0 v; 0 0 0 w; 0 0 0 0", "0 0 0; 0 0 0; 0 0 0", "0 0 0; 0 0 0; 0 0 0",
        hat_slip="0-2",
    ),
    Row(
        "$SE(2)$", Planar(Z), (1, 2, 0), (0, 1, 3),
        "0 -r u; r 0 v; 0 0 0", "0 -r v; r 0 -u; 0 0 0", "0 0 -p2; 0 0 p1; p2 -p1 0",
    ),
    Row(
        "$SO(3)$", Spherical(), (0, 1, 2), (0, 1, 2),
        "0 -r q; r 0 -p; -q p 0", "0 -r q; r 0 -p; -q p 0", "0 -p3 p2; p3 0 -p1; -p2 p1 0",
        coad_slip="0-1",
    ),
    Row(
        r"$\mathbb{R}^2$", PlanarTranslation(Z), (0, 1), (0, 1, 3),
        "0 0 u; 0 0 v; 0 0 0", "0 0; 0 0", "0 0; 0 0",
    ),
    Row(r"$\mathbb{R}$", Prismatic(X), (0,), (0, 3), "0", "0", "0", hat_slip="0-3"),
    Row("$H(h)$", Helical(Z, PITCH), (0,), (0, 1, 2, 3), "0", "0", "0", hat_slip="0-3"),
    Row("$SO(2)$", Revolute(Z), (0,), (0, 1), "0", "0", "0", hat_slip="0-3"),
    Row("$C$ (cylindrical)", Cylindrical(Z), (1, 0), (0, 1, 2, 3)),
    Row("$Y(h)$ (planar-helical)", PlanarHelical(Z, PITCH), (1, 2, 0), (0, 1, 2, 3)),
)  # fmt: skip


def heisenberg() -> LieGroup:
    """Upper unitriangular 3 x 3 matrices, defined as a user would."""

    class Heisenberg(LieGroup):
        n, dim = 3, 3

        def hat(self, u: Array) -> Array:
            return np.array([[0, u[0], u[2]], [0, 0, u[1]], [0, 0, 0]])

    return Heisenberg()


def affine() -> LieGroup:
    """Maps x -> a x + b of the line: the bracket [e_1, e_2] = e_2 alone."""
    structure = np.zeros((2, 2, 2))
    structure[1, 0, 1], structure[1, 1, 0] = 1, -1
    return AdjointGroup(structure, "Aff(1)")


def general_linear(special: bool = False) -> LieGroup:
    """GL(2), or SL(2), by a basis of matrices."""
    h, e, f, one = [[1, 0], [0, -1]], [[0, 1], [0, 0]], [[0, 0], [1, 0]], [[1, 0], [0, 1]]
    return MatrixGroup([h, e, f] if special else [h, e, f, one], "SL(2)" if special else "GL(2)")


def theorem_groups() -> list[tuple[str, LieGroup]]:
    """The groups of section 5 here: all of the tables, and four that do not move bodies."""
    more = [
        ("$GL(2)$", general_linear()), ("$SL(2)$", general_linear(special=True)),
        ("Heisenberg", heisenberg()), ("Aff(1)", affine()),
    ]  # fmt: skip
    return [(row.name, row.group) for row in ROWS] + more


# -- the study ----------------------------------------------------------------------------------------------


def study() -> Report:
    """Recompute the paper."""
    report = Report(TITLE, SOURCE)
    report.text(
        "The paper derives, for a body whose configurations are a Lie group, the equations"
        r" $M\dot v + C(v)v = \tau$ with a constant inertia $M$ and body-fixed velocities $v$, from the"
        " Boltzmann-Hamel equations in exponential coordinates, and shows that they are",
    )
    report.formula(
        r"M\dot v + \widetilde{\mathrm{ad}}_{(Mv)}\,v = \tau \qquad\Leftrightarrow\qquad"
        r" M\dot v - \mathrm{ad}_v^\top M v = \tau, \qquad"
        r" (\widetilde{\mathrm{ad}}_p)_{ij} = \langle p, [e_i, e_j]\rangle",
        "(F-107), (F-108)",
    )
    report.text(
        "That is right, on every Lie group, and more general than the paper says. Of its formulas some are"
        " misprinted, and a few statements are too strong; all are listed below with the size of the"
        " difference, computed on random data of order one. Velocities in tables stand in the paper's order,"
        " linear before angular."
    )
    _tables(report)
    _equations(report)
    _derivation(report)
    _errata(report)
    _counter_example(report)
    _theorem(report)
    _roll_pitch_yaw(report)
    _fluid(report)
    return report


def _tables(report: Report) -> None:
    report.section("Table 1: algebras, brackets, Coriolis matrices")
    report.text(
        r"Each entry follows from the group's bracket: $\mathrm{ad}_V$ by $[V, e_j]$, and"
        r" $\widetilde{\mathrm{ad}}_p$ by $\langle p, [e_i, e_j]\rangle$. Where the paper prints"
        r" something else,"
        " its entry stands below ours. The last two rows are groups of rigid motions that it leaves out; with"
        " them, these are all connected subgroups of $SE(3)$, up to their place in space."
    )
    rows = []
    for row in ROWS:
        ours = table_row(row)
        cells: list[Any] = [row.name]
        slips = []
        for key, slip in (("hat", row.hat_slip), ("ad", ""), ("coad", row.coad_slip)):
            cell = f"${_matrix(ours[key])}$"
            text = getattr(row, key)
            if text is not None:
                printed = _printed(text)
                same = printed == ours[key]
                if not same:
                    cell += f"\nprinted:\n${_matrix(printed)}$"
                slips.append((slip, same))
            cells.append(cell)
        wrong = [slip for slip, same in slips if not same]
        if row.hat is None:
            cells.append("not in the paper")
        else:
            says = "misprint" if wrong else "holds"
            confirmed = sorted(wrong) == sorted(s for s, _ in slips if s)
            cells.append(report.verdict(f"table 1, {row.name}", says, confirmed))
        rows.append(cells)
    report.table(
        rows, ["group", r"$\hat V$", r"$\mathrm{ad}_V$", r"$\widetilde{\mathrm{ad}}_p$", "as printed"]
    )

    report.section("Table 2: velocity transformations")
    report.text(
        r"With $g = \bar g\,e^{\hat\varphi}$ the body velocity is $v = S(\varphi)\dot\varphi$, $S = "
        r"\mathrm{dexp}_{-\varphi}$. The series of the paper has a closed form on every group: with "
        r"$\theta = |\omega|$, $b = (1-\cos\theta)/\theta^2$ and $c = (\theta-\sin\theta)/\theta^3$ it "
        r"is $1 - b\,\mathrm{ad}_\varphi + c\,\mathrm{ad}_\varphi^2$ wherever $\mathrm{ad}^3 = "
        r"-\theta^2\,\mathrm{ad}$, so the functions of $SO(3)$ serve the planar groups too. The "
        r"columns compare, at a random $\varphi$: $S$ with the derivative of the exponential map (of "
        "its graph, no differences), the series up to its 24th term with that, and $C$ from (F-54) "
        r"with $\widetilde{\mathrm{ad}}_{(Mv)}$, which the paper evaluates at $\varphi = 0$ only."
    )
    rows, rng = [], np.random.default_rng(2012)
    for row in ROWS:
        group, n = row.group, row.group.dim
        phi, M, v = rng.standard_normal(n), _inertia(rng, n), rng.standard_normal(n)
        S = exponential_transformation(group)(phi)
        exact = max(_off(S, derivative_of_exp(group, phi)), 0.0)
        series = _off(exponential_transformation(group, terms=25)(phi), S)
        C = BoltzmannHamel(exponential_transformation(group), M).coriolis(phi, v)
        coriolis = _off(C, group.coad(M @ v))
        abelian = not RigidBody(group, M).structure.any()
        tilde = row.name in ("$SE(3)$", r"$\mathcal{X}(z)$")
        says = "misprint" if tilde else "holds"
        lost = _off(group.ad(M @ v), group.coad(M @ v)) if tilde else 1.0
        verdict: Any = "not in the paper"
        if row.hat is not None:
            good = max(exact, series, coriolis) < 1e-9 and lost > APART
            verdict = report.verdict(f"table 2, {row.name}", says, good)
        name = r"$-\widehat{(Mv)}$" if row.name == "$SO(3)$" else r"$\widetilde{\mathrm{ad}}_{(Mv)}$"
        rows.append(
            [
                row.name,
                "$1$" if abelian else _CLOSED if group != SE3 else r"$\mathrm{dexp}_{-\varphi}$",
                "$0$" if abelian else name,
                exact,
                series,
                coriolis,
                verdict,
            ]
        )
    report.table(
        rows,
        [
            "group",
            "$S$ (closed)",
            "$C$",
            "$S$: error",
            "series: error",
            "$C$ at $\\varphi$: error",
            "as printed",
        ],
    )
    report.text(
        r"Printed for $SE(3)$ and $\mathcal{X}(z)$ is $\mathrm{ad}_{(Mv)}$, without the tilde (0-4 below)."
    )


_CLOSED = r"$1 - b\,\mathrm{ad}_\varphi + c\,\mathrm{ad}_\varphi^2$"


def _equations(report: Report) -> None:
    report.section("The equations, scalar by scalar")
    report.text(
        "For a body whose frame lies at its centre of mass, along its principal axes; the general form below."
        " `lb.rigid_body_equations(group)` prints them for any group."
    )
    rows = [[row.name, f"${rigid_body_equations(row.group).latex}$"] for row in ROWS]
    report.table(rows, ["group", "equations"])
    report.section("Any body, any frame", level=3)
    report.text(
        "A body in the plane with its centre of mass at $(c_x, c_y)$ from the frame, and a rotating body"
        " with products of inertia:"
    )
    for group in (Planar(Z), Spherical()):
        report.formula(rigid_body_equations(group, "body").latex)
    report.section("Three different masses", level=3)
    report.text(
        "In a fluid the masses along the three axes differ, and the moments gain the terms that Munk found:"
        " the paper's remark that a diagonal $M$ leaves no such terms needs equal masses (0-15)."
    )
    report.formula(rigid_body_equations(SE3, "diagonal").latex, "(Kirchhoff)")


def _derivation(report: Report) -> None:
    report.section("The derivation, step by step")
    report.text(
        "What of the derivation holds as it is printed, with the largest deviation in random trials. "
        "Lagrange's equations are formed from the Lagrangian by derivatives of its graph, "
        "independently of the Boltzmann-Hamel form."
    )
    rows = [
        [number, claim, error, report.verdict(f"({number}) {claim}", "holds", error < limit)]
        for number, claim, error, limit in derivation_checks()
    ]
    report.table(rows, ["eq.", "claim", "error", ""])


def _errata(report: Report) -> None:
    report.section("What is printed, and what is right")
    report.text(
        "Sizes are the largest deviation of an entry (or of a term) as printed, and after the correction. The"
        " conversion of the paper to text may have added a slip; a lost tilde is the likeliest."
    )
    rows = []
    for e in errata():
        confirmed = (e.printed_error is None or e.printed_error > APART) and e.fixed_error < EXACT
        verdict = report.verdict(f"{e.number}: {e.place}", e.says, confirmed)
        size = e.remark if e.printed_error is None else e.printed_error
        rows.append(
            [e.number.replace("-", "\u2011"), e.place, e.printed, e.correct, size, e.fixed_error, verdict]
        )
    report.table(rows, ["", "where", "printed", "correct", "size", "after", ""])


def _counter_example(report: Report) -> None:
    from matplotlib import pyplot

    report.section("The counter-example: Duindam and Stramigioli (2008)")
    report.text(
        "The paper's motive is an earlier formula for the Coriolis matrix, which sums over the wrong index."
        " Its statement on it holds: in exponential coordinates the formula gives"
    )
    report.formula(
        r"C^{DS}_{ij} = \sum_k\,\left(\frac{\partial S_{ji}}{\partial\varphi_k} -"
        r" \frac{\partial S_{jk}}{\partial\varphi_i}\right)_{\varphi=0}(Mv)_k ="
        r" -(\mathrm{ad}_{(Mv)}^\top)_{ij}",
        "(F-35), (F-36)",
    )
    report.text(
        "On $SO(3)$ that is the right matrix with the wrong sign. In symbols, beside Euler's equations:"
    )
    wrong, right = counter_example_symbols()
    report.formula(rf"M\dot\omega = -C^{{DS}}\omega: \quad {_sides(wrong)}", "(wrong)")
    report.formula(rf"M\dot\omega = -C\,\omega: \quad {_sides(right)}", "(right)")
    report.text(
        "A body that turns freely would thus move as the true one does backwards in time: its energy "
        "stays and its angular momentum in space does not. On $SE(3)$ not even the energy stays. Both, "
        "in numbers:"
    )
    t, energy, momentum = counter_example_motion()
    figure, (left, middle) = pyplot.subplots(1, 2, figsize=(9.2, 3.1), layout="constrained")
    for key, colour, width in (("right", "#14663a", 2.2), ("wrong", "#b3261e", 1.6)):
        left.plot(t, energy[key], color=colour, lw=width, label=f"{key} formula")
        middle.plot(t, momentum[key], color=colour, lw=width, label=f"{key} formula")
    left.set(title="free body on SE(3)", xlabel="t [s]", ylabel="kinetic energy / at the start")
    middle.set(title="free body on SO(3)", xlabel="t [s]", ylabel="turn of L in space [rad]")
    left.legend(frameon=False)
    _plain(left, middle)
    report.figure(
        figure,
        "A free body with the right and with the wrong Coriolis matrix. Left: energy, which only the right"
        " one keeps. Right: the direction of the angular momentum in space, which no torque turns.",
    )
    worst, claimed, power = counter_example_numbers()
    report.claims(
        report.verdict(
            "(F-36): the formula of 2008 is $-\\mathrm{ad}_{(Mv)}^\\top$", "holds", claimed < EXACT
        ),
        report.verdict(
            f"the formula of 2008 is a Coriolis matrix: its force differs by up to {worst:.2g}, and its power"
            f" $v^\\top C v$ on $SE(3)$ is up to {power:.2g}, where it has to be 0",
            "wrong",
            worst > APART and power > APART and np.ptp(energy["wrong"]) > 0.05,
        ),
    )


def _theorem(report: Report) -> None:
    report.section("The theorem of section 5, on all groups")
    report.text(
        "The theorem says that the Boltzmann-Hamel equations are $M\\dot v + "
        "\\widetilde{\\mathrm{ad}}_{(Mv)}v = \\tau$ on every Lie group. Here on all groups of the "
        "tables and on four that move no bodies, each defined in three lines, with random inertia, "
        "velocity and point $\\varphi$. The reason is short: $\\gamma_k$ are the structure constants "
        "at every point, since the velocities are left-invariant:"
    )
    report.formula(
        r"(\gamma_k)_{ij} = \sum_{l,m}\, S^{-1}_{li}\left(\frac{\partial S_{jl}}{\partial\varphi_m} -"
        r" \frac{\partial S_{jm}}{\partial\varphi_l}\right)S^{-1}_{mk} = c^j_{ik} \quad"
        r"\text{for all } \varphi, \qquad C_{ij} = \sum_k\, c^k_{ij}\,(Mv)_k",
        "(F-46)",
    )
    report.code(
        "class Heisenberg(LieGroup):\n    n, dim = 3, 3\n\n    def hat(self, u):\n"
        "        return np.array([[0, u[0], u[2]], [0, 0, u[1]], [0, 0, 0]])\n\n"
        "RigidBody(Heisenberg(), M).coriolis(v)"
    )
    rows = []
    for name, group in theorem_groups():
        e = theorem_errors(group)
        verdict = report.verdict(f"theorem on {name}", "holds", max(e[1:]) < 1e-10)
        rows.append([name, group.dim, *e, verdict])
    report.table(
        rows,
        ["group", "dim", r"$|C|$", r"$\gamma_k - c$", "(F-54), any $\\varphi$", "(F-57), $\\varphi = 0$",
         r"$Cv + \mathrm{ad}_v^\top Mv$", r"$C + C^\top$", ""],
        "Deviations; the column |C| shows where there is something to see.",
    )  # fmt: skip
    proofs = symbolic_proofs()
    report.text("And in symbols, at every point, from closed forms of $S$ with a general inertia:")
    report.claims(
        *(
            report.verdict(
                f"(F-54) is $\\widetilde{{\\mathrm{{ad}}}}_{{(Mv)}}$ on {name}, proved", "holds", proved
            )
            for name, proved in proofs.items()
        )
    )


def _roll_pitch_yaw(report: Report) -> None:
    from matplotlib import pyplot

    report.section("Why not roll, pitch and yaw")
    report.text(
        "The same equations in roll $\\phi$, pitch $\\theta$ and yaw $\\psi$ come from the same "
        "machinery with another $S$. The Coriolis matrix is the same, since it does not depend on "
        "coordinates at all; what breaks is the way back, $\\dot x = S^{-1}v$:"
    )
    e = boltzmann_hamel_equations(
        roll_pitch_yaw_transformation,
        sympy.diag(*sympy.symbols("I_x I_y I_z", positive=True)),
        coordinates=["phi", "theta", "psi"],
        velocities=["p", "q", "r"],
    )
    left = sympy.Matrix(sympy.symbols("phidot thetadot psidot"))
    report.formula(rf"{_matrix(left)} = {_matrix(e.rates)}, \qquad C = {_matrix(e.C)}")
    report.text(
        "A free top that passes the vertical at a distance $\\delta$, integrated twice with the same method"
        " (Dormand and Prince, tolerance $10^{-8}$): on $SO(3)$, and in the three angles."
    )
    delta, error = roll_pitch_yaw_accuracy()
    miss, steps, ends, peak = roll_pitch_yaw_motion()
    figure, axes = pyplot.subplots(1, 3, figsize=(10.6, 3.1), layout="constrained")
    axes[0].loglog(delta, error["angles"], color="#b3261e", label="three angles")
    axes[0].loglog(delta, error["group"], color="#14663a", label="exponential")
    axes[0].set(title="C from S and its derivatives", ylabel="relative error")
    axes[1].semilogx(miss, steps["angles"], "o-", color="#b3261e", label="three angles")
    axes[1].semilogx(miss, steps["group"], "o-", color="#14663a", label="SO(3)")
    axes[1].set(title="steps for the same motion", ylim=(0, None))
    axes[2].loglog(miss, ends["angles"], "o-", color="#b3261e")
    axes[2].loglog(miss, ends["group"], "o-", color="#14663a")
    axes[2].set(title=f"steps of {FIXED_STEP} s: error of the attitude", ylabel="[rad]")
    for axis in axes:
        axis.set_xlabel(r"distance $\delta$ of the pitch from $\pi/2$")
        axis.invert_xaxis()
    axes[0].legend(frameon=False, loc="upper left")
    axes[1].legend(frameon=False, loc="upper left")
    _plain(*axes)
    report.figure(
        figure,
        "Towards the singularity, from left to right in each picture. The rates of the angles grow as"
        " 1/distance; on the group nothing happens there. Fixed steps do worst where they just resolve"
        " the pass;"
        " the closest ones they hop over.",
    )
    report.claims(
        report.verdict(
            f"no singularity on the group: at a distance of {miss[-1]:.0e} the angles take "
            f"{steps['angles'][-1] / steps['group'][-1]:.0f} times the steps, and turn at "
            f"{peak[-1]:.0e} rad/s; with steps of {FIXED_STEP} s their attitude is wrong by up to "
            f"{max(ends['angles']):.1g} rad, where the group has {max(ends['group']):.0e}",
            "holds",
            steps["angles"][-1] > 2 * steps["group"][-1]
            and max(ends["group"]) < 1e-6
            and np.ptp(steps["group"]) <= 0.2 * max(steps["group"])
            and max(error["group"]) < EXACT
            and error["angles"][-1] > 1e-9
            and max(ends["angles"]) > 1e6 * max(ends["group"]),
        )
    )


def _fluid(report: Report) -> None:
    from matplotlib import pyplot

    report.section("Beyond rigid bodies: an ellipsoid in a fluid")
    report.text(
        "Nothing above needs $M$ to be the inertia of a rigid body. Around a body in an ideal fluid, "
        "$M$ is that of the body and of the fluid that it sets in motion (Kirchhoff, 1869), and the "
        "masses along the axes differ. A slender body that moves ahead is then unstable: the moment of "
        "Munk, $(m_u - m_v)\\,u v$, turns it broadside."
    )
    f = fluid()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.2, 3.1), layout="constrained")
    degrees = np.degrees(f.attack)
    left.plot(degrees, f.moment, color="#1f5fa8", lw=2.2, label="$-C(v)v$")
    left.plot(degrees, f.munk, "--", color="#1b1f24", lw=1.2, label=r"$(m_u - m_v)\,u\,v$")
    left.set(title="moment at 1 m/s", xlabel="angle of attack [deg]", ylabel="[N m]")
    left.legend(frameon=False)
    right.plot(f.t, np.degrees(f.heading), color="#1f5fa8")
    right.set(title="neutrally buoyant, started ahead", xlabel="t [s]", ylabel="heading [deg]")
    _plain(left, right)
    report.figure(
        figure,
        "A neutrally buoyant ellipsoid with semi-axes 1.0, 0.35 and 0.35 m in water. Left: the moment of the"
        " fluid. Right: pushed ahead at 1 m/s with a yaw rate of 0.01 rad/s, it tumbles, half a turn at a"
        " time.",
    )
    report.claims(
        report.verdict(
            "a diagonal $M$ leaves no products of velocities (after F-76): in a fluid it leaves a "
            f"moment of up to {np.abs(f.moment).max():.3g} N m at 1 m/s",
            "imprecise",
            np.abs(f.moment).max() > APART and _off(f.moment, f.munk) < EXACT * np.abs(f.moment).max(),
        ),
        report.verdict(
            f"impulse and energy of body and fluid stay: to {f.impulse_drift:.1g} and "
            f"{f.energy_drift:.1g} of their size",
            "holds",
            max(f.impulse_drift, f.energy_drift) < 1e-6,
        ),
    )


# -- table rows ---------------------------------------------------------------------------------------------


def table_row(row: Row) -> dict[str, Any]:
    """V^, ad_V and ad~_p of a group as SymPy matrices, in the paper's order of velocities."""
    e = rigid_body_equations(row.group)
    twist = sympy.zeros(6, 1)
    if row.group == SE3:
        twist = e.v
    else:
        columns = getattr(row.group, "S")  # noqa: B009  a motion subgroup
        S = sympy.Matrix(6, e.group.dim, [sympy.nsimplify(x) for x in columns.flat])
        if hasattr(row.group, "pitch"):
            S[5, 0] = sympy.Symbol("h", real=True)
        twist = S * e.v
    matrix = sympy.Matrix(SE3.hat(np.array(list(twist), dtype=object)))
    order = list(row.order)
    new = {e.momenta[k]: sympy.Symbol(f"p_{i + 1}", real=True) for i, k in enumerate(order)}
    return {
        "hat": matrix[list(row.shown), list(row.shown)],
        "ad": e.ad[order, order],
        "coad": e.coad[order, order].subs(new, simultaneous=True),
    }


def _printed(text: str) -> Any:
    """A matrix as the paper prints it."""

    def entry(word: str) -> Any:
        name = word.lstrip("-")
        if name == "0":
            return sympy.Integer(0)
        symbol = sympy.Symbol(f"p_{name[1:]}" if len(name) > 1 else name, real=True)
        return -symbol if word.startswith("-") else symbol

    return sympy.Matrix([[entry(word) for word in line.split()] for line in text.split(";")])


def derivative_of_exp(group: LieGroup, phi: Array) -> Array:
    """(g^-1 dg/dphi_j)^v at g = exp(phi), column by column, by the derivative of the graph of exp."""
    derivative = jvp(trace(group.exp, {"u": (group.dim,)}, name="exp"), "u")
    inverse = group.inverse(group.exp(phi))
    columns = [group.vee(inverse @ derivative(phi, e)) for e in np.eye(group.dim)]
    return np.stack(columns, axis=1)


# -- the derivation -----------------------------------------------------------------------------------------


def derivation_checks() -> list[tuple[str, str, float, float]]:
    """What holds: equation, claim, largest deviation, and the limit under which it counts as zero."""
    rng = np.random.default_rng(46)
    inertia = _body(rng)
    J = inertia.matrix()
    V, A = rng.standard_normal((2, 6))
    w, u = V[:3], V[3:]
    p = J @ V
    body, top = RigidBody(SE3, J), RigidBody(SO3, inertia.moments.I)
    euler = top.mass_matrix @ A[:3] + np.cross(w, top.mass_matrix @ w)
    force = (J @ A)[3:] + skew(w) @ p[3:]
    moment = (J @ A)[:3] + skew(u) @ p[3:] + skew(w) @ p[:3]
    T = SE3.element(SE3.random(rng))
    Vs = SE3.Ad(T) @ V
    back = SE3.Ad(SE3.inverse(T))
    lagrange, product, form = lagrange_check(rng)
    phi = rng.standard_normal(6)
    S = exponential_transformation(SE3)(phi)
    lemma = RigidBody(SE3, J).structure  # d(ad_x)_ik/dx_j = c[i, j, k]
    swapped = np.einsum("ijk,k->ij", lemma, A)
    dS = jacobian(trace(exponential_transformation(SE3), {"x": (6,)}, name="S"), "x")(np.zeros(6))
    first, second = np.einsum("kij,k->ij", dS, p), np.einsum("kji,k->ij", dS, p)
    C = body.coriolis(V)
    diag = np.diag([1.0, 2.0, 3.0, 2.5, 2.5, 2.5])
    printed = (
        "(F-76) in scalars, equal masses, the sixth corrected",
        _off(RigidBody(SE3, diag).efforts(V, A), _newton_euler(V, A, diag)),
    )
    return [
        (
            "1, 5, 70",
            "Euler's equations are the equations on $SO(3)$",
            _off(top.efforts(w, A[:3]), euler),
            EXACT,
        ),
        (
            "7, 11, 76",
            r"$M\dot V - \mathrm{ad}_V^\top M V = \tau$ on $SE(3)$ is $M\dot V + C V$",
            _off(body.efforts(V, A), J @ A + C @ V),
            EXACT,
        ),
        ("9, 10", "Kirchhoff's equations", _off(body.efforts(V, A), np.r_[moment, force]), EXACT),
        (
            "26",
            "Boltzmann-Hamel form against Lagrange's equations, random $S(x)$, $M$, $U(x)$ in 4 dimensions",
            lagrange,
            1e-9,
        ),
        (
            "39",
            r"$\sum_k\, \gamma_k v_k$ is $S^{-\top}(\dot S^\top - \partial(S\dot q)^\top/\partial q)$,"
            r" same system",
            product,
            1e-9,
        ),
        ("53, 54", "(F-52) and (F-54) have the same $Cv$, same system", form, 1e-9),
        (
            "29, 72",
            r"$S(\varphi) = 1 - \mathrm{ad}/2 + \mathrm{ad}^2/6 - \ldots$ is the body velocity on $SE(3)$",
            _off(S, derivative_of_exp(SE3, phi)),
            EXACT,
        ),
        (
            "61",
            r"kinetic energy by the spatial twist, $\mathrm{Ad}^\top I_b \mathrm{Ad}$",
            abs(0.5 * Vs @ back.T @ J @ back @ Vs - body.kinetic_energy(V)),
            1e-11,
        ),
        (
            "66, 91",
            r"$\{\sum_k\, \partial S_{ki}/\partial\varphi_j\,p_k\} = +\widetilde{\mathrm{ad}}_p/2$",
            _off(first, C / 2),
            EXACT,
        ),
        (
            "67, 92",
            r"$\{\sum_k\, \partial S_{kj}/\partial\varphi_i\,p_k\} = -\widetilde{\mathrm{ad}}_p/2$",
            _off(second, -C / 2),
            EXACT,
        ),
        (
            "68",
            r"$C = -\widehat{(M\omega)}$ on $SO(3)$",
            _off(top.coriolis(w), -skew(top.mass_matrix @ w)),
            EXACT,
        ),
        ("76", printed[0], printed[1], EXACT),
        ("98", r"lemma 5.1: $\mathrm{ad}_x y = \bar y x$", _off(SE3.ad(V) @ A, swapped @ V), EXACT),
        (
            "101",
            "lemma 5.3: twice the first derivative is the difference of both",
            _off(first - second, 2 * first),
            EXACT,
        ),
        (
            "106",
            r"$\widetilde{\mathrm{ad}}_{(Mv)}v = -\mathrm{ad}_v^\top M v$",
            _off(C @ V, -SE3.ad(V).T @ p),
            EXACT,
        ),
    ]


def lagrange_check(rng: np.random.Generator) -> tuple[float, float, float]:
    """Deviations of (F-26), (F-39) and (F-53) for a random S(x), M, U(x) in four dimensions."""
    n = 4
    a, b = rng.standard_normal((2, n, n, n))
    M, tau = _inertia(rng, n), rng.standard_normal(n)

    def S(x: Array) -> Array:
        return 2 * np.eye(n) + 0.3 * sin(a @ x) + 0.2 * cos(b @ x)

    def U(x: Array) -> Array:
        return sin(x[0] * x[1]) + x[2] ** 2 * cos(x[3])

    def lagrangian(z: Array) -> Array:
        x, rate = z[:n], z[n:]
        v = S(x) @ rate
        return 0.5 * (v @ M @ v) - U(x)

    x, rate = rng.standard_normal((2, n))
    slope = jacobian(trace(lagrangian, {"z": (2 * n,)}, name="L"), "z")
    curve = jacobian(slope, "z")
    z = np.r_[x, rate]
    g, H = slope(z), curve(z)
    # d/dt (dL/dx') - dL/dx = S^T tau, for x''
    acceleration = np.linalg.solve(H[n:, n:], S(x).T @ tau + g[:n] - H[n:, :n] @ rate)
    system = BoltzmannHamel(S, M, U)
    v, dS = S(x) @ rate, system.transformation_derivative(x)
    S_rate = dS @ rate
    dv = S_rate @ rate + S(x) @ acceleration
    gamma = system.hamel_coefficients(x)
    product = np.linalg.solve(S(x).T, S_rate.T - np.einsum("ijm,j->mi", dS, rate))
    forms = _off(system.coriolis(x, v) @ v, system.coriolis(x, v, form="gamma") @ v)
    return _off(system.acceleration(x, v, tau), dv), _off(np.einsum("kij,k->ij", gamma, v), product), forms


# -- slips --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Erratum:
    """A place in the paper: what is printed, what is right, and how far each is from the truth.

    printed_error is None where there is nothing to measure; `remark` then says why.
    """

    number: str
    place: str
    printed: str
    correct: str
    printed_error: float | None
    fixed_error: float
    says: str = "misprint"
    remark: str = ""


def errata() -> list[Erratum]:
    """Every slip of the paper that is known to us, recomputed."""
    rng = np.random.default_rng(54)
    n = 6
    M, (v, phi, e) = _inertia(rng, n), rng.standard_normal((3, n))
    p, ad = M @ v, SE3.ad
    system = BoltzmannHamel(exponential_transformation(SE3), M)
    zero = np.zeros(n)
    dS0, dS, inverse = (
        system.transformation_derivative(zero),
        system.transformation_derivative(phi),
        np.linalg.inv(system.transformation(phi)),
    )
    truth = SE3.coad(p)
    c = RigidBody(SE3, M).structure
    w = p[:3]

    # (49), (50) as printed: dS_sj/dphi_l, with j free, in place of dS_sm/dphi_l
    def printed_50(dS: Array, inverse: Array, p: Array) -> Array:
        return np.einsum("li,slm,mj,s->ij", inverse, dS, inverse, p) - np.einsum(
            "li,sjl,mj,s->ij", inverse, dS, inverse, p
        )

    def formula_54(dS: Array, inverse: Array, p: Array) -> Array:
        return np.einsum("li,slm,mj,s->ij", inverse, dS - dS.transpose(0, 2, 1), inverse, p)

    gamma_1 = np.einsum("li,jlm,mk->kij", inverse, dS, inverse)
    gamma_2 = np.einsum("li,jml,mk->kij", inverse, dS, inverse)
    form_52 = system.coriolis(phi, v, form="gamma")

    # planar motion in the paper's order (u, v, r)
    planar, order = Planar(Z), [1, 2, 0]
    p3 = rng.standard_normal(3)
    coad_planar = planar.coad(p3[[2, 0, 1]])[np.ix_(order, order)]
    d_ad = np.stack([planar.ad(np.eye(3)[k])[np.ix_(order, order)] for k in order], axis=-1)
    d_hat = np.stack([np.asarray(SE2.hat(np.eye(3)[k]), float) for k in order], axis=-1)
    skews = np.stack([skew(a) for a in np.eye(3)], axis=-1)
    row_66 = -0.5 * np.array([skews[:, 0, 0] @ w, skews[:, 0, 1] @ w, skews[:, 0, 1] @ w])

    # the sixth equation after (76)
    I, (pp, q, r), a = np.array([1.0, 2.0, 3.5]), v[:3], e[:3]
    euler = RigidBody(SO3, np.diag(I)).efforts(v[:3], a)[2]
    masses = np.array([1.0, 2.0, 4.0])
    munk = RigidBody(SE3, np.diag([*I, *masses])).efforts(v, e)[0]
    roll = I[0] * a[0] - (I[1] - I[2]) * q * r
    X, Y = v[[3, 4, 5, 0, 1, 2]], e[[3, 4, 5, 0, 1, 2]]  # linear first
    bracket = (ad(v) @ e)[3]
    printed_103 = -X[2] * Y[1] + Y[2] * X[1] - X[5] * Y[2] + Y[5] * X[4]
    right_103 = -X[5] * Y[1] + X[4] * Y[2] - X[2] * Y[4] + X[1] * Y[5]
    wrong_33 = duindam_stramigioli_2008(SE3, M, v)
    d2 = np.einsum("jik->ijk", dS0) - np.einsum("jki->ijk", dS0)
    line = affine()
    M2, v2 = _inertia(rng, 2), rng.standard_normal(2)
    hats = {row.name: _hat_error(row) for row in ROWS if row.hat_slip}
    closure = max(_hat_closure(row) for row in ROWS if row.hat_slip)
    universal = SE3.ad(np.eye(6)[0]) @ np.eye(6)[1]
    entries = [abs(x) for x in np.unique(ad(v)[np.abs(ad(v)) > 0])]
    return [
        Erratum(
            "0-1",
            r"table 1, $SO(3)$, $\widetilde{\mathrm{ad}}_p$",
            r"$+\hat p$",
            r"$-\hat p$, as in (68)",
            _off(skew(w), SO3.coad(w)),
            _off(-skew(w), SO3.coad(w)),
        ),
        Erratum(
            "0-2",
            r"table 1, $\mathbb{R}^3$, $\hat V$",
            "rotations $-r$, $r$",
            "rotations 0",
            hats[r"$\mathbb{R}^3$"],
            closure,
        ),
        Erratum(
            "0-3",
            r"table 1, $\mathbb{R}$, $H$, $SO(2)$, $\hat V$",
            "0",
            "the matrices of table 1 above",
            min(hats[r"$\mathbb{R}$"], hats["$H(h)$"], hats["$SO(2)$"]),
            closure,
        ),
        Erratum(
            "0-4",
            r"(74), (93), (94), table 2",
            r"$\mathrm{ad}_{(Mv)}$",
            r"$\widetilde{\mathrm{ad}}_{(Mv)}$",
            _off(ad(p), truth),
            _off(formula_54(dS0, np.eye(n), p), truth),
        ),
        Erratum(
            "0-5",
            "(79), (90)",
            r"$S_r = +\frac{1}{2}\mathrm{ad}_\varphi$",
            r"$S_r = -\frac{1}{2}\mathrm{ad}_\varphi$",
            _off(0.5 * np.einsum("kij,k->ij", d_ad, p3), coad_planar / 2),
            _off(-0.5 * np.einsum("kij,k->ij", d_ad, p3), coad_planar / 2),
        ),
        Erratum(
            "0-6",
            "(80), (81)",
            r"$\partial\hat\varphi_{k2}/\partial\varphi_2$ twice; $\hat\varphi$",
            r"$\partial/\partial\varphi_1$ once; $\mathrm{ad}_\varphi$",
            _off(-0.5 * np.einsum("kij,k->ij", d_hat, p3), coad_planar / 2),
            _off(-0.5 * np.einsum("kij,k->ij", d_ad, p3), coad_planar / 2),
        ),
        Erratum(
            "0-7",
            "(66), third column",
            r"$\partial\hat\varphi_{k1}/\partial\varphi_2$",
            r"$\partial\hat\varphi_{k1}/\partial\varphi_3$",
            _off(row_66, -0.5 * skew(w)[0]),
            _off(-0.5 * np.einsum("kj,k->j", skews[:, 0], w), -0.5 * skew(w)[0]),
        ),
        Erratum(
            "0-8",
            "(49), (50)",
            r"$\partial S_{sj}/\partial\varphi_l$",
            r"$\partial S_{sm}/\partial\varphi_l$, as in (54); the same at $\varphi = 0$",
            _off(printed_50(dS, inverse, p), truth),
            max(_off(formula_54(dS, inverse, p), truth), _off(printed_50(dS0, np.eye(n), p), truth)),
        ),
        Erratum(
            "0-9",
            "(49)",
            r"$\ldots M_{sk}$",
            r"$\ldots M_{sk}v_k$",
            _off(printed_50(dS0, np.eye(n), M.sum(axis=1)), truth),
            _off(printed_50(dS0, np.eye(n), p), truth),
        ),
        Erratum(
            "0-10",
            "(52), (53)",
            "$C_{ij}$ as in (54)",
            r"another matrix, $-\mathrm{ad}_v^\top M$, not skew, of the same $Cv$",
            min(_off(form_52, truth), _off(form_52, -form_52.T)),
            max(_off(form_52, -ad(v).T @ M), _off(form_52 @ v, truth @ v)),
            "imprecise",
        ),
        Erratum(
            "0-11",
            "(33)",
            r"$\ldots S^{-1}_{sk}M_{kl}$",
            r"$\ldots S^{-1}_{sk}M_{kl}v_l$",
            _off(np.einsum("ijk,k->ij", d2, M.sum(axis=1)), wrong_33),
            _off(np.einsum("ijk,k->ij", d2, p), wrong_33),
        ),
        Erratum(
            "0-12",
            "(33) to (37)",
            r"(33) is $-\mathrm{ad}_{(Mv)}^\top$, which is wrong",
            "so it is: it is not even of zero power",
            min(_off(wrong_33 @ v, truth @ v), abs(v @ wrong_33 @ v)),
            _off(wrong_33, -ad(p).T),
            "holds",
        ),
        Erratum(
            "0-13",
            "(45)",
            r"the minus outside $(\gamma_{k,2})_{ij}$",
            "the minus belongs to it; (46) is right",
            _off(gamma_1 + gamma_2, c.transpose(2, 1, 0)),
            _off(gamma_1 - gamma_2, c.transpose(2, 1, 0)),
        ),
        Erratum(
            "0-14",
            "after (76), sixth equation",
            r"$I_y\,r q$",
            r"$I_y\,p q$",
            abs(I[2] * a[2] - I[0] * q * pp + I[1] * r * q - euler),
            abs(I[2] * a[2] - I[0] * q * pp + I[1] * pp * q - euler),
        ),
        Erratum(
            "0-15",
            "after (76)",
            "a diagonal $M$ leaves no cross terms",
            r"it leaves $(m_w - m_v)\,v w$ and two more, but for equal masses",
            abs(roll - munk),
            abs(roll + (masses[2] - masses[1]) * v[4] * v[5] - munk),
            "imprecise",
        ),
        Erratum(
            "0-16",
            "(103)",
            r"$-X_3Y_2 + Y_3X_2 - X_6Y_3 + Y_6X_5$",
            r"$-X_6Y_2 + X_5Y_3 - X_3Y_5 + X_2Y_6$",
            abs(printed_103 - bracket),
            abs(right_103 - bracket),
        ),
        Erratum(
            "0-17",
            "lemma 5.3, end of the proof",
            r"$\partial_i(\mathrm{ad}_\varphi)_{ki} = -\partial_i(\mathrm{ad}_\varphi)_{ki}$",
            r"$\partial_j(\mathrm{ad}_\varphi)_{ki} = -\partial_i(\mathrm{ad}_\varphi)_{kj}$",
            None,
            _off(c, -c.transpose(0, 2, 1)),
            remark="says 0 = 0",
        ),
        Erratum(
            "0-18",
            "(110), (111)",
            "a vector equals a matrix, $j$ free",
            r"a sum over $j$ with $v_j$ as well",
            None,
            max(
                _off(ad(v) @ p, np.einsum("ijk,k,j->i", c, p, v)),
                _off(ad(v).T @ p, np.einsum("kji,k,j->i", c, p, v)),
            ),
            remark="shapes differ",
        ),
        Erratum(
            "0-19",
            "definition 5.1",
            r"entries $x_k$ or 0",
            r"entries $\pm x_k$ or 0 (lemma 5.2 helps)",
            None,
            max(min(abs(x - y) for y in np.abs(v)) for x in entries),
            "imprecise",
            remark=f"{np.sum(ad(np.ones(n)) < 0)} of {np.sum(ad(np.ones(n)) != 0)} negative",
        ),
        Erratum(
            "0-20",
            "4.6",
            "no Coriolis terms on all 2-dimensional groups",
            "true of subgroups of $SE(3)$; not of Aff(1)",
            float(np.abs(line.coad(M2 @ v2)).max()),
            _off(line.coad(M2 @ v2) @ v2, -line.ad(v2).T @ M2 @ v2),
            "imprecise",
        ),
        Erratum(
            "0-21",
            "definition 4.2",
            "$H$ is any selection",
            "its image has to be closed under the bracket",
            float(np.abs(universal - np.eye(6)[:, :2] @ universal[:2]).max()),
            0.0 if _universal_is_refused() else 1.0,
            "imprecise",
        ),
        Erratum(
            "0-22",
            "(49) to (57)",
            r"evaluate at $\varphi = 0$",
            r"not needed: $\gamma_k$ is constant",
            None,
            _off(system.hamel_coefficients(phi), c.transpose(2, 1, 0)),
            "imprecise",
            remark=f"$S$ differs by {_off(system.transformation(phi), np.eye(n)):.1f}",
        ),
    ]


def _hat_error(row: Row) -> float:
    """The largest entry of the difference of V^ as printed and as it is, all velocities and the pitch one."""
    ours, printed = table_row(row)["hat"], _printed(row.hat or "0")
    rest = (printed if printed.shape == ours.shape else 0 * ours) - ours
    return float(max(abs(x.subs(dict.fromkeys(x.free_symbols, 1))) for x in rest))


def _hat_closure(row: Row) -> float:
    """How far the bracket of two matrices V^ of the group is from the V^ of [v, w] = ad_v w."""
    rng, S = np.random.default_rng(3), RigidBody(row.group, np.eye(row.group.dim)).twists
    v, w = rng.standard_normal((2, row.group.dim))
    a, b = np.asarray(SE3.hat(S @ v)), np.asarray(SE3.hat(S @ w))
    return _off(a @ b - b @ a, SE3.hat(S @ (row.group.ad(v) @ w)))


def _universal_is_refused() -> bool:
    """Whether the twists of a universal joint are refused as those of a group."""
    try:
        SelectedMotions(np.eye(6)[:, :2])
    except ModelError:
        return True
    return False


# -- counter-example ----------------------------------------------------------------------------------------


def counter_example_symbols() -> tuple[Any, Any]:
    """-C omega of the formula of 2008 and of the right one on SO(3), principal axes, as SymPy columns."""
    e = rigid_body_equations(SO3)
    values = dict(zip(e.velocities, e.momentum, strict=True))
    wrong = -e.ad.subs(values, simultaneous=True).T  # (F-36)
    tidy = sympy.factor
    return (-wrong * e.v).applyfunc(tidy), (-e.C * e.v).applyfunc(tidy)


def counter_example_numbers() -> tuple[float, float, float]:
    """Deviation of its force, deviation from (F-36), and its power."""
    rng = np.random.default_rng(2008)
    force = claimed = power = 0.0
    for _ in range(20):
        M, v = _inertia(rng, 6), rng.standard_normal(6)
        C = duindam_stramigioli_2008(SE3, M, v)
        force = max(force, _off(C @ v, SE3.coad(M @ v) @ v))
        claimed = max(claimed, _off(C, -SE3.ad(M @ v).T))
        power = max(power, abs(v @ C @ v))
    return force, claimed, power


def duindam_stramigioli_2008(group: LieGroup, inertia: Array, v: Array) -> Array:
    """WRONG on purpose: the Coriolis matrix of Duindam and Stramigioli (2008), eq. (26), as From quotes it.

    Eq. (33) at phi = 0 sums over the wrong index of the curl,

        C_ij = sum over k of (dS_ji/dphi_k - dS_jk/dphi_i) (M v)_k = -(ad_(M v)^T)_ij,

    and so treats a momentum as a velocity. On SO(3) its sign is wrong, on SE(3) it makes energy.
    """
    S = trace(exponential_transformation(group, terms=2), {"x": (group.dim,)}, name="S")
    dS = np.asarray(jacobian(S, "x")(np.zeros(group.dim)))
    p = np.asarray(inertia) @ np.asarray(v)
    return np.einsum("jik,k->ij", dS, p) - np.einsum("jki,k->ij", dS, p)


def counter_example_motion() -> tuple[Array, dict[str, Array], dict[str, Array]]:
    """Energy of a free body on SE(3), and how far its angular momentum turns on SO(3), by both formulas."""
    J = SpatialInertia(1.0, np.array([0.1, -0.05, 0.2]), np.array([0.2, 0.5, 0.4])).matrix()
    top = RigidBody(SO3, np.diag([0.2, 0.5, 0.4]))
    bodies = {"SE3": RigidBody(SE3, J), "SO3": top}
    t = np.linspace(0, 4, 161)
    v0 = np.array([0.4, 0.9, 0.2, 0.6, -0.3, 0.5])
    start = np.r_[SO3.neutral(), v0[:3]]
    energy, momentum = {}, {}
    for key in ("right", "wrong"):

        def drift(body: RigidBody, v: Array, key: str = key) -> Array:
            M = body.mass_matrix
            C = body.coriolis(v) if key == "right" else duindam_closed(body.group, M, v)
            return -np.linalg.solve(M, C @ v)

        run = solve_ivp(lambda t, v, f=drift: f(bodies["SE3"], v), (0, 4), v0, R(6), t_eval=t, rtol=1e-8)
        energy[key] = np.einsum("ti,ij,tj->t", run.q, J, run.q) / (v0 @ J @ v0)
        turn = solve_ivp(
            lambda t, x, f=drift: np.r_[x[4:], f(bodies["SO3"], x[4:])],
            (0, 4), start, top.state_group, t_eval=t, rtol=1e-8,
        )  # fmt: skip
        L = np.array([SO3.element(x[:4]) @ top.mass_matrix @ x[4:] for x in turn.q])
        L = L / np.linalg.norm(L, axis=1, keepdims=True)
        momentum[key] = np.arctan2(np.linalg.norm(np.cross(L, L[0]), axis=1), L @ L[0])
    return t, energy, momentum


def duindam_closed(group: LieGroup, M: Array, v: Array) -> Array:
    """The formula of 2008 by its closed form (F-36), for integration."""
    return -group.ad(M @ v).T


# -- theorem ------------------------------------------------------------------------------------------------


def theorem_errors(group: LieGroup, seed: int = 5) -> tuple[float, float, float, float, float, float]:
    """|C|, and deviations: gamma_k from c; (54) at any phi; (57); C v from -ad_v^T M v; C from skew."""
    rng = np.random.default_rng(seed)
    n = group.dim
    M, (v, phi) = _inertia(rng, n), rng.standard_normal((2, n))
    body = RigidBody(group, M)
    system = BoltzmannHamel(exponential_transformation(group), M)
    C = body.coriolis(v)
    series = BoltzmannHamel(exponential_transformation(group, terms=3), M)
    return (
        float(np.abs(C).max()),
        _off(system.hamel_coefficients(phi), body.structure.transpose(2, 1, 0)),
        _off(system.coriolis(phi, v), C),
        _off(series.coriolis(np.zeros(n), v), C),
        _off(C @ v, -group.ad(v).T @ M @ v),
        _off(C, -C.T),
    )


def symbolic_proofs() -> dict[str, bool]:
    """Whether (54) is ad~_(M v) at every point, by SymPy from closed forms of S, with general inertia."""
    proved = {}
    for name, group in (("$SE(2)$", Planar(Z)), ("Heisenberg", heisenberg()), ("Aff(1)", affine())):
        e = rigid_body_equations(group, "general")
        x = sympy.symbols(f"x_1:{group.dim + 1}", real=True)
        ad = e.ad.subs(dict(zip(e.velocities, x, strict=True)), simultaneous=True)
        one = sympy.eye(group.dim)
        if name == "$SE(2)$":
            th = x[0]
            S = one - (1 - sympy.cos(th)) / th**2 * ad + (th - sympy.sin(th)) / th**3 * ad**2
        elif name == "Heisenberg":
            S = one - ad / 2
        else:  # ad^2 = x_1 ad
            S = one - (sympy.exp(-x[0]) - 1 + x[0]) / x[0] ** 2 * ad
        h = boltzmann_hamel_equations(S, e.M, coordinates=x, velocities=e.velocities, simplify=False)
        rest = (h.C - e.C).applyfunc(sympy.simplify)
        proved[name] = bool(rest.is_zero_matrix)
    return proved


# -- roll, pitch, yaw ---------------------------------------------------------------------------------------


def roll_pitch_yaw_accuracy() -> tuple[Array, dict[str, list[float]]]:
    """Errors of C at pitch pi/2 - delta from both transformations."""
    rng = np.random.default_rng(90)
    M, v = _inertia(rng, 3), rng.standard_normal(3)
    truth = SO3.coad(M @ v)
    size = np.abs(truth).max()
    angles = BoltzmannHamel(roll_pitch_yaw_transformation, M)
    group = BoltzmannHamel(exponential_transformation(SO3), M)
    deltas = np.logspace(0, -9, 28)
    error: dict[str, list[float]] = {"angles": [], "group": []}
    for delta in deltas:
        x = np.array([0.4, math.pi / 2 - delta, 0.7])
        error["angles"].append(max(_off(angles.coriolis(x, v), truth) / size, 1e-17))
        point = SO3.log(_attitude(x))
        error["group"].append(max(_off(group.coriolis(point, v), truth) / size, 1e-17))
    return deltas, error


def roll_pitch_yaw_motion() -> tuple[Array, dict[str, list[int]], dict[str, list[float]], list[float]]:
    """A free top that passes the pole at a distance, in angles and on SO(3).

    Distances; steps under error control; final errors of the attitude with fixed steps; the greatest rate of
    an angle.
    """
    top = RigidBody(SO3, np.diag([0.2, 0.5, 0.4]))
    on_group = top.vector_field()
    angles = BoltzmannHamel(roll_pitch_yaw_transformation, top.mass_matrix)

    def in_angles(t: float, x: Array) -> Array:
        return np.r_[angles.rates(x[:3], x[3:]), top.acceleration(x[3:])]

    def attitude(key: str, x: Array) -> Array:
        return SO3.element(x[:4]) if key == "group" else _attitude(x[:3])

    misses = np.logspace(0, -6, 7)
    steps: dict[str, list[int]] = {"angles": [], "group": []}
    ends: dict[str, list[float]] = {"angles": [], "group": []}
    peak = []
    v0 = np.array([0.3, 0, 1.0])  # q = 0: the pitch is at rest
    for miss in misses:
        nearest = np.array([0, math.pi / 2 - miss, 0])  # at t = 0
        peak.append(float(np.abs(angles.rates(nearest, v0)).max()))
        x0 = np.r_[SO3.coordinates(_attitude(nearest)), v0]
        begin, end = (
            solve_ivp(on_group, (0, t), x0, top.state_group, rtol=1e-11, atol=1e-12).q[-1] for t in (START, 1)
        )
        start = np.r_[_angles_of(SO3.element(begin[:4])), begin[4:]]
        for key, field, x, group in (
            ("group", on_group, begin, top.state_group),
            ("angles", in_angles, start, R(6)),
        ):
            free = solve_ivp(field, (START, 1), x, group, rtol=1e-8, atol=1e-8)
            fixed = solve_ivp(field, (START, 1), x, group, method="rkmk4", dt=FIXED_STEP).q[-1]
            steps[key].append(free.steps + free.rejected)
            turn = SO3.log(SO3.element(end[:4]).T @ attitude(key, fixed))
            ends[key].append(float(np.linalg.norm(turn)))
    return misses, steps, ends, peak


def _attitude(x: Array) -> Array:
    """R = Rz(yaw) Ry(pitch) Rx(roll)."""
    roll, pitch, yaw = (SO3.exp(angle * e) for angle, e in zip(x, np.eye(3), strict=True))
    return yaw @ pitch @ roll


def _angles_of(rotation: Array) -> Array:
    """Roll, pitch and yaw of R."""
    flat = math.hypot(rotation[2, 1], rotation[2, 2])
    return np.array(
        [
            math.atan2(rotation[2, 1], rotation[2, 2]),
            math.atan2(-rotation[2, 0], flat),
            math.atan2(rotation[1, 0], rotation[0, 0]),
        ]
    )


# -- fluid --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fluid:
    """The ellipsoid: moment over the angle of attack, beside Munk's formula; a motion and what it keeps."""

    attack: Array
    moment: Array
    munk: Array
    t: Array
    heading: Array
    impulse_drift: float
    energy_drift: float


def fluid(semi_axes: Sequence[float] = (1.0, 0.35, 0.35), density: float = 1000.0) -> Fluid:
    """A neutrally buoyant ellipsoid in an ideal fluid."""
    a = np.asarray(semi_axes, dtype=float)
    mass = 4 / 3 * math.pi * density * a.prod()
    I = mass / 5 * np.array([a[1] ** 2 + a[2] ** 2, a[2] ** 2 + a[0] ** 2, a[0] ** 2 + a[1] ** 2])
    body = RigidBody(
        SE3,
        SpatialInertia(mass, rotational=I),
        added_mass=ellipsoid_added_mass(semi_axes, density),
        buoyancy=(mass, np.zeros(3)),
    )
    M = body.mass_matrix
    attack = np.linspace(0, math.pi / 2, 91)
    velocities = [np.array([0, 0, 0, math.cos(x), math.sin(x), 0]) for x in attack]
    moment = np.array([-(body.coriolis(v) @ v)[2] for v in velocities])
    munk = np.array([(M[3, 3] - M[4, 4]) * v[3] * v[4] for v in velocities])

    start = np.r_[SE3.neutral(), 0, 0, 0.01, 1, 0, 0]
    t = np.linspace(0, 60, 301)
    run = solve_ivp(
        body.vector_field(gravity=(0, 0, -9.81)),
        (0, 60),
        start,
        body.state_group,
        t_eval=t,
        rtol=1e-8,
        atol=1e-9,
    )
    T = [SE3.element(x[:7]) for x in run.q]
    heading = np.unwrap([math.atan2(g[1, 0], g[0, 0]) for g in T])
    impulse = np.array([SE3.Ad(SE3.inverse(g)).T @ M @ x[7:] for g, x in zip(T, run.q, strict=True)])
    energy = np.array([body.kinetic_energy(x[7:]) for x in run.q])
    return Fluid(
        attack, moment, munk, t, heading,
        float(np.abs(impulse - impulse[0]).max() / np.abs(impulse[0]).max()),
        float(np.abs(energy / energy[0] - 1).max()),
    )  # fmt: skip


# -- small things -------------------------------------------------------------------------------------------


def _inertia(rng: np.random.Generator, n: int) -> np.ndarray:
    """A random symmetric positive definite matrix of order one: no rigid body's, in general."""
    A = rng.standard_normal((n, n))
    return A @ A.T / n + np.eye(n)


def _body(rng: np.random.Generator) -> SpatialInertia:
    """A random rigid body, its frame away from its centre of mass."""
    points, masses = rng.standard_normal((8, 3)), rng.uniform(0.1, 1, 8)
    return sum((SpatialInertia.point(m, x) for m, x in zip(masses, points, strict=True)), SpatialInertia())


def _newton_euler(V: Array, A: Array, M: Array) -> Array:
    """The six scalar equations after (F-76), the sixth corrected."""
    (p, q, r, u, v, w), (dp, dq, dr, du, dv, dw) = V, A
    Ix, Iy, Iz, m = M[0, 0], M[1, 1], M[2, 2], M[3, 3]
    return np.array(
        [
            Ix * dp - Iy * r * q + Iz * q * r,
            Iy * dq + Ix * r * p - Iz * p * r,
            Iz * dr - Ix * q * p + Iy * p * q,
            m * du - m * r * v + m * q * w,
            m * dv + m * r * u - m * p * w,
            m * dw - m * q * u + m * p * v,
        ]
    )


def _off(A: Array, B: Array) -> float:
    """The largest deviation of an entry."""
    return float(np.abs(np.asarray(A, float) - np.asarray(B, float)).max(initial=0.0))


def _matrix(matrix: Any) -> str:
    if matrix.shape == (1, 1):
        return str(sympy.latex(matrix[0]))
    text = str(sympy.latex(matrix, mat_str="matrix", fold_func_brackets=True))
    return re.sub(r"\\(sin|cos|tan) ", r"\\,\\\1\\,", text)


def _sides(column: Any) -> str:
    rates = (r"I_x\dot p", r"I_y\dot q", r"I_z\dot r")
    return r",\quad ".join(f"{rate} = {sympy.latex(x)}" for rate, x in zip(rates, column, strict=True))


def _plain(*axes: Any) -> None:
    """Pictures without frames."""
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.title.set_fontsize(10.5)
