"""The robots of the benchmarks: files of the PyPI package example-robot-data, with and without a floating
base."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

FILES = {
    "ur5": ("ur_description/urdf/ur5_robot.urdf", False),
    "panda": ("panda_description/urdf/panda.urdf", False),
    "anymal": ("anymal_b_simple_description/robots/anymal.urdf", True),
    "talos": ("talos_data/robots/talos_reduced.urdf", True),
}


def path(name: str) -> tuple[Path, bool]:
    """The URDF of a robot, and whether its base floats."""
    file, floating = FILES[name]
    package = distribution("example-robot-data")
    root = Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots")))
    return root / file, floating
