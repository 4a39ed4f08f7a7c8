"""The equations of motion of constrained bodies in index-1 form.

With x'' for the accelerations (omega', a), a = R^T p'', of every body, and J, bias and g of the constraints,

    M x'' + J^T lambda = Q,    J x'' + bias = 0        (Mueller, Terze, eq. (3))

is solved as  A lambda = J M^-1 Q + bias,  A = J M^-1 J^T,  x'' = M^-1 (Q - J^T lambda). The mass matrix is
constant, M = diag(Theta, m 1), and so is its inverse. The two groups differ in the last line only: dV/dt is
(omega', a - omega x v) on SE(3), (omega', R a) on SO(3) x R^3.

Functions that apply to each body, force or constraint are marked as repeated (`compiler.programs.repeats`),
so that the code of large systems becomes loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...compiler import repeated
from ...groups import SE3, SO3
from ...integrators.saddle_point import Factors, Regularization
from ...scalars import Array
from ...scalars.linear import cross, symmetric
from .constraints import GROUND, BodyState, ConstraintKind, Rows
from .coordinates import AbsoluteCoordinates
from .forces import ForceKind
from .mechanism import StateRate
from .stabilization import Stabilization

Blocks = list[tuple[int, int, Array]]  # of J: first row, first column, and a matrix


class Bodies(NamedTuple):
    """The states of the bodies and, last, of the ground; coordinates, velocities, parameters of curves."""

    states: list[BodyState]
    q: Array  # (n, 7)
    V: Array  # (n, 6), of the groups
    slides: Array

    def of(self, numbers: Sequence[int]) -> list[BodyState]:
        """The states of bodies; -1 is the ground."""
        return [self.states[b] for b in numbers]


class ConstraintBlocks(NamedTuple):
    """For each constraint: J by moving bodies, A_kk, right sides; for curves the rates of parameters."""

    J: list[dict[int, Array]]
    diagonal: list[Array]
    right: list[list[Array]]
    slides: list[Array]


def bodies(system: AbsoluteCoordinates, q: Array, V: Array) -> Bodies:
    """The states of the bodies at q (nq,), V (nv,)."""
    n = len(system.bodies)
    q, slides, V = q[: 7 * n].reshape(n, 7), q[7 * n :], V.reshape(n, 6)
    states = [_state(q[i], V[i], b.group == SE3) for i, b in enumerate(system.bodies)]
    return Bodies([*states, GROUND], q, V, slides)


@repeated
def _state(q: Array, V: Array, on_SE3: bool) -> BodyState:
    # constraints and forces want v in the body's axes; on SO(3) x R^3 it is in the world's
    R = SO3.element(q[:4])
    return BodyState(R, q[4:], V[:3], V[3:] if on_SE3 else R.T @ V[3:])


def wrenches_of_forces(system: AbsoluteCoordinates, state: Bodies, t: Any, u: Array) -> list[Array]:
    """Wrenches (6,) of the forces at the centres of mass, in the bodies' axes, without weight."""
    wrenches: list[Array] = [np.zeros(6, int)] * len(system.bodies)
    for f in system.forces:
        # the ground takes no wrench: None stands for it, so that no sum is formed there
        before = [wrenches[b] if b >= 0 else None for b in f.bodies]
        acting = _acting(f.kind, state.of(f.bodies), f.constants, t, u[f.efforts], before)
        for b, wrench in zip(f.bodies, acting, strict=True):
            if b >= 0:
                wrenches[b] = wrench
    # forces in the system's own coordinates are dual to the velocities: turned into the bodies' axes
    for force in system.generalised:
        q = np.concatenate([state.q.reshape(-1), state.slides])
        v = state.V.reshape(-1)
        efforts = force.checked(force.efforts(t, q, v), (system.nv,), system.name).reshape(-1, 6)
        for i, F in enumerate(efforts):
            wrenches[i] = _with_dual(wrenches[i], F, turned(system, state, i))
    return wrenches


