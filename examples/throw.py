"""Throw far: the best efforts of a two-link arm, by the gradient of where the stone lands.

    python examples/throw.py

An arm of two rods holds a stone of 0.5 kg and releases it after 0.6 s. Its two drives have at most 4 N m.
The efforts are given at 31 instants and interpolated, and they cost a little. The landing point is a
function of the state at the release, written in NumPy. One simulation, and one sweep backwards through
it, give the distance and its derivatives by all 62 numbers. These derivatives are exact for the steps
that were taken. scipy's L-BFGS-B finds the best efforts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

import liebody as lb
from liebody.scalars import cos, sin, sqrt

LENGTHS, HEIGHT, G = (0.6, 0.5), 1.0, 9.81  # of the rods and of the shoulder [m]; [m/s2]
RELEASE, LIMIT, PRICE = 0.6, 4.0, 2e-3  # [s], [N m], [m/(N m)^2/s]
TIMES = np.linspace(0, RELEASE, 31)


def landing(q: Any, v: Any) -> Any:
    """Where a stone lands that the arm lets go of in this state.                                       [m]"""
    (a, b), (first, second), total = LENGTHS, (q[0], q[0] + q[1]), v[0] + v[1]
    x, y = a * sin(first) + b * sin(second), HEIGHT - a * cos(first) - b * cos(second)
    forward = a * cos(first) * v[0] + b * cos(second) * total
    up = a * sin(first) * v[0] + b * sin(second) * total
    return x + forward * (up + sqrt(up * up + 2 * G * y)) / G


def swing(arm: lb.Robot, tau: Any) -> Any:
    """The motion, hanging down at first, and its derivatives."""
    return lb.sensitivities(
        arm, [0.0, 0.0], t_end=RELEASE, dt=5e-3, tau=(TIMES, tau), hold="linear",
        running=lambda t, q, v, u: PRICE * (u @ u),
    )  # fmt: skip


def main() -> dict[str, Any]:
    arm = lb.Robot(lb.models.double_pendulum(masses=(1.0, 0.5), lengths=LENGTHS).tree)
    shape, found = (len(TIMES), 2), []

    def cost(x: Any) -> tuple[float, Any]:
        """The cost and its gradient: price of the efforts minus the distance."""
        value, gradient = swing(arm, x.reshape(shape)).gradient(end=lambda q, v: -landing(q, v))
        found.append(float(value))
        return float(value), gradient.tau.ravel()

    start = np.full(shape, 1.0)
    bounds, options = [(-LIMIT, LIMIT)] * start.size, {"maxiter": 500}
    best = minimize(cost, start.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    thrown = {}
    for name, tau in (("at first", start), ("at best", best.x.reshape(shape))):
        run = swing(arm, tau).run
        thrown[name] = float(landing(run.q[-1], run.v[-1]))
        print(f"{name}: {thrown[name]:.2f} m")
    print(f"{len(found)} simulations with gradients, {best.nit} iterations")
    return {"thrown": thrown, "tau": best.x.reshape(shape), "slope": best.jac, "costs": found}


if __name__ == "__main__":
    main()
