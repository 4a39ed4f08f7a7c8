"""Robots by name: bundled models, files of descriptions, trees."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from . import models
from .bodies import Tree
from .door import checked
from .errors import ModelError
from .io import OpenLoops, load_description
from .robot import GRAVITY, Robot
from .scalar import Array


@checked
def load(
    source: str | Path | Tree, floating: bool = False, gravity: Array | None = None, **options: Any
) -> Robot:
    """A robot from a URDF or MJCF file (or its text), the name of a bundled model, or a `Tree`.

    floating  whether the root moves freely, with a joint of group SE(3) to the world
    gravity   acceleration of free fall, (3,); None: the model's own, (0, 0, -9.81) where it has none   [m/s2]
    options   of `liebody.io.load_urdf` or `load_mjcf`, e.g. merge_fixed=False

    Raises DescriptionError for a file that is missing or cannot be read, ModelError for a mechanism that
    cannot be. Warns (OpenLoops) of loops in the file, which a Robot leaves open (docs/constrained.md), and as
    `load_urdf` does of what the file leaves open (docs/reading.md).
    """
    if isinstance(source, str) and source in models.__all__:
        if floating or options:
            raise ModelError(
                f"{source!r} is a bundled model; floating and reading options apply to descriptions only"
            )
        robot = getattr(models, source)()
        return robot if gravity is None else Robot(robot.tree, gravity)
    tree = source if isinstance(source, Tree) else load_description(source, floating=floating, **options)
    loops = [closure.name for closure in getattr(tree, "closures", ())]
    if loops and not isinstance(source, Tree):
        warnings.warn(
            f"a Robot is open where {', '.join(map(repr, loops))} close loops: simulate "
            "constrained.ClosedTree(robot.tree, robot.tree.closures)",
            OpenLoops,
            stacklevel=2,
        )
    return Robot(tree, getattr(tree, "gravity", GRAVITY) if gravity is None else gravity)
