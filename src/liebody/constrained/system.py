"""Systems of rigid bodies in absolute coordinates, with constraints: what they are and can be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..bodies import WORLD
from ..codegen import Kernel
from ..errors import ConfigurationError, ConstraintError, ModelError, ShapeError
from ..groups import SE3, SO3, LieGroup, Product, R
from . import assembly, equations
from .assembly import Report
from .bodies import MovingBody
from .constraints import GROUND as GROUND_STATE
from .constraints import Constraint, OnCurve, State
from .elimination import Elimination
from .equations import NOTHING
from .forces import Force, ForceKind
from .passes import Cells, Memory, written

Array = Any
GROUND = -1


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """Rigid bodies in absolute coordinates, joined by constraints. Made by a `SystemBuilder`.

    q (nq,) holds for each body (w, x, y, z, px, py, pz), attitude and centre of mass in the world, and after
    the bodies one parameter for each curve. v (nv,) holds (omega, v) for each body: omega in the body's axes,
    v the velocity of the centre of mass, in the body's axes on SE(3), in the world's on SO(3) x R^3.
    `configuration`, `velocities`, `poses` and `twists` translate to the bodies' own frames.
    """

    name: str
    bodies: tuple[MovingBody, ...]
    constraints: tuple[Constraint, ...]
    forces: tuple[Force, ...]
    gravity: np.ndarray
    curves: tuple[float, ...] = ()

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
    def nq(self) -> int:
        """Number of coordinates."""
        return 7 * len(self.bodies) + self.ns

    @property
    def nv(self) -> int:
        """Number of velocities, 6 per body."""
        return 6 * len(self.bodies)

    @cached_property
    def nu(self) -> int:
        """Number of efforts u."""
        return sum(f.kind.efforts for f in self.forces)

    @cached_property
    def nc(self) -> int:
        """Number of constraint equations."""
        return sum(c.rows for c in self.constraints)

    @cached_property
    def rows(self) -> dict[str, slice]:
        """Where each constraint stands among the equations and multipliers, (nc,)."""
        ends = np.cumsum([0, *(c.rows for c in self.constraints)]).tolist()
        return {c.name: slice(*ends[k : k + 2]) for k, c in enumerate(self.constraints)}

    @cached_property
    def slides(self) -> list[slice]:
        """Where each constraint's parameters stand among those of all curves."""
        ends = np.cumsum([0, *(c.kind.parameters for c in self.constraints)]).tolist()
        return [slice(*ends[k : k + 2]) for k in range(len(self.constraints))]

    @cached_property
    def by_group(self) -> tuple[list[int], list[int]]:
        """The numbers of the bodies on SE(3), and of those on SO(3) x R^3."""
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
            f"System {self.name!r}: {len(self.bodies)} bodies, {len(self.constraints)} constraints with "
            f"{self.nc} equations, nq = {self.nq}, nv = {self.nv}"
        )

    def summary(self) -> str:
        """The bodies with the groups they move on and why, and the constraints, as text."""
        lines = [repr(self)]
        for b in self.bodies:
            lines.append(f"  {b.name}: {b.mass:.6g} kg on {b.group!r} ({b.reason})")
        for c in self.constraints:
            between = " and ".join(repr(self.bodies[i].name if i >= 0 else WORLD) for i in c.bodies)
            what = repr(c.joint.group) if c.joint else type(c.kind).__name__
            lines.append(f"  {c.name}: {what} of {between}, {c.rows} equations")
        return "\n".join(lines)

    # -- states -------------------------------------------------------------------------------------------

    @cached_property
    def guess(self) -> np.ndarray:
        """The configuration as it was given to the builder (nq,); loops may be open."""
        q = [SE3.coordinates(b.guess @ b.offset) for b in self.bodies]
        slides = []
        for start, k in zip(self.curves, (k for k, c in enumerate(self.constraints) if c.kind.parameters)):
            slides.append(self._closest(k, start, np.concatenate(q)))
        return np.concatenate([*q, slides]).astype(float)

    def configuration(self, poses: Mapping[str, Array], q: Array = None) -> np.ndarray:
        """q (nq,) with these bodies' own frames at these poses (4, 4); the others as in q, or as guessed."""
        q = self.guess.copy() if q is None else self._configurations(q).copy()
        if q.ndim != 1:
            raise ShapeError(f"q has shape {q.shape}, expected ({self.nq},)")
        for name, T in poses.items():
            i = self._moving(name)
            q[7 * i : 7 * i + 7] = SE3.coordinates(np.asarray(T, float) @ self.bodies[i].offset)
        return q

    def poses(self, q: Array) -> np.ndarray:
        """Poses of the bodies' own frames in the world, (..., n, 4, 4)."""
        R, p = self._axes(q)
        T = np.zeros((*p.shape[:-1], 4, 4))
        com = np.array([b.offset[:3, 3] for b in self.bodies])
        T[..., :3, :3], T[..., 3, 3] = R, 1
        T[..., :3, 3] = p - np.einsum("...ij,...j->...i", R, com)
        return T

    def velocities(self, q: Array, twists: Mapping[str, Array]) -> np.ndarray:
        """v (nv,) with these bodies' own frames at these twists (omega, v), in their axes; others at rest."""
        R, _ = self._axes(q)
        v = np.zeros((len(self.bodies), 6))
        for name, twist in twists.items():
            i = self._moving(name)
            twist = np.asarray(twist, float)
            if twist.shape != (6,):
                raise ShapeError(
                    f"the twist of {name!r} has shape {twist.shape}, expected (6,), angular first"
                )
            linear = twist[3:] + np.cross(twist[:3], self.bodies[i].offset[:3, 3])
            v[i] = [*twist[:3], *(linear if self.bodies[i].group == SE3 else R[i] @ linear)]
        return v.reshape(-1)

    def twists(self, q: Array, v: Array) -> np.ndarray:
        """Twists (omega, v) of the bodies' own frames in their own axes, (..., n, 6)."""
        w, u = self._body_velocities(q, v)
        com = np.array([b.offset[:3, 3] for b in self.bodies])
        return np.concatenate([w, u - np.cross(w, com)], axis=-1)

    def _moving(self, name: str) -> int:
        i = self.index(name)
        if i < 0:
            raise ModelError("the world does not move")
        return i

    def _configurations(self, q: Array) -> np.ndarray:
        q = np.asarray(q, float)
        if q.ndim < 1 or q.shape[-1] != self.nq:
            raise ShapeError(f"q has shape {q.shape}, expected (..., {self.nq})")
        return q

    def _axes(self, q: Array) -> tuple[np.ndarray, np.ndarray]:
        """R (..., n, 3, 3) and p (..., n, 3) of the bodies."""
        q = self._configurations(q)
        q = q[..., : 7 * len(self.bodies)].reshape(*q.shape[:-1], len(self.bodies), 7)
        entries = SO3.element(np.moveaxis(q[..., :4], -1, 0))
        return np.moveaxis(np.array(entries), (0, 1), (-2, -1)), q[..., 4:]

    def _body_velocities(self, q: Array, v: Array) -> tuple[np.ndarray, np.ndarray]:
        """omega and the velocity of the centre of mass, both in the bodies' axes, (..., n, 3)."""
        R, _ = self._axes(q)
        v = np.asarray(v, float)
        if v.ndim < 1 or v.shape[-1] != self.nv:
            raise ShapeError(f"v has shape {v.shape}, expected (..., {self.nv})")
        v = v.reshape(*v.shape[:-1], len(self.bodies), 6)
        linear = np.array(np.broadcast_to(v[..., 3:], np.broadcast_shapes(v[..., 3:].shape, R.shape[:-1])))
        direct = self.by_group[1]
        linear[..., direct, :] = np.einsum("...ij,...i->...j", R[..., direct, :, :], linear[..., direct, :])
        return np.broadcast_to(v[..., :3], linear.shape), linear

    # -- energies -----------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Array, v: Array) -> np.ndarray:
        """sum of omega . Theta omega / 2 + m |v|^2 / 2, (...)                                          [J]"""
        w, u = self._body_velocities(q, v)
        mass, Theta = np.array([b.mass for b in self.bodies]), np.stack([b.Theta for b in self.bodies])
        turning = np.einsum("...ni,nij,...nj->...", w, Theta, w)
        return 0.5 * (turning + np.einsum("n,...ni,...ni->...", mass, u, u))

    def potential_energy(self, q: Array) -> np.ndarray:
        """Of weight, -sum m g . p, and of springs, (...)                                               [J]"""
        _, p = self._axes(q)
        total = -np.einsum("n,i,...ni->...", np.array([b.mass for b in self.bodies]), self.gravity, p)
        for f in self.forces:
            if type(f.kind).energy is not ForceKind.energy:
                total = total + self._spring_energy(f, q)
        return total

    def _spring_energy(self, force: Force, q: Array) -> np.ndarray:
        R, p = self._axes(q)
        batch = p.shape[:-2]
        values = [
            force.kind.energy(
                [GROUND_STATE if b < 0 else State(r[b], x[b], 0, 0) for b in force.bodies], force.constants
            )
            for r, x in zip(R.reshape(-1, *R.shape[-3:]), p.reshape(-1, *p.shape[-2:]), strict=True)
        ]
        return np.reshape(values, batch)

    # -- equations of motion ------------------------------------------------------------------------------

    def accelerations(self, q: Array, v: Array, u: Array = None, t: Array = 0.0) -> tuple[Array, Array]:
        """dv/dt (..., nv) and the multipliers (..., nc) at a state, with efforts u (..., nu), at time t.

        Positions and velocities are taken as they are; multipliers of least norm where constraints are
        redundant.
        """
        u = np.zeros(self.nu) if u is None else u
        return self.kernel("accelerations")(t, q, v, u)

    def violation(self, q: Array, t: Array = 0.0) -> dict[str, np.ndarray]:
        """g of each constraint, (..., rows): zero where it holds                                 [m, rad]"""
        g, _ = self.kernel("residuals")(t, q, np.zeros(self.nv))
        return {name: g[..., rows] for name, rows in self.rows.items()}

    def velocity_violation(self, q: Array, v: Array, t: Array = 0.0) -> dict[str, np.ndarray]:
        """J v + dg/dt of each constraint, (..., rows)                                     [m/s, rad/s]"""
        _, rate = self.kernel("residuals")(t, q, v)
        return {name: rate[..., rows] for name, rows in self.rows.items()}

    def jacobian(self, q: Array, t: float = 0.0) -> np.ndarray:
        """J (nc, nv) with J v = the rate of the constraints, as left-trivialised velocities enter it."""
        q = self._configurations(q)
        _, J, _ = assembly.measure(self, q, t=t)
        R, _ = self._axes(q)
        for i in self.by_group[1]:
            J[:, 6 * i + 3 : 6 * i + 6] = J[:, 6 * i + 3 : 6 * i + 6] @ R[i].T
        return J

    def reactions(self, q: Array, v: Array, u: Array = None, t: float = 0.0) -> dict[str, np.ndarray]:
        """The wrench (moment, force) of each constraint on its last body                        [N m, N]

        At the joint's frame on that body (for constraints that are no joints: at its centre of mass) and in
        the axes of that frame. It does not contain efforts and damping along a joint's motions.
        """
        _, multipliers = self.accelerations(q, v, u, t)
        q = self._configurations(q)
        return {c.name: self.reaction_wrenches(c.name, q, multipliers, t) for c in self.constraints}

    def reaction_wrenches(self, constraint: str, q: Array, multipliers: Array, t: Array = 0.0) -> np.ndarray:
        """The wrench (..., 6) of one constraint on its last body, from multipliers (..., nc)."""
        c = next(c for c in self.constraints if c.name == constraint)
        rows, i, X = self.rows[constraint], c.bodies[-1], SE3.Ad(c.frame).T
        q, multipliers = self._configurations(q), np.asarray(multipliers)
        F = np.zeros((*q.shape[:-1], 6))
        times = np.broadcast_to(t, q.shape[:-1])
        for at in np.ndindex(q.shape[:-1]):
            F[at] = X @ -(
                multipliers[at][rows]
                @ assembly.measure(self, q[at], t=float(times[at]))[1][rows, 6 * i : 6 * i + 6]
            )
        return F

    # -- states on the constraints ------------------------------------------------------------------------

    def assemble(
        self, q: Array = None, hold: Sequence[str] = (), t: float = 0.0, tolerance: float = 1e-12
    ) -> np.ndarray:
        """A configuration (nq,) in which all constraints hold, next to the guess q, by Gauss-Newton steps.

        q     a rough configuration; None: that of the builder
        hold  bodies that stay where they are

        Changes are least in the metric of M. Raises ConstraintError with the loop that cannot close and what
        is left over.
        """
        return assembly.assemble(self, self.guess if q is None else q, hold, t, tolerance)

    def consistent_velocities(
        self, q: Array, v: Array, hold: Sequence[str] = (), t: float = 0.0
    ) -> np.ndarray:
        """The velocities (nv,) next to v, in the metric of M, that keep the constraints at q.

        hold  bodies that keep their velocities

        Raises ConstraintError where there are none.
        """
        return assembly.consistent_velocities(self, np.asarray(q, float), np.asarray(v, float), hold, t)

    def project(self, q: Array, v: Array, t: Array = 0.0) -> tuple[Array, Array]:
        """States (..., nq), (..., nv) that have drifted, put back: positions, then velocities."""
        return self.kernel("on_constraints")(t, q, v)

    def report(self, q: Array = None, t: float = 0.0) -> Report:
        """Degrees of freedom, rank and redundancy at q (by default, where the guess closes)."""
        return assembly.report(self, self.assemble(t=t) if q is None else self._configurations(q), t)

    @cached_property
    def redundant(self) -> bool:
        """Whether equations depend on each other, where the guess closes."""
        try:
            return self.nc > 0 and self.report().redundancy > 0
        except ConstraintError:
            return True

    def check_state(self, q: Array, v: Array, t: float = 0.0) -> None:
        """Raise ConfigurationError for states (..., nq), (..., nv) off the constraints by 1e-6 or more."""
        if not self.nc:
            return
        g, rate = (np.abs(x) for x in self.kernel("residuals")(t, q, v))
        size = 1 + np.abs(np.asarray(v)).max()
        for values, bound, what, remedy in (
            (g, TOLERANCE, "q0 violates", "q0 = system.assemble(q0)"),
            (rate, TOLERANCE * size, "v0 breaks", "v0 = system.consistent_velocities(q0, v0)"),
        ):
            for name, rows in self.rows.items():
                worst = values[..., rows].max(initial=0.0)
                if not worst < bound:
                    raise ConfigurationError(
                        f"{what} constraint {name!r} of {self.name} by {worst:.3g}, expected less than "
                        f"{bound:.1g}; start from {remedy}"
                    )

    def diagnosis(self, q: Array, t: float = 0.0) -> str:
        """In words, which constraints become dependent close to q; empty if none do."""
        if self.redundant:
            return ""
        smallest, names = assembly.nearly_dependent(self, q, t)
        if smallest > NEARLY:
            return ""
        return (
            f"the constraints {', '.join(map(repr, names))} become dependent there (smallest singular value "
            f"of their scaled Jacobian {smallest:.2g}): a singular configuration, where motions branch"
        )

    # -- kernels ------------------------------------------------------------------------------------------

    def kernel(self, name: str) -> Kernel:
        """The compiled kernel of "accelerations", "residuals", "position projection", ..."""
        if name not in self._kernels:
            shapes, make = _KERNELS[name]
            sizes: dict[str, Any] = {"t": (), "q": self.nq, "v": self.nv, "u": self.nu}
            inputs = {key: sizes[key] for key in shapes}
            self._kernels[name] = Kernel(
                written(name, inputs, lambda memory, *cells: make(memory, self, *cells), self.is_large)
            )
        return self._kernels[name]

    @cached_property
    def _kernels(self) -> dict[str, Kernel]:
        return {}

    @property
    def is_large(self) -> bool:
        """Whether its functions are programs, whose code does not grow with it, not straight lines."""
        return self.nv + self.nc > LARGE

    @cached_property
    def flows(self) -> dict[Any, Any]:
        """Compiled loops of simulations, by what determines them."""
        return {}

    def _closest(self, k: int, start: float, q: Array) -> float:
        """The parameter of constraint k, a curve, closest to its point at q."""
        c = self.constraints[k]
        assert isinstance(c.kind, OnCurve)
        T = [SE3.element(q[7 * i : 7 * i + 7]) if i >= 0 else np.eye(4) for i in c.bodies]
        place = SE3.inverse(T[0]) @ T[1] @ np.append(c.constants[0], 1)
        return c.kind.closest(start, place[:3])


