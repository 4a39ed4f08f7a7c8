"""C source of iterations of differential dynamic programming, printed after the source of its passes."""

from __future__ import annotations

from enum import IntEnum

from ..compiler.printers.c import DOUBLE, NumberType, enumeration
from ..compiler.runtime import runtime

LENGTHS = 16  # lengths 1, 1/2, 1/4, ... that are tried
ACCEPTED = 0.1  # of the decrease that is predicted
CLOSED = 1e-10  # gaps below are round-off
CLOSED_FLOAT = 1e-5  # the same, of floats
# of the damping, in units of Q_uu
LEAST = 1e-9
MOST = 1e9
FACTOR = 10.0
NEAR = 1e-2  # predicted decrease, in units of the cost, from which on steps are seen as curved
ROUND_OFF = 1e-9  # in units of the cost: predictions below it may be lost in it
ROUND_OFF_FLOAT = 1e-4  # the same, of floats


class Ended(IntEnum):
    """How an iteration has ended."""

    STEPPED = 0
    REJECTED = 1
    WITHIN_TOLERANCE = 2
    WITHIN_ROUND_OFF = 3
    NO_MINIMUM = 4
    NO_DESCENT = 5
    LIMITED = 6
    NO_MEMORY = 7


def iterations(number: NumberType = DOUBLE) -> list[str]:
    """The text of an iteration, with its constants and outcomes."""
    constants = {
        "ACCEPTED": ACCEPTED,
        "CLOSED": CLOSED if number is DOUBLE else CLOSED_FLOAT,
        "LEAST": LEAST,
        "MOST": MOST,
        "FACTOR": FACTOR,
        "NEAR": NEAR,
        "ROUND_OFF": ROUND_OFF if number is DOUBLE else ROUND_OFF_FLOAT,
    }
    return [
        enumeration({"LENGTHS": LENGTHS} | {x.name: int(x) for x in Ended}),
        *(f"#define {name} {number.literal(value)}" for name, value in constants.items()),
        runtime("descent.h"),
    ]
