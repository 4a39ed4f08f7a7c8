"""The examples of Mueller and Terze (2013), section 5: systems, runs, references, variants of the top.

The numbers behind the page of `mueller_terze`. Velocities are angular first, positions of centres of mass.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from liebody import Robot, integrators, simulate
from liebody.base.errors import IntegrationError
from liebody.bodies import SpatialInertia, Tree, TreeBuilder
from liebody.compiler import trace
from liebody.dynamics import body_poses
from liebody.groups import SE3, SO3, Free, Product, R, Spherical
from liebody.mechanisms.constrained import ClosedTree, Closure, System, SystemBuilder, stabilization
from liebody.scalars import cos, sin, sqrt
from liebody.scalars.linear import cross, skew, solve
from liebody.stepping import Flow, together

from ..compare import Array

GROUPS = ("SE3", "SO3xR3")
NAMES = {"SE3": r"$SE(3)$", "SO3xR3": r"$SO(3)\times\mathbb{R}^3$"}
STEP = 1e-3  # the paper's [s]
BOX = SpatialInertia.box(2.7, [0.2, 0.1, 0.05])
TOP = SpatialInertia(21.6, rotational=[0.36, 0.306, 0.09])
ARM = np.array([0.5, 0.0, 0.0])  # of the top, from the pivot to the centre of mass
TOP_TURN = np.pi * np.array([0.0, 20.0, 10.0])


# -- the examples -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """An example of the paper.

    joints   name of each joint, in the paper's order, and what it joins
    figures  the paper's numbers of the figures: one for each joint, then that of the energy
    build    (configuration of each body) -> system and initial velocities
    close_at  where the second body is joined to the ground, too
    """

    key: str
    title: str
    section: str
    joints: tuple[tuple[str, str], ...]
    figures: tuple[int, ...]
    build: Callable[[Sequence[str]], tuple[System, np.ndarray]]
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    close_at: tuple[float, float, float] | None = None

    @property
    def bodies(self) -> int:
        return 1 if self.key == "top" else 2

    @property
    def heading(self) -> str:
        return self.title[0].upper() + self.title[1:]

    def __repr__(self) -> str:
        return self.key


def peak(values: Array) -> float:
    """The largest |x|."""
    return float(np.max(np.abs(values)))


def _built(builder: SystemBuilder, twists: dict[str, Any]) -> tuple[System, np.ndarray]:
    system = builder.build()
    return system, system.velocities(system.guess, twists)


def heavy_top(groups: Sequence[str]) -> tuple[System, np.ndarray]:
    """Section 5.1, complete in the paper."""
    builder = SystemBuilder("heavy top", gravity=(0, 0, 0)).body("top", TOP, ARM, groups[0])
    builder.joint("pivot", Spherical(), "world", "top", on_child=-ARM)
    return _built(builder, {"top": [*TOP_TURN, *np.cross(TOP_TURN, ARM)]})


def _pair(groups: Sequence[str], gravity: Sequence[float]) -> SystemBuilder:
    builder = SystemBuilder("pair", gravity)
    for name, x, group in zip(("one", "two"), (0.1, 0.3), groups, strict=True):
        builder.body(name, BOX, [x, 0, 0], group)
    return builder


def double_pendulum(groups: Sequence[str], gravity: float = 9.81) -> tuple[System, np.ndarray]:
    """Section 5.2; masses, joints' places, gravity and linear velocities are not in the paper."""
    builder = _pair(groups, (0, 0, -gravity))
    builder.joint("j1", Spherical(), "world", "one", on_child=[-0.1, 0, 0])
    builder.joint("j2", Spherical(), "one", "two", on_parent=[0.1, 0, 0], on_child=[-0.1, 0, 0])
    w = np.pi * np.array([10.0, 10, 20])
    return _built(builder, {"one": [10, 0, 0, 0, 0, 0], "two": [*w, *np.cross(w, [0.1, 0, 0])]})


