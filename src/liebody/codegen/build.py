"""Compile C source into shared libraries, kept on disk by content, compiler and processor.

The cache is the user's own (in `$LIEBODY_CACHE`, else in the platform's cache folder), readable by nobody
else. A library is linked under a temporary name and renamed, so that a compile which is killed, or two
processes at once, leave nothing broken behind; its digest lies beside it, so that a damaged one is noticed
and made again.
"""

from __future__ import annotations

import atexit
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CompilerError

# GCC 12 takes wrong operands where it makes vectors of straight lines (products of matrices, AVX-512): lanes
# are the vectors here.
FLAGS = (
    "-std=gnu11 -O2 -fPIC -march=native -ffp-contract=fast -fno-tree-slp-vectorize "
    "-fno-math-errno -fno-trapping-math -fno-semantic-interposition -w"
).split()
# Very long code waits for memory: it runs as fast with less effort, and compiles in half the time.
LONG_FLAGS = (*("-O1" if flag == "-O2" else flag for flag in FLAGS), "-DLONG_CODE")
ABANDONED = 24 * 3600.0  # seconds after which a temporary folder belongs to nobody
ADVICE = (
    "install a C compiler (Debian, Ubuntu: apt install gcc; macOS: xcode-select --install), or the one that "
    "pip installs: pip install ziglang; $CC chooses another"
)


REFUSALS: list[str] = []  # what compilers said that are there, but do not work


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the command that calls it, and what identifies it."""

    command: tuple[str, ...]
    identity: str


@functools.cache
def find_compiler() -> Compiler | None:
    """$CC if it is set; else the first of cc, gcc, clang and the ziglang wheel's that works; else None.

    $CC may hold options, which come before the library's own; see `library` for those that contradict them.

    Raises CompilerError where $CC is set and does not work.
    """
    wanted = os.environ.get("CC", "")
    if wanted.strip():
        try:
            program, *options = shlex.split(wanted)
        except ValueError as error:
            raise CompilerError(f"$CC is {wanted!r}, which is no command: {error}") from None
        path = shutil.which(program)
        if path is None:
            raise CompilerError(
                f"$CC is {wanted!r}, but there is no program {program!r}; unset CC, or {ADVICE}"
            )
        compiler = Compiler((path, *options), _identity(path, *options))
        vector_bits(compiler)
        return compiler
    commands: list[tuple[tuple[str, ...], str]] = [
        ((path,), path) for path in map(shutil.which, ("cc", "gcc", "clang")) if path
    ]
    zig = importlib.util.find_spec("ziglang")
    if zig and zig.origin:
        commands.append(((sys.executable, "-m", "ziglang", "cc"), zig.origin))
    for command, program in commands:
        compiler = Compiler(command, _identity(program, *command[1:]))
        try:
            vector_bits(compiler)
        except CompilerError as error:
            REFUSALS.append(str(error))  # without headers, or a stand-in that only asks to be installed
            continue
        return compiler
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
        lines = [
            x for x in text.split("\n\n")[0].splitlines() if x.startswith(("model name", "flags", "Features"))
        ]
        return "|".join([platform.machine(), *lines])
    except OSError:
        return "|".join([platform.machine(), platform.processor(), platform.node()])


def cache_folder() -> Path:
    """The user's folder of compiled kernels, private to the user; made again if it was removed meanwhile."""
    folder = _chosen_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@functools.cache
def _chosen_folder() -> Path:
    chosen = os.environ.get("LIEBODY_CACHE")
    if not chosen:
        import platformdirs

        chosen = platformdirs.user_cache_dir("liebody", appauthor=False)
    folder = Path(chosen).absolute() / "kernels"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if not hasattr(os, "getuid") or status.st_uid == os.getuid():
            if stat.S_IMODE(status.st_mode) & 0o077:
                folder.chmod(0o700)
            if os.access(folder, os.W_OK):
                _sweep(folder)
                return folder
    except OSError:
        pass
    folder = Path(
        tempfile.mkdtemp(prefix="liebody-")
    )  # no place of our own: kernels last as long as the process
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what compiles that were killed have left."""
    for leftover in folder.glob("tmp-*"):
        try:
            if time.time() - leftover.stat().st_mtime > ABANDONED:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
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


def recall(key: str, suffix: str) -> bytes | None:
    """What was stored, or None."""
    try:
        return (cache_folder() / f"{key}{suffix}").read_bytes()
    except OSError:
        return None


def noted(note: str | None, make: Callable[[], Path]) -> Path:
    """The library whose name is stored as `note`, if it is there and whole; else what `make` returns."""
    name = recall(note, ".path") if note else None
    if name:
        known = cache_folder() / os.fsdecode(name)
        if known.suffix == ".so" and _whole(known):
            return known
    path = make()
    if note:
        store(note, ".path", os.fsencode(path.name))
    return path


def digest(*parts: str) -> str:
    """The name under which something that depends on `parts` is kept."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _kind(option: str) -> str:
    """What an option of a compiler decides: -O, or its name before the equals sign."""
    name = option.partition("=")[0]
    return {"-mcpu": "-march"}.get(name, "-O" if name.startswith("-O") else name)


