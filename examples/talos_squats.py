"""Talos squats and lifts an arm on two soles: whole-body control of 28 joints at 1 kHz in Python.

    python examples/talos_squats.py [picture.png]

`liebody.control.WholeBody` lowers the centre of mass by 20 cm and raises the right hand by half a metre. The
trunk stays upright, and joints and torques within the limits of the description. Each sole stands on four
points: of the 24 forces of the program the soles need 12, and a small cost chooses among the others. The
robot (from the package example-robot-data, head and grippers locked) is simulated by time stepping, and the
controller gets its true state. The centre of pressure stays inside of the soles.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import liebody as lb
from liebody.bodies import Frame
from liebody.contact import Contact, TimeStepping
from liebody.control import MotionTask, Support, WholeBody
from liebody.hybrid import Feedback

DT, MU = 1e-3, 0.7
X, Y = (-0.09, 0.11), (-0.05, 0.05)  # of the points in a sole, m
CORNERS = np.array([[x, y, 0.0] for x in X for y in Y])
SOLES = ("left_sole_link", "right_sole_link")
TRUNK, HAND = "torso_2_link", "arm_right_7_link"
BENT = {3: -0.4, 4: 0.8, 5: -0.4}  # hip, knee and ankle of each leg, rad
ARMS = {"left": {1: 0.2, 2: 0.3, 4: -0.6}, "right": {1: -0.2, 2: -0.3, 4: -0.6}}  # shoulder and elbow, rad
LOCKED = ("head_1_joint", "head_2_joint", "gripper_left_joint", "gripper_right_joint")

SQUAT = np.array([0.0, 0.0, -0.2])  # m, of the centre of mass
LIFT = np.array([0.25, 0.05, 0.5])  # m, of the hand
DOWN, UP = (0.3, 1.3), (2.0, 3.0)  # begin and end of the squat's two halves, s
RAISED = (0.8, 2.0)  # begin and end of the hand's way, s
END = 3.5  # s


def smooth(t: float, start: float, end: float) -> np.ndarray:
    """From 0 to 1 between two times by a quintic: value, rate, acceleration."""
    s = np.clip((t - start) / (end - start), 0, 1)
    rate = 30 * s * s * (1 - s) ** 2 / (end - start)
    return np.array(
        [s**3 * (10 - 15 * s + 6 * s * s), rate, 60 * s * (1 - s) * (1 - 2 * s) / (end - start) ** 2]
    )


def standing() -> tuple[lb.Robot, np.ndarray]:
    """The robot with a frame at each corner of its soles, and the configuration in which it begins."""
    robot = lb.load("talos_reduced", floating=True).locked(dict.fromkeys(LOCKED, 0.0))
    frames = dict(robot.tree.frames)
    for sole in SOLES:
        frame = robot.tree.frame(sole)
        for k, corner in enumerate(CORNERS):
            T = np.array(frame.placement, float)
            T[:3, 3] += T[:3, :3] @ corner
            frames[f"{sole}_{k}"] = Frame(f"{sole}_{k}", frame.body, T)
    robot = lb.Robot(replace(robot.tree, frames=frames).with_joints(("limits", "efforts")))
    angles = {f"leg_{side}_{k}_joint": x for side in ARMS for k, x in BENT.items()}
    angles |= {f"arm_{side}_{k}_joint": x for side, arm in ARMS.items() for k, x in arm.items()}
    q = robot.neutral()
    for body in robot.tree.bodies:
        if body.joint.name in angles:
            q[body.coordinates] = angles[body.joint.name]
    q[6] = -robot.pose(q, SOLES[0])[2, 3]
    return robot, q


def controller_of(robot: lb.Robot) -> WholeBody:
    """Centre of mass, trunk, hand and posture on two soles."""
    tasks = [
        MotionTask.center_of_mass(robot, kp=100.0, weight=10.0),
        MotionTask.orientation(robot, TRUNK, kp=100.0, weight=3.0),
        MotionTask.position(robot, HAND, kp=100.0, weight=1.0),
        MotionTask.posture(robot, kp=30.0, weight=1e-3),
    ]
    return WholeBody(robot, tasks, [Support(sole, CORNERS, friction=0.8 * MU) for sole in SOLES])


class References:
    """Where centre of mass and hand should be."""

    def __init__(self, robot: lb.Robot, q: np.ndarray) -> None:
        self.center = robot.center_of_mass(q)
        soles = np.mean([robot.pose(q, sole)[:2, 3] for sole in SOLES], axis=0)
        self.over = np.append(soles - self.center[:2], 0.0)  # the way over the middle of the soles
        self.hand = robot.pose(q, HAND)[:3, 3]
        self.constant = {"posture.target": q[7:], f"{TRUNK}.target": robot.pose(q, TRUNK)[:3, :3]}

    def at(self, t: float) -> dict[str, np.ndarray]:
        """Parameters of the controller."""
        squat = smooth(t, *DOWN) - smooth(t, *UP)
        center = np.outer(squat, SQUAT) + np.outer(smooth(t, 0.0, DOWN[0]), self.over)
        hand = np.outer(smooth(t, *RAISED), LIFT)
        center[0] += self.center
        hand[0] += self.hand
        values = dict(self.constant)
        for k, word in enumerate(("target", "rate", "acceleration")):
            values[f"center_of_mass.{word}"] = center[k]
            values[f"{HAND}.{word}"] = hand[k]
        return values


class Squat(NamedTuple):
    """What happened, a row for each millisecond."""

    t: np.ndarray
    q: np.ndarray
    center: np.ndarray  # of mass, and where it should be
    wanted_center: np.ndarray
    hand: np.ndarray
    wanted_hand: np.ndarray
    share: np.ndarray  # of each joint's largest effort
    pressure: np.ndarray  # centre of pressure in each sole (2, 2)
    status: np.ndarray
    seconds: np.ndarray


def main(picture: str | None = None, t_end: float = END) -> Squat:
    warnings.simplefilter("ignore")  # of the description
    robot, q0 = standing()
    controller = controller_of(robot)
    corners = [f"{sole}_{k}" for sole in SOLES for k in range(4)]
    plant = TimeStepping(
        robot,
        Feedback(lambda s, p: p.tau, tau=np.zeros(robot.nv - 6)),
        Contact(*corners, stiffness=1e5, damping=1e3, friction=MU),
        ledger=False,
    )
    sim = lb.stepper(plant, dt=DT)
    state = sim.start(q0)
    references = References(robot, q0)
    most = np.concatenate(
        [np.broadcast_to(body.joint.effort_limit, body.joint.dim) for body in robot.tree.bodies[1:]]
    )
    rows = []
    for k in range(round(t_end / DT)):
        values = references.at(k * DT)
        begin = time.perf_counter()
        u = controller(state.q, state.v, values)
        seconds = time.perf_counter() - begin
        state = sim.step(state, {"tau": u.tau[6:]})
        normal = state.memory.floor_reaction[:, 0].reshape(2, 4)
        pressure = normal @ CORNERS[:, :2] / np.maximum(normal.sum(axis=1), 1e-9)[:, None]
        wanted = references.at(state.t)
        centers = robot.center_of_mass(state.q), wanted["center_of_mass.target"]
        hands = robot.pose(state.q, HAND)[:3, 3], wanted[f"{HAND}.target"]
        rows.append((state.t, state.q, *centers, *hands, u.tau[6:] / most, pressure, u.status, seconds))
    found = Squat(*(np.array(x) for x in zip(*rows, strict=True)))
    print(
        f"the centre of mass goes down by {found.center[0, 2] - found.center[:, 2].min():.3f} m, "
        f"and misses its place by {1e3 * np.abs(found.center - found.wanted_center).max():.1f} mm at most"
    )
    print(f"the hand misses its place by {1e3 * np.abs(found.hand - found.wanted_hand).max():.1f} mm at most")
    print(f"the largest effort is {np.abs(found.share).max():.0%} of its limit")
    median, worst = 1e6 * np.quantile(found.seconds, [0.5, 0.99])
    print(f"a command takes {median:.0f} us, and one of a hundred more than {worst:.0f} us")
    if picture:
        draw(robot, found, picture)
    return found


def draw(robot: lb.Robot, found: Squat, picture: str) -> None:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    top, bottom = (figure.add_subplot(grid[k, :2]) for k in range(2))
    for k, (name, place, wanted) in enumerate(
        (
            ("centre of mass", found.center, found.wanted_center),
            ("right hand", found.hand, found.wanted_hand),
        )
    ):
        top.plot(found.t, place[:, 2], color=f"C{k}", label=name)
        top.plot(found.t, wanted[:, 2], "k:", lw=1)
    top.set(ylabel="height in m", xticklabels=[])
    top.legend(frameon=False)
    for k, name in enumerate(("left", "right")):
        bottom.plot(found.t, 100 * found.pressure[:, k, 0], color=f"C{k}", label=f"{name}, along x")
        bottom.plot(found.t, 100 * found.pressure[:, k, 1], color=f"C{k}", ls="--", label=f"{name}, along y")
    for x in X:
        bottom.axhline(100 * x, color="0.7", lw=0.8)
    bottom.set(ylabel="centre of pressure in cm", xlabel="t in s")
    bottom.legend(ncols=2, frameon=False, fontsize=8)
    side = figure.add_subplot(grid[:, 2])
    chains = {f"leg_{side}": range(1, 7) for side in ARMS} | {f"arm_{side}": range(1, 8) for side in ARMS}
    for t, color in ((0.0, "0.75"), (UP[0], "C0")):
        q = found.q[min(round(t / DT), len(found.q) - 1)]
        trunk = [robot.pose(q, name)[:3, 3] for name in ("base_link", TRUNK)]
        for chain, links in chains.items():
            root = [trunk[0]] if chain.startswith("leg") else trunk
            points = [robot.pose(q, f"{chain}_{k}_link")[:3, 3] for k in links]
            end = [robot.pose(q, SOLES[chain.endswith("right")])[:3, 3]] if chain.startswith("leg") else []
            x, y, z = np.array([*root, *points, *end]).T
            side.plot(y + 0.4 * x, z + 0.15 * x, color=color, lw=3 if chain.endswith("right") else 1.5)
    side.set(aspect="equal", xticks=[], ylabel="z in m", title=f"at 0 s and {UP[0]:.0f} s")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
