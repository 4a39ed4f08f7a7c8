"""Independent numbers beside those of the study of Mueller and Terze (2013): drift, and convergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..report import Verdict, rows_of
from . import runs
from .runs import FLOATING, HEAVY, PENDULUM, THREE_BAR

Runs = dict[tuple[runs.Example, str], runs.Trajectory]
SHORT, LONG, CHECK = 1.0, 5.0, 0.5  # [s]: the runs, and where errors against references are taken
ROUND_OFF = 1e-11  # of joints, in 5000 steps


@dataclass(frozen=True)
class Golden:
    """Drift at steps of 1 ms, by a separate program in plain NumPy: maxima to 1 s and to 5 s.

    violation, rate  for each joint a pair [m], [m/s]; None for round-off
    energy           (E - E(0))/T(0)
    kinetic          T(0) [J]
    """

    violation: tuple[tuple[float, float] | None, ...]
    rate: tuple[tuple[float, float] | None, ...]
    energy: tuple[float, float]
    kinetic: float


def _golden(row: dict[str, str]) -> Golden:
    violation, rate = (
        tuple(_two(x) if x != "round-off" else None for x in row[key].split(", ")) for key in ("|g|", "|JV|")
    )
    return Golden(violation, rate, _two(row["energy"]), float(row["T(0)"]))


def _two(text: str) -> tuple[float, float]:
    first, second = map(float, text.split())
    return first, second


ROWS = rows_of(__package__, "golden")
GOLDEN = {(e, r["group"]): _golden(r) for r in ROWS for e in runs.EXAMPLES if e.key == r["example"]}
CONVERGENCE = {
    # steps [s]; the largest entries of the errors of R, the same on both groups; at 1 ms, of r on either
    HEAVY: ((2e-3, 1e-3, 5e-4, 2.5e-4), (4.04e-6, 1.49e-7, 6.43e-9, 3.12e-10), (7.44e-8, 3.55e-7)),
    PENDULUM: ((2e-3, 1e-3, 5e-4, 2.5e-4), (9.76e-3, 5.23e-4, 2.99e-5, 1.78e-6), (4.05e-6, 3.30e-6)),
    FLOATING: ((4e-3, 2e-3, 1e-3, 5e-4), (1.85e-7, 1.13e-8, 6.99e-10, 4.34e-11), (7.95e-11, 6.81e-11)),
    THREE_BAR: ((4e-3, 2e-3, 1e-3, 5e-4), (1.79e-5, 1.13e-6, 7.10e-8, 4.45e-9), (7.10e-9, 7.26e-9)),
}


def near(found: float, golden: float, tolerance: float = 0.02) -> bool:
    """Whether a number is the golden one, which is positive, up to a factor of 1 + tolerance."""
    return golden / (1 + tolerance) <= found <= golden * (1 + tolerance)


def golden_rows(motions: Runs) -> list[tuple[str, str, str, float, float, float]]:
    """(example, group, what, golden, found, tolerance) for every golden number above round-off."""
    rows = []
    for (example, group), golden in GOLDEN.items():
        run = motions[example, group]
        # starts of the pendulum that differ in their last digit come to peaks 0.6 to 1.4 times these
        late = 1.0 if example is PENDULUM else 0.02
        for t_end, place, slack in ((SHORT, 0, 0.01), (LONG, 1, late)):
            part = run.until(t_end)
            for (joint, _), g, rate in zip(example.joints, golden.violation, golden.rate, strict=True):
                both = ("|g|", part.violation(joint), g), ("|JV|", part.rate(joint), rate)
                for name, values, expected in both:
                    if expected is not None:
                        what = f"{name} of {joint}, {t_end:g} s"
                        rows.append((example.key, group, what, expected[place], runs.peak(values), slack))
            energy = golden.energy[place], runs.peak(part.drift)
            rows.append((example.key, group, f"dE, {t_end:g} s", *energy, slack))
        rows.append((example.key, group, "T(0)", golden.kinetic, float(run.kinetic[0]), 1e-6))
    return rows


def golden_table(motions: Runs) -> list[list[Any]]:
    """A row for each example and group."""
    return [_golden_row(motions, example, group) for example, group in GOLDEN]


def _golden_row(motions: Runs, example: runs.Example, group: str) -> list[Any]:
    rows = [r for r in golden_rows(motions) if r[:2] == (example.key, group)]
    quiet = [
        runs.peak(getattr(motions[example, group], what)(joint))
        for what in ("violation", "rate")
        for (joint, _), g in zip(example.joints, getattr(GOLDEN[example, group], what), strict=True)
        if g is None
    ]
    good = all(near(found, expected, slack) for *_, expected, found, slack in rows)
    short, late = ([r for r in rows if when in r[2] and "JV" not in r[2]] for when in ("1 s", "5 s"))
    columns = [[f"{r[k]:.2e}" for r in part] for part in (short, late) for k in (3, 4)]
    name, good = f"{example.section} {runs.NAMES[group]}", good and all(x < ROUND_OFF for x in quiet)
    return [
        name,
        "\n".join(what.split(",")[0] for _, _, what, *_ in short),
        *("\n".join(column) for column in columns),
        f"{max(quiet):.0e}" if quiet else "",
        max(abs(found / expected - 1) for *_, expected, found, _ in rows),
        Verdict(f"drift of {example.section} on {runs.NAMES[group]}", "holds", good),
    ]


def convergence_row(example: runs.Example) -> list[Any]:
    """Errors against a reference by the step, on both groups."""
    steps, golden_errors, places = CONVERGENCE[example]

    def errors(group: str, h: float) -> tuple[float, float]:
        run = runs.setup(example, group).run(dt=h, t_end=CHECK, every=round(CHECK / h))
        return runs.errors(run, example)

    found = {g: np.array([errors(g, h) for h in steps]) for g in runs.GROUPS}
    attitude, position = found["SE3"][:, 0], [found[g][steps.index(runs.STEP), 1] for g in runs.GROUPS]
    orders = np.log2(attitude[:-1] / attitude[1:])
    same = runs.peak(attitude / found["SO3xR3"][:, 0] - 1)
    pairs = [*zip(attitude, golden_errors, strict=True), *zip(position, places, strict=True)]
    good = all(near(a, g) for a, g in pairs) and same < 0.05 and orders[-1] > 3.9
    return [
        f"{example.section} {example.key}",
        "\n".join(f"{1e3 * h:g} ms" for h in steps),
        *("\n".join(f"{x:.2e}" for x in column) for column in (golden_errors, attitude)),
        ", ".join(f"{x:.2f}" for x in orders),
        *(" / ".join(f"{x:.2e}" for x in column) for column in (places, position)),
        same,
        Verdict(f"attitudes of {example.section} at order 4", "holds", good),
    ]


def independent_numbers(motions: Runs) -> dict[str, Any]:
    """The tables, and how far the attitudes on both groups are apart."""
    last = {(e, g): motions[e, g].until(SHORT).poses()[0][-1] for e, g in motions}
    apart = {e: runs.peak(last[e, "SE3"] - last[e, "SO3xR3"]) for e in runs.EXAMPLES}
    return {
        "golden": golden_table(motions),
        "convergence": [convergence_row(example) for example in CONVERGENCE],
        "attitudes": ", ".join(f"{x:.1g} ({e.key})" for e, x in apart.items()),
        "attitudes_alike": all(x < (1e-8 if e is PENDULUM else 1e-12) for e, x in apart.items()),
    }
