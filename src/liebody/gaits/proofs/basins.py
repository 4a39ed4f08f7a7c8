"""Basins: a set of starts around a stable orbit from which every motion is proved to converge to it.

The starts x = c + V a, |a| <= rho (Euclid), are an ellipsoid around the first node c, in the section
y_j = c_j of an orbit without events. Beside a motion from x, its change w from w_0 = V_j is followed, a
column of V, by the larger system of `extended`. For each x its equations, with the start x in place of the
last jump, have one solution z in boxes c_i +- r_i, if

    |M^-1 F(c)| + rho |(M^-1 V)_k| + |M^-1 (M - A)| r < r        in each row k,

where A contains the derivatives in the boxes (Krawczyk 1969). The solution is c + (M^-1 V) a + e, with |e|
bounded by the first and last term. So the return map P is defined on the ellipsoid, and smooth, and

    V^-1 DP(x) V_j = b_j + T_j a + e_j

with numbers b_j and T_j. T has the second derivatives of P. Nothing is wrapped into boxes from step to step,
and terms of first and second order may cancel over the period; only e_j is bounded by absolute values. The
mean of DP between the start x* of the orbit and x is that at their middle, up to e. So, if no other event
happens in the boxes, and

    kappa = |b| + |T| (rho + d) / 2 + |e| < 1,        kappa (rho + d) + d <= rho,        d = |V^-1 (x* - c)|,

then P maps the ellipsoid into itself, and each return brings a start nearer to x* by the factor kappa, in the
norm |V^-1 .|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...compiler import NotProved, exactly, middle
from .blocks import ROUNDED, BlockElimination
from .certificate import Certificate, Checkable
from .equations import ProofError
from .events import refuse_other_events
from .extended import ExtendedEquations, changes_along
from .multipliers import return_map_slope
from .system import Enclosed, StepEquations, SteppedOrbit, SteppedPhase, around, upwards

Array = Any
FORMAT_OF_BASINS = "liebody certificate 5"
SIZES = 10.0 ** -np.arange(0.0, 8.01, 0.1)  # that are tried
RATES = 0.25, 0.5  # how far the norm's contraction is from the modulus of the multipliers, towards 1
SHARE = 0.9  # of the boxes' radii that motions may fill: bounds of the checker are somewhat wider
TRIES = 16  # boxes around the nodes, for one size
MOST = 30.0  # times the linear motion of the starts: boxes that are larger are given up
OF_CHECKER = 600  # unknowns that it does not condense, in liebody_check.basins
CONTRACTION = 0.95  # that leaves the checker a margin


@dataclass(frozen=True, eq=False)
class ProvedBasin(Checkable):
    """A set of starts from which every motion converges to a proved orbit.

    certificate  the orbit
    axes         V (N, k): the starts are c + V a with |a| <= radius; c is the first node of `data`. The
                 shortest semi-axis of V is 1, so that all states of the section within `radius` of c are
                 among them
    radius       rho
    contraction  an upper bound of kappa: each return brings a start nearer to the orbit's by this factor, in
                 the norm |V^-1 .|
    data         the content of the certificate's file, with axes, radius and boxes around the nodes

    Starts lie on the section: in the plane of the first node for an orbit without events. For others they are
    states behind the last jump, where guards that are zero again there are zero. The bounds are the prover's;
    `check` and `theorem` run the checker.
    """

    certificate: Certificate
    axes: Array
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

    orbits  of the larger system, one for each column of the axes; reach: boxes around their nodes
    """

    axes: Array
    radius: float
    contraction: float
    orbits: list[SteppedOrbit]
    reach: list[Array]


def largest_basin(problem: StepEquations, tight: Enclosed, radius: float | None) -> EllipsoidOfStarts:
    """The largest ellipsoid for which the proof succeeds, or the ellipsoid of a radius."""
    P = middle(return_map_slope(problem, tight))
    if not len(P):
        raise ProofError("the section is a single point: there are no other starts")
    modulus = np.abs(np.linalg.eigvals(P)).max()
    if not modulus < 1:
        raise ProofError(f"the orbit is not stable: a multiplier has the modulus {modulus:.4g}")
    extended = StepEquations(ExtendedEquations(problem.equations).equations(), problem.order)
    best: EllipsoidOfStarts | None = None
    for rate in RATES:
        starts = _Ellipsoids(problem, extended, tight, _axes(P, modulus + (1 - modulus) * rate))
        sizes = SIZES if radius is None else np.array([radius])
        # by bisection, between sizes that failed and one that succeeded
        first, last = 0, len(sizes) if best is None else int(np.sum(sizes > best.radius))
        while first < last:
            k = (first + last) // 2
            found = starts.basin(float(sizes[k]))
            if found is None:
                first = k + 1
            else:
                best, last = found, k
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