def floating_pair(groups: Sequence[str], drift: Sequence[float] = (0, 0, 0)) -> tuple[System, np.ndarray]:
    """Section 5.3, body one at rest but for a common drift; the paper gives no linear velocities."""
    builder = _pair(groups, (0, 0, 0))
    builder.joint("j2", Spherical(), "one", "two", on_parent=[0.1, 0, 0], on_child=[-0.1, 0, 0])
    w1, w2, e = np.array([0, 0, -10.0]), np.array([1, -1, 2 * np.pi]), [0.1, 0, 0]
    v2 = np.cross(w1, e) + np.cross(w2, e)
    return _built(builder, {"one": [*w1, *drift], "two": [*w2, *(v2 + np.asarray(drift))]})


TILT = float(np.arccos(0.75))
BARS = (("one", -1, 0.075), ("two", 1, 0.225))


def three_bar(groups: Sequence[str]) -> tuple[System, np.ndarray]:
    """Section 5.4; all parameters are missing in the paper: boxes of 5.2 over a base of 0.3 m."""
    builder = SystemBuilder("three-bar")
    for (name, sign, x), group in zip(BARS, groups, strict=True):
        place = SE3.motion(SO3.exp(np.array([0, sign * TILT, 0])), np.array([x, 0, 0.1 * np.sin(TILT)]))
        builder.body(name, BOX, place, group)
    builder.joint("j1", Spherical(), "world", "one", on_child=[-0.1, 0, 0])
    builder.joint("j2", Spherical(), "one", "two", on_parent=[0.1, 0, 0], on_child=[-0.1, 0, 0])
    builder.joint("j3", Spherical(), "world", "two", on_parent=[0.3, 0, 0], on_child=[0.1, 0, 0])
    w, v = 5 * np.sin(TILT), -0.5 * np.sin(TILT)
    return _built(builder, {"one": [23.75, 0, -w, 0, v, 0], "two": [-6.25, 0, w, 0, v, 0]})


def _shifted(inertia: SpatialInertia, com: Array) -> SpatialInertia:
    """A body whose frame has its centre of mass at com."""
    return inertia.shift(SE3.motion(np.eye(3), np.asarray(com, float)))


def _pair_tree(grounded: bool, close_at: Sequence[float] | None) -> Tree:
    """Two boxes in joint coordinates: frames at joints, or at the centre of mass if the first one floats."""
    hung = _shifted(BOX, [0.1, 0, 0])
    first = (Spherical(), hung) if grounded else (Free(), BOX)
    builder = TreeBuilder("pair").add("one", *first)
    builder.add("two", Spherical(), hung, "one", [0.2 if grounded else 0.1, 0, 0])
    if close_at is not None:
        builder.frame("end", "two", [0.2, 0, 0]).frame("D", "world", list(close_at))
    return builder.build()


GROUND_1, MIDDLE = "ground and body 1", "bodies 1 and 2"
EXAMPLES = (
    Example(
        "top", "heavy top", "5.1", (("pivot", "ground and top"),), (2, 3), heavy_top
    ),
    Example(
        "pendulum", "spherical double pendulum", "5.2", (("j1", GROUND_1), ("j2", MIDDLE)), (5, 6, 7),
        double_pendulum, (0, 0, -9.81),
    ),
    Example(
        "floating", "two floating bodies", "5.3", (("j2", MIDDLE),), (9, 10), floating_pair
    ),
    Example(
        "three-bar", "closed-loop three-bar linkage", "5.4",
        (("j1", GROUND_1), ("j2", MIDDLE), ("j3", "ground and body 2")), (12, 13, 14, 15),
        three_bar, (0, 0, -9.81), (0.3, 0, 0),
    ),
)  # fmt: skip
HEAVY, PENDULUM, FLOATING, THREE_BAR = EXAMPLES


# -- integrators --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scheme:
    """An integrator of the library, and in which form it takes the constrained equations.

    kind  "explicit": index 1, dV/dt from (3); "constraints": M, Q, g, J as they are, the method finds lambda;
          "index-1": an implicit method for the field of index 1
    stabilization  what is done from outside; frequencies are those for steps of 1 ms
    """

    name: str
    kind: str
    method: Any
    order: int
    family: str
    stabilization: str = "none"

    def __repr__(self) -> str:
        return self.name if self.stabilization == "none" else f"{self.name}, {self.stabilization}"

    def stabilized(self, by: str) -> Scheme:
        """The same with a stabilisation."""
        return replace(self, stabilization=by)


def _explicit(name: str, family: str) -> Scheme:
    method = integrators.method_named(name)
    return Scheme(name, "explicit", method, method.order, family)


