"""Work and precision: what an accuracy costs with each family of integrators, on nine benchmarks.

    python benchmarks/work_precision.py [--picture docs/pictures/work_precision.png]

The four examples of Mueller and Terze (2013) in absolute coordinates, each body on the group that
`configuration="auto"` gives it, 0.5 s, error of the attitude; and those of `liebody reproduce
multibody-benchmarks` but Andrews' squeezer (too short to be timed beside the tracing of its torques), in
joint coordinates (heavy top, governor: absolute ones), error of what is looked at there over the whole run.
References are those of the two studies. Explicit methods are projected onto the constraints after each step
in the second group, and not in the first; the others keep them as they do. A point is a step size, each half
the one before; the time is that of the steps, one simulation on one thread, the best of two, or the
processor's where that is less. Printed are the three fastest ways to errors of 1e-3, 1e-6 and 1e-9.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import QUICK, describe, unless_quick
from matplotlib.figure import Figure

import liebody as lb
from liebody.base.errors import IntegrationError
from liebody.integrators import is_mechanical
from liebody_studies.mueller_terze import runs as mueller_terze_runs
from liebody_studies.mueller_terze.golden import CHECK
from liebody_studies.multibody_benchmarks import models as field

STYLES = {
    "rkmk4": ("#1f5fa8", "o"),
    "rkmk45": ("#4a90d9", "^"),
    "rkmk8": ("#08306b", "s"),
    "cf4": ("#14663a", "v"),
    "half-explicit4": ("#d9921a", "o"),
    "generalized-alpha": ("#b3261e", "o"),
    "variational": ("#8e44ad", "D"),
    "radau5": ("#333333", "^"),
}
EXPLICIT = [name for name in STYLES if not is_mechanical(name)]
ACCURACIES = (1e-3, 1e-6, 1e-9)
LEVELS, ROUNDS = unless_quick((6, 2), (1, 1))
PATIENCE = 4.0  # s; no steps shorter than those that take so long


class Benchmark(NamedTuple):
    """A run(method, step) -> (seconds, error), and the longest steps for explicit and for other methods."""

    name: str
    unit: str
    run: Callable[[str, float], tuple[float, float]]
    longest: tuple[float, float]
    methods: list[str]


def example(case: mueller_terze_runs.Example) -> Benchmark:
    place = mueller_terze_runs.setup(case, "auto")
    known = (*mueller_terze_runs.BASIC, *mueller_terze_runs.FURTHER)
    schemes = {s.name.replace(" 0.9", ""): s for s in known}

    def run(method: str, h: float) -> tuple[float, float]:
        scheme, t_end = schemes[method], CHECK
        motion, seconds = place.timed(scheme, h, t_end, round(t_end / h))
        if round(motion.t[-1], 9) != t_end:
            return np.nan, np.nan
        return seconds, mueller_terze_runs.errors(motion, case)[0]

    return Benchmark(case.title, "attitude", run, (5e-3, 5e-3), list(STYLES))


def simulated(model: field.Model, times: Any, reference: Any, method: str, h: float) -> tuple[float, float]:
    """The run of a model: time of its steps, and largest error."""
    seconds = np.inf
    for _ in range(ROUNDS):
        before = time.thread_time()
        try:
            with np.errstate(all="ignore"):
                run = lb.simulate(
                    model.mechanism, model.q, model.v, t_end=times[-1], dt=h, method=method,
                    record_every=times[1] - times[0],
                )  # fmt: skip
        except IntegrationError:
            return np.nan, np.nan
        seconds = min(seconds, run.metadata["seconds"], time.thread_time() - before)
    return seconds, float(np.abs(model.measure(run) - reference).max())


def benchmarks() -> list[Benchmark]:
    """All nine; in a short run one of each group, with all methods."""
    found = [example(case) for case in mueller_terze_runs.EXAMPLES]
    times = np.linspace(0, 2, 51)
    top = field.heavy_top("auto")
    found.append(
        Benchmark(
            "heavy top of Brüls et al., 2 s", "rad/s",
            partial(simulated, top, times, field.heavy_top_reference(times)), (4e-3, 4e-3), list(STYLES),
        )
    )  # fmt: skip
    if QUICK:
        return found[-2:]
    times = np.linspace(0, 5, 51)
    slider = field.slider_crank()[0]
    found.append(
        Benchmark(
            "slider-crank, 5 s", "m", partial(simulated, slider, times, field.slider_crank_reference(times)),
            (2e-2, 2e-2), list(STYLES),
        )
    )  # fmt: skip
    times = np.linspace(0, 10, 51)
    bars = field.four_bars()[0]
    found.append(
        Benchmark(
            "two four-bars, 10 s", "m", partial(simulated, bars, times, field.four_bars_reference(times)),
            (1e-2, 1e-2), EXPLICIT,
        )
    )  # fmt: skip
    bricard = field.bricard()[0]
    finest = lb.simulate(
        bricard.mechanism, bricard.q, bricard.v, t_end=10, dt=1e-3, method="rkmk8", record_every=times[1]
    )
    found.append(
        Benchmark(
            "Bricard's mechanism, 10 s", "m", partial(simulated, bricard, times, bricard.measure(finest)),
            (2e-2, 2e-2), list(STYLES),
        )
    )  # fmt: skip
    governor, tree = field.governor(), field.governor_tree()
    finest = lb.simulate(
        tree.mechanism, tree.q, tree.v, t_end=10, dt=6.25e-4, method="radau5", tau=tree.tau,
        record_every=times[1],
    )  # fmt: skip
    found.append(
        Benchmark(
            "stiff flyball governor, 10 s", "m",
            partial(simulated, governor, times, tree.measure(finest)), (2e-4, 2e-2), list(STYLES),
        )
    )  # fmt: skip
    return found


def measured(benchmark: Benchmark) -> dict[str, np.ndarray]:
    """For each method, rows (step, seconds, error)."""
    found = {}
    for method in benchmark.methods:
        longest = benchmark.longest[method not in EXPLICIT]
        rows = []
        for level in range(LEVELS):
            h = longest / 2**level
            try:
                rows.append([h, *benchmark.run(method, h)])
            except IntegrationError as error:  # of a method that does not take this mechanism
                print(f"    {method}: {error}")
                break
            if rows[-1][1] > PATIENCE:
                break
        if rows:
            found[method] = np.array(rows)
    return found


def fastest(found: dict[str, np.ndarray], accuracy: float) -> str:
    """The three methods with the least time to an error, among the steps tried."""
    times = []
    for method, rows in found.items():
        good = rows[rows[:, 2] <= accuracy]
        if len(good):
            times.append((good[:, 1].min(), method))
    return ", ".join(f"{method} {1e3 * t:.3g} ms" for t, method in sorted(times)[:3]) or "not reached"


def draw(results: list[tuple[Benchmark, dict[str, np.ndarray]]], path: Path) -> None:
    figure = Figure(figsize=(13, 6.4), layout="constrained")
    axes = figure.subplots(2, 5)
    axes[1, 4].set_axis_off()
    for axis, (benchmark, found) in zip(axes.flat, results, strict=False):
        for method, rows in found.items():
            colour, marker = STYLES[method]
            good = rows[np.isfinite(rows[:, 2]) & (rows[:, 2] < 10)]
            axis.loglog(1e3 * good[:, 1], np.maximum(good[:, 2], 1e-16), color=colour, marker=marker,
                        markersize=3.5, linewidth=1.1, label=method)  # fmt: skip
        axis.set_title(benchmark.name, fontsize=9)
        axis.set_ylabel(
            f"error [{benchmark.unit}]" if benchmark.unit != "attitude" else "error of R", fontsize=8
        )
        axis.tick_params(labelsize=7)
        axis.grid(True, color="#e4e8ec", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in [*axes[1, :4], axes[0, 4]]:
        axis.set_xlabel("time [ms]", fontsize=8)
    handles = {}
    for axis in axes.flat:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    axes[1, 4].legend(handles.values(), handles, loc="center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--picture", type=Path)
    picture = parser.parse_args().picture
    print(describe("numpy"))
    results = []
    for benchmark in benchmarks():
        print(benchmark.name, flush=True)
        found = measured(benchmark)
        results.append((benchmark, found))
        for accuracy in ACCURACIES:
            print(f"    {accuracy:.0e}  {fastest(found, accuracy)}", flush=True)
    if picture is not None:
        draw(results, picture)


if __name__ == "__main__":
    main()
