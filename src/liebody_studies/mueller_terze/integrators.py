"""Every family of integrators on the examples of Mueller and Terze (2013): precision, drift and work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..report import Part
from . import runs
from .figures import Curves, curves_of, drift_figure, overview_figure, work_figure
from .golden import CHECK, LONG, ROUND_OFF, SHORT

SHOWN = {
    "rkmk2": ("#9ecae1", "o"), "rkmk4": ("#1f5fa8", "o"),
    "rkmk45": ("#4a90d9", "^"), "rkmk8": ("#08306b", "s"),
    "cf4": ("#14663a", "o"), "crouch-grossman4": ("#74c476", "^"),
    "half-explicit4": ("#d9921a", "o"), "half-explicit4, projected": ("#8c5a00", "s"),
    "generalized-alpha 0.9": ("#b3261e", "o"), "variational": ("#8e44ad", "D"),
    "radau5": ("#333333", "^"), "gauss4": ("#888888", "s"),
}  # fmt: skip
STEPS = (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)
ON_GROUND = ("pivot", "j1", "j3")
ENDS_ON_G = ("generalized-alpha 0.9", "generalized-alpha 0.5", "variational", "half-explicit4, projected")
FINDERS = ("half-explicit4, projected", "generalized-alpha 0.9", "variational", "radau5")


@dataclass(frozen=True)
class Performance:
    """An integrator on an example and a group: maxima in 1 s at steps of 1 ms, errors at 0.5 s over steps.

    joints  the largest violation of each joint                                                         [m]
    energy  the largest |E - E(0)| / T(0)
    end     when the run of 1 s ended: earlier where a state was not finite                             [s]
    work    rows (step [s], processor time for 0.5 s, attitude error, largest violation of a joint so far)
    curves  over 5 s, where it is shown: times and largest values in each 0.05 s, of each joint and "energy"
    """

    scheme: runs.Scheme
    joints: dict[str, float]
    energy: float
    end: float
    work: np.ndarray
    curves: Curves

    @property
    def ground(self) -> float:
        """The largest violation of the joints on the ground, NaN where there are none."""
        return max((x for j, x in self.joints.items() if j in ON_GROUND), default=np.nan)

    @property
    def between(self) -> float:
        """The violation of the joint between the bodies, NaN where there is none."""
        return self.joints.get("j2", np.nan)

    @property
    def attitude(self) -> float:
        return float(self.work[self.work[:, 0] == runs.STEP, 2][0])

    @property
    def order(self) -> float:
        """The slope of the attitude's error between the last two steps that are well above round-off."""
        h, e = self.work[:, 0], self.work[:, 2]
        good = np.flatnonzero(np.isfinite(e) & (e > 1e-11) & (e < 0.1))
        if len(good) < 2:
            return float("nan")
        i, j = good[-2:]
        return float(np.log(e[i] / e[j]) / np.log(h[i] / h[j]))


