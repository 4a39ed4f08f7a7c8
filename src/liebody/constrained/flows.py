"""The parts of a compiled loop over steps (`codegen.Flow`) for a system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..codegen import Function, Program
from ..errors import IntegrationError
from . import equations
from .equations import Stabilization
from .passes import Cells, Memory, written
from .system import System

Array = Any
Part = Callable[[], Function | Program]

STABILIZATIONS = ("none", "baumgarte", "projection", "index-2")
TIME_CONSTANT = 5.0  # steps in which violations fall by e, unless a frequency is given


def stabilization(given: str | Stabilization, dt: float | None) -> Stabilization:
    """The stabilisation by name; Baumgarte's and index-2's frequencies are 1/(5 dt) by default."""
    if isinstance(given, Stabilization):
        return given
    if given not in STABILIZATIONS:
        raise IntegrationError(f"stabilization is {given!r}, expected one of {', '.join(STABILIZATIONS)}")
    if given in ("none", "projection"):
        return Stabilization(given, projected=given == "projection")
    if dt is None:
        raise IntegrationError(
            f"{given} needs a frequency, which follows from the step: give dt, or Stabilization("
            f"{given!r}, {'frequency' if given == 'baumgarte' else 'rate'}=...) in rad/s"
        )
    fast = 1 / (TIME_CONSTANT * dt)
    return Stabilization(given, frequency=fast) if given == "baumgarte" else Stabilization(given, rate=fast)


class Parts(NamedTuple):
    """field, advance, pull and after of a `Flow` over y = (q, v), as calls that make them."""

    field: Part
    advance: Part
    pull: Part
    after: Part | None


def parts(
    system: System,
    stabilized: Stabilization,
    redundant: bool,
    feedback: Callable[..., Any] | None = None,
) -> Parts:
    """The parts for a stabilisation; `feedback` (t, q, v) -> u (nu,) takes the place of the efforts."""
    nq, nv = system.nq, system.nv
    point, algebra = nq + nv, nq - len(system.bodies) + nv

    def field(memory: Memory, t: Cells, y: Cells, u: Cells) -> dict[str, Cells]:
        if feedback is not None:
            (u,) = memory.apply(
                lambda t, y: np.asarray(feedback(t, y[:nq], y[nq:])), t.reshape(1), y.reshape(1, -1)
            )
        return {"f": equations.motion(memory, system, t, y, u, stabilized, redundant).field}

    def advance(memory: Memory, y: Cells, psi: Cells) -> dict[str, Cells]:
        return {"z": equations.advanced(memory, system, y, psi)}

    def pull(memory: Memory, psi: Cells, f: Cells) -> dict[str, Cells]:
        return {"k": equations.pulled(memory, system, psi, f)}

    def after(memory: Memory, t: Cells, y: Cells, u: Cells) -> dict[str, Cells]:
        return {"z": equations.projected(memory, system, t, y, redundant)}

    state = {"t": (), "y": point, "u": system.nu}
    large = system.is_large
    return Parts(
        lambda: written("field", state, field, large),
        lambda: written("advance", {"y": point, "psi": algebra}, advance, large),
        lambda: written("pull", {"psi": algebra, "f": algebra}, pull, large),
        (lambda: written("after", state, after, large)) if stabilized.projected else None,
    )