TOLERANCE = 1e-6  # of initial states
NEARLY = 1e-3  # a smallest singular value, below which a place counts as singular
LARGE = 150  # velocities and equations, from which on a system is large


def _accelerations(
    memory: Memory, system: System, t: Cells, q: Cells, v: Cells, u: Cells
) -> dict[str, Cells]:
    y = np.concatenate([q, v])
    found = equations.motion(memory, system, t, y, u, NOTHING, system.redundant)
    return {"a": found.field[-system.nv :], "multipliers": found.multipliers}


def _residuals(memory: Memory, system: System, t: Cells, q: Cells, v: Cells) -> dict[str, Cells]:
    state = equations.bodies(memory, system, q, v)
    slides = q[7 * len(system.bodies) :]
    found = equations.blocks(
        memory, system, state, t, slides, None, lambda rows, rate, _: [rows.residual, rate]
    )
    empty = np.zeros(0, int)
    g, rate = (np.concatenate([empty, *(right[i] for right in found.right)]) for i in range(2))
    return {"residual": g, "rate": rate}


def _on_constraints(memory: Memory, system: System, t: Cells, q: Cells, v: Cells) -> dict[str, Cells]:
    y = equations.projected(memory, system, t, np.concatenate([q, v]), system.redundant)
    return {"q": y[: system.nq], "v": y[system.nq :]}


def _velocities(memory: Memory, system: System, t: Cells, q: Cells, v: Cells) -> dict[str, Cells]:
    return {"v": equations.on_velocities(memory, system, t, q, v, system.redundant)}


_KERNELS: dict[str, tuple[tuple[str, ...], Callable[..., dict[str, Cells]]]] = {
    "accelerations": (("t", "q", "v", "u"), _accelerations),
    "residuals": (("t", "q", "v"), _residuals),
    "on_constraints": (("t", "q", "v"), _on_constraints),
    "on_velocities": (("t", "q", "v"), _velocities),
}
