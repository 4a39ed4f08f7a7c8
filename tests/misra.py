"""Which rules of MISRA C:2012 the exported C breaks, as far as cppcheck sees it.

    python tests/misra.py            # needs cppcheck with its addon misra.py

Exports functions of every bundled robot, every operation, and programs with loops of all kinds, has cppcheck
read source and header, and prints each rule with the number of findings and one line of C for it. docs/c.md
says of each rule why it is not kept; tests/test_c_export.py compares. Some three minutes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from test_c_export import cut_selection, every_operation
from test_program import in_turns, scattered, sweeps

import liebody as lb
from liebody.compiler import trace

FUNCTIONS = [
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "coriolis_matrix",
    "bias",
    "kinetic_energy",
    "poses",
    "integrate",
    "difference",
    "forward_dynamics_derivatives",
]
COMMAND = "cppcheck --addon=misra --std=c99 --quiet --template={id}|{file}:{line}|{code}".split()
FINDING = re.compile(r"^misra-c2012-([\d.]+)\|(.*?)\|(.*)$", re.MULTILINE)


class Finding(NamedTuple):
    """What cppcheck says of one line of C."""

    rule: str
    place: str
    line: str


def exported(folder: Path) -> Iterator[Path]:
    """Sources of all kinds, beside their headers."""
    for name in lb.models.names():
        robot = lb.models.planar_chain(80) if name == "planar_chain" else lb.load(name)
        functions = [key for key in FUNCTIONS if len(robot.tree.bodies) < 20 or "derivatives" not in key]
        yield robot.export_c(folder / name, functions)[0]
    yield star().export_c(folder / "star", FUNCTIONS[:2])[0]
    kinds = [trace(every_operation, {"x": 2, "y": ()}, "every"), cut_selection()]
    kinds += [in_turns(), scattered(), sweeps(20)]
    for dtype in (np.float64, np.float32):
        name = f"kinds_{np.dtype(dtype).name}"
        yield lb.export_c(folder / name, name, kinds, dtype=dtype)[0]


def star() -> lb.Robot:
    """Three long chains on one body, whose loops have runs of like places and single ones between them."""
    builder = lb.TreeBuilder("star")
    inertia = lb.SpatialInertia.box(1.0, [0.1, 0.2, 0.3])
    for chain in range(3):
        parent = {}
        for k in range(20):
            joint = lb.Joint(f"joint{chain}_{k}", lb.groups.Revolute([0, k % 2, 1 - k % 2]))
            name = f"body{chain}_{k}"
            placement = np.eye(4)
            placement[0, 3] = 1.0 + 0.1 * chain
            builder.add(name, joint, inertia, placement=placement, **parent)
            parent = {"parent": name}
    return lb.Robot(builder.build())


def findings(source: Path) -> list[Finding]:
    """The findings of cppcheck in a source and in its header."""
    command = [*COMMAND, source.name]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cppcheck ends with {done.returncode}: {done.stdout}{done.stderr}")
    return [Finding(*match) for match in FINDING.findall(done.stderr)]


def by_rule(found: list[Finding]) -> dict[str, list[Finding]]:
    """The findings of each rule, rules in the order of their numbers."""
    rules = sorted({x.rule for x in found}, key=lambda rule: [int(part) for part in rule.split(".")])
    return {rule: [x for x in found if x.rule == rule] for rule in rules}


def main() -> int:
    version = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=False).stdout
    with tempfile.TemporaryDirectory() as folder:
        sources = list(exported(Path(folder)))
        lines = sum(len(source.read_text().splitlines()) for source in sources)
        found = [x for source in sources for x in findings(source)]
    print(f"{version.strip()}: {lines} lines of C in {len(sources)} sources, {len(found)} findings")
    for rule, these in by_rule(found).items():
        print(f"rule {rule:5} {len(these):5}   {these[0].place}  {these[0].line.strip()[:90]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
