"""Calls of ours timed beside Pinocchio's: alternately, in one process; medians over the rounds."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from machine import describe, keep, met, seconds, unless_quick
from robots import FILES

BATCH, ROUNDS, SINGLE = unless_quick((8192, 15, 20000), (64, 2, 20))
HEADINGS = f"{'liebody':>10s} {'pinocchio':>10s} {'ratio':>8s}   [quartiles]"


def compare(
    label: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    states: int,
    repeat: int = 1,
    goal: float = 0,
) -> tuple[float, float]:
    """Alternate the two, print medians, and whether a goal is met; the medians of ours [s], of the ratio."""
    ours(), theirs()
    a, b = np.array([[seconds(x, repeat) / states for x in (ours, theirs)] for _ in range(ROUNDS)]).T
    keep(label, seconds=a, ratio=b / a)
    low, ratio, high = np.percentile(b / a, [25, 50, 75])
    print(
        f"{label:28s} {np.median(a) * 1e9:10.1f} {np.median(b) * 1e9:10.1f} {ratio:8.1f}   "
        f"[{low:.1f}, {high:.1f}]" + (f"  >= {goal:g}: {met(ratio >= goal)}" if goal else "")
    )
    return float(np.median(a)), float(ratio)


def alone(label: str, ours: Callable[[], Any], states: int) -> None:
    """What Pinocchio does not have."""
    ours()
    each = [seconds(ours) / states for _ in range(ROUNDS)]
    keep(label, seconds=each)
    print(f"{label:28s} {statistics.median(each) * 1e9:10.1f}")


def main(
    doc: str | None,
    robot: Callable[[str, int], None],
    chosen: Sequence[str] = tuple(FILES),
    batch: int = BATCH,
) -> None:
    """The command line of a script: robots, and the size of batches."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", default=unless_quick(chosen, chosen[:1]))
    parser.add_argument("--batch", type=int, default=unless_quick(batch, 8), help="states in a batch")
    given = parser.parse_args()
    print(describe("pin", "numpy"))
    print(f"{'ns per state':28s} {HEADINGS}")
    for name in given.robots:
        robot(name, given.batch)
