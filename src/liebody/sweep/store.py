"""The results of a sweep on disk: arrays of Zarr with named axes, each chunk whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SweepError
from .space import Space

if TYPE_CHECKING:
    import xarray

FORMAT = "liebody sweep"
FORMAT_VERSION = 1
NOT_RUN, DONE, ENDED_EARLY, FAILED = range(4)
FLAGS = {"flag_values": [0, 1, 2, 3], "flag_meanings": "not_run done ended_early failed"}


@dataclass(frozen=True)
class Results:
    """What the members of a chunk give.

    values  for each name (n, ...), where "cause" (text, "" if nothing happened) and "end_time" tell which
            members ended early, why and when
    dims    for each name the names of its own axes, if they have any
    coords  the values along these axes
    units   of values
    """

    values: Mapping[str, np.ndarray]
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coords: Mapping[str, np.ndarray] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why there are no results of a chunk; `hopeless` if there cannot be any of others either."""

    cause: str
    traceback: str = ""
    hopeless: bool = False


class WrongResults(SweepError):
    """Results of which one chunk is enough to know that they are not what was asked for."""


Outcome = Results | Failure


class Store:
    """A store of a sweep at `path`, and what of it is done; held against other processes until it is closed.

    It is made, whole and empty, when the first chunk has told names and shapes of the results. From then on a
    chunk that is recorded is on disk: its results first, and then its entries of `status`. A process that is
    killed leaves it recorded, or not begun.

    Raises SweepError where something else is at `path`, or a sweep of another definition, or another process.
    """

    def __init__(self, path: Path, space: Space, definition: Mapping[str, Any], units: Mapping[str, str]):
        self.path, self.space, self.units = path, space, units
        self.definition = json.loads(json.dumps(definition))
        self.waiting: dict[int, Outcome] = {}
        self.arrays: dict[str, Any] = {}
        self._lock: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SweepError(f"cannot make the folder of {path}: {error.strerror}") from None
        if not os.access(path.parent, os.W_OK):
            raise SweepError(f"cannot write into {path.parent}")
        self._remove_unfinished()
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            self._open()

    def close(self) -> None:
        """Let other processes have it."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def left(self) -> list[int]:
        """The chunks that are not done, or failed."""
        if not self.arrays:
            return list(range(len(self.space)))
        status = self.arrays["status"][...]
        undone = (status == NOT_RUN) | (status == FAILED)
        return [k for k in range(len(self.space)) if undone[self.space.region(k)].any()]

    def record(self, k: int, outcome: Outcome) -> None:
        """Record the results of chunk k, or why there are none."""
        if self.arrays:
            self._write(k, outcome)
            return
        self.waiting[k] = outcome
        for first in range(len(self.space)):  # whoever comes first in time, the first of all tells the shapes
            found = self.waiting.get(first)
            if isinstance(found, Results):
                self._create(found)
                for waiting in sorted(self.waiting):
                    self._write(waiting, self.waiting[waiting])
                self.waiting.clear()
                return
            if found is None:
                return

    def failures(self) -> dict[int, str]:
        """The chunks that failed, and why."""
        if not self.arrays:
            return {k: found.cause for k, found in self.waiting.items() if isinstance(found, Failure)}
        status, found = self.arrays["status"][...], {}
        for k in range(len(self.space)):
            region = self.space.region(k)
            if (status[region] == FAILED).any():
                found[k] = str(np.ravel(self.arrays["cause"][region])[0])
        return found

    # -- one chunk ------------------------------------------------------------------------------------------

    def _write(self, k: int, outcome: Outcome) -> None:
        region, shape = self.space.region(k), self.space.members(k)
        if isinstance(outcome, Results):
            outcome = self._misfit(outcome) or outcome
        values: dict[str, Any]
        if isinstance(outcome, Failure):
            values = dict.fromkeys(self.arrays)
            cause, status = np.full(shape, outcome.cause), np.full(shape, FAILED, np.uint8)
        else:
            values = dict(outcome.values)
            cause = np.asarray(values.get("cause", np.full(shape, ""))).reshape(shape)
            status = np.where(cause == "", DONE, ENDED_EARLY).astype(np.uint8)
        values |= {"cause": cause}
        values.pop("status", None)
        for name, block in values.items():
            array = self.arrays[name]
            own = array.shape[len(shape) :]
            array[region] = array.fill_value if block is None else np.reshape(block, (*shape, *own))
        _to_disk(self._file(name, k) for name in values)
        self.arrays["status"][region] = status
        _to_disk([self._file("status", k)])

    def _misfit(self, found: Results) -> Failure | None:
        """Why results do not fit into the arrays, None if they do."""
        expected = set(self.arrays) - {"status", "cause"}
        if set(found.values) - {"cause"} != expected:
            return Failure(
                f"the results are {sorted(found.values)}, those of the first chunk {sorted(expected)}"
            )
        for name in expected:
            array, value = self.arrays[name], found.values[name]
            own = array.shape[len(self.space.dims) :]
            if value.shape[1:] != own:
                return Failure(
                    f"{name} has shape {value.shape[1:]} for each member, and in the first chunk {own}"
                )
            if not np.can_cast(value.dtype, array.dtype, "safe"):
                return Failure(f"{name} is of type {value.dtype}, and in the first chunk of {array.dtype}")
        return None

    def _file(self, name: str, k: int) -> Path:
        inner = self.arrays[name].ndim - len(self.space.dims)
        return self.path.joinpath(name, "c", *map(str, (*self.space.place(k), *(0,) * inner)))

    # -- the whole ------------------------------------------------------------------------------------------

    def _create(self, first: Results) -> None:
        """Make it under another name, and rename it."""
        import zarr

        for name in first.values:
            if name in self.space.coordinates or name in self.space.dims:
                raise SweepError(f"{name!r} is a parameter, and a result too; give the result another name")
        made = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.new")
        made.mkdir()
        self._lock = _lock(made)
        assert self._lock is not None
        own_axes = {name: ((name,), values) for name, values in first.coords.items()}
        coordinates = {**own_axes, **self.space.coordinates}
        variables = [*first.values, *({"cause"} - set(first.values)), "status"]
        about: dict[str, Any] = {
            "title": f"Sweep of {self.definition['run']}",
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "definition": json.dumps(self.definition),
            "variables": json.dumps(variables),
            "coordinates": " ".join(name for name in coordinates if name not in self.space.dims),
        }
        group = zarr.create_group(str(made), zarr_format=3, attributes=about)
        for name, (dims, values) in coordinates.items():
            made_of = (values.shape, values.shape, _kind(values), self._about(name, first.units))
            _array(group, name, dims, *made_of)[...] = values
        for name in variables:
            about = self._about(name, first.units)
            kind: Any = "string" if name == "cause" else np.dtype(np.uint8)
            own: tuple[int, ...] = ()
            if name == "status":
                about = {"long_name": "what became of it", **FLAGS}
            elif name == "cause":
                about = {"long_name": "why it ended early, or failed"}
            else:
                kind, own = _kind(first.values[name]), first.values[name].shape[1:]
            dims = (*self.space.dims, *_own_dims(first, name, own))
            _array(group, name, dims, (*self.space.shape, *own), (*self.space.box, *own), kind, about)
        _to_disk(file for file in made.rglob("*"))
        try:
            os.rename(made, self.path)
        except OSError as error:
            shutil.rmtree(made)
            raise SweepError(
                f"cannot make {self.path}: {error.strerror}; another sweep made it meanwhile"
            ) from None
        self._read(variables)

    def _about(self, name: str, units: Mapping[str, str]) -> dict[str, Any]:
        unit = self.units.get(name, units.get(name))
        return {} if unit is None else {"units": unit}

    def _open(self) -> None:
        about = self._attributes()
        if about.get("format") != FORMAT or about.get("format_version") != FORMAT_VERSION:
            raise SweepError(
                f"{self.path} exists, and is not a store of a sweep ({FORMAT!r}, version {FORMAT_VERSION}); "
                "choose another name"
            )
        changes = list(_changes(json.loads(about["definition"]), self.definition))
        if changes:
            raise SweepError(
                f"{self.path} holds another sweep: {'; '.join(changes)}. Continue with what it was begun "
                "with, or choose another name"
            )
        self._lock = _lock(self.path)
        if self._lock is None:
            raise SweepError(f"another process sweeps into {self.path}; wait for its end")
        for remains in self.path.rglob("*.partial"):  # of a write that was killed
            remains.unlink()
        self._read(json.loads(about["variables"]))

    def _attributes(self) -> dict[str, Any]:
        try:
            return json.loads((self.path / "zarr.json").read_text())["attributes"]
        except (OSError, ValueError, KeyError):
            return {}

    def _read(self, variables: Iterable[str]) -> None:
        import zarr

        group = zarr.open_group(str(self.path), mode="r+", zarr_format=3)
        self.arrays = {name: group[name] for name in variables}

    def _remove_unfinished(self) -> None:
        """Remove what processes left that were killed when they made the store."""
        for folder in self.path.parent.glob(f".{self.path.name}.*.new"):
            lock = _lock(folder)
            if lock is not None:
                shutil.rmtree(folder)
                os.close(lock)


def open_store(path: Path) -> xarray.Dataset:
    """The store as a Dataset, whose values are read when they are needed."""
    import xarray

    found = xarray.open_zarr(path, consolidated=False, chunks=None)
    parts = {  # texts as objects, because `Dataset.where` knows no strings of NumPy
        name: variable.astype(object) if variable.dtype.kind == "T" else variable
        for name, variable in found.variables.items()
    }
    variables = {name: parts[name] for name in json.loads(found.attrs["variables"])}
    return xarray.Dataset(variables, {name: parts[name] for name in found.coords}, found.attrs)


def definition(
    run: str, parts: Mapping[str, str], space: Space, outputs: Mapping[str, Any] | None, **rest: Any
) -> dict[str, Any]:
    """What makes a sweep the same sweep."""
    axes = {}
    for name, (dims, values) in space.coordinates.items():
        data = values.tolist() if values.dtype.kind == "U" else [str(values.dtype), values.tobytes().hex()]
        axes[name] = {
            "dims": list(dims),
            "shape": list(values.shape),
            "range": [str(values.flat[0]), str(values.flat[-1])],
            "digest": hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16],
        }
    wanted = None if outputs is None else {name: list(dims) for name, dims in outputs.items()}
    chunk = dict(zip(space.dims, space.box, strict=True))
    order = list(space.dims)
    return {
        "run": run,
        "parts": dict(parts),
        "axes": axes,
        "order": order,
        "chunk": chunk,
        "outputs": wanted,
        **rest,
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """In words, what differs between two definitions."""
    for name in {**old["axes"], **new["axes"]}:
        was, now = old["axes"].get(name), new["axes"].get(name)
        if was is None or now is None:
            yield f"parameter {name} {'is new' if was is None else 'is missing'}"
        elif was != now:
            yield f"parameter {name} was {_range(was)}, now {_range(now)}"
    for name in {**old["parts"], **new["parts"]}:
        was, now = old["parts"].get(name), new["parts"].get(name)
        if was != now:
            what = "is new" if was is None else "is missing" if now is None else "has changed"
            yield f"{name if name != 'run' else new['run']} {what}"
    for name in {**old, **new}:
        if name not in ("axes", "parts") and old.get(name) != new.get(name):
            yield f"{name} was {old.get(name)!r}, now {new.get(name)!r}"


def _range(axis: Mapping[str, Any]) -> str:
    count = math.prod(axis["shape"])
    return f"{count} values from {axis['range'][0]} to {axis['range'][1]} ({axis['digest'][:6]})"


def _array(
    group: Any,
    name: str,
    dims: Iterable[str],
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    kind: Any,
    about: Mapping[str, Any],
) -> Any:
    nothing: dict[str, Any] = {"f": np.nan, "c": complex(np.nan, np.nan)}
    return group.create_array(
        name,
        shape=shape,
        chunks=tuple(max(1, n) for n in chunk),
        dtype=kind,
        fill_value="" if kind == "string" else nothing.get(kind.kind, kind.type(0)),
        dimension_names=list(dims),
        attributes=dict(about),
    )


def _kind(values: np.ndarray) -> Any:
    """The type of an array of values in the store."""
    return "string" if values.dtype.kind in "UTO" else values.dtype


def _own_dims(found: Results, name: str, own: tuple[int, ...]) -> tuple[str, ...]:
    named = found.dims.get(name)
    return tuple(f"{name}_{k + 1}" for k in range(len(own))) if named is None else tuple(named)


def _lock(folder: Path) -> int | None:
    """Hold a folder, as long as this process lives; None if another one does."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _to_disk(files: Iterable[Path]) -> None:
    """Wait until files are on the disk, so that a loss of power leaves them as a kill does."""
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # a chunk of nothing but NaN, which has no file
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
