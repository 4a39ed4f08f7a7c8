"""Bodies, joints and trees: what a mechanism is, without what it does."""

from .inertia import Moments, SpatialInertia
from .joints import Joint, Mimic
from .parameters import Parameter, parameters_of, with_values
from .tree import WORLD, Body, Frame, Tree, TreeBuilder

__all__ = [
    "WORLD",
    "Body",
    "Frame",
    "Joint",
    "Mimic",
    "Moments",
    "Parameter",
    "SpatialInertia",
    "Tree",
    "TreeBuilder",
    "parameters_of",
    "with_values",
]
