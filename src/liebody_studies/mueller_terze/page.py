"""Mueller and Terze (2013), recomputed: which configuration space for rigid bodies with constraints?

Their four examples on SE(3) and on SO(3) x R^3 with their figures, their statements beside our numbers, their
misprints, and what they announce as future work: other integrators, and a choice of the group for each body.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compare import Array
from ..drawing import GREEN, GREY, INK, RED, beside
from ..report import Report, Verdict, rows_of
from . import errata, figures, golden, integrators, runs, stabilized
from .figures import COLOURS
from .golden import CHECK, LONG, ROUND_OFF, SHORT, Runs, near

NOTES = {row["place"]: row["text"] for row in rows_of(__package__, "notes")}  # where not all is run


def study(full: bool = False) -> Report:
    """Recompute the paper.

    full  every member of every family on every example, which takes minutes more to compile
    """
    pending = runs.prepare(jobs(full))  # compilers work while the first sections are computed
    motions = {(e, g): runs.setup(e, g).run(t_end=LONG) for e in runs.EXAMPLES for g in runs.GROUPS}
    examples = dict(zip(("top", "pendulum", "floating", "bars"), runs.EXAMPLES, strict=True))
    values: dict[str, Any] = {
        "s": errata.statements(motions),
        "e": errata.slips(motions),
        "equations": [
            [number, what, off, Verdict(f"{number}: {what}", "holds", off < 1e-12)]
            for number, what, off in errata.equation_checks()
        ],
        **{key: figures_of(example, motions) for key, example in examples.items()},
        **golden.independent_numbers(motions),
        "constraints_figure": constraints_figure(),
        "pulls": wrong_pulls(),
        "quartic": small_angles(),
        "subgroups": [subgroup_row(name) for name in errata.SUBGROUPS],
        "carried": on_a_slow_body(),
        "drift": with_a_drift(),
        "tailored": tailored(motions),
    }
    for job in pending:
        job.result()
    return Report.from_template(__package__, values | future_work(full))


def jobs(full: bool) -> list[tuple[runs.Setup, runs.Scheme]]:
    """What is compiled for integrators and stabilisations."""
    found = [(runs.setup(e, g), s) for e in runs.EXAMPLES for g in runs.GROUPS for s in runs.schemes(e, full)]
    held = [(e, s) for e in runs.EXAMPLES for s in runs.stabilized_schemes(e, full)]
    found += [
        (runs.setup(e, g), s.stabilized(by))
        for e, s in held
        for g in runs.GROUPS
        for by in stabilized.STABILIZERS
    ]
    finders = [s for s in runs.BASIC if s.name in integrators.FINDERS and s.name != "radau5"]
    return [*found, *((runs.setup(runs.PENDULUM, "auto"), s) for s in finders)]


def future_work(full: bool) -> dict[str, Any]:
    """Integrators of every family, without stabilisation and with it."""
    found, held = integrators.measure(full), stabilized.measure(full)
    return {
        "more_members": "" if full else NOTES["integrators"] + " ",
        "integrators": [integrators.section(example, found) for example in runs.EXAMPLES],
        "all": integrators.what_holds(found),
        "by_group": integrators.accuracy_by_group(found),
        "fastest": integrators.fastest(found),
        "of_gauss": "yes" if full else "yes; run on the top",
        "some_stabilized": "" if full else " " + NOTES["stabilizations"],
        "stabilized": [stabilized.section(example, held, full) for example in runs.EXAMPLES],
        "held": stabilized.what_holds(held),
    }


def figures_of(example: runs.Example, motions: Runs) -> dict[str, Any]:
    """Each joint's violation, then the energy, on both groups, and the largest values to 1 s and 5 s."""
    pair = [motions[example, group] for group in runs.GROUPS]
    joints = [joint for joint, _ in example.joints]
    lines = [[(x.until(SHORT).violation(j), x.violation(j)) for x in pair] for j in joints]
    lines.append([(x.until(SHORT).drift, x.drift) for x in pair])
    return {
        "drawing": figures.drawing(example),
        "figures": [*(figures.violation_figure(pair, j) for j in joints), figures.energy_figure(pair)],
        "peaks": [_peaks(line, " m") for line in lines[:-1]] + [_peaks(lines[-1], "")],
        "kinetic": pair[0].kinetic[0],
    }


