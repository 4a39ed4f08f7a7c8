"""Tubes of closed trees: equations of motion in independent velocities, and states on the closures.

A closed tree has the coordinates q and velocities v of a tree, and closures g(q) = 0, J v + drift = 0, whose
derivative is J a + bias = 0. Let v_z be as many velocities as J has independent rows, with a regular J_z,
and v_x the others. With T = (1, -J_z^-1 J_x), the motion is

    T^T M T a_x = T^T (tau - h - M gamma),    a = T a_x + gamma,    gamma = (0, -J_z^-1 bias).

Entries of a state follow from others, too. They are enclosed by Krawczyk's operator at the start, and again
after each step, so that nothing leads away from the closures (Lohner's method in the free entries).

Rows of J that depend on others are left out. Their rates are zero along motions of the closed tree, so a tube
on which one of them is not zero is refused: at its start, a singular position, the rows were dependent only
there.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.errors import ConfigurationError
from ..compiler import IntervalLibrary, NotProved, exactly, middle
from ..dynamics import bias_forces, mass_matrix
from ..mechanisms.constrained import ClosedTree
from ..scalars.linear import solve
from .motion import ExactMotion, efforts_of, entries_of, need_coordinates, with_free
from .sets import EnclosureError, MotionSet, Moved, along_axes, inverse_of

Array = Any
DEPENDENT = 1e-9  # of the largest entry of J, or of derivatives: what counts as zero
NEWTON = 20  # steps towards the closures
INFLATED = 2.0  # bounds of entries that follow from others, over those that are found
TRIES = 10
SHRUNK = 0.5  # bounds after a step are computed again while one of them falls below this share
ALLOWED = 1e-6  # how far entries that closures determine may be given from their values


class Ties:
    """Equations G(y) = 0 that determine some entries z of a state from the others x.

    library  arithmetic whose part 1 is G, behind it the rates of the rows that are left out, and behind these
             differences that decide conditions in G
    count    how many equations G has
    signs    of these differences
    names    of the entries at the front of y that may be determined; parameters and the time stand behind
    name     of the system

    With z = z_0 + S (x - x_0) + e near a solution, Krawczyk's operator for e is

        K(e) = -Y G(x_0, z_0) - Y (G_x + G_z S) (x - x_0) + (1 - Y G_z) e

    with derivatives at all points of a box. Each e in the box with G(x, z) = 0 lies in K(e). Where K maps the
    box of e into its interior, each x has exactly one e there, and so one z (Krawczyk 1969).

    The starts are defined by this one z. After a step, a box is known that contains the e of all motions, so
    K of this box contains them, too. Existence and uniqueness are not needed there.
    """

    def __init__(
        self, library: IntervalLibrary, count: int, signs: list[int], names: list[str], name: str
    ) -> None:
        self.library = library
        self.count = count
        self.signs = np.array(signs)
        self.names = names
        self.name = name

    def set_of(self, box: Array, single: Sequence[bool]) -> MotionSet:
        """The starts in a box (N, 2) that obey the equations, as a set with an axis for each free entry.

        Entries with a `single` value are determined by those with bounds, and by others with a single value.
        """
        library = self.library
        n = len(box)
        y = middle(box)
        radius = library.combine("sub", box, exactly(y)).max(axis=-1)
        one = np.array(single)[: len(self.names)]
        z = self._determined(y, np.flatnonzero(one))
        if len(z) < self.count:
            pairs = [self.names[k] for k in np.flatnonzero(~one)]
            raise ConfigurationError(
                f"the closures of {self.name} determine more entries of q0 and v0 than the {len(z)} that "
                f"follow from the rest; give bounds for fewer entries than {', '.join(pairs) or 'none'}. At "
                "a singular position nothing is determined"
            )
        alpha = np.where(np.isin(np.arange(n), z), 0.0, radius)
        nothing = np.zeros((n, 2))
        start = self._near(Moved(y, np.eye(n), alpha, exactly(np.eye(n)), nothing, nothing), z)
        tied = self._solved(start)
        if tied is None:
            raise ConfigurationError(
                f"which states of q0 and v0 obey the closures of {self.name} is not decided in the box: "
                f"{', '.join(self.names[k] for k in z)} follow from the other entries, and have no bounds. A "
                "smaller box may help; at a singular position nothing does"
            )
        off = np.abs(tied.c - y)
        if not off.max() < ALLOWED:
            k = int(np.argmax(off))
            raise ConfigurationError(
                f"{self.names[k]} of {self.name} is given as {y[k]:.9g}, but its closures determine it from "
                f"the other entries as {tied.c[k]:.9g}; start from q0 = system.assemble(q0) and "
                "v0 = system.consistent_velocities(q0, v0), with the middles of pairs"
            )
        return tied

    def tied(self, moved: Moved) -> MotionSet | None:
        """The states after a step that obey the equations; None where their bounds are not found.

        So what was rounded and estimated does not lead away from the closures. All motions have the time of
        the centre, its last entry.

        Errors: EnclosureError where the motion does not obey the rows that are left out.
        """
        try:
            z = self._determined(moved.c, np.arange(len(self.names)))
            tied = self._narrowed(self._near(moved, z), moved)
            if tied is not None:
                self._check_rows_left_out(tied)
        except (NotProved, np.linalg.LinAlgError):
            return None
        return tied

    def _near(self, state: Moved, z: Array) -> _NearSolution:
        """A solution next to the centre of a set, and the set's free entries around it."""
        library = self.library
        n, k = len(state.c), len(z)
        x = np.setdiff1d(np.arange(n - 1), z)  # the free entries, without the time, which has one value
        c = self._solution(state.c, z)
        G, slopes = self._equations(exactly(c))
        Y = np.linalg.inv(middle(slopes[:, z]))
        S = -Y @ middle(slopes[:, x])
        A = state.A.copy()
        A[z] = S @ A[x]
        A[-1] = 0.0
        # axes Q of the free entries for what is in B b, then e, then the time
        Q = _axes(middle(state.DB[x]), state.beta.max(axis=-1))
        B = np.zeros((n, n))
        B[x, : len(x)] = Q
        B[z, : len(x)] = S @ Q
        B[z, len(x) : -1] = np.eye(k)
        B[-1, -1] = 1.0
        turned = inverse_of(library, Q)
        beta = np.zeros((n, 2))
        beta[: len(x)] = along_axes(library, turned, state.DB[x], state.beta, state.rest[x])
        left = library.multiplied(Y, G[:, None])
        return _NearSolution(MotionSet(c, A, state.alpha, B, beta), x, z, turned, Y, left)

    def _solved(self, near: _NearSolution) -> MotionSet | None:
        """The set with one e for each x; None where there is no proof that there is one."""
        bound = INFLATED * np.abs(near.left).max(axis=(1, 2)) + 1e-15 * (1 + np.abs(near.tied.c[near.z]))
        for _ in range(TRIES):
            image = self._krawczyk(near, bound)
            if (image < bound).all():
                return near.with_error(image)
            bound = INFLATED * np.maximum(bound, image)
            if not np.isfinite(bound).all():
                break
        return None

    def _narrowed(self, near: _NearSolution, state: Moved) -> MotionSet | None:
        """The set with all e that states of a set have; None without bounds of derivatives."""
        bound = near.errors_of(self.library, state)
        for _ in range(TRIES):
            image = self._krawczyk(near, bound)
            if not np.isfinite(image).all():
                return None
            shrinks = (image < SHRUNK * bound).any()
            bound = np.minimum(image, bound)
            if not shrinks:
                break
        return near.with_error(bound)

    def _krawczyk(self, near: _NearSolution, bound: Array) -> Array:
        """Bounds (k,) of the size of Krawczyk's operator for all e within a bound (k,)."""
        library = self.library
        tied = near.with_error(bound)
        try:
            _, slopes = self._equations(tied.box(library))
        except NotProved:
            return np.full(len(bound), np.inf)
        of_e = slice(len(near.x), -1)
        B = library.multiplied(near.Y, library.product(slopes, exactly(tied.B)))
        B[:, of_e] = library.combine("sub", B[:, of_e], exactly(np.eye(len(bound))))
        A = library.multiplied(near.Y, library.product(slopes, exactly(tied.A)))
        radius = np.stack([tied.alpha, tied.alpha], axis=-1)
        moved = library.combine(
            "add", library.product(A, radius[:, None]), library.product(B, tied.beta[:, None])
        )
        return np.abs(library.combine("add", moved, near.left)).max(axis=(1, 2))

    def _check_rows_left_out(self, tied: MotionSet) -> None:
        """EnclosureError where a rate of the rows that are left out is not zero in a set."""
        library = self.library
        values, _ = self._rows(exactly(tied.c))
        if len(values) == self.count:
            return
        _, slopes = self._rows(tied.box(library))
        rates = library.combine("add", values[self.count :], tied.image(library, slopes[self.count :]))
        allowed = DEPENDENT * (1 + np.abs(tied.c[: len(self.names)]).max())
        if (rates < -allowed).any():
            raise EnclosureError(
                f"the closures of {self.name} do not hold along its tube at t = {tied.c[-1]:.6g} s: more of "
                "their equations are independent there than at the start, which is a singular position. "
                "Start from another position"
            )

    def _rows(self, box: Array) -> tuple[Array, Array]:
        """G and the rates that are left out (m, 2), with derivatives (m, N, 2), in a box.

        Errors: NotProved where conditions are not decided there.
        """
        values, slopes = self.library.evaluate(1, box, exactly(np.eye(len(box))))
        m = len(values) - len(self.signs)
        away = np.where(self.signs > 0, values[m:, 0], values[m:, 1])  # (-lower, upper)
        if not (away < 0).all():
            raise NotProved("a condition in the closures is not decided")
        return values[:m], slopes[:m]

    def _equations(self, box: Array) -> tuple[Array, Array]:
        """G (count, 2) and its derivatives (count, N, 2) in a box."""
        values, slopes = self._rows(box)
        return values[: self.count], slopes[: self.count]

    def _determined(self, y: Array, candidates: Array) -> Array:
        """Which of the candidates follow from all other entries: those with the largest derivatives."""
        D = middle(self._equations(exactly(y))[1])
        return np.sort(candidates[pivots(D[:, candidates])[1]])

    def _solution(self, y: Array, z: Array) -> Array:
        """A point next to y that obeys the equations, by Newton's method for the entries z."""
        y = y.copy()
        for _ in range(NEWTON):
            G, slopes = self._equations(exactly(y))
            change = np.linalg.solve(middle(slopes[:, z]), middle(G))
            y[z] -= change
            if np.abs(change).max() < 1e-14 * (1 + np.abs(y[z]).max()):
                break
        return y


