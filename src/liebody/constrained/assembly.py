"""States on the constraints: closing loops from a guess, consistent velocities, ranks and redundancy.

Changes of configuration are least in the metric of M and go along the group:  q <- q exp(-M^-1 J^T lambda).
These run once, before a simulation, on dense matrices of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConstraintError, ShapeError, counted

if TYPE_CHECKING:
    from .mechanism import Constrained

Array = Any
DEPENDENT = 1e-7  # a singular value of the scaled Jacobian below which equations depend on each other
DENSE = 600  # equations up to which ranks come from singular values, and from sparse factors beyond
LONGEST_STEP = 0.5  # towards closing, in rad or m
ITERATIONS = 200
RESTARTS = 4
PROGRESS = 1e-3  # of |g|^2 in a step, less of which counts as none


@dataclass(frozen=True)
class Report:
    """How constraints restrict a system at a configuration.

    rows, rank   equations, and how many of them are independent
    freedom      degrees of freedom, nv - rank
    redundancy   rows - rank
    dependent    the constraints among which equations depend on each other
    nearby       the rank at neighbouring configurations (looked for up to 600 equations); where it is larger
                 than the rank, this is a singular configuration, where motions branch
    smallest     the smallest singular value of the Jacobian that is not zero, rows scaled to one; NaN for
                 more equations
    """

    rows: int
    rank: int
    freedom: int
    redundancy: int
    dependent: tuple[str, ...]
    nearby: int
    smallest: float

    @property
    def singular(self) -> bool:
        """Whether neighbouring configurations have a larger rank."""
        return self.nearby > self.rank

    def __str__(self) -> str:
        freedom, equations = counted(self.freedom, "degree"), counted(self.rows, "equation")
        text = f"{freedom} of freedom; {equations} of rank {self.rank}"
        if self.redundancy:
            names = ", ".join(map(repr, self.dependent[:10])) + (", ..." if len(self.dependent) > 10 else "")
            text += f", {self.redundancy} redundant among {names}"
        return text + (", at a singular configuration" if self.singular else "")


def assemble(
    mechanism: Constrained, q: Array, hold: Sequence[str] = (), t: float = 0.0, tolerance: float = 1e-12
) -> np.ndarray:
    """A configuration with all constraints within `tolerance`, by damped Gauss-Newton steps from q.

    hold  bodies that stay where they are

    Raises ConstraintError, which names the loop that does not close and what is left.
    """
    q = np.array(mechanism.group.normalize(np.asarray(q, float)), float)
    if q.shape != (mechanism.nq,) or not np.isfinite(q).all():
        raise ShapeError(f"a configuration is {mechanism.nq} finite numbers, not {q!r}")
    if mechanism.is_large:
        found = _projected(mechanism, q, t, tolerance)
        if found is not None and not hold:
            return found
    q = mechanism.moved(q, np.zeros(mechanism.nv))
    rng, free = np.random.default_rng(0), np.any(mechanism.inverse_mass_root(q, hold), axis=1)
    best = q, np.full(mechanism.nc, np.inf)
    for attempt in range(1 + RESTARTS):  # from close by, where the guess leads nowhere: stretched loops
        shake = 0.2 * attempt * free * rng.standard_normal(mechanism.nv)
        found, g = _descended(mechanism, mechanism.moved(q, shake), hold, t, tolerance)
        if np.abs(g).max(initial=0.0) <= max(tolerance, 1e-10):
            return found
        if g @ g < best[1] @ best[1]:
            best = found, g
    raise _not_closed(mechanism, *best)


def _descended(
    mechanism: Constrained, q: Array, hold: Sequence[str], t: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where damped Gauss-Newton steps lead from q, and g there (Levenberg 1944, Marquardt 1963)."""
    root = mechanism.inverse_mass_root(q, hold)
    g, J, _ = mechanism.measure(q, t=t)
    damping = 0.0
    for _ in range(ITERATIONS):
        if np.abs(g).max(initial=0.0) <= tolerance:
            break
        step = -root @ _damped_solution(J @ root, g, damping)
        step = step * min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300))
        trial = mechanism.moved(q, step)
        new_g, new_J, _ = mechanism.measure(trial, t=t)
        if np.isfinite(new_g).all() and new_g @ new_g < (1 - PROGRESS) * (g @ g):
            q, g, J = trial, new_g, new_J
            damping = damping / 10 if damping > 1e-8 else 0.0
        elif np.abs(g).max() <= max(tolerance, 1e-10):
            break  # as close as round-off lets it
        else:
            damping = max(10 * damping, 1e-6)
            if damping > 1e4:
                break
    return q, g


