"""Six benchmarks of multibody dynamics, each against a published or an independent solution.

Heavy top, spatial slider-crank, N four-bars, Andrews' squeezer, Bricard's mechanism, stiff flyball governor:
the collection of Gonzalez, Dopico, Lugris, Cuadrado (2006), now that of the IFToMM, and the Test Set for IVP
Solvers. Where there are no published digits the reference is the equation of the one coordinate that is left,
integrated by SciPy, or a ladder of steps of our own; the page says which.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from ..bodies import WORLD, Joint, SpatialInertia, Tree, TreeBuilder
from ..constrained import AbsoluteTree, ClosedTree, Closure, Condition, Constrained, SystemBuilder
from ..dynamics import body_poses
from ..errors import IntegrationError
from ..groups import SE3, SO3, Prismatic, Revolute, Spherical
from ..robot import Robot
from ..run import Run
from ..scalar import cos, sin, sqrt
from ..simulate import SingularPosition, simulate
from .report import Report

Array = Any
X, Y, Z = np.eye(3)
G = 9.81
TITLE = "Benchmarks of multibody dynamics"
SOURCE = (
    "M. González, D. Dopico, U. Lugrís, J. Cuadrado (2006), A benchmarking system for MBS simulation "
    "software, Multibody System Dynamics 16, 179-190; the IFToMM Library of Computational Benchmark "
    "Problems; F. Mazzia, C. Magherini (2008), Test Set for IVP Solvers, release 2.4; O. Brüls, A. "
    "Cardona, M. Arnold (2012), Mechanism and Machine Theory 48, 121-137."
)
BLUE, AMBER, GREEN, RED = "#1f5fa8", "#d9921a", "#14663a", "#b3261e"


# -- what a simulation yields -------------------------------------------------------------------------------


class Model(NamedTuple):
    """A mechanism at its start, and what is looked at: measure(run) -> (times, ...)."""

    name: str
    mechanism: Constrained | Robot
    q: Array
    v: Array
    measure: Callable[[Run], Array]
    tau: Any = None


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


HEADER = ["coordinates", "method, step", "error", "energy", "constraints", "steps/s"]
CAPTION = (
    "Largest over the run: error of what is looked at, change of energy over the largest kinetic one, "
    "violated equation. Steps per second of one simulation on one thread, the steps alone, on the machine "
    "and beside the load this page was made on."
)
PATIENCE = 0.3  # s: shorter runs are timed three times


def simulated(
    model: Model,
    times: Array,
    reference: Array | None,
    method: str,
    dt: float,
    stabilization: str | None = "projection",
) -> Result:
    """A run of a model, compared at equidistant times."""
    options: dict[str, Any] = {} if isinstance(model.mechanism, Robot) else {"stabilization": stabilization}
    options |= {"dt": dt, "method": method, "tau": model.tau}
    simulate(model.mechanism, model.q, model.v, t_end=2 * dt, **options)  # compiles
    seconds = float("inf")
    for _ in range(3):
        before = time.thread_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SingularPosition)  # the page says where these are
            run = simulate(
                model.mechanism,
                model.q,
                model.v,
                t_end=times[-1],
                record_every=times[1] - times[0],
                **options,
            )
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


def table(report: Report, results: Sequence[Result], what: str) -> None:
    report.table([r.row for r in results], HEADER, f"{what} {CAPTION}")


def ladder(model: Model, times: Array, method: str, steps: Sequence[float], **options: Any) -> list[Result]:
    """Runs with decreasing steps, each compared with the last one."""
    runs = [simulated(model, times, None, method, dt, **options) for dt in steps]
    last = runs[-1].values
    return [replace(r, error=float(np.abs(r.values - last).max())) for r in runs]


def figure(
    times: Array, curves: dict[str, Array], results: Sequence[Result], reference: Array, ylabel: str
) -> Any:
    """Left, the motion; right, errors over time."""
    from matplotlib import pyplot

    fig, (left, right) = pyplot.subplots(1, 2, figsize=(11.0, 3.1), layout="constrained")
    for (name, values), color in zip(curves.items(), (BLUE, AMBER, GREEN, RED), strict=False):
        left.plot(times, values, color=color, label=name, lw=1.3)
    for r, color in zip(results, (BLUE, AMBER, GREEN, RED, "#5b6470"), strict=False):
        off = np.abs(r.values - reference).reshape(len(times), -1).max(axis=1)
        right.semilogy(
            times[1:], np.maximum(off[1:], 1e-17), color=color, label=f"{r.model}, {r.method}", lw=1.2
        )
    left.set(xlabel="time [s]", ylabel=ylabel)
    right.set(xlabel="time [s]", ylabel=f"error {ylabel[ylabel.index('[') :]}")
    for axes in (left, right)[len(curves) == 1 :]:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return fig


def closed(
    tree: Tree,
    closures: Sequence[Closure | Condition],
    gravity: Array,
    q: Array,
    v: Array,
    measure: Callable[[Array], Array],
    tau: Any = (None, None),
) -> tuple[Model, Model]:
    """A tree with loops in joint and in absolute coordinates; measure(q of the tree) -> numbers."""
    joints = ClosedTree(tree, closures, gravity)
    absolute = AbsoluteTree(tree, closures, gravity)
    Q, V = absolute.to_system(q, v)

    def of_joints(run: Run) -> Array:
        return np.array([measure(q) for q in run.q])

    def of_absolute(run: Run) -> Array:
        return np.array([measure(absolute.to_tree(q)[0]) for q in run.q])

    return (
        Model("joint", joints, q, v, of_joints, tau[0]),
        Model("absolute", absolute.system, Q, V, of_absolute, tau[1]),
    )


# -- the heavy top ------------------------------------------------------------------------------------------

TOP_MASS, TOP_INERTIA, TOP_ARM = 15.0, np.array([0.234375, 0.46875, 0.234375]), Y
TOP_OMEGA = np.array([0.0, 150.0, -4.61538])
TOP_PUBLISHED = -106.163804141
"""omega_y in the world at 2 s, to which Exudyn's explicit Lie-group methods converge [rad/s]."""


