"""Robot descriptions in, and coordinates to and from other libraries."""

from .layouts import Layout, mujoco_layout, pinocchio_layout
from .urdf import (
    AssumedDynamics,
    DescribedTree,
    Description,
    DoubtfulInertia,
    LoopConstraint,
    OpenLoops,
    Shape,
    UnusedElements,
    load_urdf,
    read_urdf,
)

__all__ = [
    "AssumedDynamics",
    "DescribedTree",
    "Description",
    "DoubtfulInertia",
    "Layout",
    "LoopConstraint",
    "OpenLoops",
    "Shape",
    "UnusedElements",
    "load_urdf",
    "mujoco_layout",
    "pinocchio_layout",
    "read_urdf",
]
