"""Half-explicit Runge-Kutta-Munthe-Kaas methods, for systems constrained at the level of velocity."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import IntegrationError
from ..scalars import Array
from ..stepping.records import Phase
from .equations import MechanicalEquations
from .implicit_tableaux import implicit_tableau
from .mechanical_flow import MechanicalFlow, Stages
from .mechanical_method import MechanicalMethod


class HalfExplicit(MechanicalMethod):
    """The methods HEM3 and HEM4 of Brasey and Hairer, on any group: explicit but for the multipliers.

        Psi_i = h sum_(j<i) a_ij k_j,   V_i = v + h sum_(j<i) a_ij A_j,   k_i = dexp^-1_(-Psi_i) V_i
        M A_i + b + J^T lambda_i = Q,   J(q_(i+1)) V_(i+1) = 0        at q_i = q exp(Psi_i), for A_i, lambda_i

    and the result in place of the stage s + 1. So the velocity constraints hold to round-off at every stage
    and result, without derivatives of J. A step solves a linear system of dim + m equations per stage: 3
    stages at order 3, 5 at order 4. For motions that are not stiff. With J alone, without g, the constraints
    need not be integrable.

    order    3 or 4
    project  whether the result is moved onto g = 0, along M^-1 J^T, before the last velocity constraint is
             formed: then position constraints hold to round-off too, at the price of a system of m equations.
             Otherwise they drift, with the order of the method

    Brasey, Hairer, SIAM J. Numer. Anal. 30 (1993); Hairer, Wanner, "Solving Ordinary Differential Equations
    II", section VII.6.
    """

    takes_velocity_constraints = True

    def __init__(self, order: int = 4, project: bool = False) -> None:
        if order not in (3, 4):
            raise IntegrationError(f"there are half-explicit methods of order 3 and 4 here, not {order!r}")
        self.tableau = implicit_tableau(f"hem{order}")
        self.project = bool(project)
        self.order = order
        self.name = f"half-explicit{order}"

    def __repr__(self) -> str:
        return f"HalfExplicit(order={self.order}{', project=True' if self.project else ''})"

    def _flow(self, system: MechanicalEquations, **options: Any) -> MechanicalFlow:
        """One phase for each stage, and one for the projection onto g = 0.

        One function, although it is long: phases pass results on in z = (A_0, k_0, A_1, k_1, ..., q'), and
        every part reads it in this layout.
        """
        group = system.group
        nq = system.nq
        n = system.dim
        m = system.m
        s = self.tableau.stages
        c = self.tableau.c.tolist()
        # The result is reached like a stage s + 1, with b as its row.
        rows = [*self.tableau.A.tolist(), self.tableau.b.tolist()]
        project = self.project and system.holonomic and m > 0

        def combined(i: int, vectors: list[Array]) -> Array:
            """sum_j a_ij vectors_j over the stages that are known."""
            return sum((w * x for w, x in zip(rows[i], vectors, strict=False) if w), np.zeros(n, int))

        def known(z: Array, i: int) -> tuple[list[Array], list[Array]]:
            """A_j and k_j of the stages before i."""
            pairs = np.reshape(z[: 2 * n * i], (i, 2 * n))
            return [pair[:n] for pair in pairs], [pair[n:] for pair in pairs]

        def stage(i: int, z: Array, h: Any, y: Array) -> tuple[Array, Array, Array]:
            """q_i, V_i and k_i."""
            A, k = known(z, i)
            psi = h * combined(i, k)
            V = y[nq:] + h * combined(i, A)
            return group.integrate(y[:nq], psi), V, group.dexp_inverse_times(-psi, V)

        def end(z: Array, h: Any, y: Array, k: Array) -> Array:
            """q at the end of the step, before projection, from the last k."""
            return group.integrate(y[:nq], h * combined(s, [*known(z, s - 1)[1], k]))

        def predict(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # Linear equations: any guess will do.
            return np.zeros(n + m)

        def equations(i: int) -> Phase:
            def residual(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
                A = x[:n]
                multipliers = x[n:]
                q, V, k = stage(i, z, h, y)
                balance = (
                    system.momentum(q, A) + system.inertial(q, V) - system.applied(t + c[i] * h, q, V, u[i])
                )
                if not m:
                    return balance
                # q_(i+1) is known before A_i is, because it depends on k_0 to k_i only. So the constraint
                # J(q_(i+1)) V_(i+1) = 0 is linear in A_i, which enters V_(i+1) with the weight h a_(i+1)i.
                # At the last stage q_(i+1) is the result, which a projection has moved onto g = 0 before.
                earlier, ks = known(z, i)
                if i == s - 1:
                    following = z[2 * n * i :] if project else end(z, h, y, k)
                else:
                    following = group.integrate(y[:nq], h * combined(i + 1, [*ks, k]))
                V1 = y[nq:] + h * combined(i + 1, [*earlier, A])
                then = t + h * (1.0 if i == s - 1 else c[i + 1])
                # Divided by that weight, the matrix of A_i and lambda_i is [M J^T; J 0] for any step.
                rate = system.velocity_defect(then, following, V1) / (h * rows[i + 1][i])
                return np.concatenate([balance + system.reaction(q, multipliers, t + c[i] * h), rate])

            def keep(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
                return np.concatenate([x[:n], stage(i, z, h, y)[2]])

            # The proximal point method for redundant constraints needs several corrections.
            linear = not (m and system.redundant)
            return Phase(predict, residual, keep, linear, system.softening(n))

        def moved(x: Array, z: Array, h: Any, y: Array) -> Array:
            """q at the end, moved along M^-1 J^T x."""
            q = end(z, h, y, stage(s - 1, z, h, y)[2])
            return group.integrate(q, system.solve_mass(q, system.reaction(q, x)))

        projection = Phase(
            lambda z, t, h, y, u: np.zeros(m),
            lambda x, z, t, h, y, u: system.constraint(moved(x, z, h, y)),
            lambda x, z, t, h, y, u: group.normalize(moved(x, z, h, y)),
            soften=lambda x, z, t, h, y, u: -system.proximal(y[:nq]),
        )

        def finish(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # z ends with (A, k) of the last stage; with a projection, q' (nq,) stands before that.
            last = z[len(z) - 2 * n :] if project else z[2 * n * (s - 1) :]
            A, _ = known(z, s - 1)
            v = y[nq:] + h * combined(s, [*A, last[:n]])
            q = z[2 * n * (s - 1) : 2 * n * (s - 1) + nq] if project else end(z, h, y, last[n:])
            return np.concatenate([group.normalize(q), v])

        # The projection comes before the last stage, whose constraint is formed at the projected q'.
        phases = [equations(i) for i in range(s)]
        if project:
            phases.insert(s - 1, projection)

        def states(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # q_i, V_i of the stages, for integrals along the step with the weights b.
            return np.concatenate([x for i in range(s) for x in stage(i, z, h, y)[:2]])

        return MechanicalFlow(system, phases, finish, stages=Stages(rows[s], states), nodes=c, **options)
