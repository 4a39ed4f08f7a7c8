"""Forces on bodies: springs, dampers, efforts along joints, and wrenches by a user's function.

As a constraint, a force acts on the states of one or more bodies (-1 is the ground). It returns, for each,
the wrench (moment, force) at the centre of mass in the body's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.arguments import check_arguments
from ...groups import SE3, Prismatic, Revolute
from ...scalars import Array, arctan2, sqrt
from ...scalars.linear import cross, is_numeric
from ..forces import FrameForce, JointForce
from .bodies import MovingBody
from .constraints import Constraint, States, own_frames, traced_function


class ForceKind:
    """A kind of forces, with its law.

    efforts  how many entries of u it takes
    stores   whether it has a potential energy
    """

    efforts: int = 0
    stores: bool = False

    def __call__(self, states: States, constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        """Wrenches (6,) on the bodies."""
        raise NotImplementedError

    def energy(self, states: States, constants: Sequence[Array]) -> Any:
        """Potential energy; zero for forces that store none."""
        return 0.0


@dataclass(frozen=True)
class BodyForce:
    """A force in a system: its kind, on which bodies, with which constants; where its entries of u stand."""

    name: str
    kind: ForceKind
    bodies: tuple[int, ...]
    constants: tuple[np.ndarray, ...]
    efforts: slice


@dataclass(frozen=True)
class SpringDamper(ForceKind):
    """Between two points: tension f = k (|d| - L) + c d|d|/dt + F(|d|, d|d|/dt) along d = p_b - p_a.

    tension    F, None: zero
    potential  U(|d|), the energy that F stores; None: none
    """

    tension: Callable[[Any, Any], Any] | None = None
    potential: Callable[[Any], Any] | None = None
    stores = True

    def __call__(self, states: States, constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        a, b = states
        ra, rb, stiffness, damping, rest = constants
        C = b.R.T @ a.R
        d = b.R.T @ (b.p - a.p) + rb - C @ ra
        length = sqrt(d @ d)
        along = d / length
        rate = along @ (b.v + cross(b.w, rb) - C @ (a.v + cross(a.w, ra)))
        further = 0.0 if self.tension is None else self.tension(length, rate)
        # tension pulls b towards a
        f = -(stiffness * (length - rest) + damping * rate + further) * along  # on b, in its axes
        on_a = -(f @ C)
        return [np.concatenate([cross(ra, on_a), on_a]), np.concatenate([cross(rb, f), f])]

    def energy(self, states: States, constants: Sequence[Array]) -> Any:
        a, b = states
        ra, rb, stiffness, _, rest = constants
        d = b.p + b.R @ rb - a.p - a.R @ ra
        length = sqrt(d @ d)
        stretch = length - rest
        further = 0.0 if self.potential is None else self.potential(length)
        return 0.5 * stiffness * (stretch * stretch) + further


@dataclass(frozen=True)
class JointEffort(ForceKind):
    """Efforts along a joint's motions, of the parent on the child: from laws, and u of a drive.

    dim, driven  the joint's motions, and whether it has a drive
    laws         `JointForce`s, each with how many numbers it has
    single       "turns" for hinges, "slides" for slides, whose coordinate laws are given; "" for others

    The constants are `JointFrames.constants` and the numbers of the laws.
    """

    dim: int
    driven: bool
    laws: tuple[tuple[JointForce, int], ...] = ()
    single: str = ""

    @property
    def efforts(self) -> int:  # type: ignore[override]
        return self.dim if self.driven else 0

    @property
    def stores(self) -> bool:  # type: ignore[override]
        return any(law.stores for law, _ in self.laws)

    def __call__(self, states: States, constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        a, b = states
        Rb, rb, wrenches = constants[2], constants[3], constants[5]
        C = b.R.T @ a.R
        effort = self.carried(states, constants, t)
        if self.driven:
            effort = effort + u
        F = wrenches @ effort
        # on the child, in its axes, at its joint frame
        moment = Rb @ F[:3]
        force = Rb @ F[3:]
        on_b = np.concatenate([moment + cross(rb, force), force])
        arm = C.T @ (b.R.T @ (b.p - a.p) + rb)  # the same place, in the parent's axes
        moment = -(moment @ C)
        force = -(force @ C)
        return [np.concatenate([moment + cross(arm, force), force]), on_b]

    def carried(self, states: States, constants: Sequence[Array], t: Any) -> Any:
        """The efforts of the laws, (dim,)."""
        effort: Any = 0
        if self.laws:
            v = constants[4] @ relative_twist(states, *constants[:4])
            x = self._coordinate(states, constants)
            for law, numbers in self._with_numbers(constants):
                effort = effort + law.checked(law.effort(t, x, v, *numbers), (self.dim,), "a joint")
        return effort

    def energy(self, states: States, constants: Sequence[Array]) -> Any:
        x = self._coordinate(states, constants)
        return sum(law.energy(x, *numbers) for law, numbers in self._with_numbers(constants))

    def _with_numbers(self, constants: Sequence[Array]) -> list[tuple[JointForce, Sequence[Array]]]:
        # the first six constants belong to the joint's frames
        ends = np.cumsum([6, *(count for _, count in self.laws)])
        return [(law, constants[i : i + count]) for (law, count), i in zip(self.laws, ends)]

    def _coordinate(self, states: States, constants: Sequence[Array]) -> Array:
        a, b = states
        Ra, ra, Rb, rb, _, W = constants[:6]
        if not self.single:
            return None
        # the displacement of the child's frame along the axis of the slide
        if self.single == "slides":
            return np.array([W[3:, 0] @ (Ra.T @ (a.R.T @ (b.p + b.R @ rb - a.p) - ra))])
        E = (b.R @ Rb).T @ (a.R @ Ra)
        # twice the sine and twice the cosine of the angle between the frames
        sine = W[:3, 0] @ np.array([E[1, 2] - E[2, 1], E[2, 0] - E[0, 2], E[0, 1] - E[1, 0]])
        return np.array([arctan2(sine, E[0, 0] + E[1, 1] + E[2, 2] - 1)])


def effort_of_joint(c: Constraint, driven: bool, u: slice) -> BodyForce:
    """The efforts along a joint's motions, without laws so far."""
    assert c.joint is not None
    group = c.joint.group
    single = {Revolute: "turns", Prismatic: "slides"}.get(type(group), "")
    return BodyForce(c.name, JointEffort(group.dim, driven, (), single), c.bodies, c.joint.constants, u)


