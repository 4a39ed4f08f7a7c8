"""Linear recurrences x_(k+1) = M_k x_k + b_k, compiled: the march, with a step that is this map."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..compiler import trace
from .flow import Flow
from .records import Coefficients
from .samples import Samples

LONGEST = 40  # entries of x up to which the map is a straight line in C
MAP = Coefficients(((0, ()), (0, (((0, 1.0),),))), (0.0,), False)  # y -> advance(y, field(k, y, u))


def recurrence(M: Any, b: Any, x: Any) -> np.ndarray:
    """x_0, x_1, ... (n, steps + 1, size).

    M  (n, steps, size, size)
    b  (n, steps, size)
    x  x_0, (n, size)
    """
    n, steps, size = b.shape
    found = np.empty((n, steps + 1, size))
    found[:, 0] = x
    if size > LONGEST:
        for k in range(steps):
            found[:, k + 1] = (M[:, k] @ found[:, k, :, None])[..., 0] + b[:, k]
    elif found[:, 1:].size:
        table = np.concatenate([b, M.reshape(n, steps, size * size)], axis=-1)
        failed = np.zeros(n, np.int64)
        _flow(size).steps(found[:, 0].copy(), Samples(table), 0.0, 1.0, steps, 1, found, 1, failed)
    return found


@cache
def _flow(size: int) -> Flow:
    """Steps of length 1 that take a state to the map of it; the map stands in samples, held for a step."""

    def mapped(t: Any, y: Any, u: Any) -> Any:
        return u[size:].reshape(size, size) @ y + u[:size]

    shapes: dict[str, Any] = {"t": (), "y": size, "u": size + size * size}
    field = trace(mapped, shapes, "field")
    advance = trace(lambda y, psi: psi, {"y": size, "psi": size}, "advance")
    return Flow(lambda: field, lambda: advance, None, MAP)
