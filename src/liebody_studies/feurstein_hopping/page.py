"""Feurstein (2021), chapter 4, recomputed: hopping robots on virtual springs, and what became of their gaits.

All experiments with the panels of the thesis' figures, the tuning curve, the energy balance of experiment
VI; a table of its numbers beside ours. Then what the thesis left open: the gaits as limit cycles, their
stability over gains, their basins of attraction; Controller III; a prismatic leg that hops forwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from liebody import dynamics

from ..report import Report
from . import beyond, gaits, pictures
from . import underactuated_report as underactuated
from .experiments import (
    EXPERIMENTS,
    FAST,
    Q_102,
    REVOLUTE,
    VARIANTS,
    Audit,
    Curve,
    Run,
    audit,
    convergence,
    perturbed,
    robot,
    run,
    simulate,
    tuning_curve,
    under_controller_1,
)

Array = Any
TITLE = "Hopping on virtual springs, recomputed"
SOURCE = (
    "M. Feurstein (2021), Formulation of decoupled dynamics for efficient control of floating base robots. "
    "Master's thesis, Technical University of Munich. Chapter 4."
)
FIGURES = {
    "prismatic I": "4.3",
    "prismatic II": "4.4",
    "prismatic III": "4.5",
    "revolute I": "4.8",
    "revolute II": "4.9",
    "revolute III": "4.10",
    "revolute IV": "4.11",
    "revolute V": "4.12",
}
WORDS = {
    "prismatic I": (
        "Controller I, without the regulator. From a start that is symmetric to the last bit the leg stays "
        "upright for ever; here the base is turned by 1e-9 rad, as the noise of an integrator would, and "
        "it falls."
    ),
    "prismatic II": "Controller II, without the regulator: it hops in place, loses energy, and rests.",
    "prismatic III": "With the regulator: the energy is back at each apex; some of it stays in the spring.",
    "revolute I": (
        "Controller I, without the regulator: the first lift-off leaves a momentum that turns the leg by "
        "30 deg; the next throws it aside."
    ),
    "revolute II": (
        "Controller II, without the regulator: it drifts ahead, and the sign of h changes between most hops."
    ),
    "revolute III": (
        "With the regulator: the energy is back at each apex, but the undamped spring swings more from "
        "hop to hop, until the leg falls."
    ),
    "revolute IV": (
        "The radial damper acts in flight: the swinging is gone, and the hopper settles almost in place, "
        "with its leg leaning by 36 deg."
    ),
    "revolute V": "The same from 30 deg: slow at first, then it speeds up and settles in another gait.",
}
GAITS = (*FIGURES, "revolute VI")
EXCERPTS = {
    "revolute IV": (8.0, 11.0),
    "revolute V": (0.0, 6.0),
    "revolute VI": (0.0, 1.5),
    "prismatic III": (0, 2),
}


class Row(NamedTuple):
    """A number or a claim of the thesis, what we find, and whether this run bears the verdict out."""

    what: str
    thesis: str
    ours: str
    says: str
    confirmed: bool


def seeded() -> Run:
    """Prismatic experiment I, the base turned by 1e-9 rad: what falls after some hops."""
    x = EXPERIMENTS["prismatic I"]
    q0 = np.array(x.q0) + [1e-9, 0, 0, 0]
    return simulate(x.hopper, q0, x.v0, 3.0, x.parameters)


def thrown(run: Run) -> tuple[float, float, float]:
    """At the last lift-off: speed ahead and upwards [m/s], angle of the leg [deg]."""
    log = run.data.events.of("floor_foot", 1).where([-1])
    (u,) = run.centre(log)[1]
    return float(u[0]), float(u[1]), float(run.angle(log)[0])


def spring_at(run: Run, log: Any) -> Array:
    """Energy of the radial spring at events [J]."""
    p = run.data.parameters
    return p["K_r"] / 2 * (run.length(log) - p["r_des"]) ** 2


def turned(run: Run) -> Array:
    """Angles by which the leg turns in flights, from lift-off to the next touch-down [deg]."""
    up, down = run.lift_offs, run.touch_downs
    n = min(len(up), len(down) - 1)
    return run.angle(down)[1 : n + 1] - run.angle(up)[:n]


# -- the table ----------------------------------------------------------------------------------------------


def prismatic_rows() -> list[Row]:
    one, two, three, fallen = run("prismatic I"), run("prismatic II"), run("prismatic III"), seeded()
    E = three.energy(three.apexes)
    spring = 1e3 * spring_at(three, three.apexes)
    tilt = np.abs(fallen.angle(fallen.touch_downs))
    growth = tilt[1:6] / tilt[:5]
    start = EXPERIMENTS["prismatic III"].q0
    model = robot("prismatic")
    levels = [float(model.potential_energy(np.array(q))) for q in (start, (*start[:3], 0.114))]
    straight = np.abs(one.angle(one.touch_downs)).max()
    shaken = perturbed("prismatic III", (1e-6,), 8.0)[0]
    return [
        Row(
            "I: the leg tilts, from the noise of the simulation",
            "after 7 hops",
            f"never if symmetric (|alpha| < {straight:.0e} deg); from 1e-9 rad {tilt[6]:.1g}, {tilt[7]:.1f}, "
            f"{tilt[8]:.0f} deg at touch-downs 7 to 9",
            "cannot be",
            straight < 1e-6 and 0.3 < tilt[6] < 1.5 and tilt[8] > 20,
        ),
        Row(
            "I: the upright leg is in an unstable equilibrium",
            "unstable",
            f"a hop makes a tilt {growth.max():.1f} times as large at first, {growth.min():.1f} times after "
            "five",
            "reproduced",
            abs(growth[0] - 27.5) < 0.5 and growth.min() > 10,
        ),
        Row(
            "II: at rest after so many jumps",
            "12",
            str(len(two.touch_downs)),
            "reproduced",
            len(two.touch_downs) == 12,
        ),
        Row(
            "II, III: polar control makes the upright leg stable",
            "stable",
            f"III from 1e-6 rad falls at {float(shaken.data.end_times):.1f} s",
            "wrong",
            str(shaken.data.ends) == "stopped",
        ),
        Row(
            "III: energy at each apex",
            "2.9047 J",
            f"{E.min():.6f} to {E.max():.6f} J",
            "reproduced",
            np.abs(E - 2.904741).max() < 1e-5,
        ),
        Row(
            "III: the spring's energy in flight rises a little",
            "slightly",
            ", ".join(f"{x:.1f}" for x in spring[:5]) + " mJ",
            "reproduced",
            bool(np.all(np.diff(spring[:5]) > 0)) and abs(spring[4] - spring[-1]) < 0.5,
        ),
        Row(
            "q1(0) in table 4.7",
            "0.114 m, E = 2.9047 J",
            f"0.12 m gives {levels[0]:.4f} J, 0.114 m {levels[1]:.4f} J before the spring's",
            "misprint",
            abs(levels[0] - 2.904741) < 1e-5 and abs(levels[1] - 2.9047) > 1e-3,
        ),
    ]


def revolute_rows(curve: Curve) -> list[Row]:
    at, least = curve.minimum
    one, two, three, four, five = (run(f"revolute {k}") for k in ("I", "II", "III", "IV", "V"))
    flight, (ahead, upwards, lean) = turned(one)[0], thrown(one)
    h1 = 1e3 * float(one.momentum(one.lift_offs)[0])
    h2, h3 = 1e3 * two.momentum(two.lift_offs), 1e3 * three.momentum(three.lift_offs)
    changes = [int(np.count_nonzero(np.diff(np.sign(h)) != 0)) for h in (h2, h3)]
    E3 = three.energy(three.apexes)[:8]
    t4 = np.abs(turned(four))
    a4 = four.apexes
    c4 = four.centre(a4)[0]
    speed4 = float((c4[-1, 0] - c4[-9, 0]) / (a4.t[-1] - a4.t[-9]))
    E5 = five.energy(five.apexes)
    q43 = five.apexes.q[42]
    t43 = float(five.apexes.t[42])
    levels = [float(start_energy(name)) for name in ("revolute I", "revolute V")]
    at_102 = float(np.interp(102, curve.angles, np.abs(curve.h)))
    return [
        Row(
            "4.7: h after the first lift-off is least at",
            "102 deg",
            f"{at:.1f} deg; 102 deg is {100 * (at_102 / least - 1):.1f} % above it",
            "not",
            abs(at - 109.3) < 1 and at_102 < 1.02 * least,
        ),
        Row(
            "E(0) of experiments I to IV in table 4.12",
            "2.8382 J",
            f"{levels[0]:.4f} J; 2.8382 is that of V, {levels[1]:.6f} J",
            "misprint",
            abs(levels[0] - 2.8674) < 1e-4 and abs(levels[1] - 2.838210) < 1e-5,
        ),
        Row(
            "I: angle of the leg turned in the first flight",
            "about 30 deg",
            f"{flight:.2f} deg",
            "reproduced",
            abs(flight - 30.22) < 0.05,
        ),
        Row(
            "I: h after the first lift-off",
            "positive",
            f"{h1:.3f}e-3 kg m2/s",
            "reproduced",
            abs(h1 - 1.718) < 2e-3,
        ),
        Row(
            "I: after the second touch-down",
            "cannot make another hop, but jumps away",
            f"leaves the floor backwards at {-ahead:.2f} m/s, sinking at {-upwards:.2f} m/s, its leg at "
            f"{lean:.0f} deg",
            "reproduced",
            len(one.apexes) == 1 and ahead < -1.5 and upwards < 0 and str(one.data.ends) == "stopped",
        ),
        Row(
            "II: h changes its sign from hop to hop",
            "always",
            f"{changes[0]} times in {len(h2)} hops",
            "partly",
            0 < changes[0] < len(h2) - 1,
        ),
        Row(
            "III: h changes its sign from hop to hop",
            "always",
            f"{changes[1]} times in {len(h3)} hops",
            "not",
            changes[1] < len(h3) / 2,
        ),
        Row(
            "III: energy at each apex",
            "2.8382 J",
            f"{E3.min():.6f} to {E3.max():.6f} J, 8 hops",
            "reproduced",
            np.abs(E3 - 2.8382).max() < 1e-4,
        ),
        Row(
            "III: relatively stable",
            "stable",
            f"falls at {float(three.data.end_times):.2f} s, after {len(three.apexes)} hops",
            "not",
            str(three.data.ends) == "stopped",
        ),
        Row(
            "IV: angle turned in flight",
            "about 3 deg",
            f"{t4[0]:.0f} deg in the first, {t4[1:8].min():.1f} to {t4[1:8].max():.1f} deg after, at last "
            f"{t4[-1]:.1f} deg",
            "partly",
            t4[0] > 25 and t4[1:].max() < 6,
        ),
        Row("IV: drift", "small, negative", f"{speed4:.4f} m/s", "reproduced", -0.05 < speed4 < 0),
        Row(
            "V: settles at a lower energy",
            "lower than 2.8382 J",
            f"{E5[-1]:.4f} J",
            "reproduced",
            E5[-1] < 2.6,
        ),
        Row(
            "V: time of the apex from which VI starts (the 43rd)",
            "16.7010 s",
            f"{t43:.4f} s",
            "reproduced",
            abs(t43 - 16.7178) < 2e-3,
        ),
        Row(
            "V: base there",
            "(2.7676, 0.2574) m, -2.5243 rad",
            f"({q43[1]:.4f}, {q43[2]:.4f}) m, {q43[0]:.4f} rad",
            "reproduced",
            bool(np.allclose(q43[[1, 2, 0]], [2.7337, 0.2574, -2.5244], atol=2e-3)),
        ),
    ]


def start_energy(name: str) -> Any:
    """T + U + spring at the start; the leg starts at the spring's rest length, to rounding of the table."""
    x = EXPERIMENTS[name]
    return robot(x.hopper).potential_energy(np.array(x.q0, float))


