"""FMUs: how long the export of a large robot takes, and steps of Co-Simulation beside our own loop.

    python benchmarks/fmu.py [rounds]

Export: processor time of `lb.export_fmu` with the compiler of its library, with an empty cache; goal: 10 s
for Talos. Steps: RKMK4 with 1 ms of an ANYmal that falls freely, one communication step of 1 s, called
through FMPy, in alternation with `lb.simulate`; goal: at most 1.3 times its time.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from machine import absent, describe, keep, met, seconds, spent, unless_quick
from robots import path

import liebody as lb

try:
    import fmpy
    from fmpy.fmi3 import FMU3Slave
except ModuleNotFoundError as error:
    absent(error)

EXPORT, STEPS = 10, 1.3  # goals: seconds, and times the loop's
DT = 1e-3


def exported(name: str, folder: Path) -> float:
    """Seconds of an export with its compiler."""
    robot = robot_of(name)
    return seconds(lambda: lb.export_fmu(folder / f"{name}.fmu", robot), clock=spent)


def robot_of(name: str) -> lb.Robot:
    file, floating = path(name)
    return lb.load(file, floating=floating)


def instance(file: Path, folder: Path) -> FMU3Slave:
    """An instance of Co-Simulation after its initialization."""
    fmpy.extract(str(file), str(folder))
    description = fmpy.read_model_description(str(folder))
    made = FMU3Slave(
        guid=description.guid,
        unzipDirectory=str(folder),
        modelIdentifier=description.coSimulation.modelIdentifier,
        instanceName="one",
    )
    made.instantiate()
    made.enterInitializationMode()
    made.exitInitializationMode()
    return made


def compare(name: str, options: list[str], folder: Path, t_end: float, rounds: int) -> float:
    """The median ratio of the FMU's time to the loop's."""
    robot = robot_of(name)
    binaries = {"x86_64-linux": ["gcc", *options]} if options else None
    file = lb.export_fmu(folder / "steps.fmu", robot, dt=DT, method="rkmk4", binaries=binaries)
    made, time = instance(file, folder / "steps"), [0.0]

    def stepped() -> None:
        made.doStep(currentCommunicationPoint=time[0], communicationStepSize=t_end)
        time[0] += t_end

    def simulated() -> None:
        lb.simulate(robot, robot.neutral(), t_end=t_end, dt=DT, method="rkmk4", record_every=t_end)

    stepped(), simulated()
    times = [(seconds(stepped), seconds(simulated)) for _ in range(rounds)]
    label = " ".join(["FMU", *options])
    ours, loop = ([1e6 * DT / t_end * x for x in column] for column in zip(*times, strict=True))
    keep(label, seconds=[1e-6 * x for x in ours], ratio=[a / b for a, b in times])
    keep("loop", seconds=[1e-6 * x for x in loop])
    ratio = statistics.median(a / b for a, b in times)
    print(f"{label:20s} {statistics.median(ours):8.2f} us a step, {statistics.median(loop):8.2f} our loop's: "
          f"{ratio:.2f} times, goal {STEPS}: {met(ratio <= STEPS)}")  # fmt: skip
    return ratio


def main(rounds: int = unless_quick(9, 1)) -> None:
    print(describe("numpy", "fmpy"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LIEBODY_CACHE"] = str(Path(folder) / "cache")
        for name in unless_quick(("anymal", "talos"), ("ur5",)):
            time = exported(name, Path(folder))
            keep(f"export of {name}", seconds=time)
            print(f"export of {name}: {time:.1f} s, goal {EXPORT}: {met(time <= EXPORT)}")
        robot = unless_quick("anymal", "ur5")
        for k, options in enumerate(([], ["-march=native"])):
            place = Path(folder) / str(k)
            place.mkdir()
            compare(robot, options, place, unless_quick(1.0, 0.01), rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
