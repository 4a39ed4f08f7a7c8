"""Read surfaces of bodies as triangles from STL files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..base.errors import ModelError, pass_on_signals
from .document import quoted

HEADER = 84  # bytes before the first triangle of a binary STL: a comment of 80, and the number of triangles
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read_stl(path: Path) -> np.ndarray:
    """The triangles (n, 3, 3) of an STL file, binary or text: corners anticlockwise seen from outside.

    Raises ModelError for a file that is something else, or cut off.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        pass_on_signals(error)
        raise ModelError(f"the mesh {quoted(path.name)} cannot be read: {error.strerror or error}") from error
    # A binary file is told by its length alone, which its count of triangles determines.
    count = int.from_bytes(data[80:HEADER], "little") if len(data) >= HEADER else -1
    if len(data) == HEADER + count * TRIANGLE.itemsize:  # both kinds may start with "solid"
        corners = np.frombuffer(data, TRIANGLE, count, HEADER)["corners"].astype(float)
    else:
        # a text STL: only its lines "vertex x y z" are read, three of them for each triangle
        lines = [line.split()[1:] for line in data.splitlines() if line.split()[:1] == [b"vertex"]]
        try:
            corners = np.array(lines, float).reshape(-1, 3, 3)
        except ValueError:
            corners = np.empty((0, 3, 3))
    if not len(corners) or not np.isfinite(corners).all():
        raise ModelError(f"the mesh {quoted(path.name)} is not a whole STL file, binary or text")
    return corners
