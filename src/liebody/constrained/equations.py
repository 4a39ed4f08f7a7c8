"""The equations of motion of constrained bodies, as passes over a memory: index-1 form, projections, stages.

With x'' for the accelerations (omega', a), a = R^T p'', of every body, and J, bias and g of the constraints,

    M x'' + J^T lambda = Q,    J x'' + bias = 0        (Mueller, Terze, eq. (3))

is solved as  A lambda = J M^-1 Q + bias,  A = J M^-1 J^T,  x'' = M^-1 (Q - J^T lambda). The mass matrix is
constant, M = diag(Theta, m 1), and so is its inverse. What the two groups differ in comes last: dV/dt is
(omega', a - omega x v) on SE(3), (omega', R a) on SO(3) x R^3.

Everything is written once, for floats, symbols and programs (`passes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..dynamics import Force
from ..errors import IntegrationError
from ..groups import SE3, SO3, SO3xR3
from ..linear import cross, symmetric
from .constraints import GROUND, Constraint, State
from .elimination import Factors, Regularization
from .forces import BodyForce
from .passes import Cells, Memory, Pass

if TYPE_CHECKING:
    from .system import System

Array = Any
CORRECTIONS = 2  # of positions in a projection, with one factorisation


@dataclass(frozen=True)
class Stabilization:
    """What is done against drift (docs/constrained.md); zero is what is not done.

    frequency, damping  w [rad/s] and zeta of Baumgarte's  g'' + 2 zeta w g' + w^2 g = 0
    rate                [1/s] at which g and dg/dt decay, apart from each other, in the index-2 form
    projected           whether states are put back on the constraints after each step
    """

    name: str = "none"
    frequency: float = 0.0
    damping: float = 1.0
    rate: float = 0.0
    projected: bool = False

    def __post_init__(self) -> None:
        needed = {"baumgarte": "frequency", "index-2": "rate"}.get(self.name)
        for key in ("frequency", "damping", "rate"):
            value = getattr(self, key)
            if not (0 <= value < np.inf) or (key == needed and value == 0):
                raise IntegrationError(
                    f"Stabilization({self.name!r}): {key} is {value!r}, expected a positive finite number"
                )


NOTHING = Stabilization()


class Bodies(NamedTuple):
    """Cells of the state: one row per body, the last row is the ground."""

    R: Cells
    p: Cells
    w: Cells
    v: Cells
    q: Cells
    V: Cells
    slides: Cells  # the parameters of curves


class Blocks(NamedTuple):
    """Cells of the constraints: for each, J per moving body, A_kk, right sides, and slides of curves."""

    J: list[dict[int, Cells]]
    diagonal: list[Cells]
    right: list[list[Cells]]
    slide: dict[int, Cells]


def bodies(memory: Memory, system: System, q: Cells, V: Cells) -> Bodies:
    """The states of the bodies at q (nq,), V (nv,)."""
    n = len(system.bodies)
    R, p, w, v = (np.zeros((n + 1, *shape), int) for shape in ((3, 3), (3,), (3,), (3,)))
    for cells, value in zip((R, p, w, v), GROUND, strict=True):
        cells[n] = memory.put(value)
    q, slides, V = q[: 7 * n].reshape(n, 7), q[7 * n :], V.reshape(n, 6)
    p[:n], w[:n] = q[:, 4:], V[:, :3]
    if n:
        R[:n] = memory.apply(SO3.element, q[:, :4])
    rigid, direct = system.by_group
    v[rigid] = V[rigid][:, 3:]
    if direct:
        v[direct] = memory.apply(lambda R, x: R.T @ x, R[direct], V[direct][:, 3:])
    return Bodies(R, p, w, v, q, V, slides)


def wrenches_of_forces(memory: Memory, system: System, state: Bodies, t: Cells, u: Cells) -> Cells:
    """Wrenches (n, 6) of the forces at the centres of mass, in the bodies' axes, without weight."""
    n = len(system.bodies)
    wrenches = memory.variable(np.zeros((n, 6)))
    for numbers in _alike(system.forces):
        members = [system.forces[k] for k in numbers]
        moving = [i for i, b in enumerate(members[0].bodies) if b >= 0]
        arguments = [np.broadcast_to(t, len(members)), np.stack([u[f.efforts] for f in members])]
        arguments += _states(state, members)
        arguments += _constants(memory, members)
        targets = [wrenches[[f.bodies[i] for f in members]] for i in moving]
        memory.apply(_act(members[0], moving), *arguments, *targets, into=targets)
    for force in system.generalised:
        q = np.concatenate([state.q.reshape(-1), state.slides])
        state_and_before = (x[None] for x in (q, state.V.reshape(-1), wrenches))
        memory.apply(_add(force, system), t.reshape(1), *state_and_before, into=(wrenches[None],))
    return wrenches


