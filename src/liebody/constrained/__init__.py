"""Rigid bodies in absolute coordinates, with joints, closed loops and constraints of any kind."""

from .assembly import Report
from .builder import SystemBuilder
from .equations import Stabilization
from .mechanism import STABILIZATIONS, Mechanism, Parts, stabilization
from .system import System

__all__ = [
    "STABILIZATIONS",
    "Mechanism",
    "Parts",
    "Report",
    "Stabilization",
    "System",
    "SystemBuilder",
    "stabilization",
]
