"""ANYmal jumps in place: a plan through the contacts of its feet, which finds when they begin and end.

    python examples/anymal_jump.py [picture.png]

The robot (from the package example-robot-data) stands on compliant ground with friction, which is a force
in its equations of motion. The cost of `optimal_control` asks for a base 35 cm higher at one instant, for
symmetric legs, for feet that stand still before and after, for rest at the end, and for small torques.
Each joint has at most 80 N m. The search finds when the feet leave the ground and land, and with which
forces.

Two simulations test the torques. The first has the same ground and no feedback, and uses a method of
fourth order with a quarter of the step. The second has the ground of `Contact`, on which feet stick and
slip, and PD control of the joints.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.dynamics import frame_pose, frame_twist
from liebody.hybrid import Feedback
from liebody.mechanisms import SmoothContact

URDF = "cmeel.prefix/share/example-robot-data/robots/anymal_b_simple_description/robots/anymal.urdf"
FEET = tuple(f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH"))
MIRROR = np.array([[1, 1, 1], [-1, 1, 1], [1, -1, -1], [-1, -1, -1]])  # signs of the angles of symmetric legs
POSE = (MIRROR * [0, 0.7, -1.4]).ravel()
DT, SECONDS, APEX, RISE, MOST = 1e-3, 1.2, 0.6, 0.35, 80.0  # s, s, s, m, N m
FREE = 0.15  # before and after the apex: time in which feet may move, s
STIFFNESS, FRICTION = 5e4, 0.8  # N/m
STIFF, DAMPED = 100.0, 3.0  # of the joints that follow the plan, N m/rad, N m s/rad


@dataclass(frozen=True)
class Jump:
    """The plan and its simulations: heights of the base and the feet, forces of the ground.

    plan       an `OptimalPlan`
    force      on the feet in the plan, (knots, 4, 3)                                                      [N]
    feet       their heights in the plan, (knots, 4)                                                       [m]
    played     the run of the same torques by RK4
    followed   q (knots, nq) over `Contact`, with PD at the joints
    carried    the forces of that ground along the normal, (knots, 4)                                      [N]
    """

    plan: lb.OptimalPlan
    force: np.ndarray
    feet: np.ndarray
    played: lb.Run
    followed: np.ndarray
    carried: np.ndarray

    @property
    def flies(self) -> np.ndarray:
        """The knots at which no foot touches the ground."""
        return self.force[..., 2].max(axis=1) == 0


def standing(robot: lb.Robot) -> np.ndarray:
    """The configuration in which the ground carries the weight."""
    q = robot.neutral()
    q[7:] = POSE
    lowest = min(robot.pose(q, frame=foot)[2, 3] for foot in FEET)
    q[6] = -lowest - robot.tree.mass * 9.81 / (4 * STIFFNESS)
    return q


def planned(robot: lb.Robot, ground: SmoothContact, rest: np.ndarray, iterations: int) -> lb.OptimalPlan:
    """From standing over a jump to standing."""

    def stage(q, v, u, p):
        away = robot.group.difference(rest, q)
        legs = MIRROR * q[7:].reshape(4, 3)
        slips = [10 * p.stands * frame_twist(robot.tree, q, v, foot)[3:] for foot in FEET]
        return np.concatenate(
            [
                [60 * p.apex * (q[6] - rest[6] - RISE)],
                0.02 * u,
                0.1 * v,
                0.3 * away[:5],
                0.3 * away[6:],
                30 * (legs - legs.sum(axis=0) / 4).ravel(),
                *slips,
            ]
        )

    def terminal(q, v, p):
        return np.concatenate([20 * robot.group.difference(rest, q), 3 * v])

    problem = lb.optimal_control(
        robot,
        dt=DT,
        stage=stage,
        terminal=terminal,
        limits=MOST,
        method="semi-implicit-euler",
        forces=[ground],
        parameters={"apex": 0.0, "stands": 0.0},
    )
    t = DT * np.arange(round(SECONDS / DT) + 1)
    now = {"apex": (np.abs(t - APEX) < 0.02) * 1.0, "stands": (np.abs(t - APEX) > FREE) * 1.0}
    torque = robot.gravity(rest) - ground.on_tree(robot.tree, 0.0, rest, np.zeros(robot.nv))
    begin: dict = {"q": rest, "u": torque[6:]}  # standing all the time
    begin |= {"knots": len(t) - 1, "parameters": now}
    return problem.solve(rest, iterations=iterations, tolerance=1e-4, **begin)


def on_sticking_ground(robot: lb.Robot, plan: lb.OptimalPlan) -> tuple[np.ndarray, np.ndarray]:
    """The plan with PD at the joints over `Contact`: q of all knots, and the forces along the normal."""
    floor = Contact(*FEET, stiffness=STIFFNESS, damping=300.0, friction=FRICTION)
    system = TimeStepping(robot, floor, Feedback(lambda s, p: p.u, u=np.zeros(robot.nv - 6)))
    sim = lb.stepper(system, dt=DT)
    state = sim.start(plan.q[0])
    q, forces = [state.q], [state.memory.floor_reaction]
    for goal, rate, u in zip(plan.q, plan.v, plan.u, strict=False):
        u = u + STIFF * (goal - state.q)[7:] + DAMPED * (rate - state.v)[6:]
        state = sim.step(state, {"u": np.clip(u, -MOST, MOST)})
        q.append(state.q)
        forces.append(state.memory.floor_reaction)
    return np.array(q), np.array(forces)[..., 0]


def main(picture: str | None = None, iterations: int = 300) -> Jump:
    robot = lb.load(Path(str(distribution("example-robot-data").locate_file(URDF))), floating=True)
    ground = SmoothContact(FEET, stiffness=STIFFNESS, friction=FRICTION, viscosity=150.0)
    rest = standing(robot)
    plan = planned(robot, ground, rest, iterations)
    print(plan)

    def on_feet(q, v):
        poses = [frame_pose(robot.tree, q, foot) for foot in FEET]
        rates = [T[:3, :3] @ frame_twist(robot.tree, q, v, f)[3:] for f, T in zip(FEET, poses, strict=True)]
        forces = [ground.force(T[:3, 3], u) for T, u in zip(poses, rates, strict=True)]
        return {"force": np.stack(forces), "height": np.stack([T[2, 3] for T in poses])}

    seen = lb.compiler.Kernel(lb.compiler.trace(on_feet, {"q": robot.nq, "v": robot.nv}, "feet"))
    force, feet = seen(plan.q, plan.v)
    tau = plan.t[:-1], np.pad(plan.u, ((0, 0), (6, 0)))
    options = {"t_end": SECONDS, "dt": DT / 4, "record_every": DT, "forces": [ground], "joints": "ideal"}
    played = lb.simulate(robot, rest, tau=tau, **options)
    jump = Jump(plan, force, feet, played, *on_sticking_ground(robot, plan))
    t, high = plan.t[jump.flies], plan.q[:, 6].max() - rest[6]
    print(f"it flies from {t[0]:.3f} to {t[-1]:.3f} s, and its base rises by {high:.3f} m")
    print(f"torques of {np.abs(plan.u).max():.0f} N m, feet pushed with {force[..., 2].max():.0f} N at most")
    for name, q in (("RK4, nothing fed back", played.q), ("sticking feet, PD", jump.followed)):
        apart = np.linalg.norm(q[:, 4:7] - plan.q[:, 4:7], axis=1)
        far = 1e3 * apart[: round(APEX / DT)].max(), 1e3 * apart.max()
        print(f"{name}: base within {far[0]:.1f} mm of the plan up to the apex, {far[1]:.0f} mm in all")
    if picture:
        draw(robot, jump, picture)
    return jump


def draw(robot: lb.Robot, jump: Jump, picture: str) -> None:
    """The robot in time, its height, forces and torques."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, height, force, torque) = plt.subplots(
        4, 1, figsize=(7.5, 8), layout="constrained", height_ratios=[0.6, 1.2, 1, 1]
    )
    plan = jump.plan
    legs = [[f"{foot[:2]}_{part}" for part in ("HIP", "THIGH", "SHANK", "FOOT")] for foot in FEET]
    for i, k in enumerate((0, 350, 450, 600, 725, 850, 1200)):
        for leg in legs:
            joints = np.array([robot.pose(plan.q[k], frame=x)[:3, 3] for x in leg])
            left = leg[0][0] == "L"
            above.plot(joints[:, 0] + 1.15 * i, joints[:, 2], color=f"C{int(left)}", lw=1 + left)
        hips = np.array([robot.pose(plan.q[k], frame=legs[j][0])[:3, 3] for j in (0, 2)])
        above.plot(hips[:, 0] + 1.15 * i, hips[:, 2], "k", lw=3)
        above.text(1.15 * i, 0.8, f"{plan.t[k]:.2f} s", ha="center", fontsize=8)
    above.axhline(0, color="0.6", lw=1)
    above.set_aspect("equal")
    above.axis("off")
    height.plot(plan.t, plan.q[:, 6], "k", label="base, plan")
    height.plot(jump.played.t, jump.played.q[:, 6], "--", label="RK4, nothing fed back")
    height.plot(plan.t, jump.followed[:, 6], ":", lw=2, label="sticking feet, PD")
    height.plot(plan.t, jump.feet.min(axis=1), color="0.6", label="lowest foot, plan")
    height.set_ylabel("height [m]")
    force.plot(plan.t, jump.force[..., 2], lw=1)
    force.set_ylabel("force on each foot [N]")
    torque.plot(plan.t[:-1], plan.u, lw=0.8)
    torque.set_ylabel("torques [N m]")
    torque.set_xlabel("time [s]")
    for axes in (height, force, torque):
        for k in np.flatnonzero(np.diff(jump.flies)):
            axes.axvline(plan.t[k], color="0.8", lw=1)
        axes.set_xlim(0, plan.t[-1])
        axes.grid(alpha=0.3)
    height.legend(fontsize=8)
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