@dataclass(frozen=True)
class _NearSolution:
    """A solution of G(y) = 0 with the free entries of a set around it.

    tied    a set without e, with axes for the free entries, for e, and for the time, in this order
    x, z    the free entries, and those that follow
    turned  bounds of the inverse of the axes Q of the free entries
    Y       about the inverse of G_z
    left    Y G at the solution, (k, 1, 2)
    """

    tied: MotionSet
    x: Array
    z: Array
    turned: Array
    Y: Array
    left: Array

    def with_error(self, bound: Array) -> MotionSet:
        """The set for all e within a bound (k,)."""
        beta = self.tied.beta.copy()
        beta[len(self.x) : -1] = bound[:, None]
        return replace(self.tied, beta=beta)

    def errors_of(self, library: IntervalLibrary, state: Moved) -> Array:
        """A bound (k,) of |e| of all states of the set that this one stands for."""
        tied, x, z = self.tied, self.x, self.z
        # (z of the state) - z_0 - A_z a - B_z Q^-1 (x of the state - x_0 - A_x a)
        W = library.product(exactly(tied.B[z, : len(x)]), self.turned)
        DB = library.combine("sub", state.DB[z], library.product(W, state.DB[x]))
        rest = library.combine("sub", state.rest[z, None], library.product(W, state.rest[x, None]))
        A = library.combine("sub", exactly(state.A[z]), exactly(tied.A[z]))
        radius = np.stack([state.alpha, state.alpha], axis=-1)
        parts = [
            library.combine("sub", exactly(state.c[z]), exactly(tied.c[z]))[:, None],
            library.product(A, radius[:, None]),
            library.product(DB, state.beta[:, None]),
            rest,
        ]
        e = functools.reduce(lambda a, b: library.combine("add", a, b), parts)
        return np.abs(e).max(axis=(1, 2))


