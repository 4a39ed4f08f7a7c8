"""A run as an animated drawing in SVG: the links of a robot, the path of its tip, and curves of its joints.

The drawing moves by the animations that SVG itself has: it needs no script, no network and no package.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.arguments import checked
from ..base.errors import SECONDS, LiebodyError, ModelError, pass_on_signals, positive
from ..base.texts import path_of
from ..bodies import Joint, Tree
from ..robot import Robot
from ..scalars import Array
from .joints import joint_names, joints_by_name, limits_of, pairs_of, rows_of
from .skeleton import plane_of, skeleton

if TYPE_CHECKING:
    from ..runs import Run

FRAMES_A_SECOND = 25
MOST_FRAMES = 500
MOST_STATES = 600  # of lines
MOST_CURVES = 4  # where no joints are chosen
FROM = np.array([0.75, -1.55, 0.55])  # from where a motion in space is seen
# of the drawing [px]
SCENE = 380
WIDTH = 300  # of curves
LEFT = 60
GAP = 26
INK = "#454d58"
GRID = "#d9dde2"
LINK = "#3f7fbf"
TIP = "#d55e00"


class Animation:
    """An animated drawing: a notebook shows it, `save` writes it as .svg or .html."""

    def __init__(self, svg: str, title: str) -> None:
        self.svg = svg
        self.title = title

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing (.svg), or a page with it (.html). Raises LiebodyError for other files."""
        path = path_of("the name of the file", path)
        title = f"<title>{html.escape(self.title)}</title>"
        texts = {
            ".svg": self.svg,
            ".html": f"<!doctype html><meta charset='utf-8'>{title}\n{self.svg}",
        }
        if path.suffix not in texts:
            raise LiebodyError(
                f"{path.name}: animations are saved as .svg or .html; films by run.save('run.gif')"
            )
        try:
            path.write_text(texts[path.suffix], encoding="utf-8")
        except OSError as error:
            pass_on_signals(error)
            raise LiebodyError(f"cannot write {path}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        return f"Animation of {self.title}; a notebook shows it, .save('run.svg') writes it"


@np.errstate(all="ignore")
@checked
def animation(
    run: Run,
    *,
    joints: str | Sequence[str] | None = None,
    system: Any = None,
    seconds: float | None = None,
) -> Animation:
    """A run as an animated drawing; as `Run.animate` says."""
    run = run.member(*(0,) * len(run.batch))
    tree = run.tree if system is None else getattr(system, "tree", system)
    if tree is None:
        raise LiebodyError("this run does not know its robot; give it, run.animate(system=robot)")
    if not isinstance(tree, Tree):
        raise ModelError(f"{system!r} has no tree of joints to draw; run.view() shows it")
    # a motion that is not finite is drawn up to there
    finite = np.isfinite(run.q).all(axis=-1) & np.isfinite(run.v).all(axis=-1)
    last = len(run.t) if finite.all() else int(np.argmin(finite))
    span = float(run.t[last - 1] - run.t[0])
    if last < 2:
        raise LiebodyError("an animation needs a motion of two times or more; robot.view(q) shows one state")
    seconds = max(span, 1.0) if seconds is None else positive("seconds", seconds, SECONDS)
    # lines go through many states, and what moves is at as many as the eye sees
    kept = np.unique(np.linspace(0, last - 1, min(last, MOST_STATES)).round().astype(int))
    t = run.t[kept]
    count = min(MOST_FRAMES, max(2, round(seconds * FRAMES_A_SECOND)))
    shown = np.interp(np.linspace(t[0], t[-1], count), t, np.arange(len(t))).round().astype(int)
    robot = system if isinstance(system, Robot) else Robot(tree)
    segments, _, path = skeleton(tree, robot.poses(run.q[kept]))

    rows = rows_of(run, joint_names(run) if joints is None else joints)
    pairs = [(row.joint, i) for row in rows for i, _ in pairs_of(run, row)]
    pairs = pairs[:MOST_CURVES] if joints is None else pairs
    limits = joints_by_name(run, system)
    name = str(run.metadata.get("model", tree.name))
    height = SCENE + 40
    width = SCENE + (LEFT + WIDTH + 20 if pairs else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px; width: 100%; background: white" font-family="sans-serif">',
        f'<text x="12" y="22" font-size="14" fill="{INK}">{html.escape(name)}</text>',
        *_scene(segments, path, shown, seconds),
    ]
    labels, values = run.shown[0]
    for k, (joint, i) in enumerate(pairs):
        tall = (SCENE - GAP * len(pairs)) / len(pairs)
        box = (SCENE + LEFT, 34 + k * (tall + GAP), WIDTH, tall)
        label = f"{labels.names[i]} [{labels.units[i]}]"
        of_joint = limits.get(joint) if labels.names[i] == joint else None
        parts += _curve(box, t, values[kept, i], label, of_joint, shown, seconds)
    if pairs:
        edge = SCENE + LEFT
        parts += [
            f'<text x="{edge}" y="{height - 8}" font-size="10" fill="{INK}">{t[0]:.3g}</text>',
            f'<text x="{edge + WIDTH}" y="{height - 8}" font-size="10" fill="{INK}" text-anchor="end">'
            f"{t[-1]:.3g} s</text>",
        ]
    return Animation("".join([*parts, "</svg>"]), name)


def _scene(segments: Array, path: Array, shown: Array, seconds: float) -> Iterable[str]:
    """The links (nt, n, 2, 3) and the tip on its path (nt, 3), moving through the states `shown`."""
    cloud = np.concatenate([segments.reshape(-1, 3), path])
    flat = plane_of(cloud)
    if flat:
        axes = np.eye(3)[list(flat)]
    else:
        back = FROM / np.linalg.norm(FROM)
        right = np.cross([0, 0, 1.0], back)
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(back, right)])
    seen = cloud @ axes.T
    low = seen.min(axis=0)
    high = seen.max(axis=0)
    scale = (SCENE - 60) / max(float(np.max(high - low)), 1e-9)

    def placed(x: Array) -> Array:
        """Columns and rows in the drawing, in tenths of a pixel."""
        off = (x @ axes.T - (low + high) / 2) * scale
        return np.round(np.stack([SCENE / 2 + off[..., 0], SCENE / 2 + 30 - off[..., 1]], axis=-1), 1)

    track = placed(path)
    yield (
        f'<polyline fill="none" stroke="{TIP}" stroke-opacity="0.35" stroke-width="1.2" '
        f'points="{_points(track)}"/>'
    )
    for k in range(segments.shape[1]):
        ends = placed(segments[shown, k])
        if np.abs(ends[:, 0] - ends[:, 1]).max() == 0:
            continue
        moving = [("x1", ends[:, 0, 0]), ("y1", ends[:, 0, 1]), ("x2", ends[:, 1, 0]), ("y2", ends[:, 1, 1])]
        yield _moving("line", moving, seconds, f'stroke="{LINK}" stroke-width="6" stroke-linecap="round"')
    for k in range(segments.shape[1]):
        joint = placed(segments[shown, k, 0])
        yield _moving("circle", [("cx", joint[:, 0]), ("cy", joint[:, 1])], seconds, f'r="3.4" fill="{INK}"')
    tip = [("cx", track[shown, 0]), ("cy", track[shown, 1])]
    yield _moving("circle", tip, seconds, f'r="4" fill="{TIP}"')


