"""Digests of the files that a store of a sweep should hold, by which damage is found and undone.

Two kinds of files are known here. Those of the empty store (descriptions of arrays, values along axes) are
kept twice, in the store and below `status/copy`, with their digests in `status/copy.json`. The files of a
chunk have one digest, in a file of `status/recorded`, which is written when they are on disk: a chunk is
recorded if its digest exists, and whole if its files have it. Zarr looks for none of these files.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..base.arguments import checked
from ..base.digests import CHANGED, digest, digest_of, is_whole, state_of, write
from ..base.errors import SweepError, pass_on_signals, suppress
from ..base.locks import FOLDERS, lock
from ..base.texts import check_name, path_of, shown

DIGESTS = "status/copy.json"
COPY = "status/copy"
RECORDED = "status/recorded"
PLACE = re.compile(r"\d+(\.\d+)*", re.ASCII).fullmatch  # of a chunk: the name of its record
FORMAT = "liebody sweep"
FORMAT_VERSION = 3


class Damage(NamedTuple):
    """Something in a store that is not as it was written.

    what   in words: which file, or the files of which chunk
    place  of the chunk in the array of chunks; None for files of the whole store
    """

    what: str
    place: tuple[int, ...] | None = None


class Inventory:
    """The digests of a store at `path`.

    Raises SweepError where that is no store, or one of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digests = self._digests()
        about = self._json("zarr.json")
        try:  # nothing in the file can be trusted: the store may be anybody's
            about = about["attributes"]
            if about["format_version"] != FORMAT_VERSION:
                raise SweepError(_foreign(path))
            self.definition: dict[str, Any] = json.loads(about["definition"])
            self.variables: list[str] = list(json.loads(about["variables"]))
            for name in self.variables:
                check_name("a result", name, SweepError)
                if "/" in name or "\\" in name or name in ("", ".", ".."):
                    raise SweepError(_foreign(path))
            # shapes in chunks and in members tell the grid of chunks
            self._arrays = {name: self._json(f"{name}/zarr.json") for name in self.variables}
            status = self._arrays["status"]
            box = status["chunk_grid"]["configuration"]["chunk_shape"]
            self.grid = [math.ceil(n / step) for n, step in zip(status["shape"], box, strict=True)]
            self.dims: list[str] = [shown(name) for name in status["dimension_names"]]
            self._inner = {name: len(x["shape"]) - len(self.grid) for name, x in self._arrays.items()}
            _check_definition(self.definition)
        except SweepError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise SweepError(_foreign(path)) from None

    @staticmethod
    def begin(path: Path) -> None:
        """Note the files of an empty store at `path`, with their digests and copies."""
        names = [str(file.relative_to(path)) for file in files_below(path)]
        digests = {}
        # each file with a copy and a digest; the list of digests carries its own
        for name in sorted(names):
            copy = path / COPY / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path / name, copy)
            digests[name] = digest_of(path / name)
        (path / RECORDED).mkdir()
        _write(path / DIGESTS, _signed(digests))

    def places(self) -> list[tuple[int, ...]]:
        """Places of all recorded chunks in the array of chunks."""
        names = os.listdir(self.path / RECORDED) if (self.path / RECORDED).is_dir() else []
        numbered = [tuple(map(int, name.split("."))) for name in names if PLACE(name)]
        # records of other shapes are somebody else's files
        fitting = (x for x in numbered if len(x) == len(self.grid) and all(map(int.__lt__, x, self.grid)))
        return sorted(fitting)

    # -- files of the whole store ---------------------------------------------------------------------------

    def damaged_files(self) -> list[Damage]:
        """Which files of the empty store are not as they were."""
        damaged = []
        if not (self.path / DIGESTS).is_file() or (self.path / DIGESTS).read_bytes() != _signed(self.digests):
            damaged.append(DIGESTS)
        for name, known in self.digests.items():
            damaged += [x for x in (name, f"{COPY}/{name}") if not is_whole(self.path / x, known)]
        return [Damage(self._state(self.path / name)) for name in damaged]

    def restore(self) -> list[Damage]:
        """Make the damaged files of the empty store again, each from the other one; which they were.

        Raises SweepError where both are damaged.
        """
        damages = self.damaged_files()
        for name, known in self.digests.items() if damages else ():
            # one of the two is whole, and is copied over the other
            whole = self._whole(name)
            for file in (self.path / name, self.path / COPY / name):
                if not is_whole(file, known):
                    remove(file, self.path)
                    _write(file, whole.read_bytes())
        if damages:
            # last, so that a kill before leaves the damage visible
            remove(self.path / DIGESTS, self.path)
            _write(self.path / DIGESTS, _signed(self.digests))
        return damages

    def _digests(self) -> dict[str, str]:
        try:
            content = (self.path / DIGESTS).read_bytes()
            digests = json.loads(content)["digests"]
            if content == _signed(digests) and all(map(_is_inside, digests)):
                return digests
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            pass_on_signals(error)
        copy = self.path / COPY  # the list is damaged: files that are equal to their copies make it again
        names = sorted(str(file.relative_to(copy)) for file in files_below(copy))
        digests = {name: digest_of(copy / name) for name in names}
        wrong = [name for name, known in digests.items() if not is_whole(self.path / name, known)]
        if "zarr.json" not in names:
            raise SweepError(_foreign(self.path))
        if wrong:
            raise SweepError(
                f"{self.path} cannot be repaired: {DIGESTS} and {shown(wrong[0])} are damaged; take both "
                "from a backup, or remove the store"
            )
        return digests

    def _whole(self, name: str) -> Path:
        """A file of the empty store, or its copy, which is as it was."""
        for file in (self.path / name, self.path / COPY / name):
            if is_whole(file, self.digests.get(name)):
                return file
        raise SweepError(
            f"{self.path} cannot be repaired: {name} and its copy in {COPY} are damaged; take both from a "
            "backup, or remove the store"
        )

    def _json(self, name: str) -> Any:
        whole = self._whole(name)
        try:
            return json.loads(whole.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):  # as it was written, by somebody
            raise SweepError(_foreign(self.path)) from None

    # -- files of chunks ------------------------------------------------------------------------------------

    def file(self, name: str, place: tuple[int, ...]) -> Path:
        """Where Zarr keeps a chunk of an array."""
        return self.path.joinpath(name, "c", *map(str, (*place, *(0,) * self._inner[name])))

    def files(self, place: tuple[int, ...]) -> list[Path]:
        """The files of a chunk of the sweep, one for each result."""
        return [self.file(name, place) for name in self.variables]

    def record(self, place: tuple[int, ...]) -> None:
        """Note the files of a chunk as they are now, when they are on the disk."""
        # first the files, then the record: after a loss of power a recorded chunk is whole
        to_disk(self.files(place))
        _write(self._recorded(place), self._digest(place).encode())

    def forget(self, place: tuple[int, ...]) -> None:
        """Take the record of a chunk away, so that its files may be changed."""
        remove(self._recorded(place), self.path)

    def clear(self, place: tuple[int, ...]) -> None:
        """Remove a chunk: it has not been run."""
        self.forget(place)
        for file in self.files(place):
            remove(file, self.path)

    def damage_of(self, place: tuple[int, ...]) -> Damage | None:
        """The damage of a chunk that was recorded; None if it is whole, or was not recorded."""
        while (record := self._record_of(place)) is not None:
            # the record is read before the files: a chunk that is written meanwhile is looked at again
            with suppress(OSError):
                if record == self._digest(place):
                    return None
            if record == self._record_of(place):  # and not written anew meanwhile
                where = ", ".join(f"{dim} {i}" for dim, i in zip(self.dims, place, strict=True))
                missing = next((file for file in self.files(place) if not file.is_file()), None)
                if missing is None:
                    return Damage(f"the chunk {where} {CHANGED}", place)
                return Damage(f"the chunk {where}: {self._state(missing)}", place)
        return None

    def is_recorded(self, place: tuple[int, ...]) -> bool:
        return self._record_of(place) is not None

    def _digest(self, place: tuple[int, ...]) -> str:
        """The digest of a chunk's files as they are, with their place: chunks cannot be exchanged."""
        return digest(*map(str, place), *map(digest_of, self.files(place)))

    def _state(self, file: Path) -> str:
        """In words, that a file of the store is not whole."""
        return f"{file.relative_to(self.path)} {state_of(file)}"

    def _recorded(self, place: tuple[int, ...]) -> Path:
        return self.path / RECORDED / ".".join(map(str, place))

    def _record_of(self, place: tuple[int, ...]) -> str | None:
        try:
            return self._recorded(place).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            return ""


