"""Hopping without a polar torque: gaits of legs with two and three joints, found by optimisation.

Feurstein's polar spring turns the base by an outer torque, which no drive of the leg could give. Here nothing
acts on the base but the leg: the drives are hip, knee (and ankle), and the first three efforts are zero.

    stance  tau = J_r^T (-K_r (r - r_des) - K_E (E - E_des) r')      from touch-down until r = r_des again
    flight  tau = -K_j (q_j - a) - D_j q_j'

with the leg's length r from the centre of mass to the foot, E = T + U + K_r (r - r_des)^2 / 2, and joint
angles a, the posture, which may be chosen at each apex and held until the next. In stance nothing controls
how the body turns: along a radial force the floor pushes through the centre of mass, but for what the leg's
own mass makes of it. The floor has Coulomb friction: on a floor that holds the foot even where it does not
carry it, as the thesis' does for some milliseconds before each lift-off, other gaits come out.

Gaits are orbits of `liebody.gaits` from apex to apex: `search` finds them from a sample of starts and gains,
`improve` lowers their largest multiplier by random changes, `stabilize` chooses the posture at each apex.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from liebody import Robot, contact, dynamics, hybrid, models, sample
from liebody.gaits import GaitError, PeriodicOrbit, StabilizedOrbit, periodic_orbit, stabilize
from liebody.gaits import improve as improved
from liebody.gaits import search as search_for
from liebody.hybrid import Element, RobotSystem, State
from liebody.runs import HybridRun
from liebody.scalars import sqrt, where

from ..compare import Array
from ..report import rows_of
from .apexes import expand, leg, reduce
from .experiments import FAST

FRICTION = 0.8
DAMPING = (1e3, 25.0)  # of the floor, down and along: along, what is critical for 1e4 N/m and a foot of 16 g
PERIOD = 0.2  # of a hop, a guess [s]
STEPS = 60_000  # in a second, at most: three times what hopping takes; who chatters longer is given up
DIFFERENCE = 1e-3  # step of derivatives, over what is small
JOINTS = {2: ("hip", "knee"), 3: ("hip", "knee", "ankle")}


# -- the leg's controller -----------------------------------------------------------------------------------


class PushingLeg(Element):
    """A radial spring with an energy regulator in stance, joints on springs in flight; see the head.

    point   name of the frame at the leg's end, which has the contact `floor`
    joints  how many of them the leg has, behind a base that floats in the plane

    Stance begins at touch-down, and ends where the leg, getting longer, passes r_des or lifts off. Bounces
    just after touch-down, with the leg getting shorter, do not end it.
    """

    prefix = ""

    def __init__(self, point: str, joints: int, name: str = "leg") -> None:
        super().__init__()
        self.name, self.point = name, point
        self.memory, self.directions = {"stance": 0.0}, {"long": 1}
        self.parameters = {
            "K_r": 2200.0, "r_des": 0.19, "K_E": 10.0, "E_des": 2.8, "K_j": 4.0, "D_j": 0.12,
            "posture": np.zeros(joints),
        }  # fmt: skip

    def _length(self, s: State) -> tuple[Any, Array]:
        r, J = s.leg(self.point)
        size = sqrt(r @ r)
        return size, (r / size) @ J

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        r, J = self._length(s)
        spring = 0.5 * p.K_r * (r - p.r_des) ** 2
        error = s.kinetic_energy + s.potential_energy + spring - p.E_des
        push = -p.K_r * (r - p.r_des) - p.K_E * error * (J @ s.v)
        swing = -p.K_j * (s.q[3:] - p.posture) - p.D_j * s.v[3:]
        return np.concatenate([np.zeros(3, int), z.stance * push * J[3:] + (1 - z.stance) * swing])

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"long": self._length(s)[0] - p.r_des}

    def update(self, s: State, z: Any, p: Any, events: Any) -> Any:
        longer = self._length(s)[1] @ s.v > 0
        over = (events.leg_long > 0.5) | ((events.floor_foot > 0.5) & longer) | (events.apex < -0.5)
        return z._replace(stance=where(events.floor_foot < -0.5, 1.0, where(over, 0.0, z.stance)))


@functools.cache
def robot(joints: int) -> Robot:
    return models.two_joint_hopper() if joints == 2 else models.three_joint_hopper()


@functools.cache
def system(joints: int, corners: bool = False) -> RobotSystem:
    """The hopper and its floor, with works and signals; corners of the floor's force as events or not."""
    floor = contact.Contact("foot", damping=DAMPING, settling=0.05, friction=FRICTION, corners=corners)
    parts = PushingLeg("foot", joints), floor, hybrid.Apex(), hybrid.Fall(0.1)
    name = f"pushing_leg_{joints}"
    return hybrid.robot_system(robot(joints), *parts, actuated=JOINTS[joints], outputs=_signals, name=name)


