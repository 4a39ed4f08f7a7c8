"""Gradients through simulations beside the simulations themselves, one thread, float64.

    python benchmarks/sensitivities.py

A Puma 560 for 1 s of rkmk4 with h = 1 ms, efforts sampled at every step (6006 numbers): alone, and as an
ensemble. All calls run alternately in this process. Medians of processor times over the rounds: microseconds
per step of a member, and ratios to `simulate`. "gradient": simulate, and the derivatives by the initial state
and all efforts. "backwards", "forwards": one more such product, once the derivatives of the steps are known.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from machine import describe, keep, seconds, unless_quick

import liebody as lb
from liebody.simulation.simulate import PassedLimits

STEPS, ROUNDS = 1000, unless_quick(15, 1)


def compare(members: int) -> None:
    robot, rng = lb.models.puma560(), np.random.default_rng(0)
    q0 = rng.normal(size=(members, 6)) if members > 1 else rng.normal(size=6)
    times = np.linspace(0, 1, STEPS + 1)
    tau = rng.normal(size=(STEPS + 1, 6))
    options = {"tau": (times, tau), "t_end": 1.0, "dt": 1e-3, "record_every": 0.1}
    change = np.broadcast_to(tau, (*q0.shape[:-1], *tau.shape))
    weights = rng.normal(size=(2, *q0.shape[:-1], 11, 6))

    def made() -> Any:
        return lb.sensitivities(robot, q0, **options)

    known = made()
    known.vjp(*weights)
    calls: dict[str, Callable[[], object]] = {
        "simulate": lambda: lb.simulate(robot, q0, **options),
        "gradient": lambda: made().vjp(*weights),
        "backwards": lambda: known.vjp(*weights),
        "forwards": lambda: known.jvp(tau=change),
    }
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            spent[name].append(seconds(call))
    base = median(spent["simulate"])
    print(f"{members} member(s)")
    for name, times in spent.items():
        found = median(times)
        each = [x / STEPS / members for x in times]
        keep(f"{name}, {members}", seconds=each)
        print(f"  {name:22} {1e6 * found / STEPS / members:8.2f} us   {found / base:6.1f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", PassedLimits)
    print(describe("numpy"))
    for members in (1, 16):
        compare(members)
