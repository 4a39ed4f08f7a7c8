"""Basins: a set of starts around a stable orbit from which every motion is proved to converge to it.

The starts x = c + V a, |a| <= rho (Euclid), are an ellipsoid around the first node c, in the section
y_j = c_j of an orbit without events. For each x the equations of `system`, with x_0 = x in place of the last
jump, have one solution in boxes c_i +- r_i, if

    |M^-1 F(c)| + rho |(M^-1 V)_k| + |M^-1 (M - A)| r < r        in each row k,

where A contains the derivatives in the boxes (Krawczyk 1969). Images of the ellipsoid are bounded by the
linear motion M^-1 V, in which nothing is wrapped into boxes from step to step. So the return map P is defined
on the ellipsoid, and smooth. If no other event happens in the boxes, and in the norm |V^-1 .|

    |V^-1 DP V| <= kappa < 1,        kappa (rho + d) + d <= rho,        d = |V^-1 (x* - c)|,

with the start x* of the orbit, then P maps the ellipsoid into itself and contracts it to x*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...compiler import NotProved, exactly, middle
from .blocks import ROUNDED, TINY, BlockElimination
from .blocks import TRIES as TRIES_OF_BOUNDS
from .certificate import Certificate, Checkable
from .equations import ProofError
from .events import refuse_other_events
from .multipliers import return_map_slope
from .system import MARGIN, Enclosed, StepEquations, around, upwards

Array = Any
FORMAT_OF_BASINS = "liebody certificate 5"
SIZES = 10.0 ** -np.arange(0.0, 8.1, 0.25)  # semi-axes that are tried
RATES = (
    0.6,
    0.4,
    0.8,
    0.2,
)  # how far the norm's contraction is from the modulus of the multipliers, towards 1
TRIES = 10  # boxes around the nodes, for one size
CONTRACTION = 0.95  # that leaves the checker a margin


@dataclass(frozen=True, eq=False)
class ProvedBasin(Checkable):
    """A set of starts from which every motion converges to a proved orbit.

    certificate  the orbit
    axes         V (N, k): the starts are c + V a with |a| <= radius; c is the first node of `data`. The
                 shortest semi-axis of V is 1, so that all states of the section within `radius` of c are
                 among them
    radius       rho
    contraction  an upper bound of |V^-1 DP V|: each return brings a start nearer by this factor, in this norm
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
class _Basin:
    """An ellipsoid of starts that is proved."""

    axes: Array
    radius: float
    reach: Array
    contraction: float