def _add(force: Force, system: System) -> Pass:
    """The pass that adds generalised forces, which are dual to the velocities, to the wrenches (n, 6)."""

    def add(t: Any, q: Array, v: Array, before: Array) -> tuple[Array]:
        given = force.checked(force.efforts(t, q, v), (system.nv,), system.name).reshape(-1, 6)
        turned = [
            np.concatenate([F[:3], F[3:] @ SO3.element(q[7 * i : 7 * i + 4])])
            if i in system.by_group[1]
            else F
            for i, F in enumerate(given)
        ]
        return (before + np.stack(turned),)

    return add


def _act(like: BodyForce, moving: list[int]) -> Pass:
    """The pass that adds the wrenches of forces to those of the bodies that move."""
    count = len(like.bodies)

    def act(t: Any, u: Array, *parts: Array) -> tuple[Array, ...]:
        states = [State(*parts[4 * i : 4 * i + 4]) for i in range(count)]
        constants, before = parts[4 * count : -len(moving)], parts[-len(moving) :]
        added = like.kind(states, constants, t, u)
        return tuple(before[k] + added[i] for k, i in enumerate(moving))

    return act


def free_accelerations(memory: Memory, system: System, state: Bodies, t: Cells, u: Cells) -> Cells:
    """M^-1 Q (n, 6): the accelerations (omega', a) without constraints."""
    n, gravity = len(system.bodies), system.gravity
    wrenches = wrenches_of_forces(memory, system, state, t, u)

    def accelerate(R: Array, w: Array, F: Array, Theta: Array, inverse: Array, mass: Array) -> Array:
        turning = inverse @ (F[:3] - cross(w, Theta @ w))
        return np.concatenate([turning, F[3:] / mass + gravity @ R])

    Theta, inverse = (np.stack([getattr(b, k) for b in system.bodies]) for k in ("Theta", "inverse"))
    mass = np.array([b.mass for b in system.bodies])
    constants = [memory.put(x) for x in (Theta, inverse, mass)]
    return memory.apply(accelerate, state.R[:n], state.w[:n], wrenches, *constants)


def blocks(
    memory: Memory,
    system: System,
    state: Bodies,
    t: Cells,
    free: Cells | None,
    right: Callable[..., list[Any]],
) -> Blocks:
    """J, A_kk and right sides of every constraint.

    free   accelerations M^-1 Q (n, 6), or None where the right sides do not need them
    right  (rows, rate, J M^-1 Q) -> right sides, rate = J V + drift
    """
    n = len(system.constraints)
    result = Blocks([{} for _ in range(n)], [None] * n, [[] for _ in range(n)], {})  # type: ignore[list-item]
    for members in _alike(system.constraints):
        first = system.constraints[members[0]]
        items = [system.constraints[k] for k in members]
        kind, moving = first.kind, [i for i, b in enumerate(first.bodies) if b >= 0]
        where = [[c.bodies[i] for c in items] for i in moving]
        arguments = [
            np.broadcast_to(t, len(items)),
            np.stack([state.slides[system.slides[k]] for k in members]),
        ]
        arguments += _states(state, items)
        arguments += _constants(memory, items)
        for of in where:
            arguments.append(memory.put(np.stack([system.bodies[b].inverse for b in of])))
            arguments.append(memory.put(np.array([1 / system.bodies[b].mass for b in of])))
        if free is not None:
            arguments += [free[of] for of in where]
        found = memory.apply(_rows(first, moving, free is not None, right), *arguments)
        slide = found[-1] if kind.parameters else None
        found = found[:-1] if kind.parameters else found
        for place, k in enumerate(members):
            for i, of in enumerate(where):
                result.J[k][of[place]] = found[i][place]
            result.diagonal[k] = found[len(moving)][place]
            result.right[k].extend(x[place] for x in found[len(moving) + 1 :])
            if slide is not None:
                result.slide[k] = slide[place]
    return result


