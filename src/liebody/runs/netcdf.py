"""Variables and attributes of a netCDF-4 file that a stranger may have written: links out of it are refused.

A netCDF-4 file is an HDF5 file. HDF5 follows what a file says: links into other files, data that lie in other
files (external storage, virtual datasets), shapes of any size, compressed or not stored at all. A digest in
the file does not help, because whoever writes the file writes the digest. So each object is checked before
any of its data are read, and refused unless it is a plain array of numbers or texts that lies in the file.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import LiebodyError
from ..base.texts import shown

HIDDEN = ("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "_NCProperties", "_nc3_strict")
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
"""How the NAME of a dimension begins that has no values."""

MOST_COMPRESSED = 1032
"""Bytes that one byte compressed by deflate can become, at most."""

LEAST_TEXT = 16
"""Bytes that a text takes at least in the files that `save` writes; shorter ones count as much."""

TEXT_AT_ONCE = 1 << 28
"""Bytes of text that are read before their lengths are added up; an entry may be as long as the file."""


class _Refused(Exception):
    """The reason why a file is not read, in words that continue a sentence after its name."""


def read(path: Path, plain: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes of a file, and its variables by name. Signs in texts that are not printable are escaped.

    plain  whether the file has to be as `Run.save` writes files: nothing is compressed, so arrays are no
           larger than the file

    Raises LiebodyError for links and data outside the file and for shapes that its data cannot fill; errors
    of h5py, of any kind, for a damaged file.
    """
    import h5py

    size = size_of(path)
    try:
        with h5py.File(path, "r") as file:
            return _attributes(file, size), _variables(file.id, size, plain)
    except _Refused as error:
        raise LiebodyError(f"{path} is not read: {error}") from None


