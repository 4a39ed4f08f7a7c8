"""The results of a sweep on disk: arrays of Zarr with named axes, each chunk whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.arguments import short
from ..base.errors import SweepError, known, pass_on_signals, warn
from ..base.texts import shown, words_of
from .inventory import (
    FORMAT,
    FORMAT_VERSION,
    Damage,
    Inventory,
    access,
    files_below,
    locked,
    release,
    renamed,
    to_disk,
)
from .space import Space, numbered

if TYPE_CHECKING:
    import xarray

REPORTED = 5  # damages that are named; the others are counted
ARRAY = "/zarr.json"  # how descriptions of arrays end
NOT_RUN, DONE, ENDED_EARLY, FAILED = range(4)
NOTHING = {"f": np.nan, "c": complex(np.nan, np.nan)}  # of kinds of numbers, where no chunk is; else zero
ABOUT: dict[str, dict[str, Any]] = {
    "cause": {"long_name": "why it ended early, or failed"},
    "status": {
        "long_name": "what became of it",
        "flag_values": [0, 1, 2, 3],
        "flag_meanings": "not_run done ended_early failed",
    },
}


@dataclass(frozen=True)
class Results:
    """Results of the members of a chunk.

    values  for each name (n, ...), where "cause" (text, "" if nothing happened) and "end_time" tell which
            members ended early, why and when
    dims    for each name the names of the axes within a member, if it has any
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


class DamagedStore(UserWarning):
    """Files of a store were not as they were written; they are made again."""


class WrongResults(SweepError):
    """Results that do not have the outputs asked for: no other chunk can have them either."""


Outcome = Results | Failure


