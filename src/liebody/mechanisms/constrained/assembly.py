"""States on the constraints: closing loops from a guess, and consistent velocities.

Changes of configuration are least in the metric of M and go along the group:  q <- q exp(-M^-1 J^T lambda).
These run once, before a simulation, on dense matrices of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.arguments import floats, names, vector
from ...base.concurrency import cached_property
from ...base.errors import ConstraintError, ShapeError
from ...groups.product import slices
from ...scalars import Array
from ..contract import Mechanism
from .constraints import Constraint

LONGEST_STEP = 0.5  # towards closing, in rad or m
ITERATIONS = 200
RESTARTS = 4
PROGRESS = 1e-3  # of |g|^2 in a step, less of which counts as none


class Assembly(Mechanism):
    """A mechanism with constraints g(q) = 0, as far as its states on them go.

    Subclasses measure g, J and M, in coordinates of small changes that they choose. Their kernels have
    "residuals" (t, q, v), large ones also "towards_constraints".
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
        """W with W W^T = M^-1 (nv, nv), for changes as `moved` takes them; zero rows for held bodies."""
        raise NotImplementedError

    def moved(self, q: Array, step: Array) -> np.ndarray:
        """q after a small change (nv,)."""
        return self.moved_with(q, step, 1.0)

    def changed(self, q: Array, v: Array, change: Array) -> np.ndarray:
        """v plus a change (nv,)."""
        return np.asarray(v + change)

    def loop(self, constraint: str) -> tuple[str, ...]:
        """The names of the constraints and joints in the shortest loop that a constraint closes."""
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

    def moved_with(self, q: Array, v: Array, time: float) -> np.ndarray:
        """q exp(time v): where the velocities of now lead in a time."""
        # parameters of curves have no velocity: they stay, and the closest points are found afterwards
        u = np.concatenate([time * np.asarray(v), np.zeros(self.group.dim - self.nv)])
        return np.array(self.group.normalize(self.group.integrate(q, u)), float)

    # -- closing loops --------------------------------------------------------------------------------------

    def assemble(
        self, q: Array = None, hold: str | Sequence[str] = (), t: float = 0.0, tolerance: float = 1e-12
    ) -> np.ndarray:
        """A configuration (nq,) in which all constraints hold, next to the guess q, by Gauss-Newton steps.

        q     a rough configuration; None: the guess of the builder
        hold  bodies that stay where they are

        Changes are least in the metric of M. Raises ConstraintError with the loop that cannot close and what
        is left over.
        """
        closed = self._closed(self.guess if q is None else q, names(hold), t, tolerance)
        self.remember(closed)
        return closed

    def _closed(self, q: Array, hold: Sequence[str], t: float, tolerance: float) -> np.ndarray:
        """A configuration with all constraints within `tolerance`, by damped Gauss-Newton steps from q."""
        # a guess may have quaternions of any length
        q = np.array(self.group.normalize(floats("q", q, finite=False)), float)
        if q.shape != (self.nq,) or not np.isfinite(q).all():
            raise ShapeError(f"a configuration is {self.nq} finite numbers, not {q!r}")
        # large systems: sparse Newton steps first, which need no dense matrix; they hold no body
        if self.is_large:
            closed = self._towards_constraints(q, t, tolerance)
            if closed is not None and not hold:
                return closed
        q = self.moved(q, np.zeros(self.nv))  # curves at their closest points
        rng = np.random.default_rng(0)
        free = np.any(self.inverse_mass_root(q, hold), axis=1)
        best = q, np.full(self.nc, np.inf)
        for attempt in range(1 + RESTARTS):
            # where the guess leads nowhere, as from stretched loops: start again from a random place close by
            shake = 0.2 * attempt * free * rng.standard_normal(self.nv)
            closed, g = self._descended(self.moved(q, shake), hold, t, tolerance)
            if np.abs(g).max(initial=0.0) <= max(tolerance, 1e-10):
                return closed
            if g @ g < best[1] @ best[1]:  # for the error message: the closest that was reached
                best = closed, g
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
            # in coordinates W y, in which the metric of M is the unit matrix, the step is the shortest
            step = -root @ _damped_solution((J @ root)[places], g[places], damping)
            # a longer step would leave the region in which the linear model means anything
            step = step * min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300))
            trial = self.moved(q, step)
            new_g, new_J, _ = self.measure(trial, t=t)
            # a step that lowers |g|^2 enough is taken, and damping falls; otherwise damping grows from 0
            if np.isfinite(new_g).all() and new_g @ new_g < (1 - PROGRESS) * (g @ g):
                q = trial
                g = new_g
                J = new_J
                damping = damping / 10 if damping > 1e-8 else 0.0
            elif np.abs(g).max() <= max(tolerance, 1e-10):
                break  # as close as round-off lets it
            else:
                damping = max(10 * damping, 1e-6)
                if damping > 1e4:  # no direction lowers |g|: a local minimum
                    break
        return q, g

    def _finite(self, q: Array, t: float) -> tuple[np.ndarray, np.ndarray]:
        """g and J at q; raises ConstraintError with the name of a constraint that has none there."""
        g, J, _ = self.measure(q, t=t)
        # name the constraint: NaN in a sum of squares would only say that there is one
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
        for _ in range(20):  # quadratic convergence takes some five; more means that it does not converge
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

        Raises ConstraintError if no such velocities exist.
        """
        q = vector("q", q, self.nq)
        v = vector("v", v, self.nv)
        hold = names(hold)
        if self.is_large and not hold:
            _, velocities = self.evaluated("towards_constraints", t, q, v)
            _, left = self.evaluated("residuals", t, q, velocities)
        else:
            # J W y = -rate of least norm: the change W y is least in the metric of M
            _, J, rate = self.measure(q, v, t)
            root = self.inverse_mass_root(q, hold)
            velocities = self.changed(q, v, -root @ _damped_solution(J @ root, rate, 0.0))
            _, _, left = self.measure(q, velocities, t)
        scale = 1.0 + np.abs(v).max()
        if len(left) and np.abs(left).max() > 1e-8 * scale:
            worst = self._worst(left)
            raise ConstraintError(
                f"no velocities keep the constraints of {self.name}"
                + (f" while {', '.join(map(repr, hold))} keep theirs" if hold else "")
                + f": {worst!r} still changes at {np.abs(left).max():.3g} (m/s, rad/s)"
            )
        return velocities

    def _worst(self, values: Array) -> str:
        return max(self.rows, key=lambda name: np.abs(values[self.rows[name]]).max())

    def _not_closed(self, q: Array, g: Array) -> ConstraintError:
        worst = self._worst(g)
        loop = self.loop(worst)  # residuals outside this loop have other causes
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

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """The first closed configuration that occurred, if any."""
        return []

    def remember(self, q: Array) -> None:
        """Keep the first of closed configurations q (..., nq), once: ranks are determined there."""
        if not self._places:
            self._places.append(np.array(q, float).reshape(-1, self.nq)[0])


def _damped_solution(A: Array, b: Array, damping: float) -> np.ndarray:
    """x of least norm that minimises |A x - b|^2 + damping s^2 |x|^2, s the largest singular value."""
    if not len(b):
        return np.zeros(A.shape[1])
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]  # redundant rows: the pseudoinverse leaves them out
    gain = np.where(keep, s / np.where(keep, s * s + damping * s[0] ** 2, 1.0), 0.0)
    return np.asarray(Vt.T @ (gain * (U.T @ b)))
