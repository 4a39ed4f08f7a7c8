"""Systems of rigid bodies in absolute coordinates with constraints: their states, energies and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.arguments import vector, vectors
from ...base.concurrency import cached_property
from ...base.errors import ModelError, ShapeError, counted
from ...bodies import WORLD, Parameter
from ...bodies.labels import Labels
from ...groups import SE3, LieGroup, Prismatic, Product, R, Revolute
from ...groups.product import slices
from ...groups.so3 import quaternions, rotations
from ...scalars import Array
from ...scalars.linear import cross, matvec
from ..contract import Functions
from ..forces import Force, FrameForce, JointForce, JointLimits, Limits
from . import equations
from .bodies import MovingBody
from .constraints import GROUND as REST
from .constraints import BodyState, Constraint, OnCurve
from .elimination import PROXIMAL, Elimination, Factors, Regularization
from .equations import Stabilization, StateRate
from .forces import BodyForce, JointEffort, on_bodies, with_law
from .mechanism import Constrained

GROUND = -1
NEGLIGIBLE = 1e-11  # of D: an eigenvalue of A that counts as zero
LARGE = 100  # velocities and equations, from which on a system is large
NONE = np.zeros(0, int)
COORDINATES = (*((x, "1") for x in ("qw", "qx", "qy", "qz")), *((x, "m") for x in ("px", "py", "pz")))
RATES = (*((x, "rad/s") for x in ("wx", "wy", "wz")), *((x, "m/s") for x in ("vx", "vy", "vz")))


@dataclass(frozen=True, eq=False, repr=False)
class System(Constrained):
    """Rigid bodies in absolute coordinates, joined by constraints. Made by a `SystemBuilder`.

    q (nq,) holds for each body (w, x, y, z, px, py, pz), attitude and centre of mass in the world, and after
    the bodies one parameter for each curve. v (nv,) holds (omega, v) for each body: omega in the body's axes,
    v the velocity of the centre of mass, in the body's axes on SE(3), in the world's on SO(3) x R^3.
    `configuration`, `velocities`, `poses` and `twists` translate to the bodies' own frames.
    """

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

    def take(self, forces: tuple[Force, ...]) -> None:
        found = list(self.forces)
        for force in forces:
            if isinstance(force, JointForce):
                found = with_law(found, force, self.constraints)
            elif isinstance(force, FrameForce):
                found.append(on_bodies(force, self.bodies, [self._moving(name) for name in force.frames]))
        object.__setattr__(self, "forces", tuple(found))
        object.__setattr__(self, "added", (*self.added, *forces))
        own = [f for f in forces if not isinstance(f, (JointForce, FrameForce))]
        object.__setattr__(self, "generalised", (*self.generalised, *own))

    # -- parameters ---------------------------------------------------------------------------------------

    def own_parameters(self) -> dict[str, Parameter]:
        if self.definition is None:
            return {}
        gravity = {"gravity": Parameter("gravity", self.gravity, "m/s2")}
        return {**self.definition.of_bodies(self), **self.definition.of_links(self), **gravity}

    def varied(self, values: Mapping[str, Array], first: System | None) -> System:
        made: System = self.definition.with_values(values, self).system()
        made.take(self.added)
        return made.sharing(first)

    def _at(self, p: Array) -> System:
        made: System = self.plain.definition.with_values(self.layout.named(p), self.plain).system()
        made.take(self.added)
        return made

    @cached_property
    def slides(self) -> tuple[slice, ...]:
        """Where each constraint's parameters stand among those of all curves."""
        return slices([c.kind.parameters for c in self.constraints])

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
        T[..., :3, 3] = p - matvec(R, com)
        return T

    def velocities(self, q: Array, twists: Mapping[str, Array]) -> np.ndarray:
        """v (nv,) with these bodies' own frames at these twists (omega, v), in their axes; others at rest."""
        R, _ = self._axes(vector("q", q, self.nq))
        v = np.zeros((len(self.bodies), 6))
        for name, twist in twists.items():
            i = self._moving(name)
            twist = vector(f"the twist of {name!r}", twist, 6)
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
        return rotations(q[..., :4]), q[..., 4:]

    def _body_velocities(self, q: Array, v: Array) -> tuple[np.ndarray, np.ndarray]:
        """omega and the velocity of the centre of mass, both in the bodies' axes, (..., n, 3)."""
        R, _ = self._axes(q)
        v = vectors("v", v, self.nv, finite=False)
        v = v.reshape(*v.shape[:-1], len(self.bodies), 6)
        linear = np.array(np.broadcast_to(v[..., 3:], np.broadcast_shapes(v[..., 3:].shape, R.shape[:-1])))
        direct = self.by_group[1]
        linear[..., direct, :] = np.einsum("...ij,...i->...j", R[..., direct, :, :], linear[..., direct, :])
        return np.broadcast_to(v[..., :3], linear.shape), linear

    # -- energies -----------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Array, v: Array, parameters: Any = None) -> np.ndarray:
        """sum of omega . Theta omega / 2 + m |v|^2 / 2, (...)                                          [J]"""
        if self.layout.size:
            return self.evaluated("energies", q, v, p=self.packed(parameters))[0]
        w, u = self._body_velocities(q, v)
        mass, Theta = np.array([b.mass for b in self.bodies]), np.stack([b.Theta for b in self.bodies])
        turning = np.einsum("...ni,nij,...nj->...", w, Theta, w)
        return 0.5 * (turning + np.einsum("n,...ni,...ni->...", mass, u, u))

    def potential_energy(self, q: Array, parameters: Any = None) -> np.ndarray:
        """Of weight, -sum m g . p, and of springs, (...)                                               [J]"""
        if self.layout.size:
            return self.evaluated("energies", q, np.zeros(self.nv), p=self.packed(parameters))[1]
        R, p = self._axes(q)
        total = -np.einsum("n,i,...ni->...", np.array([b.mass for b in self.bodies]), self.gravity, p)
        if any(f.kind.stores for f in self.forces) or any(f.stores for f in self.generalised):
            n, flat = len(self.bodies), np.asarray(q, float).reshape(-1, self.nq)
            places = zip(flat, R.reshape(-1, n, 3, 3), p.reshape(-1, n, 3), strict=True)
            stored = [self._stored(x, [*map(BodyState, r, c, [0] * n, [0] * n), REST]) for x, r, c in places]
            total = total + np.reshape(stored, p.shape[:-2])
        return total

    def potential(self, q: Array) -> Any:
        states = equations.bodies(self, q, np.zeros(self.nv, int)).states
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
        i = [b for b in c.bodies if b >= 0][-1]
        J = self.measure(q, t=t)[1][self.rows[c.name], 6 * i : 6 * i + 6]
        return J @ SE3.Ad(c.frame) if i == c.bodies[-1] else J

    def carried(self, constraint: str, q: Array, v: Array, t: Array = 0.0) -> np.ndarray:
        q, v = self.configurations(q), np.asarray(v, float)
        F, times = np.zeros((*q.shape[:-1], 6)), np.broadcast_to(t, q.shape[:-1])
        for force in self.forces:
            if force.name == constraint and isinstance(force.kind, JointEffort) and force.kind.laws:
                for at in np.ndindex(q.shape[:-1]):
                    states = equations.bodies(self, q[at], v[at]).states
                    acting = [states[b] for b in force.bodies]
                    F[at] = force.constants[5] @ force.kind.carried(acting, force.constants, times[at])
        return F

    @cached_property
    def _limited(self) -> list[Constraint]:
        """Hinges and slides that have limits."""
        kinds = Revolute | Prismatic
        single = [c for c in self.constraints if c.joint and isinstance(c.joint.group, kinds)]
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
        poses = np.zeros((*q.shape[:-1], 1 + len(self.bodies), 4, 4))
        poses[..., 3, 3], poses[..., -1, :3, :3] = 1, np.eye(3)  # the world comes last, as body -1
        poses[..., :-1, :3, :3], poses[..., :-1, :3, 3] = here._axes(q)
        found = []
        for c in here._limited:
            assert c.joint is not None
            a, b = (poses[..., i, :, :] @ T for i, T in zip(c.bodies, (c.joint.on_parent, c.joint.on_child)))
            S, T = c.joint.group.S[:, 0], np.linalg.inv(a) @ b
            w, *turn = np.moveaxis(quaternions(T[..., :3, :3]), -1, 0)
            angle = 2 * np.arctan2(np.tensordot(S[:3], turn, 1) * np.where(w < 0, -1, 1), np.abs(w))
            found.append(angle if S[:3].any() else T[..., :3, 3] @ S[3:])
        return np.stack(found, axis=-1)

    def world_accelerations(self, q: Array, v: Array, u: Array = None, t: Array = 0.0) -> np.ndarray:
        """(d omega/dt, d^2 p/dt^2) (..., n, 6) of the bodies' own frames, in the world's axes.

        They are derivatives of the angular velocity and of the position of the frame's origin, not of a
        twist: what an inertial sensor there feels is d^2 p/dt^2 - gravity.                    [rad/s2, m/s2]
        """
        R, _ = self._axes(q)
        w, linear = self._body_velocities(q, v)
        a = self.accelerations(q, v, u, t)[0].reshape(*w.shape[:-1], 6)
        rigid = np.array([b.group == SE3 for b in self.bodies])[:, None]
        turning, moving = matvec(R, a[..., :3]), a[..., 3:]
        own = matvec(R, moving + np.cross(w, linear))
        to_origin = -matvec(R, np.array([b.offset[:3, 3] for b in self.bodies]))
        spin = matvec(R, w)
        of_origin = np.cross(turning, to_origin) + np.cross(spin, np.cross(spin, to_origin))
        return np.concatenate([turning, np.where(rigid, own, moving) + of_origin], axis=-1)

    # -- functions ----------------------------------------------------------------------------------------

    @property
    def is_large(self) -> bool:
        """Whether its functions are loops, and sparse factors assemble it; small ones are straight lines."""
        return self.nv + self.nc > LARGE

    def motion(self, t: Any, y: Array, u: Array, stabilized: Stabilization, by: Regularization) -> StateRate:
        return equations.motion(self, t, y, u, stabilized, by)

    def projected(self, t: Any, y: Array, by: Regularization) -> tuple[Array, Array]:
        return equations.projected(self, t, y, by)

    def residuals(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        return self._violations(t, q, v)[:2]

    def _violations(self, t: Any, q: Array, v: Array) -> tuple[Array, Array, list[dict[int, Array]]]:
        """g, its rate (nc,), and J by constraints and bodies, for (omega, v) in the bodies' axes."""
        found = equations.blocks(self, equations.bodies(self, q, v), t, None, equations.violations)
        g, rate = (np.concatenate([NONE, *(right[i] for right in found.right)]) for i in range(2))
        return g, rate, found.J

    def constraints_at(self, q: Array, t: Any = 0.0) -> tuple[Array, Array]:
        return self._residual(q, t), self._dense(self.nc, self._blocks_of_J(q, t))

    def mechanics(self) -> dict[str, Any]:
        """As `Mechanism.mechanics`, with constant M; M and J by their blocks."""
        found = Constrained.mechanics(self)
        laws = self.parametric_laws()
        if not self.layout.size:
            laws["M"] = self._blocks_of_M
            del laws["b"]
        by_blocks = {"g": self._residual, "J": self._blocks_of_J} if "g" in found else {}
        return {"group": self.group, **laws, **found, **by_blocks}

    @property
    def _blocks_of_M(self) -> list[tuple[int, int, Array]]:
        """First row, first column and block of M, (6, 6) for each body."""
        zero, one = np.zeros((3, 3), int), np.eye(3, dtype=int)
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
        return np.concatenate([NONE, *equations.residuals(self, state, t)[0]])

    def _dense(self, rows: int, blocks: equations.Blocks) -> Array:
        """The matrix (rows, nv) of these blocks."""
        found = np.zeros((rows, self.nv), int).astype(object)
        for row, column, block in blocks:
            found[row : row + len(block), column : column + 6] = block
        return found

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
        shifted, _ = self._factors(q, t, -NEGLIGIBLE)
        signs = [p[-len(d) :] for p, d in zip(shifted.lower, shifted.scale, strict=True)]
        count = int((np.concatenate(signs) < 0).sum())
        if not count:
            return 0, np.zeros(self.nc)
        factors, regularization = self._factors(q, t, PROXIMAL)
        D, rng = factors.scale, np.random.default_rng(0)
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
        found = equations.blocks(self, state, t, None, lambda *_: [])
        regularization = Regularization(True, shift)
        return equations.factor(self, found, regularization), regularization

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
        return self._at_closest(super().moved(q, self.changed(q, np.zeros(self.nv), step)))

    def changed(self, q: Array, v: Array, change: Array) -> np.ndarray:
        """v plus a change of (omega, v) in the bodies' axes."""
        state = equations.bodies(self, np.asarray(q), np.asarray(v))
        return np.asarray(equations.moved(self, state, list(change.reshape(-1, 6)))).reshape(-1)

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
