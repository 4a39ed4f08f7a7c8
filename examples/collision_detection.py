"""A robot feels where it is hit, without force sensors: the momentum observer of De Luca and Mattone (2005).

    python examples/collision_detection.py [picture.png]

The generalized momentum p = M v changes at the rate dp/dt = tau + C^T v - g + tau_ext, because dM/dt = C
+ C^T. Everything except tau_ext is measured or known. So the residual

    r = K (p - p(0) - int (tau + C^T v - g + r) dt)    obeys    dr/dt = K (tau_ext - r):

It estimates the external efforts through a low-pass filter, without accelerations and without inverting
M. A force on link i turns only the joints 1 to i, so the last joint with a residual beyond its threshold
identifies the link.

A Puma 560 without friction follows a motion and is hit four times. The observer gets samples of q, v and
tau at 1 kHz. v has noise, and the masses of its model are 2 % too large. The thresholds are 1.5 times the
residual that these errors cause on the same motion without hits. A higher K detects faster, as long as
noise does not determine the thresholds.

A force whose line meets the axis of joint i, or is parallel to it, does not turn this joint. Then the
observer names a link before i. The last lines of the output say how often.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import liebody as lb
from liebody import dynamics, scalars
from liebody.compiler import Kernel, trace

Array = Any
DT = 1e-3  # of the samples [s]
STEP = 2.5e-4  # of the simulation [s]
NOISE = 1e-3  # of the velocities measured, standard deviation [rad/s]
MARGIN = 1.5  # of the thresholds
SMALLEST = 0.02  # threshold: accuracy of the efforts [N m]
OBSERVER = 50.0  # K [1/s]
OBSERVERS = (15.0, 25.0, 35.0, 50.0, 75.0, 100.0, 150.0, 250.0)
STIFFNESS, SLOPE = 20.0, 5.0  # of the controller [1/s]
AMPLITUDE, SPEED, PHASE = 0.6, np.array([1.0, 1.3, 1.6, 2.0, 2.3, 2.6]), np.arange(6.0)


class Hit(NamedTuple):
    """A force on a link, a half sine in time, at a point and in a direction fixed in the link's frame.

    link   its number, from 1
    point  (3,) [m];  force  at its peak (3,) [N];  start, duration  [s]
    """

    link: int
    point: tuple[float, float, float]
    force: tuple[float, float, float]
    start: float
    duration: float = 0.1

    @property
    def end(self) -> float:
        return self.start + self.duration


HITS = (
    Hit(3, (0.02, 0.25, 0.15), (60, 0, 0), 0.5),  # on the forearm, which link 3 carries along its y
    Hit(2, (0.25, 0.0, 0.1), (0, 60, 0), 1.0),  # on the upper arm
    Hit(6, (0.05, 0.0, 0.06), (0, 40, 0), 1.5),  # beside the flange
    Hit(4, (0.06, 0.0, 0.35), (0, 40, 0), 2.0),  # on the wrist
)


def desired(t: Any) -> tuple[Array, Array, Array]:
    """q_d, v_d, a_d."""
    x = SPEED * t + PHASE
    return (
        AMPLITUDE * scalars.sin(x),
        AMPLITUDE * SPEED * scalars.cos(x),
        -AMPLITUDE * SPEED**2 * scalars.sin(x),
    )


def control(tree: lb.Tree) -> Any:
    """tau(t, q, v): passivity-based tracking, M a_r + C v_r + g - K s."""
    K = STIFFNESS * np.diag(dynamics.mass_matrix(tree, tree.group.neutral())).astype(float)

    def tau(t: Any, q: Array, v: Array) -> Array:
        q_d, v_d, a_d = desired(t)
        v_r, a_r = v_d - SLOPE * (q - q_d), a_d - SLOPE * (v - v_d)
        return dynamics.passive_inverse_dynamics(tree, q, v, v_r, a_r) - K * (v - v_r)

    return tau


def external(tree: lb.Tree, hits: tuple[Hit, ...]) -> Any:
    """tau_ext(t, q) = sum of J^T F."""

    def tau(t: Any, q: Array) -> Array:
        total = np.zeros(tree.nv, int)
        for hit in hits:
            phase = scalars.minimum(scalars.maximum((t - hit.start) / hit.duration, 0.0), 1.0)
            wrench = np.concatenate([np.cross(hit.point, hit.force), hit.force])
            J = dynamics.frame_jacobian(tree, q, tree.bodies[hit.link - 1].name)
            total = total + scalars.sin(np.pi * phase) * (J.T @ wrench)
        return total

    return tau


class Samples(NamedTuple):
    """t (n,) [s]; q, v, the controller's efforts tau and the hits' tau_ext, (n, 6)."""

    t: Array
    q: Array
    v: Array
    tau: Array
    tau_ext: Array


def simulate(robot: lb.Robot, hits: tuple[Hit, ...], t_end: float, dt: float = DT) -> Samples:
    """The arm under control, hit, without friction; arm, controller and hits are one compiled loop."""
    law, push = control(robot.tree), external(robot.tree, hits)
    q_d, v_d, _ = desired(0.0)
    run = lb.simulate(
        robot,
        q_d,
        v_d,
        t_end=t_end,
        dt=STEP,
        record_every=dt,
        tau=lambda t, q, v: law(t, q, v) + push(t, q),
        joints={"armature"},
    )
    efforts = Kernel(trace(lambda t, q, v: (law(t, q, v), push(t, q)), {"t": (), "q": 6, "v": 6}, "efforts"))
    return Samples(run.t, run.q, run.v, *efforts(run.t, run.q, run.v))


def low_pass(impulses: Array, dt: float, gain: float) -> Array:
    """r at all samples for dr/dt = gain (x - r), r(0) = 0, from the integrals of x between samples.

    It is exact where x does not change between them.
    """
    keep, r = np.exp(-gain * dt), [np.zeros(impulses.shape[1])]
    for impulse in impulses:
        r.append(keep * r[-1] + (1 - keep) / dt * impulse)
    return np.array(r)


def integrals(x: Array, dt: float) -> Array:
    return dt * (x[1:] + x[:-1]) / 2


def residual(model: lb.Robot, q: Array, v: Array, tau: Array, dt: float, gain: float) -> Array:
    """r (n, 6) from samples: the momentum gained beyond what the model's efforts explain, filtered."""
    p = np.einsum("tij,tj->ti", model.mass_matrix(q), v)
    explained = tau + model.coriolis_transpose_times(q, v) - model.gravity(q)
    return low_pass(np.diff(p, axis=0) - integrals(explained, dt), dt, gain)


