"""Bodies, joints and trees: what a mechanism is, without what it does."""

from .inertia import Moments, SpatialInertia
from .joints import Joint, Mimic
from .tree import WORLD, Body, Frame, Tree, TreeBuilder

__all__ = ["WORLD", "Body", "Frame", "Joint", "Mimic", "Moments", "SpatialInertia", "Tree", "TreeBuilder"]
