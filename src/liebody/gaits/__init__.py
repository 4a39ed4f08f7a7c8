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
evolution     an evolution strategy for one objective or several, within limits
designs       designs that were tried, with their gaits; files of them
design        parameters of a robot and its controller with which gaits are better
cost          what a gait costs: work of its drives over weight and distance
proofs/       theorems: that an orbit exists, is alone, and is stable, with certificates
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
from .cost import cost_of_transport
from .design import design
from .designs import Design, Designs
from .floquet import Floquet, floquet
from .orbit import PeriodicOrbit, largest_multiplier, periodic_orbit
from .proofs import (
    Certificate,
    Family,
    ProofError,
    ProvedBasin,
    ProvedBifurcation,
    prove,
    prove_basin,
    prove_branch,
    prove_field,
    prove_flip,
    prove_fold,
)
from .search import improve, search
from .segments import GaitError
from .stabilize import StabilizedOrbit, regulator, stabilize

__all__ = [
    "Attractor",
    "Basin",
    "Bifurcation",
    "Branch",
    "Certificate",
    "Design",
    "Designs",
    "Family",
    "Floquet",
    "GaitError",
    "PeriodicOrbit",
    "ProofError",
    "ProvedBasin",
    "ProvedBifurcation",
    "StabilizedOrbit",
    "UnreachedPrecision",
    "basin",
    "bifurcation_curve",
    "continuation",
    "cost_of_transport",
    "design",
    "floquet",
    "improve",
    "largest_multiplier",
    "periodic_orbit",
    "prove",
    "prove_basin",
    "prove_branch",
    "prove_field",
    "prove_flip",
    "prove_fold",
    "regulator",
    "search",
    "stabilize",
    "switch_branch",
]