def _curve(
    box: tuple[float, float, float, float],
    t: Array,
    x: Array,
    label: str,
    joint: Joint | None,
    shown: Array,
    seconds: float,
) -> Iterable[str]:
    """A coordinate over time in a box (left, top, width, height), its limits, and a dot that goes along."""
    left, top, width, height = box
    low = float(x.min())
    high = float(x.max())
    pad = 0.1 * max(high - low, 1e-9)
    bottom, ceiling = low - pad, high + pad
    ends = limits_of(joint, "q") if joint is not None else (-np.inf, np.inf)
    # limits that are near are part of the picture, as in `Run.plot`
    if low - ends[0] < 1.5 * (high - low):
        bottom = min(bottom, ends[0] - pad)
    if ends[1] - high < 1.5 * (high - low):
        ceiling = max(ceiling, ends[1] + pad)

    def row(values: Any) -> Any:
        return np.round(top + height * (ceiling - values) / (ceiling - bottom), 1)

    columns = np.round(left + width * (t - t[0]) / (t[-1] - t[0]), 1)
    rows = row(x)
    yield f'<text x="{left}" y="{top - 6:.1f}" font-size="11" fill="{INK}">{html.escape(label)}</text>'
    yield (
        f'<rect x="{left}" y="{top:.1f}" width="{width}" height="{height:.1f}" fill="none" stroke="{GRID}"/>'
    )
    for limit, is_upper in ((ends[0], False), (ends[1], True)):
        if bottom < limit < ceiling:
            y = float(row(limit))
            start, end = (top, y) if is_upper else (y, top + height)
            yield (
                f'<rect x="{left}" y="{start:.1f}" width="{width}" height="{end - start:.1f}" '
                f'fill="{TIP}" fill-opacity="0.14"/>'
            )
    for value in (low, high) if high > low else (low,):
        y = float(row(value))
        yield (
            f'<text x="{left - 5}" y="{y + 3:.1f}" font-size="10" fill="{INK}" text-anchor="end">'
            f"{value:.3g}</text>"
        )
    yield (
        f'<polyline fill="none" stroke="{LINK}" stroke-width="1.4" '
        f'points="{_points(np.stack([columns, rows], axis=-1))}"/>'
    )
    dot = [("cx", columns[shown]), ("cy", rows[shown])]
    yield _moving("circle", dot, seconds, f'r="3.6" fill="{TIP}"')


def _points(x: Array) -> str:
    return " ".join(f"{a:g},{b:g}" for a, b in x.tolist())


def _moving(element: str, attributes: Iterable[tuple[str, Array]], seconds: float, style: str) -> str:
    """An element whose attributes take these values (nt,) one after the other, again and again."""
    first = []
    animations = []
    for name, values in attributes:
        first.append(f'{name}="{values[0]:g}"')
        if np.ptp(values):
            listed = ";".join(f"{x:g}" for x in values.tolist())
            times = f'dur="{seconds:g}s" repeatCount="indefinite"'
            animations.append(f'<animate attributeName="{name}" {times} values="{listed}"/>')
    return f"<{element} {' '.join(first)} {style}>{''.join(animations)}</{element}>"
