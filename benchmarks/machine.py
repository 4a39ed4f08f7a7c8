"""What benchmarks share: what they ran on (processor, compiler, commit, versions), clocks, and short runs.

    BENCHMARK_QUICK=1 python benchmarks/dynamics.py

runs any of them with few rounds, robots and steps, to see that it works. Its numbers mean nothing then.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from liebody import __version__
from liebody.compiler.native import build

QUICK = bool(os.environ.get("BENCHMARK_QUICK"))
Value = TypeVar("Value")


def unless_quick(full: Value, quick: Value) -> Value:
    """The second value in a short run, else the first."""
    return quick if QUICK else full


def absent(error: ModuleNotFoundError) -> NoReturn:
    """End a script for which a package is not installed, and say so; raise the error in other programs."""
    script = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    if script.resolve().parent != Path(__file__).resolve().parent:
        raise error
    name = (error.name or str(error)).split(".")[0]
    print(f"{name} is not installed here: pip install '.[bench]'. {script.name} measures nothing without it")
    raise SystemExit(0)


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
    versions = ", ".join([f"liebody {__version__}", *(f"{p} {_version(p)}" for p in packages)])
    versions += unless_quick("", " | a short run: its numbers mean nothing")
    return f"{cpu}, {lanes} lanes of float64 | {name} | commit {commit} | {versions}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


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
