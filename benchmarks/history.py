"""The page docs/speed.md and its picture: figures of all records, and how they went from commit to commit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from quotes import RECORDS, ROOT, number

PAGE, PICTURE = ROOT / "docs" / "speed.md", ROOT / "docs" / "pictures" / "speed.svg"
HEAD = """# Records of speed

`python benchmarks/record.py` runs the benchmarks and keeps what they measure in `benchmarks/records/`, one
JSON file for each script. From these it writes the figures that README and these pages quote, and this
page. A test compares them, and finds speeds that no record has written.

A run has the commit, the processor, the load of the machine when it began (processes that want a
processor), compiler and versions. Peers run alternately with liebody in one process, because ratios
survive a busy machine better than times do. Figures are medians; brackets have the quartiles over the
rounds. Where a figure is older than the records, its run says in which page it was printed.

## By commit

![Ratios to Pinocchio by commit, of four robots, in batches and alone](pictures/speed.svg)

How many times as fast as Pinocchio: `benchmarks/dynamics.py`, one thread. Processors differ between
commits: the table of its runs is below.
"""
COLORS = {"ur5": "#1f77b4", "panda": "#ff7f0e", "anymal": "#2ca02c", "talos": "#9467bd"}
PANELS = ("inverse dynamics", "forward dynamics", "one inverse", "one forward")
WIDTH, HEIGHT, MARGIN = 330, 230, 46


def records() -> dict[str, dict[str, Any]]:
    """All records by name: the command that measures (None if there is no script), and the runs."""
    paths = sorted(RECORDS.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def pages() -> dict[Path, str]:
    """What the records make of the page and of its picture."""
    tables = records()
    parts = [HEAD, *(section(name, **table) for name, table in tables.items())]
    return {PAGE: "\n".join(parts), PICTURE: picture(tables["dynamics"]["runs"])}


def section(name: str, command: str | None, runs: list[dict[str, Any]]) -> str:
    """The runs of a record, and the figures of the newest."""
    measured = f"`{command}`" if command else "No script measures these figures yet."
    lines = [f"## {name.replace('_', ' ').capitalize()}", "", measured, ""]
    lines += ["| run | date | processor | load | compiler | versions |", "|---|---|---|---|---|---|"]
    for run in runs:
        versions = ", ".join(f"{package} {x}" for package, x in run["versions"].items())
        source = run["commit"] if run["source"] == "measured" else f"{run['commit']}, {run['source']}"
        load = "" if run["load"] is None else run["load"]
        lanes = f", {run['lanes']} lanes" if run["lanes"] else ""
        cells = (source, run["date"], f"{run['processor']}{lanes}", load, run["compiler"], versions)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    newest = runs[-1]
    lines += [
        "",
        f"At {newest['commit']}:",
        "",
        "| | time | rate per second | times as fast |",
        "|---|---|---|---|",
    ]
    for label, figures in newest["figures"].items():
        cells = [words(figures, quantity) for quantity in ("seconds", "rate", "ratio")]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def words(figures: dict[str, Any], quantity: str) -> str:
    """Median and quartiles of a quantity; nothing where it was not measured."""
    if quantity not in figures:
        return ""
    x = figures[quantity]
    scale, unit = 1.0, ""
    if quantity == "seconds":
        steps = ((1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns"))
        scale, unit = next((step for step in steps if x["median"] >= step[0]), steps[-1])
    values = [
        number(value / scale, 3, quantity == "rate") for value in (x["median"], *x.get("quartiles", ()))
    ]
    return values[0] + (f" [{values[1]}, {values[2]}]" if len(values) > 1 else "") + unit


def picture(runs: list[dict[str, Any]]) -> str:
    """Ratios by run, a panel for each function, on one logarithmic scale."""
    top = 100.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {2 * HEIGHT + 24}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{2 * WIDTH}" height="{2 * HEIGHT + 24}" fill="white"/>',
    ]

    def height(ratio: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN + 20) * math.log(ratio) / math.log(top)

    for k, panel in enumerate(PANELS):
        x0, y0 = (k % 2) * WIDTH, (k // 2) * HEIGHT
        step = (WIDTH - MARGIN - 30) / max(len(runs) - 1, 1)
        parts.append(f'<g transform="translate({x0} {y0})"><text x="{MARGIN}" y="16">{panel}</text>')
        for tick in (1, 3, 10, 30, 100):
            y = height(tick)
            parts.append(f'<path d="M{MARGIN} {y:.1f}H{WIDTH - 20}" stroke="#ddd"/>')
            parts.append(f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
        for i, run in enumerate(runs):
            x = MARGIN + i * step
            place = f'x="{x:.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle"'
            parts.append(f"<text {place}>{run['commit'][:7]}</text>")
        for robot, color in COLORS.items():
            ratios = [
                run["figures"].get(f"{robot} {panel}", {}).get("ratio", {}).get("median") for run in runs
            ]
            points = [(MARGIN + i * step, height(r)) for i, r in enumerate(ratios) if r]
            way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{way}" fill="none" stroke="{color}" stroke-width="1.5"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in points]
        parts.append("</g>")
    for i, (robot, color) in enumerate(COLORS.items()):
        x = MARGIN + 90 * i
        parts.append(f'<circle cx="{x}" cy="{2 * HEIGHT + 8}" r="4" fill="{color}"/>')
        parts.append(f'<text x="{x + 10}" y="{2 * HEIGHT + 12}">{robot}</text>')
    return "\n".join([*parts, "</svg>", ""])