class Store:
    """A store of a sweep at `path`, and which chunks are done; locked against other processes until `close`.

    It is made, whole and empty, when the first chunk has told names and shapes of the results. From then on a
    chunk that is recorded is on disk: its results first, and then its entries of `status`. A process that is
    killed leaves it recorded, or not begun.

    Raises SweepError where something else is at `path`, or a sweep of another definition, or another process.
    """

    def __init__(self, path: Path, space: Space, definition: Mapping[str, Any], units: Mapping[str, str]):
        self.path = path
        self.space = space
        self.units = units
        self.definition = json.loads(json.dumps(definition))
        self.waiting: dict[int, Outcome] = {}
        self.arrays: dict[str, Any] = {}
        self.inventory: Inventory | None = None
        self._lock: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            pass_on_signals(error)
            raise SweepError(f"cannot make the folder of {path}: {error.strerror}") from None
        try:
            with access(path, "read"):
                writable = os.access(path.parent, os.W_OK)
                if writable:
                    self._remove_unfinished()
                if path.exists() and not (path.is_dir() and not any(path.iterdir())):
                    self._open()
                elif not writable:
                    raise SweepError(f"cannot write into {path.parent}; choose another place for the store")
        except SweepError:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes have it."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def left(self) -> list[int]:
        """The chunks that are not done, or failed."""
        if not self.arrays:
            return list(range(len(self.space)))
        assert self.inventory is not None
        failed = self.failures()
        with access(self.path, "read"):
            recorded = map(self.inventory.is_recorded, self.space.places)
            return [k for k, done in enumerate(recorded) if not done or k in failed]

    def record(self, k: int, outcome: Outcome) -> None:
        """Record the results of chunk k, or why there are none.

        Raises SweepError where they cannot be written.
        """
        self.waiting[k] = outcome
        with access(self.path, "write into"):
            if not self.arrays:  # whoever comes first in time, the first that did not fail tells the shapes
                outcomes = map(self.waiting.get, range(len(self.space)))
                first = next((x for x in outcomes if not isinstance(x, Failure)), None)
                if first is None:
                    return
                self._create(first)
            for waiting in sorted(self.waiting):
                self._write(waiting, self.waiting.pop(waiting))

    def failures(self) -> dict[int, str]:
        """The chunks that failed, and why."""
        if not self.arrays:
            return {k: outcome.cause for k, outcome in self.waiting.items() if isinstance(outcome, Failure)}
        with access(self.path, "read"):
            status = self.arrays["status"][...]
            cause = self.arrays["cause"]
            regions = {k: self.space.region(k) for k in range(len(self.space))}
            failed = {k: region for k, region in regions.items() if (status[region] == FAILED).any()}
            return {k: shown(np.ravel(cause[region])[0], breaks=True) for k, region in failed.items()}

    # -- one chunk ------------------------------------------------------------------------------------------

    def _write(self, k: int, outcome: Outcome) -> None:
        assert self.inventory is not None
        place = self.space.places[k]
        region = self.space.region(k)
        shape = self.space.members(k)
        if isinstance(outcome, Results):
            outcome = self._misfit(outcome) or outcome
        # a failed chunk holds fill values, so that every recorded chunk has all files
        if isinstance(outcome, Failure):
            cause = np.full(shape, outcome.cause)
            status = np.full(shape, FAILED)
            values = {name: array.fill_value for name, array in self.arrays.items()}
        else:
            cause = np.reshape(outcome.values.get("cause", np.full(shape, "")), shape)
            status = np.where(cause == "", DONE, ENDED_EARLY)
            values = {
                name: np.reshape(x, (*shape, *self.arrays[name].shape[len(shape) :]))
                for name, x in outcome.values.items()
            }
        # no record while the files change: a kill leaves the chunk as not run
        self.inventory.forget(place)
        for name, block in {**values, "cause": cause, "status": status.astype(np.uint8)}.items():
            self.arrays[name][region] = block
        self.inventory.record(place)

    def _misfit(self, found: Results) -> Failure | None:
        """Why results do not fit into the arrays, None if they do."""
        expected = set(self.arrays) - {"status", "cause"}
        if set(found.values) - {"cause"} != expected:
            return Failure(
                f"the results are {sorted(found.values)}, those of the first chunk {sorted(expected)}"
            )
        # shapes of members as in the first chunk, and types that fit without loss
        for name in expected:
            array = self.arrays[name]
            value = found.values[name]
            inner = array.shape[len(self.space.dims) :]
            if value.shape[1:] != inner:
                return Failure(
                    f"{name} has shape {value.shape[1:]} for each member, and in the first chunk {inner}"
                )
            if not np.can_cast(value.dtype, array.dtype, "safe"):
                return Failure(f"{name} is of type {value.dtype}, and in the first chunk of {array.dtype}")
        return None

    # -- the whole ------------------------------------------------------------------------------------------

    def _create(self, first: Results) -> None:
        """Make it under another name, and rename it."""
        own_axes = {name: ((name,), values) for name, values in first.coords.items()}
        coordinates = {**own_axes, **self.space.coordinates}
        for name in first.values.keys() & {*coordinates, *self.space.dims}:
            what = "values along an axis" if name in first.coords else "a parameter"
            raise SweepError(f"{name!r} is {what}, and a result too; give the result another name")
        for name in {*first.values, *coordinates, *self.space.dims}:
            _check_name(name)
        self._check_units([*coordinates, *first.values])
        # complete under another name, on the disk, then renamed: no other process sees half a store
        while self._lock is None:  # another process may remove it before it is locked
            fresh = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.new")
            fresh.mkdir()
            self._lock = locked(fresh)
        self._make(fresh, first, coordinates)
        Inventory.begin(fresh)
        to_disk(files_below(fresh))
        try:
            os.rename(fresh, self.path)
        except OSError as error:
            pass_on_signals(error)
            shutil.rmtree(fresh)
            release(self._lock, fresh)
            self._lock = None
            raise SweepError(
                f"cannot make {self.path}: {error.strerror}; another sweep made it meanwhile"
            ) from None
        self._lock = renamed(self._lock, fresh, self.path)
        if self._lock is None:
            raise SweepError(f"another process sweeps into {self.path}; wait for its end")
        self._read()

    def _make(self, path: Path, first: Results, coordinates: Mapping[str, Any]) -> None:
        """Make an empty store for results like the first ones."""
        import zarr
        from zarr.codecs import Crc32cCodec, ZstdCodec

        variables = {**first.values, "cause": np.array([""]), "status": np.zeros(1, np.uint8)}
        about: dict[str, Any] = {
            "title": f"Sweep of {self.definition['run']}",
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "definition": json.dumps(self.definition),
            "variables": json.dumps([*variables]),
            "coordinates": " ".join(name for name in coordinates if name not in self.space.dims),
        }
        group = zarr.create_group(str(path), zarr_format=3, attributes=about)
        # parameters are one chunk each, results are cut into the boxes of the sweep
        arrays = {name: (dims, x.shape, x.shape, x) for name, (dims, x) in coordinates.items()}
        for name, values in variables.items():
            inner = values.shape[1:]
            dims = (*self.space.dims, *first.dims.get(name, numbered(name, len(inner))))
            arrays[name] = dims, (*self.space.shape, *inner), (*self.space.box, *inner), values
        for name, (dims, shape, chunk, values) in arrays.items():
            kind: Any = "string" if values.dtype.kind in "UTO" else values.dtype
            unit = self.units.get(name, first.units.get(name))
            array = group.create_array(
                name,
                shape=shape,
                chunks=tuple(max(1, n) for n in chunk),
                dtype=kind,
                fill_value="" if kind == "string" else NOTHING.get(kind.kind, kind.type(0)),
                compressors=[ZstdCodec(level=0), Crc32cCodec()],  # who reads it notices damage
                dimension_names=list(dims),
                attributes=ABOUT.get(name) or ({} if unit is None else {"units": unit}),
            )
            if name in coordinates:
                array[...] = values

    def _check_units(self, names: Sequence[str]) -> None:
        """Raise SweepError for units of names that are neither a parameter nor a result."""
        names = [name for name in names if name not in ABOUT]
        for name in self.units:
            if name not in names:
                raise SweepError(f"units has {name!r}, which is no parameter or result; {known(names, name)}")

    def _open(self) -> None:
        inventory = Inventory(self.path)
        # the same sweep, and nobody else at it
        changes = list(_changes(inventory.definition, self.definition))
        if changes:
            raise SweepError(
                f"{self.path} holds another sweep: {'; '.join(changes)}. Continue with what it was begun "
                "with, or choose another name"
            )
        self._check_units([x.removesuffix(ARRAY) for x in inventory.digests if x.endswith(ARRAY)])
        self._lock = locked(self.path)
        if self._lock is None:
            raise SweepError(f"another process sweeps into {self.path}; wait for its end")
        for remains in self.path.rglob("*.partial"):  # of a write that was killed
            remains.unlink()
        # files of the whole store come from their copies, damaged and half-written chunks are removed
        damages = inventory.restore()
        # chunks are compared with their records, one after the other
        for k, place in enumerate(self.space.places):
            damage = inventory.damage_of(place)
            if damage:
                damages.append(Damage(f"{damage.what} ({self.space.words(k)})", place))
            if damage or not inventory.is_recorded(place):
                inventory.clear(place)
        if damages:
            words = "; ".join(damage.what for damage in damages[:REPORTED])
            more = f"; and {len(damages) - REPORTED} more" if len(damages) > REPORTED else ""
            warn(
                f"{self.path} was damaged: {words}{more}. Files were taken from their copies, and chunks are "
                "run again",
                DamagedStore,
            )
        self._read()

    def _read(self) -> None:
        import zarr

        self.inventory = Inventory(self.path)
        with zarr.config.set({"array.write_empty_chunks": True}):  # a file that is missing is damage
            try:
                group = zarr.open_group(str(self.path), mode="r+", zarr_format=3)
                self.arrays = {name: group[name] for name in self.inventory.variables}
            except OSError:
                raise
            except Exception as error:  # of Zarr, on descriptions that somebody wrote
                pass_on_signals(error)
                raise SweepError(f"{self.path} cannot be read as a store: {words_of(error)}") from error

    def _remove_unfinished(self) -> None:
        """Remove unfinished stores of processes that were killed while they made them."""
        ours = re.compile(rf"\.{re.escape(self.path.name)}\.[0-9a-f]{{12}}\.new").fullmatch
        for folder in [
            folder for folder in self.path.parent.iterdir() if ours(folder.name) and not folder.is_symlink()
        ]:
            lock = locked(folder)
            if lock is not None:
                shutil.rmtree(folder)
                release(lock, folder)