def performance(
    example: runs.Example, group: str, scheme: runs.Scheme, steps: Sequence[float] = STEPS
) -> Performance:
    """Run an integrator at several steps, and for 1 s at 1 ms; for 5 s, where it is shown."""
    place, rows = runs.setup(example, group), []
    for h in steps:
        run, seconds = place.timed(scheme, h, CHECK, round(CHECK / h) // 25)
        arrived = round(run.t[-1], 9) == CHECK
        error, worst = (runs.errors(run, example)[0], runs.peak(run.worst)) if arrived else (np.nan, np.nan)
        rows.append([h, seconds, error, worst])
    run = place.run(scheme, runs.STEP, LONG if repr(scheme) in SHOWN else SHORT)
    curves = curves_of(run, example) if repr(scheme) in SHOWN else {}
    run = run.until(SHORT)
    joints = {j: runs.peak(run.violation(j)) for j, _ in example.joints}
    return Performance(scheme, joints, runs.peak(run.drift), float(run.t[-1]), np.array(rows), curves)


Found = dict[tuple[runs.Example, str], list[Performance]]


def measure(full: bool) -> Found:
    return {
        (e, g): [performance(e, g, s) for s in runs.schemes(e, full)]
        for e in runs.EXAMPLES
        for g in runs.GROUPS
    }


def by_name(found: Found, example: runs.Example, group: str) -> dict[str, Performance]:
    return {x.scheme.name: x for x in found[example, group]}


def time_to(x: Performance, accuracy: float) -> float:
    """Seconds for 0.5 s of motion with an attitude error of at most so much; NaN if no step tried has it.

    Between the steps tried, logarithmically; the longest of them where that is good enough.
    """
    seconds, error = x.work[:, 1], x.work[:, 2]
    good = np.flatnonzero(error <= accuracy)
    if not len(good):
        return float("nan")
    i = int(good[0])
    if i == 0 or not np.isfinite(error[i - 1]):
        return float(seconds[i])
    ends = np.log(error[[i, i - 1]])
    return float(np.exp(np.interp(np.log(accuracy), ends, np.log(seconds[[i, i - 1]]))))


def _violations(x: Performance, example: runs.Example) -> str:
    """The joints' violations, in the paper's order."""
    text = " / ".join(f"{x.joints[j]:.0e}" for j, _ in example.joints)
    return text if round(x.end, 9) == SHORT else f"{text}, until {x.end:.2g} s"


def _row(example: runs.Example, a: Performance, b: Performance) -> list[str]:
    """An integrator on both groups."""
    seconds = [float(x.work[x.work[:, 0] == runs.STEP, 1][0]) for x in (a, b)]
    return [
        f"`{a.scheme.name}`",
        str(a.scheme.order),
        f"{a.attitude:.1e}" if np.isfinite(a.attitude) else "",
        f"{a.order:.1f}" if np.isfinite(a.order) else "",
        *(_violations(x, example) for x in (a, b)),
        *(f"{x.energy:.1e}" for x in (a, b)),
        *(f"{CHECK / runs.STEP / x / 1e3:,.0f}k" for x in seconds),
    ]


def _marks(on: dict[str, list[Performance]]) -> dict[str, dict[str, list[float]]]:
    """What the table of an example says, by column and group, in the order of the integrators."""
    columns: dict[str, Callable[[Performance], float]] = {
        "attitude error": lambda x: x.attitude,
        "worst joint [m]": lambda x: max(x.joints.values()),
        "|energy drift|": lambda x: x.energy,
        "steps/s": lambda x: CHECK / runs.STEP / float(x.work[x.work[:, 0] == runs.STEP, 1][0]),
    }
    return {name: {g: list(map(f, xs)) for g, xs in on.items()} for name, f in columns.items()}


def section(example: runs.Example, found: Found) -> Part:
    """The section of an example."""
    on = {g: found[example, g] for g in runs.GROUPS}
    lines = {
        g: {x.scheme.name: (x.curves, *SHOWN[x.scheme.name]) for x in xs if x.curves} for g, xs in on.items()
    }
    work = {
        g: [(x.scheme.name, x.work, *SHOWN[x.scheme.name]) for x in xs if x.scheme.name in SHOWN]
        for g, xs in on.items()
    }
    values = {
        "section": example.section,
        "title": example.heading,
        "joints": " / ".join(j for j, _ in example.joints),
        "overview": overview_figure([x.scheme.name for x in on["SE3"]], _marks(on)),
        "rows": [_row(example, a, b) for a, b in zip(*on.values(), strict=True)],
        "drift": drift_figure(example, lines),
        "work": work_figure(work),
    }
    return Part.of(__package__, "integrators", values)


def fastest(found: Found) -> list[list[str]]:
    """The three fastest ways to an accuracy of the attitude, for each example and group."""
    rows = []
    for example in runs.EXAMPLES:
        for accuracy in (1e-3, 1e-6, 1e-9):
            cells = []
            for group in runs.GROUPS:
                times = ((time_to(x, accuracy), x.scheme.name) for x in found[example, group])
                ranked = sorted(x for x in times if np.isfinite(x[0]))
                cells.append("\n".join(f"`{n}` {1e3 * t:.2g} ms" for t, n in ranked[:3]) or "not reached")
            rows.append([f"{example.section} {example.title}", f"{accuracy:.0e}", *cells])
    return rows


def what_holds(found: Found) -> dict[str, Any]:
    """What holds for all integrators, with its numbers."""
    grounded = [x.ground for (e, g), xs in found.items() if g == "SE3" and e is not runs.FLOATING for x in xs]
    loose = [
        [x.ground for x in found[e, "SO3xR3"] if x.scheme.kind != "constraints" and np.isfinite(x.ground)]
        for e in (runs.HEAVY, runs.PENDULUM, runs.THREE_BAR)
    ]
    held = [x for xs in found.values() for x in xs if x.scheme.name in ENDS_ON_G]
    worst_held = max(y for x in held for y in (x.ground, x.between) if np.isfinite(y))
    orders = [
        abs(x.order - x.scheme.order)
        for g in runs.GROUPS
        for x in found[runs.FLOATING, g]
        if np.isfinite(x.order) and x.scheme.order <= 4
    ]
    top = {g: by_name(found, runs.HEAVY, g) for g in runs.GROUPS}
    same = [
        runs.peak(x.attitude / top["SO3xR3"][name].attitude - 1)
        for name, x in top["SE3"].items()
        if x.scheme.kind != "constraints" and x.attitude > 1e-11
    ]
    gauss = {n: [top[g][n].energy for g in runs.GROUPS] for n in ("implicit-midpoint", "gauss4", "gauss6")}
    return {
        "ground": max(grounded),
        "runs": len(grounded),
        "grounded": max(grounded) < ROUND_OFF,
        "tightest": min(map(min, loose)),
        "loosest": max(map(max, loose)),
        "loose": min(map(max, loose)) > 1e-4,
        "worst_held": worst_held,
        "held": worst_held < 1e-13,
        "same": max(same),
        "alike": max(same) < 0.01,
        "energies": ", ".join(f"{a:.0e} against {b:.0e} ({n})" for n, (a, b) in gauss.items()),
        "quadratic": all(a < 1e-12 for a, _ in gauss.values()) and gauss["implicit-midpoint"][1] > 1e-5,
        "order_off": max(orders),
        "orders": max(orders) < 0.25,
    }


def accuracy_by_group(found: Found) -> dict[str, Any]:
    """Errors of methods that find lambda within the step, on both groups and on the tailored choice."""
    rows, ratios, tailored = [], {}, []
    for name in FINDERS:
        for example in runs.EXAMPLES:
            pair = [by_name(found, example, g).get(name) for g in runs.GROUPS]
            if None in pair:
                continue
            a, b = (float(x.work[-1, 2]) for x in pair if x is not None)
            ratios[name, example], mixed = b / a, ""
            if example is runs.PENDULUM and name != "radau5":
                h, scheme = STEPS[-1], next(x.scheme for x in pair if x is not None)
                run = runs.setup(example, "auto").run(scheme, h, CHECK, round(CHECK / h))
                tailored.append((runs.errors(run, example)[0], min(a, b)))
                mixed = f"{tailored[-1][0]:.1e}"
            where = f"{example.section} {example.key}"
            rows.append([f"`{name}`", where, f"{a:.1e}", f"{b:.1e}", f"{b / a:.2f}", mixed])
    top = {name: x for (name, example), x in ratios.items() if example is runs.HEAVY}
    others = [x for (_, example), x in ratios.items() if example is not runs.HEAVY]
    least, most = min(others), max(others)
    return {
        "rows": rows,
        "factors": ", ".join(f"{x:.1f} (`{name}`)" for name, x in top.items()),
        "least": least,
        "most": most,
        "matters": min(top.values()) > 2.5 and least < 0.7 and most > 1.3,
        "tailored": all(mixed < 1.1 * best for mixed, best in tailored),
    }
