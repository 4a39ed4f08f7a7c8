"""Gaits: periodic orbits of hybrid systems on groups, their stability, and what becomes of them.

shooting      the equations of a periodic orbit, with derivatives through the hybrid flow
orbit         periodic orbits, also relative to symmetries, by Newton's method
floquet       Floquet multipliers
continuation  orbits over a parameter; bifurcations, branches that begin there
"""

from .continuation import Bifurcation, Branch, continuation, switch_branch
from .floquet import Floquet, floquet
from .orbit import PeriodicOrbit, periodic_orbit
from .shooting import GaitError

__all__ = [
    "Bifurcation",
    "Branch",
    "Floquet",
    "GaitError",
    "PeriodicOrbit",
    "continuation",
    "floquet",
    "periodic_orbit",
    "switch_branch",
]