def _projected(mechanism: Constrained, q: Array, t: float, tolerance: float) -> np.ndarray | None:
    """q on the constraints by sparse Newton steps without damping, None where they do not lead there."""
    v = np.zeros(mechanism.nv)
    for _ in range(20):
        g, _ = mechanism.kernel("residuals")(t, q, v)
        if np.abs(g).max(initial=0.0) <= tolerance:
            return q
        q, _ = mechanism.kernel("towards_constraints")(t, q, v)
        if not np.isfinite(q).all():
            return None
    return None


def consistent_velocities(
    mechanism: Constrained, q: Array, v: Array, hold: Sequence[str] = (), t: float = 0.0
) -> np.ndarray:
    """The velocities next to v, in the metric of M, with J v = 0 (-dg/dt for constraints that move).

    hold  bodies that keep their velocities

    Raises ConstraintError where there are none, or none that keep those.
    """
    if mechanism.is_large and not hold:
        _, found = mechanism.kernel("towards_constraints")(t, q, v)
        _, left = mechanism.kernel("residuals")(t, q, found)
    else:
        _, J, rate = mechanism.measure(q, v, t)
        root = mechanism.inverse_mass_root(q, hold)
        found = mechanism.changed(q, v, -root @ _damped_solution(J @ root, rate, 0.0))
        _, _, left = mechanism.measure(q, found, t)
    scale = 1.0 + np.abs(v).max()
    if len(left) and np.abs(left).max() > 1e-8 * scale:
        worst = _worst(mechanism, left)
        raise ConstraintError(
            f"no velocities keep the constraints of {mechanism.name}"
            + (f" while {', '.join(map(repr, hold))} keep theirs" if hold else "")
            + f": {worst!r} still changes at {np.abs(left).max():.3g} (m/s, rad/s)"
        )
    return found


def report(mechanism: Constrained, q: Array, t: float = 0.0) -> Report:
    """Rank, degrees of freedom and redundancy at q."""
    rank, dependent, smallest = _rank(mechanism, q, t)
    largest = max([rank, *(_rank(mechanism, near, t)[0] for near in _neighbours(mechanism, q, rank, t))])
    return Report(mechanism.nc, rank, mechanism.nv - rank, mechanism.nc - rank, dependent, largest, smallest)


def _neighbours(mechanism: Constrained, q: Array, rank: int, t: float) -> list[np.ndarray]:
    """Configurations next to q, where J has this rank; none where there is no redundancy to look for."""
    found: list[np.ndarray] = []
    if not rank < mechanism.nc <= DENSE:
        return found
    rng = np.random.default_rng(1)
    _, J, _ = mechanism.measure(q, t=t)
    root = mechanism.inverse_mass_root(q, ())
    motions = _null_space(J @ root, rank)
    for _ in range(2 if motions.shape[1] else 0):
        step = root @ (motions @ rng.standard_normal(motions.shape[1]))
        step = step * (0.02 / max(np.abs(step).max(), 1e-300))
        try:
            found.append(assemble(mechanism, mechanism.moved(q, step), t=t))
        except ConstraintError:
            continue
    return found


def surplus(mechanism: Constrained, q: Array, t: float = 0.0) -> np.ndarray:
    """Numbers of equations that depend, at q and around it, on those which are eliminated before them."""
    rank = _rank(mechanism, q, t)[0]
    places = [q, *_neighbours(mechanism, q, rank, t)]
    ranks = [rank, *(_rank(mechanism, near, t)[0] for near in places[1:])]
    pivots = mechanism.relative_pivots(places[int(np.argmax(ranks))], t)
    return np.argsort(pivots)[: mechanism.nc - max(ranks)]


def _rank(mechanism: Constrained, q: Array, t: float) -> tuple[int, tuple[str, ...], float]:
    """(rank of J, constraints with dependent equations, smallest singular value that counts)."""
    if mechanism.nc > DENSE:
        redundancy, shares = mechanism.dependence(q, t)
        taking_part = redundancy * shares > 1e-6
        names = tuple(c.name for c in mechanism.constraints if taking_part[mechanism.rows[c.name]].any())
        return mechanism.nc - redundancy, names, np.nan
    if not mechanism.nc:
        return 0, (), np.inf
    U, s, _ = np.linalg.svd(_scaled(mechanism, q, t), full_matrices=True)
    rank = int(np.sum(s > DEPENDENT))
    shares = np.linalg.norm(U[:, rank:], axis=1)
    dependent = tuple(c.name for c in mechanism.constraints if np.any(shares[mechanism.rows[c.name]] > 1e-6))
    return rank, dependent, float(s[rank - 1]) if rank else 0.0


