"""Legged robots on the ground beside MuJoCo: simulated seconds per second of time stepping, alone and of 256.

    python benchmarks/legs.py [robot ...]       (anymal solo12 talos; terrain)

Both stand on equal spherical feet (a humanoid on four points under each foot) by joint PD, whose set-points
get new noise every 20 ms, so that no solver lives on a settled state. Steps of 1 ms, one thread of this
process, alternately; medians of processor time, and of the ratio round by round with its quartiles. MuJoCo
has the PD as actuators and takes it implicitly (`implicitfast`), with its default solver; it steps one member
after the other. At first both stand for 0.2 s, and must agree about the height of the base to 5 mm: MuJoCo's
feet creep apart, by about a centimetre a second.

terrain: 4096 ANYmals, each on random ground of its own, on one thread and on two. The ratio by the clock is
true on an idle machine alone. That by processor time, of which the second thread takes half of what both
share, is what an idle machine would show. They are of a run, and of steps of 20 ms, as environments take.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import absent, describe, keep, unless_quick

import liebody as lb
from liebody.bodies import Frame
from liebody.contact import Contact, HeightField, TimeStepping
from liebody.hybrid import JointPD
from liebody.io import mujoco_layout

try:
    import mujoco
except ModuleNotFoundError as error:
    absent(error)

DT, HOLD, ROUNDS, AGREE = 1e-3, 0.02, unless_quick(7, 1), 5e-3
T_END = unless_quick({(): 2.0, (256,): 0.5}, {(): 0.1, (8,): 0.1})  # s, of one and of each member
ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
SOLE = [(x, y, 0.0) for x in (-0.09, 0.11) for y in (-0.05, 0.05)]


class Legged(NamedTuple):
    file: str
    feet: dict[str, list[tuple[float, float, float]]]  # frames, and points in them
    pose: dict[str, float]  # by the ends of the joints' names
    K: float
    D: float
    noise: float
    radius: float


FEET: Any = [(0.0, 0.0, 0.0)]
CASES = {
    "anymal": Legged(
        "anymal_b_simple_description/robots/anymal.urdf",
        {f"{leg}_FOOT": FEET for leg in ("LF", "RF", "LH", "RH")},
        {"F_HFE": 0.4, "F_KFE": -0.8, "H_HFE": -0.4, "H_KFE": 0.8},
        200.0, 5.0, 0.1, 0.02,
    ),
    "solo12": Legged(
        "solo_description/robots/solo12.urdf",
        {f"{leg}_FOOT": FEET for leg in ("FL", "FR", "HL", "HR")},
        {"_HFE": 0.8, "_KFE": -1.6},
        6.0, 0.2, 0.1, 0.0125,
    ),
    "talos": Legged(
        "talos_data/robots/talos_reduced.urdf",
        {"left_sole_link": SOLE, "right_sole_link": SOLE},
        {"leg_left_3_joint": -0.4, "leg_left_4_joint": 0.8, "leg_left_5_joint": -0.4,
         "leg_right_3_joint": -0.4, "leg_right_4_joint": 0.8, "leg_right_5_joint": -0.4},
        2000.0, 40.0, 0.01, 0.01,
    ),
}  # fmt: skip


def loaded(case: Legged) -> tuple[lb.Robot, np.ndarray]:
    """The robot with a frame at each point that touches the ground, and the pose it stands in."""
    try:
        root = Path(str(distribution("example-robot-data").locate_file(ROBOTS)))
    except ModuleNotFoundError as error:
        absent(error)
    robot = lb.load(root / case.file, floating=True)
    frames: dict[str, Frame] = {}
    for name, points in case.feet.items():
        foot = robot.tree.frame(name)
        for i, point in enumerate(points):
            T = np.array(foot.placement, float)
            T[:3, 3] += T[:3, :3] @ point
            frames[f"{name}_{i}"] = Frame(f"{name}_{i}", foot.body, T)
    robot = lb.Robot(replace(robot.tree, frames=frames))
    q = robot.neutral()
    for body in robot.tree.bodies:
        for end, angle in case.pose.items():
            if body.joint.name.endswith(end):
                q[body.coordinates] = angle
    lowest = min(lb.dynamics.frame_pose(robot.tree, q, name)[2, 3] for name in frames)
    q[6] = case.radius - lowest
    return robot, q


def mujoco_model(robot: lb.Robot, case: Legged) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_string(robot.to_mjcf())
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[0.8, 0, 0], condim=3)
    for frame in robot.tree.frames.values():
        name = robot.tree.bodies[frame.body - 1].name
        spec.body(name).add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[case.radius, 0, 0], pos=frame.placement[:3, 3],
            contype=0, conaffinity=1, friction=[0.8, 0, 0], condim=3, mass=0,
        )  # fmt: skip
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    for body in robot.tree.bodies[1:]:
        spec.add_actuator(
            target=body.joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED, gainprm=[case.K, *[0] * 9],
            biastype=mujoco.mjtBias.mjBIAS_AFFINE, biasprm=[0, -case.K, -case.D, *[0] * 7],
        )  # fmt: skip
    model = spec.compile()
    model.opt.timestep, model.opt.integrator = DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
    model.dof_damping[:], model.dof_frictionloss[:] = 0, 0
    return model


def measure(name: str) -> None:
    case = CASES[name]
    robot, q = loaded(case)
    robot = lb.Robot(robot.tree.with_joints("ideal"))
    drives = JointPD(case.K, q[7:], case.D, gravity_compensation=False)
    floor = Contact(*robot.tree.frames, stiffness=1e6, damping=1e4, friction=0.8, radius=case.radius)
    system = TimeStepping(robot, drives, floor, ledger=False)
    model = mujoco_model(robot, case)
    layout, data = mujoco_layout(robot.tree, model), mujoco.MjData(model)
    start = layout.to_q(q)
    rng, residuals = np.random.default_rng(0), []

    def ours(targets: Any) -> float:
        t_end = HOLD * (targets.shape[-2] - 1)
        begin = time.process_time()
        run = system.simulate(
            np.broadcast_to(q, (*targets.shape[:-2], len(q))), t_end=t_end, dt=DT, record_every=HOLD,
            sampled={"pd_q_des": (HOLD * np.arange(targets.shape[-2]), targets)}, threads=1, most_events=0,
        )  # fmt: skip
        spent = time.process_time() - begin
        residuals.append(run.memory["residual"][..., 1:].ravel())
        if (run.ends != "").any():
            raise SystemExit(f"{name}: {np.count_nonzero(run.ends != '')} members ended early")
        return spent

    def theirs(targets: Any) -> float:
        begin = time.process_time()
        mujoco.mj_resetData(model, data)
        data.qpos[:] = start
        for target in targets[:-1]:
            data.ctrl[:] = target
            mujoco.mj_step(model, data, nstep=round(HOLD / DT))
        return time.process_time() - begin

    data.qpos[:], data.ctrl[:] = start, q[7:]
    mujoco.mj_step(model, data, nstep=200)
    height = float(system.simulate(q, t_end=0.2, dt=DT).q[-1, 6])
    if not abs(height - data.qpos[2]) < AGREE:
        raise SystemExit(f"{name}: the base stands at {height:.4f} m, at {data.qpos[2]:.4f} m in MuJoCo")

    for members, t_end in T_END.items():
        rows, residuals = round(t_end / HOLD) + 1, []

        def noisy(*shape: int) -> np.ndarray:
            return q[7:] + case.noise * rng.standard_normal((*shape, len(q) - 7))

        ours(noisy(*members, rows))
        pairs = []
        for _ in range(ROUNDS):
            few = [theirs(noisy(rows)) for _ in range(3)]
            pairs.append((ours(noisy(*members, rows)) / np.prod(members), statistics.median(few)))
        a, b = (t_end / statistics.median(x) for x in zip(*pairs, strict=True))
        low, ratio, high = np.percentile([y / x for x, y in pairs], [25, 50, 75])
        high_residual = np.quantile(np.concatenate(residuals), 0.99)
        label = f"{name}, {f'of {members[0]}' if members else 'one'}"
        own, others = np.array(pairs).T
        keep(label, rate=t_end / own, ratio=others / own)
        print(f"{label:28s} {a:10.1f} {b:10.1f} {ratio:8.1f}   [{low:.1f}, {high:.1f}]   {high_residual:.1e}")


def scaling(members: int = unless_quick(4096, 16), side: int = 12) -> None:
    """Two threads beside one, on random terrain."""
    case, rng = CASES["anymal"], np.random.default_rng(0)
    robot, q = loaded(case)
    heights = 0.1 * rng.random((members, side, side))
    drives = JointPD(case.K, q[7:], case.D, gravity_compensation=False)
    ground = HeightField(heights[0], 0.4)
    options: Any = {"stiffness": 1e6, "damping": 1e4, "friction": 0.8, "radius": case.radius}
    floor = Contact(*robot.tree.frames, ground=ground, **options)
    system = TimeStepping(robot, drives, floor, ledger=False)
    q0 = np.tile(q, (members, 1))
    q0[:, 4:6], q0[:, 6] = rng.uniform(0, side * 0.4, (members, 2)), q0[:, 6] + 0.1
    given = {"floor_heights": heights}
    sims = {threads: lb.stepper(system, dt=HOLD, members=members, threads=threads) for threads in (1, 2)}
    states = {threads: sim.start(q0) for threads, sim in sims.items()}  # each stepper has states of its own

    def run(threads: int) -> None:
        more: Any = {"parameters": given, "most_events": 0, "threads": threads}
        if (system.simulate(q0, t_end=0.5, dt=DT, record_every=0.1, **more).ends != "").any():
            raise SystemExit("members ended early")

    def step(threads: int) -> None:
        now = states[threads]
        for _ in range(5):
            now = sims[threads].step(now, given)

    def timed(take: Any, threads: int) -> np.ndarray:
        """Time by the clock; of this thread, and of all, on processors."""
        clocks = time.perf_counter, time.thread_time, time.process_time
        begin = [clock() for clock in clocks]
        take(threads)
        return np.array([clock() - start for clock, start in zip(clocks, begin, strict=True)])

    print(f"{'simulated s per s':28s} {'1 thread':>10s} {'2 threads':>10s} {'ratio':>8s}   by processor time")
    for name, take, t_end in (("a run of 0.5 s", run, 0.5), ("steps of 20 ms", step, 5 * HOLD)):
        take(2)
        pairs = np.array([[timed(take, threads) for threads in (1, 2)] for _ in range(ROUNDS)])
        one, two = np.median(pairs, axis=0)
        alone, shared = two[1], two[2] - two[1]
        a, b = (members * t_end / x for x in (one[0], two[0]))
        quiet = one[2] / (alone + shared / 2)
        print(f"{f'{members} on terrain, {name}':28s} {a:10.1f} {b:10.1f} {b / a:8.2f}   {quiet:.2f}")


def main(chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(describe("mujoco", "numpy"))
    print(
        f"{'simulated s per s':28s} {'liebody':>10s} {'mujoco':>10s} {'ratio':>8s}   [quartiles]   "
        "residual of 99 %, N"
    )
    chosen = chosen or unless_quick([*CASES, "terrain"], ["anymal", "terrain"])
    for name in [x for x in chosen if x != "terrain"]:
        measure(name)
    if "terrain" in chosen:
        scaling()


if __name__ == "__main__":
    main(sys.argv[1:])
