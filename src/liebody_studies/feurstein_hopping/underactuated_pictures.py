"""Pictures of gaits without a polar torque: a hop in sticks, its course, phase plots, multipliers, basins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Circle

from liebody.gaits import PeriodicOrbit, StabilizedOrbit
from liebody.runs import HybridRun

from ..compare import Array
from ..drawing import AMBER, BLUE, GREEN, INK, RED
from .pictures import GREY, animated, figure_of, stage, words
from .underactuated import JOINTS, Books, radius, speed

RADIUS = 0.05  # of the trunk, m
COLOURS = (BLUE, AMBER, GREEN)


def _robot(axis: Any, chain: Array, com: Array, angle: float, shift: float = 0.0) -> None:
    """The trunk as a disc with its upright, the leg, the centre of mass."""
    x, y = chain[:, 0] + shift, chain[:, 2]
    axis.add_patch(Circle((x[0], y[0]), RADIUS, color=BLUE, alpha=0.22, linewidth=0))
    up = x[0] - RADIUS * np.sin(angle), y[0] + RADIUS * np.cos(angle)
    axis.plot([x[0], up[0]], [y[0], up[1]], color=BLUE, linewidth=1.6)
    axis.plot(x, y, "-", color=INK, linewidth=2.0, solid_capstyle="round")
    axis.plot(x[:-1], y[:-1], "o", color=INK, markersize=3)
    axis.plot(com[0] + shift, com[2], "+", color=RED, markersize=6)


def sticks(books: Mapping[str, Books], count: int = 11) -> Any:
    """One hop of each gait at evenly spaced times, pulled apart; the floor's force at the foot."""
    figure, axes = figure_of(len(books), 1, (9.6, 2.2 * len(books)))
    for axis, (name, b) in zip(axes[:, 0], books.items(), strict=True):
        places = np.linspace(0, len(b.t) - 1, count).astype(int)
        for k, i in enumerate(places):
            shift = 0.16 * k - b.out["com"][i, 0]
            chain, force = b.out["chain"][i], b.out["floor_force"][i, 0]
            _robot(axis, chain, b.out["com"][i], b.q[i, 0], shift)
            if force[2] > 0.5:
                start = chain[-1, 0] + shift, chain[-1, 2]
                axis.annotate("", (start[0] + 2e-3 * force[0], start[1] + 2e-3 * force[2]), start,
                              arrowprops={"arrowstyle": "->", "color": GREEN})  # fmt: skip
            axis.text(0.16 * k, -0.045, f"{1e3 * b.t[i]:.0f} ms", fontsize=7, ha="center")
        axis.axhline(0, color=GREY, linewidth=0.8)
        words(axis, title=name)
        axis.set(aspect="equal", xticks=[], yticks=[], ylim=(-0.06, 0.33))
        for side in ("left", "bottom"):
            axis.spines[side].set_visible(False)
    return figure


def steps_call(books: Mapping[str, Books], joints: Mapping[str, int]) -> Any:
    """Forces of the floor, torques of the joints, angular momentum over a hop."""
    figure, axes = figure_of(3, len(books), (9.6, 6.0))
    for k, (name, b) in enumerate(books.items()):
        t, force = 1e3 * b.t, b.out["floor_force"][:, 0]
        top, middle, low = axes[:, k]
        top.plot(t, force[:, 2], color=GREY, linewidth=1, label="up")
        top.plot(t, force[:, 0], color=BLUE, linewidth=1, label="along")
        top.set_ylim(-25, 75)
        words(top, title=name)
        for j, joint in enumerate(JOINTS[joints[name]]):
            middle.plot(t, b.out["efforts"][:, 3 + j], color=COLOURS[j], linewidth=1, label=joint)
        middle.plot(t, b.out["efforts"][:, 0], color=RED, linewidth=1, label="base")
        low.plot(t, 1e3 * b.out["angular_momentum"], color=RED, linewidth=1)
        words(low, x="time from the apex [ms]")
        for axis in (top, middle, low):
            axis.axvspan(1e3 * b.stance[0], 1e3 * b.stance[1], color=GREY, alpha=0.12, linewidth=0)
        if k == 0:
            words(top, y="floor [N], cut off at 75")
            words(middle, y="torques [Nm]")
            words(low, y="h [$10^{-3}$ kg m$^2$/s]")
        top.legend(frameon=False, fontsize=7)
        middle.legend(frameon=False, fontsize=7)
    return figure


