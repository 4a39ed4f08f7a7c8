"""Gaits of the revolute hopper as limit cycles: fixed points of the apex map, multipliers, continuation.

The floor remembers nothing at an apex: a gait is a fixed point of the apex map, x = P(x). It is stable where
its Floquet multipliers, the eigenvalues of dP/dx, lie within the unit circle.

dP/dx is carried along with the motion, saltation at touch-downs, lift-offs and corners of the floor's force
included (`VariedSystem`). Central differences of whole hops, each with its own located events, give the same;
they are left for gaits whose foot chatters.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from liebody.errors import IntegrationError
from liebody.systems import VariedSystem

from ..compare import Array
from .apexes import Hops, centre, eigenvalues, expand, images, leg, next_apex, reduce
from .experiments import FAST, robot, run, system

NAMES = ("c_y", "c_x'", "theta", "omega", "q_1", "q_1'")
SCALE = np.array([0.01, 0.05, 0.02, 0.1, 0.02, 0.1])  # what is small, by coordinate
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
    start, base = expand(robot(hopper), x), system(hopper, ledger=False, one=True)
    found = base.simulate(*start, t_end=LONGEST, record_every=LONGEST, parameters=given)
    return images(robot(hopper), found.events, x.shape[1])


@functools.cache
def varied(hopper: str) -> VariedSystem:
    """The hopper with derivatives of its flow; where the floor's force leaves zero is an event, too."""
    return VariedSystem(system(hopper, ledger=False, corners=True, one=True))


def derivative(
    x: Array, parameters: Mapping[str, Any], step: float | None = None, hopper: str = "revolute"
) -> tuple[Array, Array, Hops]:
    """(P(x), dP/dx (6, 6), the hop from x); with `step`, by central differences of that times SCALE."""
    x = np.asarray(x, float)
    if step is None:
        return _derivative(x, parameters, hopper)
    steps = np.diag(step * SCALE)
    found = hop(np.concatenate([x[None], x + steps, x - steps]), parameters, hopper)
    plus, minus = found.x[1:7], found.x[7:]
    J = ((plus - minus) / (2 * step * SCALE[:, None])).T
    return found.x[0], J, Hops(found.x[:1], found.period[:1], found.stride[:1], found.touches[:1])


def _derivative(x: Array, parameters: Mapping[str, Any], hopper: str) -> tuple[Array, Array, Hops]:
    """Through the hybrid flow; of the kinematics at both ends only, from differences."""
    flow, model = varied(hopper), robot(hopper)
    given, group = {**usual(hopper), **FINE, **parameters}, model.tree.group
    q0, v0 = expand(model, x)
    log = flow.simulate(q0, v0, t_end=LONGEST, record_every=LONGEST, parameters=given, threads=1).events
    found, top = images(model, [log], len(x)), next_apex(log)
    if not len(top):
        return found.x[0], np.full((6, 6), np.nan), found
    q, v, nv = top.q[0], top.v[0], len(v0)
    h = 1e-6
    steps, turns = np.diag(h * SCALE), h * np.eye(nv)
    starts = expand(model, np.concatenate([x + steps, x - steps]))
    moved = np.array(
        [np.append(np.asarray(group.difference(q0, a), float), b) for a, b in zip(*starts, strict=True)]
    )
    into = (moved[:6] - moved[6:]).T / (2 * h * SCALE)
    ends = np.array([np.asarray(group.integrate(q, a), float) for a in (*turns, *-turns)])
    angle = reduce(model, ends, np.broadcast_to(v, (2 * nv, nv)))
    rate = reduce(model, np.broadcast_to(q, (2 * nv, len(q))), np.concatenate([v + turns, v - turns]))
    out = np.concatenate([angle[:nv] - angle[nv:], rate[:nv] - rate[nv:]]).T / (2 * h)
    return found.x[0], out @ flow.on_section(top, given)[0] @ into, found


@dataclass(frozen=True)
class Gait:
    """A fixed point of the apex map.

    x            its state at the apex
    multipliers  Floquet multipliers, the largest first
    period, stride, residual (of P(x) - x, by coordinate over SCALE)
    touches      touch-downs of the foot in a hop, bounces included
    """

    parameters: dict[str, float]
    x: Array
    multipliers: Array
    period: float
    stride: float
    residual: float
    derivative: Array
    touches: int
    hopper: str = "revolute"

    @property
    def speed(self) -> float:
        return self.stride / self.period

    @property
    def angle(self) -> float:
        """Of the leg at the apex [deg]."""
        return float(np.degrees(leg(robot(self.hopper), expand(robot(self.hopper), self.x)[0])[1]))

    @property
    def stable(self) -> bool:
        return bool(np.abs(self.multipliers[0]) < 1)


