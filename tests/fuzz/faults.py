"""Calls of the system that fail, or at which the process is killed, one after the other.

    python tests/fuzz/faults.py              # every call, of every job: some minutes

A job writes files: the cache of kernels (compilers included), a saved run, the store of a sweep. faults.c,
loaded before the C library, lets its n-th call on the job's folder fail, for n = 1, 2, ... until all calls
have been reached. Whatever happens, the job ends with what is right or with an error of the library; done
again without faults it gives what is right, and nothing of the first time is left.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
HAPPENINGS = {"full": errno.ENOSPC, "broken": errno.EIO, "killed": 0}
REFUSED, WRONG = 3, 4  # exit statuses


class Plan(ctypes.Structure):
    """As in faults.c."""

    _fields_ = [
        *((name, ctypes.c_long) for name in ("count", "at", "error")),
        ("call", ctypes.c_char * 32),
        ("folder", ctypes.c_char * 976),
    ]


# -- jobs: what is done in a folder, and what has to be there afterwards ------------------------------------


def compiled(folder: Path) -> None:
    """A kernel that is compiled, or found."""
    from liebody import scalars
    from liebody.compiler import Kernel, trace
    from liebody.compiler.native import build, cache, entry, pool

    os.environ["LIEBODY_CACHE"], cache._chosen = str(folder), None  # as in a process that begins
    build.find_compiler.cache_clear()
    for cached in (build._probe, build.vector_bits, build.check_numbers, pool.library, pool.handler):
        cached.cache_clear()
    for cached in (entry._call, entry._table):
        cached.cache_clear()
    q = np.arange(3.0)
    f = Kernel(lambda: trace(lambda q: scalars.sin(q) + q[::-1], {"q": 3}, "f"), recipe="faults")
    np.testing.assert_allclose(f(q), np.sin(q) + q[::-1], rtol=1e-14)


def nothing_left(folder: Path) -> None:
    """What was left behind goes as it goes with the next compile."""
    from liebody.compiler.native import cache

    os.environ["LIEBODY_CACHE"], cache._chosen = str(folder), None
    cache.prune(10**12)
    assert not list((folder / "kernels").glob("liebody-tmp-*"))
    assert len(list((folder / "kernels").glob("*.so"))) == 3  # the compiler's probe, the entry, the kernel


def saved(folder: Path) -> None:
    """A run that is saved in place of another one, and read."""
    from calls import RUN

    import liebody as lb

    RUN.save(folder / "run.nc")
    np.testing.assert_array_equal(lb.Run.load(folder / "run.nc").q, RUN.q)


def one_file(folder: Path) -> None:
    assert [path.name for path in folder.glob("*.nc")] == ["run.nc"]


def swept(folder: Path) -> None:
    """A sweep that is stored, or goes on where it was."""
    import liebody as lb

    def squares(p):
        return {"y": p["x"] ** 2}

    grid, path = {"x": np.arange(3.0)}, folder / "s.zarr"
    lb.sweep(squares, grid, path, chunk=1, workers=0, identity="squares")


def whole_store(folder: Path) -> None:
    import xarray

    import liebody as lb

    assert lb.sweep.verify(folder / "s.zarr") == []
    np.testing.assert_array_equal(xarray.open_zarr(folder / "s.zarr").y, [0.0, 1.0, 4.0])
    assert [path.name for path in folder.iterdir()] == ["s.zarr"]


JOBS = {"compiled": (compiled, nothing_left), "saved": (saved, one_file), "swept": (swept, whole_store)}


# -- the walk -----------------------------------------------------------------------------------------------


def forked(function: Callable[[Path], None], folder: Path) -> int:
    """The exit status of a child that runs this; minus the signal that ended it."""
    child = os.fork()
    if not child:
        status = WRONG
        try:
            from liebody.base.errors import LiebodyError

            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(folder)
                status = 0
            except LiebodyError:
                status = REFUSED
            except BaseException:
                traceback.print_exc(limit=-6)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def walk(job: str, happening: str, plan: Plan, step: int = 1) -> tuple[int, list[str]]:
    """How many calls were let fail, each step-th, and what went wrong."""
    run, check = JOBS[job]
    wrong: list[str] = []
    for n in range(1, 10**6, step):
        folder = Path(tempfile.mkdtemp(prefix="faults-")).resolve()
        plan.folder, plan.error, plan.count, plan.call = str(folder).encode(), HAPPENINGS[happening], 0, b""
        plan.at = n
        first = forked(run, folder)
        reached, plan.at = plan.count >= n, 0
        again = forked(run, folder)
        left = forked(check, folder)
        if first not in ((0, REFUSED) if plan.error else (0, REFUSED, -9)) or again or left:
            wrong.append(f"{job}, {happening}, call {n} ({plan.call.decode()}): {first}, {again}, {left}")
        shutil.rmtree(folder)
        if not reached:
            return (n - 1) // step, wrong
    raise AssertionError("there is no end of calls")


def started(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """This script in a process that has faults.c before the C library."""
    from liebody.compiler.native.build import find_compiler

    compiler = find_compiler()
    assert compiler is not None
    with tempfile.TemporaryDirectory() as folder:
        shim, shared = Path(folder) / "faults.so", Path(folder) / "plan"
        source = str(HERE / "faults.c")
        subprocess.run([*compiler.command, "-shared", "-fPIC", "-o", str(shim), source, "-ldl"], check=True)
        shared.write_bytes(bytes(ctypes.sizeof(Plan)))
        given = {**os.environ, "LD_PRELOAD": str(shim), "FAULTS_PLAN": str(shared)}
        command = [sys.executable, __file__, "--inside", *arguments]
        return subprocess.run(command, env=given, capture_output=True, text=True, check=False)


def main(job: str, happening: str, step: str) -> int:
    """Walk through the calls of a job, in a process that `started` made."""
    import mmap

    import calls  # noqa: F401  (what is imported and made before the children is there in all)
    import h5netcdf  # noqa: F401
    import zarr  # noqa: F401

    with open(os.environ["FAULTS_PLAN"], "r+b") as file:
        plan = Plan.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Plan)))
    count, wrong = walk(job, happening, plan, int(step))
    print(*wrong, f"{count} calls of {job}, {happening}: {len(wrong)} wrong", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(main(*sys.argv[2:]))
    ended = [started([job, happening, "1"]) for job in JOBS for happening in HAPPENINGS]
    print(*(x.stdout + x.stderr for x in ended), sep="")
    sys.exit(any(x.returncode for x in ended))
