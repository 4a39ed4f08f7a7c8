"""The cache of compiled kernels: a private folder with a limit, whose files are complete and checked.

The folder is `kernels` in `$LIEBODY_CACHE`, else in the platform's cache folder, private to the user. Each
file is written under another name and renamed, and checked when it is read (`base.digests`): a note is sealed
under its name, and a library has its digest in a note beside it. If all files together exceed the limit,
`$LIEBODY_CACHE_LIMIT` (default: 1 GB), the least recently used ones are removed. This is checked about once
an hour, because listing a full cache takes a second. If the folder cannot be used, or its disk is full,
kernels go to a temporary folder, which is removed at the end of the process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import functools
import gc
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...base.concurrency import undivided
from ...base.digests import LENGTH, digest_of, is_sealed, seal
from ...base.errors import CompilerError, pass_on_signals, suppress
from ...base.locks import FOLDERS, lock
from ...base.public import version

SUFFIX = ".dll" if sys.platform == "win32" else ".so"  # of libraries
PREFIX = "liebody-tmp-"  # of folders in which files are being written
TAG = "CACHEDIR.TAG"
LOCK = "lock"
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# compiled kernels of liebody; may be removed\n"
OURS = re.compile(r"([0-9a-f]{40})\.(so|dll|sum|path|json|cubin)|tmp-\w+").fullmatch
LIMIT = "1 GB"
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
RECENT = 3600.0  # seconds within which a second use is not noted
ABANDONED = 24 * 3600.0  # seconds after which a temporary folder is a leftover, on systems without locks
OFTEN = 64  # libraries that a process compiles between two checks of the limit, beside the hourly check
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class CacheWarning(UserWarning):
    """The cache of compiled kernels cannot be used; they are kept elsewhere, or not at all."""


class NoPlace(CompilerError):
    """There is no folder into which kernels can be compiled."""


# -- the folder ----------------------------------------------------------------------------------------------

_chosen: Path | None = None
_made = 0  # libraries, by this process
_choosing = undivided  # of the folder; a fork waits for it


def cache_folder() -> Path:
    """The folder of compiled kernels, private to the user; made again if it was removed meanwhile."""
    global _chosen
    with _choosing:
        if _chosen is None:
            _chosen = _usable()
    try:
        _chosen.mkdir(mode=0o700, parents=True)  # `exist_ok` would pass over errors of handlers of signals
    except OSError as error:
        pass_on_signals(error)
        if not _is(stat.S_ISDIR, _chosen):
            move(error, _chosen)
    return _chosen


def move(error: OSError, folder: Path) -> None:
    """Keep kernels in a temporary folder from now on, because of an error in this one.

    Raises NoPlace if it is a temporary folder already.
    """
    global _chosen
    with _choosing:
        if _chosen != folder:  # another thread moved the cache already
            return
        why = "there is no space" if error.errno in NO_SPACE else f"{error.strerror or error}"
        if folder.name.startswith(PREFIX):
            raise NoPlace(f"{why} in {folder}") from error
        _chosen = _temporary(f"{why} in {folder}")


def _usable() -> Path:
    """The folder of compiled kernels, or a temporary one if it cannot be used."""
    wanted = os.environ.get("LIEBODY_CACHE") or _cache_of_user()
    if not wanted:
        return _temporary("the user has no home folder for compiled kernels: set LIEBODY_CACHE")
    folder = Path(wanted)
    try:
        folder = folder.absolute() / "kernels"
        why = _obstacle(folder)
    except OSError as error:
        pass_on_signals(error)
        why = "there is no space" if error.errno in NO_SPACE else f"{error.strerror or error}"
    return _temporary(f"{folder} cannot hold compiled kernels: {why}") if why else folder


def _cache_of_user() -> str:
    """The platform's cache folder of the user; "" without a home: no HOME, and a user without a name."""
    with undivided:
        import platformdirs

    try:
        folder = platformdirs.user_cache_dir("liebody", appauthor=False)
    except RuntimeError:
        return ""
    return "" if folder.startswith("~") else folder  # as some versions leave it


def _obstacle(folder: Path) -> str:
    """Make a folder the cache, or return the reason why it cannot be. Files of others stay untouched."""
    # Code from this folder runs in the user's processes, so nobody else may put files there.
    if folder.is_symlink():
        return "it is a symbolic link; set LIEBODY_CACHE to where it leads"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is no folder"
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return "it is another user's"
    if not os.access(folder, os.W_OK):
        return "it cannot be written"
    if not _is(stat.S_ISREG, folder / TAG):  # names are read in new folders only: there may be very many
        others = [name for name in os.listdir(folder) if not OURS(name) and not name.startswith(PREFIX)]
        if others:
            return f"it holds {min(others)}, which is not of liebody; set LIEBODY_CACHE to another folder"
        (folder / TAG).write_bytes(SIGNATURE)
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)
    return ""


