"""Rigid bodies in absolute coordinates, with joints, closed loops and constraints of any kind."""

from .assembly import Report
from .builder import SystemBuilder
from .equations import Stabilization
from .flows import STABILIZATIONS, Parts, parts, stabilization
from .system import System

__all__ = [
    "STABILIZATIONS",
    "Parts",
    "Report",
    "Stabilization",
    "System",
    "SystemBuilder",
    "parts",
    "stabilization",
]