class Detection(NamedTuple):
    """Delay from a hit's start to the first residual beyond its threshold [s], and the link that is named."""

    delay: float
    link: int


def detect(t: Array, r: Array, threshold: Array, hit: Hit) -> Detection | None:
    """The detection while the hit lasts; None if no residual passes its threshold."""
    beyond = (np.abs(r) > threshold) & ((t > hit.start) & (t <= hit.end))[:, None]
    if not beyond.any():
        return None
    return Detection(t[beyond.any(axis=1)][0] - hit.start, int(np.flatnonzero(beyond.any(axis=0))[-1]) + 1)


def heavier(tree: lb.Tree, factor: float) -> lb.Tree:
    """The same tree with all masses and inertias scaled."""
    return replace(
        tree,
        bodies=tuple(
            replace(
                b,
                inertia=lb.SpatialInertia(
                    factor * b.inertia.mass, b.inertia.com, factor * b.inertia.rotational
                ),
            )
            for b in tree.bodies
        ),
    )


class Observed(NamedTuple):
    """Residuals (n, 6) and thresholds (6,) [N m], the detection of each hit, and the number of false alarms.

    A false alarm is a residual beyond its threshold before the first hit.
    """

    r: Array
    threshold: Array
    detections: list[Detection | None]
    false_alarms: int


def observe(believed: lb.Robot, hit: Samples, free: Samples, gain: float, noise: float) -> Observed:
    """The observer of a gain, with thresholds from the motion without hits."""
    rng = np.random.default_rng(0)
    r, r_free = (
        residual(believed, x.q, x.v + noise * rng.standard_normal(x.v.shape), x.tau, DT, gain)
        for x in (hit, free)
    )
    threshold = np.maximum(MARGIN * np.abs(r_free).max(axis=0), SMALLEST)
    alarms = np.abs(r[hit.t < HITS[0].start]) > threshold
    return Observed(r, threshold, [detect(hit.t, r, threshold, x) for x in HITS], int(alarms.sum()))


def named(robot: lb.Robot, threshold: Array, force: float = 50.0, samples: int = 2000) -> Array:
    """How often (n, 1 + n) a steady force on link i makes link j known; 0 for none.

    Configurations and directions are random, points are 5 cm around the line from a joint to the next.
    """
    rng, bodies = np.random.default_rng(1), robot.tree.bodies
    shares = np.zeros((len(bodies), 1 + len(bodies)))
    for i, body in enumerate(bodies):
        following = bodies[i + 1].placement[:3, 3] if i + 1 < len(bodies) else np.zeros(3)
        point = rng.random((samples, 1)) * following + 0.05 * _directions(rng, samples)
        F = force * _directions(rng, samples)
        wrench = np.concatenate([np.cross(point, F), F], axis=1)
        J = robot.jacobian(robot.random(rng, samples), body.name)
        beyond = np.abs(np.einsum("tki,tk->ti", J, wrench)) > threshold
        last = np.where(beyond, np.arange(1, 1 + robot.nv), 0).max(axis=1)
        shares[i] = np.bincount(last, minlength=1 + robot.nv) / samples
    return shares


