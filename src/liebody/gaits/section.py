"""Systems in the place of another one: motions that start on a section, and parameters that are set there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..hybrid import ExtendedSystem, HybridSystem, VariedSystem, with_changes
from ..scalars import where

QUIET = "quiet_at_start"
HELD = "held"
LAST = "last_return"
GAIN = "feedback_gain"
AIM_Q = "feedback_q"
AIM_V = "feedback_v"


class FromSection(ExtendedSystem):
    """A hybrid system in which events of one guard do nothing in the first `quiet_at_start` seconds.

    A start lies on the section up to round-off, and it is a matter of its last bit whether the guard changes
    its sign there.
    """

    def __init__(self, system: HybridSystem, guard: str) -> None:
        self._guard = guard
        super().__init__(system, parameters={QUIET: 0.0}, update=self._updated if system.update else None)

    def _updated(self, t: Any, q: Any, v: Any, z: Any, p: Any, events: Any) -> Any:
        return self.after_original_update(
            (t, q, v, z, p), _without(events, self._guard, t < getattr(p, QUIET))
        )


class FedBack(ExtendedSystem):
    """A hybrid system in which parameters change by K x at the start and at each event of a section.

    x (2 nv,) is how far the state is then from (feedback_q, feedback_v), symmetries left out, as `away` gives
    it: (q0, v0, q, v) -> x. K is the parameter feedback_gain (p, 2 nv). Events of the section do nothing in
    the `quiet_at_start` seconds after one: a guard may depend on the parameters that it changes.
    """

    def __init__(
        self, system: HybridSystem, section: tuple[str, int], inputs: Sequence[str], away: Callable[..., Any]
    ) -> None:
        self._section = section
        self._away = away
        self._inputs = [system.parameters.fields[name] for name in inputs]
        size = sum(system.parameters.defaults[name].size for name in inputs)
        nv = system.nv
        neutral = system.group.neutral()
        gain = {GAIN: np.zeros((size, 2 * nv)), AIM_Q: neutral, AIM_V: np.zeros(nv)}
        super().__init__(
            system, parameters={**gain, QUIET: 0.0}, memory={HELD: np.zeros(size), LAST: 0.0},
            update=self._updated, start=self._started,
        )  # fmt: skip

    def original_parameters(self, z: Any, p: Any) -> Any:
        return with_changes(super().original_parameters(z, p), self._inputs, np.asarray(getattr(z, HELD)))

    def _fed_back(self, q: Any, v: Any, p: Any) -> Any:
        return getattr(p, GAIN) @ self._away(getattr(p, AIM_Q), getattr(p, AIM_V), q, v)

    def _started(self, t: Any, q: Any, v: Any, z: Any, p: Any) -> Any:
        # the feedback acts from the start on, before the system's own start sees its parameters
        z = z._replace(**{HELD: self._fed_back(q, v, p)})
        if self.system.start is None:
            return z
        return z._replace(**self.system.start(*self.original_arguments(t, q, v, z, p))._asdict())

    def _updated(self, t: Any, q: Any, v: Any, z: Any, p: Any, events: Any) -> Any:
        guard, direction = self._section
        # an event just after the last return may be the same one, moved by the changed parameters
        heard = _without(events, guard, t - getattr(z, LAST) < getattr(p, QUIET))
        q, v, z = self.after_original_update((t, q, v, z, p), heard)
        happened = getattr(heard, guard)
        back = (happened * happened if direction == 0 else happened * direction) > 0.5
        # sample at the return and hold until the next one
        new = zip(self._fed_back(q, v, p), getattr(z, HELD), strict=True)
        held = np.array([where(back, a, b) for a, b in new])
        return q, v, z._replace(**{HELD: held, LAST: where(back, t, getattr(z, LAST))})


def _without(events: Any, guard: str, quiet: Any) -> Any:
    """The events, with no event of a guard while it is quiet."""
    return events._replace(**{guard: where(quiet, 0.0, getattr(events, guard))})


# compiled once for all values of their parameters
from_section = lru_cache(maxsize=64)(FromSection)
varied = lru_cache(maxsize=64)(VariedSystem)
