"""States on the constraints: closing loops from a guess, consistent velocities, ranks and redundancy.

Changes of configuration are least in the metric of M and go along the group:  q <- q exp(-M^-1 J^T lambda).
These run once, before a simulation, on dense matrices of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...base.arguments import floats, names, vector
from ...base.concurrency import cached_property
from ...base.errors import ConstraintError, ShapeError, counted
from ...groups.product import slices
from ...scalars import Array
from ..contract import Mechanism
from .constraints import Constraint

DEPENDENT = 1e-7  # a singular value of the scaled Jacobian below which equations depend on each other
DENSE = 600  # equations up to which ranks come from singular values, and from sparse factors beyond
LONGEST_STEP = 0.5  # towards closing, in rad or m
ITERATIONS = 200
RESTARTS = 4
NEARLY = 1e-3  # a smallest singular value, below which a place counts as singular
NEAR, FAR = 0.02, 0.5  # how far from a place others are looked at, in rad or m
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


class Assembly(Mechanism):
    """A mechanism with constraints g(q) = 0, as far as its states on them go.

    Subclasses say how g, J and M are measured, in coordinates of small changes of their own; their kernels
    have "residuals" (t, q, v), large ones also "towards_constraints".
    """

    constraints: tuple[Constraint, ...]

    @property
    def is_large(self) -> bool:
        """Whether its functions are programs, whose code does not grow with it, not straight lines."""
        return False

    @property
    def guess(self) -> np.ndarray:
        """A configuration from where loops are closed, (nq,)."""
        raise NotImplementedError

    def measure(self, q: Array, v: Array | None = None, t: float = 0.0) -> tuple[Array, Array, Array]:
        """(g (nc,), J (nc, nv), rate of g (nc,)) at one state, J for changes as `moved` takes them."""
        raise NotImplementedError

    def inverse_mass_root(self, q: Array, hold: Sequence[str]) -> np.ndarray:
        """W with W W^T = M^-1 (nv, nv), for changes as `moved` takes them; zero for what is held."""
        raise NotImplementedError

    def moved(self, q: Array, step: Array) -> np.ndarray:
        """q after a small change (nv,)."""
        return self.moved_with(q, step, 1.0)

    def changed(self, q: Array, v: Array, change: Array) -> np.ndarray:
        """v plus a change (nv,)."""
        return np.asarray(v + change)

    def loop(self, constraint: str) -> tuple[str, ...]:
        """The names of what makes up the shortest loop that a constraint closes."""
        raise NotImplementedError

    def row_sizes(self, q: Array, t: float = 0.0) -> np.ndarray:
        """D of the regularised A + eps D (nc,): what the diagonal of A = J M^-1 J^T is where rows matter."""
        raise NotImplementedError

    def relative_pivots(self, q: Array, t: float = 0.0) -> np.ndarray:
        """Pivots of A over D (nc,), as the equations of motion eliminate it."""
        raise NotImplementedError

    def dependence(self, q: Array, t: float) -> tuple[int, np.ndarray]:
        """How many equations are redundant, and the share (nc,) that each has in that; for large systems."""
        raise NotImplementedError

    # -- sizes ----------------------------------------------------------------------------------------------

    @cached_property
    def nc(self) -> int:  # type: ignore[override]
        """Number of constraint equations."""
        return sum(c.rows for c in self.constraints)

    @cached_property
    def rows(self) -> dict[str, slice]:
        """Where each constraint stands among the equations and multipliers, (nc,)."""
        places = slices([c.rows for c in self.constraints])
        return {c.name: place for c, place in zip(self.constraints, places, strict=True)}

    @cached_property
    def of_places(self) -> np.ndarray:
        """Which equations forbid places, g = 0, (nc,); the others forbid velocities only."""
        return np.repeat([c.kind.holonomic for c in self.constraints], [c.rows for c in self.constraints])

    # -- closing loops --------------------------------------------------------------------------------------

    def assemble(
        self, q: Array = None, hold: str | Sequence[str] = (), t: float = 0.0, tolerance: float = 1e-12
    ) -> np.ndarray:
        """A configuration (nq,) in which all constraints hold, next to the guess q, by Gauss-Newton steps.

        q     a rough configuration; None: that of the builder
        hold  bodies that stay where they are

        Changes are least in the metric of M. Raises ConstraintError with the loop that cannot close and what
        is left over.
        """
        found = self._closed(self.guess if q is None else q, names(hold), t, tolerance)
        self.remember(found)
        return found

    def _closed(self, q: Array, hold: Sequence[str], t: float, tolerance: float) -> np.ndarray:
        """A configuration with all constraints within `tolerance`, by damped Gauss-Newton steps from q."""
        q = np.array(self.group.normalize(floats("q", q, finite=False)), float)
        if q.shape != (self.nq,) or not np.isfinite(q).all():
            raise ShapeError(f"a configuration is {self.nq} finite numbers, not {q!r}")
        if self.is_large:
            found = self._towards_constraints(q, t, tolerance)
            if found is not None and not hold:
                return found
        q = self.moved(q, np.zeros(self.nv))
        rng, free = np.random.default_rng(0), np.any(self.inverse_mass_root(q, hold), axis=1)
        best = q, np.full(self.nc, np.inf)
        for attempt in range(1 + RESTARTS):  # from close by, where the guess leads nowhere: stretched loops
            shake = 0.2 * attempt * free * rng.standard_normal(self.nv)
            found, g = self._descended(self.moved(q, shake), hold, t, tolerance)
            if np.abs(g).max(initial=0.0) <= max(tolerance, 1e-10):
                return found
            if g @ g < best[1] @ best[1]:
                best = found, g
        raise self._not_closed(*best)

    def _descended(
        self, q: Array, hold: Sequence[str], t: float, tolerance: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where damped Gauss-Newton steps lead from q, and g there (Levenberg 1944, Marquardt 1963)."""
        root = self.inverse_mass_root(q, hold)
        places = self.of_places
        g, J = self._finite(q, t)
        damping = 0.0
        for _ in range(ITERATIONS):
            if np.abs(g).max(initial=0.0) <= tolerance:
                break
            step = -root @ _damped_solution((J @ root)[places], g[places], damping)
            step = step * min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300))
            trial = self.moved(q, step)
            new_g, new_J, _ = self.measure(trial, t=t)
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

    def _finite(self, q: Array, t: float) -> tuple[np.ndarray, np.ndarray]:
        """g and J at q; raises ConstraintError with the name of a constraint that has none there."""
        g, J, _ = self.measure(q, t=t)
        for name, rows in self.rows.items():
            if not (np.isfinite(g[rows]).all() and np.isfinite(J[rows]).all()):
                raise ConstraintError(
                    f"{self.name}: the constraint {name!r} has no value in this configuration, as a wheel "
                    "that lies flat has no lowest point; start from another one"
                )
        return g, J

    def _towards_constraints(self, q: Array, t: float, tolerance: float) -> np.ndarray | None:
        """q on the constraints by sparse Newton steps without damping, None where they do not lead there."""
        v = np.zeros(self.nv)
        for _ in range(20):
            g, _ = self.evaluated("residuals", t, q, v)
            if np.abs(g).max(initial=0.0) <= tolerance:
                return q
            q, _ = self.evaluated("towards_constraints", t, q, v)
            if not np.isfinite(q).all():
                return None
        return None

    def consistent_velocities(
        self, q: Array, v: Array, hold: str | Sequence[str] = (), t: float = 0.0
    ) -> np.ndarray:
        """The velocities next to v, in the metric of M, with J v = 0 (-dg/dt for constraints that move).

        hold  bodies that keep their velocities

        Raises ConstraintError where there are none, or none that keep those.
        """
        q, v, hold = vector("q", q, self.nq), vector("v", v, self.nv), names(hold)
        if self.is_large and not hold:
            _, found = self.evaluated("towards_constraints", t, q, v)
            _, left = self.evaluated("residuals", t, q, found)
        else:
            _, J, rate = self.measure(q, v, t)
            root = self.inverse_mass_root(q, hold)
            found = self.changed(q, v, -root @ _damped_solution(J @ root, rate, 0.0))
            _, _, left = self.measure(q, found, t)
        scale = 1.0 + np.abs(v).max()
        if len(left) and np.abs(left).max() > 1e-8 * scale:
            worst = self._worst(left)
            raise ConstraintError(
                f"no velocities keep the constraints of {self.name}"
                + (f" while {', '.join(map(repr, hold))} keep theirs" if hold else "")
                + f": {worst!r} still changes at {np.abs(left).max():.3g} (m/s, rad/s)"
            )
        return found

    # -- ranks ----------------------------------------------------------------------------------------------

    def report(self, q: Array = None, t: float = 0.0) -> Report:
        """Degrees of freedom, rank and redundancy at q (by default, where the guess closes)."""
        q = self.assemble(t=t) if q is None else vector("q", q, self.nq)
        rank, dependent, smallest = self._rank(q, t)
        largest = max([rank, *(self._rank(near, t)[0] for near in self._neighbours(q, rank, t))])
        return Report(self.nc, rank, self.nv - rank, self.nc - rank, dependent, largest, smallest)

    @cached_property
    def redundant(self) -> bool:  # type: ignore[override]
        """Whether equations depend on each other, at and around the first closed configuration that was seen.

        That is the one that was assembled or simulated first, or else where the guess closes; of a mechanism
        at other values of its parameters, that of its own ones.
        """
        if "nominal" in vars(self):
            return bool(vars(self)["nominal"][0].redundant)
        try:
            return self.nc > 0 and self.report(self._place()).nearby < self.nc
        except ConstraintError:
            return True

    @cached_property
    def ordinary_pivots(self) -> list[np.ndarray]:
        """For each constraint, pivots over D at a place far from singular ones; ones of regular equations.

        That of some around the place where `redundant` looked at which their product is largest.
        """
        if not self.redundant:
            return [np.ones(c.rows) for c in self.constraints]
        q = self._place()
        rank = self._rank(q, 0.0)[0]
        places = [q, *self._neighbours(q, rank, 0.0), *self._neighbours(q, rank, 0.0, FAR)]
        pivots = max((self.relative_pivots(x, 0.0) for x in places), key=lambda p: np.log(p).sum())
        return [pivots[self.rows[c.name]] for c in self.constraints]

    @property
    def independent(self) -> np.ndarray:
        """The numbers of as many equations as are independent, where `redundant` looked.

        One after the other, those whose rows of J the former do not span.
        """
        if not self.redundant:
            return np.arange(self.nc)
        q = self._place()
        scaled = self.measure(q)[1] @ self.inverse_mass_root(q, ())
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

    def _neighbours(self, q: Array, rank: int, t: float, distance: float = NEAR) -> list[np.ndarray]:
        """Configurations around q, where J has this rank; none where there is no redundancy to look for."""
        found: list[np.ndarray] = []
        if not rank < self.nc <= DENSE:
            return found
        rng = np.random.default_rng(1)
        _, J, _ = self.measure(q, t=t)
        root = self.inverse_mass_root(q, ())
        motions = np.linalg.svd(J @ root, full_matrices=True)[2][rank:].T  # those that J leaves
        for _ in range(2 if motions.shape[1] else 0):
            step = root @ (motions @ rng.standard_normal(motions.shape[1]))
            step = step * (distance / max(np.abs(step).max(), 1e-300))
            try:
                found.append(self._closed(self.moved(q, step), (), t, 1e-12))
            except ConstraintError:
                continue
        return found

    def _rank(self, q: Array, t: float) -> tuple[int, tuple[str, ...], float]:
        """(rank of J, constraints with dependent equations, smallest singular value that counts)."""
        if self.nc > DENSE:
            redundancy, shares = self.dependence(q, t)
            return self.nc - redundancy, self._taking_part(redundancy * shares, 1e-6), np.nan
        if not self.nc:
            return 0, (), np.inf
        U, s, _ = np.linalg.svd(self._scaled(q, t), full_matrices=True)
        rank = int(np.sum(s > DEPENDENT))
        dependent = self._taking_part(np.linalg.norm(U[:, rank:], axis=1), 1e-6)
        return rank, dependent, float(s[rank - 1]) if rank else 0.0

    def _taking_part(self, shares: np.ndarray, least: float) -> tuple[str, ...]:
        """The constraints of which an equation has a share above the least."""
        return tuple(name for name, rows in self.rows.items() if (shares[rows] > least).any())

    def _scaled(self, q: Array, t: float) -> np.ndarray:
        """J M^-1/2, rows over what their length is where they matter."""
        _, J = self._finite(q, t)
        sizes = np.sqrt(self.row_sizes(q, t))
        return np.asarray(J @ self.inverse_mass_root(q, ()) / np.where(sizes > 0, sizes, 1.0)[:, None])

    def moved_with(self, q: Array, v: Array, time: float) -> np.ndarray:
        """q exp(time v): where the velocities of now lead in a time."""
        u = np.concatenate([time * np.asarray(v), np.zeros(self.group.dim - self.nv)])
        return np.array(self.group.normalize(self.group.integrate(q, u)), float)

    def diagnosis(self, q: Array, v: Array, ahead: float = 0.0, t: float = 0.0) -> str:
        """In words, which constraints become dependent within a time ahead of (q, v); empty if none do."""
        if self.redundant or self.nc > DENSE:
            return ""
        middle, width = ahead / 2, ahead / 2
        for _ in range(3):  # scans along q exp(s v), 0 <= s <= ahead
            times = np.clip(np.linspace(middle - width, middle + width, 21), 0, ahead)
            found = [self.nearly_dependent(self.moved_with(q, v, s), t + s)[0] for s in times]
            middle, width = float(times[int(np.argmin(found))]), width / 10
        smallest, names = self.nearly_dependent(self.moved_with(q, v, middle), t + middle)
        if smallest > NEARLY:
            return ""
        return (
            f"the constraints {', '.join(map(repr, names))} become dependent at t = {t + middle:.6g} s "
            f"(smallest singular value of their scaled Jacobian {smallest:.2g}): a singular configuration, "
            "where motions branch"
        )

    def nearly_dependent(self, q: Array, t: float = 0.0) -> tuple[float, tuple[str, ...]]:
        """The smallest singular value of the scaled Jacobian, and the constraints that take part in it."""
        U, s, _ = np.linalg.svd(self._scaled(q, t))
        if not len(s):
            return np.inf, ()
        return float(s[-1]), self._taking_part(np.abs(U[:, len(s) - 1]), 0.05)

    def _worst(self, values: Array) -> str:
        return max(self.rows, key=lambda name: np.abs(values[self.rows[name]]).max())

    def _not_closed(self, q: Array, g: Array) -> ConstraintError:
        worst = self._worst(g)
        loop = self.loop(worst)
        left = ", ".join(
            f"{name!r}: {np.abs(g[rows]).max():.3g}"
            for name, rows in self.rows.items()
            if name in loop and np.abs(g[rows]).max() > 1e-10
        )
        place = f"the loop {' - '.join(map(repr, loop))}" if len(loop) > 1 else f"constraint {worst!r}"
        error = ConstraintError(
            f"{self.name}: {place} does not close; left over are {left} (m, rad). "
            "Its constraints contradict each other, or the guess is too far off: check lengths and "
            "placements, or start from a closer configuration"
        )
        error.q, error.loop, error.residual = q, loop, np.abs(g).max()  # type: ignore[attr-defined]
        return error

    def _place(self) -> np.ndarray:
        return self._places[0] if self._places else self.assemble()

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """The first closed configuration that was seen, if there was one."""
        return []

    def remember(self, q: Array) -> None:
        """Take the first one of q (..., nq), closed, for the place where to look at constraints, once."""
        if not self._places:
            self._places.append(np.array(q, float).reshape(-1, self.nq)[0])


def _damped_solution(A: Array, b: Array, damping: float) -> np.ndarray:
    """x of least norm that minimises |A x - b|^2 + damping s^2 |x|^2, s the largest singular value."""
    if not len(b):
        return np.zeros(A.shape[1])
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    gain = np.where(keep, s / np.where(keep, s * s + damping * s[0] ** 2, 1.0), 0.0)
    return np.asarray(Vt.T @ (gain * (U.T @ b)))
