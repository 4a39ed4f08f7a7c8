"""The robots of the benchmarks: files of the PyPI package example-robot-data, on fixed and floating bases."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from machine import absent, unless_quick

FILES = {
    "ur5": ("ur_description/urdf/ur5_robot.urdf", False),
    "panda": ("panda_description/urdf/panda.urdf", False),
    "anymal": ("anymal_b_simple_description/robots/anymal.urdf", True),
    "talos": ("talos_data/robots/talos_reduced.urdf", True),
}
CHOSEN = unless_quick(tuple(FILES), ("ur5",))  # where no robot is named


def path(name: str) -> tuple[Path, bool]:
    """The URDF of a robot, and whether its base floats."""
    file, floating = FILES[name]
    try:
        package = distribution("example-robot-data")
    except ModuleNotFoundError as error:
        absent(error)
    root = Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots")))
    return root / file, floating


def beside_pinocchio(name: str) -> tuple[Any, Any, Any, Any]:
    """A robot of ours and Pinocchio's model and data from the same URDF, and the layout between them.

    At a random state both have the same efforts, or this ends.
    """
    import numpy as np
    import pinocchio as pin

    import liebody as lb
    from liebody.io import pinocchio_layout

    file, floating = path(name)
    ours = lb.load(file, floating=floating, mimic=False)  # Pinocchio's default
    root = [pin.JointModelFreeFlyer()] if floating else []
    model = pin.buildModelFromUrdf(str(file), *root)
    data, layout = model.createData(), pinocchio_layout(ours.tree, model)
    q, v, a = ours.random(0), *np.random.default_rng(0).standard_normal((2, ours.nv))
    theirs = pin.rnea(model, data, layout.to_q(q), layout.to_v(q, v), layout.to_a(q, v, a))
    tau = layout.to_effort(q, ours.inverse_dynamics(q, v, a))
    if np.abs(tau - theirs).max() > 1e-10 * np.abs(theirs).max():
        raise SystemExit(f"{name}: efforts {tau} here, {theirs} of Pinocchio")
    return ours, model, data, layout
