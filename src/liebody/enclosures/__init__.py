"""Proved simulations: tubes that contain every motion from a box of states, for a box of parameters.

motion     what moves: y' = f(y) of a system, traced, with exact constants
sets       boxes along directions that turn with the motion, and how a step moves them
enclosure  the call, and what it returns

The arithmetic is in compiler/runtime/interval.h, the steps in compiler/runtime/flow_enclosure.h.
"""

from .enclosure import Enclosure, enclose
from .sets import EnclosureError

__all__ = ["Enclosure", "EnclosureError", "enclose"]
