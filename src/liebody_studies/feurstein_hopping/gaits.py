"""Gaits of the hoppers as periodic orbits: fixed points of the apex map, multipliers, continuation.

The floor remembers nothing at an apex, and where that is along the floor does not matter: a gait is an orbit
of `liebody.gaits` from apex to apex, relative to translations. It is stable where its Floquet multipliers lie
within the unit circle.

Derivatives are carried along with the motion, saltation at touch-downs, lift-offs and corners of the floor's
force included. Central differences of whole hops, each with its own located events, give the same; they are
left for gaits whose foot chatters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from liebody.gaits import Bifurcation, PeriodicOrbit, continuation, periodic_orbit
from liebody.gaits import Branch as Curve
from liebody.gaits import basin as basin_of

from ..compare import Array
from .apexes import Hops, centre, eigenvalues, expand, images, leg, reduce
from .experiments import FAST, robot, run, system

SCALE = np.array(
    [0.01, 0.05, 0.02, 0.1, 0.02, 0.1]
)  # what is small of x = (c_y, c_x', theta, omega, q_1, q_1')
OF_STATE = np.array([0.02, 0.01, 0.01, 0.02, 0.1, 0.05, 0.05, 0.1])  # and of (q, v)
ALONG = [[0.0, 1.0, 0.0, 0.0]]  # translations along the floor
PERIOD = 0.4  # s, a guess for all
LONGEST = 0.6  # of a hop, s
DAMPED = {"D_r": 20.0, **FAST}
FINE = {name: FAST[name] / 2 for name in ("step", "stance_step", "landing_step")}  # for derivatives


def usual(hopper: str) -> dict[str, float]:
    """Parameters of the hopper's runs: the radial damper of experiments IV to VI, and steps for maps."""
    return DAMPED if hopper.startswith("revolute") else dict(FAST)


def hop(x: Array, parameters: Mapping[str, Any], hopper: str = "revolute") -> Hops:
    """One hop from each of the apexes x (n, 6), all of them in one run."""
    x = np.atleast_2d(x)
    given = {**usual(hopper), **parameters}
    start, base = expand(robot(hopper), x), system(hopper, ledger=False)
    found = base.simulate(*start, t_end=LONGEST, record_every=LONGEST, parameters=given)
    return images(robot(hopper), found.events, x.shape[1])


@dataclass(frozen=True)
class Gait:
    """A periodic orbit of a hopper, from apex to apex."""

    orbit: PeriodicOrbit
    hopper: str = "revolute"

    @property
    def parameters(self) -> dict[str, Any]:
        """Those that are not usual."""
        return {name: x for name, x in self.orbit.parameters.items() if name not in usual(self.hopper)}

    @cached_property
    def x(self) -> Array:
        """Its state at the apex."""
        return reduce(robot(self.hopper), self.orbit.q, self.orbit.v)

    @property
    def stride(self) -> float:
        return float(self.orbit.shift[0])

    @property
    def touches(self) -> int:
        """Touch-downs of the foot in a hop, bounces included."""
        return self.orbit.events.count(("floor_foot", -1))

    @property
    def speed(self) -> float:
        return self.stride / self.orbit.period

    @property
    def angle(self) -> float:
        """Of the leg at the apex [deg]."""
        return float(np.degrees(leg(robot(self.hopper), self.orbit.q)[1]))

    @property
    def stable(self) -> bool:
        return bool(np.abs(self.orbit.multipliers[0]) < 1)


def shoot(
    x: Array, parameters: Mapping[str, float] | None = None, tolerance: float = 1e-8, tries: int = 12,
    hopper: str = "revolute", step: float | None = None, corners: bool = False,
) -> Gait:  # fmt: skip
    """The gait next to x, by Newton's method; with `step`, derivatives are differences of that.

    corners  whether those of the floor's force are events also where derivatives are differences

    Raises GaitError where it does not converge or a member falls.
    """
    base = system(hopper, ledger=False, corners=corners or step is None)
    given = {**usual(hopper), **({} if step else FINE), **(parameters or {})}
    orbit = periodic_orbit(
        base, *expand(robot(hopper), np.asarray(x, float)), period=PERIOD, section="apex", symmetries=ALONG,
        parameters=given, scale=OF_STATE, tolerance=tolerance, tries=tries, difference=step,
    )  # fmt: skip
    return Gait(orbit, hopper)


def settled(name: str) -> Array:
    """The last apex of experiment IV or VI, as a start for `shoot`."""
    log = run(name).apexes
    return reduce(robot("revolute"), log.q[-1], log.v[-1])


