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
words       the theorem
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .proof import Proof, prove_again
from .reading import Refused, read

__all__ = ["Proof", "Refused", "check"]


def check(data: Mapping[str, Any]) -> Proof:
    """The proof that a certificate (the content of its file) leads to; Refused where it leads to none."""
    return prove_again(read(data))
