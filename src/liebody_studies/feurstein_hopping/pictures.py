"""Pictures of the study of Feurstein's hoppers: the panels of figures 4.3 to 4.17, and moving pictures."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from PIL import Image

from ..compare import Array
from ..drawing import AMBER, BLUE, GREEN, INK, RED, plain
from .beyond import KINDS, Bounces, Map, Orbits
from .experiments import Audit, Curve, Run, robot
from .gaits import OUTCOMES, Basin, Branch, Gait

GREY = "#8a94a0"
BANDS, SEEN = 24, 8  # touch-downs from which on curves are bands; those that are seen apart
MANY = 4000  # lines of more points are drawn as pixels


def figure_of(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    figure = Figure(figsize=size, layout="constrained", dpi=150)
    axes = figure.subplots(rows, columns, squeeze=False)
    plain(*axes.flat)
    for axis in axes.flat:
        axis.tick_params(labelsize=8)
    return figure, axes


def words(axis: Any, title: str | None = None, x: str | None = None, y: str | None = None) -> None:
    """Title and labels of axes, those that are given, in the sizes of all these pictures."""
    if title is not None:
        axis.set_title(title, fontsize=9, loc="left")
    if x is not None:
        axis.set_xlabel(x, fontsize=8)
    if y is not None:
        axis.set_ylabel(y, fontsize=8)


def stage(low: float, high: float, tall: float, height: float, widest: float) -> Any:
    """Axes of a small picture from low to high and up to `tall` [m], with a floor; `height` in inches."""
    width = float(np.clip(height * (high - low) / (tall + 0.04), 2.2, widest))
    axis = Figure(figsize=(width, height), dpi=72).add_axes((0.01, 0.01, 0.98, 0.98))
    axis.axis("off")
    axis.set(xlim=(low, high), ylim=(-0.04, tall), aspect="equal")
    axis.axhline(0, color=GREY, linewidth=1.5)
    return axis


def animated(axis: Any, t: Array, draw: Callable[[int], Any], places: Array, fps: int) -> bytes:
    """A GIF with a clock of what `draw` draws into axes, a frame for each place in the times t."""
    clock = axis.text(0.01, 0.95, "", transform=axis.transAxes, fontsize=8, va="top")
    canvas, frames, still = FigureCanvasAgg(axis.figure), [], set(axis.get_children())
    for i in places:
        for moved in set(axis.get_children()) - still:
            moved.remove()
        draw(int(i))
        clock.set_text(f"{t[i]:.2f} s")
        canvas.draw()
        frame = Image.frombytes("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba()))
        frames.append(frame.convert("RGB"))
    colours, file = frames[-1].quantize(64), io.BytesIO()  # at the end all is there that is drawn on the way
    first, *others = (frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames)
    first.save(file, "GIF", save_all=True, append_images=others, duration=1000 // fps, loop=0)
    return file.getvalue()


def _lines(axis: Any, t: Array, named: dict[str, tuple[Array, str]], y: str, title: str) -> None:
    """Curves over time, each with its colour."""
    for name, (values, colour) in named.items():
        axis.plot(t, values, color=colour, linewidth=0.9, label=name, rasterized=len(t) > MANY)
    words(axis, title, "t [s]", y)
    if len(named) > 1:
        _legend(axis)


def _legend(axis: Any) -> None:
    """The names of the curves in a row above the axes, where no data are; the title moves up."""
    row = {"ncols": 6, "borderaxespad": 0.2, "handlelength": 1.1, "columnspacing": 1.0, "handletextpad": 0.4}
    axis.legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0), **row)
    axis.set_title(axis.get_title(loc="left"), fontsize=9, loc="left", pad=17)


def _pair(axis: Any, t: Array, title: str, left: tuple[Array, str], right: tuple[Array, str, str]) -> None:
    """A curve with its scale at the left, in blue, and one with its own at the right."""
    _lines(axis, t, {"": (left[0], BLUE)}, left[1], title)
    axis.yaxis.label.set_color(BLUE)
    _twin(axis, t, *right)


def _twin(axis: Any, t: Array, values: Array, label: str, colour: str) -> None:
    """A curve with its own scale at the right."""
    other = axis.twinx()
    other.plot(t, values, color=colour, linewidth=0.9, rasterized=len(t) > MANY)
    other.set_ylabel(label, fontsize=8, color=colour)
    other.tick_params(labelsize=8, colors=colour)
    other.spines["top"].set_visible(False)
    if np.nanmax(np.abs(values)) < 1e-9:  # nothing but rounding
        other.set_ylim(-1, 1)


def _energies(axis: Any, t: Array, out: Mapping[str, Array], title: str) -> None:
    T, U, spring = out["kinetic_energy"], out["potential_energy"], out["radial_energy"]
    named = {"E": (T + U + spring, INK), "T": (T, BLUE), "U": (U, GREEN), "spring": (spring, AMBER)}
    _lines(axis, t, named, "energy [J]", title)


def _radial_and_polar(axis: Any, run: Run, t: Array, out: Mapping[str, Array], title: str) -> None:
    stretch = 1e3 * (out["radial_length"] - float(run.data.parameters["r_des"]))
    angle = np.degrees(out["leg_angle"]), r"$\alpha$ [deg]", AMBER
    _pair(axis, t, title, (stretch, "$r - r_{des}$ [mm]"), angle)


def four_panels(run: Run) -> Any:
    """(a) the hopping pattern, (b) momenta, (c) energies, (d) radial and polar quantities.

    Where the whole run has so many hops that its curves are bands, the last ones follow below.
    """
    downs = run.touch_downs.t
    many = len(downs) > BANDS
    figure, axes = figure_of(4 if many else 2, 2, (9.6, 10.8 if many else 5.4))
    _four(axes[:2], run, 0.0, "")
    if many:
        _four(axes[2:], run, float(downs[-SEEN]), ", last hops")
    return figure


def _four(axes: Any, run: Run, start: float, note: str) -> None:
    """The four panels of what follows a time."""
    (a, b), (c, d) = axes
    part = run.t >= start
    t, out = run.t[part], {name: x[part] for name, x in run.out.items()}
    com, foot = out["com"], out["foot"]
    if np.nanmax(np.abs(com[:, 0] - com[0, 0])) < 0.05:
        named = {"centre of mass": (com[:, 2], BLUE), "foot": (foot[:, 2], GREY)}
        _lines(a, t, named, "height [m]", f"(a) hopping pattern{note}")
    else:
        for name, x, colour in (("foot", foot, GREY), ("centre of mass", com, BLUE)):
            a.plot(x[:, 0], x[:, 2], color=colour, linewidth=0.9, label=name, rasterized=len(t) > MANY)
        first = run.touch_downs.t
        where: Array = np.clip(np.searchsorted(t, first[first >= start]), 0, len(t) - 1)
        for k in where[np.isfinite(com[where, 0])]:
            a.plot([foot[k, 0], com[k, 0]], [foot[k, 2], com[k, 2]], color=AMBER, linewidth=0.8)
        words(a, title=f"(a) hopping pattern{note}; legs at touch-down", x="x [m]", y="y [m]")
        _legend(a)
    mass = robot(run.hopper).tree.mass
    u = out["com_velocity"]
    momenta = {"$p_x$": (mass * u[:, 0], BLUE), "$p_y$": (mass * u[:, 2], GREY)}
    _lines(b, t, momenta, "p [kg m/s]", f"(b) momenta{note}")
    _twin(b, t, 1e3 * out["angular_momentum"], "h [$10^{-3}$ kg m$^2$/s]", RED)
    _energies(c, t, out, f"(c) kinetic, gravity and spring energy{note}")
    _radial_and_polar(d, run, t, out, f"(d) radial and polar quantities{note}")


def motion_panels(run: Run, after: float = 0.0) -> Any:
    """Figures 4.13 and 4.15: position, momenta, angles, radial and polar values and velocities."""
    figure, axes = figure_of(3, 2, (9.6, 7.4))
    (a, b), (c, d), (e, f) = axes
    t, out, mass = run.t + after, run.out, robot(run.hopper).tree.mass
    com, u = out["com"], out["com_velocity"]
    base, knee = np.degrees(run.data.q[:, [0, 3]]).T
    _pair(a, t, "(a) position of the centre of mass", (com[:, 0], "x [m]"), (com[:, 2], "y [m]", AMBER))
    p_x, p_y = (mass * u[:, 0], "$p_x$ [kg m/s]"), (mass * u[:, 2], "$p_y$ [kg m/s]", GREY)
    _pair(b, t, "(b) linear momentum", p_x, p_y)
    h = {"h": (1e3 * out["angular_momentum"], RED)}
    _lines(c, t, h, "h [$10^{-3}$ kg m$^2$/s]", "(c) angular momentum")
    _pair(d, t, "(d) base and knee", (base, r"$\theta_{ib}$ [deg]"), (knee, "$q_1$ [deg]", AMBER))
    _radial_and_polar(e, run, t, out, "(e) radial and polar values")
    rates = (out["radial_length_rate"], "r' [m/s]"), (out["leg_rate"], r"$\alpha$' [rad/s]", AMBER)
    _pair(f, t, "(f) radial and polar velocities", *rates)
    return figure


def force_panels(run: Run, after: float = 0.0) -> Any:
    """Figures 4.14 and 4.16: floor, torques, controllers, energies, cumulative flow of energy."""
    figure, axes = figure_of(3, 2, (9.6, 7.4))
    (a, b), (c, d), (e, f) = axes
    t, out, work = run.t + after, run.out, run.data.work
    force, efforts = out["floor_force"][:, 0], out["efforts"]
    named = {"$F_y$": (force[:, 2], GREY), "$F_x$": (force[:, 0], BLUE)}
    _lines(a, t, named, "F [N]", "(a) forces of the floor")
    named = {"base": (efforts[:, 0], RED), "knee": (efforts[:, 3], BLUE)}
    _lines(b, t, named, "torque [Nm]", "(b) torques on base and knee")
    radial, regulator = out["radial_force"], out["regulator_force"]
    named = {"radial spring and damper": (radial, BLUE), "regulator": (regulator, AMBER)}
    _lines(c, t, named, "force [N]", "(c) radial controllers")
    _lines(d, t, {"polar": (out["polar_torque"], RED)}, "torque [Nm]", "(d) polar controller")
    _energies(e, t, out, "(e) total mechanical energy and its components")
    named = {
        "external work": (work["joint_base"], RED),
        "work of the knee": (work["joint_knee"], BLUE),
        "their sum": (work["joint_base"] + work["joint_knee"], INK),
        "floor": (_floor(work), GREEN),
        "radial damper": (work["radial_damper"], AMBER),
    }
    _lines(f, t, named, "energy [J]", "(f) cumulative flow of energy")
    return figure


def _floor(work: dict[str, Array]) -> Array:
    return sum(x for name, x in work.items() if name.startswith("floor_") and name != "floor_work")


def balance(run: Run, audit: Audit) -> Any:
    """The thesis' balance sheet beside the books: what goes in and where it goes."""
    figure, axes = figure_of(1, 2, (9.6, 3.6))
    left, right = axes[0]
    work, t = run.data.work, run.t
    total = work["joint_base"] + work["joint_knee"]
    named = {
        "external + joint work": (total, INK),
        "floor": (_floor(work), GREEN),
        "floor + damper": (_floor(work) + work["radial_damper"], RED),
    }
    _lines(left, t, named, "energy [J]", "in, and out with the damper counted once and twice")
    impact, pale = audit.plastic * audit.touch_downs, "#7fb08f"
    bars = {
        "thesis: in": (("external", 7.15, RED), ("joint", 4.65, BLUE)),
        "thesis: out": (("touch-down", 2.9, GREEN), ("damper", 5.9, AMBER), ("floor after", 3.0, pale)),
        "here: in": (("external", audit.external, RED), ("joint, net of the damper", audit.joint, BLUE)),
        "here: out": (("touch-down", impact, GREEN), ("floor after", audit.floor - impact, pale)),
    }
    for row, parts in enumerate(bars.values()):
        start = 0.0
        for label, size, colour in parts:
            right.barh(-row, size, left=start, color=colour, edgecolor="white", height=0.72)
            style = {"ha": "center", "va": "center", "fontsize": 6.5, "color": "white"}
            right.text(start + size / 2, -row, f"{label}\n{size:.2f}", **style)
            start += size
    right.set_yticks([-k for k in range(len(bars))], list(bars))
    words(right, x="energy in 20 s [J]")
    return figure


