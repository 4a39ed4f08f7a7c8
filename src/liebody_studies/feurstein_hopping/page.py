"""Feurstein (2021), chapter 4, recomputed: hopping robots on virtual springs, and what became of their gaits.

All experiments with the panels of the thesis' figures, the tuning curve, the energy balance of experiment
VI; a table of its numbers beside ours. Then what the thesis left open: the gaits as limit cycles, their
stability over gains, their basins of attraction; Controller III; a prismatic leg that hops forwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from liebody import dynamics
from liebody.gaits import Bifurcation, stabilize

from ..compare import Array
from ..report import Report
from . import beyond, experiments, gaits, pictures, thesis
from . import underactuated_report as underactuated
from .experiments import EXPERIMENTS, Q_102, Audit, Run, robot, run, simulate
from .gaits import Gait

SHOWN = tuple(name for name in EXPERIMENTS if name != "revolute VI")  # of figures 4.3 to 4.12
EXCERPTS: dict[str, tuple[float, float]] = {
    "revolute IV": (8, 11), "revolute V": (0, 6), "revolute VI": (0, 1.5), "prismatic III": (0, 2)
}  # fmt: skip


DERIVATIVES = (
    "with the motion", "by differences of the same steps",
    "by differences, steps of the maps, corners not located",
)  # fmt: skip


def study(basin_size: int = 14, map_size: tuple[int, int] = (17, 14)) -> Report:
    """The report.

    basin_size  runs along each side of the map of basins
    map_size    values of K_p and alpha_des in the map of Controller III
    """
    books, angles = experiments.audit(), np.arange(60, 141, 1.0)
    curves = {name: experiments.tuning_curve(name, angles) for name in experiments.VARIANTS}
    six, four = gaits.shoot(gaits.settled("revolute VI")), gaits.shoot(gaits.settled("revolute IV"))
    shown = {name: thesis.seeded() if name == "prismatic I" else run(name) for name in SHOWN}
    curve = curves["K_p = 0, K_E = 0"]
    numbers = thesis.prismatic() | thesis.revolute(curve) | thesis.damped() | thesis.six(books, six)
    values = {
        "n": numbers,
        "panels": [pictures.four_panels(x) for x in shown.values()],
        "moves": [pictures.moving(x, *EXCERPTS.get(name, (0.0, np.inf)), 36) for name, x in shown.items()],
        "with_polar": curves["K_p = 6, K_E = 0"].minimum[0],
        "tuning": pictures.tuning(curves),
        "books": books,
        "drops": ", ".join(f"{1e3 * loss:.1f} mJ in {1e3 * w:g} ms" for w, loss in books.drops.items()),
        "plastic": 1e3 * books.plastic,
        **together(  # long ones first
            u=underactuated.values,
            locked=lambda: locked(map_size),
            over=lambda: over_parameters(six, four),
            forwards=forwards,
            turning=turning,
            cycles=lambda: limit_cycles(six, four),
            symmetry=symmetry,
            basin=lambda: basins(six, four, basin_size),
            radial=radial,
            accuracy=accuracy,
            watched=lambda: watched(six, four),
            six=lambda: experiment_six(books),
            set_points=lambda: set_points(six, four),
            knee=under_the_floor,
        ),
    }
    values |= values.pop("over")
    values["drawings"] = [
        robot(x).view(EXPERIMENTS[x].q0).figure(("bodies", "joints", "frames"), width=520, height=400)
        for x in ("prismatic III", "revolute VI")
    ]
    return Report.from_template(__package__, values)


def together(**parts: Callable[[], Any]) -> dict[str, Any]:
    """What each part gives, two at a time: one goes on while compilers and simulations of the other work."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        pending = {name: pool.submit(part) for name, part in parts.items()}
        return {name: part.result() for name, part in pending.items()}


def multipliers_of(gait: Gait) -> str:
    """The leading multipliers, of pairs the upper one."""
    return "; ".join(complex_text(x) for x in gait.orbit.multipliers[:3] if x.imag >= 0)


