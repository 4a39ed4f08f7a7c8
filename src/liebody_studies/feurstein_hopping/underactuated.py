"""Hopping without a polar torque: gaits of legs with two and three joints, found by optimisation.

Feurstein's polar spring turns the base by an outer torque, which no drive of the leg could give. Here nothing
acts on the base but the leg: the drives are hip, knee (and ankle), and the first three efforts are zero.

    stance  tau = J_r^T (-K_r (r - r_des) - K_E (E - E_des) r')      from touch-down until r = r_des again
    flight  tau = -K_j (q_j - a) - D_j q_j'

with the leg's length r from the centre of mass to the foot, E = T + U + K_r (r - r_des)^2 / 2, and joint
angles a that are chosen at each apex and held until the next:

    a = posture + gain (x - nominal),      x = (c_y, c_x', theta, omega, q_j, q_j') at the apex

With gain = 0 the leg flies in one posture, whatever the body does. In stance nothing controls how the body
turns, in either case: along a radial force the floor pushes through the centre of mass, but for what the
leg's own mass makes of it. The floor has Coulomb friction: on a floor that holds the foot even where it does
not carry it, as the thesis' does for some milliseconds before each lift-off, other gaits come out.

Gaits are fixed points of the apex map of x, found in three steps: hops from a sample of starts and gains;
Newton's method from those that come back nearest, all of them in one run; random changes of the gains that
lower the largest multiplier.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from liebody import Robot, dynamics, models, sample, systems
from liebody.errors import IntegrationError
from liebody.gaits import regulator
from liebody.scalar import sqrt, where
from liebody.systems import Element, HybridRun, RobotSystem, State, VariedSystem

from ..compare import Array
from ..report import rows_of
from .apexes import Hops, eigenvalues, expand, images, leg
from .experiments import FAST

FRICTION = 0.8
DAMPING = (1e3, 25.0)  # of the floor, down and along: along, what is critical for 1e4 N/m and a foot of 16 g
LONGEST = 0.7  # of a hop, s
STEPS = 60_000  # in a second, at most: three times what hopping takes; who chatters longer is given up
JOINTS = {2: ("hip", "knee"), 3: ("hip", "knee", "ankle")}


# -- the leg's controller -----------------------------------------------------------------------------------


class PushingLeg(Element):
    """A radial spring with an energy regulator in stance, joints on springs in flight; see the head.

    point   name of the frame at the leg's end, which has the contact `floor`; the system needs an `Apex`
    joints  how many of them the leg has, behind a base that floats in the plane

    Stance begins at touch-down, and ends where the leg, getting longer, passes r_des or lifts off. Bounces
    just after touch-down, with the leg getting shorter, do not end it. A member ends after `most` hops.
    """

    prefix = ""

    def __init__(self, point: str, joints: int, name: str = "leg") -> None:
        super().__init__()
        self.name, self.point = name, point
        self.memory = {"stance": 0.0, "aim": np.zeros(joints), "down": 0.0, "hops": 0.0}
        self.directions = {"long": 1}
        self.parameters = {
            "K_r": 2200.0, "r_des": 0.19, "K_E": 10.0, "E_des": 2.8, "K_j": 4.0, "D_j": 0.12,
            "posture": np.zeros(joints), "gain": np.zeros((joints, 4 + 2 * joints)),
            "nominal": np.zeros(4 + 2 * joints),
            "most": 1e9,
        }  # fmt: skip

    def _length(self, s: State) -> tuple[Any, Array]:
        r, J = s.leg(self.point)
        size = sqrt(r @ r)
        return size, (r / size) @ J

    def _aim(self, s: State, p: Any) -> Array:
        body = np.array([s.com[2], s.com_velocity[0], s.q[0], s.v[0]])
        return p.posture + p.gain @ (np.concatenate([body, s.q[3:], s.v[3:]]) - p.nominal)

    def efforts(self, s: State, z: Any, p: Any) -> Array:
        r, J = self._length(s)
        spring = 0.5 * p.K_r * (r - p.r_des) ** 2
        error = s.kinetic_energy + s.potential_energy + spring - p.E_des
        push = -p.K_r * (r - p.r_des) - p.K_E * error * (J @ s.v)
        swing = -p.K_j * (s.q[3:] - z.aim) - p.D_j * s.v[3:]
        return np.concatenate([np.zeros(3, int), z.stance * push * J[3:] + (1 - z.stance) * swing])

    def guards(self, s: State, z: Any, p: Any) -> dict[str, Any]:
        return {"long": self._length(s)[0] - p.r_des}

    def start(self, s: State, z: Any, p: Any) -> Any:
        return z._replace(aim=self._aim(s, p))

    def update(self, s: State, z: Any, p: Any, events: Any) -> Any:
        _, J = self._length(s)
        longer = J @ s.v > 0
        over = (events.leg_long > 0.5) | ((events.floor_foot > 0.5) & longer) | (events.apex < -0.5)
        landed, top = events.floor_foot < -0.5, events.apex < -0.5
        stance = where(landed, 1.0, where(over, 0.0, z.stance))
        aim = [where(top, new, old) for new, old in zip(self._aim(s, p), z.aim, strict=True)]
        hops = z.hops + where(top, z.down, 0.0)
        down = where(landed, 1.0, where(top, 0.0, z.down))
        return z._replace(stance=stance, aim=np.array(aim), down=down, hops=hops)

    def stop(self, s: State, z: Any, p: Any) -> Any:
        return z.hops - p.most + 0.5


@functools.cache
def robot(joints: int) -> Robot:
    return models.two_joint_hopper() if joints == 2 else models.three_joint_hopper()


@functools.cache
def system(joints: int, ledger: bool = False, friction: float | None = FRICTION) -> RobotSystem:
    """The hopper and its floor; with works and signals, or without them for many runs."""
    floor = systems.Contact("foot", damping=DAMPING, settling=0.05, friction=friction)
    parts = PushingLeg("foot", joints), floor, systems.Apex(), systems.Fall(0.1)
    outputs, name = _signals if ledger else None, f"pushing_leg_{joints}"
    return systems.robot_system(
        robot(joints), *parts, actuated=JOINTS[joints], ledger=ledger, outputs=outputs, name=name
    )


def _signals(s: State) -> dict[str, Any]:
    """Places of the trunk's origin (the hip), the other joints and the foot; h about the centre of mass."""
    names = [body.name for body in s.tree.bodies[1:]]
    points = [dynamics.frame_pose(s.tree, s.q, name)[:3, 3] for name in names]
    return {
        "chain": np.stack([*points, s.position("foot")]),
        "angular_momentum": -dynamics.centroidal_momentum(s.tree, s.q, s.v)[1],
    }


