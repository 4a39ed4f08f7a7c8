"""Elements that act on a robot, and the names of their parts in a robot system.

A robot system joins the memory, parameters, guards, works and signals of all its elements in one namespace:
each name is prefixed by the name of its element (`full_name`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.arguments import floats, short
from ..base.errors import ModelError
from ..bodies import Frame, Tree
from ..compiler import Kernel
from ..scalars import Array, where
from .robot_state import State, up


class Element:
    """A contact, a spring or a controller that acts on a robot. A subclass overrides the methods it needs.

    name         prefix, with an underscore, of the names of its memory, guards, works and signals in a system
    prefix       prefix of the names of its parameters; None: name
    memory, flows, parameters, directions   as in `HybridSystem`, by names without prefix
    called       a compiled function in float64 that it calls between steps, by `next_call`, `ask` and
                 `answer`: a controller that solves a quadratic program, which has no graph of symbols.
                 None: it calls none
    ranges       (least, most) of the values of a parameter in a simulation, likewise

    A system keeps copies of its elements, so that one element may go to several systems.
    """

    name = "element"
    prefix: str | None = None
    touches = False  # whether it calls `State.touches`
    stiff = False  # whether steps are to be short while something touches
    driven = True  # whether the drives of the robot give its efforts, so that they are work of the joints
    called: Kernel | None = None

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}
        self.flows: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.directions: dict[str, int] = {}
        self.ranges: dict[str, tuple[float, float]] = {}

    def attach(self, tree: Tree) -> None:
        """Look up frames and joints of the tree; raises ModelError for names that the tree does not have."""

    def tell(self, s: State, z: Any, p: Any) -> None:
        """Announce touching points (`s.touches`) and stored energies (`s.stored`) to other elements."""

    def efforts(self, s: State, z: Any, p: Any) -> Array | None:
        """Generalised efforts, (nv,)."""
        return None

    def forces(self, s: State, z: Any, p: Any) -> list[tuple[Frame, Array]]:
        """Forces on points, in the world's axes: (frame, force (3,)) each."""
        return []

    def gains(self, s: State, p: Any) -> tuple[Array, Array] | None:
        """Stiffness -d tau_i/d q_i and damping -d tau_i/d v_i of its efforts, (nv,) each, for `TimeStepping`.

        None: the efforts are constant over a step, with their value at its start.
        """
        return None

    def constraint(self, s: State, z: Any, p: Any) -> tuple[Array, Array] | tuple[Array, Array, Array] | None:
        """J (k, nv) and (dJ/dt) v (k,) of a constraint J dv/dt + (dJ/dt) v = 0; None: no constraint.

        A third result T (m, k) is for rows in axes that move: with the multipliers x, `reactions` gets T x.
        """
        return None

    def reactions(self, z: Any, x: Array) -> dict[str, Any]:
        """Signals of its constraint's multipliers x (k,): the efforts on the robot are J^T x.

        They are T x (m,) where `constraint` has a third result T.
        """
        return {}

    def velocity(self, s: State, z: Any, p: Any, events: Any) -> Array | None:
        """The velocity (nv,) after the events, such as an impact; None: events do not change it."""
        return None

    def losses(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Powers that it dissipates, by name."""
        return {}

    def energy(self, s: State, z: Any, p: Any) -> Any:
        """Energy that it stores; None: it stores none."""
        return None

    def lost(self, z: Any) -> Any:
        """Stored energy lost in updates so far, from its memory; None: updates lose no energy."""
        return None

    def rates(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Rates of its flows."""
        return {}

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Guards by name."""
        return {}

    def update(self, s: State, z: Any, p: Any, events: Any) -> Any:
        """The memory at the end of a step; `events` has the events of the system by their full names."""
        return z

    def start(self, s: State, z: Any, p: Any) -> Any:
        """The memory at the start."""
        return z

    def next_call(self, s: State, z: Any, p: Any) -> Any:
        """The time of the next call of `called`; it may be in the past. Steps of integrators end there."""
        raise NotImplementedError

    def ask(self, s: State, z: Any, p: Any) -> Sequence[Any]:
        """The arrays that `called` takes."""
        raise NotImplementedError

    def answer(self, s: State, z: Any, p: Any, *results: Array) -> Any:
        """The memory after a call, from its results. It changes `memory`, not `flows`."""
        raise NotImplementedError

    def stop(self, s: State, z: Any, p: Any) -> Any:
        """The member ends where this is positive; None: never."""
        return None

    def outputs(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        """Signals by name."""
        return {}

    def touching(self, z: Any) -> Array | None:
        """Which of its points touch something, (..., points), from its memory; None: it has no such points.

        An element with such points has a signal "force" (points, 3), the forces on them in the world's axes.
        """
        return None


class Apex(Element):
    """An event when the centre of mass is at the top of its path in flight, while no point touches."""

    def __init__(self, name: str = "apex") -> None:
        super().__init__()
        self.name = name
        self.directions = {"": -1}

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        # in stance the guard is negative, so that it changes downwards at an apex in flight only
        return {"": where(s.stance > 0.5, -1.0, s.com_velocity @ up(s.gravity))}


class Fall(Element):
    """Members end when the centre of mass, or a point, is lower than a height.

    point   name of a frame; None: the centre of mass
    height  parameter, above the world's origin, against gravity                                       [m]
    """

    def __init__(self, height: float = 0.0, point: str | None = None, name: str = "fall") -> None:
        super().__init__()
        self.name = name
        self.point = point
        self.parameters = {"height": height}

    def attach(self, tree: Tree) -> None:
        if self.point is not None:
            tree.frame(self.point)

    def stop(self, s: State, z: Any, p: Any) -> Any:
        position = s.com if self.point is None else s.position(self.point)
        return p.height - position @ up(s.gravity)


# -- names --------------------------------------------------------------------------------------------------


def full_name(element: Element, name: str) -> str:
    """The name in a system of a part of an element: "floor_contact"."""
    return "_".join(x for x in (element.name, name) if x)


def parameter_name(element: Element, name: str) -> str:
    """The name in a system of a parameter of an element."""
    prefix = element.name if element.prefix is None else element.prefix
    return "_".join(x for x in (prefix, name) if x)


def with_full_names(element: Element, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of parts of an element, by their names in a system."""
    return {full_name(element, name): x for name, x in values.items()}


def joined(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """All entries of several dictionaries. Raises ModelError for a name that two of them have."""
    check_once(Counter(name for part in parts for name in part))
    return {name: x for part in parts for name, x in part.items()}


def check_once(counts: Mapping[str, int]) -> None:
    """Raise ModelError for a name that is counted more than once."""
    for name, count in counts.items():
        if count > 1:
            raise ModelError(f"two elements have something called {name!r}; give one of them another name")


def word(name: str) -> str:
    """The name of a frame as a part of other names: characters but letters and digits become underscores."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


# -- helpers of elements and systems -------------------------------------------------------------------------


def acts(element: Element) -> bool:
    """Whether an element gives efforts or forces."""
    return any(getattr(type(element), x) is not getattr(Element, x) for x in ("efforts", "forces"))


def one_by_one(elements: Iterable[Any]) -> list[Any]:
    """A flat list of elements and of sequences of elements."""
    return [
        x
        for each in elements
        for x in (each if isinstance(each, Iterable) and not isinstance(each, str) else [each])
    ]


def check_range(name: str, least: float, most: float, given: Any) -> np.ndarray:
    """Numbers within a range, as an array; raises ModelError for a number outside."""
    values = floats(name, given)
    if not ((least <= values) & (values <= most)).all():
        unlimited = "above zero" if least > 0 else "of zero or more"
        wanted = f"from {least:g} to {most:g}" if np.isfinite(most) else unlimited
        raise ModelError(f"{name} is {short(values.tolist())}, expected numbers {wanted}")
    return values


def driven(tree: Tree, actuated: Iterable[str] | None) -> np.ndarray:
    """1 for velocities whose joints have drives, else 0, (nv,). None: all joints have drives."""
    flags = np.ones(tree.nv, int) if actuated is None else np.zeros(tree.nv, int)
    for name in actuated or ():
        joint = tree.joint(name)
        body = next(body for body in tree.bodies if body.joint is joint)
        flags[body.dofs] = 1
    return flags