def complex_text(x: complex) -> str:
    return f"{x.real:.4f}" if abs(x.imag) < 1e-6 else f"{x.real:.4f} ± {abs(x.imag):.4f} i"


# -- the thesis' experiments --------------------------------------------------------------------------------


def radial() -> dict[str, Any]:
    """Controller I, with the regulator and without."""
    runs = experiments.under_controller_1()
    multiplier = float(gaits.prismatic_multipliers(np.zeros(1))[0, 0].real)
    return {
        "multiplier": multiplier,
        "rows": [
            [name, f"{K_E:g}", f"{D_r:g}", len(x.touch_downs), f"{float(x.data.end_times):.2f}"]
            for (name, K_E, D_r), x in runs.items()
        ],
        "unmoved": max(np.nanmax(np.abs(x.out["efforts"][:, :3])) for x in runs.values()) == 0,
        "unstable": abs(multiplier - 31.6) < 0.1,
        "fall": all(x.data.end_times < 1 for key, x in runs.items() if key[0].startswith("revolute")),
    }


def experiment_six(books: Audit) -> dict[str, Any]:
    """Experiment VI: figures 4.13 to 4.17, and the energy balance."""
    six, x = run("revolute VI"), EXPERIMENTS["revolute VI"]
    q, v, after = (values[-4] for values in (six.apexes.q, six.apexes.v, six.apexes.t))
    late = simulate(x.hopper, q, v, 1.2, x.parameters, 2e-4)
    parts = books.regulator - books.damper + books.polar_joint
    return {
        "motion": pictures.motion_panels(six),
        "forces": pictures.force_panels(six),
        "late_motion": pictures.motion_panels(late, float(after)),
        "late_forces": pictures.force_panels(late, float(after)),
        "cycle": pictures.screenshots(six),
        "moves": pictures.moving(six, *EXCERPTS["revolute VI"], 36),
        "balance": pictures.balance(six, books),
        "parts": parts,
        **stances(late),
        "springs_give_back": abs(parts - books.joint) < 2e-3,
        "floor_takes": abs(books.total - books.floor) < 1e-3,
    }


def stances(late: Run) -> dict[str, Any]:
    """Angular and horizontal momentum in stances; the latter beside that of a mass on the radial spring."""
    mass, crossings, changes = robot(late.hopper).tree.mass, [], []
    for start, end in zip(late.touch_downs.t, late.lift_offs.t, strict=False):
        at = (late.t >= start) & (late.t <= end)
        share, h = (late.t[at] - start) / (end - start), late.out["angular_momentum"][at]
        crossings.append(share[1:][h[1:] * h[:-1] < 0])
        before = mass * float(late.out["com_velocity"][np.searchsorted(late.t, start) - 1, 0])
        p = mass * late.out["com_velocity"][at][:, 0] - before
        changes.append((p.min(), share[p.argmin()], p.max(), share[p.argmax()]))
    length, speed = late.out["radial_length"], late.out["com_velocity"][:, 0]
    lowest = int(np.argmin(length[: np.searchsorted(late.t, late.lift_offs.t[0])]))
    rising = on_a_spring(float(length[lowest]), float(speed[lowest]), mass)
    least, first, most, last = np.median(changes, axis=0)
    return {
        "crossing": float(np.median(np.concatenate(crossings))),
        "one_crossing": all(len(x) == 1 and 0.4 < x[0] < 0.6 for x in crossings),
        "undershoot": (least, 100 * first),
        "overshoot": (most, 100 * last),
        "under_then_over": all(a < 0 < b and x < y for a, x, b, y in changes),
        "u_shaped": bool(np.all(np.diff(rising) > 0)),
    }


def on_a_spring(length: float, speed: float, mass: float, step: float = 1e-5) -> Array:
    """Horizontal speed (n,) of a mass on a leg that is the radial spring, from the middle of its stance.

    There the leg is upright and shortest; what was before is the mirror image of what follows.
    """
    x, u, found = np.array([0.0, length]), np.array([speed, 0.0]), [speed]
    K, rest = (experiments.REVOLUTE[name] for name in ("K_r", "r_des"))

    def acceleration(x: Array) -> Array:
        return K / mass * (rest / np.hypot(*x) - 1) * x - np.array([0, 9.81])

    while np.hypot(*x) < rest:
        u = u + step / 2 * acceleration(x)
        x = x + step * u
        u = u + step / 2 * acceleration(x)
        found.append(u[0])
    return np.array(found)


