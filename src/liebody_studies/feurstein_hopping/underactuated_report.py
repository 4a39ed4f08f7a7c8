"""The part of the study of Feurstein's hoppers on gaits without a polar torque: its numbers and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from liebody.gaits import StabilizedOrbit

from . import underactuated as gaits
from . import underactuated_pictures as pictures
from .underactuated import FRICTION, Books, radius, speed

NAMES = {2: "hip and knee", 3: "hip, knee and ankle"}
PUSH = np.array([0.0, 0.1, 0.05, 0.3])  # of c_y, c_x', theta, omega
FRICTIONS = (0.7, 0.6, 0.5, 0.4)


def values(sampled: int = 1024, kept: int = 32, side: int = 11) -> dict[str, Any]:
    """What the page shows of it.

    sampled, kept  hops of the search, and from how many of them gaits are looked for
    side           runs along each side of the maps of basins
    """
    held = {joints: gaits.regulated(gaits.known(joints)) for joints in NAMES}
    books = {joints: gaits.books(x.orbit) for joints, x in held.items()}
    return {
        "friction": FRICTION,
        **_search(sampled, kept),
        **_two_gaits(held),
        **_one_hop(held, books),
        **_pushed(held, books, side),
    }


def _search(sampled: int, kept: int) -> dict[str, Any]:
    several = gaits.search(2, sampled, kept)
    least = {joints: radius(gaits.known(joints, "calmest")) for joints in NAMES}
    radii, speeds = np.array([radius(g) for g in several]), [speed(g) for g in several]
    single = [np.count_nonzero(np.abs(g.multipliers) > 1) == 1 for g in several]
    return {
        "sampled": sampled,
        "kept": kept,
        "found": len(several),
        "speeds": [min(speeds), max(speeds)],
        "radius": radii.min(),
        "least": " and ".join(f"{least[joints]:.2f} ({NAMES[joints]})" for joints in NAMES),
        "clearance": 1e3 * gaits.CLEARANCE,
        "cloud": pictures.cloud({NAMES[2]: several}, {NAMES[2]: least[2]}),
        "plenty": len(several) > kept / 4,
        "none_stable": bool(radii.min() > 1.5) and all(single),
    }


def _two_gaits(held: Mapping[int, StabilizedOrbit]) -> dict[str, Any]:
    """Multipliers of two gaits, without feedback and with it, by two derivatives, and over friction."""
    rows, small, frictions = [], {}, []
    for joints, x in held.items():
        g, small[joints] = x.orbit, gaits.tilted(x.orbit)
        k = small[joints].gain[0, [0, g.system.nv]]
        largest = [abs(fed_back.multipliers[0]) for fed_back in (x, small[joints])]
        rows.append(
            [NAMES[joints], f"{speed(g):.4f}", f"{g.period:.5f}", f"{1e3 * gaits.clearance(g):.1f}",
             ", ".join(f"{abs(m):.3f}" for m in g.multipliers[:3]), f"{largest[0]:.3f}",
             f"{largest[1]:.3f} ({k[0]:.2f}, {k[1]:.3f} s)", f"{g.residual:.0e}"]
        )  # fmt: skip
        several = [g, *gaits.over_friction(g, FRICTIONS)]
        less = ["lost" if x is None else f"{speed(x):.3f}, {radius(x):.2f}" for x in several]
        frictions.append([NAMES[joints], *less])
    carried = gaits.carried(held[2].orbit).multipliers
    off = float(abs(carried[0] - held[2].orbit.multipliers[0]))
    return {
        "gaits": rows,
        "carried": ", ".join(f"{abs(x):.4f}" for x in carried[:3]),
        "multipliers": pictures.multipliers({NAMES[j]: x for j, x in held.items()}),
        "frictions": frictions,
        "held": all(x.stable for x in held.values()),
        "enough": all(x.stable for x in small.values()),
        "off": off,
        "agree": off < 0.02 * abs(carried[0]),
    }


def _one_hop(held: Mapping[int, StabilizedOrbit], books: Mapping[int, Books]) -> dict[str, Any]:
    """Forces, works and angular momentum over a hop of each gait."""
    titles = {NAMES[joints]: b for joints, b in books.items()}
    turning = [(abs(h[1] - h[0]), abs(h[2] - h[0])) for h in (b.turning for b in books.values())]
    return {
        "hop": [[name, *_of_books(b)] for name, b in titles.items()],
        "second": " and ".join(f"{abs(x.orbit.multipliers[1]):.2f}" for x in held.values()),
        "sticks": pictures.sticks(titles),
        "course": pictures.steps_call(titles, {name: joints for joints, name in NAMES.items()}),
        "unmoved": all(b.base == 0 for b in books.values()),
        "above": all(b.lowest[0] > 0.05 and b.lowest[1:].min() > 0.01 for b in books.values()),
        "closed": all(b.closure < 1e-6 for b in books.values()),
        "given_back": all(taken > 5e-4 and left < 0.1 * taken for taken, left in turning),
    }


def _of_books(b: Books) -> list[str]:
    several = (b.torque, 1, 2), (b.work.values(), 1e3, 1), (b.lowest, 1e3, 0), (b.turning, 1e3, 2)
    torque, work, lowest, turning = (
        ", ".join(f"{unit * x:.{digits}f}" for x in values) for values, unit, digits in several
    )
    ratios = f"{b.cost:.3f}", f"{b.pull:.2f}", f"{1e3 * b.slip:.1f}"
    return [f"{b.base:g}", torque, f"{b.power:.0f}", work, *ratios, lowest, turning]


def _pushed(held: Mapping[int, StabilizedOrbit], books: Mapping[int, Books], side: int) -> dict[str, Any]:
    """Disturbed starts: which stand, and how they come back to the gait."""
    table, all_fall, off = [], True, gaits.DISTURBED
    for joints, x in held.items():
        fed_back, free = gaits.disturbed(x), gaits.disturbed(x, free=True)
        stands = [float(np.mean(run.ends == "")) for run in (fed_back, free)]
        all_fall &= stands[1] == 0
        shares = [f"{100 * share:.0f} %" for share in stands]
        last = f"{free.end_times.mean():.2f}", f"{gaits.hops(free).max():.0f}"
        table.append([NAMES[joints], *shares, *last])
    speeds, tilts, t_end = np.linspace(-0.5, 0.5, side), np.linspace(-0.35, 0.35, side), 2.0
    times = {NAMES[joints]: gaits.standing(x, speeds, tilts, t_end) for joints, x in held.items()}
    long = gaits.run_on(held[2], PUSH, 20.0, 2000)
    first = gaits.run_on(held[2], PUSH, 4.0, 4000)
    shown = [gaits.run_on(x, PUSH, 1.5, 120) for x in held.values()]
    last, own = long.q[long.t > long.t[-1] - 1.0, 0], books[2].q[:, 0]  # angles of the trunk
    away = max(abs(last.max() - own.max()), abs(last.min() - own.min()))
    return {
        "pushed": table,
        "disturbed": [1e3 * off[0], off[1], np.degrees(off[2]), off[3]],
        "basins": pictures.basins(speeds, tilts, times, t_end),
        "phases": pictures.phases(first, books[2]),
        "moves": [pictures.moving(x) for x in shown],
        "comes_back": str(long.ends) == "" and away < 1e-3,
        "all_fall": all_fall,
    }