def _peaks(line: list[tuple[Array, Array]], unit: str) -> str:
    return "; ".join(
        f"{runs.NAMES[g]} {runs.peak(a):.2e} and {runs.peak(b):.2e}{unit}"
        for g, (a, b) in zip(runs.GROUPS, line, strict=True)
    )


def constraints_figure() -> Any:
    """The top's pivot with each way to write its acceleration constraint."""
    curves, colours = [], (COLOURS["SE3"], GREEN, RED, COLOURS["SO3xR3"], GREY)
    for name, colour in zip(runs.JACOBIANS, colours, strict=True):
        motion = runs.top_motion(LONG, constraint=name)
        t, y = figures.binned(motion.t, motion.pivot)
        label = name.replace("R^T r", r"$R^\top r$").replace("eta", r"$\eta$").replace(" J ", " $J$ ")
        curves.append((label, y, "-", colour))
    figure, axis = figures.by_curves(t, curves, ("t [s]", "pivot error [m]"), "y")
    beside(axis, 9)
    return figure


PULLED = {
    # in place of dexp^-1: what the page calls it, the order that is left, style and colour
    "dexp^-1": (r"$\mathrm{dexp}^{-1}_{-\Psi}$", 4, "o-", COLOURS["SE3"]),
    "none": ("left out", 2, "s-", RED),
    "wrong sign": (r"$\mathrm{dexp}^{-1}_{+\Psi}$, the wrong sign", 2, "^-", COLOURS["SO3xR3"]),
    "1 + ad/2": (r"$1 + \frac{1}{2}\mathrm{ad}$", 3, "D-", GREEN),
    "1 + ad/2 + ad^2/12": (r"$1 + \frac{1}{2}\mathrm{ad} + \frac{1}{12}\mathrm{ad}^2$", 4, "x:", INK),
}


def wrong_pulls() -> dict[str, Any]:
    """The top with something else in place of dexp^-1: joint and energy, attitude and its order."""
    steps, rows, curves = np.array([2e-3, 1e-3, 5e-4, 2.5e-4]), [], []
    for pull, (name, expected, style, colour) in PULLED.items():
        found = [runs.attitude_error(runs.top_motion(CHECK, h, pull=pull)) for h in steps]
        motion, orders = runs.top_motion(SHORT, pull=pull), np.log2(np.array(found[:-1]) / found[1:])
        pivot, drift = runs.peak(motion.pivot), runs.peak(motion.drift)
        good = abs(orders[-1] - expected) < 0.45 and pivot < 1e-12 and near(drift, 2.80042e-8, 1e-4)
        verdict = Verdict(f"order {expected} with {name}, joint and energy unmoved", "holds", good)
        shown = ", ".join(f"{x:.2f}" for x in orders)
        rows.append([name, f"{pivot:.0e}", f"{drift:.5e}", found[1], shown, verdict])
        curves.append((name, found, style, colour))
    figure, axis = figures.by_curves(1e3 * steps, curves, ("step [ms]", "attitude error at 0.5 s"), "xy")
    axis.set_xticks(1e3 * steps, [f"{1e3 * h:g}" for h in steps])
    beside(axis, 9)
    return {"rows": rows, "figure": figure}


def small_angles() -> dict[str, Any]:
    """The quartic (10) where it cancels."""
    angles = 10.0 ** -np.arange(0, 10)
    found = errata.cancellation(angles)
    printed, ours = [p for _, p, _ in found if np.isfinite(p)], [max(x, 1e-18) for *_, x in found]
    curves = [("(10) as printed", printed, "s-", RED), ("block form with series", ours, "o-", COLOURS["SE3"])]
    labels = r"$\theta = |\omega|$", r"error of $\mathrm{dexp}^{-1}$"
    figure, axis = figures.by_curves(angles, curves, labels, "xy", height=2.6)
    axis.legend(frameon=False, fontsize=9)
    return {
        "figure": figure,
        "errors": ", ".join(f"{p:.0e} at {a:.0e}" for a, p, _ in found[1:7:2]),
        "useless": found[6][1] > 1 and max(x for *_, x in found) < 1e-15,
    }


