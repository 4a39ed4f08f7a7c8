"""ANYmal trots in a simulation, and a filter finds from its sensors where it is and how sure of that it is.

    python examples/invariant_filter.py [invariant_filter.png]

The simulation is that of anymal_trots.py: stiff ground, impacts, feet that slip. From it come what sensors
measure every 5 ms: the turn and the change of velocity over the step, the angles of the joints, and which
feet carry more than 20 N. Each of 200 runs adds noise and biases of its own, and starts from an estimate
that is off by 6 degrees and 0.2 m/s. `liebody.control.InvariantFilter` follows them all at once:

    with its legs    contacts come and go with the trot
    IMU alone        the same filter, if no foot is said to touch
"""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise
from typing import Any

import numpy as np

import liebody as lb
from liebody.contact import Contact, TimeStepping
from liebody.control import FilterNoise, InvariantFilter
from liebody.groups import SO3, quaternions, rotations
from liebody.hybrid import JointPD

FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)
LIFT = np.array([0, 0.35, -0.7] * 2 + [0, -0.35, 0.7] * 2)  # at the top of a step, rad
PAIR = np.repeat([0, 1, 1, 0], 3)  # LF and RH, RF and LH
PACE, END, DT = 2.0, 5.0, 5e-3  # Hz, s, s
WEIGHT = 20.0  # N, of a foot that touches

NOISE = FilterNoise(
    gyroscope=2e-3,
    accelerometer=2e-2,
    gyroscope_bias=1e-4,
    accelerometer_bias=1e-3,
    encoder=1e-3,
    contact=0.02,  # feet slip at touch-down
)
DEVIATION = np.repeat([np.radians(6), 0.2, 0.01, 0.005, 0.05], 3)  # theta, v, p, b_g, b_a


def trot(robot: lb.Robot):
    """A run of ANYmal, and which feet touch at its times."""
    q0 = np.concatenate([robot.neutral()[:7], POSE])
    q0[6] = -min(robot.pose(q0, frame=foot)[2, 3] for foot in FEET)
    times = np.linspace(0, END, 501)
    phase = PACE * (times - 0.5)[:, None] + 0.5 * PAIR
    pattern = POSE + (times > 0.5)[:, None] * LIFT * np.maximum(np.sin(2 * np.pi * phase), 0)
    drives = JointPD(K=400.0, q_des=POSE, D=10.0)
    floor = Contact(*FEET, stiffness=1e6, damping=1e4, friction=0.8)
    system = TimeStepping(robot, drives, floor, ledger=False)
    run = system.simulate(
        q0, t_end=END, dt=1e-3, record_every=DT, hold="linear", sampled={"pd_q_des": (times, pattern)}
    )
    return run, run.outputs["floor_force"][..., 2] > WEIGHT


def sensors(run, gravity, runs: int, rng):
    """Gyroscope and accelerometer, joints (steps, runs, ...), and the true biases (steps + 1, runs, 6)."""
    R = rotations(run.q[:, :4])
    v = np.einsum("kij,kj->ki", R, run.v[:, 3:6])
    turns = np.array([SO3.log(a.T @ b) for a, b in pairwise(R)])
    # the constant specific force with the same change of velocity: v' = v + g dt + R dexp(u) f dt
    changes = np.diff(v, axis=0) / DT - gravity
    forces = [np.linalg.solve(SO3.dexp(u), A.T @ a) for A, u, a in zip(R, turns, changes, strict=False)]

    def draw(deviation, *shape):
        return deviation * rng.standard_normal(shape)

    steps = len(turns)
    walks = np.repeat([float(NOISE.gyroscope_bias), float(NOISE.accelerometer_bias)], 3) * np.sqrt(DT)
    drifts = np.concatenate([draw(DEVIATION[9:], 1, runs, 6), draw(walks, steps, runs, 6)])
    biases = np.cumsum(drifts, axis=0)
    gyroscope = (
        (turns / DT)[:, None] + biases[:-1, :, :3] + draw(NOISE.gyroscope / np.sqrt(DT), steps, runs, 3)
    )
    accelerometer = np.array(forces)[:, None] + biases[:-1, :, 3:]
    accelerometer = accelerometer + draw(NOISE.accelerometer / np.sqrt(DT), steps, runs, 3)
    joints = run.q[1:, None, 7:] + draw(NOISE.encoder, steps, runs, run.q.shape[1] - 7)
    return gyroscope, accelerometer, joints, biases


