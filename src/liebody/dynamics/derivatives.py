"""Derivatives of inverse and forward dynamics along the configuration group.

The field of velocities that joint j gives to the points behind it changes with the body that carries the
joint. Its twist S_j has the rates

    psi1 = ad_V S_j,    psi2 = ad_A S_j + ad_V psi1

with the twist V and its rate A (gravity included) of the carrier. With the moments J and the flux B of all
that a body carries (see `coriolis`), and the wrench F on it,

    d tau_i/dq_j = S_i^T (J_j psi2_j + 2 B_j psi1_j - ad_S_j^T F_j)                (i an ancestor of j)
    d tau_j/dq_i = (J_j S_j)^T psi2_i + 2 (B_j^T S_j)^T psi1_i
    d tau_i/dv_j = S_i^T (J_j phi_j + 2 B_j S_j),    d tau_j/dv_i = (J_j S_j)^T phi_i + 2 (B_j^T S_j)^T S_i

with phi = psi1 + ad_V_j S_j; for i = j the first line has no F. Carpentier and Mansard (2018), "Analytical
derivatives of rigid body dynamics algorithms"; Singh, Russo and Wensing (2022), "Efficient analytical
derivatives of rigid-body dynamics using spatial vector algebra".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..bodies import Moments, Tree
from ..compiler import Function, Program, repeated, trace
from ..compiler.programs import Cells
from ..compiler.programs.sparse import zero_cells
from ..scalars import Array
from ..scalars.linear import back_substitute, cross, factor, is_zero, product, skew, symmetric
from .coriolis import Flux, flux_of
from .inverse import FREE_FALL, Rates, bias_forces, motions, rate_of_turning, world_rates
from .joint_space import JointMatrix
from .mass import mass_matrix
from .recursions import composites, gather, operators, twists_of
from .spatial import REST, Pair, Transformation, added_wrench, bracket, halves, plus, powers, transformation

LONG = 40_000  # operations from which on columns are solved in loops


def inverse_dynamics_derivatives(
    tree: Tree,
    q: Array,
    v: Array,
    a: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
) -> tuple[Array, Array, Array]:
    """d tau/dq, d tau/dv and d tau/da = M, each (nv, nv).

    The derivative by q is along the group: d/de tau(q exp(e u), v, a) = (d tau/dq) u.
    Arguments as in `inverse_dynamics`; the wrenches stay what they are in the bodies' frames.

    Carpentier and Mansard (2018), and Singh, Russo and Wensing (2022), in the bodies' frames: recursion over
    pairs of a joint and its ancestors, O(n d) at depth d.
    """
    T, rates, F = motions(tree, q, v, a, world_rates(gravity), wrenches)
    twists = twists_of(tree, T, v, moving_origin=True)
    inertias = composites(tree, T)
    fluxes = gather(tree, T, operators(_twice_flux, tree.base_moments, twists))
    moving: list[Any] = [None]
    for body in tree.bodies:
        i = body.index
        p = body.parent
        # The carrier of a joint is the parent, seen in the body's frame. A joint of one degree of freedom
        # keeps its twist S in both bodies, ad_S S = 0, so the body itself serves, which is known already.
        carrier = twists[i], rates[i]
        if body.joint.dim > 1:
            carrier = _carrier(T[i], body.twist, v[body.dofs], twists[i], rates[p])
        moving.append(_moving_twists(body.twist, *carrier, twists[i]))
    # Inwards: the columns of a joint are wrenches, carried from body to body, which meet the twists of every
    # ancestor on the way. Both blocks of a pair come from the same wrenches.
    by_q, by_v, M = (JointMatrix(tree.nv) for _ in range(3))
    for body in reversed(tree.bodies):
        i = body.index
        if not body.joint.dim:
            continue
        carried, blocks = _own(body.twist, inertias[i], fluxes[i], F[i], moving[i])
        for matrix, block in zip((by_q, by_v, M), blocks, strict=True):
            matrix.add(body, body, block)
        M.add(body, body, np.diag(body.armature))
        if damping:
            by_v.add(body, body, np.diag(body.damping))
        for below, ancestor in pairwise(tree.ancestors(i)):
            carried, (up, down) = _next(T[below.index], carried, ancestor.twist, moving[ancestor.index])
            for matrix, block, mirrored in zip((by_q, by_v, M), up, down, strict=True):
                matrix.add(ancestor, body, block)
                matrix.add(body, ancestor, mirrored)
        if body.parent:
            F[body.parent] = added_wrench(T[i], F[body.parent], F[i])
    return by_q.array(), by_v.array(), M.array()


def forward_dynamics_derivatives(
    tree: Tree,
    q: Array,
    v: Array,
    tau: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
) -> tuple[Array, Array, Array]:
    """da/dq, da/dv and da/dtau = M^-1, each (nv, nv); by q along the group.

    With the derivatives of tau(q, v, a) at the acceleration a of these efforts, M da/dq = -d tau/dq, and so
    by v; solved column by column with the factors of M, which are as sparse as the tree. Nine columns
    of a base that moves freely are known.
    Arguments as in `forward_dynamics`; the wrenches stay what they are in the bodies' frames.
    """
    # M^-1 is symmetric: its lower triangle is not computed from the columns, but taken from the upper one.
    _, by_q, by_v, L, known = forward_equations(tree, q, v, tau, gravity, wrenches, damping)
    inverse = back_substitute(L, np.eye(tree.nv, dtype=int))
    upper = symmetric(tree.nv, lambda i, j: inverse[i, j])
    return (*(_with(known[k], -back_substitute(L, x)) for k, x in enumerate((by_q, by_v))), upper)


def acceleration_along(
    tree: Tree, q: Array, v: Array, tau: Array, gravity: Array = FREE_FALL
) -> tuple[Array, Callable[[Array, Array, Array], Array]]:
    """The acceleration a = dv/dt (nv,), and its change along (q exp(delta), v + nu, tau + mu).

    The change is a function of the columns of delta, nu and mu, each (nv, k), and returns da (nv, k):

        M da = mu - (d tau/dq) delta - (d tau/dv) nu

    with the derivatives of inverse dynamics at a. That is less work than products with the derivatives of
    forward dynamics, if there are fewer columns than these have. On floats or on symbols.

    q, v, tau  configuration (nq,), velocity and efforts, (nv,)              [rad/s, m/s], [N m, N]
    gravity    acceleration of free fall in the world, (3,)                  [m/s2]
    """
    # Columns of a free base are known results, not right sides: they act beside the solution.
    a, *by, factors, known = forward_equations(tree, q, v, tau, gravity)
    free = [np.zeros((tree.nv, tree.nv), int).astype(object) for _ in by]
    for A, B, columns in zip(free, by, known, strict=True):
        for j, column in columns.items():
            A[:, j] = column
            B[:, j] = 0

    def change(delta: Array, nu: Array, mu: Array) -> Array:
        rest = mu - product(by[0], delta) - product(by[1], nu)
        return back_substitute(factors, rest) + product(free[0], delta) + product(free[1], nu)

    return a, change


class _Loop(NamedTuple):
    """Columns that are solved by the same code."""

    rows: tuple[int, ...]  # those of the right side that are not zero
    last: int  # number of rows of the solution that are needed
    result: int  # whose columns they are: 0, 1 or 2


def derivatives_by_columns(
    tree: Tree, shapes: Mapping[str, Any], name: str, given: Callable[..., Any]
) -> Function | Program:
    """`forward_dynamics_derivatives` of arguments of these shapes; where it is long, loops over columns.

    given  (function, *arrays) -> function(tree, **arguments) of the tree's and the arrays' arguments
    """
    program = Program(name, shapes)
    solved = solved_by_columns(program, tree, partial(given, forward_equations), program.inputs)
    for k, cells in enumerate(solved.results):
        program.output(f"{name}_{k}", cells)
    return program if sum(program.operations.values()) > LONG else program.unroll()


class SolvedColumns(NamedTuple):
    """Cells of the acceleration (n,), and of da/dq, da/dv, da/dtau in one array (3, n, n)."""

    acceleration: Cells
    results: Cells


def solved_by_columns(
    program: Program, tree: Tree, equations: Callable[..., Any], given: Mapping[str, Cells]
) -> SolvedColumns:
    """`forward_dynamics_derivatives` as passes of a program, which solve for the columns in loops.

    equations  of the arrays that `given` has the cells of: what `forward_equations` returns

    The columns that belong to joints of one branch are zero in the same places, and so make one loop; those
    of M^-1 another one, which ends with the branch, as M^-1 is symmetric.
    """
    n = tree.nv
    each = range(n)
    entries: list[tuple[int, int]] = []  # of L that are not zero
    places: dict[_Loop, list[int]] = {}  # columns
    free: list[dict[int, Array]] = []

    def prepared(*arrays: Array) -> tuple[Array, ...]:
        a, by_q, by_v, (L, reciprocals), known = equations(*arrays)
        free.extend(known)
        entries.extend((k, i) for k, row in enumerate(L) for i, x in enumerate(row) if not is_zero(x))
        for j in each:
            rows = tuple(i for i in each if i == j or not (is_zero(by_q[i, j]) and is_zero(by_v[i, j])))
            # columns with the same nonzero rows are solved by the same code, so they share a loop
            for k in (k for k in (0, 1) if j not in known[k]):
                places.setdefault(_Loop(rows, n, k), []).append(j)
            places.setdefault(_Loop(rows, rows[-1] + 1, 2), []).append(j)
        right = -by_q, -by_v, np.eye(n, dtype=int)
        columns = (right[loop.result][np.ix_(loop.rows, of)] for loop, of in places.items())
        factors = np.array([L[k][i] for k, i in entries]), np.array(reciprocals)
        return a, *factors, *(np.array([*x.values()]).reshape(len(x), n) for x in known), *columns

    # one traced solution for each pattern of zeros, in which the zeros of L and of the right side vanish
    @cache
    def branch(rows: tuple[int, ...], last: int) -> Function:
        def solution(values: Array, reciprocals: Array, b: Array) -> Array:
            L: list[list[Any]] = [[0] * k for k in each]
            for (k, i), x in zip(entries, values, strict=True):
                L[k][i] = x
            whole = np.zeros(n, int).astype(object)
            whole[[*rows]] = b
            return back_substitute((L, list(reciprocals)), whole)[:last]

        return trace(solution, {"L": len(entries), "reciprocals": n, "b": len(rows)}, "branch")

    shapes = {key: cells.shape for key, cells in given.items()}
    a, *parts = program.apply(trace(prepared, shapes, "prepared"), *given.values())
    (*factors, by_q, by_v), columns = parts[:4], parts[4:]
    # cells of the results: columns that are known without solving, then those of the loops
    results = np.empty((3, n, n), np.int64)
    results[0][:, [*free[0]]] = by_q.T
    results[1][:, [*free[1]]] = by_v.T
    for (loop, of), right in zip(places.items(), columns, strict=True):
        solved = program.apply(branch(loop.rows, loop.last), *factors, right.T)
        results[loop.result][: loop.last, of] = solved.T
    # only the upper triangle of M^-1 was solved for: the lower one has the same cells
    i, j = np.indices((n, n))
    results[2] = results[2][np.minimum(i, j), np.maximum(i, j)]
    return SolvedColumns(a, results)


class SolvedDynamics(NamedTuple):
    """Forward dynamics with derivatives as cells of a program; made by `forward_dynamics_in_columns`.

    cells  each number once, without structural zeros: the acceleration (nv,), then entries of derivatives
    read   numbers, as many as cells -> a (nv,), da/dq, da/dv, da/dtau, each (nv, nv), on symbols
    """

    cells: Cells
    read: Callable[[Array], tuple[Array, Array, Array, Array]]


def forward_dynamics_in_columns(
    program: Program,
    tree: Tree,
    acting: Callable[..., tuple[Array, ...]],
    arguments: Mapping[str, Cells],
    gravity: Array = FREE_FALL,
) -> SolvedDynamics:
    """Forward dynamics and its derivatives under efforts tau(q, v, ...), by passes of a program.

        M da/dq = d tau/dq - d ID/dq,    M da/dv = d tau/dv - d ID/dv,    M da/dtau = 1

    with inverse dynamics ID(q, v, a). Columns that are zero in the same places are solved for in one loop, so
    that the text of the program does not grow with their number.

    acting     (*arguments) -> q, v, tau, d tau/dq (nv, nv), along the group, and d tau/dv (nv, nv); traced
    arguments  {name: cells}, by which `acting` is called
    gravity    acceleration of free fall in the world, (3,)                                      [m/s2]
    """
    n = tree.nv

    def equations(*arrays: Array) -> Any:
        q, v, tau, *slopes = acting(*arrays)
        a, *by, factors, known = forward_equations(tree, q, v, tau, gravity)
        by = [x - A for x, A in zip(by, slopes, strict=True)]
        # A column that is known without solving stays known only if no effort adds to it.
        free = [
            {k: x for k, x in columns.items() if all(map(is_zero, A[:, k]))}
            for columns, A in zip(known, slopes, strict=True)
        ]
        return a, *by, factors, free

    a, results = solved_by_columns(program, tree, equations, arguments)
    # Each number of the derivatives once; structural zeros take no cell.
    cells, index = np.unique(results, return_inverse=True)
    used = ~zero_cells(program)[program.positions(cells)]

    def read(numbers: Array) -> tuple[Array, Array, Array, Array]:
        entries = np.zeros(len(cells), int).astype(object)
        entries[used] = numbers[n:]
        by_q, by_v, by_tau = entries[index.reshape(results.shape)]
        return numbers[:n], by_q, by_v, by_tau

    return SolvedDynamics(np.concatenate([a, cells[used]]), read)


def forward_equations(
    tree: Tree,
    q: Array,
    v: Array,
    tau: Array,
    gravity: Array = FREE_FALL,
    wrenches: Array | None = None,
    damping: bool = False,
) -> tuple[Array, Array, Array, Any, tuple[dict[int, Array], dict[int, Array]]]:
    """The acceleration of these efforts, d tau/dq and d tau/dv there, the factors of M, `_free_columns`."""
    acting = (gravity, wrenches, damping)
    factors = factor(mass_matrix(tree, q))
    a = back_substitute(factors, tau - bias_forces(tree, q, v, *acting))
    by_q, by_v, _ = inverse_dynamics_derivatives(tree, q, v, a, *acting)
    return a, by_q, by_v, factors, _free_columns(tree, q, v, gravity, damping)


def _free_columns(
    tree: Tree, q: Array, v: Array, gravity: Array, damping: bool
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Columns of da/dq and da/dv that belong to bases which move freely, by their numbers.

    Turning all by u changes what the base sees of gravity by R^T g x u; nothing but its linear acceleration
    dv/dt = R^T (d2p/dt2) - omega x v notices. Its place has no influence.
    """
    columns: tuple[dict[int, Array], dict[int, Array]] = {}, {}
    for body in tree.bodies:
        # Only a base with S = 1, and no rotor or damper that would tie it to the world.
        losses = [*body.armature, *(body.damping if damping else [])]
        if body.parent or not np.array_equal(body.twist, np.eye(6)) or not all(map(is_zero, losses)):
            continue
        # By rotations of q: R^T g x u, as [seen] u. By positions of q: zero. By v, -[omega] of the linear
        # part.
        first = body.dofs.start
        seen = transformation(body, q).into(np.asarray(gravity))
        for which, at, block in ((0, 0, skew(seen)), (0, 3, 0 * skew(seen)), (1, 3, -skew(v[body.dofs][:3]))):
            for k, column in enumerate(block.T, start=first + at):
                rest = [0] * (first + 3), [0] * (tree.nv - first - 6)
                columns[which][k] = np.array([*rest[0], *column, *rest[1]])
    return columns


