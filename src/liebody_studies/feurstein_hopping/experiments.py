"""Feurstein's experiments (2021, chapter 4): systems, starts, runs, hops, tuning curve, energy audit."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

import numpy as np

from liebody import Robot, contact, dynamics, hybrid, models
from liebody.hybrid import Element, RobotSystem, State
from liebody.runs import EventLog, HybridRun
from liebody.scalars import arctan2, minimum, where

from ..compare import Array
from .apexes import centre, leg

P = ParamSpec("P")
T = TypeVar("T")
Q_102 = 1.7802  # the knee at the start of all experiments, 102 deg
REVOLUTE = {"K_r": 2200.0, "r_des": 0.1410659, "D_r": 0.0, "K_p": 6.0, "K_E": 10.0, "E_des": 2.8382}
PRISMATIC = {"K_r": 2200.0, "r_des": 0.12 * 0.957 / 1.007, "K_p": 6.0, "K_E": 20.0, "E_des": 2.904741}
FAST = {"step": 4e-4, "stance_step": 2e-5, "landing_step": 4e-6, "landing": 2e-4}


@dataclass(frozen=True)
class Experiment:
    """One of the thesis: hopper and controller as `system` takes them, start, gains, how long it runs."""

    name: str
    hopper: str
    q0: Sequence[float]
    t_end: float
    parameters: Mapping[str, float]
    v0: Sequence[float] = (0, 0, 0, 0)


_UPRIGHT = (-np.pi / 2, 0, 0.3, 0.12)
_START = (-2.5174, 0, 0.3, Q_102)
_GAIT = (-2.5243, 2.7676, 0.2574, Q_102), (0.3301, -0.1919, 0.1263, 0)
EXPERIMENTS = {
    x.name: x
    for x in (
        Experiment("prismatic I", "prismatic radial", _UPRIGHT, 4.0, {"K_E": 0.0}),
        Experiment("prismatic II", "prismatic", _UPRIGHT, 5.0, {"K_E": 0.0}),
        Experiment("prismatic III", "prismatic", _UPRIGHT, 5.4, {}),
        Experiment("revolute I", "revolute radial", _START, 1.0, {"K_E": 0.0}),
        Experiment("revolute II", "revolute", _START, 2.4, {"K_E": 0.0}),
        Experiment("revolute III", "revolute", _START, 5.0, {}),
        Experiment("revolute IV", "revolute", _START, 12.0, {"D_r": 20.0}),
        Experiment("revolute V", "revolute", (-1.9938, 0, 0.3, Q_102), 20.0, {"D_r": 20.0}),
        Experiment("revolute VI", "revolute", _GAIT[0], 20.0, {"D_r": 20.0}, _GAIT[1]),
    )
}


def once(function: Callable[P, T]) -> Callable[P, T]:
    """`functools.cache`, with which no two threads compute the same."""
    kept, lock = functools.cache(function), threading.RLock()

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with lock:
            return kept(*args, **options)  # type: ignore[arg-type]

    return call


@functools.cache
def _robot(hopper: str) -> Robot:
    return models.prismatic_hopper() if hopper == "prismatic" else models.revolute_hopper()


def robot(hopper: str) -> Robot:
    """ "prismatic" or "revolute", whatever its controller: the first word of a name that `system` takes."""
    return _robot(hopper.split()[0])


@once
def system(hopper: str, ledger: bool = True, strides: bool = False, corners: bool = False) -> RobotSystem:
    """The hopper under Controller II on the thesis' floor, with works, or without them for many runs.

    "revolute radial" and "prismatic radial" have Controller I, "revolute locked" has Controller III;
    "prismatic swung" has a second polar spring, in flight: parameters swing_K_p, swing_D_p, swing_alpha_des.
    With `strides` it remembers its last apexes; with `corners` those of the floor's force are events, as
    derivatives need it.
    """
    gains = PRISMATIC if hopper.startswith("prismatic") else REVOLUTE
    floor = contact.Contact("foot", settling=0.05, corners=corners, impact=2e-4 if ledger else None)
    if hopper.endswith("radial"):
        control = hybrid.controller_1("foot", **{name: x for name, x in gains.items() if name != "K_p"})
    else:
        control = (hybrid.controller_3 if hopper.endswith("locked") else hybrid.controller_2)("foot", **gains)
    if hopper.endswith("swung"):
        control = (*control, hybrid.PolarSpring("foot", 0.0, acts="flight", name="swing"))
    more: list[Element] = [Strides()] if strides else []
    parts = (control, floor, hybrid.Apex(), hybrid.Fall(0.03), more)
    name = hopper.replace(" ", "_")
    outputs = _signals if ledger else None
    return hybrid.robot_system(robot(hopper), *parts, ledger=ledger, outputs=outputs, name=f"{name}_study")


class Strides(Element):
    """Remembers the last apexes: times, places and heights of the centre of mass; and the lowest knee."""

    name = "stride"

    def __init__(self, number: int = 12) -> None:
        super().__init__()
        self.memory = {"count": 0.0, "knee": 1.0, "lowest": 1.0}
        self.memory |= {name: np.zeros(number) for name in ("times", "places", "heights")}

    def update(self, s: State, z: Any, p: Any, events: Any) -> Any:
        top, knee = events.apex < -0.5, minimum(z.knee, s.position(s.tree.bodies[1].name)[2])

        def pushed(old: Any, new: Any) -> Any:
            return np.concatenate([np.array([where(top, new, old[0])]), where(top, old[:-1], old[1:])])

        return z._replace(
            count=z.count + where(top, 1.0, 0.0),
            knee=where(top, 1.0, knee),  # since the last apex
            lowest=where(top, knee, z.lowest),  # in the last whole stride
            times=pushed(z.times, s.t),
            places=pushed(z.places, s.com[0]),
            heights=pushed(z.heights, s.com[2]),
        )


def _signals(s: State) -> dict[str, Any]:
    """More signals: positions, the leg's angle and its rate, angular momentum about the centre of mass."""
    r, rate = s.position("foot") - s.com, s.velocity("foot") - s.com_velocity
    turning = (r[0] * rate[2] - r[2] * rate[0]) / (r[0] * r[0] + r[2] * r[2])
    momentum = dynamics.centroidal_momentum(s.tree, s.q, s.v)
    base, knee = (dynamics.frame_pose(s.tree, s.q, b.name)[:3, 3] for b in s.tree.bodies[:2])
    return {
        "foot": s.position("foot"),
        "base": base,
        "knee": knee,
        "leg_angle": arctan2(r[0], -r[2]),
        "leg_rate": turning,
        "angular_momentum": -momentum[1],
    }


