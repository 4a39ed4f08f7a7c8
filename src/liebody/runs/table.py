"""Tables of runs: an xarray Dataset, a pandas DataFrame, text with commas, and the lines of a summary."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.errors import LiebodyError, pass_on_signals, require, warn
from ..base.texts import path_of, shown
from ..bodies.labels import Labels
from .variables import OF_PARAMETER, UNITS, Variables

if TYPE_CHECKING:
    import xarray

LONGEST_TABLE = 24
MOST_ENTRIES = 1000
"""Larger arrays without labels, such as height maps, are no columns: a table has numbers to compare."""
OF_STATES = ("q", "v", "joints", "joint_rates")  # variables whose columns have the units of their labels


class TableColumns(NamedTuple):
    """Members and times of the rows, and columns, (rows,) each by name; and the units that are known.

    left_out  {name: shape} of arrays that are too large for columns
    """

    rows: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]
    units: dict[str, str]
    left_out: dict[str, tuple[int, ...]]


class TableRows(NamedTuple):
    """The rows of a table: one for each time, of each member of a batch.

    t      times, (nt,)
    batch  shape of the batch
    names  the names of the dimensions of the rows, the last one "time"
    """

    t: np.ndarray
    batch: tuple[int, ...]
    names: tuple[str, ...]


def to_xarray(variables: Variables, attributes: Mapping[str, Any]) -> xarray.Dataset:
    """The variables as a Dataset, whose units are coordinates."""
    require("to_xarray", "xarray", extra="sweep")
    import xarray

    dataset = xarray.Dataset(variables, attrs=dict(attributes))
    return dataset.set_coords([name for name in variables if name.endswith(UNITS)])


def to_dataframe(variables: Variables, rows: TableRows) -> Any:
    """The variables along time as a DataFrame; `Run.to_dataframe` says how."""
    require("to_dataframe", "pandas", extra="sweep")
    import pandas

    index, columns, units, left_out = _columns(variables, rows)
    if rows.batch:
        of_rows = pandas.MultiIndex.from_arrays(list(index.values()), names=list(index))
    else:
        of_rows = pandas.Index(rows.t, name="time")
    frame = pandas.DataFrame(columns, index=of_rows)
    frame.attrs["units"] = units
    if left_out:
        frame.attrs["left_out"] = left_out
    return frame


def to_csv(path: str | os.PathLike[str], variables: Variables, rows: TableRows) -> None:
    """Write the variables along time as text with commas; `Run.to_csv` says how."""
    index, columns, units, _ = _columns(variables, rows)
    both = {**index, **columns}
    heads = [f"{name} [{units[name]}]" if units.get(name) else name for name in both]
    path = path_of("the name of the file", path)
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(heads)
            writer.writerows(zip(*(x.tolist() for x in both.values()), strict=True))
    except OSError as error:
        pass_on_signals(error)
        raise LiebodyError(f"cannot save {path}: {error.strerror or error}") from error


def _columns(variables: Variables, rows: TableRows) -> TableColumns:
    """The columns of all variables along time. Warns of arrays that are left out."""
    t, batch, names = rows
    shape = (*batch, len(t))
    # Each row has the place of its member and its time.
    counted = np.meshgrid(*map(np.arange, batch), t, indexing="ij")
    index = {name: x.ravel() for name, x in zip(names, counted, strict=True)}
    columns: dict[str, np.ndarray] = {}
    left_out: dict[str, tuple[int, ...]] = {}
    units = {"time": "s"}
    for name, (dims, values, attributes) in variables.items():
        # Parameters do not change along time: a member has the same in all of its rows.
        if name.startswith(OF_PARAMETER):
            dims = (*names, *dims[len(batch) :])
            values = at_rows(values, batch, len(t))
        # Events, labels and single numbers are no columns.
        if dims[: len(shape)] != names or name in index:
            continue
        # An entry is called by its label where its dimension has labels, otherwise by its place.
        label = dims[-1] if len(dims) == len(shape) + 1 else ""
        entries = values.shape[len(shape) :]
        if label not in variables and math.prod(entries) > MOST_ENTRIES:
            left_out[name] = entries
            continue
        # All axes of rows become one, all others columns.
        flat = values.reshape(math.prod(shape), math.prod(entries))
        if label in variables:
            unit = variables.get(label + UNITS)
            heads = [f"{name}.{word}" for word in variables[label][1]]
            # Labels have the units of coordinates and velocities themselves, and not of forces along them.
            units_of_entries = dict(zip(heads, unit[1] if unit else [""] * len(heads)))
            units |= units_of_entries if name in OF_STATES else {}
        else:
            heads = [".".join([name, *map(str, place)]) for place in np.ndindex(entries)]
            units |= {head: attributes["units"] for head in heads if "units" in attributes}
        columns |= dict(zip(heads, flat.T, strict=True))
    if left_out:
        arrays = ", ".join(f"{name} {entries}" for name, entries in left_out.items())
        warn(
            f"{arrays}: arrays of more than {MOST_ENTRIES} numbers are no columns; to_xarray and the "
            "attributes of the run have them",
            UserWarning,
        )
    return TableColumns(index, columns, units, left_out)


def at_rows(x: np.ndarray, batch: tuple[int, ...], times: int) -> np.ndarray:
    """Values (*batch, *shape) of a parameter, for each state: (*batch, times, *shape)."""
    k = len(batch)
    return np.broadcast_to(np.expand_dims(x, k), (*batch, times, *x.shape[k:]))


# -- as text -------------------------------------------------------------------------------------------------


def lines_of_ranges(vectors: list[tuple[Labels, np.ndarray]], single: bool) -> list[str]:
    """Rows of first, last, least and largest value of each entry; no more than LONGEST_TABLE per vector."""
    columns = ("first", "last", "least", "largest") if single else ("least", "largest")
    width = max(len(name) for labels, _ in vectors for name in (*labels.names[:LONGEST_TABLE], "velocity"))
    lines = []
    for title, (labels, values) in zip(("coordinate", "velocity"), vectors, strict=True):
        lines.append(f"  {title:{width}}  {'unit':5}" + "".join(f"{c:>13}" for c in columns))
        flat = values.reshape(-1, values.shape[-1])
        numbers = {
            "first": flat[0],
            "last": flat[-1],
            "least": np.fmin.reduce(flat),
            "largest": np.fmax.reduce(flat),
        }
        for i, (name, unit) in enumerate(zip(labels.names, labels.units, strict=True)):
            if i == LONGEST_TABLE:
                lines.append(f"  ... and {len(labels) - i} more")
                break
            row = "".join(f"{numbers[c][i]:13.6g}" for c in columns)
            lines.append(f"  {name:{width}}  {unit:5}{row}")
    return lines


def words_of_metadata(metadata: Mapping[str, str | int | float]) -> list[str]:
    """Metadata without the model, as "name value"."""
    return [
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {shown(value)}"
        for name, value in metadata.items()
        if name != "model"
    ]
