"""A wing nut that turns over: a free rigid body, integrated on SO(3) with `solve_ivp`.

Rotation about the axis of intermediate inertia is unstable (Euler; seen in orbit by Dzhanibekov): the
body turns over again and again. Attitude and body-fixed angular velocity are a point of SO(3) x R^3, and
Euler's equations give its velocity. An event marks each time when the body is half-way over. Physics
conserves the angular momentum R J omega in space, but the method does not enforce it. So its change
measures the error.

    python examples/rigid_body_on_so3.py

prints

    245 steps, 9 rejected, 1526 evaluations of F
    half-way over at t = 6.059 17.037 28.014 s
    momentum in space off by 4.9e-08 of its size
    quaternions unit to 1e-15: True
"""

import numpy as np

import liebody as lb
from liebody.groups import SO3, Product, R

INERTIA = np.array([1.0, 2.0, 3.0])  # kg m2, about the principal axes


def velocity(t, q):
    """(omega, d omega/dt) of a body on which no torque acts: J domega/dt = J omega x omega."""
    omega = q[4:]
    return np.concatenate([omega, np.cross(INERTIA * omega, omega) / INERTIA])


def half_way(t, q):
    """The angular velocity about the intermediate axis passes through zero."""
    return q[5]


def momentum(q):
    """Angular momentum in space, R J omega."""
    return SO3.element(q[:4]) @ (INERTIA * q[4:])


def main():
    start = np.concatenate([SO3.neutral(), [0.01, 2.0, 0.01]])  # spinning about the second axis, almost
    run = lb.solve_ivp(
        velocity, (0, 30), start, Product(SO3, R(3)), rtol=1e-8, atol=1e-8, events=half_way, dense_output=True
    )
    states = run.sol(np.linspace(0, 30, 301))
    drift = max(np.linalg.norm(momentum(q) - momentum(start)) for q in states) / np.linalg.norm(
        momentum(start)
    )
    unit = np.abs(np.linalg.norm(states[:, :4], axis=1) - 1).max()

    print(f"{run.steps} steps, {run.rejected} rejected, {run.nfev} evaluations of F")
    print("half-way over at t =", *(f"{t:.3f}" for t in run.t_events[0]), "s")
    print(f"momentum in space off by {drift:.1e} of its size")
    print("quaternions unit to 1e-15:", unit < 1e-15)
    return run


if __name__ == "__main__":
    main()