RKMK, FREE, GROSSMAN = "Runge-Kutta-Munthe-Kaas", "commutator-free", "Crouch-Grossman"
HALF, ALPHA, VARIATIONAL = "half-explicit", "generalized-alpha", "variational"
GAUSS, RADAU = "Gauss", "Radau IIA"
FAMILIES = (RKMK, FREE, GROSSMAN, GAUSS, RADAU, HALF, ALPHA, VARIATIONAL)
BASIC = (
    *(_explicit(f"rkmk{k}", RKMK) for k in (1, 2, 3, 4)),
    _explicit("rkmk45", RKMK), _explicit("rkmk6", RKMK), _explicit("rkmk7", RKMK), _explicit("rkmk8", RKMK),
    *(_explicit(name, FREE) for name in ("cf3", "cf4")),
    *(_explicit(name, GROSSMAN) for name in ("crouch-grossman3", "crouch-grossman4")),
    Scheme("half-explicit4, projected", "constraints", integrators.HalfExplicit(4, project=True), 4, HALF),
    Scheme("generalized-alpha 0.9", "constraints", integrators.GeneralizedAlpha(0.9), 2, ALPHA),
    Scheme("variational", "constraints", integrators.Variational(), 2, VARIATIONAL),
    Scheme("radau5", "constraints", integrators.RadauIIA(5), 5, RADAU),
    Scheme("gauss4", "index-1", integrators.Gauss(4), 4, GAUSS),
)  # fmt: skip
"""Every family, on every example."""
FURTHER = (
    *(
        _explicit(f"rkmk-{name}", RKMK)
        for name in ("ralston", "heun", "ssprk3", "bogacki-shampine", "rk38", "tsitouras", "verner65")
    ),
    _explicit("crouch-grossman2", GROSSMAN),
    Scheme("half-explicit4", "constraints", integrators.HalfExplicit(4), 4, HALF),
    Scheme("implicit-midpoint", "index-1", integrators.Gauss(2), 2, GAUSS),
    Scheme("gauss6", "index-1", integrators.Gauss(6), 6, GAUSS),
)  # fmt: skip
"""More members of these families, on the heavy top."""
REST = (
    Scheme("half-explicit3", "constraints", integrators.HalfExplicit(3), 3, HALF),
    Scheme("generalized-alpha 0.5", "constraints", integrators.GeneralizedAlpha(0.5), 2, ALPHA),
    Scheme("radau1", "constraints", integrators.RadauIIA(1), 1, RADAU),
    Scheme("radau3", "constraints", integrators.RadauIIA(3), 3, RADAU),
)  # fmt: skip
"""What is left, in a full study."""

RK4 = next(s for s in BASIC if s.name == "rkmk4")
MIDPOINT = next(s for s in FURTHER if s.name == "implicit-midpoint")
FEW = tuple(s for s in BASIC if s.name in ("rkmk2", "rkmk4", "rkmk8", "cf4", "crouch-grossman4"))


def schemes(example: Example, full: bool = False) -> tuple[Scheme, ...]:
    """What is run on an example without stabilisation; `full` is every member of every family."""
    if full:
        return (*BASIC, *FURTHER, *REST)
    return (*BASIC, *FURTHER) if example is HEAVY else BASIC


def stabilized_schemes(example: Example, full: bool = False) -> tuple[Scheme, ...]:
    """What is run on an example with each stabilisation."""
    if full:
        return (*(s for s in (*BASIC, *FURTHER) if s.kind == "explicit"), MIDPOINT)
    return (*FEW, MIDPOINT) if example is HEAVY else FEW