def with_law(forces: Sequence[BodyForce], law: JointForce, joints: Sequence[Constraint]) -> list[BodyForce]:
    """Forces and one more law in joints. All laws and the drive of a joint make one force."""
    merged = list(forces)
    at = {f.name: k for k, f in enumerate(merged) if isinstance(f.kind, JointEffort)}
    for c in joints:
        numbers = law.numbers_in(c.joint.joint) if c.joint else None
        if numbers is None:
            continue
        if c.name not in at:  # the first law in a joint without a drive
            at[c.name] = len(merged)
            merged.append(effort_of_joint(c, False, slice(0, 0)))
        force = merged[at[c.name]]
        assert isinstance(force.kind, JointEffort)
        # joints with the same laws have equal kinds, which share their code: numbers go to the constants
        kind = replace(force.kind, laws=(*force.kind.laws, (law, len(numbers))))
        constants = (*force.constants, *as_constants(numbers))
        merged[at[c.name]] = replace(force, kind=kind, constants=constants)
    return merged


def as_constants(values: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Constants as arrays, of floats where they are known."""
    return tuple(np.asarray(x, float if is_numeric(x) else object) for x in values)


def relative_twist(states: States, Ra: Array, ra: Array, Rb: Array, rb: Array) -> Array:
    """Twist (6,) of the child's joint frame relative to the parent's, in the axes of the child's frame."""
    a, b = states
    C = b.R.T @ a.R
    rho = C.T @ (b.R.T @ (b.p - a.p) + rb)
    w = Rb.T @ (b.w - C @ a.w)
    return np.concatenate([w, Rb.T @ (b.v + cross(b.w, rb) - C @ (a.v + cross(a.w, rho)))])


def on_bodies(force: FrameForce, bodies: Sequence[MovingBody], numbers: Sequence[int]) -> BodyForce:
    """A force on the own frames of the bodies of these numbers."""
    potential = force.energy if force.stores else None
    kind = OwnWrench(force.wrenches, len(numbers), 0, force.name, potential)
    frames = [SE3.inverse(bodies[i].offset) for i in numbers]
    constants = as_constants([x for T in frames for x in SE3.parts(T)])
    return BodyForce(force.name, kind, tuple(numbers), constants, slice(0, 0))


class OwnWrench(ForceKind):
    """A user's function: F(t, T_1, V_1, T_2, V_2, ...), or F(t, u, T_1, V_1, ...) with efforts.

    T (4, 4) and V (6,) are the pose and the twist of each body's own frame, in its own axes; the result is
    the wrench (6,) on the body in that frame (for several bodies a tuple, or an array (k, 6)).
    """

    def __init__(
        self,
        function: Callable[..., Any],
        count: int,
        efforts: int,
        name: str,
        potential: Callable[..., Any] | None = None,
    ) -> None:
        self.function = function
        self.count = count
        self.efforts = efforts
        self.potential = potential
        self.stores = potential is not None
        arguments = ["t"] + ["u"] * bool(efforts) + [f"{x}_{i + 1}" for i in range(count) for x in "TV"]
        check_arguments(f"force {name!r}", function, *arguments)
        shapes: dict[str, Any] = {"t": (), "u": efforts}
        for i in range(count):
            shapes |= {f"T{i}": (4, 4), f"V{i}": 6}
        # traced once here, so that mistakes are told when the force is added, with the user's line
        traced_function(self._evaluate, shapes, f"force {name!r}", (count, 6))

    def _evaluate(self, t: Any, u: Array, *parts: Array) -> Array:
        result = np.asarray(self.function(t, *((u,) if self.efforts else ()), *parts))
        return result[None] if self.count == 1 and result.ndim == 1 else result

    def __call__(self, states: States, constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        parts: list[Array] = []
        for R, p, w, v in own_frames(states, constants):
            parts += [SE3.motion(R, p), np.concatenate([w, v])]
        wrenches = []
        for F, Q, r in zip(self._evaluate(t, u, *parts), constants[::2], constants[1::2], strict=True):
            # from the body's own frame to its centre of mass
            moment = Q @ F[:3]
            force = Q @ F[3:]
            wrenches.append(np.concatenate([moment + cross(r, force), force]))
        return wrenches

    def energy(self, states: States, constants: Sequence[Array]) -> Any:
        assert self.potential is not None
        places = zip(states, constants[::2], constants[1::2], strict=True)
        return self.potential(*(SE3.motion(body.R @ Q, body.p + body.R @ r) for body, Q, r in places))
