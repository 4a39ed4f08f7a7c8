"""The base class of implicit methods for mechanical systems, from the equations to compiled steps."""

from __future__ import annotations

from typing import Any

from ..base.errors import IntegrationError
from ..groups import LieGroup
from .equations import MechanicalEquations
from .mechanical_flow import MechanicalFlow, with_parameters


class MechanicalMethod:
    """A method for mechanical systems. `flow` makes its compiled steps.

    A subclass has a name and an order, and `_flow`, which states the equations of a step for a system.
    """

    name: str
    order: int
    takes_constraints = True
    takes_velocity_constraints = False
    estimates_errors = False

    def flow(
        self,
        group: LieGroup,
        M: Any,
        *terms: Any,
        tolerance: float = 1e-15,
        recipe: str | None = None,
        **options: Any,
    ) -> MechanicalFlow:
        """The compiled steps of this method for M dv/dt + b + J^T lambda = Q, g = 0.

        terms      Q, g, J, and further `options`: arguments of `MechanicalEquations`
        tolerance  of Newton's method, relative; the default is round-off
        recipe     a text that determines all arguments, with which compiled code is found untraced
        """
        # Refuse constraints that the equations of the method have no unknowns for, before anything is traced.
        system = MechanicalEquations(group, M, *terms, **options)
        if system.m and not self.takes_constraints:
            raise IntegrationError(
                f"{self.name} takes no constraints; take 'generalized-alpha', 'variational' or "
                "'half-explicit4'"
            )
        if not system.holonomic and not self.takes_velocity_constraints:
            raise IntegrationError(
                f"{self.name} needs the constraints as g(q) = 0, not only J; half-explicit and Radau methods "
                "take J alone"
            )
        # The parameters of the method are part of the recipe, by its repr: other numbers are other code.
        flow = self._flow(system, tolerance=tolerance, recipe=f"{recipe} {self!r}" if recipe else None)
        if system.at is None:
            return flow
        return with_parameters(flow, lambda u: self._flow(system.with_parameters(u)))

    def _flow(self, system: MechanicalEquations, **options: Any) -> MechanicalFlow:
        """The steps for this system; `options` are options of `ImplicitFlow`."""
        raise NotImplementedError
