"""Seals files with a digest at their end, so that damage is noticed before anything else reads them.

HDF5 ignores bytes behind its own data, so the digest does no harm. But it follows damaged references, for
ever in the worst case; so the whole file is compared with its digest first.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MARK = b"\nliebody sha256 "
LENGTH = len(MARK) + 65


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file with its digest, and wait until it is on the disk."""
    with open(path, "xb") as file:
        file.write(content)
        file.write(MARK + hashlib.sha256(content).hexdigest().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def is_sealed(path: Path) -> bool:
    """Whether a file is unchanged since it was sealed."""
    # Read in pieces of 1 MB, because runs may be larger than the memory.
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size - LENGTH
        while left > 0 and (some := file.read(min(left, 1 << 20))):
            digest.update(some)
            left -= len(some)
        return file.read() == MARK + digest.hexdigest().encode() + b"\n"