def heavy_top(configuration: str) -> Model:
    """The top as a free body with a ball joint; omega in the world is looked at."""
    builder = SystemBuilder("heavy top", gravity=(0, 0, -G))
    builder.body("top", SpatialInertia(TOP_MASS, rotational=TOP_INERTIA), TOP_ARM, configuration)
    builder.joint("pivot", Spherical(), WORLD, "top", on_child=-TOP_ARM)
    system = builder.build()
    v = system.velocities(system.guess, {"top": [*TOP_OMEGA, *np.cross(TOP_OMEGA, TOP_ARM)]})

    def omega(run: Run) -> Array:
        return np.einsum("tij,tj->ti", system.poses(run.q)[:, 0, :3, :3], run.v[:, :3])

    return Model(configuration, system, system.guess, v, omega)


def heavy_top_reference(times: Array) -> Array:
    """omega in the world, from Euler's equations about the pivot with quaternions, by SciPy's DOP853."""
    J = np.diag(TOP_INERTIA) + TOP_MASS * (np.eye(3) - np.outer(TOP_ARM, TOP_ARM))

    def field(t: float, y: Array) -> Array:
        w, x, z = y[0], y[1:4], y[4:]
        weight = SO3.element(y[:4]).T @ [0, 0, -TOP_MASS * G]
        turn = np.concatenate([[-x @ z], w * z + np.cross(x, z)]) / 2
        return np.concatenate([turn, np.linalg.solve(J, np.cross(J @ z, z) + np.cross(TOP_ARM, weight))])

    start = np.concatenate([[1, 0, 0, 0], TOP_OMEGA])
    y = solve_ivp(field, times[[0, -1]], start, "DOP853", times, rtol=1e-13, atol=1e-12).y.T
    return np.array([SO3.element(q[:4] / np.linalg.norm(q[:4])) @ q[4:] for q in y])


def study_heavy_top(report: Report) -> None:
    report.section("Heavy top")
    report.text(
        "Brüls, Cardona and Arnold: a spinning top of 15 kg on a ball joint, with its centre of mass 1 "
        r"m from it along y, $\omega(0) = (0, 150, -4.61538)$ rad/s, 2 s. Here it is a free body with "
        "three constraint equations. The reference are Euler's equations about the pivot with "
        "quaternions, by SciPy's DOP853 to round-off."
    )
    times = np.linspace(0, 2, 101)
    reference = heavy_top_reference(times)
    tops = [heavy_top(c) for c in ("SE3", "SO3xR3")]
    results = [simulated(top, times, reference, "rkmk4", 1e-3) for top in tops]
    results += [simulated(tops[0], times, reference, "rkmk4", 1e-3, "none")]
    results += [simulated(tops[1], times, reference, "rkmk4", 1e-3, "none")]
    results += [simulated(tops[0], times, reference, "rkmk8", 1e-3)]
    results += [
        simulated(tops[1], times, reference, m, 1e-3, None)
        for m in ("half-explicit4", "variational", "generalized-alpha")
    ]
    table(report, results, "Error of the angular velocity in the world, rad/s.")
    best = results[4].values[-1, 1]
    report.figure(
        figure(
            times,
            {r"$\omega_x$": reference[:, 0], r"$\omega_z$": reference[:, 2]},
            [results[i] for i in (0, 4, 5, 7)],
            reference,
            "velocity in the world [rad/s]",
        )
    )
    report.claims(
        report.verdict(
            f"$\\omega_y$ at 2 s is {TOP_PUBLISHED:.9f} rad/s, to which Exudyn's explicit Lie-group methods "
            f"converge; order 8 has {best:.9f}, DOP853 {reference[-1, 1]:.9f}",
            "holds",
            max(abs(best - TOP_PUBLISHED), abs(reference[-1, 1] - TOP_PUBLISHED)) < 1e-8,
        ),
        report.verdict(
            "on SE(3) the pivot holds to round-off without stabilisation, on SO(3) x R^3 it drifts",
            "holds",
            (results[2].violation or 0.0) < 1e-11 < (results[3].violation or 0.0),
        ),
    )


# -- the spatial slider-crank -------------------------------------------------------------------------------

CRANK, ROD = 0.08, 0.3
CRANK_AXIS = np.array([0, 0.1, 0.12])
CRANK_SPEED = 6.0
ROD_OMEGA = np.array([1.92, -0.96, 0.48])  # as in the benchmark's data, rad/s
CRANK_INERTIA = SpatialInertia(0.12, [0, 0, CRANK / 2], np.diag([1e-4, 1e-4, 1e-5]))
ROD_INERTIA = np.array([4e-4, 4e-3, 4e-3])