def shoot(
    x: Array, parameters: Mapping[str, float] | None = None, tolerance: float = 1e-8, tries: int = 12,
    hopper: str = "revolute", step: float | None = None,
) -> Gait:  # fmt: skip
    """The gait next to x, by Newton's method; with `step`, derivatives are differences of that.

    Raises IntegrationError where it does not converge or a member falls.
    """
    parameters = dict(parameters or {})
    x = np.asarray(x, float)
    size = np.inf
    for _ in range(tries):
        image, J, found = derivative(x, parameters, step, hopper)
        if not np.isfinite(J).all():
            raise IntegrationError(f"no second apex near {x} with {parameters}; start nearer to the gait")
        size = float(np.abs((image - x) / SCALE).max())
        if size < tolerance:
            return _gait(parameters, x, J, found, size, hopper)
        change = np.linalg.solve(J - np.eye(6), x - image)
        x = x + change * min(1.0, 2.0 / np.abs(change / SCALE).max())
    raise IntegrationError(f"no gait near {x} with {parameters}: residual {size:.1e} after {tries} steps")


def _gait(
    parameters: dict[str, float], x: Array, J: Array, found: Hops, residual: float, hopper: str
) -> Gait:
    period, stride, touches = float(found.period[0]), float(found.stride[0]), int(found.touches[0])
    return Gait(parameters, x, eigenvalues(J), period, stride, residual, J, touches, hopper)


def settled(name: str) -> Array:
    """The last apex of experiment IV or VI, as a start for `shoot`."""
    log = run(name).apexes
    return reduce(robot("revolute"), log.q[-1], log.v[-1])


def derivative_check(gait: Gait, steps: Sequence[float] = (3e-3, 1e-3, 3e-4)) -> list[tuple[float, Array]]:
    """Multipliers from differences of several steps."""
    return [(step, eigenvalues(derivative(gait.x, gait.parameters, step, gait.hopper)[1])) for step in steps]


def saltation_check(gait: Gait, parts: int = 8, step: float = 1e-3) -> tuple[Array, Array]:
    """Multipliers through the flow and from differences of the same system, with steps of 1 / parts."""
    finer = {name: FAST[name] / parts for name in FINE}
    both = {**usual(gait.hopper), **gait.parameters, **finer}
    through = eigenvalues(derivative(gait.x, both, hopper=gait.hopper)[1])
    steps, model = np.diag(step * SCALE), robot(gait.hopper)
    start = expand(model, np.concatenate([gait.x + steps, gait.x - steps]))
    base = system(gait.hopper, ledger=False, corners=True, one=True)
    run = base.simulate(*start, t_end=LONGEST, record_every=LONGEST, parameters=both)
    x = images(model, run.events, len(gait.x)).x
    return through, eigenvalues(((x[:6] - x[6:]) / (2 * step * SCALE[:, None])).T)


