"""An evolution strategy over a box, for one objective or several: it compares designs, and needs no slopes.

Each parent x has its own normal distribution of steps, N(0, s^2 C), and begets children x + step. C learns
from steps that led to a better design, s from how often steps do:

    p <- (1 - c_p) p + c_p (share of better children),    s <- s exp((p - p_0) / (d (1 - p_0)))
    C <- (1 - c) C + c w w^T,    w a fading sum of successful steps over s

From parents and children together the first ones of an order survive (`order`), so that the best design is
never lost: one for one objective, which is the (1+lambda)-CMA-ES, and many that are spread along the Pareto
front for several, which is the MO-CMA-ES. Steps beyond limits make C narrower across these limits. They do
not count as failures, which would make all steps short while the best design lies on a limit.

Igel, Hansen, Roth (2007), Covariance matrix adaptation for multi-objective optimization, Evolutionary
Computation 15(1), with the crowding distance of Deb, Pratap, Agarwal, Meyarivan (2002), A fast and elitist
multiobjective genetic algorithm: NSGA-II, and the order of designs beyond limits of Deb (2000). For limits:
Arnold, Hansen (2012), A (1+1)-CMA-ES for constrained optimisation, GECCO.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = Any
FLATTEST = 1e-14  # least eigenvalue of C over the largest one
FREQUENT = 0.44  # share of better children beyond which steps only have to grow


@dataclass(frozen=True, eq=False)
class Mutation:
    """The distribution of steps from a design in the unit box, N(0, size^2 C).

    shape    C (n, n)
    path     fading sum of successful steps over their size, (n,)
    success  the share of better children, as a fading mean
    refused  of each limit, the fading mean (n,) of steps over their size that led beyond it
    """

    size: float
    shape: Array
    path: Array
    success: float = 0.15
    refused: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def round(cls, n: int, size: float) -> Mutation:
        """Steps that are alike in all directions."""
        return cls(size, np.eye(n), np.zeros(n))

    def as_lists(self) -> dict[str, Any]:
        """The fields as numbers and lists, for a file."""
        refused = {name: x.tolist() for name, x in self.refused.items()}
        arrays = {"shape": self.shape.tolist(), "path": self.path.tolist(), "refused": refused}
        return {"size": self.size, "success": self.success, **arrays}

    @classmethod
    def of_lists(cls, fields: Mapping[str, Any]) -> Mutation:
        """The steps whose `as_lists` these are."""
        refused = {name: np.array(x) for name, x in fields["refused"].items()}
        arrays = {name: np.array(fields[name]) for name in ("shape", "path")}
        return cls(fields["size"], success=fields["success"], refused=refused, **arrays)

    def child(self, x: Array, rng: np.random.Generator) -> Array:
        """A design beside x (n,), within the box."""
        return np.clip(x + self.size * _root(self.shape) @ rng.normal(size=len(x)), 0.0, 1.0)

    def judged(self, share: float, children: int) -> Mutation:
        """The steps after such a share of so many children was better.

        Their size stays where the share is p_0: 2/11 for one child, less for many.
        """
        wanted = 1 / (5 + np.sqrt(children) / 2)
        following = wanted * children / (2 + wanted * children)  # c_p
        damping = 1 + len(self.path) / (2 * children)
        success = (1 - following) * self.success + following * share
        size = self.size * float(np.exp((success - wanted) / (damping * (1 - wanted))))
        return replace(self, success=success, size=size)

    def learnt(self, step: Array) -> Mutation:
        """The steps of a child to which a step (n,) of the parent's size led.

        Frequent success says that steps are too short, and nothing about their direction.
        """
        n = len(step)
        fading = 2 / (n + 2)
        learning = 2 / (n**2 + 6)
        path = (1 - fading) * self.path
        missing = fading * (2 - fading)
        if self.success < FREQUENT:
            path = path + np.sqrt(missing) * step
            missing = 0.0
        shape = (1 - learning) * self.shape + learning * (np.outer(path, path) + missing * self.shape)
        return replace(self, path=path, shape=shape)

    def narrowed(self, step: Array, limits: Collection[str]) -> Mutation:
        """The steps after one (n,), over their size, led from a feasible design beyond some limits.

        Steps become shorter across these limits, and not along them: A <- A - b v w^T / (w^T w) with
        C = A A^T, the mean v of such steps and w = A^-1 v.
        """
        n = len(step)
        fading = 1 / (n + 2)
        A = _root(self.shape)
        refused = dict(self.refused)
        change = np.zeros_like(A)
        for name in limits:
            v = (1 - fading) * refused.get(name, np.zeros(n)) + fading * step
            refused[name] = v
            w = np.linalg.solve(A, v)
            if w @ w > 0:
                change += np.outer(v, w) / (w @ w)
        A = A - 0.1 / (n + 2) / max(1, len(limits)) * change
        return replace(self, shape=A @ A.T, refused=refused)


def _root(C: Array) -> Array:
    """The symmetric A with A A = C; directions into which steps hardly go any more keep a share."""
    values, V = np.linalg.eigh(C)
    return V * np.sqrt(np.maximum(values, FLATTEST * values[-1])) @ V.T


def order(objectives: Array, beyond: Array) -> Array:
    """Designs from the best to the worst, (n,): their indices.

    objectives  (n, m), the smaller the better; not finite: the design failed
    beyond      by how much limits are exceeded, (n,); zero: all are kept

    1. Designs within the limits: one Pareto front after the other; on a front those first that are alone.
    2. Designs beyond limits, by how far. 3. Designs that failed. Equal ones keep their order.
    """
    objectives = np.asarray(objectives, float)
    beyond = np.asarray(beyond, float)
    works = np.isfinite(objectives).all(axis=1) & np.isfinite(beyond)
    within = np.flatnonzero(works & (beyond <= 0))
    outside = np.flatnonzero(works & (beyond > 0))
    ordered: list[int] = []
    for front in fronts(objectives[within]):
        chosen = within[front]
        ordered += chosen[np.argsort(-loneliness(objectives[chosen]), kind="stable")].tolist()
    ordered += outside[np.argsort(beyond[outside], kind="stable")].tolist()
    return np.array([*ordered, *np.flatnonzero(~works)], int)


def fronts(objectives: Array) -> list[Array]:
    """Indices of the Pareto front of points (n, m), of the front of the others, and so on."""
    left = np.arange(len(objectives))
    found = []
    while len(left):
        points = objectives[left]
        # a point is dominated by one that is nowhere worse and somewhere better
        nowhere_worse = (points[:, None] <= points[None]).all(axis=2)
        somewhere_better = (points[:, None] < points[None]).any(axis=2)
        dominated = (nowhere_worse & somewhere_better).any(axis=0)
        found.append(left[~dominated])
        left = left[dominated]
    return found


def loneliness(objectives: Array) -> Array:
    """The crowding distance (n,) of points (n, m) of one front: how far apart the neighbours of each are.

    The ends of the front are infinitely lonely. Of one objective all points of a front are equal.
    """
    n, m = objectives.shape
    lonely = np.zeros(n)
    if m == 1:
        return lonely
    for values in objectives.T:
        along = np.argsort(values, kind="stable")
        width = values[along[-1]] - values[along[0]]
        lonely[along[[0, -1]]] = np.inf
        if n > 2 and width > 0:
            lonely[along[1:-1]] += (values[along[2:]] - values[along[:-2]]) / width
    return lonely
