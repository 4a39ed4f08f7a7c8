"""Gaits: periodic orbits of hybrid systems on groups, their stability, and what becomes of them.

shooting      the equations of a periodic orbit, with derivatives through the hybrid flow
orbit         periodic orbits, also relative to symmetries, by Newton's method
floquet       Floquet multipliers
continuation  orbits over a parameter; bifurcations, branches that begin there
stabilize     feedback at the section, by the linear-quadratic regulator of the return map
"""

from .continuation import Bifurcation, Branch, continuation, switch_branch
from .floquet import Floquet, floquet
from .orbit import PeriodicOrbit, periodic_orbit
from .shooting import GaitError
from .stabilize import StabilizedOrbit, stabilize

__all__ = [
    "Bifurcation",
    "Branch",
    "Floquet",
    "GaitError",
    "PeriodicOrbit",
    "StabilizedOrbit",
    "continuation",
    "floquet",
    "periodic_orbit",
    "stabilize",
    "switch_branch",
]
