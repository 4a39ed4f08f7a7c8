"""Parameters of a simulation: constant for each member of an ensemble, or sampled over time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base.arguments import floats
from ..base.errors import ConfigurationError
from ..compiler.programs.layout import FlatLayout
from ..stepping import Samples
from ..stepping.samples import equidistant, is_linear


class ParametersOverTime:
    """Values of parameters that differ from the defaults in a simulation.

    constant  {name: values (..., *shape)}
    sampled   {name: (times (samples,), values (..., samples, *shape))}
    layout    names, shapes and defaults of all parameters

    Errors: ConfigurationError for samples that are no pair, and for a name in both dictionaries.
    """

    def __init__(self, constant: dict[str, Any], sampled: dict[str, Any], layout: FlatLayout) -> None:
        for name, pair in sampled.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigurationError(f"sampled {name} is {pair!r}, expected a pair (times, values)")
            if name in constant:
                raise ConfigurationError(
                    f"{name} is given in parameters and in sampled; leave one of them out"
                )
            if name in layout.tables:
                raise ConfigurationError(
                    f"{name} is a table in memory, which cannot be sampled over time; give it in parameters, "
                    "and simulate from one change of it to the next"
                )
        self.layout = layout
        self.constant = layout.with_tables(constant)
        self.sampled = {name: values for name, (_, values) in sampled.items()}
        self.times = {name: floats(f"times of {name}", times) for name, (times, _) in sampled.items()}

    @property
    def batches(self) -> dict[str, tuple[int, ...]]:
        """Leading axes of each value, which are the axes of the ensemble."""
        return self.layout.batches(self.constant) | self.layout.batches(self.sampled, own=1)

    def samples(self, hold: str, batch: tuple[int, ...], dt: float) -> Samples:
        """Table of all parameters of each member over time; its last column is the step dt."""
        linear = is_linear(hold)
        # One table holds all parameters, so that all sampled ones need the same times. Constant parameters
        # alone make a table with one row.
        first, interval, rows = 0.0, 1.0, 1
        names = list(self.times)
        for name, times in self.times.items():
            if not np.array_equal(times, self.times[names[0]]):
                raise ConfigurationError(
                    f"{names[0]} and {name} are sampled at different times; resample one of them, for "
                    "instance with numpy.interp"
                )
            first, interval = equidistant(name, times)
            rows = len(times)
        # The axis of samples stands behind the axes of the ensemble. Constant values of an ensemble get an
        # axis of length 1 there, which `values` broadcasts.
        values = dict(self.sampled)
        for name, value in self.constant.items():
            extra = len(self.layout.batches({name: value}).get(name, ()))
            values[name] = np.expand_dims(value, extra) if extra > 0 else value
        table = self.layout.values(values, (*batch, rows), dt)
        table = table.reshape(math.prod(batch), rows, self.layout.size + 1)
        kept = tuple(self.constant.get(name, self.layout.defaults[name]) for name in self.layout.tables)
        return Samples(np.ascontiguousarray(table), first, interval, linear, kept)
