"""4096 ANYmals fall onto random terrain, each onto its own, in one compiled loop on two threads.

    python examples/anymals_on_random_terrain.py [picture.png] [members]

Each terrain is a height field, bilinear between random heights. The heights are parameters of the
contact, up to 0.3 m, and friction differs, too. The robots (from the package example-robot-data) hold a
pose by PD control of the joints. How steeply do they stand after a second, and how many have fallen?
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import liebody as lb
from liebody.contact import Contact, HeightField, TimeStepping
from liebody.hybrid import JointPD

LEGS = ("LF", "RF", "LH", "RH")
FEET = [f"{leg}_FOOT" for leg in LEGS]
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
SIDE, SPACING, HIGHEST = 12, 0.4, 0.3  # points of a terrain along each side, m between them, m


def main(picture: str | None = None, members: int | str = 4096):
    warnings.simplefilter("ignore")
    robot, n, rng = lb.load("anymal_c_simple", floating=True), int(members), np.random.default_rng(0)
    rough = HIGHEST * np.linspace(0, 1, n)
    heights = rough[:, None, None] * rng.random((n, SIDE, SIDE))
    q0 = np.tile(np.concatenate([robot.neutral()[:7], POSE]), (n, 1))
    yaw = rng.uniform(-np.pi, np.pi, n)
    q0[:, 0], q0[:, 3] = np.cos(yaw / 2), np.sin(yaw / 2)
    q0[:, 4:6] = rng.uniform(1, SIDE * SPACING - 1, (n, 2))
    q0[:, 6] = rough - min(lb.dynamics.frame_pose(robot.tree, q0[0], foot)[2, 3] for foot in FEET)

    ground = HeightField(heights[0], SPACING)
    floor = Contact(*FEET, stiffness=1e6, damping=1e4, friction=0.8, ground=ground)
    drives = JointPD(K=200.0, q_des=POSE, D=5.0, gravity_compensation=False)
    system = TimeStepping(robot, drives, floor, ledger=False)
    options = {"dt": 1e-3, "record_every": 0.1, "most_events": 0, "threads": 2}
    system.simulate(q0[:8], t_end=0.1, **options)  # compiles
    given = {"floor_heights": heights, "floor_friction": rng.uniform(0.4, 1.0, n)}
    begin = time.perf_counter()
    run = system.simulate(q0, t_end=1.0, parameters=given, **options)
    seconds = time.perf_counter() - begin

    _, x, y, _ = run.q[:, -1, :4].T
    lean = np.degrees(np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1)))
    print(f"{n} members, {n / seconds:.0f} simulated seconds per second")
    for low in np.arange(0, HIGHEST, 0.1):
        of = (rough >= low) & (rough <= low + 0.1)
        print(f"terrain of {low:.1f} to {low + 0.1:.1f} m: they lean by {np.median(lean[of]):4.1f} degrees, "
              f"{np.mean(lean[of] > 30):.1%} have fallen")  # fmt: skip
    if picture:
        draw(robot, run, heights, rough, lean, picture)
    return run, rough, lean


def draw(robot, run, heights, rough, lean, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.add_subplot(1, 2, 1, projection="3d"), figure.add_subplot(1, 2, 2)
    member = int(np.argmin(np.abs(rough - 0.2)))
    q = run.q[member, -1]
    i, j = (np.round(x / SPACING).astype(int) + np.arange(-3, 4) for x in q[4:6])
    field = heights[member][np.ix_(i % SIDE, j % SIDE)]
    left.plot_surface(
        *np.meshgrid(SPACING * i, SPACING * j, indexing="ij"), field, cmap="YlGn", vmin=-0.2, vmax=0.4
    )
    hips = []
    for leg in LEGS:
        links = [robot.pose(q, f"{leg}_{link}")[:3, 3] for link in ("HIP", "THIGH", "SHANK", "FOOT")]
        left.plot(*np.array(links).T, "C3", lw=3, zorder=5)
        hips.append(links[0])
    left.plot(*np.array([hips[k] for k in (0, 1, 3, 2, 0)]).T, "C3", lw=3, zorder=5)
    left.set(title=f"one of {len(rough)}, after a second", aspect="equal", xlabel="x in m", zticks=[0, 0.5])
    left.view_init(25, -60)
    right.plot(rough, lean, ".", ms=2)
    right.set(xlabel="height of the terrain in m", ylabel="lean of the base in degrees", yscale="symlog")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
