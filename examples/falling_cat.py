"""A cat falls with its feet up and lands on them: it makes half a turn without any angular momentum.

    python examples/falling_cat.py [animation.gif]

The cat is the one of Kane and Scher (1969), "A dynamical explanation of the falling cat phenomenon", Int.
J. Solids Structures 5: two equal cylinders on a spine that bends but does not twist. The spine is bent,
and the direction of the bend runs once around: belly, flank, back, other flank. Then the joints are where
they were: they have followed a closed loop. But the cat has turned, by the holonomy of the mechanical
connection (docs/floating-bases.md).

Let b be half the angle of the bend, and J_a and J_t the inertias of a cylinder along and across its axis.
The cat turns by the angle

    2 pi J_a cos b / (J_a cos^2 b + J_t sin^2 b)

about the line between the cylinders' directions. The bend is chosen so that this is half a turn. The
script computes the turn in three ways: by this formula, by integrating the connection along the loop, and
by simulating a fall from 1.5 m, in which muscles of the spine follow the loop and weight is the only
external force.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

import liebody as lb
from liebody import dynamics, scalars
from liebody.groups import SE3, SO3, Free, Spherical

Array = Any
MASS, RADIUS, LENGTH = 2.0, 0.09, 0.25  # of each half: a cat of 4 kg; a guess at its shape [kg, m]
HEIGHT = 1.5  # [m]
G = 9.81  # [m/s2]
DURATION = np.sqrt(2 * HEIGHT / G)  # of the fall [s]
STEP = 1e-3  # of RK4 [s]
K, D = 900.0, 60.0  # of the spine, [1/s2, 1/s]


def cat() -> lb.Robot:
    """Two cylinders along x, with their backs towards z.

    The front half has its frame in its middle, the rear half at the joint of the spine.
    """
    half = LENGTH / 2
    front = lb.SpatialInertia.cylinder(MASS, RADIUS, LENGTH, axis=0)
    rear = lb.SpatialInertia.cylinder(MASS, RADIUS, LENGTH, axis=0, com=(half, 0, 0))
    builder = lb.TreeBuilder("cat").add("front", Free(), front)
    return lb.Robot(builder.add("rear", Spherical(), rear, "front", (half, 0, 0)).build(), (0, 0, -G))


def half_bend() -> float:
    """b for half a turn: 2 c = c^2 + (J_t / J_a) (1 - c^2) with c = cos b."""
    J_a, J_t = RADIUS**2 / 2, (3 * RADIUS**2 + LENGTH**2) / 12
    r = J_t / J_a
    return float(np.arccos((np.sqrt(1 + r * (r - 1)) - 1) / (r - 1)))


def turn_of(b: float) -> float:
    """Kane and Scher's angle."""
    J_a, J_t = RADIUS**2 / 2, (3 * RADIUS**2 + LENGTH**2) / 12
    return float(2 * np.pi * J_a * np.cos(b) / (J_a * np.cos(b) ** 2 + J_t * np.sin(b) ** 2))


ROBOT = cat()
BEND = 2 * half_bend()


def spine(phi: Any, rate: Any = 0.0, rise: Any = 0.0) -> tuple[Array, Array, Array]:
    """Coordinates, velocity and acceleration of the joint, bent by BEND towards phi, which is 0 at the belly.

    The rotation is that about (0, cos phi, sin phi): a bend without torsion.
    """
    c, s, C, S = scalars.cos(phi), scalars.sin(phi), np.cos(BEND), np.sin(BEND)
    q = np.array([np.cos(BEND / 2), 0, np.sin(BEND / 2) * c, np.sin(BEND / 2) * s])
    along, across = np.array([C - 1, -S * s, S * c]), np.array([0, -S * c, -S * s])
    return q, rate * along, rise * along + rate**2 * across


def muscles(t: Any, q: Array, v: Array) -> Array:
    """Efforts of the spine, for one loop by a quintic: My (desired acceleration) + Cyx v_x + Cy q' + gy."""
    s = scalars.minimum(t / DURATION, 1.0)
    phi = 2 * np.pi * s**3 * (10 - 15 * s + 6 * s**2)
    rate = 2 * np.pi * 30 * s**2 * (1 - s) ** 2 / DURATION
    rise = 2 * np.pi * 60 * s * (1 - s) * (1 - 2 * s) / DURATION**2
    q_d, v_d, a_d = spine(phi, rate, rise)
    equations = dynamics.decoupled_dynamics(ROBOT.tree, q, v, gravity=(0, 0, -G))
    external, rates = np.split(dynamics.decoupled_velocity(ROBOT.tree, q, v), [6])
    E = SO3.element(q[7:]).T @ SO3.element(q_d)
    off = 0.5 * np.array([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]])
    a = a_d + D * (v_d - rates) + K * off
    tau = equations.My @ a + equations.Cyx @ external + equations.Cy @ rates + equations.gy
    return np.concatenate([np.zeros(6, int), tau])


class Fall(NamedTuple):
    """The results of `main`.

    run         the simulation
    l           angular momentum about the centre of mass, (n,)                           [N m s]
    formula, connection, simulation
                how the front half turned, in its own axes, by each of them: rotations (3, 3)
    """

    run: lb.Run
    l: Array
    formula: Array
    connection: Array
    simulation: Array