def six_rows(books: Audit, gait: gaits.Gait) -> list[Row]:
    six = run("revolute VI")
    cy, vx, _, omega, _, _ = gait.x
    liftoff = 1e3 * float(spring_at(six, six.lift_offs)[-1])
    stretch = 1e3 * float(six.length(six.lift_offs)[-1] - REVOLUTE["r_des"])
    height = float(robot("revolute").pose(np.array(EXPERIMENTS["revolute VI"].q0), "foot")[2, 3])
    shank = 1e3 * 0.05 * 9.81 * height
    per_hop = books.floor / books.touch_downs
    impact = books.plastic * books.touch_downs

    def near(
        what: str, thesis: float, ours: float, expected: float, tolerance: float, unit: str, off: float
    ) -> Row:
        """Ours must be what it was found to be, and is called reproduced within `off` of the thesis."""
        says = "reproduced" if abs(ours / thesis - 1) <= off else "partly"
        return Row(what, f"{thesis:g} {unit}", f"{ours:.5g} {unit}", says, abs(ours - expected) <= tolerance)

    return [
        near("VI: height of the apex", 0.24773, cy, 0.24776922, 1e-5, "m", 0.01),
        near("VI: speed at the apex", 0.23278, vx, 0.23223440, 1e-4, "m/s", 0.01),
        near("VI: angular velocity of the base at the apex", 0.3301, omega, 0.32760575, 1e-4, "rad/s", 0.01),
        near("VI: spring at lift-off", 80, liftoff, 82.74, 0.1, "mJ", 0.05),
        near("VI: its stretch", 9, stretch, 8.67, 0.01, "mm", 0.05),
        near("VI: weight of the shank times height of the foot", 52, shank, 52.3, 0.2, "mJ", 0.02),
        near("VI: external work in 20 s", 7.15, books.external, 7.141, 2e-3, "J", 0.01),
        near("VI: work of the joint", 4.65, books.joint, 4.901, 2e-3, "J", 0.02),
        near("VI: their sum", 11.8, books.total, 12.042, 2e-3, "J", 0.03),
        near("VI: radial damper", 5.9, books.damper, 5.600, 2e-3, "J", 0.02),
        Row(
            "VI: energy stored in springs accumulates to",
            "zero",
            "zero, but for the last hop's",
            "reproduced",
            abs(float(np.ptp(spring_at(six, six.apexes)))) < 1e-3,
        ),
        near("VI: loss at a touch-down", 45, 1e3 * books.drops[5e-4], 50.7, 0.5, "mJ", 0.02),
        Row(
            "VI: losses at touch-downs, with 45 mJ each",
            "2.9 J",
            f"2.9 J / 45 mJ = 64 touch-downs; there are {books.touch_downs}",
            "cannot be",
            books.touch_downs == 54,
        ),
        Row(
            "VI: floor after touch-down",
            "3.0 J",
            f"{books.floor - impact:.2f} J (all {books.floor:.2f} J less {impact:.2f} J of plastic impacts)",
            "wrong",
            abs(books.floor - impact - 8.75) < 0.05,
        ),
        Row(
            "VI: the damper takes a share of the work provided",
            "50 %",
            f"{100 * books.damper / (books.total + books.damper):.0f} % of what the drives give before it",
            "wrong",
            abs(books.damper / (books.total + books.damper) - 0.32) < 0.01,
        ),
        Row(
            "VI: loss per hop",
            "about 7 % of 2.8382 J",
            f"{1e3 * per_hop:.0f} mJ, {100 * per_hop / 2.8382:.1f} %",
            "reproduced",
            abs(per_hop / 2.8382 - 0.0786) < 5e-4,
        ),
        Row(
            "K_E of III to VI in table 4.12",
            "20",
            "10, as in its text: with 20 the state of VI is no apex of a gait",
            "misprint",
            abs(off_gait(10.0)) < 0.02 < abs(off_gait(20.0)),
        ),
    ]


