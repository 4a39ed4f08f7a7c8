"""A satellite moves its hand along a circle, and its own momentum stays untouched.

    python examples/space_robot.py [picture.png]

Nothing holds the satellite, so it reacts to every motion of its arm. Three controllers move the arm. The
equations of external and internal motion are in docs/floating-bases.md:

    decoupled       efforts of the joints alone, from the internal Jacobian (of Umetani and Yoshida) and the
                    internal inertia; the satellite moves freely
    naive           the same law with the Jacobian and the mass matrix of an arm that stands on the ground
    held            naive, while thrusters hold the satellite where it was

The hand has to follow a circle within twenty seconds, upright, from rest to rest. All controllers are
compiled into the loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import liebody as lb
from liebody import dynamics, scalars
from liebody.groups import SE3

Array = Any
DURATION = 20.0  # [s]
STEP = 0.02  # of RK4 [s]
RADIUS = 0.2  # of the circle [m]
K, D = 9.0, 6.0  # of the hand, [1/s2, 1/s]
SLACK = 2.0  # damping of the arm's motions that do not move the hand [1/s]
HOLD = 1.0  # bandwidth of the thrusters [rad/s]
ARM = np.array([0.0, 0.5, 0.3, 1.3, -0.2, 1.0, 0.0])  # at the start [rad]
FORWARD, SIDEWAYS = np.array([0.8, 0.6, 0.0]), np.array([0.0, 0.0, 1.0])  # directions of the circle

ROBOT = lb.models.space_robot()
START = np.concatenate([ROBOT.neutral()[:7], ARM])
HAND = ROBOT.pose(START, "hand")


class Flight(NamedTuple):
    """The results of one simulation.

    t (n,) [s]; q (n, nq); the hand's distance from its path (n,) [m]; the momentum about the centre of mass
    (n, 6) [N m s, N s]; the satellite's turn (n,) [rad].
    """

    t: Array
    q: Array
    miss: Array
    momentum: Array
    turn: Array


def path(t: Any) -> tuple[Array, Array, Array]:
    """Desired position, velocity and acceleration of the hand in the world: a circle, timed by a quintic."""
    s = scalars.minimum(t / DURATION, 1.0)
    angle = 2 * np.pi * s**3 * (10 - 15 * s + 6 * s**2)
    rate = 2 * np.pi * 30 * s**2 * (1 - s) ** 2 / DURATION
    rise = 2 * np.pi * 60 * s * (1 - s) * (1 - 2 * s) / DURATION**2
    c, si = scalars.cos(angle), scalars.sin(angle)
    inward, along = FORWARD * (1 - c) + SIDEWAYS * si, FORWARD * si + SIDEWAYS * c
    turning = FORWARD * c - SIDEWAYS * si
    return HAND[:3, 3] - RADIUS * inward, -RADIUS * rate * along, -RADIUS * (rise * along + rate**2 * turning)


def wanted(t: Any, pose: Array, twist: Array) -> Array:
    """The acceleration (6,) that keeps the hand on its path and upright, in the world's axes ("mixed")."""
    position, velocity, acceleration = path(t)
    E = HAND[:3, :3] @ pose[:3, :3].T
    tilt = 0.5 * np.array([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]])
    return np.concatenate(
        [
            K * tilt - D * twist[:3],
            acceleration + D * (velocity - twist[3:]) + K * (position - pose[:3, 3]),
        ]
    )


TASK = dynamics.Task("hand", representation="mixed")


def decoupled(t: Any, q: Array, v: Array) -> Array:
    """Efforts of the joints alone: My q'' + Cyx v_x + Cy q', with v_x the momentum, which stays."""
    tree = ROBOT.tree
    rates = v[6:]
    equations = dynamics.decoupled_dynamics(tree, q, v, "momentum", gravity=(0, 0, 0))
    external = dynamics.decoupled_velocity(tree, q, v, "momentum")[:6]
    # the acceleration with constant v_x and v_y
    drift = dynamics.decoupling_transform_rate(tree, q, v, "momentum") @ v
    drift = -dynamics.velocity_from_decoupled(tree, q, drift, "momentum")
    J = dynamics.internal_jacobian(tree, q, TASK)
    J_inverse = dynamics.generalized_inverse(J, equations.My)
    pose = dynamics.frame_pose(tree, q, "hand")
    want = wanted(t, pose, dynamics.frame_twist(tree, q, v, "hand", "mixed"))
    want = want - dynamics.frame_acceleration(tree, q, v, drift, "hand", "mixed")
    a = J_inverse @ (want + SLACK * (J @ rates)) - SLACK * rates
    tau = equations.My @ a + equations.Cyx @ external + equations.Cy @ rates
    return np.concatenate([np.zeros(6, int), tau])