def _directions(rng: np.random.Generator, n: int) -> Array:
    x = rng.standard_normal((n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class Result(NamedTuple):
    """The results of `main`.

    The samples; r of the exact model without noise, and tau_ext through the same filter; observers by their
    (noise, gain); which links are named, see `named`.
    """

    samples: Samples
    exact: Array
    filtered: Array
    observers: dict[tuple[float, float], Observed]
    named: Array


def main(picture: str | None = None, gains: tuple[float, ...] = OBSERVERS) -> Result:
    robot = lb.models.puma560()
    believed = lb.Robot(heavier(robot.tree, 1.02))
    t_end = HITS[-1].end + 0.4
    hit, free = simulate(robot, HITS, t_end), simulate(robot, (), t_end)

    exact = residual(robot, hit.q, hit.v, hit.tau, DT, OBSERVER)
    filtered = low_pass(integrals(hit.tau_ext, DT), DT, OBSERVER)
    difference, largest = np.abs(exact - filtered).max(), np.abs(filtered).max()
    print(f"exact model, no noise: r is tau_ext filtered, to {difference:.4f} N m of {largest:.1f} N m")

    observers = {
        (noise, gain): observe(believed, hit, free, gain, noise) for noise in (0.0, NOISE) for gain in gains
    }
    chosen = observers[NOISE, OBSERVER]
    print(f"masses 2 % wrong, noise {NOISE} rad/s, K = {OBSERVER:g}/s: {chosen.false_alarms} false alarms")
    print("thresholds", chosen.threshold.round(2), "N m")
    for x, found in zip(HITS, chosen.detections, strict=True):
        told = f"link {found.link} after {1e3 * found.delay:.0f} ms" if found else "nothing"
        print(f"  hit on link {x.link} at {x.start} s: {told}")
    print("mean delay [ms] at K = " + " ".join(f"{gain:5g}" for gain in gains) + " /s")
    for noise in (0.0, NOISE):
        delays = " ".join(f"{1e3 * mean_delay(observers[noise, gain]):5.1f}" for gain in gains)
        print(f"  noise {noise:5g} rad/s:     {delays}")
    shares = named(robot, chosen.threshold)
    print("steady 50 N on a link, in random directions: the link named is")
    for i, row in enumerate(shares):
        right, before = row[i + 1], row[1 : i + 1].sum()
        print(f"  link {i + 1}: the right one {right:4.0%}, one before {before:4.0%}, none {row[0]:4.0%}")
    if picture:
        draw(hit, observers, gains, picture)
    return Result(hit, exact, filtered, observers, shares)


def mean_delay(observed: Observed) -> float:
    """The mean delay of all hits [s]; NaN if one was not detected."""
    return float(np.mean([x.delay if x else np.nan for x in observed.detections]))


def draw(
    hit: Samples, observers: dict[tuple[float, float], Observed], gains: tuple[float, ...], picture: str
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    r, threshold, detections, _ = observers[NOISE, OBSERVER]
    figure = plt.figure(figsize=(12, 8), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.3, 1))
    for i, axes in enumerate(left.subplots(6, 1, sharex=True)):
        axes.axhspan(-threshold[i], threshold[i], color="C2", alpha=0.25, lw=0)
        axes.plot(hit.t, hit.tau_ext[:, i], color="0.6", lw=1)
        axes.plot(hit.t, r[:, i], color="C0", lw=1)
        for x, found in zip(HITS, detections, strict=True):
            axes.axvspan(x.start, x.end, color="C1", alpha=0.15, lw=0)
            if i == 0:
                told = f"hit: {x.link}\nnamed: {found.link if found else 'none'}"
                axes.annotate(told, (x.start, 1.05), xycoords=("data", "axes fraction"), fontsize="small")
        axes.set_ylabel(f"$r_{i + 1}$ [N m]")
        axes.grid(alpha=0.3)
    axes.set_xlabel("t [s]")
    left.suptitle("Residuals (blue), efforts of the hits (grey), thresholds (green)", fontsize="medium")

    top, bottom = right.subplots(2, 1)
    x, found = HITS[1], detections[1]
    i = x.link - 1
    near = (hit.t > x.start - 0.02) & (hit.t < x.end + 0.08)
    ms = 1e3 * (hit.t[near] - x.start)
    top.plot(ms, np.abs(hit.tau_ext[near, i]), color="0.6", label=r"$|\tau_{ext,2}|$")
    top.plot(ms, np.abs(r[near, i]), color="C0", label="$|r_2|$")
    top.axhline(threshold[i], color="C2", label="threshold")
    if found:
        top.axvline(1e3 * found.delay, color="C3", ls=":", label=f"felt after {1e3 * found.delay:.0f} ms")
    top.set(
        xlabel="time since the hit on link 2 [ms]", ylabel="[N m]", title=f"The delay, K = {OBSERVER:g}/s"
    )
    for noise, color in ((0.0, "0.4"), (NOISE, "C0")):
        delays = [1e3 * mean_delay(observers[noise, gain]) for gain in gains]
        bottom.semilogx(gains, delays, "o-", color=color, label=f"noise of v: {noise:g} rad/s")
    bottom.set(
        xlabel="gain K of the observer [1/s]", ylabel="mean delay [ms]", title="A higher gain, a lower delay?"
    )
    bottom.set_ylim(bottom=0)
    bottom.set_xticks(gains, [f"{gain:g}" for gain in gains])
    bottom.minorticks_off()
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(picture, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:2])
