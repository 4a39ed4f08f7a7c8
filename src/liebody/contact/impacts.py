"""Impacts with restitution: the velocities after them, at one place, by impulses that take no time.

Points hit that come to the ground within the step, faster than their threshold; they leave with e times
their normal velocity u-. All others may not get further than the ground within the step. With u = J v,

    x_n >= 0,  u+ + c >= 0,  x_n (u+ + c) = 0,      c = e u-     of a point that hits
                                                    c = g / h    of others, a gap g over the ground

and Coulomb's law with the slip after the impact, for all points at once. With c = 0 of points that hit, this
is an impact without restitution, which takes kinetic energy. Newton's law alone may ask for more energy than
there was (Kane and Levinson 1985): where friction, different e, or limits g / h make it. The impulses are

    x = x_0 + s (x_e - x_0),    s <= 1 the largest for which x . (u- + u+) <= 0

of x_0 with c = 0 and x_e as above: the e of all points is reduced by one factor. Without friction, and
with one e of all points that touch, s = 1 (Glocker 2014). Bodies that neither joints, loops nor contacts
between them join have impacts of their own, each with its own s.

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
from .cones import TINY, Block, Cone, gauss_seidel, reached
from .rows import Problem, Push

RIGID = 1e-12  # of its compliance that a point has in an impact, so that two that share a load are regular

GIVES = 1e-9  # likewise of the normal velocity
SLIPS = 1e-3  # of the velocity that friction takes from a point that sticks, it keeps


class Bounce(NamedTuple):
    """Whether a point hits, whether it comes faster than its threshold, 1 or 0 each, and its e."""

    hits: Any
    fast: Any
    e: Any


class ImpactRow(NamedTuple):
    """Rows of an impact that one law holds: w = J v+ + bias + R x. The bias is that without restitution.

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
    """What an impact does to a robot.

    pushes    on each row
    found     impulses of each row without and with restitution, (2, m), where a next search starts
    residual  the largest defect of a law; zero where nothing hits
    change    of v, (nv,)
    """

    pushes: list[Push]
    found: list[Array]
    residual: Any
    change: Array


def impact(factors: Any, v: Array, rows: Sequence[ImpactRow], sweeps: int, newton: int) -> Impact:
    """The impact of a robot with velocities v; nothing where no row hits.

    factors  L and 1/d of M = L^T diag(d) L
    """
    none = np.zeros(len(v), int)
    problem = Problem.of(factors, v, none, rows)  # type: ignore[arg-type]
    blocks = [b._replace(R=_giving(b)) if isinstance(b.law, Cone) else b for b in problem.blocks]
    found = [np.zeros((2, len(row.bias)), int) for row in rows]
    x = [np.zeros(len(block.R), int) for block in blocks]
    y: Any = np.zeros(len(blocks[0].X) if blocks else 0, int)
    residual: Any = 0.0
    for group in _apart(blocks):
        own = [problem.others[k] for k in group]
        before = [problem.seen[i].before for i in own]
        solved = _solved([blocks[k] for k in group], [rows[i] for i in own], before, sweeps, newton)
        for k, i, impulse, both in zip(group, own, solved.x, solved.found, strict=True):
            x[k], found[i] = impulse, both
        y, residual = y + solved.y, maximum(residual, solved.residual)
    pushes, change = problem.pushed(factors, none, x, y)
    return Impact(pushes, found, residual, change)


def _apart(blocks: Sequence[Block]) -> list[list[int]]:
    """Groups of blocks whose impulses do not act on each other: those of bodies that nothing joins."""
    groups: list[tuple[set[int], list[int]]] = []
    for k, block in enumerate(blocks):
        at, members = set(reached(block.X, block.Y)), [k]
        joined = [group for group in groups if at & group[0]]
        for group in joined:
            at |= group[0]
            members += group[1]
        groups = [*(group for group in groups if group not in joined), (at, sorted(members))]
    return [members for _, members in groups]


class _Solution(NamedTuple):
    """Impulses x of a group of blocks, y = X x, those without and with restitution, the largest defect."""

    x: list[Array]
    y: Array
    found: list[Array]
    residual: Any