def tuning(curves: dict[str, Curve]) -> Any:
    """Figure 4.7, with the minima that are there."""
    figure, axes = figure_of(1, 2, (9.6, 3.6))
    left, right = axes[0]
    colours = (INK, BLUE, AMBER, GREEN, RED)
    for (name, curve), colour in zip(curves.items(), colours, strict=False):
        axis = right if "rest length" in name else left
        at, least = curve.minimum
        label = f"{name}: {at:.0f} deg"
        axis.plot(curve.angles, 1e3 * np.abs(curve.h), color=colour, linewidth=1.1, label=label)
        if axis is left:
            axis.plot(at, 1e3 * least, "o", color=colour, markersize=4)
    titles = "rest length of the leg as at the start", "rest length fixed at 0.1411 m"
    for axis, title in zip((left, right), titles, strict=True):
        axis.axvline(102, color=GREY, linestyle=":", linewidth=1)
        words(axis, title=title, x="$q_1(0)$ [deg]; dotted: 102")
    words(left, y="|h| after the first lift-off [$10^{-3}$ kg m$^2$/s]")
    left.set_ylim(1.3, 3.2)
    left.legend(frameon=False, fontsize=7, title="least at", title_fontsize=7)
    return figure


def tilting(runs: Mapping[str, Sequence[tuple[float, Run]]]) -> Any:
    """The angle at touch-downs of the prismatic leg, from small angles at the start."""
    figure, axes = figure_of(1, len(runs), (9.6, 3.2))
    colours = (BLUE, AMBER, GREEN, RED)
    for axis, (name, found) in zip(axes[0], runs.items(), strict=True):
        for (seed, run), colour in zip(found, colours, strict=False):
            angle = np.abs(run.angle(run.touch_downs))
            hops = 1 + np.arange(len(angle))
            axis.semilogy(hops, angle, ".-", color=colour, linewidth=0.9, label=f"{seed:g} rad")
        words(axis, title=name, x="touch-down")
        axis.set_ylim(1e-8, 200)
    words(axes[0, 0], y=r"$|\alpha|$ [deg]")
    axes[0, 0].legend(frameon=False, fontsize=7)
    return figure


