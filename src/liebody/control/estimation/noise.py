"""The noise of sensors and contacts, which weighs what a filter measures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...base.arguments import floats, wrong_shape
from ...base.errors import ModelError
from ...scalars import Array


@dataclass(frozen=True, eq=False)
class FilterNoise:
    """Densities of white noise and deviations, of `InvariantFilter`; numbers, or an array over axes.

    gyroscope           density of the angular velocity, in the axes of the IMU            [rad/s / sqrt(Hz)]
    accelerometer       density of the specific force, likewise                            [m/s2 / sqrt(Hz)]
    contact             density of the velocity of a foot that touches, in the axes of the world: it slips,
                        and rolls over its point                                           [m/s / sqrt(Hz)]
    encoder             deviation of a joint's coordinate, a number or (nj,)               [rad, m]
    gyroscope_bias      density of the drift of its bias                                   [rad/s2 / sqrt(Hz)]
    accelerometer_bias  density of the drift of its bias                                   [m/s3 / sqrt(Hz)]
    kinematics          deviation of a foot's place from what the joints say, in the axes of the IMU: lengths
                        that are not exact, and links that bend                            [m]

        noise = FilterNoise(gyroscope=1e-3, accelerometer=1e-2, contact=[0.02, 0.02, 0.01], encoder=1e-3)

    An array (3,) has a value for each axis. Further leading axes are lanes: each filter of a batch has its
    own noise then. A sensor with deviation s at the rate f has the density s / sqrt(f).

    Raises ShapeError for other shapes, ConfigurationError for NaN and infinity, ModelError for values below
    zero, and for zeros of the first four: the filter would trust these without bounds.
    """

    gyroscope: Any
    accelerometer: Any
    contact: Any
    encoder: Any
    gyroscope_bias: Any = 0.0
    accelerometer_bias: Any = 0.0
    kinematics: Any = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = floats(field.name, getattr(self, field.name))
            may_vanish = field.name in ("gyroscope_bias", "accelerometer_bias", "kinematics")
            if (value < 0).any() or not (may_vanish or (value > 0).all()):
                words = "zero or more" if may_vanish else "a positive number"
                raise ModelError(f"{field.name} is {value.min():.6g}, expected {words}")
            # a filter keeps the values that it was given
            value = value.copy()
            value.setflags(write=False)
            object.__setattr__(self, field.name, value)

    def flat(self, joints: int) -> Array:
        """All values in a row, (..., 18 + nj), in the order of `equations.Noise`."""
        sizes = dict.fromkeys((field.name for field in fields(self)), 3) | {"encoder": joints}
        order = [name for name in sizes if name not in ("contact", "encoder", "kinematics")]
        order += ["contact", "kinematics", "encoder"]
        values = []
        for name in order:
            value = getattr(self, name)
            if value.ndim and value.shape[-1] != sizes[name]:
                raise wrong_shape(name, value.shape, f"a number or (..., {sizes[name]})")
            values.append(np.broadcast_to(value, (*value.shape[:-1], sizes[name])))
        lanes = np.broadcast_shapes(*(x.shape[:-1] for x in values))
        return np.concatenate([np.broadcast_to(x, (*lanes, x.shape[-1])) for x in values], axis=-1)
