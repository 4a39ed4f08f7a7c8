"""States on the constraints: closing loops from a guess, consistent velocities, ranks and redundancy.

Changes of configuration are least in the metric of M and go along the group:  q <- q exp(-M^-1 J^T lambda).
These run once, before a simulation, on dense matrices of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bodies import WORLD
from ..errors import ConstraintError, ShapeError
from . import equations
from .passes import Inline

if TYPE_CHECKING:
    from .system import System

Array = Any
DEPENDENT = 1e-7  # a singular value of the scaled Jacobian below which equations depend on each other
LONGEST_TURN = 0.5  # of a body in one step towards closing, in rad
ITERATIONS = 200


@dataclass(frozen=True)
class Report:
    """How constraints restrict a system at a configuration.

    rows, rank   equations, and how many of them are independent
    freedom      degrees of freedom, nv - rank
    redundancy   rows - rank
    dependent    the constraints among which equations depend on each other
    singular     whether neighbouring configurations have a larger rank: a place where motions branch
    smallest     the smallest singular value of the Jacobian that is not zero, rows scaled to one
    """

    rows: int
    rank: int
    freedom: int
    redundancy: int
    dependent: tuple[str, ...]
    singular: bool
    smallest: float

    def __str__(self) -> str:
        text = f"{self.freedom} degrees of freedom; {self.rows} equations of rank {self.rank}"
        if self.redundancy:
            text += f", {self.redundancy} redundant among {', '.join(map(repr, self.dependent))}"
        return text + (", at a singular configuration" if self.singular else "")


def measure(system: System, q: Array, v: Array | None = None, t: float = 0.0) -> tuple[Array, Array, Array]:
    """(g (nc,), J (nc, nv) for (omega, v) in the bodies' axes, rate of g (nc,)) at one state."""
    memory = Inline()
    v = np.zeros(system.nv) if v is None else v
    state = equations.bodies(memory, system, memory.put(q), memory.put(v))
    slides = memory.put(q[7 * len(system.bodies) :])
    found = equations.blocks(
        memory, system, state, memory.put(t), slides, None, lambda rows, rate, _: [rows.residual, rate]
    )
    J = np.zeros((system.nc, system.nv))
    g, rate = np.zeros(system.nc), np.zeros(system.nc)
    for c, blocks, right in zip(system.constraints, found.J, found.right, strict=True):
        rows = system.rows[c.name]
        g[rows], rate[rows] = (memory.get(cells) for cells in right)
        for i, cells in blocks.items():
            J[rows, 6 * i : 6 * i + 6] = memory.get(cells)
    return g, J, rate


def assemble(
    system: System, q: Array, hold: Sequence[str] = (), t: float = 0.0, tolerance: float = 1e-12
) -> np.ndarray:
    """A configuration with all constraints within `tolerance`, by damped Gauss-Newton steps from q.

    hold  bodies that stay where they are

    Raises ConstraintError, which names the loop that does not close and what is left.
    """
    q = np.array(system.group.normalize(np.asarray(q, float)), float)
    if q.shape != (system.nq,) or not np.isfinite(q).all():
        raise ShapeError(f"a configuration is {system.nq} finite numbers, not {q!r}")
    root = _inverse_mass_root(system, hold)
    q = _closest(system, q)
    g, J, _ = measure(system, q, t=t)
    best, damping, least = float(g @ g), 0.0, 0.0
    for _ in range(ITERATIONS):
        if not len(g) or np.abs(g).max() <= tolerance:
            return q
        step = -root @ _damped_solution(J @ root, g, damping)
        turn = np.abs(step.reshape(-1, 6)[:, :3]).max()
        step = step * min(1.0, LONGEST_TURN / max(turn, 1e-300))
        trial = _closest(system, _moved(system, q, step))
        new_g, new_J, _ = measure(system, trial, t=t)
        new = float(new_g @ new_g) if np.isfinite(new_g).all() else np.inf
        if new < best:
            q, g, J, best = trial, new_g, new_J, new
            damping = damping / 10 if damping > 1e-8 else 0.0
        elif np.abs(g).max() <= max(tolerance, 1e-10):
            return q  # as close as round-off lets it
        else:
            damping = max(10 * damping, 1e-6)
            if damping > 1e8:
                break
        least = float(np.linalg.norm(root.T @ (J.T @ g)))
    raise _not_closed(system, q, g, least)


def consistent_velocities(
    system: System, q: Array, v: Array, hold: Sequence[str] = (), t: float = 0.0
) -> np.ndarray:
    """The velocities next to v, in the metric of M, with J v = 0 (-dg/dt for constraints that move).

    hold  bodies that keep their velocities

    Raises ConstraintError where there are none, or none that keep those.
    """
    _, J, rate = measure(system, q, v, t)
    root = _inverse_mass_root(system, hold)
    change = -root @ _damped_solution(J @ root, rate, 0.0)
    memory = Inline()
    state = equations.bodies(memory, system, memory.put(q), memory.put(v))
    found = memory.get(equations.moved(memory, system, state, memory.put(change.reshape(-1, 6)))).reshape(-1)
    _, _, left = measure(system, q, found, t)
    scale = 1.0 + np.abs(v).max()
    if len(left) and np.abs(left).max() > 1e-8 * scale:
        worst = _worst(system, left)
        raise ConstraintError(
            f"no velocities keep the constraints of {system.name}"
            + (f" while {', '.join(map(repr, hold))} keep theirs" if hold else "")
            + f": {worst!r} still changes at {np.abs(left).max():.3g} (m/s, rad/s)"
        )
    return found


def report(system: System, q: Array, t: float = 0.0) -> Report:
    """Rank, degrees of freedom and redundancy at q."""
    rank, dependent, smallest = _rank(system, q, t)
    largest, rng = rank, np.random.default_rng(1)
    if rank < system.nc:
        _, J, _ = measure(system, q, t=t)
        root = _inverse_mass_root(system, ())
        motions = _null_space(J @ root, rank)
        for _ in range(2):
            if not motions.shape[1]:
                break
            step = root @ (motions @ rng.standard_normal(motions.shape[1]))
            step = step * (0.02 / max(np.abs(step.reshape(-1, 6)[:, :3]).max(), np.abs(step).max(), 1e-300))
            try:
                near = assemble(system, _moved(system, q, step), t=t)
            except ConstraintError:
                continue
            largest = max(largest, _rank(system, near, t)[0])
    return Report(system.nc, rank, system.nv - rank, system.nc - rank, dependent, largest > rank, smallest)


def _rank(system: System, q: Array, t: float) -> tuple[int, tuple[str, ...], float]:
    """(rank of J, constraints with dependent equations, smallest singular value that counts)."""
    _, J, _ = measure(system, q, t=t)
    scaled = J @ _inverse_mass_root(system, ())
    sizes = np.linalg.norm(scaled, axis=1)
    scaled = scaled / np.where(sizes > 0, sizes, 1.0)[:, None]
    if not system.nc:
        return 0, (), np.inf
    U, s, _ = np.linalg.svd(scaled, full_matrices=True)
    rank = int(np.sum(s > DEPENDENT))
    shares = np.linalg.norm(U[:, rank:], axis=1)
    dependent = tuple(c.name for c in system.constraints if np.any(shares[system.rows[c.name]] > 1e-6))
    return rank, dependent, float(s[rank - 1]) if rank else 0.0


def nearly_dependent(system: System, q: Array, t: float = 0.0) -> tuple[float, tuple[str, ...]]:
    """The smallest singular value of the scaled Jacobian, and the constraints whose rows take part in it."""
    _, J, _ = measure(system, q, t=t)
    scaled = J @ _inverse_mass_root(system, ())
    sizes = np.linalg.norm(scaled, axis=1)
    U, s, _ = np.linalg.svd(scaled / np.where(sizes > 0, sizes, 1.0)[:, None])
    if not len(s):
        return np.inf, ()
    share = np.abs(U[:, len(s) - 1])
    names = [c.name for c in system.constraints if np.any(share[system.rows[c.name]] > 0.05)]
    return float(s[-1]), tuple(names)


def _null_space(A: Array, rank: int) -> np.ndarray:
    return np.asarray(np.linalg.svd(A, full_matrices=True)[2][rank:].T)


def _inverse_mass_root(system: System, hold: Sequence[str]) -> np.ndarray:
    """W with W W^T = M^-1 (nv, nv); zero for bodies that are held."""
    W = np.zeros((system.nv, system.nv))
    held = {system.index(name) for name in hold}
    for i, b in enumerate(system.bodies):
        if i not in held:
            W[6 * i : 6 * i + 3, 6 * i : 6 * i + 3] = np.linalg.cholesky(b.inverse)
            W[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6] = np.eye(3) / np.sqrt(b.mass)
    return W


def _damped_solution(A: Array, b: Array, damping: float) -> np.ndarray:
    """x of least norm that minimises |A x - b|^2 + damping s^2 |x|^2, s the largest singular value."""
    if not len(b):
        return np.zeros(A.shape[1])
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    gain = np.where(keep, s / np.where(keep, s * s + damping * s[0] ** 2, 1.0), 0.0)
    return np.asarray(Vt.T @ (gain * (U.T @ b)))


def _moved(system: System, q: Array, step: Array) -> np.ndarray:
    """q exp(step), the step given by (omega, v) in the bodies' axes."""
    memory = Inline()
    zero = np.zeros(system.nv)
    state = equations.bodies(memory, system, memory.put(q), memory.put(zero))
    V = memory.get(equations.moved(memory, system, state, memory.put(step.reshape(-1, 6)))).reshape(-1)
    u = np.concatenate([V, np.zeros(system.ns)])
    return np.array(system.group.normalize(system.group.integrate(q, u)), float)


def _closest(system: System, q: Array) -> np.ndarray:
    """q with the parameters of curves at their closest points."""
    if not system.ns:
        return q
    q = q.copy()
    slides = q[7 * len(system.bodies) :]
    for k, c in enumerate(system.constraints):
        if c.kind.parameters:
            slides[system.slides[k]] = system._closest(k, float(slides[system.slides[k]][0]), q)
    return q


def _worst(system: System, values: Array) -> str:
    return max(system.rows, key=lambda name: np.abs(values[system.rows[name]]).max())


def _not_closed(system: System, q: Array, g: Array, slope: float) -> ConstraintError:
    worst = _worst(system, g)
    loop = loop_of(system, worst)
    left = ", ".join(
        f"{name!r}: {np.abs(g[rows]).max():.3g}"
        for name, rows in system.rows.items()
        if name in loop and np.abs(g[rows]).max() > 1e-10
    )
    place = f"the loop {' - '.join(map(repr, loop))}" if len(loop) > 1 else f"constraint {worst!r}"
    error = ConstraintError(
        f"{system.name}: {place} does not close; left over are {left} (m, rad). "
        "Its constraints contradict each other, or the guess is too far off: check lengths and placements, "
        "or start from a closer configuration"
    )
    error.q, error.loop, error.residual = q, loop, np.abs(g).max()  # type: ignore[attr-defined]
    return error


def loop_of(system: System, name: str) -> tuple[str, ...]:
    """The constraints of the shortest loop of bodies that contains the constraint `name`; itself, if none."""
    c = next(c for c in system.constraints if c.name == name)
    start, goals = c.bodies[0], set(c.bodies[1:])
    paths: dict[int, tuple[str, ...]] = {start: (name,)}
    pending = [start]
    while pending and goals:
        b = pending.pop(0)
        for other in system.constraints:
            if other.name != name and b in other.bodies:
                for next_body in other.bodies:
                    if next_body not in paths:
                        paths[next_body] = (*paths[b], other.name)
                        pending.append(next_body)
                        if next_body in goals:
                            return paths[next_body]
    return (name,)


def body_name(system: System, i: int) -> str:
    """The name of body number i."""
    return system.bodies[i].name if i >= 0 else WORLD