# -- the apex map -------------------------------------------------------------------------------------------


def scale(joints: int) -> Array:
    """What is small, by coordinate of x."""
    return np.array([0.01, 0.05, 0.02, 0.2] + joints * [0.02] + joints * [0.2])


def hop(joints: int, x: Array, parameters: Mapping[str, Any], friction: float | None = FRICTION) -> Hops:
    """One hop from each of the apexes x (n, len(x)), all of them in one run."""
    q0, v0 = expand(robot(joints), x)
    found = system(joints, friction=friction).simulate(
        q0, v0, t_end=LONGEST, record_every=LONGEST, parameters={**FAST, "most": 1, **parameters},
        limit=STEPS // 3,
    )  # fmt: skip
    return images(robot(joints), found.events, np.shape(x)[1])


# -- gaits --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gait:
    """A fixed point x of the apex map.

    derivative  dP/dx; by_posture: dP/d posture (len(x), joints)
    residual    of P(x) - x, by coordinate over `scale`
    """

    joints: int
    x: Array
    parameters: dict[str, Any]
    period: float
    stride: float
    residual: float
    derivative: Array
    by_posture: Array

    @property
    def speed(self) -> float:
        return self.stride / self.period

    @property
    def multipliers(self) -> Array:
        """Floquet multipliers, the largest first."""
        return eigenvalues(self.derivative)

    @property
    def radius(self) -> float:
        return float(abs(self.multipliers[0]))

    def radius_with(self, gain: Array) -> float:
        """The largest modulus with feedback of the apex about this gait."""
        return float(np.abs(np.linalg.eigvals(self.derivative + self.by_posture @ gain)).max())

    def fed_back(self, gain: Array) -> dict[str, Any]:
        """Its parameters with feedback of the apex; it is a gait of these, too."""
        return {**self.parameters, "gain": np.asarray(gain, float), "nominal": self.x.copy()}


