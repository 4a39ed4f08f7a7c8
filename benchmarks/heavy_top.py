"""The heavy top: steps per second of RK4, one simulation and an ensemble, beside Exudyn and MuJoCo.

    python benchmarks/heavy_top.py

Mass 15 kg, inertia diag(0.234375, 0.46875, 0.234375) kg m2 about the centre of mass, which lies 1 m along the
body's y axis from the fixed point; angular velocity (0, 150, -4.61538) rad/s at the start; h = 1 ms. omega_y
in the world after 2 s should be -106.163804143 (Exudyn's converged reference); RK4 with this step has
-106.16651966. All run alternately in this process, without output, on one thread.

Exudyn (explicit Lie-group RK44 on a rotation-vector node) carries the top as a free body about its fixed
point, whose translation has no force to move it on: its fastest way. MuJoCo integrates a ball joint by its
RK4 on quaternions.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from machine import absent, describe, keep, unless_quick

import liebody as lb

try:
    import exudyn as exu
    import mujoco
    from exudyn.itemInterface import (
        Force,
        MarkerBodyPosition,
        NodeRigidBodyRotVecLG,
        ObjectRigidBody,
        SensorNode,
    )
except ModuleNotFoundError as error:
    absent(error)

MASS, INERTIA, OMEGA, G, STEP = 15.0, (0.234375, 0.46875, 0.234375), (0.0, 150.0, -4.61538), 9.81, 1e-3
SHORT, LONG, MEMBERS, ROUNDS = unless_quick((2.0, 20.0, 1024, 7), (0.1, 0.2, 8, 1))
REFERENCE = -106.163804143

MJCF = f"""
<mujoco>
  <option timestep="{STEP}" integrator="RK4" gravity="0 0 -{G}"><flag contact="disable"/></option>
  <worldbody>
    <body><joint type="ball"/>
      <inertial pos="0 1 0" mass="{MASS}" diaginertia="{INERTIA[0]} {INERTIA[1]} {INERTIA[2]}"/>
    </body>
  </worldbody>
</mujoco>
"""


def ours(t_end: float, members: int | None = None, method: str = "rkmk4") -> float:
    """omega_y in the world at the end."""
    omega = np.array(OMEGA) if members is None else np.tile(OMEGA, (members, 1))
    run = lb.simulate(TOP, v0=omega, t_end=t_end, dt=STEP, method=method, record_every=t_end)
    R = TOP.poses(run.q[..., -1, :])[..., 0, :3, :3]
    return float(np.ravel((R @ run.v[..., -1, :, None])[..., 1, 0])[0])


def exudyn(t_end: float) -> float:
    container = exu.SystemContainer()
    system = container.AddSystem()
    about_point = np.array(INERTIA) + MASS * np.array([1.0, 0.0, 1.0])
    node = system.AddNode(NodeRigidBodyRotVecLG(initialVelocities=[0, 0, 0, *OMEGA]))
    body = system.AddObject(ObjectRigidBody(mass=MASS, inertia=[*about_point, 0, 0, 0], nodeNumber=node))
    centre = system.AddMarker(MarkerBodyPosition(bodyNumber=body, localPosition=[0, 1, 0]))
    system.AddLoad(Force(markerNumber=centre, loadVector=[0, 0, -MASS * G]))
    sensor = system.AddSensor(
        SensorNode(
            nodeNumber=node, writeToFile=False, outputVariableType=exu.OutputVariableType.AngularVelocity
        )
    )
    system.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = round(t_end / STEP)
    settings.timeIntegration.endTime = t_end
    settings.timeIntegration.verboseMode = 0
    settings.timeIntegration.explicit.useLieGroupIntegration = True
    settings.timeIntegration.generalizedAlpha.computeInitialAccelerations = False
    settings.solution.file.write = False
    settings.solution.sensors.writePeriod = t_end
    start = time.perf_counter()
    system.SolveDynamic(solverType=exu.DynamicSolverType.RK44, simulationSettings=settings)
    SPENT["exudyn"] = time.perf_counter() - start
    return float(system.GetSensorValues(sensor)[1])


def mujoco_top(t_end: float) -> float:
    data = mujoco.MjData(MODEL)
    data.qvel[:] = OMEGA
    start = time.perf_counter()
    mujoco.mj_step(MODEL, data, nstep=round(t_end / STEP))
    SPENT["mujoco"] = time.perf_counter() - start
    R = data.xmat[1].reshape(3, 3)
    mujoco.mj_kinematics(MODEL, data)
    return float((R @ data.qvel)[1])


TOP = lb.models.heavy_top()
MODEL = mujoco.MjModel.from_xml_string(MJCF)
SPENT: dict[str, float] = {}


def rate(function: Callable[[], float], name: str, steps: float) -> float:
    """Steps per second; Exudyn and MuJoCo time the stepping alone, ours the whole call of `simulate`."""
    start = time.perf_counter()
    function()
    return steps / SPENT.get(name, time.perf_counter() - start)


def main() -> None:
    print(describe("exudyn", "mujoco", "numpy"))
    print(f"omega_y at 2 s, RK4, h = 1 ms (converged: {REFERENCE})")
    for name, value in (("liebody", ours(SHORT)), ("exudyn", exudyn(SHORT)), ("mujoco", mujoco_top(SHORT))):
        print(f"    {name:10s} {value:.9f}")
    print(f"    {'liebody, rkmk6':10s} {ours(SHORT, method='rkmk6'):.9f}")
    steps = LONG / STEP
    cases: dict[str, Callable[[], float]] = {
        "one": lambda: rate(lambda: ours(LONG), "", steps),
        "1024": lambda: rate(lambda: ours(SHORT, MEMBERS), "", SHORT / STEP * MEMBERS),
        "exudyn": lambda: rate(lambda: exudyn(LONG), "exudyn", steps),
        "mujoco": lambda: rate(lambda: mujoco_top(LONG), "mujoco", steps),
    }
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            rates[name].append(case())
    print("steps per second, median of", ROUNDS)
    for name, values in rates.items():
        label = {"one": "liebody", "1024": f"liebody, {MEMBERS} at once"}.get(name, name)
        keep(label, rate=values)
        print(f"    {label:24s} {statistics.median(values):14,.0f}")
    for peer in ("exudyn", "mujoco"):
        for case in ("one", "1024"):
            ratios = [a / b for a, b in zip(rates[case], rates[peer], strict=True)]
            keep(f"{case} / {peer}", ratio=ratios)
            print(f"    {case:>5s} / {peer:7s} {statistics.median(ratios):8.1f}")


if __name__ == "__main__":
    main()