def open_store(path: Path) -> xarray.Dataset:
    """The store as a Dataset, whose values are read when they are needed."""
    import xarray

    with access(path, "read"):
        stored = xarray.open_zarr(path, consolidated=False, chunks=None)
        parts = dict(stored.variables)
        for name, variable in stored.variables.items():
            if variable.dtype.kind in "TO":
                # Texts as objects: `Dataset.where` and `to_netcdf` know no strings of NumPy. Versions of
                # xarray differ in where they say that values are such strings: in type or encoding.
                texts = np.asarray(variable.values).astype(object)
                parts[name] = xarray.Variable(variable.dims, texts, variable.attrs)
    variables = {name: parts[name] for name in json.loads(stored.attrs["variables"])}
    return xarray.Dataset(variables, {name: parts[name] for name in stored.coords}, stored.attrs)


def definition(
    run: str, parts: Mapping[str, str], space: Space, outputs: Mapping[str, Any] | None, **rest: Any
) -> dict[str, Any]:
    """The definition of a sweep: two sweeps with one definition are the same."""
    axes = {}
    for name, (dims, values) in space.coordinates.items():
        # values enter by their bits: a sweep over other values is another sweep
        data = values.tolist() if values.dtype.kind == "U" else [str(values.dtype), values.tobytes().hex()]
        axes[name] = {
            "dims": list(dims),
            "shape": list(values.shape),
            "range": [str(values.flat[0]), str(values.flat[-1])],
            "digest": hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16],
        }
    wanted = None if outputs is None else {name: list(dims) for name, dims in outputs.items()}
    return {
        "run": run,
        "parts": dict(parts),
        "axes": axes,
        "order": list(space.dims),
        "chunk": dict(zip(space.dims, space.box, strict=True)),
        "outputs": wanted,
        **rest,
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """In words, what differs between two definitions."""
    # axes and parts by their names, then all other entries
    for name in {**old["axes"], **new["axes"]}:
        was = old["axes"].get(name)
        now = new["axes"].get(name)
        name = shown(name)
        if was is None or now is None:
            yield f"parameter {name} {'is new' if was is None else 'is missing'}"
        elif was != now:
            yield f"parameter {name} was {_range(was)}, now {_range(now)}"
    for name in {**old["parts"], **new["parts"]}:
        was = old["parts"].get(name)
        now = new["parts"].get(name)
        if was != now:
            what = "is new" if was is None else "is missing" if now is None else "has changed"
            yield f"{shown(name) if name != 'run' else new['run']} {what}"
    for name in {**old, **new}:
        if name not in ("axes", "parts") and old.get(name) != new.get(name):
            yield f"{shown(name)} was {short(old.get(name))}, now {short(new.get(name))}"


def _range(axis: Mapping[str, Any]) -> str:
    count = math.prod(axis["shape"])
    first, last, digest = map(shown, (*axis["range"][:2], axis["digest"][:6]))
    return f"{count} values from {first} to {last} ({digest})"


def _check_name(name: str) -> None:
    """Raise SweepError for names that are none of a folder in the store."""
    if (
        not name.isprintable()
        or not name
        or name.startswith((".", "__"))
        or name == "zarr.json"
        or re.search(r"[/\\]", name)
    ):
        raise SweepError(
            f"{name!r} cannot be the name of a parameter, result or axis: each is a folder of the store. "
            "Use letters, digits and _"
        )
