"""Variables with named dimensions: how a run stands in a file, in a Dataset, and in a table.

A variable is (dimensions, values, attributes). Entries along a dimension have their names in a variable
called as the dimension, and their units in one called so with `_units`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bodies.labels import Labels

Variables = dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]
"""Name -> dimensions, values, attributes."""

UNITS = "_units"  # the name of a dimension and this: the units of the entries along it
OF_FORCE = "force_"  # and its name: a force's variable in a file
OF_PARAMETER = "parameter_"  # likewise


def axes_of(batch: tuple[int, ...]) -> tuple[str, ...]:
    """The names of the dimensions of a batch of this shape."""
    return ("batch",) if len(batch) == 1 else tuple(f"batch_{i}" for i in range(len(batch)))


def with_own_axes(name: str, x: Any, axes: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    """Dimensions and values of a variable with these first axes; further axes are called after it."""
    x = np.asarray(x)
    return (*axes, *(f"{name}_{i}" for i in range(x.ndim - len(axes)))), x


def named_in(variables: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The variables whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): x for name, x in variables.items() if name.startswith(prefix)}


def label_variables(dimension: str, labels: Labels) -> Variables:
    """The names and the units of the entries along a dimension, as two variables."""
    both = {"name": (dimension, labels.names), "unit": (dimension + UNITS, labels.units)}
    return {
        variable: ((dimension,), np.array(texts, dtype=object), {"long_name": f"{what} of the {dimension}"})
        for what, (variable, texts) in both.items()
    }


def labels_of(variables: Mapping[str, np.ndarray], dimension: str) -> Labels:
    """The labels that `label_variables` has made variables of."""
    return Labels(texts_in(variables, dimension), texts_in(variables, dimension + UNITS))


def texts_in(variables: Mapping[str, np.ndarray], name: str) -> tuple[str, ...]:
    """The texts of a variable; raises TypeError for numbers, of which there may be very many."""
    if variables[name].dtype != object:
        raise TypeError(f"{name} holds {variables[name].dtype}, expected text")
    return tuple(variables[name])