def _rows(like: Constraint, moving: list[int], driven: bool, right: Callable[..., list[Any]]) -> Pass:
    """The pass that writes J of each moving body, A_kk, the right sides, and the rate of a parameter."""
    count, size = len(like.bodies), len(like.constants)

    def rows(t: Any, s: Array, *parts: Array) -> tuple[Array, ...]:
        states = [State(*parts[4 * i : 4 * i + 4]) for i in range(count)]
        inertia = parts[4 * count + size :]
        found = like.kind(states, parts[4 * count : 4 * count + size], t, s)
        J = [found.jacobians[i] for i in moving]
        rate: Any = 0 if found.drift is None else found.drift
        A: Any = 0
        accelerations: Any = 0
        for i, block in enumerate(J):
            body = states[moving[i]]
            rate = rate + block[:, :3] @ body.w + block[:, 3:] @ body.v
            A = A + _product(block, inertia[2 * i], inertia[2 * i + 1], block)
            if driven:
                accelerations = accelerations + block @ inertia[2 * len(J) + i]
        slide = () if found.slide is None else (found.slide,)
        return (*J, A, *right(found, rate, accelerations), *slide)

    return rows


def _product(J: Array, inverse: Array, reciprocal: Any, other: Array) -> Array:
    """J M_b^-1 other^T of one body."""
    left = np.concatenate([J[:, :3] @ inverse, J[:, 3:] * reciprocal], axis=1)
    if J is other:
        return symmetric(len(J), lambda i, j: left[i] @ J[j])
    return left @ other.T


def factor(memory: Memory, system: System, found: Blocks, regularization: Regularization) -> Factors:
    """Factors of A + shift D, A = J M^-1 J^T."""
    coupling: dict[tuple[int, int], Cells] = {}
    pairs: dict[Any, list[tuple[int, int, tuple[int, ...]]]] = {}
    for k, l in system.elimination.pairs:
        shared = tuple(sorted(found.J[k].keys() & found.J[l].keys()))
        sizes = system.constraints[k].rows, system.constraints[l].rows, len(shared)
        look = (
            *sizes,
            *(_position(system, k, b) for b in shared),
            *(_position(system, l, b) for b in shared),
        )
        pairs.setdefault((*look, system.constraints[k].kind, system.constraints[l].kind), []).append(
            (k, l, shared)
        )
    for members in pairs.values():
        count = len(members[0][2])

        arguments: list[Cells] = []
        for i in range(count):
            of = [shared[i] for _, _, shared in members]
            arguments.append(np.stack([found.J[k][b] for (k, _, _), b in zip(members, of, strict=True)]))
            arguments.append(np.stack([found.J[l][b] for (_, l, _), b in zip(members, of, strict=True)]))
            arguments.append(memory.put(np.stack([system.bodies[b].inverse for b in of])))
            arguments.append(memory.put(np.array([1 / system.bodies[b].mass for b in of])))
        for (k, l, _), cells in zip(members, memory.apply(_couple, *arguments), strict=True):
            coupling[k, l] = cells
    return system.elimination.factor(memory, found.diagonal, coupling, regularization)