def _with(known: dict[int, Array], solved: Array) -> Array:
    """Solved columns, and the known ones in their place."""
    return np.array([known.get(k, x) for k, x in enumerate(solved.T)]).reshape(solved.T.shape).T


class _Moving(NamedTuple):
    """For each column of S: the turning part of psi1, psi2, and phi, in the body's frame."""

    turns: list[Pair]
    second: list[Pair]
    phi: list[Pair]


class _Carried(NamedTuple):
    """For each column of S, wrenches carried inwards: by q, by v, J S, and the moment of 2 B^T S."""

    by_q: list[Pair]
    by_v: list[Pair]
    momenta: list[Pair]
    backward: list[Pair]


def _twice_flux(moments: Moments, w: Array, u: Array) -> Flux:
    """2 B of a single body."""
    return flux_of(moments, 2 * w, 2 * u)


@repeated
def _carrier(T: Transformation, S: Array, v: Array, twist: Pair, parent: Rates) -> tuple[Pair, Rates]:
    """Twist and rates of what carries a joint, in the frame of the body behind it."""
    w = T.into(parent.w)
    alpha = T.into(parent.alpha)
    acc = T.into(parent.acc + parent.U @ T.p)
    return (w, twist[1] - S[3:] @ v), Rates(w, alpha, acc, rate_of_turning(w, alpha))