def slider_crank() -> tuple[Model, Model]:
    """Crank, ball joint, rod, universal joint, slider on the x axis, whose displacement is compared."""
    tip = CRANK_AXIS + CRANK * Z
    slider = np.array([np.sqrt(ROD**2 - tip[1] ** 2 - tip[2] ** 2), 0, 0])
    along = (slider - tip) / ROD
    across = np.cross(X, along) / np.linalg.norm(np.cross(X, along))  # the rod's axis in the universal joint
    R = np.stack([along, across, np.cross(along, across)], axis=1)
    tree = (
        TreeBuilder("slider-crank")
        .add("crank", Joint("A", Revolute(X)), CRANK_INERTIA, placement=CRANK_AXIS)
        .add(
            "rod",
            Joint("B", Spherical()),
            SpatialInertia(0.5, [ROD / 2, 0, 0], np.diag(ROD_INERTIA)),
            "crank",
            SE3.motion(R, CRANK * Z),
        )
        .add(
            "slider",
            Joint("D", Prismatic(X)),
            SpatialInertia(2.0, rotational=np.full(3, 1e-4)),
            placement=slider,
        )
        .frame("end", "rod", [ROD, 0, 0])
        .build()
    )

    def universal(rod: Array, slider: Array) -> Array:
        return np.append(rod[:3, 3] - slider[:3, 3], rod[:3, 1] @ slider[:3, 0])

    closures = [Condition("C", universal, ("end", "slider"))]
    q = tree.group.neutral()
    model = ClosedTree(tree, closures, (0, 0, -G))
    v = model.consistent_velocities(q, [CRANK_SPEED, *np.zeros(4)], hold=["A"])
    return closed(tree, closures, (0, 0, -G), q, v, lambda q: q[-1:])


def slider_crank_reference(times: Array) -> Array:
    """The slider's displacement from the equation of the crank angle alone, m a + m' w^2/2 + U' = 0.

    By DOP853, with m(angle) and U(angle) from the closed form of the kinematics and their derivatives by
    complex steps.
    """

    def place(a: Any) -> tuple[Any, Any, Any, Any]:
        """The pin B, dB/da, the slider's x, dx/da."""
        s, c = np.sin(a), np.cos(a)
        y, z = CRANK_AXIS[1] - CRANK * s, CRANK_AXIS[2] + CRANK * c
        x = np.sqrt(ROD**2 - y**2 - z**2)
        dy, dz = -CRANK * c, -CRANK * s
        return np.array([0 * y, y, z]), np.array([0 * y, dy, dz]), x, -(y * dy + z * dz) / x

    def both(a: Any) -> tuple[Any, Any]:
        """m and U."""
        B, dB, x, dx = place(a)
        along = (x * X - B) / ROD
        relative = dx * X - dB
        # omega = along x d(along) + k along, and it has no part along n = x cross (x cross along)
        w = np.cross(along, relative) / ROD
        n = np.cross(X, np.cross(X, along))
        w = w - along * (w @ n) / (along @ n)
        spin = w @ along
        turning = ROD_INERTIA[0] * spin**2 + ROD_INERTIA[1] * (w @ w - spin**2)
        centre = (dx * X + dB) / 2
        I = CRANK_INERTIA
        crank = I.rotational[0, 0] + I.mass * (CRANK / 2) ** 2
        m = crank + 0.5 * (centre @ centre) + turning + 2.0 * dx**2
        heights = I.mass * (CRANK_AXIS[2] + CRANK / 2 * np.cos(a)) + 0.5 * B[2] / 2
        return m, G * heights

    def field(t: float, y: Array) -> list[float]:
        m, U = both(y[0] + 1e-30j)
        return [y[1], -(m.imag / 1e-30 * y[1] ** 2 / 2 + U.imag / 1e-30) / m.real]

    y = solve_ivp(field, times[[0, -1]], [0, CRANK_SPEED], "DOP853", times, rtol=1e-13, atol=1e-13).y[0]
    return np.array([[place(a)[2] - place(0.0)[2]] for a in y])


def study_slider_crank(report: Report) -> None:
    report.section("Spatial slider-crank")
    report.text(
        "IFToMM library, after Haug (1989): a crank of 0.08 m that turns about x at (0, 0.1, 0.12) m, "
        "a rod of 0.3 m on a ball joint, which a universal joint connects to a slider on the x axis; "
        "the crank starts upright with 6 rad/s and runs freely for 5 s. The library has curves, no "
        "digits. The reference is the equation of the crank angle alone, from the closed form of the "
        "kinematics."
    )
    times = np.linspace(0, 5, 101)
    reference = slider_crank_reference(times)
    joint, absolute = slider_crank()
    results = [simulated(m, times, reference, "rkmk4", 1e-3) for m in (joint, absolute)]
    results += [simulated(m, times, reference, "rkmk8", 2.5e-3) for m in (joint, absolute)]
    results += [simulated(joint, times, reference, "generalized-alpha", 1e-3, None)]
    table(report, results, "Error of the slider's position, m.")
    report.figure(figure(times, {"slider": reference[:, 0]}, results, reference, "displacement [m]"))
    poses = body_poses(joint.mechanism.tree, joint.q)  # type: ignore[union-attr]
    omega = poses[1][:3, :3] @ joint.v[1:4] + CRANK_SPEED * X
    report.claims(
        report.verdict(
            "the rod starts with the angular velocity of the benchmark's data, (1.92, -0.96, 0.48) rad/s",
            "holds",
            np.abs(omega - ROD_OMEGA).max() < 1e-12,
        ),
        report.verdict(
            f"after 5 s the slider is at {slider_crank_start() + reference[-1, 0]:.9f} m in joint and "
            "in absolute coordinates as in the equation of one coordinate",
            "holds",
            max(r.error for r in results[2:4]) < 1e-10,
        ),
    )


