"""A disc rolls on the floor without slipping: it wobbles, and does not fall while it turns fast enough.

    python examples/rolling_disc.py [picture.png]

Three equations constrain the lowest point of the disc. One is a constraint of position: the point lies on
the floor. Two are constraints of velocity: the point is at rest. These two cannot be integrated, so the
disc can reach any place in any attitude. There are no coordinates of attitude, so nothing special happens
where the disc stands upright.

The energy is conserved, and so are two more integrals: the rates about the axis and about the steepest
line are functions of the tilt alone (Appell, Korteweg 1900).
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

import liebody as lb
from liebody.groups import SE3, SO3

Array = Any
MASS, RADIUS = 1.5, 0.2  # [kg], [m]
TILT = 1.35  # of the axis, from the vertical, at the start [rad]
RATES = 0.3, 0.6, -6.0  # about the track, about the steepest line of the disc, about its axis [rad/s]
DURATION, STEP = 4.0, 1e-3  # [s]


class Roll(NamedTuple):
    """The motion, as drawn.

    t (n,) [s]; centre and lowest point (n, 3) [m]; tilt of the axis (n,) [rad]; rates (n, 3) about the track,
    the steepest line and the axis [rad/s]; energy (n,) [J]; slip of the point that touches the floor [m/s].
    """

    t: Array
    centre: Array
    foot: Array
    tilt: Array
    rates: Array
    energy: Array
    slip: Array


def disc() -> lb.System:
    """A thin disc with axis z of its frame, on the floor z = 0."""
    across = MASS * RADIUS**2 / 4
    builder = lb.SystemBuilder("rolling disc")
    builder.body("disc", lb.SpatialInertia(MASS, rotational=np.diag([across, across, 2 * across])))
    return builder.rolling("floor", "disc", RADIUS, axis=[0, 0, 1]).build()


def directions(axis: Array) -> Array:
    """Unit vectors along the track, up the disc and along the axis (..., 3), as rows (..., 3, 3)."""
    z = axis[..., 2:]
    up = (np.array([0, 0, 1]) - z * axis) / np.sqrt(1 - z**2)
    return np.stack([np.cross(axis, up), up, axis], axis=-2)


def roll(tilt: float = TILT, rates: tuple[float, float, float] = RATES, duration: float = DURATION) -> Roll:
    """Simulate the disc from a start with its axis tilted from the vertical towards y."""
    system = disc()
    axis = np.array([0, np.sin(tilt), np.cos(tilt)])
    T = SE3.motion(
        np.column_stack([[1, 0, 0], np.cross(axis, [1, 0, 0]), axis]), [0, 0, RADIUS * np.sin(tilt)]
    )
    q = system.configuration({"disc": T})
    omega = np.asarray(rates) @ directions(axis)
    velocity = np.cross(omega, RADIUS * directions(axis)[1])  # the lowest point is at rest
    twist = np.concatenate([T[:3, :3].T @ omega, T[:3, :3].T @ velocity])
    run = lb.simulate(
        system, q, system.velocities(q, {"disc": twist}), t_end=duration, dt=STEP, method="rkmk8"
    )
    axes = np.array([SO3.element(x) for x in run.q[:, :4]])
    frames = directions(axes[:, :, 2])
    turning = np.einsum("nij,nj->ni", axes, run.v[:, :3])
    centre = run.q[:, 4:7]
    slip = system.velocity_violation(run.q, run.v)["floor"]
    return Roll(
        run.t,
        centre,
        centre - RADIUS * frames[:, 1],
        np.arccos(axes[:, 2, 2]),
        np.einsum("nij,nj->ni", frames, turning),
        run.energy,
        np.abs(slip).max(axis=1),
    )


def main(picture: str | None = None) -> Roll:
    found = roll()
    low, high = np.degrees([found.tilt.min(), found.tilt.max()])
    print(f"the axis tilts between {low:.1f} and {high:.1f} degrees from the vertical")
    print(f"energy changes by {np.ptp(found.energy):.0e} J, the contact slips at {found.slip.max():.0e} m/s")
    if picture:
        draw(found, picture)
    return found


def draw(found: Roll, picture: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 4.6), layout="constrained")
    floor = figure.add_subplot(1, 2, 1, projection="3d")
    floor.plot(*found.foot.T, color="C0", label="where it touches the floor")
    floor.plot(*found.centre.T, color="C1", lw=0.8, label="centre")
    angles = np.linspace(0, 2 * np.pi, 60)
    for k in np.linspace(0, len(found.t) - 1, 9).astype(int):
        up = (found.centre[k] - found.foot[k]) / RADIUS
        side = np.cross(up, [0, 0, 1.0])
        track = side / np.linalg.norm(side)
        rim = np.outer(np.cos(angles), up) + np.outer(np.sin(angles), track)
        rim = found.centre[k] + RADIUS * rim
        floor.plot(*rim.T, color="0.4", lw=1)
    floor.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]", title="The disc, nine times")
    floor.set_aspect("equal")
    floor.locator_params(nbins=4)
    floor.set_zticks([0, 0.4])
    floor.legend(frameon=False, loc="upper left")
    integrals = figure.add_subplot(1, 2, 2)
    tilt = np.degrees(found.tilt)
    integrals.plot(tilt, found.rates[:, 1], label="about the steepest line")
    integrals.plot(
        tilt, found.rates[:, 2] - found.rates[0, 2], label="about the axis, less that of the start"
    )
    integrals.set(xlabel="tilt [deg]", ylabel="rate [rad/s]", title="Rates depend on the tilt alone")
    integrals.grid(alpha=0.3)
    integrals.legend(frameon=False)
    figure.savefig(picture, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:2])
