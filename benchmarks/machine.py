"""What benchmarks share: what they ran on (processor, compiler, commit, versions), and their clocks."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

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


def seconds(
    call: Callable[[], Any], repeat: int = 1, clock: Callable[[], float] = time.process_time
) -> float:
    """How long `y = call()` takes [s], the mean of `repeat`; y holds each result until the next is there.

    By processor time of this process, so that other work of the machine does not count; where compilers or
    threads work for the call, by the clock `spent` or `time.perf_counter`.
    """
    start = clock()
    for _ in range(repeat):
        y = call()  # noqa: F841
    return (clock() - start) / repeat


def spent() -> float:
    """Processor time of this process and of those that it has run so far [s]."""
    return sum(os.times()[:4])


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