def derivative_check(gait: Gait, steps: Sequence[float] = (3e-3, 1e-3, 3e-4)) -> list[tuple[float, Array]]:
    """Multipliers from differences of several steps."""
    found = [shoot(gait.x, gait.parameters, 0.1, hopper=gait.hopper, step=step) for step in steps]
    return [(step, near.orbit.multipliers) for step, near in zip(steps, found, strict=True)]


def saltation_check(gait: Gait, parts: int = 8, step: float = 1e-3) -> tuple[Array, Array]:
    """Multipliers through the flow and from differences of the same system, with steps of 1 / parts."""
    both = {**gait.parameters, **{name: FAST[name] / parts for name in FINE}}
    through = shoot(gait.x, both, 0.1, hopper=gait.hopper)
    other = shoot(gait.x, both, 0.1, hopper=gait.hopper, step=step, corners=True)
    return through.orbit.multipliers, other.orbit.multipliers


# -- continuation -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Branch:
    """Gaits along a parameter, and where they lose or gain stability."""

    curve: Curve
    hopper: str

    @cached_property
    def gaits(self) -> list[Gait]:
        return [Gait(orbit, self.hopper) for orbit in self.curve.orbits]

    @property
    def speeds(self) -> Array:
        return np.array([g.speed for g in self.gaits])


def kind(loss: Bifurcation) -> str:
    """In words, with the touch-downs that come or go."""
    a, b = (Gait(orbit).touches for orbit in loss.sides)
    names = {
        "border collision": f"border collision: {a} to {b} touch-downs a hop",
        "flip": "flip (period doubling)",
    }
    return names.get(loss.kind, loss.kind)


def follow(
    gait: Gait, parameter: str, step: float, bounds: tuple[float, float], most: int = 40,
    tolerance: float = 1e-7,
) -> Branch:  # fmt: skip
    """Continue a gait in a parameter both ways along the curve of gaits, to where stability changes.

    step       the change of the parameter that counts as much as `OF_STATE`
    bounds     where to end; most: how many gaits to either side
    """
    difference = gait.orbit.shooting.difference or 0.0
    curve = continuation(
        gait.orbit, parameter, step=step, bounds=bounds, most=most, locate="stability",
        precision=max(2e-4, difference / 10), tolerance=tolerance, shortest=1 / 16,
    )  # fmt: skip
    return Branch(curve, gait.hopper)


@dataclass(frozen=True)
class Watched:
    """What a simulation from a gait does with another value of a parameter: its last ten apexes and speed."""

    value: float
    angles: tuple[float, float]
    heights: tuple[float, float]
    alternate: bool  # whether they are high and low by turns, by 0.1 mm or more
    speed: float
    end: str


def watch(gait: Gait, parameter: str, values: Sequence[float], t_end: float = 40.0) -> list[Watched]:
    """Simulate from a gait with other values of a parameter, without anything of the apex map."""
    n, model = len(values), robot("revolute")
    q0, v0 = expand(model, gait.x)
    given = {**DAMPED, **gait.parameters, parameter: np.array(values, float)}
    run = system("revolute", ledger=False).simulate(
        np.tile(q0, (n, 1)), np.tile(v0, (n, 1)), t_end=t_end, record_every=t_end, parameters=given
    )
    found = []
    for value, log, end in zip(values, run.events, run.ends, strict=True):
        top = log.of("apex")
        q, v, t = top.q[-11:], top.v[-11:], top.t[-11:]
        c, angle = centre(model, q, v)[0], np.degrees(leg(model, q)[1])[1:]
        speed = float((c[-1, 0] - c[0, 0]) / (t[-1] - t[0]))
        low_high, heights = ((float(x.min()), float(x.max())) for x in (angle, c[1:, 1]))
        steps = np.diff(c[1:, 1])
        alternate = bool(np.all(steps[1:] * steps[:-1] < 0) and np.abs(steps).min() > 1e-4)
        found.append(Watched(float(value), low_high, heights, alternate, speed, str(end)))
    return found


def cost_of_transport(several: Sequence[Gait], t_end: float = 4.0) -> Array:
    """(n, 2): net work of the drives over m g d, and that with what the radial damper takes on top.

    d is the distance of as many whole hops as there are in t_end seconds; base torque and knee both count as
    drives. From apex to apex, since what the leg takes and gives within a stance is more than what it needs.
    """
    names = sorted({name for g in several for name in g.parameters})
    given = {name: np.array([g.parameters[name] for g in several]) for name in names}
    q0, v0 = expand(robot("revolute"), np.stack([g.x for g in several]))
    run = system("revolute").simulate(
        q0, v0, t_end=t_end, record_every=t_end / 2000, parameters={**DAMPED, **given}, most_events=0
    )
    x = run.outputs["com"][..., 0]
    weight = 9.81 * robot("revolute").tree.mass
    net = run.work["joint_base"] + run.work["joint_knee"]
    costs = []
    for k, g in enumerate(several):
        end = g.orbit.period * np.floor(t_end / g.orbit.period)
        work, damper, way = (np.interp(end, run.t, y[k]) for y in (net, run.work["radial_damper"], x))
        costs.append([work, work + damper] / (weight * (way - x[k, 0])))
    return np.array(costs)


