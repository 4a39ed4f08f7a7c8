"""Checks certificates of periodic orbits, and says in words what they prove.

    python -m liebody_check orbit.json

A certificate (`liebody.gaits.prove`) holds equations, nodes near an orbit, and a radius: no bounds. This
program computes all bounds again, in the ball arithmetic of Arb (python-flint), and shares no code with the
prover: it imports nothing of liebody.

reading     the file, and whether it is one: the only place that trusts nothing
numbers     values with derivatives as power series of time, over Arb
symmetries  that translations leave the equations as they are
blocks      solutions of the linear equations of many steps
motions     boxes of motions after a step, and along it
proof       Krawczyk's inequality, multipliers, other events
families    the same for boxes that move with a parameter, one beside the other
larger      the equations of an orbit together with a change of its states
bifurcations  the same for an orbit with the multiplier 1 or -1, whose parameter is unknown
basins      starts from which every motion converges to an orbit
words       the theorem
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .basins import BasinProof, prove_basin_again
from .bifurcations import BifurcationProof, prove_bifurcation_again
from .families import FamilyProof, prove_family_again
from .proof import Proof, prove_again
from .reading import BasinClaim, BifurcationClaim, FamilyClaim, Refused, read

__all__ = ["BasinProof", "BifurcationProof", "FamilyProof", "Proof", "Refused", "check"]


def check(data: Mapping[str, Any]) -> Any:
    """The `Proof` that a certificate (the content of its file) leads to.

    It is a `FamilyProof`, `BifurcationProof` or `BasinProof` for certificates of these.

    Errors: Refused where it leads to none.
    """
    claim = read(data)
    if isinstance(claim, FamilyClaim):
        return prove_family_again(claim)
    if isinstance(claim, BasinClaim):
        return prove_basin_again(claim)
    return prove_bifurcation_again(claim) if isinstance(claim, BifurcationClaim) else prove_again(claim)
