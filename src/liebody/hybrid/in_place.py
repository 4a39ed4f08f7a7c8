"""Systems in the place of another one: its parts, with more parameters, memory and flows beside its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import ModelError
from ..bodies.labels import labels
from ..compiler.programs.layout import FlatLayout
from ..scalars import Array
from .system import HybridStates, HybridSystem

PARTS = ("rates", "start", "guards", "step", "stop", "powers", "outputs")


class InPlaceOf(HybridSystem):
    """A hybrid system with the parts of another one, and more parameters, memory and flows.

    The parts of the system see what `_memory` and `_parameters` give. `own` are arguments of `HybridSystem`
    in the place of its parts; an update is among them, or there is none.

    Raises ModelError for systems by time stepping: their steps are not those of a vector field.
    """

    def __init__(
        self,
        system: HybridSystem,
        *,
        parameters: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        flows: Mapping[str, Any] | None = None,
        **own: Any,
    ) -> None:
        if not system.has_field:
            raise ModelError(
                f"{system.name} moves by time stepping; derivatives and periodic orbits are those "
                "of systems with a vector field: take hybrid.robot_system(robot, ...)"
            )
        self.system, self.tree = system, getattr(system, "tree", None)
        parts = {name: self._of(getattr(system, name)) for name in PARTS}
        super().__init__(
            system.group,
            self._of(system.vector_field),
            memory=_beside(system._still, memory),
            flows=_beside(system._flowing, flows),
            parameters=_beside(system.parameters, parameters),
            directions=dict(zip(system.guard_names, system.directions, strict=True)),
            **{"name": system.name, **parts, **own},
        )

    def described(self, states: HybridStates) -> dict[str, Any]:
        """With the names of a robot; without its energies, which most runs of a search do not need."""
        found = super().described(states)
        if self.tree is not None:
            found["coordinates"], found["dofs"] = labels(self.tree)
        return found

    def _of(self, part: Callable[..., Any] | None) -> Any:
        return part and (lambda *at: part(*self._at(*at)))

    def _at(self, t: Any, q: Any, v: Any, z: Any, p: Any) -> tuple[Any, ...]:
        """(t, q, v, z, p) as the system sees them."""
        return t, q, v, self._memory(z), self._parameters(z, p)

    def _memory(self, z: Any) -> Any:
        kind = self.system.memory.type
        return kind(*(getattr(z, name) for name in kind._fields))

    def _parameters(self, z: Any, p: Any) -> Any:
        kind = self.system.parameters.type
        return kind(*(getattr(p, name) for name in kind._fields))

    def _after(self, at: tuple[Any, ...], happened: Any) -> tuple[Array, Array, Any]:
        """q, v, z after the update of the system."""
        q, v, z, _ = self.system._after_update(self._at(*at), happened)
        return q, v, at[3]._replace(**z._asdict())


def _beside(layout: FlatLayout, more: Mapping[str, Any] | None) -> dict[str, Any]:
    """Default values of a system, and more. Raises ModelError for a name that both have."""
    for name in more or {}:
        if name in layout.defaults:
            raise ModelError(
                f"the {layout.kind} {name!r} has a name that is needed here; give it another one"
            )
    return {**layout.defaults, **(more or {})}


def changed(p: Any, fields: Sequence[str], x: Array) -> Any:
    """Parameters, of which those of these fields are changed by the entries of x, one after the other."""
    return p._replace(**changes(p._asdict(), fields, x))


def changes(given: Mapping[str, Any], names: Sequence[str], x: Array) -> dict[str, Any]:
    """Of these names, the values that are changed by the entries of rows x (..., n), one after the other."""
    new, first = {}, 0
    for name in names:
        value = np.asarray(given[name])
        part = x[..., first : first + value.size]
        new[name] = np.asarray(value + part.reshape((*part.shape[:-1], *value.shape)))[()]
        first += value.size
    return new
