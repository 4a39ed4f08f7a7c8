"""A variational integrator on Lie groups: symplectic, momentum preserving, with and without constraints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import IntegrationError
from ..scalars import Array
from ..scalars.linear import product
from ..stepping.records import Phase
from .equations import MechanicalEquations
from .mechanical_flow import MechanicalFlow
from .mechanical_method import MechanicalMethod
from .retractions import RETRACTIONS


class Variational(MechanicalMethod):
    """Stationary points of a discrete action: the Lie-group Verlet method, and RATTLE with constraints.

    The Lagrangian of a step from q to q' = q exp(Psi) is (1/2h) Psi^T M Psi - h (U(q) + U(q'))/2, with the
    mean of M at both ends where it is not constant. With the body momentum p = M v:

        dexp^-T_Psi M Psi/h = p + h/2 (Q(q) - J(q)^T lambda),          g(q') = 0           for Psi, lambda
        p' = Ad_exp(Psi)^T (p + h/2 (Q(q) - J(q)^T lambda)) + h/2 (Q(q') - J(q')^T mu),    J(q') M^-1 p' = 0

    Second order and symmetric. Symplectic where Q is the force of a potential: the energy error oscillates
    and does not grow; of a free body the spatial momentum Ad^-T p is constant to round-off. Position and
    velocity constraints hold to round-off. Other forces enter by the principle of Lagrange and d'Alembert,
    Q(t, q, v, u) with v = Psi/h at both ends. Inertial forces follow from M: Q must not contain them, and b
    is not used. A step solves dim + m equations, then m linear ones. p is remembered, so that the round-off
    of M^-1 does not add up in it.

    retraction  the map by which a step moves: "exp", as above, or "cay", Cayley's on SO(3) and SE(3), with
                dcay and Ad_cay in place of dexp and Ad_exp; all that is said here holds for both

    By Noether's theorem for the discrete action, p has the momentum of each symmetry of the Lagrangian of a
    step: of free bodies the linear and angular momentum (P, L) about the origin of space, also while the
    centre of mass c moves. The law c' = c + h P/m does not follow: it belongs to changes of frame by
    constant velocities. On SO(3) x R(3), where bodies move by h P_i/m_i, it holds as well, and with it the
    momentum about the centre of mass, L - c x P; on SE(3), and with joints on a free base, up to O(h^2).

    Moser, Veselov, Comm. Math. Phys. 139 (1991); Marsden, Pekarsky, Shkoller, Nonlinearity 12 (1999);
    Bou-Rabee, Marsden, Found. Comput. Math. 9 (2009); RATTLE: Andersen (1983); Jay, SIAM J. Numer. Anal. 33
    (1996).
    """

    name, order = "variational", 2

    def __init__(self, retraction: str = "exp") -> None:
        if retraction not in RETRACTIONS:
            expected = " or ".join(map(repr, RETRACTIONS))
            raise IntegrationError(f"retraction is {retraction!r}, expected {expected}")
        self.retraction = retraction

    def __repr__(self) -> str:
        return f"Variational({'' if self.retraction == 'exp' else 'retraction=' + repr(self.retraction)})"

    def _flow(self, system: MechanicalEquations, **options: Any) -> MechanicalFlow:
        """Two phases: Psi and lambda from the momentum at the start, then mu from the velocity constraint.

        One function, although it is long: all parts share the state (q, v, p) and its slices.
        """
        group = system.group
        nq = system.nq
        n = system.dim
        m = system.m
        tau = RETRACTIONS[self.retraction](group)

        def predict(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # Constant body velocity, without reactions.
            return np.concatenate([h * y[nq : nq + n], np.zeros(m, int)])

        def force(t: Any, q: Array, psi: Array, h: Any, u: Array) -> Array:
            """h Q at one end, and what the dependence of M on q adds there."""
            # The action has Psi^T M(q) Psi/(4h) for this end, with the gradient (d(M Psi)/dq)^T Psi/(4h).
            # Callers take one half of the result, so twice the gradient is added.
            Q = h * system.applied(t, q, psi / h, u)
            return Q if system.constant else Q + product(system.momentum_gradient(q, psi).T, psi) / (2 * h)

        def kicked(x: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            """p + h/2 (Q - J^T lambda) at the start, from the unknowns Psi, h^2 lambda."""
            q = y[:nq]
            psi = x[:n]
            multipliers = x[n:]
            p = y[nq + n :]
            p = p + 0.5 * force(t, q, psi, h, u[0])
            return p - system.reaction(q, multipliers) / (2 * h) if m else p

        def residual(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            q = y[:nq]
            psi = x[:n]
            q1 = tau.integrate(q, psi)
            # dL/dPsi of the step, times h. The mean of M at both ends makes the method symmetric.
            if system.constant:
                p = system.momentum(q, psi)
            else:
                p = product(0.5 * (system.mass(q) + system.mass(q1)), psi)
            balance = tau.dual("dtau_inverse", psi, p) - h * kicked(x, t, h, y, u)
            return np.concatenate([balance, system.constraint(q1)])

        def keep(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            """q' and p' without mu. From p, not from Psi: so momentum is kept whatever the error of Psi."""
            psi = x[:n]
            q1 = group.normalize(tau.integrate(y[:nq], psi))
            p = tau.dual("Ad", psi, kicked(x, t, h, y, u))
            return np.concatenate([q1, p + 0.5 * force(t + h, q1, psi, h, u[1])])

        def momentum(z: Array, impulse: Array) -> Array:
            """p' with the impulse h/2 mu."""
            return z[nq:] - system.reaction(z[:nq], impulse) if m else z[nq:]

        # mu acts at the end of the step only, so it is known when all the rest is: J M^-1 (p - J^T mu) = 0.
        def velocity_constraint(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            return system.constraint_rate(z[:nq], system.solve_mass(z[:nq], momentum(z, x)))

        def finish(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            q = z[:nq]
            p = momentum(z[: nq + n], z[nq + n :])
            return np.concatenate([q, system.solve_mass(q, p), p])

        def begin(t: Any, q: Array, v: Array, u: Array, h: Any) -> Array:
            return np.concatenate([q, v, system.momentum(q, v)])

        def soften_velocity(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            return system.proximal(z[:nq])

        # Without constraints the second phase has no unknowns. With independent ones it is linear; redundant
        # ones need the corrections of the proximal point method.
        phases = [Phase(predict, residual, keep, soften=system.softening(n))]
        if m:
            phases.append(
                Phase(
                    lambda z, t, h, y, u: np.zeros(m),
                    velocity_constraint,
                    linear=not system.redundant,
                    soften=soften_velocity,
                )
            )
        return MechanicalFlow(system, phases, finish, {"momentum": n}, begin, nodes=(0.0, 1.0), **options)