# -- continuation -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A change of stability: the parameter there, the multiplier that leaves, the type.

    In a border collision multipliers jump over the unit circle, since an event comes or goes.
    """

    value: float
    multiplier: complex
    kind: str


@dataclass(frozen=True)
class Branch:
    """Gaits along a parameter, in the order of the curve, why it ended, and changes of stability."""

    parameter: str
    gaits: list[Gait]
    ends: tuple[str, str]
    losses: list[Loss]

    @property
    def values(self) -> Array:
        return np.array([g.parameters[self.parameter] for g in self.gaits])

    @property
    def speeds(self) -> Array:
        return np.array([g.speed for g in self.gaits])

    @property
    def stable(self) -> Array:
        return np.array([g.stable for g in self.gaits])


def kind(multiplier: complex) -> str:
    """The bifurcation of codimension one in which a multiplier leaves the unit circle."""
    if abs(complex(multiplier).imag) > 1e-3:
        return "Neimark-Sacker"
    return "flip (period doubling)" if complex(multiplier).real < 0 else "fold"


def follow(
    gait: Gait, parameter: str, start: float, step: float, bounds: tuple[float, float], most: int = 40,
    difference: float | None = None, tolerance: float = 1e-7,
) -> Branch:  # fmt: skip
    """Continue a gait in a parameter both ways along the curve of gaits (pseudo-arclength, folds included).

    start, step  value of the parameter at `gait`, and the change of it that counts as much as SCALE
    bounds       where to end; most: how many gaits to either side
    difference   step of differences, instead of derivatives through the flow, and `tolerance` of P(x) - x,
                 both over SCALE: where the map is rough, since the foot chatters
    """
    first = replace(gait, parameters={**gait.parameters, parameter: start})
    curve = _Curve(parameter, step, gait.hopper, difference, tolerance)
    tangent = curve.tangent(first, None)
    sides, ends = [], []
    for sign in (-1, 1):
        side, end = curve.go(first, sign * tangent * np.sign(tangent[6]), bounds, most)
        sides.append(side)
        ends.append(end)
    gaits = [*reversed(sides[0]), first, *sides[1]]
    losses = [curve.crossing(a, b) for a, b in pairwise(gaits) if a.stable != b.stable]
    return Branch(parameter, gaits, (ends[0], ends[1]), losses)


class _Curve:
    """Points z = (x / SCALE, parameter / step) with P(x) = x."""

    def __init__(
        self, parameter: str, step: float, hopper: str, difference: float | None, tolerance: float
    ) -> None:
        self.parameter, self.hopper = parameter, hopper
        self.difference, self.tolerance = difference, tolerance
        self.scale = np.append(SCALE, step)

    def point(self, gait: Gait) -> Array:
        return np.append(gait.x, gait.parameters[self.parameter]) / self.scale

    def slope(self, x: Array, parameters: Mapping[str, float]) -> Array:
        """dP/dp by central differences."""
        h = (self.difference or 1e-3) * self.scale[6]
        value = parameters[self.parameter]
        both = {**parameters, self.parameter: np.array([value + h, value - h])}
        found = hop(np.stack([x, x]), both, self.hopper)
        return (found.x[0] - found.x[1]) / (2 * h)

    def matrix(self, x: Array, J: Array, parameters: Mapping[str, float]) -> Array:
        rows = np.column_stack([J - np.eye(6), self.slope(x, parameters)]) * self.scale
        return rows / SCALE[:, None]

    def tangent(self, gait: Gait, before: Array | None) -> Array:
        _, _, vh = np.linalg.svd(self.matrix(gait.x, gait.derivative, gait.parameters))
        t = vh[-1]
        return t if before is None or t @ before > 0 else -t

    def correct(self, guess: Array, tangent: Array, parameters: Mapping[str, float]) -> Gait:
        """Newton's method within the plane through `guess` across the tangent."""
        z = guess
        for _ in range(6):
            x, value = z[:6] * SCALE, float(z[6] * self.scale[6])
            now = {**parameters, self.parameter: value}
            image, J, found = derivative(x, now, self.difference, self.hopper)
            residual = (image - x) / SCALE
            if not np.isfinite(J).all():
                break
            if np.abs(residual).max() < self.tolerance:
                return _gait(now, x, J, found, float(np.abs(residual).max()), self.hopper)
            A = np.vstack([self.matrix(x, J, now), tangent])
            z = z - np.linalg.solve(A, np.append(residual, tangent @ (z - guess)))
            if np.abs(z - guess).max() > 3:
                break
        raise IntegrationError(f"no gait near {guess * self.scale}")

    def go(
        self, first: Gait, tangent: Array, bounds: tuple[float, float], most: int
    ) -> tuple[list[Gait], str]:
        gaits, size = [first], 1.0
        while len(gaits) <= most:
            last = gaits[-1]
            at = last.parameters[self.parameter]
            try:
                found = self.correct(self.point(last) + size * tangent, tangent, last.parameters)
            except IntegrationError:
                size /= 2
                if size < 1 / 16:
                    return gaits[1:], f"no further than {at:.5g}"
                continue
            if not bounds[0] <= found.parameters[self.parameter] <= bounds[1]:
                return gaits[1:], "end of the range"
            tangent = self.tangent(found, tangent)
            gaits.append(found)
            size = min(2.0, 1.4 * size)
        return gaits[1:], f"after {most} gaits, not followed further"

    def crossing(self, a: Gait, b: Gait) -> Loss:
        """Where the largest modulus is 1 between two gaits, on their chord; both sides of a jump over 1."""
        z, w = self.point(a), self.point(b)
        along, chord = w - z, (w - z) / np.linalg.norm(w - z)
        ends = {gait.stable: (s, gait) for s, gait in ((0.0, a), (1.0, b))}
        best = min((a, b), key=_from_one)
        for k in range(10):
            (s, low), (t, high) = ends[True], ends[False]
            m, n = _from_one(low), _from_one(high)
            share = float(np.clip(m / (m + n), 0.05, 0.95)) if k < 6 else 0.5
            try:
                found = self.correct(z + (s + (t - s) * share) * along, chord, a.parameters)
            except IntegrationError:
                break
            best = min((best, found), key=_from_one)
            if _from_one(found) < max(2e-4, (self.difference or 0) / 10):
                break
            ends[found.stable] = (s + (t - s) * share, found)
        value, multiplier = best.parameters[self.parameter], complex(best.multipliers[0])
        if _from_one(best) < 0.05:
            return Loss(value, multiplier, kind(multiplier))
        low, high = ends[True][1], ends[False][1]
        what = "jump of the multipliers"
        if low.touches != high.touches:
            what = f"border collision: {low.touches} to {high.touches} touch-downs a hop"
        return Loss(value, complex(high.multipliers[0]), what)


