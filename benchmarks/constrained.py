"""Bodies with ball joints beside Exudyn: time to a given accuracy, ensembles, and chains of 1000 bodies.

    python benchmarks/constrained.py [rounds]

Heavy top: mass 15 kg, inertia diag(0.234375, 0.46875, 0.234375) kg m2, centre of mass 1 m along y from the
pivot, omega = (0, 150, -4.61538) rad/s; error of omega_y in the world after 2 s. Spherical double pendulum:
section 5.2 of Mueller and Terze (2013), two boxes of 2.7 kg; error of the second centre of mass after 0.5 s.
Both as free bodies with spherical joints, on both sides. Steps are halved from 16 ms until the error is below
the bound; the time is that of the largest such step. References by order 8 with a small step, to which Exudyn
converges as well.

Chain: n boxes of 0.2 m and 1 kg on spherical joints, stretched out horizontally, falling from rest with
h = 1 ms. Time per step of n = 100 to 1000, its slope in log-log, and steps per second beside Exudyn with its
sparse solver.

liebody: explicit, RKMK4 or (as Exudyn's, of order 2) RKMK2, with projection onto the constraints after each
step; the time is that of the whole call of `simulate`. Exudyn: implicit, with Lie-group nodes (rotation
vector): generalized-alpha with spectral radius 0.9, or the trapezoidal rule of index 2; and generalized-alpha
with Euler parameters; the time is that of its solver alone. All on one thread, without output, in
alternation; of each the smallest processor time of the rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import absent, describe, keep, unless_quick

import liebody as lb
from liebody.groups import Spherical

try:
    import exudyn as exu
    from exudyn.itemInterface import (
        LoadMassProportional,
        MarkerBodyMass,
        MarkerBodyPosition,
        NodeRigidBodyEP,
        NodeRigidBodyRotVecLG,
        ObjectGround,
        ObjectRigidBody,
        SphericalJoint,
    )
except ModuleNotFoundError as error:
    absent(error)

MEMBERS = unless_quick(1024, 8)
GRAVITY = np.array([0, 0, -9.81])
LADDER = [16e-3 / 2**k for k in range(14)]
CHAINS = unless_quick((100, 200, 400, 700, 1000), (10, 20))
EXUDYN = {  # node type, options of the generalized-alpha solver
    "Lie group, generalized-alpha": (True, {}),
    "Lie group, trapezoidal, index 2": (True, {"useIndex2Constraints": True, "useNewmark": True}),
    "Euler parameters, generalized-alpha": (False, {}),
}
OURS = ("rkmk4", "rkmk2")


class Case:
    """Bodies (mass, inertia, centre, velocity, omega) and ball joints (a, on a, b, on b), -1 the world."""

    def __init__(self, name: str, bodies: list[Any], joints: list[Any], end: float = 0.0) -> None:
        self.name, self.bodies, self.joints, self.end = name, bodies, joints, end
        builder = lb.SystemBuilder(name, GRAVITY)
        for i, (mass, inertia, centre, _, _) in enumerate(bodies):
            builder.body(f"b{i}", lb.SpatialInertia(mass, rotational=inertia), centre)
        for k, (a, on_a, b, on_b) in enumerate(joints):
            builder.joint(f"j{k}", Spherical(), "world" if a < 0 else f"b{a}", f"b{b}", on_a, on_b)
        self.system = builder.build()
        self.q = self.system.guess
        twists = {f"b{i}": [*w, *v] for i, (_, _, _, v, w) in enumerate(bodies)}
        self.v = self.system.velocities(self.q, twists)

    def ours(self, method: str, h: float, steps: int, members: int | None = None) -> tuple[float, Any]:
        """Seconds, the whole call of `simulate`, and the run."""
        v = self.v if members is None else self.v * np.linspace(0.99, 1.01, members)[:, None]
        start = time.process_time()
        run = lb.simulate(
            self.system, self.q, v, t_end=h * steps, dt=h, method=method, record_every=h * steps
        )
        return time.process_time() - start, run

    def exudyn(self, kind: str, h: float, steps: int, sparse: bool = False) -> tuple[float, Any]:
        """Seconds of the solver alone, and (omega, position) of the last body, in the world."""
        lie, options = EXUDYN[kind]
        container = exu.SystemContainer()
        system = container.AddSystem()
        objects, node = [system.AddObject(ObjectGround())], 0
        for mass, inertia, centre, velocity, omega in self.bodies:
            if lie:
                item = NodeRigidBodyRotVecLG(
                    referenceCoordinates=[*centre, 0, 0, 0], initialVelocities=[*velocity, *omega]
                )
            else:
                rates = [0, *(0.5 * np.asarray(omega))]
                item = NodeRigidBodyEP(
                    referenceCoordinates=[*centre, 1, 0, 0, 0], initialVelocities=[*velocity, *rates]
                )
            node = system.AddNode(item)
            body = system.AddObject(ObjectRigidBody(mass=mass, inertia=[*inertia, 0, 0, 0], nodeNumber=node))
            marker = system.AddMarker(MarkerBodyMass(bodyNumber=body))
            system.AddLoad(LoadMassProportional(markerNumber=marker, loadVector=GRAVITY.tolist()))
            objects.append(body)
        for a, on_a, b, on_b in self.joints:
            markers = [
                system.AddMarker(MarkerBodyPosition(bodyNumber=objects[i + 1], localPosition=list(place)))
                for i, place in ((a, on_a), (b, on_b))
            ]
            system.AddObject(SphericalJoint(markerNumbers=markers, constrainedAxes=[1, 1, 1]))
        system.Assemble()
        settings = exu.SimulationSettings()
        integration = settings.timeIntegration
        integration.numberOfSteps, integration.endTime, integration.verboseMode = steps, steps * h, 0
        integration.generalizedAlpha.spectralRadius = 0.9
        integration.generalizedAlpha.computeInitialAccelerations = True
        integration.newton.useModifiedNewton = True
        for name, value in options.items():
            setattr(integration.generalizedAlpha, name, value)
        settings.solution.file.write = False
        settings.solution.sensors.writePeriod = steps * h
        if sparse:
            settings.linearSolver.solverType = exu.LinearSolverType.EigenSparse
        start = time.process_time()
        system.SolveDynamic(simulationSettings=settings)
        spent = time.process_time() - start
        types = exu.OutputVariableType
        return spent, tuple(
            np.array(system.GetNodeOutput(node, t)) for t in (types.AngularVelocity, types.Position)
        )


def heavy_top() -> Case:
    w = np.array([0, 150, -4.61538])
    body = (15.0, [0.234375, 0.46875, 0.234375], [0, 1, 0], np.cross(w, [0, 1, 0]), w)
    return Case("heavy top", [body], [(-1, [0, 0, 0], 0, [0, -1, 0])], 2.0)


def double_pendulum() -> Case:
    inertia = 2.7 / 12 * np.array([0.1**2 + 0.05**2, 0.2**2 + 0.05**2, 0.2**2 + 0.1**2])
    w = np.pi * np.array([10, 10, 20.0])
    bodies = [
        (2.7, inertia, [0.1, 0, 0], [0, 0, 0], [10, 0, 0]),
        (2.7, inertia, [0.3, 0, 0], np.cross(w, [0.1, 0, 0]), w),
    ]
    return Case(
        "double pendulum", bodies, [(-1, [0, 0, 0], 0, [-0.1, 0, 0]), (0, [0.1, 0, 0], 1, [-0.1, 0, 0])], 0.5
    )


def chain(n: int) -> Case:
    inertia = np.array([0.1**2 + 0.05**2, 0.2**2 + 0.05**2, 0.2**2 + 0.1**2]) / 12
    bodies = [(1.0, inertia, [0.1 + 0.2 * i, 0, 0], [0, 0, 0], [0, 0, 0]) for i in range(n)]
    joints = [(i - 1, [0.1, 0, 0] if i else [0, 0, 0], i, [-0.1, 0, 0]) for i in range(n)]
    return Case(f"chain of {n}", bodies, joints)


def of_top(omega: Any, position: Any) -> Any:
    return omega[1]


def of_pendulum(omega: Any, position: Any) -> Any:
    return position


def seen(case: Case, run: Any, look: Callable[[Any, Any], Any]) -> Any:
    """What is looked at, at the end of a run of ours."""
    q, v = run.q[..., -1, :], run.v[..., -1, :]
    T = case.system.poses(q)[-1]
    return look(T[:3, :3] @ v[-6:-3], T[:3, 3])


def to_accuracy(
    case: Case, look: Callable[[Any, Any], Any], bounds: tuple[float, ...], unit: str, rounds: int
) -> None:
    """For each bound, the largest step of each method that keeps it, and its times."""
    _, run = case.ours("rkmk8", case.end / 20000, 20000)
    reference = seen(case, run, look)

    def largest_steps(result: Callable[[float, int], Any]) -> dict[float, tuple[float, float]]:
        found: dict[float, tuple[float, float]] = {}
        for h in LADDER:
            try:
                error = float(np.abs(result(h, round(case.end / h)) - reference).max())
            except (lb.LiebodyError, ValueError, RuntimeError, SystemError):
                continue
            for bound in bounds:
                if error < bound and bound not in found:
                    found[bound] = (h, error)
            if len(found) == len(bounds):
                break
        return found

    steps: dict[str, dict[float, tuple[float, float]]] = {}
    for method in OURS:
        steps[method] = largest_steps(lambda h, n, m=method: seen(case, case.ours(m, h, n)[1], look))
    for kind in EXUDYN:
        steps[kind] = largest_steps(lambda h, n, k=kind: look(*case.exudyn(k, h, n)[1]))
    for bound in bounds:
        times: dict[str, float] = {}
        for _ in range(rounds):
            for name, found in steps.items():
                if bound not in found:
                    continue
                h = found[bound][0]
                n = round(case.end / h)
                if name in OURS:
                    times[name] = min(times.get(name, np.inf), case.ours(name, h, n)[0])
                    many = case.ours(name, h, n, MEMBERS)[0] / MEMBERS
                    times[name + ", 1024"] = min(times.get(name + ", 1024", np.inf), many)
                else:
                    times[name] = min(times.get(name, np.inf), case.exudyn(name, h, n)[0])
        print(f"{case.name}, error below {bound:g} {unit} after {case.end:g} s")
        for name, seconds in times.items():
            h, error = steps[name.removesuffix(", 1024")][bound]
            rate = case.end / h / seconds
            keep(f"{case.name}, {bound:g} {unit}, {name}", seconds=seconds)
            print(f"    {name:38s} h = {1e3 * h:8.4g} ms, error {error:8.1e}: {1e3 * seconds:9.3f} ms, "
                  f"{rate:12,.0f} steps/s")  # fmt: skip
        peer = min((times[k], k) for k in EXUDYN if k in times)
        lie = min((times[k], k) for k in EXUDYN if k in times and EXUDYN[k][0])
        where = f"{case.name}, {bound:g} {unit}"
        keep(f"{where}, Exudyn's best on Lie groups", seconds=lie[0])
        for name in ("rkmk4", "rkmk4, 1024"):
            keep(f"{where}, {name} / Exudyn's best on Lie groups", ratio=lie[0] / times[name])
            print(f"    {name:38s} {lie[0] / times[name]:8.1f} times as fast as Exudyn's best on Lie groups, "
                  f"{peer[0] / times[name]:8.1f} as its best")  # fmt: skip


def chains(rounds: int) -> None:
    """Times per step, from the difference of a long and a short run, and what a call costs besides."""
    cases = {n: chain(n) for n in CHAINS}
    names = [*OURS, *list(EXUDYN)[:2]]
    best: dict[tuple[int, str, int], float] = {}
    for case in cases.values():
        for method in OURS:
            case.ours(method, 1e-3, 1)  # compiles
    for _ in range(rounds):
        for n, case in cases.items():
            for name in names:
                for k in (short(n), 5 * short(n)):
                    if name in OURS:
                        spent = case.ours(name, 1e-3, k)[0]
                    else:
                        spent = case.exudyn(name, 1e-3, k, sparse=True)[0]
                    best[n, name, k] = min(best.get((n, name, k), np.inf), spent)
    print("chain, steps per second (microseconds per body and step; milliseconds of the call besides)")
    print(f"    {'n':34s}" + "".join(f"{n:25d}" for n in CHAINS))
    for name in names:
        line, steps = "", []
        for n in CHAINS:
            k = short(n)
            step = (best[n, name, 5 * k] - best[n, name, k]) / (4 * k)
            steps.append(step)
            keep(f"chain of {n}, {name}", rate=1 / step)
            line += f"{1 / step:11,.0f} ({1e6 * step / n:5.2f}; {1e3 * (best[n, name, k] - k * step):4.0f})"
        slope = np.polyfit(np.log(CHAINS), np.log(steps), 1)[0]
        print(f"    {name:34s}{line}   slope {slope:.3f}")
    case = cases[CHAINS[0]]
    _, run = case.ours("rkmk4", 1e-3, 200)
    _, (_, position) = case.exudyn("Lie group, generalized-alpha", 1e-4, 2000, sparse=True)
    apart = np.abs(seen(case, run, of_pendulum) - position).max()
    print(f"    last body of {CHAINS[0]} after 0.2 s: liebody and Exudyn (0.1 ms) differ by {apart:.1e} m")


def short(n: int) -> int:
    """Steps of the short run."""
    return max(20, 8000 // n)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else unless_quick(7, 1)
    print(describe("exudyn", "numpy"), f"| {rounds} rounds")
    to_accuracy(heavy_top(), of_top, (1.0, 1e-1, 1e-2), "rad/s", rounds)
    to_accuracy(double_pendulum(), of_pendulum, (1e-2, 1e-3, 1e-4), "m", rounds)
    chains(rounds)


if __name__ == "__main__":
    main()
