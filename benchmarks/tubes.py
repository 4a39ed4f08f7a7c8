"""How long proved simulations take, and how wide their tubes are at most: processor time.

    python benchmarks/tubes.py

The first call of each compiles and is not counted.
"""

import time

import numpy as np
from machine import describe, unless_quick

import liebody as lb


def tubes():
    """Name and arguments of each tube."""
    oscillator = lb.HybridSystem(
        lb.groups.R(1),
        lambda t, q, v, z, p: np.array([p.mu * (1 - q[0] ** 2) * v[0] - q[0]]),
        parameters={"mu": 1.0},
        name="van der Pol",
    )
    pendulum = lb.models.double_pendulum()
    rest = [0.0, 0.0]
    box = [(1.0, 1.001), 0.5]
    mass = {"parameters": {"link2.mass": ("0.9999", "1.0001")}}
    yield "van der Pol, one period", (oscillator, [2.0], [0.0], 6.6632868), {}
    yield "... q[0] within +- 1e-3", (oscillator, [(1.999, 2.001)], [0.0], 6.6632868), {}
    yield "double pendulum, 3 s", (pendulum, [1.0, 0.5], rest, 3.0), {}
    yield "... 2 s, an angle within +- 5e-4", (pendulum, box, rest, 2.0), {}
    yield "... 1 s, a mass within +- 1e-4", (pendulum, [1.0, 0.5], rest, 1.0), mass
    if unless_quick(True, False):
        arm = lb.models.puma560()
        yield "arm of six joints, 0.2 s", (arm, np.full(6, 0.3), np.zeros(6), 0.2), {}


def main():
    print(describe("numpy"))
    print(f"{'motion':34} {'steps':>5} {'time':>8}  width")
    for name, arguments, options in tubes():
        lb.enclose(*arguments, **options)
        before = time.process_time()
        tube = lb.enclose(*arguments, **options)
        took = time.process_time() - before
        print(f"{name:34} {len(tube.boxes):5} {took:6.2f} s  {tube.width:.1e}")


if __name__ == "__main__":
    main()
