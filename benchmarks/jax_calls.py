"""Calls of JAX beside those on NumPy arrays: 1024 states by vmap and jit, and the batch call.

    python benchmarks/jax_calls.py

Each ratio is the median over pairs of calls in one process, one thread for the kernels on both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from machine import absent, describe, keep, seconds, unless_quick

import liebody as lb

try:
    import jax

    import liebody.interop.jax
except ModuleNotFoundError as error:
    absent(error)

STATES, PAIRS = unless_quick((1024, 500), (64, 2))
CALLS = {"inverse_dynamics": 3, "forward_dynamics": 3, "inverse_dynamics_derivatives": 3}


def timed(call: Callable[..., Any], arrays: Iterable[Any]) -> float:
    return seconds(lambda: jax.block_until_ready(call(*arrays)), clock=time.perf_counter)


def main() -> None:
    print(describe("jax", "numpy"))
    jax.config.update("jax_enable_x64", True)
    rng, robot = np.random.default_rng(0), lb.load("puma560")
    functions = liebody.interop.jax.RobotFunctions(robot)
    print(f"{robot.name}, {STATES} states   jit(vmap) [us]   batch [us]   ratio")
    for name, count in CALLS.items():
        arrays = rng.normal(size=(count, STATES, robot.nv))
        theirs = [jax.device_put(x) for x in arrays]
        mapped, batch = jax.jit(jax.vmap(getattr(functions, name))), getattr(robot, name)
        for _ in range(3):
            timed(mapped, theirs), timed(batch, arrays)
        pairs = np.array([(timed(mapped, theirs), timed(batch, arrays)) for _ in range(PAIRS)])
        keep(name, seconds=pairs[:, 0], ratio=pairs[:, 1] / pairs[:, 0])
        a, b = 1e6 * np.median(pairs, axis=0)
        print(f"{name:30} {a:12.1f} {b:12.1f} {np.median(pairs[:, 0] / pairs[:, 1]):7.2f}")


if __name__ == "__main__":
    main()