def screenshots(run: Run) -> Any:
    """Figure 4.17: one hop, base, knee, foot and centre of mass at ten times."""
    figure, axes = figure_of(1, 1, (9.6, 3.0))
    axis = axes[0, 0]
    period = float(np.diff(run.apexes.t)[-1])
    start = float(run.apexes.t[-2])
    times = start + period * np.linspace(0, 1, 11)
    for k, t in enumerate(times):
        i = int(np.clip(np.searchsorted(run.t, t), 0, len(run.t) - 1))
        _stick(axis, run, i, 0.17 * k)
        axis.text(run.out["com"][i, 0] + 0.17 * k, -0.035, f"{t - start:.3f} s", fontsize=7, ha="center")
    axis.axhline(0, color=GREY, linewidth=0.8)
    axis.set_aspect("equal")
    axis.set_yticks([])
    axis.set_xticks([])
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    return figure


def _stick(axis: Any, run: Run, i: int, shift: float = 0.0) -> None:
    out = run.out
    points = np.stack([out["base"][i], out["knee"][i], out["foot"][i]])
    if run.hopper == "prismatic":
        points = points[[0, 2]]
    x, y = points[:, 0] + shift, points[:, 2]
    axis.plot(x, y, "-", color=INK, linewidth=2.2, solid_capstyle="round")
    axis.plot(x[0], y[0], "o", color=BLUE, markersize=9)
    axis.plot(x[1:], y[1:], "o", color=INK, markersize=3.5)
    axis.plot(out["com"][i, 0] + shift, out["com"][i, 2], "+", color=RED, markersize=7)