def _couple(*parts: Array) -> Array:
    """sum of J M_b^-1 J'^T over the bodies b that two constraints share; four parts for each of them."""
    A: Any = 0
    for i in range(0, len(parts), 4):
        J, other, inverse, reciprocal = parts[i : i + 4]
        A = A + _product(J, inverse, reciprocal, other)
    return A


def _position(system: System, k: int, body: int) -> int:
    return system.constraints[k].bodies.index(body)


def impulses(
    memory: Memory, system: System, found: Blocks, multipliers: Sequence[Cells], start: Cells
) -> Cells:
    """start - M^-1 J^T lambda (n, 6)."""
    n = len(system.bodies)
    wrenches = memory.variable(np.zeros((n, 6)))
    for members in _alike(system.constraints):
        first = system.constraints[members[0]]
        for i, b in enumerate(first.bodies):
            if b >= 0:
                of = [system.constraints[k].bodies[i] for k in members]
                target = wrenches[of]
                memory.apply(
                    lambda J, x, F: (F - x @ J,),
                    np.stack([found.J[k][body] for k, body in zip(members, of, strict=True)]),
                    np.stack([multipliers[k] for k in members]),
                    target,
                    into=(target,),
                )
    inverse = memory.put(np.stack([b.inverse for b in system.bodies]))
    reciprocal = memory.put(np.array([1 / b.mass for b in system.bodies]))

    def add(x: Array, F: Array, inverse: Array, reciprocal: Any) -> Array:
        return x + np.concatenate([inverse @ F[:3], reciprocal * F[3:]])

    return memory.apply(add, start, wrenches, inverse, reciprocal)


class Motion(NamedTuple):
    """What the equations of motion give: cells."""

    field: Cells  # (dq, dV) in the algebra
    multipliers: Cells  # (m,)
    worst: Cells  # the largest D_k/d_k, (1,); (0,) where nobody asked


def motion(
    memory: Memory,
    system: System,
    t: Cells,
    y: Cells,
    u: Cells,
    stabilization: Stabilization,
    regularization: Regularization,
) -> Motion:
    """Velocity of the state y = (q, V), and the multipliers."""
    n, nq = len(system.bodies), system.nq
    q, V = y[:nq], y[nq:]
    state = bodies(memory, system, q, V)
    free = free_accelerations(memory, system, state, t, u)
    omega, zeta, rate_of_decay = stabilization.frequency, stabilization.damping, stabilization.rate

    def right(rows: Any, rate: Array, driven: Array) -> list[Any]:
        b = driven + rows.bias
        if omega:
            b = b + (2 * zeta * omega) * rate + (omega * omega) * rows.residual
        if rate_of_decay:
            return [b + rate_of_decay * rate, rate + rate_of_decay * rows.residual]
        return [b]

    found = blocks(memory, system, state, t, free, right)
    factors = factor(memory, system, found, regularization)
    multipliers = system.elimination.solve(memory, factors, [r[0] for r in found.right], regularization)
    a = impulses(memory, system, found, multipliers, free)
    dq = state.V
    if rate_of_decay:
        corrections = system.elimination.solve(memory, factors, [r[1] for r in found.right], regularization)
        slip = impulses(memory, system, found, corrections, memory.put(np.zeros((n, 6))))
        dq = moved(memory, system, state, slip)
    dV = np.zeros((n, 6), int)
    rigid, direct = system.by_group
    if rigid:
        dV[rigid] = memory.apply(_rate_on_SE3, a[rigid], state.w[rigid], state.v[rigid])
    if direct:
        dV[direct] = memory.apply(_rate_on_product, a[direct], state.R[direct])
    slides = [found.slide[k] for k in sorted(found.slide)]
    field = np.concatenate([dq.reshape(-1), *slides, dV.reshape(-1)])
    return Motion(field, np.concatenate([np.zeros(0, int), *multipliers]), factors.worst)


