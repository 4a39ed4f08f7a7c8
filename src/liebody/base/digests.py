"""Digests, by which damage of files is found: one mechanism for runs, compiled kernels and stores of sweeps.

The digest is SHA-256 of all bytes of a file. Who writes the file decides where the digest stands:

- liebody itself: the file is *sealed*, its last line is the digest of all before it (`seal`). HDF5 ignores
  bytes behind its own data, so a sealed run is a netCDF file. A note of the cache belongs to one name, and
  the name enters the digest: the file is damaged under any other name.
- another program, such as a compiler or Zarr: the file stays as it is, and a *record* in another file has its
  digest (`digest_of`). The record of several files is one digest of their digests and of the place to which
  they belong (`digest`), so exchanged files are found.

Files are compared before anything else reads them: HDF5 follows damaged references, for ever in the worst
case, and a damaged library ends Python. A file that cannot be read is damaged, and `state_of` has the words
for all messages. A digest says that a file is as it was written, and not who wrote it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from .errors import pass_on_signals, suppress

MARK = b"\nliebody sha256 "
LENGTH = len(MARK) + 65  # of a seal: the mark, 64 digits and a line break
PIECE = 1 << 20  # bytes that are read at a time, because runs may be larger than the memory
CHANGED = "is not as it was written"


def digest(*texts: str) -> str:
    """The SHA-256 digest of a list of texts.

    The length of each text stands before it, so no two lists become the same bytes, whatever is in them.
    """
    whole = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        whole.update(b"%d:" % len(data) + data)
    return whole.hexdigest()


# -- sealed files: the digest is the last line ---------------------------------------------------------------


def seal(content: bytes | memoryview, name: str = "") -> bytes:
    """The last line of a file with this content; `name` is the file's, where it belongs to that name only."""
    whole = hashlib.sha256(f"{name}\n".encode() if name else b"")
    whole.update(content)
    return MARK + whole.hexdigest().encode() + b"\n"


def is_sealed(whole: bytes, name: str = "") -> bool:
    """Whether the bytes of a file, its seal included, are as they were written."""
    return whole[-LENGTH:] == seal(memoryview(whole)[:-LENGTH], name)


def is_sealed_file(path: Path) -> bool:
    """The same of a file without a name in its seal, read in pieces."""
    with open(path, "rb") as file:
        whole = _hashed(file, os.fstat(file.fileno()).st_size - LENGTH)
        return file.read() == MARK + whole.hexdigest().encode() + b"\n"


def _hashed(file: BinaryIO, size: int) -> Any:
    """The hash of the next bytes of a file, so many or up to its end.

    `hashlib.file_digest` does the same, but takes a ValueError of a signal handler for its own.
    """
    whole = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, PIECE))):
        whole.update(piece)
        size -= len(piece)
    return whole


# -- files of other programs: the digest is in a record ------------------------------------------------------


def digest_of(path: Path) -> str:
    """The digest of a file; raises OSError for a file that cannot be read, and for a pipe or a device."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for ever
        raise OSError(errno.EINVAL, "no regular file", str(path))
    with open(path, "rb") as file:
        return str(_hashed(file, os.fstat(file.fileno()).st_size).hexdigest())


def is_whole(path: Path, known: str | None) -> bool:
    """Whether a file has the digest that was recorded; a file that cannot be read does not."""
    try:
        return digest_of(path) == known
    except OSError as error:
        pass_on_signals(error)
        return False


def state_of(path: Path) -> str:
    """The words for a file that is not whole."""
    return CHANGED if path.is_file() else "is missing"


# -- writing -------------------------------------------------------------------------------------------------


def write(path: Path, temporary: Path, *content: bytes) -> None:
    """Write a file whole or not at all: to the disk under a temporary name, and then renamed.

    A rename is atomic: whoever reads `path` meanwhile finds the old file or the whole new one. Raises
    OSError, and leaves no temporary file then; a kill may leave one.
    """
    try:
        with open(temporary, "xb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