def moving(run: Run, first: float = 0.0, last: float = np.inf, frames: int = 48) -> bytes:
    """A GIF of a run between two times, evenly, with the path of the centre of mass."""
    end = min(run.t[run.last], last)
    places = np.searchsorted(run.t, np.linspace(first, end, frames)).clip(0, run.last)
    com, foot = run.out["com"], run.out["foot"]
    low = min(np.min(foot[places, 0]), np.min(com[places, 0])) - 0.16
    high = max(np.max(foot[places, 0]), np.max(com[places, 0])) + 0.16
    tall = max(0.36, float(np.max(com[places, 2])) + 0.08)
    axis = stage(low, high, tall, 2.2, 5.2)
    ticks = np.arange(np.ceil(low / 0.1) * 0.1, high, 0.1)
    down = [[0.0], [-0.02]] * np.ones(len(ticks))
    axis.plot(np.stack([ticks, ticks - 0.02]), down, color=GREY, linewidth=0.8)
    path = slice(places[0], places[-1] + 1)
    axis.plot(com[path, 0], com[path, 2], color="#c9d3de", linewidth=1)
    return animated(axis, run.t, lambda i: _stick(axis, run, i), places, 16)


def basin_map(found: Basin) -> Any:
    """Outcomes over angle and speed at the start; those that fell are shaded by when."""
    figure, axes = figure_of(1, 1, (6.4, 4.8))
    axis = axes[0, 0]
    colours = np.array([to_rgb(c) for c in ("#e9ecef", BLUE, AMBER, RED)])
    image = colours[found.outcome]
    fell = found.outcome == 0
    late = np.clip(found.end_times / 20.0, 0, 1)[..., None]
    image = np.where(fell[..., None], 0.95 - 0.45 * late, image)
    extent = tuple(_edges(found.angles)) + tuple(_edges(found.speeds))
    axis.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation="nearest")
    words(axis, x="angle of the leg at the start [deg]", y="speed at the start [m/s]")
    shown = [k for k in range(len(OUTCOMES)) if np.any(found.outcome == k)]
    for k in shown:
        axis.plot([], [], "s", color=ListedColormap(colours)(k), label=OUTCOMES[k])
    axis.legend(fontsize=8, loc="upper left", framealpha=0.9)
    return figure


