"""Basins: a set of starts around a stable orbit from which every motion is proved to converge to it.

*Starts* are x = c + V a + s n, |a| <= rho (Euclid), in the section g = 0 around the first node c: y_j = c_j
of an orbit without events, or the guard of an event that is zero again behind its jump. With D g = G in a
box around them,

    |s| <= (|g(c)| + |G V| rho) / |G n|,        |ds/da_j| <= |G V_j| / |G n|,

which are zero for a linear guard, but for rounding. If no guard is zero again, V spans all states.

*Motions.* Beside a motion from x, its change w from w_0 = V_j + (ds/da_j) n is followed by the larger system
of `extended`. For each x its equations, with the start in place of the last jump, have one solution z in
boxes c_i +- r_i, if with the derivatives A in the boxes

    |M^-1 F(c)| + rho |(M^-1 V)_k| + |M^-1 (M - A)| r < r        in each row k

(Krawczyk 1969). F(z) - F(c) is A (z - c) for a mean A of derivatives between c and z. So the mean of |M - A|
over K boxes c +- (i/K) r bounds the last term: about half of it. All A in the largest box must be regular.
The solution is c + (M^-1 V) a + e, with |e| bounded by the first and last term. So the return map P is
defined for the starts, and smooth. With the inverse (L, l) of (V, n),

    L DP(x) w_0 = b_j + T_j a + e_j

with numbers b_j and T_j. T has the second derivatives of P. Nothing is wrapped into boxes from step to step,
and terms of first and second order may cancel over the period. Only e_j is bounded by absolute values, behind
the product of L, the jump's derivative and M^-1. From the start x* of the orbit to x the mean of a is that at
their middle. Bounds e_i of e for |a| <= (i/K) rho grow with the square of i, about, so that their mean is
little more than a third of the last one. So, if no other event happens in the boxes, and

    kappa = |b| + |T| (rho + d) / 2 + mean |e_i| < 1,      kappa (rho + d) + d <= rho,      d = |L (x* - c)|,

then P maps the starts into themselves, and each return brings a start nearer to x* by the factor kappa, in
the norm |L .|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...compiler import NotProved, exactly, middle
from .blocks import ROUNDED, BlockElimination
from .certificate import Certificate, Checkable
from .equations import ExactEquations, ProofError
from .events import refuse_other_events
from .extended import ExtendedEquations, changes_along
from .multipliers import return_map_slope
from .relative import data_with_shifts
from .system import Enclosed, StepEquations, SteppedOrbit, SteppedPhase, around, upwards

Array = Any
FORMAT_OF_BASINS = "liebody certificate 7"
FORMAT_OF_SHIFTS = "liebody certificate 8"  # of basins of orbits up to shifts
SIZES = 10.0 ** -np.arange(0.0, 8.01, 0.05)  # that are tried
RATES = 0.25, 0.1, 0.5  # how far the norm's contraction is from the modulus of the multipliers, towards 1
SHARE = 0.95  # of the boxes' radii that motions may fill: bounds of the checker are somewhat wider
TRIES = 16  # boxes around the nodes, for one size; and vectors that show that derivatives are regular
MOST = 1e3  # times the motion of the starts to first order: boxes that are larger are given up
OF_CHECKER = 600  # unknowns that it does not condense, in liebody_check.basins
CONTRACTION = 0.95  # that leaves the checker a margin
MOST_PIECES = 64  # of the checker


@dataclass(frozen=True, eq=False)
class ProvedBasin(Checkable):
    """A set of starts from which every motion converges to a proved orbit.

    certificate  the orbit
    axes         V (N, k): the starts are c + V a + s n with |a| <= radius, in the section; c is the first
                 node of `data`. The shortest semi-axis of V is 1
    normal       n (N,), the unit vector across the section at c: a and s are coordinates of states there;
                 None where all states c + V a are starts
    radius       rho: all states of the section within it are among the starts
    contraction  an upper bound of kappa: each return brings a start nearer to the orbit's by this factor, in
                 the norm |a|
    data         the content of the certificate's file, with axes, radius and boxes around the nodes

    If the orbit closes up to shifts, the axes and the normal are in relative states, such as the place of a
    foot less the place of the body. They have no rows for the coordinates of shifts.

    The section is the plane of the first node for an orbit without events. For others it is the guard of the
    last event, if that is zero again behind its jump. The bounds are the prover's; `check` and `theorem` run
    the checker.
    """

    certificate: Certificate
    axes: Array
    normal: Array | None
    radius: float
    contraction: float
    data: Mapping[str, Any]
    _checked: list[Any] = field(default_factory=list, repr=False)

    def __repr__(self) -> str:
        return (
            f"ProvedBasin({self.data['name']!r}, radius {self.radius:.3g}, contraction "
            f"{self.contraction:.3g}; {'checked' if self._checked else 'not checked yet'})"
        )


@dataclass
class EllipsoidOfStarts:
    """An ellipsoid of starts that is proved.

    thickness  an upper bound of |s|
    pieces     over which derivatives are averaged
    orbits     of the larger system, one for each column of the axes; reach: boxes around their nodes
    """

    axes: Array
    normal: Array | None
    radius: float
    thickness: float
    contraction: float
    pieces: int
    orbits: list[SteppedOrbit]
    reach: list[Array]


def largest_basin(
    problem: StepEquations, tight: Enclosed, radius: float | None, pieces: int
) -> EllipsoidOfStarts:
    """The largest ellipsoid for which the proof succeeds, or the ellipsoid of a radius."""
    P = middle(return_map_slope(problem, tight))
    if not len(P):
        raise ProofError("the section is a single point: there are no other starts")
    modulus = np.abs(np.linalg.eigvals(P)).max()
    if not modulus < 1:
        raise ProofError(f"the orbit is not stable: a multiplier has the modulus {modulus:.4g}")
    section = _Section(problem, tight)
    P = section.within(P)
    extended = StepEquations(ExtendedEquations(problem.equations).equations(), problem.order)
    best: EllipsoidOfStarts | None = None
    for rate in RATES:
        axes = section.basis @ _axes(P, modulus + (1 - modulus) * rate)
        starts = _Ellipsoids(problem, extended, tight, section, axes, pieces)
        sizes = SIZES if radius is None else np.array([radius])
        # by bisection, between sizes that failed and one that succeeded; after that just the next larger one
        # first, because other norms seldom prove more
        first, last = 0, len(sizes) if best is None else int(np.sum(sizes > best.radius))
        k = (first + last) // 2 if best is None else last - 1
        while first < last:
            found = starts.basin(float(sizes[k]))
            if found is None:
                first = k + 1
            else:
                best, last = found, k
            k = (first + last) // 2
    if best is None:
        size = SIZES[-1] if radius is None else radius
        raise ProofError(
            f"no basin with a radius of {size:.1e} is proved: the return map is not seen to contract there, "
            "or another event is not excluded"
        )
    return best


def _axes(P: Array, rate: float) -> Array:
    """V with |V^-1 P V| <= rate (Euclid), about, and a shortest semi-axis of 1.

    X = sum_k (P / rate)^k' (P / rate)^k has P' X P <= rate^2 X; V^-1 is a root of X (Lyapunov).
    """
    Q = P / rate
    X, power = np.eye(len(P)), np.eye(len(P))
    for _ in range(400):
        power = power @ Q
        X = X + power.T @ power
    V = np.linalg.inv(np.linalg.cholesky(X).T)
    return V / np.linalg.svd(V, compute_uv=False)[-1]


class _Section:
    """The section in which an orbit starts: y_j = c_j, or a guard that is zero again behind the last jump.

    basis   orthonormal directions (N, k) within it at the first node
    normal  the unit vector across it; None: there is no section, and the basis has all directions
    """

    def __init__(self, problem: StepEquations, tight: Enclosed) -> None:
        self.problem = problem
        self.centre = tight.orbit.phases[0].x[0]
        first, last = problem.equations.phases[0], problem.equations.phases[-1]
        N = first.size
        self.coordinate = last.coordinate
        again = [guard.tape for guard in first.guards if guard.zero_at_start]
        if last.coordinate is not None:
            self.tape = last.section
            self.basis = np.delete(np.eye(N), last.coordinate, axis=1)
            self.normal = np.eye(N)[last.coordinate]
        elif again:
            self.tape = again[0]
            gradient = middle(self._slope(exactly(self.centre)))
            self.normal = gradient / np.linalg.norm(gradient)
            self.basis = np.linalg.svd(self.normal[None])[2][1:].T
        else:
            self.basis = np.eye(N)
            self.normal = None

    def _slope(self, box: Array) -> Array:
        return self.problem.evaluate(self.tape, box, exactly(np.eye(len(box))))[1][0]

    def within(self, P: Array) -> Array:
        """The derivative of the return map from states of the section, as a matrix of `basis`."""
        return P if self.coordinate is not None else self.basis.T @ P @ self.basis

    def around(self, axes: Array, radius: float, thickness: float) -> tuple[float, Array] | None:
        """Bounds of |s|, and (k,) of |ds/da_j|, for |a| <= radius; None where that is not seen.

        thickness  an upper bound of |s|, by which the derivatives of g are enclosed
        """
        k = axes.shape[1]
        if self.normal is None:
            return 0.0, np.zeros(k)
        sizes = radius * np.linalg.norm(axes, axis=1) + thickness * np.abs(self.normal)
        slope = self._slope(around(self.centre, sizes * ROUNDED))
        value = np.abs(self.problem.evaluate(self.tape, exactly(self.centre))[0][0]).max()
        product = self.problem.library.product
        along = np.abs(product(slope[None], exactly(axes))[0]).max(axis=-1)
        across = product(slope[None], exactly(self.normal)[:, None])[0, 0]
        least = max(-across[0], -across[1])
        if not least > 0:
            return None
        s = float((value + np.linalg.norm(along) * radius) / least * ROUNDED)
        return (s, along / least * ROUNDED) if s <= thickness else None


class _Ellipsoids:
    """Ellipsoids of starts with given axes around the first node of an orbit."""

    def __init__(
        self,
        problem: StepEquations,
        extended: StepEquations,
        tight: Enclosed,
        section: _Section,
        axes: Array,
        pieces: int,
    ) -> None:
        self.problem = extended
        self.section = section
        self.axes = axes
        self.pieces = pieces
        N, k = axes.shape
        normal = section.normal
        inverse = _inverse(axes if normal is None else np.column_stack([axes, normal]))
        self.inverse, self.across = inverse[:k], inverse[k:]
        orbit = tight.orbit
        changes, _ = changes_along(problem, orbit, axes)
        self.columns = []
        for j in range(k):
            phases = [
                SteppedPhase(np.concatenate([steps.x, w[..., j]], axis=-1), steps.w, steps.s)
                for steps, w in zip(orbit.phases, changes, strict=True)
            ]
            together = SteppedOrbit(phases, orbit.shift, orbit.coordinates)
            self.columns.append(_Column(extended, together, axes, self.inverse))
        # how far the orbit's start is from the first node, in the norm
        library = problem.library
        apart = library.combine("sub", tight.phases[0][0][0], exactly(orbit.phases[0].x[0]))
        sizes = library.product(self.inverse, apart[:, None]).max(axis=-1)
        self.apart = float(np.linalg.norm(sizes) * ROUNDED)
        # |s| behind the last jump for rho = 1, about
        _, slope = extended.jump(extended.equations.phases[-1], exactly(self.columns[0].last))
        returns = np.abs(middle(slope))[:N] @ self.columns[0].rows[self.columns[0].end]
        self.thickness = 1 + 2 * float(np.abs(middle(self.across)).sum(axis=0) @ returns)

    def basin(self, radius: float) -> EllipsoidOfStarts | None:
        """The ellipsoid of a radius, if it is proved."""
        thickness = self.thickness * radius
        sizes = [min(radius, radius * i / self.pieces + self.apart) for i in range(1, self.pieces + 1)]
        motions = []
        try:
            starts = self._starts(sizes, thickness)
            if starts is None:
                return None
            for j, column in enumerate(self.columns):
                found = column.motions(sizes, starts[:, j])
                if found is None:
                    return None
                motions.append(found)
            refuse_other_events(self.problem, motions[0].boxes[-1])
            returns = self._across(motions[0].boxes[-1])
            contraction = self._contraction(motions, radius)
        except (NotProved, ProofError):
            return None
        d = self.apart
        if not (contraction < CONTRACTION and (contraction * (radius + d) + d) * ROUNDED <= radius):
            return None
        if not returns < SHARE * thickness:
            return None
        return EllipsoidOfStarts(
            self.axes,
            self.section.normal,
            radius,
            thickness,
            contraction,
            self.pieces,
            [column.orbit for column in self.columns],
            [x.boxes[-1].radius for x in motions],
        )

    def _starts(self, sizes: list[float], thickness: float) -> Array | None:
        """Bounds (K, k, 2 N) of s n, and of (ds/da_j) n, for |a| <= rho_i; None where they are not seen."""
        N, k = self.axes.shape
        normal = np.zeros(N) if self.section.normal is None else np.abs(self.section.normal)
        near = self.section.around(self.axes, sizes[-1], thickness)
        if near is None:
            return None
        # where |s| is known to be small, derivatives of g vary less
        s = max(near[0], 2.0**-1000)
        starts = []
        for size in sizes:
            closer = self.section.around(self.axes, size, s) or near
            rows = np.outer([closer[0]] * k, normal), np.outer(closer[1], normal)
            starts.append(np.concatenate(rows, axis=1) * ROUNDED)
        return np.stack(starts)

    def _across(self, boxes: Enclosed) -> float:
        """An upper bound of |s| behind the last jump."""
        problem = self.problem
        states, _ = problem.jump(problem.equations.phases[-1], boxes.phases[-1][0][-1])
        apart = problem.library.combine("sub", states[: len(self.axes)], exactly(self.section.centre))
        return float(np.abs(problem.library.product(self.across, apart[:, None])).max(initial=0.0))

    def _contraction(self, motions: list[_Motions], radius: float) -> float:
        """An upper bound of kappa."""
        product = self.problem.library.product
        b, T, e = [], [], []
        for column, found in zip(self.columns, motions, strict=True):
            b.append(product(self.inverse, column.behind[:, None])[:, 0])
            T.append(product(column.turned, exactly(column.moved[column.end])))
            e.append(column.rest_of_slope(found))
        sizes = [
            _norm(np.stack(b, axis=1)),
            _norm(np.concatenate(T, axis=1)) * (radius + self.apart) / 2,
            float(np.mean(np.linalg.norm(np.stack(e), axis=(0, 2)))),
        ]
        return sum(sizes) * ROUNDED


@dataclass
class _Motions:
    """Motions of the larger system from the starts with |a| <= rho_i, i = 1, ..., K.

    boxes  around their nodes, and derivatives there
    rest   bounds of the right sides whose solution is e
    total  bounds of how far they are from c
    """

    boxes: list[Enclosed]
    rest: list[Array]
    total: list[Array]


class _Column:
    """Motions of the larger system from an ellipsoid of starts, with one of its axes as the change w_0.

    last    the last node; end: its place among the unknowns
    behind  the change (N, 2) behind the last jump from it
    turned  L times the derivative of that change by the last node
    """

    def __init__(self, problem: StepEquations, orbit: SteppedOrbit, axes: Array, inverse: Array) -> None:
        self.problem = problem
        self.orbit = orbit
        self.inverse = inverse
        N, k = axes.shape
        n = len(orbit.flat)
        phase = problem.equations.phases[-1]
        linear = BlockElimination(problem.derivatives(orbit, exactly(orbit.flat)), from_start=True)
        self.linear = linear.as_checked(OF_CHECKER)
        right = np.zeros((n, k))
        right[n - 2 * N : n - N] = axes
        self.moved = self.linear.solve(right)
        self.missing = self.linear.left(exactly(right), self.moved).sum(axis=-1)
        self.missed = np.abs(problem.residual(orbit)).max(axis=-1)
        self.starts = slice(n - 2 * N, n)
        self.rows = np.sqrt((self.moved**2).sum(axis=-1)) * ROUNDED
        self.last = orbit.phases[-1].x[-1]
        self.end = slice(n - 1 - phase.size, n - 1)
        behind, self.slope = (x[N:] for x in problem.jump(phase, exactly(self.last)))
        self.behind = behind
        self.turned = problem.library.product(inverse, self.slope)

    def motions(self, sizes: list[float], starts: Array) -> _Motions | None:
        """Those from |a| <= rho_i; None where they are not proved.

        sizes  rho_i, (K,);  starts (K, 2 N): bounds of how far starts are from (c + V a, V_j)
        """
        flat = self.orbit.flat
        pieces = len(sizes)
        missed = np.tile(self.missed, (pieces, 1))
        missed[:, self.starts] = starts
        least = sizes[-1] * self.rows
        reach = 1.03 / SHARE * least + 1e-13 * (1 + np.abs(flat))
        largest = MOST * (least + 1e-3 * least.max() + self._bound(missed[-1]))
        shares = np.arange(1, pieces + 1) / pieces
        for _ in range(TRIES):
            boxes, varied = [], []
            for share in shares:
                box = around(flat, share * reach * ROUNDED)
                A = self.problem.derivatives(self.orbit, box)
                boxes.append(Enclosed(self.orbit, share * reach, box, A))
                varied.append(self.linear.varied(A.away(self.linear.M), reach[:, None])[:, 0])
            rest, total = [], []
            for i, (share, size) in enumerate(zip(shares, sizes, strict=True)):
                mean = share * np.mean(varied[: i + 1], axis=0)
                rest.append((missed[i] + size * self.missing + mean) * ROUNDED**2)
                total.append((size * self.rows + self._bound(rest[-1])) * ROUNDED)
            larger = 1.03 * total[-1] / SHARE
            if (total[-1] < SHARE * reach).all():
                inside = all((x < share * reach).all() for x, share in zip(total, shares, strict=True))
                return _Motions(boxes, rest, total) if inside and self._is_regular(boxes[-1]) else None
            if (larger > largest).any():
                return None
            reach = np.maximum(reach, larger)
        return None

    def _bound(self, right: Array) -> Array:
        return self.linear.bound(right[:, None])[:, 0]

    def _is_regular(self, box: Enclosed) -> bool:
        """Whether all derivatives in a box are regular: |M^-1 (M - A)| v < v for some v > 0."""
        away = box.A.away(self.linear.M)
        v = box.radius
        for _ in range(TRIES):
            image = self._bound(self.linear.varied(away, v[:, None])[:, 0])
            if (image < SHARE * v).all():
                return True
            v = box.radius + image / 0.97
        return False

    def rest_of_slope(self, motions: _Motions) -> Array:
        """Bounds (K, k) of e_i."""
        library = self.problem.library
        phase = self.problem.equations.phases[-1]
        N = len(self.behind)
        # how far L times the jump's derivatives are from those at c, in each box
        apart = []
        for boxes in motions.boxes:
            _, slope = self.problem.jump(phase, boxes.phases[-1][0][-1])
            change = library.combine("sub", slope[N:], self.slope)
            apart.append(np.abs(library.product(self.inverse, change)).max(axis=-1))
        rows = []
        for i, (rest, total) in enumerate(zip(motions.rest, motions.total, strict=True), 1):
            linear = self.linear.bound_at_end(self.turned, rest[:, None])[:, 0]
            rows.append((linear + np.mean(apart[:i], axis=0) @ total[self.end]) * ROUNDED**2)
        return np.stack(rows)


def _inverse(V: Array) -> Array:
    """V^-1 as intervals.

    With W about V^-1 and E = 1 - W V, V^-1 = (1 - E)^-1 W, and |(1 - E)^-1 x - x| <= 2 |E| max |x| where
    |E| < 1/2.
    """
    k = len(V)
    W = np.linalg.inv(V)
    E = np.abs(np.eye(k) - W @ V) + (k + 3) * 2.0**-52 * (np.eye(k) + np.abs(W) @ np.abs(V))
    size = E.sum(axis=-1).max() * ROUNDED
    if not size < 0.5:
        raise ProofError("the axes of the basin are nearly dependent")
    away = 2 * size * np.abs(W).max(axis=0) * np.ones((k, 1))
    return upwards(np.stack([away - W, away + W], axis=-1))


def _norm(x: Array) -> float:
    """An upper bound of the spectral norm of matrices in intervals: of the middle, and of the rest."""
    centre = middle(x)
    spread = upwards(np.maximum(x[..., 0] + centre, x[..., 1] - centre))
    return float(np.linalg.norm(centre, 2) * (1 + 1e-12) + np.linalg.norm(spread) * ROUNDED)


def proved_basin(
    certificate: Certificate, found: EllipsoidOfStarts, shifted: ExactEquations | None
) -> ProvedBasin:
    """The result, with the content of the file; shifted: the equations of all states, if there are shifts."""
    columns = []
    for orbit, reach in zip(found.orbits, found.reach, strict=True):
        changes = [steps.x[:, steps.x.shape[1] // 2 :].tolist() for steps in orbit.phases]
        columns.append(
            {
                "changes": [[[x.hex() for x in row] for row in rows] for rows in changes],
                "reach": [x.hex() for x in reach.tolist()],
            }
        )
    data = {
        **certificate.data,
        "format": FORMAT_OF_BASINS,
        "axes": [[x.hex() for x in row] for row in found.axes.tolist()],
        "normal": [] if found.normal is None else [x.hex() for x in found.normal.tolist()],
        "size": found.radius.hex(),
        "thickness": found.thickness.hex(),
        "pieces": found.pieces,
        "columns": columns,
    }
    if shifted is not None:
        data = {**data_with_shifts(data, shifted), "format": FORMAT_OF_SHIFTS}
    return ProvedBasin(certificate, found.axes, found.normal, found.radius, found.contraction, data)