def turning() -> dict[str, Any]:
    """The prismatic leg under Controller I: gaits that stand upright, and those that turn over."""
    found = sorted(beyond.without_polar_torque(), key=lambda x: x.speed)
    moves = [x for x in found if x.speed > 0.01]
    sizes = [abs(x.orbit.multipliers[0]) for x in found]
    held = stabilize(min(moves, key=lambda x: abs(x.orbit.multipliers[0])).orbit, ["r_des", "E_des"])
    return {
        "rows": [
            [
                f"{x.speed:.3f}".replace("-0.000", "0.000"),
                f"{abs(x.turns):.0f}",
                f"{x.orbit.period:.4f}",
                f"{size:.2f}",
            ]
            for x, size in zip(found, sizes, strict=True)
        ],
        "held": float(np.abs(held.measured).max()),
        "over": len(moves) >= 2 and all(abs(abs(x.turns) - 1) < 1e-6 for x in moves),
        "upright": all(abs(x.turns) < 1e-6 for x in found if x not in moves) and len(moves) < len(found),
        "unstable": bool(min(sizes) > 1),
        "holds": held.stable and bool(np.abs(held.measured - held.multipliers).max() < 1e-4),
    }


def symmetry() -> dict[str, Any]:
    """The prismatic leg from small tilts, and the multipliers of tilting over K_p."""
    seeds, K = (1e-9, 1e-6, 1e-3, 1e-2), np.linspace(0, 24, 97)
    found = {
        name: list(zip(seeds, experiments.perturbed(name, seeds, 10.0), strict=True))
        for name in ("prismatic I", "prismatic II", "prismatic III")
    }
    values = gaits.prismatic_multipliers(K)
    at_6 = float(np.interp(6.0, K, values[:, 0].real))
    windows = stable_windows(K, np.abs(values[:, 0]))
    return {
        "at_6": at_6,
        "windows": " and ".join(f"{a:.2f} to {b:.2f}" for a, b in windows),
        "tilting": pictures.tilting(found),
        "multipliers": pictures.multipliers_over(K, values),
        "unstable": abs(at_6) > 2 and all(str(x.data.ends) == "stopped" for _, x in found["prismatic III"]),
    }


def stable_windows(K: Array, size: Array) -> list[tuple[float, float]]:
    """Intervals of K where size < 1, by linear interpolation."""
    off = size - 1
    k = np.flatnonzero(off[1:] * off[:-1] < 0)
    at = K[k] + (K[k + 1] - K[k]) * off[k] / (off[k] - off[k + 1])
    into = off[k + 1] < 0
    return [(float(a), float(b)) for (a, b), enters in zip(pairwise(at), into) if enters]


def lowest_knees() -> dict[str, tuple[float, float]]:
    """Lowest height of the knee in each experiment, and in its last 2 s [m]."""
    found = {}
    for name in EXPERIMENTS:
        if name.startswith("revolute"):
            x = run(name)
            height = x.out["knee"][: x.last + 1, 2]
            found[name] = (float(height.min()), float(height[x.t[: x.last + 1] > x.t[x.last] - 2].min()))
    return found


def under_the_floor() -> dict[str, Any]:
    """The knee's height in all experiments."""
    found = lowest_knees()
    shown = {name: run(name) for name in ("revolute IV", "revolute V", "revolute VI")}
    return {
        "depth": -1e3 * found["revolute IV"][1],
        "rows": [[k[0].upper() + k[1:], *(f"{1e3 * x:.1f}" for x in both)] for k, both in found.items()],
        "figure": pictures.knees(shown),
        "under": found["revolute IV"][1] < -0.02,
        "above": found["revolute VI"][0] > 0.06,
    }