def _edges(x: Array) -> tuple[float, float]:
    half = (x[-1] - x[0]) / (2 * max(1, len(x) - 1)) or 0.5
    return float(x[0] - half), float(x[-1] + half)


def multipliers_over(K: Array, values: Array) -> Any:
    """Real parts of multipliers over a gain, with the strip in which they are stable."""
    figure, axes = figure_of(1, 1, (6.4, 3.2))
    axis = axes[0, 0]
    for k, colour in ((0, BLUE), (1, GREY)):
        axis.plot(K, values[:, k].real, ".", color=colour, markersize=3)
    axis.axhspan(-1, 1, color=GREEN, alpha=0.15, linewidth=0)
    axis.axvline(6, color=GREY, linestyle=":", linewidth=1)
    axis.set_ylim(-10, 16)
    words(axis, x="$K_p$ [Nm/rad]; dotted: the thesis' value", y="multipliers")
    return figure


LABELS = {
    "E_des": "$E_{des}$ [J]", "K_p": "$K_p$ [Nm/rad]", "alpha_des": r"$\alpha_{des}$ [rad]",
    "swing_alpha_des": r"$\alpha_f$ [rad]",
}  # fmt: skip
USUAL = {"E_des": 2.8382, "K_p": 6.0}


def branches(found: Sequence[tuple[str, Branch]], usual: Mapping[str, float] = USUAL) -> Any:
    """Speed, and largest modulus of the multipliers, along curves of gaits; `usual`: dotted lines."""
    figure, axes = figure_of(2, len(found), (2.6 * max(len(found), 3.6), 4.6))
    for k, (name, branch) in enumerate(found):
        stable, size = branch.curve.stable, np.array([abs(g.orbit.multipliers[0]) for g in branch.gaits])
        for axis, y in ((axes[0, k], branch.speeds), (axes[1, k], np.minimum(size, 3))):
            axis.plot(branch.curve.values, y, color=GREY, linewidth=0.8)
            axis.plot(branch.curve.values[stable], y[stable], ".", color=BLUE, markersize=5)
            axis.plot(branch.curve.values[~stable], y[~stable], ".", color=RED, markersize=5)
            if branch.curve.parameter in usual:
                axis.axvline(usual[branch.curve.parameter], color=GREY, linestyle=":", linewidth=1)
        words(axes[0, k], title=name)
        axes[1, k].axhline(1, color=INK, linewidth=0.6)
        words(axes[1, k], x=LABELS[branch.curve.parameter])
        for axis in axes[:, k]:
            axis.locator_params(axis="x", nbins=5)
    words(axes[0, 0], y="speed [m/s]")
    words(axes[1, 0], y="largest modulus, at most 3")
    return figure