def turned(system: AbsoluteCoordinates, state: Bodies, body: int) -> Array | None:
    """R of a body whose velocity on its group is in the world's axes; None on SE(3)."""
    return None if system.bodies[body].group == SE3 else state.states[body].R


def forces(system: AbsoluteCoordinates, state: Bodies, wrenches: list[Array]) -> Array:
    """These wrenches and the weights, dual to the velocities, (nv,)."""
    parts = [
        _force(F, state.states[i].R, b.mass * system.gravity, b.group == SE3)
        for i, (b, F) in enumerate(zip(system.bodies, wrenches, strict=True))
    ]
    return joined(parts)


@repeated
def _force(F: Array, R: Array, weight: Array, on_SE3: bool) -> Array:
    return np.concatenate([F[:3], F[3:] + weight @ R if on_SE3 else R @ F[3:] + weight])


@repeated
def _acting(
    kind: ForceKind, states: list[BodyState], constants: tuple[Array, ...], t: Any, u: Array,
    before: list[Array | None],
) -> list[Array | None]:  # fmt: skip
    """The wrenches on bodies plus the wrenches of one more force; None on the ground."""
    added = kind(states, constants, t, u)
    return [None if x is None else x + wrench for x, wrench in zip(before, added, strict=True)]


@repeated
def _with_dual(wrench: Array, F: Array, R: Array | None) -> Array:
    return wrench + (F if R is None else np.concatenate([F[:3], F[3:] @ R]))


def free_accelerations(system: AbsoluteCoordinates, state: Bodies, t: Any, u: Array) -> list[Array]:
    """M^-1 Q of each body: the accelerations (omega', a) without constraints."""
    wrenches = wrenches_of_forces(system, state, t, u)
    return [
        _free(state.states[i], wrenches[i], b.Theta, b.inverse, b.mass, system.gravity)
        for i, b in enumerate(system.bodies)
    ]


@repeated
def _free(body: BodyState, F: Array, Theta: Array, inverse: Array, mass: Any, gravity: Array) -> Array:
    # Euler's equation about the centre of mass, and Newton's in the body's axes
    turning = inverse @ (F[:3] - cross(body.w, Theta @ body.w))
    return np.concatenate([turning, F[3:] / mass + gravity @ body.R])


def blocks(
    system: AbsoluteCoordinates,
    state: Bodies,
    t: Any,
    free: list[Array] | None,
    right: Callable[..., list[Any]],
) -> ConstraintBlocks:
    """J, A_kk and right sides of every constraint.

    free   accelerations M^-1 Q of the bodies, or None where the right sides do not need them
    right  (rows, rate, J M^-1 Q) -> right sides, rate = J V + drift
    """
    constraint_blocks = ConstraintBlocks([], [], [], [])
    for k, c in enumerate(system.constraints):
        # only bodies that move have columns of J and a share in A
        moving = [b >= 0 for b in c.bodies]
        numbers = [b for b in c.bodies if b >= 0]
        driven = None if free is None else [free[b] for b in numbers]
        slide = state.slides[system.slides[k]]
        J, A, sides, rate = _rows(
            c.kind, state.of(c.bodies), c.constants, t, slide, moving, _masses(system, numbers), driven, right
        )
        constraint_blocks.J.append(dict(zip(numbers, J, strict=True)))
        constraint_blocks.diagonal.append(A)
        constraint_blocks.right.append(sides)
        if rate is not None:
            constraint_blocks.slides.append(rate)
    return constraint_blocks


def jacobians(system: AbsoluteCoordinates, state: Bodies, t: Any) -> Blocks:
    """The blocks of J for the system's own velocities."""
    J = []
    for k, c in enumerate(system.constraints):
        numbers = [b for b in c.bodies if b >= 0]
        axes = [None if b < 0 else turned(system, state, b) for b in c.bodies]
        slide = state.slides[system.slides[k]]
        own_blocks = _own_rows(
            c.kind, state.of(c.bodies), c.constants, t, slide, [b >= 0 for b in c.bodies], axes
        )
        J.append(dict(zip(numbers, own_blocks, strict=True)))
    return by_rows(system, J)


