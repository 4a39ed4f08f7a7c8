"""What benchmarks share: what they ran on (processor, compiler, commit, versions), clocks, and short runs.

    BENCHMARK_QUICK=1 python benchmarks/dynamics.py

runs any of them with few rounds, robots and steps, to see that it works. Its numbers mean nothing then.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from liebody import __version__
from liebody.compiler.native import build

QUICK = bool(os.environ.get("BENCHMARK_QUICK"))
KEPT = os.environ.get("BENCHMARK_KEPT")  # the file to which `record.py` has a script write its figures
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


def installed(peers: Iterable[str]) -> dict[str, Any]:
    """The modules of peers that can be imported; of others it says that they are left out."""
    found = {}
    for name in peers:
        try:
            found[name] = importlib.import_module(name)
        except ModuleNotFoundError:
            print(f"{name} is not installed here; it is left out")
    return found


def environment(*packages: str) -> dict[str, Any]:
    """What a measurement ran on: processor, lanes of float64, cores, load, compiler, commit, versions."""
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
    return {
        "processor": cpu,
        "lanes": lanes,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "compiler": name,
        "commit": commit,
        "versions": {"liebody": __version__, **{package: _version(package) for package in packages}},
    }


def describe(*packages: str) -> str:
    """A line of machine, compiler, commit and versions; `record.py` is told them, too."""
    here = environment(*packages)
    _append({"environment": here})
    versions = ", ".join(f"{package} {number}" for package, number in here["versions"].items())
    versions += unless_quick("", " | a short run: its numbers mean nothing")
    lanes = f"{here['lanes']} lanes of float64"
    return f"{here['processor']}, {lanes} | {here['compiler']} | commit {here['commit']} | {versions}"


def keep(label: str, **quantities: Any) -> None:
    """Hand measured figures to `record.py`; without it nothing happens.

    A quantity is an array of one number a round, or one number: `seconds` (of the one thing that `label`
    names), `ratio` (how many times as fast as the peer), `rate` (per second).
    """
    if KEPT:
        _append({"label": label, **{name: _summary(x) for name, x in quantities.items()}})


def _summary(values: Any) -> dict[str, Any]:
    """Median and quartiles over the rounds."""
    values = np.atleast_1d(np.asarray(values, float))
    low, median, high = (float(f"{x:.5g}") for x in np.percentile(values, [25, 50, 75]))
    return (
        {"median": median, "quartiles": [low, high], "rounds": values.size}
        if values.size > 1
        else {"median": median}
    )


def _append(entry: dict[str, Any]) -> None:
    """One line of JSON at the end of the file that `record.py` reads when the script has ended."""
    if KEPT:
        with open(KEPT, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


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