def library(units: Sequence[str], compiler: Compiler, flags: Sequence[str] = FLAGS) -> Path:
    """The shared library made of C translation units: from the cache, or compiled (units in parallel).

    Options in $CC take the place of those of `flags` that decide the same: "gcc -march=x86-64-v3" makes
    code for any processor of that level, where `gcc` makes it for this one.
    """
    chosen = {_kind(option) for option in compiler.command[1:]}
    flags = [flag for flag in flags if _kind(flag) not in chosen]
    key = digest(*units, compiler.identity, processor(), *flags)
    target = cache_folder() / f"{key}.so"
    if _whole(target):
        return target
    folder = Path(tempfile.mkdtemp(prefix="tmp-", dir=cache_folder()))
    try:
        for k, unit in enumerate(units):
            (folder / f"unit{k}.c").write_text(unit, encoding="utf-8")
        built = folder / "kernel.so"
        if len(units) == 1:
            _run([*compiler.command, *flags, "-shared", "-o", str(built), str(folder / "unit0.c"), "-lm"])
        else:
            names = [str(folder / f"unit{k}") for k in range(len(units))]
            command = [*compiler.command, *flags, "-c", "-o"]
            in_threads(lambda x: _run([*command, f"{x}.o", f"{x}.c"]), names, os.cpu_count() or 1)
            _run([*compiler.command, "-shared", "-o", str(built), *(f"{x}.o" for x in names), "-lm"])
        built.chmod(0o700)
        store(key, ".sum", _sum(built))
        os.replace(built, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


def in_threads(function: Callable[[Any], Any], items: Iterable[Any], threads: int) -> list[Any]:
    """What the function returns of each item, from so many threads."""
    from concurrent.futures import ThreadPoolExecutor  # loads `logging`, and most processes need no thread

    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(function, items))


def _sum(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _whole(path: Path) -> bool:
    """Whether a library is there, as it was written: loading one that was cut off would end the process."""
    try:
        return path.with_suffix(".sum").read_bytes() == _sum(path)
    except OSError:
        return False


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, errors="replace"
        )
    except OSError as error:
        raise CompilerError(f"the C compiler {command[0]} cannot be run: {error}; {ADVICE}") from None
    if done.returncode:
        words = "\n".join(done.stderr.strip().splitlines()[:12])
        raise CompilerError(
            f"the C compiler {command[0]} stopped with exit status {done.returncode}: {words}\n{ADVICE}"
        )


def fields(declared: str) -> list[tuple[str, Any]]:
    """Fields of a ctypes.Structure: "long rows limit, double rtol" has two of a type and one of another."""
    words = [line.split() for line in declared.split(",")]
    return [(name, getattr(ctypes, f"c_{kind}")) for kind, *names in words for name in names]


def runtime(name: str) -> str:
    """A text of the folder runtime/."""
    return (Path(__file__).parent / "runtime" / name).read_text(encoding="utf-8")


@functools.cache
def interface() -> str:
    """A digest of runtime/: libraries of another version are called in another way."""
    return digest(*(runtime(path.name) for path in sorted((Path(__file__).parent / "runtime").glob("*.h"))))


@functools.cache
def vector_bits(compiler: Compiler) -> int:
    """The size of the processor's vectors as the compiler sees it; CompilerError if that cannot build."""
    return ctypes.c_int.in_dll(load(library([runtime("probe.h")], compiler)), "vector_bits").value


def lanes(compiler: Compiler, single: bool = False) -> int:
    """How many numbers this processor's vectors hold."""
    return vector_bits(compiler) // (32 if single else 64)


def load(path: Path) -> ctypes.CDLL:
    """Open a library of the cache; one that cannot be loaded is removed and reported."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        path.unlink(missing_ok=True)
        raise CompilerError(
            f"the compiled kernel {path} cannot be loaded ({error}); it was removed: try again"
        ) from error
