"""Your own biped, from its URDF to gaits: search, multipliers, a branch, feedback at the step.

The robot has a torso and two legs with knees and point feet, and moves in a plane (planar_biped.urdf).
Springs and dampers at hips and knees enforce virtual constraints: the torso leans, the swing leg mirrors
the stance leg, and its knee bends and stretches again on the way. Only the feet touch the ground.

    python examples/planar_biped.py biped.png

The controller follows Grizzle, Abba, Plestan (2001), Asymptotically stable walking for biped robots, IEEE
Trans. Automatic Control 46(1), with springs instead of exact constraints, and with knees.
"""

import sys
from pathlib import Path

import numpy as np

import liebody as lb
from liebody.contact import PointFeet
from liebody.gaits import continuation, floquet, search, stabilize
from liebody.hybrid import Feedback, robot_system

robot = lb.load(Path(__file__).with_suffix(".urdf"))
LEGS = (3, 5)  # index of each hip in q and v; its knee is next. Entries 0 to 2: pitch, height, place


def legs(q, v):
    """Each leg: angle of the line from hip to foot from the vertical, bend of the knee, and their rates."""
    return [
        np.stack([q[0] + q[k] + q[k + 1] / 2, q[k + 1], v[0] + v[k] + v[k + 1] / 2, v[k + 1]]) for k in LEGS
    ]


def walk(s, p):
    """Torques of hips and knees, (left hip, left knee, right hip, right knee)."""
    left, (a, b) = s.touching("left_foot"), legs(s.q, s.v)
    angle, bend, rate, bending = left * a + (1 - left) * b  # of the stance leg
    swing = left * b + (1 - left) * a
    x = angle / p.stride  # from -1 to 1 in a step
    knee = p.bend + p.lift * (1 - x * x), -2 * p.lift * x * rate / p.stride
    hip = -p.K_leg * (swing[0] + angle) - p.D_leg * (swing[2] + rate)
    upright = p.K_torso * (s.q[0] - p.lean) + p.D_torso * s.v[0]
    of_swing = np.stack([hip, -p.K_knee * (swing[1] - knee[0]) - p.D_knee * (swing[3] - knee[1])])
    of_stance = np.stack([upright - hip, -p.K_stance * (bend - p.bend) - p.D_stance * bending])
    return np.concatenate(
        [left * of_stance + (1 - left) * of_swing, left * of_swing + (1 - left) * of_stance]
    )


gains = {"K_leg": 600.0, "D_leg": 40.0, "K_torso": 600.0, "D_torso": 50.0, "K_knee": 150.0, "D_knee": 8.0,
         "K_stance": 2000.0, "D_stance": 60.0}  # fmt: skip
controller = Feedback(walk, lean=0.1, stride=0.18, bend=0.15, lift=0.5, **gains)
biped = robot_system(robot, controller, PointFeet("left_foot", "right_foot"), step=4e-3)
WALKING = {"section": "ground_left_foot", "symmetries": [[0, 0, 1, 0, 0, 0, 0]], "scale": 0.1}  # two steps
METHOD = {"method": "rkmk8"}
WEIGHT = 9.81 * robot.tree.mass
FRICTION = 0.6  # a coefficient that is proved to suffice for the fastest gait


def starts(p):
    """Both feet on the ground, the left one at rest; how fast the legs turn: `rate`, times `swing`."""
    n, bend = len(p["rate"]), 0.15
    q, v = np.zeros((n, 7)), np.zeros((n, 7))
    q[:, 0], q[:, 1] = p["lean"], 0.8 * np.cos(bend / 2) * np.cos(p["stride"])
    for k, side in zip(LEGS, (-1, 1)):
        q[:, k], q[:, k + 1] = side * p["stride"] - p["lean"] - bend / 2, bend
    v[:, 3], v[:, 5] = p["rate"], -p["swing"] * p["rate"]
    J = robot.jacobian(q, "left_foot", "mixed")[:, [5, 3]]
    v[:, 1:3] = -np.linalg.solve(J[:, :, 1:3], J @ v[..., None])[..., 0]
    return q, v


def ground(orbit):
    """The least push of the ground over the weight, and the friction that the feet need, in a period."""
    run = orbit.simulate(record_every=orbit.period / 400)
    force = run.outputs["ground_force"].sum(axis=1)
    return force[:, 2].min() / WEIGHT, np.abs(force[:, 0] / force[:, 2]).max()


def possible(orbit):
    push, friction = ground(orbit)
    return push > 0 and friction < 0.8


def ground_force(t, q, v, z, p):
    """The force of the ground in the world's axes, (3,) [N]."""
    return biped.outputs(t, q, v, z, p)["ground_force"].sum(axis=0)