def main(path: str | None = None, runs: int = 200) -> dict[str, dict[str, Any]]:
    warnings.simplefilter("ignore")
    robot = lb.load("anymal_c_simple", floating=True)
    run, touching = trot(robot)
    rng = np.random.default_rng(0)
    gyroscope, accelerometer, joints, biases = sensors(run, robot.gravity_vector, runs, rng)

    # the start: the truth, less errors of these deviations
    estimator = InvariantFilter(robot, FEET, noise=NOISE)
    e = DEVIATION * rng.standard_normal((runs, 15))
    R = np.array([SO3.exp(-theta) for theta in e[:, :3]]) @ rotations(run.q[0, :4])
    q = np.concatenate([quaternions(R), run.q[0, 4:7] - e[:, 6:9], np.tile(run.q[0, 7:], (runs, 1))], axis=-1)
    v = np.zeros((runs, robot.nv))
    v[:, 3:6] = np.einsum("nji,nj->ni", R, -e[:, 3:6])
    start = estimator.start(q, v, np.diag(DEVIATION**2))

    found = {}
    for name, legs in (("with its legs", touching), ("IMU alone", np.zeros_like(touching))):
        state = start
        rows = []
        for k in range(len(run.t)):
            if k:
                state = estimator.step(
                    state, gyroscope[k - 1], accelerometer[k - 1], joints[k - 1], legs[k], DT, threads=2
                )
            off = rotations(run.q[k, :4]) @ np.swapaxes(rotations(state.q[:, :4]), -1, -2)
            theta = np.array([SO3.log(x) for x in off])
            rows.append(
                {
                    "nees": state.nees(run.q[k], run.v[k, :6], biases[k]) / 15,
                    "tilt": np.linalg.norm(theta[:, :2], axis=-1),
                    "speed": np.linalg.norm(state.twist[:, 3:] - run.v[k, 3:6], axis=-1),
                    "place": np.linalg.norm(state.q[:, 4:7] - run.q[k, 4:7], axis=-1),
                    "known": np.sqrt(np.trace(state.covariance[:, 6:9, 6:9], axis1=1, axis2=2)),
                }
            )
        found[name] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        found[name]["t"] = run.t
        tilt, speed, place, known = (
            np.sqrt(np.mean(found[name][key][-1] ** 2)) for key in ("tilt", "speed", "place", "known")
        )
        print(
            f"{name:14} after {END} s: roll and pitch {np.degrees(tilt):.2f} deg, velocity {speed:.3f} m/s, "
            f"place {100 * place:.1f} cm ({100 * known:.1f} by P); "
            f"e^T P^-1 e / 15: {found[name]['nees'][-1].mean():.2f}"
        )
    if path:
        draw(path, found)
    return found


def draw(path: str, found: dict[str, dict[str, Any]]) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for i, (name, x) in enumerate(found.items()):
        tilt = np.degrees(np.sqrt(np.mean(x["tilt"] ** 2, axis=1)))
        left.semilogy(x["t"], tilt, color=f"C{i}", label=name)
        place, known = (np.sqrt(np.mean(x[key] ** 2, axis=1)) for key in ("place", "known"))
        right.semilogy(x["t"], place, color=f"C{i}", label=name)
        right.semilogy(x["t"], known, "--", color=f"C{i}", label="by its covariance")
    ticks = [0.5, 1, 2, 5, 10]
    left.set_yticks(ticks, [f"{x:g}" for x in ticks], minor=False)
    left.minorticks_off()
    left.set(xlabel="t [s]", ylabel="error of roll and pitch, rms [deg]")
    right.set(xlabel="t [s]", ylabel="error of the place, rms [m]")
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
