"""Damaged files of runs: none loads as if it were whole, and every error is one of ours.

Without the check of its digest a damaged file may load, or keep HDF5 busy for ever (docs/reliability.md); no
other error than ours comes of it either.
"""

from __future__ import annotations

import functools
import os
import signal
import tempfile
import traceback
from pathlib import Path

import numpy as np
from campaign import damages, main

import liebody as lb
from liebody.base.errors import LiebodyError

PATIENCE = 2  # seconds for HDF5


@functools.cache
def whole() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.nc"
        run = lb.simulate(lb.models.double_pendulum(), [1.0, 0.5], t_end=0.2, dt=0.01, tau=np.zeros(2))
        run.save(path)
        return path.read_bytes()


def case(random) -> None:
    content = whole()
    for _ in range(random.choice([1, 1, 3])):
        content = random.choice([x for x in damages(random, content, [whole()[:4096]]) if x is not None])
    if content == whole():
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.nc"
        path.write_bytes(content)
        try:
            lb.Run.load(path)
        except LiebodyError:
            pass
        else:
            raise AssertionError("a damaged file was loaded")
        assert read_in_a_child(path) in (0, -signal.SIGALRM)


def read_in_a_child(path: Path) -> int:
    """Load a file unchecked in a process of its own; 1 for an error that is not ours."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            lb.Run.load(path, check=False)
            code = 0
        except LiebodyError:
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main(case)
