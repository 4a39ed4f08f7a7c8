"""Load robots by name: bundled models, files of descriptions, trees."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from .. import models
from ..base.arguments import checked
from ..base.errors import DescriptionError, ModelError, known, pass_on_signals, require, warn
from ..bodies import Tree
from ..io import OpenLoops, load_description
from ..robot import GRAVITY, Robot
from ..scalars import Array


@checked
def load(
    source: str | Path | Tree, floating: bool = False, gravity: Array | None = None, **options: Any
) -> Robot:
    """A robot from a URDF or MJCF file (or its text), by its name, or from a `Tree`.

    source    names: of bundled models (`models.names()`); with the package example-robot-data, of its files
              and folders, as "ur5", "solo12"; with the package robot_descriptions, of its modules, as
              "ur5_description", which it fetches when they are first read
    floating  whether the root moves freely, with a joint of group SE(3) to the world
    gravity   acceleration of free fall, (3,); None: the model's own, (0, 0, -9.81) where it has none   [m/s2]
    options   of `liebody.io.load_urdf` or `load_mjcf`, e.g. merge_fixed=False, or snap=1e-4 to round the
              near-zeros that CAD writes; of files with another suffix, options of the package that reads them

    Raises DescriptionError for an unknown name and a file that is missing or cannot be read, MissingPackage
    without robot_descriptions, ModelError for an impossible mechanism. Warns (OpenLoops) of loops in the
    file, which a Robot leaves open (docs/constrained.md), and as `load_urdf` does of numbers that the file
    leaves open (docs/reading.md).
    """
    bundled = isinstance(source, str) and source in models.names()
    if (bundled or isinstance(source, Tree)) and (floating or options):
        what = f"{source!r} is a bundled model" if bundled else "a Tree is taken as it is"
        raise ModelError(f"{what}; floating and reading options apply to descriptions only")
    if bundled:
        robot = getattr(models, str(source))()
        return robot if gravity is None else Robot(robot.tree, gravity)
    if isinstance(source, Tree):
        tree = source
    # a description: a file, its text, or a name that an installed package knows
    else:
        tree = load_description(described(source), floating=floating, **options)
    # whoever passes a Tree made it open on purpose; a file may surprise with loops
    loops = [closure.name for closure in getattr(tree, "closures", ())]
    if loops and not isinstance(source, Tree):
        warn(
            f"a Robot is open where {', '.join(map(repr, loops))} close loops: simulate "
            "constrained.ClosedTree(robot.tree, robot.tree.closures)",
            OpenLoops,
        )
    return Robot(tree, getattr(tree, "gravity", GRAVITY) if gravity is None else gravity)


NAME = re.compile(r"[\w-]{1,255}")  # as long as a file's may be
DESCRIPTIONS = "robot_descriptions"


def described(source: str | Path) -> str | Path:
    """The file or text of a description; names are looked up in example-robot-data and robot_descriptions.

    Raises DescriptionError for unknown names, MissingPackage without robot_descriptions.
    """
    # a text of XML and a path with folders are no names; a file in the working folder goes before a name
    if not isinstance(source, str) or not NAME.fullmatch(source) or Path(source).exists():
        return source
    if source.endswith("_description"):
        require(f"the robot {source!r}", DESCRIPTIONS, extra="descriptions")
        try:
            module = importlib.import_module(f"{DESCRIPTIONS}.{source}")
        except Exception as error:  # the package asks git, which asks the network
            pass_on_signals(error)
            if isinstance(error, ModuleNotFoundError) and error.name == f"{DESCRIPTIONS}.{source}":
                there = known(_fetched(), source)
                raise DescriptionError(f"{DESCRIPTIONS} has no {source!r}; {there}") from None
            said = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
            raise DescriptionError(
                f"{DESCRIPTIONS} cannot get {source!r}, {type(error).__name__}: {said}. Robots are fetched "
                "by git when they are first read: check the network, or give the file of a description"
            ) from error
        # modules of robot_descriptions have a URDF, an MJCF, or both
        return Path(getattr(module, "URDF_PATH", None) or module.MJCF_PATH)
    files = _installed()
    if source in files:
        return files[source]
    raise DescriptionError(
        f"there is no file and no model {source!r} (packages that have more: example-robot-data, with names "
        "such as 'ur5', and robot_descriptions, such as 'ur5_description'); "
        f"{known([*models.names(), *files, *_fetched()], source)}"
    )


def _installed() -> dict[str, Path]:
    """The URDFs of example-robot-data, if it is installed, by their names.

    A file has its name, also without "_robot" at the end, and the name of its folder if it is alone there. A
    name of two files is left out, because nobody could tell which file it means.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # bundled models do without

    try:
        root = distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    except PackageNotFoundError:
        return {}
    named: dict[str, set[Path]] = {}
    for folder in Path(str(root)).glob("*/"):
        files = sorted(folder.rglob("*.urdf"))
        for file in files:
            # a folder with one file stands for that file
            of_folder = [folder.name.removesuffix("_description")] if len(files) == 1 else []
            for name in (file.stem, file.stem.removesuffix("_robot"), *of_folder):
                named.setdefault(name, set()).add(file)
    return {name: min(files) for name, files in sorted(named.items()) if len(files) == 1}


def _fetched() -> list[str]:
    """The names that robot_descriptions knows, if it is installed."""
    try:
        return sorted(importlib.import_module(f"{DESCRIPTIONS}._descriptions").DESCRIPTIONS)
    except (ImportError, AttributeError):
        return []