def _scaled(mechanism: Constrained, q: Array, t: float) -> np.ndarray:
    """J M^-1/2, rows over what their length is where they matter."""
    _, J, _ = mechanism.measure(q, t=t)
    sizes = np.sqrt(mechanism.row_sizes(q, t))
    return np.asarray(J @ mechanism.inverse_mass_root(q, ()) / np.where(sizes > 0, sizes, 1.0)[:, None])


def independent(mechanism: Constrained, q: Array) -> np.ndarray:
    """Numbers of rows of J that span all others: one after the other, those that the former do not span."""
    scaled = mechanism.measure(q)[1] @ mechanism.inverse_mass_root(q, ())
    basis: list[Array] = []
    found = []
    for k, row in enumerate(scaled):
        rest, size = row, float(np.linalg.norm(row))
        for _ in range(2):  # orthogonal to round-off
            for b in basis:
                rest = rest - (b @ rest) * b
        if size > 0 and np.linalg.norm(rest) > 1e-6 * max(size, 1e-6 * np.abs(scaled).max()):
            basis.append(rest / np.linalg.norm(rest))
            found.append(k)
    return np.array(found, int)


def closest_to_dependent(
    mechanism: Constrained, q: Array, v: Array, ahead: float, t: float
) -> tuple[tuple[float, tuple[str, ...]], float]:
    """(`nearly_dependent`, time) where it is smallest along q exp(s v), 0 <= s <= ahead: by three scans."""
    middle, width = ahead / 2, ahead / 2
    for _ in range(3):
        times = np.clip(np.linspace(middle - width, middle + width, 21), 0, ahead)
        found = [nearly_dependent(mechanism, mechanism.moved_with(q, v, s), t + s)[0] for s in times]
        middle, width = float(times[int(np.argmin(found))]), width / 10
    return nearly_dependent(mechanism, mechanism.moved_with(q, v, middle), t + middle), t + middle


def nearly_dependent(mechanism: Constrained, q: Array, t: float = 0.0) -> tuple[float, tuple[str, ...]]:
    """The smallest singular value of the scaled Jacobian, and the constraints whose rows take part in it."""
    U, s, _ = np.linalg.svd(_scaled(mechanism, q, t))
    if not len(s):
        return np.inf, ()
    share = np.abs(U[:, len(s) - 1])
    names = [c.name for c in mechanism.constraints if np.any(share[mechanism.rows[c.name]] > 0.05)]
    return float(s[-1]), tuple(names)


def _null_space(A: Array, rank: int) -> np.ndarray:
    return np.asarray(np.linalg.svd(A, full_matrices=True)[2][rank:].T)


def _damped_solution(A: Array, b: Array, damping: float) -> np.ndarray:
    """x of least norm that minimises |A x - b|^2 + damping s^2 |x|^2, s the largest singular value."""
    if not len(b):
        return np.zeros(A.shape[1])
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    gain = np.where(keep, s / np.where(keep, s * s + damping * s[0] ** 2, 1.0), 0.0)
    return np.asarray(Vt.T @ (gain * (U.T @ b)))


def _worst(mechanism: Constrained, values: Array) -> str:
    return max(mechanism.rows, key=lambda name: np.abs(values[mechanism.rows[name]]).max())


def _not_closed(mechanism: Constrained, q: Array, g: Array) -> ConstraintError:
    worst = _worst(mechanism, g)
    loop = mechanism.loop(worst)
    left = ", ".join(
        f"{name!r}: {np.abs(g[rows]).max():.3g}"
        for name, rows in mechanism.rows.items()
        if name in loop and np.abs(g[rows]).max() > 1e-10
    )
    place = f"the loop {' - '.join(map(repr, loop))}" if len(loop) > 1 else f"constraint {worst!r}"
    error = ConstraintError(
        f"{mechanism.name}: {place} does not close; left over are {left} (m, rad). "
        "Its constraints contradict each other, or the guess is too far off: check lengths and placements, "
        "or start from a closer configuration"
    )
    error.q, error.loop, error.residual = q, loop, np.abs(g).max()  # type: ignore[attr-defined]
    return error
