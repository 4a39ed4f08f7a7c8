"""Collocation methods on any Lie group: Gauss (the implicit midpoint rule first), and Radau IIA.

A Runge-Kutta-Munthe-Kaas step from g, with stages

    Psi_i = h sum_j A_ij k_j,   k_i = dexp^-1_{-Psi_i} F(t + c_i h, g exp Psi_i),   to g exp(h sum_i b_i k_i)

and a regular matrix A. So the unknowns can be the Psi_i, with h k_i = sum_j W_ij Psi_j, W = A^-1. For a
mechanical system that halves the equations: the velocities V_i = dexp_{-Psi_i} k_i and then dV_i/dt follow
from Psi, and only the balance of forces is left to solve (dim equations per stage instead of 2 dim).

Hairer, Wanner, "Solving Ordinary Differential Equations II", sections IV.3, IV.5; Munthe-Kaas (1999).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen.implicit import ImplicitFlow, Phase
from ..errors import IntegrationError
from ..groups import LieGroup
from ..scalar import Array
from .implicit_tableaux import ImplicitTableau, implicit_tableau
from .mechanics import MechanicalFlow, MechanicalMethod, Mechanics


class Collocation(MechanicalMethod):
    """A collocation method, by its tableau; `Gauss` and `RadauIIA` choose from those that there are."""

    def __init__(self, tableau: ImplicitTableau) -> None:
        self.tableau, self.name, self.order = tableau, tableau.name, tableau.order
        self.W = np.linalg.inv(tableau.A)
        self.ends = np.eye(tableau.stages)[-1] if tableau.stiffly_accurate else tableau.b @ self.W

    def __repr__(self) -> str:
        return f"{type(self).__name__}(order={self.order})"

    def _combined(self, weights: Array, vectors: Any) -> Array:
        """sum_j weights_j vectors_j; weights that are zero cost nothing."""
        return sum(
            (float(w) * x for w, x in zip(weights, vectors, strict=True) if w), np.zeros_like(vectors[0])
        )

    def field_flow(
        self,
        group: LieGroup,
        F: Callable[..., Any],
        efforts: int = 0,
        tolerance: float = 1e-15,
        recipe: str | None = None,
    ) -> ImplicitFlow:
        """The compiled steps for g^-1 dg/dt = F(t, q, u), any vector field on any group; y is q (nq,)."""
        c, s, n = self.tableau.c.tolist(), self.tableau.stages, group.dim

        def predict(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            f = F(t, y, u[0])
            return np.concatenate([x * h * f for x in c])

        def residual(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            psi = np.reshape(x, (s, n))
            rows = []
            for i in range(s):
                f = F(t + c[i] * h, group.integrate(y, psi[i]), u[i])
                rows.append(self._combined(self.W[i], psi) - h * group.dexp_inverse_times(-psi[i], f))
            return np.concatenate(rows)

        def finish(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            psi = np.reshape(z, (s, n))
            return group.normalize(group.integrate(y, self._combined(self.ends, psi)))

        phases, recipe = [Phase(predict, residual)], f"{recipe} {self!r}" if recipe else None
        return ImplicitFlow(phases, finish, group.nq, efforts, c, tolerance, recipe=recipe)

    def _flow(self, system: Mechanics, **options: Any) -> MechanicalFlow:
        group, nq, n, m = system.group, system.nq, system.dim, system.m
        c, s = self.tableau.c.tolist(), self.tableau.stages

        def velocities(psi: Array, h: Any) -> list[Array]:
            """V_i = dexp_{-Psi_i} k_i."""
            return [group.dexp(-psi[i]) @ (self._combined(self.W[i], psi) / h) for i in range(s)]

        def predict(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            return np.concatenate([*(x * h * y[nq:] for x in c), np.zeros(s * m, int)])

        def residual(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            """h^2 (M dV_i/dt + b + J^T lambda_i - Q), with h dV_i/dt = sum_j W_ij (V_j - v), and h J V_i."""
            q, v = y[:nq], y[nq:]
            psi, multipliers = np.reshape(x[: s * n], (s, n)), np.reshape(x[s * n :], (s, m))
            V = velocities(psi, h)
            rows, rates = [], []
            for i in range(s):
                place = group.integrate(q, psi[i])
                A = self._combined(self.W[i], [w - v for w in V])
                forces = system.inertial(place, V[i]) - system.applied(t + c[i] * h, place, V[i], u[i])
                balance = h * (system.mass(place) @ A) + h * h * forces
                if m:
                    J = system.jacobian(place)
                    balance = balance + J.T @ multipliers[i]
                    rates.append(h * (J @ V[i]))
                rows.append(balance)
            return np.concatenate([*rows, *rates])

        def finish(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            q, v, psi = y[:nq], y[nq:], np.reshape(z[: s * n], (s, n))
            V = velocities(psi, h)
            after = group.normalize(group.integrate(q, self._combined(self.ends, psi)))
            if self.tableau.stiffly_accurate:
                return np.concatenate([after, V[-1]])
            return np.concatenate([after, v + self._combined(self.ends, [w - v for w in V])])

        def soften(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            return np.concatenate([np.zeros(s * n, int), *[system.proximal(y[:nq])] * s])

        phases = [Phase(predict, residual, soften=soften)]
        return MechanicalFlow(system, phases, finish, nodes=c, **options)


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

    What decays faster than the step is gone after it: of dv/dt = -k v a step leaves 2/(k h) v at order 3,
    3/(k h) v at order 5. Constraints hold as J V_i = 0 at every stage and result, to round-off (index 2);
    g(q) = 0 then drifts with the order of the method. With J alone, without g, they need not be integrable.
    One step solves s (dim + m) equations with s = 1, 2, 3 stages. Errors: IntegrationError for other orders.

    Hairer, Lubich, Roche, "The numerical solution of differential-algebraic systems by Runge-Kutta methods"
    (1989): order 2 s - 1 of q and v in index 2.
    """

    takes_velocity_constraints = True

    def __init__(self, order: int = 5) -> None:
        if order not in (1, 3, 5):
            raise IntegrationError(f"there are Radau IIA methods of order 1, 3 and 5 here, not {order!r}")
        super().__init__(implicit_tableau(f"radau{order}"))