@checked
def verify(store: str | os.PathLike[str]) -> list[Damage]:
    """Damages in the store of a sweep: files that were changed, exchanged or removed; [] if there are none.

        lb.sweep.verify("p.zarr")

    Everything that was recorded is read and compared with its SHA-256 digest. Nothing is changed.

    Raises SweepError where `store` is no store of a sweep, or too damaged to tell.
    """
    path = path_of("store", store, SweepError)
    with access(path, "read"):
        inventory = Inventory(path)
        return inventory.damaged_files() + [
            x for place in inventory.places() if (x := inventory.damage_of(place))
        ]


@checked
def repair(store: str | os.PathLike[str]) -> list[Damage]:
    """Undo damage of the store of a sweep; returns what `verify` found.

    Descriptions of arrays and values along axes come from their copies. Damaged chunks are removed: they
    count as not run (status 0), and the next call of `sweep` runs them. `sweep` itself does the same first.

    Raises SweepError as `verify` does, where a file and its copy are damaged, and while a sweep is running.
    """
    path = path_of("store", store, SweepError)
    with access(path, "repair"):
        # nobody else may write while chunks are removed
        inventory = Inventory(path)
        held = locked(path)
        if held is None:
            raise SweepError(f"another process sweeps into {path}; wait for its end")
        try:
            damages = verify(path)
            inventory.restore()
            for damage in damages:
                if damage.place is not None:
                    inventory.clear(damage.place)
        finally:
            os.close(held)
    return damages