# -- runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States of a system over time, and what the paper looks at."""

    system: System
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray

    # g and J V of all joints
    _measured = cached_property(lambda self: self.system.kernel("residuals")(self.t, self.q, self.v))

    def violation(self, joint: str) -> np.ndarray:
        """|g| of a joint over time                                                                     [m]"""
        return np.asarray(np.linalg.norm(self._measured[0][:, self.system.rows[joint]], axis=-1))

    def rate(self, joint: str) -> np.ndarray:
        """|J V| of a joint over time                                                                 [m/s]"""
        return np.asarray(np.linalg.norm(self._measured[1][:, self.system.rows[joint]], axis=-1))

    @property
    def worst(self) -> np.ndarray:
        """The largest violation of all joints over time                                                [m]"""
        return np.max([self.violation(joint) for joint in self.system.rows], axis=0)

    kinetic = cached_property(lambda self: self.system.kinetic_energy(self.q, self.v))
    energy = cached_property(lambda self: self.kinetic + self.system.potential_energy(self.q))

    @property
    def drift(self) -> np.ndarray:
        """(E - E(0)) / T(0)"""
        return np.asarray((self.energy - self.energy[0]) / self.kinetic[0])

    def until(self, t: float) -> Trajectory:
        rows = self.t <= t * (1 + 1e-9)
        return Trajectory(self.system, self.t[rows], self.q[rows], self.v[rows])

    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Attitudes (nt, n, 3, 3) and places (nt, n, 3)."""
        T = self.system.poses(self.q)
        return T[..., :3, :3], T[..., :3, 3]


class Setup:
    """An example on chosen groups, ready to run; what is compiled is kept."""

    def __init__(self, example: Example, groups: str | Sequence[str]) -> None:
        self.example = example
        self.groups = (groups,) * example.bodies if isinstance(groups, str) else tuple(groups)
        self.system, self.v = example.build(self.groups)
        self.q = self.system.guess
        self._flows: dict[Any, Any] = {}
        self._lock = threading.RLock()

    def flow(self, scheme: Scheme) -> Any:
        """The compiled steps. Explicit methods with the same stabilisation share a library."""
        key = self.library(scheme)
        kinds = {"explicit": self._explicit, "index-1": self._collocation, "constraints": self._mechanical}
        with self._lock:
            if key not in self._flows:
                self._flows[key] = kinds[scheme.kind](scheme)
        found = self._flows[key]
        return found[scheme.method] if scheme.kind == "explicit" else found

    def library(self, scheme: Scheme) -> tuple[Any, ...]:
        """What names the library in which the steps of a scheme are."""
        shared = scheme.kind == "explicit" and scheme.method in self._together(scheme.stabilization)
        return scheme.kind, scheme.stabilization, None if shared else scheme.method

    def _together(self, by: str) -> list[Any]:
        """The explicit methods that share a library."""
        run = schemes(self.example) if by == "none" else stabilized_schemes(self.example)
        return [s.method for s in run if s.kind == "explicit"]

    def _explicit(self, scheme: Scheme) -> dict[Any, Flow]:
        """All explicit methods that are run here, with this stabilisation."""
        parts = self.system.parts(stabilization(scheme.stabilization, STEP))
        methods = self._together(scheme.stabilization)
        methods = methods if scheme.method in methods else [scheme.method]
        flows = {
            m: Flow(parts.field, parts.advance, parts.pull, integrators.coefficients(m), after=parts.after)
            for m in methods
        }
        together(list(flows.values()))
        return flows

    def _collocation(self, scheme: Scheme) -> Any:
        """An implicit method for the index-1 field; a projection ends the step."""
        parts = self.system.parts(stabilization(scheme.stabilization, STEP))
        made: Any = cache(parts.field)

        def field(t: Any, y: Array, u: Array) -> Array:
            return made()(t, y, np.zeros(0))

        space = Product(self.system.group, R(self.system.nv))
        flow = scheme.method.field_flow(space, field)
        if parts.after is not None:
            after: Any = parts.after()
            finish = flow.finish
            flow.finish = lambda z, t, h, y, u: after(t + h, finish(z, t, h, y, u), np.zeros(0))
        return flow

    def _mechanical(self, scheme: Scheme) -> Any:
        return scheme.method.flow(**self.system.mechanics())

    def run(self, scheme: Scheme = RK4, dt: float = STEP, t_end: float = 1.0, every: int = 1) -> Trajectory:
        """The motion, every so many steps; of a motion that is lost, what is finite.

        The paper's, RK4 without stabilisation, is run by `simulate`.
        """
        if scheme == RK4:
            try:
                with np.errstate(all="ignore"):
                    run: Any = simulate(
                        self.system, self.q, self.v, t_end=t_end, dt=dt, method=scheme.method,
                        stabilization="none", record_every=every * dt,
                    )  # fmt: skip
            except IntegrationError as error:
                run = error.run  # type: ignore[attr-defined]
            return self._finite(run.t, run.q, run.v)
        return self.timed(scheme, dt, t_end, every, 1)[0]

    def timed(
        self, scheme: Scheme, dt: float, t_end: float, every: int = 1, times: int = 3
    ) -> tuple[Trajectory, float]:
        """The motion by the compiled loop, and the processor time of its steps, the best of so many [s].

        What takes long is not repeated.
        """
        record, seconds = self._steps(scheme, dt, round(t_end / dt), every)
        spent = seconds
        for _ in range(times - 1):
            if spent > PATIENCE:
                break
            again = self._steps(scheme, dt, round(t_end / dt), every)[1]
            seconds, spent = min(seconds, again), spent + again
        t, nq, nv = dt * every * np.arange(len(record)), self.system.nq, self.system.nv
        return self._finite(t, record[:, :nq], record[:, nq : nq + nv]), seconds

    def _finite(self, t: Array, q: Array, v: Array) -> Trajectory:
        finite = np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1)
        rows = len(t) if finite.all() else int(np.argmin(finite))
        return Trajectory(self.system, t[:rows], q[:rows], v[:rows])

    def _steps(self, scheme: Scheme, dt: float, steps: int, every: int) -> tuple[np.ndarray, float]:
        """States (rows, point) by the compiled loop, and the processor time that it took [s]."""
        flow, nq, nv = self.flow(scheme), self.system.nq, self.system.nv
        y = np.concatenate([self.q, self.v])[None]
        if scheme.kind == "constraints":
            y = flow.start(self.q, self.v, 0.0, dt).copy()
        record = np.full((1, steps // every + 1, y.shape[1]), np.nan)
        record[:, 0] = y
        record[:, 0, nq : nq + nv] = self.v
        failed, nothing = np.zeros(1, np.int64), np.zeros((1, 1, 0))
        flow.steps(y.copy(), nothing, 0.0, dt, 0, 1, record, 1, failed)  # compiles
        before = time.thread_time()
        flow.steps(y, nothing, 0.0, dt, steps, every, record, 1, failed)
        seconds = time.thread_time() - before
        if failed[0]:
            record[:, failed[0] - 1 :] = np.nan
        return record[0], seconds


PATIENCE = 0.03  # s


@cache
def setup(example: Example, groups: str | tuple[str, ...]) -> Setup:
    """The setup of an example on these groups, made once."""
    return Setup(example, groups)


def prepare(jobs: Iterable[tuple[Setup, Scheme]]) -> list[Future[Any]]:
    """Start to compile for all jobs, side by side, as compilers are other processes; long ones come first."""
    wanted = {(place, place.library(scheme)): scheme for place, scheme in jobs}
    dear = {RADAU: 0, GAUSS: 1, HALF: 2}
    ordered = sorted(wanted.items(), key=lambda job: dear.get(job[1].family, 3))
    pool = ThreadPoolExecutor(max_workers=1 + (os.cpu_count() or 1))
    pending = [pool.submit(place.timed, scheme, STEP, STEP, times=1) for (place, _), scheme in ordered]
    pool.shutdown(wait=False)
    return pending


# -- references ---------------------------------------------------------------------------------------------


@cache
def reference(example: Example, t_end: float) -> tuple[np.ndarray, np.ndarray]:
    """Attitudes (n, 3, 3) and places (n, 3) at t_end, by other equations than those under test.

    The top: Euler's equations about the pivot with quaternions in R^7, by DOP853 with rtol = 1e-13, as the
    paper did with less. The others: joint coordinates, by a method of order 8 with steps of 0.1 ms: recursive
    forward dynamics of a tree, and a tree with one closed loop, projected.
    """
    system, v0 = example.build(["SE3"] * example.bodies)
    if example is HEAVY:
        Q, _ = _euler(t_end)
        R_ = np.asarray(SO3.element(Q), float)
        return R_[None], (R_ @ ARM)[None]
    grounded = example is not FLOATING
    tree = _pair_tree(grounded, example.close_at)
    poses, twists = system.poses(system.guess), system.twists(system.guess, v0)
    R1, R2 = poses[:, :3, :3]
    q = [SO3.coordinates(R1) if grounded else SE3.coordinates(poses[0]), SO3.coordinates(R1.T @ R2)]
    v = [twists[0, :3] if grounded else twists[0], twists[1, :3] - R2.T @ R1 @ twists[0, :3]]
    mechanism: Any = Robot(tree, example.gravity)
    if example.close_at is not None:
        mechanism = ClosedTree(tree, [Closure("j3", Spherical(), "D", "end")], example.gravity)
    run = simulate(
        mechanism, np.concatenate(q).astype(float), np.concatenate(v), t_end=t_end, dt=1e-4, method="rkmk8",
        record_every=t_end,
    )  # fmt: skip
    poses = body_poses(tree, run.q[-1]).astype(float)
    com = np.array([[0.1 if grounded else 0.0, 0, 0], [0.1, 0, 0]])
    return poses[:, :3, :3], np.einsum("nij,nj->ni", poses[:, :3, :3], com) + poses[:, :3, 3]


@cache
def _euler(t_end: float) -> tuple[np.ndarray, np.ndarray]:
    """Quaternion and angular velocity of the top at t_end."""
    moments = np.array([0.36, 0.306, 0.09]) + 21.6 * 0.25 * np.array([0, 1, 1])

    def rate(t: float, y: Array) -> Array:
        p, w = y[:4], y[4:]
        dp = 0.5 * np.concatenate([[-p[1:] @ w], p[0] * w + np.cross(p[1:], w)])
        return np.concatenate([dp, -np.cross(w, moments * w) / moments])

    y0 = np.concatenate([[1.0, 0, 0, 0], TOP_TURN])
    y = integrators.solve_ivp(rate, (0, t_end), y0, R(7), "rkmk8", rtol=1e-13, atol=1e-13).q[-1]
    return y[:4] / np.linalg.norm(y[:4]), y[4:]


def errors(trajectory: Trajectory, example: Example) -> tuple[float, float]:
    """The largest entries of |R - R_ref| and of |r - r_ref| [m] at the end."""
    R_ref, r_ref = reference(example, float(round(trajectory.t[-1], 9)))
    R_, r = trajectory.poses()
    return float(np.abs(R_[-1] - R_ref).max()), float(np.abs(r[-1] - r_ref).max())


# -- variants of the top on SE(3), literally ----------------------------------------------------------------


def printed_exponential(w: Array) -> Array:
    """(9) as printed: (1 - cos |w|)/|w|, not over |w|^2."""
    angle, W = sqrt(w @ w), skew(w)
    return np.eye(3, dtype=int) + sin(angle) / angle * W + (1 - cos(angle)) / angle * (W @ W)


def printed_translation(w: Array, v: Array, turn: Array) -> Array:
    """p of (8): (1 - exp w) (w x v)/|w|^2 + h w, h = w . v/|w|^2."""
    x = w @ w
    return (np.eye(3, dtype=int) - turn) @ cross(w, v) / x + (w @ v) / x * w


def printed_dexp_inverse(u: Array) -> Array:
    """(10) as printed: Selig's quartic, in numbers."""
    angle = np.linalg.norm(u[:3])
    ad = np.asarray(SE3.ad(u), float)
    with np.errstate(all="ignore"):
        s, c = np.sin(angle), np.cos(angle)
        second = 2 / angle**2 + (angle + 3 * s) / (4 * angle * (c - 1))
        fourth = 1 / angle**4 + (angle + s) / (4 * angle**3 * (c - 1))
        return np.eye(6) - ad / 2 + second * ad @ ad + fourth * ad @ ad @ ad @ ad


