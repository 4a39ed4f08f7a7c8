"""Recordings: what was measured of a motion, with its noise, and how a model's motion differs from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import floats, wrong_shape
from ..base.errors import ModelError, ShapeError, known
from ..scalars import Array


@dataclass(frozen=True)
class Recording:
    """A recorded motion.

        Recording(t, {"q": angles}, noise={"q": 1e-4}, q0=angles[0], tau=(t, efforts))

    t         times of the samples, increasing from 0 (n,)                                             [s]
    measured  signals by name, (n, ...): "q" (n, nq), "v" (n, nv), and names that `signals` of `fit` returns,
              such as accelerations of an IMU or the position of a marker. NaN: not measured
    noise     standard deviation of each signal: a number, or one for each entry of a sample. For q of a
              quaternion it belongs to the rotation vector, one for each velocity
    q0, v0    the state at the start; v0 = None: at rest. Both may be free in `fit`
    tau       efforts: a constant (nu,), samples (times, values), or a controller (t, q, v) or (t, q, v, p) of
              NumPy operators, as in `lb.simulate`
    hold      between samples of the efforts: "zero" or "linear"
    name      for messages and tables

    Raises ShapeError and ModelError for arrays that do not fit together.
    """

    t: Array
    measured: Mapping[str, Array]
    noise: Mapping[str, Any]
    q0: Array = None
    v0: Array = None
    tau: Any = None
    hold: str = "zero"
    name: str = "recording"

    def __post_init__(self) -> None:
        t = floats("t", self.t)
        if t.ndim != 1 or len(t) < 2 or t[0] != 0 or not (np.diff(t) > 0).all():
            raise ShapeError(
                f"{self.name}: t has shape {t.shape}, expected two times or more, increasing from 0"
            )
        object.__setattr__(self, "t", t)
        if not self.measured:
            raise ModelError(f"{self.name} measures nothing; give signals, such as measured={{'q': angles}}")
        unknown = [name for name in self.noise if name not in self.measured]
        if unknown:
            raise ModelError(
                f"{self.name}: there is noise of {unknown[0]!r}, which is not measured; "
                f"{known(self.measured, unknown[0])}"
            )
        measured = {}
        for name, values in self.measured.items():
            array = floats(f"{self.name}: {name}", values, finite=False)
            if array.ndim < 1 or len(array) != len(t):
                raise wrong_shape(
                    f"{self.name}: {name}", array.shape, f"({len(t)}, ...), a row for each time"
                )
            if name not in self.noise:
                raise ModelError(
                    f"{self.name}: the noise of {name!r} is missing; give its standard deviation, such as "
                    f"noise={{{name!r}: 1e-3}}"
                )
            deviation = floats(f"{self.name}: noise of {name}", self.noise[name])
            if not (deviation > 0).all():
                raise ModelError(
                    f"{self.name}: the noise of {name!r} is {deviation}, expected positive numbers"
                )
            measured[name] = array
        object.__setattr__(self, "measured", measured)


@dataclass(frozen=True)
class Residual:
    """Measured less modelled, of one signal of a recording, in units of the noise.

    values      (n, entries), NaN where nothing was measured
    derivative  by the coordinates, (n, entries, coordinates)
    """

    values: np.ndarray
    derivative: np.ndarray


Signals = Callable[..., Mapping[str, Any]]
"""(t, q, v, p) -> {name: signal}"""