def phases(run: HybridRun, books: Books) -> Any:
    """A disturbed run and the gait it comes back to: trunk, centre of mass, knee."""
    figure, axes = figure_of(1, 3, (9.6, 3.2))
    planes = []
    for q, v, out in ((run.q, run.v, run.outputs), (books.q, books.v, books.out)):
        trunk = np.degrees(q[:, 0]), v[:, 0]
        planes.append((trunk, (out["com"][:, 2], out["com_velocity"][:, 2]), np.degrees(q[:, 3:5]).T))
    labels = ("trunk [deg]", "[rad/s]"), ("$c_y$ [m]", "$c_y'$ [m/s]"), ("hip [deg]", "knee [deg]")
    for axis, (x, y), (x_, y_), (horizontal, vertical) in zip(axes[0], *planes, labels, strict=True):
        axis.plot(x, y, color="#9db7d4", linewidth=0.6, rasterized=True)
        axis.plot(x_, y_, color=RED, linewidth=1.2)
        words(axis, x=horizontal, y=vertical)
    return figure


def multipliers(found: Mapping[str, StabilizedOrbit]) -> Any:
    """In the complex plane, without feedback and with the regulator's gain."""
    figure, axes = figure_of(1, len(found), (9.6, 3.4))
    angle = np.linspace(0, 2 * np.pi, 200)
    for axis, (name, x) in zip(axes[0], found.items(), strict=True):
        axis.plot(np.cos(angle), np.sin(angle), color=GREY, linewidth=0.8)
        free, held = x.orbit.multipliers, x.multipliers
        axis.plot(free.real, free.imag, "o", color=RED, markersize=5, label="same posture at each hop")
        axis.plot(held.real, held.imag, "x", color=BLUE, markersize=6, label="posture by the apex")
        axis.set_aspect("equal")
        words(axis, title=name, x="real")
    words(axes[0, 0], y="imaginary")
    axes[0, 0].legend(frameon=False, fontsize=7, loc="upper right")
    return figure


def cloud(found: Mapping[str, Sequence[PeriodicOrbit]], least: Mapping[str, float]) -> Any:
    """All gaits of a search: the largest multiplier over the period; how the speeds spread."""
    figure, axes = figure_of(1, 2, (9.6, 3.2))
    left, right = axes[0]
    for (name, gaits), colour in zip(found.items(), (BLUE, AMBER), strict=False):
        T, radii = 1e3 * np.array([g.period for g in gaits]), np.array([radius(g) for g in gaits])
        left.plot(T, radii, ".", color=colour, label=name)
        if name in least:
            left.axhline(least[name], color=colour, linestyle=":", linewidth=1)
        right.plot([speed(g) for g in gaits], T, ".", color=colour, label=name)
    left.axhspan(0, 1, color=GREEN, alpha=0.15, linewidth=0)
    left.set(ylim=(0, None))
    words(left, x="period [ms]", y="largest multiplier")
    words(right, x="speed [m/s]", y="period [ms]")
    left.legend(frameon=False, fontsize=7)
    return figure


def basins(speeds: Array, tilts: Array, times: Mapping[str, Array], t_end: float) -> Any:
    """For how long hoppers stand that start with other speeds and tilts of the trunk: (tilts, speeds)."""
    figure, axes = figure_of(1, len(times), (9.6, 3.4))
    for axis, (name, found) in zip(axes[0], times.items(), strict=True):
        image = axis.pcolormesh(
            speeds, np.degrees(tilts), found, cmap="Blues", vmin=0, vmax=t_end, rasterized=True
        )
        axis.plot(0, 0, "+", color=RED)
        words(axis, title=name, x="off in speed [m/s]")
    words(axes[0, 0], y="off in the trunk's angle [deg]")
    figure.colorbar(image, ax=axes[0].tolist(), label="stands for [s]")
    return figure


def moving(run: HybridRun, frames: int = 60) -> bytes:
    """A GIF of a run, evenly in time."""
    places = np.linspace(0, len(run.t) - 1, frames).astype(int)
    com, chain = run.outputs["com"], run.outputs["chain"]
    low, high = chain[..., 0].min() - 0.1, chain[..., 0].max() + 0.1
    axis = stage(low, high, 0.34, 2.0, 7.0)

    def draw(i: int) -> None:
        axis.plot(com[: i + 1, 0], com[: i + 1, 2], color="#c9d3de", linewidth=1)
        _robot(axis, chain[i], com[i], run.q[i, 0])

    return animated(axis, run.t, draw, places, 15)
