"""Weigh the trunk of a walking quadruped by its feet: mass, centre and inertia, from contact-rich motion.

    python examples/trunk_of_a_quadruped.py [measurements]

ANYmal trots in place with a load on its back, which nobody knows. Diagonal pairs of feet lift in turn and
land, on smooth compliant ground. The motion and the forces at the feet are recorded at 200 Hz; the forces
have noise of 2 N. No motor is measured. In the six rows of the floating base no motor acts: there the forces
of the feet alone explain the motion, and these rows are linear in the ten parameters of the trunk.

The noise of one force enters all six rows, so these are weighed by their covariance (`contact_noise`). 500
measurements of the same walk, each with its own noise, are one call. Intervals of 95 % should contain the
true values 95 times out of 100.
"""

from __future__ import annotations

import sys

import numpy as np

import liebody as lb
from liebody.identification import LinearFits, linear
from liebody.mechanisms import SmoothContact
from liebody.scalars import maximum, sin

FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
POSE = np.array([0, 0.4, -0.8] * 2 + [0, -0.4, 0.8] * 2)  # the hind legs bend the other way
LIFT = np.array([0, 0.35, -0.7] * 2 + [0, -0.35, 0.7] * 2)  # of the joints, at the top of a step, rad
PAIR = np.repeat([0, 1, 1, 0], 3)  # LF and RH, RF and LH
PACE = 1.7  # whole cycles a second
STIFFNESS, DAMPING = 300.0, 8.0  # of the drives, N m/rad, N m s/rad
LOAD = lb.SpatialInertia.box(6.0, [0.3, 0.2, 0.2], com=[0.15, 0.03, 0.15])
GROUND = SmoothContact(FEET, stiffness=3e4, friction=0.8)
NOISE = 2.0  # of each force, N
RATE, DURATION = 200, 3.0  # Hz, s
NORMAL = 1.959964  # of intervals of 95 %
INERTIAL = ("mass", "center", "inertia")


def trot(t, q, v):
    """Efforts: the joints follow a pattern, without feedback from the base."""
    wave = maximum(np.array([sin(2 * np.pi * (PACE * t + 0.5 * pair)) for pair in PAIR]), 0.0)
    u = STIFFNESS * (POSE + LIFT * wave - q[7:]) - DAMPING * v[6:]
    return np.concatenate([np.zeros(6, int), u])


def recorded(robot: lb.Robot):
    """A walk: q, v, accelerations, and the forces at the feet in the world's axes, {foot: (n, 3)}."""
    q0 = np.concatenate([robot.neutral()[:7], POSE])
    q0[6] = -min(robot.pose(q0, frame=foot)[2, 3] for foot in FEET)
    run = lb.simulate(
        robot, q0, t_end=DURATION, dt=5e-4, record_every=1 / RATE, tau=trot, forces=[GROUND], joints="ideal"
    )
    q, v = run.q, run.v
    forces, efforts = {}, np.array([trot(*state) for state in zip(run.t, q, v, strict=True)])
    for foot in FEET:
        J = robot.jacobian(q, foot, "mixed")[:, 3:]
        at, moving = robot.pose(q, frame=foot)[:, :3, 3], np.einsum("nij,nj->ni", J, v)
        forces[foot] = np.array([GROUND.force(*state) for state in zip(at, moving, strict=True)], float)
        efforts = efforts + np.einsum("nij,ni->nj", J, forces[foot])
    return q, v, robot.forward_dynamics(q, v, efforts), forces


def main(measurements: int = 500) -> tuple[LinearFits, dict[str, np.ndarray], dict[str, np.ndarray]]:
    believed = lb.load("anymal_c_simple", floating=True).with_joints("ideal")
    loaded = believed.with_payload("base", LOAD)
    q, v, a, forces = recorded(loaded)
    tau = np.full(v.shape, np.nan)  # nobody measures the motors
    tau[:, :6] = 0.0
    noise = np.r_[np.zeros(6), np.ones(12)]
    rng = np.random.default_rng(0)
    sensed = {
        foot: force + NOISE * rng.normal(size=(measurements, *force.shape)) for foot, force in forces.items()
    }
    found = linear(
        believed, q, v, a, tau, "base", noise=noise, contacts=sensed, contact_noise=dict.fromkeys(FEET, NOISE)
    )

    true = {f"base.{kind}": np.ravel(loaded.parameters[f"base.{kind}"].value) for kind in INERTIAL}
    inside = []
    print(f"{'':14} {'believed':>9} {'true':>9} {'one measurement':>21}   inside")
    for name, values in true.items():
        before = np.ravel(believed.parameters[name].value)
        estimates, deviations = (
            np.reshape(x[name], (measurements, -1)) for x in (found.values, found.deviations)
        )
        hits = np.abs(estimates - values) < NORMAL * deviations
        inside.append(hits)
        rows = zip(before, values, estimates[0], deviations[0], hits.mean(axis=0), strict=True)
        for k, (old, x, estimate, deviation, share) in enumerate(rows):
            label = f"{name}[{k}]" if len(values) > 1 else name
            print(f"{label:14} {old:9.4f} {x:9.4f} {estimate:10.4f} +- {deviation:7.4f} {share:8.1%}")
    share = np.concatenate(inside, axis=1).mean()
    print(f"{share:.1%} of all intervals of 95 % contain the true value")
    return found, true, forces


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