JACOBIANS = {
    # J is ([a], 1), eta = sign (w x (w x b) - w x v): where a and b come from, and the sign
    "(40)": ("r0", "r0", -1),
    "(53)": ("r0", "r0", 1),
    "(39) literally": ("moving", "r0", -1),
    "R^T r in J and eta": ("moving", "moving", -1),
    "J of (39), eta of (53)": ("moving", "r0", 1),
}


@cache
def _top_flow(constraint: str, pull: str, exponential: str) -> Flow:
    Theta, m, r0 = np.diag([0.36, 0.306, 0.09]), 21.6, ARM
    inverse = np.linalg.inv(Theta)
    in_J, in_eta, sign = JACOBIANS[constraint]

    def field(t: Any, y: Array, u: Array) -> Array:
        R_, r, w, v = np.reshape(y[:9], (3, 3)), y[9:12], y[12:15], y[15:]
        arm = {"r0": r0, "moving": R_.T @ r}
        a, b = arm[in_J], arm[in_eta]
        J = np.concatenate([skew(a), np.eye(3, dtype=int)], axis=1)
        free = np.concatenate([inverse @ -cross(w, Theta @ w), -cross(w, v)])
        eta = sign * (cross(w, cross(w, b)) - cross(w, v))
        back = np.concatenate([inverse @ J[:, :3].T, J[:, 3:].T / m])
        return np.concatenate([w, v, free - back @ solve(J @ back, J @ free - eta)])

    def advance(y: Array, psi: Array) -> Array:
        R_, r, w, v = np.reshape(y[:9], (3, 3)), y[9:12], psi[:3], psi[3:6]
        if exponential == "printed":
            turn = printed_exponential(w)
            shift = printed_translation(w, v, turn)
        else:
            turn, shift = SE3.parts(SE3.exp(psi[:6]))
        return np.concatenate([(R_ @ turn).reshape(-1), r + R_ @ shift, y[12:] + psi[6:]])

    def pulled(psi: Array, f: Array) -> Array:
        x, V = psi[:6], f[:6]
        ad = SE3.ad(x)
        k = {
            "dexp^-1": lambda: SE3.dexp_inverse_times(-x, V),
            "none": lambda: V,
            "wrong sign": lambda: SE3.dexp_inverse_times(x, V),
            "1 + ad/2": lambda: V + 0.5 * (ad @ V),
            "1 + ad/2 + ad^2/12": lambda: V + 0.5 * (ad @ V) + ad @ (ad @ V) / 12,
        }[pull]()
        return np.concatenate([k, f[6:]])

    def program(function: Callable[..., Any], **inputs: Any) -> Callable[[], Any]:
        return lambda: trace(function, inputs, function.__name__)

    parts = program(field, t=(), y=18, u=0), program(advance, y=18, psi=12), program(pulled, psi=12, f=12)
    return Flow(*parts, integrators.coefficients(RK4.method))