def slider_crank_start() -> float:
    """x of the slider at the start, 0.2 m."""
    return float(np.sqrt(ROD**2 - 0.1**2 - 0.2**2))


# -- N four-bars --------------------------------------------------------------------------------------------

MORE = (10, 40)  # four-bars
FOUR_BARS_EXUDYN = ((0.3284552113, 0.00025), (0.3284573768, 0.000125))
"""x of B_0 at 10 s by Exudyn's generalized-alpha with two steps, from its test `fourBarMechanismIftomm`."""


def four_bars(n: int = 2) -> tuple[Model, Model]:
    """B_0, the first joint above the ground, is looked at. 2 n + 1 rods of 1 m and 1 kg."""
    rod = SpatialInertia(1.0, [0.5, 0, 0], np.diag([1e-3, 1 / 12, 1 / 12]))
    upright = SO3.exp(np.pi / 2 * Z)
    builder = TreeBuilder(f"{n} four-bars")
    for k in range(n + 1):
        builder.add(f"crank{k}", Revolute(Z), rod, placement=SE3.motion(upright, k * X))
        builder.frame(f"top{k}", f"crank{k}", SE3.motion(upright.T, X))
    for k in range(n):
        builder.add(f"coupler{k}", Revolute(Z), rod, f"crank{k}", SE3.motion(upright.T, X))
        builder.frame(f"end{k}", f"coupler{k}", X)
    tree = builder.build()
    closures = [Closure(f"C{k}", Revolute(Z), f"end{k}", f"top{k + 1}") for k in range(n)]
    cranks = np.array([b.name.startswith("crank") for b in tree.bodies])
    v = np.where(cranks, -1.0, 1.0)

    def tip(q: Array) -> Array:
        return np.array([-np.sin(q[0]), np.cos(q[0])])

    return closed(tree, closures, (0, -G, 0), np.zeros(tree.nq), v, tip)


def four_bars_reference(times: Array, n: int = 2) -> Array:
    """B_0 while all cranks stay parallel: ((n + 1)/3 + n) a = -((n + 1)/2 + n) g cos(angle), by DOP853."""
    factor = ((n + 1) / 2 + n) / ((n + 1) / 3 + n) * G

    def field(t: float, y: Array) -> list[float]:
        return [y[1], -factor * np.cos(y[0])]

    y = solve_ivp(field, times[[0, -1]], [np.pi / 2, -1], "DOP853", times, rtol=1e-13, atol=1e-13).y
    return np.stack([np.cos(y[0]), np.sin(y[0])], axis=1)


def study_four_bars(report: Report) -> None:
    report.section("N four-bars")
    report.text(
        "Two four-bars in a row, five rods of 1 m and 1 kg, upright, with $B_0$ moving at 1 m/s; 10 s. "
        "Every time that all rods lie in one line the constraints become dependent and three motions "
        "are possible instead of one. The reference is the motion in which the cranks stay parallel, a "
        "pendulum, by DOP853. In three dimensions each loop has three redundant equations besides; the "
        "multipliers are those of least norm."
    )
    times = np.linspace(0, 10, 201)
    reference = four_bars_reference(times)
    models = four_bars()
    results = [simulated(m, times, reference, "rkmk4", dt) for m in models for dt in (2e-3, 1e-3)]
    lost = _parts_from(models[1], times, reference, "none")
    table(report, results, "Error of the position of $B_0$, m.")
    longer = {
        n: simulated(four_bars(n)[0], times, four_bars_reference(times, n), "rkmk4", 2e-3) for n in MORE
    }
    report.table(
        [
            [n, 2 * n + 1, r.error, r.energy, r.violation, f"{times[-1] / 2e-3 / float(r.rate or 1):.2f} s"]
            for n, r in longer.items()
        ],
        ["N", "rods", "error", "energy", "constraints", "time for 10 s"],
        "More of them, 40 as in the benchmark's specification: joint coordinates, RK4 with 2 ms, projected. "
        "The time is that of the steps, one simulation on one thread.",
    )
    report.figure(
        figure(
            times, {"x": reference[:, 0], "y": reference[:, 1]}, results, reference, "position of $B_0$ [m]"
        ),
    )
    (coarse, _), (fine, _) = FOUR_BARS_EXUDYN
    extrapolated = fine + (fine - coarse) / 3
    report.claims(
        report.verdict(
            "projection carries the mechanism through all singular positions of the run, in joint and "
            "absolute coordinates",
            "holds",
            max(r.error for r in results[:4]) < 1e-6,
        ),
        report.verdict(
            f"x of $B_0$ at 10 s is {reference[-1, 0]:.9f} m; the steps of 0.25 and 0.125 ms that "
            f"Exudyn's authors publish extrapolate to {extrapolated:.9f} m",
            "holds",
            max(abs(extrapolated - r.values[-1, 0]) for r in results[:4]) < 5e-8,
        ),
        report.verdict(
            f"{MORE[-1]} four-bars stay within {longer[MORE[-1]].error:.1e} m of the parallel motion, 10 s",
            "holds",
            longer[MORE[-1]].error < 1e-4,
        ),
        report.verdict(
            f"without stabilisation it does not get through all of them: it leaves that motion at "
            f"{lost:.2f} s",
            "holds",
            lost < times[-1],
        ),
    )


