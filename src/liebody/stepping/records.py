"""The records that steps are made of: a method's coefficients, a system's functions, switches of the march.

Printers turn them into C, flows and the march run them, integrators and mechanisms fill them in. They hold
data only, so that each of these can import them without the others.

explicit steps   `Coefficients` of a method; `FlowFunctions`, `Watch`; `HybridFunctions`, `Called`, `Retries`
implicit steps   `Phase`, `Control`, `Memory` as a method states them; `PhaseFunctions`, `ControlFunctions`,
                 `Remembers` as they are traced
the march        `Guards`, `Marching`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..compiler import Function, Kernel, Program
from .banded import Envelope

Part = Callable[[], Function | Program]
"""Makes a function of a flow, when the flow is used for the first time."""

Path = tuple[int, Sequence[Sequence[tuple[int, float]]]]
"""How a stage is reached: the stage to start from, and its exponentials as pairs (stage, coefficient)."""


# Explicit steps


class Coefficients(NamedTuple):
    """The coefficients of an explicit method, as compiled steps use them.

    paths        one for each stage, and a last one for the result: the stage it starts from, and its
                 exponents in units of the step, each as pairs (stage, coefficient)
    c            nodes: the times of the stages in units of the step
    pulled       whether velocities are pulled back to the algebra; methods that do not pull back compose
                 exponentials of velocities
    error        b minus the embedded weights, as pairs (stage, weight). Without them a step under error
                 control is never accepted
    error_order  power of the step with which the error estimate goes to zero
    """

    paths: Sequence[Path]
    c: Sequence[float]
    pulled: bool
    error: Sequence[tuple[int, float]] = ()
    error_order: int = 1


class FlowFunctions(NamedTuple):
    """The functions of a flow, traced."""

    field: Function | Program
    """(t, y, u) -> f"""
    advance: Function | Program
    """(y, psi) -> z"""
    pull: Function | Program | None
    """(psi, f) -> k"""
    settle: Function | Program | None = None
    """(t, y, u) -> z, applied to the end of each accepted step, such as a projection onto constraints"""


Careful = Sequence[Function | Program | None]
"""field and settle of careful steps; None stands for the function of ordinary steps."""


class Watch(NamedTuple):
    """How a flow is watched for constraints that come to depend on each other (`stepping.singular`).

    `after` of the flow, or `field` if the flow has no `after`, has a second result `worst` (1,): one over the
    smallest relative pivot at y.

    field, after  the functions of careful steps; None: the functions of ordinary steps
    """

    field: Part | None = None
    after: Part | None = None


class Retries(NamedTuple):
    """Repetition of a step: it is taken again, from what it found, until all lanes are within a tolerance.

    guesses    entries of the state with which a step starts its search, and which it overwrites by its result
    defect     entry of the state that measures the error of the search
    tolerance  of the defect; lanes within it keep their result
    most       largest number of repetitions
    """

    guesses: tuple[int, ...]
    defect: int
    tolerance: float
    most: int


class Called(NamedTuple):
    """A compiled function that a system calls between steps, when it is due; it changes the memory.

    A controller is one that solves a quadratic program, which has no graph of symbols. Arrays go in and out
    in the order of the kernel's.

    kernel  the function
    due     (t, y, u) -> d, called before the step from here where d > 0
    ask     (t, y, u) -> what the kernel takes
    answer  (t, y, u, results of the kernel) -> (y with another memory, g, h): guards and step as of `look`
    """

    kernel: Kernel
    due: Part
    ask: Part
    answer: Part


class CallFunctions(NamedTuple):
    """The functions of a `Called`, traced."""

    kernel: Kernel
    due: Function
    ask: Function
    answer: Function


class HybridFunctions(NamedTuple):
    """The functions of a system with events, traced; the arguments of `stepping.hybrid.HybridFlow`."""

    field: Function | Program
    advance: Function
    pull: Function | None
    guards: Function
    look: Function
    after: Function
    directions: Sequence[int]
    terminal: Sequence[bool]
    calls: Sequence[CallFunctions] = ()


# Implicit steps


@dataclass(frozen=True)
class Phase:
    """One system of equations within a step: residual(x) = 0 for unknowns x.

    predict   (z, t, h, y, u) -> x, the first guess
    residual  (x, z, t, h, y, u) -> r, as many as unknowns
    keep      (x, z, t, h, y, u) -> entries to append to z; default: x
    linear    whether the residual is affine in x, so that one correction solves it
    soften    (x, z, t, h, y, u) -> entries to add to the diagonal of the Jacobian, and not to the residual,
              so that equations may depend on each other; default: none

    z (..,) holds values that earlier phases of the step have kept, y the state at its start t, h its length,
    and u (nodes, dim) the efforts at its nodes. All are functions of array operations, which can be traced.
    """

    predict: Callable[..., Any]
    residual: Callable[..., Any]
    keep: Callable[..., Any] = lambda x, z, t, h, y, u: x
    linear: bool = False
    soften: Callable[..., Any] | None = None

    def softened(self, *state: Any) -> dict[str, Any]:
        """The residual, and the entries to add to the diagonal of its Jacobian."""
        assert self.soften is not None
        return {"residual": self.residual(*state), "soften": self.soften(*state)}


@dataclass(frozen=True)
class Control:
    """The error estimate of an implicit method, and states within a step, for steps under error control.

    order    the power of h with which the error estimate goes to zero
    phases   equations to solve for the estimate, after the step's equations, whose z they extend
    error    (z, t, h, y, u, after) -> (e, size), both (k,): the estimate, and the sizes that rtol multiplies;
             `after` is y at the end of the step
    between  (s, z, t, h, y, u, after) -> y at t + s h, 0 <= s <= 1
    """

    order: int
    phases: Sequence[Phase]
    error: Callable[..., Any]
    between: Callable[..., Any]


@dataclass(frozen=True)
class Memory:
    """How to adapt the quantities that a method remembers from step to step, beside the state.

    fit      (y, made, h) -> y: from steps of length `made` to steps of length h
    restart  (y, made, t, h, u) -> y: the same where efforts jump at t, to u (nodes, dim) in the next step
    """

    fit: Callable[..., Any]
    restart: Callable[..., Any]


class PhaseFunctions(NamedTuple):
    """A `Phase`, traced, with the Jacobian of its residual; arguments are named as in runtime/implicit.h."""

    predict: Function | Program
    """(z, t, h, y, u) -> x"""
    residual: Function | Program
    """(x, z, t, h, y, u) -> r"""
    both: Function | Program
    """(x, z, t, h, y, u) -> r, entries of dr/dx that are not zero"""
    places: list[tuple[int, int]]
    """Row and column of these entries"""
    bounds: Envelope
    """of dr/dx"""
    keep: Function | Program
    """(x, z, t, h, y, u) -> entries to append to z"""
    linear: bool


class ControlFunctions(NamedTuple):
    """A `Control`, traced."""

    phases: tuple[PhaseFunctions, ...]
    error: Function | Program
    between: Function | Program
    order: int


class Remembers(NamedTuple):
    """A `Memory`, traced."""

    fit: Function
    restart: Function | None
    """None where efforts do not jump"""


# The march


class Guards(NamedTuple):
    """Guards of a run: a change of the sign of one is an event.

    function    (t, y, u) -> g (guards,), traced
    directions  +1 for changes upwards only, -1 for downwards only, 0 for both
    terminal    whether an event ends the run
    """

    function: Function
    directions: Sequence[int]
    terminal: Sequence[bool]


class Marching(NamedTuple):
    """Switches of a march in which each lane has its own time and step; otherwise lanes take equal steps.

    controlled  whether an error estimate chooses the step
    dense       whether records are states within steps
    guards      whose events are located
    looks       whether the system chooses its steps and updates its state
    """

    controlled: bool = False
    dense: bool = False
    guards: Guards | None = None
    looks: bool = False
