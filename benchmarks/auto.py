"""Branches of periodic orbits beside AUTO-07p: periods, multipliers, and where folds, flips and tori begin.

AUTO (Doedel et al.) solves boundary-value problems by collocation, and knows nothing of this library. The
package bifpy builds it, and needs gfortran and make; its environment is one of its own:

    apt install gfortran make
    python -m venv auto && auto/bin/pip install bifpy
    python benchmarks/auto.py --auto auto/bin/python

Both follow the same orbits over the same parameter. Printed are all numbers of both, and the largest
difference, relative to max(1, size).

    oscillator  q'' = mu (1 - q^2) q' - q                          van der Pol, over mu
    hardening   q'' = -0.2 q' - q - q^3 + f cos 2 t                Duffing, over f: two folds
    double well q'' = -0.3 q' + q - q^3 + f cos 1.2 t              Duffing, over f: flips of two branches
    entrained   q'' = 0.5 (1 - q^2) q' - q + f cos 1.3 t           van der Pol, driven, over f: a torus

Multipliers of AUTO have the six digits that it writes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from typing import Any

LIMIT = 1e-6
KINDS = {"FOLD": "fold", "PERIOD_DOUBLING": "flip", "TORUS": "Neimark-Sacker", "BRANCH_POINT": "branch point"}

# name: acceleration (q, v, drive, parameter), frequency of the drive, parameter, its first value and range,
# values at which multipliers are compared, a guess of the orbit
SYSTEMS: dict[str, dict[str, Any]] = {
    "oscillator": {
        "field": lambda q, v, drive, p: p * (1 - q * q) * v - q,
        "omega": None, "first": 1.0, "bounds": (0.2, 3.0), "at": [0.25, 0.5, 2.0, 2.9],
        "guess": (2.0, 0.1, 6.5), "step": 0.1,
    },
    "hardening": {
        "field": lambda q, v, drive, p: -0.2 * v - q - q * q * q + p * drive,
        "omega": 2.0, "first": 0.5, "bounds": (0.3, 4.0), "at": [0.4],
        "guess": (0.0, 0.0, None), "step": 0.1,
    },
    "double well": {
        "field": lambda q, v, drive, p: -0.3 * v + q - q * q * q + p * drive,
        "omega": 1.2, "first": 0.2, "bounds": (0.05, 0.4), "at": [0.1, 0.25],
        "guess": (1.0, 0.0, None), "step": 0.01,
    },
    "entrained": {
        "field": lambda q, v, drive, p: 0.5 * (1 - q * q) * v - q + p * drive,
        "omega": 1.3, "first": 1.5, "bounds": (0.2, 2.0), "at": [1.2, 1.8],
        "guess": (1.0, 0.0, None), "step": 0.05,
    },
}  # fmt: skip


# -- this library -------------------------------------------------------------------------------------------


def ours(name: str) -> dict[str, Any]:
    import numpy as np

    import liebody as lb
    from liebody import scalars
    from liebody.gaits import continuation, periodic_orbit, switch_branch

    case = SYSTEMS[name]
    omega, field = case["omega"], case["field"]

    def acceleration(t: Any, q: Any, v: Any, z: Any, p: Any) -> Any:
        return np.array([field(q[0], v[0], scalars.cos(omega * t) if omega else 0.0, p.p)])

    system = lb.HybridSystem(lb.groups.R(1), acceleration, parameters={"p": case["first"]}, name=name)
    q, v, period = case["guess"]
    if omega:
        run = lb.simulate(system, [q], [v], t_end=60 * 2 * np.pi / omega, dt=0.01)
        q, v, period = run.q[-1, 0], run.v[-1, 0], lambda p: 2 * np.pi / omega
    options = {"period": period, "dt": 0.01, "method": "rkmk8", "tolerance": 1e-12}
    orbit = periodic_orbit(system, [q], [v], **options)
    branches = [continuation(orbit, "p", step=case["step"], bounds=case["bounds"], precision=1e-10)]
    flips = [x for x in branches[0].bifurcations if x.kind == "flip"]
    if flips:
        doubled = switch_branch(flips[0], "p", 0.1)
        branches.append(
            continuation(doubled, "p", step=case["step"] / 4, bounds=case["bounds"], precision=1e-10)
        )
    found = {}
    for i, branch in enumerate(branches):
        for kind in sorted({x.kind for x in branch.bifurcations}):
            of_kind = sorted(x.value for x in branch.bifurcations if x.kind == kind)
            found |= {f"branch {i + 1}, {kind} {j + 1}": x for j, x in enumerate(of_kind)}
    for p in case["at"]:
        near = min(branches[0].orbits, key=lambda orbit: abs(orbit.parameters["p"] - p))
        at = periodic_orbit(system, near.q, near.v, parameters={"p": p},
                            **{**options, "period": period if omega else near.period})  # fmt: skip
        found[f"p = {p}, period"] = at.period
        for k, mu in enumerate(sorted(at.multipliers, key=lambda x: (abs(x), x.imag))):
            found |= {f"p = {p}, multiplier {k + 1} {part}": x for part, x in parts(mu).items()}
    seed = orbit.simulate(record_every=orbit.period / 400)
    states = np.concatenate([seed.q, seed.v], axis=1)
    return {
        "found": found,
        "seed": {"t": (seed.t / orbit.period).tolist(), "x": states.tolist(), "T": orbit.period},
    }


def parts(mu: complex) -> dict[str, float]:
    return {"real": mu.real, "imaginary": abs(mu.imag)}


# -- AUTO, in its own environment ---------------------------------------------------------------------------


def judge(name: str, seed: dict[str, Any]) -> dict[str, float]:
    """The same numbers by AUTO; a drive is an oscillator of its own, (c, s) on the unit circle."""
    import numpy as np
    from bifpy import auto

    case = SYSTEMS[name]
    omega, field = case["omega"], case["field"]
    t, x = np.array(seed["t"]), np.array(seed["x"])
    if omega:
        x = np.column_stack([x, np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)])

    def equation(state: Any, parameters: Any) -> list[Any]:
        q, v = state[0], state[1]
        if not omega:
            return [v, field(q, v, 0.0, parameters[0])]
        c, s = state[2], state[3]
        r = 1 - c * c - s * s
        return [v, field(q, v, c, parameters[0]), c * r - omega * s, s * r + omega * c]

    def start(state: Any, parameters: Any, normalized_time: Any) -> None:
        for i in range(x.shape[1]):
            state[i] = float(np.interp(normalized_time, t, x[:, i]))
        parameters[0], parameters[auto.PERIOD_INDEX - 1] = case["first"], seed["T"]

    low, high = case["bounds"]
    settings = {
        "ips": auto.IPS_PERIODIC_ORBIT, "ndim": x.shape[1], "npar": 36, "ntst": 100, "ncol": 5, "iad": 3,
        "isp": 2, "ilp": 1, "nmx": 4000, "npr": 0, "rl0": low, "rl1": high, "ds": case["step"] / 20,
        "dsmin": 1e-6, "dsmax": case["step"], "epsl": 1e-10, "epsu": 1e-10, "epss": 1e-9, "itmx": 20,
        "itnw": 9, "nwtn": 5, "iads": 1, "a0": -1e300, "a1": 1e300,
    }  # fmt: skip
    free, found = [1, auto.PERIOD_INDEX], {}
    both = []
    for sign in (1, -1):
        given = {**settings, "ds": sign * settings["ds"]}
        both += auto.run(equation, start, given, icu=free, uzr={1: case["at"]}).branches[0].points
    found |= bifurcations(both, 1)
    flips = [point for point in both if point.point_type.name == "PERIOD_DOUBLING"]
    if flips:
        given = {**settings, "ds": case["step"] / 80, "dsmax": case["step"] / 4}
        again = auto.restart(equation, given, flips[0], icu=free, isw=-1)
        found |= bifurcations(again.branches[0].points, 2)
    for point in both:
        if point.point_type.name != "USER_SPECIFIED_VALUE":
            continue
        p = min(case["at"], key=lambda value: abs(value - point.parameters[0]))
        mus = [complex(mu) for mu in point.floquet_multipliers]
        mus.remove(min(mus, key=lambda mu: abs(mu - 1)))
        if omega:  # that of the oscillator beside it, d(r)/dt = -2 (r - 1)
            mus.remove(min(mus, key=lambda mu: abs(mu - math.exp(-4 * math.pi / omega))))
        found[f"p = {p}, period"] = point.periodic_orbit.period
        for k, mu in enumerate(sorted(mus, key=lambda x: (abs(x), x.imag))):
            found |= {f"p = {p}, multiplier {k + 1} {part}": x for part, x in parts(mu).items()}
    return found


def bifurcations(points: Any, branch: int) -> dict[str, float]:
    by_kind: dict[str, list[float]] = {}
    for point in points:
        if (kind := KINDS.get(point.point_type.name)) is not None:
            by_kind.setdefault(kind, []).append(float(point.parameters[0]))
    return {f"branch {branch}, {kind} {j + 1}": x
            for kind, values in by_kind.items() for j, x in enumerate(sorted(values))}  # fmt: skip


# -- both ---------------------------------------------------------------------------------------------------


def compare(name: str, python: str) -> float:
    """Print the numbers of both; the largest difference."""
    mine = ours(name)
    call = [python, __file__, "--judge", name]
    answer = subprocess.run(call, input=json.dumps(mine["seed"]), text=True, capture_output=True, check=False)
    if answer.returncode:
        raise SystemExit(f"AUTO failed:\n{answer.stderr[-3000:]}")
    theirs, worst = json.loads(answer.stdout.splitlines()[-1]), 0.0
    print(f"\n{name:42} {'liebody':>16} {'AUTO':>16} difference")
    for what in sorted({*mine["found"], *theirs}):
        a, b = mine["found"].get(what, math.nan), theirs.get(what, math.nan)
        off = abs(a - b) / max(1.0, abs(b))
        worst = max(worst, off) if math.isfinite(off) else math.inf
        print(f"{what:42} {a:16.10f} {b:16.10f} {off:10.1e}")
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--auto", help="the Python of the environment that has bifpy")
    parser.add_argument("--only", choices=list(SYSTEMS), help="one of the systems")
    parser.add_argument("--judge", choices=list(SYSTEMS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.judge:
        print(json.dumps(judge(given.judge, json.load(sys.stdin))))
        return 0
    command = [given.auto, "-c", "import bifpy"]
    if given.auto is None or not shutil.which(given.auto) or subprocess.run(command).returncode:
        parser.error(
            f"bifpy needs an environment of its own, and {given.auto or 'none'} was given:\n"
            "    python -m venv auto && auto/bin/pip install bifpy    # with the system's gfortran and make\n"
            "    python benchmarks/auto.py --auto auto/bin/python"
        )
    chosen = ["oscillator"] if os.environ.get("BENCHMARK_QUICK") else [*SYSTEMS]
    worst = max(compare(name, given.auto) for name in ([given.only] if given.only else chosen))
    print(f"\nlargest difference {worst:.1e}, allowed {LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
