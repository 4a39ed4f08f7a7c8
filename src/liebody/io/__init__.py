"""Robot descriptions in, and coordinates to and from other libraries."""

from .urdf import DescribedTree, Description, DoubtfulInertia, Shape, UnusedElements, load_urdf, read_urdf

__all__ = [
    "DescribedTree",
    "Description",
    "DoubtfulInertia",
    "Shape",
    "UnusedElements",
    "load_urdf",
    "read_urdf",
]