def refine(
    joints: int, x: Array, parameters: Mapping[str, Any], tries: int = 14, tolerance: float = 1e-7,
    friction: float | None = FRICTION, step: float = 1e-3,
) -> list[Gait | None]:  # fmt: skip
    """The gaits next to starts x (n, len(x)), by Newton's method, all in one run; None where there is none.

    parameters  by name, each with a row for each start; tolerance: of P(x) - x over `scale`
    step        of the central differences, times `scale`
    """
    size, d = scale(joints), 4 + 2 * joints
    x = np.array(x, float)
    given = {name: np.asarray(value, float) for name, value in parameters.items()}
    both = step * np.kron(np.eye(d + joints), [[1], [-1]]) * np.append(size, np.ones(joints))
    changes, turns = np.hsplit(np.concatenate([np.zeros((1, d + joints)), both]), [d])
    n = len(changes)
    found: list[Gait | None] = [None] * len(x)
    left = np.arange(len(x))
    for _ in range(tries):
        rows = {name: np.repeat(value[left], n, axis=0) for name, value in given.items()}
        rows["posture"] = rows["posture"] + np.tile(turns, (len(left), 1))
        hops = hop(joints, (x[left, None] + changes).reshape(-1, d), rows, friction)
        image = hops.x.reshape(len(left), n, d)
        slopes = np.swapaxes(image[:, 1::2] - image[:, 2::2], 1, 2) / (2 * step)
        J, B = slopes[..., :d] / size, slopes[..., d:]
        going = []
        for k, i in enumerate(left.tolist()):
            residual = (image[k, 0] - x[i]) / size
            if not np.isfinite(image[k]).all():
                continue
            if np.abs(residual).max() < tolerance:
                own = {name: value[i] for name, value in given.items()}
                T, S = float(hops.period[k * n]), float(hops.stride[k * n])
                found[i] = Gait(joints, x[i].copy(), own, T, S, float(np.abs(residual).max()), J[k], B[k])
                continue
            change = np.linalg.lstsq((J[k] - np.eye(d)) * size / size[:, None], -residual, rcond=None)[0]
            x[i] += change * size * min(1.0, 2.0 / np.abs(change).max())
            going.append(i)
        left = np.array(going, int)
        if not len(left):
            break
    return found


def shoot(joints: int, x: Array, parameters: Mapping[str, Any], **options: Any) -> Gait:
    """The gait next to x.

    Raises IntegrationError where Newton's method finds none.
    """
    rows = {name: np.asarray(value, float)[None] for name, value in parameters.items()}
    gait = refine(joints, np.asarray(x, float)[None], rows, **options)[0]
    if gait is None:
        raise IntegrationError(f"no gait of the leg with {joints} joints near {x}; start nearer to one")
    return gait


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