def off_gait(K_E: float) -> float:
    """How much the height of the apex changes over ten hops from the state of VI, relative to the first."""
    x = EXPERIMENTS["revolute VI"]
    found = simulate(x.hopper, x.q0, x.v0, 4.5, {**x.parameters, **FAST, "K_E": K_E}, 0.1)
    cy = found.centre(found.apexes)[0][:, 1]
    return float(cy[min(10, len(cy) - 1)] / 0.24773 - 1)


# -- the report ---------------------------------------------------------------------------------------------


def study(basin_size: int = 14, map_size: tuple[int, int] = (17, 14)) -> Report:
    """The report.

    basin_size  runs along each side of the map of basins
    map_size    values of K_p and alpha_des in the map of Controller III
    """
    report = Report(TITLE, SOURCE)
    books, curves = audit(), {name: tuning_curve(name, np.arange(60, 141, 1.0)) for name in VARIANTS}
    six, four = gaits.shoot(gaits.settled("revolute VI")), gaits.shoot(gaits.settled("revolute IV"))
    _numbers(report, [*prismatic_rows(), *revolute_rows(curves["K_p = 0, K_E = 0"]), *six_rows(books, six)])
    _model(report)
    _experiments(report)
    _radial(report)
    _tuning(report, curves)
    _six(report, books)
    _symmetry(report)
    _knee(report)
    _accuracy(report)
    _limit_cycles(report, six, four)
    fast = _continuation(report, six, four)
    _watched(report, six, four)
    _chatter(report, fast)
    _basin(report, six, four, basin_size)
    _locked(report, map_size)
    _forwards(report)
    underactuated.add_to(report)
    return report


def _numbers(report: Report, rows: list[Row]) -> None:
    report.section("The thesis' numbers and ours")
    report.text(
        "Where a number is called reproduced it agrees within what the thesis' integration (a loose "
        "tolerance, sampled each millisecond) leaves open, some per cent for works. Of its figures "
        "only the captions and the text were at hand, not the pictures: panels below show what these "
        "say the panels show."
    )
    cells = [
        [row.what, row.thesis, row.ours, report.verdict(row.what, row.says, row.confirmed)] for row in rows
    ]
    report.table(cells, ["", "thesis", "here", "verdict"])


def _model(report: Report) -> None:
    report.section("The model")
    report.text(
        "Point masses; g = 9.81 m/s2; the foot is a point and has no mass in the revolute hopper. "
        r"All controllers have $\tau_r = -K_r(r - r_{des}) - D_r\dot r - K_E(E - E_{des})\,\dot r$ along the "
        r"leg, in flight as in stance, but $D_r$ in flight only; $r_{des}$ is the leg's length at the start. "
        r"That is all of Controller I: no torque acts on the base. Controller II adds "
        r"$\tau_p = -K_p(\alpha - \alpha_{des})$ in stance, with $\alpha_{des} = 0$, and nothing in flight; "
        r"Controller III takes the locked frame's angle for $\alpha$. Experiments I have Controller I, with "
        r"$K_E = 0$; all others have Controller II, with $K_E = 0$ in II; none has Controller III. The "
        r"floor, while the foot is not above it: $F_y = \max(-K y - D\dot y, 0)$ and "
        r"$F_x = -K(x - x_{td}) - D\dot x$. $K_E = 10$ for the revolute hopper, E with the energy of the "
        "radial spring.",
        "Touch-downs and lift-offs are located to 1e-14 s. The foot bounces two or three times just after "
        "each touch-down, within 0.3 ms; such a bounce is located too and belongs to the same stance.",
    )


def _experiments(report: Report) -> None:
    report.section("Experiments, figures 4.3 to 4.12")
    for name, number in FIGURES.items():
        found = seeded() if name == "prismatic I" else run(name)
        title = name[0].upper() + name[1:]
        report.section(f"{title}: figure {number}", 3)
        report.text(WORDS[name])
        report.figure(pictures.four_panels(found), f"Figure {number}, from our simulation.")
        first, last = EXCERPTS.get(name, (0.0, None))
        report.picture(pictures.moving(found, first, last, 36), f"{title}, slower than it is.")


