"""The drawings of docs/theory.md, made anew: python docs/pictures/theory.py"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from liebody.groups import SE2, SO3

HERE = Path(__file__).parent
BODY, WORLD, MOTION, FORCE = "#1f77b4", "#444444", "#d62728", "#2ca02c"
OUTLINE = np.array([[-0.22, -0.12], [0.3, 0], [-0.22, 0.12], [-0.12, 0]])


def arrow(axes: Axes, start, along, color, text="", offset=(0, 0), width=1.6) -> None:
    end = np.add(start, along)
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": color, "lw": width})
    if text:
        axes.text(*(end + offset), text, color=color, fontsize=12, ha="center", va="center")


def frame(axes: Axes, g, color, name, size=0.6, offset=(-0.14, -0.14)) -> None:
    R, p = g[:2, :2], g[:2, 2]
    for column, axis in enumerate("xy"):
        arrow(axes, p, size * R[:, column], color, f"${axis}$", 0.1 * R[:, column])
    axes.text(*(p + R @ offset), name, color=color, fontsize=12, ha="center", va="center")


def bare(axes: Axes) -> None:
    axes.set_aspect("equal")
    axes.axis("off")


def frames() -> None:
    """A pose, a point seen from both frames, a twist and a wrench in the body's axes."""
    figure, axes = plt.subplots(figsize=(7, 3.4))
    g = SE2.exp(np.array([0.5, 0, 0]))
    g[:2, 2] = 2.6, 0.8
    frame(axes, np.eye(3), WORLD, "$a$")
    axes.add_patch(plt.Polygon((OUTLINE * 3.2) @ g[:2, :2].T + g[:2, 2], color=BODY, alpha=0.15, lw=0))
    frame(axes, g, BODY, "$b$")
    arrow(axes, (0, 0), g[:2, 2], "#999999")
    axes.text(1.2, 0.55, "$T_{ab} = (R, p)$", color="#666666", fontsize=12, ha="center")
    point = g[:2, 2] + g[:2, :2] @ (1.3, -0.75)
    for origin in ((0, 0), g[:2, 2]):
        axes.plot(*np.transpose([origin, point]), ":", color="black", lw=1)
    axes.plot(*point, "o", color="black", ms=5)
    axes.text(*(point + (0.12, -0.1)), "$x_a = R\\,x_b + p$", fontsize=12, va="center")
    arrow(axes, g[:2, 2], 0.95 * g[:2, :2] @ (0.5, 0.85), MOTION, "$v$", (0.0, 0.12))
    turn = np.linspace(0.2, 2.3, 40)
    round_ = g[:2, 2, None] + 0.3 * g[:2, :2] @ np.array([np.cos(turn), np.sin(turn)])
    axes.plot(*round_, color=MOTION, lw=1.6)
    arrow(axes, round_[:, -2], round_[:, -1] - round_[:, -2], MOTION)
    axes.text(*(round_[:, 12] + (0.06, 0.04)), "$\\omega$", color=MOTION, fontsize=12)
    arrow(axes, g[:2, 2], 0.8 * g[:2, :2] @ (-0.9, -0.5), FORCE, "$f$", (-0.1, -0.06))
    axes.set(xlim=(-0.5, 5.4), ylim=(-0.6, 2.3))
    bare(axes)
    figure.savefig(HERE / "theory_frames.svg", bbox_inches="tight")