def _temporary(why: str) -> Path:
    """A folder that lasts as long as this process."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as error:
        pass_on_signals(error)
        raise NoPlace(f"{why}; and no temporary folder can be made: {error.strerror or error}") from error
    atexit.register(_remove, folder, os.getpid())
    words = f"{why}; so kernels are compiled into {folder}, and again in the next process"
    warnings.warn(words, CacheWarning, stacklevel=2)
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers() -> None:
    """Remove temporary folders of compiles that were killed. A running one holds a lock on its folder."""
    folder = cache_folder()
    for name in os.listdir(folder):
        if not name.startswith((PREFIX, "tmp-")):  # version 0.1 used "tmp-"
            continue
        with suppress(OSError), _locked(folder / name, wait=False) as free:
            old = time.time() - (folder / name).lstat().st_mtime > ABANDONED
            if (free and FOLDERS and name.startswith(PREFIX)) or old:
                _clear(folder / name)


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A temporary folder in the cache; if this process is killed, another one removes it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=cache_folder()))
        with _locked(folder, wait=False) as held:
            if not held or not _is(stat.S_ISDIR, folder):  # another process took it
                continue
            try:
                yield folder
                return
            finally:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path, wait: bool, shared: bool = False) -> Iterator[bool]:
    """Hold a lock on a file or folder; yields whether it is held. On Windows folders need none."""
    if not FOLDERS and path.is_dir():
        yield True
        return
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        pass_on_signals(error)
        yield False
        return
    try:
        yield lock(handle, wait, shared)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _no_pruning(wait: bool = True, pruning: bool = False) -> Iterator[bool]:
    """Hold the lock of the cache: shared, to use files; or exclusively (`pruning`), to remove some."""
    file = cache_folder() / LOCK
    with suppress(OSError):
        os.close(os.open(file, os.O_CREAT | os.O_RDONLY, 0o600))
    with _locked(file, wait, shared=not pruning) as held:
        yield held


# -- files ---------------------------------------------------------------------------------------------------


def store(key: str, suffix: str, content: bytes) -> None:
    """Write a note of the cache, complete or not at all."""
    name = f"{key}{suffix}"
    with workplace() as folder:
        (folder / "note").write_bytes(content + seal(content, name))
        _place(folder / "note", cache_folder() / name)


def recall(key: str, suffix: str) -> bytes | None:
    """The note that was stored under this name; None if it is missing or damaged."""
    path = cache_folder() / f"{key}{suffix}"
    try:
        whole = path.read_bytes()
    except OSError as error:
        pass_on_signals(error)
        return None
    if not is_sealed(whole, path.name):
        return None
    _note_use(path)
    return whole[:-LENGTH]


def keep(key: str, built: Path) -> ctypes.CDLL:
    """Put a library that was built in a `workplace` into the cache, and open it."""
    global _made
    target = cache_folder() / f"{key}{SUFFIX}"
    built.chmod(0o700)
    library = _load(built)  # before anything else can happen to the file
    # The digest comes first: a library without its digest would not be used, the reverse does no harm.
    with _no_pruning():
        store(key, ".sum", f"{digest_of(built)} {version()}".encode())
        try:
            _place(built, target)
        except PermissionError:
            if not _is(stat.S_ISREG, target):
                raise  # otherwise another process of Windows uses its own, just made
    # From time to time look after the folder.
    _made += 1
    if _made % OFTEN == 0 or _note_use(target.parent / TAG):
        prune(limit(), wait=False)
    elif _made == 1:
        _remove_leftovers()
    return library


def kept(key: str) -> ctypes.CDLL | None:
    """The library of this name; None if it is missing or damaged, because opening such a file ends Python."""
    path = cache_folder() / f"{key}{SUFFIX}"
    with _no_pruning():
        noted = recall(key, ".sum")
        try:
            if noted is None or noted.split()[0].decode() != digest_of(path):
                return None
            _note_use(path)
            return _load(path)
        except OSError as error:
            pass_on_signals(error)
            return None


def _load(path: Path) -> ctypes.CDLL:
    """Open a library. If the process has no room for one more, unload the kernels that nobody uses."""
    try:
        with _arithmetic_kept():
            try:
                return ctypes.CDLL(str(path))
            except OSError as error:
                pass_on_signals(error)
                gc.collect()
                return ctypes.CDLL(str(path))
    except OSError as error:
        pass_on_signals(error)
        raise CompilerError(
            f"the compiled kernel {path} cannot be loaded: {error}; where programs may not run from this "
            "folder, set LIEBODY_CACHE to another one"
        ) from error


@contextlib.contextmanager
def _arithmetic_kept() -> Iterator[None]:
    """Keep the thread's rounding mode and subnormal numbers while a library is loaded.

    With -ffast-math, compilers link code that runs as the library is loaded, and sets subnormal numbers to
    zero from then on, in the whole thread.
    """
    environment = (ctypes.c_uint64 * 32)()  # the C library's fenv_t has 32 bytes at most
    functions = _floating_point_environment()
    if functions is None:
        yield
        return
    read, write = functions
    read(environment)
    try:
        yield
    finally:
        write(environment)


@functools.cache
def _floating_point_environment() -> tuple[Callable[[object], int], Callable[[object], int]] | None:
    """`fegetenv` and `fesetenv` of the C library, where it has them."""
    try:
        library = ctypes.CDLL(None)
        return library.fegetenv, library.fesetenv
    except (AttributeError, OSError, TypeError) as error:  # TypeError: on Windows
        pass_on_signals(error)
        return None


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether a path leads to a file of a kind. `Path.is_file` passes over errors of handlers of signals."""
    try:
        return kind(path.stat().st_mode)
    except OSError as error:
        pass_on_signals(error)
        return False