def accuracy() -> dict[str, Any]:
    """One hop with all steps halved; the ledgers of all experiments."""
    sets, differences, rates = experiments.convergence()
    changes = [f"{x:.1e}" for x in differences] + [""] * (len(sets) - len(differences))
    found = ["", *(f"{x:.2f}" for x in rates)] + [""] * (len(sets) - 1 - len(rates))
    steps = [[1e6 * s[name] for name in ("step", "stance_step", "landing_step")] for s in sets]
    ledgers = {name: run(name).ledger for name in EXPERIMENTS}
    closures = {name: (x.residual, x.throughput) for name, x in ledgers.items()}
    return {
        "steps": [[*row, change, rate] for row, change, rate in zip(steps, changes, found, strict=True)],
        "ledgers": [[name, f"{r:.1e}", f"{t:.3g}", f"{abs(r) / t:.1e}"] for name, (r, t) in closures.items()],
        "order": bool(np.all(rates > 2.5)),
        "closed": all(abs(r) < 1e-6 * t for r, t in closures.values()),
    }


# -- beyond the thesis: gaits -------------------------------------------------------------------------------


def limit_cycles(six: Gait, four: Gait) -> dict[str, Any]:
    """Two gaits and their multipliers, three ways."""
    rows, table, apart = [], [], 0.0
    for name, g in (("IV", four), ("VI", six)):
        numbers = [f"{g.orbit.period:.6f}", f"{g.stride:.6f}", f"{g.speed:.5f}", f"{g.angle:.3f}"]
        rows.append(
            [
                name,
                *numbers,
                multipliers_of(g),
                f"{abs(g.orbit.multipliers[0]):.4f}",
                f"{g.orbit.residual:.0e}",
            ]
        )
        through, other = gaits.saltation_check(g)
        apart = max(apart, float(np.abs(through - other)[:4].max()))
        rough = gaits.derivative_check(g, (1e-3,))[0][1]
        for how, values in zip(DERIVATIVES, (through, other, rough), strict=True):
            table.append([name, how, "; ".join(complex_text(x) for x in values[:3] if x.imag >= 0)])
    return {
        "gaits": rows,
        "derivatives": table,
        "apart": apart,
        "six_stable": six.stable,
        "four_stable": four.stable,
        "slow": -0.03 < four.speed < 0,
        "same": apart < 1e-6,
    }


SET_POINTS = {  # of the polar spring [deg], and an apex near the gait there
    -3: (0.2119, 0.2639, -2.7197, 0.4525, 1.7802, 0.0),
    -2: (0.2207, 0.2657, -2.6770, 0.4384, 1.7802, 0.0),
    2: (0.2529, -0.0050, -1.7183, -0.2271, 1.7802, 0.0),
    3: (0.2471, -0.0030, -1.6820, -0.2397, 1.7802, 0.0),
}


def set_points(six: Gait, four: Gait) -> dict[str, Any]:
    """The gait of VI with other angles for the polar spring to hold."""
    found = {
        angle: gaits.shoot(np.array(x), {"alpha_des": np.radians(angle)}, step=1e-3)
        for angle, x in SET_POINTS.items()
    }
    runs = gaits.watch(six, "alpha_des", np.radians(list(found)).tolist(), 20.0)
    branch = gaits.follow(six, "alpha_des", 0.02, (-0.13, 0.02))
    curve = branch.curve
    ends = {kind: [np.degrees(x.value) for x in curve.bifurcations if x.kind == kind]
            for kind in ("fold", "Neimark-Sacker")}  # fmt: skip
    slow = [g for g in branch.gaits if g.speed < 0.8 * four.speed]
    near = min(slow, key=lambda g: abs(g.parameters["alpha_des"]))
    behind = curve.stable[curve.values < 0] | (branch.speeds[curve.values < 0] < 0.23)
    return {
        "rows": [
            [angle, f"{g.orbit.period:.4f}", f"{g.speed:.4f}", multipliers_of(g),
             f"{abs(g.orbit.multipliers[0]):.3f}", "falls" if w.end else f"hops on, {w.speed:.3f} m/s"]
            for (angle, g), w in zip(found.items(), runs, strict=True)
        ],
        "figure": pictures.branches([("gait of VI", branch)]),
        "folds": sorted(ends["fold"], reverse=True),
        "torus": ends["Neimark-Sacker"],
        "least": np.degrees(curve.values.min()),
        "one_side": all(g.stable == (angle < 0) for angle, g in found.items()) and bool(behind.all()),
        "one_curve": np.abs(gaits.shoot(near.x).x - four.x).max() < 1e-6,
    }  # fmt: skip


