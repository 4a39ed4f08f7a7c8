"""The robots of the benchmarks: files of the PyPI package example-robot-data, on fixed and floating bases."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

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


def beside_pinocchio(name: str) -> tuple[Any, Any, Any, Any]:
    """A robot of ours and Pinocchio's model and data from the same URDF, and the layout between them."""
    import pinocchio as pin

    import liebody as lb
    from liebody.io.layouts import pinocchio_layout

    file, floating = path(name)
    ours = lb.load(file, floating=floating, mimic=False)  # Pinocchio's default
    root = [pin.JointModelFreeFlyer()] if floating else []
    model = pin.buildModelFromUrdf(str(file), *root)
    return ours, model, model.createData(), pinocchio_layout(ours.tree, model)