def _signals(s: State) -> dict[str, Any]:
    """Places of the trunk's origin (the hip), the other joints and the foot; h about the centre of mass."""
    names = [body.name for body in s.tree.bodies[1:]]
    points = [dynamics.frame_pose(s.tree, s.q, name)[:3, 3] for name in names]
    return {
        "chain": np.stack([*points, s.position("foot")]),
        "angular_momentum": -dynamics.centroidal_momentum(s.tree, s.q, s.v)[1],
    }


# -- gaits --------------------------------------------------------------------------------------------------


def scale(joints: int) -> Array:
    """What is small, by coordinate of (q, v)."""
    return np.array([0.02, 0.01, 0.01] + joints * [0.02] + [0.2, 0.05, 0.05] + joints * [0.2])


def orbits(joints: int) -> dict[str, Any]:
    """What all calls of `liebody.gaits` are given: from apex to apex, wherever that is along the floor."""
    along = np.eye(3 + joints)[1:2]
    return {"period": PERIOD, "section": "apex", "symmetries": along, "scale": scale(joints)}


def shoot(
    joints: int, x: Array, parameters: Mapping[str, Any], corners: bool = False, tries: int = 14,
    tolerance: float = 1e-7,
) -> PeriodicOrbit:  # fmt: skip
    """The gait next to an apex x = (c_y, c_x', theta, omega, q_j, q_j').

    corners  derivatives through the flow, with the corners of the floor's force; else by differences

    Raises GaitError where there is none.
    """
    return periodic_orbit(
        system(joints, corners), *expand(robot(joints), np.asarray(x, float)), **orbits(joints),
        parameters={**FAST, **parameters}, tries=tries, tolerance=tolerance,
        difference=None if corners else DIFFERENCE, limit=STEPS // 6,
    )  # fmt: skip


def joints_of(gait: PeriodicOrbit) -> int:
    return int(gait.system.nv) - 3


def speed(gait: PeriodicOrbit) -> float:
    return float(gait.shift[0]) / gait.period


def radius(gait: PeriodicOrbit) -> float:
    """The largest modulus of its multipliers."""
    return float(abs(gait.multipliers[0]))


def clearance(gait: PeriodicOrbit) -> float:
    """Height of the foot at the apex [m]."""
    return float(robot(joints_of(gait)).pose(gait.q, "foot")[2, 3])


def known(joints: int, name: str = "settled") -> PeriodicOrbit:
    """A gait that `search` and `improve` found, by its row in gaits.md: it is brought to a gait again.

    "settled" is the one that stands best, "calmest" that with the least multiplier without feedback.
    """
    (row,) = (r for r in rows_of(__package__, "gaits") if (int(r["joints"]), r["gait"]) == (joints, name))
    parameters: dict[str, Any] = {key: float(row[key]) for key in SPREAD if key != "posture"}
    parameters["posture"], x = ([float(y) for y in row[key].split()] for key in ("posture", "x"))
    return shoot(joints, np.array(x), parameters)


