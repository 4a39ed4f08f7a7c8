"""Checks certificates of periodic orbits, and says in words what they prove.

    python -m liebody_check orbit.json

A certificate (`liebody.gaits.prove`) holds equations, nodes near an orbit, and a radius: no bounds. This
program computes all bounds again, in the ball arithmetic of Arb (python-flint), and shares no code with the
prover: it imports nothing of liebody.

reading     the file, and whether it is one: the only place that trusts nothing
numbers     values with derivatives as power series of time, over Arb
symmetries  that translations leave the equations as they are
closing     that quaternions are rotations, and a drive repeats
blocks      solutions of the linear equations of many steps
motions     boxes of motions after a step, and along it
proof       Krawczyk's inequality, multipliers, other events
families    the same for boxes that move with a parameter, one beside the other
words       the theorem
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .families import FamilyProof, prove_family_again
from .proof import Proof, prove_again
from .reading import FamilyClaim, Refused, read

__all__ = ["FamilyProof", "Proof", "Refused", "check"]


def check(data: Mapping[str, Any]) -> Any:
    """The `Proof`, or `FamilyProof`, that a certificate (the content of its file) leads to.

    Errors: Refused where it leads to none.
    """
    claim = read(data)
    return prove_family_again(claim) if isinstance(claim, FamilyClaim) else prove_again(claim)