@dataclass(frozen=True, eq=False)
class TopMotion:
    """A motion of the top on SE(3) by chosen formulas; R (nt, 3, 3) is a matrix that nobody repairs."""

    t: np.ndarray
    R: np.ndarray
    r: np.ndarray
    V: np.ndarray

    @property
    def pivot(self) -> np.ndarray:
        """|r - R r0|                                                                                   [m]"""
        return np.asarray(np.linalg.norm(self.r - self.R @ ARM, axis=-1))

    @property
    def drift(self) -> np.ndarray:
        """(T - T(0)) / T(0)"""
        T = 0.5 * ((self.V[:, :3] ** 2 @ [0.36, 0.306, 0.09]) + 21.6 * (self.V[:, 3:] ** 2).sum(axis=-1))
        return np.asarray((T - T[0]) / T[0])

    @property
    def orthogonality(self) -> np.ndarray:
        """The largest entry of |R R^T - 1|"""
        return np.abs(self.R @ np.swapaxes(self.R, -1, -2) - np.eye(3)).max(axis=(-2, -1))


def top_motion(
    t_end: float = 1.0, h: float = STEP, constraint: str = "(40)", pull: str = "dexp^-1",
    exponential: str = "right",
) -> TopMotion:  # fmt: skip
    """The top by RK4 with the chosen acceleration constraint, inverse of dexp and exponential."""
    flow, steps = _top_flow(constraint, pull, exponential), round(t_end / h)
    y = np.concatenate([np.eye(3).reshape(-1), ARM, TOP_TURN, np.cross(TOP_TURN, ARM)])[None]
    record, failed = np.empty((1, steps + 1, 18)), np.zeros(1, np.int64)
    record[:, 0] = y
    flow.steps(y.copy(), np.zeros((1, 1, 0)), 0.0, h, steps, 1, record, 1, failed)
    states = record[0]
    turn = states[:, :9].reshape(-1, 3, 3)
    return TopMotion(h * np.arange(steps + 1), turn, states[:, 9:12], states[:, 12:])


def attitude_error(motion: TopMotion) -> float:
    """The largest entry of |R - R_ref| at the end."""
    Q, _ = _euler(float(round(motion.t[-1], 9)))
    return float(np.abs(motion.R[-1] - np.asarray(SO3.element(Q), float)).max())
