"""Rigid bodies in absolute coordinates, with joints, closed loops and constraints of any kind."""

from .assembly import Report
from .builder import SystemBuilder
from .closed_tree import ClosedTree
from .equations import STABILIZATIONS, Stabilization
from .maximal import AbsoluteTree, Closure, Condition, KnifeEdge, Rolling, VelocityCondition
from .mechanism import Constrained, stabilization
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
