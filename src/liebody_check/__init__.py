"""Checks certificates of periodic orbits, and says in words what they prove.

    python -m liebody_check orbit.json
    python -m liebody_check --steps c orbit.json      # for orbits of thousands of steps

A certificate (`liebody.gaits.prove`) holds equations, nodes near an orbit, and radii: no bounds. This
program computes all bounds again, in the ball arithmetic of Arb (python-flint), and shares no code with the
prover: it imports nothing of liebody.

claims      what a file claims, as exact numbers
reading     the file, and whether it is one: the only place that trusts nothing
numbers     values with derivatives as power series of time, over Arb
symmetries  that translations leave the equations as they are
closing     that quaternions are rotations, and a drive repeats
blocks      solutions of the linear equations of many steps
motions     boxes of motions after a step, and along it
compiled    the same by steps.c, in balls of doubles: another program for the part that takes time
proof       Krawczyk's inequality, multipliers, other events
families    the same for boxes that move with a parameter, one beside the other
writing     functions made of other functions, and their derivatives
larger      the equations of an orbit together with a change of its states
bifurcations  the same for an orbit with the multiplier 1 or -1, whose parameter is unknown
relative    states that shifts do not change
basins      starts from which every motion converges to an orbit
words       the theorem
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .basins import BasinProof, prove_basin_again
from .bifurcations import BifurcationProof, prove_bifurcation_again
from .claims import BasinClaim, BifurcationClaim, Claim, FamilyClaim, Refused
from .compiled import StepsInC, Unavailable
from .families import FamilyProof, prove_family_again
from .motions import Steps, StepsInPython
from .proof import Proof, prove_again
from .reading import read

__all__ = ["BasinProof", "BifurcationProof", "FamilyProof", "Proof", "Refused", "Unavailable", "check"]


def check(data: Mapping[str, Any], steps: str = "python") -> Any:
    """The `Proof` to which a certificate (the content of its file) leads.

    Certificates of families, flips, folds and basins lead to a `FamilyProof`, a `BifurcationProof` or a
    `BasinProof`.

    steps  "python": all bounds are balls of Arb. "c": steps.c computes the bounds of steps, for orbits of
           thousands of them; the system's C compiler compiles it first

    Errors: Refused where the certificate proves nothing; Unavailable where this machine has no steps in C.
    """
    if steps not in ("python", "c"):
        raise ValueError(f"steps is {steps!r}, expected 'python' or 'c'")
    claim = read(data)
    order = claim.order if isinstance(claim, Claim) else claim.claim.order
    program: Steps = StepsInC(order) if steps == "c" else StepsInPython(order)
    if isinstance(claim, FamilyClaim):
        return prove_family_again(claim, program)
    if isinstance(claim, BifurcationClaim):
        return prove_bifurcation_again(claim, program)
    return prove_basin_again(claim, program) if isinstance(claim, BasinClaim) else prove_again(claim, program)