def _solved(
    blocks: list[Block], rows: Sequence[ImpactRow], before: Sequence[Array], sweeps: int, newton: int
) -> _Solution:
    """The impact of a group of blocks, as the head of this module says; nothing where none of them hits.

    before  J v of each block
    """
    bounces = [row.bounce.hits for row in rows if row.bounce is not None]
    if not bounces:
        none = [np.zeros(len(row.bias), int) for row in rows]
        return _Solution(none, np.zeros(len(blocks[0].X), int), [np.stack([x, x]) for x in none], 0.0)
    hits = functools.reduce(maximum, bounces) > 0
    at = [reached(block.Y) for block in blocks]
    starts = [_start(row, 0) for row in rows]
    x_0, y_0, residual = gauss_seidel(blocks, starts, sweeps, newton)
    second, starts = list(blocks), list(x_0)
    for k, (row, block) in enumerate(zip(rows, blocks, strict=True)):
        if row.bounce is not None:
            b, starts[k] = _rebounding(block.b, before[k], block.Y[at[k]], y_0[at[k]], row.bounce, x_0[k])
            second[k] = block._replace(b=b)
        if row.starts is not None:
            starts[k] = _start(row, 1)
    x_e, y_e, rest = gauss_seidel(second, starts, sweeps, newton)

    works = [
        _works(u, block.Y[i], x, x_more, y_0[i], y_e[i])
        for u, block, i, x, x_more in zip(before, blocks, at, x_0, x_e, strict=True)
    ]
    works_0, works_1, works_2, given_0, given_1 = (sum(terms) for terms in zip(*works, strict=True))
    share = _most(works_0, works_1, works_2)
    work = works_0 + share * (works_1 + share * works_2)
    kept = where(hits, _trimmed(work, given_0 + share * given_1), 0.0)
    x = [kept * (x + share * (x_more - x)) for x, x_more in zip(x_0, x_e, strict=True)]
    y = kept * (y_0 + share * (y_e - y_0))
    found = [np.stack(both) for both in zip(x_0, x_e, strict=True)]
    return _Solution(x, y, found, where(hits, maximum(residual, rest), 0.0))


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
    """b of w = A x + b with restitution, out of the impact without it, and impulses to start from.

    A fast point that does not hit by itself, but would be driven to the ground as the others rebound, is
    one of those that hit.
    """
    driven = (b + (1 + bounce.e) * product(Y.T, y))[0] <= 0
    rebounds = (bounce.hits > 0) | ((bounce.fast > 0) & driven)
    normal = where(rebounds, (1 + bounce.e) * before[0], b[0])
    start = where(rebounds, 1 + bounce.e, 1.0) * x[0]
    return np.array([normal, *b[1:]]), np.array([start, *x[1:]])


@repeated
def _works(before: Array, Y: Array, x_0: Array, x: Array, y_0: Array, y: Array) -> tuple[Any, ...]:
    """Twice the work of impulses x_0 + s (x - x_0) on a row, by its coefficients of 1, s, s^2.

    Then x . u- by its coefficients of 1, s.
    """
    added, speed, more = x - x_0, 2 * before + product(Y.T, y_0), product(Y.T, y - y_0)
    return x_0 @ speed, added @ speed + x_0 @ more, added @ more, x_0 @ before, added @ before


def _most(a: Any, b: Any, c: Any) -> Any:
    """The largest s <= 1 with a + b s + c s^2 <= max(a, 0), where c >= 0."""
    spare = maximum(-a, 0.0)
    square = b * b + 4 * c * spare
    root = (sqrt(where(square > 0, square, TINY)) - b) / where(c > 0, 2 * c, 1.0)
    return where(b + c > spare, minimum(root, 1.0), 1.0)


def _trimmed(work: Any, given: Any) -> Any:
    """The share t <= 1 of impulses x that costs no work, t given + t^2 x . A x / 2 <= 0, given = x . u-.

    work  twice that of all of x. It is above zero by rounding, or where sweeps have not converged.
    """
    gains = work > 0
    size = where(gains, work - 2 * given, 1.0)  # x . A x
    return where(gains, where(given < 0, -2 * given / where(size > 0, size, 1.0), 0.0), 1.0)


STEPS = (_giving, _rebounding, _works)
"""What is done to each row."""