def _radial(report: Report) -> None:
    report.section("Controller I, with the regulator and without")
    runs = under_controller_1()
    multiplier = float(gaits.prismatic_multipliers(np.zeros(1))[0, 0].real)
    report.text(
        "The thesis gives Controller I the regulator and runs it without, in its experiments I. Here both "
        "ways, from the starts of its experiments; the prismatic leg tilted by 1e-9 rad. The regulator "
        "keeps the energy, not the leg upright: with it the upright prismatic hop is a gait, which makes a "
        f"tilt {multiplier:.1f} times as large from apex to apex. Legs with more joints can hop without a "
        "torque on the base, under the same radial force in stance: see the end of this page."
    )
    rows = [
        [name, f"{K_E:g}", f"{D_r:g}", len(x.touch_downs), f"{float(x.data.end_times):.2f}"]
        for (name, K_E, D_r), x in runs.items()
    ]
    report.table(rows, ["start of", "K_E", "D_r in flight", "touch-downs", "falls at [s]"])
    acting = max(np.nanmax(np.abs(x.out["efforts"][:, :3])) for x in runs.values())
    report.claims(
        report.verdict("under Controller I nothing acts on the base", "holds", acting == 0),
        report.verdict(
            "under-actuated hopping in place with a prismatic leg is unstable by design, also with the "
            "regulator",
            "holds",
            abs(multiplier - 31.6) < 0.1,
        ),
        report.verdict(
            "the revolute hopper falls within 1 s from every start of the thesis, with regulator and damper "
            "and without",
            "holds",
            all(x.data.end_times < 1 for key, x in runs.items() if key[0].startswith("revolute")),
        ),
    )


def _tuning(report: Report, curves: dict[str, Curve]) -> None:
    report.section("The tuning curve, figure 4.7")
    at, _ = curves["K_p = 0, K_E = 0"].minimum
    with_polar, _ = curves["K_p = 6, K_E = 0"].minimum
    report.text(
        f"The thesis finds the least momentum after the first lift-off at 102 deg. We find {at:.1f} "
        f"deg without polar control and {with_polar:.1f} deg with it. The curve is flat: at 102 deg h "
        "is 1 % above its minimum, so that choice loses nothing, and a simulation with errors of 1 % "
        "may well find its minimum there. With the spring's rest length held at that of 102 deg "
        "instead, the leg starts with a loaded spring, and the curve is ragged with changes of sign "
        "(right)."
    )
    report.figure(pictures.tuning(curves), "|h| after the first lift-off over the knee's angle at the start.")


def _six(report: Report, books: Audit) -> None:
    report.section("Experiment VI, figures 4.13 to 4.17")
    six = run("revolute VI")
    log = six.apexes
    x = EXPERIMENTS["revolute VI"]
    late = simulate(x.hopper, log.q[-4], log.v[-4], 1.2, x.parameters, 2e-4)
    after = float(log.t[-4])
    report.figure(pictures.motion_panels(six), "Figure 4.13: the whole run.")
    report.figure(
        pictures.force_panels(six), "Figure 4.14: the whole run, each millisecond as in the thesis."
    )
    report.figure(pictures.motion_panels(late, after), "Figure 4.15: zoom at the end.")
    report.figure(
        pictures.force_panels(late, after),
        "Figure 4.16: zoom at the end, each 0.2 ms. The bursts of the floor are the micro-bounces.",
    )
    report.figure(pictures.screenshots(six), "Figure 4.17: a cycle, drawn side by side.")
    report.picture(pictures.moving(six, *EXCERPTS["revolute VI"], 36), "Revolute VI, slower than it is.")
    report.section("The energy balance", 3)
    report.text(
        "The work of the joint torque already contains what the damper takes, since the damper is part "
        "of that torque: the thesis counts the damper twice. All of the external and joint work goes "
        f"into the floor, {books.total:.3f} J in and {books.floor:.3f} J out; the 3.0 J that it leaves "
        "for the floor after touch-down are a residual that is too small by the 5.9 J of the damper."
    )
    report.figure(
        pictures.balance(six, books),
        "Left: what goes in is what the floor takes; with the damper on top more would go out than comes "
        "in. Right: "
        "the thesis' sheet and ours.",
    )
    books_rows: list[list[Any]] = [
        ["external work, $\\int\\tau_p\\omega\\,dt$", "7.15", books.external, books.sampled["external"]],
        ["work of the joint, $\\int\\tau_q\\dot q\\,dt$", "4.65", books.joint, books.sampled["joint"]],
        ["radial damper, $\\int D_r\\dot r^2dt$", "5.9", books.damper, books.sampled["damper"]],
        ["regulator, $\\int\\tau_E\\dot r\\,dt$", "", books.regulator, None],
        ["polar torque on the joint", "", books.polar_joint, None],
        ["floor, normal", "", books.floor_normal, None],
        ["floor, tangential", "", books.floor_tangential, None],
        ["plastic impacts, 54 in all", "2.9", books.plastic * books.touch_downs, None],
    ]
    report.table(
        [[a, b, *("" if x is None else f"{x:.3f}" for x in c)] for a, b, *c in books_rows],
        ["in 20 s, in joules", "thesis", "integrated along", "from samples of 1 ms"],
    )
    drops = ", ".join(f"{1e3 * loss:.1f} mJ in {1e3 * w:g} ms" for w, loss in books.drops.items())
    report.text(
        f"Kinetic energy lost after a touch-down: {drops}; a plastic impact would take "
        f"{1e3 * books.plastic:.1f} mJ."
    )
    parts = (books.regulator, -books.damper, books.polar_joint)
    report.claims(
        report.verdict(
            f"regulator less damper plus polar part, {sum(parts):.3f} J, is the work of the joint: the "
            "springs give back what they take",
            "holds",
            abs(sum(parts) - books.joint) < 2e-3,
        ),
        report.verdict(
            "external plus joint work is what the floor takes, to 1 mJ",
            "holds",
            abs(books.total - books.floor) < 1e-3,
        ),
    )


