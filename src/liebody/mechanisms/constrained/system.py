"""Systems of rigid bodies in absolute coordinates with constraints: energies, equations of motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.concurrency import cached_property
from ...bodies import Parameter
from ...bodies.labels import Labels
from ...groups import SE3, Prismatic, Revolute
from ...groups.so3 import quaternions
from ...integrators.saddle_point import PROXIMAL, Factors, Regularization
from ...scalars import Array
from ...scalars.linear import cross, matvec
from ..contract import Functions
from ..forces import Force, FrameForce, JointForce, JointLimits, Limits
from ..prescribed import OfTime
from . import equations, projection
from .constraints import GROUND as REST
from .constraints import BodyState, Constraint
from .coordinates import AbsoluteCoordinates
from .drives import SUFFIX
from .forces import JointEffort, on_bodies, with_law
from .mechanism import Constrained, StateRate
from .stabilization import Stabilization

NEGLIGIBLE = 1e-11  # of D: an eigenvalue of A that counts as zero
LARGE = 100  # velocities and equations, from which on a system is large
NONE = np.zeros(0, int)


class System(AbsoluteCoordinates):
    """Rigid bodies in absolute coordinates, joined by constraints. Made by a `SystemBuilder`.

    q (nq,) holds for each body (w, x, y, z, px, py, pz), attitude and centre of mass in the world, and after
    the bodies one parameter for each curve. v (nv,) holds (omega, v) for each body: omega in the body's axes,
    v the velocity of the centre of mass, in the body's axes on SE(3), in the world's on SO(3) x R^3.
    `configuration`, `velocities`, `poses` and `twists` translate to the bodies' own frames.
    """

    # The class is long because it fulfils the contracts of `Mechanism` and `Constrained`, mostly by short
    # calls of `equations` and `projection`.

    # -- forces and parameters ----------------------------------------------------------------------------

    def take(self, forces: tuple[Force, ...]) -> None:
        # forces of joints and frames become wrenches on bodies; all others stay forces in (q, v)
        body_forces = list(self.forces)
        for force in forces:
            if isinstance(force, JointForce):
                body_forces = with_law(body_forces, force, self.constraints)
            elif isinstance(force, FrameForce):
                body_forces.append(
                    on_bodies(force, self.bodies, [self._moving(name) for name in force.frames])
                )
        # the dataclass is frozen, but `take` only runs on a copy that nobody uses yet
        object.__setattr__(self, "forces", tuple(body_forces))
        object.__setattr__(self, "added", (*self.added, *forces))
        generalised = [f for f in forces if not isinstance(f, (JointForce, FrameForce))]
        object.__setattr__(self, "generalised", (*self.generalised, *generalised))

    def with_prescribed(self, drives: Mapping[str, OfTime]) -> System:
        """As `Mechanism.with_prescribed`, of Revolute and Prismatic joints and functions of time alone.

        Each joint has a constraint, `crank.drive` of the joint `crank`, as `SystemBuilder.drive` adds it.
        """
        if self.definition is None:
            return super().with_prescribed(drives)
        driven = self.plain.definition.driven(drives)
        key = ("prescribed", *((x, driven.constraints[x + SUFFIX].kind.functions[0].form) for x in drives))
        if key not in self.flows:
            system: System = driven.system()
            system.take(self.added)
            size = self.layout.size
            self.flows[key] = system.with_parameters(dict(self.layout.defaults)) if size else system
        return self.flows[key]

    def own_parameters(self) -> dict[str, Parameter]:
        if self.definition is None:
            return {}
        gravity = {"gravity": Parameter("gravity", self.gravity, "m/s2")}
        return {**self.definition.of_bodies(self), **self.definition.of_links(self), **gravity}

    def varied(self, values: Mapping[str, Array], first: System | None) -> System:
        system: System = self.definition.with_values(values, self).system()
        system.take(self.added)
        return system.sharing(first)

    def _at(self, p: Array) -> System:
        system: System = self.plain.definition.with_values(self.layout.named(p), self.plain).system()
        system.take(self.added)
        return system

    # -- energies -----------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Array, v: Array, parameters: Any = None) -> np.ndarray:
        """sum of omega . Theta omega / 2 + m |v|^2 / 2, (...)                                          [J]"""
        if self.layout.size:
            return self.evaluated("energies", q, v, p=self.packed(parameters))[0]
        w, u = self._body_velocities(q, v)
        mass = np.array([b.mass for b in self.bodies])
        Theta = np.stack([b.Theta for b in self.bodies])
        turning = np.einsum("...ni,nij,...nj->...", w, Theta, w)
        return 0.5 * (turning + np.einsum("n,...ni,...ni->...", mass, u, u))

    def potential_energy(self, q: Array, parameters: Any = None) -> np.ndarray:
        """Energy of weight, -sum m g . p, and of springs, (...)                                        [J]"""
        if self.layout.size:
            return self.evaluated("energies", q, np.zeros(self.nv), p=self.packed(parameters))[1]
        R, p = self._axes(q)
        total = -np.einsum("n,i,...ni->...", np.array([b.mass for b in self.bodies]), self.gravity, p)
        if any(f.kind.stores for f in self.forces) or any(f.stores for f in self.generalised):
            n = len(self.bodies)
            flat = np.asarray(q, float).reshape(-1, self.nq)
            places = zip(flat, R.reshape(-1, n, 3, 3), p.reshape(-1, n, 3), strict=True)
            # energies need no velocities, whose places hold zeros
            stored = [self._stored(x, [*map(BodyState, r, c, [0] * n, [0] * n), REST]) for x, r, c in places]
            total = total + np.reshape(stored, p.shape[:-2])
        return total

    def potential(self, q: Array) -> Any:
        states = equations.bodies(self, q, np.zeros(self.nv, int)).states
        # m g . p is the work of the weight, the potential is minus that
        weight = sum(b.mass * (self.gravity @ x.p) for b, x in zip(self.bodies, states))
        return self._stored(q, states) - weight

    def functions(self) -> Functions:
        """As `Constrained.functions`, and "energies" (q, v)."""

        def energies(q: Array, v: Array) -> dict[str, Any]:
            kinetic: Any = 0.0
            for b, x in zip(self.bodies, equations.bodies(self, q, v).states):
                kinetic = kinetic + 0.5 * (x.w @ (b.Theta @ x.w)) + 0.5 * b.mass * (x.v @ x.v)
            return {"kinetic": kinetic, "potential": self.potential(q)}

        return {**super().functions(), "energies": (energies, {"q": self.nq, "v": self.nv})}

    def _stored(self, q: Array, states: Sequence[BodyState]) -> Any:
        """Potential energy of the forces, of the bodies' states and, last, the ground's."""
        energy: Any = sum(f.energy(q) for f in self.generalised)
        for f in self.forces:
            if f.kind.stores:
                energy = energy + f.kind.energy([states[b] for b in f.bodies], f.constants)
        return energy

    # -- equations of motion ------------------------------------------------------------------------------

    def reaction_rows(self, c: Constraint, q: Array, t: float) -> np.ndarray:
        # the last moving body carries the reaction, so its six columns of J are taken
        i = [b for b in c.bodies if b >= 0][-1]
        J = self.measure(q, t=t)[1][self.rows[c.name], 6 * i : 6 * i + 6]
        return J @ SE3.Ad(c.frame) if i == c.bodies[-1] else J

    def carried(self, constraint: str, q: Array, v: Array, t: Array = 0.0) -> np.ndarray:
        q = self.configurations(q)
        v = np.asarray(v, float)
        F = np.zeros((*q.shape[:-1], 6))
        times = np.broadcast_to(t, q.shape[:-1])
        for force in self.forces:
            if force.name == constraint and isinstance(force.kind, JointEffort) and force.kind.laws:
                for at in np.ndindex(q.shape[:-1]):
                    states = equations.bodies(self, q[at], v[at]).states
                    acting = [states[b] for b in force.bodies]
                    # constants[5] is W: efforts along the joint's motions become a wrench
                    F[at] = force.constants[5] @ force.kind.carried(acting, force.constants, times[at])
        return F

    @cached_property
    def _single(self) -> list[Constraint]:
        """Hinges and slides."""
        kinds = Revolute | Prismatic
        return [c for c in self.constraints if c.joint and isinstance(c.joint.group, kinds)]

    @cached_property
    def joint_labels(self) -> tuple[Labels, Labels] | None:
        """Names and units of coordinates and velocities of hinges and slides; None where there are none."""
        if not self._single:
            return None
        turns = [isinstance(c.joint.group, Revolute) for c in self._single if c.joint]
        names = [c.name for c in self._single]
        pairs = (("rad", "m"), ("rad/s", "m/s"))
        x, v = (Labels.of([(n, a if turn else b) for n, turn in zip(names, turns)]) for a, b in pairs)
        return x, v

    @cached_property
    def all_joined(self) -> bool:
        """Whether every body has a hinge or a slide, and no curve has a coordinate."""
        joined = {b for c in self._single for b in c.bodies}
        return joined.issuperset(range(len(self.bodies))) and not self.ns

    def joint_motions(self, q: Array, v: Array) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and velocities (..., nj) of hinges and slides, as `joint_labels` names them.

        Angles are between -pi and pi. The part of a motion that violates a joint is left out.
        """
        q = self.configurations(q)
        R, p = self._axes(q)
        w, u = self._body_velocities(q, v)
        spin, speed = matvec(R, w), matvec(R, u)  # in the world's axes
        rates = []
        for c in self._single:
            assert c.joint is not None
            a, b = c.bodies
            S = c.joint.group.S[:, 0]
            axes = c.joint.on_parent[:3, :3] if a < 0 else R[..., a, :, :] @ c.joint.on_parent[:3, :3]
            turning = spin[..., b, :] - (0 if a < 0 else spin[..., a, :])
            if S[:3].any():
                rates.append(np.sum((axes @ S[:3]) * turning, axis=-1))
                continue
            # of the child's point, less the velocity of the parent at that place
            arm = R[..., b, :, :] @ c.joint.on_child[:3, 3]
            point = speed[..., b, :] + np.cross(spin[..., b, :], arm)
            if a >= 0:
                place = p[..., b, :] + arm - p[..., a, :]
                point = point - speed[..., a, :] - np.cross(spin[..., a, :], place)
            rates.append(np.sum((axes @ S[3:]) * point, axis=-1))
        return self._coordinates_in(self._single, q), np.stack(rates, axis=-1)

    @cached_property
    def _limited(self) -> list[Constraint]:
        """Hinges and slides that have limits without stops."""
        stops = None if self.definition is None else self.definition.stops
        stopped = () if stops is None else dict(stops.stiffness)
        single = [c for c in self._single if c.name not in stopped]
        return [c for c in single if np.isfinite([c.joint.joint.lower, c.joint.joint.upper]).any()]  # type: ignore[union-attr]

    @cached_property
    def idle_limits(self) -> Limits | None:
        if not self._limited or any(isinstance(force, JointLimits) for force in self.added):
            return None
        joints = [c.joint.joint for c in self._limited if c.joint]
        ends = (np.concatenate([getattr(x, end) for x in joints]).astype(float) for end in ("lower", "upper"))
        return Limits([x.name for x in joints], *ends)

    def limited(self, q: Array, p: Array = None) -> Array:
        """As `Mechanism.limited`: angles between -pi and pi, and translations."""
        if p is not None and p.ndim > 1:
            return np.stack([self.limited(x, y) for x, y in zip(q, p, strict=True)])
        here = self if p is None else self.at(p)
        return here._coordinates_in(here._limited, q)

    def _coordinates_in(self, joints: Sequence[Constraint], q: Array) -> np.ndarray:
        """The coordinates (..., n) of hinges and slides at configurations (..., nq)."""
        poses = np.zeros((*q.shape[:-1], 1 + len(self.bodies), 4, 4))
        # the world comes last, as body -1
        poses[..., 3, 3] = 1
        poses[..., -1, :3, :3] = np.eye(3)
        poses[..., :-1, :3, :3], poses[..., :-1, :3, 3] = self._axes(q)
        coordinates = []
        for c in joints:
            assert c.joint is not None
            a, b = (poses[..., i, :, :] @ T for i, T in zip(c.bodies, (c.joint.on_parent, c.joint.on_child)))
            S = c.joint.group.S[:, 0]
            T = np.linalg.inv(a) @ b
            # the angle is 2 arctan2(axis . vector part, |w|) of the quaternion, between -pi and pi
            w, *turn = np.moveaxis(quaternions(T[..., :3, :3]), -1, 0)
            angle = 2 * np.arctan2(np.tensordot(S[:3], turn, 1) * np.where(w < 0, -1, 1), np.abs(w))
            coordinates.append(angle if S[:3].any() else T[..., :3, 3] @ S[3:])
        return np.stack(coordinates, axis=-1)

    def world_accelerations(self, q: Array, v: Array, u: Array = None, t: Array = 0.0) -> np.ndarray:
        """(d omega/dt, d^2 p/dt^2) (..., n, 6) of the bodies' own frames, in the world's axes.

        They are derivatives of the angular velocity and of the position of the frame's origin, not of a
        twist: an inertial sensor there measures d^2 p/dt^2 - gravity.                         [rad/s2, m/s2]
        """
        R, _ = self._axes(q)
        w, linear = self._body_velocities(q, v)
        a = self.accelerations(q, v, u, t)[0].reshape(*w.shape[:-1], 6)
        rigid = np.array([b.group == SE3 for b in self.bodies])[:, None]
        turning = matvec(R, a[..., :3])
        moving = a[..., 3:]
        turned = matvec(R, moving + np.cross(w, linear))
        # from the centre of mass to the frame's origin: alpha x r + omega x (omega x r)
        to_origin = -matvec(R, np.array([b.offset[:3, 3] for b in self.bodies]))
        spin = matvec(R, w)
        of_origin = np.cross(turning, to_origin) + np.cross(spin, np.cross(spin, to_origin))
        return np.concatenate([turning, np.where(rigid, turned, moving) + of_origin], axis=-1)

    # -- functions ----------------------------------------------------------------------------------------

    @property
    def is_large(self) -> bool:
        """Whether its functions are loops, and sparse factors assemble it; small ones are straight lines."""
        return self.nv + self.nc > LARGE

    def motion(self, t: Any, y: Array, u: Array, stabilized: Stabilization, by: Regularization) -> StateRate:
        return equations.motion(self, t, y, u, stabilized, by)

    def projected(self, t: Any, y: Array, by: Regularization) -> tuple[Array, Array]:
        return projection.projected(self, t, y, by)

    def residuals(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        return self._violations(t, q, v)[:2]

    def _violations(self, t: Any, q: Array, v: Array) -> tuple[Array, Array, list[dict[int, Array]]]:
        """g, its rate (nc,), and J by constraints and bodies, for (omega, v) in the bodies' axes."""
        constraint_blocks = equations.blocks(
            self, equations.bodies(self, q, v), t, None, equations.violations
        )
        g, rate = (np.concatenate([NONE, *(right[i] for right in constraint_blocks.right)]) for i in range(2))
        return g, rate, constraint_blocks.J

    def constraints_at(self, q: Array, t: Any = 0.0) -> tuple[Array, Array]:
        return self._residual(q, t), self._dense(self.nc, self._blocks_of_J(q, t))

    def mechanics(self) -> dict[str, Any]:
        """As `Mechanism.mechanics`, with constant M; M and J by their blocks."""
        constraint_laws = Constrained.mechanics(self)
        laws = self.parametric_laws()
        if not self.layout.size:
            laws["M"] = self._blocks_of_M
            del laws["b"]
        by_blocks = {"g": self._residual, "J": self._blocks_of_J} if "g" in constraint_laws else {}
        return {"group": self.group, **laws, **constraint_laws, **by_blocks}

    @property
    def _blocks_of_M(self) -> list[tuple[int, int, Array]]:
        """First row, first column and block of M, (6, 6) for each body."""
        zero = np.zeros((3, 3), int)
        one = np.eye(3, dtype=int)
        blocks = [np.block([[b.Theta, zero], [zero, b.mass * one]]) for b in self.bodies]
        return [(6 * i, 6 * i, block) for i, block in enumerate(blocks)]

    def laws(self) -> dict[str, Any]:
        nu = self.nu

        def mass(q: Array) -> Array:
            return self._dense(self.nv, self._blocks_of_M)

        return {"M": mass, "b": self._inertial, "Q": lambda t, q, v, u: self.applied(t, q, v, u[:nu])}

    def _inertial(self, q: Array, v: Array) -> Array:
        """-ad_v^T M v:  (omega x Theta omega, omega x m v) on SE(3), without the last on SO(3) x R^3."""
        parts: list[Array] = [np.zeros(0, int)]
        for b, V in zip(self.bodies, v.reshape(-1, 6)):
            w = V[:3]
            rest = b.mass * cross(w, V[3:]) if b.group == SE3 else np.zeros(3, int)
            parts += [cross(w, b.Theta @ w), rest]
        return np.concatenate(parts)

    def _blocks_of_J(self, q: Array, t: Any = 0.0) -> equations.Blocks:
        """First row, first column and block of J, for the system's own velocities."""
        return equations.jacobians(self, equations.bodies(self, q, np.zeros(self.nv, int)), t)

    def _residual(self, q: Array, t: Any = 0.0) -> Array:
        """g (nc,)."""
        state = equations.bodies(self, q, np.zeros(self.nv, int))
        return np.concatenate([NONE, *projection.residuals(self, state, t)[0]])

    def _dense(self, rows: int, blocks: equations.Blocks) -> Array:
        """The matrix (rows, nv) of these blocks."""
        matrix = np.zeros((rows, self.nv), int).astype(object)
        for row, column, block in blocks:
            matrix[row : row + len(block), column : column + 6] = block
        return matrix

    def applied(self, t: Any, q: Array, v: Array, u: Array) -> Array:
        state = equations.bodies(self, q, v)
        return equations.forces(self, state, equations.wrenches_of_forces(self, state, t, u))

    # -- measuring, for `assembly` ------------------------------------------------------------------------

    def measure(self, q: Array, v: Array | None = None, t: float = 0.0) -> tuple[Array, Array, Array]:
        """(g (nc,), J (nc, nv) for (omega, v) in the bodies' axes, rate of g (nc,)) at one state."""
        v = np.zeros(self.nv, int) if v is None else np.asarray(v)
        g, rate, blocks = self._violations(t, np.asarray(q), v)
        J = self._dense(self.nc, equations.by_rows(self, blocks))
        return g.astype(float), J.astype(float), rate.astype(float)

    def dependence(self, q: Array, t: float) -> tuple[int, np.ndarray]:
        """How many equations are redundant, and the share (nc,) that each has in that; for large systems.

        As many eigenvalues of A lie below sigma D as A - sigma D has negative pivots (Sylvester's law of
        inertia). A random vector becomes one of the null space by inverse iteration.
        """
        # the last entries of the packed factors are the reciprocals of the pivots, which have their signs
        shifted, _ = self._factors(q, t, -NEGLIGIBLE)
        signs = [p[-len(d) :] for p, d in zip(shifted.lower, shifted.scale, strict=True)]
        count = int((np.concatenate(signs) < 0).sum())
        if not count:
            return 0, np.zeros(self.nc)
        # two inverse iterations leave the null space of A in x; its entries tell which rows take part
        factors, regularization = self._factors(q, t, PROXIMAL)
        D = factors.scale
        rng = np.random.default_rng(0)
        x = [rng.standard_normal(len(d)) for d in D]
        for _ in range(2):
            right = [d * y / np.abs(np.concatenate(x)).max() for d, y in zip(D, x, strict=True)]
            x = self.elimination.solve(factors, right, regularization)
        shares = np.concatenate([np.sqrt(d) * np.abs(y) for d, y in zip(D, x, strict=True)])
        return count, shares / np.linalg.norm(shares)

    def row_sizes(self, q: Array, t: float = 0.0) -> np.ndarray:
        rows = self.measure(q, t=t)[1] @ self.inverse_mass_root(q, ())
        return np.asarray((rows * rows).sum(axis=1))

    def relative_pivots(self, q: Array, t: float = 0.0) -> np.ndarray:
        return self._factors(q, t, PROXIMAL)[0].relative_pivots

    def _factors(self, q: Array, t: float, shift: float) -> tuple[Factors, Regularization]:
        """Factors of A + shift D at q."""
        state = equations.bodies(self, np.asarray(q), np.zeros(self.nv))
        constraint_blocks = equations.blocks(self, state, t, None, lambda *_: [])
        regularization = Regularization(True, shift)
        return equations.factor(self, constraint_blocks, regularization), regularization

    def inverse_mass_root(self, q: Array, hold: Sequence[str]) -> np.ndarray:
        """W with W W^T = M^-1 (nv, nv); zero for bodies that are held."""
        W = np.zeros((self.nv, self.nv))
        held = {self.index(name) for name in hold}
        for i, b in enumerate(self.bodies):
            # W is block diagonal: Cholesky's factor of Theta^-1, and 1/sqrt(m) for translations
            if i not in held:
                W[6 * i : 6 * i + 3, 6 * i : 6 * i + 3] = np.linalg.cholesky(b.inverse)
                W[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6] = np.eye(3) / np.sqrt(b.mass)
        return W

    def moved(self, q: Array, step: Array) -> np.ndarray:
        """q exp(step), the step given by (omega, v) in the bodies' axes; curves at their closest points."""
        return self._at_closest(super().moved(q, self.changed(q, np.zeros(self.nv), step)))

    def changed(self, q: Array, v: Array, change: Array) -> np.ndarray:
        """v plus a change of (omega, v) in the bodies' axes."""
        state = equations.bodies(self, np.asarray(q), np.asarray(v))
        return np.asarray(equations.moved(self, state, list(change.reshape(-1, 6)))).reshape(-1)

    def loop(self, constraint: str) -> tuple[str, ...]:
        """The constraints of the shortest loop of bodies that contains this one; itself, if none."""
        c = next(c for c in self.constraints if c.name == constraint)
        start = c.bodies[0]
        goals = set(c.bodies[1:])
        paths: dict[int, tuple[str, ...]] = {start: (constraint,)}
        pending = [start]
        # breadth first over bodies joined by other constraints: the first path that comes back is shortest
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