def impulse(t, q, v, z, p, events):
    """The impulse of the ground at touch-down, the change of the robot's momentum, (3,) [N s]."""
    _, v_after, z_after, _ = biped.after_update((t, q, v, z, p), events)
    before = biped.outputs(t, q, v, z, p)["com_velocity"]
    return robot.tree.mass * (biped.outputs(t, q, v_after, z_after, p)["com_velocity"] - before)


def lift(t, q, v, z, p, events):
    """The vertical velocity of the foot that stood, behind touch-down [m/s]."""
    _, v_after, _, _ = biped.after_update((t, q, v, z, p), events)
    velocities = []
    for foot in ("left_foot", "right_foot"):
        turn = lb.dynamics.frame_pose(robot.tree, q, foot)[:3, :3]
        velocities.append(turn @ lb.dynamics.frame_jacobian(robot.tree, q, foot)[3:] @ v_after)
    return z.ground_stands @ np.array(velocities)[:, 2]


def in_friction_cone(force):
    """|F_x| < FRICTION * F_z, as two functions of all arguments of F."""
    return (
        lambda *arguments: FRICTION * force(*arguments)[2] - force(*arguments)[0],
        lambda *arguments: FRICTION * force(*arguments)[2] + force(*arguments)[0],
    )


# what real ground needs, for gaits.prove(gait, positive=STANCE, positive_at_events=TOUCH_DOWN)
forwards, backwards = in_friction_cone(ground_force)
STANCE = {
    "push above 75 percent of the weight": lambda *arguments: ground_force(*arguments)[2] - 0.75 * WEIGHT,
    "friction cone forwards": forwards,
    "friction cone backwards": backwards,
}
forwards, backwards = in_friction_cone(impulse)
TOUCH_DOWN = {
    "upward impulse": lambda *arguments: impulse(*arguments)[2],
    "lift of the foot that stood": lift,
    "friction cone of the impulse forwards": forwards,
    "friction cone of the impulse backwards": backwards,
}


def speed(orbit):
    return orbit.shift[0] / orbit.period


def main(path=None):
    """The gaits found, the fastest one over `lean`, and with feedback; path: where to draw it."""
    box = {"lean": (0.02, 0.3), "stride": (0.15, 0.25), "rate": (0.8, 2.2), "swing": (-0.3, 0.3)}
    sample = lb.sample(box, 64, seed=0)
    found = search(biped, sample, starts, period=0.9, keep=6, **WALKING, accept=possible,
                   objective=lambda orbit: -speed(orbit), options=METHOD)  # fmt: skip
    print(f"{len(found)} gaits, at", ", ".join(f"{speed(orbit):.3f}" for orbit in found), "m/s")
    gait = found[0]
    push, friction = ground(gait)
    print(
        f"two steps of {gait.shift[0] / 2:.4f} m in {gait.period:.4f} s, lean {gait.parameters['lean']:.3f}"
    )
    print(f"the ground pushes with {push:.2f} of the weight or more; friction needed: {friction:.2f}")
    print("multipliers:", ", ".join(f"{abs(x):.4f}" for x in floquet(gait).values[:3]))
    branch = continuation(gait, "lean", step=0.06, bounds=(0.05, 0.3), precision=1e-4)
    print(branch)
    held = stabilize(gait, ["lean", "stride"], R=[1.0, 1.0])
    print(held)
    if path is not None:
        picture(gait, branch, path)
    return found, branch, held


def picture(gait, branch, path):
    """Six steps as sticks; the speed over how far the torso leans."""
    import matplotlib.pyplot as plt

    run = gait.simulate(3.0, record_every=gait.period / 10)
    torso = robot.pose(run.q, "torso")
    head = torso[:, :3, 3] + 0.6 * torso[:, :3, 2]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), width_ratios=(2, 1), layout="constrained")
    for side, colour in (("right", "C1"), ("left", "C0")):
        joints = [robot.pose(run.q, f"{side}_{x}")[:, :3, 3] for x in ("thigh", "shank", "foot")]
        left.plot(*np.stack([head, *joints])[..., [0, 2]].transpose(2, 0, 1), color=colour, lw=1)
    left.axhline(0, color="0.5", lw=0.8)
    left.set(aspect="equal", xlabel="x [m]", ylabel="z [m]", title="six steps; the left leg is blue")
    right.plot(branch.values, [speed(orbit) for orbit in branch.orbits], "o-", ms=3)
    right.set(xlabel="lean of the torso [rad]", ylabel="speed [m/s]", title="gaits")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
