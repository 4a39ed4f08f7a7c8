"""Gaits that the thesis did not look for.

Controller III over gains and set-points, a prismatic leg that hops forwards, and the gait of experiment VI
beyond the energy at which its foot begins to chatter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from liebody import sample, sweep
from liebody.gaits import PeriodicOrbit, search

from ..compare import Array
from .apexes import expand
from .experiments import FAST, Q_102, robot, system
from .gaits import ALONG, DAMPED, OF_STATE, Branch, Gait, follow, shoot

LOCKED = "revolute locked"
START = (-2.5174, 0.0, 0.3, Q_102)  # of experiments I to IV: the leg upright, at rest
T_END = 8.0
KINDS = ("fell", "in place", "forwards", "backwards", "by twos", "swinging")
SLOW = 0.03  # m/s, what is called in place
EVEN = 1.5e-3  # m, by which apexes differ at most that are called equal


def locked_hops(p: Mapping[str, Array]) -> dict[str, Array]:
    """Controller III with K_p and alpha_des, from the start of experiments I to IV: a chunk of a sweep.

    Bounces shorter than 1e-5 s are cut, a hundred times as long as elsewhere: where the foot chatters, that
    changes heights by 0.1 mm, and takes a sixth of the time.

    kind     index of KINDS. By twos: every other apex is as high; swinging: it takes longer, or for ever
    cost     net work of the drives over m g |d|, of gaits that move
    """
    n = len(p["K_p"])
    run = system(LOCKED, ledger=False, strides=True).simulate(
        np.tile(START, (n, 1)), t_end=T_END, record_every=T_END, parameters={**DAMPED, **p},
        least=1e-5, most_events=0,
    )  # fmt: skip
    times, places, heights = (run.memory[f"stride_{x}"][:, -1, :8] for x in ("times", "places", "heights"))
    fell = run.ends != ""
    span = times[:, 0] - times[:, -2]  # of six hops
    speed = (places[:, 0] - places[:, -2]) / np.where(span > 0, span, 1)
    kind = np.where(speed > SLOW, 2, np.where(speed < -SLOW, 3, 1))
    kind[np.ptp(heights, axis=1) > EVEN] = 4
    kind[np.maximum(np.ptp(heights[:, ::2], axis=1), np.ptp(heights[:, 1::2], axis=1)) > EVEN] = 5
    kind[fell] = 0
    cost = np.full(n, np.nan)
    moves = np.flatnonzero((kind == 2) | (kind == 3))
    if len(moves):
        given = {name: x[moves] for name, x in p.items()}
        cost[moves] = costs(LOCKED, run.q[moves, -1], run.v[moves, -1], {**DAMPED, **given})
    return {
        "kind": kind,
        "speed": np.where(fell, np.nan, speed),
        "height": np.where(fell, np.nan, heights[:, :6].mean(axis=1)),
        "knee": np.where(fell, np.nan, run.memory["stride_lowest"][:, -1]),
        "cost": cost,
        "cause": run.ends,
        "end_time": run.end_times,
    }


def costs(hopper: str, q: Array, v: Array, parameters: Mapping[str, Any], t_end: float = 1.5) -> Array:
    """Net work of the drives over m g |d| between the first and the last apex within t_end, (n,)."""
    dt = t_end / 300
    run = system(hopper).simulate(q, v, t_end=t_end, record_every=dt, parameters=parameters, least=1e-5)
    weight = 9.81 * robot(hopper).tree.mass
    net = sum(work for name, work in run.work.items() if name.startswith("joint_"))
    found = np.full(len(q), np.nan)
    for k, log in enumerate(run.events):
        t = log.of("apex").t
        if len(t) > 1:
            work, way = (np.diff(np.interp(t[[0, -1]], run.t, y[k]))[0]
                         for y in (net, run.outputs["com"][..., 0]))  # fmt: skip
            found[k] = work / (weight * abs(way))
    return found


@dataclass(frozen=True)
class Map:
    """What becomes of Controller III: values (len(alpha), len(K_p)) of what `locked_hops` gives."""

    K_p: Array
    alpha: Array
    kind: Array
    speed: Array
    height: Array
    cost: Array
    knee: Array
    end_times: Array

    def share(self, kind: str) -> float:
        return float(np.mean(self.kind == KINDS.index(kind)))


def locked_map(K_p: Array, alpha: Array, store: str | Path | None = None) -> Map:
    """A sweep over the polar gain [Nm/rad] and the set-point [rad]; in `store`, or a folder for the time."""
    axes = {"alpha_des": np.asarray(alpha, float), "K_p": np.asarray(K_p, float)}
    with tempfile.TemporaryDirectory() as folder:
        place = store or Path(folder) / "map.zarr"
        ds = sweep(locked_hops, axes, place, chunk=256, workers=0, progress=False)
        found = {name: ds[name].values for name in ("kind", "speed", "height", "cost", "knee", "end_time")}
    return Map(axes["K_p"], axes["alpha_des"], end_times=found.pop("end_time"), **found)


def locked_gaits(difference: float | None = None) -> list[tuple[str, Gait]]:
    """Three gaits of Controller III as fixed points of the apex map; the starts were found by simulation.

    difference  step of differences, instead of derivatives through the flow; also below
    """
    found = []
    for name, x, K_p, alpha in (
        ("forwards", (0.21539, 0.33462, -2.77428, 0.39897, 1.7802, 0), 7.667, -0.725),
        ("stiffer", (0.1946, 0.2957, -2.8647, 0.3119, 1.7802, 0), 8.5, -0.785),
        ("in place", (0.24038, -0.01395, -2.17685, -0.13343, 1.7802, 0), 5.667, -0.65),
    ):
        tolerance, step = (3e-5, 1e-2) if name == "in place" else (1e-8, difference)
        parameters = {"K_p": K_p, "alpha_des": alpha}
        found.append((name, shoot(np.array(x), parameters, tolerance, hopper=LOCKED, step=step)))
    return found


GRAZING = (7.635, 7.625, 7.62, 7.61, 7.6)


def grazing(gait: Gait, K_p: Sequence[float] = GRAZING, difference: float | None = None) -> list[Gait]:
    """The forward gait where its bounces after a touch-down vanish one after another, as K_p falls."""
    found = [gait]
    for K in K_p:
        found.append(shoot(found[-1].x, {**gait.parameters, "K_p": K}, hopper=LOCKED, step=difference))
    return found[1:]


def locked_branches(gait: Gait) -> list[Branch]:
    """The forward gait over set-point, polar gain and energy, in ranges where the foot chatters little."""
    plans = (("alpha_des", 0.02, (-0.83, -0.7)), ("K_p", 0.5, (7.2, 8.9)), ("E_des", 0.12, (2.2, 3.5)))
    return [follow(gait, name, step, bounds, 10) for name, step, bounds in plans]


SWUNG = "prismatic swung"
UPRIGHT = (0.274212789, 0.0, -np.pi / 2, 0.0, 0.11406695, 2.60244989)  # the gait of experiment III
SWING = {"swing_K_p": 1.0, "swing_D_p": 0.052}  # critically damped, some 0.7 g m2 of leg


def tilted(K_p: Sequence[float] = (5.2, 5.3, 19.9, 20.1), difference: float | None = None) -> list[Branch]:
    """Controller II: the upright gait over the set-point alpha_des <= 0, for each of the gains."""
    found = []
    for K in K_p:
        gait = shoot(np.array(UPRIGHT), {"K_p": K}, hopper="prismatic", step=difference)
        found.append(follow(gait, "alpha_des", 0.02, (-0.2, 1e-4), 14))
    return found


def placed(K_p: Sequence[float] = (6.0, 10.0)) -> list[Branch]:
    """With a spring in flight that takes the leg to an angle: the gait over this angle, forwards."""
    found = []
    for K in K_p:
        gait = shoot(np.array(UPRIGHT), {"K_p": K, **SWING}, hopper=SWUNG)
        found.append(follow(gait, "swing_alpha_des", 0.1, (-1e-4, 0.6), 22))
    return found


def stable_when_placed(K_p: Sequence[float], difference: float | None = None) -> Array:
    """The largest modulus of the multipliers of hopping in place with the spring in flight, (n,)."""
    found = [shoot(np.array(UPRIGHT), {"K_p": K, **SWING}, hopper=SWUNG, step=difference) for K in K_p]
    return np.array([abs(g.orbit.multipliers[0]) for g in found])


def fastest(branch: Branch) -> Gait:
    """The fastest stable gait before the first change of stability, from the end that stands."""
    order = branch.gaits if abs(branch.gaits[0].speed) < abs(branch.gaits[-1].speed) else branch.gaits[::-1]
    best = order[0]
    for gait in order:
        if not gait.stable:
            break
        best = max(best, gait, key=lambda g: g.speed)
    return best


@dataclass(frozen=True)
class Turning:
    """A gait of the prismatic leg under Controller I; turns: of the leg in a hop."""

    orbit: PeriodicOrbit
    turns: float

    @property
    def speed(self) -> float:
        return float(self.orbit.shift[0]) / self.orbit.period


def without_polar_torque(number: int = 1024, keep: int = 12) -> list[Turning]:
    """Gaits of the prismatic leg under Controller I, from starts with any tilt and turning, slow and fast."""
    model, base = robot("prismatic"), system("prismatic radial", ledger=False, corners=True)
    box = {"height": (0.16, 0.4), "speed": (0.05, 3.0), "tilt": (-np.pi, np.pi), "turning": (-25.0, 25.0)}
    drawn = dict(sample({**box, "D_r": (0.0, 20.0)}, number, seed=1))

    def state(p: Mapping[str, Array]) -> tuple[Array, Array]:
        rest, angle = np.zeros(number), p["tilt"] - np.pi / 2
        x = [
            p["height"],
            p["speed"],
            angle,
            p["turning"],
            rest + float(base.parameters.defaults["r_des"]),
            rest,
        ]
        return expand(model, np.stack(x, axis=1))

    q, v = state(drawn)
    drawn["E_des"] = model.potential_energy(q) + model.kinetic_energy(q, v)
    orbits = search(
        base, drawn, state, period=0.45, section="apex", keep=keep, symmetries=ALONG, scale=OF_STATE,
        parameters=FAST, tolerance=1e-7, tries=20,
    )  # fmt: skip
    angles = [orbit.simulate(record_every=orbit.period / 50).q[[0, -1], 0] for orbit in orbits]
    return [Turning(x, float(b - a) / (2 * np.pi)) for x, (a, b) in zip(orbits, angles, strict=True)]


def chattering(gait: Gait, upper: float = 4.0) -> Branch:
    """The gait over E_des from where the foot begins to chatter.

    The map is rough there, by some 1e-5 of SCALE: hundreds of bounces pass a bit differently each time. Its
    derivative is taken from longer differences.
    """
    first, tolerance = gait.parameters["E_des"], 3e-5
    start = shoot(gait.x, gait.parameters, tolerance, step=3e-2)
    return follow(start, "E_des", 0.12, (first - 1e-3, upper), 16, tolerance)


@dataclass(frozen=True)
class Bounces:
    """Touch-downs and lift-offs in one stance: times after the first touch-down, and what drives the foot.

    touching, flying  acceleration of the foot upwards just above and just below the surface, the floor not
                      pushing  [m/s2]
    """

    t: Array
    touching: Array
    flying: Array


def bounces(gait: Gait, most: int = 60) -> Bounces:
    """Of one hop of a gait of the revolute hopper, about `most` of its events."""
    base, model = system("revolute", ledger=False), robot("revolute")
    q0, v0 = expand(robot("revolute"), gait.x)
    given = {**DAMPED, **gait.parameters}
    log = base.simulate(q0, v0, t_end=0.25, record_every=0.25, parameters=given).events.of("floor_foot")
    log_t, last = log.t - log.t[0], len(log) - 1
    chosen = range(1, last, max(1, last // most))
    values = {**base.parameters.defaults, **given}
    p = base.parameters.type(*(np.asarray(values[name], float)[()] for name in base.parameters.type._fields))
    found = []
    for i in chosen:
        q, v = log.q[i], log.v[i]
        z = base.memory.type(*(log.memory[name][i] for name in base.memory.type._fields))
        rates = []
        for flag in (1.0, 0.0):
            a = base.vector_field(log.t[i], q, v, z._replace(floor_contact=np.array([flag])), p)
            rates.append(_lift(model, q, v, np.asarray(a, float)))
        found.append(rates)
    touching, flying = np.array(found).reshape(-1, 2).T
    return Bounces(log_t[list(chosen)], touching, flying)


def _lift(model: Any, q: Array, v: Array, a: Array) -> float:
    """Acceleration of the foot upwards, from a difference in time."""
    h = 1e-7
    later = np.asarray(model.tree.group.integrate(q, h * v), float)
    speeds = [model.jacobian(x, "foot", "mixed")[5] @ u for x, u in ((q, v), (later, v + h * a))]
    return float(speeds[1] - speeds[0]) / h


@dataclass(frozen=True)
class Orbits:
    """Heights of the last twelve apexes (n, 12) [m] for values of E_des, and when members ended."""

    E_des: Array
    heights: Array
    ends: Array


def orbits(gait: Gait, E_des: Sequence[float], t_end: float) -> Orbits:
    """Simulate from a gait with other energies: what the hopper settles in. Bounces below 1e-6 s are cut."""
    q0, v0 = expand(robot("revolute"), gait.x)
    n = len(E_des)
    run = system("revolute", ledger=False, strides=True).simulate(
        np.tile(q0, (n, 1)), np.tile(v0, (n, 1)), t_end=t_end, record_every=t_end,
        parameters={**DAMPED, "E_des": np.asarray(E_des, float)}, least=1e-6, most_events=0,
    )  # fmt: skip
    return Orbits(np.asarray(E_des, float), run.memory["stride_heights"][:, -1], run.ends)