class _Ellipsoids:
    """Ellipsoids of starts with given axes around the first node of an orbit."""

    def __init__(self, problem: StepEquations, extended: StepEquations, tight: Enclosed, axes: Array) -> None:
        self.problem = extended
        N = problem.equations.phases[0].size
        j = problem.equations.phases[-1].coordinate
        self.kept = [k for k in range(N) if k != j]
        self.axes = np.zeros((N, len(self.kept)))
        self.axes[self.kept] = axes
        self.inverse = _inverse(axes)
        orbit = tight.orbit
        changes, _ = changes_along(problem, orbit, self.axes)
        self.columns = []
        for k in range(len(self.kept)):
            phases = [
                SteppedPhase(np.concatenate([steps.x, w[..., k]], axis=-1), steps.w, steps.s)
                for steps, w in zip(orbit.phases, changes, strict=True)
            ]
            together = SteppedOrbit(phases, orbit.shift, orbit.coordinates)
            self.columns.append(_Column(extended, together, self.axes))
        # how far the orbit's start is from the first node, in the norm
        library = problem.library
        start, centre = tight.phases[0][0][0][self.kept], orbit.phases[0].x[0][self.kept]
        apart = library.product(self.inverse, library.combine("sub", start, exactly(centre))[:, None])
        self.apart = float(np.linalg.norm(apart.max(axis=-1)) * ROUNDED)

    def basin(self, radius: float) -> EllipsoidOfStarts | None:
        """The ellipsoid of a radius, if it is proved."""
        motions = []
        try:
            for column in self.columns:
                found = column.nodes(radius)
                if found is None:
                    return None
                motions.append(found)
            refuse_other_events(self.problem, motions[0][0])
            contraction = self._contraction(motions, radius)
        except (NotProved, ProofError):
            return None
        d = self.apart
        if not (contraction < CONTRACTION and (contraction * (radius + d) + d) * ROUNDED <= radius):
            return None
        orbits = [column.orbit for column in self.columns]
        return EllipsoidOfStarts(self.axes, radius, contraction, orbits, [x.radius for x, _ in motions])

    def _contraction(self, motions: list[tuple[Enclosed, Array]], radius: float) -> float:
        """An upper bound of kappa."""
        problem = self.problem
        library = problem.library
        last = problem.equations.phases[-1]
        N = len(self.axes)
        b, T, e = [], [], []
        for column, (boxes, error) in zip(self.columns, motions, strict=True):
            n = len(error)
            at = slice(n - 1 - last.size, n - 1)  # the last node, before its factor
            behind, _ = problem.jump(last, exactly(column.orbit.phases[-1].x[-1]))
            slope = problem.jump(last, boxes.phases[-1][0][-1])[1]
            b.append(library.product(self.inverse, behind[N:][self.kept][:, None])[:, 0])
            turned = library.product(self.inverse, slope[N:][self.kept])
            T.append(library.product(turned, exactly(column.moved[at])))
            e.append(np.abs(turned).max(axis=-1) @ error[at] * ROUNDED)
        sizes = [
            _norm(np.stack(b, axis=1)),
            _norm(np.concatenate(T, axis=1)) * (radius + self.apart) / 2,
            float(np.linalg.norm(np.stack(e, axis=1))),
        ]
        return sum(sizes) * ROUNDED


class _Column:
    """Motions of the larger system from an ellipsoid of starts, with one of its axes as the change w_0."""

    def __init__(self, problem: StepEquations, orbit: SteppedOrbit, axes: Array) -> None:
        self.problem = problem
        self.orbit = orbit
        N, k = axes.shape
        n = len(orbit.flat)
        linear = BlockElimination(problem.derivatives(orbit, exactly(orbit.flat)), from_start=True)
        self.linear = linear.as_checked(OF_CHECKER)
        right = np.zeros((n, k))
        right[n - 2 * N : n - N] = axes
        self.moved = self.linear.solve(right)
        self.rest = self.linear.left(exactly(right), self.moved).sum(axis=-1)
        self.missed = np.abs(problem.residual(orbit)).max(axis=-1)
        self.missed[n - 2 * N :] = 0.0  # the start is x itself
        self.rows = np.sqrt((self.moved**2).sum(axis=-1)) * ROUNDED

    def nodes(self, radius: float) -> tuple[Enclosed, Array] | None:
        """Boxes around the nodes that contain all motions from the ellipsoid, and bounds of |e|."""
        flat = self.orbit.flat
        least = radius * self.rows
        fixed = self.missed + radius * self.rest
        reach = 1.03 / SHARE * least + 1e-13 * (1 + np.abs(flat))
        for _ in range(TRIES):
            box = around(flat, reach)
            A = self.problem.derivatives(self.orbit, box)
            varied = self.linear.varied(A.away(self.linear.M), reach[:, None])[:, 0]
            error = self.linear.bound(((fixed + varied) * ROUNDED)[:, None])[:, 0]
            total = upwards(least + error)
            if (total < SHARE * reach).all():
                return Enclosed(self.orbit, reach, box, A), error
            larger = 1.03 * total / SHARE
            if (larger > MOST * (least + 1e-9)).any():
                return None
            reach = np.maximum(reach, larger)
        return None


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


def proved_basin(certificate: Certificate, found: EllipsoidOfStarts) -> ProvedBasin:
    """The result, with the content of the file."""
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
        "size": found.radius.hex(),
        "columns": columns,
    }
    return ProvedBasin(certificate, found.axes, found.radius, found.contraction, data)
