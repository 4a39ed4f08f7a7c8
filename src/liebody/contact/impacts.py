"""Impacts with restitution: the velocities after them, at one place, by impulses that take no time.

A point hits if it comes to the ground within the step, faster than its threshold; it leaves with e times its
normal velocity u-. All other points may not get further than the ground within the step. With u = J v,

    x_n >= 0,  u+ + c >= 0,  x_n (u+ + c) = 0,      c = e u-     for a point that hits
                                                    c = g / h    for others, with a gap g over the ground

and Coulomb's law with the slip after the impact, for all points at once. With c = 0 for points that hit, this
is an impact without restitution, which takes kinetic energy. Newton's law alone may give more energy than
there was before (Kane and Levinson 1985), because of friction, different e, or the limits g / h. Therefore
the impulses are

    x = x_0 + s (x_e - x_0),    s <= 1 the largest for which x . (u- + u+) <= 0

with x_0 for c = 0 and x_e for c as above: one factor reduces the e of all points. Without friction, and with
one e for all points that touch, s = 1 (Glocker 2014). Groups of bodies that no joint, loop or contact
connects have separate impacts, each with its factor s.

Glocker (2014), "Energetic consistency conditions for standard impacts, part II: Poisson-type inequality
impact laws", Multibody System Dynamics 32; Moreau (1988), "Unilateral contact and dry friction in finite
freedom dynamics"; decision 21.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compiler import repeated
from ..scalars import Array, maximum, minimum, sqrt, where
from ..scalars.linear import product
from .cones import TINY, Block, Cone, ConeSolver, gauss_seidel, reached
from .rows import Problem, Push

RIGID = 1e-12  # compliance of a point in an impact, as a fraction of its compliance in a step: two points
# that share a load have a unique solution
GIVES = 1e-9  # further compliance, as a fraction of the inverse inertia along the normal, likewise
SLIPS = 1e-3  # the same along the tangents: a sticking point keeps this fraction of its tangential velocity


class Bounce(NamedTuple):
    """Restitution of a point: whether it hits, whether it is faster than its threshold (1 or 0), and e."""

    hits: Any
    fast: Any
    e: Any


class ImpactRow(NamedTuple):
    """Rows of one law in an impact: w = J v+ + bias + R x, with the bias of an impact without restitution.

    starts  impulses without and with restitution from which the search starts, (2, m); None: zero
    bounce  None: rows that do not rebound
    """

    J: Array
    bias: Array
    R: Array
    law: Any
    starts: Array | None = None
    bounce: Bounce | None = None


class Impact(NamedTuple):
    """The effect of an impact on a robot.

    pushes    the push on each row
    both      impulses of each row without and with restitution, (2, m), from which a next search starts
    residual  the largest defect of a law; zero where nothing hits
    change    of v, (nv,)
    """

    pushes: list[Push]
    both: list[Array]
    residual: Any
    change: Array


def impact(factors: Any, v: Array, rows: Sequence[ImpactRow], sweeps: int, solver: ConeSolver) -> Impact:
    """The impact of a robot with velocities v; all impulses are zero if no row hits.

    factors  L and 1/d of M = L^T diag(d) L
    """
    none = np.zeros(len(v), int)
    problem = Problem.of(factors, v, none, rows)  # type: ignore[arg-type]
    blocks = [b._replace(R=_giving(b)) if isinstance(b.law, Cone) else b for b in problem.blocks]
    both_impulses = [np.zeros((2, len(row.bias)), int) for row in rows]
    x = [np.zeros(len(block.R), int) for block in blocks]
    y: Any = np.zeros(len(blocks[0].X) if blocks else 0, int)
    residual: Any = 0.0
    # Each group of connected blocks has its factor s, so that no impact reduces the restitution of another.
    for group in _apart(blocks):
        indices = [problem.others[k] for k in group]
        before = [problem.seen[i].before for i in indices]
        solved = _solved([blocks[k] for k in group], [rows[i] for i in indices], before, sweeps, solver)
        for k, i, impulse, both in zip(group, indices, solved.x, solved.both, strict=True):
            x[k] = impulse
            both_impulses[i] = both
        y = y + solved.y
        residual = maximum(residual, solved.residual)
    pushes, change = problem.pushed(factors, none, x, y)
    return Impact(pushes, both_impulses, residual, change)


def _apart(blocks: Sequence[Block]) -> list[list[int]]:
    """Groups of blocks whose impulses do not act on each other, because no joint connects their bodies."""
    groups: list[tuple[set[int], list[int]]] = []
    # Blocks that reach a common entry of y belong together: each block joins all groups that it touches.
    for k, block in enumerate(blocks):
        at = set(reached(block.X, block.Y))
        members = [k]
        joined = [group for group in groups if at & group[0]]
        for group in joined:
            at |= group[0]
            members += group[1]
        groups = [*(group for group in groups if group not in joined), (at, sorted(members))]
    return [members for _, members in groups]


class _Solution(NamedTuple):
    """The impact of a group of blocks.

    x         impulses of each block
    y         X x
    both      impulses of each block without and with restitution, (2, m)
    residual  the largest defect of a law
    """

    x: list[Array]
    y: Array
    both: list[Array]
    residual: Any


def _solved(
    blocks: list[Block], rows: Sequence[ImpactRow], before: Sequence[Array], sweeps: int, solver: ConeSolver
) -> _Solution:
    """The impact of a group of blocks, by the laws of this module; impulses are zero if no block hits.

    before  J v of each block
    """
    bounces = [row.bounce.hits for row in rows if row.bounce is not None]
    if not bounces:
        none = [np.zeros(len(row.bias), int) for row in rows]
        return _Solution(none, np.zeros(len(blocks[0].X), int), [np.stack([x, x]) for x in none], 0.0)
    hits = functools.reduce(maximum, bounces) > 0
    at = [reached(block.Y) for block in blocks]
    starts = [_start(row, 0) for row in rows]
    # First solve: x_0, the impact without restitution.
    x_0, y_0, residual = gauss_seidel(blocks, starts, sweeps, solver)
    # Second solve: x_e, with restitution; b changes in the rows that rebound. It starts from x_0, or from the
    # impulses that the last search has found.
    second = list(blocks)
    starts = list(x_0)
    for k, (row, block) in enumerate(zip(rows, blocks, strict=True)):
        if row.bounce is not None:
            b, starts[k] = _rebounding(block.b, before[k], block.Y[at[k]], y_0[at[k]], row.bounce, x_0[k])
            second[k] = block._replace(b=b)
        if row.starts is not None:
            starts[k] = _start(row, 1)
    x_e, y_e, rest = gauss_seidel(second, starts, sweeps, solver)

    # The work of x_0 + s (x_e - x_0) is a parabola in s; s is the largest for which the work is not positive.
    works = [
        _works(u, block.Y[i], x, x_more, y_0[i], y_e[i])
        for u, block, i, x, x_more in zip(before, blocks, at, x_0, x_e, strict=True)
    ]
    works_0, works_1, works_2, given_0, given_1 = (sum(terms) for terms in zip(*works, strict=True))
    share = _most(works_0, works_1, works_2)
    # Sweeps end before the laws hold exactly, so that work may remain above zero; then all impulses shrink.
    work = works_0 + share * (works_1 + share * works_2)
    kept = where(hits, _trimmed(work, given_0 + share * given_1), 0.0)
    x = [kept * (x + share * (x_more - x)) for x, x_more in zip(x_0, x_e, strict=True)]
    y = kept * (y_0 + share * (y_e - y_0))
    both = [np.stack(pair) for pair in zip(x_0, x_e, strict=True)]
    return _Solution(x, y, both, where(hits, maximum(residual, rest), 0.0))


@repeated
def _giving(block: Block) -> Array:
    """The compliance of a point in an impact."""
    A = block.diagonal()
    more = [share * A[i, i] for i, share in enumerate((GIVES, SLIPS, SLIPS))]
    return block.R + np.array(more)


def _start(row: ImpactRow, which: int) -> Array:
    return np.zeros(len(row.bias)) if row.starts is None else row.starts[which]


@repeated
def _rebounding(b: Array, before: Array, Y: Array, y: Array, bounce: Bounce, x: Array) -> tuple[Array, Array]:
    """b of w = A x + b with restitution, from the impact without it, and impulses to start from.

    A fast point also hits if it would not come to the ground by itself, but is driven there because the other
    points rebound.
    """
    driven = (b + (1 + bounce.e) * product(Y.T, y))[0] <= 0
    rebounds = (bounce.hits > 0) | ((bounce.fast > 0) & driven)
    normal = where(rebounds, (1 + bounce.e) * before[0], b[0])
    start = where(rebounds, 1 + bounce.e, 1.0) * x[0]
    return np.array([normal, *b[1:]]), np.array([start, *x[1:]])


@repeated
def _works(before: Array, Y: Array, x_0: Array, x: Array, y_0: Array, y: Array) -> tuple[Any, ...]:
    """Twice the work of impulses x_0 + s (x - x_0) on a row: its coefficients of 1, s, s^2.

    They are followed by the coefficients of 1, s of x . u-.
    """
    added = x - x_0
    speed = 2 * before + product(Y.T, y_0)
    more = product(Y.T, y - y_0)
    return x_0 @ speed, added @ speed + x_0 @ more, added @ more, x_0 @ before, added @ before


def _most(a: Any, b: Any, c: Any) -> Any:
    """The largest s <= 1 with a + b s + c s^2 <= max(a, 0), where c >= 0."""
    spare = maximum(-a, 0.0)
    square = b * b + 4 * c * spare
    root = (sqrt(where(square > 0, square, TINY)) - b) / where(c > 0, 2 * c, 1.0)
    return where(b + c > spare, minimum(root, 1.0), 1.0)


def _trimmed(work: Any, given: Any) -> Any:
    """The largest share t <= 1 of impulses x without work: t given + t^2 x . A x / 2 <= 0, given = x . u-.

    work  twice the work of x. It is above zero by rounding, or because sweeps have not converged.
    """
    gains = work > 0
    size = where(gains, work - 2 * given, 1.0)  # x . A x
    return where(gains, where(given < 0, -2 * given / where(size > 0, size, 1.0), 0.0), 1.0)


REPEATED = (_giving, _rebounding, _works)
"""Functions that are repeated for each row."""
