"""Kills at random instants: what was written stays, and what is done again comes out as if nothing had been.

Jobs are those of faults.py, and sweeps by workers. A case kills one, with all the processes it began or
without them, up to three times at random instants; then the job has to end well, and its files are looked at.
Stores of sweeps equal those of a sweep that nobody disturbed, byte by byte, and chunks that were recorded are
not run again.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from campaign import main
from faults import JOBS, forked
from stores import contents, squares

import liebody as lb

GRID = {"x": np.arange(24.0), "z": np.arange(4.0)}
OWN = {"outputs": {"y": (), "curve": ("time",)}, "coords": {"time": np.arange(3.0)}, "identity": "squares"}


def sweep_in(folder: Path, workers: int) -> None:
    lb.sweep(squares, GRID, folder / "s.zarr", workers=workers, chunk=4, **OWN)


def swept_alone(folder: Path) -> None:
    """A sweep in one process."""
    sweep_in(folder, 0)


def swept_by_workers(folder: Path) -> None:
    """A sweep by two more processes."""
    sweep_in(folder, 2)


def as_undisturbed(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as other:
        sweep_in(Path(other), 0)
        assert contents(folder / "s.zarr") == contents(Path(other) / "s.zarr")
    assert [path.name for path in folder.iterdir()] == ["s.zarr"]


KILLED = {
    **JOBS,
    "swept alone": (swept_alone, as_undisturbed),
    "by workers": (swept_by_workers, as_undisturbed),
}
USUAL = ["compiled", "saved", "swept", "swept alone"] * 4 + ["by workers"]
ORPHANS = 30.0  # seconds that compilers without their parent may go on writing
took: dict[str, float] = {}  # seconds, of each job undisturbed


def disturbed(job: Callable[[Path], None], folder: Path, after: float, all_of_it: bool) -> int:
    """The exit status of a job that is killed after so many seconds, or ended before."""

    def of_its_own(folder: Path) -> None:
        os.setpgid(0, 0)
        kill = os.killpg if all_of_it else os.kill
        killer = threading.Timer(after, kill, (os.getpid(), signal.SIGKILL))
        killer.daemon = True
        killer.start()
        job(folder)

    return forked(of_its_own, folder)


def recorded(folder: Path) -> dict[Path, int]:
    """When the records of chunks were written."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("s.zarr/status/recorded/*[0-9]")}


def case(random) -> None:
    name = random.choice(USUAL)
    job, check = KILLED[name]
    folder = Path(tempfile.mkdtemp(prefix="kills-")).resolve()
    try:
        if name not in took:
            begin = time.monotonic()
            assert forked(job, folder) == 0
            took[name] = time.monotonic() - begin
            shutil.rmtree(folder)
            folder.mkdir()
        known: dict[Path, int] = {}
        for _ in range(random.choice([1, 1, 2, 3])):
            after = random.uniform(0, 1.1 * took[name])
            assert disturbed(job, folder, after, random.random() < 0.5) in (0, -signal.SIGKILL)
            now = recorded(folder)
            assert known.items() <= now.items(), "records were lost or written again"
            known = now
        ends = time.monotonic() + ORPHANS
        while True:
            assert forked(job, folder) == 0
            assert known.items() <= recorded(folder).items(), "chunks that were recorded have been run again"
            if forked(check, folder) == 0:
                return
            assert time.monotonic() < ends, "what was killed left something behind"
            time.sleep(0.1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(case)
