"""What a benchmark ran on: processor, compiler, commit, versions."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from liebody import __version__
from liebody.codegen import build


def describe(*packages: str) -> str:
    """A line for each of machine, compiler, commit and versions."""
    cpu = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    compiler = build.find_compiler()
    lanes, name = 1, "none"
    if compiler:
        lanes = build.lanes(compiler)
        name = _output([*compiler.command, "--version"]).splitlines()[0]
    commit = (
        _output(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]).strip()
        or "unknown"
    )
    versions = ", ".join([f"liebody {__version__}", *(f"{p} {version(p)}" for p in packages)])
    return f"{cpu}, {lanes} lanes of float64 | {name} | commit {commit} | {versions}"


def met(goal: bool) -> str:
    """How a line says whether its goal is met."""
    return "met" if goal else "MISSED"


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
