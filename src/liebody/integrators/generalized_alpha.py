"""The generalized-alpha method on Lie groups, for systems with and without constraints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import IntegrationError
from ..scalars import Array, absolute, maximum
from ..stepping.records import Control, Memory, Phase
from .equations import MechanicalEquations
from .mechanical_flow import MechanicalFlow
from .mechanical_method import MechanicalMethod


class GeneralizedAlpha(MechanicalMethod):
    """The Lie-group generalized-alpha method: second order, damping of high frequencies as chosen, index 3.

        M(q') dv' + b(q', v') + J(q')^T lambda' = Q(t', q', v', u'),        g(q') = 0
        q' = q exp(h Delta),        Delta = v + (1/2 - beta) h a + beta h a'
        v' = v + (1 - gamma) h a + gamma h a'
        (1 - alpha_m) a' + alpha_m a = (1 - alpha_f) dv' + alpha_f dv       (' at the end of the step)

    rho_inf  spectral radius at infinite frequency, 0 to 1: 1 damps nothing (and is only for systems without
             constraints), 0 annihilates what is fast in a step; 0.8 to 0.9 is usual

    The position constraints hold to round-off. Those of velocity are not part of the equations and hold to
    O(h^2). a is dv/dt at t + (alpha_m - alpha_f) h, and remembered with dv/dt and lambda. `start` makes a of
    second order and adds to v, in the directions of the constraints, what the steps would otherwise correct
    by spurious oscillations of lambda, O(h^2) (Arnold, Brüls, Cardona, Numer. Math. 129 (2015), section 4.2).
    A step solves dim + m equations.

    Error control compares with expansions on the accelerations at both ends, which are exact to h^3 and h^2:

        Psi - (h v + h^2 (2 dv + dv')/6 + h^3 ad_v dv/12),        h ((1 - gamma) a + gamma a' - (dv + dv')/2),

    When steps become r times as long, so does a - dv, and the shift of v r^2 times as large: second order
    holds, of lambda too. Where efforts jump, dv, a and lambda start again from those after the jump. Within a
    step, motion and velocity are the method's own, where a goes over into a':

        Psi(s) = s h v + s^2 h^2/2 a + s^3 h^2 beta (a' - a),        v(s) = v + s h a + s^2 h gamma (a' - a)

    Brüls, Cardona, Arnold, Mech. Mach. Theory 48 (2012), eqs (31) to (36); Chung, Hulbert (1993).
    """

    name, order = "generalized-alpha", 2
    estimates_errors = True

    def __init__(self, rho_inf: float = 0.9) -> None:
        if not 0 <= rho_inf <= 1:
            raise IntegrationError(f"rho_inf is {rho_inf!r}, expected a number from 0 to 1, such as 0.9")
        self.rho_inf = float(rho_inf)
        # The choice of Chung, Hulbert (1993): second order, unconditional stability of linear systems, least
        # damping of low frequencies for this rho_inf.
        self.alpha_m = (2 * rho_inf - 1) / (rho_inf + 1)
        self.alpha_f = rho_inf / (rho_inf + 1)
        self.gamma = 0.5 + self.alpha_f - self.alpha_m
        self.beta = 0.25 * (self.gamma + 0.5) ** 2

    def __repr__(self) -> str:
        return f"GeneralizedAlpha(rho_inf={self.rho_inf!r})"

    def _flow(self, system: MechanicalEquations, **options: Any) -> MechanicalFlow:
        """The steps, with their start, error control, dense output and memory of accelerations.

        One function, although it is long: all parts share the state (q, v, dv/dt, a, lambda) and the four
        parameters, and follow the docstring of the class equation by equation.
        """
        if system.m and self.rho_inf == 1:
            raise IntegrationError("rho_inf = 1 does not damp the multipliers: take 0.9, for instance")
        group = system.group
        n = system.dim
        m = system.m
        alpha_m, alpha_f, gamma, beta = self.alpha_m, self.alpha_f, self.gamma, self.beta
        ends = np.cumsum([system.nq, n, n, n])

        def split(y: Array) -> list[Array]:
            """q, v, dv/dt, a, lambda."""
            return np.split(y, ends)

        def predict(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            # As if a' = a and lambda' = lambda. Multipliers of redundant constraints start from zero, because
            # Newton's method would keep the part of the guess that has no effect, and their norm would grow.
            _, v, _, a, multipliers = split(y)
            known = np.zeros(m, int) if system.redundant else h * h * multipliers
            return np.concatenate([h * v + 0.5 * h * h * a, known])

        def after(psi: Array, h: Any, y: Array) -> tuple[Array, Array, Array, Array]:
            """q', v', dv', a' from Psi = h Delta."""
            # Solve Psi = h v + h^2 ((1/2 - beta) a + beta a') for a', then the third equation for dv'.
            q, v, dv, a, _ = split(y)
            a1 = ((psi / h - v) / h - (0.5 - beta) * a) / beta
            dv1 = ((1 - alpha_m) * a1 + alpha_m * a - alpha_f * dv) / (1 - alpha_f)
            return group.integrate(q, psi), v + h * ((1 - gamma) * a + gamma * a1), dv1, a1

        def residual(x: Array, z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            """Unknowns Psi and h^2 lambda', which keeps the equations well scaled for any h."""
            q1, v1, dv1, _ = after(x[:n], h, y)
            inertial = system.momentum(q1, dv1) + system.inertial(q1, v1)
            forces = inertial - system.applied(t + h, q1, v1, u[0])
            balance = h * h * forces + (system.reaction(q1, x[n:]) if m else 0)
            # g(q') = 0 itself (index 3): position constraints cannot drift.
            return np.concatenate([balance, system.constraint(q1)])

        def finish(z: Array, t: Any, h: Any, y: Array, u: Array) -> Array:
            q1, v1, dv1, a1 = after(z[:n], h, y)
            return np.concatenate([group.normalize(q1), v1, dv1, a1, z[n:] / (h * h)])

        def shift(q: Array, v: Array, dv: Array, square: Any) -> Array:
            """v with what the constraints ask for, with `square` for h^2.

            A step from the exact motion would miss its end by h^3 l. The constraints correct that in their
            directions, if not by spurious forces then by the velocity v + h^2 l.
            """
            if not m:
                return v
            # h^3 l is the local error of Psi, mapped to the constraints by J: c d2v/dt2 as on a vector space,
            # and the commutator [v, dv/dt]/12 of the group.
            c = 1 / 6 - beta - 0.5 * (alpha_m - alpha_f)
            l = c * system.constraint_jerk(q, v, dv) + system.constraint_rate(q, system.bracket(v, dv)) / 12
            return v + square * system.react(q, l)[1]

        def begin(t: Any, q: Array, v: Array, u: Array, h: Any) -> Array:
            """q, v, dv/dt, a = dv/dt at t + (alpha_m - alpha_f) h, lambda; v a little shifted."""
            # A step of length s with constant dv/dt leads to the time of a, to the second order that a needs.
            s = (alpha_m - alpha_f) * h
            dv, multipliers = system.acceleration(t, q, v, u)
            place = group.normalize(group.integrate(q, s * v + 0.5 * s * s * dv))
            a = system.acceleration(t + s, place, v + s * dv, u)[0]
            return np.concatenate([q, shift(q, v, dv, h * h), dv, a, multipliers])

        def error(z: Array, t: Any, h: Any, y: Array, u: Array, end: Array) -> tuple[Array, Array]:
            # The expansions of the docstring: of Psi the Magnus series up to its first commutator, of v the
            # trapezoidal rule.
            _, v, dv, a, _ = split(y)
            _, v1, dv1, a1, _ = split(end)
            psi = h * v + h * h / 6 * (2 * dv + dv1) + h**3 / 12 * system.bracket(v, dv)
            slope = h * ((1 - gamma) * a + gamma * a1 - 0.5 * (dv + dv1))
            return np.concatenate([z[:n] - psi, slope]), np.concatenate(
                [np.ones(n), maximum(absolute(v), absolute(v1))]
            )

        def between(s: Any, z: Array, t: Any, h: Any, y: Array, u: Array, end: Array) -> Array:
            # Cubic Psi, quadratic v; straight lines between the remembered values are accurate enough.
            q, v, dv, a, multipliers = split(y)
            _, _, dv1, a1, multipliers1 = split(end)
            psi = s * h * v + s * s * h * h * (0.5 * a + s * beta * (a1 - a))
            place = group.normalize(group.integrate(q, psi))
            linear = [x + s * (x1 - x) for x, x1 in ((dv, dv1), (a, a1), (multipliers, multipliers1))]
            return np.concatenate([place, v + s * h * (a + s * gamma * (a1 - a)), *linear])

        def fit(y: Array, last_h: Any, h: Any) -> Array:
            # a - dv is proportional to h, and the shift of v to h^2: scale both to the new step.
            q, v, dv, a, multipliers = split(y)
            v = shift(q, v, dv, h * h - last_h * last_h)
            return np.concatenate([q, v, dv, dv + h / last_h * (a - dv), multipliers])

        def restart(y: Array, last_h: Any, t: Any, h: Any, u: Array) -> Array:
            # Undo the shift of the last step, which gives the velocity of the motion, and begin anew with it.
            q, v, dv, _, _ = split(y)
            return begin(t, q, shift(q, v, dv, -last_h * last_h), u[0], h)

        # The error estimate costs no further equations: it goes with h^3, the local error of second order.
        phases = [Phase(predict, residual, soften=system.softening(n))]
        remembers = {"acceleration": n, "a": n, "multipliers": m}
        options["control"] = Control(3, [], error, between)
        options["memory"] = Memory(fit, restart)
        return MechanicalFlow(system, phases, finish, remembers, begin, nodes=(1.0,), **options)
