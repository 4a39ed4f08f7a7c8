"""Pictures of the study of Mueller and Terze (2013)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from liebody import view

from ..compare import Array
from ..drawing import AMBER, BLUE, GREEN, GREY, beside, plain
from .runs import GROUPS, NAMES, Example, Trajectory, peak

Curves = dict[str, tuple[np.ndarray, np.ndarray]]
Lines = dict[str, tuple[Curves, str, str]]  # of a name: curves, colour, marker
COLOURS = {"SE3": BLUE, "SO3xR3": AMBER, "auto": GREEN}
FLOOR = 1e-17  # where exact zeros stand


def binned(t: Array, y: Array, bins: int = 250) -> tuple[np.ndarray, np.ndarray]:
    """The largest y of each bin of time: pictures of 5000 points need no more."""
    width = max(1, len(t) // bins)
    first = len(t) % width
    return t[first:].reshape(-1, width)[:, -1], y[first:].reshape(-1, width).max(axis=1)


def axes_of(columns: int, rows: int = 1, height: float = 2.6, width: float = 9.4, **options: Any) -> Any:
    figure = Figure(figsize=(width, height * rows))
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    figure.subplots_adjust(wspace=0.06 if "sharey" in options else 0.28, hspace=0.08 if rows > 1 else 0.2)
    for axis in axes.flat:
        axis.grid(True, color="#e4e8ec", linewidth=0.6)
        axis.set_axisbelow(True)
    plain(*axes.flat)
    return figure, axes


def logarithmic(axis: Any, *directions: str) -> None:
    """Logarithmic axes with powers as plain text, which are drawn much faster than formulas."""
    superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

    def label(x: float, place: int) -> str:
        return "10" + str(round(float(np.log10(x)))).translate(superscripts)

    for direction in directions:
        getattr(axis, f"set_{direction}scale")("log")
        ruler = getattr(axis, f"{direction}axis")
        ruler.set_major_locator(LogLocator(numticks=7))
        ruler.set_minor_locator(NullLocator())
        ruler.set_major_formatter(FuncFormatter(label))


def by_curves(
    x: Array, curves: Sequence[tuple[str, Any, str, str]], labels: tuple[str, str], powers: str,
    height: float = 2.9,
) -> tuple[Figure, Any]:  # fmt: skip
    """One picture of curves (name, y, style, colour); `powers` names logarithmic axes."""
    figure, axes = axes_of(1, height=height, width=7.5)
    axis = axes[0, 0]
    for name, y, style, colour in curves:
        axis.plot(x if len(x) == len(y) else x[: len(y)], y, style, color=colour, label=name, markersize=5)
    axis.set(xlabel=labels[0], ylabel=labels[1])
    logarithmic(axis, *powers)
    return figure, axis


def drawing(example: Example) -> Figure:
    """The system at its start, drawn from the model."""
    system, _ = example.build(["SE3"] * example.bodies)
    return view(system).figure(width=640, height=360)


def violation_figure(runs: Sequence[Trajectory], joint: str) -> Figure:
    figure, axes = axes_of(2, sharey=True)
    _titled(axes[0])
    for axis, group, run in zip(axes[0], GROUPS, runs, strict=True):
        t, y = binned(run.t, run.violation(joint))
        axis.plot(t, np.maximum(y, FLOOR), color=COLOURS[group], linewidth=1.2)
        logarithmic(axis, "y")
    axes[0, 0].set_ylabel("violation [m]")
    return figure


def _titled(pair: Sequence[Any]) -> None:
    """The groups as titles of a pair of pictures over time."""
    for axis, group, letter in zip(pair, GROUPS, "ab", strict=True):
        axis.set_title(f"{letter}) {NAMES[group]}", loc="left", fontsize=10)
        axis.set_xlabel("t [s]")


def energy_figure(runs: Sequence[Trajectory]) -> Figure:
    figure, axes = axes_of(2, sharey=True)
    power = int(np.floor(np.log10(max(peak(run.drift) for run in runs))))
    _titled(axes[0])
    for axis, group, run in zip(axes[0], GROUPS, runs, strict=True):
        axis.plot(run.t[::10], run.drift[::10] / 10.0**power, color=COLOURS[group], linewidth=1.0)
        axis.axhline(0, color=GREY, linewidth=0.6)
    what = "E" if np.any(runs[0].system.gravity) else "T"
    axes[0, 0].set_ylabel(f"$({what} - {what}_0)/T_0$  in $10^{{{power}}}$")
    return figure


def tailored_figure(example: Example, runs: dict[str, Trajectory]) -> Figure:
    """The paper's figures again with the tailored choice: each joint, then the energy."""
    figure, axes = axes_of(len(example.joints) + 1, height=2.7, width=10.4)
    names = [*(joint for joint, _ in example.joints), "energy"]
    for axis, number, name in zip(axes[0], example.figures, names, strict=True):
        for key, run in runs.items():
            t, y = binned(run.t, np.abs(run.drift) if name == "energy" else run.violation(name), 150)
            axis.plot(
                t, np.maximum(y, FLOOR), color=COLOURS[key], linestyle=(0, (2, 2)) if key == "auto" else "-",
                linewidth=1.5, label=NAMES.get(key, key),
            )  # fmt: skip
        what = "|energy drift|" if name == "energy" else f"{name} [m]"
        axis.set_title(f"figure {number}: {what}", fontsize=9, loc="left")
        axis.set_xlabel("t [s]")
        logarithmic(axis, "y")
    axes[0, -1].legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def curves_of(run: Trajectory, example: Example) -> Curves:
    """Each joint's violation and the energy's drift over time."""
    lines = {j: run.violation(j) for j, _ in example.joints} | {"energy": np.abs(run.drift)}
    return {name: binned(run.t, y, 100) for name, y in lines.items()}


