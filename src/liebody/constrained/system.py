"""Systems of rigid bodies in absolute coordinates with constraints: their states, energies and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..bodies import WORLD
from ..codegen import Function, Program
from ..errors import ModelError, ShapeError, counted
from ..groups import SE3, SO3, LieGroup, Product, R
from . import equations
from .bodies import MovingBody
from .constraints import GROUND as GROUND_STATE
from .constraints import Constraint, OnCurve, State
from .elimination import PROXIMAL, Elimination, Factors, Regularization
from .equations import NOTHING, Stabilization
from .forces import Force, ForceKind
from .mechanism import Mechanism, Part, Parts
from .passes import Cells, Inline, Memory, written

Array = Any
GROUND = -1


@dataclass(frozen=True, eq=False, repr=False)
class System(Mechanism):
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
        for start, k in zip(self.curves, (k for k, c in enumerate(self.constraints) if c.kind.parameters)):
            slides.append(self._closest(k, start, np.concatenate(q)))
        return np.concatenate([*q, slides]).astype(float)

    def configuration(self, poses: Mapping[str, Array], q: Array = None) -> np.ndarray:
        """q (nq,) with these bodies' own frames at these poses (4, 4); the others as in q, or as guessed."""
        q = self.guess.copy() if q is None else self.configurations(q).copy()
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

    def _axes(self, q: Array) -> tuple[np.ndarray, np.ndarray]:
        """R (..., n, 3, 3) and p (..., n, 3) of the bodies."""
        q = self.configurations(q)
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

    def jacobian(self, q: Array, t: float = 0.0) -> np.ndarray:
        """J (nc, nv) with J v = the rate of the constraints, as left-trivialised velocities enter it."""
        q = self.configurations(q)
        _, J, _ = self.measure(q, t=t)
        R, _ = self._axes(q)
        for i in self.by_group[1]:
            J[:, 6 * i + 3 : 6 * i + 6] = J[:, 6 * i + 3 : 6 * i + 6] @ R[i].T
        return J

    def reaction_wrenches(self, constraint: str, q: Array, multipliers: Array, t: Array = 0.0) -> np.ndarray:
        """The wrench (..., 6) of one constraint on its last moving body, from multipliers (..., nc)."""
        c = next(c for c in self.constraints if c.name == constraint)
        rows, i = self.rows[constraint], [b for b in c.bodies if b >= 0][-1]
        X = SE3.Ad(c.frame).T if i == c.bodies[-1] else np.eye(6)
        q, multipliers = self.configurations(q), np.asarray(multipliers)
        F = np.zeros((*q.shape[:-1], 6))
        times = np.broadcast_to(t, q.shape[:-1])
        for at in np.ndindex(q.shape[:-1]):
            F[at] = X @ -(
                multipliers[at][rows] @ self.measure(q[at], t=float(times[at]))[1][rows, 6 * i : 6 * i + 6]
            )
        return F

    # -- functions ----------------------------------------------------------------------------------------

    @property
    def is_large(self) -> bool:
        """Whether its functions are programs, whose code does not grow with it, not straight lines."""
        return self.nv + self.nc > LARGE

    def function(self, name: str) -> Function | Program:
        """The traced function "accelerations" (t, q, v, u), "residuals" or "on_constraints" (t, q, v)."""
        shapes, make = _FUNCTIONS[name]
        sizes: dict[str, Any] = {"t": (), "q": self.nq, "v": self.nv, "u": self.nu}
        inputs = {key: sizes[key] for key in shapes}
        return written(name, inputs, lambda memory, *cells: make(memory, self, *cells), self.is_large)

    def parts(
        self,
        stabilized: Stabilization,
        redundant: bool,
        feedback: Callable[..., Any] | None = None,
        watched: bool = False,
    ) -> Parts:
        """As `Mechanism.parts`."""
        nq, nv = self.nq, self.nv
        point, algebra = nq + nv, nq - len(self.bodies) + nv
        state = {"t": (), "y": point, "u": self.nu}
        large, surplus = self.is_large, self.surplus if watched else None

        def field(r: Regularization, memory: Memory, t: Cells, y: Cells, u: Cells) -> dict[str, Cells]:
            if feedback is not None:
                (u,) = memory.apply(
                    lambda t, y: np.asarray(feedback(t, y[:nq], y[nq:])), t.reshape(1), y.reshape(1, -1)
                )
            found = equations.motion(memory, self, t, y, u, stabilized, r)
            return {"f": found.field, **({} if r.surplus is None else {"worst": found.worst})}

        def after(r: Regularization, memory: Memory, t: Cells, y: Cells, u: Cells) -> dict[str, Cells]:
            z, worst = equations.projected(memory, self, t, y, r)
            return {"z": z, **({} if r.surplus is None else {"worst": worst})}

        def advance(memory: Memory, y: Cells, psi: Cells) -> dict[str, Cells]:
            return {"z": equations.advanced(memory, self, y, psi)}

        def pull(memory: Memory, psi: Cells, f: Cells) -> dict[str, Cells]:
            return {"k": equations.pulled(memory, self, psi, f)}

        def of_state(name: str, make: Callable[..., dict[str, Cells]], r: Regularization) -> Part:
            return lambda: written(name, state, partial(make, r), large)

        return Parts.of(
            lambda r: of_state("field", field, r),
            lambda: written("advance", {"y": point, "psi": algebra}, advance, large),
            lambda: written("pull", {"psi": algebra, "f": algebra}, pull, large),
            lambda r: of_state("after", after, r),
            stabilized.projected,
            redundant,
            surplus,
        )

    def mechanics(self) -> dict[str, Any]:
        """M, Q(t, q, v, u), g(q), J(q) and the group, as `liebody.integrators` takes mechanical systems:

            flow = integrators.GeneralizedAlpha(rho_inf=0.9).flow(**system.mechanics())

        g and J are all equations, and `redundant` says whether they depend on each other. Raises ModelError
        for curves and for constraints that move, which those methods do not know.
        """
        for c in self.constraints:
            if c.kind.parameters or getattr(c.kind, "timed", False):
                raise ModelError(
                    f"constraint {c.name!r} has a coordinate of its own or depends on time, which methods "
                    "for g(q) = 0 do not take; use an explicit method, such as 'rkmk4'"
                )
        n, (_, direct) = len(self.bodies), self.by_group
        M = np.zeros((self.nv, self.nv))
        for i, b in enumerate(self.bodies):
            M[6 * i : 6 * i + 3, 6 * i : 6 * i + 3] = b.Theta
            M[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6] = b.mass * np.eye(3)

        def state_of(memory: Inline, q: Array, v: Array) -> equations.Bodies:
            return equations.bodies(memory, self, memory.put(q), memory.put(v))

        def applied(t: Any, q: Array, v: Array, u: Array) -> Array:
            memory = Inline()
            state = state_of(memory, q, v)
            cells = equations.wrenches_of_forces(memory, self, state, memory.put(t), memory.put(u))
            parts = []
            for i, b in enumerate(self.bodies):
                F, R = memory.get(cells[i]), memory.get(state.R[i])
                weight = b.mass * self.gravity
                linear = R @ F[3:] + weight if i in direct else F[3:] + weight @ R
                parts += [F[:3], linear]
            return np.concatenate(parts)

        def rows(q: Array) -> tuple[Inline, equations.Bodies, equations.Blocks]:
            memory = Inline()
            state = state_of(memory, q, np.zeros(self.nv, int))
            none = memory.put(np.zeros(0))
            found = equations.blocks(
                memory, self, state, memory.put(0.0), none, None, lambda rows, *_: [rows.residual]
            )
            return memory, state, found

        def g(q: Array) -> Array:
            memory, _, found = rows(q)
            return np.concatenate([memory.get(right[0]) for right in found.right])

        def J(q: Array) -> Array:
            memory, state, found = rows(q)
            lines = []
            for c, blocks in zip(self.constraints, found.J, strict=True):
                line: list[Any] = [np.zeros((c.rows, 6), int)] * n
                for i, cells in blocks.items():
                    block = memory.get(cells)
                    if i in direct:
                        turned = block[:, 3:] @ memory.get(state.R[i]).T
                        block = np.concatenate([block[:, :3], turned], axis=1)
                    line[i] = block
                lines.append(np.concatenate(line, axis=1))
            return np.concatenate(lines)

        constraints = {"g": g, "J": J, "redundant": self.redundant} if self.nc else {}
        return {"group": self.group, "M": M, "Q": applied, "efforts": self.nu, **constraints}

    # -- measuring, for `assembly` ------------------------------------------------------------------------

    def measure(self, q: Array, v: Array | None = None, t: float = 0.0) -> tuple[Array, Array, Array]:
        """(g (nc,), J (nc, nv) for (omega, v) in the bodies' axes, rate of g (nc,)) at one state."""
        memory = Inline()
        v = np.zeros(self.nv) if v is None else v
        state = equations.bodies(memory, self, memory.put(q), memory.put(v))
        slides = memory.put(q[7 * len(self.bodies) :])
        found = equations.blocks(
            memory, self, state, memory.put(t), slides, None, lambda rows, rate, _: [rows.residual, rate]
        )
        J = np.zeros((self.nc, self.nv))
        g, rate = np.zeros(self.nc), np.zeros(self.nc)
        for c, blocks, right in zip(self.constraints, found.J, found.right, strict=True):
            rows = self.rows[c.name]
            g[rows], rate[rows] = (memory.get(cells) for cells in right)
            for i, cells in blocks.items():
                J[rows, 6 * i : 6 * i + 6] = memory.get(cells)
        return g, J, rate

    def dependence(self, q: Array, t: float) -> tuple[int, np.ndarray]:
        """How many equations are redundant, and the share (nc,) that each has in that; for large systems.

        As many eigenvalues of A lie below sigma D as A - sigma D has negative pivots (Sylvester's law of
        inertia). A random vector becomes one of the null space by inverse iteration.
        """
        memory = Inline()
        shifted, _ = self._factors(memory, q, t, -NEGLIGIBLE)
        signs = [memory.get(p[-len(d) :]) for p, d in zip(shifted.lower, shifted.scale, strict=True)]
        count = int((np.concatenate(signs) < 0).sum())
        if not count:
            return 0, np.zeros(self.nc)
        factors, regularization = self._factors(memory, q, t, PROXIMAL)
        D, rng = [memory.get(d) for d in factors.scale], np.random.default_rng(0)
        x = [rng.standard_normal(len(d)) for d in D]
        for _ in range(2):
            right = [memory.put(d * y / np.abs(np.concatenate(x)).max()) for d, y in zip(D, x, strict=True)]
            solution = self.elimination.solve(memory, factors, right, regularization)
            x = [memory.get(cells) for cells in solution]
        shares = np.concatenate([np.sqrt(d) * np.abs(y) for d, y in zip(D, x, strict=True)])
        return count, shares / np.linalg.norm(shares)

    def row_sizes(self, q: Array, t: float = 0.0) -> np.ndarray:
        """As `Mechanism.row_sizes`."""
        rows = self.measure(q, t=t)[1] @ self.inverse_mass_root(q, ())
        return np.asarray((rows * rows).sum(axis=1))

    def relative_pivots(self, q: Array, t: float = 0.0) -> np.ndarray:
        """As `Mechanism.relative_pivots`."""
        memory = Inline()
        factors, _ = self._factors(memory, q, t, PROXIMAL)
        pairs = zip(factors.lower, factors.scale, strict=True)
        return np.concatenate([1 / (memory.get(p[-len(d) :]) * memory.get(d)) for p, d in pairs])

    def _factors(self, memory: Inline, q: Array, t: float, shift: float) -> tuple[Factors, Regularization]:
        """Factors of A + shift D at q."""
        state = equations.bodies(memory, self, memory.put(q), memory.put(np.zeros(self.nv)))
        slides = memory.put(q[7 * len(self.bodies) :])
        found = equations.blocks(memory, self, state, memory.put(t), slides, None, lambda *_: [])
        regularization = Regularization(True, shift)
        return equations.factor(memory, self, found, regularization), regularization

    def inverse_mass_root(self, q: Array, hold: Sequence[str]) -> np.ndarray:
        """W with W W^T = M^-1 (nv, nv); zero for bodies that are held."""
        W = np.zeros((self.nv, self.nv))
        held = {self.index(name) for name in hold}
        for i, b in enumerate(self.bodies):
            if i not in held:
                W[6 * i : 6 * i + 3, 6 * i : 6 * i + 3] = np.linalg.cholesky(b.inverse)
                W[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6] = np.eye(3) / np.sqrt(b.mass)
        return W

    def moved(self, q: Array, step: Array) -> np.ndarray:
        """q exp(step), the step given by (omega, v) in the bodies' axes; curves at their closest points."""
        u = np.concatenate([self.changed(q, np.zeros(self.nv), step), np.zeros(self.ns)])
        return self._at_closest(np.array(self.group.normalize(self.group.integrate(q, u)), float))

    def changed(self, q: Array, v: Array, change: Array) -> np.ndarray:
        """v plus a change of (omega, v) in the bodies' axes."""
        memory = Inline()
        state = equations.bodies(memory, self, memory.put(q), memory.put(v))
        cells = equations.moved(memory, self, state, memory.put(change.reshape(-1, 6)))
        return np.asarray(memory.get(cells)).reshape(-1)

    def loop(self, constraint: str) -> tuple[str, ...]:
        """The constraints of the shortest loop of bodies that contains this one; itself, if none."""
        c = next(c for c in self.constraints if c.name == constraint)
        start, goals = c.bodies[0], set(c.bodies[1:])
        paths: dict[int, tuple[str, ...]] = {start: (constraint,)}
        pending = [start]
        while pending and goals:
            b = pending.pop(0)
            for other in self.constraints:
                if other.name != constraint and b in other.bodies:
                    for reached in other.bodies:
                        if reached not in paths:
                            paths[reached] = (*paths[b], other.name)
                            pending.append(reached)
                            if reached in goals:
                                return paths[reached]
        return (constraint,)

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
        place = SE3.inverse(T[0]) @ T[1] @ np.append(c.constants[0], 1)
        return c.kind.closest(start, place[:3] - c.constants[1])