def locked_map(found: Map, marked: Sequence[Gait] = ()) -> Any:
    """What Controller III does over K_p and alpha_des: kinds, speeds, heights, cost; `marked`: crosses."""
    figure, axes = figure_of(2, 2, (9.6, 6.6))
    extent = tuple(_edges(found.K_p)) + tuple(_edges(found.alpha))
    common = {"origin": "lower", "extent": extent, "aspect": "auto", "interpolation": "nearest"}
    colours = ListedColormap(["#e9ecef", AMBER, BLUE, GREEN, "#7fb2e5", "#c9a0dc"])
    a = axes[0, 0]
    a.imshow(found.kind, cmap=colours, vmin=-0.5, vmax=5.5, **common)
    for k in range(len(KINDS)):
        if np.any(found.kind == k):
            a.plot([], [], "s", color=colours(k), label=KINDS[k])
    a.legend(fontsize=7, loc="upper right", framealpha=0.9)
    stands, regular = found.kind > 0, (found.kind >= 1) & (found.kind <= 3)
    for axis, rows, values, label, most in (
        (axes[0, 1], stands, found.speed, "mean speed [m/s]", None),
        (axes[1, 0], stands, 1e3 * found.height, "mean height of apexes [mm]", None),
        (axes[1, 1], regular, found.cost, "net work / (m g d), equal hops", 0.25),
    ):
        axis.set_facecolor("#e9ecef")
        image = axis.imshow(np.where(rows, values, np.nan), cmap="viridis", vmax=most, **common)
        bar = figure.colorbar(image, ax=axis, extend="max" if most else "neither")
        bar.ax.tick_params(labelsize=7)
        words(axis, title=label)
    words(a, title="what becomes of it")
    for axis in axes.flat:
        for gait in marked:
            at = gait.parameters
            axis.plot(at["K_p"], at["alpha_des"], "+", color=INK, markersize=8, markeredgewidth=1.4)
    for axis in axes[1]:
        words(axis, x=LABELS["K_p"])
    for axis in axes[:, 0]:
        words(axis, y=LABELS["alpha_des"])
    return figure