def _symmetry(report: Report) -> None:
    report.section("Stability that rests on symmetry")
    seeds = (1e-9, 1e-6, 1e-3, 1e-2)
    found = {
        name: list(zip(seeds, perturbed(name, seeds, 10.0), strict=True))
        for name in ("prismatic I", "prismatic II", "prismatic III")
    }
    K = np.linspace(0, 24, 97)
    values = gaits.prismatic_multipliers(K)
    size = np.abs(values[:, 0])
    at_6 = float(np.interp(6.0, K, values[:, 0].real))
    windows = stable_windows(K, size)
    report.text(
        "The thesis says that polar control with $K_p = 6$ keeps the prismatic leg upright. A start "
        "without the slightest tilt stays upright with any gain; of a small tilt the gait of "
        f"experiment III makes {at_6:.2f} times as much in each hop, so that it falls sooner or later. "
        "Experiment II comes to rest before that if the tilt is small enough. There are gains that do "
        "stabilise the gait, K_p = "
        + " and ".join(f"{a:.2f} to {b:.2f}" for a, b in windows)
        + " Nm/rad: narrow windows, and 6 is not in them."
    )
    report.figure(
        pictures.tilting(found), "Tilt at touch-downs from small angles at the start, K_p = 0, 6, 6."
    )
    report.figure(
        pictures.multipliers_over(K, values),
        "The multipliers of tilting of the upright gait of III over K_p.",
    )
    falls = [str(r.data.ends) == "stopped" for _, r in found["prismatic III"]]
    report.claims(
        report.verdict(
            "polar control with K_p = 6 stabilises the upright hopping gait (experiment III)",
            "wrong",
            abs(at_6) > 2 and all(falls),
        )
    )


def lowest_knees() -> dict[str, tuple[float, float]]:
    """Lowest height of the knee in each experiment, and in its last 2 s [m]."""
    found = {}
    for name in EXPERIMENTS:
        if name.startswith("revolute"):
            x = run(name)
            height = x.out["knee"][: x.last + 1, 2]
            found[name] = (float(height.min()), float(height[x.t[: x.last + 1] > x.t[x.last] - 2].min()))
    return found


def _knee(report: Report) -> None:
    report.section("The knee under the floor")
    found = lowest_knees()
    four = 1e3 * found["revolute IV"][1]
    report.text(
        "Only the foot touches the floor in the model, and nothing keeps the knee above it. The gait "
        f"of experiment IV, with its leg leaning by 36 deg, takes its knee {-four:.0f} mm under the "
        "floor in every stance: it is a gait of the model, and not of a leg. So do early hops of II, "
        "III and V. The gait of experiment VI keeps its knee 65 mm above."
    )
    report.table(
        [[name[0].upper() + name[1:], f"{1e3 * a:.1f}", f"{1e3 * b:.1f}"] for name, (a, b) in found.items()],
        ["experiment", "knee, lowest [mm]", "in its last 2 s [mm]"],
    )
    report.figure(pictures.knees({name: run(name) for name in ("revolute IV", "revolute V", "revolute VI")}))
    report.claims(
        report.verdict(
            "experiment IV is a stable gait: of the model; of a leg it cannot be, with its knee in the "
            "ground",
            "imprecise",
            found["revolute IV"][1] < -0.02,
        ),
        report.verdict(
            "experiment VI is a gait that a leg can do: its knee stays above the floor",
            "holds",
            found["revolute VI"][0] > 0.06,
        ),
    )


def stable_windows(K: Array, size: Array) -> list[tuple[float, float]]:
    """Intervals of K where size < 1, by linear interpolation."""
    found: list[tuple[float, float]] = []
    start = None
    for k in range(len(K) - 1):
        a, b = size[k] - 1, size[k + 1] - 1
        if a * b < 0:
            at = float(K[k] + (K[k + 1] - K[k]) * a / (a - b))
            if b < 0:
                start = at
            elif start is not None:
                found.append((start, at))
                start = None
    return found


def _accuracy(report: Report) -> None:
    report.section("Accuracy")
    sets, differences, rates = convergence()
    rows = []
    for k, steps in enumerate(sets):
        rows.append(
            [
                *(1e6 * steps[name] for name in ("step", "stance_step", "landing_step")),
                f"{differences[k]:.1e}" if k < len(differences) else "",
                f"{rates[k - 1]:.2f}" if 1 <= k <= len(rates) else "",
            ]
        )
    report.text(
        "One hop of experiment VI with all steps halved. The corner at which the floor's normal force "
        "becomes zero is not located, which leaves order 3 of the method's 4."
    )
    header = ["flight [us]", "stance [us]", "landing [us]", "change by the next halving", "rate"]
    report.table(rows, header)
    closures = {}
    for name in EXPERIMENTS:
        ledger = run(name).ledger
        closures[name] = (ledger.residual, ledger.throughput)
    report.table(
        [[name, f"{r:.1e}", f"{t:.3g}", f"{abs(r) / t:.1e}"] for name, (r, t) in closures.items()],
        ["experiment", "residual [J]", "moved [J]", "relative"],
        "The ledger: work less losses less what is there now, over all that was moved.",
    )
    report.claims(
        report.verdict(
            "steps halved: errors fall by 2^2.5 or more each time", "holds", bool(np.all(rates > 2.5))
        ),
        report.verdict(
            "the ledger of every experiment closes to 1e-6 of what was moved",
            "holds",
            all(abs(r) < 1e-6 * t for r, t in closures.values()),
        ),
    )


def _complex(x: complex) -> str:
    return f"{x.real:.4f}" if abs(x.imag) < 1e-6 else f"{x.real:.4f} ± {abs(x.imag):.4f} i"


def _limit_cycles(report: Report, six: gaits.Gait, four: gaits.Gait) -> None:
    report.section("Beyond the thesis: two gaits as limit cycles")
    report.text(
        r"From apex to apex a hop maps $(c_y, \dot c_x, \theta, \omega, q_1, \dot q_1)$ to what it is at "
        "the next apex. Gaits are fixed points of this map, found by Newton's method. Its derivative is "
        "carried along with the motion: linearised between events, by saltation matrices at touch-downs, "
        "lift-offs and where the floor begins or ceases to push. Experiments IV and VI have the same "
        "controller: their gaits coexist."
    )
    rows = []
    for name, g in (("IV", four), ("VI", six)):
        shown = [x for x in g.multipliers[:3] if x.imag >= 0]
        rows.append(
            [name, f"{g.period:.6f}", f"{g.stride:.6f}", f"{g.speed:.5f}", f"{g.angle:.3f}",
             "; ".join(_complex(complex(x)) for x in shown), f"{abs(g.multipliers[0]):.4f}",
             f"{g.residual:.0e}"]
        )  # fmt: skip
    header = ["gait", "period [s]", "stride [m]", "speed [m/s]", "apex angle [deg]", "Floquet multipliers",
              "largest", "residual"]  # fmt: skip
    report.table(
        rows, header, "The other three multipliers are below 1e-3: the damper has forgotten the knee."
    )
    table, apart = [], 0.0
    for name, g in (("IV", four), ("VI", six)):
        through, other = gaits.saltation_check(g)
        apart = max(apart, float(np.abs(through - other)[:4].max()))
        rough = gaits.derivative_check(g, (1e-3,))[0][1]
        for how, values in (
            ("with the motion", through),
            ("by differences of the same steps", other),
            ("by differences, steps of the maps, corners not located", rough),
        ):
            shown = [_complex(complex(x)) for x in values[:3] if x.imag >= 0]
            table.append([name, how, "; ".join(shown)])
    report.table(
        table, ["gait", "derivative", "multipliers"], "Steps of the first two: an eighth of the maps'."
    )
    report.claims(
        report.verdict("the gait of experiment VI is stable", "holds", six.stable),
        report.verdict("the gait of experiment IV is stable", "holds", four.stable),
        report.verdict("its speed is small and negative", "holds", -0.03 < four.speed < 0),
        report.verdict(
            f"derivatives with saltation and differences of hops give the same multipliers, to {apart:.0e}",
            "holds",
            apart < 1e-6,
        ),
    )