@contextlib.contextmanager
def access(path: Path, what: str) -> Iterator[None]:
    """Errors of the system, while a store is read, repaired or written, as SweepErrors."""
    try:
        yield
    except OSError as error:
        pass_on_signals(error)
        raise SweepError(
            f"cannot {what} {path}: {error.strerror or error}; what was recorded before is kept, and the "
            "same call goes on from there"
        ) from error


def locked(folder: Path) -> int | None:
    """Hold a folder, as long as this process lives; None if another one does, or if it is gone.

    Where folders cannot be locked, on Windows, a file beside the folder is locked in its place.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if FOLDERS else os.O_RDWR | os.O_CREAT
    try:
        handle = os.open(folder if FOLDERS else lock_file(folder), flags)
    except OSError as error:
        pass_on_signals(error)
        return None
    try:
        # The lock belongs to the open folder. Looked at behind the lock: a folder that was renamed or removed
        # meanwhile is another one.
        if lock(handle) and (
            os.fstat(handle).st_ino == os.stat(folder).st_ino if FOLDERS else folder.is_dir()
        ):
            return handle
    except OSError as error:
        pass_on_signals(error)
    os.close(handle)
    return None


def lock_file(folder: Path) -> Path:
    """The file that stands for a folder where folders cannot be locked."""
    return folder.with_name(f".{folder.name}.lock")


def renamed(handle: int, old: Path, new: Path) -> int | None:
    """The lock of a folder after it was renamed; None if another process came first."""
    if FOLDERS:
        return handle
    following = locked(new)
    release(handle, old)
    return following


def release(handle: int, folder: Path) -> None:
    """End a lock of a folder that is not there any more."""
    os.close(handle)
    if not FOLDERS:
        lock_file(folder).unlink(missing_ok=True)


def files_below(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def to_disk(files: Iterable[Path]) -> None:
    """Wait until files are on the disk, so that a loss of power leaves them as a kill does."""
    for file in files:
        handle = os.open(file, os.O_RDONLY if FOLDERS else os.O_RDWR)  # Windows wants the right to write
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(path: Path, store: Path) -> None:
    """Remove a file or folder within a store, or a file that stands in place of one of its folders."""
    _check_inside(path, store)
    # a file may stand where a folder of the store should be: remove that file
    while not path.parent.is_dir() and path.parent != store:
        path = path.parent
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_inside(name: str) -> bool:
    """Whether a name leads to a file below a folder, and not elsewhere."""
    parts = name.split("/")
    return name.isprintable() and "\\" not in name and not {"", ".", ".."} & {*parts}


def _check_inside(path: Path, store: Path) -> None:
    """Raise SweepError for a path that links lead out of the store."""
    whole = os.path.realpath(store)
    if os.path.commonpath([whole, os.path.realpath(path.parent)]) != whole:
        raise SweepError(f"{path.parent} is a link that leads out of the store {store}; remove it")


def _check_definition(definition: dict[str, Any]) -> None:
    """Raise an error for a definition of a sweep that lacks entries needed for a comparison."""
    for axis in definition["axes"].values():
        math.prod(axis["shape"]), axis["range"][0], axis["range"][1], axis["digest"][:1]
    definition["parts"].items()


def _write(path: Path, content: bytes) -> None:
    """Write a file of a store; a kill leaves a file that ends in .partial, which the next sweep removes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, path.with_name(f"{path.name}.{secrets.token_hex(6)}.partial"), content)


def _signed(digests: dict[str, str]) -> bytes:
    return json.dumps({"digests": digests, "sha256": digest(*itertools.chain(*digests.items()))}).encode()


def _foreign(path: Path) -> str:
    return (
        f"{path} exists, and is not a store of a sweep ({FORMAT!r}, version {FORMAT_VERSION}); "
        "choose another name"
    )
