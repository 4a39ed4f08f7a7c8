"""Files of runs: netCDF-4 with a digest, written as a whole and read with suspicion."""

from __future__ import annotations

import io
import os
import re
import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from ..base.digests import CHANGED, is_sealed_file, seal, write
from ..base.errors import LiebodyError, pass_on_signals
from ..base.public import version
from ..base.texts import is_writable, path_of, shown, words_of
from . import netcdf
from .kinds import kind_of
from .variables import UNITS, Variables

FORMAT = "liebody run"
FORMAT_VERSION = 1
OWN_ATTRIBUTES = ("format", "format_version", "source", "title")  # names that metadata cannot have
OF_STATES = ("time", "q", "v", "coordinate", "coordinate_units", "dof", "dof_units")  # in files of all kinds
PLAIN = (str, int, float)  # the types of metadata
VIEWS = (".html", ".gif", ".mp4", ".png")  # suffixes of files that show a motion


def save(path: str | os.PathLike[str], variables: Variables, attributes: Mapping[str, Any]) -> None:
    """Write variables and attributes as `Run.save` says."""
    import h5netcdf

    target = _netcdf_path(path, f"; pages, films and pictures end in {', '.join(VIEWS)}")
    if not target.parent.is_dir():
        raise LiebodyError(f"cannot save {target}: there is no folder {target.parent}; make it first")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        # HDF5 ends the process where a disk is full, so it writes into memory, and Python to the disk.
        contents = io.BytesIO()
        with h5netcdf.File(contents, "w") as file:
            for name, variable in variables.items():
                _write_variable(file, name, variable, variables)
            file.attrs.update(attributes)
        content = contents.getvalue()
        write(target, temporary, content, seal(content))
    except OSError as error:
        pass_on_signals(error)
        raise LiebodyError(f"cannot save {target}: {error.strerror or error}") from error


def _write_variable(file: Any, name: str, variable: Any, variables: Variables) -> None:
    """Write one of the variables into an open file, with its dimensions and its checksum."""
    dims, values, attributes = variable
    # The units of the entries are no dimension; xarray finds them by the attribute "coordinates", as CF says.
    beside = [d + UNITS for d in dims if d + UNITS in variables and name not in (d, d + UNITS)]
    coordinates = {"coordinates": " ".join(beside)} if beside else {}
    dims = tuple(map(_name_in_file, dims))
    new = {d: n for d, n in zip(dims, values.shape, strict=True) if d not in file.dimensions}
    file.dimensions.update(new)
    is_text = values.dtype == object
    dtype = _text_type() if is_text else values.dtype
    # HDF5 keeps texts in a heap, and scalars and empty arrays in no chunks: there are no checksums of them.
    checksum = {"fletcher32": True} if not is_text and values.ndim and values.size else {}
    written = file.create_variable(_name_in_file(name), dims, dtype, data=values, **checksum)
    written.attrs.update({**attributes, **coordinates})


def load(path: str | os.PathLike[str], check: bool) -> Any:
    """The run in a file, of the kind that the file's variables say; `Run.load` has the rest."""
    source = _netcdf_path(path)
    if not source.is_file():
        raise LiebodyError(f"there is no file {source}; a run is written by run.save({source.name!r})")
    try:
        # The digest comes first: HDF5 may never end on a damaged file.
        if check and not is_sealed_file(source):
            raise LiebodyError(
                f"{source} {CHANGED}: cut off or damaged, changed by another program, or of "
                "liebody 0.1; Run.load(path, check=False) reads it all the same"
            )
        attributes, values = netcdf.read(source, plain=check)
        return _run_of(source, attributes, {shown(unquote(name)): x for name, x in values.items()})
    except LiebodyError:
        raise
    except Exception as error:  # a file of somebody else may hold anything
        pass_on_signals(error)
        raise LiebodyError(
            f"{source} cannot be read as netCDF-4, it may be cut off or damaged: {words_of(error)}"
        ) from error


def _run_of(source: Path, attributes: Mapping[str, Any], variables: Mapping[str, np.ndarray]) -> Any:
    """The run with these attributes and variables; raises LiebodyError for another format and for gaps."""
    if attributes.get("format") != FORMAT:
        raise LiebodyError(
            f"{source} is netCDF but not a run of liebody (its attribute 'format' is not {FORMAT!r})"
        )
    if attributes.get("format_version") != FORMAT_VERSION:
        raise LiebodyError(
            f"{source} has format version {attributes.get('format_version')}, and this liebody reads "
            f"{FORMAT_VERSION}; install the liebody that wrote it ({attributes.get('source', 'unknown')})"
        )
    kind = kind_of(variables)
    missing = [name for name in (*kind.needs, *OF_STATES) if name not in variables]
    if missing:
        raise LiebodyError(f"{source} lacks the variables {', '.join(missing)}; save the run again")
    metadata = {name: value for name, value in attributes.items() if name not in OWN_ATTRIBUTES}
    return kind.make(variables, metadata)


def attributes_of(title: str, metadata: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    """The attributes of a file: metadata, and by what it is recognised."""
    about: dict[str, str | int | float] = {
        "title": title,
        "source": f"liebody {version()}",
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
    }
    return {**metadata, **about}


def checked_metadata(metadata: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Metadata as plain text and numbers; raises LiebodyError for names and values that no file can hold."""
    checked: dict[str, str | int | float] = {}
    for name, value in metadata.items():
        plain = value if type(value) in PLAIN else _plain(value)
        if not _can_be_a_name(name):
            raise LiebodyError(
                f"metadata {name!r} cannot be a name; use letters, digits and _, "
                f"and none of {', '.join(OWN_ATTRIBUTES)}"
            )
        if isinstance(plain, bool) or not isinstance(plain, PLAIN):
            raise LiebodyError(f"metadata {name!r} is {value!r}; give text, an int or a float")
        if isinstance(plain, str) and not is_writable(plain):
            raise LiebodyError(
                f"metadata {name!r} is {plain!a}, which no file can hold; give text without NUL"
            )
        checked[name] = plain
    return checked


@cache
def _can_be_a_name(name: str) -> bool:
    """Whether metadata can be called so."""
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)) and name not in OWN_ATTRIBUTES


def _plain(value: Any) -> Any:
    """A NumPy scalar, or array of one number, as the Python number."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.item()
    return value.item() if isinstance(value, np.generic) else value


def _name_in_file(name: str) -> str:
    """The name in a file, in which / parts groups; `unquote` gives it back."""
    return name.replace("%", "%25").replace("/", "%2F")


def _netcdf_path(path: str | os.PathLike[str], otherwise: str = "") -> Path:
    """The path of a file that ends in .nc; raises LiebodyError for others, with `otherwise` as advice."""
    path = path_of("the name of the file", path)
    if path.suffix != ".nc":
        raise LiebodyError(
            f"runs are netCDF files; name it '{path.stem or 'run'}.nc', not {path.name!r}{otherwise}"
        )
    return path


def _text_type() -> Any:
    import h5py

    return h5py.string_dtype()
