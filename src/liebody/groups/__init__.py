"""Lie groups: an object is a group, an array is an element. The modules, from definitions to joints:

    base          LieGroup: everything from hat, by definition
    real          R(n), SO2
    so3           SO3, unit quaternions
    se2           SE2 and its universal cover
    se3           SE3
    sen3          SEn3: a rotation with n vectors
    product       Product, SO3xR3
    subgroups     the motion subgroups of SE(3), about any axis
    along         gradients and derivatives along a group
    user          MatrixGroup, AdjointGroup: groups that users define
    names         groups by their names, including groups of other packages
    coefficients  the scalar functions of small and large angles

Operations and conventions side by side with the mathematics: docs/groups.md.
"""

from . import subgroups
from .along import AlongGroup, along_direction, along_group, coordinate_tangents, gradient
from .base import LieGroup
from .names import group_named
from .product import Product, SO3xR3
from .real import SO2, R, RealGroup
from .se2 import SE2
from .se3 import SE3
from .sen3 import SEn3
from .so3 import SO3, quaternions, rotations
from .subgroups import *  # noqa: F403
from .user import AdjointGroup, MatrixGroup

__all__ = ["SE2", "SE3", "SO2", "SO3", "AdjointGroup", "LieGroup", "MatrixGroup", "Product", "R", "RealGroup"]
__all__ += [
    "AlongGroup",
    "SEn3",
    "SO3xR3",
    "along_direction",
    "along_group",
    "coordinate_tangents",
    "gradient",
    "group_named",
]
__all__ += ["quaternions", "rotations"]
__all__ += subgroups.__all__