def _axes(B: Array, reach: Array) -> Array:
    """Orthogonal axes (k, k) of the columns of B (k, n), the one with the longest reach first."""
    if not reach.any():
        return np.eye(len(B))
    columns = B * reach
    return np.linalg.qr(columns[:, np.argsort(-np.linalg.norm(columns, axis=0), kind="stable")])[0]


def motion_of_closed_tree(
    closed: ClosedTree, q0: Any, v0: Any, tau: Any, parameters: Mapping[str, Any], rounding: float
) -> tuple[ExactMotion, Ties]:
    """The motion of a closed tree by independent equations, and the equations of its starts.

    Which equations are independent, and which velocities follow from others, is seen at the middles of q0
    and v0.
    """
    moving = with_free(closed, parameters)
    group = moving.group
    need_coordinates(closed.name, group)
    efforts = efforts_of(moving, tau)
    q, v = _middles("q0", q0, closed.nq), _middles("v0", v0, closed.nv)
    closed.check_state(q, v)
    rows, z = pivots(closed.jacobian(q))
    x = np.setdiff1d(np.arange(closed.nv), z)
    places = [k for k in rows if closed.of_places[k]]
    left_out = np.setdiff1d(np.arange(closed.nc), rows)

    def field(t: Any, q: Array, v: Array, p: Array) -> Array:
        here, u, _ = moving.given(np.concatenate([efforts(t, q, v, p), p]))
        loops = here.loop_rows(q, v, t)
        J, drift, bias = loops.J[rows], loops.drift[rows], loops.bias[rows]
        known = np.concatenate([J[:, x], drift[:, None], bias[:, None]], axis=1)
        X = -eliminated(J[:, z], known)
        T = np.zeros((closed.nv, len(x)), dtype=object)
        T[x, range(len(x))] = 1
        T[z] = X[:, :-2]
        velocity, gamma = T @ v[x], np.zeros(closed.nv, dtype=object)
        velocity[z] = velocity[z] + X[:, -2]
        gamma[z] = X[:, -1]
        M = mass_matrix(here.tree, q)
        h = bias_forces(here.tree, q, v, tuple(here.gravity))
        forces = T.T @ (here.efforts(t, q, v, u) - h - M @ gamma)
        acceleration = gamma
        if len(x):
            acceleration = acceleration + T @ solve(T.T @ M @ T, forces)
        return np.concatenate([group.coordinate_rate(q, velocity), acceleration])

    def equations(t: Any, q: Array, v: Array, p: Array) -> Array:
        here, _, _ = moving.given(np.concatenate([np.zeros(moving.nu, int), p]))
        loops = here.loop_rows(q, v, t)
        norms = [q[k : k + 4] @ q[k : k + 4] - 1 for k in group.quaternions]
        return np.concatenate([loops.residual[places], loops.rate[rows], norms, loops.rate[left_out]])

    labels = moving.labels
    names = list(labels[0].names), list(labels[1].names)
    motion = ExactMotion(closed.name, names, field, moving.layout, parameters, rounding)
    bounds = [*motion.bounds.values()]
    wide = [float(sum(bounds[k])) / 2 for k in motion.wide]
    library, signs = motion.deciding(equations, "the closures", np.concatenate([q, v, wide, [0.0]]))
    count = len(places) + len(rows) + len(group.quaternions)
    return motion, Ties(library, count, signs, motion.names, closed.name)


