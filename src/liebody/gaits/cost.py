"""The cost of transport of a gait: the work of its drives over its weight and the distance."""

from __future__ import annotations

import numpy as np

from ..base.arguments import count
from ..base.errors import ConfigurationError
from ..hybrid import RobotSystem
from .orbit import PeriodicOrbit
from .segments import Array


def cost_of_transport(orbit: PeriodicOrbit, samples: int = 2000) -> float:
    """The positive mechanical work of all drives over weight and distance, without a unit.

        c = sum over coordinates of the integral of max(tau_i v_i, 0) dt / (m g d)

    Work that a drive takes in is lost. The integral is a sum over samples of one period, with the efforts
    tau of the controllers, which may jump at events, and the distance d between the places of the centre of
    mass at its ends. The weight m g follows from the potential energy, so it has the orbit's parameters.

    orbit    of a `hybrid.RobotSystem`
    samples  of one period

    returns  infinity for an orbit that ends where it starts; and in a world without gravity

    Errors: ConfigurationError for an orbit of another system.
    """
    if not isinstance(orbit.system, RobotSystem):
        raise ConfigurationError(
            f"{orbit.system.name} is no system of a robot, whose drives and weight are known; write a "
            "function of orbit.simulate() for it"
        )
    samples = count("samples", samples)
    gravity = np.asarray(orbit.system.gravity, float)
    size = float(np.linalg.norm(gravity))
    if size == 0.0:
        return np.inf
    run = orbit.simulate(record_every=orbit.period / samples)
    height = -run.outputs["com"] @ gravity / size
    # U = m g h along the whole motion
    low, high = np.argmin(height), np.argmax(height)
    potential = run.outputs["potential_energy"]
    rise = height[high] - height[low]
    weight = (potential[high] - potential[low]) / rise if rise > 0 else 0.0
    distance = np.linalg.norm(run.outputs["com"][-1] - run.outputs["com"][0])
    power = np.maximum(run.outputs["efforts"] * run.v, 0.0).sum(axis=1)
    work = integral(run.t, power, run.events.t)
    return work / (weight * distance) if weight * distance > 0 else np.inf


def integral(t: Array, y: Array, jumps: Array) -> float:
    """The integral of samples y (n,) at times t (n,), which may jump at some other times.

    Trapezoids; in an interval with jumps, y has its start's value until the first jump, and its end's value
    from the last jump on.
    """
    parts = (y[1:] + y[:-1]) / 2 * np.diff(t)
    inside = jumps[(jumps > t[0]) & (jumps < t[-1])]
    which = np.searchsorted(t, inside, side="right") - 1
    for k in np.unique(which):
        first, last = inside[which == k].min(), inside[which == k].max()
        between = (y[k] + y[k + 1]) / 2 * (last - first)
        parts[k] = y[k] * (first - t[k]) + between + y[k + 1] * (t[k + 1] - last)
    return float(parts.sum())
