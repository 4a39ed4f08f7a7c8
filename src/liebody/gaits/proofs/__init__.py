"""Proofs about periodic orbits: that they exist, where, alone, and how stable they are.

equations     what a proof is about: vector fields, guards and jumps between events, with exact constants
phases        these equations of the orbit of a hybrid system
symmetries    translations under which they do not change
closing       how orbits close with unit quaternions, and with a drive
system        the equations of a closed orbit over many short steps, and Krawczyk's operator for them
blocks        solutions of linear equations of many steps, in linear time
events        that no other event happens within the phases
multipliers   enclosures of the multipliers of the return map
moving        boxes that move with a parameter: an orbit for each of its values in a part of an interval
families      such parts one after the other, as one curve of orbits
extended      orbits with a multiplier 1 or -1, as orbits of a larger system
bifurcations  flips and folds, proved by this system
relative      equations of orbits up to shifts, in states that no shift changes
basins        starts from which every motion converges to a proved orbit
certificate   what a proof has found, and the file that another program checks
prove         the calls that do all of this

The arithmetic is in compiler/runtime/interval.h; the program that checks is src/liebody_check.
"""

from .basins import ProvedBasin
from .bifurcations import ProvedBifurcation
from .certificate import Certificate
from .equations import ProofError
from .families import Family
from .prove import prove, prove_basin, prove_branch, prove_field, prove_flip, prove_fold

__all__ = [
    "Certificate",
    "Family",
    "ProofError",
    "ProvedBasin",
    "ProvedBifurcation",
    "prove",
    "prove_basin",
    "prove_branch",
    "prove_field",
    "prove_flip",
    "prove_fold",
]
