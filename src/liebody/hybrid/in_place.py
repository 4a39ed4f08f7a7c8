"""Systems that extend another one: its parts, with further parameters, memory and flows beside its own.

Derivatives and searches of periodic orbits need such systems, for instance one that carries variations along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import ModelError
from ..bodies.labels import labels
from ..compiler.programs.layout import FlatLayout
from ..runs import HybridStates
from ..scalars import Array
from .system import HybridSystem

PARTS = ("rates", "start", "guards", "step", "stop", "powers", "outputs")


class ExtendedSystem(HybridSystem):
    """A hybrid system with the parts of another one, and more parameters, memory and flows.

    system                     the original system; its functions get `original_memory` and
                               `original_parameters`
    parameters, memory, flows  names and values that are added to the original system
    replaced                   arguments of `HybridSystem` that replace parts of the original system. The
                               update of the original system is not taken over: give update, or there is none

    Raises ModelError for systems by time stepping, which have no vector field.
    """

    def __init__(
        self,
        system: HybridSystem,
        *,
        parameters: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        flows: Mapping[str, Any] | None = None,
        **replaced: Any,
    ) -> None:
        if not system.has_field:
            raise ModelError(
                f"{system.name} moves by time stepping; derivatives and periodic orbits are those "
                "of systems with a vector field: take hybrid.robot_system(robot, ...)"
            )
        if system.calls:
            raise ModelError(
                f"{system.name} calls {system.calls[0].kernel.name} between steps, which has no derivatives; "
                "take controllers of `hybrid` that are functions of the state"
            )
        self.system = system
        self.tree = getattr(system, "tree", None)
        # each part of the original system becomes a part of this one, on the original arguments
        parts = {name: self._on_original(getattr(system, name)) for name in PARTS}
        super().__init__(
            system.group,
            self._on_original(system.vector_field),
            memory=_beside(system.constant_memory, memory),
            flows=_beside(system.flowing_memory, flows),
            parameters=_beside(system.parameters, parameters),
            directions=dict(zip(system.guard_names, system.directions, strict=True)),
            **{"name": system.name, **parts, **replaced},
        )

    def described(self, states: HybridStates) -> dict[str, Any]:
        """With the names of a robot; without its energies, which most runs of a search do not need."""
        fields = super().described(states)
        if self.tree is not None:
            fields["coordinates"], fields["dofs"] = labels(self.tree)
        return fields

    def _on_original(self, part: Callable[..., Any] | None) -> Any:
        """A function of this system that calls a part of the original system."""
        return part and (lambda *arguments: part(*self.original_arguments(*arguments)))

    # -- the original system, as functions of this one ------------------------------------------------------

    def original_arguments(self, t: Any, q: Any, v: Any, z: Any, p: Any) -> tuple[Any, ...]:
        """The arguments (t, q, v, z, p) of the original system."""
        return t, q, v, self.original_memory(z), self.original_parameters(z, p)

    def original_memory(self, z: Any) -> Any:
        """The memory of the original system, from this system's memory z."""
        kind = self.system.memory.type
        return kind(*(getattr(z, name) for name in kind._fields))

    def original_parameters(self, z: Any, p: Any) -> Any:
        """The parameters of the original system; a subclass may change them, by the memory z for instance."""
        kind = self.system.parameters.type
        return kind(*(getattr(p, name) for name in kind._fields))

    def after_original_update(self, arguments: tuple[Any, ...], events: Any) -> tuple[Array, Array, Any]:
        """q, v, z after the update of the original system at this system's (t, q, v, z, p)."""
        q, v, z, _ = self.system.after_update(self.original_arguments(*arguments), events)
        return q, v, arguments[3]._replace(**z._asdict())


def _beside(layout: FlatLayout, more: Mapping[str, Any] | None) -> dict[str, Any]:
    """Default values of a system, and more. Raises ModelError for a name that both have."""
    for name in more or {}:
        if name in layout.defaults:
            raise ModelError(
                f"the {layout.kind} {name!r} has a name that is needed here; give it another one"
            )
    return {**layout.defaults, **(more or {})}


def with_changes(values: Any, names: Sequence[str], x: Array) -> Any:
    """Values, of which the entries of x are added to these names, one name after the other.

        with_changes({"K": np.zeros(2), "m": 1.0}, ["m", "K"], np.array([0.5, 2.0, 3.0]))
        # {"K": array([2.0, 3.0]), "m": 1.5}

    values   {name: array}, such as parameters of a run, or a named tuple, such as the p of a part of a system
    x        (..., n): leading axes become leading axes of the changed values; floats or symbols
    returns  all values, as a dictionary, or as a named tuple of the same type
    """
    fields = values if isinstance(values, Mapping) else values._asdict()
    changed: dict[str, Any] = {}
    first = 0
    for name in names:
        value = np.asarray(fields[name])
        part = x[..., first : first + value.size]
        changed[name] = np.asarray(value + part.reshape((*part.shape[:-1], *value.shape)))[()]
        first += value.size
    return {**values, **changed} if isinstance(values, Mapping) else values._replace(**changed)
