"""ANYmal dropped from 0.1 m onto rigid ground: time stepping beside MuJoCo with its hardest settings.

    python benchmarks/contact_mujoco.py

MuJoCo's ground gives way by design; hardest are a time constant of two steps (`solref`), an impedance of
0.9999 (`solimp`), elliptic cones with an `impratio` of 100, Newton's method to 1e-14, and steps of 20 us.
liebody's has 1e8 N/m and 1e5 N s/m, with the solver as it is by default. Feet are spheres, drives joint PD,
friction is 0.8 in both. Printed are the position of the base after 1 s, how far it is from that of MuJoCo's
shortest steps, and how far it was at most, every 50 ms.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from legs import CASES, loaded, mujoco_model
from machine import absent, describe, unless_quick

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.hybrid import JointPD
from liebody.io import mujoco_layout

try:
    import mujoco
except ModuleNotFoundError as error:
    absent(error)

CASE, FRICTION, EVERY, T_END = CASES["anymal"], 0.8, 0.05, unless_quick(1.0, 0.1)
STEPS, THEIR_STEPS = unless_quick(((1e-3, 2.5e-4, 5e-5), (1e-3, 1e-4, 2e-5)), ((1e-3,), (1e-3, 1e-4)))


def dropped() -> tuple[lb.Robot, np.ndarray]:
    robot, q = loaded(CASE)
    q[6] += 0.1
    return lb.Robot(robot.tree.with_joints("ideal")), q


def theirs(step: float) -> np.ndarray:
    """Positions of the base, (rows, 3), with MuJoCo."""
    robot, q = dropped()
    model = mujoco_model(robot, CASE)
    options: Any = model.opt
    options.timestep, options.cone = step, mujoco.mjtCone.mjCONE_ELLIPTIC
    options.solver, options.iterations, options.ls_iterations = mujoco.mjtSolver.mjSOL_NEWTON, 200, 100
    options.tolerance, options.impratio = 1e-14, 100
    options.disableflags |= mujoco.mjtDisableBit.mjDSBL_REFSAFE
    model.geom_solref[:], model.geom_solimp[:] = [2 * step, 1], [0.9999, 0.9999, 1e-3, 0.5, 2]
    model.geom_friction[:, 0] = FRICTION
    data, layout = mujoco.MjData(model), mujoco_layout(robot.tree, model)
    data.qpos[:], data.ctrl[:] = layout.to_q(q), q[7:]
    found = [q[4:7]]
    for _ in range(round(T_END / EVERY)):
        mujoco.mj_step(model, data, nstep=round(EVERY / step))
        found.append(layout.from_q(data.qpos)[4:7])
    return np.array(found)


def ours(step: float) -> np.ndarray:
    """The same by time stepping."""
    robot, q = dropped()
    drives = JointPD(CASE.K, q[7:], CASE.D, gravity_compensation=False)
    hard: Any = {"stiffness": 1e8, "damping": 1e5, "friction": FRICTION, "radius": CASE.radius}
    system = TimeStepping(robot, drives, Contact(*robot.tree.frames, **hard), ledger=False)
    return np.asarray(system.simulate(q, t_end=T_END, dt=step, record_every=EVERY).q[:, 4:7])


def main() -> None:
    warnings.simplefilter("ignore")
    print(describe("mujoco", "numpy"))
    exact = theirs(THEIR_STEPS[-1])
    for name, method, steps in (("liebody", ours, STEPS), ("mujoco", theirs, THEIR_STEPS)):
        for step in steps:
            x = method(step)
            off = 1e3 * np.linalg.norm(x - exact, axis=1)
            place = ", ".join(f"{1e3 * y:8.4f}" for y in x[-1])
            away = f"{off[-1]:.4f} mm off, at most {off.max():.3f}"
            print(f"{name:8s} steps of {1e3 * step:5.2f} ms: ({place}) mm, {away}")


if __name__ == "__main__":
    main()
