"""Computed torque: a control law that contains the robot's dynamics, compiled into the simulation loop.

    python examples/computed_torque.py

The law tau = M(q) (a_d + D (v_d - v) + K (q_d - q)) + C(q, v) v + g(q) is inverse dynamics with a
corrected acceleration. It calls the same function that `robot.inverse_dynamics` compiles. `simulate`
traces the law, so robot, controller and integrator are one C loop. In the second run, the law assumes a
last link that is 30 % lighter than the real one. The error then settles where the stiffness K balances
the missing weight.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

import liebody as lb
from liebody import dynamics, scalars

K, D = 400.0, 40.0  # critically damped, 20 rad/s
AMPLITUDE = np.array([0.5, 0.4, -0.5, 0.3, 0.6, -0.4])


def reference(t):
    """Desired angles, velocities and accelerations."""
    return AMPLITUDE * scalars.sin(t), AMPLITUDE * scalars.cos(t), -AMPLITUDE * scalars.sin(t)


def computed_torque(tree):
    """The feedback tau(t, q, v) that knows the robot as `tree`."""

    def tau(t, q, v):
        q_d, v_d, a_d = reference(t)
        return dynamics.inverse_dynamics(tree, q, v, a_d + D * (v_d - v) + K * (q_d - q))

    return tau


def lighter(tree, factor):
    """The same tree with the mass and inertia of its last body scaled."""
    body = tree.bodies[-1]
    inertia = lb.SpatialInertia(
        factor * body.inertia.mass, body.inertia.com, factor * body.inertia.rotational
    )
    return replace(tree, bodies=(*tree.bodies[:-1], replace(body, inertia=inertia)))


def main():
    robot = lb.models.puma560()
    loaded = lighter(robot.tree, 20.0)  # a payload of 1.7 kg in the hand
    robot = lb.Robot(loaded)
    errors = {}
    for name, believed in (("true model", loaded), ("hand 30 % lighter", lighter(loaded, 0.7))):
        start = time.perf_counter()
        run = lb.simulate(robot, t_end=5.0, dt=1e-3, tau=computed_torque(believed), joints={"armature"})
        seconds = time.perf_counter() - start
        q_d = np.array([reference(t)[0] for t in run.t])
        errors[name] = np.abs(run.q - q_d).max(axis=1)
        last = errors[name][run.t > 4.0].max()
        print(f"{name:18s} error {errors[name].max():.1e} rad at most, {last:.1e} in the last second")
        print(f"{'':18s} controller {run.metadata['efforts']}; {seconds:.2f} s with compiling")
    return errors


if __name__ == "__main__":
    main()