@repeated
def _own_rows(
    kind: ConstraintKind, states: list[BodyState], constants: tuple[Array, ...], t: Any, slide: Array,
    moving: list[bool], axes: list[Array | None],
) -> list[Array]:  # fmt: skip
    """J of each moving body for its velocity on its group, which is in these axes."""
    # R v is the velocity in the world's axes, so its columns are J_v R^T
    pairs = itertools.compress(zip(kind(states, constants, t, slide).jacobians, axes, strict=True), moving)
    return [J if R is None else np.concatenate([J[:, :3], J[:, 3:] @ R.T], axis=1) for J, R in pairs]


def by_rows(system: AbsoluteCoordinates, J: list[dict[int, Array]]) -> Blocks:
    """The blocks of each constraint and body with their first rows and columns."""
    rows = [system.rows[c.name].start for c in system.constraints]
    return [(row, 6 * i, block) for row, of in zip(rows, J, strict=True) for i, block in of.items()]


def _masses(system: AbsoluteCoordinates, numbers: Sequence[int]) -> list[tuple[Array, Any]]:
    """Theta^-1 and 1/m of bodies."""
    return [(system.bodies[b].inverse, 1 / system.bodies[b].mass) for b in numbers]


@repeated
def _rows(
    kind: ConstraintKind, states: list[BodyState], constants: tuple[Array, ...], t: Any, slide: Array,
    moving: list[bool], masses: list[tuple[Array, Any]], free: list[Array] | None,
    right: Callable[..., list[Any]],
) -> tuple[list[Array], Array, list[Array], Array | None]:  # fmt: skip
    """J of each moving body, A_kk, the right sides, and the rate of a parameter."""
    rows = kind(states, constants, t, slide)
    J = list(itertools.compress(rows.jacobians, moving))
    rate: Any = 0 if rows.drift is None else rows.drift
    A: Any = 0
    driven: Any = 0
    bodies = itertools.compress(states, moving)
    # one loop for J V, A = J M^-1 J^T and J M^-1 Q: each is a sum over the bodies of the constraint
    for k, (block, body, mass) in enumerate(zip(J, bodies, masses, strict=True)):
        rate = rate + block[:, :3] @ body.w + block[:, 3:] @ body.v
        A = A + _product(block, mass, block)
        if free is not None:
            driven = driven + block @ free[k]
    return J, A, right(rows, rate, driven), rows.slide


def _product(J: Array, mass: tuple[Array, Any], other: Array) -> Array:
    """J M_b^-1 other^T of one body."""
    inverse, reciprocal = mass
    left = np.concatenate([J[:, :3] @ inverse, J[:, 3:] * reciprocal], axis=1)
    if J is other:  # half of the entries suffice
        return symmetric(len(J), lambda i, j: left[i] @ J[j])
    return left @ other.T


def factor(
    system: AbsoluteCoordinates, matrices: ConstraintBlocks, regularization: Regularization
) -> Factors:
    """Factors of A + shift D, A = J M^-1 J^T."""
    coupling: dict[tuple[int, int], Array] = {}
    # off the diagonal A has a block wherever two constraints act on the same body
    for k, l in system.elimination.pairs:
        shared = sorted(matrices.J[k].keys() & matrices.J[l].keys())
        pairs = [(matrices.J[k][b], matrices.J[l][b]) for b in shared]
        coupling[k, l] = _coupled(pairs, _masses(system, shared))
    return system.elimination.factor(matrices.diagonal, coupling, regularization)


@repeated
def _coupled(pairs: list[tuple[Array, Array]], masses: list[tuple[Array, Any]]) -> Array:
    """sum of J M_b^-1 J'^T over the bodies b that two constraints share."""
    A: Any = 0
    for (J, other), mass in zip(pairs, masses, strict=True):
        A = A + _product(J, mass, other)
    return A


