"""Joint coordinates with closed loops: a tree, and constraints between its frames.

With M, h = C v + g of the tree, and J, bias, g of the closures,

    M a + J^T lambda = tau - h,    J a + bias = 0

is solved as  A lambda = J M^-1 (tau - h) + bias,  A = J M^-1 J^T,  by the sparse factors M = L^T D L of the
tree (Featherstone 2008, section 8.4). Rows come from `constraints`, for frames of the bodies.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.concurrency import cached_property
from ...base.errors import ModelError, counted
from ...bodies import Parameter, SpatialInertia, Tree, parameters_of, with_values
from ...dynamics import bias_forces, body_poses, body_twists, frame_acceleration, frame_jacobian, mass_matrix
from ...groups import SE3
from ...integrators.saddle_point import DenseElimination, Regularization, with_floor
from ...scalars import Array
from ...scalars.linear import back_substitute, cross, factor
from ..contract import Functions, OpenTree
from ..forces import JointDamping
from ..prescribed import OfTime, PrescribedMotion
from .builder import SystemBuilder
from .constraints import GROUND, BodyState, Constraint, JointFrames
from .drives import SUFFIX, CoordinateDrive
from .maximal import AnyClosure
from .mechanism import Constrained, StateRate
from .projection import CORRECTIONS
from .stabilization import Stabilization

SAMPLES = 3  # configurations that D is taken from


@dataclass(frozen=True)
class LoopRows:
    """Rows of the closures at a state: residual g, its rate J v + drift; J dv/dt + bias = 0."""

    J: Array
    bias: Array
    residual: Array
    rate: Array
    drift: Array


class _Solver:
    """Multipliers and the accelerations that they cause, from the factors of M.

    sizes  D (nc,), `ClosedTree.row_sizes`
    """

    def __init__(self, mass: Any, J: Array, sizes: Array, by: Regularization) -> None:
        self.mass = mass
        self.gain = back_substitute(mass, J.T)  # M^-1 J^T (nv, nc)
        elimination = DenseElimination(J, self.gain, sizes, by)
        self.multipliers = elimination.solve
        self.factors = elimination.factors


class ClosedTree(Constrained, OpenTree):
    """A tree whose loops are closed by constraints; q (nq,), v (nv,) and efforts tau (nv,) are the tree's.

    tree      the mechanism with its loops cut open
    closures  constraints on places: `Closure` (joint or rod between two frames), `Condition` (any g(q) = 0);
              or on velocities: `Rolling`, `KnifeEdge`, `VelocityCondition` (any J(q) v = b(q, t))
    gravity   acceleration of free fall, (3,)                                                     [m/s2]
    damping   whether the joints' damping acts

    Errors name closures, and the joints of a loop.
    """

    def __init__(
        self,
        tree: Tree,
        closures: Sequence[AnyClosure],
        gravity: Array = (0.0, 0.0, -9.81),
        damping: bool = True,
    ) -> None:
        OpenTree.__init__(self, tree, gravity, (JointDamping(),) if damping else ())
        builder = SystemBuilder(tree.name)
        frame = SpatialInertia(1.0, rotational=np.ones(3))  # the constraints refer to the bodies' own frames
        for body in tree.bodies:
            # bodies are added in the tree's order, so that a constraint's numbers are the tree's
            builder.body(body.name, frame)
        for closure in closures:
            closure.add_to(builder, tree)
        if not closures:
            raise ModelError(f"{tree.name} has no closures; without loops it is a Robot")
        self._cut = builder.build()
        self.constraints: tuple[Constraint, ...] = self._cut.constraints

    # -- parameters ---------------------------------------------------------------------------------------

    @cached_property
    def _of_closures(self) -> dict[str, Parameter]:
        return self._cut.definition.of_links(self._cut)

    def own_parameters(self) -> dict[str, Parameter]:
        gravity = {"gravity": Parameter("gravity", self.gravity, "m/s2")}
        return {**parameters_of(self.tree), **self._of_closures, **gravity}

    def varied(self, values: Mapping[str, Array], first: ClosedTree | None) -> ClosedTree:
        mechanism = copy.copy(self)
        mechanism.tree, mechanism.gravity = (
            with_values(self.tree, values),
            values.get("gravity", self.gravity),
        )
        # the definition makes the constraints anew, but only where numbers of closures vary
        of_closures = {name: x for name, x in values.items() if name in self._of_closures}
        if of_closures:
            closures = self._cut.definition.with_values(of_closures, self._cut).system().constraints
            mechanism.constraints = (
                *closures,
                *self.constraints[len(closures) :],
            )  # drives stand behind them
        return mechanism.sharing(first)

    def with_prescribed(self, drives: Mapping[str, OfTime]) -> ClosedTree:
        """As `Mechanism.with_prescribed`: each joint has a constraint, `crank.drive` of the joint `crank`."""
        size = self.layout.size
        read = self.layout.read if size else None
        moving = []
        forms = []
        for name, f in drives.items():
            if name + SUFFIX in self.rows:
                raise ModelError(
                    f"joint {name!r} of {self.name} has a drive already; leave one of its two functions out"
                )
            motion = PrescribedMotion.of(self.tree, {name: f}, read, size)
            body = next(b for b in self.tree.bodies if b.joint.name == name)
            frames = JointFrames(body.joint, body.placement, np.eye(4))
            kind = CoordinateDrive(motion)
            numbers = (body.parent - 1, body.index - 1)
            forms.append(motion.form)
            moving.append(Constraint(name + SUFFIX, kind, numbers, frames.constants[-1:]))
        key = ("prescribed", *forms)
        if key not in self.flows:
            plain = copy.copy(self.plain)
            kept = ("tree", "name", "forces", "clipped", "gravity", "_cut")
            for name in vars(self.plain).keys() - set(kept):
                vars(plain).pop(name, None)  # what was computed for fewer constraints
            plain.forces = self.forces
            plain.constraints = (*self.plain.constraints, *moving)
            self.flows[key] = plain.with_parameters(dict(self.layout.defaults)) if size else plain
        return self.flows[key]

    def _at(self, p: Array) -> ClosedTree:
        here = self.plain.varied(self.layout.named(p), None)
        here.forces = self.forces
        vars(here)["_sizes"] = self._sizes
        return here

    @property
    def guess(self) -> np.ndarray:
        """The neutral configuration."""
        return self.tree.group.neutral()

    def __repr__(self) -> str:
        return (
            f"ClosedTree {self.name!r}: {counted(len(self.tree.bodies), 'body', 'bodies')}, "
            f"{counted(len(self.constraints), 'closure')} with "
            f"{counted(self.nc, 'equation')}, nq = {self.nq}, nv = {self.nv}"
        )

    # -- equations, on floats or symbols ------------------------------------------------------------------

    def loop_rows(self, q: Array, v: Array, t: Any) -> LoopRows:
        """J, bias, g and its rate at a state."""
        poses = body_poses(self.tree, q)
        twists = body_twists(self.tree, q, v)
        J: list[Array] = []
        bias: list[Array] = []
        residual: list[Array] = []
        rates: list[Array] = []
        drifts: list[Array] = []
        for c in self.constraints:
            if isinstance(c.kind, CoordinateDrive):
                _, p = vars(self).get("nominal", (self, self.values))
                rows_of_drive = c.kind.in_coordinates(q, v, t, p)
                for column, x in zip((J, bias, residual, rates, drifts), rows_of_drive, strict=True):
                    column.append(x)
                continue
            states = [
                BodyState(*SE3.parts(poses[b]), twists[b][:3], twists[b][3:]) if b >= 0 else GROUND
                for b in c.bodies
            ]
            # constraints act on accelerations (omega', a) of bodies; Jacobians of frames lead to dv/dt
            rows = c.kind(states, c.constants, t, np.zeros(0))
            drift = np.zeros(c.rows, int) if rows.drift is None else rows.drift
            block = 0
            rest = rows.bias
            rate = drift
            for b, body_rows, state in zip(c.bodies, rows.jacobians, states, strict=True):
                if b >= 0:
                    name = self.tree.bodies[b].name
                    block = block + body_rows @ frame_jacobian(self.tree, q, name)
                    a = frame_acceleration(self.tree, q, v, np.zeros(self.nv, int), name)
                    # from the rate of the twist to the acceleration of the point: + omega x v
                    of_origin = a[3:] + cross(state.w, state.v)
                    rest = rest + body_rows[:, :3] @ a[:3] + body_rows[:, 3:] @ of_origin
                    rate = rate + body_rows[:, :3] @ state.w + body_rows[:, 3:] @ state.v
            J.append(block)
            bias.append(rest)
            residual.append(rows.residual)
            rates.append(rate)
            drifts.append(drift)
        return LoopRows(*(np.concatenate(x) for x in (J, bias, residual, rates, drifts)))

    def _solver(self, q: Array, J: Array, by: Regularization) -> _Solver:
        return _Solver(factor(mass_matrix(self.tree, q)), J, self._sizes, by)

    @cached_property
    def _sizes(self) -> np.ndarray:
        """D (nc,): the largest diagonal entries of A among some configurations, with any angles.

        The diagonal of A itself will not do: rows vanish that the joints keep by themselves, and others do
        where motions branch. Loops may be open here.
        """
        rng = np.random.default_rng(0)
        largest = np.zeros(self.nc)
        # angles are drawn; translations stay, because they have no natural scale
        turns = np.zeros(self.nv)
        for body in self.tree.bodies:
            turns[body.dofs] = np.any(body.joint.S[:3] != 0, axis=0)
        for _ in range(SAMPLES):
            q = self.moved(self.tree.group.neutral(), turns * rng.uniform(-np.pi, np.pi, self.nv))
            rows = self.measure(q)[1] @ self.inverse_mass_root(q, ())
            largest = np.fmax(largest, (rows * rows).sum(axis=1))
        # the floor keeps rows that the joints fulfil by themselves from a division by zero
        return with_floor(largest) if largest.any() else np.ones(self.nc)

    def motion(self, t: Any, y: Array, u: Array, stabilized: Stabilization, by: Regularization) -> StateRate:
        q, v = y[: self.nq], y[self.nq :]
        rows = self.loop_rows(q, v, t)
        solver = self._solver(q, rows.J, by)
        h = bias_forces(self.tree, q, v, tuple(self.gravity))
        # M^-1 (tau - h): the accelerations with all loops open
        free = back_substitute(solver.mass, self.efforts(t, q, v, u) - h)
        b, *slip = stabilized.right(rows.J @ free + rows.bias, rows.residual, rows.rate)
        multipliers = solver.multipliers(b)
        # in the index-2 form a second right side corrects the velocity of q
        velocity = v - solver.gain @ solver.multipliers(slip[0]) if slip else v
        field = np.concatenate([velocity, free - solver.gain @ multipliers])
        return StateRate(field, multipliers, solver.factors.worst)

    def projected(self, t: Any, y: Array, by: Regularization) -> tuple[Array, Array]:
        """As `Constrained.projected`: simplified Newton steps with the factors of the first A."""
        q, v = y[: self.nq], y[self.nq :]
        rows = self.loop_rows(q, v, t)
        solver = self._solver(q, rows.J, by)
        residual = rows.residual
        for iteration in range(CORRECTIONS):
            if iteration:
                residual = self.loop_rows(q, v, t).residual
            # simplified Newton: A and its factors of the first configuration serve all corrections
            step = -(solver.gain @ solver.multipliers(residual))
            q = self.group.normalize(self.group.integrate(q, step))
        # velocities are projected at the corrected configuration, with its own A
        rows = self.loop_rows(q, v, t)
        last = self._solver(q, rows.J, by)
        return np.concatenate([q, v - last.gain @ last.multipliers(rows.rate)]), solver.factors.worst

    def residuals(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        rows = self.loop_rows(q, v, t)
        return rows.residual, rows.rate

    def constraints_at(self, q: Array, t: Any = 0.0) -> tuple[Array, Array]:
        rows = self.loop_rows(q, np.zeros(self.nv, int), t)
        return rows.residual, rows.J

    # -- methods for users --------------------------------------------------------------------------------

    def reaction_rows(self, c: Constraint, q: Array, t: float) -> np.ndarray:
        if isinstance(c.kind, CoordinateDrive):  # efforts along the joint's motions, as wrenches
            return c.constants[0].T
        poses = body_poses(self.tree, q)
        still = np.zeros(3)
        states = [BodyState(*SE3.parts(poses[b]), still, still) if b >= 0 else GROUND for b in c.bodies]
        return c.kind(states, c.constants, t, np.zeros(0)).jacobians[-1] @ SE3.Ad(c.frame)

    def mechanics(self) -> dict[str, Any]:
        return {**OpenTree.mechanics(self), **Constrained.mechanics(self)}

    def kinetic_energy(self, q: Array, v: Array, parameters: Any = None) -> Array:
        return self.evaluated("energies", q, v, p=self.packed(parameters))[0]

    def potential_energy(self, q: Array, parameters: Any = None) -> Array:
        return self.evaluated("energies", q, np.zeros(self.nv), p=self.packed(parameters))[1]

    def functions(self) -> Functions:
        return {**OpenTree.functions(self), **Constrained.functions(self)}

    # -- contract of `Mechanism` --------------------------------------------------------------------------

    def measure(self, q: Array, v: Array | None = None, t: float = 0.0) -> tuple[Array, Array, Array]:
        """(g (nc,), J (nc, nv), rate of g (nc,)) at one state."""
        rows = self.loop_rows(q, np.zeros(self.nv) if v is None else v, t)
        return rows.residual.astype(float), rows.J.astype(float), rows.rate.astype(float)

    def inverse_mass_root(self, q: Array, hold: Sequence[str]) -> np.ndarray:
        """W with W W^T = M^-1 (nv, nv); zero for joints that are held."""
        free = np.ones(self.nv, bool)
        for name in hold:
            body = next((b for b in self.tree.bodies if b.joint.name == name), None)
            if body is None:
                self.tree.joint(name)
            else:
                free[body.dofs] = False
        W = np.zeros((self.nv, self.nv))
        M = mass_matrix(self.tree, q).astype(float)[np.ix_(free, free)]
        # M = L L^T, and so W = L^-T
        W[np.ix_(free, free)] = np.linalg.inv(np.linalg.cholesky(M)).T
        return W

    def loop(self, constraint: str) -> tuple[str, ...]:
        """The closure and the joints on the way between its bodies."""
        c = next(c for c in self.constraints if c.name == constraint)
        # the shared part of the ways to the root lies outside the loop
        paths = [[b.joint.name for b in self.tree.ancestors(i + 1)] for i in c.bodies]
        common = set(paths[0]).intersection(*map(set, paths[1:]))
        names = [name for path in paths for name in path if name not in common]
        return (constraint, *dict.fromkeys(names))

    def row_sizes(self, q: Array, t: float = 0.0) -> np.ndarray:
        return self._sizes

    def relative_pivots(self, q: Array, t: float = 0.0) -> np.ndarray:
        solver = self._solver(q, self.measure(q, t=t)[1], Regularization.plain(True))
        return solver.factors.relative_pivots
