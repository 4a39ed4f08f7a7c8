"""Tables: numbers in memory, which traced functions read at a place that they compute.

A graph has one node for a look-up, whatever the size of the table. A table that is known while tracing
becomes constant data of the generated text. A table that is a parameter of a simulation stays where it is:
the flat parameters hold its `address`, so that each member may have its own table.
"""

from __future__ import annotations

import hashlib
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..base.arguments import floats
from ..base.concurrency import cached_property
from ..base.errors import ModelError
from .elementary import Array


class Table:
    """Numbers in memory, in any shape. It is immutable: it holds a copy of the values.

    values   array of floats, read-only; `flat` has them in one row, in the order of C
    address  where the values begin in memory, as a float: exact, because programs have less than 2^53 bytes

    Tables of equal numbers are equal, whatever their shapes. Errors: ConfigurationError for values that are
    not finite, ModelError for none.
    """

    def __init__(self, values: Array) -> None:
        array = floats("values of a table", values)
        if not array.size:
            raise ModelError(f"a table of shape {array.shape} has no values; give one or more")
        memory = _rows(array, 1)
        self._at(memory[0], array.shape, memory.ctypes.data)

    def _at(self, row: np.ndarray, shape: tuple[int, ...], begin: int) -> None:
        self.flat = row[1:]
        self.values = self.flat.reshape(shape)
        self.address = float(begin + row.itemsize)
        _at_address[self.address] = self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def size(self) -> int:
        return self.values.size

    @cached_property
    def name(self) -> str:
        """A name by its numbers, for generated text."""
        return f"table_{hashlib.blake2b(self.flat.tobytes(), digest_size=8).hexdigest()}"

    def __eq__(self, other: object) -> bool:
        return type(other) is Table and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __deepcopy__(self, memo: Any) -> Table:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.values,)

    def __repr__(self) -> str:
        return f"Table({self.name}, {self.shape})"


_at_address: WeakValueDictionary[float, Table] = WeakValueDictionary()


def _rows(values: np.ndarray, count: int) -> np.ndarray:
    """Memory for tables, a row for each: its last index, which C reads, and its values."""
    rows = np.empty((count, values.size // count + 1))
    rows[:, 0] = rows.shape[1] - 2
    rows[:, 1:] = values.reshape(count, -1)
    rows.flags.writeable = False
    return rows


def tables_of(values: np.ndarray, axes: int) -> np.ndarray:
    """A table for each member, whose axes come first, as an array of objects. Values are finite floats."""
    tables = np.empty(values.shape[:axes], object)
    if tables.size:
        rows = _rows(values, tables.size)
        begin = rows.ctypes.data
        step = rows.strides[0]
        flat = [object.__new__(Table) for _ in range(tables.size)]
        for k, table in enumerate(flat):
            table._at(rows[k], values.shape[axes:], begin + k * step)
        tables.ravel()[:] = flat
    return tables


def table_at(address: float) -> Table:
    """The table with this address; raises ModelError where there is none any more."""
    table = _at_address.get(float(address))
    if table is None:
        raise ModelError(
            f"there is no table at the address {address!r}; it lives as long as somebody holds it"
        )
    return table


def lookup(table: Any, index: Array) -> Array:
    """Elementwise the entry of a table at an index, in the order of C; the fraction of the index is dropped.

    table  a `Table`, or the address of one: a symbol, a number or an array of them
    index  floats or symbols; it is cut to 0 ... size - 1, and NaN counts as 0

    Its derivative is zero.
    """
    if "O" in (np.asarray(index).dtype.kind, "f" if type(table) is Table else np.asarray(table).dtype.kind):
        if type(table) is Table:
            return np.frompyfunc(lambda i: _entry(table, i), 1, 1)(index)
        return np.frompyfunc(_entry, 2, 1)(table, index)
    if type(table) is Table:
        return _entries(table.flat, index)
    addresses, places = np.broadcast_arrays(table, np.asarray(index, float))
    values = np.zeros(places.shape)
    for address in np.unique(addresses):
        here = addresses == address
        if address > 0:  # idle lanes have none
            values[here] = _entries(table_at(address).flat, places[here])
    return values[()]


def _entry(table: Any, index: Any) -> Any:
    for x in (index, table):
        if hasattr(x, "apply"):
            return x.apply("lookup", (table, index))
    return lookup(table, float(index)).item()


def _entries(values: np.ndarray, index: Any) -> Any:
    place = np.where(np.greater(index, 0), np.minimum(index, len(values) - 1), 0)
    return values[place.astype(np.int64)]
