"""Rigid bodies with joints, closed loops and constraints of any kind. The modules, from parts to systems:

stabilization  terms in the equations of motion, or projections, that keep states on the constraints
constraints    kinds of constraints, with their rows; velocities: constraints without an integral
forces         kinds of forces on bodies; drives: joints that follow functions of time
assembly       closing loops, consistent velocities; redundancy: ranks, and which equations depend on others
mechanism      the common part of systems and closed trees: field, projection, reactions
bodies         a body that moves freely; coordinates: states of all bodies of a system
equations      the equations of motion in index-1 form; projection: states put back on the constraints
system         `System`; definition: made of records by name; builder: which collects them
closed_tree    `ClosedTree`, joint coordinates with closed loops
maximal        closures of trees, and trees in absolute coordinates
"""

from .builder import SystemBuilder
from .closed_tree import ClosedTree
from .constraints import Constraint, Distance
from .maximal import AbsoluteTree, Closure, Condition, KnifeEdge, Rolling, VelocityCondition
from .mechanism import Constrained
from .redundancy import Report
from .stabilization import STABILIZATIONS, Stabilization, stabilization
from .system import System

__all__ = [
    "STABILIZATIONS",
    "AbsoluteTree",
    "ClosedTree",
    "Closure",
    "Condition",
    "Constrained",
    "Constraint",
    "Distance",
    "KnifeEdge",
    "Report",
    "Rolling",
    "Stabilization",
    "System",
    "SystemBuilder",
    "VelocityCondition",
    "stabilization",
]