@once
def run(name: str, record_every: float = 1e-3) -> Run:
    """Simulate an experiment, with all its events."""
    x = EXPERIMENTS[name]
    return simulate(x.hopper, x.q0, x.v0, x.t_end, x.parameters, record_every)


def simulate(
    hopper: str, q0: Any, v0: Any, t_end: float, parameters: Mapping[str, Any], record_every: float = 1e-3
) -> Run:
    """Simulate a hopper, with all its signals."""
    run = system(hopper).simulate(q0, v0, t_end=t_end, record_every=record_every, parameters=parameters)
    return Run(hopper, run)


class Run:
    """A run and its hops. Angles in degrees, x and y in the plane."""

    def __init__(self, hopper: str, found: HybridRun) -> None:
        self.hopper, self.data = hopper, found
        self.t, self.out = found.t, found.outputs

    @cached_property
    def ledger(self) -> Any:
        return system(self.hopper).ledger(self.data)

    @cached_property
    def last(self) -> int:
        """The last sample before the run ended."""
        return int(np.count_nonzero(np.isfinite(self.data.q[:, 0]))) - 1

    @cached_property
    def apexes(self) -> EventLog:
        return self.data.events.of("apex")

    @cached_property
    def touch_downs(self) -> EventLog:
        """Those which begin a stance: the first, and the first after each apex."""
        log = self.data.events.of("floor_foot", -1)
        count = np.searchsorted(self.apexes.t, log.t)  # of apexes before each
        return log.where(np.diff(count, prepend=-1) > 0)

    @cached_property
    def lift_offs(self) -> EventLog:
        """The last one before each apex."""
        log = self.data.events.of("floor_foot", 1)
        last = [int(np.searchsorted(log.t, t)) - 1 for t in self.apexes.t]
        return log.where(np.array([k for k in last if k >= 0], int))

    def centre(self, log: EventLog) -> tuple[Array, Array]:
        """Position and velocity of the centre of mass in the plane, (n, 2) each."""
        return centre(robot(self.hopper), log.q, log.v)

    def angle(self, log: EventLog) -> Array:
        return np.degrees(leg(robot(self.hopper), log.q)[1])

    def length(self, log: EventLog) -> Array:
        return leg(robot(self.hopper), log.q)[0]

    def momentum(self, log: EventLog) -> Array:
        """Angular momentum about the centre of mass, positive turning the foot ahead."""
        return -robot(self.hopper).centroidal_momentum(log.q, log.v)[..., 1]

    def energy(self, log: EventLog) -> Array:
        """E = T + U + radial spring."""
        model, p = robot(self.hopper), self.data.parameters
        spring = p["K_r"] / 2 * (self.length(log) - p["r_des"]) ** 2
        return model.kinetic_energy(log.q, log.v) + model.potential_energy(log.q) + spring


