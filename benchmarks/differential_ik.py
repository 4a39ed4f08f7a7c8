"""Steps of differential inverse kinematics, and of pink with Pinocchio on the same tasks and limits.

    python benchmarks/differential_ik.py [rounds]

A step here is one call of `liebody.control.DifferentialIK`: from q to velocities. One of pink is
`configuration.update(q)` and `solve_ik` with the solvers daqp and quadprog. Both have the same tasks (poses
of frames, and a posture), weights, damping and limits of velocity and position, and have to find the same
velocities, to 1e-4 of the largest. Calls take turns in one process, over the same states; medians, and the
median of the rounds' ratios. Processor time. pink comes from PyPI: pip install pin-pink daqp quadprog.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
from machine import absent, describe, keep, unless_quick
from robots import CHOSEN, beside_pinocchio

from liebody.control import DifferentialIK, MotionTask

FRAMES = {
    "ur5": ("tool0",),
    "panda": ("panda_hand",),
    "anymal": ("base", "LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
    "talos": ("left_sole_link", "right_sole_link", "torso_2_link"),
}
STATES, MANY = 100, 1000
DT, GAIN, DAMPING, POSTURE = 0.01, 5.0, 1e-6, 1e-2
SOLVERS = ("daqp", "quadprog")


def compare(name: str, rounds: int) -> None:
    import pink
    from pink.tasks import FrameTask, PostureTask

    ours, model, data, layout = beside_pinocchio(name)
    frames = FRAMES[name]
    rng = np.random.default_rng(0)
    # states within the limits, and targets nearby, or so far away that limits of velocity act
    low, high = ours.tree.coordinate_limits
    start = ours.random(rng, MANY)
    at = [i for i in range(ours.nq) if np.isfinite(high[i] - low[i])]
    edge = 0.1 * (high[at] - low[at])
    start[:, at] = np.clip(start[:, at], low[at] + edge, high[at] - edge)
    apart = rng.choice([0.1, 0.5], (MANY, 1))
    near = ours.integrate(start, apart * rng.normal(size=(MANY, ours.nv)))

    # pink keeps joints with one coordinate and one velocity at their posture, as the task here does
    tasks = [MotionTask.pose(ours, frame, gain=GAIN) for frame in frames]
    posture = MotionTask.posture(ours, gain=GAIN, weight=POSTURE)
    ik = DifferentialIK(ours, [*tasks, posture])
    places = [b.coordinates.start for b in ours.tree.bodies if b.joint.dim == b.joint.nq == 1]
    values: dict[str, Any] = {f"{frame}.target": ours.pose(near, frame) for frame in frames}
    values |= {f"{frame}.levenberg": 0.0 for frame in frames}
    values |= {"posture.target": start[:, places], "posture.levenberg": 0.0, "damping": DAMPING, "dt": DT}
    p = ik.pack(values)
    kernel = ik.kernel
    commands = ik(start, p)

    # gain and damping of pink are those of displacements v dt
    theirs = [FrameTask(frame, 1.0, 1.0, gain=GAIN * DT) for frame in frames]
    posture = PostureTask(cost=np.sqrt(POSTURE), gain=GAIN * DT)
    states = [layout.to_q(q) for q in start[:STATES]]
    targets = [[pose(model, data, layout.to_q(q), frame) for frame in frames] for q in near[:STATES]]
    configuration = pink.Configuration(model, data, states[0])

    def step(k: int, solver: str) -> Any:
        configuration.update(states[k])
        for task, target in zip(theirs, targets[k], strict=True):
            task.set_target(target)
        posture.set_target(states[k])
        return pink.solve_ik(configuration, [*theirs, posture], DT, solver, damping=DAMPING)

    for solver in SOLVERS:
        for k in range(STATES):
            expected = step(k, solver)
            v = layout.to_v(start[k], commands.v[k])
            if np.abs(v - expected).max() > 1e-4 * max(1.0, np.abs(expected).max()):
                raise SystemExit(f"{name}, state {k}, {solver}: {expected} by pink, {v} here")

    times: dict[str, list[float]] = {"liebody": [], **{solver: [] for solver in SOLVERS}}
    ratios: dict[str, list[float]] = {solver: [] for solver in SOLVERS}
    batch = []
    for _ in range(rounds):
        for k in range(STATES):
            moments = [time.process_time()]
            kernel.call(start[k], p[k])
            moments.append(time.process_time())
            for solver in SOLVERS:
                step(k, solver)
                moments.append(time.process_time())
            for who, spent in zip(times, np.diff(moments), strict=True):
                times[who].append(float(spent))
        medians = {who: statistics.median(x[-STATES:]) for who, x in times.items()}
        for solver in SOLVERS:
            ratios[solver].append(medians[solver] / medians["liebody"])
        begin = time.process_time()
        kernel(start, p)
        batch.append((time.process_time() - begin) / MANY)
    fastest = p[0, ik.layout.places["velocity_limit"]]
    limited = (np.abs(commands.v[:, ik.bounded]) > 0.999 * fastest).any(axis=1).mean()
    row = [1e6 * statistics.median(times["liebody"]), 1e6 * statistics.median(batch)]
    row += [1e6 * statistics.median(times[solver]) for solver in SOLVERS]
    row += [statistics.median(ratios[solver]) for solver in SOLVERS]
    keep(f"{name}, a call", seconds=times["liebody"])
    keep(f"{name}, of {MANY}", seconds=batch)
    for solver in SOLVERS:
        keep(f"{name} / {solver}", ratio=ratios[solver])
    words = "".join(f"{x:13.1f}" for x in row)
    print(f"{name:8s}{ours.nv:4d}{100 * limited:13.0f}{commands.iterations.mean():13.1f}{words}")


def pose(model: Any, data: Any, q: Any, frame: str) -> Any:
    import pinocchio as pin

    pin.framesForwardKinematics(model, data, q)
    return data.oMf[model.getFrameId(frame)].copy()


def main(rounds: int = unless_quick(9, 1)) -> None:
    try:
        import daqp  # noqa: F401
        import pink  # noqa: F401
        import quadprog  # noqa: F401
    except ModuleNotFoundError as error:
        absent(error)
    print(describe("numpy", "pin-pink", "pin", "daqp", "quadprog"))
    titles = ["limited, %", "iterations", "call, us", "of 1000, us", *SOLVERS, "ratio", "ratio"]
    print(f"{'robot':8s}  nv" + "".join(f"{x:>13s}" for x in titles))
    for name in CHOSEN:
        compare(name, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