# -- the prismatic hopper's gait over K_p -------------------------------------------------------------------


def prismatic_multipliers(K_p: Array) -> Array:
    """The multipliers of tilting of the prismatic gait of experiment III, (n, 3), over K_p.

    Tilting separates from hopping in the upright gait: a hop maps (alpha, omega, x'), linearly if small.
    Three multipliers, the largest first, from central differences.
    """
    K_p, base, model = np.asarray(K_p, float), system("prismatic", ledger=False), robot("prismatic")
    q0 = np.array([-np.pi / 2, 0, 0.3, 0.12])
    run = base.simulate(q0, t_end=12.0, record_every=12.0, parameters=dict(FAST))
    apex, n, size = run.events.of("apex"), len(K_p), 1e-6
    changes = size * np.eye(6)[[2, 2, 3, 3, 1, 1]] * np.resize([[1], [-1]], (6, 1))
    starts = expand(model, reduce(model, apex.q[-2], apex.v[-2]) + changes)
    end = 1.5 * float(np.diff(apex.t)[-1])
    found = base.simulate(
        *(np.tile(x, (n, 1)) for x in starts), t_end=end, record_every=end,
        parameters={"K_p": np.repeat(K_p, 6), **FAST},
    )  # fmt: skip
    pairs = images(model, found.events, 6).x[:, [2, 3, 1]].reshape(n, 3, 2, 3)
    J = ((pairs[:, :, 0] - pairs[:, :, 1]) / (2 * size)).transpose(0, 2, 1)
    return eigenvalues(J)


# -- basin of attraction ------------------------------------------------------------------------------------

OUTCOMES = ("fell", "gait of VI", "gait of IV", "another motion")
SAME = 0.1  # over OF_STATE: states at apexes that count as one
ANGLES, SPEEDS = (-60.0, 60.0), (-1.0, 1.0)  # of the grid, deg and m/s


@dataclass(frozen=True)
class Basin:
    """What becomes of hoppers dropped from 0.3 m with the knee at 102 deg, leaning and moving.

    angles     of the leg at the start, (n,)                                                             [deg]
    speeds     at the start, (m,)                                                                        [m/s]
    outcome    indices of OUTCOMES, (m, n)
    end_times  (m, n)                                                                                    [s]
    """

    angles: Array
    speeds: Array
    outcome: Array
    end_times: Array

    def share(self, outcome: str) -> float:
        return float(np.mean(self.outcome == OUTCOMES.index(outcome)))


def dropped(p: Mapping[str, Array]) -> tuple[Array, Array]:
    """Starts with an angle of the leg [deg] and a forward speed [m/s]."""
    q0, v0 = np.tile([-2.5174, 0, 0.3, 1.7802], (len(p["angle"]), 1)), np.zeros((len(p["angle"]), 4))
    q0[:, 0] += np.radians(p["angle"]) - leg(robot("revolute"), q0)[1]
    v0[:, 1], v0[:, 2] = np.cos(q0[:, 0]) * p["speed"], -np.sin(q0[:, 0]) * p["speed"]
    return q0, v0


def basin(angles: Array, speeds: Array, targets: tuple[Gait, Gait], t_end: float = 20.0) -> Basin:
    """Run experiment IV's controller from every angle and speed; the attractors are found by themselves.

    targets  the gaits of VI and IV: an attractor nearer than SAME to one of them is that gait
    """
    axes = {"speed": np.asarray(speeds, float), "angle": np.asarray(angles, float)}
    with tempfile.TemporaryDirectory() as folder:
        found = basin_of(
            system("revolute", ledger=False), axes, dropped, Path(folder) / "basin.zarr", section="apex",
            t_end=t_end, symmetries=ALONG, parameters=DAMPED, scale=OF_STATE, tolerance=SAME, chunk=512,
            workers=0, progress=False,
        )  # fmt: skip
    names = [0, 3]  # ended early, not settled
    for attractor in found.attractors:
        away = [np.abs(g.orbit.coordinates(attractor.q[0], attractor.v[0]) / OF_STATE).max() for g in targets]
        names.append(1 + int(np.argmin(away)) if min(away) < SAME else 3)
    return Basin(axes["angle"], axes["speed"], np.array(names)[found.outcome], found.end_times)