def _continuation(report: Report, six: gaits.Gait, four: gaits.Gait) -> gaits.Gait:
    """Returns the last gait that was found as E_des grows from that of VI, where it begins to chatter."""
    report.section("Where the gaits lose stability")
    plans = (
        ("VI", six, "E_des", REVOLUTE["E_des"], 0.12, (1.74, 3.2)),
        ("VI", six, "K_p", REVOLUTE["K_p"], 0.4, (4.5, 7.5)),
        ("IV", four, "E_des", REVOLUTE["E_des"], 0.03, (2.81, 2.93)),
        ("IV", four, "K_p", REVOLUTE["K_p"], 0.1, (5.85, 6.5)),
    )
    found = [(name, gaits.follow(g, p, at, step, bounds, 12)) for name, g, p, at, step, bounds in plans]
    report.text(
        "Each gait is followed along the curve of fixed points, folds included (pseudo-arclength). A "
        "multiplier leaves the unit circle at +1 in a fold, where two gaits meet and vanish; at -1 in "
        "a flip, where the period doubles; as a pair in a Neimark-Sacker bifurcation, where a slow "
        "swing grows."
    )
    rows = []
    for name, branch in found:
        rows += [
            [name, branch.parameter, f"{loss.value:.4f}", loss.kind, _complex(loss.multiplier)]
            for loss in branch.losses
        ]
        ends = [f"{'below' if k == 0 else 'above'}: {e}" for k, e in enumerate(branch.ends)]
        if not branch.losses:
            rows.append([name, branch.parameter, "none found", "", ""])
        rows.append([name, branch.parameter, "ends", "; ".join(ends), ""])
    report.table(rows, ["gait", "parameter", "at", "what", "multiplier there"])
    report.figure(
        pictures.branches([(f"gait of {name}", branch) for name, branch in found]),
        "Speed and largest multiplier along the curves; blue: stable, red: not. Dotted: the thesis' value.",
    )
    report.text("How the gait of VI goes on over E_des is told below: its foot begins to chatter.")
    _efficiency(report, [branch for name, branch in found if name == "VI"])
    return found[0][1].gaits[-1]


def _efficiency(report: Report, found: list[gaits.Branch]) -> None:
    report.section("Cost of transport of the gait of VI", 3)
    rows = []
    for branch in found:
        shown = [g for g in branch.gaits if g.stable and g.speed > 0.1]
        costs = gaits.cost_of_transport(shown)
        rows += [
            [f"{branch.parameter} = {g.parameters[branch.parameter]:.4g}", f"{g.speed:.3f}",
             f"{net:.3f}", f"{gross:.3f}"]
            for g, (net, gross) in zip(shown, costs, strict=True)
        ]  # fmt: skip
    header = ["with", "speed [m/s]", "net work / (m g d)", "with the damper's"]
    report.table(rows, header, "Stable gaits faster than 0.1 m/s, whole hops within 4 s.")


def _watched(report: Report, six: gaits.Gait, four: gaits.Gait) -> None:
    """Simulations on either side of the bifurcations, with nothing of the apex map in them."""
    plans = (
        ("IV", four, "K_p", (5.93, 5.96, 6.01, 6.04), 40.0),
        ("IV", four, "E_des", (2.82, 2.83, 2.855, 2.875), 40.0),
        ("VI", six, "K_p", (6.3, 6.6), 40.0),
    )
    found = {(name, p): gaits.watch(g, p, values, t_end) for name, g, p, values, t_end in plans}
    report.section("Simulated on either side, for 40 s", 3)
    report.table(
        [
            [
                name,
                f"{p} = {w.value:g}",
                f"{w.angles[0]:.2f} to {w.angles[1]:.2f}",
                f"{w.heights[0]:.4f} to {w.heights[1]:.4f}",
                f"{w.speed:.3f}",
                w.end or "hops on",
            ]
            for (name, p), several in found.items()
            for w in several
        ],
        ["from the gait of", "with", "apex angles [deg]", "heights [m]", "speed [m/s]", ""],
        "The last ten apexes.",
    )
    report.text(
        "Past its folds the gait of IV is gone, and the hopper goes over to that of VI. Past its "
        "Neimark-Sacker bifurcations the leg swings about it with a slow beat, within bounds."
    )
    gone = [found["IV", "K_p"][3], found["IV", "E_des"][0]]
    swings = [found["IV", "K_p"][0], found["IV", "E_des"][3]]
    kept = [found["IV", "K_p"][2], found["IV", "E_des"][1]]
    doubled = found["VI", "K_p"][1]
    report.claims(
        report.verdict(
            "past its folds, at K_p = 6.04 and E_des = 2.82, the hopper leaves the gait of IV for that of VI",
            "holds",
            all(w.speed > 0.15 for w in gone),
        ),
        report.verdict(
            "past its Neimark-Sacker bifurcations it swings about the gait, within 25 deg",
            "holds",
            all(2 < w.angles[1] - w.angles[0] < 25 and w.speed < 0 and not w.end for w in swings),
        ),
        report.verdict("between them it stays", "holds", all(abs(w.speed) < 0.04 for w in kept)),
        report.verdict(
            "past the flip of VI, at K_p = 6.6, hops alternate in height",
            "holds",
            doubled.alternate and not doubled.end,
        ),
    )


