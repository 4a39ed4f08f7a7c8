"""Forces on bodies: springs, dampers, actuators, and wrenches by a function of the user's own.

As a constraint, a force acts on the states of one or more bodies (-1 is the ground). It returns, for each,
the wrench (moment, force) at the centre of mass in the body's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..codegen import trace
from ..errors import GraphError, ShapeError
from ..groups import SE3
from ..linear import cross
from ..scalar import arctan2, cos, sin, sqrt
from .constraints import ZERO, State

Array = Any


class ForceKind:
    """What forces of one kind share. `efforts` is how many entries of u it takes."""

    efforts: int = 0

    def __call__(self, states: Sequence[State], constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        """Wrenches (6,) on the bodies."""
        raise NotImplementedError

    def energy(self, states: Sequence[State], constants: Sequence[Array]) -> Any:
        """Potential energy; zero where there is none."""
        return 0.0


@dataclass(frozen=True)
class Force:
    """A force in a system: its kind, on which bodies, with which constants; where its entries of u stand."""

    name: str
    kind: ForceKind
    bodies: tuple[int, ...]
    constants: tuple[np.ndarray, ...]
    efforts: slice


@dataclass(frozen=True)
class SpringDamper(ForceKind):
    """Between two points: tension f = k (|d| - L) + c d|d|/dt along d = p_b - p_a."""

    def __call__(self, states: Sequence[State], constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        a, b = states
        ra, rb, stiffness, damping, rest = constants
        C = b.R.T @ a.R
        d = b.R.T @ (b.p - a.p) + rb - C @ ra
        length = sqrt(d @ d)
        along = d / length
        rate = along @ (b.v + cross(b.w, rb) - C @ (a.v + cross(a.w, ra)))
        f = -(stiffness * (length - rest) + damping * rate) * along  # on b, in its axes
        on_a = -(f @ C)
        return [np.concatenate([cross(ra, on_a), on_a]), np.concatenate([cross(rb, f), f])]

    def energy(self, states: Sequence[State], constants: Sequence[Array]) -> Any:
        a, b = states
        ra, rb, stiffness, _, rest = constants
        d = b.p + b.R @ rb - a.p - a.R @ ra
        stretch = sqrt(d @ d) - rest
        return 0.5 * stiffness * (stretch * stretch)


class JointEffort(ForceKind):
    """Efforts along a joint's motions, of the parent on the child: u, less damping times velocity.

    constants: the joint's frames in both bodies (R, p), the selection matrix S (6, k) in the axes of the
    child's frame, its inverse S^+ (k, 6), the wrenches per effort W (6, k) with S^T W = 1, and the damping.
    """

    def __init__(self, dim: int, driven: bool) -> None:
        self.dim, self.driven = dim, driven
        self.efforts = dim if driven else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JointEffort) and (self.dim, self.driven) == (other.dim, other.driven)

    def __hash__(self) -> int:
        return hash((JointEffort, self.dim, self.driven))

    def __call__(self, states: Sequence[State], constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        a, b = states
        Ra, ra, Rb, rb, inverse, wrenches, damping = constants
        C = b.R.T @ a.R
        effort = -damping * (inverse @ relative_twist(states, Ra, ra, Rb, rb))
        if self.driven:
            effort = effort + u
        F = wrenches @ effort
        moment, force = Rb @ F[:3], Rb @ F[3:]  # on the child, in its axes, at its joint frame
        on_b = np.concatenate([moment + cross(rb, force), force])
        arm = C.T @ (b.R.T @ (b.p - a.p) + rb)  # the same place, in the parent's axes
        moment, force = -(moment @ C), -(force @ C)
        return [np.concatenate([moment + cross(arm, force), force]), on_b]


@dataclass(frozen=True)
class JointSpring(ForceKind):
    """Along or about the axis z of a joint's frames: effort -k (x - x0), x the distance or the angle.

    An angle counts the short way round from x0.
    """

    turning: bool

    def __call__(self, states: Sequence[State], constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        a, b = states
        _, _, Rb, rb, stiffness, _ = constants
        C, z = b.R.T @ a.R, Rb[:, 2]
        effort = -stiffness * self._stretch(states, constants) * z
        if self.turning:
            return [np.concatenate([-(effort @ C), ZERO]), np.concatenate([effort, ZERO])]
        arm = C.T @ (b.R.T @ (b.p - a.p) + rb)
        on_a = -(effort @ C)
        return [np.concatenate([cross(arm, on_a), on_a]), np.concatenate([cross(rb, effort), effort])]

    def energy(self, states: Sequence[State], constants: Sequence[Array]) -> Any:
        stretch = self._stretch(states, constants)
        return 0.5 * constants[4] * (stretch * stretch)

    def _stretch(self, states: Sequence[State], constants: Sequence[Array]) -> Any:
        a, b = states
        Ra, ra, Rb, rb, _, rest = constants
        if self.turning:
            E = Rb.T @ (b.R.T @ a.R) @ Ra
            angle = arctan2(E[0, 1] - E[1, 0], E[0, 0] + E[1, 1]) - rest
            return arctan2(sin(angle), cos(angle))
        return Ra[:, 2] @ (a.R.T @ (b.p + b.R @ rb - a.p) - ra) - rest


def relative_twist(states: Sequence[State], Ra: Array, ra: Array, Rb: Array, rb: Array) -> Array:
    """Twist (6,) of the child's joint frame relative to the parent's, in the axes of the child's frame."""
    a, b = states
    C = b.R.T @ a.R
    rho = C.T @ (b.R.T @ (b.p - a.p) + rb)
    w = Rb.T @ (b.w - C @ a.w)
    return np.concatenate([w, Rb.T @ (b.v + cross(b.w, rb) - C @ (a.v + cross(a.w, rho)))])


