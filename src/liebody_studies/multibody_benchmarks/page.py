"""Six benchmarks of multibody dynamics, each against a published or an independent solution.

Heavy top, spatial slider-crank, N four-bars, Andrews' squeezer, Bricard's mechanism, stiff flyball governor:
the collection of Gonzalez, Dopico, Lugris, Cuadrado (2006), now that of the IFToMM, and the Test Set for IVP
Solvers. Where there are no published digits the reference is the equation of the one coordinate that is left,
integrated by SciPy, or a ladder of steps of our own; the page says which.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import pyplot

from liebody import Robot, Run, SingularPosition, simulate
from liebody.base.errors import IntegrationError
from liebody.dynamics import body_poses
from liebody.mechanisms.constrained import ClosedTree

from ..compare import Array
from ..drawing import AMBER, BLUE, GREEN, GREY, RED, beside, plain
from ..report import Report
from . import models
from .models import Model


def study() -> Report:
    """The page."""
    values = {
        "caption": CAPTION,
        "top": heavy_top(),
        "crank": slider_crank(),
        "bars": four_bars(),
        "andrews": andrews(),
        "bricard": bricard(),
        "governor": governor(),
    }
    return Report.from_template(__package__, values)


@dataclass(frozen=True)
class Result:
    """A simulation beside a reference: what it was, the largest errors, and its speed.

    violation  None without constraints
    rate       [1/s]; None where efforts are a function, which each run traces anew
    """

    model: str
    method: str
    values: Array
    error: float
    energy: float
    violation: float | None
    rate: float | None
    run: Run

    @property
    def row(self) -> list[Any]:
        return [self.model, self.method, self.error, self.energy, self.violation, self.speed]

    @property
    def speed(self) -> str:
        return "" if self.rate is None else f"{self.rate:,.0f}"


CAPTION = (
    "Largest over the run: error of what is looked at, change of energy over the largest kinetic one, "
    "violated equation. Steps per second of one simulation on one thread, the steps alone, on the machine "
    "and beside the load this page was made on."
)
PATIENCE = 0.3  # s: shorter runs are timed three times


def simulated(
    model: Model, times: Array, reference: Array | None, method: str, dt: float,
    stabilization: str | None = "projection",
) -> Result:  # fmt: skip
    """A run of a model, compared at equidistant times."""
    options: dict[str, Any] = {} if isinstance(model.mechanism, Robot) else {"stabilization": stabilization}
    options |= {"dt": dt, "method": method, "tau": model.tau}
    simulate(model.mechanism, model.q, model.v, t_end=2 * dt, **options)  # compiles
    seconds = float("inf")
    for _ in range(3):
        before = time.thread_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SingularPosition)  # the page says where these are
            record = {"t_end": times[-1], "record_every": times[1] - times[0]}
            run = simulate(model.mechanism, model.q, model.v, **record, **options)
        seconds = min(seconds, float(run.metadata["seconds"]), time.thread_time() - before)
        if seconds > PATIENCE:
            break
    rate = times[-1] / dt / seconds if model.tau is None else None
    values = model.measure(run)
    error = np.nan if reference is None else float(np.abs(values - reference).max())
    energy = run.kinetic + run.potential
    change = float(np.abs(energy - energy[0]).max() / run.kinetic.max())
    violation = None if isinstance(model.mechanism, Robot) else float(getattr(run, "largest_violation", 0.0))
    name = method if stabilization in (None, "projection") else f"{method}, {stabilization}"
    return Result(model.name, f"{name}, {_step(dt)}", values, error, change, violation, rate, run)


def _step(dt: float) -> str:
    return f"{1e3 * dt:g} ms" if dt >= 1e-4 else f"{1e6 * dt:g} us"


def ladder(model: Model, times: Array, method: str, steps: Sequence[float], **options: Any) -> list[Result]:
    """Runs with decreasing steps, each compared with the last one."""
    runs = [simulated(model, times, None, method, dt, **options) for dt in steps]
    last = runs[-1].values
    return [replace(r, error=float(np.abs(r.values - last).max())) for r in runs]


def figure(
    times: Array, curves: dict[str, Array], results: Sequence[Result], reference: Array, ylabel: str
) -> Any:
    """Left, the motion; right, errors over time."""
    fig, (left, right) = pyplot.subplots(1, 2, figsize=(11.0, 3.1), layout="constrained")
    for (name, values), color in zip(curves.items(), (BLUE, AMBER, GREEN, RED), strict=False):
        left.plot(times, values, color=color, label=name, lw=1.3)
    for r, color in zip(results, (BLUE, AMBER, GREEN, RED, GREY), strict=False):
        off = np.maximum(np.abs(r.values - reference).reshape(len(times), -1).max(axis=1), 1e-17)
        right.semilogy(times[1:], off[1:], color=color, label=f"{r.model}, {r.method}", lw=1.2)
    left.set(xlabel="time [s]", ylabel=ylabel)
    right.set(xlabel="time [s]", ylabel=f"error {ylabel[ylabel.index('[') :]}")
    for axes in (left, right)[len(curves) == 1 :]:
        beside(axes)
    plain(left, right)
    return fig


def rows(results: Sequence[Result]) -> list[list[Any]]:
    return [r.row for r in results]


def heavy_top() -> dict[str, Any]:
    times = np.linspace(0, 2, 101)
    reference = models.heavy_top_reference(times)
    tops = {name: models.heavy_top(name) for name in ("SE3", "SO3xR3")}
    runs = [
        *((name, "rkmk4", by) for by in ("projection", "none") for name in tops),
        ("SE3", "rkmk8", "projection"),
        *(("SO3xR3", method, None) for method in ("half-explicit4", "variational", "generalized-alpha")),
    ]
    results = [simulated(tops[name], times, reference, method, 1e-3, by) for name, method, by in runs]
    order_8, published = results[4].values[-1, 1], models.TOP_PUBLISHED
    curves = {r"$\omega_x$": reference[:, 0], r"$\omega_z$": reference[:, 2]}
    shown = [results[i] for i in (0, 4, 5, 7)]
    return {
        "results": rows(results),
        "figure": figure(times, curves, shown, reference, "velocity in the world [rad/s]"),
        "published": published,
        "order_8": order_8,
        "reference": reference[-1, 1],
        "agrees": max(abs(order_8 - published), abs(reference[-1, 1] - published)) < 1e-8,
        "drifts": (results[2].violation or 0.0) < 1e-11 < (results[3].violation or 0.0),
    }


def slider_crank() -> dict[str, Any]:
    times = np.linspace(0, 5, 101)
    reference = models.slider_crank_reference(times)
    pair = models.slider_crank()
    joint = pair[0]
    results = [simulated(m, times, reference, "rkmk4", 1e-3) for m in pair]
    results += [simulated(m, times, reference, "rkmk8", 2.5e-3) for m in pair]
    results += [simulated(joint, times, reference, "generalized-alpha", 1e-3, None)]
    assert isinstance(joint.mechanism, ClosedTree)
    poses = body_poses(joint.mechanism.tree, joint.q)
    omega = poses[1][:3, :3] @ joint.v[1:4] + models.CRANK_SPEED * models.X
    return {
        "results": rows(results),
        "figure": figure(times, {"slider": reference[:, 0]}, results, reference, "displacement [m]"),
        "starts": np.abs(omega - models.ROD_OMEGA).max() < 1e-12,
        "end": models.SLIDER_START + reference[-1, 0],
        "agrees": max(r.error for r in results[2:4]) < 1e-10,
    }


def four_bars() -> dict[str, Any]:
    times = np.linspace(0, 10, 201)
    reference, pair = models.four_bars_reference(times), models.four_bars()
    results = [simulated(m, times, reference, "rkmk4", dt) for m in pair for dt in (2e-3, 1e-3)]
    lost = _parts_from(pair[1], times, reference, "none")
    longer = {
        n: simulated(models.four_bars(n)[0], times, models.four_bars_reference(times, n), "rkmk4", 2e-3)
        for n in models.MORE
    }
    curves = {"x": reference[:, 0], "y": reference[:, 1]}
    (coarse, _), (fine, _) = models.FOUR_BARS_EXUDYN
    extrapolated = fine + (fine - coarse) / 3
    most = models.MORE[-1]
    return {
        "results": rows(results),
        "more": [
            [n, 2 * n + 1, r.error, r.energy, r.violation, f"{times[-1] / 2e-3 / float(r.rate or 1):.2f} s"]
            for n, r in longer.items()
        ],
        "figure": figure(times, curves, results, reference, "position of $B_0$ [m]"),
        "goes_through": max(r.error for r in results) < 1e-6,
        "end": reference[-1, 0],
        "extrapolated": extrapolated,
        "agrees": max(abs(extrapolated - r.values[-1, 0]) for r in results) < 5e-8,
        "most": most,
        "apart": longer[most].error,
        "parallel": longer[most].error < 1e-4,
        "lost": lost,
        "is_lost": lost < times[-1],
    }


def _parts_from(model: Model, times: Array, reference: Array, stabilization: str) -> float:
    """When a simulation is 0.1 m off the reference for the first time, or stops; the end, if it never is."""
    try:
        values = simulated(model, times, None, "rkmk4", 1e-3, stabilization).values
    except IntegrationError as error:
        values = model.measure(error.run)  # type: ignore[attr-defined]
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(values - reference).max(axis=1) < 0.1)
    return float(times[np.argmax(off)] if off.any() else times[-1])


def andrews() -> dict[str, Any]:
    joint, absolute = models.andrews()
    assert isinstance(joint.mechanism, ClosedTree)
    order, end = models.andrews_order(joint.mechanism.tree), models.ANDREWS_END
    cases = [(m, method, 2e-5) for m in (joint, absolute) for method in ("rkmk4", "rkmk8")]
    cases += [(joint, "rkmk8", 1e-5), (joint, "rkmk6", 2e-5), (joint, "generalized-alpha", 2e-5)]
    ends, by = np.linspace(0, 0.03, 2), {"r": "projection"}
    results = [simulated(m, ends, None, method, dt, by.get(method[0])) for m, method, dt in cases]
    best = results[1]
    off, apart = ([float(np.abs(r.values[-1] - x).max()) for r in results] for x in (end, best.values[-1]))
    q, v = best.run.q[-1], best.run.v[-1]
    _, multipliers = joint.mechanism.accelerations(q, v, np.asarray(joint.tau(0.03, q, None), float))
    tau = np.asarray(joint.tau(0.0, joint.q, None), float)
    start, first = joint.mechanism.accelerations(joint.q, joint.v, tau)
    times, agree, joints = np.linspace(0, 0.03, 301), max(apart[3:6]), models.ANDREWS_JOINTS
    fine = simulated(joint, times, None, "rkmk8", 2e-5)
    return {
        "results": [[r.model, r.method, a, b, r.violation] for r, a, b in zip(results, off, apart)],
        "angles": [[j, f"{a:.12f}", f"{b:.12f}"] for j, a, b in zip(joints, best.values[-1], end)],
        "figure": andrews_figure(times, fine.run.q[:, order]),
        "starts": np.allclose(start[order][:2], models.ANDREWS_ACCELERATIONS, rtol=1e-13)
        and np.allclose(first[:2], models.ANDREWS_MULTIPLIERS, rtol=1e-13),
        "ends": off[1] < 1e-8,
        "moves": np.abs(v[order] - models.ANDREWS_END_VELOCITIES).max() < 1e-7 * 1425
        and np.abs(multipliers - models.ANDREWS_END_MULTIPLIERS).max() < 1e-7 * 200,
        "agree": agree,
        "off": off[1],
        "imprecise": agree < 1e-12 and 1e-10 < off[1] < 1e-8,
    }


def andrews_figure(times: Array, q: Array) -> Any:
    fig, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 3.0), layout="constrained")
    for axes, columns in ((left, (0, 1)), (right, (2, 3, 4, 5, 6))):
        for k, color in zip(columns, (BLUE, AMBER, GREEN, RED, GREY), strict=False):
            axes.plot(1e3 * times, q[:, k], color=color, label=models.ANDREWS_JOINTS[k], lw=1.3)
        axes.set(xlabel="time [ms]", ylabel="rad")
        beside(axes, 7)
    plain(left, right)
    return fig


def bricard() -> dict[str, Any]:
    times = np.linspace(0, 10, 201)
    joint, absolute = pair = models.bricard()
    finest = simulated(joint, times, None, "rkmk8", 1e-3)
    reference = finest.values
    runs = [(m, method, dt) for method, dt in (("rkmk8", 2e-3), ("rkmk4", 1e-3)) for m in pair]
    results = [simulated(m, times, reference, method, dt) for m, method, dt in runs]
    assert isinstance(joint.mechanism, ClosedTree) and not isinstance(absolute.mechanism, Robot)
    cosines = np.array([models.bricard_cosines(joint.mechanism.tree, q) for q in finest.run.q])
    relation = np.abs(cosines[:, 0] * cosines[:, 1] + cosines[:, 0] + cosines[:, 1]).max()
    counts = joint.mechanism.report(joint.q), absolute.mechanism.report(absolute.q)
    curves = dict(zip("xyz", reference.T, strict=True))
    return {
        "results": rows(results),
        "figure": figure(times, curves, results, reference, "position of $P_3$ [m]"),
        "counts": counts,
        "one_freedom": all(r.freedom == 1 and r.redundancy == 1 for r in counts),
        "relation": relation,
        "closed_form": relation < 1e-12 and np.abs(cosines[:, :2] - cosines[:, 2:]).max() < 1e-12,
        "end": ", ".join(f"{x:.9f}" for x in reference[-1]),
        "agrees": max(r.error for r in results[:2]) < 1e-9,
    }


def governor() -> dict[str, Any]:
    times = np.linspace(0, 10, 201)
    joint, absolute = models.governor_tree(), models.governor()
    rungs = ladder(joint, times, "radau5", (1e-2, 5e-3, 2.5e-3, 1.25e-3), stabilization=None)
    reference, implicit = rungs[-1].values, ("radau3", "generalized-alpha", "variational")
    results = rungs[:-1] + [simulated(joint, times, reference, m, 1e-3, None) for m in implicit]
    results += [simulated(m, times, reference, "rkmk4", 5e-5) for m in (joint, absolute)]
    shown = [results[i] for i in (0, 3, 4, 6, 7)]
    return {
        "results": [[r.model, r.method, r.error, r.violation, r.speed] for r in results],
        "figure": figure(times, {"slider": reference[:, 0]}, shown, reference, "height of the slider [m]"),
        "end": reference[-1, 0],
        "agrees": max(results[1].error, results[-1].error, results[-2].error) < 1e-9,
        "stiff": _diverges(joint, 5e-4) and results[0].error < 1e-5,
    }


def _diverges(model: Model, dt: float) -> bool:
    try:
        simulate(model.mechanism, model.q, model.v, t_end=1.0, dt=dt, tau=model.tau, method="rkmk4")
    except IntegrationError:
        return True
    return False