NEGLIGIBLE = 1e-11  # of D: an eigenvalue of A that counts as zero
LARGE = 100  # velocities and equations, from which on a system is large


def _accelerations(
    memory: Memory, system: System, t: Cells, q: Cells, v: Cells, u: Cells
) -> dict[str, Cells]:
    y = np.concatenate([q, v])
    found = equations.motion(memory, system, t, y, u, NOTHING, Regularization.plain(system.redundant))
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
    return _projected(memory, system, t, q, v, system.redundant)


def _towards_constraints(memory: Memory, system: System, t: Cells, q: Cells, v: Cells) -> dict[str, Cells]:
    """As "on_constraints", whether or not equations are redundant, which may not be known yet."""
    return _projected(memory, system, t, q, v, True)


def _projected(
    memory: Memory, system: System, t: Cells, q: Cells, v: Cells, redundant: bool
) -> dict[str, Cells]:
    y, _ = equations.projected(memory, system, t, np.concatenate([q, v]), Regularization.plain(redundant))
    return {"q": y[: system.nq], "v": y[system.nq :]}


_FUNCTIONS: dict[str, tuple[tuple[str, ...], Callable[..., dict[str, Cells]]]] = {
    "accelerations": (("t", "q", "v", "u"), _accelerations),
    "residuals": (("t", "q", "v"), _residuals),
    "on_constraints": (("t", "q", "v"), _on_constraints),
    "towards_constraints": (("t", "q", "v"), _towards_constraints),
}