def screws() -> None:
    """The same constant velocity on SE(2) and on SO(2) x R^2."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1), sharey=True)
    velocity = np.array([1.3, 1.0, 0.0])
    for axes, name in ((left, "SE(2): a screw motion"), (right, "SO(2) x R²: a turn, and a straight line")):
        times = np.linspace(0, 1.8, 61)
        path = []
        for t in times:
            g = SE2.exp(velocity * t)
            if axes is right:
                g[:2, 2] = velocity[1:] * t
            path.append(g)
        axes.plot(*np.array([g[:2, 2] for g in path]).T, color=MOTION, lw=1.6)
        for g in path[::12]:
            axes.add_patch(plt.Polygon(OUTLINE @ g[:2, :2].T + g[:2, 2], color=BODY, alpha=0.45, lw=0))
        axes.set_title(name, fontsize=11)
        axes.set(xlim=(-0.4, 2.2), ylim=(-0.4, 1.8))
        bare(axes)
    figure.savefig(HERE / "theory_screws.svg", bbox_inches="tight")


def step() -> None:
    """A Munthe-Kaas step: a curve in the algebra, and its image on the sphere of all g e_z."""
    figure = plt.figure(figsize=(8, 3.4))
    flat = figure.add_subplot(1, 2, 1)
    s = np.linspace(0, 1, 60)
    psi = np.stack([1.25 * s, 0.35 * np.sin(2.2 * s) - 0.55 * s**2, 0 * s], axis=1)
    flat.axhline(0, color="#cccccc", lw=0.8)
    flat.axvline(0, color="#cccccc", lw=0.8)
    flat.plot(psi[:, 0], psi[:, 1], color=MOTION, lw=1.8)
    flat.plot(0, 0, "o", color=WORLD)
    flat.text(-0.08, -0.1, "0", fontsize=12, ha="center")
    flat.plot(*psi[-1, :2], "o", color=MOTION)
    flat.text(*(psi[-1, :2] + (0.08, -0.08)), "$\\Psi(h)$", color=MOTION, fontsize=12)
    flat.text(
        0.5,
        0.42,
        "$d\\Psi/dt = \\mathrm{dexp}^{-1}_{-\\Psi} F(t, g_0 \\exp \\Psi)$",
        fontsize=11,
        ha="center",
    )
    flat.set_title("in the algebra: a vector space", fontsize=11)
    flat.set(xlim=(-0.3, 1.6), ylim=(-0.6, 0.6))
    flat.axis("off")
    ball = figure.add_subplot(1, 2, 2, projection="3d")
    u, w = np.mgrid[0 : 2 * np.pi : 37j, 0 : np.pi : 19j]
    ball.plot_surface(
        np.cos(u) * np.sin(w),
        np.sin(u) * np.sin(w),
        np.cos(w),
        color="#dde6f0",
        alpha=0.5,
        lw=0,
        zorder=0,
        rasterized=True,
    )
    g0 = SO3.exp(np.array([0.9, 0.3, 0.0]))
    path = np.array([g0 @ SO3.exp(x) @ (0, 0, 1.01) for x in psi])
    ball.plot(*path.T, color=MOTION, lw=2, zorder=5)
    for point, text, color in ((path[0], "$g_0$", WORLD), (path[-1], "$g_0 \\exp\\Psi(h)$", MOTION)):
        ball.plot(*point[:, None], "o", color=color, zorder=6)
        ball.text(*(1.12 * point + (0.12, 0, 0.06)), text, color=color, fontsize=12, zorder=7)
    ball.view_init(25, -75)
    ball.set_box_aspect((1, 1, 1), zoom=1.45)
    ball.axis("off")
    ball.set_title("on the group: no norm drifts", fontsize=11)
    figure.savefig(HERE / "theory_step.svg", bbox_inches="tight")


def tree() -> None:
    """Bodies of a tree, numbered depth-first, and the motion of one joint."""
    figure, axes = plt.subplots(figsize=(7, 3))
    places = {0: (0, 0), 1: (1.6, 0.2), 2: (3.2, 0.9), 3: (4.8, 1.2), 4: (3.2, -0.7), 5: (4.8, -0.9)}
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 4}
    for body, parent in parents.items():
        (x, y), (X, Y) = places[parent], places[body]
        axes.plot([x, X], [y, Y], color="#999999", lw=1.5, zorder=1)
        axes.plot((x + X) / 2, (y + Y) / 2, "o", color="white", mec=MOTION, ms=9, zorder=2)
        axes.text((x + X) / 2, (y + Y) / 2 + 0.2, f"$q_{body}$", color=MOTION, ha="center", fontsize=11)
    for body, (x, y) in places.items():
        axes.add_patch(plt.Circle((x, y), 0.27, color="#eeeeee" if body == 0 else "#cfe0f2", zorder=3))
        axes.text(x, y, str(body), ha="center", va="center", fontsize=12, zorder=4)
    axes.text(0, -0.5, "world", ha="center", color=WORLD)
    axes.text(
        5.4, 0.15, "$T_{pi} = P_i \\, \\exp(S_i q_i)$\n$V_i = \\mathrm{Ad}(T_{pi}^{-1})\\, V_p + S_i v_i$",
        fontsize=12, va="center", linespacing=1.8,
    )  # fmt: skip
    axes.set(xlim=(-0.5, 8.3), ylim=(-1.4, 1.7))
    bare(axes)
    figure.savefig(HERE / "theory_tree.svg", bbox_inches="tight")


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "liebody"  # the same file from the same drawing
    made = {made.__name__: made for made in (frames, screws, step, tree)}
    for name in sys.argv[1:] or made:
        made[name]()