def _parts_from(model: Model, times: Array, reference: Array, stabilization: str) -> float:
    """When a simulation is 0.1 m off the reference for the first time, or stops; the end, if it never is."""
    try:
        values = simulated(model, times, None, "rkmk4", 1e-3, stabilization).values
    except IntegrationError as error:
        values = model.measure(error.run)  # type: ignore[attr-defined]
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(values - reference).max(axis=1) < 0.1)
    return float(times[np.argmax(off)] if off.any() else times[-1])


# -- Andrews' squeezer --------------------------------------------------------------------------------------

ANDREWS_JOINTS = ("beta", "Theta", "gamma", "Phi", "delta", "Omega", "epsilon")
ANDREWS_START = (
    -0.0617138900142764496358948458001,
    0.0,
    0.455279819163070380255912382449,
    0.222668390165885884674473185609,
    0.487364979543842550225598953530,
    -0.222668390165885884674473185609,
    1.23054744454982119249735015568,
)
ANDREWS_ACCELERATIONS = (14222.4439199541138705911625887, -10666.8329399655854029433719415)  # at the start
ANDREWS_MULTIPLIERS = (98.5668703962410896057654982170, -6.12268834425566265503114393122)
ANDREWS_END = (
    15.81077119629904,
    -15.75637105984298,
    0.04082224013073101,
    -0.5347301163226948,
    0.5244099658805304,
    0.5347301163226948,
    1.048080741042263,
)
"""Angles at 0.03 s: Test Set for IVP Solvers, PSIDE with tolerances 1e-14."""
ANDREWS_END_VELOCITIES = (
    1139.920302151208,
    -1424.379294994111,
    11.03291221937134,
    19.29337464421385,
    0.5735699284790808,
    -19.29337464421385,
    0.3231791658026955,
)
ANDREWS_END_MULTIPLIERS = (
    199.1753333731910,
    -29.75531228015052,
    23.06654119098399,
    31.45271365475927,
    22.64249232082739,
    11.61740700019673,
)
ANDREWS_TORQUE, ANDREWS_STIFFNESS, ANDREWS_REST = 0.033, 4530.0, 0.07785
ANDREWS_A, ANDREWS_B, ANDREWS_C = (-0.06934, -0.00227, 0), (-0.03635, 0.03273, 0), (0.014, 0.072, 0)


def andrews() -> tuple[Model, Model]:
    """Seven bodies in the plane, driven by a torque; the seven angles are looked at."""

    def add(
        name: str, joint: str, mass: float, com: Array, inertia: float, parent: str, place: Array
    ) -> None:
        body = SpatialInertia(mass, [*com, 0], np.full(3, inertia))
        builder.add(name, Joint(joint, Revolute(Z)), body, parent, np.array([*place, 0.0][:3]))

    builder = TreeBuilder("Andrews' squeezer")
    add("K1", "beta", 0.04325, (92e-5, 0), 2.194e-6, WORLD, (0, 0))
    add("K2", "Theta", 0.00365, (-115e-4, 0), 4.410e-7, "K1", (7e-3, 0))
    add("K3", "gamma", 0.02373, (1043e-5, -1874e-5), 5.255e-6, WORLD, ANDREWS_B)
    add("K5", "delta", 0.07050, (2308e-5, 916e-5), 1.169e-5, WORLD, ANDREWS_A)
    add("K4", "Phi", 0.00706, (0, 1421e-5 - 2e-2), 5.667e-7, "K5", (4e-2, 0))
    add("K7", "epsilon", 0.05498, (-1228e-5, -449e-5), 1.912e-5, WORLD, ANDREWS_A)
    add("K6", "Omega", 0.00706, (2e-2 - 1421e-5, 0), 5.667e-7, "K7", (0, -4e-2))
    for body, x, y in (("K2", -28e-3, 0), ("K3", 0, -35e-3), ("K4", 0, -2e-2), ("K6", 2e-2, 0)):
        builder.frame(f"E{body[1]}", body, [x, y, 0])
    tree = builder.build()

    def meet(a: Array, b: Array) -> Array:
        return a[:2, 3] - b[:2, 3]

    closures = [Condition(f"E{k}", meet, ("E2", f"E{k}")) for k in (3, 4, 6)]
    order = andrews_order(tree)
    q = np.zeros(7)
    q[order] = ANDREWS_START
    absolute = AbsoluteTree(tree, closures, (0, 0, 0)).system
    third = absolute.index("K3")

    def torques(c: Any, s: Any) -> Array:
        """Of the motor, and of the spring from D on K3 to C."""
        d = np.array([0.02 * c + 0.018 * s, 0.02 * s - 0.018 * c])
        pull = d + np.array(ANDREWS_B[:2]) - np.array(ANDREWS_C[:2])
        length = sqrt(pull @ pull)
        f = -(ANDREWS_STIFFNESS * (length - ANDREWS_REST) / length) * pull
        moment = d[0] * f[1] - d[1] * f[0]
        return np.array([{"beta": ANDREWS_TORQUE, "gamma": moment}.get(b.joint.name, 0) for b in tree.bodies])

    def joint_torques(t: Any, q: Array, v: Array) -> Array:
        return torques(cos(q[order[2]]), sin(q[order[2]]))

    def absolute_torques(t: Any, q: Array, v: Array) -> Array:
        w, z = q[7 * third], q[7 * third + 3]
        return torques(w * w - z * z, 2 * w * z)

    def angles(q: Array) -> Array:
        """In the order of the test set, the turns that absolute coordinates do not count as there."""
        turns = np.round((np.array(ANDREWS_END) - q[order]) / (2 * np.pi))
        return q[order] + 2 * np.pi * turns

    return closed(tree, closures, (0, 0, 0), q, np.zeros(7), angles, (joint_torques, absolute_torques))