def followed(six: Gait, four: Gait) -> list[tuple[str, gaits.Branch]]:
    """Both gaits over E_des and K_p; the first ends where the gait of VI begins to chatter."""
    plans = (
        ("VI", six, "E_des", 0.12, (1.74, 3.2)),
        ("VI", six, "K_p", 0.4, (4.5, 7.5)),
        ("IV", four, "E_des", 0.03, (2.81, 2.93)),
        ("IV", four, "K_p", 0.1, (5.85, 6.5)),
    )
    return [(name, gaits.follow(g, p, step, bounds, 12)) for name, g, p, step, bounds in plans]


def over_parameters(six: Gait, four: Gait) -> dict[str, Any]:
    """Both gaits over parameters, and that of VI from where its foot begins to chatter."""
    branches = followed(six, four)
    return {"losses": losses(branches), "chatter": chatter(branches[0][1].gaits[-1])}


def losses(found: list[tuple[str, gaits.Branch]]) -> dict[str, Any]:
    """Where gaits lose stability, and what the stable ones of VI cost."""
    rows = []
    for name, b in found:
        rows += [[name, *_loss_row(b, loss)] for loss in b.curve.bifurcations]
        if not b.curve.bifurcations:
            rows.append([name, b.curve.parameter, "none found", "", ""])
        ends = "; ".join(f"{where}: {e}" for where, e in zip(("below", "above"), b.curve.ends, strict=True))
        rows.append([name, b.curve.parameter, "ends", ends, ""])
    return {
        "rows": rows,
        "figure": pictures.branches([(f"gait of {name}", branch) for name, branch in found]),
        "costs": [row for name, branch in found if name == "VI" for row in _costs(branch)],
    }


def _loss_row(branch: gaits.Branch, loss: Bifurcation) -> list[str]:
    return [branch.curve.parameter, f"{loss.value:.4f}", gaits.kind(loss), complex_text(loss.multiplier)]


def _costs(branch: gaits.Branch) -> list[list[str]]:
    """Cost of transport of its stable gaits that are not slow."""
    shown = [g for g in branch.gaits if g.stable and g.speed > 0.1]
    p, costs = branch.curve.parameter, gaits.cost_of_transport(shown)
    numbers = [[f"{x:.3f}" for x in (g.speed, *both)] for g, both in zip(shown, costs, strict=True)]
    return [[f"{p} = {g.parameters[p]:.4g}", *row] for g, row in zip(shown, numbers, strict=True)]


def watched(six: Gait, four: Gait) -> dict[str, Any]:
    """Simulations on either side of the bifurcations, with nothing of the apex map in them."""
    plans = (
        ("IV", four, "K_p", (5.93, 5.96, 6.01, 6.04)),
        ("IV", four, "E_des", (2.82, 2.83, 2.855, 2.875)),
        ("VI", six, "K_p", (6.3, 6.6)),
    )
    found = {(name, p): gaits.watch(g, p, values, 40.0) for name, g, p, values in plans}
    by_gain, by_energy, (_, doubled) = found.values()
    swinging = by_gain[0], by_energy[3]
    return {
        "rows": [
            [
                name,
                f"{p} = {w.value:g}",
                "{:.2f} to {:.2f}".format(*w.angles),
                "{:.4f} to {:.4f}".format(*w.heights),
                f"{w.speed:.3f}",
                w.end or "hops on",
            ]
            for (name, p), several in found.items()
            for w in several
        ],
        "gone": all(w.speed > 0.15 for w in (by_gain[3], by_energy[0])),
        "swings": all(2 < np.ptp(w.angles) < 25 and w.speed < 0 and not w.end for w in swinging),
        "stays": all(abs(w.speed) < 0.04 for w in (by_gain[2], by_energy[1])),
        "doubled": doubled.alternate and not doubled.end,
    }