class OwnWrench(ForceKind):
    """A function of the user's own: F(t, T_1, V_1, T_2, V_2, ...), or F(t, u, T_1, V_1, ...) with efforts.

    T (4, 4) and V (6,) are the pose and the twist of each body's own frame, in its own axes; the result is
    the wrench (6,) on the body in that frame (for several bodies a tuple, or an array (k, 6)).
    """

    def __init__(self, function: Callable[..., Any], count: int, efforts: int, name: str) -> None:
        self.function, self.count, self.efforts = function, count, efforts
        shapes: dict[str, Any] = {"t": (), "u": efforts}
        for i in range(count):
            shapes |= {f"T{i}": (4, 4), f"V{i}": 6}
        try:
            traced = trace(self._evaluate, shapes, "wrench")
        except GraphError as error:
            raise GraphError(f"force {name!r} cannot be traced: {error}") from None
        found = next(iter(traced.outputs.values())).shape
        if found != (count, 6):
            raise ShapeError(f"force {name!r} returns an array of shape {found}, expected {(count, 6)}")

    def _evaluate(self, t: Any, u: Array, *parts: Array) -> Array:
        result = np.asarray(self.function(t, *((u,) if self.efforts else ()), *parts))
        return result[None] if self.count == 1 and result.ndim == 1 else result

    def __call__(self, states: Sequence[State], constants: Sequence[Array], t: Any, u: Array) -> list[Array]:
        parts: list[Array] = []
        for body, Q, r in zip(states, constants[::2], constants[1::2], strict=True):
            parts.append(SE3.motion(body.R @ Q, body.p + body.R @ r))
            parts.append(np.concatenate([Q.T @ body.w, Q.T @ (body.v + cross(body.w, r))]))
        wrenches = []
        for F, Q, r in zip(self._evaluate(t, u, *parts), constants[::2], constants[1::2], strict=True):
            moment, force = Q @ F[:3], Q @ F[3:]
            wrenches.append(np.concatenate([moment + cross(r, force), force]))
        return wrenches
