"""Motions that start on a section: the event there has happened, and must not happen again at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..scalar import where
from ..systems import HybridSystem, VariedSystem

QUIET = "quiet_at_start"


class FromSection(HybridSystem):
    """A hybrid system in which events of one guard do nothing in the first `quiet_at_start` seconds.

    A start lies on the section up to round-off, and it is a matter of its last bit whether the guard changes
    its sign there. Works, outputs, parameters, memory are those of the system.
    """

    def __init__(self, system: HybridSystem, guard: str) -> None:
        self.system, self._guard = system, guard
        parts = {
            name: self._of(getattr(system, name))
            for name in ("rates", "start", "guards", "step", "stop", "powers", "outputs")
        }
        super().__init__(
            system.group,
            self._of(system.vector_field),
            memory=system._still.defaults,
            flows=system._flowing.defaults,
            parameters={**system.parameters.defaults, QUIET: 0.0},
            directions=dict(zip(system.guard_names, system.directions, strict=True)),
            update=self._updated if system.update else None,
            name=system.name,
            **parts,
        )

    def _of(self, part: Any) -> Any:
        if part is None:
            return None
        return lambda t, q, v, z, p: part(t, q, v, self._memory(z), self._parameters(p))

    def _memory(self, z: Any) -> Any:
        return self.system.memory.type(*z)

    def _parameters(self, p: Any) -> Any:
        return self.system.parameters.type(*p[:-1])

    def _updated(self, t: Any, q: Any, v: Any, z: Any, p: Any, events: Any) -> Any:
        happened = getattr(events, self._guard)
        heard = events._replace(**{self._guard: where(t < getattr(p, QUIET), 0.0, happened)})
        heard = self.system.events_type(*heard)
        assert self.system.update is not None
        result = self.system.update(t, q, v, self._memory(z), self._parameters(p), heard)
        return (q, v, result) if isinstance(result, self.system.memory.type) else result


@lru_cache(maxsize=64)
def from_section(system: HybridSystem, guard: str) -> HybridSystem:
    return FromSection(system, guard)


@lru_cache(maxsize=64)
def varied(system: HybridSystem, names: tuple[str, ...]) -> VariedSystem:
    """The system with its derivatives by start and parameters; compiled once for all their values."""
    return VariedSystem(system, names)
