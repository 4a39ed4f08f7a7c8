"""Swing an acrobot up: multiple shooting by CasADi and IPOPT over steps that liebody compiles.

    python examples/casadi_swing_up.py [casadi_swing_up.png]

The acrobot is a double pendulum with a drive at its elbow only. The unknowns are its states at the knots
and the torques between them. The constraints say that each knot is one step after the knot before. This
step is exactly the step of the simulation, so a simulation with the optimal torques ends where the solver
says. IPOPT gets exact Jacobians and Hessians from compiled code.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import liebody as lb

STEP, KNOTS, MOST = 0.05, 80, 20.0  # s; number of steps; N m
UPRIGHT = np.array([np.pi, 0.0])


def solve(robot):
    """States (KNOTS + 1, 4) and torques (KNOTS,) with the least sum of squares, and IPOPT's status."""
    import casadi

    traced = lb.stepper(robot, dt=STEP).function()
    step = lb.compiler.to_casadi_external(traced).map(KNOTS)
    x, u = casadi.MX.sym("x", 4, KNOTS + 1), casadi.MX.sym("u", 1, KNOTS)
    efforts = casadi.vertcat(casadi.MX.zeros(1, KNOTS), u)
    q, v = step(casadi.MX.zeros(1, KNOTS), x[:2, :-1], x[2:, :-1], efforts)
    ends = casadi.vertcat(x[:, 0], x[:, -1] - np.concatenate([UPRIGHT, [0, 0]]))
    defects = casadi.vertcat(casadi.vec(x[:, 1:] - casadi.vertcat(q, v)), ends)
    problem = {"x": casadi.veccat(x, u), "f": STEP * casadi.sumsqr(u), "g": defects}
    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "max_iter": 500}}
    solver = casadi.nlpsol("solver", "ipopt", problem, options)
    size = x.numel()
    start = np.concatenate([np.zeros(size), 5 * np.sin(3 * STEP * np.arange(KNOTS))])  # it hangs
    bound = np.concatenate([np.full(size, np.inf), np.full(KNOTS, MOST)])
    found = solver(x0=start, lbx=-bound, ubx=bound, lbg=0, ubg=0)["x"].full()[:, 0]
    states, torques = np.split(found, [size])
    return states.reshape(-1, 4), torques, solver.stats()


def main(path: str | None = None) -> dict[str, Any]:
    robot = lb.models.double_pendulum()
    states, torques, stats = solve(robot)
    sim = lb.stepper(robot, dt=STEP)
    state = sim.start()
    for u in torques:
        state = sim.step(state, [0, u])
    cost = STEP * np.sum(torques**2)
    missed = np.abs(np.concatenate([state.q - UPRIGHT, state.v])).max()
    print(f"{stats['return_status']} after {stats['iter_count']} iterations")
    print(f"torques up to {np.abs(torques).max():.2f} N m, cost {cost:.3f}")
    print(f"played in a simulation it ends within {missed:.0e} of upright")
    if path:
        draw(path, states, torques)
    return {"states": states, "cost": cost, "missed": missed}


def draw(path, states, torques):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    t = STEP * np.arange(KNOTS + 1)
    left.plot(t, states[:, 0], label="shoulder")
    left.plot(t, states[:, 1], label="elbow")
    left.axhline(np.pi, color="0.8", zorder=0)
    left.set(xlabel="t [s]", ylabel="angle [rad]")
    left.legend(frameon=False)
    right.stairs(torques, t)
    right.set(xlabel="t [s]", ylabel="torque at the elbow [N m]")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
