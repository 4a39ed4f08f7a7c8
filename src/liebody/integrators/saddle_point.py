"""Linear systems for accelerations and multipliers: the saddle point of mechanics with constraints.

    [ M   J^T    ] [ a ]   [ f ]
    [ J  -eps D  ] [ x ] = [ r ]        M (n, n) positive definite, J (m, n), D (m,) > 0

M is eliminated first: it leaves  (A + eps D) x = J M^-1 f - r  with  A = J M^-1 J^T, positive semidefinite,
and a = M^-1 (f - J^T x). All constrained mechanics uses one of three forms of that:

`Elimination`      the blocks of A, in an order that is fixed beforehand, without pivots; can be traced.
                   Equations of motion, projections and `MechanicalEquations.react`
`solve_bordered`   the whole matrix, sparse, with pivots; numbers only. The start of implicit methods
`sizes_of_rows`    D alone. -eps D stands in the Jacobian of an implicit step, which is such a matrix, too;
                   Newton's method factors it (`stepping.banded`, `runtime/newton.h`)

**Regularisation.** D holds the diagonal entries of A, so that eps has no unit: it is the squared sine of an
angle between rows of J, in the metric of M^-1. Masses, lengths and weights of equations do not matter.
Without redundant constraints eps is zero.

**Redundant constraints.** Then A is singular, and x is not unique. Where the right sides do not contradict
each other, the iteration

    (A + eps D) x <- b + eps D x,    x = 0 at first

(the proximal point method; Rockafellar 1976) converges to the solution of least norm sqrt(x^T D x). One
iteration multiplies the error along a vector w with A w = s D w by eps/(eps + s). In the null space of A, x
stays zero up to round-off over eps.

**Two values of eps.** `PROXIMAL` is for A itself. There the number of iterations is fixed, and they leave an
error (eps/s)^3 in the accelerations: eps must be small. `SOFTENING` is for Newton's method. That iterates
until no error is left, so that eps changes its speed only. But its pivots are judged relative to the largest
entry of a row, which depends on masses and units, and a redundant row has the pivot eps D: eps must be large.
docs/decisions/0028 has the measurements.

**Pivots.** A pivot of A over its diagonal entry, d_k/D_k, is the squared sine of the angle between row k of J
and those that were eliminated before, in the metric of M^-1: it tells how close equations are to dependence.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import IntegrationError
from ..compiler import repeated
from ..scalars import Array, absolute, maximum, where
from ..scalars.linear import back_substitute, factor, product, symmetric
from ..stepping.banded import solve as solve_sparse
from .blocks import Blocks, Entries

PROXIMAL = 1e-8  # eps of A + eps D
REFINEMENTS = 3  # iterations of the proximal point method
SOFTENING = 1e-6  # eps in the Jacobian of an implicit step
FLOOR = 1e-6  # part of the mean of D that every entry of D gets at least
SINGULAR = 1e-13  # of a diagonal entry of A, below which a pivot counts as zero
INDEPENDENT = 1e-12  # smallest pivot of independent rows, where the largest entry of J is 1
BORDER = 1e-5  # diagonal in place of M in that test, relative to the largest entry of J

# -- D -----------------------------------------------------------------------------------------------------


def with_floor(sizes: Array) -> Array:
    """D from diagonal entries of A, with a floor, so that rows of zeros have a pivot, too."""
    return sizes + FLOOR * sum(sizes) / len(sizes)


def sizes_of_rows(J: Blocks, inverse: Blocks, rows: int, eps: float) -> Array | None:
    """eps D (rows,), D = diag(J M^-1 J^T), block by block; None where blocks of J and M^-1 do not match.

    The floor of D is the mean over one constraint: a mean over all would couple the blocks of a chain.
    """
    # the blocks of M^-1 by their first index: each block of J needs the one of its columns, of its width
    blocks = {i: (len(block), block) for i, _, block in inverse if np.ndim(block)}
    if not all(np.ndim(block) and blocks.get(j, (0,))[0] == block.shape[1] for _, j, block in J):
        return None
    same_rows: dict[tuple[int, int], list[tuple[Array, Array]]] = {}
    for i, j, block in J:
        same_rows.setdefault((i, len(block)), []).append((block, blocks[j][1]))
    sizes = np.zeros(rows, int).astype(object)
    for (i, k), pairs in same_rows.items():
        sizes[i : i + k] = _sizes_of_block(pairs, eps)
    return sizes


@repeated
def _sizes_of_block(pairs: list[tuple[Array, Array]], eps: float) -> Array:
    """eps D of rows of J with these blocks, each beside the block of M^-1 for its columns."""
    return eps * with_floor(sum((J * product(inverse, J.T).T).sum(axis=1) for J, inverse in pairs))


# -- A by blocks -------------------------------------------------------------------------------------------


class Factors(NamedTuple):
    """The factors of A + shift D, block by block."""

    scale: list[Array]  # D of block k, (m,)
    lower: list[Array]  # L, 1/d of A_kk = L^T d L, packed
    U: dict[tuple[int, int], Array]
    worst: Array  # how close to dependence (`worse`), (1,); (0,) where it was not asked for

    @property
    def relative_pivots(self) -> np.ndarray:
        """d_k/D_k of all rows."""
        pairs = zip(self.lower, self.scale, strict=True)
        return np.array([1 / x for p, d in pairs for x in p[-len(d) :] * d], float)


class Regularization(NamedTuple):
    """How A is made regular: A + shift D is factored.

    redundant  whether A may be singular: solutions are then refined by the proximal iteration; if not, a
               pivot below round-off makes the results NaN
    shift      eps
    ordinary   for each block, the pivots d_k/D_k (m,) at an ordinary place; None: how close equations come
               to dependence is not computed
    """

    redundant: bool
    shift: float
    ordinary: Sequence[np.ndarray] | None = None

    @classmethod
    def plain(cls, redundant: bool) -> Regularization:
        """None where A is regular; pivots are not asked for."""
        return cls(redundant, PROXIMAL if redundant else 0.0)


class Elimination:
    """Solutions of A x = b by blocks of `sizes`, one for each constraint, coupled by `pairs` of them.

    Blocks k and l of A are coupled where two constraints act on the same body. The next block is always one
    of least degree (Tinney and Walker 1967). For trees of bodies this creates no new blocks: the cost is
    linear in the number of bodies. Eliminating block k means, for all blocks l, l' coupled to it,

        U_kl = A_kk^-1 A_kl,    A_ll' <- A_ll' - A_lk U_kl',    b_l <- b_l - U_kl^T b_k,

    and afterwards, backwards,  x_k = A_kk^-1 b_k - sum_l U_kl x_l.  Each elimination is a repeated step
    (`compiler.programs.repeats`).
    """

    def __init__(self, sizes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
        self.sizes = list(sizes)
        # A is symmetric: each coupling once, in the lower triangle
        self.pairs = sorted({(max(p), min(p)) for p in pairs})
        neighbours: list[set[int]] = [set() for _ in sizes]
        for k, l in self.pairs:
            neighbours[k].add(l)
            neighbours[l].add(k)
        self.later: list[tuple[int, ...]] = [()] * len(sizes)  # coupled blocks that are eliminated after
        self.order: list[int] = []
        # greedy: the degree of a block counts the rows it is coupled to, which its elimination would join
        degree = [sum(sizes[l] for l in n) for n in neighbours]
        # of equal degree the last one comes first: along a chain, from its end to its root
        queue = [(d, -k) for k, d in enumerate(degree)]
        heapify(queue)
        while queue:
            d, k = heappop(queue)
            k = -k
            if d != degree[k]:  # an outdated entry: the degree has changed since, or k is eliminated
                continue
            degree[k] = -1
            self.order.append(k)
            self.later[k] = tuple(sorted(neighbours[k]))
            # the neighbours of k become coupled to each other: the fill of the factors
            for l in neighbours[k]:
                neighbours[l] = (neighbours[l] | neighbours[k]) - {k, l}
                degree[l] = sum(sizes[m] for m in neighbours[l])
                heappush(queue, (degree[l], -l))

    def factor(
        self,
        diagonal: Sequence[Array],
        coupling: dict[tuple[int, int], Array],
        regularization: Regularization,
        scale: Sequence[Array] | None = None,
    ) -> Factors:
        """Factors of A + shift D; A has blocks diagonal[k] (m_k, m_k), coupling[k, l] (m_k, m_l), k > l.

        scale  D of each block, (m_k,); None: the diagonal of A
        """
        redundant, shift, ordinary = regularization
        # A and coupling stay as they are: eliminated blocks are replaced in a copy
        scale = [np.diagonal(block) for block in diagonal] if scale is None else [*scale]
        A: dict[tuple[int, int], Any] = {**{(k, k): x for k, x in enumerate(diagonal)}, **coupling}
        lower: list[Array] = [np.zeros(0)] * len(self.sizes)
        U: dict[tuple[int, int], Array] = {}
        worst = np.zeros(0) if ordinary is None else np.ones(1)
        for k in self.order:
            # only the lower triangle of A is stored: a block that was given the other way round is transposed
            later = self.later[k]
            across = [A[l, k] if (l, k) in A else A[k, l].T for l in later]
            pairs = [(l, m) for l in later for m in later if m <= l]
            rest = [A.get(pair) for pair in pairs]
            lower[k], solved, rest = _eliminated(A[k, k], scale[k], across, rest, redundant, shift)
            U |= {(k, l): x for l, x in zip(later, solved, strict=True)}
            A |= dict(zip(pairs, rest, strict=True))
            if ordinary is not None:
                worst = worse(worst, lower[k][-self.sizes[k] :] * scale[k], ordinary[k], redundant)
        return Factors(scale, lower, U, worst)

    def solve(self, factors: Factors, right: Sequence[Array], regularization: Regularization) -> list[Array]:
        """x of A x = b, b given by its blocks; by the proximal iteration where A may be singular."""
        # each solution with the factors of A + eps D starts the next proximal step
        x = self._substitute(factors, right)
        for _ in range(REFINEMENTS - 1 if regularization.redundant else 0):
            shifted = zip(right, factors.scale, x, strict=True)
            x = self._substitute(factors, [_with_last(*terms, regularization.shift) for terms in shifted])
        return x

    def _substitute(self, factors: Factors, right: Sequence[Array]) -> list[Array]:
        b, x = list(right), list(right)
        # forwards: each block takes its share out of the later blocks
        for k in self.order:
            for l in self.later[k]:
                b[l] = _forward(b[l], factors.U[k, l], b[k])
        # backwards: the blocks that come later are known
        for k in reversed(self.order):
            known = [(factors.U[k, l], x[l]) for l in self.later[k]]
            x[k] = _backward(factors.lower[k], b[k], known)
        return x


@repeated
def _with_last(b: Array, d: Array, x: Array, shift: Any) -> Array:
    return b + shift * d * x


@repeated
def worse(before: Array, found: Array, ordinary: Array, redundant: bool) -> Array:
    """`before` (1,) with D_k/d_k (m,) of some rows, `found`: the largest; the product if A may be singular.

    Among dependent rows, the one without a pivot changes with the configuration: pivots of two rows change
    places. Their product, det(A + eps D)/det D, is blind to that: compared to an ordinary place it falls
    where the rank does.
    """
    (result,) = before
    for x in found * ordinary if redundant else found:
        result = result * x if redundant else maximum(x, result)
    return np.array([result])


@repeated
def _eliminated(
    own: Array, scale: Array, across: list[Array], rest: list[Array | None], redundant: bool, shift: Any
) -> tuple[Array, list[Array], list[Array]]:
    """The packed factors of a block, U of the blocks coupled to it, and those blocks after elimination.

    rest  the lower triangle of the blocks among these, row by row; None is zero
    """
    L, reciprocals = factor(own, lambda k, d: d + shift * scale[k])  # A + shift D
    if not redundant:
        # equations of a regular system that have become dependent: NaN instead of a wrong motion
        reciprocals = [
            where(absolute(x * d) < 1 / SINGULAR, x, np.nan) for x, d in zip(reciprocals, scale, strict=True)
        ]
    # one array, so that the factors of all blocks of a kind have one place in a loop
    packed = np.array([x for row in L for x in row] + reciprocals)
    U = [back_substitute((L, reciprocals), A.T) for A in across]
    # the Schur complement A_ll' - A_lk A_kk^-1 A_kl' of each pair of coupled blocks
    left = []
    pairs = [(i, j) for i in range(len(U)) for j in range(i + 1)]
    for A, (i, j) in zip(rest, pairs, strict=True):
        A = np.zeros((across[i].shape[0], U[j].shape[1]), int) if A is None else A  # fill
        left.append(_less_product(A, across[i], U[i]) if i == j else A - across[i] @ U[j])
    return packed, U, left


def _less_product(A: Array, B: Array, C: Array) -> Array:
    """A - B C, known to be symmetric."""
    return symmetric(len(A), lambda i, j: A[i, j] - B[i] @ C[:, j])


@repeated
def _forward(b: Array, U: Array, eliminated: Array) -> Array:
    return b - U.T @ eliminated


@repeated
def _backward(packed: Array, b: Array, known: list[tuple[Array, Array]]) -> Array:
    m = len(b)
    entries = list(packed[: m * (m - 1) // 2])
    reciprocals = list(packed[m * (m - 1) // 2 :])
    L = [[entries[k * (k - 1) // 2 + i] for i in range(k)] for k in range(m)]
    x = back_substitute((L, reciprocals), b)
    for U, other in known:
        x = x - U @ other
    return x


class DenseElimination:
    """Solutions of A x = b where M^-1 couples all constraints, as through a tree: A is one block.

    J, gain  J (m, n) and M^-1 J^T (n, m)
    sizes    D (m,); None: the diagonal of A, with a floor
    """

    def __init__(self, J: Array, gain: Array, sizes: Array | None, by: Regularization) -> None:
        A = symmetric(len(J), lambda i, j: J[i] @ gain[:, j])
        scale = with_floor(np.diagonal(A)) if sizes is None else sizes
        self.by = by if by.ordinary is None else by._replace(ordinary=[np.concatenate(by.ordinary)])
        self.elimination = Elimination([len(J)], [])
        self.factors = self.elimination.factor([A], {}, self.by, [scale])

    def solve(self, b: Array) -> Array:
        """x (m,); where A is singular, the solution of least norm in the metric D."""
        return self.elimination.solve(self.factors, [b], self.by)[0]


# -- the whole matrix, in numbers --------------------------------------------------------------------------


def solve_bordered(
    M: Entries, J: Entries, force: Array, rate: Array, sizes: Array | None
) -> tuple[np.ndarray, np.ndarray]:
    """(a, x) with  M a + J^T x = force,  J a = rate,  in numbers: sparse, with pivots.

    sizes  D, (m,), where rows of J may depend on each other: x has the least norm in the metric D, by the
           proximal point method.  None: independent rows
    """
    n = len(force)
    size = n + len(rate)
    places, values = _bordered(M, J, n)
    right = np.concatenate([force, rate])
    if sizes is None:
        solution = solve_sparse(size, places, values, right)
        return solution[:n], solution[n:]
    # Equations and unknowns are scaled to a diagonal of ones and -eps. A redundant row then has the pivot
    # eps, far above the pivots that count as zero, whatever the masses and the units are.
    diagonal = np.ones(size)
    for i, j, mass in M:
        if i == j:
            diagonal[i] = mass
    diagonal[n:] = sizes
    scale = 1 / np.sqrt(diagonal)
    rows, columns = np.array(places, int).reshape(-1, 2).T
    values = [*(scale[rows] * np.asarray(values, float) * scale[columns]), *[-PROXIMAL] * len(rate)]
    places = places + [(i, i) for i in range(n, size)]
    solution = np.zeros(size)
    for _ in range(REFINEMENTS):
        shifted = scale * right
        shifted[n:] -= PROXIMAL * solution[n:]
        solution = solve_sparse(size, places, values, shifted)
    solution = scale * solution
    return solution[:n], solution[n:]


def independent(J: Entries, rows: int, columns: int) -> bool:
    """Whether the rows of J are independent, by the pivots of [eps J^T; J 0].

    The diagonal eps gives pivots to the directions in which no row acts.
    """
    size = columns + rows
    largest = max((abs(x) for _, _, x in J), default=1.0)
    places, values = _bordered([(i, i, BORDER * largest) for i in range(columns)], J, columns)
    try:
        solve_sparse(size, places, values, np.zeros(size), least=INDEPENDENT)
    except IntegrationError:
        return False
    return True


def _bordered(A: Entries, J: Entries, columns: int) -> tuple[list[tuple[int, int]], list[float]]:
    """Places and values of [A J^T; J 0]."""
    below = [(i + columns, j) for i, j, _ in J]
    places = [(i, j) for i, j, _ in A] + below + [(j, i) for i, j in below]
    return places, [x for _, _, x in A] + 2 * [x for _, _, x in J]
