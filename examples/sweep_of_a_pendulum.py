"""Inverted pendulums that stand because their pivots shake: a sweep over frequency and amplitude, 9216 runs.

    python examples/sweep_of_a_pendulum.py [picture.png]

The pivot moves up and down by amplitude cos(w t). Each pendulum starts 3 deg from upright, without
friction, and its run ends when it is level. The picture shows the time of the fall over frequency and
amplitude, beside

    Kapitza's condition        (amplitude w)^2 > 2 g l, for shaking that is fast and small
    the edges of stability     of the linear equation (Mathieu's), where its monodromy has the trace +2 or -2

The results are in the folder pendulums.zarr. Stop the script (Ctrl-C, or kill -9) and start it again: it
continues where it stopped.

Kapitza (1951), "Dynamic stability of a pendulum with an oscillating point of suspension"; Butikov (2001), "On
the dynamic stabilization of an inverted pendulum", Am. J. Phys. 69.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import liebody as lb
from liebody import scalars
from liebody.groups import R
from liebody.hybrid import HybridSystem

Array = Any
LENGTH, GRAVITY = 0.2, 9.81  # [m], [m/s2]
START = np.deg2rad(3.0)  # from upright [rad]
STEPS = 48  # of RK4 in a period of the pivot


def turning(t: Any, frequency: Any, amplitude: Any) -> Any:
    """(g - acceleration of the pivot downwards) / l: the angular acceleration is this times sin(angle)."""
    w = 2 * np.pi * frequency
    return (GRAVITY - amplitude * w**2 * scalars.cos(w * t)) / LENGTH


PENDULUM = HybridSystem(
    R(1),
    lambda t, q, v, z, p: turning(t, p.frequency, p.amplitude) * scalars.sin(q),
    parameters={"frequency": 20.0, "amplitude": 0.02},
    step=lambda t, q, v, z, p: 1 / (STEPS * p.frequency),
    stop=lambda t, q, v, z, p: scalars.absolute(q[0]) - np.pi / 2,
    name="pendulum",
)


def monodromy_trace(frequency: Array, amplitude: Array) -> Array:
    """Trace of the monodromy matrix of small (angle, rate) over a period; stable where it is in (-2, 2)."""
    shape = np.broadcast_shapes(np.shape(frequency), np.shape(amplitude))
    h, x = 1 / (STEPS * frequency), [np.ones(shape), np.zeros(shape), np.zeros(shape), np.ones(shape)]
    y = np.stack(x).reshape(2, 2, *shape)  # (angle, rate) of two solutions

    def rate(t: Array, y: Array) -> Array:
        return np.stack([y[1], turning(t, frequency, amplitude) * y[0]])

    for i in range(STEPS):
        t = i * h
        k1 = rate(t, y)
        k2 = rate(t + h / 2, y + h / 2 * k1)
        k3 = rate(t + h / 2, y + h / 2 * k2)
        k4 = rate(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y[0, 0] + y[1, 1]


def main(
    picture: str | None = None, store: str = "pendulums.zarr", n: int = 96, t_end: float = 10.0, **how: Any
) -> Any:
    """The sweep, an xarray Dataset."""
    axes = {"amplitude": np.linspace(0.002, 0.13, n), "frequency": np.linspace(5.0, 40.0, n)}
    units = {"amplitude": "m", "frequency": "Hz"}
    ds = lb.sweep(
        PENDULUM,
        axes,
        store,
        q0=[START],
        t_end=t_end,
        record_every=t_end,
        outputs=["q"],
        units=units,
        **how,
    )
    standing = ds.status == 1
    theory = np.abs(monodromy_trace(ds.frequency.values, ds.amplitude.values[:, None])) < 2
    print(f"{standing.sum().item()} of {standing.size} stand for {t_end:g} s")
    print(f"{100 * (standing == theory).mean().item():.1f} % as the linear equation says")
    if picture is not None:
        draw(ds, picture, t_end)
    return ds


def draw(ds: Any, picture: str, t_end: float) -> None:
    """Time of the fall over frequency and amplitude."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    f, a = ds.frequency.values, ds.amplitude.values
    fell = ds.end_time.where(ds.status == 2).values
    norm = LogNorm(0.05, t_end)
    mesh = axes.pcolormesh(f, 1e3 * a, fell, cmap="viridis_r", norm=norm, shading="nearest")
    figure.colorbar(mesh, ax=axes, label="time until it is level [s]; white: it stands")
    finer = np.linspace(f[0], f[-1], 400), np.linspace(a[0], a[-1], 400)
    trace = monodromy_trace(finer[0], finer[1][:, None])
    axes.contour(finer[0], 1e3 * finer[1], trace, levels=[-2, 2], colors="tab:red", linestyles="solid")
    kapitza = np.sqrt(2 * GRAVITY * LENGTH) / (2 * np.pi * finer[0])
    axes.plot(finer[0], 1e3 * kapitza, "k--", label="Kapitza: (amplitude w)² = 2 g l")
    axes.plot([], [], color="tab:red", label="edges of stability of the linear equation")
    axes.set(
        xlabel="frequency of the pivot [Hz]", ylabel="its amplitude [mm]", ylim=(1e3 * a[0], 1e3 * a[-1])
    )
    axes.set_title("A pendulum of 200 mm on its head, from 3 deg")
    axes.legend(loc="upper right")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:2])