def naive(t: Any, q: Array, v: Array) -> Array:
    """The same law, which assumes that the satellite stands still at its start."""
    tree = ROBOT.tree
    q, v = np.concatenate([START[:7], q[7:]]), np.concatenate([np.zeros(6, int), v[6:]])
    rates = v[6:]
    J = dynamics.frame_jacobian(tree, q, "hand", "mixed")[:, 6:]
    inertia = dynamics.mass_matrix(tree, q)[6:, 6:]
    J_inverse = dynamics.generalized_inverse(J, inertia)
    pose = dynamics.frame_pose(tree, q, "hand")
    want = wanted(t, pose, dynamics.frame_twist(tree, q, v, "hand", "mixed"))
    want = want - dynamics.frame_acceleration(tree, q, v, np.zeros(13, int), "hand", "mixed")
    a = J_inverse @ (want + SLACK * (J @ rates)) - SLACK * rates
    tau = inertia @ a + dynamics.bias_forces(tree, q, v, (0, 0, 0))[6:]
    return np.concatenate([np.zeros(6, int), tau])


def held(t: Any, q: Array, v: Array) -> Array:
    """The naive law, with thrusters that hold the satellite like a spring and a damper."""
    inertia = dynamics.locked_inertia(ROBOT.tree, START)
    away = SE3.difference(START[:7], q[:7])
    wrench = -inertia @ (HOLD**2 * away + 2 * HOLD * v[:6])
    return np.concatenate([wrench, naive(t, q, v)[6:]])


def fly(law: Callable[..., Array], v0: Array | None = None, dt: float = STEP) -> Flight:
    """Simulate the robot under a law, from rest or with velocities v0 (13,)."""
    run = lb.simulate(ROBOT, START, v0, t_end=DURATION, dt=dt, tau=law, record_every=0.1)
    hand = ROBOT.pose(run.q, "hand")[:, :3, 3]
    miss = np.linalg.norm(hand - [path(t)[0] for t in run.t], axis=1)
    momentum = ROBOT.decoupled_velocity(run.q, run.v, "momentum")[:, :6]
    turn = 2 * np.arctan2(np.linalg.norm(run.q[:, 1:4], axis=1), np.abs(run.q[:, 0]))
    return Flight(run.t, run.q, miss, momentum, turn)


def main(picture: str | None = None) -> dict[str, Flight]:
    print(ROBOT.internal_rank(START, TASK))
    flights = {law.__name__: fly(law) for law in (decoupled, naive, held)}
    for name, flight in flights.items():
        l, p = (np.linalg.norm(x, axis=1).max() for x in np.split(flight.momentum, 2, axis=1))
        print(
            f"{name:10s} hand off by {1e3 * flight.miss.max():7.3f} mm at most; momentum up to {l:.1e} N m s "
            f"and {p:.1e} N s; satellite turned by {np.degrees(flight.turn[-1]):5.2f} deg at the end"
        )
    if picture:
        draw(flights, picture)
    return flights


def draw(flights: dict[str, Flight], picture: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(16, 4.4), layout="constrained")
    titles = {"decoupled": "Decoupled: the satellite gives way", "naive": "Naive: the hand misses"}
    circle = np.array([path(t)[0] for t in np.linspace(0, DURATION, 200)])
    for axes, (name, title) in zip(panels, titles.items(), strict=False):
        flight = flights[name]
        for moment, shade in zip(
            np.linspace(0, len(flight.t) - 1, 5).astype(int)[:-1], (1.0, 0.6, 0.4, 0.25)
        ):
            _satellite(axes, flight.q[moment], shade)
        hand = ROBOT.pose(flight.q, "hand")[:, :3, 3]
        axes.plot(circle[:, 0], circle[:, 2], color="C3", lw=3, alpha=0.4, label="wanted")
        axes.plot(hand[:, 0], hand[:, 2], color="k", lw=1, label="hand")
        axes.set(
            title=title, xlabel="x [m]", ylabel="z [m]", aspect="equal", xlim=(-0.75, 1.25), ylim=(-0.6, 1.4)
        )
        axes.legend(frameon=False, loc="upper left")
    for name, color in (("decoupled", "C0"), ("naive", "C1"), ("held", "C2")):
        flight = flights[name]
        panels[2].semilogy(flight.t, 1e3 * flight.miss + 1e-9, color=color, label=name)
        panels[3].semilogy(flight.t, np.abs(flight.momentum).max(axis=1) + 1e-17, color=color, label=name)
    panels[2].set(title="Distance of the hand from its path", xlabel="t [s]", ylabel="[mm]")
    panels[3].set(title="Momentum: largest entry", xlabel="t [s]", ylabel="[N m s, N s]")
    for axes in panels[2:]:
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def _satellite(axes: Any, q: Array, shade: float) -> None:
    """The satellite's outline and its arm, seen along y."""
    poses = ROBOT.poses(q)
    corners = np.array([[x, 0, z] for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))]) * [
        0.35,
        0,
        0.4,
    ]
    box = corners @ poses[0][:3, :3].T + poses[0][:3, 3]
    arm = np.concatenate([poses[1:, :3, 3], ROBOT.pose(q, "hand")[None, :3, 3]])
    axes.plot(box[:, 0], box[:, 2], color="0.3", alpha=shade)
    axes.plot(arm[:, 0], arm[:, 2], "o-", color="C0", alpha=shade, ms=3)


if __name__ == "__main__":
    main(*sys.argv[1:2])
