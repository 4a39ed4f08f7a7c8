"""C source of a march through time: what runtime/march.h takes, for one method and one system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..compiler import Function
from ..compiler.printers.c import STACK, constant_table, literal, prelude
from ..compiler.printers.program import callable_over_lanes
from ..compiler.programs.passes import rolled
from ..compiler.runtime import runtime


class Remembers(NamedTuple):
    """How what a method remembers is made to fit its next step, traced: a `stepping.implicit.Memory`."""

    fit: Function
    restart: Function | None
    """None where efforts do not jump"""


class Guards(NamedTuple):
    """Guards of a run, whose changes of sign are events.

    function    (t, y, u) -> g (guards,), traced
    directions  +1 for changes upwards only, -1 for downwards only, 0 for both
    terminal    whether an event ends the run
    """

    function: Function
    directions: Sequence[int]
    terminal: Sequence[bool]


class Marching(NamedTuple):
    """How lanes march on their own; without it all lanes go together, by steps of one length.

    controlled  whether an estimate of the error chooses the step
    dense       whether records are states within steps
    guards      whose events are located
    looks       whether the system chooses its steps and updates its state
    """

    controlled: bool = False
    dense: bool = False
    guards: Guards | None = None
    looks: bool = False


def opening(lanes: int) -> list[str]:
    """What stands before all functions."""
    return [prelude(lanes), runtime("rows.h"), runtime("subnormal.h")]


def remembering(remembers: Remembers | None) -> list[str]:
    """The functions `fit` and `restart`."""
    given = remembers._asdict() if remembers else {}
    return [text for name, f in given.items() if f for text in callable_over_lanes(rolled(f), name)]


def settings(
    marching: Marching | None,
    nodes: Sequence[float],
    entries: int,
    lanes: int,
    remembers: Remembers | None = None,
    **more: int,
) -> list[str]:
    """Nodes and switches, `more` of which are the step's own; `entries`: vectors in the arrays of a step."""
    way = marching or Marching()
    directions, terminal = (way.guards.directions, way.guards.terminal) if way.guards else ((), ())
    switches = {
        "NODES": len(nodes),
        "MARCH": marching is not None,
        "CONTROLLED": way.controlled,
        "DENSE": way.dense,
        "GUARDS": len(directions),
        "LOOKS": way.looks,
        "REMEMBERS": remembers is not None,
        "JUMPS": remembers is not None and remembers.restart is not None,
        **more,
    }
    return [
        *(f"#define {name} {int(value)}" for name, value in switches.items()),
        f"#define LOCAL {'static __thread' if 8 * lanes * entries > STACK else ''}",
        constant_table("double", "nodes", (literal(float(c)) for c in nodes)),
        *([constant_table("int", "direction", map(int, directions))] if marching else []),
        *([constant_table("int", "terminal", map(int, terminal))] if marching else []),
    ]