def main(animation: str | None = None) -> Fall:
    b = BEND / 2
    axis = np.array([np.cos(b), 0, -np.sin(b)])  # between the cylinders, in the front half's axes
    belly = np.array([-np.sin(b), 0, -np.cos(b)])
    upside_down = np.stack(
        [axis, np.cross(belly, axis), belly]
    )  # the axis lies along x of the world, belly up
    start = np.concatenate(
        [SE3.coordinates(SE3.motion(upside_down, np.array([0, 0, HEIGHT]))), spine(0.0)[0]]
    )

    run = lb.simulate(ROBOT, start, t_end=DURATION, dt=STEP, tau=muscles)
    loop = dynamics.holonomy(ROBOT.tree, lambda s: spine(2 * np.pi * s, 2 * np.pi)[:2])
    l = np.linalg.norm(ROBOT.decoupled_velocity(run.q, run.v, "momentum")[:, :3], axis=1)
    fall = Fall(
        run,
        l,
        SO3.exp(turn_of(b) * axis),
        SO3.element(loop.coordinates[:4]),
        SO3.element(run.q[0, :4]).T @ SO3.element(run.q[-1, :4]),
    )
    print(
        f"the spine bends by {np.degrees(BEND):.2f} deg; by the formula the cat turns by "
        f"{np.degrees(turn_of(b)):.4f} deg"
    )
    for name in ("connection", "simulation"):
        off = SO3.log(fall.formula.T @ getattr(fall, name))
        print(f"by the {name} the same within {np.degrees(np.linalg.norm(off)):.1e} deg")
    lands = (SO3.element(run.q[-1, :4]) @ belly)[2]
    print(
        f"belly up {(upside_down @ belly)[2]:+.3f} at the start, {lands:+.3f} at the end; |l| up to "
        f"{l.max():.0e} N m s"
    )
    if animation:
        draw(fall, animation)
    return fall


# -- the film -----------------------------------------------------------------------------------------------


def draw(fall: Fall, animation: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.animation import PillowWriter

    states = fall.run.q[np.linspace(0, len(fall.run.t) - 1, 45).astype(int)]
    figure = plt.figure(figsize=(2.6, 4.8))
    axes = figure.add_axes((-0.42, 0, 1.84, 1), projection="3d")
    film = PillowWriter(fps=20)
    with film.saving(figure, animation, dpi=70):
        for q in [*[states[0]] * 6, *states, *[states[-1]] * 12]:
            axes.clear()
            axes.set_axis_off()
            axes.set(xlim=(-0.3, 0.5), ylim=(-0.4, 0.4), zlim=(-0.25, HEIGHT + 0.15))
            axes.set_box_aspect((0.8, 0.8, HEIGHT + 0.4), zoom=0.98)
            axes.view_init(elev=8, azim=-70)
            for part in _halves(q):
                axes.plot_surface(*part, color="0.55", shade=True, linewidth=0)
            for x, y, z, color in _limbs(q):
                axes.plot(x, y, z, color=color, lw=3, solid_capstyle="round")
            floor = np.array([[-0.3, 0.5], [-0.3, 0.5]])
            axes.plot_surface(
                floor, np.array([[-0.4] * 2, [0.4] * 2]), 0 * floor - 0.24, color="0.9", shade=False
            )
            film.grab_frame()
    plt.close(figure)


def _halves(q: Array) -> list[Array]:
    """The cylinders' surfaces, (3, 13, 9) each."""
    turn, x = np.meshgrid(np.linspace(0, 2 * np.pi, 13), np.linspace(-0.5, 0.5, 9), indexing="ij")
    width = RADIUS * np.sqrt(1 - (1.6 * x) ** 2 * 0.9)
    skin = np.stack([LENGTH * x, width * np.sin(turn), width * np.cos(turn)])
    return [_placed(T, skin, start) for T, start in zip(ROBOT.poses(q), (0, LENGTH / 2), strict=True)]


def _limbs(q: Array) -> list[tuple[Array, Array, Array, str]]:
    """Legs, in black, below each half; the head and the tail."""
    front, rear = ROBOT.poses(q)
    lines = []
    for T, x in ((front, -0.05), (rear, LENGTH / 2 + 0.05)):
        for side in (-1, 1):
            leg = np.array([[x, x], [0.06 * side, 0.06 * side], [-RADIUS, -RADIUS - 0.1]])
            lines.append((*_placed(T, leg), "k"))
    head = np.array([[-0.12, -0.19], [0, 0], [0.05, 0.09]])
    tail = np.array([[LENGTH, LENGTH + 0.12], [0, 0], [0.05, 0.16]])
    return [*lines, (*_placed(front, head), "C1"), (*_placed(rear, tail), "0.3")]


def _placed(T: Array, points: Array, shift: float = 0.0) -> Array:
    moved = points + np.array([shift, 0, 0]).reshape(3, *[1] * (points.ndim - 1))
    return np.einsum("ij,j...->i...", T[:3, :3], moved) + T[:3, 3].reshape(3, *[1] * (points.ndim - 1))


if __name__ == "__main__":
    main(*sys.argv[1:2])
