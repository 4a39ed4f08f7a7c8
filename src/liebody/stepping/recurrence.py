"""Linear recurrences x_(k+1) = M_k x_k + b_k, compiled: a flow whose step is this map."""

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
    states = np.empty((n, steps + 1, size))
    states[:, 0] = x
    if size > LONGEST:
        for k in range(steps):
            states[:, k + 1] = (M[:, k] @ states[:, k, :, None])[..., 0] + b[:, k]
    elif states[:, 1:].size:
        # M_k and b_k are the efforts of step k: samples that are held, one for each step of length 1
        table = np.concatenate([b, M.reshape(n, steps, size * size)], axis=-1)
        failed = np.zeros(n, np.int64)
        _flow(size).steps(states[:, 0].copy(), Samples(table), 0.0, 1.0, steps, 1, states, 1, failed)
    return states


@cache
def _flow(size: int) -> Flow:
    """Steps of length 1 that apply the map u = (b, M) to the state."""

    def mapped(t: Any, y: Any, u: Any) -> Any:
        return u[size:].reshape(size, size) @ y + u[:size]

    shapes: dict[str, Any] = {"t": (), "y": size, "u": size + size * size}
    field = trace(mapped, shapes, "field")
    advance = trace(lambda y, psi: psi, {"y": size, "psi": size}, "advance")
    return Flow(lambda: field, lambda: advance, None, MAP)
