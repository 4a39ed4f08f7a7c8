"""Compile C source into shared libraries, kept on disk by content, compiler and processor.

The cache is the user's own (`$LIEBODY_CACHE`, else the platform's cache folder), readable by nobody else. A
library is linked under a temporary name and renamed, so that a compile which is killed, or two processes at
once, leave nothing broken behind.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..errors import CompilerError

FLAGS = (
    "-std=gnu11 -O2 -fPIC -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-semantic-interposition -w"
).split()
LONG_FLAGS = tuple("-O1" if flag == "-O2" else flag for flag in FLAGS)  # memory-bound code: same speed, half the time
ABANDONED = 24 * 3600.0  # seconds after which a temporary folder belongs to nobody
ADVICE = (
    "install a C compiler (Debian, Ubuntu: apt install gcc; macOS: xcode-select --install), or the one that pip "
    'installs: pip install "liebody[compiler]"; $CC chooses another'
)


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the command that calls it, and what identifies it."""

    command: tuple[str, ...]
    identity: str


@functools.cache
def find_compiler() -> Compiler | None:
    """$CC, cc, gcc or clang where one is on the path, else the compiler of the ziglang wheel, else None."""
    wanted = shlex.split(os.environ.get("CC", ""))
    for command in ([wanted] if wanted else []) + [["cc"], ["gcc"], ["clang"]]:
        program = shutil.which(command[0])
        if program:
            return Compiler((program, *command[1:]), _identity(program, *command[1:]))
    zig = importlib.util.find_spec("ziglang")
    if zig and zig.origin:
        return Compiler((sys.executable, "-m", "ziglang", "cc"), _identity(zig.origin, "cc"))
    return None


def _identity(program: str, *options: str) -> str:
    """Path, size and date of a program: changes when it does, and needs no process to find out."""
    path = os.path.realpath(program)
    status = os.stat(path)
    return "|".join([path, str(status.st_size), str(status.st_mtime_ns), *options])


@functools.cache
def processor() -> str:
    """What code for this very processor depends on."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = [x for x in text.split("\n\n")[0].splitlines() if x.startswith(("model name", "flags", "Features"))]
        return "|".join([platform.machine(), *lines])
    except OSError:
        return "|".join([platform.machine(), platform.processor(), platform.node()])


@functools.cache
def cache_folder() -> Path:
    """The user's folder of compiled kernels, private to the user."""
    chosen = os.environ.get("LIEBODY_CACHE")
    if chosen:
        folder = Path(chosen)
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("liebody", appauthor=False)) / "kernels"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        foreign = hasattr(os, "getuid") and status.st_uid != os.getuid()
        if not foreign and stat.S_IMODE(status.st_mode) & 0o022:
            folder.chmod(0o700)
        if not foreign and os.access(folder, os.W_OK):
            _sweep(folder)
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="liebody-"))  # no place of our own: kernels last as long as the process


def _sweep(folder: Path) -> None:
    """Remove what compiles that were killed have left."""
    for leftover in folder.glob("tmp-*"):
        try:
            if time.time() - leftover.stat().st_mtime > ABANDONED:
                shutil.rmtree(leftover)
        except OSError:
            continue


def store(key: str, suffix: str, content: bytes) -> Path:
    """Write a file of the cache, complete or not at all."""
    target = cache_folder() / f"{key}{suffix}"
    handle, name = tempfile.mkstemp(prefix="tmp-", dir=cache_folder())
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(name, target)
    return target


def digest(*parts: str) -> str:
    """The name under which something that depends on `parts` is kept."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def library(units: Sequence[str], compiler: Compiler, flags: Sequence[str] = FLAGS) -> Path:
    """The shared library made of C translation units: from the cache, or compiled (units in parallel)."""
    key = digest(*units, compiler.identity, processor(), *flags)
    target = cache_folder() / f"{key}.so"
    if target.exists():
        return target
    folder = Path(tempfile.mkdtemp(prefix="tmp-", dir=cache_folder()))
    try:
        for k, unit in enumerate(units):
            (folder / f"unit{k}.c").write_text(unit, encoding="utf-8")
        built = folder / "kernel.so"
        if len(units) == 1:
            _run([*compiler.command, *flags, "-shared", "-o", str(built), str(folder / "unit0.c"), "-lm"])
        else:
            with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
                list(pool.map(lambda k: _run(
                    [*compiler.command, *flags, "-c", "-o", str(folder / f"unit{k}.o"), str(folder / f"unit{k}.c")]
                ), range(len(units))))  # fmt: skip
            objects = [str(folder / f"unit{k}.o") for k in range(len(units))]
            _run([*compiler.command, "-shared", "-o", str(built), *objects, "-lm"])
        built.chmod(0o700)
        os.replace(built, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        words = done.stderr.strip().splitlines()[:12]
        raise CompilerError(
            f"the C compiler {command[0]} stopped with exit status {done.returncode}: " + "\n".join(words) + f"\n{ADVICE}"
        )


@functools.cache
def lanes(compiler: Compiler, single: bool = False) -> int:
    """How many numbers this processor's vectors hold, as the compiler sees it."""
    key = digest("lanes", compiler.identity, processor())
    known = cache_folder() / f"{key}.lanes"
    try:
        bits = int(known.read_text())
    except (OSError, ValueError):
        done = subprocess.run(
            [*compiler.command, "-march=native", "-dM", "-E", "-x", "c", os.devnull],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        bits = 512 if "__AVX512F__" in done.stdout else 256 if "__AVX__" in done.stdout else 128
        store(key, ".lanes", str(bits).encode())
    return bits // (32 if single else 64)


def load(path: Path) -> ctypes.CDLL:
    """Open a library of the cache; a damaged one is removed and reported."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        path.unlink(missing_ok=True)
        raise CompilerError(f"the compiled kernel {path} cannot be loaded ({error}); it was removed: try again") from error