def chatter(fast: Gait) -> dict[str, Any]:
    """The gait of VI with more energy, its foot sliding at touch-down."""
    branch = beyond.chattering(fast)
    near = min(branch.gaits, key=lambda g: abs(g.parameters["E_des"] - 3.6))
    found = beyond.bounces(near)
    after = beyond.orbits(near, (3.5, 3.6, 3.7, 3.75, 3.8, 3.85, 3.9, 4.0), 24.0)
    flips = [loss.value for loss in branch.curve.bifurcations if loss.kind.startswith("flip")]
    spread, steps = np.ptp(after.heights, axis=1), np.diff(after.heights, axis=1)
    turns = np.all(steps[:, 1:] * steps[:, :-1] < 0, axis=1)
    doubled = (after.E_des > 3.72) & (after.E_des < 3.87)
    one_flip = len(branch.curve.bifurcations) == 1 and len(flips) == 1
    return {
        "touches": near.touches,
        "level": near.parameters["E_des"],
        "rows": [
            [f"{g.parameters['E_des']:.3f}", g.touches, f"{g.speed:.3f}", multipliers_of(g)]
            for g in branch.gaits
        ],
        "figure": pictures.chatter(branch, found, after),
        "driven": bool(np.all(found.touching > 0) and np.all(found.flying < 0)) and near.touches > 500,
        "at": ", ".join(f"{x:.2f} J" for x in flips),
        "flips": one_flip and abs(flips[0] - 3.67) < 0.03,
        "alternates": bool(spread[0] < 1e-3 and np.all(turns[doubled]) and np.all(spread[doubled] > 5e-3)),
    }


def basins(six: Gait, four: Gait, size: int) -> dict[str, Any]:
    """What becomes of the hopper from starts that lean and move."""
    angles, speeds = (np.linspace(*ends, size) for ends in (gaits.ANGLES, gaits.SPEEDS))
    found = gaits.basin(angles, speeds, (six, four))
    return {
        "size": size,
        "knee": np.degrees(Q_102),
        "shares": _shares(found, gaits.OUTCOMES),
        "figure": pictures.basin_map(found),
    }