def starts(joints: int, n: int, seed: int = 0) -> tuple[Array, dict[str, Array]]:
    """A sample of starts at an apex, (n, len(x)), and of parameters.

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
    x = np.concatenate(
        [np.stack([length + drawn["lift"], drawn["speed"], tilt, np.zeros(n)], axis=-1), posture,
         np.zeros((n, joints))], axis=-1
    )  # fmt: skip
    q, v = expand(robot(joints), x)
    energy = robot(joints).potential_energy(q) + robot(joints).kinetic_energy(q, v)
    gains = {name: drawn[name] for name in ("K_r", "K_E", "K_j", "D_j")}
    own = {"posture": posture, "r_des": length + drawn["stretch"], "E_des": energy + drawn["level"]}
    return x, {**own, **gains}


def returning(joints: int, n: int, keep: int, seed: int = 0) -> tuple[Array, dict[str, Array], Array]:
    """Those `keep` of a sample of n that one hop brings back nearest, and all distances over `scale`."""
    x, parameters = starts(joints, n, seed)
    image = hop(joints, x, parameters).x
    far = np.abs((image - x) / scale(joints))[:, : 4 + joints].max(axis=1)
    best = np.argsort(np.where(np.isfinite(far), far, np.inf))[:keep]
    return x[best], {name: value[best] for name, value in parameters.items()}, far


def search(joints: int, n: int = 4096, keep: int = 96, seed: int = 0) -> list[Gait]:
    """Gaits from a sample of n, by their largest multiplier without feedback."""
    x, parameters, _ = returning(joints, n, keep, seed)
    found = [g for g in refine(joints, x, parameters) if g is not None]
    return sorted(found, key=lambda g: g.radius)


SPREAD = {
    "posture": 0.04, "r_des": 1e-3, "E_des": 0.02, "K_r": 200.0, "K_E": 1.5, "K_j": 0.5, "D_j": 0.02
}  # fmt: skip
CLEARANCE = 0.015  # of the foot over the floor at the apex, at least, m


def clearance(gait: Gait) -> float:
    """Height of the foot at the apex [m]."""
    return float(robot(gait.joints).pose(expand(robot(gait.joints), gait.x)[0], "foot")[2, 3])


def apex_gain(gait: Gait, weight: float = 0.01) -> Array:
    """The gain of the discrete linear-quadratic regulator on the apex map, (joints, len(x)).

    It minimises the sum over all hops of |dx / scale|^2 + weight |da / 0.02 rad|^2.
    """
    size, unit = scale(gait.joints), 0.02
    A, B = gait.derivative * size / size[:, None], gait.by_posture * unit / size[:, None]
    R = weight * np.eye(gait.joints)
    return unit * regulator(A, B, np.eye(len(size)), R) / size


def attitude_gain(gait: Gait, start: Sequence[float] = (-1.2, -0.5)) -> tuple[Array, float]:
    """The gain that turns the hip by what the base's attitude and its rate are off, with the least radius.

    Returns (gain (joints, len(x)), largest modulus).
    """
    from scipy.optimize import minimize

    def gain(k: Array) -> Array:
        whole = np.zeros((gait.joints, len(gait.x)))
        whole[0, 2:4] = k
        return whole

    tries = [start, (-1.0, -0.2), (-2.0, -1.0)]
    options = {"maxiter": 150, "xatol": 1e-3, "fatol": 1e-4}
    found = (minimize(lambda k: gait.radius_with(gain(k)), k, method="Nelder-Mead", options=options)
             for k in tries)  # fmt: skip
    best = min(found, key=lambda r: r.fun)
    return gain(best.x), float(best.fun)


def improve(
    gaits: Sequence[Gait], objective: Any, generations: int = 30, children: int = 48, parents: int = 8,
    seed: int = 0,
) -> list[Gait]:  # fmt: skip
    """Gaits with a smaller objective(gait), by random changes of posture and gains: the best `parents`.

    Each generation, children of the best are drawn with normal changes of a size SPREAD, which shrinks, and
    brought to gaits by Newton's method. The foot keeps CLEARANCE, gains stay within BOX.
    """
    rng = np.random.default_rng(seed)
    joints = gaits[0].joints
    pool = sorted(((objective(g), g) for g in gaits), key=lambda pair: pair[0])[:parents]
    for generation in range(generations):
        size = 0.97**generation
        chosen = [pool[k % len(pool)][1] for k in range(children)]
        x = np.stack([g.x for g in chosen])
        rows = {name: np.stack([g.parameters[name] for g in chosen]) for name in SPREAD}
        for name, spread in SPREAD.items():
            change = size * spread * rng.normal(size=rows[name].shape)
            if name in BOX:
                change = np.clip(rows[name] + change, *BOX[name]) - rows[name]
            rows[name] = rows[name] + change
            if name == "posture":
                x[:, 4 : 4 + joints] += change
        new = [g for g in refine(joints, x, rows, tries=6) if g is not None and clearance(g) > CLEARANCE]
        pool = sorted([*pool, *((objective(g), g) for g in new)], key=lambda pair: pair[0])[:parents]
    return [g for _, g in pool]


def known(joints: int, name: str = "settled") -> Gait:
    """A gait that `search` and `improve` found, by its row in gaits.md: it is brought to a gait again.

    "settled" is the one that stands best, "calmest" that with the least multiplier without feedback.
    """
    (row,) = (r for r in rows_of(__package__, "gaits") if (int(r["joints"]), r["gait"]) == (joints, name))
    parameters: dict[str, Any] = {key: float(row[key]) for key in SPREAD if key != "posture"}
    parameters["posture"], x = ([float(y) for y in row[key].split()] for key in ("posture", "x"))
    return shoot(joints, np.array(x), parameters)


# -- what a gait is worth -----------------------------------------------------------------------------------

DISTURBED = np.array([0.01, 0.2, 0.1, 1.0])  # of c_y, c_x', theta, omega at an apex: m, m/s, rad, rad/s


def run_on(
    gait: Gait, gain: Array | None, offsets: Array, t_end: float, rows: int = 1, ledger: bool = False
) -> HybridRun:
    """Simulate from beside a gait: offsets (..., up to len(x)) of x at the apex; gain None: no feedback."""
    offsets = np.asarray(offsets, float)
    rest = np.zeros((*offsets.shape[:-1], len(gait.x) - offsets.shape[-1]))
    x = gait.x + np.concatenate([offsets, rest], axis=-1)
    parameters = gait.parameters if gain is None else gait.fed_back(gain)
    q0, v0 = expand(robot(gait.joints), x)
    return system(gait.joints, ledger).simulate(
        q0, v0, t_end=t_end, record_every=t_end / rows, parameters={**FAST, **parameters},
        limit=max(1000, int(STEPS * t_end / rows)), events=0,
    )  # fmt: skip


def disturbed(gait: Gait, gain: Array | None, n: int = 24, t_end: float = 3.0, seed: int = 1) -> HybridRun:
    """Runs from n apexes drawn evenly from gait +- DISTURBED."""
    offsets = np.random.default_rng(seed).uniform(-1, 1, (n, 4)) * DISTURBED
    return run_on(gait, gain, offsets, t_end, round(10 * t_end))


def standing(gait: Gait, gain: Array, speeds: Array, tilts: Array, t_end: float) -> Array:
    """For how long it stands that starts so much faster and more tilted, (tilts, speeds)  [s]."""
    u, angle = (x.ravel() for x in np.meshgrid(speeds, tilts))
    run = run_on(gait, gain, np.stack([np.zeros_like(u), u, angle], axis=-1), t_end, round(10 * t_end))
    return run.end_times.reshape(len(tilts), len(speeds))


def hops(run: HybridRun) -> Array:
    """How many hops each member did before its last sample."""
    return np.nanmax(run.memory["leg_hops"], axis=-1)


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
    out: dict[str, Array]
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


def books(gait: Gait, samples: int = 4000) -> Books:
    """Simulate one hop of a gait with everything that is to be known of it."""
    n = gait.joints
    base, dt = system(n, ledger=True), gait.period / samples
    start = expand(robot(n), gait.x)
    run = base.simulate(*start, t_end=gait.period, record_every=dt, parameters=gait.parameters)
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
        cost=float(np.maximum(power, 0).sum() * dt / (weight * abs(gait.stride))),
        pull=float(np.abs(force[loaded, 0] / force[loaded, 2]).max()),
        slip=float(slid.sum()),
        lowest=out["chain"][:, :-1, 2].min(axis=0),
        turning=tuple(float(h[k]) for k in at),  # type: ignore[arg-type]
    )


@functools.cache
def _varied(joints: int) -> VariedSystem:
    floor = systems.Contact("foot", damping=DAMPING, settling=0.05, friction=FRICTION, corners=True)
    parts, name = (PushingLeg("foot", joints), floor, systems.Apex()), f"varied_{joints}"
    drives = JOINTS[joints]
    return VariedSystem(systems.robot_system(robot(joints), *parts, actuated=drives, ledger=False, name=name))


def carried_multipliers(gait: Gait) -> Array:
    """Multipliers of a gait without feedback by the linearised equations, saltation matrices included.

    One of them is 1: that of the place along the way.
    """
    q0, v0 = expand(robot(gait.joints), gait.x)
    end = 1.3 * gait.period
    varied, given = _varied(gait.joints), {**FAST, **gait.parameters}
    log = varied.simulate(q0, v0, t_end=end, record_every=end, parameters=given).events.of("apex")
    D = varied.on_section(log, given)[np.flatnonzero(log.t > gait.period / 2)[0]]
    return eigenvalues(D)


def over_friction(gait: Gait, values: Sequence[float]) -> list[Gait | None]:
    """The gait followed from FRICTION to other coefficients, in turn; None from where it is lost."""
    found: list[Gait | None] = []
    last: Gait | None = gait
    for mu in values:
        if last is not None:
            try:
                last = shoot(gait.joints, last.x, {**gait.parameters, "floor_friction": mu})
            except IntegrationError:
                last = None
        found.append(last)
    return found
