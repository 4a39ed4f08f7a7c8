"""Gaits: periodic orbits of hybrid systems on groups, their stability, and their branches.

segments      the segments of an orbit, simulated as one ensemble
shooting      the equations of a periodic orbit, with derivatives through the hybrid flow
orbit         periodic orbits, also relative to symmetries, by Newton's method
floquet       Floquet multipliers
continuation  orbits over a parameter; bifurcations, over another one, and branches that begin there
branch_point  where two curves of orbits cross
stabilize     feedback at the section, by the linear-quadratic regulator of the return map
basin         where starts of a grid settle, by sweeps; attractors found by themselves
search        orbits from a sample of starts; better ones by random changes of parameters
"""

from .basin import Attractor, Basin, basin
from .continuation import (
    Bifurcation,
    Branch,
    UnreachedPrecision,
    bifurcation_curve,
    continuation,
    switch_branch,
)
from .floquet import Floquet, floquet
from .orbit import PeriodicOrbit, periodic_orbit
from .search import improve, search
from .segments import GaitError
from .stabilize import StabilizedOrbit, regulator, stabilize

__all__ = [
    "Attractor",
    "Basin",
    "Bifurcation",
    "Branch",
    "Floquet",
    "GaitError",
    "PeriodicOrbit",
    "StabilizedOrbit",
    "UnreachedPrecision",
    "basin",
    "bifurcation_curve",
    "continuation",
    "floquet",
    "improve",
    "periodic_orbit",
    "regulator",
    "search",
    "stabilize",
    "switch_branch",
]