def upright(q1: Array, hopper: str = "revolute") -> tuple[Array, Array]:
    """Configurations with the foot straight below the centre of mass and the base 0.3 m up; leg lengths."""
    q1 = np.atleast_1d(q1)
    q = np.stack([np.zeros_like(q1), np.zeros_like(q1), np.full_like(q1, 0.3), q1], axis=-1)
    q[:, 0] -= leg(robot(hopper), q)[1]
    return q, leg(robot(hopper), q)[0]


# -- the tuning curve, figure 4.7 ---------------------------------------------------------------------------

VARIANTS = {
    **{f"K_p = {p}, K_E = {E}": (p, E, True) for p, E in ((0, 0), (6, 0), (0, 10), (0, 20))},
    "K_p = 0, K_E = 0, rest length of 102 deg": (0, 0, False),
}


@dataclass(frozen=True)
class Curve:
    """h after the first lift-off over the knee's angle at the start [deg, kg m2/s]."""

    angles: Array
    h: Array

    @property
    def minimum(self) -> tuple[float, float]:
        """The least |h| and where it is, by a parabola through three points."""
        size = np.abs(self.h)
        k = int(np.clip(np.nanargmin(size), 1, len(size) - 2))
        a, b, c = np.polyfit(self.angles[k - 1 : k + 2] - self.angles[k], size[k - 1 : k + 2], 2)
        at = float(self.angles[k] - b / (2 * a))
        return at, float(c - b * b / (4 * a))


def tuning_curve(variant: str, angles: Array) -> Curve:
    """Simulate the first hop from each angle of the knee."""
    K_p, K_E, follows = VARIANTS[variant]
    angles = np.asarray(angles, float)
    q0, r = upright(np.radians(angles))
    level = robot("revolute").potential_energy(q0)
    rest = r if follows else np.full_like(r, REVOLUTE["r_des"])
    level = level + REVOLUTE["K_r"] / 2 * (r - rest) ** 2
    given = {"K_p": float(K_p), "K_E": float(K_E), "r_des": rest, "E_des": level, **FAST}
    found = system("revolute", ledger=False).simulate(q0, t_end=0.6, record_every=0.6, parameters=given)
    h = np.full(len(angles), np.nan)
    for k, log in enumerate(found.events):
        apex, up = log.of("apex").t, log.of("floor_foot", 1)
        if len(apex) and len(up) and up.t[0] < apex[0]:
            i = int(np.searchsorted(up.t, apex[0])) - 1
            h[k] = -robot("revolute").centroidal_momentum(up.q[i], up.v[i])[1]
    return Curve(angles, h)


# -- perturbations ------------------------------------------------------------------------------------------


def perturbed(name: str, angles: Sequence[float], t_end: float) -> list[Run]:
    """Prismatic experiments from a base turned by a little [rad]."""
    x = EXPERIMENTS[name]
    starts = [np.array(x.q0) + [angle, 0, 0, 0] for angle in angles]
    return [simulate(x.hopper, q0, x.v0, t_end, x.parameters, t_end / 200) for q0 in starts]


# -- Controller I -------------------------------------------------------------------------------------------


def under_controller_1() -> dict[tuple[str, float, float], Run]:
    """Controller I with K_E, D_r from the start of an experiment; the prismatic leg tilted by 1e-9 rad."""
    gains = ((0.0, 0.0), (REVOLUTE["K_E"], 0.0), (REVOLUTE["K_E"], 20.0))
    plans = [(f"revolute {k}", *gain) for k in ("I", "V", "VI") for gain in gains]
    plans = [("prismatic I", 0.0, 0.0), ("prismatic I", PRISMATIC["K_E"], 0.0), *plans]
    found = {}
    for name, K_E, D_r in plans:
        x, hopper = EXPERIMENTS[name], name.split()[0]
        q0 = np.array(x.q0) + [1e-9 * (hopper == "prismatic"), 0, 0, 0]
        found[name, K_E, D_r] = simulate(f"{hopper} radial", q0, x.v0, 4.0, {"K_E": K_E, "D_r": D_r})
    return found


