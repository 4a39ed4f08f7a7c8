"""Systems in the place of another one: motions that start on a section, and parameters that are set there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..scalar import where
from ..systems import HybridSystem, VariedSystem

QUIET = "quiet_at_start"
HELD, LAST, GAIN, AIM_Q, AIM_V = "held", "last_return", "feedback_gain", "feedback_q", "feedback_v"


class InPlaceOf(HybridSystem):
    """A hybrid system with the parts of another one, and more parameters and memory.

    Works, outputs, guards are those of the system; what it sees is what `_memory` and `_parameters` give.
    """

    def __init__(
        self,
        system: HybridSystem,
        parameters: Mapping[str, Any],
        memory: Mapping[str, Any] | None = None,
        update: Callable[..., Any] | None = None,
        start: Callable[..., Any] | None = None,
    ) -> None:
        self.system = system
        parts = {
            name: self._of(getattr(system, name))
            for name in ("rates", "guards", "step", "stop", "powers", "outputs")
        }
        super().__init__(
            system.group,
            self._of(system.vector_field),
            memory={**system._still.defaults, **(memory or {})},
            flows=system._flowing.defaults,
            parameters={**system.parameters.defaults, **parameters},
            directions=dict(zip(system.guard_names, system.directions, strict=True)),
            update=update,
            start=start or self._of(system.start),
            name=system.name,
            **parts,
        )

    def _of(self, part: Any) -> Any:
        if part is None:
            return None
        return lambda t, q, v, z, p: part(t, q, v, self._memory(z), self._parameters(z, p))

    def _memory(self, z: Any) -> Any:
        kind = self.system.memory.type
        return kind(*(getattr(z, name) for name in kind._fields))

    def _parameters(self, z: Any, p: Any) -> Any:
        kind = self.system.parameters.type
        return kind(*(getattr(p, name) for name in kind._fields))

    def _after(self, t: Any, q: Any, v: Any, z: Any, p: Any, events: Any) -> tuple[Any, Any, Any]:
        """The state and the memory after the update of the system."""
        if self.system.update is None:
            return q, v, z
        heard = self.system.events_type(*events)
        result = self.system.update(t, q, v, self._memory(z), self._parameters(z, p), heard)
        q, v, new = (q, v, result) if isinstance(result, self.system.memory.type) else result
        return q, v, z._replace(**new._asdict())

    def _without(self, events: Any, guard: str, quiet: Any) -> Any:
        """The events, but for those of a guard where it is quiet."""
        return events._replace(**{guard: where(quiet, 0.0, getattr(events, guard))})


class FromSection(InPlaceOf):
    """A hybrid system in which events of one guard do nothing in the first `quiet_at_start` seconds.

    A start lies on the section up to round-off, and it is a matter of its last bit whether the guard changes
    its sign there.
    """

    def __init__(self, system: HybridSystem, guard: str) -> None:
        self._guard = guard
        super().__init__(system, {QUIET: 0.0}, update=self._updated if system.update else None)

    def _updated(self, t: Any, q: Any, v: Any, z: Any, p: Any, events: Any) -> Any:
        return self._after(t, q, v, z, p, self._without(events, self._guard, t < getattr(p, QUIET)))


class FedBack(InPlaceOf):
    """A hybrid system in which parameters change by K x at the start and at each event of a section.

    x (2 nv,) is how far the state is then from (feedback_q, feedback_v), symmetries left out, as `away` gives
    it: (q0, v0, q, v) -> x. K is the parameter feedback_gain (p, 2 nv). Events of the section do nothing in
    the `quiet_at_start` seconds after one: a guard may depend on the parameters that it changes.
    """

    def __init__(
        self, system: HybridSystem, section: tuple[str, int], inputs: Sequence[str], away: Callable[..., Any]
    ) -> None:
        self._section, self._away = section, away
        self._inputs = [system.parameters.fields[name] for name in inputs]
        size = sum(system.parameters.defaults[name].size for name in inputs)
        nv, neutral = system.nv, system.group.neutral()
        gain = {GAIN: np.zeros((size, 2 * nv)), AIM_Q: neutral, AIM_V: np.zeros(nv)}
        memory = {HELD: np.zeros(size), LAST: 0.0}
        super().__init__(system, {**gain, QUIET: 0.0}, memory, self._updated, self._started)

    def _parameters(self, z: Any, p: Any) -> Any:
        given, first, new = super()._parameters(z, p), 0, {}
        for name in self._inputs:
            value = np.asarray(getattr(given, name))
            change = np.asarray(getattr(z, HELD))[first : first + value.size]
            new[name], first = np.asarray(value + change.reshape(value.shape))[()], first + value.size
        return given._replace(**new)

    def _fed_back(self, q: Any, v: Any, p: Any) -> Any:
        return getattr(p, GAIN) @ self._away(getattr(p, AIM_Q), getattr(p, AIM_V), q, v)

    def _started(self, t: Any, q: Any, v: Any, z: Any, p: Any) -> Any:
        z = z._replace(**{HELD: self._fed_back(q, v, p)})
        if self.system.start is None:
            return z
        start = self.system.start(t, q, v, self._memory(z), self._parameters(z, p))
        return z._replace(**start._asdict())

    def _updated(self, t: Any, q: Any, v: Any, z: Any, p: Any, events: Any) -> Any:
        guard, direction = self._section
        heard = self._without(events, guard, t - getattr(z, LAST) < getattr(p, QUIET))
        q, v, z = self._after(t, q, v, z, p, heard)
        happened = getattr(heard, guard)
        back = (happened * happened if direction == 0 else happened * direction) > 0.5
        new = zip(self._fed_back(q, v, p), getattr(z, HELD), strict=True)
        held = np.array([where(back, a, b) for a, b in new])
        return q, v, z._replace(**{HELD: held, LAST: where(back, t, getattr(z, LAST))})


@lru_cache(maxsize=64)
def from_section(system: HybridSystem, guard: str) -> HybridSystem:
    return FromSection(system, guard)


@lru_cache(maxsize=64)
def varied(system: HybridSystem, names: tuple[str, ...]) -> VariedSystem:
    """The system with its derivatives by start and parameters; compiled once for all their values."""
    return VariedSystem(system, names)
