"""Names for the parts of a flat array: memory and parameters of systems."""

from __future__ import annotations

import copy
import keyword
import math
import re
from collections import namedtuple
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from ...base.arguments import floats, wrong_shape
from ...base.concurrency import Sendable, cached_property
from ...base.errors import ModelError, ShapeError, UnknownName, known
from ...scalars import Array, Table
from ...scalars.tables import table_at, tables_of

Check = Callable[[np.ndarray], np.ndarray]
NONE: Mapping[str, Check] = {}


class Named(Mapping[str, Any]):
    """Values that are read by name, and not set."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class FlatLayout(Sendable):
    """Names for the parts of a flat array, given by their default values: an entry or an array each.

    A name is a word, or an owner, a dot and a word: "wrist_3_link.mass". `fields` are the names in the tuples
    that `read` returns, with underscores for all signs but letters and digits: `p.wrist_3_link_mass`.
    `checks` are functions of values (..., *shape), which raise errors for impossible values. Parts in
    `needed` may have NaN by default, which means no value.

    A default that is a `Table` stays in memory: the flat array holds its address, one number for a table of
    any size. `read` gives the address, `named` the values. Whoever keeps a flat array keeps its tables, too.
    """

    def __init__(
        self,
        kind: str,
        defaults: Mapping[str, Any],
        checks: Mapping[str, Check] = NONE,
        needed: Collection[str] = (),
    ) -> None:
        for name in defaults:
            # the last word names a field of a tuple; an owner before the dot may be any text, as names in
            # files are
            if not re.fullmatch(r"[A-Za-z]\w*|.+\.[A-Za-z]\w*", name) or not name.isprintable():
                raise ModelError(f"{kind} {name!r} must be called by a word: letters, digits, underscores")
        self.kind = kind
        self.checks = dict(checks)
        self.needed = needed
        self.defaults: dict[str, Any] = {
            name: value
            if isinstance(value, Table)
            else floats(f"{kind} {name}", value, finite=name not in needed)
            for name, value in defaults.items()
        }
        self.tables = {name for name, value in self.defaults.items() if isinstance(value, Table)}
        self._constant: set[str] = set()  # tables that `read` gives themselves
        self._shapes = {name: () if name in self.tables else x.shape for name, x in self.defaults.items()}
        self.size = sum(map(math.prod, self._shapes.values()))
        self.fields = {name: word_of(name) for name in self.defaults}
        if len(set(self.fields.values())) < len(self.fields):
            raise ModelError(
                f"two of the {kind}s {', '.join(self.fields)} are one word without their dots; rename one"
            )

    @property
    def entries(self) -> dict[str, str]:
        """The names of all entries of the flat array, such as gravity[2], and the part of each."""
        return {
            f"{name}{list(place) or ''}": name
            for name, shape in self._shapes.items()
            for place in np.ndindex(shape)
        }

    @cached_property
    def type(self) -> Any:
        """The class of named tuples that `read` returns."""
        kind = self.kind
        fields = list(self.fields.values())

        def unknown(parts: Any, name: str) -> NoReturn:
            raise UnknownName(f"there is no {kind} {name!r} that has a value; {known(fields, name)}")

        return type(kind, (namedtuple(kind, fields),), {"__slots__": (), "__getattr__": unknown})

    @cached_property
    def places(self) -> dict[str, slice]:
        """The slices of the flat array that hold the parts."""
        ends = np.cumsum([0, *map(math.prod, self._shapes.values())]).tolist()
        return {name: slice(a, b) for name, (a, b) in zip(self.defaults, pairwise(ends), strict=True)}

    def read(self, flat: Array) -> Any:
        """The parts of flat (..., size), by their names; of tables the addresses."""
        shapes = self._shapes.values()
        flat_parts = [flat[..., at] for at in self.places.values()]
        parts = [x.reshape((*x.shape[:-1], *s))[()] for x, s in zip(flat_parts, shapes, strict=True)]
        if self._constant:
            for k, name in enumerate(self.defaults):
                parts[k] = self.defaults[name] if name in self._constant else parts[k]
        return self.type(*parts)

    def with_constant_tables(self) -> FlatLayout:
        """A layout that reads its tables as constants, the defaults; in flat arrays they are zero."""
        other = copy.copy(self)
        other.tables = set()
        other._constant = self._constant | self.tables
        for name in ("_flat_defaults", "addresses"):
            vars(other).pop(name, None)
        return other

    def named(self, flat: Array) -> dict[str, Any]:
        """The parts of flat (..., size), by their full names; of tables the values, (..., *shape)."""
        parts = dict(zip(self.defaults, self.read(flat), strict=True))
        return {name: _values_at(x) if name in self.tables else x for name, x in parts.items()}

    def write(self, parts: Any) -> Array:
        """The flat array of the parts."""
        flat = [np.reshape(np.asarray(part), -1) for part in parts]
        return np.concatenate([np.zeros(0, int), *flat])

    @cached_property
    def _flat_defaults(self) -> np.ndarray:
        """The defaults (size,), with zeros in the place of addresses."""
        parts = (0.0 if isinstance(x, Table) else x for name, x in self.defaults.items())
        return np.asarray(self.write(parts), float)

    def values(self, given: Mapping[str, Any], batch: tuple[int, ...], *behind: float) -> Array:
        """Flat values (*batch, size): defaults, or what is given instead, (*batch, *shape) or `shape`.

        behind  further numbers behind them, the same in the whole batch
        """
        # Parts that are given are broadcast to the ensemble, and become columns of the flat array.
        self.check(given)
        # All members start from the defaults; a part that is given overwrites its columns
        flat = np.empty((*batch, self.size + len(behind)))
        flat[..., : self.size] = self._flat_defaults
        flat[..., self.size :] = behind
        for name, default in self.defaults.items():
            if name in self.tables:
                # Addresses hold in this process alone, so they are asked for in each call.
                addresses = self._addresses(name, given.get(name, default), batch)
                flat[..., self.places[name]] = addresses[..., None]
                continue
            if name not in given:
                continue
            value = floats(f"{self.kind} {name}", given[name], finite=name not in self.needed)
            wanted = (*batch, *default.shape)
            if value.shape != wanted:
                try:
                    value = np.broadcast_to(value, wanted)
                except ValueError:
                    expected = f"{default.shape}, or {wanted} for each member of the ensemble"
                    raise wrong_shape(f"{self.kind} {name}", value.shape, expected) from None
            if name in self.checks:
                value = self.checks[name](value)
            flat[..., self.places[name]] = value.reshape(*batch, default.size)
        return flat

    @cached_property
    def addresses(self) -> list[int]:
        """The entries of the flat array that are addresses of tables."""
        return [at.start for name, at in self.places.items() if name in self.tables]

    def tables_in(self, flat: Array) -> np.ndarray:
        """The tables whose addresses stand in flat (n, size): objects (n, tables)."""
        if not self.addresses:
            return np.empty((len(flat), 0), object)
        tables: np.ndarray = np.frompyfunc(table_at, 1, 1)(flat[:, self.addresses])
        return tables

    def with_tables(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values in which tables are an array (*batch) of `Table`, made of numbers (*batch, *shape)."""
        return {name: self._as_tables(name, x) if name in self.tables else x for name, x in given.items()}

    def _as_tables(self, name: str, value: Any) -> Any:
        shape = self.defaults[name].shape
        if isinstance(value, Table) or _are_tables(value):
            tables = np.asarray(value, object)
        else:
            numbers = floats(f"{self.kind} {name}", value)
            axes = numbers.ndim - len(shape)
            if axes < 0 or numbers.shape[axes:] != shape:
                expected = f"{shape}, or (..., {', '.join(map(str, shape))}) for each member of the ensemble"
                raise wrong_shape(f"{self.kind} {name}", numbers.shape, expected)
            tables = tables_of(numbers, axes)
        for table in tables.flat:
            if table.shape != shape:
                raise wrong_shape(f"{self.kind} {name}: a table", table.shape, shape)
        return tables

    def _addresses(self, name: str, value: Any, batch: tuple[int, ...]) -> np.ndarray:
        """The addresses of tables for the members of an ensemble."""
        if not (isinstance(value, Table) or _are_tables(value)):
            raise ModelError(
                f"{self.kind} {name} is a table in memory, which somebody has to keep: give a "
                f"liebody.scalars.Table instead of {type(value).__name__}"
            )
        addresses = np.frompyfunc(lambda table: table.address, 1, 1)(np.asarray(value, object))
        try:
            return np.broadcast_to(np.asarray(addresses, float), batch)
        except ValueError:
            expected = f"a table, or {batch} of them, one for each member of the ensemble"
            raise wrong_shape(f"{self.kind} {name}", np.shape(addresses), expected) from None

    def check(self, names: Mapping[str, Any]) -> None:
        """Raise ModelError for a name that is not there, or that is constant."""
        for name in names:
            if name in self._constant:
                raise ModelError(
                    f"{self.kind} {name} is a constant table of this system, the same for all members; "
                    "leave it out, and build the system with its values"
                )
            if name not in self.defaults:
                there = known(self.defaults, name) if self.defaults else "there are none"
                raise ModelError(f"there is no {self.kind} {name!r}; {there}")

    def batches(self, given: Mapping[str, Any], own: int = 0) -> dict[str, tuple[int, ...]]:
        """The axes of the ensemble in each value; the last `own` of the leading axes do not belong to it."""
        axes = {}
        for name, value in given.items():
            if name in self.defaults:
                tables = name in self.tables and _are_tables(value)
                # axes in front of the part's own shape: an array of tables has these axes alone
                extra = np.ndim(value) - (0 if tables else self.defaults[name].ndim) - own
                axes[name] = np.shape(value)[: max(0, extra)]
        return axes


