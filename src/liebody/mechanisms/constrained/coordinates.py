"""Absolute coordinates of rigid bodies with constraints: sizes, names, configurations, poses and twists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.arguments import vector, vectors, wrong_shape
from ...base.concurrency import cached_property
from ...base.errors import ModelError, counted
from ...bodies import WORLD
from ...bodies.labels import Labels
from ...groups import SE3, LieGroup, Product, R
from ...groups.product import slices
from ...groups.so3 import rotations
from ...integrators.saddle_point import Elimination
from ...scalars import Array
from ...scalars.linear import matvec
from ..forces import Force
from .bodies import MovingBody
from .constraints import Constraint, OnCurve
from .forces import BodyForce, JointEffort
from .mechanism import Constrained

GROUND = -1
COORDINATES = (*((x, "1") for x in ("qw", "qx", "qy", "qz")), *((x, "m") for x in ("px", "py", "pz")))
RATES = (*((x, "rad/s") for x in ("wx", "wy", "wz")), *((x, "m/s") for x in ("vx", "vy", "vz")))


@dataclass(frozen=True, eq=False, repr=False)
class AbsoluteCoordinates(Constrained):
    """The bodies, constraints and forces of a `System`, with sizes, names, poses and twists."""

    name: str
    bodies: tuple[MovingBody, ...]
    constraints: tuple[Constraint, ...]
    forces: tuple[BodyForce, ...]
    gravity: np.ndarray
    curves: tuple[float, ...] = ()
    generalised: tuple[Force, ...] = ()  # forces in the system's own coordinates
    definition: Any = None  # the `Definition` that it is made of
    added: tuple[Force, ...] = ()  # forces that were given later

    # -- sizes --------------------------------------------------------------------------------------------

    @cached_property
    def group(self) -> Product:
        """The configuration group: one factor per body, and R for the parameters of curves."""
        factors: list[LieGroup] = [b.group for b in self.bodies]
        return Product(*factors, *([R(self.ns)] if self.ns else []))

    @cached_property
    def ns(self) -> int:
        """Number of parameters of curves."""
        return sum(c.kind.parameters for c in self.constraints)

    @property
    def nv(self) -> int:
        return 6 * len(self.bodies)

    @cached_property
    def nu(self) -> int:
        return sum(f.kind.efforts for f in self.forces)

    @property
    def works(self) -> bool:
        return bool(self.forces or self.generalised) or self.is_driven

    @property
    def joints(self) -> list[str]:
        return [c.name for c in self.constraints if c.joint]

    @cached_property
    def labels(self) -> tuple[Labels, Labels]:
        """Names and units of q and v: `top.qw`, `top.wx`, `curve.s` for parameters."""
        curves = [(f"{c.name}.s", "") for c in self.constraints if c.kind.parameters]
        q = [(f"{b.name}.{x}", unit) for b in self.bodies for x, unit in COORDINATES]
        v = [(f"{b.name}.{x}", unit) for b in self.bodies for x, unit in RATES]
        return Labels.of([*q, *curves]), Labels.of(v)

    @cached_property
    def drives(self) -> Labels:  # type: ignore[override]
        """Names and units of u: `hinge`, or `ball.0` of a joint with several."""
        u = []
        for force in self.forces:
            n = force.kind.efforts
            units = [""] * n  # efforts of a user's own function
            if isinstance(force.kind, JointEffort) and n:
                units = ["N" if W[3:].any() else "N m" for W in force.constants[5].T]
            u += [(force.name if n == 1 else f"{force.name}.{k}", unit) for k, unit in enumerate(units)]
        return Labels.of(u)

    @cached_property
    def slides(self) -> tuple[slice, ...]:
        """Where each constraint's parameters stand in the parameters of all curves."""
        return slices([c.kind.parameters for c in self.constraints])

    @cached_property
    def by_group(self) -> tuple[list[int], list[int]]:
        """The numbers of the bodies on SE(3), and of the bodies on SO(3) x R^3."""
        rigid = [i for i, b in enumerate(self.bodies) if b.group == SE3]
        return rigid, [i for i in range(len(self.bodies)) if i not in set(rigid)]

    @cached_property
    def elimination(self) -> Elimination:
        """The order in which multipliers are eliminated."""
        acting: dict[int, list[int]] = {}
        for k, c in enumerate(self.constraints):
            for b in c.bodies:
                if b >= 0:
                    acting.setdefault(b, []).append(k)
        # constraints that act on a common body are coupled in A = J M^-1 J^T
        pairs = {(max(k, l), min(k, l)) for on in acting.values() for k in on for l in on if k != l}
        return Elimination([c.rows for c in self.constraints], sorted(pairs))

    def index(self, body: str) -> int:
        """The number of the body called `body`; -1 is the world."""
        names = {WORLD: GROUND, **{b.name: i for i, b in enumerate(self.bodies)}}
        if body not in names:
            raise ModelError(f"{self.name} has no body {body!r}; it has {', '.join(names)}")
        return names[body]

    def __repr__(self) -> str:
        return (
            f"System {self.name!r}: {counted(len(self.bodies), 'body', 'bodies')}, "
            f"{counted(len(self.constraints), 'constraint')} with "
            f"{counted(self.nc, 'equation')}, nq = {self.nq}, nv = {self.nv}"
        )

    def summary(self) -> str:
        """The bodies with the groups they move on and why, and the constraints, as text."""
        lines = [repr(self)]
        for b in self.bodies:
            lines.append(f"  {b.name}: {b.mass:.6g} kg on {b.group!r} ({b.reason})")
        for c in self.constraints:
            between = " and ".join(repr(self.bodies[i].name if i >= 0 else WORLD) for i in c.bodies)
            what = repr(c.joint.group) if c.joint else type(c.kind).__name__
            lines.append(f"  {c.name}: {what} of {between}, {counted(c.rows, 'equation')}")
        return "\n".join(lines)

    # -- states -------------------------------------------------------------------------------------------

    @cached_property
    def guess(self) -> np.ndarray:
        """The configuration as it was given to the builder (nq,); loops may be open."""
        q = [SE3.coordinates(b.guess @ b.offset) for b in self.bodies]
        slides = []
        # each parameter starts at the closest point to the guessed pose
        for start, k in zip(self.curves, (k for k, c in enumerate(self.constraints) if c.kind.parameters)):
            slides.append(self._closest(k, start, np.concatenate(q)))
        return np.concatenate([*q, slides]).astype(float)

    def configuration(self, poses: Mapping[str, Array], q: Array = None) -> np.ndarray:
        """q (nq,) with these bodies' own frames at these poses (4, 4); the others as in q, or as guessed."""
        q = self.guess.copy() if q is None else self.configurations(q).copy()
        if q.ndim != 1:
            raise wrong_shape("q", q.shape, f"({self.nq},)")
        for name, T in poses.items():
            i = self._moving(name)
            q[7 * i : 7 * i + 7] = SE3.coordinates(np.asarray(T, float) @ self.bodies[i].offset)
        return q

    def poses(self, q: Array) -> np.ndarray:
        """Poses of the bodies' own frames in the world, (..., n, 4, 4)."""
        R, p = self._axes(q)
        T = np.zeros((*p.shape[:-1], 4, 4))
        com = np.array([b.offset[:3, 3] for b in self.bodies])
        T[..., :3, :3] = R
        T[..., 3, 3] = 1
        # from the centre of mass back to the origin of the body's own frame
        T[..., :3, 3] = p - matvec(R, com)
        return T

    def velocities(self, q: Array, twists: Mapping[str, Array]) -> np.ndarray:
        """v (nv,) with these bodies' own frames at these twists (omega, v), in their axes; others at rest."""
        R, _ = self._axes(vector("q", q, self.nq))
        v = np.zeros((len(self.bodies), 6))
        for name, twist in twists.items():
            i = self._moving(name)
            twist = vector(f"the twist of {name!r}", twist, 6)
            # the centre of mass moves at v + omega x r, where v is the velocity of the frame's origin
            linear = twist[3:] + np.cross(twist[:3], self.bodies[i].offset[:3, 3])
            v[i] = [*twist[:3], *(linear if self.bodies[i].group == SE3 else R[i] @ linear)]
        return v.reshape(-1)

    def twists(self, q: Array, v: Array) -> np.ndarray:
        """Twists (omega, v) of the bodies' own frames in their own axes, (..., n, 6)."""
        # the origin of a body's own frame lies at -com from the centre of mass, and moves at u - omega x com
        w, u = self._body_velocities(q, v)
        com = np.array([b.offset[:3, 3] for b in self.bodies])
        return np.concatenate([w, u - np.cross(w, com)], axis=-1)

    def _moving(self, name: str) -> int:
        i = self.index(name)
        if i < 0:
            raise ModelError("the world does not move")
        return i

    def _axes(self, q: Array) -> tuple[np.ndarray, np.ndarray]:
        """R (..., n, 3, 3) and p (..., n, 3) of the bodies."""
        q = self.configurations(q)
        q = q[..., : 7 * len(self.bodies)].reshape(*q.shape[:-1], len(self.bodies), 7)
        return rotations(q[..., :4]), q[..., 4:]

    def _body_velocities(self, q: Array, v: Array) -> tuple[np.ndarray, np.ndarray]:
        """omega and the velocity of the centre of mass, both in the bodies' axes, (..., n, 3)."""
        R, _ = self._axes(q)
        v = vectors("v", v, self.nv, finite=False)
        v = v.reshape(*v.shape[:-1], len(self.bodies), 6)
        linear = np.array(np.broadcast_to(v[..., 3:], np.broadcast_shapes(v[..., 3:].shape, R.shape[:-1])))
        # on SO(3) x R^3 the linear velocity is in the world's axes: R^T v
        direct = self.by_group[1]
        linear[..., direct, :] = np.einsum("...ij,...i->...j", R[..., direct, :, :], linear[..., direct, :])
        return np.broadcast_to(v[..., :3], linear.shape), linear

    def _at_closest(self, q: Array) -> np.ndarray:
        """q with the parameters of curves at their closest points."""
        slides = q[7 * len(self.bodies) :]
        for k, c in enumerate(self.constraints):
            if c.kind.parameters:
                slides[self.slides[k]] = self._closest(k, float(slides[self.slides[k]][0]), q)
        return q

    def _closest(self, k: int, start: float, q: Array) -> float:
        """The parameter of constraint k, a curve, closest to its point at q."""
        c = self.constraints[k]
        assert isinstance(c.kind, OnCurve)
        T = [SE3.element(q[7 * i : 7 * i + 7]) if i >= 0 else np.eye(4) for i in c.bodies]
        # the point of the second body in the axes of the first one, which carries the curve
        place = SE3.inverse(T[0]) @ T[1] @ np.append(c.constants[0], 1)
        return c.kind.closest(start, place[:3] - c.constants[1])