def carried(gait: PeriodicOrbit) -> PeriodicOrbit:
    """The same gait with the derivatives through the flow."""
    joints = joints_of(gait)
    return shoot(joints, reduce(robot(joints), gait.q, gait.v), gait.parameters, corners=True)


def over_friction(gait: PeriodicOrbit, values: Sequence[float]) -> list[PeriodicOrbit | None]:
    """The gait followed from FRICTION to other coefficients, in turn; None from where it is lost."""
    found: list[PeriodicOrbit | None] = []
    last: PeriodicOrbit | None = gait
    for mu in values:
        if last is not None:
            try:
                last = last.with_parameters(floor_friction=mu, tolerance=1e-7)
            except GaitError:
                last = None
        found.append(last)
    return found


# -- the search ---------------------------------------------------------------------------------------------

BOX = {
    "lean": (-0.4, 0.4),  # of the leg from the trunk, rad
    "knee": (0.4, 1.8),  # rad
    "ankle": (-1.5, -0.2),  # rad, of three joints
    "lift": (0.01, 0.1),  # of the centre of mass at the apex over the leg's length, m
    "speed": (-1.5, 1.5),  # m/s
    "ahead": (-0.05, 0.35),  # angle of the leg at the apex over the speed, rad s/m
    "stretch": (-0.002, 0.01),  # r_des over the length in flight, m
    "level": (0.0, 0.06),  # E_des over the energy at the start, J
    "K_r": (1200.0, 4000.0),
    "K_E": (3.0, 20.0),
    "K_j": (1.0, 6.0),
    "D_j": (0.05, 0.2),
}


def starts(joints: int, n: int, seed: int = 0) -> dict[str, Array]:
    """A sample of apexes, x (n, 4 + 2 joints), and of parameters.

    Knees point one way: gaits with knees that point the other way are mirror images.
    """
    drawn = sample({name: b for name, b in BOX.items() if name != "ankle" or joints == 3}, n, seed=seed)
    bent = [drawn["knee"]] + ([drawn["ankle"]] if joints == 3 else [])
    posture = np.stack([np.zeros(n), *bent], axis=-1)
    zero = np.zeros((n, 3))
    for _ in range(3):  # the hip that turns the leg by `lean` from the trunk
        q = np.concatenate([zero, posture], axis=-1)
        posture[:, 0] += drawn["lean"] - leg(robot(joints), q)[1]
    length, angle = leg(robot(joints), np.concatenate([zero, posture], axis=-1))
    tilt = drawn["ahead"] * drawn["speed"] - angle
    body = np.stack([length + drawn["lift"], drawn["speed"], tilt, np.zeros(n)], axis=-1)
    x = np.concatenate([body, posture, np.zeros((n, joints))], axis=-1)
    q, v = expand(robot(joints), x)
    energy = robot(joints).potential_energy(q) + robot(joints).kinetic_energy(q, v)
    gains = {name: drawn[name] for name in ("K_r", "K_E", "K_j", "D_j")}
    levels = {"r_des": length + drawn["stretch"], "E_des": energy + drawn["level"]}
    return {"x": x, "posture": posture, **levels, **gains}


