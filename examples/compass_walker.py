"""The compass walker of Goswami, Thuilot and Espiau: a gait without drives, and how its period doubles.

The walker has two straight legs, each with a mass in its middle, and a mass twice as large at the hip. It
walks down a slope without drives. The gait at 3 degrees is found as a periodic orbit. Over the slope its
period doubles again and again.

    python examples/compass_walker.py branches.png

Goswami, Thuilot, Espiau (1998), A study of the passive gait of a compass-like biped robot, Int. J. Robotics
Research 17(12), with mass ratio 2 and length ratio 1.
"""

import sys

import numpy as np

import liebody as lb
from liebody.gaits import continuation, floquet, periodic_orbit, switch_branch
from liebody.scalars import cos, sin, where
from liebody.scalars.linear import solve

LEG, HIP, A, B, G = 5.0, 10.0, 0.5, 0.5, 9.81  # masses [kg]; distances foot to mass, mass to hip [m]
L, MASSES = A + B, (LEG, HIP, LEG)
GUESS = {"q0": [0.2187, -0.3235], "v0": [-1.0918, -0.3772], "period": 0.73}
STEPS = {"dt": 5e-3, "method": "rkmk8"}


def masses(q):
    """Positions (3, 2) of stance leg, hip and swing leg from the stance foot, and Jacobians (3, 2, 2).

    q = (stance, swing): angles of the legs from the vertical, counter-clockwise.
    """
    e, de = ([np.array(x) for x in xs] for xs in zip(*(((-sin(a), cos(a)), (-cos(a), -sin(a))) for a in q)))
    none = np.zeros(2, int)
    positions = [A * e[0], L * e[0], L * e[0] - B * e[1]]
    columns = [(A * de[0], none), (L * de[0], none), (L * de[0], -B * de[1])]
    return positions, [np.stack(x, axis=1) for x in columns]


def swing(t, q, v, z, p):
    """dv/dt of the legs about the stance foot: M dv/dt = sum of J^T m (g - dJ/dt v)."""
    _, J = masses(q)
    M = sum(m * j.T @ j for m, j in zip(MASSES, J))
    centripetal = [np.array([sin(a), -cos(a)]) * w * w for a, w in zip(q, v)]
    rates = [A * centripetal[0], L * centripetal[0], L * centripetal[0] - B * centripetal[1]]
    force = sum(m * j.T @ (np.array([0, -G]) - a) for m, j, a in zip(MASSES, J, rates))
    return solve(M, force)


def moments(positions, velocities, about):
    """Angular momentum of each mass about a point."""
    return [
        m * ((x - about)[0] * u[1] - (x - about)[1] * u[0]) for m, x, u in zip(MASSES, positions, velocities)
    ]


def heel_strike(q, v):
    """The legs change places; momenta about the new foot, and of the trailing leg about the hip, are kept."""
    x, J = masses(q)
    foot = L * np.array([sin(q[1]) - sin(q[0]), cos(q[0]) - cos(q[1])])
    before = moments(x, [j @ v for j in J], foot), moments(x, [j @ v for j in J], x[1])
    x, J = masses(q[::-1])
    columns = [[j[:, k] for j in J] for k in range(2)]
    (a, b), (c, d) = ([sum(moments(x, u, np.zeros(2, int))) for u in columns],
                      [moments(x, u, x[1])[2] for u in columns])  # fmt: skip
    whole, trailing = sum(before[0]), before[1][0]
    return q[::-1], np.array([d * whole - b * trailing, a * trailing - c * whole]) / (a * d - b * c)


def update(t, q, v, z, p, events):
    after = heel_strike(q, v)
    q, v = (np.array([where(events.strike < 0, b, a) for a, b in zip(*x)]) for x in zip((q, v), after))
    return q, v, z


walker = lb.HybridSystem(
    lb.groups.R(2),
    swing,
    parameters={"slope": np.radians(3.0)},
    guards=lambda t, q, v, z, p: {"strike": q[0] + q[1] + 2 * p.slope},  # the swing foot is on the slope
    directions={"strike": -1},
    update=update,
    name="compass walker",
)


def doublings(gait, number):
    """The gait over the slope, and the branches that begin at flips, one from the other."""
    steps, upper = np.radians([0.3, 0.05, 0.01]), np.radians(5.2)
    branches = [continuation(gait, "slope", step=steps[0], bounds=(np.radians(0.5), upper))]
    for step in steps[1:number]:
        flip = next(x for x in branches[-1].bifurcations if x.kind == "flip")
        doubled = switch_branch(flip, "slope", 0.02)
        branches.append(continuation(doubled, "slope", step=step, bounds=(0.0, upper)))
    return branches


def main(path=None):
    gait = periodic_orbit(walker, **GUESS, section="strike", **STEPS)
    print(gait)
    print(floquet(gait))
    branches = doublings(gait, 3)
    print("period doublings at", [f"{np.degrees(x.value):.5f} deg" for b in branches for x in b.bifurcations])
    if path is not None:
        angles = "stance leg after heel strike [rad]"
        branches[0].plot(path, *branches[1:], of=lambda orbit: orbit.nodes[0][:, 0], label=angles)


if __name__ == "__main__":
    main(*sys.argv[1:2])