def largest_basin(problem: StepEquations, tight: Enclosed, radius: float | None) -> _Basin:
    """The largest ellipsoid for which the proof succeeds; or that of a radius."""
    P = middle(return_map_slope(problem, tight))
    if not len(P):
        raise ProofError("the section is a single point: there are no other starts")
    modulus = np.abs(np.linalg.eigvals(P)).max()
    if not modulus < 1:
        raise ProofError(f"the orbit is not stable: a multiplier has the modulus {modulus:.4g}")
    best: _Basin | None = None
    for rate in RATES:
        starts = _Starts(problem, tight, _axes(P, modulus + (1 - modulus) * rate))
        for size in SIZES if radius is None else [radius]:
            if best is not None and size <= best.radius:
                break
            found = starts.basin(float(size))
            if found is not None:
                best = found
                break
    if best is None:
        raise ProofError(
            f"no basin with a radius of {SIZES[-1] if radius is None else radius:.1e} is proved: the return "
            "map is not seen to contract there, or another event is not excluded"
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


class _Starts:
    """Ellipsoids of starts with given axes around the first node of an orbit."""

    def __init__(self, problem: StepEquations, tight: Enclosed, axes: Array) -> None:
        self.problem = problem
        self.tight = tight
        N = problem.equations.phases[0].size
        j = problem.equations.phases[-1].coordinate
        self.kept = [k for k in range(N) if k != j]
        self.axes = np.zeros((N, len(self.kept)))
        self.axes[self.kept] = axes
        orbit = tight.orbit
        n = len(orbit.flat)
        A = problem.derivatives(orbit, exactly(orbit.flat))
        self.linear = BlockElimination(A, from_start=True)
        self.right = np.zeros((n, len(self.kept)))
        self.right[n - N :] = self.axes
        self.moved = self.linear.solve(self.right)
        self.rest = self.linear.left(exactly(self.right), self.moved)
        F = problem.residual(orbit)
        self.missed = np.maximum(np.abs(F[:, 0]), np.abs(F[:, 1]))
        self.missed[n - N :] = 0.0
        self.rows = np.sqrt((self.moved**2).sum(axis=-1)) * ROUNDED
        # V^-1 = (1 - E)^-1 W with E = 1 - W V, and |(1 - E)^-1 x - x| <= 2 |E| max |x| where |E| < 1/2
        V = self.axes[self.kept]
        W = np.linalg.inv(V)
        k = len(V)
        off = np.abs(np.eye(k) - W @ V) + (k + 3) * 2.0**-52 * (np.eye(k) + np.abs(W) @ np.abs(V))
        size = off.sum(axis=-1).max() * ROUNDED
        if not size < 0.5:
            raise ProofError("the axes of the basin are nearly dependent")
        away = 2 * size * np.abs(W).max(axis=0) * np.ones((k, 1))
        self.inverse = upwards(np.stack([away - W, away + W], axis=-1))

    def basin(self, radius: float) -> _Basin | None:
        """The ellipsoid of a radius, if it is proved."""
        try:
            found = self._nodes(radius)
            if found is None:
                return None
            refuse_other_events(self.problem, found)
            contraction = self._contraction(found)
        except (NotProved, ProofError):
            return None
        start = self.tight.phases[0][0][0][self.kept]
        centre = self.tight.orbit.phases[0].x[0][self.kept]
        library = self.problem.library
        apart = library.product(self.inverse, library.combine("sub", start, exactly(centre))[:, None])
        d = np.linalg.norm(apart.max(axis=-1)) * ROUNDED
        if not (contraction < CONTRACTION and (contraction * (radius + d) + d) * ROUNDED <= radius):
            return None
        return _Basin(self.axes, radius, found.radius, contraction)

    def _nodes(self, radius: float) -> Enclosed | None:
        """Boxes around the nodes that contain those of all motions from the ellipsoid."""
        orbit, problem = self.tight.orbit, self.problem
        flat = orbit.flat
        least = radius * self.rows
        fixed = self.missed + radius * self.rest.sum(axis=-1)
        reach = 1.1 * least + 1e-15 * np.abs(flat) + 1e-16
        for _ in range(TRIES):
            box = around(flat, reach)
            A = problem.derivatives(orbit, box)
            varied = self.linear.varied(A.away(self.linear.M), reach[:, None])[:, 0]
            total = upwards(least + self.linear.bound(((fixed + varied) * ROUNDED)[:, None])[:, 0])
            if (total < MARGIN * reach).all():
                return Enclosed(orbit, reach, box, A)
            larger = 1.1 * total / MARGIN
            if (larger > 1e3 * (least + 1e-12)).any():
                return None
            reach = np.maximum(reach, larger)
        return None

    def _contraction(self, found: Enclosed) -> float:
        """An upper bound of |V^-1 DP V| on the ellipsoid."""
        problem = self.problem
        library = problem.library
        away = found.A.away(self.linear.M)
        # the error E of the derivatives X by the start: M E = (B - M X) - (A - M) (X + E)
        rest = (self.rest + self.linear.varied(away, np.abs(self.moved))) * ROUNDED
        error = self.linear.bound(rest)
        for _ in range(TRIES_OF_BOUNDS):
            tried = 1.5 * error + TINY
            error = self.linear.bound((rest + self.linear.varied(away, tried)) * ROUNDED)
            if (error < tried).all():
                break
        else:
            raise ProofError("derivatives vary too much in the boxes of the basin")
        last = problem.equations.phases[-1]
        n = len(found.radius)
        at = slice(n - 1 - last.size, n - 1)
        ends = upwards(np.stack([error[at] - self.moved[at], error[at] + self.moved[at]], axis=-1))
        boxes, _ = found.phases[-1]
        slope = problem.jump(last, boxes[-1])[1]
        P = library.product(slope, ends)[self.kept]
        B = library.product(self.inverse, P)
        centre = middle(B)
        spread = upwards(np.maximum(B[..., 0] + centre, B[..., 1] - centre))
        # of |B_0|: the largest singular value of doubles is known to a few units of rounding
        return float((np.linalg.norm(centre, 2) * (1 + 1e-12) + np.linalg.norm(spread)) * ROUNDED)


def proved_basin(certificate: Certificate, found: _Basin) -> ProvedBasin:
    """The result, with the content of the file."""
    data = dict(certificate.data)
    data |= {
        "format": FORMAT_OF_BASINS,
        "basin": {
            "axes": [[x.hex() for x in row] for row in found.axes.tolist()],
            "radius": found.radius.hex(),
            "reach": [x.hex() for x in found.reach.tolist()],
        },
    }
    return ProvedBasin(certificate, found.axes, found.radius, found.contraction, data)
