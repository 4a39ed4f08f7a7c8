"""Integrators with stabilisation on the examples of Mueller and Terze (2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..drawing import AMBER, BLUE, GREEN, GREY
from ..report import Part
from . import runs
from .figures import curves_of, drift_figure
from .golden import CHECK, LONG, SHORT

STABILIZED = {
    "none": (GREY, "o"), "baumgarte": (AMBER, "^"), "projection": (BLUE, "s"), "index-2": (GREEN, "D")
}  # fmt: skip
STABILIZERS = tuple(by for by in STABILIZED if by != "none")


@dataclass(frozen=True)
class Stabilized:
    """A run of 1 s at steps of 1 ms: largest violations [m], energy drift, error of the attitude at 0.5 s."""

    joints: dict[str, float]
    energy: float
    attitude: float
    end: float

    @property
    def lost(self) -> bool:
        """Whether it ended early, or changed its energy by more than there was."""
        return round(self.end, 9) < SHORT or not self.energy < 1


def stabilized(example: runs.Example, group: str, scheme: runs.Scheme) -> Stabilized:
    run = runs.setup(example, group).timed(scheme, runs.STEP, SHORT, times=1)[0]
    arrived = round(run.t[-1], 9) >= CHECK
    attitude = runs.errors(run.until(CHECK), example)[0] if arrived else np.nan
    joints = {j: runs.peak(run.violation(j)) for j, _ in example.joints}
    return Stabilized(joints, runs.peak(run.drift), attitude, float(run.t[-1]))


Found = dict[tuple[runs.Example, str, runs.Scheme, str], Stabilized]


def measure(full: bool) -> Found:
    return {
        (e, g, s, by): stabilized(e, g, s.stabilized(by))
        for e in runs.EXAMPLES
        for g in runs.GROUPS
        for s in runs.stabilized_schemes(e, full)
        for by in STABILIZED
    }


def section(example: runs.Example, found: Found, full: bool) -> Part:
    """The section of an example."""
    lines = {
        g: {by: (curves_of(_long(example, g, by), example), *style) for by, style in STABILIZED.items()}
        for g in runs.GROUPS
    }
    values = {
        "section": example.section,
        "title": example.heading,
        "rows": [_row(example, scheme, found) for scheme in runs.stabilized_schemes(example, full)],
        "drift": drift_figure(example, lines),
    }
    return Part.of(__package__, "stabilized", values)


def _long(example: runs.Example, group: str, by: str) -> runs.Trajectory:
    return runs.setup(example, group).timed(runs.RK4.stabilized(by), runs.STEP, LONG, times=1)[0]


def _row(example: runs.Example, scheme: runs.Scheme, found: Found) -> list[str]:
    """A method: the worst joint, the energy and the attitude, on both groups."""
    cells = []
    for by in STABILIZED:
        pair = [found[example, g, scheme, by] for g in runs.GROUPS]
        lines = zip(*((max(x.joints.values()), x.energy, x.attitude) for x in pair), strict=True)
        words = (" / ".join("lost" if x.lost else f"{y:.0e}" for x, y in zip(pair, line)) for line in lines)
        cells.append("lost" if all(x.lost for x in pair) else "\n".join(words))
    return [f"`{scheme.name}`", "joints\nenergy\nattitude", *cells]


def what_holds(found: Found) -> dict[str, Any]:
    """What holds for all stabilisations, with its numbers."""
    held = {
        by: [max(x.joints.values()) for (_, _, _, of), x in found.items() if of == by and not x.lost]
        for by in STABILIZERS
    }
    ratios = {
        (e, g, by): x.attitude / found[e, g, s, "none"].attitude
        for (e, g, s, by), x in found.items()
        if s is runs.RK4 and by != "none"
    }
    calm = max(abs(x - 1) for (e, g, _), x in ratios.items() if e is runs.HEAVY and g == "SE3")
    top = [ratios[runs.HEAVY, "SO3xR3", by] for by in ("projection", "baumgarte", "index-2")]
    others = {
        by: [x for (e, _, of), x in ratios.items() if e is not runs.HEAVY and of == by] for by in STABILIZERS
    }
    bounded = [max(held[by]) for by in ("baumgarte", "index-2")]
    return {
        "worst": max(held["projection"]),
        "runs": len(held["projection"]),
        "projected": max(held["projection"]) < 1e-11,
        "baumgarte": bounded[0],
        "index": bounded[1],
        "bounded": all(1e-7 < x < 0.01 for x in bounded),
        "change": calm,
        "calm": calm < 1e-3,
        "top": top,
        "moments": top[0] > 2 and min(top[1:]) > 50,
        "others": ", ".join(f"{min(x):.2g} to {max(x):.2g} ({by})" for by, x in others.items()),
        "no_small_errors": max(others["projection"]) < 1.5
        and min(max(others["baumgarte"]), max(others["index-2"])) > 5,
    }
