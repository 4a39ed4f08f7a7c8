"""Compile C source into shared libraries, kept in the cache by content, compiler and processor."""

from __future__ import annotations

import ctypes
import errno
import functools
import importlib.util
import itertools
import math
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...base.digests import digest as digest_of
from ...base.errors import CompilerError, pass_on_signals, suppress
from ...base.interrupts import in_threads
from ...base.progress import Waiting
from ...base.public import version
from ..runtime import runtime
from . import cache
from .cache import NoPlace

T = TypeVar("T")
WINDOWS = sys.platform == "win32"
# With any options in $CC, NaN, infinity, signed zeros, the order of sums and roundings follow IEEE 754.
STRICT = (
    "-fno-fast-math -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math "
    "-fno-finite-math-only -fsigned-zeros"
)
# Options of $CC that only some compilers know, and the options that take them back.
NEGATIONS = {
    "-fsingle-precision-constant": "-fno-single-precision-constant",
    "-mfpmath=387": "-mfpmath=sse",
    "-mrecip": "-mno-recip",
}
# GCC 12 takes wrong operands where it makes vectors of straight lines (products of matrices, AVX-512): lanes
# are the vectors here.
FLAGS = (
    f"-std=gnu11 -O2 -march=native {STRICT} -ffp-contract=fast -fno-tree-slp-vectorize "
    f"-fno-math-errno -fno-trapping-math -fno-semantic-interposition -w{'' if WINDOWS else ' -fPIC'}"
).split()
# Very long code waits for memory: with these parts of -O2 it runs as fast, and compiles in half the time.
LESS = "-O1 -fexpensive-optimizations -fstrict-aliasing -DLONG_CODE".split()
LONG_FLAGS = (*(flag for flag in FLAGS if flag != "-O2"), *LESS)
LONG = 15_000  # operations of straight lines from which on code is bound by memory
TEMPORARY = ("TMPDIR", "TMP", "TEMP")  # where compilers look for the folder for their files
# Folders in which compilers look for headers, libraries and programs. Empty and relative ones are left out:
# they lie in the working folder, which may be anybody's.
FOLDERS = "CPATH C_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH LD_RUN_PATH GCC_EXEC_PREFIX PATH".split()
# These would change what every compiler compiles, or let it write files elsewhere.
REMOVED = ("CCC_OVERRIDE_OPTIONS", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES")
ZIG = (sys.executable, "-P", "-m", "ziglang", "cc")  # -P: not from the working folder
LEAST_SPACE = 1 << 20  # bytes of a disk on which a compiler may have failed for want of space
# What installs a compiler and the headers of its C library, by the ID and ID_LIKE of /etc/os-release.
OF_DISTRIBUTIONS = {
    "debian": "apt install gcc libc6-dev",
    "ubuntu": "apt install gcc libc6-dev",
    "fedora": "dnf install gcc glibc-devel",
    "rhel": "dnf install gcc glibc-devel",
    "suse": "zypper install gcc glibc-devel",
    "arch": "pacman -S gcc",
    "alpine": "apk add gcc musl-dev",
}


def installed_by() -> str:
    """The command that installs a C compiler on this system; empty where none is known but pip's."""
    if sys.platform == "darwin":
        return "xcode-select --install"
    try:
        release = platform.freedesktop_os_release()
    except (OSError, AttributeError):
        return ""
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((OF_DISTRIBUTIONS[name] for name in names if name in OF_DISTRIBUTIONS), "")


def advice() -> str:
    """How this system comes by a C compiler, in words."""
    ways = [way for way in (installed_by(), "pip install ziglang") if way]
    return f"install a C compiler: {', or '.join(ways)}; $CC chooses another"


ADVICE = advice()
HEADERS = (
    "the compiler is there, but this header of the C library is not (Debian, Ubuntu: apt install libc6-dev; "
    "Fedora: dnf install glibc-devel; Alpine: apk add musl-dev)"
)
OTHERWISE = (
    "this compiler builds other code, so the mistake is in its options in $CC, or in liebody, whose "
    "developers would like to know; $CC chooses another compiler"
)
# The messages of compilers for #include <math.h> where the header is missing.
MISSING = re.compile(r"error: ('?[\w/.+-]+\.h('| *:)|no include path)").search


REFUSALS: list[CompilerError] = []  # why compilers that exist do not work


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the command that calls it, and what identifies it."""

    command: tuple[str, ...]
    identity: str


@functools.cache
def find_compiler() -> Compiler | None:
    """$CC if it is set; else the first of cc, gcc, clang and the ziglang wheel's that works; else None.

    $CC may hold options, which come before the library's own; see `library` for those that contradict them.
    Options that change the arithmetic are taken back (STRICT, NEGATIONS).

    Raises CompilerError where $CC is set and does not work.
    """
    # The user's choice: only this compiler is tried, and errors are not hidden.
    wanted = os.environ.get("CC", "")
    if wanted.strip():
        try:
            program, *options = (x.strip('"') for x in shlex.split(wanted, posix=not WINDOWS))
        except ValueError as error:
            raise CompilerError(f"$CC is {wanted!r}, which is no command: {error}") from None
        path = _program(program)
        if path is None:
            raise CompilerError(
                f"$CC is {wanted!r}, but there is no program {program!r}; unset CC, or {ADVICE}"
            )
        options += [NEGATIONS[option] for option in options if option in NEGATIONS]
        compiler = Compiler((path, *options), _identity(path, *options))
        try:
            vector_bits(compiler)
        except NoPlace as error:
            REFUSALS.append(error)
            return None
        return compiler
    # Otherwise the first one that builds code with right numbers.
    for command, program in _commands():
        compiler = Compiler(command, _identity(program, *command[1:]))
        try:
            vector_bits(compiler)
            check_numbers(compiler)
        except CompilerError as error:
            REFUSALS.append(error)  # without headers, or a stand-in that only asks to be installed
            continue
        return compiler
    return None


def _commands() -> Iterator[tuple[tuple[str, ...], str]]:
    """Candidates for C compilers: the command that calls each, and its file."""
    for path in map(_program, ("cc", "gcc", "clang")):
        if path:
            yield (path,), path
    zig = importlib.util.find_spec("ziglang")
    if zig and zig.origin:
        yield ZIG, zig.origin


def cross_compiler(target: str) -> tuple[str, ...]:
    """The command of a C compiler for another system, from the ziglang wheel, which has the systems' headers.

    target  processor, system and library, as "aarch64-macos", "x86_64-windows-gnu", "aarch64-linux-gnu.2.17"

    Raises CompilerError if the wheel is not installed.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise CompilerError(f"there is no C compiler for {target} here; pip install ziglang")
    return (*ZIG, "-target", target)


def _program(name: str) -> str | None:
    """The path of a program; a bare name is not looked up in the working folder, which may be anybody's."""
    path = shutil.which(name, path=_absolute(os.environ.get("PATH", os.defpath)))
    if path is None or not (os.path.isabs(path) or os.path.dirname(name)):  # Windows looks there all the same
        return None
    return os.path.abspath(path)


def _absolute(folders: str) -> str:
    """A list of folders without empty and relative ones."""
    return os.pathsep.join(x for x in folders.split(os.pathsep) if os.path.isabs(x))


def _identity(program: str, *options: str) -> str:
    """Path, size and date of a program: changes when it does, and needs no process to find out."""
    path = os.path.realpath(program)
    status = os.stat(path)
    return "|".join([path, str(status.st_size), str(status.st_mtime_ns), *options])


@functools.cache
def processor() -> str:
    """A text that identifies this processor, for which code is compiled."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = itertools.takewhile(str.strip, file)  # the others are alike
            lines = [x.rstrip() for x in first if x.startswith(("model name", "flags", "Features"))]
        return "|".join([platform.machine(), *lines])
    except OSError as error:
        pass_on_signals(error)
        return "|".join([platform.machine(), platform.processor(), platform.node()])


def digest(*parts: str) -> str:
    """The name in the cache of a file that depends on `parts`."""
    return digest_of(*parts)[:40]


def note(*parts: str) -> str:
    """The name in the cache of a file that depends on `parts`, this library's source and the processor."""
    return digest(*parts, library_digest(), processor(), *FLAGS)


@functools.cache
def library_digest() -> str:
    """A digest of the source of this library, so that kernels of another version are not used.

    Reading all files takes long. So the digest is cached itself, under the names, sizes and times of all
    files, and they are read only if one of these has changed.
    """
    folders = [str(Path(__file__).parents[2])]
    files = []
    for folder in folders:
        with os.scandir(folder) as items:
            for item in items:
                if item.name.endswith((".py", ".h")):
                    status = item.stat()
                    files.append((item.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
                elif item.is_dir() and item.name != "__pycache__":
                    folders.append(item.path)
    files.sort()
    kept = digest(version(), *map(repr, files))  # the version, where there is bytecode alone
    if known := cache.recall(kept, ".path"):
        return known.decode()
    source = digest(version(), *(Path(path).read_text(encoding="utf-8") for path, *_ in files))
    with suppress(OSError):
        cache.store(kept, ".path", source.encode())
    return source


def _kind(option: str) -> str:
    """The setting that an option of a compiler decides: -O, or its name before the equals sign."""
    name = option.partition("=")[0]
    return {"-mcpu": "-march"}.get(name, "-O" if name.startswith("-O") else name)


class Source(NamedTuple):
    """A source to compile.

    units   C translation units
    flags   options of the compiler
    advice  for where the compiler refuses it
    name    says what it is, where a terminal tells a person what is compiled
    """

    units: Sequence[str]
    flags: Sequence[str] = FLAGS
    advice: str = OTHERWISE
    name: str = "a library"


def library(
    source: Source | Callable[[], Source], compiler: Compiler, note: str | None = None
) -> ctypes.CDLL:
    """The shared library made of C translation units: from the cache, or compiled (units in parallel).

    source  the source, or a call that makes it; the call is left out if the library is known by its note
    note    a digest that determines the source; None if only the source itself does

    Options in $CC replace the source's options of the same kind: "gcc -march=x86-64-v3" makes code for any
    processor of that level, where `gcc` makes it for this one.

    Raises CompilerError, of the kind NoPlace where there is no space for it, not even in a temporary folder.
    """
    # Two ways into the cache: the note leads to the library's key without any source, and the key is a digest
    # of everything that determines the code.
    if note and (name := cache.recall(note, ".path")) and (known := cache.kept(name.decode())):
        return known
    source = source() if callable(source) else source
    chosen = {_kind(option) for option in compiler.command[1:]}
    flags = [flag for flag in source.flags if _kind(flag) not in chosen]
    key = digest(*source.units, compiler.identity, processor(), *flags)
    ready = source._replace(flags=flags)

    def kept() -> ctypes.CDLL:
        compiled = cache.kept(key) or _compiled(key, ready, compiler)
        if note:
            cache.store(note, ".path", key.encode())
        return compiled

    return _with_space(kept)


def library_file(unit: str, command: Sequence[str], file: str, name: str) -> bytes:
    """The content of a shared library for other programs and systems, made of a C translation unit.

    unit     ASCII text
    command  the compiler with all options except for files and for the mathematical functions
    file     what the library is called, without a folder
    name     says what it is, where a terminal tells a person what is compiled

    Raises CompilerError, of the kind NoPlace where there is no space for it, not even in a temporary folder.
    """
    program, *options = command
    called = [_program(program) or program, *options]

    def built() -> bytes:
        with (
            cache.workplace() as folder,
            Waiting(f"compiling {name}, {len(unit) / 1e6:.1f} MB of C") as waiting,
        ):
            (folder / "model.c").write_text(unit, encoding="ascii")
            _run(folder, OTHERWISE, waiting, [*called, "-shared", "model.c", "-o", file, "-lm"])
            return (folder / file).read_bytes()

    return _with_space(built)


def _with_space(make: Callable[[], T]) -> T:
    """Call `make`, which writes to the cache; if this fails, as with a full disk, in a temporary folder."""
    while True:
        folder = cache.cache_folder()
        try:
            return make()
        except OSError as error:
            pass_on_signals(error)
            cache.move(error, folder)  # raises if it is the temporary folder already


def _compiled(key: str, source: Source, compiler: Compiler) -> ctypes.CDLL:
    """Compile a source (several units at the same time, and then link them), and put it into the cache."""
    with cache.workplace() as folder:
        for k, unit in enumerate(source.units):
            (folder / f"unit{k}.c").write_text(unit, encoding="utf-8")
        built = folder / f"kernel{cache.SUFFIX}"
        names = [str(folder / f"unit{k}") for k in range(len(source.units))]
        command = [*compiler.command, *source.flags]
        run = functools.partial(_run, folder, source.advice)
        size = sum(map(len, source.units))
        with Waiting(f"compiling {source.name}, {size / 1e6:.1f} MB of C") as waiting:
            if len(names) == 1:
                run(waiting, [*command, "-shared", "-o", str(built), f"{names[0]}.c", "-lm"])
            else:
                run(waiting, *([*command, "-c", "-o", f"{x}.o", f"{x}.c"] for x in names))
                run(waiting, [*command, "-shared", "-o", str(built), *(f"{x}.o" for x in names), "-lm"])
        return cache.keep(key, built)


def _environment(folder: Path) -> dict[str, str]:
    """The environment of compilers, which work in this folder and look into no other by a relative name."""
    kept = {name: value for name, value in os.environ.items() if name not in REMOVED}
    for name in FOLDERS:
        if folders := _absolute(kept.pop(name, "")):
            kept[name] = folders
    return {**kept, **dict.fromkeys(TEMPORARY, str(folder)), "LC_ALL": "C"}


def _run(folder: Path, advice: str, waiting: Waiting, *commands: list[str]) -> None:
    """Run compilers at the same time, in a folder that has their temporary files; they end when this does.

    advice   for where one refuses the source
    waiting  the line that says how far they are
    """
    running: list[subprocess.Popen[str]] = []
    environment = _environment(folder)

    def start(command: list[str]) -> None:
        running.append(
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        )

    try:
        # Processes start in another thread, in which no handler of a signal runs. So every process that was
        # started is in the list, and `finally` ends it.
        in_threads(start, commands, 1, here=False)
        for process in running:
            said = _messages(process, running, waiting)
            if process.returncode:
                _refuse(commands[0][0], process.returncode, said, folder, advice)
    except OSError as error:
        pass_on_signals(error)
        if error.errno == errno.ENOSPC:
            raise
        raise CompilerError(f"the C compiler {commands[0][0]} cannot be run: {error}; {ADVICE}") from None
    finally:
        for process in running:
            if process.poll() is None:
                _end(process)
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


def _messages(
    process: subprocess.Popen[str], running: Sequence[subprocess.Popen[str]], waiting: Waiting
) -> str:
    """The messages of a compiler when it has ended; meanwhile a terminal shows how many have."""
    while True:
        try:
            return process.communicate(timeout=waiting.tick)[1]
        except subprocess.TimeoutExpired:
            ended = sum(one.poll() is not None for one in running)
            waiting.show(f"{ended} of {len(running)} parts" if len(running) > 1 else "")


def _refuse(program: str, status: int, said: str, folder: Path, advice: str) -> None:
    """Raise CompilerError for a compiler that failed; OSError if it failed for want of space."""
    full = shutil.disk_usage(folder).free < LEAST_SPACE
    if full or "No space left" in said or "quota exceeded" in said:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    words = "\n".join(said.strip().splitlines()[:12])
    if MISSING(said) and advice in (ADVICE, OTHERWISE):
        advice = HEADERS
    raise CompilerError(f"the C compiler {program} stopped with exit status {status}: {words}\n{advice}")


def _end(process: subprocess.Popen[str]) -> None:
    """End a compiler and its child processes; they remove their temporary files."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()


def fields(declared: str) -> list[tuple[str, Any]]:
    """Fields of a ctypes.Structure: "int64 rows limit, double rtol" has two of a type and one of another."""
    words = [line.split() for line in declared.split(",")]
    return [(name, getattr(ctypes, f"c_{kind}")) for kind, *names in words for name in names]


@functools.cache
def _probe(compiler: Compiler) -> ctypes.CDLL:
    """The library of runtime/probe.h."""
    return library(Source([runtime("probe.h")], advice=ADVICE), compiler)


@functools.cache
def vector_bits(compiler: Compiler) -> int:
    """The size of the processor's vectors as the compiler sees it; CompilerError if that cannot build."""
    probe = _probe(compiler)
    try:
        return ctypes.c_int.in_dll(probe, "vector_bits").value
    except ValueError:  # the compiler of Visual Studio
        raise CompilerError(f"libraries of {compiler.command[0]} export no names; {ADVICE}") from None


@functools.cache
def check_numbers(compiler: Compiler) -> None:
    """Raise CompilerError if code that a compiler builds with these options computes wrong numbers.

    This runs code of the compiler, and ends Python if $CC names another processor. So it is called before
    kernels are compiled, and not where $CC is read.
    """
    if wrong := _wrong_numbers(_probe(compiler)):
        raise CompilerError(
            f"{shlex.join(compiler.command)} builds code whose numbers are wrong: {', '.join(wrong)}; take "
            "options that change floating-point arithmetic (-ffast-math, -mno-sse2 and such) out of $CC"
        )


def _wrong_numbers(probe: ctypes.CDLL) -> list[str]:
    """The kinds of numbers, in words, for which `numbers` of runtime/probe.h disagrees with Python."""
    # The order of the entries is the order in which `numbers` writes them. Python computes in IEEE 754.
    one = 1.0
    tiny = 2.0**-53
    small = sys.float_info.min
    half = 0.5
    a, b, c = (2.7, 49.0, -1.3)
    x = [math.nan, math.inf, -0.0, one, tiny, small, half, a, b, c]
    expected = {
        "NaN": [1.0],
        "infinity": [1.0],
        "the smaller of NaN and 1": [one],
        "the sign of zero": [1.0, math.inf],
        "the order of sums": [(one + tiny) - one, float(round(a))],
        "divisions": [one / b * b, a / b, b / b, c / b],
        "constants": [0.1],
        "numbers below the normal ones": [small * half],
        "functions of math.h": [math.sin(a), math.exp(c), math.sqrt(a)],
        "floats": [_single(_single(a) / b), _single(math.sqrt(_single(a)))],
    }
    y = (ctypes.c_double * sum(map(len, expected.values())))()
    probe.numbers((ctypes.c_double * len(x))(*x), y)
    computed = iter(y)
    wrong = []
    for words, values in expected.items():
        round_off = 1e-15 if words == "functions of math.h" else 0.0
        pairs = [(next(computed), value) for value in values]
        if not all(y == value or abs(y - value) <= round_off * abs(value) for y, value in pairs):
            wrong.append(words)
    return wrong


def _single(x: float) -> float:
    return ctypes.c_float(x).value


def lanes(compiler: Compiler, single: bool = False) -> int:
    """The number of lanes: how many numbers one vector of this processor holds."""
    return vector_bits(compiler) // (32 if single else 64)