def _chatter(report: Report, fast: gaits.Gait) -> None:
    report.section("The gait of VI with more energy")
    branch = beyond.chattering(fast)
    near = min(branch.gaits, key=lambda g: abs(g.parameters["E_des"] - 3.6))
    found = beyond.bounces(near)
    after = beyond.orbits(near, (3.5, 3.6, 3.7, 3.75, 3.8, 3.85, 3.9, 4.0), 24.0)
    level = near.parameters["E_des"]
    report.text(
        "With more energy the foot bounces more often after a touch-down, from 3 times at 2.84 J to "
        f"{near.touches} times at {level:.2f} J: it chatters. While it touches, the regulator draws the leg "
        "in, faster than the spring, hardly compressed yet, pushes it out: the foot rises from the floor, "
        "which cannot hold it. As soon as it flies, the damper, which acts in flight only, pushes it back. "
        "So both sides drive it to the surface, where it slides: a sliding mode of the switched damper, "
        "which ends when the spring has taken over.",
        "Sliding takes the gait on smoothly; just that the numbers of its map are rough by some 1e-5, "
        "since each bounce shorter than 1e-7 s is cut there. With differences thirty times as long it can "
        "be followed beyond.",
    )
    flips = [loss for loss in branch.losses if loss.kind.startswith("flip")]
    rows = [
        [f"{g.parameters['E_des']:.3f}", g.touches, f"{g.speed:.3f}",
         "; ".join(_complex(complex(x)) for x in g.multipliers[:3] if x.imag >= 0)]
        for g in branch.gaits
    ]  # fmt: skip
    header = ["E_des [J]", "touch-downs a hop", "speed [m/s]", "Floquet multipliers"]
    report.table(rows, header)
    report.figure(
        pictures.chatter(branch, found, after),
        f"Above: along the gait. Below: at {level:.2f} J; simulations of 24 s from this gait. Dotted: the "
        "flip.",
    )
    spread = np.ptp(after.heights, axis=1)
    steps = np.diff(after.heights, axis=1)
    turns = np.all(steps[:, 1:] * steps[:, :-1] < 0, axis=1)
    doubled = (after.E_des > 3.72) & (after.E_des < 3.87)
    report.claims(
        report.verdict(
            "both sides of the surface drive the foot to it as it chatters",
            "holds",
            bool(np.all(found.touching > 0) and np.all(found.flying < 0)) and near.touches > 500,
        ),
        report.verdict(
            "the gait of VI loses its stability in a flip at "
            + ", ".join(f"{loss.value:.2f} J" for loss in flips),
            "holds",
            len(branch.losses) == 1 and len(flips) == 1 and abs(flips[0].value - 3.67) < 0.03,
        ),
        report.verdict(
            "simulated, hops are equal at 3.5 J, and alternate in height from 3.75 J on, by a centimetre "
            "at 3.8 J",
            "holds",
            bool(spread[0] < 1e-3 and np.all(turns[doubled]) and np.all(spread[doubled] > 5e-3)),
        ),
    )


def _locked(report: Report, size: tuple[int, int]) -> None:
    report.section("Beyond the thesis: Controller III over gains and set-points")
    found = beyond.locked_map(np.linspace(4.5, 11.3, size[0]), np.linspace(-0.86, -0.61, size[1]))
    several = beyond.locked_gaits()
    K = np.array([2.0, 4.0, 6.0, 8.0, 12.0])
    report.text(
        r"Controller III takes the angle of the locked frame, $\alpha_c = \theta_b + \theta_{bc}(q) + "
        r"\pi/2$, instead of that of the leg. This angle is no direction to the foot: with the leg "
        "straight down and the knee at 102 deg it is -31.5 deg. So what comes of it hangs on the "
        r"set-point. The thesis has no experiment with it. A sweep over $K_p$ and $\alpha_{des}$, all "
        f"else as in experiments IV to VI, from their start, {beyond.T_END:g} s each.",
        "It hops in a narrow strip: the stiffer the spring, the farther from upright must its set-point be. "
        "In place and slowly backwards with soft springs, forwards with stiffer ones, mostly faster than the "
        "gait of experiment VI. At the strip's edges hops alternate, or swing in slow beats (some of these "
        "have not settled yet). With the thesis' set-point of zero it falls at once.",
    )
    shares = ", ".join(f"{name} {100 * found.share(name):.0f} %" for name in beyond.KINDS)
    report.figure(
        pictures.locked_map(found, [g for _, g in several]),
        f"{found.kind.size} runs: {shares}. Crosses: the gaits of the table.",
    )
    rows = [
        [name, f"{g.parameters['K_p']:g}", f"{g.parameters['alpha_des']:g}", f"{g.x[0]:.4f}",
         f"{g.period:.4f}", f"{g.speed:.4f}", f"{g.angle:.1f}", g.touches,
         "; ".join(_complex(complex(x)) for x in g.multipliers[:3] if x.imag >= 0),
         f"{abs(g.multipliers[0]):.3f}"]
        for name, g in several
    ]  # fmt: skip
    header = ["gait", "K_p [Nm/rad]", "alpha_des [rad]", "apex [m]", "period [s]", "speed [m/s]",
              "apex angle [deg]", "touch-downs a hop", "Floquet multipliers", "largest"]  # fmt: skip
    report.table(rows, header, "Fixed points of the apex map. The one in place chatters, as VI does above.")
    branches = beyond.locked_branches(several[0][1])
    report.figure(
        pictures.branches([("gait of Controller III", b) for b in branches], {}),
        "The first of these gaits over set-point, gain and energy; blue: stable, red: not.",
    )
    report.table(
        [
            [b.parameter, f"{loss.value:.4f}", loss.kind, _complex(loss.multiplier)]
            for b in branches
            for loss in b.losses
        ],
        ["parameter", "at", "what", "multiplier there"],
    )
    edge = beyond.grazing(several[0][1])
    report.text(
        "Where a bounce after the touch-down is about to vanish the foot grazes the floor; multipliers run "
        "off as the square root of its height has it: stability comes and goes with each of the two "
        "bounces, within one per cent of the gain."
    )
    report.table(
        [
            [
                f"{g.parameters['K_p']:.3f}",
                g.touches,
                _complex(complex(g.multipliers[0])),
                "yes" if g.stable else "no",
            ]
            for g in edge
        ],
        ["K_p [Nm/rad]", "touch-downs a hop", "largest multiplier", "stable"],
    )
    whole = simulate(beyond.LOCKED, beyond.START, (0, 0, 0, 0), 4.0,
                     {"D_r": 20.0, **several[0][1].parameters}, 2e-3)  # fmt: skip
    report.picture(pictures.moving(whole, 0.0, 2.4, 40), "Controller III from an upright start.")
    forwards = found.kind == beyond.KINDS.index("forwards")
    fast = forwards & (found.speed > 0.236)
    low, high = float(found.cost[fast].min()), float(found.cost[fast].max())
    report.claims(
        report.verdict("all three gaits are stable", "holds", all(g.stable for _, g in several)),
        report.verdict(
            "between three touch-downs a hop and one, stability is lost, found, and lost again",
            "holds",
            [(g.touches, g.stable) for g in edge]
            == [(3, True), (3, False), (2, True), (2, False), (1, False)],
        ),
        report.verdict(
            f"of {np.count_nonzero(forwards)} runs that end in forward gaits, {np.count_nonzero(fast)} are "
            "faster than the gait of VI with the same energy, 0.236 m/s",
            "holds",
            np.count_nonzero(fast) > 0.7 * np.count_nonzero(forwards),
        ),
        report.verdict(
            f"and these cost less: {low:.2f} to {high:.2f} of m g d in net work, VI 0.26",
            "holds",
            0.15 < low < high < 0.255,
        ),
        report.verdict(
            "with a set-point of zero, as in experiments II to VI, it falls in the first hops",
            "holds",
            bool(np.all(beyond.locked_hops({"K_p": K, "alpha_des": 0 * K})["end_time"] < 1.0)),
        ),
    )


