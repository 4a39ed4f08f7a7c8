"""Sparse factors of A = J M^-1 J^T: a block for each constraint, in an order that is fixed beforehand.

Blocks k and l of A are coupled where two constraints act on the same body. The order is that of least degree
(Tinney and Walker 1967), which for trees of bodies creates no new blocks: then the cost is linear in the
number of bodies. Eliminating block k means, for those l, l' that are coupled to it,

    U_kl = A_kk^-1 A_kl,    A_ll' <- A_ll' - A_lk U_kl',    b_l <- b_l - U_kl^T b_k,

and afterwards, backwards,  x_k = A_kk^-1 b_k - sum_l U_kl x_l.  Eliminations that look the same stand in one
pass, so that the code is as long as their variety, not their number.

Where constraints are redundant, A is singular. With D = diag(A) the iteration

    (A + eps D) x <- b + eps D x,    x = 0 at first

(the proximal point method; Rockafellar 1976) converges to the solution of least norm in the metric D, where
there is one, with the ratio eps per step on all that is not redundant.

A pivot of A over its diagonal entry, d_k/D_k, is the squared sine of the angle between row k of J and those
that were eliminated before, in the metric of M^-1: it tells how close equations are to dependence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..linear import back_substitute, factor, symmetric
from ..scalar import absolute, maximum, where
from .passes import Cells, Memory

Array = Any
PROXIMAL = 1e-8  # eps
REFINEMENTS = 3  # iterations: what is left of an error is PROXIMAL^3 / (scaled eigenvalue)^3
SINGULAR = 1e-13  # of a diagonal entry of A, below which a pivot counts as zero


class Factors(NamedTuple):
    """What `Elimination.factor` leaves behind: cells, per block."""

    scale: list[Cells]  # D of block k, (m,)
    lower: list[Cells]  # L, 1/d of A_kk = L^T d L, packed
    U: dict[tuple[int, int], Cells]
    worst: Cells  # the largest D_k/d_k, (1,); (0,) where nobody asked


class Regularization(NamedTuple):
    """How A is made regular: A + shift D is factored.

    redundant  whether A may be singular: solutions are then refined by the proximal iteration; if not, a
               pivot below round-off makes the results NaN
    shift      eps
    surplus    for each block, which rows (m,) depend on others everywhere, so that their pivots say nothing;
               None where pivots are not asked for
    """

    redundant: bool
    shift: float
    surplus: Sequence[np.ndarray] | None = None

    @classmethod
    def plain(cls, redundant: bool) -> Regularization:
        """None where A is regular; pivots are not asked for."""
        return cls(redundant, PROXIMAL if redundant else 0.0)


class Elimination:
    """The order of elimination for blocks of `sizes`, coupled by `pairs` of them."""

    def __init__(self, sizes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
        self.sizes, self.pairs = list(sizes), sorted({(max(p), min(p)) for p in pairs})
        neighbours: list[set[int]] = [set() for _ in sizes]
        for k, l in self.pairs:
            neighbours[k].add(l)
            neighbours[l].add(k)
        remaining = set(range(len(sizes)))
        self.later: list[tuple[int, ...]] = [()] * len(sizes)  # coupled blocks that are eliminated after
        order = []
        degree = [sum(sizes[l] for l in n) for n in neighbours]
        queue: dict[int, set[int]] = {}
        for k, d in enumerate(degree):
            queue.setdefault(d, set()).add(k)
        while remaining:
            least = min(d for d, members in queue.items() if members)
            k = max(queue[least])  # among equals the last one: along a chain, from its end to its root
            queue[least].discard(k)
            remaining.discard(k)
            order.append(k)
            self.later[k] = tuple(sorted(neighbours[k]))
            for l in neighbours[k]:
                queue[degree[l]].discard(l)
                neighbours[l].discard(k)
                neighbours[l] |= neighbours[k] - {l}
                degree[l] = sum(sizes[m] for m in neighbours[l])
                queue.setdefault(degree[l], set()).add(l)
            neighbours[k] = set()
        self.order = order

    @cached_property
    def runs(self) -> list[list[int]]:
        """The blocks in an order as good as `order`, cut where one elimination looks unlike the next."""
        waiting = [0] * len(self.sizes)
        for k in self.order:
            for l in self.later[k]:
                waiting[l] += 1
        place = {k: i for i, k in enumerate(self.order)}
        ready = [k for k in self.order if not waiting[k]]
        runs: list[list[int]] = []
        while ready:
            kinds: dict[Any, int] = {}
            for k in ready:
                kinds[self._look(k)] = kinds.get(self._look(k), 0) + 1
            look, run = max(kinds, key=lambda x: kinds[x]), []
            pending = sorted((k for k in ready if self._look(k) == look), key=lambda k: -place[k])
            ready = [k for k in ready if self._look(k) != look]
            while pending:
                k = pending.pop()
                run.append(k)
                for l in self.later[k]:
                    waiting[l] -= 1
                    if not waiting[l]:
                        (pending if self._look(l) == look else ready).append(l)
            runs.append(run)
        return runs

    def _look(self, k: int) -> tuple[int, ...]:
        return (self.sizes[k], *(self.sizes[l] for l in self.later[k]))

    @cached_property
    def filled(self) -> list[tuple[int, int]]:
        """Pairs (l, k), l > k, whose block of A is zero at first and not after eliminations."""
        pairs = set(self.pairs)
        created = {(max(l, m), min(l, m)) for later in self.later for l in later for m in later if l != m}
        return sorted(created - pairs)

    def factor(
        self,
        memory: Memory,
        diagonal: Sequence[Cells],
        coupling: dict[tuple[int, int], Cells],
        regularization: Regularization,
    ) -> Factors:
        """Factors of A + shift D; A has blocks diagonal[k] (m_k, m_k), coupling[k, l] (m_k, m_l), k > l."""
        surplus = regularization.surplus
        sizes = self.sizes
        blocks = dict(coupling)
        first: list[Cells] = [None] * len(sizes)  # type: ignore[list-item]
        for run in _by(sizes, range(len(sizes))):
            given = np.stack([diagonal[k] for k in run])
            entries = np.diagonal(given, axis1=1, axis2=2)
            for k, block, d in zip(run, given, entries, strict=True):
                blocks[k, k], first[k] = block, d
        changing = {(max(l, m), min(l, m)) for later in self.later for l in later for m in later}
        changing |= {(k, k) for k in range(len(sizes))}  # all diagonal blocks, so that they lie side by side
        for k, l in self.filled:
            blocks[k, l] = memory.variable(np.zeros((sizes[k], sizes[l])))
        alike: dict[Any, list[tuple[int, int]]] = {}
        for k, l in sorted(changing - set(self.filled)):
            alike.setdefault((sizes[k], sizes[l], k == l), []).append((k, l))
        for pairs in alike.values():
            given = np.stack([blocks[pair] for pair in pairs])
            for pair, cells in zip(pairs, _own(memory, given, pairs[0][0] == pairs[0][1]), strict=True):
                blocks[pair] = cells
        lower: list[Cells] = [None] * len(sizes)  # type: ignore[list-item]
        U: dict[tuple[int, int], Cells] = {}
        worst = np.zeros(0, int) if surplus is None else memory.variable(np.ones(1))
        for run in self.runs:
            m, *others = self._look(run[0])
            pairs = [(i, j) for i in range(len(others)) for j in range(i + 1)]
            own = np.stack([blocks[k, k] for k in run])
            across = [
                np.stack([_block(blocks, self.later[k][i], k) for k in run]) for i in range(len(others))
            ]
            rest = [np.stack([blocks[self.later[k][i], self.later[k][j]] for k in run]) for i, j in pairs]
            start = np.stack([first[k] for k in run])
            packed = memory.empty((len(run), m * (m + 1) // 2))
            solved = [memory.empty((len(run), m, n)) for n in others]
            memory.apply(
                _eliminate(m, len(others), regularization), own, start, *across, *rest,
                into=(packed, *solved, *rest),
            )  # fmt: skip
            if surplus is not None:
                asked = memory.put(np.stack([1.0 - surplus[k] for k in run]))
                total = np.broadcast_to(worst, (len(run), 1))
                memory.apply(_largest, packed[:, -m:], start, asked, total, into=(total,))
            for i, k in enumerate(run):
                lower[k] = packed[i]
                for j, l in enumerate(self.later[k]):
                    U[k, l] = solved[j][i]
        return Factors(first, lower, U, worst)

    def solve(
        self, memory: Memory, factors: Factors, right: Sequence[Cells], regularization: Regularization
    ) -> list[Cells]:
        """x of A x = b, b given by its blocks; by the proximal iteration where A may be singular."""
        if not regularization.redundant:
            return self._substitute(memory, factors, right)
        x: list[Cells] | None = None
        for _ in range(REFINEMENTS):
            b = right
            if x is not None:
                b = list(right)
                for run in _by(self.sizes, range(len(self.sizes))):
                    sums = memory.apply(
                        _with_last,
                        *(np.stack([source[k] for k in run]) for source in (right, factors.scale, x)),
                        memory.put(np.full(len(run), regularization.shift)),
                    )
                    for k, cells in zip(run, sums, strict=True):
                        b[k] = cells
            x = self._substitute(memory, factors, b)
        assert x is not None
        return x

    def _substitute(self, memory: Memory, factors: Factors, right: Sequence[Cells]) -> list[Cells]:
        b: list[Cells] = [None] * len(self.sizes)  # type: ignore[list-item]
        x: list[Cells] = [None] * len(self.sizes)  # type: ignore[list-item]
        for run in _by(self.sizes, range(len(self.sizes))):
            copied = memory.copy(np.stack([right[k] for k in run]))
            for k, cells in zip(run, copied, strict=True):
                b[k] = cells
        for run in self.runs:
            n = len(self.later[run[0]])
            if n:
                targets = [np.stack([b[self.later[k][i]] for k in run]) for i in range(n)]
                Us = [np.stack([factors.U[k, self.later[k][i]] for k in run]) for i in range(n)]
                memory.apply(_forward, np.stack([b[k] for k in run]), *Us, *targets, into=targets)
        for run in reversed(self.runs):
            run = run[::-1]
            m, n = self.sizes[run[0]], len(self.later[run[0]])
            solution = memory.empty((len(run), m))
            for i, k in enumerate(run):
                x[k] = solution[i]
            Us = [np.stack([factors.U[k, self.later[k][i]] for k in run]) for i in range(n)]
            known = [np.stack([x[self.later[k][i]] for k in run]) for i in range(n)]
            lower = np.stack([factors.lower[k] for k in run])
            memory.apply(_backward, lower, np.stack([b[k] for k in run]), *Us, *known, into=(solution,))
        return x


def _by(sizes: Sequence[int], blocks: Sequence[int]) -> list[list[int]]:
    """The blocks, those of equal size together."""
    runs: dict[int, list[int]] = {}
    for k in blocks:
        runs.setdefault(sizes[k], []).append(k)
    return list(runs.values())


def _block(blocks: dict[tuple[int, int], Cells], l: int, k: int) -> Cells:
    """Cells of A_lk, whichever of A_lk and A_kl is stored."""
    return blocks[l, k] if (l, k) in blocks else blocks[k, l].T


def _own(memory: Memory, blocks: Cells, symmetric: bool) -> Cells:
    """Copies of blocks (places, m, n) for passes to change; those of symmetric ones have mirrored cells."""
    if not symmetric:
        return memory.copy(blocks)
    i, j = np.tril_indices(blocks.shape[1])
    copies = np.empty_like(blocks)
    copies[:, i, j] = copies[:, j, i] = memory.copy(blocks[:, i, j])
    return copies


def _with_last(b: Array, d: Array, x: Array, shift: Any) -> Array:
    return b + shift * d * x


def _largest(reciprocals: Array, d: Array, asked: Array, before: Array) -> tuple[Array]:
    (largest,) = before
    for x in reciprocals * d * asked:
        largest = maximum(x, largest)
    return (np.array([largest]),)


def _eliminate(m: int, n: int, regularization: Regularization) -> Callable[..., Any]:
    """The pass that eliminates a block with n others coupled to it."""

    redundant, shift, _ = regularization

    def eliminate(own: Array, first: Array, *blocks: Array) -> tuple[Array, ...]:
        across, rest = blocks[:n], list(blocks[n:])
        L, reciprocals = factor(own, lambda k, d: d + shift * first[k])  # A + shift D
        if not redundant:
            reciprocals = [
                where(absolute(x * d) < 1 / SINGULAR, x, np.nan)
                for x, d in zip(reciprocals, first, strict=True)
            ]
        packed = np.array([x for row in L for x in row] + reciprocals)
        U = [back_substitute((L, reciprocals), A.T) for A in across]
        pairs = [(i, j) for i in range(n) for j in range(i + 1)]
        for p, (i, j) in enumerate(pairs):
            if i == j:
                rest[p] = _less_product(rest[p], across[i], U[i])
            else:
                rest[p] = rest[p] - across[i] @ U[j]
        return packed, *U, *rest

    return eliminate


def _less_product(A: Array, B: Array, C: Array) -> Array:
    """A - B C, known to be symmetric."""
    return symmetric(len(A), lambda i, j: A[i, j] - B[i] @ C[:, j])


def _forward(b: Array, *blocks: Array) -> tuple[Array, ...]:
    n = len(blocks) // 2
    return tuple(target - U.T @ b for U, target in zip(blocks[:n], blocks[n:], strict=True))


def _backward(packed: Array, b: Array, *blocks: Array) -> tuple[Array]:
    m, n = len(b), len(blocks) // 2
    entries, reciprocals = list(packed[: m * (m - 1) // 2]), list(packed[m * (m - 1) // 2 :])
    L = [[entries[k * (k - 1) // 2 + i] for i in range(k)] for k in range(m)]
    x = back_substitute((L, reciprocals), b)
    for U, known in zip(blocks[:n], blocks[n:], strict=True):
        x = x - U @ known
    return (x,)
