"""Gaits of a generation of designs: all in one ensemble against one after the other.

    python benchmarks/designs.py

The hopping leg with a slide (`examples/design_of_a_leg.py`) gets masses of base and foot and an energy about
those of its gait. Newton's method finds the gait of each design, from the known gait. `gaits.design` runs the
methods of all designs in step, so that each simulation has a member for each design. Times are processor
times of all threads.
"""

from __future__ import annotations

import importlib.util
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe, seconds, spent, unless_quick

from liebody.gaits import GaitError, PeriodicOrbit

EXAMPLE = Path(__file__).parents[1] / "examples" / "design_of_a_leg.py"
TOLERANCE, TRIES = 1e-9, 20  # as of `with_parameters`
SPREAD = {"base_mass": 0.02, "foot_mass": 0.002, "E_des": 0.05}


def leg() -> PeriodicOrbit:
    spec = importlib.util.spec_from_file_location("design_of_a_leg", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    gait, _ = example.with_a_slide()
    assert isinstance(gait, PeriodicOrbit)
    return gait


def drawn(gait: PeriodicOrbit, n: int) -> list[dict[str, Any]]:
    """Parameters of n designs near a gait."""
    rng = np.random.default_rng(0)
    own = {**gait.system.parameters.defaults, **gait.parameters}
    return [{name: own[name] + size * rng.normal() for name, size in SPREAD.items()} for _ in range(n)]


def one_by_one(gait: PeriodicOrbit, several: list[dict[str, Any]]) -> list[float]:
    periods = []
    for parameters in several:
        try:
            periods.append(gait.with_parameters(**parameters).period)
        except GaitError:
            periods.append(np.nan)
    return periods


def together(gait: PeriodicOrbit, several: list[dict[str, Any]]) -> list[float]:
    shooting = gait.shooting
    points = [replace(gait.point, parameters={**gait.parameters, **parameters}) for parameters in several]
    found = shooting.solve_several([shooting.newton(at, TOLERANCE, TRIES) for at in points])
    return [np.nan if isinstance(x, GaitError) else x[0].period for x in found]


def main() -> None:
    print(describe())
    gait = leg()
    for n in unless_quick((1, 4, 12), (2,)):
        several = drawn(gait, n)
        periods = together(gait, several)
        np.testing.assert_allclose(one_by_one(gait, several), periods, rtol=1e-7)
        ratios = []
        for _ in range(unless_quick(5, 1)):
            alone = seconds(lambda: one_by_one(gait, several), clock=spent)  # noqa: B023
            ratios.append(alone / seconds(lambda: together(gait, several), clock=spent))  # noqa: B023
        gaits = np.count_nonzero(np.isfinite(periods))
        ratio = statistics.median(ratios)
        print(f"{n:3} designs, {gaits} with a gait: one by one takes {ratio:.2f} times as long")


if __name__ == "__main__":
    main()
