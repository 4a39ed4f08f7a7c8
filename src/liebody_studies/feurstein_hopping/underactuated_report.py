"""The section of the study of Feurstein's hoppers on gaits without a polar torque."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..report import Report
from . import underactuated as gaits
from . import underactuated_pictures as pictures
from .underactuated import FRICTION, Books, Gait

Array = Any
NAMES = {2: "hip and knee", 3: "hip, knee and ankle"}
PUSH = np.array([0.0, 0.1, 0.05, 0.3])  # of c_y, c_x', theta, omega
FRICTIONS = (0.7, 0.6, 0.5, 0.4)


def add_to(report: Report, sampled: int = 1024, kept: int = 32, side: int = 11) -> None:
    """Append the section.

    sampled, kept  hops of the search, and from how many of them gaits are looked for
    side           runs along each side of the maps of basins
    """
    found = {joints: gaits.settled(joints) for joints in NAMES}
    gains = {joints: gaits.apex_gain(gait) for joints, gait in found.items()}
    books = {joints: gaits.books(gait) for joints, gait in found.items()}
    report.section("Beyond the thesis: hopping without a polar torque")
    _meaning(report)
    _search(report, sampled, kept)
    _table(report, found, gains)
    _hop(report, found, books)
    _standing(report, found, gains, books, side)


def _meaning(report: Report) -> None:
    report.text(
        "The polar spring of all experiments turns the base by a torque from outside, that no drive of a "
        "leg can give. Here it is gone: the only drives are those of hip and knee (and ankle), and the "
        "three efforts on the base are zero. Robots are `two_joint_hopper` and `three_joint_hopper`. In "
        "stance there is the radial force alone,"
    )
    report.formula(r"\tau = J_r^T (-K_r (r - r_{des}) - K_E (E - E_{des}) \dot r)")
    report.text(
        "from touch-down until the leg is as long as $r_{des}$ again, so that it pushes and does not "
        "pull; in flight the joints go to angles on springs and dampers, $\\tau = -K_j (q_j - a) - D_j "
        "\\dot q_j$. What turns the trunk in stance is controlled by nothing. The angles $a$ are the same "
        "in each hop, or are chosen at each apex by how far its state is from that of the gait.",
        f"The floor is that of the thesis with Coulomb friction, coefficient {FRICTION}, and 25 Ns/m along "
        "the surface. The thesis' own floor sticks also where it carries nothing: it recovers slowly (D / "
        "K = 0.1 s), and holds the foot for some milliseconds after the normal force is gone. Such a "
        "floor turns the robot, which is just what must not be here.",
    )


def _search(report: Report, sampled: int, kept: int) -> None:
    report.section("The search", 3)
    clouds = {NAMES[2]: gaits.search(2, sampled, kept)}
    least = {joints: gaits.calmest(joints).radius for joints in NAMES}
    several = clouds[NAMES[2]]
    radii = np.array([g.radius for g in several])
    report.text(
        "Gaits are fixed points of the map from apex to apex, in the speed, tilt and turning of the "
        "trunk, the height, and all joint angles and rates. Posture, stiffnesses, damping, regulator and "
        f"start are drawn from a box; of {sampled} single hops the {kept} that come back nearest are "
        f"starts of Newton's method, all in one run: {len(several)} of them lead to gaits, at "
        f"{min(g.speed for g in several):.2f} to {max(g.speed for g in several):.2f} m/s. So gaits are "
        "plenty. With the same posture in each hop all of them are unstable, by one real multiplier of "
        f"{radii.min():.2f} or more, as of a pendulum upside down; it is the larger the higher they hop. "
        "Random changes of posture and gains, the better kept, lower it to no less than "
        + " and ".join(f"{least[joints]:.2f} ({NAMES[joints]})" for joints in NAMES)
        + f", where the foot clears the floor by the {1e3 * gaits.CLEARANCE:.0f} mm that are asked for."
    )
    report.figure(
        pictures.cloud(clouds, {NAMES[2]: least[2]}),
        "The gaits of this search. Green: stable; dotted: the least multiplier after optimisation.",
    )
    single = [np.count_nonzero(np.abs(g.multipliers) > 1) == 1 for g in several]
    report.claims(
        report.verdict("there are gaits without a polar torque", "holds", len(several) > kept / 4),
        report.verdict(
            "without feedback none was found stable; each has one real multiplier beyond 1",
            "holds",
            bool(radii.min() > 1.5) and all(single),
        ),
    )


def _table(report: Report, found: Mapping[int, Gait], gains: Mapping[int, Array]) -> None:
    report.section("Two gaits, and what makes them stable", 3)
    report.text(
        "One unstable direction is little. The posture at the next touch-down, chosen at the apex, can "
        "undo it: by the linear-quadratic regulator of the map, or by as little as the hip's angle from "
        "the tilt and the turning of the trunk."
    )
    rows, held = [], {}
    for joints, g in found.items():
        small, radius = gaits.attitude_gain(g)
        held[joints] = (g.radius_with(gains[joints]), radius)
        k = small[0, 2:4]
        rows.append(
            [NAMES[joints], f"{g.speed:.4f}", f"{g.period:.5f}", f"{1e3 * gaits.clearance(g):.1f}",
             ", ".join(f"{abs(x):.3f}" for x in g.multipliers[:3]), f"{held[joints][0]:.3f}",
             f"{radius:.3f} ({k[0]:.2f}, {k[1]:.3f} s)", f"{g.residual:.0e}"]
        )  # fmt: skip
    header = ["drives", "speed [m/s]", "period [s]", "foot clears [mm]", "multipliers, one posture",
              "largest with the regulator", "with tilt and turning to the hip", "residual"]  # fmt: skip
    report.table(rows, header)
    carried = gaits.carried_multipliers(found[2])
    place = int(np.argmin(np.abs(carried - 1)))
    carried = np.delete(carried, place)
    off = float(abs(carried[0] - found[2].multipliers[0]))
    report.text(
        "Of hip and knee, the linearised equations carried along the hop, saltation matrices at its "
        f"events included, give {abs(carried[0]):.4f}, {abs(carried[1]):.4f}, {abs(carried[2]):.4f} for "
        "the multipliers of one posture; differences of whole hops are in the table."
    )
    named = {NAMES[joints]: (g, gains[joints]) for joints, g in found.items()}
    report.figure(pictures.multipliers(named))
    rows = []
    lost = False
    for joints, g in found.items():
        several = gaits.over_friction(g, FRICTIONS)
        lost |= None in several
        rows.append(
            [NAMES[joints], f"{g.speed:.3f}, {g.radius:.2f}"]
            + ["lost" if x is None else f"{x.speed:.3f}, {x.radius:.2f}" for x in several]
        )
    report.table(
        rows,
        ["drives", f"mu = {FRICTION}", *(f"{mu}" for mu in FRICTIONS)],
        "Speed and largest multiplier (one posture) of the gaits, followed to less friction.",
    )
    report.claims(
        report.verdict(
            "fed back at the apex, both gaits are stable",
            "holds",
            all(a < 1 for a, _ in held.values()),
        ),
        report.verdict(
            "tilt and turning of the trunk, fed to the hip's angle in flight, are enough",
            "holds",
            all(b < 1 for _, b in held.values()),
        ),
        report.verdict(f"the two derivatives agree, to {off:.0e}", "holds", off < 0.02 * abs(carried[0])),
    )


def _hop(report: Report, found: Mapping[int, Gait], books: Mapping[int, Books]) -> None:
    report.section("One hop", 3)
    rows = []
    for joints, b in books.items():
        h = [f"{1e3 * x:.2f}" for x in b.turning]
        rows.append(
            [NAMES[joints], f"{b.base:g}", ", ".join(f"{x:.2f}" for x in b.torque), f"{b.power:.0f}",
             ", ".join(f"{1e3 * x:.1f}" for x in b.work.values()), f"{b.cost:.3f}", f"{b.pull:.2f}",
             f"{1e3 * b.slip:.1f}", ", ".join(f"{1e3 * x:.0f}" for x in b.lowest), ", ".join(h)]
        )  # fmt: skip
    report.table(
        rows,
        ["drives", "base [N, Nm]", "largest torques [Nm]", "power [W]", "work in a hop [mJ]",
         "positive work / (m g d)", "most |F_x| / F_y", "foot moves under load [mm]",
         "hip and joints, lowest [mm]",
         "h: flight, after impact, lift-off [1e-3 kg m2/s]"],
        "Of the gaits, with the steps of the other experiments.",
    )  # fmt: skip
    report.text(
        "How can the trunk be kept from turning, where nothing controls that? A leg without mass could "
        "not: by $J_r^T$ the floor's force lies along the leg, through the centre of mass, so that the "
        "angular momentum $h$ about it never changes, in stance, at impacts or in flight: it is a "
        "constant of the apex map, of multiplier 1, that no posture can touch. These legs have mass. "
        "Their touch-down is an impact, which takes $h$ away, and stance, in which the leg's own inertia "
        "bends the force away from the centre of mass, gives it back; where both cancel there is a gait. "
        "All but the one unstable direction are forgotten: the second multipliers are "
        f"{' and '.join(f'{abs(g.multipliers[1]):.2f}' for g in found.values())}."
    )
    titles = {NAMES[joints]: b for joints, b in books.items()}
    report.figure(pictures.sticks(titles), "A hop from apex to apex, pulled apart; green: the floor's force.")
    report.figure(
        pictures.course(titles, {name: joints for joints, name in NAMES.items()}), "A hop; grey: stance."
    )
    report.claims(
        report.verdict("nothing acts on the base", "holds", all(b.base == 0 for b in books.values())),
        report.verdict(
            "the trunk, of radius 50 mm, and all joints stay above the floor",
            "holds",
            all(b.lowest[0] > 0.05 and b.lowest[1:].min() > 0.01 for b in books.values()),
        ),
        report.verdict(
            "the ledger of each hop closes to 1e-6", "holds", all(b.closure < 1e-6 for b in books.values())
        ),
        report.verdict(
            "the impact changes h, and stance changes it back",
            "holds",
            all(
                abs(b.turning[1] - b.turning[0]) > 5e-4
                and abs(b.turning[2] - b.turning[0]) < 0.1 * abs(b.turning[1] - b.turning[0])
                for b in books.values()
            ),
        ),
    )


def _standing(
    report: Report,
    found: Mapping[int, Gait],
    gains: Mapping[int, Array],
    books: Mapping[int, Books],
    side: int,
) -> None:
    report.section("Pushed", 3)
    off = gaits.DISTURBED
    table, stands = [], {}
    for joints, g in found.items():
        held, free = gaits.disturbed(g, gains[joints]), gaits.disturbed(g, None)
        stands[joints] = float(np.mean(held.ends == "")), float(np.mean(free.ends == ""))
        hops = gaits.hops(free)
        table.append(
            [NAMES[joints], f"{100 * stands[joints][0]:.0f} %", f"{100 * stands[joints][1]:.0f} %",
             f"{free.end_times.mean():.2f}", f"{hops.max():.0f}"]
        )  # fmt: skip
    report.table(
        table,
        ["drives", "stand after 3 s, with the regulator", "with one posture", "falls after [s], on average",
         "at most so many hops"],
        f"From 24 apexes within {1e3 * off[0]:.0f} mm, {off[1]:g} m/s, {np.degrees(off[2]):.0f} deg and "
        f"{off[3]:g} rad/s of the gait.",
    )  # fmt: skip
    speeds, tilts, t_end = np.linspace(-0.5, 0.5, side), np.linspace(-0.35, 0.35, side), 2.0
    times = {
        NAMES[joints]: gaits.standing(g, gains[joints], speeds, tilts, t_end) for joints, g in found.items()
    }
    report.figure(
        pictures.basins(speeds, tilts, times, t_end),
        "Starts with another speed and tilt at the apex: how long they stand, of 2 s.",
    )
    two = found[2]
    long = gaits.run_on(two, gains[2], PUSH, 20.0, 2000, ledger=True)
    first = gaits.run_on(two, gains[2], PUSH, 4.0, 4000, ledger=True)
    report.figure(
        pictures.phases(first, books[2]),
        "4 s of the leg with two joints, pushed at the start; red: the gait.",
    )
    for joints, g in found.items():
        shown = gaits.run_on(g, gains[joints], PUSH, 1.5, 120, ledger=True)
        report.picture(pictures.moving(shown), f"{NAMES[joints]}, pushed at the start.")
    report.claims(
        report.verdict(
            "with the regulator it hops on for 20 s after a push, and comes back to the gait",
            "holds",
            str(long.ends) == "" and _back(two, long) < 1e-3,
        ),
        report.verdict(
            "with one posture every pushed hopper falls", "holds", all(b == 0 for _, b in stands.values())
        ),
    )


def _back(gait: Gait, run: Any) -> float:
    """How far the trunk's range of angles in the last second is from that of the gait [rad]."""
    last = run.q[run.t > run.t[-1] - 1.0, 0]
    own = gaits.books(gait).q[:, 0]
    return float(max(abs(last.max() - own.max()), abs(last.min() - own.min())))