def _are_tables(value: Any) -> bool:
    """Whether this is an array, or a list, of tables."""
    if isinstance(value, (list, tuple)):
        return all(isinstance(x, Table) or _are_tables(x) for x in value)
    return (
        isinstance(value, np.ndarray) and value.dtype == object and isinstance(next(value.flat, None), Table)
    )


def _values_at(addresses: Array) -> np.ndarray:
    """The values of the tables at addresses (...): (..., *shape); one that all share is not copied."""
    # members often share a table: each one is read once
    different, which = np.unique(np.asarray(addresses, float), return_inverse=True)
    tables = [table_at(address).values for address in different]
    if len(tables) == 1:
        return np.broadcast_to(tables[0], (*np.shape(addresses), *tables[0].shape))
    values = np.stack([tables[k] for k in which.ravel()])
    return values.reshape(*np.shape(addresses), *tables[0].shape)


def ensemble_of(batches: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The axes of the ensemble, to which the leading axes of all values broadcast; raises ShapeError."""
    try:
        return np.broadcast_shapes(*batches.values())
    except ValueError:
        differ = " and ".join(f"{name} {axes}" for name, axes in batches.items() if axes)
        raise ShapeError(
            f"the leading axes of {differ} differ; make the ensembles equal, and declare arrays of your own, "
            "which have axes of theirs, by with_parameters({'K': array})"
        ) from None


def word_of(name: str) -> str:
    """The name of a part as a field of named tuples."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if re.match("[A-Za-z]", word) and not keyword.iskeyword(word) else f"p_{word}"
