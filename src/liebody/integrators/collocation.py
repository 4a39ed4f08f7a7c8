"""Collocation methods on any Lie group: Gauss (the implicit midpoint rule first), and Radau IIA.

A Runge-Kutta-Munthe-Kaas step from g, with stages

    Psi_i = h sum_j A_ij k_j,   k_i = dexp^-1_{-Psi_i} F(t + c_i h, g exp Psi_i),   to g exp(h sum_i b_i k_i)

and a regular matrix A. So the unknowns can be the Psi_i, with h k_i = sum_j W_ij Psi_j, W = A^-1. For a
mechanical system that halves the equations: the velocities V_i = dexp_{-Psi_i} k_i and then dV_i/dt follow
from Psi, and only the balance of forces is left to solve (dim equations per stage instead of 2 dim).

Between the nodes, Psi(theta) is the polynomial of degree s through 0 and the Psi_i: the solution within a
step, on the group, with an error of h^(s+1). That of the velocity goes through v and the V_i.

The error of a step is estimated by a companion formula of order s that also knows f = dy/dt at the start (of
Gauss methods also at the end, for order s + 1), filtered so that what is stiff does not spoil it: delta with

    delta/(gamma h) = f(y + delta) + sum_j e_j z_j/h + e' f(y'),     z_j = y_j - y,

by one step of Newton's method from delta = 0: the estimate of RADAU5, eq. (IV.8.20) in Hairer and Wanner. Of
a mechanical system y is (Psi, v), and delta obeys the constraints, linearised: so the multipliers at the
start, which would be in f, need not be known.

Hairer, Wanner, "Solving Ordinary Differential Equations II", sections IV.3, IV.5, IV.8; Munthe-Kaas (1999).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..base.concurrency import cached_property
from ..base.errors import IntegrationError
from ..groups import LieGroup
from ..scalars import Array, absolute, maximum
from ..scalars.linear import product
from ..stepping import ImplicitFlow
from ..stepping.flow import combination
from ..stepping.records import Control, Phase
from .equations import MechanicalEquations
from .implicit_tableaux import ImplicitTableau, implicit_tableau
from .mechanical_flow import MechanicalFlow, Stages
from .mechanical_method import MechanicalMethod
from .rkmk import NotConverged, Step, VectorField, vector_components
from .tableaux import nonzero

EPSILON = float(np.finfo(float).eps)
# Newton's method of a step in Python (`Collocation.advance`):
MOST_CORRECTIONS = 10  # with one Jacobian
SMALL_PART = 0.03  # the equations are solved to this part of the tolerances of a step
LOOSE = 1e-8  # relative correction at which the search may end although corrections no longer shrink


class Collocation(MechanicalMethod):
    """A collocation method, by its tableau; `Gauss` and `RadauIIA` choose a published one."""

    estimates_errors = True

    def __init__(self, tableau: ImplicitTableau) -> None:
        if not tableau.collocation:
            raise IntegrationError(f"{tableau!r} is not said to be a collocation method: collocation=True")
        self.tableau = tableau
        self.name = tableau.name
        self.order = tableau.order
        self.W = np.linalg.inv(tableau.A)
        # The result is Psi = h b^T k = b^T W Psi_i. Of Radau methods it is the last stage: the exact unit
        # vector leaves no round-off of b^T W.
        self.ends = np.eye(tableau.stages)[-1] if tableau.stiffly_accurate else tableau.b @ self.W
        # Gauss methods have no node at 1, so that f at the end is one more condition for their companion.
        self.embedded_order = tableau.stages + (not tableau.stiffly_accurate)
        self.gamma, self.error_stages, self.error_end = self._companion()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(order={self.order})"

    def _companion(self) -> tuple[float, np.ndarray, float]:
        """gamma, e and e' of the error estimate: sum_i d_i c_i^(k-1) + e' = -delta_k1 for k = 1 to its order.

        Then e = d A^-1. gamma is the geometric mean of the eigenvalues of A.
        """
        nodes = self.tableau.c if self.tableau.stiffly_accurate else np.append(self.tableau.c, 1.0)
        d = np.linalg.solve(np.vander(nodes, increasing=True).T, -np.eye(len(nodes))[0])
        s = self.tableau.stages
        return float(np.linalg.det(self.tableau.A) ** (1 / s)), d[:s] @ self.W, float(d[s:].sum())

    @cached_property
    def interpolant(self) -> np.ndarray:
        """P (s, s): the integral of Lagrange's polynomial j from 0 to theta is sum_m P_jm theta^(m+1)."""
        s = self.tableau.stages
        powers = np.linalg.inv(np.vander(self.tableau.c, increasing=True)).T
        return np.asarray(powers / np.arange(1, s + 1))

    def _between(self, theta: Any, vectors: Any) -> Array:
        """The polynomial through zero at 0 and these vectors at the nodes, at theta."""
        # Lagrange's polynomials of degree s that vanish at 0: row j has coefficients of theta, theta^2, ...
        P = np.linalg.inv(self.tableau.c[:, None] ** np.arange(1, self.tableau.stages + 1)).T
        total = np.zeros(np.shape(vectors[0]), int)
        for row, x in zip(P, vectors, strict=True):
            weight: Any = 0
            for coefficient in row[::-1]:  # Horner's scheme
                weight = (weight + float(coefficient)) * theta
            total = total + weight * x
        return total

    def _combined(self, weights: Array, vectors: Any) -> Array:
        """sum_j weights_j vectors_j; weights that are zero cost nothing."""
        return combination(nonzero(weights), vectors)

    def field_flow(
        self,
        group: LieGroup,
        F: Callable[..., Any],
        efforts: int = 0,
        tolerance: float = 1e-15,
        recipe: str | None = None,
    ) -> ImplicitFlow:
        """The compiled steps for g^-1 dg/dt = F(t, q, u), any vector field on any group; y is q (nq,).

        One function, although it is long: its parts share F, the tableau and the layout z = (Psi, delta).
        """
        c = self.tableau.c.tolist()
        s = self.tableau.stages
        n = group.dim

        def predict(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # The motion with the body velocity of the start: Psi_i = c_i h f, exact to h^2.
            f = F(t, y, u[0])
            return np.concatenate([x * h * f for x in c])

        def residual(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # W Psi = h k in place of Psi = h A k: F at a stage enters one row only, so all blocks of the
            # Jacobian beside its diagonal are constants.
            psi = np.reshape(x, (s, n))
            rows = []
            for i in range(s):
                f = F(t + c[i] * h, group.integrate(y, psi[i]), u[i])
                rows.append(self._combined(self.W[i], psi) - h * group.dexp_inverse_times(-psi[i], f))
            return np.concatenate(rows)

        def finish(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            psi = np.reshape(z, (s, n))
            return group.normalize(group.integrate(y, self._combined(self.ends, psi)))

        def estimate(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # The equation of delta, times h. Efforts at the nodes s and s + 1 are those of start and end.
            known = self._known(np.reshape(z, (s, n)), h)
            if self.error_end:
                psi = self._combined(self.ends, np.reshape(z, (s, n)))
                end = F(t + h, group.integrate(y, psi), u[s + 1])
                known = known + self.error_end * group.dexp_inverse_times(-psi, end)
            f = group.dexp_inverse_times(-x, F(t, group.integrate(y, x), u[s]))
            return x / self.gamma - h * (f + known)

        relative = vector_components(group)

        def error(z: Array, t: Any, h: Any, y: Array, u: Array, after: Array) -> tuple[Array, Array]:
            # z holds the stages and then delta. Sizes as in `solve_ivp`: |x| in factors R(n), elsewhere 1.
            size: list[Any] = [1.0] * n
            for i, k in zip(*relative, strict=True):
                size[i] = maximum(absolute(y[k]), absolute(after[k]))
            return z[s * n :], np.array(size)

        def between(theta: Any, z: Array, t: Any, h: Any, y: Array, u: Array, after: Array) -> Array:
            psi = self._between(theta, np.reshape(z[: s * n], (s, n)))
            return group.normalize(group.integrate(y, psi))

        # "linear": one correction from delta = 0, which is the filtered estimate. The residual is not affine,
        # but to solve it exactly would cost evaluations and give no better estimate.
        delta = Phase(lambda z, t, h, y, u: np.zeros(n), estimate, linear=True)
        control = Control(self._estimated_order, [delta], error, between)
        phases = [Phase(predict, residual)]
        recipe = f"{recipe} {self!r}" if recipe else None
        nodes = [*c, 0.0, 1.0]
        return ImplicitFlow(
            phases, finish, group.nq, efforts, nodes, tolerance, recipe=recipe, control=control
        )

    def _flow(self, system: MechanicalEquations, **options: Any) -> MechanicalFlow:
        """The stages, the companion formula and the polynomial between the nodes, for a mechanical system.

        One function, although it is long: its eleven parts share the layout z = (Psi, lambda, delta) of a
        step and read as the equations in the head of this file, in their order.
        """
        group = system.group
        nq = system.nq
        n = system.dim
        m = system.m
        c = self.tableau.c.tolist()
        s = self.tableau.stages

        def velocities(psi: Array, h: Any) -> list[Array]:
            """V_i = dexp_{-Psi_i} k_i."""
            return [product(group.dexp(-psi[i]), self._combined(self.W[i], psi) / h) for i in range(s)]

        def predict(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # Constant body velocity, no reactions: multipliers of the last step are not remembered.
            return np.concatenate([*(x * h * y[nq:] for x in c), np.zeros(s * m, int)])

        def residual(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            """h^2 (M dV_i/dt + b + J^T lambda_i - Q), with h dV_i/dt = sum_j W_ij (V_j - v), and h J V_i."""
            q = y[:nq]
            v = y[nq:]
            psi = np.reshape(x[: s * n], (s, n))
            multipliers = np.reshape(x[s * n :], (s, m))  # h^2 lambda_i: the factor keeps rows well scaled
            V = velocities(psi, h)
            rows = []
            rates = []
            for i in range(s):
                place = group.integrate(q, psi[i])
                A = self._combined(self.W[i], [w - v for w in V])
                forces = system.inertial(place, V[i]) - system.applied(t + c[i] * h, place, V[i], u[i])
                balance = h * system.momentum(place, A) + h * h * forces
                if m:
                    balance = balance + system.reaction(place, multipliers[i], t + c[i] * h)
                    rates.append(h * system.velocity_defect(t + c[i] * h, place, V[i]))
                rows.append(balance)
            return np.concatenate([*rows, *rates])

        def finish(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            q = y[:nq]
            v = y[nq:]
            psi = np.reshape(z[: s * n], (s, n))
            V = velocities(psi, h)
            after = group.normalize(group.integrate(q, self._combined(self.ends, psi)))
            # The last stage obeys J V = 0 to the accuracy of Newton's method: take it as it is.
            if self.tableau.stiffly_accurate:
                return np.concatenate([after, V[-1]])
            return np.concatenate([after, v + self._combined(self.ends, [w - v for w in V])])

        def estimate(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            """The equations of delta, for Psi and the multipliers, with the scales of `residual`."""
            # y = (Psi, v) has delta = (x, W - v). `defect` gives W as a function of x, which leaves the
            # balance of forces for x, and J W = 0 for the multipliers.
            q = y[:nq]
            v = y[nq:]
            psi = np.reshape(z[: s * n], (s, n))
            push = self._known([w - v for w in velocities(psi, h)], h)
            if self.error_end:
                after = finish(z, t, h, y, u)
                push = push + self.error_end * system.acceleration(t + h, after[:nq], after[nq:], u[s + 1])[0]
            place = group.integrate(q, x[:n])
            W = velocity(x[:n], z, t, h, y, u)
            forces = system.inertial(place, W) - system.applied(t, place, W, u[s])
            balance = h * system.momentum(place, (W - v) / self.gamma - h * push) + h * h * forces
            if not m:
                return balance
            return np.concatenate(
                [balance + system.reaction(place, x[n:], t), h * system.velocity_defect(t, place, W)]
            )

        def velocity(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            """The velocity at Psi = x by the companion formula, whose first rows are kinematic."""
            psi = np.reshape(z[: s * n], (s, n))
            known = self._known(psi, h)
            if self.error_end:
                end = finish(z, t, h, y, u)[nq:]
                known = known + self.error_end * group.dexp_inverse_times(
                    -self._combined(self.ends, psi), end
                )
            return product(group.dexp(-x), x / (self.gamma * h) - known)

        def defect(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # Kept in z: the error of Psi and of v; the multipliers of the estimate are of no use.
            return np.concatenate([x[:n], velocity(x[:n], z, t, h, y, u) - y[nq:]])

        def error(z: Array, t: Any, h: Any, y: Array, u: Array, after: Array) -> tuple[Array, Array]:
            return z[s * (n + m) :], np.concatenate(
                [np.ones(n), maximum(absolute(y[nq:]), absolute(after[nq:]))]
            )

        def between(theta: Any, z: Array, t: Any, h: Any, y: Array, u: Array, after: Array) -> Array:
            # Two polynomials: the derivative of the first would be a velocity of one order less.
            psi = np.reshape(z[: s * n], (s, n))
            V = self._between(theta, [w - y[nq:] for w in velocities(psi, h)])
            place = group.normalize(group.integrate(y[:nq], self._between(theta, psi)))
            return np.concatenate([place, y[nq:] + V])

        def first(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # delta = 0, with the multipliers of the first stage, which are close to those of the start.
            return np.concatenate([np.zeros(n), z[s * n : s * n + m]])

        def states(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # q_i, V_i of the stages, with which integrals such as work get the order of the method.
            psi = np.reshape(z[: s * n], (s, n))
            pairs = zip(psi, velocities(psi, h), strict=True)
            return np.concatenate([x for k, w in pairs for x in (group.integrate(y[:nq], k), w)])

        # Redundant constraints make zero pivots in both systems, so both soften their multipliers.
        delta = Phase(first, estimate, defect, linear=True, soften=system.softening(n))
        options["stages"] = Stages(self.tableau.b.tolist(), states)
        options["control"] = Control(self._estimated_order, [delta], error, between)
        phases = [Phase(predict, residual, soften=system.softening(s * n, s))]
        return MechanicalFlow(system, phases, finish, nodes=[*c, 0.0, 1.0], **options)

    @property
    def _estimated_order(self) -> int:
        """The power of h that the error estimate goes with."""
        return 1 + min(self.order, self.embedded_order)

    def _known(self, z: Any, h: Any) -> Array:
        """sum_j e_j z_j/h."""
        return self._combined(self.error_stages, z) / h

    # -- one step in Python, for solve_ivp -------------------------------------------------------------------

    def advance(
        self,
        group: LieGroup,
        F: VectorField,
        t: float,
        q: Array,
        h: float,
        first: Array | None = None,
        scale: Array | None = None,
    ) -> Step:
        """One step of the flow of F, by a simplified Newton's method with one Jacobian, from differences.

        first  F(t, q), where it is known
        scale  tolerances of Psi, (dim,), of which corrections become a small part; None: round-off

        Errors: NotConverged where corrections do not shrink.
        """
        s = self.tableau.stages
        n = group.dim
        c = self.tableau.c.tolist()
        first = F(t, q) if first is None else first

        def slope(time: float, psi: Array) -> Array:
            return group.dexp_inverse_times(-psi, F(time, np.asarray(group.integrate(q, psi))))

        # D = dk/dPsi at the start of the step, by forward differences; sqrt(eps) balances the errors of
        # truncation and round-off. One D serves all stages and all corrections: Newton's method then
        # converges linearly, at a rate of O(h), and needs one factorisation.
        step = np.sqrt(EPSILON) * (1 + np.abs(h * first))
        D = np.stack([(slope(t, e) - first) / e.max() for e in np.diag(step)], axis=-1)
        with np.errstate(all="ignore"):
            solve = _inverse(np.kron(self.W, np.eye(n)) - h * np.kron(np.eye(s), D), t)

            def correction(psi: Array) -> Array:
                slopes = np.stack([slope(t + x * h, row) for x, row in zip(c, psi, strict=True)])
                return -(solve @ (self.W @ psi - h * slopes).ravel()).reshape(s, n)

            psi = _corrected(np.zeros((s, n)), correction, scale, _complaint(t, h))
        increment = self._combined(self.ends, psi)
        after = np.asarray(group.normalize(group.integrate(q, increment)))
        # The companion formula with f linearised:
        # (1/(gamma h) - D) delta = f + sum_j e_j z_j/h + e' f(y').
        known = first + self._known(psi, h)
        velocity = None
        if self.error_end:
            velocity = F(t + h, after)
            known = known + self.error_end * group.dexp_inverse_times(-increment, velocity)
        error = _inverse(np.eye(n) / (self.gamma * h) - D, t) @ known
        return Step(after, self.W @ psi / h, error, increment, velocity)


def _corrected(
    psi: Array, correction: Callable[[Array], Array], scale: Array | None, complaint: str
) -> Array:
    """psi after corrections, psi + correction(psi), until they are small enough.

    scale      as in `Collocation.advance`
    complaint  message of NotConverged, where they do not shrink
    """
    last_size = math.inf
    for _ in range(MOST_CORRECTIONS if scale is not None else 10 * MOST_CORRECTIONS):
        change = correction(psi)
        psi = psi + change
        if scale is None:
            size = float(np.abs(change).max())
            enough = EPSILON * (1 + float(np.abs(psi).max()))
        else:
            size = float(np.abs(change / scale).max())
            enough = SMALL_PART
        # Corrections shrink like a geometric series, so the corrections still to come sum up to
        # size rate/(1 - rate): Hairer, Wanner, section IV.8. The first correction has no rate yet.
        rate = size / last_size
        if size == 0 or (0 < rate < 1 and size * rate / (1 - rate) <= enough):
            return psi
        if not rate < 1 or not math.isfinite(size):
            # Corrections that are small and no longer shrink are round-off of F.
            if scale is None and size <= LOOSE * (1 + float(np.abs(psi).max())):
                return psi
            raise NotConverged(complaint)
        last_size = size
    raise NotConverged(complaint)


def _inverse(A: Array, t: float) -> Array:
    try:
        return np.linalg.inv(A)
    except np.linalg.LinAlgError:
        raise NotConverged(f"the equations of the step at t = {t:.9g} are singular") from None


def _complaint(t: float, h: float) -> str:
    return f"the equations of the step at t = {t:.9g} are not solved by Newton's method with h = {h:.3g}"


class Gauss(Collocation):
    """Gauss methods of order 2 (the implicit midpoint rule), 4 and 6: A-stable.

    On a vector space they are symmetric and symplectic; on other groups order 2 stays symmetric. One step
    solves dim, 2 dim or 3 dim equations. They do not damp what is stiff: a decay faster than the step
    oscillates. Errors: IntegrationError for other orders.
    """

    takes_constraints = False

    def __init__(self, order: int = 4) -> None:
        if order not in (2, 4, 6):
            raise IntegrationError(f"there are Gauss methods of order 2, 4 and 6 here, not {order!r}")
        super().__init__(implicit_tableau(f"gauss{order}"))


class RadauIIA(Collocation):
    """Radau IIA methods of order 1 (implicit Euler), 3 and 5: L-stable, for stiff contacts and dampers.

    A motion that decays faster than the step is gone after it: of dv/dt = -k v a step leaves 2/(k h) v at
    order 3, 3/(k h) v at order 5. Constraints hold as J V_i = 0 at every stage and result, to round-off
    (index 2); g(q) = 0 then drifts with the order of the method. With J alone, without g, they need not be
    integrable. One step solves s (dim + m) equations with s = 1, 2, 3 stages. Errors: IntegrationError for
    other orders.

    Hairer, Lubich, Roche, "The numerical solution of differential-algebraic systems by Runge-Kutta methods"
    (1989): order 2 s - 1 of q and v in index 2.
    """

    takes_velocity_constraints = True

    def __init__(self, order: int = 5) -> None:
        if order not in (1, 3, 5):
            raise IntegrationError(f"there are Radau IIA methods of order 1, 3 and 5 here, not {order!r}")
        super().__init__(implicit_tableau(f"radau{order}"))


COLLOCATION: dict[str, Callable[[], Collocation]] = {
    "implicit-midpoint": lambda: Gauss(2),
    **{f"gauss{order}": partial(Gauss, order) for order in (2, 4, 6)},
    **{f"radau{order}": partial(RadauIIA, order) for order in (1, 3, 5)},
}