def _rate_on_SE3(a: Array, w: Array, v: Array) -> Array:
    """dV/dt of (omega, v body-fixed):  v' = R^T p'' - omega x v."""
    return np.concatenate([a[:3], a[3:] - cross(w, v)])


def _rate_on_product(a: Array, R: Array) -> Array:
    """dV/dt of (omega, p')."""
    return np.concatenate([a[:3], R @ a[3:]])


def moved(memory: Memory, system: System, state: Bodies, change: Cells) -> Cells:
    """V (n, 6) of the groups plus a change of (omega, v) in the bodies' axes."""
    V = np.zeros((len(system.bodies), 6), int)
    rigid, direct = system.by_group
    if rigid:
        V[rigid] = memory.apply(lambda V, x: V + x, state.V[rigid], change[rigid])
    if direct:
        V[direct] = memory.apply(
            lambda V, x, R: V + np.concatenate([x[:3], R @ x[3:]]),
            state.V[direct], change[direct], state.R[direct],
        )  # fmt: skip
    return V


def violations(rows: Any, rate: Array, driven: Array) -> list[Any]:
    """As right sides of `blocks`: g and its rate."""
    return [rows.residual, rate]


def residuals(
    memory: Memory, system: System, state: Bodies, t: Cells
) -> tuple[list[Cells], dict[int, Cells]]:
    """g of every constraint, and for curves the change of s that leads to the closest point."""
    g: list[Cells] = [None] * len(system.constraints)  # type: ignore[list-item]
    closer: dict[int, Cells] = {}
    for members in _alike(system.constraints):
        items = [system.constraints[k] for k in members]
        kind, count = items[0].kind, len(items[0].bodies)

        def write(t: Any, s: Array, *parts: Array, kind: Any = kind, count: int = count) -> tuple[Array, ...]:
            states = [State(*parts[4 * i : 4 * i + 4]) for i in range(count)]
            rows = kind(states, parts[4 * count :], t, s)
            return (rows.residual,) if rows.closer is None else (rows.residual, rows.closer)

        arguments = [
            np.broadcast_to(t, len(items)),
            np.stack([state.slides[system.slides[k]] for k in members]),
        ]
        found = memory.apply(write, *arguments, *_states(state, items), *_constants(memory, items))
        for place, k in enumerate(members):
            g[k] = found[0][place]
            if kind.parameters:
                closer[k] = found[1][place]
    return g, closer


def corrected(
    memory: Memory, system: System, t: Cells, q: Cells, V: Cells, regularization: Regularization
) -> tuple[Cells, Cells]:
    """q on the constraints, and the largest D_k/d_k.

    Twice q <- q exp(delta), delta = -M^-1 J^T A^-1 g, with J and A of the first q. The correction is least in
    the metric of M, along the group (simplified Newton).
    """
    n = len(system.bodies)
    state = bodies(memory, system, q, V)
    slides = state.slides
    found = blocks(memory, system, state, t, None, lambda rows, rate, driven: [rows.residual])
    factors = factor(memory, system, found, regularization)
    g = [right[0] for right in found.right]
    zero = memory.put(np.zeros((n, 6)))
    for iteration in range(CORRECTIONS):
        if iteration:
            g, _ = residuals(memory, system, state, t)
        multipliers = system.elimination.solve(memory, factors, g, regularization)
        delta = impulses(memory, system, found, multipliers, zero)
        rigid, direct = system.by_group
        places = np.zeros((n, 7), int)
        if rigid:
            places[rigid] = memory.apply(
                lambda q, x: SE3.normalize(SE3.integrate(q, x)), state.q[rigid], delta[rigid]
            )
        if direct:
            places[direct] = memory.apply(
                lambda q, x, R: SO3xR3.normalize(SO3xR3.integrate(q, np.concatenate([x[:3], R @ x[3:]]))),
                state.q[direct], delta[direct], state.R[direct],
            )  # fmt: skip
        q = places.reshape(-1)
        if iteration + 1 < CORRECTIONS or len(slides):
            state = bodies(memory, system, np.concatenate([q, slides]), V)
        if len(slides):
            _, closer = residuals(memory, system, state, t)
            steps = np.concatenate([closer[k] for k in sorted(closer)])
            slides = memory.apply(lambda s, ds: s + ds, slides, steps)
            state = state._replace(slides=slides)
    return np.concatenate([q[: 7 * n], slides]), factors.worst