def _forwards(report: Report) -> None:
    report.section("Beyond the thesis: the prismatic leg hops forwards")
    tree = robot("prismatic").tree
    connection = dynamics.mechanical_connection(tree, np.array(EXPERIMENTS["prismatic III"].q0))
    tilted, placed = beyond.tilted(), beyond.placed()
    report.text(
        r"The thesis' prismatic leg hops in place. A set-point $\alpha_{des}$ other than zero breaks its "
        "symmetry, and where the upright gait has no multiplier of 1, gaits that move go out from it. They "
        "are stable where it is: in the two narrow windows of gains, and up to some 0.1 m/s. A set-point a "
        "little behind upright sends it forwards; the farther, the faster, until a fold, where the gait "
        "meets an unstable one, a flip, or a Neimark-Sacker bifurcation. With the thesis' gain of 6 the "
        "gaits are there, and are unstable. Controller III is no way out: sliding mass and foot turn "
        "nothing, the locked frame is that of the base, and it is Controller II.",
        "What the leg lacks is a say in where its foot lands. A second polar spring, in flight, takes "
        f"it to an angle $\\alpha_f$ ({beyond.SWING['swing_K_p']:g} Nm/rad, critically damped), as "
        "Raibert's robots place theirs (1986, Legged Robots That Balance); its torque acts on the base "
        "from outside, as that of the thesis' spring in stance does. Then the thesis' gain is stable, "
        "and so are others from 6 to 20, and the foot's place sets the speed.",
    )
    rows = []
    for branch in (*tilted, *placed):
        best, first = beyond.fastest(branch), min(branch.gaits, key=lambda g: abs(g.speed))
        loss = min(
            branch.losses, key=lambda x: abs(x.value - best.parameters[branch.parameter]), default=None
        )
        what = f"{loss.kind}, at {loss.value:.4f} rad" if loss else "not within the range"
        rows.append(
            [f"{best.parameters['K_p']:g}", "alpha_f" if branch in placed else "alpha_des",
             f"{abs(first.multipliers[0]):.3f}", f"{best.speed:.3f}",
             f"{best.parameters[branch.parameter]:.4f}", f"{abs(best.multipliers[0]):.3f}", what]
        )  # fmt: skip
    header = ["K_p [Nm/rad]", "set-point", "largest multiplier in place", "fastest stable [m/s]",
              "at [rad]", "largest multiplier", "stability ends in"]  # fmt: skip
    report.table(rows, header)
    report.figure(
        pictures.forwards(tilted, placed),
        "Speed over the set-points; dotted: unstable. By symmetry set-points of the other sign go backwards.",
    )
    six = placed[0]
    runs = {
        "II": simulate("prismatic", EXPERIMENTS["prismatic III"].q0, (0, 0, 0, 0), 16.0,
                       {"K_p": 5.2, "alpha_des": -0.008}, 4e-3),
        "swung": simulate(beyond.SWUNG, EXPERIMENTS["prismatic III"].q0, (0, 0, 0, 0), 16.0,
                          {"K_p": 6.0, **beyond.SWING, "swing_alpha_des": 0.3}, 4e-3),
    }  # fmt: skip
    speeds = {name: _speed_at_end(x) for name, x in runs.items()}
    report.text(
        "Simulated from rest, upright, for 16 s: Controller II with 5.2 Nm/rad and a set-point of -0.008 rad "
        f"ends at {speeds['II']:.4f} m/s; with the spring in flight, 6 Nm/rad and a foot at 0.3 rad, at "
        f"{speeds['swung']:.4f} m/s."
    )
    report.picture(pictures.moving(runs["swung"], 0.0, 2.4, 40), "The prismatic leg, its foot placed ahead.")
    at_3 = float(np.interp(0.3, six.values, [g.speed for g in six.gaits])) if len(six.gaits) else np.nan
    low = next(b for b in tilted if abs(b.gaits[0].parameters["K_p"] - 5.2) < 1e-9)
    best = beyond.fastest(low)
    report.claims(
        report.verdict(
            "the mechanical connection of the prismatic hopper has no turning part",
            "holds",
            float(np.abs(connection[0]).max()) == 0,
        ),
        report.verdict(
            "Controller II makes it hop forwards, in a stable gait, at up to 0.12 m/s",
            "holds",
            best.stable and 0.11 < best.speed < 0.14 and runs["II"].data.ends == "",
        ),
        report.verdict(
            "with the spring in flight, hopping in place is stable with K_p of 6, 8, 10, 15 and 20",
            "holds",
            bool(np.all(beyond.stable_when_placed((6.0, 8.0, 10.0, 15.0, 20.0)) < 1)),
        ),
        report.verdict(
            "and it hops forwards at up to 0.78 m/s with the thesis' gain of 6",
            "holds",
            beyond.fastest(six).speed > 0.75,
        ),
        report.verdict(
            "from rest the hopper comes to these gaits",
            "holds",
            abs(speeds["swung"] - at_3) < 5e-3 and 0.06 < speeds["II"] < 0.1,
        ),
    )


def _speed_at_end(run: Run) -> float:
    """Over the last five hops [m/s]."""
    top = run.apexes
    x = run.centre(top)[0][:, 0]
    return float((x[-1] - x[-6]) / (top.t[-1] - top.t[-6]))


def _basin(report: Report, six: gaits.Gait, four: gaits.Gait, size: int) -> None:
    report.section("Basins of attraction")
    found = gaits.basin(
        np.linspace(*gaits.ANGLES, size), np.linspace(*gaits.SPEEDS, size), (six.speed, four.speed)
    )
    shares = ", ".join(f"{name} {100 * found.share(name):.0f} %" for name in gaits.OUTCOMES)
    report.text(
        f"{size} x {size} runs of 20 s from base heights of 0.3 m, the knee at {np.degrees(Q_102):.0f} "
        f"deg, the leg leaning and moving: {shares}. `benchmarks/basin.py` draws the map in detail. "
        "The thesis assumes one attractor that is insensitive to where it starts; there are two, and "
        "their basins lie in layers."
    )
    report.figure(
        pictures.basin_map(found), "What becomes of the hopper; grey: it fell, the later the darker."
    )