def _shares(found: Any, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {100 * found.share(name):.0f} %" for name in names)


# -- beyond the thesis: other controllers -------------------------------------------------------------------


def locked(size: tuple[int, int]) -> dict[str, Any]:
    """Controller III over gains and set-points."""
    found = beyond.locked_map(np.linspace(4.5, 11.3, size[0]), np.linspace(-0.86, -0.61, size[1]))
    several = beyond.locked_gaits()
    first = several[0][1]
    branches, edge = beyond.locked_branches(first), beyond.grazing(first)
    whole = simulate(beyond.LOCKED, beyond.START, (0, 0, 0, 0), 4.0, {"D_r": 20.0, **first.parameters}, 2e-3)
    ahead = found.kind == beyond.KINDS.index("forwards")
    fast, K = ahead & (found.speed > 0.236), np.array([2.0, 4.0, 6.0, 8.0, 12.0])
    costs = [float(found.cost[fast].min()), float(found.cost[fast].max())]
    return {
        "t_end": beyond.T_END,
        "runs": found.kind.size,
        "shares": _shares(found, beyond.KINDS),
        "map": pictures.locked_map(found, [g for _, g in several]),
        "gaits": [_locked_row(name, g) for name, g in several],
        "branches": pictures.branches([("gait of Controller III", b) for b in branches], {}),
        "losses": [_loss_row(b, loss) for b in branches for loss in b.curve.bifurcations],
        "grazing": [
            [f"{g.parameters['K_p']:.3f}", g.touches, complex_text(g.orbit.multipliers[0]), g.stable]
            for g in edge
        ],
        "moves": pictures.moving(whole, 0.0, 2.4, 40),
        "stable": all(g.stable for _, g in several),
        "comes_and_goes": [(g.touches, g.stable) for g in edge]
        == [(3, True), (3, False), (2, True), (2, False), (1, False)],
        "forwards": np.count_nonzero(ahead),
        "fast": np.count_nonzero(fast),
        "faster": np.count_nonzero(fast) > 0.7 * np.count_nonzero(ahead),
        "costs": costs,
        "cheaper": 0.15 < costs[0] < costs[1] < 0.255,
        "falls_at_zero": bool(np.all(beyond.locked_hops({"K_p": K, "alpha_des": 0 * K})["end_time"] < 1.0)),
    }


def _locked_row(name: str, g: Gait) -> list[Any]:
    gains = [f"{g.parameters[p]:g}" for p in ("K_p", "alpha_des")]
    motion = [f"{g.x[0]:.4f}", f"{g.orbit.period:.4f}", f"{g.speed:.4f}", f"{g.angle:.1f}", g.touches]
    return [name, *gains, *motion, multipliers_of(g), f"{abs(g.orbit.multipliers[0]):.3f}"]


def forwards() -> dict[str, Any]:
    """The prismatic leg with a set-point, and with a spring that places its foot."""
    start = EXPERIMENTS["prismatic III"].q0
    connection = dynamics.mechanical_connection(robot("prismatic").tree, np.array(start))
    tilted, placed = beyond.tilted(), beyond.placed()
    six, low = placed[0], next(b for b in tilted if abs(b.gaits[0].parameters["K_p"] - 5.2) < 1e-9)
    plans = (
        ("prismatic", {"K_p": 5.2, "alpha_des": -0.008}),
        (beyond.SWUNG, {"K_p": 6.0, **beyond.SWING, "swing_alpha_des": 0.3}),
    )
    plain, swung = (simulate(hopper, start, (0, 0, 0, 0), 16.0, p, 4e-3) for hopper, p in plans)
    speeds, best = [_speed_at_end(x) for x in (plain, swung)], beyond.fastest(low)
    at_3 = float(np.interp(0.3, six.curve.values, [g.speed for g in six.gaits])) if len(six.gaits) else np.nan
    stable = beyond.stable_when_placed((6.0, 8.0, 10.0, 15.0, 20.0))
    return {
        "swing": beyond.SWING["swing_K_p"],
        "rows": [_fastest_row(b, "alpha_des") for b in tilted] + [_fastest_row(b, "alpha_f") for b in placed],
        "figure": pictures.forwards(tilted, placed),
        "speed_II": speeds[0],
        "speed_swung": speeds[1],
        "moves": pictures.moving(swung, 0.0, 2.4, 40),
        "no_turning": float(np.abs(connection[0]).max()) == 0,
        "tilted": best.stable and 0.11 < best.speed < 0.14 and plain.data.ends == "",
        "placed": bool(np.all(stable < 1)),
        "fast": beyond.fastest(six).speed > 0.75,
        "from_rest": abs(speeds[1] - at_3) < 5e-3 and 0.06 < speeds[0] < 0.1,
    }


def _fastest_row(branch: gaits.Branch, name: str) -> list[str]:
    """The fastest stable gait along a curve, and what ends its stability."""
    best, first = beyond.fastest(branch), min(branch.gaits, key=lambda g: abs(g.speed))
    at = best.parameters[branch.curve.parameter]
    loss = min(branch.curve.bifurcations, key=lambda x: abs(x.value - at), default=None)
    size, largest = (f"{abs(g.orbit.multipliers[0]):.3f}" for g in (first, best))
    end = f"{gaits.kind(loss)}, at {loss.value:.4f} rad" if loss else "not within the range"
    return [f"{best.parameters['K_p']:g}", name, size, f"{best.speed:.3f}", f"{at:.4f}", largest, end]


def _speed_at_end(run: Run) -> float:
    """Over the last five hops [m/s]."""
    top = run.apexes
    x = run.centre(top)[0][:, 0]
    return float((x[-1] - x[-6]) / (top.t[-1] - top.t[-6]))