def subgroup_row(name: str) -> list[Any]:
    """A motion subgroup, and on which group its motions are exact."""
    a, b = (errata.leaves_the_subgroup(name, g) for g in runs.GROUPS)
    both = name in errata.EXACT_ON_BOTH
    what = "both" if both else "$SE(3)$ only"
    good = a < 1e-13 and (b < 1e-13 if both else b > 1e-11)
    return [name, a, b, what, Verdict(f"{name}: exact on {what}", "holds", good)]


def on_a_slow_body() -> dict[str, Any]:
    """A ball joint on a body that turns."""
    speeds = [1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0]
    found = {g: [errata.on_a_moving_body(w, g) for w in speeds] for g in runs.GROUPS}
    crossing = next((w for w, a, b in zip(speeds, *found.values(), strict=True) if a > b), np.inf)
    curves = [(runs.NAMES[g], found[g], "o-", COLOURS[g]) for g in runs.GROUPS]
    labels = "turn of the body that carries the joint [rad/s]", "error of the joint [m]"
    figure, axis = figures.by_curves(speeds, curves, labels, "xy")
    axis.legend(frameon=False, fontsize=9)
    better = 0.03 < crossing < 5 and found["SE3"][0] < 0.1 * found["SO3xR3"][0]
    return {"figure": figure, "crossing": crossing, "better": better}


def with_a_drift() -> dict[str, Any]:
    """The floating pair with a common drift along two axes."""
    speeds = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0]
    axes = {"x": (1.0, 0.0, 0.0), "z": (0.0, 0.0, 1.0)}
    found = {d: [errata.common_drift(w, axis) for w in speeds] for d, axis in axes.items()}
    still, fast = found["z"][0], found["z"][-1]
    return {
        "figure": figures.drifting_figure(speeds, found),
        "z": fast["SE3"],
        "x": found["x"][-1]["SE3"],
        "still": still["SE3"],
        "product": [fast["SO3xR3"][0], still["SO3xR3"][0]],
        "not_invariant": near(fast["SE3"][0], 4.0e-9, 0.05) and near(fast["SE3"][1], 1.5e-6, 0.05),
        "invariant": near(fast["SO3xR3"][0], still["SO3xR3"][0], 0.01),
    }


def tailored(motions: Runs) -> dict[str, Any]:
    """The choice of `configuration="auto"` beside the others."""
    auto = {e: runs.setup(e, "auto").run(t_end=LONG) for e in runs.EXAMPLES}
    both = {e: {g: motions[e, g] for g in runs.GROUPS} for e in runs.EXAMPLES}
    pictures = [figures.tailored_figure(e, {**both[e], "auto": run}) for e, run in auto.items()]
    run = auto[runs.PENDULUM]
    first, second = runs.peak(run.violation("j1")), runs.peak(run.until(SHORT).violation("j2"))
    others = [runs.peak(motions[runs.PENDULUM, g].until(SHORT).violation("j2")) for g in runs.GROUPS]
    costs = [errata.cost(runs.PENDULUM, g) for g in (*runs.GROUPS, "auto")]
    return {
        "figures": pictures,
        "chosen": [" and ".join(runs.NAMES[b.group.name] for b in x.system.bodies) for x in auto.values()],
        "rows": [
            _assigned(e, (a, b), tuple(body.group.name for body in auto[e].system.bodies))
            for e in (runs.PENDULUM, runs.THREE_BAR)
            for a in runs.GROUPS
            for b in runs.GROUPS
        ],
        "first": first,
        "second": second,
        "others": others,
        "costs": costs,
        "holds": first < ROUND_OFF and second < 1.2 * max(others) and costs[1] < costs[2] < costs[0],
        "same": runs.peak(auto[runs.HEAVY].q - motions[runs.HEAVY, "SE3"].q) == 0.0,
    }


def _assigned(example: runs.Example, groups: tuple[str, str], auto: tuple[str, ...]) -> list[Any]:
    """An assignment of groups to the two bodies."""
    run = runs.setup(example, groups).run(t_end=LONG)
    part = run.until(SHORT)
    return [
        f"{example.section} {example.key}",
        ", ".join(runs.NAMES[g] for g in groups) + (" (auto)" if groups == auto else ""),
        *(" / ".join(f"{runs.peak(x.violation(j)):.1e}" for j, _ in example.joints) for x in (part, run)),
        f"{runs.peak(part.drift):.2e}",
        errata.cost(example, groups),
    ]
