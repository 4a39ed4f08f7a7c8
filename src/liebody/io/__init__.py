"""Robot descriptions in and out, and coordinates to and from other libraries. The modules:

document     XML, read safely
urdf         URDF into a tree
mjcf         MJCF into a tree, by MuJoCo
mjcf_sizes   limits of an MJCF, before MuJoCo reads it
readers      other formats, by readers of other packages
near_zeros   numbers of CAD that nearly are zeros and right angles, rounded
meshes       surfaces from STL files
writing      trees as URDF and MJCF
report       a mechanism and doubts about it
layouts      coordinates of Pinocchio and MuJoCo
c_export     C99 source of kernels
"""

import os
from typing import Any

from ..bodies import Tree
from .c_export import (
    COARSE,
    LEAST_FLOAT,
    UNKNOWN,
    About,
    Difference,
    ExportedPart,
    InaccurateFloats,
    c_comment,
    c_prefix,
    host_library,
    is_single,
    warn_if_coarse,
    word_of_c,
    write_c,
)
from .document import read_document
from .layouts import Layout, mujoco_layout, pinocchio_layout
from .mjcf import Actuator, MjcfTree, load_mjcf
from .near_zeros import NearZeros, RoundedNumbers
from .readers import read_by_others
from .urdf import (
    AssumedDynamics,
    DescribedTree,
    Description,
    DoubtfulInertia,
    LoopConstraint,
    OpenLoops,
    Shape,
    Transmission,
    UnusedElements,
    load_urdf,
    read_urdf,
)

__all__ = [
    "COARSE",
    "LEAST_FLOAT",
    "UNKNOWN",
    "About",
    "Actuator",
    "AssumedDynamics",
    "DescribedTree",
    "Description",
    "Difference",
    "DoubtfulInertia",
    "ExportedPart",
    "InaccurateFloats",
    "Layout",
    "LoopConstraint",
    "MjcfTree",
    "NearZeros",
    "OpenLoops",
    "RoundedNumbers",
    "Shape",
    "Transmission",
    "UnusedElements",
    "c_comment",
    "c_prefix",
    "host_library",
    "is_single",
    "load_description",
    "load_mjcf",
    "load_urdf",
    "mujoco_layout",
    "pinocchio_layout",
    "read_urdf",
    "warn_if_coarse",
    "word_of_c",
    "write_c",
]


def load_description(source: str | bytes | os.PathLike[str], **options: Any) -> Tree:
    """The tree of a URDF (`load_urdf`) or of an MJCF (`load_mjcf`), told apart by the root element.

    Files with another suffix are read by the package that adds a reader of it (docs/architecture.md).
    """
    tree = read_by_others(source, options)
    if tree is not None:
        return tree
    read = load_mjcf if read_document(source)[0].tag == "mujoco" else load_urdf
    return read(source, **options)
