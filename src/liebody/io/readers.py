"""Files of other formats than URDF and MJCF, by readers of other packages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..base.errors import DescriptionError
from ..base.extensions import READERS, extension
from ..bodies import Tree

OURS = {".urdf", ".xml", ".mjcf", ".xacro", ""}  # suffixes that no package takes over


def read_by_others(source: str | bytes | os.PathLike[str], options: dict[str, Any]) -> Tree | None:
    """The tree of a file whose suffix an installed package reads; None for all other files, and for texts."""
    if not isinstance(source, str | os.PathLike):
        return None
    name = os.fspath(source)
    if not isinstance(name, str) or "<" in name or "\0" in name:  # the text of a description
        return None
    suffix = Path(name).suffix.lower()
    if suffix in OURS:
        return None
    read = extension(READERS, suffix[1:])
    if read is None:
        return None
    if not Path(name).is_file():
        raise DescriptionError(f"there is no file {name!r}")
    tree = read(Path(name), **options)
    if not isinstance(tree, Tree):
        raise DescriptionError(
            f"the reader of {suffix} ({read.__module__}) returned {tree!r}, expected a Tree"
        )
    return tree