def andrews_order(tree: Tree) -> list[int]:
    """Where the joints of the test set stand in the tree."""
    names = [b.joint.name for b in tree.bodies]
    return [names.index(name) for name in ANDREWS_JOINTS]


def study_andrews(report: Report) -> None:
    report.section("Andrews' squeezer")
    report.text(
        "Seven bodies in the plane, three loops, one degree of freedom; a constant torque turns the "
        "smallest of them 2.5 times in 0.03 s. The Test Set for IVP Solvers has its data and, at the "
        "end, angles, velocities, accelerations and multipliers to 16 digits (PSIDE, tolerances "
        "1e-14). The loops are written as there, so that multipliers can be compared."
    )
    joint, absolute = andrews()
    assert isinstance(joint.mechanism, ClosedTree)
    order = andrews_order(joint.mechanism.tree)
    times = np.linspace(0, 0.03, 2)
    end = np.array(ANDREWS_END)

    def off(r: Result) -> float:
        return float(np.abs(r.values[-1] - end).max())

    cases = [
        (joint, "rkmk4", 2e-5),
        (joint, "rkmk8", 2e-5),
        (absolute, "rkmk4", 2e-5),
        (absolute, "rkmk8", 2e-5),
        (joint, "rkmk8", 1e-5),
        (joint, "rkmk6", 2e-5),
    ]
    cases += [(joint, "generalized-alpha", 2e-5)]
    results = [
        simulated(
            m, times, None, method, dt, None if method in ("generalized-alpha", "radau5") else "projection"
        )
        for m, method, dt in cases
    ]
    best = results[1]

    def apart(r: Result) -> float:
        return float(np.abs(r.values[-1] - best.values[-1]).max())

    report.table(
        [[r.model, r.method, off(r), apart(r), r.violation] for r in results],
        ["coordinates", "method, step", "from the published", "from order 8", "constraints"],
        "Largest differences of the angles at 0.03 s, rad: to those published, and to order 8 in joint "
        "coordinates with 20 us; largest violated equation, m.",
    )
    v = best.run.v[-1][order]
    u = joint.tau(0.03, best.run.q[-1], None)
    _, multipliers = joint.mechanism.accelerations(best.run.q[-1], best.run.v[-1], np.asarray(u, float))
    start, first = joint.mechanism.accelerations(
        joint.q, joint.v, np.asarray(joint.tau(0.0, joint.q, None), float)
    )
    report.table(
        [
            [name, f"{a:.12f}", f"{b:.12f}"]
            for name, a, b in zip(ANDREWS_JOINTS, best.values[-1], ANDREWS_END, strict=True)
        ],
        ["angle", "here, order 8", "published"],
        "Angles at 0.03 s, rad.",
    )
    fine = simulated(joint, np.linspace(0, 0.03, 301), None, "rkmk8", 2e-5)
    report.figure(_andrews_figure(np.linspace(0, 0.03, 301), fine.run.q[:, order]))
    agree = max(apart(r) for r in results[3:6])
    report.claims(
        report.verdict(
            "accelerations and multipliers at the start are the published ones, to 13 digits",
            "holds",
            np.allclose(start[order][:2], ANDREWS_ACCELERATIONS, rtol=1e-13)
            and np.allclose(first[:2], ANDREWS_MULTIPLIERS, rtol=1e-13),
        ),
        report.verdict("the angles at 0.03 s are the published ones to 1e-8 rad", "holds", off(best) < 1e-8),
        report.verdict(
            "so are velocities and multipliers, to 1e-7 of the largest",
            "holds",
            np.abs(v - ANDREWS_END_VELOCITIES).max() < 1e-7 * 1425
            and np.abs(multipliers - ANDREWS_END_MULTIPLIERS).max() < 1e-7 * 200,
        ),
        report.verdict(
            "the published angles are exact to all their digits: orders 8 and 6, steps of 20 and 10 us, "
            f"joint and absolute coordinates agree to {agree:.1e} rad, and all differ from them by "
            f"{off(best):.1e} rad",
            "imprecise",
            agree < 1e-12 and 1e-10 < off(best) < 1e-8,
        ),
    )


def _andrews_figure(times: Array, q: Array) -> Any:
    from matplotlib import pyplot

    fig, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 3.0), layout="constrained")
    for axes, columns in ((left, (0, 1)), (right, (2, 3, 4, 5, 6))):
        for k, color in zip(columns, (BLUE, AMBER, GREEN, RED, "#5b6470"), strict=False):
            axes.plot(1e3 * times, q[:, k], color=color, label=ANDREWS_JOINTS[k], lw=1.3)
        axes.set(xlabel="time [ms]", ylabel="rad")
        axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.spines[["top", "right"]].set_visible(False)
    return fig


# -- Bricard's mechanism ------------------------------------------------------------------------------------

BRICARD_POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1]], float)
BRICARD_AXES = np.array([Y, Z, X, Y, Z, X])


