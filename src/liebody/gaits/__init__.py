"""Gaits: periodic orbits of hybrid systems on groups, their stability, and what becomes of them.

shooting      the equations of a periodic orbit, with derivatives through the hybrid flow
orbit         periodic orbits, also relative to symmetries, by Newton's method
floquet       Floquet multipliers
"""

from .floquet import Floquet, floquet
from .orbit import PeriodicOrbit, periodic_orbit
from .shooting import GaitError

__all__ = ["Floquet", "GaitError", "PeriodicOrbit", "floquet", "periodic_orbit"]