def on_velocities(
    memory: Memory, system: System, t: Cells, q: Cells, V: Cells, regularization: Regularization
) -> Cells:
    """V with J V = 0 (or -dg/dt for constraints that move), changed least in the metric of M."""
    n = len(system.bodies)
    state = bodies(memory, system, q, V)
    found = blocks(memory, system, state, t, None, lambda rows, rate, driven: [rate])
    factors = factor(memory, system, found, regularization)
    multipliers = system.elimination.solve(
        memory, factors, [right[0] for right in found.right], regularization
    )
    change = impulses(memory, system, found, multipliers, memory.put(np.zeros((n, 6))))
    return moved(memory, system, state, change).reshape(-1)


def projected(
    memory: Memory, system: System, t: Cells, y: Cells, regularization: Regularization
) -> tuple[Cells, Cells]:
    """The state y = (q, V) on the constraints, positions first, then velocities; the largest D_k/d_k."""
    q, V = y[: system.nq], y[system.nq :]
    q, worst = corrected(memory, system, t, q, V, regularization)
    unasked = regularization._replace(surplus=None)
    return np.concatenate([q, on_velocities(memory, system, t, q, V, unasked)]), worst


# -- the group of states ----------------------------------------------------------------------------------


def advanced(memory: Memory, system: System, y: Cells, psi: Cells) -> Cells:
    """y exp(psi), normalised, on the group of states G x R^nv."""
    n = len(system.bodies)
    q, step = y[: 7 * n].reshape(n, 7), psi[: 6 * n].reshape(n, 6)
    places = np.zeros((n, 7), int)
    for of, group in zip(system.by_group, (SE3, SO3xR3), strict=True):
        if of:
            places[of] = memory.apply(
                lambda q, x, group=group: group.normalize(group.integrate(q, x)), q[of], step[of]
            )
    rest = memory.apply(lambda x, dx: x + dx, y[7 * n :], psi[6 * n :])
    return np.concatenate([places.reshape(-1), rest])


def pulled(memory: Memory, system: System, psi: Cells, f: Cells) -> Cells:
    """dexp^-1_(-psi) f on the group of states."""
    n = len(system.bodies)
    step, velocity = psi[: 6 * n].reshape(n, 6), f[: 6 * n].reshape(n, 6)
    rates = np.zeros((n, 6), int)
    for of, group in zip(system.by_group, (SE3, SO3xR3), strict=True):
        if of:
            rates[of] = memory.apply(
                lambda x, f, group=group: group.dexp_inverse_times(-x, f), step[of], velocity[of]
            )
    return np.concatenate([rates.reshape(-1), f[6 * n :]])


# -- what passes are made of ------------------------------------------------------------------------------


def _alike(items: Sequence[Any]) -> list[list[int]]:
    """The numbers of constraints or forces, those together that differ in constants only."""
    runs: dict[Any, list[int]] = {}
    for k, item in enumerate(items):
        runs.setdefault((item.kind, tuple(b < 0 for b in item.bodies)), []).append(k)
    return list(runs.values())


def _states(state: Bodies, items: Sequence[Any]) -> list[Cells]:
    """R, p, w, v of each body of each item; the ground is the last row."""
    return [
        cells[[item.bodies[i] for item in items]]
        for i in range(len(items[0].bodies))
        for cells in (state.R, state.p, state.w, state.v)
    ]


def _constants(memory: Memory, items: Sequence[Any]) -> list[Cells]:
    return [memory.put(np.stack(values)) for values in zip(*(item.constants for item in items), strict=True)]
