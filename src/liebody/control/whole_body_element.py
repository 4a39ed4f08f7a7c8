"""Whole-body control within simulations: an element that holds each command for a control period."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.arguments import checked, wrong_shape
from ..base.errors import SECONDS, ModelError, positive
from ..bodies import Tree
from ..compiler import ACTIVE_SET, FlatLayout, Kernel
from ..hybrid import Element, State
from ..robot import Robot
from ..scalars import Array, floor, where
from .task_programs import UNFINISHED

EARLY = 2e-9  # by which a call may come too early; systems count times that differ by 1e-9 as the same [s]


class ElementController(ABC):
    """The part of a `WholeBody` that its element uses."""

    robot: Robot
    layout: FlatLayout
    solver: str

    @property
    @abstractmethod
    def kernel(self) -> Kernel:
        """The command as a function of (q, v, p)."""

    @abstractmethod
    def pack(self, parameters: Mapping[str, Any] | None = None) -> Array:
        """Values of the parameters in one array."""


class WholeBodyElement(Element):
    """A whole-body controller as an element of `robot_system` and `TimeStepping`: `WholeBody.element`.

        pushed = TimeStepping(robot, wb.element(), Contact(feet), step=1e-3)
        run = pushed.simulate(q0, t_end=2.0, parameters={"wb_base_target": T})

    At multiples of the period the command is computed from the state, before the step from there; its efforts
    act, unchanged, until the next one. The controller is the compiled function of the calls from Python, and
    gives the same numbers. A simulation is compiled without it, so that it takes no longer to compile.

    controller  the `WholeBody`, for the tree of the system
    period      time between two commands, a parameter of the system                                      [s]
    reference   (s, p) -> {name: value}: values of parameters of the controller that follow from the state s
                of the robot and its time s.t. p has all parameters of the element, p.base_target for
                "base.target"; None: parameters are as the simulation gives them
    parameters  {word: value} of further parameters that `reference` reads
    name        prefix of the names in the system: `wb_period`, and of the controller's parameter
                "base.target": `wb_base_target`. Free parameters of the controller's robot are among them, so
                that its masses may differ from the masses of the robot that is simulated

    Memory: `wb_tau` (nv,), the efforts; `wb_next`, the time of the next command; `wb_status`, as of
    `WholeBodyCommand`; `wb_unsolved`, the number of commands so far with status 2; `wb_active`, with the
    solver "active-set", the limits from which the next command starts. A record at the time of
    a command has the efforts before it, and zeros at the start. Steps of `TimeStepping` have one length: a
    command comes with the first step that begins at its time or later, so the period should be a multiple of
    the step. Other methods end a step there.

    A call with impossible values, such as a negative mass, ends the member, as any state that is not finite.

    Errors: ModelError for a tree that is not the controller's, for further parameters with a name that is
    taken, and for a `reference` that returns no dictionary or names that the controller does not have;
    ShapeError for its values of other shapes.
    """

    @checked
    def __init__(
        self,
        controller: ElementController,
        period: float = 1e-3,
        reference: Callable[..., Mapping[str, Any]] | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        name: str = "wb",
    ) -> None:
        super().__init__()
        self.name = name
        self.controller = controller
        self.reference = reference
        self.called = controller.kernel
        self.memory = {"tau": np.zeros(controller.robot.nv), "next": 0.0, "status": 0.0, "unsolved": 0.0}
        if controller.solver == ACTIVE_SET:
            self.memory["active"] = np.zeros(controller.kernel.outputs["active"])
        self.parameters = {"period": positive("period", period, SECONDS)}
        values = controller.layout.named(controller.pack())
        of_controller = {word: values[key] for key, word in controller.layout.fields.items()}
        for more in (of_controller, parameters or {}):
            for word, value in more.items():
                if word in self.parameters:
                    raise ModelError(f"{name} has two parameters {word!r}; give one of them another name")
                self.parameters[word] = value
        self.ranges = {"period": (np.finfo(float).tiny, np.inf)}

    def __deepcopy__(self, memo: Any) -> WholeBodyElement:
        """A copy with the same controller, which is immutable."""
        return copy.copy(self)

    def attach(self, tree: Tree) -> None:
        own = self.controller.robot.tree
        for which, there, here in (
            ("bodies", [x.name for x in tree.bodies], [x.name for x in own.bodies]),
            ("coordinates", tree.nq, own.nq),
            ("velocities", tree.nv, own.nv),
        ):
            if there != here:
                raise ModelError(
                    f"{self.name} controls {own.name}, whose {which} are {here}, and the system moves "
                    f"{tree.name} with {there}; make the controller for the same tree"
                )

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        return z.tau

    def next_call(self, s: State, z: Any, p: Any) -> Any:
        return z.next

    # `ask` gives the arguments of the controller's kernel, and `answer` puts its results into the memory.

    def ask(self, s: State, z: Any, p: Any) -> tuple[Array, ...]:
        layout = self.controller.layout
        values = {key: getattr(p, word) for key, word in layout.fields.items()}
        if self.reference is not None:
            changed = self.reference(s, p)
            if not isinstance(changed, Mapping):
                raise ModelError(
                    f"the reference of {self.name} returns {changed!r}, expected a dictionary of parameters"
                )
            layout.check(changed)
            for key, x in changed.items():
                shape = layout.defaults[key].shape
                if np.shape(x) not in ((), shape):
                    raise wrong_shape(f"{key} of the reference of {self.name}", np.shape(x), shape)
                values[key] = np.broadcast_to(x, shape)
        # an active set starts from the limits that were active in the last command
        start = (z.active,) if self.controller.solver == ACTIVE_SET else ()
        return s.q, s.v, layout.write(values[key] for key in layout.defaults), *start

    def answer(self, s: State, z: Any, p: Any, *results: Array) -> Any:
        command = dict(zip(self.controller.kernel.outputs, results, strict=True))
        status = command["status"]
        kept = {"active": command["active"]} if self.controller.solver == ACTIVE_SET else {}
        return z._replace(
            **kept,
            tau=command["tau"],
            # the next multiple of the period, also if this call came a little too early
            next=(floor((s.t + EARLY) / p.period) + 1) * p.period,
            status=status,
            unsolved=z.unsolved + where(status == UNFINISHED, 1.0, 0.0),
        )
