"""Bodies, joints and trees: what a mechanism is, without what it does."""

from .inertia import PARAMETERS, UPPER, Moments, SpatialInertia, matrix_of, moved_parameters
from .joints import JOINT_KINDS, NO_LIMIT, Joint, Mimic, joint_kinds
from .labels import UNIT_OF_QUATERNIONS, Labels, labels_of
from .names import joint_named
from .parameters import Parameter, parameters_of, symbols_of, with_values
from .parametric import Parameters, Parametric
from .tree import WORLD, Body, Frame, Tree, TreeBuilder

__all__ = [
    "JOINT_KINDS",
    "NO_LIMIT",
    "PARAMETERS",
    "UNIT_OF_QUATERNIONS",
    "UPPER",
    "WORLD",
    "Body",
    "Frame",
    "Joint",
    "Labels",
    "Mimic",
    "Moments",
    "Parameter",
    "Parameters",
    "Parametric",
    "SpatialInertia",
    "Tree",
    "TreeBuilder",
    "joint_kinds",
    "joint_named",
    "labels_of",
    "matrix_of",
    "moved_parameters",
    "parameters_of",
    "symbols_of",
    "with_values",
]