# -- energy audit -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Audit:
    """Experiment VI, 20 s. Energies in joules; the touch-down losses are per touch-down."""

    external: float
    joint: float
    damper: float
    regulator: float
    polar_joint: float
    floor: float
    floor_normal: float
    floor_tangential: float
    touch_downs: int
    drops: dict[float, float]
    plastic: float
    closure: float
    sampled: dict[str, float]

    @property
    def total(self) -> float:
        return self.external + self.joint


def audit() -> Audit:
    """Integrals along the exact motion, and the same from samples of 1 ms as the thesis took them."""
    x = run("revolute VI")
    work = {name: float(w[-1]) for name, w in x.data.work.items()}
    normal = work["floor_normal"] + work["floor_impact_normal"]
    tangential = work["floor_tangential"] + work["floor_impact_tangential"]
    rate, efforts, v = x.out["radial_length_rate"], x.out["efforts"], x.data.v
    flight = x.data.memory["floor_contact"][:, 0] < 0.5
    sampled = {
        "external": np.trapezoid(efforts[:, 0] * v[:, 0], x.t),
        "joint": np.trapezoid(efforts[:, 3] * v[:, 3], x.t),
        "damper": np.trapezoid(20.0 * rate**2 * flight, x.t),
    }
    external, damper = work["joint_base"], work["radial_damper"]
    return Audit(
        external, work["joint_knee"], damper, work["regulator_work"], work["polar_work"] - external,
        normal + tangential, normal, tangential, len(x.touch_downs), _drops(), _plastic(x),
        closure=abs(x.ledger.residual) / x.ledger.throughput,
        sampled={name: float(value) for name, value in sampled.items()},
    )  # fmt: skip


def _drops(windows: Sequence[float] = (2e-4, 5e-4, 1e-3)) -> dict[float, float]:
    """Kinetic energy lost within a time after touch-down, averaged over the first touch-downs of VI."""
    x = zoom()
    model = robot("revolute")
    log = x.touch_downs
    log = log.where(log.t < x.t[-1] - 2e-3)
    before = model.kinetic_energy(log.q, log.v)
    T = x.out["kinetic_energy"]
    return {w: float(np.mean(before - np.interp(log.t + w, x.t, T))) for w in windows}


def _plastic(x: Run) -> float:
    """u^T (J M^-1 J^T)^-1 u / 2, u the velocity of the foot at touch-down: what a plastic impact takes."""
    model, log = robot("revolute"), x.touch_downs
    losses = []
    for q, v in zip(log.q, log.v, strict=True):
        J = model.jacobian(q, "foot", "mixed")[[3, 5]]
        u = J @ v
        losses.append(u @ np.linalg.solve(J @ np.linalg.solve(model.mass_matrix(q), J.T), u) / 2)
    return float(np.mean(losses[:-1]))


@functools.cache
def zoom() -> Run:
    """The first 1.6 s of experiment VI, a sample each 0.05 ms."""
    x = EXPERIMENTS["revolute VI"]
    return simulate(x.hopper, x.q0, x.v0, 1.6, x.parameters, 5e-5)


def convergence() -> tuple[list[dict[str, float]], Array, Array]:
    """Steps halved four times: sets of steps, differences of one hop of VI from the next, their rates."""
    x = EXPERIMENTS["revolute VI"]
    sets = [{name: FAST[name] / 2**k for name in ("step", "stance_step", "landing_step")} for k in range(5)]
    ends = []
    for steps in sets:
        given, base = {**x.parameters, **steps}, system("revolute", ledger=False)
        found = base.simulate(x.q0, x.v0, t_end=0.36, record_every=0.36, parameters=given, threads=1)
        ends.append(np.concatenate([found.q[-1], found.v[-1]]))
    differences = np.array([np.abs(a - b).max() for a, b in pairwise(ends)])
    return sets, differences, np.log2(differences[:-1] / differences[1:])