def _place(path: Path, target: Path) -> None:
    """Rename a complete file to its name in the cache: other processes see all of it or nothing."""
    if _is(stat.S_ISDIR, target):
        _clear(target)
    os.replace(path, target)


def _clear(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def _note_use(path: Path) -> bool:
    """Set the time of a file to now if it is older than `RECENT`; returns whether it was."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > RECENT:
            os.utime(path)
            return True
    return False


# -- the limit -----------------------------------------------------------------------------------------------


@dataclass
class Entry:
    """Files of the cache with one key: a library and its digest, or a note."""

    key: str
    paths: list[Path] = field(default_factory=list)
    size: int = 0
    used: float = 0.0

    @property
    def version(self) -> str:
        """The version of liebody that made a library; "" of notes."""
        noted = recall(self.key, ".sum")
        return noted.split()[1].decode() if noted else ""


def entries() -> list[Entry]:
    """The entries of the cache, the least recently used first."""
    by_key: dict[str, Entry] = {}
    with os.scandir(cache_folder()) as files:
        for file in files:
            named = OURS(file.name)
            if not named or not named[1]:
                continue
            try:
                status = file.stat(follow_symlinks=False)
            except OSError as error:
                pass_on_signals(error)
                continue
            entry = by_key.setdefault(named[1], Entry(named[1]))
            entry.paths.append(Path(file.path))
            entry.size += getattr(status, "st_blocks", -(-status.st_size // 512)) * 512
            entry.used = max(entry.used, status.st_mtime)
    return sorted(by_key.values(), key=lambda entry: entry.used)


def limit() -> int:
    """The most bytes that the cache may take, `$LIEBODY_CACHE_LIMIT`."""
    return size_of("LIEBODY_CACHE_LIMIT", os.environ.get("LIEBODY_CACHE_LIMIT") or LIMIT)


def size_of(name: str, text: str) -> int:
    """The bytes of a size such as "500 MB"; raises CompilerError for other texts."""
    size = re.fullmatch(r"\s*(\d+\.?\d*)\s*([kMG]?)B?\s*", text)
    if not size:
        raise CompilerError(f"{name} is {text!r}, expected a size such as '500 MB' or '2 GB'")
    return int(float(size[1]) * UNITS[size[2]])


def prune(most: int, other_versions: bool = False, wait: bool = True) -> tuple[int, int]:
    """Remove the least recently used entries until the rest has `most` bytes; returns how many, and bytes.

    Processes that have a library open keep it, and none is removed between its check and its opening.

    other_versions  remove libraries of other versions of liebody, too
    wait            wait for processes that open libraries; otherwise do nothing if there are some
    """
    _remove_leftovers()
    known = entries()  # before the lock is held, because listing takes a while
    total = sum(entry.size for entry in known)
    removed = 0
    freed = 0
    if total <= most and not other_versions:
        return 0, 0
    with _no_pruning(wait, pruning=True) as alone:
        if not alone:
            return 0, 0
        for entry in known:
            foreign = other_versions and entry.version not in ("", version())
            if total - freed <= most and not foreign:
                if not other_versions:
                    break
                continue
            try:
                for path in sorted(entry.paths):  # the library first: Windows keeps those that are open
                    _clear(path)
            except OSError as error:
                pass_on_signals(error)
                continue
            removed += 1
            freed += entry.size
        return removed, freed


def by_version() -> dict[str, tuple[int, int]]:
    """The number of libraries, and their bytes, for each version of liebody; notes are under ""."""
    counts = Counter[str]()
    sizes = Counter[str]()
    for entry in entries():
        version = entry.version
        counts[version] += 1
        sizes[version] += entry.size
    return {version: (counts[version], sizes[version]) for version in sorted(counts)}
