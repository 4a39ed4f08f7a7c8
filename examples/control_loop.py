"""A control loop of 1 kHz in plain Python: a cart with a pole, state feedback, an observer, and a push.

    python examples/control_loop.py

The plant is a stepper. In each cycle of the loop it receives the force that the controller holds for 1
ms. The controller is plain Python, as it would run on hardware; nothing is traced. An encoder with 4096
counts per revolution measures the pole's angle, another one the cart's position. An observer estimates
the state from them. Linear-quadratic feedback gives the force, which is limited. After a second a push
acts on the pole for 50 ms.
"""

from __future__ import annotations

import time

import numpy as np

import liebody as lb
from liebody.bodies import SpatialInertia, TreeBuilder
from liebody.groups import Prismatic, Revolute

DT, MOST = 1e-3, 20.0  # s, N
COUNT = np.array([1e-4, 2 * np.pi / 4096])  # m, rad: resolution of the encoders


def cart_pole():
    """A cart of 1 kg on a rail along x, and a rod of 0.2 kg and 0.6 m, upright at q = 0."""
    rod = SpatialInertia.rod(0.2, 0.6, axis=2, com=[0, 0, 0.3])
    tree = TreeBuilder("cart_pole").add("cart", Prismatic((1, 0, 0)), SpatialInertia.point(1.0))
    return lb.Robot(tree.add("pole", Revolute((0, 1, 0)), rod, "cart").build())


def main(seconds: float = 4.0):
    robot = cart_pole()
    linear = lb.linearize(robot, np.zeros(2), dt=DT)
    A, B = linear.A, linear.B[:, :1]  # the force on the cart alone
    K, _ = lb.lqr(linear._replace(B=B), Q=np.diag([10.0, 100.0, 1.0, 1.0]), R=np.array([[0.1]]))
    C = np.eye(2, 4)  # places are measured; the observer is the dual regulator
    dual = linear._replace(A=A.T, B=C.T)
    L = lb.lqr(dual, Q=np.diag([1e-8, 1e-6, 1e-2, 1e-1]), R=np.diag(COUNT**2)).K.T

    plant = lb.stepper(robot, dt=DT)
    state, x = plant.start([0.1, 0.15]), np.zeros(4)
    angles, slowest, start = [], 0.0, time.perf_counter()
    for k in range(round(seconds / DT)):
        begun = time.perf_counter()
        measured = COUNT * np.round(state.q / COUNT)
        force = np.clip(-K @ x, -MOST, MOST)
        x = A @ x + B @ force + L @ (measured - C @ x)
        push = 0.3 if 1.0 <= k * DT < 1.05 else 0.0  # N m on the pole
        state = plant.step(state, [force[0], push])
        angles.append(state.q[1])
        slowest = max(slowest, time.perf_counter() - begun)
    took = time.perf_counter() - start

    angles = np.degrees(angles)
    pushed, end = np.abs(angles[1000:2000]).max(), np.abs(angles[-500:]).max()
    print(f"the push turns the pole by {pushed:.1f} deg; in the end it stays within {end:.2f} deg")
    print(f"{seconds:g} s of a loop of 1 kHz took {took:.3f} s; a turn {1e6 * took * DT / seconds:.0f} us, "
          f"the slowest {1e6 * slowest:.0f} us")  # fmt: skip
    return angles


if __name__ == "__main__":
    main()