def drift_figure(example: Example, found: dict[str, Lines]) -> Figure:
    """Each joint and the energy, one below the other; the groups side by side."""
    names = [*(j for j, _ in example.joints), "energy"]
    figure, axes = axes_of(2, len(names), sharex=True, sharey="row", height=2.1, width=10.4)
    for column, group in enumerate(GROUPS):
        for place, (label, (curves, colour, marker)) in enumerate(found[group].items()):
            for axis, name in zip(axes[:, column], names, strict=True):
                t, y = curves[name]
                axis.plot(
                    t, np.maximum(y, FLOOR), color=colour, linewidth=1.2, marker=marker,
                    markevery=(2 * place, 25), markersize=4, label=label,
                )  # fmt: skip
        axes[0, column].set_title(NAMES[group], fontsize=10, loc="left")
        axes[-1, column].set_xlabel("t [s]")
        for axis in axes[:, column]:
            logarithmic(axis, "y")
    for axis, name in zip(axes[:, 0], names, strict=True):
        axis.set_ylabel("|energy drift|" if name == "energy" else f"{name} [m]")
    beside(axes[0, 1])
    return figure


def overview_figure(names: Sequence[str], found: dict[str, dict[str, list[float]]]) -> Figure:
    """Numbers of integrators, one a line: a picture for each quantity, a mark for each group."""
    figure, axes = axes_of(len(found), sharey="row", height=0.6 + 0.17 * len(names), width=10.4)
    places = np.arange(len(names))
    for axis, (title, values) in zip(axes[0], found.items(), strict=True):
        for group, marker in zip(GROUPS, "os", strict=True):
            y = np.maximum(values[group], FLOOR)
            style = {"color": COLOURS[group], "marker": marker, "label": NAMES[group]}
            axis.plot(y, places, linestyle="", markersize=4.5, markerfacecolor="none", **style)
        axis.set_title(title, fontsize=9, loc="left")
        axis.tick_params(labelsize=8)
        logarithmic(axis, "x")
        axis.xaxis.set_major_locator(LogLocator(numticks=4))
    axes[0, 0].set_yticks(places, names)
    axes[0, 0].invert_yaxis()
    beside(axes[0, -1])
    return figure


def work_figure(found: dict[str, list[tuple[str, np.ndarray, str, str]]]) -> Figure:
    """Errors over processor time: (name, work, colour, marker) of the methods on each group."""
    figure, axes = axes_of(2, 2, sharex=True, sharey="row", height=2.9, width=10.4)
    for column, group in enumerate(GROUPS):
        for name, work, colour, marker in found[group]:
            for axis, values in zip(axes[:, column], (work[:, 2], work[:, 3]), strict=True):
                axis.plot(
                    1e3 * work[:, 1], np.maximum(values, FLOOR), color=colour, marker=marker, markersize=4,
                    linewidth=1.2, label=name,
                )  # fmt: skip
        axes[0, column].set_title(NAMES[group], fontsize=10, loc="left")
        axes[1, column].set_xlabel("processor time [ms]")
        for axis in axes[:, column]:
            logarithmic(axis, "x", "y")
    axes[0, 0].set_ylabel("attitude error")
    axes[1, 0].set_ylabel("worst joint [m]")
    beside(axes[0, 1])
    return figure


def drifting_figure(speeds: Sequence[float], found: dict[str, list[dict[str, Any]]]) -> Figure:
    """Violation and energy of the floating pair over its common drift along x and z."""
    figure, axes = axes_of(2)
    labels = "violation, 1 s [m]", "energy change, 1 s [J]"
    for k, (axis, label) in enumerate(zip(axes[0], labels, strict=True)):
        for d, style in (("x", "o-"), ("z", "s--")):
            y = [x["SE3"][k] for x in found[d]]
            name = f"{NAMES['SE3']}, along {d}"
            axis.plot(speeds[1:], y[1:], style, color=COLOURS["SE3"], label=name, markersize=5)
        y = [x["SO3xR3"][k] for x in found["z"]]
        axis.plot(speeds[1:], y[1:], "o-", color=COLOURS["SO3xR3"], label=NAMES["SO3xR3"], markersize=5)
        axis.set(xlabel="common drift [m/s]", ylabel=label)
        logarithmic(axis, "x", "y")
    axes[0, 0].legend(frameon=False, fontsize=9)
    return figure