def bricard() -> tuple[Model, Model]:
    """Five rods of 1 m, 1 kg and a square section of 0.1 m, and the ground; P_3 is looked at."""
    rod = SpatialInertia.box(1.0, [1, 0.1, 0.1], com=[0.5, 0, 0])
    turns = [
        np.eye(3),
        SO3.exp(-np.pi / 2 * Z),
        SO3.exp(-np.pi / 2 * Y),
        SO3.exp(np.pi * Z),
        SO3.exp(np.pi / 2 * Z),
    ]
    poses = [np.eye(4)] + [SE3.motion(np.round(R), p) for R, p in zip(turns, BRICARD_POINTS[:5], strict=True)]
    builder = TreeBuilder("Bricard's mechanism")
    for k in range(1, 6):
        T = poses[k]
        builder.add(
            f"rod{k}",
            Joint(f"J{k}", Revolute(T[:3, :3].T @ BRICARD_AXES[k - 1])),
            rod,
            WORLD if k == 1 else f"rod{k - 1}",
            SE3.inverse(poses[k - 1]) @ T if k > 1 else T,
        )
    last = SE3.motion(np.eye(3), BRICARD_POINTS[5])
    builder.frame("end", "rod5", SE3.inverse(poses[5]) @ last).frame("ground", WORLD, last)
    tree = builder.build()

    def third(q: Array) -> Array:
        return np.asarray(body_poses(tree, q)[2][:3, 3], float)

    closures = [Closure("J6", Revolute(X), "ground", "end")]
    return closed(tree, closures, (0, -G, 0), np.zeros(5), np.zeros(5), third)


def study_bricard(report: Report) -> None:
    report.section("Bricard's mechanism")
    report.text(
        "Five rods and the ground in a ring of six hinges, at rest on six edges of a cube; gravity "
        "along -y, 10 s. Counting equations gives no freedom, and there is one: an equation is "
        "redundant. The library has curves, no digits: the reference is the finest step of a ladder of "
        "order 8. What is known in closed form are its angles: every other cosine between neighbouring "
        r"rods is the same, and $c_1 c_2 + c_1 + c_2 = 0$ (Chen, You, Tarnai 2005, with $\alpha = "
        r"\pi/2$)."
    )
    times = np.linspace(0, 10, 201)
    joint, absolute = bricard()
    assert isinstance(joint.mechanism, ClosedTree) and isinstance(absolute.mechanism, Constrained)
    finest = simulated(joint, times, None, "rkmk8", 1e-3)
    reference = finest.values
    results = [simulated(m, times, reference, "rkmk8", 2e-3) for m in (joint, absolute)]
    results += [simulated(m, times, reference, "rkmk4", 1e-3) for m in (joint, absolute)]
    table(report, results, "Error of the position of $P_3$, m.")
    report.figure(
        figure(times, dict(zip("xyz", reference.T, strict=True)), results, reference, "position of $P_3$ [m]")
    )
    report.text(
        f"In joint coordinates: {joint.mechanism.report(joint.q)}. In absolute ones: "
        f"{absolute.mechanism.report(absolute.q)}."
    )
    cosines = np.array([bricard_cosines(joint.mechanism.tree, q) for q in finest.run.q])
    relation = cosines[:, 0] * cosines[:, 1] + cosines[:, 0] + cosines[:, 1]
    reports = [m.mechanism.report(m.q) for m in (joint, absolute)]  # type: ignore[union-attr]
    report.claims(
        report.verdict(
            "one degree of freedom is found, with one redundant equation, in both kinds of coordinates",
            "holds",
            all(r.freedom == 1 and r.redundancy == 1 for r in reports),
        ),
        report.verdict(
            f"the angles obey the closed form all along, to {np.abs(relation).max():.1e}",
            "holds",
            np.abs(relation).max() < 1e-12 and np.abs(cosines[:, :2] - cosines[:, 2:]).max() < 1e-12,
        ),
        report.verdict(
            f"$P_3$ at 10 s is ({', '.join(f'{x:.9f}' for x in reference[-1])}) m, by steps of 1 and 2 "
            "ms in joint and absolute coordinates",
            "holds",
            max(r.error for r in results[:2]) < 1e-9,
        ),
    )


def bricard_cosines(tree: Tree, q: Array) -> Array:
    """Of the angles between neighbouring rods, (4,)."""
    along = np.array([T[:3, 0] for T in body_poses(tree, q)])
    return np.einsum("ki,ki->k", along[:-1], along[1:])


# -- the stiff flyball governor -----------------------------------------------------------------------------

SPRING, DAMPER, SPRING_LENGTH = 8e5, 4e4, 0.5
GOVERNOR_SPEED = 2 * np.pi
GOVERNOR_ANGLE = np.pi / 6  # of the rods below the horizontal
SHAFT = SpatialInertia.box(0.3, [0.01, 0.01, 1.0], com=[0, 0, 0.5])
SLIDER = SpatialInertia.box(3.0, [0.1, 0.1, 0.1])
ARM = SpatialInertia.box(0.3, [1, 0.01, 0.01], com=[0.5, 0, 0]) + SpatialInertia(5.0, X, np.zeros((3, 3)))


def _arms() -> dict[str, Array]:
    """Poses of the rods on the shaft."""
    down = SO3.exp(GOVERNOR_ANGLE * Y)
    turn = np.diag([-1.0, -1.0, 1.0])
    return {
        "right": SE3.motion(down, np.array([0.05, 0, 1])),
        "left": SE3.motion(turn @ down, np.array([-0.05, 0, 1])),
    }