def _from_one(gait: Gait) -> float:
    return float(abs(abs(gait.multipliers[0]) - 1))


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
        q0, v0, t_end=t_end, record_every=t_end / 2000, parameters={**DAMPED, **given}, events=0
    )
    x = run.outputs["com"][..., 0]
    weight = 9.81 * robot("revolute").tree.mass
    net = run.work["joint_base"] + run.work["joint_knee"]
    costs = []
    for k, g in enumerate(several):
        end = g.period * np.floor(t_end / g.period)
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
ANGLES, SPEEDS = (-60.0, 60.0), (-1.0, 1.0)  # of the grid, deg and m/s


@dataclass(frozen=True)
class Basin:
    """What becomes of hoppers dropped from 0.3 m with the knee at 102 deg, leaning and moving.

    angles     of the leg at the start, (n,)                                                             [deg]
    speeds     at the start, (m,)                                                                        [m/s]
    outcome    indices of OUTCOMES, (m, n)
    end_times  (m, n)                                                                                    [s]
    speed      the mean of the last 4 s, (m, n)                                                          [m/s]
    """

    angles: Array
    speeds: Array
    outcome: Array
    end_times: Array
    speed: Array

    def share(self, outcome: str) -> float:
        return float(np.mean(self.outcome == OUTCOMES.index(outcome)))


def basin(
    angles: Array, speeds: Array, targets: tuple[float, float], t_end: float = 20.0,
    parameters: Mapping[str, float] | None = None, threads: int | None = None,
) -> Basin:  # fmt: skip
    """Run experiment IV's controller from every angle and speed; the speed at the end tells gaits apart.

    targets  speeds of the gaits of VI and IV [m/s]; within 0.01 m/s of one counts as that gait
    """
    angles, speeds = np.asarray(angles, float), np.asarray(speeds, float)
    lean, speed = (x.ravel() for x in np.meshgrid(np.radians(angles), speeds))
    q0 = np.tile([-2.5174, 0, 0.3, 1.7802], (lean.size, 1))
    q0[:, 0] += lean - leg(robot("revolute"), q0)[1]
    v0 = np.zeros((lean.size, 4))
    v0[:, 1], v0[:, 2] = np.cos(q0[:, 0]) * speed, -np.sin(q0[:, 0]) * speed
    run = system("revolute", ledger=False).simulate(
        q0, v0, t_end=t_end, record_every=t_end / 5, parameters={**DAMPED, **(parameters or {})},
        events=0, threads=threads,
    )  # fmt: skip
    shape = (len(speeds), len(angles))
    x = run.outputs["com"][:, :, 0]
    mean = (x[:, -1] - x[:, -2]) / (t_end / 5)
    outcome = np.full(lean.size, 3)
    for k, target in enumerate(targets):
        outcome[np.abs(mean - target) < 0.01] = 1 + k
    outcome[run.ends != ""] = 0
    return Basin(angles, speeds, outcome.reshape(shape), run.end_times.reshape(shape), mean.reshape(shape))