def search(joints: int, n: int = 4096, keep: int = 96, seed: int = 0) -> list[PeriodicOrbit]:
    """Gaits from a sample of n, by their largest multiplier without feedback."""
    return search_for(
        system(joints), starts(joints, n, seed), lambda p: expand(robot(joints), p["x"]), **orbits(joints),
        keep=keep, parameters=FAST, tolerance=1e-7, tries=10, difference=DIFFERENCE,
        options={"limit": STEPS // 6},
    )  # fmt: skip


SPREAD = {
    "posture": 0.04, "r_des": 1e-3, "E_des": 0.02, "K_r": 200.0, "K_E": 1.5, "K_j": 0.5, "D_j": 0.02
}  # fmt: skip
CLEARANCE = 0.015  # of the foot over the floor at the apex, at least, m


def improve(gaits: Sequence[PeriodicOrbit], **options: Any) -> list[PeriodicOrbit]:
    """Gaits with a smaller largest multiplier: the foot keeps CLEARANCE, gains stay within BOX."""
    bounds = {name: BOX[name] for name in SPREAD if name in BOX}
    return improved(
        gaits, SPREAD, bounds=bounds, accept=lambda gait: clearance(gait) > CLEARANCE, tries=6,
        tolerance=1e-7, **options,
    )  # fmt: skip


# -- feedback at the apex -----------------------------------------------------------------------------------


def regulated(gait: PeriodicOrbit) -> StabilizedOrbit:
    """With the posture by the regulator of the apex map.

    It minimises the sum over all hops of |dx / small|^2 + 0.01 |da / 0.02 rad|^2, x as of `shoot`.
    """
    joints = joints_of(gait)
    small = np.array([0.01, 0.05, 0.02, 0.2] + joints * [0.02] + joints * [0.2])
    X = apex_by_state(gait) / small[:, None]
    return stabilize(gait, ["posture"], Q=X.T @ X, R=np.full(joints, 0.01 / 0.02**2))


def apex_by_state(gait: PeriodicOrbit, h: float = 1e-6) -> Array:
    """The derivative (4 + 2 joints, 2 nv) of x by the state."""
    nv, model = gait.system.nv, robot(joints_of(gait))
    moves = h * np.kron(np.eye(2 * nv), [[1], [-1]])
    q = np.array([gait.system.group.integrate(gait.q, move[:nv]) for move in moves], float)
    x = reduce(model, q, gait.v + moves[:, nv:])
    return (x[::2] - x[1::2]).T / (2 * h)


def tilted(gait: PeriodicOrbit) -> StabilizedOrbit:
    """With the hip's angle by what the base's attitude and its rate are off, of the least radius."""
    from scipy.optimize import minimize

    gait = gait.with_unknowns("posture")
    A, B, nv = gait.derivative, gait.by_unknowns, gait.system.nv

    def gain(k: Array) -> Array:
        whole = np.zeros((joints_of(gait), 2 * nv))
        whole[0, [0, nv]] = k
        return whole

    W, small = gait.across_symmetries, scale(joints_of(gait))

    def largest(k: Array) -> float:
        held = W.T @ ((A + B @ gain(k)) * small / small[:, None]) @ W
        return float(np.abs(np.linalg.eigvals(held)).max())

    options = {"maxiter": 150, "xatol": 1e-3, "fatol": 1e-4}
    tries = (-1.2, -0.5), (-1.0, -0.2), (-2.0, -1.0)
    found = (minimize(largest, k, method="Nelder-Mead", options=options) for k in tries)
    return stabilize(gait, ["posture"], gain=gain(min(found, key=lambda r: r.fun).x))


# -- what a gait is worth -----------------------------------------------------------------------------------

DISTURBED = np.array([0.01, 0.2, 0.1, 1.0])  # of c_y, c_x', theta, omega at an apex: m, m/s, rad, rad/s


def run_on(
    held: StabilizedOrbit, offsets: Array, t_end: float, rows: int = 1, free: bool = False
) -> HybridRun:
    """Simulate from beside a gait: offsets (..., up to len(x)) of x at the apex; free: no feedback."""
    gait, offsets = held.orbit, np.asarray(offsets, float)
    model = robot(joints_of(gait))
    x = reduce(model, gait.q, gait.v)
    rest = np.zeros((*offsets.shape[:-1], len(x) - offsets.shape[-1]))
    return held.simulate(
        *expand(model, x + np.concatenate([offsets, rest], axis=-1)), t_end=t_end,
        record_every=t_end / rows, gain=0.0 if free else None, limit=max(1000, int(STEPS * t_end / rows)),
    )  # fmt: skip


def disturbed(
    held: StabilizedOrbit, n: int = 24, t_end: float = 3.0, free: bool = False, seed: int = 1
) -> HybridRun:
    """Runs from n apexes drawn evenly from gait +- DISTURBED."""
    offsets = np.random.default_rng(seed).uniform(-1, 1, (n, 4)) * DISTURBED
    return run_on(held, offsets, t_end, round(10 * t_end), free)


def standing(held: StabilizedOrbit, speeds: Array, tilts: Array, t_end: float) -> Array:
    """For how long it stands that starts so much faster and more tilted, (tilts, speeds)  [s]."""
    u, angle = (x.ravel() for x in np.meshgrid(speeds, tilts))
    run = run_on(held, np.stack([np.zeros_like(u), u, angle], axis=-1), t_end, round(10 * t_end))
    return run.end_times.reshape(len(tilts), len(speeds))


def hops(run: HybridRun) -> Array:
    """How many hops each member did."""
    return np.array([len(log.of("apex")) for log in run.events])


@dataclass(frozen=True)
class Books:
    """One hop of a gait, with all steps as fine as in the experiments.

    t, out, q, v  times from the apex, signals, states
    work          of each drive over the hop [J]; floor: what it takes; closure: residual, relative
    base          the largest effort on the base, which has no drive
    torque        the largest of each joint [N m]; power: the largest sum over joints [W]
    cost          positive work of the drives / (m g stride)
    pull          the largest |F_x| / F_y where F_y > 1 N; slip: way of the foot while it carries [m]
    lowest        heights of the joints over the floor, lowest of the hop, from the hip [m]
    turning       h about the centre of mass in flight before touch-down, after 3 ms of stance, at lift-off
    """

    t: Array
    out: Mapping[str, Array]
    q: Array
    v: Array
    stance: tuple[float, float]
    work: dict[str, float]
    floor: float
    closure: float
    base: float
    torque: Array
    power: float
    cost: float
    pull: float
    slip: float
    lowest: Array
    turning: tuple[float, float, float]


def books(gait: PeriodicOrbit, samples: int = 4000) -> Books:
    """Simulate one hop of a gait with everything that is to be known of it."""
    n, base, dt = joints_of(gait), gait.system, gait.period / samples
    fine = {name: base.parameters.defaults[name] for name in FAST}
    run = gait.simulate(record_every=dt, parameters={**gait.parameters, **fine})
    ledger, out = base.ledger(run), run.outputs
    efforts, force = out["efforts"], out["floor_force"][:, 0]
    loaded = force[:, 2] > 1.0
    power = (efforts * run.v)[:, 3:]
    foot = out["chain"][:, -1, 0]
    slid = np.abs(np.diff(foot))[loaded[1:] & loaded[:-1]]
    down, up = run.events.of("floor_foot", -1).t[0], run.events.of("floor_foot", 1).t[-1]
    h = out["angular_momentum"]
    at = np.clip(np.array([down - 1e-4, down + 3e-3, up + 1e-4]) / dt, 0, samples).astype(int)
    weight = 9.81 * robot(n).tree.mass
    return Books(
        t=run.t,
        out=out,
        q=run.q,
        v=run.v,
        stance=(float(down), float(up)),
        work={name: float(run.work[f"joint_{name}"][-1]) for name in JOINTS[n]},
        floor=float(sum(ledger.losses.values())),
        closure=abs(ledger.residual) / ledger.throughput,
        base=float(np.abs(efforts[:, :3]).max()),
        torque=np.abs(efforts[:, 3:]).max(axis=0),
        power=float(np.abs(power.sum(axis=1)).max()),
        cost=float(np.maximum(power, 0).sum() * dt / (weight * abs(float(gait.shift[0])))),
        pull=float(np.abs(force[loaded, 0] / force[loaded, 2]).max()),
        slip=float(slid.sum()),
        lowest=out["chain"][:, :-1, 2].min(axis=0),
        turning=tuple(float(h[k]) for k in at),  # type: ignore[arg-type]
    )