def _middles(name: str, given: Any, size: int) -> Array:
    """A number for each entry of a start."""
    return np.array([float(low + high) / 2 for low, high in entries_of(name, given, size)])


def pivots(J: Array) -> tuple[Array, Array]:
    """Independent rows of a matrix, and as many columns, in the order of Gauss's pivots."""
    rest = np.array(J, float)
    least = DEPENDENT * np.abs(rest).max(initial=0.0)
    rows: list[int] = []
    columns: list[int] = []
    while len(rows) < min(rest.shape):
        i, j = np.unravel_index(np.argmax(np.abs(rest)), rest.shape)
        if not abs(rest[i, j]) > least:
            break
        rows.append(int(i))
        columns.append(int(j))
        rest = rest - np.outer(rest[:, j], rest[i]) / rest[i, j]
        rest[i], rest[:, j] = 0.0, 0.0
    return np.array(rows, int), np.array(columns, int)


def eliminated(A: Array, B: Array) -> Array:
    """A^-1 B by Gauss's elimination in the order of rows and columns, which `pivots` has found."""
    n = len(A)
    A, B = np.array(A, dtype=object), np.array(B, dtype=object)
    for k in range(n):
        for i in range(k + 1, n):
            share = A[i, k] / A[k, k]
            A[i, k + 1 :] = A[i, k + 1 :] - share * A[k, k + 1 :]
            B[i] = B[i] - share * B[k]
    for k in reversed(range(n)):
        B[k] = (B[k] - A[k, k + 1 :] @ B[k + 1 :]) / A[k, k] if k + 1 < n else B[k] / A[k, k]
    return B
