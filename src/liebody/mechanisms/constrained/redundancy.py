"""Redundancy: whether equations of constraints depend on each other, which ones, and where motions branch.

Ranks belong to the scaled Jacobian D^-1/2 J M^-1/2, from its singular values on dense matrices of NumPy,
or, of large systems, from sparse factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.arguments import vector
from ...base.concurrency import cached_property
from ...base.errors import ConstraintError, counted
from ...scalars import Array
from .assembly import Assembly

DEPENDENT = 1e-7  # a singular value of the scaled Jacobian below which equations depend on each other
DENSE = 600  # equations up to which ranks come from singular values, and from sparse factors beyond
NEARLY = 1e-3  # a smallest singular value, below which a place counts as singular
NEAR = 0.02  # distance of the neighbouring configurations whose rank is compared, in rad or m
FAR = 0.5  # the same for the configurations that ordinary pivots are taken from


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
        freedom = counted(self.freedom, "degree")
        equations = counted(self.rows, "equation")
        text = f"{freedom} of freedom; {equations} of rank {self.rank}"
        if self.redundancy:
            names = ", ".join(map(repr, self.dependent[:10])) + (", ..." if len(self.dependent) > 10 else "")
            text += f", {self.redundancy} redundant among {names}"
        return text + (", at a singular configuration" if self.singular else "")


class Redundancy(Assembly):
    """A mechanism with constraints g(q) = 0, as far as their dependence on each other goes.

    Subclasses say how g, J and M are measured, and give the pivots of A = J M^-1 J^T.
    """

    def row_sizes(self, q: Array, t: float = 0.0) -> np.ndarray:
        """D of the regularised A + eps D (nc,): the diagonal of A = J M^-1 J^T where no row vanishes."""
        raise NotImplementedError

    def relative_pivots(self, q: Array, t: float = 0.0) -> np.ndarray:
        """Pivots of A over D (nc,), as the equations of motion eliminate it."""
        raise NotImplementedError

    def dependence(self, q: Array, t: float) -> tuple[int, np.ndarray]:
        """How many equations are redundant, and the share (nc,) that each has in that; for large systems."""
        raise NotImplementedError

    # -- ranks ----------------------------------------------------------------------------------------------

    def report(self, q: Array = None, t: float = 0.0) -> Report:
        """Degrees of freedom, rank and redundancy at q (by default, where the guess closes)."""
        q = self.assemble(t=t) if q is None else vector("q", q, self.nq)
        # a rank that is larger next to q shows that q is a singular configuration
        rank, dependent, smallest = self._rank(q, t)
        largest = max([rank, *(self._rank(near, t)[0] for near in self._neighbours(q, rank, t))])
        return Report(self.nc, rank, self.nv - rank, self.nc - rank, dependent, largest, smallest)

    @cached_property
    def redundant(self) -> bool:  # type: ignore[override]
        """Whether equations depend on each other, at and around the first closed configuration.

        This is the configuration that was assembled or simulated first, or else where the guess closes. A
        mechanism at other values of its parameters takes the answer of the nominal one.
        """
        if "nominal" in vars(self):
            return bool(vars(self)["nominal"][0].redundant)
        try:
            return self.nc > 0 and self.report(self._place()).nearby < self.nc
        except ConstraintError:  # no closed configuration to look at: assume the worst
            return True

    @cached_property
    def ordinary_pivots(self) -> list[np.ndarray]:
        """For each constraint, pivots over D at a place far from singular ones; ones of regular equations.

        They are taken where their product is largest, among the place where `redundant` looked and others
        around it.
        """
        if not self.redundant:
            return [np.ones(c.rows) for c in self.constraints]
        # the configuration itself may be singular: some nearby and some farther away stand beside it
        q = self._place()
        rank = self._rank(q, 0.0)[0]
        places = [q, *self._neighbours(q, rank, 0.0), *self._neighbours(q, rank, 0.0, FAR)]
        pivots = max((self.relative_pivots(x, 0.0) for x in places), key=lambda p: np.log(p).sum())
        return [pivots[self.rows[c.name]] for c in self.constraints]

    @property
    def independent(self) -> np.ndarray:
        """The numbers of as many equations as are independent, where `redundant` looked.

        Row by row of J: a row counts if the rows before it do not span it.
        """
        if not self.redundant:
            return np.arange(self.nc)
        q = self._place()
        scaled = self.measure(q)[1] @ self.inverse_mass_root(q, ())
        basis: list[Array] = []
        chosen = []
        for k, row in enumerate(scaled):
            rest = row
            size = float(np.linalg.norm(row))
            for _ in range(2):  # orthogonal to round-off
                for b in basis:
                    rest = rest - (b @ rest) * b
            # a row counts if enough of it is left beside the span of the rows before it
            if size > 0 and np.linalg.norm(rest) > 1e-6 * max(size, 1e-6 * np.abs(scaled).max()):
                basis.append(rest / np.linalg.norm(rest))
                chosen.append(k)
        return np.array(chosen, int)

    def _neighbours(self, q: Array, rank: int, t: float, distance: float = NEAR) -> list[np.ndarray]:
        """Configurations around q, where J has this rank; [] if all equations are independent."""
        neighbours: list[np.ndarray] = []
        if not rank < self.nc <= DENSE:
            return neighbours
        rng = np.random.default_rng(1)
        _, J, _ = self.measure(q, t=t)
        root = self.inverse_mass_root(q, ())
        motions = np.linalg.svd(J @ root, full_matrices=True)[2][rank:].T  # the null space of J
        for _ in range(2 if motions.shape[1] else 0):
            step = root @ (motions @ rng.standard_normal(motions.shape[1]))
            # a change of the same size whatever the masses are, then back on the constraints
            step = step * (distance / max(np.abs(step).max(), 1e-300))
            try:
                neighbours.append(self._closed(self.moved(q, step), (), t, 1e-12))
            except ConstraintError:
                continue
        return neighbours

    def _rank(self, q: Array, t: float) -> tuple[int, tuple[str, ...], float]:
        """(rank of J, constraints with dependent equations, smallest singular value that counts)."""
        if self.nc > DENSE:
            redundancy, shares = self.dependence(q, t)
            return self.nc - redundancy, self._taking_part(redundancy * shares, 1e-6), np.nan
        if not self.nc:
            return 0, (), np.inf
        # left singular vectors beyond the rank are the dependences: rows with a share in them take part
        U, s, _ = np.linalg.svd(self._scaled(q, t), full_matrices=True)
        rank = int(np.sum(s > DEPENDENT))
        dependent = self._taking_part(np.linalg.norm(U[:, rank:], axis=1), 1e-6)
        return rank, dependent, float(s[rank - 1]) if rank else 0.0

    def _taking_part(self, shares: np.ndarray, least: float) -> tuple[str, ...]:
        """The constraints of which an equation has a share above the least."""
        return tuple(name for name, rows in self.rows.items() if (shares[rows] > least).any())

    def _scaled(self, q: Array, t: float) -> np.ndarray:
        """J M^-1/2, rows over their ordinary lengths, sqrt(D)."""
        _, J = self._finite(q, t)
        # rows over sqrt(D) have no units, so that one bound serves lengths and angles
        sizes = np.sqrt(self.row_sizes(q, t))
        return np.asarray(J @ self.inverse_mass_root(q, ()) / np.where(sizes > 0, sizes, 1.0)[:, None])

    def diagnosis(self, q: Array, v: Array, ahead: float = 0.0, t: float = 0.0) -> str:
        """In words, which constraints become dependent within a time ahead of (q, v); empty if none do."""
        if self.redundant or self.nc > DENSE:
            return ""
        middle = ahead / 2
        width = ahead / 2
        # scans along q exp(s v), 0 <= s <= ahead, each ten times finer around the smallest singular value
        for _ in range(3):
            times = np.clip(np.linspace(middle - width, middle + width, 21), 0, ahead)
            sizes = [self.nearly_dependent(self.moved_with(q, v, s), t + s)[0] for s in times]
            middle = float(times[int(np.argmin(sizes))])
            width = width / 10
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
        # the last left singular vector weighs the rows in the combination that nearly vanishes
        if not len(s):
            return np.inf, ()
        return float(s[-1]), self._taking_part(np.abs(U[:, len(s) - 1]), 0.05)

    def _place(self) -> np.ndarray:
        return self._places[0] if self._places else self.assemble()