def impulses(
    system: AbsoluteCoordinates, matrices: ConstraintBlocks, multipliers: Sequence[Array], start: list[Array]
) -> list[Array]:
    """start - M^-1 J^T lambda of each body."""
    # -J^T lambda is summed over the constraints of each body first, so that M^-1 is applied once per body
    wrenches: list[Array] = [np.zeros(6, int)] * len(system.bodies)
    for J, x in zip(matrices.J, multipliers, strict=True):
        for b, block in J.items():
            wrenches[b] = _reacting(wrenches[b], x, block)
    masses = _masses(system, range(len(system.bodies)))
    return [_pushed(*x) for x in zip(start, wrenches, masses, strict=True)]


@repeated
def _reacting(F: Array, multipliers: Array, J: Array) -> Array:
    return F - multipliers @ J


@repeated
def _pushed(x: Array, F: Array, mass: tuple[Array, Any]) -> Array:
    return x + np.concatenate([mass[0] @ F[:3], mass[1] * F[3:]])


def motion(
    system: AbsoluteCoordinates,
    t: Any,
    y: Array,
    u: Array,
    stabilization: Stabilization,
    regularization: Regularization,
) -> StateRate:
    """Velocity of the state y = (q, V), and the multipliers."""
    state = bodies(system, y[: system.nq], y[system.nq :])
    free = free_accelerations(system, state, t, u)

    def right(rows: Rows, rate: Array, driven: Array) -> list[Any]:
        return stabilization.right(driven + rows.bias, rows.residual, rate)

    constraint_blocks = blocks(system, state, t, free, right)
    # one factorisation serves the multipliers and, in index-2 form, the corrections
    factors = factor(system, constraint_blocks, regularization)
    multipliers = system.elimination.solve(factors, [r[0] for r in constraint_blocks.right], regularization)
    a = impulses(system, constraint_blocks, multipliers, free)
    dq = state.V
    if stabilization.rate:  # index-2 form: a second solution corrects the velocity of the coordinates
        corrections = system.elimination.solve(
            factors, [r[1] for r in constraint_blocks.right], regularization
        )
        dq = moved(system, state, impulses(system, constraint_blocks, corrections, still(system)))
    dV = [
        _rate(x, body, b.group == SE3) for x, body, b in zip(a, state.states[:-1], system.bodies, strict=True)
    ]
    # in the order of y: coordinates of bodies, parameters of curves, velocities
    field = joined([dq.reshape(-1), *constraint_blocks.slides, *dV])
    return StateRate(field, joined(multipliers), factors.worst)


@repeated
def _rate(a: Array, body: BodyState, on_SE3: bool) -> Array:
    """dV/dt:  (omega', R^T p'' - omega x v) on SE(3), (omega', p'') on SO(3) x R^3."""
    return np.concatenate([a[:3], a[3:] - cross(body.w, body.v) if on_SE3 else body.R @ a[3:]])


def still(system: AbsoluteCoordinates) -> list[Array]:
    return [np.zeros(6, int)] * len(system.bodies)


def joined(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0, int), *parts])


def moved(system: AbsoluteCoordinates, state: Bodies, change: list[Array]) -> Array:
    """V (n, 6) of the groups plus changes of (omega, v) in the bodies' axes."""
    V = [
        _faster(state.V[i], change[i], None if b.group == SE3 else state.states[i].R)
        for i, b in enumerate(system.bodies)
    ]
    return np.stack(V) if V else state.V


@repeated
def _faster(V: Array, x: Array, R: Array | None) -> Array:
    return V + in_group(x, R)


def in_group(x: Array, R: Array | None) -> Array:
    """A twist in the body's axes, as it moves on the group: SE(3), or SO(3) x R^3 with R."""
    return x if R is None else np.concatenate([x[:3], R @ x[3:]])


def violations(rows: Rows, rate: Array, driven: Array) -> list[Any]:
    """As right sides of `blocks`: g and its rate."""
    return [rows.residual, rate]