@repeated
def _moving_twists(S: Array, carrier: Pair, rates: Rates, twist: Pair) -> _Moving:
    """As A = (alpha, acc - omega x v), psi2 is (U s_w, U s_v + acc x s_w + 2 v x psi1_w)."""
    U = rates.U
    acc = rates.acc
    twice = 2 * carrier[1]
    turns = []
    second = []
    phi = []
    for w, u in halves(S):
        first = bracket(carrier, (w, u))
        turns.append((first[0], REST))
        second.append((U @ w, U @ u + cross(acc, w) + cross(twice, first[0])))
        phi.append(plus(first, bracket(twist, (w, u))))
    return _Moving(turns, second, phi)


@repeated
def _own(
    S: Array, moments: Moments, flux: Flux, wrench: Pair, moving: _Moving
) -> tuple[_Carried, tuple[Array, ...]]:
    """The wrenches that a joint's columns hand inwards, and the joint's own blocks by q, v and a."""
    by_q = []
    by_v = []
    momenta = []
    backward = []
    for s, turn, second, phi in zip(halves(S), *moving, strict=True):
        by_q.append(plus(moments.times(*second), flux.times(*turn)))
        by_v.append(plus(moments.times(*phi), flux.times(*s)))
        momenta.append(moments.times(*s))
        backward.append(flux.transpose_times(*s))
    blocks = tuple(powers(halves(S), x) for x in (by_q, by_v, momenta))
    n, f = wrench
    turned = [(cross(w, n) + cross(u, f), cross(w, f)) for w, u in halves(S)]
    by_q = [plus(x, y) for x, y in zip(by_q, turned, strict=True)]
    return _Carried(by_q, by_v, momenta, backward), blocks


@repeated
def _next(
    T: Transformation, carried: _Carried, S: Array, moving: _Moving
) -> tuple[_Carried, tuple[tuple[Array, ...], tuple[Array, ...]]]:
    """The wrenches in the parent's frame, and the blocks (parent, body) and (body, parent) by q, v and a."""
    by_q, by_v, momenta, backward = carried = _Carried(*([T.wrench_out(*F) for F in x] for x in carried))
    up = tuple(powers(halves(S), x) for x in (by_q, by_v, momenta))
    down_q = (powers(moving.second, momenta) + powers(moving.turns, backward)).T
    down_v = (powers(moving.phi, momenta) + powers(halves(S), backward)).T
    return carried, (up, (down_q, down_v, up[2].T))