def governor() -> Model:
    """In absolute coordinates; the height of the slider is looked at."""
    builder = SystemBuilder("flyball governor", gravity=(0, 0, -G))
    builder.body("shaft", SHAFT).body("slider", SLIDER, [0, 0, 0.5])
    builder.joint("shaft", Revolute(Z), WORLD, "shaft")
    builder.joint("slider", Prismatic(Z), "shaft", "slider", on_parent=[0, 0, 0.5])
    for (name, T), sign in zip(_arms().items(), (1, -1), strict=True):
        builder.body(name, ARM, T).joint(name, Revolute(Y), "shaft", name, on_parent=T)
        builder.spring(
            f"spring {name}", "slider", name, [sign * 0.05, 0, 0], [0.5, 0, 0], SPRING, SPRING_LENGTH, DAMPER
        )
    system = builder.build()
    q = system.guess
    twists = {}
    for body, T in zip(system.bodies, system.poses(q), strict=True):
        w = T[:3, :3].T @ (GOVERNOR_SPEED * Z)
        twists[body.name] = [*w, *np.cross(w, T[:3, :3].T @ T[:3, 3])]
    i = system.index("slider")
    return Model(
        "absolute", system, q, system.velocities(q, twists), lambda run: system.poses(run.q)[:, i, 2, 3:]
    )


def governor_tree() -> Model:
    """In joint coordinates (shaft, slider, right, left), springs as efforts from their lengths."""
    builder = TreeBuilder("flyball governor")
    builder.add("shaft", Revolute(Z), SHAFT)
    builder.add("slider", Prismatic(Z), SLIDER, "shaft", [0, 0, 0.5])
    for name, T in _arms().items():
        builder.add(name, Revolute(Y), ARM, "shaft", T)

    def springs(t: Any, q: Array, v: Array) -> Array:
        efforts: list[Any] = [0, 0, 0, 0]
        for k in (2, 3):
            s, c = sin(q[k] + GOVERNOR_ANGLE), cos(q[k] + GOVERNOR_ANGLE)
            across, up = 0.5 * c, 0.5 - 0.5 * s - q[1]
            length = sqrt(across * across + up * up)
            by_slider, by_arm = -up / length, -0.5 * (across * s + up * c) / length
            force = SPRING * (length - SPRING_LENGTH) + DAMPER * (by_slider * v[1] + by_arm * v[k])
            efforts[1], efforts[k] = efforts[1] - force * by_slider, -force * by_arm
        return np.array(efforts)

    v = np.array([GOVERNOR_SPEED, 0, 0, 0])
    robot = Robot(builder.build(), (0, 0, -G))
    return Model("joint", robot, np.zeros(4), v, lambda run: run.q[:, 1:2] + 0.5, springs)


def study_governor(report: Report) -> None:
    report.section("Stiff flyball governor")
    report.text(
        "A shaft that turns freely, starting with $2\\pi$ rad/s, a slider on it, two rods with 5 kg at "
        "their ends, and between slider and rods springs of 8e5 N/m with dampers of 4e4 N s/m, whose "
        "rates are some 10^4 /s; 10 s. There are no published digits: the reference is a ladder of "
        "Radau IIA of order 5 in joint coordinates. (Descriptions differ in the initial speed; it is "
        "that of the original specification.)"
    )
    times = np.linspace(0, 10, 201)
    joint, absolute = governor_tree(), governor()
    steps = (1e-2, 5e-3, 2.5e-3, 1.25e-3)
    rungs = ladder(joint, times, "radau5", steps, stabilization=None)
    reference = rungs[-1].values
    results = rungs[:-1]
    results += [
        simulated(joint, times, reference, m, 1e-3, None)
        for m in ("radau3", "generalized-alpha", "variational")
    ]
    results += [simulated(joint, times, reference, "rkmk4", 5e-5)]
    results += [simulated(absolute, times, reference, "rkmk4", 5e-5)]
    report.table(
        [[r.model, r.method, r.error, r.violation, r.speed] for r in results],
        ["coordinates", "method, step", "error", "constraints", "steps/s"],
        "Largest error of the slider's height over 10 s, m. The tree has no constraints; its springs are "
        "efforts by a function, which each run traces anew, so that its steps are not timed here.",
    )
    report.figure(
        figure(
            times,
            {"slider": reference[:, 0]},
            [results[i] for i in (0, 3, 4, 6, 7)],
            reference,
            "height of the slider [m]",
        )
    )
    report.claims(
        report.verdict(
            f"the slider is at {reference[-1, 0]:.8f} m after 10 s: steps of 5 and 1.25 ms, absolute "
            "coordinates and RK4 with 50 us agree",
            "holds",
            max(results[1].error, results[-1].error, results[-2].error) < 1e-9,
        ),
        report.verdict(
            "it is stiff: RK4 goes unstable at steps of 0.5 ms, where Radau's method needs 10 ms",
            "holds",
            _diverges(joint, 5e-4) and results[0].error < 1e-5,
        ),
    )


def _diverges(model: Model, dt: float) -> bool:
    try:
        simulate(model.mechanism, model.q, model.v, t_end=1.0, dt=dt, tau=model.tau, method="rkmk4")
    except IntegrationError:
        return True
    return False


STUDIES: tuple[Callable[[Report], None], ...] = (
    study_heavy_top,
    study_slider_crank,
    study_four_bars,
    study_andrews,
    study_bricard,
    study_governor,
)


def study() -> Report:
    """The page."""
    report = Report(TITLE, SOURCE)
    report.text(
        "Six mechanisms on which multibody codes are compared, from their published data, by the "
        "methods of this library: in absolute coordinates on Lie groups with constraints, and in joint "
        "coordinates with closed loops. Steps are projected onto the constraints unless the method "
        "keeps them by itself."
    )
    for part in STUDIES:
        part(report)
    return report
