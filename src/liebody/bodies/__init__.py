"""Bodies, joints and trees: what a mechanism is, without what it does."""

from .inertia import Moments, SpatialInertia
from .joints import JOINT_KINDS, Joint, Mimic, joint_kinds
from .parameters import Parameter, parameters_of, symbols_of, with_values
from .parametric import Parameters, Parametric
from .tree import WORLD, Body, Frame, Tree, TreeBuilder

__all__ = [
    "JOINT_KINDS",
    "WORLD",
    "Body",
    "Frame",
    "Joint",
    "Mimic",
    "Moments",
    "Parameter",
    "Parameters",
    "Parametric",
    "SpatialInertia",
    "Tree",
    "TreeBuilder",
    "joint_kinds",
    "parameters_of",
    "symbols_of",
    "with_values",
]
