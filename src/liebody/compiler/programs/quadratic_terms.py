"""The data, the solution and the error measures of a quadratic program, and rows of equal size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Measures(NamedTuple):
    """How well a quadratic program has been solved.

    iterations  how many were made
    dual        error of stationarity, relative to its terms
    primal      largest error of a row that is scaled to a largest entry of 1, relative to |x|
    gap         sum of products of multipliers and distances from bounds, relative to the terms of the cost
    solved      1 if all three are within the tolerance, otherwise 0
    """

    iterations: Any
    dual: Any
    primal: Any
    gap: Any
    solved: Any


class Data(NamedTuple):
    """The numbers of a quadratic program; see `Minimizer`."""

    H: Any
    g: Any
    A: Any
    b: Any
    weight_a: Any
    C: Any
    l: Any
    u: Any
    weight_c: Any
    scale: Any


class Minimum(NamedTuple):
    """The solution of a quadratic program; see `Minimizer`."""

    x: Any
    y: Any
    z: Any
    slack_a: Any
    slack_c: Any
    measures: Any


def scaled_rows(rows: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Rows with largest entries of 1, what they were divided by, and their weights."""
    size = np.abs(rows).max(axis=1, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    return rows / size[:, None], size, weight * size * size
