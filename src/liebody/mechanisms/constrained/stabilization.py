"""Stabilisation of constraints: by terms in the equations of motion, or by a projection after each step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ...base.arguments import number
from ...base.errors import IntegrationError
from ...scalars import Array

STABILIZATIONS = ("none", "baumgarte", "projection", "index-2")
TIME_CONSTANT = 5.0  # steps in which violations fall by e, unless a frequency is given


@dataclass(frozen=True)
class Stabilization:
    """Gains of the stabilisation of constraints (docs/constrained.md); zero switches a term off.

    name                "none", "baumgarte", "projection" or "index-2"
    frequency, damping  w [rad/s] and zeta of Baumgarte's  g'' + 2 zeta w g' + w^2 g = 0
    rate                [1/s] at which g and dg/dt decay, apart from each other, in the index-2 form
    projected           whether states are put back on the constraints after each step; "projection" does
    """

    name: str = "none"
    frequency: float = 0.0
    damping: float = 1.0
    rate: float = 0.0
    projected: bool = False

    def __post_init__(self) -> None:
        if self.name not in STABILIZATIONS:
            raise IntegrationError(
                f"stabilization is {self.name!r}, expected one of {', '.join(STABILIZATIONS)}"
            )
        # without its gain a method would do nothing under its name
        needed = {"baumgarte": "frequency", "index-2": "rate"}.get(self.name)
        object.__setattr__(self, "projected", self.projected or self.name == "projection")
        for key in ("frequency", "damping", "rate"):
            value = getattr(self, key)
            gain = number(key, value, finite=False)
            if not (0 <= gain < np.inf) or (key == needed and gain == 0):
                raise IntegrationError(
                    f"Stabilization({self.name!r}): {key} is {value!r}, expected a positive finite number"
                )

    def right(self, b: Array, residual: Array, rate: Array) -> list[Array]:
        """Right sides of A lambda = b with stabilising terms; in index-2 form also for the slip."""
        omega = self.frequency
        zeta = self.damping
        # Baumgarte (1972): the accelerations are asked for g'' = -2 zeta w g' - w^2 g
        if omega:
            b = b + (2 * zeta * omega) * rate + (omega * omega) * residual
        # index-2 form: one set of multipliers makes dg/dt decay, another one corrects dq/dt so that g does
        return [b + self.rate * rate, rate + self.rate * residual] if self.rate else [b]


NOTHING = Stabilization()


@cache
def stabilization(given: str | Stabilization, dt: float | None) -> Stabilization:
    """The stabilisation by name; Baumgarte's and index-2's frequencies are 1/(5 dt) by default."""
    if isinstance(given, Stabilization):
        return given
    if given not in ("baumgarte", "index-2"):
        return Stabilization(given)
    if dt is None:  # the frequency must be far below 1/dt, or explicit steps become unstable
        raise IntegrationError(
            f"{given} needs a frequency, which follows from the step: give dt, or Stabilization("
            f"{given!r}, {'frequency' if given == 'baumgarte' else 'rate'}=...) in rad/s"
        )
    fast = 1 / (TIME_CONSTANT * dt)
    return Stabilization(given, frequency=fast) if given == "baumgarte" else Stabilization(given, rate=fast)