def forwards(tilted: Sequence[Branch], placed: Sequence[Branch]) -> Any:
    """Speed of the prismatic hopper over its set-points; dotted where the gait is unstable."""
    figure, axes = figure_of(1, 3, (10.4, 3.4))
    low = [b for b in tilted if b.gaits[0].parameters["K_p"] < 10]
    high = [b for b in tilted if b.gaits[0].parameters["K_p"] > 10]
    titles = ("Controller II", "Controller II", "with a spring in flight")
    for axis, several, title in zip(axes[0], (low, high, placed), titles, strict=True):
        for branch, colour in zip(several, (BLUE, AMBER, GREEN, RED), strict=False):
            stable, speed = branch.curve.stable, branch.speeds
            stiffness = branch.gaits[0].parameters["K_p"]
            axis.plot(branch.curve.values, speed, ":", color=colour, linewidth=1)
            first = int(np.argmin(np.abs(speed)))
            way = stable if first == 0 else stable[::-1]
            count = len(way) if way.all() else int(np.argmin(way))
            part = slice(0, count) if first == 0 else slice(len(way) - count, None)
            label = f"$K_p$ = {stiffness:g}"
            axis.plot(branch.curve.values[part], speed[part], ".-", color=colour, markersize=4, label=label)
        words(axis, title=title, x=LABELS[several[0].curve.parameter])
        axis.locator_params(axis="x", nbins=5)
        axis.legend(fontsize=7, frameon=False)
    words(axes[0, 0], y="speed [m/s]")
    return figure


def chatter(branch: Branch, found: Bounces, after: Orbits) -> Any:
    """Touch-downs a hop and multipliers over E_des; what drives the foot; heights of apexes past the flip."""
    figure, axes = figure_of(2, 2, (9.6, 5.8))
    (a, b), (c, d) = axes
    a.semilogy(branch.curve.values, [g.touches for g in branch.gaits], ".-", color=BLUE, linewidth=0.9)
    words(a, title="touch-downs in a hop")
    flips = [loss.value for loss in branch.curve.bifurcations]
    for label, colour, leading in (("the real one", RED, _real), ("modulus of the pair", BLUE, _modulus)):
        y = [leading(g) for g in branch.gaits]
        b.plot(branch.curve.values, y, ".-", color=colour, linewidth=0.9, label=label)
    for level in (-1, 1):
        b.axhline(level, color=INK, linewidth=0.6)
    b.legend(fontsize=7, frameon=False)
    words(b, title="multipliers")
    sides = (("while it touches", GREEN, found.touching), ("while it flies", AMBER, found.flying))
    for label, colour, y in sides:
        c.plot(1e3 * found.t, y, ".-", color=colour, linewidth=0.9, markersize=4, label=label)
    c.axhline(0, color=INK, linewidth=0.6)
    c.legend(fontsize=7, frameon=False, loc="center right")
    what = "acceleration of the foot at the surface, upwards [m/s$^2$]"
    words(c, title=what, x="time after the touch-down [ms]")
    values = np.repeat(after.E_des, after.heights.shape[1])
    d.plot(values, 1e3 * after.heights.ravel(), ".", color=BLUE, markersize=3)
    words(d, title="heights of the last twelve apexes [mm], simulated")
    for axis in (a, b, d):
        words(axis, x=LABELS["E_des"])
        for at in flips if axis is not a else ():
            axis.axvline(at, color=GREY, linestyle=":", linewidth=1)
    return figure


def _modulus(gait: Gait) -> float:
    """The largest modulus of complex multipliers."""
    return max((abs(x) for x in gait.orbit.multipliers if abs(x.imag) > 1e-3), default=float("nan"))


def _real(gait: Gait) -> float:
    """The largest real multiplier."""
    return next((float(x.real) for x in gait.orbit.multipliers if abs(x.imag) < 1e-3), float("nan"))


def knees(runs: Mapping[str, Run]) -> Any:
    """Height of the knee over time."""
    figure, axes = figure_of(1, len(runs), (9.6, 2.6))
    for axis, (name, run) in zip(axes[0], runs.items(), strict=True):
        first = run.t < 6
        _lines(axis, run.t[first], {"knee": (1e3 * run.out["knee"][first, 2], BLUE)}, "knee [mm]", name)
        axis.axhspan(-60, 0, color=RED, alpha=0.12, linewidth=0)
        axis.set_ylim(-60, 180)
    return figure
