"""An acrobot swings up and stands: a plan, followed with its gains, and a regulator at the end.

    python examples/acrobot_swing_up.py [picture.png]

The acrobot is a double pendulum with a drive at its elbow only, here of at most 12 N m. `optimal_control`
finds a motion from hanging at rest to standing at rest in 4 s. The plant is 2 % heavier and starts
elsewhere, so the planned torques alone fail. The gains of the plan lead the plant back to the plan. At
its end, a linear-quadratic regulator takes over.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

import liebody as lb
from liebody.scalars import sin

DT, KNOTS, MOST = 0.01, 400, 12.0  # s, steps, N m
UPRIGHT = np.array([np.pi, 0.0])
ELBOW = np.array([[0.0], [1.0]])  # tau = ELBOW u
START = np.array([0.02, -0.03])


class Motion(NamedTuple):
    """States (k + 1, 2) and torques (k,) of an acrobot."""

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray


def planned(acrobot: lb.Robot) -> lb.OptimalPlan:
    """From hanging at rest to standing at rest."""

    def stage(q, v, u):
        return np.concatenate([0.1 * u, 0.1 * v, sin((q - UPRIGHT) / 2)])

    def terminal(q, v):
        return np.concatenate([30 * (q - UPRIGHT), 10 * v])

    options = {"actuated": ELBOW, "limits": MOST}
    problem = lb.optimal_control(acrobot, dt=DT, stage=stage, terminal=terminal, **options)
    return problem.solve([0.0, 0.0], knots=KNOTS, iterations=500)


def followed(plan: lb.OptimalPlan, plant: lb.Robot, feedback: float, seconds: float = 10.0) -> Motion:
    """The plant under the plan's inputs and gains, then under a regulator; or only the inputs."""
    linear = lb.linearize(plant, UPRIGHT, dt=DT)
    K = lb.lqr(linear._replace(B=linear.B[:, 1:]), Q=np.diag([10.0, 10.0, 1.0, 1.0]), R=np.eye(1)).K
    sim = lb.stepper(plant, dt=DT)
    state, states, inputs = sim.start(START), [], []
    for k in range(round(seconds / DT)):
        if k < KNOTS:
            goal, rate, u, gains = plan.q[k], plan.v[k], plan.u[k], plan.gains[k]
        else:
            goal, rate, u, gains = UPRIGHT, 0, 0, -K
        u = u + feedback * gains @ np.concatenate([plant.difference(goal, state.q), state.v - rate])
        states.append(state)
        inputs.append(np.clip(u, -MOST, MOST))
        state = sim.step(state, ELBOW @ inputs[-1])
    states.append(state)
    return Motion(*(np.array([getattr(x, name) for x in states]) for name in "qv"), np.array(inputs)[:, 0])


def main(picture: str | None = None) -> tuple[lb.OptimalPlan, dict[str, Motion]]:
    acrobot = lb.load("double_pendulum")
    plan = planned(acrobot)
    print(plan)
    heavier = lb.models.double_pendulum(masses=(1.02, 1.02))
    runs = {
        name: followed(plan, heavier, feedback)
        for name, feedback in {"plan alone": 0.0, "gains": 1.0}.items()
    }
    for name, run in runs.items():
        away = np.abs(heavier.difference(UPRIGHT, run.q[-1])).max()
        print(f"{name}: {away:.1e} rad from upright at the end, at most {np.abs(run.u).max():.1f} N m")
    if picture:
        draw(plan, runs, picture)
    return plan, runs


def draw(plan: lb.OptimalPlan, runs: dict[str, Motion], picture: str) -> None:
    """The acrobot in time, its angles and torques."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, angles, torque) = plt.subplots(3, 1, figsize=(7, 7), layout="constrained")
    run = runs["gains"]
    for k in range(0, KNOTS + 1, 16):
        first, second = np.cumsum(run.q[k])
        x = np.cumsum([0, np.sin(first), np.sin(second)]) + 0.016 * k
        above.plot(
            x, np.cumsum([0, -np.cos(first), -np.cos(second)]), color=plt.cm.viridis(k / KNOTS), lw=1.5
        )
    above.set_aspect("equal")
    above.axis("off")
    above.set_title("The acrobot, every 0.16 s, from left to right")
    t = DT * np.arange(len(run.q))
    for name, found in runs.items():
        style = {"ls": "-" if name == "gains" else ":"}
        for i, color in enumerate(("C0", "C1")):
            angles.plot(t, found.q[:, i], color=color, label=f"q{i + 1}, {name}", **style)
        torque.plot(t[:-1], found.u, color="C2", label=name, **style)
    angles.plot(plan.t, plan.q, "k--", lw=0.7)
    angles.set_ylabel("angles [rad]")
    angles.set_ylim(-6, 6)
    torque.set_ylabel("torque [N m]")
    torque.set_xlabel("time [s]")
    angles.set_xlim(0, 8)
    torque.set_xlim(0, 8)
    for axes in (angles, torque):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