def size_of(path: Path) -> int:
    """The bytes of a regular file.

    Raises LiebodyError for pipes and devices, which have no end, and for folders; OSError.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise LiebodyError(f"{path} is no regular file; give the name of a file on a disk")
    return status.st_size


def _attributes(file: Any, size: int) -> dict[str, Any]:
    """The attributes of the whole file; each has to be one number or one text."""
    import h5py

    attributes: dict[str, Any] = {}
    for name in file.attrs:
        # Attributes by which netCDF keeps its own books.
        if name in HIDDEN or name.startswith("_Netcdf4"):
            continue
        attribute = file.attrs.get_id(name)
        what = f"its attribute {shown(name)}"
        _check_type(what, attribute.get_type())
        # Size and type are known without reading.
        extent = attribute.get_space()
        if extent.get_simple_extent_type() == h5py.h5s.NULL:
            attributes[name] = ""
            continue
        if extent.get_simple_extent_npoints() != 1 or attribute.get_storage_size() > size:
            raise _Refused(f"{what} has more than one value")
        value = np.empty(extent.get_simple_extent_dims(), attribute.dtype)
        attribute.read(value)
        attributes[name] = _plain_text(value).item()
    return attributes


def _variables(file: Any, size: int, plain: bool) -> dict[str, np.ndarray]:
    """The arrays of the file; all of them are checked before the first is read."""
    import h5py

    # First which objects there are. A link is not followed, not even to see where it leads.
    datasets: dict[str, Any] = {}
    for raw in file:
        name = raw.decode("utf-8", "backslashreplace")
        if file.links.get_info(raw).type != h5py.h5l.TYPE_HARD:
            raise _Refused(f"{shown(name)} is a link to another place")
        dataset = h5py.h5o.open(file, raw)
        if isinstance(dataset, h5py.h5d.DatasetID) and not _is_mere_dimension(dataset):
            datasets[name] = dataset
    # Then whether all arrays together fit in the file: many small names may share its bytes.
    most = size if plain else MOST_COMPRESSED * size
    total = sum(_checked_bytes(name, dataset, most, plain) for name, dataset in datasets.items())
    if total > most:
        raise _Refused(f"its arrays take {total} bytes, and it can hold {most}")
    left = [size]  # texts lie in heaps of the file, which are not compressed
    return {shown(name): _values(name, dataset, size, left) for name, dataset in datasets.items()}


def _is_mere_dimension(dataset: Any) -> bool:
    """Whether an array stands for a dimension without values, and only its size is of use."""
    import h5py

    if not h5py.h5a.exists(dataset, b"NAME"):
        return False
    attribute = h5py.h5a.open(dataset, b"NAME")
    kind = attribute.get_type()
    count = attribute.get_space().get_simple_extent_npoints()
    if kind.get_class() != h5py.h5t.STRING or kind.is_variable_str() or count != 1:
        return False
    value = np.empty((), attribute.dtype)
    # A name longer than that is no such mark, and is not read.
    if value.nbytes > 4 * len(NO_VARIABLE):
        return False
    attribute.read(value)
    return value.item().startswith(NO_VARIABLE)


def _checked_bytes(name: str, dataset: Any, most: int, plain: bool) -> int:
    """The bytes that an array takes in memory; refused if these are not in the file."""
    import h5py

    what = shown(name)
    # Before the shape: to tell the shape of virtual data, HDF5 may open the files where they lie.
    creation = dataset.get_create_plist()
    if creation.get_external_count():
        raise _Refused(f"the data of {what} lie in another file (external storage)")
    layout = creation.get_layout()
    # Layouts of HDF5: beside these three, virtual ones, which gather the data of other files.
    if layout not in (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED):
        raise _Refused(f"the data of {what} are those of other files (a virtual dataset)")
    filters = {creation.get_filter(k)[0] for k in range(creation.get_nfilters())}
    # Filters can be plug-ins, which are code; and a compressed array may be much larger than its file.
    if plain and filters - {h5py.h5z.FILTER_FLETCHER32}:
        raise _Refused(f"{what} is compressed, which `save` never does")
    kind = dataset.get_type()
    _check_type(what, kind)
    shapes = [dataset.shape, creation.get_chunk() if layout == h5py.h5d.CHUNKED else ()]
    # A chunk is read whole, however small the array.
    each = max(kind.get_size(), LEAST_TEXT if kind.get_class() == h5py.h5t.STRING else 0)
    sizes = [each * math.prod(map(int, shape)) for shape in shapes]
    if max(sizes) > most:
        raise _Refused(f"{what} has shape {dataset.shape}, which takes more bytes than the file can hold")
    return sizes[0]


def _check_type(what: str, kind: Any) -> None:
    """Refuse all but whole numbers, floats and texts: references, structures, complex numbers."""
    import h5py

    if kind.get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING):
        raise _Refused(f"{what} holds {kind.dtype}, expected real numbers or text")


def _values(name: str, dataset: Any, size: int, left: list[int]) -> np.ndarray:
    """The values of an array.

    left  how many bytes texts may still take, all arrays together, as one entry that this call lowers
    """
    import h5py

    array = h5py.Dataset(dataset)
    kind = dataset.get_type()
    if kind.get_class() != h5py.h5t.STRING or not kind.is_variable_str():
        return _plain_text(array[...])
    # An entry of text may be as long as the file, so only as many entries are read at a time as fit in memory
    # at that length.
    values = np.empty(array.shape, object)
    for part in _parts(array.shape, max(1, TEXT_AT_ONCE // max(size, 1))):
        texts = np.asarray(array[part], object)
        left[0] -= sum(map(len, texts.ravel()))
        if left[0] < 0:  # entries may be the same text in the file, and are copies here
            raise _Refused(f"the texts of {shown(name)} take more bytes than the file can hold")
        values[part] = _plain_text(texts)
    return values


def _parts(shape: tuple[int, ...], most: int) -> Iterator[tuple[Any, ...]]:
    """Indices of the parts of an array of this shape, of so many entries at most."""
    if not shape:
        yield ()
        return
    for row in np.ndindex(shape[:-1]):
        for first in range(0, shape[-1], most):
            yield (*row, slice(first, first + most))


def _plain_text(values: np.ndarray) -> np.ndarray:
    """Texts as printable objects of Python; numbers unchanged."""
    if values.dtype.kind not in "OSU":
        return values
    texts = [
        x.decode("utf-8", "backslashreplace") if isinstance(x, bytes) else str(x) for x in values.ravel()
    ]
    return np.array([*map(shown, texts), None], object)[:-1].reshape(values.shape)
