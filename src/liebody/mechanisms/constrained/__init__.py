"""Rigid bodies in absolute coordinates, with joints, closed loops and constraints of any kind."""

from .builder import SystemBuilder
from .closed_tree import ClosedTree
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
    "KnifeEdge",
    "Report",
    "Rolling",
    "Stabilization",
    "System",
    "SystemBuilder",
    "VelocityCondition",
    "stabilization",
]
